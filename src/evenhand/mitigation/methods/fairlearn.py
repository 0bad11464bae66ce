"""Exponentiated gradient reduction of fairlearn (extra ``fairlearn``)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evenhand.core.interrupts import InterruptGuard
from evenhand.core.typing import Floats, Integers
from evenhand.errors import MissingExtraError
from evenhand.mitigation.candidate import ROUNDING, Candidate, MitigationTask, TrialLog
from evenhand.mitigation.learners.estimator import weight_argument
from evenhand.mitigation.learners.logistic import StandardEncoding
from evenhand.mitigation.methods.constrained_groups import ConstrainedGroups, require_two_labels
from evenhand.mitigation.methods.lots import draw_lots
from evenhand.mitigation.methods.saving import SaveScorer
from evenhand.models.blackbox.base import model_input
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema

BOUNDS = (0.01, 0.05)
"""Bounds of the difference in selection rates. 0.01 is fairlearn's default."""

ROUNDS = 50
"""Maximum number of iterations, fairlearn's default."""

NOTES = (
    "Fairlearn draws each answer at random. Here the draw is fixed by the unprotected attributes of a person, so that "
    "equal requests get equal answers.",
    "A .joblib file can run code when it is read, so it must be trusted.",
)


@dataclass(frozen=True, eq=False)
class RandomizedClassifier:
    """Mixture of models with two labels. The draw of each person is fixed.

    Attributes:
        schema, classes, favourable, name: As for any scorer.
        parts: Weights, and models whose ``predict`` returns 1 for the favourable label.
        seed: Seed of the draws.
    """

    schema: Schema
    classes: tuple[Value, ...]
    favourable: int
    name: str
    parts: tuple[tuple[float, Any], ...]
    seed: int
    label_only: bool = False

    def probability(self, individuals: Floats) -> Floats:
        """Compute the probability of the favourable label, shape (n,)."""
        total = sum(weight for weight, _ in self.parts)
        probability = np.zeros(len(individuals))
        for weight, model in self.parts:
            probability += weight / total * np.asarray(model.predict(individuals), dtype=np.float64)
        return probability

    def scores(self, individuals: Floats) -> Floats:
        """Compute the probability of each label, shape (n, 2)."""
        favourable = np.clip(self.probability(individuals), 0.0, 1.0)
        columns = (1 - favourable, favourable) if self.favourable == 1 else (favourable, 1 - favourable)
        return np.stack(columns, axis=1)

    def predict(self, individuals: Floats) -> Integers:
        """Predict the label by the draw of each person, shape (n,)."""
        accepted = self.probability(individuals) > draw_lots(self.schema, individuals, seed=self.seed)
        return np.where(accepted, self.favourable, 1 - self.favourable).astype(np.int64)


