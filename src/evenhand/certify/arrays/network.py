"""A query in arrays of the library in use: weights as they are, never padded to a common width."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.arrays.backend import Array, Backend
from evenhand.certify.problem import _axes, _beats, _columns
from evenhand.certify.query import Query
from evenhand.certify.shares import Axes
from evenhand.certify.slack import Slack

Floats = NDArray[np.float64]

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
class Table:
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

    def extremes(self, lo: NDArray[np.int64], hi: NDArray[np.int64], backend: Backend) -> tuple[Array, Array]:
        """Least and greatest of what cells lo..hi add, shape (boxes, units): two runs cover any range."""
        level = np.frexp(hi - lo + 1)[1] - 1
        last = hi + 1 - (1 << level)
        size, a, b = (backend.put(x.astype(np.int64)) for x in (level, lo, last))
        return (
            backend.xp.minimum(self.lows[size, a], self.lows[size, b]),
            backend.xp.maximum(self.highs[size, a], self.highs[size, b]),
        )


@dataclass(frozen=True)
class Network:
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
        pads, first_error, gammas: see ``slack.Slack``.
        assignments: how many.
        beats: (labels, labels), which function says that the first label beats the second: an output, or past all of
            them an output negated.
        forward: whether functions below and above inner units are carried forward, layer by layer, instead of going
            back from every unit: looser, but costs less in wide networks.
        axes: the unprotected attributes, as the proofs of shares read them.
        slack: the rounding slack, for the decision at the end.
    """

    backend: Backend
    columns: Array
    lines: NDArray[np.int64]
    reach: Floats
    tables: tuple[Table, ...]
    order: NDArray[np.int64]
    biases: Array
    apart: Array | None
    weights: tuple[Array, ...]
    sizes: tuple[Array, ...]
    offsets: tuple[Array, ...]
    offset_sizes: tuple[Array, ...]
    pads: tuple[Array, ...]
    first_error: Array
    gammas: Floats
    assignments: int
    beats: NDArray[np.int64]
    forward: bool
    axes: Axes
    slack: Slack

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


def network_of(query: Query, backend: Backend) -> Network:
    """Put a query in arrays. It must not be ``problem.unsupported``."""
    columns, start, line, reach, moved = _columns(query.cells)
    lines = np.flatnonzero(line)
    ends = np.append(start[1:], len(columns))
    order = [start[lines]]
    tables: list[Table] = []
    held = 0
    for i in np.flatnonzero(~line):
        cells = np.arange(start[i], ends[i])
        order.append(cells)
        lows, highs = _runs(columns[cells])
        tables.append(Table(int(i), held, held + len(cells), backend.put(lows), backend.put(highs)))
        held += len(cells)
    placed = np.concatenate(order)
    biases = query.biases + moved
    together = len(biases) > SEPARATE or (len(query.layers) >= TOGETHER_DEPTH and len(biases) > 1)
    largest = sum((cells.size() for cells in query.cells), np.zeros(len(query.slack.base)))
    return Network(
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
        assignments=len(biases),
        beats=_beats(query.pairs),
        forward=_forward([len(layer.weights) for layer in query.layers], len(columns) + len(biases)),
        axes=_axes(query.cells, start, line, reach),
        slack=query.slack,
    )


def _forward(widths: list[int], rows: int) -> bool:
    """Whether to bound inner units forward, from the layers' widths and the terms of a function."""
    if not 3 <= len(widths) <= FORWARD_DEPTH:
        return False
    products = [a * b for a, b in pairwise(widths)]
    backward = sum(widths[k] * sum(products[: k - 1]) for k in range(2, len(widths)))
    return backward >= FORWARD_GAIN * 2 * rows * sum(products[1:])


def _runs(rows: Floats) -> tuple[Floats, Floats]:
    """Least and greatest over each run of 1, 2, 4, ... rows, by where it starts; shape (sizes, rows, units)."""
    lows, highs = [rows], [rows]
    size = 1
    while 2 * size <= len(rows):
        low, high = lows[-1].copy(), highs[-1].copy()
        low[:-size] = np.minimum(low[:-size], lows[-1][size:])
        high[:-size] = np.maximum(high[:-size], highs[-1][size:])
        lows.append(low)
        highs.append(high)
        size *= 2
    return np.stack(lows), np.stack(highs)
