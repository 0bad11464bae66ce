"""Account of the proved mass, with sums that rounding never increases, and the history of a run."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from evenhand.certification.certificate.result import ProgressPoint, Subregion
from evenhand.certification.query.boxes import Boxes
from evenhand.certification.query.orbits import OrbitQuestion
from evenhand.certification.query.question import Question
from evenhand.core.time_limit import Clock
from evenhand.core.typing import Booleans, Floats

UNIT_ROUNDOFF = 2.0**-53
MAX_FACTORS = 9000
"""Maximum number of rounded operations that make the mass of one box: three per split."""
MAX_MISSING = 1e-9
"""Maximum difference between the whole and the sum of its parts that is attributed to rounding."""
REGION_DEPTH = 4
"""Number of splits that define the coarse regions of a certificate, which are at most 16."""


PROGRESS_SECONDS = 0.25
"""Minimum work from which progress is extrapolated, in seconds of ``SearchLimits.boxes_per_second``."""


class ProgressWatch:
    """Detect that another second of proving would decide too little to be worth it.

    Seconds are measured in boxes, so the result depends neither on the machine nor on its load. Counting starts when
    the first mass worth counting is decided: the time until then does not predict later progress. Progress is measured
    from the smallest earlier undecided mass, because proofs of smaller boxes may lose some mass that proofs of larger
    boxes had.

    Args:
        least: Mass that a second must decide. None disables the watch.
        boxes_per_second: Number of boxes that count as a second.
    """

    def __init__(self, least: float | None, boxes_per_second: float) -> None:
        self._least = least
        self._boxes_per_second = boxes_per_second
        self._marks: deque[tuple[float, float]] = deque()
        self._lowest = 1.0

    def stalled(self, undecided: float, boxes: int) -> bool:
        """Check whether less than ``least`` per second was decided since the latest mark that is old enough.

        Args:
            undecided: Undecided mass.
            boxes: Number of boxes that were bounded.
        """
        if self._least is None or undecided > 1 - self._least:
            return False
        now = boxes / self._boxes_per_second
        self._lowest = min(self._lowest, undecided)
        self._marks.append((now, self._lowest))
        while len(self._marks) > 1 and now - self._marks[1][0] >= PROGRESS_SECONDS:
            self._marks.popleft()
        since, previous = self._marks[0]
        return now - since >= PROGRESS_SECONDS and previous - self._lowest < self._least * (now - since)


Stop: TypeAlias = Literal["done", "time", "progress", "boxes", "target", "depth", "interrupt"]


@dataclass(frozen=True)
class SearchLimits:
    """Limits that end a proof. None disables a limit.

    Attributes:
        deadline: Time at which the proof ends, by ``clock``.
        max_boxes: Maximum number of boxes.
        target_undecided: Undecided mass at which the proof ends.
        min_progress: Mass that another second of work must decide.
        boxes_per_second: Number of boxes that count as a second of work.
        clock: Clock of the deadline.
    """

    deadline: float | None
    max_boxes: int | None
    target_undecided: float | None
    min_progress: float | None = None
    boxes_per_second: float = 5000.0
    clock: Clock = field(default_factory=Clock)

    @property
    def timed(self) -> bool:
        """Whether the course of the run depends on the speed of the machine."""
        return self.deadline is not None

    def progress_watch(self) -> ProgressWatch:
        """Return a watch over a run that begins now."""
        return ProgressWatch(self.min_progress, self.boxes_per_second)

    def limit_reached(self, boxes: int, undecided: float, *, step: int = 1, seconds: float = 0.0) -> Stop | None:
        """Return the limit that is reached, if any.

        Args:
            boxes: Number of boxes that were bounded.
            undecided: Undecided mass.
            step: Minimum number of boxes of the next step.
            seconds: Time that is needed after the last box.
        """
        if self.target_undecided is not None and undecided <= self.target_undecided:
            return "target"
        if self.max_boxes is not None and boxes + step > self.max_boxes:
            return "boxes"
        if boxes and self.clock.passed(self.deadline, seconds):
            return "time"
        return None


class ProvedMass:
    """Certified and falsified mass, in total and by coarse region, and their history.

    Args:
        query: Question. The regions of a question about orbits are the orbits, in order.
        started: Clock at the start of the run.
    """

    def __init__(self, query: Question | OrbitQuestion, started: float) -> None:
        self._query = query
        self._started = started
        self._certified: list[float] = []
        self._falsified: list[float] = []
        self._open: list[float] = []
        self._sums = [0.0, 0.0]
        self._whole = 1.0 - query.no_counterpart
        self._regions: list[tuple[Mapping[str, str], float, list[float]]] = [
            (orbit.where, orbit.mass, [0.0, 0.0]) for orbit in query.orbits
        ]
        self._next = 1
        self.boxes = 0
        self.history: list[ProgressPoint] = []

    def assign_regions(self, boxes: Boxes, chosen: Booleans) -> Boxes:
        """Assign a new region to each chosen box outside all regions."""
        fresh = np.flatnonzero(chosen & (boxes.region == 0))
        if not len(fresh) or isinstance(self._query, OrbitQuestion):
            return boxes
        region = boxes.region.copy()
        for box in fresh:
            where = self._query.words(boxes.lo[box], boxes.hi[box])
            self._regions.append((where, float(boxes.mass[box]), [0.0, 0.0]))
            region[box] = len(self._regions)
        return Boxes(boxes.lo, boxes.hi, boxes.mass, boxes.depth, region)

    def prove(self, boxes: Boxes, *, fair: bool) -> None:
        """Count whole boxes as certified or falsified."""
        mass = float(boxes.mass.sum())
        self.add(0, mass if fair else 0.0, 0.0 if fair else mass)
        if not fair:
            self._add_by_region(boxes, 0)

    def add(self, region: int, certified: float, falsified: float, *, rest: float = 0.0) -> None:
        """Count masses of one region (0: of none): certified, falsified, and permanently undecided."""
        if certified > 0:
            self._certified.append(certified)
        if falsified > 0:
            self._falsified.append(falsified)
        if rest > 0:
            self._open.append(rest)
        self._sums[0] += certified
        self._sums[1] += falsified
        if region:
            self._regions[region - 1][2][0] += falsified
            self._regions[region - 1][2][1] += rest

    def add_undecided(self, boxes: Boxes) -> None:
        """Count boxes as permanently undecided."""
        if len(boxes):
            self._open.append(float(boxes.mass.sum()))
            self._add_by_region(boxes, 1)

    def _add_by_region(self, boxes: Boxes, kind: int) -> None:
        masses = np.bincount(boxes.region, weights=boxes.mass)
        for region in np.flatnonzero(masses):
            if region:
                self._regions[region - 1][2][kind] += float(masses[region])

    @property
    def settled(self) -> float:
        """Approximate mass that needs no more work."""
        return min(1.0, sum(self._sums) + sum(self._open))

    @property
    def undecided(self) -> float:
        """Approximate mass that is not proved yet."""
        return max(0.0, self._whole - sum(self._sums))

    @property
    def rounding(self) -> float:
        """Upper bound on the relative error of a sum of masses.

        The masses of at most ``boxes`` boxes are added up one by one. A sum of n products of positive numbers, with m
        factors each, has a relative error of at most gamma_(n + m), where gamma_k = k u / (1 - k u) (Higham, "Accuracy
        and Stability of Numerical Algorithms", 2nd ed., chapter 3).
        """
        operations = (self.boxes + MAX_FACTORS) * UNIT_ROUNDOFF
        return operations / (1 - operations)

    def shares(self) -> tuple[float, float, float]:
        """Return certified and falsified share, as lower bounds, and the undecided share.

        Raises:
            RuntimeError: The parts that were counted do not add up to the whole.
        """
        certified, falsified, undecided = (math.fsum(part) for part in (self._certified, self._falsified, self._open))
        if abs(certified + falsified + undecided - self._whole) > MAX_MISSING:
            raise RuntimeError(
                f"the parts of a proof must add up to {self._whole:g}, got {certified:g} certified, {falsified:g} "
                f"falsified and {undecided:g} undecided"
            )
        if not falsified and not undecided:
            return self._whole, 0.0, 0.0
        if not certified and not undecided:
            return 0.0, self._whole, 0.0
        lost = self._query.distance
        low = max(0.0, certified * (1 - self.rounding) - lost)
        other = max(0.0, falsified * (1 - self.rounding) - lost)
        return low, other, max(0.0, self._whole - low - other)

    def moment(self, *, last: bool = False, more: tuple[float, float] = (0.0, 0.0)) -> None:
        """Record the progress of the run, at growing intervals of boxes.

        Args:
            last: Whether to record it in any case.
            more: Proved fair and unfair mass that is not counted yet.
        """
        if not last and self.boxes < self._next:
            return
        self._next = max(self._next + 1, int(self._next * 1.15))
        certified, falsified = self._sums
        self._record(self.boxes, certified + more[0], falsified + more[1])

    def fork(self) -> ProvedMass:
        """Return an empty account of the same regions, for a part of the domain."""
        part = ProvedMass(self._query, self._started)
        part._regions = [(where, mass, [0.0, 0.0]) for where, mass, _ in self._regions]
        return part

    def merge(self, part: ProvedMass) -> None:
        """Add the account of a part of the domain."""
        self._certified += part._certified
        self._falsified += part._falsified
        self._open += part._open
        self._sums = [own + other for own, other in zip(self._sums, part._sums, strict=True)]
        for (_, _, own), (_, _, other) in zip(self._regions, part._regions, strict=True):
            own[:] = [a + b for a, b in zip(own, other, strict=True)]
        self.boxes += part.boxes

    def note_parts(self, parts: Sequence[ProvedMass]) -> None:
        """Record the progress of the run after some parts, which are not merged yet."""
        certified, falsified = (kind + sum(part._sums[i] for part in parts) for i, kind in enumerate(self._sums))
        self._record(self.boxes + sum(part.boxes for part in parts), certified, falsified)

    def _record(self, boxes: int, certified: float, falsified: float) -> None:
        shares = {"certified": min(1.0, certified), "falsified": min(1.0, falsified)}
        self.history.append(ProgressPoint(seconds=time.perf_counter() - self._started, boxes=boxes, **shares))

    def regions(self) -> tuple[Subregion, ...]:
        """List the coarse regions with falsified or undecided mass, in decreasing order of that mass."""
        masses: dict[tuple[tuple[str, str], ...], Floats] = defaultdict(lambda: np.zeros(3))
        for where, mass, parts in self._regions:
            masses[tuple(where.items())] += [mass, *parts]
        subregions = [
            Subregion(where=dict(where), mass=mass, falsified=falsified, undecided=undecided)
            for where, (mass, falsified, undecided) in masses.items()
            if falsified + undecided > 0
        ]
        return tuple(sorted(subregions, key=lambda region: -(region.falsified + region.undecided)))
