"""State machine of a monitor: batches of events are its operations, alarms its output."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.core.canonical_json import hash_json
from evenhand.errors import DecisionError
from evenhand.monitoring.config import MonitorConfig
from evenhand.monitoring.events import Event
from evenhand.monitoring.monitor import Monitor
from evenhand.monitoring.state import monitor_to_dict, restore_monitor
from evenhand.service.state_machines import Operation, StateMachine

MOST_OPERATIONS = 256
"""Number of operations after which the state is saved, which is also the maximum number replayed at startup.
"""

MOST_EVENTS = 50_000
"""Number of events after which the state is saved."""


class MonitorMachine(StateMachine):
    """Monitors decisions and remembers which alarms were posted.

    Operations:

    - ``{"op": "events", "events", "seed"?, "after"?, "to"?}``: decisions and labels as lists of the fields of an
      ``Event``. ``seed`` of the audits is drawn when the events arrive, so that audits cannot be predicted, even from
      the log. ``after`` and ``to`` are positions in the log of a shield. The operation is refused unless ``after`` is
      the last processed entry.
    - ``{"op": "posted", "alarms"}``: this number of alarms, from the first one, has been posted.

    The state grows with the number of decisions without a label, so it is not saved with every batch.

    Args:
        config: Configuration of the monitor.
    """

    kind = "monitor"

    def __init__(self, config: MonitorConfig) -> None:
        self.config = config
        # The address of alarms is a secret, and does not affect decisions.
        self.configuration: Mapping[str, Any] = config.model_dump(mode="json", exclude={"webhook"})
        # Entries that a later version adds must not change the digest.
        changed = config.model_dump(mode="json", exclude={"webhook"}, exclude_defaults=True)
        self.digest = hash_json(changed)
        self.monitor = Monitor(config)
        self.monitor.seed = config.seed or 0
        self.posted = 0
        """Alarms that were posted."""
        self.position = -1
        """Number of the last processed entry of the shield's log."""
        self._operations = self._events = 0

    def events_operation(self, events: Sequence[Event], **position: int) -> dict[str, Any]:
        """Return the operation that adds events, with a seed if audits are drawn.

        Args:
            events: Events as returned by ``Monitor.read``.
            position: ``after`` and ``to``, of events from a shield's log.
        """
        has_audits = self.config.labels.audited_with is not None and self.config.seed is None
        return {"op": "events", "events": events, **position, **({"seed": secrets.randbits(63)} if has_audits else {})}

    def state(self) -> dict[str, Any]:
        self._operations = self._events = 0
        return {"monitor": monitor_to_dict(self.monitor), "position": self.position, "posted": self.posted}

    def load(self, state: Mapping[str, Any]) -> None:
        self.monitor = restore_monitor(state["monitor"], self.config)
        self.position, self.posted = state["position"], state["posted"]
        self._operations = self._events = 0

    def counts(self) -> Mapping[str, Any]:
        return {"decisions": self.monitor.decisions, "labels": self.monitor.labels}

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        kind = operation.get("op")
        if kind == "events":
            output = self._take(operation)
        elif kind == "posted":
            self.posted = max(self.posted, operation["alarms"])
            output = {"posted": self.posted}
        else:
            raise DecisionError(f"there is no operation {kind!r}", code="operation", hint="events, posted")
        self._operations += 1
        self.needs_saving = self._operations >= MOST_OPERATIONS or self._events >= MOST_EVENTS
        return output

    def _take(self, operation: Operation) -> dict[str, Any]:
        if operation.get("after", self.position) != self.position:
            raise DecisionError(
                "these entries were processed before", code="repeated", hint="continue after the last one"
            )
        events = [Event(None if fields[0] is None else tuple(fields[0]), *fields[1:]) for fields in operation["events"]]
        # All events are refused, and nothing changes.
        backup = copy.deepcopy(self.monitor) if self.monitor.may_refuse(events) else None
        self.monitor.seed = operation.get("seed", self.monitor.seed)
        try:
            update = self.monitor.take(events)
        except BaseException:
            if backup is not None:
                self.monitor = backup
            raise
        self.position = operation.get("to", self.position)
        self._events += len(events)
        return {
            "decisions": self.monitor.decisions,
            "alarms": [alarm.model_dump(mode="json") for alarm in update.alarms],
            "audits": list(update.audits),
        }
