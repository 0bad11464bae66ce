"""Tables 1 and 2, and the drawings that explain the method."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evenhand.reproduce.comparison import (
    ComparedFigure,
    ComparedTable,
    OwnFigure,
    Values,
    judge,
    summarize_verdicts,
)
from evenhand.reproduce.maft import published
from evenhand.reproduce.maft.figures import NOT_HERE, join_reasons

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
            swapped = "the census has 48,842 people: two digits are swapped in the paper"
            figures.append(
                ComparedFigure(
                    row=name,
                    measure=measure,
                    published=theirs,
                    ours=None if count is None else OwnFigure(value=count, kind="observed"),
                    verdict="not compared" if count is None else "agrees" if agrees else "differs",
                    because=missing if count is None else "" if agrees else swapped,
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
    return _explained("Figure 1", "The workflow of MAFT")


def compare_intuition(values: Mapping[str, Values]) -> ComparedTable:
    """Say of figure 2 that it holds no figures."""
    return _explained("Figure 2", "What global and local generation mean")


def _explained(number: str, title: str) -> ComparedTable:
    why = "It explains the method, and holds no numbers."
    return ComparedTable(number=number, title=title, text=why, verdict="not compared", because=why)
