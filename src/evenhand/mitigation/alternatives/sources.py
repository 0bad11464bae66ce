"""Models whose scores the rules work on: the given one, and its kind fitted again by weights, always cross-fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.mitigation.alternatives.rules import RuleInputs
from evenhand.mitigation.learners.boosting import BoosterLearner
from evenhand.mitigation.learners.estimator import EstimatorLearner
from evenhand.mitigation.learners.learner import Learner
from evenhand.mitigation.learners.logistic import fit_logistic
from evenhand.mitigation.split import TrainingSet
from evenhand.mitigation.training.blind import BlindModel, fix_people, most_frequent_row
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.scorer import Scorer, favourable_score, predict_labels
from evenhand.schema.people import People

STRENGTHS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Of reweighing: 0 fits the model again with nothing changed, 1 is Kamiran and Calders'."""

FOLDS = 3
"""Parts that people are cross-fitted in: each person's score is that of a model learnt from the other parts."""


def reweighing_weights(group: Integers, favourable: Booleans, strength: float = 1.0) -> Floats:
    """Return weights under which label and group are independent, taken to a power.

    ``(P(g) P(y) / P(g, y))^strength`` for a person's group g and label y (strength 1: Kamiran, Calders, "Data
    preprocessing techniques for classification without discrimination", KAIS 2012); a strength below 1 goes a part of
    the way, one above 1 beyond it.

    Args:
        group: codes from 0, shape (n,).
        favourable: true labels, shape (n,).
        strength: at least 0.
    """
    cell = 2 * group + favourable
    count = np.bincount(cell, minlength=2 * int(group.max(initial=0)) + 2).astype(np.float64).reshape(-1, 2)
    expected = count.sum(axis=1, keepdims=True) * count.sum(axis=0) / len(group)
    ratio = np.divide(expected, count, out=np.zeros_like(count), where=count > 0)
    return np.asarray(ratio.ravel()[cell] ** strength)


def fit_weighted(learner: Learner, people: People, weights: Floats, *, seed: int) -> Scorer:
    """Return a model fitted by weights (n,); a learner that takes none learns from people resampled by them."""
    if learner.takes_weights:
        return learner.fit(TrainingSet.plain(people, weights), seed=seed)
    reached = np.cumsum(weights) / weights.sum()
    offset = np.random.default_rng([seed, 61]).random()
    rows = np.searchsorted(reached, (np.arange(len(people)) + offset) / len(people))
    return learner.fit(TrainingSet.plain(people.at(np.minimum(rows, len(people) - 1))), seed=seed)


def assign_folds(group: Integers, favourable: Booleans, *, seed: int) -> Integers:
    """Return a fold of each person (n,), with the same share of each label of each group in every fold."""
    rng = np.random.default_rng([seed, 62])
    fold = np.empty(len(group), dtype=np.int64)
    order = rng.permutation(len(group))
    order = order[np.argsort((2 * group + favourable)[order], kind="stable")]
    fold[order] = np.arange(len(group)) % FOLDS
    return fold


@dataclass(frozen=True, eq=False)
class ScoreSource:
    """A model whose scores rules work on.

    Attributes:
        name: ``given``, ``untold`` (the given model, asked alike about everybody), ``refit`` or ``reweigh``.
        strength: of the weights; None of the given model.
        scorer: the model as it would be written.
        known: its answers about the people who are chosen on, none learnt from the person's own label unless the given
            model was.
        save: writes it in its own format; None where it has none.
    """

    name: str
    strength: float | None
    scorer: Scorer
    known: RuleInputs
    save: Callable[[Path], tuple[Path, ...]] | None = None


