"""What chance does: the largest standardised gap of all rule sets when outcomes are dealt out anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.gaps import Tails
from evenhand.subgroup.tabulate import Table

Floats = NDArray[np.float64]

AT_ONCE = 100
"""Permutations between two looks at the clock."""

ENTRIES = 1 << 24
"""Numbers held at once, about."""


class Largest(Protocol):
    """Says, for permuted sums by cell, how large the largest standardised gap is."""

    def __call__(self, sums: NDArray[np.float32]) -> Floats:
        """From sums (cells, permutations) to maxima (permutations,)."""
        ...


@dataclass(frozen=True)
class Maxima:
    """The largest absolute standardised gap in each permutation.

    Attributes:
        values: shape (permutations,), fewer than wanted if it was stopped.
        stopped: ``time`` or ``user`` if it was.
    """

    values: Floats
    stopped: str | None


def maxima(
    table: Table,
    largest: Largest,
    permutations: int,
    rng: np.random.Generator,
    *,
    deadline: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> Maxima:
    """Deal the outcomes out anew, as often as wanted or as time allows; an interrupt keeps what was done."""
    found: list[Floats] = []
    done = 0
    stopped = None
    try:
        while done < permutations:
            if deadline is not None and done > 0 and time.perf_counter() > deadline:
                stopped = "time"
                break
            many = min(AT_ONCE, permutations - done)
            found.append(largest(table.permuted(many, rng).T.astype(np.float32)))
            done += many
            if progress is not None:
                progress(done / permutations)
    except KeyboardInterrupt:
        stopped = "user"
    return Maxima(np.concatenate(found) if found else np.zeros(0), stopped)


def largest_gap(tails: Tails, inside: Callable[[slice], NDArray[np.bool_]], cells: int) -> Largest:
    """The largest gap of rule sets to the rest.

    Args:
        tails: what is expected of each rule set's total.
        inside: for some of the rule sets, which occupied cells each holds, shape (rule sets, cells).
        cells: how many occupied cells there are.
    """
    number = len(tails.expected)
    rows = max(1, ENTRIES // max(cells, AT_ONCE))
    blocks = [slice(first, min(first + rows, number)) for first in range(0, number, rows)]
    kept = [inside(block).astype(np.float32) for block in blocks] if len(blocks) <= 8 else None

    def largest(sums: NDArray[np.float32]) -> Floats:
        top = np.zeros(sums.shape[1])
        for i, block in enumerate(blocks):
            matrix = kept[i] if kept is not None else inside(block).astype(np.float32)
            excess = matrix @ sums - tails.expected[block, None].astype(np.float32)
            above = (excess * tails.above[block, None].astype(np.float32)).max(axis=0)
            below = (excess * -tails.below[block, None].astype(np.float32)).max(axis=0)
            top = np.maximum(top, np.maximum(above, below))
        return top

    return largest
