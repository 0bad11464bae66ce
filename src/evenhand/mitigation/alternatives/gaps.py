"""Gaps between groups as differences of rates: their values for many decisions at once, and who contributes what."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.alternatives.config import GapName

CONDITIONS: dict[GapName, tuple[bool | None, ...]] = {
    "gap": (None,),
    "ratio": (None,),
    "equal-opportunity": (True,),
    "equalized-odds": (True, False),
}
"""Among whom the groups' rates of favourable decisions are to be alike: everybody, or people by their true label."""

GAP_WORDS: dict[GapName, str] = {
    "gap": "selection rates: highest minus lowest",
    "ratio": "1 minus the lowest selection rate divided by the highest",
    "equal-opportunity": "true positive rates: highest minus lowest",
    "equalized-odds": "true or false positive rates, highest minus lowest, whichever differ more",
}


@dataclass(frozen=True, eq=False)
class RateGap:
    """A gap between groups of certain people, as the largest of several signed differences.

    A rate of group g among the people of a condition c is ``r = sum_i m_i z_i`` over decisions z, with ``m_i = 1 /
    n_gc`` for those in both and 0 for all others. The differences are ``r_a - r_b`` for every ordered pair of groups
    within a condition, or ``1 - r_a / r_b`` for a ratio.

    Attributes:
        shares: m, one row per group and condition, shape (rates, n).
        pairs: rows of ``shares`` that are compared, shape (pairs, 2).
        is_ratio: whether rates are divided.
    """

    shares: Floats
    pairs: Integers
    is_ratio: bool

    @classmethod
    def of(cls, name: GapName, group: Integers, favourable: Booleans, groups: int) -> RateGap:
        """Return a gap by its name, of people in groups (n,) with true labels (n,).

        A group without people in a condition is not compared in it.
        """
        member = group == np.arange(groups)[:, None]
        rows, pairs = [], []
        for number, condition in enumerate(CONDITIONS[name]):
            here = member if condition is None else member & (favourable == condition)
            n = here.sum(axis=1)
            rows.append(here / np.maximum(n, 1)[:, None])
            pairs += list(permutations(groups * number + np.flatnonzero(n), 2))
        return cls(np.concatenate(rows), np.array(pairs, dtype=np.int64).reshape(-1, 2), name == "ratio")

    def rates(self, decisions: Floats) -> Floats:
        """Return the rates under decisions (..., n), shape (..., rates)."""
        return np.asarray(decisions @ self.shares.T)

    def differences(self, decisions: Floats) -> Floats:
        """Return all signed differences under decisions (..., n), shape (..., pairs)."""
        rates = self.rates(decisions)
        first, second = rates[..., self.pairs[:, 0]], rates[..., self.pairs[:, 1]]
        if not self.is_ratio:
            return np.asarray(first - second)
        return 1 - np.divide(first, second, out=np.ones_like(first), where=second > 0)

    def sizes(self, decisions: Floats) -> Floats:
        """Return how large the gap is under decisions (..., n), shape (...); 0 with fewer than two groups."""
        return np.asarray(self.differences(decisions).max(axis=-1, initial=0.0))

    def widest(self, decisions: Floats) -> tuple[int, int]:
        """Return which two rates are furthest apart under decisions (n,)."""
        first, second = self.pairs[int(self.differences(decisions).argmax())]
        return int(first), int(second)

    def influence(self, decisions: Floats, pair: int) -> Floats:
        """Return what each person contributes to one difference beyond the mean, shape (n,).

        The difference's variance is ``sum(influence^2)``: of a rate ``m_i (z_i - r)``, of a ratio by the delta method.
        """
        (a, b), rates = self.pairs[pair], self.rates(decisions)
        first, second = (self.shares[row] * (decisions - (rates[row] * (self.shares[row] > 0))) for row in (a, b))
        if not self.is_ratio:
            return np.asarray(first - second)
        if rates[b] == 0:
            return np.zeros(len(decisions))
        return np.asarray(-(first - rates[a] / rates[b] * second) / rates[b])
