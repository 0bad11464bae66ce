"""Where boxes are split (compiled)."""

from __future__ import annotations

import numba

from evenhand.certify.lanes import LANES

SPLITS = 4
"""A box is split this often at once: its up to sixteen grandchildren fill the lanes."""

jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)


@jit
def halve(i, low, high, axes):
    """The last cell of the lower half of low..high by mass; both halves have some cells."""
    begin = axes.first[i]
    goal = 0.5 * (axes.weight[begin + low] + axes.weight[begin + high + 1])
    a = low
    b = high - 1
    while a < b:
        middle = (a + b) // 2
        if axes.weight[begin + middle + 1] < goal:
            a = middle + 1
        else:
            b = middle
    if a > low and goal - axes.weight[begin + a] < axes.weight[begin + a + 1] - goal:
        a -= 1
    return a


@jit
def grandchildren(box_low, box_high, plan, axes, cutting, lo, hi):
    """Split a box by its plan into the lanes, ``cutting`` parts without mass away. Gives their number."""
    attributes = box_low.shape[0]
    for i in range(attributes):
        lo[i, 0] = box_low[i]
        hi[i, 0] = box_high[i]
    count = 1
    for r in range(SPLITS):
        a = plan[r]
        if a < 0:
            break
        for t in range(count):
            low = int(lo[a, t])
            high = int(hi[a, t])
            if high <= low:
                continue
            cut = halve(a, low, high, axes)
            at = axes.first[a]
            if cutting and axes.weight[at + cut + 1] <= axes.weight[at + low]:
                lo[a, t] = cut + 1
                continue
            if cutting and axes.weight[at + high + 1] <= axes.weight[at + cut + 1]:
                hi[a, t] = cut
                continue
            for i in range(attributes):
                lo[i, count] = lo[i, t]
                hi[i, count] = hi[i, t]
            hi[a, t] = cut
            lo[a, count] = cut + 1
            count += 1
    for t in range(count, LANES):
        for i in range(attributes):
            lo[i, t] = lo[i, 0]
            hi[i, t] = hi[i, 0]
    return count


@jit
def make_plan(t, b, plan):
    """The next splits of a box: the best attribute, its score halved, again; the widest where no score tells."""
    attributes = b.low.shape[0]
    left, width = b.left, b.width
    for i in range(attributes):
        width[i] = b.high[i] - b.low[i] + 1
        left[i] = b.score[i, t] if width[i] > 1 else -1.0
    for r in range(SPLITS):
        best = 0
        for i in range(1, attributes):
            if left[i] > left[best]:
                best = i
        if left[best] == 0.0:
            for i in range(attributes):
                if left[i] == 0.0 and width[i] > width[best]:
                    best = i
        if left[best] < 0.0:
            for q in range(r, SPLITS):
                plan[q] = -1
            return
        plan[r] = best
        width[best] = (width[best] + 1) // 2
        left[best] = 0.5 * left[best] if width[best] > 1 else -1.0
