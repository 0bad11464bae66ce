"""When and where a shield intervenes: a heat map over time, and maps of its actions by counters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from evenhand.view.drawing.fonts import cut_text, text_width
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, along, finish_chart, literal_color, mark_layer, stack_charts

if TYPE_CHECKING:
    from evenhand.shields.simulation.inspection import ActionStretch, HeatmapCell, ShieldInspection


STRENGTH_STEPS = (
    (0.5, 1.0, "more than half"),
    (0.2, 0.85, "to 50 %"),
    (0.05, 0.68, "to 20 %"),
    (0.01, 0.48, "to 5 %"),
    (0.001, 0.28, "to 1 %"),
    (0.0, 0.12, "less than 0.1 %"),
)
"""Lower bound of the share of interventions, strength and description of each colour of the heat map."""
PLAIN_STRENGTH = 0.55
"""Strength of the grey in cells where every recommendation is followed."""
HEATMAP_HEIGHT = 260
SCALE = 68
"""Height of a heat map, and width of the scale to the left of the first panel, in pixels."""
USUAL_QUANTILES = (0.05, 0.95)
"""Quantiles of the difference between the groups that are drawn over time."""
ACTIONS = {
    "follow": ("follow the recommendation", "open", 1.0),
    "accept if cheap": ("accept if that is cheap", "same", 0.45),
    "accept": ("accept whatever is recommended", "same", 1.0),
    "reject if cheap": ("reject if that is cheap", "different", 0.45),
    "reject": ("reject whatever is recommended", "different", 1.0),
}
"""Action -> description, role of the colour, and its strength."""


def plot_shield_inspection(result: ShieldInspection) -> Spec:
    """Return the heat map, and below it the actions by counters."""
    parts = [draw_intervention_heatmap(result), draw_action_maps(result)]
    return stack_charts(parts)


def draw_intervention_heatmap(result: ShieldInspection, *, width: int = WIDE) -> Spec:
    """Draw the frequency of interventions by decisions made and by the difference between the groups.

    One panel per group of the arriving person. Blue: accepted against the recommendation; orange: rejected; grey: the
    recommendation is followed; empty: no run reaches this cell. The dashed lines are plus and minus kappa, and nine in
    ten runs lie between the others.
    """
    names = [group.name for group in result.groups]
    two_columns = width >= WIDE
    inner = (width - SCALE - 86) // 2 if two_columns else width - SCALE - 8
    panels = [
        _draw_heatmap(
            result, [cell for cell in result.cells if cell.group == name], name, inner, titled=i == 0 or not two_columns
        )
        for i, name in enumerate(names)
    ]
    words = "; ".join(
        f"{group.name}: {group.accepted:.2f} accepted and {group.rejected:.2f} rejected against the recommendation"
        for group in result.groups
        if group.accepted is not None and group.rejected is not None
    )
    maps = {"hconcat": panels, "spacing": 24} if two_columns else {"vconcat": panels, "spacing": 20}
    legend = [[("the recommendation is followed", "open", PLAIN_STRENGTH)]]
    for role, word in (("same", "accepted"), ("different", "rejected")):
        strong = [(text, role, strength) for _, strength, text in reversed(STRENGTH_STEPS)]
        legend.append([(f"{word}: {strong[0][0]}", role, strong[0][2]), *strong[1:]])
    return finish_chart(
        {"vconcat": [_draw_legend(legend, width - SCALE), maps], "spacing": 14},
        f"Interventions in {result.horizon} decisions, expected numbers: {words}.",
    )


def draw_action_maps(result: ShieldInspection, *, width: int = WIDE) -> Spec:
    """Draw the actions for each group, by the numbers of accepted people, at several times."""
    times = list(dict.fromkeys(stretch.time for stretch in result.stretches))
    names = [group.name for group in result.groups]
    columns = 4 if width >= WIDE else 2
    inner = (width - 12 * (columns - 1) - 60 * columns) // columns
    rows = []
    for name in names:
        panels = [
            _draw_action_map(
                [stretch for stretch in result.stretches if stretch.time == t and stretch.group == name],
                t,
                names,
                inner,
                person=name,
            )
            for t in times
        ]
        rows += [{"hconcat": panels[i : i + columns], "spacing": 12} for i in range(0, len(panels), columns)]
    used = [name for name in ACTIONS if any(stretch.action == name for stretch in result.stretches)]
    legend = _draw_legend([[ACTIONS[name] for name in used]], width - SCALE)
    words = ", ".join(ACTIONS[name][0] for name in used)
    return finish_chart(
        {"vconcat": [legend, *rows], "spacing": 16},
        f"Actions for the next person after {', '.join(map(str, times))} decisions, by accepted people in both "
        f"groups: {words}.",
    )


def _draw_heatmap(result: ShieldInspection, cells: list[HeatmapCell], name: str, width: int, *, titled: bool) -> Spec:
    groups = [group.name for group in result.groups]
    kappa = _parse_kappa(result.kappa)
    rows = [
        {
            "start": cell.first,
            "end": cell.last + 1,
            "low": cell.low,
            "high": cell.high,
            "color": LIGHT[_colour_role(cell)],
            "opacity": _colour_strength(cell.accepted + cell.rejected),
        }
        for cell in cells
    ]
    top = max([kappa * 1.5, *(max(abs(cell.low), abs(cell.high)) for cell in cells)])
    x = partial(along, domain=(0, result.horizon), title="decisions made", grid=False, tickCount=5, offset=5)
    titles = [f"rate of {groups[0]}", f"less rate of {groups[1]}"]
    if result.property == "disparate_impact":
        titles = ["1 less ratio of the rates, signed"]
    title = [cut_text(title, HEATMAP_HEIGHT) for title in titles] if titled else None
    y = partial(along, domain=(-top, top), title=title, grid=False, tickCount=5, format="+.2~f", offset=5)
    marks = [
        mark_layer(
            rows,
            {"type": "rect", "strokeWidth": 0},
            x=x("start"),
            x2="end",
            y=y("low"),
            y2="high",
            color=literal_color("color"),
            opacity={"field": "opacity", "type": "quantitative", "scale": None},
        ),
        mark_layer(
            [{"y": kappa}, {"y": -kappa}],
            {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.2, "color": LIGHT["ink"]},
            y=y("y"),
        ),
        mark_layer(
            _usual_range(cells),
            {"type": "line", "strokeWidth": 1.6, "color": LIGHT["ink"]},
            x=x("time"),
            y=y("at"),
            detail="line",
        ),
    ]
    heading = {"text": f"next person: {name}", "offset": 6, "limit": width}
    return {"layer": marks, "width": width, "height": HEATMAP_HEIGHT, "title": heading}


def _draw_action_map(stretches: list[ActionStretch], t: int, names: list[str], width: int, *, person: str) -> Spec:
    n_a, n_b = stretches[0].seen if stretches else (1, 1)
    rows = [
        {
            "left": stretch.second_low - 0.5,
            "right": stretch.second_high + 0.5,
            "low": stretch.first - 0.5,
            "high": stretch.first + 0.5,
            "color": LIGHT[ACTIONS[stretch.action][1]],
            "opacity": ACTIONS[stretch.action][2],
        }
        for stretch in stretches
    ]

    def axis(field: str, name: str, maximum: int) -> Spec:
        ticks = list(range(0, maximum + 1, max(1, -(-maximum // 4))))
        title = [cut_text(name, width), f"accepted, of {maximum}"]
        return along(field, (-0.5, maximum + 0.5), title=title, grid=False, values=ticks, format="d")

    return {
        **mark_layer(
            rows,
            {"type": "rect", "strokeWidth": 0},
            x=axis("left", names[1], n_b),
            x2="right",
            y=axis("low", names[0], n_a),
            y2="high",
            color=literal_color("color"),
            opacity={"field": "opacity", "type": "quantitative", "scale": None},
        ),
        "width": width,
        "height": width,
        "title": {"text": [cut_text(f"next: {person}", 0.93 * width), f"after {t}"], "offset": 4},
    }


def _usual_range(cells: Sequence[HeatmapCell]) -> list[Spec]:
    """Return the points of the two lines that enclose nine in ten runs over time."""
    points = []
    for start, end in dict.fromkeys((cell.first, cell.last + 1) for cell in cells):
        column = sorted((cell for cell in cells if cell.first == start), key=lambda cell: cell.low)
        for i, share in enumerate(USUAL_QUANTILES):
            left = share * sum(cell.comes for cell in column)
            for cell in column:
                if left <= cell.comes:
                    at = cell.low + (cell.high - cell.low) * left / cell.comes
                    points.append({"time": (start + end) / 2, "at": at, "line": str(i)})
                    break
                left -= cell.comes
    return points


def _draw_legend(lines: Sequence[Sequence[tuple[str, str, float]]], width: int) -> Spec:
    """Draw squares with words, and wrap long lines. An entry has the words, the role of a colour and its strength."""
    rows, x, y = [], 0, -20
    for i, (text, role, strength) in ((i, entry) for line in lines for i, entry in enumerate(line)):
        needed = 34 + round(text_width(text))
        if i == 0 or x + needed > width:
            x, y = 0, y + 20
        rows.append(
            {
                "x": x,
                "x2": x + 13,
                "text_x": x + 18,
                "y": y,
                "y2": y + 13,
                "middle": y + 7,
                "text": text,
                "color": LIGHT[role],
                "opacity": strength,
            }
        )
        x += needed
    place: Spec = {"type": "quantitative", "scale": None, "axis": None}
    return {
        "layer": [
            mark_layer(
                rows,
                {"type": "rect"},
                x={"field": "x", **place},
                x2="x2",
                y={"field": "y", **place},
                y2="y2",
                color=literal_color("color"),
                opacity={"field": "opacity", "type": "quantitative", "scale": None},
            ),
            mark_layer(
                rows,
                {"type": "text", "align": "left", "baseline": "middle"},
                x={"field": "text_x", **place},
                y={"field": "middle", **place},
                text="text",
            ),
        ],
        "width": width,
        "height": y + 13,
    }


def _colour_role(cell: HeatmapCell) -> str:
    if cell.accepted + cell.rejected <= 0:
        return "open"
    return "same" if cell.accepted >= cell.rejected else "different"


def _colour_strength(share: float) -> float:
    return PLAIN_STRENGTH if share <= 0 else next(strength for least, strength, _ in STRENGTH_STEPS if share >= least)


def _parse_kappa(kappa: str) -> float:
    from fractions import Fraction

    return float(Fraction(kappa))
