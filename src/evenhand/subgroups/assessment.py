"""Tested rule sets, and the gap, interval and adjusted p-value of each.

One rule set is tested per distinct group of people, if the group is large enough, and every requested rule set. Tests
are corrected by the largest gap of the family (max-t).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import normal_quantile
from evenhand.stats.permutation import adjusted_p, critical_value, normal_p_value
from evenhand.subgroups.config import FamilyTestSettings
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.gaps import (
    MOST_ENTRIES,
    StratifiedGroups,
    TailCorrection,
    adjusted_intervals,
    approximate_intervals,
    compare_groups,
    correct_tails,
    scale_tails,
    single_intervals,
    standardise_weighted,
    uncorrected_intervals,
)
from evenhand.subgroups.result import Finding
from evenhand.subgroups.rules import MOST_NAMED, Rules
from evenhand.subgroups.tabulate import CellTable, ConjunctionSums, find_occupied_cells

COMPILED = 1 << 16
"""Size of a family above which compiled loops are worth importing their compiler."""

CellSums: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Function from sums by cell (cells, draws) to sums over rule sets (draws, rule sets)."""

LargestGap: TypeAlias = Callable[[NDArray[np.float32]], Floats]
"""Function from permuted sums by cell (cells, permutations) to the largest standardised gaps (permutations,)."""

MOST_EXACT = 2000
"""Maximum number of unlisted candidates with exact intervals."""

PERMUTATIONS_AT_ONCE = 100
"""Number of permutations between checks of the time limit."""


