"""Networks with one hidden layer: count the people of a box under the sign pattern that holds for them (compiled).

A linear bound stands for every person of a box at once, and gives away what its undecided units may do. Here the
attributes fall into K, whose joint values are gone through, and R, whose sum is looked up in a table. In a *node*, one
joint value of K, most units are on or off; the pattern S of the others, a slope for each, makes the output a linear
form of R up to an error that is known there:

    g_S(x_R) + LO_p <= output(x, p) <= g_S(x_R) + HI_p        for every protected assignment p.

The pattern is the same for all p, so conditions on two assignments are conditions on one number, g_S, and nothing is
lost where they meet:

    certified fair:    g > -min_p LO_p,   or   g < -max_p HI_p
    certified unfair:  -max_p LO_p < g < -min_p HI_p

(in the last line no p is both, as HI_p >= LO_p). All nodes of a box share R, so nodes of the same pattern share the
table of P(g_S > t): a node costs tens of nanoseconds, where a box of the engine costs ten thousand.

Slopes. For 0 <= s <= 1 and l <= z <= u, d <= relu(z) - s z <= e with e = max((1 - s) u, -s l), as the difference is
convex in z and so largest at an end, and d = max(0, (1 - s) l, -s u), as it is (1 - s) z where z > 0, -s z where z < 0.
A unit that is on under one assignment and off under another so costs no more than what R moves it by.

Rounding. Everything is float64. Pre-activations are widened by ``pads``. Sums of at most N numbers whose sizes add up
to no more than ``size`` err by at most N u size each (Higham 2002, 3.1), u = 2**-53; a threshold is a sum of a few of
them, so all thresholds are moved by N 2**-50 size, and by what the deployed float32 model may err at a margin. Tables
lose probability by rounding values down, and are shrunk by their accumulated relative error (as in ``shares``).
"""

from __future__ import annotations

import math
import threading

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.compiled.lanes import (
    LANES,
    add,
    axpy,
    fill_vector,
    load_at,
    load_row,
    maximum,
    minimum,
    multiply,
    select_positive,
    store_at,
    store_row,
    subtract,
)
from evenhand.certification.bounds.compiled.pattern_problem import (
    FIRST_GRID,
    FIRST_INNER,
    GAIN,
    GRID,
    MAX_LIVE,
    MAX_OUTER,
    RUNS,
    SLOTS,
    TABLES,
    WORD_UNITS,
    OneLayerNetwork,
    pattern_buffers,
)
from evenhand.certification.bounds.compiled.pattern_tables import add_table, fill_tables, forget_tables, slot_of, tail
from evenhand.certification.bounds.compiled.shares import AttributeAxes
from evenhand.certification.bounds.compiled.tails import sort_by_width
from evenhand.certification.bounds.joint import CountingEffort
from evenhand.kernels import compile_kernel
from evenhand.typing import Floats

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
inlined = compile_kernel(
    internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False, forceinline=True
)
door = compile_kernel(nogil=True, error_model="numpy", boundscheck=False, _nrt=False)


@door
def count_boxes(net, axes, low, high, effort, d, shares):
    """Count boxes, (boxes, attributes), jointly: lower bounds on their shares fair and unfair, into (2, boxes)."""
    for box in range(low.shape[0]):
        shares[0, box], shares[1, box] = count_box(net, axes, low[box], high[box], effort, d)


