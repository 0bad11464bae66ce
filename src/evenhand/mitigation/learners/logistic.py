"""Logistic regression for models without a learner, and for the probability of group membership."""

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
"""Maximum number of iterations of L-BFGS."""


@dataclass(frozen=True)
class StandardEncoding:
    """Encoding with standardised numbers, one column per category, and indicators of missing values."""

    schema: Schema
    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, people: People) -> StandardEncoding:
        """Create the encoding with the means and standard deviations of a training set."""
        individuals = people.individuals
        deviation = np.nanstd(individuals, axis=0)
        return cls(people.schema, np.nanmean(individuals, axis=0), np.where(deviation > 0, deviation, 1.0))

    def __call__(self, individuals: Floats) -> Floats:
        columns = []
        for i, attribute in enumerate(self.schema.attributes):
            values = individuals[:, i]
            missing = np.isnan(values)
            if attribute.kind == "categorical":
                columns.append((values[:, None] == attribute.domain()[None]).astype(np.float64))
            else:
                columns.append(np.where(missing, 0.0, (values - self.mean[i]) / self.deviation[i])[:, None])
            if attribute.missing == "keep":
                columns.append(missing[:, None].astype(np.float64))
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True, eq=False)
class LogisticScorer:
    """Logistic regression over the standard encoding, with the classes of another model."""

    schema: Schema
    classes: tuple[Value, ...]
    favourable: int
    name: str
    encoding: StandardEncoding
    model: Any
    label_only: bool = False

    def scores(self, individuals: Floats) -> Floats:
        """Compute the probability of each class, shape (n, classes)."""
        probabilities = np.zeros((len(individuals), len(self.classes)))
        probabilities[:, self.model.classes_] = self.model.predict_proba(self.encoding(individuals))
        return probabilities

    def predict(self, individuals: Floats) -> Integers:
        """Predict the most probable class, shape (n,)."""
        return np.asarray(self.scores(individuals).argmax(axis=1), dtype=np.int64)


def fit_logistic(people: People, model: Scorer) -> LogisticScorer:
    """Fit a logistic regression on all attributes, for the labels of a model. It is not random."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    encoding = StandardEncoding.of(people)
    labels = target_labels(TrainingSet.plain(people), model)
    with threadpool_limits(limits=1):
        regression = LogisticRegression(max_iter=ROUNDS).fit(encoding(people.individuals), labels)
    return LogisticScorer(model.schema, model.classes, model.favourable, "a logistic regression", encoding, regression)
