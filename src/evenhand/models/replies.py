"""Queries of black boxes, with a budget, and their replies: labels, or numeric outputs (see ``outputs``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import BudgetError, ModelError
from evenhand.models.additive.network import binary_labels
from evenhand.models.scorer import BATCH_ROWS, Scorer, ask_once, split_batches
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema
from evenhand.schema.table import list_values, outcome_key, plain_value

SUM_TOLERANCE = 1e-3
"""Tolerance of the sum of scores, for models that compute in single precision."""


@dataclass(frozen=True, eq=False)
class Reply:
    """Scores and labels of a batch.

    Attributes:
        scores: Scores, shape (n, classes). Each row sums to 1.
        labels: Positions in the classes, shape (n,).
        label_only: Whether the scores are the one-hot encoded labels.
    """

    scores: Floats
    labels: Integers
    label_only: bool

    @property
    def columns(self) -> Floats:
        """Labels and scores side by side, shape (n, 1 + classes)."""
        return np.column_stack([self.labels, self.scores])


class ReplyingScorer(ABC):
    """Base of models that return scores and labels together."""

    @abstractmethod
    def reply(self, individuals: Floats) -> Reply:
        """Return the scores and labels of individuals (n, attributes).

        Raises:
            EvenhandError: The model fails, or its answers cannot be read.
        """

    def scores(self, individuals: Floats) -> Floats:
        """Return the scores of individuals, shape (n, classes). Errors are those of ``reply``."""
        return self.reply(individuals).scores

    def predict(self, individuals: Floats) -> Integers:
        """Return the labels of individuals as positions in ``classes``, shape (n,). Errors are those of ``reply``."""
        return self.reply(individuals).labels


def join_replies(scorer: Scorer, replies: Iterable[Reply]) -> Reply:
    """Concatenate the replies of a model to batches. Without batches, the arrays are empty."""
    parts = list(replies)
    none = Reply(np.empty((0, len(scorer.classes))), np.empty(0, dtype=np.int64), scorer.label_only)
    scores, labels = (np.concatenate([getattr(part, name) for part in (none, *parts)]) for name in ("scores", "labels"))
    return Reply(scores, labels, scorer.label_only)


def reply_once(
    scorer: Scorer, individuals: Floats, cache: dict[bytes, Floats], ask: Callable[[Floats], Reply], *, batch: int
) -> Reply:
    """Query the model for individuals (n, attributes), each distinct one only once.

    Args:
        scorer: The model.
        individuals: The individuals.
        cache: Labels and scores by the bytes of an individual's row. New ones are added.
        ask: Function that queries the model about new individuals.
        batch: Individuals per query.
    """
    width = 1 + len(scorer.classes)
    answers = ask_once(individuals, cache, lambda rows: ask(rows).columns, batch=batch, width=width)
    return Reply(answers[:, 1:], answers[:, 0].astype(np.int64), scorer.label_only)


# Queries that are charged to a ledger.


@dataclass(eq=False)
class QuestionLedger:
    """Count of the individuals (or texts) sent to a model. Queries beyond the budget are refused.

    A black box charges its ledger for each call, including calls during loading and retries. The count therefore equals
    the number of rows that the model received. Cached answers are free.

    Attributes:
        budget: Maximum number of individuals. None disables the limit.
        sent: Number of individuals sent.
        settled: Number of individuals already included in a report.
    """

    budget: int | None = None
    sent: int = 0
    settled: int = 0

    @property
    def left(self) -> float:
        """Remaining number of individuals. Infinite without a budget."""
        return np.inf if self.budget is None else self.budget - self.sent

    def charge(self, rows: int) -> None:
        """Count individuals before they are sent.

        Raises:
            BudgetError: The budget would be exceeded. None of the individuals is counted, and none may be sent.
        """
        if self.budget is not None and rows > self.budget - self.sent:
            raise BudgetError(
                f"the budget of {self.budget:,} rows is spent: {self.sent:,} have been queried, and the next query "
                f"needs {rows:,}",
                hint="increase the budget, or query fewer people",
            )
        self.sent += rows

    def settle(self) -> int:
        """Count the individuals since the last call, for the report of an analysis."""
        rows, self.settled = self.sent - self.settled, self.sent
        return rows

    @contextmanager
    def within(self, rows: int | None) -> Iterator[None]:
        """Temporarily lower the budget to a number of rows since the last report. None keeps the budget."""
        budget = self.budget
        if rows is not None:
            self.budget = int(min(self.settled + rows, np.inf if budget is None else budget))
        try:
            yield
        finally:
            self.budget = budget


def find_ledger(model: Any) -> QuestionLedger | None:
    """Find the ledger of a model. None for a model without one, such as a white box."""
    ledger = getattr(model, "ledger", None)
    return ledger if isinstance(ledger, QuestionLedger) else None


def ask_people(scorer: Scorer, individuals: Floats, ledger: QuestionLedger | None = None) -> Reply:
    """Query the scores and labels of individuals (n, attributes) in batches (see ``ask_model``)."""
    batches = split_batches(individuals, BATCH_ROWS)
    return join_replies(scorer, (ask_model(scorer, batch, ledger) for batch in batches))


def ask_model(scorer: Scorer, individuals: Floats, ledger: QuestionLedger | None = None) -> Reply:
    """Query the scores and labels of individuals (n, attributes) in one call.

    Args:
        scorer: The model.
        individuals: The individuals.
        ledger: Ledger that is charged if the model has none.

    Raises:
        BudgetError: The budget would be exceeded.
    """
    if ledger is not None and find_ledger(scorer) is None:
        ledger.charge(len(individuals))
    reply = getattr(scorer, "reply", None)
    if reply is not None:
        both: Reply = reply(individuals)
        return both
    scores = np.asarray(scorer.scores(individuals))
    labels = np.argmax(scores, axis=1) if scorer.label_only else scorer.predict(individuals)
    return Reply(scores, np.asarray(labels, dtype=np.int64), scorer.label_only)


# Interpretation of replies.


def target_labels(schema: Schema) -> tuple[tuple[Value, ...], int]:
    """Return the target's labels for a model without label names, and the position of the favourable one."""
    classes = binary_labels(schema) if schema.target.values is None else schema.target.values
    return classes, classes.index(schema.target.favourable)


