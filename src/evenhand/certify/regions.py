"""Where the unfair lie in a domain that was enumerated: a few parts of it that differ most in how unfair they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.boxes import FAIR, UNFAIR, Boxes
from evenhand.certify.exact import Enumeration, boxes_of
from evenhand.certify.question import Question
from evenhand.certify.result import Region
from evenhand.certify.tally import REGION_DEPTH

Floats = NDArray[np.float64]


def regions_of(query: Question, answer: Enumeration) -> tuple[Region, ...]:
    """Parts of the domain that hold unfair or undecided points, the heaviest first.

    Made by splitting again and again where it explains most of the difference between points, as a regression tree.
    """
    affected = boxes_of(query, np.flatnonzero(answer.status != FAIR), answer.mass)
    unfair = answer.status[answer.status != FAIR] == UNFAIR
    lo, hi = np.zeros(len(query.cells), dtype=np.int64), query.counts - 1
    found: list[Region] = []
    _grow(query, lo, hi, 1.0, affected, unfair, REGION_DEPTH, found)
    return tuple(sorted(found, key=lambda region: -(region.falsified + region.undecided)))


def _grow(
    query: Question,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    mass: float,
    points: Boxes,
    unfair: NDArray[np.bool_],
    depth: int,
    found: list[Region],
) -> None:
    total = float(points.mass.sum())
    if total <= 0:
        return
    cut = _best_cut(query, lo, hi, mass, points) if depth and total < mass * (1 - 1e-9) else None
    if cut is None:
        falsified = float(points.mass[unfair].sum())
        found.append(
            Region(where=query.words(lo, hi), mass=mass, falsified=falsified, undecided=max(0.0, total - falsified))
        )
        return
    attribute, cell, share = cut
    below = points.lo[:, attribute] <= cell
    left, right = hi.copy(), lo.copy()
    left[attribute], right[attribute] = cell, cell + 1
    _grow(query, lo, left, mass * share, points[below], unfair[below], depth - 1, found)
    _grow(query, right, hi, mass * (1 - share), points[~below], unfair[~below], depth - 1, found)


def _best_cut(
    query: Question, lo: NDArray[np.int64], hi: NDArray[np.int64], mass: float, points: Boxes
) -> tuple[int, int, float] | None:
    """(attribute, last cell below the cut, share of the mass below), None if no cut tells parts apart."""
    total = float(points.mass.sum())
    best, chosen = total**2 / mass * (1 + 1e-9), None
    for i, cells in enumerate(query.cells):
        if lo[i] == hi[i]:
            continue
        before = cells.before(np.arange(lo[i], hi[i] + 2))
        share = (before[1:-1] - before[0]) / (before[-1] - before[0])
        counts = np.bincount(points.lo[:, i] - lo[i], weights=points.mass, minlength=hi[i] - lo[i] + 1)
        below = np.cumsum(counts)[:-1]
        inside = (share > 0) & (share < 1)
        if not inside.any():
            continue
        weight = np.where(inside, share * mass, 1.0)
        rest = np.where(inside, (1 - share) * mass, 1.0)
        gain = np.where(inside, below**2 / weight + (total - below) ** 2 / rest, 0.0)
        cell = int(np.argmax(gain))
        if gain[cell] > best:
            best, chosen = float(gain[cell]), (i, int(lo[i]) + cell, float(share[cell]))
    return chosen
