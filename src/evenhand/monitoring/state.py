"""State of a monitor as bytes. A restored monitor continues exactly as the original would have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from evenhand.errors import DataError
from evenhand.monitoring.config import MonitorConfig
from evenhand.monitoring.monitor import Monitor, MonitorState

VERSION = 5
RESTART = "begin with a new file"
CHANGEABLE = {"webhook"}
"""Entries of a configuration that may change between two runs."""
STATE = TypeAdapter(MonitorState)
ENCODE = json.JSONEncoder(separators=(",", ":")).encode


def write_state(monitor: Monitor, *, more: Mapping[str, Any] | None = None) -> bytes:
    """Encode a monitor as bytes, together with further JSON values (``more``), such as the position in a file."""
    config = monitor.config.model_dump(mode="json", exclude=CHANGEABLE)
    body = ENCODE({"config": config, "state": monitor_to_dict(monitor), "more": dict(more or {})})
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"kind":"monitor-state","version":{VERSION},"sha256":"{digest}","body":{body}}}\n'.encode()


def monitor_to_dict(monitor: Monitor) -> dict[str, Any]:
    """Convert the state of a monitor, without its configuration, to JSON values."""
    state: dict[str, Any] = STATE.dump_python(monitor, mode="json")
    return state


def read_state(data: bytes, config: MonitorConfig, *, location: str = "state") -> tuple[Monitor, dict[str, Any]]:
    """Decode a monitor that `write_state` encoded, and the values stored with it.

    Raises:
        DataError: The bytes are not a state, were altered, or have a different configuration.
    """
    try:
        read = json.loads(data)
        body, version = read["body"], read["version"]
        if read["kind"] != "monitor-state":
            raise ValueError
        if version != VERSION:
            raise DataError(f"expected a state of version {VERSION}, got version {version!r}")
        if hashlib.sha256(ENCODE(body).encode()).hexdigest() != read.get("sha256"):
            raise DataError("the state was changed after it was written")
        expected = config.model_dump(mode="json", exclude=CHANGEABLE)
        changed = [name for name in expected if expected[name] != body["config"].get(name)]
        if changed:
            raise DataError(f"the state belongs to a monitor with a different configuration: {', '.join(changed)}")
        return restore_monitor(body["state"], config), body["more"]
    except DataError as error:
        raise DataError(error.message, location=location, hint=RESTART) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError("expected the state of a monitor", location=location, hint=RESTART) from None


def restore_monitor(body: Mapping[str, Any], config: MonitorConfig) -> Monitor:
    """Restore the monitor that `monitor_to_dict` converted.

    Raises:
        DataError: The body is not the state of a monitor.
    """
    monitor = Monitor(config)
    try:
        state = STATE.validate_python(body)
        if state.values:
            monitor.compare(state.values, comparisons=[measure.comparisons for measure in state.measures])
        for measure, stored in zip(monitor.measures, state.measures, strict=True):
            vars(measure).update(vars(stored))
    except (ValueError, TypeError):
        raise DataError("the state of the monitor is damaged", hint=RESTART) from None
    vars(monitor).update({**vars(state), "measures": monitor.measures})
    return monitor
