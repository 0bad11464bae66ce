"""Linear bounds, best first: boxes are counted by the half-spaces they hold, and proved once they are small enough.

A box that the decision boundary crosses is not all undecided: where the lower function is positive under every
assignment, the label is the same, whatever happens elsewhere in the box. Only the sliver between lower and upper
function stays open, and it shrinks with the relaxation gap, not with the box. While boxes are refined, the decided
share of each is estimated by a normal distribution, which costs little, has no luck in it and proves nothing; what
counts in the end is proved (``compiled.shares``), box by box, for the boxes where there is something to gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.boxes import ArrayRows, Boxes
from evenhand.certification.query.cells import Cells
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits, Stop
from evenhand.certification.query.question import Query
from evenhand.certification.refinement import CALL_SECONDS, MAX_BYTES, BestFirst, Bounder, CallSize
from evenhand.interrupts import InterruptCounter
from evenhand.typing import Booleans, Floats, Integers

if TYPE_CHECKING:
    from evenhand.certification.bounds.compiled.shares import AttributeAxes

CALL_BOXES = 256
"""Boxes taken up per call: a call takes a fraction of a second."""
CONCURRENT_CALLS = 8
"""Calls under way at once, whatever the number of threads: the result must not depend on it."""
PROVED_BOXES, WATCHED_BOXES = 2048, 256
"""Boxes proved per call; fewer where progress is watched, so that even short rounds have work for all threads."""
NEGLIGIBLE_SHARE = 0.03
"""Proofs are left out while all that they could still decide is this small a part of what is undecided anyway."""
ESTIMATE_MARGIN = 1.25
"""Proofs leave up to about so many times as much undecided as was estimated."""
POLISH_MASS = 1e-3
"""Estimated undecided mass below which splits go by what the proofs leave open: grids then lose more than bounds."""
FINISHED_MASS = 1e-6
"""Mass left open below which the run is done."""
GRACE_SECONDS = 2.0
"""Seconds for proofs after an interrupt."""
SIZES = 80
"""Powers of two that gains are sorted into."""
PROBED, RUN = 384, 48
"""Boxes proved now and then at every precision, and neighbours among them, to see what a proof costs and brings."""
PROBING_SHARE = 0.1
"""A finer precision is tried where that takes no more than this part of the time spent on refinement."""
DECAY_EXPONENT = 0.3
"""The undecided mass falls about as the time of refinement to the power of minus this."""
ROUND_SECONDS = 0.25
"""Seconds that a round of splits and proofs should take where progress is watched."""
TIME_RESERVE = 0.03
"""Part of the time that is held back, as proofs take as long as they take."""
LANES = 16
"""Boxes that are bounded side by side, the parts of one box as a rule."""

COARSE, MEDIUM, FINE = LEVELS = (384, 64), (1024, 256), (4096, 4096)
"""Grid steps and exactly enumerated joint values of a proof."""


@dataclass(frozen=True)
class BoxFrontier(ArrayRows):
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
    open: Floats
    mass: Floats
    region: NDArray[np.int16]
    kind: NDArray[np.int8]
    state: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.uint8))

    def __post_init__(self) -> None:
        if len(self.state) != len(self.mass):
            object.__setattr__(self, "state", np.zeros((len(self.mass), 0), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.mass)

    @property
    def divisible(self) -> Booleans:
        """Which boxes have a plan."""
        return self.plan[:, 0] >= 0

    def boxes(self) -> Boxes:
        """The same as ``Boxes``."""
        depth = np.zeros(len(self), dtype=np.int16)
        return Boxes(self.low, self.high, self.mass, depth, self.region)

    def by_expected_gain(self) -> NDArray[np.intp]:
        """Boxes whose proof may decide something, in order: all but those with the least gain, together negligible."""
        gain = self.mass - self.open
        able = np.maximum(gain, 1e-300)
        size = np.clip(np.log2(able).astype(np.int64) + SIZES, 0, SIZES)
        below = np.cumsum(np.bincount(size, weights=np.maximum(gain, 0.0), minlength=SIZES + 1))
        least = int(np.searchsorted(below, NEGLIGIBLE_SHARE * self.open.sum(), side="right"))
        return np.flatnonzero((size >= least) & (gain > 0))


def empty_frontier(attributes: int, count: int, width: int = 0) -> BoxFrontier:
    """Return room for so many boxes, and so many bytes of what is known of hidden units."""
    cells = (count, attributes)
    return BoxFrontier(
        np.zeros(cells, dtype=np.int32),
        np.zeros(cells, dtype=np.int32),
        np.full((count, 4), -1, dtype=np.int8),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, dtype=np.int16),
        np.zeros(count, dtype=np.int8),
        np.zeros((count, width), dtype=np.uint8),
    )


def root_frontier(counts: Integers) -> BoxFrontier:
    """Return the domain as one box, to be split along its widest attributes; ``counts`` are the cells of each."""
    root = empty_frontier(len(counts), 1)
    root.high[:], root.mass[:], root.open[:] = counts - 1, 1.0, 1.0
    widest = np.argsort(-counts, kind="stable")[:4]
    root.plan[0, : len(widest)] = widest
    return root


class BoxRecorder(Protocol):
    """Takes final boxes: cells (n, attributes) and proved shares (n,), fair and unfair."""

    def take(
        self,
        low: NDArray[np.integer],
        high: NDArray[np.integer],
        fair: NDArray[np.generic],
        unfair: NDArray[np.generic],
    ) -> None:
        """Keep them; together all boxes make up the domain."""


class LinearBounder(Bounder[BoxFrontier], Protocol):
    """Linear bounds for one query, and proofs from them: compiled kernels, or whole arrays.

    Attributes:
        proofs_per_box: how many proofs the shares of a box take, at most.
    """

    proofs_per_box: int

    def expand(
        self, boxes: BoxFrontier, threshold: float, limit: float = ..., *, recording: bool = ...
    ) -> tuple[BoxFrontier, Floats]:
        """With ``recording`` the parts that are decided as a whole come out too."""

    def prove(self, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        """Return proved shares of each box, fair and unfair, shape (boxes, 2)."""


class ReusableBounder(LinearBounder, Protocol):
    """A bounder whose work helps with similar queries about the same network."""

    def weigh(self, cells: Sequence[Cells]) -> AttributeAxes:
        """Return how people have these cells, who differ from those of the query in their masses alone."""

    def reweighted(self, axes: AttributeAxes) -> LinearBounder:
        """Return the bounder of the same query about such people."""

    def beside(self, query: Query) -> ReusableBounder:
        """Return the bounder of another query about the same cells; the two may not be used on more threads."""


@dataclass
class LinearSearch(BestFirst[BoxFrontier]):
    """One run: the loop over estimates, then the proofs of what is left.

    Attributes:
        level: precision of the proofs; without a deadline each box has the one that its open share asks for.
        cost: seconds that a proof takes.
        worthwhile: part of the boxes whose proof may decide something.
        refined, probed: seconds spent on refinement, now and when proofs were tried last.
        speed: boxes bounded in a second by one thread.
    """

    bounder: LinearBounder
    recorder: BoxRecorder | None = None
    level: int = 0
    cost: float = 2e-5
    worthwhile: float = 1.0
    refined: float = 0.0
    probed: float = 0.0
    speed: float = 0.0

    first_threshold = 0.01
    factor = 1.6

    @property
    def watched(self) -> bool:
        """Whether the run ends where it decides too little: then boxes are proved as soon as they are there.

        Bounds take a tenth of the time of proofs, and a box has up to sixteen parts, so that proving boxes that are
        split later costs little; after equal work about as much is decided, and it is known at any moment.
        """
        return self.limits.min_progress is not None

    def split_domain(self) -> BoxFrontier:
        """Return the first grandchildren of the domain: the coarse regions of the certificate, unless it has some."""
        most = np.inf if self.limits.max_boxes is None else self.limits.max_boxes
        root, found = self.bounder.root(), []
        for at in range(len(root)):
            parts, totals = self.expand(root[at : at + 1], 2.0, most)
            self.proved_mass.add(int(root.region[at]), totals[0], totals[1])
            self.proved_mass.boxes += int(totals[2])
            found.append(self.collect(parts))
        children = BoxFrontier.concatenate(found)
        named = self.proved_mass.assign_regions(children.boxes(), np.ones(len(children), dtype=np.bool_))
        children.region[:] = named.region
        return children

    def expand(self, boxes: BoxFrontier, threshold: float, limit: float) -> tuple[BoxFrontier, Floats]:
        """Have boxes split; for a record the decided parts come back as well."""
        return self.bounder.expand(boxes, threshold, limit, recording=self.recorder is not None)

    def collect(self, found: BoxFrontier) -> BoxFrontier:
        """Hand the boxes that are decided as a whole over to the record; return the others."""
        if self.recorder is None:
            return found
        whole = found.kind > 0
        self.recorder.take(found.low[whole], found.high[whole], found.kind[whole] == 1, found.kind[whole] == 2)
        return found[~whole]

    def call_size(self, room: float) -> CallSize:
        """With a deadline calls are short enough to look at the clock between them; a box has about fifty parts."""
        calls = int(max(1, min(CONCURRENT_CALLS, room // LANES))) if room < np.inf else CONCURRENT_CALLS
        if self.limits.deadline is None or self.speed == 0:
            return CallSize(calls, CALL_BOXES, np.inf)
        boxes = int(np.clip(self.speed * CALL_SECONDS / 50, 1, CALL_BOXES))
        return CallSize(calls, boxes, max(LANES, self.speed * 5 * CALL_SECONDS))

    def calls_done(self, undecided: float, seconds: float) -> None:
        """Note where the run stands; while it is watched, that is done after the proofs."""
        if not self.watched:
            self.proved_mass.moment()

    def split_round(self, parts: list[BoxFrontier], threshold: float) -> tuple[BoxFrontier, Stop | None]:
        """Split boxes, and measure how fast that goes."""
        if self.limits.deadline is None:
            return super().split_round(parts, threshold)
        started, bounded = self.reading(), self.proved_mass.boxes
        found = super().split_round(parts, threshold)
        seconds = max(self.reading() - started, 1e-6)
        self.speed = (self.proved_mass.boxes - bounded) / seconds / self.bounder.jobs
        return found

    def round_done(self, frontier: BoxFrontier, stop: Stop | None, seconds: float) -> None:
        """Try now and then what proofs would cost and bring."""
        self.refined += seconds
        if stop is None and self.limits.deadline is not None and self.refined > 1.2 * self.probed:
            self.probed = self.refined
            self._probe_precision(frontier)
        self.say(self.proved_mass.settled)

    def stop_before_round(self, frontier: BoxFrontier) -> Stop | None:
        """Return the limit that is reached, or "done" where proofs would bring more than further splits."""
        undecided = float(frontier.open.sum())
        proofs = len(frontier.by_expected_gain())
        self.worthwhile = proofs / max(1, len(frontier))
        stop: Stop | None = "done" if len(frontier) == 0 and not self.interrupts.count else None
        stop = stop or self._limit_reached(ESTIMATE_MARGIN * undecided, proofs)
        return "done" if stop is None and undecided < POLISH_MASS else stop

    def stop_within_round(self, undecided: float, held: int) -> Stop | None:
        """Return the limit that is reached; the estimates say too little in the midst of a round to end at a target."""
        return self._limit_reached(np.inf, self.worthwhile * held)

    def _limit_reached(self, undecided: float, proofs: float) -> Stop | None:
        """Return the limit that is reached if so many proofs are still to be made."""
        seconds = proofs * self.cost / self.bounder.jobs / (1 - TIME_RESERVE)
        return (
            "interrupt"
            if self.interrupts.count
            else self.limits.limit_reached(self.proved_mass.boxes, undecided, step=LANES, seconds=seconds)
        )

    def _seconds_left(self) -> float:
        """Seconds left for proofs."""
        deadline = self.limits.deadline
        return np.inf if deadline is None else (1 - TIME_RESERVE) * (deadline - self.reading())

    def _probe_precision(self, frontier: BoxFrontier) -> None:
        """Prove every so-manieth box at each precision: what that costs, and whether refining would bring more."""
        worthwhile = frontier.by_expected_gain()
        if len(worthwhile) < PROBED:
            return
        # Runs of neighbours, as in the real pass: neighbours bound well together.
        run = max(1, RUN // self.bounder.proofs_per_box)
        begins = np.linspace(0, len(worthwhile) - run, PROBED // RUN).astype(np.int64)
        sample = frontier[worthwhile[(begins[:, None] + np.arange(run)).ravel()]]
        held = float(frontier.mass[worthwhile].sum())
        costs: list[float] = []
        brought: list[float] = []
        for precision in LEVELS:
            # A finer level takes about four times as long. The trial itself must not take what it is to save.
            if costs and 4 * costs[-1] * len(sample) > PROBING_SHARE * self.refined:
                break
            started = self.reading()
            shares = self.bounder.prove(sample, precision)
            costs.append((self.reading() - started) / len(sample))
            # What the grid loses of a box has little to do with its mass, of which a few boxes have most.
            brought.append(held * float(shares.sum(axis=1).mean()))
        undecided, refined = float(frontier.open.sum()), max(self.refined, 0.1)
        self.level = 0
        for level in range(1, len(costs)):
            # A finer level may be timed as the cheaper one, and a negative sum has no real power.
            seconds = max(0.0, costs[level] - costs[self.level]) * len(worthwhile) / self.bounder.jobs
            if self._seconds_left() < costs[level] * len(worthwhile) / self.bounder.jobs:
                break
            if brought[level] - brought[self.level] > undecided * (1 - (1 + seconds / refined) ** -DECAY_EXPONENT):
                self.level = level
        self.cost = costs[self.level]

    def _proved_shares(self, boxes: BoxFrontier) -> Floats:
        if self.limits.deadline is not None and not self.watched:
            return self.bounder.prove(boxes, LEVELS[self.level])
        shares = np.zeros((len(boxes), 2))
        share = boxes.open / np.maximum(boxes.mass, 1e-300)
        wanted = np.where(share > 0.05, 0, np.where(share > 0.01, 1, 2))
        for level, precision in enumerate(LEVELS):
            chosen = np.flatnonzero(wanted == level)
            if len(chosen):
                shares[chosen] = self.bounder.prove(boxes[chosen], precision)
        return shares

    def prove(self, frontier: BoxFrontier, *, until: float | None) -> Floats:
        """Proved shares of the frontier's boxes, those with the most to gain first, until the clock says stop."""
        shares = np.zeros((len(frontier), 2))
        order = frontier.by_expected_gain()
        order = order[np.argsort(frontier.open[order] - frontier.mass[order], kind="stable")]
        size = WATCHED_BOXES if self.watched else PROVED_BOXES
        # Neighbours bound well together: proofs go block by block of gain, in the boxes' own order inside each.
        blocks = [np.sort(order[at : at + 65_536]) for at in range(0, len(order), 65_536)]
        for block in blocks:
            pieces = [block[at : at + size] for at in range(0, len(block), size)]
            for at in range(0, len(pieces), CONCURRENT_CALLS):
                if self.interrupts.count > 1 or self.limits.clock.passed(until):
                    return shares
                group = pieces[at : at + CONCURRENT_CALLS]
                results = self.pool.map(lambda piece: self._proved_shares(frontier[piece]), group)
                for piece, proved in zip(group, results, strict=True):
                    shares[piece] = proved
        return shares

    def refine_and_prove(self, frontier: BoxFrontier) -> tuple[BoxFrontier, Floats, Stop]:
        """Refine while there is time, prove what is left, and refine where the proofs leave the most open."""
        limits = self.limits
        while True:
            frontier, stop = self.refine(frontier)
            grace = limits.clock.now() + GRACE_SECONDS if stop == "interrupt" else limits.deadline
            shares = self.prove(frontier, until=grace)
            rest = float((frontier.mass * (1 - shares.sum(axis=1))).sum())
            missed = stop == "target" and limits.target_undecided is not None and rest > limits.target_undecided
            estimated = float(frontier.open.sum())
            if not missed or estimated < POLISH_MASS:
                break
            # The proofs leave more open than was estimated: aim lower.
            self.limits = replace(limits, target_undecided=0.8 * estimated, min_progress=None)
        self.limits = limits
        # Among millions of boxes there is no time for the worst of them, and no memory to move the others about.
        few = 8 * len(frontier) * frontier.row_bytes < MAX_BYTES
        if len(frontier) and few and (missed or stop in ("done", "time")):
            frontier, shares, stop = self.refine_proofs(frontier, shares)
        return frontier, shares, stop

    def refine_proofs(self, frontier: BoxFrontier, shares: Floats) -> tuple[BoxFrontier, Floats, Stop]:
        """Split the boxes whose proofs leave the most open, prove their parts, and so on while there is time."""
        watch = self.limits.progress_watch()
        while True:
            loss = frontier.mass * (1 - shares.sum(axis=1))
            able = frontier.plan[:, 0] >= 0
            number = min(self._affordable_boxes(), int(able.sum()))
            stop = self._limit_reached(np.inf, LANES * number)
            if stop is None and self.limits.target_undecided is not None and loss.sum() <= self.limits.target_undecided:
                stop = "target"
            full = len(frontier) * frontier.row_bytes > MAX_BYTES
            if stop is None and (loss[able].sum() < FINISHED_MASS or full):
                stop = "boxes" if full else "done"
            if stop is None and watch.stalled(float(loss.sum())):
                stop = "progress"
            if stop is not None:
                return frontier, shares, stop
            order = np.argsort(-np.where(able, loss, -1.0), kind="stable")[:number]
            half = int(np.searchsorted(np.cumsum(loss[order]), 0.5 * loss[able].sum())) + 1
            chosen = np.zeros(len(frontier), dtype=np.bool_)
            chosen[order[:half]] = True
            # Twice the mass of a box is never exceeded: every box is split by its plan once.
            started, bounded = self.reading(), self.proved_mass.boxes
            todo = frontier[chosen]
            self.worthwhile = len(todo.by_expected_gain()) / len(todo)
            parts, stop = self.split_round([frontier[:0], todo], 2.0)
            # There was time for these when the round began, and without them the proofs of whole boxes would be lost.
            shares = np.concatenate([shares[~chosen], self.prove(parts, until=None)])
            frontier = BoxFrontier.concatenate([frontier[~chosen], parts])
            fair, unfair = (float(mass) for mass in (frontier.mass[:, None] * shares).sum(axis=0))
            if self.watched:
                boxes = max(LANES, self.proved_mass.boxes - bounded)
                self.cost = (self.reading() - started) * self.bounder.jobs / boxes
                self.proved_mass.moment(more=(fair, unfair))
            self.say(min(1.0, self.proved_mass.settled + fair + unfair))
            if stop is not None:
                return frontier, shares, stop

    def _affordable_boxes(self) -> int:
        """How many boxes to split and prove next: half of those that there is time for, or what a round should take."""
        if self.watched:
            seconds = min(ROUND_SECONDS, 0.5 * self._seconds_left())
            return max(1, int(seconds * self.bounder.jobs / (LANES * self.cost)))
        if self.limits.deadline is None:
            return 4 * CALL_BOXES
        left = self.limits.deadline - self.reading()
        return int(
            np.clip(0.5 * left * self.bounder.jobs / (LANES * 1.5 * self.cost), CALL_BOXES // 4, 64 * CALL_BOXES)
        )


def refine_boxes(
    bounder: LinearBounder,
    proved_mass: ProvedMass,
    limits: SearchLimits,
    *,
    say: Callable[[float], None],
    recorder: BoxRecorder | None = None,
) -> tuple[Boxes, Floats, Stop]:
    """Refine by linear bounds, then prove the shares of what is left.

    Args:
        bounder: bounds boxes of one query.
        proved_mass: takes what is proved.
        limits: when to stop.
        say: called with about the share of the work done.
        recorder: takes every final box with what is proved of it.

    Ctrl-C ends it early, with what is proved by then and in ``GRACE_SECONDS`` more; a second one, at once.

    Returns:
        The boxes that are not decided as a whole, mass proved fair and unfair in each, and why it ended.
    """
    with ThreadPoolExecutor(bounder.jobs) as pool, InterruptCounter() as interrupts:
        run = LinearSearch(bounder, proved_mass, limits, pool, say, interrupts, recorder)
        run.cost *= bounder.proofs_per_box
        frontier = run.split_domain()
        if run.watched:
            frontier, shares, stop = run.refine_proofs(frontier, run.prove(frontier, until=None))
        else:
            frontier, shares, stop = run.refine_and_prove(frontier)
    for region in np.unique(frontier.region):
        inside = frontier.region == region
        mass = frontier.mass[inside]
        fair, unfair = (float((mass * shares[inside, kind]).sum()) for kind in (0, 1))
        proved_mass.add(int(region), fair, unfair, rest=max(0.0, float(mass.sum()) - fair - unfair))
    proved_mass.moment(last=True)
    if recorder is not None:
        recorder.take(frontier.low, frontier.high, shares[:, 0], shares[:, 1])
    partly = shares.max(axis=1, initial=0.0) < 1
    return frontier.boxes()[partly], (frontier.mass[:, None] * shares)[partly], stop
