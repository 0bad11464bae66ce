"""Several replicas on one store, and reading it in pages."""

import re
import tracemalloc
from functools import partial

import pytest
from chains import verified
from clocks import Clock
from counting import Counting
from service_settings import SMALL_GUARD, bare_guard
from sqlalchemy import insert, select, text, update

from evenhand.errors import DecisionError, StoreError
from evenhand.genai import Enforcer, GenerationConfig, Guard, Item
from evenhand.service import Database, Ledger
from evenhand.service.background import PeriodicThread
from evenhand.service.generation.guarded_request import GuardedRequest
from evenhand.service.settings import RetentionConfig
from evenhand.service.state_machines import GuardMachine
from evenhand.service.store.database import read_entries_after, read_heads, read_log, read_state
from evenhand.service.store.tables import entries, replicas, streams
from evenhand.service.store.transaction import STATEMENTS
from evenhand.service.store.upkeep import BEAT_SECONDS, DAY_SECONDS, DEAD_SECONDS, PAUSE_SECONDS, Replicas, RetentionJob


class Replica:
    """A process in the test's own: its ledger, its beats, its clock."""

    def __init__(self, url, name, begin=0.0):
        self.name = name
        self.clock = Clock(begin)
        self.database = Database(url)
        self.ledger = Ledger(self.database, {"a": Counting(), "b": Counting()})
        self.replicas = Replicas(self.database, self.ledger, name, steady=self.clock)

    def open(self, stream="a"):
        return self.ledger.submit(stream, {"op": "open", "replica": self.name}, durable=False).result(10).number

    def close(self, number):
        return self.ledger.submit("a", {"op": "close", "opened": number}).result(10)

    def rows(self):
        with self.database.reading() as connection:
            return {row.name: row.beat for row in connection.execute(select(replicas))}

    def lives(self, seconds, *others, beats=True):
        """Time passes, for this one and others that beat too."""
        passed = 0.0
        while passed < seconds:
            passed += BEAT_SECONDS
            for one in (self, *others):
                one.clock.now += BEAT_SECONDS
                if beats or one is not self:
                    one.replicas.beat()
                one.replicas.look()

    def end(self):
        self.ledger.close()
        self.database.close()


@pytest.fixture
def pair(store_url):
    # No two clocks show the same time, nor anything that means something.
    one, two = Replica(store_url, "one", 1e9), Replica(store_url, "two", -5.0)
    for here in (one, two):
        here.replicas.beat()
    yield one, two
    for here in (one, two):
        here.end()


def _opened(replica):
    with replica.database.reading() as connection:
        return {**read_state(connection, "a")["open"], **read_state(connection, "b")["open"]}


def test_what_a_dead_replica_left_open_is_failed_everywhere_and_nothing_else(pair):
    one, two = pair
    one.open()
    one.open("b")
    kept = two.open()
    two.lives(DEAD_SECONDS - BEAT_SECONDS)
    assert len(_opened(two)) == 2  # Numbers of the two streams: 1 (twice) and 2.
    assert two.rows().keys() == {"one", "two"}
    two.lives(3 * BEAT_SECONDS)
    assert two.rows().keys() == {"two"}
    assert _opened(two) == {str(kept): "two"}
    logs = verified(two.database)
    assert [one_log[-1]["body"]["input"]["op"] for one_log in logs.values()] == ["abandon", "abandon"]
    # It is done once.
    two.lives(DEAD_SECONDS)
    assert [len(one_log) for one_log in verified(two.database).values()] == [len(one_log) for one_log in logs.values()]


def test_a_replica_that_comes_back_completes_nothing_that_was_failed(pair):
    one, two = pair
    number = one.open()
    two.lives(2 * DEAD_SECONDS)
    one.clock.now += 2 * DEAD_SECONDS
    with pytest.raises(DecisionError, match="not open"):
        one.close(number)
    # It goes on living, and is one among the others again.
    one.lives(DEAD_SECONDS, two)
    assert one.rows().keys() == {"one", "two"}
    again = one.open()
    one.lives(2 * DEAD_SECONDS, two)
    one.close(again)
    verified(one.database)


def test_who_was_stopped_does_not_take_the_others_for_dead(pair):
    one, two = pair
    number = one.open()
    one.lives(BEAT_SECONDS, two)
    # Both stand still: their machine slept, or was moved. Only two looks before one beats again.
    for clock in (one.clock, two.clock):
        clock.now += 100 * DEAD_SECONDS
    two.replicas.look()
    two.clock.now += PAUSE_SECONDS
    two.replicas.look()
    assert two.rows().keys() == {"one", "two"}
    one.lives(BEAT_SECONDS, two)
    one.close(number)


