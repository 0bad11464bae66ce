"""Refine boxes by linear bounds, best first, and prove the shares of small boxes.

A box that the decision boundary crosses is only partly undecided: where the lower function is positive under every
assignment, the label is constant. Only the sliver between the lower and the upper function remains undecided, and it
shrinks with the relaxation gap, not with the box. During refinement, a normal approximation estimates the decided share
of each box. It is cheap and deterministic, and proves nothing. Finally, the boxes whose proof may gain something are
proved (``compiled.shares``).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.frontier import BoxFrontier
from evenhand.certification.bounds.schedule import LEVELS, Proofs, ProofSchedule, level_by_share
from evenhand.certification.query.boxes import BoxSet
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits, Stop
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

CALL_BOXES = 256
"""Number of boxes per call, so that a call takes a fraction of a second."""
CALL_SHARE = 0.02
"""Maximum share of the time limit for a call."""
PROVED_BOXES, WATCHED_BOXES = 2048, 256
"""Maximum number of boxes proved per call. Watched runs use smaller calls, so that short rounds occupy all threads."""
PROVED_BLOCK = 1 << 16
"""Number of boxes in a block; blocks are proved in decreasing order of expected gain."""
REPLANNED, PROVING_SHARE = 8, 0.85
"""Number of times that levels are chosen again during proofs; share of the remaining time for the first proofs."""
SPLIT_SECONDS = 1e-5
"""Approximate seconds for bounding a box."""
WORST_BOXES = 1 << 17
"""Number of boxes with the most open mass that are considered for splitting."""
ESTIMATE_MARGIN = 1.25
"""Approximate maximum ratio of the undecided mass of proofs to its estimate."""
POLISH_MASS = 1e-3
"""Estimated undecided mass below which proofs select the splits, because grids then lose more than bounds."""
FINISHED_MASS = 1e-6
"""Undecided mass below which the run is complete."""
PROBE_GROWTH = 1.4
"""Growth factor of the refinement time between two probes of proofs."""
ROUND_SECONDS = 0.25
"""Target seconds of a round of splits and proofs in a watched run."""
TIME_RESERVE = 0.03
"""Share of the time that is reserved, because the time of proofs varies."""
LANES = 16
"""Number of boxes that are bounded together, usually the parts of one box."""


class LinearBounder(Bounder[BoxFrontier], Protocol):
    """Linear bounds, and proofs from them.

    Attributes:
        proofs_per_box: Maximum number of proofs of a box.
        plain: Whether every bound is a single linear function, as it is in the checker. Otherwise some are the minimum
            of two.
    """

    proofs_per_box: int
    plain: bool

    def expand(
        self, boxes: BoxFrontier, threshold: float, limit: float = ..., *, recording: bool = ...
    ) -> tuple[BoxFrontier, Floats]:
        """Split boxes. With ``recording``, parts that are decided as a whole are returned too."""

    def prove(self, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        """Prove the fair and unfair shares of each box, shape (boxes, 2)."""


@dataclass
class LinearSearch(BestFirst[BoxFrontier]):
    """Run of the loop over estimates, followed by proofs of the remaining boxes.

    Attributes:
        schedule: Precision of the proofs, if there is a deadline.
        cost: Average seconds of a proof, including boxes that are not proved.
        refined, probed: Seconds of refinement, now and at the last probe of proofs.
        speed: Boxes bounded per second and thread.
    """

    bounder: LinearBounder
    recorder: BoxRecorder | None = None
    schedule: ProofSchedule = field(default_factory=ProofSchedule)
    cost: float = 2e-5
    refined: float = 0.0
    probed: float = 0.0
    speed: float = 0.0

    def __post_init__(self) -> None:
        self.speed = self.limits.boxes_per_second

    first_threshold = 0.01
    factor = 1.6

    @property
    def watched(self) -> bool:
        """Whether the run stops when progress is too slow, so that boxes are proved immediately.

        Bounds take a tenth of the time of proofs, and a box has up to sixteen parts, so proving boxes that are split
        later costs little. Equal amounts of work decide about equal mass, and the decided mass is known at any time.
        """
        return self.limits.min_progress is not None

    def split_domain(self) -> BoxFrontier:
        """Split the domain into its first grandchildren, the coarse regions of the certificate by default."""
        max_boxes = np.inf if self.limits.max_boxes is None else self.limits.max_boxes
        root, children_of_boxes = self.bounder.root(), []
        for at in range(len(root)):
            parts, totals = self.expand(root[at : at + 1], 2.0, max_boxes)
            self.proved_mass.add(int(root.region[at]), totals[0], totals[1])
            self.proved_mass.boxes += int(totals[2])
            children_of_boxes.append(self.collect(parts))
        children = BoxFrontier.concatenate(children_of_boxes)
        named = self.proved_mass.assign_regions(children.boxes(), np.ones(len(children), dtype=np.bool_))
        children.region[:] = named.region
        return children

    def expand(self, boxes: BoxFrontier, threshold: float, limit: float) -> tuple[BoxFrontier, Floats]:
        """Split boxes. For a record, decided parts are returned too."""
        return self.bounder.expand(boxes, threshold, limit, recording=self.recorder is not None)

    def collect(self, boxes: BoxFrontier) -> BoxFrontier:
        """Record the boxes that are decided as a whole, and return the others."""
        if self.recorder is None:
            return boxes
        is_decided = boxes.kind > 0
        decided, undecided = boxes.divide(is_decided)
        self.recorder.take(decided.lo, decided.hi, decided.kind == 1, decided.kind == 2)
        return undecided

    def call_size(self, room: float) -> CallSize:
        """Determine the size of calls, short enough to check a deadline between them. A box has about fifty parts."""
        calls = int(max(1, min(CONCURRENT_CALLS, room // LANES))) if room < np.inf else CONCURRENT_CALLS
        if self.limits.deadline is None:
            return CallSize(calls, CALL_BOXES, np.inf)
        work = self.speed * self._call_seconds()
        return CallSize(min(calls, self.bounder.jobs), int(np.clip(work / 50, 1, CALL_BOXES)), max(LANES, 2 * work))

    def _call_seconds(self) -> float:
        """Compute the target seconds of a call from the time limit."""
        return min(CALL_SECONDS, CALL_SHARE * (self.limits.deadline or np.inf))

    def calls_done(self, undecided: float, seconds: float) -> None:
        """Record the progress of the run. A watched run records it after the proofs."""
        if not self.watched:
            self.proved_mass.moment()

    def split_round(self, todo: BoxFrontier, rest: BoxFrontier, threshold: float) -> tuple[BoxFrontier, Stop | None]:
        """Split boxes and measure the speed."""
        if self.limits.deadline is None:
            return super().split_round(todo, rest, threshold)
        started, bounded = self.reading(), self.proved_mass.boxes
        result = super().split_round(todo, rest, threshold)
        seconds = max(self.reading() - started, 1e-6)
        self.speed = max(1, self.proved_mass.boxes - bounded) / seconds / self.bounder.jobs
        # A proof bounds its box again.
        self.schedule.costs = np.maximum(self.schedule.costs, 1 / self.speed)
        return result

    def round_done(self, frontier: BoxFrontier, stop: Stop | None, seconds: float) -> None:
        """Probe the cost and the loss of proofs from time to time."""
        self.refined += seconds
        if stop is None and self.scheduled and self.refined > PROBE_GROWTH * self.probed:
            self.probed = self.refined
            self.schedule.probe(frontier, self._seconds_left(), self.bounder.prove, self.reading)
        self.say(self.proved_mass.settled)

    @property
    def scheduled(self) -> bool:
        """Whether all proofs are run at the end, before a deadline."""
        return self.limits.deadline is not None and not self.watched

    def stop_before_round(self, frontier: BoxFrontier) -> Stop | None:
        """Return the limit that is reached, or "done" if proofs gain more than further splits."""
        undecided = float(frontier.open.sum(dtype=np.float64))
        if self.scheduled:
            self.schedule.set_price(undecided, self.limits.deadline or 0.0)
            seconds = self.schedule.proof_seconds(self.schedule.choose(frontier.gain))
            self.cost = seconds / max(1, len(frontier))
        stop: Stop | None = "done" if len(frontier) == 0 and not self.interrupts.count else None
        stop = stop or self._limit_reached(ESTIMATE_MARGIN * undecided, len(frontier))
        return "done" if stop is None and undecided < POLISH_MASS else stop

    def stop_within_round(self, undecided: float, held: int) -> Stop | None:
        """Return the limit that is reached. Estimates within a round are too rough for a target."""
        return self._limit_reached(np.inf, held)

    def _limit_reached(self, undecided: float, boxes: float) -> Stop | None:
        """Return the limit that is reached, with ``boxes`` boxes still to prove."""
        seconds = boxes * self.cost / self.bounder.jobs / (1 - TIME_RESERVE)
        return (
            "interrupt"
            if self.interrupts.count
            else self.limits.limit_reached(self.proved_mass.boxes, undecided, step=LANES, seconds=seconds)
        )

    def _seconds_left(self) -> float:
        """Compute the seconds left for proofs."""
        deadline = self.limits.deadline
        return np.inf if deadline is None else (1 - TIME_RESERVE) * (deadline - self.reading())

    def prove(self, frontier: BoxFrontier, *, until: float | None) -> Proofs:
        """Prove the shares of the frontier boxes in decreasing order of gain, until the deadline."""
        proofs = Proofs(np.zeros((len(frontier), 2)), np.full(len(frontier), -1, dtype=np.int8))
        gain = frontier.gain
        if self.scheduled:
            level, order = self.schedule.choose(gain), np.flatnonzero(self.schedule.may_pay(gain))
            level[order] = np.maximum(level[order], 0)
        else:
            level, order = level_by_share(frontier), frontier.by_expected_gain()
        order = order[np.argsort(-gain[order], kind="stable")]
        # Neighbours are bounded efficiently together, so proofs proceed by blocks of gain, and within each block in
        # box order.
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
                later = order[at + size :]
                self.schedule.fit_price(gain[later], (until - now) * self.bounder.jobs)
                level[later] = np.maximum(self.schedule.choose(gain[later]), 0)
        return proofs

    def prove_boxes(
        self,
        frontier: BoxFrontier,
        proofs: Proofs,
        chosen: NDArray[np.intp],
        level: NDArray[np.int8],
        until: float | None,
    ) -> bool:
        """Prove chosen boxes at their levels, and keep the larger shares; return whether all were proved in time."""
        size, calls = WATCHED_BOXES if self.watched else PROVED_BOXES, CONCURRENT_CALLS
        if self.scheduled:
            mean = self.schedule.proof_seconds(level) / max(1, len(level))
            size, calls = int(np.clip(self._call_seconds() / max(mean, 1e-7), LANES, PROVED_BOXES)), self.bounder.jobs
        if until is None:  # no state to update in between, so all threads or workers are used
            calls = max(1, -(-len(chosen) // size))

        def prove_piece(at: int) -> bool:
            if is_interrupted(GRACE_SECONDS):
                return False
            for number in np.unique(level[at : at + size]):
                rows = chosen[at : at + size][level[at : at + size] == number]
                shares = self.bounder.prove(frontier[rows], LEVELS[number])
                # Both are lower bounds on the same shares, so the larger one is used.
                proofs.share[rows] = np.maximum(proofs.share[rows], shares)
                proofs.level[rows] = number
            return True

        for at in range(0, len(chosen), calls * size):
            if self.limits.clock.passed(until):
                return False
            if not all(list(self.pool.map(prove_piece, range(at, min(at + calls * size, len(chosen)), size)))):
                return False
        return True

    def refine_and_prove(self, frontier: BoxFrontier) -> tuple[BoxFrontier, Proofs, Stop]:
        """Refine until the deadline, prove the remaining boxes, and refine those with the most open mass."""
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
            open_mass = float(proofs.left_open(frontier).sum())
            missed = stop == "target" and limits.target_undecided is not None and open_mass > limits.target_undecided
            estimated = float(frontier.open.sum(dtype=np.float64))
            if not missed or estimated < POLISH_MASS or self.scheduled:
                break
            # The proofs leave more undecided than estimated, so the target is lowered.
            self.limits = replace(limits, target_undecided=0.8 * estimated, min_progress=None)
        self.limits = limits
        if len(frontier) and (missed or stop in ("done", "time")):
            return self.refine_worst(frontier, proofs)
        return frontier, proofs, stop

    def refine_worst(self, frontier: BoxFrontier, proofs: Proofs) -> tuple[BoxFrontier, Proofs, Stop]:
        """Refine by the proofs. If there are many boxes, only the worst are refined."""
        few = len(frontier) <= WORST_BOXES if self.scheduled else 8 * len(frontier) * frontier.row_bytes < MAX_BYTES
        if few:
            return self.refine_proofs(frontier, proofs)
        loss = proofs.left_open(frontier)
        promising = np.maximum(*self.schedule.rates(frontier, proofs)[:2]) if self.scheduled else loss
        worst = np.zeros(len(frontier), dtype=np.bool_)
        worst[np.argpartition(promising, -min(WORST_BOXES, len(worst)))[-WORST_BOXES:]] = True
        besides, settled = float(loss[~worst].sum()), frontier.mass[~worst] @ proofs.share[~worst]
        (chosen, many), (worst_proofs, other_proofs) = frontier.divide(worst), proofs.divide(worst)
        parts, worst_proofs, stop = self.refine_proofs(chosen, worst_proofs, besides=besides, settled=settled)
        return BoxFrontier.join([many, parts]), Proofs.join([other_proofs, worst_proofs]), stop

    def refine_proofs(
        self, frontier: BoxFrontier, proofs: Proofs, *, besides: float = 0.0, settled: Floats | float = 0.0
    ) -> tuple[BoxFrontier, Proofs, Stop]:
        """Split the boxes with the most open mass and prove their parts, repeatedly until a limit.

        Args:
            frontier: Boxes.
            proofs: Proofs of each box.
            besides: Open mass in other boxes.
            settled: Proved fair and unfair mass in other boxes.
        """
        watch = self.limits.progress_watch()
        while True:
            loss = proofs.left_open(frontier)
            able = frontier.divisible
            number = min(self._affordable_boxes(), int(able.sum()))
            open_mass = besides + float(loss.sum())
            stop = self._limit_reached(np.inf, LANES * number)
            if stop is None and self.limits.target_undecided is not None and open_mass <= self.limits.target_undecided:
                stop = "target"
            full = len(frontier) * frontier.row_bytes > MAX_BYTES
            if stop is None and (loss[able].sum() < FINISHED_MASS or full):
                stop = "boxes" if full else "done"
            if stop is None and watch.stalled(open_mass, self.proved_mass.boxes):
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
            # No mass exceeds the threshold of 2, so every box is split once, by its plan.
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
        """Prove boxes with higher precision if that gains more than a split; return the mask of boxes to split.

        Args:
            frontier: Boxes.
            proofs: Proofs of each box, which are updated.
            seconds: Maximum seconds, on one thread.
        """
        split, finer, cost = self.schedule.rates(frontier, proofs)
        better = np.maximum(split, finer)
        cumulative_seconds = np.where(split >= finer, LANES * (cost + SPLIT_SECONDS), cost)
        order = np.argsort(-better, kind="stable")
        order = order[: max(1, int(np.searchsorted(np.cumsum(cumulative_seconds[order]), seconds)))]
        order = order[better[order] > 0]
        if len(order):
            self.schedule.price = float(better[order[-1]])
        chosen = np.zeros(len(frontier), dtype=np.bool_)
        chosen[order] = True
        again = np.flatnonzero(chosen & (finer > split))
        self.prove_boxes(frontier, proofs, again, proofs.level[again] + np.int8(1), None)
        return chosen & (split >= finer)

    def _affordable_boxes(self) -> int:
        """Compute the number of boxes to split and prove next: a part of the remaining time, or one round of work."""
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
    """Split the domain without proofs; return the boxes that are not decided as a whole, and the stopping reason."""
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
    """Refine by linear bounds, then prove the shares of the remaining boxes.

    Args:
        bounder: Bounder of one query.
        proved_mass: Account of the proved mass.
        limits: Limits.
        say: Callback for the approximate share of the work done.
        recorder: Recorder of the final boxes.
        domain: Boxes to begin with. Default: the whole domain.

    Ctrl-C ends the run within ``GRACE_SECONDS`` and keeps its proofs; a second one ends it immediately.

    Returns:
        Boxes that are not decided as a whole, their proved fair and unfair mass, shape (boxes, 2), and the stopping
        reason.
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
            boxes, block_shares = frontier[at : at + PROVED_BLOCK], shares[at : at + PROVED_BLOCK]
            recorder.take(boxes.lo, boxes.hi, block_shares[:, 0], block_shares[:, 1])
    partly = shares.max(axis=1, initial=0.0) < 1
    shares *= frontier.mass[:, None]
    for region in np.unique(frontier.region):
        inside = frontier.region == region
        fair, unfair = shares[inside].sum(axis=0).tolist()
        proved_mass.add(int(region), fair, unfair, rest=max(0.0, float(frontier.mass[inside].sum()) - fair - unfair))
    proved_mass.moment(last=True)
    return frontier.divide(partly)[0], shares[partly], stop
