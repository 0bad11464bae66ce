"""A monitor as bytes: all that decides what it will say, so that it goes on after a restart as if nothing had been."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import DataError
from evenhand.monitoring.config import MonitorConfig
from evenhand.monitoring.events import Event
from evenhand.monitoring.monitor import Monitor, PendingDecision, QueuedDecision, Rows
from evenhand.monitoring.result import Alarm

VERSION = 1
COUNTERS = (
    "decisions",
    "labels",
    "unmatched",
    "given_up",
    "seed",
    "identified",
    "rejected",
    "favourable",
    "positive",
    "repeated",
    "other_decision",
    "other_label",
    "spacing",
    "points",
)
NOT_KEPT = {"webhook"}
"""Entries of a configuration that may change between two runs."""


def write_state(monitor: Monitor, *, more: Mapping[str, Any] | None = None) -> bytes:
    """Return a monitor as bytes.

    Args:
        monitor: which one; it is not changed.
        more: plain values to keep with it, such as how far a file was read.
    """
    kept = {
        "config": monitor.config.model_dump(mode="json", exclude=NOT_KEPT),
        **monitor_to_dict(monitor),
        "more": dict(more or {}),
    }
    body = json.dumps(kept, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"kind":"monitor-state","version":{VERSION},"sha256":"{digest}","body":{body}}}\n'.encode()


def monitor_to_dict(monitor: Monitor) -> dict[str, Any]:
    """Return all that decides what a monitor will say, but its configuration, as JSON can hold it."""
    places = {id(one): place for place, one in enumerate(monitor.queue)}
    return {
        "counters": {name: getattr(monitor, name) for name in COUNTERS} | {"points": list(monitor.points)},
        "alarms": [alarm.model_dump(mode="json") for alarm in monitor.alarms],
        "values": [list(values) for values in monitor.values],
        "waiting": [list(event) for event in monitor.waiting],
        "comparisons": [[list(one) for one in measure.comparisons] for measure in monitor.measures],
        "arrays": [
            {name: _pack(getattr(measure, name)) for name in ("state", "wealth", "history")}
            for measure in monitor.measures
        ],
        "pending": [[id, *one] for id, one in monitor.pending.items()],
        "queue": [[one.codes, one.proxy, one.audited, one.label] for one in monitor.queue],
        "audited": [[name, None if one is None else places[id(one)]] for name, one in monitor.audited.items()],
        "selection": monitor.selection.state(),
        "held": [list(column) for column in monitor.held],
        "counts": [[list(pair) for pair in counts.items()] for counts in monitor.counts],
        "ids": base64.b64encode(np.array(list(monitor.ids), dtype="<u8").tobytes()).decode(),
        "early": [list(pair) for pair in monitor.early.items()],
    }


def read_state(data: bytes, config: MonitorConfig, *, location: str = "state") -> tuple[Monitor, dict[str, Any]]:
    """Return the monitor that ``write_state`` wrote, and what was kept with it.

    Args:
        data: the bytes.
        config: what is watched; the monitor must have watched the same.
        location: where the bytes are from, for messages.

    Raises:
        DataError: the bytes are not a monitor, or were changed, or it watched something else.
    """
    try:
        read = json.loads(data)
        body, version = read["body"], read["version"]
        if read["kind"] != "monitor-state":
            raise KeyError
        text = json.dumps(body, separators=(",", ":"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError("this is not the state of a monitor", location=location, hint="begin with a new file") from None
    if version != VERSION:
        raise DataError(f"this state has version {version!r}, and version {VERSION} is read", location=location)
    if hashlib.sha256(text.encode()).hexdigest() != read.get("sha256"):
        raise DataError("the state was changed after it was written", location=location, hint="begin with a new file")
    wanted = config.model_dump(mode="json", exclude=NOT_KEPT)
    changed = [name for name in wanted if wanted[name] != body["config"].get(name)]
    if changed:
        raise DataError(
            f"the state is of a monitor with another configuration: {', '.join(changed)}",
            location=location,
            hint="what was counted means something else now: begin with a new file",
        )
    return restore_monitor(body, config), body["more"]


def restore_monitor(body: Mapping[str, Any], config: MonitorConfig) -> Monitor:
    """Return the monitor that ``monitor_to_dict`` described.

    Args:
        body: what it returned.
        config: what is watched.
    """
    monitor = Monitor(config)
    if body["values"]:
        monitor.restore_comparisons(body["values"], body["comparisons"])
    for name, value in body["counters"].items():
        setattr(monitor, name, list(value) if isinstance(value, list) else value)
    monitor.alarms = tuple(Alarm.model_validate(one) for one in body["alarms"])
    monitor.waiting = [Event(None if one[0] is None else tuple(one[0]), *one[1:]) for one in body["waiting"]]
    for measure, arrays in zip(monitor.measures, body["arrays"], strict=True):
        measure.state, measure.wealth, measure.history = (_unpack(arrays[n]) for n in ("state", "wealth", "history"))
    monitor.pending = {one[0]: PendingDecision(tuple(one[1]), *one[2:]) for one in body["pending"]}
    queue = [QueuedDecision(tuple(codes), *rest) for codes, *rest in body["queue"]]
    monitor.queue.extend(queue)
    monitor.audited = {id: None if place is None else queue[place] for id, place in body["audited"]}
    monitor.selection.load(body["selection"])
    monitor.counts = [dict(pairs) for pairs in body["counts"]]
    monitor.ids = dict.fromkeys(np.frombuffer(base64.b64decode(body["ids"]), dtype="<u8").tolist())
    monitor.early = dict(body["early"])
    clock, codes, outcomes = body["held"]
    monitor.held = Rows(list(clock), [tuple(one) for one in codes], [tuple(one) for one in outcomes])
    return monitor


def _pack(array: Floats) -> list[Any]:
    data = np.ascontiguousarray(array, dtype="<f8").tobytes()
    return [list(array.shape), base64.b64encode(data).decode()]


def _unpack(packed: list[Any]) -> Floats:
    shape, data = packed
    return np.frombuffer(base64.b64decode(data), dtype="<f8").reshape(shape).astype(np.float64)
