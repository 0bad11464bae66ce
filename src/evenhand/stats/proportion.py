"""Intervals for a proportion, and for the difference and the ratio of two independent proportions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.stats.level import Interval, as_counts, as_interval, bonferroni, normal_quantile, tail_probability
from evenhand.stats.mean import adjusted_mean_interval
from evenhand.stats.quantity import Estimated, Observed, Unknown


def clopper_pearson(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute the exact interval: it covers every true proportion with at least ``confidence``, for every n.

    Its ends are the proportions at which k or more, and k or fewer, successes have probability
    ``(1 - confidence) / 2``: beta quantiles (Clopper & Pearson, "The use of confidence or fiducial limits
    illustrated in the case of the binomial", Biometrika 1934). Assumes independent trials of equal probability.

    Args:
        k, n: successes and trials, arrays that broadcast; effective ones of a weighted sample need not be whole. Where
            n is 0 nothing is known: (0, 1).

    Raises:
        OptionError: not 0 <= k <= n, or confidence outside (0, 1).
    """
    from scipy.special import betainccinv, betaincinv

    k, n = as_counts(k, n)
    side = tail_probability(confidence)
    low = np.where(k > 0, betaincinv(np.where(k > 0, k, 1), n - k + 1, side), 0.0)
    high = np.where(k < n, betainccinv(k + 1, np.where(k < n, n - k, 1), side), 1.0)
    return as_interval(low, high)


def zero_count_upper(n: ArrayLike, confidence: float = 0.95) -> Floats:
    """Return the one-sided upper bound on a proportion of which n independent trials showed no case.

    ``1 - (1 - confidence)^(1/n)``, close to 3/n at 95 %: the rule of three (Hanley & Lippman-Hand, "If nothing goes
    wrong, is everything all right?", JAMA 1983). It is exact: the two-sided Clopper-Pearson end at k = 0 leaves only
    half as much to this side. Where n is 0 nothing is known: 1.
    """
    _, n = as_counts(0, n)
    with np.errstate(divide="ignore"):
        bound: Floats = -np.expm1(np.log(2 * tail_probability(confidence)) / n)
    return bound[()]


# Counts as numbers that say what they are: observed on given people, or estimated from a random sample.

EXACT = "Clopper-Pearson (exact)"
DIFFERENCE_METHOD = "Clopper-Pearson limits, squared and added"
RATIO_METHOD = "Donner-Zou ratio of Clopper-Pearson limits"


def observed_rate(
    k: int, n: int, confidence: float = 0.95, *, if_empty: str = "there are no people to count"
) -> Observed | Unknown:
    """Return the share k of n of the people at hand, with the exact interval for people like these.

    Args:
        if_empty: the reason to give when n is 0.
    """
    return observed_rates([k], [n], confidence, if_empty=if_empty)[0]


def observed_rates(
    k: ArrayLike, n: ArrayLike, confidence: float = 0.95, *, if_empty: str = "there are no people to count"
) -> list[Observed | Unknown]:
    """Compute ``observed_rate`` of many groups at once: k and n of shape (groups,)."""
    low, high = clopper_pearson(k, n, confidence)
    columns = np.asarray(k).tolist(), np.asarray(n).tolist(), low.tolist(), high.tolist()
    return [
        Unknown(reason=if_empty)
        if trials == 0
        else Observed(
            value=successes / trials, n=int(trials), low=below, high=above, confidence=confidence, method=EXACT
        )
        for successes, trials, below, above in zip(*columns, strict=True)
    ]


def estimated_rate(
    k: int, n: int, population: str, confidence: float = 0.95, *, if_empty: str = "no one was sampled"
) -> Estimated | Unknown:
    """Return the share of a population, from k of n individuals drawn from it independently, with the exact interval.

    Args:
        population: what was sampled, in words.
        if_empty: the reason to give when n is 0.
    """
    low, high = clopper_pearson(k, n, confidence)
    if n == 0:
        return Unknown(reason=if_empty)
    return Estimated(
        value=k / n,
        low=float(low),
        high=float(high),
        confidence=confidence,
        n=n,
        population=population,
        method=EXACT,
    )


