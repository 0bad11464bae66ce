"""Documents of group metrics: gaps first, then the metrics of each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from evenhand.core.document import (
    PAGE_ROWS,
    Block,
    Column,
    Document,
    Figure,
    Fold,
    Heading,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_level, join_names
from evenhand.groups.breakdown import Breakdown, ProxyRates
from evenhand.groups.result import GroupMetrics, LabelSet
from evenhand.groups.wording.gaps import describe_decisions, gap_answers, gap_sentences
from evenhand.groups.wording.tables import (
    ShowNumber,
    confidence_levels,
    gap_table,
    group_table,
    label_notes,
    left_out_notes,
    metric_columns,
    overall_table,
    reference_table,
    show_metric,
    small_group_notes,
    unit_and_weights,
    weighted_by,
)
from evenhand.groups.wording.thresholds import describe_limit, threshold_blocks
from evenhand.stats.metric_specs import RATE_TITLES
from evenhand.stats.quantity import Estimated, Observed, Quantity, show_quantity

DRAWN = 40
"""Maximum number of groups in a figure."""

DOTS = "Dots: the rate, with its interval."
BASE_RATES = " Short upright lines: the base rate, the share whose true label is favourable."
DASHED = " Dashed line: four fifths of the highest selection rate."


def build_document(result: GroupMetrics) -> Document:
    """Build the document of group metrics."""
    people = format_count(result.people, "person", "people")
    return Document(
        f"{result.target or 'Groups'} of {people}",
        describe_decisions(result),
        (
            *rule_notes(result),
            *label_notes(result),
            *(Text(sentence, role="finding") for sentence in gap_sentences(result)),
            *gap_answers(result),
            *small_group_notes(result),
            *(() if result.label_set is None else (Text(label_terms(result.label_set), role="small"),)),
            Heading("Overall", detail=True),
            *metric_blocks(result, level=2),
        ),
        brand="Evenhand groups",
    )


def label_terms(labels: LabelSet) -> str:
    """Define the terms of the first screen."""
    terms = "Macro recall: the mean true positive rate of all labels."
    return f"Share given at least a grade: that grade or a higher one. {terms}" if labels.ordered else terms


def metric_blocks(result: GroupMetrics, *, level: int) -> Iterator[Block]:
    """Yield the metrics of all people; figures, gaps and metrics for each attribute; calibration; and thresholds."""
    if result.overall:
        yield overall_table(result)
    interval = _describe_intervals(result)
    for breakdown in result.breakdowns:
        yield from _breakdown_blocks(result, breakdown, interval, level=level)
    yield from proxy_blocks(result.proxies, weighted_by(result), level=level)
    yield from _calibration_blocks(result, level=level)
    if result.thresholds is not None:
        yield Heading("Other thresholds", level, anchor="thresholds", detail=True)
        yield from label_notes(result)
        yield from threshold_blocks(result.thresholds)


def proxy_blocks(proxies: Sequence[ProxyRates], weighted: str, *, level: int) -> Iterator[Block]:
    """Yield rates and gaps for each attribute known by probability: estimates, their assumption, and bounds."""
    for part in proxies:
        yield Heading(f"By {part.by[0]}, known only as a probability", level, detail=True)
        yield Note(part.assumption, "caution")
        yield from left_out_notes(part.unknown, part.by)
        yield _rate_table(part, weighted)
        yield from gap_table(f"Gap by {part.by[0]}, estimated from probabilities{weighted}", part.gaps)


def _rate_table(part: ProxyRates, weighted: str) -> Table:
    rates = [group.metrics["selection_rate"] for group in part.groups]
    level = next((rate.confidence for rate in rates if isinstance(rate, Estimated)), 0.95)
    titles = ("expected people", "effective size", "under the assumption", "without the assumption")
    return Table(
        f"Selection rate by {part.by[0]}, estimated from probabilities{weighted}, each with its "
        f"{format_level(level)} interval",
        (Column(part.by[0]), *(Column(title, numeric=True) for title in titles)),
        tuple(
            TableRow(
                (
                    group.label,
                    group.size,
                    f"{group.effective_size:,.0f}",
                    show_quantity(rate, "rate", basis=f"on {part.people:,} people"),
                    " to ".join(f"{100 * end:.1f}" for end in group.bounds or ()) + " %",
                ),
                "effective size too small: in no difference" if group.small else "",
                faint=group.small,
            )
            for group, rate in zip(part.groups, rates, strict=True)
        ),
        usual="estimated",
    )


def _breakdown_blocks(result: GroupMetrics, breakdown: Breakdown, interval: str, *, level: int) -> Iterator[Block]:
    """Yield the figures, the gaps and all metrics by the given attributes, then those of each label."""
    by, target = join_names(breakdown.by), result.target
    yield Heading(f"{target} by {by}" if result.label_set else f"By {by}", level, detail=True)
    yield from left_out_notes(breakdown.unknown, breakdown.by)
    yield from _breakdown_figures(result, breakdown)
    tables = [
        *gap_table(f"Gaps by {by}, {interval}", [gap for gap in breakdown.gaps if not gap.label]),
        *reference_table(result, breakdown),
        *group_table(f"Metrics by {by}: {interval}", result, breakdown, metric_columns(breakdown)),
    ]
    yield Fold(f"Gaps and all numbers by {by}", tuple(tables))
    if result.everyone.rates:
        caption = f"Gaps of every label by {by}, {interval}"
        tables = [*gap_table(caption, [gap for gap in breakdown.gaps if gap.label])]
        for name, title in RATE_TITLES.items():
            labels = [label for label, rates in result.everyone.rates.items() if name in rates]
            columns = {label: (label, name) for label in labels}
            tables += group_table(f"Each label, {title}: {interval}", result, breakdown, columns)
        yield Fold(f"All numbers of every label by {by}", tuple(tables))


def _describe_intervals(result: GroupMetrics) -> str:
    """Describe the numbers of a table as a part of its caption."""
    return f"observed{unit_and_weights(result)}, each with its {confidence_levels(result)} interval"


def _breakdown_figures(result: GroupMetrics, breakdown: Breakdown) -> Iterator[Figure]:
    """Yield the figures of the rates of the groups, or of the shares given each label; nothing for numbers."""
    by, labels = join_names(breakdown.by), result.label_set
    if labels is not None:
        noun, share = ("grade", "share given this or a higher grade") if labels.ordered else ("label", "share given it")
        small = f" Hollow: groups of fewer than {result.min_group_size} people, which are not compared."
        yield Figure("label shares", f"Every {noun} by {by}: {share}, with its interval.{small}", result, (by,))
        if len(breakdown.by) == 1 and result.everyone.confusion:
            yield Figure(
                "confusion by group",
                f"True and assigned {labels.target} by {by}: the percentage of people with a true label (row) who are "
                "assigned each label. Blue: the true label. The JSON contains the numbers of people.",
                result,
                (by,),
            )
    elif result.outcome is None:
        text = DOTS + (BASE_RATES if any("base_rate" in group.metrics for group in breakdown.groups) else "") + DASHED
        if any(group.small for group in breakdown.groups):
            text += f" Hollow and grey: fewer than {result.min_group_size} people."
        text += "" if result.weights is None else f" Weighted by {result.weights}."
        if len(breakdown.groups) > DRAWN:
            text += (
                f" Only {DRAWN} of {len(breakdown.groups)} groups are drawn: those with the highest and the lowest "
                "selection rates; the JSON has all."
            )
        yield Figure("group rates", text, breakdown)


def overview_figure(result: GroupMetrics) -> Iterator[Figure]:
    """Yield a figure of the selection rates, or of the means of numeric decisions, for each attribute."""
    name, what, line = "selection_rate", "selection rate", DASHED
    if result.outcome is not None:
        name, what, line = "mean", f"mean {result.outcome.name}", ""
    single = [breakdown for breakdown in result.breakdowns if len(breakdown.by) == 1]
    if any(isinstance(group.metrics.get(name), Observed) for breakdown in single for group in breakdown.groups):
        text = f"Dots: the {what} of each group, with its {confidence_levels(result)} interval.{line}"
        yield Figure("overview", f"{text} Grey: fewer than {result.min_group_size} people.", result)


def _calibration_blocks(result: GroupMetrics, *, level: int) -> Iterator[Block]:
    """Yield the calibration for each attribute; nothing without scores or true values."""
    if not result.calibration:
        return
    yield Heading("Calibration by group", level, detail=True)
    columns = {"mean score": ("", "mean_score"), "observed rate": ("", "base_rate")}
    show: ShowNumber = _show_rate
    if result.outcome is None:
        yield from label_notes(result)
    else:
        columns, show = {"mean decided": ("", "mean"), "mean true": ("", "true_mean")}, show_metric
        yield Text(
            f"Among people with a similar {result.outcome.name}, the true values should be equally high in every "
            f"group. People are binned by the deciles of {result.outcome.name} over all people."
        )
    for breakdown in result.calibration:
        by = join_names(breakdown.by)
        if result.outcome is None:
            yield Figure(
                "calibration",
                f"Calibration by {by}: the observed rate of the favourable label among people with similar scores, "
                "with its interval. On the dashed line, scores equal observed rates. Grey: fewer than "
                f"{result.min_group_size} people.",
                result,
                (by,),
            )
        if len(breakdown.groups) > PAGE_ROWS:
            sizes = Counter[str]()
            for group in breakdown.groups:
                sizes[group.label] += group.size
            groups = sorted(breakdown.groups, key=lambda group: -sizes[group.label])
            breakdown = breakdown.model_copy(update={"groups": tuple(groups)})
        caption = f"Calibration by {by}: {_describe_intervals(result)}"
        table = group_table(caption, result, breakdown, columns, show, order="the largest groups first")
        yield Fold(f"Calibration by {by} in numbers", tuple(table))


def _show_rate(_: str, quantity: Quantity) -> ReportedNumber:
    """Format a mean score as a rate, so that it can be compared with the observed rate."""
    return show_quantity(quantity, "rate")


def rule_notes(result: GroupMetrics) -> Iterator[Note]:
    """Yield notes about favourable low scores and the threshold of the audit."""
    if result.low_is_good:
        yield Note("Low scores are favourable here. Scores of the favourable decision are 1 minus the original scores.")
    if result.decided_by is not None:
        limit = describe_limit(f"{result.decided_by.value:g}", result.decided_by)
        yield Note(f"Decisions are made from the score: selected {limit}.")
