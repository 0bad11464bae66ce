"""A line of a comparison before it is known among how many it stands: its interval waits for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from evenhand.mitigate.outcomes import Bools, Floats, Outcomes
from evenhand.mitigate.result import Change, Line, Part, Verdict
from evenhand.schema import People
from evenhand.stats import (
    Quantity,
    Unknown,
    auc,
    auc_difference,
    bonferroni,
    estimated_rate,
    mcnemar,
    observed_rate,
    paired_difference,
)


@dataclass(frozen=True, eq=False)
class Sides:
    """Two models and two sets of people.

    Attributes:
        before, after: the given and the new model on the test people.
        before_chosen, after_chosen: the same on the validation people, on whom all is chosen.
        confidence: of the intervals before and after.
    """

    before: Outcomes
    after: Outcomes
    before_chosen: Outcomes
    after_chosen: Outcomes
    confidence: float

    @property
    def test(self) -> People:
        """The people compared on."""
        return self.before.people

    @property
    def chosen(self) -> People:
        """The people on whom all is chosen."""
        return self.before_chosen.people


@dataclass(frozen=True, eq=False)
class Draft:
    """A line but for the interval of its change; fields as in ``Line``.

    Attributes:
        change: the change with its interval at a given confidence; None where none can be given.
        verdict: where there is no interval.
    """

    part: Part
    name: str
    of: str
    words: str
    before: Quantity
    after: Quantity
    better_if: Literal["up", "down"]
    change: Callable[[float], Change] | None = None
    verdict: Verdict = "not comparable"
    note: str = ""

    def line(self, confidence: float) -> Line:
        """The line, its interval with this confidence."""
        change = None if self.change is None else self.change(confidence)
        return Line(
            part=self.part,
            name=self.name,
            of=self.of,
            words=self.words,
            before=self.before,
            after=self.after,
            change=change,
            better_if=self.better_if,
            verdict=self.verdict if change is None else judged(change, self.better_if),
            note=self.note,
        )


def lines(drafts: Sequence[Draft], confidence: float) -> tuple[Line, ...]:
    """All lines, the intervals of their changes so wide that all hold together with ``confidence`` (Bonferroni)."""
    intervals = sum(draft.change is not None for draft in drafts)
    adjusted = bonferroni(confidence, max(intervals, 1))
    return tuple(draft.line(adjusted) for draft in drafts)


def judged(change: Change, better_if: str) -> Verdict:
    """What an interval says of a change."""
    if change.low <= 0 <= change.high:
        return "within noise"
    return "better" if (change.low > 0) == (better_if == "up") else "worse"


def performance(sides: Sides) -> list[Draft]:
    """Accuracy, and the area under the curve where both models have scores."""
    right = [side.right for side in (sides.before, sides.after)]
    first, second = (observed_rate(int(one.sum()), len(one), confidence=sides.confidence) for one in right)
    found = [Draft("performance", "accuracy", "", "accuracy", first, second, "up", shares_change(*right))]
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
    return [*found, Draft("performance", "auc", "", name, areas[0], areas[1], "up", change)]


def flip_draft(
    part: Part, of: str, words: str, before: Bools, after: Bools, confidence: float, population: str = ""
) -> Draft:
    """How often decisions flip, counted on the test people or on individuals drawn from a population."""
    first, second = (
        estimated_rate(int(one.sum()), len(one), population=population, confidence=confidence)
        if population
        else observed_rate(int(one.sum()), len(one), confidence=confidence)
        for one in (before, after)
    )
    name = "population_violation_rate" if population else "violation_rate"
    return Draft(part, name, of, words, first, second, "down", shares_change(before, after))


def shares_change(before: Bools, after: Bools) -> Callable[[float], Change]:
    """The change of a share of the same people."""
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


def _auc_change(before: Floats, after: Floats, deserving: Bools) -> Callable[[float], Change]:
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