@jit
def count_box(net, axes, low, high, effort, d):
    """Return lower bounds on the fair and the unfair share of a box."""
    # Most of what is undecided lies under few outer joint values. Those are counted again with four times the inner
    # ones, as long as a node more is worth it; each keeps the largest of its bounds, fair and unfair apart.
    slack, live = prepare_units(net, axes, low, high, d)
    if live > MAX_LIVE:
        return 0.0, 0.0
    describe_terms(net, axes, low, high, live, d)
    rank_attributes(axes, low, high, live, d)
    chance, fair, unfair = d.outer_chance, d.outer_fair, d.outer_unfair
    fair[:] = 0.0
    unfair[:] = 0.0
    room = FIRST_INNER
    grid = FIRST_GRID
    values = choose_outer(low, high, d)
    while room <= effort.inner:
        if room > FIRST_INNER:
            some = False
            for k in range(values):
                d.again[k] = GAIN * (chance[k] - fair[k] - unfair[k]) > effort.price * room
                some = some or d.again[k]
            if not some:
                break
        choose_inner(axes, low, high, room, d)
        split_middles(net, axes, live, d)
        inner = list_inner(axes, low, live, d)
        weigh_rest(axes, low, high, d)
        d.symmetric[0] = rest_is_symmetric(axes, low, high, d)
        sort_by_width(d.n, d.order)
        forget_tables(d)
        first = room == FIRST_INNER
        # One outer joint value after the other, like an odometer.
        position, n, group = d.position, d.n, d.group
        position[:] = 0
        for k in range(values):
            if first or d.again[k]:
                chance[k] = start_outer(axes, low, live, d)
                bound_nodes(live, inner, not first, d)
                x, y = count_nodes(inner, slack, live, axes, low, grid, d)
                fair[k] = max(fair[k], chance[k] * x)
                unfair[k] = max(unfair[k], chance[k] * y)
            for i in range(low.shape[0]):
                if group[i] == 1:
                    position[i] += 1
                    if position[i] < n[i]:
                        break
                    position[i] = 0
        room *= 4
        grid = min(2 * grid, GRID)
    x = 0.0
    y = 0.0
    for k in range(values):
        x += fair[k]
        y += unfair[k]
    # Chances are quotients and products of whole numbers: their relative errors add up to far less than this.
    return max(0.0, x * (1 - 1e-11)), max(0.0, y * (1 - 1e-11))


@jit
def prepare_units(net, axes, low, high, d):
    """Find the undecided units of a box, fold the others into one linear part.

    Returns:
        By how much thresholds have to be moved, and the number of undecided units.
    """
    columns, weights = net.columns, net.weights
    units, attributes, assignments = weights.shape[0], low.shape[0], net.biases.shape[0]
    zl, zu, size, linear = d.zl, d.zu, d.size, d.linear
    zl[:] = 0.0
    zu[:] = 0.0
    size[:] = 0.0
    # Attributes vary independently in a box: the range of what they add to a unit is the sum of their terms' ranges,
    # and a line has its extremes at the ends.
    for i in range(attributes):
        at = axes.start[i]
        if axes.line[i]:
            p = float(low[i])
            q = high[i] + axes.reach[i]
            for h in range(units):
                x = columns[at, h] * p
                y = columns[at, h] * q
                zl[h] += min(x, y)
                zu[h] += max(x, y)
                size[h] += max(abs(x), abs(y))
        else:
            below, above = d.term_low, d.term_high
            for h in range(units):
                below[h] = above[h] = columns[at + low[i], h]
            for c in range(at + low[i] + 1, at + high[i] + 1):
                for h in range(units):
                    below[h] = min(below[h], columns[c, h])
                    above[h] = max(above[h], columns[c, h])
            for h in range(units):
                zl[h] += below[h]
                zu[h] += above[h]
                size[h] += max(abs(below[h]), abs(above[h]))
    live = 0
    error = net.gamma * net.bias_size
    total = abs(net.offset)
    d.on_bias[:] = net.offset
    for h in range(units):
        b = net.biases[0, h]
        c = b
        for p in range(1, assignments):
            b = min(b, net.biases[p, h])
            c = max(c, net.biases[p, h])
        low_z = zl[h] + b - net.pads[h]
        high_z = zu[h] + c + net.pads[h]
        total += abs(weights[h]) * (size[h] + max(abs(b), abs(c)) + net.pads[h])
        # What ReLU passes on of the deployed unit's error, and what the next sum adds (``relaxation.rounding_errors``).
        passed = max(min(net.first_error[h], high_z + net.first_error[h]), 0.0)
        error += net.sizes[h] * (passed + net.gamma * (max(high_z, 0.0) + passed))
        linear[h] = 0.0
        if low_z >= 0:
            linear[h] = weights[h]
            for p in range(assignments):
                d.on_bias[p] += weights[h] * net.biases[p, h]
        if low_z < 0 and high_z > 0 and weights[h] != 0.0:
            if live < MAX_LIVE:
                d.live[live] = h
                d.a[live] = weights[h]
                d.bias_low[live] = b
                d.bias_high[live] = c
                for p in range(assignments):
                    d.bias[p, live] = net.biases[p, h]
            live += 1
    # A threshold is a sum over units of sums over attributes, with at most three factors and terms for each: fewer than
    # 4 (units + attributes) + 64 roundings on any way through it, each of a number no larger than four times ``total``.
    ours = (4 * (units + attributes) + 64) * (2.0**-50) * total
    return 1.001 * error + net.last_pad + ours, live


