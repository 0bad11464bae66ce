"""Additive functions of sixteen boxes that say, where they are positive, which label beats which (compiled)."""

from __future__ import annotations

import numba

from evenhand.certify.lanes import (
    LANES,
    add,
    divide,
    full,
    larger,
    load,
    multiply,
    multiply_add,
    root,
    smaller,
    store,
)
from evenhand.certify.relaxation import backward, first_layer, inner_bounds, note_states, split_scores

jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)


@jit
def evaluate(net, roles, axes, count, scoring, b, s):
    """Bound the boxes in the lanes."""
    attributes = axes.first.shape[0]
    hold(net, roles, attributes, b)
    measure(count, axes, b)
    if scoring:
        for i in range(b.score.shape[0]):
            store(b.score, i, full(0.0))
    functions(net, roles, axes, count, scoring, b, s)
    if roles.joint:
        for t in range(count):
            single = True
            for i in range(attributes):
                single = single and b.lo[i, t] == b.hi[i, t] and net.reach[i] == 0.0
            if single:
                ask(net, roles, t, b)


@jit
def measure(count, axes, b):
    """Mass of each lane's box, and mean and variance of the position in each of its attributes."""
    for t in range(LANES):
        b.mass[t] = 1.0
    for i in range(axes.first.shape[0]):
        first = axes.first[i]
        for t in range(count):
            low = first + int(b.lo[i, t])
            high = first + int(b.hi[i, t]) + 1
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
def hold(net, roles, attributes, b):
    """Ranges of the attributes that are held besides the unprotected ones, and hulls of all over the lanes."""
    if roles.joint:
        for t in range(LANES):
            b.lo[attributes, t] = 0.0
            b.hi[attributes, t] = roles.assignments - 1
    for r in range(roles.relaxed.shape[0]):
        i = roles.relaxed[r]
        k = attributes + 1 + r
        for t in range(LANES):
            b.lo[k, t] = max(-roles.tolerance[r], -b.hi[i, t] - net.reach[i])
            b.hi[k, t] = min(roles.tolerance[r], roles.last[r] - b.lo[i, t])
    for i in range(attributes + (1 if roles.joint else 0)):
        low = b.lo[i, 0]
        high = b.hi[i, 0]
        for t in range(1, LANES):
            low = min(low, b.lo[i, t])
            high = max(high, b.hi[i, t])
        b.held_low[i] = int(low)
        b.held_high[i] = int(high)


@jit
def functions(net, roles, axes, count, scoring, b, s):
    """The want-positive functions of every lane, for two choices of slopes: least values, means and spreads."""
    depth = net.sizes.shape[0] - 1
    outputs = net.sizes[depth]
    passes = 1 if roles.joint else roles.assignments
    first_layer(net, b.lo, b.hi, s)
    for p in range(passes):
        inner_bounds(net, roles.biases[p], b.lo, b.hi, b.held_low, b.held_high, b.known[p], s)
        if scoring:
            for t in range(count):
                note_states(net, p, passes, t, s, b.state[t])
        for side in range(2):
            for mode in range(2):
                for o in range(outputs):
                    slopes = s.adaptive if mode == 0 else s.flat
                    backward(depth, o, side == 1, slopes, net, roles.biases[p], b.held_low, b.held_high, s)
                    form(net, roles, axes, count, side, mode, o, p, b, s)
        if scoring:
            split_scores(net, b.lo, b.hi, s, b.score)


@jit
def form(net, roles, axes, count, side, mode, o, p, b, s):
    """Keep what ``backward`` found: the function of output o under assignment p, or under all of them."""
    attributes = axes.first.shape[0]
    depth = net.sizes.shape[0] - 1
    at = side * net.sizes[depth] + o
    f = at * roles.assignments + p
    g = b.g[at * roles.biases.shape[0] + p, mode]
    sign = 1.0 - 2.0 * side
    zero = full(0.0)
    base = add(multiply(full(sign), load(s.const, 0)), full(-1.001 * s.error[depth, o] - net.last_pads[o]))
    low = zero
    mean = zero
    spread = full(1e-24)
    tables = False
    for i in range(attributes):
        a = net.start[i]
        tables = tables or not net.line[i]
        if net.line[i]:
            x = multiply(full(sign), load(s.coef, a))
            store(g, a, x)
            above = add(load(b.hi, i), full(net.reach[i]))
            low = multiply_add(larger(x, zero), load(b.lo, i), low)
            low = multiply_add(smaller(x, zero), above, low)
            mean = multiply_add(x, load(b.mean, i), mean)
            spread = multiply_add(multiply(x, x), load(b.variance, i), spread)
        else:
            for c in range(a + b.held_low[i], a + b.held_high[i] + 1):
                store(g, c, multiply(full(sign), load(s.coef, c)))
    gain = zero
    if tables or roles.relaxed.shape[0] > 0:
        for x, row in ((base, 0), (low, 1), (mean, 2), (spread, 3), (zero, 4)):
            store(b.work, row, x)
        for i in range(attributes):
            if not net.line[i]:
                of_table(net.start[i], i, count, g, axes, b)
        tolerate(net, roles, attributes, sign, count, b, s)
        base, low, mean, spread, gain = (
            load(b.work, 0), load(b.work, 1), load(b.work, 2), load(b.work, 3), load(b.work, 4)
        )  # fmt: skip
    deviation = divide(full(1.0), root(spread))
    for q in range(roles.assignments if roles.joint else 1):
        x = base
        if roles.joint:
            x = add(x, multiply(full(sign), load(s.coef, net.start[attributes] + q)))
        row = 2 * (f + q) + mode
        store(b.constant, row, x)
        store(b.gain, row, gain)
        store(b.least, row, add(x, low))
        x = add(x, mean)
        store(b.zscore, row, multiply(x, deviation))
        store(b.bolder, row, multiply(add(x, gain), deviation))


