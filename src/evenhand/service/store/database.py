"""Connections to the store, SQLite or PostgreSQL, and read queries."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from evenhand.errors import MissingExtraError, StoreError
from evenhand.service.store import chain
from evenhand.service.store.tables import REVISION, checkpoints, entries, migrate_store, read_revision, streams

logger = logging.getLogger(__name__)

WAIT_SECONDS = 30.0
"""Seconds that a transaction waits for a lock."""

IDLE_SECONDS = 15.0
"""Seconds after which PostgreSQL ends the transaction of an idle process, because others wait for it."""

CONNECTION_OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""How soon a PostgreSQL that is not there any more is noticed, unless the address says otherwise."""


class Database:
    """Transactions on the store.

    **What durable means.** With ``durable=True`` a transaction that has ended survives a power cut. In SQLite
    (write-ahead log, ``synchronous=FULL``) the commit waits until the log is on the disk; in PostgreSQL
    (``synchronous_commit`` on) until the server's log is, and on its standbys if the server is told so. With
    ``durable=False`` the commit does not wait (``NORMAL``, ``synchronous_commit=off``): if the process is killed it
    survives all the same, but a power cut may take it.

    **Why a durable transaction makes those before it durable.** Both stores write one log, in the order of the
    commits, and bring it to the disk from its beginning up to the commit that waits. A transaction that has seen, or
    follows, one that did not wait lies after it in that log. So a power cut takes the end of the log: never a
    transaction without all that came after it, and never anything before a durable one. This holds whichever process,
    connection or replica wrote which of them, since a store has one log. (SQLite moves its log into the database file
    now and then, and begins a new one; before that it brings both to the disk.)

    Args:
        url: ``sqlite:///evenhand.db`` or ``postgresql://user@host/name``.
        make: whether a store that is not there is made, and an older one brought to this version; else it is opened as
            it is, or refused.
        wait_seconds: how long a transaction waits for another one that holds what it needs.

    Raises:
        StoreError: it cannot be reached, is not a store, or was made by a newer version.
        MissingExtraError: PostgreSQL's driver is not installed.
    """

    def __init__(self, url: str, *, make: bool = True, wait_seconds: float = WAIT_SECONDS) -> None:
        address = _parse_url(url)
        self.sqlite = address.get_backend_name() == "sqlite"
        self._where = address.render_as_string(hide_password=True)
        if self.sqlite:
            self._refuse_places(address, make)
        self._engine = _open_sqlite(address, wait_seconds) if self.sqlite else _open_postgres(address, wait_seconds)
        # What the driver itself raises while a connection is made or a transaction begun.
        driver = self._engine.dialect.dbapi
        assert driver is not None
        self._failures: tuple[type[Exception], ...] = (SQLAlchemyError, driver.Error)
        try:
            if make:
                with self.transaction() as connection:
                    migrate_store(connection)
            else:
                with self.reading() as connection:
                    self._same_version(connection)
            with self.reading() as connection:
                self._look_at_settings(connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[Connection]:
        """Begin a transaction, which is committed or rolled back as a whole.

        Args:
            durable: it survives a power cut when this ends; else only once a later, durable one has ended.

        Raises:
            StoreError: the store failed; if it failed while it committed, all of it may have happened all the same.
        """
        with self._check_connection(durable=durable) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read the store as it stands at one moment, while others go on writing.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._check_connection(reads=True) as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _check_connection(self, **options: bool) -> Iterator[Connection]:
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(**options)
                with connection.begin():
                    yield connection
        except self._failures as error:
            what, hint = _explain_error(error)
            raise StoreError(what, location=self._where, hint=hint) from error

    def _refuse_places(self, address: URL, make: bool) -> None:
        name = address.database
        if not name or name == ":memory:":
            raise StoreError("a store in memory keeps nothing", location=self._where, hint="sqlite:///evenhand.db")
        if name.startswith("file:"):
            return
        path = Path(name)
        if not path.parent.is_dir():
            raise StoreError(f"there is no folder {path.parent}", location=self._where, hint="make it first")
        if make and not all(os.access(place, os.W_OK) for place in (path.parent, path) if place.exists()):
            raise StoreError(
                "this user may not write there",
                location=self._where,
                hint="let it write the folder, or name another one",
            )
        if not make and not path.is_file():
            raise StoreError("there is no such file", location=self._where, hint="name the file of the service's store")

    def _same_version(self, connection: Connection) -> None:
        revision = read_revision(connection)
        if revision is None:
            raise StoreError("this is not a store of Evenhand's service", location=self._where)
        if revision != REVISION:
            raise StoreError(
                f"the store has revision {revision}, and not {REVISION}",
                location=self._where,
                hint="a service of this version brings it there when it starts",
            )

    def _look_at_settings(self, connection: Connection) -> None:
        if not self.sqlite:
            if connection.exec_driver_sql("SHOW fsync").scalar() == "off":
                logger.warning("PostgreSQL runs with fsync=off: a power cut takes decisions that were acknowledged")
            if connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar():
                raise StoreError("this PostgreSQL is a standby", location=self._where, hint="name the primary server")


def _parse_url(url: str) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            "this is not an address of a store", hint="sqlite:///evenhand.db, or postgresql://user@host/name"
        ) from None
    name = address.drivername
    if name in ("postgresql", "postgres"):
        return address.set(drivername="postgresql+psycopg")
    if name not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise StoreError(f"the store cannot be a {name}", hint="sqlite:///evenhand.db, or postgresql://user@host/name")
    return address


