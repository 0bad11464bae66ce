import sqlite3

import pytest
from chains import verified
from counting import Counting
from sqlalchemy import inspect, select, text

from evenhand.errors import MissingExtraError, StoreError
from evenhand.service import Database, Ledger
from evenhand.service.store import tables
from evenhand.service.store.tables import metadata, revisions


def test_alembic_makes_the_tables_that_the_code_describes(store_url):
    database = Database(store_url)
    with database.reading() as connection:
        assert connection.execute(select(revisions.c.version_num)).scalar() == tables.REVISION
        made = _shape(connection)
        assert made.keys() == metadata.tables.keys()
        assert set(made["entries"][0]) == {column.name for column in tables.entries.columns}
    database.close()


def _shape(connection):
    look = inspect(connection)
    return {
        table: (
            {column["name"]: (str(column["type"]), column["nullable"]) for column in look.get_columns(table)},
            look.get_pk_constraint(table)["constrained_columns"],
        )
        for table in look.get_table_names()
    }


def test_a_step_that_fails_leaves_nothing(store_url, monkeypatch):
    from alembic import command

    def half(config, revision):
        upgrade(config, revision)
        raise StoreError("the disk is full")

    upgrade = command.upgrade
    with monkeypatch.context() as patched:
        patched.setattr(command, "upgrade", half)
        with pytest.raises(StoreError, match="disk is full"):
            Database(store_url)
    with pytest.raises(StoreError, match="not a store"):
        Database(store_url, make=False)
    database = Database(store_url)
    verified(database)
    database.close()


def test_only_a_new_store_needs_alembic(store_url, monkeypatch, tmp_path):
    Database(store_url).close()
    monkeypatch.setitem(__import__("sys").modules, "alembic", None)
    Database(store_url).close()
    with pytest.raises(MissingExtraError, match="alembic"):
        Database(f"sqlite:///{tmp_path / 'new.db'}")


def _make_newer(database):
    with database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))


def test_a_store_of_a_newer_version_is_refused(store_url):
    database = Database(store_url)
    _make_newer(database)
    database.close()
    for make in (True, False):
        with pytest.raises(StoreError, match="or older, got one of revision 0999"):
            Database(store_url, make=make)


def test_who_runs_while_a_newer_one_changes_the_tables_writes_nothing_more(store_url):
    database = Database(store_url)
    ledger = Ledger(database, {"a": Counting()})
    ledger.submit("a", {"op": "add", "amount": 1}).result(10)
    _make_newer(database)
    with pytest.raises(StoreError, match="while this process was running"):
        ledger.submit("a", {"op": "add", "amount": 1}).result(10)
    ledger.close()
    database.close()


def test_reading_alone_makes_and_changes_nothing(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
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
        ("mysql://root@localhost/evenhand", "got mysql"),
        ("evenhand.db", "the URL of a store"),
        ("postgresql://postgres:secret@127.0.0.1:9/evenhand?connect_timeout=2", "refused"),
    ],
)
def test_places_that_cannot_be_a_store_are_refused_in_one_line(url, said):
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    with pytest.raises(StoreError, match=said) as caught:
        Database(url)
    assert "secret" not in str(caught.value)


def test_without_the_driver_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match="psycopg") as caught:
        Database("postgresql://postgres@127.0.0.1:9/evenhand")
    assert "'.[postgres]'" in str(caught.value)
