"""The worst subgroup as one answer of an audit."""

from __future__ import annotations

from evenhand.core.document import Metric, ReportedNumber
from evenhand.core.text import format_count, format_decimal, format_percent, join_names
from evenhand.subgroups.result import Finding, SubgroupResult
from evenhand.subgroups.wording import (
    describe_rate,
    direction_words,
    format_gap,
    gap_unit,
    reason_unclear,
    say_left_out,
)


def worst_answer(result: SubgroupResult, worst: Finding | None) -> Metric:
    """Return the worst subgroup as one answer.

    Args:
        result: the search.
        worst: the subgroup whose rate is most clearly below that of the others; None if none is below.
    """
    over = join_names(cells.name for cells in result.attributes)
    among = f"{format_count(result.tested, 'subgroup', 'subgroups')} tested"
    about = f"subgroups of {over}" if len(result.attributes) > 1 else f"subgroups by {over}"
    if worst is None:
        reason = f"none is below the rest among {among}" if result.tested else "no subgroup is large enough"
        return Metric("worst subgroup", ReportedNumber("-", kind="unknown", basis=reason), about=about)
    low, high = -worst.high, -worst.low
    said, basis = f"{format_decimal(low)} to {format_decimal(high)}", f"on {result.people:,} people"
    number = ReportedNumber(
        format_decimal(-worst.gap), -worst.gap, "observed", low, high, said, result.confidence, basis
    )
    weighted = "" if result.weights is None else f", weighted by {result.weights}"
    whom = (
        f"{worst.words}: {format_percent(worst.rate)} of {worst.size:,} people are selected, of everyone else "
        f"{format_percent(worst.rest_rate)}{weighted}"
    )
    step = "see under Subgroups whom else it concerns; look closer with evenhand subgroups"
    if not worst.found:
        step = f"{reason_unclear(result, worst)}; see under Subgroups"
    notes = [whom, f"adjusted interval, simultaneous over {among}"]
    if result.unknown:
        notes.append(say_left_out(result))
    return Metric("worst subgroup", number, tuple(notes), about, step)


def find_widest(result: SubgroupResult) -> Finding | None:
    """Return the subgroup that a reader looks at first, the clearest of those that count as worse; None if none does.

    Args:
        result: a search among people.
    """
    return next((finding for finding in result.findings if result.counts_as_worse(finding)), None)


def number_answer(result: SubgroupResult) -> Metric:
    """Return the clearest departure of a subgroup's number from the others' as one answer."""
    assert result.number is not None
    name = f"subgroup that departs most: {describe_rate(result)}"
    among = f"{format_count(result.tested, 'subgroup', 'subgroups')} tested"
    about = f"subgroups by {join_names(cells.name for cells in result.attributes)}"
    worst = find_widest(result)
    if worst is None:
        reason = (
            f"none is {direction_words(result)[0]} among {among}" if result.tested else "no subgroup is large enough"
        )
        return Metric(name, ReportedNumber("-", kind="unknown", basis=reason), about=about)
    low, high = format_gap(result, worst.low), format_gap(result, worst.high)
    number = ReportedNumber(
        f"{format_gap(result, worst.gap)} {gap_unit(result)}",
        worst.gap,
        "observed",
        worst.low,
        worst.high,
        f"{low} to {high}",
        result.confidence,
        f"on {result.people:,} people",
    )
    notes = [result.sentence(worst), f"adjusted interval, simultaneous over {among}"]
    if result.unknown:
        notes.append(say_left_out(result))
    step = "see under Subgroups whom else it concerns; look closer with evenhand subgroups"
    if not worst.found:
        step = f"{reason_unclear(result, worst)}; see under Subgroups"
    return Metric(name, number, tuple(notes), about, step)
