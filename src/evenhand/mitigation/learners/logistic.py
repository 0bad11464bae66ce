"""A logistic regression for what has no learner of its own: a black box, or the question who is in which group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.mitigation.learners.learner import target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import Value
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

ROUNDS = 200
"""Of the optimiser, L-BFGS, at most."""


@dataclass(frozen=True)
class StandardEncoding:
    """Numbers by mean and deviation of the people trained on, values one column each; missing is a column too."""

    schema: Schema
    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, people: People) -> StandardEncoding:
        """Take means and deviations from people."""
        individuals = people.individuals
        deviation = np.nanstd(individuals, axis=0)
        return cls(people.schema, np.nanmean(individuals, axis=0), np.where(deviation > 0, deviation, 1.0))

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


@dataclass(frozen=True, eq=False)
class LogisticScorer:
    """A logistic regression over the standard encoding, as a scorer: one column per class of the given model."""

    schema: Schema
    classes: tuple[Value, ...]
    favourable: int
    name: str
    encoding: StandardEncoding
    model: Any
    label_only: bool = False

    def scores(self, individuals: Floats) -> Floats:
        """Return the probability of each class, shape (n, classes)."""
        found = np.zeros((len(individuals), len(self.classes)))
        found[:, self.model.classes_] = self.model.predict_proba(self.encoding(individuals))
        return found

    def predict(self, individuals: Floats) -> Integers:
        """Return the likeliest class of each, shape (n,)."""
        return np.asarray(self.scores(individuals).argmax(axis=1), dtype=np.int64)


def fit_logistic(people: People, given: Scorer) -> LogisticScorer:
    """Return a logistic regression over all attributes of people, for the labels of a given model; nothing is drawn."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    encoding, training_set = StandardEncoding.of(people), TrainingSet.plain(people)
    with threadpool_limits(limits=1):
        model = LogisticRegression(max_iter=ROUNDS).fit(
            encoding(people.individuals), target_labels(training_set, given)
        )
    return LogisticScorer(given.schema, given.classes, given.favourable, "a logistic regression", encoding, model)
