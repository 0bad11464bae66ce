"""A query as arrays, whose weights are not padded to a common width.

A sum of n products has an error of at most ``gamma_n`` times the sum of their absolute values, in any order and with or
without fused multiply-adds (Higham, chapter 3), so the pads of ``slack`` cover BLAS. Results on different processors
may differ in the last digits; all of them are sound.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from evenhand.certification.bounds.compiled.problem import (
    FunctionRoles,
    _attribute_axes,
    _term_columns,
    function_roles_of,
    range_tables,
)
from evenhand.certification.bounds.compiled.shares import AttributeAxes
from evenhand.certification.query.question import Query
from evenhand.certification.query.rounding import RoundingError
from evenhand.core.typing import Floats, Integers

WORK_BYTES = 32 << 20
"""Approximate bytes of the work arrays of one step, to fit caches."""
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
    lows: Floats
    highs: Floats

    def extremes(self, lo: Integers, hi: Integers) -> tuple[Floats, Floats]:
        """Compute the smallest and largest terms of cells lo..hi, shape (boxes, units). Two runs cover any range."""
        level = np.frexp(hi - lo + 1)[1] - 1
        second_run = hi + 1 - (1 << level)
        return (
            np.minimum(self.lows[level, lo], self.lows[level, second_run]),
            np.maximum(self.highs[level, lo], self.highs[level, second_run]),
        )


@dataclass(frozen=True)
class ArrayNetwork:
    """Query as arrays. The columns of lines come first, then those of the cells of tables.

    Attributes:
        columns: Terms of the columns, shape (columns, first units).
        lines: Attributes that enter along a line.
        reach: Width of a cell of each such attribute, in positions.
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

    columns: Floats
    lines: Integers
    reach: Floats
    tables: tuple[TableColumns, ...]
    order: Integers
    biases: Floats
    apart: Floats | None
    weights: tuple[Floats, ...]
    sizes: tuple[Floats, ...]
    offsets: tuple[Floats, ...]
    offset_sizes: tuple[Floats, ...]
    pads: tuple[Floats, ...]
    first_error: Floats
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


def array_network_of(query: Query) -> ArrayNetwork:
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
        lows, highs = range_tables(columns[cells], len(cells).bit_length())
        tables.append(TableColumns(int(i), begin, begin + len(cells), lows, highs))
        begin += len(cells)
    placed = np.concatenate(order)
    biases = query.biases + moved
    joint = len(biases) > SEPARATE or (len(query.layers) >= TOGETHER_DEPTH and len(biases) > 1)
    largest = sum((cells.size() for cells in query.cells), np.zeros(len(query.slack.base)))
    return ArrayNetwork(
        columns=columns[placed],
        lines=lines,
        reach=reach[lines],
        tables=tuple(tables),
        order=placed,
        biases=biases[:1] if joint else biases,
        apart=biases - biases[0] if joint else None,
        weights=tuple(np.ascontiguousarray(layer.weights) for layer in query.layers),
        sizes=query.slack.weights,
        offsets=tuple(layer.bias for layer in query.layers),
        offset_sizes=query.slack.biases,
        pads=query.slack.pads,
        first_error=query.slack.first(largest) + missed,
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


SINGLE_THREAD = _SingleThread()
"""NumPy always uses one thread for an operation, because batches run concurrently."""
