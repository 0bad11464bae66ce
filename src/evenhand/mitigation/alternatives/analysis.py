"""One search for less discriminatory alternatives: cross-fit, propose, choose, and compare on people kept aside."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import EvenhandError, OptionError
from evenhand.mitigation.alternatives.choice import RULE, Standing, find_baseline, rank_candidates
from evenhand.mitigation.alternatives.config import AlternativesConfig
from evenhand.mitigation.alternatives.gaps import RateGap
from evenhand.mitigation.alternatives.intervals import PairedChanges, compare_frontier
from evenhand.mitigation.alternatives.proposals import CandidateRecipe, SearchSpace, describe_space
from evenhand.mitigation.alternatives.result import AlternativeCandidate, AlternativeNumbers, AlternativesResult
from evenhand.mitigation.alternatives.rules import AcceptanceRule, GroupCutoffs, RuleInputs
from evenhand.mitigation.alternatives.sources import (
    FOLDS,
    STRENGTHS,
    CrossFitting,
    MembershipModel,
    ScoreSource,
    ask_source,
    assign_folds,
)
from evenhand.mitigation.known_people import KNOWN, describe_left_out
from evenhand.mitigation.learners.choose import find_learner
from evenhand.mitigation.learners.learner import Learner
from evenhand.mitigation.methods.constrained_groups import ConstrainedGroups, require_two_labels
from evenhand.mitigation.methods.lots import draw_lots
from evenhand.mitigation.methods.saving import SaveScorer
from evenhand.mitigation.split import put_in_one_table, split_people
from evenhand.models.ledger import find_ledger
from evenhand.models.scorer import Scorer, WrappedScorer, find_caution
from evenhand.models.subject import Subject
from evenhand.schema.people import People
from evenhand.stats.auc import auc
from evenhand.stats.distribution import kolmogorov_distance
from evenhand.stats.quantity import quantity_value

SHARES = (0.5, 0.25, 0.25)
"""Of the people: three quarters to learn from and choose on, a quarter to compare on."""

WRAPPED = (".joblib", ".pkl")
"""Endings of files that every alternative can be written to."""

PASSED = (
    "Passthrough columns ({}) are given to models that take data frames. Who asks a new model about others gives it "
    "these columns too."
)


@dataclass(frozen=True, eq=False)
class AlternativeSearch:
    """A search: its record, and the model that it chose.

    Attributes:
        result: the record.
        models: every candidate, in the order of the record; the first is the given model.
        savers: what writes each of them.
    """

    result: AlternativesResult
    models: tuple[Scorer, ...]
    savers: tuple[Callable[[Path], tuple[Path, ...]], ...]

    def save(self, path: Path | str) -> tuple[Path, ...]:
        """Write the chosen model; the files written, none where nothing better was found.

        Raises:
            EvenhandError: it is not written to such a file.
        """
        chosen = self.result.chosen
        return () if chosen is None else self.savers[chosen](Path(path))


def find_alternatives(
    subject: Subject,
    config: AlternativesConfig | None = None,
    *,
    test: People | None = None,
    test_name: str = "test",
    out: Path | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> AlternativeSearch:
    """Search for less discriminatory alternatives to a model, and record the search.

    Candidates are made and chosen on cross-fitted scores of three quarters of the people, and compared with the given
    model on the rest, whom nothing looked at: accuracy and gap, with paired intervals that hold together over all
    candidates on the frontier. The given model is candidate 0. See ``RULE`` for how one is chosen.

    Args:
        subject: the model, of two labels, and people with true labels.
        config: settings.
        test: other people to compare on; all of the subject's are then for learning and choosing.
        test_name: how to call them.
        out: where the model is going to be saved: refused before any work if not every candidate can be.
        progress: called as work goes on.
        settings: fields of ``AlternativesConfig`` by name, in place of those in ``config``.

    Raises:
        EvenhandError: the model, the people or the settings cannot be used.
    """
    started = time.perf_counter()
    config = AlternativesConfig.of(config, settings)
    if test is not None:
        subject, test = put_in_one_table(subject, test)
    ledger = find_ledger(subject.model) or subject.ledger
    before = ledger.settled
    with ledger.within(config.budget):
        search = _Search(subject, config, test, out, progress or ignore_progress, started)
        proposals, candidates, standing, changes = search.run()
        result = search.record(proposals, candidates, standing, changes, test_name, ledger.sent - before)
    ledger.settle()
    return AlternativeSearch(
        result, (search.given, *map(search.model, proposals[1:])), tuple(map(search.saver, proposals))
    )


class _Search:
    """What one search holds: the people in two parts, and the models fitted so far."""

    def __init__(
        self,
        subject: Subject,
        config: AlternativesConfig,
        test: People | None,
        out: Path | None,
        say: Progress,
        started: float,
    ) -> None:
        people = subject.people
        schema = people.schema
        if not schema.protected:
            raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
        unknown = [one for one in config.decide_without if one not in schema.names]
        if unknown:
            raise OptionError(
                f"there is no attribute {unknown[0]!r}",
                location="`decide_without=`",
                hint=f"one of: {', '.join(schema.names)}",
            )
        say("loading the model", 0.0)
        self.subject, self.config, self.say, self.started = subject, config, say, started
        self.given = subject.scorer
        require_two_labels(self.given)
        parts = split_people(people, seed=config.seed, test=test, shares=SHARES)
        self.other_people = test is not None
        known = people.at(
            np.flatnonzero(np.isin(people.rows, np.concatenate([parts.train.rows, parts.validation.rows])))
        )
        self.groups = ConstrainedGroups.of(known, ())
        self.known, self.aside = (GroupedPeople.of(one, self.groups) for one in (known, parts.test))
        self.tells_group = not set(config.decide_without) & set(schema.protected)
        self.learner = self._find_learner()
        self.fitting = CrossFitting(
            people=known,
            group=self.known.group,
            groups=len(self.known.labels),
            given=self.given,
            learner=self.learner,
            hidden=config.decide_without,
            seed=config.seed,
            lot=draw_lots(schema, known.individuals, seed=config.seed),
        )
        left_out = len(people) + (0 if test is None else len(test)) - parts.size
        notes = (
            find_caution(self.given),
            "" if self.other_people else KNOWN,
            describe_left_out(schema, left_out),
            PASSED.format(", ".join(schema.passthrough)) if schema.passthrough else "",
        )
        self.notes = [note for note in notes if note]
        self.membership: MembershipModel | None = None
        self.evidence: dict[ScoreSource, tuple[RuleInputs, RuleInputs]] = {}
        self.baseline = 0
        self.interrupted = False
        self.fits = 0
        if out is not None:
            self._check_ending(out)

    def _find_learner(self) -> Learner | None:
        subject, fit = self.subject, self.config.fit
        try:
            return find_learner(
                subject.model,
                subject.people.schema,
                like=subject.people.frame,
                trust=subject.trust,
                fit=fit,
                given=subject.scorer,
            )
        except EvenhandError:
            if fit is not None:
                raise
            return None

    def _check_ending(self, out: Path) -> None:
        """Refuse a file that not every candidate could be written to.

        Raises:
            OptionError: there is a family whose models are not written so.
        """
        own = () if self.learner is None or self.config.decide_without else self.learner.endings
        reweighed_alone = set(self.config.methods) <= {"reweigh"}
        if out.suffix.lower() not in (own if reweighed_alone and own else WRAPPED):
            raise OptionError(
                f"not every alternative is written to a file that ends in {out.suffix!r}",
                location=str(out),
                hint="let it end in .joblib; a model of the given one's own format is found by `methods=reweigh` alone",
            )

    # The search.

    def run(self) -> tuple[list[CandidateRecipe], tuple[Booleans, Booleans], Standing, PairedChanges]:
        """Return the candidates, their decisions about both parts of the people, how they stand, and the changes."""
        sources = self._fit_sources()
        shares = None
        if "tilt" in self.config.methods:
            self.membership, shares = self.fitting.membership(self.say)
            self.fits += (FOLDS + 1) * len(self.membership.scorers)
        self.say("looking for candidates", 0.75)
        known = self.known
        space = SearchSpace(
            self.config.against,
            self.config.methods,
            known.group,
            known.people.favourable,
            len(known.labels),
            assign_folds(known.group, known.people.favourable, seed=self.config.seed),
            shares,
            self.tells_group,
            self.config.seed,
        )
        proposals = list(space.propose(sources))
        self._know_both(sources, shares)
        evidence = [self.evidence[one.source] for one in proposals]
        accepted = (
            np.stack([one.accepts_known(known) for one, (known, _) in zip(proposals, evidence, strict=True)]),
            np.stack([one.rule.accepts(aside) for one, (_, aside) in zip(proposals, evidence, strict=True)]),
        )
        self.say("choosing", 0.85)
        gaps = [self._gap(one) for one in (known, self.aside)]
        standing = rank_candidates(
            accepted[0],
            known.people.favourable,
            gaps[0],
            baselines=self._baselines(proposals, accepted[0]),
            allowed=self.config.accuracy_loss,
            new_people=len(self.aside.people),
            parameters=[one.rule.parameters for one in proposals],
        )
        widest = [gaps[0].widest(one.astype(np.float64)) for one in accepted[0]]
        compared = sorted({*map(int, np.flatnonzero(standing.frontier)), standing.chosen} - {0})
        changes = compare_frontier(
            accepted[1],
            self.aside.people.favourable,
            gaps[1],
            compared,
            widest,
            confidence=self.config.confidence,
            seed=self.config.seed,
        )
        return proposals, accepted, standing, changes

    def _gap(self, people: GroupedPeople) -> RateGap:
        return RateGap.of(self.config.against, people.group, people.people.favourable, len(people.labels))

    def _fit_sources(self) -> list[ScoreSource]:
        sources = self.fitting.given_sources()
        strengths = STRENGTHS if "reweigh" in self.config.methods else STRENGTHS[:1]
        limit = self.config.time_limit
        try:
            for number, strength in enumerate(strengths if self.learner is not None else ()):
                if number and limit is not None and time.perf_counter() - self.started > limit:
                    self.interrupted = True
                    break
                self.say(f"reweighing with strength {strength:g}", 0.7 * number / len(strengths))
                sources.append(self.fitting.fitted_source(strength))
                self.fits += FOLDS + 1
        except KeyboardInterrupt:
            self.interrupted = True
        if self.learner is None:
            self.notes.append(
                "It is not known how such a model is trained, so nothing was fitted again: name a function, `fit=`."
            )
        elif not self.learner.takes_weights and len(strengths) > 1:
            self.notes.append("The learner takes no weights: reweighed models learn from people resampled by them.")
        return sources

    def _know_both(self, sources: Sequence[ScoreSource], shares: Floats | None) -> None:
        """Keep what is known about both parts of the people: cross-fitted of the first, of the model on the second."""
        aside = self.aside.people.individuals
        lot = draw_lots(self.aside.people.schema, aside, seed=self.config.seed)
        membership = None if self.membership is None else self.membership(aside)
        self.evidence = {
            one: (
                one.known._replace(group=self.known.group, membership=shares),
                ask_source(one.scorer, aside, lot)._replace(group=self.aside.group, membership=membership),
            )
            for one in sources
        }

    def _baselines(self, proposals: Sequence[CandidateRecipe], accepted: Booleans) -> Integers:
        """Return the candidate that each candidate's loss is counted from: see ``find_baseline``."""
        right = accepted == self.known.people.favourable
        refit = next((i for i, one in enumerate(proposals) if one.method == "refit"), None)
        self.baseline = find_baseline(right, refit)
        if self.baseline:
            self.notes.append(
                f"Fitted again with nothing changed, the model decides {100 * right[self.baseline].mean():.1f} % of "
                f"the validation people rightly, the given one {100 * right[0].mean():.1f} %: it knew them, or had "
                "others to learn from. Losses of models fitted again are counted from the one with nothing changed."
            )
        learnt = [one.source.strength is not None for one in proposals]
        return np.where(learnt, self.baseline, 0)

    # What is made of it.

    def model(self, proposal: CandidateRecipe) -> Scorer:
        """Return a candidate as a model that answers about anybody."""
        if proposal.keeps_format:
            return proposal.source.scorer
        rule = proposal.rule
        return AlternativeModel(
            proposal.source.scorer,
            rule,
            self.groups if rule.asks_group else None,
            self.membership if rule.asks_membership else None,
            self.config.seed,
            proposal.recipe,
        )

    def saver(self, proposal: CandidateRecipe) -> Callable[[Path], tuple[Path, ...]]:
        """Return what writes a candidate to a file."""
        save = proposal.source.save
        if proposal.keeps_format and save is not None:
            return save
        return SaveScorer(self.model(proposal), self.config.decide_without)

    def record(
        self,
        proposals: Sequence[CandidateRecipe],
        accepted: tuple[Booleans, Booleans],
        standing: Standing,
        changes: PairedChanges,
        test_name: str,
        queries: int,
    ) -> AlternativesResult:
        """Return the record of the search."""
        self.say("writing the record", 0.9)
        candidates = tuple(
            self._describe(number, one, accepted, standing, changes) for number, one in enumerate(proposals)
        )
        chosen, reason = self._judge(candidates, standing)
        smaller = standing.gaps < standing.gaps[0] - 1e-12
        needed = (standing.losses + standing.margins)[smaller]
        return AlternativesResult(
            table_reading=self.subject.people.reading,
            test_reading=self.aside.people.reading if self.other_people else None,
            model=self.given.name,
            data=self.subject.data_name,
            test_data=test_name if self.other_people else None,
            favourable=str(self.given.classes[self.given.favourable]),
            against=self.config.against,
            protected=self.known.people.schema.protected,
            groups=self.known.labels,
            decide_without=self.config.decide_without,
            families=self.config.methods,
            space=describe_space(self.config.methods, tells_group=self.tells_group, fits=self.learner is not None),
            fits=self.fits,
            validation=len(self.known.people),
            test=len(self.aside.people),
            accuracy_loss=self.config.accuracy_loss,
            baseline=self.baseline,
            rule=RULE,
            confidence=self.config.confidence,
            critical=0.0 if math.isnan(changes.critical) else changes.critical,
            candidates=candidates,
            picked=standing.chosen,
            chosen=chosen,
            reason=reason,
            least_loss=max(0.0, float(needed.min())) if len(needed) else None,
            queries=queries,
            interrupted=self.interrupted,
            notes=tuple(self.notes),
            seed=self.config.seed,
            seconds=time.perf_counter() - self.started,
        )

    def _describe(
        self,
        number: int,
        proposal: CandidateRecipe,
        accepted: tuple[Booleans, Booleans],
        standing: Standing,
        changes: PairedChanges,
    ) -> AlternativeCandidate:
        rule = proposal.rule
        scores = [rule.scores(one) for one in self.evidence[proposal.source]]
        measured = [
            measure_candidate(people, accepted[part][number], scores[part], self._gap(people))
            for part, people in enumerate((self.known, self.aside))
        ]
        gap_change = changes.gap.get(number)
        verdict = "not comparable" if gap_change is None else "within noise"
        if gap_change is not None and (gap_change.high < 0 or gap_change.low > 0):
            verdict = "better" if gap_change.high < 0 else "worse"
        return AlternativeCandidate(
            number=number,
            method=proposal.method,
            recipe=proposal.recipe,
            settings=proposal.settings,
            asks=self.known.people.schema.protected if rule.asks_group else (),
            by_lot=isinstance(rule, GroupCutoffs) and rule.is_random,
            validation=measured[0],
            test=measured[1],
            loss=float(standing.losses[number]),
            margin=float(standing.margins[number]),
            feasible=bool(standing.feasible[number]),
            on_frontier=bool(standing.frontier[number]),
            accuracy_change=changes.accuracy.get(number),
            gap_change=gap_change,
            verdict=verdict,
        )

    def _judge(self, candidates: Sequence[AlternativeCandidate], standing: Standing) -> tuple[int | None, str]:
        """Return the candidate that takes the given model's place, if any, and why."""
        picked = candidates[standing.chosen]
        if picked.number == 0:
            return None, "no candidate within the allowed loss of accuracy has a smaller gap beyond noise"
        change = picked.gap_change
        assert change is not None, "what the rule takes is compared"
        moved = f"{100 * change.value:+.1f} points ({100 * change.low:+.1f} to {100 * change.high:+.1f})"
        moved = moved.replace("-", "\N{MINUS SIGN}")
        if picked.verdict != "better":
            return None, (
                f"candidate {picked.number} has the smallest gap within the allowed loss on the validation people, but "
                f"on the people kept aside its gap is not smaller beyond noise: {moved}"
            )
        return picked.number, (
            f"it has the smallest gap within the allowed loss on the validation people, up to one standard error, and "
            f"on the people kept aside the gap changes by {moved}"
        )


