"""Decide small domains by enumeration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.boxes import FAIR, UNDECIDED, UNFAIR, Boxes
from evenhand.certification.query.question import Query, Question
from evenhand.core.typing import Booleans, Floats, Integers

MAX_POINTS = 2**21
MAX_SECONDS = 20.0
OPERATIONS_PER_SECOND = 2e9
"""Conservative estimate, so that the time limit holds on a slow machine."""
BATCH = 2**22
"""Maximum number of entries of an intermediate array."""
WORD = 63
"""Maximum number of sets of labels that are the bits of one number."""


@dataclass(frozen=True)
class Enumeration:
    """Outcome of each point.

    Attributes:
        status: FAIR, UNFAIR or UNDECIDED (only where a margin lies within the rounding slack), shape (points,).
        mass: Share of the population, shape (points,).
    """

    status: NDArray[np.int8]
    mass: Floats


def can_enumerate(query: Query, time_limit: float | None) -> bool:
    """Check whether enumeration takes at most a few seconds and at most half the time limit."""
    if not query.exact or query.points > MAX_POINTS:
        return False
    work = sum(layer.weights.size for layer in query.layers) + query.biases.shape[1] * (len(query.cells) + 1)
    seconds = 4 * query.points * len(query.assignments) * work / OPERATIONS_PER_SECOND
    return bool(seconds <= min(MAX_SECONDS, MAX_SECONDS if time_limit is None else time_limit / 2))


def enumerate_domain(query: Query) -> Enumeration:
    """Decide every point of the domain."""
    widths = (layer.weights.shape[1] for layer in query.layers)
    widest = max(query.biases.shape[1], *widths, len(query.assignments), 1)
    batch = max(1, BATCH // widest)
    status = np.empty(query.points, dtype=np.int8)
    for begin in range(0, query.points, batch):
        points = decode_points(query, np.arange(begin, min(begin + batch, query.points)))
        if query.demanded is not None:
            status[begin : begin + len(points)] = _classify_demanded(query, points)
            continue
        labels = [possible_labels(query, units > reach, units < -reach) for units, reach in _margins(query, points)]
        status[begin : begin + len(points)] = classify_points(np.stack(labels), query.least)
    return Enumeration(status=status, mass=point_masses(query))


def decode_points(query: Question, numbers: Integers) -> Integers:
    """Compute the cells of points from their numbers, shape (n, attributes)."""
    points = np.empty((len(numbers), len(query.cells)), dtype=np.int64)
    quotient = numbers
    for i in range(len(query.cells) - 1, -1, -1):
        quotient, points[:, i] = np.divmod(quotient, query.counts[i])
    return points


def boxes_of(query: Question, numbers: Integers, mass: Floats) -> Boxes:
    """Build a box from each point."""
    points = decode_points(query, numbers).astype(np.int32)
    blank = np.zeros(len(numbers), dtype=np.int16)
    return Boxes(lo=points, hi=points, mass=mass[numbers], depth=blank, region=blank)


def point_masses(query: Question) -> Floats:
    """Compute the population share of each point, shape (points,)."""
    masses = np.ones(1)
    for cells in query.cells:
        weights = np.diff(cells.before(np.arange(cells.count + 1))) / cells.total
        masses = (masses[:, None] * weights).ravel()
    return masses


def possible_labels(query: Query, above: Booleans, below: Booleans) -> Integers:
    """Compute the sets of possible labels, as bits, shape (n,), from the margins that are surely above or below zero.

    Args:
        query: Question.
        above, below: Masks of margins, shape (n, margins).
    """
    labels = np.full(len(above), (1 << len(query.classes)) - 1, dtype=np.int64)
    # A margin above zero rules out the first label of its pair, one below zero the second.
    for m, (a, b) in enumerate(query.pairs):
        labels &= np.where(above[:, m], ~(1 << int(a)), -1) & np.where(below[:, m], ~(1 << int(b)), -1)
    return labels


def _margins(query: Query, points: Integers) -> Iterator[tuple[Floats, Floats]]:
    """Yield the margins under each assignment and their minimum distances from zero, both of shape (n, margins)."""
    slack = query.slack
    terms = query.first(points)
    sizes = np.zeros_like(terms)
    for i, cells in enumerate(query.cells):
        sizes += np.abs(cells.cell_contributions(points[:, i]))
    for bias in query.biases:
        units, error = terms + bias, slack.first(sizes)
        for number, layer in enumerate(query.layers):
            error = slack.after(number, units, error)
            units = np.maximum(units, 0.0) @ layer.weights + layer.bias
        yield units, slack.decision(error)


def _classify_demanded(query: Query, points: Integers) -> NDArray[np.int8]:
    """Decide points for which one label is required. Each margin compares it with another label."""
    ((units, reach),) = _margins(query, points)
    within, beyond = (units < -reach).all(axis=1), (units > reach).any(axis=1)
    return np.where(beyond, UNFAIR, np.where(within, FAIR, UNDECIDED)).astype(np.int8)


def classify_points(possible: Integers, least: int = 2) -> NDArray[np.int8]:
    """Compute outcomes from the sets of possible labels (as bits) under each assignment, shape (assignments, n).

    Args:
        possible: Sets of possible labels.
        least: Minimum number of different labels that counts as unfair.
    """
    if least == 2 and possible.max(initial=0) < WORD:
        # The sets of a point are the bits of one number, because numbers are sorted much faster than columns.
        words, kind = np.unique(np.bitwise_or.reduce(np.int64(1) << possible, axis=0), return_inverse=True)
        kinds = [[labels for labels in range(WORD) if word >> labels & 1] for word in words.tolist()]
    else:
        columns, kind = np.unique(possible, axis=1, return_inverse=True)
        kinds = columns.T.tolist()
    outcomes = np.array([_classify_sets(sets, least) for sets in kinds], dtype=np.int8)
    return outcomes[kind.ravel()]


def _classify_sets(sets: Sequence[int], least: int) -> int:
    """Decide a point. Fair: one label is left under all assignments. Unfair: two sets have no label in common."""
    if least == 2:
        distinct = set(sets)
        decided = len(distinct) == 1 and sets[0] & (sets[0] - 1) == 0
        is_unfair = any(first & second == 0 for first in distinct for second in distinct)
    else:
        fewest, highest = count_outcomes(sets)
        decided, is_unfair = highest < least, fewest >= least
    return UNFAIR if is_unfair else FAIR if decided else UNDECIDED


def count_outcomes(possible: Sequence[int]) -> tuple[int, int]:
    """Bound the number of different labels from the sets of possible labels under each assignment.

    At least: as many as there are sets of which no two have a label in common; such sets are picked greedily, the
    smallest first. At most: the number of possible labels, or of certain labels plus the number of uncertain sets.
    """
    used = union = certain = 0
    fewest = open_sets = 0
    for labels in sorted(possible, key=int.bit_count):
        union |= labels
        if labels & (labels - 1) == 0:
            certain |= labels
        else:
            open_sets += 1
        if labels & used == 0:
            used |= labels
            fewest += 1
    return fewest, min(union.bit_count(), certain.bit_count() + open_sets)
