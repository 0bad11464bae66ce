"""Estimation of rates from probabilities of group membership, such as race by BIFSG, and bounds without assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.groups.breakdown import SMALL
from evenhand.groups.gaps import describe_simultaneity, largest_absolute
from evenhand.groups.label_coverage import DECISIONS, count_labels, find_caution
from evenhand.groups.proxies.result import ASSUMPTION, LABELS, ProxyDifference, ProxyRate, ProxyRates
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.stats.level import bonferroni, normal_quantile
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.proportion import clopper_pearson, kish_size
from evenhand.stats.quantity import Estimated, Quantity, Unknown

HALVES = 20_190_129
"""Second part of the random seed of the two halves."""

CELLS = 10
MIN_CELL_SIZE = 100
"""Maximum number of cells of similar probability for the bounds, and minimum number of people per cell."""

METHOD = "Clopper-Pearson, of effective sample sizes (membership probabilities, linearised)"


def measure_proxies(
    selected: Booleans,
    probabilities: GroupProbabilities,
    *,
    true_labels: Integers | None = None,
    weights: Floats | None = None,
    confidence: float = 0.95,
    min_group_size: int = SMALL,
    seed: int = 0,
) -> ProxyRates:
    """Estimate selection and error rates of groups from probabilities of membership.

    With probabilities p of a group, decisions d and weights w, the estimate is ``sum(w p d) / sum(w p)``, with the
    linearised variance ``sum(w^2 p^2 (d - rate)^2) / sum(w p)^2``. It is biased by the covariance of decision and
    membership among people with equal probabilities (Chen, Kallus, Mao, Svacha & Udell, "Fairness under unawareness",
    FAT* 2019). Error rates are estimated among people with the same true label.

    The bounds do not need this assumption. People of similar probability form cells, with mean probability q and
    selection rate r. Selected members are at least ``max(0, q + r - 1)`` and at most ``min(q, r)`` of a cell (Frechet);
    summed over cells these bound the rate of the group (Kallus, Mao & Zhou, "Assessing algorithmic fairness with
    unobserved protected class using data combination", Management Science 2022). For an error rate, the numerator is
    minimised while the rest of the denominator is maximised, and vice versa, which a single allocation within the cell
    achieves. Finer cells give closer bounds, but need at least ``MIN_CELL_SIZE`` people for a precise rate, so the
    bounds are valid but not sharp. The side of each maximum is chosen on one half of the people and applied to the
    other, and vice versa. Any choice is valid, so there is no selection bias.

    Args:
        selected: Whether each decision is favourable, shape (n,).
        probabilities: Probabilities of the groups of each person.
        true_labels: 1 favourable, 0 unfavourable, -1 unknown, shape (n,). If None, no error rates are estimated.
        weights: Sample weights, shape (n,).
        confidence: Confidence level of all intervals.
        min_group_size: Minimum effective size of a compared group.
        seed: Random seed of the two halves.

    Raises:
        DataError: No person has known probabilities.
    """
    known = probabilities.known
    if not known.any():
        raise DataError(f"no person has known probabilities by {probabilities.name}")
    half = np.random.default_rng([seed, HALVES]).random(int(known.sum())) < 0.5
    weight = np.ones(len(half)) if weights is None else weights[known]
    sample = _Sample(probabilities.values[known], weight, half)
    decided, labels = selected[known], None if true_labels is None else true_labels[known]
    denominators = {"selection_rate": np.ones(len(decided), dtype=np.bool_)}
    if labels is not None:
        denominators |= {"true_positive_rate": labels == 1, "false_positive_rate": labels == 0}
    rates: list[ProxyRate] = []
    differences: list[ProxyDifference] = []
    for metric, among in denominators.items():
        totals = [_add_up(sample, k, decided, among) for k in range(len(probabilities.groups))]
        metric_rates = [
            _describe_rate(name, metric, total, confidence, min_group_size, probabilities.name)
            for name, total in zip(probabilities.groups, totals, strict=True)
        ]
        rates += metric_rates
        large = [k for k, rate in enumerate(metric_rates) if not rate.small]
        differences += _compare(metric, probabilities, totals, large, confidence)
    assumption = ASSUMPTION + LABELS * (labels is not None)
    if labels is not None:
        everyone = np.zeros(len(labels), dtype=np.int64)
        caution = find_caution(count_labels(everyone, 1, decided.astype(np.int64), DECISIONS, labels >= 0)[0])
        assumption += f" {caution[0].upper()}{caution[1:]}." if caution else ""
    return ProxyRates(
        by=probabilities.name,
        assumption=assumption,
        people=int(known.sum()),
        unknown=int((~known).sum()),
        weighted=weights is not None,
        rates=tuple(rates),
        differences=tuple(differences),
    )


class _Sample(NamedTuple):
    """Probabilities (n, groups) and weights (n,) of people, and a mask of one half of them."""

    p: Floats
    weights: Floats
    half: Booleans


class _Ratio(NamedTuple):
    """A ratio of totals, and the influence of each person on its error."""

    value: float
    influence: Floats

    def variance(self, other: _Ratio | None = None) -> float:
        """Compute the variance of the ratio, or of its difference from another ratio of the same people."""
        # People belong partly to both groups, so their influences are subtracted before they are squared.
        influence = self.influence if other is None else self.influence - other.influence
        return float((influence**2).sum())


@dataclass(frozen=True)
class _Totals:
    """Estimate and bounds of one rate of one group; None if there are no members."""

    people: int
    expected: float
    effective: float
    estimate: _Ratio | None
    low: _Ratio | None
    high: _Ratio | None


def _add_up(sample: _Sample, k: int, selected: Booleans, among: Booleans) -> _Totals:
    """Compute the rate of group ``k`` among a subset of the people."""
    p, w = sample.p[:, k], sample.weights
    inside, above, below = (mask.astype(np.float64) for mask in (among, among & selected, among & ~selected))
    members = w * p * inside
    total = float(members.sum())

    def ratio(top: Floats, bottom: Floats) -> _Ratio | None:
        """Compute sum(w top) / sum(w bottom)."""
        whole = float((w * bottom).sum())
        if whole <= 0 or total <= 0:
            return None
        value = float(np.clip((w * top).sum() / whole, 0.0, 1.0))
        # Delta method: a ratio T / B changes with each person by (T - value * B) / sum(B).
        return _Ratio(value, w * (top - value * bottom) / whole)

    cells = _cut_cells(p)
    mass, people, selecting, rejecting = (
        _sum_cells(cells, sample.half, w * column) for column in (p, np.ones_like(w), above, below)
    )
    # The minimum of members in the numerator with the maximum in the rest of the denominator, and vice versa. The other
    # half of the people decides which side of each maximum is used, so each bound is a sum over people, linear in p.
    other = (1 - sample.half.astype(np.int64), cells)
    must_select, can_reject_all = (mass + selecting > people)[other], (rejecting < mass)[other]
    lowest, rest_of_lowest = np.where(must_select, p + above - 1, 0.0), np.where(can_reject_all, below, p)
    can_select_all, must_reject = (selecting < mass)[other], (mass + rejecting > people)[other]
    highest, rest_of_highest = np.where(can_select_all, above, p), np.where(must_reject, p + below - 1, 0.0)
    return _Totals(
        people=int(among.sum()),
        expected=total,
        effective=float(kish_size(members.sum(), (members**2).sum())),
        estimate=ratio(p * above, p * inside),
        low=ratio(lowest, lowest + rest_of_lowest),
        high=ratio(highest, highest + rest_of_highest),
    )


def _sum_cells(cells: Integers, half: Booleans, values: Floats) -> Floats:
    """Sum the values of each half of the people in each cell, shape (2, cells)."""
    count = int(cells.max()) + 1
    sums = np.bincount(half * count + cells, weights=values, minlength=2 * count)
    return np.asarray(sums, dtype=np.float64).reshape(2, count)


def _cut_cells(p: Floats) -> Integers:
    """Cut people into cells of similar size and probability."""
    cells = int(np.clip(len(p) // MIN_CELL_SIZE, 1, CELLS))
    edges = np.unique(np.quantile(p, np.arange(1, cells) / cells))
    return np.asarray(np.searchsorted(edges, p, side="right"))


def _describe_rate(group: str, metric: str, totals: _Totals, confidence: float, min_size: int, by: str) -> ProxyRate:
    estimate: Quantity = Unknown(reason=f"{METRICS[metric].denominator} belong to this group with probability 0")
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
        small=totals.effective < min_size or totals.estimate is None,
        estimate=estimate,
        low=0.0 if totals.low is None else max(0.0, totals.low.value - z * totals.low.variance() ** 0.5),
        high=1.0 if totals.high is None else min(1.0, totals.high.value + z * totals.high.variance() ** 0.5),
    )


def _compare(
    metric: str, probabilities: GroupProbabilities, totals: list[_Totals], large: list[int], confidence: float
) -> Iterator[ProxyDifference]:
    """Yield the largest difference of a rate between two large groups; nothing if there are fewer than two."""
    pairs = [(i, j) for place, i in enumerate(large) for j in large[place + 1 :]]
    if not pairs:
        return
    z = normal_quantile(bonferroni(confidence, len(pairs)))
    values, intervals, bounds = [], [], []
    for first, second in ((totals[i], totals[j]) for i, j in pairs):
        assert first.estimate is not None
        assert second.estimate is not None
        value = first.estimate.value - second.estimate.value
        half = z * first.estimate.variance(second.estimate) ** 0.5
        values.append(value)
        intervals.append((max(-1.0, value - half), min(1.0, value + half)))
        # The smallest possible difference is the lowest rate of the first group minus the highest of the second.
        sides = ((first.low, second.high, -1), (first.high, second.low, 1))
        low, high = (
            float(side) if a is None or b is None else a.value - b.value + side * z * a.variance(b) ** 0.5
            for a, b, side in sides
        )
        bounds.append((max(-1.0, low), min(1.0, high)))
    widest = max(range(len(pairs)), key=lambda place: abs(values[place]))
    best, worst = pairs[widest] if values[widest] >= 0 else pairs[widest][::-1]
    (low, high), (lowest, highest) = largest_absolute(intervals), largest_absolute(bounds)
    yield ProxyDifference(
        metric=metric,
        best=probabilities.groups[best],
        worst=probabilities.groups[worst],
        estimate=Estimated(
            value=abs(values[widest]),
            n=totals[best].people,
            low=low,
            high=high,
            confidence=confidence,
            population=f"people like these, whose {probabilities.name} is known by probability",
            method=f"linearised, normal{describe_simultaneity(len(pairs))}",
        ),
        low=lowest,
        high=highest,
    )