def effective_counts(
    among: tuple[Floats, Floats], given: tuple[Floats, Floats], people: Integers
) -> tuple[Floats, Floats]:
    """Return a weighted rate as effective counts k of n.

    With weights w and outcomes y in {0, 1}, the rate is p = sum(w y) / sum(w), and its linearised variance, people
    drawn independently, v = sum(w^2 (y - p)^2) / sum(w)^2. As many people drawn alike as p (1 - p) / v give the same
    variance; where all outcomes agree, v says nothing, and Kish's sum(w)^2 / sum(w^2) stands in. Equal weights give the
    plain counts. No sample counts for more than its people (Korn & Graubard, Survey Methodology 1998).

    Args:
        among, given: sums of the weights and of their squares, of the people counted below and above the line.
        people: how many are counted below it.
    """
    (total, squares), (part, part_squares) = among, given
    p = np.clip(part / np.where(total > 0, total, 1), 0, 1)
    spread = part_squares * (1 - p) ** 2 + np.maximum(squares - part_squares, 0) * p**2
    kish = kish_size(total, squares)
    mixed = (p > 0) & (p < 1) & (spread > 0)
    n = np.where(mixed, p * (1 - p) * total**2 / np.where(mixed, spread, 1), kish)
    n = np.minimum(n, people)
    return p * n, n


def kish_size(total: Floats, squares: Floats) -> Floats:
    """Return Kish's effective size ``sum(w)^2 / sum(w^2)`` of weights with these sums; 0 where there are none."""
    return np.asarray(np.maximum(total, 0) ** 2 / np.where(squares > 0, squares, 1))


def effective_sums(sums: Floats, *, counted: bool) -> tuple[Floats, Floats, Floats]:
    """Return size, sum and sum of squares of a sample, drawn alike, that says as much as a weighted one.

    Outcomes of 0 and 1 become ``effective_counts``. Of other values v the mean is m = sum(w v) / sum(w), of which
    Kish's effective size n is taken, and a sample variance such that divided by n it is the linearised
    sum(w^2 (v - m)^2) / sum(w)^2, times n / (n - 1).

    Args:
        sums: of 1, w, w^2, w v, w^2 v and w^2 v^2, shape (6, ...).
        counted: whether values are 0 and 1.
    """
    people, total, squares, valued, squares_valued, squares_squared = sums[:6]
    if counted:
        k, n = effective_counts((total, squares), (valued, squares_valued), people)
        return n, k, k
    n, mean = kish_size(total, squares), valued / np.where(total > 0, total, 1)
    # sum(w^2 (v - m)^2), multiplied out.
    spread = np.maximum(squares_squared - 2 * mean * squares_valued + mean**2 * squares, 0)
    variance = spread / np.where(squares > 0, squares, 1) * n / np.maximum(n - 1, 1)
    return n, n * mean, np.maximum(n - 1, 0) * variance + n * mean**2


class _Proportions(NamedTuple):
    """Proportions of several groups at one level, each array of shape (groups,).

    Attributes:
        value: k / n; 1/2 where n is 0.
        low, high: Clopper-Pearson limits.
        centre, reach: middle and half the length of the interval from ``z^2 / 4`` more successes and failures.
    """

    value: Floats
    low: Floats
    high: Floats
    centre: Floats
    reach: Floats

    @property
    def limits(self) -> Interval:
        return self.low, self.high

    def take(self, groups: Any) -> _Proportions:
        """Select groups by an index, a slice or a mask."""
        return _Proportions(*(array[groups] for array in self))


def _bound_proportions(k: ArrayLike, n: ArrayLike, confidence: float) -> _Proportions:
    z = normal_quantile(confidence)
    size = np.asarray(n) + z**2 / 2
    centre = (np.asarray(k) + z**2 / 4) / size
    low, high = clopper_pearson(k, n, confidence)
    return _Proportions(proportion_or_half(k, n), low, high, centre, z * np.sqrt(centre * (1 - centre) / size))


def _difference(first: _Proportions, second: _Proportions) -> Interval:
    """Return the interval for the difference of each two proportions (see ``difference_interval``)."""
    low, high = square_and_add(first.value, first.limits, second.value, second.limits)
    difference, reach = first.centre - second.centre, np.hypot(first.reach, second.reach)
    return np.maximum(np.minimum(low, difference - reach), -1.0), np.minimum(np.maximum(high, difference + reach), 1.0)


