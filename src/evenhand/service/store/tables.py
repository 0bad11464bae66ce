"""Tables of the store. The folder `migrations` creates and migrates them."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
    text,
)

from evenhand.errors import MissingExtraError, StoreError

metadata = MetaData()

streams = Table(
    "streams",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("digest", String(64), nullable=False),
    # The last entry of the log.
    Column("number", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("state", Text, nullable=False),
    # The entry after which the state was stored: the last one, except for machines with a large state.
    Column("state_number", BigInteger, nullable=False),
)

entries = Table(
    "entries",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    # Whether the entry is more than a followed recommendation, for the filter of the dashboard.
    Column("marked", Boolean, nullable=False),
    Column("body", Text, nullable=False),
    # Set only for entries that a log can start with. For others, it is the hash of the previous entry.
    Column("previous", String(64), nullable=True),
    Column("hash", String(64), nullable=False),
)

checkpoints = Table(
    # The entries with configuration and state, from which a log can start.
    "checkpoints",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
)

answers = Table(
    # One row for every ID that was ever used, so that a repeated request gets the same answer, and no second decision.
    # Request and answer are in the entry. After the entry is deleted, the ID remains used.
    "answers",
    metadata,
    Column("stream", String(200), primary_key=True),
    # Hash of the ID, which may be any text and is not stored in plain text for longer than the log.
    Column("id", String(64), primary_key=True),
    Column("number", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

pictures = Table(
    # Delivered pictures, by the number of the entry of their admission.
    "pictures",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("media_type", String(100), nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("pictures_by_time", "at"),
)

replicas = Table(
    "replicas",
    metadata,
    Column("name", String(64), primary_key=True),
    # Incremented while the replica runs. Other replicas observe it with their own monotonic clocks, so clocks
    # need not be synchronised.
    Column("beat", BigInteger, nullable=False),
)

revisions = Table(
    # Alembic's own.
    "alembic_version",
    metadata,
    Column("version_num", String(32), primary_key=True),
)

Index("entries_by_stream_and_time", entries.c.stream, entries.c.at)

Index(
    "entries_marked",
    entries.c.stream,
    entries.c.number,
    sqlite_where=text("marked = 1"),
    postgresql_where=entries.c.marked,
)

STREAM_TABLES = (streams.c.name, entries.c.stream, checkpoints.c.stream, answers.c.stream, pictures.c.stream)
"""The columns that name a stream."""


MIGRATIONS = Path(__file__).parent / "migrations"
"""Folder of Alembic's environment."""

REVISION = "0001"
"""Revision of the tables above: the last one in the folder."""

MIGRATION_LOCK = 7_253_869_114
"""Number of the advisory lock that is held while PostgreSQL's tables are created or migrated."""


def migrate_store(connection: Connection) -> None:
    """Create the tables of an empty store, or migrate an older store, in one transaction.

    Raises:
        StoreError: the tables are from a newer version of Evenhand.
        MissingExtraError: Alembic is not installed.
    """
    lock_migrations(connection)
    if read_revision(connection) == REVISION:
        # This write fails immediately if permissions are missing.
        connection.execute(revisions.update().values(version_num=REVISION))
        return
    try:
        from alembic import command
        from alembic.config import Config
    except ModuleNotFoundError:
        raise MissingExtraError("alembic", extra="serve", purpose="to create or migrate a store") from None
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def read_revision(connection: Connection) -> str | None:
    """Return the revision of a store's tables; None if it has none.

    Raises:
        StoreError: the tables are from a newer version of Evenhand.
    """
    if not inspect(connection).has_table(revisions.name):
        return None
    revision: str = connection.execute(select(revisions.c.version_num)).scalar_one()
    if revision > REVISION:
        raise StoreError(
            f"expected a store of revision {REVISION} or older, got one of revision {revision}",
            hint="use the version of Evenhand that created it, or a newer one",
        )
    return revision


def lock_migrations(connection: Connection) -> None:
    """Keep other processes from changing tables until this transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": MIGRATION_LOCK})
