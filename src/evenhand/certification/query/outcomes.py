"""Decide points from the sets of labels that are possible under each protected assignment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Integers

UNDECIDED, FAIR, UNFAIR = 0, 1, 2
"""Outcome of a point or a whole box: undecided, same label under all assignments, different labels."""
WORD = 63
"""Maximum number of sets of labels that are the bits of one number."""


def possible_labels(labels: int, pairs: Integers, above: Booleans, below: Booleans) -> Integers:
    """Compute the sets of possible labels, as bits, shape (n,), from the margins that are surely above or below zero.

    Args:
        labels: Number of labels.
        pairs: Labels (a, b) of each margin, shape (margins, 2).
        above, below: Masks of margins, shape (n, margins).
    """
    possible = np.full(len(above), (1 << labels) - 1, dtype=np.int64)
    # A margin above zero rules out the first label of its pair, one below zero the second.
    for m, (a, b) in enumerate(pairs):
        possible &= np.where(above[:, m], ~(1 << int(a)), -1) & np.where(below[:, m], ~(1 << int(b)), -1)
    return possible


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
