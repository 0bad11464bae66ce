"""Status of a stream, and its rows by time or by search."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from evenhand.errors import DecisionError, EvenhandError
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.service.dashboard.rows import MAX_LABELS, DashboardRow, LogEntryMapping, RowFilter, entry_to_row
from evenhand.service.rebuilding import rebuild_machine
from evenhand.service.state_machines import GuardMachine
from evenhand.service.store.database import Database
from evenhand.service.store.tables import checkpoints, entries, streams
from evenhand.shields.runtime.certificate import ShieldCertificate

STREAM_KINDS = ("shield", "guard")
"""Kinds of streams on the dashboard."""

MAX_WINDOW_ROWS = 10_000
"""Maximum number of rows of one stream on a page."""

MAX_SCANNED_ENTRIES = 20_000
"""Maximum number of entries that one search reads."""

PIECE_ENTRIES = 1_000
"""Page size for reading entries."""

MAX_NEW_ROWS = 2_000
"""Maximum number of new rows of one stream in a response. If there are more, the page reloads."""


ENTRY_QUERY = select(entries.c.number, entries.c.at, entries.c.body)
"""Query of entries without their hashes."""


def list_streams(connection: Connection) -> list[dict[str, Any]]:
    """List every shield and guard: name, kind, digest, number and time of its last entry, number of kept entries."""
    last_entry = (entries.c.stream == streams.c.name) & (entries.c.number == streams.c.number)
    columns = (streams.c.name, streams.c.kind, streams.c.digest, streams.c.number, entries.c.at)
    query = select(*columns).outerjoin(entries, last_entry).where(streams.c.kind.in_(STREAM_KINDS))
    rows = connection.execute(query.order_by(streams.c.kind.desc(), streams.c.name))
    return [row._asdict() for row in rows]


def entries_to_rows(connection: Connection, stream: str, log_entries: Sequence[LogEntryMapping]) -> list[DashboardRow]:
    """Convert entries to rows. Outcomes of a guard include the data of their admissions."""
    admissions = {
        number for entry in log_entries if (number := entry["body"].get("input", {}).get("admission")) is not None
    }
    admitted = {entry["number"]: entry_to_row(entry) for entry in log_entries if entry["number"] in admissions}
    missing = sorted(admissions - admitted.keys())
    for start in range(0, len(missing), PIECE_ENTRIES):
        query = ENTRY_QUERY.where(
            entries.c.stream == stream, entries.c.number.in_(missing[start : start + PIECE_ENTRIES])
        )
        admitted.update((entry["number"], entry_to_row(entry)) for entry in _read_entries(connection, query))
    return [entry_to_row(entry, admitted) for entry in log_entries]


def rows_between(connection: Connection, stream: str, after: int, until: int) -> list[DashboardRow]:
    """Return the rows of the entries after one number, up to another."""
    query = ENTRY_QUERY.where(entries.c.stream == stream, entries.c.number > after, entries.c.number <= until)
    return entries_to_rows(connection, stream, _read_entries(connection, query.order_by(entries.c.number)))


def read_news(connection: Connection, positions: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the new rows of every stream.

    Args:
        connection: Connection to the store.
        positions: Number of the last entry on the page, by stream. Other streams start with their first entry.

    Returns:
        For each stream with new entries, its name (``stream``), the ``number`` of its last entry, the ``rows``, and
        whether the page must be loaded again instead, because there are too many rows or fewer entries than before
        (``gap``).
    """
    news = []
    heads = select(streams.c.name, streams.c.number).where(streams.c.kind.in_(STREAM_KINDS))
    for stream, number in connection.execute(heads).all():
        position = positions.get(stream, -1)
        if number != position:
            gap = not 0 < number - position <= MAX_NEW_ROWS
            rows = [] if gap else rows_between(connection, stream, position, number)
            news.append({"stream": stream, "number": number, "gap": gap, "rows": rows})
    return news


def parse_positions(text: str) -> dict[str, int]:
    """Parse positions such as ``loans=120,studio=8``. Invalid parts are skipped."""
    positions = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        if name and number.isascii() and number.isdigit() and len(number) < 19:
            positions[name] = int(number)
    return positions


