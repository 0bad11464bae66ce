"""Scikit-learn estimators and pipelines, and whatever looks like them, as black boxes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import EvenhandError, ModelError
from evenhand.models import replies
from evenhand.models.blackbox.learnt_types import learnt_inputs
from evenhand.models.blackbox.questions import (
    InputForm,
    check_same_people,
    describe_guess,
    describe_retry,
    model_input,
    probe_individuals,
    refusal_error,
)
from evenhand.models.blackbox.type_search import settle_types, with_caution
from evenhand.models.column_types import AS_READ, ColumnTypes, find_unseen
from evenhand.models.ledger import QuestionLedger
from evenhand.models.replies import MatchedLabels, Reply, match_labels
from evenhand.models.scorer import check_scores
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.people import decode
from evenhand.schema.schema import Schema
from evenhand.schema.table import list_values

MAX_DOMAIN = 10_000
"""Values of an attribute up to which they are compared with the categories that a model learnt."""

REPEATABLE = ("sklearn", "xgboost", "lightgbm", "catboost")
"""Libraries whose fitted classifiers give the same person the same answer."""


@dataclass(frozen=True, eq=False)
class EstimatorModel:
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
        types: Types of the columns of a text table that it expects.
        ledger: counts the individuals that it was asked about.
        guessed: whether it answers 0 and 1, and 1 was taken for the favourable label.
        caution: what a reader must know about how it is asked.
    """

    schema: Schema
    model: Any
    classes: tuple[Value, ...]
    favourable: int
    name: str
    like: Any
    form: InputForm
    columns: tuple[str, ...] | None
    scored_by: Literal["predict_proba", "decision_function", "predict"]
    types: ColumnTypes = AS_READ
    ledger: QuestionLedger = field(default_factory=QuestionLedger, repr=False)
    guessed: bool = False
    caution: str = ""

    @property
    def label_only(self) -> bool:
        """Whether the estimator gives labels and nothing else."""
        return self.scored_by == "predict"

    @property
    def can_vary(self) -> bool:
        """Whether it may answer differently when asked again: a part of it is from a library that is not known."""
        return not is_repeatable(self.model)

    def scores(self, individuals: Floats) -> Floats:
        """Return probabilities, or squashed decision values, or labels one-hot, shape (n, classes).

        Raises:
            ModelError: the estimator cannot answer for somebody.
        """
        if self.scored_by == "predict":
            return self.reply(individuals).scores
        self.ledger.charge(len(individuals))
        return self._scores(self._input(individuals), len(individuals))

    def predict(self, individuals: Floats) -> Integers:
        """Return the estimator's own labels, as positions in ``classes``, shape (n,).

        Raises:
            ModelError: the estimator cannot answer for somebody, or gives a label it does not list.
        """
        self.ledger.charge(len(individuals))
        return self._labels(self._call("predict", self._input(individuals)), len(individuals))

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels of individuals who count once: both methods get the same input.

        Labels do not come from the scores, since an estimator may decide by another rule than the highest of them.

        Raises:
            ModelError: the estimator cannot answer for somebody.
        """
        self.ledger.charge(len(individuals))
        asked = self._input(individuals)
        labels = self._labels(self._call("predict", asked), len(individuals))
        if self.scored_by == "predict":
            return replies.label_reply(labels, len(self.classes))
        return Reply(self._scores(asked, len(individuals)), labels, False)

    def with_estimator(self, model: Any) -> EstimatorModel:
        """Return another estimator of the same kind, fitted on the same columns, which is asked in the same form.

        Raises:
            ModelError: it does not know the labels.
        """
        labels = _match_classes(model, self.schema, self.name)
        return replace(
            self,
            model=model,
            classes=labels.classes,
            favourable=labels.favourable,
            guessed=labels.guessed,
            ledger=QuestionLedger(),
            caution="",
        )

    def decide(self, frame: Any) -> Integers:
        """Return the estimator's labels of a frame's rows, without going through the schema, shape (n,)."""
        import narwhals as nw

        columns = list(self.columns or self.schema.columns)
        table = nw.from_native(frame, eager_only=True).select(columns)
        self.ledger.charge(len(table))
        return self._labels(self._call("predict", self.types.convert(table.to_native(), self.name)), len(table))

    def answer_frame(self, frame: Any) -> Floats:
        """Return labels and scores of a frame's rows without going through the schema, shape (n, 1 + classes)."""
        asked = self.types.convert(frame[list(self.columns or self.schema.columns)], self.name)
        self.ledger.charge(len(asked))
        labels = self._labels(self._call("predict", asked), len(asked))
        return np.column_stack([labels, labels if self.label_only else self._scores(asked, len(asked))])

    def _input(self, individuals: Floats) -> Any:
        return model_input(
            self.schema,
            individuals,
            self.form,
            like=self.like,
            columns=self.columns,
            types=self.types,
            location=self.name,
        )

    def _scores(self, asked: Any, n: int) -> Floats:
        answer = np.asarray(self._call(self.scored_by, asked), dtype=np.float64)
        if self.scored_by == "decision_function" and np.isfinite(answer).all():
            answer = replies.sigmoid(answer) if answer.ndim == 1 else replies.softmax(answer)
        return check_scores(answer, n, len(self.classes), model=self.name)

    def _call(self, method: str, asked: Any) -> Any:
        try:
            return getattr(self.model, method)(asked)
        except EvenhandError:
            raise
        except Exception as error:
            raise refusal_error(error, location=self.name, asked=asked) from error

    def _labels(self, answer: Any, n: int) -> Integers:
        answer = np.asarray(answer)
        if answer.shape == (n, 1):
            answer = answer[:, 0]
        if answer.shape != (n,):
            raise ModelError(
                f"asked about {n} individuals, the model gave labels of shape {answer.shape}", location=self.name
            )
        position = {label: i for i, label in enumerate(np.asarray(self.model.classes_).tolist())}
        kinds, inverse = np.unique(answer, return_inverse=True)
        unknown = [label for label in kinds.tolist() if label not in position]
        if unknown:
            raise ModelError(
                f"the model gave the label {unknown[0]!r}, which is not among its own classes {list(position)}",
                location=self.name,
            )
        return np.array([position[label] for label in kinds.tolist()], dtype=np.int64)[inverse]


