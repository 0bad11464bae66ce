"""Against the best treated other group: whom each rule set is compared with, here and in every permutation.

The other groups of a rule set are the single cells of the same attributes (one value or bin each) that lie outside it
and hold enough people; the best treated one is chosen anew in every permutation, so that the maxima account for
the choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.subgroup.family import Family
from evenhand.subgroup.rules import Rules
from evenhand.subgroup.tabulate import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Contest:
    """The rule sets over the same attributes, and the single cells that they are compared with.

    Attributes:
        at: positions of the rule sets.
        cells: the cell of each attribute, -1 where there is no rule, shape (groups, attributes).
        holds: which groups each rule set holds, shape (rule sets, groups).
        of: which occupied cells each group holds, shape (groups, occupied cells).
        size: people in each group.
    """

    at: Ints
    cells: Ints
    holds: NDArray[np.bool_]
    of: NDArray[np.bool_]
    size: Floats


def contests(family: Family, table: Table, chosen: Ints, least: int) -> list[Contest]:
    """Who is compared with whom."""
    found = []
    own = table.cells.codes[:, : table.attributes]
    for pattern in np.unique(chosen > 0, axis=0):
        at = np.flatnonzero(((chosen > 0) == pattern).all(axis=1))
        named = np.flatnonzero(pattern)
        distinct, of = np.unique(own[:, named], axis=0, return_inverse=True)
        size = np.bincount(of.ravel(), weights=table.cells.sizes, minlength=len(distinct)).astype(np.float64)
        kept = np.flatnonzero(size >= least)
        holds = np.ones((len(at), len(kept)), dtype=bool)
        for column, axis in enumerate(named):
            holds &= family.rules[axis][np.ix_(chosen[at, axis], distinct[kept, column])]
        cells = np.full((len(kept), len(pattern)), -1, dtype=np.int64)
        cells[:, named] = distinct[kept]
        found.append(Contest(at, cells, holds, of.ravel()[None, :] == kept[:, None], size[kept]))
    return found


def winners(contest: Contest, rates: Floats) -> Ints:
    """The best treated group outside each rule set, -1 where there is none, shape (rule sets, columns).

    Args:
        rates: how well each group is treated, shape (groups, columns).
    """
    order = np.argsort(-rates, axis=0, kind="stable")
    found = np.full((len(contest.at), rates.shape[1]), -1, dtype=np.int64)
    open_rows = np.arange(len(contest.at))
    for place in range(len(order)):
        group = order[place]
        rows = found[open_rows]
        free = (rows < 0) & ~contest.holds[np.ix_(open_rows, group)]
        found[open_rows] = np.where(free, group[None, :], rows)
        open_rows = open_rows[(found[open_rows] < 0).any(axis=1)]
        if len(open_rows) == 0:
            break
    return found


def pair_z(k1: ArrayLike, n1: Floats, k2: ArrayLike, n2: Floats, spread: float | None) -> Floats:
    """Standardised difference of two rates, of the two groups taken together.

    Args:
        spread: variance of the values of everybody, for mean scores; None: of a share, from the two groups.
    """
    k1, k2, people = np.asarray(k1, dtype=np.float64), np.asarray(k2, dtype=np.float64), n1 + n2
    together = (k1 + k2) / people
    variance = together * (1 - together) * people / np.maximum(people - 1, 1) if spread is None else spread
    error = np.sqrt(variance * (1 / n1 + 1 / n2))
    gap = k1 / n1 - k2 / n2
    return np.asarray(np.divide(gap, error, out=np.zeros(gap.shape), where=error > 0))


@dataclass(frozen=True)
class Versus:
    """The best treated other group of each rule set.

    Attributes:
        contests: who is compared with whom.
        size: people in each rule set, shape (rule sets,).
        sign: 1 if a higher rate is better, else -1.
        spread: see ``pair_z``.
    """

    contests: list[Contest]
    size: Floats
    sign: int
    spread: float | None

    def chosen(self, table: Table, total: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        """(size, total, squares) of the best other group of each rule set, and its cells; size 0 without one.

        Args:
            total: of each rule set, shape (rule sets,).
        """
        rules, attributes = len(self.size), table.attributes
        size, other, squares = np.zeros(rules), np.zeros(rules), np.zeros(rules)
        cells = np.full((rules, attributes), -1, dtype=np.int64)
        for contest in self.contests:
            if len(contest.size) == 0:
                continue
            sums = contest.of @ table.sums(table.values)
            best = winners(contest, self.sign * (sums / contest.size)[:, None])[:, 0]
            known = contest.at[best >= 0]
            best = best[best >= 0]
            size[known], other[known], cells[known] = contest.size[best], sums[best], contest.cells[best]
            squares[known] = (contest.of @ table.sums(np.square(table.values)))[best]
        return size, other, squares, cells

    def largest(self, inside: NDArray[np.bool_], sums: NDArray[np.float32]) -> Floats:
        """The largest absolute z of all rule sets against their best other group, by permutation."""
        top = np.zeros(sums.shape[1])
        for contest in self.contests:
            if len(contest.size) == 0:
                continue
            own = inside[contest.at].astype(np.float32) @ sums
            groups = contest.of.astype(np.float32) @ sums
            best = winners(contest, self.sign * (groups / contest.size[:, None]))
            k2 = np.take_along_axis(groups, np.maximum(best, 0), axis=0)
            z = pair_z(own, self.size[contest.at][:, None], k2, contest.size[np.maximum(best, 0)], self.spread)
            top = np.maximum(top, np.where(best >= 0, np.abs(z), 0.0).max(axis=0, initial=0.0))
        return top

    def rules(self, family: Family, cells: Ints) -> Rules:
        """A group of single cells as rules."""
        return {
            cut.attribute: cut.rule(np.arange(len(cut.names)) == cell)
            for cut, cell in zip(family.cuts, cells, strict=True)
            if cell >= 0
        }
