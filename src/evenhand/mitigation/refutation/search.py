"""Branch and bound for rules with weights: the smallest gap at an accuracy floor, with a proof of the bound.

The decisions z in [0, 1] of the cells are the variables of a linear program, with the gap G:

    min G   s.t.  sum gains z >= need,   sum differences z <= G for every pair of groups,   cuts

Cuts (``cuts.py``) are valid in a box of weights. Boxes are halved, and cells accepted or rejected, until no part
can contain a better rule. Each linear program is bounded by its multipliers alone, which are rounded first. For lambda,
mu, kappa >= 0 with ``sum mu <= 1``

    G  >=  lambda need - sum kappa limit
           + sum_c min over z_c of z_c (sum mu difference_c - lambda gain_c + sum kappa factor_c)

so the bound can be recomputed exactly from the multipliers, without a solver (``evenhand.checker``). A part that
contains no rule has a bound above 1, the largest gap.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.mitigation.refutation.cuts import Cut, PairSums, WeightBox, fit_weights, separate_pairs
from evenhand.mitigation.refutation.features import FeatureCells
from evenhand.mitigation.refutation.result import NO_RULE, FamilyBound, RefutationProof
from evenhand.mitigation.refutation.weights import WeightSearch

SCALE = 10**12
"""Multipliers are integers in units of 1 / SCALE."""

SAFETY = 1e-12
"""Relative amount by which floating-point bounds are lowered. Its error is about 1e-14."""

NEAREST = 1e-9
"""Parts are not split if their bound is this close to the best gap."""

COARSE, MANY_PARTS = 1e-4, 200
"""Larger tolerance, after ``MANY_PARTS`` parts."""

DEFAULT_WORK, MIN_PARTS = 60_000, 50
"""Default limit on the number of parts times cells, and minimum limit on the number of parts."""

ROUNDS, FIRST_ROUNDS, MAX_CUTS = 6, 40, 300
"""Maximum numbers of linear programs of a part and of the first part, and of cuts added by each."""

INTEGRALITY = 1e-6
"""Tolerance for integer decisions."""


class Multipliers(NamedTuple):
    """Multipliers in units of 1 / ``SCALE``: of the floor, of each pair of groups, and of cuts by index."""

    floor: int
    pairs: tuple[int, ...]
    cuts: tuple[tuple[int, int], ...] = ()

    def write(self) -> str:
        """Write the multipliers as a line of a proof."""
        cuts = " ".join(f"{number}:{value}" for number, value in self.cuts)
        return f"bound {self.floor}; {' '.join(map(str, self.pairs))}; {cuts}".rstrip()


class BoundedSolution(NamedTuple):
    """Solution: decisions, rounded multipliers, their bound, and the indices of cuts that are nearly tight."""

    decisions: Floats
    multipliers: Multipliers
    bound: float
    near: list[int]


class Relaxation:
    """Linear program of a table of cells, with numbered cuts."""

    def __init__(self, table: FeatureCells) -> None:
        self.table = table
        self.gains, self.differences = table.gains, table.differences
        self.people, self.need = table.people, table.need - table.base
        self.cuts: list[Cut] = []
        self._numbers: dict[Cut, int] = {}
        self._arrays: list[tuple[Integers, Floats, float]] = []

    def number(self, cut: Cut) -> int:
        """Return the index of a cut, and add the cut if it is new."""
        if cut not in self._numbers:
            self._numbers[cut] = len(self.cuts)
            self.cuts.append(cut)
            self._arrays.append((np.array(cut.cells), np.array(cut.factors, dtype=np.float64), float(cut.limit)))
        return self._numbers[cut]

    def solve(self, rows: list[int], fixed: Floats) -> BoundedSolution:
        """Solve the linear program, or prove that it is infeasible.

        Args:
            rows: Indices of the cuts.
            fixed: Lower and upper bounds of the decisions, shape (2, cells).
        """
        pairs, cells = self.differences.shape
        solution = self._optimise(rows, fixed, elastic=False)
        factor = 1.0
        if solution.x is None:
            # Infeasible: minimise the violation of floor and cuts, whose multipliers prove it.
            solution = self._optimise(rows, fixed, elastic=True)
            if solution.x is None or solution.fun < 1e-9:
                return BoundedSolution(np.clip(np.full(cells, 0.5), *fixed), Multipliers(0, (0,) * pairs), 0.0, rows)
            factor = NO_RULE / solution.fun
        values = factor * np.maximum(-np.asarray(solution.ineqlin.marginals), 0.0)
        # The multipliers of the groups add up to at most 1, and are rounded down. By weak duality, any nonnegative
        # multipliers prove a bound. Rounding only weakens it.
        shares = [int(value) for value in np.floor(values[:pairs] * SCALE)] if factor == 1.0 else [0] * pairs
        while sum(shares) > SCALE:
            shares[int(np.argmax(shares))] -= sum(shares) - SCALE
        cuts = [
            (cut, int(value)) for cut, value in zip(rows, np.rint(values[pairs + 1 :] * SCALE), strict=True) if value
        ]
        multipliers = Multipliers(round(values[pairs] / self.people * SCALE), tuple(shares), tuple(cuts))
        near = [cut for cut, slack in zip(rows, solution.ineqlin.residual[pairs + 1 :], strict=True) if slack < 0.3]
        decisions = np.clip(solution.x[:cells], *fixed)
        return BoundedSolution(decisions, multipliers, self.bound(multipliers, fixed), near)

    def _optimise(self, rows: list[int], fixed: Floats, *, elastic: bool) -> Any:
        """Minimise the gap, or with ``elastic`` the violation of the floor and the cuts."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        # Variables: decisions of the cells, then the gap or the violation. Rows: pairs of groups, floor, cuts.
        pairs, cells = self.differences.shape
        violation = -1.0 if elastic else 0.0
        top = np.zeros((pairs + 1, cells + 1))
        if not elastic:
            top[:pairs, :cells], top[:pairs, cells] = self.differences, -1.0
        top[pairs, :cells], top[pairs, cells] = -self.gains / self.people, violation
        cuts = [self._arrays[row] for row in rows]
        sizes = np.array([len(cut[0]) for cut in cuts], dtype=np.int64) + elastic
        extra = (np.array([cells]), np.array([violation])) if elastic else (np.zeros(0, np.int64), np.zeros(0))
        data = [top.ravel(), *(part for cut in cuts for part in (cut[1], extra[1]))]
        columns = [np.tile(np.arange(cells + 1), pairs + 1), *(part for cut in cuts for part in (cut[0], extra[0]))]
        starts = [np.arange(pairs + 1) * (cells + 1), (pairs + 1) * (cells + 1) + np.append(0, np.cumsum(sizes))]
        matrix = csr_array(
            (np.concatenate(data), np.concatenate(columns), np.concatenate(starts)),
            shape=(pairs + 1 + len(rows), cells + 1),
        )
        return linprog(
            np.append(np.zeros(cells), 1.0),
            A_ub=matrix,
            b_ub=np.concatenate([np.zeros(pairs), [-self.need / self.people], [cut[2] for cut in cuts]]),
            bounds=np.column_stack([np.append(fixed[0], 0.0), np.append(fixed[1], np.inf)]),
            method="highs-ds",
        )

    def bound(self, multipliers: Multipliers, fixed: Floats) -> float:
        """Compute the lower bound of the gap of decisions within ``fixed``, by weak duality."""
        # The minimum of price * decision of each cell is at an end of its range. SAFETY is subtracted for rounding.
        floor = multipliers.floor / SCALE
        price = np.array(multipliers.pairs, dtype=np.float64) / SCALE @ self.differences - floor * self.gains
        total = floor * self.need
        for number, value in multipliers.cuts:
            cells, factors, limit = self._arrays[number]
            price[cells] += value / SCALE * factors
            total -= value / SCALE * limit
        scale = 1.0 + abs(total) + float(np.abs(price).sum())
        return float(total + np.minimum(price * fixed[0], price * fixed[1]).sum()) - SAFETY * scale


