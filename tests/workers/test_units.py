"""Units of work: dealt out, sent again where a worker is lost, merged in any order, kept in a folder."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand
from evenhand.errors import LostWorkWarning, OptionError
from evenhand.workers import (
    MOST_LOSSES,
    UnitStore,
    Worker,
    WorkerLostError,
    WorkerPool,
    Workforce,
    executors,
    fingerprint_of,
    open_pool,
    pools,
    run_units,
)


@dataclass(frozen=True)
class Squares:
    """Unit u is u squared; the worker that gets a unit of ``killers`` is lost, each as often as it says."""

    folder: str = ""
    killers: dict[int, int] = field(default_factory=dict)
    stopped: tuple[int, ...] = ()
    kind = "squares"

    @property
    def fingerprint(self):
        return fingerprint_of("squares", [sorted(self.killers.items())])

    def run(self, unit):
        if self.folder:
            tried = len(list(Path(self.folder).glob(f"{unit}-*")))
            (Path(self.folder) / f"{unit}-{tried}").touch()
            if tried < self.killers.get(unit, 0):
                os.kill(os.getpid(), signal.SIGKILL)
            if unit in self.stopped and tried == 0:
                os.kill(os.getpid(), signal.SIGSTOP)
        return unit * unit

    def pack(self, result):
        return {"square": np.array(result)}

    def unpack(self, arrays):
        return int(arrays["square"])


class Drawn:
    """An executor that answers in an order that is drawn, once all its workers are busy or all units are sent."""

    def __init__(self, size, units, random):
        self.size, self.units, self.random = size, units, random
        self.waiting, self.sent, self.most = [], 0, 0
        self.lock = threading.Lock()

    def submit(self, call, *arguments):
        future = Future()
        with self.lock:
            self.sent += 1
            self.waiting.append((future, call, arguments))
            self.most = max(self.most, len(self.waiting))
            last = self.sent == self.units
            answered = []
            if last or len(self.waiting) == self.size:
                self.random.shuffle(self.waiting)
                number = len(self.waiting) if last else self.random.randint(1, self.size)
                answered, self.waiting = self.waiting[:number], self.waiting[number:]
        for one, what, said in answered:
            one.set_result(what(*said))
        return future


@given(st.integers(1, 4), st.integers(0, 12), st.randoms(use_true_random=False))
def test_each_unit_is_collected_once_in_whatever_order_answers_come(size, units, random):
    executor, got = Drawn(size, units, random), []
    with open_pool(executor) as pool:
        ended = run_units(Squares(), range(units), pool, lambda *result: got.append(result))
    assert sorted(got) == [(unit, unit * unit) for unit in range(units)]
    assert executor.most <= size
    assert not ended.interrupted
    assert ended.given_up == []


def test_results_are_those_of_one_process_with_any_executor():
    with ThreadPoolExecutor(3) as threads:
        found, ended = Workforce(threads).compute(Squares(), 20)
    assert found == {unit: unit * unit for unit in range(20)}
    assert list(found) == list(range(20))
    assert ended.given_up == []


def test_an_error_of_the_work_ends_it():
    @dataclass(frozen=True)
    class Failing:
        def run(self, unit):
            raise OptionError("no unit can be done")

    globals()["Failing"] = Failing
    Failing.__qualname__ = "Failing"
    with ThreadPoolExecutor(2) as threads, pytest.raises(OptionError, match="no unit"):
        run_units(Failing(), range(4), WorkerPool([Worker(threads)]), lambda unit, result: None)


@pytest.mark.full
def test_lost_and_stopped_workers_cost_a_second_try_and_a_unit_that_kills_them_all_is_named(tmp_path, monkeypatch):
    task = Squares(str(tmp_path), {2: 1, 4: MOST_LOSSES + 9}, stopped=(6,))
    got = {}
    monkeypatch.setattr(pools, "LEAST_LEASE", 1.0)
    with open_pool(2) as pool:
        ended = run_units(task, range(10), pool, got.__setitem__)
    assert got == {unit: unit * unit for unit in range(10) if unit != 4}
    assert ended.given_up == [4]
    assert len(list(tmp_path.glob("4-*"))) == MOST_LOSSES
    assert len(list(tmp_path.glob("2-*"))) >= 2
    assert len(list(tmp_path.glob("6-*"))) == 2


@pytest.mark.full
def test_what_is_missing_is_said(tmp_path):
    with pytest.warns(LostWorkWarning, match=r"without units 1 of 3: each ended 3 workers"):
        found, _ = Workforce(2).compute(Squares(str(tmp_path), {1: 99}), 3)
    assert found == {0: 0, 2: 4}


def test_a_call_that_takes_much_longer_is_sent_again_and_the_first_answer_counts():
    held, now = [], iter(range(1000))

    class Holding:
        def submit(self, call, *arguments):
            future = Future()
            if arguments == (3,) and not held:
                held.append(future)
            else:
                future.set_result(call(*arguments))
            return future

    pool = WorkerPool([Worker(Holding())] * 2, least_lease=10.0, clock=lambda: float(next(now)))
    assert [pool.call(abs, unit) for unit in range(5)] == [0, 1, 2, 3, 4]
    assert pool.repeated == 1
    assert held[0].cancelled()


def test_a_lost_worker_is_replaced_and_a_call_that_ends_every_worker_is_given_up():
    replaced = []

    class Losing(Worker):
        def submit(self, call, *arguments):
            future = Future()
            number = arguments[0]
            lost = number == 7 or (number == 4 and not replaced)
            future.set_exception(BrokenExecutor()) if lost else future.set_result(number)
            return future

        def __init__(self):
            super().__init__(self)

        def replace(self):
            replaced.append(self)

    pool = WorkerPool([Losing(), Losing()])
    assert [pool.call(abs, unit) for unit in (3, 4, 5)] == [3, 4, 5]
    assert len(replaced) == 1
    with pytest.raises(WorkerLostError):
        pool.call(abs, 7)
    assert len(replaced) == 1 + MOST_LOSSES
    assert pool.call(abs, 8) == 8


def test_an_interrupt_keeps_what_is_merged():
    class Interrupted:
        size = 1

        def submit(self, call, *arguments):
            future = Future()
            if arguments[1] < 3:
                future.set_result(call(*arguments))
            else:
                os.kill(os.getpid(), signal.SIGINT)
            return future

    got = {}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with open_pool(Interrupted()) as pool:
            ended = run_units(Squares(), range(9), pool, got.__setitem__)
    finally:
        signal.signal(signal.SIGINT, before)
    assert got == {0: 0, 1: 1, 2: 4}
    assert ended.interrupted


def test_work_that_is_kept_is_not_done_again(tmp_path):
    kept, tried = tmp_path / "kept", tmp_path / "tried"
    tried.mkdir()
    task = Squares(str(tried))
    with ThreadPoolExecutor(2) as threads:
        first, _ = Workforce(threads, kept).compute(task, 4)
        # More units of the same work: those that are there are read.
        second, _ = Workforce(threads, kept).compute(task, 6)
    assert first == {unit: unit * unit for unit in range(4)}
    assert second == {unit: unit * unit for unit in range(6)}
    assert len(list(tried.iterdir())) == 6


def test_a_damaged_unit_is_computed_again(tmp_path):
    store = UnitStore(tmp_path / "kept", "squares", "f")
    store.write(3, {"square": np.array(9)})
    assert store.read(3) == {"square": np.array(9)}
    path = tmp_path / "kept" / "unit-000003.npz"
    path.write_bytes(path.read_bytes()[:40])
    assert store.read(3) is None
    np.savez(path, square=np.array([Path], dtype=object))  # needs code to be read: it is not
    assert store.read(3) is None


def test_a_folder_of_other_work_is_refused(tmp_path):
    UnitStore(tmp_path / "kept", "squares", "one")
    with pytest.raises(OptionError, match="of other work"):
        UnitStore(tmp_path / "kept", "squares", "other")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(OptionError, match="not of work that was begun"):
        UnitStore(tmp_path / "mine", "squares", "one")


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (0, "1 worker or more"),
        (-3, "1 worker or more"),
        (True, "1 worker"),
        ("many", "no workers 'many'"),
        (None, "got NoneType"),
    ],
)
def test_workers_that_are_none_are_refused(workers, said):
    with pytest.raises(OptionError, match=said), open_pool(workers):
        pass


def test_a_cluster_needs_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OptionError, match="ray is needed"), open_pool("ray://here:10001"):
        pass


def test_a_worker_of_another_version_or_without_a_module_is_refused():
    class Remote:
        size = 1

        def submit(self, call, *arguments):
            future = Future()
            future.set_exception(RuntimeError("traceback of a worker\nModuleNotFoundError: No module named 'evenhand'"))
            return future

    with open_pool(Remote()) as pool, pytest.raises(OptionError, match="a worker cannot import 'evenhand'"):
        pool.call(abs, -1)
    assert executors.call_here(evenhand.__version__, abs, -1) == 1
    with pytest.raises(OptionError, match=r"this is version 0\.0"):
        executors.call_here("0.0", abs, -1)


def test_fingerprints_tell_settings_and_arrays_apart():
    ones = np.ones(3)
    found = {
        fingerprint_of("a", [1], ones),
        fingerprint_of("b", [1], ones),
        fingerprint_of("a", [2], ones),
        fingerprint_of("a", [1], ones.astype(np.float32)),
        fingerprint_of("a", [1], np.zeros(3)),
        fingerprint_of("a", [1], None),
    }
    assert len(found) == 6
    assert fingerprint_of("a", [1], ones) == fingerprint_of("a", [1], np.ones(3))


DRIVER = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
sys.path.insert(0, {here!r})
from evenhand.workers import Workforce
from test_units import Squares

class Slow(Squares):
    def run(self, unit):
        time.sleep(0.05)
        return super().run(unit)

if __name__ == "__main__":
    print(Workforce(2, Path(sys.argv[1])).compute(Slow(sys.argv[2]), 60)[0] == {{u: u * u for u in range(60)}})
"""


@pytest.mark.full
def test_a_driver_that_is_killed_goes_on_where_it_was_and_leaves_no_processes(tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER.format(here=str(Path(__file__).parent)))
    kept, tried = tmp_path / "kept", tmp_path / "tried"
    tried.mkdir()
    command = [sys.executable, str(script), str(kept), str(tried)]
    first = subprocess.Popen(command, start_new_session=True)
    while len(list(kept.glob("unit-*"))) < 5:
        assert first.poll() is None
        time.sleep(0.01)
    first.kill()
    first.wait()
    while _in_session(first.pid):
        time.sleep(0.01)
    done = len(list(kept.glob("unit-*")))
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout.strip() == "True"
    # What was on its way when it was killed is done again: at most two units on each of two workers.
    assert 60 <= len(list(tried.iterdir())) <= 60 + 4
    assert done >= 5


def _in_session(leader):
    """Return processes of a session that still run."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(status)
    return found


def test_a_task_is_sent_as_one_piece():
    task = Squares("", {1: 2})
    assert pickle.loads(pickle.dumps(task)) == task
