"""Fairlearn's exponentiated gradient: a mixture of models trained on weights that make rates alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.mitigate.baselines.groups import Groups
from evenhand.mitigate.baselines.library import (
    RANDOMISED,
    TRUSTED,
    by_lot,
    chosen,
    its_own_warnings,
    need_fairlearn,
    need_two_labels,
)
from evenhand.mitigate.baselines.lots import ByLot, Floats, Ints, Save
from evenhand.mitigate.candidate import Candidate, Situation
from evenhand.schema import Schema

BOUNDS = (0.01, 0.05)
"""Differences in rates that are tried as the bound of the exponentiated gradient; 0.01 is fairlearn's own."""


ROUNDS = 50
"""Of the exponentiated gradient at most, as fairlearn's own."""


def exponentiated_gradient(situation: Situation) -> Candidate:
    """A mixture of models, trained on weights that make the groups' rates alike.

    Trained is the given model if it is a scikit-learn classifier that takes weights, else a logistic regression. What
    it comes to on the validation part chooses among `BOUNDS` of the difference in rates.

    Raises:
        MissingExtraError: fairlearn is not installed.
        DataError: there are more labels than two, or no two groups to compare.

    Source: Agarwal, Beygelzimer, Dudik, Langford, Wallach: A reductions approach to fair classification, ICML 2018.
    """
    need_fairlearn()
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    from threadpoolctl import threadpool_limits

    train, given = situation.split.train, situation.given
    need_two_labels(given)
    groups = Groups.of(train, situation.harms)
    base, words = _base(situation)
    group, label = groups(train.individuals), train.favourable.astype(np.int64)
    made: list[ByLot] = []
    interrupted = False
    try:
        with threadpool_limits(1):  # sums must not depend on how many cores there are
            for i, bound in enumerate(BOUNDS):
                situation.progress(f"exponentiated gradient, difference at most {bound:g}", i / len(BOUNDS))
                if made and situation.deadline is not None and time.perf_counter() > situation.deadline:
                    interrupted = True
                    break
                reduction = ExponentiatedGradient(
                    base, DemographicParity(difference_bound=bound), eps=bound, max_iter=ROUNDS
                )
                with its_own_warnings():
                    reduction.fit(train.individuals, label, sensitive_features=group)
                weights = np.asarray(reduction.weights_.sort_index(), dtype=np.float64)
                parts = [(float(w), reduction.predictors_[i]) for i, w in enumerate(weights) if w > 0]
                made.append(by_lot(situation, "exponentiated gradient", Mixture(tuple(parts))))
    except KeyboardInterrupt:
        interrupted = True
        if not made:
            raise
    best, trials = chosen(situation, made, BOUNDS, "bound")
    return Candidate(
        method="exponentiated-gradient",
        words=f"fairlearn's exponentiated gradient over {words}, rates {groups.words} at most {BOUNDS[best]:g} apart",
        scorer=made[best],
        save=Save(made[best]),
        trials=trials,
        interrupted=interrupted,
        notes=(RANDOMISED, TRUSTED),
    )


@dataclass(frozen=True, eq=False)
class Mixture:
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


class _OnFrames:
    """A scikit-learn classifier, fitted and asked in the way the given one is asked."""

    def __init__(self, model: Any, ask: Callable[[Floats], Any], weights: str) -> None:
        self.model, self.ask, self.weights = model, ask, weights

    def fit(self, individuals: Floats, labels: Ints, sample_weight: Floats) -> _OnFrames:
        import warnings

        from sklearn.base import clone
        from sklearn.exceptions import ConvergenceWarning

        self.model = clone(self.model)
        with warnings.catch_warnings():
            # Some of the weights are extreme; a model that has not settled is one more of the mixture.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self.ask(individuals), np.asarray(labels), **{self.weights: np.asarray(sample_weight)})
        return self

    def predict(self, individuals: Floats) -> Ints:
        return np.asarray(self.model.predict(self.ask(individuals)), dtype=np.int64)


@dataclass(frozen=True)
class _Ask:
    """How a scikit-learn model wants its people."""

    schema: Schema
    form: Any
    like: Any
    columns: tuple[str, ...] | None
    name: str

    def __call__(self, individuals: Floats) -> Any:
        from evenhand.models.questions import question

        return question(
            self.schema, individuals, self.form, like=self.like, columns=self.columns, where=self.name
        )  # fmt: skip


@dataclass(frozen=True)
class _Encoded:
    """Numbers by mean and deviation of the people trained on, values one column each; missing is a column too."""

    schema: Schema
    mean: Floats
    deviation: Floats

    def __call__(self, individuals: Floats) -> Floats:
        parts = []
        for i, attribute in enumerate(self.schema.attributes):
            column = individuals[:, i]
            missing = np.isnan(column)
            if attribute.kind == "categorical":
                parts.append((column[:, None] == attribute.domain()[None]).astype(np.float64))
            else:
                parts.append(np.where(missing, 0.0, (column - self.mean[i]) / self.deviation[i])[:, None])
            if attribute.missing == "keep":
                parts.append(missing[:, None].astype(np.float64))
        return np.concatenate(parts, axis=1)


def _base(situation: Situation) -> tuple[_OnFrames, str]:
    """What the reduction trains, and what it is."""
    from sklearn.base import BaseEstimator
    from sklearn.linear_model import LogisticRegression

    from evenhand.models.estimator import Estimator

    given, schema, seed = situation.given, situation.split.train.schema, situation.config.seed
    if isinstance(given, Estimator) and isinstance(given.model, BaseEstimator):
        weights = _weights(given.model)
        if weights is not None:
            like = given.like if given.like is None else given.like[:0]
            ask = _Ask(schema, given.form, like, given.columns, given.name)
            return _OnFrames(_seeded(given.model, seed), ask, weights), type(given.model).__name__
    individuals = situation.split.train.individuals
    mean, deviation = np.nanmean(individuals, axis=0), np.nanstd(individuals, axis=0)
    encoded = _Encoded(schema, mean, np.where(deviation > 0, deviation, 1.0))
    return _OnFrames(LogisticRegression(max_iter=200), encoded, "sample_weight"), "a logistic regression"


def _weights(model: Any) -> str | None:
    """The argument of ``fit`` that takes weights; None where there is none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    prefix = ""
    while isinstance(model, Pipeline):
        prefix += f"{model.steps[-1][0]}__"
        model = model.steps[-1][1]
    return f"{prefix}sample_weight" if has_fit_parameter(model, "sample_weight") else None


def _seeded(model: Any, seed: int) -> Any:
    """A copy, not fitted, that draws its random numbers from the seed."""
    from sklearn.base import clone

    model = clone(model)
    unset = {
        name: seed for name, value in model.get_params().items() if name.endswith("random_state") and value is None
    }
    return model.set_params(**unset)
