"""What is said of several labels by group: which label is given more often to whom, and how they are confused."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Figure,
    Fold,
    Heading,
    Metric,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_level, format_percent, join_names, list_some
from evenhand.groups.gaps import format_not_assessable, small_group_notes
from evenhand.groups.label_coverage import find_caution
from evenhand.groups.label_result import LabelBreakdown, LabelGap, LabelGroup, LabelMetrics
from evenhand.groups.result import label_notes
from evenhand.stats.metric_specs import LABEL_GAP_TITLES, LABEL_TITLES, RATE_TITLES
from evenhand.stats.quantity import Observed, Quantity, Unknown, format_ends, format_value, show_quantity

MOST_CELLS = 12
"""Labels of which a table of confusions is printed; the JSON has all."""


def build_document(result: LabelMetrics) -> Document:
    """Return what the labels of groups say: gaps first, then every group."""
    return Document(
        f"{result.target} of {format_count(result.people, 'person', 'people')}",
        describe_labels(result),
        (
            *label_notes(result.overall.label_coverage, result.breakdowns),
            *(Text(sentence, role="finding") for sentence in label_sentences(result)),
            *label_answers(result),
            *small_group_notes(result.breakdowns, result.min_group_size),
            Text(label_terms(result), role="small"),
            *label_blocks(result, level=2),
        ),
        brand="Evenhand groups",
        made=result.provenance,
    )


def describe_labels(result: LabelMetrics) -> str:
    """Say what is decided: which labels there are, and in which order."""
    if result.ordered:
        return f"{result.target} is a grade, worst first: {list_some(result.labels)}"
    count = format_count(len(result.labels), "label", "labels")
    return f"{result.target} is one of {count}, none of them favourable: {list_some(result.labels)}"


def label_terms(result: LabelMetrics) -> str:
    """Return what the words of the first screen mean."""
    said = (
        "Total variation distance: the share of one group that must be given another label for both groups to have the "
        "same labels as often. Macro recall: the mean true positive rate of all labels."
    )
    if not result.ordered:
        return said
    return (
        "Share given at least a grade: that grade or a higher one. Probability of superiority: how often a person of "
        "one group has a higher grade than one of another, ties counted half; 0.5 if neither. "
    ) + said


def label_sentences(result: LabelMetrics) -> list[str]:
    """Return at which label two groups are furthest apart, the largest gap first: one sentence per attribute."""
    found = []
    for breakdown in result.breakdowns:
        gap = _main_gap(result, breakdown)
        if gap is None or not isinstance(gap.value, Observed) or gap.value.value == 0:
            continue
        by_label = {group.label: group for group in breakdown.groups}
        high, low = by_label[gap.best], by_label[gap.worst]
        shares = " against ".join(_share(result, group, gap.largest_at) for group in (high, low))
        given = f"at least {gap.largest_at}" if result.ordered else f"= {gap.largest_at}"
        sure = " The interval of the gap reaches 0." if gap.value.low <= 0 else ""
        found.append(
            (
                -gap.value.value,
                f"{result.target} {given} is given to people with {_describe(high)} more often than to people with "
                f"{_describe(low)} ({shares}; {high.size:,} and {low.size:,} people).{sure}",
            )
        )
    return [sentence for _, sentence in sorted(found)]


def label_answers(result: LabelMetrics) -> list[Metric]:
    """Return the largest gap over all labels by each protected attribute, and by all of them together."""
    return [_gap_answer(result, breakdown) for breakdown in result.breakdowns]


def label_blocks(result: LabelMetrics, *, level: int) -> Iterator[Block]:
    """Yield everybody's labels, then gaps, rates and confusions by each attribute."""
    everybody, caution = result.overall, find_caution(result.overall.label_coverage)
    levels = _levels(result)
    if everybody.metrics:
        yield Table(
            f"Everybody together, observed; with {levels} intervals",
            (Column("metric"), Column("value", numeric=True)),
            tuple(
                TableRow((title, show_quantity(everybody.metrics[name], name)), caution)
                for name, title in LABEL_TITLES.items()
                if name in everybody.metrics
            ),
            usual="observed",
            tiles=not caution,
        )
    for breakdown in result.breakdowns:
        yield from _breakdown_blocks(result, breakdown, level, levels)


