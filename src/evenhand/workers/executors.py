"""Whom calls are sent to: processes of this machine, a cluster, or an executor that the caller has."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from evenhand.errors import OptionError
from evenhand.workers.clusters import open_dask, open_ray, pool_of_dask
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
