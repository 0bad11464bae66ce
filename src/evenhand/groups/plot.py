"""Groups as dots with intervals: one row per group, one panel per metric; reliability of the scores by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.charts import LIGHT, Spec
from evenhand.groups.result import SMALL, Breakdown, CalibrationBin, Group, GroupMetrics
from evenhand.stats import Unknown, number

if TYPE_CHECKING:
    import altair as alt

PANELS = {
    "selection_rate": "Selection rate",
    "true_positive_rate": "True positive rate",
    "false_positive_rate": "False positive rate",
}
"""Metrics drawn, with their titles."""

MOST = 40
"""Rows drawn of one breakdown; of more groups, those with the highest and the lowest selection rates."""

MOST_PANELS = 8
"""Groups whose reliability is drawn: the largest."""

WIDE = 880
"""Pixels from which panels stand side by side; below, they stand above each other."""

LABELS = 250
"""Width of the groups' names and sizes beside the panels."""

PANEL = 165
ROW = 24
TALL_ROW = 40
"""Height of a row that has the group's name above its dot."""

Y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}


def plot(result: GroupMetrics) -> alt.TopLevelMixin:
    """All breakdowns above each other: selection, true and false positive rate of every group with its interval."""
    return charts.altair(draw(result))


def draw(result: GroupMetrics) -> Spec:
    """All breakdowns above each other."""
    parts = [draw_breakdown(breakdown) for breakdown in result.breakdowns]
    return charts.stack(parts, " ".join(part["description"] for part in parts))


def draw_breakdown(breakdown: Breakdown, *, width: int = WIDE) -> Spec:
    """One breakdown. Groups too small for the gaps are hollow and grey; four fifths of the highest rate is dashed."""
    groups = drawn(breakdown)
    beside = width >= WIDE
    panels = [_panel(groups, metric, PANEL if beside else width - 34, beside=beside) for metric in PANELS]
    spec: Spec = {"hconcat": [_names(groups), *panels]} if beside else {"vconcat": panels}
    rates = "; ".join(_in_words(group) for group in groups)
    return charts.finished(spec | {"spacing": 20}, f"Selection rates by {' and '.join(breakdown.by)}: {rates}.")


