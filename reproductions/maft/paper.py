"""All tables and drawings of MAFT, and the work behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from reproductions.comparison import (
    ComparedFigure,
    ComparedTable,
    OwnFigure,
    Paper,
    Piece,
    PublishedTable,
    Values,
    judge,
    summarize_verdicts,
)
from reproductions.maft import published
from reproductions.maft.benchmarks import BENCHMARKS, BUNDLED, JOINT
from reproductions.maft.figures import NEEDS, NOT_HERE, join_reasons
from reproductions.maft.search_tables import (
    compare_budgets,
    compare_joint,
    compare_numbers,
    compare_retrained,
    compare_steps,
)
from reproductions.maft.searches import (
    measure_budgets,
    measure_joint,
    measure_numbers,
    measure_retrained,
    measure_steps,
)
from reproductions.maft.slope_tables import SLOPE_TABLES, compare_plane
from reproductions.maft.slopes import measure_checkout, measure_networks, measure_slopes

# Tables 1 and 2, and the drawings that explain the method.


NOT_PASSED_ON = "its people stand under a data use agreement, and are not bundled"


def compare_features(values: Mapping[str, Values]) -> ComparedTable:
    """Compare table 1: what each method needs, and whether its authors call it effective and efficient."""
    figures = []
    agnostic = values.get("networks", {}).get("agnostic", {})
    for method, theirs in published.AGNOSTIC.items() if agnostic else ():
        ours = agnostic[method.lower()]
        figures.append(
            ComparedFigure(
                row=method,
                measure="does with a model's labels alone (1: yes, 0: no)",
                published=float(theirs),
                ours=OwnFigure(value=float(ours), kind="observed"),
                default=OwnFigure(value=float(agnostic["frontier"]), kind="observed"),
                verdict=judge(theirs, ours),
                because="" if ours == theirs else "it ran with labels alone",
            )
        )
    figures += [
        ComparedFigure(
            row=method,
            measure="effective and efficient (1: yes, 0: no)",
            published=float(theirs),
            verdict="not compared",
            because="a judgement: figures 3 and 4 and equal budgets have the numbers",
        )
        for method, theirs in published.EFFICIENT.items()
    ]
    return ComparedTable(
        number="Table 1",
        title="What each method needs",
        text="Every method was given a function that returns labels alone.",
        figures=tuple(figures),
        verdict=summarize_verdicts([figure.verdict for figure in figures]),
    )


def compare_networks(values: Mapping[str, Values]) -> ComparedTable:
    """Compare table 2: individuals, features, accuracy of the networks."""
    figures: list[ComparedFigure] = []
    found = values.get("networks", {}).get("data sets", {}) | values.get("checkout", {})
    for key, (name, individuals, attributes, accuracy) in published.DATA_SETS.items():
        ours = found.get(key)
        missing = NOT_HERE if key in ("heart", "students") else NOT_PASSED_ON
        counts = (
            ("individuals", individuals, None if ours is None else ours["individuals"]),
            ("features", attributes, None if ours is None else ours["attributes"]),
        )
        for measure, theirs, count in counts:
            agrees = count == theirs
            other = f"the data set has {count:,}, and the paper prints {theirs:,}" if count is not None else ""
            figures.append(
                ComparedFigure(
                    row=name,
                    measure=measure,
                    published=theirs,
                    ours=None if count is None else OwnFigure(value=count, kind="observed"),
                    verdict="not compared" if count is None else "agrees" if agrees else "differs",
                    because=missing if count is None else "" if agrees else other,
                )
            )
        figures.append(_accuracy(name, accuracy, ours, missing))
    return ComparedTable(
        number="Table 2",
        title="Data sets, and how accurate their networks are",
        text="Accuracy of the published networks on the people that were kept for testing.",
        figures=tuple(figures),
        verdict=summarize_verdicts([figure.verdict for figure in figures]),
        because=join_reasons(figures),
    )


def _accuracy(name: str, theirs: float, ours: Values | None, missing: str) -> ComparedFigure:
    if ours is None or not ours["tested"]:
        return ComparedFigure(
            row=name, measure="accuracy", unit="%", published=theirs, verdict="not compared", because=missing
        )
    share = ours["right"] / ours["tested"]
    half = 1.96 * math.sqrt(share * (1 - share) / ours["tested"])
    own = OwnFigure(
        value=round(100 * share, 2),
        kind="observed",
        low=round(100 * (share - half), 2),
        high=round(100 * (share + half), 2),
        basis=f"on {ours['tested']:,} people",
    )
    return ComparedFigure(
        row=name,
        measure="accuracy",
        unit="%",
        published=theirs,
        ours=own,
        verdict=judge(theirs, own.value, interval=(100 * (share - half), 100 * (share + half))),
    )


def compare_workflow(values: Mapping[str, Values]) -> ComparedTable:
    """Say of figure 1 that it holds no figures."""
    return _explain_drawing("Figure 1", "The workflow of MAFT")


def compare_intuition(values: Mapping[str, Values]) -> ComparedTable:
    """Say of figure 2 that it holds no figures."""
    return _explain_drawing("Figure 2", "What global and local generation mean")


def _explain_drawing(number: str, title: str) -> ComparedTable:
    why = "It explains the method, and holds no numbers."
    return ComparedTable(number=number, title=title, text=why, verdict="not compared", because=why)


KNOWN = tuple(name for name in BUNDLED if not name.startswith("M"))
FEW = ("M-r", "M-g")
"""Benchmarks that a quick run leaves out, since M-a is like them."""

SLOPED = tuple(table.number for table in SLOPE_TABLES)

PAPER = Paper(
    "maft",
    published.TITLE,
    published.WHERE,
    (
        PublishedTable("Table 1", "What each method needs", compare_features),
        PublishedTable("Table 2", "Data sets, and how accurate their networks are", compare_networks, NEEDS),
        PublishedTable("Figure 1", "The workflow of MAFT", compare_workflow),
        PublishedTable("Figure 2", "What global and local generation mean", compare_intuition),
        PublishedTable("Figure 3", "Perturbation size", compare_steps, NEEDS),
        PublishedTable("Figure 4", "Instances, and how many a second", compare_numbers, NEEDS),
        *SLOPE_TABLES,
        PublishedTable("Figure 11", "Gradients in a plane", compare_plane, NEEDS),
        PublishedTable("Section 4.1", "Networks trained again", compare_retrained),
        PublishedTable("Section 4.3", "Two protected attributes at once", compare_joint),
        PublishedTable("Equal budgets", "All methods with the same number of questions", compare_budgets),
    ),
    (
        Piece("networks", ("Table 1", "Table 2"), measure_networks, 0.1, 0.1),
        Piece("checkout", ("Table 2",), measure_checkout, 0.1, 0.1),
        *(
            Piece(f"steps-{name}", ("Figure 3",), partial(measure_steps, name), 0.6, 0.06 * (name not in FEW))
            for name in BENCHMARKS
        ),
        *(
            Piece(f"numbers-{name}", ("Figure 4",), partial(measure_numbers, name), 0.8, 0.04 * (name not in FEW))
            for name in BENCHMARKS
        ),
        *(
            Piece(f"slopes-{name}", (*SLOPED, "Figure 11"), partial(measure_slopes, name), 0.1, 0.02)
            for name in BENCHMARKS
        ),
        *(
            Piece(f"retrained-{name}", ("Section 4.1",), partial(measure_retrained, name), 0.4, 0.0)
            for name in BENCHMARKS
            if name[0] in "BCG"
        ),
        *(Piece(f"joint-{name}", ("Section 4.3",), partial(measure_joint, name), 0.2, 0.05) for name in JOINT),
        *(Piece(f"budgets-{name}", ("Equal budgets",), partial(measure_budgets, name), 0.5, 0.0) for name in KNOWN),
    ),
)