# An alternative as a model that answers about anybody, and as a file that scikit-learn and joblib read.


@dataclass(frozen=True, eq=False)
class AlternativeModel(WrappedScorer):
    """A source of scores, and a rule that decides by them.

    Attributes:
        model: the source. rule: what decides.
        groups: tells whose group somebody is in; None where the rule is not told.
        membership: how probable each group is; None where the rule does not ask.
        seed: of everybody's lot. label: how to call it in a report.
    """

    model: Scorer
    rule: AcceptanceRule
    groups: ConstrainedGroups | None
    membership: MembershipModel | None
    seed: int
    label: str

    label_only = False

    @property
    def name(self) -> str:
        """How to call it in a report."""
        return self.label

    def know(self, individuals: Floats) -> RuleInputs:
        """Return what the rule may use about individuals (n, attributes)."""
        lot = draw_lots(self.schema, individuals, seed=self.seed)
        return ask_source(self.model, individuals, lot)._replace(
            group=None if self.groups is None else self.groups(individuals),
            membership=None if self.membership is None else self.membership(individuals),
        )

    def scores(self, individuals: Floats) -> Floats:
        """Return one column per class, shape (n, 2)."""
        score = self.rule.scores(self.know(individuals))
        return np.stack((1 - score, score) if self.favourable == 1 else (score, 1 - score), axis=1)

    def predict(self, individuals: Floats) -> Integers:
        """Return the label of each, shape (n,)."""
        accepted = self.rule.accepts(self.know(individuals))
        return np.where(accepted, self.favourable, 1 - self.favourable).astype(np.int64)


