"""Gaps between groups as differences of rates, for many decisions at once, with the influence of each person."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.config import GapName

CONDITIONS: dict[GapName, tuple[bool | None, ...]] = {
    "gap": (None,),
    "ratio": (None,),
    "equal-opportunity": (True,),
    "equalized-odds": (True, False),
}
"""Conditions of the compared rates: all people (None), or people with a favourable or unfavourable true label."""

GAP_WORDS: dict[GapName, str] = {
    "gap": "selection rates: highest minus lowest",
    "ratio": "1 minus the lowest selection rate divided by the highest",
    "equal-opportunity": "true positive rates: highest minus lowest",
    "equalized-odds": "true or false positive rates, highest minus lowest, whichever differ more",
}


@dataclass(frozen=True, eq=False)
class RateGap:
    """Gap between groups, as the largest of several signed differences.

    The rate of group g under condition c is ``r = sum_i m_i z_i`` over decisions z, with ``m_i = 1 / n_gc`` for people
    in both and 0 for all others. The differences are ``r_a - r_b`` for every ordered pair of groups under a condition,
    or ``1 - r_a / r_b`` for a ratio.

    Attributes:
        shares: m, one row per group and condition, shape (rates, n).
        pairs: Compared rows of ``shares``, shape (pairs, 2).
        is_ratio: Whether the gap is 1 minus a ratio of rates.
    """

    shares: Floats
    pairs: Integers
    is_ratio: bool

    @classmethod
    def of(cls, name: GapName, group: Integers, favourable: Booleans, groups: int) -> RateGap:
        """Create a gap for people in groups (n,) with true labels (n,).

        A group without people under a condition is not compared there.
        """
        members = group == np.arange(groups)[:, None]
        rows, pairs = [], []
        for number, condition in enumerate(CONDITIONS[name]):
            mask = members if condition is None else members & (favourable == condition)
            n = mask.sum(axis=1)
            rows.append(mask / np.maximum(n, 1)[:, None])
            pairs += list(permutations(groups * number + np.flatnonzero(n), 2))
        return cls(np.concatenate(rows), np.array(pairs, dtype=np.int64).reshape(-1, 2), name == "ratio")

    def differences(self, decisions: Floats) -> Floats:
        """Compute all signed differences of decisions (..., n), shape (..., pairs)."""
        rates = decisions @ self.shares.T
        rates_a, rates_b = rates[..., self.pairs[:, 0]], rates[..., self.pairs[:, 1]]
        if not self.is_ratio:
            return np.asarray(rates_a - rates_b)
        return 1 - np.divide(rates_a, rates_b, out=np.ones_like(rates_a), where=rates_b > 0)

    def sizes(self, decisions: Floats) -> Floats:
        """Compute the gap of decisions (..., n), shape (...). With fewer than two groups it is 0."""
        return np.asarray(self.differences(decisions).max(axis=-1, initial=0.0))

    def widest(self, decisions: Floats) -> tuple[int, int]:
        """Find the two rates that are furthest apart under decisions (n,)."""
        pair = self.pairs[int(self.differences(decisions).argmax())]
        return int(pair[0]), int(pair[1])

    def influence(self, decisions: Floats, pair: int) -> Floats:
        """Compute the influence of each person on a difference, shape (n,).

        The variance of the difference is ``sum(influence^2)``. The influence on a rate is ``m_i (z_i - r)``, and that
        on a ratio follows by the delta method.
        """
        (a, b), rates = self.pairs[pair], decisions @ self.shares.T
        terms_a, terms_b = (self.shares[row] * (decisions - (rates[row] * (self.shares[row] > 0))) for row in (a, b))
        if not self.is_ratio:
            return np.asarray(terms_a - terms_b)
        if rates[b] == 0:
            return np.zeros(len(decisions))
        return np.asarray(-(terms_a - rates[a] / rates[b] * terms_b) / rates[b])
