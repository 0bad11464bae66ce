"""Charts, one module for each kind of result, in one theme; and the drawings that documents name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import altair as alt

    from evenhand.core.document import Figure
    from evenhand.core.result import Result

__all__ = ["FIGURES", "DrawnFigure", "FigureSource", "draw", "plot"]

Form: TypeAlias = Literal["rows", "squares", "gallery", "svg"]


def plot(result: Result) -> alt.TopLevelMixin:
    """Draw a result as an Altair chart.

    Raises:
        TypeError: The result has no chart.
    """
    if not result.chart:
        raise TypeError(f"expected a result that has a chart, got {type(result).__name__}")
    module, _, function = result.chart.rpartition(".")
    from evenhand.view.drawing.theme import to_altair

    return to_altair(getattr(importlib.import_module(f"{__name__}.{module}"), function)(result))


class DrawnFigure(NamedTuple):
    """A drawing and how a page shows it: by its own templates, or as SVG in two widths."""

    form: Form
    chart: Any


class FigureSource(NamedTuple):
    """Function that draws a figure.

    Attributes:
        module, function: in this package, or the whole name of a module elsewhere; it takes the figure's source and
            arguments.
        form: form of the drawing.
    """

    module: str
    function: str
    form: Form


FIGURES: dict[str, FigureSource] = {
    "alternatives": FigureSource("mitigation", "draw_alternatives", "svg"),
    "appearances": FigureSource("assessment", "draw_timeline", "svg"),
    "actions by counters": FigureSource("evenhand.view.charts.shields.inspection", "draw_action_maps", "svg"),
    "before and after": FigureSource("mitigation", "draw_candidate", "rows"),
    "bias at the end": FigureSource("evenhand.view.charts.shields.simulation", "draw_normalised", "svg"),
    "bias by kind of shield": FigureSource("evenhand.view.charts.shields.comparison", "draw_comparison", "svg"),
    "bias over time": FigureSource("evenhand.view.charts.shields.simulation", "draw_over_time", "svg"),
    "calibration": FigureSource("groups", "draw_calibration", "squares"),
    "candidates": FigureSource("mitigation", "draw_candidates", "rows"),
    "causes of flips": FigureSource("llm", "draw_causes", "rows"),
    "changes": FigureSource("comparison", "draw_changes", "rows"),
    "checked shares": FigureSource("certification", "draw_check", "rows"),
    "confusion by group": FigureSource("confusion", "draw_group_confusions", "svg"),
    "costs of policies": FigureSource("generation", "draw_costs", "rows"),
    "counts of labels": FigureSource("confusion", "draw_counts", "svg"),
    "course of a gap": FigureSource("evenhand.view.charts.shields.monitor", "draw_course", "svg"),
    "coverage": FigureSource("assessment", "draw_coverage", "svg"),
    "flip rates": FigureSource("individual", "draw_flips", "rows"),
    "flip rates of texts": FigureSource("individual", "draw_text_flips", "rows"),
    "gaps of profiles": FigureSource("search", "draw_gaps", "svg"),
    "group rates": FigureSource("groups", "draw_breakdown", "rows"),
    "interventions over time": FigureSource(
        "evenhand.view.charts.shields.inspection", "draw_intervention_heatmap", "svg"
    ),
    "items": FigureSource("items", "collect_items", "gallery"),
    "label shares": FigureSource("groups", "draw_label_shares", "rows"),
    "language changes": FigureSource("llm", "draw_language_changes", "rows"),
    "language gaps": FigureSource("llm", "draw_language_gaps", "rows"),
    "longest gaps": FigureSource("generation", "draw_gaps", "svg"),
    "overview": FigureSource("groups", "draw_overview", "rows"),
    "prompts": FigureSource("assessment", "draw_prompts", "rows"),
    "proved shares": FigureSource("certification", "draw_shares", "rows"),
    "selection over places": FigureSource("rankings", "draw_selection", "svg"),
    "shares by attribute": FigureSource("certification", "draw_slices", "rows"),
    "subgroup gaps": FigureSource("subgroups", "draw_gaps", "rows"),
    "threshold curves": FigureSource("thresholds", "draw_curves", "svg"),
}
"""The drawings that documents name; each says which part of which result it draws."""


def draw(figure: Figure, name: str) -> DrawnFigure:
    """Draw a figure of a document.

    Args:
        figure: figure to draw.
        name: name that is unique on the page, for SVG identifiers.
    """
    source = FIGURES[figure.chart]
    module = source.module if "." in source.module else f"{__name__}.{source.module}"
    function = getattr(importlib.import_module(module), source.function)
    if source.form != "svg":
        return DrawnFigure(source.form, function(figure.source, *figure.arguments))
    from evenhand.view.drawing.theme import draw_figure

    def draw_at_width(source: Any, *, width: int) -> Any:
        return function(source, *figure.arguments, width=width)

    return DrawnFigure("svg", draw_figure(name, draw_at_width, figure.source))
