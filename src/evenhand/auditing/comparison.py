"""Two audits compared: two models, two releases, two periods; paired where the people are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.auditing.changes import (
    ANY_DEPENDENCE,
    DELONG,
    PAIRED_MEAN_GAP,
    PAIRED_MEANS,
    AuditComparison,
    ChangeLine,
    ComparedAudit,
    PairedPeople,
    Pairing,
    PendingChange,
    Verdict,
    bound_by_intervals,
    compare_proofs,
)
from evenhand.auditing.config import CompareConfig
from evenhand.auditing.result import AuditResult
from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.groups.breakdown import Breakdown, Gap, Group
from evenhand.stats.level import bonferroni
from evenhand.stats.metric_specs import GAP_TITLES, METRIC_TITLES, METRICS, NUMBER_GAP_TITLES, NUMBER_TITLES
from evenhand.stats.paired import PairedCells, change_of_gap, paired_difference
from evenhand.stats.proportion import (
    DIFFERENCE_METHOD,
    difference_interval,
    largest_difference_of_proportions,
    smallest_ratio_of_proportions,
)
from evenhand.stats.quantity import Observed, Quantity, Unknown, quantity_value

GAP_METRICS = {
    name: METRICS[name].compares
    for name in (
        "demographic_parity_difference",
        "equal_opportunity_difference",
        "accuracy_difference",
        "calibration_difference",
        "mean_difference",
        "residual_difference",
        "absolute_error_difference",
    )
}
"""Compared gaps, with the rate or mean of each group."""

MEANS = ("calibration_gap", "mean", "mean_residual", "mean_absolute_error")
OVERALL = ("selection_rate", "accuracy", "auc", *MEANS[1:])
BY_GROUP = ("selection_rate", "true_positive_rate", *MEANS[:3])


def compare_audits(
    before: AuditResult, after: AuditResult, config: CompareConfig | None = None, **settings: Any
) -> AuditComparison:
    """Compare two audits number by number.

    Where both are about the same people and keep who was selected (``AuditConfig.keep_decisions``), changes are paired:
    what both decisions share cancels. About the same people without that, an interval allows for any dependence: it is
    made of both numbers' own intervals. Else the people are taken for independent samples. Intervals of all changes
    hold together (Bonferroni).

    Args:
        before, after: audits of decisions, or of models, with at least one protected attribute in common.
        config: the confidence level.
        settings: fields of ``CompareConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: the audits have no number in common, decide something else, or have weights.
    """
    started = time.perf_counter()
    config = CompareConfig.of(config, settings)
    _require_comparable(before, after)
    pairing = _relation(before, after)
    left_out: list[str] = []
    pending = list(_Lines(before, after, pairing, left_out).find())
    known = sum(one.interval is not None for one in pending)
    if not pending:
        raise OptionError("the two audits have no number in common", hint="audit both by the same protected attributes")
    level = bonferroni(config.confidence, max(known, 1))
    return AuditComparison(
        before=_card(before),
        after=_card(after),
        pairing=pairing,
        confidence=config.confidence,
        comparisons=known,
        lines=tuple(
            _finish(one, level, config.confidence, known, _find_caution(before, after, one)) for one in pending
        ),
        left_out=tuple(left_out),
        unit=(before.groups.outcome and before.groups.outcome.unit) or "",
        seed=0,
        seconds=time.perf_counter() - started,
    )


def read_audit(path: str | Path) -> AuditResult:
    """Read an audit from its JSON, or from the folder of its report.

    Raises:
        DataError: there is no such file, or it is not an audit.
    """
    file = Path(path)
    file = file / "report.json" if file.is_dir() else file
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else "it cannot be read as text"
        hint = "give the report.json of an audit, its folder, or a file that its `to_json` made"
        raise DataError(reason, location=str(file), hint=hint) from None
    try:
        return AuditResult.from_json(text)
    except DataError as error:
        error.location = str(file)
        raise


def own_metrics(audit: AuditResult) -> list[str]:
    """Return the names of metrics of the user's own that an audit has."""
    return [name for name in audit.groups.overall if name not in METRIC_TITLES | NUMBER_TITLES]


