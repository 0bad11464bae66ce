"""Tables of people by cell, and sums over rule sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.permutation import permute_counts, permute_sums
from evenhand.stats.proportion import kish_size
from evenhand.subgroups.family import RuleSetFamily


@dataclass(frozen=True)
class OccupiedCells:
    """Cells of the product of attributes that contain people.

    Attributes:
        codes: Code of each attribute, shape (cells, attributes).
        of: Cell of each person, shape (n,).
        sizes: Number of people in each cell, shape (cells,).
    """

    codes: Integers
    of: Integers
    sizes: Integers


def find_occupied_cells(codes: Integers, counts: Integers | None = None) -> OccupiedCells:
    """Find the distinct rows of codes (n, attributes), in lexicographic order.

    Args:
        codes: Codes of each row.
        counts: Number of people per row. If None, each row is one person.
    """
    key, largest = np.zeros(len(codes), dtype=np.int64), 1
    for column, size in zip(codes.T, (codes.max(axis=0, initial=0) + 1).tolist(), strict=True):
        if largest * size >= 2**63:  # renumber the keys that occur, in the same order
            different, key = np.unique(key, return_inverse=True)
            largest = len(different)
        key, largest = key * size + column, largest * size
    _, positions, of = np.unique(key, return_index=True, return_inverse=True)
    sizes = np.bincount(of, weights=counts, minlength=len(positions)).astype(np.int64)
    return OccupiedCells(codes[positions], of.astype(np.int64), sizes)


class ConjunctionSums:
    """Sums over all conjunctions that have one rule on each of some attributes.

    Args:
        family: Rules of all attributes.
        axes: Positions of the attributes.
        cells: Occupied cells, whose first columns are the attributes of the family.

    Attributes:
        shape: Number of rules of each attribute, without "no rule".
        size: Number of conjunctions.
    """

    def __init__(self, family: RuleSetFamily, axes: Sequence[int], cells: OccupiedCells) -> None:
        self._rules = [family.rules[axis][1:] for axis in axes]
        self._widths = tuple(rules.shape[1] for rules in self._rules)
        self.shape = tuple(len(rules) for rules in self._rules)
        self.size = math.prod(self.shape)
        places = np.ravel_multi_index(tuple(cells.codes[:, axis] for axis in axes), self._widths)
        self._order = np.argsort(places, kind="stable")
        self._places, self._starts = np.unique(places[self._order], return_index=True)

    def __call__(self, weights: NDArray[Any], columns: Integers | slice = slice(None)) -> NDArray[Any]:
        """Sum weights of the occupied cells in their own precision.

        Args:
            weights: Weights, shape (cells, draws).
            columns: Positions of the conjunctions that are returned.

        Returns:
            Sums, shape (draws, conjunctions).
        """
        return self._apply(self._rules, weights).reshape(weights.shape[1], -1)[:, columns]

    def sum_by_last(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Sum weights by conjunction of rules on all attributes but the last, and by cell of the last.

        Returns:
            Sums, shape (conjunctions, cells, columns).
        """
        sums = self._apply(self._rules[:-1], weights).reshape(self._widths[-1], weights.shape[1], -1)
        return np.ascontiguousarray(sums.transpose(2, 0, 1))

    def _apply(self, every_rule: Sequence[Booleans], weights: NDArray[Any]) -> NDArray[Any]:
        """Sum weights by rule of the first attributes, which become the last axes, and by cell of the others."""
        table = np.zeros((math.prod(self._widths), weights.shape[1]), dtype=weights.dtype)
        table[self._places] = np.add.reduceat(weights[self._order], self._starts, axis=0)
        table = table.reshape(*self._widths, weights.shape[1])
        for rules in every_rule:
            # Each step replaces the first axis by its rules as the last axis, so that the columns end up first.
            table = np.tensordot(table, rules.astype(weights.dtype), axes=(0, 1))
        return table


