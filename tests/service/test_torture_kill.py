"""Kills, outages and failing stores under load."""

import os
import random
import resource
import signal
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from faulty import Faulty
from in_thread import answer_now, together, until
from ordeal import HIRING, LOANS, Replicas, Swarm, guard, service_file
from referee import GuardReferee, ShieldReferee, Store, watched_batches

from evenhand.errors import StoreError
from evenhand.genai.backends.studio import Studio
from evenhand.service import Ledger
from evenhand.service.generation.guarded_request import GuardedRequest
from evenhand.service.generation.guards import build_guard_machine, open_guard
from evenhand.service.settings import ServedGuardConfig, ServedShieldConfig
from evenhand.service.shields import build_shield
from genai_upstream import Upstream

BIAS = {"age": {"child": 1.0, "adult": 8.0, "elderly": 1.0}, "gender": {"woman": 2.0, "man": 8.0}}


@contextmanager
def moody(seed):
    """An upstream that fails, hangs, answers with nonsense, ignores what it is told, and works, by turns."""
    chosen = random.Random(seed)
    obedient, deaf = Studio(BIAS, seed=seed), Studio(BIAS, obeys=0.0, unrecognised=0.1, seed=seed)
    over = threading.Event()

    def moods(upstream):
        while not over.wait(chosen.choice([0.2, 0.5, 1.0])):
            upstream.release()
            upstream.always = upstream.body = None
            upstream.studio = obedient
            mood = chosen.choice(["good", "good", "fails", "hangs", "nonsense", "deaf"])
            if mood == "fails":
                upstream.always = chosen.choice([400, 429, 500, 503])
            elif mood == "hangs":
                upstream.hang()
            elif mood == "nonsense":
                upstream.body = chosen.choice([b"", b"<html>", b'{"data": []}', b'{"data": [{"b64_json": "AAAA"}]}'])
            elif mood == "deaf":
                upstream.studio = deaf
        upstream.release()
        upstream.always = upstream.body = None
        upstream.studio = obedient

    with Upstream(obedient) as upstream:
        thread = threading.Thread(target=moods, args=(upstream,), daemon=True)
        thread.start()
        try:
            yield upstream
        finally:
            over.set()
            thread.join(10)


def crash(cluster):
    """kill -9 of the database's first process; its data is recovered when it starts again."""
    cluster.stop(signal.SIGKILL)
    for _ in range(50):  # Until what it left behind in memory has gone.
        try:
            cluster.start()
            return
        except RuntimeError:
            time.sleep(0.2)
    raise AssertionError("the database does not come back")


def ordeal(folder, url, count, trials, cluster=None, *, pause=0.01):
    """Load without a pause, and one kill after another; the log is followed after each."""
    chosen = random.Random(f"{url.partition(':')[0]}/{count}/{trials}")
    store = Store(url)
    killed = {"replicas": 0, "databases": 0}
    with moody(trials) as upstream:
        configuration = guard(upstream.url, timeout=1.0)
        referees = {
            "loans": ShieldReferee(store, "loans", LOANS),
            "hiring": ShieldReferee(store, "hiring", HIRING),
            "pictures": GuardReferee(store, "pictures", configuration),
        }
        config = service_file(url, configuration)
        with (
            Replicas(folder, config, count) as replicas,
            Swarm(replicas.urls, deciders=5, painters=3, watchers=2, seed=trials, pause=pause) as swarm,
        ):
            for trial in range(trials):
                answered = len(swarm.book.decisions["loans"])
                for _ in range(600):  # Every kill hits a service that is at work.
                    if len(swarm.book.decisions["loans"]) > answered + 5:
                        break
                    time.sleep(0.05)
                else:
                    raise AssertionError("nothing is decided any more")
                # Those that start again have another configuration of one shield.
                replicas.rewrite(service_file(url, configuration, spare=f"0.{trial % 2 + 3}"))
                time.sleep(0.5 * chosen.random())
                if cluster is not None and trial % 4 == 3:
                    crash(cluster)
                    killed["databases"] += 1
                else:
                    which = chosen.sample(range(count), chosen.randint(1, count))
                    replicas.kill_and_restart(which)
                    killed["replicas"] += len(which)
                for referee in referees.values():
                    referee.follow()
                print(".", end="", flush=True)
            time.sleep(0.5)
            # The end is in good order, and under load too.
            codes = replicas.stop()
            swarm.stop()
        assert codes == [0] * count
        assert not swarm.book.given_up

    store.sound()
    book = swarm.book
    met = {"hired": watched_batches(store, swarm.asked("hired"), book.decisions["hired"])}
    for name, referee in referees.items():
        referee.follow()
        told = book.pictures if name == "pictures" else book.decisions[name]
        met[name] = dict(referee.compare(told, *([book.labels[name]] if name == "hiring" else [])))
        met[name]["entries"] = referee.number
    referees["loans"].guaranteed()
    met["pictures"]["missed, for want of items that obey"] = referees["pictures"].guaranteed()
    met["pictures"]["abandoned"] = referees["pictures"].abandoned
    met["loans"] |= {"periods": len(referees["loans"].ends), "interventions": referees["loans"].interventions}
    assert met["loans"]["acknowledged"] > 5 * trials
    return {"trials": trials, "killed": killed, "unanswered": book.unanswered, **met}


