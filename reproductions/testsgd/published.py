"""What the paper prints: parameters, accuracies, rule sets, scores, times and comparisons.

Source: Zhang, Sun, Wang and Sun: TestSGD: Interpretable Testing of Neural Networks Against Subtle Group Discrimination,
ACM TOSEM 2023, Tables 1 to 8 and sections 4.1 and 4.2. Scores, rates and accuracies are in percent.
"""

from __future__ import annotations

from typing import NamedTuple

TERMS = {"gender": 14, "race": 17, "religion": 9, "age": 8}
"""Table 1: identity terms by category."""

PARAMETERS = {
    "support threshold": 5.0,
    "sampling threshold": 1000.0,
    "confidence level": 95.0,
    "error margin threshold": 5.0,
    "z value": 1.96,
    "step of whole numbers": 1.0,
    "step of decimal numbers": 0.01,
}
"""Table 2; shares in percent."""

TITLES = {
    "census": "Census Income",
    "bank": "Bank Marketing",
    "german": "German Credit",
    "compas": "COMPAS",
    "law": "Law School",
    "crime": "Crime",
    "wiki": "Wiki Talk Pages",
    "imdb": "IMDB",
}
"""Our name of a data set -> the paper's."""

ACCURACY = {
    "census": 86.13,
    "bank": 91.62,
    "german": 100.0,
    "compas": 78.99,
    "crime": 92.52,
    "law": 95.19,
    "wiki": 93.89,
    "imdb": 86.68,
}
"""Table 3."""


class PublishedSubgroup(NamedTuple):
    """A rule set of Table 4.

    Attributes:
        words: as printed, in short.
        rules: the same as a condition on our data.
        score: how far the rates lie apart.
        inside, rest: rate of the label that the paper counts, in the rule set and outside it.
    """

    words: str
    rules: str
    score: float
    inside: float
    rest: float


_MEN_40 = "sex == Male and age >= 40"

SUBGROUPS: dict[str, tuple[PublishedSubgroup, ...]] = {
    "census": (
        PublishedSubgroup(
            "men of 40 to 79, White or Asian-Pac-Islander",
            f"{_MEN_40} and age < 80 and race in {{White, Asian-Pac-Islander}}",
            *(20.2, 29.9, 9.7),
        ),
        PublishedSubgroup(
            "men of 40 to 69, White or Amer-Indian-Eskimo",
            f"{_MEN_40} and age < 70 and race in {{White, Amer-Indian-Eskimo}}",
            *(19.4, 28.9, 9.5),
        ),
        PublishedSubgroup(
            "men of 40 to 79, all three races",
            f"{_MEN_40} and age < 80 and race in {{White, Asian-Pac-Islander, Amer-Indian-Eskimo}}",
            *(18.4, 26.9, 8.5),
        ),
    ),
    "bank": (
        PublishedSubgroup("10 to 89", "age < 90", 38.2, 3.3, 41.5),
        PublishedSubgroup("10 to 69", "age < 70", 22.8, 3.8, 26.6),
        PublishedSubgroup("10 to 59", "age < 60", 20.5, 4.7, 25.2),
    ),
    "german": (
        PublishedSubgroup("women of 60 to 69", "sex == female and age >= 60 and age < 70", 21.9, 72.5, 50.6),
        PublishedSubgroup("women of 60 to 79", "sex == female and age >= 60 and age < 80", 21.8, 70.5, 48.7),
        PublishedSubgroup("men of 40 to 79", "sex == male and age >= 40 and age < 80", 15.5, 52.6, 47.1),
    ),
    "compas": (
        PublishedSubgroup(
            "men from 40, Hispanic or Other", f"{_MEN_40} and race in {{Hispanic, Other}}", 62.4, 20.7, 83.1
        ),
        PublishedSubgroup(
            "men of 40 to 59, Hispanic or Other",
            f"{_MEN_40} and age < 60 and race in {{Hispanic, Other}}",
            *(62.3, 20.3, 82.6),
        ),
        PublishedSubgroup(
            "men of 50 to 59, Hispanic",
            "sex == Male and age >= 50 and age < 60 and race == Hispanic",
            *(62.3, 19.5, 81.8),
        ),
    ),
    "law": (
        PublishedSubgroup("men, Asian or Black", "gender == male and race1 in {asian, black}", 15.0, 84.5, 99.5),
        PublishedSubgroup("women, Asian or Black", "gender == female and race1 in {asian, black}", 11.1, 88.8, 99.9),
        PublishedSubgroup("women, Black", "gender == female and race1 == black", 10.2, 89.7, 99.9),
    ),
    "crime": (
        PublishedSubgroup(
            "divorced women from 0.4, White up to 0.8", "FemalePctDiv >= 0.4 and racePctWhite <= 0.8", 60.7, 83.8, 23.2
        ),
        PublishedSubgroup(
            "divorced women from 0.5, White up to 0.8", "FemalePctDiv >= 0.5 and racePctWhite <= 0.8", 59.6, 87.0, 27.4
        ),
        PublishedSubgroup(
            "divorced women from 0.5, White up to 0.6", "FemalePctDiv >= 0.5 and racePctWhite <= 0.6", 59.5, 94.6, 35.1
        ),
    ),
}
"""Table 4, people."""

