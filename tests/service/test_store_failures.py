"""Stores that fail, that are not ready, and that are brought to a newer version."""

import asyncio
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from chains import counting_ledger, verified
from clocks import Clock
from counting import Counting
from faulty import Faulty
from severing import Proxy
from sqlalchemy import func, inspect, make_url, select, text

from evenhand.errors import MissingExtraError, StoreError
from evenhand.service import Database, Ledger
from evenhand.service.store import tables
from evenhand.service.store.database import read_heads
from evenhand.service.store.tables import answers, entries, metadata, revisions
from evenhand.service.store.upkeep import FRESH_SECONDS, Readiness


def _add(ledger, amount, id=None):
    return ledger.submit("a", {"op": "add", "amount": amount}, id=id).result(60)


@pytest.mark.parametrize("happened", [True, False])
def test_nobody_is_told_what_nobody_knows_and_asking_again_tells(store_url, happened):
    database = Faulty(store_url)
    with counting_ledger(database, pauses=(0.0,) * 3) as ledger:
        database.faults.extend(["after" if happened else "commit", "before", "before", "before"])
        with pytest.raises(StoreError, match="not known yet") as caught:
            _add(ledger, 2, "x")
        assert "same id" in str(caught.value)
        done = _add(ledger, 2, "x")
        assert (done.answer, done.repeated) == ({"total": 2, "number": 1}, happened)


@pytest.mark.parametrize("sever", ["before", "after"])
def test_the_connection_breaks_at_the_commit(postgres, sever):
    proxy = Proxy(postgres.port)
    address = make_url(postgres.url())
    database = Database(address.set(port=proxy.port).render_as_string(hide_password=False))
    with counting_ledger(database) as ledger:
        _add(ledger, 1, "x")
        proxy.sever = sever
        if sever == "after":
            assert _add(ledger, 2).answer == {"total": 3, "number": 2}
        else:
            with pytest.raises(StoreError, match="the store failed"):
                _add(ledger, 2)
            assert _add(ledger, 2).answer == {"total": 3, "number": 2}
        assert proxy.severed == 1
    proxy.close()


def test_a_server_that_is_killed_and_comes_back_has_lost_nothing_acknowledged(own_postgres):
    database = Database(own_postgres.url())
    with counting_ledger(database, pauses=(0.0,)) as ledger:
        done = [_add(ledger, 1, f"{one}") for one in range(20)]
        own_postgres.stop(signal.SIGQUIT)
        with pytest.raises(StoreError, match="store"):
            _add(ledger, 1, "20")
        own_postgres.start()
        assert _add(ledger, 1, "20").answer["total"] == 21
        assert _add(ledger, 1, "7").answer == done[7].answer
        assert len(verified(database)["a"]) == 22


def test_a_server_that_ends_idle_connections_is_asked_anew(postgres):
    database = Database(postgres.url())
    with counting_ledger(database) as ledger:
        _add(ledger, 1)
        with database.transaction() as connection:
            mine = "datname = current_database() AND pid <> pg_backend_pid()"
            connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}"))
        assert _add(ledger, 1).answer["total"] == 2


def test_a_replica_that_is_stopped_in_a_transaction_does_not_stop_the_others(postgres):
    import psycopg

    url = postgres.url()
    database = Database(url)
    with counting_ledger(database) as ledger:
        with database.transaction() as connection:
            limits = {
                name: connection.execute(text(f"SHOW {name}")).scalar()
                for name in ("lock_timeout", "idle_in_transaction_session_timeout")
            }
        assert limits == {"lock_timeout": "30s", "idle_in_transaction_session_timeout": "15s"}
        with psycopg.connect(url.replace("+psycopg", "")) as frozen:
            frozen.execute("SET idle_in_transaction_session_timeout = 200")
            frozen.commit()
            frozen.execute("SELECT * FROM streams FOR UPDATE")
            assert _add(ledger, 1).answer["total"] == 1  # The server ended the other one.
            with pytest.raises(psycopg.Error, match=r"terminating|closed"):
                frozen.execute("SELECT 1")


def test_a_replica_that_starts_waits_in_no_circle_with_one_that_works(postgres):
    import psycopg

    url = postgres.url()
    database = Database(url)
    machines = {"b": Counting(), "a": Counting()}
    Ledger(database, machines).close()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with (
        psycopg.connect(url.replace("+psycopg", "")) as working,
        psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as looking,
        ThreadPoolExecutor(1) as thread,
    ):
        # As an operation on both does, in their order.
        working.execute("SELECT * FROM streams WHERE name = 'a' FOR UPDATE")
        starting = thread.submit(Ledger, database, machines)
        while not looking.execute(waiting).fetchone()[0]:
            assert not starting.done()
        working.execute("SELECT * FROM streams WHERE name = 'b' FOR UPDATE")
        working.commit()
        starting.result(60).close()
    database.close()


