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

from evenhand.certification.bounds.frontier import BoxFrontier
from evenhand.certification.bounds.schedule import LEVELS, Proofs, ProofSchedule, level_by_share
from evenhand.certification.query.boxes import BoxSet
from evenhand.certification.query.cells import Cells
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits, Stop
from evenhand.certification.query.question import Query
from evenhand.certification.refinement import (
    CALL_SECONDS,
    CONCURRENT_CALLS,
    MAX_BYTES,
    BestFirst,
    Bounder,
    BoxRecorder,
    CallSize,
)
from evenhand.core.interrupts import GRACE_SECONDS, InterruptCounter, is_interrupted
from evenhand.core.typing import Booleans, Floats

if TYPE_CHECKING:
    from evenhand.certification.bounds.compiled.shares import AttributeAxes

CALL_BOXES = 256
"""Boxes taken up per call: a call takes a fraction of a second."""
CALL_SHARE = 0.02
"""Part of the time limit that a call may take."""
PROVED_BOXES, WATCHED_BOXES = 2048, 256
"""Boxes proved per call, at most; where progress is watched even short rounds have work for all threads."""
PROVED_BLOCK = 1 << 16
"""Boxes that are proved before any that promise less."""
REPLANNED, PROVING_SHARE = 8, 0.85
"""How often levels are chosen again while boxes are proved; the part of the time left that first proofs may take."""
SPLIT_SECONDS = 1e-5
"""Seconds that bounding a box takes, about."""
WORST_BOXES = 1 << 17
"""Boxes of which those are split whose proofs leave the most open."""
ESTIMATE_MARGIN = 1.25
"""Proofs leave up to about so many times as much undecided as was estimated."""
POLISH_MASS = 1e-3
"""Estimated undecided mass below which splits go by what the proofs leave open: grids then lose more than bounds."""
FINISHED_MASS = 1e-6
"""Mass left open below which the run is done."""
PROBE_GROWTH = 1.4
"""Proofs are probed whenever the time spent on refinement has grown by this."""
ROUND_SECONDS = 0.25
"""Seconds that a round of splits and proofs should take where progress is watched."""
TIME_RESERVE = 0.03
"""Part of the time that is held back, as proofs take as long as they take."""
LANES = 16
"""Boxes that are bounded side by side, the parts of one box as a rule."""


