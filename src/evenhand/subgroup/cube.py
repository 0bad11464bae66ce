"""The count cube: how many people every rule set holds, by sums along the axes of a table of cells.

A rule is a union of cells, so the number of people in a rule set is a sum over the table that has one axis per
attribute: each axis is multiplied by that attribute's incidence matrix, and the table of cells becomes a table of
rule sets. Nothing is counted person by person.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.family import Family


@dataclass(frozen=True)
class Occupied:
    """The cells of the product that somebody is in.

    Attributes:
        codes: the cell of each attribute, shape (cells, attributes).
        of: the occupied cell of each person, shape (n,).
        sizes: people in each, shape (cells,).
    """

    codes: NDArray[np.int64]
    of: NDArray[np.int64]
    sizes: NDArray[np.int64]


def occupied(codes: NDArray[np.int64]) -> Occupied:
    """The distinct rows of the people's cells (n, attributes), in lexicographic order."""
    key, largest = np.zeros(len(codes), dtype=np.int64), 1
    for column, size in zip(codes.T, (codes.max(axis=0, initial=0) + 1).tolist(), strict=True):
        if largest * size >= 2**63:  # number what occurs anew, in the same order
            different, key = np.unique(key, return_inverse=True)
            largest = len(different)
        key, largest = key * size + column, largest * size
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    return Occupied(codes[first], of.astype(np.int64), np.bincount(of, minlength=len(first)))


def through(family: Family, cells: Occupied, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of a weight per occupied cell over every rule set, shape ``family.shape``.

    Entry (0, ..., 0) is everybody. Weights are added in double precision: counts below 2**53 are exact.

    Args:
        cells: the occupied cells, of which the first columns are the family's attributes.
        weights: shape (cells,).
    """
    table = np.bincount(_places(family, cells), weights=weights, minlength=_cells(family)).astype(np.float64)
    table = table.reshape([rules.shape[1] for rules in family.rules])
    for rules in family.rules:
        # The first axis is used up and its rules come last, so that the axes are in order again at the end.
        table = np.tensordot(table, rules.astype(np.float64), axes=(0, 1))
    return table


def fingerprints(family: Family, cells: Occupied, seed: int = 0) -> NDArray[np.uint64]:
    """A number per rule set that tells which occupied cells it holds, shape ``family.shape``.

    Every occupied cell gets 64 random bits and a rule set their sum modulo 2**64; two different ones share a number
    with probability 2**-64. What everybody's number leaves of one is that of the people outside.
    """
    rng = np.random.default_rng(seed)
    places = np.unique(_places(family, cells))
    table = np.zeros(_cells(family), dtype=np.uint64)
    table[places] = rng.integers(0, 2**64, size=len(places), dtype=np.uint64)
    table = table.reshape([rules.shape[1] for rules in family.rules])
    for rules in family.rules:
        table = np.tensordot(table, rules.astype(np.uint64), axes=(0, 1))
    return table


def membership(family: Family, cells: Occupied, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which occupied cells each rule set holds, shape (rule sets, cells).

    Args:
        chosen: the row of each attribute's rules, shape (rule sets, attributes).
    """
    inside = np.ones((len(chosen), len(cells.codes)), dtype=bool)
    for axis, rules in enumerate(family.rules):
        inside &= rules[np.ix_(chosen[:, axis], cells.codes[:, axis])]
    return inside


def _cells(family: Family) -> int:
    return int(np.prod([rules.shape[1] for rules in family.rules]))


def _places(family: Family, cells: Occupied) -> NDArray[np.int64]:
    """Where each occupied cell lies in the table of all cells, flattened."""
    columns = cells.codes[:, : len(family.rules)].T
    places = np.zeros(len(cells.codes), dtype=np.int64)
    for column, rules in zip(columns, family.rules, strict=True):
        places = places * rules.shape[1] + column
    return places
