"""Contributions of each list to the numbers of the groups, and their expectation in random orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.rankings.config import RankingConfig

MANY_LISTS = 20
"""Minimum number of lists that are treated as a sample. With fewer lists, numbers are compared with random
permutations of the groups."""

ENOUGH_LISTS = 10
"""Minimum number of lists with a group for an interval."""

BATCHES = 4000
"""Maximum number of summands. Beyond it, lists are summed in random batches, which also determine variances."""

EXPOSURE = "relative_exposure"
SELECTION = "representation_ratio"
ABOVE = "above_rate"
TREATMENT = "exposure_per_relevance"
"""Measures of a group: a sum over lists, divided by a reference sum (see ``RankedLists.expected`` and
``RankedLists.treatment``)."""

PAIRS = "pairs"
"""Share of pairs with a member of one group ranked above one of another, for each pair of compared groups."""


@dataclass(frozen=True, eq=False)
class RankedLists:
    """Candidates of lists with at least two groups, sorted by list and position.

    Attributes:
        lists: List of each candidate, from 0, shape (n,).
        positions, ties: As in ``RecordedRankings``.
        codes: Group of each candidate, -1 if unknown, shape (n,).
        labels: Names of the groups.
        relevance: Relevance of each candidate, shape (n,); None if unknown.
        batches: Batch of each list, shape (lists,).
        config: Settings, with the numbers of positions that count as selected, and the weights of positions.
    """

    lists: Integers
    positions: Integers
    ties: Integers
    codes: Integers
    labels: Sequence[str]
    relevance: Floats | None
    batches: Integers
    config: RankingConfig

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.labels)

    @cached_property
    def sizes(self) -> Integers:
        """Number of candidates of each list, shape (lists,)."""
        return np.bincount(self.lists)

    @property
    def sampled(self) -> bool:
        """Whether there are enough lists to treat them as a sample."""
        return len(self.sizes) >= MANY_LISTS

    @cached_property
    def starts(self) -> Integers:
        """First row of each list and, last, the number of rows."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def members(self) -> Floats:
        """Number of candidates of each group in each list, shape (lists, groups)."""
        width = self.groups + 1
        places = self.lists * width + np.where(self.codes < 0, self.groups, self.codes)
        table = np.bincount(places, minlength=len(self.sizes) * width).reshape(-1, width)
        return table[:, : self.groups].astype(np.float64)

    @property
    def having(self) -> Integers:
        """Number of lists with each group, shape (groups,)."""
        return np.asarray((self.members > 0).sum(axis=0))

    @cached_property
    def large(self) -> Booleans:
        """Mask of the groups with enough candidates and lists for a comparison, shape (groups,)."""
        enough = self.members.sum(axis=0) >= self.config.min_group_size
        return np.asarray(enough & (self.having >= (ENOUGH_LISTS if self.sampled else 1)))

    @cached_property
    def pairs(self) -> Integers:
        """Positions of both groups of all compared pairs, shape (2, pairs)."""
        return np.flatnonzero(self.large)[np.array(np.triu_indices(int(self.large.sum()), k=1))]

    @property
    def count(self) -> int:
        """Number of batches."""
        return int(self.batches.max()) + 1

    @cached_property
    def columns(self) -> list[tuple[Any, Floats]]:
        """Rows and values of the attention, then of the selection probability within the first k positions for each k.

        Attention is ``1 / log2(1 + rank)``, the discount of DCG (Järvelin & Kekäläinen, "Cumulated gain-based
        evaluation of IR techniques", ACM TOIS 2002), or ``1 / rank``. Tied candidates share the values of their
        positions.
        """
        rank = self.positions.astype(np.float64)
        attention = 1 / (rank if self.config.position_weights == "reciprocal" else np.log2(1 + rank))
        columns: list[tuple[Any, Floats]] = [(slice(None), self._share_positions(attention))]
        for k in self.config.at:
            inside = self._share_positions((self.positions <= k).astype(np.float64))
            rows = np.flatnonzero(inside)
            columns.append((rows, inside[rows]))
        return columns

    @cached_property
    def totals(self) -> list[Floats]:
        """Sums of the columns over the candidates of each list, shape (lists,)."""
        count = len(self.sizes)
        return [
            np.asarray(np.bincount(self.lists[rows], weights=values, minlength=count), dtype=np.float64)
            for rows, values in self.columns
        ]

    @cached_property
    def averages(self) -> Floats:
        """Mean of each column over all candidates, shape (columns,)."""
        return np.array([total.sum() for total in self.totals]) / len(self.lists)

    @cached_property
    def variation(self) -> float:
        """Squared coefficient of variation of attention within a list, averaged over candidates."""
        total = self.totals[0]
        squares = np.bincount(self.lists, weights=self.columns[0][1] ** 2) * self.sizes
        ratios = np.divide(squares, total**2, out=np.ones(len(squares)), where=total > 0)
        return float(np.average(ratios - 1, weights=self.sizes))

    def _share_positions(self, values: Floats) -> Floats:
        """Average the values of positions within each block of tied candidates."""
        return np.asarray((np.bincount(self.ties, weights=values) / np.bincount(self.ties))[self.ties])

    def add_up(self, codes: Integers, values: Floats, rows: Any = slice(None)) -> Floats:
        """Sum a value of candidates by batch and group, shape (batches, groups, 1)."""
        codes, lists, width = codes[rows], self.lists[rows], self.groups + 1  # the last column is for unknown groups
        places = codes if self.count == 1 else self.batches[lists] * width + codes
        places = np.where(codes < 0, places + width, places)
        table = np.bincount(places, weights=values, minlength=self.count * width)
        return np.asarray(table.reshape(self.count, width)[:, : self.groups, None])

    def numerators(self, codes: Integers) -> dict[str, Floats]:
        """Sum the attention, the selected positions and the wins in pairs.

        Returns:
            Sums by measure, shape (batches, groups, places) or, for pairs, (batches, pairs, places). Selection has
            one place per k; other measures have a single place.
        """
        wins = np.zeros((self.count, self.groups, self.groups))
        count_wins(self.starts, self.batches, self.ties, codes, self.groups, wins)
        return self._collect([self.add_up(codes, values, rows) for rows, values in self.columns], wins)

    @cached_property
    def expected(self) -> dict[str, Floats]:
        """Expectation of the numerators in random orders, and the number of pairs."""
        pairs = np.zeros((self.count, self.groups, self.groups))
        for group in range(self.groups):
            np.add.at(pairs[:, group], self.batches, self.members[:, [group]] * self.members)
            pairs[:, group, group] = 0.0
        # In random orders, all candidates of a list have the same expected attention and share of the first positions.
        return self._collect([self.add_up(self.codes, (sums / self.sizes)[self.lists]) for sums in self.totals], pairs)

    def _collect(self, columns: list[Floats], pairs: Floats) -> dict[str, Floats]:
        return {
            EXPOSURE: columns[0],
            SELECTION: np.concatenate(columns[1:], axis=2),
            ABOVE: pairs.sum(axis=2)[..., None],
            PAIRS: pairs[:, *self.pairs][..., None],
        }

    @property
    def peers(self) -> Integers:
        """Stratum of each candidate: candidates of the same list and relevance, shape (n,)."""
        assert self.relevance is not None
        _, levels = np.unique(self.relevance, return_inverse=True)
        return np.asarray(self.lists * len(levels) + levels)

    def treatment(self) -> tuple[Floats, Floats]:
        """Compute the attention of each candidate, and the attention in proportion to relevance.

        Both are 0 in lists without any relevance.
        """
        assert self.relevance is not None
        total = np.bincount(self.lists, weights=self.relevance)[self.lists]
        merit = np.divide(self.relevance, total, out=np.zeros(len(total)), where=total > 0)
        return np.where(total > 0, self.columns[0][1], 0.0), self.totals[0][self.lists] * merit

    def permute(self, strata: Integers, draws: int, rng: np.random.Generator) -> Iterator[Integers]:
        """Yield the groups of the candidates, then permutations of them among candidates of the same stratum."""
        yield self.codes
        order = np.argsort(strata, kind="stable")
        strata, codes, permuted = strata[order], self.codes[order], np.empty_like(self.codes)
        for _ in range(draws):
            shuffle_strata(strata, rng.random(len(codes)), codes)
            permuted[order] = codes
            yield permuted


