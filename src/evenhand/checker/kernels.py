"""Compile options of the checker's kernels, and the decision of boxes that networks and trees share."""

from __future__ import annotations

from evenhand.core.kernels import compile_kernel

# Kernels allocate nothing, so views need no reference counts, which halves the compile time.
compile_entry = compile_kernel(nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
"""Decorator of kernels that are called from Python."""
jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
"""Decorator of kernels that are called by other kernels."""

OPEN, FAIR, UNFAIR = 0, 1, 2


@jit
def decide_sets(sets, labels, least):
    """Decide a box from the sets of possible labels (as bits) under each assignment."""
    # FAIR: fewer than ``least`` different labels for every choice from the sets. UNFAIR: at least ``least`` labels.
    union = certain = unsure = 0
    common = (1 << labels) - 1
    for candidates in sets:
        union |= candidates
        common &= candidates
        if candidates & (candidates - 1) == 0:
            certain |= candidates
        else:
            unsure += 1
    certain_count = _count_bits(certain)
    if min(_count_bits(union), certain_count + unsure) < least:
        return FAIR
    if certain_count >= least:
        return UNFAIR
    if common:
        return OPEN
    # Pairwise disjoint sets give different labels. They are collected in order of size, smallest first.
    used = disjoint = 0
    for size in range(1, labels + 1):
        for candidates in sets:
            if _count_bits(candidates) == size and candidates & used == 0:
                used |= candidates
                disjoint += 1
    if disjoint >= least:
        return UNFAIR
    if least == 2:
        for p in range(len(sets)):
            for q in range(p):
                if sets[p] & sets[q] == 0:
                    return UNFAIR
    return OPEN


@jit
def _count_bits(labels):
    count = 0
    while labels:
        labels &= labels - 1
        count += 1
    return count
