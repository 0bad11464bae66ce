"""Metrics of a monitor for Prometheus. They name no groups, because events may contain any value."""

from __future__ import annotations

from typing import NamedTuple

from evenhand.monitoring.monitor import Monitor

GAUGES = {
    "evenhand_monitor_decisions": "Decisions so far",
    "evenhand_monitor_labels": "Labels so far that were used or will be",
    "evenhand_monitor_alarms": "Alarms so far",
    "evenhand_monitor_gap": "The largest gap, or the ratio farthest from 1, as a number below 1",
}
"""Help text of each metric."""


class MonitorFigure(NamedTuple):
    """Metric of a monitor.

    Attributes:
        name: Name of the metric.
        measure: Measure, or None for a metric of the whole monitor.
        value: Value of the metric.
    """

    name: str
    measure: str | None
    value: float


def list_figures(monitor: Monitor) -> list[MonitorFigure]:
    """List the metrics: decisions, labels, alarms, and the largest gap of each measure."""
    decisions = monitor.decisions + sum(event.groups is not None for event in monitor.waiting)
    return [
        MonitorFigure("evenhand_monitor_decisions", None, decisions),
        MonitorFigure("evenhand_monitor_labels", None, monitor.labels),
        MonitorFigure("evenhand_monitor_alarms", None, len(monitor.alarms)),
        *(MonitorFigure("evenhand_monitor_gap", measure, gap) for measure, gap in _largest_gaps(monitor)),
    ]


def _largest_gaps(monitor: Monitor) -> list[tuple[str, float]]:
    gaps: dict[str, list[float]] = {}
    for gap in monitor.intervals() if monitor.measures else ():
        if gap.estimate is not None:
            gaps.setdefault(f"{gap.measure} {gap.form}", []).append(gap.estimate)
    return [
        (
            name,
            max(map(abs, many))
            if name.endswith("gap")
            else min(min(ratio, 1 / ratio) if ratio else 0 for ratio in many),
        )
        for name, many in gaps.items()
    ]
