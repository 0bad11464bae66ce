"""The default method: everybody counted, every rule set looked at, chance accounted for by permutations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Integers, Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.schema.people import People
from evenhand.schema.weights import PeopleWeights
from evenhand.subgroups.assessment import MOST_EXACT, CandidateFamily, CandidateStatistics, assess_candidates
from evenhand.subgroups.candidates import CountedFamily, count_family
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.cuts import cut_attributes, cut_entries, describe_large_cells
from evenhand.subgroups.deep.depth_first import (
    DepthFirstConfig,
    DepthFirstResult,
    compile_kernels,
    largest_permuted_gaps,
    list_candidates,
    permute_outcomes,
    search_depth_first,
)
from evenhand.subgroups.family import RuleSetFamily, build_family
from evenhand.subgroups.findings import QueriedRuleSet, judge_rule_sets, list_findings, parse_rule_sets
from evenhand.subgroups.gaps import PermutationNull
from evenhand.subgroups.measures import MeasuredOutcomes, MinimumSizes, minimum_sizes
from evenhand.subgroups.result import AttributeCells, Finding, RefusedRuleSet, SubgroupResult
from evenhand.subgroups.tabulate import CellTable, tabulate_people

LARGE = 1 << 16
"""Families whose cube has more counts than this go through the depth-first search, whose kernels then pay for their
compilation."""

MOST = 1 << 20
"""What it does not know is counted by the cube up to this many."""

STOPPED = {"time": "Time was up", "user": "It was stopped"}


@dataclass(frozen=True)
class ExaminedFamily:
    """What a look at some people gave.

    Attributes:
        lot, standing: the rule sets and what is known of them.
        tested, found: how many groups of people were tested, and are significant.
        counted: the family counted; None where it was too large for that.
        whole: whether all of the family was looked at.
        notes: what a reader must know of that.
    """

    lot: CandidateFamily
    standing: CandidateStatistics
    tested: int
    found: int
    counted: CountedFamily | None
    whole: bool = True
    notes: tuple[str, ...] = ()


def search_exactly(
    people: People,
    ask: Callable[[], MeasuredOutcomes],
    config: SubgroupConfig,
    *,
    margin: float | None = None,
    weights: PeopleWeights | None = None,
    progress: Progress | None = None,
    limit: TimeLimit = NEVER,
) -> SubgroupResult:
    """Search for subgroups whose outcomes differ.

    Args:
        people: everybody.
        ask: gives the outcomes; called once, after what makes no sense was refused.
        config: the settings; its margin is in spreads of the outcome.
        margin: in the outcome's own unit, in place of that.
        weights: how much each person counts; None where all count alike.
        progress: called with what is being done and the share done.
        limit: when time is up.

    Raises:
        EvenhandError: the options make no sense.
    """
    started = time.perf_counter()
    names = people.schema.protected if config.attributes is None else config.attributes
    cuts, codes = cut_attributes(people, names, config.bins)
    stratum = _control_strata(people, names, config)
    conditions = parse_rule_sets(people, config.judged)
    rules = build_family(cuts, config.depth)
    _check_config(rules, config, weights)
    outcome = ask()
    if margin is not None:
        config = config.model_copy(update={"margin": margin / outcome.spread})
    rows, rng = outcome.concerned, np.random.default_rng(config.seed)
    inside = np.array([one.inside[rows] for one in conditions], dtype=bool).reshape(len(conditions), len(rows)).T

    say = progress or ignore_progress
    look = _FamilyExamination(rules, config, rng, limit, say)
    notes = list(describe_large_cells(cuts, codes, people.counts))
    measured = tabulate_people(
        codes[rows],
        outcome.values,
        counted=outcome.counted,
        asked=inside,
        stratum=None if stratum is None else stratum[rows],
        weights=None if weights is None else weights.values[rows],
        counts=None if people.counts is None else people.counts[rows],
    )
    refused = _refuse_rule_sets(measured, conditions, look.floors(measured))
    looked = look.examine_all(measured, _accepted_cells(measured, refused))
    standing = looked.standing
    interrupted = standing.stopped is not None or not looked.whole
    notes += _result_notes(looked, rules, config)
    findings = list_findings(
        looked.lot, standing, most=config.most, margin=config.margin, better=outcome.better, counted=looked.counted
    )
    judged = judge_rule_sets(conditions, refused, looked.lot, standing)
    return SubgroupResult(
        method="exact",
        measure=config.measure,
        control=config.control,
        confidence=config.confidence,
        critical=standing.critical,
        margin=outcome.spread * config.margin,
        support=config.support,
        min_size=config.min_size,
        people=measured.people,
        rate=outcome.center + outcome.spread * _average(measured) if measured.people else 0.0,
        weights=None if weights is None else weights.name,
        rule_sets=rules.size,
        tested=looked.tested,
        found=looked.found,
        attributes=tuple(AttributeCells(name=one.attribute, cells=one.names, ordered=one.ordered) for one in cuts),
        findings=tuple(_restore_unit(finding, outcome) for finding in findings),
        judged=tuple(one if isinstance(one, RefusedRuleSet) else _restore_unit(one, outcome) for one in judged),
        per=config.per,
        interrupted=interrupted,
        notes=tuple(notes),
        table_reading=people.reading,
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _average(table: CellTable) -> float:
    _, weights, _, valued, *_ = table.total_moments.sum(axis=1)
    return float(valued / weights) if weights > 0 else 0.0


def _restore_unit(finding: Finding, outcome: MeasuredOutcomes) -> Finding:
    """Return a finding about standardised values in the outcome's own unit."""
    if (outcome.center, outcome.spread) == (0.0, 1.0):
        return finding
    means = {name: outcome.center + outcome.spread * getattr(finding, name) for name in ("rate", "rest_rate")}
    gaps = ("gap", "low", "high", "plain_low", "plain_high")
    return finding.model_copy(update=means | {name: outcome.spread * getattr(finding, name) for name in gaps})


