"""The linear method's engine on whole arrays: what ``linear`` drives in place of the compiled one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.arrays.backend import Backend, backend_of
from evenhand.certify.arrays.functions import FAIR, OPEN, UNFAIR, Functions, contest, functions_of
from evenhand.certify.arrays.network import Network, network_of
from evenhand.certify.arrays.proofs import shares_of
from evenhand.certify.boxes import Boxes, Splitter
from evenhand.certify.linear import Frontier
from evenhand.certify.query import Query
from evenhand.errors import OptionError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPLITS = 4
"""A box is split this often at once, where boxes are cheap."""
STEP, NODE = 2e8, 1e9
"""Multiplications that one call may take, about, and that the parts of one box may: the clock is looked at after a few
calls, so they end in a fraction of a second, whatever the network's width; only a costly box is split less often."""
WIDE, WIDEST = 256, 4096
"""Units from which on whole arrays are in use of themselves: in two neighbouring layers, or in any."""
REMEMBERED = 256 << 20
"""Bytes of functions that are kept for the proofs of boxes not split again."""


def device_for(query: Query, device: str | None) -> str | None:
    """Where to compute a query's bounds: what was asked for; without a wish ``numpy`` for wide networks, else None.

    None stands for the compiled kernels. They go unit by unit, which is fast up to about ``WIDE`` units in neighbouring
    layers, hold all layers at the width of the widest, and look at the clock after thousands of boxes.

    Raises:
        OptionError: a device was asked for that cannot take this question.
    """
    if query.relaxed:
        if device is not None:
            raise OptionError(f"device {device!r} cannot take relaxed attributes", mend="leave the device out")
        return None
    if device is not None:
        return device
    widths = [len(layer.weights) for layer in query.layers]
    wide = any(min(a, b) >= WIDE for a, b in pairwise(widths))
    return "numpy" if wide or max(widths, default=0) >= WIDEST else None


def prepare(query: Query, device: str, jobs: int) -> ArrayEngine:
    """An engine for a query, its kernels compiled.

    Raises:
        MissingExtraError: PyTorch is not installed.
        OptionError: no such device.
    """
    from evenhand.certify.linear import COARSE, _root

    engine = ArrayEngine(query, backend_of(device), jobs)
    engine.prove(_root(query), COARSE)
    return engine


