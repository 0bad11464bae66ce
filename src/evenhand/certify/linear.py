"""Linear bounds, best first: boxes are split where the most is undecided, and counted by the half-spaces they hold.

A box that the decision boundary crosses is not all undecided: where the lower function is positive under every
assignment, the label is the same, whatever happens elsewhere in the box. Only the sliver between lower and upper
function stays open, and it shrinks with the relaxation gap, not with the box. While boxes are refined, the decided
share of each is estimated by a normal distribution, which costs little, has no luck in it and proves nothing; what
counts in the end is proved (``shares``), box by box, for the boxes where there is something to gain.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.boxes import Boxes, whole
from evenhand.certify.interrupts import Interrupts
from evenhand.certify.interval import Limits, Stop
from evenhand.certify.problem import Problem, problem_of
from evenhand.certify.query import Query
from evenhand.certify.tally import Tally

FIRST_THRESHOLD = 0.01
FALL = 1.6
"""Each round splits every box with more undecided mass than a threshold, which then falls by this factor."""
CHUNK = 256
"""Boxes taken up per call: a call takes a fraction of a second."""
CALL = 0.1
"""Seconds that a call should take, if the clock is to be looked at."""
GROUP = 8
"""Calls under way at once, whatever the number of threads: the result must not depend on it."""
ROOM = 1 << 14
"""Boxes a call may put out before it hands them over."""
MOST_BYTES = 700_000_000
"""Memory for the boxes held, at most; for a moment twice as much is in use."""
NEGLIGIBLE = 0.03
"""Proofs are left out while all that they could still decide is this small a part of what is undecided anyway."""
DONE = 1e-3
"""Estimated undecided mass below which splits go by what the proofs leave open: grids then lose more than bounds."""
NOTHING = 1e-6
"""Mass left open below which the run is done."""
GRACE = 2.0
"""Seconds for proofs after an interrupt."""
SIZES = 80
"""Powers of two that gains are sorted into."""
PROBED, RUN = 384, 48
"""Boxes proved now and then at every precision, and neighbours among them, to see what a proof costs and brings."""
FALLING = 0.3
"""The undecided mass falls about as the time of refinement to the power of minus this."""
RESERVE = 0.03
"""Part of the time that is held back, as proofs take as long as they take."""
LANES = 16
"""Boxes that are bounded side by side (see ``lanes``, which is loaded only when needed)."""

COARSE, MEDIUM, FINE = LEVELS = (384, 64), (1024, 256), (4096, 4096)
"""Grid steps and exactly enumerated joint values of a proof."""


@dataclass(frozen=True)
class Frontier:
    """Boxes that are not decided as a whole.

    Attributes:
        low, high: cells, shape (boxes, attributes).
        plan: attributes of the next splits.
        open: estimated undecided mass.
        mass: mass.
        region: the coarse part of the domain each lies in.
        kind: 0 undecided, 1 fair, 2 unfair as a whole; the decided ones are kept only for a record.
        state: what the engine knows of hidden units there, in its own form; may be empty.
    """

    low: NDArray[np.int16] | NDArray[np.int32]
    high: NDArray[np.int16] | NDArray[np.int32]
    plan: NDArray[np.int8]
    open: NDArray[np.float64]
    mass: NDArray[np.float64]
    region: NDArray[np.int16]
    kind: NDArray[np.int8]
    state: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.uint8))

    def __post_init__(self) -> None:
        if len(self.state) != len(self.mass):
            object.__setattr__(self, "state", np.zeros((len(self.mass), 0), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.mass)

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.integer] | slice) -> Frontier:
        return Frontier(
            self.low[chosen], self.high[chosen], self.plan[chosen], self.open[chosen], self.mass[chosen],
            self.region[chosen], self.kind[chosen], self.state[chosen],
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: list[Frontier]) -> Frontier:
        """All boxes of several frontiers, in order."""
        names = ("low", "high", "plan", "open", "mass", "region", "kind", "state")
        return Frontier(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def row(self) -> int:
        """Bytes of one box."""
        return sum(int(array.nbytes) for array in vars(self).values()) // max(1, len(self))

    def boxes(self) -> Boxes:
        """The same as ``Boxes``."""
        depth = np.zeros(len(self), dtype=np.int16)
        return Boxes(self.low, self.high, self.mass, depth, self.region)

    def worthwhile(self) -> NDArray[np.intp]:
        """Boxes whose proof may decide something, in order: all but those with the least gain, together negligible."""
        gain = self.mass - self.open
        able = np.maximum(gain, 1e-300)
        size = np.clip(np.log2(able).astype(np.int64) + SIZES, 0, SIZES)
        below = np.cumsum(np.bincount(size, weights=np.maximum(gain, 0.0), minlength=SIZES + 1))
        least = int(np.searchsorted(below, NEGLIGIBLE * self.open.sum(), side="right"))
        return np.flatnonzero((size >= least) & (gain > 0))


class Recorder(Protocol):
    """Takes final boxes: cells (n, attributes) and proved shares (n,), fair and unfair."""

    def take(
        self,
        low: NDArray[np.integer],
        high: NDArray[np.integer],
        fair: NDArray[np.generic],
        unfair: NDArray[np.generic],
    ) -> None:
        """Keep them; together all boxes make up the domain."""


class Bounding(Protocol):
    """Bounds boxes and proves shares, for one query: ``Engine`` here, ``arrays.engine.ArrayEngine`` on whole arrays."""

    jobs: int

    def expand(
        self, boxes: Frontier, threshold: float, limit: float = ..., *, recording: bool = ...
    ) -> tuple[Frontier, NDArray[np.float64]]: ...

    def prove(self, boxes: Frontier, precision: tuple[int, int]) -> NDArray[np.float64]: ...


class Engine:
    """The compiled work for one query, on several threads; results do not depend on how many."""

    def __init__(self, problem: Problem, jobs: int) -> None:
        self.problem = problem
        self.jobs = jobs
        self._own = threading.local()

    def _work(self) -> Any:
        """Work arrays of this thread."""
        if not hasattr(self._own, "work"):
            from evenhand.certify.workbench import bench

            self._own.work = bench(self.problem.network, self.problem.roles, self.problem.axes)
        return self._own.work

    def expand(
        self, boxes: Frontier, threshold: float, limit: float = np.inf, *, recording: bool = False
    ) -> tuple[Frontier, NDArray[np.float64]]:
        """Split boxes until each part's estimated undecided mass is at most the threshold, or ``limit`` are bounded.

        Returns:
            The parts that are not decided as a whole (with ``recording`` all of them); mass found fair, mass found
            unfair, boxes bounded.
        """
        from evenhand.certify.expansion import refine

        p = self.problem
        work, scratch, events, _ = self._work()
        n = boxes.low.shape[1]
        size, known = len(boxes), self._states(boxes)
        if not hasattr(self._own, "room"):
            self._own.room = tuple(_empty(n, room, known.shape[1]) for room in (CHUNK + 4096, ROOM))
        stack, out = self._own.room
        low, high, plan, state = stack.low, stack.high, stack.plan, stack.state
        state[:size] = known[::-1]
        low[:size], high[:size], plan[:size] = boxes.low[::-1], boxes.high[::-1], boxes.plan[::-1]
        totals = np.zeros(3)
        limit = float(limit)  # a whole number would be compiled for once more
        kept = np.int16 if p.counts.max(initial=0) < 2**15 else np.int32
        parts: list[Frontier] = []
        while size and totals[2] + LANES <= limit:
            size, count = refine(
                p.network, p.roles, p.axes, work, scratch, events, low, high, state, plan, size, threshold, limit,
                recording, out.low, out.high, out.state, out.plan, out.open, out.mass, out.kind, totals,
            )  # fmt: skip
            part = out[np.arange(count)]
            parts.append(replace(part, low=part.low.astype(kept), high=part.high.astype(kept)))
        if size:
            mass = p.mass(low[:size], high[:size])
            zeros = np.zeros(size, dtype=np.int16)
            # Nothing is known of these yet but that they were worth splitting: half of each may be proved.
            parts.append(
                Frontier(
                    low[:size].astype(kept),
                    high[:size].astype(kept),
                    plan[:size],
                    0.5 * mass,
                    mass,
                    zeros,
                    zeros.astype(np.int8),
                    state[:size],
                )
            )
        found = Frontier.joined(parts)
        found.region[:] = boxes.region[0]
        return found, totals

    def prove(self, boxes: Frontier, precision: tuple[int, int]) -> NDArray[np.float64]:
        """Proved shares of each box, fair and unfair, shape (boxes, 2)."""
        from evenhand.certify.expansion import prove_boxes

        p = self.problem
        shares = np.zeros((2, len(boxes)))
        low, high = (np.ascontiguousarray(cells, dtype=np.int32) for cells in (boxes.low, boxes.high))
        known = np.ascontiguousarray(self._states(boxes))
        prove_boxes(p.network, p.roles, p.axes, *self._work(), low, high, known, *precision, shares[0], shares[1])
        return shares.T

    def _states(self, boxes: Frontier) -> NDArray[np.uint8]:
        """What is known of the hidden units in each box."""
        from evenhand.certify.workbench import state_bytes

        width = state_bytes(self.problem.network, self.problem.roles)
        return boxes.state if boxes.state.shape[1] == width else np.zeros((len(boxes), width), dtype=np.uint8)


def _empty(attributes: int, count: int, width: int = 0) -> Frontier:
    cells = (count, attributes)
    return Frontier(
        np.zeros(cells, dtype=np.int32),
        np.zeros(cells, dtype=np.int32),
        np.full((count, 4), -1, dtype=np.int8),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, dtype=np.int16),
        np.zeros(count, dtype=np.int8),
        np.zeros((count, width), dtype=np.uint8),
    )


@dataclass
class Run:
    """One run: the engine, where it stands, and the clock.

    Attributes:
        level: precision of the proofs; without a deadline each box has the one that its open share asks for.
        cost: seconds that a proof takes.
        refined: seconds spent on refinement.
        speed: boxes bounded in a second by one thread.
    """

    query: Query
    engine: Bounding
    tally: Tally
    limits: Limits
    pool: ThreadPoolExecutor
    say: Callable[[float], None]
    interrupts: Interrupts
    recorder: Recorder | None = None
    level: int = 0
    cost: float = 2e-5
    refined: float = 0.0
    speed: float = 0.0

    def regions(self) -> Frontier:
        """The first grandchildren of the domain: the coarse regions of the certificate."""
        most = np.inf if self.limits.max_boxes is None else self.limits.max_boxes
        children, totals = self.engine.expand(_root(self.query), 2.0, most, recording=self.recorder is not None)
        self.tally.add(0, totals[0], totals[1])
        self.tally.boxes += int(totals[2])
        children = self._recorded(children)
        named = self.tally.regioned(children.boxes(), np.ones(len(children), dtype=np.bool_))
        children.region[:] = named.region
        return children

    def refine(self, frontier: Frontier) -> tuple[Frontier, Stop]:
        """Split, round by round, while there is time for the proofs of what is left."""
        threshold = FIRST_THRESHOLD
        probed = 0.0
        while True:
            stop = self._reached(frontier, len(frontier.worthwhile()))
            if stop is not None:
                return frontier, stop
            able = frontier.plan[:, 0] >= 0
            if not able.any():
                return frontier, "done"
            threshold = min(threshold, float(frontier.open[able].max()) / FALL)
            if threshold < 1e-15 or frontier.open.sum() < DONE:
                return frontier, "done"
            chosen = able & (frontier.open > threshold)
            started = time.perf_counter()
            parts = [frontier[~chosen], frontier[chosen]]
            del frontier  # it would take as much memory again
            frontier, stop = self._round(parts, threshold)
            self.refined += time.perf_counter() - started
            if stop is None and self.limits.deadline is not None and self.refined > 1.2 * probed:
                probed = self.refined
                self._probe(frontier)
            self.say(self.tally.settled)
            if stop is not None:
                return frontier, stop
            threshold /= FALL

    def _round(self, parts: list[Frontier], threshold: float) -> tuple[Frontier, Stop | None]:
        """Split the second of two parts of the frontier, which are taken out of the list; gives all there is then."""
        todo = parts.pop()
        todo = todo[np.argsort(todo.region, kind="stable")]
        kept = [parts.pop()]
        held = len(kept[0]) + len(todo)
        worth = (len(kept[0].worthwhile()) + len(todo.worthwhile())) / held
        edges = np.flatnonzero(np.diff(todo.region)) + 1
        # With a deadline calls are short enough to look at the clock between them; a box has about fifty parts.
        timed = self.limits.deadline is not None and self.speed > 0
        chunk = int(np.clip(self.speed * CALL / 50, 1, CHUNK)) if timed else CHUNK
        pieces = [
            piece[at : at + chunk]
            for piece in (todo[slice(a, b)] for a, b in zip([0, *edges], [*edges, len(todo)], strict=True))
            for at in range(0, len(piece), chunk)
        ]
        begun, bounded = time.perf_counter(), self.tally.boxes
        stop: Stop | None = None
        at = 0
        while at < len(pieces):
            room = np.inf if self.limits.max_boxes is None else self.limits.max_boxes - self.tally.boxes
            group = pieces[at : at + int(max(1, min(GROUP, room // LANES if room < np.inf else GROUP)))]
            share = min(room / len(group), max(LANES, self.speed * 5 * CALL)) if timed else room / len(group)
            results = list(
                self.pool.map(
                    lambda piece, most=share: self.engine.expand(
                        piece, threshold, most, recording=self.recorder is not None
                    ),
                    group,
                )
            )
            at += len(group)
            for piece, (found, totals) in zip(group, results, strict=True):
                kept.append(self._recorded(found))
                held += len(kept[-1]) - len(piece)
                self.tally.add(int(piece.region[0]), totals[0], totals[1])
                self.tally.boxes += int(totals[2])
            self.tally.moment()
            stop = self._reached(None, worth * held) or ("boxes" if held * todo.row > MOST_BYTES else None)
            if stop is not None:
                break
        self.speed = (self.tally.boxes - bounded) / max(time.perf_counter() - begun, 1e-6) / self.engine.jobs
        kept += pieces[at:]
        return Frontier.joined(kept), stop

    def _recorded(self, found: Frontier) -> Frontier:
        """Hand the boxes that are decided as a whole over to the record; what is left."""
        if self.recorder is None:
            return found
        whole = found.kind > 0
        self.recorder.take(found.low[whole], found.high[whole], found.kind[whole] == 1, found.kind[whole] == 2)
        return found[~whole]

    def _reached(self, frontier: Frontier | None, proofs: float) -> Stop | None:
        limits = self.limits
        if self.interrupts.count:
            return "interrupt"
        if frontier is not None:
            if len(frontier) == 0:
                return "done"
            if limits.target_undecided is not None and frontier.open.sum() <= 0.8 * limits.target_undecided:
                return "target"
        if limits.max_boxes is not None and self.tally.boxes + LANES > limits.max_boxes:
            return "boxes"
        if limits.deadline is not None and self._left() <= proofs * self.cost / self.engine.jobs:
            return "time"
        return None

    def _left(self) -> float:
        """Seconds left for proofs."""
        deadline = self.limits.deadline
        return np.inf if deadline is None else (1 - RESERVE) * (deadline - time.perf_counter())

    def _probe(self, frontier: Frontier) -> None:
        """Prove every so-manieth box at each precision: what that costs, and whether refining would bring more."""
        worthwhile = frontier.worthwhile()
        if len(worthwhile) < PROBED:
            return
        # Runs of neighbours, as in the real pass: neighbours bound well together.
        begins = np.linspace(0, len(worthwhile) - RUN, PROBED // RUN).astype(np.int64)
        sample = frontier[worthwhile[(begins[:, None] + np.arange(RUN)).ravel()]]
        held = float(frontier.mass[worthwhile].sum())
        costs, brought = [], []
        for precision in LEVELS:
            started = time.perf_counter()
            shares = self.engine.prove(sample, precision)
            costs.append((time.perf_counter() - started) / len(sample))
            # What the grid loses of a box has little to do with its mass, of which a few boxes have most.
            brought.append(held * float(shares.sum(axis=1).mean()))
        undecided, refined = float(frontier.open.sum()), max(self.refined, 0.1)
        self.level = 0
        for level in range(1, len(LEVELS)):
            seconds = (costs[level] - costs[self.level]) * len(worthwhile) / self.engine.jobs
            if self._left() < costs[level] * len(worthwhile) / self.engine.jobs:
                break
            if brought[level] - brought[self.level] > undecided * (1 - (1 + seconds / refined) ** -FALLING):
                self.level = level
        self.cost = costs[self.level]

    def _proved(self, boxes: Frontier) -> NDArray[np.float64]:
        if self.limits.deadline is not None:
            return self.engine.prove(boxes, LEVELS[self.level])
        shares = np.zeros((len(boxes), 2))
        share = boxes.open / np.maximum(boxes.mass, 1e-300)
        wanted = np.where(share > 0.05, 0, np.where(share > 0.01, 1, 2))
        for level, precision in enumerate(LEVELS):
            chosen = np.flatnonzero(wanted == level)
            if len(chosen):
                shares[chosen] = self.engine.prove(boxes[chosen], precision)
        return shares

    def prove(self, frontier: Frontier, *, until: float | None) -> NDArray[np.float64]:
        """Proved shares of the frontier's boxes, those with the most to gain first, until the clock says stop."""
        shares = np.zeros((len(frontier), 2))
        order = frontier.worthwhile()
        order = order[np.argsort(frontier.open[order] - frontier.mass[order], kind="stable")]
        # Neighbours bound well together: proofs go block by block of gain, in the boxes' own order inside each.
        blocks = [np.sort(order[at : at + 65_536]) for at in range(0, len(order), 65_536)]
        for block in blocks:
            pieces = [block[at : at + 2048] for at in range(0, len(block), 2048)]
            for at in range(0, len(pieces), GROUP):
                if self.interrupts.count > 1 or (until is not None and time.perf_counter() >= until):
                    return shares
                group = pieces[at : at + GROUP]
                results = self.pool.map(lambda piece: self._proved(frontier[piece]), group)
                for piece, proved in zip(group, results, strict=True):
                    shares[piece] = proved
        return shares

    def polish(self, frontier: Frontier, shares: NDArray[np.float64]) -> tuple[Frontier, NDArray[np.float64], Stop]:
        """Split the boxes whose proofs leave the most open, prove their parts, and so on while there is time."""
        while True:
            loss = frontier.mass * (1 - shares.sum(axis=1))
            able = frontier.plan[:, 0] >= 0
            number = min(self._affordable(), int(able.sum()))
            stop = self._reached(None, LANES * number)
            if stop is None and self.limits.target_undecided is not None and loss.sum() <= self.limits.target_undecided:
                stop = "target"
            full = len(frontier) * frontier.row > MOST_BYTES
            if stop is None and (loss[able].sum() < NOTHING or full):
                stop = "boxes" if full else "done"
            if stop is not None:
                return frontier, shares, stop
            order = np.argsort(-np.where(able, loss, -1.0), kind="stable")[:number]
            half = int(np.searchsorted(np.cumsum(loss[order]), 0.5 * loss[able].sum())) + 1
            chosen = np.zeros(len(frontier), dtype=np.bool_)
            chosen[order[:half]] = True
            # Twice the mass of a box is never exceeded: every box is split by its plan once.
            parts, stop = self._round([frontier[:0], frontier[chosen]], 2.0)
            # There was time for these when the round began, and without them the proofs of whole boxes would be lost.
            shares = np.concatenate([shares[~chosen], self.prove(parts, until=None)])
            frontier = Frontier.joined([frontier[~chosen], parts])
            self.say(min(1.0, self.tally.settled + float((frontier.mass * shares.sum(axis=1)).sum())))
            if stop is not None:
                return frontier, shares, stop

    def _affordable(self) -> int:
        """How many boxes to split and prove next: half of those that there is time for."""
        if self.limits.deadline is None:
            return 4 * CHUNK
        left = self.limits.deadline - time.perf_counter()
        return int(np.clip(0.5 * left * self.engine.jobs / (LANES * 1.5 * self.cost), CHUNK // 4, 64 * CHUNK))


def prepare(query: Query, jobs: int) -> Engine:
    """Lay the query out and make sure that the kernels are compiled, which takes long on their first use."""
    engine = Engine(problem_of(query), jobs)
    root = _root(query)
    engine.expand(root, 2.0, LANES)
    engine.prove(root, COARSE)
    return engine


def refine(
    query: Query,
    engine: Bounding,
    tally: Tally,
    limits: Limits,
    *,
    say: Callable[[float], None],
    recorder: Recorder | None = None,
) -> tuple[Boxes, NDArray[np.float64], Stop]:
    """Refine by linear bounds, then prove the shares of what is left.

    Args:
        query: what is asked; see ``problem.unsupported``.
        engine: prepared for it.
        tally: takes what is proved.
        limits: when to stop.
        say: called with about the share of the work done.
        recorder: takes every final box with what is proved of it.

    Ctrl-C ends it early, with what is proved by then and in ``GRACE`` seconds more; a second one, at once.

    Returns:
        The boxes that are not decided as a whole, mass proved fair and unfair in each, and why it ended.
    """
    with ThreadPoolExecutor(engine.jobs) as pool, Interrupts() as interrupts:
        run = Run(query, engine, tally, limits, pool, say, interrupts, recorder)
        frontier = run.regions()
        while True:
            frontier, stop = run.refine(frontier)
            grace = time.perf_counter() + GRACE if stop == "interrupt" else limits.deadline
            shares = run.prove(frontier, until=grace)
            rest = float((frontier.mass * (1 - shares.sum(axis=1))).sum())
            missed = stop == "target" and limits.target_undecided is not None and rest > limits.target_undecided
            estimated = float(frontier.open.sum())
            if not missed or estimated < DONE:
                break
            # The proofs leave more open than was estimated: aim lower.
            run.limits = Limits(limits.deadline, limits.max_boxes, 0.8 * estimated)
        run.limits = limits
        # Among millions of boxes there is no time for the worst of them, and no memory to move the others about.
        few = 8 * len(frontier) * frontier.row < MOST_BYTES
        if len(frontier) and few and (missed or stop in ("done", "time")):
            frontier, shares, stop = run.polish(frontier, shares)
    for region in np.unique(frontier.region):
        inside = frontier.region == region
        mass = frontier.mass[inside]
        fair, unfair = (float((mass * shares[inside, kind]).sum()) for kind in (0, 1))
        tally.add(int(region), fair, unfair, rest=max(0.0, float(mass.sum()) - fair - unfair))
    tally.moment(last=True)
    if recorder is not None:
        recorder.take(frontier.low, frontier.high, shares[:, 0], shares[:, 1])
    partly = shares.max(axis=1, initial=0.0) < 1
    return frontier.boxes()[partly], (frontier.mass[:, None] * shares)[partly], stop


def _root(query: Query) -> Frontier:
    """The domain as one box, to be split along its widest attributes."""
    domain = whole(query)
    root = _empty(len(query.cells), 1)
    root.low[:], root.high[:], root.mass[:], root.open[:] = domain.lo, domain.hi, 1.0, 1.0
    widest = np.argsort(-query.counts, kind="stable")[:4]
    root.plan[0, : len(widest)] = widest
    return root
