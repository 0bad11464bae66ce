"""How charts look, and how they get into a page: one theme, colours that survive colour blindness and grey print.

A chart is first a Vega-Lite specification (plain data). A notebook gets it as an Altair chart (``altair``), which it
shows and exports as usual. A report gets it as SVG, drawn beforehand by Vega (``svg``): it then needs no script and no
network to open, and prints as it looks. Every colour has a counterpart for dark pages (``stylesheet``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import altair as alt

Spec: TypeAlias = dict[str, Any]
"""A Vega-Lite specification, or part of one."""

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
brightness; nothing is said by colour alone."""

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
"""Roles of lines that are told apart, in order; each comes with its own dash too."""

DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 4))

THEME: Spec = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "domain": False,
        "ticks": False,
        "gridColor": LIGHT["grid"],
        "labelColor": LIGHT["muted"],
        "labelFlush": False,
        "labelFontSize": 12,
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


def marks(rows: Sequence[Spec], mark: Spec, **encoding: Spec) -> Spec:
    """One layer: rows drawn as marks. Names of fields are ours; users' words are only ever values."""
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def painted(field: str) -> Spec:
    """A colour taken as it stands in the rows."""
    return {"field": field, "type": "nominal", "scale": None, "legend": None}


def finished(spec: Spec, description: str) -> Spec:
    """A whole chart: the house's look, and what it shows in words for those who cannot see it."""
    frame = {"background": "transparent", "padding": {"left": 0, "top": 4, "right": 2, "bottom": 4}, "config": THEME}
    shown: Spec = _printable(spec | {"description": description})
    return shown | frame


def _printable(part: Any) -> Any:
    """A specification whose texts are printable: one character unknown to XML, and drawing ends the whole process."""
    if isinstance(part, str):
        # Vega takes a title that is this word alone for the beginning of a rule.
        return "if " if part == "if" else printable(part)
    if isinstance(part, dict):
        return {key: _printable(value) for key, value in part.items()}
    return [_printable(value) for value in part] if isinstance(part, list) else part


def stack(specs: Sequence[Spec], description: str) -> Spec:
    """Several finished charts above each other, as one finished chart."""
    of_the_whole = ("description", "background", "padding", "config")
    parts = [{key: value for key, value in spec.items() if key not in of_the_whole} for spec in specs]
    apart = {"color": "independent", "strokeDash": "independent", "shape": "independent"}
    return finished({"vconcat": parts, "spacing": 28, "resolve": {"scale": apart}}, description)


def altair(spec: Spec) -> alt.TopLevelMixin:
    """A finished chart for a notebook."""
    import altair as alt

    chart: alt.TopLevelMixin = alt.Chart.from_dict(spec)
    return chart


def svg(spec: Spec, *, name: str) -> str:
    """A finished chart drawn as one ``<svg>`` element for an HTML page, without script, up to its own width.

    Args:
        spec: the chart.
        name: a word that is unique in the page; identifiers inside the drawing start with it.
    """
    import vl_convert

    drawn = str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))
    head, body = drawn.split(">", 1)
    # Vega counts clipped areas over all drawings of a process; the same chart must give the same text.
    counted = {found: f"clip{i}" for i, found in enumerate(dict.fromkeys(re.findall(r'id="(clip\d+)"', body)))}
    body = re.sub(r"\bclip\d+\b", lambda match: counted.get(match[0], match[0]), body)
    width, height = re.findall(r'(?:width|height)="(\d+(?:\.\d+)?)"', head)[:2]
    body = re.sub(r'\sid="([^"]*)"', rf' id="{name}-\1"', body)
    body = re.sub(r'="url\(#([^"]*)\)"', rf'="url(#{name}-\1)"', body)
    # The drawing is one image with one description; its parts are in the tables beside it.
    body = re.sub(r'\s(?:role|aria-[a-z]+)="[^"]*"', "", body)
    described = spec["description"].replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="{described}" '
        f'viewBox="0 0 {width} {height}" style="max-width:{width}px">{body}'
    )


def stylesheet() -> str:
    """CSS that repaints drawings of ``svg`` for dark pages."""
    return "\n".join(
        f'.chart [{attribute}="{LIGHT[role]}"] {{ {attribute}: {DARK[role]}; }}'
        for role in LIGHT
        for attribute in ("fill", "stroke")
    )


def percent(share: float) -> str:
    """A share in percent. Near 0 and near 100 % it gets more digits, so that it rounds to neither.

    >>> percent(0.0241), percent(0.00004), percent(0.99996), percent(1.0)
    ('2.4 %', '0.0040 %', '99.9960 %', '100 %')
    """
    return f"{100 * share:.{percent_digits(share)}f} %"


def percent_digits(share: float) -> int:
    """Digits after the point of a share in percent.

    None for 0 and 100 %, else one, else up to the second digit of its distance from there.
    """
    rest = min(abs(100 * share), abs(100 - 100 * share))
    if rest < 1e-9:
        return 0
    return 1 if rest >= 1 else min(8, 1 - math.floor(math.log10(rest)))


def printable(text: str) -> str:
    """Text without characters that control a terminal, are no XML, or turn the direction of writing."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
