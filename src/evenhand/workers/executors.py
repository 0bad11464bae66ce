"""Whom calls are sent to: processes of this machine, a cluster, or an executor that the caller has."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeAlias

import evenhand
from evenhand.errors import FetchError, MissingExtraError, OptionError
from evenhand.workers.pools import Executor, Worker, WorkerPool

CLUSTERS = ("dask://", "ray://")

Workers: TypeAlias = int | str | Executor
"""A number of processes on this machine, ``dask://host:port``, ``ray://host:port``, or an executor."""


class _Process(Worker):
    """A process of this machine. Each has an executor of its own, so that one that ends takes no other with it."""

    executor: ProcessPoolExecutor

    def __init__(self) -> None:
        super().__init__(_start_process())

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Return the future result of a call; the first one starts the process.

        Ctrl-C on a terminal reaches this process too, and would end it before it has come so far as to ignore it: what
        is blocked here, is in what is started from here.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(function, *arguments)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def replace(self) -> None:
        self.close()
        self.executor = _start_process()

    def close(self) -> None:
        processes = list((self.executor._processes or {}).values())
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
            process.join()


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
        client = getattr(workers, "_client", None)  # distributed.cfexecutor.ClientExecutor
        yield WorkerPool([Worker(workers)] * _size_of(workers)) if client is None else pool_of_dask(client)
    else:
        raise OptionError(
            f"expected workers, got {type(workers).__name__}",
            location="workers",
            hint="a number, dask://host:port, ray://host:port, or an object with `submit`",
        )


def _open_cluster(address: str) -> AbstractContextManager[WorkerPool]:
    if address.startswith("dask://"):
        return open_dask(f"tcp://{address.removeprefix('dask://')}")
    if address.startswith("ray://"):
        return open_ray(address)
    raise OptionError(
        f"there are no workers {address!r}",
        location="workers",
        hint=f"a number of processes, or {' or '.join(f'{kind}host:port' for kind in CLUSTERS)}",
    )


def _size_of(executor: Executor) -> int:
    """Return how many calls an executor takes at once, where it says so: as many are sent to it."""
    for name in ("size", "_max_workers", "num_workers"):
        size = getattr(executor, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return os.cpu_count() or 1


# Workers of a Dask or Ray cluster.


AVOIDED = 300.0
"""Seconds for which a worker that hangs is sent no calls, as long as there is another one."""

REFRESH = 2.0
"""Seconds for which the workers that a Dask scheduler named are taken to be there."""


class _DaskWorkers:
    """Which workers a Dask scheduler has, and how many calls each of them may be sent at a time.

    Each call is sent to one of them by name. Left to the scheduler, calls wait for a worker that hangs, and those that
    are sent a second time may wait for the same one.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._bound: Counter[str] = Counter()
        self._hung: dict[str, float] = {}
        self._threads: dict[str, int] = {}
        self._seen = -REFRESH

    def threads(self) -> dict[str, int]:
        """Return worker -> how many threads it has."""
        if time.monotonic() - self._seen >= REFRESH:
            self.check()
            with suppress(OSError):  # while the connection is made again, they are those of before
                self._threads = dict(self._client.nthreads())
            self._seen = time.monotonic()
        return self._threads

    def choose(self, before: str | None = None, *, hung: bool = False) -> str | None:
        """Return the worker with the fewest calls for its threads, of those that are not known to hang.

        Args:
            before: the worker that had the calls up to now.
            hung: whether that one hangs.

        Returns:
            None where there are no workers for now: the scheduler waits for the next one.
        """
        with self._lock:
            if before is not None:
                self._bound[before] -= 1
            now = time.monotonic()
            if before is not None and hung:
                self._hung[before] = now
            there = self.threads()
            choices = [one for one in there if now - self._hung.get(one, -AVOIDED) >= AVOIDED] or list(there)
            if not choices:
                return None
            chosen = min(choices, key=lambda one: (self._bound[one] / there[one], one != before))
            self._bound[chosen] += 1
            return chosen

    def executor(self, worker: str | None) -> Any:
        """Return what submits calls to a worker, or to another one where it is gone by then."""
        if worker is None:
            return self._client.get_executor(pure=False)
        return self._client.get_executor(pure=False, workers=[worker], allow_other_workers=True)

    def check(self) -> None:
        """Raise an error if the scheduler is gone."""
        if self._client.status in ("closing", "closed"):
            raise FetchError(
                "the Dask scheduler does not answer any more",
                hint="start it again, and repeat the command: with `state=` it goes on from the answers that were kept",
            )


class _DaskWorker(Worker):
    """A thread of a worker of the cluster."""

    def __init__(self, workers: _DaskWorkers, name: str | None) -> None:
        self._workers, self._name = workers, name
        super().__init__(workers.executor(name))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self._move(hung=False)  # workers come and go
        return super().submit(call_here, evenhand.__version__, function, *arguments)

    def replace(self) -> None:
        self._move(hung=True)

    def find_stand_in(self) -> Worker | None:
        name = self._workers.choose(self._name, hung=True)
        return None if name == self._name else _DaskWorker(self._workers, name)

    def check(self) -> None:
        self._workers.check()

    def _move(self, *, hung: bool) -> None:
        before, self._name = self._name, self._workers.choose(self._name, hung=hung)
        if self._name != before:
            self.executor = self._workers.executor(self._name)


@contextmanager
def open_dask(address: str) -> Iterator[WorkerPool]:
    """Open the workers of a Dask scheduler.

    Raises:
        OptionError: it does not answer, or has no workers.
        MissingExtraError: Dask is not installed.
    """
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
        if not client.nthreads():
            raise OptionError(
                f"the Dask scheduler at {address} has no workers",
                location="workers",
                hint="start some with `dask worker tcp://HOST:PORT`",
            )
        yield pool_of_dask(client)
    finally:
        client.close()


def pool_of_dask(client: Any) -> WorkerPool:
    """Return the workers that the scheduler of a client has, as many for each as it has threads."""
    workers = _DaskWorkers(client)
    return WorkerPool([_DaskWorker(workers, workers.choose()) for _ in range(sum(workers.threads().values()) or 1)])


@contextmanager
def open_ray(address: str) -> Iterator[WorkerPool]:
    """Open the processors of a Ray cluster.

    Raises:
        OptionError: it does not answer, or Ray is not installed.
    """
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
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise OptionError(f"no Ray cluster answers at {address}: {words[-1]}", location="workers") from None
    try:
        yield WorkerPool([Worker(_RayExecutor(ray))] * max(1, int(ray.cluster_resources().get("CPU", 1))))
    finally:
        ray.shutdown()


class _RayExecutor:
    """Ray's tasks as calls that are submitted."""

    def __init__(self, ray: Any) -> None:
        self._run = ray.remote(max_retries=0)(call_here)

    def submit(self, call: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        # Ray would set the result of a future that was cancelled meanwhile, and complain.
        found: Future[Any] = Future()

        def hand_over(done: Future[Any]) -> None:
            if found.set_running_or_notify_cancel():
                error = done.exception()
                found.set_result(done.result()) if error is None else found.set_exception(error)

        self._run.remote(evenhand.__version__, call, *arguments).future().add_done_callback(hand_over)
        return found


def call_here(version: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call: on a worker, if it has the same version of this package.

    Raises:
        OptionError: it has another one, which might give another result.
    """
    if version != evenhand.__version__:
        raise OptionError(
            f"a worker has version {evenhand.__version__} of Evenhand, and this is version {version}",
            location="workers",
            hint="install one version everywhere",
        )
    return call(*arguments)
