"""kill -9 of replicas and of the database under load, with an upstream that misbehaves: nothing acknowledged is lost.

The long form, with its figures printed: ``pytest -m slow -s tests/service/test_torture_kill.py``.
"""

import os
import random
import signal
import threading
import time
from contextlib import contextmanager

import pytest
from ordeal import HIRING, LOANS, Replicas, Swarm, guard, service_file
from referee import GuardReferee, ShieldReferee, Store, watched_batches

from evenhand.genai.backends.studio import Studio
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
