"""Inequalities that every rule with weights keeps, and none but such rules: what makes the linear program tight.

A rule with weights w accepts cell x if ``w x >= t``. Take cells x_i with whole factors a_i > 0 and cells y_k with
factors b_k > 0, both adding up to the same, and ``D = sum a_i x_i - sum b_k y_k``. Were all x_i accepted and all y_k
not, ``w D`` would be above 0. Where w lies in a box in which ``w D <= 0``, that cannot be, and decisions z keep

    sum a_i z(x_i) - sum b_k z(y_k)  <=  sum a_i - smallest factor

With one cell on each side this says that who has more of what counts is not decided worse. With ``D = 0`` it holds
whatever the weights are (Elgot, "Truth functions realizable by single threshold organs", 1961). By the theorem of the
alternative they are enough: decisions that break none of them are those of a rule with weights in the box.

Points of a scorecard and its threshold are whole, so accepted and refused cells are at least 1 apart, and ``w D <
sum a_i`` is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.refutation.config import POINTS

NEAR = 1e-6
"""Violations below this are not looked at."""

MULTIPLES = 120
"""Whole factors are looked for up to this multiple of the smallest one."""


class Cut(NamedTuple):
    """One inequality: ``factors @ z[cells] <= limit``; factors are positive for x and negative for y."""

    cells: tuple[int, ...]
    factors: tuple[int, ...]

    @property
    def limit(self) -> int:
        """What the left side is at most."""
        return sum(one for one in self.factors if one > 0) - min(map(abs, self.factors))


class WeightBox(NamedTuple):
    """Which weights are meant: ``low <= w <= high``. Of weights of any size only the sign counts: -1 to 1 means any."""

    low: Floats
    high: Floats
    whole: bool

    @classmethod
    def of(cls, features: int, *, whole: bool) -> Self:
        """Return the box of all weights, or of all points of a scorecard."""
        reach = np.full(features, float(POINTS if whole else 1))
        return cls(-reach, reach, whole)

    def largest(self, difference: Integers) -> float:
        """Return the largest ``w D`` in the box."""
        return float(np.where(difference > 0, difference * self.high, difference * self.low).sum())

    def implies(self, features: Integers) -> Booleans:
        """Return whether accepting one cell implies accepting another, shape (cells, cells)."""
        missing = 1 - features
        # The largest w (x - y): what x has more counts with its high end, what y has more with minus its low end.
        most = (features * self.high) @ missing.T - missing @ (features * self.low).T
        return np.asarray(most <= 0)

    def cut_at(self, feature: int, at: float) -> tuple[Self, Self]:
        """Return what is up to ``at`` in one weight, and what is above; without whole points both hold 0."""
        low, high = self.low.copy(), self.high.copy()
        high[feature], low[feature] = at, at + 1 if self.whole else at
        return self._replace(high=high), self._replace(low=low)


class PairSums:
    """Pairs of cells whose features add up to the same: of such pairs one cannot be accepted and the other refused."""

    def __init__(self, features: Integers) -> None:
        cells, width = features.shape
        self.first, self.second = np.triu_indices(cells, 1)
        code = features @ (3 ** np.arange(width, dtype=np.int64))
        sums = code[self.first] + code[self.second]
        order = np.argsort(sums, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(sums[order]) > 0)) if len(order) else np.zeros(0, np.int64)
        several = np.append(starts[1:], len(order)) - starts > 1
        keep = np.repeat(several, np.append(starts[1:], len(order)) - starts) if len(order) else np.zeros(0, bool)
        self.first, self.second = self.first[order[keep]], self.second[order[keep]]
        sizes = (np.append(starts[1:], len(order)) - starts)[several] if len(order) else np.zeros(0, np.int64)
        self.starts = np.append(0, np.cumsum(sizes))

    def separate(self, decisions: Floats, most: int) -> Iterator[Cut]:
        """Yield inequalities that decisions (cells,) break, the worst first."""
        if len(self.starts) < 2:
            return
        sums = decisions[self.first] + decisions[self.second]
        high, low = (way.reduceat(sums, self.starts[:-1]) for way in (np.maximum, np.minimum))
        broken = high - low - 1
        for at in np.argsort(-broken)[:most]:
            if broken[at] <= NEAR:
                return
            here = slice(self.starts[at], self.starts[at + 1])
            one, two = (self.starts[at] + int(pick(sums[here])) for pick in (np.argmax, np.argmin))
            cells = (self.first[one], self.second[one], self.first[two], self.second[two])
            yield Cut(tuple(map(int, cells)), (1, 1, -1, -1))


def separate_pairs(implies: Booleans, decisions: Floats, most: int, each: int = 3) -> Iterator[Cut]:
    """Yield broken inequalities of one cell on each side, the worst first, few for every cell."""
    broken = np.where(implies, decisions[:, None] - decisions, 0.0)
    ones, others = np.nonzero(broken > NEAR)
    seen = np.zeros((2, len(decisions)), dtype=np.int64)
    for at in np.argsort(-broken[ones, others])[:most]:
        one, other = int(ones[at]), int(others[at])
        if seen[0, one] < each and seen[1, other] < each:
            seen[0, one] += 1
            seen[1, other] += 1
            yield Cut((one, other), (1, -1))


class FittedWeights(NamedTuple):
    """Weights that decide as wanted, or the inequality that forbids it; neither where no whole factors are found."""

    weights: Floats | None
    cut: Cut | None


def fit_weights(features: Integers, accepted: Booleans, box: WeightBox) -> FittedWeights:
    """Return weights in a box that accept certain cells and no others, or why there are none.

    The linear program pushes the cells apart: ``s_c (w x_c - t) >= r - v`` with s = 1 for accepted cells and -1 for
    others, and least v. Its dual says which cells cannot be parted.
    """
    from scipy.optimize import linprog

    if accepted.all() or not accepted.any():
        return FittedWeights(np.clip(np.zeros(features.shape[1]), box.low, box.high), None)
    side = np.where(accepted, 1.0, -1.0)
    width = features.shape[1]
    rows = -side[:, None] * np.column_stack([features, -np.ones(len(features)), np.zeros(len(features))])
    rows[:, -1] = -1.0
    reach = 1.0 if box.whole else np.inf
    ends = [
        (low if box.whole or low == 0 else -reach, high if box.whole or high == 0 else reach)
        for low, high in zip(box.low, box.high, strict=True)
    ]
    solved = linprog(
        np.append(np.zeros(width + 1), 1.0),
        A_ub=rows,
        b_ub=np.full(len(features), -0.5 if box.whole else -1.0),
        bounds=[*ends, (None, None), (0, None)],
        method="highs-ds",
    )
    if solved.x is None:
        return FittedWeights(None, None)
    if solved.fun < NEAR:
        return FittedWeights(np.asarray(solved.x[:width]), None)
    dual = -np.asarray(solved.ineqlin.marginals)
    return FittedWeights(None, _whole_factors(features, accepted, dual, box))


def _whole_factors(features: Integers, accepted: Booleans, dual: Floats, box: WeightBox) -> Cut | None:
    """Return the inequality that a dual means, in whole numbers; None if none is found."""
    cells = np.flatnonzero(dual > 1e-7)
    if not len(cells):
        return None
    share = dual[cells] / dual[cells].min()
    for multiple in range(1, MULTIPLES):
        factors = np.rint(multiple * share).astype(np.int64) * np.where(accepted[cells], 1, -1)
        if np.abs(np.abs(factors) - multiple * share).max() > 1e-3 * multiple:
            continue
        cut = Cut(tuple(map(int, cells)), tuple(map(int, factors)))
        if is_valid(cut, features, box):
            return cut
    return None


def is_valid(cut: Cut, features: Integers, box: WeightBox) -> bool:
    """Return whether every rule with weights in a box keeps an inequality."""
    factors = np.array(cut.factors)
    if factors.sum() != 0:
        return False
    most = box.largest(factors @ features[list(cut.cells)])
    return most < factors[factors > 0].sum() if box.whole else most <= 0
