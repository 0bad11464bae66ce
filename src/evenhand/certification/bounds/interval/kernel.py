"""Symbolic interval propagation and the smear of interval gradients, compiled, for many boxes at once.

Symbolic bounds as in Wang et al., "Efficient formal safety analysis of neural networks" (NeurIPS 2018): every unit has
a lower and an upper linear function of the inputs. An unstable unit's upper function, with range [l, u] over the box,
becomes ``u / (u - l) * (f - l)``, its lower function, with range [l', u'], ``u' / (u' - l') * f'``. The attribute to
split is the one with the largest smear: width times the largest absolute value of the interval gradient, where the
derivative of an unstable unit is [0, 1], averaged over the protected assignments (Kim, Wang and Wang, "FairQuant",
ICSE 2025, Algorithm 3).

LANES boxes are worked on together, as the last axis of every scratch array, so that each step is a vector
instruction. Up to the second layer both functions have the same coefficients, which halves the work there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.interval.layout import KernelLayout
from evenhand.certification.query.boxes import FAIR, UNDECIDED, UNFAIR
from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers

LANES = 16
MAX_GRADIENTS = 8
"""Assignments whose gradients are averaged, at most."""
MAX_WITNESSES = 8
"""Different sets of possible labels that are remembered per box, at most."""

OFF, ON, UNSTABLE = 0, 1, 2

FASTMATH = {"reassoc", "contract", "nsz"}
"""What the compiler may do with sums and products: another order, one rounding in place of two, either sign of zero."""

_compile_kernel = compile_kernel(nogil=True, error_model="numpy", fastmath=FASTMATH)
_compile_inner = compile_kernel(internal=True, nogil=True, error_model="numpy", fastmath=FASTMATH)


class BoxLanes(NamedTuple):
    """LANES boxes: first and last cell of each attribute, and least and greatest position on it."""

    first: Integers
    last: Integers
    low: Floats
    high: Floats


class UnitBounds(NamedTuple):
    """What is known of the units of one layer; lanes come last.

    Attributes:
        bound: ranges of the lower function (0, 1) and the upper one (2, 3), and the float32 error (4).
        relaxed: after ReLU, slopes (0, 1) and constants (2, 3) of the lower and upper function, float32 error (4).
        scratch: slopes times weights of the unit that is bounded.
        active: the units that are not surely off.
        phase: per averaged assignment and unit, whether it is OFF, ON or UNSTABLE.
    """

    bound: Floats
    relaxed: Floats
    scratch: Floats
    active: Integers
    phase: NDArray[np.int8]


@_compile_kernel
def decide_boxes(lo, hi, final, layout: KernelLayout, status, attribute, sets=None):
    """Decide boxes, and say where to split those that stay open.

    Args:
        lo, hi: (boxes, attributes) int32, first and last cell.
        final: (boxes,) bool, boxes that will not be split, so no attribute is needed.
        layout: the query.
        status: (boxes,) int8, filled with FAIR (the label is proved the same under all assignments), UNFAIR (for two
            of them it is proved different) or UNDECIDED.
        attribute: (boxes,) int32, filled with the attribute to split, -1 if none can be.
        sets: (boxes, WITNESSES) int64 or None, filled with different sets of possible labels that were seen, as bits;
            what is left over with the set of all labels.
    """
    boxes, attributes = lo.shape
    assignments = layout.biases.shape[0]
    layers = len(layout.widths)
    margins = layout.widths[layers - 1]
    columns, widest = layout.columns.shape[0], layout.widths.max()
    averaged = min(assignments, MAX_GRADIENTS)
    box = BoxLanes(
        np.empty((attributes, LANES), dtype=np.int64),
        np.empty((attributes, LANES), dtype=np.int64),
        np.empty((attributes, LANES)),
        np.empty((attributes, LANES)),
    )
    least = np.empty((layout.widths[0], LANES))
    most = np.empty((layout.widths[0], LANES))
    size = np.empty((layout.widths[0], LANES))
    units = UnitBounds(
        np.empty((5, widest, LANES)),
        np.empty((5, widest, LANES)),
        np.empty((2, widest, LANES)),
        np.empty(widest, dtype=np.int64),
        np.zeros((averaged, layout.pad_offsets[layers - 1] + 1, LANES), dtype=np.int8),
    )
    bound, relaxed = units.bound, units.relaxed
    deep = layers > 2
    coefficients = np.empty((2, columns, widest, LANES) if deep else (2, 0, 0, LANES))
    later = np.empty((2, columns, widest, LANES) if layers > 3 else (2, 0, 0, LANES))
    possible = np.empty((MAX_WITNESSES, LANES), dtype=np.int64)
    kept = np.empty(LANES, dtype=np.int64)
    same = np.empty(LANES, dtype=np.bool_)
    apart = np.empty(LANES, dtype=np.bool_)
    open_margin = np.empty((margins, LANES), dtype=np.bool_)
    gradient = np.empty((2, 2, widest, LANES))
    smear = np.empty((attributes, LANES))
    everything = (np.int64(1) << layout.classes) - 1
    # A margin is the difference of two logits. Under assignment p a label is possible unless the bounds of a margin
    # exclude it. FAIR: one and the same label is left under every p. UNFAIR: under two assignments no label is possible
    # under both. This is FairQuant's Algorithm 2 with sets of labels in place of the sign of a single output.
    for begin in range(0, boxes, LANES):
        used = min(LANES, boxes - begin)
        _load_boxes(lo, hi, begin, used, layout, box)
        _first_layer_terms(layout, box, least, most, size)
        same[:] = True
        apart[:] = False
        kept[:] = 0
        open_margin[:] = False
        # Invariant: each unit of the layer last reached lies between its lower function, whose range over the box is
        # bound[0] to bound[1], and its upper function, whose range is bound[2] to bound[3]; so within bound[0] to
        # bound[3]. The model as deployed is off by bound[4] at most.
        # The first layer is exact, so both functions are the unit itself: bounds 1 and 3 agree, and 0 and 2.
        for p in range(assignments):
            for k in range(layout.widths[0]):
                bias, pad = layout.biases[p, k], layout.pads[k]
                for s in range(LANES):
                    bound[0, k, s] = bias + least[k, s] - pad
                    bound[3, k, s] = bias + most[k, s] + pad
                    bound[1, k, s] = bound[3, k, s]
                    bound[2, k, s] = bound[0, k, s]
                    bound[4, k, s] = layout.gammas[0] * (size[k, s] + layout.base[k])
            if layers > 1:
                for k in range(layout.widths[0]):
                    for s in range(LANES):
                        relaxed[2, k, s] = layout.biases[p, k]
                        relaxed[3, k, s] = layout.biases[p, k]
                found = _relax_units(layout, np.int64(0), p, units)
                _bound_second_layer(layout, box, found, units, coefficients, deep)
                # Coefficients of one layer are made from those of the layer before, in two arrays that take turns.
                for layer in range(1, layers - 1):
                    found = _relax_units(layout, layer, p, units)
                    source = coefficients if layer % 2 == 1 else later
                    target = later if layer % 2 == 1 else coefficients
                    _bound_next_layer(layout, layer, box, found, units, source, target)
            _compare_labels(layout, bound, everything, possible, kept, same, apart, open_margin)
        if sets is not None:
            for s in range(used):
                for w in range(MAX_WITNESSES):
                    sets[begin + s, w] = possible[w, s] if w < kept[s] else everything
        wanted = False
        for s in range(used):
            # x & (x - 1) clears the lowest bit: zero if at most one label is left.
            outcome = UNDECIDED
            if apart[s]:
                outcome = UNFAIR
            elif same[s] and possible[0, s] & (possible[0, s] - 1) == 0:
                outcome = FAIR
            status[begin + s] = outcome
            attribute[begin + s] = -1
            wanted = wanted or (outcome == UNDECIDED and not final[begin + s])
        if not wanted:
            continue
        _smear_scores(layout, box, units.phase, open_margin, gradient, smear)
        for s in range(used):
            # The largest smear is split; among equals the widest range, so that boxes do not become needles.
            if status[begin + s] == UNDECIDED and not final[begin + s]:
                best, widest_range = -1.0, -1.0
                for i in range(attributes):
                    cells = box.last[i, s] - box.first[i, s]
                    if cells > 0 and (smear[i, s] > best or (smear[i, s] == best and cells > widest_range)):
                        best, widest_range = smear[i, s], float(cells)
                        attribute[begin + s] = i


@_compile_inner
def _load_boxes(lo, hi, begin, used, layout, box):
    """Load the cells of LANES boxes and their positions along the lines; missing boxes repeat the last one."""
    first, last, low, high = box
    # Cell c of a line reaches from base + step * c to reach more; the pad covers the rounding of these positions.
    for i in range(lo.shape[1]):
        start = layout.key_start[i]
        base, step, reach, pad = layout.spacing[i]
        for s in range(LANES):
            row = begin + min(s, used - 1)
            first[i, s], last[i, s] = lo[row, i], hi[row, i]
            if start >= 0:
                low[i, s] = layout.keys[start + lo[row, i]]
                high[i, s] = layout.keys[start + hi[row, i]]
            else:
                low[i, s] = base + step * lo[row, i] - pad
                high[i, s] = base + step * hi[row, i] + reach + pad


@_compile_inner
def _first_layer_terms(layout, box, least, most, size):
    """Compute what the attributes add to the first units over each box: least, most, and the sum of largest sizes."""
    first, last, low, high = box
    units = layout.widths[0]
    # A first unit is additive, z_k(x) = bias_k + sum_i c_ik(x_i), so its extremes over a box are exactly the sums of
    # those of its terms. size_k = sum_i max |c_ik| bounds its rounding: gamma_n * size_k (Higham 2002, section 4.2).
    least[:] = 0.0
    most[:] = 0.0
    size[:] = 0.0
    for i in range(len(layout.line)):
        column = layout.start[i]
        if layout.line[i]:
            for k in range(units):
                slope = layout.columns[column, k]
                for s in range(LANES):
                    # Along a line c(x) = slope * x, which is extreme at the ends of the range.
                    one, other = slope * low[i, s], slope * high[i, s]
                    below, above = min(one, other), max(one, other)
                    least[k, s] += below
                    most[k, s] += above
                    size[k, s] += max(above, -below)
        else:
            for s in range(LANES):
                for k in range(units):
                    below = above = layout.columns[column + first[i, s], k]
                    for cell in range(first[i, s] + 1, last[i, s] + 1):
                        value = layout.columns[column + cell, k]
                        below, above = min(below, value), max(above, value)
                    least[k, s] += below
                    most[k, s] += above
                    size[k, s] += max(above, -below)


@_compile_inner
def _relax_units(layout, layer, p, units):
    """Linear bounds of ReLU over each box. Constants come in as ``relaxed[2]`` and ``[3]``; returns the units on."""
    bound, relaxed, phase = units.bound, units.relaxed, units.phase
    gamma = layout.gammas[layer + 1]
    found = 0
    for k in range(layout.widths[layer]):
        alive = 0.0
        for s in range(LANES):
            # ReLU never widens a difference, and passes none where even upper + error is below zero. The product with
            # the next weight then rounds: passed + gamma * (|value| + passed).
            upper, error = bound[3, k, s], bound[4, k, s]
            passed = max(0.0, min(error, upper + error))
            relaxed[4, k, s] = passed + gamma * (max(upper, 0.0) + passed)
            alive = max(alive, max(upper, passed))
        for s in range(LANES):
            # Above: relu(f) <= u / (u - l) * (f - l), the chord of a convex function over the range [l, u] of the upper
            # function. Below: relu(f) >= a * f for every a in [0, 1]; a = u' / (u' - l') keeps both lines parallel
            # (Wang et al. 2018).
            low_least, low_most, up_least, up_most = bound[0, k, s], bound[1, k, s], bound[2, k, s], bound[3, k, s]
            on, off = low_least >= 0.0, up_most <= 0.0
            low_span, up_span = low_most - low_least, up_most - up_least
            low_slope = low_most / (low_span if low_span > 0.0 else 1.0)
            low_slope = 1.0 if on else (0.0 if off or low_most <= 0.0 else min(low_slope, 1.0))
            up_slope = up_most / (up_span if up_span > 0.0 else 1.0)
            up_slope = 0.0 if off else (1.0 if on or up_least >= 0.0 else min(up_slope, 1.0))
            lift = 0.0 if on or off or up_least >= 0.0 else up_least
            relaxed[0, k, s] = low_slope
            relaxed[1, k, s] = up_slope
            relaxed[2, k, s] = low_slope * relaxed[2, k, s]
            relaxed[3, k, s] = up_slope * (relaxed[3, k, s] - lift)
        if p < phase.shape[0]:
            unit = layout.pad_offsets[layer] + k
            for s in range(LANES):
                phase[p, unit, s] = ON if bound[0, k, s] >= 0.0 else (OFF if bound[3, k, s] <= 0.0 else UNSTABLE)
        if alive > 0.0:
            units.active[found] = k
            found += 1
    return found


@_compile_inner
def _bound_second_layer(layout, box, found, units, coefficients, keep):
    """Bounds of the second layer of units. Lower and upper slopes of the first are equal, and so are coefficients.

    Constants are left in ``relaxed[2]`` and ``[3]``: they are read before they are written over.
    """
    # Lower and upper function of a first unit are the unit itself, so l' = l and u' = u: both lines have the slope u /
    # (u - l). The functions of unit j therefore share their coefficients sum_k w_jk * slope_k * column_k, and differ in
    # their constants alone.
    first, last, low, high = box
    bound, relaxed, scratch, active = units.bound, units.relaxed, units.scratch, units.active
    width = layout.widths[0]
    total = np.zeros(LANES)
    below, above = np.empty(LANES), np.empty(LANES)
    constants = np.empty((3, layout.widths[1], LANES))
    for j in range(layout.widths[1]):
        _unit_constants(layout, np.int64(0), j, found, units, constants)
        for n in range(found):
            weight = layout.weights[j * width + active[n]]
            for s in range(LANES):
                scratch[0, n, s] = weight * relaxed[0, active[n], s]
        for s in range(LANES):
            bound[0, j, s] = 0.0
            bound[3, j, s] = 0.0
        for i in range(len(layout.line)):
            begin, end = np.int64(0), np.int64(1)
            if not layout.line[i]:
                begin, end = _cell_hull(first, last, i)
                below[:] = np.inf
                above[:] = -np.inf
            for cell in range(begin, end):
                column = layout.start[i] + cell
                total[:] = 0.0
                for n in range(found):
                    slope = layout.columns[column, active[n]]
                    for s in range(LANES):
                        total[s] += slope * scratch[0, n, s]
                if keep:
                    for s in range(LANES):
                        coefficients[0, column, j, s] = total[s]
                        coefficients[1, column, j, s] = total[s]
                if layout.line[i]:
                    for s in range(LANES):
                        # Extremes of a linear term lie at the ends, those of a table at one of its cells.
                        one, other = total[s] * low[i, s], total[s] * high[i, s]
                        below[s], above[s] = min(one, other), max(one, other)
                else:
                    for s in range(LANES):
                        if first[i, s] <= cell <= last[i, s]:
                            below[s], above[s] = min(below[s], total[s]), max(above[s], total[s])
            for s in range(LANES):
                bound[0, j, s] += below[s]
                bound[3, j, s] += above[s]
        pad = layout.pads[layout.pad_offsets[1] + j]
        for s in range(LANES):
            # The pad covers what float64 rounds in these sums: bounds move outwards, never inwards.
            least, most = bound[0, j, s], bound[3, j, s]
            bound[0, j, s] = constants[0, j, s] + least - pad
            bound[1, j, s] = constants[0, j, s] + most + pad
            bound[2, j, s] = constants[1, j, s] + least - pad
            bound[3, j, s] = constants[1, j, s] + most + pad
            bound[4, j, s] = constants[2, j, s]
    _copy_constants(constants, relaxed)


@_compile_inner
def _bound_next_layer(layout, layer, box, found, units, source, target):
    """Bounds of the units after ``layer`` >= 1 from those before, with separate lower and upper functions."""
    first, last, low, high = box
    bound, relaxed, scratch, active = units.bound, units.relaxed, units.scratch, units.active
    width, wide = layout.widths[layer], layout.widths[layer + 1]
    keep = layer + 2 < len(layout.widths)
    lower, upper = np.zeros(LANES), np.zeros(LANES)
    extent = np.empty((4, LANES))
    constants = np.empty((3, wide, LANES))
    order = np.empty(found, dtype=np.int64)
    for j in range(wide):
        _unit_constants(layout, layer, j, found, units, constants)
        # f_j = bias_j + sum_k w_jk relu(z_k). With L_k <= relu(z_k) <= U_k as functions of the input: sum_{w > 0} w L_k
        # + sum_{w < 0} w U_k <= f_j - bias_j <= sum_{w > 0} w U_k + sum_{w < 0} w L_k.
        # Units with a positive weight first: theirs pass lower to lower, the others upper to lower.
        positive = 0
        for turn in range(2):
            for n in range(found):
                if (layout.weights[layout.offsets[layer] + j * width + active[n]] > 0.0) == (turn == 0):
                    order[positive] = active[n]
                    positive += 1
            if turn == 0:
                split = positive
        for n in range(found):
            weight = layout.weights[layout.offsets[layer] + j * width + order[n]]
            one, other = (0, 1) if n < split else (1, 0)
            for s in range(LANES):
                scratch[0, n, s] = weight * relaxed[one, order[n], s]
                scratch[1, n, s] = weight * relaxed[other, order[n], s]
        # Attributes vary independently in a box: ranges add up, the lower function's in bound[:2], the upper's in [2:].
        for e in range(4):
            for s in range(LANES):
                bound[e, j, s] = 0.0
        for i in range(len(layout.line)):
            begin, end = np.int64(0), np.int64(1)
            if not layout.line[i]:
                begin, end = _cell_hull(first, last, i)
                extent[0], extent[2] = np.inf, np.inf
                extent[1], extent[3] = -np.inf, -np.inf
            for cell in range(begin, end):
                column = layout.start[i] + cell
                lower[:] = 0.0
                upper[:] = 0.0
                for n in range(split):
                    for s in range(LANES):
                        lower[s] += source[0, column, order[n], s] * scratch[0, n, s]
                        upper[s] += source[1, column, order[n], s] * scratch[1, n, s]
                for n in range(split, found):
                    for s in range(LANES):
                        lower[s] += source[1, column, order[n], s] * scratch[0, n, s]
                        upper[s] += source[0, column, order[n], s] * scratch[1, n, s]
                if keep:
                    for s in range(LANES):
                        target[0, column, j, s] = lower[s]
                        target[1, column, j, s] = upper[s]
                if layout.line[i]:
                    for s in range(LANES):
                        one, other = lower[s] * low[i, s], lower[s] * high[i, s]
                        extent[0, s], extent[1, s] = min(one, other), max(one, other)
                        one, other = upper[s] * low[i, s], upper[s] * high[i, s]
                        extent[2, s], extent[3, s] = min(one, other), max(one, other)
                else:
                    for s in range(LANES):
                        if first[i, s] <= cell <= last[i, s]:
                            extent[0, s], extent[1, s] = min(extent[0, s], lower[s]), max(extent[1, s], lower[s])
                            extent[2, s], extent[3, s] = min(extent[2, s], upper[s]), max(extent[3, s], upper[s])
            for e in range(4):
                for s in range(LANES):
                    bound[e, j, s] += extent[e, s]
        pad = layout.pads[layout.pad_offsets[layer + 1] + j]
        for s in range(LANES):
            bound[0, j, s] += constants[0, j, s] - pad
            bound[1, j, s] += constants[0, j, s] + pad
            bound[2, j, s] += constants[1, j, s] - pad
            bound[3, j, s] += constants[1, j, s] + pad
            bound[4, j, s] = constants[2, j, s]
    _copy_constants(constants, relaxed)


@_compile_inner
def _cell_hull(first, last, i):
    """Return the range of cells that holds those of all boxes: begin and end."""
    # Coefficients of a table are computed for a column at a time, in all lanes: for those that some lane needs.
    begin, end = first[i, 0], last[i, 0]
    for s in range(LANES):
        begin, end = min(begin, first[i, s]), max(end, last[i, s])
    return begin, end + 1


@_compile_inner
def _unit_constants(layout, layer, j, found, units, constants):
    """Constants of the lower and upper function of one unit of the next layer, and its float32 error."""
    # The lower function of unit j is bias + sum w L_k, with L_k the lower function of ReLU k where w > 0, else the
    # upper one. Here the constants; and e_j = gamma * |bias| + sum |w| * (what ReLU k passes on and rounds).
    relaxed, active = units.relaxed, units.active
    begin = layout.offsets[layer] + j * layout.widths[layer]
    bias = layout.bias[layout.bias_offsets[layer] + j]
    error = layout.gammas[layer + 1] * layout.bias_sizes[layout.bias_offsets[layer] + j]
    for s in range(LANES):
        constants[0, j, s] = bias
        constants[1, j, s] = bias
        constants[2, j, s] = error
    for n in range(found):
        k = active[n]
        weight, size = layout.weights[begin + k], layout.sizes[begin + k]
        one, other = (2, 3) if weight > 0.0 else (3, 2)
        for s in range(LANES):
            constants[0, j, s] += weight * relaxed[one, k, s]
            constants[1, j, s] += weight * relaxed[other, k, s]
            constants[2, j, s] += size * relaxed[4, k, s]


@_compile_inner
def _copy_constants(constants, relaxed):
    for j in range(constants.shape[1]):
        for s in range(LANES):
            relaxed[2, j, s] = constants[0, j, s]
            relaxed[3, j, s] = constants[1, j, s]


@_compile_inner
def _compare_labels(layout, bound, everything, possible, kept, same, apart, open_margin):
    """Compute which labels are possible under one assignment, against those possible under the others so far."""
    layers = len(layout.widths)
    for s in range(LANES):
        labels = everything
        for m in range(layout.widths[layers - 1]):
            # 1.001: the error was itself computed in floating point. A margin surely above zero rules out its first
            # label, one surely below zero its second; a tie is decided by neither.
            threshold = 1.001 * bound[4, m, s] + layout.threshold[m]
            if bound[0, m, s] > threshold:
                labels &= ~(np.int64(1) << layout.pairs[m, 0])
            elif bound[3, m, s] < -threshold:
                labels &= ~(np.int64(1) << layout.pairs[m, 1])
            else:
                open_margin[m, s] = True
        new = True
        for w in range(kept[s]):
            # Sets that share no label: the two assignments differ for everybody in the box.
            new = new and possible[w, s] != labels
            apart[s] = apart[s] or possible[w, s] & labels == 0
        if new and kept[s] < MAX_WITNESSES:
            possible[kept[s], s] = labels
            kept[s] += 1
        same[s] = same[s] and labels == possible[0, s]


@_compile_inner
def _smear_scores(layout, box, phase, open_margin, gradient, smear):
    """Compute the width times interval gradient of each attribute, added up over assignments and undecided margins."""
    # smear_i = (high_i - low_i) * sum over margins m and assignments p of max |d m / d x_i| (FairQuant, Algorithm 3).
    # The gradient interval starts at the margin's weights; each layer back masks it by ReLU and multiplies by weights.
    first, last, low, high = box
    layers = len(layout.widths)
    lower, upper = np.empty(LANES), np.empty(LANES)
    smear[:] = 0.0
    for m in range(layout.widths[layers - 1]):
        wanted = False
        for s in range(LANES):
            wanted = wanted or open_margin[m, s]
        if not wanted:
            continue
        for p in range(phase.shape[0]):
            # gradient[now] holds the ends of d m / d relu(z_k) for the units of the layer reached; halves take turns.
            now = np.int64(0)
            if layers == 1:
                for k in range(layout.widths[0]):
                    _fill_gradient(gradient, k, 1.0 if k == m else 0.0)
            else:
                units = layout.widths[layers - 2]
                begin = layout.offsets[layers - 2] + m * units
                for k in range(units):
                    _fill_gradient(gradient, k, layout.weights[begin + k])
                for layer in range(layers - 2, 0, -1):
                    _mask_gradient(layout, layer, phase, p, gradient[now])
                    _backpropagate(layout, layer - 1, gradient[now], gradient[1 - now])
                    now = 1 - now
                _mask_gradient(layout, np.int64(0), phase, p, gradient[now])
            for i in range(len(layout.line)):
                column = layout.start[i]
                if layout.line[i]:
                    # d m / d x_i = sum over k of slope_k * d m / d z_k; its size times the range bounds the change.
                    lower[:] = 0.0
                    upper[:] = 0.0
                    for k in range(layout.widths[0]):
                        slope = layout.columns[column, k]
                        one, other = (0, 1) if slope > 0.0 else (1, 0)
                        for s in range(LANES):
                            lower[s] += slope * gradient[now, one, k, s]
                            upper[s] += slope * gradient[now, other, k, s]
                    for s in range(LANES):
                        if open_margin[m, s]:
                            smear[i, s] += max(-lower[s], upper[s]) * (high[i, s] - low[i, s])
                else:
                    for s in range(LANES):
                        if open_margin[m, s]:
                            smear[i, s] += _largest_jump(layout, gradient, now, column, first[i, s], last[i, s], s)


@_compile_inner
def _fill_gradient(gradient, k, value):
    for s in range(LANES):
        gradient[0, 0, k, s] = value
        gradient[0, 1, k, s] = value


@_compile_inner
def _largest_jump(layout, gradient, now, column, first, last, s):
    """Return the most that a change from the first cell to another one of the range can change the margin."""
    # Along a table's cells the gradient is a difference, sum_k g_k * (c_k(cell) - c_k(first)) with each g_k anywhere in
    # its interval: the largest size of it.
    best = 0.0
    for cell in range(first + 1, last + 1):
        lower, upper = 0.0, 0.0
        for k in range(layout.widths[0]):
            change = layout.columns[column + cell, k] - layout.columns[column + first, k]
            one, other = change * gradient[now, 0, k, s], change * gradient[now, 1, k, s]
            lower += min(one, other)
            upper += max(one, other)
        best = max(best, max(-lower, upper))
    return best


@_compile_inner
def _mask_gradient(layout, layer, phase, p, gradient):
    for k in range(layout.widths[layer]):
        unit = layout.pad_offsets[layer] + k
        for s in range(LANES):
            # d relu / dz is 0 where off, 1 where on, anything in [0, 1] where unstable: the hull of [0, 1] * [lower,
            # upper] is [min(lower, 0), max(upper, 0)].
            state = phase[p, unit, s]
            lower, upper = gradient[0, k, s], gradient[1, k, s]
            gradient[0, k, s] = 0.0 if state == OFF else (lower if state == ON else min(lower, 0.0))
            gradient[1, k, s] = 0.0 if state == OFF else (upper if state == ON else max(upper, 0.0))


@_compile_inner
def _backpropagate(layout, layer, gradient, target):
    """Compute the interval gradient at the units before a layer from that at the units after it."""
    units = layout.widths[layer]
    for k in range(units):
        for s in range(LANES):
            target[0, k, s] = 0.0
            target[1, k, s] = 0.0
    for j in range(layout.widths[layer + 1]):
        alive = False
        for s in range(LANES):
            alive = alive or gradient[0, j, s] != 0.0 or gradient[1, j, s] != 0.0
        if not alive:
            continue
        begin = layout.offsets[layer] + j * units
        for k in range(units):
            # w * [lower, upper] is [w * lower, w * upper] for w > 0, else the ends change places.
            weight = layout.weights[begin + k]
            one, other = (0, 1) if weight > 0.0 else (1, 0)
            for s in range(LANES):
                target[0, k, s] += weight * gradient[one, j, s]
                target[1, k, s] += weight * gradient[other, j, s]
