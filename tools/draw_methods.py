#!/usr/bin/env python3
"""Draw the charts of docs/methods from the figures in docs/reproductions: docs/images/method-*.svg.

tools/draw_methods.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDE = 560

sys.path.insert(0, str(ROOT / "src"))

from evenhand.view import LIGHT, drawing  # noqa: E402

Row = dict[str, Any]

BENCHMARKS = {
    "C-a": "census, age",
    "C-r": "census, race",
    "C-g": "census, gender",
    "B-a": "bank, age",
    "G-g": "credit, gender",
    "G-a": "credit, age",
    "D-a": "diabetes, age",
}
"""Networks and protected attributes whose searches are compared, as MAFT's programs call them."""


def read_table(paper: str, number: str, measure: str) -> list[Row]:
    """Return the compared figures of one measure."""
    found = json.loads((ROOT / "docs" / "reproductions" / f"{paper}.json").read_text("utf-8"))
    (table,) = (table for table in found["tables"] if table["number"] == number)
    return [figure for figure in table["figures"] if figure["measure"] == measure]


def draw_points(rows: list[Row], colors: dict[str, str], description: str, *, title: str, scale: Row) -> str:
    """Return one line for every name, with a point for every kind of figure."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    axis = {"title": None, "grid": True, "labelLimit": 260, "labelPadding": 10}
    y = {"field": "name", "type": "nominal", "sort": names, "axis": axis}
    x = {"field": "value", "type": "quantitative", "scale": scale, "axis": {"title": title, "grid": False}}
    color = {
        "field": "kind",
        "type": "nominal",
        "scale": {"domain": list(colors), "range": [LIGHT[role] for role in colors.values()]},
        "legend": {"title": None, "orient": "top", "columns": len(colors), "labelLimit": 260},
    }
    mark = {"type": "point", "filled": True, "size": 75, "opacity": 1}
    chart = drawing.mark_layer(rows, mark, x=x, y=y, color=color) | {"width": WIDE, "height": {"step": 21}}
    return drawing.to_svg(drawing.finish_chart(chart, description), name="method")


def draw_certifying() -> str:
    """Return what stays undecided of each published network."""
    kinds = {"published": "muted", "published method, here": "third", "Evenhand": "same"}
    rows = [
        {"name": figure["row"], "kind": kind, "value": value}
        for figure in read_table("fairquant", "Table II", "undecided")
        if figure["ours"] and figure["default"] and not figure["row"].startswith("compas")
        for kind, value in zip(
            kinds, (figure["published"], figure["ours"]["value"], figure["default"]["value"]), strict=True
        )
    ]
    said = "Undecided share of 21 networks: published, by the published method here, and by Evenhand's method."
    return draw_points(rows, kinds, said, title="undecided share of the domain, in percent", scale={"domain": [0, 90]})


def draw_search() -> str:
    """Return what the searches find on each network with the same number of questions."""
    kinds = {"MAFT": "muted", "best published method": "third", "frontier": "same"}
    found: dict[str, dict[str, float]] = {}
    for figure in read_table("maft", "Equal budgets", "plausible profiles"):
        network, method = figure["row"].split(", ")
        own = figure["ours"] or figure["default"]
        if own:
            found.setdefault(network, {})[method] = own["value"]
    rows = []
    for network, name in BENCHMARKS.items():
        best = max(value for method, value in found[network].items() if method != "frontier")
        values = (found[network]["maft"], best, found[network]["frontier"])
        rows += [{"name": name, "kind": kind, "value": value} for kind, value in zip(kinds, values, strict=True)]
    said = "Plausible profiles found with equal numbers of questions: MAFT, the best published method, and frontier."
    scale = {"type": "log", "domain": [200, 20_000]}
    return draw_points(rows, kinds, said, title="plausible profiles found (logarithmic)", scale=scale)


def draw_subgroups() -> str:
    """Return how often intervals hold the gap of people like these, by how many are in the subgroup."""
    kinds = {"published interval": "muted", "Newcombe's interval over the people": "same"}
    rows = []
    for figure in read_table("testsgd", "Theorem 4.2", "scores of people like these within the bound"):
        for kind, own in zip(kinds, (figure["ours"], figure["default"]), strict=True):
            rows.append({"name": figure["row"].replace("samples around ", ""), "kind": kind, "value": own["value"]})
    said = "How often each interval holds the true gap, by the number of people in the subgroup."
    return draw_points(
        rows, kinds, said, title="intervals that hold the true gap, in percent", scale={"domain": [0, 100]}
    )


DRAWINGS = {"certifying": draw_certifying, "search": draw_search, "subgroups": draw_subgroups}

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        svg = draw().replace('style="', 'style="background:white;', 1)
        (IMAGES / f"method-{name}.svg").write_text(svg + "\n", "utf-8")
