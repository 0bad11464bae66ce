"""Monitors that the service keeps: of events that are posted, or of all that a served shield decides.

A monitor is one row of the store. A batch of events reads it, and writes it again with what came of it, in one
transaction: so a batch counts wholly or not at all, once however often it is sent, and whichever replica takes it.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Connection, select, update

from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.monitoring import (
    Alarm,
    Monitor,
    MonitorConfig,
    MonitorResult,
    MonitorUpdate,
    event_of_log_entry,
    post_alarm,
    read_monitor_config,
    read_state,
    write_state,
)
from evenhand.service.settings import ServedMonitorConfig
from evenhand.service.store.database import Database, read_entries_after
from evenhand.service.store.tables import insert_if_absent, monitors

logger = logging.getLogger("evenhand.service")

KEPT_BATCHES = 1000
"""Names of batches by which one that is sent again is known."""
PAUSE_SECONDS = 1.0
"""Until the logs of shields are looked at again."""


class StoredMonitor(NamedTuple):
    """A monitor as it stands in the store.

    Attributes:
        monitor: itself.
        number: of changes so far.
        told: alarms that were posted.
        position: of the last entry of its shield's log that it has taken.
        batches: hashes of the names of the last batches.
    """

    monitor: Monitor
    number: int = 0
    told: int = 0
    position: int = -1
    batches: tuple[str, ...] = ()


class ServedMonitor:
    """A monitor of the service's file.

    Args:
        database: the store.
        entry: its entry in the file.
        folder: that relative paths start from.

    Raises:
        OptionError: its configuration makes no sense.
        DataError: the store has one of this name that watched something else.
    """

    def __init__(self, database: Database, entry: ServedMonitorConfig, folder: Path) -> None:
        self.name, self.shield = entry.name, entry.shield
        self.config = _read_config(entry, folder)
        self._database = database
        self._lock = threading.Lock()
        self._known: StoredMonitor | None = None
        with database.transaction() as connection:
            row = {"name": self.name, "number": 0, "told": 0, "state": write_state(Monitor(self.config))}
            connection.execute(insert_if_absent(connection, monitors).values(row))
            try:
                self._read(connection)
            except DataError as error:
                error.hint = "a monitor of another configuration needs another name"
                raise

    def add(self, events: Sequence[Mapping[str, Any]], *, batch: str | None = None) -> tuple[MonitorUpdate, int, bool]:
        """Take events in.

        Args:
            events: decisions and labels, in their order.
            batch: a name that the batch has alone; sent again under it, it changes nothing.

        Returns:
            What it brought, how many decisions there are now, and whether it was there before.

        Raises:
            DataError: an event cannot be read, and none was taken.
            StoreError: the store failed.
        """
        with self._lock, self._forgetting(), self._database.transaction() as connection:
            before = self._read(connection, lock=True)
            name = None if batch is None else hashlib.sha256(batch.encode()).hexdigest()[:32]
            if name is not None and name in before.batches:
                return MonitorUpdate((), ()), before.monitor.decisions, True
            made = before.monitor.add(events)
            batches = before.batches if name is None else (*before.batches, name)[-KEPT_BATCHES:]
            self._write(connection, before._replace(number=before.number + 1, batches=batches))
            return made, before.monitor.decisions, False

    def catch_up(self) -> int:
        """Take what its shield has decided since; return how many entries of the log that were."""
        if self.shield is None:
            return 0
        taken = 0
        while True:
            with self._lock, self._forgetting(), self._database.transaction() as connection:
                before = self._read(connection, lock=True)
                entries = read_entries_after(connection, self.shield, before.position)
                if not entries:
                    return taken
                found = [event for entry in entries if (event := event_of_log_entry(entry["body"])) is not None]
                before.monitor.add(found)
                position = entries[-1]["number"]
                self._write(connection, before._replace(number=before.number + 1, position=position))
            taken += len(entries)

    def result(self) -> MonitorResult:
        """Return where everything stands.

        Raises:
            DataError: there is nothing yet.
        """
        with self._lock, self._database.reading() as connection:
            return self._read(connection).monitor.result()

    def summary(self) -> dict[str, Any]:
        """Return what a list says about it."""
        with self._lock, self._database.reading() as connection:
            monitor = self._read(connection).monitor
            return {
                "name": self.name,
                "shield": self.shield,
                "decisions": monitor.decisions + sum(event.groups is not None for event in monitor.waiting),
                "labels": monitor.labels,
                "alarms": len(monitor.alarms),
            }

    def gaps(self) -> list[tuple[str, float]]:
        """Return the largest gap of each measure so far, and for ratios the one farthest from 1, by the measure."""
        with self._lock, self._database.reading() as connection:
            monitor = self._read(connection).monitor
            found: dict[str, list[float]] = {}
            for gap in monitor.intervals() if monitor.measures else ():
                if gap.estimate is not None:
                    found.setdefault(f"{gap.measure} {gap.form}", []).append(gap.estimate)
        return [
            (
                name,
                max(map(abs, many)) if name.endswith("gap") else min(min(one, 1 / one) if one else 0 for one in many),
            )
            for name, many in found.items()
        ]

    def tell_alarms(self) -> None:
        """Post alarms that were not posted yet; an alarm may be posted twice, and is never left out.

        Raises:
            EvenhandError: the address does not take one; it is tried again the next time.
        """
        if self.config.webhook is None:
            return
        with self._lock, self._database.reading() as connection:
            known = self._read(connection)
        for number, alarm in enumerate(known.monitor.alarms[known.told :], start=known.told + 1):
            post_alarm(alarm, self.config.webhook, monitor=self.name)
            with self._database.transaction() as connection:
                connection.execute(
                    update(monitors).where(monitors.c.name == self.name, monitors.c.told < number).values(told=number)
                )

    def _forgetting(self) -> _Forgetting:
        """Forget what is known where it was changed and could not be written."""
        return _Forgetting(self)

    def forget(self) -> None:
        """Read the store again the next time."""
        self._known = None

    def _read(self, connection: Connection, *, lock: bool = False) -> StoredMonitor:
        """Return the monitor as it stands, from memory if the store has no newer one."""
        query = select(monitors.c.number, monitors.c.told).where(monitors.c.name == self.name)
        row = connection.execute(query.with_for_update() if lock else query).one()
        if self._known is None or self._known.number != row.number:
            state = connection.execute(select(monitors.c.state).where(monitors.c.name == self.name)).scalar_one()
            monitor, more = read_state(state, self.config, location=f"monitor {self.name}")
            self._known = StoredMonitor(
                monitor, row.number, row.told, more.get("position", -1), tuple(more.get("batches", ()))
            )
        return self._known._replace(told=row.told)

    def _write(self, connection: Connection, now: StoredMonitor) -> None:
        more = {"position": now.position, "batches": list(now.batches)}
        values = {"number": now.number, "state": write_state(now.monitor, more=more)}
        connection.execute(update(monitors).where(monitors.c.name == self.name).values(**values))
        self._known = now


class _Forgetting:
    """A block after whose failure a monitor is read from the store again."""

    def __init__(self, served: ServedMonitor) -> None:
        self._served = served

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._served.forget()


class MonitorThread:
    """Takes what shields decide to the monitors that watch them, and posts alarms, until it is stopped.

    Args:
        served: all monitors, by name.
    """

    def __init__(self, served: Mapping[str, ServedMonitor]) -> None:
        self._served = served
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="evenhand-monitors", daemon=True)

    def start(self) -> None:
        """Start, if there is anything to do."""
        if any(one.shield is not None or one.config.webhook is not None for one in self._served.values()):
            self._thread.start()

    def wake(self) -> None:
        """Look now: there may be an alarm."""
        self._wake.set()

    def run_once(self) -> None:
        """Do what is due. What fails is tried again the next time."""
        for one in self._served.values():
            try:
                one.catch_up()
                one.tell_alarms()
            except EvenhandError as error:
                logger.warning("the monitor %s: %s", one.name, error.message)
            except Exception:
                logger.exception("the monitor %s failed", one.name)

    def stop(self) -> None:
        """Stop; to be called before the store is closed."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            self.run_once()
            self._wake.wait(PAUSE_SECONDS)


