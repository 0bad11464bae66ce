"""A line of a comparison before it is known among how many it stands: its interval waits for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

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
from evenhand.stats.proportion import estimated_rate, observed_rate
from evenhand.stats.quantity import Quantity, Unknown


@dataclass(frozen=True, eq=False)
class ComparisonSides:
    """Two models and two sets of people.

    Attributes:
        before, after: the given and the new model on the test people.
        before_chosen, after_chosen: the same on the validation people, on whom all is chosen.
        confidence: of the intervals before and after.
    """

    before: ModelDecisions
    after: ModelDecisions
    before_chosen: ModelDecisions
    after_chosen: ModelDecisions
    confidence: float

    @property
    def test(self) -> People:
        """The test set."""
        return self.before.people

    @property
    def chosen(self) -> People:
        """The people on whom all is chosen."""
        return self.before_chosen.people


@dataclass(frozen=True, eq=False)
class PendingComparison:
    """A line but for the interval of its change; fields as in ``Line``.

    Attributes:
        change: the change with its interval at a given confidence; None where none can be given.
        verdict: where there is no interval.
    """

    part: ComparisonPart
    name: str
    of: str
    words: str
    before: Quantity
    after: Quantity
    better_if: Literal["up", "down"]
    change: Callable[[float], Change] | None = None
    verdict: ChangeVerdict = "not comparable"
    note: str = ""

    def line(self, confidence: float) -> ComparisonLine:
        """Return the line, its interval with this confidence."""
        change = None if self.change is None else self.change(confidence)
        return ComparisonLine(
            part=self.part,
            name=self.name,
            of=self.of,
            words=self.words,
            before=self.before,
            after=self.after,
            change=change,
            better_if=self.better_if,
            verdict=self.verdict if change is None else judge_change(change, self.better_if),
            note=self.note,
        )


def finish_lines(drafts: Sequence[PendingComparison], confidence: float) -> tuple[ComparisonLine, ...]:
    """All lines, the intervals of their changes so wide that all hold together with ``confidence`` (Bonferroni)."""
    intervals = sum(draft.change is not None for draft in drafts)
    adjusted = bonferroni(confidence, max(intervals, 1))
    return tuple(draft.line(adjusted) for draft in drafts)


def judge_change(change: Change, better_if: str) -> ChangeVerdict:
    """Return what an interval says of a change."""
    if change.low <= 0 <= change.high:
        return "within noise"
    return "better" if (change.low > 0) == (better_if == "up") else "worse"


def compare_performance(sides: ComparisonSides) -> list[PendingComparison]:
    """Return accuracy, and the area under the curve where both models have scores."""
    right = [side.right for side in (sides.before, sides.after)]
    first, second = (observed_rate(int(one.sum()), len(one), confidence=sides.confidence) for one in right)
    found = [PendingComparison("performance", "accuracy", "", "accuracy", first, second, "up", shares_change(*right))]
    scores = [side.scores for side in (sides.before, sides.after)]
    deserving = sides.test.favourable
    areas: list[Quantity] = [
        Unknown(reason="the model gives labels, no scores") if one is None else auc(one, deserving, sides.confidence)
        for one in scores
    ]
    change = None
    if scores[0] is not None and scores[1] is not None and not any(isinstance(area, Unknown) for area in areas):
        change = _auc_change(scores[0], scores[1], deserving)
    name = "area under the ROC curve"
    return [*found, PendingComparison("performance", "auc", "", name, areas[0], areas[1], "up", change)]


def compare_flips(
    part: ComparisonPart,
    name: str,
    of: str,
    words: str,
    sides: tuple[Booleans, Booleans],
    confidence: float,
    population: str = "",
) -> PendingComparison:
    """Return how often decisions flip, counted on the test people or on individuals drawn from a population.

    Args:
        part, name, of, words: of the line.
        sides: who flips before and after, the same people, shape (n,).
        confidence: of each interval.
        population: what individuals were drawn from; empty: they are the test people.
    """
    before, after = sides
    first, second = (
        estimated_rate(int(one.sum()), len(one), population=population, confidence=confidence)
        if population
        else observed_rate(int(one.sum()), len(one), confidence=confidence)
        for one in sides
    )
    name = f"population_{name}" if population else name
    change = shares_change(before, after) if len(before) else None
    return PendingComparison(part, name, of, words, first, second, "down", change)


def shares_change(before: Booleans, after: Booleans) -> Callable[[float], Change]:
    """Return the change of a share of the same people."""
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


def _auc_change(before: Floats, after: Floats, deserving: Booleans) -> Callable[[float], Change]:
    def change(confidence: float) -> Change:
        found = auc_difference(before, after, deserving, confidence)
        return Change(
            value=found.value,
            low=found.low,
            high=found.high,
            confidence=confidence,
            p=found.p,
            n=len(deserving),
            method="DeLong, paired",
        )

    return change


# What a model decides about the test set: asked once, then only counted.


@dataclass(frozen=True, eq=False)
class ModelDecisions:
    """A model and people; what it says about them is asked when first needed.

    Attributes:
        scorer: the model.
        people: with true labels.
    """

    scorer: Scorer
    people: People

    @cached_property
    def _reply(self) -> Reply:
        return ask_people(self.scorer, self.people.individuals)

    @property
    def labels(self) -> Integers:
        """The label given, as a position in the model's classes, shape (n,)."""
        return self._reply.labels

    @cached_property
    def favourable_decisions(self) -> Booleans:
        """Who is given the favourable label, shape (n,)."""
        return np.asarray(self.labels == self.scorer.favourable)

    @cached_property
    def right(self) -> Booleans:
        """Whose label is the true one, shape (n,)."""
        values = self.people.schema.target.values or ()
        # A label that the data never has is never right.
        known = {value: i for i, value in enumerate(values)}
        meant = np.array([known.get(label, -1) for label in self.scorer.classes])
        return np.asarray(meant[self.labels] == self.people.labels)

    @cached_property
    def scores(self) -> Floats | None:
        """The favourable label's score, shape (n,); None where there are labels only."""
        return None if self.scorer.label_only else self._reply.scores[:, self.scorer.favourable]
