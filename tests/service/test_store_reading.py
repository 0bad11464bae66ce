from __future__ import annotations

from collections.abc import Iterator

import pytest
from counting import Counting

from evenhand.service.store import Database, Ledger
from evenhand.service.store.reading import entries_after, heads, log, state_of


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    database = Database(store_url)
    yield database
    database.close()


def _filled(database: Database, count: int) -> None:
    ledger = Ledger(database, {"a": Counting(), "b": Counting()})
    futures = [ledger.submit("a", {"op": "add", "amount": one}) for one in range(count)]
    for future in futures:
        future.result(30)
    ledger.close()


def test_a_log_is_read_in_pages_up_to_its_end(database: Database) -> None:
    _filled(database, 25)
    for page in (1, 7, 25, 26, 27, 1000):
        assert [one["number"] for one in log(database, "a", page=page)] == list(range(26))
    assert [one["number"] for one in log(database, "a", after=20, page=2)] == [21, 22, 23, 24, 25]
    assert [one["number"] for one in log(database, "b")] == [0]
    assert list(log(database, "nobody")) == []


def test_heads_and_states_are_those_of_the_last_entries(database: Database) -> None:
    _filled(database, 3)
    with database.reading() as connection:
        last = entries_after(connection, "a", 2, 10)
        assert heads(connection) == {"a": (3, last[0]["hash"]), "b": (0, heads(connection)["b"][1])}
        assert state_of(connection, "a") == {"total": 3, "open": {}}
        assert state_of(connection, "nobody") is None


def test_readers_see_one_moment_and_hold_no_writer_up(database: Database) -> None:
    ledger = Ledger(database, {"a": Counting()})
    with database.reading() as connection:
        before = heads(connection)
        ledger.submit("a", {"op": "add", "amount": 1}).result(10)
        assert heads(connection) == before
    with database.reading() as connection:
        assert heads(connection)["a"][0] == 1
    ledger.close()