class MonitorCollector(Collector):
    """Figures of monitors for Prometheus: no group is named, as events may hold any."""

    def __init__(self, served: Mapping[str, ServedMonitor]) -> None:
        self._served = served

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the figures as the store has them now."""
        decisions = GaugeMetricFamily("evenhand_monitor_decisions", "Decisions so far", labels=["monitor"])
        alarms = GaugeMetricFamily("evenhand_monitor_alarms", "Alarms so far", labels=["monitor"])
        gaps = GaugeMetricFamily(
            "evenhand_monitor_gap", "The largest gap; of ratios the smallest", labels=["monitor", "measure"]
        )
        for name, one in self._served.items():
            summary = one.summary()
            decisions.add_metric([name], summary["decisions"])
            alarms.add_metric([name], summary["alarms"])
            for measure, gap in one.gaps():
                gaps.add_metric([name, measure], gap)
        return decisions, alarms, gaps


def alarm_to_dict(alarm: Alarm) -> dict[str, Any]:
    """Return an alarm as it is answered: all its fields, and a sentence."""
    return {"text": f"{alarm.sentence}.", **alarm.model_dump(mode="json")}


def _read_config(entry: ServedMonitorConfig, folder: Path) -> MonitorConfig:
    given = entry.config
    config = read_monitor_config(folder / given if isinstance(given, str) else given)
    if entry.shield is not None and config.groups.by != ["group"]:
        raise OptionError(
            f"a monitor of a shield compares its groups, and not {', '.join(config.groups.by)}",
            location=f"monitors, {entry.name}",
            hint="groups: {by: [group]}",
        )
    return config
