"""Replicas in one process, on a store that fails before, while and after it commits, and clocks that jump."""

import random
import sqlite3
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from faulty import Faulty
from in_thread import answer_now
from ordeal import HIRING, LOANS, guard
from referee import GuardReferee, Store

from evenhand.errors import StoreError
from evenhand.genai.backends.studio import Studio
from evenhand.service import Ledger
from evenhand.service.generation.guards import GuardedRequest, build_guard_machine, open_guard
from evenhand.service.generation.stored_enforcer import StoredEnforcer
from evenhand.service.settings import ServedGuardConfig, ServedShieldConfig
from evenhand.service.shields import build_shield


class Flaky(Faulty):
    """A store that fails now and then: at the beginning, before the commit, or after it."""

    def __init__(self, url, seed):
        self.random, self.steady = random.Random(seed), True
        super().__init__(url)

    @contextmanager
    def transaction(self, *, durable=True, reads=False):
        if not (self.steady or reads):
            faults = [fault for fault in ("before", "commit", "after") if self.random.random() < 0.04]
            self.faults.append(next(iter(faults), None))
        with super().transaction(durable=durable, reads=reads) as connection:
            yield connection


class Jumping:
    """A clock of a machine that is set wrong, and right again, all the time."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now = 1.7e9

    def __call__(self):
        self.now += self.random.choice([0.001, 0.001, 1.0, -3600.0, 3600.0, -1e8, 1e8])
        return self.now


@contextmanager
def replicas(url, count, guarded=None):
    """Several ledgers on one store, each with its own machines, store and clock: (ledger, database, guard)."""
    found = []
    for k in range(count):
        machines = {
            name: build_shield(ServedShieldConfig(name=name, plan=plan), Path())[1]
            for name, plan in (("loans", LOANS), ("hiring", HIRING))
        }
        entry = None if guarded is None else ServedGuardConfig(name="pictures", config=guarded)
        if entry is not None:
            machines["pictures"] = build_guard_machine(entry, Path())
        database = Flaky(url, seed=k)
        ledger = Ledger(database, machines, clock=Jumping(k), pauses=(0.0,) * 5)
        at_work = None if entry is None else open_guard(entry, Path(), ledger, f"replica {k}")
        found.append((ledger, database, at_work))
    try:
        yield found
    finally:
        for ledger, database, at_work in found:
            database.steady = True
            if at_work is not None:
                at_work.close()
            ledger.close()
            database.close()


def together(work):
    """Run all of it at the same time; what one of them raised is raised."""
    failed = []

    def one(piece):
        try:
            piece()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(piece,), daemon=True) for piece in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not [thread for thread in threads if thread.is_alive()], "somebody waits for ever"
    if failed:
        raise failed[0]


class Moody:
    """A studio that fails, ignores what it is told, draws nobody, or answers with nonsense, now and then."""

    def __init__(self, seed):
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.studio = Studio({"age": {"child": 1, "adult": 8, "elderly": 1}}, obeys=0.9, unrecognised=0.05, seed=seed)

    def generate(self, prompt):
        with self.lock:
            draw = self.random.random()
            if draw < 0.05:
                raise OSError("the connection was reset")
            if draw < 0.1:
                return "nonsense"
            return self.studio.generate(prompt)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_guarded_items_of_a_moody_generator_on_a_store_that_fails_at_any_time(tmp_path, mode):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    configuration = guard(None, mode=mode)
    delivered = []
    lock = threading.Lock()

    with replicas(url, 3, configuration) as here:
        for _, database, _ in here:
            database.steady = False
        generator = Moody(7)

        def client(number):
            chosen = random.Random(number)
            for k in range(25):
                _, _, at_work = chosen.choice(here)
                prompt = f"a leader, number {number}-{k}"
                try:
                    found = answer_now(GuardedRequest(at_work, prompt, generator))
                except StoreError:
                    continue
                if found.answer.item is not None:
                    with lock:
                        delivered.append((found.number, prompt, dict(found.answer.values)))

        together([lambda number=number: client(number) for number in range(6)])
        for _, database, _ in here:
            database.steady = True
    # What the store could not take at first was told it when the guards were closed.

    referee = GuardReferee(Store(url), "pictures", configuration)
    referee.follow()
    logged = dict(referee.delivered)
    assert len(delivered) > 60
    for number, prompt, values in delivered:
        shown = {group: values.get(group) for group in logged[number]}
        assert logged[number] == shown, (number, prompt)
    assert not referee.open, "an admission stays open for ever"
    referee.guaranteed()


def test_an_admission_that_a_crash_took_is_not_taken_for_the_one_that_got_its_number(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    configuration = guard(None)
    store = Store(url)
    with replicas(url, 1, configuration) as [(ledger, database, _)]:
        database.steady = True
        first, second = (StoredEnforcer(ledger, "pictures", "replica 0") for _ in range(2))
        ledger.submit("pictures", {"op": "record"}).result()  # Behind what the guard itself says at its start.
        (before,) = store.rows("SELECT number, hash, state FROM streams WHERE name = 'pictures'")
        lost = first.admit(["leader"])
        # What was not flushed is gone after a power cut: the store stands where it stood before.
        with sqlite3.connect(tmp_path / "store.db") as connection:
            connection.execute("DELETE FROM entries WHERE stream = 'pictures' AND number > ?", before[:1])
            connection.execute("UPDATE streams SET number = ?, hash = ?, state = ? WHERE name = 'pictures'", before)
        connection.close()
        other = second.admit(["leader"])
        assert other.number == lost.number
        with pytest.raises(StoreError, match="was abandoned"):
            first.complete(lost, {"age": "adult", "gender": "man"})
        assert second.complete(other, {"age": "child", "gender": "woman"}).status == "ok"

    referee = GuardReferee(store, "pictures", configuration)
    referee.follow()
    assert [values for _, values in referee.delivered] == [{"age": "child", "gender": "woman"}]
