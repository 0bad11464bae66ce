#!/usr/bin/env python3
"""Draw the charts of docs/methods from the figures in reproductions/results: docs/images/method-*.svg.

tools/draw_methods.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenhand.view.drawing.theme import (
    LIGHT,
    finish_chart,
    mark_layer,
    to_svg,
)

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDE = 560

Row = dict[str, Any]
Points = dict[str, tuple[float, ...]]

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
    profiles_by_network = json.loads((ROOT / "reproductions" / "results" / f"{paper}.json").read_text("utf-8"))
    return [figure for figure in profiles_by_network["tables"][number] if figure["measure"] == measure]


def find_undecided() -> Points:
    """Read the undecided percentage of each network: published, by the published method, and by Evenhand."""
    return {
        figure["row"]: (figure["published"], figure["ours"]["value"], figure["default"]["value"])
        for figure in read_table("fairquant", "Table II", "undecided")
        if "ours" in figure and "default" in figure and not figure["row"].startswith("compas")
    }


def find_profiles() -> Points:
    """Read the number of profiles of MAFT, of the best published method and of `frontier`, with equal budgets."""
    profiles_by_network: dict[str, dict[str, float]] = {}
    for figure in read_table("maft", "Equal budgets", "plausible profiles"):
        network, method = figure["row"].split(", ")
        own = figure.get("ours") or figure.get("default")
        if own:
            profiles_by_network.setdefault(network, {})[method] = own["value"]
    return {
        name: (
            profiles_by_network[network]["maft"],
            max(value for method, value in profiles_by_network[network].items() if method != "frontier"),
            profiles_by_network[network]["frontier"],
        )
        for network, name in BENCHMARKS.items()
    }


def find_coverage() -> Points:
    """Read the coverage of the published interval and of Evenhand's, in percent, by size of the subgroup."""
    return {
        figure["row"].removeprefix("samples around "): (figure["ours"]["value"], figure["default"]["value"])
        for figure in read_table("testsgd", "Theorem 4.2", "scores of people like these within the bound")
    }


def draw_points(points: Points, colors: dict[str, str], description: str, *, title: str, scale: Row) -> str:
    """Draw a chart with one line per name and one point per kind of figure."""
    rows = [
        {"name": name, "kind": kind, "value": value}
        for name, values in points.items()
        for kind, value in zip(colors, values, strict=True)
    ]
    axis = {"title": None, "grid": True, "labelLimit": 260, "labelPadding": 10}
    y = {"field": "name", "type": "nominal", "sort": list(points), "axis": axis}
    x = {"field": "value", "type": "quantitative", "scale": scale, "axis": {"title": title, "grid": False}}
    color = {
        "field": "kind",
        "type": "nominal",
        "scale": {"domain": list(colors), "range": [LIGHT[role] for role in colors.values()]},
        "legend": {"title": None, "orient": "top", "columns": len(colors), "labelLimit": 260},
    }
    mark = {"type": "point", "filled": True, "size": 75, "opacity": 1}
    chart = mark_layer(rows, mark, x=x, y=y, color=color) | {"width": WIDE, "height": {"step": 21}}
    svg = to_svg(finish_chart(chart, description), name="method")
    return svg.replace('style="', 'style="background:white;', 1) + "\n"


def draw_all() -> dict[str, str]:
    """Draw all charts, by file name."""
    return {
        "method-certifying.svg": draw_points(
            find_undecided(),
            {"published": "muted", "published method, here": "third", "Evenhand": "same"},
            "Undecided share of 21 networks: published, by the published method here, and by Evenhand's method.",
            title="undecided share of the domain, in percent",
            scale={"domain": [0, 90]},
        ),
        "method-search.svg": draw_points(
            find_profiles(),
            {"MAFT": "muted", "best published method": "third", "frontier": "same"},
            "Plausible profiles found with equal numbers of questions: MAFT, the best published method, and frontier.",
            title="plausible profiles found (logarithmic)",
            scale={"type": "log", "domain": [200, 20_000]},
        ),
        "method-subgroups.svg": draw_points(
            find_coverage(),
            {"published interval": "muted", "Evenhand's interval over the people": "same"},
            "How often each interval holds the true gap, by the number of people in the subgroup.",
            title="intervals that hold the true gap, in percent",
            scale={"domain": [0, 100]},
        ),
    }


if __name__ == "__main__":
    for name, svg in draw_all().items():
        (IMAGES / name).write_text(svg, "utf-8")
