"""Document of several labels or grades: gaps between groups, the rates of each label, and confusion matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from evenhand.core.document import (
    Block,
    Document,
    Figure,
    Fold,
    Heading,
    Metric,
    ReportedNumber,
    Table,
    Text,
)
from evenhand.core.text import format_count, join_names, list_some
from evenhand.groups.breakdown import Breakdown, Gap, Group
from evenhand.groups.result import LabelMetrics
from evenhand.groups.wording.tables import (
    advise,
    confidence_levels,
    gap_answer,
    gap_sentences,
    gap_table,
    group_table,
    label_notes,
    left_out_notes,
    metric_columns,
    overall_table,
    small_group_notes,
    weighted_by,
)
from evenhand.stats.metric_specs import RATE_TITLES
from evenhand.stats.quantity import Quantity, Unknown, format_value, show_quantity

ADVICE = (
    "provide the true labels to see whether they have the same gap",
    "accuracy differs too; the confusions show the assigned labels",
    "ask whether the true labels carry past discrimination",
)
"""Next step if the errors are unknown, differ, or do not differ between the groups."""


def build_document(result: LabelMetrics) -> Document:
    """Build the document of several labels or grades."""
    return Document(
        f"{result.target} of {format_count(result.people, 'person', 'people')}",
        describe_labels(result),
        (
            *label_notes(result),
            *(Text(sentence, role="finding") for sentence in label_sentences(result)),
            *label_answers(result),
            *small_group_notes(result),
            Text(label_terms(result), role="small"),
            *label_blocks(result, level=2),
        ),
        brand="Evenhand groups",
        made=result.provenance,
    )


def describe_labels(result: LabelMetrics) -> str:
    """List the labels, or the grades in their order."""
    if result.ordered:
        return f"{result.target} is a grade, worst first: {list_some(result.labels)}"
    count = format_count(len(result.labels), "label", "labels")
    return f"{result.target} is one of {count}, none of them favourable: {list_some(result.labels)}"


def label_terms(result: LabelMetrics) -> str:
    """Define the terms of the first screen."""
    terms = "Macro recall: the mean true positive rate of all labels."
    return f"Share given at least a grade: that grade or a higher one. {terms}" if result.ordered else terms


def label_sentences(result: LabelMetrics) -> list[str]:
    """Name the label with the largest gap, one sentence for each attribute, the largest gap first."""

    def describe(gap: Gap, high: Group, low: Group) -> str:
        shares = " against ".join(_format_share(result, group, gap.largest_at) for group in (high, low))
        number = show_quantity(gap.value, gap.name)
        return (
            f"{result.target} {'at least' if result.ordered else '='} {gap.largest_at} is given to people with "
            f"{high.description} more often than to people with {low.description} ({shares}; gap "
            f"{', '.join(filter(None, (number.text, number.interval)))}; {high.size:,} and {low.size:,} people"
            f"{weighted_by(result)})."
        )

    return gap_sentences(result.breakdowns, lambda breakdown: _main_gap(result, breakdown), describe)


def label_answers(result: LabelMetrics) -> Iterator[Metric]:
    """Yield the metrics of the summary: the largest gap over all labels by each attribute."""
    name = f"largest gap in the share given {'at least one grade' if result.ordered else 'one label'}"
    for breakdown in result.breakdowns:
        gap, notes = _main_gap(result, breakdown), []
        if gap is not None:
            label = f"at least {gap.largest_at}" if result.ordered else gap.largest_at
            notes = [f"{label}; highest: {gap.best}; lowest: {gap.worst}{weighted_by(result)}"]
        next_step = advise(gap, breakdown.gap("label_accuracy_difference"), ADVICE)
        yield gap_answer(name, gap, breakdown, notes, next_step, result.min_group_size)


def label_blocks(result: LabelMetrics, *, level: int) -> Iterator[Block]:
    """Yield the labels of all people, then gaps, rates and confusion matrices by each attribute."""
    overall, levels = result.overall, confidence_levels(result)
    if overall.metrics:
        yield overall_table(result, overall.metrics, weighted_by(result))
    for breakdown in result.breakdowns:
        yield from _breakdown_blocks(result, breakdown, level, levels)


def _breakdown_blocks(result: LabelMetrics, breakdown: Breakdown, level: int, levels: str) -> Iterator[Block]:
    by, noun = join_names(breakdown.by), "grade" if result.ordered else "label"
    yield Heading(f"{result.target} by {by}", level, anchor=f"labels-by-{by}", detail=True)
    yield from left_out_notes(breakdown.unknown, breakdown.by)
    share = "share given this or a higher grade" if result.ordered else "share given it"
    small = f" Hollow: groups of fewer than {result.min_group_size} people, which are not compared."
    yield Figure("label shares", f"Every {noun} by {by}: {share}, with its interval.{small}", result, (by,))
    interval = f"observed{weighted_by(result)}, each with its {levels} interval"
    if breakdown.gaps:
        yield gap_table(f"Gaps by {by}, {interval}", [gap for gap in breakdown.gaps if not gap.label])
        title = f"Gaps of every {noun} by {by}"
        yield Fold(title, (gap_table(f"{title}, {interval}", [gap for gap in breakdown.gaps if gap.label]),))
    if len(breakdown.by) == 1 and result.overall.confusion:
        yield Figure(
            "confusion by group",
            f"True and assigned {result.target} by {by}: the percentage of people with a true label (row) who are "
            "assigned each label. Blue: the true label. The JSON has the numbers of people.",
            result,
            (by,),
        )
    if any(group.metrics for group in breakdown.groups):
        caption = f"Agreement with the true {result.target} by {by}: {interval}"
        yield group_table(caption, result, breakdown, metric_columns(breakdown))
    yield Fold(f"All rates by {by}", tuple(_rate_tables(result, breakdown, levels)))


def _rate_tables(result: LabelMetrics, breakdown: Breakdown, levels: str) -> Iterator[Table]:
    """Yield a table of each rate, with groups as rows and labels as columns."""
    suffix = f"observed{weighted_by(result)}, each with its {levels} interval"

    def column(label: str, name: str) -> Callable[[Group], ReportedNumber | str]:
        return lambda group: show_quantity(group.rates[label][name], name)

    for name, title in RATE_TITLES.items():
        columns = {label: column(label, name) for label in result.labels if name in result.overall.rates[label]}
        if columns:
            yield group_table(f"Each label, {title}: {suffix}", result, breakdown, columns)


def _main_gap(result: LabelMetrics, breakdown: Breakdown) -> Gap | None:
    return breakdown.gap("cut_difference" if result.ordered else "label_share_difference")


def _format_share(result: LabelMetrics, group: Group, label: str) -> str:
    share: Quantity = group.rates[label]["at_least" if result.ordered else "label_share"]
    return "unknown" if isinstance(share, Unknown) else format_value(share, "rate")
