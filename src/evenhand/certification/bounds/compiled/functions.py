"""Compute additive functions of sixteen boxes, whose positive sign means that a label beats another (compiled)."""

from __future__ import annotations

from typing import NamedTuple

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
    square_root,
    store_row,
    subtract,
)
from evenhand.certification.bounds.compiled.relaxation import (
    bound_first_layer,
    bound_hidden_layers,
    draw_lines_below,
    note_states,
    straighten,
    substitute_backward,
)
from evenhand.certification.bounds.compiled.splits import split_scores
from evenhand.core.kernels import compile_kernel

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
# Passing the work arrays takes longer than the body of the shortest functions (see ``shares``).
inlined = compile_kernel(
    internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False, forceinline=True
)


class FunctionIndex(NamedTuple):
    """Index of a function of a box: lower (0) or upper (1) side, piece, output and assignment."""

    side: int
    piece: int
    output: int
    assignment: int


@jit
def bound_lanes(net, roles, axes, count, scoring, b, s):
    """Bound the boxes in the lanes."""
    attributes = axes.first.shape[0]
    set_held_ranges(roles, attributes, b, s)
    measure_boxes(count, axes, b)
    if scoring:
        for i in range(b.score.shape[0]):
            store_row(b.score, i, fill_vector(0.0))
    build_functions(net, roles, axes, count, scoring, b, s)
    # In a box of one person only the assignment varies. Evaluating the network is exact, unlike bounds over all
    # assignments together. Without a joint pass the bounds of a single person are exact already.
    if roles.joint:
        for t in range(count):
            single = True
            for i in range(attributes):
                single = single and b.lo[i, t] == b.hi[i, t] and net.reach[i] == 0.0
            if single:
                evaluate_person(net, roles, t, b)


@jit
def measure_boxes(count, axes, b):
    """Compute the mass of each lane's box, and mean and variance of the position in each of its attributes."""
    for t in range(LANES):
        b.mass[t] = 1.0
    # From prefix sums over cells: W = sum w, mean = sum w x / W, variance = sum w x^2 / W - mean^2. Within a cell of
    # width r positions are uniform, which adds r / 2 to the mean and r^2 / 12 to the variance. Masses of attributes
    # multiply.
    for i in range(axes.first.shape[0]):
        begin = axes.first[i]
        for t in range(count):
            low = begin + int(b.lo[i, t])
            high = begin + int(b.hi[i, t]) + 1
            weight = axes.weight[high] - axes.weight[low]
            if weight <= 0:
                b.mass[t] = 0.0
                continue
            mean = (axes.moment[high] - axes.moment[low]) / weight
            b.mass[t] *= weight / axes.total[i]
            b.mean[i, t] = mean + 0.5 * axes.reach[i]
            spread = (axes.square[high] - axes.square[low]) / weight - mean * mean
            b.variance[i, t] = max(0.0, spread) + axes.reach[i] ** 2 / 12


@jit
def set_held_ranges(roles, attributes, b, s):
    """Set the range of the assignment, and the hulls of all ranges over the lanes."""
    # The assignment, all of them at once, is an attribute like the others.
    if roles.joint:
        for t in range(LANES):
            b.lo[attributes, t] = 0.0
            b.hi[attributes, t] = roles.assignments - 1
    for i in range(attributes + (1 if roles.joint else 0)):
        low = b.lo[i, 0]
        high = b.hi[i, 0]
        for t in range(1, LANES):
            low = min(low, b.lo[i, t])
            high = max(high, b.hi[i, t])
        s.held_low[i] = int(low)
        s.held_high[i] = int(high)


@jit
def build_functions(net, roles, axes, count, scoring, b, s):
    """Compute minima, means and deviations of the functions that must be positive, as two pieces each, by lane."""
    # Each output has two functions: one below it, and the negative of one above it. Each is the minimum of two pieces,
    # in which the unit with the largest loss by its chord is off and on. Without an undecided unit both pieces are
    # equal.
    depth = net.sizes.shape[0] - 1
    outputs = net.sizes[depth]
    passes = 1 if roles.joint else roles.assignments
    # The checker of certificates does not use pieces.
    bending = not b.plain[0]
    zero = fill_vector(0.0)
    bound_first_layer(net, b.lo, b.hi, s)
    for p in range(passes):
        bound_hidden_layers(net, roles.biases[p], b.lo, b.hi, b.known[p], s)
        if scoring:
            note_states(net, s, b.states[p])
        for side in range(2):
            for o in range(outputs):
                choose_lines_below(net, roles, axes, count, bending, FunctionIndex(side, 0, o, p), b, s)
                store_row(b.pieces, (side * outputs + o) * passes + p, load_row(s.bend, 1))
                if largest(load_row(s.bend, 1)) > 0:
                    for piece in range(2):
                        straighten(piece, s)
                        substitute_backward(depth, o, side == 1, False, net, roles.biases[p], s)
                        store_function(net, roles, axes, count, FunctionIndex(side, piece, o, p), b, s)
                    straighten(-1, s)
                else:
                    substitute_backward(depth, o, side == 1, False, net, roles.biases[p], s)
                    for piece in range(2):
                        store_function(net, roles, axes, count, FunctionIndex(side, piece, o, p), b, s)
        draw_lines_below(zero, net, s)
        if scoring:
            split_scores(net, b.lo, b.hi, s, b.score)


