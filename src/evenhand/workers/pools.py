"""Workers that have one call at a time, and what happens to calls when one is lost or hangs."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from evenhand.errors import EvenhandError, OptionError
from evenhand.interrupts import InterruptCounter


@runtime_checkable
class Executor(Protocol):
    """Anything that runs calls elsewhere, as ``concurrent.futures.Executor`` does."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Return the future result of a call."""
        ...


MOST_LOSSES = 3
"""A call that was lost with so many workers is given up, and one that is not answered is sent to no more than these."""

LEASE = 3.0
"""A call that takes so many times the median is sent to another worker too."""

LEAST_LEASE = 30.0
"""Seconds that a call may take in any case before that."""

LOOK_EVERY = 0.2
"""Seconds between two looks at leases."""

LOST = ("KilledWorker", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "CancelledError")
"""What Dask and Ray call a worker that was lost."""


class WorkerLostError(Exception):
    """A call ended every worker that had it."""


class Worker:
    """One of the workers of an executor."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Return the future result of a call."""
        return self.executor.submit(function, *arguments)

    def replace(self) -> None:
        """Begin again after the worker was lost, or hangs; a cluster does so by itself."""

    def find_stand_in(self) -> Worker | None:
        """Return a worker that takes its place while it does not answer; None where there is none."""
        return None

    def check(self) -> None:
        """Raise an error if no call will be answered any more."""

    def close(self) -> None:
        """End the worker, if it was started here."""


class WorkerPool:
    """Workers that calls are sent to, from any thread: again if a worker is lost, twice if one does not answer.

    What is called must give the same result each time.

    Args:
        workers: each has one call at a time.
        least_lease: seconds before a call is sent a second time, at least.
        clock: seconds; looked at for leases alone.

    Attributes:
        size: how many workers there are.
        repeated: how often a call was sent again.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        *,
        least_lease: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size = len(workers)
        self.repeated = 0
        self._stopped = False
        self._given_up = 0
        self._workers = workers
        self._free: SimpleQueue[Worker] = SimpleQueue()
        self._left: set[Worker] = set()  # others stand in for them
        for worker in workers:
            self._free.put(worker)
        self._took: dict[Any, list[float]] = {}
        self._least_lease, self._clock = LEAST_LEASE if least_lease is None else least_lease, clock

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function that workers can import.

        Raises:
            WorkerLostError: it ended ``MOST_LOSSES`` workers.
            CancelledError: it was given up meanwhile.
        """
        losses, running, given_up = 0, set[_Call](), self._given_up
        try:
            while True:
                if self._stopped or self._given_up > given_up:
                    raise CancelledError
                if not running:
                    running.add(self._send(self._free.get(), function, *arguments))
                    self.repeated += losses > 0
                elif len(running) < MOST_LOSSES and self._is_late(function, last := max(running, key=_start_of)):
                    # A call that is late goes to a second worker as well, and the first answer counts.
                    worker = self._find_another(last.worker)
                    if worker is not None:
                        running.add(self._send(worker, function, *arguments))
                        self.repeated += 1
                arrived, _ = wait([call.future for call in running], timeout=LOOK_EVERY, return_when=FIRST_COMPLETED)
                if not arrived:
                    for call in running:
                        call.worker.check()
                for call in [call for call in running if call.future in arrived]:
                    running.discard(call)
                    error = call.future.exception() if not call.future.cancelled() else BrokenExecutor()
                    lost = isinstance(error, BrokenExecutor) or type(error).__name__ in LOST
                    losses += lost
                    self._release(call.worker, replace=lost)
                    if lost and losses < MOST_LOSSES:
                        continue
                    for other in running:
                        other.future.cancel()
                        self._release(other.worker, replace=True)
                    running.clear()
                    if lost:
                        raise WorkerLostError
                    if error is not None:
                        raise _explain(error) from None
                    self._took.setdefault(function, []).append(self._clock() - call.begun)
                    return call.future.result()
        finally:
            for call in running:
                call.future.cancel()
                self._release(call.worker, replace=self._given_up > given_up)

    def give_up(self) -> None:
        """Give up calls that are under way: each raises ``CancelledError``, and its worker begins again."""
        self._given_up += 1

    def stop(self) -> None:
        """Give up calls that are under way, and take no others: each raises ``CancelledError``."""
        self._stopped = True

    def close(self) -> None:
        """End the workers that were started here; calls that are under way are lost."""
        for worker in self._workers:
            worker.close()

    def _send(self, worker: Worker, function: Callable[..., Any], *arguments: Any) -> _Call:
        try:
            future = worker.submit(function, *arguments)
        except BrokenExecutor as error:  # it was lost while it was idle
            future = Future()
            future.set_exception(error)
        except ImportError as error:
            self._free.put(worker)
            raise _explain(error) from None
        return _Call(future, worker, self._clock())

    def _find_another(self, late: Worker) -> Worker | None:
        """Return a worker for a call that another one does not answer, if there is one now."""
        try:
            return self._free.get(block=False)
        except Empty:
            found = late.find_stand_in()
            if found is not None:
                self._left.add(late)
            return found

    def _release(self, worker: Worker, *, replace: bool) -> None:
        if worker in self._left:
            return
        if replace:
            worker.replace()
        self._free.put(worker)

    def _is_late(self, function: Callable[..., Any], call: _Call) -> bool:
        took = self._took.get(function)
        return took is not None and self._clock() - call.begun > max(self._least_lease, LEASE * median(took))


