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
"""Up to so many protected assignments are bounded one by one, which is tighter; more of them together."""
TOGETHER_DEPTH = 3
"""From so many hidden layers on, they are always bounded together: the bounds of inner units cost most."""
FORWARD_DEPTH = 3
"""Up to so many hidden layers, inner units may be bounded forward. Measured against bounds going backward, the gap of
the output grows to 1.3 times (3 layers of 256 units) or 2 (of 1,000), at 17 and 9 times as many boxes a second; with 10
layers it would grow a hundredfold."""
FORWARD_GAIN = 8
"""They are if it takes so many times fewer multiplications."""


@dataclass(frozen=True)
class TableColumns:
    """An attribute that adds one row per cell.

    Attributes:
        attribute: which.
        begin, end: its place among the cells of all tables.
        lows, highs: least and greatest entry over runs of 1, 2, 4, ... cells, shape (sizes, cells, units).
    """

    attribute: int
    begin: int
    end: int
    lows: Array
    highs: Array

    def extremes(self, lo: Integers, hi: Integers, backend: ArrayBackend) -> tuple[Array, Array]:
        """Return the least and greatest of what cells lo..hi add, shape (boxes, units): two runs cover any range."""
        level = np.frexp(hi - lo + 1)[1] - 1
        last = hi + 1 - (1 << level)
        size, a, b = (backend.put(x.astype(np.int64)) for x in (level, lo, last))
        return (
            backend.xp.minimum(self.lows[size, a], self.lows[size, b]),
            backend.xp.maximum(self.highs[size, a], self.highs[size, b]),
        )


@dataclass(frozen=True)
class ArrayNetwork:
    """A query as arrays. Columns of linear functions are those of lines first, then the cells of tables.

    Attributes:
        columns: (columns, first units).
        lines: attributes that enter along a line.
        reach: how many positions wide a cell of theirs is.
        tables: the other attributes.
        order: where each column stands in the layout of ``axes``.
        biases: per run of the bounds (assignment, or all of them), of the first units.
        apart: (assignments, first units), what each adds to the bias of a run for all; None if runs are separate.
        weights, sizes: per later layer, shape (units, next units); and absolute values.
        offsets, offset_sizes: biases of these layers; and absolute values.
        pads, first_error, gammas: see ``RoundingError``.
        roles: Meaning of the functions; their biases are not padded here.
        forward: whether functions below and above inner units are carried forward, layer by layer, instead of going
            back from every unit: looser, but costs less in wide networks.
        axes: the unprotected attributes, as the proofs of shares read them.
        slack: the rounding slack, for the decision at the end.
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
    """Put a query in arrays. It must have no ``problem.unsupported_reason``."""
    columns, start, line, reach, moved = _term_columns(query.cells)
    lines = np.flatnonzero(line)
    ends = np.append(start[1:], len(columns))
    order = [start[lines]]
    tables: list[TableColumns] = []
    held = 0
    for i in np.flatnonzero(~line):
        cells = np.arange(start[i], ends[i])
        order.append(cells)
        lows, highs = _run_extremes(columns[cells])
        tables.append(TableColumns(int(i), held, held + len(cells), backend.put(lows), backend.put(highs)))
        held += len(cells)
    placed = np.concatenate(order)
    biases = query.biases + moved
    together = len(biases) > SEPARATE or (len(query.layers) >= TOGETHER_DEPTH and len(biases) > 1)
    largest = sum((cells.size() for cells in query.cells), np.zeros(len(query.slack.base)))
    return ArrayNetwork(
        backend=backend,
        columns=backend.put(columns[placed]),
        lines=lines,
        reach=reach[lines],
        tables=tuple(tables),
        order=placed,
        biases=backend.put(biases[:1] if together else biases),
        apart=backend.put(biases - biases[0]) if together else None,
        weights=tuple(backend.put(layer.weights) for layer in query.layers),
        sizes=tuple(backend.put(sizes) for sizes in query.slack.weights),
        offsets=tuple(backend.put(layer.bias) for layer in query.layers),
        offset_sizes=tuple(backend.put(sizes) for sizes in query.slack.biases),
        pads=tuple(backend.put(pads) for pads in query.slack.pads),
        first_error=backend.put(query.slack.first(largest)),
        gammas=query.slack.gammas,
        roles=function_roles_of(query, biases[:1] if together else biases, together),
        forward=_bound_forward([len(layer.weights) for layer in query.layers], len(columns) + len(biases)),
        axes=_attribute_axes(query.cells, start, line, reach),
        slack=query.slack,
    )


def _bound_forward(widths: list[int], rows: int) -> bool:
    """Return whether to bound inner units forward, from the layers' widths and the terms of a function."""
    if not 3 <= len(widths) <= FORWARD_DEPTH:
        return False
    products = [a * b for a, b in pairwise(widths)]
    backward = sum(widths[k] * sum(products[: k - 1]) for k in range(2, len(widths)))
    return backward >= FORWARD_GAIN * 2 * rows * sum(products[1:])


