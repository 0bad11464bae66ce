"""Connections to the store, SQLite or PostgreSQL, and read queries."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from evenhand.errors import MissingExtraError, StoreError
from evenhand.service.state_machines import GENESIS_HASH
from evenhand.service.store.tables import (
    REVISION,
    checkpoints,
    entries,
    migrate_store,
    read_revision,
    streams,
)

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
"""Default timeouts for detecting an unreachable PostgreSQL. The URL may override them."""

# FULL: a commit survives a power cut. NORMAL: it survives a crash of the process only. The write lock is acquired
# immediately, because two writers that both read first would block each other.
SQLITE_BEGINNINGS = {
    (True, False): ("PRAGMA synchronous=FULL", "BEGIN IMMEDIATE"),
    (False, False): ("PRAGMA synchronous=NORMAL", "BEGIN IMMEDIATE"),
    (True, True): ("BEGIN",),
}
POSTGRES_BEGINNINGS = {
    (True, False): (),
    (False, False): ("SET LOCAL synchronous_commit = off",),
    (True, True): ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",),
}
"""Statements that begin a transaction, by whether it is durable and whether it only reads."""

PAGE_ENTRIES = 1_000
"""Page size for reading a whole log."""

URL_HINT = "write sqlite:///evenhand.db, or postgresql://user@host/name"


class Database:
    """Transactions on the store.

    **Durability.** With ``durable=True``, a committed transaction survives a power cut. In SQLite (write-ahead log,
    ``synchronous=FULL``), the commit waits until the log is on the disk; in PostgreSQL (``synchronous_commit`` on),
    for the logs of the server and of its synchronous standbys, if there are any. With ``durable=False``, the
    commit does not wait (``NORMAL``, ``synchronous_commit=off``): the transaction survives the end of the process, but
    a power cut may lose it.

    **A durable transaction makes earlier transactions durable.** Both stores write one log in the order of the commits,
    and sync it from its beginning up to the waiting commit. A transaction that follows a non-durable one comes after it
    in this log. A power cut therefore loses the end of the log: never a transaction without all later ones, and never
    anything before a durable one. This holds across processes, connections and replicas, because a store has one log.
    (When SQLite moves its log into the database file, it syncs both before it begins a new log.)

    Args:
        url: ``sqlite:///evenhand.db`` or ``postgresql://user@host/name``.
        make: Whether to create a missing store and to migrate an older one. Otherwise, both are refused.
        wait_seconds: Time limit in seconds for a lock.

    Raises:
        StoreError: The store cannot be reached, is not a store, or was created by a newer version.
        MissingExtraError: The driver of PostgreSQL is not installed.
    """

    def __init__(self, url: str, *, make: bool = True, wait_seconds: float = WAIT_SECONDS) -> None:
        address = _parse_url(url)
        self.sqlite = address.get_backend_name() == "sqlite"
        self._location = address.render_as_string(hide_password=True)
        if self.sqlite:
            self._check_path(address, make)
        self._engine = _open_sqlite(address, wait_seconds) if self.sqlite else _open_postgres(address, wait_seconds)
        self._beginnings = SQLITE_BEGINNINGS if self.sqlite else POSTGRES_BEGINNINGS
        # The driver itself raises errors when it connects or begins a transaction.
        driver = self._engine.dialect.dbapi
        assert driver is not None
        self._failures: tuple[type[Exception], ...] = (SQLAlchemyError, driver.Error)
        try:
            if make:
                with self.transaction() as connection:
                    migrate_store(connection)
            with self.reading() as connection:
                if not make:
                    self._check_revision(connection)
                if not self.sqlite:
                    self._check_server(connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, *, durable: bool = True, reads: bool = False) -> Iterator[Connection]:
        """Begin a transaction, which is committed or rolled back as a whole.

        Args:
            durable: Whether it survives a power cut. Otherwise, it does once a later durable one is committed.
            reads: Whether it only reads.

        Raises:
            StoreError: The store failed. If it failed during the commit, the transaction may have been committed.
        """
        try:
            with self._engine.connect() as connection, connection.begin():
                for statement in self._beginnings[durable, reads]:
                    connection.exec_driver_sql(statement)
                yield connection
        except self._failures as error:
            message, hint = _explain_error(error)
            raise StoreError(message, location=self._location, hint=hint) from error

    def reading(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that reads one snapshot of the store, and blocks no writers.

        Raises:
            StoreError: The store cannot be read.
        """
        return self.transaction(reads=True)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _check_path(self, address: URL, make: bool) -> None:
        name = address.database
        if not name or name == ":memory:":
            raise self._error("expected a store on disk, got one in memory", "write sqlite:///evenhand.db")
        if name.startswith("file:"):
            return
        path = Path(name)
        if not path.parent.is_dir():
            raise self._error(f"there is no folder {path.parent}", "create it first")
        if make and not all(os.access(place, os.W_OK) for place in (path.parent, path) if place.exists()):
            raise self._error("this user cannot write there", "grant write access to the folder, or use another one")
        if not make and not path.is_file():
            raise self._error("the file does not exist", "name the file of the service's store")

    def _check_revision(self, connection: Connection) -> None:
        revision = read_revision(connection)
        if revision is None:
            raise self._error("this is not a store of Evenhand's service")
        if revision != REVISION:
            hint = "start a service of this version, which migrates the store"
            raise self._error(f"expected a store of revision {REVISION}, got one of revision {revision}", hint)

    def _check_server(self, connection: Connection) -> None:
        if connection.exec_driver_sql("SHOW fsync").scalar() == "off":
            logger.warning("PostgreSQL runs with fsync=off: a power cut loses acknowledged decisions")
        if connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar():
            raise self._error("this PostgreSQL is a standby", "name the primary server")

    def _error(self, message: str, hint: str | None = None) -> StoreError:
        return StoreError(message, location=self._location, hint=hint)


