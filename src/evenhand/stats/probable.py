"""Rates of groups whose membership is only known as a probability: estimates, and bounds without assumptions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import bonferroni, normal_quantile
from evenhand.stats.proportion import clopper_pearson, kish_size

CELLS = 10
MIN_CELL_SIZE = 100
"""Maximum number of cells of similar probability for the bounds, and minimum number of people per cell."""


class Ratio(NamedTuple):
    """A ratio of totals, and the influence of each person on its error, shape (n,)."""

    value: float
    influence: Floats

    def minus(self, other: Ratio) -> Ratio:
        """Compute the difference from another ratio of the same people."""
        # People belong partly to both groups, so their influences are subtracted before squaring.
        return Ratio(self.value - other.value, self.influence - other.influence)

    def end(self, z: float, lowest: float = -1.0) -> float:
        """Compute the value plus z standard errors, between ``lowest`` and 1."""
        return max(lowest, min(1.0, self.value + z * math.sqrt((self.influence**2).sum())))


class ProbableRate(NamedTuple):
    """Rate of one group, estimated from probabilities of membership.

    Attributes:
        expected: Expected (weighted) number of members.
        effective: Kish's effective size of probabilities and weights.
        estimate: Estimate ``sum(w p d) / sum(w p)`` for probabilities p, decisions d and weights w. It is biased by the
            covariance of decision and membership among people with equal probabilities (Chen, Kallus, Mao, Svacha &
            Udell, "Fairness under unawareness", FAT* 2019).
        low, high: Bounds of the rate without assumptions about this covariance; unused without members.
    """

    expected: float
    effective: float
    estimate: Ratio
    low: Ratio
    high: Ratio

    @classmethod
    def of(cls, p: Floats, weights: Floats, selected: Floats, half: Booleans) -> Self:
        """Estimate the rate of the group with membership probabilities ``p``.

        For the bounds, people of similar probability form cells, with mean probability q and selection rate r. Selected
        members are at least ``max(0, q + r - 1)`` and at most ``min(q, r)`` of a cell (Frechet); summed over cells
        these bound the rate of the group (Kallus, Mao & Zhou, "Assessing algorithmic fairness with unobserved protected
        class using data combination", Management Science 2022). Finer cells give closer bounds, but need at least
        ``MIN_CELL_SIZE`` people for a precise rate, so the bounds are valid but not sharp. The side of each maximum is
        chosen on one half of the people and applied to the other, and vice versa. Any choice is valid, so there is no
        selection bias.

        Args:
            p: Probabilities, shape (n,).
            weights: Sample weights, shape (n,).
            selected: Decisions, 0 or 1, shape (n,).
            half: Mask of one half of the people, shape (n,).
        """
        count = int(np.clip(len(p) // MIN_CELL_SIZE, 1, CELLS))
        cells = np.searchsorted(np.unique(np.quantile(p, np.arange(1, count) / count)), p, side="right")
        mass, people, selecting = (
            _sum_cells(cells, half, weights * column) for column in (p, np.ones_like(p), selected)
        )
        # The other half of the people decides which side of each maximum is used, so each bound is a sum over people,
        # linear in p.
        other = (1 - half.astype(np.int64), cells)
        lowest = np.where((mass + selecting > people)[other], p + selected - 1, 0.0)
        highest = np.where((selecting < mass)[other], selected, p)
        members, total = weights * p, float((weights * p).sum())

        def ratio(top: Floats) -> Ratio:
            """Compute sum(w top) / sum(w p)."""
            value = float(np.clip((weights * top).sum() / (total or 1.0), 0.0, 1.0))
            # Delta method: a ratio T / B changes with each person by (T - value * B) / sum(B).
            return Ratio(value, weights * (top - value * p) / (total or 1.0))

        effective = float(kish_size(members.sum(), (members**2).sum()))
        return cls(total, effective, ratio(p * selected), ratio(lowest), ratio(highest))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Compute the Clopper-Pearson interval of the estimate, of the size with the same linearised variance."""
        rate, variance = self.estimate.value, float((self.estimate.influence**2).sum())
        mixed = 0 < rate < 1 and variance > 0
        size = rate * (1 - rate) / variance if mixed else max(self.effective, 1.0)
        low, high = map(float, clopper_pearson(rate * size, size, confidence))
        return low, high

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Compute both bounds of the rate, with their sampling error; 0 and 1 without members."""
        z = normal_quantile(confidence)
        return (self.low.end(-z, 0.0), self.high.end(z)) if self.expected > 0 else (0.0, 1.0)


def widest_gap(
    rates: Mapping[str, ProbableRate], confidence: float
) -> tuple[tuple[str, str], float, tuple[float, float], tuple[float, float]]:
    """Compare at least two groups of the same people, by name.

    Returns:
        The groups with the highest and the lowest estimate, their difference, its interval, and its bounds without
        assumptions; interval and bounds are simultaneous over all pairs.
    """
    pairs = list(combinations(rates, 2))
    z = normal_quantile(bonferroni(confidence, len(pairs)))
    gaps = [rates[i].estimate.minus(rates[j].estimate) for i, j in pairs]
    gap, (best, worst) = max(zip(gaps, pairs, strict=True), key=lambda part: abs(part[0].end(0)))
    interval = largest_absolute((gap.end(-z), gap.end(z)) for gap in gaps)
    # The smallest possible difference is the lowest rate of the first group minus the highest of the second.
    ends = [(rates[i].low.minus(rates[j].high).end(-z), rates[i].high.minus(rates[j].low).end(z)) for i, j in pairs]
    named = (best, worst) if gap.value >= 0 else (worst, best)
    return named, abs(gap.end(0)), interval, largest_absolute(ends)


def largest_absolute(intervals: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Bound the largest absolute value of several numbers, given simultaneous intervals."""
    ends = [(max(0.0, low, -high), max(high, -low)) for low, high in intervals]
    return float(max(low for low, _ in ends)), float(max(high for _, high in ends))


def _sum_cells(cells: Integers, half: Booleans, values: Floats) -> Floats:
    """Sum the values in each cell separately for each half of the people, shape (2, cells)."""
    count = int(cells.max()) + 1
    sums = np.bincount(half * count + cells, weights=values, minlength=2 * count)
    return np.asarray(sums, dtype=np.float64).reshape(2, count)
