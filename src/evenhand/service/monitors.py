"""Monitors of posted events, or of all decisions of a served shield.

A monitor is a stream like a shield: the ledger applies a batch of events completely or not at all, and only once, even
if it is sent again or to another replica. Queries use a copy of the monitor that follows the log, so they delay no
decision.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from evenhand.errors import DecisionError, OptionError
from evenhand.monitoring.config import read_monitor_config
from evenhand.monitoring.lines import event_of_log_entry
from evenhand.monitoring.result import Alarm, MonitorResult
from evenhand.monitoring.webhook import AlarmPoster
from evenhand.service.monitor_machine import MonitorMachine
from evenhand.service.settings import ServedMonitorConfig
from evenhand.service.store.database import Database, read_entries_after
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.transaction import LoadedMachine, OperationResult, follow_stream

PAUSE_SECONDS = 1.0
"""Seconds between two reads of the logs of shields."""
GAUGES = {
    "evenhand_monitor_decisions": "Decisions so far",
    "evenhand_monitor_labels": "Labels so far that were used or will be",
    "evenhand_monitor_alarms": "Alarms so far",
    "evenhand_monitor_gap": "The largest gap, or the ratio farthest from 1, as a number below 1",
}
"""Help text of each metric for Prometheus."""


class ServedMonitor:
    """A monitor in the service's configuration file.

    Args:
        database: Store.
        ledger: Ledger that serves the stream of the monitor.
        entry: Entry of the settings.
        machine: Machine in its initial state; no other object may use it.
    """

    def __init__(self, database: Database, ledger: Ledger, entry: ServedMonitorConfig, machine: MonitorMachine) -> None:
        self.name, self.shield, self.config = entry.name, entry.shield, machine.config
        self._database, self._ledger = database, ledger
        self._lock = threading.Lock()
        self._machine = machine
        self._kept = LoadedMachine(machine)
        self._read_events = machine.monitor.read
        self._poster = AlarmPoster(self.config.webhook, self.name)

    def add(self, events: Sequence[Mapping[str, Any]], *, batch: str | None = None) -> OperationResult:
        """Apply a batch of events.

        Args:
            events: Decisions and labels, in order.
            batch: Unique name of the batch. A repeated batch returns the same result and changes nothing.

        Returns:
            Total number of ``decisions``, new ``alarms``, and the IDs of ``audits``.

        Raises:
            DataError: An event is invalid; none was applied.
            DecisionError: Another batch had the name.
            StoreError: The store failed.
        """
        operation = self._machine.events_operation(self._read_events(events))
        return self._ledger.submit(self.name, operation, id=batch).result()

    @property
    def needs_updates(self) -> bool:
        """Whether the monitor follows a shield or posts alarms."""
        return self.shield is not None or self.config.webhook is not None

    def update(self) -> None:
        """Process new decisions of the shield, and post new alarms.

        Raises:
            EvenhandError: The store failed, or the address refused an alarm, which is posted again later.
        """
        self.catch_up()
        self._post_alarms()

    def catch_up(self) -> int:
        """Process new decisions of the shield, and return the number of entries read."""
        if self.shield is None:
            return 0
        count = 0
        while True:
            after = self._follow().position
            with self._database.reading() as connection:
                entries = read_entries_after(connection, self.shield, after)
            if not entries:
                return count
            events = [event for entry in entries if (event := event_of_log_entry(entry["body"])) is not None]
            position = {"after": after, "to": entries[-1]["number"]}
            operation = self._machine.events_operation(self._read_events(events), **position)
            try:
                self._ledger.submit(self.name, operation).result()
            except DecisionError as error:
                if error.code != "repeated":
                    raise
                continue  # another replica has processed them
            count += len(entries)

    def result(self) -> MonitorResult:
        """Return the current result.

        Raises:
            DataError: There are no decisions yet.
        """
        with self._lock:
            return self._follow_locked().monitor.result()

    def summary(self) -> dict[str, Any]:
        """Return the summary for lists."""
        with self._lock:
            monitor = self._follow_locked().monitor
            return {
                "name": self.name,
                "shield": self.shield,
                "decisions": monitor.seen,
                "labels": monitor.labels,
                "alarms": len(monitor.alarms),
            }

    def figures(self) -> list[tuple[str, str | None, float]]:
        """Return the name, the measure and the value of each metric. The measure is None for the whole monitor."""
        with self._lock:
            monitor = self._follow_locked().monitor
            counts = (monitor.seen, monitor.labels, len(monitor.alarms))
            figures: list[tuple[str, str | None, float]] = [
                (name, None, n) for name, n in zip(GAUGES, counts, strict=False)
            ]
            estimates: dict[tuple[str, str], list[float]] = {}
            for gap in monitor.intervals() if monitor.measures else ():
                if gap.estimate is not None:
                    estimates.setdefault((gap.measure, gap.form), []).append(gap.estimate)
        for (measure, form), values in estimates.items():
            farthest = max(map(abs, values)) if form == "gap" else min(min(values), 1 / max(1.0, *values))
            figures.append(("evenhand_monitor_gap", f"{measure} {form}", farthest))
        return figures

    def _post_alarms(self) -> None:
        """Post new alarms. An alarm may be posted twice with the same ID but is never skipped."""
        if self.config.webhook is None:
            return
        machine = self._follow()
        self._poster.post(
            machine.monitor.alarms,
            machine.posted,
            lambda number: self._ledger.submit(self.name, {"op": "posted", "alarms": number}).result(),
        )

    def _follow(self) -> MonitorMachine:
        with self._lock:
            return self._follow_locked()

    def _follow_locked(self) -> MonitorMachine:
        """Return the machine in the state of the store."""
        with self._database.reading() as connection:
            follow_stream(connection, self.name, self._kept)
        return self._machine


class MonitorCollector(Collector):
    """Metrics of monitors for Prometheus, without groups, because events may contain any group."""

    def __init__(self, served: Mapping[str, ServedMonitor]) -> None:
        self._served = served

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics in the state of the store."""
        families = {
            name: GaugeMetricFamily(
                name, meaning, labels=["monitor", "measure"] if name.endswith("gap") else ["monitor"]
            )
            for name, meaning in GAUGES.items()
        }
        for name, monitor in self._served.items():
            for metric, measure, value in monitor.figures():
                families[metric].add_metric([name] if measure is None else [name, measure], value)
        return families.values()


def alarm_to_dict(alarm: Alarm) -> dict[str, Any]:
    """Return the fields of an alarm and its description."""
    return {"text": f"{alarm.sentence}.", **alarm.model_dump(mode="json")}


def build_monitor_machine(entry: ServedMonitorConfig, folder: Path) -> MonitorMachine:
    """Build the machine of a monitor in its initial state.

    Args:
        entry: Entry of the settings.
        folder: Folder of relative paths.

    Raises:
        OptionError: The configuration is invalid.
    """
    config = read_monitor_config(folder / entry.config if isinstance(entry.config, str) else entry.config)
    if entry.shield is not None and config.groups.by != ["group"]:
        raise OptionError(
            f"a monitor of a shield must compare the shield's groups, got {', '.join(config.groups.by)}",
            location=f"monitors, {entry.name}",
            hint="groups: {by: [group]}",
        )
    return MonitorMachine(config)
