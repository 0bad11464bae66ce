"""The end of a model: how probabilities and labels follow from the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.additive import AdditiveNetwork
from evenhand.models.labels import match_labels
from evenhand.models.linear import Linear, network, scale, take
from evenhand.models.replies import labels_of_outputs
from evenhand.schema import Schema

Form: TypeAlias = Literal["second", "first", "probabilities", "margins", "position", "label"]


@dataclass(frozen=True, eq=False)
class Answer:
    """A tensor that follows from the logits alone.

    Attributes:
        logits: one unit (the second class wins when it is > 0) or one per class (the largest wins).
        form: ``second`` or ``first``, the probability of that class of two, (n, 1); ``probabilities``, (n, classes),
            or their logarithms; ``margins``, scores that are no probabilities; ``position`` of the winner; ``label``.
        classes: the labels in the order of the logits, where the model says them.
        probable: whether the model itself gives probabilities, the sigmoid or softmax of the logits.
    """

    logits: Linear
    form: Form
    classes: tuple[Any, ...] | None = None
    probable: bool = True


def sigmoid(logits: Linear) -> Answer:
    """The probability of the second of two classes."""
    if logits.units != 1:
        raise NotAdditiveError(
            f"a sigmoid of {logits.units} units: inside a network it is no ReLU, and at its end it gives "
            f"{logits.units} yes-or-no answers instead of one label"
        )
    return Answer(logits, "second")


def softmax(logits: Linear) -> Answer:
    """One probability per class."""
    if logits.units < 2:
        raise NotAdditiveError("a softmax over one output is always 1")
    return Answer(logits, "probabilities")


def complement(answer: Answer) -> Answer:
    """``1 - answer``."""
    if answer.form not in ("second", "first"):
        raise NotAdditiveError("it computes with the model's answer")
    return replace(answer, form="first" if answer.form == "second" else "second")


def pair(answers: Sequence[Answer]) -> Answer:
    """The probabilities of the first and the second class side by side."""
    if len(answers) == 1:
        return answers[0]
    same = len(answers) == 2 and answers[0].logits is answers[1].logits
    if same and [answer.form for answer in answers] == ["first", "second"]:
        return replace(answers[0], form="probabilities")
    raise NotAdditiveError("it rearranges the model's answers")


def column(answer: Answer, index: int) -> Answer:
    """One column of two probabilities."""
    if answer.form in ("probabilities", "margins") and answer.logits.units <= 2 and index in (0, 1, -1, -2):
        second = index in (1, -1)
        one = answer.logits if answer.logits.units == 1 else _difference(answer.logits)
        if answer.form == "probabilities":
            return replace(answer, logits=one, form="second" if second else "first")
        if second and answer.logits.units == 1:
            return replace(answer, logits=one)
    raise NotAdditiveError("it picks one of several answers")


def winner(tensor: Linear | Answer) -> Answer:
    """The position of the largest score, the first on a tie."""
    if isinstance(tensor, Linear):
        if tensor.units < 2:
            raise NotAdditiveError("the largest of one score is always the same")
        return Answer(tensor, "position", probable=False)
    if tensor.form not in ("probabilities", "margins"):
        raise NotAdditiveError("it looks for the largest of something else than one score per label")
    return replace(tensor, form="position")


def named(tensor: Linear | Answer, classes: Sequence[Any], form: Form) -> Answer:
    """The same answer, now that the model says what its labels are called."""
    answer = Answer(tensor, "margins", probable=False) if isinstance(tensor, Linear) else tensor
    expected = 2 if answer.logits.units == 1 else answer.logits.units
    if len(classes) != expected:
        raise ModelError(f"the model names {len(classes)} labels for {expected} outputs")
    return replace(answer, form=form, classes=tuple(classes))


def _difference(logits: Linear) -> Linear:
    first, second = take(logits, [0]), take(logits, [1])
    return Linear(logits.source, second.weights - first.weights, second.bias - first.bias)


def opposite(logits: Linear) -> bool:
    """Whether the two units are each other's negation."""
    if logits.units != 2:
        return False
    flipped = scale(take(logits, [0]), -1.0)
    second = take(logits, [1])
    return bool(np.array_equal(flipped.weights, second.weights) and np.array_equal(flipped.bias, second.bias))


def finish(outputs: Sequence[Linear | Answer], schema: Schema, *, name: str) -> AdditiveNetwork:
    """The additive network behind a model's outputs, which must all tell the same.

    Args:
        outputs: what the model gives: logits, probabilities, labels.
        schema: what its individuals are.
        name: how to call it in a report.

    Raises:
        ModelError: the number of outputs or their labels do not fit the schema's target.
        NotAdditiveError: the outputs answer different questions.
    """
    answers = [out for out in outputs if isinstance(out, Answer)]
    logits = answers[0].logits if answers else outputs[0]
    if not isinstance(logits, Linear):
        raise NotAdditiveError("the model gives no scores", where=name)
    for out in outputs:
        if (out.logits if isinstance(out, Answer) else out) is not logits:
            raise NotAdditiveError("the model's outputs are different functions of the person", where=name)
    if any(answer.form == "first" for answer in answers) and len(outputs) == 1:
        logits = scale(logits, -1.0)
        answers = [replace(answer, classes=None) for answer in answers]
    classes = next((answer.classes for answer in answers if answer.classes is not None), None)
    if classes is not None:
        matched, favourable = match_labels(schema, classes, where=name)
    else:
        matched, favourable = labels_of_outputs(schema, logits.units, where=name)
    if answers and not any(answer.probable for answer in answers) and opposite(logits):
        logits = take(logits, [1])  # one against the rest says everything twice where there are two labels
    return network(schema, logits, matched, favourable, name=name)
