"""Recorded sequences as pictures: when each value appeared and when it was due, and how coverage grew."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from evenhand.core.text import format_count, format_percent
from evenhand.genai.assessment.prompts import PromptBias
from evenhand.genai.assessment.result import GenaiAssessment, GroupFinding, ValueFinding, format_coverage
from evenhand.stats.quantity import Observed
from evenhand.view.drawing.axis import percentages, spread
from evenhand.view.drawing.rows import Bar, Block, Panel, Row, RowChart
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

LANE_HEIGHT = 46
"""Height of a lane, including its name."""

MAX_LANES = 24
"""Maximum number of values drawn."""

MAX_ITEMS = 400
"""Maximum number of items in a timeline, which ends with the last item. More ticks would overlap."""

MAX_LINES = len(SERIES)
"""Maximum number of sequences whose coverage is drawn."""


def plot_assessment(result: GenaiAssessment) -> Spec:
    """The timeline of every group of the first sequence, the coverage of all sequences, and what every prompt shows."""
    parts: list[Spec | RowChart] = [draw_timeline(group) for group in result.sequences[0].groups]
    if result.sequences[0].coverage is not None:
        parts.append(draw_coverage(result))
    if result.prompts is not None:
        groups = dict.fromkeys(finding.group for finding in result.prompts.findings if finding.items)
        parts += [draw_prompts(result.prompts, group) for group in groups]
    return stack_charts(parts)


def _overdue_times(value: ValueFinding, length: int) -> Iterator[tuple[int, int]]:
    """Yield the periods in which a value was overdue, from the missed deadline to its next appearance."""
    ended = 0
    for deadline in value.missed:
        if deadline >= ended:
            ended = min((item for item in value.appearances if item > deadline), default=length)
            yield deadline, ended


def draw_timeline(group: GroupFinding, *, width: int = WIDE) -> Spec:
    """Return one lane per value. Ticks: items that show it. Grey: its longest wait. Orange with a cross: overdue."""
    length = len(group.items)
    start = max(0, length - MAX_ITEMS)
    values = group.values[:MAX_LANES]
    rows = [
        {"row": f"{k:04d}", "words": _describe_value(value, width), "end": length + 1} for k, value in enumerate(values)
    ]
    ticks = [
        {"row": f"{k:04d}", "item": item}
        for k, value in enumerate(values)
        for item in value.appearances
        if item > start
    ]
    waits: list[Spec] = [{"row": f"{k:04d}"} | _longest_gap(value, length) for k, value in enumerate(values)]
    waits = [wait | {"from": max(start, wait["from"])} for wait in waits if wait["to"] > start]
    crosses = [
        {"row": f"{k:04d}", "from": due} for k, value in enumerate(values) for due in value.missed if due > start
    ]
    overdue = [
        {"row": f"{k:04d}", "from": max(start, due), "to": end}
        for k, value in enumerate(values)
        for due, end in _overdue_times(value, length)
        if end > start
    ]
    y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}
    title = "recognised items, in the order of the requests"
    x = partial(along, domain=(start, length + 1), title=title, tickCount=8, grid=False, offset=4)
    layers = [
        mark_layer(
            [row | {"start": start} for row in rows],
            {"type": "rule", "color": LIGHT["grid"], "yOffset": 8},
            y=y,
            x=x("start"),
            x2="end",
        ),
        *(
            mark_layer(
                spans,
                {"type": "rule", "color": LIGHT[color], "strokeWidth": stroke, "yOffset": 8},
                y=y,
                x=x("from"),
                x2="to",
            )
            for spans, color, stroke in ((waits, "open", 7), (overdue, "different", 3))
        ),
        mark_layer(
            ticks,
            {"type": "tick", "orient": "vertical", "size": 16, "thickness": 2, "color": LIGHT["same"], "yOffset": 8},
            y=y,
            x=x("item"),
        ),
        mark_layer(
            crosses,
            {
                "type": "point",
                "shape": "M-1,-1L1,1M1,-1L-1,1",
                "size": 26,
                "stroke": LIGHT["different"],
                "strokeWidth": 2.2,
                "opacity": 1,
                "yOffset": 8,
            },
            y=y,
            x=x("from"),
        ),
        mark_layer(
            rows,
            {"type": "text", "align": "left", "baseline": "bottom", "dy": -5},
            y=y,
            x={"value": 0},
            text="words",
        ),
    ]
    more = f"; {len(group.values) - MAX_LANES:,} more values" if len(group.values) > MAX_LANES else ""
    last = f", the last {MAX_ITEMS:,} items" if start else ""
    heading = {"text": f"{group.name}: when each value appeared{last}{more}"}
    summary = "; ".join(
        f"{value.value} in {len(value.appearances):,} of {length:,} items, {_format_longest_wait(value)}"
        + (f", overdue at {', '.join(map(str, value.missed[:12]))}" if value.missed else "")
        for value in values
    )
    spec = {"layer": layers, "width": width - 24, "height": {"step": LANE_HEIGHT}, "title": heading}
    return finish_chart(spec, f"When each value of {group.name} appeared. {summary}{more}.")


def draw_coverage(result: GenaiAssessment, *, width: int = WIDE) -> Spec:
    """Return the share of combinations seen, item by item, one line per sequence."""
    every = [(sequence.name, sequence.coverage) for sequence in result.sequences if sequence.coverage is not None]
    sequences = every[:MAX_LINES]
    longest = max(len(coverage.curve) for _, coverage in sequences)
    rows = [
        {"name": name, "item": number, "share": share}
        for name, coverage in sequences
        for number, share in _curve_steps(coverage.curve)
    ]
    names = [name for name, _ in sequences]
    line = mark_layer(
        rows,
        {"type": "line", "strokeWidth": 2.2, "interpolate": "step-after"},
        x=along("item", (0, longest), title="items", grid=False, tickCount=8, offset=4),
        y=along("share", (0, 1), title=None, format=".0%", tickCount=5),
        **line_style(names, width),
    )
    ways = sequences[0][1].ways
    more = f", the first {MAX_LINES} sequences" if len(every) > MAX_LINES else ""
    of = "pairs" if ways == 2 else f"combinations of {ways}"
    title = {"text": f"Share of all {of} of values that have appeared{more}"}
    summary = "; ".join(f"{name}: {format_coverage(coverage)}" for name, coverage in sequences)
    spec = {"layer": [line], "width": width - 62, "height": 220, "title": title}
    return finish_chart(spec, f"{title['text']}, item by item. At the end: {summary}.")


def _curve_steps(curve: tuple[float, ...]) -> list[tuple[int, float]]:
    """Return the item numbers at which a curve rises and at its end, each with its share."""
    rises = [(i, after) for i, (before, after) in enumerate(pairwise((0.0, *curve)), start=1) if after > before]
    return list(dict([(0, 0.0), *rises, (len(curve), curve[-1])]).items())


def _longest_gap(value: ValueFinding, length: int) -> Spec:
    """Compute the start and end of the longest gap of a value."""
    stops = [0, *value.appearances, length + 1]
    before, after = max(pairwise(stops), key=lambda pair: pair[1] - pair[0])
    return {"from": before, "to": after}


def _format_longest_wait(value: ValueFinding) -> str:
    if value.smallest_beta is not None:
        return f"longest wait: {format_count(value.smallest_beta, 'item', 'items')}"
    return "never" if not value.appearances else "too few items for any beta"


def _describe_value(value: ValueFinding, width: int) -> str:
    share = format_percent(value.frequency.value) if isinstance(value.frequency, Observed) else "unknown"
    room = 44 if width < WIDE else 90
    name = value.value if len(value.value) <= room // 2 else value.value[: room // 2 - 1] + "\N{HORIZONTAL ELLIPSIS}"
    missed = f", {len(value.missed):,} missed" if value.missed else ""
    return f"{name}: {_format_longest_wait(value)}{missed}, {share}"


MAX_PROMPTS = 30
"""Maximum number of prompts in a figure."""

VALUE_COLOURS = ("same", "different", "third", "fourth", "faint")
"""Roles of values, in order. The last role is for all remaining values."""


def draw_prompts(bias: PromptBias, group: str) -> RowChart:
    """Draw a bar per prompt: the shares of the values of a group among its recognised items."""
    findings = [finding for finding in bias.findings if finding.group == group and finding.items]
    drawn_findings = findings[:MAX_PROMPTS]
    names = list(drawn_findings[0].shown) if drawn_findings else []
    values = names if len(names) <= len(VALUE_COLOURS) else [*names[: len(VALUE_COLOURS) - 1], "other values"]
    rows = []
    for finding in drawn_findings:
        bars, left = [], 0.0
        for value, role in zip(values, VALUE_COLOURS, strict=False):
            right = left + (finding.shown[value] / finding.items if value in finding.shown else 1.0 - left)
            bars.append(Bar(left, right, role))
            left = right
        rows.append(
            Row(f"{finding.prompt} ({finding.verdict}, {format_count(finding.items, 'item', 'items')})", (tuple(bars),))
        )
    more = f"; {len(findings) - MAX_PROMPTS:,} more prompts" if len(findings) > MAX_PROMPTS else ""
    texts = "; ".join(
        f"{finding.prompt}: "
        + ", ".join(f"{value} {format_percent(count / finding.items)}" for value, count in finding.shown.items())
        for finding in drawn_findings
    )
    panel = Panel(spread(0.0, 1.0, percentages, about=4))
    return RowChart(
        f"Shares of the values of {group}, by prompt. {texts}{more}.",
        (Block(tuple(rows), (panel,), f"{group}: what each prompt shows{more}", place="above", height=36),),
        tuple(zip(VALUE_COLOURS, values, strict=False)),
    )
