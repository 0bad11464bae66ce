"""State of a monitor as bytes. A restored monitor continues exactly as the original would have."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, PlainSerializer, PlainValidator, ValidationError

from evenhand.errors import DataError
from evenhand.monitoring.comparisons import MonitoredComparison
from evenhand.monitoring.config import MonitorConfig
from evenhand.monitoring.monitor import Monitor, MonitorCounts

VERSION = 3
CHANGEABLE = {"webhook"}
"""Entries of a configuration that may change between two runs."""
FIELDS = [field.name for field in fields(MonitorCounts)]


def _pack(array: Any) -> list[Any]:
    data = np.ascontiguousarray(array, dtype="<f8").tobytes()
    return [list(np.shape(array)), base64.b64encode(data).decode()]


def _unpack(packed: Any) -> Any:
    shape, data = packed
    return np.frombuffer(base64.b64decode(data), dtype="<f8").reshape(shape).astype(np.float64)


Array = Annotated[Any, PlainSerializer(_pack), PlainValidator(_unpack)]


class MeasureFields(BaseModel):
    """Attributes of `WatchedMeasure` that events change."""

    comparisons: tuple[MonitoredComparison, ...]
    state: Array
    wealth: Array
    history: Array


class MonitorState(BaseModel):
    """Everything that determines the results of a monitor, except its configuration."""

    fields: MonitorCounts
    measures: list[MeasureFields]


def write_state(monitor: Monitor, *, more: Mapping[str, Any] | None = None) -> bytes:
    """Encode a monitor as bytes.

    Args:
        monitor: Monitor, which is not changed.
        more: JSON values to store with it, such as the position in a file.
    """
    stored = {
        "config": monitor.config.model_dump(mode="json", exclude=CHANGEABLE),
        **monitor_to_dict(monitor),
        "more": dict(more or {}),
    }
    body = json.dumps(stored, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"kind":"monitor-state","version":{VERSION},"sha256":"{digest}","body":{body}}}\n'.encode()


def monitor_to_dict(monitor: Monitor) -> dict[str, Any]:
    """Convert the state of a monitor to JSON values, without its configuration."""
    return MonitorState.model_construct(
        fields=MonitorCounts(**{name: getattr(monitor, name) for name in FIELDS}),
        measures=[
            MeasureFields.model_construct(**{name: getattr(measure, name) for name in MeasureFields.model_fields})
            for measure in monitor.measures
        ],
    ).model_dump(mode="json")


def read_state(data: bytes, config: MonitorConfig, *, location: str = "state") -> tuple[Monitor, dict[str, Any]]:
    """Decode a monitor that `write_state` encoded, and the values stored with it.

    Args:
        data: Bytes of the state.
        config: Configuration, which must equal that of the encoded monitor.
        location: Name of the state in errors.

    Raises:
        DataError: The bytes are not a state, were changed, or have another configuration.
    """
    try:
        read = json.loads(data)
        body, version = read["body"], read["version"]
        if read["kind"] != "monitor-state":
            raise KeyError
        text = json.dumps(body, separators=(",", ":"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError("expected the state of a monitor", location=location, hint="begin with a new file") from None
    if version != VERSION:
        raise DataError(f"expected a state of version {VERSION}, got version {version!r}", location=location)
    if hashlib.sha256(text.encode()).hexdigest() != read.get("sha256"):
        raise DataError("the state was changed after it was written", location=location, hint="begin with a new file")
    expected = config.model_dump(mode="json", exclude=CHANGEABLE)
    changed = [name for name in expected if expected[name] != body["config"].get(name)]
    if changed:
        raise DataError(
            f"the state belongs to a monitor with another configuration: {', '.join(changed)}",
            location=location,
            hint="a monitor cannot continue under another configuration: begin with a new file",
        )
    try:
        return restore_monitor(body, config), body["more"]
    except (ValidationError, KeyError):
        raise DataError(
            "the state of the monitor is damaged", location=location, hint="begin with a new file"
        ) from None


def restore_monitor(body: Mapping[str, Any], config: MonitorConfig) -> Monitor:
    """Restore the monitor that `monitor_to_dict` converted.

    Args:
        body: Result of `monitor_to_dict`.
        config: Configuration of the monitor.
    """
    state = MonitorState.model_validate(body)
    monitor = Monitor(config)
    if state.fields.values:
        monitor.compare(state.fields.values, [measure.comparisons for measure in state.measures])
    for name in FIELDS:
        setattr(monitor, name, getattr(state.fields, name))
    for measure, stored in zip(monitor.measures, state.measures, strict=True):
        measure.state, measure.wealth, measure.history = stored.state, stored.wealth, stored.history
    return monitor
