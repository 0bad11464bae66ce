"""The people as a table of cells, and the count cube: how many people every rule set holds, by sums along its axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.permutation import permute_counts, permute_sums
from evenhand.stats.proportion import kish_size
from evenhand.subgroups.family import RuleSetFamily


@dataclass(frozen=True)
class OccupiedCells:
    """The cells of the product that somebody is in.

    Attributes:
        codes: the cell of each attribute, shape (cells, attributes).
        of: the occupied cell of each person, shape (n,).
        sizes: people in each, shape (cells,).
    """

    codes: Integers
    of: Integers
    sizes: Integers


def find_occupied_cells(codes: Integers, counts: Integers | None = None) -> OccupiedCells:
    """Return the distinct rows of the people's cells (n, attributes), in lexicographic order.

    ``counts`` is how many people each row stands for; None: one.
    """
    key, largest = np.zeros(len(codes), dtype=np.int64), 1
    for column, size in zip(codes.T, (codes.max(axis=0, initial=0) + 1).tolist(), strict=True):
        if largest * size >= 2**63:  # renumber what occurs, in the same order
            different, key = np.unique(key, return_inverse=True)
            largest = len(different)
        key, largest = key * size + column, largest * size
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    sizes = np.bincount(of, weights=counts, minlength=len(first)).astype(np.int64)
    return OccupiedCells(codes[first], of.astype(np.int64), sizes)


def sum_rule_sets(family: RuleSetFamily, cells: OccupiedCells, weights: Floats) -> Floats:
    """Return the sums of a weight per occupied cell over every rule set, shape ``family.shape``.

    Entry (0, ..., 0) is everybody. Weights are added in double precision: counts below 2**53 are exact.

    Args:
        cells: the occupied cells, of which the first columns are the family's attributes.
        weights: shape (cells,), or (cells, columns); then the columns are the first axis of what is returned.
    """
    table = np.zeros((_cell_count(family), *weights.shape[1:]))
    np.add.at(table, _cell_positions(family, cells), weights)
    table = table.reshape([*(rules.shape[1] for rules in family.rules), *weights.shape[1:]])
    for rules in family.rules:
        # The first axis is used up and its rules come last, so that the axes are in order again at the end.
        table = np.tensordot(table, rules.astype(np.float64), axes=(0, 1))
    return table


def fingerprint_rule_sets(family: RuleSetFamily, cells: OccupiedCells, seed: int = 0) -> NDArray[np.uint64]:
    """Return a number per rule set that tells which occupied cells it holds, shape ``family.shape``.

    Every occupied cell gets 64 random bits and a rule set their sum modulo 2**64; two different ones share a number
    with probability 2**-64. What everybody's number leaves of one is that of the people outside.
    """
    rng = np.random.default_rng(seed)
    places = np.unique(_cell_positions(family, cells))
    table = np.zeros(_cell_count(family), dtype=np.uint64)
    table[places] = rng.integers(0, 2**64, size=len(places), dtype=np.uint64)
    table = table.reshape([rules.shape[1] for rules in family.rules])
    for rules in family.rules:
        table = np.tensordot(table, rules.astype(np.uint64), axes=(0, 1))
    return table


def cells_of_rule_sets(family: RuleSetFamily, cells: OccupiedCells, chosen: Integers) -> Booleans:
    """Return which occupied cells each rule set holds, shape (rule sets, cells).

    Args:
        chosen: the row of each attribute's rules, shape (rule sets, attributes).
    """
    inside = np.ones((len(chosen), len(cells.codes)), dtype=bool)
    for axis, rules in enumerate(family.rules):
        inside &= rules[np.ix_(chosen[:, axis], cells.codes[:, axis])]
    return inside


def _cell_count(family: RuleSetFamily) -> int:
    return int(np.prod([rules.shape[1] for rules in family.rules]))


def _cell_positions(family: RuleSetFamily, cells: OccupiedCells) -> Integers:
    """Return where each occupied cell lies in the table of all cells, flattened."""
    columns = cells.codes[:, : len(family.rules)].T
    places = np.zeros(len(cells.codes), dtype=np.int64)
    for column, rules in zip(columns, family.rules, strict=True):
        places = places * rules.shape[1] + column
    return places


# The people as a table: cells, strata and sums, out of which every rule set's numbers are added up.


@dataclass(frozen=True)
class CellTable:
    """The people that a measure is about, by cell.

    Attributes:
        cells: the occupied cells of the sensitive attributes, with one more column per rule set asked about (0 or 1)
            and a last one for the stratum.
        attributes: how many sensitive attributes there are.
        values: 0 or 1, or a score, of each person, shape (n,).
        counted: whether values are 0 and 1.
        stratum: of each person, shape (n,).
        strata: how many there are.
        weights: how much each person counts, shape (n,); None where all count alike.
        counts: how many people each entry stands for, shape (n,); None: one.
    """

    cells: OccupiedCells
    attributes: int
    values: Floats
    counted: bool
    stratum: Integers
    strata: int
    weights: Floats | None = None
    counts: Integers | None = None

    @cached_property
    def width(self) -> float:
        """Width of the range that the values lie in: 1 of shares and scores, that of everybody's numbers otherwise."""
        return max(1.0, float(np.ptp(self.values))) if self.people else 1.0

    @property
    def people(self) -> int:
        """How many there are."""
        return len(self.values) if self.counts is None else int(self.counts.sum())

    @property
    def effective_people(self) -> float:
        """How many people drawn alike say as much (Kish's effective size); without weights, people."""
        return float(self.people if self.weights is None else kish_size(self.weights.sum(), (self.weights**2).sum()))

    @cached_property
    def moments(self) -> list[Floats]:
        """What is added up of weights w and values v, 1, w, w^2, w v, w^2 v, w^2 v^2 and w^3, each of shape (n,)."""
        weights = np.ones(len(self.values)) if self.weights is None else self.weights
        valued = weights * self.values
        each = [np.ones(len(weights)), weights, weights**2, valued, weights * valued, valued**2, weights**3]
        return each if self.counts is None else [one * self.counts for one in each]

    @cached_property
    def total_moments(self) -> Floats:
        """Their sums in each stratum, shape (7, strata)."""
        return np.array([np.bincount(self.stratum, weights=one, minlength=self.strata) for one in self.moments])

    @property
    def weighted_spread(self) -> tuple[Floats, Floats]:
        """Second and third moment of the values around the weighted mean, by w^2 and w^3, each of shape (strata,)."""
        mean = self.total_moments[3] / np.maximum(self.total_moments[1], 1e-300)
        residuals = self.values - mean[self.stratum]
        second, third = (
            np.bincount(self.stratum, weights=self.moments[column] * residuals**power, minlength=self.strata)
            / np.maximum(self.total_moments[column], 1e-300)
            for column, power in ((2, 2), (6, 3))
        )
        return second, third

    def sums(self, weights: Floats | None = None) -> Floats:
        """Return people, or sums of a weight of each, by occupied cell, shape (cells,)."""
        return self._add_up(self.cells.of, weights, len(self.cells.sizes))

    def _add_up(self, of: Integers, each: Floats | None, number: int) -> Floats:
        """Return sums of a number of each person (None: people) by what ``of`` says of them, shape (number,)."""
        if self.counts is not None:
            each = self.counts.astype(np.float64) if each is None else each * self.counts
        return np.bincount(of, weights=each, minlength=number).astype(np.float64)

    def match_queries(self) -> Booleans:
        """Return which occupied cells each rule set asked about holds, shape (asked, cells)."""
        return np.asarray(self.cells.codes[:, self.attributes : -1].T == 1)

    def measure_sides(self, sums: Callable[[Floats | None], Floats]) -> tuple[Floats, Floats]:
        """Return people in and outside of rule sets, who have somebody to be compared with in their stratum.

        With weights, as many people drawn alike as say as much (Kish's effective sizes).

        Args:
            sums: gives the sums of a weight over each rule set (None: people), shape (rule sets, strata).
        """
        size, everybody = sums(None), self.totals[0]
        part = (size > 0) & (size < everybody) if self.strata > 1 else np.ones(size.shape, dtype=bool)
        rest = everybody - size
        if self.weights is not None:
            total, squares = (sums(one) for one in self.moments[1:3])
            size = kish_size(total, squares)
            rest = np.where(rest > 0, kish_size(*(self.total_moments[1:3, None] - [total, squares])), 0.0)
        return np.where(part, size, 0.0).sum(axis=1), np.where(part, rest, 0.0).sum(axis=1)

    def query_sums(self, weights: Floats | None) -> Floats:
        """Return the sums of a weight over each rule set asked about (None: people), shape (asked, strata)."""
        return np.asarray(self.match_queries() @ self.spread_over_strata(self.sums(weights)).T)

    def spread_over_strata(self, per_cell: Floats) -> Floats:
        """Return a number per occupied cell spread out over strata, shape (strata, cells)."""
        spread = np.zeros((self.strata, len(per_cell)))
        spread[self.cells.codes[:, -1], np.arange(len(per_cell))] = per_cell
        return spread

    @property
    def totals(self) -> tuple[Floats, Floats, Floats]:
        """Of each stratum: people, sum of values, sum of squared values, shape (strata,)."""
        n, total, squares = (
            self._add_up(self.stratum, each, self.strata) for each in (None, self.values, np.square(self.values))
        )
        return n, total, squares

    @property
    def skewness(self) -> Floats:
        """Skewness of the values in each stratum, 0 where they do not differ, shape (strata,)."""
        n, total, squares = self.totals
        mean = total / np.maximum(n, 1)
        away = self.values - mean[self.stratum]
        second, third = (self._add_up(self.stratum, away**power, self.strata) / np.maximum(n, 1) for power in (2, 3))
        varied = second > 1e-12 * np.maximum(squares / np.maximum(n, 1), 1e-300)
        return np.divide(third, np.maximum(second, 1e-300) ** 1.5, out=np.zeros(self.strata), where=varied)

    def permute_sums(self, permutations: int, rng: np.random.Generator) -> Floats:
        """Return sums by occupied cell when the values are permuted within each stratum, (permutations, cells).

        People of unequal weights are not exchangeable: a weight says how someone came into the sample, which may depend
        on who it is. Then each weight is multiplied by a standard normal number, and the sum of all is taken off by
        weight: so weighted sums of values are distributed that have nothing to do with who people are (Gaussian
        multipliers: Chernozhukov, Chetverikov and Kato, Annals of Statistics 2013).
        """
        if self.weights is not None:
            return self._multiply_weights(permutations, rng)
        drawn = np.zeros((permutations, len(self.cells.sizes)))
        for stratum in range(self.strata):
            here = np.flatnonzero(self.cells.codes[:, -1] == stratum)
            chosen = np.flatnonzero(self.stratum == stratum) if self.strata > 1 else slice(None)
            values = self.values[chosen]
            if self.counted:
                successes = values if self.counts is None else values * self.counts[chosen]
                drawn[:, here] = permute_counts(self.cells.sizes[here], int(successes.sum()), permutations, rng)
            else:
                of = np.searchsorted(here, self.cells.of[chosen])
                drawn[:, here] = permute_sums(of, values, len(here), permutations, rng)
        return drawn

    def _multiply_weights(self, draws: int, rng: np.random.Generator) -> Floats:
        weights, stratum = self.moments[1], self.cells.codes[:, -1]
        # Normal numbers of independent people make normal sums, independent from cell to cell.
        deviation = np.sqrt(self.sums(weights**2))
        drawn = deviation * rng.normal(size=(draws, len(deviation)))
        everybody = drawn @ np.eye(self.strata)[stratum]
        share = self.sums(weights) / np.maximum(self.total_moments[1], 1e-300)[stratum]
        return np.asarray(drawn - everybody[:, stratum] * share)


def tabulate_people(
    codes: Integers,
    values: Floats,
    *,
    counted: bool,
    asked: Booleans | None = None,
    stratum: Integers | None = None,
    weights: Floats | None = None,
    counts: Integers | None = None,
) -> CellTable:
    """Put people into a table.

    Args:
        codes: the cell of each by each sensitive attribute, shape (n, attributes).
        values: 0 or 1, or a score, of each.
        counted: whether values are 0 and 1.
        asked: who is in each rule set that was asked about, shape (n, asked); it need not be made of cells.
        stratum: of each, 0, 1, ...; all the same where it is None.
        weights: how much each person counts.
        counts: how many people each of these stands for; None: one.
    """
    n = len(values)
    asked = np.zeros((n, 0), dtype=bool) if asked is None else asked
    stratum = np.zeros(n, dtype=np.int64) if stratum is None else stratum
    cells = find_occupied_cells(np.column_stack([codes, asked.astype(np.int64), stratum]), counts)
    strata = int(stratum.max(initial=0)) + 1
    return CellTable(cells, codes.shape[1], values, counted, stratum, strata, weights, counts)