class LinearBounder(Bounder[BoxFrontier], Protocol):
    """Linear bounds for one query, and proofs from them: compiled kernels, or whole arrays.

    Attributes:
        proofs_per_box: how many proofs the shares of a box take, at most.
        plain: whether every bound is to be one linear function, as the checker of certificates makes them; else some
            are the smaller of two.
    """

    proofs_per_box: int
    plain: bool

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
        schedule: how precisely each box is proved, where there is a deadline.
        cost: seconds that the proof of a box takes, all boxes counted, those that are not worth one too.
        refined, probed: seconds spent on refinement, now and when proofs were tried last.
        speed: boxes bounded in a second by one thread.
    """

    bounder: LinearBounder
    recorder: BoxRecorder | None = None
    schedule: ProofSchedule = field(default_factory=ProofSchedule)
    cost: float = 2e-5
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
        decided, rest = found.divide(whole)
        self.recorder.take(decided.lo, decided.hi, decided.kind == 1, decided.kind == 2)
        return rest

    def call_size(self, room: float) -> CallSize:
        """With a deadline calls are short enough to look at the clock between them; a box has about fifty parts."""
        calls = int(max(1, min(CONCURRENT_CALLS, room // LANES))) if room < np.inf else CONCURRENT_CALLS
        if self.limits.deadline is None or self.speed == 0:
            return CallSize(calls, CALL_BOXES, np.inf)
        work = self.speed * self._call_seconds()
        return CallSize(min(calls, self.bounder.jobs), int(np.clip(work / 50, 1, CALL_BOXES)), max(LANES, 2 * work))

    def _call_seconds(self) -> float:
        """Seconds that a call should take: the shorter the time limit, the fewer."""
        return min(CALL_SECONDS, CALL_SHARE * (self.limits.deadline or np.inf))

    def calls_done(self, undecided: float, seconds: float) -> None:
        """Note where the run stands; while it is watched, that is done after the proofs."""
        if not self.watched:
            self.proved_mass.moment()

    def split_round(self, todo: BoxFrontier, rest: BoxFrontier, threshold: float) -> tuple[BoxFrontier, Stop | None]:
        """Split boxes, and measure how fast that goes."""
        if self.limits.deadline is None:
            return super().split_round(todo, rest, threshold)
        started, bounded = self.reading(), self.proved_mass.boxes
        found = super().split_round(todo, rest, threshold)
        seconds = max(self.reading() - started, 1e-6)
        self.speed = (self.proved_mass.boxes - bounded) / seconds / self.bounder.jobs
        return found

    def round_done(self, frontier: BoxFrontier, stop: Stop | None, seconds: float) -> None:
        """Try now and then what proofs cost and lose."""
        self.refined += seconds
        if stop is None and self.scheduled and self.refined > PROBE_GROWTH * self.probed:
            self.probed = self.refined
            self.schedule.probe(frontier, self._seconds_left(), self.bounder.prove, self.reading)
        self.say(self.proved_mass.settled)

    @property
    def scheduled(self) -> bool:
        """Whether proofs are made once, at the end, and have to be done by a deadline."""
        return self.limits.deadline is not None and not self.watched

    def stop_before_round(self, frontier: BoxFrontier) -> Stop | None:
        """Return the limit that is reached, or "done" where proofs would bring more than further splits."""
        undecided = float(frontier.open.sum(dtype=np.float64))
        if self.scheduled:
            self.schedule.set_price(undecided, self.limits.deadline or 0.0)
            seconds = self.schedule.proof_seconds(self.schedule.choose(frontier.gain))
            self.cost = seconds / max(1, len(frontier))
        stop: Stop | None = "done" if len(frontier) == 0 and not self.interrupts.count else None
        stop = stop or self._limit_reached(ESTIMATE_MARGIN * undecided, len(frontier))
        return "done" if stop is None and undecided < POLISH_MASS else stop

    def stop_within_round(self, undecided: float, held: int) -> Stop | None:
        """Return the limit that is reached; the estimates say too little in the midst of a round to end at a target."""
        return self._limit_reached(np.inf, held)

    def _limit_reached(self, undecided: float, boxes: float) -> Stop | None:
        """Return the limit that is reached if so many boxes are still to be proved."""
        seconds = boxes * self.cost / self.bounder.jobs / (1 - TIME_RESERVE)
        return (
            "interrupt"
            if self.interrupts.count
            else self.limits.limit_reached(self.proved_mass.boxes, undecided, step=LANES, seconds=seconds)
        )

    def _seconds_left(self) -> float:
        """Seconds left for proofs."""
        deadline = self.limits.deadline
        return np.inf if deadline is None else (1 - TIME_RESERVE) * (deadline - self.reading())

    def prove(self, frontier: BoxFrontier, *, until: float | None) -> Proofs:
        """Prove the shares of the frontier's boxes, those with the most to gain first, until the clock says stop."""
        proofs = Proofs(np.zeros((len(frontier), 2)), np.full(len(frontier), -1, dtype=np.int8))
        gain = frontier.gain
        if self.scheduled:
            level, order = self.schedule.choose(gain), np.flatnonzero(self.schedule.may_pay(gain))
            level[order] = np.maximum(level[order], 0)
        else:
            level, order = level_by_share(frontier), frontier.by_expected_gain()
        order = order[np.argsort(-gain[order], kind="stable")]
        # Neighbours bound well together: proofs go block by block of gain, in the boxes' own order inside each.
        size = min(PROVED_BLOCK, -(-len(order) // REPLANNED)) if self.scheduled else PROVED_BLOCK
        if until is None:
            order = np.concatenate(
                [order[:0], *(np.sort(order[at : at + size]) for at in range(0, len(order), max(1, size)))]
            )
            self.prove_boxes(frontier, proofs, order, level[order], None)
            return proofs
        for at in range(0, len(order), max(1, size)):
            block = np.sort(order[at : at + size])
            started = self.reading()
            if not self.prove_boxes(frontier, proofs, block, level[block], until):
                break
            if self.scheduled and until is not None:
                now = self.reading()
                self.schedule.correct_costs(level[block], (now - started) * self.bounder.jobs)
                rest = order[at + size :]
                self.schedule.fit_price(gain[rest], (until - now) * self.bounder.jobs)
                level[rest] = np.maximum(self.schedule.choose(gain[rest]), 0)
        return proofs

    def prove_boxes(
        self,
        frontier: BoxFrontier,
        proofs: Proofs,
        chosen: NDArray[np.intp],
        level: NDArray[np.int8],
        until: float | None,
    ) -> bool:
        """Prove chosen boxes at their levels, and keep the better of old and new; return whether there was time."""
        size, calls = WATCHED_BOXES if self.watched else PROVED_BOXES, CONCURRENT_CALLS
        if self.scheduled:
            mean = self.schedule.proof_seconds(level) / max(1, len(level))
            size, calls = int(np.clip(self._call_seconds() / max(mean, 1e-7), LANES, PROVED_BOXES)), self.bounder.jobs
        if until is None:  # nothing to look at in between: as many are under way as there are threads or workers
            calls = max(1, -(-len(chosen) // size))

        def prove_piece(at: int) -> bool:
            if is_interrupted(GRACE_SECONDS):
                return False
            for number in np.unique(level[at : at + size]):
                these = chosen[at : at + size][level[at : at + size] == number]
                found = self.bounder.prove(frontier[these], LEVELS[number])
                # Both are lower bounds of the same shares: the larger one holds.
                proofs.share[these] = np.maximum(proofs.share[these], found)
                proofs.level[these] = number
            return True

        for at in range(0, len(chosen), calls * size):
            if self.limits.clock.passed(until):
                return False
            if not all(list(self.pool.map(prove_piece, range(at, min(at + calls * size, len(chosen)), size)))):
                return False
        return True

    def refine_and_prove(self, frontier: BoxFrontier) -> tuple[BoxFrontier, Proofs, Stop]:
        """Refine while there is time, prove what is left, and refine where the proofs leave the most open."""
        limits = self.limits
        while True:
            frontier, stop = self.refine(frontier)
            until = limits.deadline
            if stop == "interrupt":
                until = limits.clock.now() + GRACE_SECONDS
            elif self.scheduled and stop != "target":
                seconds = PROVING_SHARE * self._seconds_left()
                self.schedule.fit_price(frontier.gain, seconds * self.bounder.jobs)
                until = self.reading() + seconds
            proofs = self.prove(frontier, until=until)
            rest = float(proofs.left_open(frontier).sum())
            missed = stop == "target" and limits.target_undecided is not None and rest > limits.target_undecided
            estimated = float(frontier.open.sum(dtype=np.float64))
            if not missed or estimated < POLISH_MASS or self.scheduled:
                break
            # The proofs leave more open than was estimated: aim lower.
            self.limits = replace(limits, target_undecided=0.8 * estimated, min_progress=None)
        self.limits = limits
        if len(frontier) and (missed or stop in ("done", "time")):
            return self.refine_worst(frontier, proofs)
        return frontier, proofs, stop

    def refine_worst(self, frontier: BoxFrontier, proofs: Proofs) -> tuple[BoxFrontier, Proofs, Stop]:
        """Refine by the proofs: of many boxes only the worst, as there is no time for more, nor to move the others."""
        few = len(frontier) <= WORST_BOXES if self.scheduled else 8 * len(frontier) * frontier.row_bytes < MAX_BYTES
        if few:
            return self.refine_proofs(frontier, proofs)
        loss = proofs.left_open(frontier)
        promising = np.maximum(*self.schedule.rates(frontier, proofs)[:2]) if self.scheduled else loss
        worst = np.zeros(len(frontier), dtype=np.bool_)
        worst[np.argpartition(promising, -min(WORST_BOXES, len(worst)))[-WORST_BOXES:]] = True
        besides, settled = float(loss[~worst].sum()), frontier.mass[~worst] @ proofs.share[~worst]
        (chosen, many), (found, others) = frontier.divide(worst), proofs.divide(worst)
        parts, found, stop = self.refine_proofs(chosen, found, besides=besides, settled=settled)
        return BoxFrontier.join([many, parts]), Proofs.join([others, found]), stop

    def refine_proofs(
        self, frontier: BoxFrontier, proofs: Proofs, *, besides: float = 0.0, settled: Floats | float = 0.0
    ) -> tuple[BoxFrontier, Proofs, Stop]:
        """Split the boxes whose proofs leave the most open, prove their parts, and so on while there is time.

        Args:
            frontier: these boxes.
            proofs: what is proved of each.
            besides: mass that is left open in other boxes.
            settled: mass that is proved fair and unfair in them.
        """
        watch = self.limits.progress_watch()
        while True:
            loss = proofs.left_open(frontier)
            able = frontier.divisible
            number = min(self._affordable_boxes(), int(able.sum()))
            rest = besides + float(loss.sum())
            stop = self._limit_reached(np.inf, LANES * number)
            if stop is None and self.limits.target_undecided is not None and rest <= self.limits.target_undecided:
                stop = "target"
            full = len(frontier) * frontier.row_bytes > MAX_BYTES
            if stop is None and (loss[able].sum() < FINISHED_MASS or full):
                stop = "boxes" if full else "done"
            if stop is None and watch.stalled(rest, self.proved_mass.boxes):
                stop = "progress"
            if stop is not None:
                return frontier, proofs, stop
            started, bounded = self.reading(), self.proved_mass.boxes
            if self.scheduled:
                chosen = self.sharpen(frontier, proofs, LANES * number * self.cost)
            else:
                order = np.argsort(-np.where(able, loss, -1.0), kind="stable")[:number]
                half = int(np.searchsorted(np.cumsum(loss[order]), 0.5 * loss[able].sum())) + 1
                chosen = np.zeros(len(frontier), dtype=np.bool_)
                chosen[order[:half]] = True
            # Twice the mass of a box is never exceeded: every box is split by its plan once.
            (todo, frontier), proofs = frontier.divide(chosen), proofs[~chosen]
            parts, stop = self.split_round(todo, todo[:0], 2.0)
            # There was time for these when the round began, and without them the proofs of whole boxes would be lost.
            proofs = Proofs.join([proofs, self.prove(parts, until=None)])
            frontier = BoxFrontier.join([frontier, parts])
            fair, unfair = (frontier.mass @ proofs.share + settled).tolist()
            if self.watched:
                if self.limits.timed:
                    boxes = max(LANES, self.proved_mass.boxes - bounded)
                    self.cost = (self.reading() - started) * self.bounder.jobs / boxes
                self.proved_mass.moment(more=(fair, unfair))
            self.say(min(1.0, self.proved_mass.settled + fair + unfair))
            if stop is not None:
                return frontier, proofs, stop

    def sharpen(self, frontier: BoxFrontier, proofs: Proofs, seconds: float) -> Booleans:
        """Prove boxes once more where only precision is lacking; return those that are better split.

        Args:
            frontier: boxes.
            proofs: what is proved of each; takes what is proved besides.
            seconds: that all this may take, on one thread.
        """
        split, finer, cost = self.schedule.rates(frontier, proofs)
        better = np.maximum(split, finer)
        taken = np.where(split >= finer, LANES * (cost + SPLIT_SECONDS), cost)
        order = np.argsort(-better, kind="stable")
        order = order[: max(1, int(np.searchsorted(np.cumsum(taken[order]), seconds)))]
        order = order[better[order] > 0]
        if len(order):
            self.schedule.price = float(better[order[-1]])
        chosen = np.zeros(len(frontier), dtype=np.bool_)
        chosen[order] = True
        again = np.flatnonzero(chosen & (finer > split))
        self.prove_boxes(frontier, proofs, again, proofs.level[again] + np.int8(1), None)
        return chosen & (split >= finer)

    def _affordable_boxes(self) -> int:
        """Return how many boxes to split and prove next: half of what the time left allows, or one round of work."""
        if not self.limits.timed:
            round_boxes = ROUND_SECONDS * self.limits.boxes_per_second / LANES if self.watched else np.inf
            return max(1, int(min(round_boxes, 4 * CALL_BOXES)))
        seconds = 0.35 * self._seconds_left()
        if self.watched:
            seconds = min(ROUND_SECONDS, seconds)
        return max(1, int(min(seconds * self.bounder.jobs / (LANES * max(self.cost, 1e-6)), 64 * CALL_BOXES)))


def split_boxes(
    bounder: LinearBounder, proved_mass: ProvedMass, limits: SearchLimits, recorder: BoxRecorder | None = None
) -> tuple[BoxFrontier, Stop]:
    """Split the domain without proving anything; return the boxes that are not decided as a whole, and why it ended."""
    bounder.plain = recorder is not None
    with ThreadPoolExecutor(bounder.jobs) as pool, InterruptCounter() as interrupts:
        run = LinearSearch(bounder, proved_mass, limits, pool, lambda share: None, interrupts, recorder)
        return run.refine(run.split_domain())


def refine_boxes(
    bounder: LinearBounder,
    proved_mass: ProvedMass,
    limits: SearchLimits,
    *,
    say: Callable[[float], None],
    recorder: BoxRecorder | None = None,
    domain: BoxFrontier | None = None,
) -> tuple[BoxSet, Floats, Stop]:
    """Refine by linear bounds, then prove the shares of what is left.

    Args:
        bounder: bounds boxes of one query.
        proved_mass: takes what is proved.
        limits: when to stop.
        say: called with about the share of the work done.
        recorder: takes every final box with what is proved of it.
        domain: boxes to begin with. Default: the whole domain.

    Ctrl-C ends it early, with what is proved by then and in ``GRACE_SECONDS`` more; a second one, at once.

    Returns:
        The boxes that are not decided as a whole, mass proved fair and unfair in each, and why it ended.
    """
    bounder.plain = recorder is not None
    with ThreadPoolExecutor(bounder.jobs) as pool, InterruptCounter() as interrupts:
        run = LinearSearch(bounder, proved_mass, limits, pool, say, interrupts, recorder)
        run.schedule.costs *= bounder.proofs_per_box
        frontier = run.split_domain() if domain is None else domain
        if run.watched:
            frontier, proofs, stop = run.refine_proofs(frontier, run.prove(frontier, until=None))
        else:
            frontier, proofs, stop = run.refine_and_prove(frontier)
    shares = proofs.share
    if recorder is not None:
        for at in range(0, len(frontier), PROVED_BLOCK):
            boxes, found = frontier[at : at + PROVED_BLOCK], shares[at : at + PROVED_BLOCK]
            recorder.take(boxes.lo, boxes.hi, found[:, 0], found[:, 1])
    partly = shares.max(axis=1, initial=0.0) < 1
    shares *= frontier.mass[:, None]
    for region in np.unique(frontier.region):
        inside = frontier.region == region
        fair, unfair = shares[inside].sum(axis=0).tolist()
        proved_mass.add(int(region), fair, unfair, rest=max(0.0, float(frontier.mass[inside].sum()) - fair - unfair))
    proved_mass.moment(last=True)
    return frontier.divide(partly)[0], shares[partly], stop