def _require_comparable(before: AuditResult, after: AuditResult) -> None:
    decided = [
        None if audit.groups.outcome is None else (audit.groups.outcome.name, audit.groups.outcome.unit)
        for audit in (before, after)
    ]
    if decided[0] != decided[1]:
        words = ["a label" if one is None else " in ".join(filter(None, one)) for one in decided]
        raise OptionError(
            f"{words[0]} is decided in one audit and {words[1]} in the other",
            hint="compare audits of the same column, in the same unit",
        )
    labels = [audit.groups.favourable for audit in (before, after)]
    if labels[0] != labels[1]:
        raise OptionError(
            f"the favourable label is {labels[0]!r} in one audit and {labels[1]!r} in the other",
            hint="audit both with the same `favourable=`",
        )
    if before.groups.weights is not None or after.groups.weights is not None:
        raise OptionError(
            "an audit with weights cannot be compared: its counts are not in the report",
            hint="audit without weights, or compare the intervals of both by hand",
        )


def _relation(before: AuditResult, after: AuditResult) -> Pairing:
    prints = [audit.groups.people_fingerprint for audit in (before, after)]
    if not prints[0] or prints[0] != prints[1]:
        return "same people" if before.data.fingerprint == after.data.fingerprint else "unpaired"
    kept = [audit.groups.kept for audit in (before, after)]
    if kept[0] is not None and kept[1] is not None and kept[0].pairs_with(kept[1]):
        return "paired"
    return "same people"


def _card(audit: AuditResult) -> ComparedAudit:
    fingerprint = audit.groups.people_fingerprint or audit.data.fingerprint
    return ComparedAudit(
        model=audit.model.name,
        data=audit.data.name,
        people=audit.data.people,
        fingerprint=fingerprint,
        table_reading=audit.table_reading,
    )


def _find_caution(before: AuditResult, after: AuditResult, change: PendingChange) -> str:
    """Return the cautions about selective true labels of a number in both audits."""
    name, by, group = change.name, change.by, change.group
    cautions = [audit.groups.label_caution(name, by, group) for audit in (before, after)]
    if cautions[0] == cautions[1]:
        return cautions[0]
    return "; ".join(f"{when}: {text}" for when, text in zip(("before", "after"), cautions, strict=True) if text)


def _finish(one: PendingChange, level: float, confidence: float, comparisons: int, caution: str) -> ChangeLine:
    """Return a line with the interval of its change."""
    values = quantity_value(one.before), quantity_value(one.after)
    change: Quantity
    verdict: Verdict = "not comparable"
    if one.exact is not None:
        change, verdict = one.exact
    elif values[0] is None or values[1] is None or one.interval is None:
        reason = next((end.reason for end in (one.before, one.after) if isinstance(end, Unknown)), one.method)
        change = Unknown(reason=reason)
    else:
        low, high = one.interval(level)
        value = values[1] - values[0]
        low, high = min(low, value), max(high, value)
        together = "" if comparisons == 1 else f", simultaneous over {comparisons} changes (Bonferroni)"
        people = getattr(one.after, "n", 0)
        change = Observed(
            value=value, n=people, low=low, high=high, confidence=confidence, method=one.method + together
        )
        verdict = _judge(low, high, METRICS[one.name].worse if one.name in METRICS else "")
    return ChangeLine(
        name=one.name,
        by=one.by,
        group=one.group,
        before=one.before,
        after=one.after,
        change=change,
        pairing=one.pairing,
        verdict=verdict,
        caution=caution,
    )


def _judge(low: float, high: float, worse: str) -> Verdict:
    if low <= 0 <= high:
        return "no clear change"
    direction: Verdict = "higher" if low > 0 else "lower"
    if not worse:
        return direction
    return "worse" if direction == worse else "better"


