"""Sentences and metrics about numeric decisions."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import Metric
from evenhand.groups.breakdown import Gap, Group
from evenhand.groups.result import GroupMetrics, NumberOutcome
from evenhand.groups.wording.tables import (
    advise,
    gap_answer,
    gap_sentences,
    unit_and_weights,
    weighted_by,
)
from evenhand.stats.quantity import Unknown, format_interval, format_value

ADVICE = (
    "provide the true values to see whether they have the same gap",
    "the errors differ too: the numbers are too high for one group relative to the other",
    "the true values have the same gap; ask whether they carry past discrimination",
)
"""Next step if the errors are unknown, differ, or do not differ between the groups."""


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
        interval = "" if isinstance(gap.value, Unknown) else format_interval(gap.value, "mean")
        return (
            f"The mean {outcome.name} of people with {high.description} is {texts[0]} above that of people with "
            f"{low.description} ({f'{interval}; ' if interval else ''}{' against '.join(texts[1:])}; {high.size:,} and "
            f"{low.size:,} people{weighted_by(result)})."
        )

    return gap_sentences(result.breakdowns, "mean_difference", describe)


def number_answers(result: GroupMetrics) -> Iterator[Metric]:
    """Yield the metrics of the summary: the gap of the means by each attribute."""
    for breakdown in result.breakdowns:
        gap = breakdown.gap("mean_difference")
        notes = [] if gap is None else [f"highest: {gap.best}; lowest: {gap.worst}{unit_and_weights(result)}"]
        next_step = advise(gap, breakdown.gap("residual_difference"), ADVICE)
        yield gap_answer("gap of the means", gap, breakdown, notes, next_step, result.min_group_size)


def _outcome(result: GroupMetrics) -> NumberOutcome:
    assert result.outcome is not None
    return result.outcome