@dataclass(frozen=True, eq=False)
class MembershipModel:
    """How probable each group is, from everything but what makes the groups.

    Attributes:
        scorers: of two groups one, for the second; of more one for each.
    """

    scorers: tuple[Scorer, ...]

    def __call__(self, individuals: Floats) -> Floats:
        """Return the probability of each group, shape (n, groups), rows adding up to 1."""
        return _as_shares(np.stack([favourable_score(one, individuals) for one in self.scorers], axis=1))


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """Fits models of the given one's kind, each also without every fold in turn.

    Attributes:
        people: whom to learn from and choose on. group, groups: whose group each is in, and how many there are.
        given: the model as it is; learner: how its kind is trained, None if unknown.
        hidden: attributes that the model is not told. seed: of everything drawn.
        lot: everybody's lot.
    """

    people: People
    group: Integers
    groups: int
    given: Scorer
    learner: Learner | None
    hidden: tuple[str, ...]
    seed: int
    lot: Floats

    def given_sources(self) -> list[ScoreSource]:
        """Return the given model, and besides, where it reads what is hidden, the same asked alike about everybody."""
        individuals, scorer = self.people.individuals, self.given
        sources = [ScoreSource("given", None, scorer, ask_source(scorer, individuals, self.lot))]
        hidden = self._told_of(self.hidden)
        if hidden:
            alike = BlindModel(scorer, hidden, most_frequent_row(individuals[:, list(hidden)]))
            sources.append(ScoreSource("untold", None, alike, ask_source(alike, individuals, self.lot)))
        return sources

    def fitted_source(self, strength: float) -> ScoreSource:
        """Return the given model's kind fitted by reweighing of a strength."""
        learner = self.learner
        assert learner is not None, "asked only where there is a learner"
        weights = reweighing_weights(self.group, self.people.favourable, strength)

        def fit(rows: Integers, people: People) -> Scorer:
            if strength == 0:
                return learner.fit(TrainingSet.plain(people.at(rows)), seed=self.seed)
            return fit_weighted(learner, people.at(rows), weights[rows], seed=self.seed)

        hidden = self._told_of(self.hidden)
        scorer, known, plain = self._cross_fit(fit, hidden)
        save = None if hidden else lambda path: learner.save(plain, path)
        return ScoreSource("reweigh" if strength else "refit", strength, scorer, known, save)

    def membership(self, progress: Progress) -> tuple[MembershipModel, Floats]:
        """Return how probable each group is: the model, and its cross-fitted answers (n, groups).

        Learnt like the model where that is an estimator or a booster, else by a logistic regression, never from the
        attributes that make the groups.
        """
        schema = self.people.schema
        values = schema.target.values or ()
        yes = values.index(schema.target.favourable)
        no = next(i for i in range(len(values)) if i != yes)
        scorers, answers = [], []
        learner = self.learner if isinstance(self.learner, EstimatorLearner | BoosterLearner) else None
        wanted = range(1, 2) if self.groups == 2 else range(self.groups)
        for number, one in enumerate(wanted):
            progress("learning who is in which group", number / len(wanted))
            labels = np.where(self.group == one, yes, no)

            def fit(rows: Integers, people: People, labels: Integers = labels) -> Scorer:
                about = replace(people, labels=labels).at(rows)
                if learner is None:
                    return fit_logistic(about, self.given)
                return learner.fit(TrainingSet.plain(about), seed=self.seed)

            scorer, known, _ = self._cross_fit(fit, tuple(schema.positions(schema.protected)))
            scorers.append(scorer)
            answers.append(known.score)
        return MembershipModel(tuple(scorers)), _as_shares(np.stack(answers, axis=1))

    def _told_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the positions of those attributes that the model may look at."""
        columns = self.given.columns if isinstance(self.given, EstimatorModel) else None
        return tuple(self.people.schema.positions([one for one in names if columns is None or one in columns]))

    def _cross_fit(
        self, fit: Callable[[Integers, People], Scorer], hidden: tuple[int, ...]
    ) -> tuple[Scorer, RuleInputs, Scorer]:
        """Return a model of all people, cross-fitted answers about them, and the model before anything is hidden."""
        people = self.people
        entries = most_frequent_row(people.individuals[:, list(hidden)]) if hidden else np.empty(0)
        told = fix_people(people, hidden, entries) if hidden else people
        fold = assign_folds(self.group, people.favourable, seed=self.seed)
        score, accepted = np.empty(len(people)), np.empty(len(people), dtype=np.bool_)
        # No person's answer comes from a model that learnt from them.
        for number in range(FOLDS):
            out = np.flatnonzero(fold == number)
            model = fit(np.flatnonzero(fold != number), told)
            known = ask_source(model, told.individuals[out], self.lot[out])
            score[out], accepted[out] = known.score, known.accepted
        plain = fit(np.arange(len(people)), told)
        scorer: Scorer = BlindModel(plain, hidden, entries) if hidden else plain
        return scorer, RuleInputs(score, accepted, None, None, self.lot), plain


def ask_source(scorer: Scorer, individuals: Floats, lot: Floats) -> RuleInputs:
    """Return a model's scores and decisions about individuals (n, attributes) whose lots are known (n,)."""
    accepted = predict_labels(scorer, individuals) == scorer.favourable
    return RuleInputs(favourable_score(scorer, individuals), np.asarray(accepted), None, None, lot)


def _as_shares(found: Floats) -> Floats:
    if found.shape[1] == 1:
        return np.concatenate([1 - found, found], axis=1)
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-12))