class _Lines:
    """Finds the numbers that two audits have in common, and how each one's change is bounded."""

    def __init__(self, before: AuditResult, after: AuditResult, pairing: Pairing, left_out: list[str]) -> None:
        self.before, self.after, self.pairing, self.left_out = before, after, pairing, left_out
        self.kept = before.groups.kept if pairing == "paired" else None
        self.cells: PairedCells | None = None
        self.people: PairedPeople | None = None
        if self.kept is not None and after.groups.kept is not None:
            self.people = PairedPeople(self.kept, after.groups.kept)
            if before.groups.outcome is None:
                self.cells = self.kept.pair(after.groups.kept)

    def find(self) -> Iterator[PendingChange]:
        """Yield everybody's numbers, then gaps, groups, flips and proofs by each set of attributes."""
        both = self.before.groups, self.after.groups
        every = None if self.kept is None else np.arange(len(self.kept.sizes))
        own = own_metrics(self.before)
        for name in (*OVERALL, *own):
            ends = [groups.overall.get(name) for groups in both]
            if ends[0] is not None and ends[1] is not None:
                yield self._number(name, "", "", (ends[0], ends[1]), every)
            elif ends[0] is not None or ends[1] is not None:
                needed = {"accuracy": "true labels", "auc": "scores and true labels"}.get(name, "it")
                self.left_out.append(f"{METRIC_TITLES.get(name, name)}: only one audit has {needed}")
        others = {breakdown.by: breakdown for breakdown in both[1].breakdowns}
        for breakdown in both[0].breakdowns:
            if breakdown.by not in others:
                self.left_out.append(f"{' x '.join(breakdown.by)}: only in the audit before")
                continue
            yield from self._breakdown(breakdown, others.pop(breakdown.by), own)
        self.left_out += [f"{' x '.join(by)}: only in the audit after" for by in others]
        yield from self._flips()
        yield from compare_proofs(self.before, self.after, self.left_out)
        self._name_left_out()

    def _name_left_out(self) -> None:
        """Say what both audits hold and is not compared, and why."""
        both = self.before, self.after
        if any(audit.groups.labels is not None for audit in both):
            self.left_out.append("gaps of every label or grade: which label each person was given is not kept")
        titles = (
            METRIC_TITLES
            | NUMBER_TITLES
            | {name: text.partition(":")[0] for name, text in (GAP_TITLES | NUMBER_GAP_TITLES).items()}
        )
        compared = {*OVERALL, *BY_GROUP, *GAP_METRICS, "demographic_parity_ratio"}
        held = [
            {*audit.groups.overall, *(gap.name for one in audit.groups.breakdowns for gap in one.gaps)}
            for audit in both
        ]
        more = [titles[name] for name in titles if name in held[0] & held[1] - compared]
        if more:
            self.left_out.append(f"{', '.join(more)}: in both audits; more changes would widen every interval")
        if all(audit.subgroups is not None for audit in both):
            self.left_out.append("subgroups: each audit chose its own, and adjusts for having chosen them")

    def _breakdown(self, before: Breakdown, after: Breakdown, own: Sequence[str]) -> Iterator[PendingChange]:
        by, groups = "_x_".join(before.by), {group.label: group for group in after.groups}
        for name, metric in GAP_METRICS.items():
            gaps = before.gap(name), after.gap(name)
            if gaps[0] is not None and gaps[1] is not None and not _lack_scores(gaps[0].value, gaps[1].value, metric):
                yield self._gap(name, metric, (before, after), (gaps[0], gaps[1]))
        for name in (f"{metric}_difference" for metric in own):
            gaps = before.gap(name), after.gap(name)
            if gaps[0] is not None and gaps[1] is not None:
                yield self._own_gap(by, (gaps[0], gaps[1]))
        ratios = before.gap("demographic_parity_ratio"), after.gap("demographic_parity_ratio")
        if ratios[0] is not None and ratios[1] is not None:
            yield self._ratio((before, after), (ratios[0], ratios[1]))
        missing = {group.label for group in before.groups} ^ groups.keys()
        if missing:
            self.left_out.append(f"{' x '.join(before.by)}: only one audit has {', '.join(sorted(missing))}")
        if len(before.by) > 1:
            return
        for group in before.groups:
            other = groups.get(group.label)
            if other is None:
                continue
            if group.small or other.small:
                self.left_out.append(f"{before.by[0]} {group.label}: too few people")
                continue
            for name in BY_GROUP:
                ends = group.metrics.get(name), other.metrics.get(name)
                if ends[0] is not None and ends[1] is not None and not _lack_scores(ends[0], ends[1], name):
                    cells = None if self.kept is None else self._group_cells(before, group)
                    yield self._number(name, by, group.label, (ends[0], ends[1]), cells)

    def _flips(self) -> Iterator[PendingChange]:
        changes = self.before.changes, self.after.changes
        if changes[0] is not None and changes[1] is not None:
            if changes[0].tolerance != changes[1].tolerance:
                self.left_out.append("counterfactual flip rate: the tolerances differ")
                return
            later = {change.protected: change.rate for change in changes[1].changes if change.over == "data"}
            for change in changes[0].changes:
                if change.over == "data" and change.protected in later:
                    ends = change.rate, later[change.protected]
                    yield self._rate("counterfactual_flip_rate", "_x_".join(change.protected), "", ends, None)
            self.left_out.append("mean and largest changes of each person's number: they are not kept")
        if self.before.individual is None or self.after.individual is None:
            return
        others = {rate.protected: rate for rate in self.after.individual.rates if rate.over == "data"}
        for rate in self.before.individual.rates:
            other = others.get(rate.protected)
            if rate.over != "data" or other is None:
                continue
            ends = rate.headline.rate, other.headline.rate
            yield self._rate("counterfactual_flip_rate", "_x_".join(rate.protected), "", ends, None)

    def _number(
        self, name: str, by: str, group: str, ends: tuple[Quantity, Quantity], cells: Integers | None
    ) -> PendingChange:
        """Return the change of a share, a mean, an area under the ROC curve or a metric of the user's own."""
        if name in ("selection_rate", "true_positive_rate", "accuracy"):
            return self._rate(name, by, group, ends, cells)
        paired, method = None, DELONG if name == "auc" else PAIRED_MEANS
        if self.people is not None and not any(isinstance(end, Unknown) for end in ends):
            if name == "auc":
                paired = self.people.auc_change()
            elif name in MEANS:
                paired = self.people.mean_change(name, cells)
        if paired is None:
            return bound_by_intervals(name, by, group, ends, self.pairing)
        return PendingChange(name, by, group, *ends, paired, "paired", method)

    def _own_gap(self, by: str, gaps: tuple[Gap, Gap]) -> PendingChange:
        """Return the change of the gap of a metric of the user's own."""
        name, ends = gaps[0].name, (gaps[0].value, gaps[1].value)
        if gaps[0].reference or gaps[1].reference:
            return PendingChange(name, by, "", *ends, None, self.pairing, TO_REFERENCE)
        if gaps[0].not_assessable.keys() != gaps[1].not_assessable.keys():
            return PendingChange(name, by, "", *ends, None, self.pairing, OTHER_GROUPS)
        return bound_by_intervals(name, by, "", ends, self.pairing)

    def _rate(
        self, name: str, by: str, group: str, ends: tuple[Quantity, Quantity], cells: Integers | None
    ) -> PendingChange:
        """Return the change of a share of people."""
        first, second = _counts(ends[0]), _counts(ends[1])
        if first is None or second is None:
            return PendingChange(name, by, group, *ends, None, self.pairing, "one of the numbers is not a count")
        (k1, n1), (k2, n2) = first, second
        if cells is not None and self.cells is not None:
            table = self._answers(cells, name)
            gained, lost, people = int(table[0, 1]), int(table[1, 0]), int(table.sum())

            def paired(level: float) -> tuple[float, float]:
                return paired_difference(gained, lost, people, level)

            return PendingChange(name, by, group, *ends, paired, "paired", "Tango's score interval for paired shares")
        if self.pairing == "unpaired":

            def apart(level: float) -> tuple[float, float]:
                low, high = difference_interval(k2, n2, k1, n1, level)
                return float(low), float(high)

            return PendingChange(name, by, group, *ends, apart, "unpaired", DIFFERENCE_METHOD)
        return PendingChange(name, by, group, *ends, _any_dependence((k1, n1), (k2, n2)), "same people", ANY_DEPENDENCE)

    def _ratio(self, breakdowns: tuple[Breakdown, Breakdown], ratios: tuple[Gap, Gap]) -> PendingChange:
        """Return the change of the smallest selection rate over the largest, bounded by the intervals of both."""
        name, metric, by = ratios[0].name, ratios[0].metric, "_x_".join(breakdowns[0].by)
        ends = ratios[0].value, ratios[1].value
        pairing: Pairing = "unpaired" if self.pairing == "unpaired" else "same people"
        labels = [_groups_of_gap(breakdown, metric, gap) for breakdown, gap in zip(breakdowns, ratios, strict=True)]
        if set(labels[0]) != set(labels[1]):
            return PendingChange(name, by, "", *ends, None, pairing, OTHER_GROUPS)
        if ratios[0].reference or ratios[1].reference:
            return PendingChange(name, by, "", *ends, None, pairing, TO_REFERENCE)
        if isinstance(ends[0], Unknown) or isinstance(ends[1], Unknown):
            return PendingChange(name, by, "", *ends, None, pairing, "one of the ratios is unknown")
        counts = [
            np.array([_counts(groups[label].metrics[metric]) for label in labels[0]])
            for groups in map(_by_label, breakdowns)
        ]

        def bounded(level: float) -> tuple[float, float]:
            half = bonferroni(level, 2)
            (low1, high1), (low2, high2) = (smallest_ratio_of_proportions(one[:, 0], one[:, 1], half) for one in counts)
            return float(low2 - high1), float(high2 - low1)

        return PendingChange(name, by, "", *ends, bounded, pairing, ANY_DEPENDENCE)

    def _gap(
        self, name: str, metric: str, breakdowns: tuple[Breakdown, Breakdown], gaps: tuple[Gap, Gap]
    ) -> PendingChange:
        """Return the change of the largest difference between the groups that both audits compare."""
        by = "_x_".join(breakdowns[0].by)
        labels = [_groups_of_gap(breakdown, metric, gap) for breakdown, gap in zip(breakdowns, gaps, strict=True)]
        ends = gaps[0].value, gaps[1].value
        if set(labels[0]) != set(labels[1]):
            return PendingChange(name, by, "", *ends, None, self.pairing, OTHER_GROUPS)
        if gaps[0].reference or gaps[1].reference:
            return PendingChange(name, by, "", *ends, None, self.pairing, TO_REFERENCE)
        if isinstance(ends[0], Unknown) or isinstance(ends[1], Unknown):
            return PendingChange(name, by, "", *ends, None, self.pairing, "one of the gaps is unknown")
        if metric in MEANS:
            groups = _by_label(breakdowns[0])
            change = (
                None
                if self.people is None
                else self.people.gap_change(
                    metric, [self._group_cells(breakdowns[0], groups[label]) for label in labels[0]]
                )
            )
            if change is None:
                return bound_by_intervals(name, by, "", ends, self.pairing)
            return PendingChange(name, by, "", *ends, change, "paired", PAIRED_MEAN_GAP)
        counts = np.array(
            [[_counts(groups[label].metrics[metric]) for label in labels[0]] for groups in map(_by_label, breakdowns)]
        )  # audit, group, (k, n)
        if self.kept is not None and self.cells is not None:
            table = np.array(
                [
                    self._answers(self._group_cells(breakdowns[0], _by_label(breakdowns[0])[label]), metric)
                    for label in labels[0]
                ]
            )
            paired, same = PairedCells(table), np.eye(len(table))
            return PendingChange(
                name, by, "", *ends, lambda level: change_of_gap(paired, same, same, level), "paired", PAIRED_GAP
            )
        if self.pairing == "unpaired":
            independent, first, second = _independent_cells(counts)
            return PendingChange(
                name,
                by,
                "",
                *ends,
                lambda level: change_of_gap(independent, first, second, level),
                "unpaired",
                UNPAIRED_GAP,
            )

        def bounded(level: float) -> tuple[float, float]:
            half = bonferroni(level, 2)
            (low1, high1), (low2, high2) = (
                largest_difference_of_proportions(one[:, 0], one[:, 1], half) for one in counts
            )
            return low2 - high1, high2 - low1

        return PendingChange(name, by, "", *ends, bounded, "same people", ANY_DEPENDENCE)

    def _group_cells(self, breakdown: Breakdown, group: Group) -> Integers:
        assert self.kept is not None
        return self.kept.cells_of(breakdown.by, [group.values[name] for name in breakdown.by])

    def _answers(self, cells: Integers, metric: str) -> Integers:
        """Count the people of some cells by decision (of the accuracy: whether correct) before and after, shape (2, 2).

        Cells without a true label count for the selection rate only.
        """
        assert self.kept is not None
        assert self.cells is not None
        total = np.zeros((2, 2), dtype=np.int64)
        for cell in cells.tolist():
            counts, deserving = self.cells.counts[cell], self.kept.deserving[cell]
            if (metric == "true_positive_rate" and not deserving) or (metric == "accuracy" and deserving is None):
                continue
            total += counts[::-1, ::-1] if metric == "accuracy" and not deserving else counts
        return total