# Numbers of a candidate on one set of people.


@dataclass(frozen=True, eq=False)
class GroupedPeople:
    """People, whose group each is in, shape (n,), and what the groups are called."""

    people: People
    group: Integers
    labels: tuple[str, ...]

    @classmethod
    def of(cls, people: People, groups: ConstrainedGroups) -> GroupedPeople:
        """Sort people into groups."""
        return cls(people, groups(people.individuals), groups.labels)


def measure_candidate(people: GroupedPeople, accepted: Booleans, scores: Floats, gap: RateGap) -> AlternativeNumbers:
    """Return the numbers of a candidate from its decisions and scores, each of shape (n,).

    The standardised mean difference of a group is ``(mean - mean of the largest group) / sd``, sd that of all (n - 1).
    """
    favourable, groups = people.people.favourable, range(len(people.labels))
    here = [people.group == one for one in groups]
    rates = {
        label: float(accepted[members].mean())
        for label, members in zip(people.labels, here, strict=True)
        if members.any()
    }
    deviation = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
    largest = scores[max(here, key=np.count_nonzero)].mean()
    both = favourable.any() and not favourable.all()
    return AlternativeNumbers(
        accuracy=float((accepted == favourable).mean()),
        auc=quantity_value(auc(scores, favourable)),
        ks=kolmogorov_distance(scores[favourable], scores[~favourable]) if both else None,
        gap=float(gap.sizes(accepted.astype(np.float64))),
        ratio=min(rates.values()) / max(rates.values()) if max(rates.values()) > 0 else None,
        selection_rates=rates,
        smd={
            label: float((scores[members].mean() - largest) / deviation) if deviation > 0 else None
            for label, members in zip(people.labels, here, strict=True)
            if members.any()
        },
    )
