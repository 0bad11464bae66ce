"""Figures of a monitor for Prometheus: no group is named, as events may hold any."""

from __future__ import annotations

from typing import NamedTuple

from evenhand.monitoring.monitor import Monitor


class MonitorFigure(NamedTuple):
    """A gauge.

    Attributes:
        name: of the metric.
        help: what it is.
        values: with the measure that each is of; None where it is of the whole monitor.
    """

    name: str
    help: str
    values: tuple[tuple[str | None, float], ...]


def list_figures(monitor: Monitor) -> tuple[MonitorFigure, ...]:
    """Return where a monitor stands: decisions, labels, alarms, and the largest gap of each measure."""
    decisions = monitor.decisions + sum(event.groups is not None for event in monitor.waiting)
    gaps = tuple(_largest_gaps(monitor))
    return (
        MonitorFigure("evenhand_monitor_decisions", "Decisions so far", ((None, decisions),)),
        MonitorFigure("evenhand_monitor_labels", "Labels so far that were used, or will be", ((None, monitor.labels),)),
        MonitorFigure("evenhand_monitor_alarms", "Alarms so far", ((None, len(monitor.alarms)),)),
        MonitorFigure("evenhand_monitor_gap", "The largest gap; of ratios the one farthest from 1, below 1", gaps),
    )


def format_figures(monitor: Monitor, name: str) -> str:
    """Return the figures in Prometheus' text format, as node_exporter reads it from a file.

    Args:
        monitor: whose.
        name: of the monitor, the label ``monitor`` of every figure.
    """
    lines = []
    for figure in list_figures(monitor):
        lines += [f"# HELP {figure.name} {figure.help}", f"# TYPE {figure.name} gauge"]
        for measure, value in figure.values:
            of = "" if measure is None else f',measure="{measure}"'
            lines.append(f'{figure.name}{{monitor="{_escape(name)}"{of}}} {value:.9g}')
    return "\n".join(lines) + "\n"


def _largest_gaps(monitor: Monitor) -> list[tuple[str | None, float]]:
    found: dict[str, list[float]] = {}
    for gap in monitor.intervals() if monitor.measures else ():
        if gap.estimate is not None:
            found.setdefault(f"{gap.measure} {gap.form}", []).append(gap.estimate)
    return [
        (name, max(map(abs, many)) if name.endswith("gap") else min(min(one, 1 / one) if one else 0 for one in many))
        for name, many in found.items()
    ]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
