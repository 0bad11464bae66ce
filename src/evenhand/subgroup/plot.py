"""Subgroups as pictures: gaps with adjusted intervals, and where the gaps sit, nested under the simpler subgroup."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.charts import LIGHT, Spec
from evenhand.subgroup import sentences
from evenhand.subgroup.result import Finding, SubgroupResult

if TYPE_CHECKING:
    import altair as alt

MOST = 24
"""Subgroups drawn: the first of the ranking."""

CHILDREN = 3
"""Subgroups drawn under the simpler one that explains them, at most."""

WIDE = 880
"""Pixels from which names stand beside the dots; below, they stand above them."""

LABELS = 330
CHARACTERS = 52
"""Pixels for the names beside the drawing, and how many characters of them fit into a line."""

PEOPLE = 56
RATES = 104
"""Pixels for the number of people, and for the two rates."""

ROW = 36
TALL_ROW = 82
"""Height of a row, and of one that has the name above its drawing."""

LINE = 14
INDENT = 14
Y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}


def plot(result: SubgroupResult) -> alt.TopLevelMixin:
    """The gaps above where they sit."""
    parts = [draw_gaps(result), draw_nesting(result)]
    return charts.altair(charts.stack(parts, " ".join(part["description"] for part in parts)))


def draw_gaps(result: SubgroupResult, *, width: int = WIDE) -> Spec:
    """One row per subgroup: its gap with the adjusted interval, how many people it has, both rates.

    Filled: told apart from chance, however many subgroups were looked at. Hollow and grey: not.
    """
    rows = [_gap_row(i, result, finding, width) for i, finding in enumerate(shown(result, MOST))]
    scale = 100 if sentences.counted(result) else 1
    reach = _reach(rows, scale * result.margin)

    def x(field: str) -> Spec:
        sign = f"replace(format(datum.value, '+{'' if reach > 2 else '.2'}'), '-', '{MINUS}')"
        axis = {"tickCount": 5, "title": None, "labelExpr": f"datum.value == 0 ? '0' : {sign}"}
        return {"field": field, "type": "quantitative", "scale": {"domain": [-reach, reach]}, "axis": axis}

    color = charts.painted("color")
    layers = [
        *_margin(scale * result.margin, x),
        charts.marks(
            rows,
            {"type": "rule", "strokeWidth": 2, "strokeCap": "round"},
            y=Y,
            x=x("low"),
            x2={"field": "high"},
            color=color,
        ),
        charts.marks(
            rows,
            {"type": "point", "size": 70, "opacity": 1, "strokeWidth": 1.8},
            y=Y,
            x=x("gap"),
            stroke=color,
            fill=charts.painted("fill"),
            shape=charts.painted("shape"),
        ),
    ]
    said = "; ".join(row["words"] for row in rows)
    gaps = f"Gaps to {sentences.others(result)} in the {sentences.RATES[result.measure]}"
    return _laid_out(rows, layers, f"{gaps}, with adjusted intervals. {said}.", sentences.nouns(result), width)


def draw_nesting(result: SubgroupResult, *, width: int = WIDE) -> Spec:
    """Where the gaps sit: one bar per subgroup as long as it has people, nested under the simpler one.

    Dark: who has the outcome. Bright: the gap counted in people, those who would have it too at the rate of the others,
    or would not. The rest is pale.
    """
    rows = [
        _bar_row(i, result, finding, depth, width) for i, (finding, depth) in enumerate(nested(result, CHILDREN)[:MOST])
    ]
    top = max((row["size"] for row in rows), default=1)
    parts = [part | {"row": row["row"]} for row in rows for part in row["parts"]]
    axis = {"format": ",d", "tickCount": 4, "title": None}

    def x(field: str) -> Spec:
        scale = {"domain": [0, 1.35 * top], "nice": False}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    layers = [
        charts.marks(
            parts,
            {"type": "bar", "height": 14, "stroke": LIGHT["paper"], "strokeWidth": 1},
            y=Y,
            x=x("low"),
            x2={"field": "high"},
            color=charts.painted("color"),
        ),
        charts.marks(
            rows,
            {"type": "text", "align": "left", "dx": 6},
            y=Y,
            x=x("size"),
            text={"field": "more", "type": "nominal"},
        ),
    ]
    said = "; ".join(f"{row['words']}{': ' + row['more'] if row['more'] else ''}" for row in rows)
    description = (
        f"Where the gaps sit, subgroups nested under simpler ones, as numbers of {sentences.nouns(result)}. {said}."
    )
    return _laid_out(rows, layers, description, sentences.nouns(result), width)


def shown(result: SubgroupResult, most: int) -> list[Finding]:
    """The first findings that no simpler one explains: who fares worse, who fares better, who is not told from chance.

    Neither of the first two takes more than half of the room that the other has use for.
    """
    own = [finding for finding in result.findings if finding.under is None]
    worse = [finding for finding in own if finding.found and sentences.worse(result, finding)]
    better = [finding for finding in own if finding.found and not sentences.worse(result, finding)]
    room = max(most // 2, most - len(better))
    unclear = [finding for finding in own if not finding.found]
    return [*worse[:room], *better[: most - len(worse[:room])], *unclear][:most]


def nested(result: SubgroupResult, most: int | None = None) -> list[tuple[Finding, int]]:
    """Findings in the order of ``shown``, each followed by those it explains, with the depth at which they stand.

    Args:
        result: the search.
        most: of those that a finding explains, only so many, the first of the ranking; None: all.
    """
    tree = result.tree()
    positions = {id(finding): i for i, finding in enumerate(result.findings)}

    def walk(position: int, depth: int) -> Iterator[tuple[Finding, int]]:
        yield result.findings[position], depth
        for below in tree.get(position, [])[:most]:
            yield from walk(below, depth + 1)

    return [pair for finding in shown(result, len(result.findings)) for pair in walk(positions[id(finding)], 0)]


MINUS = "\N{MINUS SIGN}"


def _gap_row(i: int, result: SubgroupResult, finding: Finding, width: int) -> Spec:
    scale = 100 if sentences.counted(result) else 1
    words = finding.words
    color = LIGHT["faint" if not finding.found else "different" if sentences.worse(result, finding) else "same"]
    return _names(result, finding, words, _characters(width)) | {
        "row": f"{i:04d}",
        "gap": scale * finding.gap,
        "low": scale * finding.low,
        "high": scale * finding.high,
        "color": color,
        "fill": color if finding.found else LIGHT["paper"],
        "shape": "circle" if sentences.worse(result, finding) else "diamond",
        "words": f"{words}: {sentences.points(result, finding.gap)} {sentences.unit(result)}"
        + ("" if finding.found else f" ({sentences.unclear(result, finding)})"),
    }


def _bar_row(i: int, result: SubgroupResult, finding: Finding, depth: int, width: int) -> Spec:
    size, own, others = finding.size, finding.size * finding.rate, finding.size * finding.rest_rate
    bright = "faint" if not finding.found else "different" if sentences.worse(result, finding) else "third"
    ends = (0.0, min(own, others), max(own, others), float(size))
    words = sentences.added(result, finding)
    return _names(result, finding, words, _characters(width) - 2 * depth) | {
        "row": f"{i:04d}",
        "dx": INDENT * depth,
        "size": size,
        "more": sentences.in_people(result, finding),
        "words": f"{finding.words}, {size:,} {sentences.nouns(result)}",
        "parts": [
            {"low": low, "high": high, "color": LIGHT[role]}
            for low, high, role in zip(ends[:-1], ends[1:], ("same", bright, "open"), strict=True)
            if high > low
        ],
    }


def _names(result: SubgroupResult, finding: Finding, words: str, characters: int) -> Spec:
    """What stands beside or above a row."""
    own, others = sentences.rate(result, finding.rate), sentences.rate(result, finding.rest_rate)
    return {
        "name": _wrapped(words, characters),
        "dx": 0,
        "people": f"{finding.size:,}",
        "rates": f"{own} : {others}",
        "short": f"{finding.size:,} {sentences.nouns(result)}; {own}, the others {others}",
        "ink": LIGHT["ink" if finding.found else "muted"],
    }


def _laid_out(rows: list[Spec], layers: list[Spec], description: str, noun: str, width: int) -> Spec:
    """Names, people and rates beside the drawing, or above each row where there is no room."""
    if not rows:
        return charts.finished({"layer": [charts.marks([], {"type": "point"})]}, "No subgroup is large enough.")
    if width < WIDE:
        names = _texts(rows, "name", lambda row: {"dx": row["dx"], "dy": -29 - LINE * row["name"].count("\n")})
        sizes = _texts(rows, "short", lambda row: {"dx": row["dx"], "dy": -15, "fontSize": 11})
        spec = {"layer": [*layers, *names, *sizes], "width": width - 12, "height": {"step": TALL_ROW}}
        return charts.finished(spec, description)
    names = _texts(rows, "name", lambda row: {"dx": row["dx"], "dy": -LINE / 2 * row["name"].count("\n")})
    panels: list[Spec] = [{"layer": names, "width": LABELS}]
    for field, title, wide in (("people", noun, PEOPLE), ("rates", "rate : others", RATES)):
        column = _texts(rows, field, lambda row: {"align": "right"}, x=wide)
        heading = {"text": title, "anchor": "end", "fontWeight": "normal", "fontSize": 12, "color": LIGHT["muted"]}
        panels.append({"layer": column, "width": wide, "title": heading})
    panels.append({"layer": layers, "width": width - LABELS - PEOPLE - RATES - 62})
    high = {"height": {"step": ROW}}
    return charts.finished({"hconcat": [panel | high for panel in panels], "spacing": 14}, description)


def _texts(rows: list[Spec], field: str, placed: Callable[[Spec], Spec], x: int = 0) -> list[Spec]:
    """One text per row, as it is placed; those that are placed alike share a layer."""
    alike: dict[str, list[Spec]] = {}
    for row in rows:
        alike.setdefault(json.dumps(placed(row)), []).append(row)
    mark = {"type": "text", "align": "left", "lineBreak": "\n", "lineHeight": LINE}
    text = {"field": field, "type": "nominal"}
    # An empty layer that has every row, so that each stands in its place.
    every = charts.marks([{"row": row["row"]} for row in rows], {"type": "point", "stroke": "transparent"}, y=Y)
    return [
        every,
        *(
            charts.marks(own, mark | json.loads(place), y=Y, x={"value": x}, text=text, color=charts.painted("ink"))
            for place, own in alike.items()
        ),
    ]


def _characters(width: int) -> int:
    """Characters of a name in one line."""
    return CHARACTERS if width >= WIDE else width // 6


def _wrapped(words: str, characters: int) -> str:
    """At most two lines; what does not fit is left to the table."""
    lines = textwrap.wrap(words, characters, break_long_words=True) or [""]
    return "\n".join(
        [
            lines[0],
            *(f"{line[: characters - 1]}\N{HORIZONTAL ELLIPSIS}" if len(lines) > 2 else line for line in lines[1:2]),
        ]
    )


def _margin(margin: float, x: Callable[[str], Spec]) -> list[Spec]:
    """A line where there is no gap, and dashed ones where it begins to matter."""
    dashed = {"type": "rule", "color": LIGHT["faint"], "strokeDash": [4, 3]}
    ends = [{"at": -margin}, {"at": margin}] if margin > 0 else []
    return [
        charts.marks([{"at": 0}], {"type": "rule", "color": LIGHT["muted"]}, x=x("at")),
        charts.marks(ends, dashed, x=x("at")),
    ]


def _reach(rows: list[Spec], margin: float) -> float:
    """Where the axis ends, as far to the left as to the right: past every interval."""
    ends = [abs(row[end]) for row in rows for end in ("low", "high")]
    return 1.04 * max([*ends, 1.5 * margin]) or 1.0
