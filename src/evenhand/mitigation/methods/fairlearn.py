"""Fairlearn's methods as candidates beside the others (needs the extra ``fairlearn``).

The exponentiated gradient is a mixture of models trained on weights that make rates alike; the threshold optimizer is
the given model with a threshold of its own for every group."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.interrupts import InterruptGuard
from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError
from evenhand.mitigation.candidate import Candidate, MitigationTask
from evenhand.mitigation.learners.estimator import weight_argument
from evenhand.mitigation.learners.logistic import StandardEncoding
from evenhand.mitigation.methods.randomized import (
    RANDOMISED,
    TRUSTED,
    ConstrainedGroups,
    RandomizedClassifier,
    SaveScorer,
    choose_trial,
    make_randomized,
    require_fairlearn,
    require_two_labels,
    silence_warnings,
)
from evenhand.models.column_types import ColumnTypes
from evenhand.models.scorer import Scorer, favourable_score
from evenhand.schema.schema import Schema

BOUNDS = (0.01, 0.05)
"""Differences in rates that are tried as the bound of the exponentiated gradient; 0.01 is fairlearn's own."""


ROUNDS = 50
"""Of the exponentiated gradient at most, as fairlearn's own."""


def exponentiated_gradient(task: MitigationTask) -> Candidate:
    """Return a mixture of models, trained on weights that make the groups' rates alike.

    Trained is the given model if it is a scikit-learn classifier that takes weights, else, and where the schema has
    passthrough columns or unknown values, a logistic regression of the attributes. What
    it comes to on the validation part chooses among `BOUNDS` of the difference in rates.

    Raises:
        MissingExtraError: fairlearn is not installed.
        DataError: there are more labels than two, or no two groups to compare.

    Source: Agarwal, Beygelzimer, Dudik, Langford, Wallach: A reductions approach to fair classification, ICML 2018.
    """
    require_fairlearn()
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    from threadpoolctl import threadpool_limits

    train, given = task.split.train, task.given
    require_two_labels(given)
    groups = ConstrainedGroups.of(train, task.harms)
    base, words = _base_model(task)
    group, label = groups(train.individuals), train.favourable.astype(np.int64)
    made: list[RandomizedClassifier] = []
    interrupted = False
    try:
        with threadpool_limits(1):  # sums must not depend on how many cores there are
            for i, bound in enumerate(BOUNDS):
                task.progress(f"exponentiated gradient, difference at most {bound:g}", i / len(BOUNDS))
                if made and task.deadline is not None and time.perf_counter() > task.deadline:
                    interrupted = True
                    break
                reduction = ExponentiatedGradient(
                    base, DemographicParity(difference_bound=bound), eps=bound, max_iter=ROUNDS
                )
                with silence_warnings(), InterruptGuard():
                    reduction.fit(train.individuals, label, sensitive_features=group)
                weights = np.asarray(reduction.weights_.sort_index(), dtype=np.float64)
                parts = [(float(w), reduction.predictors_[i]) for i, w in enumerate(weights) if w > 0]
                made.append(make_randomized(task, "exponentiated gradient", ModelMixture(tuple(parts))))
    except KeyboardInterrupt:
        interrupted = True
        if not made:
            raise
    best, trials = choose_trial(task, made, BOUNDS, "bound")
    return Candidate(
        method="exponentiated-gradient",
        words=f"fairlearn's exponentiated gradient over {words}, rates {groups.words} at most {BOUNDS[best]:g} apart",
        scorer=made[best],
        save=SaveScorer(made[best]),
        trials=trials,
        interrupted=interrupted,
        notes=(RANDOMISED, TRUSTED),
    )


@dataclass(frozen=True, eq=False)
class ModelMixture:
    """Models by the weight with which each is asked.

    Attributes:
        parts: weights, and models of which ``predict`` gives 1 for the favourable label.
    """

    parts: tuple[tuple[float, Any], ...]

    def __call__(self, individuals: Floats) -> Floats:
        total = sum(weight for weight, _ in self.parts)
        found = np.zeros(len(individuals))
        for weight, model in self.parts:
            found += weight / total * np.asarray(model.predict(individuals), dtype=np.float64)
        return found


class _FrameClassifier:
    """A scikit-learn classifier, fitted and asked in the way the given one is asked."""

    def __init__(self, model: Any, ask: Callable[[Floats], Any], weights: str) -> None:
        self.model, self.ask, self.weights = model, ask, weights

    def fit(self, individuals: Floats, labels: Integers, sample_weight: Floats) -> _FrameClassifier:
        import warnings

        from sklearn.base import clone
        from sklearn.exceptions import ConvergenceWarning

        self.model = clone(self.model)
        with warnings.catch_warnings():
            # Some of the weights are extreme; a model that has not settled is one more of the mixture.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self.ask(individuals), np.asarray(labels), **{self.weights: np.asarray(sample_weight)})
        return self

    def predict(self, individuals: Floats) -> Integers:
        return np.asarray(self.model.predict(self.ask(individuals)), dtype=np.int64)


