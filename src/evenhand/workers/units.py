"""Run units of work on workers, dealt out as workers get free, and merge their results in any order."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, TypeVar

from evenhand.interrupts import InterruptCounter
from evenhand.workers.pools import LOOK_EVERY, WorkerLostError, WorkerPool

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
