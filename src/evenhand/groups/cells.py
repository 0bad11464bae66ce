"""Decisions counted by cell, and the rates and means of groups of cells.

A cell is a combination of protected values, bin of the score, decision and true label. Every metric of every group and
intersection is a sum over cells, so the data are read only once. A single person is a cell with count 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.engine import Sample
from evenhand.groups.estimators import Mean, Rate
from evenhand.groups.membership import DecidedPeople, Membership, number_combinations
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
        memberships: Groups by each protected attribute.
        bins: Bin of the score; all 0 without scores.
        decided: Position of the decision; 1 for the favourable label if there is one, otherwise 0.
        truth: Position of the true label, -1 if it is unknown; None without true labels.
        n: Number of people.
        sums: Sums of weights and scores.
        weighted: Whether people have weights.
    """

    memberships: Sequence[Membership]
    bins: Integers
    decided: Integers
    truth: Integers | None
    n: Integers
    sums: WeightSums
    weighted: bool

    @classmethod
    def tabulate(
        cls, people: DecidedPeople, labels: int, bins: tuple[Integers, int] | None = None, **fields: Any
    ) -> Self:
        """Count people by cell, given the number of labels, the bin of each score, shape (n,), and the number of bins.

        ``fields`` are further fields of the sample.
        """
        memberships, scores, weights = people.memberships, people.scores, people.sample_weight
        columns = [(part.codes, len(part.labels)) for part in memberships]
        columns += [] if bins is None else [bins]
        decided = people.decided.astype(np.int64)
        truth = np.full(len(decided), UNKNOWN_LABEL) if people.truth is None else people.truth.astype(np.int64)
        kind, keys = number_combinations([*columns, (decided, labels), (truth - UNKNOWN_LABEL, labels + 1)])

        def add(values: Floats | Integers | None) -> Floats:
            return np.asarray(np.bincount(kind, weights=values, minlength=len(keys)), dtype=np.float64)

        n = total = squares = add(people.counts)
        scored = squares_scored = spread = np.zeros(len(keys))
        if weights is not None:
            total, squares = add(weights), add(weights**2)
        if scores is not None:
            scored = squares_scored = add(scores)
            if weights is not None:
                scored, squares_scored = add(weights * scores), add(weights**2 * scores)
            # Use a second pass over the distances, because sums of squares would cancel for similar scores.
            centre = squares_scored / np.where(squares > 0, squares, 1)
            distances = (scores - centre[kind]) ** 2
            spread = add(distances if weights is None else weights**2 * distances)
        return cls(
            memberships=tuple(Membership(m.name, keys[:, i], m.labels, m.unknown) for i, m in enumerate(memberships)),
            bins=np.zeros(len(keys), dtype=np.int64) if bins is None else keys[:, len(memberships)],
            decided=keys[:, -2],
            truth=None if people.truth is None else keys[:, -1] + UNKNOWN_LABEL,
            n=n.astype(np.int64),
            sums=WeightSums(total, squares, scored, squares_scored, spread),
            weighted=weights is not None,
            **fields,
        )

    def __len__(self) -> int:
        return len(self.n)

    def size(self, entries: Booleans) -> int:
        return int(self.n[entries].sum())

    def at(self, entries: Booleans) -> Self:
        columns: dict[str, Any] = {name: getattr(self, name)[entries] for name in ("bins", "decided", "n")}
        truth = None if self.truth is None else self.truth[entries]
        sums = WeightSums(*(column[entries] for column in self.sums))
        return replace(self, memberships=(), truth=truth, sums=sums, **columns)

    def tenths(self) -> Integers:
        return self.bins


@dataclass(frozen=True)
class GroupedCells:
    """Cells with the group of each, shape (cells,), and the number of groups."""

    cells: CellSample
    group: Integers
    groups: int

    def add(self, values: Floats | Integers, among: Booleans | slice = slice(None)) -> Floats:
        """Sum the values of the selected cells by group, shape (groups,)."""
        sums = np.bincount(self.group[among], weights=values[among], minlength=self.groups)
        return np.asarray(sums, dtype=np.float64)

    def count(self, among: Booleans | slice = slice(None)) -> Integers:
        """Count the people in the selected cells by group, shape (groups,)."""
        return self.add(self.cells.n, among).astype(np.int64)

    def size(self) -> tuple[Integers, Floats | Integers]:
        """Return the number of people in each group, and their effective number, shape (groups,)."""
        people, sums = self.count(), self.cells.sums
        return people, kish_size(self.add(sums.total), self.add(sums.squares)) if self.cells.weighted else people

    def rate(self, metric: str, among: Booleans, counted: Booleans) -> Rate:
        """Compute the share of the cells ``counted`` among the cells ``among``, two masks of shape (cells,)."""
        people, both = self.count(among), among & counted
        if not self.cells.weighted:
            return Rate(metric, people, people, self.count(both))
        sums = self.cells.sums
        trials, successes = ((self.add(sums.total, mask), self.add(sums.squares, mask)) for mask in (among, both))
        k, n = effective_counts(trials, successes, people)
        return Rate(metric, people, n, k, weighting=EFFECTIVE)

    def mean(self, metric: str, shift: Integers | int, lower: float, upper: float) -> Mean:
        """Compute the mean of the scores minus a number per cell.

        The variance of a group combines the spread within its cells and the spread of the cell means (Chan, Golub &
        LeVeque 1979). The variance divided by the effective size n is the linearised variance of the weighted mean m,
        sum(w^2 (x - m)^2) / sum(w)^2, times n / (n - 1).

        Args:
            metric: Name of the mean.
            shift: Subtracted number, shape (cells,) or scalar.
            lower, upper: Range of a single difference.
        """
        weights, squares, scored, squares_scored, squares_spread = self.cells.sums
        total, people = self.add(weights), self.count()
        n = kish_size(total, self.add(squares))
        total = np.where(total > 0, total, 1)
        mean = self.add(scored - weights * shift) / total
        centre = squares_scored / np.where(squares > 0, squares, 1) - shift
        within = self.add(squares_spread + squares * (centre - mean[self.group]) ** 2)
        variance = within / total**2 * n**2 / np.maximum(n - 1, 1)
        weighting = EFFECTIVE if self.cells.weighted else ""
        return Mean(metric, people, n, mean, variance, lower, upper, weighting=weighting)
