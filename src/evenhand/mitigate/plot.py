"""Mitigations as pictures: before and after of every number, candidates beside each other, what was tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.charts import LIGHT, Spec
from evenhand.mitigate.result import CandidateResult, Line, MitigationResult, Verdict
from evenhand.stats import Observed, Quantity, Unknown

if TYPE_CHECKING:
    import altair as alt

WIDE = 880
"""Pixels from which names and changes stand beside the dots; below, names stand above them."""

NAMES, VERDICTS, APART = 350, 92, 22
"""Pixels for names, for verdicts, and between panels."""

ROW, TALL_ROW = 25, 44
"""Height of a row, and of one that has its name above."""

PARTS = {
    "performance": "Performance",
    "asked": "What was to be mended",
    "groups": "Gaps between groups",
    "individuals": "Decisions that flip",
    "subgroups": "Other subgroups",
    "proof": "Proved",
}
"""Parts of a comparison, with their titles."""

ROLES: dict[Verdict, tuple[str, str]] = {
    "better": ("same", "circle"),
    "worse": ("different", "triangle-up"),
}
"""Verdict -> colour and shape; all others are grey and hollow."""

Y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}


def plot(result: MitigationResult) -> alt.TopLevelMixin:
    """Before and after under every candidate."""
    parts = [draw_candidate(candidate) for candidate in result.candidates]
    return charts.altair(charts.stack(parts, " ".join(part["description"] for part in parts)))


def draw_candidate(candidate: CandidateResult, *, width: int = WIDE) -> Spec:
    """One row per number: before (a grey bar) and after (a mark), and the change with its adjusted interval.

    Filled blue circle: better. Filled orange triangle: worse. Hollow and grey: not told from chance, or not decided.
    """
    parts = []
    for part, title in PARTS.items():
        lines = [line for line in candidate.lines if line.part == part and _drawn(line)]
        if lines:
            parts.append(_part(lines, title, width))
    said = "; ".join(
        f"{line.words} {_value(line.before):.3f} to {_value(line.after):.3f}, {line.verdict}"
        for line in candidate.lines
        if _drawn(line)
    )
    name = f"{candidate.method}, {candidate.words}"
    return charts.finished({"vconcat": parts, "spacing": 18}, f"Before and after: {name}. {said}.")


def draw_candidates(result: MitigationResult, *, width: int = WIDE) -> Spec:
    """One row per model, one panel per number: accuracy and every harm that was to be mended, with their intervals."""
    first = result.candidates[0]
    lines = [line for line in first.lines if line.name == "accuracy" or line.part == "asked"]
    lines = [line for line in lines if _drawn(line)]
    names = ["given model", *(candidate.method for candidate in result.candidates)]
    beside = width >= WIDE
    taken = 8 * max(len(name) for name in names)
    each = (width - taken - 20) // len(lines) - 24 if beside and len(lines) <= 4 else width - taken - 34
    panels = []
    for i, line in enumerate(lines):
        rows = [_model_row(0, names[0], line.before, line, ("muted", "square"))]
        for at, candidate in enumerate(result.candidates, 1):
            own = candidate.line(line.name, line.of)
            if own is not None and _drawn(own):
                rows.append(_model_row(at, names[at], own.after, own, _role(own.verdict)))
        panels.append(_models(rows, names, line, each, named=i == 0 or not beside or len(lines) > 4))
    together: Spec = {"hconcat": panels} if beside and len(lines) <= 4 else {"vconcat": panels}
    said = "; ".join(
        f"{name}: " + ", ".join(f"{line.words} {_value(line.after):.3f}" for line in lines_of(candidate, lines))
        for name, candidate in zip(names[1:], result.candidates, strict=True)
    )
    return charts.finished(together | {"spacing": 24}, f"Candidates beside each other. {said}.")


def draw_trials(candidate: CandidateResult, harms: Sequence[str], *, width: int = WIDE) -> Spec:
    """What was tried, in order: accuracy and harms among the validation people; filled: what was chosen."""
    trials = candidate.trials
    setting = trials[0].setting
    labels = [f"{trial.value:.6g}" for trial in trials]
    beside = width >= WIDE
    each = (width - 150) // 2 if beside else width - 54
    series = [("accuracy", [trial.accuracy for trial in trials])]
    measured = [(words, [trial.harms[i] for trial in trials]) for i, words in enumerate(harms)]
    panels = [_tried("accuracy", series, trials_chosen(candidate), labels, setting, each)]
    if measured:
        panels.append(_tried("what was to be mended", measured, trials_chosen(candidate), labels, setting, each))
    together: Spec = {"hconcat": panels} if beside else {"vconcat": panels}
    chosen = ", ".join(label for label, trial in zip(labels, trials, strict=True) if trial.chosen)
    independent = {"resolve": {"scale": {"color": "independent", "strokeDash": "independent", "shape": "independent"}}}
    return charts.finished(
        together | independent | {"spacing": 40},
        f"Tried on the validation people: {setting} {', '.join(labels)}; chosen: {chosen or 'none'}.",
    )


def lines_of(candidate: CandidateResult, lines: Sequence[Line]) -> list[Line]:
    """The candidate's lines about the same numbers, those that it has."""
    found = [candidate.line(line.name, line.of) for line in lines]
    return [line for line in found if line is not None and _drawn(line)]