def _breakdown_blocks(result: LabelMetrics, breakdown: LabelBreakdown, level: int, levels: str) -> Iterator[Block]:
    by = join_names(breakdown.by)
    yield Heading(f"{result.target} by {by}", level, anchor=f"labels-by-{by}", detail=True)
    if breakdown.unknown:
        people = format_count(breakdown.unknown, "person", "people")
        yield Note(f"Left out: {people} of unknown {' or '.join(breakdown.by)}.")
    shown = "share given this or a higher grade" if result.ordered else "share given it"
    small = f" Hollow: groups of fewer than {result.min_group_size} people, which are not compared."
    yield Figure(
        "label shares",
        f"Every {'grade' if result.ordered else 'label'} by {by}: {shown}, with its interval.{small}",
        result,
        (by,),
    )
    if breakdown.gaps:
        single = [gap for gap in breakdown.gaps if gap.label]
        yield _gap_table(result, [gap for gap in breakdown.gaps if not gap.label], f"Gaps by {by}", levels)
        title = f"Gaps of every {'grade' if result.ordered else 'label'} by {by}"
        yield Fold(title, (_gap_table(result, single, title, levels),))
    yield from _confusion_blocks(result, breakdown)
    if any(group.metrics for group in breakdown.groups):
        yield _metric_table(result, breakdown, levels)
    yield Fold(f"All rates by {by}", tuple(_rate_tables(result, breakdown, levels)))


def _gap_table(result: LabelMetrics, gaps: list[LabelGap], title: str, levels: str) -> Table:
    rows = tuple(
        TableRow(
            (_title_gap(gap, ordered=result.ordered), show_quantity(gap.value, gap.name), gap.best, gap.worst),
            "; ".join(part for part in (format_not_assessable(gap), gap.caution) if part),
        )
        for gap in gaps
    )
    columns = (Column("what is compared"), Column("gap", numeric=True), Column("highest"), Column("lowest"))
    return Table(f"{title}, observed; below each its {levels} interval", columns, rows, usual="observed")


def _title_gap(gap: LabelGap, *, ordered: bool) -> str:
    """Return what a gap compares, and of which label."""
    title = LABEL_GAP_TITLES[gap.name]
    if gap.reference:
        title = f"{title.partition(':')[0]}: furthest from that of {gap.reference}"
    which = f"at least {gap.label or gap.largest_at}" if gap.name == "cut_difference" else gap.label or gap.largest_at
    if not which:
        return title
    return f"{title} ({which})" if gap.label else f"{title}; largest: {which}"


def _confusion_blocks(result: LabelMetrics, breakdown: LabelBreakdown) -> Iterator[Block]:
    """Yield true and given labels against each other, for groups by one attribute."""
    groups = [group for group in breakdown.groups if group.confusion]
    if not groups:
        return
    by = join_names(breakdown.by)
    yield Figure(
        "confusion by group",
        f"True {result.target} and the one that is given, by {by}: of the people with a true label (row), the share "
        "given each label, in percent. Blue: the true one.",
        result,
        (by,),
    )
    if len(result.labels) > MOST_CELLS:
        return
    tables = []
    for group in groups:
        rows = tuple(
            TableRow((label, sum(row), *(_cell(count, sum(row)) for count in row)))
            for label, row in zip(result.labels, group.confusion, strict=True)
        )
        columns = (
            Column("truly"),
            Column("people", numeric=True),
            *(Column(f"given {label}", numeric=True) for label in result.labels),
        )
        tables.append(Table(f"{breakdown.by[0]} {group.label}: share of each row, and people; observed", columns, rows))
    yield Fold(f"Confusions by {by} in numbers", tuple(tables))


def _cell(count: int, people: int) -> str:
    return f"{format_percent(count / people)} ({count:,})" if people else "-"


def _metric_table(result: LabelMetrics, breakdown: LabelBreakdown, levels: str) -> Table:
    names = [name for name in LABEL_TITLES if any(name in group.metrics for group in breakdown.groups)]
    return Table(
        f"Agreement with the true {result.target} by {join_names(breakdown.by)}: observed; below each its {levels} "
        "interval",
        (
            Column(join_names(breakdown.by)),
            Column("people", numeric=True),
            *(Column(LABEL_TITLES[name], numeric=True) for name in names),
        ),
        tuple(_group_row(result, group, [(group.metrics[name], name) for name in names]) for group in breakdown.groups),
        usual="observed",
    )


