"""Metrics of a monitor for Prometheus. They contain no group names, because events may contain any value."""

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
    estimates: dict[tuple[str, str], list[float]] = {}
    for gap in monitor.intervals() if monitor.measures else ():
        if gap.estimate is not None:
            estimates.setdefault((gap.measure, gap.form), []).append(gap.estimate)
    for (measure, form), values in estimates.items():
        farthest = max(map(abs, values)) if form == "gap" else min(min(values), 1 / max(1.0, *values))
        yield "evenhand_monitor_gap", f"{measure} {form}", farthest