def is_repeatable(model: Any) -> bool:
    """Return whether an estimator, and every step of it, is of a library whose classifiers repeat their answers."""
    parts = [model, *(part for _, part in nested_parts(model))]
    return all(type(part).__module__.partition(".")[0] in REPEATABLE for part in parts if part != "passthrough")


def nested_parts(model: Any) -> list[tuple[str, Any]]:
    """Return the named parts of a pipeline or union; of another estimator none, even if its ``steps`` is a number."""
    named = (getattr(model, name, None) for name in ("steps", "transformer_list"))
    return [part for parts in named if isinstance(parts, Sequence) for part in parts]


def wrap_estimator(
    model: Any,
    schema: Schema,
    *,
    like: Any = None,
    name: str | None = None,
    ledger: QuestionLedger | None = None,
    untyped: bool = False,
) -> EstimatorModel:
    """Wrap a fitted classifier.

    Fitted on a data frame, it is asked with one: the columns it was fitted on, in the data's own words. Fitted on an
    array, it is asked with the same words in the schema's order or with plain numbers by each attribute's encoding:
    whichever its encoders learnt their categories from, else the words if it takes them. Where nothing tells and its
    answers differ, its ``caution`` says so.

    Args:
        model: has ``predict`` and ``classes_``; scores come from ``predict_proba``, else ``decision_function``.
        schema: what the columns mean.
        like: the user's data: its frame type is kept, and the model must decide the same about these people before and
            after they went through the schema.
        name: how to call it in a report.
        ledger: counts whom it is asked about; by default a new one.
        untyped: Whether ``like`` is a text table. The types of its columns are then those that the model learnt; where
            it does not state them, they are found by asking it.

    Raises:
        ModelError: not fitted, fitted on other columns or labels, or it cannot answer for everyone in the domain.
    """
    name = name or type(model).__name__
    classes, favourable, guessed = _match_classes(model, schema, name)
    columns = input_columns(model, schema, name)
    people = probe_individuals(schema)
    refused: ModelError | None = None
    forms = candidate_forms(model, schema, columns, name)
    for form in forms:
        estimator = EstimatorModel(
            schema,
            model,
            classes,
            favourable,
            name,
            like,
            form,
            columns,
            _scoring_method(model),
            ledger=ledger or QuestionLedger(),
            guessed=guessed,
        )
        try:
            inputs = learnt_inputs(model, columns or schema.names)
            if form != "numbers" and (untyped or like is None):
                estimator = settle_types(estimator, inputs, decode(schema, people) if like is None else like)
            if form != "numbers" and untyped:
                estimator = settle_types(
                    estimator,
                    inputs,
                    like,
                    probe=lambda box: _choose_scoring(box, people),
                    answers=EstimatorModel.answer_frame if form == "frame" else None,
                )
            estimator = _choose_scoring(estimator, people)
        except ModelError as error:
            refused = refused or _name_unseen(error, estimator, like)
            continue
        if form == "frame" and like is not None:
            check_same_people(estimator.decide, schema, like, location=name)
        caution = describe_form(estimator, model, forms, refused, lambda box: box.predict(people))
        return with_caution(estimator, caution)
    raise refused or ModelError("the model cannot be asked", location=name)