def test_a_replica_that_beats_at_the_last_moment_is_not_declared_dead(pair):
    one, two = pair
    number = one.open()
    two.lives(DEAD_SECONDS - BEAT_SECONDS)
    one.replicas.beat()
    two.lives(DEAD_SECONDS - BEAT_SECONDS)
    assert "one" in two.rows()
    one.close(number)


def test_what_a_replica_left_that_ended_and_one_before_a_restart_is_failed_at_the_first_look(store_url):
    first = Replica(store_url, "first")
    first.replicas.beat()
    first.open()
    first.replicas.leave()
    first.end()
    second = Replica(store_url, "second")
    second.replicas.beat()
    second.replicas.look()
    assert _opened(second) == {}
    assert second.rows().keys() == {"second"}
    second.end()


def test_a_replica_that_was_declared_dead_twice_over_by_two_is_failed_once_or_harmlessly(store_url):
    here = [Replica(store_url, name, begin) for name, begin in (("one", 5.0), ("two", 0.0), ("three", 77.0))]
    for one in here:
        one.replicas.beat()
    here[0].open()
    here[1].lives(3 * DEAD_SECONDS, here[2])
    assert here[1].rows().keys() == {"two", "three"}
    assert _opened(here[1]) == {}
    verified(here[1].database)
    for one in here:
        one.end()


def test_a_failing_task_ends_no_thread(caplog):
    runs = []

    def fail(error):
        raise error

    failing = {"beat": partial(fail, StoreError("the disk is gone")), "look": partial(fail, ValueError("a fault"))}
    thread = PeriodicThread("tasks", 60.0, {**failing, "count": partial(runs.append, 1)})
    thread.run_once()
    thread.start()
    thread.stop()
    thread.stop()
    assert runs in ([1], [1, 1])
    assert caplog.text.count("beat: the disk is gone") == len(runs)
    assert caplog.text.count("look failed") == len(runs)


def _machine():
    return GuardMachine(Enforcer(GenerationConfig.read(SMALL_GUARD)), SMALL_GUARD, "0" * 64)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_guard_whose_replica_was_declared_dead_meanwhile_releases_no_item(store_url):
    database = Database(store_url)
    ledgers = [Ledger(database, {"guard": _machine()}) for _ in range(2)]
    clocks = [Clock(), Clock()]
    one, two = (
        Replicas(database, ledger, name, steady=clock)
        for ledger, name, clock in zip(ledgers, ("one", "two"), clocks, strict=True)
    )
    one.beat()
    two.beat()

    class Parts:
        """Makes items, looks at them and reads prompts; while an item is made, the replica is stopped."""

        stopped = False

        def conditions(self, prompt):
            return {"leader"}

        def fixed_groups(self, prompt):
            return set()

        def classify(self, item):
            return {"gender": "man"}

        def generate(self, prompt):
            if self.stopped:
                for _ in range(10):
                    clocks[1].now += BEAT_SECONDS
                    two.beat()
                    two.look()
            return Item("image", b"picture", "image/png")

    parts = Parts()
    request = GuardedRequest(bare_guard(ledgers[0], "one"), "a leader")
    guard = Guard(request, parts, parts, parts, groups={"gender": ("woman", "man")})
    assert guard.answer("a leader").item is not None
    parts.stopped = True
    with pytest.raises(StoreError, match="was abandoned"):
        guard.answer("a leader")
    # Its slot was given up: as if no item had come, and no item came.
    entries = [entry["body"] for entry in read_log(database, "guard")]
    assert [entry["input"]["op"] for entry in entries[1:]] == ["admit", "complete", "admit", "abandon"]
    for ledger in ledgers:
        ledger.close()
    database.close()


def test_a_store_that_is_away_stops_nobody(pair, monkeypatch):
    one, two = pair
    number = one.open()

    def away(**_options):
        raise StoreError("it cannot be reached")

    upkeep = PeriodicThread("upkeep", 60.0, {"beat": one.replicas.beat, "look": one.replicas.look})
    with monkeypatch.context() as patched:
        patched.setattr(one.database, "transaction", away)
        patched.setattr(one.database, "reading", away)
        for _ in range(3):
            one.clock.now += BEAT_SECONDS
            upkeep.run_once()
    upkeep.run_once()
    assert one.rows()["one"] == 2
    one.close(number)
    verified(two.database)


