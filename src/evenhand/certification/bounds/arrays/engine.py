"""Bound boxes by linear functions on whole arrays, for wide networks."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.arrays.events import prove_boxes
from evenhand.certification.bounds.arrays.functions import MarginFunctions, margin_functions_of
from evenhand.certification.bounds.arrays.network import SINGLE_THREAD, WORK_BYTES, ArrayNetwork, array_network_of
from evenhand.certification.bounds.compiled.events import FAIR, OPEN, UNFAIR
from evenhand.certification.bounds.compiled.problem import _attribute_axes
from evenhand.certification.bounds.compiled.shares import AttributeAxes
from evenhand.certification.bounds.frontier import (
    MAX_SPLITS,
    BoxFrontier,
    frontier_of,
    pack_cells,
    root_frontier,
)
from evenhand.certification.bounds.schedule import COARSE
from evenhand.certification.query.boxes import Boxes, BoxSplitter
from evenhand.certification.query.cells import Cells
from evenhand.certification.query.question import Query
from evenhand.core.interrupts import GRACE_SECONDS, is_interrupted
from evenhand.core.typing import Floats, Integers

STEP, NODE = 2e8, 1e9
"""Approximate maximum number of multiplications of one call, and of the parts of one box. The clock is checked after a
few calls, so each takes a fraction of a second for any width; costly boxes are split less often."""
WIDE, WIDEST = 256, 4096
"""Minimum number of units in two neighbouring layers, or in any layer, for which arrays are the default."""
CACHE_BYTES = 256 << 20
"""Maximum bytes of cached functions for proofs."""


def uses_arrays(query: Query) -> bool:
    """Check whether arrays are the default for the bounds of a query: for wide networks.

    The compiled kernels work unit by unit, which is fast up to about ``WIDE`` units in neighbouring layers, store all
    layers at the width of the widest, and check the clock after thousands of boxes. They bound changes of a number more
    tightly, and are the default for such queries at any width.
    """
    widths = [len(layer.weights) for layer in query.layers]
    wide = any(min(a, b) >= WIDE for a, b in pairwise(widths)) or max(widths, default=0) >= WIDEST
    return query.demanded is None and wide


def compile_array_engine(query: Query, jobs: int) -> ArrayEngine:
    """Build an engine for a query, and compile its kernels."""
    engine = ArrayEngine(query, jobs)
    engine.prove(engine.root(), COARSE)
    return engine


class ArrayEngine:
    """Compute bounds on arrays and proofs by compiled kernels for one query; a ``LinearBounder``.

    Args:
        query: Question.
        jobs: Number of concurrent calls, which does not affect results.
    """

    proofs_per_box = 1

    def __init__(self, query: Query, jobs: int) -> None:
        self.network = array_network_of(query)
        self.splitter = BoxSplitter(query)
        self.counts = query.counts
        self.plain = True  # arrays make no others
        self.jobs = jobs
        self.batch = batch_size(self.network)
        cost = box_cost(self.network)
        self.splits = int(np.clip(np.log2(max(2.0, NODE / cost)), 1, MAX_SPLITS))
        self.most = max(1 << self.splits, int(STEP / cost))
        self.memory = FunctionCache(self.network)

    def weigh(self, cells: Sequence[Cells]) -> AttributeAxes:
        """Compute the weights of cells that differ from those of the query only in their masses."""
        axes = self.network.axes
        return _attribute_axes(cells, axes.start, axes.line, axes.reach)

    def reweighted(self, axes: AttributeAxes) -> ArrayEngine:
        """Build an engine of the same query with these weights."""
        other = copy(self)
        other.network = replace(self.network, axes=axes)
        other.memory = FunctionCache(other.network, 0)
        return other

    def beside(self, query: Query) -> ArrayEngine:
        """Build an engine of another query about the same network. Neither caches functions."""
        self.memory = FunctionCache(self.network, 0)
        other = ArrayEngine(query, self.jobs)
        other.memory = FunctionCache(other.network, 0)
        return other

    def root(self) -> BoxFrontier:
        """Build a box of the whole domain."""
        return root_frontier(self.counts)

    def expand(
        self, boxes: BoxFrontier, threshold: float, limit: float = np.inf, *, recording: bool = False
    ) -> tuple[BoxFrontier, Floats]:
        """Split boxes until each part's estimated undecided mass is at most the threshold, or ``limit`` are bounded.

        Boxes of costly networks may be returned earlier, with their estimates, so that a call takes a fraction of a
        second.

        Returns:
            The parts that are not decided as a whole (with ``recording`` all of them); mass found fair, mass found
            unfair, boxes bounded.
        """
        totals = np.zeros(3)
        room = min(float(limit), float(self.most))
        each = 1 << self.splits
        todo, finished = boxes, []
        with SINGLE_THREAD:
            while len(todo) and totals[2] + each <= room and not is_interrupted():
                count = max(1, int(min(room - totals[2], self.batch)) // each)
                parts = self._bound_parts(self._split(todo[:count], recording), totals, recording)
                again = (parts.open > threshold) & (parts.plan[:, 0] >= 0)
                finished.append(parts[~again])
                # Parts to be split again come first, so that the queue stays short.
                todo = BoxFrontier.concatenate([parts[again], todo[count:]])
        return BoxFrontier.concatenate([*finished, todo]), totals

    def prove(self, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        """Prove the fair and unfair shares of each box, shape (boxes, 2)."""
        shares = np.zeros((len(boxes), 2))
        cached = self.memory.take(boxes)
        rows = np.array(list(cached), dtype=np.int64)
        if cached:
            functions = MarginFunctions.concatenate(list(cached.values()))
            shares[rows] = self._proved_shares(boxes[rows], functions, precision)
        missing = np.setdiff1d(np.arange(len(boxes)), rows)
        missing = missing[boxes.mass[missing] > 0]
        for at in range(0, len(missing), self.batch):
            if is_interrupted(GRACE_SECONDS):
                break  # nothing is proved about the remaining boxes
            batch = boxes[missing[at : at + self.batch]]
            with SINGLE_THREAD:
                low, high = batch.lo.astype(np.int64), batch.hi.astype(np.int64)
                functions, _ = margin_functions_of(self.network, low, high, scoring=False)
            shares[missing[at : at + self.batch]] = self._proved_shares(batch, functions, precision)
        return shares

    def _split(self, boxes: BoxFrontier, recording: bool) -> BoxFrontier:
        """Split boxes by their plans. Without ``recording``, parts without mass are left out."""
        parts, plan = boxes.boxes(), boxes.plan
        self.memory.forget(boxes)
        for r in range(self.splits):
            a = plan[:, r].astype(np.int64)
            rows = np.arange(len(a))
            cut = (a >= 0) & (parts.lo[rows, a] < parts.hi[rows, a])
            if not cut.any():
                continue
            # Children keep the place of their parent, so that neighbours are bounded together.
            place = np.concatenate([rows[~cut], np.repeat(rows[cut], 2)])
            halves = Boxes.concatenate([parts[~cut], self.splitter.split_boxes(parts[cut], a[cut])])
            lived = np.arange(len(place)) if recording else np.flatnonzero(halves.mass > 0)
            order = lived[np.argsort(place[lived], kind="stable")]
            parts, plan = halves[order], plan[place[order]]
        cells = pack_cells(parts.lo, parts.hi, boxes.cells.dtype)
        return replace(frontier_of(cells, parts.mass, parts.mass, plan=plan), region=parts.region)

    def _bound_parts(self, parts: BoxFrontier, totals: Floats, recording: bool) -> BoxFrontier:
        """Bound boxes, count the decided ones, and return the others with estimates and plans."""
        pieces = []
        for at in range(0, len(parts), self.batch):
            piece = parts[at : at + self.batch]
            low, high = piece.lo.astype(np.int64), piece.hi.astype(np.int64)
            functions, scores = margin_functions_of(self.network, low, high, scoring=True)
            lived = piece.mass > 0
            kind = np.where(lived, functions.kind, OPEN)
            totals += piece.mass[kind == FAIR].sum(), piece.mass[kind == UNFAIR].sum(), len(piece)
            is_open = (kind == OPEN) & lived
            open_ = np.zeros(len(piece))
            plan = np.full((len(piece), MAX_SPLITS), -1, dtype=np.int8)
            if is_open.any():
                open_[is_open] = piece.mass[is_open] * functions.open[is_open]
                plan[is_open] = plan_splits(scores[is_open], high[is_open] - low[is_open] + 1)
            bounded = replace(piece, plan=plan, open=open_.astype(np.float32), kind=kind.astype(np.int8))
            self.memory.keep(bounded[is_open], functions[is_open])
            pieces.append(bounded if recording else bounded[is_open])
        return BoxFrontier.concatenate(pieces)

    def _proved_shares(self, boxes: BoxFrontier, functions: MarginFunctions, precision: tuple[int, int]) -> Floats:
        low, high = boxes.lo.astype(np.int64), boxes.hi.astype(np.int64)
        shares = np.zeros((len(boxes), 2))
        net = self.network
        open_ = np.flatnonzero(functions.kind == OPEN)
        if len(open_):
            inputs = functions.coefficients[open_], functions.constants[open_], functions.zscore[open_]
            shares[open_] = prove_boxes(net.roles, net.axes, (low[open_], high[open_]), inputs, precision)
        shares[functions.kind == FAIR] = 1.0, 0.0
        shares[functions.kind == UNFAIR] = 0.0, 1.0
        return shares


class FunctionCache:
    """Cache of the functions of boxes, limited in bytes, so that boxes are not bounded again for their proofs."""

    def __init__(self, network: ArrayNetwork, limit: int = CACHE_BYTES) -> None:
        self._held: dict[bytes, MarginFunctions] = {}
        numbers = 2 * network.outputs * network.roles.assignments * (len(network.order) + 2) + len(network.axes.first)
        self._room = limit // (8 * numbers + 900)

    def keep(self, boxes: BoxFrontier, functions: MarginFunctions) -> None:
        """Store the functions of undecided boxes."""
        for row, key in enumerate(_box_keys(boxes)[: max(0, self._room - len(self._held))]):
            self._held[key] = functions[np.array([row])]

    def forget(self, boxes: BoxFrontier) -> None:
        """Remove boxes that are split."""
        for name in _box_keys(boxes):
            self._held.pop(name, None)

    def take(self, boxes: BoxFrontier) -> dict[int, MarginFunctions]:
        """Remove and return the functions of cached boxes, by their index. Few boxes are proved twice."""
        held = {row: self._held.pop(key, None) for row, key in enumerate(_box_keys(boxes))}
        return {row: functions for row, functions in held.items() if functions is not None}


def _box_keys(boxes: BoxFrontier) -> list[bytes]:
    return [row.tobytes() for row in boxes.cells]


def plan_splits(scores: Floats, widths: Integers) -> NDArray[np.int8]:
    """Plan the next splits of boxes: repeatedly the attribute with the best score, which each split halves."""
    scores, widths = scores.copy(), widths.copy()
    rows = np.arange(len(scores))
    plan = np.full((len(scores), MAX_SPLITS), -1, dtype=np.int8)
    able = np.ones(len(scores), dtype=np.bool_)
    for r in range(MAX_SPLITS):
        open_scores = np.where(widths > 1, scores, -1.0)
        top = open_scores.max(axis=1, keepdims=True)
        best = np.where((open_scores == top) & (widths > 1), widths, 0).argmax(axis=1)
        able &= top[:, 0] >= 0
        plan[able, r] = best[able]
        scores[rows, best] *= 0.5
        widths[rows, best] = (widths[rows, best] + 1) // 2
    return plan


def box_cost(network: ArrayNetwork) -> float:
    """Estimate the multiplications of one box, if half of the inner units are open."""
    widths = network.widths
    columns = len(network.order) + (network.roles.assignments if network.apart is not None else 1)
    products = [a * b for a, b in pairwise(widths)]
    cost = 0.0
    for k in range(1, len(widths)):
        if network.forward:
            cost += 2 * columns * products[k - 1]
        else:
            cost += widths[k] * (widths[0] * columns + sum(products[: k - 1]))
        cost += 3 * products[k - 1]
    final = network.outputs * (12 * sum(products) + 30 * sum(widths))
    return len(network.biases) * (cost + final + (4 * columns + 20) * (widths[0] if widths else 1))


def batch_size(network: ArrayNetwork) -> int:
    """Compute the number of boxes per batch from the size of their work arrays."""
    columns = len(network.order)
    each = 8 * (
        14 * sum(network.widths)
        + 6 * max([1, *network.widths])
        + 8 * columns * network.roles.assignments * network.outputs
    )
    return max(16, min(4096, WORK_BYTES // each))
