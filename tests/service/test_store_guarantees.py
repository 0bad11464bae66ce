"""The promises of the ledger, on any store and after a crash."""

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from chains import counting_ledger, verified
from counting import Counting, held
from faulty import Faulty
from hypothesis import HealthCheck, settings, stateful
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import select, text

from evenhand.errors import DecisionError, StoreError
from evenhand.service import Database, Ledger
from evenhand.service.store.database import read_entries_after, read_heads
from evenhand.service.store.tables import streams
from evenhand.service.store.transaction import OperationResult
from support import scaled

FAULTS = st.lists(st.sampled_from([None, "before", "during", "commit", "after"]), max_size=5)
IDS = st.one_of(st.none(), st.sampled_from(["x", "y", "z", "π\u0000"]))
OPERATIONS = st.one_of(
    st.fixed_dictionaries({"op": st.just("add"), "amount": st.integers(-2, 3)}),
    st.fixed_dictionaries({"op": st.just("open"), "replica": st.sampled_from(["one", "two"])}),
    st.fixed_dictionaries({"op": st.just("close"), "opened": st.integers(1, 8)}),
    st.fixed_dictionaries({"op": st.just("abandon"), "replica": st.sampled_from(["one", "two"])}),
)
ASKED = st.tuples(st.sampled_from("ab"), OPERATIONS, IDS, st.booleans())


class Reference:
    """One stream that never fails."""

    def __init__(self):
        self.machine = Counting()
        self.number = 0
        self.answers = {}

    def take(self, operation, id_):
        if id_ in self.answers:
            asked, done = self.answers[id_]
            return OperationResult(done.number, done.answer, repeated=True) if asked == operation else DecisionError
        try:
            answer = self.machine.apply(operation, self.number + 1)
        except DecisionError:
            return DecisionError
        self.number += 1
        if id_ is not None:
            self.answers[id_] = operation, OperationResult(self.number, answer)
        return OperationResult(self.number, answer)


class Promises(RuleBasedStateMachine):
    """Two replicas on one store, each of which may fail at any time."""

    url = ""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory(prefix="evenhand-promises-")
        self.address = self.url or f"sqlite:///{Path(self.folder.name) / 'evenhand.db'}"
        self.databases = [Faulty(self.address), Faulty(self.address)]
        # A name of this run's own, since a server's database is used for all of them.
        self.prefix = Path(self.folder.name).name
        self.ledgers = [self._ledger(database) for database in self.databases]
        self.references = {"a": Reference(), "b": Reference()}

    def _ledger(self, database):
        machines = {f"{self.prefix}{stream}": Counting() for stream in "ab"}
        return Ledger(database, machines, pauses=(0.0, 0.0))

    @rule(who=st.integers(0, 1), asked=st.lists(ASKED, min_size=1, max_size=6), faults=FAULTS)
    def ask(self, who, asked, faults):
        database, ledger = self.databases[who], self.ledgers[who]
        with held(ledger):
            futures = [
                ledger.submit(self.prefix + stream, operation, id=id_, durable=durable)
                for stream, operation, id_, durable in asked
            ]
            database.faults.extend(faults)
        errors = [future.exception(30) for future in futures]
        database.faults.clear()
        failed = [error for error in errors if isinstance(error, StoreError)]
        if failed:
            # Nothing fails by itself; and it is one transaction: the same for everybody in it.
            assert any(faults), failed[0]
            assert len(failed) == len(asked)
            if not self._happened(asked):
                return
            assert "not known" in failed[0].message
        expected = {
            place: self.references[stream].take(operation, id_)
            for place, stream, operation, id_ in sorted((place, *one[:3]) for place, one in enumerate(asked))
        }
        if failed:
            return
        for place, (future, error) in enumerate(zip(futures, errors, strict=True)):
            if error is not None:
                assert expected[place] is type(error), error
            else:
                assert future.result() == expected[place]

    def _happened(self, asked):
        with self.databases[0].reading() as connection:
            ends = read_heads(connection)
        moved = {stream: ends[self.prefix + stream][0] != one.number for stream, one in self.references.items()}
        assert {stream for stream, here in moved.items() if here} <= {stream for stream, *_ in asked}
        return any(moved.values())

    @rule(who=st.integers(0, 1))
    def restart(self, who):
        self.ledgers[who].close()
        self.ledgers[who] = self._ledger(self.databases[who])

    @rule(who=st.integers(0, 1), stream=st.sampled_from("ab"))
    def mark(self, who, stream):
        done = self.ledgers[who].checkpoint(self.prefix + stream).result(30)
        self.references[stream].number += 1
        assert done == OperationResult(self.references[stream].number, {})

    @stateful.precondition(lambda self: hasattr(self, "references"))
    @invariant()
    def the_store_is_where_the_reference_is(self):
        with self.databases[0].reading() as connection:
            for stream, reference in self.references.items():
                name = self.prefix + stream
                assert read_heads(connection)[name][0] == reference.number
                last = read_entries_after(connection, name, reference.number - 1, 1)[0]["body"]
                assert "state" in last or last["input"]["op"]

    def teardown(self):
        if not hasattr(self, "folder"):
            return
        for ledger in self.ledgers:
            ledger.close()
        logs = {
            stream: found for stream, found in verified(self.databases[0]).items() if stream.startswith(self.prefix)
        }
        for stream, reference in self.references.items():
            entries = logs[self.prefix + stream]
            given = {entry["body"]["id"]: entry for entry in entries[1:] if entry["body"].get("id") is not None}
            assert given.keys() == reference.answers.keys()
            for id_, (operation, done) in reference.answers.items():
                entry = given[id_]
                assert (entry["number"], entry["body"]["output"]) == (done.number, done.answer)
                assert entry["body"]["input"] == operation
        for database in self.databases:
            database.close()
        self.folder.cleanup()


