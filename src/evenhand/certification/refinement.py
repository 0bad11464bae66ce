"""Best-first refinement: the boxes with the most undecided mass are split, round by round, until a limit is reached.

The one loop behind linear bounds (compiled and on whole arrays) and trees. How a box is bounded is a ``Bounder``'s
business; the loop keeps the frontier, the threads, the limits and the account of what is proved. Symbolic intervals go
depth first (``bounds.interval``) and share the limits and the account.

A priority queue would hand out one box at a time. A falling threshold stands in for it: a round splits every box with
more undecided mass than the threshold, and their parts in turn, until none has more. Thousands of boxes then go to one
compiled call, and none is split while another has more than ``factor`` times its undecided mass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.boxes import Boxes
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits, Stop
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Floats

CALL_SECONDS = 0.1
"""Seconds that a call should take, if the clock is to be looked at: limits and interrupts wait for its end."""
CONCURRENT_CALLS = 8
"""Calls between two checks of the limits, however many threads there are: the result must not depend on them."""
MAX_BYTES = 400_000_000
"""Memory for the boxes held, at most: 7 to 9 million. With proofs and what is sorted a run takes up to 1 GiB in all.
More boxes bring little by then: AC-7 leaves 25.3 % undecided with twice as many, 26.0 % with these."""
ROUNDING_MASS = 1e-13
"""Undecided mass below which a box is not split any more: it is rounding."""


class Frontier(Protocol):
    """Boxes that are not decided as a whole, one row of several arrays each (see ``ArrayRows``)."""

    @property
    def open(self) -> NDArray[np.floating]:
        """Undecided mass of each box, estimated or proved."""

    @property
    def region(self) -> NDArray[np.int16]:
        """The coarse part of the domain that each lies in."""

    @property
    def divisible(self) -> Booleans:
        """Which boxes it is known where to split."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one box."""

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: Booleans | NDArray[np.integer] | slice, /) -> Self: ...

    def divide(self, chosen: Booleans, /) -> tuple[Self, Self]:
        """Return the chosen boxes and the others; the frontier is empty afterwards."""

    @classmethod
    def join(cls, parts: list[Self], /) -> Self:
        """Return all boxes of several frontiers, in order; they are empty afterwards."""

    def boxes(self) -> Boxes:
        """Return the same as ``Boxes``."""


F = TypeVar("F", bound=Frontier)


class Bounder(Protocol[F]):
    """Bounds boxes for one query; its calls may run side by side, on ``jobs`` threads."""

    jobs: int

    def root(self) -> F:
        """Return the domain as one box."""

    def expand(self, boxes: F, threshold: float, limit: float = ...) -> tuple[F, Floats]:
        """Split boxes of one region until no part has more undecided than the threshold, or ``limit`` are bounded.

        Returns:
            The parts that are not decided as a whole; mass decided fair, mass decided unfair, boxes bounded.
        """


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


class CallSize(NamedTuple):
    """How much to hand to the bounder next.

    Attributes:
        calls: how many calls run side by side.
        boxes: how many boxes each splits.
        limit: how many it bounds at most.
    """

    calls: int
    boxes: int
    limit: float