@jit
def describe_terms(net, axes, low, high, live, d):
    """What each attribute adds to the undecided units and to the linear part: ``w``, and ``mid`` and ``half`` of it."""
    columns, linear = net.columns, d.linear
    w, mid, half = d.w, d.mid, d.half
    # Over the box attribute i adds between mid - half and mid + half to unit q; the place after the undecided units is
    # that of the linear part.
    for i in range(low.shape[0]):
        a = axes.start[i]
        b = a
        if not axes.line[i]:
            b = a + high[i]
            a += low[i]
        for c in range(a, b + 1):
            for q in range(live):
                w[c, q] = columns[c, d.live[q]]
            x = 0.0
            for h in range(linear.shape[0]):
                x += columns[c, h] * linear[h]
            w[c, live] = x
        for q in range(live + 1):
            if axes.line[i]:
                x = w[a, q] * low[i]
                y = w[a, q] * (high[i] + axes.reach[i])
            else:
                x = y = w[a, q]
                for c in range(a + 1, b + 1):
                    x = min(x, w[c, q])
                    y = max(y, w[c, q])
            mid[i, q] = 0.5 * (x + y)
            half[i, q] = 0.5 * abs(y - x)


@jit
def rank_attributes(axes, low, high, live, d):
    """Order the attributes by how much they move undecided units, for the joint values they take."""
    # A unit's relaxation gap -l u / (u - l) shrinks in proportion to its width; an attribute that is gone through takes
    # its own part off the width, and multiplies the nodes by its cells, log2 n doublings.
    score, half, rank = d.score, d.half, d.rank
    attributes = low.shape[0]
    score[:] = 0.0
    for q in range(live):
        h = d.live[q]
        a = d.zl[h] + d.bias_low[q]
        b = d.zu[h] + d.bias_high[q]
        gap = abs(d.a[q]) * max(0.0, -a * b) / (b - a)
        width = 1e-300
        for i in range(attributes):
            width += half[i, q]
        for i in range(attributes):
            score[i] += gap * half[i, q] / width
    # What an attribute of R loses is about half a step of the table for each of the others: that counts too, and alone
    # where no unit is undecided.
    for i in range(attributes):
        score[i] += half[i, live] * attributes / FIRST_GRID
        if high[i] > low[i]:
            score[i] /= math.log2(high[i] - low[i] + 1.0)
        j = i
        while j > 0 and score[rank[j - 1]] < score[i]:
            rank[j] = rank[j - 1]
            j -= 1
        rank[j] = i


@jit
def choose_outer(low, high, d):
    """Choose the attributes gone through outside, and return how many joint values they have."""
    values = 1
    d.group[:] = 0
    for i in d.rank:
        n = high[i] - low[i] + 1
        if n > 1 and values * n <= MAX_OUTER and d.score[i] > 0:
            d.group[i] = 1
            values *= n
    return values


@jit
def choose_inner(axes, low, high, room, d):
    """Choose the attributes gone through inside; the others, R, are looked at in runs of cells."""
    n, group = d.n, d.group
    values = 1
    for i in d.rank:
        n[i] = high[i] - low[i] + 1
        d.step[i] = 1
        if group[i] != 1:
            group[i] = 0
            if n[i] > 1 and values * n[i] <= room and d.score[i] > 0:
                group[i] = 2
                values *= n[i]
            # A run of cells counts with its least term, see ``spread_terms``.
            elif axes.line[i]:
                d.step[i] = (n[i] + RUNS - 1) // RUNS
                n[i] = (n[i] + d.step[i] - 1) // d.step[i]