def draw_calibration(bins: Sequence[CalibrationBin], *, width: int = WIDE) -> Spec:
    """Reliability of the scores, one panel per group of one attribute: mean score against what came true.

    On the diagonal, scores mean what they say; below it, the group did worse than promised.
    """
    groups: dict[str, list[CalibrationBin]] = {}
    for one in bins:
        groups.setdefault(one.group, []).append(one)
    sizes = {name: sum(one.n for one in own) for name, own in groups.items()}
    largest = sorted(groups, key=lambda name: -sizes[name])[:MOST_PANELS]
    panels = [_reliability(groups[name], name, sizes[name]) for name in groups if name in largest]
    return charts.finished(
        {"concat": panels, "columns": max(1, width // 208), "spacing": 24},
        f"Reliability of the scores by {bins[0].by}: for each group, the share with the favourable true label "
        "against the mean score of people with similar scores.",
    )


def drawn(breakdown: Breakdown) -> list[Group]:
    """The groups that are drawn: as they come for one attribute, by selection rate for several; small ones last."""
    groups = [group for group in breakdown.groups if not group.small]
    if len(breakdown.by) > 1 or len(groups) > MOST:
        groups.sort(key=lambda group: -_value(group, "selection_rate", -1.0))
    if len(groups) > MOST:
        groups = groups[: MOST // 2] + groups[-MOST // 2 :]
    small = [group for group in breakdown.groups if group.small]
    return groups + small[: MOST - len(groups)]


def _in_words(group: Group) -> str:
    value = number(group.metrics["selection_rate"]) if "selection_rate" in group.metrics else None
    rate = "unknown" if value is None else charts.percent(value)
    return f"{group.label} {rate}{' (small group)' if group.small else ''}"


def _value(group: Group, metric: str, otherwise: float) -> float:
    value = number(group.metrics[metric]) if metric in group.metrics else None
    return otherwise if value is None else value


def _row(i: int, group: Group, metric: str) -> Spec:
    row: Spec = {
        "row": f"{i:04d}",
        "group": group.label,
        "size": f"{group.size:,}",
        "name": f"{group.label}  ({group.size:,})",
        "color": LIGHT["faint" if group.small else "same"],
        "fill": LIGHT["paper" if group.small else "same"],
        "ink": LIGHT["faint" if group.small else "ink"],
        "small": group.small,
    }
    quantity = group.metrics.get(metric)
    if quantity is not None and not isinstance(quantity, Unknown):
        ends = {"low": getattr(quantity, "low", quantity.value), "high": getattr(quantity, "high", quantity.value)}
        row |= {"value": quantity.value} | ends
    return row


def _names(groups: list[Group]) -> Spec:
    rows = [_row(i, group, "selection_rate") for i, group in enumerate(groups)]
    ink = charts.painted("ink")
    group = {"field": "group", "type": "nominal"}
    size = {"field": "size", "type": "nominal"}
    return {
        "layer": [
            charts.marks(
                rows,
                {"type": "text", "align": "left", "limit": LABELS - 60},
                y=Y,
                x={"value": 0},
                text=group,
                color=ink,
            ),
            charts.marks(rows, {"type": "text", "align": "right"}, y=Y, x={"value": LABELS}, text=size, color=ink),
        ],
        "width": LABELS,
        "height": {"step": ROW},
        "title": {"text": "people", "anchor": "end", "fontWeight": "normal", "fontSize": 12, "color": LIGHT["muted"]},
    }


def _panel(groups: list[Group], metric: str, width: int, *, beside: bool) -> Spec:
    rows = [_row(i, group, metric) for i, group in enumerate(groups)]
    known = [row for row in rows if "value" in row]
    top = 1.0 if metric == "true_positive_rate" else _top(known)
    axis: Spec = {"format": "%", "title": None, "labelSeparation": 6}
    axis |= {"values": [0, 0.25, 0.5, 0.75, 1]} if top > 0.6 else {"tickCount": 4}
    scale = {"domain": [0, 1 if top > 0.6 else top], "nice": 4}

    def x(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    layers = [
        # An empty layer that has every row, so that a group without this number keeps its place.
        charts.marks([{"row": row["row"]} for row in rows], {"type": "point", "stroke": "transparent"}, y=Y),
        *(_references(groups, rows, x) if metric == "selection_rate" else []),
        charts.marks(
            known,
            {"type": "rule", "strokeWidth": 2, "strokeCap": "round"},
            y=Y,
            x=x("low"),
            x2={"field": "high"},
            color=charts.painted("color"),
        ),
        charts.marks(
            known,
            {"type": "point", "size": 62, "opacity": 1, "strokeWidth": 1.8},
            y=Y,
            x=x("value"),
            stroke=charts.painted("color"),
            fill=charts.painted("fill"),
        ),
    ]
    if not beside:
        name = {"field": "name", "type": "nominal"}
        mark = {"type": "text", "align": "left", "dy": -14, "limit": width}
        layers.append(charts.marks(rows, mark, y=Y, x={"value": 0}, text=name, color=charts.painted("ink")))
    return {
        "layer": layers,
        "width": width,
        "height": {"step": ROW if beside else TALL_ROW},
        "title": PANELS[metric],
    }


def _references(groups: list[Group], rows: list[Spec], x: Any) -> list[Spec]:
    """A dashed line at four fifths of the highest selection rate, and a short line where the true labels are."""
    layers = []
    highest = max((_value(group, "selection_rate", 0.0) for group in groups if not group.small), default=0.0)
    if highest > 0:
        dashed = {"type": "rule", "color": LIGHT["muted"], "strokeDash": [4, 3]}
        layers.append(charts.marks([{"threshold": 0.8 * highest}], dashed, x=x("threshold")))
    true = [
        row | {"base": base}
        for group, row in zip(groups, rows, strict=True)
        if (base := _value(group, "base_rate", -1.0)) >= 0
    ]
    short = {"type": "tick", "color": LIGHT["ink"], "thickness": 1.5, "size": 15, "opacity": 1}
    return [*layers, charts.marks(true, short, y=Y, x=x("base"))]


def _top(rows: list[Spec]) -> float:
    """Where the axis ends: past all intervals of groups large enough, and not far past them for those too small."""
    every = [row["high"] for row in rows]
    sure = [row["high"] for row in rows if not row["small"]]
    return min(1.0, max(every, default=1.0), 1.6 * max(sure, default=1.0)) or 1.0


def _reliability(bins: list[CalibrationBin], name: str, size: int) -> Spec:
    rows = [
        {
            "score": one.mean_score,
            "value": one.base_rate.value,
            "low": getattr(one.base_rate, "low", one.base_rate.value),
            "high": getattr(one.base_rate, "high", one.base_rate.value),
            "color": LIGHT["faint" if one.n < SMALL else "same"],
        }
        for one in bins
        if not isinstance(one.base_rate, Unknown)
    ]

    def axis(field: str, title: str) -> Spec:
        shown = {"format": "%", "values": [0, 0.5, 1], "title": title, "offset": 5}
        return {"field": field, "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": shown}

    score, color = axis("score", "mean score"), charts.painted("color")
    diagonal = {"type": "line", "color": LIGHT["muted"], "strokeDash": [4, 3], "strokeWidth": 1}
    ends = [{"score": 0, "value": 0}, {"score": 1, "value": 1}]
    return {
        "layer": [
            charts.marks(ends, diagonal, x=score, y=axis("value", "came true")),
            charts.marks(
                rows,
                {"type": "rule", "strokeWidth": 2},
                x=score,
                y=axis("low", "came true"),
                y2={"field": "high"},
                color=color,
            ),
            charts.marks(
                rows,
                {"type": "point", "filled": True, "size": 45, "opacity": 1},
                x=score,
                y=axis("value", "came true"),
                color=color,
            ),
        ],
        "width": 140,
        "height": 140,
        "title": {"text": name, "subtitle": f"{size:,} people", "limit": 170},
    }
