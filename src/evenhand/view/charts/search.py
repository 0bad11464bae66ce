"""Charts of a search: how wide the score gaps are, and where the profiles sit by attribute, next to the data."""

from __future__ import annotations

from evenhand.core.text import format_percent
from evenhand.individual.search.reading import AttributeReading, ValueShare
from evenhand.individual.search.result import SearchResult
from evenhand.view.drawing.axis import percentages, spread
from evenhand.view.drawing.rows import Block, Dot, Mark, Panel, Row, RowChart, Span
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, finish_chart, mark_layer, stack_charts

ATTRIBUTES = 4
"""Attributes drawn: those that matter most."""

VALUES = 10
"""Values drawn of one attribute, at most: those that are commonest among the profiles."""

NAMES = 150
HEIGHT = 20
"""Pixels for the names of values, and of a row."""


def plot_search(result: SearchResult) -> Spec:
    """Return the distribution of gaps above the attributes that matter most."""
    gaps, attributes = draw_gaps(result), draw_attributes(result)
    return stack_charts([gaps, attributes])


def draw_gaps(result: SearchResult, *, width: int = WIDE) -> Spec:
    """Return how many profiles have which gap between the two scores."""
    counts = result.reading.gaps if result.reading is not None else ()
    step = 1 / max(1, len(counts))
    rows = [{"low": k * step, "high": (k + 1) * step, "profiles": n} for k, n in enumerate(counts) if n]
    most = max(rows, key=lambda row: row["profiles"], default=None)
    said = "Score gaps of the profiles found"
    if most is not None:
        said += f": most ({most['profiles']:,} of {sum(counts):,}) lie between {most['low']:.2g} and {most['high']:.2g}"
    axis = {"title": "gap between the two scores", "format": ".1f", "tickCount": 6, "grid": False, "offset": 5}
    bars = mark_layer(
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
    return finish_chart({"layer": [bars], "width": width - 70, "height": 130}, said + ".")


def draw_attributes(result: SearchResult) -> RowChart:
    """For the attributes that matter most: the share of each value among the profiles, and in the data."""
    read = result.reading.attributes[:ATTRIBUTES] if result.reading is not None else ()
    if not read:
        return RowChart("No profiles were found.", ())
    return RowChart(" ".join(_describe_reading(one) for one in read), tuple(_attribute_panel(one) for one in read))


def _attribute_panel(read: AttributeReading) -> Block:
    shares = _commonest_values(read.shares)
    top = max(max(share.found, share.data or 0.0) for share in shares)
    axis = spread(0.0, top, percentages, about=4, whole=True)
    rows = tuple(Row(share.value, (_marks(share),)) for share in shares)
    return Block(rows=rows, panels=(Panel(axis),), title=read.name, names=NAMES, place="left", height=HEIGHT)


def _marks(share: ValueShare) -> tuple[Mark, ...]:
    found = Dot(share.found, share.found, share.found, role="different", shape="diamond")
    if share.data is None:
        return (found,)
    line = Span(min(share.data, share.found), max(share.data, share.found), "open")
    return (line, Dot(share.data, share.data, share.data, filled=False), found)


def _commonest_values(shares: tuple[ValueShare, ...]) -> list[ValueShare]:
    """Return the commonest values among the profiles, in their own order."""
    common = sorted(shares, key=lambda share: (-share.found, -(share.data or 0.0)))[:VALUES]
    kept = {share.value for share in common}
    return [share for share in shares if share.value in kept]


def _describe_reading(read: AttributeReading) -> str:
    most = max(read.shares, key=lambda share: share.found - (share.data or 0.0))
    data = "" if most.data is None else f" against {format_percent(most.data)} in the data"
    return f"{read.name}: {most.value} has {format_percent(most.found)} of the profiles{data}."
