"""Prove the share of a box that linear bounds decide (compiled).

A positive function G means that one label beats another under one protected assignment. An event is a set of functions
that are all positive; events are disjoint. Each G is a sum of independent terms, one per attribute, so P(G > t) is a
tail probability of a sum of discrete variables. It is bounded from below: some attributes are enumerated exactly, the
terms of the others are rounded down to a grid and convolved. Several conditions become one through the ranges of their
differences. If a function is the minimum of two pieces, the second piece is a separate function, and the function
is positive where both are.

Rounding: constants are lowered by a bound on the error of their sums (see ``prove_shares``), and tables shrunk by their
relative error.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from evenhand.certification.bounds.compiled.tails import (
    MARGIN,
    MAX_ATOMS,
    MAX_GRID_STEPS,
    UNIT_ROUNDOFF,
    IndependentTerms,
    TailBuffers,
    fill_table,
    sort_by_width,
)
from evenhand.core.kernels import array_table, compile_kernel, new_arrays
from evenhand.core.typing import Booleans, Floats, Integers

# Nothing is allocated, so that views need no reference counts (see ``relaxation``).
jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
# Passing the layout takes longer than the body of the shortest functions, so LLVM inlines them. Inlining by Numba
# (``inline="always"``) types and lowers each call again, which takes a fifth longer to compile.
inlined = compile_kernel(
    internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False, forceinline=True
)

MIN_ROUNDING = 1e-12
"""Minimum relative slack for rounding: that of 9,000 operations."""
LEAD_WORTH = -2.0
"""Minimum score of the lead of an event that is proved (2 % of the box)."""
APART_WORTH = 0.1
"""Minimum sum of the two lowest scores of an event that is proved, if its functions are proved separately."""


class AttributeAxes(NamedTuple):
    """Layout and weights of the unprotected attributes.

    ``start``, ``line``, ``reach`` as in ``relaxation.FlatNetwork``; the prefix sums of attribute i begin at
    ``first[i]``; ``weight`` (exact whole numbers), ``moment`` and ``square`` are sums of weight, weight * position,
    weight * position squared over the cells before; ``total`` the weight of all cells.
    """

    start: Integers
    line: Booleans
    reach: Floats
    first: Integers
    weight: Floats
    moment: Floats
    square: Floats
    total: Floats


ProofEvents = array_table(
    "ProofEvents",
    __name__,
    {
        # Number of events, number of functions of each, and their indices.
        "number": "int64 1",
        "size": "int64 events",
        "member": "int64 events members",
        # Whether an event means unfair treatment.
        "unfair": "bool events",
        # Whether its functions may conflict. Then each is proved separately, and their probabilities of failure are
        # added up (Bonferroni). Otherwise the event is proved by a leading function.
        "apart": "bool events",
    },
)
"""Events to prove about a box: disjoint, each a set of functions that must all be positive."""


BoxFunctions = array_table(
    "BoxFunctions",
    __name__,
    {
        # Coefficients and constants.
        "g": "float64 functions columns",
        "constant": "float64 functions",
        # Mean over standard deviation, used to select proofs only.
        "zscore": "float64 functions",
        # Index of the second piece, which must be positive too, -1 if there is none.
        "second": "int64 functions",
    },
)
"""Functions of one box. In an event, some of them are all positive."""


ScratchBuffers = array_table(
    "ScratchBuffers",
    __name__,
    {
        # Proved share of each event, whether it is proved, and its leading functions.
        "share": "float64 events",
        "live": "bool events",
        "lead": "int64 events 2",
        # Attribute i is divided into ``n[i]`` runs of ``step[i]`` neighbouring cells, the first of which is ``at[i]``.
        "n step at": "int64 attributes",
        # Probability of each run, and its terms in one function.
        "chance term": "float64 runs",
        # Enumerated attributes, as a mask and as a list, their values, and the attributes by increasing ``n``.
        "enumerated chosen position order": "int64 attributes",
        "worth": "float64 attributes",
        # Smallest and largest term of each function and attribute, and largest value of each function.
        "lows highs": "float64 functions attributes",
        "most": "float64 functions",
        # Functions whose sums are tracked, and whether a function needs a table.
        "needed": "int64 functions",
        "wanted": "bool functions",
        # Tables of tails, with their minima, and one over their steps.
        "tables": "float64 functions bins",
        "least inverse": "float64 functions",
        # Minimum excess of a piece of a member over a lead on the tabled attributes.
        "drop": "float64 events members 2 2",
        # Sums and weights of the first values of the enumerated attributes.
        "partial": "float64 depths functions",
        "weight": "float64 depths",
        "tails": "",
    },
)
"""Work arrays of one thread for proofs."""


def scratch_buffers(functions: int, attributes: int, cells: int, events: int, members: int) -> Any:
    """Allocate work arrays for attributes with ``cells`` cells in total, and events of up to ``members`` functions."""
    tails = new_arrays(TailBuffers, sums=2 * MARGIN + MAX_GRID_STEPS, atoms=MAX_ATOMS, shifts=MAX_GRID_STEPS + 2)
    work = new_arrays(
        ScratchBuffers,
        functions=functions,
        attributes=attributes,
        runs=cells,
        events=events,
        members=members,
        bins=MAX_GRID_STEPS + 8,
        depths=attributes + 1,
        tails=tails,
    )
    work.step[:] = 1
    return work


@inlined
def cell_term(g, f, i, v, low, step, axes):
    """Bound the term in G_f of run v of attribute i from below: ``step`` cells from ``low + v * step``."""
    # Within a run of width w the term is slope * (x + r) with 0 <= r <= w: at least slope * x + min(0, slope) * w.
    if axes.line[i]:
        slope = g[f, axes.start[i]]
        return slope * (low + v * step) + min(0.0, slope) * (axes.reach[i] + (step - 1))
    return g[f, axes.start[i] + low + v]


@inlined
def term_range(g, f, i, low, n, step, axes):
    """Return the smallest and largest term of attribute i."""
    # A line has its extremes at the ends; a table may have them anywhere.
    x = cell_term(g, f, i, 0, low, step, axes)
    y = cell_term(g, f, i, n - 1, low, step, axes)
    a, b = min(x, y), max(x, y)
    if not axes.line[i]:
        for v in range(1, n - 1):
            x = g[f, axes.start[i] + low + v]
            a = min(a, x)
            b = max(b, x)
    return a, b


@inlined
def difference_range(g, e, f, i, low, n, step, axes):
    """Return the smallest and largest difference G_f - G_e of the terms of attribute i."""
    # The difference of two lines is a line, whose extremes are at the ends; other terms are scanned cell by cell.
    x = cell_term(g, f, i, 0, low, step, axes) - cell_term(g, e, i, 0, low, step, axes)
    y = cell_term(g, f, i, n - 1, low, step, axes) - cell_term(g, e, i, n - 1, low, step, axes)
    a, b = min(x, y), max(x, y)
    if not axes.line[i]:
        for v in range(1, n - 1):
            x = g[f, axes.start[i] + low + v] - g[e, axes.start[i] + low + v]
            a = min(a, x)
            b = max(b, x)
    return a, b


@jit
def fill_tail_table(g, f, low, axes, grid, d):
    """Fill ``d.tables[f]`` with lower bounds on P(terms of G_f not enumerated >= their minimum + j * step).

    Returns:
        The minimum, and one over the step.
    """
    lows, term = d.lows[f], d.term
    minimum = 0.0
    for i in range(low.shape[0]):
        if d.enumerated[i] == 0:
            minimum += lows[i]
            for v in range(d.n[i]):
                term[d.at[i] + v] = max(0.0, cell_term(g, f, i, v, low[i], d.step[i], axes) - lows[i])
    terms = IndependentTerms(term, d.chance, d.at, d.n, d.order, d.enumerated)
    return minimum, fill_table(d.tables[f], terms, grid, min(MAX_ATOMS, max(64, grid)), d.tails)


@inlined
def tail_bound(tables, f, grid, x, inverse):
    """Return a lower bound on P(sum - minimum > x) of function f."""
    if x < 0:
        return tables[f, 0]
    # floor(x / h) + 1 steps exceed x in spite of rounding.
    j = x * inverse
    if j >= grid:
        return 0.0
    return tables[f, int(j) + 1]


@jit
def prove_shares(events, low, high, functions, axes, grid, room, d):
    """Compute lower bounds on the shares of a box on which the events hold, into ``d.share``.

    Args:
        events: Events to prove.
        low, high: First and last cell of each attribute.
        functions: Functions of the box, whose constants are lowered here by their rounding.
        axes: Layout and weights of the attributes.
        grid: Number of steps of the tables.
        room: Maximum number of enumerated joint values.
        d: Work arrays.
    """
    # Given the box, attributes are independent: cell v of attribute i has chance weight_v / (weight of the range), and
    # each G is constant + sum of terms, one per attribute. Steps: leave out events that cannot be proved, enumerate
    # some attributes, tabulate the tails of the sums of the others, and add up over the enumerated values.
    attributes = low.shape[0]
    g, constant = functions.g, functions.constant
    n = d.n
    # Each compared number is a sum of a constant and two terms per attribute, each rounded at most four times; a
    # share sums up at most ``room`` products of chances. By gamma_n = n u / (1 - n u), twice n u covers all of it.
    rounding = max(MIN_ROUNDING, 2.0 * (room + 4 * attributes + 16) * UNIT_ROUNDOFF)
    cells = 0
    # A line with more cells than the grid resolves is divided into runs: a real number has tens of thousands of cells.
    max_runs = max(grid // 2, room)
    for i in range(attributes):
        width = high[i] - low[i] + 1
        d.step[i] = (width + max_runs - 1) // max_runs if axes.line[i] else 1
        n[i] = (width + d.step[i] - 1) // d.step[i]
        d.at[i] = cells
        cells += n[i]
    d.wanted[:] = False
    for f in range(g.shape[0]):
        d.most[f] = -np.inf
    second = functions.second
    for e in range(events.number[0]):
        d.share[e] = 0.0
        for k in range(events.size[e]):
            f = events.member[e, k]
            d.most[f] = 0.0
            if second[f] >= 0:
                d.most[second[f]] = 0.0
    # d.most: minus infinity for functions in no event; then the largest value over the box. An event with a function
    # that is nowhere positive has share 0 and needs no table.
    for f in range(g.shape[0]):
        if d.most[f] < 0.0:
            continue
        size = abs(constant[f])
        d.most[f] = constant[f]
        for i in range(attributes):
            a, b = term_range(g, f, i, low[i], n[i], d.step[i], axes)
            d.lows[f, i] = a
            d.highs[f, i] = b
            d.most[f] += b
            # Terms are products of positions counted from the first cell: their own size bounds their rounding.
            size += max(abs(a), abs(b)) + abs(cell_term(g, f, i, n[i] - 1, low[i], d.step[i], axes))
        constant[f] -= rounding * size
    if not select_events(events, functions, d):
        return
    for i in range(attributes):
        a = axes.first[i] + low[i]
        b = axes.first[i] + high[i] + 1
        total = axes.weight[b] - axes.weight[a]
        for v in range(n[i]):
            end = min(a + (v + 1) * d.step[i], b)
            d.chance[d.at[i] + v] = (axes.weight[end] - axes.weight[a + v * d.step[i]]) / total
    depth = choose_enumerated(events, functions, low, axes, room, d)
    sort_by_width(n, d.order)
    for f in range(g.shape[0]):
        if d.wanted[f]:
            d.least[f], d.inverse[f] = fill_tail_table(g, f, low, axes, grid, d)
    event_differences(events, functions, low, axes, rounding, d)
    # Functions whose partial sums are tracked: those of live events, with or without a table.
    d.most[:] = 0.0
    for e in range(events.number[0]):
        for k in range(events.size[e] if d.live[e] else 0):
            f = events.member[e, k]
            d.most[f] = 1.0
            if second[f] >= 0:
                d.most[second[f]] = 1.0
    used = 0
    for f in range(g.shape[0]):
        if d.most[f] > 0:
            d.needed[used] = f
            used += 1
    sum_joint_values(used, events, low, functions, axes, grid, depth, d)
    for e in range(events.number[0]):
        d.share[e] = max(0.0, d.share[e] * (1 - rounding))


@jit
def sum_joint_values(used, all_events, low, functions, axes, grid, depth, d):
    """Iterate over the joint values of the enumerated attributes and look up the others in the tables."""
    # Reading the arrays from the named tuple inside the loops would make proofs 1.5 times as slow.
    events, size, member, apart = all_events.number[0], all_events.size, all_events.member, all_events.apart
    g, constant, second = functions.g, functions.constant, functions.second
    n, step, at, chance, chosen, needed = d.n, d.step, d.at, d.chance, d.chosen, d.needed
    wanted, live, lead, tables, least, inverse = d.wanted, d.live, d.lead, d.tables, d.least, d.inverse
    drop, position, partial, weight, share = d.drop, d.position, d.partial, d.weight, d.share
    # share_e = sum over enumerated values v of P(v) * P(event given v), depth first like an odometer. Invariant:
    # partial[l, f] is the constant of f plus its terms at the first l positions, weight[l] the product of their
    # chances; so moving the last position costs one addition per function.
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
                partial[level + 1, f] = partial[level, f] + cell_term(g, f, i, position[level], low[i], step[i], axes)
            weight[level + 1] = weight[level] * chance[at[i] + position[level]]
            level += 1
        for e in range(events):
            if not live[e]:
                continue
            # Given the enumerated values, P(all members positive). On the tables' attributes function h is at least
            # lead l plus drop[h, l], so all are positive where a lead exceeds the largest of -partial_h - drop[h, l].
            # With two leads: either for all, or each for its own group, as both groups must be positive (Bonferroni).
            # All are sound, so the largest counts.
            if apart[e]:
                # The probability that some member fails is at most the sum of the probabilities for each.
                chance_all = 1.0
                for k in range(size[e]):
                    f = member[e, k]
                    h = second[f]
                    chance_member = 1.0
                    x = -partial[depth, f]
                    if wanted[f]:
                        chance_member = tail_bound(tables, f, grid, x - least[f], inverse[f])
                    if h >= 0 and wanted[h]:
                        y = -partial[depth, h]
                        other = tail_bound(tables, h, grid, y - least[h], inverse[h])
                        if wanted[f]:
                            z = max(x, y - drop[e, k, 1, 0])
                            both = tail_bound(tables, f, grid, z - least[f], inverse[f])
                            z = max(y, x - drop[e, k, 0, 1])
                            both = max(both, tail_bound(tables, h, grid, z - least[h], inverse[h]))
                            chance_member = max(both, chance_member + other - 1 - 1e-11)
                        else:
                            chance_member = other
                    chance_all -= 1 - chance_member + 1e-11
            else:
                f = lead[e, 0]
                h = lead[e, 1]
                own = lead_others = own_of_h = others_of_h = -np.inf
                for k in range(size[e]):
                    i = member[e, k]
                    x = -partial[depth, i]
                    if i == h:
                        lead_others = max(lead_others, x - drop[e, k, 0, 0])
                        own_of_h = max(own_of_h, x)
                    else:
                        own = max(own, x - drop[e, k, 0, 0])
                        others_of_h = max(others_of_h, x - drop[e, k, 0, 1])
                    if second[i] >= 0:
                        x = -partial[depth, second[i]]
                        lead_others = max(lead_others, x - drop[e, k, 1, 0])
                        own_of_h = max(own_of_h, x - drop[e, k, 1, 1])
                chance_all = tail_bound(tables, f, grid, max(own, lead_others) - least[f], inverse[f])
                if h >= 0 and wanted[h]:
                    x = max(own_of_h, others_of_h) - least[h]
                    chance_all = max(chance_all, tail_bound(tables, h, grid, x, inverse[h]))
                    both = tail_bound(tables, f, grid, own - least[f], inverse[f])
                    both += tail_bound(tables, h, grid, own_of_h - least[h], inverse[h])
                    chance_all = max(chance_all, both - 1 - 1e-11)
            share[e] += weight[depth] * max(0.0, chance_all)
        level = depth - 1
        while level >= 0:
            position[level] += 1
            if position[level] < n[chosen[level]]:
                break
            position[level] = 0
            level -= 1


@inlined
def select_events(events, functions, d):
    """Select the events to prove, their leading functions and their tables. Return False if there are none."""
    zscore, second = functions.zscore, functions.second
    # Omitted events count as undecided, so any selection rule is sound. An event is proved by the function that is
    # least likely to be positive, since the others usually are if it is, and by one second piece; an event of two
    # functions is proved by both. If the functions are apart, each needs a table.
    some = False
    for e in range(events.number[0]):
        d.live[e] = False
        possible = events.size[e] > 0
        hardest = events.member[e, 0]
        other = -1
        score_sum = 0.0
        for k in range(events.size[e]):
            f = events.member[e, k]
            h = second[f]
            possible = possible and d.most[f] > 0
            score_sum += min(zscore[f], 3.0)
            if zscore[f] < zscore[hardest]:
                hardest = f
            if h >= 0:
                possible = possible and d.most[h] > 0
                if other < 0 or zscore[h] < zscore[other]:
                    other = h
        if not possible:
            continue
        if events.apart[e]:
            if score_sum < 3.0 * (events.size[e] - 2) + APART_WORTH:
                continue
            # A function that is positive everywhere cannot fail, and needs no table.
            for k in range(events.size[e]):
                f = events.member[e, k]
                d.wanted[f] = d.wanted[f] or may_fail(functions, f, d)
                if second[f] >= 0:
                    d.wanted[second[f]] = d.wanted[second[f]] or may_fail(functions, second[f], d)
        else:
            if zscore[hardest] < LEAD_WORTH:
                continue
            d.wanted[hardest] = True
            if other >= 0:
                d.wanted[other] = True
            elif events.size[e] == 2:
                other = events.member[e, 1] if events.member[e, 0] == hardest else events.member[e, 0]
        d.live[e] = True
        d.lead[e, 0] = hardest
        d.lead[e, 1] = other
        some = True
    return some


@inlined
def may_fail(functions, f, d):
    """Return whether function f of an event whose members are apart is not positive somewhere in the box."""
    minimum = functions.constant[f]
    for i in range(d.lows.shape[1]):
        minimum += d.lows[f, i]
    return minimum <= 0.0


@inlined
def event_differences(events, functions, low, axes, rounding, d):
    """Compute the minimum excess of piece h of member k over lead l on the tabled attributes: drop[e, k, h, l].

    If members are apart, each is its own lead, together with its second piece.
    """
    # R_h, the terms of h in the tables, exceeds R_lead by the sum of the terms' differences, and so by no less than the
    # sum of their minima: the table of the lead then shows where every member is positive.
    g, second = functions.g, functions.second
    for e in range(events.number[0]):
        if not d.live[e]:
            continue
        for k in range(events.size[e]):
            f = events.member[e, k]
            if events.apart[e] and second[f] < 0:
                continue
            for piece in range(2 if second[f] >= 0 else 1):
                h = f if piece == 0 else second[f]
                for which in range(2):
                    lead = d.lead[e, which]
                    if events.apart[e]:
                        lead = f if which == 0 else second[f]
                    if lead < 0 or not d.wanted[lead] or lead == h:
                        d.drop[e, k, piece, which] = 0.0
                        continue
                    drop = 0.0
                    size = 0.0
                    for i in range(low.shape[0]):
                        if d.enumerated[i] == 0:
                            drop += difference_range(g, lead, h, i, low[i], d.n[i], d.step[i], axes)[0]
                            size += abs(d.highs[lead, i]) + abs(d.lows[lead, i])
                            size += abs(d.highs[h, i]) + abs(d.lows[h, i])
                    d.drop[e, k, piece, which] = drop - rounding * size


@inlined
def choose_enumerated(events, functions, low, axes, room, d):
    """Enumerate the attributes in which functions that are not apart differ most, per doubling of the work.

    Returns:
        Number of attributes; their indices are in ``d.chosen``.
    """
    # An attribute in the tables costs a proof the range of its differences, which such events lose, and rounding in
    # proportion to the range of its terms. Enumerating it multiplies the work by n, that is log2(n) doublings, so the
    # attribute with the best ratio comes first.
    g, second = functions.g, functions.second
    attributes = low.shape[0]
    d.enumerated[:] = 0
    for i in range(attributes):
        d.worth[i] = -1.0
        if d.n[i] > 1:
            x = 0.0
            for f in range(g.shape[0]):
                if d.wanted[f]:
                    x += 0.3 * (d.highs[f, i] - d.lows[f, i])
            for e in range(events.number[0]):
                if d.live[e] and not events.apart[e]:
                    lead = d.lead[e, 0]
                    for k in range(events.size[e]):
                        f = events.member[e, k]
                        for h in (f, second[f]):
                            if h >= 0 and h != lead:
                                a, b = difference_range(g, lead, h, i, low[i], d.n[i], d.step[i], axes)
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
            d.enumerated[i] = 1
            d.chosen[depth] = i
            depth += 1
    return depth
