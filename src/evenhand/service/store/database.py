"""A connection to the store: SQLite in a file, or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, select
from sqlalchemy.exc import SQLAlchemyError

from evenhand.errors import StoreError
from evenhand.service.store.tables import metadata, versions

VERSION = 1
"""Of the tables."""


class Database:
    """Transactions on the store.

    Args:
        url: ``sqlite:///evenhand.db`` or ``postgresql+psycopg://user@host/name``.

    Raises:
        StoreError: it cannot be reached, or was made by a newer version.
    """

    def __init__(self, url: str) -> None:
        self.sqlite = url.startswith("sqlite")
        self._engine = _engine(url, self.sqlite)
        self._prepare()

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[Connection]:
        """All of it happened when this ends, or nothing of it.

        Args:
            durable: it survives a power cut when this ends; else only once a later, durable one has ended.

        Raises:
            StoreError: the store failed; if it failed while it committed, all of it may have happened all the same.
        """
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(durable=durable)
                with connection.begin():
                    yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"the store failed: {_first_line(error)}", mend="see its log, and its disk") from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The store as it stands at one moment, while others go on writing.

        Raises:
            StoreError: the store cannot be read.
        """
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(reads=True)
                with connection.begin():
                    yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"the store failed: {_first_line(error)}", mend="see its log, and its disk") from error

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def _prepare(self) -> None:
        with self.transaction() as connection:
            metadata.create_all(connection)
            found = connection.execute(select(versions.c.version)).scalar()
            if found is None:
                connection.execute(insert(versions).values(version=VERSION))
            elif found > VERSION:
                raise StoreError(f"the store has version {found}, and this is version {VERSION}")


def _engine(url: str, sqlite: bool) -> Engine:
    if not sqlite:
        engine = create_engine(url, pool_pre_ping=True)

        @event.listens_for(engine, "begin")
        def _started(connection: Connection) -> None:
            if connection.get_execution_options().get("reads", False):
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            elif not connection.get_execution_options().get("durable", True):
                connection.exec_driver_sql("SET LOCAL synchronous_commit = off")

        return engine
    engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # FULL: what was committed survives a power cut. NORMAL: only a crash of the process.
        level = "FULL" if connection.get_execution_options().get("durable", True) else "NORMAL"
        cursor = connection.connection.cursor()
        cursor.execute(f"PRAGMA synchronous={level}")
        # Taking the write lock at once: two writers that both read first would refuse each other.
        reads = connection.get_execution_options().get("reads", False)
        cursor.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
        cursor.close()

    return engine


def _first_line(error: SQLAlchemyError) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
