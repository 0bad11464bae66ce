"""Pairs of candidates in their order, counted list by list: compiled."""

from __future__ import annotations

import numpy as np

from evenhand.kernels import compile_kernel


@compile_kernel()
def count_wins(starts, batches, ties, codes, groups, wins):
    """Add to ``wins[batch, a, b]`` how often a member of group a stands above one of group b in the same list.

    Equal ranks count one half. Invariant: after a block of equal rank, ``below[b]`` members of b are still to come.

    Args:
        starts: the first row of each list and, last, the number of rows, shape (lists + 1,).
        batches: the batch of each list, shape (lists,).
        ties: the block of equal rank of each row, shape (n,); codes: its group, negative for none, shape (n,).
        groups: how many there are.
        wins: shape (batches, groups, groups); the diagonal is not counted.
    """
    below = np.zeros(groups, dtype=np.int64)
    equal = np.zeros(groups, dtype=np.int64)
    for at in range(len(starts) - 1):
        first, end = starts[at], starts[at + 1]
        below[:] = 0
        for row in range(first, end):
            if codes[row] >= 0:
                below[codes[row]] += 1
        row = first
        while row < end:
            stop = row
            equal[:] = 0
            while stop < end and ties[stop] == ties[row]:
                if codes[stop] >= 0:
                    equal[codes[stop]] += 1
                    below[codes[stop]] -= 1
                stop += 1
            for a in range(groups):
                if equal[a] > 0:
                    for b in range(groups):
                        if b != a:
                            wins[batches[at], a, b] += equal[a] * (below[b] + 0.5 * equal[b])
            row = stop


@compile_kernel(internal=True)
def add_to_tree(tree, place):
    """Count one more at a place, from 1 on: a tree of partial sums (Fenwick 1994)."""
    while place < len(tree):
        tree[place] += 1
        place += place & -place


@compile_kernel(internal=True)
def sum_of_tree(tree, place):
    """Return how many were counted at places up to this one."""
    total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


@compile_kernel()
def count_ordered(starts, batches, ties, codes, by_relevance, relevance, groups, ordered, pairs):
    """Add up pairs of unequal relevance in the same list by the group of the better one, and how many are in order.

    Candidates of a list come in the order of their relevance, the least first. Invariant: the trees hold the places of
    all candidates of less relevance, so what stands below the present one in them is ranked below it rightly. Equal
    ranks count one half.

    Args:
        starts, batches, ties, codes, groups: as for ``count_wins``.
        by_relevance: rows by list and relevance, shape (n,); relevance: of each row, shape (n,).
        ordered, pairs: shape (batches, 2, groups): against candidates of other groups, and of the same.
    """
    for at in range(len(starts) - 1):
        first, end = starts[at], starts[at + 1]
        batch, size = batches[at], end - first
        every = np.zeros(size + 1, dtype=np.int64)
        own = np.zeros((groups, size + 1), dtype=np.int64)
        known = np.zeros(groups, dtype=np.int64)
        opens = np.zeros(size, dtype=np.int64)
        closes = np.zeros(size, dtype=np.int64)
        for i in range(size):  # the first place of each block of equal rank, and its last
            opens[i] = opens[i - 1] if i > 0 and ties[first + i] == ties[first + i - 1] else i
        for i in range(size - 1, -1, -1):
            closes[i] = closes[i + 1] if i + 1 < size and ties[first + i] == ties[first + i + 1] else i + 1
        total, here = 0, first
        while here < end:
            stop = here
            while stop < end and relevance[by_relevance[stop]] == relevance[by_relevance[here]]:
                row = by_relevance[stop]
                group = codes[row]
                if group >= 0:
                    top, bottom = opens[row - first], closes[row - first]
                    upper, lower = sum_of_tree(every, top), sum_of_tree(every, bottom)
                    right = total - lower + 0.5 * (lower - upper)
                    upper, lower = sum_of_tree(own[group], top), sum_of_tree(own[group], bottom)
                    same = known[group] - lower + 0.5 * (lower - upper)
                    ordered[batch, 0, group] += right - same
                    ordered[batch, 1, group] += same
                    pairs[batch, 0, group] += total - known[group]
                    pairs[batch, 1, group] += known[group]
                stop += 1
            for i in range(here, stop):
                row = by_relevance[i]
                if codes[row] >= 0:
                    add_to_tree(every, row - first + 1)
                    add_to_tree(own[codes[row]], row - first + 1)
                    total += 1
                    known[codes[row]] += 1
            here = stop
