"""Mitigations as pictures: every number before and after, candidates beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenhand.mitigation.alternatives.result import AlternativesResult
from evenhand.mitigation.result import PART_TITLES, CandidateResult, ChangeVerdict, ComparisonLine, MitigationResult
from evenhand.stats.quantity import Observed, Quantity, Unknown
from evenhand.view.drawing.axis import Axis, percentages, spread
from evenhand.view.drawing.fonts import text_width
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, finish_chart, literal_color, mark_layer, stack_charts

NAMES, VERDICTS, APART = 350, 92, 22
"""Pixels for names, for verdicts, and between panels."""

ROW, TALL_ROW = 25, 44
"""Height of a row, and of one that has its name above."""

ROLES: dict[ChangeVerdict, tuple[str, str]] = {
    "better": ("same", "circle"),
    "worse": ("different", "triangle-up"),
}
"""Verdict -> colour and shape; all others are grey and hollow."""

Y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}


def plot_mitigation(result: MitigationResult) -> Spec:
    """Plot before and after under every candidate."""
    parts = [draw_candidate(candidate) for candidate in result.candidates]
    return stack_charts(parts)


def draw_candidate(candidate: CandidateResult, *, width: int = WIDE) -> Spec:
    """Return one row per number: before (a grey bar) and after (a mark), and the change with its adjusted interval.

    Filled blue circle: better. Filled orange triangle: worse. Hollow and grey: within noise, or not decided.
    """
    parts = []
    for part, title in PART_TITLES.items():
        lines = [line for line in candidate.lines if line.part == part and _is_drawn(line)]
        if lines:
            parts.append(_part_panel(lines, title, width))
    said = "; ".join(
        f"{line.words} {_quantity_value(line.before):.3f} to {_quantity_value(line.after):.3f}, {line.verdict}"
        for line in candidate.lines
        if _is_drawn(line)
    )
    name = f"{candidate.method}, {candidate.words}"
    return finish_chart({"vconcat": parts, "spacing": 18}, f"Before and after: {name}. {said}.")


def draw_candidates(result: MitigationResult, *, width: int = WIDE) -> Spec:
    """One row per model, one panel per number: accuracy and every harm that was to be reduced, with their intervals."""
    first = result.candidates[0]
    lines = [line for line in first.lines if line.name == "accuracy" or line.part == "asked"]
    lines = [line for line in lines if _is_drawn(line)]
    names = ["original model", *(candidate.method for candidate in result.candidates)]
    beside = width >= WIDE
    taken = math.ceil(max(map(text_width, names))) + 20
    beside = beside and len(lines) <= 4
    each = (width - taken - 20) // len(lines) - 24 if beside else width - taken - 48
    panels = []
    for i, line in enumerate(lines):
        rows = [_model_row(0, names[0], line.before, line, ("muted", "square"))]
        for at, candidate in enumerate(result.candidates, 1):
            own = candidate.line(line.name, line.of)
            if own is not None and _is_drawn(own):
                rows.append(_model_row(at, names[at], own.after, own, _verdict_role(own.verdict)))
        heading = {"limit": each} if beside else {"limit": width - 12, "frame": "bounds"}
        heading |= {"text": line.words, "fontWeight": "normal", "fontSize": 12}
        panels.append(_model_panel(rows, names, each, named=i == 0 or not beside) | {"title": heading})
    together: Spec = {"hconcat": panels} if beside else {"vconcat": panels}
    said = "; ".join(
        f"{name}: "
        + ", ".join(f"{line.words} {_quantity_value(line.after):.3f}" for line in matching_lines(candidate, lines))
        for name, candidate in zip(names[1:], result.candidates, strict=True)
    )
    return finish_chart(together | {"spacing": 24}, f"Candidates beside each other. {said}.")


def matching_lines(candidate: CandidateResult, lines: Sequence[ComparisonLine]) -> list[ComparisonLine]:
    """Return the candidate's lines about the same numbers, those that it has."""
    found = [candidate.line(line.name, line.of) for line in lines]
    return [line for line in found if line is not None and _is_drawn(line)]


def _is_drawn(line: ComparisonLine) -> bool:
    """Return whether a line has both numbers; what is undecided is the rest of what is drawn."""
    return line.name != "undecided" and not isinstance(line.before, Unknown) and not isinstance(line.after, Unknown)


def _quantity_value(quantity: Quantity) -> float:
    return 0.0 if isinstance(quantity, Unknown) else quantity.value


def _verdict_role(verdict: ChangeVerdict) -> tuple[str, str]:
    return ROLES.get(verdict, ("muted", "circle"))


