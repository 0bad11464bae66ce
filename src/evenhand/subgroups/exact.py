"""Exact method: count all people, test every rule set, and account for chance by permutations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.schema.people import People, PeopleWeights
from evenhand.subgroups.assessment import (
    CandidateStatistics,
    assess_candidates,
    describe_finding,
)
from evenhand.subgroups.candidates import CandidateFamily, count_family
from evenhand.subgroups.config import NumberSubgroupConfig, SubgroupConfig
from evenhand.subgroups.cuts import cut_attributes, cut_entries, describe_large_cells
from evenhand.subgroups.family import RuleSetFamily, build_family
from evenhand.subgroups.findings import GroupDescriptions, QueriedRuleSet, list_findings, parse_rule_sets
from evenhand.subgroups.measures import MeasuredOutcomes, MinimumSizes, minimum_sizes
from evenhand.subgroups.result import Finding, RefusedRuleSet, SubgroupResult
from evenhand.subgroups.rules import Rules, describe_rules
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets, tabulate_people

MAX_TESTED = 1 << 19
"""Maximum number of rule sets that are all tested. Larger families are scanned."""

MAX_WEIGHTED = 1 << 20
"""Maximum number of rule sets with weights, which the scan does not support."""

DEFAULT_MARGIN = 0.05
"""Default margin, in units of the ``spread`` of the outcome."""

STOPPED = {"time": "The time limit was reached", "user": "It was stopped"}


@dataclass(frozen=True)
class ExaminedFamily:
    """Result of testing a family.

    Attributes:
        tested, statistics: Rule sets and their statistics.
        requested: Statistics whose last rows are the requested rule sets, if any.
        scores: Score that the rule sets are ranked by.
        starts: Number of starts of a scan. None if every rule set was tested.
    """

    tested: CandidateFamily
    statistics: CandidateStatistics
    requested: CandidateStatistics
    scores: Floats
    starts: int | None = None


def search_exactly(
    people: People,
    measure: Callable[[], MeasuredOutcomes],
    config: SubgroupConfig | NumberSubgroupConfig,
    *,
    weights: PeopleWeights | None = None,
    progress: Progress | None = None,
    limit: TimeLimit = NEVER,
) -> SubgroupResult:
    """Search for subgroups whose outcomes differ.

    Args:
        people: All people.
        measure: Function that computes the outcomes. Called once, after the settings have been validated.
        config: Settings.
        weights: Weight of each person. If None, all count equally.
        progress: Called with the current step and the completed share.
        limit: Time limit.

    Raises:
        EvenhandError: The options are invalid.
    """
    started = time.perf_counter()
    names = people.schema.protected if config.attributes is None else config.attributes
    cuts, codes = cut_attributes(people, names, config.bins)
    stratum = _control_strata(people, names, config)
    queries = parse_rule_sets(people, config.judged)
    family = build_family(cuts, config.depth)
    if family.size > MAX_WEIGHTED and weights is not None:
        raise OptionError(
            f"weights support at most {MAX_WEIGHTED:,} rule sets, got {family.size:,}",
            hint="use fewer attributes, fewer bins or a smaller depth, or leave the weights out",
        )
    outcome = measure()
    margin = DEFAULT_MARGIN if config.margin is None else config.margin / outcome.spread
    rows = outcome.concerned
    table = tabulate_people(
        codes[rows],
        outcome.values,
        counted=outcome.counted,
        queries=np.array([query.inside[rows] for query in queries], dtype=bool).reshape(len(queries), len(rows)).T,
        stratum=None if stratum is None else stratum[rows],
        weights=None if weights is None else weights.values[rows],
        counts=None if people.counts is None else people.counts[rows],
    )
    floors = minimum_sizes(config.support, config.min_size, table.effective_people)
    refused = _refuse_queries(table, queries, floors)
    accepted = table.match_queries()[[i for i in range(len(queries)) if i not in refused]]
    examined = _examine(family, table, accepted, floors, config, margin, progress or ignore_progress, limit)
    tested, statistics = examined.tested, examined.statistics
    values = {cut.attribute: cut.names for cut in cuts}

    def describe(i: int) -> tuple[Rules, str]:
        rules = tested.family.describe(tested.chosen[i])
        return rules, describe_rules(rules, values)

    descriptions = GroupDescriptions(
        inside=lambda rows: cells_of_rule_sets(tested.family, table.cells, tested.chosen[rows]),
        lengths=(tested.chosen > 0).sum(axis=1),
        scores=examined.scores,
        copies=tested.copies,
        describe=describe,
    )
    findings = list_findings(
        table, descriptions, statistics, max_findings=config.most, margin=margin, better=outcome.better
    )
    places = iter(range(-len(accepted), 0))
    judged = [
        refused.get(i) or describe_finding(examined.requested, next(places), query.rules, query.words)
        for i, query in enumerate(queries)
    ]
    number = outcome.number
    return SubgroupResult(
        method="exact",
        measure=config.measure if number is None or number.above is None else "above",
        number=number,
        control="max-t",
        confidence=config.confidence,
        critical=statistics.critical,
        margin=outcome.spread * margin,
        support=config.support,
        min_size=config.min_size,
        people=table.people,
        rate=outcome.center + outcome.spread * table.mean if table.people else 0.0,
        weights=None if weights is None else weights.name,
        rule_sets=family.size,
        tested=len(tested.chosen),
        found=int(statistics.found[: len(tested.chosen)].sum()),
        starts=examined.starts,
        attributes=tuple(cut.cells for cut in cuts),
        findings=tuple(_restore_unit(finding, outcome) for finding in findings),
        judged=tuple(_restore_unit(row, outcome) if isinstance(row, Finding) else row for row in judged),
        per=config.per,
        interrupted=statistics.stopped is not None,
        notes=(
            *describe_large_cells(cuts, codes, people.counts),
            *_result_notes(examined, family, config),
        ),
        table_reading=people.reading,
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _restore_unit(finding: Finding, outcome: MeasuredOutcomes) -> Finding:
    """Convert a finding about standardised values to the unit of the outcome."""
    if (outcome.center, outcome.spread) == (0.0, 1.0):
        return finding
    means = {name: outcome.center + outcome.spread * getattr(finding, name) for name in ("rate", "rest_rate")}
    gaps = ("gap", "low", "high", "plain_low", "plain_high")
    return finding.model_copy(update=means | {name: outcome.spread * getattr(finding, name) for name in gaps})


def _examine(
    family: RuleSetFamily,
    table: CellTable,
    queries: Booleans,
    floors: MinimumSizes,
    config: SubgroupConfig | NumberSubgroupConfig,
    margin: float,
    progress: Progress,
    limit: TimeLimit,
) -> ExaminedFamily:
    """Test every rule set of the family, or scan it, and the requested ones (queries, occupied cells)."""
    rng = np.random.default_rng(config.seed)

    def permuting(share: float) -> None:
        progress("permuting", share)

    if family.size <= MAX_TESTED or table.weights is not None:
        progress("counting", 0.0)
        tested = count_family(family, table, floors, queries)
        statistics = assess_candidates(tested, config, rng, margin=margin, limit=limit, progress=permuting)
        return ExaminedFamily(tested, statistics, statistics, np.abs(statistics.z))
    from evenhand.subgroups.scan import SubsetScan, scan_family  # imports numba

    progress("preparing (compiling once on this machine takes a few seconds)", 0.0)
    scan = SubsetScan(family, table, floors, rng)
    tested, scores, null = scan_family(scan, config, rng, limit=limit, progress=permuting)
    statistics = assess_candidates(tested, config, rng, margin=margin, null=null, tests=scan.tests)
    requested = statistics
    if len(queries):
        # A climb may miss a larger gap than the one it ends at, so requested rule sets are tested as a separate family.
        requested = assess_candidates(CandidateFamily.of_groups(table, queries), config, rng, margin=margin)
    return ExaminedFamily(tested, statistics, requested, scores, scan.starts)


def _control_strata(
    people: People, names: Sequence[str], config: SubgroupConfig | NumberSubgroupConfig
) -> Integers | None:
    """Compute the stratum of each person by the control variable."""
    if config.per is None:
        return None
    if config.per in names:
        raise OptionError(
            f"{config.per!r} cannot be both a sensitive attribute and the control variable",
            hint="name another control variable, or leave it out of the attributes",
        )
    entries = people.individuals[:, people.schema.position(config.per)]
    _, codes = cut_entries(people.schema[config.per], entries, config.bins, counts=people.counts)
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _refuse_queries(
    table: CellTable, queries: Sequence[QueriedRuleSet], floors: MinimumSizes
) -> dict[int, RefusedRuleSet]:
    """Find the requested rule sets that are too small, by position."""
    weighted, refused = table.weights is not None, {}
    moments = table.sum_moments(table.match_queries())
    inside, (sizes, rests) = moments[0].sum(axis=1), table.measure_sides(moments)
    for i, query in enumerate(queries):
        reason = floors.reason(sizes[i], rests[i], effective=weighted)
        if reason is not None:
            size, outside = (inside[i], table.people - inside[i]) if weighted else (sizes[i], rests[i])
            refused[i] = RefusedRuleSet(
                rules=query.rules, words=query.words, size=int(size), rest=int(outside), reason=reason
            )
    return refused


def _result_notes(
    examined: ExaminedFamily, family: RuleSetFamily, config: SubgroupConfig | NumberSubgroupConfig
) -> list[str]:
    statistics, notes = examined.statistics, []
    if statistics.stopped is not None:
        notes.append(
            f"{STOPPED[statistics.stopped]} after {statistics.permutations:,} of {config.permutations:,} permutations; "
            "the results hold for those."
        )
    if examined.starts is not None:
        notes.append(
            f"{family.size:,} rule sets are too many to test each. The search climbed from {examined.starts} starts; a "
            "stronger group may exist."
        )
    if not len(examined.tested.chosen):
        notes.append(
            f"No rule set contains {100 * config.support:.0f} % of the people and at least {config.min_size} people on "
            "both sides, so nothing was tested."
        )
    if config.per is not None:
        notes.append(f"Rates are averages over the values of {config.per}, and compare people who share it.")
    if any(cut.missing for cut in family.cuts):
        notes.append('Missing values are treated as a value, "missing".')
    return notes
