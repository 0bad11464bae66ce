"""What a sequence of items is worth by the definition alone: deadlines missed, and how long values stayed away.

Nothing here knows how items were asked for. Whatever enforces a specification is judged by this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Shown = NDArray[np.int64]


class Judgement(NamedTuple):
    """One sequence against one specification.

    Attributes:
        items: how many items counted: those whose value was recognised.
        missed: by value, how many deadlines passed without it; for values without a deadline 1 if it never appeared.
        longest_gap: by value, the most items from one appearance to the next, that one included. The beginning counts
            as an appearance, and so does the first item after the end: what is reported is the least deadline that the
            sequence keeps.
    """

    items: int
    missed: tuple[int, ...]
    longest_gap: tuple[int, ...]


def judge(shown: Shown | Sequence[int], values: int, deadlines: Mapping[int, int] | None = None) -> Judgement:
    """Judge a finite sequence.

    Value ``k`` must appear within the first ``deadlines[k]`` items, and within so many again after each of its
    appearances; a deadline beyond the end is not missed. A value without a deadline must appear once.

    Args:
        shown: the value of each item, 1 to ``values``; 0 where it was not recognised, which does not count as an item.
        values: how many values there are.
        deadlines: by value, from 1; values may be left out.

    >>> judge([1, 2, 0, 1, 1, 1], 2, {1: 2, 2: 3})
    Judgement(items=5, missed=(0, 1), longest_gap=(2, 4))
    """
    sequence = np.asarray(shown, dtype=np.int64)
    sequence = sequence[sequence > 0]
    missed, longest = [], []
    for value in range(1, values + 1):
        appearances = np.flatnonzero(sequence == value) + 1
        gaps = np.diff(appearances, prepend=0, append=len(sequence) + 1)
        deadline = None if deadlines is None else deadlines.get(value)
        missed.append(int(np.sum(gaps > deadline)) if deadline is not None else int(not len(appearances)))
        longest.append(int(gaps.max()))
    return Judgement(len(sequence), tuple(missed), tuple(longest))
