"""Changes measured on the same people: tests and intervals for pairs of answers about each person.

Because both answers come from the same people, their common variation cancels, and a change can be significant even if
two separate intervals overlap.
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
from evenhand.stats.level import Interval, as_counts, as_interval, bisect_edge, normal_cdf, normal_quantile


def mcnemar(gained: int, lost: int) -> float:
    """Compute the exact two-sided p-value of McNemar's test of equally likely changes in both directions.

    Under the null hypothesis, the number of changes in one direction is binomial with probability 1/2 (McNemar, "Note
    on the sampling error of the difference between correlated proportions or percentages", Psychometrika 1947; the
    exact version is the sign test). The p-value is twice the smaller tail, at most 1.

    Args:
        gained, lost: Number of people who change from no to yes, and from yes to no.

    Raises:
        OptionError: A count is negative.
    """
    from scipy.special import bdtr

    changed = gained + lost
    as_counts(gained, changed)
    return min(1.0, 2 * float(bdtr(min(gained, lost), changed, 0.5))) if changed else 1.0


def paired_difference(gained: int, lost: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the interval for the change of a share of the same people, ``(gained - lost) / n``.

    Score interval of Tango ("Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 1998): all d with ``|gained - lost - n d| <= z sqrt(n (2 q + d (1 -
    d)))``, where q is the most likely share of losses if the change is d. Its width is positive even if no one changed.
    At the high confidence levels of multiple comparisons, it is too narrow if there are few changes. Therefore it is
    extended to 0 if McNemar's exact test does not reject at this level, so it excludes 0 only if that test rejects.

    Args:
        gained, lost: Number of people who change from no to yes, and from yes to no.
        n: Number of people.
        confidence: Confidence level.

    Raises:
        OptionError: A count is negative, there are more changes than people, or the confidence is outside (0, 1).
    """
    z = normal_quantile(confidence)
    as_counts(gained, gained + lost)
    as_counts(gained + lost, n)
    if n == 0:
        return -1.0, 1.0

    def inside(d: float) -> bool:
        # The derivative of the likelihood in q vanishes if 2 n q^2 + linear * q - lost * d (1 - d) = 0; q is the larger
        # root.
        linear = -gained - lost + (2 * n - gained + lost) * d
        root = math.sqrt(max(linear**2 + 8 * n * lost * d * (1 - d), 0.0))
        q = (root - linear) / (4 * n)
        return abs(gained - lost - n * d) <= z * math.sqrt(max(n * (2 * q + d * (1 - d)), 0.0))

    change = (gained - lost) / n
    low, high = bisect_edge(inside, change, -1.0), bisect_edge(inside, change, 1.0)
    if mcnemar(gained, lost) > 1 - confidence:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


@dataclass(frozen=True, eq=False)
class PairedCells:
    """Cells of people with two yes-or-no answers each.

    Attributes:
        counts: Number of people by cell, old answer and new answer (1 is yes), shape (cells, 2, 2).
    """

    counts: Integers

    @classmethod
    def count(cls, cell: Integers, old: Booleans, new: Booleans, cells: int) -> PairedCells:
        """Count people by cell and answers. All arguments have shape (n,); negative cells are ignored."""
        used = cell >= 0
        code = 4 * cell[used] + 2 * old[used] + new[used]
        return cls(np.bincount(code, minlength=4 * cells).reshape(cells, 2, 2).astype(np.int64))

    @property
    def sizes(self) -> Integers:
        """Number of people in each cell, shape (cells,)."""
        return np.asarray(self.counts.sum(axis=(1, 2)))

    def shares(self) -> tuple[Floats, Floats]:
        """Compute the old and new shares of yes in each cell, shape (cells,). The share of an empty cell is 0.5."""
        return _cell_shares(self.counts.astype(np.float64))

    def add_pseudocounts(self, z: float) -> Floats:
        """Return the counts plus ``z^2 / 8`` for each combination of answers."""
        return np.asarray(self.counts + z**2 / 8)


