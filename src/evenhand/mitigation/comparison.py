"""The given model beside new ones, on people whom no method looked at.

Who is compared, and with whom, is fixed without the test people: groups by what is protected, subgroups as they were
found, other subgroups by a search on the validation people. So the test people are counted once, and every interval is
adjusted for all that a candidate is compared in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenhand import subgroups
from evenhand.core.typing import Booleans, Floats, Progress, ignore_progress
from evenhand.errors import BudgetError, EvenhandError, OptionError
from evenhand.individual.flips import PersonFlips, count_flips
from evenhand.mitigation.candidate import Candidate
from evenhand.mitigation.comparison_lines import (
    ComparisonSides,
    ModelDecisions,
    PendingComparison,
    compare_flips,
    compare_performance,
    finish_lines,
)
from evenhand.mitigation.config import MitigationConfig
from evenhand.mitigation.gap_lines import (
    compare_groups,
    compare_searches,
    compare_subgroup,
    compare_widest_findings,
    compare_widest_gap,
)
from evenhand.mitigation.metrics import FairnessMetric, FlipMetric, GroupGapMetric, SubgroupGapMetric
from evenhand.mitigation.proof_lines import CertificateCache, compare_proofs
from evenhand.mitigation.result import PUBLISHED, CandidateResult, ComparisonLine, ComparisonPart, Regression
from evenhand.mitigation.split import Split
from evenhand.models.ledger import find_ledger
from evenhand.models.noise import NoiseCheck, check_noise
from evenhand.models.scorer import Scorer
from evenhand.population.independent import ProductPopulation, product_of_marginals
from evenhand.population.mixture import MixturePopulation, choose_population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.quantity import format_quantity
from evenhand.subgroups.result import Finding, SubgroupResult
from evenhand.subgroups.rules import describe_rules as rule_words
from evenhand.subgroups.rules import find_members

SAMPLES = 20_000
"""Individuals drawn from the population, the same for both models; fewer where a budget does not pay for them."""

FEW_SAMPLES = 200
"""With fewer than these nothing is said about the population."""

NOISY = (
    "Decisions that flip are those of single answers, and this noise is in them before; evenhand audit says how much "
    "of them it is."
)
"""What noise of the given model means for a comparison."""

WATCHED = 3
"""Other subgroups watched: those whose gap grew most among the validation people."""

ALIKE = 0.8
"""Two subgroups that share this much of their people are watched as one."""


def compare_candidates(
    given: Scorer,
    candidates: Sequence[Candidate],
    split: Split,
    harms: Sequence[FairnessMetric],
    *,
    config: MitigationConfig,
    progress: Progress | None = None,
) -> tuple[CandidateResult, ...]:
    """Return every candidate beside the given model, line by line, on the test people.

    Per candidate: accuracy and AUC; every harm that was to be mended; gaps between the groups of each protected
    attribute and of all together; how often decisions flip with them, among the test people and among individuals drawn
    as the training people are distributed; subgroups that a search of the new model finds; and shares proved, where
    both models have an inside. Intervals of changes hold together with ``config.confidence`` (Bonferroni, over all
    lines of a candidate that have one), so that of candidates which change nothing at most a share of 1 - confidence
    is said to be better or worse in anything at all.

    Args:
        given: the model as it was.
        candidates: the new models.
        split: people; ``test`` is counted here and nowhere else, ``validation`` chooses what is compared.
        harms: what was to be mended.
        config: confidence, seconds for certificates, seed.
        progress: called with what is being done and the share of the work done, 0 to 1.

    Returns:
        One result per candidate. An interrupt (Ctrl-C) leaves what was measured until then, and the candidates that are
        complete.
    """
    say = progress or ignore_progress
    comparison = _Comparison(given, split, tuple(harms), config)
    found = []
    for i, candidate in enumerate(candidates):

        def step(what: str, done: float, *, i: int = i) -> None:
            say(f"comparing {candidates[i].method}: {what}", (i + done) / len(candidates))

        found.append(comparison.candidate(candidate, step))
        if found[-1].interrupted and not candidate.interrupted:
            break
    return tuple(found)


def flip_sets(schema: Schema, asked: Sequence[tuple[str, ...]] = ()) -> list[tuple[str, ...]]:
    """Return the sets of protected attributes that are varied: those asked about, each alone, and all together."""
    sets = [(name,) for name in schema.protected]
    together = [schema.protected] if len(schema.protected) > 1 else []
    return list(dict.fromkeys([*asked, *sets, *together]))


@dataclass(eq=False)
class _Comparison:
    """What all candidates are compared with; the given model is asked once."""

    given: Scorer
    split: Split
    harms: tuple[FairnessMetric, ...]
    config: MitigationConfig
    _flips: dict[tuple[str, tuple[str, ...]], PersonFlips] = field(default_factory=dict)

    def __post_init__(self) -> None:
        schema = self.split.test.schema
        self.sets = flip_sets(schema)
        self.flip_sets = flip_sets(schema, [harm.protected for harm in self.harms if isinstance(harm, FlipMetric)])
        self.notes: list[str] = []
        self.noise = self._check_noise()
        self.population = self._population()
        self.sampled = self._sample()
        self.before = ModelDecisions(self.given, self.split.test)
        self.before_chosen = ModelDecisions(self.given, self.split.validation)
        self.provers = list(self._provers())

    @cached_property
    def subgroup_searches(self) -> list[SubgroupResult | None]:
        """What a search of the given model finds among the validation and among the test people."""
        return [self._search(self.given, people) for people in (self.split.validation, self.split.test)]

    def candidate(self, candidate: Candidate, say: Progress) -> CandidateResult:
        """Return one candidate's lines."""
        new = candidate.scorer
        sides = ComparisonSides(
            self.before,
            ModelDecisions(new, self.split.test),
            self.before_chosen,
            ModelDecisions(new, self.split.validation),
            self.config.confidence,
        )
        drafts: list[PendingComparison] = []
        left_out: list[str] = []
        interrupted = False
        try:
            for stage in (self._decisions, self._groups, self._subgroups, self._compare_proofs):
                stage(new, sides, say, drafts, left_out)
        except KeyboardInterrupt:
            # Interrupted before the first number: there is no result to give.
            if not drafts:
                raise
            interrupted = True
            left_out.append("the comparison was interrupted: what is missing here was not measured")
        except BudgetError as error:
            if not drafts:
                raise
            left_out.append(f"{error.message}: what is missing here was not measured")
        made = finish_lines(drafts, self.config.confidence)
        return CandidateResult(
            method=candidate.method,
            words=candidate.words,
            control=candidate.control,
            lines=made,
            moved=tuple(_find_regressions(made)),
            trials=candidate.trials,
            interrupted=candidate.interrupted or interrupted,
            notes=tuple(dict.fromkeys([*candidate.notes, *self.notes, *left_out])),
        )

    def _decisions(
        self, new: Scorer, sides: ComparisonSides, say: Progress, drafts: list[PendingComparison], left_out: list[str]
    ) -> None:
        """Yield the lines about performance and what was to be mended."""
        say("performance, and what was to be mended", 0.0)
        drafts += compare_performance(sides)
        drafts += [self._compare_metric(harm, new, sides) for harm in self.harms]

    def _groups(
        self, new: Scorer, sides: ComparisonSides, say: Progress, drafts: list[PendingComparison], left_out: list[str]
    ) -> None:
        """Yield the gaps between groups, and flips that were not asked about."""
        say("groups and flips", 0.1)
        between, too_small = compare_groups(sides, self.sets)
        asked = {(draft.name, draft.of) for draft in drafts}
        drafts += [draft for draft in between if (draft.name, draft.of) not in asked]
        left_out += too_small
        drafts += self._compare_flips(new, sides)

    def _compare_proofs(
        self, new: Scorer, sides: ComparisonSides, say: Progress, drafts: list[PendingComparison], left_out: list[str]
    ) -> None:
        """Yield the proved shares, if both models have an inside."""
        reasons: list[str] = []
        for prover in self.provers:
            proofs, why_not = compare_proofs(prover, self.given, new, lambda what, done: say(what, 0.5 + 0.5 * done))
            drafts += proofs
            reasons += why_not
            if proofs:
                return
        left_out += reasons[:1]

    def _compare_metric(self, harm: FairnessMetric, new: Scorer, sides: ComparisonSides) -> PendingComparison:
        if isinstance(harm, SubgroupGapMetric):
            return compare_subgroup("asked", harm.rules, rule_words(harm.rules), sides)
        if isinstance(harm, GroupGapMetric):
            return compare_widest_gap(harm.protected, harm.words, sides)
        return self._flip_lines("asked", harm.protected, "data", new, sides.confidence)[0]

    def _compare_flips(self, new: Scorer, sides: ComparisonSides) -> list[PendingComparison]:
        """Return flips among the test people, but those asked about, and in the population; as published besides."""
        asked = {harm.protected for harm in self.harms if isinstance(harm, FlipMetric)}
        found = []
        for protected in self.flip_sets:
            lines = self._flip_lines("individuals", protected, "data", new, sides.confidence)
            found += lines[1:] if protected in asked else lines
            if self.sampled is not None:
                found += self._flip_lines("individuals", protected, "population", new, sides.confidence)
        return found

    def _flip_lines(
        self, part: ComparisonPart, protected: tuple[str, ...], over: str, new: Scorer, confidence: float
    ) -> list[PendingComparison]:
        """Return how often decisions flip between plausible counterparts, then as published where that differs."""
        before, after = (self._find_flips(scorer, over, protected) for scorer in (self.given, new))
        of, words = " x ".join(protected), FlipMetric(protected).words
        name, where = "", ""
        if over == "population" and self.population is not None:
            name, where = self.population.name, ", in the population"
        published = (before.published, after.published)
        if not self.split.test.schema.constrains_people:
            return [compare_flips(part, "flip_rate", of, words + where, published, confidence, name)]
        compared = before.compared
        sides = (before.flips[compared], after.flips[compared])
        return [
            compare_flips(part, "counterfactual_flip_rate", of, words + where, sides, confidence, name),
            compare_flips("individuals", "flip_rate", of, f"{words}{where}, as published", published, confidence, name),
        ]

    def _find_flips(self, scorer: Scorer, over: str, protected: tuple[str, ...]) -> PersonFlips:
        if scorer is not self.given:
            return self._count_flips(scorer, over, protected)
        if (over, protected) not in self._flips:
            self._flips[over, protected] = self._count_flips(scorer, over, protected)
        return self._flips[over, protected]

    def _count_flips(self, scorer: Scorer, over: str, protected: tuple[str, ...]) -> PersonFlips:
        individuals = self.split.test.individuals if over == "data" else self.sampled
        assert individuals is not None, "asked only where there is a population"
        return count_flips(scorer, self.split.test.schema, individuals, protected)

    def _subgroups(
        self, new: Scorer, sides: ComparisonSides, say: Progress, drafts: list[PendingComparison], left_out: list[str]
    ) -> None:
        """Yield subgroups that a search of the new model finds on the validation people, and the widest now."""
        say("other subgroups", 0.3)
        before, there = self.subgroup_searches
        after, here = (self._search(new, people) for people in (sides.chosen, sides.test))
        if after is not None:
            for finding in self._widened_findings(after, sides):
                note = "selected on the validation set, where its gap grew"
                drafts.append(compare_subgroup("subgroups", finding.rules, finding.words, sides, note))
        if before is not None and after is not None and before.findings and after.findings:
            draft = compare_widest_findings(sides, _widest_finding(before), _widest_finding(after))
            drafts += [draft] if draft is not None else []
        if there is not None and here is not None and there.findings and here.findings:
            drafts.append(compare_searches(there, here))

    def _widened_findings(self, after: SubgroupResult, sides: ComparisonSides) -> list[Finding]:
        """Return findings whose gap grew most among the validation people, no two of nearly the same people."""
        asked = [harm.rules for harm in self.harms if isinstance(harm, SubgroupGapMetric)]
        taken = [find_members(sides.chosen, rules) for rules in asked]
        grown = []
        for finding in after.findings:
            inside = find_members(sides.chosen, finding.rules)
            first, second = (_subgroup_gap(side, inside) for side in (sides.before_chosen, sides.after_chosen))
            if second > first:
                grown.append((second - first, finding, inside))
        chosen: list[Finding] = []
        for _, finding, inside in sorted(grown, key=lambda one: -one[0]):
            if len(chosen) < WATCHED and not any(_are_alike(inside, other) for other in taken):
                chosen.append(finding)
                taken.append(inside)
        return chosen

    def _search(self, scorer: Scorer, people: People) -> SubgroupResult | None:
        try:
            return subgroups.find_subgroups(
                scorer,
                people,
                noise=self.noise if scorer is self.given else None,
                confidence=self.config.confidence,
                seed=self.config.seed,
            )
        except EvenhandError as error:
            self.notes.append(f"other subgroups were not searched for: {error.message}")
            return None

    def _provers(self) -> Iterator[CertificateCache]:
        """Yield what proves shares of both models: between plausible counterparts, else as published (trees)."""
        effort, seed, test = self.config.certify_effort, self.config.seed, self.split.test
        if self.population is None or effort <= 0 or not self.flip_sets:
            return
        yield CertificateCache(self.flip_sets, self.population, test, effort, seed)
        if isinstance(self.population, MixturePopulation):
            published = product_of_marginals(self.split.train)
            yield CertificateCache(self.flip_sets, published, test, effort, seed, ", as published")

    def _check_noise(self) -> NoiseCheck | None:
        """Ask the given model about some of the test people twice, if it may answer differently each time."""
        rng, people = np.random.default_rng([self.config.seed, 19]), self.split.test
        shuffled, ledger = people.individuals[rng.permutation(len(people))], find_ledger(self.given)
        payable = len(people) if ledger is None else int(max(0, min(len(people), (ledger.left - len(people)) / 2)))
        noise = check_noise(self.given, shuffled[:payable], confidence=self.config.confidence)
        if noise is not None and noise.noisy:
            self.notes.append(noise.caution(NOISY).text)
        return noise

    def _sample(self) -> Floats | None:
        """Draw individuals from the population, as many as the given model's budget pays for."""
        ledger, samples = find_ledger(self.given), SAMPLES
        if self.population is None:
            return None
        if ledger is not None and ledger.budget is not None:
            schema = self.split.test.schema
            # With rules, counterparts are asked about besides the published variants.
            twice = 2 if schema.constrains_people else 1
            each = twice * sum(len(schema.assignments(protected)) for protected in self.flip_sets)
            test, chosen = len(self.split.test), len(self.split.validation)
            again = test + chosen if self.noise is not None and self.noise.noisy else 0
            samples = int(min(SAMPLES, (ledger.left - (1 + each) * test - chosen - again) // max(1, each)))
        if samples < FEW_SAMPLES:
            self.notes.append("nothing is said about a population: the budget does not pay for it")
            return None
        return self.population.sample(samples, np.random.default_rng([self.config.seed, 17]))

    def _population(self) -> ProductPopulation | MixturePopulation | None:
        try:
            return choose_population("data", self.split.train)
        except OptionError as error:
            self.notes.append(f"nothing is said about a population: {error.message}")
            return None


def _widest_finding(found: SubgroupResult) -> Finding:
    return max(found.findings, key=lambda finding: abs(finding.gap))


def _subgroup_gap(side: ModelDecisions, inside: Booleans) -> float:
    if inside.all() or not inside.any():
        return 0.0
    return abs(float(side.favourable_decisions[inside].mean() - side.favourable_decisions[~inside].mean()))


def _are_alike(one: Booleans, other: Booleans) -> bool:
    """Return whether two subgroups, or one and everybody outside the other, are nearly the same people."""

    def share(a: Booleans, b: Booleans) -> float:
        either = int((a | b).sum())
        return float((a & b).sum() / either) if either else 1.0

    return max(share(one, other), share(one, ~other)) >= ALIKE


def _find_regressions(made: Sequence[ComparisonLine]) -> list[Regression]:
    """Return what got worse without having been asked about."""
    found = []
    beside = any(line.name == "counterfactual_flip_rate" for line in made)
    for i, line in enumerate(made):
        # As published, some of the people compared cannot exist: where others can be compared, that does no harm.
        published = beside and line.name in PUBLISHED
        if line.verdict == "worse" and line.part not in ("performance", "asked") and not published:
            found.append(
                Regression(
                    where="subgroup" if line.part == "subgroups" else "attribute",
                    words=f"{line.words}: from {format_quantity(line.before)} to {format_quantity(line.after)}",
                    line=i,
                )
            )
    return found
