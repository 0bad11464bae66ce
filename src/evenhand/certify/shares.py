"""Which share of a box is decided by linear bounds: proved, not sampled (compiled).

Functions wanted positive: ``G_p = L_p - slack`` (the second label under assignment p), ``G_{P+p} = -U_p - slack``. Four
disjoint events count: all of the first P positive, all of the others positive (fair); one of the first and one of the
others, in the two best ways (unfair). Each G is a sum of independent terms, one per attribute, so P(G > t) is a tail
probability of a sum of discrete variables. It is bounded from below: some attributes are enumerated exactly, the terms
of the others are rounded down to a grid and convolved. Two conditions become one through the range of their difference.

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

jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)

ATOMS = 1024
"""Joint values of the narrowest attributes that are enumerated before anything is rounded."""
UNIT = 2.0**-53
FAIR_WORTH = -2.0
"""A fair event this many standard deviations away (2 % of the box) is not worth its proof."""
UNFAIR_WORTH = 0.1
"""An unfair event is worth a proof when its two functions are this far above zero together."""


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


@jit
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
def tail(g, f, low, n, order, enumerated, lows, highs, chance, at, axes, grid, table, here, there, hits, values, odds):
    """Fill ``table[j]`` <= P(terms of G_f not enumerated >= their minimum + j * step); give (minimum, 1 / step)."""
    least = 0.0
    span = 0.0
    widths = 0
    for i in order:
        if not enumerated[i]:
            least += lows[f, i]
            span += highs[f, i] - lows[f, i]
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
    room = min(ATOMS, max(64, grid // 2))
    q = 0
    while q < len(order):
        i = order[q]
        if not enumerated[i] and n[i] > 1:
            if atoms * n[i] > room:
                break
            for v in range(n[i] - 1, -1, -1):
                x = term(g, f, i, v, low[i], axes) - lows[f, i]
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
            j = max(0, int((term(g, f, i, v, low[i], axes) - lows[f, i]) * inverse))
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
    a = b = c = d = 0.0
    for j in range(quarter - 1, -1, -1):  # four sums side by side, then joined
        a += here[j]
        b += here[quarter + j]
        c += here[2 * quarter + j]
        d += here[3 * quarter + j]
        table[j] = a
        table[quarter + j] = b
        table[2 * quarter + j] = c
        table[3 * quarter + j] = d
    c += d
    b += c
    for j in range(quarter):
        table[j] = (table[j] + b) * shrink
        table[quarter + j] = (table[quarter + j] + c) * shrink
        table[2 * quarter + j] = (table[2 * quarter + j] + d) * shrink
        table[3 * quarter + j] *= shrink
    return least, inverse


@jit
def above(table, grid, x, inverse):
    """A lower bound on P(sum - minimum > x)."""
    if x < 0:
        return table[0]
    j = x * inverse
    if j >= grid:
        return 0.0
    return table[int(j) + 1]


@jit
def prove(assignments, low, high, g, constant, zscore, axes, grid, room, best, worst, share):
    """Lower bounds on the shares of a box on which the four events hold, into ``share`` (4,).

    Args:
        assignments: P.
        low, high: the box, first and last cell of each attribute.
        g: coefficients of the 2 P functions, (2 P, columns).
        constant: their constants, (2 P,), lowered here by their rounding.
        zscore: mean over standard deviation of each; steers only, proves nothing.
        axes: layout and weights of the attributes.
        grid: steps of the tables.
        room: joint values that may be enumerated exactly.
        best, worst: assignments of the highest L and the lowest U, for the unfair event if P > 2.
    """
    attributes = low.shape[0]
    functions = 2 * assignments
    n = np.empty(attributes, np.int64)
    at = np.empty(attributes, np.int64)
    cells = 0
    for i in range(attributes):
        n[i] = high[i] - low[i] + 1
        at[i] = cells
        cells += n[i]
    lows = np.empty((functions, attributes))
    highs = np.empty((functions, attributes))
    most = np.empty(functions)
    for f in range(functions):
        size = abs(constant[f])
        most[f] = constant[f]
        for i in range(attributes):
            a, b = term_range(g, f, i, low[i], n[i], axes)
            lows[f, i] = a
            highs[f, i] = b
            most[f] += b
            # Terms are products of positions counted from the first cell: their own size bounds their rounding.
            size += max(abs(a), abs(b)) + abs(term(g, f, i, n[i] - 1, low[i], axes))
        constant[f] -= 1e-12 * size
    width = max(2, assignments)
    member = np.zeros((4, width), np.int64)
    members = np.zeros(4, np.int64)
    for p in range(assignments):
        member[0, p] = p
        member[1, p] = assignments + p
    members[0] = assignments
    members[1] = assignments
    if assignments == 2:
        member[2, 0], member[2, 1] = 0, 3
        member[3, 0], member[3, 1] = 1, 2
        members[2] = 2
        members[3] = 2
    elif best != worst:
        member[2, 0], member[2, 1] = best, assignments + worst
        members[2] = 2
    wanted = np.zeros(functions, np.bool_)
    live = np.zeros(4, np.bool_)
    lead = np.zeros(4, np.int64)
    some = False
    for e in range(4):
        share[e] = 0.0
        possible = members[e] > 0
        hardest = member[e, 0]
        for k in range(members[e]):
            f = member[e, k]
            possible = possible and most[f] > 0
            if zscore[f] < zscore[hardest]:
                hardest = f
        if not possible:
            continue
        if e < 2:
            if zscore[hardest] < FAIR_WORTH:
                continue
            wanted[hardest] = True
        else:
            if zscore[member[e, 0]] + zscore[member[e, 1]] < UNFAIR_WORTH:
                continue
            wanted[member[e, 0]] = True
            wanted[member[e, 1]] = True
        live[e] = True
        lead[e] = hardest
        some = True
    if not some:
        return
    chance = np.empty(cells)
    for i in range(attributes):
        a = axes.first[i] + low[i]
        whole = axes.weight[a + n[i]] - axes.weight[a]
        for v in range(n[i]):
            chance[at[i] + v] = (axes.weight[a + v + 1] - axes.weight[a + v]) / whole
    enumerated = np.zeros(attributes, np.bool_)
    chosen, depth = choose(assignments, low, n, g, lows, highs, axes, room, enumerated)
    order = np.argsort(n, kind="mergesort")
    tables = np.empty((functions, grid + 8))
    here = np.empty(grid + 64)
    there = np.empty(grid + 64)
    hits = np.zeros(grid + 2)
    values = np.empty(ATOMS)
    odds = np.empty(ATOMS)
    least = np.zeros(functions)
    inverse = np.ones(functions)
    for f in range(functions):
        if wanted[f]:
            least[f], inverse[f] = tail(
                g, f, low, n, order, enumerated, lows, highs, chance, at, axes, grid, tables[f], here, there, hits,
                values, odds,
            )  # fmt: skip
    # Over the attributes in the tables, member k exceeds the lead by at least drop[e, k] and at most rise[e, k].
    drop = np.zeros((2, width))
    rise = np.zeros((2, width))
    for e in range(2):
        for k in range(members[e] if live[e] else 0):
            size = 0.0
            for i in range(attributes):
                if not enumerated[i]:
                    a, b = difference_range(g, lead[e], member[e, k], i, low[i], n[i], axes)
                    drop[e, k] += a
                    rise[e, k] += b
                    size += abs(highs[lead[e], i]) + abs(lows[lead[e], i])
                    size += abs(highs[member[e, k], i]) + abs(lows[member[e, k], i])
            drop[e, k] -= 1e-12 * size
            rise[e, k] += 1e-12 * size
    position = np.zeros(attributes, np.int64)
    partial = np.empty((depth + 1, functions))
    weight = np.empty(depth + 1)
    partial[0] = constant
    weight[0] = 1.0
    level = 0
    while level >= 0:
        while level < depth:
            i = chosen[level]
            for f in range(functions):
                partial[level + 1, f] = partial[level, f] + term(g, f, i, position[level], low[i], axes)
            weight[level + 1] = weight[level] * chance[at[i] + position[level]]
            level += 1
        for e in range(4):
            if not live[e]:
                continue
            found = 0.0
            if e < 2:
                f = lead[e]
                x = -partial[depth, f]
                for k in range(members[e]):
                    x = max(x, -partial[depth, member[e, k]] - drop[e, k])
                found = above(tables[f], grid, x - least[f], inverse[f])
                if assignments == 2:
                    k = 0 if member[e, 1] == f else 1
                    other = member[e, k]
                    if wanted[other]:
                        y = max(-partial[depth, other], -partial[depth, f] + rise[e, k])
                        found = max(found, above(tables[other], grid, y - least[other], inverse[other]))
            if members[e] == 2:
                a, b = member[e, 0], member[e, 1]
                if wanted[a] and wanted[b]:
                    both = above(tables[a], grid, -partial[depth, a] - least[a], inverse[a])
                    both += above(tables[b], grid, -partial[depth, b] - least[b], inverse[b])
                    found = max(found, both - 1 - 1e-11)
            share[e] += weight[depth] * found
        level = depth - 1
        while level >= 0:
            position[level] += 1
            if position[level] < n[chosen[level]]:
                break
            position[level] = 0
            level -= 1
        if depth == 0:
            break
    for e in range(4):
        share[e] = max(0.0, share[e] * (1 - 1e-12))


@jit
def choose(assignments, low, n, g, lows, highs, axes, room, enumerated):
    """Which attributes to enumerate: those in which the functions differ most, per doubling of the work."""
    attributes = low.shape[0]
    worth = np.empty(attributes)
    for i in range(attributes):
        worth[i] = -1.0
        if n[i] > 1:
            x = 0.0
            for f in range(2 * assignments):
                x += 0.3 * (highs[f, i] - lows[f, i])
            for side in range(2):
                for p in range(1, assignments):
                    a, b = difference_range(g, side * assignments, side * assignments + p, i, low[i], n[i], axes)
                    x += b - a
            worth[i] = x / math.log2(n[i])
    chosen = np.empty(attributes, np.int64)
    depth = 0
    points = 1
    for _ in range(attributes):
        i = int(np.argmax(worth))
        if worth[i] <= 0:
            break
        worth[i] = -1.0
        if points * n[i] <= room:
            points *= n[i]
            enumerated[i] = True
            chosen[depth] = i
            depth += 1
    return chosen, depth
