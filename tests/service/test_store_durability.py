import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chains import counting_ledger
from counting import held
from sqlalchemy import text

from evenhand.service import Database

CODE = """
import os, sys; sys.path[:0] = sys.argv[2:]
from counting import Counting
from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger

def mark(place):
    # Seen by whoever traces this process.
    try: os.stat(place)
    except OSError: pass

ledger = Ledger(Database(sys.argv[1]), {'a': Counting()})
for durable in (True, False):
    ledger.submit('a', {'op': 'add', 'amount': 1}).result(60)
    mark('/begin')
    for one in range(10):
        ledger.submit('a', {'op': 'add', 'amount': 1}, durable=durable).result(60)
        mark('/acknowledged')
os._exit(0)
"""


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_sqlite_waits_for_the_disk_exactly_where_it_must(tmp_path, durable, level):
    database = Database(f"sqlite:///{tmp_path / 'evenhand.db'}")
    for _ in range(2):
        with database.transaction(durable=durable) as connection:
            assert connection.execute(text("PRAGMA synchronous")).scalar() == level
            assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        with database.transaction(durable=not durable) as connection:
            assert connection.execute(text("PRAGMA synchronous")).scalar() == 3 - level
    database.close()


def test_every_acknowledged_decision_was_brought_to_the_disk_first(tmp_path):
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    url, trace = f"sqlite:///{tmp_path / 'evenhand.db'}", tmp_path / "trace"
    calls = "trace=fsync,fdatasync,pwrite64,stat,newfstatat"
    command = [strace, "-f", "--seccomp-bpf", "-y", "-o", trace, "-e", calls]
    command += [sys.executable, "-c", CODE, url, Path(__file__).parent]
    ran = subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=120, check=False)
    if "ptrace" in ran.stderr:
        pytest.skip("processes cannot be traced here")
    assert ran.returncode == 0, ran.stderr
    calls = re.findall(
        r"(fdatasync|fsync|pwrite64)\(\d+<[^>]*evenhand.db-wal>|\"(/acknowledged|/begin)\"",
        trace.read_text(errors="replace"),
    )
    steps = [call or mark for call, mark in calls]
    begins = [place for place, step in enumerate(steps) if step == "/begin"]
    for durable, begin, end in ((True, begins[0], begins[1]), (False, begins[1], len(steps))):
        parts = " ".join(steps[begin + 1 : end]).split("/acknowledged")[:10]
        assert len(parts) == 10
        for part in parts:
            assert "pwrite64" in part
            assert ("sync" in part) == durable


def test_postgres_waits_for_its_disk_exactly_where_it_must(postgres_url):
    database = Database(postgres_url)
    for durable, said in ((True, "on"), (False, "off"), (True, "on")):
        with database.transaction(durable=durable) as connection:
            assert connection.execute(text("SHOW synchronous_commit")).scalar() == said
    database.close()


def test_postgres_waits_even_if_its_default_is_not_to(postgres_url):
    database = Database(postgres_url)
    with database.transaction() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar()
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    database.close()
    database = Database(postgres_url)
    with database.transaction() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = remote_write"))
    database.close()
    database = Database(postgres_url)
    with database.transaction() as connection:
        # Whoever asks for more, or for something of their own, gets that.
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "remote_write"
    database.close()


def test_a_durable_commit_brings_those_before_it_to_the_disk(postgres_url):
    """What did not wait lies before what waits in the server's one log, and that is flushed up to there."""
    database = Database(postgres_url)
    with counting_ledger(database) as ledger:
        ledger.submit("a", {"op": "add", "amount": 1}, durable=False).result(10)
        with database.reading() as connection:
            written = connection.execute(text("SELECT pg_current_wal_insert_lsn()::text")).scalar()
        ledger.submit("a", {"op": "add", "amount": 2}).result(10)
        with database.reading() as connection:
            query = text("SELECT pg_current_wal_flush_lsn() >= CAST(:written AS pg_lsn)")
            assert connection.execute(query, {"written": written}).scalar() is True


@pytest.mark.parametrize("asked", [[False], [True], [False, False], [False, True, False]])
def test_a_batch_waits_if_any_of_it_must(tmp_path, asked):
    waited = []

    class Noting(Database):
        def transaction(self, *, durable=True, reads=False):
            waited.extend([] if reads else [durable])
            return super().transaction(durable=durable, reads=reads)

    database = Noting(f"sqlite:///{tmp_path / 'evenhand.db'}")
    with counting_ledger(database) as ledger, held(ledger):
        waited.clear()
        for durable in asked:
            ledger.submit("a", {"op": "add", "amount": 1}, durable=durable)
    assert waited == [any(asked)]