def labels_of_outputs(schema: Schema, outputs: int, *, location: str) -> tuple[tuple[Value, ...], int]:
    """Return the labels of a network without label names, and the position of the favourable one. A single output
    refers to the favourable label; several outputs follow the order of the target's ``values``.

    Raises:
        ModelError: The number of labels differs from the number of outputs.
    """
    if outputs == 1:
        return binary_labels(schema), 1
    labels = schema.target.values or ()
    if len(labels) != outputs:
        raise ModelError(
            f"the model has {outputs} outputs, and the target {schema.target.name!r} "
            + (f"has {len(labels)} labels" if labels else "does not list its labels"),
            location=location,
            hint="list the target's `values` in the schema, in the order of the model's outputs",
        )
    return labels, labels.index(schema.target.favourable)


class Answers(NamedTuple):
    """Answers of a model for n individuals.

    Attributes:
        labels: Positions in the classes, shape (n,). None if there are no labels.
        outputs: Finite numbers, shape (n, k). None without numbers.
    """

    labels: Integers | None
    outputs: Floats | None


def read_answers(reply: Any, n: int, classes: Sequence[Value], favourable: int, *, location: str) -> Answers:
    """Interpret the reply of a function or service for n individuals as labels or numeric outputs.

    Strings and Booleans are labels. Numbers in one column may be labels, which is decided later.

    Raises:
        ModelError: The reply does not have one row per individual, or contains unknown labels or non-finite numbers.
    """
    array = _reply_array(reply, n, classes, favourable, location)
    if array.ndim == 1:
        kinds, inverse = _distinct_replies(array)
        if any(isinstance(kind, bool) or not isinstance(kind, int | float) for kind in kinds):
            return Answers(_label_positions(kinds, classes, favourable, location)[inverse], None)
        array = array[:, None]
    outputs = array.astype(np.float64)
    check_finite(outputs, location=location)
    return Answers(None, outputs)


def read_labels(reply: Any, n: int, classes: Sequence[Value], favourable: int, *, location: str) -> Integers:
    """Convert the labels of n individuals, including numeric ones, to positions in the classes.

    Raises:
        ModelError: A value is not a label, or there is not one value per individual.
    """
    kinds, inverse = _distinct_replies(_reply_array(reply, n, classes, favourable, location))
    return _label_positions(kinds, classes, favourable, location)[inverse]


