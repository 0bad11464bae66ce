"""Recorded decisions, numbers and labels of people, with optional true labels and scores."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.schema.people import People, PeopleWeights
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.thresholds import Threshold


@dataclass(frozen=True)
class RecordedDecisions:
    """Recorded decisions about people.

    Attributes:
        people: People with a decision. Their attributes define the groups, and their target is the decision.
            ``people.labels`` holds the true labels, -1 where unknown. None if there is no column of true labels.
        selected: Mask of favourable decisions, shape (n,).
        scores: Scores of the favourable decision, shape (n,); None if they are not known.
        risks: Recorded scores if low scores are favourable. ``scores`` are then ``1 - risks``, or ``-risks`` if the
            recorded scores are not within [0, 1]. None if high scores are favourable.
        weights: Sample weights; None for equal weights.
        truth: Column of the true labels. None if there is none.
        threshold: Threshold that made the decisions; None if decisions were recorded.
        decided_by: Column of the decision, or of the score.
        memberships: Group probabilities.
    """

    people: People
    selected: Booleans
    scores: Floats | None = None
    risks: Floats | None = None
    weights: PeopleWeights | None = None
    truth: str | None = None
    threshold: Threshold | None = None
    decided_by: str = ""
    memberships: tuple[GroupProbabilities, ...] = ()


@dataclass(frozen=True)
class RecordedNumbers:
    """Recorded numeric decisions about people, such as premiums.

    Attributes:
        people: People with a recorded number. Their attributes define the groups, and their target is the number.
            ``people.numbers`` holds the true target values, NaN where unknown. None if there is no such column.
        decided: Recorded numbers, shape (n,).
        truth: Column of the true target values. None if there is none.
        weights: Sample weights; None for equal weights.
    """

    people: People
    decided: Floats
    truth: str | None = None
    weights: PeopleWeights | None = None


@dataclass(frozen=True)
class RecordedLabels:
    """Recorded decisions with several or ordinal labels.

    Attributes:
        people: Rows with a recorded label. The attributes define the groups, and the target is the decision.
            ``people.labels`` holds the true labels, -1 where unknown. None if there is no column of true labels.
        decided: Positions of the recorded labels in the values of the target, shape (n,).
        truth: Column of the true labels. None if there is none.
        weights: Sample weights; None for equal weights.
    """

    people: People
    decided: Integers
    truth: str | None = None
    weights: PeopleWeights | None = None
