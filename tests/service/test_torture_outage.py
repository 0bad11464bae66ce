"""A full disk: processes under load go on where they can."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("sqlalchemy", reason="needs the extra serve")

from ordeal import HIRING, LOANS, Replicas, Swarm, guard, service_file
from referee import GuardReferee, ShieldReferee, Store

ROOM = 60_000
"""Bytes that are left when a disk is said to be nearly full."""


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for something to become true; half a minute at most."""
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError(what)


def judged(url: str, swarm: Swarm) -> dict[str, object]:
    """Both shields' logs are in order, and agree with what the clients were told."""
    store = Store(url)
    met: dict[str, object] = {}
    for name, plan in (("loans", LOANS), ("hiring", HIRING)):
        referee = ShieldReferee(store, name, plan)
        referee.follow()
        referee.guaranteed()
        met[name] = referee.compare(swarm.book.decisions[name], swarm.book.labels[name])
    return met


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux lets another process's limits be changed")
def test_a_full_disk_refuses_and_loses_nothing_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    configuration = guard(None)
    with Replicas(tmp_path, service_file(url, configuration)) as replicas:
        (one,) = replicas.all

        def limit(most: int) -> None:
            resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

        def nearly_full() -> int:
            return max(file.stat().st_size for file in tmp_path.glob("store.db*")) + ROOM

        limit(nearly_full())
        with Swarm(replicas.urls, deciders=6, painters=2) as swarm:
            until(lambda: swarm.book.unanswered > 10, "the disk is never full")
            assert one.poll() is None, one.said
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
    judged(url, swarm)
    Store(url).sound()
    referee = GuardReferee(Store(url), "pictures", configuration)
    referee.follow()
    referee.compare(swarm.book.pictures)
    referee.guaranteed()
