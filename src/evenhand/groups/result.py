"""How groups fare under a model: one row per group, gaps between the best and the worst treated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

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
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_against, format_count, format_level, format_percent, join_names, list_some
from evenhand.groups.breakdown import Breakdown, Gap, Group, describe_left_out
from evenhand.groups.gaps import (
    describe_size,
    format_not_assessable,
    is_distinguishable,
    reference_table,
    title_gap,
)
from evenhand.groups.kept import KeptDecisions
from evenhand.groups.label_coverage import LabelCoverage, describe_selective, find_caution
from evenhand.groups.label_result import LabelBreakdown, LabelMetrics
from evenhand.groups.proxies.result import Ends, ProxyRates
from evenhand.groups.proxies.wording import proxy_answers, proxy_blocks, proxy_sentences
from evenhand.groups.threshold_rates import ThresholdRates, rate_blocks
from evenhand.groups.thresholds import ThresholdCurves, describe_rule, threshold_blocks
from evenhand.schema.thresholds import Thresholds
from evenhand.stats.metric_specs import DECISION_METRICS, GAP_TITLES, METRIC_TITLES, unit_name
from evenhand.stats.quantity import (
    Estimated,
    Observed,
    Proved,
    Quantity,
    Unknown,
    format_ends,
    format_interval,
    format_value,
    quantity_value,
    show_quantity,
)

if TYPE_CHECKING:
    import pandas as pd

SMALL = 30
"""Rates of fewer people than this are shown with their intervals, named as not assessable, and not compared, unless
another number is asked for."""

FOUR_FIFTHS = 0.8
"""The four-fifths rule: the lowest selection rate should be at least this share of the highest (29 CFR 1607.4 D)."""

NOUNS = {"female": "women", "woman": "women", "f": "women", "male": "men", "man": "men", "m": "men"}
"""What people are called by their sex or gender."""

DRAWN = 40
"""Groups drawn of one breakdown."""

DOTS = "Dots: the rate, with its interval."
BASE_RATES = " Short upright lines: the base rate, the share whose true label is favourable."
DASHED = " Dashed line: four fifths of the highest selection rate."


class CalibrationBin(ResultPart):
    """Calibration of people whose favourable score falls into one tenth: mean score and observed rate."""

    by: str
    group: str
    n: int
    mean_score: float
    base_rate: Quantity


class QuantileCurve(ResultPart):
    """The numbers of one group as a curve: below ``values[i]`` or at it is the share ``shares[i]`` of its people."""

    by: str
    group: str
    n: int
    shares: tuple[float, ...]
    values: tuple[float, ...]


class NumberOutcome(ResultPart):
    """What is decided where it is a number.

    Attributes:
        name: the column.
        unit: what it is measured in, if that was said.
        curves: the distribution of each group of each single attribute.
    """

    name: str
    unit: str | None = None
    curves: tuple[QuantileCurve, ...] = ()


class GroupMetrics(Result):
    """Performance and group metrics of a model, or of decisions already made.

    Attributes:
        people: how many.
        weights: where people's weights come from, with which all rates and means are computed; None where every person
            counts alike.
        effective_size: how many people of equal weight say as much; None without weights.
        min_group_size: the smallest denominator of a rate that is compared between groups.
        overall: the metrics of ``Group`` for everybody, and ``auc`` where there are scores and true labels.
        label_coverage: People with a true label by decision, which all metrics that need true labels rest on; None if
            everyone has a true label, or true labels are not given.
        breakdowns: one per protected attribute, then one for their intersection if there are several.
        people_fingerprint: SHA-256 of everybody's groups and true label, in the order of the data.
        kept: what was decided about each person, and the score, to be compared with another audit; None unless asked
            for.
        decided_by: the thresholds that made the decisions of scores; None where the model, or somebody, decided.
        low_is_good: whether low scores speak for the favourable decision; ``mean_score`` and calibration are then those
            of 1 minus the score.
        thresholds: what other thresholds would do; None where it was not asked for, or there are no scores.
        threshold_rates: rates of every group at about a hundred thresholds, as counted; None without scores.
        calibration: reliability per group of each single protected attribute; empty without scores or true labels. Of
            numbers, their mean and the mean true number in each tenth of the numbers that are decided.
        outcome: what is decided where it is a number; metrics and gaps are then those of ``NUMBER_TITLES``.
        proxies: rates by what is known by probability alone, such as race by name and address.
        labels: each of several labels by group; None where there is a favourable label and no order. Where none is
            favourable, this is all there is beside the sizes of the groups.
    """

    chart = "groups.plot_groups"
    kind: Literal["groups"] = "groups"
    people: int
    weights: str | None = None
    effective_size: float | None = None
    favourable: str
    min_group_size: int = SMALL
    overall: dict[str, Quantity]
    label_coverage: LabelCoverage | None = None
    breakdowns: tuple[Breakdown, ...]
    calibration: tuple[CalibrationBin, ...] = ()
    people_fingerprint: str = ""
    kept: KeptDecisions | None = None
    decided_by: Thresholds | None = None
    low_is_good: bool = False
    thresholds: ThresholdCurves | None = None
    threshold_rates: ThresholdRates | None = None
    outcome: NumberOutcome | None = None
    proxies: tuple[ProxyRates, ...] = ()
    labels: LabelMetrics | None = None

    def label_caution(self, name: str, by: str = "", group: str = "") -> str:
        """Describe the selective true labels that a number rests on; empty if there are none, or it needs no labels.

        Args:
            name: Metric, or gap.
            by: Attributes of the groups, joined by ``_x_``; empty for everyone.
            group: Label of the group; empty for a gap.
        """
        if name in DECISION_METRICS:
            return ""
        breakdown = next((one for one in self.breakdowns if "_x_".join(one.by) == by), None)
        if breakdown is None:
            covered = None if by else self.label_coverage
        elif not group:
            gap = breakdown.gap(name)
            return "" if gap is None else gap.caution
        else:
            covered = next((one.label_coverage for one in breakdown.groups if one.label == group), None)
        return find_caution(covered)

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the metrics of all people and of each group, then the gaps between groups."""
        for name, quantity in self.overall.items():
            yield ResultNumber(name, "", "", quantity, caution=self.label_caution(name))
        for breakdown in self.breakdowns:
            for group in breakdown.groups:
                caution = find_caution(group.label_coverage)
                for name, quantity in group.metrics.items():
                    shown = "" if name in DECISION_METRICS else caution
                    yield ResultNumber(name, "_x_".join(breakdown.by), group.label, quantity, caution=shown)
        for breakdown in self.breakdowns:
            for gap in breakdown.gaps:
                note = f"{gap.best} and {gap.worst}" if gap.best and gap.worst else ""
                yield ResultNumber(
                    gap.name,
                    "_x_".join(breakdown.by),
                    "",
                    gap.value,
                    note,
                    gap.caution,
                    describe_left_out(gap.not_assessable, self.min_group_size),
                )
        if self.labels is not None:
            yield from self.labels.numbers()
        for proxies in self.proxies:
            for metric in dict.fromkeys(rate.metric for rate in proxies.rates):
                small = {
                    rate.group: round(rate.effective_size)
                    for rate in proxies.rates
                    if rate.small and rate.metric == metric
                }
                notes = "", self.label_caution(metric), describe_left_out(small, self.min_group_size)
                largest, ends = proxies.largest_difference(metric), proxies.largest_bounds(metric)
                yield ResultNumber(f"probable_{metric}_difference", proxies.by, "", largest, *notes)
                bounds = largest if ends is None else Ends(*ends)
                yield ResultNumber(f"bounded_{metric}_difference", proxies.by, "", bounds, *notes)

    @property
    def by_label(self) -> LabelMetrics | None:
        """Each of several labels by group, where no label is the favourable one."""
        return None if self.overall else self.labels

    def _small_groups_hidden(self) -> dict[str, Any]:
        reason = f"left out: {_too_few(self)}"
        bins = tuple(one for one in self.calibration if one.n >= self.min_group_size)
        outcome = self.outcome
        if outcome is not None:
            curves = tuple(one for one in outcome.curves if one.n >= self.min_group_size)
            outcome = outcome.model_copy(update={"curves": curves})
        return {
            "kept": None,
            "breakdowns": tuple(one.without_small_groups(reason) for one in self.breakdowns),
            "calibration": bins,
            "outcome": outcome,
        }

    def document(self) -> Document:
        """Return the gaps between groups, then every group's numbers."""
        if self.outcome is not None:
            return self._write_document("evenhand.groups.number_words")
        return _build_document(self) if self.by_label is None else self.by_label.document()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per group and metric: by, group, size, metric, kind, value, low, high."""
        import pandas as pd

        if self.by_label is not None:
            return self.by_label.to_frame()
        rows = [
            {
                "by": " x ".join(breakdown.by),
                "group": group.label,
                "size": group.size,
                "metric": metric,
                "kind": quantity.kind,
                "value": quantity_value(quantity),
                "low": getattr(quantity, "low", None),
                "high": getattr(quantity, "high", None),
            }
            for breakdown in self.breakdowns
            for group in breakdown.groups
            for metric, quantity in group.metrics.items()
        ]
        return pd.DataFrame(rows)


def _build_document(result: GroupMetrics) -> Document:
    """Return what group metrics say: gaps first, then every group."""
    return Document(
        f"Groups of {format_count(result.people, 'person', 'people')}",
        f"Favourable decision: {result.favourable}; a person is selected who is given it.",
        (
            *rule_notes(result),
            *label_notes(result.label_coverage, result.breakdowns),
            *(Text(sentence, role="finding") for sentence in headline_sentences(result)),
            *(Text(sentence, role="finding") for sentence in proxy_sentences(result.proxies, weighted_by(result))),
            *gap_answers(result),
            *proxy_answers(result.proxies, weighted_by(result)),
            *small_notes(result),
            Heading("Overall", detail=True),
            overall_table(result),
            *(block for breakdown in result.breakdowns for block in breakdown_blocks(result, breakdown)),
            *proxy_blocks(result.proxies, weighted_by(result)),
            *calibration_blocks(result),
            *threshold_section(result),
        ),
        brand="Evenhand groups",
        made=result.provenance,
    )


def headline_sentences(result: GroupMetrics) -> list[str]:
    """Return who is selected how many times less often than whom, one sentence for each attribute.

    The worst comes first, and what may be chance comes last, and says so.
    """
    found = []
    for breakdown in result.breakdowns:
        ratio = breakdown.gap("demographic_parity_ratio")
        value = None if ratio is None else quantity_value(ratio.value)
        if ratio is None or value is None or value >= 1:
            continue
        lowest, highest = (
            next((group for group in breakdown.groups if group.label == label), None)
            for label in (ratio.worst, ratio.best)
        )
        if lowest is None or highest is None:
            continue
        chance = not is_distinguishable(breakdown.gap("demographic_parity_difference"))
        first, second = _name_people(lowest), _name_people(highest)
        rates = [quantity_value(group.metrics["selection_rate"]) for group in (lowest, highest)]
        against = " against ".join(format_percent(rate) for rate in rates if rate is not None)
        against += weighted_by(result)
        found.append(
            (
                (chance, value),
                f"{first[0].upper()}{first[1:]} are selected {format_against(value, FOUR_FIFTHS)} times as often as "
                f"{second} ({against}; {lowest.size:,} and {highest.size:,} people)"
                f"{', which may be chance' if chance else ''}.",
            )
        )
    return [sentence for _, sentence in sorted(found)]


def say_left_out(unknown: int, by: Sequence[str]) -> str:
    """Say how many people a figure by some attributes leaves out because a value of theirs is unknown."""
    people = format_count(unknown, "person", "people")
    return f"left out: {people} of unknown {' or '.join(by)}, who are in every figure that is not by {join_names(by)}"


def weighted_by(result: GroupMetrics) -> str:
    """Return by what the numbers are weighted, to stand after them; nothing where people count alike."""
    return "" if result.weights is None else f", weighted by {result.weights}"


def describe_weights(result: GroupMetrics) -> tuple[str, str]:
    """Return how much each person counts, as a fact with its name."""
    effective = f"{result.effective_size or 0:,.0f}"
    count = f"{result.weights}; these people say as much as {effective} of equal weight (effective size)"
    return "How much each person counts", count


def gap_answers(result: GroupMetrics) -> list[Metric]:
    """Return the demographic parity difference by each protected attribute, and by all of them together."""
    return [_gap_answer(breakdown, result) for breakdown in result.breakdowns]


def four_fifths_sentence(gap: Gap) -> str:
    """Say whether the four-fifths rule is met, with the ratio; its interval, or a group left out, may leave it open."""
    ratio = gap.value
    if isinstance(ratio, Unknown):
        return f"unknown ({ratio.reason})"
    met = ratio.value >= FOUR_FIFTHS
    against = f" of the reference {gap.reference}" if gap.reference else ""
    side = f"{'met' if met else 'not met'} ({format_against(ratio.value, FOUR_FIFTHS)}{against})"
    if met and gap.not_assessable:
        side = f"{side} by the groups that can be assessed; {format_not_assessable(gap)}"
    if not isinstance(ratio, Proved) and ratio.low < FOUR_FIFTHS <= ratio.high:
        return f"{side}, but the interval {format_ends(ratio, 'demographic_parity_ratio')} leaves it open"
    return side


def confidence_levels(result: GroupMetrics) -> str:
    """Return the confidence of the intervals of group metrics, as ``95 %``."""
    quantities = list(result.overall.values())
    for breakdown in result.breakdowns:
        quantities += [quantity for group in breakdown.groups for quantity in group.metrics.values()]
        quantities += [gap.value for gap in breakdown.gaps]
    quantities += [one.base_rate for one in result.calibration]
    if result.by_label is not None:
        quantities += result.by_label.overall.rates[result.by_label.labels[0]].values()
    found = {quantity.confidence for quantity in quantities if isinstance(quantity, Observed | Estimated)}
    return " or ".join(format_level(confidence) for confidence in sorted(found))


def overall_table(result: GroupMetrics) -> Table:
    """Return the metrics of everybody together."""
    return Table(
        f"Everybody together, observed{weighted_by(result)}; with {confidence_levels(result)} intervals",
        (Column("metric"), Column("value", numeric=True)),
        tuple(
            TableRow(
                (METRIC_TITLES.get(name, name), show_quantity(quantity, unit_name(name))), result.label_caution(name)
            )
            for name, quantity in result.overall.items()
        ),
        usual="observed",
        tiles=not find_caution(result.label_coverage),
    )


def label_notes(
    coverage: LabelCoverage | None, breakdowns: Sequence[Breakdown | LabelBreakdown], *, truth: str = "label"
) -> Iterator[Note]:
    """Yield cautions where true labels (or numbers) are selective, for everyone and by each attribute."""
    everyone, single = find_caution(coverage), [one for one in breakdowns if len(one.by) == 1]
    found = {"everyone": everyone} if everyone else {}
    for breakdown in single if not everyone else ():
        groups = {group.label: group.label_coverage for group in breakdown.groups}
        found |= {f"by {breakdown.by[0]}": caution} if (caution := describe_selective(groups)) else {}
    if found:
        counts = "; ".join(f"{about}: {caution.partition(': ')[2]}" for about, caution in found.items())
        yield Note(
            f"Selective labels ({counts}). All numbers that compare with true {truth}s describe people with a true "
            f"{truth} only, and may be far off for the others.",
            "caution",
        )


def small_notes(result: GroupMetrics) -> Iterator[Note]:
    """Yield which groups are too small to be compared, with the selection rates that they have."""
    for breakdown in result.breakdowns:
        small = []
        for group in breakdown.groups:
            rate = group.metrics["selection_rate"]
            if group.small:
                said = format_count(group.size, "person", "people")
                if not isinstance(rate, Unknown):
                    said += f": {format_value(rate, 'rate')} selected, {format_interval(rate, 'rate')}"
                small.append(f"{group.label} ({said})")
        if small:
            yield Note(
                f"Not assessable by {join_names(breakdown.by)}: {_too_few(result)}, in no gap: {list_some(small)}",
                "caution",
            )
        assessed = {group.label for group in breakdown.groups if not group.small}
        for gap in breakdown.gaps:
            undefined = [f"{label} ({n:,})" for label, n in gap.not_assessable.items() if label in assessed]
            if undefined and gap.name not in GAP_TITLES:  # a custom metric; its gap is not on the screen
                text = f"Not assessable by {join_names(breakdown.by)}: {gap.name} leaves out {list_some(undefined)}"
                yield Note(f"{text}, where {gap.metric} is unknown", "caution")


def breakdown_blocks(result: GroupMetrics, breakdown: Breakdown, *, level: int = 2) -> Iterator[Block]:
    """Yield the drawing, the gaps and all numbers by one attribute, or by several at once."""
    by, levels = join_names(breakdown.by), confidence_levels(result)
    yield Heading(f"By {by}", level, detail=True)
    drawn = (
        ""
        if len(breakdown.groups) <= DRAWN
        else (
            f" Only {DRAWN} of {len(breakdown.groups)} groups are drawn: those with the highest and the lowest "
            "selection rates; the JSON has all."
        )
    )
    if breakdown.unknown:
        yield Note(f"{say_left_out(breakdown.unknown, breakdown.by).capitalize()}.")
    marked = BASE_RATES if any("base_rate" in group.metrics for group in breakdown.groups) else ""
    weighted = "" if result.weights is None else f" Weighted by {result.weights}."
    yield Figure("group rates", DOTS + marked + DASHED + weighted + drawn, breakdown)
    if breakdown.gaps:
        yield Table(
            f"Gaps by {by}, observed{weighted_by(result)}; below each its {levels} interval",
            (Column("what is compared"), Column("gap", numeric=True), Column("highest"), Column("lowest")),
            tuple(
                TableRow(
                    (title_gap(gap), show_quantity(gap.value, unit_name(gap.name)), gap.best, gap.worst),
                    "; ".join(part for part in (describe_size(gap), format_not_assessable(gap), gap.caution) if part),
                )
                for gap in breakdown.gaps
            ),
            usual="observed",
        )
    yield from reference_table(breakdown, levels, weighted_by(result))
    present = {metric for group in breakdown.groups for metric in group.metrics}
    names = [name for name in METRIC_TITLES if name in present] + sorted(present - METRIC_TITLES.keys())
    effective = () if result.weights is None else (Column("effective size", numeric=True),)
    table = Table(
        f"Metrics by {by}: observed{weighted_by(result)}; below each its {levels} interval",
        (
            Column(by),
            Column("people", numeric=True),
            *effective,
            *(Column(METRIC_TITLES.get(name, name), True) for name in names),
        ),
        tuple(_group_row(group, names, _too_few(result)) for group in breakdown.listed),
        usual="observed",
        order="lowest selection rate first",
    )
    yield Fold(f"All numbers by {by}", (table,))


def calibration_blocks(result: GroupMetrics, *, level: int = 2) -> Iterator[Block]:
    """Yield how scores agree with observed rates, by each protected attribute; nothing where there are no scores."""
    if not result.calibration:
        return
    yield Heading("Calibration by group", level, detail=True)
    yield from label_notes(result.label_coverage, result.breakdowns)
    for by in dict.fromkeys(one.by for one in result.calibration):
        yield Figure(
            "calibration",
            f"Calibration by {by}: of people with similar scores, the observed rate of the favourable label, with "
            f"its interval. On the dashed line, scores equal observed rates. Grey: fewer than {result.min_group_size} "
            "people.",
            result,
            (by,),
        )
        bins = [one for one in result.calibration if one.by == by]
        order = ""
        if len(bins) > PAGE_ROWS:
            sizes = Counter[str]()
            for one in bins:
                sizes[one.group] += one.n
            bins.sort(key=lambda one: -sizes[one.group])
            order = "the largest groups first"
        rows = tuple(
            TableRow(
                (
                    one.group,
                    one.n,
                    ReportedNumber(format_percent(one.mean_score), one.mean_score, "observed"),
                    show_quantity(one.base_rate, "rate"),
                ),
                faint=one.n < result.min_group_size,
            )
            for one in bins
        )
        columns = (
            Column(by),
            Column("people", numeric=True),
            Column("mean score", numeric=True),
            Column("observed rate", numeric=True),
        )
        confidence = confidence_levels(result)
        caption = f"Calibration by {by}: observed{weighted_by(result)}; below each rate its {confidence} interval"
        yield Fold(f"Calibration by {by} in numbers", (Table(caption, columns, rows, usual="observed", order=order),))


def rule_notes(result: GroupMetrics) -> Iterator[Note]:
    """Yield by which thresholds people are selected, where these were given, and whether low scores are good."""
    if result.low_is_good:
        yield Note(
            "Low scores are good here. Where scores are said to be of the favourable decision, they are 1 minus these."
        )
    if result.decided_by is not None:
        yield Note(describe_rule(result.decided_by), "caution" if result.decided_by.uses_protected else "info")


def threshold_section(result: GroupMetrics, *, level: int = 2) -> Iterator[Block]:
    """Yield what other thresholds would do; nothing without scores."""
    if result.threshold_rates is not None or result.thresholds is not None:
        yield Heading("Other thresholds", level, anchor="thresholds", detail=True)
        yield from label_notes(result.label_coverage, result.breakdowns)
    if result.threshold_rates is not None:
        yield from rate_blocks(result.threshold_rates)
    if result.thresholds is not None:
        yield from threshold_blocks(result.thresholds)


def _gap_answer(breakdown: Breakdown, result: GroupMetrics) -> Metric:
    difference, ratio = breakdown.gap("demographic_parity_difference"), breakdown.gap("demographic_parity_ratio")
    name, about = "demographic parity difference", join_names(breakdown.by)
    if difference is None or isinstance(difference.value, Unknown):
        least = result.min_group_size
        reason = f"not computable: {_unknown_reason(difference, least)}"
        return Metric(
            name,
            ReportedNumber("-", kind="unknown", basis=reason),
            about=about,
            next_step=f"bring at least {least} people of each group",
        )
    # With selective labels, error rates cannot tell why selection rates differ.
    truth = breakdown.gap("equal_opportunity_difference") is not None and not find_caution(result.label_coverage)
    if difference.reference:
        other = difference.worst if difference.best == difference.reference else difference.best
        notes = [f"selection rate of {other} against the reference {difference.reference}{weighted_by(result)}"]
    else:
        notes = [f"highest selection rate: {difference.best}; lowest: {difference.worst}{weighted_by(result)}"]
    notes.append(describe_size(difference))
    if ratio is not None:
        notes.append(f"four-fifths rule: {four_fifths_sentence(ratio)}")
    if difference.not_assessable and "not assessable" not in notes[-1]:
        notes.append(format_not_assessable(difference))
    if breakdown.unknown:
        notes.append(say_left_out(breakdown.unknown, breakdown.by))
    return Metric(
        name,
        show_quantity(difference.value, difference.name),
        tuple(notes),
        about=about,
        next_step=_next_step(difference, ratio, truth=truth),
    )


def _unknown_reason(gap: Gap | None, least: int) -> str:
    if gap is not None and isinstance(gap.value, Unknown):
        return gap.value.reason
    return f"people must number {least} in at least two groups"


def _next_step(difference: Gap, ratio: Gap | None, *, truth: bool) -> str:
    fraction = None if ratio is None else quantity_value(ratio.value)
    if fraction is not None and fraction < FOUR_FIFTHS:
        errors = "compare the error rates of the groups" if truth else "bring true labels to compare error rates"
        return f"{errors}; justify the gap or mitigate it"
    if difference.not_assessable:
        return "bring more people of the groups that are not assessable"
    if not isinstance(difference.value, Unknown) and getattr(difference.value, "low", difference.value.value) <= 0:
        return "too few people to tell the gap from chance; more would narrow the interval"
    return "see whether errors fall more on one group than on the other" if truth else "bring true labels"


def _too_few(result: GroupMetrics) -> str:
    """Return what a group is that is too small to be compared."""
    if result.weights is None:
        return f"fewer than {result.min_group_size} people"
    return f"an effective size below {result.min_group_size} (weights)"


def _group_row(group: Group, names: list[str], too_few: str) -> TableRow:
    cells = [show_quantity(group.metrics[name], unit_name(name)) if name in group.metrics else "" for name in names]
    parts = f"{too_few}: in no gap" if group.small else "", find_caution(group.label_coverage)
    detail = "; ".join(part for part in parts if part)
    effective = () if group.effective_size is None else (f"{group.effective_size:,.0f}",)
    return TableRow((group.label, group.size, *effective, *cells), detail, faint=group.small)


def _name_people(group: Group) -> str:
    """Return the people of a group as one would say it: women, men with race White, people with age 25 to 39."""
    noun, rest = "people", []
    for name, value in group.values.items():
        if noun == "people" and name.lower() in ("sex", "gender") and str(value).lower() in NOUNS:
            noun = NOUNS[str(value).lower()]
        else:
            rest.append(f"{name} {value}")
    return f"{noun} with {' and '.join(rest)}" if rest else noun
