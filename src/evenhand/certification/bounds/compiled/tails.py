"""Tabulate proved lower bounds on the tails of a sum of independent terms (compiled).

Each term minus its minimum is rounded down to a grid of step h: with S = sum_i t_i, sum_i floor(t_i / h) <= S / h, so
P(sum of floors >= j) <= P(S >= j h). Rounding down can only lose probability. Terms that take few values are enumerated
jointly before anything is rounded: one floor for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

from evenhand.certification.bounds.compiled.lanes import axpy, fill_vector, load_at, store_at
from evenhand.core.kernels import array_table, compile_kernel
from evenhand.core.typing import Floats, Integers

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)

MAX_ATOMS = 1024
"""Joint values of the narrowest attributes that are enumerated before anything is rounded."""
MAX_GRID_STEPS = 4096
"""Grid steps at most."""
UNIT_ROUNDOFF = 2.0**-53
MARGIN = MAX_GRID_STEPS + 64
"""Number of zeros before and after a distribution on the grid, so that shifted reads stay in bounds."""


TailBuffers = array_table(
    "TailBuffers",
    __name__,
    {
        # Distribution on the grid, and the next one, after ``MARGIN`` zeros.
        "here there": "float64 sums",
        # Joint values and their probabilities.
        "values odds": "float64 atoms",
        # Probability of each shift of a term, by position; and different shifts with probabilities.
        "hits chance": "float64 shifts",
        "jump": "int64 shifts",
    },
)
"""Work arrays of one thread."""


class IndependentTerms(NamedTuple):
    """Terms of a sum: values ``at[i]`` to ``at[i] + n[i] - 1`` of term i, minus their minimum, and their probabilities.

    ``order`` are the terms by increasing ``n``; those with nonzero ``left_out[i]`` are skipped.
    """

    value: Floats
    chance: Floats
    at: Integers
    n: Integers
    order: Integers
    left_out: Integers


@jit
def fill_table(table, terms, grid, room, d):
    """Fill ``table`` with lower bounds on P(sum of terms >= j steps), j = 0..grid + 1; return one over the step.

    Args:
        table: At least grid + 2 entries.
        terms: Terms of the sum.
        grid: Number of steps.
        room: Maximum number of enumerated joint values, at most ``MAX_ATOMS``.
        d: Work arrays.
    """
    # The arrays are bound to names before the loops because reading them from a named tuple inside the loops is slower.
    value, chance, at, n, order, left_out = terms.value, terms.chance, terms.at, terms.n, terms.order, terms.left_out
    current, following, values, odds, hits = d.here, d.there, d.values, d.odds, d.hits
    jump, odds_of_jump = d.jump, d.chance
    span = 0.0
    widths = 0
    for i in order:
        if left_out[i] == 0:
            largest = 0.0
            for v in range(at[i], at[i] + n[i]):
                largest = max(largest, value[v])
            span += largest
            widths += n[i] + 4
    # Sums and products of non-negative numbers: relative errors only accumulate, fewer than 8 roundoffs for each value
    # of a term and one for each joint value and each step of the running sum. Shrunk by these, lower bounds stay valid.
    shrink = 1 - (8 * widths + room + grid + 16) * UNIT_ROUNDOFF
    if span <= 0.0:
        for j in range(grid + 2):
            table[j] = 0.0
        table[0] = shrink
        return 1.0
    # Steps a little longer than span / grid: rounding can then not carry value * inverse up to a whole number it is
    # below.
    inverse = grid / span * (1 - 1e-12)
    atoms = 1
    reach = 0.0
    values[0] = 0.0
    odds[0] = 1.0
    q = 0
    while q < len(order):
        i = order[q]
        if left_out[i] == 0 and n[i] > 1:
            if atoms * n[i] > room:
                break
            largest = 0.0
            for v in range(n[i] - 1, -1, -1):
                x = value[at[i] + v]
                p = chance[at[i] + v]
                largest = max(largest, x)
                for k in range(atoms):
                    values[v * atoms + k] = values[k] + x
                    odds[v * atoms + k] = odds[k] * p
            atoms *= n[i]
            reach += largest
        q += 1
    zero = fill_vector(0.0)
    # Invariant: here[MARGIN + j] is a lower bound on the probability that the floors of the terms before sum to j <=
    # top.
    top = min(grid, int(reach * inverse) + 1)
    for j in range(MARGIN, MARGIN + top + 1, 16):
        store_at(current, j, zero)
    for k in range(atoms):
        current[MARGIN + int(values[k] * inverse)] += odds[k]
    while q < len(order):
        i = order[q]
        q += 1
        if left_out[i] != 0 or n[i] == 1:
            continue
        # Values with the same floor are one shift.
        most_steps = 0
        for v in range(at[i], at[i] + n[i]):
            j = int(value[v] * inverse)
            hits[j] += chance[v]
            most_steps = max(most_steps, j)
        shifts = 0
        for v in range(at[i], at[i] + n[i]):
            j = int(value[v] * inverse)
            if hits[j] != 0.0:
                jump[shifts] = MARGIN - j
                odds_of_jump[shifts] = hits[j]
                hits[j] = 0.0
                shifts += 1
        # there[j] = sum over shifts s of P(s) here[j - s]: every sum stays in registers until it is complete.
        for j in range(MARGIN + top + 1, MARGIN + top + most_steps + 33, 16):
            store_at(current, j, zero)
        top += most_steps
        for j in range(0, top + 1, 32):
            a = b = zero
            for k in range(shifts):
                a = axpy(odds_of_jump[k], load_at(current, jump[k] + j), a)
                b = axpy(odds_of_jump[k], load_at(current, jump[k] + j + 16), b)
            store_at(following, MARGIN + j, a)
            store_at(following, MARGIN + j + 16, b)
        current, following = following, current
    for j in range(top + 1, grid + 2):
        table[j] = 0.0
    # Running sums from above: table[j] = P(floors add up to j or more). Four in parallel, then combined.
    quarter = (top + 4) // 4
    for j in range(MARGIN + top + 1, MARGIN + 4 * quarter):
        current[j] = 0.0
    a = b = c = e = 0.0
    for j in range(quarter - 1, -1, -1):
        a += current[MARGIN + j]
        b += current[MARGIN + quarter + j]
        c += current[MARGIN + 2 * quarter + j]
        e += current[MARGIN + 3 * quarter + j]
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
    return inverse


@jit
def sort_by_width(n, order):
    """Sort the attributes by increasing width."""
    for i in range(n.shape[0]):
        j = i
        while j > 0 and n[order[j - 1]] > n[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
