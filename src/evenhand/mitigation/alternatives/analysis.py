"""Search for less discriminatory alternatives: cross-fit, propose, choose, and compare on the test set."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import DataError, OptionError
from evenhand.mitigation.alternatives.choice import RULE, find_baseline, rank_candidates
from evenhand.mitigation.alternatives.gaps import RateGap
from evenhand.mitigation.alternatives.groups import ProtectedGroups
from evenhand.mitigation.alternatives.intervals import compare_frontier
from evenhand.mitigation.alternatives.proposals import CandidateRecipe, describe_space, propose_candidates
from evenhand.mitigation.alternatives.result import AlternativeCandidate, AlternativeNumbers, AlternativesResult
from evenhand.mitigation.alternatives.rules import RuleInputs, Tilt
from evenhand.mitigation.alternatives.sources import (
    FOLDS,
    STRENGTHS,
    CrossFitting,
    MembershipModel,
    ScoreSource,
    query_source,
)
from evenhand.mitigation.config import AlternativesConfig, GapName
from evenhand.mitigation.methods.saving import PICKLED, SaveScorer
from evenhand.mitigation.split import put_in_one_table
from evenhand.mitigation.study import Study, limit_queries
from evenhand.models.scorer import Scorer, WrappedScorer
from evenhand.models.subject import Subject
from evenhand.schema.people import People
from evenhand.stats.auc import auc
from evenhand.stats.distribution import kolmogorov_distance
from evenhand.stats.quantity import quantity_value

SHARES = (0.5, 0.25, 0.25)
"""Shares of the training, validation and test sets. Training and validation are cross-fitted together."""


@dataclass(frozen=True, eq=False)
class AlternativeSearch:
    """Search with its models.

    Attributes:
        result: Record of the search.
        models: All candidates, in the order of the record.
        savers: Functions that write the models.
    """

    result: AlternativesResult
    models: tuple[Scorer, ...]
    savers: tuple[Callable[[Path], tuple[Path, ...]], ...]

    def save(self, path: Path | str) -> tuple[Path, ...]:
        """Write the chosen model and return the files. None if the original model is kept.

        Raises:
            EvenhandError: The model cannot be written to this file.
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

    Candidates are fitted and chosen on cross-fitted scores of three quarters of the people. On the other people,
    accuracy and gap are compared with the original model, candidate 0, by paired intervals that hold jointly for all
    candidates on the frontier. See ``RULE`` for the choice.

    Args:
        subject: Model with two labels, and people with true labels.
        config: Settings.
        test: Separate test set. All people of the subject are then used for the choice.
        test_name: Name of the separate test set.
        out: File for the chosen model. It is first checked that all candidates can be written to it.
        progress: Progress callback.
        settings: Fields of ``AlternativesConfig``, which override those in ``config``.

    Raises:
        EvenhandError: The model, the people or a setting is invalid.
    """
    started = time.perf_counter()
    config = AlternativesConfig.of(config, settings)
    if test is not None:
        subject, test = put_in_one_table(subject, test)
    with limit_queries(subject, config.budget) as count_queries:
        search = _Search(subject, config, test, out, progress or ignore_progress, started)
        recipes = search.propose()
        result = search.compare(recipes, test_name, count_queries())
    models = tuple(map(search.model, recipes))
    # A model of the original kind is written in its own format.
    savers = tuple(
        (recipe.source.save if recipe.rule is None else None) or SaveScorer(model, config.decide_without)
        for recipe, model in zip(recipes, models, strict=True)
    )
    return AlternativeSearch(result, models, savers)


@dataclass(frozen=True, eq=False)
class SearchPart:
    """Validation or test set of a search.

    Attributes:
        people: People.
        group: Group of each person, shape (n,).
        gap: Gap to reduce.
        inputs: Inputs of the rules by source of the scores.
    """

    people: People
    group: Integers
    gap: RateGap
    inputs: dict[ScoreSource, RuleInputs] = field(default_factory=dict)

    @classmethod
    def of(cls, people: People, groups: ProtectedGroups, gap: GapName) -> SearchPart:
        """Find the groups of people."""
        group = groups(people.individuals)
        return cls(people, group, RateGap.of(gap, group, people.favourable, len(groups.labels)))

    def decide(self, recipes: Sequence[CandidateRecipe]) -> Booleans:
        """Compute the decisions of candidates, shape (candidates, n)."""
        return np.stack([recipe.accepts(self.inputs[recipe.source]) for recipe in recipes])

    def measure(self, recipe: CandidateRecipe, accepted: Booleans, labels: Sequence[str]) -> AlternativeNumbers:
        """Compute the numbers of a candidate from its scores and decisions (n,).

        The standardised mean difference of a group is ``(mean - mean of the largest group) / sd``, with the standard
        deviation of all scores (n - 1).
        """
        favourable, scores = self.people.favourable, recipe.scores(self.inputs[recipe.source])
        masks = [self.group == number for number in range(len(labels))]
        members = {label: mask for label, mask in zip(labels, masks, strict=True) if mask.any()}
        rates = {label: float(accepted[mask].mean()) for label, mask in members.items()}
        deviation = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
        largest = scores[max(masks, key=np.count_nonzero)].mean()
        both = favourable.any() and not favourable.all()
        return AlternativeNumbers(
            accuracy=float((accepted == favourable).mean()),
            auc=quantity_value(auc(scores, favourable)),
            ks=kolmogorov_distance(scores[favourable], scores[~favourable]) if both else None,
            gap=float(self.gap.sizes(accepted.astype(np.float64))),
            ratio=min(rates.values()) / max(rates.values()) if max(rates.values()) > 0 else None,
            selection_rates=rates,
            smd={
                label: float((scores[mask].mean() - largest) / deviation) if deviation > 0 else None
                for label, mask in members.items()
            },
        )


class _Search:
    """Search in progress: validation and test set, and the fitted models."""

    def __init__(
        self,
        subject: Subject,
        config: AlternativesConfig,
        test: People | None,
        out: Path | None,
        progress: Progress,
        started: float,
    ) -> None:
        people, schema = subject.people, subject.people.schema
        if not schema.protected:
            raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
        unknown = [name for name in config.decide_without if name not in schema.names]
        if unknown:
            raise OptionError(
                f"no attribute {unknown[0]!r}", location="`decide_without=`", hint=f"use {', '.join(schema.names)}"
            )
        progress("loading the model", 0.0)
        model = subject.scorer
        if len(model.classes) != 2:
            raise DataError(
                f"expected a model with two labels, got a model that decides between {len(model.classes)}",
                location=model.name,
                hint="omit `against=` and choose a method for several labels, such as retrain",
            )
        self.study = Study.prepare(subject, model, test, config, shares=SHARES)
        self.config, self.progress, self.started = config, progress, started
        split = self.study.split
        rows = np.isin(people.rows, np.concatenate([split.train.rows, split.validation.rows]))
        validation = people.at(np.flatnonzero(rows))
        self.groups = ProtectedGroups.of(validation)
        self.validation = SearchPart.of(validation, self.groups, config.against)
        self.test = SearchPart.of(split.test, self.groups, config.against)
        self.allows_group = not set(config.decide_without) & set(schema.protected)
        self.fitting = CrossFitting(
            people=validation,
            group=self.validation.group,
            given=model,
            learner=self.study.learner,
            hidden=config.decide_without,
            seed=config.seed,
        )
        self.notes = list(self.study.notes)
        self.membership: MembershipModel | None = None
        self.interrupted = False
        self.fits = 0
        learner = self.study.learner
        endings: tuple[str, ...] = PICKLED
        if learner is not None and not config.decide_without and set(config.methods) <= {"reweigh"}:
            endings = learner.endings or PICKLED
        if out is not None and out.suffix.lower() not in endings:
            raise OptionError(
                f"some alternatives cannot be written to a file that ends in {out.suffix!r}",
                location=str(out),
                hint="use a file name that ends in .joblib, or `methods=reweigh` to keep the format of the model",
            )

    def propose(self) -> list[CandidateRecipe]:
        """Fit all models, and list the candidates."""
        sources = self._fit_sources()
        validation, test = self.validation, self.test
        individuals = test.people.individuals
        memberships: tuple[Floats | None, Floats | None] = None, None
        if "tilt" in self.config.methods:
            self.membership, cross_fitted = self.fitting.membership(self.progress)
            self.fits += (FOLDS + 1) * len(self.membership.scorers)
            memberships = cross_fitted, self.membership(individuals)
        self.progress("searching candidates", 0.75)
        for source in sources:
            for part, inputs, membership in zip(
                (validation, test), (source.inputs, query_source(source.scorer, individuals)), memberships, strict=True
            ):
                part.inputs[source] = inputs._replace(group=part.group, membership=membership)
        return list(
            propose_candidates(
                self.config, validation.inputs, validation.people.favourable, allows_group=self.allows_group
            )
        )

    def _fit_sources(self) -> list[ScoreSource]:
        learner, limit = self.study.learner, self.config.time_limit
        sources = self.fitting.given_sources()
        strengths = STRENGTHS if "reweigh" in self.config.methods else STRENGTHS[:1]
        try:
            for number, strength in enumerate(strengths if learner is not None else ()):
                if number and limit is not None and time.perf_counter() - self.started > limit:
                    self.interrupted = True
                    break
                self.progress(f"reweighing with strength {strength:g}", 0.7 * number / len(strengths))
                sources.append(self.fitting.fitted_source(strength))
                self.fits += FOLDS + 1
        except KeyboardInterrupt:
            self.interrupted = True
        if learner is None:
            self.notes.append(
                "The model cannot be retrained, so nothing was refitted. Name a training function: `fit=`."
            )
        elif not learner.takes_weights and len(strengths) > 1:
            self.notes.append("The learner does not use weights, so reweighed models are trained on resampled people.")
        return sources

    def compare(self, recipes: Sequence[CandidateRecipe], test_name: str, queries: int) -> AlternativesResult:
        """Choose a candidate on the validation set, compare it and the frontier on the test set, and record all."""
        config, validation, test = self.config, self.validation, self.test
        self.progress("choosing", 0.85)
        decisions = {part: part.decide(recipes) for part in (validation, test)}
        correct = decisions[validation] == validation.people.favourable
        refits = (i for i, recipe in enumerate(recipes) if recipe.method == "refit")
        baseline = find_baseline(correct, next(refits, None))
        if baseline:
            self.notes.append(
                f"Refitted without changes, the model has an accuracy of {100 * correct[baseline].mean():.1f} % "
                f"on the validation set, and the original model of {100 * correct[0].mean():.1f} %. The original model "
                "was trained on these people or on other data, so the losses of refitted models are measured from "
                "the model refitted without changes."
            )
        ranking = rank_candidates(
            decisions[validation],
            validation.people.favourable,
            validation.gap,
            baselines=np.where([recipe.source.strength is not None for recipe in recipes], baseline, 0),
            allowed=config.accuracy_loss,
            new_people=len(test.people),
            parameters=[recipe.parameters for recipe in recipes],
        )
        changes = compare_frontier(
            decisions[test],
            test.people.favourable,
            test.gap,
            sorted({*map(int, np.flatnonzero(ranking.frontier)), ranking.chosen} - {0}),
            [validation.gap.widest(accepted.astype(np.float64)) for accepted in decisions[validation]],
            confidence=config.confidence,
            seed=config.seed,
        )
        self.progress("writing the record", 0.9)
        candidates = []
        for number, recipe in enumerate(recipes):
            gap_change = changes.gap.get(number)
            measured = [
                part.measure(recipe, accepted[number], self.groups.labels) for part, accepted in decisions.items()
            ]
            candidates.append(
                AlternativeCandidate(
                    number=number,
                    method=recipe.method,
                    recipe=recipe.recipe,
                    settings=recipe.settings,
                    asks=validation.people.schema.protected if recipe.uses_group else (),
                    validation=measured[0],
                    test=measured[1],
                    loss=float(ranking.losses[number]),
                    margin=float(ranking.margins[number]),
                    feasible=bool(ranking.feasible[number]),
                    on_frontier=bool(ranking.frontier[number]),
                    accuracy_change=changes.accuracy.get(number),
                    gap_change=gap_change,
                    verdict="not comparable" if gap_change is None else gap_change.verdict("down"),
                )
            )
        chosen, reason = _judge(candidates[ranking.chosen])
        losses = (ranking.losses + ranking.margins)[ranking.gaps < ranking.gaps[0] - 1e-12]
        return AlternativesResult(
            **self.study.result_fields(test_name, config),
            against=config.against,
            protected=validation.people.schema.protected,
            groups=self.groups.labels,
            decide_without=config.decide_without,
            families=config.methods,
            space=describe_space(config.methods, allows_group=self.allows_group, fits=self.study.learner is not None),
            fits=self.fits,
            validation=len(validation.people),
            test=len(test.people),
            baseline=baseline,
            rule=RULE,
            critical=0.0 if math.isnan(changes.critical) else changes.critical,
            candidates=tuple(candidates),
            picked=ranking.chosen,
            chosen=chosen,
            reason=reason,
            least_loss=max(0.0, float(losses.min())) if len(losses) else None,
            queries=queries,
            interrupted=self.interrupted,
            notes=tuple(self.notes),
            seconds=time.perf_counter() - self.started,
        )

    def model(self, recipe: CandidateRecipe) -> Scorer:
        """Create the model of a candidate."""
        if recipe.rule is None:
            return recipe.source.scorer
        groups, membership = (self.groups, None) if recipe.uses_group else (None, self.membership)
        return AlternativeModel(recipe.source.scorer, recipe.rule, groups, membership, recipe.recipe)


def _judge(picked: AlternativeCandidate) -> tuple[int | None, str]:
    """Decide whether the candidate chosen on the validation set replaces the original model, and explain it."""
    if picked.number == 0:
        return None, "no candidate within the allowed loss of accuracy has a significantly smaller gap"
    change = picked.gap_change
    assert change is not None, "the chosen candidate is compared"
    if picked.verdict != "better":
        return None, (
            f"candidate {picked.number} has the smallest gap within the allowed loss on the validation set, but its "
            f"gap on the test set is not significantly smaller: {change.points} points"
        )
    return picked.number, (
        "it has the smallest gap within the allowed loss on the validation set, up to one standard error, and on the "
        f"test set the gap changes by {change.points} points"
    )


@dataclass(frozen=True, eq=False)
class AlternativeModel(WrappedScorer):
    """Model that combines a score source and a rule.

    Attributes:
        model: Score source.
        rule: Rule.
        groups: Function that finds groups. None if the rule does not use them.
        membership: Model of group membership. None if the rule does not use it.
        label: Name in reports.
    """

    model: Scorer
    rule: Tilt
    groups: ProtectedGroups | None
    membership: MembershipModel | None
    label: str

    decides = True
    label_only = False

    @property
    def name(self) -> str:
        """Name in reports."""
        return self.label

    def rule_inputs(self, individuals: Floats) -> RuleInputs:
        """Compute the inputs of the rule for individuals (n, attributes)."""
        return query_source(self.model, individuals)._replace(
            group=None if self.groups is None else self.groups(individuals),
            membership=None if self.membership is None else self.membership(individuals),
        )

    def scores(self, individuals: Floats) -> Floats:
        """Compute the score of each class, shape (n, 2)."""
        score = self.rule.scores(self.rule_inputs(individuals))
        return np.stack((1 - score, score) if self.favourable == 1 else (score, 1 - score), axis=1)

    def predict(self, individuals: Floats) -> Integers:
        """Predict the label of each individual, shape (n,)."""
        accepted = self.rule.accepts(self.rule_inputs(individuals))
        return np.where(accepted, self.favourable, 1 - self.favourable).astype(np.int64)
