"""Monitors are streams with a log of their own; a state may be of an entry before the last of its stream."""

from __future__ import annotations

import json
import time
from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Float, LargeBinary, MetaData, String, Table, Text, insert, select

from evenhand.monitoring import read_monitor_config
from evenhand.service.monitor_machine import MonitorMachine
from evenhand.service.store.chain import GENESIS_HASH, canonical_json, hash_entry
from evenhand.service.store.packing import pack_text

revision = "0007"
down_revision = "0006"

NOW = MetaData()
MONITORS = Table("monitors", NOW, Column("name", String), Column("told", BigInteger), Column("state", LargeBinary))
STREAMS = Table(
    "streams", NOW, Column("name", String), Column("kind", String), Column("digest", String),
    Column("number", BigInteger), Column("hash", String), Column("state", Text), Column("state_number", BigInteger),
)  # fmt: skip
ENTRIES = Table(
    "entries", NOW, Column("stream", String), Column("number", BigInteger), Column("at", Float(53)),
    Column("marked", Boolean), Column("body", LargeBinary),
    Column("previous", LargeBinary), Column("hash", LargeBinary),
)  # fmt: skip
CHECKPOINTS = Table("checkpoints", NOW, Column("stream", String), Column("number", BigInteger), Column("at", Float(53)))


def upgrade() -> None:
    """Add the column, and begin the log of every monitor at where it stands."""
    with op.batch_alter_table("streams") as table:
        table.add_column(Column("state_number", BigInteger, nullable=True))
    op.execute("UPDATE streams SET state_number = number")
    with op.batch_alter_table("streams") as table:
        table.alter_column("state_number", nullable=False)
    connection = op.get_bind()
    for name, told, state in connection.execute(select(MONITORS)).all():
        body = json.loads(state)["body"]
        machine = MonitorMachine(read_monitor_config(body.pop("config")))
        position = body.pop("more").get("position", -1)
        _begin(name, machine, {"monitor": body, "position": position, "posted": told})
    op.drop_table("monitors")
    op.execute("UPDATE versions SET version = 7")


def _begin(name: str, machine: MonitorMachine, state: dict[str, Any]) -> None:
    """Write a checkpoint, and the row of the stream: what was before it is not known."""
    kind, digest, at = machine.kind, machine.digest, time.time()
    said = {"kind": kind, "digest": digest, "configuration": machine.configuration, "state": state}
    body = canonical_json(said)
    found = hash_entry(GENESIS_HASH, name, 1, at, body)
    connection = op.get_bind()
    entry = {"stream": name, "number": 1, "at": at, "marked": True, "body": pack_text(body)}
    hashes = {"previous": bytes.fromhex(GENESIS_HASH), "hash": bytes.fromhex(found)}
    connection.execute(insert(ENTRIES).values(**entry, **hashes))
    connection.execute(insert(CHECKPOINTS).values(stream=name, number=1, at=at))
    row = {"name": name, "kind": kind, "digest": digest, "number": 1, "hash": found, "state_number": 1}
    connection.execute(insert(STREAMS).values(**row, state=json.dumps(state)))