@jit
def choose_lines_below(net, roles, axes, count, bending, index, b, s):
    """Choose the lines below ReLUs for one function, lane by lane; with ``bending``, also record the unit to split."""
    # Both choices give sound functions. P(G > 0) is about Phi(zscore): the function that is more likely to be
    # positive decides more of the box, and all assignments together decide as much as the one with the lowest score.
    # The largest minimum would be the wrong criterion, because it only describes the worst corner.
    side, _, o, p = index
    depth = net.sizes.shape[0] - 1
    zero = fill_vector(0.0)
    ones = fill_vector(1.0)
    for flat in range(2):
        draw_lines_below(fill_vector(float(flat)), net, s)
        for i in range(2):
            store_row(s.other, i, load_row(s.bend, i))
        store_row(s.bend, 1, zero)
        substitute_backward(depth, o, side == 1, bending, net, roles.biases[p], s)
        store_function(net, roles, axes, count, FunctionIndex(side, flat, o, p), b, s)
    function = (side * net.sizes[depth] + o) * roles.assignments + p
    nearest = load_row(b.zscore, 2 * function)
    level = load_row(b.zscore, 2 * function + 1)
    for q in range(1, roles.assignments if roles.joint else 1):
        nearest = minimum(nearest, load_row(b.zscore, 2 * (function + q)))
        level = minimum(level, load_row(b.zscore, 2 * (function + q) + 1))
    better = subtract(level, nearest)
    for i in range(2):
        store_row(s.bend, i, select_positive(better, load_row(s.bend, i), load_row(s.other, i)))
    draw_lines_below(select_positive(better, ones, zero), net, s)


@jit
def store_function(net, roles, axes, count, index, b, s):
    """Store the result of ``substitute_backward``: the function of an output under one assignment, or under all."""
    side, piece, o, p = index
    # G = sign * (const + sum_i c_i(x_i)) - 1.001 * error - pad: where G > 0, the deployed model's output has this sign
    # in spite of rounding. Over the box G is at least base + sum_i min c_i. Its mean and variance are sums
    # over independent attributes; P(G > 0) is about Phi(mean / deviation), which guides the search only.
    attributes = axes.first.shape[0]
    depth = net.sizes.shape[0] - 1
    at = side * net.sizes[depth] + o
    f = at * roles.assignments + p
    g = b.g[at * roles.biases.shape[0] + p, piece]
    sign = 1.0 - 2.0 * side
    zero = fill_vector(0.0)
    slack = axpy(1.001, load_row(s.error[depth], o), fill_vector(net.last_pads[o]))
    base = subtract(multiply(fill_vector(sign), load_row(s.const, 0)), slack)
    low = zero
    mean = zero
    spread = fill_vector(1e-24)
    tables = False
    for i in range(attributes):
        a = net.start[i]
        tables = tables or not net.line[i]
        if net.line[i]:
            x = multiply(fill_vector(sign), load_row(s.coef, a))
            store_row(g, a, x)
            above = add(load_row(b.hi, i), fill_vector(net.reach[i]))
            low = multiply_add(maximum(x, zero), load_row(b.lo, i), low)
            low = multiply_add(minimum(x, zero), above, low)
            mean = multiply_add(x, load_row(b.mean, i), mean)
            spread = multiply_add(multiply(x, x), load_row(b.variance, i), spread)
        else:
            for c in range(a + s.held_low[i], a + s.held_high[i] + 1):
                store_row(g, c, multiply(fill_vector(sign), load_row(s.coef, c)))
    if tables:
        for x, row in ((low, 1), (mean, 2), (spread, 3)):
            store_row(b.work, row, x)
        for i in range(attributes):
            if not net.line[i]:
                add_table_moments(net.start[i], i, count, g, axes, b)
        low, mean, spread = load_row(b.work, 1), load_row(b.work, 2), load_row(b.work, 3)
    deviation = divide(fill_vector(1.0), square_root(spread))
    # With few wide terms the tails end at the extremes. For a half range of r standard deviations, the score
    # z sqrt(1 - 1.43 / r^2) / (1 - (z / r)^2)^(1/4) approximates an equivalent normal score. It is exact in the middle
    # for one uniform term, where r^2 = 3 and sqrt(1 - 1.43 / 3) = sqrt(pi / 6).
    half = maximum(subtract(mean, low), fill_vector(1e-12))
    inside = divide(spread, multiply(half, half))
    flatter = square_root(maximum(subtract(fill_vector(1.0), multiply(fill_vector(1.43), inside)), fill_vector(0.1)))
    deviation = multiply(deviation, flatter)
    inside = divide(inside, multiply(flatter, flatter))
    for q in range(roles.assignments if roles.joint else 1):
        x = base
        if roles.joint:
            x = add(x, multiply(fill_vector(sign), load_row(s.coef, net.start[attributes] + q)))
        row = 2 * (f + q) + piece
        store_row(b.constant, row, x)
        store_row(b.least, row, add(x, low))
        store_row(b.zscore, row, normal_score(multiply(add(x, mean), deviation), inside))


