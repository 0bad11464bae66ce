"""Charts that compare shields on the same people: the bias over time under each shield."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from evenhand.core.text import format_percent
from evenhand.shields.simulation.comparison import ShieldComparisonResult
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, along, finish_chart, mark_layer, stack_charts

HEIGHT = 72
"""Height of the panel of a shield in pixels."""
NO_SHIELD = "no shield"


def draw_comparison(result: ShieldComparisonResult, *, width: int = WIDE) -> Spec:
    """Draw a panel per shield and one without: median bias, band of nine in ten runs, and the bound."""
    simulation = result.simulations[0]
    kappa = float(Fraction(simulation.kappa))
    panels = [
        (
            run.name,
            [f"{100 * run.interventions_mean / (run.periods * run.horizon):.2f} overrides in 100 decisions"],
            run.time_beyond,
            [(moment.decisions, moment.shielded) for moment in run.over_time],
        )
        for run in result.simulations
    ]
    without = 1 - sum(moment.fair_unshielded for moment in simulation.over_time) / len(simulation.over_time)
    panels.append((NO_SHIELD, [], without, [(moment.decisions, moment.unshielded) for moment in simulation.over_time]))
    settled = [values[-1] for _, _, _, moments in panels for at, values in moments if 2 * at >= simulation.horizon]
    top = min(1.0, max(1.1 * max(settled), 1.6 * kappa, 0.02))
    last = simulation.over_time[-1].decisions
    parts = []
    for place, (name, summary, beyond, moments) in enumerate(panels):
        color = LIGHT["different" if name == NO_SHIELD else "same"]
        rows = [
            {"decisions": at, "low": values[0], "middle": values[len(values) // 2], "high": min(values[-1], top)}
            for at, values in moments
        ]
        end = place == len(panels) - 1
        title = "decisions" if end else None
        x = along("decisions", (0, last), title=title, labels=end, grid=False, tickCount=6, offset=3)
        y = partial(along, domain=(0, top), title="bias", tickCount=3, offset=3)
        line = [{"from": 0, "to": last, "bound": kappa}]
        layers = [
            mark_layer(
                rows,
                {"type": "area", "opacity": 0.3, "clip": True, "color": color},
                x=x,
                y=y("low"),
                y2="high",
            ),
            mark_layer(rows, {"type": "line", "strokeWidth": 2, "clip": True, "color": color}, x=x, y=y("middle")),
            mark_layer(
                line,
                {"type": "rule", "color": LIGHT["ink"], "strokeWidth": 1.2},
                x=x | {"field": "from"},
                x2="to",
                y=y("bound"),
            ),
        ]
        summary = [*summary, f"{format_percent(beyond)} of the time above {kappa:g}"]
        heading = {"text": name, "subtitle": summary, "frame": "bounds"}
        spec = {"layer": layers, "width": width - 84, "height": HEIGHT, "title": heading}
        parts.append(finish_chart(spec, f"{name}: {', '.join(summary)}."))
    return stack_charts(parts)
