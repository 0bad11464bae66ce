"""Charts of a simulation: the bias over time with and without the shield, and at the end of the runs."""

from __future__ import annotations

from functools import partial

from evenhand.core.text import format_percent
from evenhand.shields.simulation.result import BiasQuantiles, ShieldSimulationResult
from evenhand.view.drawing.theme import DASHES, LIGHT, WIDE, Spec, along, finish_chart, mark_layer, stack_charts

SHIELDED, UNSHIELDED = "after the shield", "before the shield"
NAMES = (SHIELDED, UNSHIELDED)
ROLES = {SHIELDED: "same", UNSHIELDED: "different"}
DASH = {SHIELDED: DASHES[0], UNSHIELDED: DASHES[1]}


def plot_shield_simulation(result: ShieldSimulationResult) -> Spec:
    """Plot bias over time above the distribution of the normalised bias."""
    parts = [draw_over_time(result), draw_normalised(result)]
    return stack_charts(parts)


def draw_over_time(result: ShieldSimulationResult, *, width: int = WIDE) -> Spec:
    """Draw the median bias and the band of nine in ten runs; grey: within the bound. Dots: the checks."""
    kappa = _parse_kappa(result)
    top = _scale_top(result, kappa)
    rows = [
        {"name": name, "decisions": moment.decisions, "low": low, "middle": middle, "high": high}
        for moment in result.over_time
        for name in NAMES
        for low, middle, high in [_quantile_triple(moment, name)]
    ]
    checked = {moment.decisions for moment in result.over_time if moment.checked}
    dots = [row for row in rows if row["decisions"] in checked]
    if len(checked) > 30:  # a dot at every time is not informative
        dots = []
    last = result.over_time[-1].decisions

    x = along("decisions", (0, last), title="decisions", grid=False, tickCount=6, offset=5)
    y = partial(along, domain=(0, top), title="bias", tickCount=5, offset=5)
    roles = {"domain": list(NAMES), "range": [LIGHT[ROLES[name]] for name in NAMES]}
    legend = {"symbolType": "stroke", "symbolSize": 300, "symbolStrokeWidth": 2.5, "symbolOpacity": 1, "title": None}
    color = {"field": "name", "type": "nominal", "scale": roles, "legend": legend}
    dashes = color | {"scale": {"domain": list(NAMES), "range": [list(DASH[name]) for name in NAMES]}}
    band = [{"from": 0, "to": last, "low": 0, "high": kappa}]
    filled = [row for row in rows if row["name"] == SHIELDED]
    edges = [
        {"name": row["name"], "decisions": row["decisions"], "edge": edge, "bias": row[edge]}
        for row in rows
        for edge in ("low", "high")
    ]
    layers = [
        mark_layer(
            band,
            {"type": "rect", "color": LIGHT["grid"], "opacity": 0.6},
            x=x | {"field": "from"},
            x2="to",
            y=y("low"),
            y2="high",
        ),
        mark_layer(
            filled,
            {"type": "area", "opacity": 0.25, "clip": True},
            x=x,
            y=y("low"),
            y2="high",
            color=color,
        ),
        mark_layer(
            edges,
            {"type": "line", "strokeWidth": 1, "clip": True},
            x=x,
            y=y("bias"),
            color=color,
            strokeDash=dashes,
            detail="edge",
        ),
        mark_layer(
            band,
            {"type": "rule", "color": LIGHT["ink"], "strokeWidth": 1.2},
            x=x | {"field": "from"},
            x2="to",
            y=y("high"),
        ),
        mark_layer(
            rows,
            {"type": "line", "strokeWidth": 2.2, "clip": True},
            x=x,
            y=y("middle"),
            color=color,
            strokeDash=dashes,
        ),
        mark_layer(
            dots,
            {"type": "point", "size": 45, "filled": True, "opacity": 1, "clip": True},
            x=x,
            y=y("middle"),
            color=color,
        ),
    ]
    summary = [
        f"thick: median of {result.watched:,} runs; thin: nine of ten lie between",
        f"black: at most {kappa:g} is fair; dots: when it is checked",
    ]
    title = {"text": "Bias over time", "subtitle": summary, "frame": "bounds"}
    spec = {"layer": layers, "width": width - 84, "height": 230, "title": title}
    ends = "; ".join(f"{name} {_format_triple(_quantile_triple(result.over_time[-1], name))}" for name in NAMES)
    return finish_chart(
        spec,
        f"Bias over {last:,} decisions, median and the band that holds nine of ten runs; fair is at most {kappa:g}. "
        f"At the end: {ends}.",
    )


