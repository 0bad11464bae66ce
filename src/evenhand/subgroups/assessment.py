"""Gap, interval and adjusted p-value of every tested rule set, corrected by the largest gap of the family (max-t)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import normal_quantile
from evenhand.stats.permutation import adjusted_p, critical_value, normal_p_value
from evenhand.subgroups.candidates import CandidateFamily, LargestGap
from evenhand.subgroups.config import FamilyTestSettings
from evenhand.subgroups.gaps import (
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
from evenhand.subgroups.rules import Rules
from evenhand.subgroups.tabulate import CellTable

MOST_EXACT = 2000
"""Maximum number of unlisted candidates with exact intervals."""

PERMUTATIONS_AT_ONCE = 100
"""Number of permutations between checks of the time limit."""


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
