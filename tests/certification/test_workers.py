"""Certificates by workers: the same to the last digit whoever answers, whatever is lost, and after every new start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import random_case, real_network
from hypothesis import given
from hypothesis import strategies as st

from evenhand import certification, checker
from evenhand.errors import LostWorkWarning, OptionError
from evenhand.workers import Workforce

DIFFERENT = ("seconds", "cpu_seconds", "history", "work")


def certificate(network, workforce=None, *, path=None, boxes=2_000, **options):
    found = certification.certify(
        network, max_boxes=boxes, enumeration=False, samples=100, certificate=path, workforce=workforce, **options
    )
    return {name: value for name, value in found.model_dump().items() if name not in DIFFERENT}


class Recorded:
    """An executor of threads that notes what it is asked, and loses the calls that the test says."""

    def __init__(self, lost=()):
        self.asked, self.lost, self.lock = 0, lost, threading.Lock()
        self.size = 2
        self.threads = ThreadPoolExecutor(2)

    def submit(self, call, *arguments):
        with self.lock:
            number, self.asked = self.asked, self.asked + 1
        if number in self.lost:
            future = Future()
            future.set_exception(BrokenExecutor())
            return future
        return self.threads.submit(call, *arguments)


@given(st.integers(0, 1000), st.sets(st.integers(0, 40), max_size=2))
def test_whoever_answers_the_result_is_the_same(seed, lost):
    network = random_case(seed, real=True, free=3).network
    assert certificate(network, Workforce(Recorded(lost))) == certificate(network)


def test_a_search_goes_on_from_the_answers_that_were_kept(tmp_path):
    network = random_case(3, real=True, free=5, widest=12).network
    first, again = Recorded(), Recorded()
    whole = certificate(network, Workforce(first, tmp_path / "kept"), path=tmp_path / "one.cert")
    assert first.asked > 3
    half = sorted((tmp_path / "kept").glob("*.npz"))[::2]
    for path in half:
        path.unlink()
    assert certificate(network, Workforce(again, tmp_path / "kept"), path=tmp_path / "two.cert") == whole
    assert again.asked == len(half)
    assert certificate(network, path=tmp_path / "three.cert") == whole
    for name in ("one.cert", "two.cert", "three.cert"):
        assert checker.check_certificate(tmp_path / name, network, sample=None).verdict == "confirmed"
    with pytest.raises(OptionError, match="of other work"):
        certificate(random_case(4, real=True).network, Workforce(again, tmp_path / "kept"))


def test_boxes_that_end_every_worker_stay_undecided_and_are_named():
    network = random_case(6, real=True, free=5, widest=12).network
    honest = certificate(network)
    with pytest.warns(LostWorkWarning, match="boxes stay undecided: they ended 3 workers"):
        found = certificate(network, Workforce(Recorded(range(2, 1000))))
    assert found["certified"] <= honest["certified"]
    assert found["falsified"] <= honest["falsified"]
    assert found["undecided"] > honest["undecided"]
    assert found["certified"] + found["falsified"] + found["undecided"] == pytest.approx(1.0)


DRIVER = """
import sys
from pathlib import Path
sys.path[:0] = {here!r}
from cases import real_network
from test_workers import certificate
from evenhand.workers import Workforce

if __name__ == "__main__":
    workers, kept, path = sys.argv[1:]
    workforce = Workforce(workers, Path(kept))
    print(certificate(real_network("AC-1", "sex"), workforce, path=path, boxes=60_000))
"""


def run_driver(folder, workers):
    script = folder / "driver.py"
    script.write_text(DRIVER.format(here=[str(Path(__file__).parent), str(Path(__file__).parents[1])]))
    command = [sys.executable, str(script), workers, str(folder / "kept"), str(folder / "certificate")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def children(parent):
    """Return processes that a process started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] not in "ZT":
            found.append(int(path.parent.name))
    return found


def wait_for_answers(folder, process, number):
    while len(list((folder / "kept").glob("*.npz"))) < number:
        assert process.poll() is None
        time.sleep(0.01)


@pytest.fixture(params=["processes", "dask"])
def place(request):
    """What a driver is told as its workers, and what tells their processes."""
    if request.param == "processes":
        yield "2", lambda driver: children(driver.pid)
        return
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with distributed.LocalCluster(**options, silence_logs=50) as cluster, distributed.Client(cluster) as client:
        yield cluster.scheduler_address.replace("tcp://", "dask://"), lambda _: list(client.run(os.getpid).values())


@pytest.mark.slow
def test_a_worker_killed_a_worker_stopped_and_the_driver_killed(tmp_path, place):
    network = real_network("AC-1", "sex")
    expected = str(certificate(network, boxes=60_000))

    workers, processes = place
    driver = run_driver(tmp_path, workers)
    wait_for_answers(tmp_path, driver, 10)
    os.kill(processes(driver)[-1], signal.SIGKILL)
    wait_for_answers(tmp_path, driver, 25)
    os.kill(processes(driver)[-1], signal.SIGSTOP)
    wait_for_answers(tmp_path, driver, 40)
    driver.kill()
    driver.communicate()
    again = run_driver(tmp_path, workers)
    printed, _ = again.communicate()
    assert printed.strip() == expected
    checked = checker.check_certificate(tmp_path / "certificate", network, sample=200, seed=1)
    assert checked.verdict == "confirmed"
