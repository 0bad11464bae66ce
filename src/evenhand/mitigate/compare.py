"""The given model beside new ones, on people whom no method looked at.

Who is compared, and with whom, is fixed without the test people: groups by what is protected, subgroups as they were
found, other subgroups by a search on the validation people. So the test people are counted once, and every interval is
adjusted for all that a candidate is compared in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenhand import subgroup
from evenhand.errors import EvenhandError, OptionError
from evenhand.mitigate.candidate import Candidate, Progress
from evenhand.mitigate.config import Config
from evenhand.mitigate.drafts import Draft, Sides, flip_draft, lines, performance
from evenhand.mitigate.gap_drafts import found_draft, group_drafts, groups_draft, subgroup_draft, widest_draft
from evenhand.mitigate.harms import FlipHarm, GapHarm, GroupsHarm, Harm
from evenhand.mitigate.outcomes import Bools, Outcomes, flips
from evenhand.mitigate.proof_drafts import Prover, proof_drafts
from evenhand.mitigate.result import CandidateResult, Line, Moved
from evenhand.mitigate.split import Split
from evenhand.models import Scorer
from evenhand.population import ProductPopulation, marginals
from evenhand.schema import People
from evenhand.stats import text
from evenhand.subgroup import Finding, SubgroupResult
from evenhand.subgroup.members import members
from evenhand.subgroup.rules import words as rule_words

SAMPLES = 20_000
"""Individuals drawn from the population, the same for both models."""

WATCHED = 3
"""Other subgroups watched: those whose gap grew most among the validation people."""

ALIKE = 0.8
"""Two subgroups that share this much of their people are watched as one."""


def compare(
    given: Scorer,
    candidates: Sequence[Candidate],
    split: Split,
    harms: Sequence[Harm],
    *,
    config: Config,
    progress: Progress | None = None,
) -> tuple[CandidateResult, ...]:
    """Every candidate beside the given model, line by line, on the test people.

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
    say = progress or (lambda what, share: None)
    comparison = _Comparison(given, split, tuple(harms), config)
    found = []
    for i, candidate in enumerate(candidates):

        def step(what: str, done: float, *, i: int = i) -> None:
            say(f"comparing {candidates[i].method}: {what}", (i + done) / len(candidates))

        found.append(comparison.candidate(candidate, step))
        if found[-1].interrupted and not candidate.interrupted:
            break
    return tuple(found)


