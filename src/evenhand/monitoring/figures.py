"""Metrics of a monitor for Prometheus. They name no groups, because events may contain any value."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.monitoring.monitor import Monitor

GAUGES = {
    "evenhand_monitor_decisions": "Decisions so far",
    "evenhand_monitor_labels": "Labels so far that were used or will be",
    "evenhand_monitor_alarms": "Alarms so far",
    "evenhand_monitor_gap": "The largest gap, or the ratio farthest from 1, as a number below 1",
}
"""Help text of each metric."""


def list_figures(monitor: Monitor) -> Iterator[tuple[str, str | None, float]]:
    """Yield the name, the measure and the value of each metric. The measure is None for the whole monitor."""
    yield "evenhand_monitor_decisions", None, monitor.seen
    yield "evenhand_monitor_labels", None, monitor.labels
    yield "evenhand_monitor_alarms", None, len(monitor.alarms)
    extremes: dict[str, float] = {}
    for gap in monitor.intervals() if monitor.measures else ():
        name = f"{gap.measure} {gap.form}"
        if gap.estimate is not None and gap.form == "gap":
            extremes[name] = max(extremes.get(name, 0.0), abs(gap.estimate))
        elif gap.estimate is not None:
            ratio = min(gap.estimate, 1 / gap.estimate) if gap.estimate else 0.0
            extremes[name] = min(extremes.get(name, 1.0), ratio)
    for name, extreme in extremes.items():
        yield "evenhand_monitor_gap", name, extreme