@dataclass(frozen=True)
class _FamilyExamination:
    """Examine one family of rule sets under one set of settings."""

    family: RuleSetFamily
    config: SubgroupConfig
    rng: np.random.Generator
    limit: TimeLimit
    say: Progress

    def floors(self, table: CellTable) -> MinimumSizes:
        return minimum_sizes(self.config.support, self.config.min_size, table.effective_people)

    def examine_all(self, table: CellTable, asked_about: Booleans | None = None) -> ExaminedFamily:
        """Look at every rule set of the family, and at those asked about (asked, occupied cells)."""
        extra = np.zeros((0, len(table.cells.sizes)), dtype=bool) if asked_about is None else asked_about
        if self.family.cube > LARGE and self.config.control == "max-t" and table.weights is None:
            return self._search_deep(table, extra)
        self.say("counting", 0.0)
        counted = count_family(self.family, table, self.floors(table))
        lot = CandidateFamily(self.family, table, counted.candidates, extra)
        standing = self._assess(lot)
        number = len(counted.candidates)
        return ExaminedFamily(lot, standing, number, int(standing.found[:number].sum()), counted)

    def _assess(self, lot: CandidateFamily, drawn: PermutationNull | None = None) -> CandidateStatistics:
        return assess_candidates(
            lot,
            self.config,
            self.rng,
            drawn=drawn,
            limit=self.limit,
            progress=lambda share: self.say("permuting", share),
        )

    def _search_deep(self, table: CellTable, asked_about: Booleans) -> ExaminedFamily:
        limits = self.floors(table)
        self.say("preparing (compiling, once on this machine, for some seconds)", 0.0)
        compile_kernels()
        happened = permute_outcomes(table, self.config.permutations, self.rng)
        found = search_depth_first(
            self.family,
            table,
            happened,
            DepthFirstConfig(
                least=max(limits.share, limits.people),
                least_rest=max(limits.share, limits.people),
                confidence=self.config.confidence,
                margin=self.config.margin,
                keep=MOST_EXACT,
                limit=self.limit,
                seed=self.config.seed,
            ),
            progress=lambda share: self.say("permuting", share),
        )
        lot = CandidateFamily(self.family, table, list_candidates(self.family, table, found), asked_about)
        whole = found.stop == "done"
        largest = np.maximum(found.maxima, largest_permuted_gaps(table, happened, asked_about))
        standing = self._assess(lot, PermutationNull(largest, None if whole else found.stop))
        return ExaminedFamily(lot, standing, found.tested, found.standing, None, whole, _describe_unseen(found))


