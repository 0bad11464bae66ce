"""Which share of a box is decided by linear bounds: proved, not sampled (compiled).

Functions wanted positive: each G says, where it is above zero, that one label beats another under one protected
assignment. An event is a set of functions that are all positive; the events given are disjoint. Each G is a sum of
independent terms, one per attribute, so P(G > t) is a tail probability of a sum of discrete variables. It is bounded
from below: some attributes are enumerated exactly, the terms of the others are rounded down to a grid and convolved.
Several conditions become one through the ranges of their differences.

Rounding: constants are lowered by 1e-12 of the sizes of their terms, tables shrunk by their accumulated relative error.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from evenhand.certify.lanes import axpy, full, load_at, store_at

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Nothing is allocated, so that views need no reference counts (see ``relaxation``).
jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
# Passing the layout to a function takes longer than what the shortest ones do.
inlined = numba.njit(error_model="numpy", boundscheck=False, _nrt=False, inline="always")

ATOMS = 1024
"""Joint values of the narrowest attributes that are enumerated before anything is rounded."""
FINEST = 4096
"""Grid steps at most."""
UNIT = 2.0**-53
FAIR_WORTH = -2.0
"""A fair event this many standard deviations away (2 % of the box) is not worth its proof."""
UNFAIR_WORTH = 0.1
"""An unfair event is worth a proof when its two hardest functions are this far above zero together."""


class Axes(NamedTuple):
    """How unprotected attributes are laid out and weighed.

    ``start``, ``line``, ``reach`` as in ``relaxation.Network``; the prefix sums of attribute i begin at ``first[i]``;
    ``weight`` (exact whole numbers), ``moment`` and ``square`` are sums of weight, weight * position, weight * position
    squared over the cells before; ``total`` the weight of all cells.
    """

    start: Ints
    line: NDArray[np.bool_]
    reach: Floats
    first: Ints
    weight: Floats
    moment: Floats
    square: Floats
    total: Floats


class Events(NamedTuple):
    """What is to be proved about a box: disjoint events, each a set of functions that must all be positive.

    Attributes:
        number: (1,), how many there are.
        size: functions of each.
        member: their indices, shape (events, most).
        unfair: whether an event is about different labels; then ``gain`` adds to its functions.
    """

    number: Ints
    size: Ints
    member: Ints
    unfair: Flags


class Desk(NamedTuple):
    """Work arrays of one thread for proofs; ``share`` (events,) takes what is proved."""

    share: Floats
    n: Ints
    at: Ints
    lows: Floats
    highs: Floats
    most: Floats
    needed: Ints
    wanted: Flags
    live: Flags
    lead: Ints
    chance: Floats
    enumerated: Flags
    worth: Floats
    chosen: Ints
    order: Ints
    tables: Floats
    here: Floats
    there: Floats
    hits: Floats
    values: Floats
    odds: Floats
    least: Floats
    inverse: Floats
    drop: Floats
    rise: Floats
    position: Ints
    partial: Floats
    weight: Floats


def desk(functions: int, attributes: int, cells: int, events: int, most: int) -> Desk:
    """Fresh work arrays for functions of attributes with so many cells in all, and events of ``most`` functions."""
    return Desk(
        share=np.zeros(events),
        n=np.zeros(attributes, np.int64),
        at=np.zeros(attributes, np.int64),
        lows=np.zeros((functions, attributes)),
        highs=np.zeros((functions, attributes)),
        most=np.zeros(functions),
        needed=np.zeros(functions, np.int64),
        wanted=np.zeros(functions, np.bool_),
        live=np.zeros(events, np.bool_),
        lead=np.zeros(events, np.int64),
        chance=np.zeros(cells),
        enumerated=np.zeros(attributes, np.bool_),
        worth=np.zeros(attributes),
        chosen=np.zeros(attributes, np.int64),
        order=np.zeros(attributes, np.int64),
        tables=np.zeros((functions, FINEST + 8)),
        here=np.zeros(FINEST + 64),
        there=np.zeros(FINEST + 64),
        hits=np.zeros(FINEST + 2),
        values=np.zeros(ATOMS),
        odds=np.zeros(ATOMS),
        least=np.zeros(functions),
        inverse=np.zeros(functions),
        drop=np.zeros((events, most)),
        rise=np.zeros((events, most)),
        position=np.zeros(attributes, np.int64),
        partial=np.zeros((attributes + 1, functions)),
        weight=np.zeros(attributes + 1),
    )


@inlined
def term(g, f, i, v, low, axes):
    """What cell ``low + v`` of attribute i adds to G_f, at least."""
    if axes.line[i]:
        slope = g[f, axes.start[i]]
        return slope * (low + v) + min(0.0, slope) * axes.reach[i]
    return g[f, axes.start[i] + low + v]


@jit
def term_range(g, f, i, low, n, axes):
    """Smallest and largest term of attribute i."""
    x = term(g, f, i, 0, low, axes)
    y = term(g, f, i, n - 1, low, axes)
    a, b = min(x, y), max(x, y)
    if not axes.line[i]:
        for v in range(1, n - 1):
            x = g[f, axes.start[i] + low + v]
            a = min(a, x)
            b = max(b, x)
    return a, b


@jit
def difference_range(g, e, f, i, low, n, axes):
    """Smallest and largest difference G_f - G_e of the terms of attribute i."""
    x = term(g, f, i, 0, low, axes) - term(g, e, i, 0, low, axes)
    y = term(g, f, i, n - 1, low, axes) - term(g, e, i, n - 1, low, axes)
    a, b = min(x, y), max(x, y)
    if not axes.line[i]:
        for v in range(1, n - 1):
            x = g[f, axes.start[i] + low + v] - g[e, axes.start[i] + low + v]
            a = min(a, x)
            b = max(b, x)
    return a, b


@jit
def tail(g, f, low, axes, grid, d):
    """Fill ``d.tables[f]`` with lower bounds on P(terms of G_f not enumerated >= their minimum + j * step).

    Returns:
        The minimum, and one over the step.
    """
    n, order, enumerated, chance, at = d.n, d.order, d.enumerated, d.chance, d.at
    lows, highs = d.lows[f], d.highs[f]
    table, here, there, hits, values, odds = d.tables[f], d.here, d.there, d.hits, d.values, d.odds
    least = 0.0
    span = 0.0
    widths = 0
    for i in order:
        if not enumerated[i]:
            least += lows[i]
            span += highs[i] - lows[i]
            widths += n[i] + 4
    if span <= 0.0:
        for j in range(grid + 2):
            table[j] = 0.0
        table[0] = 1.0 - 8 * widths * UNIT
        return least, 1.0
    inverse = grid / span * (1 - 1e-12)
    atoms = 1
    values[0] = 0.0
    odds[0] = 1.0
    room = min(ATOMS, max(64, grid))
    q = 0
    while q < len(order):
        i = order[q]
        if not enumerated[i] and n[i] > 1:
            if atoms * n[i] > room:
                break
            for v in range(n[i] - 1, -1, -1):
                x = term(g, f, i, v, low[i], axes) - lows[i]
                p = chance[at[i] + v]
                for k in range(atoms):
                    values[v * atoms + k] = values[k] + x
                    odds[v * atoms + k] = odds[k] * p
            atoms *= n[i]
        q += 1
    zero = full(0.0)
    for j in range(0, grid + 2, 16):
        store_at(here, j, zero)
    top = 0
    for k in range(atoms):
        j = max(0, int(values[k] * inverse))
        here[j] += odds[k]
        top = max(top, j)
    while q < len(order):
        i = order[q]
        q += 1
        if enumerated[i] or n[i] == 1:
            continue
        most = 0
        for v in range(n[i]):
            j = max(0, int((term(g, f, i, v, low[i], axes) - lows[i]) * inverse))
            hits[j] += chance[at[i] + v]
            most = max(most, j)
        for j in range(0, top + most + 18, 16):
            store_at(there, j, zero)
        for j in range(top + 1, top + 17):
            here[j] = 0.0
        for shift in range(most + 1):
            p = hits[shift]
            if p != 0.0:
                hits[shift] = 0.0
                for j in range(0, top + 1, 16):
                    store_at(there, j + shift, axpy(p, load_at(here, j), load_at(there, j + shift)))
        top += most
        here, there = there, here
    shrink = 1 - 8 * widths * UNIT - 1e-15
    for j in range(top + 1, grid + 2):
        table[j] = 0.0
    quarter = (top + 4) // 4
    for j in range(top + 1, 4 * quarter):
        here[j] = 0.0
    a = b = c = e = 0.0
    for j in range(quarter - 1, -1, -1):  # four sums side by side, then joined
        a += here[j]
        b += here[quarter + j]
        c += here[2 * quarter + j]
        e += here[3 * quarter + j]
        table[j] = a
        table[quarter + j] = b
        table[2 * quarter + j] = c
        table[3 * quarter + j] = e
    c += e
    b += c
    for j in range(quarter):
        table[j] = (table[j] + b) * shrink
        table[quarter + j] = (table[quarter + j] + c) * shrink
        table[2 * quarter + j] = (table[2 * quarter + j] + e) * shrink
        table[3 * quarter + j] *= shrink
    return least, inverse


@inlined
def above(tables, f, grid, x, inverse):
    """A lower bound on P(sum - minimum > x) of function f."""
    if x < 0:
        return tables[f, 0]
    j = x * inverse
    if j >= grid:
        return 0.0
    return tables[f, int(j) + 1]


@jit
def prove(events, low, high, g, constant, gain, zscore, bolder, axes, grid, room, d):
    """Lower bounds on the shares of a box on which the events hold, into ``d.share``.

    Args:
        events: what is to be proved.
        low, high: the box, first and last cell of each attribute.
        g: coefficients of the functions, (functions, columns).
        constant: their constants, (functions,), lowered here by their rounding.
        gain: what each function has more in unfair events.
        zscore: mean over standard deviation of each; steers only, proves nothing.
        bolder: the same with the gain.
        axes: layout and weights of the attributes.
        grid: steps of the tables.
        room: joint values that may be enumerated exactly.
        d: work arrays.
    """
    attributes = low.shape[0]
    n = d.n
    cells = 0
    for i in range(attributes):
        n[i] = high[i] - low[i] + 1
        d.at[i] = cells
        cells += n[i]
    d.wanted[:] = False
    for f in range(g.shape[0]):
        d.most[f] = -np.inf
    for e in range(events.number[0]):
        d.share[e] = 0.0
        for k in range(events.size[e]):
            d.most[events.member[e, k]] = 0.0
    for f in range(g.shape[0]):
        if d.most[f] < 0.0:
            continue
        size = abs(constant[f]) + abs(gain[f])
        d.most[f] = constant[f]
        for i in range(attributes):
            a, b = term_range(g, f, i, low[i], n[i], axes)
            d.lows[f, i] = a
            d.highs[f, i] = b
            d.most[f] += b
            # Terms are products of positions counted from the first cell: their own size bounds their rounding.
            size += max(abs(a), abs(b)) + abs(term(g, f, i, n[i] - 1, low[i], axes))
        constant[f] -= 1e-12 * size
    if not select(events, gain, zscore, bolder, d):
        return
    for i in range(attributes):
        a = axes.first[i] + low[i]
        whole = axes.weight[a + n[i]] - axes.weight[a]
        for v in range(n[i]):
            d.chance[d.at[i] + v] = (axes.weight[a + v + 1] - axes.weight[a + v]) / whole
    depth = choose(events, low, g, axes, room, d)
    by_width(n, d.order)
    for f in range(g.shape[0]):
        if d.wanted[f]:
            d.least[f], d.inverse[f] = tail(g, f, low, axes, grid, d)
    differences(events, low, g, axes, d)
    for f in range(g.shape[0]):
        d.most[f] = 0.0
    for e in range(events.number[0]):
        for k in range(events.size[e] if d.live[e] else 0):
            d.most[events.member[e, k]] = 1.0
    used = 0
    for f in range(g.shape[0]):
        if d.most[f] > 0:
            d.needed[used] = f
            used += 1
    count_points(
        used, d.needed, events.number[0], events.size, events.member, events.unfair, low, g, constant, gain, axes, grid,
        depth, n, d.at, d.chance, d.chosen, d.wanted, d.live, d.lead, d.tables, d.least, d.inverse, d.drop, d.rise,
        d.position, d.partial, d.weight, d.share,
    )  # fmt: skip


@jit
def count_points(
    used, needed, events, size, member, unfair, low, g, constant, gain, axes, grid, depth, n, at, chance, chosen,
    wanted, live, lead, tables, least, inverse, drop, rise, position, partial, weight, share,
):  # fmt: skip
    """Go through the joint values of the enumerated attributes and look the rest up in the tables."""
    position[:] = 0
    for k in range(used):
        partial[0, needed[k]] = constant[needed[k]]
    weight[0] = 1.0
    level = 0
    while level >= 0:
        while level < depth:
            i = chosen[level]
            for k in range(used):
                f = needed[k]
                partial[level + 1, f] = partial[level, f] + term(g, f, i, position[level], low[i], axes)
            weight[level + 1] = weight[level] * chance[at[i] + position[level]]
            level += 1
        for e in range(events):
            if not live[e]:
                continue
            if unfair[e]:
                # Each function may fail with some chance; all together fail with no more than the sum.
                found = 1.0
                for k in range(size[e]):
                    f = member[e, k]
                    found -= 1 - above(tables, f, grid, -partial[depth, f] - gain[f] - least[f], inverse[f]) + 1e-11
            else:
                f = lead[e]
                x = -partial[depth, f]
                for k in range(size[e]):
                    x = max(x, -partial[depth, member[e, k]] - drop[e, k])
                found = above(tables, f, grid, x - least[f], inverse[f])
                if size[e] == 2:
                    k = 0 if member[e, 1] == f else 1
                    h = member[e, k]
                    if wanted[h]:
                        y = max(-partial[depth, h], -partial[depth, f] + rise[e, k])
                        found = max(found, above(tables, h, grid, y - least[h], inverse[h]))
                        both = above(tables, f, grid, -partial[depth, f] - least[f], inverse[f])
                        both += above(tables, h, grid, -partial[depth, h] - least[h], inverse[h])
                        found = max(found, both - 1 - 1e-11)
            share[e] += weight[depth] * max(0.0, found)
        level = depth - 1
        while level >= 0:
            position[level] += 1
            if position[level] < n[chosen[level]]:
                break
            position[level] = 0
            level -= 1
    for e in range(events):
        share[e] = max(0.0, share[e] * (1 - 1e-12))


@jit
def select(events, gain, zscore, bolder, d):
    """Which events are worth a proof, by which function, and with what tables. False if there is nothing to do."""
    some = False
    for e in range(events.number[0]):
        d.live[e] = False
        possible = events.size[e] > 0
        hardest = events.member[e, 0]
        together = 0.0
        for k in range(events.size[e]):
            f = events.member[e, k]
            possible = possible and d.most[f] + (gain[f] if events.unfair[e] else 0.0) > 0
            together += min(bolder[f], 3.0)
            if zscore[f] < zscore[hardest]:
                hardest = f
        if not possible:
            continue
        if events.unfair[e]:
            if together < 3.0 * (events.size[e] - 2) + UNFAIR_WORTH:
                continue
            for k in range(events.size[e]):
                d.wanted[events.member[e, k]] = True
        else:
            if zscore[hardest] < FAIR_WORTH:
                continue
            d.wanted[hardest] = True
        d.live[e] = True
        d.lead[e] = hardest
        some = True
    return some


@jit
def differences(events, low, g, axes, d):
    """Over the attributes in the tables, member k exceeds the lead by at least drop[e, k] and at most rise[e, k]."""
    for e in range(events.number[0]):
        if not d.live[e] or events.unfair[e]:
            continue
        lead = d.lead[e]
        for k in range(events.size[e]):
            f = events.member[e, k]
            drop = 0.0
            rise = 0.0
            size = 0.0
            for i in range(low.shape[0]):
                if not d.enumerated[i]:
                    a, b = difference_range(g, lead, f, i, low[i], d.n[i], axes)
                    drop += a
                    rise += b
                    size += abs(d.highs[lead, i]) + abs(d.lows[lead, i]) + abs(d.highs[f, i]) + abs(d.lows[f, i])
            d.drop[e, k] = drop - 1e-12 * size
            d.rise[e, k] = rise + 1e-12 * size


@jit
def by_width(n, order):
    """Attributes by increasing width."""
    for i in range(n.shape[0]):
        j = i
        while j > 0 and n[order[j - 1]] > n[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@jit
def choose(events, low, g, axes, room, d):
    """Enumerate the attributes in which the functions of fair events differ most, per doubling of the work.

    Returns:
        How many there are; ``d.chosen`` names them.
    """
    attributes = low.shape[0]
    d.enumerated[:] = False
    for i in range(attributes):
        d.worth[i] = -1.0
        if d.n[i] > 1:
            x = 0.0
            for f in range(g.shape[0]):
                if d.wanted[f]:
                    x += 0.3 * (d.highs[f, i] - d.lows[f, i])
            for e in range(events.number[0]):
                if d.live[e] and not events.unfair[e]:
                    for k in range(events.size[e]):
                        f = events.member[e, k]
                        if f != d.lead[e]:
                            a, b = difference_range(g, d.lead[e], f, i, low[i], d.n[i], axes)
                            x += b - a
            d.worth[i] = x / math.log2(d.n[i])
    depth = 0
    points = 1
    for _ in range(attributes):
        i = 0
        for j in range(1, attributes):
            if d.worth[j] > d.worth[i]:
                i = j
        if d.worth[i] <= 0:
            break
        d.worth[i] = -1.0
        if points * d.n[i] <= room:
            points *= d.n[i]
            d.enumerated[i] = True
            d.chosen[depth] = i
            depth += 1
    return depth