def paired_contrast(cells: PairedCells, old: ArrayLike, new: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute intervals for changes of weighted sums of shares, ``sum(new p_new) - sum(old p_old)``.

    Cells are independent; the two answers within a cell are not. The interval is Wald's after adding ``z^2 / 8`` people
    to each of the four combinations of answers in every cell. For one cell at 95 % it equals the interval of Agresti &
    Min ("Simple improved confidence intervals for comparing matched proportions", Statistics in Medicine 2005). For two
    cells with one answer per person it equals the interval of Agresti & Caffo ("Simple and effective confidence
    intervals for proportions and differences of proportions result from adding two successes and two failures", The
    American Statistician 2000). Here it is generalised to any level and any weights, and extended to contain the
    observed value.

    Args:
        cells: Counts. An empty cell is treated as z^2 / 2 people, and half of them answer yes.
        old, new: Weights of the cells, shape (..., cells).
        confidence: Confidence level of each interval.

    Returns:
        Lower and upper ends, shape (...).
    """
    v, w = np.broadcast_arrays(np.asarray(old, dtype=np.float64), np.asarray(new, dtype=np.float64))
    z = normal_quantile(confidence)
    p, q = cells.shares()
    observed = (w * q - v * p).sum(axis=-1)
    padded = cells.add_pseudocounts(z)
    p, q = _cell_shares(padded)
    centre, reach = (w * q - v * p).sum(axis=-1), z * _standard_error(padded, v, w)
    return as_interval(np.minimum(centre - reach, observed), np.maximum(centre + reach, observed))


def change_of_largest(
    cells: PairedCells, pairs: ArrayLike, widest: tuple[int, int], confidence: float = 0.95
) -> tuple[float, float]:
    """Compute the interval for the change of the largest difference: new ``max (p_i - p_j)`` minus old.

    The maximum is over the given pairs of cells in both orders, so it is the largest absolute difference. The pair with
    the largest true difference is unknown and may change. For any two pairs k and l fixed in advance

        change <= max over all pairs m of (new difference of m) - (old difference of l),
        change >= (new difference of k) - max over all pairs m of (old difference of m).

    The largest of one-sided bounds for each pair is a bound for the maximum, without any adjustment, because it holds
    for the pair that attains the maximum (intersection-union principle: Berger, "Multiparameter hypothesis testing and
    acceptance sampling", Technometrics 1982). The ends are therefore the extreme ends of ``paired_contrast`` over m.
    The interval is shorter if k and l are close to the pairs with the largest true differences.

    Args:
        cells: Groups, with the old and the new answer of each person.
        pairs: Compared cells, shape (pairs, 2).
        widest: Positions l and k of the pairs expected to have the largest old and new difference. Positions from
            ``len(pairs)`` on refer to the same pairs in reverse order. They must not be chosen on the same data.
        confidence: Confidence level.
    """
    ordered_pairs = _both_orders(pairs)
    differences = _difference_weights(ordered_pairs, len(cells.counts))
    widest_old, widest_new = widest
    _, high = paired_contrast(cells, differences[widest_old], differences, confidence)
    low, _ = paired_contrast(cells, differences, differences[widest_new], confidence)
    return max(-1.0, float(np.min(low))), min(1.0, float(np.max(high)))


def change_of_gap(cells: PairedCells, old: ArrayLike, new: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the interval for the change of the largest difference between groups, without choosing a pair in advance.

    The ends are those of ``change_of_widest``, with ``paired_contrast`` for every two groups in both orders.

    Args:
        cells: Independent cells of people.
        old, new: Weights of the cells in the rate of each group, shape (groups, cells), with equal rows if the same
            people answer twice, and different cells if the people differ.
        confidence: Confidence level.
    """
    v, w = np.asarray(old, dtype=np.float64), np.asarray(new, dtype=np.float64)
    lower, upper = _change_between_groups(partial(paired_contrast, cells), v, w, confidence)
    p, q = cells.shares()
    change = float(np.ptp(w @ q) - np.ptp(v @ p))
    return max(-1.0, min(lower, change)), min(1.0, max(upper, change))


def _change_between_groups(
    contrast: Callable[[Floats, Floats, float], Interval], old: Floats, new: Floats, confidence: float
) -> tuple[float, float]:
    """Bound the change of the largest difference between groups, from intervals for changes of weighted sums."""
    i, j = _both_orders(np.column_stack(np.triu_indices(len(old), k=1))).T
    v, w = old[i] - old[j], new[i] - new[j]
    zero = np.zeros_like(v[0])

    def contrast_pairs(a: Integers | None, b: Integers | None, level: float) -> Interval:
        if b is None:
            return contrast(-v[a], zero, level)
        return contrast(zero if a is None else v[a], w[b], level)

    return change_of_widest(contrast_pairs, len(v), confidence)


class Contrast(Protocol):
    """Function that computes intervals for changes of a number defined on pairs of groups, such as their difference."""

    def __call__(self, old: Integers | None, new: Integers | None, level: float, /) -> Interval:
        """Compute intervals for the new numbers of the pairs ``new`` minus the old numbers of the pairs ``old``.

        Args:
            old, new: Positions of pairs, which broadcast. If ``new`` is None, intervals are for the old numbers, and if
                ``old`` is None, for the new numbers.
            level: Confidence level of each interval.
        """
        ...


def change_of_widest(contrast: Contrast, pairs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the interval for the change of the largest of several numbers, without choosing one in advance.

    Let d_k be the number of pair k, k the pair with the largest true new number, and l the pair with the largest true
    old number. The change is ``d_k(new) - d_l(old)``. It is at most the change of pair k and at least that of pair l,
    because no pair exceeds the largest. Candidates for k and l come from simultaneous intervals that use a tenth of
    ``1 - confidence`` (Bonferroni). The remaining error is used for the differences of the candidates (two-step
    procedure: Berger & Boos, "P values maximized over a confidence set for the nuisance parameter", JASA 1994). The
    upper end is the maximum over all candidates k: the end for the change of pair k if it is also a candidate for l,
    and otherwise the largest end for k against any l. The lower end is defined likewise. If the same pair is largest
    before and after, each end is valid if one interval covers its true value. Otherwise, two intervals may be required,
    and the level is confirmed by simulation (``tests/stats/test_change_of_gap.py``).

    Args:
        contrast: Function that computes the intervals.
        pairs: Number of pairs.
        confidence: Confidence level.
    """
    positions, error = np.arange(pairs), 1 - confidence
    screening = 1 - error / 10 / pairs
    low, high = contrast(positions, None, screening)
    may_be_old = high >= low.max()
    low, high = contrast(None, positions, screening)
    may_be_new = high >= low.max()
    old, new = np.flatnonzero(may_be_old), np.flatnonzero(may_be_new)
    # Each pair against itself, and each new candidate against each old candidate.
    own_low, own_high = contrast(positions, positions, 1 - 0.9 * error)
    low, high = contrast(old, new[:, None], 1 - 0.9 * error)
    upper = max(own_high[k] if may_be_old[k] else high[i].max() for i, k in enumerate(new))
    lower = min(own_low[k] if may_be_new[k] else low[:, i].min() for i, k in enumerate(old))
    return float(lower), float(upper)


@dataclass(frozen=True, eq=False)
class PairedNumbers:
    """Moments by group of two numbers per person, the old and the new one.

    Attributes:
        n: Number of people, shape (groups,).
        mean: Old and new means, shape (groups, 2).
        second: Second central moments (divisor n), shape (groups, 2, 2).
        third: Third central moments (divisor n), shape (groups, 2, 2, 2).
        reach: Range of the individual changes.
    """

    n: Integers
    mean: Floats
    second: Floats
    third: Floats
    reach: float

    @classmethod
    def of(cls, old: Floats, new: Floats, group: Integers, groups: int) -> PairedNumbers:
        """Compute the moments of old and new numbers by group code. Arguments have shape (n,); no group is empty."""
        numbers = np.column_stack([old, new])
        n = np.bincount(group, minlength=groups)

        def mean(values: Floats) -> Floats:
            return np.bincount(group, weights=values, minlength=groups) / n

        means = np.stack([mean(column) for column in numbers.T], axis=1)
        deviation = numbers - means[group]
        second, third = np.empty((groups, 2, 2)), np.empty((groups, 2, 2, 2))
        for i, j in np.ndindex(2, 2):
            second[:, i, j] = mean(deviation[:, i] * deviation[:, j])
            for k in range(2):
                third[:, i, j, k] = mean(deviation[:, i] * deviation[:, j] * deviation[:, k])
        return cls(n, means, second, third, float(np.ptp(new - old)))

    def contrast(self, old: ArrayLike, new: ArrayLike, confidence: float = 0.95) -> Interval:
        """Compute intervals for changes of weighted sums of means, ``sum(new mean_new) - sum(old mean_old)``.

        Student's t with Satterthwaite's degrees of freedom, corrected for skewness by Hall's transformation as in
        ``skewed_mean_interval``. Groups are independent, so the variances and the third moments of their means add up.

        Args:
            old, new: Weights of the groups, shape (..., groups).
            confidence: Confidence level of each interval.
        """
        weights = np.stack(np.broadcast_arrays(-np.asarray(old, float), np.asarray(new, float)), axis=-1)
        centre = (weights * self.mean).sum(axis=(-2, -1))
        single = np.einsum("...gi,...gj,gij->...g", weights, weights, self.second) / np.maximum(self.n - 1, 1)
        third = np.einsum("...gi,...gj,...gk,gijk->...g", weights, weights, weights, self.third)
        # As for one sample, third moments have divisor n, while spreads have divisor n - 1.
        third = (third / (self.n**0.5 * np.maximum(self.n - 1, 1) ** 1.5)).sum(axis=-1)
        variance, squares = single.sum(axis=-1), (single**2 / np.maximum(self.n - 1, 1)).sum(axis=-1)
        smallest = np.where(weights.any(axis=-1), self.n, np.iinfo(np.int64).max).min(axis=-1)
        spread = (variance > 0) & (squares > 0)
        n = 1 + np.where(spread, variance**2 / np.where(spread, squares, 1), smallest - 1)
        skewness = np.where(spread, third / np.where(spread, variance, 1) ** 1.5, 0) * np.sqrt(n)
        moments = NumberMoments(centre, variance * n, skewness, n)
        return skewed_mean_interval(moments, confidence, reach=self.reach)

    def change_of_gap(self, confidence: float = 0.95) -> tuple[float, float]:
        """Compute the interval for the change of the largest difference of means by ``change_of_widest``."""
        groups = np.eye(len(self.n))
        return _change_between_groups(self.contrast, groups, groups, confidence)


def change_of_smallest_ratio(
    cells: PairedCells, pairs: ArrayLike, widest: tuple[int, int], confidence: float = 0.95
) -> tuple[float, float]:
    """Compute the interval for the change of the smallest ratio: new ``min (p_i / p_j)`` minus old.

    The bounds over all pairs are those of ``change_of_largest``. The difference of two ratios has the ends of Zou &
    Donner ("Construction of confidence limits about effect measures: a general approach", Statistics in Medicine 2008):
    the squared distances to the limits of both ratios are added, minus their covariance, because the same people answer
    twice. The limits of each ratio are those of its logarithm (Katz and others, "Obtaining confidence intervals for the
    risk ratio in cohort studies", Biometrics 1978) at the padded counts, so that they are never negative.

    Args:
        cells, pairs: As for ``change_of_largest``.
        widest: Positions of the pairs expected to have the smallest old and new ratio, as for ``change_of_largest``.
        confidence: Confidence level.
    """
    ordered_pairs = _both_orders(pairs)
    z = normal_quantile(confidence)
    padded = cells.add_pseudocounts(z)
    n = padded.sum(axis=(1, 2))
    shares = p, q = _cell_shares(padded)
    logs = _difference_weights(ordered_pairs, len(n))
    ratios = [share[ordered_pairs[:, 0]] / share[ordered_pairs[:, 1]] for share in shares]
    errors = [np.sqrt(logs**2 @ ((1 - share) / (n * share))) for share in shares]
    covariance = (padded[:, 1, 1] / n - p * q) / (n * p * q)
    # Distances from each old and new ratio to its lower and upper limit.
    below = [ratio * -np.expm1(-z * error) for ratio, error in zip(ratios, errors, strict=True)]
    above = [ratio * np.expm1(z * error) for ratio, error in zip(ratios, errors, strict=True)]

    def reach(new_distance: Floats, old_distance: Floats, old: Integers, new: Integers) -> Floats:
        correlation = (logs[old] * logs[new] * covariance).sum(axis=-1) / (errors[0][old] * errors[1][new])
        squares = new_distance**2 + old_distance**2 - 2 * correlation * new_distance * old_distance
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    positions = np.arange(len(ordered_pairs))
    old, new = widest
    # Upper end: new ratio of pair k minus the smallest old ratio. Lower end: smallest new ratio minus the old ratio of
    # pair l.
    highs = ratios[1][new] - ratios[0] + reach(above[1][new], below[0], positions, np.full_like(positions, new))
    lows = ratios[1] - ratios[0][old] - reach(below[1], above[0][old], np.full_like(positions, old), positions)
    p, q = cells.shares()
    change = _smallest_ratio(q, ordered_pairs) - _smallest_ratio(p, ordered_pairs)
    return max(-1.0, min(float(lows.min()), change)), min(1.0, max(float(highs.max()), change))


@dataclass(frozen=True)
class AucChange:
    """Change of the area under the ROC curve.

    Attributes:
        value: New minus old area.
        low, high: Confidence interval.
        p: p-value of no change.
    """

    value: float
    low: float
    high: float
    p: float


def auc_difference(old: Floats, new: Floats, positive: Booleans, confidence: float = 0.95) -> AucChange:
    """Estimate the change of the area under the ROC curve between two scores of the same people.

    DeLong, DeLong & Clarke-Pearson ("Comparing the areas under two or more correlated receiver operating characteristic
    curves", Biometrics 1988): a normal interval, with the covariance of both areas estimated from the share of people
    that each person outranks. With a single positive or negative, or without any spread, the interval is [-1, 1].
    If both scores have the same order, the interval is [0, 0].

    Args:
        old, new: Finite scores, shape (n,).
        positive: Whether the true label is positive, shape (n,).
        confidence: Confidence level.

    Raises:
        OptionError: All people have the same true label.
    """
    if positive.all() or not positive.any():
        raise OptionError("the area under the ROC curve requires both true labels, got only one of them")
    wins, losses = [], []
    for scores in (old, new):
        positives, negatives = scores[positive], scores[~positive]
        wins.append(share_below(positives, np.sort(negatives)))
        losses.append(1 - share_below(negatives, np.sort(positives)))
    z = normal_quantile(confidence)
    gains, drops = wins[1] - wins[0], losses[1] - losses[0]
    value = float(gains.mean())
    if not gains.any() and not drops.any():
        return AucChange(0.0, 0.0, 0.0, 1.0)
    if min(len(gains), len(drops)) < 2 or (gains.min() == gains.max() and drops.min() == drops.max()):
        return AucChange(value, -1.0, 1.0, 1.0)
    error = math.sqrt(float(gains.var(ddof=1)) / len(gains) + float(drops.var(ddof=1)) / len(drops))
    p = 2 * float(normal_cdf(-abs(value) / error))
    return AucChange(value, max(-1.0, value - z * error), min(1.0, value + z * error), p)


def _both_orders(pairs: ArrayLike) -> Integers:
    """Return all pairs, followed by the same pairs in reverse order."""
    array = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return np.concatenate([array, array[:, ::-1]])


def _difference_weights(pairs: Integers, cells: int) -> Floats:
    """Return the weights of the difference of each pair, shape (pairs, cells)."""
    weights = np.zeros((len(pairs), cells))
    rows = np.arange(len(pairs))
    weights[rows, pairs[:, 0]] = 1
    weights[rows, pairs[:, 1]] = -1
    return weights


def _smallest_ratio(p: Floats, pairs: Integers) -> float:
    used = p[np.unique(pairs)]
    return float(used.min() / used.max()) if used.max() > 0 else 1.0


def _standard_error(padded: Floats, old: Floats, new: Floats) -> Floats:
    """Compute the standard error of ``sum(new p_new) - sum(old p_old)`` over independent cells, shape (...)."""
    n = padded.sum(axis=(1, 2))
    p, q = _cell_shares(padded)
    covariance = padded[:, 1, 1] / n - p * q
    spread = new**2 * q * (1 - q) + old**2 * p * (1 - p) - 2 * old * new * covariance
    return np.asarray(np.sqrt(np.maximum((spread / n).sum(axis=-1), 0.0)))


def _cell_shares(counts: Floats) -> tuple[Floats, Floats]:
    """Compute the old and the new share of yes in each cell, 1/2 if the cell is empty."""
    n = counts.sum(axis=(1, 2))
    favourable = np.array([counts[:, 1, :].sum(axis=1), counts[:, :, 1].sum(axis=1)])
    old, new = np.divide(favourable, n, out=np.full(favourable.shape, 0.5), where=n > 0)
    return old, new