def trials_chosen(candidate: CandidateResult) -> list[bool]:
    """Which of the trials became the candidate."""
    return [trial.chosen for trial in candidate.trials]


def _drawn(line: Line) -> bool:
    """Whether a line has both numbers; what is undecided is the rest of what is drawn."""
    return line.name != "undecided" and not isinstance(line.before, Unknown) and not isinstance(line.after, Unknown)


def _value(quantity: Quantity) -> float:
    return 0.0 if isinstance(quantity, Unknown) else quantity.value


def _role(verdict: Verdict) -> tuple[str, str]:
    return ROLES.get(verdict, ("muted", "circle"))


def _row(i: int, line: Line) -> Spec:
    role, shape = _role(line.verdict)
    row: Spec = {
        "row": f"{i:03d}",
        "words": line.words,
        "verdict": line.verdict,
        "both": f"{line.verdict}: {line.words}",
        "before": _value(line.before),
        "after": _value(line.after),
        "color": LIGHT[role],
        "fill": LIGHT[role if line.claims else "paper"],
        "shape": shape,
    }
    if line.change is not None:
        row |= {"change": line.change.value, "low": line.change.low, "high": line.change.high}
    return row


def _part(lines: Sequence[Line], title: str, width: int) -> Spec:
    rows = [_row(i, line) for i, line in enumerate(lines)]
    beside = width >= WIDE
    each = (width - NAMES - VERDICTS - 3 * APART) // 2 if beside else width - 24
    # Gaps between groups are written as decimals, as everywhere; all other numbers are shares of people.
    scale = 1 if lines[0].part == "groups" else 100
    dots = _dots(rows, each, scale, beside=beside)
    heading = {"text": title, "anchor": "start"}
    if not beside:
        return dots | {"title": heading}
    panels = [_texts(rows, "words", NAMES) | {"title": heading}, dots]
    panels.append(_changes(rows, each, scale) if any("change" in row for row in rows) else _empty(rows, each))
    return {"hconcat": [*panels, _texts(rows, "verdict", VERDICTS)], "spacing": APART, "bounds": "flush"}


def _texts(rows: Sequence[Spec], field: str, width: int) -> Spec:
    text = charts.marks(
        rows,
        {"type": "text", "align": "left", "limit": width, "color": LIGHT["ink"]},
        y=Y,
        x={"value": 0},
        text={"field": field, "type": "nominal"},
    )
    return text | {"width": width, "height": {"step": ROW}}


def _empty(rows: Sequence[Spec], width: int) -> Spec:
    return charts.marks(rows, {"type": "point", "opacity": 0}, y=Y) | {"width": width, "height": {"step": ROW}}


def _dots(rows: Sequence[Spec], width: int, scale: int, *, beside: bool) -> Spec:
    """Before as a short bar, after as a mark, a line between them; the axis spans what there is."""
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

    color = charts.painted("color")
    layers = [
        charts.marks(rows, {"type": "rule", "strokeWidth": 2}, y=Y, x=x("before"), x2={"field": "after"}, color=color),
        charts.marks(
            rows,
            {"type": "tick", "thickness": 3, "size": 13, "color": LIGHT["faint"], "opacity": 1},
            y=Y,
            x=x("before"),
        ),
        _mark(rows, x("after")),
    ]
    if not beside:
        mark = {"type": "text", "align": "left", "dy": -15, "limit": width, "color": LIGHT["ink"]}
        layers.append(charts.marks(rows, mark, y=Y, x={"value": 0}, text={"field": "both", "type": "nominal"}))
    return {"layer": layers, "width": width, "height": {"step": ROW if beside else TALL_ROW}}