OTHER_LABEL = {
    "compas": "a high risk, which a fifth of the people have in ProPublica's table",
    "crime": "much crime",
}
"""Where the rates printed are of the label that is not favourable."""


class PublishedTerms(NamedTuple):
    """A rule set of texts of Table 4.

    Attributes:
        terms: category -> term.
        score, inside, rest: as of ``PublishedSubgroup``.
    """

    terms: dict[str, str]
    score: float
    inside: float
    rest: float

    @property
    def words(self) -> str:
        """The terms."""
        return " and ".join(f'"{term}"' for term in self.terms.values())


TEXT_SUBGROUPS: dict[str, tuple[PublishedTerms, ...]] = {
    "wiki": (
        PublishedTerms({"gender": "gay", "religion": "taoist"}, 6.5, 13.0, 6.5),
        PublishedTerms({"gender": "gay", "religion": "protestant"}, 5.4, 12.9, 7.5),
        PublishedTerms({"gender": "gay", "race": "african american"}, 5.1, 12.5, 7.4),
    ),
    "imdb": (
        PublishedTerms({"race": "european", "age": "young"}, 6.6, 56.0, 49.4),
        PublishedTerms({"race": "white", "age": "older"}, 6.6, 59.1, 52.6),
        PublishedTerms({"gender": "lgbtq"}, 6.5, 7.5, 14.0),
    ),
}
"""Table 4, texts. Rates of wiki are of toxic texts, ours of texts that are not."""

TIMES: dict[str, tuple[float, int]] = {
    "census": (869.35, 880),
    "bank": (141.52, 34),
    "german": (104.85, 53),
    "compas": (908.5, 1590),
    "law": (18.46, 17),
    "crime": (29150.01, 13282),
    "wiki": (34982.28, 732),
    "imdb": (69125.16, 876),
}
"""Table 5: seconds and rule sets."""


class PublishedThreshold(NamedTuple):
    """A line of Table 6.

    Attributes:
        seconds, rule_sets: it took, and tested.
        words: the rule set with the highest score; empty where there was none.
        score: of it.
    """

    seconds: float
    rule_sets: int
    words: str = ""
    score: float | None = None


THRESHOLDS: dict[str, dict[int, PublishedThreshold]] = {
    "law": {
        1: PublishedThreshold(46.71, 59, "men, Black", 16.3),
        5: PublishedThreshold(18.46, 17, "men, Asian or Black", 15.0),
        10: PublishedThreshold(17.83, 16, "men, Asian or White", 1.0),
        20: PublishedThreshold(17.83, 16, "men, Asian or White", 0.9),
        50: PublishedThreshold(6.28, 2, "men, other race", 0.3),
    },
    "compas": {
        1: PublishedThreshold(1175.79, 2063, "men from 40, Hispanic or Other", 62.4),
        5: PublishedThreshold(908.5, 1590, "men from 40, Hispanic or Other", 62.4),
        10: PublishedThreshold(676.74, 1180, "men from 20, Hispanic or Other", 43.9),
        20: PublishedThreshold(0.0, 0),
        50: PublishedThreshold(0.0, 0),
    },
}
"""Table 6, by the support threshold in percent."""


class PublishedMitigation(NamedTuple):
    """A line of Table 7: accuracy and score before and after."""

    accuracy: float
    score: float
    accuracy_after: float
    score_after: float


TEXT_MITIGATION = {
    "wiki": PublishedMitigation(93.9, 6.5, 95.5, 0.4),
    "imdb": PublishedMitigation(86.7, 6.6, 84.0, 3.3),
}
"""Table 7, texts; people stand in ``reproduce.mitigation``, which makes that part of the table."""

THEMIS: dict[str, float | None] = {
    "census": 26.6,
    "bank": 8.4,
    "german": 17.1,
    "compas": 67.3,
    "law": 13.5,
    "crime": None,
}
"""Table 8: the score by THEMIS; None: not done within 24 hours."""

FAIRFICTPLAY = {"census": 13.9, "bank": 7.6, "german": 7.0, "compas": 22.4, "law": 3.7, "crime": 38.8}
"""Table 8: the score of the subgroup by FairFictPlay."""

COUNTED_RULE_SETS = ((2, 5, 10), (17, 80, 100, 197))
"""Section 4.1: rules on three attributes; rule sets of one, two and three rules, and of all."""

WORKED_EXAMPLE = (1000, 283, 91)
"""Section 4.2: samples a side, and how many are labelled True inside and outside."""

WORKED_FIGURES = {"margin inside": 2.8, "margin outside": 1.8, "margin": 4.6, "score": 19.2, "confidence": 90.25}
"""Section 4.2: what follows from them."""
