"""Linear lower functions of every margin over a box, in float64 (compiled); see ``floats.network`` for their rounding.

Each ReLU is replaced, from the last layer to the first, by a line on the correct side of it, as ``bounds`` does in
integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.checker.kernels import jit
from evenhand.core.kernels import array_table, new_arrays

OFF, ON, MIXED = 0, 1, 2


BoundArrays = array_table(
    "BoundArrays",
    __name__,
    {
        # Bounds of units before ReLU; slope of the line through both ends of ReLU; float32 errors.
        "low high chord error": "float64 layers units",
        # OFF, ON or MIXED.
        "state": "int64 layers units",
        # Smallest and largest entry of each attribute in the box.
        "near far": "float64 axes",
        # Coefficients of a layer and of the layer before, in the backward pass; of the first units at its end; and the
        # sum of the absolute final coefficients of the first units.
        "coefficient following unit weight": "float64 units",
        # Coefficients of the columns, and final coefficients with final constants and minima over the box.
        "column": "float64 columns",
        "function": "float64 functions 2 columns",
        "constant least": "float64 functions 2",
        # Constants under each assignment if all are bounded together, by sign and slope.
        "offset": "float64 2 2 assignments",
        # Possible labels under each assignment, as bits.
        "sets": "int64 assignments",
        # Width of the first units by attribute.
        "spread": "float64 axes units",
    },
)
"""Work arrays of one thread. The second axis of ``function``, ``constant`` and ``least`` is the choice of slopes."""


def bound_arrays(net: Any, functions: int) -> Any:
    """Allocate the work arrays."""
    return new_arrays(
        BoundArrays,
        layers=len(net.sizes),
        units=net.pads.shape[1],
        axes=max(1, len(net.line)),
        columns=max(1, net.columns.shape[1]),
        functions=functions,
        assignments=len(net.bases),
    )


@jit
def entry_range(net, i, cell):
    """Compute the smallest and the largest entry of a cell of an attribute."""
    if net.values[i] > 0:
        # Integers below 2**53 are exact.
        begin = net.first[i] + cell * net.values[i]
        return begin, min(begin + (net.values[i] - 1), net.last[i])
    return net.entry_low[net.cell[i] + cell], net.entry_high[net.cell[i] + cell]


@jit
def bound_box(net, begin, end, low, high, w):
    """Bound all units except the margins, and their errors, for a box under assignments ``first`` to ``last - 1``."""
    _bound_first_units(net, begin, end, low, high, w)
    depth = len(net.sizes) - 1
    for k in range(depth):
        _choose_lines(net, k, w)
        _bound_errors(net, k, w)
        if k + 1 < depth:
            _bound_layer(net, k + 1, begin, end, low, high, w)


@jit
def _bound_first_units(net, begin, end, low, high, w):
    # z_j = base_pj + sum_i term_ij(x_i): attributes vary independently in a box, so the range of z_j is the sum of the
    # ranges of its terms, with the least and the greatest base over p. In float32, z_j errs by gamma times the sum of
    # the sizes of its terms.
    units = net.sizes[0]
    for j in range(units):
        a = net.bases[begin, j]
        b = a
        for p in range(begin + 1, end):
            a = min(a, net.bases[p, j])
            b = max(b, net.bases[p, j])
        w.low[0, j] = a
        w.high[0, j] = b
        w.error[0, j] = net.terms[j]
    for i in range(len(net.line)):
        at = net.start[i]
        if net.line[i]:
            # A line is monotone, so its extremes are at the first and last cells.
            x, y = entry_range(net, i, low[i])
            u, v = entry_range(net, i, high[i])
            w.near[i] = min(x, u)
            w.far[i] = max(y, v)
        for j in range(units):
            if net.line[i]:
                x, y = net.columns[j, at] * w.near[i], net.columns[j, at] * w.far[i]
                a, b = min(x, y), max(x, y)
            else:
                a = net.columns[j, at + low[i]]
                b = a
                for c in range(at + low[i] + 1, at + high[i] + 1):
                    a = min(a, net.columns[j, c])
                    b = max(b, net.columns[j, c])
            w.low[0, j] += a
            w.high[0, j] += b
            w.error[0, j] += max(abs(a), abs(b))
            w.spread[i, j] = b - a
    for j in range(units):
        w.low[0, j] -= net.pads[0, j]
        w.high[0, j] += net.pads[0, j]
        w.error[0, j] *= net.gammas[0]


@jit
def _choose_lines(net, k, w):
    """Determine the state of the ReLU of each unit of a layer, and its chord."""
    for h in range(net.sizes[k]):
        a, b = w.low[k, h], w.high[k, h]
        if b <= 0:
            w.state[k, h] = OFF
        elif a >= 0 and (k > 0 or b <= net.caps[h]):
            w.state[k, h] = ON
        else:
            w.state[k, h] = MIXED
            # From (a, 0) to (b, b). Any slope is sound because the constant is computed for it.
            w.chord[k, h] = min(1.0, b / (b - a)) if b > a else 1.0


@jit
def _bound_errors(net, k, w):
    """Bound the float32 errors of the next layer's units from those of layer k."""
    # The model computes z + e with |e| <= error. ReLU never increases a distance, and is 0 for both numbers if z + e
    # cannot be positive. The sum then errs by gamma times the sizes of its terms, |weight| * (activation + its error).
    gamma = net.gammas[k + 1]
    for g in range(net.sizes[k + 1]):
        total = gamma * net.bias_sizes[k, g]
        for h in range(net.sizes[k]):
            b = w.high[k, h]
            passed = max(0.0, min(w.error[k, h], b + w.error[k, h]))
            total += net.weight_sizes[k, g, h] * (passed + gamma * (max(b, 0.0) + passed))
        w.error[k + 1, g] = total * (1 + 2.0**-30)


