"""The groups of people that rank highest or were asked about, with the numbers that everything else is judged by."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.candidates import Candidates
from evenhand.subgroup.chance import largest_gap
from evenhand.subgroup.cube import membership
from evenhand.subgroup.deep.depth_first import Deep
from evenhand.subgroup.deep.outcomes import Outcomes
from evenhand.subgroup.family import Family
from evenhand.subgroup.gaps import groups_of, tails
from evenhand.subgroup.tabulate import Table

ENTRIES = 2**25
"""Memberships held at once, about."""


def listed(family: Family, table: Table, found: Deep) -> Candidates:
    """The listed groups of a search, highest first, with the numbers of their people by stratum."""
    chosen = found.top.chosen
    size, total, squares = (
        _sums(family, table, chosen, weights) for weights in (None, table.values, np.square(table.values))
    )
    return Candidates(chosen, size, total, squares, found.top.key, found.everybody, found.top.copies)


def largest(table: Table, happened: Outcomes, inside: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The largest absolute standardised gap of groups in each permutation, shape (permutations,).

    Args:
        table: the people.
        happened: what happened to them, and its permutations.
        inside: which occupied cells each group holds, shape (groups, cells).
    """
    sums = (
        inside @ table.by_stratum(table.sums(weights)).T for weights in (None, table.values, np.square(table.values))
    )
    shape = tails(groups_of(table, *sums), table.skewness)
    if not table.counted:  # scores are dealt as what exceeds their mean
        shape = dataclasses.replace(shape, expected=np.zeros(len(inside)))
    gaps = largest_gap(shape, lambda where: inside[where], len(table.cells.sizes))
    maxima = [gaps(block.astype(np.float32)) for block in happened.blocks]
    return np.concatenate(maxima)[: happened.permutations]


def _sums(
    family: Family, table: Table, chosen: NDArray[np.int64], weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Sums of a weight per person over rule sets by stratum, shape (rule sets, strata)."""
    by_stratum = table.by_stratum(table.sums(weights)).T
    rows = max(1, ENTRIES // len(by_stratum))
    blocks = [
        membership(family, table.cells, chosen[first : first + rows]) @ by_stratum
        for first in range(0, len(chosen), rows)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, table.strata))
