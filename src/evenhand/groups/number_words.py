"""What is said of numbers by group: whose are higher, by how much, and how far they are from the true ones."""

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
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, join_names
from evenhand.groups.breakdown import Breakdown, Gap
from evenhand.groups.gaps import format_not_assessable, small_group_notes
from evenhand.groups.label_coverage import find_caution
from evenhand.groups.result import GroupMetrics, NumberOutcome, confidence_levels, label_notes, weighted_by
from evenhand.stats.metric_specs import NUMBER_GAP_TITLES, NUMBER_TITLES
from evenhand.stats.quantity import Observed, Unknown, format_ends, format_value, quantity_value, show_quantity


def build_document(result: GroupMetrics) -> Document:
    """Return what the numbers of groups say: gaps first, then every group."""
    outcome = _outcome(result)
    return Document(
        f"{outcome.name} of {format_count(result.people, 'person', 'people')}",
        describe_outcome(result),
        (
            *label_notes(result.label_coverage, result.breakdowns, truth="number"),
            *(Text(sentence, role="finding") for sentence in number_sentences(result)),
            *number_answers(result),
            *small_group_notes(result.breakdowns, result.min_group_size),
            *number_blocks(result, level=2),
        ),
        brand="Evenhand groups",
        made=result.provenance,
    )


def describe_outcome(result: GroupMetrics) -> str:
    """Say that a number is decided, and what people want of it."""
    outcome = _outcome(result)
    wanted = {"higher": "; people want it to be high", "lower": "; people want it to be low"}
    unit = "" if outcome.unit is None else f" in {outcome.unit}"
    return f"{outcome.name} is a number{unit}{wanted.get(result.favourable, '')}"


def number_sentences(result: GroupMetrics) -> list[str]:
    """Return whose numbers are higher on average than whose, the largest gap first: one sentence per attribute."""
    outcome, found = _outcome(result), []
    for breakdown in result.breakdowns:
        gap = breakdown.gap("mean_difference")
        if gap is None or isinstance(gap.value, Unknown) or gap.value.value == 0:
            continue
        by_label = {group.label: group for group in breakdown.groups}
        means = [by_label[label].metrics["mean"] for label in (gap.best, gap.worst)]
        shown = " against ".join(
            f"{format_value(mean, 'mean')}{_unit(outcome)}" for mean in means if not isinstance(mean, Unknown)
        )
        high, low = by_label[gap.best], by_label[gap.worst]
        names = [" and ".join(f"{name} {value}" for name, value in group.values.items()) for group in (high, low)]
        sure = " The interval of the gap reaches 0." if getattr(gap.value, "low", 0.0) <= 0 else ""
        found.append(
            (
                -gap.value.value,
                f"The mean {outcome.name} of people with {names[0]} is {format_value(gap.value, gap.name)}"
                f"{_unit(outcome)} above that of people with {names[1]} ({shown}; {high.size:,} and {low.size:,} "
                f"people{weighted_by(result)}).{sure}",
            )
        )
    return [sentence for _, sentence in sorted(found)]


def number_answers(result: GroupMetrics) -> list[Metric]:
    """Return the gap of the means by each protected attribute, and by all of them together."""
    return [_gap_answer(breakdown, result) for breakdown in result.breakdowns]


def number_blocks(result: GroupMetrics, *, level: int) -> Iterator[Block]:
    """Yield everybody's numbers, then drawing, gaps and numbers by each attribute, and calibration."""
    outcome, levels = _outcome(result), confidence_levels(result)
    yield Table(
        f"Everybody together, observed{_in_unit(result)}; with {levels} intervals",
        (Column("metric"), Column("value", numeric=True)),
        tuple(
            TableRow((NUMBER_TITLES[name], show_quantity(result.overall[name], name)), result.label_caution(name))
            for name in NUMBER_TITLES
            if name in result.overall
        ),
        usual="observed",
        tiles=not find_caution(result.label_coverage),
    )
    for breakdown in result.breakdowns:
        yield from _breakdown_blocks(result, breakdown, outcome, level)
    if result.calibration:
        yield Heading("Calibration by group", level, detail=True)
        yield Text(
            f"Where people are given a similar {outcome.name}, the true one should be as high in every group. People "
            f"are taken together by the tenths of everybody's {outcome.name}."
        )
        for by in dict.fromkeys(one.by for one in result.calibration):
            yield Fold(f"Calibration by {by} in numbers", (_calibration_table(result, by),))