def draw_normalised(result: ShieldSimulationResult, *, width: int = WIDE) -> Spec:
    """Draw the share of runs by final bias, with the shield above and without it below; unfair right of the line."""
    histogram = result.normalised
    unit = "bias at the end, divided by kappa" if _parse_kappa(result) else "bias at the end"
    bound = 1.0 if _parse_kappa(result) else 0.0
    last = histogram.edges[-1]
    panels = []
    for i, (name, counts) in enumerate(zip(NAMES, (histogram.shielded, histogram.unshielded), strict=True)):
        rows = [
            {"low": low, "high": high, "share": count / result.runs}
            for low, high, count in zip(histogram.edges[:-1], histogram.edges[1:], counts, strict=True)
        ]
        outside = sum(counts[_fair_class_count(result) :])
        x = along("low", (0, last), title=unit if i else None, labels=bool(i), tickCount=8, grid=False, offset=5)
        mark = {"type": "bar", "color": LIGHT[ROLES[name]], "stroke": LIGHT["paper"], "strokeWidth": 0.8}
        line = [{"low": bound, "said": "unfair beyond"}]
        layers = [
            mark_layer(
                rows,
                mark,
                x=x | {"bin": "binned"},
                x2="high",
                y=along(
                    "share", (0, 1.3 * max(counts) / result.runs), format="~%", title="runs", tickCount=3, offset=5
                ),
            ),
            mark_layer(line, {"type": "rule", "color": LIGHT["ink"], "strokeWidth": 1.2}, x=x),
            mark_layer(
                line,
                {"type": "text", "align": "left", "baseline": "top", "dx": 5, "y": 0},
                x=x,
                text="said",
            ),
        ]
        title = {"text": name, "subtitle": f"{format_percent(outside / result.runs)} of runs end unfair"}
        panels.append({"layer": layers, "width": width - 76, "height": 95, "title": title})
    spec = {"vconcat": panels, "spacing": 12, "resolve": {"scale": {"y": "independent"}}}
    ends = "; ".join(
        f"{name}, {format_percent(sum(counts[_fair_class_count(result) :]) / result.runs)} of runs end above it"
        for name, counts in zip(NAMES, (histogram.shielded, histogram.unshielded), strict=True)
    )
    return finish_chart(
        spec, f"Distribution of the bias at the end of {result.runs:,} runs, divided by the bound: {ends}."
    )


def _parse_kappa(result: ShieldSimulationResult) -> float:
    from fractions import Fraction

    return float(Fraction(result.kappa))


def _fair_class_count(result: ShieldSimulationResult) -> int:
    """Count the bins of the histogram that end at or below the bound."""
    bound = 1.0 if _parse_kappa(result) else 0.0
    return sum(edge <= bound for edge in result.normalised.edges[1:])


def _quantile_triple(moment: BiasQuantiles, name: str) -> tuple[float, float, float]:
    quantiles = moment.shielded if name == SHIELDED else moment.unshielded
    return quantiles[0], quantiles[len(quantiles) // 2], quantiles[-1]


def _format_triple(three: tuple[float, float, float]) -> str:
    low, middle, high = three
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def _scale_top(result: ShieldSimulationResult, kappa: float) -> float:
    """Return the upper end of the scale. The first decisions, whose bias is noise, are ignored."""
    settled = [moment for moment in result.over_time if 2 * moment.decisions >= result.horizon]
    highest = max(max(moment.shielded[-1], moment.unshielded[-1]) for moment in settled)
    return min(1.0, max(1.1 * highest, 1.6 * kappa, 0.02))
