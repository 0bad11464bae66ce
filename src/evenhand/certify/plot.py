"""Certificates as bars (same, undecided, different), and what was still undecided over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.certify.result import Certificate
from evenhand.certify.slice_plot import draw_slices, telling
from evenhand.charts import LIGHT, Spec

if TYPE_CHECKING:
    import altair as alt

WIDE = 880
PARTS = (
    ("certified", "provably the same decision", "same"),
    ("undecided", "undecided", "open"),
    ("falsified", "provably different decisions", "different"),
)
"""Parts of a bar from left to right: field, name, role of the colour."""

Y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}


def plot(result: Certificate) -> alt.TopLevelMixin:
    """What is proved and estimated; how the undecided share fell, if that took steps; and where the rest lies."""
    parts = [draw_shares([result])]
    if len(result.history) > 1:
        parts.append(draw_history([result]))
    if telling(result):
        parts.append(draw_slices(result))
    return charts.altair(charts.stack(parts, " ".join(part["description"] for part in parts)))


def draw_shares(certificates: Sequence[Certificate], *, width: int = WIDE) -> Spec:
    """One bar per certificate; below, the right end of the bars enlarged where nearly all of it is one colour.

    The black marker is the estimated share of the same decision, 1 - ``estimate.unfair``, with its interval.
    """
    panels = [_bars(certificates, 0.0, width, "Share of everyone who could apply")]
    widest = max(max(1 - one.certified, one.estimate.high) for one in certificates)
    if 0 < widest <= 0.5:
        start = 1 - _round_up(1.08 * widest)
        panels.append(
            _bars(certificates, start, width, f"The last {100 * (1 - start):.3g} % of the same bars, enlarged")
        )
    parts = [
        f"{_name(one)}: same for {charts.percent(one.certified)}, undecided {charts.percent(one.undecided)}, "
        f"different for {charts.percent(one.falsified)}, estimated different {charts.percent(one.estimate.unfair)}"
        for one in certificates
    ]
    return charts.finished(
        {"vconcat": panels, "spacing": 22}, f"Proved shares of everyone who could apply. {'; '.join(parts)}."
    )


def draw_history(certificates: Sequence[Certificate], *, width: int = WIDE) -> Spec:
    """What was still undecided after so many seconds, one line per certificate.

    The scale is logarithmic once less than a tenth is undecided: a line that falls to its lower edge has nothing left
    to decide.
    """
    left = [
        (_name(certificate), seconds, share)
        for certificate in certificates
        for seconds, share in [
            (0.0, 1.0),
            *((moment.seconds, 1 - moment.certified - moment.falsified) for moment in certificate.history),
        ]
    ]
    least = min(share for *_, share in left)
    floor, ticks = 0.0, [0, 0.25, 0.5, 0.75, 1.0]
    scale: Spec = {"domain": [0, 1]}
    if least < 0.1:
        floor = min(0.1, 10.0 ** math.floor(math.log10(min(share for *_, share in left if share > 1e-9))))
        scale, ticks = {"type": "log", "domain": [floor, 1]}, _ticks(floor)
    rows = [{"name": name, "seconds": seconds, "undecided": max(floor, share)} for name, seconds, share in left]
    names = [_name(certificate) for certificate in certificates]
    legend = {"symbolType": "stroke", "symbolSize": 300, "symbolStrokeWidth": 2.5}

    def line(what: Sequence[object]) -> Spec:
        scale = {"domain": names, "range": [what[i % len(what)] for i in range(len(names))]}
        return {"field": "name", "type": "nominal", "scale": scale, "legend": legend}

    spec = charts.marks(
        rows,
        {"type": "line", "interpolate": "step-after", "strokeWidth": 2.2},
        x={
            "field": "seconds",
            "type": "quantitative",
            "axis": {"title": "seconds", "grid": False, "tickCount": 6, "offset": 5},
        },
        y={
            "field": "undecided",
            "type": "quantitative",
            "scale": scale,
            "axis": {"format": "~%", "title": "undecided", "values": ticks, "offset": 5},
        },
        color=line([LIGHT[role] for role in charts.SERIES]),
        strokeDash=line([list(dash) for dash in charts.DASHES]),
    )
    ends = "; ".join(
        f"{_name(one)}: {charts.percent(one.undecided)} after {one.seconds:.1f} seconds" for one in certificates
    )
    return charts.finished(
        spec | {"width": width - 76, "height": 170}, f"Share still undecided over time. At the end: {ends}."
    )


def _name(certificate: Certificate) -> str:
    return " x ".join(certificate.protected)


def _round_up(share: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(share))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= share * (1 - 1e-9))


def _ticks(floor: float) -> list[float]:
    """1, 2 and 5 times each power of ten from ``floor`` to 1; the powers alone if that is many."""
    powers = [10.0**power for power in range(round(math.log10(floor)), 1)]
    steps = (1, 2, 5) if len(powers) <= 3 else (1,)
    return [step * power for power in powers for step in steps if step * power <= 1]


def _bars(certificates: Sequence[Certificate], start: float, width: int, title: str) -> Spec:
    parts, estimates = [], []
    for i, certificate in enumerate(certificates):
        row = {"row": f"{i:04d}", "name": _name(certificate)}
        left = 0.0
        for field, part, _ in PARTS:
            right = left + float(getattr(certificate, field))
            parts.append(row | {"part": part, "left": max(start, left), "right": max(start, right)})
            left = right
        unfair = certificate.estimate
        estimates.append(
            row | {"value": 1 - unfair.unfair, "low": max(start, 1 - unfair.high), "high": max(start, 1 - unfair.low)}
        )
    digits = max(0, math.ceil(-math.log10((1 - start) / 5)) - 2)
    axis = {"format": f".{digits}%", "tickCount": 5, "title": None, "grid": False}

    def x(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": {"domain": [start, 1], "nice": False}, "axis": axis}

    color = {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": [part for _, part, _ in PARTS], "range": [LIGHT[role] for *_, role in PARTS]},
        "legend": {"symbolType": "square", "symbolStrokeWidth": 0, "columns": 3 if width >= WIDE else 1}
        if start == 0
        else None,
    }
    ink = LIGHT["ink"]
    bar = {"type": "bar", "height": 16, "stroke": LIGHT["paper"], "strokeWidth": 1}
    name = {"field": "name", "type": "nominal"}
    return {
        "layer": [
            charts.marks(parts, bar, y=Y, x=x("left"), x2={"field": "right"}, color=color),
            charts.marks(
                estimates, {"type": "rule", "color": ink, "strokeWidth": 1.5}, y=Y, x=x("low"), x2={"field": "high"}
            ),
            charts.marks(
                estimates,
                {"type": "tick", "color": ink, "thickness": 2.5, "size": 26, "opacity": 1},
                y=Y,
                x=x("value"),
            ),
            charts.marks(
                estimates, {"type": "text", "align": "left", "dy": -19, "limit": width}, y=Y, x={"value": 0}, text=name
            ),
        ],
        "width": width - 44,
        "height": {"step": 46},
        "title": title,
    }