CALM = {"suppress_health_check": list(HealthCheck), "deadline": None}


def test_the_ledger_keeps_its_promises_on_sqlite():
    run_state_machine_as_test(Promises, settings=settings(max_examples=scaled(40), stateful_step_count=12, **CALM))


@pytest.mark.slow
def test_the_ledger_keeps_its_promises_on_sqlite_at_length():
    run_state_machine_as_test(Promises, settings=settings(max_examples=scaled(1_000), stateful_step_count=30, **CALM))


def test_the_ledger_keeps_its_promises_on_postgres(postgres):
    class There(Promises):
        url = postgres.url()

    run_state_machine_as_test(There, settings=settings(max_examples=scaled(8), stateful_step_count=8, **CALM))


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


@pytest.fixture
def ledger(database):
    ledger = Ledger(database, {"a": Counting(), "b": Counting()})
    yield ledger
    ledger.close()


def _add(ledger, amount, id=None, stream="a"):
    return ledger.submit(stream, {"op": "add", "amount": amount}, id=id)


def test_replicas_that_begin_at_the_same_time_begin_each_stream_once(database, store_url):
    def begin(_):
        here = Database(store_url)
        ledger = Ledger(here, {f"s{one}": Counting() for one in range(5)})
        _add(ledger, 1, stream="s3").result(20)
        ledger.close()
        here.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(begin, range(4)))
    logs = verified(database)
    assert sorted(logs) == ["s0", "s1", "s2", "s3", "s4"]
    assert len(logs["s3"]) == 5


def test_any_text_is_an_id(database, ledger):
    ids = ["x" * 200, "π" * 200, "\u0000", "\ud800 alone", "\U0001f600" * 200, "", "' OR 1=1 --", "a\nb"]
    first = [_add(ledger, 1, one).result(10) for one in ids]
    again = [_add(ledger, 1, one).result(10) for one in ids]
    assert again == [OperationResult(one.number, one.answer, repeated=True) for one in first]
    assert [entry["body"]["id"] for entry in verified(database)["a"][1:]] == ids


class Greedy(Counting):
    """Keeps whatever it is given, and breaks half-way when it is told to."""

    def apply(self, operation, number):
        if operation["op"] == "break":
            self.total = 10**9
            raise RuntimeError("a fault of the machine")
        if operation["op"] == "mad":
            self.total = 10**9
            return {"total": float("nan")}
        return super().apply(operation, number)


def test_a_fault_of_the_machine_is_the_fault_of_one_operation_alone(database):
    ledger = Ledger(database, {"a": Greedy(), "b": Counting()})
    with held(ledger):
        asked = [
            _add(ledger, 1, "x"),
            ledger.submit("a", {"op": "break"}),
            _add(ledger, 2, "y"),
            ledger.submit("a", {"op": "mad"}),
            _add(ledger, 4, stream="b"),
        ]
    errors = [one.exception(10) for one in asked]
    assert [*map(type, errors)] == [type(None), RuntimeError, type(None), ValueError, type(None)]
    assert asked[2].result().answer == {"total": 3, "number": 2}
    ledger.close()
    verified(database)


