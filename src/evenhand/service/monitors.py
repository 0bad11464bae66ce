"""Monitors that the service keeps: of events that are posted, or of all that a served shield decides.

A monitor is a stream like a shield: the ledger takes a batch of events in, in one transaction with the entry that says
so. A batch counts wholly or not at all, once however often it is sent, and whichever replica takes it. What is asked
about a monitor is answered by a copy of it, which follows the log: no decision waits for that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from evenhand.errors import DecisionError, EvenhandError, OptionError
from evenhand.monitoring.config import read_monitor_config
from evenhand.monitoring.figures import GAUGES, MonitorFigure, list_figures
from evenhand.monitoring.lines import event_of_log_entry
from evenhand.monitoring.result import Alarm, MonitorResult
from evenhand.monitoring.webhook import AlarmPoster
from evenhand.service.background import PeriodicThread
from evenhand.service.monitor_machine import MonitorMachine
from evenhand.service.settings import ServedMonitorConfig
from evenhand.service.store.database import Database, read_entries_after
from evenhand.service.store.ledger import Ledger, OperationResult
from evenhand.service.store.statements import read_head
from evenhand.service.store.transaction import LoadedMachine, follow_stream

logger = logging.getLogger("evenhand.service")

PAUSE_SECONDS = 1.0
"""Until the logs of shields are looked at again."""


class ServedMonitor:
    """A monitor of the service's file.

    Args:
        database: the store.
        ledger: of this process; it serves the monitor's stream.
        entry: its entry in the file.
        machine: the monitor at its beginning, for this alone.
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
        """Take events in.

        Args:
            events: decisions and labels, in their order.
            batch: a name that the batch has alone; sent again under it, the answer is the same, and nothing changes.

        Returns:
            What came of it: ``decisions`` so far, new ``alarms``, and the ids of ``audits``.

        Raises:
            DataError: an event cannot be read, and none was taken.
            DecisionError: another batch had the name.
            StoreError: the store failed.
        """
        operation = self._machine.events_operation(self._read_events(events))
        return self._ledger.submit(self.name, operation, id=batch).result()

    def catch_up(self) -> int:
        """Process new decisions of the shield, and return the number of entries read."""
        if self.shield is None:
            return 0
        taken = 0
        while True:
            after = self._follow().position
            with self._database.reading() as connection:
                entries = read_entries_after(connection, self.shield, after)
            if not entries:
                return taken
            events = [event for entry in entries if (event := event_of_log_entry(entry["body"])) is not None]
            position = {"after": after, "to": entries[-1]["number"]}
            operation = self._machine.events_operation(self._read_events(events), **position)
            try:
                self._ledger.submit(self.name, operation).result()
            except DecisionError as error:
                if error.code != "repeated":
                    raise
                continue  # another replica has taken them
            taken += len(entries)

    def result(self) -> MonitorResult:
        """Return the current result.

        Raises:
            DataError: there is nothing yet.
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
                "decisions": monitor.decisions + sum(event.groups is not None for event in monitor.waiting),
                "labels": monitor.labels,
                "alarms": len(monitor.alarms),
            }

    def figures(self) -> list[MonitorFigure]:
        """Return the metrics for Prometheus."""
        with self._lock:
            return list_figures(self._follow_locked().monitor)

    def tell_alarms(self) -> None:
        """Post alarms that were not posted yet; an alarm may be posted twice, with the same id, and is never left out.

        Raises:
            EvenhandError: the address does not take one; it is tried again later.
        """
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
        """Return the monitor as it stands in the store."""
        with self._database.reading() as connection:
            follow_stream(connection, self.name, read_head(connection, self.name), self._kept)
        return self._machine


class MonitorThread:
    """Background thread that passes decisions of shields to their monitors, and posts alarms.

    Args:
        served: all monitors, by name.
    """

    def __init__(self, served: Mapping[str, ServedMonitor]) -> None:
        self._served = served
        self._thread = PeriodicThread("evenhand-monitors", self.run_once, PAUSE_SECONDS)

    def start(self) -> None:
        """Start the thread if a monitor needs it."""
        if any(monitor.shield is not None or monitor.config.webhook is not None for monitor in self._served.values()):
            self._thread.start()

    def wake(self) -> None:
        """Look now: there may be an alarm."""
        self._thread.wake()

    def run_once(self) -> None:
        """Update all monitors. Updates that fail are retried the next time."""
        for monitor in self._served.values():
            try:
                monitor.catch_up()
                monitor.tell_alarms()
            except EvenhandError as error:
                logger.warning("the monitor %s: %s", monitor.name, error.message)
            except Exception:
                logger.exception("the monitor %s failed", monitor.name)

    def stop(self) -> None:
        """Stop; to be called before the store is closed."""
        self._thread.stop()


class MonitorCollector(Collector):
    """Figures of monitors for Prometheus: no group is named, as events may hold any."""

    def __init__(self, served: Mapping[str, ServedMonitor]) -> None:
        self._served = served

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the figures as the store has them now."""
        families = {
            name: GaugeMetricFamily(
                name, meaning, labels=["monitor", "measure"] if name.endswith("gap") else ["monitor"]
            )
            for name, meaning in GAUGES.items()
        }
        for name, monitor in self._served.items():
            for figure in monitor.figures():
                family = families[figure.name]
                family.add_metric([name] if figure.measure is None else [name, figure.measure], figure.value)
        return families.values()


def alarm_to_dict(alarm: Alarm) -> dict[str, Any]:
    """Return an alarm as it is answered: all its fields, and a sentence."""
    return {"text": f"{alarm.sentence}.", **alarm.model_dump(mode="json")}


def build_monitor_machine(entry: ServedMonitorConfig, folder: Path) -> MonitorMachine:
    """Return a monitor of the settings, as its stream at the beginning.

    Args:
        entry: of the settings.
        folder: that relative paths start from.

    Raises:
        OptionError: its configuration makes no sense.
    """
    given = entry.config
    config = read_monitor_config(folder / given if isinstance(given, str) else given)
    if entry.shield is not None and config.groups.by != ["group"]:
        raise OptionError(
            f"a monitor of a shield compares its groups, and not {', '.join(config.groups.by)}",
            location=f"monitors, {entry.name}",
            hint="groups: {by: [group]}",
        )
    return MonitorMachine(config)
