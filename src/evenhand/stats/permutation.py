"""Many groups tested together: what the largest gap among them would be if the groups made no difference.

The permutation distribution of the largest standardised gap, "max-t": the outcomes are permuted among the people,
and each time the largest gap of all groups is noted. A gap beyond the 95 % point of these maxima is one that a search
over fair outcomes would show in at most 5 % of all cases, however the groups overlap and however many they are
(Westfall & Young, "Resampling-Based Multiple Testing", 1993; as a test it is exact for any number of permutations,
Phipson & Smyth, "Permutation p-values should never be zero", Statistical Applications in Genetics and Molecular Biology
2010). Assumes only that under the null hypothesis people are exchangeable: each could have had any other's outcome.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.stats.level import normal_cdf, tail_probability

TIED = 1e-5
"""Maxima this close below a gap, relatively, count as its equals: sums in single precision differ by less."""


MOST_DEALT = 10**9
"""NumPy deals out successes among fewer people than this."""


def permute_counts(cell_sizes: ArrayLike, successes: int, permutations: int, rng: np.random.Generator) -> Integers:
    """Return how many successes each cell gets when they are dealt out at random among the people of all cells.

    A draw from the multivariate hypergeometric distribution each: exactly what permuting the people's 0/1 outcomes
    would give, without touching the people.

    Args:
        cell_sizes: people in each cell, shape (cells,); every person in one cell.
        successes: people with outcome 1, all cells together.

    Returns:
        shape (permutations, cells).

    Raises:
        OptionError: more successes than people, or a negative number of anything.
    """
    sizes = np.asarray(cell_sizes, dtype=np.int64)
    people = int(sizes.sum())
    if permutations < 1 or not 0 <= successes <= people or (sizes < 0).any():
        raise OptionError(f"{successes} of {people} people cannot be dealt out {permutations} times")
    if people >= MOST_DEALT:
        return _deal_many(sizes, successes, permutations, rng)
    # NumPy's methods cost so much per cell, or per person dealt with; which is less work depends on the cells.
    dealt = min(successes, people - successes)
    method: Literal["count", "marginals"] = "count" if 8 * len(sizes) > dealt else "marginals"
    return rng.multivariate_hypergeometric(sizes, successes, size=permutations, method=method)


def _deal_many(sizes: Integers, successes: int, permutations: int, rng: np.random.Generator) -> Integers:
    """Return the same of more people than NumPy deals out among.

    Each person has a success with the same chance, whichever it is; where this makes too many, some of them lose it,
    and where it makes too few, some of the others get one, drawn uniformly. No set of people is then likelier than
    another of its size, as it must be.
    """
    dealt = rng.binomial(sizes, successes / int(sizes.sum()), size=(permutations, len(sizes)))
    for row in dealt:
        over = int(row.sum()) - successes
        pool = np.cumsum(row if over > 0 else sizes - row)
        chosen = rng.choice(int(pool[-1]), size=abs(over), replace=False, shuffle=False)
        moved = np.bincount(np.searchsorted(pool, chosen, side="right"), minlength=len(sizes))
        row -= np.sign(over) * moved
    return dealt


def permute_sums(
    cells: NDArray[np.integer], values: Floats, number: int, permutations: int, rng: np.random.Generator
) -> Floats:
    """Return the sum of each cell's values when the values are dealt out at random among the people.

    Args:
        cells: the cell of each person, 0 to ``number - 1``, shape (people,).
        values: a score of each person, shape (people,).

    Returns:
        shape (permutations, number).
    """
    dealt = np.array(values, dtype=np.float64)
    sums = np.empty((permutations, number))
    for row in sums:
        rng.shuffle(dealt)
        row[:] = np.bincount(cells, weights=dealt, minlength=number)
    return sums


def permutation_moments(n: ArrayLike, successes: ArrayLike, people: ArrayLike) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation of the successes in a group of n when all are dealt out at random.

    Hypergeometric: ``n K / N`` and ``sqrt(n (N - n) K (N - K) / (N^2 (N - 1)))`` with K successes among N people.

    Args:
        n, successes, people: arrays that broadcast.
    """
    n, total, people = (np.asarray(array, dtype=np.float64) for array in (n, successes, people))
    share = total / np.maximum(people, 1)
    variance = n * (people - n) * share * (1 - share) / np.maximum(people - 1, 1)
    return n * share, np.sqrt(np.maximum(variance, 0.0))


def standardised_gap(k: ArrayLike, n: ArrayLike, successes: ArrayLike, people: ArrayLike) -> Floats:
    """Compute the gap between a group and the rest in standard deviations under permutation.

    The z of ``k/n - (K - k)/(N - n)``, and of ``k`` itself: both are linear in k, so they standardise to the same. It
    is also Miettinen & Nurminen's score statistic at no difference, so that their interval at a critical z excludes 0
    exactly where this z lies beyond it. 0 where chance leaves no room: no one or everybody in the group, or successes
    for no one or for everybody.

    Args:
        k, n: successes in and size of the group; successes, people: the same of everybody. Arrays that broadcast.
    """
    mean, deviation = permutation_moments(n, successes, people)
    return _divide_or_zero(np.asarray(k, dtype=np.float64) - mean, deviation)


