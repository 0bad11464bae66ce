"""Both tables: what TestSGD states, and what is counted from our runs.

Source: Zhang and others: TestSGD: Interpretable Testing of Neural Networks Against Subtle Group Discrimination, ACM
TOSEM 2023. What the shields paper states about its classifiers stands in ``reproductions.shields.published``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand.stats import difference_interval
from reproductions.mitigation.record import CASES, DecisionCounts, MitigatedModel, MitigationRecord, MitigationRun
from reproductions.mitigation.subgroups import GIVEN
from reproductions.shields import published as shields
from reproductions.shields.environments import ENVIRONMENTS

if TYPE_CHECKING:
    import pandas as pd


PAPER = "Zhang and others: TestSGD, ACM TOSEM 2023"
RETRAINED_PLACE = "Table 7"


@dataclass(frozen=True)
class PublishedState:
    """A network and one subgroup, in percent.

    Attributes:
        accuracy: of the network.
        gap: how far the rates lie apart.
        inside, rest: share of the label that the paper calls True in the subgroup, and among the others.
    """

    accuracy: float
    gap: float
    inside: float
    rest: float


@dataclass(frozen=True)
class PublishedRetraining:
    """A subgroup before and after retraining.

    Attributes:
        words: the subgroup.
        before, after: retraining.
        note: what is to be known of the figures.
    """

    words: str
    before: PublishedState
    after: PublishedState
    note: str = ""


RETRAINED: dict[str, PublishedRetraining] = {
    "census": PublishedRetraining(
        "gender male, age 40 to under 80, race White or Asian-Pac-Islander",
        PublishedState(86.1, 20.2, 29.9, 9.7),
        PublishedState(86.2, 10.1, 18.9, 8.8),
    ),
    "bank": PublishedRetraining(
        "age 10 to under 90",
        PublishedState(91.6, 38.2, 3.3, 41.5),
        PublishedState(90.6, 5.4, 6.9, 12.3),
        "all but nine of the clients are in this subgroup",
    ),
    "german": PublishedRetraining(
        "gender female, age 60 to under 70",
        PublishedState(100.0, 21.9, 72.3, 50.6),
        PublishedState(100.0, 7.3, 45.9, 53.2),
        "an accuracy of 100 % is one on the training set",
    ),
    "compas": PublishedRetraining(
        "gender male, age 40 or more, race Hispanic or other",
        PublishedState(79.0, 62.4, 20.7, 83.1),
        PublishedState(78.5, 4.2, 80.9, 85.1),
        "the label is COMPAS's own score; the text says that the gap fell from 57.7 %, the table 62.4 %",
    ),
    "law": PublishedRetraining(
        "gender male, race Black",
        PublishedState(95.2, 15.0, 84.5, 99.5),
        PublishedState(95.1, 7.5, 92.3, 99.8),
        "Table 4 gives the same figures for race Asian or Black",
    ),
    "crime": PublishedRetraining(
        "FemalePctDiv at least 0.4, racePctWhite at most 0.8",
        PublishedState(93.9, 60.7, 83.8, 23.2),
        PublishedState(98.1, 51.4, 90.6, 39.2),
        "the label that is counted is much crime, ours is little of it",
    ),
}
"""By data set."""


# Both tables, counted from what was run.


HALVED = 0.5
"""A gap counts as mended if no more than this share of it is left."""

POINT = 0.01
"""And if less accuracy than this was lost."""


@dataclass(frozen=True)
class SubgroupRow:
    """A method on a data set, means over the runs in which it could be used.

    Attributes:
        case, method: which.
        runs: how many.
        accuracy, gap: on the people kept aside.
        low, high: 95 % interval of the signed gap there (rate inside minus rate outside), of a single run only.
        learnt_accuracy, learnt_gap: on the training set.
        rate, rest_rate, sampled_gap: on samples around those, counted as the paper counts.
        published: the paper's line; None for methods that it does not have.
    """

    case: str
    method: str
    runs: int
    accuracy: float
    gap: float
    low: float | None
    high: float | None
    learnt_accuracy: float
    learnt_gap: float
    rate: float
    rest_rate: float
    sampled_gap: float
    published: PublishedState | None


@dataclass(frozen=True)
class HalvingCount:
    """How often a method halved the gap for less than a point of accuracy.

    Attributes:
        method: which.
        cases: data sets on which, on average over the runs, it did so on people kept aside; of: it was used on.
        paper: the same, counted on samples around the training set, as the paper counts.
    """

    method: str
    cases: tuple[str, ...]
    paper: tuple[str, ...]
    of: int


@dataclass(frozen=True)
class ClassifierRow:
    """A classifier in an environment, means over the runs.

    Attributes:
        environment, classifier: which.
        runs: how many.
        accuracy, demographic_parity, equal_opportunity: on people it was not trained on.
        published: the paper's line.
    """

    environment: str
    classifier: str
    runs: int
    accuracy: float
    demographic_parity: float
    equal_opportunity: float
    published: shields.PublishedClassifier | None


def subgroup_rows(found: MitigationRecord) -> list[SubgroupRow]:
    """Return the table of subgroups: the given network first, then the methods, by data set."""
    made = []
    for case in CASES:
        own = [one for one in found.mended if one.case == case.name and one.subgroup is not None]
        for method in (GIVEN, *found.settings.methods):
            models = [model for one in own for model in one.models if model.method == method]
            if models:
                made.append(_method_row(case.name, method, models))
    return made


def _method_row(case: str, method: str, models: Sequence[MitigatedModel]) -> SubgroupRow:
    held, learnt, sampled = ([getattr(model, name) for model in models] for name in PARTS)
    low, high = gap_interval(held[0]) if len(held) == 1 else (None, None)
    known = RETRAINED[case]
    return SubgroupRow(
        case=case,
        method=method,
        runs=len(models),
        accuracy=_mean([one.accuracy or 0.0 for one in held]),
        gap=_mean([one.gap for one in held]),
        low=low,
        high=high,
        learnt_accuracy=_mean([one.accuracy or 0.0 for one in learnt]),
        learnt_gap=_mean([one.gap for one in learnt]),
        rate=_mean([one.rate for one in sampled]),
        rest_rate=_mean([one.rest_rate for one in sampled]),
        sampled_gap=_mean([one.gap for one in sampled]),
        published=known.before if method == GIVEN else known.after if method == "retrain" else None,
    )


PARTS = ("held_out", "training", "sampled")


def gap_interval(counted: DecisionCounts) -> tuple[float, float]:
    """Return the 95 % interval of the rate inside minus the rate outside, for people like these."""
    low, high = difference_interval(
        counted.favourable, counted.inside, counted.rest_favourable, counted.people - counted.inside
    )  # fmt: skip
    return float(low), float(high)


def count_halvings(found: MitigationRecord) -> list[HalvingCount]:
    """Return how often each method halved the gap for less than a point."""
    table = subgroup_rows(found)
    before = {row.case: row for row in table if row.method == GIVEN}
    made = []
    for method in found.settings.methods:
        own = [row for row in table if row.method == method]
        cheap = [row for row in own if before[row.case].accuracy - row.accuracy < POINT]
        made.append(
            HalvingCount(
                method,
                tuple(row.case for row in cheap if _is_halved(before[row.case].gap, row.gap)),
                tuple(row.case for row in cheap if _is_halved(before[row.case].sampled_gap, row.sampled_gap)),
                len(own),
            )
        )
    return made


def _is_halved(before: float, after: float) -> bool:
    return before > 0 and after <= HALVED * before


def classifier_rows(found: MitigationRecord) -> list[ClassifierRow]:
    """Return the table of classifiers, by environment."""
    made = []
    for environment in ENVIRONMENTS:
        for name in found.settings.classifiers:
            own = [
                one
                for one in found.classifiers
                if (one.dataset, one.attribute, one.classifier) == (environment.dataset, environment.attribute, name)
            ]
            if own:
                made.append(
                    ClassifierRow(
                        environment=environment.name,
                        classifier=name,
                        runs=len(own),
                        accuracy=_mean([one.accuracy for one in own]),
                        demographic_parity=_mean([one.demographic_parity for one in own]),
                        equal_opportunity=_mean([one.equal_opportunity for one in own]),
                        published=shields.CLASSIFIED.get((environment.dataset, environment.attribute, name)),
                    )
                )
    return made


def subgroups_found(found: MitigationRecord, case: str) -> list[tuple[str, int]]:
    """Return the subgroups of a data set in words, and in how many runs each was the widest."""
    words = [
        (one.subgroup or "none is large enough") + ("" if one.significant else " (not significant)")
        for one in found.mended
        if one.case == case
    ]
    return [(each, words.count(each)) for each in dict.fromkeys(words)]


def list_left_out(found: MitigationRecord) -> list[tuple[str, str, str]]:
    """Return data set, method and why it could not be used there, each once."""
    return list(
        dict.fromkeys((one.case, method, why) for one in found.mended for method, why in one.left_out.items())
    )  # fmt: skip


def models_frame(found: MitigationRecord) -> pd.DataFrame:
    """Return one row per model, see ``MitigationRecord.to_frame``."""
    import pandas as pd

    columns = ["case", "run", "subgroup", "method", "words", "counted_on", "people", "inside", "accuracy", "rate",
               "rest_rate", "gap", "seconds"]  # fmt: skip
    return pd.DataFrame(
        [_model_record(one, model, part) for one in found.mended for model in one.models for part in PARTS],
        columns=columns,
    )


def _model_record(one: MitigationRun, model: MitigatedModel, part: str) -> dict[str, object]:
    counted: DecisionCounts = getattr(model, part)
    return {
        "case": one.case,
        "run": one.run,
        "subgroup": one.subgroup,
        "method": model.method,
        "words": model.words,
        "counted_on": part,
        "people": counted.people,
        "inside": counted.inside,
        "accuracy": counted.accuracy,
        "rate": counted.rate,
        "rest_rate": counted.rest_rate,
        "gap": counted.gap,
        "seconds": model.seconds,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# Words of the tables.


SEEN_AS = {GIVEN: "before"}
"""What a table calls a method by another name."""


def method_label(name: str) -> str:
    """Return a method in a table."""
    return SEEN_AS.get(name, name)


def format_share(value: float) -> str:
    """Return a share in percent, no sign before a zero.

    >>> format_share(0.2), format_share(-0.0001)
    ('20.0', '0.0')
    """
    return f"{round(100 * value, 1) + 0.0:.1f}"
