"""The z of a gap between a group and all other people under permutation."""

import numpy as np


def permutation_moments(n, successes, people):
    """Compute the mean and standard deviation of the successes in a group of n under permutation.

    Hypergeometric: ``n K / N`` and ``sqrt(n (N - n) K (N - K) / (N^2 (N - 1)))`` with K successes among N people.

    Args:
        n: Size of the group.
        successes, people: Number of successes and of people in total. All three arguments broadcast.
    """
    n, total, people = (np.asarray(array, dtype=np.float64) for array in (n, successes, people))
    share = total / np.maximum(people, 1)
    variance = n * (people - n) * share * (1 - share) / np.maximum(people - 1, 1)
    return n * share, np.sqrt(np.maximum(variance, 0.0))


def standardised_gap(k, n, successes, people):
    """Compute the gap between a group and all other people in standard deviations under permutation.

    This is the z of ``k/n - (K - k)/(N - n)`` and also that of ``k``, because both are linear in k. It equals Miettinen
    & Nurminen's score statistic for no difference, so their interval at a critical z excludes 0 if and only if this z
    exceeds it. The result is 0 if the standard deviation is 0: if the group or its complement is empty, or if all
    outcomes are equal.

    Args:
        k, n: Number of successes and of people in the group.
        successes, people: Number of successes and of people in total. All arguments broadcast.
    """
    mean, deviation = permutation_moments(n, successes, people)
    excess, deviation = np.broadcast_arrays(np.asarray(k, dtype=np.float64) - mean, deviation)
    return np.asarray(np.divide(excess, deviation, out=np.zeros(excess.shape), where=deviation > 0))
