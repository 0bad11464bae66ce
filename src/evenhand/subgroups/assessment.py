"""Gap to everybody else, interval and adjusted p-value of every candidate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
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
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets, sum_rule_sets

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
        closely: positions of those whose intervals are exact: all, or the clearest and those asked about where there
            are very many.
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
    exact_rows: Integers
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
    drawn: PermutationNull | None = None,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> CandidateStatistics:
    """Say which rule sets are significant.

    Args:
        lot: the rule sets.
        config: measure, control, confidence, margin.
        rng: for the permutations.
        drawn: maxima over a larger family that the candidates were chosen from, in place of permutations of their own.
        limit: when time is up.
        progress: called with the share done.
    """
    table, groups = lot.table, lot.groups()
    if table.weights is not None:
        scales, skewness = standardise_weighted(table, groups, lot.moments)
        shape = scale_tails(groups, skewness)
        z = shape.z(groups.total.sum(axis=-1))
        largest: LargestGap = lot.largest_weighted_gap(scales)
    else:
        shape = correct_tails(groups, table.skewness)
        z = shape.z(groups.total.sum(axis=-1))
        largest = largest_gap_to_rest(shape, lot.inside, len(table.cells.sizes))
    if config.control == "max-t" and drawn is None:
        drawn = sample_permutation_null(table, largest, config.permutations, rng, limit=limit, progress=progress)
    maxima = np.zeros(0) if drawn is None else drawn.values
    tests = adjust_tests(z, config.control, config.confidence, maxima)
    critical, p = tests.critical, tests.p
    low, high = approximate_intervals(groups, critical)
    found = p <= 1 - config.confidence + 1e-12
    # Exact intervals cost too much for all of many thousands; the fast ones say which are worth it.
    closely = np.flatnonzero(_select_for_exact(lot, np.abs(z), MOST_EXACT + config.most))
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
        exact_rows=closely,
        critical=critical,
        stopped=None if drawn is None else drawn.stopped,
        permutations=0 if drawn is None else len(drawn.values),
    )


def _select_for_exact(lot: CandidateFamily, clear: Floats, most: int) -> Booleans:
    """Return which rule sets are worth an exact interval: those asked about, and the clearest of the others."""
    chosen = np.zeros(len(lot), dtype=bool)
    chosen[len(lot.candidates) :] = True
    chosen[np.argsort(-clear, kind="stable")[:most]] = True
    return chosen
