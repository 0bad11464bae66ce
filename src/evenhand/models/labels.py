"""Which of a model's answers is which label of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.errors import ModelError
from evenhand.models.additive import two_labels
from evenhand.schema import Schema, Value


def match_labels(schema: Schema, answers: Sequence[Any], *, where: str) -> tuple[tuple[Value, ...], int]:
    """The labels that a model's answers stand for, and the position of the favourable one.

    An answer stands for the label it equals, as a number (``1`` and ``1.0``) or as text (``"1"`` and ``1``). A model
    that answers 0 and 1 while the target has two other labels means the favourable one by 1.

    Args:
        schema: its target names the labels.
        answers: what the model can answer, in the order of its scores.
        where: how to call the model in messages.

    Returns:
        ``(classes, favourable)`` as in ``Scorer``.

    Raises:
        ModelError: an answer is none of the target's labels, or the favourable label is never given.
    """
    given = [value.item() if isinstance(value, np.generic) else value for value in answers]
    target = schema.target
    known = (target.favourable,) if target.values is None else target.values
    matched = [next((label for label in known if same_label(value, label)), None) for value in given]
    favourable = next((i for i, label in enumerate(matched) if label == target.favourable), None)
    complete = target.values is None or None not in matched
    if favourable is not None and complete:
        classes = tuple(value if label is None else label for value, label in zip(given, matched, strict=True))
        if len(set(map(str, classes))) == len(classes):
            return classes, favourable
    zero_one = len(given) == 2 and same_label(given[0], 0) and same_label(given[1], 1)
    two = target.values is None or len(target.values) == 2
    if zero_one and two and matched[0] is None and favourable in (None, 1) and matched[1] in (None, target.favourable):
        return two_labels(schema), 1
    raise ModelError(
        f"the model answers {_listed(given)}, but the target {target.name!r} has the labels {_listed(known)}"
        if target.values is not None
        else f"the model answers {_listed(given)}, but never {target.favourable!r}, the favourable label",
        where=where,
        mend="name the model's own answers in the schema's target (`values`, `favourable`)",
    )


def same_label(answer: Any, label: Value) -> bool:
    """Whether an answer stands for a label: equal as a number (``1``, ``1.0`` and ``True``) or as text."""
    return bool(answer == label) or _text(answer) == _text(label)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value).strip()


def _listed(values: Sequence[Any], most: int = 10) -> str:
    shown = ", ".join(repr(value) for value in list(values)[:most])
    return f"{shown}, ... ({len(values)} in all)" if len(values) > most else shown
