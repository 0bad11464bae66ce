"""The tables of the store."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()

streams = Table(
    "streams",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("digest", String(64), nullable=False),
    # The last entry of the log, and the state after it: one small row for everything that decides.
    Column("number", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("state", Text, nullable=False),
)

entries = Table(
    "entries",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)

checkpoints = Table(
    # The entries that say what the stream is, and its state: the first, and others from which a log can start.
    "checkpoints",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
)

answers = Table(
    # One row for every id that was ever used, so that asking again gives the same answer, and never another decision.
    "answers",
    metadata,
    Column("stream", String(200), primary_key=True),
    # Its hash: any text can be an id, and none is kept in the clear for longer than the log.
    Column("id", String(64), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("asked", String(64), nullable=False),
    # None: it is not kept any more.
    Column("answer", Text, nullable=True),
    Index("answers_by_number", "stream", "number", unique=True),
)

pictures = Table(
    # What was delivered, under the number of its admission in the stream's log.
    "pictures",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    # The end of its address, which nobody can guess.
    Column("id", String(64), nullable=False, unique=True),
    Column("at", Float(53), nullable=False),
    Column("media_type", String(100), nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("pictures_by_time", "at"),
)

replicas = Table(
    "replicas",
    metadata,
    Column("name", String(64), primary_key=True),
    # Counts up while it lives. Others watch it by their own steady clock: no two machines need to agree on the time.
    Column("beat", BigInteger, nullable=False),
)

versions = Table("versions", metadata, Column("version", BigInteger, primary_key=True, autoincrement=False))

Index("entries_by_time", entries.c.at)