def exponentiated_gradient(task: MitigationTask) -> Candidate:
    """Train a mixture of models on weights that make the selection rates of groups equal.

    The model is retrained if it is a scikit-learn classifier that accepts weights. Otherwise, and for schemas with
    passthrough columns or unknown values, the base model is a logistic regression. The bound of the difference in rates
    is chosen among ``BOUNDS`` on the validation set: the smallest metrics within the allowed loss of accuracy, or the
    most accurate.

    Raises:
        MissingExtraError: Fairlearn is not installed.
        DataError: There are more than two labels, or fewer than two groups.

    References:
        Agarwal, Beygelzimer, Dudik, Langford, Wallach, "A reductions approach to fair classification", ICML 2018.
    """
    try:
        from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    except ImportError:
        raise MissingExtraError("fairlearn", extra="fairlearn", purpose="for fairlearn's methods") from None
    from threadpoolctl import threadpool_limits

    train, model = task.split.train, task.given
    require_two_labels(model)
    groups = ConstrainedGroups.of(train, task.harms)
    base, words = _base_model(task)
    log: TrialLog[RandomizedClassifier] = TrialLog(task)
    interrupted = False
    try:
        with threadpool_limits(1):  # sums must not depend on the number of cores
            for i, bound in enumerate(BOUNDS):
                task.progress(f"exponentiated gradient, difference at most {bound:g}", i / len(BOUNDS))
                if log.trials and task.is_late:
                    interrupted = True
                    break
                reduction = ExponentiatedGradient(
                    base, DemographicParity(difference_bound=bound), eps=bound, max_iter=ROUNDS
                )
                with warnings.catch_warnings(), InterruptGuard():
                    for kind in (DeprecationWarning, FutureWarning):  # about fairlearn's own dependencies
                        warnings.filterwarnings("ignore", category=kind, module=r"fairlearn\.")
                    reduction.fit(
                        train.individuals,
                        train.favourable.astype(np.int64),
                        sensitive_features=groups(train.individuals),
                    )
                weights = np.asarray(reduction.weights_.sort_index(), dtype=np.float64)
                parts = tuple(
                    (float(weight), reduction.predictors_[j]) for j, weight in enumerate(weights) if weight > 0
                )
                mixture = RandomizedClassifier(
                    model.schema, model.classes, model.favourable, "exponentiated gradient", parts, task.config.seed
                )
                log.record("bound", bound, mixture)
    except KeyboardInterrupt:
        interrupted = True
        if not log.trials:
            raise
    right = [trial.accuracy for trial in log.trials]
    required = log.given - task.config.accuracy_loss - ROUNDING
    allowed = [i for i, share in enumerate(right) if share >= required]
    best = min(allowed or [int(np.argmax(right))], key=lambda i: (log.remaining_harm(i), -right[i]))
    return Candidate(
        method="exponentiated-gradient",
        words=f"fairlearn's exponentiated gradient over {words}, rates {groups.words} at most {BOUNDS[best]:g} apart",
        scorer=log.models[best],
        save=SaveScorer(log.models[best]),
        trials=log.mark_chosen(best),
        interrupted=interrupted,
        notes=NOTES,
    )


class _FrameClassifier:
    """Scikit-learn classifier that is fitted on the inputs of the original model."""

    def __init__(self, model: Any, encode: Callable[[Floats], Any], weights: str) -> None:
        self.model, self.encode, self.weights = model, encode, weights

    def fit(self, individuals: Floats, labels: Integers, sample_weight: Floats) -> _FrameClassifier:
        from sklearn.base import clone
        from sklearn.exceptions import ConvergenceWarning

        self.model = clone(self.model)
        with warnings.catch_warnings():
            # Some weights are extreme. A model that did not converge is still a valid part of the mixture.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self.encode(individuals), np.asarray(labels), **{self.weights: np.asarray(sample_weight)})
        return self

    def predict(self, individuals: Floats) -> Integers:
        return np.asarray(self.model.predict(self.encode(individuals)), dtype=np.int64)


def _base_model(task: MitigationTask) -> tuple[_FrameClassifier, str]:
    """Choose the base model of the reduction, and describe it."""
    from sklearn.base import BaseEstimator, clone
    from sklearn.linear_model import LogisticRegression

    from evenhand.models.blackbox.estimator import EstimatorModel

    model, schema = task.given, task.split.train.schema
    # The file of a mixture contains no data, so individuals cannot refer to rows of a table.
    if isinstance(model, EstimatorModel) and isinstance(model.model, BaseEstimator) and not schema.carries_rows:
        weights = weight_argument(model.model)
        if weights is not None:
            like = model.like if model.like is None else model.like[:0]
            inputs = partial(
                model_input,
                schema,
                form=model.form,
                like=like,
                columns=model.columns,
                types=model.types,
                location=model.name,
            )
            estimator = clone(model.model)
            unset = {
                name: task.config.seed
                for name, value in estimator.get_params().items()
                if name.endswith("random_state") and value is None
            }
            return _FrameClassifier(estimator.set_params(**unset), inputs, weights), type(model.model).__name__
    encoding = StandardEncoding.of(task.split.train)
    return _FrameClassifier(LogisticRegression(max_iter=200), encoding, "sample_weight"), "a logistic regression"
