"""Two texts that differ in identity terms alone and are decided differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from evenhand.texts.swap import Slot


class TextSide(BaseModel):
    """What the model says to the text with one group's words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    text: str
    label: str
    score: float


class TextFinding(BaseModel):
    """One text whose label changes with the words of a category.

    Attributes:
        category: which words were swapped.
        row: position of the text in the data.
        original: the group that the text speaks of.
        template: the text with both groups' words where they differ: ``{She|He} asked for {her|his} pay``.
        worse, better: the groups with the lowest and the highest score among those that disagree.
        disagreeing: groups whose words bring another label than the original's.
        gap: difference of the two scores.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    category: str
    row: int
    original: str
    template: str
    worse: TextSide
    better: TextSide
    disagreeing: tuple[str, ...]
    gap: float


def finding(
    category: str,
    row: int,
    slot: Slot,
    labels: NDArray[np.int64],
    scores: NDArray[np.float64],
    classes: Sequence[Any],
) -> TextFinding:
    """What a swap changed in one text.

    Args:
        category: whose words were swapped.
        row: position of the text in the data.
        slot: the text and what takes the words' place; the text's own group comes first.
        labels: positions in ``classes``, one per group of ``slot.swapped``, not all the same.
        scores: of the favourable label, one per group.
        classes: the labels' names.
    """
    groups = list(slot.swapped)
    better = int(np.argmax(scores))
    other = labels != labels[better]
    worse = int(np.argmin(np.where(other, scores, np.inf)))

    def side(which: int) -> TextSide:
        return TextSide(
            group=groups[which],
            text=slot.of(groups[which]),
            label=str(classes[labels[which]]),
            score=float(scores[which]),
        )

    return TextFinding(
        category=category,
        row=row,
        original=slot.group,
        template=slot.between(groups[worse], groups[better]),
        worse=side(worse),
        better=side(better),
        disagreeing=tuple(group for group, label in zip(groups, labels, strict=True) if label != labels[0]),
        gap=float(scores[better] - scores[worse]),
    )


def once(findings: Sequence[TextFinding]) -> list[TextFinding]:
    """Each pair of texts once, though several rows of the data lead to it."""
    seen: set[tuple[str, frozenset[str]]] = set()
    kept = []
    for one in findings:
        key = one.category, frozenset((one.worse.text, one.better.text))
        if key not in seen:
            seen.add(key)
            kept.append(one)
    return kept
