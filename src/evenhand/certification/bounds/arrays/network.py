"""A query in arrays of the library in use: weights as they are, never padded to a common width."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.compiled.problem import (
    FunctionRoles,
    _attribute_axes,
    _term_columns,
    function_roles_of,
)
from evenhand.certification.bounds.compiled.shares import AttributeAxes
from evenhand.certification.query.question import Query
from evenhand.certification.query.rounding import RoundingError
from evenhand.core.typing import Floats, Integers
from evenhand.errors import MissingExtraError, OptionError

SEPARATE = 4
"""Maximum number of protected assignments that are bounded one by one, which is tighter than together."""
TOGETHER_DEPTH = 3
"""Minimum number of hidden layers from which assignments are always bounded together, because inner units cost most."""
FORWARD_DEPTH = 3
"""Maximum number of hidden layers for which inner units may be bounded forward. Compared with backward bounds, the gap
of the output was 1.3 times (3 layers of 256 units) or twice (1,000 units) as large, at 17 and 9 times the boxes per
second; with 10 layers it would be a hundred times as large."""
FORWARD_GAIN = 8
"""Minimum factor of saved multiplications for which inner units are bounded forward."""


@dataclass(frozen=True)
class TableColumns:
    """An attribute that adds one row per cell.

    Attributes:
        attribute: Index of the attribute.
        begin, end: Range of its cells among the cells of all tables.
        lows, highs: Smallest and largest entry over runs of 1, 2, 4, ... cells, shape (sizes, cells, units).
    """

    attribute: int
    begin: int
    end: int
    lows: Array
    highs: Array

    def extremes(self, lo: Integers, hi: Integers, backend: ArrayBackend) -> tuple[Array, Array]:
        """Compute the smallest and largest terms of cells lo..hi, shape (boxes, units). Two runs cover any range."""
        level = np.frexp(hi - lo + 1)[1] - 1
        second_run = hi + 1 - (1 << level)
        size, a, b = (backend.put(x.astype(np.int64)) for x in (level, lo, second_run))
        return (
            backend.xp.minimum(self.lows[size, a], self.lows[size, b]),
            backend.xp.maximum(self.highs[size, a], self.highs[size, b]),
        )


@dataclass(frozen=True)
class ArrayNetwork:
    """Query as arrays. The columns of lines come first, then those of the cells of tables.

    Attributes:
        columns: Terms of the columns, shape (columns, first units).
        lines: Attributes that enter along a line.
        reach: Width of a cell of theirs in positions.
        tables: Other attributes.
        order: Index of each column in the layout of ``axes``.
        biases: Biases of the first units, for each run of the bounds (one assignment, or all).
        apart: Change of the biases under each assignment, (assignments, first units), if a run covers all. Else None.
        weights, sizes: Weights of later layers, shape (units, next units), and their absolute values.
        offsets, offset_sizes: Biases of these layers, and their absolute values.
        pads, first_error, gammas: See ``RoundingError``.
        roles: Meaning of the functions. Their biases are not padded here.
        forward: Whether functions below and above inner units are propagated forward, layer by layer, instead of
            backward from every unit, which is tighter but costs more in wide networks.
        axes: Unprotected attributes in the layout of proofs.
        slack: Rounding error.
    """

    backend: ArrayBackend
    columns: Array
    lines: Integers
    reach: Floats
    tables: tuple[TableColumns, ...]
    order: Integers
    biases: Array
    apart: Array | None
    weights: tuple[Array, ...]
    sizes: tuple[Array, ...]
    offsets: tuple[Array, ...]
    offset_sizes: tuple[Array, ...]
    pads: tuple[Array, ...]
    first_error: Array
    gammas: Floats
    roles: FunctionRoles
    forward: bool
    axes: AttributeAxes
    slack: RoundingError

    @property
    def depth(self) -> int:
        """Hidden layers."""
        return len(self.weights)

    @property
    def outputs(self) -> int:
        """Margins."""
        return int(self.weights[-1].shape[1] if self.weights else self.columns.shape[1])

    @property
    def widths(self) -> list[int]:
        """Units of each hidden layer."""
        return [int(weight.shape[0]) for weight in self.weights]


def array_network_of(query: Query, backend: ArrayBackend) -> ArrayNetwork:
    """Convert a query to arrays. ``problem.unsupported_reason`` must be None for it."""
    columns, start, line, reach, moved, missed = _term_columns(query.cells)
    lines = np.flatnonzero(line)
    ends = np.append(start[1:], len(columns))
    order = [start[lines]]
    tables: list[TableColumns] = []
    begin = 0
    for i in np.flatnonzero(~line):
        cells = np.arange(start[i], ends[i])
        order.append(cells)
        lows, highs = _run_extremes(columns[cells])
        tables.append(TableColumns(int(i), begin, begin + len(cells), backend.put(lows), backend.put(highs)))
        begin += len(cells)
    placed = np.concatenate(order)
    biases = query.biases + moved
    joint = len(biases) > SEPARATE or (len(query.layers) >= TOGETHER_DEPTH and len(biases) > 1)
    largest = sum((cells.size() for cells in query.cells), np.zeros(len(query.slack.base)))
    return ArrayNetwork(
        backend=backend,
        columns=backend.put(columns[placed]),
        lines=lines,
        reach=reach[lines],
        tables=tuple(tables),
        order=placed,
        biases=backend.put(biases[:1] if joint else biases),
        apart=backend.put(biases - biases[0]) if joint else None,
        weights=tuple(backend.put(layer.weights) for layer in query.layers),
        sizes=tuple(backend.put(sizes) for sizes in query.slack.weights),
        offsets=tuple(backend.put(layer.bias) for layer in query.layers),
        offset_sizes=tuple(backend.put(sizes) for sizes in query.slack.biases),
        pads=tuple(backend.put(pads) for pads in query.slack.pads),
        first_error=backend.put(query.slack.first(largest) + missed),
        gammas=query.slack.gammas,
        roles=function_roles_of(query, biases[:1] if joint else biases, joint),
        forward=_bound_forward([len(layer.weights) for layer in query.layers], len(columns) + len(biases)),
        axes=_attribute_axes(query.cells, start, line, reach),
        slack=query.slack,
    )


def _bound_forward(widths: list[int], rows: int) -> bool:
    """Check whether to bound inner units forward, from the layer widths and the number of terms of a function."""
    if not 3 <= len(widths) <= FORWARD_DEPTH:
        return False
    products = [a * b for a, b in pairwise(widths)]
    backward = sum(widths[k] * sum(products[: k - 1]) for k in range(2, len(widths)))
    return backward >= FORWARD_GAIN * 2 * rows * sum(products[1:])


def _run_extremes(rows: Floats) -> tuple[Floats, Floats]:
    """Least and greatest over each run of 1, 2, 4, ... rows, by where it starts; shape (sizes, rows, units)."""
    lows, highs = [rows], [rows]
    size = 1
    # Invariant: the last arrays cover runs of ``size`` rows, which are shorter near the end.
    while 2 * size <= len(rows):
        low, high = lows[-1].copy(), highs[-1].copy()
        low[:-size] = np.minimum(low[:-size], lows[-1][size:])
        high[:-size] = np.maximum(high[:-size], highs[-1][size:])
        lows.append(low)
        highs.append(high)
        size *= 2
    return np.stack(lows), np.stack(highs)


# The array library in use: NumPy, or PyTorch on a processor or on CUDA.
#
# The code uses the part of the array API standard (https://data-apis.org/array-api) that both libraries share; the few
# functions with another name in PyTorch are methods here. Everything is float64.
#
# Rounding. A sum of n products errs by at most ``gamma_n`` times the sum of their sizes in any order, with or without
# fused multiply-adds (Higham, chapter 3). So the pads of ``slack`` cover BLAS, cuBLAS and any number of threads.
# Reduced precision (TF32 and similar) only applies to float32 and is never used. Results of different libraries or
# numbers of threads may differ in the last digits; each of them is sound.

Array = Any
"""An array of the library in use."""

PROCESSOR_BYTES = 32 << 20
DEVICE_BYTES = 1 << 30


@dataclass(frozen=True)
class ArrayBackend:
    """An array library and a place to compute.

    Attributes:
        xp: Namespace of its functions.
        place: PyTorch's device. None: NumPy.
        budget: Approximate bytes of the work arrays of one step, to fit caches or to occupy a GPU.
    """

    xp: Any
    place: Any
    budget: int

    def put(self, host: NDArray[Any]) -> Array:
        """Convert a NumPy array to the library, without a copy if possible."""
        host = np.require(host, requirements=["C", "W"])
        return host if self.place is None else self.xp.as_tensor(host, device=self.place)

    def host(self, array: Array) -> NDArray[Any]:
        """Convert an array of the library to NumPy."""
        return np.asarray(array if self.place is None else array.cpu().numpy())

    def nonzero(self, mask: Array) -> tuple[Array, ...]:
        """Find the true entries of a mask, with one array of indices per axis, the first axis slowest."""
        indices = np.nonzero(mask) if self.place is None else self.xp.nonzero(mask, as_tuple=True)
        return tuple(indices)

    def positive(self, array: Array) -> Array:
        """Compute the positive part."""
        return self.xp.maximum(array, 0.0) if self.place is None else self.xp.clip(array, 0.0, None)

    @contextmanager
    def threads(self, jobs: int) -> Iterator[None]:
        """Set the number of threads of each operation. NumPy always uses one, because batches run concurrently."""
        if self.place is None:
            with _SINGLE_THREAD:
                yield
            return
        previous = self.xp.get_num_threads()
        self.xp.set_num_threads(jobs)
        try:
            yield
        finally:
            self.xp.set_num_threads(previous)


class _SingleThread:
    """Reentrant context that limits BLAS to one thread."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._libraries: Any = None
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._libraries is None:
                    from threadpoolctl import ThreadpoolController

                    self._libraries = ThreadpoolController()  # to find them takes about as long as a batch of boxes
                self._limits = self._libraries.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


_SINGLE_THREAD = _SingleThread()


def numpy_backend() -> ArrayBackend:
    """Build the NumPy backend."""
    return ArrayBackend(np, None, PROCESSOR_BYTES)


def backend_of(device: str) -> ArrayBackend:
    """Select the array library of a device: ``numpy``, ``torch`` (processor), ``cuda`` or ``cuda:1``.

    Raises:
        MissingExtraError: PyTorch is not installed.
        OptionError: The device is unknown.
    """
    if device == "numpy":
        return numpy_backend()
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", extra="torch", purpose=f"to compute on device {device!r}") from error
    if device == "torch":
        return ArrayBackend(torch, torch.device("cpu"), PROCESSOR_BYTES)
    number = device.partition(":")[2]
    if not torch.cuda.is_available() or int(number or 0) >= torch.cuda.device_count():
        raise OptionError(
            f"PyTorch finds no device {device!r} here",
            hint="device torch or numpy computes on the processor; a GPU takes a PyTorch that is built for it",
        )
    return ArrayBackend(torch, torch.device(device), DEVICE_BYTES)
