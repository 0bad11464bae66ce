"""Tested rule sets: those with enough people, one per distinct group of people, and requested ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.gaps import MOST_ENTRIES, TailCorrection
from evenhand.subgroups.rules import MOST_NAMED
from evenhand.subgroups.tabulate import CellTable, ConjunctionSums, find_occupied_cells

COMPILED = 1 << 16
"""Size of a family above which compiled loops are worth importing their compiler."""

CellSums: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Function from sums by cell (cells, draws) to sums over rule sets (draws, rule sets)."""

LargestGap: TypeAlias = Callable[[NDArray[np.float32]], Floats]
"""Function from permuted sums by cell (cells, permutations) to the largest standardised gaps (permutations,)."""


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

    @classmethod
    def of_groups(cls, table: CellTable, groups: Booleans) -> CandidateFamily:
        """Build the family of requested groups of occupied cells (groups, cells)."""
        chosen, copies = np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
        return cls(RuleSetFamily((), (), 0), table, chosen, copies, groups, groups @ table.stratum_moments)

    def largest_gap(self, tails: TailCorrection, scales: Floats | None = None) -> LargestGap:
        """Build the function from sums by cell (cells, draws) to the largest standardised gap of each draw.

        Args:
            tails: Tail correction of the rule sets' totals.
            scales: For weighted sums, their factors in each stratum; see ``standardise_weighted``.
        """
        expected, above, below = (factor.astype(np.float32) for factor in (tails.expected, tails.above, -tails.below))
        if scales is None and self.family.size > COMPILED:
            return self._compiled_gap(np.array([expected, above, below]))
        parts: list[tuple[Integers, int, CellSums]] = []
        for rows, axes in self._patterns():
            conjunctions = ConjunctionSums(self.family, axes, self.table.cells)
            columns = np.ravel_multi_index(tuple(self.chosen[rows][:, axes].T - 1), conjunctions.shape)
            parts.append((rows, conjunctions.size, partial(conjunctions, columns=columns)))
        queries, stratum = self.queries.astype(np.float32), self.table.cells.codes[:, -1]
        parts.append((np.arange(len(self.chosen), len(expected)), len(queries), lambda sums: (queries @ sums).T))
        strata = [(stratum == s)[:, None] for s in range(self.table.strata)]

        def largest(sums: NDArray[np.float32]) -> Floats:
            top = np.zeros(sums.shape[1])
            for rows, number, add_up in parts:
                step = max(1, MOST_ENTRIES // max(number, 1))
                for start in range(0, len(top), step):
                    draws = sums[:, start : start + step]
                    z: NDArray[Any]
                    if scales is None:
                        excess = add_up(draws) - expected[rows]
                        z = excess * above[rows]
                        excess *= below[rows]
                        np.maximum(z, excess, out=z)
                    else:
                        by_stratum = (add_up(np.where(cells, draws, 0.0)) for cells in strata)
                        z = np.abs(sum(part * scales[rows, s] for s, part in enumerate(by_stratum)))
                    top[start : start + step] = np.maximum(top[start : start + step], z.max(axis=1, initial=0.0))
            return top

        return largest

    def _compiled_gap(self, factors: NDArray[np.float32]) -> LargestGap:
        """Build the same function with a compiled loop over the rule sets. Weighted sums are not supported.

        Args:
            factors: Expected total of each rule set, and its scale above and below it, shape (3, rule sets).
        """
        from evenhand.subgroups.maxima import raise_maxima  # imports numba

        parts = []
        for rows, axes in self._patterns():
            # The loop adds up the cells of the last attribute, the one with the most rules.
            axes.sort(key=lambda axis: len(self.family.rules[axis]))
            conjunctions, last = ConjunctionSums(self.family, axes, self.table.cells), self.family.rules[axes[-1]][1:]
            columns = np.ravel_multi_index(tuple(self.chosen[rows][:, axes].T - 1), conjunctions.shape)
            order = np.argsort(columns)
            prefixes, rules = np.divmod(columns[order], len(last))
            ends = np.searchsorted(prefixes, np.arange(conjunctions.size // len(last)), side="right")
            parts.append((conjunctions.sum_by_last, ends, rules, last, factors[:, rows[order]]))
        queries, places = self.queries.astype(np.float32), np.arange(len(self.queries))
        requested = places[-1:] + 1, places, np.eye(len(places), dtype=bool), factors[:, len(self.chosen) :]

        def largest(sums: NDArray[np.float32]) -> Floats:
            maxima = np.zeros(sums.shape[1], dtype=np.float32)
            for sum_by_last, *part in parts:
                raise_maxima(sum_by_last(sums), *part, maxima)
            raise_maxima((queries @ sums)[None, :, :], *requested, maxima)
            return maxima.astype(np.float64)

        return largest

    def _patterns(self) -> Iterator[tuple[Integers, list[int]]]:
        """Yield the candidates over the same attributes, and these attributes."""
        patterns = find_occupied_cells((self.chosen > 0).astype(np.int64))
        for i, restricted in enumerate(patterns.codes):
            yield np.flatnonzero(patterns.of == i), np.flatnonzero(restricted).tolist()


def description_length(family: RuleSetFamily, chosen: Integers) -> Floats:
    """Compute the length of descriptions: the number of rules, then of values and ends, shape (rule sets,)."""
    cost = np.zeros(len(chosen))
    for axis, (cut, rules) in enumerate(zip(family.cuts, family.rules, strict=True)):
        within = rules.sum(axis=1)
        listed = np.where(within > MOST_NAMED, np.minimum(within, rules.shape[1] - within + 0.5), within)
        if not cut.ordered:
            own = listed
        elif cut.edges is None:
            own = np.minimum(within, 2.0)
        else:
            own = np.where(within == 1, 1.0, 2.0 - 0.5 * rules[:, 0] - 0.5 * rules[:, len(cut.edges) - 2])
        own = np.where(rules[:, -1], listed, own) if cut.missing else own
        own[0] = 0.0  # no rule
        cost += own[chosen[:, axis]]
    longest = 1.0 + sum(len(cut.names) for cut in family.cuts)
    return np.asarray((chosen > 0).sum(axis=1) * longest + cost)


def count_family(
    family: RuleSetFamily, table: CellTable, min_size: float, queries: Booleans | None = None
) -> CandidateFamily:
    """Count the people of every rule set, and keep one rule set per group with enough people.

    Args:
        family: Rule sets.
        table: People by cell.
        min_size: Minimum number of people inside and outside.
        queries: For each requested rule set, which occupied cells it contains. If None, none is requested.
    """
    cells, attributes = len(table.cells.sizes), len(family.cuts)
    queries = np.zeros((0, cells), dtype=bool) if queries is None else queries
    by_cell = table.stratum_moments.transpose(1, 0, 2).reshape(cells, -1)
    # Each occupied cell gets 64 random bits. Two rule sets with different people have the same sum of them, modulo
    # 2^64, with probability 2^-64.
    keys = np.random.default_rng(0).integers(0, 2**64, size=(cells, 1), dtype=np.uint64)
    chosen = [np.zeros((0, attributes), dtype=np.int64)]
    moments, prints = [np.zeros((len(table.moments), 0, table.strata))], [np.zeros(0, dtype=np.uint64)]
    for axes in family.combinations():
        add_up = ConjunctionSums(family, axes, table.cells)
        sums = add_up(by_cell).reshape(len(table.moments), table.strata, -1).swapaxes(1, 2)
        accepted = np.flatnonzero(np.minimum(*table.measure_sides(sums)) >= min_size)
        rows = np.zeros((len(accepted), attributes), dtype=np.int64)
        rows[:, axes] = np.stack(np.unravel_index(accepted, add_up.shape), axis=1) + 1
        chosen.append(rows)
        moments.append(sums[:, accepted])
        prints.append(add_up(keys)[0, accepted])
    rule_sets = np.concatenate(chosen)
    # Sorted by length: the first rule set of each group of people is its shortest description.
    order = np.lexsort((*rule_sets.T[::-1], description_length(family, rule_sets)))
    _, representatives, copies = np.unique(np.concatenate(prints)[order], return_index=True, return_counts=True)
    by_length = np.argsort(representatives)
    selection = order[representatives[by_length]]
    sums = np.concatenate([np.concatenate(moments, axis=1)[:, selection], queries @ table.stratum_moments], axis=1)
    return CandidateFamily(family, table, rule_sets[selection], copies[by_length], queries, sums)
