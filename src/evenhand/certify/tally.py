"""What has been proved so far: masses added up so that rounding never adds anything, and the course of the run."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.boxes import Boxes
from evenhand.certify.question import Question
from evenhand.certify.result import Moment, Region

ROUNDING = 1e-12
"""Relative error of an added-up mass: far above a thousand splits and any sum of float64."""
REGION_DEPTH = 4
"""Splits that make the coarse regions of a certificate, 16 at most."""


class Tally:
    """Certified and falsified mass, in all and by coarse region, and how they grew.

    Args:
        query: what is asked.
        started: clock at the start of the run.
    """

    def __init__(self, query: Question, started: float) -> None:
        self._query = query
        self._started = started
        self._certified: list[float] = []
        self._falsified: list[float] = []
        self._open: list[float] = []
        self._sums = [0.0, 0.0]
        self._regions: list[tuple[Boxes, list[float]]] = []
        self._next = 1
        self.boxes = 0
        self.history: list[Moment] = []

    def regioned(self, boxes: Boxes, chosen: NDArray[np.bool_]) -> Boxes:
        """The same boxes, where each of the chosen ones that lies in no region yet becomes one."""
        fresh = np.flatnonzero(chosen & (boxes.region == 0))
        if not len(fresh):
            return boxes
        region = boxes.region.copy()
        for box in fresh:
            self._regions.append((boxes[box : box + 1], [0.0, 0.0]))
            region[box] = len(self._regions)
        return Boxes(boxes.lo, boxes.hi, boxes.mass, boxes.depth, region)

    def prove(self, boxes: Boxes, *, fair: bool) -> None:
        """Count whole boxes as certified or falsified."""
        if not len(boxes):
            return
        mass = float(boxes.mass.sum())
        (self._certified if fair else self._falsified).append(mass)
        self._sums[0 if fair else 1] += mass
        if not fair:
            self._by_region(boxes, 0)

    def add(self, region: int, certified: float, falsified: float, *, rest: float = 0.0) -> None:
        """Count masses of one region (0: of none): certified, falsified, and undecided for good."""
        if certified > 0:
            self._certified.append(certified)
        if falsified > 0:
            self._falsified.append(falsified)
        if rest > 0:
            self._open.append(rest)
        self._sums[0] += certified
        self._sums[1] += falsified
        if region:
            self._regions[region - 1][1][0] += falsified
            self._regions[region - 1][1][1] += rest

    def leave_open(self, boxes: Boxes) -> None:
        """Count boxes as undecided for good."""
        if len(boxes):
            self._open.append(float(boxes.mass.sum()))
            self._by_region(boxes, 1)

    def _by_region(self, boxes: Boxes, kind: int) -> None:
        masses = np.bincount(boxes.region, weights=boxes.mass)
        for region in np.flatnonzero(masses):
            if region:
                self._regions[region - 1][1][kind] += float(masses[region])

    @property
    def settled(self) -> float:
        """About how much of the domain needs no more work."""
        return min(1.0, sum(self._sums) + sum(self._open))

    @property
    def undecided(self) -> float:
        """About how much is not proved yet."""
        return max(0.0, 1.0 - sum(self._sums))

    def shares(self) -> tuple[float, float, float]:
        """Certified and falsified share, as lower bounds, and the rest."""
        certified, falsified = math.fsum(self._certified), math.fsum(self._falsified)
        if certified and not falsified and not any(self._open) and certified > 0.5:
            return 1.0, 0.0, 0.0
        if falsified and not certified and not any(self._open) and falsified > 0.5:
            return 0.0, 1.0, 0.0
        lost = self._query.distance
        low = max(0.0, certified * (1 - ROUNDING) - lost)
        other = max(0.0, falsified * (1 - ROUNDING) - lost)
        return low, other, max(0.0, 1.0 - low - other)

    def moment(self, *, last: bool = False, more: tuple[float, float] = (0.0, 0.0)) -> None:
        """Note where the run stands, at growing intervals of boxes.

        Args:
            last: note it in any case.
            more: what is proved besides, fair and unfair, and not counted yet.
        """
        if not last and self.boxes < self._next:
            return
        self._next = max(self._next + 1, int(self._next * 1.15))
        certified, falsified = self._sums
        self.history.append(
            Moment(
                seconds=time.perf_counter() - self._started,
                boxes=self.boxes,
                certified=min(1.0, certified + more[0]),
                falsified=min(1.0, falsified + more[1]),
            )
        )

    def regions(self) -> tuple[Region, ...]:
        """The coarse regions in which something is unfair or undecided, the heaviest first."""
        found = [
            Region(
                where=self._query.words(box.lo[0], box.hi[0]),
                mass=float(box.mass[0]),
                falsified=falsified,
                undecided=undecided,
            )
            for box, (falsified, undecided) in self._regions
            if falsified + undecided > 0
        ]
        return tuple(sorted(found, key=lambda region: -(region.falsified + region.undecided)))