@jit
def tolerate(net, roles, attributes, sign, count, b, s):
    """What the attributes within tolerance take off at worst, and what they may add to that at best."""
    for r in range(roles.relaxed.shape[0]):
        i = roles.relaxed[r]
        k = attributes + 1 + r
        for t in range(count):
            x = sign * s.coef[net.start[k], t]
            fixed = x * (b.lo[k, t] if x > 0 else b.hi[k, t])
            if x > 0:
                best = x * min(roles.tolerance[r], roles.last[r] - b.hi[i, t] - net.reach[i])
            else:
                best = x * max(-roles.tolerance[r], -b.lo[i, t])
            b.work[0, t] += fixed
            b.work[4, t] += best - fixed


@jit
def of_table(a, i, count, g, axes, b):
    """Least value, mean and variance of the terms of attribute i, whose cells have a column each, added to ``work``."""
    for t in range(count):
        low = int(b.lo[i, t])
        high = int(b.hi[i, t])
        x = g[a + low, t]
        if low == high:
            b.work[1, t] += x
            b.work[2, t] += x
            continue
        weight = 0.0
        first = 0.0
        second = 0.0
        for v in range(low, high + 1):
            w = axes.weight[axes.first[i] + v + 1] - axes.weight[axes.first[i] + v]
            y = g[a + v, t]
            x = min(x, y)
            weight += w
            first += w * y
            second += w * y * y
        b.work[1, t] += x
        if weight > 0:
            first /= weight
            b.work[2, t] += first
            b.work[3, t] += max(0.0, second / weight - first * first)


@jit
def ask(net, roles, t, b):
    """Run the network on a box of one person, under every assignment, instead of bounding them together."""
    attributes = b.low.shape[0]
    depth = net.sizes.shape[0] - 1
    outputs = net.sizes[depth]
    for p in range(roles.assignments):
        first = True
        for r in range(roles.relaxed.shape[0]):
            b.offset[r] = b.lo[attributes + 1 + r, t]
        while True:
            for h in range(net.sizes[0]):
                x = roles.biases[0, h] + net.columns[net.start[attributes] + p, h]
                for i in range(attributes):
                    if net.line[i]:
                        x += net.columns[net.start[i], h] * b.lo[i, t]
                    else:
                        x += net.columns[net.start[i] + int(b.lo[i, t]), h]
                for r in range(roles.relaxed.shape[0]):
                    x += net.columns[net.start[attributes + 1 + r], h] * b.offset[r]
                b.unit[h] = x
                b.miss[h] = net.first_error[h]
            for k in range(depth):
                one_layer_up(net, k, b)
            for o in range(outputs):
                slack = 1.001 * b.miss[o] + net.last_pads[o]
                for side in range(2):
                    f = (side * outputs + o) * roles.assignments + p
                    x = (1.0 - 2.0 * side) * b.unit[o] - slack
                    if first:
                        b.least[2 * f, t] = x
                        b.gain[2 * f, t] = 0.0
                    else:
                        most = max(b.least[2 * f, t] + b.gain[2 * f, t], x)
                        b.least[2 * f, t] = min(b.least[2 * f, t], x)
                        b.gain[2 * f, t] = most - b.least[2 * f, t]
                    b.least[2 * f + 1, t] = b.least[2 * f, t]
                    b.gain[2 * f + 1, t] = b.gain[2 * f, t]
            first = False
            r = 0
            while r < roles.relaxed.shape[0]:
                b.offset[r] += 1.0
                if b.offset[r] <= b.hi[attributes + 1 + r, t]:
                    break
                b.offset[r] = b.lo[attributes + 1 + r, t]
                r += 1
            if r == roles.relaxed.shape[0]:
                break


@jit
def one_layer_up(net, k, b):
    """From one person's units before ReLU k, and what float32 may miss of them, to the next (``slack.Slack.after``)."""
    gamma = net.gammas[k + 1]
    last = k == net.sizes.shape[0] - 2
    for j in range(net.sizes[k + 1]):
        b.following[j] = net.offsets[k, j]
        b.missing[j] = gamma * net.bias_sizes[k, j]
    for h in range(net.sizes[k]):
        x = max(b.unit[h], 0.0)
        passed = max(min(b.miss[h], b.unit[h] + b.miss[h]), 0.0)
        if x > 0 or passed > 0:
            carried = passed + gamma * (x + passed)
            weights = net.weights[k, h]
            sizes = net.output_sizes[h] if last else weights
            for j in range(net.sizes[k + 1]):
                b.following[j] += x * weights[j]
                b.missing[j] += carried * abs(sizes[j])
    for j in range(net.sizes[k + 1]):
        b.unit[j] = b.following[j]
        b.miss[j] = b.missing[j]
