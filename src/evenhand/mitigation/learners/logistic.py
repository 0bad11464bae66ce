"""Logistic regression for models without a learner and for the probability of group membership."""

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
