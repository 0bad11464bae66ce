"""Interfaces of models, and functions that query any model in batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.column_types import AS_READ, ColumnTypes
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema

Part = TypeVar("Part")
RowsT = TypeVar("RowsT", Floats, Sequence[str])

BATCH_ROWS = 65_536
"""Individuals per model call, a compromise between speed and memory."""


@runtime_checkable
class Scorer(Protocol):
    """Black-box model that predicts labels. Each call takes a whole batch.

    Attributes:
        schema: Schema of the individuals.
        classes: Labels, in the order of the score columns.
        favourable: Position of the favourable label in ``classes``.
        label_only: Whether the scores are only the one-hot encoded labels.
        name: Name of the model in reports, such as the file name.
    """

    @property
    def schema(self) -> Schema: ...
    @property
    def classes(self) -> tuple[Value, ...]: ...
    @property
    def favourable(self) -> int: ...
    @property
    def label_only(self) -> bool: ...
    @property
    def name(self) -> str: ...

    def scores(self, individuals: Floats) -> Floats:
        """Compute the class scores of individuals (n, attributes), shape (n, classes). Each row sums to 1."""
        ...

    def predict(self, individuals: Floats) -> Integers:
        """Predict the label of each individual, as a position in ``classes``, shape (n,)."""
        ...


@runtime_checkable
class Regressor(Protocol):
    """Black-box model that predicts a number, such as a price. Each call takes a whole batch.

    Attributes:
        schema: Schema of the individuals. Its target is a number.
        name: Name of the model in reports.
    """

    @property
    def schema(self) -> Schema: ...
    @property
    def name(self) -> str: ...

    def predict_numbers(self, individuals: Floats) -> Floats:
        """Predict the number for each individual (n, attributes), in the target's unit, shape (n,)."""
        ...


def find_caution(scorer: object) -> str:
    """Collect the cautions about a model, such as the column types that it receives."""
    scorer = unwrap_scorer(scorer)
    types: ColumnTypes = getattr(scorer, "types", AS_READ)
    return " ".join(filter(None, [types.describe(), getattr(scorer, "caution", "")]))


class WrappedScorer:
    """Base of scorers that wrap another one. Subclasses define ``scores`` and ``predict``.

    Attributes:
        model: The wrapped scorer.
        decides: Whether the wrapper changes decisions. Otherwise it only saves queries.
    """

    decides: ClassVar[bool] = False

    model: Scorer

    @property
    def schema(self) -> Schema:
        """Schema of the individuals."""
        return self.model.schema

    @property
    def classes(self) -> tuple[Value, ...]:
        """Labels in the order of the scores."""
        return self.model.classes

    @property
    def favourable(self) -> int:
        """Position of the favourable label."""
        return self.model.favourable

    @property
    def label_only(self) -> bool:
        """Whether the scores are only the labels."""
        return self.model.label_only

    @property
    def name(self) -> str:
        """Name of the model in reports."""
        return self.model.name

    @property
    def ledger(self) -> object:
        """Ledger of the queries, or None (see ``find_ledger``)."""
        return getattr(self.model, "ledger", None)


def unwrap_scorer(model: Part) -> Scorer | Part:
    """Remove the wrappers of a model."""
    scorer: Scorer | Part = model
    while isinstance(scorer, WrappedScorer):
        scorer = scorer.model
    return scorer


def change_templates(part: Part, change: Callable[[Any], Any]) -> Part:
    """Replace the template frame (``like``) in every part of a model.

    Args:
        part: A model, or an object made of models.
        change: Function that maps the current frame to the new one.
    """
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes: dict[str, Any] = {}
    for item in dataclasses.fields(part):
        value = getattr(part, item.name)
        if item.name == "like" and value is not None:
            changes[item.name] = change(value)
        elif isinstance(value, tuple):
            parts = tuple(change_templates(inner, change) for inner in value)
            if any(new is not old for new, old in zip(parts, value, strict=True)):
                changes[item.name] = parts
        elif (new := change_templates(value, change)) is not value:
            changes[item.name] = new
    return dataclasses.replace(part, **changes) if changes else part


def split_batches(rows: RowsT, size: int) -> Iterator[RowsT]:
    """Yield rows in batches of at most ``size``."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def predict_labels(scorer: Scorer, individuals: Floats, *, batch: int = BATCH_ROWS) -> Integers:
    """Query the labels of individuals in batches, shape (n,)."""
    parts = list(map(scorer.predict, split_batches(individuals, batch)))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def favourable_score(scorer: Scorer, individuals: Floats, *, batch: int = BATCH_ROWS) -> Floats:
    """Query the scores of the favourable label in batches, shape (n,)."""
    parts = list(map(scorer.scores, split_batches(individuals, batch)))
    return np.concatenate(parts)[:, scorer.favourable] if parts else np.empty(0)


def ask_numbers(regressor: Regressor, individuals: Floats, *, batch: int = BATCH_ROWS) -> Floats:
    """Query the predicted numbers for individuals (n, attributes) in batches, shape (n,)."""
    parts = list(map(regressor.predict_numbers, split_batches(individuals, batch)))
    return np.concatenate(parts) if parts else np.empty(0)


def refuse_missing(individuals: Floats, model: str) -> None:
    """Raise a ModelError if a value of individuals (n, attributes) is missing."""
    if np.isnan(individuals).any():
        raise ModelError(
            "an individual has a missing value, which the model does not accept",
            location=model,
            hint="set `missing: drop` for the attribute in the schema",
        )


def sigmoid(logits: Floats) -> Floats:
    """Compute the logistic function without overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -700, 700))))


def softmax(logits: Floats) -> Floats:
    """Compute probabilities from logits (n, classes)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def class_probabilities(logits: Floats) -> Floats:
    """Convert logits (n, classes), or (n, 1) of the second of two classes, to probabilities (n, classes)."""
    if logits.shape[1] > 1:
        return softmax(logits)
    positive = sigmoid(logits)
    return np.hstack([1 - positive, positive])


# Models with a fixed batch size.


def ask_in_batches(call: Callable[[Floats], Floats], inputs: Floats, rows: int | None) -> Floats:
    """Query a model with individuals (n, inputs) in batches of ``rows``. The last batch is padded with the last
    individual. If ``rows`` is None, there is a single batch.
    """
    if rows is None or len(inputs) == 0:
        return call(inputs)
    outputs = []
    for start in range(0, len(inputs), rows):
        part = inputs[start : start + rows]
        full = np.concatenate([part, np.repeat(part[-1:], rows - len(part), axis=0)])
        outputs.append(call(full)[: len(part)])
    return np.concatenate(outputs)


def ask_once(
    individuals: Floats, cache: dict[bytes, Floats], ask: Callable[[Floats], Floats], *, batch: int, width: int
) -> Floats:
    """Query a model for individuals (n, attributes), each distinct one only once. Return the answers, (n, width).

    Args:
        individuals: The individuals.
        cache: Cached answers, by the bytes of an individual's row. New ones are added.
        ask: Function that returns the answers (m, width) about m new individuals.
        batch: Individuals per query.
        width: Numbers per answer.
    """
    rows = np.ascontiguousarray(individuals, dtype=np.float64)
    keys = [row.tobytes() for row in rows]
    new = list({key: i for i, key in enumerate(keys) if key not in cache}.items())
    for start in range(0, len(new), batch):
        part = new[start : start + batch]
        answers = ask(rows[[i for _, i in part]])
        cache.update(zip((key for key, _ in part), answers, strict=True))
    return np.stack([cache[key] for key in keys]) if keys else np.empty((0, width))
