"""Charts of a search: how wide the score gaps are, and where the profiles sit by attribute, next to the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.charts import LIGHT, Spec
from evenhand.individual.search.reading.parts import AttributeReading, Share
from evenhand.individual.search.result import SearchResult

if TYPE_CHECKING:
    import altair as alt

WIDE = 880
"""Width that the charts are made for, in pixels."""

ATTRIBUTES = 4
"""Attributes drawn: those that matter most."""

VALUES = 10
"""Values drawn of one attribute, at most: those that are commonest among the profiles."""

NAMES = 150
"""Pixels for the names of values."""


def plot(result: SearchResult) -> alt.TopLevelMixin:
    """The distribution of gaps above the attributes that matter most."""
    parts = [draw_gaps(result), draw_attributes(result)]
    return charts.altair(charts.stack(parts, " ".join(part["description"] for part in parts)))


def draw_gaps(result: SearchResult, *, width: int = WIDE) -> Spec:
    """How many profiles have which gap between the two scores."""
    counts = result.reading.gaps if result.reading is not None else ()
    step = 1 / max(1, len(counts))
    rows = [{"low": k * step, "high": (k + 1) * step, "profiles": n} for k, n in enumerate(counts) if n]
    most = max(rows, key=lambda row: row["profiles"], default=None)
    said = "Score gaps of the profiles found"
    if most is not None:
        said += f": most ({most['profiles']:,} of {sum(counts):,}) lie between {most['low']:.2g} and {most['high']:.2g}"
    axis = {"title": "gap between the two scores", "format": ".1f", "tickCount": 6, "grid": False}
    bars = charts.marks(
        rows,
        {"type": "bar", "binSpacing": 1, "color": LIGHT["same"]},
        x={"field": "low", "type": "quantitative", "bin": "binned", "scale": {"domain": [0, 1]}, "axis": axis},
        x2={"field": "high"},
        y={
            "field": "profiles",
            "type": "quantitative",
            "axis": {"title": "profiles", "tickCount": 4, "labelPadding": 8},
        },
    )
    return charts.finished({"layer": [bars], "width": width - 70, "height": 130}, said + ".")


def draw_attributes(result: SearchResult, *, width: int = WIDE) -> Spec:
    """For the attributes that matter most: the share of each value among the profiles, and in the data."""
    read = result.reading.attributes[:ATTRIBUTES] if result.reading is not None else ()
    if not read:
        return charts.finished({"layer": [charts.marks([], {"type": "point"})]}, "No profiles were found.")
    return charts.stack([_attribute(one, width) for one in read], " ".join(_said(one) for one in read))


def _attribute(read: AttributeReading, width: int) -> Spec:
    rows = [
        {"value": share.value, "found": share.found, "data": share.data, "order": k}
        for k, share in enumerate(_shown(read.shares))
    ]
    axis = {"format": "%", "tickCount": 5, "title": None}
    label: Spec = {
        "title": None,
        "grid": False,
        "labelLimit": NAMES,
        "minExtent": NAMES,
        "maxExtent": NAMES,
        "labelPadding": 9,
    }
    y: Spec = {"field": "value", "type": "nominal", "sort": None, "axis": label}

    def x(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "axis": axis}

    layers = []
    if any(row["data"] is not None for row in rows):
        line = {"type": "rule", "strokeWidth": 2, "color": LIGHT["open"]}
        hollow = {"type": "point", "size": 60, "opacity": 1, "strokeWidth": 1.8, "stroke": LIGHT["same"]}
        layers.append(charts.marks(rows, line, y=y, x=x("data"), x2={"field": "found"}))
        layers.append(charts.marks(rows, hollow | {"fill": LIGHT["paper"]}, y=y, x=x("data")))
    filled = {"type": "point", "shape": "diamond", "filled": True, "size": 90, "opacity": 1}
    layers.append(charts.marks(rows, filled | {"color": LIGHT["different"]}, y=y, x=x("found")))
    titled: Spec = {"title": read.name, "layer": layers, "width": width - NAMES - 60, "height": {"step": 20}}
    return charts.finished(titled, _said(read))


def _shown(shares: tuple[Share, ...]) -> list[Share]:
    """The commonest values among the profiles, in their own order."""
    common = sorted(shares, key=lambda share: (-share.found, -(share.data or 0.0)))[:VALUES]
    kept = {share.value for share in common}
    return [share for share in shares if share.value in kept]


def _said(read: AttributeReading) -> str:
    most = max(read.shares, key=lambda share: share.found - (share.data or 0.0))
    data = "" if most.data is None else f" against {charts.percent(most.data)} in the data"
    return f"{read.name}: {most.value} has {charts.percent(most.found)} of the profiles{data}."
