"""Document of several labels or grades: gaps between groups, the rates of each label, and confusion matrices."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import (
    Block,
    Document,
    Figure,
    Fold,
    Heading,
    Metric,
    Text,
)
from evenhand.core.text import format_count, join_names, list_some
from evenhand.groups.breakdown import Breakdown, Gap, Group
from evenhand.groups.result import GroupMetrics, LabelSet
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
    rate_column,
    small_group_notes,
    weighted_by,
)
from evenhand.stats.metric_specs import RATE_TITLES
from evenhand.stats.quantity import Unknown, format_value, show_quantity

ADVICE = (
    "provide the true labels to see whether they have the same gap",
    "accuracy differs too; the confusions show the assigned labels",
    "ask whether the true labels carry past discrimination",
)
"""Next step if the errors are unknown, differ, or do not differ between the groups."""


def build_document(result: GroupMetrics) -> Document:
    """Build the document of several labels or grades."""
    assert result.label_set is not None
    return Document(
        f"{result.label_set.target} of {format_count(result.people, 'person', 'people')}",
        describe_labels(result.label_set),
        (
            *label_notes(result),
            *(Text(sentence, role="finding") for sentence in label_sentences(result)),
            *label_answers(result),
            *small_group_notes(result),
            Text(label_terms(result.label_set), role="small"),
            *label_blocks(result, level=2),
        ),
        brand="Evenhand groups",
        made=result.provenance,
    )


def describe_labels(labels: LabelSet) -> str:
    """List the labels, or the grades in their order."""
    if labels.ordered:
        return f"{labels.target} is a grade, worst first: {list_some(labels.labels)}"
    count = format_count(len(labels.labels), "label", "labels")
    return f"{labels.target} is one of {count}, none of them favourable: {list_some(labels.labels)}"


def label_terms(labels: LabelSet) -> str:
    """Define the terms of the first screen."""
    terms = "Macro recall: the mean true positive rate of all labels."
    return f"Share given at least a grade: that grade or a higher one. {terms}" if labels.ordered else terms


def label_sentences(result: GroupMetrics) -> list[str]:
    """Name the label with the largest gap, one sentence for each attribute, the largest gap first."""
    assert result.label_set is not None
    labels = result.label_set

    def describe(gap: Gap, high: Group, low: Group) -> str:
        rates = [group.rates[gap.largest_at][labels.share] for group in (high, low)]
        shares = ["unknown" if isinstance(rate, Unknown) else format_value(rate, "rate") for rate in rates]
        number = show_quantity(gap.value, gap.name)
        return (
            f"{labels.target} {'at least' if labels.ordered else '='} {gap.largest_at} is given to people with "
            f"{high.description} more often than to people with {low.description} ({' against '.join(shares)}; gap "
            f"{', '.join(filter(None, (number.text, number.interval)))}; {high.size:,} and {low.size:,} people"
            f"{weighted_by(result)})."
        )

    return gap_sentences(result.breakdowns, labels.gap, describe)


def label_answers(result: GroupMetrics) -> Iterator[Metric]:
    """Yield the metrics of the summary: the largest gap over all labels by each attribute."""
    assert result.label_set is not None
    labels = result.label_set
    name = f"largest gap in the share given {'at least one grade' if labels.ordered else 'one label'}"
    for breakdown in result.breakdowns:
        gap, notes = breakdown.gap(labels.gap), []
        if gap is not None:
            label = f"at least {gap.largest_at}" if labels.ordered else gap.largest_at
            notes = [f"{label}; highest: {gap.best}; lowest: {gap.worst}{weighted_by(result)}"]
        next_step = advise(gap, breakdown.gap("label_accuracy_difference"), ADVICE)
        yield gap_answer(name, gap, breakdown, notes, next_step, result.min_group_size)


def label_blocks(result: GroupMetrics, *, level: int) -> Iterator[Block]:
    """Yield the labels of all people, then gaps, rates and confusion matrices by each attribute."""
    assert result.label_set is not None
    if result.overall:
        yield overall_table(result, weighted_by(result))
    interval = f"observed{weighted_by(result)}, each with its {confidence_levels(result)} interval"
    for breakdown in result.breakdowns:
        yield from _breakdown_blocks(result, result.label_set, breakdown, level, interval)


def _breakdown_blocks(
    result: GroupMetrics, labels: LabelSet, breakdown: Breakdown, level: int, interval: str
) -> Iterator[Block]:
    by, noun = join_names(breakdown.by), "grade" if labels.ordered else "label"
    yield Heading(f"{labels.target} by {by}", level, anchor=f"labels-by-{by}", detail=True)
    yield from left_out_notes(breakdown.unknown, breakdown.by)
    share = "share given this or a higher grade" if labels.ordered else "share given it"
    small = f" Hollow: groups of fewer than {result.min_group_size} people, which are not compared."
    yield Figure("label shares", f"Every {noun} by {by}: {share}, with its interval.{small}", result, (by,))
    if breakdown.gaps:
        yield gap_table(f"Gaps by {by}, {interval}", [gap for gap in breakdown.gaps if not gap.label])
        title = f"Gaps of every {noun} by {by}"
        yield Fold(title, (gap_table(f"{title}, {interval}", [gap for gap in breakdown.gaps if gap.label]),))
    if len(breakdown.by) == 1 and result.overall_confusion:
        yield Figure(
            "confusion by group",
            f"True and assigned {labels.target} by {by}: the percentage of people with a true label (row) who are "
            "assigned each label. Blue: the true label. The JSON has the numbers of people.",
            result,
            (by,),
        )
    if any(group.metrics for group in breakdown.groups):
        caption = f"Agreement with the true {labels.target} by {by}: {interval}"
        yield group_table(caption, result, breakdown, metric_columns(breakdown))
    tables = []
    for name, title in RATE_TITLES.items():
        columns = {label: rate_column(label, name) for label, rates in result.overall_rates.items() if name in rates}
        if columns:
            tables.append(group_table(f"Each label, {title}: {interval}", result, breakdown, columns))
    yield Fold(f"All rates by {by}", tuple(tables))
