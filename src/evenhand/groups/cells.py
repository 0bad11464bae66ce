"""Decisions counted by cell, and the rates and means of groups of cells.

A cell is a combination of protected values, bin of the score, decision and true label. Every metric of every group and
intersection is a sum over cells, so the data are read only once. A single person is a cell with count 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.engine import Sample
from evenhand.groups.estimators import Estimator, estimate_mean, estimate_rate
from evenhand.groups.membership import DecidedPeople, number_combinations
from evenhand.stats.proportion import effective_counts, kish_size

EFFECTIVE = ", of effective sample sizes (weights; Korn-Graubard)"
UNKNOWN_LABEL = -1


class WeightSums(NamedTuple):
    """Sums over the people in each cell, each of shape (cells,).

    Attributes:
        total, squares: Sums of the weights w, and of w^2.
        scored, squares_scored: Sums of w x and of w^2 x for scores x; zeros without scores.
        squares_spread: Sum of w^2 (x - c)^2 around the centre c = sum(w^2 x) / sum(w^2) of the cell.
    """

    total: Floats
    squares: Floats
    scored: Floats
    squares_scored: Floats
    squares_spread: Floats


@dataclass(frozen=True)
class CellSample(Sample):
    """Decisions with one entry per cell; arrays have shape (cells,).

    Attributes:
        decided, truth: Positions of the decision and of the true label, -1 if it is unknown; 1 if it is favourable.
        n: Number of people.
        sums: Sums of weights and scores.
    """

    decided: Integers
    truth: Integers | None
    n: Integers
    sums: WeightSums

    @classmethod
    def tabulate(
        cls, people: DecidedPeople, labels: int, bins: tuple[Integers, int] | None = None, **fields: Any
    ) -> Self:
        """Count people by cell, given the number of labels, the bin of each score, shape (n,), and the number of bins.

        ``fields`` are further fields of the sample.
        """
        memberships, decided = people.memberships, people.decided.astype(np.int64)
        truth = np.full(len(decided), UNKNOWN_LABEL) if people.truth is None else people.truth.astype(np.int64)
        bins = (np.zeros_like(decided), 1) if bins is None else bins
        columns = [*((part.codes, len(part.labels)) for part in memberships), bins, (decided, labels)]
        kind, keys = number_combinations([*columns, (truth - UNKNOWN_LABEL, labels + 1)])

        def add(values: Floats | Integers) -> Floats:
            return np.asarray(np.bincount(kind, weights=values, minlength=len(keys)), dtype=np.float64)

        counts = np.ones_like(decided) if people.counts is None else people.counts
        scores = np.zeros(len(decided)) if people.scores is None else people.scores
        weights = people.sample_weight
        w, w2 = (counts, counts) if weights is None else (weights, weights**2)
        squares, squares_scored = add(w2), add(w2 * scores)
        # Use a second pass over the distances, because sums of squares would cancel for similar scores.
        centre = squares_scored / np.where(squares > 0, squares, 1)
        spread = add(w2 * (scores - centre[kind]) ** 2)
        return cls(
            people=people,
            memberships=tuple(replace(part, codes=keys[:, i]) for i, part in enumerate(memberships)),
            bins=keys[:, -3],
            decided=keys[:, -2],
            truth=None if people.truth is None else keys[:, -1] + UNKNOWN_LABEL,
            n=add(counts).astype(np.int64),
            sums=WeightSums(add(w), squares, add(w * scores), squares_scored, spread),
            **fields,
        )


@dataclass(frozen=True)
class GroupedCells:
    """Cells with the group of each, -1 for none, shape (cells,), and the number of groups."""

    cells: CellSample
    group: Integers
    groups: int

    def add(self, values: Floats | Integers, among: Booleans | slice = slice(None)) -> Floats:
        """Sum the values of the selected cells by group, shape (groups,)."""
        sums = np.bincount(self.group[among] + 1, weights=values[among], minlength=self.groups + 1)
        return np.asarray(sums[1:], dtype=np.float64)

    def count(self, among: Booleans | slice = slice(None)) -> Integers:
        """Count the people in the selected cells by group, shape (groups,)."""
        return self.add(self.cells.n, among).astype(np.int64)

    @property
    def weighting(self) -> str:
        """Suffix of the methods of intervals; empty without weights."""
        return "" if self.cells.people.weights is None else EFFECTIVE

    def size(self) -> tuple[Integers, Floats | Integers]:
        """Return the number of people in each group, and their effective number, shape (groups,)."""
        people, sums = self.count(), self.cells.sums
        return people, kish_size(self.add(sums.total), self.add(sums.squares)) if self.weighting else people

    def counts(self, among: Booleans, counted: Booleans) -> tuple[Integers, Floats | Integers, Floats | Integers]:
        """Count the people in the cells ``among``, with effective numbers: n in ``among``, k also in ``counted``.

        Both masks have shape (cells,); the counts have shape (groups,).
        """
        people, both, sums = self.count(among), among & counted, self.cells.sums
        if not self.weighting:
            return people, people, self.count(both)
        trials, successes = ((self.add(sums.total, mask), self.add(sums.squares, mask)) for mask in (among, both))
        k, n = effective_counts(trials, successes, people)
        return people, n, k

    def rate(self, metric: str, among: Booleans, counted: Booleans) -> Estimator:
        """Compute the share of the cells ``counted`` among the cells ``among``, two masks of shape (cells,)."""
        return estimate_rate(metric, *self.counts(among, counted), self.weighting)

    def mean(
        self, metric: str, shift: Integers | int, ends: tuple[float, float], among: Booleans | slice = slice(None)
    ) -> Estimator:
        """Compute the mean of the scores minus a number per cell.

        The variance of a group combines the spread within its cells and the spread of the cell means (Chan, Golub &
        LeVeque 1979). The variance divided by the effective size n is the linearised variance of the weighted mean m,
        sum(w^2 (x - m)^2) / sum(w)^2, times n / (n - 1).

        Args:
            metric: Name of the mean.
            shift: Subtracted number, shape (cells,) or scalar.
            ends: Range of a single difference.
            among: Mask of the cells.
        """
        weights, squares, scored, squares_scored, squares_spread = self.cells.sums
        total, people = self.add(weights, among), self.count(among)
        n = kish_size(total, self.add(squares, among))
        total = np.where(total > 0, total, 1)
        mean = self.add(scored - weights * shift, among) / total
        centre = squares_scored / np.where(squares > 0, squares, 1) - shift
        within = self.add(squares_spread + squares * (centre - mean[self.group]) ** 2, among)
        variance = within / total**2 * n**2 / np.maximum(n - 1, 1)
        return estimate_mean(metric, people, n, (mean, variance), ends, self.weighting)
