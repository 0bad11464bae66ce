"""Tested rule sets: those with enough people, one per distinct group of people."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.measures import MinimumSizes
from evenhand.subgroups.tabulate import CellTable, fingerprint_rule_sets, sum_rule_sets


@dataclass(frozen=True)
class CandidateRuleSets:
    """Rule sets: the shortest description of each distinct group of people.

    Attributes:
        chosen: Row of each attribute's rules, 0 for none, shape (rule sets, attributes).
        size: Number of people by stratum, shape (rule sets, strata).
        total, squares: Sum of the values and of their squares by stratum, shape (rule sets, strata).
        copies: Number of rule sets with the same people, shape (rule sets,).
    """

    chosen: Integers
    size: Floats
    total: Floats
    squares: Floats
    copies: Integers

    def __len__(self) -> int:
        return len(self.chosen)


def description_length(family: RuleSetFamily, chosen: Integers) -> Floats:
    """Compute the length of descriptions: the number of rules, then of values and ends, shape (rule sets,)."""
    cost = np.zeros(len(chosen))
    for axis, (cut, rules) in enumerate(zip(family.cuts, family.rules, strict=True)):
        own = np.array([cut.cost(row) for row in rules])
        own[0] = 0.0
        cost += own[chosen[:, axis]]
    longest = 1.0 + sum(len(cut.names) for cut in family.cuts)
    return np.asarray((chosen > 0).sum(axis=1) * longest + cost)


def count_family(family: RuleSetFamily, table: CellTable, floors: MinimumSizes) -> CandidateRuleSets:
    """Count the people of every rule set, and keep one rule set per group with enough people."""
    sums = partial(stratum_sums, family, table)
    sizes, totals = sums(None), sums(table.values)
    squares = totals if table.counted else sums(np.square(table.values))
    prints = fingerprint_rule_sets(family, table.cells)
    constrained = np.ix_(*((np.arange(rows) > 0).astype(np.int64) for rows in family.shape))
    number = np.sum(np.broadcast_arrays(*constrained), axis=0).ravel()
    flat = np.flatnonzero((number > 0) & (number <= family.depth) & floors.accept(*table.measure_sides(sums)))
    chosen = np.stack(np.unravel_index(flat, family.shape), axis=1).reshape(len(flat), len(family.shape))
    # The shortest descriptions come first, so that the first rule set of each group of people is its shortest.
    order = np.argsort(description_length(family, chosen), kind="stable")
    _, representatives, copies = np.unique(prints.ravel()[flat[order]], return_index=True, return_counts=True)
    by_length = np.argsort(representatives)
    selection = order[representatives[by_length]]
    flat = flat[selection]
    return CandidateRuleSets(chosen[selection], sizes[flat], totals[flat], squares[flat], copies[by_length])


def stratum_sums(family: RuleSetFamily, table: CellTable, values: Floats | None) -> Floats:
    """Sum a value over every rule set by stratum, or count the people, shape (rule sets, strata)."""
    cells = table.spread_over_strata(table.sums(values))
    return np.stack([sum_rule_sets(family, table.cells, row).ravel() for row in cells], axis=1)
