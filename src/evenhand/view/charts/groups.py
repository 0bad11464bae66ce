"""Groups as dots with intervals: one row per group, one panel per metric; reliability of the scores by group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evenhand.core.text import format_percent, format_significant
from evenhand.groups.breakdown import Breakdown, Group
from evenhand.groups.result import GroupMetrics
from evenhand.groups.wording.gaps import FOUR_FIFTHS
from evenhand.groups.wording.groups import DRAWN
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import Quantity, Unknown, format_value, quantity_value
from evenhand.view.charts.confusion import draw_group_confusions
from evenhand.view.drawing.axis import Axis, percentages, spread
from evenhand.view.drawing.rows import Block, Dot, Label, Line, Mark, Panel, Row, RowChart, Tick, dot_for, join_rows
from evenhand.view.drawing.theme import Spec, stack_charts

PANELS = ("selection_rate", "true_positive_rate", "false_positive_rate")
"""Metrics drawn."""

NAMES = 300
"""Maximum width of the names of groups, in pixels."""

LABELS_A_ROW, MOST_LABELS = 3, 12
"""Maximum numbers of labels in a row and in a figure. The most frequent labels are drawn."""

OVERVIEW_GROUPS = 10
"""Maximum number of groups of an attribute in the overview, which has those with the highest and the lowest rates."""

MOST_PANELS = 8
"""Maximum number of groups whose reliability is drawn. The largest groups are drawn."""

WHOLE = Axis(0.0, 1.0, ((0.0, "0 %"), (0.25, ""), (0.5, "50 %"), (0.75, ""), (1.0, "100 %")))
"""Axis from 0 to 100 %."""


def plot_groups(result: GroupMetrics) -> Spec | RowChart:
    """All breakdowns above each other: selection, true and false positive rate of every group with its interval.

    For numeric targets, the mean of each group by each attribute; for several labels, confusion matrices.
    """
    if result.outcome is not None:
        return draw_overview(result)
    if result.label_set is not None:
        return plot_labels(result)
    return draw_groups(result)


def draw_groups(result: GroupMetrics) -> RowChart:
    """Draw all breakdowns above each other."""
    return join_rows(draw_breakdown(breakdown) for breakdown in result.breakdowns)


def draw_breakdown(breakdown: Breakdown) -> RowChart:
    """One breakdown. Groups too small for the gaps are hollow and grey; four fifths of the highest rate is dashed."""
    groups = select_groups(breakdown)
    measured = [metric for metric in PANELS if any(metric in group.metrics for group in groups)]
    rows = tuple(_group_row(group, tuple(_marks(group, metric) for metric in measured)) for group in groups)
    panels = tuple(_metric_panel(groups, metric) for metric in measured)
    rates = "; ".join(_group_tooltip(group) for group in groups)
    return RowChart(
        f"Selection rates by {' and '.join(breakdown.by)}: {rates}.",
        (Block(rows=rows, panels=panels, headings=("people",), names=NAMES),),
    )


def draw_overview(result: GroupMetrics) -> RowChart:
    """Draw the selection rate, or the mean number, of each group by each attribute, with a line for comparison."""
    metric = "selection_rate" if result.outcome is None else "mean"
    groups = {
        breakdown.by[0]: select_groups(breakdown, metric, OVERVIEW_GROUPS)
        for breakdown in result.breakdowns
        if len(breakdown.by) == 1
    }
    dots = [dot for own in groups.values() for group in own if (dot := _dot(group, metric)) is not None]
    high = max(dot.high for dot in dots)
    if metric == "mean":
        low = min(dot.low for dot in dots)
        axis = spread(low, high if high > low else low + 1, _round_numbers, about=3, whole=True)
    else:
        axis = WHOLE if high > 0.6 or high == 0 else spread(0.0, high, percentages, about=3, whole=True)
    blocks, texts = [], []
    for name, own in groups.items():
        values = [_metric_value(group, metric, 0.0) for group in own if not group.small]
        line = FOUR_FIFTHS * max(values, default=0.0)
        if metric == "mean":
            line = quantity_value(result.overall[metric]) or 0.0
        rows = []
        for group in own:
            dot, quantity = _dot(group, metric), group.metrics.get(metric)
            text = "" if quantity is None or isinstance(quantity, Unknown) else format_value(quantity, metric)
            marks = () if dot is None else (dot, Label(dot.high, text))
            rows.append(Row(group.label, (marks,), role="faint" if group.small else "ink"))
            texts.append(f"{group.label} {text}")
        panel = Panel(axis, lines=(Line(line),) if own else ())
        blocks.append(Block(tuple(rows), (panel,), name, names=NAMES, place="left", height=22))
    return RowChart(f"{METRICS[metric].title} by {' and by '.join(groups)}: {'; '.join(texts)}.", tuple(blocks))


def _round_numbers(values: Sequence[float]) -> list[str]:
    return [format_significant(value) for value in values]


def plot_labels(result: GroupMetrics) -> Spec | RowChart:
    """Draw the confusion matrix of each group, by attribute. Without true labels, draw the shares of the labels."""
    single = [breakdown.by[0] for breakdown in result.breakdowns if len(breakdown.by) == 1]
    if not result.everyone.confusion:
        return join_rows(draw_label_shares(result, name) for name in single)
    charts = [draw_group_confusions(result, name) for name in single]
    return stack_charts(charts, "True and assigned labels of each group.")


def draw_label_shares(result: GroupMetrics, by: str) -> RowChart:
    """Draw the share of each group that is assigned each label, or at least each grade.

    Args:
        result: the labels.
        by: the attributes, joined by `` x ``.
    """
    breakdown = next(entry for entry in result.breakdowns if " x ".join(entry.by) == by)
    everybody, label_set = result.everyone.rates, result.label_set
    assert label_set is not None
    share = label_set.share
    names = list(label_set.labels[1:] if label_set.ordered else label_set.labels)
    largest = sorted(names, key=lambda name: -(quantity_value(everybody[name][share]) or 0.0))[:MOST_LABELS]
    names = [name for name in names if name in largest]
    groups = sorted(breakdown.groups, key=lambda group: group.small)[:DRAWN]
    blocks = []
    for start in range(0, len(names), LABELS_A_ROW):
        part = names[start : start + LABELS_A_ROW]
        rows = tuple(
            _group_row(group, tuple(_label_marks(group, group.rates[name][share]) for name in part)) for group in groups
        )
        panels = tuple(Panel(WHOLE, f"at least {name}" if label_set.ordered else name) for name in part)
        blocks.append(Block(rows=rows, panels=panels, headings=("people",), names=NAMES))
    summary = "; ".join(
        f"{group.label} {name} {format_percent(quantity_value(group.rates[name][share]) or 0.0)}"
        for group in groups
        for name in names
    )
    return RowChart(f"Shares of {label_set.target} by {by}: {summary}.", tuple(blocks))


def _group_row(group: Group, marks: tuple[tuple[Mark, ...], ...]) -> Row:
    size, role = f"{group.size:,}", "faint" if group.small else "ink"
    return Row(group.label, marks, (size,), f"{size} people", role=role)


def _label_marks(group: Group, share: Quantity) -> tuple[Mark, ...]:
    if isinstance(share, Unknown):
        return ()
    return (dot_for(share, "faint" if group.small else "same", filled=not group.small),)


@dataclass(frozen=True)
class Reliability:
    """Reliability of the scores of one group: mean score against observed rate, in bins.

    On the diagonal, scores equal observed rates. Below it, scores are too high.

    Attributes:
        name, size: the group.
        bins: mean score, observed rate, ends of its interval, and role of the colour, for each bin.
    """

    name: str
    size: int
    bins: tuple[tuple[float, float, float, float, str], ...]


def draw_calibration(result: GroupMetrics, by: str) -> list[Reliability]:
    """Draw reliability of the scores, one panel per group of one attribute."""
    groups: dict[str, list[Group]] = {}
    for part in next(breakdown.groups for breakdown in result.calibration if breakdown.by == (by,)):
        groups.setdefault(part.label, []).append(part)
    sizes = {name: sum(part.size for part in bins) for name, bins in groups.items()}
    largest = sorted(groups, key=lambda name: -sizes[name])[:MOST_PANELS]
    return [Reliability(name, sizes[name], _reliability_panel(groups[name])) for name in groups if name in largest]


def select_groups(breakdown: Breakdown, metric: str = "selection_rate", limit: int = DRAWN) -> list[Group]:
    """Select the groups to draw, in their order for one attribute, sorted by the metric for several, small ones last.

    If there are too many groups, those with the highest and the lowest values are drawn.
    """
    groups = [group for group in breakdown.groups if not group.small]
    if len(breakdown.by) > 1 or len(groups) > limit:
        groups.sort(key=lambda group: -_metric_value(group, metric, -math.inf))
    if len(groups) > limit:
        groups = groups[: limit // 2] + groups[-limit // 2 :]
    small = [group for group in breakdown.groups if group.small]
    return groups + small[: limit - len(groups)]


def _group_tooltip(group: Group) -> str:
    value = quantity_value(group.metrics["selection_rate"]) if "selection_rate" in group.metrics else None
    rate = "unknown" if value is None else format_percent(value)
    return f"{group.label} {rate}{' (small group)' if group.small else ''}"


def _metric_value(group: Group, metric: str, otherwise: float) -> float:
    value = quantity_value(group.metrics[metric]) if metric in group.metrics else None
    return otherwise if value is None else value


def _marks(group: Group, metric: str) -> tuple[Mark, ...]:
    """Build the dot of a rate, and the tick of the base rate next to the selection rate."""
    marks: list[Mark] = []
    if (dot := _dot(group, metric)) is not None:
        marks.append(dot)
    if metric == "selection_rate" and (base := _metric_value(group, "base_rate", -1.0)) >= 0:
        marks.append(Tick(base))
    return tuple(marks)


def _dot(group: Group, metric: str) -> Dot | None:
    quantity = group.metrics.get(metric)
    if quantity is None or isinstance(quantity, Unknown):
        return None
    return dot_for(quantity, "faint" if group.small else "same", filled=not group.small)


def _metric_panel(groups: list[Group], metric: str) -> Panel:
    lines: tuple[Line, ...] = ()
    if metric == "selection_rate":
        highest = max((_metric_value(group, metric, 0.0) for group in groups if not group.small), default=0.0)
        lines = (Line(0.8 * highest),) if highest > 0 else ()
    top = 1.0 if metric == "true_positive_rate" else _axis_end(groups, metric)
    axis = WHOLE if top > 0.6 else spread(0.0, top, percentages, about=3, whole=True)
    return Panel(axis, METRICS[metric].title.capitalize(), lines)


def _axis_end(groups: list[Group], metric: str) -> float:
    """Compute the upper end of an axis, which covers all numbers and the intervals of large groups."""
    dots = [(group, dot) for group in groups if (dot := _dot(group, metric)) is not None]
    marks = [mark.value for group in groups for mark in _marks(group, metric) if isinstance(mark, Dot | Tick)]
    sure = [dot.high for group, dot in dots if not group.small]
    highest = max([dot.high for _, dot in dots], default=1.0)
    return min(1.0, max([min(highest, 1.6 * max(sure, default=1.0)), *marks])) or 1.0


def _reliability_panel(bins: list[Group]) -> tuple[tuple[float, float, float, float, str], ...]:
    pairs = [(part, part.metrics["mean_score"], part.metrics["base_rate"]) for part in bins]
    return tuple(
        (
            score.value,
            rate.value,
            getattr(rate, "low", rate.value),
            getattr(rate, "high", rate.value),
            "faint" if part.small else "same",
        )
        for part, score, rate in pairs
        if not isinstance(rate, Unknown) and not isinstance(score, Unknown)
    )
