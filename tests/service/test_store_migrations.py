from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chains import verified
from counting import Counting
from sqlalchemy import Connection, create_engine, inspect, select, text
from worked_streams import PARITY

from evenhand.errors import MissingExtraError, StoreError
from evenhand.monitoring import Monitor, write_state
from evenhand.service import Database, Ledger, ServiceConfig, read_log, replay_stored_logs
from evenhand.service.api.context import build_streams
from evenhand.service.monitors import ServedMonitor, build_monitor_machine
from evenhand.service.settings import ServedMonitorConfig
from evenhand.service.store import tables
from evenhand.service.store.tables import answers, metadata, pictures, revisions, versions

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
    pytest.importorskip("alembic", reason="needs the extra serve")
    url = new_store_url(request.param)
    _make(url, request.param, 1)
    return url


@pytest.fixture(params=KINDS)
def older(request: pytest.FixtureRequest, new_store_url: Callable[[str], str]) -> str:
    """A store of the last version before this one, with a shield in it."""
    pytest.importorskip("alembic", reason="needs the extra serve")
    url = new_store_url(request.param)
    _make(url, request.param, 2)
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
        assert connection.execute(select(revisions.c.version_num)).scalar() == tables.REVISION
        assert connection.execute(select(versions.c.version)).scalar() == int(tables.REVISION)
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


def test_a_store_of_version_2_opens_and_its_decisions_replay(older: str) -> None:
    database = Database(older)
    shield = build_streams(ServiceConfig.read({"shields": [{"name": "loans", "plan": PARITY}]})).machines
    ledger = Ledger(database, {"a": Counting(), "b": Counting(), **shield})
    asked = {"op": "decide", "id": "application 1", "group": "men", "recommendation": 1}
    old = ledger.submit("loans", asked, id="application 1").result(10)
    assert (old.number, old.repeated, old.answer["certificate"]["kappa"]) == (2, True, "1/5")
    # What is decided from here on names its certificate by reference; what is told does not change.
    new = ledger.submit("loans", {**asked, "id": "application 3"}, id="application 3").result(10)
    assert new.answer["certificate"].keys() == old.answer["certificate"].keys()
    again = ledger.submit("loans", {**asked, "id": "application 3"}, id="application 3").result(10)
    assert (again.answer, again.repeated) == (new.answer, True)
    ledger.close()
    assert replay_stored_logs(database, stream="loans").all_agree
    bodies = [entry["body"] for entry in read_log(database, "loans")]
    assert ["terms" in body["output"]["certificate"] for body in bodies[1:]] == [False, False, False, True]
    database.close()


def test_a_monitor_from_before_monitors_had_logs_goes_on_where_it_was(older: str) -> None:
    from alembic import command
    from alembic.config import Config

    watch = {
        "groups": {"by": ["sex"], "values": {"sex": ["female", "male"]}},
        "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
    }
    monitor = Monitor(watch)
    monitor.add([{"sex": sex, "decision": i % 2} for i in range(40) for sex in ("female", "male")])
    engine = create_engine(older)
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(tables.MIGRATIONS))
        config.attributes["connection"] = connection
        revisions.create(connection)
        connection.execute(revisions.insert().values(version_num="0002"))
        command.upgrade(config, "0006")
        row = {"name": "hiring", "number": 3, "told": 1, "state": write_state(monitor, more={"batches": []})}
        connection.execute(text("INSERT INTO monitors VALUES (:name, :number, :told, :state)"), row)
    engine.dispose()
    database = Database(older)
    entry = ServedMonitorConfig(name="hiring", config=watch)
    machines = [build_monitor_machine(entry, Path()) for _ in range(2)]
    ledger = Ledger(database, {"hiring": machines[0]})
    served = ServedMonitor(database, ledger, entry, machines[1])
    served.add([{"sex": "male", "decision": 1}])
    assert (served.result().decisions, served._follow().posted) == (81, 1)
    assert replay_stored_logs(database, stream="hiring").all_agree
    ledger.close()
    database.close()


def test_a_step_that_fails_leaves_the_store_as_it_was(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import command

    def half(config: Any, revision: str) -> None:
        upgrade(config, revision)
        raise StoreError("the disk is full")

    upgrade = command.upgrade
    with monkeypatch.context() as patched:
        patched.setattr(command, "upgrade", half)
        with pytest.raises(StoreError, match="disk is full"):
            Database(old)
    with pytest.raises(StoreError, match="has revision 0001"):
        Database(old, make=False)
    database = Database(old)
    verified(database)
    database.close()


def test_the_revisions_are_those_of_alembic() -> None:
    script = pytest.importorskip("alembic.script", reason="needs the extra serve")
    steps = script.ScriptDirectory(str(tables.MIGRATIONS)).walk_revisions()
    assert tuple(one.revision for one in steps)[::-1] == tables.REVISIONS


def test_without_alembic_only_an_older_store_needs_it(
    store_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "alembic", None)
    Database(store_url).close()
    _make(f"sqlite:///{tmp_path / 'old.db'}", "sqlite", 2)
    with pytest.raises(MissingExtraError, match="alembic"):
        Database(f"sqlite:///{tmp_path / 'old.db'}")


def _make_newer(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))


def test_a_store_of_a_newer_version_is_refused(store_url: str) -> None:
    database = Database(store_url)
    _make_newer(database)
    database.close()
    for make in (True, False):
        with pytest.raises(StoreError, match="or older, got one of revision 0999"):
            Database(store_url, make=make)


def test_who_runs_while_a_newer_one_changes_the_tables_writes_nothing_more(store_url: str) -> None:
    database = Database(store_url)
    ledger = Ledger(database, {"a": Counting()})
    ledger.submit("a", {"op": "add", "amount": 1}).result(10)
    _make_newer(database)
    with pytest.raises(StoreError, match="while this ran"):
        ledger.submit("a", {"op": "add", "amount": 1}).result(10)
    ledger.close()
    database.close()


def test_reading_alone_makes_and_changes_nothing(old: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has revision 0001, and not"):
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