def test_kills_under_load_on_sqlite(tmp_path):
    ordeal(tmp_path, f"sqlite:///{tmp_path / 'store.db'}", 1, 1)


def test_kills_of_replicas_and_of_their_postgresql_under_load(tmp_path, own_postgres):
    met = ordeal(tmp_path, own_postgres.url(), 2, 4, own_postgres)
    assert met["killed"]["databases"] == 1


def _trials(standard):
    return int(os.environ.get("EVENHAND_TRIALS", standard))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "trials"), [(1, 100), (2, 25)])
def test_a_hundred_kills_on_sqlite(tmp_path, count, trials):
    print("\n", ordeal(tmp_path, f"sqlite:///{tmp_path / 'store.db'}", count, _trials(trials), pause=0.05))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "trials"), [(3, 100), (1, 25)])
def test_a_hundred_kills_on_postgresql(tmp_path, own_postgres, count, trials):
    print("\n", ordeal(tmp_path, own_postgres.url(), count, _trials(trials), own_postgres, pause=0.05))


ROOM = 60_000
"""Bytes that are left when a disk is said to be nearly full."""


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux lets another process's limits be changed")
def test_a_full_disk_refuses_and_loses_nothing_and_goes_on_when_there_is_room(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    configuration = guard(None)
    with Replicas(tmp_path, service_file(url, configuration)) as replicas:
        (one,) = replicas.all

        def limit(most):
            resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

        def nearly_full():
            return max(file.stat().st_size for file in tmp_path.glob("store.db*")) + ROOM

        limit(nearly_full())
        with Swarm(replicas.urls, deciders=6, painters=2) as swarm:
            until(lambda: swarm.book.unanswered > 10, "the disk is never full")
            assert one.process.poll() is None, one.err
            made = len(swarm.book.decisions["loans"])
            limit(resource.RLIM_INFINITY)
            until(lambda: len(swarm.book.decisions["loans"]) > made + 10, "nothing is decided any more")
            # Full again, and killed in that state.
            limit(nearly_full())
            refused = swarm.book.unanswered
            until(lambda: swarm.book.unanswered > refused + 10, "the disk is never full again")
            replicas.kill_and_restart([0])
            made = len(swarm.book.decisions["loans"])
            until(lambda: len(swarm.book.decisions["loans"]) > made + 10, "nothing is decided after the restart")
            swarm.stop()
        assert replicas.stop() == [0]
    store = Store(url)
    store.sound()
    for name, plan in (("loans", LOANS), ("hiring", HIRING)):
        shield = ShieldReferee(store, name, plan)
        shield.follow()
        shield.guaranteed()
        shield.compare(swarm.book.decisions[name], swarm.book.labels[name])
    referee = GuardReferee(store, "pictures", configuration)
    referee.follow()
    referee.compare(swarm.book.pictures)
    referee.guaranteed()


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
    with replicas(url, 1, configuration) as [(ledger, database, served)]:
        database.steady = True
        first, second = (GuardedRequest(served, "a leader") for _ in range(2))
        ledger.submit("pictures", {"op": "record"}).result()  # Behind what the guard itself says at its start.
        (before,) = store.rows("SELECT number, hash, state FROM streams WHERE name = 'pictures'")
        lost = first.admit(["leader"])
        # What was not flushed is gone after a power cut: the store stands where it stood before.
        with sqlite3.connect(tmp_path / "store.db") as connection:
            connection.execute("DELETE FROM entries WHERE stream = 'pictures' AND number > ?", before[:1])
            connection.execute("UPDATE streams SET number = ?, hash = ?, state = ? WHERE name = 'pictures'", before)
        connection.close()
        other = second.admit(["leader"])
        assert second.number == first.number
        with pytest.raises(StoreError, match="was abandoned"):
            first.complete(lost, {"age": "adult", "gender": "man"})
        assert second.complete(other, {"age": "child", "gender": "woman"}).status == "ok"

    referee = GuardReferee(store, "pictures", configuration)
    referee.follow()
    assert [values for _, values in referee.delivered] == [{"age": "child", "gender": "woman"}]
