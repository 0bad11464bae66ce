"""Everybody counted once: how many people of each kind there are, and the sums of their scores.

A kind is a combination of protected values, tenth of the score, decision and true label. Every metric of every group
and intersection is a sum over kinds, so the people themselves are passed over once, however many groups there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.membership import Membership

TENTHS = 10
DENSE = 1 << 22
"""Combinations up to this many are counted in a table with a place for each; beyond it, or beyond what the people could
fill, the combinations that occur are found by sorting."""


@dataclass(frozen=True)
class Tally:
    """One row per kind of people that occurs.

    Attributes:
        cells: the group by each protected attribute, shape (kinds, attributes).
        tenth: tenth of the favourable score, 0 to 9 (all 0 without scores), shape (kinds,).
        favoured: whether the model gives them the favourable label, shape (kinds,).
        deserving: whether their true label is favourable, shape (kinds,).
        n: how many people, shape (kinds,).
        mean, spread: of their scores, the mean and the sum of squared distances from it, shape (kinds,);
            None without scores.
    """

    cells: NDArray[np.int64]
    tenth: NDArray[np.int64]
    favoured: NDArray[np.bool_]
    deserving: NDArray[np.bool_]
    n: NDArray[np.int64]
    mean: NDArray[np.float64] | None
    spread: NDArray[np.float64] | None


def count(
    memberships: Sequence[Membership],
    favoured: NDArray[np.bool_],
    deserving: NDArray[np.bool_],
    scores: NDArray[np.float64] | None,
) -> Tally:
    """Count people by kind.

    Args:
        memberships: the group of each person by each protected attribute.
        favoured, deserving: decision and truth, shape (n,).
        scores: probability of the favourable label, in [0, 1], shape (n,).
    """
    columns = [(membership.codes, len(membership.labels)) for membership in memberships]
    if scores is not None:
        columns.append((np.minimum((scores * TENTHS).astype(np.int64), TENTHS - 1), TENTHS))
    columns += [(favoured.astype(np.int64), 2), (deserving.astype(np.int64), 2)]
    kind, keys = combine(columns)
    n = np.bincount(kind, minlength=len(keys))
    mean: NDArray[np.float64] | None = None
    spread: NDArray[np.float64] | None = None
    if scores is not None:
        mean = np.bincount(kind, weights=scores, minlength=len(keys)) / n
        # A second pass over the distances: sums of squares would cancel where scores hardly differ.
        distances = np.square(scores - mean[kind])
        spread = np.asarray(np.bincount(kind, weights=distances, minlength=len(keys)), dtype=np.float64)
    protected = len(memberships)
    return Tally(
        cells=keys[:, :protected],
        tenth=np.zeros(len(keys), dtype=np.int64) if scores is None else keys[:, protected],
        favoured=keys[:, -2] == 1,
        deserving=keys[:, -1] == 1,
        n=n,
        mean=mean,
        spread=spread,
    )


def combine(columns: Sequence[tuple[NDArray[np.int64], int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the combinations of several codes that occur, in lexicographic order.

    Args:
        columns: codes (n,) and how many there may be, for each.

    Returns:
        The number of each row's combination, shape (n,), and the codes of each combination, (combinations, columns).
    """
    rows = len(columns[0][0])
    combined = np.zeros(rows, dtype=np.int64)
    keys = np.empty((1, 0), dtype=np.int64)
    for codes, size in columns:
        combined = combined * size + codes
        places = len(keys) * size
        if places <= max(DENSE, 4 * rows):
            occurs = np.bincount(combined, minlength=places) > 0
            found = np.flatnonzero(occurs)
            if len(found) < places:
                combined = (np.cumsum(occurs) - 1)[combined]
        else:
            found, combined = np.unique(combined, return_inverse=True)
        keys = np.column_stack([keys[found // size], found % size])
    return combined, keys
