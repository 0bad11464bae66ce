import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from chains import counting_ledger, verified
from counting import Counting
from faulty import Faulty
from severing import Proxy
from sqlalchemy import make_url, text

from evenhand.errors import StoreError
from evenhand.service import Database, Ledger


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


def test_a_store_that_somebody_else_holds_is_waited_for_and_then_refused(tmp_path):
    path = tmp_path / "evenhand.db"
    database = Database(f"sqlite:///{path}", wait_seconds=0.1)
    with counting_ledger(database) as ledger:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="held by another process") as caught:
            _add(ledger, 1, "x")
        assert caught.value.hint is not None
        holder.execute("ROLLBACK")
        holder.close()
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
            with pytest.raises(StoreError, match="disk is full"):
                ledger.submit("a", {"op": "add", "amount": 1, "note": incompressible(0, 200_000)}).result(60)
        # What was acknowledged is there, and can be read while the disk is full.
        assert len(verified(database)["a"]) == done + 1
        ballast.unlink()
        for one in range(done + 3):
            again = ledger.submit("a", {"op": "add", "amount": 1, "note": incompressible(one)}, id=f"{one}").result(60)
            assert again.answer["total"] == one + 1
            assert again.repeated == (one < done)


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path):
    path = tmp_path / "evenhand.db"
    database = Database(f"sqlite:///{path}")
    with counting_ledger(database) as ledger:
        _add(ledger, 1, "x")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        try:
            _until_full(ledger)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        before = verified(database)["a"][-1]["body"]["output"]["total"]
        assert _add(ledger, 1).answer["total"] == before + 1


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
