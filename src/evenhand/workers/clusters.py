"""Workers of a Dask or Ray cluster."""

from __future__ import annotations

import importlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import evenhand
from evenhand.errors import FetchError, MissingExtraError, OptionError
from evenhand.workers.pools import Worker, WorkerPool

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
