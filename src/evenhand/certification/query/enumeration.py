"""Decide every point of a small domain, instead of proving boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.boxes import Boxes
from evenhand.certification.query.question import Question
from evenhand.core.typing import Floats, Integers

MAX_POINTS = 2**21
BATCH = 2**22
"""Maximum number of entries of an intermediate array."""


def can_enumerate(query: Question, time_limit: float | None) -> bool:
    """Check whether enumeration takes at most a few seconds and at most half the time limit."""
    if not query.enumerable or query.points > MAX_POINTS:
        return False
    limit = query.max_enumeration if time_limit is None else min(query.max_enumeration, time_limit / 2)
    return bool(query.points * query.point_seconds <= limit)


def enumerate_domain(query: Question) -> NDArray[np.int8]:
    """Compute the outcome of every point of the domain, shape (points,)."""
    batch = max(1, BATCH // query.point_size)
    status = np.empty(query.points, dtype=np.int8)
    for begin in range(0, query.points, batch):
        points = decode_points(query, np.arange(begin, min(begin + batch, query.points)))
        status[begin : begin + len(points)] = query.decide_points(points)
    return status


def decode_points(query: Question, numbers: Integers) -> Integers:
    """Compute the cells of points from their numbers, shape (n, attributes)."""
    points = np.empty((len(numbers), len(query.cells)), dtype=np.int64)
    quotient = numbers
    for i in range(len(query.cells) - 1, -1, -1):
        quotient, points[:, i] = np.divmod(quotient, query.counts[i])
    return points


def boxes_of(query: Question, numbers: Integers, mass: Floats, region: int = 0) -> Boxes:
    """Build a box from each point."""
    points = decode_points(query, numbers).astype(np.int32)
    depth = np.zeros(len(numbers), dtype=np.int16)
    return Boxes(lo=points, hi=points, mass=mass[numbers], depth=depth, region=depth + np.int16(region))