class ArrayEngine:
    """Bounds on arrays for one query, proofs compiled; the same two calls as ``linear.Engine``.

    Args:
        query: what is asked.
        backend: where to compute.
        jobs: threads. With NumPy so many calls may run at once, and results do not depend on how many; with PyTorch,
            which shares out each operation itself, one.
    """

    def __init__(self, query: Query, backend: Backend, jobs: int) -> None:
        self.network = network_of(query, backend)
        self.splitter = Splitter(query)
        self.jobs, self.threads = (jobs, 1) if backend.place is None else (1, jobs)
        self.batch = batch_of(self.network)
        cost = cost_of(self.network)
        self.splits = int(np.clip(np.log2(max(2.0, NODE / cost)), 1, SPLITS))
        self.most = max(1 << self.splits, int(STEP / cost))
        self.memory = Memory(self.network)

    def expand(
        self, boxes: Frontier, threshold: float, limit: float = np.inf, *, recording: bool = False
    ) -> tuple[Frontier, Floats]:
        """Split boxes until each part's estimated undecided mass is at most the threshold, or ``limit`` are bounded.

        Boxes of costly networks may come back sooner, with their estimates: a call takes a fraction of a second.

        Returns:
            The parts that are not decided as a whole (with ``recording`` all of them); mass found fair, mass found
            unfair, boxes bounded.
        """
        totals = np.zeros(3)
        room = min(float(limit), float(self.most))
        each = 1 << self.splits
        todo, done = boxes, []
        with self.network.backend.threads(self.threads):
            while len(todo) and totals[2] + each <= room:
                count = max(1, int(min(room - totals[2], self.batch)) // each)
                parts = self._bounded(self._split(todo[:count], recording), totals, recording)
                again = (parts.open > threshold) & (parts.plan[:, 0] >= 0)
                done.append(parts[~again])
                todo = Frontier.joined([parts[again], todo[count:]])
        return Frontier.joined([*done, todo]), totals

    def prove(self, boxes: Frontier, precision: tuple[int, int]) -> Floats:
        """Proved shares of each box, fair and unfair, shape (boxes, 2)."""
        shares = np.zeros((len(boxes), 2))
        found, known = self.memory.recall(boxes)
        if len(known):
            shares[known] = self._proved(boxes[known], found, precision)
        rest = np.setdiff1d(np.arange(len(boxes)), known)
        rest = rest[boxes.mass[rest] > 0]
        for at in range(0, len(rest), self.batch):
            these = boxes[rest[at : at + self.batch]]
            with self.network.backend.threads(self.threads):
                low, high = these.low.astype(np.int64), these.high.astype(np.int64)
                functions, _ = functions_of(self.network, low, high, scoring=False)
            shares[rest[at : at + self.batch]] = self._proved(these, functions, precision)
        return shares

    def _split(self, boxes: Frontier, recording: bool) -> Frontier:
        """The grandchildren of boxes, by their plans; without ``recording`` only those where somebody lives."""
        parts, plan = boxes.boxes(), boxes.plan
        self.memory.forget(boxes)
        for r in range(self.splits):
            a = plan[:, r].astype(np.int64)
            rows = np.arange(len(a))
            cut = (a >= 0) & (parts.lo[rows, a] < parts.hi[rows, a])
            if not cut.any():
                continue
            # Children stay where their parent was, so that neighbours are bounded together.
            place = np.concatenate([rows[~cut], np.repeat(rows[cut], 2)])
            halves = Boxes.joined([parts[~cut], self.splitter.halves(parts[cut], a[cut])])
            lived = np.arange(len(place)) if recording else np.flatnonzero(halves.mass > 0)
            order = lived[np.argsort(place[lived], kind="stable")]
            parts, plan = halves[order], plan[place[order]]
        kind = np.zeros(len(parts), dtype=np.int8)
        low, high = parts.lo.astype(np.int32), parts.hi.astype(np.int32)
        return Frontier(low, high, plan, parts.mass, parts.mass, parts.region, kind)

    def _bounded(self, parts: Frontier, totals: Floats, recording: bool) -> Frontier:
        """Bound boxes, count the decided ones; the others come back with estimates and plans."""
        kept = []
        for at in range(0, len(parts), self.batch):
            piece = parts[at : at + self.batch]
            low, high = piece.low.astype(np.int64), piece.high.astype(np.int64)
            functions, scores = functions_of(self.network, low, high, scoring=True)
            lived = piece.mass > 0
            kind = np.where(lived, functions.kind, OPEN)
            totals += piece.mass[kind == FAIR].sum(), piece.mass[kind == UNFAIR].sum(), len(piece)
            rest = (kind == OPEN) & lived
            open_ = np.zeros(len(piece))
            plan = np.full((len(piece), SPLITS), -1, dtype=np.int8)
            if rest.any():
                left = contest(functions.zscore[rest], self.network.beats, self.network.assignments).open
                open_[rest] = piece.mass[rest] * left
                plan[rest] = plans(scores[rest], high[rest] - low[rest] + 1)
            found = Frontier(piece.low, piece.high, plan, open_, piece.mass, piece.region, kind.astype(np.int8))
            self.memory.keep(found[rest], functions[rest])
            kept.append(found if recording else found[rest])
        return Frontier.joined(kept)

    def _proved(self, boxes: Frontier, functions: Functions, precision: tuple[int, int]) -> Floats:
        low, high = boxes.low.astype(np.int64), boxes.high.astype(np.int64)
        shares = np.zeros((len(boxes), 2))
        net = self.network
        open_ = np.flatnonzero(functions.kind == OPEN)

        def piece(chosen: NDArray[np.intp]) -> None:
            if len(chosen) == 0:
                return
            these = functions[chosen]
            shares[chosen] = shares_of(
                low[chosen], high[chosen], these.coefficients, these.constants, these.zscore,
                contest(these.zscore, net.beats, net.assignments).members, net.beats, net.assignments, net.axes,
                precision,
            )  # fmt: skip

        if self.threads == 1:
            piece(open_)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(piece, np.array_split(open_, self.threads)))
        shares[functions.kind == FAIR] = 1.0, 0.0
        shares[functions.kind == UNFAIR] = 0.0, 1.0
        return shares