@dataclass
class ProofPart:
    """Part of the proof, with its split or its multipliers.

    Attributes:
        multipliers: Multipliers of a part without a split.
        weight: Index of the split weight, which is at most 0 in the first half and at least 0 in the second.
        cell: Index of the split cell, refused in the first half and accepted in the second.
        halves: Halves.
    """

    multipliers: Multipliers
    weight: int | None = None
    cell: int | None = None
    halves: tuple[ProofPart, ...] = ()

    def write(self) -> str:
        """Write the part as a line of a proof."""
        if self.weight is not None:
            return f"weight {self.weight} 0"
        return f"cell {self.cell}" if self.cell is not None else self.multipliers.write()

    def walk(self) -> Iterator[ProofPart]:
        """Yield this part and all parts below it; each precedes its halves."""
        stack = [self]
        while stack:
            part = stack.pop()
            yield part
            stack += reversed(part.halves)


class OpenProof(NamedTuple):
    """Part that may be split: its bound, decisions, cuts, fixed decisions and weights. ``order`` breaks ties."""

    bound: float
    order: int
    decisions: Floats
    rows: list[int]
    fixed: Floats
    box: WeightBox
    part: ProofPart


class RuleSearch:
    """Branch and bound over boxes of weights and decisions of cells.

    Attributes:
        table: Cells.
        parts: Number of parts so far.
    """

    def __init__(self, table: FeatureCells, seed: int) -> None:
        self.table = table
        self.parts = 1
        self.relaxation = Relaxation(table)
        self.weights = WeightSearch(table, seed)
        self.sums = PairSums(table.features)
        self._implications: tuple[tuple[bytes, bytes], Booleans] | None = None
        self._pairs_of: dict[int, tuple[Integers, Integers]] = {}
        self._created = 0
        self._closed = math.inf

    def run(
        self, max_parts: int | None, time_limit: float | None, progress: Progress, *, clock: Callable[[], float]
    ) -> FamilyBound:
        """Search until no part is open, a limit is reached, or an interrupt."""
        started = clock()
        cells, width = self.table.features.shape
        limit = max(MIN_PARTS, DEFAULT_WORK // cells) if max_parts is None else max_parts
        root = ProofPart(Multipliers(0, (0,) * len(self.relaxation.differences)))
        box = WeightBox.of(width)
        stopped = False
        with InterruptCounter() as interrupts:
            heap = [self._bound(0.0, [], self.table.full_range, box, root, FIRST_ROUNDS)]
            self.weights.learn(heap[0].decisions)
            initial = heap[0].bound
            while heap and heap[0].bound < self.weights.gap - (NEAREST if self.parts < MANY_PARTS else COARSE):
                stopped = self.parts >= limit or (time_limit is not None and clock() - started > time_limit)
                if stopped or interrupts.count:
                    break
                for child in self._split(heapq.heappop(heap)):
                    heapq.heappush(heap, child)
                if self.parts % 16 == 1 and heap:  # each split adds two parts to the first one
                    bound, gap = heap[0].bound, self.weights.gap
                    words = f"least gap at least {bound:.4f}"
                    if self.weights.best is not None:
                        words = f"least gap between {max(bound, 0):.4f} and {gap:.4f}"
                    share = (bound - initial) / (gap - initial) if gap > initial else 0.0
                    progress(words, min(1.0, max(0.0, share)))
        best, words = self.weights.best, "a weighted sum of features with a threshold"
        return FamilyBound(
            min([self._closed, *(part.bound for part in heap)]),
            None if best is None else best.accepted.astype(np.float64),
            {} if best is None else {"words": words, "weights": best.weights, "threshold": best.threshold},
            RefutationProof(
                cuts=tuple(cut.write() for cut in self.relaxation.cuts),
                parts=tuple(part.write() for part in root.walk()),
            ),
            self.parts,
            stopped,
            bool(interrupts.count),
        )

    def _bound(
        self, parent: float, rows: list[int], fixed: Floats, box: WeightBox, part: ProofPart, rounds: int
    ) -> OpenProof:
        """Bound a part by the best multipliers after some rounds of cuts. The bound is at least that of its parent."""
        implies = self._implied_rows(box)
        best = parent
        for _ in range(rounds):
            decisions, multipliers, bound, near = self.relaxation.solve(rows, fixed)
            if bound > best:
                best, part.multipliers = bound, multipliers
            if best >= self.weights.gap:
                break
            cuts = [*separate_pairs(implies, decisions, MAX_CUTS)]
            if len(cuts) < MAX_CUTS // 10:
                cuts += self.sums.separate(decisions, MAX_CUTS // 5)
            if not cuts and not _fractional(decisions).any():
                # Weights with these integer decisions give a rule. Without any, a cut excludes the decisions.
                fitted = fit_weights(self.table.features, decisions > 0.5, box)
                if isinstance(fitted, np.ndarray):
                    self.weights.offer(fitted)
                elif fitted is not None:
                    cuts.append(fitted)
            new = {self.relaxation.number(cut) for cut in cuts} - set(rows)
            if not new:
                break
            rows = near + sorted(new)
        self._created += 1
        return OpenProof(best, self._created, decisions, rows, fixed, box, part)

    def _implied_rows(self, box: WeightBox) -> Booleans:
        key = (box.low.tobytes(), box.high.tobytes())
        if self._implications is None or self._implications[0] != key:
            self._implications = (key, box.implies(self.table.features))
        return self._implications[1]

    def _split(self, open_part: OpenProof) -> Iterator[OpenProof]:
        """Yield the halves of a part that can contain a better rule."""
        part = open_part.part
        halves = list(self._halve(open_part))
        if not halves:
            self._closed = min(self._closed, open_part.bound)
            return
        part.halves = tuple(ProofPart(part.multipliers) for _ in halves)
        for half, (fixed, box) in zip(part.halves, halves, strict=True):
            self.parts += 1
            child = self._bound(open_part.bound, list(open_part.rows), fixed, box, half, ROUNDS)
            if child.bound < self.weights.gap - NEAREST:
                yield child
            else:
                self._closed = min(self._closed, child.bound)

    def _halve(self, open_part: OpenProof) -> Iterator[tuple[Floats, WeightBox]]:
        """Split a part along a weight or a cell. It yields nothing if the part cannot be split."""
        part, decisions = open_part.part, open_part.decisions
        part.weight = self._choose_weight(open_part)
        if part.weight is not None:
            for half in open_part.box.split(part.weight):
                yield open_part.fixed, half
        elif _fractional(decisions).any():
            relaxation = self.relaxation
            weight = np.abs(relaxation.differences).max(axis=0) + np.abs(relaxation.gains) / self.table.people
            part.cell = int(np.argmax(np.minimum(decisions, 1 - decisions) * weight))
            for end in (0.0, 1.0):
                fixed = open_part.fixed.copy()
                fixed[:, part.cell] = end
                yield fixed, open_part.box

    def _choose_weight(self, open_part: OpenProof) -> int | None:
        """Choose the weight of undetermined sign with the largest effect on the decisions."""
        box, decisions = open_part.box, open_part.decisions
        best, split = INTEGRALITY, None
        for feature in map(int, np.flatnonzero((box.low < 0) & (box.high > 0))):
            without, holding = self._pairs(feature)
            change = decisions[holding] - decisions[without]
            effect = float(max(np.maximum(change, 0).sum(), np.maximum(-change, 0).sum()))
            if effect > best:
                best, split = effect, feature
        return split

    def _pairs(self, feature: int) -> tuple[Integers, Integers]:
        """Find pairs of cells that differ in one feature: those without it, and those with it."""
        if feature not in self._pairs_of:
            places = {row.tobytes(): at for at, row in enumerate(self.table.features)}
            pairs = []
            for at, row in enumerate(self.table.features):
                flipped = row.copy()
                flipped[feature] = 1
                if not row[feature] and flipped.tobytes() in places:
                    pairs.append((at, places[flipped.tobytes()]))
            columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            self._pairs_of[feature] = (columns[:, 0], columns[:, 1])
        return self._pairs_of[feature]


def _fractional(decisions: Floats) -> Booleans:
    return np.asarray(np.minimum(decisions, 1 - decisions) > INTEGRALITY)
