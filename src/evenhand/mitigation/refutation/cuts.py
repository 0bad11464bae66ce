"""Valid inequalities of rules with weights, which tighten the linear program.

A rule with weights w accepts cell x if ``w x >= t``. Take cells x_i with integer factors a_i > 0 and cells y_k with
factors b_k > 0 of equal sum, and ``D = sum a_i x_i - sum b_k y_k``. If all x_i were accepted and all y_k rejected, ``w
D`` would be positive. If w is in a box where ``w D <= 0``, this is impossible, and decisions z satisfy

    sum a_i z(x_i) - sum b_k z(y_k)  <=  sum a_i - smallest factor

With one cell on each side, it states that a cell with more of the favoured features is accepted at least as often. With
``D = 0`` it holds for all weights (Elgot, "Truth functions realizable by single threshold organs", 1961). By the
theorem of the alternative, decisions that satisfy all inequalities are those of a rule with weights in the box.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers

TOLERANCE = 1e-6
"""Smaller violations are ignored."""

MAX_MULTIPLE = 120
"""Maximum multiple of the smallest factor in the search for integer factors."""


class Cut(NamedTuple):
    """Inequality ``factors @ z[cells] <= limit``. Factors are positive for x and negative for y."""

    cells: tuple[int, ...]
    factors: tuple[int, ...]

    @property
    def limit(self) -> int:
        """Maximum of the left-hand side."""
        return sum(factor for factor in self.factors if factor > 0) - min(map(abs, self.factors))

    def write(self) -> str:
        """Write the inequality as ``cell:factor`` for its cells."""
        return " ".join(f"{cell}:{factor}" for cell, factor in zip(self.cells, self.factors, strict=True))


class WeightBox(NamedTuple):
    """Box of weights: ``low <= w <= high``. Only their signs and ratios matter, so -1 to 1 covers all."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, features: int) -> Self:
        """Create the box of all weights."""
        return cls(-np.ones(features), np.ones(features))

    def largest(self, difference: Integers) -> float:
        """Compute the maximum of ``w D`` in the box."""
        return float(np.where(difference > 0, difference * self.high, difference * self.low).sum())

    def implies(self, features: Integers) -> Booleans:
        """Find pairs of cells for which acceptance of the first implies acceptance of the second, (cells, cells)."""
        missing = 1 - features
        # The maximum of w (x - y): features of x alone count with the upper end, those of y alone with the lower end.
        maximum = (features * self.high) @ missing.T - missing @ (features * self.low).T
        return np.asarray(maximum <= 0)

    def split(self, feature: int) -> tuple[Self, Self]:
        """Split the box where one weight is 0. Both halves contain 0."""
        low, high = self.low.copy(), self.high.copy()
        high[feature] = low[feature] = 0
        return self._replace(high=high), self._replace(low=low)


class PairSums:
    """Pairs of cells with equal sums of features. Such pairs cannot be accepted and rejected at the same time."""

    def __init__(self, features: Integers) -> None:
        cells, width = features.shape
        first, second = np.triu_indices(cells, 1)
        code = features @ (3 ** np.arange(width, dtype=np.int64))
        _, number, sizes = np.unique(code[first] + code[second], return_inverse=True, return_counts=True)
        order = np.argsort(number, kind="stable")
        order = order[sizes[number[order]] > 1]
        self.first, self.second = first[order], second[order]
        self.starts = np.append(0, np.cumsum(sizes[sizes > 1]))

    def separate(self, decisions: Floats, maximum: int) -> Iterator[Cut]:
        """Yield inequalities that decisions (cells,) violate, the most violated first."""
        if len(self.starts) < 2:
            return
        sums = decisions[self.first] + decisions[self.second]
        high, low = (extreme.reduceat(sums, self.starts[:-1]) for extreme in (np.maximum, np.minimum))
        violation = high - low - 1
        for at in np.argsort(-violation)[:maximum]:
            if violation[at] <= TOLERANCE:
                return
            block = slice(self.starts[at], self.starts[at + 1])
            largest, smallest = (self.starts[at] + int(pick(sums[block])) for pick in (np.argmax, np.argmin))
            cells = (self.first[largest], self.second[largest], self.first[smallest], self.second[smallest])
            yield Cut(tuple(map(int, cells)), (1, 1, -1, -1))


def separate_pairs(implies: Booleans, decisions: Floats, maximum: int, each: int = 3) -> Iterator[Cut]:
    """Yield violated inequalities with one cell on each side, the most violated first, at most ``each`` per cell."""
    violation = np.where(implies, decisions[:, None] - decisions, 0.0)
    rows, columns = np.nonzero(violation > TOLERANCE)
    used = np.zeros((2, len(decisions)), dtype=np.int64)
    for at in np.argsort(-violation[rows, columns])[:maximum]:
        row, column = int(rows[at]), int(columns[at])
        if used[0, row] < each and used[1, column] < each:
            used[0, row] += 1
            used[1, column] += 1
            yield Cut((row, column), (1, -1))


def fit_weights(features: Integers, accepted: Booleans, box: WeightBox) -> Floats | Cut | None:
    """Find weights in a box that accept exactly the required cells, or an inequality that excludes them.

    The linear program separates the cells: ``s_c (w x_c - t) >= r - v`` with s = 1 for accepted cells and -1 for
    others, and minimal v. Its dual identifies cells that cannot be separated. The result is None if it finds neither.
    """
    from scipy.optimize import linprog

    if accepted.all() or not accepted.any():
        return np.clip(np.zeros(features.shape[1]), box.low, box.high)
    side = np.where(accepted, 1.0, -1.0)
    width = features.shape[1]
    rows = -side[:, None] * np.column_stack([features, -np.ones(len(features)), np.zeros(len(features))])
    rows[:, -1] = -1.0
    ends = [
        (0 if low == 0 else -np.inf, 0 if high == 0 else np.inf) for low, high in zip(box.low, box.high, strict=True)
    ]
    solution = linprog(
        np.append(np.zeros(width + 1), 1.0),
        A_ub=rows,
        b_ub=-np.ones(len(features)),
        bounds=[*ends, (None, None), (0, None)],
        method="highs-ds",
    )
    if solution.x is None:
        return None
    if solution.fun < TOLERANCE:
        return np.asarray(solution.x[:width])
    return _integer_cut(features, accepted, -np.asarray(solution.ineqlin.marginals), box)


def _integer_cut(features: Integers, accepted: Booleans, dual: Floats, box: WeightBox) -> Cut | None:
    """Convert a dual to an inequality with integer factors, or None."""
    cells = np.flatnonzero(dual > 1e-7)
    if not len(cells):
        return None
    share = dual[cells] / dual[cells].min()
    for multiple in range(1, MAX_MULTIPLE):
        factors = np.rint(multiple * share).astype(np.int64) * np.where(accepted[cells], 1, -1)
        if np.abs(np.abs(factors) - multiple * share).max() > 1e-3 * multiple:
            continue
        cut = Cut(tuple(map(int, cells)), tuple(map(int, factors)))
        if is_valid(cut, features, box):
            return cut
    return None


def is_valid(cut: Cut, features: Integers, box: WeightBox) -> bool:
    """Check that all rules with weights in a box satisfy an inequality."""
    factors = np.array(cut.factors)
    if factors.sum() != 0:
        return False
    return box.largest(factors @ features[list(cut.cells)]) <= 0
