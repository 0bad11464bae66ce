"""Comparison of two audits, such as two models, releases or periods. Audits of the same people are paired."""

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
    NumberPair,
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
from evenhand.stats.metric_specs import (
    GAP_TITLES,
    METRIC_TITLES,
    METRICS,
    NUMBER_GAP_TITLES,
    NUMBER_TITLES,
    metric_spec,
)
from evenhand.stats.paired import PairedCells, change_of_gap, paired_difference
from evenhand.stats.proportion import (
    DIFFERENCE_METHOD,
    clopper_pearson,
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

    If both audits are about the same people and contain their decisions (``AuditConfig.keep_decisions``), changes are
    paired. If they are about the same people but do not contain the decisions, the intervals are valid for any
    dependence: they are computed from the intervals of both numbers. Other people are treated as independent samples.
    The intervals of all changes are simultaneous (Bonferroni).

    Args:
        before, after: Audits of decisions or of models, with at least one common protected attribute.
        config: Settings of the comparison.
        settings: Fields of ``CompareConfig``. They override those of ``config``.

    Raises:
        OptionError: The audits have no number in common, different targets, or weights.
    """
    started = time.perf_counter()
    config = CompareConfig.of(config, settings)
    _require_comparable(before, after)
    pairing = _pair_audits(before, after)
    changes = _PendingChanges(before, after, pairing)
    pending = list(changes)
    bounded = sum(change.interval is not None for change in pending)
    if not pending:
        raise OptionError("the two audits have no number in common", hint="audit both by the same protected attributes")
    level = bonferroni(config.confidence, max(bounded, 1))
    return AuditComparison(
        before=_describe_audit(before),
        after=_describe_audit(after),
        pairing=pairing,
        confidence=config.confidence,
        comparisons=bounded,
        lines=tuple(
            _bound_change(change, level, config.confidence, bounded, changes.find_caution(change.pair))
            for change in pending
        ),
        left_out=tuple(changes.left_out),
        unit=(before.groups.outcome and before.groups.outcome.unit) or "",
        seed=0,
        seconds=time.perf_counter() - started,
    )


def read_audit(path: str | Path) -> AuditResult:
    """Read an audit from its JSON file, or from the folder of its report.

    Raises:
        DataError: The file does not exist, or is not an audit.
    """
    file = Path(path)
    file = file / "report.json" if file.is_dir() else file
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else "it is not a text file"
        hint = "pass the report.json of an audit, its folder, or a file written by `to_json`"
        raise DataError(reason, location=str(file), hint=hint) from None
    try:
        return AuditResult.from_json(text)
    except DataError as error:
        error.location = str(file)
        raise


def own_metrics(audit: AuditResult) -> list[str]:
    """Return the names of the custom metrics of an audit. Audits of several labels have none."""
    overall = audit.groups.overall if audit.groups.label_set is None else {}
    return [name for name in overall if name not in METRIC_TITLES | NUMBER_TITLES]


def _require_comparable(baseline: AuditResult, current: AuditResult) -> None:
    targets = [
        "a label"
        if audit.groups.outcome is None
        else " in ".join(filter(None, (audit.groups.outcome.name, audit.groups.outcome.unit)))
        for audit in (baseline, current)
    ]
    if targets[0] != targets[1]:
        raise OptionError(
            f"the target is {targets[0]} in one audit and {targets[1]} in the other",
            hint="compare audits of the same column, in the same unit",
        )
    labels = [audit.groups.favourable for audit in (baseline, current)]
    if labels[0] != labels[1]:
        raise OptionError(
            f"the favourable label is {labels[0]!r} in one audit and {labels[1]!r} in the other",
            hint="audit both with the same `favourable=`",
        )
    if baseline.groups.weights is not None or current.groups.weights is not None:
        raise OptionError(
            "an audit with weights cannot be compared: the report does not contain its counts",
            hint="audit without weights, or compare the intervals by hand",
        )


def _pair_audits(baseline: AuditResult, current: AuditResult) -> Pairing:
    fingerprints = [audit.groups.people_fingerprint for audit in (baseline, current)]
    if not fingerprints[0] or fingerprints[0] != fingerprints[1]:
        return "same people" if baseline.data.fingerprint == current.data.fingerprint else "unpaired"
    kept = [audit.groups.kept for audit in (baseline, current)]
    if kept[0] is not None and kept[1] is not None and kept[0].pairs_with(kept[1]):
        return "paired"
    return "same people"


def _describe_audit(audit: AuditResult) -> ComparedAudit:
    fingerprint = audit.groups.people_fingerprint or audit.data.fingerprint
    return ComparedAudit(
        model=audit.model.name,
        data=audit.data.name,
        people=audit.data.people,
        fingerprint=fingerprint,
        table_reading=audit.table_reading,
    )


def _bound_change(
    pending: PendingChange, level: float, confidence: float, comparisons: int, caution: str
) -> ChangeLine:
    """Compute the interval and the verdict of a change."""
    pair = pending.pair
    values = quantity_value(pair.before), quantity_value(pair.after)
    change: Quantity
    verdict: Verdict = "not comparable"
    if pending.exact is not None:
        change, verdict = pending.exact
    elif values[0] is None or values[1] is None or pending.interval is None:
        unknown = [end.reason for end in (pair.before, pair.after) if isinstance(end, Unknown)]
        change = Unknown(reason=unknown[0] if unknown else pending.method)
    else:
        low, high = pending.interval(level)
        value = values[1] - values[0]
        low, high = min(low, value), max(high, value)
        simultaneous = "" if comparisons == 1 else f", simultaneous over {comparisons} changes (Bonferroni)"
        change = Observed(
            value=value,
            n=getattr(pair.after, "n", 0),
            low=low,
            high=high,
            confidence=confidence,
            method=pending.method + simultaneous,
        )
        verdict = _judge(low, high, metric_spec(pair.name).worse)
    return ChangeLine(**pair._asdict(), change=change, pairing=pending.pairing, verdict=verdict, caution=caution)


def _judge(low: float, high: float, worse: str) -> Verdict:
    if low <= 0 <= high:
        return "no clear change"
    direction: Verdict = "higher" if low > 0 else "lower"
    if not worse:
        return direction
    return "worse" if direction == worse else "better"


class _PendingChanges:
    """Changes of the common numbers of two audits. Numbers that are not compared are added to ``left_out``."""

    def __init__(self, baseline: AuditResult, current: AuditResult, pairing: Pairing) -> None:
        self.before, self.after, self.pairing = baseline, current, pairing
        self.left_out: list[str] = []
        self.numbers = [{number[:3]: number for number in audit.numbers()} for audit in (baseline, current)]
        self.kept = baseline.groups.kept if pairing == "paired" else None
        self.cells: PairedCells | None = None
        self.people: PairedPeople | None = None
        if self.kept is not None and current.groups.kept is not None:
            self.people = PairedPeople(self.kept, current.groups.kept)
            if baseline.groups.outcome is None:
                self.cells = self.kept.pair(current.groups.kept)

    def __iter__(self) -> Iterator[PendingChange]:
        """Yield overall numbers, followed by gaps, groups, flips and proofs of each set of attributes."""
        baseline, current = self.before.groups, self.after.groups
        everyone = None if self.kept is None else np.arange(len(self.kept.sizes))
        custom = own_metrics(self.before)
        for pair in self._pairs((*OVERALL, *custom)):
            yield self._number(pair, everyone)
        for name in (*OVERALL, *custom):
            if ((name, "", "") in self.numbers[0]) != ((name, "", "") in self.numbers[1]):
                needed = {"accuracy": "true labels", "auc": "scores and true labels"}.get(name, "it")
                self.left_out.append(f"{METRIC_TITLES.get(name, name)}: only one audit has {needed}")
        current_breakdowns = {breakdown.by: breakdown for breakdown in current.breakdowns}
        for breakdown in baseline.breakdowns:
            if breakdown.by not in current_breakdowns:
                self.left_out.append(f"{' x '.join(breakdown.by)}: only in the first audit")
                continue
            yield from self._breakdown((breakdown, current_breakdowns.pop(breakdown.by)), custom)
        self.left_out += [f"{' x '.join(by)}: only in the second audit" for by in current_breakdowns]
        yield from self._flips()
        yield from compare_proofs(self.before, self.after, self.left_out)
        self._list_left_out()

    def _pairs(self, names: Sequence[str], by: str = "", group: str = "") -> Iterator[NumberPair]:
        """Yield the numbers that both audits contain, except calibration errors if neither audit has scores."""
        for name in names:
            before, after = (numbers.get((name, by, group)) for numbers in self.numbers)
            if before is not None and after is not None:
                pair = NumberPair(name, by, group, before.quantity, after.quantity)
                unscored = isinstance(pair.before, Unknown) and isinstance(pair.after, Unknown)
                if not (unscored and name in ("calibration_gap", "calibration_difference")):
                    yield pair

    def find_caution(self, pair: NumberPair) -> str:
        """Return the cautions about selective true labels for a number in both audits."""
        cautions = [numbers[pair[:3]].caution if pair[:3] in numbers else "" for numbers in self.numbers]
        if cautions[0] == cautions[1]:
            return cautions[0]
        return "; ".join(f"{when}: {text}" for when, text in zip(("before", "after"), cautions, strict=True) if text)

    def _list_left_out(self) -> None:
        """Record the numbers that both audits contain but that are not compared, with the reasons."""
        audits = self.before, self.after
        if any(audit.groups.labels is not None for audit in audits):
            self.left_out.append("gaps of each label or grade: the label of each person is not stored")
        gap_titles = {name: title.partition(":")[0] for name, title in (GAP_TITLES | NUMBER_GAP_TITLES).items()}
        titles = METRIC_TITLES | NUMBER_TITLES | gap_titles
        compared = {*OVERALL, *BY_GROUP, *GAP_METRICS, "demographic_parity_ratio"}
        names = [{name for name, _, group in numbers if not group} for numbers in self.numbers]
        uncompared = [title for name, title in titles.items() if name in names[0] & names[1] - compared]
        if uncompared:
            self.left_out.append(
                f"{', '.join(uncompared)}: in both audits, but left out because more changes would widen all intervals"
            )
        if all(audit.subgroups is not None for audit in audits):
            self.left_out.append("subgroups: each audit selected different ones, and adjusts for the selection")

    def _breakdown(self, breakdowns: tuple[Breakdown, Breakdown], custom: Sequence[str]) -> Iterator[PendingChange]:
        baseline, current = breakdowns
        gap_names = (*GAP_METRICS, *(f"{metric}_difference" for metric in custom), "demographic_parity_ratio")
        for pair in self._pairs(gap_names, baseline.key):
            yield self._gap(pair, breakdowns)
        groups = _by_label(current)
        missing = {group.label for group in baseline.groups} ^ groups.keys()
        if missing:
            self.left_out.append(f"{' x '.join(baseline.by)}: only one audit has {', '.join(sorted(missing))}")
        if len(baseline.by) > 1:
            return
        for group in baseline.groups:
            other = groups.get(group.label)
            if other is None:
                continue
            if group.small or other.small:
                self.left_out.append(f"{baseline.by[0]} {group.label}: too few people")
                continue
            cells = None if self.kept is None else self._group_cells(baseline, group)
            for pair in self._pairs(BY_GROUP, baseline.key, group.label):
                yield self._number(pair, cells)

    def _flips(self) -> Iterator[PendingChange]:
        """Yield the changes in the counterfactual flip rates of the people in the data."""
        if self.before.changes is not None and self.after.changes is not None:
            if self.before.changes.tolerance != self.after.changes.tolerance:
                self.left_out.append("counterfactual flip rate: the tolerances differ")
                return
            self.left_out.append("mean and largest changes of numbers: the changes of each person are not stored")
        for by in [by for key, by, _ in self.numbers[0] if key == "flip_rate"]:
            for pair in self._pairs(("flip_rate",), by):
                yield self._rate(pair, None)

    def _number(self, pair: NumberPair, cells: Integers | None) -> PendingChange:
        """Bound the change in a share, a mean, an area under the ROC curve or a custom metric."""
        if pair.name in ("selection_rate", "true_positive_rate", "accuracy"):
            return self._rate(pair, cells)
        interval = None
        if self.people is not None and not pair.is_unknown:
            if pair.name == "auc":
                interval = self.people.auc_change()
            elif pair.name in MEANS:
                interval = self.people.mean_change(pair.name, cells)
        if interval is None:
            return bound_by_intervals(pair, self.pairing)
        return PendingChange(pair, interval, "paired", DELONG if pair.name == "auc" else PAIRED_MEANS)

    def _rate(self, pair: NumberPair, cells: Integers | None) -> PendingChange:
        """Bound the change in a share of people."""
        baseline, current = _counts(pair.before), _counts(pair.after)
        if baseline is None or current is None:
            return PendingChange(pair, None, self.pairing, "one of the numbers is not a count")
        if cells is not None and self.cells is not None:
            table = self._answers(cells, pair.name)
            gained, lost, people = int(table[0, 1]), int(table[1, 0]), int(table.sum())
            return PendingChange(
                pair,
                lambda level: paired_difference(gained, lost, people, level),
                "paired",
                "Tango's score interval for paired shares",
            )
        if self.pairing == "unpaired":

            def interval(level: float) -> tuple[float, float]:
                low, high = difference_interval(*current, *baseline, level)
                return float(low), float(high)

            return PendingChange(pair, interval, "unpaired", DIFFERENCE_METHOD)
        return PendingChange(pair, _any_dependence(baseline, current, clopper_pearson), "same people", ANY_DEPENDENCE)

    def _gap(self, pair: NumberPair, breakdowns: tuple[Breakdown, Breakdown]) -> PendingChange:
        """Bound the change in a gap between groups that both audits compare."""
        gaps = [gap for breakdown in breakdowns if (gap := breakdown.gap(pair.name)) is not None]
        is_ratio = pair.name == "demographic_parity_ratio"
        metric = gaps[0].metric if is_ratio else GAP_METRICS.get(pair.name)
        pairing: Pairing = "same people" if is_ratio and self.pairing == "paired" else self.pairing
        if gaps[0].reference or gaps[1].reference:
            return PendingChange(pair, None, pairing, TO_REFERENCE)
        if metric is None:  # a custom metric
            if gaps[0].not_assessable.keys() != gaps[1].not_assessable.keys():
                return PendingChange(pair, None, self.pairing, OTHER_GROUPS)
            return bound_by_intervals(pair, self.pairing)
        labels = [_compared_groups(breakdown, metric, gap) for breakdown, gap in zip(breakdowns, gaps, strict=True)]
        if set(labels[0]) != set(labels[1]):
            return PendingChange(pair, None, pairing, OTHER_GROUPS)
        if pair.is_unknown:
            return PendingChange(pair, None, pairing, "one of the gaps is unknown")
        groups = [_by_label(breakdown) for breakdown in breakdowns]
        if metric in MEANS:
            cells = [self._group_cells(breakdowns[0], groups[0][label]) for label in labels[0] if self.kept is not None]
            change = None if self.people is None else self.people.gap_change(metric, cells)
            if change is None:
                return bound_by_intervals(pair, self.pairing)
            return PendingChange(pair, change, "paired", PAIRED_MEAN_GAP)
        counts = np.array([[_counts(by_label[label].metrics[metric]) for label in labels[0]] for by_label in groups])
        # Axes of the counts: audit, group, (k, n).
        if is_ratio:
            interval = _any_dependence(counts[0], counts[1], smallest_ratio_of_proportions)
            return PendingChange(pair, interval, pairing, ANY_DEPENDENCE)
        if self.kept is not None and self.cells is not None:
            cells = [self._group_cells(breakdowns[0], groups[0][label]) for label in labels[0]]
            paired = PairedCells(np.array([self._answers(group, metric) for group in cells]))
            same = np.eye(len(cells))
            return PendingChange(pair, lambda level: change_of_gap(paired, same, same, level), "paired", PAIRED_GAP)
        if self.pairing == "unpaired":
            independent, first, second = _independent_cells(counts)
            return PendingChange(
                pair, lambda level: change_of_gap(independent, first, second, level), "unpaired", UNPAIRED_GAP
            )
        interval = _any_dependence(counts[0], counts[1], largest_difference_of_proportions)
        return PendingChange(pair, interval, "same people", ANY_DEPENDENCE)

    def _group_cells(self, breakdown: Breakdown, group: Group) -> Integers:
        assert self.kept is not None
        return self.kept.cells_of(breakdown.by, [group.values[name] for name in breakdown.by])

    def _answers(self, cells: Integers, metric: str) -> Integers:
        """Count the people in some cells by decision (for accuracy, by correctness) in both audits, shape (2, 2).

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
TO_REFERENCE = "gaps to a reference group are not compared"
PAIRED_GAP = "paired contrast of Agresti-Min, over the pairs that may be widest"
UNPAIRED_GAP = "contrast of Agresti-Caffo, over the pairs that may be widest"


def _any_dependence(
    baseline: Any, current: Any, bound: Callable[..., tuple[Any, Any]]
) -> Callable[[float], tuple[float, float]]:
    """Build the interval of a change from the intervals of both numbers. It is valid for any dependence between them.

    Args:
        baseline, current: Number of successes and of people, of one group, shape (2,), or by group, shape (groups, 2).
        bound: Function that computes the interval of one number from its two counts and a level.
    """

    def interval(level: float) -> tuple[float, float]:
        half = bonferroni(level, 2)
        (low1, high1), (low2, high2) = (bound(*np.asarray(counts).T, half) for counts in (baseline, current))
        return float(low2 - high1), float(high2 - low1)

    return interval


def _counts(quantity: Quantity) -> tuple[int, int] | None:
    """Return the numerator and the denominator of a rate. None if it is not a rate."""
    value, n = quantity_value(quantity), getattr(quantity, "n", 0)
    return None if value is None or not n else (round(value * n), n)


def _by_label(breakdown: Breakdown) -> dict[str, Group]:
    return {group.label: group for group in breakdown.groups}


def _compared_groups(breakdown: Breakdown, metric: str, gap: Gap) -> list[str]:
    """List the groups that a gap compares."""
    return [
        group.label
        for group in breakdown.groups
        if group.label not in gap.not_assessable and _counts(group.metrics[metric]) is not None
    ]


def _independent_cells(counts: Any) -> tuple[PairedCells, Floats, Floats]:
    """Represent two independent samples as paired cells, with weights that select the rates of each sample.

    Args:
        counts: Number of successes and of people by sample and group, shape (2, groups, 2).
    """
    k, n = counts[..., 0].reshape(-1).astype(np.int64), counts[..., 1].reshape(-1).astype(np.int64)
    groups = len(k) // 2
    table = np.zeros((len(k), 2, 2), dtype=np.int64)
    # Each person has a decision in one audit only; the other decision has weight 0.
    table[:groups, 1, 0], table[:groups, 0, 0] = k[:groups], (n - k)[:groups]
    table[groups:, 0, 1], table[groups:, 0, 0] = k[groups:], (n - k)[groups:]
    zeros = np.zeros((groups, groups))
    return PairedCells(table), np.hstack([np.eye(groups), zeros]), np.hstack([zeros, np.eye(groups)])
