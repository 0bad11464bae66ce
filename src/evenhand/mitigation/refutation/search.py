"""Branch and bound for rules with weights: the least gap at an accuracy floor, and a proof of what is below none.

Decisions z in [0, 1] of the cells are the variables of a linear program, with the gap G:

    min G   s.t.  sum gains z >= need,   sum differences z <= G for every pair of groups,   cuts

Cuts (``cuts.py``) hold in a box of weights; boxes are halved, and cells accepted or refused, until nothing below the
best rule found is left. Every linear program is bounded by its multipliers and no more, in numbers that are rounded
first: for lambda, mu, kappa >= 0 with ``sum mu <= 1``

    G  >=  lambda need - sum kappa limit
           + sum_c min over z_c of z_c (sum mu difference_c - lambda gain_c + sum kappa factor_c)

so the bound can be added up exactly from the multipliers, without a solver (``evenhand.checker``). A part without any
rule has a bound above 1, which no gap is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.mitigation.refutation.cuts import (
    Cut,
    FittedWeights,
    PairSums,
    WeightBox,
    fit_weights,
    separate_pairs,
)
from evenhand.mitigation.refutation.features import FeatureCells
from evenhand.mitigation.refutation.weights import WeightedRule, WeightSearch

SCALE = 10**12
"""Multipliers are whole numbers of this part of 1."""

SAFE = 1e-12
"""What a bound that is added up in floating point is lowered by, relative to what is added; its error is some 1e-14."""

NEAREST = 1e-9
"""Bounds this near to the best gap found are not raised further."""

FINE, MANY = 1e-4, 200
"""When so many parts were looked at, a bound this near to the best gap found is enough."""

DEFAULT_WORK, MIN_PARTS = 60_000, 50
"""Parts times cells that a search looks at by default, and parts that it looks at in any case."""

NO_RULE = 2.0
"""The bound of a part in which there is no rule: more than any gap."""

ROUNDS, FIRST_ROUNDS, MOST_CUTS = 6, 40, 300
"""Linear programs of one part, and of the first one, at most; cuts that one adds."""


class Multipliers(NamedTuple):
    """Multipliers in parts of ``SCALE``: of the floor, of every pair of groups, and of cuts by their number."""

    floor: int
    pairs: tuple[int, ...]
    cuts: tuple[tuple[int, int], ...] = ()


class BoundedSolution(NamedTuple):
    """A solution: decisions, rounded multipliers, the bound that these give, and the cuts that are nearly reached."""

    decisions: Floats
    multipliers: Multipliers
    bound: float
    near: list[int]


class Relaxation:
    """The linear program of one table of cells, with cuts that are known by their number."""

    def __init__(self, table: FeatureCells) -> None:
        self.table = table
        self.gains, self.differences = table.gains, table.differences
        self.people, self.need = table.people, table.need - table.base
        self.cuts: list[Cut] = []
        self._numbers: dict[Cut, int] = {}
        self._arrays: list[tuple[Integers, Floats, float]] = []

    def number(self, cut: Cut) -> int:
        """Return the number of a cut."""
        if cut not in self._numbers:
            self._numbers[cut] = len(self.cuts)
            self.cuts.append(cut)
            self._arrays.append((np.array(cut.cells), np.array(cut.factors, dtype=np.float64), float(cut.limit)))
        return self._numbers[cut]

    def solve(self, rows: list[int], fixed: Floats) -> BoundedSolution:
        """Solve the linear program, or say why it has no solution.

        Args:
            rows: numbers of cuts. fixed: least and most decisions, shape (2, cells).
        """
        pairs, cells = self.differences.shape
        found = self._optimize(rows, fixed, elastic=False)
        factor = 1.0
        if found.x is None:
            # There are no such decisions: by how much floor and cuts must give way, and the multipliers that say so.
            found = self._optimize(rows, fixed, elastic=True)
            if found.x is None or found.fun < 1e-9:
                return BoundedSolution(np.clip(np.full(cells, 0.5), *fixed), Multipliers(0, (0,) * pairs), 0.0, rows)
            factor = NO_RULE / found.fun
        raw = factor * np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
        # Multipliers of the groups may add up to 1 at most, and are rounded down. By weak duality whatever is not
        # negative proves a bound: rounding only weakens it.
        shares = [int(one) for one in np.floor(raw[:pairs] * SCALE)] if factor == 1.0 else [0] * pairs
        while sum(shares) > SCALE:
            shares[int(np.argmax(shares))] -= sum(shares) - SCALE
        used = [(one, int(value)) for one, value in zip(rows, np.rint(raw[pairs + 1 :] * SCALE), strict=True) if value]
        multipliers = Multipliers(round(raw[pairs] / self.people * SCALE), tuple(shares), tuple(used))
        near = [one for one, left in zip(rows, found.ineqlin.residual[pairs + 1 :], strict=True) if left < 0.3]
        return BoundedSolution(np.clip(found.x[:cells], *fixed), multipliers, self.bound(multipliers, fixed), near)

    def _optimize(self, rows: list[int], fixed: Floats, *, elastic: bool) -> Any:
        """Return the solver's answer: least gap, or the least by which all rows but those of the gap must give way."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        # Variables: the cells' decisions, and last the gap, or how far rows give way. Rows: differences of every pair
        # at most the gap, right decisions at least the floor, then the cuts.
        pairs, cells = self.differences.shape
        last = -1.0 if elastic else 0.0
        top = np.zeros((pairs + 1, cells + 1))
        if not elastic:
            top[:pairs, :cells], top[:pairs, cells] = self.differences, -1.0
        top[pairs, :cells], top[pairs, cells] = -self.gains / self.people, last
        own = [self._arrays[one] for one in rows]
        sizes = np.array([len(one[0]) for one in own], dtype=np.int64) + elastic
        more = (np.array([cells]), np.array([last])) if elastic else (np.zeros(0, np.int64), np.zeros(0))
        matrix = csr_array(
            (
                np.concatenate([top.ravel(), *(part for one in own for part in (one[1], more[1]))]),
                np.concatenate(
                    [np.tile(np.arange(cells + 1), pairs + 1), *(part for one in own for part in (one[0], more[0]))]
                ),
                np.concatenate(
                    [np.arange(pairs + 1) * (cells + 1), (pairs + 1) * (cells + 1) + np.append(0, np.cumsum(sizes))]
                ),
            ),
            shape=(pairs + 1 + len(rows), cells + 1),
        )
        return linprog(
            np.append(np.zeros(cells), 1.0),
            A_ub=matrix,
            b_ub=np.concatenate([np.zeros(pairs), [-self.need / self.people], [one[2] for one in own]]),
            bounds=np.column_stack([np.append(fixed[0], 0.0), np.append(fixed[1], np.inf)]),
            method="highs-ds",
        )

    def bound(self, multipliers: Multipliers, fixed: Floats) -> float:
        """Return the gap below which no decisions within ``fixed`` are, by weak duality."""
        # Cell by cell, the least of price * decision is at one end of what is allowed. SAFE of all sizes is taken off
        # for rounding.
        floor = multipliers.floor / SCALE
        price = np.array(multipliers.pairs, dtype=np.float64) / SCALE @ self.differences - floor * self.gains
        total = floor * self.need
        for number, value in multipliers.cuts:
            cells, factors, limit = self._arrays[number]
            price[cells] += value / SCALE * factors
            total -= value / SCALE * limit
        scale = 1.0 + abs(total) + float(np.abs(price).sum())
        return float(total + np.minimum(price * fixed[0], price * fixed[1]).sum()) - SAFE * scale


