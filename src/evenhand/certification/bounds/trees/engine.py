"""Refine boxes of a forest, best first. The bounds of a part immediately prove its share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.bounds import TreeWorkspace, tree_workspace_for
from evenhand.certification.bounds.trees.differences import TreeDifferenceQuery, difference_forest_of
from evenhand.certification.bounds.trees.forest import FlatForest, flat_forest_of
from evenhand.certification.bounds.trees.question import TreeQuery
from evenhand.certification.bounds.trees.search import TreeBoxArrays, refine_tree_boxes
from evenhand.certification.bounds.trees.shares import SumDistribution, sum_distribution_for
from evenhand.certification.query.boxes import ArrayRows, Boxes, whole_domain
from evenhand.certification.query.proved_mass import (
    ProgressWatch,
    ProvedMass,
    SearchLimits,
    Stop,
)
from evenhand.certification.refinement import (
    CALL_SECONDS,
    CONCURRENT_CALLS,
    ROUNDING_MASS,
    BestFirst,
    BoxRecorder,
    CallSize,
)
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Floats

OUTPUT_BOXES = 1 << 14
"""Boxes that a call may put out."""
CALL_ROOM = 1024
"""Boxes that there must be room for in each call."""
UNTIMED_PACE = 256
"""Maximum number of boxes per call without a time limit."""
COARSE_REGIONS = 16
"""Coarse parts of the domain that a certificate names, about."""


@dataclass(frozen=True)
class TreeFrontier(ArrayRows):
    """Boxes with their proved masses.

    Attributes:
        low, high: cells, shape (boxes, attributes).
        known: mass, mass proved fair and mass proved unfair, shape (boxes, 3).
        attribute, cut: where to cut next; -1 nowhere, or not known yet.
        region: Coarse region of the domain.
        kind: Outcome of the whole box, fair (1) or unfair (2), if boxes are recorded; else 0.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    known: Floats
    attribute: NDArray[np.int32]
    cut: NDArray[np.int32]
    region: NDArray[np.int16]
    kind: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.known)

    @property
    def open(self) -> Floats:
        """Mass of each box that is not proved, shape (boxes,)."""
        return np.maximum(0.0, self.known[:, 0] - self.known[:, 1] - self.known[:, 2])

    @property
    def divisible(self) -> Booleans:
        """Which boxes have a cut."""
        return self.attribute >= 0

    def boxes(self) -> Boxes:
        """The same as ``Boxes``."""
        return Boxes(self.low, self.high, self.known[:, 0], np.zeros(len(self), dtype=np.int16), self.region)


class TreeEngine:
    """A forest and work arrays for every thread."""

    def __init__(self, query: TreeQuery, jobs: int) -> None:
        self.jobs = jobs
        self.domain = whole_domain(query)
        self.forest: FlatForest = (
            difference_forest_of(query) if isinstance(query, TreeDifferenceQuery) else flat_forest_of(query)
        )
        self._own = threading.local()

    def _work(self) -> tuple[TreeWorkspace, SumDistribution]:
        if not hasattr(self._own, "work"):
            attributes = len(self.forest.offsets) - 1
            self._own.work = (
                tree_workspace_for(self.forest),
                sum_distribution_for(attributes, int(self.forest.offsets[-1])),
            )
        arrays: tuple[TreeWorkspace, SumDistribution] = self._own.work
        return arrays

    def root(self) -> TreeFrontier:
        """Return the domain as one box, with nothing known of it."""
        nowhere = np.full(1, -1, dtype=np.int32)
        low, high = self.domain.lo.astype(np.int32), self.domain.hi.astype(np.int32)
        region, kind = np.zeros(1, dtype=np.int16), np.zeros(1, dtype=np.int8)
        return TreeFrontier(low, high, np.array([[1.0, 0.0, 0.0]]), nowhere, nowhere, region, kind)

    def expand(
        self, boxes: TreeFrontier, threshold: float, limit: float = np.inf, *, recording: bool = False
    ) -> tuple[TreeFrontier, Floats]:
        """Split boxes until no part has more undecided than the threshold, or ``limit`` parts were bounded.

        Returns:
            The parts that are not decided as a whole, with ``recording`` the others too; mass decided fair, mass
            decided unfair, parts bounded.
        """
        work, table = self._work()
        n, room = boxes.low.shape[1], OUTPUT_BOXES + 4 * len(boxes)
        inputs = TreeBoxArrays(boxes.low, boxes.high, boxes.known, boxes.attribute, boxes.cut, boxes.kind)
        out = TreeBoxArrays(
            low=np.empty((room, n), dtype=np.int32),
            high=np.empty((room, n), dtype=np.int32),
            known=np.empty((room, 3)),
            attribute=np.empty(room, dtype=np.int32),
            cut=np.empty(room, dtype=np.int32),
            kind=np.zeros(room if recording else 0, dtype=np.int8),
        )
        totals = np.zeros(3)
        count = refine_tree_boxes(self.forest, work, table, inputs, float(threshold), float(limit), out, totals)
        region = np.full(count, boxes.region[0], dtype=np.int16)
        parts = TreeFrontier(
            out.low[:count].copy(),
            out.high[:count].copy(),
            out.known[:count].copy(),
            out.attribute[:count].copy(),
            out.cut[:count].copy(),
            region,
            out.kind[:count].copy() if recording else np.zeros(count, dtype=np.int8),
        )
        return parts, totals


