"""Tables, notes and metrics that all group results share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from evenhand.core.document import Column, Note, ReportedNumber, Table, TableRow
from evenhand.core.text import format_count, format_level, join_names
from evenhand.groups.breakdown import Breakdown, Gap, Group, describe_selective, list_counts
from evenhand.groups.label_coverage import PREFIX
from evenhand.groups.result import GroupedResult, GroupMetrics
from evenhand.stats.metric_specs import LOWER_IS_WORSE, METRICS, RANGE, metric_spec, order_names
from evenhand.stats.quantity import (
    Quantity,
    Sampled,
    show_quantity,
)


def weighted_by(result: GroupedResult) -> str:
    """Describe the source of the weights as a suffix; empty without weights."""
    return "" if result.weights is None else f", weighted by {result.weights}"


def unit_and_weights(result: GroupMetrics) -> str:
    """Describe the unit of numeric decisions and the source of the weights as a suffix of captions."""
    unit = None if result.outcome is None else result.outcome.unit
    return ("" if unit is None else f", in {unit}") + weighted_by(result)


def describe_weights(result: GroupMetrics) -> tuple[str, str]:
    """Describe the sample weights as a named fact."""
    effective = f"{result.everyone.effective_size or 0:,.0f}"
    return "Sample weights", f"{result.weights}; the effective sample size is {effective}"


def describe_left_out(unknown: int, by: Sequence[str]) -> str:
    """Describe the number of people who are excluded because one of their values is unknown."""
    people = format_count(unknown, "person", "people")
    return f"left out: {people} of unknown {' or '.join(by)}, who are in all numbers that are not by {join_names(by)}"


def left_out_notes(unknown: int, by: Sequence[str]) -> Iterator[Note]:
    """Yield the number of people of unknown group; nothing if there are none."""
    if unknown:
        text = describe_left_out(unknown, by)
        yield Note(f"{text[0].upper()}{text[1:]}.")


def describe_not_assessable(gap: Gap) -> str:
    """List the groups that a gap excludes: ``not assessable for: B (24)``; empty if there are none."""
    return f"not assessable for: {list_counts(gap.not_assessable)}" if gap.not_assessable else ""


def describe_bounds(gap: Gap) -> str:
    """Describe the bounds of a gap between groups known by probability; empty if there are none."""
    if gap.bounds is None:
        return ""
    ends = f"{gap.bounds.low:.2f} to {gap.bounds.high:.2f}"
    return f"without the assumption that decisions do not depend on the group at equal probabilities: {ends}"


def confidence_levels(result: GroupedResult) -> str:
    """Return the confidence level of the intervals, as ``95 %``."""
    quantities = (number.quantity for number in result.numbers())
    levels = {quantity.confidence for quantity in quantities if isinstance(quantity, Sampled)}
    return " or ".join(format_level(level) for level in sorted(levels))


def label_notes(result: GroupMetrics) -> Iterator[Note]:
    """Yield a caution if true labels (or numbers) are selective, for all people or by an attribute."""
    truth = "label" if result.outcome is None else "number"
    single = [breakdown for breakdown in result.breakdowns if len(breakdown.by) == 1]
    cautions = {f"by {breakdown.by[0]}": describe_selective(breakdown.groups) for breakdown in single}
    if result.everyone.caution():
        cautions = {"everyone": result.everyone.caution()}
    counts = [f"{about}: {caution.removeprefix(PREFIX)}" for about, caution in cautions.items() if caution]
    if counts:
        yield Note(
            f"Selective labels ({'; '.join(counts)}). All numbers that need true {truth}s only describe people with a "
            f"true {truth}, and may be very different for the others.",
            "caution",
        )


def small_group_notes(result: GroupedResult) -> Iterator[Note]:
    """Yield the groups that are too small for gaps, and those where a custom metric is unknown."""
    for breakdown in result.breakdowns:
        start = f"Not assessable by {join_names(breakdown.by)}"
        small = {group.label: group.size for group in breakdown.groups if group.small}
        if small:
            people = format_count(sum(small.values()), *result.members)
            yield Note(
                f"{start}: {result.too_few}, excluded from the gaps: {list_counts(small)}",
                "caution",
                f"{start}: {format_count(len(small), 'group', 'groups')} of {result.too_few}, {people} in all.",
            )
        for gap in breakdown.gaps:
            undefined = {label: n for label, n in gap.not_assessable.items() if label not in small}
            if undefined and gap.name not in METRICS:  # the gap of a custom metric is not in the summary
                text = f"{gap.name} leaves out {list_counts(undefined)}"
                yield Note(
                    f"{start}: {text}, where {gap.metric} is unknown or too few people have a true label", "caution"
                )


def overall_table(result: GroupMetrics) -> Table:
    """Build the table of the metrics of all people."""
    names = order_names(result.overall)
    return Table(
        f"All people together, observed{unit_and_weights(result)}; with {confidence_levels(result)} intervals",
        (Column("metric"), Column("value", numeric=True)),
        tuple(
            TableRow((title_metric(name), show_metric(name, result.overall[name])), result.everyone.caution(name))
            for name in names
        ),
        usual="observed",
        tiles=not any(result.everyone.caution(name) for name in names),
    )


def title_metric(name: str) -> str:
    """Return the title of a metric; custom metrics have their name."""
    return metric_spec(name).heading


def show_metric(name: str, quantity: Quantity, *, basis: str | None = None) -> ReportedNumber:
    """Format a metric or a gap."""
    return show_quantity(quantity, metric_spec(name).name, basis=basis)


ShowNumber: TypeAlias = Callable[[str, Quantity], ReportedNumber]
"""Function that formats a metric or a gap, given its name and value."""


def title_gap(gap: Gap) -> str:
    """Describe the comparison of a gap, and its label."""
    name, _, comparison = (METRICS[gap.name].heading if gap.name in METRICS else f"{gap.metric}: {RANGE}").partition(
        ": "
    )
    if gap.reference:
        metric = metric_spec(gap.metric).title
        verb = "divided by" if gap.name in LOWER_IS_WORSE else "furthest from"
        comparison = f"{f'{metric} ' if metric in comparison else ''}{verb} that of {gap.reference}"
    title, label = f"{name}: {comparison}", gap.label or gap.largest_at
    if not label:
        return title
    if gap.name == "selection_ratio":
        return f"{name} at {int(label):,}: {comparison}"
    label = f"at least {label}" if gap.name == "cut_difference" else label
    return f"{title} ({label})" if gap.label else f"{title}; largest: {label}"


def gap_table(caption: str, gaps: Sequence[Gap], show: ShowNumber = show_metric) -> Iterator[Table]:
    """Yield a table with one row per gap; nothing without gaps."""
    if not gaps:
        return
    yield Table(
        caption,
        (Column("comparison"), Column("gap", numeric=True), Column("highest"), Column("lowest")),
        tuple(
            TableRow(
                (title_gap(gap), show(gap.name, gap.value), gap.best, gap.worst),
                "; ".join(part for part in (describe_not_assessable(gap), gap.caution, describe_bounds(gap)) if part),
            )
            for gap in gaps
        ),
        usual="observed",
    )


def reference_table(result: GroupMetrics, breakdown: Breakdown) -> Iterator[Table]:
    """Yield the difference of each group from the reference; nothing without a reference.

    Gaps of single labels are omitted.
    """
    single = [gap for gap in breakdown.gaps if gap.by_group and not (gap.label or gap.largest_at)]
    gaps = {title_metric(gap.name).partition(":")[0]: gap for gap in single}
    if not gaps:
        return
    reference = next(gap.reference for gap in gaps.values())

    def row(label: str) -> TableRow:
        quantities = [(gap.name, gap.by_group.get(label)) for gap in gaps.values()]
        return TableRow((label, *("-" if value is None else show_metric(name, value) for name, value in quantities)))

    yield Table(
        f"Every group compared with {reference} by {join_names(breakdown.by)}, observed{unit_and_weights(result)}: its "
        f"value minus that of {reference} (ratio: divided by it), each with its simultaneous "
        f"{confidence_levels(result)} interval",
        (Column(join_names(breakdown.by)), *(Column(name, numeric=True) for name in gaps)),
        tuple(row(group.label) for group in breakdown.listed if group.label != reference),
        usual="observed",
        order="lowest selection rate first",
    )


def group_table(
    caption: str,
    result: GroupedResult,
    breakdown: Breakdown,
    columns: Mapping[str, tuple[str, str]],
    show: ShowNumber = show_metric,
    order: str = "lowest selection rate first",
) -> Iterator[Table]:
    """Yield a table with one row per group; nothing without columns. With weights, it has a column of effective sizes.

    ``columns`` maps titles to the label (empty for metrics over all labels) and the name of a number.
    """
    if not columns:
        return
    effective = () if result.weights is None else ("effective size",)

    def row(group: Group) -> TableRow:
        notes = f"{result.too_few}: excluded from the gaps" if group.small and breakdown.gaps else "", group.caution()
        texts: list[ReportedNumber | str | int] = [group.label, group.size]
        texts += [f"{group.effective_size or 0:,.0f}" for _ in effective]
        for label, name in columns.values():
            numbers = group.rates[label] if label else group.metrics
            texts.append(show(name, numbers[name]) if name in numbers else "")
        return TableRow(tuple(texts), "; ".join(filter(None, notes)), faint=group.small)

    yield Table(
        caption,
        (
            Column(join_names(breakdown.by)),
            Column(result.members[1], numeric=True),
            *(Column(title, numeric=True) for title in (*effective, *columns)),
        ),
        tuple(map(row, breakdown.listed)),
        usual="observed",
        order=order,
    )


def metric_columns(breakdown: Breakdown) -> dict[str, tuple[str, str]]:
    """Return the columns of ``group_table`` for all metrics of the groups."""
    names = order_names({name: None for group in breakdown.groups for name in group.metrics})
    return {title_metric(name): ("", name) for name in names}