def _changes(rows: Sequence[Spec], width: int, scale: int) -> Spec:
    """The change with its adjusted interval, around no change. Very wide intervals are cut at the edge."""
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

    color = charts.painted("color")
    layers = [
        charts.marks([{"row": row["row"]} for row in rows], {"type": "point", "opacity": 0}, y=Y),
        charts.marks([{"at": 0}], {"type": "rule", "color": LIGHT["muted"]}, x=x("at")),
        charts.marks(
            cut,
            {"type": "rule", "strokeWidth": 2, "strokeCap": "round"},
            y=Y,
            x=x("low"),
            x2={"field": "high"},
            color=color,
        ),
        _mark(cut, x("change")),
    ]
    return {"layer": layers, "width": width, "height": {"step": ROW}}


def _mark(rows: Sequence[Spec], x: Spec) -> Spec:
    return charts.marks(
        rows,
        {"type": "point", "size": 62, "opacity": 1, "strokeWidth": 1.8},
        y=Y,
        x=x,
        stroke=charts.painted("color"),
        fill=charts.painted("fill"),
        shape=charts.painted("shape"),
    )


def _model_row(at: int, name: str, quantity: Quantity, line: Line, role: tuple[str, str]) -> Spec:
    ends = {"low": _value(quantity), "high": _value(quantity)}
    if isinstance(quantity, Observed):
        ends = {"low": quantity.low, "high": quantity.high}
    return ends | {
        "row": f"{at:03d}",
        "name": name,
        "after": _value(quantity),
        "color": LIGHT[role[0]],
        "fill": LIGHT[role[0] if line.claims and at > 0 else "paper"],
        "shape": role[1],
    }


def _models(rows: Sequence[Spec], names: Sequence[str], line: Line, width: int, *, named: bool) -> Spec:
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

    color = charts.painted("color")
    layers = [
        charts.marks(rows[:1], {"type": "rule", "strokeDash": [4, 3], "color": LIGHT["muted"]}, x=x("after")),
        charts.marks(
            rows,
            {"type": "rule", "strokeWidth": 2, "strokeCap": "round"},
            y=y,
            x=x("low"),
            x2={"field": "high"},
            color=color,
        ),
        _mark(rows, x("after")),
    ]
    layers[2]["encoding"]["y"] = y
    title = {"text": line.words, "limit": max(width, 120), "fontWeight": "normal", "fontSize": 12}
    return {"layer": layers, "width": width, "height": {"step": ROW}, "title": title}


def _tried(
    title: str,
    series: Sequence[tuple[str, Sequence[float]]],
    chosen: Sequence[bool],
    labels: Sequence[str],
    setting: str,
    width: int,
) -> Spec:
    rows = [
        {"series": name, "step": i, "value": value, "fill": LIGHT[role if chosen[i] else "paper"], "color": LIGHT[role]}
        for (name, values), role in zip(series, charts.SERIES * 3, strict=False)
        for i, value in enumerate(values)
    ]
    names = [name for name, _ in series]
    measured = [value for _, values in series for value in values]
    low, high = min(measured), max(measured)
    room = 0.1 * (high - low) or 0.01
    # Marks at 0 stay clear of the names below them.
    low = -0.6 * room if low < 0.35 * high else low - room
    axis: Spec = {"title": setting, "labelExpr": f"{list(labels)}[datum.value]", "grid": False, "labelAngle": 0}
    x = {"field": "step", "type": "ordinal", "axis": axis, "scale": {"type": "point", "padding": 0.4}}
    y = {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": [low, high + room], "zero": False, "nice": False},
        "axis": {"format": "~%", "tickCount": 4, "title": None},
    }
    several = len(series) > 1
    legend: Spec | None = (
        {"orient": "bottom", "columns": 1, "labelLimit": width, "symbolSize": 400, "symbolType": "stroke"}
        if several
        else None
    )
    colors = [LIGHT[role] for _, role in zip(series, charts.SERIES * 3, strict=False)]
    dashes = [list(charts.DASHES[i % len(charts.DASHES)]) for i in range(len(names))]
    by: Spec = {"field": "series", "type": "nominal", "legend": legend}
    color, dash = (by | {"scale": {"domain": names, "range": one}} for one in (colors, dashes))
    layers = [
        charts.marks(rows, {"type": "line", "strokeWidth": 1.8}, x=x, y=y, color=color, strokeDash=dash),
        charts.marks(
            rows,
            {"type": "point", "size": 55, "opacity": 1, "strokeWidth": 1.8},
            x=x,
            y=y,
            stroke=charts.painted("color"),
            fill=charts.painted("fill"),
        ),
    ]
    return {"layer": layers, "width": width, "height": 170, "title": title}
