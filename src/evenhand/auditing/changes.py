"""Changes between two audits: proved, paired by person, or bounded by the intervals of both numbers."""

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
from evenhand.stats.quantity import Observed, Proved, Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    import pandas as pd

Pairing = Literal["paired", "same people", "unpaired"]
"""Relation between the people of two audits: the same, with or without decisions; or not known to be the same."""

Verdict = Literal["better", "worse", "higher", "lower", "no clear change", "not comparable"]

ANY_DEPENDENCE = "difference of both intervals, whatever their dependence"
ADDED = "both intervals squared and added"
DELONG = "DeLong's method for paired areas"
PAIRED_MEANS = "Student's t of paired numbers, skewness removed (Hall)"
PAIRED_MEAN_GAP = f"{PAIRED_MEANS}, over the pairs of groups that may be widest"


class ChangeLine(ResultPart):
    """Number in two audits.

    Attributes:
        name: Name of the number.
        by: Protected attributes, joined by ``_x_``. Empty for overall numbers.
        group: Label of the group. Empty for gaps and overall numbers.
        before, after: Number in each audit.
        change: Difference, after minus before, with an interval that is simultaneous over all lines. The change of a
            proved number is exact, without an interval. Unknown if there is no interval.
        pairing: Assumed relation between the people of both audits, on which the interval is based.
        verdict: Whether the interval excludes 0, and on which side.
        caution: Caution about the number, such as selective true labels. Empty if there is none.
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
    """Compared audit.

    Attributes:
        model, data: Names of the model and of the data.
        people: Number of people.
        fingerprint: Hash of the people, equal in audits of the same people.
        table_reading: Description of how the table was read. None if no table was read.
    """

    model: str
    data: str
    people: int
    fingerprint: str
    table_reading: TableReading | None = None


class AuditComparison(Result):
    """Comparison of two audits.

    Attributes:
        before, after: Audits.
        pairing: Relation between their people.
        confidence: Simultaneous confidence level of the intervals of all changes.
        comparisons: Number of changes with an interval. Each has the level ``1 - (1 - confidence) / comparisons``.
        lines: Numbers that both audits contain.
        left_out: Numbers that are in only one audit or that are not compared, with the reasons.
        unit: Unit of a numeric target. Empty if there is none.
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
        """Table readings of both audits."""
        readings = {"Before": self.before.table_reading, "After": self.after.table_reading}
        return {name: reading for name, reading in readings.items() if reading is not None}

    def count(self, verdict: Verdict) -> int:
        """Count the numbers with a verdict."""
        return sum(line.verdict == verdict for line in self.lines)

    def line(self, name: str, by: str = "", group: str = "") -> ChangeLine | None:
        """Return the line for a number. None if there is no such line."""
        return next((line for line in self.lines if (line.name, line.by, line.group) == (name, by, group)), None)

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the changes, and the counts of better and worse changes."""
        for line in self.lines:
            yield ResultNumber(line.name, line.by, line.group, line.change, caution=line.caution)
        yield ResultNumber("better", "", "", float(self.count("better")))
        yield ResultNumber("worse", "", "", float(self.count("worse")))

    def document(self) -> Document:
        """Build the document of the comparison."""
        return self._write_document("evenhand.auditing.comparison_wording")

    def to_frame(self) -> pd.DataFrame:
        """Convert the lines to a data frame, one row per number."""
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


class NumberPair(NamedTuple):
    """Number in two audits, with the same fields as a ``ChangeLine``."""

    name: str
    by: str
    group: str
    before: Quantity
    after: Quantity

    @property
    def is_unknown(self) -> bool:
        """Whether the number is unknown in an audit."""
        return isinstance(self.before, Unknown) or isinstance(self.after, Unknown)


class PendingChange(NamedTuple):
    """Change whose interval is not yet computed, because its level depends on the number of changes.

    Attributes:
        pair: Number in both audits.
        interval: Function that computes the interval of the change at a level. None if there is no interval.
        pairing: Assumed relation between the people of both audits, on which the interval is based.
        method: Method of the interval, or the reason why there is none.
        exact: Change and verdict, if both numbers are proved.
    """

    pair: NumberPair
    interval: Callable[[float], tuple[float, float]] | None
    pairing: Pairing
    method: str
    exact: tuple[Proved, Verdict] | None = None


class PairedPeople:
    """Scores or decided numbers of the same people in two audits.

    People without a true label or number are excluded from numbers that require it.
    """

    def __init__(self, baseline: KeptDecisions, current: KeptDecisions) -> None:
        self._sides, self._cells = (baseline, current), baseline.cells
        labels = [np.nan if label is None else float(label) for label in baseline.deserving]
        self._true = np.array(labels)[self._cells]

    def auc_change(self) -> Callable[[float], tuple[float, float]] | None:
        """Return the interval of the change in the area under the ROC curve. None if scores are not stored."""
        scores, labelled = self._numbers("mean_score"), ~np.isnan(self._true)
        if scores is None:
            return None

        def interval(level: float) -> tuple[float, float]:
            change = auc_difference(scores[0][labelled], scores[1][labelled], self._true[labelled] == 1, level)
            return change.low, change.high

        return interval

    def mean_change(self, metric: str, cells: Integers | None) -> Callable[[float], tuple[float, float]] | None:
        """Return the interval of the change in a mean, over the people in some cells or over all people."""
        numbers = self._numbers(metric)
        if numbers is None:
            return None
        group = np.zeros(len(self._cells), dtype=np.int64) if cells is None else self._group([cells])
        moments, weight = self._moments(numbers, group, 1), np.ones(1)

        def interval(level: float) -> tuple[float, float]:
            low, high = moments.contrast(weight, weight, level)
            return float(low), float(high)

        return interval

    def gap_change(self, metric: str, groups: list[Integers]) -> Callable[[float], tuple[float, float]] | None:
        """Return the interval of the change in the largest difference of means between groups of cells."""
        numbers = self._numbers(metric)
        return None if numbers is None else self._moments(numbers, self._group(groups), len(groups)).change_of_gap

    def _numbers(self, metric: str) -> tuple[Floats, Floats] | None:
        """Return the numbers of each person, whose means are the metric in both audits. None if they are not stored."""
        stored = {"calibration_gap": "mean_score", "mean_absolute_error": "mean_residual"}.get(metric, metric)
        first, second = (side.number(stored) for side in self._sides)
        if first is None or second is None:
            return None
        if metric == "calibration_gap":
            return first - self._true, second - self._true
        return (np.abs(first), np.abs(second)) if metric == "mean_absolute_error" else (first, second)

    def _group(self, groups: list[Integers]) -> Integers:
        """Return the group of each person, or -1."""
        of_cell = np.full(len(self._sides[0].sizes), -1)
        for i, cells in enumerate(groups):
            of_cell[cells] = i
        return of_cell[self._cells]

    @staticmethod
    def _moments(numbers: tuple[Floats, Floats], group: Integers, groups: int) -> PairedNumbers:
        used = (group >= 0) & ~np.isnan(numbers[0])
        return PairedNumbers.of(numbers[0][used], numbers[1][used], group[used], groups)


def bound_by_intervals(pair: NumberPair, pairing: Pairing) -> PendingChange:
    """Bound the change in a number by its intervals in both audits, which are stretched like normal quantiles."""
    baseline, current = pair.before, pair.after
    if not isinstance(baseline, Observed) or not isinstance(current, Observed):
        pairing = "unpaired" if pairing == "unpaired" else "same people"
        return PendingChange(pair, None, pairing, "one of the numbers has no interval")

    def dependent(level: float) -> tuple[float, float]:
        half = bonferroni(level, 2)
        (low1, high1), (low2, high2) = stretch_interval(baseline, half), stretch_interval(current, half)
        return low2 - high1, high2 - low1

    if pairing == "unpaired":
        return PendingChange(pair, lambda level: difference_of_intervals(current, baseline, level), pairing, ADDED)
    return PendingChange(pair, dependent, "same people", ANY_DEPENDENCE)


SHARES = ("certified", "falsified", "undecided")
"""Proved shares of a certificate."""

QUESTIONS = {
    "population": "simulated populations",
    "where": "conditions",
    "moved": "counterparts",
    "tolerance": "tolerances",
    "bands": "bands",
}
"""Fields of a certificate that must be equal in both audits, and their names in messages."""

ROUNDING = 1e-12
"""Tolerance for rounding errors in sums of proved shares."""


def compare_proofs(baseline: AuditResult, current: AuditResult, left_out: list[str]) -> Iterator[PendingChange]:
    """Yield the exact changes in shares that both audits prove for the same question.

    The proved shares also depend on the effort of the proofs. A change is only better if the maximum share of people
    who may be treated unfairly is now below the share previously proved to be treated unfairly. It is worse in the
    opposite case.
    """
    remaining = {certificate.protected: certificate for certificate in current.certificates}
    for certificate in baseline.certificates:
        other, proof = remaining.pop(certificate.protected, None), f"proof by {' x '.join(certificate.protected)}"
        if other is None:
            left_out.append(f"{proof}: only in the first audit")
            continue
        reason = _find_difference(baseline, certificate, current, other)
        if reason:
            left_out.append(f"{proof}: {reason}")
            continue
        maximum = [1 - audited.certified - audited.no_counterpart for audited in (certificate, other)]
        verdict: Verdict | None = None
        if other.falsified > maximum[0] + ROUNDING or maximum[1] + ROUNDING < certificate.falsified:
            verdict = "better" if maximum[1] < certificate.falsified else "worse"
        for name in SHARES:
            shares = [
                Proved(value=getattr(audited, name), how=f"for the population {audited.population}")
                for audited in (certificate, other)
            ]
            change = Proved(value=shares[1].value - shares[0].value, how="difference between two proofs")
            side: Verdict = "higher" if change.value > 0 else "lower" if change.value < 0 else "no clear change"
            pair = NumberPair(name, "_x_".join(certificate.protected), "", *shares)
            exact = change, verdict if verdict and name != "undecided" else side
            yield PendingChange(pair, None, "same people", "exact: both are proved", exact)
    left_out += [f"proof by {' x '.join(protected)}: only in the second audit" for protected in remaining]


def _find_difference(baseline: AuditResult, certificate: Certificate, current: AuditResult, other: Certificate) -> str:
    """Describe the difference between the questions of two proofs. Empty if there is none."""
    if baseline.described.attributes != current.described.attributes:
        return "the domains of the attributes differ"
    differences = [name for field, name in QUESTIONS.items() if getattr(certificate, field) != getattr(other, field)]
    if differences:
        return f"the {' and '.join(differences)} differ"
    if baseline.data.fingerprint != current.data.fingerprint and baseline.settings.get("population") != "uniform":
        return "the simulated populations are fitted to different people"
    return ""
