"""Recorded sequences as pictures: when each value appeared and when it was due, and how coverage grew."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.charts import DASHES, LIGHT, SERIES, Spec, percent
from evenhand.genai.assessment import GenaiAssessment, GroupFinding, ValueFinding, coverage_said
from evenhand.genai.prompts_plot import draw_prompts
from evenhand.stats import Observed

if TYPE_CHECKING:
    import altair as alt

WIDE = 880
LANE = 46
"""Height of a lane; its name stands above its marks."""

LANES = 24
"""Values drawn at most."""

ITEMS = 400
"""Items of a timeline drawn at most: the last ones. More ticks than these run into each other."""

LINES = len(SERIES)
"""Sequences whose coverage is drawn at most."""


def plot(result: GenaiAssessment) -> alt.TopLevelMixin:
    """The timeline of every group of the first sequence, the coverage of all sequences, and what every prompt shows."""
    parts = [draw_timeline(group) for group in result.sequences[0].groups]
    if result.sequences[0].coverage is not None:
        parts.append(draw_coverage(result))
    if result.prompts is not None:
        groups = dict.fromkeys(one.group for one in result.prompts.findings if one.items)
        parts += [draw_prompts(result.prompts, group) for group in groups]
    return charts.altair(charts.stack(parts, " ".join(part["description"] for part in parts)))


def draw_timeline(group: GroupFinding, *, width: int = WIDE) -> Spec:
    """One lane per value. Ticks: items that show it. Grey: its longest wait. Orange with a cross: overdue."""
    length = len(group.items)
    start = max(0, length - ITEMS)
    shown = group.values[:LANES]
    rows = [{"row": f"{k:04d}", "words": _words(value, width), "end": length + 1} for k, value in enumerate(shown)]
    ticks = [
        {"row": f"{k:04d}", "item": item} for k, value in enumerate(shown) for item in value.appearances if item > start
    ]
    waits: list[Spec] = [{"row": f"{k:04d}"} | _longest(value, length) for k, value in enumerate(shown)]
    waits = [wait | {"from": max(start, wait["from"])} for wait in waits if wait["to"] > start]
    overdue = [
        {"row": f"{k:04d}", "from": due, "to": min((item for item in value.appearances if item > due), default=length)}
        for k, value in enumerate(shown)
        for due in value.missed
        if due > start
    ]
    y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}
    axis = {"title": "recognised items, in the order of the requests", "tickCount": 8, "grid": False, "offset": 4}

    def x(field: str) -> Spec:
        scale = {"domain": [start, length + 1], "nice": False}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    layers = [
        charts.marks(
            [row | {"start": start} for row in rows],
            {"type": "rule", "color": LIGHT["grid"], "yOffset": 8},
            y=y,
            x=x("start"),
            x2={"field": "end"},
        ),
        charts.marks(
            waits,
            {"type": "rule", "color": LIGHT["open"], "strokeWidth": 7, "yOffset": 8},
            y=y,
            x=x("from"),
            x2={"field": "to"},
        ),
        charts.marks(
            overdue,
            {"type": "rule", "color": LIGHT["different"], "strokeWidth": 3, "yOffset": 8},
            y=y,
            x=x("from"),
            x2={"field": "to"},
        ),
        charts.marks(
            ticks,
            {"type": "tick", "orient": "vertical", "size": 16, "thickness": 2, "color": LIGHT["same"], "yOffset": 8},
            y=y,
            x=x("item"),
        ),
        charts.marks(
            overdue,
            {
                "type": "point",
                "shape": "M-1,-1L1,1M1,-1L-1,1",
                "size": 26,
                "stroke": LIGHT["different"],
                "strokeWidth": 2.2,
                "opacity": 1,
                "yOffset": 8,
            },
            y=y,
            x=x("from"),
        ),
        charts.marks(
            rows,
            {"type": "text", "align": "left", "baseline": "bottom", "dy": -5},
            y=y,
            x={"value": 0},
            text={"field": "words", "type": "nominal"},
        ),
    ]
    more = f"; {len(group.values) - LANES:,} more values" if len(group.values) > LANES else ""
    last = f", the last {ITEMS:,} items" if start else ""
    title = {"text": f"{group.name}: when each value appeared{last}{more}"}
    said = "; ".join(
        f"{value.value} in {len(value.appearances):,} of {length:,} items, {_least(value)}"
        + (f", overdue at {', '.join(map(str, value.missed[:12]))}" if value.missed else "")
        for value in shown
    )
    spec = {"layer": layers, "width": width - 24, "height": {"step": LANE}, "title": title}
    return charts.finished(spec, f"When each value of {group.name} appeared. {said}{more}.")


def draw_coverage(result: GenaiAssessment, *, width: int = WIDE) -> Spec:
    """The share of combinations seen, item by item, one line per sequence."""
    known = [(one.name, one.coverage) for one in result.sequences if one.coverage is not None][:LINES]
    longest = max(len(coverage.curve) for _, coverage in known)
    rows = [
        {"name": name, "item": number, "share": share}
        for name, coverage in known
        for number, share in _steps(coverage.curve)
    ]
    names = [name for name, _ in known]
    legend = None
    if len(names) > 1:
        legend = {
            "symbolType": "stroke",
            "symbolSize": 300,
            "symbolStrokeWidth": 2.5,
            "columns": 1 if width < 500 else 3,
        }
    colours = {"domain": names, "range": [LIGHT[role] for role in SERIES[: len(names)]]}
    dashes = {"domain": names, "range": [list(dash) for dash in DASHES[: len(names)]]}
    line = charts.marks(
        rows,
        {"type": "line", "strokeWidth": 2.2, "interpolate": "step-after"},
        x={
            "field": "item",
            "type": "quantitative",
            "scale": {"domain": [0, longest], "nice": False},
            "axis": {"title": "items", "grid": False, "tickCount": 8, "offset": 4},
        },
        y={
            "field": "share",
            "type": "quantitative",
            "scale": {"domain": [0, 1]},
            "axis": {"title": None, "format": ".0%", "tickCount": 5},
        },
        color={"field": "name", "type": "nominal", "scale": colours, "legend": legend},
        strokeDash={"field": "name", "type": "nominal", "scale": dashes, "legend": legend},
    )
    ways = known[0][1].ways
    title = {"text": f"Share of all {'pairs' if ways == 2 else f'combinations of {ways}'} of values that have appeared"}
    said = "; ".join(f"{name}: {coverage_said(coverage)}" for name, coverage in known)
    spec = {"layer": [line], "width": width - 62, "height": 220, "title": title}
    return charts.finished(spec, f"{title['text']}, item by item. At the end: {said}.")


def _steps(curve: tuple[float, ...]) -> list[tuple[int, float]]:
    """Numbers of items where a curve rises, with the share then, and its end."""
    rises = [(i, after) for i, (before, after) in enumerate(pairwise((0.0, *curve)), start=1) if after > before]
    return list(dict([(0, 0.0), *rises, (len(curve), curve[-1])]).items())


def _longest(value: ValueFinding, length: int) -> Spec:
    """From where to where a value was waited for longest."""
    stops = [0, *value.appearances, length + 1]
    before, after = max(pairwise(stops), key=lambda pair: pair[1] - pair[0])
    return {"from": before, "to": after}


def _least(value: ValueFinding) -> str:
    if value.least_beta is not None:
        return f"least beta {value.least_beta}"
    return "never" if not value.appearances else "too few items for any beta"


def _words(value: ValueFinding, width: int) -> str:
    share = percent(value.frequency.value) if isinstance(value.frequency, Observed) else "unknown"
    room = 44 if width < WIDE else 90
    name = value.value if len(value.value) <= room // 2 else value.value[: room // 2 - 1] + "\N{HORIZONTAL ELLIPSIS}"
    missed = f", {len(value.missed):,} missed" if value.missed else ""
    return f"{name}: {_least(value)}{missed}, {share}"