@dataclass
class ProofPart:
    """One part of the proof: how it was split, or the multipliers that bound it.

    Attributes:
        multipliers: of a part that was not split. weight, cell: what it was split along; at: the highest weight of the
            first half. halves: its parts; of a cell refused and accepted.
    """

    multipliers: Multipliers
    weight: int | None = None
    at: int = 0
    cell: int | None = None
    halves: tuple[ProofPart, ...] = ()

    def walk(self) -> Iterator[ProofPart]:
        """Yield this part and those it was split into, each before its halves, the first half before the second."""
        waiting = [self]
        while waiting:
            part = waiting.pop()
            yield part
            waiting += reversed(part.halves)


class OpenProof(NamedTuple):
    """A part that may be split: its bound, decisions of the linear program, cuts, what is fixed, and the weights."""

    bound: float
    order: int
    decisions: Floats
    rows: list[int]
    fixed: Floats
    box: WeightBox
    part: ProofPart


@dataclass
class SearchedRules:
    """What a search found and proved.

    Attributes:
        bound: no rule of the family has a smaller gap; above 1 where none reaches the floor.
        best: the rule with the least gap found, with it. cuts, proof: what proves the bound. parts: how many.
        stopped: Whether a limit was reached; interrupted: whether an interrupt (Ctrl-C) ended it.
    """

    bound: float
    gap: float
    best: WeightedRule | None
    cuts: tuple[Cut, ...]
    proof: ProofPart
    parts: int
    stopped: bool = False
    interrupted: bool = False


