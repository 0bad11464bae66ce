"""Fitted classifiers of fairlearn as scikit-learn classifiers.

``ThresholdOptimizer`` needs ``sensitive_features``: these are read from the protected columns. It and
``ExponentiatedGradient`` draw some decisions at random. A fixed seed is used, and the probabilities are the scores.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.schema.schema import Schema
from evenhand.schema.table import word_of


@dataclass(frozen=True, eq=False)
class FairlearnClassifier:
    """Adapter of a fitted fairlearn classifier that takes a single frame.

    Attributes:
        model: The classifier.
        estimator: One of its combined estimators.
        sensitive: Columns of the sensitive features, if required.
        keys: The classifier's group names by group values.
        caution: Assumption about the sensitive features, for reports.
        classes_: Its labels.
    """

    model: Any
    estimator: Any
    sensitive: tuple[str, ...] = ()
    keys: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    caution: str = ""
    classes_: tuple[int, int] = (0, 1)

    @property
    def feature_names_in_(self) -> list[str] | None:
        """Columns of the frame that it takes: the estimator's, then additional sensitive features."""
        names = getattr(self.estimator, "feature_names_in_", None)
        if names is None:
            return None
        return [*names, *(name for name in self.sensitive if name not in set(names))]

    @property
    def n_features_in_(self) -> int | None:
        """Number of columns of the estimator."""
        return getattr(self.estimator, "n_features_in_", None)

    def predict(self, frame: Any) -> NDArray[Any]:
        """Predict the labels, drawn with a fixed seed if the classifier draws them."""
        seed = {} if type(self.model).__name__ == "GridSearch" else {"random_state": 0}
        return np.asarray(self.model.predict(self._features(frame), **self._groups(frame), **seed)).reshape(-1)

    def predict_proba(self, frame: Any) -> NDArray[Any]:
        """Compute the probability of each label, shape (n, 2)."""
        ask = getattr(self.model, "_pmf_predict", None) or self.model.predict_proba
        return np.asarray(ask(self._features(frame), **self._groups(frame)))

    def _features(self, frame: Any) -> Any:
        return frame[list(self.estimator.feature_names_in_)] if self.sensitive else frame

    def _groups(self, frame: Any) -> dict[str, Any]:
        if not self.sensitive:
            return {}
        rows = [tuple(map(word_of, row)) for row in frame[list(self.sensitive)].itertuples(index=False)]
        absent = next((row for row in rows if row not in self.keys), None)
        if absent is not None:
            raise ModelError(
                f"the model has no threshold for the group {', '.join(absent)} of {', '.join(self.sensitive)}",
                hint="remove this group from the data, or fit the model with it",
            )
        return {"sensitive_features": np.array([self.keys[row] for row in rows])}


def adapt_fairlearn(model: Any, schema: Schema, *, name: str | None) -> FairlearnClassifier:
    """Adapt a fitted classifier of fairlearn.

    Args:
        model: The classifier.
        schema: Schema of the data. The sensitive features are among its protected attributes.
        name: Name of the model in messages.

    Raises:
        ModelError: It is not fitted, or its sensitive features are not among the protected attributes.
    """
    name = name or type(model).__name__
    predictors = getattr(model, "predictors_", None)
    estimator = getattr(model, "estimator_", None) if predictors is None else next(iter(predictors), None)
    if estimator is None:
        raise ModelError("the model is not fitted", location=name, hint="fit the model first")
    if type(model).__name__ != "ThresholdOptimizer":
        return FairlearnClassifier(model, estimator)
    if getattr(estimator, "feature_names_in_", None) is None:
        raise ModelError(
            "the model was fitted on an array, which does not name its columns other than the sensitive features",
            location=name,
            hint="fit it on a data frame, or wrap it as a function (module:function) of a data frame",
        )
    keys = {_split_key(key): key for key in model.interpolated_thresholder_.interpolation_dict}
    fitting = _fitting_columns(keys, schema)
    if not fitting:
        raise ModelError(
            f"the model has thresholds for the groups {', '.join(map(str, keys.values()))}, which are not those of "
            "protected attributes",
            location=name,
            hint="set the columns of its `sensitive_features`: `protected=[...]`",
        )
    caution = ""
    if len(fitting) > 1:
        caution = (
            f"The sensitive features of the model were read from {', '.join(fitting[0])}, but could also be "
            f"{' or '.join(', '.join(names) for names in fitting[1:])}, which have the same values."
        )
    return FairlearnClassifier(model, estimator, fitting[0], keys, caution)


def _split_key(key: Any) -> tuple[str, ...]:
    """Split the key of a group into its values. Fairlearn joins values with commas and escapes commas within values."""
    if not isinstance(key, str):
        return (word_of(key),)
    parts = re.split(r"(?<!\\),", key)
    return tuple(word_of(part.replace("\\,", ",").replace("\\\\", "\\")) for part in parts)


def _fitting_columns(keys: Mapping[tuple[str, ...], Any], schema: Schema) -> list[tuple[str, ...]]:
    """Find the combinations of protected attributes whose values match the groups."""
    values = {
        attribute.name: set(map(word_of, attribute.values or attribute.domain().tolist()))
        for attribute in schema.attributes
        if attribute.protected
    }
    width = len(next(iter(keys)))
    return [
        names
        for names in itertools.permutations(values, width)
        if all(word in values[column] for key in keys for word, column in zip(key, names, strict=True))
    ]
