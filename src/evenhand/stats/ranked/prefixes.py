"""Ranked group fairness test: is a group under-represented in any prefix of a ranking?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError

HALVINGS = 50
"""Number of bisection steps for the adjusted significance level."""

ROUNDING = 1e-9
"""Relative difference below which tail probabilities are equal."""


@dataclass(frozen=True, eq=False)
class PrefixTable:
    """Minimum number of group members in each prefix.

    Attributes:
        minimum: Minimum number of members among the first i positions, for i from 1 to k, shape (k,).
        alpha: Significance level of a single prefix.
        failing: Probability that a ranking fails if its positions are filled independently of the group.
    """

    minimum: Integers
    alpha: float
    failing: float


def prefix_table(k: int, share: float, alpha: float, *, adjusted: bool = True) -> PrefixTable:
    """Compute the minimum numbers of the ranked group fairness test (FA*IR).

    A prefix of i positions with m group members passes at level a if ``F(m; i, p) > a``, where F is the binomial
    distribution function (Zehlike et al., "FA*IR: a fair top-k ranking algorithm", CIKM 2017, definition 3.1). Because
    every prefix is tested, a is reduced until a ranking fails with probability at most alpha if each position is
    independently filled by a member with probability p. This probability is computed exactly by the recursion over
    prefixes of section 4, without simulation.

    Args:
        k: Number of positions, at least 1.
        share: p, strictly between 0 and 1.
        alpha: Significance level, strictly between 0 and 1.
        adjusted: Whether ``alpha`` applies to all prefixes together. Otherwise it applies to each prefix.

    Raises:
        OptionError: ``k``, ``share`` or ``alpha`` is outside its range.
    """
    _check_test(k, share)
    if not 0 < alpha < 1:
        raise OptionError(f"expected alpha strictly between 0 and 1, got {alpha:g}")
    tails = _binomial_tails(k, share)
    if not adjusted:
        return _table_at(tails, share, alpha)
    low, high = 0.0, alpha
    if (unadjusted := _table_at(tails, share, high)).failing <= alpha:
        return unadjusted
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _table_at(tails, share, middle).failing <= alpha else (low, middle)
    return _table_at(tails, share, low)


def prefix_p_values(members: Integers, share: float) -> Floats:
    """Compute the exact p-value of the ranked group fairness test over all prefixes, for several rankings.

    A ranking fails (see ``prefix_table``) from the level ``min F(m_i; i, p)`` over all prefixes on. Its p-value is the
    probability that a ranking with independently filled positions fails at this level.

    Args:
        members: Number of group members among the first i positions, for i from 1 to k, shape (rankings, k).
        share: p, strictly between 0 and 1.

    Raises:
        OptionError: There is no prefix, or ``share`` is outside its range.
    """
    positions = members.shape[1]
    _check_test(positions, share)
    tails = _binomial_tails(positions, share)
    levels, inverse = np.unique(tails[np.arange(positions), members].min(axis=1), return_inverse=True)
    failing = [_table_at(tails, share, level * (1 + ROUNDING)).failing for level in levels.tolist()]
    return np.array(failing)[inverse]


def _check_test(k: int, share: float) -> None:
    if k < 1 or not 0 < share < 1:
        raise OptionError(f"expected at least one position and a share between 0 and 1, got {k} and {share:g}")


def _binomial_tails(k: int, share: float) -> Floats:
    """Compute ``F(m; i, p)`` for i = 1..k and m = 0..k, shape (k, k + 1); it is 1 for m >= i."""
    from scipy.special import bdtr

    i, m = np.arange(1, k + 1)[:, None], np.arange(k + 1)[None, :]
    return np.where(m >= i, 1.0, bdtr(np.minimum(m, i).astype(np.float64), i, share))


def _table_at(tails: Floats, share: float, alpha: float) -> PrefixTable:
    """Compute the minimum numbers for a level of each prefix, and the probability that a ranking fails."""
    minimum = (tails <= alpha).sum(axis=1)
    # passing[m]: probability that the first i prefixes pass and contain m members.
    passing = np.zeros(len(tails) + 2)
    passing[0] = 1.0
    for i, required in enumerate(minimum.tolist(), start=1):
        passing[1 : i + 1] = passing[1 : i + 1] * (1 - share) + passing[:i] * share
        passing[0] *= 1 - share
        passing[:required] = 0.0
    return PrefixTable(minimum.astype(np.int64), alpha, max(0.0, 1.0 - float(passing.sum())))
