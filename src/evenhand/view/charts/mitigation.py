"""Charts of mitigations: each number before and after, candidates side by side, and accuracy against the gap."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.mitigation.alternatives.result import AlternativesResult
from evenhand.mitigation.result import PART_TITLES, CandidateResult, ChangeVerdict, ComparisonLine, MitigationResult
from evenhand.stats.quantity import Quantity, Unknown
from evenhand.view.drawing.axis import Axis, differences, percentages, spread
from evenhand.view.drawing.fonts import text_width
from evenhand.view.drawing.rows import (
    Block,
    Dot,
    Line,
    Mark,
    Panel,
    Row,
    RowChart,
    Shape,
    Span,
    Tick,
    dot_for,
    join_rows,
)
from evenhand.view.drawing.theme import LIGHT, Spec, along, finish_chart, mark_layer

NAMES = 300
"""Maximum width of names in pixels."""

ROLES: dict[ChangeVerdict, tuple[str, Shape]] = {"better": ("same", "circle"), "worse": ("different", "diamond")}
"""Verdict -> colour and shape. All others are grey and hollow."""


def plot_mitigation(result: MitigationResult) -> RowChart:
    """Plot the numbers before and after each candidate."""
    return join_rows(draw_candidate(candidate) for candidate in result.candidates)


def draw_candidate(candidate: CandidateResult) -> RowChart:
    """Draw one row per number: before (a tick) and after (a dot), and the change with its adjusted interval."""
    visible = [line for line in candidate.lines if _is_drawn(line)]
    blocks = tuple(
        _part_block(lines, title)
        for part, title in PART_TITLES.items()
        if (lines := [line for line in visible if line.part == part])
    )
    texts = "; ".join(
        f"{line.words} {_quantity_value(line.before):.3f} to {_quantity_value(line.after):.3f}, {line.verdict}"
        for line in visible
    )
    return RowChart(f"Before and after: {candidate.method}, {candidate.words}. {texts}.", blocks)


def draw_candidates(result: MitigationResult) -> RowChart:
    """Draw accuracy and each metric to reduce: one row per model, with its interval."""
    lines = [line for line in result.candidates[0].lines if line.name == "accuracy" or line.part == "asked"]
    lines = [line for line in lines if _is_drawn(line)]
    blocks = []
    for line in lines:
        rows = [Row("original model", ((dot_for(line.before, "muted", filled=False),),))]
        for candidate in result.candidates:
            own = candidate.line(line.name, line.of)
            dots = () if own is None or not _is_drawn(own) else (_verdict_dot(own),)
            rows.append(Row(candidate.method, (dots,)))
        ends = [end for row in rows for dot in row.marks[0] if isinstance(dot, Dot) for end in (dot.low, dot.high)]
        panel = Panel(_share_axis(ends), lines=(Line(_quantity_value(line.before)),))
        blocks.append(Block(tuple(rows), (panel,), line.words, names=200, place="left"))
    texts = "; ".join(
        f"{candidate.method}: "
        + ", ".join(f"{line.words} {_quantity_value(line.after):.3f}" for line in matching_lines(candidate, lines))
        for candidate in result.candidates
    )
    return RowChart(f"Candidates side by side. {texts}.", tuple(blocks))


def matching_lines(candidate: CandidateResult, lines: Sequence[ComparisonLine]) -> list[ComparisonLine]:
    """Return the candidate's lines for the same numbers, if it has them."""
    matches = [candidate.line(line.name, line.of) for line in lines]
    return [line for line in matches if line is not None and _is_drawn(line)]


def _is_drawn(line: ComparisonLine) -> bool:
    """Check that a line has both numbers. The undecided share is the remainder of the other shares."""
    return line.name != "undecided" and not isinstance(line.before, Unknown) and not isinstance(line.after, Unknown)


def _quantity_value(quantity: Quantity) -> float:
    return 0.0 if isinstance(quantity, Unknown) else quantity.value


