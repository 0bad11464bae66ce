"""Intervals for the widest gap among several groups.

The observed best and worst of many groups are further apart than they truly are, and the truly best and worst may be
others. So the interval is not that of the pair picked: every pair gets an interval at the Bonferroni level, all of them
hold together with ``confidence``, and then the largest true distance lies between the largest of their lower ends and
the largest of their upper ends (the smallest true ratio likewise). With two groups it is the plain interval.

At the high levels that many pairs call for, Wilson's limits are too narrow for rare events (one case among thirty is
not as unlikely as they take it to be); from three groups on the pairs are therefore built from exact limits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from evenhand.errors import OptionError
from evenhand.stats.difference import ratio_of_limits, share, square_and_add
from evenhand.stats.level import Interval, bonferroni
from evenhand.stats.mean import welch
from evenhand.stats.proportion import clopper_pearson, wilson


def pairs(groups: int) -> int:
    """How many pairs so many groups make.

    Raises:
        OptionError: fewer than two groups, between which there is no gap.
    """
    if groups < 2:
        raise OptionError(f"a gap needs at least two groups, not {groups}")
    return groups * (groups - 1) // 2


def largest_difference_of_proportions(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Interval for ``max(p) - min(p)`` over two or more independent groups.

    Two groups: Newcombe's hybrid score interval. More: Clopper-Pearson limits, squared and added for every pair.

    Args:
        k, n: successes and trials of each group, shape (groups,).
    """
    p, (low, high) = share(k, n), _limits(k, n, confidence)
    return _largest(
        square_and_add(p[i], (low[i], high[i]), p[i + 1 :], (low[i + 1 :], high[i + 1 :])) for i in range(len(p) - 1)
    )


def smallest_ratio_of_proportions(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Interval for ``min(p) / max(p)`` over two or more independent groups.

    Two groups: Donner & Zou's ratio of Wilson limits. More: the same of Clopper-Pearson limits, for every pair.

    Args:
        k, n: successes and trials of each group, shape (groups,).
    """
    p, (low, high) = share(k, n), _limits(k, n, confidence)
    smallest = largest = 1.0
    for i in range(len(p) - 1):
        below, above = ratio_of_limits(p[i], (low[i], high[i]), p[i + 1 :], (low[i + 1 :], high[i + 1 :]))
        with np.errstate(divide="ignore"):
            # A ratio in [below, above] is, the smaller over the larger, min(ratio, 1 / ratio).
            smallest = min(smallest, float(np.minimum(below, 1 / above).min()))
            largest = min(largest, float(np.minimum(above, 1 / below).min()))
    return smallest, largest


def largest_difference_of_means(
    mean: ArrayLike,
    variance: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> tuple[float, float]:
    """Interval for ``max(mean) - min(mean)`` over two or more independent groups, from Welch's interval of each pair.

    Args:
        mean, variance, n: sample means, variances (divisor n - 1) and sizes of each group, shape (groups,).
        lower, upper: the range of a single value.
    """
    mean, variance, n = np.asarray(mean), np.asarray(variance), np.asarray(n)
    level = bonferroni(confidence, pairs(len(mean)))
    return _largest(
        welch(
            *(mean[i], variance[i], n[i]),
            *(mean[i + 1 :], variance[i + 1 :], n[i + 1 :]),
            level,
            lower=lower,
            upper=upper,
        )
        for i in range(len(mean) - 1)
    )


def _limits(k: ArrayLike, n: ArrayLike, confidence: float) -> Interval:
    groups = np.asarray(k).size
    level = bonferroni(confidence, pairs(groups))
    return wilson(k, n, level) if groups == 2 else clopper_pearson(k, n, level)


def _largest(intervals: Iterator[Interval]) -> tuple[float, float]:
    """Ends for the largest absolute difference, from the intervals of each group against all later ones."""
    nearest = furthest = 0.0
    for low, high in intervals:
        nearest = max(nearest, float(low.max()), float((-high).max()))
        furthest = max(furthest, float(high.max()), float((-low).max()))
    return nearest, furthest
