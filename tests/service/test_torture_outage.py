"""A full disk: processes under load go on where they can."""

import resource

import pytest
from in_thread import until
from ordeal import HIRING, LOANS, Replicas, Swarm, guard, service_file
from referee import GuardReferee, ShieldReferee, Store

ROOM = 60_000
"""Bytes that are left when a disk is said to be nearly full."""


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux lets another process's limits be changed")
def test_a_full_disk_refuses_and_loses_nothing_and_goes_on_when_there_is_room(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    configuration = guard(None)
    with Replicas(tmp_path, service_file(url, configuration)) as replicas:
        (one,) = replicas.all

        def limit(most):
            resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

        def nearly_full():
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