def test_an_operation_whose_caller_gives_up_is_committed_once_or_does_not_exist(database, ledger, monkeypatch):
    begun, go = threading.Event(), threading.Event()
    transaction = database.transaction

    @contextmanager
    def slow(**options):
        with transaction(**options) as connection:
            begun.set()
            assert go.wait(20)
            yield connection

    async def run():
        with held(ledger):
            assert _add(ledger, 1).cancel()
            assert ledger.ask("a", {"op": "add", "amount": 2}, id="queued").cancel()
            last = _add(ledger, 4)
        assert (await asyncio.wrap_future(last)).answer == {"total": 4, "number": 1}
        monkeypatch.setattr(database, "transaction", slow)
        running = ledger.ask("a", {"op": "add", "amount": 8}, id="running")
        assert await asyncio.to_thread(begun.wait, 20)
        assert running.cancel()
        go.set()
        for id, repeated in (("running", True), ("queued", False), ("queued", True)):
            assert (await ledger.ask("a", {"op": "add", "amount": 8}, id=id)).repeated == repeated

    asyncio.run(run())
    assert [entry["body"]["id"] for entry in verified(database)["a"][1:]] == [None, "running", "queued"]


def test_who_listens_is_told_what_was_committed_and_cannot_stop_the_ledger(database, ledger, caplog):
    told = []

    def falls(_commit):
        raise RuntimeError("nobody caught this")

    ledger.listeners += [falls, lambda commit: told.extend(commit.batches["a"].applied)]
    for one in range(3):
        _add(ledger, one, f"{one}").result(10)
    ledger.close()
    logged = [one["body"] for one in verified(database)["a"][1:]]
    assert told == [(one["input"], one["output"]) for one in logged]
    assert "nobody caught this" in caplog.text


def test_nothing_is_taken_up_after_the_end_and_everything_before_it_is(database):
    ledger = Ledger(database, {"a": Counting()})
    asked = [_add(ledger, 1) for _ in range(700)]
    ledger.close()
    assert all(one.done() for one in asked)
    with pytest.raises(StoreError, match="stopping"):
        _add(ledger, 1)
    with pytest.raises(StoreError, match="stopping"):
        ledger.submit_work(lambda connection: None)
    ledger.close()
    assert verified(database)["a"][-1]["body"]["output"]["total"] == 700


def test_an_errand_that_fails_changes_nothing_and_stops_nothing(database, ledger):
    def spoil(connection):
        connection.execute(streams.delete())
        raise KeyError("stop")

    with pytest.raises(KeyError):
        ledger.submit_work(spoil).result(10)
    names = ledger.submit_work(lambda connection: connection.execute(select(streams.c.name)).scalars().all())
    assert names.result(10) == ["a", "b"]
    _add(ledger, 1).result(10)
    verified(database)


def test_streams_are_locked_in_one_order_so_that_replicas_never_wait_in_a_circle(database, new_store_url):
    one, two = (Ledger(database, {"a": Counting(), "b": Counting()}) for _ in range(2))
    asked = []
    for number in range(20):
        with held(one):
            asked += [_add(one, 1, stream=stream) for stream in "ab"[:: 1 if number % 2 else -1]]
        asked += [_add(two, 1, stream=stream) for stream in "ba"]
    assert all(future.exception(30) is None for future in asked)
    one.close()
    two.close()
    assert [log[-1]["body"]["output"]["total"] for log in verified(database).values()] == [40, 40]


ONE_OF_TWO = """
import sys; sys.path[:0] = sys.argv[3:]
from counting import Counting, held
from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger
ledger = Ledger(Database(sys.argv[1]), {'a': Counting()})
print('ready', flush=True)
sys.stdin.readline()
first = int(sys.argv[2])
asked = [ledger.submit('a', {'op': 'add', 'amount': 1}, id=f'{one}') for one in range(first, first + 300)]
print(sum(not one.result(60).repeated for one in asked))
ledger.close()
"""


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_two_processes_on_one_store_are_one_sequence(store_url):
    here = str(Path(__file__).parent)
    command, pipe = [sys.executable, "-c", ONE_OF_TWO, store_url], subprocess.PIPE
    both = [subprocess.Popen([*command, first, here], stdin=pipe, stdout=pipe, text=True) for first in ("0", "200")]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    said = [one.communicate("go\n", timeout=120)[0] for one in both]
    # A hundred ids were asked for by both.
    assert sum(map(int, said)) == 500
    database = Database(store_url)
    assert verified(database)["a"][-1]["body"]["output"]["total"] == 500
    database.close()
