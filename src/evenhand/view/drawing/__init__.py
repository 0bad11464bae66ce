"""How charts look, and how they get into a page: one theme, colours that survive colour blindness and grey print.

A chart is first data: rows with dots and bars (``RowChart``), or else a Vega-Lite specification (``Spec``). A notebook
gets either as an Altair chart (``to_altair``), which it shows and exports as usual. A page draws rows with its own
templates, at the width it has, and gets specifications as SVG, drawn beforehand by Vega (``to_svg``): it then needs no
script and no network to open, and prints as it looks. Every colour has a counterpart for dark pages
(``dark_stylesheet``).
"""

from evenhand.text import format_percent, percent_digits, strip_unprintable
from evenhand.view.drawing.axis import Axis, differences, percentages, spread, whole_numbers
from evenhand.view.drawing.fonts import cut_text, text_width, wrap_text
from evenhand.view.drawing.rows import Bar, Block, Dot, Label, Line, Mark, Panel, Row, RowChart, Span, Tick, together
from evenhand.view.drawing.theme import (
    DARK,
    DASHES,
    FONT,
    LIGHT,
    NARROW,
    SERIES,
    WIDE,
    SizedDrawing,
    Spec,
    dark_stylesheet,
    draw_figure,
    finish_chart,
    literal_color,
    mark_layer,
    stack_charts,
    to_altair,
    to_svg,
)

__all__ = [
    "DARK",
    "DASHES",
    "FONT",
    "LIGHT",
    "NARROW",
    "SERIES",
    "WIDE",
    "Axis",
    "Bar",
    "Block",
    "Dot",
    "Label",
    "Line",
    "Mark",
    "Panel",
    "Row",
    "RowChart",
    "SizedDrawing",
    "Span",
    "Spec",
    "Tick",
    "cut_text",
    "dark_stylesheet",
    "differences",
    "draw_figure",
    "finish_chart",
    "format_percent",
    "literal_color",
    "mark_layer",
    "percent_digits",
    "percentages",
    "spread",
    "stack_charts",
    "strip_unprintable",
    "text_width",
    "to_altair",
    "to_svg",
    "together",
    "whole_numbers",
    "wrap_text",
]