def _run_extremes(rows: Floats) -> tuple[Floats, Floats]:
    """Least and greatest over each run of 1, 2, 4, ... rows, by where it starts; shape (sizes, rows, units)."""
    lows, highs = [rows], [rows]
    size = 1
    # Invariant: the last arrays are of runs of ``size`` rows; near the end, of what is left of them.
    while 2 * size <= len(rows):
        low, high = lows[-1].copy(), highs[-1].copy()
        low[:-size] = np.minimum(low[:-size], lows[-1][size:])
        high[:-size] = np.maximum(high[:-size], highs[-1][size:])
        lows.append(low)
        highs.append(high)
        size *= 2
    return np.stack(lows), np.stack(highs)


# The array library in use. What is written over it runs on NumPy and on PyTorch, on a processor or on CUDA.
#
# The code keeps to what the array API standard (https://data-apis.org/array-api) has in common with both libraries;
# the
# few calls that PyTorch spells in its own way are methods here. Everything is float64.
#
# Rounding. A sum of n products errs by at most ``gamma_n`` times the sum of their sizes in whatever order it is
# formed,
# with fused multiply-adds or without (Higham, chapter 3): BLAS, cuBLAS and any number of threads are covered by the
# pads
# of ``slack``. Reduced precision (TF32 and the like) applies to float32 alone and is never in use. Results of
# different
# libraries or numbers of threads may differ in the last digits; each of them is sound.

Array = Any
"""An array of the library in use."""

PROCESSOR_BYTES = 32 << 20
DEVICE_BYTES = 1 << 30


@dataclass(frozen=True)
class ArrayBackend:
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
        """Return an array of the library from NumPy's (without a copy where it can)."""
        host = np.require(host, requirements=["C", "W"])
        return host if self.place is None else self.xp.as_tensor(host, device=self.place)

    def host(self, array: Array) -> NDArray[Any]:
        """NumPy's array from one of the library."""
        return np.asarray(array if self.place is None else array.cpu().numpy())

    def nonzero(self, mask: Array) -> tuple[Array, ...]:
        """Return the positions of what is true, one array per axis, the first axis slowest."""
        found = np.nonzero(mask) if self.place is None else self.xp.nonzero(mask, as_tuple=True)
        return tuple(found)

    def positive(self, array: Array) -> Array:
        """Return the positive part."""
        return self.xp.maximum(array, 0.0) if self.place is None else self.xp.clip(array, 0.0, None)

    @contextmanager
    def threads(self, jobs: int) -> Iterator[None]:
        """Use so many threads inside each operation. For NumPy always one: there, whole batches go side by side."""
        if self.place is None:
            with _SINGLE_THREAD:
                yield
            return
        before = self.xp.get_num_threads()
        self.xp.set_num_threads(jobs)
        try:
            yield
        finally:
            self.xp.set_num_threads(before)


class _SingleThread:
    """Keeps BLAS to one thread while anybody is inside, and gives the others back when the last one leaves."""

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
    """NumPy."""
    return ArrayBackend(np, None, PROCESSOR_BYTES)


def backend_of(device: str) -> ArrayBackend:
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
        return ArrayBackend(torch, torch.device("cpu"), PROCESSOR_BYTES)
    number = device.partition(":")[2]
    if not torch.cuda.is_available() or int(number or 0) >= torch.cuda.device_count():
        raise OptionError(
            f"PyTorch finds no device {device!r} here",
            hint="device torch or numpy computes on the processor; a GPU takes a PyTorch that is built for it",
        )
    return ArrayBackend(torch, torch.device(device), DEVICE_BYTES)
