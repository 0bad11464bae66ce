"""Score, plan and perform splits of boxes (compiled)."""

from __future__ import annotations

from evenhand.certification.bounds.compiled.lanes import (
    LANES,
    add,
    axpy,
    divide,
    fill_vector,
    load_row,
    minimum,
    multiply,
    multiply_add,
    select_positive,
    store_row,
    subtract,
)
from evenhand.certification.bounds.compiled.relaxation import jit as jit_contracted
from evenhand.certification.bounds.compiled.relaxation import range_of_columns, run_of_columns
from evenhand.core.kernels import compile_kernel

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
inlined = compile_kernel(
    internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False, forceinline=True
)

PLANNED_SPLITS = 4
"""Number of successive splits of a box, whose up to sixteen grandchildren fill the lanes."""


@jit_contracted
def split_scores(net, lo, hi, s, score):
    """Add to ``score`` (attributes, lanes) the part of the relaxation gap that the width of each attribute causes.

    A unit's gap is the height of its relaxation, -l * u / (u - l), times the sensitivity of the outputs to the unit
    (absolute weights times slopes). An attribute's part of the gap is its share of the width of the unit's
    pre-activation.
    """
    # Sensitivity of the outputs to unit h: weight_h, the products of |w| and slopes on a path to an output, summed over
    # all paths. At zero the chord is slope * (-l) above ReLU, its farthest. ``gaps`` keeps weight * slope * (-l) / (u -
    # l), the gap per unit of width; first the weights are propagated back, layer by layer.
    zero = fill_vector(0.0)
    depth = net.sizes.shape[0] - 1
    k = depth - 1
    for q in range(s.mixed[k] + s.always[k]):
        h = s.live[k, q] if q < s.mixed[k] else s.on[k, q - s.mixed[k]]
        weight = 0.0
        for j in range(net.sizes[depth]):
            weight += abs(net.weights[k, h, j])
        store_row(s.wa, h, fill_vector(weight))
    current, following = s.wa, s.wb
    for k in range(depth - 1, -1, -1):
        for q in range(s.mixed[k]):
            h = s.live[k, q]
            low = load_row(s.zl[k], h)
            high = load_row(s.zu[k], h)
            below = subtract(zero, low)
            v = multiply(load_row(current, h), load_row(s.slope[k], h))
            store_row(current, h, v)  # now the weight on the pre-activation, which the next step propagates back
            gap = divide(multiply(v, below), add(high, below))
            store_row(s.gaps[k], h, select_positive(minimum(below, high), gap, zero))
        if k > 0:
            substitute_absolute(k, net, s, current, following)
            current, following = following, current
    # The gaps of all layers are passed back to the first. The width of a deeper unit is that of the units before it
    # times |w| * slope, so its gap per unit of width is passed back with these factors.
    k = depth - 1
    for q in range(s.mixed[k]):
        h = s.live[k, q]
        store_row(current, h, load_row(s.gaps[k], h))
    for q in range(s.always[k]):
        store_row(current, s.on[k, q], fill_vector(0.0))
    for k in range(depth - 1, 0, -1):
        substitute_absolute(k, net, s, current, following)
        for q in range(s.mixed[k - 1]):
            h = s.live[k - 1, q]
            store_row(
                following,
                h,
                multiply_add(load_row(following, h), load_row(s.slope[k - 1], h), load_row(s.gaps[k - 1], h)),
            )
        current, following = following, current
    # here_h is now the gap per unit of width of first unit h, and attribute i adds the range of its term c_ih over the
    # box to this width.
    for i in range(lo.shape[0]):
        if net.line[i]:
            part = zero
            for q in range(s.mixed[0] + s.always[0]):
                h = s.live[0, q] if q < s.mixed[0] else s.on[0, q - s.mixed[0]]
                part = axpy(abs(net.columns[net.start[i], h]), load_row(current, h), part)
            width = subtract(load_row(hi, i), load_row(lo, i))
            store_row(score, i, multiply_add(part, width, load_row(score, i)))
            continue
        for t in range(LANES):
            a = net.start[i] + int(lo[i, t])
            b = net.start[i] + int(hi[i, t])
            if a == b:
                continue
            k, last = run_of_columns(net, a, b)
            total = 0.0
            for q in range(s.mixed[0] + s.always[0]):
                h = s.live[0, q] if q < s.mixed[0] else s.on[0, q - s.mixed[0]]
                x, y = range_of_columns(net, h, a, k, last)
                total += (y - x) * current[h, t]
            score[i, t] += total


@jit_contracted
def substitute_absolute(k, net, s, current, following):
    """Like ``substitute_layer``, with absolute weights and without constants."""
    # there[h] = sum over r of |W[h, r]| * here[r], over units that are on somewhere; the others pass on 0.
    for z in range(s.mixed[k - 1] + s.always[k - 1]):
        h = s.live[k - 1, z] if z < s.mixed[k - 1] else s.on[k - 1, z - s.mixed[k - 1]]
        x = fill_vector(0.0)
        for q in range(s.mixed[k] + s.always[k]):
            r = s.live[k, q] if q < s.mixed[k] else s.on[k, q - s.mixed[k]]
            x = axpy(abs(net.weights[k - 1, h, r]), load_row(current, r), x)
        store_row(following, h, x)


@inlined
def halving_cell(i, low, high, axes):
    """Return the last cell of the lower half of low..high by mass; both halves have some cells."""
    # Binary search in the prefix sums for the cell that reaches half of the mass; the nearer of the two neighbours
    # wins.
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


@inlined
def split_by_plan(box_low, box_high, plan, axes, cutting, lo, hi):
    """Split a box into lanes according to its plan, without the massless parts if ``cutting``. Return their number."""
    attributes = box_low.shape[0]
    for i in range(attributes):
        lo[i, 0] = box_low[i]
        hi[i, 0] = box_high[i]
    count = 1
    for r in range(PLANNED_SPLITS):
        a = plan[r]
        if a < 0:
            break
        for t in range(count):
            low = int(lo[a, t])
            high = int(hi[a, t])
            if high <= low:
                continue
            # Lanes 0 to count - 1 hold disjoint parts of the box. A half without mass is dropped; the parts still
            # account for all mass.
            cut = halving_cell(a, low, high, axes)
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


@inlined
def plan_splits(t, b, plan):
    """Plan the next splits of a box: repeatedly the attribute with the best score, which each split halves."""
    attributes = b.low.shape[0]
    left, width = b.left, b.width
    for i in range(attributes):
        width[i] = b.high[i] - b.low[i] + 1
        left[i] = b.score[i, t] if width[i] > 1 else -1.0
    for r in range(PLANNED_SPLITS):
        best = 0
        for i in range(1, attributes):
            if left[i] > left[best]:
                best = i
        if left[best] == 0.0:
            for i in range(attributes):
                if left[i] == 0.0 and width[i] > width[best]:
                    best = i
        if left[best] < 0.0:
            for q in range(r, PLANNED_SPLITS):
                plan[q] = -1
            return
        # Scores are proportional to width, so halving an attribute halves its score.
        plan[r] = best
        width[best] = (width[best] + 1) // 2
        left[best] = 0.5 * left[best] if width[best] > 1 else -1.0
