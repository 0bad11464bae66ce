"""Main gap of each kind of decisions: its sentences, its metrics and the next steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from evenhand.core.document import Metric, ReportedNumber
from evenhand.core.text import format_against, join_names, list_some
from evenhand.groups.breakdown import Breakdown, Gap
from evenhand.groups.result import GroupMetrics
from evenhand.groups.wording.tables import (
    describe_bounds,
    describe_left_out,
    describe_not_assessable,
    show_metric,
    unit_and_weights,
    weighted_by,
)
from evenhand.stats.metric_specs import LOWER_IS_WORSE
from evenhand.stats.quantity import (
    Estimated,
    Quantity,
    Sampled,
    Unknown,
    format_ends,
    format_interval,
    format_value,
    quantity_value,
)

FOUR_FIFTHS = 0.8
"""The four-fifths rule: the lowest selection rate should be at least this share of the highest (29 CFR 1607.4 D)."""

CHANCE = "the gap may be chance; more people would narrow the interval"


class MainGap(NamedTuple):
    """Main gap between groups.

    Attributes:
        title: Name in the summary.
        difference: Name of the gap.
        sentence: Template of the sentence.
        compared: Template of the name of the compared metric.
        errors: Name of the gap in the errors.
        advice: Next step if the errors are unknown, differ, or do not differ between the groups.
        stated: Name of the gap in the sentence, if it is another one.
    """

    title: str
    difference: str
    sentence: str
    compared: str
    errors: str
    advice: tuple[str, str, str]
    stated: str = ""


RATES = MainGap(
    "demographic parity difference",
    "demographic_parity_difference",
    "People with {low} are selected {gap} times as often as people with {high}",
    "selection rate",
    "equal_opportunity_difference",
    ("provide true labels to compare error rates", *("compare the error rates of the groups",) * 2),
    "demographic_parity_ratio",
)

NUMBERS = MainGap(
    "gap of the means",
    "mean_difference",
    "The mean {target} of people with {high} is {gap} above that of people with {low}",
    "mean",
    "residual_difference",
    (
        "provide the true values to see whether they have the same gap",
        "the errors differ too: the numbers are too high for one group relative to the other",
        "the true values have the same gap; ask whether they carry past discrimination",
    ),
)

LABELS = MainGap(
    "largest gap in the share given one label",
    "label_share_difference",
    "{target} = {label} is given to people with {high} more often than to people with {low}, with a gap of {gap}",
    "share given {label}",
    "label_accuracy_difference",
    (
        "provide the true labels to see whether they have the same gap",
        "accuracy differs too; the confusions show the assigned labels",
        "ask whether the true labels carry past discrimination",
    ),
)

GRADES = LABELS._replace(
    title="largest gap in the share given at least one grade",
    difference="cut_difference",
    sentence=LABELS.sentence.replace("{target} = ", "{target} at least "),
    compared="share given at least {label}",
)


def describe_decisions(result: GroupMetrics) -> str:
    """Describe the decisions: the favourable label, all labels, the grades in their order, or the unit of numbers."""
    outcome, labels = result.outcome, result.label_set
    if outcome is not None:
        favourable = result.favourable.removesuffix("er") if result.favourable in ("higher", "lower") else ""
        unit = "" if outcome.unit is None else f" in {outcome.unit}"
        return f"{outcome.name} is a number{unit}{favourable and f'; {favourable} numbers are favourable'}"
    if labels is None:
        return f"Favourable decision: {result.favourable}. People with this decision are called selected."
    listed = list_some(labels.labels)
    if labels.ordered:
        return f"{labels.target} is a grade, worst first: {listed}"
    return f"{labels.target} is one of {len(labels.labels):,} labels, none of them favourable: {listed}"


def gap_sentences(result: GroupMetrics) -> list[str]:
    """Describe the main gap, one sentence for each attribute.

    The gap whose interval is furthest from no gap comes first. Gaps that may be due to chance come last and are marked
    as such.
    """
    main = _main_gap(result)
    unit = "" if result.outcome is None or result.outcome.unit is None else f" {result.outcome.unit}"
    sentences = []
    for breakdown in result.breakdowns:
        gap, groups = breakdown.gap(main.stated or main.difference), {group.label: group for group in breakdown.groups}
        if gap is None or isinstance(gap.value, Unknown):
            continue
        is_ratio, value = gap.name in LOWER_IS_WORSE, gap.value.value
        if value >= 1 if is_ratio else value == 0:
            continue
        high, low = groups[gap.best], groups[gap.worst]
        shown = (low, high) if is_ratio else (high, low)
        metrics = [group.rates[gap.largest_at] if gap.largest_at else group.metrics for group in shown]
        values = [part[gap.metric] for part in metrics]
        comparison = [f"{format_value(part, gap.metric)}{unit}" for part in values if not isinstance(part, Unknown)]
        chance = not is_distinguishable(breakdown.gap(main.difference))
        claim = main.sentence.format(
            target=result.target,
            label=gap.largest_at,
            high=high.description,
            low=low.description,
            gap=format_against(value, FOUR_FIFTHS) if is_ratio else f"{format_value(gap.value, gap.name)}{unit}",
        )
        details = (
            format_interval(gap.value, gap.name),
            f"{' against '.join(comparison)}{weighted_by(result)}",
            f"{shown[0].size:,} and {shown[1].size:,} people",
        )
        sentence = f"{claim} ({'; '.join(filter(None, details))}){', which may be chance' if chance else ''}."
        end = getattr(gap.value, "high" if is_ratio else "low", value)
        sentences.append(((chance, *((end, value) if is_ratio else (-end, -value))), sentence))
    return [sentence for _, sentence in sorted(sentences)]


def gap_answers(result: GroupMetrics) -> Iterator[Metric]:
    """Yield the metrics of the summary: the main gap by each attribute, whether recorded or a probability."""
    main = _main_gap(result)
    gaps = [(breakdown, breakdown.gap(main.difference), main.title) for breakdown in result.breakdowns]
    gaps += [(proxies, proxies.gaps[0], f"{main.title}, by probability") for proxies in result.proxies]
    for breakdown, gap, title in gaps:
        by = join_names(breakdown.by)
        value: Quantity = Unknown(reason="there are fewer than two groups to compare") if gap is None else gap.value
        if isinstance(value, Unknown):
            number = ReportedNumber("-", kind="unknown", basis=f"not computable: {value.reason}")
            next_step = f"add people until each group has at least {result.min_group_size}"
            yield Metric(title, number, about=by, next_step=next_step)
            continue
        assert gap is not None
        compared = main.compared.format(label=gap.largest_at)
        note = f"highest {compared}: {gap.best}; lowest: {gap.worst}"
        if gap.reference:
            other = gap.worst if gap.best == gap.reference else gap.best
            note = f"{compared} of {other} against the reference {gap.reference}"
        ratio = breakdown.gap("demographic_parity_ratio")
        basis = None
        rule = "" if ratio is None else f"four-fifths rule: {four_fifths_sentence(ratio)}"
        if gap.bounds and isinstance(value, Estimated):
            basis = f"from the probabilities of {value.n:,} people"
            rule = describe_bounds(gap)
        notes = (f"{note}{unit_and_weights(result)}", rule, describe_not_assessable(gap))
        yield Metric(
            title,
            show_metric(gap.name, value, basis=basis),
            tuple(filter(None, notes)),
            by,
            _next_step(result, breakdown, gap, ratio),
            describe_left_out(breakdown.unknown, breakdown.by) if breakdown.unknown else "",
        )


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


def is_distinguishable(gap: Gap | None) -> bool:
    """Check whether a difference is significantly above 0."""
    if gap is None or isinstance(gap.value, Unknown):
        return False
    return gap.value.low > 0 if isinstance(gap.value, Sampled) else True


def _main_gap(result: GroupMetrics) -> MainGap:
    if result.outcome is not None:
        return NUMBERS
    if result.label_set is None:
        return RATES
    return GRADES if result.label_set.ordered else LABELS


def _next_step(result: GroupMetrics, breakdown: Breakdown, gap: Gap, ratio: Gap | None) -> str:
    """Select the next step after the main gap."""
    if gap.bounds:
        return "consider the bounds, not only the estimate"
    main = _main_gap(result)
    # With selective labels, errors cannot explain the gap.
    errors = None if result.everyone.caution() else breakdown.gap(main.errors)
    advice = main.advice[0 if errors is None else 1 if is_distinguishable(errors) else 2]
    if ratio is not None:
        fraction = quantity_value(ratio.value)
        if fraction is not None and fraction < FOUR_FIFTHS:
            return f"{advice}; justify the gap or mitigate it"
        if gap.not_assessable:
            return "add people of the groups that are not assessable"
    return advice if is_distinguishable(gap) else CHANCE
