"""The service says that it is ready if a decision could be written, and else that it is not."""

import asyncio
import resource
import sqlite3

import pytest
from chains import counting_ledger
from clocks import Clock
from counting import Counting
from faulty import Faulty
from sqlalchemy import func, select

from evenhand.errors import StoreError
from evenhand.service import Database, Ledger
from evenhand.service.store.database import read_heads
from evenhand.service.store.tables import answers, entries
from evenhand.service.store.upkeep import FRESH_SECONDS, Readiness

ONE = {"id": "1", "group": "women", "recommendation": 1}


def counts(database):
    with database.reading() as connection:
        rows = [connection.execute(select(func.count()).select_from(table)).scalar() for table in (entries, answers)]
        return read_heads(connection), rows


def test_what_is_tried_leaves_nothing_behind(store_url):
    database = Database(store_url)
    ledger = Ledger(database, {"a": Counting(), "b": Counting()})
    ledger.submit("a", {"op": "add", "amount": 1}, id="x").result(60)
    before = counts(database)
    for _ in range(3):
        asyncio.run(Readiness(ledger, "me").check())
    assert counts(database) == before
    assert ledger.submit("a", {"op": "add", "amount": 2}, id="y").result(60).number == 2
    ledger.close()
    with pytest.raises(StoreError, match="stopping"):
        asyncio.run(Readiness(ledger, "me").check())
    database.close()


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
    database = Database(f"sqlite:///{path}", wait_seconds=60)
    with counting_ledger(database) as ledger:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="has not accepted a write"):
            asyncio.run(Readiness(ledger, "me", patience=0.01).check())
        holder.execute("ROLLBACK")
        holder.close()


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