def _line_row(i: int, line: ComparisonLine) -> Spec:
    role, shape = _verdict_role(line.verdict)
    row: Spec = {
        "row": f"{i:03d}",
        "words": line.words,
        "verdict": line.verdict,
        "both": f"{line.verdict}: {line.words}",
        "before": _quantity_value(line.before),
        "after": _quantity_value(line.after),
        "color": LIGHT[role],
        "fill": LIGHT[role if line.claims_change else "paper"],
        "shape": shape,
    }
    if line.change is not None:
        row |= {"change": line.change.value, "low": line.change.low, "high": line.change.high}
    return row


def _part_panel(lines: Sequence[ComparisonLine], title: str, width: int) -> Spec:
    rows = [_line_row(i, line) for i, line in enumerate(lines)]
    beside = width >= WIDE
    each = (width - NAMES - VERDICTS - 3 * APART - 8) // 2 if beside else width - 24
    # Gaps between groups are written as decimals, as everywhere; all other numbers are shares of people.
    scale = 1 if lines[0].part == "groups" else 100
    dots = _before_after_dots(rows, each, scale, beside=beside)
    heading = {"text": title, "anchor": "start"}
    if not beside:
        return dots | {"title": heading}
    panels = [_text_column(rows, "words", NAMES) | {"title": heading}, dots]
    panels.append(
        _change_intervals(rows, each, scale) if any("change" in row for row in rows) else _empty_panel(rows, each)
    )
    return {"hconcat": [*panels, _text_column(rows, "verdict", VERDICTS)], "spacing": APART, "bounds": "flush"}


def _text_column(rows: Sequence[Spec], field: str, width: int) -> Spec:
    text = mark_layer(
        rows,
        {"type": "text", "align": "left", "limit": width, "color": LIGHT["ink"]},
        y=Y,
        x={"value": 0},
        text={"field": field, "type": "nominal"},
    )
    return text | {"width": width, "height": {"step": ROW}}


def _empty_panel(rows: Sequence[Spec], width: int) -> Spec:
    return mark_layer(rows, {"type": "point", "opacity": 0}, y=Y) | {"width": width, "height": {"step": ROW}}


def _before_after_dots(rows: Sequence[Spec], width: int, scale: int, *, beside: bool) -> Spec:
    """Return marks for the change: a short bar before, a mark after, a line between them."""
    every = [row[end] for row in rows for end in ("before", "after")]
    low, high = min(every), max(every)
    room = 0.12 * (high - low) or 0.02
    low, high = (max(0.0, low - room), min(1.0, high + room)) if low >= 0 else (low - room, high + room)
    if low < 0.35 * high:
        low = min(low, 0.0)

    def x(field: str) -> Spec:
        axis = {"format": "~g" if scale == 1 else "~%", "tickCount": 4, "title": None, "labelSeparation": 8}
        domain = {"domain": [low, high], "nice": False, "zero": False}
        return {"field": field, "type": "quantitative", "scale": domain, "axis": axis}

    color = literal_color("color")
    layers = [
        mark_layer(rows, {"type": "rule", "strokeWidth": 2}, y=Y, x=x("before"), x2={"field": "after"}, color=color),
        mark_layer(
            rows,
            {"type": "tick", "thickness": 3, "size": 13, "color": LIGHT["faint"], "opacity": 1},
            y=Y,
            x=x("before"),
        ),
        _draw_mark(rows, x("after")),
    ]
    if not beside:
        mark = {"type": "text", "align": "left", "dy": -15, "limit": width, "color": LIGHT["ink"]}
        layers.append(mark_layer(rows, mark, y=Y, x={"value": 0}, text={"field": "both", "type": "nominal"}))
    return {"layer": layers, "width": width, "height": {"step": ROW if beside else TALL_ROW}}


