"""What changed between two audits, and how a change is bounded: proved, paired by person, or by both its intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from evenhand.auditing.result import AuditResult
from evenhand.certification.certificate.result import Certificate
from evenhand.core.document import Document
from evenhand.core.reading import TableReading
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Floats, Integers
from evenhand.groups.kept import KeptDecisions
from evenhand.stats.level import bonferroni
from evenhand.stats.paired import PairedNumbers, auc_difference
from evenhand.stats.proportion import difference_of_intervals, stretch_interval
from evenhand.stats.quantity import Observed, Proved, Quantity, quantity_value

if TYPE_CHECKING:
    import pandas as pd

Pairing = Literal["paired", "same people", "unpaired"]
"""How two audits' people are related: the same, with both decisions of each; the same, without; not known to be."""

Verdict = Literal["better", "worse", "higher", "lower", "no clear change", "not comparable"]

ANY_DEPENDENCE = "difference of both intervals, whatever their dependence"
ADDED = "both intervals squared and added"
DELONG = "DeLong's method for paired areas"
PAIRED_MEANS = "Student's t of paired numbers, skewness removed (Hall)"
PAIRED_MEAN_GAP = f"{PAIRED_MEANS}, over the pairs of groups that may be widest"


class ChangeLine(ResultPart):
    """One number in two audits.

    Attributes:
        name, by, group: what it is; ``by`` is empty for everybody, ``group`` for gaps.
        before, after: as each audit has it.
        change: after minus before, with an interval at the level of all lines together; of what both audits prove
            exact, without one; unknown where there is none.
        pairing: how the interval came about.
        verdict: whether the interval leaves out 0, and on which side.
        caution: What to know of the number in either audit, such as selective true labels; empty if nothing.
    """

    name: str
    by: str = ""
    group: str = ""
    before: Quantity
    after: Quantity
    change: Quantity
    pairing: Pairing
    verdict: Verdict
    caution: str = ""


class ComparedAudit(ResultPart):
    """An audit that is compared.

    Attributes:
        model, data: Names of its model and its data.
        people: Number of people.
        fingerprint: Hash of the people, equal in audits of the same people.
        table_reading: How its table was read; None if no table was read.
    """

    model: str
    data: str
    people: int
    fingerprint: str
    table_reading: TableReading | None = None


