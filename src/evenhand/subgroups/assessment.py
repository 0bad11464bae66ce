"""Gap, interval and adjusted p-value of every tested rule set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import normal_quantile
from evenhand.subgroups.candidates import CandidateFamily
from evenhand.subgroups.config import FamilyTestSettings
from evenhand.subgroups.control import MaxTCorrection
from evenhand.subgroups.gaps import (
    PermutationNull,
    StratifiedGroups,
    TailCorrection,
    adjusted_intervals,
    approximate_intervals,
    correct_tails,
    sample_permutation_null,
    scale_tails,
    single_intervals,
    standardise_weighted,
    uncorrected_intervals,
)
from evenhand.subgroups.result import Finding
from evenhand.subgroups.rules import Rules

MOST_EXACT = 2000
"""Maximum number of unlisted candidates with exact intervals."""


@dataclass(frozen=True)
class CandidateStatistics:
    """Statistics of rule sets, shape (rule sets,) each.

    Attributes:
        groups: Sizes and sums of the rule sets and of the groups they are compared with.
        z, p: Standardised gaps and adjusted p-values.
        low, high: Adjusted intervals.
        plain_low, plain_high: Unadjusted intervals.
        found: Whether each gap is significant.
        exact_rows: Positions of rule sets with exact intervals: all, or if there are very many, the clearest and the
            requested ones.
        critical: Half width of the adjusted intervals in standard deviations.
        stopped: Reason for fewer permutations than requested. None if all were completed.
        permutations: Number of completed permutations.
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
    stopped: str | None = None
    permutations: int = 0

    @cached_property
    def rates(self) -> tuple[Floats, Floats]:
        """Rates of each rule set and of the group it is compared with."""
        return self.groups.rates

    @cached_property
    def gap(self) -> Floats:
        """Difference of the two rates."""
        return np.asarray(self.rates[0] - self.rates[1])


def assess_candidates(
    family: CandidateFamily,
    config: FamilyTestSettings,
    rng: np.random.Generator,
    *,
    margin: float = 0.0,
    null: PermutationNull | None = None,
    tests: float | None = None,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> CandidateStatistics:
    """Test a family of rule sets.

    Args:
        family: Rule sets.
        config: Confidence level, and number of permutations and of findings.
        rng: Random generator for the permutations.
        margin: Gaps that are certainly smaller are not significant.
        null: Permutation distribution of a larger family that the candidates were selected from. If None, outcomes are
            permuted.
        tests: Number of tests of that family.
        limit: Time limit of the permutations.
        progress: Called with the share of completed permutations.
    """
    table, groups = family.table, family.groups()
    if table.weights is not None:
        scales, skewness = standardise_weighted(table, groups, family.moments)
        tails = scale_tails(groups, skewness)
    else:
        scales, tails = None, correct_tails(groups, table.skewness)
    if null is None:
        largest = family.largest_gap(tails, scales)
        null = sample_permutation_null(table, largest, config.permutations, rng, limit=limit, progress=progress)
    correction = MaxTCorrection(len(family) if tests is None else tests, null.values, config.confidence)
    z = tails.z(groups.total.sum(axis=-1))
    exact = np.zeros(len(family), dtype=bool)
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
        stopped=null.stopped,
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
    stopped: str | None = None,
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
        stopped: Reason for fewer permutations than requested.
    """
    rows = np.arange(len(z)) if exact_rows is None else exact_rows
    low, high = approximate_intervals(groups, correction.critical)
    plain_low, plain_high = np.full((2, len(z)), np.nan)
    exact = groups.at(rows)
    if tails is None or skewness is None:
        low[rows], high[rows] = uncorrected_intervals(exact, correction.critical)
        plain_low[rows], plain_high[rows] = uncorrected_intervals(exact, float(normal_quantile(correction.confidence)))
    else:
        low[rows], high[rows] = adjusted_intervals(exact, tails.at(rows), correction.critical, skewness)
        plain_low[rows], plain_high[rows] = single_intervals(exact, correction.confidence)
    significant = p <= 1 - correction.confidence + 1e-12
    significant[rows] &= (low[rows] > 0) | (high[rows] < 0)
    significant &= np.maximum(-low, high) >= margin
    return CandidateStatistics(
        groups=groups,
        z=z,
        p=p,
        low=low,
        high=high,
        plain_low=plain_low,
        plain_high=plain_high,
        found=significant,
        exact_rows=rows,
        critical=correction.critical,
        stopped=stopped,
        permutations=len(correction.maxima),
    )


def describe_finding(statistics: CandidateStatistics, i: int, rules: Rules, words: str) -> Finding:
    """Convert the statistics of one rule set to a finding."""
    groups, (rates, rest_rates) = statistics.groups.at(np.array([i])), statistics.rates
    part, weighted = groups.two_sided[0], groups.people is not None
    size, rest_size = groups.count_people(0)
    n, total, rest_n, rest_total = (
        float(side[0][part].sum()) for side in (groups.size, groups.total, groups.rest, groups.rest_totals)
    )
    counts = groups.counted and not weighted
    return Finding(
        rules=rules,
        words=words,
        size=size,
        rest=rest_size,
        effective_size=n if weighted else None,
        effective_rest=rest_n if weighted else None,
        positives=round(total) if counts else None,
        rest_positives=round(rest_total) if counts else None,
        rate=rates[i],
        rest_rate=rest_rates[i],
        gap=statistics.gap[i],
        z=statistics.z[i],
        adjusted_p=statistics.p[i],
        found=bool(statistics.found[i]),
        **{name: getattr(statistics, name)[i] for name in ("low", "high", "plain_low", "plain_high")},
    )
