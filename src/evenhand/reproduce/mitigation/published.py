"""What TestSGD states about retraining. Figures are facts; nothing else is taken from there.

Source: Zhang and others: TestSGD: Interpretable Testing of Neural Networks Against Subtle Group Discrimination, ACM
TOSEM 2023. What the shields paper states about its classifiers stands in ``evenhand.reproduce.shields.published``.
"""

from __future__ import annotations

from dataclasses import dataclass

PAPER = "Zhang and others: TestSGD, ACM TOSEM 2023"
RETRAINED_PLACE = "Table 7"


@dataclass(frozen=True)
class State:
    """A network and one subgroup, in percent.

    Attributes:
        accuracy: of the network.
        gap: how far the rates lie apart.
        inside, rest: share of the label that the paper calls True in the subgroup, and among the others.
    """

    accuracy: float
    gap: float
    inside: float
    rest: float


@dataclass(frozen=True)
class Retrained:
    """A subgroup before and after retraining.

    Attributes:
        words: the subgroup.
        before, after: retraining.
        note: what is to be known of the figures.
    """

    words: str
    before: State
    after: State
    note: str = ""


RETRAINED: dict[str, Retrained] = {
    "census": Retrained(
        "gender male, age 40 to under 80, race White or Asian-Pac-Islander",
        State(86.1, 20.2, 29.9, 9.7),
        State(86.2, 10.1, 18.9, 8.8),
    ),
    "bank": Retrained(
        "age 10 to under 90",
        State(91.6, 38.2, 3.3, 41.5),
        State(90.6, 5.4, 6.9, 12.3),
        "all but nine of the clients are in this subgroup",
    ),
    "german": Retrained(
        "gender female, age 60 to under 70",
        State(100.0, 21.9, 72.3, 50.6),
        State(100.0, 7.3, 45.9, 53.2),
        "an accuracy of 100 % is one on people learnt from",
    ),
    "compas": Retrained(
        "gender male, age 40 or more, race Hispanic or other",
        State(79.0, 62.4, 20.7, 83.1),
        State(78.5, 4.2, 80.9, 85.1),
        "the label is COMPAS's own score; the text says that the gap fell from 57.7 %, the table 62.4 %",
    ),
    "law": Retrained(
        "gender male, race Black",
        State(95.2, 15.0, 84.5, 99.5),
        State(95.1, 7.5, 92.3, 99.8),
        "Table 4 gives the same figures for race Asian or Black",
    ),
    "crime": Retrained(
        "FemalePctDiv at least 0.4, racePctWhite at most 0.8",
        State(93.9, 60.7, 83.8, 23.2),
        State(98.1, 51.4, 90.6, 39.2),
        "the label that is counted is much crime, ours is little of it",
    ),
}
"""By data set."""