def _change_intervals(rows: Sequence[Spec], width: int, scale: int) -> Spec:
    """Return the change with its adjusted interval, around no change. Very wide intervals are cut at the edge."""
    known = [row for row in rows if "change" in row]
    widths = sorted(max(abs(row["low"]), abs(row["high"])) for row in known)
    reach = max(1.25 * max(abs(row["change"]) for row in known), 1.5 * widths[len(widths) // 3], 0.005)
    reach = min(reach, 1.05 * widths[-1]) if widths[-1] > 0 else reach
    cut = [row | {"low": max(row["low"], -reach), "high": min(row["high"], reach)} for row in known]
    axis = {
        "tickCount": 4,
        "title": None,
        "labelSeparation": 8,
        "labelExpr": f"datum.value == 0 ? '0' : replace(format({scale} * datum.value, '+~g'), '-', '\u2212')",
    }

    def x(field: str) -> Spec:
        domain = {"domain": [-reach, reach], "nice": False}
        return {"field": field, "type": "quantitative", "scale": domain, "axis": axis}

    color = literal_color("color")
    layers = [
        mark_layer([{"row": row["row"]} for row in rows], {"type": "point", "opacity": 0}, y=Y),
        mark_layer([{"at": 0}], {"type": "rule", "color": LIGHT["muted"]}, x=x("at")),
        mark_layer(
            cut,
            {"type": "rule", "strokeWidth": 2, "strokeCap": "round"},
            y=Y,
            x=x("low"),
            x2={"field": "high"},
            color=color,
        ),
        _draw_mark(cut, x("change")),
    ]
    return {"layer": layers, "width": width, "height": {"step": ROW}}


def _draw_mark(rows: Sequence[Spec], x: Spec) -> Spec:
    return mark_layer(
        rows,
        {"type": "point", "size": 62, "opacity": 1, "strokeWidth": 1.8},
        y=Y,
        x=x,
        stroke=literal_color("color"),
        fill=literal_color("fill"),
        shape=literal_color("shape"),
    )


def _model_row(at: int, name: str, quantity: Quantity, line: ComparisonLine, role: tuple[str, str]) -> Spec:
    ends = {"low": _quantity_value(quantity), "high": _quantity_value(quantity)}
    if isinstance(quantity, Observed):
        ends = {"low": quantity.low, "high": quantity.high}
    return ends | {
        "row": f"{at:03d}",
        "name": name,
        "after": _quantity_value(quantity),
        "color": LIGHT[role[0]],
        "fill": LIGHT[role[0] if line.claims_change and at > 0 else "paper"],
        "shape": role[1],
    }


def _model_panel(rows: Sequence[Spec], names: Sequence[str], width: int, *, named: bool) -> Spec:
    places = [f"{i:03d}" for i in range(len(names))]
    labels = {
        "labelExpr": f"{list(names)}[+datum.value]",
        "labelColor": LIGHT["ink"],
        "title": None,
        "labelLimit": 200,
        "offset": 8,
    }
    y = {"field": "row", "type": "nominal", "scale": {"domain": places}, "axis": labels if named else None}
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    room = 0.08 * (high - low) or 0.01
    low = 0.0 if low < 0.35 * high else low - room

    def x(field: str) -> Spec:
        scale = {"domain": [low, min(1.0, high + room)], "nice": False, "zero": False}
        axis = {"format": "~%", "tickCount": 4, "title": None, "labelSeparation": 8}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    color = literal_color("color")
    layers = [
        mark_layer(rows[:1], {"type": "rule", "strokeDash": [4, 3], "color": LIGHT["muted"]}, x=x("after")),
        mark_layer(
            rows,
            {"type": "rule", "strokeWidth": 2, "strokeCap": "round"},
            y=y,
            x=x("low"),
            x2={"field": "high"},
            color=color,
        ),
        _draw_mark(rows, x("after")),
    ]
    layers[2]["encoding"]["y"] = y
    return {"layer": layers, "width": width, "height": {"step": ROW}}


# Alternatives: accuracy beside the gap.

FRONTIER_WIDTH, HEIGHT = 690, 360
SCALE = 70
"""Pixels for the numbers and the title of the upright axis."""


def draw_alternatives(result: AlternativesResult, *, width: int = FRONTIER_WIDTH) -> Spec:
    """Draw accuracy against the gap of all candidates on the test set; a square: the original model.

    Filled, with its number and the intervals of its changes: on the frontier of the validation people, or chosen. Other
    candidates are left out where they are further off than those and the original model.
    """
    given = result.candidates[0].test
    rows = []
    for one in sorted(result.candidates[1:], key=lambda one: one.number == result.chosen):
        compared = one.gap_change is not None
        name = f"{one.number}, chosen" if one.number == result.chosen else str(one.number)
        row: Spec = {"name": name if compared else "", "on": compared}
        for name, change in (("accuracy", one.accuracy_change), ("gap", one.gap_change)):
            own, value = getattr(given, name), getattr(one.test, name)
            ends = (value, value) if change is None else (max(0.0, own + change.low), min(1.0, own + change.high))
            row |= {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
        rows.append(row)
    on = [row for row in rows if row["on"]]
    lowest = min([given.accuracy, *(row["accuracy_low"] for row in on)])
    widest = max([given.gap, *(row["gap_high"] for row in on)])
    rows = [row for row in rows if row["on"] or (row["accuracy"] >= lowest and row["gap"] <= widest)]
    square = {"name": "original model", "on": False} | {
        f"{name}{end}": getattr(given, name) for name in ("accuracy", "gap") for end in ("", "_low", "_high")
    }
    said = "; ".join(
        f"{row['name']}: accuracy {row['accuracy']:.1%}, gap {row['gap']:.1%}".replace("%", " %")
        for row in (square, *rows)
        if row["name"]
    )
    about = f"Accuracy against the gap on the test set. {said}."
    return _draw_trade(rows, [square], "gap on the test set (fairer to the left)", about, width)


def _draw_trade(rows: list[Spec], given: list[Spec], title: str, about: str, width: int) -> Spec:
    """Draw accuracy against a gap, points with their intervals, those on the frontier joined by a line."""
    both = [*rows, *given]
    x = spread(
        0.0,
        max((row["gap_high"] for row in both), default=0.0) or 0.01,
        percentages,
        about=max(3, width // 90),
        whole=True,
    )
    low, high = (
        end([row[name] for row in both], default=0.5) for end, name in ((min, "accuracy_low"), (max, "accuracy_high"))
    )
    y = spread(low, high if high > low else low + 0.01, percentages, about=6)
    across, up = (
        {
            "field": field,
            "type": "quantitative",
            "scale": {"domain": [axis.low, axis.high], "nice": False},
            "axis": {"title": title, "values": [value for value, _ in axis.ticks], "format": "~%", "offset": 5},
        }
        for field, axis, title in (
            ("gap", x, title),
            ("accuracy", y, "accuracy"),
        )
    )
    on = sorted((row for row in rows if row["on"]), key=lambda row: (row["gap"], row["accuracy"]))
    names = place_names([row for row in both if row["name"]], x, y, width - SCALE)
    layers = [
        mark_layer(
            both,
            {"type": "rule", "color": LIGHT["open"]},
            x={**across, "field": "gap_low"},
            x2={"field": "gap_high"},
            y=up,
        ),
        mark_layer(
            both,
            {"type": "rule", "color": LIGHT["open"]},
            x=across,
            y={**up, "field": "accuracy_low"},
            y2={"field": "accuracy_high"},
        ),
        mark_layer(
            on, {"type": "line", "color": LIGHT["same"], "strokeWidth": 1.5}, x=across, y=up, order={"field": "gap"}
        ),
        mark_layer(
            [row for row in rows if not row["on"]],
            {
                "type": "point",
                "filled": True,
                "size": 70,
                "opacity": 1,
                "fill": LIGHT["paper"],
                "stroke": LIGHT["faint"],
                "strokeWidth": 1.5,
            },
            x=across,
            y=up,
        ),
        mark_layer(
            on, {"type": "point", "filled": True, "size": 80, "opacity": 1, "color": LIGHT["same"]}, x=across, y=up
        ),
        mark_layer(
            given,
            {"type": "point", "shape": "square", "filled": True, "size": 80, "opacity": 1, "color": LIGHT["different"]},
            x=across,
            y=up,
        ),
        *(
            mark_layer(
                own,
                {"type": "text", "align": align, "dx": dx, "dy": dy, "color": LIGHT["ink"]},
                x=across,
                y=up,
                text={"field": "name", "type": "nominal"},
            )
            for (align, dx, dy), own in names.items()
        ),
    ]
    return finish_chart({"layer": layers, "width": width - SCALE, "height": HEIGHT}, about)


SIDES = (("left", 8, -8), ("right", -8, -8), ("left", 8, 12), ("right", -8, 12))
"""Where a name may stand beside its point, the best place first: its alignment, and how far right and down it moves."""


def place_names(rows: Sequence[Spec], x: Axis, y: Axis, width: int) -> dict[tuple[str, int, int], list[Spec]]:
    """Return the points by the place of their names, so that no two names overlap. Some names, the original model last,
    are left out.

    The names of points that are left out stand in the table.
    """
    placed: dict[tuple[str, int, int], list[Spec]] = {side: [] for side in SIDES}
    taken: list[tuple[float, float, float]] = []
    for row in reversed(rows):
        room = text_width(row["name"]) + 4
        for align, dx, dy in SIDES:
            left = width * x.at(row["gap"]) / 100 + dx - (room if align == "right" else 0)
            line = HEIGHT * (1 - y.at(row["accuracy"]) / 100) + dy
            free = all(abs(line - other) > 14 or left >= end or left + room <= start for start, end, other in taken)
            if free and left >= 0 and left + room <= width:
                placed[align, dx, dy].append(row)
                taken.append((left, left + room, line))
                break
    return {side: own for side, own in placed.items() if own}
