import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from chains import verified
from counting import Counting, held
from sqlalchemy import select

from evenhand.errors import StoreError
from evenhand.service import Database, Ledger
from evenhand.service.store.tables import streams
from evenhand.service.store.transaction import OperationResult


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
    both = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_OF_TWO, store_url, first, here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in ("0", "200")
    ]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    said = [one.communicate("go\n", timeout=120)[0] for one in both]
    # A hundred ids were asked for by both.
    assert sum(map(int, said)) == 500
    database = Database(store_url)
    assert verified(database)["a"][-1]["body"]["output"]["total"] == 500
    database.close()