def compile_tree_engine(query: TreeQuery, jobs: int) -> TreeEngine:
    """Rewrite the trees and make sure that the kernels are compiled, which takes long on their first use."""
    engine = TreeEngine(query, jobs)
    engine.expand(engine.root(), 2.0, 0)
    return engine


@dataclass
class TreeSearch(BestFirst[TreeFrontier]):
    """One run. Shares of boxes are proved when they are bounded, so no proofs follow the loop.

    Attributes:
        bounder: bounds boxes of one query.
        recorder: takes final boxes.
        watch: ends the run where it decides too little.
        pace: boxes that a call takes up.
    """

    bounder: TreeEngine
    watch: ProgressWatch
    recorder: BoxRecorder | None = None
    pace: int = 1

    first_threshold = 0.5
    factor = 2.0

    def expand(self, boxes: TreeFrontier, threshold: float, limit: float) -> tuple[TreeFrontier, Floats]:
        """Have boxes split; for a record the decided parts come back as well."""
        return self.bounder.expand(boxes, threshold, limit, recording=self.recorder is not None)

    def collect(self, found: TreeFrontier) -> TreeFrontier:
        """Record the boxes that are decided as a whole, and return the others."""
        if self.recorder is None:
            return found
        decided, undecided = found[found.kind > 0], found[found.kind == 0]
        self.recorder.take(decided.low, decided.high, decided.kind == 1, decided.kind == 2)
        return undecided

    def stop_before_round(self, frontier: TreeFrontier) -> Stop | None:
        """Return the limit that is reached, or "progress" if the latest rounds decided too little."""
        undecided = float(frontier.open.sum())
        stop = self.stop_within_round(undecided, len(frontier))
        return "progress" if stop is None and self.watch.stalled(undecided, self.proved_mass.boxes) else stop

    def stop_within_round(self, undecided: float, held: int) -> Stop | None:
        """Return the limit that is reached, if any."""
        if self.interrupts.count:
            return "interrupt"
        return self.limits.limit_reached(self.proved_mass.boxes, undecided)

    def call_size(self, room: float) -> CallSize:
        """Return the size of the next calls, each about as long as a call should take.

        Their number depends on the number of threads only where the clock matters anyway. A call that the limit
        interrupts loses the proof of its current box, so the number of calls falls towards the end.
        """
        calls = self.bounder.jobs if self.limits.timed else max(1, min(CONCURRENT_CALLS, room // CALL_ROOM))
        return CallSize(int(calls), self.pace, np.inf)

    def calls_done(self, undecided: float, seconds: float) -> None:
        """Adapt the pace to the time that the calls took; without a time limit, to the expected time."""
        if self.limits.timed:
            faster, highest = CALL_SECONDS / max(seconds, 1e-4), 4096.0
        else:
            faster, highest = 4.0, min(CALL_SECONDS * self.limits.boxes_per_second, UNTIMED_PACE)
        self.pace = int(np.clip(self.pace * min(4.0, faster), 1, max(1.0, highest)))
        self.say(1 - undecided)

    def round_done(self, frontier: TreeFrontier, stop: Stop | None, seconds: float) -> None:
        """Record the progress of the run, including the proofs of the remaining boxes."""
        fair, unfair = frontier.known[:, 1:].sum(axis=0)
        self.proved_mass.moment(last=True, more=(float(fair), float(unfair)))


def split_boxes(
    bounder: TreeEngine, proved_mass: ProvedMass, limits: SearchLimits, recorder: BoxRecorder | None = None
) -> tuple[TreeFrontier, Stop]:
    """Split the domain; return the boxes that are not decided as a whole, and why it ended."""
    with ThreadPoolExecutor(bounder.jobs) as pool, InterruptCounter() as interrupts:
        run = TreeSearch(
            bounder, proved_mass, limits, pool, lambda share: None, interrupts, limits.progress_watch(), recorder
        )
        return run.refine(_split_domain(run))


def refine_trees(
    bounder: TreeEngine,
    proved_mass: ProvedMass,
    limits: SearchLimits,
    *,
    say: Callable[[float], None],
    recorder: BoxRecorder | None = None,
    domain: TreeFrontier | None = None,
) -> tuple[Boxes, Floats, Stop]:
    """Refine until everything is decided or a limit is reached; Ctrl-C ends the run and keeps its proofs.

    Args:
        bounder: bounds boxes of one query.
        proved_mass: Account of the proved mass.
        limits: when to stop.
        say: called with about the share of the work done.
        recorder: Recorder of the final boxes.
        domain: boxes to begin with. Default: the whole domain.

    Returns:
        The boxes that are not decided as a whole, mass proved fair and unfair in each, and why it ended.
    """
    with ThreadPoolExecutor(bounder.jobs) as pool, InterruptCounter() as interrupts:
        run = TreeSearch(bounder, proved_mass, limits, pool, say, interrupts, limits.progress_watch(), recorder)
        frontier, stop = run.refine(_split_domain(run) if domain is None else domain)
    run.round_done(frontier, stop, 0.0)
    if recorder is not None:
        shares = np.minimum(1.0, frontier.known[:, 1:] / frontier.known[:, :1])
        recorder.take(frontier.low, frontier.high, shares[:, 0], shares[:, 1])
    for region in np.unique(frontier.region):
        inside = frontier.region == region
        fair, unfair = (float(total) for total in frontier.known[inside, 1:].sum(axis=0))
        proved_mass.add(int(region), fair, unfair, rest=float(frontier.open[inside].sum()))
    left = frontier.open > 0
    return frontier[left].boxes(), frontier.known[left, 1:], stop


def _split_domain(run: TreeSearch) -> TreeFrontier:
    """Split the domain into its first parts, the regions of the certificate, and count the decided ones."""
    waiting = [run.bounder.root()]
    settled: list[TreeFrontier] = []
    while waiting and len(waiting) + len(settled) < COARSE_REGIONS and run.stop_within_round(1.0, 1) is None:
        # The part with the most open mass is halved, so that regions come out about as heavy as each other.
        heaviest = int(np.argmax([part.open[0] for part in waiting]))
        part = waiting.pop(heaviest)
        for piece in _halve_box(part) if part.attribute[0] >= 0 else [part]:
            found, totals = run.expand(piece, 2.0, np.inf)
            found = run.collect(found)
            run.proved_mass.boxes += int(totals[2])
            if not len(found):
                run.proved_mass.add(
                    _region_number(run.proved_mass, piece) if totals[1] > 0 else 0, totals[0], totals[1]
                )
            else:
                able = found.attribute[0] >= 0 and found.open[0] > ROUNDING_MASS
                (waiting if able else settled).append(found)
    parts = waiting + settled
    for part in parts:
        part.region[:] = _region_number(run.proved_mass, part)
    return TreeFrontier.concatenate(parts) if parts else run.bounder.root()[:0]


def _halve_box(part: TreeFrontier) -> list[TreeFrontier]:
    """Build the two parts of one box, without their masses."""
    low, high = part.low.copy(), part.high.copy()
    low[0, part.attribute[0]], high[0, part.attribute[0]] = part.cut[0], part.cut[0] - 1
    nowhere = np.full(1, -1, dtype=np.int32)
    unknown = np.array([[part.known[0, 0], 0.0, 0.0]])
    halves = ((part.low, high), (low, part.high))
    return [TreeFrontier(a, b, unknown, nowhere, nowhere, part.region, part.kind) for a, b in halves]


def _region_number(tally: ProvedMass, part: TreeFrontier) -> int:
    """The number of the region that a box becomes."""
    return int(tally.assign_regions(part.boxes(), np.ones(1, dtype=np.bool_)).region[0])
