"""Do boxes fill the domain without overlap? Decided exactly, whatever made the boxes.

Boxes whose numbers of cells add up to that of the domain, and of which no two overlap, are a partition. To see that no
two overlap, the boxes are parted where no box is cut, as they were made, until few are left together, which are then
compared each with each. Where there is no such place, boxes are cut for the purpose.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEW = 48

Cells = NDArray[np.integer]


def cells_inside(low: Cells, high: Cells) -> int:
    """How many combinations of cells all boxes have together, exactly."""
    counts = (high.astype(np.int64) - low + 1) if low.shape[1] else np.ones((len(low), 1), dtype=np.int64)
    largest = 1
    for column in range(counts.shape[1]):
        largest *= int(counts[:, column].max(initial=1))
    if largest * max(1, len(counts)) < 2**63:
        return int(counts.prod(axis=1).sum())
    product = counts[:, 0].astype(object)
    for column in range(1, counts.shape[1]):
        product = product * counts[:, column].astype(object)
    return int(product.sum())


def overlapping(low: Cells, high: Cells) -> bool:
    """Whether two of the boxes, shape (n, attributes), share a cell."""
    if low.shape[1] == 0:
        return len(low) > 1
    stack = [(low, high)]
    while stack:
        low, high = stack.pop()
        if len(low) <= FEW:
            if _any_two(low, high):
                return True
            continue
        parts = _parted(low, high)
        if parts is None:
            return True
        stack += parts
    return False


def _any_two(low: Cells, high: Cells) -> bool:
    shared = np.ones((len(low), len(low)), dtype=np.bool_)
    for column in range(low.shape[1]):
        meets = low[:, None, column] <= high[None, :, column]
        shared &= meets & meets.T
    return int(shared.sum()) > len(low)


def _parted(low: Cells, high: Cells) -> list[tuple[Cells, Cells]] | None:
    """The boxes in parts that cannot overlap each other; None if all boxes are the same in every attribute."""
    n = len(low)
    best: tuple[int, int, int] | None = None
    for column in range(low.shape[1]):
        least, most = int(low[:, column].min()), int(high[:, column].max())
        if least == most:
            continue
        if most - least < 8 * n:
            # How many boxes begin up to each cell, and how many have ended by then.
            begun = np.cumsum(np.bincount(low[:, column].astype(np.int64) - least, minlength=most - least + 1))
            ended = np.cumsum(np.bincount(high[:, column].astype(np.int64) - least, minlength=most - least + 1))
            cuts = np.flatnonzero(begun[:-1] == ended[:-1])
            sizes = begun[cuts]
        else:
            begins, ends = np.sort(low[:, column]), np.sort(high[:, column])
            before = np.arange(1, n)
            # Between two beginnings there is a cut if as many boxes have ended as have begun.
            cuts = np.flatnonzero((ends[:-1] < begins[1:]) & (np.searchsorted(ends, begins[1:], side="left") == before))
            sizes = before[cuts]
            cuts = ends[cuts].astype(np.int64) - least
        if not len(cuts):
            continue
        nearest = int(np.argmin(np.abs(2 * sizes - n)))
        share = int(min(sizes[nearest], n - sizes[nearest]))
        if best is None or share > best[0]:
            best = (share, column, least + int(cuts[nearest]))
        if share >= n // 3:
            break
    if best is not None:
        _, column, cut = best
        below = high[:, column] <= cut
        return [(low[below], high[below]), (low[~below], high[~below])]
    return _forced(low, high)


def _forced(low: Cells, high: Cells) -> list[tuple[Cells, Cells]] | None:
    """Two parts, by cutting boxes along the attribute where that cuts the fewest."""
    best: tuple[int, int, int] | None = None
    for column in range(low.shape[1]):
        middle = int(np.median(high[:, column]))
        for cut in {middle, middle - 1, int(low[:, column].max()) - 1}:
            below, above = low[:, column] <= cut, high[:, column] > cut
            if below.all() and above.all():
                continue
            if not below.any() or not above.any():
                continue
            double = int((below & above).sum())
            if best is None or double < best[0]:
                best = (double, column, cut)
    if best is None:
        return None
    _, column, cut = best
    below, above = low[:, column] <= cut, high[:, column] > cut
    low_below, high_below = low[below], high[below].copy()
    low_above, high_above = low[above].copy(), high[above]
    high_below[:, column] = np.minimum(high_below[:, column], cut)
    low_above[:, column] = np.maximum(low_above[:, column], cut + 1)
    return [(low_below, high_below), (low_above, high_above)]
