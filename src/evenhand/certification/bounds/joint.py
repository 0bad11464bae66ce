"""When boxes are counted jointly, and how finely: what a pilot measures decides, in proved mass for time.

The linear method splits boxes and proves their shares. Counting a box jointly (``compiled.patterns``) costs ten times
as much and more, and leaves a fraction of what the proof left. So less time goes to splits, and the time that is left
goes to the boxes with the most undecided, each with the effort that brings the most for its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.frontier import BoxFrontier
from evenhand.typing import Floats


class CountingEffort(NamedTuple):
    """How finely a box is counted.

    Attributes:
        inner: joint values that are gone through for each of the most important ones, at most.
        price: share of the box that a joint value more must be expected to decide.
    """

    inner: int
    price: float


EFFORTS = (
    CountingEffort(64, 1.0),
    CountingEffort(1024, 4e-6),
    CountingEffort(4096, 1e-6),
    CountingEffort(4096, 2.5e-7),
    CountingEffort(4096, 2e-8),
)
"""From quick to thorough."""
PILOT_BOXES = 24
"""Boxes that a pilot counts with every effort, at most."""
PILOT_SHARE = 0.03
"""Part of the time left that a pilot may take."""
PILOT_COSTS = (2e-4, 5e-4, 1.5e-3, 4e-3, 8e-3)
"""Seconds that counting a box may take on a slow machine: how many boxes a pilot can afford."""
SPLIT_SHARES = np.geomspace(0.02, 1.0, 20)
"""Parts of the time for splits that are compared."""
CALL_SECONDS = 0.1
"""Seconds that a call takes, at most, so that the clock is looked at."""
LEAST_MASS = 1e-13
"""Undecided mass below which a box is left as it is: it is rounding."""
TIME_USED = 0.97
"""Part of the time that is planned with, as proofs take as long as they take."""
USUAL_DECAY = 0.3
"""The undecided mass falls about as the time of refinement to the power of minus this."""
HALF = 0.5
"""Weight of the latest call in the running means of costs and of what is left."""


class JointCounter(Protocol):
    """Counts boxes jointly; calls may run side by side."""

    def prepare(self) -> None:
        """Have kernels compiled, which takes seconds on their first use."""

    def count(self, low: NDArray[np.integer], high: NDArray[np.integer], effort: CountingEffort) -> Floats:
        """Return proved shares of boxes (boxes, attributes), fair and unfair, shape (boxes, 2)."""


@dataclass
class CountingPlan:
    """What counting costs and brings, as measured.

    Attributes:
        costs: seconds per box with each effort.
        left: part of a box's undecided mass that is still undecided after it.
        seconds: time to be held back for counting.
    """

    costs: Floats
    left: Floats
    seconds: float = 0.0

    def worthwhile(self) -> list[tuple[int, float]]:
        """Return the efforts worth their cost, from quick to thorough, and what a gain beyond the one before costs."""
        # The upper hull of gain over cost: along it each further second brings less than the one before.
        found: list[tuple[int, float]] = []
        for k in range(len(self.costs)):
            while True:
                cost, gain = (self.costs[found[-1][0]], 1 - self.left[found[-1][0]]) if found else (0.0, 0.0)
                if 1 - self.left[k] <= gain + 1e-9:
                    break
                price = (self.costs[k] - cost) / (1 - self.left[k] - gain)
                if found and price <= found[-1][1]:
                    found.pop()
                    continue
                found.append((k, float(price)))
                break
        return found

    def allocate(self, undecided: Floats, seconds: float) -> list[tuple[int, int]]:
        """Return how many boxes to count with which effort, the thorough efforts first, in about so many seconds.

        Args:
            undecided: of the boxes, the largest first.
            seconds: time for all.
        """
        # A box gets an effort where its undecided mass times the gain beyond the next quicker one is worth the cost.
        # What a second must bring (``rate``) is found by bisection; whatever it is, shares stay lower bounds.
        steps = self.worthwhile()
        ascending = undecided[::-1]

        def counts(rate: float) -> list[int]:
            return [len(undecided) - int(np.searchsorted(ascending, rate * price)) for _, price in steps]

        def cost(rate: float) -> float:
            numbers = counts(rate)
            rest = [*numbers[1:], 0]
            return float(sum(self.costs[k] * (n - more) for (k, _), n, more in zip(steps, numbers, rest, strict=True)))

        if not steps or not len(undecided):
            return []
        low, high = 0.0, float(undecided[0]) / steps[0][1] * 2
        if cost(low) <= seconds:
            high = low
        for _ in range(25 if high > low else 0):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if cost(middle) <= seconds else (middle, high)
        numbers = counts(high)
        rest = [*numbers[1:], 0]
        found = [(k, n - more) for (k, _), n, more in zip(steps, numbers, rest, strict=True) if n > more]
        return found[::-1]

    def left_after(self, undecided: Floats, seconds: float) -> float:
        """Return how much of the undecided mass would be left after counting for so many seconds."""
        at, rest = 0, float(undecided.sum())
        for effort, number in self.allocate(undecided, seconds):
            rest -= float(undecided[at : at + number].sum()) * (1 - self.left[effort])
            at += number
        return rest

    def note(self, effort: int, cost: float, left: float) -> None:
        """Take in what a call cost and left."""
        self.costs[effort] += HALF * (cost - self.costs[effort])
        self.left[effort] += HALF * (min(1.0, left) - self.left[effort])


def pilot_boxes(undecided: Floats, seconds: float) -> NDArray[np.intp]:
    """Return boxes for a pilot, evenly spaced by undecided mass; few enough for a small part of the time left."""
    number = int(min(PILOT_BOXES, PILOT_SHARE * seconds / sum(PILOT_COSTS)))
    reached = np.cumsum(undecided)
    if number < 4 or not reached[-1] > 0:
        return np.zeros(0, dtype=np.intp)
    return np.unique(np.searchsorted(reached, (np.arange(number) + 0.5) / number * reached[-1]))


def plan_seconds(
    plan: CountingPlan, undecided: Floats, decay: float, spent: float, seconds: float, proofs: float
) -> float:
    """Return how many of the seconds to hold back for counting.

    Splits make boxes at an even rate, whose undecided mass falls as a power of their number; boxes are proved, then
    counted in the time that is left.

    Args:
        plan: what counting costs and brings.
        undecided: of today's boxes, the largest first.
        decay: the power.
        spent: seconds that splits have taken.
        seconds: all the time there is, that included.
        proofs: seconds that proofs of today's boxes would take.
    """
    best, held = np.inf, 0.0
    for share in SPLIT_SHARES:
        more = max(1.0, float(share * seconds / spent))
        rest = seconds - spent * more - proofs * more
        if rest < 0:
            continue
        left = plan.left_after(undecided, rest / more) * more**-decay
        if left < best:
            best, held = left, rest
    return held


def decay_of(course: Sequence[tuple[float, float]], usual: float) -> float:
    """Return by which power of the time undecided mass falls, from (seconds, undecided) of the rounds so far."""
    seconds, undecided = course[-1]
    earlier = [point for point in course if 0 < point[0] <= seconds / 2]
    if not earlier or undecided <= 0:
        return usual
    measured = np.log(earlier[-1][1] / undecided) / np.log(seconds / earlier[-1][0])
    return float(0.5 * usual + 0.5 * np.clip(measured, 0.15, 0.6))


@dataclass
class JointCounting:
    """Joint counting in one run: what it is worth, and doing it.

    Attributes:
        counter: counts boxes.
        prove: proves shares of boxes the usual way.
        pool, jobs: threads.
        reading: reads the clock.
        plan: what counting costs and brings; None until a few boxes were tried.
        piloted: seconds spent on splits when a few boxes were tried last.
    """

    counter: JointCounter
    prove: Callable[[BoxFrontier], Floats]
    pool: ThreadPoolExecutor
    jobs: int
    reading: Callable[[], float]
    plan: CountingPlan | None = None
    piloted: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds to hold back for counting."""
        return 0.0 if self.plan is None else self.plan.seconds

    def look(self, boxes: BoxFrontier, proofs: float, course: Sequence[tuple[float, float]], left: float) -> None:
        """Try a few boxes now and then, and decide how many seconds to hold back.

        Args:
            boxes: today's frontier.
            proofs: seconds that their proofs would take.
            course: seconds spent on splits and undecided mass, round by round.
            left: seconds left for everything.
        """
        spent = course[-1][0]
        estimated = boxes.open.astype(np.float64)
        sample = pilot_boxes(estimated, left)
        if len(sample) and spent >= 2 * self.piloted:
            self.piloted = spent
            self._try_efforts(boxes[sample])
        if self.plan is not None:
            undecided, decay = np.sort(estimated)[::-1], decay_of(course, USUAL_DECAY)
            self.plan.seconds = plan_seconds(self.plan, undecided, decay, spent, spent + max(0.0, left), proofs)

    def _try_efforts(self, sample: BoxFrontier) -> None:
        proved, low, high = self.prove(sample), sample.lo, sample.hi
        costs, left = [], []
        for effort in EFFORTS:
            started = self.reading()
            shares = np.maximum(proved, self.counter.count(low, high, effort))
            costs.append((self.reading() - started) / len(proved) / self.jobs)
            left.append(float((1 - shares.sum(axis=1)).sum() / max(1e-9, (1 - proved.sum(axis=1)).sum())))
        earlier, self.plan = self.plan, CountingPlan(np.array(costs), np.array(left))
        if earlier is not None:  # a pilot is small: two of them say more
            self.plan.costs += HALF * (earlier.costs - self.plan.costs)
            self.plan.left += HALF * (earlier.left - self.plan.left)

    def count(self, boxes: BoxFrontier, shares: Floats, until: float, stopped: Callable[[], bool]) -> Floats:
        """Count boxes, those with the most undecided first, and keep the larger shares.

        Each share is a lower bound by itself, so the larger one is, fair and unfair apart.

        Args:
            boxes: the frontier.
            shares: proved already, fair and unfair, shape (boxes, 2).
            until: reading of the clock at which to end.
            stopped: whether somebody wants it to end at once.
        """
        plan, shares = self.plan, shares.copy()
        undecided = boxes.mass * (1 - shares.sum(axis=1))
        order = np.argsort(-undecided, kind="stable")[: int((undecided > LEAST_MASS).sum())]
        at = 0
        while plan is not None and at < len(order) and not stopped():
            started = self.reading()
            effort = next(iter(plan.allocate(undecided[order[at:]], TIME_USED * (until - started))), None)
            if effort is None:
                break
            kind, number = effort
            chosen = order[at : at + int(np.clip(CALL_SECONDS / plan.costs[kind], self.jobs, max(self.jobs, number)))]
            at += len(chosen)
            pieces = [np.sort(piece) for piece in np.array_split(chosen, self.jobs) if len(piece)]
            results = self.pool.map(lambda piece, kind=kind: self._count_piece(boxes[piece], kind), pieces)
            for piece, found in zip(pieces, list(results), strict=True):
                shares[piece] = np.maximum(shares[piece], found)
            rest = float(boxes.mass[chosen] @ (1 - shares[chosen].sum(axis=1)))
            plan.note(kind, (self.reading() - started) / len(chosen), rest / float(undecided[chosen].sum()))
        return shares

    def _count_piece(self, boxes: BoxFrontier, effort: int) -> Floats:
        return self.counter.count(boxes.lo, boxes.hi, EFFORTS[effort])