def _name_unseen(error: ModelError, estimator: EstimatorModel, like: Any) -> ModelError:
    """Name the category that an estimator did not learn, where this is why it refuses to answer."""
    if not re.search(r"unknown categor|unseen label", error.message, re.IGNORECASE):
        return error
    schema = estimator.schema
    inputs = learnt_inputs(estimator.model, estimator.columns or schema.names)
    unseen = None if like is None else find_unseen(inputs, estimator.types.convert(like, estimator.name))
    if unseen is not None:
        column, row, value = unseen
        message = f"column {column!r}, row {row + 1}: the model did not learn the category {value!r}"
        hint = f"leave this row out, or train the model with this category of {column!r}"
        return ModelError(message, location=estimator.name, hint=hint)
    for attribute in schema.attributes:
        given = inputs.get(attribute.name)
        if given is None or attribute.size is None or attribute.size > MAX_DOMAIN:
            continue
        alone = Schema(target=schema.target, attributes=(attribute,))
        domain = estimator.types.convert(decode(alone, attribute.domain()[:, None]), estimator.name)
        unseen = find_unseen({attribute.name: given}, domain)
        if unseen is not None:
            return ModelError(
                f"attribute {attribute.name!r}: the model did not learn the category {unseen[2]!r}, which is in the "
                "domain of the schema",
                location=estimator.name,
                hint=f"list the categories that the model learnt in the schema: {attribute.name!r} as categorical with "
                f"values {list_values(given.values)}",
            )
    return error


def learnt_classes(model: Any) -> Any:
    """Return the labels of a fitted classifier; None for a regressor, whose ``classes_`` may be empty."""
    known = getattr(model, "classes_", None)
    return None if known is None or np.size(known) == 0 else known


def _match_classes(model: Any, schema: Schema, name: str) -> MatchedLabels:
    known = learnt_classes(model)
    if known is None:
        raise ModelError(
            "the model has no `classes_`: it is not fitted, or no classifier",
            location=name,
            hint="of a regressor say that the target is a number: `kind=number`",
        )
    if isinstance(known, list) or np.ndim(known) != 1:
        raise ModelError("the model decides several things at once", location=name, hint="wrap the one to look at")
    labels = match_labels(schema, np.asarray(known).tolist(), location=name)
    if len(labels.classes) < 2:
        raise ModelError(f"the model knows one label only: {labels.classes[0]!r}", location=name)
    return labels


def input_columns(model: Any, schema: Schema, name: str) -> tuple[str, ...] | None:
    """Return the columns that an estimator was fitted on; None where it does not say.

    Raises:
        ModelError: the schema does not describe one of them.
    """
    names = getattr(model, "feature_names_in_", getattr(model, "feature_names_", None))
    if names is None or all(re.fullmatch(r"(Column_)?\d+", str(column)) for column in names):
        return None  # LightGBM and CatBoost number the columns of an array
    columns = tuple(str(column) for column in names)
    absent = [column for column in columns if column not in schema.columns]
    if absent:
        raise ModelError(
            f"the model was fitted on a column {absent[0]!r} that the schema does not describe"
            + (f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""),
            location=name,
            hint="describe it in the schema; if it comes from preprocessing, give the model together with that "
            "preprocessing, as one Pipeline or as module:function",
        )
    return columns