@dataclass(frozen=True)
class _ModelInputs:
    """How a scikit-learn model wants its people."""

    schema: Schema
    form: Any
    like: Any
    columns: tuple[str, ...] | None
    types: ColumnTypes
    name: str

    def __call__(self, individuals: Floats) -> Any:
        from evenhand.models.blackbox.base import model_input

        return model_input(
            self.schema,
            individuals,
            self.form,
            like=self.like,
            columns=self.columns,
            types=self.types,
            location=self.name,
        )


def _base_model(task: MitigationTask) -> tuple[_FrameClassifier, str]:
    """Return what the reduction trains, and what it is."""
    from sklearn.base import BaseEstimator
    from sklearn.linear_model import LogisticRegression

    from evenhand.models.blackbox.estimator import EstimatorModel

    given, schema, seed = task.given, task.split.train.schema, task.config.seed
    # A file that the mixture is written to holds no data, so nothing that individuals carry of them.
    if isinstance(given, EstimatorModel) and isinstance(given.model, BaseEstimator) and not schema.carries_rows:
        weights = weight_argument(given.model)
        if weights is not None:
            like = given.like if given.like is None else given.like[:0]
            ask = _ModelInputs(schema, given.form, like, given.columns, given.types, given.name)
            return _FrameClassifier(_clone_seeded(given.model, seed), ask, weights), type(given.model).__name__
    encoded = StandardEncoding.of(task.split.train)
    return _FrameClassifier(LogisticRegression(max_iter=200), encoded, "sample_weight"), "a logistic regression"


def _clone_seeded(model: Any, seed: int) -> Any:
    """Return a copy, not fitted, that draws its random numbers from the seed."""
    from sklearn.base import clone

    model = clone(model)
    unset = {
        name: seed for name, value in model.get_params().items() if name.endswith("random_state") and value is None
    }
    return model.set_params(**unset)


def threshold_optimizer(task: MitigationTask) -> Candidate:
    """Return the given model with thresholds of its own for every group, so that the groups' rates are alike.

    Thresholds are learnt on the validation part, whose scores are not those of people of the training set.

    Raises:
        MissingExtraError: fairlearn is not installed.
        DataError: there are more labels than two, no two groups to compare, or the schema has passthrough columns or
            unknown values.

    Source: Hardt, Price, Srebro: Equality of opportunity in supervised learning, NIPS 2016.
    """
    require_fairlearn()
    from fairlearn.postprocessing import ThresholdOptimizer

    given, people = task.given, task.split.validation
    require_two_labels(given)
    if people.schema.carries_rows:
        raise DataError(
            "thresholds by group ask the given model, and a file that they are written to holds no data to look "
            "passthrough columns or words for unknown values up in",
            location=given.name,
            hint="leave this method out, or such columns",
        )
    task.progress("threshold optimizer", 0.0)
    groups = ConstrainedGroups.of(people, task.harms)
    optimizer = ThresholdOptimizer(
        estimator=_wrap_fitted(given), constraints="demographic_parity", prefit=True, predict_method="predict_proba"
    )
    group = groups(people.individuals)
    with silence_warnings():
        optimizer.fit(people.individuals, people.favourable.astype(np.int64), sensitive_features=group)
    # Fairlearn draws each time between two thresholds per group; here a person's draw, and so the answer, is fixed.
    learnt = optimizer.interpolated_thresholder_.interpolation_dict
    cuts = {
        int(name): tuple(
            (float(p), operation.operator, float(operation.threshold))
            for p, operation in ((one.p0, one.operation0), (one.p1, one.operation1))
        )
        for name, one in learnt.items()
    }
    made = make_randomized(task, "threshold optimizer", GroupThresholds(given, groups, cuts))
    _, trials = choose_trial(task, [made], (0.0,), "difference")
    return Candidate(
        method="threshold-optimizer",
        words=f"fairlearn's threshold optimizer: the given model, a threshold for each group, {groups.words}",
        scorer=made,
        save=SaveScorer(made),
        trials=trials,
        notes=(
            "it must be told who is in which group to decide, so decisions can flip with protected attributes more "
            "often than before",
            RANDOMISED,
            TRUSTED,
        ),
    )


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """A model and, for every group, two thresholds of its score with their probabilities.

    Attributes:
        given: the model.
        groups: who is in which.
        cuts: group -> probability, ``>`` or ``<``, threshold; twice.
    """

    given: Scorer
    groups: ConstrainedGroups
    cuts: dict[int, tuple[tuple[float, str, float], ...]]

    def __call__(self, individuals: Floats) -> Floats:
        scores, group = favourable_score(self.given, individuals), self.groups(individuals)
        found = np.zeros(len(individuals))
        for own, cuts in self.cuts.items():
            here = group == own
            for p, operator, threshold in cuts:
                beyond = scores[here] > threshold if operator == ">" else scores[here] < threshold
                found[here] += p * beyond
        return found


def _wrap_fitted(scorer: Scorer) -> Any:
    """Return the given model, as fairlearn asks one that is fitted."""
    from sklearn.base import BaseEstimator

    class Given(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, individuals: Floats, labels: Integers) -> Any:
            return self  # fairlearn looks whether there is such a method

        def predict_proba(self, individuals: Floats) -> Floats:
            score = favourable_score(scorer, individuals)
            return np.stack([1 - score, score], axis=1)

    return Given()