@dataclass(frozen=True)
class CandidateFamily:
    """Rule sets that are tested together: candidates of the family, then requested rule sets.

    Attributes:
        family: All rule sets.
        table: People by cell.
        chosen: Row of each attribute's rules, 0 for none, shape (candidates, attributes): the shortest description of
            each distinct group of people.
        copies: Number of rule sets with the same people, shape (candidates,).
        queries: For each requested rule set, which occupied cells it contains, shape (queries, cells).
        moments: Sums of ``table.moments`` over each rule set, shape (moments, candidates + queries, strata).
    """

    family: RuleSetFamily
    table: CellTable
    chosen: Integers
    copies: Integers
    queries: Booleans
    moments: Floats

    @classmethod
    def of_groups(cls, table: CellTable, groups: Booleans) -> CandidateFamily:
        """Build the family of requested groups of occupied cells (groups, cells)."""
        chosen, copies = np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
        return cls(RuleSetFamily((), (), 0), table, chosen, copies, groups, groups @ table.stratum_moments)

    def largest_gap(self, tails: TailCorrection, scales: Floats | None = None) -> LargestGap:
        """Build the function from sums by cell (cells, draws) to the largest standardised gap of each draw.

        Args:
            tails: Tail correction of the rule sets' totals.
            scales: For weighted sums, their factors in each stratum; see ``standardise_weighted``.
        """
        expected, above, below = (factor.astype(np.float32) for factor in (tails.expected, tails.above, -tails.below))
        if scales is None and self.family.size > COMPILED:
            return self._compiled_gap(np.array([expected, above, below]))
        parts: list[tuple[Integers, int, CellSums]] = []
        for rows, axes in self._patterns():
            conjunctions = ConjunctionSums(self.family, axes, self.table.cells)
            columns = np.ravel_multi_index(tuple(self.chosen[rows][:, axes].T - 1), conjunctions.shape)
            parts.append((rows, conjunctions.size, partial(conjunctions, columns=columns)))
        queries, stratum = self.queries.astype(np.float32), self.table.cells.codes[:, -1]
        parts.append((np.arange(len(self.chosen), len(expected)), len(queries), lambda sums: (queries @ sums).T))
        strata = [(stratum == s)[:, None] for s in range(self.table.strata)]

        def largest(sums: NDArray[np.float32]) -> Floats:
            top = np.zeros(sums.shape[1])
            for rows, number, add_up in parts:
                step = max(1, MOST_ENTRIES // max(number, 1))
                for start in range(0, len(top), step):
                    draws = sums[:, start : start + step]
                    z: NDArray[Any]
                    if scales is None:
                        excess = add_up(draws) - expected[rows]
                        z = excess * above[rows]
                        excess *= below[rows]
                        np.maximum(z, excess, out=z)
                    else:
                        by_stratum = (add_up(np.where(cells, draws, 0.0)) for cells in strata)
                        z = np.abs(sum(part * scales[rows, s] for s, part in enumerate(by_stratum)))
                    top[start : start + step] = np.maximum(top[start : start + step], z.max(axis=1, initial=0.0))
            return top

        return largest

    def _compiled_gap(self, factors: NDArray[np.float32]) -> LargestGap:
        """Build the same function with a compiled loop over the rule sets. Weighted sums are not supported.

        Args:
            factors: Expected total of each rule set, and its scale above and below it, shape (3, rule sets).
        """
        from evenhand.subgroups.maxima import raise_maxima  # imports numba

        parts = []
        for rows, axes in self._patterns():
            # The loop adds up the cells of the last attribute, the one with the most rules.
            axes.sort(key=lambda axis: len(self.family.rules[axis]))
            conjunctions, last = ConjunctionSums(self.family, axes, self.table.cells), self.family.rules[axes[-1]][1:]
            columns = np.ravel_multi_index(tuple(self.chosen[rows][:, axes].T - 1), conjunctions.shape)
            order = np.argsort(columns)
            prefixes, rules = np.divmod(columns[order], len(last))
            ends = np.searchsorted(prefixes, np.arange(conjunctions.size // len(last)), side="right")
            parts.append((conjunctions.sum_by_last, ends, rules, last, factors[:, rows[order]]))
        queries, places = self.queries.astype(np.float32), np.arange(len(self.queries))
        requested = places[-1:] + 1, places, np.eye(len(places), dtype=bool), factors[:, len(self.chosen) :]

        def largest(sums: NDArray[np.float32]) -> Floats:
            maxima = np.zeros(sums.shape[1], dtype=np.float32)
            for sum_by_last, *part in parts:
                raise_maxima(sum_by_last(sums), *part, maxima)
            raise_maxima((queries @ sums)[None, :, :], *requested, maxima)
            return maxima.astype(np.float64)

        return largest

    def _patterns(self) -> Iterator[tuple[Integers, list[int]]]:
        """Yield the candidates over the same attributes, and these attributes."""
        patterns = find_occupied_cells((self.chosen > 0).astype(np.int64))
        for i, restricted in enumerate(patterns.codes):
            yield np.flatnonzero(patterns.of == i), np.flatnonzero(restricted).tolist()


def description_length(family: RuleSetFamily, chosen: Integers) -> Floats:
    """Compute the length of descriptions: the number of rules, then of values and ends, shape (rule sets,)."""
    cost = np.zeros(len(chosen))
    for axis, (cut, rules) in enumerate(zip(family.cuts, family.rules, strict=True)):
        within = rules.sum(axis=1)
        listed = np.where(within > MOST_NAMED, np.minimum(within, rules.shape[1] - within + 0.5), within)
        if not cut.ordered:
            own = listed
        elif cut.edges is None:
            own = np.minimum(within, 2.0)
        else:
            own = np.where(within == 1, 1.0, 2.0 - 0.5 * rules[:, 0] - 0.5 * rules[:, len(cut.edges) - 2])
        own = np.where(rules[:, -1], listed, own) if cut.missing else own
        own[0] = 0.0  # no rule
        cost += own[chosen[:, axis]]
    longest = 1.0 + sum(len(cut.names) for cut in family.cuts)
    return np.asarray((chosen > 0).sum(axis=1) * longest + cost)


def count_family(
    family: RuleSetFamily, table: CellTable, min_size: float, queries: Booleans | None = None
) -> CandidateFamily:
    """Count the people of every rule set, and keep one rule set per group with enough people.

    Args:
        family: Rule sets.
        table: People by cell.
        min_size: Minimum number of people inside and outside.
        queries: For each requested rule set, which occupied cells it contains. If None, none is requested.
    """
    cells, attributes = len(table.cells.sizes), len(family.cuts)
    queries = np.zeros((0, cells), dtype=bool) if queries is None else queries
    by_cell = table.stratum_moments.transpose(1, 0, 2).reshape(cells, -1)
    # Each occupied cell gets 64 random bits. Two rule sets with different people have the same sum of them, modulo
    # 2^64, with probability 2^-64.
    keys = np.random.default_rng(0).integers(0, 2**64, size=(cells, 1), dtype=np.uint64)
    chosen = [np.zeros((0, attributes), dtype=np.int64)]
    moments, prints = [np.zeros((len(table.moments), 0, table.strata))], [np.zeros(0, dtype=np.uint64)]
    for axes in family.combinations():
        add_up = ConjunctionSums(family, axes, table.cells)
        sums = add_up(by_cell).reshape(len(table.moments), table.strata, -1).swapaxes(1, 2)
        accepted = np.flatnonzero(np.minimum(*table.measure_sides(sums)) >= min_size)
        rows = np.zeros((len(accepted), attributes), dtype=np.int64)
        rows[:, axes] = np.stack(np.unravel_index(accepted, add_up.shape), axis=1) + 1
        chosen.append(rows)
        moments.append(sums[:, accepted])
        prints.append(add_up(keys)[0, accepted])
    rule_sets = np.concatenate(chosen)
    # Sorted by length: the first rule set of each group of people is its shortest description.
    order = np.lexsort((*rule_sets.T[::-1], description_length(family, rule_sets)))
    _, representatives, copies = np.unique(np.concatenate(prints)[order], return_index=True, return_counts=True)
    by_length = np.argsort(representatives)
    selection = order[representatives[by_length]]
    sums = np.concatenate([np.concatenate(moments, axis=1)[:, selection], queries @ table.stratum_moments], axis=1)
    return CandidateFamily(family, table, rule_sets[selection], copies[by_length], queries, sums)


@dataclass(frozen=True, eq=False)
class MaxTCorrection:
    """Correction of a family of tests by the distribution of its largest |z| under the null hypothesis.

    The probability that the family has any false finding is at most ``1 - confidence``. Without permutations, or with
    too few, Bonferroni's bound applies.

    Attributes:
        tests: Number of tests.
        maxima: Largest |z| of the family in each permutation. Fewer than requested if stopped early.
        confidence: Probability of no false finding.
        stopped: Reason for stopping early: ``time`` or ``user``.
    """

    tests: float
    maxima: Floats
    confidence: float
    stopped: str | None = None

    @cached_property
    def critical(self) -> float:
        """Half width of adjusted intervals in standard errors."""
        critical = critical_value(self.maxima, self.confidence)  # infinite if there are too few
        if not np.isfinite(critical):
            critical = normal_quantile(self.confidence, max(self.tests, 1))
        # No adjusted interval is narrower than the unadjusted one, even if few permutations are distinct.
        return max(critical, normal_quantile(self.confidence))

    def p(self, z: Floats) -> Floats:
        """Compute the adjusted p-values of tests with these standardised gaps."""
        if np.isfinite(critical_value(self.maxima, self.confidence)):
            return adjusted_p(z, self.maxima)
        return np.minimum(normal_p_value(z) * max(self.tests, 1), 1.0)

    def conservative_p(self, z: Floats) -> Floats:
        """Compute adjusted p-values that are at least the unadjusted ones, even if few permutations are distinct."""
        return np.asarray(np.maximum(self.p(z), normal_p_value(z)))


def permute_outcomes(
    table: CellTable,
    largest: LargestGap,
    tests: float,
    config: FamilyTestSettings,
    rng: np.random.Generator,
    *,
    at_once: int = PERMUTATIONS_AT_ONCE,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> MaxTCorrection:
    """Permute the outcomes until the time limit. An interrupt keeps the completed permutations.

    Args:
        table: People.
        largest: Function that computes the largest gaps.
        tests: Number of tests.
        config: Number of permutations, and confidence level.
        rng: Random generator.
        at_once: Number of permutations between checks of the time limit.
        limit: Time limit. At least ``at_once`` permutations are completed.
        progress: Called with the share of completed permutations.
    """
    maxima = [np.zeros(0)]
    completed, stopped = 0, None
    try:
        while completed < config.permutations:
            if completed > 0 and limit.passed():
                stopped = "time"
                break
            number = min(at_once, config.permutations - completed)
            maxima.append(largest(table.permute_sums(number, rng).T.astype(np.float32)))
            completed += number
            if progress is not None:
                progress(completed / config.permutations)
    except KeyboardInterrupt:
        stopped = "user"
    return MaxTCorrection(tests, np.concatenate(maxima), config.confidence, stopped)


@dataclass(frozen=True)
class CandidateStatistics:
    """Statistics of rule sets, shape (rule sets,) each.

    Attributes:
        groups: Sizes and sums of the rule sets and of the groups they are compared with.
        z, p: Standardised gaps and adjusted p-values.
        scores: Scores that the rule sets are ranked by, by default ``|z|``.
        low, high: Adjusted intervals.
        plain_low, plain_high: Unadjusted intervals.
        found: Whether each gap is significant.
        exact_rows: Positions of rule sets with exact intervals: all, or if there are very many, the clearest and the
            requested ones.
        correction: Correction for multiple testing.
    """

    groups: StratifiedGroups
    z: Floats
    p: Floats
    scores: Floats
    low: Floats
    high: Floats
    plain_low: Floats
    plain_high: Floats
    found: Booleans
    exact_rows: Integers
    correction: MaxTCorrection


def assess_candidates(
    family: CandidateFamily,
    config: FamilyTestSettings,
    rng: np.random.Generator,
    *,
    margin: float = 0.0,
    correction: MaxTCorrection | None = None,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> CandidateStatistics:
    """Test a family of rule sets.

    Args:
        family: Rule sets.
        config: Confidence level, and number of permutations and of findings.
        rng: Random generator for the permutations.
        margin: Gaps that are certainly smaller are not significant.
        correction: Correction of a larger family that the candidates were selected from. By default, outcomes are
            permuted.
        limit: Time limit of the permutations.
        progress: Called with the share of completed permutations.
    """
    table = family.table
    groups = compare_groups(table, family.moments, table.total_moments[:, None])
    if table.weights is not None:
        scales, skewness = standardise_weighted(table, groups, family.moments)
        tails = scale_tails(groups, skewness)
    else:
        scales, tails = None, correct_tails(groups, table.skewness)
    if correction is None:
        largest = family.largest_gap(tails, scales)
        correction = permute_outcomes(table, largest, len(groups.gap), config, rng, limit=limit, progress=progress)
    z = tails.z(groups.total.sum(axis=-1))
    exact = np.zeros(len(z), dtype=bool)
    exact[len(family.chosen) :] = True
    exact[np.argsort(-np.abs(z), kind="stable")[: MOST_EXACT + config.most]] = True
    return summarise_tests(
        groups,
        tails,
        correction,
        z,
        correction.p(z),
        margin=margin,
        skewness=table.skewness,
        exact_rows=np.flatnonzero(exact),
    )


def summarise_tests(
    groups: StratifiedGroups,
    tails: TailCorrection | None,
    correction: MaxTCorrection,
    z: Floats,
    p: Floats,
    *,
    margin: float,
    skewness: Floats | None = None,
    exact_rows: Integers | None = None,
) -> CandidateStatistics:
    """Compute the interval and the significance of each gap.

    Args:
        groups: Groups and those they are compared with.
        tails: Distribution of the groups' totals under permutation. If None, tails are not corrected for skewness.
        correction: Correction for multiple testing.
        z, p: Standardised gap and adjusted p-value of each group.
        margin: Gaps that are certainly smaller are not significant.
        skewness: Skewness of all values in each stratum.
        exact_rows: Positions of groups with exact intervals, which are slow to compute. None selects all.
    """
    rows = np.arange(len(z)) if exact_rows is None else exact_rows
    low, high = approximate_intervals(groups, correction.critical)
    plain_low, plain_high = np.full((2, len(z)), np.nan)
    exact = groups.at(rows)
    if tails is None or skewness is None:
        low[rows], high[rows] = uncorrected_intervals(exact, correction.critical)
        plain_low[rows], plain_high[rows] = uncorrected_intervals(exact, float(normal_quantile(correction.confidence)))
    else:
        scales = tails.scale_above[rows], tails.scale_below[rows]
        low[rows], high[rows] = adjusted_intervals(exact, scales, correction.critical, skewness)
        plain_low[rows], plain_high[rows] = single_intervals(exact, correction.confidence)
    significant = p <= 1 - correction.confidence + 1e-12
    significant[rows] &= (low[rows] > 0) | (high[rows] < 0)
    significant &= np.maximum(-low, high) >= margin
    return CandidateStatistics(
        groups=groups,
        z=z,
        p=p,
        scores=np.abs(z),
        low=low,
        high=high,
        plain_low=plain_low,
        plain_high=plain_high,
        found=significant,
        exact_rows=rows,
        correction=correction,
    )


def describe_finding(
    statistics: CandidateStatistics,
    i: int,
    rules: Rules,
    words: str,
    unit: tuple[float, float] = (0.0, 1.0),
    **fields: int | None,
) -> Finding:
    """Convert the statistics of one rule set to a finding.

    Args:
        statistics: Statistics of the rule sets.
        i: Position of the rule set.
        rules, words: Its rules, and their description.
        unit: Center and spread of the values: a value v represents the outcome ``center + spread v``.
        fields: Other fields of the finding.
    """
    groups, (center, spread) = statistics.groups.at(np.array([i])), unit
    sides = (groups.size, groups.total, groups.people, groups.rest, groups.rest_total, groups.rest_people)
    n, total, people, rest_n, rest_total, rest_people = (float(side[0][groups.two_sided[0]].sum()) for side in sides)
    counts = groups.counted and not groups.weighted
    ends = {name: spread * getattr(statistics, name)[i] for name in ("low", "high", "plain_low", "plain_high")}
    return Finding(
        rules=rules,
        words=words,
        size=round(people),
        rest=round(rest_people),
        effective_size=n if groups.weighted else None,
        effective_rest=rest_n if groups.weighted else None,
        positives=round(total) if counts else None,
        rest_positives=round(rest_total) if counts else None,
        rate=center + spread * groups.rate[0],
        rest_rate=center + spread * groups.rest_rate[0],
        gap=spread * groups.gap[0],
        z=statistics.z[i],
        adjusted_p=statistics.p[i],
        found=bool(statistics.found[i]),
        **ends,
        **fields,
    )