def cells_of_rule_sets(family: RuleSetFamily, cells: OccupiedCells, chosen: Integers) -> Booleans:
    """Determine which occupied cells each rule set contains, shape (rule sets, cells).

    Args:
        family: Rule sets.
        cells: Occupied cells.
        chosen: Row of each attribute's rules, shape (rule sets, attributes).
    """
    inside = np.ones((len(chosen), len(cells.codes)), dtype=bool)
    for axis, rules in enumerate(family.rules):
        inside &= rules[np.ix_(chosen[:, axis], cells.codes[:, axis])]
    return inside


@dataclass(frozen=True)
class CellTable:
    """People that a measure covers, by cell.

    Attributes:
        cells: Occupied cells of the sensitive attributes, with one more column per requested rule set (0 or 1), and the
            stratum in the last column.
        queries: Which occupied cells each requested rule set contains, shape (queries, cells).
        values: Outcome of each person: 0 or 1, or a score, shape (n,).
        counted: Whether the values are 0 and 1.
        stratum: Stratum of each person, shape (n,).
        strata: Number of strata.
        weights: Weight of each person, shape (n,). None if all count equally.
        counts: Number of people per entry, shape (n,). None if each entry is one person.
        people: Number of people.
        mean: Weighted mean of the values, 0 if there are no people.
        width: Width of the range of the values, at least 1.
        skewness: Skewness of the unweighted values in each stratum, 0 where all are equal, shape (strata,).
        moments: Moments that are compared between groups, shape (n,) each: 1, v and v^2 of values v, or with weights w:
            1, w, w^2, w v, w^2 v, w^2 v^2 and w^3.
        total_moments: Sums of the moments in each stratum, shape (moments, strata).
        cell_moments: Sums of the moments in each occupied cell, shape (moments, cells).
        stratum_moments: The same, 0 in other strata, shape (moments, cells, strata).
    """

    cells: OccupiedCells
    queries: Booleans
    values: Floats
    counted: bool
    stratum: Integers
    strata: int
    weights: Floats | None
    counts: Integers | None
    people: int
    mean: float
    width: float
    skewness: Floats
    moments: Sequence[Floats]
    total_moments: Floats
    cell_moments: Floats
    stratum_moments: Floats

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

    def measure_sides(self, inside: Floats) -> tuple[Floats, Floats]:
        """Count the people inside and outside of groups, in strata with people on both sides.

        With weights, these are effective sample sizes (Kish).

        Args:
            inside: Sums of the moments over each group, shape (moments, groups, strata).
        """
        size, everybody = inside[0], self.total_moments[0]
        part = (size > 0) & (size < everybody) if self.strata > 1 else np.ones(size.shape, dtype=bool)
        outside = everybody - size
        if self.weights is not None:
            size = kish_size(inside[1], inside[2])
            outside = np.where(outside > 0, kish_size(*(self.total_moments[1:3, None] - inside[1:3])), 0.0)
        return np.where(part, size, 0.0).sum(axis=1), np.where(part, outside, 0.0).sum(axis=1)

    def permute_sums(self, permutations: int, rng: np.random.Generator) -> Floats:
        """Compute sums by occupied cell when the values are permuted within strata, shape (permutations, cells).

        People with unequal weights are not exchangeable, because the weight of a person may depend on the attributes.
        Instead, each weight is multiplied by a standard normal number, and the sum of all is subtracted in proportion
        to the weights: the distribution of weighted sums of values that are unrelated to the attributes (Gaussian
        multipliers: Chernozhukov, Chetverikov and Kato, Annals of Statistics 2013).
        """
        if self.weights is not None:
            return self._multiply_weights(permutations, rng)
        permuted = np.zeros((permutations, len(self.cells.sizes)))
        for stratum in range(self.strata):
            cells = np.flatnonzero(self.cells.codes[:, -1] == stratum)
            rows = np.flatnonzero(self.stratum == stratum) if self.strata > 1 else slice(None)
            values = self.values[rows]
            if self.counted:
                successes = values if self.counts is None else values * self.counts[rows]
                permuted[:, cells] = permute_counts(self.cells.sizes[cells], int(successes.sum()), permutations, rng)
            else:
                codes = np.searchsorted(cells, self.cells.of[rows])
                permuted[:, cells] = permute_sums(codes, values, len(cells), permutations, rng)
        return permuted

    def _multiply_weights(self, draws: int, rng: np.random.Generator) -> Floats:
        (_, weights, squares, *_), stratum = self.cell_moments, self.cells.codes[:, -1]
        # Sums of independent normal numbers are normal, and those of different cells are independent.
        deviation = np.sqrt(squares)
        sums = deviation * rng.normal(size=(draws, len(deviation)))
        total = sums @ np.eye(self.strata)[stratum]
        share = weights / np.maximum(self.total_moments[1], 1e-300)[stratum]
        return np.asarray(sums - total[:, stratum] * share)


