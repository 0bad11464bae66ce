"""What changed on the same people: tests and intervals for two answers about each of them.

Both answers come from the same people, so what they share cancels, and a change can be clear where two separate
intervals overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.stats.auc import share_below
from evenhand.stats.distribution import NumberMoments, skewed_mean_interval
from evenhand.stats.level import Interval, as_interval, bisect_edge, normal_quantile

HALVINGS = 60
"""Of an interval of length at most 2: the ends are as exact as floats are."""


def mcnemar(gained: int, lost: int) -> float:
    """Return the exact two-sided p of "as many change one way as the other".

    Under it the number of those who change one way is binomial with a half among all who change (McNemar, "Note on the
    sampling error of the difference between correlated proportions or percentages", Psychometrika 1947; exact: the
    sign test); twice the smaller tail, 1 at most.

    Args:
        gained, lost: people who change from no to yes, and from yes to no.
    """
    from scipy.special import bdtr

    changed = _check_count(gained) + _check_count(lost)
    return min(1.0, 2 * float(bdtr(min(gained, lost), changed, 0.5))) if changed else 1.0


def paired_difference(gained: int, lost: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Bound the change of a share, ``(gained - lost) / n``, from before and after on the same n people.

    The score interval of Tango ("Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 1998): all d with ``|gained - lost - n d| <= z sqrt(n (2 q + d (1 -
    d)))``, q the likeliest share of those lost if the change is d. It keeps a width if no one changed. At the high
    levels of many comparisons few changes make it too narrow; so it is made to reach 0 wherever McNemar's exact test
    does not reject at this level, and it excludes 0 only if that test does.

    Args:
        gained, lost: people who change from no to yes, and from yes to no.
        n: everybody.

    Raises:
        OptionError: the counts are not counts, or the confidence lies outside (0, 1).
    """
    z = normal_quantile(confidence)
    if not 0 <= _check_count(gained) + _check_count(lost) <= n:
        raise OptionError(f"{gained} gained and {lost} lost of {n} is not a count")
    if n == 0:
        return -1.0, 1.0

    def inside(d: float) -> bool:
        # The likelihood's derivative in q vanishes where 2 n q^2 + linear * q - lost * d (1 - d) = 0, whose greater
        # root this is.
        linear = -gained - lost + (2 * n - gained + lost) * d
        root = math.sqrt(max(linear**2 + 8 * n * lost * d * (1 - d), 0.0))
        likeliest = (root - linear) / (4 * n)
        return abs(gained - lost - n * d) <= z * math.sqrt(max(n * (2 * likeliest + d * (1 - d)), 0.0))

    change = (gained - lost) / n
    low, high = bisect_edge(inside, change, -1.0, HALVINGS), bisect_edge(inside, change, 1.0, HALVINGS)
    if mcnemar(gained, lost) > 1 - confidence:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


@dataclass(frozen=True, eq=False)
class PairedCells:
    """People in cells, each asked twice for a yes or no.

    Attributes:
        counts: how many said what, shape (cells, 2, 2): the first answer, then the second; 1 is yes.
    """

    counts: Integers

    @classmethod
    def count(cls, cell: Integers, before: Booleans, after: Booleans, cells: int) -> PairedCells:
        """Count people by cell (n,), first and second answer (n,); those in a negative cell are left out."""
        here = cell >= 0
        code = 4 * cell[here] + 2 * before[here] + after[here]
        return cls(np.bincount(code, minlength=4 * cells).reshape(cells, 2, 2).astype(np.int64))

    @property
    def sizes(self) -> Integers:
        """People of each cell, shape (cells,)."""
        return np.asarray(self.counts.sum(axis=(1, 2)))

    def shares(self) -> tuple[Floats, Floats]:
        """Return the share of yes in each cell, before and after; 0.5 in an empty cell, each of shape (cells,)."""
        return _cell_shares(self.counts.astype(np.float64))

    def add_pseudocounts(self, z: float) -> Floats:
        """Return the counts with ``z^2 / 8`` people more in each place."""
        return np.asarray(self.counts + z**2 / 8)


