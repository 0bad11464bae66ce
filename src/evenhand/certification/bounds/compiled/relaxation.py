"""Linear bounds of a ReLU network over sixteen boxes at once (compiled).

Backward linear relaxation (CROWN: Zhang et al., NeurIPS 2018; DeepPoly: Singh et al., POPL 2019): the output is bounded
from below and above by additive functions of the individual. Inner units are bounded by the same relaxation,
intersected with interval arithmetic, and widened by the pads of ``slack``.

Layout. ``columns`` holds what attributes add to the first units: one row for an attribute that enters along a line
(per position, ``reach`` positions wide), one row per cell for the others. Lanes are the last axis of every work array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from evenhand.certification.bounds.compiled.lanes import (
    LANES,
    add,
    axpy,
    divide,
    fill_vector,
    largest,
    load_row,
    maximum,
    minimum,
    multiply,
    multiply_add,
    select_positive,
    store_row,
    subtract,
)
from evenhand.core.kernels import array_table, compile_kernel, new_arrays
from evenhand.core.typing import Booleans, Floats, Integers

# Without reference counts on views (``_nrt``), which would cost several times the arithmetic, so kernels allocate
# nothing.
jit = compile_kernel(
    internal=True, nogil=True, error_model="numpy", fastmath={"contract"}, boundscheck=False, _nrt=False
)


# LLVM inlines this because passing the work arrays takes longer than the body.
inlined = compile_kernel(
    internal=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract"},
    boundscheck=False,
    _nrt=False,
    forceinline=True,
)

UNKNOWN, OFF, ON = 0, 1, 2
"""State of a unit in a whole box, and therefore in all of its parts."""
UNBOUNDED = 1e100


class FlatNetwork(NamedTuple):
    """Network in flat arrays, with ``K`` hidden layers and the outputs, of at most ``m`` units each.

    ``sizes`` (K + 1,); ``columns`` (columns, m); ``least`` and ``greatest``, the minimum and maximum over runs of 2**k
    columns by their first column, (levels, columns, m); ``start``, ``line``, ``reach`` by attribute; ``weights`` (K, m,
    m) and ``offsets`` (K, m) of the layer after each hidden layer; ``pads`` (K, m); for the rounding of the model,
    ``first_error`` (m,), ``gammas`` (K + 1,), ``bias_sizes`` (K, m), ``output_sizes`` (m, outputs), which bound the
    last weights as deployed, and ``last_pads`` (outputs,). ``capped`` (m,) is, for unit h of the second hidden layer,
    the first unit u with ``z_h = a - relu(z_u)`` that no other unit reads, -1 if there is none; these units u are
    ``capping``.
    """

    sizes: Integers
    columns: Floats
    least: Floats
    greatest: Floats
    start: Integers
    line: Booleans
    reach: Floats
    weights: Floats
    offsets: Floats
    pads: Floats
    first_error: Floats
    gammas: Floats
    bias_sizes: Floats
    output_sizes: Floats
    last_pads: Floats
    capped: Integers
    capping: Booleans


RelaxationBuffers = array_table(
    "RelaxationBuffers",
    __name__,
    {
        # Interval of each unit, slope and shift of the chord above its ReLU, slope of the line below, and the gap per
        # unit of width.
        "zl zu slope shift least gaps": "float64 layers units lanes",
        # Constant of the line below, in the second layer.
        "floor": "float64 units lanes",
        # Float32 errors, including those of the outputs.
        "error": "float64 depths units lanes",
        # Positive in lanes whose lines below have slope 0 wherever possible.
        "flat": "float64 1 lanes",
        # Each row: unit with the largest loss due to its chord, and the loss (``bend``); the same with the other lower
        # lines (``other``); saved line of the unit while another replaces it (``kept``).
        "bend other kept": "float64 2 lanes",
        # Mixed units, and units that are on in every lane; their numbers.
        "live on": "int64 layers units",
        "mixed always": "int64 layers",
        # Weights in the backward pass; coefficients of the columns, the constant, and an extreme value.
        "wa wb": "float64 units lanes",
        "coef": "float64 columns lanes",
        "const out": "float64 1 lanes",
        # Range of each attribute, and of the first units without their biases.
        "middle half": "float64 attributes lanes",
        "base_low base_high": "float64 units lanes",
        "sum_low sum_high": "float64 units",
        # Range of the cells of each attribute in the boxes of all lanes.
        "held_low held_high": "int64 attributes",
    },
)
"""Work arrays of one thread."""


def relaxation_buffers(net: FlatNetwork) -> Any:
    """Allocate the work arrays of a network."""
    depth, units = len(net.sizes), net.weights.shape[1]
    room = new_arrays(
        RelaxationBuffers,
        layers=depth - 1,
        depths=depth,
        units=units,
        columns=len(net.columns),
        attributes=len(net.start),
        lanes=LANES,
    )
    room.bend[:] = room.other[:] = -1.0
    return room


@jit
def bound_first_layer(net, lo, hi, s):
    """Compute the interval of every first unit without its bias: exact for the box, attribute by attribute."""
    n, units = lo.shape[0], net.sizes[0]
    # z_h(x) = bias_h + sum_i c_ih(x_i) is a sum of tables and lines, one per attribute. Over a product of ranges the
    # terms are independent, so the extremes of the sum are the sums of the extremes, without relaxation. The
    # assignments differ only in the bias, which is added later.
    for i in range(n):
        # c * x over [m - r, m + r] is c * m - |c| * r to c * m + |c| * r: no branch on the sign of c.
        a = multiply(fill_vector(0.5), load_row(lo, i))
        b = multiply(fill_vector(0.5), add(load_row(hi, i), fill_vector(net.reach[i])))
        store_row(s.middle, i, add(b, a))
        store_row(s.half, i, subtract(b, a))
    # Invariant: base_low and base_high of unit h hold the extremes of its lines; the tables are added after them.
    for h in range(units):
        middle = fill_vector(0.0)
        half = fill_vector(0.0)
        for i in range(n):
            if net.line[i]:
                x = net.columns[net.start[i], h]
                middle = axpy(x, load_row(s.middle, i), middle)
                half = axpy(abs(x), load_row(s.half, i), half)
        store_row(s.base_low, h, subtract(middle, half))
        store_row(s.base_high, h, add(middle, half))
    # A table adds the minimum and maximum of its entries in the lane's cells, taken from two overlapping runs.
    low, high = s.sum_low, s.sum_high
    for t in range(LANES):
        for h in range(units):
            low[h] = 0.0
            high[h] = 0.0
        for i in range(n):
            if not net.line[i]:
                a = net.start[i] + int(lo[i, t])
                b = net.start[i] + int(hi[i, t])
                k, last = run_of_columns(net, a, b)
                if last - a <= 1 << k:
                    for h in range(units):
                        low[h] += min(net.least[k, a, h], net.least[k, last, h])
                        high[h] += max(net.greatest[k, a, h], net.greatest[k, last, h])
                    continue
                for h in range(units):
                    x, y = range_of_columns(net, h, a, k, last)
                    low[h] += x
                    high[h] += y
        for h in range(units):
            s.base_low[h, t] += low[h]
            s.base_high[h, t] += high[h]


@inlined
def run_of_columns(net, a, b):
    """Find the longest tabulated run of 2**k columns within columns a to b, and the start of the last such run."""
    k = 0
    while k + 1 < net.least.shape[0] and (2 << k) <= b - a + 1:
        k += 1
    return k, b + 1 - (1 << k)


@inlined
def range_of_columns(net, h, a, k, last):
    """Return the minimum and maximum entry of unit h in the runs of 2**k columns from column a to that at last."""
    x = net.least[k, last, h]
    y = net.greatest[k, last, h]
    for c in range(a, last, 1 << k):
        x = min(x, net.least[k, c, h])
        y = max(y, net.greatest[k, c, h])
    return x, y


@jit
def relax_layer(k, net, s):
    """Widen the intervals of layer k, then draw the lines above and below each ReLU.

    Units that are off in every lane are skipped; units that are on in every lane are kept separately because they are
    already linear.
    """
    zl, zu, error = s.zl[k], s.zu[k], s.error[k]
    chord, shifts = s.slope[k], s.shift[k]
    zero = fill_vector(0.0)
    ones = fill_vector(1.0)
    mixed = 0
    always = 0
    for h in range(net.sizes[k]):
        # The pad covers the rounding of these bounds, the error that of the deployed float32 unit.
        pad = fill_vector(net.pads[k, h])
        low = subtract(load_row(zl, h), pad)
        high = add(load_row(zu, h), pad)
        store_row(zl, h, low)
        store_row(zu, h, high)
        # Off in every lane, also in the deployed float32 model (hence the error): ReLU returns 0.
        if largest(add(high, load_row(error, h))) <= 0:
            continue
        # On in every lane: relu(z) = z needs no line, and all lanes share one weight in the backward pass.
        below = subtract(zero, low)
        if largest(below) <= 0:
            s.on[k, always] = h
            always += 1
            continue
        s.live[k, mixed] = h
        mixed += 1
        # For z in [l, u] with l < 0 < u: relu(z) <= u / (u - l) * (z - l) = slope * z + shift, the chord of a convex
        # function. In lanes where the sign is known, the line is exact: slope 1 where on, 0 where off, no shift.
        slope = select_positive(high, divide(high, subtract(high, low)), zero)
        store_row(chord, h, select_positive(below, slope, ones))
        store_row(shifts, h, select_positive(below, multiply(slope, below), zero))
        draw_line_below(k, h, net, s)
    s.mixed[k] = mixed
    s.always[k] = always


@inlined
def draw_line_below(k, h, net, s):
    """Draw the line below a ReLU."""
    # relu(z) >= a * z for every a in [0, 1]. a = 1 where u > -l, else 0, leaves the least area between this and the
    # chord (CROWN, DeepPoly); a = 0 (flat) is better where most of the mass is below zero.
    zero = fill_vector(0.0)
    ones = fill_vector(1.0)
    below = subtract(zero, load_row(s.zl[k], h))
    slope = select_positive(subtract(load_row(s.zu[k], h), below), ones, zero)
    slope = select_positive(load_row(s.flat, 0), zero, slope)
    store_row(s.least[k], h, select_positive(below, slope, ones))
    if k == 1 and net.capped[h] >= 0:
        relax_capped_unit(h, net, s)


@jit
def draw_lines_below(flat, net, s):
    """Set the lines below all ReLUs again, with slope 0 in lanes where ``flat`` is above 0."""
    store_row(s.flat, 0, flat)
    for k in range(net.sizes.shape[0] - 1):
        for q in range(s.mixed[k]):
            draw_line_below(k, s.live[k, q], net, s)


@inlined
def relax_capped_unit(h, net, s):
    """Draw the line below relu(a - relu(u)) as a function of u: a minus u, clamped to [0, a]."""
    # Separate lines for both ReLUs are far from the clamp c(u) = a - relu(a - relu(u)). For l < 0 < a < L its concave
    # envelope on [l, L] is the chord from (l, 0) to (a, a), then a: so c(u) <= a (u - l) / (a - l) = slope * chord(u),
    # where chord(u) = L (u - l) / (L - l) is the line above relu(u), and slope < 1. In terms of v = a - relu(u) that is
    # the line slope * v + (1 - slope) * a below relu(v). It is a lower bound only together with that chord. Where it is
    # used, the weight of relu(u) has the sign that selects the chord, because no other unit reads u. Between this line
    # and c(u) <= a, the one with the smaller area is used.
    u = net.capped[h]
    a = net.offsets[0, h]
    for t in range(LANES):
        low = s.zl[0, u, t]
        high = s.zu[0, u, t]
        s.floor[h, t] = 0.0
        if s.flat[0, t] <= 0 and low < 0 and a > 0 and high > a:
            slope = 0.0
            if high - a < a - low:
                slope = min(1.0, a * (high - low) / (high * (a - low)) * (1 + 1e-15))
                s.floor[h, t] = (1 - slope) * a
            s.least[1, h, t] = slope


@inlined
def through_relu(k, net, s, up, bending, weights):
    """Replace each mixed ReLU by its line above or below, depending on the sign of its weight."""
    # A lower bound of x * relu(z) takes the line below where x > 0 and the chord where x < 0; an upper bound the
    # reverse. With x = x+ + x-: x * relu(z) >= x+ * a * z + x- * (slope * z + shift).
    zero = fill_vector(0.0)
    live, slope, shift = s.live[k], s.slope[k], s.shift[k]
    lower_slopes = s.least[k]
    const = load_row(s.const, 0)
    for q in range(s.mixed[k]):
        h = live[q]
        x = load_row(weights, h)
        if up:
            chord = maximum(x, zero)
            remainder = minimum(x, zero)
        else:
            chord = minimum(x, zero)
            remainder = maximum(x, zero)
        store_row(weights, h, multiply_add(chord, load_row(slope, h), multiply(remainder, load_row(lower_slopes, h))))
        const = multiply_add(chord, load_row(shift, h), const)
        if k == 1 and net.capped[h] >= 0:
            const = multiply_add(remainder, load_row(s.floor, h), const)
        if bending and not (k == 0 and net.capping[h]):
            # The chord is farthest from ReLU at zero, where it is ``shift``.
            loss = multiply(maximum(chord, subtract(zero, chord)), load_row(shift, h))
            number = fill_vector(float(k * net.weights.shape[1] + h))
            store_row(s.bend, 0, select_positive(subtract(loss, load_row(s.bend, 1)), number, load_row(s.bend, 0)))
            store_row(s.bend, 1, maximum(loss, load_row(s.bend, 1)))
    store_row(s.const, 0, const)


@inlined
def sum_columns(net, a, b, always, s, weights):
    """Sum weights * columns over the mixed units, and ``always`` over those that are on, for columns a to b - 1."""
    # Four columns in parallel: their sums are independent and share the loaded weights.
    columns, live, on = net.columns, s.live, s.on
    mixed = s.mixed[0]
    c = a
    while c + 4 <= b:
        x = y = z = v = fill_vector(0.0)
        for q in range(mixed):
            h = live[0, q]
            w = load_row(weights, h)
            x = axpy(columns[c, h], w, x)
            y = axpy(columns[c + 1, h], w, y)
            z = axpy(columns[c + 2, h], w, z)
            v = axpy(columns[c + 3, h], w, v)
        for q in range(always):
            h = on[0, q]
            w = load_row(weights, h)
            x = axpy(columns[c, h], w, x)
            y = axpy(columns[c + 1, h], w, y)
            z = axpy(columns[c + 2, h], w, z)
            v = axpy(columns[c + 3, h], w, v)
        store_row(s.coef, c, x)
        store_row(s.coef, c + 1, y)
        store_row(s.coef, c + 2, z)
        store_row(s.coef, c + 3, v)
        c += 4
    while c < b:
        x = y = fill_vector(0.0)
        q = 0
        while q + 2 <= mixed:
            h = live[0, q]
            g = live[0, q + 1]
            x = axpy(columns[c, h], load_row(weights, h), x)
            y = axpy(columns[c, g], load_row(weights, g), y)
            q += 2
        if q < mixed:
            h = live[0, q]
            x = axpy(columns[c, h], load_row(weights, h), x)
        for q in range(always):
            h = on[0, q]
            y = axpy(columns[c, h], load_row(weights, h), y)
        store_row(s.coef, c, add(x, y))
        c += 1


@inlined
def expand_to_attributes(net, bias, s, weights):
    """Express a combination of first units as an additive function of the individual, in ``coef`` and ``const``."""
    # sum_h w_h z_h(x) = sum_h w_h bias_h + sum_i sum_h w_h c_ih(x_i): the terms of attribute i are its coefficient, one
    # number for a line, one per cell of a table. Only cells of some lane's box are needed.
    mixed, always = s.mixed[0], s.always[0]
    const = load_row(s.const, 0)
    for q in range(mixed + always):
        h = s.live[0, q] if q < mixed else s.on[0, q - mixed]
        const = axpy(bias[h], load_row(weights, h), const)
    store_row(s.const, 0, const)
    for i in range(net.line.shape[0]):
        a = net.start[i]
        b = a + 1
        if not net.line[i]:
            a = net.start[i] + s.held_low[i]
            b = net.start[i] + s.held_high[i] + 1
        sum_columns(net, a, b, always, s, weights)


@jit
def substitute_backward(k, j, up, bending, net, bias, s):
    """Bound unit j of layer k (the output is layer K) by an additive function, from below, or from above with ``up``.

    With ``bending``, the unit with the largest loss by its chord is stored in ``bend``.

    In the first step, units that are on in every lane have one weight for all lanes, so their part is summed once.
    """
    # Invariant: everywhere in the boxes unit j is at least (with ``up``: at most) const + sum_h weights_h *
    # relu(z_h) over the units h of the layer reached. A step replaces each relu(z_h) by a line in z_h, and z_h by
    # offset_h + sum_r w_rh * relu(z_r) of the layer before; after the first layer the bound is additive in the
    # attributes (CROWN, Theorem 3.2).
    # The first step is separate: z_j = offset_j + sum_h w_hj relu(z_h) has the same weights in all lanes, so the
    # part of units that are on everywhere is one scalar sum (``constant``, ``shared``) instead of sixteen.
    m = k - 1
    mixed, always = s.mixed[m], s.always[m]
    constant = net.offsets[m, j]
    store_row(s.const, 0, fill_vector(0.0))
    for q in range(mixed):
        h = s.live[m, q]
        store_row(s.wa, h, fill_vector(net.weights[m, h, j]))
    through_relu(m, net, s, up, bending, s.wa)
    if m == 0:
        for q in range(always):
            h = s.on[0, q]
            constant += bias[h] * net.weights[0, h, j]
        const = add(load_row(s.const, 0), fill_vector(constant))
        for q in range(mixed):
            h = s.live[0, q]
            const = axpy(bias[h], load_row(s.wa, h), const)
        store_row(s.const, 0, const)
        for i in range(net.line.shape[0]):
            a = net.start[i]
            b = a + 1
            if not net.line[i]:
                a = net.start[i] + s.held_low[i]
                b = net.start[i] + s.held_high[i] + 1
            sum_columns(net, a, b, 0, s, s.wa)
            for c in range(a, b):
                shared = 0.0
                for q in range(always):
                    h = s.on[0, q]
                    shared += net.columns[c, h] * net.weights[0, h, j]
                store_row(s.coef, c, add(load_row(s.coef, c), fill_vector(shared)))
        return
    for q in range(always):
        r = s.on[m, q]
        constant += net.offsets[m - 1, r] * net.weights[m, r, j]
    const = add(load_row(s.const, 0), fill_vector(constant))
    for q in range(mixed):
        r = s.live[m, q]
        const = axpy(net.offsets[m - 1, r], load_row(s.wa, r), const)
    store_row(s.const, 0, const)
    for z in range(s.mixed[m - 1] + s.always[m - 1]):
        h = s.live[m - 1, z] if z < s.mixed[m - 1] else s.on[m - 1, z - s.mixed[m - 1]]
        shared = 0.0
        for q in range(always):
            r = s.on[m, q]
            shared += net.weights[m - 1, h, r] * net.weights[m, r, j]
        x = fill_vector(shared)
        for q in range(mixed):
            r = s.live[m, q]
            x = axpy(net.weights[m - 1, h, r], load_row(s.wa, r), x)
        store_row(s.wb, h, x)
    # From here on weights differ by lane. In each layer, lines replace ReLUs, then sums over the layer before replace
    # z.
    current, following = s.wb, s.wa
    for layer in range(m - 1, -1, -1):
        through_relu(layer, net, s, up, bending, current)
        if layer == 0:
            expand_to_attributes(net, bias, s, current)
        else:
            substitute_layer(layer, net, s, current, following)
            current, following = following, current


@inlined
def substitute_layer(k, net, s, current, following):
    """Turn the weights on layer k's pre-activations into weights on layer k - 1's activations."""
    # sum_r w_r z_r = sum_r w_r offset_r + sum_h (sum_r w_r W_hr) relu(z_h).
    mixed, always = s.mixed[k], s.always[k]
    const = load_row(s.const, 0)
    for q in range(mixed + always):
        r = s.live[k, q] if q < mixed else s.on[k, q - mixed]
        const = axpy(net.offsets[k - 1, r], load_row(current, r), const)
    store_row(s.const, 0, const)
    for z in range(s.mixed[k - 1] + s.always[k - 1]):
        h = s.live[k - 1, z] if z < s.mixed[k - 1] else s.on[k - 1, z - s.mixed[k - 1]]
        x = fill_vector(0.0)
        for q in range(mixed):
            r = s.live[k, q]
            x = axpy(net.weights[k - 1, h, r], load_row(current, r), x)
        for q in range(always):
            r = s.on[k, q]
            x = axpy(net.weights[k - 1, h, r], load_row(current, r), x)
        store_row(following, h, x)


@inlined
def extremes_over_boxes(net, lo, hi, up, s):
    """Compute the largest (``up``) or smallest value of the additive function over each box, into ``out``."""
    # The maximum of c * x over [lo, hi] is c+ * hi + c- * lo; attributes are independent, so extremes add up.
    zero = fill_vector(0.0)
    x = load_row(s.const, 0)
    for i in range(lo.shape[0]):
        if net.line[i]:
            c = load_row(s.coef, net.start[i])
            a = load_row(lo, i)
            b = add(load_row(hi, i), fill_vector(net.reach[i]))
            positive = maximum(c, zero)
            negative = minimum(c, zero)
            if up:
                x = multiply_add(positive, b, multiply_add(negative, a, x))
            else:
                x = multiply_add(positive, a, multiply_add(negative, b, x))
    store_row(s.out, 0, x)
    for i in range(lo.shape[0]):
        if not net.line[i]:
            for t in range(LANES):
                y = s.coef[net.start[i] + int(lo[i, t]), t]
                for c in range(net.start[i] + int(lo[i, t]) + 1, net.start[i] + int(hi[i, t]) + 1):
                    y = max(y, s.coef[c, t]) if up else min(y, s.coef[c, t])
                s.out[0, t] += y


@jit
def bound_hidden_layers(net, bias, lo, hi, known, s):
    """Bound all hidden units layer by layer: intervals, relaxations and float32 errors, then the errors of the outputs.

    ``known`` (K, m): units that are OFF or ON in a box that contains all of these need no bounds.
    """
    zero = fill_vector(0.0)
    depth = net.sizes.shape[0] - 1
    for h in range(net.sizes[0]):
        x = fill_vector(bias[h])
        store_row(s.zl[0], h, add(load_row(s.base_low, h), x))
        store_row(s.zu[0], h, add(load_row(s.base_high, h), x))
        store_row(s.error[0], h, fill_vector(net.first_error[h]))
    relax_layer(0, net, s)
    for k in range(1, depth + 1):
        rounding_errors(k, net, s)
        if k == depth:
            return
        # Interval arithmetic first: relu(z_h) is in [max(l_h, 0), max(u_h, 0)], with middle x and half width y, so z_j
        # is in offset_j + sum_h w_hj x_h -/+ sum_h |w_hj| y_h.
        below, above = s.zl[k - 1], s.zu[k - 1]
        mixed, always = s.mixed[k - 1], s.always[k - 1]
        zl, zu = s.zl[k], s.zu[k]
        live, on = s.live[k - 1], s.on[k - 1]
        for q in range(mixed + always):
            h = live[q] if q < mixed else on[q - mixed]
            x = multiply(fill_vector(0.5), maximum(load_row(below, h), zero))
            y = multiply(fill_vector(0.5), maximum(load_row(above, h), zero))
            store_row(s.wa, h, add(y, x))
            store_row(s.wb, h, subtract(y, x))
        for j in range(net.sizes[k]):
            if known[k, j] == OFF:
                store_row(zl, j, fill_vector(-UNBOUNDED))
                store_row(zu, j, fill_vector(-UNBOUNDED))
                continue
            # With the middle and half width, no branch on the signs of weights is needed, which processors cannot
            # predict well.
            middle = fill_vector(net.offsets[k - 1, j])
            half = zero
            for q in range(mixed):
                h = live[q]
                w = net.weights[k - 1, h, j]
                middle = axpy(w, load_row(s.wa, h), middle)
                half = axpy(abs(w), load_row(s.wb, h), half)
            for q in range(always):
                h = on[q]
                w = net.weights[k - 1, h, j]
                middle = axpy(w, load_row(s.wa, h), middle)
                half = axpy(abs(w), load_row(s.wb, h), half)
            low = subtract(middle, half)
            high = add(middle, half)
            if known[k, j] == ON:
                low = maximum(low, fill_vector(net.pads[k, j]))
            store_row(zl, j, low)
            store_row(zu, j, high)
        # Only units with an open sign need back-substitution: every other ReLU is a line. Intersections of sound bounds
        # are sound.
        for j in range(net.sizes[k]):
            if known[k, j] == UNKNOWN and is_unstable(zl, zu, j):
                substitute_backward(k, j, False, False, net, bias, s)
                extremes_over_boxes(net, lo, hi, False, s)
                store_row(zl, j, maximum(load_row(zl, j), load_row(s.out, 0)))
                if is_unstable(zl, zu, j):
                    substitute_backward(k, j, True, False, net, bias, s)
                    extremes_over_boxes(net, lo, hi, True, s)
                    store_row(zu, j, minimum(load_row(zu, j), load_row(s.out, 0)))
        relax_layer(k, net, s)


@jit
def note_states(net, s, states):
    """Record which units of the layers after the first are off or on in each lane, in ``states`` (K, m, lanes)."""
    # A unit that is off or on in a box has the same state in every part of it, so it need not be bounded again.
    # Off includes the float32 error: the deployed unit is off as well, and passes on no rounding error.
    for k in range(1, net.sizes.shape[0] - 1):
        zl, zu, error = s.zl[k], s.zu[k], s.error[k]
        for j in range(net.sizes[k]):
            for t in range(LANES):
                off = OFF if zu[j, t] + error[j, t] <= 0 else UNKNOWN
                states[k, j, t] = ON if zl[j, t] >= 0 else off


@jit
def rounding_errors(k, net, s):
    """Float32 errors of layer k's sums from those of the layer before (see ``RoundingError.after``)."""
    # e_j <= gamma * |bias_j| + sum_h |w_hj| * (e'_h + gamma * (max(u_h, 0) + e'_h)), where e'_h = min(e_h, u_h + e_h)+
    # is what ReLU passes on, and gamma = n u / (1 - n u) for n operations with unit roundoff u (Higham 2002, 3.1).
    # Errors are computed by lane: the maximum over sixteen distant boxes would be too large after several layers.
    zero = fill_vector(0.0)
    gamma = fill_vector(net.gammas[k])
    errors, above, live, on = s.error[k - 1], s.zu[k - 1], s.live[k - 1], s.on[k - 1]
    mixed, always = s.mixed[k - 1], s.always[k - 1]
    for q in range(mixed + always):
        h = live[q] if q < mixed else on[q - mixed]
        e = load_row(errors, h)
        u = load_row(above, h)
        passed = maximum(minimum(e, add(u, e)), zero)
        store_row(s.wa, h, multiply_add(gamma, add(maximum(u, zero), passed), passed))
    is_last = k == net.sizes.shape[0] - 1
    for j in range(net.sizes[k]):
        error = fill_vector(net.gammas[k] * net.bias_sizes[k - 1, j])
        for q in range(mixed + always):
            h = live[q] if q < mixed else on[q - mixed]
            weight = net.output_sizes[h, j] if is_last else net.weights[k - 1, h, j]
            error = axpy(abs(weight), load_row(s.wa, h), error)
        store_row(s.error[k], j, error)


