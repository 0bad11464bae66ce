"""Numbers before and after a mitigation. Their intervals are adjusted once all numbers are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.result import Change, ChangeVerdict, ComparisonLine, ComparisonPart
from evenhand.models.ledger import ask_people
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer
from evenhand.schema.people import People
from evenhand.stats.auc import auc
from evenhand.stats.level import bonferroni
from evenhand.stats.paired import auc_difference, mcnemar, paired_difference
from evenhand.stats.proportion import observed_rate
from evenhand.stats.quantity import Quantity, Unknown

ChangeAt = Callable[[float], Change]
"""Function from a confidence level to a change with its interval."""


@dataclass(frozen=True, eq=False)
class ModelDecisions:
    """Predictions of a model for people, computed on first use.

    Attributes:
        scorer: Model.
        people: People with true labels.
    """

    scorer: Scorer
    people: People

    @cached_property
    def _reply(self) -> Reply:
        return ask_people(self.scorer, self.people.individuals)

    @property
    def labels(self) -> Integers:
        """Predicted labels, as positions in the model's classes, shape (n,)."""
        return self._reply.labels

    @cached_property
    def favourable_decisions(self) -> Booleans:
        """Mask of favourable predictions, shape (n,)."""
        return np.asarray(self.labels == self.scorer.favourable)

    @cached_property
    def correct(self) -> Booleans:
        """Mask of correct predictions, shape (n,)."""
        # A label that does not occur in the data is never correct.
        positions = {value: i for i, value in enumerate(self.people.schema.target.values or ())}
        predicted = np.array([positions.get(label, -1) for label in self.scorer.classes])[self.labels]
        return np.asarray(predicted == self.people.labels)

    @cached_property
    def scores(self) -> Floats | None:
        """Scores of the favourable label, shape (n,), or None for a model without scores."""
        return None if self.scorer.label_only else self._reply.scores[:, self.scorer.favourable]


@dataclass(frozen=True, eq=False)
class ComparisonSides:
    """Decisions of two models on the test and validation sets.

    Attributes:
        before, after: Original and new model on the test set.
        before_validation, after_validation: The same on the validation set, on which all choices are made.
        confidence: Confidence level of the intervals before and after.
    """

    before: ModelDecisions
    after: ModelDecisions
    before_validation: ModelDecisions
    after_validation: ModelDecisions
    confidence: float

    @property
    def test(self) -> People:
        """Test set."""
        return self.before.people

    @property
    def validation(self) -> People:
        """Validation set."""
        return self.before_validation.people


class PendingComparison(NamedTuple):
    """Number whose change is not computed yet.

    Attributes:
        line: Number without its change.
        change: Change at a confidence level, or None if there is no interval.
    """

    line: ComparisonLine
    change: ChangeAt | None


def pending(
    part: ComparisonPart,
    name: str,
    of: str,
    words: str,
    values: tuple[Quantity, Quantity],
    change: ChangeAt | None = None,
    *,
    better_if: Literal["up", "down"] = "down",
    verdict: ChangeVerdict = "not comparable",
    note: str = "",
) -> PendingComparison:
    """Create a pending comparison. The verdict applies if there is no interval. See ``ComparisonLine``."""
    before, after = values
    line = ComparisonLine(
        part=part,
        name=name,
        of=of,
        words=words,
        before=before,
        after=after,
        change=None,
        better_if=better_if,
        verdict=verdict,
        note=note,
    )
    return PendingComparison(line, change)


def finish_lines(comparisons: Sequence[PendingComparison], confidence: float) -> tuple[ComparisonLine, ...]:
    """Compute all changes, with simultaneous intervals at the confidence level (Bonferroni)."""
    intervals = sum(change is not None for _, change in comparisons)
    adjusted = bonferroni(confidence, max(intervals, 1))
    return tuple(line if change is None else _finish_line(line, change(adjusted)) for line, change in comparisons)


def _finish_line(line: ComparisonLine, change: Change) -> ComparisonLine:
    verdict: ChangeVerdict = "within noise"
    if not change.low <= 0 <= change.high:
        verdict = "better" if (change.low > 0) == (line.better_if == "up") else "worse"
    return line.model_copy(update={"change": change, "verdict": verdict})


def compare_performance(sides: ComparisonSides) -> list[PendingComparison]:
    """Compare accuracy, and the area under the ROC curve if both models have scores."""
    models = sides.before, sides.after
    before, after = sides.before.correct, sides.after.correct
    rates = [observed_rate(int(mask.sum()), len(mask), confidence=sides.confidence) for mask in (before, after)]
    favourable = sides.test.favourable
    areas: list[Quantity] = [
        Unknown(reason="the model has no scores")
        if model.scores is None
        else auc(model.scores, favourable, sides.confidence)
        for model in models
    ]
    change = None
    scores_before, scores_after = sides.before.scores, sides.after.scores
    if scores_before is not None and scores_after is not None and not any(isinstance(area, Unknown) for area in areas):
        change = _auc_change(scores_before, scores_after, favourable)
    return [
        pending(
            "performance",
            "accuracy",
            "",
            "accuracy",
            (rates[0], rates[1]),
            compare_shares(before, after),
            better_if="up",
        ),
        pending("performance", "auc", "", "area under the ROC curve", (areas[0], areas[1]), change, better_if="up"),
    ]


def compare_flips(
    part: ComparisonPart,
    name: str,
    of: str,
    words: str,
    flips: tuple[Booleans, Booleans],
    confidence: float,
) -> PendingComparison:
    """Compare counterfactual flip rates.

    Args:
        part, name, of, words: As in ``ComparisonLine``.
        flips: Masks of flips of the same individuals before and after, shape (n,).
        confidence: Confidence level of each rate.
    """
    before, after = (observed_rate(int(mask.sum()), len(mask), confidence=confidence) for mask in flips)
    return pending(part, name, of, words, (before, after), compare_shares(*flips) if len(flips[0]) else None)


def compare_shares(before: Booleans, after: Booleans) -> ChangeAt:
    """Compare two shares of the same people."""
    n, gained, lost = len(before), int((after & ~before).sum()), int((before & ~after).sum())

    def change(confidence: float) -> Change:
        low, high = paired_difference(gained, lost, n, confidence)
        return Change(
            value=(gained - lost) / n,
            low=low,
            high=high,
            confidence=confidence,
            p=mcnemar(gained, lost),
            n=n,
            method="Tango's score interval, held to McNemar's exact test",
        )

    return change


def _auc_change(before: Floats, after: Floats, favourable: Booleans) -> ChangeAt:
    def change(confidence: float) -> Change:
        difference = auc_difference(before, after, favourable, confidence)
        return Change(
            value=difference.value,
            low=difference.low,
            high=difference.high,
            confidence=confidence,
            p=difference.p,
            n=len(favourable),
            method="DeLong, paired",
        )

    return change
