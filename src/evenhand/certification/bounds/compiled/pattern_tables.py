"""What the linear form of a sign pattern exceeds, and how likely: tables for joint counting (compiled)."""

from __future__ import annotations

import numpy as np

from evenhand.certification.bounds.compiled.pattern_problem import ATOMS, SLOTS, WORD_UNITS
from evenhand.certification.bounds.compiled.tails import IndependentTerms, fill_table
from evenhand.kernels import compile_kernel

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
inlined = compile_kernel(
    internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False, forceinline=True
)


@inlined
def tail(table, grid, steps):
    """Return a lower bound on the probability of more than so many steps above the least."""
    # More than ``steps`` is floor(steps) + 1, whatever was rounded.
    return 1.0 if steps < 0 else 0.0 if steps >= grid else table[int(steps) + 1]


@jit
def forget_tables(d):
    """Drop all tables."""
    d.stamp[0] += 1
    d.stamp[1] = 0
    d.stamp[2] = -1


@inlined
def slot_of(a, b):
    """Return where to look first for a pattern."""
    return (int(a) * 0x9E3779B1 + int(b) * 0x85EBCA77) >> 24 & (SLOTS - 1)


@jit
def add_table(a, b, slot, live, axes, low, d):
    """Describe a pattern that is new, and return the number of its table."""
    t = d.stamp[1]
    d.stamp[1] += 1
    d.slot_stamp[slot] = d.stamp[0]
    d.slot_key[slot, 0] = d.table_key[t, 0] = a
    d.slot_key[slot, 1] = d.table_key[t, 1] = b
    d.slot_table[slot] = t
    d.built[0, t] = d.built[1, t] = False
    form_of(t, live, axes, low, d)
    for direction in range(2):
        d.least[direction, t] = spread_terms(direction, axes, low, d)
    return t


@jit
def form_of(t, live, axes, low, d):
    """Coefficients of the linear form of a pattern, into ``form``: the linear part and each unit by its slope."""
    form, w, a = d.form, d.w, d.a
    if d.stamp[2] == t:
        return
    d.stamp[2] = t
    first, second = int(d.table_key[t, 0]), int(d.table_key[t, 1])
    slopes = d.slopes
    for q in range(live):
        word = first if q < WORD_UNITS else second
        # Digits in base 3: a digit of d is the slope d / 2.
        slopes[q] = 0.5 * a[q] * (word % 3)
        if q < WORD_UNITS:
            first = word // 3
        else:
            second = word // 3
    slopes[live] = 1.0
    for i in range(low.shape[0]):
        if d.group[i] == 0 or axes.reach[i] > 0:
            c = axes.start[i]
            end = c
            if not axes.line[i]:
                c += low[i]
                end = c + d.n[i] - 1
            while c <= end:
                x = 0.0
                for q in range(live + 1):
                    x += slopes[q] * w[c, q]
                form[c] = x
                c += 1
            x = 0.0
            for q in range(live + 1):
                x += slopes[q] * d.mid[i, q]
            d.form_mid[i] = x


@jit
def spread_terms(direction, axes, low, d):
    """What each run of cells of R adds to g (of -g in direction 1), at least, into ``run_term``; return the least g."""
    # Within a run of width r the term is slope * (x + t) with 0 <= t <= r: at least slope * x + min(0, slope) * r.
    # Terms are given less their minimum, whose sum is the least value. No table is needed where that decides.
    form, terms = d.form, d.run_term
    sign = 1.0 - 2.0 * direction
    total = 0.0
    for i in range(low.shape[0]):
        at, run = axes.start[i], d.at[i]
        slope = sign * form[at]
        if d.group[i] == 0:
            middle = sign * d.form_mid[i]
            n = d.n[i]
            if axes.line[i]:
                step = d.step[i]
                first = slope * low[i] - middle
                last = slope * (low[i] + (n - 1) * step) - middle
                least = min(first, last)
                for v in range(n):
                    terms[run + v] = max(0.0, slope * (low[i] + v * step) - middle - least)
                total += least + min(0.0, slope) * (axes.reach[i] + (step - 1))
            else:
                least = np.inf
                for v in range(n):
                    terms[run + v] = sign * form[at + low[i] + v] - middle
                    least = min(least, terms[run + v])
                for v in range(n):
                    terms[run + v] -= least
                total += least
        elif axes.reach[i] > 0:
            total -= 0.5 * abs(slope) * axes.reach[i]
    return total


@jit
def fill_tables(t, above, below, live, axes, low, grid, d):
    """Fill the tables of a pattern that are needed; one does for both directions where R is symmetric."""
    form_of(t, live, axes, low, d)
    symmetric = d.symmetric[0]
    for direction in range(2):
        wanted = (above or (below and symmetric)) if direction == 0 else below and not symmetric
        if wanted and not d.built[direction, t]:
            spread_terms(direction, axes, low, d)
            terms = IndependentTerms(d.run_term, d.run_chance, d.at, d.n, d.order, d.group)
            d.inverse[direction, t] = fill_table(d.tables[direction, t], terms, grid, min(ATOMS, grid), d.tails)
            d.built[direction, t] = True
