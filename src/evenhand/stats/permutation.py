"""Simultaneous tests of many groups: permutation distributions, tail corrections, and adjustments of p-values.

The "max-t" method permutes the outcomes among the people and records the largest standardised gap over all groups. A
search of fair outcomes finds a gap beyond the 95 % quantile of these maxima in at most 5 % of all cases, for any
number of groups and any overlap (Westfall & Young, "Resampling-Based Multiple Testing", 1993). The test is exact for
any number of permutations (Phipson & Smyth, "Permutation p-values should never be zero", Statistical Applications in
Genetics and Molecular Biology 2010). It only assumes that outcomes are exchangeable under the null hypothesis.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.stats.level import normal_cdf, tail_probability

TIED = 1e-5
"""Relative difference below which a maximum and a gap are equal. Sums in single precision differ by less."""

NUMPY_LIMIT = 10**9
"""Minimum number of people for which NumPy cannot draw from the multivariate hypergeometric distribution."""


def permute_counts(cell_sizes: ArrayLike, successes: int, permutations: int, rng: np.random.Generator) -> Integers:
    """Draw the number of successes in each cell under random permutations of the outcomes.

    Each draw follows the multivariate hypergeometric distribution, which is that of permuted 0/1 outcomes.

    Args:
        cell_sizes: Number of people in each cell, shape (cells,). Cells do not overlap.
        successes: Number of people with outcome 1 in all cells together.
        permutations: Number of draws.
        rng: Random generator.

    Returns:
        Successes, shape (permutations, cells).

    Raises:
        OptionError: There are more successes than people, or a count is negative.
    """
    sizes = np.asarray(cell_sizes, dtype=np.int64)
    people = int(sizes.sum())
    if permutations < 1 or not 0 <= successes <= people or (sizes < 0).any():
        raise OptionError(f"cannot draw {permutations} permutations with {successes} successes among {people} people")
    if people >= NUMPY_LIMIT:
        return _permute_many(sizes, successes, permutations, rng)
    # NumPy's "marginals" takes time proportional to the number of cells, "count" to the number of drawn people.
    drawn_people = min(successes, people - successes)
    method: Literal["count", "marginals"] = "count" if 8 * len(sizes) > drawn_people else "marginals"
    return rng.multivariate_hypergeometric(sizes, successes, size=permutations, method=method)


def _permute_many(sizes: Integers, successes: int, permutations: int, rng: np.random.Generator) -> Integers:
    """Draw permuted counts of at least ``NUMPY_LIMIT`` people.

    Successes are first drawn independently with the same probability. Then uniformly drawn successes are removed or
    added until the total is correct. All sets of people of the same size are thus equally likely.
    """
    counts = rng.binomial(sizes, successes / int(sizes.sum()), size=(permutations, len(sizes)))
    for row in counts:
        surplus = int(row.sum()) - successes
        pool = np.cumsum(row if surplus > 0 else sizes - row)
        chosen = rng.choice(int(pool[-1]), size=abs(surplus), replace=False, shuffle=False)
        corrections = np.bincount(np.searchsorted(pool, chosen, side="right"), minlength=len(sizes))
        row -= np.sign(surplus) * corrections
    return counts


def permute_sums(
    cells: NDArray[np.integer], values: Floats, number: int, permutations: int, rng: np.random.Generator
) -> Floats:
    """Compute the sum of the values in each cell under random permutations of the values.

    Args:
        cells: Cell of each person, from 0 to ``number - 1``, shape (people,).
        values: Value of each person, shape (people,).
        number: Number of cells.
        permutations: Number of permutations.
        rng: Random generator.

    Returns:
        Sums, shape (permutations, number).
    """
    permuted = np.array(values, dtype=np.float64)
    sums = np.empty((permutations, number))
    for row in sums:
        rng.shuffle(permuted)
        row[:] = np.bincount(cells, weights=permuted, minlength=number)
    return sums


def critical_value(maxima: ArrayLike, confidence: float = 0.95) -> float:
    """Compute the critical value of |z| beyond which the adjusted p-value is at most ``1 - confidence``.

    It is the ``(1 - confidence) (B + 1)``-th largest of B maxima, and infinite if there are too few of them.

    Args:
        maxima: Largest |z| over all groups in each permutation, shape (permutations,).
        confidence: Simultaneous confidence level.
    """
    ordered = np.sort(np.asarray(maxima, dtype=np.float64))
    # 0.05 * (999 + 1) must be 50, although 1 - 0.95 is not exactly 0.05 in floating point.
    allowed = int(2 * tail_probability(confidence) * (len(ordered) + 1) + 1e-9)
    return float(ordered[-allowed] * (1 + TIED)) if allowed >= 1 else float("inf")


def adjusted_p(observed: ArrayLike, maxima: ArrayLike) -> Floats:
    """Compute the adjusted p-value of each group: the probability of a maximum this large under the null hypothesis.

    ``(1 + number of maxima >= |z|) / (B + 1)`` for B maxima.

    Args:
        observed: z or |z| of each group, any shape.
        maxima: Largest |z| over all groups in each permutation, shape (permutations,).
    """
    ordered = np.sort(np.asarray(maxima, dtype=np.float64)) * (1 + TIED)
    reached = len(ordered) - np.searchsorted(ordered, np.abs(np.asarray(observed, dtype=np.float64)), side="left")
    return np.asarray((1 + reached) / (len(ordered) + 1))


def holm(p: ArrayLike) -> Floats:
    """Adjust p-values for the family-wise error rate under any dependence.

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