@compile_kernel()
def shuffle_strata(strata, numbers, codes):
    """Permute ``codes`` within each block of equal stratum (Fisher & Yates, inside out).

    Invariant: the rows of a block before ``row`` are a random permutation of their codes.

    Args:
        strata: Stratum of each row, shape (n,). Rows of the same stratum are adjacent.
        numbers: Uniform random numbers from 0 to 1, shape (n,).
        codes: Permuted in place, shape (n,).
    """
    first = 0
    for row in range(len(codes)):
        if strata[row] != strata[first]:
            first = row
        other = first + int(numbers[row] * (row - first + 1))
        codes[row], codes[other] = codes[other], codes[row]


@compile_kernel()
def count_wins(starts, batches, ties, codes, groups, wins):
    """Count in ``wins[batch, a, b]`` the pairs with a member of group a ranked above one of group b in the same list.

    Equal ranks count one half. Invariant: after a block of equal rank, ``below[b]`` members of b remain.

    Args:
        starts: First row of each list and, last, the number of rows, shape (lists + 1,).
        batches: Batch of each list, shape (lists,).
        ties, codes: Block of equal rank and group of each row, shape (n,). A negative group is unknown.
        groups: Number of groups.
        wins: Output, shape (batches, groups, groups). The diagonal is not counted.
    """
    below = np.zeros(groups, dtype=np.int64)
    equal = np.zeros(groups, dtype=np.int64)
    for at in range(len(starts) - 1):
        first, end = starts[at], starts[at + 1]
        below[:] = 0
        for row in range(first, end):
            if codes[row] >= 0:
                below[codes[row]] += 1
        row = first
        while row < end:
            stop = row
            equal[:] = 0
            while stop < end and ties[stop] == ties[row]:
                if codes[stop] >= 0:
                    equal[codes[stop]] += 1
                    below[codes[stop]] -= 1
                stop += 1
            for a in range(groups):
                if equal[a] > 0:
                    for b in range(groups):
                        if b != a:
                            wins[batches[at], a, b] += equal[a] * (below[b] + 0.5 * equal[b])
            row = stop