@jit
def _bound_layer(net, k, begin, end, low, high, w):
    """Bound the units of layer k by lines over the box and by intervals; use the tightest."""
    for g in range(net.sizes[k]):
        # By intervals.
        a = b = net.biases[k - 1, g]
        for h in range(net.sizes[k - 1]):
            x = net.weights[k - 1, g, h]
            y, z = max(w.low[k - 1, h], 0.0), max(w.high[k - 1, h], 0.0)
            if k == 1:
                y, z = min(y, net.caps[h]), min(z, net.caps[h])
            a += x * (y if x > 0 else z)
            b += x * (z if x > 0 else y)
        # Side 0 bounds z_g from below; side 1 bounds -z_g from below, and so z_g from above.
        for flat in range(2):
            for side in range(2):
                sign = 1.0 - 2.0 * side
                constant = substitute_back(net, k, g, sign, flat == 1, w)
                value = constant + least_base(net, begin, end, w) + least_terms(net, low, high, w.column, w)
                if side == 0:
                    a = max(a, value)
                else:
                    b = min(b, -value)
        w.low[k, g] = a - net.pads[k, g]
        w.high[k, g] = max(b + net.pads[k, g], w.low[k, g])


@jit
def substitute_back(net, k, g, sign, flat, w):
    """Express ``sign`` times unit g of layer k in terms of first units (``w.unit``) and columns; return the constant.

    With ``flat``, the line below an unstable ReLU is 0; otherwise it is 0 or z, depending on which encloses the smaller
    area.
    """
    constant = sign * net.biases[k - 1, g]
    current, following = w.coefficient, w.following
    for h in range(net.sizes[k - 1]):
        current[h] = sign * net.weights[k - 1, g, h]
    # Invariant: sign * z_kg >= constant + sum_h current[h] * relu(z_mh) everywhere in the box. A pass replaces the
    # ReLUs of layer m by lines, then z_m by activations of layer m - 1, or by columns.
    for m in range(k - 1, -1, -1):
        units = net.sizes[m]
        if m > 0:
            following[: net.sizes[m - 1]] = 0.0
        else:
            w.column[:] = 0.0
        for h in range(units):
            c = current[h]
            kind = w.state[m, h]
            if kind == OFF or c == 0.0:
                if m == 0:
                    w.unit[h] = 0.0
                continue
            v = c
            if kind == MIXED:
                a, b = w.low[m, h], w.high[m, h]
                if m == 0 and net.caps[h] < np.inf:
                    v, more = _clamp_line(c, a, b, net.caps[h], flat)
                    constant += more
                elif c > 0:
                    # c relu(z) >= c z and >= 0. As in DeepPoly (Singh et al., POPL 2019), the line with the smaller
                    # area between it and the ReLU is used.
                    if flat or b < -a:
                        v = 0.0
                else:
                    # c relu(z) is concave, so its distance above the line v z is smallest at an end.
                    v = c * w.chord[m, h]
                    constant += min(-v * a, c * b - v * b)
            if m > 0:
                constant += v * net.biases[m - 1, h]
                for q in range(net.sizes[m - 1]):
                    following[q] += v * net.weights[m - 1, h, q]
            else:
                w.unit[h] = v
                for q in range(net.columns.shape[1]):
                    w.column[q] += v * net.columns[h, q]
        current, following = following, current
    return constant


@jit
def _clamp_line(c, a, b, cap, flat):
    """Compute slope v and constant k with ``c min(max(z, 0), cap) >= v z + k`` for all z in [a, b], where b > 0."""
    # For any slope, c clamp(z) - v z is piecewise linear: its minimum is at an end of the range, or at 0 or the cap if
    # these are inside.
    if a >= cap:
        return 0.0, c * cap
    inside, beyond = a < 0, b > cap
    slope = 0.0
    if c > 0:
        # The clamp is convex below the cap. Lines below it: 0, or through 0 (or the near end) up to the far end.
        near = max(a, 0.0)
        if not inside or (not flat and b > -a):
            slope = min(1.0, (min(b, cap) - near) / (b - near)) if b > near else 1.0
    else:
        # It is concave above 0. Lines above it: through the point at the cap, from the near end, or the cap itself.
        if not beyond or (not flat and b - cap < cap - a):
            slope = min(b, cap) / (min(b, cap) - a) if inside else 1.0
    v = c * slope
    constant = min(c * min(max(a, 0.0), cap) - v * a, c * min(b, cap) - v * b)
    if inside:
        constant = min(constant, 0.0)
    if beyond:
        constant = min(constant, c * cap - v * cap)
    return v, constant


