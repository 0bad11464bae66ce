"""A disk that is full, a database that goes away, a clock that jumps: processes under load go on where they can."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
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


@pytest.mark.slow
def test_a_full_file_system(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = shutil.which("mount")
    if mount is None or subprocess.run([mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    url = f"sqlite:///{small / 'store.db'}"
    try:
        with Replicas(tmp_path, service_file(url)) as replicas, Swarm(replicas.urls, deciders=6) as swarm:
            until(lambda: swarm.book.unanswered > 50, "the disk is never full")
            subprocess.run([mount, "-o", "remount,size=64m", small], check=True)
            made = len(swarm.book.decisions["loans"])
            until(lambda: len(swarm.book.decisions["loans"]) > made + 30, "nothing is decided any more")
            swarm.stop()
            assert replicas.stop() == [0]
        judged(url, swarm)
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.slow
def test_a_clock_that_jumps_decides_nothing(tmp_path: Path) -> None:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    url = f"sqlite:///{tmp_path / 'store.db'}"
    now = tmp_path / "now"
    now.write_text("+0")
    fake = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(now),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with Replicas(tmp_path, service_file(url, guard(None)), environment={**os.environ, **fake}) as replicas:
        with Swarm(replicas.urls, deciders=4, painters=1) as swarm:
            for jump in ("+0", "-10d", "+400d", "-9000d", "+3h", "+0"):
                now.write_text(jump)
                made, painted = len(swarm.book.decisions["loans"]), len(swarm.book.pictures)
                until(lambda made=made: len(swarm.book.decisions["loans"]) > made + 10, f"nothing is decided at {jump}")
                until(lambda made=painted: len(swarm.book.pictures) > made, f"no picture is made at {jump}")
            swarm.stop()
        assert not swarm.book.unanswered
        assert replicas.stop() == [0]
    judged(url, swarm)
    times = [row[2] for row in Store(url).entries("loans")]
    assert max(times) - min(times) > 9000 * 86400, "the clock did not jump"