def _parse_url(url: str) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError("expected the URL of a store", hint=URL_HINT) from None
    name = address.drivername
    if name in ("postgresql", "postgres"):
        return address.set(drivername="postgresql+psycopg")
    if name not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise StoreError(f"expected a store in SQLite or PostgreSQL, got {name}", hint=URL_HINT)
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
            # A process that is suspended in a transaction must not block all others.
            "idle_in_transaction_session_timeout": IDLE_SECONDS,
        }
        with connection.cursor() as cursor:
            for name, seconds in limits.items():
                cursor.execute(f"SET {name} = {int(1000 * seconds)}")
            # The default of the server must not disable the wait for its disk.
            if cursor.execute("SHOW synchronous_commit").fetchone()[0] == "off":
                cursor.execute("SET synchronous_commit = on")
        connection.commit()

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
        # Only macOS needs this: there, a sync of the disk does not include the cache of the disk.
        cursor.execute("PRAGMA fullfsync=ON")
        cursor.close()

    return engine


def _explain_error(error: Exception) -> tuple[str, str]:
    """Describe an error of the driver in one line, with a hint."""
    cause = getattr(error, "orig", None) or error
    message = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    if isinstance(error, IntegrityError):
        return (
            f"the store's tables contradict each other: {message}",
            "run `evenhand replay --store URL` to see what another program changed",
        )
    if "full" in message or "No space left" in message or "quota" in message:
        return f"the store's disk is full: {message}", "free some space; the service then continues by itself"
    if "locked" in message or "lock timeout" in message:
        return f"the store is held by another process: {message}", "end the other process, and retry"
    if "not a database" in message or "malformed" in message:
        return f"the store failed: {message}", "name another file, or restore a backup"
    if "connection failed" in message or "Connection refused" in message:
        return f"the store failed: {message}", "check that its server runs and accepts this user, and retry"
    return (
        f"the store failed: {message}",
        "check its log and disk; then repeat the request with the same id",
    )


def read_entries_after(
    connection: Connection, stream: str, number: int, limit: int = PAGE_ENTRIES
) -> list[dict[str, Any]]:
    """Return the next entries of a log in their export format.

    Args:
        connection: Connection from ``Database.reading``.
        stream: Name of the stream.
        number: Number of the entry before the first one. -1 starts with the first entry in the store.
        limit: Maximum number of entries.
    """
    query = select(entries).where(
        entries.c.stream == stream,
        entries.c.number > number,
        entries.c.number >= first_kept_number(connection, stream),
    )
    rows = [dict(row) for row in connection.execute(query.order_by(entries.c.number).limit(limit)).mappings()]
    if rows and rows[0]["previous"] is None:
        hash_query = select(entries.c.hash).where(entries.c.stream == stream, entries.c.number == rows[0]["number"] - 1)
        rows[0]["previous"] = connection.execute(hash_query).scalar() or GENESIS_HASH
    for previous_row, row in pairwise(rows):
        # A check of the numbers detects missing entries first.
        row["previous"] = row["previous"] or previous_row["hash"]
    return [_export_entry(row) for row in rows]


def _export_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry in its export format. A body that is not valid JSON is exported as text."""
    try:
        body = json.loads(row["body"])
    except ValueError:
        body = row["body"]
    fields = ("stream", "number", "at", "body", "previous", "hash")
    return {name: body if name == "body" else row[name] for name in fields}


def first_kept_number(connection: Connection, stream: str) -> int:
    """Return the number of the first entry of a log: 0, or that of a checkpoint if earlier entries were deleted."""
    number = connection.execute(select(func.min(checkpoints.c.number)).where(checkpoints.c.stream == stream)).scalar()
    return int(number or 0)


def read_log(database: Database, stream: str, *, after: int = -1, page: int = PAGE_ENTRIES) -> Iterator[dict[str, Any]]:
    """Yield a whole log in pages, each read in its own transaction.

    Args:
        database: Store.
        stream: Name of the stream.
        after: Number of the entry before the first one.
        page: Number of entries in memory.

    Raises:
        StoreError: The store failed, or the next entries were deleted in the meantime.
    """
    is_first = True
    while True:
        with database.reading() as connection:
            batch = read_entries_after(connection, stream, after, page)
        if not is_first and batch and batch[0]["number"] != after + 1:
            raise StoreError(
                f"entries after {after} of {stream!r} were deleted while its log was being read", hint="begin again"
            )
        is_first = False
        yield from batch
        if len(batch) < page:
            return
        after = batch[-1]["number"]


def read_configurations(database: Database) -> list[dict[str, Any]]:
    """Return all configurations in the logs of a store.

    Raises:
        StoreError: The store failed.
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


def read_state(connection: Connection, stream: str) -> dict[str, Any] | None:
    """Return the latest state of a stream, or None if the stream does not exist."""
    text = connection.execute(select(streams.c.state).where(streams.c.name == stream)).scalar()
    state: dict[str, Any] | None = None if text is None else json.loads(text)
    return state
