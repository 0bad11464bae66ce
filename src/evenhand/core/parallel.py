"""Parallel calls of functions, in local processes or on the active joblib backend."""

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
"""Maximum number of attempts on workers. A part whose worker died on every attempt runs in this process."""


def count_workers(workers: int) -> int:
    """Return the number of workers that joblib uses.

    Raises:
        OptionError: ``workers`` is neither positive nor -1.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or (workers < 1 and workers != -1):
        raise OptionError(
            f"expected a positive number of worker processes, or -1 for all processors, got {workers!r}",
            location="workers",
        )
    return int(joblib.effective_n_jobs(workers))


def run_parts(call: Callable[[P], R], parts: Sequence[P], workers: int) -> Iterator[tuple[int, R]]:
    """Call a function with each part, and yield the index of the part and the result in order of completion.

    The calls run in local processes, or on the backend selected by ``joblib.parallel_config``, such as Dask,
    Ray or Spark. If a worker dies, its part is retried; the final attempt runs in this process.

    Args:
        call: Function that workers can import.
        parts: Arguments of the calls.
        workers: Number of workers; -1 uses all processors, or all workers of a cluster.

    Raises:
        OptionError: ``workers`` is invalid, or a worker has another version of Evenhand.
    """
    count_workers(workers)
    remaining = dict(enumerate(parts))
    for attempt in range(ATTEMPTS + 1):
        if not remaining:
            return
        backend = {"backend": "sequential"} if attempt == ATTEMPTS else {}
        calls = [
            joblib.delayed(_run_part)(evenhand.__version__, call, number, part) for number, part in remaining.items()
        ]
        try:
            for number, result in _open_pool(workers, **backend)(calls):
                del remaining[number]
                yield number, result
        except Exception as error:
            if not isinstance(error, BrokenExecutor) and type(error).__name__ not in LOST:
                raise


LOST = ("KilledWorker", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError")
"""Names of Dask and Ray errors for a worker that died."""


def _open_pool(workers: int, **backend: Any) -> Any:
    """Build a joblib pool that yields results in order of completion, if the backend supports it."""
    try:
        return joblib.Parallel(n_jobs=workers, batch_size=1, return_as="generator_unordered", **backend)
    except ValueError:
        return joblib.Parallel(n_jobs=workers, batch_size=1, **backend)


def _run_part(version: str, call: Callable[[P], R], number: int, part: P) -> tuple[int, R]:
    """Run a call in a worker."""
    if version != evenhand.__version__:
        raise OptionError(
            f"expected Evenhand {version} on all workers, got {evenhand.__version__}",
            location="workers",
            hint="install the same version on all machines",
        )
    return number, call(part)