@jit
def base_of(net, p, w):
    """Compute the terms of the bias and the protected attributes in a function of first units."""
    total = 0.0
    for h in range(net.sizes[0]):
        total += w.unit[h] * net.bases[p, h]
    return total


@jit
def least_base(net, begin, end, w):
    """Compute the minimum of ``base_of`` over some assignments."""
    lowest = base_of(net, begin, w)
    for p in range(begin + 1, end):
        lowest = min(lowest, base_of(net, p, w))
    return lowest


@jit
def least_terms(net, low, high, column, w):
    """Compute the minimum of the terms of all attributes in a box."""
    # Attributes vary independently in a box: the minimum of the sum is the sum of the minima.
    total = 0.0
    for i in range(len(net.line)):
        at = net.start[i]
        if net.line[i]:
            total += min(column[at] * w.near[i], column[at] * w.far[i])
        else:
            x = column[at + low[i]]
            for c in range(at + low[i] + 1, at + high[i] + 1):
                x = min(x, column[c])
            total += x
    return total


@jit
def bound_functions(net, p, slot, low, high, w):
    """Compute the functions of assignment p, with both slopes, for a box that is already bounded.

    Function ``(slot * margins + m) * 2 + side`` bounds margin m from below (side 0), or its negative.
    """
    margins = net.sizes[len(net.sizes) - 1]
    for m in range(margins):
        for side in range(2):
            f = (slot * margins + m) * 2 + side
            for flat in range(2):
                constant = _function_of(net, m, side, flat, w) + base_of(net, p, w)
                _keep_function(net, f, flat, constant, low, high, w)


@jit
def bound_together(net, low, high, w):
    """Compute the functions of the only margin for all assignments, which then differ by constants (``w.offset``).

    Functions 0 and 1 hold under every assignment, functions 2 and 3 under the one for which they are greatest.
    """
    for side in range(2):
        for flat in range(2):
            constant = _function_of(net, 0, side, flat, w)
            lowest, highest = np.inf, -np.inf
            for p in range(len(net.bases)):
                w.offset[side, flat, p] = constant + base_of(net, p, w)
                lowest = min(lowest, w.offset[side, flat, p])
                highest = max(highest, w.offset[side, flat, p])
            _keep_function(net, side, flat, lowest, low, high, w)
            _keep_function(net, 2 + side, flat, highest, low, high, w)


@jit
def _function_of(net, m, side, flat, w):
    """Express the margin, or its negative, in terms of columns; return the constant minus all rounding errors."""
    # A margin decides a label only beyond the errors of float64 here (the pad), of float32 in the model (the error),
    # and the resolution of its last function.
    depth = len(net.sizes) - 1
    off = net.pads[depth, m] + (w.error[depth, m] + net.tie[m]) * (1 + 2.0**-30)
    sign = 1.0 - 2.0 * side
    if depth:
        constant = substitute_back(net, depth, m, sign, flat == 1, w)
    else:
        constant = 0.0
        w.unit[: net.sizes[0]] = 0.0
        w.unit[m] = sign
        for q in range(net.columns.shape[1]):
            w.column[q] = sign * net.columns[m, q]
    if not flat:
        for h in range(net.sizes[0]):
            w.weight[h] += abs(w.unit[h])
    return constant - off


@jit
def _keep_function(net, f, flat, constant, low, high, w):
    w.constant[f, flat] = constant
    w.least[f, flat] = constant + least_terms(net, low, high, w.column, w)
    for q in range(net.columns.shape[1]):
        w.function[f, flat, q] = w.column[q]


@jit
def choose_axis(net, low, high, w):
    """Select the attribute with the largest contribution to the relaxation gap; -1 if there is none."""
    # An undecided unit's lines miss its ReLU by -a b / (b - a) at z = 0, which is -a b / (b - a)^2 of its range; the
    # 0.02 gives decided units some weight too. This only guides the search: any cut is sound.
    best, axis = -1.0, -1
    for i in range(len(net.line)):
        if low[i] == high[i]:
            continue
        total = 0.0
        for h in range(net.sizes[0]):
            a, b = w.low[0, h], w.high[0, h]
            gap = 0.02
            if a < 0 and b > 0:
                gap += -a * b / (b - a) ** 2
            if b > 0 and a < net.caps[h] < b - a:  # a clamp only changes between 0 and its cap
                gap = 0.25 * net.caps[h] / (b - a)
            total += w.weight[h] * gap * w.spread[i, h]
        if total > best:
            best, axis = total, i
    return axis
