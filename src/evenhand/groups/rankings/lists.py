"""Contributions of each list to the numbers of the groups, and their expectation if orders ignore the groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.rankings.config import RankingConfig

BATCHES = 4000
"""Maximum number of summands. More lists are summed in random batches, which also determine the variances."""

SELECTION = "selection"
EXPOSURE = "exposure"
ABOVE = "above"
TREATMENT = "treatment"
ATTENTION = "attention"
ORDERED = "ordered"
WITHIN = "within"


@dataclass(frozen=True, eq=False)
class RankedLists:
    """Candidates of lists with at least two groups, sorted by list and position.

    Attributes:
        lists: List of each candidate, from 0, shape (n,).
        positions, ties: As in ``RecordedRankings``.
        codes: Group of each candidate, -1 if unknown, shape (n,).
        groups: Number of groups.
        relevance: Relevance of each candidate, shape (n,); None if unknown.
        batches: Batch of each list, shape (lists,).
        at: Numbers of positions that count as selected.
        config: Settings, with the weights of positions.
    """

    lists: Integers
    positions: Integers
    ties: Integers
    codes: Integers
    groups: int
    relevance: Floats | None
    batches: Integers
    at: tuple[int, ...]
    config: RankingConfig

    @cached_property
    def sizes(self) -> Integers:
        """Number of candidates of each list, shape (lists,)."""
        return np.bincount(self.lists)

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
    def count(self) -> int:
        """Number of batches."""
        return int(self.batches.max()) + 1

    @cached_property
    def weights(self) -> Floats:
        """Attention of each candidate: the mean over the positions that tied candidates share, shape (n,)."""
        return self._share_positions(weigh_positions(self.positions, self.config, self.at))

    @cached_property
    def attention(self) -> Floats:
        """Total attention of each list, shape (lists,)."""
        return np.asarray(np.bincount(self.lists, weights=self.weights), dtype=np.float64)

    @cached_property
    def selected(self) -> list[tuple[Integers, Floats]]:
        """Candidates in the first k positions, for each k, and the probability of selection if positions are shared."""
        selected = []
        for k in self.at:
            inside = self._share_positions((self.positions <= k).astype(np.float64))
            rows = np.flatnonzero(inside)
            selected.append((rows, inside[rows]))
        return selected

    @cached_property
    def selected_share(self) -> Floats:
        """Share of all candidates in the first k positions, shape (places,)."""
        return np.array([inside.sum() for _, inside in self.selected]) / len(self.lists)

    @cached_property
    def merit(self) -> Floats | None:
        """Share of each candidate in the relevance of its list, 0 in lists without any; None without relevance."""
        if self.relevance is None:
            return None
        total = np.bincount(self.lists, weights=self.relevance)[self.lists]
        return np.divide(self.relevance, total, out=np.zeros(len(total)), where=total > 0)

    @cached_property
    def relevant(self) -> Booleans:
        """Mask of the lists with any relevance, shape (lists,)."""
        assert self.relevance is not None
        return np.asarray(np.bincount(self.lists, weights=self.relevance) > 0)

    @cached_property
    def by_relevance(self) -> Integers:
        """Rows by list and relevance, in ascending order."""
        assert self.relevance is not None
        return np.lexsort((self.relevance, self.lists))

    @cached_property
    def variation(self) -> float:
        """Squared coefficient of variation of attention within a list, averaged over candidates."""
        squares = np.bincount(self.lists, weights=self.weights**2) * self.sizes
        ratios = np.divide(squares, self.attention**2, out=np.ones(len(squares)), where=self.attention > 0)
        return float(np.average(ratios - 1, weights=self.sizes))

    def _share_positions(self, values: Floats) -> Floats:
        """Average a value of positions over the candidates who share them."""
        sizes = np.bincount(self.ties)
        if sizes.max() == 1:
            return values
        return np.asarray((np.bincount(self.ties, weights=values) / sizes)[self.ties])

    def add_up(self, codes: Integers, values: Floats, rows: Integers | slice = slice(None)) -> Floats:
        """Sum a value of candidates by batch and group, shape (batches, groups)."""
        codes, lists, width = codes[rows], self.lists[rows], self.groups + 1  # the last column is for unknown groups
        places = codes if self.count == 1 else self.batches[lists] * width + codes
        places = np.where(codes < 0, places + width, places)
        table = np.bincount(places, weights=values, minlength=self.count * width)
        return np.asarray(table.reshape(self.count, width)[:, : self.groups])

    def numerators(self, codes: Integers) -> dict[str, Floats]:
        """Sum the attention, the selected positions and the wins in pairs by batch and group.

        Args:
            codes: Group of each candidate, shape (n,).

        Returns:
            Sums by measure, shape (batches, groups); with the positions k, or the other group, as a last axis.
        """
        above = np.zeros((self.count, self.groups, self.groups))
        count_wins(self.starts, self.batches, self.ties, codes, self.groups, above)
        selected = np.stack([self.add_up(codes, inside, rows) for rows, inside in self.selected], axis=2)
        return {EXPOSURE: self.add_up(codes, self.weights), SELECTION: selected, ABOVE: above}

    def denominators(self) -> dict[str, Floats]:
        """Compute the expectation of the numerators in even orders, and the number of pairs."""
        # In an even order, each candidate of a list has the same share of its attention and first positions.
        even = []
        for rows, inside in self.selected:
            positions = np.bincount(self.lists[rows], weights=inside, minlength=len(self.sizes))
            even.append(self.add_up(self.codes, (positions / self.sizes)[self.lists]))
        pairs = np.zeros((self.count, self.groups, self.groups))
        for group in range(self.groups):
            np.add.at(pairs[:, group], self.batches, self.members[:, [group]] * self.members)
            pairs[:, group, group] = 0.0
        attention = self.add_up(self.codes, (self.attention / self.sizes)[self.lists])
        return {EXPOSURE: attention, SELECTION: np.stack(even, axis=2), ABOVE: pairs}

    def relevance_numerators(self, codes: Integers) -> dict[str, Floats]:
        """Sum the numerators of measures of relevance; empty without relevance.

        These are the attention in lists with any relevance, the share of attention minus the share of relevance, and
        the ordered pairs across groups and within the group.
        """
        if self.merit is None:
            return {}
        relevant, total = self.relevant[self.lists], self.attention[self.lists]
        share = np.divide(self.weights, total, out=np.zeros(len(total)), where=total > 0)
        across, within = np.moveaxis(self._count_ordered(codes)[0], 1, 0)
        return {
            TREATMENT: self.add_up(codes, np.where(relevant, self.weights, 0.0)),
            ATTENTION: self.add_up(codes, np.where(relevant, share - self.merit, 0.0)),
            ORDERED: across,
            WITHIN: within,
        }

    def relevance_denominators(self) -> dict[str, Floats]:
        """Compute the attention in proportion to relevance, and the number of lists and of pairs."""
        if self.merit is None:
            return {}
        lists = np.zeros((self.count, self.groups))
        np.add.at(lists, self.batches, ((self.members > 0) & self.relevant[:, None]).astype(np.float64))
        across, within = np.moveaxis(self._count_ordered(self.codes)[1], 1, 0)
        attention = self.add_up(self.codes, self.attention[self.lists] * self.merit)
        return {TREATMENT: attention, ATTENTION: lists, ORDERED: across, WITHIN: within}

    def _count_ordered(self, codes: Integers) -> tuple[Floats, Floats]:
        """Count ordered pairs, and all pairs of unequal relevance, shape (batches, 2, groups) each."""
        ordered, pairs = (np.zeros((self.count, 2, self.groups)) for _ in range(2))
        count_ordered(self.starts, self.batches, self.ties, codes, self.by_relevance, self.relevance, ordered, pairs)
        return ordered, pairs

    def shuffle_lists(self, rng: np.random.Generator) -> Callable[[], Integers]:
        """Build a function that permutes the groups of the candidates within each list."""
        codes = self.codes.copy()

        def shuffle() -> Integers:
            for start, end in pairwise(self.starts.tolist()):
                rng.shuffle(codes[start:end])
            return codes

        return shuffle

    def shuffle_equals(self, rng: np.random.Generator) -> Callable[[], Integers]:
        """Build a function that permutes the groups among candidates of a list with equal relevance."""
        assert self.relevance is not None
        _, levels = np.unique(self.relevance, return_inverse=True)
        strata = self.lists * (int(levels.max()) + 1) + levels
        ordered = np.argsort(strata, kind="stable")
        strata, groups = strata[ordered].astype(np.float64), self.codes[ordered]

        def shuffle() -> Integers:
            codes = np.empty_like(groups)
            codes[ordered] = groups[np.argsort(strata + rng.random(len(groups)))]
            return codes

        return shuffle


def weigh_positions(positions: Integers, config: RankingConfig, at: tuple[int, ...]) -> Floats:
    """Compute the attention of positions, numbered from 1.

    ``log``: ``1 / log2(1 + rank)``, the discount of DCG (Järvelin & Kekäläinen, "Cumulated gain-based evaluation of IR
    techniques", ACM TOIS 2002); ``reciprocal``: ``1 / rank``; ``geometric``: ``patience ** (rank - 1)``, the
    probability that a reader who continues with probability ``patience`` sees the position (Moffat & Zobel,
    "Rank-biased precision", ACM TOIS 2008); ``top``: 1 for the first k positions, 0 below.
    """
    rank = positions.astype(np.float64)
    if config.position_weights == "reciprocal":
        return 1 / rank
    if config.position_weights == "geometric":
        return np.asarray(config.patience ** (rank - 1))
    if config.position_weights == "top":
        return (rank <= min(at)).astype(np.float64)
    return 1 / np.log2(1 + rank)


def spread_lists(lists: int, rng: np.random.Generator) -> Integers:
    """Assign each list to a batch of its own, or to one of ``BATCHES`` random batches if there are more lists."""
    if lists <= BATCHES:
        return np.arange(lists)
    return np.asarray(rng.permutation(np.arange(lists) % BATCHES))


# Compiled kernels that count pairs of candidates list by list.


@compile_kernel()
def count_wins(starts, batches, ties, codes, groups, wins):
    """Count in ``wins[batch, a, b]`` the pairs with a member of group a ranked above one of group b in the same list.

    Equal ranks count one half. Invariant: after a block of equal rank, ``below[b]`` members of b remain.

    Args:
        starts: First row of each list and, last, the number of rows, shape (lists + 1,).
        batches: Batch of each list, shape (lists,).
        ties, codes: Block of equal rank and group of each row, shape (n,). A negative group is unknown.
        groups: Number of groups.
        wins: Output of shape (batches, groups, groups), except for the diagonal.
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


@compile_kernel(internal=True)
def add_to_tree(tree, place):
    """Increment a position, numbered from 1, in a tree of partial sums (Fenwick 1994)."""
    while place < len(tree):
        tree[place] += 1
        place += place & -place


@compile_kernel(internal=True)
def sum_of_tree(tree, place):
    """Compute the sum of all positions up to this one."""
    total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


@compile_kernel()
def count_ordered(starts, batches, ties, codes, by_relevance, relevance, ordered, pairs):
    """Count pairs of unequal relevance in the same list, and the ordered ones, by the group of the more relevant one.

    Candidates of a list are processed in ascending order of relevance. Invariant: the trees contain the positions of
    all candidates of less relevance, so every later position is correctly below the current candidate. Equal ranks
    count one half.

    Args:
        starts, batches, ties, codes: As for ``count_wins``.
        by_relevance: Rows by list and relevance, shape (n,).
        relevance: Relevance of each row, shape (n,).
        ordered, pairs: Outputs of shape (batches, 2, groups): pairs with other groups, and within the group.
    """
    groups = ordered.shape[2]
    for at in range(len(starts) - 1):
        first, end = starts[at], starts[at + 1]
        batch, size = batches[at], end - first
        every = np.zeros(size + 1, dtype=np.int64)
        own = np.zeros((groups, size + 1), dtype=np.int64)
        known = np.zeros(groups, dtype=np.int64)
        opens = np.zeros(size, dtype=np.int64)
        closes = np.zeros(size, dtype=np.int64)
        for i in range(size):  # first and last position of each block of equal rank
            opens[i] = opens[i - 1] if i > 0 and ties[first + i] == ties[first + i - 1] else i
        for i in range(size - 1, -1, -1):
            closes[i] = closes[i + 1] if i + 1 < size and ties[first + i] == ties[first + i + 1] else i + 1
        total, here = 0, first
        while here < end:
            stop = here
            while stop < end and relevance[by_relevance[stop]] == relevance[by_relevance[here]]:
                row = by_relevance[stop]
                group = codes[row]
                if group >= 0:
                    top, bottom = opens[row - first], closes[row - first]
                    upper, lower = sum_of_tree(every, top), sum_of_tree(every, bottom)
                    right = total - lower + 0.5 * (lower - upper)
                    upper, lower = sum_of_tree(own[group], top), sum_of_tree(own[group], bottom)
                    same = known[group] - lower + 0.5 * (lower - upper)
                    ordered[batch, 0, group] += right - same
                    ordered[batch, 1, group] += same
                    pairs[batch, 0, group] += total - known[group]
                    pairs[batch, 1, group] += known[group]
                stop += 1
            for i in range(here, stop):
                row = by_relevance[i]
                if codes[row] >= 0:
                    add_to_tree(every, row - first + 1)
                    add_to_tree(own[codes[row]], row - first + 1)
                    total += 1
                    known[codes[row]] += 1
            here = stop
