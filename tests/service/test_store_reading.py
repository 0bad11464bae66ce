import re
import tracemalloc

import pytest
from counting import Counting
from sqlalchemy import insert, select, text, update

from evenhand.service import Database, Ledger
from evenhand.service.settings import RetentionConfig
from evenhand.service.store.database import read_entries_after, read_heads, read_log
from evenhand.service.store.tables import entries, streams
from evenhand.service.store.transaction import STATEMENTS
from evenhand.service.store.upkeep import DAY_SECONDS, RetentionJob


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
