"""What can be asked of any model: scores and labels for a whole batch of individuals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.column_types import AS_READ, ColumnTypes
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema

Part = TypeVar("Part")

BATCH_ROWS = 65_536
"""Individuals per call to a model: large enough to be fast, small enough for memory."""


@runtime_checkable
class Scorer(Protocol):
    """A model as a black box. One call takes the whole batch; the same batch always gets the same answer.

    Attributes:
        schema: what its individuals are.
        classes: the labels it can give, in the order of its score columns.
        favourable: position of the favourable label in ``classes``.
        label_only: whether the scores are only the labels, one-hot.
        name: how to call it in a report, e.g. the file name.
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
        """Return one column per class for individuals (n, attributes): shape (n, classes), rows adding up to 1."""
        ...

    def predict(self, individuals: Floats) -> Integers:
        """Return the label of each individual, as a position in ``classes``, shape (n,)."""
        ...


@runtime_checkable
class Regressor(Protocol):
    """A model that decides a number, such as a price, as a black box. One call takes the whole batch.

    Attributes:
        schema: Schema of the individuals. Its target is a number.
        name: Name of the model in reports.
    """

    @property
    def schema(self) -> Schema: ...
    @property
    def name(self) -> str: ...

    def predict_numbers(self, individuals: Floats) -> Floats:
        """Return the number of each individual (n, attributes), in the target's unit, shape (n,)."""
        ...


def find_caution(scorer: object) -> str:
    """Return the cautions about a model behind its wrappers, such as the column types that it receives."""
    scorer = unwrap_scorer(scorer)
    types: ColumnTypes = getattr(scorer, "types", AS_READ)
    return " ".join(filter(None, [types.describe(), getattr(scorer, "caution", "")]))


class WrappedScorer:
    """What a scorer that asks another one takes over from it; ``scores`` and ``predict`` are its own.

    Attributes:
        model: the scorer that is asked.
    """

    model: Scorer

    @property
    def schema(self) -> Schema:
        """What its individuals are."""
        return self.model.schema

    @property
    def classes(self) -> tuple[Value, ...]:
        """The labels it can give."""
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
        """How to call it in a report."""
        return self.model.name

    @property
    def ledger(self) -> object:
        """What counts whom the model is asked about, if anything does (see ``find_ledger``)."""
        return getattr(self.model, "ledger", None)


def unwrap_scorer(model: Part) -> Scorer | Part:
    """Return the model behind its wrappers."""
    found: Scorer | Part = model
    while isinstance(found, WrappedScorer):
        found = found.model
    return found


def change_templates(part: Part, change: Callable[[Any], Any]) -> Part:
    """Return a model that is asked with rows of another frame: every part of it that holds a frame holds a changed one.

    Args:
        part: a model, or anything made of models. change: gives the frame in place of the one held (``like``).
    """
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes: dict[str, Any] = {}
    for one in dataclasses.fields(part):
        value = getattr(part, one.name)
        if one.name == "like" and value is not None:
            changes[one.name] = change(value)
        elif isinstance(value, tuple):
            made = tuple(change_templates(inner, change) for inner in value)
            if any(new is not old for new, old in zip(made, value, strict=True)):
                changes[one.name] = made
        elif (new := change_templates(value, change)) is not value:
            changes[one.name] = new
    return dataclasses.replace(part, **changes) if changes else part