def _rate_tables(result: LabelMetrics, breakdown: LabelBreakdown, levels: str) -> Iterator[Table]:
    """Yield a table of every rate: groups down, labels across."""
    by, below = join_names(breakdown.by), f"observed; below each its {levels} interval"
    start = (Column(by), Column("people", numeric=True))
    if result.ordered:
        yield Table(
            f"Share given at least a grade: {below}",
            (*start, *(Column(f"at least {label}", numeric=True) for label in result.labels[1:])),
            tuple(
                _group_row(result, group, [(group.at_least[label], "rate") for label in result.labels[1:]])
                for group in breakdown.groups
            ),
            usual="observed",
        )
    first = breakdown.groups[0].rates[result.labels[0]]
    for name, title in RATE_TITLES.items():
        if name in first:
            yield Table(
                f"Each label, {title}: {below}",
                (*start, *(Column(label, numeric=True) for label in result.labels)),
                tuple(
                    _group_row(result, group, [(group.rates[label][name], "rate") for label in result.labels])
                    for group in breakdown.groups
                ),
                usual="observed",
            )


def _group_row(result: LabelMetrics, group: LabelGroup, numbers: list[tuple[Quantity, str]]) -> TableRow:
    few = f"fewer than {result.min_group_size} people: in no gap" if group.small else ""
    shown = (show_quantity(quantity, name) for quantity, name in numbers)
    detail = "; ".join(part for part in (few, find_caution(group.label_coverage)) if part)
    return TableRow((group.label, group.size, *shown), detail, faint=group.small)


def _gap_answer(result: LabelMetrics, breakdown: LabelBreakdown) -> Metric:
    about, gap = join_names(breakdown.by), _main_gap(result, breakdown)
    what = "share given at least one grade" if result.ordered else "share given one label"
    name = f"largest gap in the {what}"
    if gap is None or isinstance(gap.value, Unknown):
        reason = gap.value.reason if gap is not None and isinstance(gap.value, Unknown) else "there is one group only"
        return Metric(
            name,
            ReportedNumber("-", kind="unknown", basis=f"not computable: {reason}"),
            about=about,
            next_step=f"bring at least {result.min_group_size} people of each group",
        )
    at = f"at least {gap.largest_at}" if result.ordered else gap.largest_at
    notes = [f"{at}; highest: {gap.best}; lowest: {gap.worst}"]
    others = ["total_variation_distance"]
    others += ["probability_of_superiority"] if result.ordered else []
    for other in (breakdown.gap(one) for one in others):
        if other is not None and isinstance(other.value, Observed):
            ends = format_ends(other.value, other.name)
            title = LABEL_GAP_TITLES[other.name].partition(":")[0]
            notes.append(f"{title}: {format_value(other.value, other.name)} ({ends})")
    if gap.not_assessable:
        notes.append(format_not_assessable(gap))
    return Metric(
        name, show_quantity(gap.value, gap.name), tuple(notes), about=about, next_step=_next_step(breakdown, gap)
    )


def _next_step(breakdown: LabelBreakdown, gap: LabelGap) -> str:
    if getattr(gap.value, "low", 0.0) <= 0:
        return "too few people to tell the gap from chance; more would narrow the interval"
    accuracy = breakdown.gap("label_accuracy_difference")
    if accuracy is None:
        return "bring the true labels to see whether the gap is there too"
    if getattr(accuracy.value, "low", 0.0) > 0:
        return "one group is given its true label less often too; the confusions say what instead"
    return "ask whether the true labels carry past discrimination"


def _main_gap(result: LabelMetrics, breakdown: LabelBreakdown) -> LabelGap | None:
    return breakdown.gap("cut_difference" if result.ordered else "label_share_difference")


def _share(result: LabelMetrics, group: LabelGroup, label: str) -> str:
    share = group.at_least[label] if result.ordered else group.rates[label]["label_share"]
    return "unknown" if isinstance(share, Unknown) else format_value(share, "rate")


def _describe(group: LabelGroup) -> str:
    return " and ".join(f"{name} {value}" for name, value in group.values.items())


def _levels(result: LabelMetrics) -> str:
    """Return the confidence of the intervals, as ``95 %``."""
    share = result.overall.rates[result.labels[0]]["label_share"]
    return format_level(share.confidence) if isinstance(share, Observed) else ""
