"""Ask the model about everybody once, count, and compare groups."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.errors import DataError, OptionError
from evenhand.groups.gaps import gaps
from evenhand.groups.membership import Membership, of_attribute, of_values
from evenhand.groups.metrics import counts, metrics
from evenhand.groups.result import SMALL, Breakdown, CalibrationBin, Group, GroupMetrics
from evenhand.groups.tally import TENTHS, Tally, combine, count
from evenhand.models import Scorer, favourable_score, predict
from evenhand.schema import People
from evenhand.stats import Quantity, auc, observed_rates

ROUNDING = 1e-6
"""Scores may leave [0, 1] by this much, as softmax in single precision does."""

LABELS_ONLY = "the model gives labels, no scores"
NO_SCORES = "no scores were given"
NO_PROBABILITIES = "the scores are no probabilities: some lie outside 0 to 1"


@dataclass(frozen=True)
class Config:
    """Settings of the group metrics.

    Attributes:
        confidence: of every interval.
        seed: kept in the result; nothing here is drawn at random.
    """

    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, not {self.confidence:g}")


def run(
    scorer: Scorer,
    people: People,
    *,
    protected: Sequence[str] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> GroupMetrics:
    """Performance and group metrics of a model on people with known labels.

    The model is asked for everybody's label and score once, in batches; the rest is counting.

    Args:
        protected: attributes to group by, each alone and then all together; by default the schema's. An integer with
            many values is cut into at most five ranges.
        confidence: of every interval.
        seed: kept in the result; nothing is drawn at random.

    Raises:
        OptionError: no attribute is protected, or one is a real number.
        SchemaError: there is no attribute of that name.
        DataError: the people have no true labels.
    """
    started = time.perf_counter()
    config = Config(confidence=confidence, seed=seed)
    schema = people.schema
    names = tuple(dict.fromkeys(schema.protected if protected is None else protected))
    if not names:
        raise OptionError("no attribute is protected", mend="name at least one: --protected NAME")
    deserving = people.favourable
    memberships = [of_attribute(schema[name], people.individuals[:, schema.position(name)]) for name in names]
    favoured = predict(scorer, people.individuals) == scorer.favourable
    scores = None if scorer.label_only else favourable_score(scorer, people.individuals)
    return _result(
        memberships,
        favoured,
        deserving,
        scores,
        why_no_scores=LABELS_ONLY,
        favourable=str(schema.target.favourable),
        config=config,
        started=started,
    )


def measure(
    predicted_favourable: ArrayLike,
    true_favourable: ArrayLike,
    protected: Mapping[str, ArrayLike],
    *,
    scores: ArrayLike | None = None,
    favourable: str = "favourable",
    confidence: float = 0.95,
    seed: int = 0,
) -> GroupMetrics:
    """``run`` on plain arrays: decisions that were made, true labels, protected values.

    Args:
        predicted_favourable: who was given the favourable label, booleans or 0 and 1, shape (n,).
        true_favourable: whose true label is favourable, likewise.
        protected: attribute -> value of each person, shape (n,). Whole numbers with many values are cut into ranges.
        scores: the probability of the favourable label, shape (n,).
        favourable: how to call the favourable label.
        confidence: of every interval.
        seed: kept in the result; nothing is drawn at random.

    Raises:
        DataError: the arrays differ in length, are empty, or hold what they must not.
        OptionError: no protected attribute.
    """
    started = time.perf_counter()
    config = Config(confidence=confidence, seed=seed)
    if not protected:
        raise OptionError("no attribute is protected", mend="name at least one: protected={name: values}")
    favoured = _flags("predicted_favourable", predicted_favourable)
    deserving = _flags("true_favourable", true_favourable)
    memberships = [of_values(name, values) for name, values in protected.items()]
    given = None if scores is None else _numbers("scores", scores)
    lengths = {"predicted_favourable": len(favoured), "true_favourable": len(deserving)}
    lengths |= {membership.name: len(membership.codes) for membership in memberships}
    lengths |= {} if given is None else {"scores": len(given)}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the arrays must have one entry per person, but their lengths are {lengths}")
    if len(favoured) == 0:
        raise DataError("there is nobody: every array is empty")
    return _result(
        memberships,
        favoured,
        deserving,
        given,
        why_no_scores=NO_SCORES,
        favourable=favourable,
        config=config,
        started=started,
    )


def _result(
    memberships: Sequence[Membership],
    favoured: NDArray[np.bool_],
    deserving: NDArray[np.bool_],
    scores: NDArray[np.float64] | None,
    *,
    why_no_scores: str,
    favourable: str,
    config: Config,
    started: float,
) -> GroupMetrics:
    area = None if scores is None else auc(scores, deserving, config.confidence)
    probabilities = scores
    if scores is not None and (scores.min() < -ROUNDING or scores.max() > 1 + ROUNDING):
        probabilities, why_no_scores = None, NO_PROBABILITIES
    elif scores is not None:
        probabilities = np.clip(scores, 0.0, 1.0)
    tally = count(memberships, favoured, deserving, probabilities)
    everybody = counts(tally, np.zeros(len(tally.n), dtype=np.int64), 1)
    overall = metrics(everybody, config.confidence, why_no_scores=why_no_scores)[0]
    if area is not None:
        overall["auc"] = area
    sets = [[i] for i in range(len(memberships))]
    if len(memberships) > 1:
        sets.append(list(range(len(memberships))))
    return GroupMetrics(
        people=len(favoured),
        favourable=favourable,
        overall=overall,
        breakdowns=tuple(
            _breakdown(memberships, chosen, tally, config.confidence, why_no_scores=why_no_scores) for chosen in sets
        ),
        calibration=()
        if probabilities is None
        else tuple(
            cell
            for i, membership in enumerate(memberships)
            for cell in _calibration(membership, tally.cells[:, i], tally, config.confidence)
        ),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _breakdown(
    memberships: Sequence[Membership], chosen: list[int], tally: Tally, confidence: float, *, why_no_scores: str
) -> Breakdown:
    group, keys = combine([(tally.cells[:, i], len(memberships[i].labels)) for i in chosen])
    values = [
        {memberships[i].name: memberships[i].labels[code] for i, code in zip(chosen, key, strict=True)}
        for key in keys.tolist()
    ]
    counted = counts(tally, group, len(keys))
    measured = metrics(counted, confidence, why_no_scores=why_no_scores)
    groups = tuple(
        Group(values=named, size=size, small=size < SMALL, metrics=found)
        for named, size, found in zip(values, counted.size.tolist(), measured, strict=True)
    )
    return Breakdown(
        by=tuple(memberships[i].name for i in chosen),
        groups=groups,
        gaps=gaps(counted, [group.label for group in groups], confidence),
    )


def _calibration(
    membership: Membership, codes: NDArray[np.int64], tally: Tally, confidence: float
) -> list[CalibrationBin]:
    """What was promised and what came true in each tenth of the score, per group."""
    cell, keys = combine([(codes, len(membership.labels)), (tally.tenth, TENTHS)])
    counted = counts(tally, cell, len(keys))
    k, n = counted.rates["base_rate"]
    came_true: list[Quantity] = list(observed_rates(k, n, confidence))
    means = counted.moments["mean_score"].mean
    return [
        CalibrationBin(
            by=membership.name,
            group=membership.labels[code],
            n=int(n[i]),
            mean_score=float(means[i]),
            base_rate=came_true[i],
        )
        for i, code in enumerate(keys[:, 0].tolist())
    ]


def _flags(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"{name} has shape {array.shape}; one entry per person is expected")
    if array.dtype.kind != "b" and not ((array == 0) | (array == 1)).all():
        raise DataError(f"{name} must say yes or no about each person: booleans, or 0 and 1")
    return array.astype(np.bool_)


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be numbers") from None
    if array.ndim != 1:
        raise DataError(f"{name} has shape {array.shape}; one entry per person is expected")
    if not np.isfinite(array).all():
        raise DataError(f"{name}: entry {int(np.argmax(~np.isfinite(array)))} is {array[~np.isfinite(array)][0]}")
    return array