OTHER_GROUPS = "the audits do not compare the same groups"
TO_REFERENCE = "gaps against a reference group are not compared"
PAIRED_GAP = "paired contrast of Agresti-Min, over the pairs that may be widest"
UNPAIRED_GAP = "contrast of Agresti-Caffo, over the pairs that may be widest"


def _any_dependence(before: tuple[int, int], after: tuple[int, int]) -> Callable[[float], tuple[float, float]]:
    from evenhand.stats.proportion import clopper_pearson

    def bounded(level: float) -> tuple[float, float]:
        half = bonferroni(level, 2)
        (low1, high1), (low2, high2) = clopper_pearson(*before, half), clopper_pearson(*after, half)
        return float(low2 - high1), float(high2 - low1)

    return bounded


def _counts(quantity: Quantity) -> tuple[int, int] | None:
    """Return a rate as k of n; None where it is none."""
    value, n = quantity_value(quantity), getattr(quantity, "n", 0)
    return None if value is None or not n else (round(value * n), n)


def _lack_scores(before: Quantity, after: Quantity, metric: str) -> bool:
    """Return whether neither audit has scores, so that nothing is missing where their calibration is not compared."""
    return metric == "calibration_gap" and isinstance(before, Unknown) and isinstance(after, Unknown)


def _by_label(breakdown: Breakdown) -> dict[str, Group]:
    return {group.label: group for group in breakdown.groups}


def _groups_of_gap(breakdown: Breakdown, metric: str, gap: Gap) -> list[str]:
    """Return the groups that a gap was taken over."""
    return [
        group.label
        for group in breakdown.groups
        if group.label not in gap.not_assessable and _counts(group.metrics[metric]) is not None
    ]


def _independent_cells(counts: Any) -> tuple[PairedCells, Floats, Floats]:
    """Return the groups of two samples (2, groups, (k, n)) as cells, and the weights of each sample's rates."""
    k, n = counts[..., 0].reshape(-1).astype(np.int64), counts[..., 1].reshape(-1).astype(np.int64)
    groups = len(k) // 2
    table = np.zeros((len(k), 2, 2), dtype=np.int64)
    # Everybody answers once; the other answer is never weighed.
    table[:groups, 1, 0], table[:groups, 0, 0] = k[:groups], (n - k)[:groups]
    table[groups:, 0, 1], table[groups:, 0, 0] = k[groups:], (n - k)[groups:]
    nothing = np.zeros((groups, groups))
    return PairedCells(table), np.hstack([np.eye(groups), nothing]), np.hstack([nothing, np.eye(groups)])