def difference_interval(
    k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, confidence: float = 0.95
) -> Interval:
    """Compute an interval for the difference of two independent proportions, ``k1/n1 - k2/n2``.

    Clopper-Pearson limits of both proportions, squared and added (see ``square_and_add``), extended to the ends of
    Agresti and Caffo's interval where those lie further out ("Simple and effective confidence intervals for
    proportions and differences of proportions result from adding two successes and two failures", The American
    Statistician 2000). Neither covers alone where one proportion is near 0 and the other near 1. Summed exactly over
    the binomial distribution, a 95 % interval covers at least 93.9 % for group sizes from 5 to 200 and rates from
    0.005 to 0.99, and 96 % to 99 % on average.

    Args:
        k1, n1, k2, n2: successes and trials, arrays that broadcast. Where an n is 0 the interval is (-1, 1).

    Raises:
        OptionError: not 0 <= k <= n, or confidence outside (0, 1).
    """
    low, high = _difference(_bound_proportions(k1, n1, confidence), _bound_proportions(k2, n2, confidence))
    known = (np.asarray(n1) > 0) & (np.asarray(n2) > 0)
    return as_interval(np.where(known, low, -1.0), np.where(known, high, 1.0))


def ratio_interval(k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute an interval for the ratio of two independent proportions, ``(k1/n1) / (k2/n2)``.

    Donner and Zou's closed form (see ``ratio_of_limits``) from the Clopper-Pearson limits of both proportions. Summed
    exactly over the binomial distribution, a 95 % interval covers at least 94.4 % for group sizes from 5 to 200 and
    rates from 0.005 to 0.99, and 95.3 % where the smaller rate is divided by the larger.

    Args:
        k1, n1, k2, n2: successes and trials, arrays that broadcast. The upper end is infinite where k2 is 0. Where
            both counts or an n are 0 the interval is (0, inf).

    Raises:
        OptionError: not 0 <= k <= n, or confidence outside (0, 1).
    """
    p1, p2 = proportion_or_half(k1, n1), proportion_or_half(k2, n2)
    low, high = ratio_of_limits(p1, clopper_pearson(k1, n1, confidence), p2, clopper_pearson(k2, n2, confidence))
    known = (np.asarray(n1) > 0) & (np.asarray(n2) > 0)
    return as_interval(np.where(known, low, 0.0), np.where(known, high, np.inf))


def proportion_or_half(k: ArrayLike, n: ArrayLike) -> Floats:
    """``k / n``; 1/2 where n is 0, in the middle of its limits (0, 1)."""
    k, n = as_counts(k, n)
    return np.divide(k, n, out=np.full_like(n, 0.5), where=n > 0)


def square_and_add(p1: Floats, limits1: Interval, p2: Floats, limits2: Interval) -> Interval:
    """Return the interval for ``p1 - p2`` of two independent estimates from the limits (l, u) of each.

    ``p1 - p2 - sqrt((p1 - l1)^2 + (u2 - p2)^2)`` and ``p1 - p2 + sqrt((u1 - p1)^2 + (p2 - l2)^2)``: the limits carry
    the variance near the ends of the interval (Newcombe 1998; in general Zou & Donner, "Construction of confidence
    limits about effect measures: a general approach", Statistics in Medicine 2008).
    """
    (low1, high1), (low2, high2) = limits1, limits2
    return p1 - p2 - np.hypot(p1 - low1, high2 - p2), p1 - p2 + np.hypot(high1 - p1, p2 - low2)


def stretch_interval(quantity: Observed, confidence: float) -> tuple[float, float]:
    """Return the ends of a number's interval at another level: further out as normal quantiles are."""
    further = normal_quantile(confidence) / normal_quantile(quantity.confidence)
    value = quantity.value
    return value - further * (value - quantity.low), value + further * (quantity.high - value)


def difference_of_intervals(one: Observed, other: Observed, confidence: float) -> tuple[float, float]:
    """Return the interval for ``one - other``, independent of each other, from their intervals at any level.

    Squared and added as in ``square_and_add``, after both were stretched to this level.
    """
    (low1, high1), (low2, high2) = stretch_interval(one, confidence), stretch_interval(other, confidence)
    difference = one.value - other.value
    return (
        difference - math.hypot(one.value - low1, high2 - other.value),
        difference + math.hypot(high1 - one.value, other.value - low2),
    )


def ratio_of_limits(p1: Floats, limits1: Interval, p2: Floats, limits2: Interval) -> Interval:
    """Return the interval for ``p1 / p2`` of two non-negative estimates from the limits (l, u) of each.

    A ratio t is kept when 0 lies in the square-and-add interval of ``p1 - t p2`` (Fieller's idea); solved for t:
    ``(p1 p2 -+ sqrt((p1 p2)^2 - a b (2 p1 - a) (2 p2 - b))) / (b (2 p2 - b))`` with (a, b) = (l1, u2) for the lower and
    (u1, l2) for the upper end (Donner & Zou, "Closed-form confidence intervals for functions of the normal mean and
    standard deviation", Statistical Methods in Medical Research 2012). The upper end is infinite where l2 is 0.
    """
    p1, low1, high1, p2, low2, high2 = np.broadcast_arrays(p1, *limits1, p2, *limits2)
    product = p1 * p2
    # a (2 p - a) for each limit; the lower end is multiplied out so that it stays finite at p2 = 0.
    below1, above2 = low1 * (2 * p1 - low1), high2 * (2 * p2 - high2)
    above1, below2 = high1 * (2 * p1 - high1), low2 * (2 * p2 - low2)
    bottom = product + np.sqrt(np.maximum(product**2 - below1 * above2, 0.0))
    top = product + np.sqrt(np.maximum(product**2 - above1 * below2, 0.0))
    low = np.divide(below1, bottom, out=np.zeros(p1.shape), where=(low1 > 0) & (bottom > 0))
    high = np.divide(top, below2, out=np.full(p1.shape, np.inf), where=low2 > 0)
    return low, high


# Intervals for the widest gap among several groups.
#
# The observed best and worst of many groups are further apart than they truly are, and the truly best and worst may be
# others. So the interval is not that of the pair picked: every pair gets an interval at the Bonferroni level, all of
# them hold together with ``confidence``, and then the largest true distance lies between the largest of their lower
# ends and the largest of their upper ends (the smallest true ratio likewise). With two groups it is the plain interval.


def count_pairs(groups: int) -> int:
    """Return how many pairs so many groups make.

    Raises:
        OptionError: fewer than two groups, between which there is no gap.
    """
    if groups < 2:
        raise OptionError(f"a gap needs at least two groups, not {groups}")
    return groups * (groups - 1) // 2


def largest_difference_of_proportions(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval for ``max(p) - min(p)`` over two or more independent groups.

    That of ``difference_interval``, for every pair at the Bonferroni level.

    Args:
        k, n: successes and trials of each group, shape (groups,).
    """
    rates = _bound_pairs(k, n, confidence)
    return _largest_difference(
        _difference(rates.take(i), rates.take(slice(i + 1, None))) for i in range(len(rates.value) - 1)
    )


def smallest_ratio_of_proportions(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval for ``min(p) / max(p)`` over two or more independent groups.

    That of ``ratio_interval``, for every pair at the Bonferroni level.

    Args:
        k, n: successes and trials of each group, shape (groups,).
    """
    rates = _bound_pairs(k, n, confidence)
    smallest = largest = 1.0
    for i in range(len(rates.value) - 1):
        first, others = rates.take(i), rates.take(slice(i + 1, None))
        below, above = ratio_of_limits(first.value, first.limits, others.value, others.limits)
        with np.errstate(divide="ignore"):
            # A ratio in [below, above] is, the smaller over the larger, min(ratio, 1 / ratio).
            smallest = min(smallest, float(np.minimum(below, 1 / above).min()))
            largest = min(largest, float(np.minimum(above, 1 / below).min()))
    return smallest, largest


def _bound_pairs(k: ArrayLike, n: ArrayLike, confidence: float) -> _Proportions:
    """Compute the proportions with limits at the Bonferroni level of all pairs."""
    return _bound_proportions(k, n, bonferroni(confidence, count_pairs(np.asarray(k).size)))


def mean_of_proportions(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of independent proportions, such as the recalls of all labels, with its interval.

    Each proportion p has Clopper-Pearson limits (l, u); their mean of L lies between ``sum(p) / L -+ sqrt(sum d^2) /
    L`` with d the distances ``p - l`` below and ``u - p`` above (Zou & Donner, Statistics in Medicine 2008).

    Args:
        k, n: successes and trials of each, shape (L,); every n is at least 1.

    Returns:
        The mean and the ends of its interval.
    """
    p, (low, high) = proportion_or_half(k, n), clopper_pearson(k, n, confidence)
    value = float(p.mean())
    below, above = (float(np.sqrt(np.sum((p - end) ** 2)) / len(p)) for end in (low, high))
    return value, max(0.0, value - below), min(1.0, value + above)


def largest_difference_of_means(
    mean: ArrayLike,
    variance: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> tuple[float, float]:
    """Return the interval for ``max(mean) - min(mean)`` over two or more independent groups.

    ``adjusted_mean_interval`` of each group, squared and added for every pair: it covers where events are rare and
    groups small, which Welch's interval does not.

    Args:
        mean, variance, n: sample means, variances (divisor n - 1) and sizes of each group, shape (groups,).
        lower, upper: the range of a single value.
    """
    means = np.asarray(mean, dtype=np.float64)
    level = bonferroni(confidence, count_pairs(len(means)))
    low, high = adjusted_mean_interval(means, variance, n, level, lower=lower, upper=upper)
    # Groups without spread at an end of the range: their mean is that end, up to rounding.
    means = np.clip(means, low, high)
    return _largest_difference(
        square_and_add(means[i], (low[i], high[i]), means[i + 1 :], (low[i + 1 :], high[i + 1 :]))
        for i in range(len(means) - 1)
    )


def differences_from_reference(k: ArrayLike, n: ArrayLike, reference: int, confidence: float = 0.95) -> Interval:
    """Return simultaneous intervals for ``p - p[reference]`` of every other group, shape (groups - 1,).

    That of ``difference_interval``, at the Bonferroni level of one comparison for each other group.

    Args:
        k, n: successes and trials of each group, shape (groups,).
        reference: the position of the group that the others are compared with.
    """
    return _difference(*_bound_sides(k, n, reference, confidence))


def ratios_to_reference(k: ArrayLike, n: ArrayLike, reference: int, confidence: float = 0.95) -> Interval:
    """Return simultaneous intervals for ``p / p[reference]`` of every other group; see ``differences_from_reference``.

    That of ``ratio_interval``. The upper ends are infinite where the reference has no successes.
    """
    others, own = _bound_sides(k, n, reference, confidence)
    return ratio_of_limits(others.value, others.limits, own.value, own.limits)


def mean_differences_from_reference(
    means: tuple[ArrayLike, ArrayLike, ArrayLike],
    reference: int,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> Interval:
    """Return simultaneous intervals for ``mean - mean[reference]`` of every other group, shape (groups - 1,).

    Args:
        means: sample means, variances (divisor n - 1) and sizes of each group, shape (groups,).
        reference: the position of the group that the others are compared with.
        lower, upper: the range of a single value.
    """
    mean, variance, n = (np.asarray(part, dtype=np.float64) for part in means)
    level = bonferroni(confidence, len(mean) - 1)
    low, high = adjusted_mean_interval(mean, variance, n, level, lower=lower, upper=upper)
    mean, others = np.clip(mean, low, high), np.arange(len(mean)) != reference
    own = mean[reference], (low[reference], high[reference])
    return square_and_add(mean[others], (low[others], high[others]), *own)


def _bound_sides(k: ArrayLike, n: ArrayLike, reference: int, confidence: float) -> tuple[_Proportions, _Proportions]:
    """Return the proportions of all other groups and of the reference, at the Bonferroni level of the others."""
    groups = np.asarray(k).size
    rates = _bound_proportions(k, n, bonferroni(confidence, groups - 1))
    return rates.take(np.arange(groups) != reference), rates.take(reference)


def _largest_difference(intervals: Iterator[Interval]) -> tuple[float, float]:
    """Return ends for the largest absolute difference, from the intervals of each group against all later ones."""
    nearest = furthest = 0.0
    for low, high in intervals:
        nearest = max(nearest, float(low.max()), float((-high).max()))
        furthest = max(furthest, float(high.max()), float((-low).max()))
    return nearest, furthest


def count_needed(share: float, total: float) -> int:
    """Compute the smallest count whose share of a total reaches a share.

    Counts are compared by the float ``count / total``. So the share ``k / n`` of ``n`` asks for ``k``, and 0.07 of 100
    for 7, although ``0.07 * 100`` is above 7.

    Args:
        share: Share to reach, between 0 and 1.
        total: Number of people, or their effective number.

    >>> count_needed(55 / 77, 77), count_needed(0.07, 100), count_needed(0.5, 3)
    (55, 7, 2)
    """
    if total <= 0:
        return 0
    count = math.ceil(share * total)
    if count > 0 and (count - 1) / total >= share:
        return count - 1
    return count if count / total >= share else count + 1
