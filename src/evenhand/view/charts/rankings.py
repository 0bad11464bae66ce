"""Rankings: the share of the first k places that each group has, compared with random orders and their band."""

from __future__ import annotations

from functools import partial

from evenhand.core.text import join_names
from evenhand.groups.rankings.result import RankingResult
from evenhand.stats.quantity import Descriptive, Sampled, Unknown
from evenhand.view.drawing.theme import (
    LIGHT,
    SERIES,
    WIDE,
    Spec,
    along,
    finish_chart,
    line_style,
    mark_layer,
    stack_charts,
)

SCALE = 70
"""Width of the scale to the left of a panel, in pixels."""

HEIGHT = 260
HIGHEST = 3.0
"""Upper end of bands, so that groups with few candidates leave room for the others."""


def plot_rankings(result: RankingResult) -> Spec:
    """Return one panel per attribute: each group's share of the first k places, divided by that in random orders."""
    panels = [draw_selection(result, place) for place in range(len(result.breakdowns))]
    return stack_charts(panels, "Shares of the first places by group.")


def draw_selection(result: RankingResult, place: int, *, width: int = WIDE) -> Spec:
    """Draw each group's share of the first k places, divided by that in random orders, over k.

    With many lists the band is an interval around each line; with few it is the range in random orders around 1.
    """
    breakdown = result.breakdowns[place]
    large = [group for group in breakdown.groups if not group.small] or list(breakdown.groups)
    largest = sorted(large, key=lambda group: -group.size)[: len(SERIES)]
    names = [group.label for group in large if group in largest]
    rows: list[Spec] = []
    for group in large:
        for k, rates in group.rates.items() if group in largest else ():
            ratio = rates["representation_ratio"]
            if not isinstance(ratio, Unknown):
                ends = (ratio.random_low, ratio.random_high) if isinstance(ratio, Descriptive) else (None, None)
                ends = (ratio.low, ratio.high) if isinstance(ratio, Sampled) else ends
                low, high = (ratio.value if end is None else end for end in ends)
                rows.append({"name": group.label, "k": int(k), "value": ratio.value, "low": low, "high": high})
    top = max(
        max((row["value"] for row in rows), default=1.0) * 1.05,
        min(HIGHEST, max((row["high"] for row in rows), default=1.0)),
        1.2,
    )
    rows = [row | {"high": min(row["high"], top), "low": min(row["low"], top)} for row in rows]
    places = sorted({row["k"] for row in rows})
    style = line_style(names, width)
    span = {"type": "log"} if len(places) > 1 else {"domain": [0, 2 * (places or [1])[0]]}
    ticks = places if width >= WIDE or len(places) <= 5 else places[::-2][::-1]
    axis = {"title": "first k places", "grid": False, "values": ticks, "format": ",d", "offset": 5}
    x = {"field": "k", "type": "quantitative", "scale": span | {"nice": False}, "axis": axis}

    title = "share / expected share" if width < WIDE else "share of the first k places / expected share"
    y = partial(along, domain=(0, top), title=title, tickCount=5, offset=5)
    band = {"type": "area", "opacity": 0.2} if len(places) > 1 else {"type": "rule", "strokeWidth": 6, "opacity": 0.3}
    layers = [
        mark_layer(rows, band, x=x, y=y("low"), y2="high", color=style["color"]),
        mark_layer([{"value": 1.0}], {"type": "rule", "color": LIGHT["ink"], "strokeDash": [3, 3]}, y=y("value")),
        mark_layer(rows, {"type": "line", "strokeWidth": 2.2}, x=x, y=y("value"), **style),
        mark_layer(
            rows, {"type": "point", "filled": True, "size": 36, "opacity": 1}, x=x, y=y("value"), color=style["color"]
        ),
    ]
    summary = "; ".join(
        f"{name} " + ", ".join(f"{row['value']:.2f} at {row['k']:,}" for row in rows if row["name"] == name)
        for name in names
    )
    description = (
        f"Share of the first places divided by that in random orders, by {join_names(breakdown.by)}: {summary}."
    )
    return finish_chart({"layer": layers, "width": width - SCALE, "height": HEIGHT}, description)
