"""Estimation of rates from probabilities of group membership, such as race by BIFSG, and bounds without assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.groups.breakdown import Bounds, Gap, Group, ProxyRates
from evenhand.groups.config import GroupConfig
from evenhand.groups.gaps import describe_simultaneity, largest_absolute
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.stats.level import bonferroni, normal_quantile
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
    attributes: Iterable[GroupProbabilities],
    config: GroupConfig,
    weights: Floats | None = None,
) -> tuple[ProxyRates, ...]:
    """Estimate the selection rates of groups from probabilities of membership, for each attribute.

    Raises:
        DataError: No person has known probabilities of an attribute.
    """
    return tuple(_measure_attribute(selected, probabilities, config, weights) for probabilities in attributes)


def _measure_attribute(
    selected: Booleans, probabilities: GroupProbabilities, config: GroupConfig, weights: Floats | None
) -> ProxyRates:
    """Estimate the selection rates of groups by one attribute.

    With probabilities p of a group, decisions d and weights w, the estimate is ``sum(w p d) / sum(w p)``, with the
    linearised variance ``sum(w^2 p^2 (d - rate)^2) / sum(w p)^2``. It is biased by the covariance of decision and
    membership among people with equal probabilities (Chen, Kallus, Mao, Svacha & Udell, "Fairness under unawareness",
    FAT* 2019).

    The bounds do not need this assumption. People of similar probability form cells, with mean probability q and
    selection rate r. Selected members are at least ``max(0, q + r - 1)`` and at most ``min(q, r)`` of a cell (Frechet);
    summed over cells these bound the rate of the group (Kallus, Mao & Zhou, "Assessing algorithmic fairness with
    unobserved protected class using data combination", Management Science 2022). Finer cells give closer bounds, but
    need at least ``MIN_CELL_SIZE`` people for a precise rate, so the bounds are valid but not sharp. The side of each
    maximum is chosen on one half of the people and applied to the other, and vice versa. Any choice is valid, so there
    is no selection bias.
    """
    known, name = probabilities.known, probabilities.name
    if not known.any():
        raise DataError(f"no person has known probabilities by {name}")
    people = int(known.sum())
    half = np.random.default_rng([config.seed, HALVES]).random(people) < 0.5
    weight = np.ones(people) if weights is None else weights[known]
    totals = [_add_up(p, weight, half, selected[known].astype(np.float64)) for p in probabilities.values[known].T]
    population = f"people like these, whose {name} is only known as a probability"
    describe = partial(Estimated, n=people, population=population, confidence=config.confidence)
    named = dict(zip(probabilities.groups, totals, strict=True))
    groups = [_describe_rate({name: group}, total, config, describe) for group, total in named.items()]
    large = {group.label: named[group.label] for group in groups if not group.small}
    gap = partial(
        Gap,
        name="probable_selection_rate_difference",
        metric="selection_rate",
        not_assessable={label: round(total.effective) for label, total in named.items() if label not in large},
    )
    return ProxyRates(
        by=(name,),
        groups=tuple(groups),
        gaps=(_compare(large, config.confidence, describe, gap),),
        unknown=int((~known).sum()),
        people=people,
    )


class _Ratio(NamedTuple):
    """A ratio of totals, and the influence of each person on its error."""

    value: float
    influence: Floats

    def variance(self, other: _Ratio | None = None) -> float:
        """Compute the variance of the ratio, or of its difference from another ratio of the same people."""
        # People belong partly to both groups, so their influences are subtracted before squaring.
        influence = self.influence if other is None else self.influence - other.influence
        return float((influence**2).sum())


class _Totals(NamedTuple):
    """Estimate and bounds of the rate of one group; the bounds are unused if there are no members."""

    expected: float
    effective: float
    estimate: _Ratio
    low: _Ratio
    high: _Ratio


def _add_up(p: Floats, w: Floats, half: Booleans, selected: Floats) -> _Totals:
    """Compute the selection rate of the group with membership probabilities ``p``."""
    members, total = w * p, float((w * p).sum())

    def ratio(top: Floats) -> _Ratio:
        """Compute sum(w top) / sum(w p)."""
        value = float(np.clip((w * top).sum() / (total or 1.0), 0.0, 1.0))
        # Delta method: a ratio T / B changes with each person by (T - value * B) / sum(B).
        return _Ratio(value, w * (top - value * p) / (total or 1.0))

    cells = _cut_cells(p)
    mass, people, selecting = (_sum_cells(cells, half, w * column) for column in (p, np.ones_like(w), selected))
    # The other half of the people decides which side of each maximum is used, so each bound is a sum over people,
    # linear in p.
    other = (1 - half.astype(np.int64), cells)
    lowest = np.where((mass + selecting > people)[other], p + selected - 1, 0.0)
    highest = np.where((selecting < mass)[other], selected, p)
    return _Totals(
        expected=total,
        effective=float(kish_size(members.sum(), (members**2).sum())),
        estimate=ratio(p * selected),
        low=ratio(lowest),
        high=ratio(highest),
    )


def _sum_cells(cells: Integers, half: Booleans, values: Floats) -> Floats:
    """Sum the values in each cell separately for each half of the people, shape (2, cells)."""
    count = int(cells.max()) + 1
    sums = np.bincount(half * count + cells, weights=values, minlength=2 * count)
    return np.asarray(sums, dtype=np.float64).reshape(2, count)


def _cut_cells(p: Floats) -> Integers:
    """Divide people into cells of similar size and probability."""
    cells = int(np.clip(len(p) // MIN_CELL_SIZE, 1, CELLS))
    edges = np.unique(np.quantile(p, np.arange(1, cells) / cells))
    return np.asarray(np.searchsorted(edges, p, side="right"))


def _describe_rate(
    values: dict[str, str], totals: _Totals, config: GroupConfig, describe: Callable[..., Estimated]
) -> Group:
    """Describe one group; without members, its rate is unknown, with bounds 0 and 1."""
    estimate: Quantity = Unknown(reason="people belong to this group with probability 0")
    ends = (0.0, 1.0)
    if totals.expected > 0:
        rate, variance = totals.estimate.value, totals.estimate.variance()
        mixed = 0 < rate < 1 and variance > 0
        size = rate * (1 - rate) / variance if mixed else max(totals.effective, 1.0)
        low, high = map(float, clopper_pearson(rate * size, size, config.confidence))
        estimate = describe(value=rate, low=low, high=high, method=METHOD)
        z = normal_quantile(config.confidence)
        ends = (
            max(0.0, totals.low.value - z * totals.low.variance() ** 0.5),
            min(1.0, totals.high.value + z * totals.high.variance() ** 0.5),
        )
    return Group(
        values=values,
        size=round(totals.expected),
        effective_size=totals.effective,
        small=totals.effective < config.min_group_size or totals.expected <= 0,
        metrics={"selection_rate": estimate},
        bounds=Bounds(*ends),
    )


def _compare(
    totals: Mapping[str, _Totals], confidence: float, describe: Callable[..., Estimated], gap: Callable[..., Gap]
) -> Gap:
    """Compute the largest difference between two groups; unknown if there are fewer than two."""
    pairs = list(combinations(totals, 2))
    if not pairs:
        return gap(value=Unknown(reason="two groups must be large enough"))
    z = normal_quantile(bonferroni(confidence, len(pairs)))

    def subtract(first: _Ratio, second: _Ratio, side: int = 0) -> float:
        """Compute the difference, or one end of its interval."""
        error = math.sqrt(first.variance(second))
        return max(-1.0, min(1.0, first.value - second.value + side * z * error))

    values, intervals, bounds = [], [], []
    for first, second in ((totals[i], totals[j]) for i, j in pairs):
        low, value, high = (subtract(first.estimate, second.estimate, side) for side in (-1, 0, 1))
        values.append(value)
        intervals.append((low, high))
        # The smallest possible difference is the lowest rate of the first group minus the highest of the second.
        bounds.append((subtract(first.low, second.high, -1), subtract(first.high, second.low, 1)))
    widest = max(range(len(pairs)), key=lambda place: abs(values[place]))
    best, worst = pairs[widest] if values[widest] >= 0 else pairs[widest][::-1]
    low, high = largest_absolute(intervals)
    method = f"linearised, normal{describe_simultaneity(len(pairs))}"
    estimate = describe(value=abs(values[widest]), low=low, high=high, method=method)
    return gap(value=estimate, best=best, worst=worst, bounds=Bounds(*largest_absolute(bounds)))
