"""What every list adds to the numbers of each group: sums over its candidates, and what an even order would give."""

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
"""More lists than this are summed in so many batches, at random: variances are estimated from them as well."""

SELECTION = "selection"
EXPOSURE = "exposure"
ABOVE = "above"
TREATMENT = "treatment"
ATTENTION = "attention"
ORDERED = "ordered"
WITHIN = "within"


@dataclass(frozen=True, eq=False)
class RankedLists:
    """Candidates of lists in which at least two groups can be compared, sorted by list and place.

    Attributes:
        lists: from 0 on, shape (n,).
        positions, ties: as in ``RecordedRankings``.
        codes: the group of each candidate, -1 where it is not known, shape (n,).
        groups: how many groups there are.
        relevance: shape (n,), or None.
        batches: the batch of each list, shape (lists,).
        at: places that count as selected.
        config: the weights of places.
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
    def starts(self) -> Integers:
        """The first row of each list and, last, the number of rows."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def sizes(self) -> Integers:
        """Candidates of each list."""
        return np.bincount(self.lists)

    @property
    def count(self) -> int:
        """How many batches there are."""
        return int(self.batches.max()) + 1

    @cached_property
    def weights(self) -> Floats:
        """The attention of each candidate: the mean over the places that it shares, shape (n,)."""
        return self._share_places(weigh_places(self.positions, self.config, self.at))

    @cached_property
    def attention(self) -> Floats:
        """The attention of each list in all, shape (lists,)."""
        return np.asarray(np.bincount(self.lists, weights=self.weights), dtype=np.float64)

    @cached_property
    def chosen(self) -> list[tuple[Integers, Floats]]:
        """For each of ``at`` the candidates within the first k places, and with which probability where places tie."""
        found = []
        for k in self.at:
            inside = self._share_places((self.positions <= k).astype(np.float64))
            rows = np.flatnonzero(inside)
            found.append((rows, inside[rows]))
        return found

    @cached_property
    def merit(self) -> Floats | None:
        """The part of its list's relevance that each candidate has, 0 in lists without any; None without relevance."""
        if self.relevance is None:
            return None
        whole = np.bincount(self.lists, weights=self.relevance)[self.lists]
        return np.divide(self.relevance, whole, out=np.zeros(len(whole)), where=whole > 0)

    @cached_property
    def deserving(self) -> Booleans:
        """Which lists have any relevance, shape (lists,)."""
        assert self.relevance is not None
        return np.asarray(np.bincount(self.lists, weights=self.relevance) > 0)

    @cached_property
    def by_relevance(self) -> Integers:
        """Rows by list and relevance, the least first."""
        assert self.relevance is not None
        return np.lexsort((self.relevance, self.lists))

    def _share_places(self, values: Floats) -> Floats:
        """Return the mean of a value of places over those that candidates of equal rank share."""
        sizes = np.bincount(self.ties)
        if sizes.max() == 1:
            return values
        return np.asarray((np.bincount(self.ties, weights=values) / sizes)[self.ties])

    def sums_of(self, codes: Integers, values: Floats, rows: Integers | None = None) -> Floats:
        """Return sums of a value of candidates by batch and group, shape (batches, groups)."""
        lists = self.lists if rows is None else self.lists[rows]
        codes = codes if rows is None else codes[rows]
        width = self.groups + 1  # the last column is that of unknown groups
        places = codes if self.count == 1 else self.batches[lists] * width + codes
        places = np.where(codes < 0, places + width, places)
        table = np.bincount(places, weights=values, minlength=self.count * width)
        return np.asarray(table.reshape(self.count, width)[:, : self.groups])

    @cached_property
    def selected_share(self) -> Floats:
        """The share of all candidates who are within the first k places, shape (places,)."""
        return np.array([inside.sum() for _, inside in self.chosen]) / len(self.lists)

    @cached_property
    def selected_counts(self) -> tuple[Floats, Floats]:
        """Places within the first k that each group has, and would have in an even order, (groups, places) each."""
        own = [self.sums_of(self.codes, inside, rows).sum(axis=0) for rows, inside in self.chosen]
        return np.stack(own, axis=1), self.denominators()[SELECTION].sum(axis=0)

    @cached_property
    def even_attention(self) -> Floats:
        """The attention that each group would have in an even order, shape (groups,)."""
        return np.asarray(self.sums_of(self.codes, (self.attention / self.sizes)[self.lists]).sum(axis=0))

    @cached_property
    def variation(self) -> float:
        """The squared coefficient of variation of attention within a list, on average over candidates."""
        squares = np.bincount(self.lists, weights=self.weights**2) * self.sizes
        ratios = np.divide(squares, self.attention**2, out=np.ones(len(squares)), where=self.attention > 0)
        return float(np.average(ratios - 1, weights=self.sizes))

    def numerators(self, codes: Integers) -> dict[str, Floats]:
        """Return what candidates of these groups (n,) have, by measure: (batches, groups), or with another axis.

        Attention; places within the first k, the last axis; how often they stand above candidates of another group, the
        last axis.
        """
        chosen = [self.sums_of(codes, inside, rows) for rows, inside in self.chosen]
        above = np.zeros((self.count, self.groups, self.groups))
        count_wins(self.starts, self.batches, self.ties, codes, self.groups, above)
        return {EXPOSURE: self.sums_of(codes, self.weights), SELECTION: np.stack(chosen, axis=2), ABOVE: above}

    def denominators(self) -> dict[str, Floats]:
        """Return what the numerators are divided by: what an even order would give, and how many pairs there are."""
        # In an even order every candidate of a list has the same part of its attention and of its first places.
        even = []
        for rows, inside in self.chosen:
            places = np.bincount(self.lists[rows], weights=inside, minlength=len(self.sizes))
            even.append(self.sums_of(self.codes, (places / self.sizes)[self.lists]))
        pairs = np.zeros((self.count, self.groups, self.groups))
        for group in range(self.groups):
            np.add.at(pairs[:, group], self.batches, self.members[:, [group]] * self.members)
            pairs[:, group, group] = 0.0
        return {
            EXPOSURE: self.sums_of(self.codes, (self.attention / self.sizes)[self.lists]),
            SELECTION: np.stack(even, axis=2),
            ABOVE: pairs,
        }

    def relevance_numerators(self, codes: Integers) -> dict[str, Floats]:
        """Return the same of measures of relevance, none without it.

        Attention in lists that have any relevance; share of attention minus share of relevance; pairs in order.
        """
        if self.merit is None:
            return {}
        deserving = self.deserving[self.lists]
        whole = self.attention[self.lists]
        share = np.divide(self.weights, whole, out=np.zeros(len(whole)), where=whole > 0)
        across, within = np.moveaxis(self._count_ordered(codes)[0], 1, 0)
        return {
            TREATMENT: self.sums_of(codes, np.where(deserving, self.weights, 0.0)),
            ATTENTION: self.sums_of(codes, np.where(deserving, share - self.merit, 0.0)),
            ORDERED: across,
            WITHIN: within,
        }

    def relevance_denominators(self) -> dict[str, Floats]:
        """Return what these are divided by: attention in proportion to relevance, lists, and pairs."""
        if self.merit is None:
            return {}
        present = np.zeros((self.count, self.groups))
        np.add.at(present, self.batches, ((self.members > 0) & self.deserving[:, None]).astype(np.float64))
        across, within = np.moveaxis(self._count_ordered(self.codes)[1], 1, 0)
        return {
            TREATMENT: self.sums_of(self.codes, self.attention[self.lists] * self.merit),
            ATTENTION: present,
            ORDERED: across,
            WITHIN: within,
        }

    def shuffle_lists(self, rng: np.random.Generator) -> Callable[[], Integers]:
        """Return a function that deals the groups of each list out to its candidates at random."""
        codes = self.codes.copy()

        def shuffle() -> Integers:
            for start, end in pairwise(self.starts.tolist()):
                rng.shuffle(codes[start:end])
            return codes

        return shuffle

    def shuffle_equals(self, rng: np.random.Generator) -> Callable[[], Integers]:
        """Return a function that deals groups out at random among candidates of one list who are equally relevant."""
        assert self.relevance is not None
        _, levels = np.unique(self.relevance, return_inverse=True)
        strata = self.lists * (int(levels.max()) + 1) + levels
        ordered = np.argsort(strata, kind="stable")
        strata, given = strata[ordered].astype(np.float64), self.codes[ordered]

        def shuffle() -> Integers:
            codes = np.empty_like(given)
            codes[ordered] = given[np.argsort(strata + rng.random(len(given)))]
            return codes

        return shuffle

    @cached_property
    def members(self) -> Floats:
        """Candidates of each group in each list, shape (lists, groups)."""
        width = self.groups + 1
        places = self.lists * width + np.where(self.codes < 0, self.groups, self.codes)
        table = np.bincount(places, minlength=len(self.sizes) * width).reshape(-1, width)
        return table[:, : self.groups].astype(np.float64)

    def _count_ordered(self, codes: Integers) -> tuple[Floats, Floats]:
        """Return pairs in order and all pairs of unequal relevance, shape (batches, 2, groups) each."""
        ordered, pairs = (np.zeros((self.count, 2, self.groups)) for _ in range(2))
        count_ordered(self.starts, self.batches, self.ties, codes, self.by_relevance, self.relevance, ordered, pairs)
        return ordered, pairs


