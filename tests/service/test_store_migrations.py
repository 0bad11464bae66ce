from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chains import verified
from counting import Counting
from sqlalchemy import Connection, inspect, select, text

from evenhand.errors import MissingExtraError, StoreError
from evenhand.service import Database, Ledger
from evenhand.service.store import tables
from evenhand.service.store.tables import answers, metadata, pictures, versions

STORES = Path(__file__).parent / "stores"
KINDS = ["sqlite", "postgres"]


def _make(url: str, kind: str, version: int) -> None:
    """A store as an older Evenhand left it."""
    script = (STORES / f"version_{version}_{kind}.sql").read_text(encoding="utf-8")
    if kind == "sqlite":
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(script)
        connection.close()
        return
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as there:
        there.execute(script)


@pytest.fixture(params=KINDS)
def old(request: pytest.FixtureRequest, new_store_url: Callable[[str], str]) -> str:
    url = new_store_url(request.param)
    _make(url, request.param, 1)
    return url


@pytest.fixture
def opened(old: str) -> Iterator[Database]:
    database = Database(old)
    yield database
    database.close()


def test_a_store_of_version_1_opens_and_keeps_its_promises(opened: Database) -> None:
    ledger = Ledger(opened, {"a": Counting(), "b": Counting()})
    # What was answered is answered the same; the ids of version 1 were kept in the clear.
    old = ledger.submit("a", {"op": "add", "amount": 3}, id="request 3").result(10)
    assert (old.number, old.answer, old.repeated) == (3, {"total": 6, "number": 3}, True)
    assert ledger.submit("a", {"op": "add", "amount": 10}, id="π " + "x" * 198).result(10).repeated
    assert not ledger.submit("b", {"op": "add", "amount": 3}, id="request 3").result(10).repeated
    # What was open is open, and the log goes on.
    ledger.submit("a", {"op": "close", "opened": 7}).result(10)
    ledger.close()
    logs = verified(opened)
    assert [len(logs[stream]) for stream in "ab"] == [9, 3]
    with opened.reading() as connection:
        rows = connection.execute(select(pictures).order_by(pictures.c.number)).all()
        assert [(row.number, row.data) for row in rows] == [(2, b"\x89PNG one"), (3, b"\x89PNG two")]
        assert len({row.id for row in rows}) == 2
        assert connection.execute(select(versions.c.version)).scalar() == tables.STORE_VERSION
        assert all(len(row.id) == 64 for row in connection.execute(select(answers)))


def test_a_store_that_was_brought_up_has_the_tables_of_a_new_one(
    old: str, opened: Database, new_store_url: Callable[[str], str]
) -> None:
    new = Database(new_store_url("sqlite" if old.startswith("sqlite") else "postgres"))
    with new.reading() as there, opened.reading() as here:
        assert _shape(here) == _shape(there)
        assert _shape(here).keys() == metadata.tables.keys()
    new.close()


def _shape(connection: Connection) -> dict[str, Any]:
    look = inspect(connection)
    return {
        table: (
            {column["name"]: (str(column["type"]), column["nullable"]) for column in look.get_columns(table)},
            look.get_pk_constraint(table)["constrained_columns"],
            sorted((index["name"], index["column_names"], bool(index["unique"])) for index in look.get_indexes(table)
                   if not index.get("duplicates_constraint")),
            sorted(tuple(unique["column_names"]) for unique in look.get_unique_constraints(table)),
        )
        for table in look.get_table_names()
    }  # fmt: skip


def test_a_step_that_fails_leaves_the_store_as_it_was(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(connection: Connection) -> None:
        tables._migrate_to_2(connection)
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(tables, "MIGRATIONS", {2: half})
        with pytest.raises(StoreError, match="disk is full"):
            Database(old)
    database = Database(old)
    verified(database)
    database.close()


def test_every_version_has_its_step() -> None:
    assert sorted(tables.MIGRATIONS) == list(range(2, tables.STORE_VERSION + 1))


def test_a_store_of_a_newer_version_is_refused(store_url: str) -> None:
    database = Database(store_url)
    with database.transaction() as connection:
        connection.execute(text(f"UPDATE versions SET version = {tables.STORE_VERSION + 1}"))
    database.close()
    for make in (True, False):
        with pytest.raises(StoreError, match=f"version {tables.STORE_VERSION + 1}"):
            Database(store_url, make=make)


def test_who_runs_while_a_newer_one_changes_the_tables_writes_nothing_more(store_url: str) -> None:
    database = Database(store_url)
    ledger = Ledger(database, {"a": Counting()})
    ledger.submit("a", {"op": "add", "amount": 1}).result(10)
    with database.transaction() as connection:
        connection.execute(text(f"UPDATE versions SET version = {tables.STORE_VERSION + 1}"))
    with pytest.raises(StoreError, match="while this ran"):
        ledger.submit("a", {"op": "add", "amount": 1}).result(10)
    ledger.close()
    database.close()


def test_reading_alone_makes_and_changes_nothing(old: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has version 1, and not"):
        Database(old, make=False)
    if old.startswith("sqlite"):
        with pytest.raises(StoreError, match="no such file"):
            Database(f"sqlite:///{tmp_path / 'absent.db'}", make=False)
        assert not (tmp_path / "absent.db").exists()
        sqlite3.connect(tmp_path / "other.db").close()
        (tmp_path / "other.db").touch()
        with pytest.raises(StoreError, match="not a store"):
            Database(f"sqlite:///{tmp_path / 'other.db'}", make=False)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:////nowhere/at/all/evenhand.db", "no folder /nowhere/at/all"),
        ("mysql://root@localhost/evenhand", "cannot be a mysql"),
        ("evenhand.db", "not an address"),
        ("postgresql://postgres:secret@127.0.0.1:9/evenhand?connect_timeout=2", "refused"),
    ],
)
def test_places_that_cannot_be_a_store_are_refused_in_one_line(url: str, said: str) -> None:
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    with pytest.raises(StoreError, match=said) as caught:
        Database(url)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.db"
    path.write_bytes(b"Dear Sir or Madam, " * 1000)
    with pytest.raises(StoreError, match="not a database"):
        Database(f"sqlite:///{path}")
    assert path.read_bytes() == b"Dear Sir or Madam, " * 1000


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match="psycopg") as caught:
        Database("postgresql://postgres@127.0.0.1:9/evenhand")
    assert "'.[postgres]'" in str(caught.value)