@inlined
def normal_score(z, inside):
    """Stretch a score towards the ends of its range in lanes where ``z * z * inside`` is 1."""
    remainder = maximum(subtract(fill_vector(1.0), multiply(multiply(z, z), inside)), fill_vector(1e-8))
    return divide(z, square_root(square_root(remainder)))


@jit
def add_table_moments(a, i, count, g, axes, b):
    """Least value, mean and variance of the terms of attribute i, whose cells have a column each, added to ``work``."""
    for t in range(count):
        low = int(b.lo[i, t])
        high = int(b.hi[i, t])
        x = g[a + low, t]
        # With one cell the term is a number: no variance, and no division by a weight that may be zero.
        if low == high:
            b.work[1, t] += x
            b.work[2, t] += x
            continue
        weight = 0.0
        first_moment = 0.0
        second_moment = 0.0
        for v in range(low, high + 1):
            w = axes.weight[axes.first[i] + v + 1] - axes.weight[axes.first[i] + v]
            y = g[a + v, t]
            x = min(x, y)
            weight += w
            first_moment += w * y
            second_moment += w * y * y
        b.work[1, t] += x
        if weight > 0:
            first_moment /= weight
            b.work[2, t] += first_moment
            b.work[3, t] += max(0.0, second_moment / weight - first_moment * first_moment)


@jit
def evaluate_person(net, roles, t, b):
    """Run the network on a box of one person, under every assignment, instead of bounding them together."""
    attributes = b.low.shape[0]
    depth = net.sizes.shape[0] - 1
    outputs = net.sizes[depth]
    for p in range(roles.assignments):
        for h in range(net.sizes[0]):
            x = roles.biases[0, h] + net.columns[net.start[attributes] + p, h]
            for i in range(attributes):
                if net.line[i]:
                    x += net.columns[net.start[i], h] * b.lo[i, t]
                else:
                    x += net.columns[net.start[i] + int(b.lo[i, t]), h]
            b.unit[h] = x
            b.miss[h] = net.first_error[h]
        for k in range(depth):
            forward_layer(net, k, b)
        for o in range(outputs):
            slack = 1.001 * b.miss[o] + net.last_pads[o]
            for side in range(2):
                f = (side * outputs + o) * roles.assignments + p
                b.least[2 * f, t] = b.least[2 * f + 1, t] = (1.0 - 2.0 * side) * b.unit[o] - slack


@jit
def forward_layer(net, k, b):
    """From one person's units before ReLU k, and their float32 errors, to the next (``RoundingError.after``)."""
    # Like ``rounding_errors``, for the single value that each unit has here.
    gamma = net.gammas[k + 1]
    is_last = k == net.sizes.shape[0] - 2
    for j in range(net.sizes[k + 1]):
        b.following[j] = net.offsets[k, j]
        b.missing[j] = gamma * net.bias_sizes[k, j]
    for h in range(net.sizes[k]):
        x = max(b.unit[h], 0.0)
        passed = max(min(b.miss[h], b.unit[h] + b.miss[h]), 0.0)
        if x > 0 or passed > 0:
            carried = passed + gamma * (x + passed)
            weights = net.weights[k, h]
            sizes = net.output_sizes[h] if is_last else weights
            for j in range(net.sizes[k + 1]):
                b.following[j] += x * weights[j]
                b.missing[j] += carried * abs(sizes[j])
    for j in range(net.sizes[k + 1]):
        b.unit[j] = b.following[j]
        b.miss[j] = b.missing[j]