def weigh_places(positions: Integers, config: RankingConfig, at: tuple[int, ...]) -> Floats:
    """Return the attention that places from 1 on get, in the shape of the places.

    ``log``: ``1 / log2(1 + rank)``, the discount of DCG (Järvelin & Kekäläinen, "Cumulated gain-based evaluation of IR
    techniques", ACM TOIS 2002); ``reciprocal``: ``1 / rank``; ``geometric``: ``patience ** (rank - 1)``, the chance
    that a reader who goes on with that probability sees the place (Moffat & Zobel, "Rank-biased precision", ACM TOIS
    2008); ``top``: 1 for the first k places, 0 below.
    """
    places = positions.astype(np.float64)
    if config.position_weights == "reciprocal":
        return 1 / places
    if config.position_weights == "geometric":
        return np.asarray(config.patience ** (places - 1))
    if config.position_weights == "top":
        return (places <= min(at)).astype(np.float64)
    return 1 / np.log2(1 + places)


def spread_lists(lists: int, rng: np.random.Generator) -> Integers:
    """Return the batch of each list: its own, or one of ``BATCHES`` drawn at random where there are more."""
    if lists <= BATCHES:
        return np.arange(lists)
    return np.asarray(rng.permutation(np.arange(lists) % BATCHES))


# Pairs of candidates in their order, counted list by list: compiled.


