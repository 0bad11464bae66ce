"""Tested rule sets: those with enough people, one per distinct group of people, and requested ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.gaps import MOST_ENTRIES, LargestGap, StratifiedGroups, compare_groups
from evenhand.subgroups.measures import MinimumSizes
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets, fingerprint_rule_sets, sum_rule_sets


@dataclass(frozen=True)
class CandidateFamily:
    """Rule sets that are tested together: candidates of the family, then requested rule sets.

    Attributes:
        family: All rule sets.
        table: People by cell.
        chosen: Row of each attribute's rules, 0 for none, shape (candidates, attributes): the shortest description of
            each distinct group of people.
        copies: Number of rule sets with the same people, shape (candidates,).
        queries: For each requested rule set, which occupied cells it contains, shape (queries, cells).
        moments: Sums of ``table.moments`` over each rule set, shape (moments, candidates + queries, strata).
    """

    family: RuleSetFamily
    table: CellTable
    chosen: Integers
    copies: Integers
    queries: Booleans
    moments: Floats

    def __len__(self) -> int:
        return len(self.chosen) + len(self.queries)

    def inside(self, where: slice) -> Booleans:
        """Determine which occupied cells a slice of the rule sets contains, shape (rule sets, cells)."""
        number = len(self.chosen)
        own = cells_of_rule_sets(self.family, self.table.cells, self.chosen[where])
        return np.concatenate([own, self.queries[max(where.start - number, 0) : max(where.stop - number, 0)]])

    def groups(self) -> StratifiedGroups:
        """Compare all rule sets with the other people."""
        return compare_groups(self.table, self.moments, self.table.total_moments[:, None])

    def largest_weighted_gap(self, scales: Floats) -> LargestGap:
        """Build the function from weighted sums (cells, draws) to the largest gap; see ``standardise_weighted``."""
        table = self.table
        rows = np.ravel_multi_index(tuple(self.chosen.T), self.family.shape)
        step = max(1, MOST_ENTRIES // self.family.cube)

        def largest(sums: NDArray[np.float32]) -> Floats:
            top = np.zeros(sums.shape[1])
            for start in range(0, sums.shape[1], step):
                columns = slice(start, start + step)
                z = np.zeros((sums[:, columns].shape[1], len(self)))
                for stratum in range(table.strata):
                    part = np.where((table.cells.codes[:, -1] == stratum)[:, None], sums[:, columns], 0.0)
                    cube = sum_rule_sets(self.family, table.cells, part).reshape(len(z), -1)
                    z += np.concatenate([cube[:, rows], (self.queries @ part).T], axis=1) * scales[:, stratum]
                top[columns] = np.abs(z).max(axis=1, initial=0.0)
            return top

        return largest


def description_length(family: RuleSetFamily, chosen: Integers) -> Floats:
    """Compute the length of descriptions: the number of rules, then of values and ends, shape (rule sets,)."""
    cost = np.zeros(len(chosen))
    for axis, (cut, rules) in enumerate(zip(family.cuts, family.rules, strict=True)):
        own = np.array([cut.cost(row) for row in rules])
        own[0] = 0.0
        cost += own[chosen[:, axis]]
    longest = 1.0 + sum(len(cut.names) for cut in family.cuts)
    return np.asarray((chosen > 0).sum(axis=1) * longest + cost)


def count_family(
    family: RuleSetFamily, table: CellTable, floors: MinimumSizes, queries: Booleans | None = None
) -> CandidateFamily:
    """Count the people of every rule set, and keep one rule set per group with enough people.

    Args:
        family: Rule sets.
        table: People by cell.
        floors: Minimum sizes.
        queries: For each requested rule set, which occupied cells it contains. If None, none is requested.
    """
    queries = np.zeros((0, len(table.cells.sizes)), dtype=bool) if queries is None else queries
    moments = np.stack([_sum_over_cube(family, table, moment) for moment in table.stratum_moments])
    prints = fingerprint_rule_sets(family, table.cells)
    constrained = np.ix_(*((np.arange(rows) > 0).astype(np.int64) for rows in family.shape))
    number = np.sum(np.broadcast_arrays(*constrained), axis=0).ravel()
    flat = np.flatnonzero((number > 0) & (number <= family.depth) & floors.accept(*table.measure_sides(moments)))
    chosen = np.stack(np.unravel_index(flat, family.shape), axis=1).reshape(len(flat), len(family.shape))
    # Sorted by length: the first rule set of each group of people is its shortest description.
    order = np.argsort(description_length(family, chosen), kind="stable")
    _, representatives, copies = np.unique(prints.ravel()[flat[order]], return_index=True, return_counts=True)
    by_length = np.argsort(representatives)
    selection = order[representatives[by_length]]
    sums = np.concatenate([moments[:, flat[selection]], table.sum_moments(queries)], axis=1)
    return CandidateFamily(family, table, chosen[selection], copies[by_length], queries, sums)


def _sum_over_cube(family: RuleSetFamily, table: CellTable, moment: Floats) -> Floats:
    """Sum a moment (cells, strata) over every rule set, shape (rule sets, strata)."""
    return sum_rule_sets(family, table.cells, moment).reshape(table.strata, -1).T
