"""Groups known by probability alone, such as race by BIFSG: rates under a stated assumption, bounds without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.groups.label_coverage import DECISIONS, count_labels
from evenhand.groups.proxies.result import ASSUMPTION, LABELS, ProxyDifference, ProxyRate, ProxyRates
from evenhand.schema.arrays import check_index, read_column
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.stats.level import bonferroni, normal_quantile
from evenhand.stats.proportion import clopper_pearson
from evenhand.stats.quantity import Estimated, Quantity, Unknown

SMALL = 30
HALVES = 20_190_129
"""Beside the seed: people are halved by numbers that no one else draws."""

CELLS = 10
LEAST = 100
"""Cells of similar probability that bounds are added up over, at most, and people in each, at least."""

METHOD = "Clopper-Pearson, of effective sample sizes (membership probabilities, linearised)"
EMPTY = {
    "selection_rate": "no one belongs to this group with any probability",
    "true_positive_rate": "no one who truly has the favourable label belongs to this group with any probability",
    "false_positive_rate": "no one who truly has the unfavourable label belongs to this group with any probability",
}


def measure_proxies(
    selected: ArrayLike,
    probabilities: GroupProbabilities | Any,
    *,
    true_favourable: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    confidence: float = 0.95,
    min_group_size: int = SMALL,
    seed: int = 0,
) -> ProxyRates:
    """Estimate selection and error rates of groups from probabilities of membership.

    With probabilities p of a group, decisions d and weights w, the estimate is ``sum(w p d) / sum(w p)``, with the
    linearised variance ``sum(w^2 p^2 (d - rate)^2) / sum(w p)^2``. It is biased by the covariance of decision and
    membership among people of equal probabilities (Chen, Kallus, Mao, Svacha & Udell, "Fairness under unawareness",
    FAT* 2019): if members are selected by d more often than others of the same probability, by
    ``d sum(w p (1 - p)) / sum(w p)``. The rate of people put into their most probable group is another one, biased even
    where that covariance is 0. Error rates are the same among those whose true label is favourable, or is not.

    Without that assumption, people of similar probabilities form cells, with mean probability q and selection rate r.
    Selected members are at least ``max(0, q + r - 1)`` and at most ``min(q, r)`` of a cell (Frechet); summed over
    cells these bound the rate of the group (Kallus, Mao & Zhou, "Assessing algorithmic fairness with unobserved
    protected class using data combination", Management Science 2022). Of an error rate, the members above the line are
    put to their least and those below it to their most, and the other way round, which one way of filling the cell does
    both. Finer cells bound more closely; with fewer people than ``LEAST`` in a cell its rate would be too uncertain, so
    the bounds are valid and not the sharpest ones. Which side of a maximum is taken in a cell is chosen on one half of
    the people and added up over the other, and vice versa: any choice is valid, so none is favoured by chance.

    Args:
        selected: who was given the favourable decision, booleans or 0 and 1, shape (n,).
        probabilities: group -> probability of each person, shape (n,), as a mapping or a data frame; of each person
            they add up to 1, or all are missing.
        true_favourable: True labels, shape (n,): booleans, or 1 favourable, 0 unfavourable, -1 unknown. If None, no
            error rates are estimated.
        weights: how much each person counts, at least 0, shape (n,).
        confidence: of every interval.
        min_group_size: the smallest effective size that is compared between groups.
        seed: by which the people are halved.

    Raises:
        DataError: the columns differ in length, or hold what is not a probability.
        OptionError: fewer than two groups.

    Examples:
        >>> found = measure_proxies([1, 1, 0, 0] * 50, {"a": [0.8, 0.6, 0.4, 0.2] * 50, "b": [0.2, 0.4, 0.6, 0.8] * 50})
        >>> [(one.group, round(one.estimate.value, 2)) for one in found.rates]
        [('a', 0.7), ('b', 0.3)]
    """
    given = (
        probabilities
        if isinstance(probabilities, GroupProbabilities)
        else GroupProbabilities.read("group", probabilities)
    )
    check_index(selected=selected, membership=probabilities, true_favourable=true_favourable, weights=weights)
    seen, n = given.known, len(given.values)
    decided = _read_flags("selected", selected, n)[seen] == 1
    labels = None
    if true_favourable is not None:
        labels = _read_flags("true_favourable", true_favourable, n, unknown=-1)[seen]
    counted = np.ones(n) if weights is None else _read_weights(weights)
    if counted.shape != (n,) or not np.isfinite(counted).all() or (counted < 0).any():
        raise DataError(f"expected one weight of at least 0 per person, for {n:,} people", location="weights")
    if not seen.any():
        raise DataError(f"there is no one whose probabilities by {given.name} are known")
    sample = _Sample(
        given.values[seen], counted[seen], np.random.default_rng([seed, HALVES]).random(int(seen.sum())) < 0.5
    )
    about = {"selection_rate": np.ones(len(decided), dtype=np.bool_)}
    if labels is not None:
        about |= {"true_positive_rate": labels == 1, "false_positive_rate": labels == 0}
    rates, differences = [], []
    for metric, among in about.items():
        totals = [_add_up(sample, k, decided, among) for k in range(len(given.groups))]
        found = [
            _describe_rate(name, metric, total, confidence, min_group_size, given.name)
            for name, total in zip(given.groups, totals, strict=True)
        ]
        rates += found
        large = [k for k, one in enumerate(found) if not one.small]
        differences += list(_compare(metric, given, totals, large, confidence))
    assumption = ASSUMPTION + LABELS * (labels is not None)
    if labels is not None and (labels < 0).any():
        everyone = np.zeros(len(labels), dtype=np.int64)
        caution = count_labels(everyone, 1, decided.astype(np.int64), DECISIONS, labels >= 0)[0].caution
        assumption += f" {caution[0].upper()}{caution[1:]}." if caution else ""
    return ProxyRates(
        by=given.name,
        assumption=assumption,
        people=int(seen.sum()),
        unknown=int((~seen).sum()),
        weighted=weights is not None,
        rates=tuple(rates),
        differences=tuple(differences),
    )


class _Sample(NamedTuple):
    """Probabilities (n, groups) and weights (n,) of people, and in which half of them each one is."""

    p: Floats
    weights: Floats
    half: Booleans


class _Ratio(NamedTuple):
    """A ratio of totals, and what each person adds to its error."""

    value: float
    influence: Floats

    def variance(self, other: _Ratio | None = None) -> float:
        """Return the variance of the ratio, or of its difference from another one of the same people."""
        # The same people are in both groups by part: their influences are subtracted before they are squared.
        influence = self.influence if other is None else self.influence - other.influence
        return float((influence**2).sum())


@dataclass(frozen=True)
class _Totals:
    """One rate of one group: the estimate and the bounds; None where no one belongs to it."""

    people: int
    expected: float
    effective: float
    sensitivity: float
    estimate: _Ratio | None
    low: _Ratio | None
    high: _Ratio | None


def _add_up(sample: _Sample, k: int, selected: Booleans, among: Booleans) -> _Totals:
    """Return what is known of the rate of selection by group ``k`` among some people."""
    p, w = sample.p[:, k], sample.weights
    above, below = (among & selected).astype(np.float64), (among & ~selected).astype(np.float64)
    inside = among.astype(np.float64)

    def ratio(top: Floats, bottom: Floats) -> _Ratio | None:
        """Return sum(w top) / sum(w bottom)."""
        whole = float((w * bottom).sum())
        if whole <= 0:
            return None
        value = float(np.clip((w * top).sum() / whole, 0.0, 1.0))
        # Delta method: a ratio T / B moves with each person by (T - value * B) / sum(B).
        return _Ratio(value, w * (top - value * bottom) / whole)

    members = w * p * inside
    total = float(members.sum())
    squares = float((members**2).sum())
    spread = float((w * inside * p * (1 - p)).sum())
    cells = _cut_cells(p)
    mass, people, selecting, refusing = (
        _sums(cells, sample.half, w * one) for one in (p, np.ones_like(w), above, below)
    )
    # Of members, the least that can be above the line and the most below it; then the most above and the least below.
    # Each is chosen by the other half of the people, and written as a sum over people, linear in p.
    other = (1 - sample.half.astype(np.int64), cells)
    forced, refused = (mass + selecting > people)[other], (refusing < mass)[other]
    least, most_below = np.where(forced, p + above - 1, 0.0), np.where(refused, below, p)
    chosen, forced_below = (selecting < mass)[other], (mass + refusing > people)[other]
    most, least_below = np.where(chosen, above, p), np.where(forced_below, p + below - 1, 0.0)
    some = total > 0
    return _Totals(
        people=int(among.sum()),
        expected=total,
        effective=total**2 / squares if squares > 0 else 0.0,
        sensitivity=spread / total if some else 0.0,
        estimate=ratio(p * above, p * inside) if some else None,
        low=ratio(least, least + most_below) if some else None,
        high=ratio(most, most + least_below) if some else None,
    )


def _sums(cells: Integers, half: Booleans, values: Floats) -> Floats:
    """Return the sums over each half of the people in each cell, shape (2, cells)."""
    count = int(cells.max()) + 1
    sums = np.bincount(half * count + cells, weights=values, minlength=2 * count)
    return np.asarray(sums, dtype=np.float64).reshape(2, count)


def _cut_cells(p: Floats) -> Integers:
    """Return a cell for each person: about as many people in each, of similar probability."""
    cells = int(np.clip(len(p) // LEAST, 1, CELLS))
    edges = np.unique(np.quantile(p, np.arange(1, cells) / cells))
    return np.asarray(np.searchsorted(edges, p, side="right"))


def _describe_rate(group: str, metric: str, totals: _Totals, confidence: float, least: int, by: str) -> ProxyRate:
    estimate: Quantity = Unknown(reason=EMPTY[metric])
    if totals.estimate is not None:
        rate, variance = totals.estimate.value, totals.estimate.variance()
        mixed = 0 < rate < 1 and variance > 0
        size = rate * (1 - rate) / variance if mixed else max(totals.effective, 1.0)
        low, high = clopper_pearson(rate * size, size, confidence)
        estimate = Estimated(
            value=rate,
            n=totals.people,
            low=float(low),
            high=float(high),
            confidence=confidence,
            population=f"people like these, whose {by} is known by probability",
            method=METHOD,
        )
    z = normal_quantile(confidence)
    return ProxyRate(
        group=group,
        metric=metric,
        expected_people=totals.expected,
        effective_size=totals.effective,
        small=totals.effective < least or totals.estimate is None,
        estimate=estimate,
        low=0.0 if totals.low is None else max(0.0, totals.low.value - z * totals.low.variance() ** 0.5),
        high=1.0 if totals.high is None else min(1.0, totals.high.value + z * totals.high.variance() ** 0.5),
        sensitivity=None if totals.estimate is None else totals.sensitivity,
    )


def _compare(
    metric: str, given: GroupProbabilities, totals: list[_Totals], large: list[int], confidence: float
) -> Iterator[ProxyDifference]:
    pairs = [(i, j) for place, i in enumerate(large) for j in large[place + 1 :]]
    z = normal_quantile(bonferroni(confidence, len(pairs))) if pairs else 0.0
    together = "" if len(pairs) == 1 else f", simultaneous over {len(pairs)} comparisons (Bonferroni)"
    for i, j in pairs:
        first, second = totals[i], totals[j]
        assert first.estimate is not None
        assert second.estimate is not None
        value = first.estimate.value - second.estimate.value
        half = z * first.estimate.variance(second.estimate) ** 0.5
        ends = [-1.0, 1.0]
        # The least difference that is possible is the first group's least rate less the second's greatest.
        for place, (one, other, side) in enumerate(((first.low, second.high, -1), (first.high, second.low, 1))):
            if one is not None and other is not None:
                ends[place] = one.value - other.value + side * z * one.variance(other) ** 0.5
        yield ProxyDifference(
            metric=metric,
            first=given.groups[i],
            second=given.groups[j],
            estimate=Estimated(
                value=value,
                n=first.people,
                low=max(-1.0, value - half),
                high=min(1.0, value + half),
                confidence=confidence,
                population=f"people like these, whose {given.name} is known by probability",
                method=f"linearised, normal{together}",
            ),
            low=max(-1.0, ends[0]),
            high=min(1.0, ends[1]),
        )


def _read_flags(name: str, given: ArrayLike, n: int, *, unknown: int = 0) -> Integers:
    """Read flags of 0 and 1 (or ``unknown``), shape (n,)."""
    import pandas as pd

    flags = pd.Series(read_column(name, given))
    if len(flags) != n or not flags.isin([0, 1, unknown]).all():
        values = "0 or 1" if unknown == 0 else f"0, 1 or {unknown}"
        raise DataError(f"expected {values} for each of {n:,} people", location=name)
    return flags.to_numpy(np.int64)


def _read_weights(weights: ArrayLike) -> Floats:
    """Read weights as numbers."""
    try:
        return np.asarray(read_column("weights", weights), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("expected numbers as `weights=`") from None