class AuditComparison(Result):
    """What changed between two audits.

    Attributes:
        before, after: the audits.
        pairing: how their people are related.
        confidence: at which the intervals of all changes hold together.
        comparisons: how many changes have an interval; each is at the level ``1 - (1 - confidence) / comparisons``.
        lines: every number that both audits have.
        left_out: what only one of them has, or what is not compared, with the reason.
        unit: of a number that is decided, if that was said.
    """

    chart = "comparison.draw_changes"
    kind: Literal["comparison"] = "comparison"
    before: ComparedAudit
    after: ComparedAudit
    pairing: Pairing
    confidence: float
    comparisons: int
    lines: tuple[ChangeLine, ...]
    left_out: tuple[str, ...] = ()
    unit: str = ""

    @property
    def readings(self) -> dict[str, TableReading]:
        """How the tables of both audits were read."""
        both = {"Before": self.before.table_reading, "After": self.after.table_reading}
        return {name: reading for name, reading in both.items() if reading is not None}

    def count(self, verdict: Verdict) -> int:
        """Return how many numbers have a verdict."""
        return sum(line.verdict == verdict for line in self.lines)

    def line(self, name: str, by: str = "", group: str = "") -> ChangeLine | None:
        """Return one line; None if the audits do not both have it."""
        return next((one for one in self.lines if (one.name, one.by, one.group) == (name, by, group)), None)

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the changes, and how many are better and worse."""
        for line in self.lines:
            yield ResultNumber(line.name, line.by, line.group, line.change, caution=line.caution)
        yield ResultNumber("better", "", "", float(self.count("better")))
        yield ResultNumber("worse", "", "", float(self.count("worse")))

    def document(self) -> Document:
        """Return what changed, and how that is known."""
        return self._write_document("evenhand.auditing.comparison_wording")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per number: name, by, group, before, after, change, low, high, pairing, verdict."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "name": line.name,
                    "by": line.by,
                    "group": line.group,
                    "before": quantity_value(line.before),
                    "after": quantity_value(line.after),
                    "change": quantity_value(line.change),
                    "low": getattr(line.change, "low", None),
                    "high": getattr(line.change, "high", None),
                    "pairing": line.pairing,
                    "verdict": line.verdict,
                }
                for line in self.lines
            ]
        )


class PendingChange(NamedTuple):
    """A change whose interval waits for its level, which depends on how many changes there are.

    Attributes:
        name, by, group: what it is a change of.
        before, after: as each audit has it.
        interval: of the change at a level; None where there is none.
        pairing: how the interval comes about.
        method: by which, or why there is none.
        exact: the change itself with its verdict, where both numbers are proved.
    """

    name: str
    by: str
    group: str
    before: Quantity
    after: Quantity
    interval: Callable[[float], tuple[float, float]] | None
    pairing: Pairing
    method: str
    exact: tuple[Proved, Verdict] | None = None


class PairedPeople:
    """The numbers of the same people in two audits: their scores, or their decided numbers.

    Numbers that compare with the truth are NaN where it is unknown, and those people are left out.
    """

    def __init__(self, before: KeptDecisions, after: KeptDecisions) -> None:
        self._sides, self._cells = (before, after), before.cells
        labels = [np.nan if label is None else float(label) for label in before.deserving]
        self._true = np.array(labels)[self._cells]

    def auc_change(self) -> Callable[[float], tuple[float, float]] | None:
        """Return the interval for the change of the area under the ROC curve; None where scores are not kept."""
        scores, labelled = self._numbers("mean_score"), ~np.isnan(self._true)
        if scores is None:
            return None

        def interval(level: float) -> tuple[float, float]:
            change = auc_difference(scores[0][labelled], scores[1][labelled], self._true[labelled] == 1, level)
            return change.low, change.high

        return interval

    def mean_change(self, metric: str, cells: Integers | None) -> Callable[[float], tuple[float, float]] | None:
        """Return the interval for the change of a mean of the people of some cells, of all by default."""
        numbers = self._numbers(metric)
        if numbers is None:
            return None
        group = np.zeros(len(self._cells), dtype=np.int64) if cells is None else self._group([cells])
        moments, one = self._moments(numbers, group, 1), np.ones(1)

        def interval(level: float) -> tuple[float, float]:
            low, high = moments.contrast(one, one, level)
            return float(low), float(high)

        return interval

    def gap_change(self, metric: str, groups: list[Integers]) -> Callable[[float], tuple[float, float]] | None:
        """Return the interval for the change of the largest difference of means between groups, each some cells."""
        numbers = self._numbers(metric)
        return None if numbers is None else self._moments(numbers, self._group(groups), len(groups)).change_of_gap

    def _numbers(self, metric: str) -> tuple[Floats, Floats] | None:
        """Return each person's number, whose mean the metric is, before and after."""
        kept = {"calibration_gap": "mean_score", "mean_absolute_error": "mean_residual"}.get(metric, metric)
        first, second = (side.number(kept) for side in self._sides)
        if first is None or second is None:
            return None
        if metric == "calibration_gap":
            return first - self._true, second - self._true
        return (np.abs(first), np.abs(second)) if metric == "mean_absolute_error" else (first, second)

    def _group(self, groups: list[Integers]) -> Integers:
        """Return the group of each person, -1 for none."""
        of_cell = np.full(len(self._sides[0].sizes), -1)
        for i, cells in enumerate(groups):
            of_cell[cells] = i
        return of_cell[self._cells]

    @staticmethod
    def _moments(numbers: tuple[Floats, Floats], group: Integers, groups: int) -> PairedNumbers:
        here = (group >= 0) & ~np.isnan(numbers[0])
        return PairedNumbers.of(numbers[0][here], numbers[1][here], group[here], groups)