def predict_labels(scorer: Scorer, individuals: Floats, *, batch: int = BATCH_ROWS) -> Integers:
    """Return the labels of any number of individuals, asked in batches, shape (n,)."""
    parts = [scorer.predict(individuals[i : i + batch]) for i in range(0, len(individuals), batch)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def favourable_score(scorer: Scorer, individuals: Floats, *, batch: int = BATCH_ROWS) -> Floats:
    """Return the favourable label's score of any number of individuals, asked in batches, shape (n,)."""
    parts = [scorer.scores(individuals[i : i + batch]) for i in range(0, len(individuals), batch)]
    return np.concatenate(parts)[:, scorer.favourable] if parts else np.empty(0)


def ask_numbers(regressor: Regressor, individuals: Floats, *, batch: int = BATCH_ROWS) -> Floats:
    """Return the numbers of any number of individuals (n, attributes), asked in batches, shape (n,)."""
    parts = [regressor.predict_numbers(individuals[at : at + batch]) for at in range(0, len(individuals), batch)]
    return np.concatenate(parts) if parts else np.empty(0)


def check_scores(scores: Floats, n: int, classes: int, *, model: str) -> Floats:
    """Check scores about n individuals, and return them with shape (n, classes).

    A binary model may give one column (n,) or (n, 1), which is of the second class.

    Raises:
        ModelError: The shape is another one, or a score is NaN or infinite.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if classes == 2 and scores.shape in ((n,), (n, 1)):
        positive = scores.reshape(n)
        scores = np.stack([1 - positive, positive], axis=1)
    if scores.shape != (n, classes):
        raise ModelError(
            f"asked about {n} individuals, the model answered with shape {scores.shape}; "
            f"expected ({n}, {classes}), one score per class",
            location=model,
        )
    check_finite(scores, location=model)
    return scores


def check_numbers(answer: Any, n: int, *, model: str) -> Floats:
    """Convert a model's answer about n individuals to numbers (n,).

    Raises:
        ModelError: The answer is not one finite number per individual.
    """
    try:
        numbers = np.asarray(answer.detach().cpu() if hasattr(answer, "detach") else answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(
            f"asked about {n} individuals, the model answered without numbers ({type(answer).__name__})",
            location=model,
            hint="the target is a number; for a model that gives labels set `kind=label`",
        ) from None
    if numbers.shape not in ((n,), (n, 1)):
        shape = "a single value" if numbers.shape == () else f"shape {numbers.shape}"
        raise ModelError(
            f"asked about {n} individuals, the model answered with {shape}; expected ({n},), one number each",
            location=model,
        )
    check_finite(numbers.reshape(n, 1), location=model)
    return numbers.reshape(n)


def check_finite(outputs: Floats, *, location: str) -> None:
    """Check that all outputs (n, k) are finite numbers.

    Raises:
        ModelError: An output is NaN or infinite.
    """
    wrong = ~np.isfinite(outputs).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        shown = outputs[row].tolist() if outputs.shape[1] > 1 else outputs[row, 0]
        raise ModelError(f"the model answered {shown} for individual {row + 1} of a batch", location=location)


# Models that take a fixed number of individuals at once.


def ask_in_batches(call: Callable[[Floats], Floats], asked: Floats, rows: int | None) -> Floats:
    """Ask about all individuals (n, inputs), ``rows`` at a time; the last one fills up what is missing to a batch.

    Without ``rows`` all are asked about at once.
    """
    if rows is None or len(asked) == 0:
        return call(asked)
    given = []
    for start in range(0, len(asked), rows):
        part = asked[start : start + rows]
        full = np.concatenate([part, np.repeat(part[-1:], rows - len(part), axis=0)])
        given.append(call(full)[: len(part)])
    return np.concatenate(given)


def ask_once(
    individuals: Floats, known: dict[bytes, Floats], ask: Callable[[Floats], Floats], *, batch: int, width: int
) -> Floats:
    """Return the answers about individuals (n, attributes), shape (n, width); no individual is asked about twice.

    Args:
        individuals: whom to ask about.
        known: the answers so far, by the bytes of an individual's row; new ones are added.
        ask: gives the answers (m, width) about m new individuals.
        batch: individuals per question.
        width: numbers of an answer.
    """
    rows = np.ascontiguousarray(individuals, dtype=np.float64)
    keys = [row.tobytes() for row in rows]
    new = list({key: i for i, key in enumerate(keys) if key not in known}.items())
    for start in range(0, len(new), batch):
        part = new[start : start + batch]
        answers = ask(rows[[i for _, i in part]])
        known.update(zip((key for key, _ in part), answers, strict=True))
    return np.stack([known[key] for key in keys]) if keys else np.empty((0, width))