def tabulate_people(
    codes: Integers,
    values: Floats,
    *,
    counted: bool,
    queries: Booleans | None = None,
    stratum: Integers | None = None,
    weights: Floats | None = None,
    counts: Integers | None = None,
) -> CellTable:
    """Tabulate people.

    Args:
        codes: Cell of each person by each sensitive attribute, shape (n, attributes).
        values: Outcome of each person: 0 or 1, or a score.
        counted: Whether the values are 0 and 1.
        queries: Membership of each person in each requested rule set, shape (n, queries).
        stratum: Stratum of each person, numbered from 0. If None, there is one stratum.
        weights: Weight of each person.
        counts: Number of people per entry. If None, each entry is one person.
    """
    n = len(values)
    queries = np.zeros((n, 0), dtype=bool) if queries is None else queries
    stratum = np.zeros(n, dtype=np.int64) if stratum is None else stratum
    cells = find_occupied_cells(np.column_stack([codes, queries.astype(np.int64), stratum]), counts)
    strata, occupied = int(stratum.max(initial=0)) + 1, len(cells.sizes)
    ones = np.ones(n)
    number = ones if counts is None else counts
    if weights is None:
        moments = [ones, values, values**2]
    else:
        valued = weights * values
        moments = [ones, weights, weights**2, valued, weights * valued, valued**2, weights**3]
    moments = moments if counts is None else [moment * counts for moment in moments]
    by_stratum = np.array([np.bincount(stratum, weights=moment, minlength=strata) for moment in moments])
    by_cell = np.array([np.bincount(cells.of, weights=moment, minlength=occupied) for moment in moments])
    by_both = np.zeros((len(moments), occupied, strata))
    by_both[:, np.arange(occupied), cells.codes[:, -1]] = by_cell
    sums = by_stratum.sum(axis=1)
    amount, total = (sums[0], sums[1]) if weights is None else (sums[1], sums[3])
    people = np.maximum(np.bincount(stratum, weights=number, minlength=strata), 1)
    residuals = values - (np.bincount(stratum, weights=values * number, minlength=strata) / people)[stratum]
    second, third, squares = (
        np.bincount(stratum, weights=powers * number, minlength=strata) / people
        for powers in (residuals**2, residuals**3, values**2)
    )
    varied = second > 1e-12 * np.maximum(squares, 1e-300)
    return CellTable(
        cells=cells,
        queries=cells.codes[:, codes.shape[1] : -1].T == 1,
        values=values,
        counted=counted,
        stratum=stratum,
        strata=strata,
        weights=weights,
        counts=counts,
        people=n if counts is None else int(counts.sum()),
        mean=float(total / amount) if amount > 0 else 0.0,
        width=max(1.0, float(np.ptp(values))) if n else 1.0,
        skewness=np.divide(third, np.maximum(second, 1e-300) ** 1.5, out=np.zeros(strata), where=varied),
        moments=moments,
        total_moments=by_stratum,
        cell_moments=by_cell,
        stratum_moments=by_both,
    )