def paired_contrast(cells: PairedCells, before: ArrayLike, after: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the intervals for weighted sums of cells' shares, ``sum(after p_after) - sum(before p_before)``.

    Cells are independent, the two answers within one are not. Wald's interval after ``z^2 / 8`` people were added to
    each of the four places of every cell: for one cell at 95 % that of Agresti & Min ("Simple improved confidence
    intervals for comparing matched proportions", Statistics in Medicine 2005), for two cells whose people answer once
    that of Agresti & Caffo ("Simple and effective confidence intervals for proportions and differences of proportions
    result from adding two successes and two failures", The American Statistician 2000), here for any level and any
    weights. Where that would not contain the observed value it is widened to do so.

    Args:
        cells: the counts. An empty cell says nothing: it counts as z^2 / 2 people, half of them with yes.
        before, after: weights, shape (..., cells).

    Returns:
        Lower and upper ends, shape (...).
    """
    w, v = np.broadcast_arrays(np.asarray(after, dtype=np.float64), np.asarray(before, dtype=np.float64))
    z = normal_quantile(confidence)
    first, second = cells.shares()
    observed = (w * second - v * first).sum(axis=-1)
    padded = cells.add_pseudocounts(z)
    first, second = _cell_shares(padded)
    centre, reach = (w * second - v * first).sum(axis=-1), z * _standard_error(padded, v, w)
    return as_interval(np.minimum(centre - reach, observed), np.maximum(centre + reach, observed))


def change_of_largest(
    cells: PairedCells, pairs: ArrayLike, widest: tuple[int, int], confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval for the change of the largest difference: ``max (p_i - p_j)`` after, minus the same before.

    The maximum goes over given pairs of cells, in both orders, so it is the largest absolute difference; which pair is
    truly furthest apart is not known, and may change. For any two pairs k and l fixed beforehand

        change <= max over all pairs m of (difference of m after) - (difference of l before),
        change >= (difference of k after) - max over all pairs m of (difference of m before),

    and a one-sided bound holds for a maximum if it is the largest of one-sided bounds for each, without any adjustment:
    it holds for the pair at which the maximum is truly taken (the intersection-union principle: Berger, "Multiparameter
    hypothesis testing and acceptance sampling", Technometrics 1982). So the ends are those of ``contrast``, of the pair
    for which they reach furthest. The closer k and l are to the pairs truly furthest apart, the shorter the interval.

    Args:
        cells: the groups, each person's answer before and after.
        pairs: cells that are compared, shape (pairs, 2).
        widest: positions l and k in ``pairs``, twice as many as given there (those from ``len(pairs)`` on are the same
            in the other order): the pair expected to be furthest apart before, and after. They must not be chosen by
            looking at these people.
    """
    both = _both_orders(pairs)
    differences = _difference_weights(both, len(cells.counts))
    before, after = widest
    _, high = paired_contrast(cells, differences[before], differences, confidence)
    low, _ = paired_contrast(cells, differences, differences[after], confidence)
    return max(-1.0, float(np.min(low))), min(1.0, float(np.max(high)))


def change_of_gap(
    cells: PairedCells, before: ArrayLike, after: ArrayLike, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval for the change of the largest difference between groups, with no pair named beforehand.

    The ends are those of ``change_of_widest`` over ``paired_contrast`` of each two groups, in both orders.

    Args:
        cells: independent cells of people.
        before, after: the cells' weights in each group's rate, shape (groups, cells), groups in the same order. The
            same rows where the same people answer twice; rows over other cells where they are other people.
    """
    v, w = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    lower, upper = _change_between_groups(partial(paired_contrast, cells), v, w, confidence)
    p, q = cells.shares()
    change = float(np.ptp(w @ q) - np.ptp(v @ p))
    return max(-1.0, min(lower, change)), min(1.0, max(upper, change))


def _change_between_groups(
    contrast: Callable[[Floats, Floats, float], Interval], before: Floats, after: Floats, confidence: float
) -> tuple[float, float]:
    """Bound the change of the largest difference by intervals for weighted sums after minus those before."""
    first, second = _both_orders(np.column_stack(np.triu_indices(len(before), k=1))).T
    v, w = before[first] - before[second], after[first] - after[second]
    nothing = np.zeros_like(v[0])

    def of_pairs(one: Integers | None, other: Integers | None, level: float) -> Interval:
        if one is None or other is None:
            return contrast(nothing if one is None else -v[one], nothing if other is None else w[other], level)
        return contrast(v[one], w[other], level)

    return change_of_widest(of_pairs, len(v), confidence)


class Contrast(Protocol):
    """Gives intervals for a number of each pair of groups, such as their difference, and for its changes."""

    def __call__(self, before: Integers | None, after: Integers | None, level: float, /) -> Interval:
        """Return the intervals, at a level, of what pairs ``after`` have then minus what pairs ``before`` had.

        Without ``after``, of what those before had; without ``before``, of what those after have. Positions of pairs,
        which broadcast.
        """
        ...


def change_of_widest(contrast: Contrast, pairs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval for the change of the largest of several numbers, with none named beforehand.

    With d_k the number of pair k let k be the pair that truly has the largest after and l the one before. The
    change is ``d_k(after) - d_l(before)``; it is at most the change of pair k, and at least that of pair l, since no
    pair is wider than the widest. Which pairs k and l can be is looked up first, in simultaneous intervals that miss
    with a tenth of ``1 - confidence`` (Bonferroni); the rest is left to the differences that they may be (two steps:
    Berger & Boos, "P values maximized over a confidence set for the nuisance parameter", JASA 1994). The upper end is
    the largest over all k of: the end for pair k's own change if it may be l too, else for k against each l; likewise
    the lower end. Each end needs one interval to hold where the same pair is widest before and after; where another
    one is, it may need two, and the level is then that of simulations (``tests/stats/test_change_of_gap.py``).

    Args:
        contrast: the intervals.
        pairs: how many numbers there are.
        confidence: of the interval.
    """
    every, miss = np.arange(pairs), 1 - confidence
    screen = 1 - miss / 10 / pairs  # so many: each pair before, and each after
    low, high = contrast(every, None, screen)
    widest_before = high >= low.max()
    low, high = contrast(None, every, screen)
    widest_after = high >= low.max()
    may_before, may_after = np.flatnonzero(widest_before), np.flatnonzero(widest_after)
    # Every pair against itself, and each that may be widest after against each that may have been before.
    own_low, own_high = contrast(every, every, 1 - 0.9 * miss)
    low, high = contrast(may_before, may_after[:, None], 1 - 0.9 * miss)
    upper = max(own_high[k] if widest_before[k] else high[i].max() for i, k in enumerate(may_after))
    lower = min(own_low[k] if widest_after[k] else low[:, i].min() for i, k in enumerate(may_before))
    return float(lower), float(upper)


@dataclass(frozen=True, eq=False)
class PairedNumbers:
    """Moments of two numbers of each person, before and after, by group.

    Attributes:
        n: people of each group, shape (groups,); mean: shape (groups, 2).
        second, third: central moments (divisor n), shape (groups, 2, 2) and (groups, 2, 2, 2).
        reach: the range of the changes.
    """

    n: Integers
    mean: Floats
    second: Floats
    third: Floats
    reach: float

    @classmethod
    def of(cls, before: Floats, after: Floats, group: Integers, groups: int) -> PairedNumbers:
        """Return the moments of both numbers (n,) by group (n,), from 0 on; every group has people."""
        both = np.column_stack([before, after])
        n = np.bincount(group, minlength=groups)

        def mean(values: Floats) -> Floats:
            return np.bincount(group, weights=values, minlength=groups) / n

        means = np.stack([mean(side) for side in both.T], axis=1)
        away = both - means[group]
        second, third = np.empty((groups, 2, 2)), np.empty((groups, 2, 2, 2))
        for i, j in np.ndindex(2, 2):
            second[:, i, j] = mean(away[:, i] * away[:, j])
            for k in range(2):
                third[:, i, j, k] = mean(away[:, i] * away[:, j] * away[:, k])
        return cls(n, means, second, third, float(np.ptp(after - before)))

    def contrast(self, before: ArrayLike, after: ArrayLike, confidence: float = 0.95) -> Interval:
        """Return the intervals for ``sum(after mean_after) - sum(before mean_before)`` over the groups.

        Student's t with Satterthwaite's degrees of freedom, its skewness removed by Hall's transformation as in
        ``skewed_mean_interval``: groups are independent, so variances of their means add up, and so do third moments.

        Args:
            before, after: weights of the groups, shape (..., groups).
            confidence: of each interval.
        """
        weights = np.stack(np.broadcast_arrays(-np.asarray(before, float), np.asarray(after, float)), axis=-1)
        centre = (weights * self.mean).sum(axis=(-2, -1))
        single = np.einsum("...gi,...gj,gij->...g", weights, weights, self.second) / np.maximum(self.n - 1, 1)
        third = np.einsum("...gi,...gj,...gk,gijk->...g", weights, weights, weights, self.third)
        # As for one sample: third moments with divisor n, spreads with divisor n - 1 in place of n.
        third = (third / (self.n**0.5 * np.maximum(self.n - 1, 1) ** 1.5)).sum(axis=-1)
        variance, squares = single.sum(axis=-1), (single**2 / np.maximum(self.n - 1, 1)).sum(axis=-1)
        fewest = np.where(weights.any(axis=-1), self.n, np.iinfo(np.int64).max).min(axis=-1)
        spread = (variance > 0) & (squares > 0)
        n = 1 + np.where(spread, variance**2 / np.where(spread, squares, 1), fewest - 1)
        skewness = np.where(spread, third / np.where(spread, variance, 1) ** 1.5, 0) * np.sqrt(n)
        moments = NumberMoments(centre, variance * n, skewness, n)
        return skewed_mean_interval(moments, confidence, reach=self.reach)

    def change_of_gap(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval for the change of the largest difference of means, see ``change_of_widest``."""
        groups = np.eye(len(self.n))
        return _change_between_groups(self.contrast, groups, groups, confidence)


def change_of_smallest_ratio(
    cells: PairedCells, pairs: ArrayLike, widest: tuple[int, int], confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval for the change of the smallest ratio: ``min (p_i / p_j)`` after, minus the same before.

    Bounded over all pairs as in ``change_of_largest``. A difference of two ratios has the ends of Zou & Donner
    ("Construction of confidence limits about effect measures: a general approach", Statistics in Medicine 2008): each
    ratio's own limits, squared and added, less what the two share because the same people answer twice. A ratio's own
    limits are those of its logarithm (Katz and others, "Obtaining confidence intervals for the risk ratio in cohort
    studies", Biometrics 1978) at the padded counts, so that a ratio of rare answers is never thought to be below 0.

    Args:
        cells, pairs, widest: as for ``change_of_largest``; the pairs expected to have the smallest ratio.
    """
    both = _both_orders(pairs)
    z = normal_quantile(confidence)
    padded = cells.add_pseudocounts(z)
    n = padded.sum(axis=(1, 2))
    first, second = _cell_shares(padded)
    logs = _difference_weights(both, len(n))
    ratios = [p[both[:, 0]] / p[both[:, 1]] for p in (first, second)]
    errors = [np.sqrt(logs**2 @ ((1 - p) / (n * p))) for p in (first, second)]
    shared = (padded[:, 1, 1] / n - first * second) / (n * first * second)
    # How far the limits lie below and above each ratio, before and after.
    below = [ratio * -np.expm1(-z * error) for ratio, error in zip(ratios, errors, strict=True)]
    above = [ratio * np.expm1(z * error) for ratio, error in zip(ratios, errors, strict=True)]

    def reach(one: Floats, other: Floats, before: Integers, after: Integers) -> Floats:
        both_vary = (logs[before] * logs[after] * shared).sum(axis=-1) / (errors[0][before] * errors[1][after])
        return np.asarray(np.sqrt(np.maximum(one**2 + other**2 - 2 * both_vary * one * other, 0.0)))

    every = np.arange(len(both))
    before, after = widest
    # At most: the pair k after, minus the smallest before. At least: the smallest after, minus the pair l before.
    highs = ratios[1][after] - ratios[0] + reach(above[1][after], below[0], every, np.full_like(every, after))
    lows = ratios[1] - ratios[0][before] - reach(below[1], above[0][before], np.full_like(every, before), every)
    answered = cells.shares()
    change = _smallest_ratio(answered[1], both) - _smallest_ratio(answered[0], both)
    return max(-1.0, min(float(lows.min()), change)), min(1.0, max(float(highs.max()), change))


@dataclass(frozen=True)
class AucChange:
    """The change of an area under the ROC curve.

    Attributes:
        value: after minus before.
        low, high: its interval.
        p: of no change.
    """

    value: float
    low: float
    high: float
    p: float


def auc_difference(before: Floats, after: Floats, positive: Booleans, confidence: float = 0.95) -> AucChange:
    """Estimate the change of the area under the ROC curve between two scores of the same people.

    DeLong, DeLong & Clarke-Pearson ("Comparing the areas under two or more correlated receiver operating characteristic
    curves", Biometrics 1988): normal, with the covariance of both areas estimated from each person's share of wins.
    With a single positive or negative, or without any spread, nothing is claimed; scores that order everybody as before
    change nothing, for certain.

    Args:
        before, after: scores, shape (n,), finite.
        positive: whose true label is positive, shape (n,).

    Raises:
        OptionError: all or none are positive.
    """
    from scipy.special import ndtr

    if positive.all() or not positive.any():
        raise OptionError("everybody has the same true label: there is no area under the curve")
    wins, losses = [], []
    for scores in (before, after):
        above, below = scores[positive], scores[~positive]
        wins.append(share_below(above, np.sort(below)))
        losses.append(1 - share_below(below, np.sort(above)))
    z = normal_quantile(confidence)
    gain, other = wins[1] - wins[0], losses[1] - losses[0]
    value = float(gain.mean())
    if not gain.any() and not other.any():
        return AucChange(0.0, 0.0, 0.0, 1.0)
    if min(len(gain), len(other)) < 2 or (gain.min() == gain.max() and other.min() == other.max()):
        return AucChange(value, -1.0, 1.0, 1.0)
    error = math.sqrt(float(gain.var(ddof=1)) / len(gain) + float(other.var(ddof=1)) / len(other))
    p = 2 * float(ndtr(-abs(value) / error))
    return AucChange(value, max(-1.0, value - z * error), min(1.0, value + z * error), p)


def _both_orders(pairs: ArrayLike) -> Integers:
    given = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return np.concatenate([given, given[:, ::-1]])


def _difference_weights(pairs: Integers, cells: int) -> Floats:
    """Return the weights of each pair's difference, shape (pairs, cells)."""
    weights = np.zeros((len(pairs), cells))
    rows = np.arange(len(pairs))
    weights[rows, pairs[:, 0]] = 1
    weights[rows, pairs[:, 1]] = -1
    return weights


def _smallest_ratio(p: Floats, pairs: Integers) -> float:
    used = p[np.unique(pairs)]
    return float(used.min() / used.max()) if used.max() > 0 else 1.0


def _standard_error(padded: Floats, before: Floats, after: Floats) -> Floats:
    """Return standard error of ``sum(after p_after) - sum(before p_before)`` over independent cells, shape (...)."""
    n = padded.sum(axis=(1, 2))
    first, second = _cell_shares(padded)
    covariance = padded[:, 1, 1] / n - first * second
    spread = after**2 * second * (1 - second) + before**2 * first * (1 - first) - 2 * before * after * covariance
    return np.asarray(np.sqrt(np.maximum((spread / n).sum(axis=-1), 0.0)))


def _cell_shares(counts: Floats) -> tuple[Floats, Floats]:
    n = counts.sum(axis=(1, 2))
    before, after = counts[:, 1, :].sum(axis=1), counts[:, :, 1].sum(axis=1)
    half = np.full(len(n), 0.5)
    return (
        np.divide(before, n, out=half.copy(), where=n > 0),
        np.divide(after, n, out=half.copy(), where=n > 0),
    )


def _check_count(number: int) -> int:
    if number < 0:
        raise OptionError(f"{number} people are not a count")
    return int(number)
