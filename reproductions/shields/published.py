"""What the paper states, each figure with its place in it; empty where the paper shows a picture only.

Source: Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields: Safeguarding against Biased Decision Makers,
AAAI 2025, in its extended version arXiv:2412.11994. Figures are facts; nothing else is taken from there.
"""

from __future__ import annotations

from dataclasses import dataclass

WHERE = "AAAI 2025; extended version arXiv:2412.11994"


@dataclass(frozen=True)
class PublishedBias:
    """The bias at the end of a run with a bounded horizon, divided by kappa, over all settings and five classifiers.

    Attributes:
        lower, median, upper: quartiles.
        mean, deviation: over all runs.
        above: share of runs above the threshold, in percent.
    """

    lower: float
    median: float
    upper: float
    mean: float
    deviation: float
    above: float


@dataclass(frozen=True)
class PublishedRates:
    """Shares of periodic runs, in percent.

    Attributes:
        assumption: all that the shield's guarantee rests on held in every period; None: it rests on nothing.
        fairness: fair at the end of every period.
    """

    assumption: float | None
    fairness: float


@dataclass(frozen=True)
class PublishedPeople:
    """An environment, as the paper counts it.

    Attributes:
        people: rows.
        label: percent with label 1.
        group_a, group_b: percent in each group.
        gap: difference of the groups' shares of label 1.
    """

    people: int
    label: float
    group_a: float
    group_b: float
    gap: float


@dataclass(frozen=True)
class PublishedClassifier:
    """A trained classifier on people it was not trained on: accuracy and gaps between the groups, in percent."""

    accuracy: float
    demographic_parity: float
    equal_opportunity: float


BIAS: dict[tuple[str, str], PublishedBias] = {
    ("demographic_parity", "none"): PublishedBias(0.38, 0.83, 1.59, 1.22, 1.29, 42.46),
    ("demographic_parity", "FinHzn"): PublishedBias(0.18, 0.42, 0.74, 0.46, 0.31, 0.00),
    ("equal_opportunity", "none"): PublishedBias(0.67, 1.76, 3.62, 2.76, 3.01, 65.06),
    ("equal_opportunity", "FinHzn"): PublishedBias(0.00, 0.21, 0.50, 0.27, 0.28, 0.00),
}
"""Table 9. By property and shield. Their table calls the shield Static-Fair, which in a single period is FinHzn."""

RATES: dict[tuple[str, str], PublishedRates] = {
    ("demographic_parity", "none"): PublishedRates(None, 23.57),
    ("demographic_parity", "Static-Fair"): PublishedRates(0.00, 95.71),
    ("demographic_parity", "Static-BW"): PublishedRates(43.81, 83.10),
    ("demographic_parity", "Dynamic"): PublishedRates(100.00, 100.00),
    ("equal_opportunity", "none"): PublishedRates(None, 22.14),
    ("equal_opportunity", "Static-Fair"): PublishedRates(0.00, 100.00),
    ("equal_opportunity", "Static-BW"): PublishedRates(4.05, 56.43),
    ("equal_opportunity", "Dynamic"): PublishedRates(49.76, 100.00),
}
"""Table 2, its figures as the authors' analysis notebook prints them. By property and shield; ERM alone."""

PEOPLE: dict[tuple[str, str], PublishedPeople] = {
    ("adult", "race"): PublishedPeople(43131, 24.90, 9.80, 90.20, 0.14),
    ("adult", "sex"): PublishedPeople(45222, 24.78, 32.50, 67.50, 0.20),
    ("bank", "age"): PublishedPeople(41188, 11.27, 2.59, 97.41, 0.13),
    ("compas", "sex"): PublishedPeople(6172, 45.51, 19.04, 80.96, 0.13),
    ("compas", "race"): PublishedPeople(6172, 45.51, 65.93, 34.07, 0.10),
    ("german", "sex"): PublishedPeople(1000, 70.00, 31.00, 69.00, 0.07),
    ("german", "age"): PublishedPeople(1000, 70.00, 19.00, 81.00, 0.15),
}
"""Table 4. By data set and attribute."""

CLASSIFIED_PLACE = (
    "Tables 5 to 8; the rows have lost their names in the text that is at hand, and are taken in the order in which "
    "the paper lists its methods"
)
CLASSIFIED: dict[tuple[str, str, str], PublishedClassifier] = {
    (dataset, attribute, name): PublishedClassifier(*figures)
    for (dataset, attribute), rows in {
        ("adult", "race"): (
            (85.2, 10.9, 6.1), (84.4, 5.4, 4.0), (84.9, 8.7, 3.1), (84.4, 9.5, 8.2), (84.2, 5.6, 4.0),
        ),
        ("adult", "sex"): (
            (85.2, 16.5, 9.6), (82.5, 0.2, 32.8), (83.2, 1.8, 28.0), (85.1, 14.3, 1.5), (82.5, 0.1, 33.1),
        ),
        ("bank", "age"): (
            (91.3, 10.5, 3.7), (90.4, 3.4, 26.2), (91.4, 7.0, 6.6), (90.5, 6.0, 4.4), (90.7, 3.3, 34.2),
        ),
        ("compas", "sex"): (
            (65.3, 16.5, 18.1), (63.1, 12.1, 11.0), (64.3, 14.8, 9.8), (65.2, 17.2, 14.8), (63.0, 12.0, 8.0),
        ),
        ("compas", "race"): (
            (64.8, 14.3, 15.5), (64.6, 9.1, 14.8), (64.4, 8.2, 11.3), (65.1, 13.2, 18.2), (64.2, 8.9, 13.1),
        ),
        ("german", "sex"): (
            (75.5, 5.3, 5.5), (73.0, 1.1, 3.5), (72.7, 1.4, 1.1), (73.0, 8.2, 4.1), (72.7, 5.7, 4.1),
        ),
        ("german", "age"): (
            (74.7, 13.8, 14.7), (71.7, 0.5, 1.8), (73.7, 4.2, 6.0), (73.0, 10.0, 6.4), (75.0, 6.5, 4.8),
        ),
    }.items()
    for name, figures in zip(("ERM", "DiffDP", "HSIC", "LAFTR", "PR"), rows, strict=True)
}  # fmt: skip
"""By data set, attribute and classifier."""

SYNTHESIS: dict[str, tuple[float, float]] = {
    "demographic_parity": (1.0, 30.0),
    "equal_opportunity": (1.5, 1300.0),
}
"""By property: about so many seconds and megabytes for the shield with a bounded horizon."""

SYNTHESIS_HORIZON = {"demographic_parity": 100, "equal_opportunity": 75}
"""By property: decisions of these shields."""