@inlined
def is_unstable(zl, zu, j):
    """Check whether the sign of unit j is open in some lane."""
    # With a known sign of its input, ReLU is the identity or 0, and needs no relaxation.
    return largest(minimum(subtract(fill_vector(0.0), load_row(zl, j)), load_row(zu, j))) > 0


@jit
def straighten(piece, s):
    """Replace the ReLU of each lane's ``bend`` by a line: 0 or the identity; -1 restores it."""
    # A lower bound of the output is const + sum_h x_h relu(z_h) in the backward pass, with x_u < 0 for a unit u that is
    # replaced by its chord. Since x_u relu(z_u) = min(0, x_u z_u), a bound with 0 or x_u z_u instead bounds one piece,
    # and the output is positive wherever both bounds are, without any loss from this unit. Upper bounds are mirror
    # images.
    units = s.shift.shape[1]
    for t in range(LANES):
        if s.bend[1, t] > 0:
            k = int(s.bend[0, t]) // units
            h = int(s.bend[0, t]) - k * units
            if piece == 0:
                s.kept[0, t] = s.slope[k, h, t]
                s.kept[1, t] = s.shift[k, h, t]
            s.slope[k, h, t] = float(piece) if piece >= 0 else s.kept[0, t]
            s.shift[k, h, t] = 0.0 if piece >= 0 else s.kept[1, t]
