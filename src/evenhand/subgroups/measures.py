"""Outcomes that are compared between a subgroup and the rest, one per person or text."""

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
from evenhand.subgroups.config import Measure, NumberSubgroupConfig
from evenhand.subgroups.result import MeasuredNumber

NO_SCORES = "the model gives labels only, so there is no mean score"
MEASURE_RATE = "measure the favourable rate instead"


@dataclass(frozen=True)
class MeasuredOutcomes:
    """Outcomes of the people that a measure covers.

    Attributes:
        concerned: Rows of these people: all, or those whose true label is (un)favourable.
        values: 0 or 1, score, or standardised number of each of these people.
        counted: Whether the values are 0 and 1.
        better: 1 if a higher value is better for people, else -1.
        unit: Center and spread of the values: a value v represents the outcome ``center + spread v``.
        number: Number that the model decides. None for labels.
    """

    concerned: Integers
    values: Floats
    counted: bool
    better: int = 1
    unit: tuple[float, float] = (0.0, 1.0)
    number: MeasuredNumber | None = None


def measure_outcomes(scorer: Scorer, people: People, measure: Measure) -> MeasuredOutcomes:
    """Query the model once for all people, and compute the outcomes.

    ``favourable``: whether the prediction is the favourable label. ``false-negative``: whether it is another label, for
    people with a favourable true label. ``false-positive``: whether it is the favourable label, for people with another
    true label. ``score``: the score of the favourable label.

    Raises:
        OptionError: The measure covers no one, or the model returns no scores.
        DataError: An error rate is measured without true labels.
    """
    rows = find_concerned(people, measure)
    if measure == "score":
        if scorer.label_only:
            raise OptionError(NO_SCORES, hint=MEASURE_RATE)
        return MeasuredOutcomes(rows, favourable_score(scorer, people.individuals), counted=False)
    selected = predict_labels(scorer, people.individuals[rows]) == scorer.favourable
    return _label_outcomes(rows, selected, measure)


def recorded_outcomes(decisions: RecordedDecisions, measure: Measure) -> MeasuredOutcomes:
    """Compute the outcomes of recorded decisions; see ``measure_outcomes``.

    Raises:
        OptionError: The measure covers no one, or there are no scores.
        DataError: An error rate is measured without true labels.
    """
    rows = find_concerned(decisions.people, measure)
    if measure == "score":
        if decisions.scores is None:
            raise OptionError("there are no scores, so there is no mean score", hint=MEASURE_RATE)
        return MeasuredOutcomes(rows, decisions.scores, counted=False)
    return _label_outcomes(rows, decisions.selected[rows], measure)


def _label_outcomes(rows: Integers, selected: Booleans, measure: Measure) -> MeasuredOutcomes:
    refused = measure == "false-negative"
    values = (selected != refused).astype(np.float64)
    return MeasuredOutcomes(rows, values, counted=True, better=-1 if refused else 1)


def check_truth(people: People, config: NumberSubgroupConfig) -> None:
    """Raise a DataError if errors are compared and the true values are not known."""
    if config.measure != "mean" and people.numbers is None:
        raise DataError(
            f"the true values are not known, so there is no {config.measure}",
            hint="name their column as the target, or leave `measure=` out to compare means",
        )


def measure_numbers(people: People, decided: Floats, config: NumberSubgroupConfig) -> MeasuredOutcomes:
    """Compute the outcomes of numbers: standardised values, to preserve precision in sums, or indicators of the level.

    Residuals and errors are computed for people whose true value is known.

    Raises:
        OptionError: No true value is known.
    """
    target, rows, values = people.schema.target, np.arange(len(decided)), decided
    better = -1 if target.favourable == "lower" or config.measure == "absolute-error" else 1
    if config.measure != "mean" and people.numbers is not None:
        rows = np.flatnonzero(~np.isnan(people.numbers))
        if not len(rows):
            raise OptionError(f"no person has a known true value, so there is no {config.measure}")
        values = decided[rows] - people.numbers[rows]
        values = values if config.measure == "residual" else np.abs(values)
    center, deviation = float(values.mean()), float(values.std())
    # Equal numbers may differ by rounding errors, which are not variation.
    constant = not deviation > 1e-12 * max(abs(center), 1e-300)
    spread = 1.0 if constant else deviation
    number = MeasuredNumber(
        name=target.name,
        unit=target.unit,
        favourable=str(target.favourable),
        above=config.above,
        deviation=deviation if config.above is not None else spread,
    )
    if config.above is not None:
        above = (values > config.above).astype(np.float64)
        return MeasuredOutcomes(rows, above, counted=True, better=better, number=number)
    values = np.zeros(len(rows)) if constant else (values - center) / spread
    return MeasuredOutcomes(rows, values, False, better, (center, spread), number)


def find_concerned(people: People, measure: Measure) -> Integers:
    """Find the rows of the people that a measure covers.

    Raises:
        OptionError: The measure covers no one.
        DataError: An error rate is measured without true labels.
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


@dataclass(frozen=True)
class TextOutcomes:
    """Outcomes of texts that were sent to a model.

    Attributes:
        answers: Answers of the model.
        measure: Outcome that is computed from them.
        truth: True labels, for error rates.
    """

    answers: TextAnswers
    measure: Measure
    truth: Sequence[Any] | None

    @property
    def is_counted(self) -> bool:
        """Whether outcomes are 0 and 1."""
        return self.measure != "score"

    @cached_property
    def favourable(self) -> str:
        """Name of the favourable label."""
        _, classes, column = self.answers.answers()
        return str(classes[column])

    def find_concerned(self, texts: Sequence[str]) -> Integers:
        """Find the rows of the answered texts that the measure covers.

        Raises:
            DataError: The measure covers no text.
        """
        answered = self.answers.positions(texts) >= 0
        if self.truth is None or self.measure in ("favourable", "score"):
            return np.flatnonzero(answered)
        favourable = np.array([str(label) == self.favourable for label in self.truth])
        refused = self.measure == "false-negative"
        rows = np.flatnonzero(answered & (favourable == refused))
        if len(rows) == 0:
            which = "is" if refused else "is not"
            raise DataError(f"no text's true label {which} {self.favourable!r}, so there is no {self.measure} rate")
        return rows

    def of(self, texts: Sequence[str]) -> Floats:
        """Compute the outcome of each text.

        Raises:
            OptionError: Scores are measured, but the model returns only labels.
        """
        reply, _, column = self.answers.answers()
        rows = self.answers.positions(texts)
        if self.measure == "score":
            if reply.label_only:
                raise OptionError(NO_SCORES, hint=MEASURE_RATE)
            return np.asarray(reply.scores[rows, column])
        return _label_outcomes(rows, reply.labels[rows] == column, self.measure).values
