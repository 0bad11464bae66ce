"""Best first over boxes: rounds in which every box with more open mass than a falling threshold is split."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.boxes import Boxes, whole
from evenhand.certify.interrupts import Interrupts
from evenhand.certify.interval import Limits, Stop
from evenhand.certify.tally import Tally
from evenhand.certify.trees.bounds import Work, work_for
from evenhand.certify.trees.forest import Forest, forest_of
from evenhand.certify.trees.question import TreeQuery
from evenhand.certify.trees.search import refine as search
from evenhand.certify.trees.shares import Table, table_for

FALL = 2.0
"""Each round splits every box with more open mass than a threshold, which then falls by this factor."""
CALL = 0.1
"""Seconds that a call to the compiled search should take: limits and interrupts are looked at in between."""
ROOM = 1 << 14
"""Boxes that a call may put out."""
MOST_BOXES = 8_000_000
"""Boxes held at most, for memory."""
REGIONS = 16
"""Coarse parts of the domain that a certificate names, about."""
NOTHING = 1e-13
"""Open mass below which a box is not split any more: it is rounding."""


@dataclass(frozen=True)
class Frontier:
    """Boxes that are not decided as a whole.

    Attributes:
        low, high: cells, shape (boxes, attributes).
        known: mass, mass proved fair and mass proved unfair, shape (boxes, 3).
        attribute, cut: where to cut next; -1 nowhere, or not known yet.
        region: the coarse part of the domain each lies in.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    known: NDArray[np.float64]
    attribute: NDArray[np.int32]
    cut: NDArray[np.int32]
    region: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.known)

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.integer] | slice) -> Frontier:
        return Frontier(
            self.low[chosen], self.high[chosen], self.known[chosen], self.attribute[chosen], self.cut[chosen],
            self.region[chosen],
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: list[Frontier]) -> Frontier:
        """All boxes of several frontiers, in order."""
        names = ("low", "high", "known", "attribute", "cut", "region")
        return Frontier(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def open(self) -> NDArray[np.float64]:
        """Mass of each box that is not proved, shape (boxes,)."""
        return np.maximum(0.0, self.known[:, 0] - self.known[:, 1] - self.known[:, 2])

    def boxes(self) -> Boxes:
        """The same as ``Boxes``."""
        return Boxes(self.low, self.high, self.known[:, 0], np.zeros(len(self), dtype=np.int16), self.region)


class Engine:
    """A forest and work arrays for every thread."""

    def __init__(self, query: TreeQuery, jobs: int) -> None:
        self.jobs = jobs
        self.forest: Forest = forest_of(query)
        self._own = threading.local()

    def _work(self) -> tuple[Work, Table]:
        if not hasattr(self._own, "work"):
            attributes = len(self.forest.offsets) - 1
            self._own.work = work_for(self.forest), table_for(attributes, int(self.forest.offsets[-1]))
        found: tuple[Work, Table] = self._own.work
        return found

    def split(self, boxes: Frontier, threshold: float, limit: float) -> tuple[Frontier, NDArray[np.float64]]:
        """Split boxes until no part has more open than the threshold, or ``limit`` parts were bounded.

        Returns:
            The parts that are not decided as a whole; mass decided fair, mass decided unfair, parts bounded.
        """
        work, table = self._work()
        n, room = boxes.low.shape[1], ROOM + 4 * len(boxes)
        low, high = np.empty((room, n), dtype=np.int32), np.empty((room, n), dtype=np.int32)
        known = np.empty((room, 3))
        attribute, cut = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
        totals = np.zeros(3)
        count = search(
            self.forest, work, table, boxes.low, boxes.high, boxes.known, boxes.attribute, boxes.cut, float(threshold),
            float(limit), low, high, known, attribute, cut, totals,
        )  # fmt: skip
        region = np.full(count, boxes.region[0], dtype=np.int16)
        return Frontier(
            low[:count].copy(), high[:count].copy(), known[:count].copy(), attribute[:count].copy(), cut[:count].copy(),
            region,
        ), totals  # fmt: skip


def prepare(query: TreeQuery, jobs: int) -> Engine:
    """Rewrite the trees and make sure that the kernels are compiled, which takes long on their first use."""
    engine = Engine(query, jobs)
    engine.split(_root(query), 2.0, 0)
    return engine


def _root(query: TreeQuery) -> Frontier:
    domain = whole(query)
    nowhere = np.full(1, -1, dtype=np.int32)
    zeros = np.zeros(1, dtype=np.int16)
    return Frontier(
        domain.lo.astype(np.int32), domain.hi.astype(np.int32), np.array([[1.0, 0.0, 0.0]]), nowhere, nowhere, zeros
    )


@dataclass
class Run:
    """One run: where it stands, and the clock.

    Attributes:
        pace: boxes that a call takes up.
    """

    engine: Engine
    tally: Tally
    limits: Limits
    pool: ThreadPoolExecutor
    say: Callable[[float], None]
    interrupts: Interrupts
    pace: int = 1

    def refine(self, frontier: Frontier) -> tuple[Frontier, Stop]:
        """Split, round by round, until a limit is reached or nothing is open that can be split."""
        threshold = 0.5
        while True:
            stop = self.reached(frontier.open.sum())
            able = (frontier.attribute >= 0) & (frontier.open > NOTHING)
            if stop is None and not able.any():
                stop = "done"
            if stop is not None:
                return frontier, stop
            threshold = min(threshold, max(float(frontier.open[able].max()) / FALL, NOTHING))
            chosen = able & (frontier.open > threshold)
            frontier, stop = self._round(frontier, chosen, threshold)
            if stop is not None:
                return frontier, stop
            threshold /= FALL

    def _round(self, frontier: Frontier, chosen: NDArray[np.bool_], threshold: float) -> tuple[Frontier, Stop | None]:
        todo = frontier[chosen]
        # The heaviest regions first would favour some: the order of the regions mixes them all.
        todo = todo[np.argsort(todo.region, kind="stable")]
        kept = [frontier[~chosen]]
        open_mass = float(kept[0].open.sum() + todo.open.sum())
        at, held = 0, len(frontier)
        stop: Stop | None = None
        while at < len(todo) and stop is None:
            pieces: list[Frontier] = []
            while at < len(todo) and len(pieces) < self.engine.jobs:
                same = int(np.searchsorted(todo.region[at:], todo.region[at], side="right"))
                pieces.append(todo[at : at + min(same, self.pace)])
                at += len(pieces[-1])
            most = np.inf if self.limits.max_boxes is None else self.limits.max_boxes - self.tally.boxes
            started = time.perf_counter()
            share = np.floor(most / len(pieces))
            results = list(self.pool.map(lambda piece, share=share: self.engine.split(piece, threshold, share), pieces))
            passed = time.perf_counter() - started
            self.pace = int(np.clip(self.pace * min(4.0, CALL / max(passed, 1e-4)), 1, 4096))
            for piece, (found, totals) in zip(pieces, results, strict=True):
                kept.append(found)
                held += len(found) - len(piece)
                open_mass += float(found.open.sum() - piece.open.sum())
                self.tally.add(int(piece.region[0]), totals[0], totals[1])
                self.tally.boxes += int(totals[2])
            stop = self.reached(open_mass)
            if stop is None and held > MOST_BOXES:
                stop = "boxes"
            self.say(1 - open_mass)
        kept.append(todo[at:])
        found = Frontier.joined(kept)
        self.moment(found)
        return found, stop

    def moment(self, frontier: Frontier) -> None:
        """Note where the run stands, with what is proved of the boxes that are left."""
        fair, unfair = frontier.known[:, 1:].sum(axis=0)
        self.tally.moment(last=True, more=(float(fair), float(unfair)))

    def reached(self, open_mass: float) -> Stop | None:
        """The limit that is reached with so much open, if any."""
        limits = self.limits
        if self.interrupts.count:
            return "interrupt"
        if limits.target_undecided is not None and open_mass <= limits.target_undecided:
            return "target"
        if limits.max_boxes is not None and self.tally.boxes + self.engine.jobs > limits.max_boxes:
            return "boxes"
        if limits.deadline is not None and self.tally.boxes and time.perf_counter() >= limits.deadline:
            return "time"
        return None


def refine(
    query: TreeQuery, engine: Engine, tally: Tally, limits: Limits, *, say: Callable[[float], None]
) -> tuple[Boxes, NDArray[np.float64], Stop]:
    """Refine until everything is decided or a limit is reached; Ctrl-C ends it with what is proved by then.

    Args:
        query: what is asked.
        engine: prepared for it.
        tally: takes what is proved.
        limits: when to stop.
        say: called with about the share of the work done.

    Returns:
        The boxes that are not decided as a whole, mass proved fair and unfair in each, and why it ended.
    """
    with ThreadPoolExecutor(engine.jobs) as pool, Interrupts() as interrupts:
        run = Run(engine, tally, limits, pool, say, interrupts)
        frontier = _coarse(query, run)
        frontier, stop = run.refine(frontier)
    run.moment(frontier)
    for region in np.unique(frontier.region):
        inside = frontier.region == region
        fair, unfair = (float(total) for total in frontier.known[inside, 1:].sum(axis=0))
        tally.add(int(region), fair, unfair, rest=float(frontier.open[inside].sum()))
    left = frontier.open > 0
    return frontier[left].boxes(), frontier.known[left, 1:], stop


def _coarse(query: TreeQuery, run: Run) -> Frontier:
    """The first parts of the domain, each a region of the certificate; those that are decided at once are counted."""
    waiting = [_root(query)]
    settled: list[Frontier] = []
    while waiting and len(waiting) + len(settled) < REGIONS and run.reached(1.0) is None:
        heaviest = int(np.argmax([part.open[0] for part in waiting]))
        part = waiting.pop(heaviest)
        for piece in _halves(part) if part.attribute[0] >= 0 else [part]:
            found, totals = run.engine.split(piece, 2.0, np.inf)
            run.tally.boxes += int(totals[2])
            if not len(found):
                run.tally.add(_named(run.tally, piece) if totals[1] > 0 else 0, totals[0], totals[1])
            else:
                able = found.attribute[0] >= 0 and found.open[0] > NOTHING
                (waiting if able else settled).append(found)
    parts = waiting + settled
    for part in parts:
        part.region[:] = _named(run.tally, part)
    return Frontier.joined(parts) if parts else _root(query)[:0]


def _halves(part: Frontier) -> list[Frontier]:
    """The two parts of one box, with what they weigh not known yet."""
    low, high = part.low.copy(), part.high.copy()
    low[0, part.attribute[0]], high[0, part.attribute[0]] = part.cut[0], part.cut[0] - 1
    nowhere = np.full(1, -1, dtype=np.int32)
    unknown = np.array([[part.known[0, 0], 0.0, 0.0]])
    return [Frontier(a, b, unknown, nowhere, nowhere, part.region) for a, b in ((part.low, high), (low, part.high))]


def _named(tally: Tally, part: Frontier) -> int:
    """The number of the region that a box becomes."""
    return int(tally.regioned(part.boxes(), np.ones(1, dtype=np.bool_)).region[0])
