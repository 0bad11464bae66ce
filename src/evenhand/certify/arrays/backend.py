"""The array library in use. What is written over it runs on NumPy and on PyTorch, on a processor or on CUDA.

The code keeps to what the array API standard (https://data-apis.org/array-api) has in common with both libraries; the
few calls that PyTorch spells in its own way are methods here. Everything is float64.

Rounding. A sum of n products errs by at most ``gamma_n`` times the sum of their sizes in whatever order it is formed,
with fused multiply-adds or without (Higham, chapter 3): BLAS, cuBLAS and any number of threads are covered by the pads
of ``slack``. Reduced precision (TF32 and the like) applies to float32 alone and is never in use. Results of different
libraries or numbers of threads may differ in the last digits; each of them is sound.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import MissingExtraError, OptionError

Array = Any
"""An array of the library in use."""

ON_PROCESSOR = 32 << 20
ON_DEVICE = 1 << 30


@dataclass(frozen=True)
class Backend:
    """An array library and a place to compute.

    Attributes:
        xp: the namespace of its functions.
        place: PyTorch's device, None for NumPy.
        budget: bytes that the work arrays of one step may take, about: what fits caches, or keeps a GPU busy.
    """

    xp: Any
    place: Any
    budget: int

    def put(self, host: NDArray[Any]) -> Array:
        """An array of the library from NumPy's (without a copy where it can)."""
        host = np.require(host, requirements=["C", "W"])
        return host if self.place is None else self.xp.as_tensor(host, device=self.place)

    def host(self, array: Array) -> NDArray[Any]:
        """NumPy's array from one of the library."""
        return np.asarray(array if self.place is None else array.cpu().numpy())

    def nonzero(self, mask: Array) -> tuple[Array, ...]:
        """Positions of what is true, one array per axis, the first axis slowest."""
        found = np.nonzero(mask) if self.place is None else self.xp.nonzero(mask, as_tuple=True)
        return tuple(found)

    def positive(self, array: Array) -> Array:
        """The positive part."""
        return self.xp.maximum(array, 0.0) if self.place is None else self.xp.clip(array, 0.0, None)

    @contextmanager
    def threads(self, jobs: int) -> Iterator[None]:
        """Use so many threads inside each operation. For NumPy always one: there, whole batches go side by side."""
        if self.place is None:
            with _SINGLE:
                yield
            return
        before = self.xp.get_num_threads()
        self.xp.set_num_threads(jobs)
        try:
            yield
        finally:
            self.xp.set_num_threads(before)


class _Single:
    """Keeps BLAS to one thread while anybody is inside, and gives the others back when the last one leaves."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                from threadpoolctl import threadpool_limits

                self._limits = threadpool_limits(1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


_SINGLE = _Single()


def numpy_backend() -> Backend:
    """NumPy."""
    return Backend(np, None, ON_PROCESSOR)


def backend_of(device: str) -> Backend:
    """The array library that a device name stands for: ``numpy``, ``torch`` (its processor), ``cuda`` or ``cuda:1``.

    Raises:
        MissingExtraError: PyTorch is not installed.
        OptionError: no such device.
    """
    if device == "numpy":
        return numpy_backend()
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", extra="torch", purpose=f"to compute on device {device!r}") from error
    if device == "torch":
        return Backend(torch, torch.device("cpu"), ON_PROCESSOR)
    number = device.partition(":")[2]
    if not torch.cuda.is_available() or int(number or 0) >= torch.cuda.device_count():
        raise OptionError(
            f"PyTorch finds no device {device!r} here",
            mend="device torch or numpy computes on the processor; a GPU takes a PyTorch that is built for it",
        )
    return Backend(torch, torch.device(device), ON_DEVICE)
