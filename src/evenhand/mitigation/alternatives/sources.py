"""Cross-fitted models whose scores the rules use: the original model, and refits of its kind with weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.mitigation.alternatives.rules import RuleInputs
from evenhand.mitigation.learners.estimator import EstimatorLearner
from evenhand.mitigation.learners.learner import Learner, target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.mitigation.training.blind import BlindModel, fix_people, most_frequent_row
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.scorer import Scorer, favourable_score, predict_labels
from evenhand.schema.attribute import Value
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

STRENGTHS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Strengths of reweighing. 0 refits the model without changes, and 1 is the strength of Kamiran and Calders."""

FOLDS = 3
"""Number of folds of cross-fitting: each score comes from a model trained on the other folds."""


def reweighing_weights(group: Integers, favourable: Booleans, strength: float = 1.0) -> Floats:
    """Compute weights under which label and group are independent, raised to a power.

    The weight is ``(P(g) P(y) / P(g, y))^strength`` for a person's group g and label y. Strength 1 is the weighting of
    Kamiran, Calders, "Data preprocessing techniques for classification without discrimination", KAIS 2012. A lower
    strength partly reduces the dependence, and a higher one reverses it.

    Args:
        group: Group codes from 0, shape (n,).
        favourable: True labels, shape (n,).
        strength: Power, at least 0.
    """
    cell = 2 * group + favourable
    count = np.bincount(cell, minlength=2 * int(group.max(initial=0)) + 2).astype(np.float64).reshape(-1, 2)
    expected = count.sum(axis=1, keepdims=True) * count.sum(axis=0) / len(group)
    ratio = np.divide(expected, count, out=np.zeros_like(count), where=count > 0)
    return np.asarray(ratio.ravel()[cell] ** strength)


def assign_folds(group: Integers, favourable: Booleans, *, seed: int) -> Integers:
    """Assign a fold to each person (n,), stratified by group and label."""
    rng = np.random.default_rng([seed, 62])
    fold = np.empty(len(group), dtype=np.int64)
    order = rng.permutation(len(group))
    order = order[np.argsort((2 * group + favourable)[order], kind="stable")]
    fold[order] = np.arange(len(group)) % FOLDS
    return fold


@dataclass(frozen=True, eq=False)
class ScoreSource:
    """Model whose scores rules use.

    Attributes:
        name: ``given``, ``untold`` (the original model with hidden attributes fixed), ``refit`` or ``reweigh``.
        strength: Strength of the weights. None for the original model.
        scorer: Model as it would be written.
        inputs: Its cross-fitted predictions for the validation set. Those of the original model are not cross-fitted.
        save: Function that writes it in its own format, or None.
    """

    name: str
    strength: float | None
    scorer: Scorer
    inputs: RuleInputs
    save: Callable[[Path], tuple[Path, ...]] | None = None


