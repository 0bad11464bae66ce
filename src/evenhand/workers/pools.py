"""Where units of work run: processes of this machine, a cluster, or an executor that the caller has."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from evenhand.errors import MissingExtraError, OptionError

CLUSTERS = ("dask://", "ray://")


@runtime_checkable
class Executor(Protocol):
    """Anything that runs calls elsewhere, as ``concurrent.futures.Executor`` does."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Return the future result of a call."""
        ...


Workers: TypeAlias = int | str | Executor
"""A number of processes on this machine, ``dask://host:port``, ``ray://host:port``, or an executor."""


MOST_LOSSES = 3
"""A call that was lost with so many workers is given up."""

LEASE = 3.0
"""A call that takes so many times the median is sent to a second worker too."""

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

    def replace(self) -> None:
        """Begin again after the worker was lost, or hangs; a cluster does so by itself."""

    def close(self) -> None:
        """End the worker, if it was started here."""


class _Process(Worker):
    """A process of this machine. Each has an executor of its own, so that one that ends takes no other with it."""

    executor: ProcessPoolExecutor

    def __init__(self) -> None:
        super().__init__(_start_process())

    def replace(self) -> None:
        self.close()
        self.executor = _start_process()

    def close(self) -> None:
        processes = list((self.executor._processes or {}).values())
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
            process.join()


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
        self._workers = workers
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            self._free.put(worker)
        self._took: dict[Any, list[float]] = {}
        self._least_lease, self._clock = LEAST_LEASE if least_lease is None else least_lease, clock

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function that workers can import.

        Raises:
            WorkerLostError: it ended ``MOST_LOSSES`` workers.
        """
        losses, running = 0, {self._send(self._free.get(), function, *arguments)}
        while True:
            if self._stopped:
                for call in running:
                    call.future.cancel()
                raise CancelledError
            arrived, _ = wait([call.future for call in running], timeout=LOOK_EVERY, return_when=FIRST_COMPLETED)
            for call in [call for call in running if call.future in arrived]:
                running.discard(call)
                error = call.future.exception() if not call.future.cancelled() else BrokenExecutor()
                lost = isinstance(error, BrokenExecutor) or type(error).__name__ in LOST
                if lost:
                    losses += 1
                    call.worker.replace()
                self._free.put(call.worker)
                if lost and losses < MOST_LOSSES:
                    continue
                for other in running:
                    other.future.cancel()
                    other.worker.replace()
                    self._free.put(other.worker)
                if lost:
                    raise WorkerLostError
                if error is not None:
                    raise error
                self._took.setdefault(function, []).append(self._clock() - call.begun)
                return call.future.result()
            if not running or (len(running) == 1 and self._is_late(function, next(iter(running)))):
                try:
                    worker = self._free.get(block=not running)
                except Empty:
                    continue
                self.repeated += 1
                running.add(self._send(worker, function, *arguments))

    def stop(self) -> None:
        """Give up calls that are under way: each raises ``CancelledError`` where it is waited for."""
        self._stopped = True

    def close(self) -> None:
        """End the workers that were started here; calls that are under way are lost."""
        for worker in self._workers:
            worker.close()

    def _send(self, worker: Worker, function: Callable[..., Any], *arguments: Any) -> _Call:
        try:
            future = worker.executor.submit(function, *arguments)
        except BrokenExecutor as error:  # it was lost while it was idle
            future = Future()
            future.set_exception(error)
        return _Call(future, worker, self._clock())

    def _is_late(self, function: Callable[..., Any], call: _Call) -> bool:
        took = self._took.get(function)
        return took is not None and self._clock() - call.begun > max(self._least_lease, LEASE * median(took))


class _Call(NamedTuple):
    future: Future[Any]
    worker: Worker
    begun: float


def _start_process() -> ProcessPoolExecutor:
    # Started afresh, not forked: threads of a forked process would be missing in it, and compiled kernels with them.
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_process)


def _begin_process() -> None:
    """Prepare a process: one thread for each, no interrupts, and an end together with the process that started it."""
    import threadpoolctl

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpoolctl.threadpool_limits(1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def open_pool(workers: Workers) -> Iterator[WorkerPool]:
    """Open workers, and close them at the end; an executor of the caller is left open.

    Raises:
        OptionError: there are no such workers.
        MissingExtraError: the package of the cluster is not installed.
    """
    if isinstance(workers, str) and workers.isdecimal():
        workers = int(workers)
    if isinstance(workers, bool) or (isinstance(workers, int) and workers < 1):
        raise OptionError(f"expected 1 worker or more, got {workers}", location="workers")
    if isinstance(workers, int):
        processes = WorkerPool([_Process() for _ in range(workers)])
        try:
            yield processes
        finally:
            processes.close()
    elif isinstance(workers, str):
        with _open_cluster(workers) as pool:
            yield pool
    elif isinstance(workers, Executor):
        yield WorkerPool([Worker(workers)] * _size_of(workers))
    else:
        raise OptionError(
            f"expected workers, got {type(workers).__name__}",
            location="workers",
            hint="a number, dask://host:port, ray://host:port, or an object with `submit`",
        )


def _open_cluster(address: str) -> Any:
    if address.startswith("dask://"):
        return _open_dask(f"tcp://{address.removeprefix('dask://')}")
    if address.startswith("ray://"):
        return _open_ray(address)
    raise OptionError(
        f"there are no workers {address!r}",
        location="workers",
        hint=f"a number of processes, or {' or '.join(f'{kind}host:port' for kind in CLUSTERS)}",
    )


@contextmanager
def _open_dask(address: str) -> Iterator[WorkerPool]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise MissingExtraError("distributed", extra="dask", purpose="to work on a Dask cluster") from None
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise OptionError(
            f"no Dask scheduler answers at {address}: {type(error).__name__}",
            location="workers",
            hint="start one with `dask scheduler`, and workers with `dask worker tcp://HOST:PORT`",
        ) from None
    try:
        size = sum(client.nthreads().values())
        if size == 0:
            raise OptionError(
                f"the Dask scheduler at {address} has no workers",
                location="workers",
                hint="start some with `dask worker tcp://HOST:PORT`",
            )
        yield WorkerPool([Worker(client.get_executor(pure=False))] * size)
    finally:
        client.close()


@contextmanager
def _open_ray(address: str) -> Iterator[WorkerPool]:
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise OptionError(
            "ray is needed to work on a Ray cluster, and it is not installed",
            location="workers",
            hint="the version of the cluster: pip install 'ray[client]'",
        ) from None
    try:
        ray.init(address, log_to_driver=False, ignore_reinit_error=True)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise OptionError(f"no Ray cluster answers at {address}: {error}", location="workers") from None
    try:
        yield WorkerPool([Worker(_RayExecutor(ray))] * max(1, int(ray.cluster_resources().get("CPU", 1))))
    finally:
        ray.shutdown()


class _RayExecutor:
    """Ray's tasks as calls that are submitted."""

    def __init__(self, ray: Any) -> None:
        self._run = ray.remote(max_retries=3)(_call)

    def submit(self, call: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = self._run.remote(call, *arguments).future()
        return future


def _call(call: Callable[..., Any], *arguments: Any) -> Any:
    return call(*arguments)


def _size_of(executor: Executor) -> int:
    """Return how many calls an executor takes at once, where it says so: as many are sent to it."""
    for name in ("size", "_max_workers", "num_workers"):
        size = getattr(executor, name, None)
        if isinstance(size, int) and size > 0:
            return size
    client = getattr(executor, "_client", None)  # distributed.cfexecutor.ClientExecutor
    return sum(client.nthreads().values()) if client is not None else os.cpu_count() or 1