def _open_postgres(address: URL, wait_seconds: float) -> Engine:
    try:
        engine = create_engine(
            address,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={key: CONNECTION_OPTIONS[key] for key in CONNECTION_OPTIONS.keys() - address.query.keys()},
        )
    except ModuleNotFoundError:
        raise MissingExtraError("psycopg", extra="postgres", purpose="to keep the store in PostgreSQL") from None

    @event.listens_for(engine, "connect")
    def _configure_connection(connection: Any, _record: Any) -> None:
        limits = {
            "lock_timeout": wait_seconds,
            # A process that is stopped in the middle of a transaction must not stop all the others.
            "idle_in_transaction_session_timeout": IDLE_SECONDS,
        }
        with connection.cursor() as cursor:
            for name, seconds in limits.items():
                cursor.execute(f"SET {name} = {int(1000 * seconds)}")
            # Where the server's default is not to wait for its disk, durable transactions wait all the same.
            if cursor.execute("SHOW synchronous_commit").fetchone()[0] == "off":
                cursor.execute("SET synchronous_commit = on")
        connection.commit()

    @event.listens_for(engine, "begin")
    def _begin_explicitly(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("reads", False):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        elif not options.get("durable", True):
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")

    return engine


def _open_sqlite(address: URL, wait_seconds: float) -> Engine:
    engine = create_engine(
        address, hide_parameters=True, connect_args={"timeout": wait_seconds, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def _configure_connection(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        # Only macOS makes a difference: there, waiting for the disk alone does not wait for the disk's own memory.
        cursor.execute("PRAGMA fullfsync=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin_explicitly(connection: Connection) -> None:
        options = connection.get_execution_options()
        # FULL: what was committed survives a power cut. NORMAL: only a crash of the process.
        level = "FULL" if options.get("durable", True) else "NORMAL"
        cursor = connection.connection.cursor()
        cursor.execute(f"PRAGMA synchronous={level}")
        # Taking the write lock at once: two writers that both read first would refuse each other.
        cursor.execute("BEGIN" if options.get("reads", False) else "BEGIN IMMEDIATE")
        cursor.close()

    return engine


def _explain_error(error: Exception) -> tuple[str, str]:
    """Describe an error of the driver in one line, with a hint."""
    cause = getattr(error, "orig", None) or error
    said = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    if isinstance(error, IntegrityError):
        return (
            f"the store's tables contradict one another: {said}",
            "something else changed them; `evenhand replay --store URL` says what differs",
        )
    if "full" in said or "No space left" in said or "quota" in said:
        return f"the store's disk is full: {said}", "make room; the service goes on by itself"
    if "locked" in said or "lock timeout" in said:
        return f"the store is held by another process: {said}", "end whatever else writes to it; then ask again"
    if "not a database" in said or "malformed" in said:
        return f"the store failed: {said}", "name another file, or bring back a backup"
    if "connection failed" in said or "Connection refused" in said:
        return f"the store failed: {said}", "see that its server runs and lets this user in; then ask again"
    return f"the store failed: {said}", "see its log, and its disk; a request can then be asked again, with the same id"


# Reading the store: heads, states, and logs in pages, without holding anybody up who writes.


PAGE_ENTRIES = 1_000
"""Page size for reading a whole log."""


def read_entries_after(
    connection: Connection, stream: str, number: int, limit: int = PAGE_ENTRIES
) -> list[dict[str, Any]]:
    """Return the next entries of a log, as they are exported.

    Args:
        connection: see ``Database.reading``.
        stream: its name.
        number: of the entry after which to begin; -1 for the first one that is kept.
        limit: how many at most.
    """
    query = (
        select(entries)
        .where(
            entries.c.stream == stream,
            entries.c.number > number,
            entries.c.number >= first_kept_number(connection, stream),
        )
        .order_by(entries.c.number)
        .limit(limit)
    )
    rows = [dict(row) for row in connection.execute(query).mappings()]
    if rows and rows[0]["previous"] is None:
        last = select(entries.c.hash).where(entries.c.stream == stream, entries.c.number == rows[0]["number"] - 1)
        rows[0]["previous"] = connection.execute(last).scalar() or chain.GENESIS_HASH
    for before, row in pairwise(rows):
        # Where an entry is missing, a check of the numbers finds that first.
        row["previous"] = row["previous"] or before["hash"]
    return [chain.export_entry(row) for row in rows]


def first_kept_number(connection: Connection, stream: str) -> int:
    """The number of the entry that a log starts with: 0, or a checkpoint if those before it are not kept any more."""
    first = connection.execute(select(func.min(checkpoints.c.number)).where(checkpoints.c.stream == stream)).scalar()
    return int(first or 0)


def read_log(database: Database, stream: str, *, after: int = -1, page: int = PAGE_ENTRIES) -> Iterator[dict[str, Any]]:
    """Yield a whole log in pages, each read in its own transaction.

    Args:
        database: the store.
        stream: its name.
        after: the number of the entry after which to begin.
        page: entries that are in memory at once.

    Raises:
        StoreError: the store failed, or what comes next was deleted while this was read.
    """
    begun = False
    while True:
        with database.reading() as connection:
            entries_read = read_entries_after(connection, stream, after, page)
        if begun and entries_read and entries_read[0]["number"] != after + 1:
            raise StoreError(
                f"entries after {after} of {stream!r} were deleted while its log was read", hint="begin again"
            )
        begun = True
        yield from entries_read
        if len(entries_read) < page:
            return
        after = entries_read[-1]["number"]


def read_configurations(database: Database) -> list[dict[str, Any]]:
    """Return every configuration that a log in the store starts or goes on with.

    Raises:
        StoreError: the store failed.
    """
    query = select(entries.c.body).join(
        checkpoints, (checkpoints.c.stream == entries.c.stream) & (checkpoints.c.number == entries.c.number)
    )
    with database.reading() as connection:
        bodies = connection.execute(query).scalars().all()
    return [json.loads(body)["configuration"] for body in bodies]


def read_heads(connection: Connection) -> dict[str, tuple[int, str]]:
    """Read the number and the hash of each stream's last entry."""
    rows = connection.execute(select(streams.c.name, streams.c.number, streams.c.hash).order_by(streams.c.name))
    return {row.name: (row.number, row.hash) for row in rows}


def read_head_and_state(connection: Connection, stream: str) -> tuple[int, str, dict[str, Any]]:
    """Return the number and the hash of a stream's last entry, and the state after it; the stream must be there."""
    query = select(streams.c.number, streams.c.hash, streams.c.state).where(streams.c.name == stream)
    row = connection.execute(query).one()
    return row.number, row.hash, json.loads(row.state)


def read_state(connection: Connection, stream: str) -> dict[str, Any] | None:
    """Return the latest state of a stream, or None if the stream does not exist."""
    text = connection.execute(select(streams.c.state).where(streams.c.name == stream)).scalar()
    state: dict[str, Any] | None = None if text is None else json.loads(text)
    return state
