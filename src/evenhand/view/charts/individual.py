"""Counterfactual flip rates as dots with intervals: for people, for texts, and below the groups of an audit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evenhand.core.text import SIMULATED, format_percent
from evenhand.individual.flips import FlipRate
from evenhand.individual.result import IndividualResult
from evenhand.individual.search.texts import TextSearchResult
from evenhand.stats.quantity import Known, Quantity, Unknown, quantity_value
from evenhand.view.charts.groups import draw_groups, plot_groups
from evenhand.view.drawing.axis import percentages, spread
from evenhand.view.drawing.rows import Block, Dot, Label, Panel, Row, RowChart, dot_for, join_rows
from evenhand.view.drawing.theme import Spec

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult


def draw_flips(result: IndividualResult) -> RowChart:
    """Draw one row per protected attribute and set of people. Filled dots are observed, hollow diamonds estimated."""
    changing = "with these attributes" if result.counterparts else "when only these attributes change"
    rates = [(_name(rate), rate.rate) for rate in result.rates]
    return _draw_rates(rates, f"Counterfactual flip rate: share of people whose decision changes {changing}.")


def draw_text_flips(result: TextSearchResult) -> RowChart:
    """Draw one row per category, the highest rate first."""
    rates = [(rate.protected[0].replace("_", " "), rate.rate) for rate in result.rates]
    rates.sort(key=lambda rate: -(quantity_value(rate[1]) or 0.0))
    return _draw_rates(rates, "Share of texts whose label flips when identity terms are swapped.")


def _draw_rates(rates: Iterable[tuple[str, Quantity]], description: str) -> RowChart:
    measured = [(name, rate) for name, rate in rates if not isinstance(rate, Unknown)]
    rows = tuple(Row(name, (_marks(rate),)) for name, rate in measured)
    top = max((getattr(rate, "high", rate.value) for _, rate in measured), default=0.0) or 0.01
    axis = spread(0.0, top, percentages, about=4, whole=True)
    texts = "; ".join(f"{name}: {format_percent(rate.value)} ({rate.kind})" for name, rate in measured)
    return RowChart(f"{description} {texts}.", (Block(rows=rows, panels=(Panel(axis),), names=280),))


def _name(rate: FlipRate) -> str:
    people = "people in the data" if rate.over == "data" else SIMULATED
    return f"{' x '.join(rate.protected)}, {people}"


def _marks(quantity: Known) -> tuple[Dot, Label]:
    observed = quantity.kind == "observed"
    dot = dot_for(quantity, shape="circle" if observed else "diamond", filled=observed)
    return dot, Label(dot.high, format_percent(quantity.value))


def plot_audit(audit: AuditResult) -> Spec | RowChart:
    """Draw group metrics above flip rates, or means for numbers, or confusion matrices for labels."""
    if audit.groups.outcome is not None or audit.groups.label_set is not None:
        return plot_groups(audit.groups)
    flips = [] if audit.individual is None else [draw_flips(audit.individual)]
    return join_rows([draw_groups(audit.groups), *flips])
