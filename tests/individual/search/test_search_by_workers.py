"""Searches whose questions workers answer: the result of one process, whatever their number, and what is refused."""

import json
import threading
from concurrent.futures import BrokenExecutor, CancelledError, Future, ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from evenhand.errors import ModelError, OptionError
from evenhand.individual.search import search
from evenhand.models import distributed
from evenhand.schema import ColumnRoles
from evenhand.workers import Worker, WorkerPool, Workforce

OF_THE_RUN = {"seconds", "work"}


def forest(frame):
    """A model that a worker can import, with steps as trees have them."""
    steps = np.floor(frame["income"].to_numpy(dtype=float) / 7) + np.floor(frame["age"].to_numpy(dtype=float) / 9)
    chance = 1 / (1 + np.exp(-(steps - 9 + (frame["sex"] == "M").to_numpy())))
    return np.column_stack([1 - chance, chance])


def people(n=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 70, n)})
    frame["income"] = rng.integers(0, 60, n)
    frame["hired"] = rng.integers(0, 2, n)
    return ColumnRoles(target="hired", protected=["sex"]).read(frame)


class Threads:
    """An executor of threads that notes whom it is asked about, and loses the calls that the test says."""

    def __init__(self, size, lost=()):
        self.size, self.lost, self.calls, self.lock = size, lost, 0, threading.Lock()
        self.threads, self.rows = ThreadPoolExecutor(size), 0

    def submit(self, call, *arguments):
        with self.lock:
            number, self.calls = self.calls, self.calls + 1
            self.rows += len(arguments[-1]) * (arguments[1] is not None or number > 0)
        if number in self.lost:
            future = Future()
            future.set_exception(BrokenExecutor())
            return future
        return self.threads.submit(call, *arguments)


def found_by(model=forest, workforce=None, **settings):
    settings = {"budget": 6_000, "samples": 200, "seed": 3} | settings
    found = json.loads(search(model, people(), workforce=workforce, **settings).to_json())
    return {name: value for name, value in found.items() if name not in OF_THE_RUN}


@pytest.mark.parametrize("method", ["frontier", "aequitas"])
def test_the_result_is_that_of_one_process_however_many_workers_answer(monkeypatch, method):
    monkeypatch.setattr(distributed, "PIECE_ROWS", 100)
    alone = found_by(method=method)
    assert alone["profiles"] > 0
    for size, lost in ((1, ()), (3, {2, 7})):
        distributed._models().clear()
        executor = Threads(size, lost)
        assert found_by(method=method, workforce=Workforce(executor)) == alone
        assert executor.calls > 10


@pytest.mark.full
def test_processes_answer_with_a_copy_of_the_model():
    assert found_by(workforce=Workforce(2)) == found_by()


def test_what_workers_cannot_answer_is_refused():
    with pytest.raises(OptionError, match="cannot be sent to workers") as error:
        found_by(lambda frame: forest(frame), Workforce(Threads(1)))
    assert "a module that workers can import" in error.value.hint
    with pytest.raises(OptionError, match="a worker cannot load the model"):
        distributed.answer_rows("key", b"cnowhere_to_be_imported\nforest\n.", np.zeros((1, 3)))
    with pytest.raises(OptionError, match="a file of its own"):
        found_by(workforce=Workforce(Threads(1), "kept"))
    with pytest.raises(ModelError, match="asking the model ended 3 workers"):
        found_by(workforce=Workforce(Threads(1, range(4, 10_000))))


class Stuck(Worker):
    """A worker that answers nothing until it begins again."""

    def __init__(self):
        self.begun, self.replaced = threading.Event(), 0

    def submit(self, function, *arguments):
        future = Future()
        if self.replaced:
            future.set_result(function(*arguments))
        self.begun.set()
        return future

    def replace(self):
        self.replaced += 1


def test_what_is_asked_after_an_interrupt_does_not_wait_for_calls_that_were_given_up():
    worker = Stuck()
    pool = WorkerPool([worker])
    with ThreadPoolExecutor(1) as threads:
        given_up = threads.submit(pool.call, abs, -1)
        worker.begun.wait()
        pool.give_up()
        with pytest.raises(CancelledError):
            given_up.result()
    assert pool.call(abs, -2) == 2
    assert worker.replaced == 1
