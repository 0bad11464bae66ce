"""Charts of simulated policies: the gaps of each value, and the cost of meeting the deadlines."""

from __future__ import annotations

from evenhand.core.text import format_percent
from evenhand.genai.simulation.result import GenerationSimulationResult
from evenhand.view.drawing.axis import Axis
from evenhand.view.drawing.rows import Bar, Block, Label, Panel, Row, RowChart
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, finish_chart, mark_layer, stack_charts

ROLES = {"free": "muted", "published": "different", "before": "same", "after": "third"}
SHAPES = {"free": "cross", "published": "diamond", "before": "circle", "after": "triangle-up"}
LABEL_WIDTH = 150
"""Width of the names on the left, in pixels."""


def plot_generation_simulation(result: GenerationSimulationResult) -> Spec:
    """Draw the longest gaps with their deadlines, then violations, interventions and calls by policy."""
    parts: list[Spec | RowChart] = [draw_gaps(result), draw_costs(result)]
    return stack_charts(parts)


def draw_gaps(result: GenerationSimulationResult, *, width: int = WIDE) -> Spec:
    """Return a row for each value: its deadline as a bar, and each policy's longest gap as a mark."""
    several = len(result.policies[0].specifications) > 1
    log = max(gap for outcome in result.policies for gap in outcome.longest_gap.values()) > 100
    rows, deadlines, order = [], [], []
    for place, specification in enumerate(result.policies[0].specifications):
        for value in specification.longest_gap:
            name = f"{specification.name}: {value}" if several else value
            order.append(name)
            if specification.deadlines is not None:
                deadlines += [
                    {
                        "value": name,
                        "policy": outcome.policy,
                        "zero": int(log),
                        "deadline": specification.deadlines[value],
                    }
                    for outcome in result.policies
                ]
            rows += [
                {"value": name, "policy": outcome.policy, "gap": outcome.specifications[place].longest_gap[value]}
                for outcome in result.policies
            ]
    policies = [outcome.policy for outcome in result.policies]
    x = {
        "type": "quantitative",
        "scale": {"type": "log" if log else "linear", "domainMin": int(log), "nice": True},
        "axis": {"title": "items from one appearance to the next, at most", "tickCount": 6, "format": "~s"},
    }
    y = {"field": "value", "type": "nominal", "sort": order, "axis": {"title": None, "labelLimit": LABEL_WIDTH - 10}}
    legend = {"title": None, "symbolSize": 90, "columns": 2 if width < 500 else 4}
    color = {
        "field": "policy",
        "type": "nominal",
        "scale": {"domain": policies, "range": [LIGHT[ROLES[name]] for name in policies]},
        "legend": legend,
    }
    shape = color | {"scale": {"domain": policies, "range": [SHAPES[name] for name in policies]}}
    offset = {"field": "policy", "type": "nominal", "sort": policies}
    layers = [
        mark_layer(
            deadlines,
            {"type": "bar", "color": LIGHT["grid"], "height": {"band": 1}},
            y=y,
            yOffset=offset,
            x=x | {"field": "zero"},
            x2="deadline",
        ),
        mark_layer(
            rows,
            {"type": "point", "filled": True, "size": 70, "opacity": 1},
            y=y,
            yOffset=offset,
            x=x | {"field": "gap"},
            color=color,
            shape=shape,
        ),
    ]
    first = result.policies[0]
    title = {
        "text": "How long each value stayed away",
        "subtitle": [
            f"longest among {first.requests:,} requests, {result.in_flight} in flight",
            "grey: within the deadline",
        ],
    }
    summary = "; ".join(f"{row['value']}, {row['policy']}: {row['gap']:,}" for row in rows[: 8 * len(policies)])
    height = max(60, len(order) * max(26, 14 * len(policies)))
    return finish_chart(
        {"layer": layers, "width": width - LABEL_WIDTH - 14, "height": height, "title": title | {"frame": "bounds"}},
        f"The longest gap of each value: {summary}.",
    )


def draw_costs(result: GenerationSimulationResult) -> RowChart:
    """Draw violations, interventions and items made per request: one panel each, and one row per policy."""
    numbers = [
        (outcome.violations, outcome.interventions / outcome.requests, outcome.generator_calls / outcome.requests)
        for outcome in result.policies
    ]
    titles = ("deadlines missed", "requests with a changed prompt", "items made per request")
    panels = tuple(
        Panel(Axis(0.0, 1.35 * max(*column, 1e-9), ()), title)
        for title, column in zip(titles, zip(*numbers, strict=True), strict=True)
    )
    rows, texts = [], []
    for outcome, (missed, changed, items) in zip(result.policies, numbers, strict=True):
        words = (f"{missed:,}", format_percent(changed), f"{items:.3f}")
        marks = tuple(
            (Bar(0.0, number, ROLES[outcome.policy]), Label(number, text))
            for number, text in zip((missed, changed, items), words, strict=True)
        )
        rows.append(Row(outcome.policy, marks))
        texts.append(f"{outcome.policy}: {', '.join(map(' '.join, zip(titles, words, strict=True)))}")
    return RowChart(
        f"Missed deadlines and costs by policy. {'; '.join(texts)}.", (Block(tuple(rows), panels, names=150),)
    )
