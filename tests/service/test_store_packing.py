"""How small entries are kept, and that what was changed in them is read as nothing."""

from __future__ import annotations

import json
import sqlite3
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="needs the extra serve")

from evenhand.service import Database, Ledger, ServiceConfig, replay_stored_logs
from evenhand.service.api.context import build_streams
from evenhand.service.settings import SHIELD
from evenhand.service.store.packing import DICTIONARY, pack_text, unpack_text

DECISIONS = 300


def test_a_text_by_hand() -> None:
    assert pack_text("") == b"\x01\x03\x00"  # Deflate's empty block of fixed codes.
    text = '"decision":1,"guaranteed":true,"intervened":true,"reason":"accepted"}}'
    # All of it stands in the dictionary already: a length and a distance are left.
    assert len(pack_text(text)) < 8
    assert zlib.decompressobj(-15, DICTIONARY).decompress(pack_text(text)[1:]).decode() == text


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_whatever_was_packed_is_the_same_afterwards(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert unpack_text(pack_text(text)) == text


@given(st.text(min_size=1).filter(lambda text: text.isprintable()), st.data())
def test_what_was_cut_or_continued_is_not_a_text(text: str, data: st.DataObject) -> None:
    packed = pack_text(text)
    for changed in (packed[: data.draw(st.integers(0, len(packed) - 1))], packed + b"\0", b"\x02" + packed[1:]):
        with pytest.raises(ValueError, match="this was"):
            unpack_text(changed)


def test_a_decision_takes_up_at_most_400_bytes_and_the_log_replays(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    plan = {**SHIELD, "kind": "static-fair"}
    settings = ServiceConfig.read({"service": {"database": f"sqlite:///{path}"},
                                   "shields": [{"name": "loans", "plan": plan}]})  # fmt: skip
    database = Database(settings.service.database)
    ledger = Ledger(database, build_streams(settings).machines)
    asked = [{"op": "decide", "id": f"application {n}", "group": ("women", "men")[n % 3 > 0],
              "recommendation": n * 7 % 5 % 2} for n in range(DECISIONS)]  # fmt: skip
    for one in [ledger.submit("loans", each, id=each["id"]) for each in asked]:
        one.result(30)
    ledger.close()
    assert replay_stored_logs(database).all_agree
    database.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes = dict(connection.execute("SELECT name, SUM(payload) FROM dbstat GROUP BY name"))
    # Payload, without the room left on pages, of which a small file has more than a large one.
    parts = ("entries", "answers", "entries_by_stream_and_time", "sqlite_autoindex_entries_1", "entries_marked")
    assert sum(sizes[one] for one in parts) / DECISIONS < 400
