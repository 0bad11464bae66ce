"""Best-first refinement: split the boxes with the most undecided mass, round by round, until a limit is reached.

Linear bounds and trees share this loop. A ``Bounder`` bounds boxes; the loop keeps the
frontier, the threads, the limits and the record of the proved mass. Symbolic intervals are refined
depth first (``bounds.interval``) and share the limits and the record.

A falling threshold replaces a priority queue, which would return one box at a time: a round splits every box with more
undecided mass than the threshold, and their parts in turn, until none has more. Each compiled call then receives
thousands of boxes, and no box is split while another has more than ``factor`` times its undecided mass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.boxes import Boxes
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits, Stop
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Floats

CALL_SECONDS = 0.1
"""Target duration of a call in a timed run, in seconds; limits and interrupts are only checked between calls."""
CONCURRENT_CALLS = 8
"""Number of calls between two checks of the limits, fixed so that results do not depend on the number of threads."""
MAX_BYTES = 400_000_000
"""Maximum memory of the boxes: 7 to 9 million boxes. With proofs and sorting a run takes up to 1 GiB. More boxes gain
little: For AC-7, 25.3 % is undecided with twice this number and 26.0 % with this number."""
ROUNDING_MASS = 1e-13
"""Undecided mass of a box that is attributed to rounding."""


class Frontier(Protocol):
    """Boxes that are not decided as a whole, one row of several arrays each (see ``ArrayRows``)."""

    @property
    def open(self) -> NDArray[np.floating]:
        """Undecided mass of each box, estimated or proved."""

    @property
    def region(self) -> NDArray[np.int16]:
        """Coarse region of each box."""

    @property
    def divisible(self) -> Booleans:
        """Mask of the boxes with a planned split."""

    @property
    def row_bytes(self) -> int:
        """Number of bytes of one box."""

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: Booleans | NDArray[np.integer] | slice, /) -> Self: ...

    def divide(self, chosen: Booleans, /) -> tuple[Self, Self]:
        """Split into the chosen boxes and the others. Empties the frontier."""

    @classmethod
    def join(cls, parts: list[Self], /) -> Self:
        """Concatenate several frontiers. Empties them."""

    def boxes(self) -> Boxes:
        """Convert to ``Boxes``."""


F = TypeVar("F", bound=Frontier)


class Bounder(Protocol[F]):
    """Bounder of boxes for one query. Its calls may run concurrently, on ``jobs`` threads."""

    jobs: int

    def root(self) -> F:
        """Build a box of the whole domain."""

    def expand(self, boxes: F, threshold: float, limit: float = ...) -> tuple[F, Floats]:
        """Split boxes of one region until no part has more undecided than the threshold, or ``limit`` are bounded.

        Returns:
            The parts that are not decided as a whole; mass decided fair, mass decided unfair, boxes bounded.
        """


class BoxRecorder(Protocol):
    """Recorder of final boxes: cells (n, attributes) and proved fair and unfair shares (n,)."""

    def take(
        self,
        low: NDArray[np.integer],
        high: NDArray[np.integer],
        fair: NDArray[np.generic],
        unfair: NDArray[np.generic],
    ) -> None:
        """Record boxes. All boxes together partition the domain."""


class CallSize(NamedTuple):
    """Size of the next calls of the bounder.

    Attributes:
        calls: Number of concurrent calls.
        boxes: Number of boxes that each splits.
        limit: Maximum number of boxes that each bounds.
    """

    calls: int
    boxes: int
    limit: float


@dataclass
class BestFirst(ABC, Generic[F]):
    """One run of the loop. A subclass for each kind of bounds controls it.

    Attributes:
        bounder: Bounder of one query.
        proved_mass: Account of the proved mass.
        limits: Limits of the run.
        pool: Pool with as many threads as the bounder has.
        say: Callback for the approximate share of the work done.
        interrupts: Counter of Ctrl-C.
        complete: Whether no call of the last round reached its number of boxes; otherwise the round is repeated.
        first_threshold, factor: Largest threshold, and factor by which it falls from round to round.
    """

    bounder: Bounder[F]
    proved_mass: ProvedMass
    limits: SearchLimits
    pool: ThreadPoolExecutor
    say: Callable[[float], None]
    interrupts: InterruptCounter
    complete: bool = field(default=True, init=False)

    first_threshold: ClassVar[float]
    factor: ClassVar[float]

    @abstractmethod
    def stop_before_round(self, frontier: F) -> Stop | None:
        """Return the limit that prevents another round, if any."""

    @abstractmethod
    def stop_within_round(self, undecided: float, held: int) -> Stop | None:
        """Return the limit that is reached, if any, from the undecided mass and the number of boxes."""

    @abstractmethod
    def call_size(self, room: float) -> CallSize:
        """Determine the next calls, given that ``room`` more boxes may be bounded."""

    def reading(self) -> float:
        """Read the clock of a timed run. Otherwise 0, because the run must not depend on time."""
        return self.limits.clock.now() if self.limits.timed else 0.0

    def expand(self, boxes: F, threshold: float, limit: float) -> tuple[F, Floats]:
        """Split boxes, on a thread of the pool."""
        return self.bounder.expand(boxes, threshold, limit)

    def _expand(self, boxes: F, threshold: float, limit: float) -> tuple[F, Floats]:
        """Split boxes. After an interrupt, return them unchanged."""
        return (boxes, np.zeros(3)) if self.interrupts.count else self.expand(boxes, threshold, limit)

    def collect(self, found: F) -> F:
        """Select the boxes to keep from the result of a call, in a deterministic order."""
        return found

    @abstractmethod
    def calls_done(self, undecided: float, seconds: float) -> None:
        """Handle the end of calls, given their duration (0 if not timed). Their mass is already counted."""

    @abstractmethod
    def round_done(self, frontier: F, stop: Stop | None, seconds: float) -> None:
        """Handle the end of a round, with the remaining boxes."""

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
            threshold /= self.factor if self.complete else 1.0

    def split_round(self, todo: F, untouched: F, threshold: float) -> tuple[F, Stop | None]:
        """Split the boxes of ``todo``; return all boxes that remain, ``untouched`` first."""
        pieces_kept = [untouched]
        # Processing the heaviest regions first would favour them, so regions are interleaved.
        order = np.argsort(todo.region, kind="stable")
        region = todo.region[order]
        undecided, count = float(untouched.open.sum() + todo.open.sum()), len(untouched) + len(todo)
        at, self.complete = 0, True
        stop: Stop | None = None
        # Invariant: the boxes in ``kept``, those of ``todo`` from ``at`` on and the counted mass partition the domain,
        # so the account is correct whenever a limit ends the round.
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
            for piece, (parts, totals) in zip(pieces, results, strict=True):
                pieces_kept.append(self.collect(parts))
                count += len(pieces_kept[-1]) - len(piece)
                undecided += float(pieces_kept[-1].open.sum() - piece.open.sum())
                self.proved_mass.add(int(piece.region[0]), totals[0], totals[1])
                self.proved_mass.boxes += int(totals[2])
                self.complete &= bool(totals[2] < limit)
            self.calls_done(undecided, seconds)
            stop = self.stop_within_round(undecided, count)
            if stop is None and count * todo.row_bytes > MAX_BYTES:
                stop = "boxes"
        return type(untouched).join([*pieces_kept, todo[order[at:]]]), stop
