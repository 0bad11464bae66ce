"""Pairs of texts that differ only in identity terms and have different labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from evenhand.core.typing import Floats, Integers
from evenhand.datasets.identity.swapping import SwapTemplate


class TextSide(BaseModel):
    """Prediction for the text with the terms of one group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    text: str
    label: str
    score: float


class TextFinding(BaseModel):
    """A text whose label changes with the terms of a category.

    Attributes:
        category: Name of the category.
        row: Position of the text in the data.
        original: Group that the text mentions.
        template: Text with the terms of both groups: ``{She|He} asked for {her|his} pay``.
        worse, better: Groups with the lowest and the highest score among those with different labels.
        disagreeing: Groups whose terms change the label.
        gap: Difference of the two scores.
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


def text_finding(
    category: str,
    row: int,
    slot: SwapTemplate,
    labels: Integers,
    scores: Floats,
    classes: Sequence[Any],
) -> TextFinding | None:
    """Build the finding of one text, or None if all variants have the same label.

    Args:
        category: Name of the category.
        row: Position of the text in the data.
        slot: Template of the text.
        labels: Positions in ``classes``, one per group of ``slot.swapped``.
        scores: Scores of the favourable label, one per group.
        classes: Names of the labels.
    """
    if (labels == labels[0]).all():
        return None
    groups = list(slot.swapped)
    better = int(np.argmax(scores))
    other = labels != labels[better]
    worse = int(np.argmin(np.where(other, scores, np.inf)))

    def side(index: int) -> TextSide:
        group, label, score = groups[index], str(classes[labels[index]]), float(scores[index])
        return TextSide(group=group, text=slot.of(group), label=label, score=score)

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


def clearest_findings(findings: Sequence[TextFinding], most: int) -> tuple[TextFinding, ...]:
    """Return the findings with the largest gaps, one per pair of texts."""
    seen: set[tuple[str, frozenset[str]]] = set()
    kept = []
    for finding in sorted(findings, key=lambda finding: (-finding.gap, finding.row)):
        key = finding.category, frozenset((finding.worse.text, finding.better.text))
        if key not in seen:
            seen.add(key)
            kept.append(finding)
    return tuple(kept[:most])
