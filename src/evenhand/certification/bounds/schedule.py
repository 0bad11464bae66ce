"""How precisely each box is proved, and how long proofs take: so that a time limit is used well, whatever it is.

A proof at level l costs c_l seconds, and loses about a share r_l of the mass g that it might decide: measured now and
then on a few dozen boxes. Seconds have a price, the undecided mass that further splits would decide in one. With E
undecided so far and T seconds in all, E falls about as T^-0.3, so the price is 0.3 E / T. A box is proved at the level
with the largest (1 - r_l) g - price c_l, or not at all if that is below zero. Boxes are split until the time that is
left is what their proofs take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.frontier import BoxFrontier
from evenhand.certification.query.boxes import ArrayRows
from evenhand.core.typing import Booleans, Floats

COARSE, MEDIUM, FINE = (384, 64), (1024, 256), (4096, 4096)
LEVELS = (COARSE, MEDIUM, (2048, 1024), FINE)
"""Grid steps and exactly enumerated joint values of a proof."""
COSTS = (2e-5, 4e-5, 8e-5, 3e-4)
"""Seconds that a proof takes, where nothing is measured yet."""
LOSSES = (3e-2, 1e-2, 6e-3, 3e-3)
"""Share that a proof loses of what it might decide by the bounds, where nothing is measured yet."""
DECAY_EXPONENT = 0.3
"""The undecided mass falls about as the time to the power of minus this."""
PROBES, NEIGHBOURS = 8, 8
"""Places where boxes are proved at every level, and neighbours there: as in the real pass they are bounded together."""
PROBING_SHARE, PROBE_SHARE = 0.05, 0.25
"""Part of the time left that all probes may take, and part of that which one may."""
PRICE_FLOOR = 0.5
"""The least price of a second, in parts of what further splits would decide in one."""
SPLIT_GAIN, SPLIT_PARTS = 0.5, 16
"""What splitting a box decides of what is open in it, about; how many parts it has."""
BLOCK, FITTED = 1 << 18, 1 << 14
"""Boxes looked at together; boxes that stand for all when the price is fitted."""


def level_by_share(boxes: BoxFrontier) -> NDArray[np.int8]:
    """Return the level for each box by the share that is open: the finer, the less is; it depends on no clock."""
    share = boxes.open / np.maximum(boxes.mass, 1e-300)
    return np.where(share > 0.05, 0, np.where(share > 0.01, 1, len(LEVELS) - 1)).astype(np.int8)


@dataclass(frozen=True)
class Proofs(ArrayRows):
    """What is proved of boxes.

    Attributes:
        share: proved shares, fair and unfair, shape (boxes, 2).
        level: of the finest proof, -1 if there is none.
    """

    share: Floats
    level: NDArray[np.int8]

    def left_open(self, boxes: BoxFrontier) -> Floats:
        """Return the mass of each box that is not proved."""
        return np.asarray(boxes.mass * (1 - self.share.sum(axis=1)))


@dataclass
class ProofSchedule:
    """What proofs cost and lose, as far as it is known.

    Attributes:
        price, worth: undecided mass that a second has to decide, and that further splits would.
        costs, losses: by level, of one box and of one unit of what might be decided.
        measured: levels that were measured.
        spent: seconds that probes took.
    """

    price: float = 0.0
    worth: float = 0.0
    costs: Floats = field(default_factory=lambda: np.array(COSTS))
    losses: Floats = field(default_factory=lambda: np.array(LOSSES))
    measured: Booleans = field(default_factory=lambda: np.zeros(len(LEVELS), dtype=np.bool_))
    spent: float = 0.0

    def set_price(self, undecided: float, seconds: float) -> None:
        """Let a second be worth what more splits would decide in it, in a run of so many seconds."""
        self.price = self.worth = DECAY_EXPONENT * undecided / max(seconds, 1e-6)

    def fit_price(self, gain: Floats, seconds: float) -> None:
        """Raise the price until the proofs of these boxes take no more than so many seconds, on one thread.

        What is left over is worth more where proofs turn out to leave the most open.
        """
        step = max(1, len(gain) // FITTED)
        gain = gain[::step]
        low, high = PRICE_FLOOR * self.worth, max(self.worth, 1e-12) * 1e4
        for _ in range(20):
            self.price = float(np.sqrt(low * high))
            taken = step * self.proof_seconds(self.choose(gain))
            low, high = (self.price, high) if taken > seconds else (low, self.price)
        self.price = high

    def choose(self, gain: Floats) -> NDArray[np.int8]:
        """Return the level of the proof of each box, by what it might decide; -1 for none."""
        level = np.full(len(gain), -1, dtype=np.int8)
        for at in range(0, len(gain), BLOCK):
            here = slice(at, at + BLOCK)
            best = np.zeros(len(level[here]))
            for number, (loss, cost) in enumerate(zip(self.losses, self.price * self.costs, strict=True)):
                more = (1 - loss) * gain[here] - cost
                level[here][more > best] = number
                np.maximum(best, more, out=best)
        return level

    def may_pay(self, gain: Floats) -> Booleans:
        """Return which boxes are worth a proof where there is time for it."""
        return np.asarray(gain > PRICE_FLOOR * self.worth * self.costs[0])

    def proof_seconds(self, level: NDArray[np.int8]) -> float:
        """Return how long the proofs of boxes take, on one thread."""
        return float(np.bincount(level[level >= 0], minlength=len(LEVELS)) @ self.costs)

    def correct_costs(self, level: NDArray[np.int8], seconds: float) -> None:
        """Adapt what proofs cost to how long these took."""
        planned = self.proof_seconds(level)
        if planned > 0:
            self.costs *= np.clip(seconds / planned, 0.5, 2.0)

    def rates(self, frontier: BoxFrontier, proofs: Proofs) -> tuple[Floats, Floats, Floats]:
        """Return the mass that may be decided in a second by splitting each box, and by a finer proof; its cost."""
        last = len(LEVELS) - 1
        level, loss = proofs.level, proofs.left_open(frontier)
        cost = self.costs[np.minimum(level + 1, last)]
        # What is open by more than the estimate is lost to precision in part; the next level loses less in proportion.
        lost = np.maximum(loss - frontier.open, 0.0)
        losses = np.maximum(self.losses - min(0.0, float(self.losses[last])) + 1e-4, 1e-4)
        finer = np.where(level < 0, lost, lost * (1 - np.append(losses[1:] / losses[:-1], 1.0)[level])) / cost
        coarse = lost * (1 - losses[last] / losses)[np.maximum(level, 0)]
        split = np.where(frontier.divisible, SPLIT_GAIN * (loss - coarse), 0.0)
        return split / (SPLIT_PARTS * cost), np.where(level < last, finer, 0.0), cost

    def probe(
        self,
        frontier: BoxFrontier,
        left: float,
        prove: Callable[[BoxFrontier, tuple[int, int]], Floats],
        reading: Callable[[], float],
    ) -> None:
        """Prove a few boxes, at each level that there is time for.

        Args:
            frontier: where the run stands.
            left: seconds left.
            prove: returns the proved shares of boxes, fair and unfair.
            reading: the clock's.
        """
        gain = frontier.gain
        able = np.flatnonzero(gain > 0)
        if len(able) < PROBES * NEIGHBOURS:
            return
        # Places by gain, so that each stands for as much of it.
        running = np.cumsum(gain[able])
        places = np.searchsorted(running, (np.arange(PROBES) + 0.5) / PROBES * running[-1])
        begins = np.minimum(places, len(able) - NEIGHBOURS)
        sample = frontier[able[(begins[:, None] + np.arange(NEIGHBOURS)).ravel()]]
        before = self.losses.copy()
        mass, hoped = sample.mass.reshape(PROBES, -1), sample.gain.reshape(PROBES, -1).sum(axis=1)
        least = hoped
        for number, precision in enumerate(LEVELS):
            if self.costs[number] * len(sample) > PROBE_SHARE * (PROBING_SHARE * left - self.spent):
                break
            started = reading()
            found = prove(sample, precision).sum(axis=1)
            seconds = reading() - started
            self.spent += seconds
            # What finer levels cost is guessed from this one, until it is measured; what they lose less, from the same
            # boxes: the difference between two levels has little to do with how good the estimates are.
            scale = max(seconds / len(sample), 1e-9) / self.costs[number]
            self.costs[number:] *= np.sqrt(scale) if self.measured[number] else scale
            decided = (mass * found.reshape(PROBES, -1)).sum(axis=1)
            lost = float(((least - decided) / hoped).mean())
            least = decided
            if number == 0:
                self.losses[0] = 0.5 * (lost + before[0]) if self.measured[0] else lost
            else:
                known = before[number] - before[number - 1]
                step = min(0.0, 0.5 * (lost + known) if self.measured[number] else lost)
                self.losses[number] = self.losses[number - 1] + step
            self.measured[number] = True
        for number in range(1, len(LEVELS)):
            if not self.measured[number]:
                self.losses[number] = self.losses[number - 1] - (LOSSES[number - 1] - LOSSES[number])
