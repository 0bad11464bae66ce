"""How much of a box a network with one hidden layer decides, counted under the signs that hold for people (compiled).

Lines over a whole box give away what its undecided units may do. So some attributes are listed: in a *node*, one
joint value of them, most units are on or off whatever the other attributes say, R. Each unit gets a slope s there, the
quarter that is next to its chord. With l <= z <= u,

    s z + d <= relu(z) <= s z + e,   e = max((1 - s) u, -s l),   d = max(0, (1 - s) l, -s u),

as the difference is convex in z, and is (1 - s) z or -s z. The slopes are the same for all assignments p, and so

    g(R) + low_p <= margin(R, p) <= g(R) + high_p      with one sum g of terms of R for all of them.

Nodes with the same slopes share the distribution of g, a table of P(fewer than j steps) with every term moved down to a
grid: g lies less than ``moved`` steps above its place there.

Rounding. Sums of a node are of the kind that ``network`` bounds by its pads: products of weights and what attributes
add, whose sizes add up to at most S, and a constant for each unit that is no larger than it. Three times the pad of the
margin is taken off its thresholds, and ``LOSS`` of the sizes of a table's terms, as in ``counting``. Probabilities are
sums of products; a difference of two of them is lowered by ``APART``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenhand.checker.floats.bounds import bound_box
from evenhand.checker.floats.counting import LOSS
from evenhand.checker.floats.network import FloatNetwork
from evenhand.kernels import compile_kernel
from evenhand.typing import Floats, Integers

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)

NODES = (2**12, 2**16, 2**20)
"""Joint values of the listed attributes, at most: each is tried where those before did not reach a claim."""
INNER = 2**10
"""Of these, so many are gone through side by side."""
GRID = 1024
"""Steps of a table."""
TABLES = 1024
"""Tables of a box, at most: nodes with further slopes stay open."""
SLOTS = 4096
"""Places in which tables are looked for, a power of two."""
ATOMS = 256
"""Joint values of the narrowest attributes of R that are moved to the grid as they are."""
WORD = 27
"""Units whose slopes, digits 0 to 4, make one whole number: 5**27 < 2**63."""
MAX_UNITS = 2 * WORD
"""Undecided units of a box, at most."""
MAX_RUN = 1024
"""Cells of an attribute of R, at most."""
APART = 2.0**-42
"""Absolute error of a difference of probabilities, with room to spare."""


class PatternArrays(NamedTuple):
    """Work arrays of one thread.

    Attributes:
        group: of each axis: 1 outer and 2 inner listed, 0 in R; place: where the outer ones are.
        worth: by how much each axis moves undecided units, for its values.
        live: the undecided units, slope: of the units that are on or off, weight: of the margin.
        near, far: what R adds to each of them at least and at most.
        inner: what the inner joint values add to each, and last to the sum of the units that are on.
        outer: the same of the outer joint value; chance: of the inner joint values.
        lowest, highest: of low_p over p; smallest, largest: of high_p; one, two: words of the slopes; common: what all
            assignments have of the margin.
        low, high: of one assignment.
        key, table, stamp: of the slots; bottom, inverse, moved, top: of the tables; tables: (TABLES, GRID + 4).
        value, odds, here, there: while a table is made; coefficient: of each unit in it; term, share: of an axis.
    """

    group: Integers
    place: Integers
    worth: Floats
    live: Integers
    slope: Floats
    near: Floats
    far: Floats
    inner: Floats
    outer: Floats
    chance: Floats
    lowest: Floats
    highest: Floats
    smallest: Floats
    largest: Floats
    one: Integers
    two: Integers
    common: Floats
    low: Floats
    high: Floats
    key: Integers
    table: Integers
    stamp: Integers
    bottom: Floats
    inverse: Floats
    moved: Floats
    top: Integers
    tables: Floats
    value: Floats
    odds: Floats
    here: Floats
    there: Floats
    coefficient: Floats
    term: Floats
    share: Floats


def counts_patterns(net: FloatNetwork) -> bool:
    """Return whether people can be counted so: one hidden layer, one margin, and attributes of single values."""
    single = bool((net.entry_low == net.entry_high).all())
    return len(net.sizes) == 2 and int(net.sizes[1]) == 1 and len(net.bases) > 1 and single


def pattern_arrays(net: FloatNetwork) -> PatternArrays:
    """Return fresh work arrays; without any axis where people cannot be counted so."""
    axes, units = max(1, len(net.line)) if counts_patterns(net) else 0, int(net.sizes[0])

    def whole(*shape: int) -> Integers:
        return np.zeros(shape, dtype=np.int64)

    return PatternArrays(
        group=whole(axes),
        place=whole(axes),
        worth=np.zeros(axes),
        live=whole(MAX_UNITS),
        slope=np.zeros(units),
        near=np.zeros(MAX_UNITS),
        far=np.zeros(MAX_UNITS),
        inner=np.zeros((MAX_UNITS + 1, INNER)),
        outer=np.zeros(MAX_UNITS + 1),
        chance=np.zeros(INNER),
        lowest=np.zeros(INNER),
        highest=np.zeros(INNER),
        smallest=np.zeros(INNER),
        largest=np.zeros(INNER),
        one=whole(INNER),
        two=whole(INNER),
        common=np.zeros(INNER),
        low=np.zeros(INNER),
        high=np.zeros(INNER),
        key=whole(SLOTS, 2),
        table=whole(SLOTS),
        stamp=whole(SLOTS + 2),
        bottom=np.zeros(TABLES),
        inverse=np.zeros(TABLES),
        moved=np.zeros(TABLES),
        top=whole(TABLES),
        tables=np.zeros((TABLES, GRID + 4)),
        value=np.zeros(ATOMS),
        odds=np.zeros(ATOMS),
        here=np.zeros(2 * GRID + 8),
        there=np.zeros(2 * GRID + 8),
        coefficient=np.zeros(units),
        term=np.zeros(MAX_RUN),
        share=np.zeros(MAX_RUN),
    )


@jit
def count_patterns(net, nodes, low, high, b, d):
    """Return lower bounds on the shares of a box in which people are fair, and unfair."""
    axes, assignments = len(net.line), len(net.bases)
    bound_box(net, 0, assignments, low, high, b)
    live = 0
    for h in range(net.sizes[0]):
        x, y = b.low[0, h], b.high[0, h]
        d.slope[h] = 1.0 if x >= 0 else 0.0
        if x < 0 and y > 0 and net.weights[0, 0, h] != 0.0:
            if live == MAX_UNITS:
                return 0.0, 0.0
            d.live[live] = h
            live += 1
    _choose_groups(net, nodes, low, high, live, b, d)
    for i in range(axes):
        if d.group[i] == 0 and high[i] - low[i] >= MAX_RUN:
            return 0.0, 0.0
    # What may be off: see above, and the error of float32 as for lines.
    off = 3 * net.pads[1, 0] + (b.error[1, 0] + net.tie[0]) * (1 + 2.0**-30)
    _bound_rest(net, low, high, live, d)
    inner = _list_inner(net, low, high, live, d)
    # A new stamp empties all slots at once; the number of tables in use comes after it.
    d.stamp[SLOTS] += 1
    d.stamp[SLOTS + 1] = 0
    for i in range(axes):
        d.place[i] = 0
    fair = unfair = 0.0
    # Attributes are independent, so the share is the sum over outer values of P(outer) times the sum over inner ones of
    # P(inner) times the share of R that is decided at the node of both.
    while True:
        weight = _start_outer(net, low, high, live, d)
        _bound_nodes(net, inner, live, d)
        x, y = _count_nodes(net, inner, live, off, low, high, d)
        fair += weight * x
        unfair += weight * y
        # The next joint value, like an odometer.
        moved = False
        for i in range(axes):
            if d.group[i] == 1 and not moved:
                d.place[i] += 1
                if d.place[i] <= high[i] - low[i]:
                    moved = True
                else:
                    d.place[i] = 0
        if not moved:
            break
    loss = 1 - 2.0**-38
    return fair * loss, unfair * loss


@jit
def _cell_value(net, i, c):
    """Return the column of cell c of an axis, and the factor it is taken by."""
    if net.line[i]:
        return net.start[i], net.entry_low[net.cell[i] + c]
    return net.start[i] + c, 1.0


@jit
def _cell_share(net, i, first, c, last):
    """Return the probability of cell c among those from first to last."""
    at = net.cell[i] + i
    return (net.before[at + c + 1] - net.before[at + c]) / (net.before[at + last + 1] - net.before[at + first])


@jit
def _choose_groups(net, nodes, low, high, live, b, d):
    """List the axes that move undecided units the most for the number of their values."""
    axes = len(net.line)
    for i in range(axes):
        d.worth[i] = 0.0
        d.group[i] = 0
        if low[i] == high[i]:
            continue
        # As `bounds.choose_axis`: the part of its range by which a unit's lines miss the ReLU at most, times what the
        # axis moves it by.
        for q in range(live):
            h = d.live[q]
            x, y = b.low[0, h], b.high[0, h]
            d.worth[i] += abs(net.weights[0, 0, h]) * -x * y / (y - x) ** 2 * b.spread[i, h]
        # What is moved to the grid costs too, where no unit is undecided.
        for h in range(net.sizes[0]):
            d.worth[i] += abs(net.weights[0, 0, h]) * b.spread[i, h] * 4 / GRID
        d.worth[i] /= math.log2(high[i] - low[i] + 1.0)
    # The worthiest that still fits, again and again: by the bit, as an axis of n values multiplies the nodes by n.
    inner = total = 1
    while True:
        best, chosen = 0.0, -1
        for i in range(axes):
            if d.group[i] == 0 and d.worth[i] > best and total * (high[i] - low[i] + 1) <= nodes:
                best, chosen = d.worth[i], i
        if chosen < 0:
            return
        n = high[chosen] - low[chosen] + 1
        total *= n
        d.group[chosen] = 1
        if inner * n <= INNER:
            d.group[chosen] = 2
            inner *= n


@jit
def _bound_rest(net, low, high, live, d):
    """Bound what R adds to each undecided unit, its pad included."""
    for q in range(live):
        h = d.live[q]
        near, far = -net.pads[0, h], net.pads[0, h]
        for i in range(len(net.line)):
            if d.group[i] == 0:
                small, large = np.inf, -np.inf
                for c in range(low[i], high[i] + 1):
                    # A line's extremes are at its ends.
                    if net.line[i] and low[i] < c < high[i]:
                        continue
                    column, x = _cell_value(net, i, c)
                    small = min(small, net.columns[h, column] * x)
                    large = max(large, net.columns[h, column] * x)
                near += small
                far += large
        d.near[q] = near
        d.far[q] = far


@jit
def _on_sum(net, d, column):
    """Return what a column adds to the margin through the units that are on."""
    total = 0.0
    for h in range(net.sizes[0]):
        total += net.weights[0, 0, h] * d.slope[h] * net.columns[h, column]
    return total


@jit
def _list_inner(net, low, high, live, d):
    """List what the inner joint values add to each unit; return how many there are."""
    size = 1
    for q in range(live + 1):
        d.inner[q, 0] = 0.0
    d.chance[0] = 1.0
    # Invariant: inner[q, k] and chance[k], k < size, are the sums and chances of all joint values of the axes so far.
    # The last cell comes first, so that what the others read is written over last.
    for i in range(len(net.line)):
        if d.group[i] != 2:
            continue
        for c in range(high[i], low[i] - 1, -1):
            column, x = _cell_value(net, i, c)
            at = (c - low[i]) * size
            for q in range(live + 1):
                added = (net.columns[d.live[q], column] if q < live else _on_sum(net, d, column)) * x
                for k in range(size):
                    d.inner[q, at + k] = d.inner[q, k] + added
            share = _cell_share(net, i, low[i], c, high[i])
            for k in range(size):
                d.chance[at + k] = d.chance[k] * share
        size *= high[i] - low[i] + 1
    return size


@jit
def _start_outer(net, low, high, live, d):
    """Add up what the outer joint value at ``place`` adds to each unit; return its probability."""
    weight = 1.0
    for q in range(live + 1):
        d.outer[q] = 0.0
    for i in range(len(net.line)):
        if d.group[i] == 1:
            c = low[i] + d.place[i]
            column, x = _cell_value(net, i, c)
            for q in range(live):
                d.outer[q] += net.columns[d.live[q], column] * x
            d.outer[live] += _on_sum(net, d, column) * x
            weight *= _cell_share(net, i, low[i], c, high[i])
    return weight


@jit
def _bound_nodes(net, inner, live, d):
    """Choose slopes in all inner nodes, and bound the margin but for g under every assignment."""
    assignments = len(net.bases)
    for k in range(inner):
        d.one[k] = d.two[k] = 0
        d.common[k] = d.outer[live] + d.inner[live, k] + net.biases[0, 0]
        d.lowest[k] = d.smallest[k] = np.inf
        d.highest[k] = d.largest[k] = -np.inf
    # Under p a unit gets base_p + z + r, with z from the listed values and r in [near, far] from R. Of a * relu(.), a s
    # r is left to g, and a s (z + base_p) plus [min(a e, a f), max(a e, a f)] goes to low_p and high_p, f being the d
    # of the formula above. The slope goes by the range over all assignments: g must be the same for all.
    for p in range(assignments):
        constant = 0.0
        for h in range(net.sizes[0]):
            constant += net.weights[0, 0, h] * d.slope[h] * net.bases[p, h]
        for k in range(inner):
            d.low[k] = d.high[k] = constant
        power = 1
        for q in range(live):
            h = d.live[q]
            a = net.weights[0, 0, h]
            base = net.bases[p, h]
            least = most = net.bases[0, h]
            for other in range(1, assignments):
                least, most = min(least, net.bases[other, h]), max(most, net.bases[other, h])
            least, most = least + d.near[q], most + d.far[q]
            near, far, outer = d.near[q], d.far[q], d.outer[q]
            if q == WORD:
                power = 1
            for k in range(inner):
                z = outer + d.inner[q, k]
                x, y = z + least, z + most
                # Quarters next to the chord y / (y - x); 0 and 1 where the unit is off, or on.
                quarters = np.floor(4.0 * max(0.0, min(1.0, y / max(y - x, 1e-300))) + 0.5)
                quarters = 4.0 if x >= 0 else 0.0 if y <= 0 else quarters
                s = 0.25 * quarters
                left, right = z + base + near, z + base + far
                e = max((1.0 - s) * right, -s * left)
                f = max(0.0, max((1.0 - s) * left, -s * right))
                shared = a * s * (z + base)
                d.low[k] += shared + min(a * e, a * f)
                d.high[k] += shared + max(a * e, a * f)
                if p == 0:
                    if q < WORD:
                        d.one[k] += power * int(quarters)
                    else:
                        d.two[k] += power * int(quarters)
            power *= 5
        for k in range(inner):
            d.lowest[k] = min(d.lowest[k], d.low[k])
            d.highest[k] = max(d.highest[k], d.low[k])
            d.smallest[k] = min(d.smallest[k], d.high[k])
            d.largest[k] = max(d.largest[k], d.high[k])


@jit
def _count_nodes(net, inner, live, off, low, high, d):
    """Add up the probabilities of nodes times the shares of R that are fair and unfair there."""
    fair = unfair = 0.0
    # Fair: g > off - min_p low_p, positive under all p, or g < -off - max_p high_p, negative under all. Unfair:
    # positive under the p with the greatest low_p, negative under that with the least high_p. table[j] = P(fewer than j
    # steps).
    for k in range(inner):
        t = _find_table(net, d.one[k], d.two[k], live, low, high, d)
        if t < 0:
            continue
        # In steps above the bottom: g > x is reached from the step after x on, g < y up to ``moved`` steps below y.
        base = d.common[k] + d.bottom[t]
        inverse, top, table = d.inverse[t], d.top[t], d.tables[t]
        second = _first_step((off - d.lowest[k] - base) * inverse, top)
        first = _end_step((-off - d.largest[k] - base) * inverse - d.moved[t], top)
        fair += d.chance[k] * max(0.0, table[top] - table[second] + table[first] - APART)
        if d.highest[k] > d.lowest[k] or d.smallest[k] < d.largest[k]:
            above = _first_step((off - d.highest[k] - base) * inverse, top)
            below = _end_step((-off - d.smallest[k] - base) * inverse - d.moved[t], top)
            if above < below:
                unfair += d.chance[k] * max(0.0, table[below] - table[above] - APART)
    return fair, unfair


@jit
def _first_step(x, top):
    """Return the first step that is surely more than x, at most ``top``."""
    if x < 0:
        return 0
    return top if x >= top else min(top, int(x) + 1)


@jit
def _end_step(y, top):
    """Return the number of steps that are surely less than y."""
    if y <= 0:
        return 0
    return top if y >= top else int(np.ceil(y))


@jit
def _find_table(net, one, two, live, low, high, d):
    """Return the table of the nodes with these slopes; -1 if there is no room for it."""
    # Open addressing; there are more slots than tables, so a free one is always found.
    stamp = d.stamp[SLOTS]
    mixed = (one ^ (two << 1) ^ (one >> 29)) * 0x9E3779B97F4A7C1
    slot = (mixed >> 40) & (SLOTS - 1)
    while d.stamp[slot] == stamp:
        if d.key[slot, 0] == one and d.key[slot, 1] == two:
            return d.table[slot]
        slot = (slot + 1) & (SLOTS - 1)
    t = d.stamp[SLOTS + 1]
    if t == TABLES:
        return -1
    d.stamp[SLOTS + 1] += 1
    d.stamp[slot] = stamp
    d.key[slot, 0] = one
    d.key[slot, 1] = two
    d.table[slot] = t
    _fill_table(net, one, two, live, low, high, t, d)
    return t


@jit
def _fill_table(net, one, two, live, low, high, t, d):
    """Tabulate the distribution of g over R for slopes."""
    for h in range(net.sizes[0]):
        d.coefficient[h] = net.weights[0, 0, h] * d.slope[h]
    # Digits in base 5: a digit of d is the slope d / 4.
    for q in range(live):
        if q == WORD:
            one = two
        h = d.live[q]
        d.coefficient[h] = net.weights[0, 0, h] * 0.25 * (one % 5)
        one //= 5
    bottom = span = size = 0.0
    for i in range(len(net.line)):
        if d.group[i] == 0:
            small, large, extent = _tabulate_axis(net, i, low[i], high[i], d)
            bottom += small
            span += large - small
            size += extent
    # As much as the terms and the grid may be off.
    off = LOSS * (size + span)
    inverse = 0.0 if span <= 0.0 else (GRID - 2) / (span * (1 + 2.0**-40))
    here, there = d.here, d.there
    d.value[0], d.odds[0] = 0.0, 1.0
    atoms, parts, top = 1, 0, 0
    placed = False
    for round_ in range(2):
        # First the narrow axes, as long as their joint values are few; then the others, one by one.
        for i in range(len(net.line)):
            n = high[i] - low[i] + 1
            if d.group[i] != 0 or n == 1:
                continue
            narrow = _is_narrow(i, low, high, d)
            if narrow != (round_ == 0):
                continue
            small, _, _ = _tabulate_axis(net, i, low[i], high[i], d)
            if round_ == 0:
                for c in range(n - 1, -1, -1):
                    for k in range(atoms):
                        d.value[c * atoms + k] = d.value[k] + (d.term[c] - small)
                        d.odds[c * atoms + k] = d.odds[k] * d.share[c]
                atoms *= n
                continue
            if not placed:
                top = _place_atoms(atoms, inverse, here, d)
                placed = True
            parts += 1
            reach = 0
            for c in range(n):
                reach = max(reach, int((d.term[c] - small) * inverse))
            for j in range(top + reach + 1):
                there[j] = 0.0
            for c in range(n):
                shift = int((d.term[c] - small) * inverse)
                for j in range(top + 1):
                    there[shift + j] += d.share[c] * here[j]
            top += reach
            here, there = there, here
    if not placed:
        top = _place_atoms(atoms, inverse, here, d)
    running = 0.0
    for j in range(top + 1):
        d.tables[t, j] = running
        running += here[j]
    d.tables[t, top + 1] = running
    d.top[t] = top + 1
    d.bottom[t] = bottom - off
    d.inverse[t] = inverse
    # The atoms together are moved by less than a step, and each other axis; twice what may be off is added.
    d.moved[t] = (parts + 1.0 if atoms > 1 else float(parts)) + 3 * off * inverse
    if inverse == 0.0:
        # Nothing varies: thresholds in units of the margin, with one step at 0.
        d.inverse[t] = 1.0
        d.moved[t] = 3 * off


@jit
def _is_narrow(i, low, high, d):
    """Return whether an axis of R is among the narrowest, whose joint values are few."""
    # All axes no wider than this one, ties by number, are joined before it: together they must be few.
    joint = 1
    for j in range(len(low)):
        if d.group[j] == 0 and high[j] > low[j]:
            n, own = high[j] - low[j], high[i] - low[i]
            if n < own or (n == own and j <= i):
                joint *= n + 1
                if joint > ATOMS:
                    return False
    return True


@jit
def _place_atoms(atoms, inverse, here, d):
    """Move the joint values of the narrow axes to the grid; return the last step."""
    top = 0
    for k in range(atoms):
        top = max(top, int(d.value[k] * inverse))
    for j in range(top + 1):
        here[j] = 0.0
    for k in range(atoms):
        here[int(d.value[k] * inverse)] += d.odds[k]
    return top


@jit
def _tabulate_axis(net, i, low, high, d):
    """Tabulate what the cells of an axis add to g, and their probabilities; return extremes and the sum of sizes."""
    small, large, extent = np.inf, -np.inf, 0.0
    slope = 0.0
    if net.line[i]:
        for h in range(net.sizes[0]):
            slope += d.coefficient[h] * net.columns[h, net.start[i]]
    for c in range(low, high + 1):
        column, x = _cell_value(net, i, c)
        value = slope * x
        if not net.line[i]:
            value = 0.0
            for h in range(net.sizes[0]):
                value += d.coefficient[h] * net.columns[h, column]
        d.term[c - low] = value
        d.share[c - low] = _cell_share(net, i, low, c, high)
        small, large, extent = min(small, value), max(large, value), max(extent, abs(value))
    return small, large, extent
