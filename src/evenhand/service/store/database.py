"""A connection to the store: SQLite in a file, or PostgreSQL."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from evenhand.errors import MissingExtraError, StoreError
from evenhand.service.store.migrations import VERSION, prepare, version_of

logger = logging.getLogger(__name__)

WAIT_SECONDS = 30.0
"""How long a transaction waits for another one that holds what it needs."""

IDLE_SECONDS = 15.0
"""PostgreSQL ends a transaction whose process does nothing for so long: it was stopped, and others wait for it."""

LINK: dict[str, Any] = {
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
        StoreError: it cannot be reached, is none, or was made by a newer version.
        MissingExtraError: PostgreSQL's driver is not installed.
    """

    def __init__(self, url: str, *, make: bool = True, wait_seconds: float = WAIT_SECONDS) -> None:
        address = _address(url)
        self.sqlite = address.get_backend_name() == "sqlite"
        self._where = address.render_as_string(hide_password=True)
        if self.sqlite:
            self._refuse_places(address, make)
        self._engine = _sqlite(address, wait_seconds) if self.sqlite else _postgres(address, wait_seconds)
        # What the driver itself raises while a connection is made or a transaction begun.
        driver = self._engine.dialect.dbapi
        assert driver is not None
        self._failures: tuple[type[Exception], ...] = (SQLAlchemyError, driver.Error)
        try:
            if make:
                with self.transaction() as connection:
                    prepare(connection)
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
        """All of it happened when this ends, or nothing of it.

        Args:
            durable: it survives a power cut when this ends; else only once a later, durable one has ended.

        Raises:
            StoreError: the store failed; if it failed while it committed, all of it may have happened all the same.
        """
        with self._connected(durable=durable) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The store as it stands at one moment, while others go on writing.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._connected(reads=True) as connection:
            yield connection

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def _connected(self, **options: bool) -> Iterator[Connection]:
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(**options)
                with connection.begin():
                    yield connection
        except self._failures as error:
            what, mend = _explained(error)
            raise StoreError(what, where=self._where, mend=mend) from error

    def _refuse_places(self, address: URL, make: bool) -> None:
        name = address.database
        if not name or name == ":memory:":
            raise StoreError("a store in memory keeps nothing", where=self._where, mend="sqlite:///evenhand.db")
        if name.startswith("file:"):
            return
        path = Path(name)
        if not path.parent.is_dir():
            raise StoreError(f"there is no folder {path.parent}", where=self._where, mend="make it first")
        if make and not all(os.access(one, os.W_OK) for one in (path.parent, path) if one.exists()):
            raise StoreError(
                "this user may not write there", where=self._where, mend="let it write the folder, or name another one"
            )
        if not make and not path.is_file():
            raise StoreError("there is no such file", where=self._where, mend="name the file of the service's store")

    def _same_version(self, connection: Connection) -> None:
        if not inspect(connection).has_table("versions"):
            raise StoreError("this is no store of Evenhand's service", where=self._where)
        if version_of(connection) != VERSION:
            raise StoreError(
                f"the store has version {version_of(connection)}, and not {VERSION}", where=self._where,
                mend="a service of this version brings it there when it starts",
            )  # fmt: skip

    def _look_at_settings(self, connection: Connection) -> None:
        if not self.sqlite:
            if connection.exec_driver_sql("SHOW fsync").scalar() == "off":
                logger.warning("PostgreSQL runs with fsync=off: a power cut takes decisions that were acknowledged")
            if connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar():
                raise StoreError("this PostgreSQL is a standby", where=self._where, mend="name the primary server")


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            "this is no address of a store", mend="sqlite:///evenhand.db, or postgresql://user@host/name"
        ) from None
    name = address.drivername
    if name in ("postgresql", "postgres"):
        return address.set(drivername="postgresql+psycopg")
    if name not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise StoreError(f"the store cannot be a {name}", mend="sqlite:///evenhand.db, or postgresql://user@host/name")
    return address


def _postgres(address: URL, wait_seconds: float) -> Engine:
    try:
        engine = create_engine(
            address,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={key: LINK[key] for key in LINK.keys() - address.query.keys()},
        )
    except ModuleNotFoundError:
        raise MissingExtraError("psycopg", extra="postgres", purpose="to keep the store in PostgreSQL") from None

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
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
    def _begun(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("reads", False):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        elif not options.get("durable", True):
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")

    return engine


def _sqlite(address: URL, wait_seconds: float) -> Engine:
    engine = create_engine(
        address, hide_parameters=True, connect_args={"timeout": wait_seconds, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        # Only macOS makes a difference: there, waiting for the disk alone does not wait for the disk's own memory.
        cursor.execute("PRAGMA fullfsync=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        options = connection.get_execution_options()
        # FULL: what was committed survives a power cut. NORMAL: only a crash of the process.
        level = "FULL" if options.get("durable", True) else "NORMAL"
        cursor = connection.connection.cursor()
        cursor.execute(f"PRAGMA synchronous={level}")
        # Taking the write lock at once: two writers that both read first would refuse each other.
        cursor.execute("BEGIN" if options.get("reads", False) else "BEGIN IMMEDIATE")
        cursor.close()

    return engine


def _explained(error: Exception) -> tuple[str, str]:
    """What went wrong in one line, and what can be done."""
    cause = getattr(error, "orig", None) or error
    said = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    if "full" in said or "No space left" in said or "quota" in said:
        return f"the store's disk is full: {said}", "make room; the service goes on by itself"
    if "locked" in said or "lock timeout" in said:
        return f"the store is held by another process: {said}", "end whatever else writes to it; then ask again"
    if "not a database" in said or "malformed" in said:
        return f"the store failed: {said}", "name another file, or bring back a backup"
    if "connection failed" in said or "Connection refused" in said:
        return f"the store failed: {said}", "see that its server runs and lets this user in; then ask again"
    return f"the store failed: {said}", "see its log, and its disk; a request can then be asked again, with the same id"