class Memory:
    """Functions of boxes that wait for their proof, so that nothing is bounded twice; limited in bytes."""

    def __init__(self, network: Network) -> None:
        self._held: dict[bytes, tuple[Floats, Floats, Floats]] = {}
        self._shape = (2 * network.outputs * network.assignments, len(network.order))
        each = 8 * self._shape[0] * (self._shape[1] + 2) + 8 * len(network.axes.first) + 600
        self._room = REMEMBERED // each

    def keep(self, boxes: Frontier, functions: Functions) -> None:
        """Remember boxes that are not decided as a whole."""
        for t, name in enumerate(_names(boxes)[: max(0, self._room - len(self._held))]):
            self._held[name] = (
                functions.coefficients[t].copy(), functions.constants[t].copy(), functions.zscore[t].copy()
            )  # fmt: skip

    def forget(self, boxes: Frontier) -> None:
        """Let go of boxes that are split."""
        for name in _names(boxes):
            self._held.pop(name, None)

    def recall(self, boxes: Frontier) -> tuple[Functions, Ints]:
        """The functions of those that are remembered, and which they are."""
        found = [(t, held) for t, name in enumerate(_names(boxes)) if (held := self._held.get(name)) is not None]
        known = np.array([t for t, _ in found], dtype=np.int64)
        count = len(found)
        coefficients = np.array([held[0] for _, held in found]).reshape(count, *self._shape)
        constants, zscore = (
            np.array([held[part] for _, held in found]).reshape(count, self._shape[0]) for part in (1, 2)
        )
        return Functions(coefficients, constants, zscore, np.full(count, OPEN, dtype=np.int8)), known


def _names(boxes: Frontier) -> list[bytes]:
    cells = np.ascontiguousarray(np.concatenate([boxes.low, boxes.high], axis=1))
    return [row.tobytes() for row in cells]


def plans(scores: Floats, widths: Ints) -> NDArray[np.int8]:
    """The next splits of boxes: the best attribute, its score halved, again; the widest where no score tells."""
    scores, widths = scores.copy(), widths.copy()
    rows = np.arange(len(scores))
    plan = np.full((len(scores), SPLITS), -1, dtype=np.int8)
    able = np.ones(len(scores), dtype=np.bool_)
    for r in range(SPLITS):
        open_scores = np.where(widths > 1, scores, -1.0)
        top = open_scores.max(axis=1, keepdims=True)
        best = np.where((open_scores == top) & (widths > 1), widths, 0).argmax(axis=1)
        able &= top[:, 0] >= 0
        plan[able, r] = best[able]
        scores[rows, best] *= 0.5
        widths[rows, best] = (widths[rows, best] + 1) // 2
    return plan


def cost_of(network: Network) -> float:
    """Multiplications that one box may take, if half of the units of inner layers are open."""
    widths = network.widths
    columns = len(network.order) + (network.assignments if network.apart is not None else 1)
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


def batch_of(network: Network) -> int:
    """Boxes that are bounded side by side, by the bytes that their work arrays take."""
    columns = len(network.order)
    each = 8 * (
        14 * sum(network.widths) + 6 * max([1, *network.widths]) + 8 * columns * network.assignments * network.outputs
    )
    return max(16, min(4096, network.backend.budget // each))
