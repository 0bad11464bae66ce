"""Schedule the precision of proofs to use a time limit efficiently.

A proof at level l costs c_l seconds and loses a share of about r_l of the mass g that it could decide. Both are
measured on a few dozen boxes from time to time. Seconds have a price, the undecided mass that further splits would
decide in one second. With undecided mass E after T seconds, E decreases roughly as T^-0.3, so the price is 0.3 E / T. A
box is proved at the level with the largest (1 - r_l) g - price c_l, or not at all if that is negative. Boxes are split
until the remaining time is needed for their proofs.
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
"""Numbers of grid steps and of enumerated joint values of a proof, by level."""
COSTS = (2e-5, 4e-5, 8e-5, 3e-4)
"""Initial estimates of the seconds of a proof, by level."""
LOSSES = (3e-2, 1e-2, 6e-3, 3e-3)
"""Initial estimates of the share of its gain that a proof loses, by level."""
DECAY_EXPONENT = 0.3
"""The undecided mass is roughly proportional to time to the power of minus this number."""
PROBES, NEIGHBOURS = 8, 8
"""Number of positions where boxes are proved at every level, and of jointly bounded neighbours per position."""
PROBING_SHARE, PROBE_SHARE = 0.05, 0.25
"""Maximum share of the remaining time for all probes, and of that for one probe."""
PRICE_FLOOR = 0.5
"""Minimum price of a second, as a share of the mass that further splits would decide."""
SPLIT_GAIN, SPLIT_PARTS = 0.5, 16
"""Approximate share of the open mass that splitting a box decides; number of its parts."""
BLOCK, FITTED = 1 << 18, 1 << 14
"""Number of boxes per block, and in the sample used to fit the price."""


def level_by_share(boxes: BoxFrontier) -> NDArray[np.int8]:
    """Select the level of each box by its open share, without a clock: the smaller the share, the finer the level."""
    share = boxes.open / np.maximum(boxes.mass, 1e-300)
    return np.where(share > 0.05, 0, np.where(share > 0.01, 1, len(LEVELS) - 1)).astype(np.int8)


@dataclass(frozen=True)
class Proofs(ArrayRows):
    """Proofs of boxes.

    Attributes:
        share: Proved fair and unfair shares, shape (boxes, 2).
        level: Level of the finest proof, -1 if there is none.
    """

    share: Floats
    level: NDArray[np.int8]

    def left_open(self, boxes: BoxFrontier) -> Floats:
        """Compute the mass of each box that is not proved."""
        return np.asarray(boxes.mass * (1 - self.share.sum(axis=1)))


@dataclass
class ProofSchedule:
    """Costs and losses of proofs, estimated or measured.

    Attributes:
        price, worth: Undecided mass that a second must decide, and that a second of further splits would decide.
        costs, losses: Seconds of a proof, and share of its gain that it loses, by level.
        measured: Mask of the measured levels.
        spent: Seconds of probes.
    """

    price: float = 0.0
    worth: float = 0.0
    costs: Floats = field(default_factory=lambda: np.array(COSTS))
    losses: Floats = field(default_factory=lambda: np.array(LOSSES))
    measured: Booleans = field(default_factory=lambda: np.zeros(len(LEVELS), dtype=np.bool_))
    spent: float = 0.0

    def set_price(self, undecided: float, seconds: float) -> None:
        """Set the price per second to the mass that further splits would decide, for a run of ``seconds``."""
        self.price = self.worth = DECAY_EXPONENT * undecided / max(seconds, 1e-6)

    def fit_price(self, gain: Floats, seconds: float) -> None:
        """Raise the price until the proofs of these boxes take at most ``seconds``, on one thread.

        The remaining time is better spent on boxes whose proofs leave the most mass undecided.
        """
        step = max(1, len(gain) // FITTED)
        gain = gain[::step]
        low, high = PRICE_FLOOR * self.worth, max(self.worth, 1e-12) * 1e4
        for _ in range(20):
            self.price = float(np.sqrt(low * high))
            proof_time = step * self.proof_seconds(self.choose(gain))
            low, high = (self.price, high) if proof_time > seconds else (low, self.price)
        self.price = high

    def choose(self, gain: Floats) -> NDArray[np.int8]:
        """Select the level of the proof of each box by its gain, -1 for no proof."""
        level = np.full(len(gain), -1, dtype=np.int8)
        for at in range(0, len(gain), BLOCK):
            block = slice(at, at + BLOCK)
            best = np.zeros(len(level[block]))
            for number, (loss, cost) in enumerate(zip(self.losses, self.price * self.costs, strict=True)):
                more = (1 - loss) * gain[block] - cost
                level[block][more > best] = number
                np.maximum(best, more, out=best)
        return level

    def may_pay(self, gain: Floats) -> Booleans:
        """Select the boxes whose proof is worthwhile if time permits."""
        return np.asarray(gain > PRICE_FLOOR * self.worth * self.costs[0])

    def proof_seconds(self, level: NDArray[np.int8]) -> float:
        """Estimate the seconds that the proofs of boxes take on one thread."""
        return float(np.bincount(level[level >= 0], minlength=len(LEVELS)) @ self.costs)

    def correct_costs(self, level: NDArray[np.int8], seconds: float) -> None:
        """Correct the costs by the measured seconds of proofs."""
        planned = self.proof_seconds(level)
        if planned > 0:
            self.costs *= np.clip(seconds / planned, 0.5, 2.0)

    def rates(self, frontier: BoxFrontier, proofs: Proofs) -> tuple[Floats, Floats, Floats]:
        """Estimate the mass per second that a split and a finer proof of each box decide, and the proof's cost."""
        finest = len(LEVELS) - 1
        level, loss = proofs.level, proofs.left_open(frontier)
        cost = self.costs[np.minimum(level + 1, finest)]
        # Part of the undecided mass beyond the estimate is lost to limited precision; the next level loses less.
        lost = np.maximum(loss - frontier.open, 0.0)
        losses = np.maximum(self.losses - min(0.0, float(self.losses[finest])) + 1e-4, 1e-4)
        finer = np.where(level < 0, lost, lost * (1 - np.append(losses[1:] / losses[:-1], 1.0)[level])) / cost
        coarse = lost * (1 - losses[finest] / losses)[np.maximum(level, 0)]
        split = np.where(frontier.divisible, SPLIT_GAIN * (loss - coarse), 0.0)
        return split / (SPLIT_PARTS * cost), np.where(level < finest, finer, 0.0), cost

    def probe(
        self,
        frontier: BoxFrontier,
        left: float,
        prove: Callable[[BoxFrontier, tuple[int, int]], Floats],
        reading: Callable[[], float],
    ) -> None:
        """Prove a few boxes at each level, as time permits.

        Args:
            frontier: Boxes of the run.
            left: Seconds left.
            prove: Function that computes the proved fair and unfair shares of boxes.
            reading: Function that reads the clock.
        """
        gain = frontier.gain
        able = np.flatnonzero(gain > 0)
        if len(able) < PROBES * NEIGHBOURS:
            return
        # Places are evenly spaced in the cumulative gain.
        running = np.cumsum(gain[able])
        places = np.searchsorted(running, (np.arange(PROBES) + 0.5) / PROBES * running[-1])
        begins = np.minimum(places, len(able) - NEIGHBOURS)
        sample = frontier[able[(begins[:, None] + np.arange(NEIGHBOURS)).ravel()]]
        previous_losses = self.losses.copy()
        mass, hoped = sample.mass.reshape(PROBES, -1), sample.gain.reshape(PROBES, -1).sum(axis=1)
        previous_gain = hoped
        for number, precision in enumerate(LEVELS):
            if self.costs[number] * len(sample) > PROBE_SHARE * (PROBING_SHARE * left - self.spent):
                break
            started = reading()
            proved = prove(sample, precision).sum(axis=1)
            seconds = reading() - started
            self.spent += seconds
            # Costs of finer levels are extrapolated from this one until they are measured. Differences of losses are
            # measured on the same boxes, so they hardly depend on the quality of the estimates.
            scale = max(seconds / len(sample), 1e-9) / self.costs[number]
            self.costs[number:] *= np.sqrt(scale) if self.measured[number] else scale
            decided = (mass * proved.reshape(PROBES, -1)).sum(axis=1)
            lost = float(((previous_gain - decided) / hoped).mean())
            previous_gain = decided
            if number == 0:
                self.losses[0] = 0.5 * (lost + previous_losses[0]) if self.measured[0] else lost
            else:
                previous_step = previous_losses[number] - previous_losses[number - 1]
                step = min(0.0, 0.5 * (lost + previous_step) if self.measured[number] else lost)
                self.losses[number] = self.losses[number - 1] + step
            self.measured[number] = True
        for number in range(1, len(LEVELS)):
            if not self.measured[number]:
                self.losses[number] = self.losses[number - 1] - (LOSSES[number - 1] - LOSSES[number])