def latest_rows(
    connection: Connection, stream: str, criteria: RowFilter, limit: int = MAX_WINDOW_ROWS
) -> dict[str, Any]:
    """Return the latest rows of a period for charts, oldest first.

    Returns:
        ``rows``, the ``total`` number of entries in the period, and the ``number`` of the last entry of the log.
    """
    limit = min(limit, MAX_WINDOW_ROWS)
    where = _time_conditions(stream, criteria)
    total = connection.execute(select(func.count()).select_from(entries).where(*where)).scalar_one()
    number = connection.execute(select(streams.c.number).where(streams.c.name == stream)).scalar_one()
    query = ENTRY_QUERY.where(*where).order_by(entries.c.number.desc()).limit(limit)
    log_entries = _read_entries(connection, query)[::-1]
    return {"rows": _visible_rows(entries_to_rows(connection, stream, log_entries)), "total": total, "number": number}


def sample_rows(connection: Connection, stream: str, points: int) -> list[DashboardRow]:
    """Return a number of rows, evenly spread over the log."""
    first, last = connection.execute(
        select(func.min(entries.c.number), func.max(entries.c.number)).where(
            entries.c.stream == stream, entries.c.number > 0
        )
    ).one()
    if first is None:
        return []
    n = min(points, last - first + 1)
    numbers = sorted({first + (last - first) * i // max(1, n - 1) for i in range(n)})
    query = ENTRY_QUERY.where(entries.c.stream == stream, entries.c.number.in_(numbers)).order_by(entries.c.number)
    return [entry_to_row(entry) for entry in _read_entries(connection, query)]


def search_rows(
    connection: Connection,
    stream: str,
    kind: str,
    criteria: RowFilter,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = 100,
) -> dict[str, Any]:
    """Return matching rows, newest first.

    Args:
        connection: Connection to the store.
        stream, kind: Name and kind of the stream.
        criteria: Filter of the rows.
        before, after: Exclusive bounds of the numbers of entries.
        limit: Maximum number of rows.

    Returns:
        ``rows``, the number of the oldest entry that was read (``reached``), whether there are older ones (``more``),
        and the ``number`` of the last entry of the log.
    """
    rows: list[DashboardRow] = []
    scanned, reached = 0, before
    number = connection.execute(select(streams.c.number).where(streams.c.name == stream)).scalar_one()
    # After the maximum number of entries, ``more`` tells the caller to continue from ``reached``.
    while len(rows) < limit and scanned < MAX_SCANNED_ENTRIES:
        query = ENTRY_QUERY.where(*_time_conditions(stream, criteria))
        if kind == "shield" and criteria.marked:
            # The database uses an index to find rare interventions.
            query = query.where(entries.c.marked)
        if reached is not None:
            query = query.where(entries.c.number < reached)
        if after is not None:
            query = query.where(entries.c.number > after)
        piece = _read_entries(connection, query.order_by(entries.c.number.desc()).limit(PIECE_ENTRIES))
        for row in _visible_rows(entries_to_rows(connection, stream, piece)):
            reached = row["n"]
            if criteria.matches_row(row):
                rows.append(row)
                if len(rows) == limit:
                    return {"rows": rows, "reached": reached, "more": True, "number": number}
        scanned += len(piece)
        if piece:
            reached = piece[-1]["number"]
        if len(piece) < PIECE_ENTRIES:
            return {"rows": rows, "reached": reached, "more": False, "number": number}
    return {"rows": rows, "reached": reached, "more": True, "number": number}


def search_all_rows(database: Database, stream: str, kind: str, criteria: RowFilter) -> Iterator[DashboardRow]:
    """Yield all matching rows, newest first, reading one page at a time."""
    before: int | None = None
    while True:
        with database.reading() as connection:
            part = search_rows(connection, stream, kind, criteria, before=before, limit=PIECE_ENTRIES)
        yield from part["rows"]
        if not part["more"]:
            return
        before = part["reached"]


def _read_entries(connection: Connection, query: Select[Any]) -> list[LogEntryMapping]:
    return [{"number": number, "at": at, "body": json.loads(body)} for number, at, body in connection.execute(query)]


def _time_conditions(stream: str, criteria: RowFilter) -> list[ColumnElement[bool]]:
    where = [entries.c.stream == stream, entries.c.number > 0]
    if criteria.since is not None:
        where.append(entries.c.at >= criteria.since)
    if criteria.until is not None:
        where.append(entries.c.at < criteria.until)
    return where


def _visible_rows(rows: list[DashboardRow]) -> list[DashboardRow]:
    """Leave out checkpoints, and admissions, which are shown with their outcomes."""
    return [row for row in rows if row["op"] not in ("admit", "checkpoint")]


SPARKLINE_POINTS = 80
"""Number of points of a sparkline."""


class StreamStatus:
    """Current state of streams. The machine of each guard is built once, and loads the states."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._guards: dict[tuple[str, str], GuardMachine] = {}

    def of(self, connection: Connection, stream: str) -> dict[str, Any]:
        """Return the current state of a stream.

        Raises:
            DecisionError: There is no such stream.
        """
        row = connection.execute(
            select(streams).where(streams.c.name == stream, streams.c.kind.in_(STREAM_KINDS))
        ).first()
        if row is None:
            raise DecisionError(f"there is no stream {stream!r}", code="stream")
        about = {"name": row.name, "kind": row.kind, "digest": row.digest, "number": row.number}
        state = json.loads(row.state)
        if row.kind == "shield":
            return {**about, **self._shield(connection, stream, state)}
        return {**about, **self._guard(connection, stream, row.digest, state)}

    def _shield(self, connection: Connection, stream: str, state: dict[str, Any]) -> dict[str, Any]:
        configuration = _configuration(connection, stream, state)
        spark = sample_rows(connection, stream, SPARKLINE_POINTS)
        return {
            "certificate": state["certificate"],
            "guarantee": ShieldCertificate.describe(state["certificate"]),
            "groups": configuration["groups"],
            "interventions": state["shield"]["interventions"],
            "spark": [[row["n"], row["shielded"], row["unshielded"]] for row in spark if "shielded" in row],
        }

    def _guard(self, connection: Connection, stream: str, digest: str, state: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            machine = self._guards.get((stream, digest))
            if machine is None:
                built = rebuild_machine("guard", digest, _configuration(connection, stream, state))
                assert isinstance(built, GuardMachine)
                machine = self._guards[stream, digest] = built
            machine.load(state)
            enforcer = machine.enforcer
            try:
                words = enforcer.guarantee()
            except EvenhandError as error:
                words = str(error)
            left = enforcer.items_until_due()
            return {
                "mode": enforcer.mode,
                "open": len(state.get("open", ())),
                "guarantee": words,
                "broken": [
                    {"specification": assumption.specification, "what": assumption.what, "reason": assumption.reason}
                    for assumption in enforcer.broken_assumptions
                ],
                "specifications": _specification_rows(enforcer.configuration, left, enforcer.counts),
            }


def _specification_rows(
    configuration: GenerationConfig, left: dict[str, dict[str, int]], counts: dict[str, dict[str, int]]
) -> list[dict[str, Any]]:
    described = []
    for specification in configuration.requirements:
        if specification.repeated is None:
            continue
        lanes: list[dict[str, Any]] = [
            {"value": value, "deadline": deadline, "left": left[specification.name][value]}
            for value, deadline in zip(specification.labels, specification.repeated, strict=True)
        ]
        visible_lanes = lanes
        if len(lanes) > MAX_LABELS:
            urgent = sorted(lanes, key=lambda lane: lane["left"])[:MAX_LABELS]
            visible_lanes = [lane for lane in lanes if lane in urgent]
        described.append(
            {
                "name": specification.name,
                "condition": specification.condition,
                "groups": list(specification.groups),
                "lanes": visible_lanes,
                "values": len(lanes),
                "counts": counts[specification.name],
            }
        )
    return described


def _configuration(connection: Connection, stream: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the current configuration, from the last checkpoint."""
    number = select(func.max(checkpoints.c.number)).where(checkpoints.c.stream == stream).scalar_subquery()
    query = select(entries.c.body).where(entries.c.stream == stream, entries.c.number == number)
    configuration: Mapping[str, Any] = json.loads(connection.execute(query).scalar_one())["configuration"]
    return configuration
