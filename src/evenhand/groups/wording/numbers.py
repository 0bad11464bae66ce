"""Document of numeric decisions: gaps first, then the numbers of each group."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import Block, Document, Figure, Fold, Heading, Metric, Text
from evenhand.core.text import format_count, join_names
from evenhand.groups.breakdown import Breakdown, Gap, Group
from evenhand.groups.result import GroupMetrics, NumberOutcome
from evenhand.groups.wording.tables import (
    CHANCE,
    calibration_table,
    confidence_levels,
    gap_answer,
    gap_sentences,
    gap_table,
    group_table,
    is_distinguishable,
    label_notes,
    metric_columns,
    overall_table,
    plain_number,
    reference_table,
    small_group_notes,
    weighted_by,
)
from evenhand.stats.quantity import Observed, Unknown, format_ends, format_value, quantity_value, show_quantity


def build_document(result: GroupMetrics) -> Document:
    """Build the document of numeric decisions."""
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
    """Describe the numeric decision: its unit, and whether high or low numbers are favourable."""
    outcome = _outcome(result)
    favourable = {"higher": "; high numbers are favourable", "lower": "; low numbers are favourable"}
    unit = "" if outcome.unit is None else f" in {outcome.unit}"
    return f"{outcome.name} is a number{unit}{favourable.get(result.favourable, '')}"


def number_sentences(result: GroupMetrics) -> list[str]:
    """Compare the highest with the lowest mean, one sentence for each attribute, the largest gap first."""
    outcome = _outcome(result)
    unit = "" if outcome.unit is None else f" {outcome.unit}"

    def describe(gap: Gap, high: Group, low: Group) -> str:
        quantities = [gap.value, high.metrics["mean"], low.metrics["mean"]]
        texts = [f"{format_value(value, 'mean')}{unit}" for value in quantities if not isinstance(value, Unknown)]
        return (
            f"The mean {outcome.name} of people with {high.description} is {texts[0]} above that of people with "
            f"{low.description} ({' against '.join(texts[1:])}; {high.size:,} and {low.size:,} "
            f"people{weighted_by(result)})."
        )

    return gap_sentences(result.breakdowns, lambda breakdown: breakdown.gap("mean_difference"), describe)


def number_answers(result: GroupMetrics) -> list[Metric]:
    """Build the answers on the gap of the means by each attribute."""
    return [_answer_gap(breakdown, result) for breakdown in result.breakdowns]


def number_blocks(result: GroupMetrics, *, level: int) -> Iterator[Block]:
    """Yield the numbers of all people, then a figure, gaps and numbers by each attribute, and calibration."""
    outcome, levels, suffix = _outcome(result), confidence_levels(result), _suffix(result)
    yield overall_table(result.overall, suffix, levels, result.label_caution)
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
        yield gap_table(caption, breakdown.gaps)
    yield from reference_table(breakdown, levels, suffix)
    caption = f"Numbers by {by}: observed{suffix}; below each its {levels} interval"
    table = group_table(caption, breakdown, metric_columns(breakdown), result.too_few)
    yield Fold(f"All numbers by {by}", (table,))


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
