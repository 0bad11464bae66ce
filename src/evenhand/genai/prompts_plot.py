"""What each prompt shows as a picture: the shares of the values of one group, a bar for each prompt."""

from __future__ import annotations

from evenhand import charts
from evenhand.charts import LIGHT, Spec, percent
from evenhand.genai.inherent import PromptBias, PromptFinding

WIDE = 880
LANE = 44
"""Height of a prompt's lane; its words stand above its bar."""

PROMPTS = 30
"""Prompts drawn at most."""

COLOURS = ("same", "different", "third", "fourth", "faint")
"""Roles of values, in order; the last is for all that are left."""


def draw_prompts(bias: PromptBias, group: str, *, width: int = WIDE) -> Spec:
    """A bar per prompt, divided as its recognised items show the values of a group."""
    findings = [one for one in bias.findings if one.group == group and one.items]
    shown = findings[:PROMPTS]
    names = list(shown[0].shown) if shown else []
    values = names if len(names) <= len(COLOURS) else [*names[: len(COLOURS) - 1], "other values"]
    bars = []
    for k, one in enumerate(shown):
        left = 0.0
        for value in values:
            count = one.shown[value] if value in one.shown else one.items - round(left * one.items)
            right = left + count / one.items
            bars.append({"row": f"{k:04d}", "value": value, "from": left, "to": right})
            left = right
    rows = [{"row": f"{k:04d}", "words": _words(one, width)} for k, one in enumerate(shown)]
    y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}
    x = {
        "type": "quantitative",
        "scale": {"domain": [0, 1], "nice": False},
        "axis": {"title": None, "format": ".0%", "tickCount": 5, "grid": False, "offset": 4},
    }
    colour = {
        "field": "value",
        "type": "nominal",
        "scale": {"domain": values, "range": [LIGHT[role] for role in COLOURS[: len(values)]]},
        "legend": {"symbolType": "square", "symbolStrokeWidth": 0, "columns": 2 if width < 500 else 5},
    }
    bar = {"type": "bar", "height": 12, "yOffset": 9, "stroke": LIGHT["paper"], "strokeWidth": 1.5}
    layers = [
        charts.marks(bars, bar, y=y, x=x | {"field": "from"}, x2={"field": "to"}, color=colour),
        charts.marks(
            rows,
            {"type": "text", "align": "left", "baseline": "bottom", "dy": 0},
            y=y,
            x={"value": 0},
            text={"field": "words", "type": "nominal"},
        ),
    ]
    more = f"; {len(findings) - PROMPTS:,} more prompts" if len(findings) > PROMPTS else ""
    title = {"text": f"{group}: what each prompt shows{more}"}
    said = "; ".join(
        f"{one.prompt}: " + ", ".join(f"{value} {percent(count / one.items)}" for value, count in one.shown.items())
        for one in shown
    )
    spec = {"layer": layers, "width": width - 24, "height": {"step": LANE}, "title": title}
    return charts.finished(spec, f"Shares of the values of {group}, by prompt. {said}{more}.")


def _words(one: PromptFinding, width: int) -> str:
    room = 34 if width < WIDE else 90
    prompt = one.prompt if len(one.prompt) <= room else one.prompt[: room - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return f"{prompt} ({one.verdict}, {one.items:,} {'item' if one.items == 1 else 'items'})"