def normal_p_value(z: ArrayLike) -> Floats:
    """Compute the two-sided p-value of a standard normal z."""
    return np.asarray(2 * normal_cdf(-np.abs(np.asarray(z, dtype=np.float64))))


# Corrections for sums that are not yet normal, because the group is small or the outcome is rare.

FAR = 3.5
"""Number of standard deviations at which tails are matched: approximately that of the largest of a thousand gaps."""


def group_skewness(n: ArrayLike, people: ArrayLike, skewness: ArrayLike) -> Floats:
    """Compute the skewness of the sum of a group's values under permutation.

    ``g (N - 2n) sqrt(N - 1) / ((N - 2) sqrt(n (N - n)))``, where g is the skewness of the values (third central moment
    over the cubed standard deviation, both with divisor N). For 0/1 values, this is the skewness of the hypergeometric
    distribution. It is 0 if the group or its complement is empty.

    Args:
        n: Size of the group.
        people: Number of people in total.
        skewness: Skewness g of the values. All three arguments broadcast.
    """
    n, people, skewness = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in (n, people, skewness)))
    room = (people > 2) & (n > 0) & (n < people)
    bottom = (people - 2) * np.sqrt(np.maximum(n * (people - n), 0.0))
    top = skewness * (people - 2 * n) * np.sqrt(np.maximum(people - 1, 0.0))
    return np.asarray(np.divide(top, bottom, out=np.zeros(n.shape), where=room))


def tail_scales(skewness: ArrayLike) -> tuple[Floats, Floats]:
    """Compute factors that make both tails of a standardised sum approximately normal.

    The probability that a skewed sum exceeds its mean by ``FAR + s`` deviations is, to first order, that of a normal
    sum exceeding it by ``FAR``, with ``s = g (FAR^2 - 1) / 6`` (Cornish & Fisher, "Moments and cumulants in the
    specification of distributions", Revue de l'Institut International de Statistique 1938); below the mean it is ``FAR
    - s``. Without this correction, the largest of many standardised gaps would be that of a small group in which three
    people have a rare outcome and 0.3 were expected, and it would mask all other gaps.

    Args:
        skewness: Skewness of the sums, any shape.

    Returns:
        Factors above and below the mean, of the same shape; 1 without skewness. They are bounded for s near FAR.
    """
    shift = np.asarray(skewness, dtype=np.float64) * (FAR**2 - 1) / 6
    return np.asarray(FAR / np.maximum(FAR + shift, 1.0)), np.asarray(FAR / np.maximum(FAR - shift, 1.0))