def bound_by_intervals(
    name: str, by: str, group: str, ends: tuple[Quantity, Quantity], pairing: Pairing
) -> PendingChange:
    """Return the change of a number of which no more is known than its interval in each audit.

    The intervals are stretched to the level that is needed, as normal quantiles are.
    """
    before, after = ends
    pairing = "unpaired" if pairing == "unpaired" else "same people"
    if not isinstance(before, Observed) or not isinstance(after, Observed):
        return PendingChange(name, by, group, *ends, None, pairing, "one of the numbers has no interval")

    def apart(level: float) -> tuple[float, float]:
        return difference_of_intervals(after, before, level)

    def dependent(level: float) -> tuple[float, float]:
        half = bonferroni(level, 2)
        (low1, high1), (low2, high2) = stretch_interval(before, half), stretch_interval(after, half)
        return low2 - high1, high2 - low1

    if pairing == "unpaired":
        return PendingChange(name, by, group, *ends, apart, pairing, ADDED)
    return PendingChange(name, by, group, *ends, dependent, pairing, ANY_DEPENDENCE)


SHARES = ("certified", "falsified", "undecided")
"""What a certificate proves, by its names."""

ASKED = {
    "population": "simulated populations",
    "where": "conditions",
    "relaxed": "tolerated differences between people",
    "moved": "counterparts",
    "tolerance": "tolerances",
    "bands": "bands",
}
"""Field of a certificate -> what differs where two have another one."""


def compare_proofs(before: AuditResult, after: AuditResult, left_out: list[str]) -> Iterator[PendingChange]:
    """Yield the changes of shares that both audits prove of the same question: exact, without intervals.

    What is proved depends on how long was proved, too. Fewer people are treated unfairly for certain where no more can
    be than were proved to be before; only then a change is called better, and the other way round worse.
    """
    others = {one.protected: one for one in after.certificates}
    for one in before.certificates:
        other, what = others.pop(one.protected, None), f"proof by {' x '.join(one.protected)}"
        if other is None:
            left_out.append(f"{what}: only in the audit before")
            continue
        reason = _other_question(before, one, after, other)
        if reason:
            left_out.append(f"{what}: {reason}")
            continue
        most = [1 - each.certified - each.no_counterpart for each in (one, other)]
        verdict: Verdict | None = None
        if other.falsified > most[0] + ROUNDING or most[1] + ROUNDING < one.falsified:
            verdict = "better" if most[1] < one.falsified else "worse"
        for name in SHARES:
            first, second = (
                Proved(value=getattr(each, name), how=f"for the population {each.population}") for each in (one, other)
            )
            change = Proved(value=second.value - first.value, how="difference of two proofs")
            side: Verdict = "higher" if change.value > 0 else "lower" if change.value < 0 else "no clear change"
            exact = change, verdict if verdict and name != "undecided" else side
            yield PendingChange(
                name, "_x_".join(one.protected), "", first, second, None, "same people", "exact: both are proved", exact
            )
    left_out += [f"proof by {' x '.join(protected)}: only in the audit after" for protected in others]


ROUNDING = 1e-12
"""Sums of proved shares are as exact as this."""


def _other_question(before: AuditResult, one: Certificate, after: AuditResult, other: Certificate) -> str:
    """Return what differs between the questions of two proofs; nothing where they ask the same."""
    if before.described.attributes != after.described.attributes:
        return "the attributes have other domains"
    differ = [words for field, words in ASKED.items() if getattr(one, field) != getattr(other, field)]
    if differ:
        return f"the {' and '.join(differ)} differ"
    if before.data.fingerprint != after.data.fingerprint and before.settings.get("population") != "uniform":
        return "the simulated population is fitted to other people"
    return ""