def _breakdown_blocks(
    result: GroupMetrics, breakdown: Breakdown, outcome: NumberOutcome, level: int
) -> Iterator[Block]:
    by, levels = join_names(breakdown.by), confidence_levels(result)
    yield Heading(f"By {by}", level, detail=True)
    if len(breakdown.by) == 1:
        yield Figure(
            "number quantiles",
            f"Quantile curves of {outcome.name} by {by}{_in_unit(result)}: how high it is at most for a share of the "
            f"people. Groups of fewer than {result.min_group_size} people are not drawn, of many the five largest.",
            result,
            (by,),
        )
    if breakdown.gaps:
        yield Table(
            f"Gaps by {by}, observed{_in_unit(result)}; below each its {levels} interval",
            (Column("what is compared"), Column("gap", numeric=True), Column("highest"), Column("lowest")),
            tuple(
                TableRow(
                    (NUMBER_GAP_TITLES[gap.name], show_quantity(gap.value, gap.name), gap.best, gap.worst),
                    "; ".join(part for part in (format_not_assessable(gap), gap.caution) if part),
                )
                for gap in breakdown.gaps
            ),
            usual="observed",
        )
    names = [name for name in NUMBER_TITLES if any(name in group.metrics for group in breakdown.groups)]
    too_few = f"fewer than {result.min_group_size} people: in no gap"
    table = Table(
        f"Numbers by {by}: observed{_in_unit(result)}; below each its {levels} interval",
        (Column(by), Column("people", numeric=True), *(Column(NUMBER_TITLES[name], True) for name in names)),
        tuple(
            TableRow(
                (group.label, group.size, *(show_quantity(group.metrics[name], name) for name in names)),
                "; ".join(
                    part for part in (too_few if group.small else "", find_caution(group.label_coverage)) if part
                ),
                faint=group.small,
            )
            for group in breakdown.groups
        ),
        usual="observed",
    )
    yield Fold(f"All numbers by {by}", (table,))


def _calibration_table(result: GroupMetrics, by: str) -> Table:
    rows = tuple(
        TableRow(
            (one.group, one.n, _plain_number(one.mean_score, one.base_rate), show_quantity(one.base_rate, "true_mean")),
            faint=one.n < result.min_group_size,
        )
        for one in result.calibration
        if one.by == by
    )
    columns = (
        Column(by),
        Column("people", numeric=True),
        Column("mean decided", numeric=True),
        Column("mean true", numeric=True),
    )
    caption = f"Calibration by {by}: observed{_in_unit(result)}; below each its {confidence_levels(result)} interval"
    return Table(caption, columns, rows, usual="observed")


def _plain_number(number: float, like: Observed | object) -> ReportedNumber:
    """Return a number without an interval, with the digits of one that has one."""
    shown = f"{number:,.4g}"
    if isinstance(like, Observed):
        shown = format_value(like.model_copy(update={"value": number}), "true_mean")
    return ReportedNumber(shown, number, "observed")


def _gap_answer(breakdown: Breakdown, result: GroupMetrics) -> Metric:
    about, name = join_names(breakdown.by), "gap of the means"
    gap = breakdown.gap("mean_difference")
    if gap is None or isinstance(gap.value, Unknown):
        least = result.min_group_size
        reason = gap.value.reason if gap is not None and isinstance(gap.value, Unknown) else "there is one group only"
        return Metric(
            name,
            ReportedNumber("-", kind="unknown", basis=f"not computable: {reason}"),
            about=about,
            next_step=f"bring at least {least} people of each group",
        )
    notes = [f"highest: {gap.best}; lowest: {gap.worst}{_in_unit(result)}"]
    distance = breakdown.gap("wasserstein_distance")
    if distance is not None and isinstance(distance.value, Observed):
        ends = format_ends(distance.value, distance.name)
        notes.append(f"Wasserstein distance: {format_value(distance.value, distance.name)} ({ends})")
    if gap.not_assessable:
        notes.append(format_not_assessable(gap))
    return Metric(
        name, show_quantity(gap.value, gap.name), tuple(notes), about=about, next_step=_next_step(breakdown, gap)
    )


def _next_step(breakdown: Breakdown, gap: Gap) -> str:
    if getattr(gap.value, "low", 0.0) <= 0:
        return "too few people to tell the gap from chance; more would narrow the interval"
    residual = breakdown.gap("residual_difference")
    if residual is None:
        return "bring the true numbers to see whether the gap is there too"
    if quantity_value(residual.value) is not None and getattr(residual.value, "low", 0.0) > 0:
        return "the errors differ too: one group is given more than is true, against the other"
    return "the true numbers differ alike; ask whether they carry past discrimination"


def _outcome(result: GroupMetrics) -> NumberOutcome:
    assert result.outcome is not None
    return result.outcome


def _unit(outcome: NumberOutcome) -> str:
    return "" if outcome.unit is None else f" {outcome.unit}"


def _in_unit(result: GroupMetrics) -> str:
    unit = _outcome(result).unit
    return ("" if unit is None else f", in {unit}") + weighted_by(result)
