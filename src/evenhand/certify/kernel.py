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

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from evenhand.certify.boxes import FAIR, UNDECIDED, UNFAIR
from evenhand.certify.layout import Layout

LANES = 16
GRADIENTS = 8
"""Assignments whose gradients are averaged, at most."""
WITNESSES = 8
"""Different sets of possible labels that are remembered per box, at most."""

OFF, ON, UNSTABLE = 0, 1, 2


def _compiled(function: Callable[..., Any], **more: bool) -> Callable[..., Any]:
    """Compile, and keep the machine code on disk where there is a place to write."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}, **more}
    try:
        return njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:
        return njit(**options)(function)  # type: ignore[no-any-return]


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only compiled ones call."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_compiled
def decide(lo, hi, final, layout: Layout, status, attribute, sets=None):  # type: ignore[no-untyped-def]
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
    averaged = min(assignments, GRADIENTS)
    first = np.empty((attributes, LANES), dtype=np.int64)
    last = np.empty((attributes, LANES), dtype=np.int64)
    low = np.empty((attributes, LANES))
    high = np.empty((attributes, LANES))
    least = np.empty((layout.widths[0], LANES))
    most = np.empty((layout.widths[0], LANES))
    size = np.empty((layout.widths[0], LANES))
    # Bounds of the units of one layer: ranges of the lower function (0, 1) and the upper one (2, 3), float32 error (4).
    bound = np.empty((5, widest, LANES))
    # After ReLU: slopes (0, 1) and constants (2, 3) of the lower and upper function, float32 error (4).
    relaxed = np.empty((5, widest, LANES))
    deep = layers > 2
    coefficients = np.empty((2, columns, widest, LANES) if deep else (2, 0, 0, LANES))
    later = np.empty((2, columns, widest, LANES) if layers > 3 else (2, 0, 0, LANES))
    scratch = np.empty((2, widest, LANES))
    active = np.empty(widest, dtype=np.int64)
    phase = np.zeros((averaged, layout.pad_offsets[layers - 1] + 1, LANES), dtype=np.int8)
    possible = np.empty((WITNESSES, LANES), dtype=np.int64)
    kept = np.empty(LANES, dtype=np.int64)
    same = np.empty(LANES, dtype=np.bool_)
    apart = np.empty(LANES, dtype=np.bool_)
    open_margin = np.empty((margins, LANES), dtype=np.bool_)
    gradient = np.empty((2, 2, widest, LANES))
    smear = np.empty((attributes, LANES))
    everything = (np.int64(1) << layout.classes) - 1
    for begin in range(0, boxes, LANES):
        used = min(LANES, boxes - begin)
        _load(lo, hi, begin, used, layout, first, last, low, high)
        _first_terms(layout, first, last, low, high, least, most, size)
        same[:] = True
        apart[:] = False
        kept[:] = 0
        open_margin[:] = False
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
                found = _relax(bound, relaxed, layout, np.int64(0), active, phase, p)
                _second(layout, first, last, low, high, active, found, relaxed, scratch, bound, coefficients, deep)
                for layer in range(1, layers - 1):
                    found = _relax(bound, relaxed, layout, layer, active, phase, p)
                    source = coefficients if layer % 2 == 1 else later
                    target = later if layer % 2 == 1 else coefficients
                    _next(layout, layer, first, last, low, high, active, found, relaxed, scratch, bound, source, target)
            _labels(layout, bound, everything, possible, kept, same, apart, open_margin)
        if sets is not None:
            for s in range(used):
                for w in range(WITNESSES):
                    sets[begin + s, w] = possible[w, s] if w < kept[s] else everything
        wanted = False
        for s in range(used):
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
        _smear(layout, first, last, low, high, phase, open_margin, averaged, gradient, smear)
        for s in range(used):
            if status[begin + s] == UNDECIDED and not final[begin + s]:
                best, widest_range = -1.0, -1.0
                for i in range(attributes):
                    cells = last[i, s] - first[i, s]
                    if cells > 0 and (smear[i, s] > best or (smear[i, s] == best and cells > widest_range)):
                        best, widest_range = smear[i, s], float(cells)
                        attribute[begin + s] = i


@_inner
def _load(lo, hi, begin, used, layout, first, last, low, high):  # type: ignore[no-untyped-def]
    """The cells of LANES boxes and their positions along the lines; missing boxes repeat the last one."""
    for i in range(lo.shape[1]):
        start = layout.key_start[i]
        base, step, reach, pad = layout.spacing[i]
        for s in range(LANES):
            box = begin + min(s, used - 1)
            first[i, s], last[i, s] = lo[box, i], hi[box, i]
            if start >= 0:
                low[i, s] = layout.keys[start + lo[box, i]]
                high[i, s] = layout.keys[start + hi[box, i]]
            else:
                low[i, s] = base + step * lo[box, i] - pad
                high[i, s] = base + step * hi[box, i] + reach + pad


@_inner
def _first_terms(layout, first, last, low, high, least, most, size):  # type: ignore[no-untyped-def]
    """What the attributes add to the first units over each box: least, most, and the sum of largest sizes."""
    units = layout.widths[0]
    least[:] = 0.0
    most[:] = 0.0
    size[:] = 0.0
    for i in range(len(layout.line)):
        column = layout.start[i]
        if layout.line[i]:
            for k in range(units):
                slope = layout.columns[column, k]
                for s in range(LANES):
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


@_inner
def _relax(bound, relaxed, layout, layer, active, phase, p):  # type: ignore[no-untyped-def]
    """Linear bounds of ReLU over each box. Constants come in as ``relaxed[2]`` and ``[3]``; returns the units on."""
    gamma = layout.gammas[layer + 1]
    found = 0
    for k in range(layout.widths[layer]):
        alive = 0.0
        for s in range(LANES):
            upper, error = bound[3, k, s], bound[4, k, s]
            passed = max(0.0, min(error, upper + error))
            relaxed[4, k, s] = passed + gamma * (max(upper, 0.0) + passed)
            alive = max(alive, max(upper, passed))
        for s in range(LANES):
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
            active[found] = k
            found += 1
    return found


@_inner
def _second(layout, first, last, low, high, active, found, relaxed, scratch, bound, coefficients, keep):  # type: ignore[no-untyped-def]
    """Bounds of the second layer of units. Lower and upper slopes of the first are equal, and so are coefficients.

    Constants are left in ``relaxed[2]`` and ``[3]``: they are read before they are written over.
    """
    units = layout.widths[0]
    total = np.zeros(LANES)
    below, above = np.empty(LANES), np.empty(LANES)
    constants = np.empty((3, layout.widths[1], LANES))
    for j in range(layout.widths[1]):
        _constants(layout, np.int64(0), j, active, found, relaxed, constants)
        for n in range(found):
            weight = layout.weights[j * units + active[n]]
            for s in range(LANES):
                scratch[0, n, s] = weight * relaxed[0, active[n], s]
        for s in range(LANES):
            bound[0, j, s] = 0.0
            bound[3, j, s] = 0.0
        for i in range(len(layout.line)):
            begin, end = np.int64(0), np.int64(1)
            if not layout.line[i]:
                begin, end = _union(first, last, i)
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
            least, most = bound[0, j, s], bound[3, j, s]
            bound[0, j, s] = constants[0, j, s] + least - pad
            bound[1, j, s] = constants[0, j, s] + most + pad
            bound[2, j, s] = constants[1, j, s] + least - pad
            bound[3, j, s] = constants[1, j, s] + most + pad
            bound[4, j, s] = constants[2, j, s]
    _take(constants, relaxed)


@_inner
def _next(layout, layer, first, last, low, high, active, found, relaxed, scratch, bound, source, target):  # type: ignore[no-untyped-def]
    """Bounds of the units after ``layer`` >= 1 from those before, with separate lower and upper functions."""
    units, wide = layout.widths[layer], layout.widths[layer + 1]
    keep = layer + 2 < len(layout.widths)
    lower, upper = np.zeros(LANES), np.zeros(LANES)
    extent = np.empty((4, LANES))
    constants = np.empty((3, wide, LANES))
    order = np.empty(found, dtype=np.int64)
    for j in range(wide):
        _constants(layout, layer, j, active, found, relaxed, constants)
        # Units with a positive weight first: theirs pass lower to lower, the others upper to lower.
        positive = 0
        for turn in range(2):
            for n in range(found):
                if (layout.weights[layout.offsets[layer] + j * units + active[n]] > 0.0) == (turn == 0):
                    order[positive] = active[n]
                    positive += 1
            if turn == 0:
                split = positive
        for n in range(found):
            weight = layout.weights[layout.offsets[layer] + j * units + order[n]]
            one, other = (0, 1) if n < split else (1, 0)
            for s in range(LANES):
                scratch[0, n, s] = weight * relaxed[one, order[n], s]
                scratch[1, n, s] = weight * relaxed[other, order[n], s]
        for e in range(4):
            for s in range(LANES):
                bound[e, j, s] = 0.0
        for i in range(len(layout.line)):
            begin, end = np.int64(0), np.int64(1)
            if not layout.line[i]:
                begin, end = _union(first, last, i)
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
    _take(constants, relaxed)


@_inner
def _union(first, last, i):  # type: ignore[no-untyped-def]
    """Range of cells that holds those of all boxes: begin and end."""
    begin, end = first[i, 0], last[i, 0]
    for s in range(LANES):
        begin, end = min(begin, first[i, s]), max(end, last[i, s])
    return begin, end + 1


@_inner
def _constants(layout, layer, j, active, found, relaxed, constants):  # type: ignore[no-untyped-def]
    """Constants of the lower and upper function of one unit of the next layer, and its float32 error."""
    units = layout.widths[layer]
    begin = layout.offsets[layer] + j * units
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


@_inner
def _take(constants, relaxed):  # type: ignore[no-untyped-def]
    for j in range(constants.shape[1]):
        for s in range(LANES):
            relaxed[2, j, s] = constants[0, j, s]
            relaxed[3, j, s] = constants[1, j, s]


@_inner
def _labels(layout, bound, everything, possible, kept, same, apart, open_margin):  # type: ignore[no-untyped-def]
    """Which labels are possible under one assignment, against those possible under the others so far."""
    layers = len(layout.widths)
    for s in range(LANES):
        labels = everything
        for m in range(layout.widths[layers - 1]):
            threshold = 1.001 * bound[4, m, s] + layout.threshold[m]
            if bound[0, m, s] > threshold:
                labels &= ~(np.int64(1) << layout.pairs[m, 0])
            elif bound[3, m, s] < -threshold:
                labels &= ~(np.int64(1) << layout.pairs[m, 1])
            else:
                open_margin[m, s] = True
        new = True
        for w in range(kept[s]):
            new = new and possible[w, s] != labels
            apart[s] = apart[s] or possible[w, s] & labels == 0
        if new and kept[s] < WITNESSES:
            possible[kept[s], s] = labels
            kept[s] += 1
        same[s] = same[s] and labels == possible[0, s]


@_inner
def _smear(layout, first, last, low, high, phase, open_margin, averaged, gradient, smear):  # type: ignore[no-untyped-def]
    """Width times interval gradient of each attribute, added up over assignments and undecided margins."""
    layers = len(layout.widths)
    lower, upper = np.empty(LANES), np.empty(LANES)
    smear[:] = 0.0
    for m in range(layout.widths[layers - 1]):
        wanted = False
        for s in range(LANES):
            wanted = wanted or open_margin[m, s]
        if not wanted:
            continue
        for p in range(averaged):
            now = np.int64(0)
            if layers == 1:
                for k in range(layout.widths[0]):
                    _fill(gradient, k, 1.0 if k == m else 0.0)
            else:
                units = layout.widths[layers - 2]
                begin = layout.offsets[layers - 2] + m * units
                for k in range(units):
                    _fill(gradient, k, layout.weights[begin + k])
                for layer in range(layers - 2, 0, -1):
                    _mask(layout, layer, phase, p, gradient[now])
                    _back(layout, layer - 1, gradient[now], gradient[1 - now])
                    now = 1 - now
                _mask(layout, np.int64(0), phase, p, gradient[now])
            for i in range(len(layout.line)):
                column = layout.start[i]
                if layout.line[i]:
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
                            smear[i, s] += _jump(layout, gradient, now, column, first[i, s], last[i, s], s)


@_inner
def _fill(gradient, k, value):  # type: ignore[no-untyped-def]
    for s in range(LANES):
        gradient[0, 0, k, s] = value
        gradient[0, 1, k, s] = value


@_inner
def _jump(layout, gradient, now, column, first, last, s):  # type: ignore[no-untyped-def]
    """The most that a change from the first cell to another one of the range can change the margin."""
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


@_inner
def _mask(layout, layer, phase, p, gradient):  # type: ignore[no-untyped-def]
    for k in range(layout.widths[layer]):
        unit = layout.pad_offsets[layer] + k
        for s in range(LANES):
            state = phase[p, unit, s]
            lower, upper = gradient[0, k, s], gradient[1, k, s]
            gradient[0, k, s] = 0.0 if state == OFF else (lower if state == ON else min(lower, 0.0))
            gradient[1, k, s] = 0.0 if state == OFF else (upper if state == ON else max(upper, 0.0))


@_inner
def _back(layout, layer, gradient, target):  # type: ignore[no-untyped-def]
    """Interval gradient at the units before a layer from that at the units after it."""
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
            weight = layout.weights[begin + k]
            one, other = (0, 1) if weight > 0.0 else (1, 0)
            for s in range(LANES):
                target[0, k, s] += weight * gradient[one, j, s]
                target[1, k, s] += weight * gradient[other, j, s]