def _explain(error: BaseException) -> BaseException:
    """Return the error of a call, in other words where a worker lacks a module or the error came with its traceback."""
    cause = getattr(error, "cause", None)  # Ray
    error = cause if isinstance(cause, EvenhandError) else error
    lacking = re.search(r"No module named '([\w.]+)'", str(error))
    if lacking is None or isinstance(error, EvenhandError):
        return error
    return OptionError(
        f"a worker cannot import {lacking[1]!r}",
        location="workers",
        hint="install Evenhand, and what the model is made of, on each of them",
    )


class _Call(NamedTuple):
    future: Future[Any]
    worker: Worker
    begun: float


def _start_of(call: _Call) -> float:
    return call.begun


# Run units of work on workers, dealt out as workers get free, and merge their results in any order.


R = TypeVar("R")
Result_co = TypeVar("Result_co", covariant=True)


class UnitTask(Protocol[Result_co]):
    """What is to be done, with all that it needs; it can be pickled."""

    def run(self, unit: int) -> Result_co:
        """Return the result of a unit, which depends on the task and the unit alone."""
        ...


@dataclass
class UnitsDone:
    """How a run of units ended.

    Attributes:
        given_up: units that ended ``MOST_LOSSES`` workers each, ascending.
        interrupted: whether somebody stopped it, so that units are missing.
    """

    given_up: list[int] = field(default_factory=list)
    interrupted: bool = False


def run_units(
    task: UnitTask[R], units: Iterable[int], pool: WorkerPool, collect: Callable[[int, R], None]
) -> UnitsDone:
    """Run units on workers, and hand over each result once, in the order in which they come.

    Args:
        task: what is done; an error that it raises ends the run, since a second try would raise it again.
        units: each once.
        pool: as many units as it has workers are under way at a time.
        collect: called here with a unit and its result; an interrupt (Ctrl-C) waits until it is done.
    """
    packed, waiting, ended = pickle.dumps(task), iter(units), UnitsDone()
    sent: dict[Future[R], int] = {}
    with ThreadPoolExecutor(pool.size) as threads, InterruptCounter() as interrupts:
        try:
            while not interrupts.count:
                for unit in islice(waiting, pool.size - len(sent)):
                    sent[threads.submit(pool.call, run_unit, packed, unit)] = unit
                if not sent:
                    break
                arrived, _ = wait(sent, timeout=LOOK_EVERY, return_when=FIRST_COMPLETED)
                for future in sorted(arrived, key=sent.__getitem__):
                    unit = sent.pop(future)
                    if isinstance(future.exception(), WorkerLostError):
                        ended.given_up.append(unit)
                    else:
                        collect(unit, future.result())
            ended.interrupted = bool(sent) or next(waiting, None) is not None
        finally:
            if sent:
                pool.stop()
    ended.given_up.sort()
    return ended


def run_unit(task: bytes, unit: int) -> Any:
    """Return the result of a unit: on a worker, which keeps the task for the next one."""
    return _unpack_task(task).run(unit)


@lru_cache(maxsize=2)
def _unpack_task(task: bytes) -> UnitTask[Any]:
    found: UnitTask[Any] = pickle.loads(task)
    return found