@jit
def split_middles(net, axes, live, d):
    """Half ranges ``h`` of the units over R, and their ``centre``; what a real number varies by in a cell is R too."""
    # But for its bias, unit q lies within h of its centre plus what the listed joint values add to it.
    for q in range(live + 1):
        h = 0.0
        x = 0.0
        for i in range(axes.first.shape[0]):
            if d.group[i] == 0:
                h += d.half[i, q]
                x += d.mid[i, q]
            elif axes.line[i]:
                h += 0.5 * abs(d.w[axes.start[i], q]) * axes.reach[i]
                x += 0.5 * d.w[axes.start[i], q] * axes.reach[i]
        if q < live:
            h += net.pads[d.live[q]]
        d.h[q] = h * (1 + 1e-12)
        d.centre[q] = x


@inlined
def column_of(axes, i, v):
    """Return the column and the factor of cell v of attribute i."""
    return (axes.start[i], float(v)) if axes.line[i] else (axes.start[i] + v, 1.0)


@jit
def list_inner(axes, low, live, d):
    """List what the inner joint values add to each unit, and their chances; return how many there are."""
    inc, chance = d.inc, d.chance
    size = 1
    inc[: live + 1, 0] = 0.0
    chance[0] = 1.0
    # The attributes that matter least vary fastest: neighbours then mostly have the same pattern.
    for k in range(d.rank.shape[0] - 1, -1, -1):
        i = d.rank[k]
        if d.group[i] != 2:
            continue
        a = axes.first[i] + low[i]
        whole = axes.weight[a + d.n[i]] - axes.weight[a]
        # Invariant: inc[q, :size] and chance[:size] are of all joint values of the attributes so far. The first cell
        # comes last, as what the others read is overwritten by it.
        for v in range(d.n[i] - 1, -1, -1):
            c, x = column_of(axes, i, low[i] + v)
            for q in range(live + 1):
                y = d.w[c, q] * x
                for k2 in range(size):
                    inc[q, v * size + k2] = inc[q, k2] + y
            p = (axes.weight[a + v + 1] - axes.weight[a + v]) / whole
            for k2 in range(size):
                chance[v * size + k2] = chance[k2] * p
        size *= d.n[i]
    for q in range(live + 1):
        x = y = inc[q, 0]
        for k in range(1, size):
            x = min(x, inc[q, k])
            y = max(y, inc[q, k])
        d.inc_low[q] = x
        d.inc_high[q] = y
        # Nodes come in sixteens; those that make up the last sixteen repeat one that is there, with chance 0.
        for k in range(size, (size + LANES - 1) // LANES * LANES):
            inc[q, k] = inc[q, size - 1]
    return size


@jit
def rest_is_symmetric(axes, low, high, d):
    """Return whether every form of R has the same distribution to both sides of its middle."""
    # Along a line with equal weights x -> low + high - x maps the distribution of a term to itself, mirrored.
    for i in range(low.shape[0]):
        if d.group[i] == 0 and d.n[i] > 1:
            if not axes.line[i] or d.step[i] > 1:
                return False
            a = axes.first[i] + low[i]
            p = axes.weight[a + 1] - axes.weight[a]
            for c in range(a + 1, axes.first[i] + high[i] + 1):
                if axes.weight[c + 1] - axes.weight[c] != p:
                    return False
    return True


@jit
def weigh_rest(axes, low, high, d):
    """Chances of the runs of cells of R's attributes."""
    for i in range(low.shape[0]):
        if d.group[i] == 0:
            a = axes.first[i] + low[i]
            b = axes.first[i] + high[i] + 1
            whole = axes.weight[b] - axes.weight[a]
            for v in range(d.n[i]):
                end = min(a + (v + 1) * d.step[i], b)
                d.run_chance[d.at[i] + v] = (axes.weight[end] - axes.weight[a + v * d.step[i]]) / whole


# Nodes: bounds and patterns.


@jit
def start_outer(axes, low, live, d):
    """Move to the outer joint value at ``position``: what it adds to each unit, and constants; return its chance."""
    outer = d.outer
    weight = 1.0
    for q in range(live + 1):
        outer[q] = d.centre[q]
    for i in range(low.shape[0]):
        if d.group[i] == 1:
            v = d.position[i]
            c, x = column_of(axes, i, low[i] + v)
            for q in range(live + 1):
                outer[q] += d.w[c, q] * x
            a = axes.first[i] + low[i]
            weight *= (axes.weight[a + v + 1] - axes.weight[a + v]) / (axes.weight[a + d.n[i]] - axes.weight[a])
    return weight


@jit
def bound_nodes(live, nodes, halves, d):
    """Bounds of the output in every node of an outer value, and the patterns, sixteen nodes at a time."""
    h, a, bias, outer, inc, constant = d.h, d.a, d.bias, d.outer, d.inc, d.constant
    lo, hi, margins, keys, mixed, always, powers = d.lo, d.hi, d.margins, d.keys, d.mixed, d.always, d.powers
    assignments = bias.shape[0]
    for p in range(assignments):
        constant[p] = d.on_bias[p] + outer[live]
    first = second = 0.0
    some = on = 0
    # A unit that is on in all nodes of this outer value adds itself, one that is off nothing.
    for q in range(live):
        if outer[q] + d.inc_low[q] + d.bias_low[q] - h[q] >= 0:
            always[on] = q
            on += 1
            for p in range(assignments):
                constant[p] += a[q] * (outer[q] + bias[p, q])
            if q < WORD_UNITS:
                first += 2 * powers[q]
            else:
                second += 2 * powers[q]
        elif outer[q] + d.inc_high[q] + d.bias_high[q] + h[q] > 0:
            mixed[some] = q
            some += 1
    zero = fill_vector(0.0)
    one = fill_vector(1.0)
    two = fill_vector(2.0)
    # With slopes 0 and 1 alone no unit passes the test for a half.
    bar = fill_vector(0.0 if halves else 1e300)
    for k in range(0, nodes, LANES):
        common = load_at(inc[live], k)
        for j in range(on):
            common = axpy(a[always[j]], load_at(inc[always[j]], k), common)
        for p in range(assignments):
            store_row(lo, p, fill_vector(constant[p]))
            store_row(hi, p, fill_vector(constant[p]))
        words = fill_vector(first)
        others = fill_vector(second)
        for j in range(some):
            q = mixed[j]
            z = add(load_at(inc[q], k), fill_vector(outer[q]))
            low = add(z, fill_vector(d.bias_low[q] - h[q]))
            high = add(z, fill_vector(d.bias_high[q] + h[q]))
            # s = 1/2 where high < 2 |low| and |low| < 2 high, else 1 or 0 as the middle says.
            both = minimum(subtract(zero, axpy(2.0, low, high)), axpy(2.0, high, low))
            s = select_positive(add(low, high), one, zero)
            s = select_positive(subtract(both, bar), fill_vector(0.5), s)
            rest = subtract(one, s)
            common = axpy(a[q], multiply(s, z), common)
            if q < WORD_UNITS:
                words = axpy(powers[q], multiply(two, s), words)
            else:
                others = axpy(powers[q], multiply(two, s), others)
            for p in range(assignments):
                b = bias[p, q]
                # d_p <= relu(z) - s z <= e_p, from the ends z_p - h and z_p + h.
                zp = add(z, fill_vector(b))
                left = subtract(zp, fill_vector(h[q]))
                right = add(zp, fill_vector(h[q]))
                e = maximum(multiply(rest, right), subtract(zero, multiply(s, left)))
                d_p = maximum(zero, maximum(multiply(rest, left), subtract(zero, multiply(s, right))))
                shared = axpy(a[q] * b, s, zero)
                lower = axpy(a[q], d_p, shared)
                upper = axpy(a[q], e, shared)
                store_row(lo, p, add(load_row(lo, p), minimum(lower, upper)))
                store_row(hi, p, add(load_row(hi, p), maximum(lower, upper)))
        # Of low_p the least and the greatest over p, of high_p the greatest and the least.
        x = u = load_row(lo, 0)
        y = v = load_row(hi, 0)
        for p in range(1, assignments):
            x = minimum(x, load_row(lo, p))
            u = maximum(u, load_row(lo, p))
            y = maximum(y, load_row(hi, p))
            v = minimum(v, load_row(hi, p))
        store_at(margins[0], k, add(x, common))
        store_at(margins[1], k, add(y, common))
        store_at(margins[2], k, add(u, common))
        store_at(margins[3], k, add(v, common))
        store_at(keys[0], k, words)
        store_at(keys[1], k, others)


@jit
def count_nodes(nodes, slack, live, axes, low, grid, d):
    """Add up chances of the nodes of an outer value times the shares of R that are fair and unfair there."""
    # The arrays are taken out of the named tuple, and short steps written out: handing all of them to a function takes
    # longer than a node.
    keys, chance, least, inverse, tables, built = d.keys, d.chance, d.least, d.inverse, d.tables, d.built
    lowest, highest, uppermost, undermost = d.margins[0], d.margins[1], d.margins[2], d.margins[3]
    stamp, slot_stamp, slot_key, slot_table = d.stamp, d.slot_stamp, d.slot_key, d.slot_table
    down = 0 if d.symmetric[0] else 1
    fair = 0.0
    unfair = 0.0
    t = -1
    a = b = -1.0
    for k in range(nodes):
        if keys[0, k] != a or keys[1, k] != b:
            a, b = keys[0, k], keys[1, k]
            slot = slot_of(a, b)
            while slot_stamp[slot] == stamp[0] and (slot_key[slot, 0] != a or slot_key[slot, 1] != b):
                slot = (slot + 1) & (SLOTS - 1)
            if slot_stamp[slot] == stamp[0]:
                t = slot_table[slot]
            else:
                t = -1 if stamp[1] == TABLES else add_table(a, b, slot, live, axes, low, d)
        if t < 0:
            continue
        # g > x and -g > y are the fair events, which exclude each other; least values decide many nodes at once.
        x = slack - lowest[k]
        y = slack + highest[k]
        if x < least[0, t] or y < least[1, t]:
            fair += chance[k]
            continue
        uneven = undermost[k] + 2 * slack < uppermost[k]
        u = slack - uppermost[k] if uneven else x
        v = slack + undermost[k] if uneven else y
        # u <= x and v <= y: no table is needed where even the larger tails are empty.
        above = u < -least[1, t]
        below = v < -least[0, t]
        if (above and not built[0, t]) or (below and not built[down, t]):
            fill_tables(t, above, below, live, axes, low, grid, d)
        if above:
            fair += chance[k] * tail(tables[0, t], grid, (x - least[0, t]) * inverse[0, t])
        if below:
            fair += chance[k] * tail(tables[down, t], grid, (y - least[1, t]) * inverse[down, t])
        if uneven and above and below:
            # Unfair: positive under the assignment with the greatest low_p, negative under that with the least high_p.
            # P(both) >= P(one) + P(other) - 1.
            both = tail(tables[0, t], grid, (u - least[0, t]) * inverse[0, t])
            both += tail(tables[down, t], grid, (v - least[1, t]) * inverse[down, t])
            unfair += chance[k] * max(0.0, both - 1 - 1e-11)
    return fair, unfair


class PatternCounter:
    """Joint counting for one query, on several threads, each with work arrays of its own."""

    def __init__(self, net: OneLayerNetwork, axes: AttributeAxes) -> None:
        self.net, self.axes = net, axes
        self._own = threading.local()

    def prepare(self) -> None:
        """Have the kernels compiled, which takes seconds on their first use."""
        cells = np.zeros((1, len(self.axes.first)), dtype=np.int32)
        self.count(cells, cells, CountingEffort(64, 1.0))

    def count(self, low: NDArray[np.integer], high: NDArray[np.integer], effort: CountingEffort) -> Floats:
        """Return proved shares of boxes (boxes, attributes), fair and unfair, shape (boxes, 2)."""
        if not hasattr(self._own, "buffers"):
            self._own.buffers = pattern_buffers(self.net, self.axes)
        shares = np.zeros((2, len(low)))
        low, high = (np.ascontiguousarray(cells, dtype=np.int32) for cells in (low, high))
        count_boxes(self.net, self.axes, low, high, effort, self._own.buffers, shares)
        return shares.T