def _part_block(lines: Sequence[ComparisonLine], title: str) -> Block:
    values = [_quantity_value(number) for line in lines for number in (line.before, line.after)]
    # Gaps between groups are decimals, all other numbers are shares of people.
    scale = 1 if lines[0].part == "groups" else 100
    changes = [line.change for line in lines if line.change is not None]
    widths = sorted(max(abs(change.low), abs(change.high)) for change in changes)
    panels = [Panel(_share_axis(values) if scale == 100 else _gap_axis(values), "before and after")]
    if changes:
        # A few very wide intervals are cut off.
        reach = max(1.25 * max(abs(change.value) for change in changes), 1.5 * widths[len(widths) // 3], 0.005)
        reach = scale * (min(reach, 1.05 * widths[-1]) or reach)
        panels.append(Panel(spread(-reach, reach, differences, about=3), "change", (Line(0.0, dashed=False),)))
    rows = tuple(_line_row(line, scale, len(panels)) for line in lines)
    return Block(rows, tuple(panels), title, ("verdict",), names=NAMES)


def _line_row(line: ComparisonLine, scale: int, panels: int) -> Row:
    before, after = _quantity_value(line.before), _quantity_value(line.after)
    role, shape = ROLES.get(line.verdict, ("muted", "circle"))
    marks: list[tuple[Mark, ...]] = [
        (
            Span(min(before, after), max(before, after), role),
            Tick(before),
            Dot(after, after, after, role, shape, filled=line.claims_change),
        ),
        (),
    ]
    if line.change is not None:
        value, low, high = (scale * number for number in (line.change.value, line.change.low, line.change.high))
        marks[1] = (Dot(value, low, high, role, shape, filled=line.claims_change),)
    return Row(line.words, tuple(marks[:panels]), (line.verdict,), line.verdict)


def _verdict_dot(line: ComparisonLine) -> Dot:
    role, shape = ROLES.get(line.verdict, ("muted", "circle"))
    return dot_for(line.after, role, shape, filled=line.claims_change)


def _gap_axis(values: Sequence[float]) -> Axis:
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.02
    return spread(low - room if low < 0 else 0.0, high + room, lambda ends: [f"{end:g}" for end in ends], about=3)


def _share_axis(values: Sequence[float]) -> Axis:
    """Build an axis of shares. It starts at 0 if the values are near it."""
    low, high = min(values), max(values)
    room = 0.1 * (high - low) or 0.02
    return spread(0.0 if low < 0.35 * high else max(0.0, low - room), min(1.0, high + room), percentages, about=3)


# Alternatives: accuracy against the gap.

FRONTIER_WIDTH, HEIGHT = 690, 360
SCALE = 70
"""Width of the numbers and the title of the vertical axis, in pixels."""


def draw_alternatives(result: AlternativesResult, *, width: int = FRONTIER_WIDTH) -> Spec:
    """Draw accuracy against the gap of all candidates on the test set; a square: the original model.

    Candidates that are chosen, or on the frontier of the validation people, are filled, and have their number and the
    intervals of their changes. Other candidates are left out if they are farther away than those and the original.
    """
    original = result.candidates[0].test
    rows = []
    for candidate in sorted(result.candidates[1:], key=lambda candidate: candidate.number == result.chosen):
        compared = candidate.gap_change is not None
        name = f"{candidate.number}, chosen" if candidate.number == result.chosen else str(candidate.number)
        row: Spec = {"name": name if compared else "", "on": compared}
        for name, change in (("accuracy", candidate.accuracy_change), ("gap", candidate.gap_change)):
            own, value = getattr(original, name), getattr(candidate.test, name)
            ends = (value, value) if change is None else (max(0.0, own + change.low), min(1.0, own + change.high))
            row |= {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
        rows.append(row)
    on = [row for row in rows if row["on"]]
    lowest = min([original.accuracy, *(row["accuracy_low"] for row in on)])
    widest = max([original.gap, *(row["gap_high"] for row in on)])
    rows = [row for row in rows if row["on"] or (row["accuracy"] >= lowest and row["gap"] <= widest)]
    square = {"name": "original model", "on": False} | {
        f"{name}{end}": getattr(original, name) for name in ("accuracy", "gap") for end in ("", "_low", "_high")
    }
    summary = "; ".join(
        f"{row['name']}: accuracy {row['accuracy']:.1%}, gap {row['gap']:.1%}".replace("%", " %")
        for row in (square, *rows)
        if row["name"]
    )
    about = f"Accuracy against the gap on the test set. {summary}."
    return _draw_trade(rows, [square], "gap on the test set (fairer to the left)", about, width)


def _draw_trade(rows: list[Spec], original: list[Spec], title: str, about: str, width: int) -> Spec:
    """Draw accuracy against a gap, points with their intervals, those on the frontier joined by a line."""
    both = [*rows, *original]
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
        along(field, (axis.low, axis.high), title=name, values=[at for at, _ in axis.ticks], format="~%", offset=5)
        for field, axis, name in (("gap", x, title), ("accuracy", y, "accuracy"))
    )
    on = sorted((row for row in rows if row["on"]), key=lambda row: (row["gap"], row["accuracy"]))
    names = place_names([row for row in both if row["name"]], x, y, width - SCALE)
    layers = [
        mark_layer(
            both,
            {"type": "rule", "color": LIGHT["open"]},
            x={**across, "field": "gap_low"},
            x2="gap_high",
            y=up,
        ),
        mark_layer(
            both,
            {"type": "rule", "color": LIGHT["open"]},
            x=across,
            y={**up, "field": "accuracy_low"},
            y2="accuracy_high",
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
            original,
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
                text="name",
            )
            for (align, dx, dy), own in names.items()
        ),
    ]
    return finish_chart({"layer": layers, "width": width - SCALE, "height": HEIGHT}, about)


SIDES = (("left", 8, -8), ("right", -8, -8), ("left", 8, 12), ("right", -8, 12))
"""Positions of a name next to its point, best first: alignment, and shift to the right and down."""


def place_names(rows: Sequence[Spec], x: Axis, y: Axis, width: int) -> dict[tuple[str, int, int], list[Spec]]:
    """Return the points by the position of their names, so that no two names overlap.

    Some names are left out, that of the original model last. They are still in the table.
    """
    placed: dict[tuple[str, int, int], list[Spec]] = {side: [] for side in SIDES}
    occupied: list[tuple[float, float, float]] = []
    for row in reversed(rows):
        room = text_width(row["name"]) + 4
        for align, dx, dy in SIDES:
            left = width * x.at(row["gap"]) / 100 + dx - (room if align == "right" else 0)
            line = HEIGHT * (1 - y.at(row["accuracy"]) / 100) + dy
            free = all(abs(line - other) > 14 or left >= end or left + room <= start for start, end, other in occupied)
            if free and left >= 0 and left + room <= width:
                placed[align, dx, dy].append(row)
                occupied.append((left, left + room, line))
                break
    return {side: own for side, own in placed.items() if own}