@contextmanager
def held_by_another(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


def test_a_store_that_somebody_else_holds_is_waited_for_and_then_refused(tmp_path):
    path = tmp_path / "evenhand.db"
    with counting_ledger(Database(f"sqlite:///{path}", wait_seconds=0.1)) as ledger:
        with held_by_another(path), pytest.raises(StoreError, match="held by another process") as caught:
            _add(ledger, 1, "x")
        assert caught.value.hint is not None
        assert _add(ledger, 1, "x").answer["total"] == 1


@pytest.fixture
def small(tmp_path):
    """A disk of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = shutil.which("mount") and os.geteuid() == 0
    if not made or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def incompressible(number, size=8_000):
    """A text that is the same every time, and takes up half as many bytes as it has characters at least."""
    return random.Random(number).randbytes(size // 2).hex()


def _until_full(ledger):
    """How many additions were acknowledged before the store took no more."""
    for count in range(5_000):
        try:
            ledger.submit("a", {"op": "add", "amount": 1, "note": incompressible(count)}, id=f"{count}").result(60)
        except StoreError:
            return count
    raise AssertionError("the store was never full")


def test_a_full_disk_loses_nothing_acknowledged_and_there_is_room_again(small):
    ballast = small / "ballast"
    ballast.write_bytes(bytes(600_000))
    database = Database(f"sqlite:///{small / 'evenhand.db'}")
    with counting_ledger(database) as ledger:
        done = _until_full(ledger)
        assert done > 10
        for _ in range(3):
            with pytest.raises(StoreError, match="the store's disk is full"):
                ledger.submit("a", {"op": "add", "amount": 1, "note": incompressible(0, 200_000)}).result(60)
        # What was acknowledged is there, and can be read while the disk is full.
        assert len(verified(database)["a"]) == done + 1
        ballast.unlink()
        for one in range(done + 3):
            again = ledger.submit("a", {"op": "add", "amount": 1, "note": incompressible(one)}, id=f"{one}").result(60)
            assert again.answer["total"] == one + 1
            assert again.repeated == (one < done)


def test_a_store_that_may_only_be_read_refuses_and_keeps_what_it_has(tmp_path):
    path = tmp_path / "evenhand.db"
    database = Database(f"sqlite:///{path}")
    ledger = Ledger(database, {"a": Counting()})
    _add(ledger, 1)
    ledger.close()
    database.close()
    reading = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    assert reading.execute("SELECT number FROM streams").fetchall() == [(1,)]
    reading.close()
    # SQLAlchemy hands the address on as it is.
    with pytest.raises(StoreError, match="readonly"):
        Database(f"sqlite:///file:{path}?mode=ro&uri=true")


ONE = {"id": "1", "group": "women", "recommendation": 1}


def counts(database):
    with database.reading() as connection:
        rows = [connection.execute(select(func.count()).select_from(table)).scalar() for table in (entries, answers)]
        return read_heads(connection), rows


def test_what_is_tried_leaves_nothing_behind(database):
    ledger = Ledger(database, {"a": Counting(), "b": Counting()})
    _add(ledger, 1, "x")
    before = counts(database)
    for _ in range(3):
        asyncio.run(Readiness(ledger, "me").check())
    assert counts(database) == before
    assert _add(ledger, 2, "y").number == 2
    ledger.close()
    with pytest.raises(StoreError, match="stopping"):
        asyncio.run(Readiness(ledger, "me").check())


def test_many_probes_are_one_write_and_a_fault_is_over_when_the_store_is_well(tmp_path):
    database = Faulty(f"sqlite:///{tmp_path / 'evenhand.db'}")
    with counting_ledger(database) as ledger:
        clock = Clock()
        readiness = Readiness(ledger, "me", steady=clock)

        async def run():
            database.faults.extend(["commit", None])
            said = await asyncio.gather(*(readiness.check() for _ in range(50)), return_exceptions=True)
            assert all(isinstance(one, StoreError) for one in said)
            with pytest.raises(StoreError):
                await readiness.check()
            assert len(database.faults) == 1, "one write for all of them"
            clock.now += FRESH_SECONDS
            await readiness.check()
            assert not database.faults

        asyncio.run(run())


def test_a_store_that_does_not_answer_is_not_waited_for(tmp_path):
    path = tmp_path / "evenhand.db"
    with (
        counting_ledger(Database(f"sqlite:///{path}", wait_seconds=60)) as ledger,
        held_by_another(path),
        pytest.raises(StoreError, match="has not accepted a write"),
    ):
        asyncio.run(Readiness(ledger, "me", patience=0.01).check())


def both(client, number):
    """The status of the probe, then that of a decision."""
    client.app.state.context.readiness._tried_at = float("-inf")
    ready = client.get("/readyz").status_code
    asked = {**ONE, "id": f"{number}"}
    return ready, client.post("/v1/shields/loans/decisions", json=asked).status_code


def test_not_ready_on_a_full_disk_and_ready_when_there_is_room(client, tmp_path):
    assert both(client, 1) == (200, 200)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # What may not grow is a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "evenhand.db-wal").stat().st_size, hard))
    try:
        assert both(client, 2) == (503, 503)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert both(client, 3) == (200, 200)


def test_not_ready_where_pages_of_the_database_were_overwritten(client, tmp_path):
    path = tmp_path / "evenhand.db"
    assert both(client, 1) == (200, 200)
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # What the service has in memory of the pages is read again.
        other.execute("UPDATE alembic_version SET version_num = version_num")
        other.commit()
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))
    assert both(client, 2) == (503, 503)
    assert client.get("/healthz").status_code == 200


def test_alembic_makes_the_tables_that_the_code_describes(database):
    with database.reading() as connection:
        assert connection.execute(select(revisions.c.version_num)).scalar() == tables.REVISION
        made = _shape(connection)
        assert made.keys() == metadata.tables.keys()
        assert set(made["entries"][0]) == {column.name for column in tables.entries.columns}


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


def test_who_runs_while_a_newer_one_changes_the_tables_writes_nothing_more(database):
    with closing(Ledger(database, {"a": Counting()})) as ledger:
        _add(ledger, 1)
        _make_newer(database)
        with pytest.raises(StoreError, match="while this process was running"):
            _add(ledger, 1)


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
