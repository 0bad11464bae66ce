"""Refine boxes of an ensemble, best first. The proofs of a part are counted immediately."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.leaves import LeafTable, leaf_table_of, restrict_table
from evenhand.certification.bounds.trees.lists import tree_workspace_for
from evenhand.certification.bounds.trees.question import TreeQuery
from evenhand.certification.bounds.trees.search import (
    COUNTED,
    SETTLED,
    WAITING,
    TreeBoxArrays,
    refine_tree_boxes,
)
from evenhand.certification.bounds.trees.tails import TAILS
from evenhand.certification.query.boxes import ArrayRows, Boxes, whole_domain
from evenhand.certification.query.orbits import Orbit, OrbitQuestion
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
from evenhand.core.kernels import new_arrays
from evenhand.core.typing import Booleans, Floats

OUTPUT_BOXES = 1 << 14
"""Maximum number of boxes that a call returns."""
CALL_ROOM = 1024
"""Minimum number of boxes that the output of a call has room for."""
UNTIMED_PACE = 256
"""Maximum number of boxes per call without a time limit."""
MIN_CALL_BOXES, BOXES_PER_ENTRY = 32, 16
"""Maximum number of boxes that a call bounds: a minimum, and a number per input box."""
LONGEST_CALL = 0.5
"""Maximum expected duration of a call in a timed run, in seconds."""
COARSE_REGIONS = 16
"""Approximate number of coarse parts of the domain in a certificate."""
TABLE_POINTS, RECORDED_POINTS = 1 << 14, 1 << 8
"""Maximum number of points of a counted box, without and with a certificate file that must be checked."""


@dataclass(frozen=True)
class TreeFrontier(ArrayRows):
    """Boxes with their proved masses.

    Attributes:
        low, high: First and last cell, shape (boxes, attributes).
        known: Mass, mass proved fair and mass proved unfair, shape (boxes, 3).
        state: Whether the box can be counted, can be split, or is finished; see ``search``.
        region: Coarse region of the domain.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    known: Floats
    state: NDArray[np.int8]
    region: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.known)

    @property
    def open(self) -> Floats:
        """Mass of each box that is not proved, shape (boxes,)."""
        return np.maximum(0.0, self.known[:, 0] - self.known[:, 1] - self.known[:, 2])

    @property
    def divisible(self) -> Booleans:
        """Mask of the boxes that can be split."""
        return np.asarray((self.state == WAITING) | (self.state == COUNTED))

    def boxes(self) -> Boxes:
        """Convert to ``Boxes``."""
        return Boxes(self.low, self.high, self.known[:, 0], np.zeros(len(self), dtype=np.int16), self.region)


