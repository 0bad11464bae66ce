"""The rule sets that are looked at: those that meet the floors, one for every different group of people."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.measures import MinimumSizes
from evenhand.subgroups.tabulate import CellTable, fingerprint_rule_sets, sum_rule_sets


@dataclass(frozen=True)
class CandidateRuleSets:
    """Rule sets, the simplest description first of each group of people, with what is known of their people.

    Attributes:
        chosen: the row of each attribute's rules, 0 for none, shape (rule sets, attributes).
        size: people in each, by stratum, shape (rule sets, strata).
        total, squares: sum of their values, and of the squares, likewise.
        prints: a number per group of people, see ``fingerprints``.
        everybody: that of everybody.
        copies: how many rule sets of the family hold the same people, shape (rule sets,).
    """

    chosen: Integers
    size: Floats
    total: Floats
    squares: Floats
    prints: NDArray[np.uint64]
    everybody: np.uint64
    copies: Integers

    def __len__(self) -> int:
        return len(self.chosen)

    def at(self, where: Integers) -> CandidateRuleSets:
        """Return some of them."""
        return CandidateRuleSets(
            chosen=self.chosen[where],
            size=self.size[where],
            total=self.total[where],
            squares=self.squares[where],
            prints=self.prints[where],
            everybody=self.everybody,
            copies=self.copies[where],
        )


@dataclass(frozen=True)
class CountedFamily:
    """The family counted.

    Attributes:
        candidates: what is looked at.
        prints: of every rule set, shape ``family.shape``.
    """

    candidates: CandidateRuleSets
    prints: NDArray[np.uint64]

    def same(self, family: RuleSetFamily, chosen: Integers, most: int) -> Integers:
        """Other rule sets with the same people as one, simplest first, (rule sets, attributes)."""
        alike = np.flatnonzero(self.prints.ravel() == self.prints[tuple(chosen)])
        rows = np.stack(np.unravel_index(alike, family.shape), axis=1)
        rows = rows[((rows > 0).sum(axis=1) <= family.depth) & (rows != chosen).any(axis=1)]
        return np.asarray(rows[np.argsort(description_length(family, rows), kind="stable")][:most])


def description_length(family: RuleSetFamily, chosen: Integers) -> Floats:
    """How long rule sets are to say, shape (rule sets,): the fewest rules first, then the fewest values and ends."""
    cost = np.zeros(len(chosen))
    for axis, (cut, rules) in enumerate(zip(family.cuts, family.rules, strict=True)):
        own = np.array([cut.cost(row) for row in rules])
        own[0] = 0.0
        cost += own[chosen[:, axis]]
    longest = 1.0 + sum(len(cut.names) for cut in family.cuts)
    return np.asarray((chosen > 0).sum(axis=1) * longest + cost)


def count_family(family: RuleSetFamily, table: CellTable, floors: MinimumSizes) -> CountedFamily:
    """Count the people of every rule set, and keep those that meet the floors, merged by who is in them."""
    sums = partial(stratum_sums, family, table)
    sizes, totals = sums(None), sums(table.values)
    squares = totals if table.counted else sums(np.square(table.values))
    prints = fingerprint_rule_sets(family, table.cells)
    size, rest = table.measure_sides(sums)
    number = np.zeros(family.shape, dtype=np.int64)
    for axis, rows in enumerate(family.shape):
        number += (np.arange(rows) > 0).reshape([-1 if i == axis else 1 for i in range(number.ndim)])
    number = number.ravel()
    flat = np.flatnonzero((number > 0) & (number <= family.depth) & floors.accept(size, rest))
    chosen = np.stack(np.unravel_index(flat, family.shape), axis=1).reshape(len(flat), len(family.shape))
    # Shortest first: of rule sets that hold the same people the shortest is then the first, which is kept.
    order = np.argsort(description_length(family, chosen), kind="stable")
    flat, chosen = flat[order], chosen[order]
    _, first, copies = np.unique(prints.ravel()[flat], return_index=True, return_counts=True)
    order = np.argsort(first)
    first, copies = first[order], copies[order]
    flat, chosen = flat[first], chosen[first]
    candidates = CandidateRuleSets(
        chosen=chosen,
        size=sizes[flat],
        total=totals[flat],
        squares=squares[flat],
        prints=prints.ravel()[flat],
        everybody=prints.ravel()[0],
        copies=copies,
    )
    return CountedFamily(candidates, prints)


def stratum_sums(family: RuleSetFamily, table: CellTable, weights: Floats | None) -> Floats:
    """Return the sums of a weight over every rule set by stratum, shape (rule sets, strata)."""
    cells = table.spread_over_strata(table.sums(weights))
    return np.stack([sum_rule_sets(family, table.cells, row).ravel() for row in cells], axis=1)