def stratified_gap(k: ArrayLike, n: ArrayLike, successes: ArrayLike, people: ArrayLike) -> Floats:
    """Compute ``standardised_gap`` within strata: permute outcomes in each stratum; deviations and variances add up.

    The square is the Mantel-Haenszel statistic without continuity correction (Mantel & Haenszel, "Statistical aspects
    of the analysis of data from retrospective studies of disease", JNCI 1959).

    Args:
        k, n, successes, people: arrays that broadcast, strata along the last axis, which is summed over.
    """
    mean, deviation = permutation_moments(n, successes, people)
    excess = np.asarray(k, dtype=np.float64) - mean
    return _divide_or_zero(excess.sum(axis=-1), np.sqrt((deviation**2).sum(axis=-1)))


def standardised_mean_gap(
    total: ArrayLike, n: ArrayLike, mean: ArrayLike, variance: ArrayLike, people: ArrayLike
) -> Floats:
    """Return the gap between a group's mean score and the rest's, in standard deviations under permutation.

    Args:
        total, n: sum of the scores in the group and its size, arrays that broadcast.
        mean, variance, people: of everybody's scores (divisor n - 1), and their number.
    """
    total, n, mean, variance, people = (
        np.asarray(array, dtype=np.float64) for array in (total, n, mean, variance, people)
    )
    deviation = np.sqrt(np.maximum(n * (people - n), 0.0) * variance / np.maximum(people, 1))
    return _divide_or_zero(total - n * mean, deviation)


def _divide_or_zero(excess: Floats, deviation: Floats) -> Floats:
    """Return their quotient, 0 where the deviation is 0."""
    excess, deviation = np.broadcast_arrays(excess, deviation)
    return np.divide(excess, deviation, out=np.zeros(excess.shape), where=deviation > 0)


def critical_value(maxima: ArrayLike, confidence: float = 0.95) -> float:
    """Return what the observed |z| must exceed for an adjusted p of at most ``1 - confidence``.

    The ``(1 - confidence) (B + 1)``-th largest of the B maxima; infinite where they are too few to say.

    Args:
        maxima: the largest |z| of all groups in each permutation, shape (permutations,).
    """
    ordered = np.sort(np.asarray(maxima, dtype=np.float64))
    # 0.05 * (999 + 1) must be 50, though 1 - 0.95 is not 0.05 in floating point.
    allowed = int(2 * tail_probability(confidence) * (len(ordered) + 1) + 1e-9)
    return float(ordered[-allowed] * (1 + TIED)) if allowed >= 1 else float("inf")


def adjusted_p(observed: ArrayLike, maxima: ArrayLike) -> Floats:
    """Return for each observed |z| the share of maxima that reach it, the observed outcomes among them.

    ``(1 + number of maxima >= |z|) / (B + 1)``: the chance that a search of fair outcomes shows so large a gap at all.

    Args:
        observed: z or |z| of each group, any shape.
        maxima: the largest |z| of all groups in each permutation, shape (permutations,).
    """
    ordered = np.sort(np.asarray(maxima, dtype=np.float64)) * (1 + TIED)
    reached = len(ordered) - np.searchsorted(ordered, np.abs(np.asarray(observed, dtype=np.float64)), side="left")
    return np.asarray((1 + reached) / (len(ordered) + 1))


def holm(p: ArrayLike) -> Floats:
    """Adjust p-values so that those at most alpha hold a false one with probability alpha at most, in any dependence.

    ``max over j <= i of (m - j + 1) p_(j)``, at most 1 (Holm, "A simple sequentially rejective multiple test
    procedure", Scandinavian Journal of Statistics 1979).

    Args:
        p: p-values of all tests, shape (m,).
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


# The false discovery rate: among the groups reported, how many are there by chance.
#
# Weaker than family-wise control, which allows not one, and more powerful where much is to be found.


def benjamini_yekutieli(p: ArrayLike) -> Floats:
    """Adjust p-values for the false discovery rate under any dependence (Benjamini and Yekutieli 2001).

    ``min over j >= i of p_(j) m c / j`` with ``c = 1 + 1/2 + ... + 1/m``, at most 1 (Benjamini & Yekutieli, "The
    control of the false discovery rate in multiple testing under dependency", Annals of Statistics 2001, theorem 1.3):
    valid whatever the dependence between groups, which overlap here.

    Args:
        p: p values of all the groups that were looked at, shape (m,).
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p)
    scaled = p[order] * _harmonic_sum(len(p)) * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def false_coverage_confidence(reported: int, tested: int, confidence: float = 0.95) -> float:
    """Return the level of the reported groups' intervals, so that at most ``1 - confidence`` miss on average.

    ``1 - (1 - confidence) R / (m c)``, c as in ``benjamini_yekutieli``: for R of m groups reported by that procedure
    the expected share of intervals that miss is controlled whatever the dependence (Benjamini & Yekutieli, "False
    discovery rate-adjusted multiple confidence intervals for selected parameters", JASA 2005, theorem 4).
    """
    if not 0 <= reported <= tested or tested < 1:
        raise OptionError(f"{reported} of {tested} groups cannot have been reported")
    return 1 - 2 * tail_probability(confidence) * max(reported, 1) / (tested * _harmonic_sum(tested))


def normal_p_value(z: ArrayLike) -> Floats:
    """Return the two-sided p of a standard normal z."""
    return np.asarray(2 * normal_cdf(-np.abs(np.asarray(z, dtype=np.float64))))


def _harmonic_sum(tests: int) -> float:
    return float((1 / np.arange(1, tests + 1)).sum())
