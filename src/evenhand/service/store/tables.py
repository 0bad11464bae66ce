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

answers = Table(
    # One row for every id that was ever used, so that asking again gives the same answer, and never another decision.
    "answers",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("id", String(200), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("asked", String(64), nullable=False),
    Column("answer", Text, nullable=False),
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
)

replicas = Table(
    "replicas",
    metadata,
    Column("name", String(64), primary_key=True),
    # Counts up while it lives. Others watch it by their own steady clock: no two machines need to agree on the time.
    Column("beat", BigInteger, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("scopes", Text, nullable=False),
    Column("made", Float(53), nullable=False),
    Column("expires", Float(53), nullable=True),
    Column("revoked", Float(53), nullable=True),
)

versions = Table("versions", metadata, Column("version", BigInteger, primary_key=True, autoincrement=False))

Index("entries_by_time", entries.c.at)