@dataclass(frozen=True, eq=False)
class MembershipModel:
    """Model of the probability of each group, without the attributes that define the groups.

    Attributes:
        scorers: One model for the second of two groups, or one for each of several groups.
    """

    scorers: tuple[Scorer, ...]

    def __call__(self, individuals: Floats) -> Floats:
        """Compute the probability of each group, shape (n, groups). Rows add up to 1."""
        return _as_shares(np.stack([favourable_score(scorer, individuals) for scorer in self.scorers], axis=1))


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """Cross-fitting of models of the original kind.

    Attributes:
        people: Training and validation people.
        group: Group of each person, shape (n,).
        given: Original model.
        learner: Learner of its kind, or None.
        hidden: Attributes that the models must not use.
        seed: Random seed.
    """

    people: People
    group: Integers
    given: Scorer
    learner: Learner | None
    hidden: tuple[str, ...]
    seed: int

    def given_sources(self) -> list[ScoreSource]:
        """Return the original model, and if it uses hidden attributes, a version in which these are fixed."""
        individuals, scorer = self.people.individuals, self.given
        sources = [ScoreSource("given", None, scorer, query_source(scorer, individuals))]
        hidden = self._used(self.hidden)
        if hidden:
            fixed = BlindModel(scorer, hidden, most_frequent_row(individuals[:, list(hidden)]))
            sources.append(ScoreSource("untold", None, fixed, query_source(fixed, individuals)))
        return sources

    def fitted_source(self, strength: float) -> ScoreSource:
        """Refit the original model with reweighing of the given strength.

        A learner without weights is trained on people resampled by them.
        """
        learner = self.learner
        assert learner is not None, "models are refitted only with a learner"
        weights = reweighing_weights(self.group, self.people.favourable, strength)

        def fit(rows: Integers, people: People) -> Scorer:
            if strength == 0 or learner.takes_weights:
                return learner.fit(
                    TrainingSet.plain(people.at(rows), weights[rows] if strength else None), seed=self.seed
                )
            cumulated = np.cumsum(weights[rows]) / weights[rows].sum()
            offset = np.random.default_rng([self.seed, 61]).random()
            places = np.searchsorted(cumulated, (np.arange(len(rows)) + offset) / len(rows))
            sample = people.at(rows).at(np.minimum(places, len(rows) - 1))
            return learner.fit(TrainingSet.plain(sample), seed=self.seed)

        hidden = self._used(self.hidden)
        scorer, inputs, refitted = self._cross_fit(fit, hidden)
        save = None if hidden else lambda path: learner.save(refitted, path)
        return ScoreSource("reweigh" if strength else "refit", strength, scorer, inputs, save)

    def membership(self, progress: Progress) -> tuple[MembershipModel, Floats]:
        """Fit a model of group membership, and return it with its cross-fitted probabilities (n, groups).

        It uses the learner of an estimator, and otherwise a logistic regression, without the attributes that
        define the groups.
        """
        schema = self.people.schema
        values = schema.target.values or ()
        yes = values.index(schema.target.favourable)
        no = next(i for i in range(len(values)) if i != yes)
        scorers, scores = [], []
        groups = int(self.group.max()) + 1
        learner = self.learner if isinstance(self.learner, EstimatorLearner) else None
        modelled = range(1, 2) if groups == 2 else range(groups)
        for number, group in enumerate(modelled):
            progress("fitting group membership", number / len(modelled))
            labels = np.where(self.group == group, yes, no)

            def fit(rows: Integers, people: People, labels: Integers = labels) -> Scorer:
                training = replace(people, labels=labels).at(rows)
                if learner is None:
                    return fit_logistic(training, self.given)
                return learner.fit(TrainingSet.plain(training), seed=self.seed)

            scorer, inputs, _ = self._cross_fit(fit, tuple(schema.positions(schema.protected)))
            scorers.append(scorer)
            scores.append(inputs.score)
        return MembershipModel(tuple(scorers)), _as_shares(np.stack(scores, axis=1))

    def _used(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the positions of the attributes that the model may use."""
        columns = self.given.columns if isinstance(self.given, EstimatorModel) else None
        return tuple(self.people.schema.positions([name for name in names if columns is None or name in columns]))

    def _cross_fit(
        self, fit: Callable[[Integers, People], Scorer], hidden: tuple[int, ...]
    ) -> tuple[Scorer, RuleInputs, Scorer]:
        """Fit a model. Return the model, its cross-fitted predictions, and the model before hiding attributes."""
        people = self.people
        entries = most_frequent_row(people.individuals[:, list(hidden)]) if hidden else np.empty(0)
        fixed = fix_people(people, hidden, entries) if hidden else people
        fold = assign_folds(self.group, people.favourable, seed=self.seed)
        score, accepted = np.empty(len(people)), np.empty(len(people), dtype=np.bool_)
        # No prediction comes from a model that was trained on the same person.
        for number in range(FOLDS):
            rows = np.flatnonzero(fold == number)
            model = fit(np.flatnonzero(fold != number), fixed)
            inputs = query_source(model, fixed.individuals[rows])
            score[rows], accepted[rows] = inputs.score, inputs.accepted
        refitted = fit(np.arange(len(people)), fixed)
        scorer: Scorer = BlindModel(refitted, hidden, entries) if hidden else refitted
        return scorer, RuleInputs(score, accepted), refitted


def query_source(scorer: Scorer, individuals: Floats) -> RuleInputs:
    """Compute the scores and decisions of a model for individuals (n, attributes)."""
    accepted = predict_labels(scorer, individuals) == scorer.favourable
    return RuleInputs(favourable_score(scorer, individuals), np.asarray(accepted))


def _as_shares(probabilities: Floats) -> Floats:
    if probabilities.shape[1] == 1:
        return np.concatenate([1 - probabilities, probabilities], axis=1)
    return np.asarray(probabilities / np.maximum(probabilities.sum(axis=1, keepdims=True), 1e-12))


ROUNDS = 200
"""Maximum number of iterations of L-BFGS."""


@dataclass(frozen=True, eq=False)
class LogisticScorer:
    """Pipeline with a logistic regression over individuals, with the classes of another model."""

    schema: Schema
    classes: tuple[Value, ...]
    favourable: int
    name: str
    model: Any
    label_only: bool = False

    def scores(self, individuals: Floats) -> Floats:
        """Compute the probability of each class, shape (n, classes)."""
        probabilities = np.zeros((len(individuals), len(self.classes)))
        probabilities[:, self.model.classes_] = self.model.predict_proba(individuals)
        return probabilities

    def predict(self, individuals: Floats) -> Integers:
        """Predict the most probable class, shape (n,)."""
        return np.asarray(self.scores(individuals).argmax(axis=1), dtype=np.int64)


def fit_logistic(people: People, model: Scorer) -> LogisticScorer:
    """Fit a logistic regression on all attributes, for the labels of a model. It is not random.

    Numbers are standardised, categories are one-hot, and missing values have indicators.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from threadpoolctl import threadpool_limits

    attributes = people.schema.attributes
    words = [i for i, attribute in enumerate(attributes) if attribute.kind == "categorical"]
    values = [[*attributes[i].domain(), *([np.nan] if attributes[i].missing == "keep" else [])] for i in words]
    numbers = [i for i in range(len(attributes)) if i not in words]
    imputer = SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True, keep_empty_features=True)
    encoder = make_column_transformer(
        (OneHotEncoder(categories=values, handle_unknown="ignore", sparse_output=False), words),
        (make_pipeline(StandardScaler(), imputer), numbers),
    )
    labels = target_labels(TrainingSet.plain(people), model)
    with threadpool_limits(limits=1):
        pipeline = make_pipeline(encoder, LogisticRegression(max_iter=ROUNDS)).fit(people.individuals, labels)
    return LogisticScorer(model.schema, model.classes, model.favourable, "a logistic regression", pipeline)
