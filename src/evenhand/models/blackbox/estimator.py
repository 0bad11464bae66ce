"""Black boxes with scikit-learn's interface: classifiers and regressors, alone or in pipelines."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from evenhand.core.text import list_some
from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.blackbox.base import InputForm, LoadRequest, RowModel, RowT, add_caution, settle_input
from evenhand.models.blackbox.learnt_types import learnt_inputs
from evenhand.models.column_types import ColumnInput
from evenhand.models.replies import (
    MatchedLabels,
    QuestionLedger,
    Reply,
    ReplyingScorer,
    check_numbers,
    check_scores,
    find_positions,
    label_reply,
    match_labels,
)
from evenhand.models.scorer import sigmoid, softmax
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema
from evenhand.schema.table import list_values

REPEATABLE = ("sklearn", "xgboost", "lightgbm", "catboost")
"""Libraries whose fitted models are deterministic."""


@dataclass(frozen=True, eq=False, kw_only=True)
class EstimatorModel(RowModel, ReplyingScorer):
    """A fitted classifier with ``predict`` and ``classes_``. Its labels always come from ``predict``.

    Attributes:
        classes: Labels in the order of ``classes_``, as values of the schema's target.
        favourable: Position of the favourable label in ``classes``.
        guessed: Whether it returns 0 and 1, and 1 was assumed to be the favourable label.
        scored_by: Method that computes the scores. Decision values are mapped monotonically to (0, 1).
    """

    classes: tuple[Value, ...]
    favourable: int
    guessed: bool = False
    scored_by: Literal["predict_proba", "decision_function", "predict"] = "predict"

    @property
    def label_only(self) -> bool:
        """Whether the estimator returns labels only."""
        return self.scored_by == "predict"

    @property
    def can_vary(self) -> bool:
        """Whether the answers may differ between calls: part of the estimator is from an unknown library."""
        return not is_repeatable(self.model)

    def scores(self, individuals: Floats) -> Floats:
        """Query probabilities, mapped decision values, or one-hot labels, shape (n, classes).

        Raises:
            ModelError: The estimator fails.
        """
        if self.label_only:
            return self.reply(individuals).scores
        self.ledger.charge(len(individuals))
        (scores,) = self.call(partial(_call_methods, self.model, [self.scored_by]), self.input(individuals))
        return check_scores(scores, len(individuals), len(self.classes), model=self.name)

    def predict(self, individuals: Floats) -> Integers:
        """Predict the estimator's own labels as positions in ``classes``, shape (n,).

        Raises:
            ModelError: The estimator fails, or returns a label that is not in its ``classes_``.
        """
        self.ledger.charge(len(individuals))
        (labels,) = self.call(partial(_call_methods, self.model, ["predict"]), self.input(individuals))
        return find_positions(labels, self.model.classes_, len(individuals), location=self.name)

    def reply(self, individuals: Floats) -> Reply:
        """Query scores and labels for the same rows, which are charged once.

        Labels are not derived from the scores, since an estimator may not choose the highest score.
        """
        return self._reply_rows(self.input(individuals))

    def answer_rows(self, rows: Any) -> Floats:
        """Query labels and scores, shape (n, 1 + classes)."""
        return self._reply_rows(rows).columns

    def _reply_rows(self, rows: Any) -> Reply:
        n, methods = len(rows), ["predict"] if self.label_only else ["predict", self.scored_by]
        self.ledger.charge(n)
        labels, *scores = self.call(partial(_call_methods, self.model, methods), rows)
        checked = [check_scores(array, n, len(self.classes), model=self.name) for array in scores]
        positions = find_positions(labels, self.model.classes_, n, location=self.name)
        return Reply(checked[0], positions, False) if checked else label_reply(positions, len(self.classes))

    def probe(self, rows: Any) -> Self:
        """Query the labels and scores of rows. Return the model without decision values if these contradict the
        labels: a support vector machine may return one value per pair of classes.
        """
        try:
            reply = self._reply_rows(rows)
        except ModelError:
            if self.scored_by != "decision_function":
                raise
            return replace(self, scored_by="predict").probe(rows)
        if self.scored_by != "decision_function" or np.array_equal(np.argmax(reply.scores, axis=1), reply.labels):
            return self
        return replace(self, scored_by="predict")

    def with_estimator(self, model: Any) -> EstimatorModel:
        """Wrap another estimator with the same columns and input form.

        Raises:
            ModelError: The estimator does not predict these labels.
        """
        labels = _match_classes(model, self.schema, self.name)
        return replace(self, model=model, ledger=QuestionLedger(), caution="", **labels._asdict())


def _call_methods(model: Any, methods: Sequence[str], rows: Any) -> list[Any]:
    """Call methods of an estimator with the same rows. The steps of a pipeline transform the rows once."""
    if is_kind(model, {"Pipeline"}):
        for _, step in model.steps[:-1]:
            rows = rows if step is None or step == "passthrough" else step.transform(rows)
        model = model.steps[-1][1]
    answers = {method: getattr(model, method)(rows) for method in methods}
    if "decision_function" in answers:
        values = np.asarray(answers["decision_function"], dtype=np.float64)
        if np.isfinite(values).all():
            answers["decision_function"] = sigmoid(values) if values.ndim == 1 else softmax(values)
    return list(answers.values())


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberModel(RowModel):
    """Fitted regressor or function that returns one number per individual.

    Attributes:
        can_vary: Whether the answers may differ between calls.
    """

    can_vary: bool = True

    def predict_numbers(self, individuals: Floats) -> Floats:
        """Predict a number for each individual, shape (n,).

        Raises:
            ModelError: The model fails, or does not return one finite number per individual.
        """
        return self.answer(individuals)[:, 0]

    def probe(self, rows: Any) -> Self:
        """Query the predicted numbers for rows and return the model."""
        self.answer_rows(rows)
        return self

    def answer_rows(self, rows: Any) -> Floats:
        """Predict the numbers for rows, shape (n, 1)."""
        self.ledger.charge(len(rows))
        numbers = self.call(getattr(self.model, "predict", self.model), rows)
        return check_numbers(numbers, len(rows), model=self.name)[:, None]


def wrap_estimator(source: Any, request: LoadRequest) -> EstimatorModel | NumberModel:
    """Wrap a fitted classifier, or a regressor or function for a numeric target.

    An estimator fitted on a data frame receives its training columns as a data frame of the data's values. An estimator
    fitted on an array receives the values in the schema's order or encoded numbers, whichever its encoders were fitted
    on; otherwise the values if it accepts them. If the form is ambiguous and the answers differ, ``caution``
    contains a note. Encoding by the schema must not change the decisions.

    Args:
        source: Classifier with ``predict`` and ``classes_``, whose scores come from ``predict_proba`` or
            ``decision_function``; for a numeric target, an object with ``predict``, or a function.
        request: Schema, data and options.

    Raises:
        ModelError: The model does not predict this target, is not fitted, was fitted on other columns or labels, or
            fails for individuals of the domain.
    """
    schema, fitted = request.schema, hasattr(source, "predict") and not isinstance(source, type)
    name = request.name or str(type(source).__name__ if fitted else getattr(source, "__name__", type(source).__name__))
    model: EstimatorModel | NumberModel
    if schema.target.is_number:
        classes = getattr(source, "classes_", None)
        if classes is not None and np.size(classes):  # the ``classes_`` of a regressor may be empty
            raise ModelError(
                f"the model returns labels, but the target {schema.target.name!r} is a number",
                location=name,
                hint="for labels set `kind=label`; for a score pass the function that computes it",
            )
        can_vary = not (fitted and is_repeatable(source))
        model = NumberModel(schema=schema, name=name, model=source, can_vary=can_vary)
    else:
        scored_by: Any = next((m for m in ("predict_proba", "decision_function") if hasattr(source, m)), "predict")
        labels = _match_classes(source, schema, name)
        model = EstimatorModel(schema=schema, name=name, model=source, scored_by=scored_by, **labels._asdict())
    columns = input_columns(source, schema, name)
    model = replace(model, like=request.like, columns=columns, ledger=request.ledger)
    learnt, inputs = None if columns else learnt_form(source, schema), learnt_inputs(source, columns or schema.names)
    forms: Sequence[InputForm] = ["frame"] if columns else _candidate_forms(model, learnt)
    model = settle_input(model, forms, inputs, untyped=request.untyped, learnt=learnt)
    if fitted and not columns and len(schema.names) > 1:
        order = list_some(schema.names)
        model = add_caution(model, f"The model was fitted without column names; its inputs are taken to be {order}.")
    return _check_values(model, inputs)


def _check_values(model: RowT, inputs: Mapping[str, ColumnInput]) -> RowT:
    """Check whether encoders that accept unknown values were fitted on the values of the schema.

    Raises:
        ModelError: No value of an attribute was in the training data.
    """
    for attribute in model.schema.attributes if model.form != "numbers" else ():
        learnt = inputs[attribute.name].values if attribute.name in inputs else None
        if not learnt or not attribute.values or attribute.edges is not None:
            continue
        conversion = model.types.conversions.get(attribute.name)
        values = attribute.values if conversion is None else list(map(conversion.convert_value, attribute.values))
        absent = [value for value, key in zip(attribute.values, values, strict=True) if key not in learnt]
        if absent:
            caution = f"The model was not trained on the values {list_values(absent)} of {attribute.name}"
            model = add_caution(model, f"{caution}, and may ignore them.")
        if len(absent) == len(values):
            hint = f"convert the column to the values in training: {list_values(learnt)}"
            raise ModelError(caution, location=model.name, hint=hint)
    return model


def is_repeatable(model: Any) -> bool:
    """Check whether an estimator and all its steps are from libraries of deterministic models."""
    parts = [model, *(part for _, part in nested_parts(model))]
    return all(type(part).__module__.partition(".")[0] in REPEATABLE for part in parts if part != "passthrough")


def is_kind(step: Any, kinds: Collection[str]) -> bool:
    """Check whether a step has exactly a listed scikit-learn type. A subclass may compute differently."""
    return type(step).__module__.split(".")[0] == "sklearn" and type(step).__name__ in kinds


def nested_parts(model: Any) -> list[tuple[str, Any]]:
    """List the named parts of a pipeline or union. Other objects have none, even with a numeric ``steps``."""
    named = (getattr(model, name, None) for name in ("steps", "transformer_list"))
    return [part for parts in named if isinstance(parts, Sequence) for part in parts]


def _match_classes(model: Any, schema: Schema, name: str) -> MatchedLabels:
    classes = getattr(model, "classes_", None)
    if classes is None or np.size(classes) == 0:
        raise ModelError(
            "the model has no `classes_`: it is not fitted or not a classifier",
            location=name,
            hint="for a regressor, declare that the target is a number: `kind=number`",
        )
    if isinstance(classes, list) or np.ndim(classes) != 1:
        raise ModelError(
            "the model has several outputs", location=name, hint="wrap it to return only the output to audit"
        )
    labels = match_labels(schema, np.asarray(classes).tolist(), location=name)
    if len(labels.classes) < 2:
        raise ModelError(f"the model has only one label: {labels.classes[0]!r}", location=name)
    return labels


def input_columns(model: Any, schema: Schema, name: str) -> tuple[str, ...] | None:
    """List the columns that an estimator was fitted on. None if unknown.

    Raises:
        ModelError: The schema does not describe one of them.
    """
    names = getattr(model, "feature_names_in_", getattr(model, "feature_names_", None))
    if names is None or all(re.fullmatch(r"(Column_)?\d+", str(column)) for column in names):
        return None  # LightGBM and CatBoost number array columns
    columns = tuple(str(column) for column in names)
    absent = [column for column in columns if column not in schema.columns]
    if absent:
        raise ModelError(
            f"the model was fitted on a column {absent[0]!r} that the schema does not describe"
            + (f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""),
            location=name,
            hint="describe it in the schema; if preprocessing creates it, pass the model with its preprocessing, as "
            "a Pipeline or as module:function",
        )
    return columns


def _candidate_forms(model: RowModel, learnt: InputForm | None) -> list[InputForm]:
    """List the forms that an estimator without named columns may accept, most likely first."""
    schema, width = model.schema, getattr(model.model, "n_features_in_", None)
    if width is None:
        return ["frame", "numbers"]
    forms: list[InputForm] = []
    plain = [attribute for attribute in schema.attributes if attribute.encoding in (None, "code")]
    listed = [value for attribute in plain if attribute.edges is None for value in attribute.values or ()]
    if width == len(schema.attributes) and any(isinstance(value, str) for value in listed):
        forms.append("words")
    if width == schema.width:
        forms.insert(0 if learnt == "numbers" else len(forms), "numbers")
    if not forms:
        raise ModelError(
            f"the model was fitted on {width} columns, but the schema's {len(schema.attributes)} attributes "
            f"give {schema.width}",
            location=model.name,
            hint="describe every column in the schema, in the model's order, with the right encoding"
            + ("; passthrough columns need a model that was fitted on a data frame" if schema.passthrough else ""),
        )
    return forms


def learnt_form(model: Any, schema: Schema) -> InputForm | None:
    """Check whether encoders fitted on an array expect strings or numbers. None if unknown."""
    inputs = learnt_inputs(model, schema.names)
    learnt = [
        inputs[attribute.name] for attribute in schema.attributes if attribute.values and attribute.name in inputs
    ]
    kinds = {column.type for column in learnt if column.values is not None}
    return "words" if kinds == {"words"} else "numbers" if kinds == {"numbers"} else None