def _check_config(rules: RuleSetFamily, config: SubgroupConfig, weights: PeopleWeights | None) -> None:
    """Refuse what cannot be done together."""
    if rules.cube > MOST and (weights is not None or config.control != "max-t"):
        weighted = " with weights" if weights is not None else ""
        raise OptionError(
            f"a cube of {rules.cube:,} counts is too large for control by {config.control}{weighted}",
            hint="take fewer attributes or bins" + ("" if weighted else ", or the control max-t"),
        )


def _control_strata(people: People, names: Sequence[str], config: SubgroupConfig) -> Integers | None:
    """Return the stratum of everybody by the control variable."""
    if config.per is None:
        return None
    if config.per in names:
        raise OptionError(
            f"{config.per!r} cannot be both a sensitive attribute and what is controlled for",
            hint="name another control variable, or leave it out of the attributes",
        )
    entries = people.individuals[:, people.schema.position(config.per)]
    _, codes = cut_entries(people.schema[config.per], entries, config.bins, counts=people.counts)
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _refuse_rule_sets(
    table: CellTable, conditions: Sequence[QueriedRuleSet], limits: MinimumSizes
) -> dict[int, RefusedRuleSet]:
    """Return which rule sets asked about nothing can be said about, by position."""
    found = {}
    inside, weighted = table.query_sums(None).sum(axis=1), table.weights is not None
    sides = np.column_stack(table.measure_sides(table.query_sums)).tolist()
    for position, (one, (size, rest)) in enumerate(zip(conditions, sides, strict=True)):
        reason = limits.reason(size, rest, effective=weighted)
        if reason is not None:
            own = int(inside[position])
            people = {"size": own, "rest": table.people - own} if weighted else {"size": int(size), "rest": int(rest)}
            found[position] = RefusedRuleSet(rules=one.rules, words=one.words, **people, reason=reason)
    return found


def _accepted_cells(table: CellTable, refused: dict[int, RefusedRuleSet]) -> Booleans:
    """Return which occupied cells the other rule sets asked about hold, shape (asked, cells)."""
    rows = table.match_queries()
    return rows[[position for position in range(len(rows)) if position not in refused]]


def _describe_unseen(found: DepthFirstResult) -> tuple[str, ...]:
    """Return what a depth-first search leaves open."""
    notes = []
    if found.stop != "done":
        seen = f"{found.looked_at:,} of {found.rule_sets:,} rule sets"
        notes.append(f"{STOPPED[found.stop]} after {seen}, the shortest first; what is said holds for those.")
    if not found.counted:
        notes.append("How many different groups were tested and are significant is estimated, to about 0.1 %.")
    return tuple(notes)


def _result_notes(looked: ExaminedFamily, rules: RuleSetFamily, config: SubgroupConfig) -> list[str]:
    notes = list(looked.notes)
    standing = looked.standing
    if standing.stopped is not None and looked.whole:
        done = f"{STOPPED[standing.stopped]} after {standing.permutations:,} of {config.permutations:,} permutations"
        notes.append(f"{done}; what is said holds for those.")
    if looked.tested == 0:
        notes.append(
            f"No rule set holds {config.support:.0%} of the people and at least {config.min_size} on both sides, "
            "so nothing was looked at.".replace("%", " %")
        )
    if config.per is not None:
        notes.append(f"Rates are averages over the values of {config.per}, and compare people who share it.")
    if any(cut.missing for cut in rules.cuts):
        notes.append('People whose value is missing are a value of their own, "missing".')
    return notes