def _label_positions(kinds: Sequence[Any], classes: Sequence[Value], favourable: int, location: str) -> Integers:
    """Return the positions of distinct labels. With two labels, ``True`` may mean the favourable one."""
    positions = [next((i for i, label in enumerate(classes) if same_label(kind, label)), None) for kind in kinds]
    if len(classes) == 2:
        positions = [
            (favourable if kind else 1 - favourable) if position is None and isinstance(kind, bool) else position
            for kind, position in zip(kinds, positions, strict=True)
        ]
    unknown = [kind for kind, position in zip(kinds, positions, strict=True) if position is None]
    if not unknown:
        return np.array(positions, dtype=np.int64)
    words = [kind for kind in unknown if isinstance(kind, bool) or not isinstance(kind, int | float)]
    if not words and any(isinstance(kind, bool | str) for kind in kinds):
        raise ModelError(f"the model returned both labels and numbers such as {unknown[0]!r}", location=location)
    raise ModelError(
        f"the model returned {(words or unknown)[0]!r}, which is not one of the labels {', '.join(map(repr, classes))}",
        location=location,
        hint="list the model's own labels in the schema's target, or return scores of the favourable label",
    )


def _reply_array(reply: Any, n: int, classes: Sequence[Value], favourable: int, location: str) -> NDArray[Any]:
    """Convert a reply to an array: labels or numbers (n,), or numbers (n, k). Columns named after labels are sorted."""
    try:
        array = to_array(reply)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the model's reply is not an array: {error}", location=location) from None
    names: Sequence[Any] = getattr(reply, "column_names", getattr(reply, "columns", ()))
    named = [i for name in names for i, label in enumerate(classes) if same_label(name, label)]
    if array.ndim == 2 and array.shape[1] == len(names) and sorted(named) == list(range(len(classes))):
        array = array[:, np.argsort(named)]
    elif len(names) == 1 and len(classes) == 2 and named == [1 - favourable]:
        raise ModelError(
            f"the model returned a column {names[0]!r}, which is the unfavourable label",
            location=location,
            hint=f"return the scores of {classes[favourable]!r}, or a column for each label",
        )
    if array.shape == (n, 1):
        array = array[:, 0]
    if array.shape == (n,) or (array.ndim == 2 and len(array) == n and array.dtype.kind in "fiu"):
        return array
    shape = "a single value" if array.shape == () else f"shape {array.shape}"
    raise ModelError(
        f"the model returned {shape} for {n} individuals; expected ({n},): one label or score each, or ({n}, "
        f"{len(classes)}): one score per label",
        location=location,
    )


def find_positions(labels: Any, classes: Any, n: int, *, location: str) -> Integers:
    """Convert labels to positions in the model's own classes, shape (n,).

    Raises:
        ModelError: There is not one label per individual, or a label is not among the classes.
    """
    labels = np.asarray(labels)
    if labels.shape not in ((n,), (n, 1)):
        raise ModelError(f"the model returned labels of shape {labels.shape} for {n} individuals", location=location)
    position = {label: i for i, label in enumerate(np.asarray(classes).tolist())}
    kinds, inverse = np.unique(labels.reshape(n), return_inverse=True)
    unknown = [label for label in kinds.tolist() if label not in position]
    if unknown:
        raise ModelError(
            f"the model returned the label {unknown[0]!r}, which is not among its own classes {list(position)}",
            location=location,
        )
    return np.array([position[label] for label in kinds.tolist()], dtype=np.int64)[inverse]


def label_reply(labels: Integers, classes: int) -> Reply:
    """Build a reply from label positions (n,)."""
    return Reply(np.eye(classes)[labels], labels, True)


def score_reply(scores: Floats, classes: int, *, location: str) -> Reply:
    """Build a reply from probabilities (n, classes).

    The label is the most probable one; ties are resolved in favour of the first.

    Raises:
        ModelError: The shape is wrong, or a row is not a probability distribution.
    """
    scores = check_scores(scores, len(scores), classes, model=location)
    wrong = (scores < 0).any(axis=1) | (np.abs(scores.sum(axis=1) - 1) > SUM_TOLERANCE)
    if wrong.any():
        raise ModelError(
            f"expected probabilities, got the scores {scores[int(np.argmax(wrong))].tolist()} for an individual",
            location=location,
            hint="scores must be from 0 to 1 and add up to 1: apply a softmax, or return labels",
        )
    return Reply(scores, np.argmax(scores, axis=1).astype(np.int64), bool(np.isin(scores, (0, 1)).all()))


def _distinct_replies(array: NDArray[Any]) -> tuple[list[Any], Integers]:
    """Return the distinct replies as Python values, and the position of each reply among them."""
    if array.dtype.kind in "biuf":
        kinds, inverse = np.unique(array, return_inverse=True)
        return kinds.tolist(), np.asarray(inverse, dtype=np.int64)
    positions: dict[tuple[type, Any], int] = {}
    values = [plain_value(value) for value in array.tolist()]
    keys = [(type(value), value if value.__hash__ else repr(value)) for value in values]
    order = [positions.setdefault(key, len(positions)) for key in keys]
    return [value for _, value in positions], np.array(order, dtype=np.int64)


