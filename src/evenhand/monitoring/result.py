"""Result of a monitor: gaps with their intervals, alarms, and the history of every measure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_percent, list_some
from evenhand.monitoring.selection import LabelSelection

if TYPE_CHECKING:
    import pandas as pd


MEASURES = {
    "selection_rate": "selection rate",
    "equal_opportunity": "true positive rate",
    "base_rate": "base rate",
    "calibration": "calibration error",
}
"""Titles of the measures."""


def describe_selection(selection: LabelSelection | None) -> str:
    """Describe a detected selection of labels. Empty if none was detected."""
    if selection is None or selection.shown is None:
        return ""
    accepted = format_percent(selection.labelled_accepted / max(selection.accepted, 1))
    rejected = format_percent(selection.labelled_rejected / max(selection.rejected, 1))
    return (
        f"Labels arrived for {accepted} of the accepted and {rejected} of the rejected decisions: numbers based on "
        "labels describe decisions with a known label, and may be wrong for all decisions."
    )


class MonitoredGap(ResultPart):
    """Gap of a comparison.

    Attributes:
        measure: Name of the measure.
        form: ``gap``, first minus second, or ``ratio``, first over second. For calibration: observed rate minus score.
        tolerance: Largest gap, or smallest ratio, that raises no alarm.
        by: Fields of the groups.
        first, second: The groups. The second may be everyone else or, for calibration, a range of scores.
        first_count, second_count: Number of decisions, or labels, in closed blocks.
        first_rate, second_rate: Their rates. None if there are none.
        estimate: Mean over blocks of decisions from about the same time. None before the first block.
        low, high: Interval, valid at all times and jointly for all comparisons. None if there is no bound yet.
        recent: Estimate that gives most weight to recent decisions: observed, without an interval.
        alarm: Number of the decision that raised the first alarm. None without an alarm.
    """

    measure: str
    form: Literal["gap", "ratio"]
    tolerance: float
    by: str
    first: str
    second: str
    first_count: int
    second_count: int
    first_rate: float | None
    second_rate: float | None
    estimate: float | None
    low: float | None
    high: float | None
    recent: float | None
    alarm: int | None = None


class Alarm(MonitoredGap):
    """Comparison whose gap was shown to exceed its tolerance.

    Attributes:
        decision: Number of decisions at the alarm.
        direction: Whether the first side is above or below the second.
    """

    decision: int
    direction: Literal["above", "below"]

    @property
    def sentence(self) -> str:
        """The alarm in a sentence."""
        name, low, high = MEASURES[self.measure], self.first, self.second
        if self.measure == "calibration":
            claim = f"the observed rate of {low} with {high} is {self.direction} the score"
        elif self.form == "gap":
            claim = f"the {name} of {low} is {self.direction} that of {high}"
        else:
            low, high = (low, high) if self.direction == "below" else (high, low)
            claim = f"the {name} of {low} is less than {self.tolerance:g} times that of {high}: {self.first} over "
            claim += f"{self.second} is"
        if self.form == "gap":
            claim += f" by more than {format_points(self.tolerance)}:"
        # A change is visible in recent decisions first.
        unit = " points" if self.form == "gap" else ""
        recent = "" if self.recent is None else f"recently {format_gap(self.recent, self.form)}{unit}, "
        ends = f" ({format_ends(self)}{unit})" if format_ends(self) else ""
        decisions = format_count(self.decision, "decision", "decisions")
        estimate = "-" if self.estimate is None else f"{format_gap(self.estimate, self.form)}{unit}"
        return f"After {decisions}: {claim} {recent}over the whole run {estimate}{ends}"


class GapHistory(ResultPart):
    """History of the comparisons of a measure.

    Attributes:
        decisions: Number of decisions at each point.
        gaps: Estimate, low, high and recent of each comparison at each point, or None.
    """

    decisions: tuple[int, ...]
    gaps: tuple[tuple[tuple[float | None, float | None, float | None, float | None], ...], ...]


class MonitorResult(Result):
    """Result of a monitor.

    Attributes:
        config: Configuration of the monitor.
        decisions, labels: Numbers of used decisions and labels.
        unmatched: Labels whose decisions are unknown, not audited or abandoned.
        given_up: Decisions that were abandoned before their label arrived.
        awaited: Decisions that were selected for an audit and are waiting for it.
        skipped: Lines that could not be read.
        repeated: Decisions and labels with a repeated ID. They are counted once.
        uncompared: Decisions with a value that is not compared, by field and value.
        missing: Decisions without a value, by field.
        absent: Values of the configuration that never occurred.
        gaps: All comparisons of all measures.
        alarms: All alarms, in their order.
        selection: Numbers of labelled decisions. None if no measure needs labels.
        histories: History of each measure.
    """

    chart = "shields.monitor.plot_monitor"
    kind: Literal["monitor"] = "monitor"
    config: dict[str, Any]
    decisions: int = Field(ge=0)
    labels: int = Field(ge=0)
    unmatched: int = Field(ge=0)
    given_up: int = Field(ge=0)
    awaited: int = Field(ge=0)
    skipped: int = Field(default=0, ge=0)
    repeated: int = Field(default=0, ge=0)
    uncompared: dict[str, dict[str, int]] = Field(default_factory=dict)
    missing: dict[str, int] = Field(default_factory=dict)
    absent: tuple[str, ...] = ()
    gaps: tuple[MonitoredGap, ...]
    alarms: tuple[Alarm, ...]
    selection: LabelSelection | None = None
    histories: tuple[GapHistory, ...]

    @property
    def watched(self) -> tuple[tuple[MonitoredGap, ...], ...]:
        """Comparisons of each measure, in the order of the configuration."""
        gaps = iter(self.gaps)
        return tuple(tuple(itertools.islice(gaps, len(history.gaps))) for history in self.histories)

    @property
    def compared(self) -> bool:
        """Whether any two groups were compared."""
        return any(gap.first_count and gap.second_count for gap in self.gaps)

    def document(self, name: str = "") -> Document:
        """Build the document of alarms, gaps with their intervals, and histories of the named data."""
        return self._write_document("evenhand.monitoring.wording", name)

    def to_frame(self) -> pd.DataFrame:
        """Return a row for every comparison."""
        import pandas as pd

        return pd.DataFrame([gap.model_dump() for gap in self.gaps])


def list_cautions(result: MonitorResult) -> list[str]:
    """Return cautions about the data."""
    cautions = [describe_selection(result.selection)]
    for field, counts in result.uncompared.items():
        if counts:
            words = list_some([f"{word!r} {n:,}" for word, n in sorted(counts.items(), key=lambda pair: -pair[1])])
            decisions = format_count(sum(counts.values()), "decision has", "decisions have")
            cautions.append(f"{decisions} a value of {field} that is not compared: {words}.")
    for field, n in result.missing.items():
        cautions.append(f"{format_count(n, 'decision has', 'decisions have')} no value of {field}.")
    if result.absent:
        cautions.append(f"Configured values that never occurred: {'; '.join(result.absent)}.")
    if result.repeated:
        cautions.append(f"{format_count(result.repeated, 'id was', 'ids were')} repeated; each counts once.")
    for watch, gaps in zip(result.config["watch"], result.watched, strict=True):
        if result.compared and not any(gap.first_count and gap.second_count for gap in gaps):
            cautions.append(f"{watch['gap'] or watch['ratio']}: no groups were compared.")
    unmatched = "Ignored {}: the decision is unknown, was not selected for an audit, or already has a label."
    counted = (
        (result.skipped, "Ignored {} that could not be read.", "line"),
        (result.unmatched, unmatched, "label"),
        (result.given_up, "{} expired without a label.", "decision"),
        (result.awaited, "{} awaited.", "audit"),
    )
    cautions += [text.format(format_count(n, noun, f"{noun}s")) for n, text, noun in counted if n]
    return [caution for caution in cautions if caution]


def format_ends(gap: MonitoredGap) -> str:
    """Format the interval, in points for a gap. Empty if there is none."""
    if gap.low is None or (gap.high is None and gap.form == "gap"):
        return ""
    end = "and more" if gap.high is None else f"to {format_gap(gap.high, gap.form)}"
    return f"{format_gap(gap.low, gap.form)} {end}"


def format_gap(value: float | None, form: str) -> str:
    """Format a ratio, or a gap in points."""
    if value is None:
        return "-"
    return f"{value:.2f}" if form == "ratio" else f"{100 * value:+.1f}"


def format_points(value: float) -> str:
    """Format a share in percentage points."""
    return f"{100 * value:.3g} points"