@compile_kernel()
def count_wins(starts, batches, ties, codes, groups, wins):
    """Add to ``wins[batch, a, b]`` how often a member of group a stands above one of group b in the same list.

    Equal ranks count one half. Invariant: after a block of equal rank, ``below[b]`` members of b are still to come.

    Args:
        starts: the first row of each list and, last, the number of rows, shape (lists + 1,).
        batches: the batch of each list, shape (lists,).
        ties: the block of equal rank of each row, shape (n,); codes: its group, negative for none, shape (n,).
        groups: how many there are.
        wins: shape (batches, groups, groups); the diagonal is not counted.
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
    """Count one more at a place, from 1 on: a tree of partial sums (Fenwick 1994)."""
    while place < len(tree):
        tree[place] += 1
        place += place & -place


@compile_kernel(internal=True)
def sum_of_tree(tree, place):
    """Return how many were counted at places up to this one."""
    total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


@compile_kernel()
def count_ordered(starts, batches, ties, codes, by_relevance, relevance, ordered, pairs):
    """Add up pairs of unequal relevance in the same list by the group of the better one, and how many are in order.

    Candidates of a list come in the order of their relevance, the least first. Invariant: the trees hold the places of
    all candidates of less relevance, so what stands below the present one in them is ranked below it rightly. Equal
    ranks count one half.

    Args:
        starts, batches, ties, codes: as for ``count_wins``.
        by_relevance: rows by list and relevance, shape (n,); relevance: of each row, shape (n,).
        ordered, pairs: shape (batches, 2, groups): against candidates of other groups, and of the same.
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
        for i in range(size):  # the first place of each block of equal rank, and its last
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
