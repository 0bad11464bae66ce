"""Where a stream stands now, in numbers and in words."""

from __future__ import annotations

import json
from threading import Lock
from typing import Any

from sqlalchemy import Connection, select

from evenhand.errors import DecisionError, EvenhandError
from evenhand.genai.specification import Configuration
from evenhand.service.dashboard.rows import LABELS
from evenhand.service.dashboard.windows import KINDS, overview
from evenhand.service.machines import GuardMachine
from evenhand.service.rebuild import rebuilt
from evenhand.service.store import chain
from evenhand.service.store.reading import first_kept
from evenhand.service.store.tables import entries, streams

SPARK = 80
"""Points of a small curve."""


class Standing:
    """Says where streams stand; guards are built once from their logs and take up each state that is looked at."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._guards: dict[tuple[str, str], GuardMachine] = {}

    def of(self, connection: Connection, stream: str) -> dict[str, Any]:
        """Where a stream stands.

        Raises:
            DecisionError: there is no such stream.
        """
        row = connection.execute(select(streams).where(streams.c.name == stream, streams.c.kind.in_(KINDS))).first()
        if row is None:
            raise DecisionError(f"there is no stream {stream!r}", code="stream")
        about = {"name": row.name, "kind": row.kind, "digest": row.digest, "number": row.number}
        state = json.loads(row.state)
        if row.kind == "shield":
            return {**about, **self._shield(connection, stream, state)}
        return {**about, **self._guard(connection, stream, row.digest, state)}

    def _shield(self, connection: Connection, stream: str, state: dict[str, Any]) -> dict[str, Any]:
        configuration = _beginning(connection, stream)["configuration"]
        spark = overview(connection, stream, SPARK)
        return {
            "certificate": state["certificate"],
            "groups": configuration["groups"],
            "interventions": state["shield"]["interventions"],
            "spark": [[one["n"], one["shielded"], one["unshielded"]] for one in spark if "shielded" in one],
        }

    def _guard(self, connection: Connection, stream: str, digest: str, state: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            machine = self._guards.get((stream, digest))
            if machine is None:
                begun = _beginning(connection, stream)
                built = rebuilt("guard", digest, begun["configuration"])
                assert isinstance(built, GuardMachine)
                machine = self._guards[stream, digest] = built
            machine.load(state)
            enforcer = machine.enforcer
            try:
                words = enforcer.guarantee()
            except EvenhandError as error:
                words = str(error)
            left = enforcer.remaining()
            return {
                "mode": enforcer.mode,
                "open": len(state.get("open", ())),
                "guarantee": words,
                "broken": [{"specification": one.specification, "what": one.what, "reason": one.reason}
                           for one in enforcer.broken],
                "specifications": _specifications(enforcer.configuration, left, enforcer.counts),
            }  # fmt: skip


def _specifications(
    configuration: Configuration, left: dict[str, dict[str, int]], counts: dict[str, dict[str, int]]
) -> list[dict[str, Any]]:
    described = []
    for one in configuration.requirements:
        if one.repeated is None:
            continue
        lanes: list[dict[str, Any]] = [
            {"value": value, "deadline": deadline, "left": left[one.name][value]}
            for value, deadline in zip(one.labels, one.repeated, strict=True)
        ]
        shown = lanes
        if len(lanes) > LABELS:
            urgent = sorted(lanes, key=lambda lane: lane["left"])[:LABELS]
            shown = [lane for lane in lanes if lane in urgent]
        described.append(
            {
                "name": one.name,
                "condition": one.condition,
                "groups": list(one.groups),
                "lanes": shown,
                "values": len(lanes),
                "counts": counts[one.name],
            }
        )
    return described


def _beginning(connection: Connection, stream: str) -> dict[str, Any]:
    """What the first entry that is kept of a log says: what the stream is."""
    first = first_kept(connection, stream)
    query = select(entries).where(entries.c.stream == stream, entries.c.number == first)
    body: dict[str, Any] = chain.entry(dict(connection.execute(query).mappings().one()))["body"]
    return body