class TreeEngine:
    """Bounder of the boxes of an ensemble, with work arrays for every thread.

    Args:
        question: Question. The regions of a question about orbits are the orbits, each with a single class.
        jobs: Number of threads.
        recording: Whether to use only proofs that the certificate checker can repeat.
    """

    def __init__(self, question: TreeQuery | OrbitQuestion, jobs: int, *, recording: bool = False) -> None:
        self.jobs = jobs
        self.recording = recording
        self.domain = whole_domain(question.query)
        query: Any = question.query
        self._open = {region: orbit for region, orbit in enumerate(question.orbits, 1) if not orbit.query.constant}
        if self._open:
            everyone = np.concatenate([orbit.query.assignments for orbit in self._open.values()])
            query = replace(query, assignments=np.unique(everyone, axis=0))
        self._assignments = query.assignments
        self.table = table = leaf_table_of(query)
        # A tolerance of zero is proved by the leaves, because sums of leaves are rounded.
        exact = table.is_difference and table.within < 0
        self._points = 1.0 if exact else float(RECORDED_POINTS if recording else TABLE_POINTS)
        self._tails = TAILS[:0] if recording or len(table.base) > 1 or table.is_difference else TAILS
        self._own = threading.local()

    def root(self) -> TreeFrontier:
        """Build a box of the whole domain, or of that of each open orbit."""
        region = np.array(list(self._open) or [0], dtype=np.int16)
        low, high = (np.tile(end.astype(np.int32), (len(region), 1)) for end in (self.domain.lo, self.domain.hi))
        known = np.array([[orbit.mass, 0.0, 0.0] for orbit in self._open.values()] or [[1.0, 0.0, 0.0]])
        return TreeFrontier(low, high, known, np.zeros(len(region), dtype=np.int8), region)

    def _table(self, orbit: Orbit | None) -> LeafTable:
        """Return the leaves that the assignments of an orbit reach, with the weights of its class."""
        if orbit is None:
            return self.table
        same = (self._assignments[:, None] == orbit.query.assignments).all(axis=2)
        return restrict_table(self.table, same.argmax(axis=0), orbit.query.cells)

    def expand(
        self, boxes: TreeFrontier, threshold: float, limit: float = np.inf, *, put_settled: bool = False
    ) -> tuple[TreeFrontier, Floats]:
        """Split boxes until no part has more undecided than the threshold, or ``limit`` parts were bounded.

        Returns:
            The parts with open mass, with ``put_settled`` the others too; mass decided fair, mass decided unfair,
            parts bounded.
        """
        orbit = self._open.get(int(boxes.region[0]))
        share = 1.0 if orbit is None else orbit.mass
        if not hasattr(self._own, "orbit") or self._own.orbit is not orbit:
            self._own.orbit, self._own.table = orbit, self._table(orbit)
            self._own.work = tree_workspace_for(self._own.table)
        n, room = boxes.low.shape[1], OUTPUT_BOXES + 4 * len(boxes)
        out = new_arrays(TreeBoxArrays, boxes=room, attributes=n)
        inputs = TreeBoxArrays(boxes.low, boxes.high, boxes.known / share, boxes.state)
        put, totals = put_settled or self.recording, np.zeros(3)
        settings = (float(threshold / share), float(limit), self._points, put, self.recording)
        count = refine_tree_boxes(self._own.table, self._own.work, inputs, self._tails, settings, out, totals)
        totals[:2] *= share
        region = np.full(count, boxes.region[0], dtype=np.int16)
        low, high, known, state = (column[:count].copy() for column in out)
        return TreeFrontier(low, high, known * share, state, region), totals


def compile_tree_engine(question: TreeQuery | OrbitQuestion, jobs: int, *, recording: bool = False) -> TreeEngine:
    """Collect the leaves and compile the kernels, which takes time on first use."""
    engine = TreeEngine(question, jobs, recording=recording)
    engine.expand(engine.root()[:1], 2.0, 0)
    return engine


