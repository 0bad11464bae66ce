"""What a monitor says: gaps with their intervals, alarms, and the course of every measure."""

from __future__ import annotations

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
"""Rates by the words of screens."""


def describe_selection(selection: LabelSelection | None) -> str:
    """Return what is said where labels of rejected decisions come too rarely; nothing where that is not shown."""
    if selection is None or selection.shown is None:
        return ""
    rates = [
        format_percent(labelled / max(count, 1))
        for labelled, count in (
            (selection.labelled_accepted, selection.accepted),
            (selection.labelled_rejected, selection.rejected),
        )
    ]
    return (
        f"Labels came of {rates[0]} of the accepted and of {rates[1]} of the rejected decisions: numbers that rest on "
        "labels are about decisions whose label is known, and may be wrong about all decisions."
    )


class MonitoredGap(ResultPart):
    """A comparison as it stands.

    Attributes:
        measure: what is compared.
        form: ``gap``, first less second, or ``ratio``, first over second; of calibration the gap is the observed rate
            less the score.
        tolerance: the largest gap that raises no alarm, or the smallest ratio.
        by: the fields that the groups are of.
        first, second: the groups; the second may be everyone else, or for calibration a range of scores.
        first_count, second_count: decisions, or labels, in finished blocks.
        first_rate, second_rate: the rates of these; None without any.
        estimate: the mean over blocks of decisions that came at about the same time; None before the first.
        low, high: its interval, which holds at all moments and for all comparisons together; None where there is no
            bound yet.
        recent: the estimate with decisions of late counting most: observed, without an interval.
        alarm: the decision at which the first alarm was raised; None without one.
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
    """A comparison at the moment at which the evidence against its tolerance became enough.

    Attributes:
        decision: how many decisions had come.
        direction: whether the first is above or below the second by more than is tolerated.
    """

    decision: int
    direction: Literal["above", "below"]

    @property
    def sentence(self) -> str:
        """The alarm in a sentence."""
        name, n = MEASURES[self.measure], f"after {format_count(self.decision, 'decision', 'decisions')}"
        if self.measure == "calibration":
            return (
                f"{n.capitalize()}: the observed rate of {self.first} with {self.second} is {self.direction} the score "
                f"by more than {format_points(self.tolerance)}: {_write_estimate(self)}"
            )
        if self.form == "gap":
            return (
                f"{n.capitalize()}: the {name} of {self.first} is {self.direction} that of {self.second} by more than "
                f"{format_points(self.tolerance)}: {_write_estimate(self)}"
            )
        low, high = (self.first, self.second) if self.direction == "below" else (self.second, self.first)
        return (
            f"{n.capitalize()}: the {name} of {low} is less than {self.tolerance:g} times that of {high}: "
            f"{self.first} over {self.second} is {_write_estimate(self)}"
        )


class GapHistory(ResultPart):
    """How the comparisons of one measure went.

    Attributes:
        decisions: how many decisions had come at each point.
        gaps: for each comparison, for each point: estimate, low, high, recent; None where there is none.
    """

    decisions: tuple[int, ...]
    gaps: tuple[tuple[tuple[float | None, float | None, float | None, float | None], ...], ...]


class MonitorResult(Result):
    """What a monitor knows at a moment.

    Attributes:
        config: what is watched.
        decisions, labels: how many came and were used.
        unmatched: labels of decisions that are not known, not audited, or were given up.
        given_up: decisions that were given up before their label came.
        awaited: decisions that are to be audited and are not yet.
        queued: decisions that wait, because the label of an audited one before them has not come.
        skipped: lines that could not be read.
        repeated: decisions and labels whose id came before; they are counted once.
        uncompared: decisions with a value that is not compared, by field and value.
        missing: decisions without a value, by field.
        absent: values of the configuration that never occurred.
        gaps: every comparison of every measure.
        alarms: all, in their order.
        selection: how many decisions have a label, by what was decided; None if nothing needs labels.
        histories: of every measure that is watched.
    """

    chart = "shields.monitor.plot_monitor"
    kind: Literal["monitor"] = "monitor"
    config: dict[str, Any]
    decisions: int = Field(ge=0)
    labels: int = Field(ge=0)
    unmatched: int = Field(ge=0)
    given_up: int = Field(ge=0)
    awaited: int = Field(ge=0)
    queued: int = Field(ge=0)
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
    def compared(self) -> bool:
        """Whether any two groups were compared."""
        return any(gap.first_count and gap.second_count for gap in self.gaps)

    def document(self, name: str = "") -> Document:
        """Return alarms, gaps with their intervals, and their course.

        Args:
            name: of what is watched.
        """
        return self._write_document("evenhand.monitoring.wording", name)

    def to_frame(self) -> pd.DataFrame:
        """Return a row for every comparison."""
        import pandas as pd

        return pd.DataFrame([gap.model_dump() for gap in self.gaps])


def list_cautions(result: MonitorResult) -> list[str]:
    """Return cautions about the data."""
    cautions = []
    if selected := describe_selection(result.selection):
        cautions.append(selected)
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
    place = 0
    for watch, history in zip(result.config["watch"], result.histories, strict=True):
        gaps = result.gaps[place : place + len(history.gaps)]
        place += len(gaps)
        if result.compared and not any(gap.first_count and gap.second_count for gap in gaps):
            cautions.append(f"{watch['gap'] or watch['ratio']}: no groups were compared.")
    if result.skipped:
        cautions.append(f"{format_count(result.skipped, 'line', 'lines')} could not be read and took no part.")
    if result.unmatched:
        cautions.append(
            f"{format_count(result.unmatched, 'label', 'labels')} took no part: of decisions that are not known, that "
            "were not drawn to be audited, or that have a label already."
        )
    if result.given_up:
        cautions.append(f"{format_count(result.given_up, 'decision', 'decisions')} no longer waited for their label.")
    if result.queued:
        cautions.append(
            f"{format_count(result.queued, 'decision waits', 'decisions wait')} behind an audited one whose label has "
            "not come: the base rate stands still until then."
        )
    elif result.awaited:
        cautions.append(f"{format_count(result.awaited, 'audit', 'audits')} awaited.")
    return cautions


def _write_estimate(gap: MonitoredGap) -> str:
    """Return what led to an alarm: a change is seen in late decisions long before it shows in the whole run."""
    ends = format_ends(gap)
    late = f"of late {format_gap(gap.recent, gap.form)}, " if gap.recent is not None else ""
    return f"{late}over the whole run {format_gap(gap.estimate, gap.form)}" + (f" ({ends})" if ends else "")


def format_ends(gap: MonitoredGap, *, unit: bool = True) -> str:
    """Return the interval as people read it; nothing without one."""
    if gap.form == "ratio":
        if gap.low is None:
            return ""
        return f"{gap.low:.2f} and more" if gap.high is None else f"{gap.low:.2f} to {gap.high:.2f}"
    if gap.low is None or gap.high is None:
        return ""
    return f"{_format_signed(gap.low)} to {_format_signed(gap.high)}" + (" points" if unit else "")


def format_gap(value: float | None, form: str, *, unit: bool = True) -> str:
    """Return a gap or ratio as people read it."""
    if value is None:
        return "-"
    return f"{value:.2f}" if form == "ratio" else _format_signed(value) + (" points" if unit else "")


def _format_signed(value: float) -> str:
    return f"{100 * value:+.1f}"


def format_points(value: float) -> str:
    """Return a share in percentage points."""
    return f"{100 * value:.3g} points"
