"""What is compared between a subgroup and the rest: one outcome per person or text concerned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.models.blackbox.text_model import TextAnswers
from evenhand.models.scorer import Scorer, favourable_score, predict_labels
from evenhand.schema.decisions import RecordedDecisions
from evenhand.schema.people import People
from evenhand.stats.proportion import count_needed
from evenhand.subgroups.config import Measure

MEASURES: tuple[Measure, ...] = ("favourable", "false-negative", "false-positive", "score")


@dataclass(frozen=True)
class MeasuredOutcomes:
    """What happened to the people that a measure is about.

    Attributes:
        concerned: rows of the people, shape (n,): everybody, or those whose true label is (un)favourable.
        values: 0 or 1, the score, or the standardised number, of each of them, shape (n,).
        counted: whether the values are 0 and 1.
        better: 1 if a higher value is better for people, else -1.
        center, spread: a value v stands for the outcome ``center + spread v``.
    """

    concerned: Integers
    values: Floats
    counted: bool
    better: int = 1
    center: float = 0.0
    spread: float = 1.0


def measure_outcomes(scorer: Scorer, people: People, measure: Measure) -> MeasuredOutcomes:
    """Ask the model once about everybody, and say what the measure makes of its answers.

    ``favourable``: whether the model gives the favourable label. ``false-negative``: whether it refuses it, among
    those whose true label is favourable. ``false-positive``: whether it gives it, among those whose true label is
    not. ``score``: the favourable label's score.

    Raises:
        OptionError: no one is concerned, or the model gives no scores.
        DataError: error rates without true labels.
    """
    everybody = np.arange(len(people))
    if measure == "score":
        if scorer.label_only:
            raise OptionError(
                "the model gives labels only, so there is no mean score", hint="measure the favourable rate instead"
            )
        return MeasuredOutcomes(everybody, favourable_score(scorer, people.individuals), counted=False)
    if measure == "favourable":
        given = predict_labels(scorer, people.individuals) == scorer.favourable
        return MeasuredOutcomes(everybody, given.astype(np.float64), counted=True)
    about = find_concerned(people, measure)
    given = predict_labels(scorer, people.individuals[about]) == scorer.favourable
    wrong = ~given if measure == "false-negative" else given
    return MeasuredOutcomes(about, wrong.astype(np.float64), counted=True, better=_better(measure))


def recorded_outcomes(decisions: RecordedDecisions, measure: Measure) -> MeasuredOutcomes:
    """Say what a measure makes of decisions already made, as ``measure_outcomes`` of those of a model.

    Raises:
        OptionError: no one is concerned, or there are no scores.
        DataError: error rates without true labels.
    """
    about = find_concerned(decisions.people, measure)
    if measure == "score":
        if decisions.scores is None:
            raise OptionError(
                "there are no scores, so there is no mean score", hint="measure the favourable rate instead"
            )
        return MeasuredOutcomes(about, decisions.scores, counted=False)
    given = decisions.selected[about] != (measure == "false-negative")
    return MeasuredOutcomes(about, given.astype(np.float64), counted=True, better=_better(measure))


def _better(measure: Measure) -> int:
    """Return 1 if a high rate is better for people, -1 if a low one is: that of wrong refusals."""
    return -1 if measure == "false-negative" else 1


def find_concerned(people: People, measure: Measure) -> Integers:
    """Return the rows of the people that a measure is about.

    Raises:
        OptionError: no one is concerned.
        DataError: error rates without true labels.
    """
    if measure in ("favourable", "score"):
        return np.arange(len(people))
    rows = np.flatnonzero(people.true_labels == (1 if measure == "false-negative" else 0))
    if len(rows) == 0:
        truly = "is" if measure == "false-negative" else "is not"
        raise OptionError(
            f"no one's true label {truly} {people.schema.target.favourable!r}, so there is no {measure} rate"
        )
    return rows


class TextOutcomes:
    """Outcomes of texts that a model was asked about.

    Args:
        asking: what it said.
        measure: what is made of it.
        truth: the true labels, for error rates.
    """

    def __init__(self, asking: TextAnswers, measure: Measure, truth: Sequence[Any] | None) -> None:
        self.asking, self.measure, self.truth = asking, measure, truth

    @property
    def is_counted(self) -> bool:
        """Whether outcomes are 0 and 1."""
        return self.measure != "score"

    @cached_property
    def favourable(self) -> str:
        """The favourable label's name."""
        _, classes, wanted = self.asking.answers()
        return str(classes[wanted])

    def find_concerned(self, texts: Sequence[str]) -> Integers:
        """Return the rows of the texts that the measure is about and that the model answered.

        Raises:
            DataError: there is none.
        """
        answered = self.asking.positions(texts) >= 0
        if self.truth is None or self.measure in ("favourable", "score"):
            return np.flatnonzero(answered)
        deserving = np.array([str(label) == self.favourable for label in self.truth])
        rows = np.flatnonzero(answered & (deserving if self.measure == "false-negative" else ~deserving))
        if len(rows) == 0:
            which = "is" if self.measure == "false-negative" else "is not"
            raise DataError(f"no text's true label {which} {self.favourable!r}, so there is no {self.measure} rate")
        return rows

    def of(self, texts: Sequence[str]) -> Floats:
        """Return the outcome of each text.

        Raises:
            OptionError: scores are asked for, and the model gives labels only.
        """
        reply, _, wanted = self.asking.answers()
        rows = self.asking.positions(texts)
        if self.measure == "score":
            if reply.label_only:
                raise OptionError(
                    "the model gives labels only, so there is no mean score", hint="measure the favourable rate instead"
                )
            return np.asarray(reply.scores[rows, wanted])
        given = reply.labels[rows] == wanted
        return np.where(given != (self.measure == "false-negative"), 1.0, 0.0)


# Floors: how many people a rule set needs on both sides before anything is said about it.


@dataclass(frozen=True)
class MinimumSizes:
    """What a rule set must hold.

    Attributes:
        share: people in it, and outside, at least, to be looked at without having been asked about.
        people: the same for one that was asked about, and for all others too.
    """

    share: int
    people: int

    def accept(self, size: Floats, rest: Floats, *, asked: bool = False) -> Booleans:
        """Return which rule sets may be looked at; one that was asked about need not hold a share of everybody."""
        least = self.people if asked else max(self.share, self.people)
        return np.asarray((size >= least) & (rest >= least))

    def reason(self, size: float, rest: float, *, effective: bool = False) -> str | None:
        """Return why nothing is said about a rule set that was asked about; None if something is.

        Args:
            size, rest: people in it and outside; ``effective``: as many drawn alike as say as much.
        """
        for count, where in ((size, "in the subgroup"), (rest, "in the rest")):
            if count < self.people and effective:
                return f"the effective size is {count:.1f} {where}, below {self.people}"
            if count < self.people:
                people = (
                    "no one is" if count == 0 else f"only {count:,.0f} {'person is' if count == 1 else 'people are'}"
                )
                return f"{people} {where}, fewer than {self.people}"
        return None


def minimum_sizes(support: float, min_size: int, people: float) -> MinimumSizes:
    """Compute the minimum sizes for a number of people."""
    return MinimumSizes(count_needed(support, people), min_size)