@dataclass(eq=False)
class _Comparison:
    """What all candidates are compared with; the given model is asked once."""

    given: Scorer
    split: Split
    harms: tuple[Harm, ...]
    config: Config
    _flips: dict[tuple[int, str, tuple[str, ...]], Bools] = field(default_factory=dict)

    def __post_init__(self) -> None:
        schema = self.split.test.schema
        self.sets: list[tuple[str, ...]] = [(name,) for name in schema.protected]
        if len(schema.protected) > 1:
            self.sets.append(schema.protected)
        asked = [harm.protected for harm in self.harms if isinstance(harm, FlipHarm)]
        self.flip_sets = list(dict.fromkeys([*asked, *self.sets]))
        self.notes: list[str] = []
        self.population = self._population()
        self.sampled = None
        if self.population is not None:
            self.sampled = self.population.sample(SAMPLES, np.random.default_rng([self.config.seed, 17]))
        self.before = Outcomes(self.given, self.split.test)
        self.before_chosen = Outcomes(self.given, self.split.validation)
        self.prover = None
        if self.population is not None and self.config.certify_seconds > 0 and self.flip_sets:
            self.prover = Prover(
                self.flip_sets, self.population, self.split.test, self.config.certify_seconds, self.config.seed
            )

    @cached_property
    def searched(self) -> list[SubgroupResult | None]:
        """What a search of the given model finds among the validation and among the test people."""
        return [self._search(self.given, people) for people in (self.split.validation, self.split.test)]

    def candidate(self, candidate: Candidate, say: Progress) -> CandidateResult:
        """One candidate's lines."""
        new = candidate.scorer
        sides = Sides(
            self.before,
            Outcomes(new, self.split.test),
            self.before_chosen,
            Outcomes(new, self.split.validation),
            self.config.confidence,
        )
        drafts: list[Draft] = []
        left_out: list[str] = []
        interrupted = False
        try:
            for stage in (self._decisions, self._groups, self._subgroups, self._proofs):
                stage(new, sides, say, drafts, left_out)
        except KeyboardInterrupt:
            if not drafts:
                raise
            interrupted = True
            left_out.append("the comparison was interrupted: what is missing here was not measured")
        made = lines(drafts, self.config.confidence)
        return CandidateResult(
            method=candidate.method,
            words=candidate.words,
            control=candidate.control,
            lines=made,
            moved=tuple(_moved(made)),
            trials=candidate.trials,
            interrupted=candidate.interrupted or interrupted,
            notes=tuple(dict.fromkeys([*candidate.notes, *self.notes, *left_out])),
        )

    def _decisions(self, new: Scorer, sides: Sides, say: Progress, drafts: list[Draft], left_out: list[str]) -> None:
        """Performance, and what was to be mended."""
        say("performance, and what was to be mended", 0.0)
        drafts += performance(sides)
        drafts += [self._harm(harm, new, sides) for harm in self.harms]

    def _groups(self, new: Scorer, sides: Sides, say: Progress, drafts: list[Draft], left_out: list[str]) -> None:
        """Gaps between groups, and flips that nobody asked about."""
        say("groups and flips", 0.1)
        between, too_small = group_drafts(sides, self.sets)
        asked = {(draft.name, draft.of) for draft in drafts}
        drafts += [draft for draft in between if (draft.name, draft.of) not in asked]
        left_out += too_small
        drafts += self._flip_drafts(new, sides)

    def _proofs(self, new: Scorer, sides: Sides, say: Progress, drafts: list[Draft], left_out: list[str]) -> None:
        """Shares proved, where both models have an inside."""
        if self.prover is not None:
            proofs, why_not = proof_drafts(self.prover, self.given, new, lambda what, done: say(what, 0.5 + 0.5 * done))
            drafts += proofs
            left_out += why_not

    def _harm(self, harm: Harm, new: Scorer, sides: Sides) -> Draft:
        if isinstance(harm, GapHarm):
            return subgroup_draft("asked", harm.rules, rule_words(harm.rules), sides)
        if isinstance(harm, GroupsHarm):
            return groups_draft(harm.protected, harm.words, sides)
        before, after = (self._flip(scorer, "data", harm.protected) for scorer in (self.given, new))
        return flip_draft("asked", " x ".join(harm.protected), harm.words, before, after, sides.confidence)

    def _flip_drafts(self, new: Scorer, sides: Sides) -> list[Draft]:
        """Flips among the test people, but those asked about, and in the population."""
        asked = {harm.protected for harm in self.harms if isinstance(harm, FlipHarm)}
        found = []
        for protected in self.flip_sets:
            of = " x ".join(protected)
            words = f"decisions that flip with {of}"
            if protected not in asked:
                before, after = (self._flip(scorer, "data", protected) for scorer in (self.given, new))
                found.append(flip_draft("individuals", of, words, before, after, sides.confidence))
            if self.population is not None:
                name = self.population.name
                before, after = (self._flip(scorer, "population", protected) for scorer in (self.given, new))
                words = f"{words}, in the population"
                found.append(flip_draft("individuals", of, words, before, after, sides.confidence, name))
        return found

    def _flip(self, scorer: Scorer, over: str, protected: tuple[str, ...]) -> Bools:
        if scorer is not self.given:
            return self._asked(scorer, over, protected)
        key = (0, over, protected)
        if key not in self._flips:
            self._flips[key] = self._asked(scorer, over, protected)
        return self._flips[key]

    def _asked(self, scorer: Scorer, over: str, protected: tuple[str, ...]) -> Bools:
        individuals = self.split.test.individuals if over == "data" else self.sampled
        assert individuals is not None, "asked only where there is a population"
        return flips(scorer, individuals, protected)

    def _subgroups(self, new: Scorer, sides: Sides, say: Progress, drafts: list[Draft], left_out: list[str]) -> None:
        """Subgroups that a search of the new model finds on the validation people, and the widest there are now."""
        say("other subgroups", 0.3)
        before, there = self.searched
        after, here = (self._search(new, people) for people in (sides.chosen, sides.test))
        if after is not None:
            for finding in self._wider(after, sides):
                note = "chosen on the validation people, where its gap grew"
                drafts.append(subgroup_draft("subgroups", finding.rules, finding.words, sides, note))
        if before is not None and after is not None and before.findings and after.findings:
            draft = widest_draft(sides, _widest(before), _widest(after))
            drafts += [draft] if draft is not None else []
        if there is not None and here is not None and there.findings and here.findings:
            drafts.append(found_draft(there, here))

    def _wider(self, after: SubgroupResult, sides: Sides) -> list[Finding]:
        """Findings whose gap grew most among the validation people, no two of nearly the same people."""
        asked = [harm.rules for harm in self.harms if isinstance(harm, GapHarm)]
        taken = [members(sides.chosen, rules) for rules in asked]
        grown = []
        for finding in after.findings:
            inside = members(sides.chosen, finding.rules)
            first, second = (_gap(side, inside) for side in (sides.before_chosen, sides.after_chosen))
            if second > first:
                grown.append((second - first, finding, inside))
        chosen: list[Finding] = []
        for _, finding, inside in sorted(grown, key=lambda one: -one[0]):
            if len(chosen) < WATCHED and not any(_alike(inside, other) for other in taken):
                chosen.append(finding)
                taken.append(inside)
        return chosen

    def _search(self, scorer: Scorer, people: People) -> SubgroupResult | None:
        try:
            return subgroup.run(scorer, people, confidence=self.config.confidence, seed=self.config.seed)
        except EvenhandError as error:
            self.notes.append(f"other subgroups were not searched for: {error.what}")
            return None

    def _population(self) -> ProductPopulation | None:
        try:
            return marginals(self.split.train)
        except OptionError as error:
            self.notes.append(f"nothing is said about a population: {error.what}")
            return None


def _widest(found: SubgroupResult) -> Finding:
    return max(found.findings, key=lambda finding: abs(finding.gap))


def _gap(side: Outcomes, inside: Bools) -> float:
    if inside.all() or not inside.any():
        return 0.0
    return abs(float(side.favoured[inside].mean() - side.favoured[~inside].mean()))


def _alike(one: Bools, other: Bools) -> bool:
    """Whether two subgroups, or one and everybody outside the other, are nearly the same people."""

    def share(a: Bools, b: Bools) -> float:
        either = int((a | b).sum())
        return float((a & b).sum() / either) if either else 1.0

    return max(share(one, other), share(one, ~other)) >= ALIKE


def _moved(made: Sequence[Line]) -> list[Moved]:
    """What got worse although nobody asked about it."""
    found = []
    for i, line in enumerate(made):
        if line.verdict == "worse" and line.part not in ("performance", "asked"):
            found.append(
                Moved(
                    where="subgroup" if line.part == "subgroups" else "attribute",
                    words=f"{line.words}: from {text(line.before)} to {text(line.after)}",
                    line=i,
                )
            )
    return found