def candidate_forms(model: Any, schema: Schema, columns: tuple[str, ...] | None, name: str) -> list[InputForm]:
    """Return how an estimator may be asked, the likeliest form first.

    Raises:
        ModelError: it was fitted on another number of columns than the schema gives.
    """
    if columns is not None:
        return ["frame"]
    fitted = getattr(model, "n_features_in_", None)
    if fitted is None:
        return ["frame", "numbers"]
    forms: list[InputForm] = []
    if fitted == len(schema.attributes) and any(_has_text_values(attribute) for attribute in schema.attributes):
        forms.append("words")
    if fitted == schema.width:
        forms.insert(0 if learnt_form(model, schema) == "numbers" else len(forms), "numbers")
    if not forms:
        raise ModelError(
            f"the model was fitted on {fitted} columns, but the schema's {len(schema.attributes)} attributes "
            f"give {schema.width}",
            location=name,
            hint="describe every column in the schema, in the model's order, with the right encoding"
            + ("; passthrough columns need a model that was fitted on a data frame" if schema.passthrough else ""),
        )
    return forms


def describe_form(
    box: Any,
    model: Any,
    forms: Sequence[InputForm],
    refused: ModelError | None,
    ask: Callable[[Any], Integers | Floats],
) -> str:
    """Say so where it is open whether a model is asked in the right form.

    Args:
        box: the model as it is asked.
        model: the estimator itself.
        forms: those in which it may be asked, the likeliest first.
        refused: why it was not asked in that one.
        ask: gives the answers of a box about some individuals.
    """
    if refused is not None:
        return describe_retry(box.form, forms[0], refused)
    if len(forms) > 1 and box.form != "frame" and learnt_form(model, box.schema) is None:
        return describe_guess(lambda: ask(box), lambda: ask(replace(box, form=forms[1])))
    return ""


def learnt_form(model: Any, schema: Schema) -> InputForm | None:
    """Return whether encoders fitted on an array learnt the schema's words or numbers; None where nothing tells."""
    categories = _learnt_categories(model)
    words = {value for attribute in schema.attributes for value in attribute.values or ()}
    codes = {float(code) for attribute in schema.attributes for code in range(len(attribute.values or ()))}
    known = sum(value in words for value in categories)
    coded = sum(not isinstance(value, str) and value in codes for value in categories)
    return None if known == coded else "words" if known > coded else "numbers"


def _learnt_categories(model: Any) -> list[Any]:
    """Return the values that the encoders in a fitted estimator know."""
    found = [value for column in getattr(model, "categories_", None) or () for value in np.asarray(column).tolist()]
    parts = [*nested_parts(model), *(getattr(model, "transformers_", None) or ())]
    return found + [value for part in parts for value in _learnt_categories(part[1])]


def _has_text_values(attribute: Attribute) -> bool:
    values = attribute.values or ()
    return attribute.edges is None and attribute.encoding in (None, "code") and any(isinstance(v, str) for v in values)


def _scoring_method(model: Any) -> Literal["predict_proba", "decision_function", "predict"]:
    if hasattr(model, "predict_proba"):
        return "predict_proba"
    return "decision_function" if hasattr(model, "decision_function") else "predict"


def _choose_scoring(estimator: EstimatorModel, people: Floats) -> EstimatorModel:
    """Ask about some people: the estimator itself, or by its labels alone where its decision values tell another story.

    A support vector machine may have one decision value per pair of classes, for instance.
    """
    try:
        reply = estimator.reply(people)
        fits = np.array_equal(np.argmax(reply.scores, axis=1), reply.labels)
    except ModelError:
        if estimator.scored_by != "decision_function":
            raise
        estimator.predict(people)
        fits = False
    return estimator if fits or estimator.scored_by != "decision_function" else replace(estimator, scored_by="predict")
