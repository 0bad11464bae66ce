"""What is compared between a subgroup and the rest: one outcome per person concerned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.models import Scorer, favourable_score, predict
from evenhand.schema import People

Measure: TypeAlias = Literal["favourable", "false-negative", "false-positive", "score"]
MEASURES: tuple[Measure, ...] = ("favourable", "false-negative", "false-positive", "score")


@dataclass(frozen=True)
class Outcome:
    """What happened to the people that a measure is about.

    Attributes:
        concerned: rows of the people, shape (n,): everybody, or those whose true label is (un)favourable.
        values: 0 or 1, or the score, of each of them, shape (n,).
        counted: whether the values are 0 and 1.
    """

    concerned: NDArray[np.int64]
    values: NDArray[np.float64]
    counted: bool


def outcome(scorer: Scorer, people: People, measure: Measure) -> Outcome:
    """Ask the model once about everybody, and say what the measure makes of its answers.

    ``favourable``: whether the model gives the favourable label. ``false-negative``: whether it refuses it, among
    those whose true label is favourable. ``false-positive``: whether it gives it, among those whose true label is
    not. ``score``: the favourable label's score.

    Raises:
        OptionError: nobody is concerned, or the model gives no scores.
        DataError: error rates without true labels.
    """
    everybody = np.arange(len(people))
    if measure == "score":
        if scorer.label_only:
            raise OptionError(
                "the model gives labels only, so there is no mean score", mend="measure the favourable rate instead"
            )
        return Outcome(everybody, favourable_score(scorer, people.individuals), counted=False)
    if measure == "favourable":
        given = predict(scorer, people.individuals) == scorer.favourable
        return Outcome(everybody, given.astype(np.float64), counted=True)
    about = concerned(people, measure)
    given = predict(scorer, people.individuals[about]) == scorer.favourable
    wrong = ~given if measure == "false-negative" else given
    return Outcome(about, wrong.astype(np.float64), counted=True)


def concerned(people: People, measure: Measure) -> NDArray[np.int64]:
    """Rows of the people that a measure is about.

    Raises:
        OptionError: nobody is concerned.
        DataError: error rates without true labels.
    """
    if measure in ("favourable", "score"):
        return np.arange(len(people))
    deserving = people.favourable
    rows = np.flatnonzero(deserving if measure == "false-negative" else ~deserving)
    if len(rows) == 0:
        truly = "is" if measure == "false-negative" else "is not"
        raise OptionError(
            f"nobody's true label {truly} {people.schema.target.favourable!r}, so there is no {measure} rate"
        )
    return rows
