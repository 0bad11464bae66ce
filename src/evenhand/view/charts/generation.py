"""Simulated policies as pictures: how long each value stayed away, and what keeping the deadlines cost."""

from __future__ import annotations

from evenhand.core.text import format_percent
from evenhand.genai.simulation.result import GenerationSimulationResult
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, finish_chart, literal_color, mark_layer, stack_charts

ROLES = {"free": "muted", "published": "different", "before": "same", "after": "third"}
SHAPES = {"free": "cross", "published": "diamond", "before": "circle", "after": "triangle-up"}
LABEL_WIDTH = 150
"""Width that names take on the left."""


def plot_generation_simulation(result: GenerationSimulationResult) -> Spec:
    """Draw the longest gaps beside their deadlines, above violations, interventions and calls, each by policy."""
    parts = [draw_gaps(result), draw_costs(result)]
    return stack_charts(parts)


def draw_gaps(result: GenerationSimulationResult, *, width: int = WIDE) -> Spec:
    """Return a row for each value: its deadline as a bar, and each policy's longest gap as a mark."""
    several = len(result.policies[0].specifications) > 1
    log = max(gap for one in result.policies for gap in one.longest_gap.values()) > 100
    rows, deadlines, order = [], [], []
    for place, kept in enumerate(result.policies[0].specifications):
        for value in kept.longest_gap:
            name = f"{kept.name}: {value}" if several else value
            order.append(name)
            if kept.deadlines is not None:
                deadlines += [
                    {"value": name, "policy": one.policy, "zero": int(log), "deadline": kept.deadlines[value]}
                    for one in result.policies
                ]
            rows += [
                {"value": name, "policy": one.policy, "gap": one.specifications[place].longest_gap[value]}
                for one in result.policies
            ]
    policies = [one.policy for one in result.policies]
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
            x2={"field": "deadline"},
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
    said = "; ".join(f"{row['value']}, {row['policy']}: {row['gap']:,}" for row in rows[: 8 * len(policies)])
    height = max(60, len(order) * max(26, 14 * len(policies)))
    return finish_chart(
        {"layer": layers, "width": width - LABEL_WIDTH - 14, "height": height, "title": title | {"frame": "bounds"}},
        f"The longest gap of each value: {said}.",
    )


def draw_costs(result: GenerationSimulationResult, *, width: int = WIDE) -> Spec:
    """Draw violations, interventions and items made, per request, a panel each and a bar for each policy."""
    policies = [one.policy for one in result.policies]
    panels = []
    questions: list[tuple[str, list[float], str]] = [
        ("deadlines missed", [one.violations for one in result.policies], ","),
        ("prompts changed, of requests", [one.interventions / one.requests for one in result.policies], ".1%"),
        ("items made per request", [one.generator_calls / one.requests for one in result.policies], ".3f"),
    ]
    beside = width >= 600
    each = (width - LABEL_WIDTH - 60) // 3 if beside else width - LABEL_WIDTH - 10
    for i, (question, numbers, form) in enumerate(questions):
        rows = [
            {"policy": policy, "number": number, "written": format(number, form), "color": LIGHT[role]}
            for policy, number in zip(policies, numbers, strict=True)
            for role in [ROLES[policy]]
        ]
        y = {
            "field": "policy",
            "type": "nominal",
            "sort": policies,
            "axis": {"title": None, "labelLimit": LABEL_WIDTH - 10} if i == 0 or not beside else None,
        }
        x = {
            "field": "number",
            "type": "quantitative",
            "axis": None,
            "scale": {"domain": [0, 1.35 * max(*numbers, 1e-9)], "nice": False},
        }
        layers = [
            mark_layer(rows, {"type": "bar", "height": {"band": 0.7}}, x=x, y=y, color=literal_color("color")),
            mark_layer(
                rows,
                {"type": "text", "align": "left", "dx": 4},
                x=x,
                y=y,
                text={"field": "written", "type": "nominal"},
            ),
        ]
        panels.append({"layer": layers, "width": each, "height": max(26, 24 * len(policies)), "title": question})
    said = "; ".join(
        f"{one.policy}: {one.violations:,} deadlines missed, {format_percent(one.interventions / one.requests)} of "
        f"prompts changed, {one.generator_calls / one.requests:.3f} items made per request"
        for one in result.policies
    )
    return finish_chart(
        {"hconcat" if beside else "vconcat": panels, "spacing": 20}, f"What policies missed and cost. {said}."
    )
