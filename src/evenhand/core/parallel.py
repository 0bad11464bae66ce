"""Independent calls on worker processes of this machine, or on the joblib backend that the caller chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any, TypeVar

import joblib

import evenhand
from evenhand.errors import OptionError

P = TypeVar("P")
R = TypeVar("R")

ATTEMPTS = 2
"""How often parts are sent to workers; those whose worker was lost each time run in this process."""


def count_workers(workers: int) -> int:
    """Return the number of calls that run side by side.

    Raises:
        OptionError: ``workers`` is neither positive nor -1.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or (workers < 1 and workers != -1):
        raise OptionError(
            f"expected the number of worker processes, or -1 for all processors, got {workers!r}", location="workers"
        )
    return int(joblib.effective_n_jobs(workers))


def run_parts(call: Callable[[P], R], parts: Sequence[P], workers: int) -> Iterator[tuple[int, R]]:
    """Call a function with each part, and yield the number of the part and the result as calls end, in any order.

    The calls run on processes of this machine, or on the backend that ``joblib.parallel_config`` selects, such as Dask,
    Ray or Spark. A part whose worker was lost runs again, the last time in this process.

    Args:
        call: Function that workers can import.
        parts: Arguments.
        workers: Number of workers; -1 uses all processors, or all workers of a cluster.

    Raises:
        OptionError: ``workers`` is not valid, or a worker has another version of Evenhand.
    """
    count_workers(workers)
    missing = dict(enumerate(parts))
    for attempt in range(ATTEMPTS + 1):
        if not missing:
            return
        backend = {"backend": "sequential"} if attempt == ATTEMPTS else {}
        todo = [joblib.delayed(_run_part)(evenhand.__version__, call, number, part) for number, part in missing.items()]
        try:
            for number, result in _open_pool(workers, **backend)(todo):
                del missing[number]
                yield number, result
        except Exception as error:
            if not isinstance(error, BrokenExecutor) and type(error).__name__ not in LOST:
                raise


LOST = ("KilledWorker", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError")
"""Errors of Dask and Ray for a worker that was lost."""


def _open_pool(workers: int, **backend: Any) -> Any:
    """Return joblib's pool; backends that cannot hand results over one by one return all of them at the end."""
    try:
        return joblib.Parallel(n_jobs=workers, batch_size=1, return_as="generator_unordered", **backend)
    except ValueError:
        return joblib.Parallel(n_jobs=workers, batch_size=1, **backend)


def _run_part(version: str, call: Callable[[P], R], number: int, part: P) -> tuple[int, R]:
    """Run a call on a worker.

    Raises:
        OptionError: The worker has another version, which might give another result.
    """
    if version != evenhand.__version__:
        raise OptionError(
            f"a worker has version {evenhand.__version__} of Evenhand, and this is version {version}",
            location="workers",
            hint="install one version everywhere",
        )
    return number, call(part)
