"""Exact method: count all people, test every rule set, and account for chance by permutations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.schema.people import People, PeopleWeights
from evenhand.stats.proportion import count_needed, kish_size
from evenhand.subgroups.assessment import (
    CandidateFamily,
    CandidateStatistics,
    MaxTCorrection,
    assess_candidates,
    count_family,
    describe_finding,
)
from evenhand.subgroups.config import NumberSubgroupConfig, SubgroupConfig
from evenhand.subgroups.family import (
    RuleSetFamily,
    build_family,
    cut_attributes,
    cut_entries,
    describe_large_cells,
    select_known,
)
from evenhand.subgroups.findings import QueriedRuleSet, list_findings, parse_rule_sets
from evenhand.subgroups.result import MeasuredNumber, RefusedRuleSet, SubgroupResult
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets, tabulate_people

MAX_TESTED = 1 << 19
"""Maximum number of rule sets that are all tested. Larger families are scanned."""

MAX_WEIGHTED = 1 << 20
"""Maximum number of rule sets with weights, which the scan does not support."""

DEFAULT_MARGIN = 0.05
"""Default margin, in units of the spread of the outcome."""

STOPPED = {"time": "The time limit was reached", "user": "It was stopped"}


@dataclass(frozen=True)
class MeasuredOutcomes:
    """Outcomes of the people that a measure covers.

    Attributes:
        concerned: Rows of these people: all, or those whose true label is (un)favourable.
        values: 0 or 1, score, or standardised number of each of these people.
        counted: Whether the values are 0 and 1.
        better: 1 if a higher value is better for people, else -1.
        unit: Center and spread of the values: a value v represents the outcome ``center + spread v``.
        number: Number that the model decides. None for labels.
    """

    concerned: Integers
    values: Floats
    counted: bool
    better: int = 1
    unit: tuple[float, float] = (0.0, 1.0)
    number: MeasuredNumber | None = None


def search_exactly(
    people: People,
    measure: Callable[[People, Integers], MeasuredOutcomes],
    config: SubgroupConfig | NumberSubgroupConfig,
    *,
    names: Sequence[str] | None = None,
    weights: PeopleWeights | None = None,
    progress: Progress | None = None,
    limit: TimeLimit | None = None,
) -> SubgroupResult:
    """Search for subgroups whose outcomes differ, among the people whose attributes are all known.

    Args:
        people: All people.
        measure: Function that computes the outcomes of these people, from them and their rows. Called once, after the
            settings have been validated.
        config: Settings.
        names: Sensitive attributes. By default, those of the settings, or else the protected ones.
        weights: Weight of each person. If None, all count equally.
        progress: Called with the current step and the completed share.
        limit: Time limit that has already started. By default, that of the settings starts now.

    Raises:
        EvenhandError: The options are invalid.
    """
    started, limit = time.perf_counter(), limit or TimeLimit(config.time_limit)
    if names is None:
        names = people.schema.protected if config.attributes is None else config.attributes
    known, everybody = select_known(people, names), people.size
    people, weights = people.at(known), weights and weights.at(known)
    cuts, codes = cut_attributes(people, names, config.bins)
    stratum = None if config.per is None else _control_strata(people, names, config.per, config.bins)
    queries = parse_rule_sets(people, config.judged) if config.judged else ()
    family = build_family(cuts, config.depth)
    if family.size > MAX_WEIGHTED and weights is not None:
        raise OptionError(
            f"weights support at most {MAX_WEIGHTED:,} rule sets, got {family.size:,}",
            hint="use fewer attributes, fewer bins or a smaller depth, or leave the weights out",
        )
    outcome = measure(people, known)
    center, spread = outcome.unit
    margin = DEFAULT_MARGIN if config.margin is None else config.margin / spread
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
    sample_size = (
        table.people if table.weights is None else float(kish_size(table.weights.sum(), (table.weights**2).sum()))
    )
    min_size = max(count_needed(config.support, sample_size), config.min_size)
    refused = _refuse_queries(table, queries, config.min_size) if queries else {}
    accepted = table.queries[[i for i in range(len(queries)) if i not in refused]]
    tested, statistics, requested, starts = _examine(
        family, table, accepted, min_size, config, margin, progress or ignore_progress, limit
    )
    findings = list_findings(
        table,
        statistics,
        (tested.chosen > 0).sum(axis=1),
        tested.copies,
        inside_of=lambda rows: cells_of_rule_sets(tested.family, table.cells, tested.chosen[rows]),
        describe=lambda i: tested.family.describe(tested.chosen[i]),
        max_findings=config.most,
        margin=margin,
        better=outcome.better,
        unit=outcome.unit,
    )
    places = iter(range(-len(accepted), 0))
    judged = [
        refused.get(i) or describe_finding(requested, next(places), query.rules, query.words, outcome.unit)
        for i, query in enumerate(queries)
    ]
    number = outcome.number
    return SubgroupResult(
        method="exact",
        measure=config.measure if number is None or number.above is None else "above",
        number=number,
        control="max-t",
        confidence=config.confidence,
        critical=statistics.correction.critical,
        margin=spread * margin,
        support=config.support,
        min_size=config.min_size,
        people=table.people,
        unknown=everybody - people.size,
        rate=center + spread * table.mean if table.people else 0.0,
        weights=None if weights is None else weights.name,
        rule_sets=family.size,
        tested=len(tested.chosen),
        found=int(statistics.found[: len(tested.chosen)].sum()),
        starts=starts,
        attributes=tuple(cut.cells for cut in cuts),
        findings=findings,
        judged=tuple(judged),
        per=config.per,
        interrupted=statistics.correction.stopped is not None,
        notes=(
            *describe_large_cells(cuts, codes, people.counts),
            *_result_notes(tested, statistics.correction, starts, family, config),
        ),
        table_reading=people.reading,
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _examine(
    family: RuleSetFamily,
    table: CellTable,
    queries: Booleans,
    min_size: int,
    config: SubgroupConfig | NumberSubgroupConfig,
    margin: float,
    progress: Progress,
    limit: TimeLimit,
) -> tuple[CandidateFamily, CandidateStatistics, CandidateStatistics, int | None]:
    """Test every rule set of the family, or scan it, and the requested ones (queries, occupied cells).

    Returns:
        The tested rule sets; their statistics; statistics whose last rows are the requested rule sets, if any; and the
        number of starts of a scan, or None if every rule set was tested.
    """
    rng = np.random.default_rng(config.seed)
    permuting = partial(progress, "permuting")
    if family.size <= MAX_TESTED or table.weights is not None:
        progress("counting", 0.0)
        tested = count_family(family, table, min_size, queries)
        statistics = assess_candidates(tested, config, rng, margin=margin, limit=limit, progress=permuting)
        return tested, statistics, statistics, None
    from evenhand.subgroups.scan import SubsetScan, scan_family  # imports numba

    progress("preparing (compiling once on this machine takes a few seconds)", 0.0)
    scan = SubsetScan(family, table, min_size, rng)
    tested, scores, correction = scan_family(scan, config, rng, limit=limit, progress=permuting)
    statistics = requested = replace(
        assess_candidates(tested, config, rng, margin=margin, correction=correction), scores=scores
    )
    if len(queries):
        # A climb may miss a larger gap than the one it ends at, so requested rule sets are tested as a separate family.
        requested = assess_candidates(CandidateFamily.of_groups(table, queries), config, rng, margin=margin)
    return tested, statistics, requested, scan.starts


def _control_strata(people: People, names: Sequence[str], control: str, bins: int) -> Integers:
    """Compute the stratum of each person by the control variable."""
    if control in names:
        raise OptionError(
            f"{control!r} cannot be both a sensitive attribute and the control variable",
            hint="name another control variable, or leave it out of the attributes",
        )
    entries = people.individuals[:, people.schema.position(control)]
    _, codes = cut_entries(people.schema[control], entries, bins, counts=people.counts)
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _refuse_queries(table: CellTable, queries: Sequence[QueriedRuleSet], min_size: int) -> dict[int, RefusedRuleSet]:
    """Find the requested rule sets that are too small, by position."""
    weighted, refused = table.weights is not None, {}
    moments = table.queries @ table.stratum_moments
    inside, (sizes, rests) = moments[0].sum(axis=1), table.measure_sides(moments)
    for i, query in enumerate(queries):
        sides = ((sizes[i], "in the subgroup"), (rests[i], "in the rest"))
        for count, side in [(count, side) for count, side in sides if count < min_size][:1]:
            number = f"{count:.1f} effective" if weighted else f"{count:,.0f}"
            reason = f"only {number} {'person' if count == 1 else 'people'} {side}, fewer than {min_size}"
            size, outside = (inside[i], table.people - inside[i]) if weighted else (sizes[i], rests[i])
            refused[i] = RefusedRuleSet(
                rules=query.rules, words=query.words, size=int(size), rest=int(outside), reason=reason
            )
    return refused


def _result_notes(
    tested: CandidateFamily,
    correction: MaxTCorrection,
    starts: int | None,
    family: RuleSetFamily,
    config: SubgroupConfig | NumberSubgroupConfig,
) -> list[str]:
    notes = []
    if correction.stopped is not None:
        notes.append(
            f"{STOPPED[correction.stopped]} after {len(correction.maxima):,} of {config.permutations:,} permutations; "
            "the results hold for those."
        )
    if starts is not None:
        notes.append(
            f"{family.size:,} rule sets are too many to test each. The search climbed from {starts} starts; a "
            "stronger group may exist."
        )
    if not len(tested.chosen):
        notes.append(
            f"No rule set contains {100 * config.support:.0f} % of the people and at least {config.min_size} people on "
            "both sides, so nothing was tested."
        )
    if config.per is not None:
        notes.append(f"Rates are averages over the values of {config.per}, and compare people who share it.")
    if any(cut.missing for cut in family.cuts):
        notes.append('Missing values are treated as a value, "missing".')
    return notes
