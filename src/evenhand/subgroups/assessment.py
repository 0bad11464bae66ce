"""Gap, interval and adjusted p-value of every candidate, against everybody else or the best treated other group.

The other groups of a rule set are the single cells of the same attributes (one value or bin each) that lie outside it
and hold enough people; the best treated one is chosen again in every permutation, so that the maxima account for
the choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.core import NEVER, TimeLimit
from evenhand.subgroups.candidates import CandidateRuleSets, stratum_sums
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.control import adjust_tests
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.gaps import (
    MOST_ENTRIES,
    LargestGap,
    PermutationNull,
    StratifiedGroups,
    adjusted_intervals,
    approximate_intervals,
    compare_weighted,
    compare_with_rest,
    correct_tails,
    largest_gap_to_rest,
    sample_permutation_null,
    scale_tails,
    single_intervals,
    standardise_weighted,
)
from evenhand.subgroups.measures import minimum_sizes
from evenhand.subgroups.rules import Rules
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets, sum_rule_sets
from evenhand.typing import Booleans, Floats, Integers


@dataclass(frozen=True)
class BestGroupComparison:
    """The rule sets over the same attributes, and the single cells that they are compared with.

    Attributes:
        at: positions of the rule sets.
        cells: the cell of each attribute, -1 where there is no rule, shape (groups, attributes).
        holds: which groups each rule set holds, shape (rule sets, groups).
        of: which occupied cells each group holds, shape (groups, occupied cells).
        size: people in each group.
    """

    at: Integers
    cells: Integers
    holds: Booleans
    of: Booleans
    size: Floats


def build_comparisons(
    family: RuleSetFamily, table: CellTable, chosen: Integers, least: int
) -> list[BestGroupComparison]:
    """Return who is compared with whom."""
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
        found.append(BestGroupComparison(at, cells, holds, of.ravel()[None, :] == kept[:, None], size[kept]))
    return found


def best_other_groups(contest: BestGroupComparison, rates: Floats) -> Integers:
    """Return the best treated group outside each rule set, -1 where there is none, shape (rule sets, columns).

    Args:
        rates: how well each group is treated, shape (groups, columns).
    """
    order = np.argsort(-rates, axis=0, kind="stable")
    found = np.full((len(contest.at), rates.shape[1]), -1, dtype=np.int64)
    open_rows = np.arange(len(contest.at))
    # From the best treated group on: each rule set takes the first one that it does not hold.
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
    """Return standardised difference of two rates, of the two groups taken together.

    Args:
        spread: variance of the values of everybody, for mean scores; None: of a share, from the two groups.
    """
    k1, k2, people = np.asarray(k1, dtype=np.float64), np.asarray(k2, dtype=np.float64), n1 + n2
    # The variance that the difference has if the values of both groups are dealt out to them at random: of a share p (1
    # - p) N / (N - 1) * (1 / n1 + 1 / n2).
    together = (k1 + k2) / people
    variance = together * (1 - together) * people / np.maximum(people - 1, 1) if spread is None else spread
    error = np.sqrt(variance * (1 / n1 + 1 / n2))
    gap = k1 / n1 - k2 / n2
    return np.asarray(np.divide(gap, error, out=np.zeros(gap.shape), where=error > 0))


@dataclass(frozen=True)
class BestOtherGroup:
    """The best treated other group of each rule set.

    Attributes:
        contests: who is compared with whom.
        size: people in each rule set, shape (rule sets,).
        sign: 1 if a higher rate is better, else -1.
        spread: see ``pair_z``.
    """

    contests: list[BestGroupComparison]
    size: Floats
    sign: int
    spread: float | None

    def chosen(self, table: CellTable, total: Floats) -> tuple[Floats, Floats, Floats, Integers]:
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
            best = best_other_groups(contest, self.sign * (sums / contest.size)[:, None])[:, 0]
            known = contest.at[best >= 0]
            best = best[best >= 0]
            size[known], other[known], cells[known] = contest.size[best], sums[best], contest.cells[best]
            squares[known] = (contest.of @ table.sums(np.square(table.values)))[best]
        return size, other, squares, cells

    def largest(self, inside: Booleans, sums: NDArray[np.float32]) -> Floats:
        """Return the largest absolute z of all rule sets against their best other group, by permutation."""
        top = np.zeros(sums.shape[1])
        for contest in self.contests:
            if len(contest.size) == 0:
                continue
            own = inside[contest.at].astype(np.float32) @ sums
            groups = contest.of.astype(np.float32) @ sums
            best = best_other_groups(contest, self.sign * (groups / contest.size[:, None]))
            k2 = np.take_along_axis(groups, np.maximum(best, 0), axis=0)
            z = pair_z(own, self.size[contest.at][:, None], k2, contest.size[np.maximum(best, 0)], self.spread)
            top = np.maximum(top, np.where(best >= 0, np.abs(z), 0.0).max(axis=0, initial=0.0))
        return top

    def rules(self, family: RuleSetFamily, cells: Integers) -> Rules:
        """Return a group of single cells as rules."""
        return {
            cut.attribute: cut.rule(np.arange(len(cut.names)) == cell)
            for cut, cell in zip(family.cuts, cells, strict=True)
            if cell >= 0
        }


MOST_EXACT = 2000
"""Candidates with exact intervals that may be shown or explained, besides as many as are listed: the clearest ones."""


@dataclass(frozen=True)
class CandidateStatistics:
    """What is known of each rule set: the candidates first, then those that were asked about.

    Attributes:
        groups: sizes and sums, and of those compared with.
        z: standardised gaps.
        p: adjusted.
        low, high, plain_low, plain_high: adjusted and plain intervals.
        found: which are significant.
        known: which can be compared with anybody.
        closely: positions of those whose intervals are exact: all, or the clearest and those asked about where there
            are very many.
        versus: cells of the best treated other group, shape (rule sets, attributes); None against the rest.
        critical: standard deviations of the adjusted intervals.
        stopped: why fewer permutations were done than wanted; None if all were.
        permutations: how many were done.
    """

    groups: StratifiedGroups
    z: Floats
    p: Floats
    low: Floats
    high: Floats
    plain_low: Floats
    plain_high: Floats
    found: Booleans
    known: Booleans
    exact_rows: Integers
    versus: Integers | None
    critical: float
    stopped: str | None
    permutations: int

    @cached_property
    def rates(self) -> tuple[Floats, Floats]:
        """Of each rule set, and of those it is compared with."""
        return self.groups.rates

    @cached_property
    def gap(self) -> Floats:
        """Of each rule set."""
        return np.asarray(self.rates[0] - self.rates[1])


@dataclass(frozen=True)
class CandidateFamily:
    """Rule sets that are tested together.

    Attributes:
        candidates: of the family.
        asked: for each rule set asked about, which occupied cells it holds, shape (asked, cells).
    """

    family: RuleSetFamily
    table: CellTable
    candidates: CandidateRuleSets
    asked: Booleans

    def inside(self, where: slice) -> Booleans:
        """Return which occupied cells some of the rule sets hold, shape (rule sets, cells)."""
        number = len(self.candidates)
        own = cells_of_rule_sets(self.family, self.table.cells, self.candidates.chosen[where])
        others = self.asked[max(where.start - number, 0) : max(where.stop - number, 0)]
        return np.concatenate([own, others])

    @cached_property
    def moments(self) -> Floats:
        """Sums of ``CellTable.moments`` over each rule set, shape (7, rule sets, strata)."""
        table, rows = self.table, np.ravel_multi_index(tuple(self.candidates.chosen.T), self.family.shape)
        sums = [
            (stratum_sums(self.family, table, one)[rows], self.asked @ table.spread_over_strata(table.sums(one)).T)
            for one in table.moments
        ]
        return np.array([np.concatenate(pair) for pair in sums])

    def largest_weighted_gap(self, scales: Floats) -> LargestGap:
        """Return the largest standardised gap of weighted sums (cells, draws); see ``standardise_weighted``."""
        table = self.table
        rows = np.ravel_multi_index(tuple(self.candidates.chosen.T), self.family.shape)
        at_once = max(1, MOST_ENTRIES // self.family.cube)

        def largest(sums: NDArray[np.float32]) -> Floats:
            top = np.zeros(sums.shape[1])
            for first in range(0, sums.shape[1], at_once):
                columns = slice(first, first + at_once)
                z = np.zeros((sums[:, columns].shape[1], len(self)))
                for stratum in range(table.strata):
                    here = np.where((table.cells.codes[:, -1] == stratum)[:, None], sums[:, columns], 0.0)
                    cube = sum_rule_sets(self.family, table.cells, here).reshape(len(z), -1)
                    z += np.concatenate([cube[:, rows], (self.asked @ here).T], axis=1) * scales[:, stratum]
                top[columns] = np.abs(z).max(axis=1, initial=0.0)
            return top

        return largest

    def groups(self) -> StratifiedGroups:
        """Return all of them, compared with everybody else."""
        table, own = self.table, self.candidates
        if table.weights is not None:
            return compare_weighted(table, self.moments, table.total_moments[:, None])
        sums = []
        for counted, weights in (
            (own.size, None),
            (own.total, table.values),
            (own.squares, np.square(table.values)),
        ):
            sums.append(np.concatenate([counted, self.asked @ table.spread_over_strata(table.sums(weights)).T]))
        return compare_with_rest(table, *sums)

    def __len__(self) -> int:
        return len(self.candidates) + len(self.asked)


def assess_candidates(
    lot: CandidateFamily,
    config: SubgroupConfig,
    rng: np.random.Generator,
    *,
    better: int = 1,
    drawn: PermutationNull | None = None,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> CandidateStatistics:
    """Say which rule sets are significant.

    Args:
        lot: the rule sets.
        config: measure, control, confidence, margin.
        rng: for the permutations.
        better: 1 if a higher value is better for people, else -1.
        drawn: maxima over a larger family that the candidates were chosen from, in place of permutations of their own.
        limit: when time is up.
        progress: called with the share done.
    """
    table, groups = lot.table, lot.groups()
    known, cells = np.ones(len(lot), dtype=bool), None
    versus = _find_best_groups(lot, groups, config, better) if config.against == "best" else None
    if versus is not None:
        groups, known, cells = _compare_with_best(versus, table, groups)
        shape = correct_tails(groups, np.zeros(1))
        inside = lot.inside(slice(0, len(lot)))
        z = groups.z if table.counted else _mean_score_z(groups, versus)
        largest: LargestGap = partial(versus.largest, inside)
    elif table.weights is not None:
        scales, skewness = standardise_weighted(table, groups, lot.moments)
        shape = scale_tails(groups, skewness)
        z = shape.z(groups.total.sum(axis=-1))
        largest = lot.largest_weighted_gap(scales)
    else:
        shape = correct_tails(groups, table.skewness)
        z = shape.z(groups.total.sum(axis=-1))
        largest = largest_gap_to_rest(shape, lot.inside, len(table.cells.sizes))
    if config.control == "max-t" and drawn is None:
        drawn = sample_permutation_null(table, largest, config.permutations, rng, limit=limit, progress=progress)
    maxima = np.zeros(0) if drawn is None else drawn.values
    # Rule sets without anybody to be compared with are not tested, and so do not count among the tests.
    tests = adjust_tests(z[known], config.control, config.confidence, maxima)
    critical, p = tests.critical, np.ones(len(lot))
    p[known] = tests.p
    low, high = approximate_intervals(groups, critical)
    found = known & (p <= 1 - config.confidence + 1e-12)
    # Exact intervals cost too much for all of many thousands; the fast ones say which are worth it.
    closely = np.flatnonzero(_select_for_exact(lot, known, np.abs(z), MOST_EXACT + config.most))
    some, edges = groups.at(closely), shape.at(closely)
    low[closely], high[closely] = adjusted_intervals(some, edges, critical, table.skewness)
    plain_low, plain_high = np.full((2, len(lot)), np.nan)
    plain_low[closely], plain_high[closely] = single_intervals(some, config.confidence)
    found[closely] &= (low[closely] > 0) | (high[closely] < 0)
    found &= np.maximum(-low, high) >= config.margin
    return CandidateStatistics(
        groups=groups,
        z=z,
        p=p,
        low=low,
        high=high,
        plain_low=plain_low,
        plain_high=plain_high,
        found=found,
        known=known,
        exact_rows=closely,
        versus=cells,
        critical=critical,
        stopped=None if drawn is None else drawn.stopped,
        permutations=0 if drawn is None else len(drawn.values),
    )


def _select_for_exact(lot: CandidateFamily, known: Booleans, clear: Floats, most: int) -> Booleans:
    """Return which rule sets are worth an exact interval: those asked about, and the clearest of the others."""
    chosen = np.zeros(len(lot), dtype=bool)
    chosen[len(lot.candidates) :] = True
    order = np.argsort(np.where(known, -clear, np.inf), kind="stable")
    chosen[order[:most]] = True
    return chosen


def _find_best_groups(
    lot: CandidateFamily, groups: StratifiedGroups, config: SubgroupConfig, better: int
) -> BestOtherGroup:
    people, total, squares = (part[0] for part in groups.everybody)
    spread = None if groups.counted else (squares - total**2 / people) / max(people - 1, 1)
    number = len(lot.candidates)
    limits = minimum_sizes(config.support, config.min_size, lot.table.people)
    least = max(limits.share, limits.people)
    compared = build_comparisons(lot.family, lot.table, lot.candidates.chosen, least)
    for i in range(len(lot.asked)):
        compared += _query_comparison(lot, number + i, lot.asked[i], least)
    return BestOtherGroup(compared, groups.size[:, 0], better, spread)


def _query_comparison(lot: CandidateFamily, at: int, inside: Booleans, least: int) -> list[BestGroupComparison]:
    """A rule set that was asked about is compared with the single cells of all attributes in which it has no people."""
    everything = np.ones((1, len(lot.family.cuts)), dtype=np.int64)
    [contest] = build_comparisons(lot.family, lot.table, everything, least)
    holds = np.atleast_2d((contest.of & inside).any(axis=1))
    return [BestGroupComparison(np.array([at]), contest.cells, holds, contest.of, contest.size)]


def _compare_with_best(
    versus: BestOtherGroup, table: CellTable, groups: StratifiedGroups
) -> tuple[StratifiedGroups, Booleans, Integers]:
    """Return the groups compared with the best treated other one instead of with everybody else."""
    size, total, squares, cells = versus.chosen(table, groups.total[:, 0])
    everybody = (
        groups.size + size[:, None],
        groups.total + total[:, None],
        groups.squares + squares[:, None],
    )
    compared = StratifiedGroups(groups.size, groups.total, groups.squares, everybody, groups.counted, groups.width)
    return compared, size > 0, cells


def _mean_score_z(groups: StratifiedGroups, versus: BestOtherGroup) -> Floats:
    known = groups.rest[:, 0] > 0
    z = np.zeros(len(known))
    k1, n1, k2, n2 = (side[known, 0] for side in (groups.total, groups.size, groups.rest_totals, groups.rest))
    z[known] = pair_z(k1, n1, k2, n2, versus.spread)
    return z
