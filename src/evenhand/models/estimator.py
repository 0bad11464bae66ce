"""Scikit-learn estimators and pipelines, and whatever looks like them, as black boxes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models import replies
from evenhand.models.labels import match_labels
from evenhand.models.questions import Form, check_same_people, probes, question, refusal
from evenhand.models.scorer import checked_scores
from evenhand.schema import Attribute, Schema, Value


@dataclass(frozen=True, eq=False)
class Estimator:
    """A fitted classifier with ``predict`` and ``classes_``; labels are always its own.

    Attributes:
        schema: what its individuals are.
        model: the estimator itself.
        classes: its labels, in its own order, in the words of the schema's target.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report.
        like: a frame whose type and column types it is asked with.
        form: how it is asked.
        columns: the columns it was fitted on, None where it does not say.
        scored_by: where scores come from. Decision values are squashed to (0, 1), which keeps their order.
    """

    schema: Schema
    model: Any
    classes: tuple[Value, ...]
    favourable: int
    name: str
    like: Any
    form: Form
    columns: tuple[str, ...] | None
    scored_by: Literal["predict_proba", "decision_function", "predict"]

    @property
    def label_only(self) -> bool:
        """Whether the estimator gives labels and nothing else."""
        return self.scored_by == "predict"

    def scores(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities, or squashed decision values, or labels one-hot, shape (n, classes).

        Raises:
            ModelError: the estimator cannot answer for somebody.
        """
        if self.scored_by == "predict":
            return replies.labelled(self.predict(individuals), len(self.classes)).scores
        answer = np.asarray(self._ask(self.scored_by, individuals), dtype=np.float64)
        if self.scored_by == "decision_function" and np.isfinite(answer).all():
            answer = replies.sigmoid(answer) if answer.ndim == 1 else replies.softmax(answer)
        return checked_scores(answer, len(individuals), len(self.classes), model=self.name)

    def predict(self, individuals: NDArray[np.float64]) -> NDArray[np.int64]:
        """The estimator's own labels, as positions in ``classes``, shape (n,).

        Raises:
            ModelError: the estimator cannot answer for somebody, or gives a label it does not list.
        """
        return self._labels(self._ask("predict", individuals), len(individuals))

    def decide(self, frame: Any) -> NDArray[np.int64]:
        """Labels of a frame's rows as the estimator gives them, without going through the schema, shape (n,)."""
        import narwhals as nw

        columns = list(self.columns or self.schema.names)
        table = nw.from_native(frame, eager_only=True).select(columns)
        return self._labels(self._call("predict", table.to_native()), len(table))

    def _ask(self, method: str, individuals: NDArray[np.float64]) -> Any:
        asked = question(self.schema, individuals, self.form, like=self.like, columns=self.columns, where=self.name)
        return self._call(method, asked)

    def _call(self, method: str, asked: Any) -> Any:
        try:
            return getattr(self.model, method)(asked)
        except Exception as error:
            raise refusal(error, where=self.name) from error

    def _labels(self, answer: Any, n: int) -> NDArray[np.int64]:
        answer = np.asarray(answer)
        if answer.shape == (n, 1):
            answer = answer[:, 0]
        if answer.shape != (n,):
            raise ModelError(
                f"asked about {n} individuals, the model gave labels of shape {answer.shape}", where=self.name
            )
        position = {label: i for i, label in enumerate(np.asarray(self.model.classes_).tolist())}
        kinds, inverse = np.unique(answer, return_inverse=True)
        unknown = [label for label in kinds.tolist() if label not in position]
        if unknown:
            raise ModelError(
                f"the model gave the label {unknown[0]!r}, which is not among its own classes {list(position)}",
                where=self.name,
            )
        return np.array([position[label] for label in kinds.tolist()], dtype=np.int64)[inverse]


