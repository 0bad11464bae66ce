"""Documents of group metrics: gaps first, then the metrics of each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from evenhand.core.document import (
    PAGE_ROWS,
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
from evenhand.core.text import format_against, format_count, format_percent, join_names
from evenhand.groups.breakdown import Breakdown, Gap
from evenhand.groups.label_coverage import find_caution
from evenhand.groups.result import CalibrationBin, GroupMetrics
from evenhand.groups.wording.numbers import describe_outcome, number_answers, number_sentences
from evenhand.groups.wording.proxies import proxy_answers, proxy_blocks, proxy_sentences
from evenhand.groups.wording.tables import (
    CHANCE,
    confidence_levels,
    describe_not_assessable,
    gap_answer,
    gap_table,
    group_table,
    is_distinguishable,
    label_notes,
    left_out_notes,
    metric_columns,
    overall_table,
    reference_table,
    small_group_notes,
    unit_and_weights,
    weighted_by,
)
from evenhand.groups.wording.thresholds import describe_rule, threshold_blocks
from evenhand.stats.quantity import (
    Observed,
    Sampled,
    Unknown,
    format_ends,
    format_interval,
    format_value,
    quantity_value,
    show_quantity,
)

FOUR_FIFTHS = 0.8
"""The four-fifths rule: the lowest selection rate should be at least this share of the highest (29 CFR 1607.4 D)."""

DRAWN = 40
"""Maximum number of groups in a figure."""

DOTS = "Dots: the rate, with its interval."
BASE_RATES = " Short upright lines: the base rate, the share whose true label is favourable."
DASHED = " Dashed line: four fifths of the highest selection rate."


def build_document(result: GroupMetrics) -> Document:
    """Build the document of decisions with a favourable label, or of numeric decisions."""
    people, weighted = format_count(result.people, "person", "people"), weighted_by(result)
    if result.outcome is None:
        title = f"Groups of {people}"
        lead = f"Favourable decision: {result.favourable}. People with this decision are called selected."
        sentences = [*headline_sentences(result), *proxy_sentences(result.proxies, weighted)]
        answers = [*gap_answers(result), *proxy_answers(result.proxies, weighted)]
    else:
        title, lead = f"{result.outcome.name} of {people}", describe_outcome(result)
        sentences, answers = number_sentences(result), [*number_answers(result)]
    return Document(
        title,
        lead,
        (
            *rule_notes(result),
            *label_notes(result),
            *(Text(sentence, role="finding") for sentence in sentences),
            *answers,
            *small_group_notes(result),
            Heading("Overall", detail=True),
            *metric_blocks(result, level=2),
        ),
        brand="Evenhand groups",
        made=result.provenance,
    )


def metric_blocks(result: GroupMetrics, *, level: int) -> Iterator[Block]:
    """Yield the metrics of all people, then figures, gaps and metrics by each attribute, calibration and thresholds."""
    yield overall_table(result, unit_and_weights(result))
    for breakdown in result.breakdowns:
        yield from breakdown_blocks(result, breakdown, level=level)
    yield from proxy_blocks(result.proxies, weighted_by(result), level=level)
    yield from calibration_blocks(result, level=level)
    if result.thresholds is not None:
        yield Heading("Other thresholds", level, anchor="thresholds", detail=True)
        yield from label_notes(result)
        yield from threshold_blocks(result.thresholds)


def headline_sentences(result: GroupMetrics) -> list[str]:
    """Compare the lowest with the highest selection rate, one sentence for each attribute.

    The ratio whose interval is furthest from 1 comes first. Differences that may be due to chance come last and are
    marked as such.
    """
    sentences = []
    for breakdown in result.breakdowns:
        ratio, groups = breakdown.gap("demographic_parity_ratio"), {group.label: group for group in breakdown.groups}
        value = None if ratio is None else quantity_value(ratio.value)
        if ratio is None or value is None or value >= 1 or not {ratio.worst, ratio.best} <= groups.keys():
            continue
        lowest, highest = groups[ratio.worst], groups[ratio.best]
        chance = not is_distinguishable(breakdown.gap("demographic_parity_difference"))
        rates = [quantity_value(group.metrics["selection_rate"]) for group in (lowest, highest)]
        comparison = " against ".join(format_percent(rate) for rate in rates if rate is not None)
        interval = f"{format_interval(ratio.value, ratio.name)}; " if isinstance(ratio.value, Sampled) else ""
        sentence = (
            f"People with {lowest.description} are selected {format_against(value, FOUR_FIFTHS)} times as often as "
            f"people with {highest.description} ({interval}{comparison}{weighted_by(result)}; {lowest.size:,} and "
            f"{highest.size:,} people){', which may be chance' if chance else ''}."
        )
        bound = ratio.value.high if isinstance(ratio.value, Sampled) else value
        sentences.append(((chance, bound, value), sentence))
    return [sentence for _, sentence in sorted(sentences)]


def gap_answers(result: GroupMetrics) -> Iterator[Metric]:
    """Yield the metrics of the summary: the demographic parity difference by each attribute."""
    name = "demographic parity difference"
    for breakdown in result.breakdowns:
        difference, ratio = breakdown.gap("demographic_parity_difference"), breakdown.gap("demographic_parity_ratio")
        notes, next_step = [], ""
        if difference is not None:
            compared = f"highest selection rate: {difference.best}; lowest: {difference.worst}"
            if difference.reference:
                other = difference.worst if difference.best == difference.reference else difference.best
                compared = f"selection rate of {other} against the reference {difference.reference}"
            rule = "" if ratio is None else f"four-fifths rule: {four_fifths_sentence(ratio)}"
            notes = [compared + weighted_by(result), rule]
            # With selective labels, error rates cannot explain different selection rates.
            errors = breakdown.gap("equal_opportunity_difference") is not None
            truth = errors and not find_caution(result.label_coverage)
            next_step = _next_step(difference, ratio, truth=truth)
        yield gap_answer(name, difference, breakdown, notes, next_step, result.min_group_size)


def four_fifths_sentence(gap: Gap) -> str:
    """Describe whether the four-fifths rule is met. The interval or an omitted group may leave this undecided."""
    ratio = gap.value
    if isinstance(ratio, Unknown):
        return f"unknown ({ratio.reason})"
    met = ratio.value >= FOUR_FIFTHS
    reference = f" of the reference {gap.reference}" if gap.reference else ""
    sentence = f"{'met' if met else 'not met'} ({format_against(ratio.value, FOUR_FIFTHS)}{reference})"
    if met and gap.not_assessable:
        sentence += f" by the groups that can be assessed; {describe_not_assessable(gap)}"
    if isinstance(ratio, Sampled) and ratio.low < FOUR_FIFTHS <= ratio.high:
        return f"{sentence}, but the interval {format_ends(ratio, 'demographic_parity_ratio')} leaves it open"
    return sentence


def breakdown_blocks(result: GroupMetrics, breakdown: Breakdown, *, level: int) -> Iterator[Block]:
    """Yield the figure, the gaps and all metrics by the given attributes."""
    by, levels, suffix = join_names(breakdown.by), confidence_levels(result), unit_and_weights(result)
    yield Heading(f"By {by}", level, detail=True)
    yield from left_out_notes(breakdown.unknown, breakdown.by)
    yield from _breakdown_figure(result, breakdown)
    tables = [*reference_table(breakdown, levels, suffix)]
    if breakdown.gaps:
        tables.insert(0, gap_table(f"Gaps by {by}, observed{suffix}, each with its {levels} interval", breakdown.gaps))
    caption = f"Metrics by {by}: observed{suffix}, each with its {levels} interval"
    table = group_table(caption, result, breakdown, metric_columns(breakdown))
    yield Fold(f"Gaps and all numbers by {by}", (*tables, table))


def overview_figure(result: GroupMetrics) -> Iterator[Figure]:
    """Yield a figure of the selection rates, or of the means of numeric decisions, by each attribute."""
    name = "selection_rate" if result.outcome is None else "mean"
    single = [breakdown for breakdown in result.breakdowns if len(breakdown.by) == 1]
    values = [group.metrics.get(name) for breakdown in single for group in breakdown.groups]
    if any(value is not None and not isinstance(value, Unknown) for value in values):
        what, line = ("selection rate", DASHED) if result.outcome is None else (f"mean {result.outcome.name}", "")
        text = f"Dots: the {what} of each group, with its {confidence_levels(result)} interval.{line}"
        yield Figure("overview", f"{text} Grey: fewer than {result.min_group_size} people.", result)


def _breakdown_figure(result: GroupMetrics, breakdown: Breakdown) -> Iterator[Figure]:
    """Yield a figure of the rates of the groups; nothing for numeric decisions."""
    if result.outcome is not None:
        return
    text = DOTS + (BASE_RATES if any("base_rate" in group.metrics for group in breakdown.groups) else "") + DASHED
    text += "" if result.weights is None else f" Weighted by {result.weights}."
    if len(breakdown.groups) > DRAWN:
        text += (
            f" Only {DRAWN} of {len(breakdown.groups)} groups are drawn: those with the highest and the lowest "
            "selection rates; the JSON has all."
        )
    yield Figure("group rates", text, breakdown)


def calibration_blocks(result: GroupMetrics, *, level: int) -> Iterator[Block]:
    """Yield the calibration by each attribute; nothing without scores or true values."""
    if not result.calibration:
        return
    is_number = result.outcome is not None
    columns = ("mean decided", "mean true") if is_number else ("mean score", "observed rate")
    name = "true_mean" if is_number else "rate"

    yield Heading("Calibration by group", level, detail=True)
    if result.outcome is None:
        yield from label_notes(result)
    else:
        yield Text(
            f"Among people with a similar {result.outcome.name}, the true values should be equally high in every "
            f"group. People are binned by the deciles of {result.outcome.name} over all people."
        )
    for by in dict.fromkeys(part.by for part in result.calibration):
        if not is_number:
            yield Figure(
                "calibration",
                f"Calibration by {by}: the observed rate of the favourable label among people with similar scores, "
                "with its interval. On the dashed line, scores equal observed rates. Grey: fewer than "
                f"{result.min_group_size} people.",
                result,
                (by,),
            )
        caption = (
            f"Calibration by {by}: observed{unit_and_weights(result)}, each with its {confidence_levels(result)} "
            "interval"
        )
        bins = [part for part in result.calibration if part.by == by]
        order = ""
        if len(bins) > PAGE_ROWS:
            sizes = Counter[str]()
            for part in bins:
                sizes[part.group] += part.n
            bins, order = sorted(bins, key=lambda part: -sizes[part.group]), "the largest groups first"
        table = Table(
            caption,
            (Column(by), Column("people", numeric=True), *(Column(title, numeric=True) for title in columns)),
            tuple(
                TableRow(
                    (part.group, part.n, _show_score(part, name), show_quantity(part.base_rate, name)),
                    faint=part.n < result.min_group_size,
                )
                for part in bins
            ),
            usual="observed",
            order=order,
        )
        yield Fold(f"Calibration by {by} in numbers", (table,))


def _show_score(part: CalibrationBin, name: str) -> ReportedNumber:
    """Format the mean score of a calibration bin in the style of its observed rate."""
    text = f"{part.mean_score:,.4g}"
    if isinstance(part.base_rate, Observed):
        text = format_value(part.base_rate.model_copy(update={"value": part.mean_score}), name)
    return ReportedNumber(text, part.mean_score, "observed")


def rule_notes(result: GroupMetrics) -> Iterator[Note]:
    """Yield the threshold of the audit, and whether low scores are good."""
    if result.low_is_good:
        yield Note("Low scores are favourable here. Scores of the favourable decision are 1 minus the original scores.")
    if result.decided_by is not None:
        yield Note(describe_rule(result.decided_by))


def _next_step(difference: Gap, ratio: Gap | None, *, truth: bool) -> str:
    fraction = None if ratio is None else quantity_value(ratio.value)
    if fraction is not None and fraction < FOUR_FIFTHS:
        errors = "compare the error rates of the groups" if truth else "provide true labels to compare error rates"
        return f"{errors}; justify the gap or mitigate it"
    if difference.not_assessable:
        return "add people of the groups that are not assessable"
    if not is_distinguishable(difference):
        return CHANCE
    return "compare the error rates of the groups" if truth else "provide true labels"
