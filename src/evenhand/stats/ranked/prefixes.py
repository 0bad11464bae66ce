"""The ranked group fairness test: whether a group is under-represented in any prefix of a ranking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError

HALVINGS = 50
"""Steps of the search for the adjusted significance level."""

ROUNDING = 1e-9
"""Two tail probabilities this close, relatively, are equal."""


@dataclass(frozen=True, eq=False)
class PrefixTable:
    """How many members of a group every prefix needs.

    Attributes:
        minimum: at least so many among the first i, for i from 1 to k, shape (k,).
        alpha: the significance level of one prefix, adjusted so that all prefixes together have the level asked for.
        failing: the probability that a ranking whose places are filled independently of the group fails.
    """

    minimum: Integers
    alpha: float
    failing: float


def prefix_table(k: int, share: float, alpha: float, *, adjusted: bool = True) -> PrefixTable:
    """Return the minimum numbers of the ranked group fairness test (FA*IR).

    A prefix of i places passes at level a if ``F(m; i, p) > a``, where m of them are members of the group and F is the
    binomial distribution function (Zehlike et al., "FA*IR: a fair top-k ranking algorithm", CIKM 2017, definition 3.1).
    As every prefix is tested, a is lowered until a ranking whose places are filled independently, each by a member with
    probability p, fails with probability alpha at most. That probability is computed exactly, by the recursion over
    prefixes of section 4, not simulated.

    Args:
        k: places, at least 1.
        share: p, strictly between 0 and 1.
        alpha: the significance level, strictly between 0 and 1.
        adjusted: whether it holds for all prefixes together; else for each.

    Raises:
        OptionError: k, share or alpha is outside its range.
    """
    _check_test(k, share)
    if not 0 < alpha < 1:
        raise OptionError(f"expected alpha between 0 and 1, got {alpha:g}")
    tails = _tails(k, share)
    if not adjusted:
        return _table_at(tails, share, alpha)
    low, high = 0.0, alpha
    if (whole := _table_at(tails, share, high)).failing <= alpha:
        return whole
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _table_at(tails, share, middle).failing <= alpha else (low, middle)
    return _table_at(tails, share, low)


def prefix_p_values(members: Integers, share: float) -> Floats:
    """Return the p-value of the ranked group fairness test for several rankings: exact for all prefixes together.

    The smallest ``F(m_i; i, p)`` of all prefixes is the level at which a ranking begins to fail (see
    ``prefix_table``); its p-value is the probability that a ranking whose places are filled independently reaches it.

    Args:
        members: members of the group among the first i of each ranking, for i from 1 to k, shape (rankings, k).
        share: p, strictly between 0 and 1.

    Raises:
        OptionError: there is no prefix, or share is outside its range.
    """
    places = members.shape[1]
    _check_test(places, share)
    tails = _tails(places, share)
    smallest, inverse = np.unique(tails[np.arange(places), members].min(axis=1), return_inverse=True)
    failing = [_table_at(tails, share, level * (1 + ROUNDING)).failing for level in smallest.tolist()]
    return np.array(failing)[inverse]


def _check_test(k: int, share: float) -> None:
    if k < 1 or not 0 < share < 1:
        raise OptionError(f"expected at least one place and a share between 0 and 1, got {k} and {share:g}")


def _tails(k: int, share: float) -> Floats:
    """Return ``F(m; i, p)`` for i = 1..k and m = 0..k, shape (k, k + 1); 1 for m of at least i."""
    from scipy.special import bdtr

    i, m = np.arange(1, k + 1)[:, None], np.arange(k + 1)[None, :]
    return np.where(m >= i, 1.0, bdtr(np.minimum(m, i).astype(np.float64), i, share))


def _table_at(tails: Floats, share: float, alpha: float) -> PrefixTable:
    """Return the minimum numbers where every prefix is tested at this level, and how probably a ranking fails."""
    minimum = (tails <= alpha).sum(axis=1)
    places = len(tails)
    # passing[m]: probability that all prefixes so far have passed and m members are among them.
    passing = np.zeros(places + 2)
    passing[0] = 1.0
    for i, least in enumerate(minimum.tolist(), start=1):
        passing[1 : i + 1] = passing[1 : i + 1] * (1 - share) + passing[:i] * share
        passing[0] *= 1 - share
        passing[:least] = 0.0
    return PrefixTable(minimum.astype(np.int64), alpha, max(0.0, 1.0 - float(passing.sum())))