def from_estimator(model: Any, schema: Schema, *, like: Any = None, name: str | None = None) -> Estimator:
    """Wrap a fitted classifier.

    Fitted on a data frame, it is asked with one: the columns it was fitted on, in the data's own words. Fitted on an
    array, it is asked with the same words in the schema's order if it takes them, else with plain numbers by each
    attribute's encoding.

    Args:
        model: has ``predict`` and ``classes_``; scores come from ``predict_proba``, else ``decision_function``.
        schema: what the columns mean.
        like: the user's data: its frame type is kept, and the model must decide the same about these people before and
            after they went through the schema.
        name: how to call it in a report.

    Raises:
        ModelError: not fitted, fitted on other columns or labels, or it cannot answer for everyone in the domain.
    """
    name = name or type(model).__name__
    classes, favourable = _classes(model, schema, name)
    columns = _columns(model, schema, name)
    people = probes(schema)
    refused: ModelError | None = None
    for form in _forms(model, schema, columns, name):
        estimator = Estimator(schema, model, classes, favourable, name, like, form, columns, _scored_by(model))
        try:
            estimator = _with_scores(estimator, people)
        except ModelError as error:
            refused = refused or error
            continue
        if form == "frame" and like is not None:
            check_same_people(estimator.decide, schema, like, where=name)
        return estimator
    raise refused or ModelError("the model cannot be asked", where=name)


def _classes(model: Any, schema: Schema, name: str) -> tuple[tuple[Value, ...], int]:
    known = getattr(model, "classes_", None)
    if known is None:
        raise ModelError("the model has no `classes_`: it is not fitted, or no classifier", where=name)
    if isinstance(known, list) or np.ndim(known) != 1:
        raise ModelError("the model decides several things at once", where=name, mend="wrap the one to look at")
    classes, favourable = match_labels(schema, np.asarray(known).tolist(), where=name)
    if len(classes) < 2:
        raise ModelError(f"the model knows one label only: {classes[0]!r}", where=name)
    return classes, favourable


def _columns(model: Any, schema: Schema, name: str) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    if names is None or all(re.fullmatch(r"Column_\d+", str(column)) for column in names):
        return None  # LightGBM numbers the columns of an array
    columns = tuple(str(column) for column in names)
    absent = [column for column in columns if column not in schema.names]
    if absent:
        raise ModelError(
            f"the model was fitted on a column {absent[0]!r} that the schema does not describe"
            + (f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""),
            where=name,
            mend="describe it in the schema; if it comes from preprocessing, give the model together with that "
            "preprocessing, as one Pipeline or as module:function",
        )
    return columns


def _forms(model: Any, schema: Schema, columns: tuple[str, ...] | None, name: str) -> list[Form]:
    if columns is not None:
        return ["frame"]
    fitted = getattr(model, "n_features_in_", None)
    if fitted is None:
        return ["frame", "numbers"]
    forms: list[Form] = []
    if fitted == len(schema.attributes) and any(_in_words(attribute) for attribute in schema.attributes):
        forms.append("words")
    if fitted == schema.width:
        forms.append("numbers")
    if not forms:
        raise ModelError(
            f"the model was fitted on {fitted} columns, but the schema's {len(schema.attributes)} attributes "
            f"give {schema.width}",
            where=name,
            mend="describe every column in the schema, in the model's order, with the right encoding",
        )
    return forms


def _in_words(attribute: Attribute) -> bool:
    values = attribute.values or ()
    return attribute.edges is None and attribute.encoding == "code" and any(isinstance(v, str) for v in values)


def _scored_by(model: Any) -> Literal["predict_proba", "decision_function", "predict"]:
    if hasattr(model, "predict_proba"):
        return "predict_proba"
    return "decision_function" if hasattr(model, "decision_function") else "predict"


def _with_scores(estimator: Estimator, people: NDArray[np.float64]) -> Estimator:
    """Ask about some people: the estimator itself, or by its labels alone where its decision values tell another story.

    A support vector machine may have one decision value per pair of classes, for instance.
    """
    labels = estimator.predict(people)
    if estimator.scored_by != "decision_function":
        estimator.scores(people)
        return estimator
    try:
        fits = np.array_equal(np.argmax(estimator.scores(people), axis=1), labels)
    except ModelError:
        fits = False
    return estimator if fits else replace(estimator, scored_by="predict")