# Checks of replies.


def check_scores(scores: Floats, n: int, classes: int, *, model: str) -> Floats:
    """Check the scores of n individuals, and return them with shape (n, classes).

    A binary model may return one column (n,) or (n, 1) for the second class.

    Raises:
        ModelError: The shape is wrong, or a score is NaN or infinite.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if classes == 2 and scores.shape in ((n,), (n, 1)):
        positive = scores.reshape(n)
        scores = np.stack([1 - positive, positive], axis=1)
    if scores.shape != (n, classes):
        raise ModelError(
            f"the model returned shape {scores.shape} for {n} individuals; expected ({n}, {classes}), one score per "
            "class",
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
        numbers = to_array(answer, np.float64)
    except (TypeError, ValueError):
        raise ModelError(
            f"expected numbers for {n} individuals, got {type(answer).__name__}",
            location=model,
            hint="the target is a number; for a model that predicts labels set `kind=label`",
        ) from None
    if numbers.shape not in ((n,), (n, 1)):
        shape = "a single value" if numbers.shape == () else f"shape {numbers.shape}"
        raise ModelError(
            f"the model returned {shape} for {n} individuals; expected ({n},), one number each",
            location=model,
        )
    check_finite(numbers.reshape(n, 1), location=model)
    return numbers.reshape(n)


def to_array(answer: Any, dtype: Any = None) -> NDArray[Any]:
    """Convert an answer of a model, which may be a tensor, to an array."""
    return np.asarray(answer.detach().cpu() if hasattr(answer, "detach") else answer, dtype=dtype)


def check_finite(outputs: Floats, *, location: str) -> None:
    """Raise a ModelError if one of the outputs (n, k) is NaN or infinite."""
    wrong = ~np.isfinite(outputs).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        values = outputs[row].tolist() if outputs.shape[1] > 1 else outputs[row, 0]
        raise ModelError(f"the model returned {values} for individual {row + 1} of a batch", location=location)


# Labels of the schema for a model's answers.


class MatchedLabels(NamedTuple):
    """Labels of a model's answers.

    Attributes:
        classes: Labels in the order of the answers.
        favourable: Position of the favourable label in ``classes``.
        guessed: Whether the answers are 0 and 1, the target has two other labels, and 1 was assumed to be the
            favourable one.
    """

    classes: tuple[Value, ...]
    favourable: int
    guessed: bool


def match_labels(schema: Schema, answers: Sequence[Any], *, location: str) -> MatchedLabels:
    """Match a model's answers with the labels of the target.

    An answer matches the label that it equals, as a number (``1`` and ``1.0``) or as text (``"1"`` and ``1``).

    Args:
        schema: Schema with the target.
        answers: Possible answers of the model, in the order of its scores.
        location: Name of the model in messages.

    Raises:
        ModelError: An answer is not a label of the target, or the favourable label is missing.
    """
    target = schema.target
    labels = (target.favourable,) if target.values is None else target.values
    keys, by_key = list(map(outcome_key, answers)), {outcome_key(label): label for label in reversed(labels)}
    matched = [by_key.get(key) for key in keys]
    favourable = next((i for i, label in enumerate(matched) if label == target.favourable), None)
    complete = target.values is None or None not in matched
    if favourable is not None and complete:
        pairs = zip(answers, matched, strict=True)
        classes = tuple(plain_value(answer) if label is None else label for answer, label in pairs)
        if len(set(map(str, classes))) == len(classes):
            return MatchedLabels(classes, favourable, False)
    two = target.values is None or len(target.values) == 2
    open_labels = matched[0] is None and favourable in (None, 1) and matched[1] in (None, target.favourable)
    if keys == ["0", "1"] and two and open_labels:
        return MatchedLabels(binary_labels(schema), 1, favourable is None or target.values is not None)
    values = list(map(plain_value, answers))
    raise ModelError(
        f"the model returns {list_values(values)}, but the target {target.name!r} has the labels {list_values(labels)}"
        if target.values is not None
        else f"the model returns {list_values(values)}, but never {target.favourable!r}, the favourable label",
        location=location,
        hint="list the model's own answers in the schema's target (`values`, `favourable`)",
    )


def same_label(answer: Any, label: Value) -> bool:
    """Check whether an answer equals a label: as a number (``1`` and ``1.0``), as text, or as a truth value."""
    return outcome_key(answer) == outcome_key(label)
