"""Numbers before and after a mitigation. Their intervals are adjusted once all numbers are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.result import Change, ComparisonLine, ComparisonPart, Direction
from evenhand.models.replies import Reply, ask_people
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
    """Number whose change has not been computed yet.

    Attributes:
        line: Number without its change.
        change: Change at a confidence level, or None if there is no interval.
    """

    line: ComparisonLine
    change: ChangeAt | None = None

    @classmethod
    def of(
        cls,
        part: ComparisonPart,
        name: str,
        of: str,
        words: str,
        sides: Iterable[Quantity],
        change: ChangeAt | None = None,
        **others: Any,
    ) -> PendingComparison:
        """Create a number from its values before and after, and other fields of its line."""
        before, after = sides
        line = ComparisonLine(part=part, name=name, of=of, words=words, before=before, after=after, **others)
        return cls(line, change)


def change_at(
    value: float, interval: Callable[[float], tuple[float, float]], n: int, method: str, p: float | None = None
) -> ChangeAt:
    """Create the function from a confidence level to a change. See ``Change``."""

    def change(confidence: float) -> Change:
        low, high = interval(confidence)
        return Change(value=value, low=low, high=high, confidence=confidence, p=p, n=n, method=method)

    return change


def finish_lines(comparisons: Sequence[PendingComparison], confidence: float) -> tuple[ComparisonLine, ...]:
    """Compute all changes, with simultaneous intervals at the confidence level (Bonferroni)."""
    intervals = sum(change is not None for _, change in comparisons)
    adjusted = bonferroni(confidence, max(intervals, 1))
    lines = []
    for line, change_at_level in comparisons:
        if change_at_level is not None:
            change = change_at_level(adjusted)
            line = line.model_copy(update={"change": change, "verdict": change.verdict(line.better_if)})
        lines.append(line)
    return tuple(lines)


def compare_performance(sides: ComparisonSides) -> list[PendingComparison]:
    """Compare accuracy, and the area under the ROC curve if both models have scores."""
    before, after = sides.before, sides.after
    favourable, confidence = sides.test.favourable, sides.confidence
    areas: list[Quantity] = [
        Unknown(reason="the model has no scores") if model.scores is None else auc(model.scores, favourable, confidence)
        for model in (before, after)
    ]
    change = None
    if before.scores is not None and after.scores is not None and not isinstance(areas[0], Unknown):
        difference = partial(auc_difference, before.scores, after.scores, favourable)
        whole = difference(confidence)

        def interval(level: float) -> tuple[float, float]:
            at_level = difference(level)
            return at_level.low, at_level.high

        change = change_at(whole.value, interval, len(favourable), "DeLong, paired", whole.p)
    return [
        compare_shares("performance", "accuracy", "", "accuracy", (before.correct, after.correct), confidence, "up"),
        PendingComparison.of("performance", "auc", "", "area under the ROC curve", areas, change, better_if="up"),
    ]


def compare_shares(
    part: ComparisonPart,
    name: str,
    of: str,
    words: str,
    masks: tuple[Booleans, Booleans],
    confidence: float,
    better_if: Direction = "down",
) -> PendingComparison:
    """Compare two shares of the same people.

    Args:
        part, name, of, words, better_if: As in ``ComparisonLine``.
        masks: Masks of the same people before and after, shape (n,).
        confidence: Confidence level of each share.
    """
    n, (before, after) = len(masks[0]), masks
    rates = [observed_rate(int(mask.sum()), n, confidence=confidence) for mask in masks]
    change = None
    if n:
        gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
        interval = partial(paired_difference, gained, lost, n)
        method = "Tango's score interval, held to McNemar's exact test"
        change = change_at((gained - lost) / n, interval, n, method, mcnemar(gained, lost))
    return PendingComparison.of(part, name, of, words, rates, change, better_if=better_if)
