"""Theme of all charts, colours for light and dark pages, and rendering by Vega."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from evenhand.core.text import strip_unprintable
from evenhand.view.drawing.axis import NARROW_PERCENT
from evenhand.view.drawing.fonts import fix_widths

if TYPE_CHECKING:
    import altair as alt

Spec: TypeAlias = dict[str, Any]
"""A Vega-Lite specification, or part of one."""


class Drawn(Protocol):
    """A chart that can be converted to a finished specification."""

    @property
    def spec(self) -> Spec: ...


FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"

LIGHT = {
    "ink": "#1c2127",
    "muted": "#57606b",
    "faint": "#949da8",
    "grid": "#e1e5ea",
    "same": "#0b5394",
    "open": "#cdd3da",
    "different": "#d9730d",
    "third": "#12806a",
    "fourth": "#8a4f9e",
    "paper": "#fffffe",
}
"""Role -> colour on a light page. Blue and orange differ for every kind of colour vision and, printed in grey, in
brightness; colours are never the only distinction."""

DARK = {
    "ink": "#e8eaed",
    "muted": "#a9b1bc",
    "faint": "#78818c",
    "grid": "#30363e",
    "same": "#5aa0e6",
    "open": "#525b66",
    "different": "#f5b57a",
    "third": "#4fc3a5",
    "fourth": "#c79ad6",
    "paper": "#15181d",
}
"""Role -> colour on a dark page."""

SERIES = ("same", "different", "third", "fourth", "muted")
"""Roles of lines, in order. Each line also has its own dashes."""

DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 4))

THEME: Spec = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "domain": False,
        "ticks": False,
        "gridColor": LIGHT["grid"],
        "labelColor": LIGHT["muted"],
        "labelExpr": f"replace(datum.label, '%', '{NARROW_PERCENT}')",
        "labelFlush": False,
        "labelFontSize": 12,
        "labelSeparation": 8,
        "titleColor": LIGHT["muted"],
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "title": {
        "color": LIGHT["ink"],
        "subtitleColor": LIGHT["muted"],
        "fontSize": 13,
        "fontWeight": "bold",
        "anchor": "start",
        "frame": "group",
        "offset": 8,
    },
    "text": {"fontSize": 12, "color": LIGHT["ink"]},
    "legend": {"labelFontSize": 12, "labelColor": LIGHT["ink"], "labelLimit": 320, "title": None, "orient": "top"},
}


def mark_layer(rows: Sequence[Spec], mark: Spec, **encoding: Spec | str) -> Spec:
    """Build a layer that draws rows as marks. Names of fields are fixed; words of users are only values.

    Args:
        rows: Rows.
        mark: Type and style of the mark.
        encoding: Channels. A string names the field of a nominal channel, or of an end (``x2``, ``y2``).
    """
    channels = {
        name: ({"field": channel} | ({} if name in ("x2", "y2") else {"type": "nominal"}))
        if isinstance(channel, str)
        else channel
        for name, channel in encoding.items()
    }
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": channels}


def along(field: str, domain: Sequence[float] | None = None, *, zero: bool = True, **axis: Any) -> Spec:
    """Build a quantitative channel.

    Args:
        field: Field of the rows.
        domain: Ends of the axis. Default: those of the numbers.
        zero: Whether the axis includes 0 if there is no domain.
        axis: Vega-Lite options of the axis.
    """
    scale = {"zero": zero} if domain is None else {"domain": list(domain), "nice": False}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis or None}


def literal_color(field: str) -> Spec:
    """Return a colour channel without a scale."""
    return {"field": field, "type": "nominal", "scale": None, "legend": None}


def line_style(names: Sequence[str], width: int) -> dict[str, Spec]:
    """Return the encodings of lines by ``name``: each has its own colour, dashes and legend entry."""
    stroke: Spec = {"symbolType": "stroke", "symbolSize": 300, "symbolStrokeWidth": 2.5, "symbolOpacity": 1}
    legend = stroke | {"title": None, "columns": 1 if width < WIDE else 3}
    ranges: dict[str, list[Any]] = {
        "color": [LIGHT[role] for role in SERIES],
        "strokeDash": [list(dash) for dash in DASHES],
    }
    return {
        channel: {
            "field": "name",
            "type": "nominal",
            "scale": {"domain": list(names), "range": values[: len(names)]},
            "legend": legend if len(names) > 1 else None,
        }
        for channel, values in ranges.items()
    }


def finish_chart(spec: Spec, description: str) -> Spec:
    """Add the theme and the description, which is for screen readers, to a chart."""
    frame = {"background": "transparent", "padding": {"left": 2, "top": 4, "right": 2, "bottom": 4}, "config": THEME}
    printable: Spec = _strip_texts(spec | {"description": description})
    return printable | frame


def _strip_texts(part: Any) -> Any:
    """Make the texts of a specification printable: a character that XML does not allow would end the whole process."""
    if isinstance(part, str):
        # Vega interprets a title that is only this word as the beginning of a rule.
        return "if " if part == "if" else strip_unprintable(part)
    if isinstance(part, dict):
        return {key: _strip_texts(value) for key, value in part.items()}
    return [_strip_texts(value) for value in part] if isinstance(part, list) else part


def stack_charts(charts: Sequence[Spec | Drawn], description: str | None = None) -> Spec:
    """Stack several finished charts above each other, as one finished chart.

    Args:
        charts: from top to bottom.
        description: description of the whole; by default, the descriptions of the charts.
    """
    specs = [_spec(chart) for chart in charts]
    if description is None:
        description = " ".join(spec["description"] for spec in specs)
    of_the_whole = ("description", "background", "padding", "config")
    parts = [{key: value for key, value in spec.items() if key not in of_the_whole} for spec in specs]
    scales = {"color": "independent", "strokeDash": "independent", "shape": "independent"}
    return finish_chart({"vconcat": parts, "spacing": 28, "resolve": {"scale": scales}}, description)


def to_altair(chart: Spec | Drawn) -> alt.TopLevelMixin:
    """Return a finished chart for a notebook."""
    import altair as alt

    altair_chart: Any = alt.Chart.from_dict(_spec(chart))
    kind = type(altair_chart)
    # Altair's renderer would load a library from the network.
    offline = {"_repr_mimebundle_": _svg_bundle, "__module__": kind.__module__}
    object.__setattr__(altair_chart, "__class__", type(kind.__name__, (kind,), offline))
    return cast("alt.TopLevelMixin", altair_chart)


def _svg_bundle(chart: alt.TopLevelMixin, *_: object, **__: object) -> dict[str, str]:
    import vl_convert

    svg = vl_convert.vegalite_to_svg(chart.to_dict(), allowed_base_urls=[])
    return {"image/svg+xml": str(svg), "text/plain": str(chart.to_dict().get("description", "a chart"))}


def _spec(chart: Spec | Drawn) -> Spec:
    return chart if isinstance(chart, dict) else chart.spec


def to_svg(spec: Spec, *, name: str) -> str:
    """Draw a finished chart as one ``<svg>`` element for an HTML page, without script, at most as wide as the chart.

    Args:
        spec: the chart.
        name: a word that is unique in the page; identifiers inside the drawing start with it.
    """
    import vl_convert

    svg = str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))
    head, body = svg.split(">", 1)
    # Vega counts clipped areas over all drawings of a process; the same chart must give the same text.
    counted = {clip: f"clip{i}" for i, clip in enumerate(dict.fromkeys(re.findall(r'id="(clip\d+)"', body)))}
    body = re.sub(r"\bclip\d+\b", lambda match: counted.get(match[0], match[0]), body)
    width, height = re.findall(r'(?:width|height)="(\d+(?:\.\d+)?)"', head)[:2]
    body = re.sub(r'\sid="([^"]*)"', rf' id="{name}-\1"', body)
    body = re.sub(r'="url\(#([^"]*)\)"', rf'="url(#{name}-\1)"', body)
    # The drawing is one image with one description; its parts are in the tables.
    body = re.sub(r'\s(?:role|aria-[a-z]+)="[^"]*"', "", body)
    body = _shorten_drawing(fix_widths(body))
    described = spec["description"].replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="{described}" '
        f'viewBox="0 0 {width} {height}" font-family="{FONT}" style="max-width:{width}px">{body}'
    )


_PLACES = re.compile(r'(?<= )(?:d|transform|[xy][12]?)="[^"]*"')
_DIGITS = re.compile(r"\d+\.\d{2,}(?!e)")
_UNSEEN = re.compile(
    r'<path class="(?:background|foreground)" d="[^"]*"(?: pointer-events="none")?(?: display="none")?/>'
    rf'| (?:class="[^"]*"|pointer-events="none"|opacity="1"|font-weight="normal"|font-family="{FONT}")'
)


def _shorten_drawing(body: str) -> str:
    """Remove invisible parts of a drawing, and round positions to a tenth of a pixel."""
    body = _UNSEEN.sub("", body)
    return _PLACES.sub(
        lambda position: _DIGITS.sub(lambda number: f"{round(float(number[0]), 1):g}", position[0]), body
    )


def dark_stylesheet() -> str:
    """Return CSS that repaints drawings of ``svg`` for dark pages."""
    return "\n".join(
        f'.chart [{attribute}="{LIGHT[role]}"] {{ {attribute}: {DARK[role]}; }}'
        for role in LIGHT
        for attribute in ("fill", "stroke")
    )


WIDE = 880
NARROW = 330
"""Widths in pixels at which Vega draws a chart. The page shows one of the two."""


@dataclass(frozen=True)
class SizedDrawing:
    """One chart of the page in two sizes.

    Attributes:
        wide, narrow: ``<svg>`` elements.
    """

    wide: str
    narrow: str


def draw_figure(name: str, draw: Callable[..., Spec], source: Any) -> SizedDrawing:
    """Draw a chart for wide and for narrow screens.

    Args:
        name: prefix of the identifiers in both pictures.
        draw: makes the chart of ``what``; its keyword ``width`` takes pixels.
    """
    return SizedDrawing(
        wide=to_svg(draw(source, width=WIDE), name=f"{name}-wide"),
        narrow=to_svg(draw(source, width=NARROW), name=f"{name}-narrow"),
    )