@dataclass
class TreeSearch(BestFirst[TreeFrontier]):
    """One run. Shares of boxes are proved when they are bounded, so no proofs follow the loop.

    Attributes:
        bounder: Bounder of the boxes of one query.
        recorder: Recorder of the final boxes.
        watch: Stops the run if progress is too slow.
        pace: Number of boxes per call.
        speed: Number of boxes that a thread bounds per second, in a timed run.
        last_boxes: Number of boxes before the current calls.
    """

    bounder: TreeEngine
    watch: ProgressWatch
    recorder: BoxRecorder | None = None
    pace: int = 1
    speed: float = np.inf
    last_boxes: int = 0

    first_threshold = 0.5
    factor = 8.0

    def collect(self, found: TreeFrontier) -> TreeFrontier:
        """Record and count the settled boxes, and select the others."""
        settled, undecided = found[found.state == SETTLED], found[found.state != SETTLED]
        if self.recorder is not None:
            _record_boxes(self.recorder, settled)
        for region in np.unique(settled.region):
            fair, unfair = settled.known[settled.region == region, 1:].sum(axis=0)
            self.proved_mass.add(int(region), float(fair), float(unfair))
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
        """Return the size of the next calls, chosen for the target duration.

        Their number depends on the number of threads only in timed runs. A call that the limit
        interrupts loses the proof of its current box, so the number of calls falls towards the end.
        """
        calls = self.bounder.jobs if self.limits.timed else max(1, min(CONCURRENT_CALLS, room // CALL_ROOM))
        limit = min(self.pace * BOXES_PER_ENTRY, LONGEST_CALL * self.speed)
        return CallSize(int(calls), self.pace, max(MIN_CALL_BOXES, limit))

    def calls_done(self, undecided: float, seconds: float) -> None:
        """Adapt the pace to the measured duration of the calls or, without a time limit, to the expected duration."""
        if self.limits.timed:
            faster, highest = CALL_SECONDS / max(seconds, 1e-4), 4096.0
            self.speed = (self.proved_mass.boxes - self.last_boxes) / max(seconds, 1e-4) / self.bounder.jobs
        else:
            faster, highest = 4.0, min(CALL_SECONDS * self.limits.boxes_per_second, UNTIMED_PACE)
        self.pace = int(np.clip(self.pace * min(4.0, faster), 1, max(1.0, highest)))
        self.last_boxes = self.proved_mass.boxes
        self.say(1 - undecided)

    def round_done(self, frontier: TreeFrontier, stop: Stop | None, seconds: float) -> None:
        """Record the progress of the run, including the proofs of the remaining boxes."""
        fair, unfair = frontier.known[:, 1:].sum(axis=0)
        self.proved_mass.moment(last=True, more=(float(fair), float(unfair)))


def split_boxes(
    bounder: TreeEngine, proved_mass: ProvedMass, limits: SearchLimits, recorder: BoxRecorder | None = None
) -> tuple[TreeFrontier, Stop]:
    """Split the domain; return the boxes that are not decided as a whole, and the stopping reason."""
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
    """Refine until all mass is decided or a limit is reached. Ctrl-C ends the run and keeps its proofs.

    Args:
        bounder: Bounder of the boxes of one query.
        proved_mass: Account of the proved mass.
        limits: Limits of the run.
        say: Callback for the approximate share of the work done.
        recorder: Recorder of the final boxes.
        domain: Initial boxes. Default: the whole domain.

    Returns:
        The boxes that are not decided as a whole, the mass proved fair and unfair in each, and the stopping reason.
    """
    with ThreadPoolExecutor(bounder.jobs) as pool, InterruptCounter() as interrupts:
        run = TreeSearch(bounder, proved_mass, limits, pool, say, interrupts, limits.progress_watch(), recorder)
        frontier, stop = run.refine(_split_domain(run) if domain is None else domain)
    run.round_done(frontier, stop, 0.0)
    if recorder is not None:
        _record_boxes(recorder, frontier)
    for region in np.unique(frontier.region):
        inside = frontier.region == region
        fair, unfair = (float(total) for total in frontier.known[inside, 1:].sum(axis=0))
        proved_mass.add(int(region), fair, unfair, rest=float(frontier.open[inside].sum()))
    left = frontier.open > 0
    return frontier[left].boxes(), frontier.known[left, 1:], stop


def _record_boxes(recorder: BoxRecorder, boxes: TreeFrontier) -> None:
    """Record final boxes with their proved shares."""
    shares = np.minimum(1.0, boxes.known[:, 1:] / boxes.known[:, :1])
    recorder.take(boxes.low, boxes.high, shares[:, 0], shares[:, 1])


def _split_domain(run: TreeSearch) -> TreeFrontier:
    """Split the domain into its first parts, the regions of the certificate, and count the decided ones."""
    root = run.bounder.root()
    waiting = [root[at : at + 1] for at in range(len(root))]
    finished: list[TreeFrontier] = []
    while waiting and len(waiting) + len(finished) < COARSE_REGIONS and run.stop_within_round(1.0, 1) is None:
        # The part with the most open mass is split, so that regions have similar masses.
        heaviest = int(np.argmax([part.open[0] for part in waiting]))
        parts, totals = run.bounder.expand(waiting.pop(heaviest), 2.0, put_settled=True)
        run.proved_mass.boxes += int(totals[2])
        for at in range(len(parts)):
            part = parts[at : at + 1]
            if part.state[0] == SETTLED and part.known[0, 2] > 0:
                part.region[:] = _region_number(run.proved_mass, part)
            if len(run.collect(part)):
                able = part.divisible[0] and part.open[0] > ROUNDING_MASS
                (waiting if able else finished).append(part)
    remaining = waiting + finished
    for part in remaining:
        part.region[:] = _region_number(run.proved_mass, part)
    return TreeFrontier.concatenate(remaining) if remaining else root[:0]


def _region_number(tally: ProvedMass, part: TreeFrontier) -> int:
    """Assign a region to a box and return its number."""
    return int(tally.assign_regions(part.boxes(), np.ones(1, dtype=np.bool_)).region[0])