def _filled(database, count):
    ledger = Ledger(database, {"a": Counting(), "b": Counting()})
    futures = [ledger.submit("a", {"op": "add", "amount": one}) for one in range(count)]
    for future in futures:
        future.result(30)
    ledger.close()


def test_a_log_is_read_in_pages_up_to_its_end(database):
    _filled(database, 25)
    for page in (1, 7, 25, 26, 27, 1000):
        assert [one["number"] for one in read_log(database, "a", page=page)] == list(range(26))
    assert [one["number"] for one in read_log(database, "a", after=20, page=2)] == [21, 22, 23, 24, 25]
    assert [one["number"] for one in read_log(database, "b")] == [0]
    assert list(read_log(database, "nobody")) == []


def test_readers_see_one_moment_and_hold_no_writer_up(database):
    ledger = Ledger(database, {"a": Counting()})
    with database.reading() as connection:
        before = read_heads(connection)
        ledger.submit("a", {"op": "add", "amount": 1}).result(10)
        assert read_heads(connection) == before
    with database.reading() as connection:
        assert read_heads(connection)["a"][0] == 1
    ledger.close()


def _plan(database, query, **values):
    explain = "EXPLAIN QUERY PLAN " if database.sqlite else "EXPLAIN "
    with database.reading() as connection:
        if not database.sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))  # What it would do with more than a few rows.
            query = re.sub(r":(\w+)", r"%(\1)s", query)
        rows = connection.exec_driver_sql(explain + query, values)
        return "\n".join(str(tuple(row)) for row in rows)


def test_a_page_is_found_without_going_through_the_log(database):
    page = _plan(
        database,
        "SELECT * FROM entries WHERE stream = :s AND number > :n AND number >= :f ORDER BY number LIMIT 10",
        s="a",
        n=5,
        f=0,
    )
    first = _plan(database, "SELECT min(number) FROM checkpoints WHERE stream = :s", s="a")
    known = STATEMENTS["sqlite" if database.sqlite else "postgresql"]["known"]
    answer = _plan(database, known, stream="a", keys='["1", "2"]' if database.sqlite else ["1", "2"])
    time = _plan(database, "SELECT count(*) FROM entries WHERE stream = :s AND at >= :t", s="a", t=5.0)
    for plan in (page, first, answer, time):
        assert "SEARCH" in plan or "Index" in plan
        assert "Seq Scan" not in plan
        assert "Sort" not in plan
        assert "TEMP B-TREE" not in plan


def test_interventions_are_found_by_an_index(database):
    query = select(entries.c.body).where(entries.c.stream == "a", entries.c.marked)
    query = query.order_by(entries.c.number.desc()).limit(9)
    found = _plan(database, str(query.compile(database._engine, compile_kwargs={"literal_binds": True})))
    assert "entries_marked" in found
    assert "TEMP B-TREE" not in found


@pytest.mark.slow
def test_a_log_of_a_million_entries_is_read_a_page_at_a_time_and_cut(store_url):
    count = 1_000_000
    database = Database(store_url)
    ledger = Ledger(database, {"a": Counting()}, clock=lambda: 1e9)
    with database.transaction() as connection:
        for begin in range(1, count, 10_000):
            rows = [
                {"stream": "a", "number": number, "at": 1e9, "marked": True, "body": '{"id":null}', "hash": "1" * 64}
                for number in range(begin, begin + 10_000)
            ]
            connection.execute(insert(entries), rows)
        connection.execute(update(streams).values(number=count, hash="1" * 64))
    tracemalloc.start()
    assert sum(1 for _ in read_log(database, "a")) == count + 1
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    with database.reading() as connection:
        assert len(read_entries_after(connection, "a", count - 3, 10)) == 3
    ledger.submit("a", {"op": "add", "amount": 1}).result(60)
    now = [1e9 + 100 * DAY_SECONDS, 0.0]
    retention = RetentionJob(
        database, ledger, RetentionConfig(log_days=10, picture_days=None), clock=lambda: now[0], steady=lambda: now[1]
    )
    ledger._transaction._clock = lambda: now[0]
    retention.delete_expired()
    for passed in (now[0] + 11 * DAY_SECONDS,):
        now[:] = [passed, 11 * DAY_SECONDS]
        retention.delete_expired()
    assert [entry["number"] for entry in read_log(database, "a")] == [count + 2]
    ledger.close()
    database.close()
