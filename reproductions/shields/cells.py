"""Which runs a table counts, and what tables have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reproductions.comparison import ComparedFigure, ComparedTable, Values, summarize_verdicts
from reproductions.shields.pieces import FINITE

Found = Mapping[str, Values]

SHORT = {"demographic_parity": "DP", "equal_opportunity": "EqOpp"}
ABOUT: dict[str, tuple[str, str]] = {
    "Table 1": ("Fairness properties and their counters", ""),
    "Table 2": (
        "Periodic shields: runs that meet their assumption, and that are fair at the end of every period",
        "The figures beside ours are those that the authors' analysis notebook prints, not those of the paper. ERM "
        "alone; 10 periods of 50 decisions. In Evenhand's method a dynamic shield keeps "
        "the end of every period (strict ends).",
    ),
    "Table 3": (
        "Utility loss of shields at threshold 0.1",
        "The published figures are lost: the table is a picture. What the text says of it is compared. Losses are "
        "right decisions that a shield costs, in percent.",
    ),
    "Table 4": ("Data sets", "People and groups, as the published table counts them."),
    "Tables 5 to 8": (
        "The classifiers without a shield",
        "One network of each kind, against one published. Names of the rows are lost in the text at hand; we "
        "take them in the order in which the paper lists its methods. Strengths of the four methods are lost too: "
        "ours are our defaults.",
    ),
    "Table 9": (
        "Bias at the end of a bounded horizon, divided by the threshold",
        "Five classifiers in seven environments at four thresholds, 50 runs each; intervals say how much the figures "
        "vary with the choice of environments and classifiers. Evenhand's method: the classifier's confidence is the "
        "cost, and a group counts once five of it were seen.",
    ),
    "Figure 1": ("How a shield works", ""),
    "Figure 2": ("Bias with and without a shield", ""),
    "Figure 3": (
        "Time and memory of synthesis by horizon",
        "The published method is its recursion, compiled, all layers kept; both are timed in one process. Seconds of "
        "other machines are not compared, memory is. Memory is that of the arrays.",
    ),
    "Figure 4": ("Cost of interventions and utility loss", "A point per setting; the published figure is a picture."),
    "Figure 5": ("Bias divided by the threshold, its distribution", ""),
    "Figure 6": ("Utility loss by data set", "Means over classifiers, thresholds and runs; the figure is a picture."),
    "Figure 7": ("Utility loss by classifier", "Means over environments, thresholds, runs; the figure is a picture."),
    "Figure 8": ("Shares of the utility loss by period", ""),
    "Figure 9": (
        "Periodic shields: fair runs by period, and bias at the end divided by the threshold",
        "The published figure is a picture of the bias; the text says what it shows.",
    ),
    "Figure 10": (
        "Bias of periodic runs that meet the assumption, divided by the threshold",
        "The published figure is a picture; the text says what it shows.",
    ),
    "Figure 11": (
        "Utility loss by threshold",
        "Published as pictures; the text says that demographic parity loses less than equal opportunity, and that "
        "losses grow as the threshold falls.",
    ),
}  # fmt: skip
"""Number of a table -> its title, and what is compared."""


def bounded_cells(found: Found, kept: str, method: str = "published") -> list[Values]:
    """Return the cells of shields with a bounded horizon, of a property, by one of the two methods."""
    return [
        cell
        for values in found.values()
        for cell in values.get("cells", ())
        if cell["shield"] == FINITE and (cell["property"], cell["method"]) == (kept, method)
    ]


def periodic_cells(found: Found, kept: str, shield: str) -> list[Values]:
    """Return the cells of a periodic shield, of a property."""
    return [
        cell
        for values in found.values()
        for cell in values.get("cells", ())
        if (cell["property"], cell["shield"]) == (kept, shield)
    ]


def trained_classifiers(found: Found, name: str = "") -> list[Values]:
    """Return how the classifiers fare, or one of them in all environments."""
    trained = [values["classifier"] for values in found.values() if "classifier" in values]
    return [one for one in trained if not name or one["classifier"] == name]


def tested_thresholds(found: Found) -> list[str]:
    """Return the thresholds that were run, ascending."""
    return sorted({cell["kappa"] for values in found.values() for cell in values.get("cells", ())}, key=float)


def utility_losses(cells: Sequence[Values]) -> list[float]:
    """Return the utility loss of every run of some cells, in percent."""
    return [value for cell in cells for value in cell["loss"]]


def build_table(number: str, figures: Sequence[ComparedFigure]) -> ComparedTable:
    """Return a table with its verdict, and why it differs or is not compared."""
    verdict = summarize_verdicts([one.verdict for one in figures])
    title, text = ABOUT[number]
    because = ""
    if verdict == "differs":
        own = [one for one in figures if one.verdict == "differs"]
        compared = sum(one.verdict != "not compared" for one in figures)
        because = f"{len(own)} of {compared} figures differ: {'; '.join(dict.fromkeys(one.because for one in own))}"
    elif verdict == "not compared":
        because = "; ".join(dict.fromkeys(one.because for one in figures if one.because))
    return ComparedTable(
        number=number, title=title, text=text, figures=tuple(figures), verdict=verdict, because=because
    )