@dataclass(eq=False)
class RuleSearch:
    """Branch and bound over boxes of weights and decisions of cells.

    Attributes:
        table: the cells. whole: whether weights are points of a scorecard. seed: of the search for rules.
    """

    table: FeatureCells
    whole: bool
    seed: int
    relaxation: Relaxation = field(init=False)
    weights: WeightSearch = field(init=False)
    parts: int = 1

    def __post_init__(self) -> None:
        self.relaxation = Relaxation(self.table)
        self.weights = WeightSearch(self.table, self.whole, self.seed)
        self.sums = PairSums(self.table.features)
        self._implications: tuple[tuple[bytes, bytes], Booleans] | None = None
        self._made = 0
        self._closed = math.inf

    def run(
        self, max_parts: int | None, time_limit: float | None, progress: Progress, *, clock: Callable[[], float]
    ) -> SearchedRules:
        """Return the best rule and the proved bound when nothing is left, a limit is reached, or on an interrupt."""
        started = clock()
        cells, width = self.table.features.shape
        most = max(MIN_PARTS, DEFAULT_WORK // cells) if max_parts is None else max_parts
        fixed = np.stack([np.zeros(cells), np.ones(cells)])
        root = ProofPart(Multipliers(0, (0,) * len(self.relaxation.differences)))
        stopped = False
        with InterruptCounter() as interrupts:
            heap = [self._bound(0.0, [], fixed, WeightBox.of(width, whole=self.whole), root, FIRST_ROUNDS)]
            self.weights.learn(heap[0].decisions)
            first = heap[0].bound
            while heap and heap[0].bound < self.weights.gap - (NEAREST if self.parts < MANY else FINE):
                stopped = self.parts >= most or (time_limit is not None and clock() - started > time_limit)
                if stopped or interrupts.count:
                    break
                here = heapq.heappop(heap)
                for child in self._split(here):
                    heapq.heappush(heap, child)
                if self.parts % 16 == 1 and heap:  # every split adds two parts to the first one
                    left = self.weights.gap - first
                    done = 0.0 if not left > 0 else (heap[0].bound - first) / left
                    progress(
                        f"least gap between {max(heap[0].bound, 0):.4f} and {self.weights.gap:.4f}"
                        if self.weights.best is not None
                        else f"least gap at least {heap[0].bound:.4f}",
                        min(1.0, max(0.0, done)),
                    )
        bound = min([self._closed, *(one.bound for one in heap)])
        return SearchedRules(
            bound,
            self.weights.gap,
            self.weights.best,
            tuple(self.relaxation.cuts),
            root,
            self.parts,
            stopped,
            bool(interrupts.count),
        )

    def _bound(
        self, before: float, rows: list[int], fixed: Floats, box: WeightBox, part: ProofPart, rounds: int
    ) -> OpenProof:
        """Return a part with the best multipliers after some rounds of cuts; its bound is never below its parent's."""
        implies = self._implied_rows(box)
        best = before
        for _ in range(rounds):
            decisions, multipliers, bound, near = self.relaxation.solve(rows, fixed)
            if bound > best:
                best, part.multipliers = bound, multipliers
            if best >= self.weights.gap:
                break
            cuts = [*separate_pairs(implies, decisions, MOST_CUTS)]
            if len(cuts) < MOST_CUTS // 10:
                cuts += self.sums.separate(decisions, MOST_CUTS // 5)
            if not cuts and not _fractional(decisions).any():
                forbidden = self._settle(decisions, box).cut
                cuts = [] if forbidden is None else [forbidden]
            new = {self.relaxation.number(one) for one in cuts} - set(rows)
            if not new:
                break
            rows = near + sorted(new)
        self._made += 1
        return OpenProof(best, self._made, decisions, rows, fixed, box, part)

    def _implied_rows(self, box: WeightBox) -> Booleans:
        key = (box.low.tobytes(), box.high.tobytes())
        if self._implications is None or self._implications[0] != key:
            self._implications = (key, box.implies(self.table.features))
        return self._implications[1]

    def _settle(self, decisions: Floats, box: WeightBox) -> FittedWeights:
        """Return weights that decide so, and keep the rule if it is the best so far; else why there are none."""
        fitted = fit_weights(self.table.features, decisions > 0.5, box)
        if fitted.weights is not None:
            self.weights.offer(fitted.weights)
        return fitted

    def _split(self, here: OpenProof) -> Iterator[OpenProof]:
        """Yield the halves of a part that can hold a better rule."""
        part, box = here.part, here.box
        along = self._choose_weight(here)
        cells = _fractional(here.decisions)
        if along is None and cells.any():
            weight = np.abs(self.relaxation.differences).max(axis=0) + np.abs(self.relaxation.gains) / self.table.people
            part.cell = int(np.argmax(np.minimum(here.decisions, 1 - here.decisions) * weight))
            halves = []
            for end in (0.0, 1.0):
                fixed = here.fixed.copy()
                fixed[:, part.cell] = end
                halves.append((fixed, box))
        elif along is not None or self.whole:
            fitted = self._settle(here.decisions, box) if along is None else None
            if fitted is not None and fitted.weights is None:
                self._close(here)  # no inequality of whole factors was found: the part stays as it is bounded
                return
            if fitted is not None and fitted.weights is not None:
                away = np.abs(fitted.weights - np.rint(fitted.weights))
                if away.max() < NEAR_WHOLE or (box.low == box.high).all():
                    self._close(here)
                    return
                along = (int(away.argmax()), math.floor(fitted.weights[int(away.argmax())]))
            assert along is not None
            part.weight, part.at = along
            halves = [(here.fixed, half) for half in box.cut_at(*along)]
        else:
            self._close(here)
            return
        part.halves = tuple(ProofPart(part.multipliers) for _ in halves)
        for half, (fixed, own) in zip(part.halves, halves, strict=True):
            self.parts += 1
            found = self._bound(here.bound, list(here.rows), fixed, own, half, ROUNDS)
            if found.bound < self.weights.gap - NEAREST:
                yield found
            else:
                self._close(found)

    def _close(self, part: OpenProof) -> None:
        self._closed = min(self._closed, part.bound)

    def _choose_weight(self, here: OpenProof) -> tuple[int, int] | None:
        """Return the weight whose sign is open and matters most for the decisions, and where to halve it; else None."""
        box, features = here.box, self.table.features
        best, along = NEAR_WHOLE, None
        for one in np.flatnonzero((box.low < 0) & (box.high > 0)):
            change = here.decisions - here.decisions[:, None]  # of the second cell from the first
            change = change[self._pairs(int(one))]
            matters = max(np.maximum(change, 0).sum(), np.maximum(-change, 0).sum())
            if matters > best and len(features):
                best, along = float(matters), (int(one), -1 if self.whole else 0)
        return along

    def _pairs(self, feature: int) -> tuple[Integers, Integers]:
        """Return cells that differ in one feature alone: those without it, and those with it."""
        if not hasattr(self, "_alone"):
            self._alone: dict[int, tuple[Integers, Integers]] = {}
        if feature not in self._alone:
            places = {row.tobytes(): at for at, row in enumerate(self.table.features)}
            found = []
            for at, row in enumerate(self.table.features):
                if not row[feature]:
                    other = row.copy()
                    other[feature] = 1
                    if other.tobytes() in places:
                        found.append((at, places[other.tobytes()]))
            pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
            self._alone[feature] = (pairs[:, 0], pairs[:, 1])
        return self._alone[feature]


NEAR_WHOLE = 1e-6
"""Decisions and points nearer than this to a whole number are taken as it."""


def _fractional(decisions: Floats) -> np.ndarray:
    return np.minimum(decisions, 1 - decisions) > NEAR_WHOLE