@dataclass
class BestFirst(ABC, Generic[F]):
    """One run of the loop: where it stands, and when it stops. A subclass for each kind of bounds says how to drive it.

    Attributes:
        bounder: bounds boxes of one query.
        proved_mass: takes what is proved.
        limits: when to stop.
        pool: as many threads as the bounder has.
        say: called with about the share of the work done.
        interrupts: counts Ctrl-C.
        first_threshold, factor: the largest threshold, and by what it falls from round to round.
    """

    bounder: Bounder[F]
    proved_mass: ProvedMass
    limits: SearchLimits
    pool: ThreadPoolExecutor
    say: Callable[[float], None]
    interrupts: InterruptCounter

    first_threshold: ClassVar[float]
    factor: ClassVar[float]

    @abstractmethod
    def stop_before_round(self, frontier: F) -> Stop | None:
        """Return the limit that forbids another round, if any."""

    @abstractmethod
    def stop_within_round(self, undecided: float, held: int) -> Stop | None:
        """Return the limit that is reached with so much undecided mass in so many boxes, if any."""

    @abstractmethod
    def call_size(self, room: float) -> CallSize:
        """Return what to hand over next, if ``room`` more boxes may be bounded."""

    def reading(self) -> float:
        """Return the clock's reading where the run is timed, else 0: its course then depends on no clock."""
        return self.limits.clock.now() if self.limits.timed else 0.0

    def expand(self, boxes: F, threshold: float, limit: float) -> tuple[F, Floats]:
        """Have boxes split, on a thread of the pool."""
        return self.bounder.expand(boxes, threshold, limit)

    def _expand(self, boxes: F, threshold: float, limit: float) -> tuple[F, Floats]:
        """Have boxes split; after an interrupt they stay as they are."""
        return (boxes, np.zeros(3)) if self.interrupts.count else self.expand(boxes, threshold, limit)

    def collect(self, found: F) -> F:
        """Return the boxes to be kept of those that came back, in an order that no thread can change."""
        return found

    @abstractmethod
    def calls_done(self, undecided: float, seconds: float) -> None:
        """Note that calls came back after some seconds (0 if not timed); what they decided is counted already."""

    @abstractmethod
    def round_done(self, frontier: F, stop: Stop | None, seconds: float) -> None:
        """Note that a round of ``refine`` ended, and what is left."""

    def refine(self, frontier: F) -> tuple[F, Stop]:
        """Split, round by round, until a limit is reached or nothing undecided can be split."""
        threshold = self.first_threshold
        while True:
            stop = self.stop_before_round(frontier)
            able = frontier.divisible & (frontier.open > ROUNDING_MASS)
            if stop is None and not able.any():
                stop = "done"
            if stop is not None:
                return frontier, stop
            threshold = min(threshold, max(float(frontier.open[able].max()) / self.factor, ROUNDING_MASS))
            chosen = able & (frontier.open > threshold)
            started = self.reading()
            frontier, stop = self.split_round(*frontier.divide(chosen), threshold)
            self.round_done(frontier, stop, self.reading() - started)
            if stop is not None:
                return frontier, stop
            threshold /= self.factor

    def split_round(self, todo: F, rest: F, threshold: float) -> tuple[F, Stop | None]:
        """Split the boxes of ``todo``; return all there is then, ``rest`` first."""
        kept = [rest]
        # The heaviest regions first would favour some: the order of the regions mixes them all.
        order = np.argsort(todo.region, kind="stable")
        region = todo.region[order]
        undecided, held = float(rest.open.sum() + todo.open.sum()), len(rest) + len(todo)
        at = 0
        stop: Stop | None = None
        # Invariant: the boxes kept, those of todo from ``at`` on and what was counted make up the domain, disjoint; so
        # the account is true wherever a limit ends the round.
        while at < len(todo) and stop is None:
            room = np.inf if self.limits.max_boxes is None else self.limits.max_boxes - self.proved_mass.boxes
            size = self.call_size(room)
            pieces: list[F] = []
            while at < len(todo) and len(pieces) < size.calls:
                same = int(np.searchsorted(region[at:], region[at], side="right"))
                pieces.append(todo[order[at : at + min(same, size.boxes)]])
                at += len(pieces[-1])
            limit = min(size.limit, float(np.floor(room / len(pieces))))
            started = self.reading()
            results = list(self.pool.map(lambda piece, limit=limit: self._expand(piece, threshold, limit), pieces))
            seconds = self.reading() - started
            for piece, (found, totals) in zip(pieces, results, strict=True):
                kept.append(self.collect(found))
                held += len(kept[-1]) - len(piece)
                undecided += float(kept[-1].open.sum() - piece.open.sum())
                self.proved_mass.add(int(piece.region[0]), totals[0], totals[1])
                self.proved_mass.boxes += int(totals[2])
            self.calls_done(undecided, seconds)
            stop = self.stop_within_round(undecided, held)
            if stop is None and held * todo.row_bytes > MAX_BYTES:
                stop = "boxes"
        return type(rest).join([*kept, todo[order[at:]]]), stop
