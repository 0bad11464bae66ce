"""Document of decided numbers: gaps first, then the numbers of each group."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import Block, Document, Figure, Fold, Heading, Metric, Text
from evenhand.core.text import format_count, join_names
from evenhand.groups.breakdown import Breakdown, Gap
from evenhand.groups.result import GroupMetrics, NumberOutcome
from evenhand.groups.wording.rates import reference_table
from evenhand.groups.wording.tables import (
    CHANCE,
    calibration_table,
    confidence_levels,
    gap_answer,
    gap_table,
    group_table,
    is_distinguishable,
    label_notes,
    metric_columns,
    overall_table,
    plain_number,
    small_group_notes,
    weighted_by,
)
from evenhand.stats.metric_specs import NUMBER_GAP_TITLES, NUMBER_TITLES
from evenhand.stats.quantity import Observed, Unknown, format_ends, format_value, quantity_value, show_quantity


def build_document(result: GroupMetrics) -> Document:
    """Build the document of decided numbers."""
    outcome = _outcome(result)
    return Document(
        f"{outcome.name} of {format_count(result.people, 'person', 'people')}",
        describe_outcome(result),
        (
            *label_notes(result.label_coverage, result.breakdowns, truth="number"),
            *(Text(sentence, role="finding") for sentence in number_sentences(result)),
            *number_answers(result),
            *small_group_notes(result.breakdowns, result.too_few),
            *number_blocks(result, level=2),
        ),
        brand="Evenhand groups",
        made=result.provenance,
    )


def describe_outcome(result: GroupMetrics) -> str:
    """Describe the decided number: its unit, and whether high or low numbers are favourable."""
    outcome = _outcome(result)
    favourable = {"higher": "; high numbers are favourable", "lower": "; low numbers are favourable"}
    unit = "" if outcome.unit is None else f" in {outcome.unit}"
    return f"{outcome.name} is a number{unit}{favourable.get(result.favourable, '')}"


def number_sentences(result: GroupMetrics) -> list[str]:
    """Compare the highest with the lowest mean, one sentence for each attribute, the largest gap first."""
    outcome, sentences = _outcome(result), []
    unit = "" if outcome.unit is None else f" {outcome.unit}"
    for breakdown in result.breakdowns:
        gap = breakdown.gap("mean_difference")
        if gap is None or isinstance(gap.value, Unknown) or gap.value.value == 0:
            continue
        groups = {group.label: group for group in breakdown.groups}
        high, low = groups[gap.best], groups[gap.worst]
        means = [group.metrics["mean"] for group in (high, low)]
        values = [f"{format_value(mean, 'mean')}{unit}" for mean in means if not isinstance(mean, Unknown)]
        chance = "" if is_distinguishable(gap) else " The interval of the gap reaches 0."
        sentence = (
            f"The mean {outcome.name} of people with {high.description} is {format_value(gap.value, gap.name)}{unit} "
            f"above that of people with {low.description} ({' against '.join(values)}; {high.size:,} and {low.size:,} "
            f"people{weighted_by(result)}).{chance}"
        )
        sentences.append((-gap.value.value, sentence))
    return [sentence for _, sentence in sorted(sentences)]


def number_answers(result: GroupMetrics) -> list[Metric]:
    """Build the answers on the gap of the means by each attribute."""
    return [_answer_gap(breakdown, result) for breakdown in result.breakdowns]


def number_blocks(result: GroupMetrics, *, level: int) -> Iterator[Block]:
    """Yield the numbers of all people, then a drawing, gaps and numbers by each attribute, and calibration."""
    outcome, levels, suffix = _outcome(result), confidence_levels(result), _suffix(result)
    cautions = {name: result.label_caution(name) for name in result.overall}
    yield overall_table(result.overall, NUMBER_TITLES, suffix, levels, cautions)
    for breakdown in result.breakdowns:
        yield from _breakdown_blocks(result, breakdown, level)
    if result.calibration:
        yield Heading("Calibration by group", level, detail=True)
        yield Text(
            f"Among people with a similar {outcome.name}, the true one should be equally high in every group. People "
            f"are grouped by the tenths of the {outcome.name} of all people."
        )
        for by in dict.fromkeys(part.by for part in result.calibration):
            table = calibration_table(
                f"Calibration by {by}: observed{suffix}; below each its {levels} interval",
                [part for part in result.calibration if part.by == by],
                ("mean decided", "mean true"),
                lambda part: (
                    plain_number(part.mean_score, part.base_rate, "true_mean"),
                    show_quantity(part.base_rate, "true_mean"),
                ),
                result.min_group_size,
            )
            yield Fold(f"Calibration by {by} in numbers", (table,))


def _breakdown_blocks(result: GroupMetrics, breakdown: Breakdown, level: int) -> Iterator[Block]:
    by, levels, suffix = join_names(breakdown.by), confidence_levels(result), _suffix(result)
    yield Heading(f"By {by}", level, detail=True)
    if len(breakdown.by) == 1:
        yield Figure(
            "number quantiles",
            f"Quantile curves of {_outcome(result).name} by {by}{suffix}: the highest number among a share of the "
            f"people. Groups of fewer than {result.min_group_size} people are not drawn, of many the five largest.",
            result,
            (by,),
        )
    if breakdown.gaps:
        caption = f"Gaps by {by}, observed{suffix}; below each its {levels} interval"
        yield gap_table(caption, breakdown.gaps, _title_gap, NUMBER_GAP_TITLES)
    yield from reference_table(breakdown, levels, suffix)
    caption = f"Numbers by {by}: observed{suffix}; below each its {levels} interval"
    table = group_table(caption, breakdown, metric_columns(breakdown, NUMBER_TITLES), result.too_few)
    yield Fold(f"All numbers by {by}", (table,))


def _title_gap(gap: Gap) -> str:
    title = NUMBER_GAP_TITLES.get(gap.name, f"{gap.metric}: highest minus lowest")
    return f"{title.partition(':')[0]}: furthest from that of {gap.reference}" if gap.reference else title


def _answer_gap(breakdown: Breakdown, result: GroupMetrics) -> Metric:
    gap, distance = breakdown.gap("mean_difference"), breakdown.gap("wasserstein_distance")
    notes, next_step = [], ""
    if gap is not None:
        notes = [f"highest: {gap.best}; lowest: {gap.worst}{_suffix(result)}"]
        next_step = _next_step(breakdown, gap)
    if distance is not None and isinstance(distance.value, Observed):
        ends = format_ends(distance.value, distance.name)
        notes.append(f"Wasserstein distance: {format_value(distance.value, distance.name)} ({ends})")
    return gap_answer("gap of the means", gap, breakdown, notes, next_step, result.min_group_size)


def _next_step(breakdown: Breakdown, gap: Gap) -> str:
    if not is_distinguishable(gap):
        return CHANCE
    residual = breakdown.gap("residual_difference")
    if residual is None:
        return "bring the true numbers to see whether they have the same gap"
    if quantity_value(residual.value) is not None and is_distinguishable(residual):
        return "the errors differ too: numbers are too high for one group, compared with the other"
    return "the true numbers have the same gap; ask whether they carry past discrimination"


def _outcome(result: GroupMetrics) -> NumberOutcome:
    assert result.outcome is not None
    return result.outcome


def _suffix(result: GroupMetrics) -> str:
    """Return the unit and the source of the weights as a suffix of captions."""
    unit = _outcome(result).unit
    return ("" if unit is None else f", in {unit}") + weighted_by(result)
