"""A query in the flat arrays that the compiled linear method reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.cells import Cells
from evenhand.certify.query import Query
from evenhand.certify.relaxation import Network
from evenhand.certify.shares import Axes
from evenhand.certify.workbench import Roles

Floats = NDArray[np.float64]

MAX_CELLS = 2_000_000
"""Cells of one attribute that prefix sums are kept for."""
MAX_COMPARISONS = 1024
"""Pairs of labels, times protected assignments."""
JOINT_DEPTH = 3
"""From this many hidden layers on, the protected assignments are bounded together: measured, it pays there."""


@dataclass(frozen=True)
class Problem:
    """What the compiled kernels of ``expansion`` need to know.

    Attributes:
        network: the network; after the unprotected attributes come those that are bounded over but not counted.
        roles: what its outputs say about labels and assignments.
        axes: the unprotected attributes.
        counts: cells of each.
    """

    network: Network
    roles: Roles
    axes: Axes
    counts: NDArray[np.int64]

    def mass(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> Floats:
        """Share of the population in each box, shape (boxes,)."""
        first, weight = self.axes.first, self.axes.weight
        inside = weight[first + high + 1] - weight[first + low]
        return np.asarray((inside / self.axes.total).prod(axis=1))


def unsupported(query: Query) -> str | None:
    """Why the linear method cannot take a query, None if it can."""
    comparisons = len(query.pairs) * len(query.assignments)
    if comparisons > MAX_COMPARISONS:
        return f"it makes up to {MAX_COMPARISONS} comparisons, and {comparisons} are asked for"
    uneven = [
        cells.attribute.name
        for cells, tolerance in zip(query.cells, query.tolerance, strict=True)
        if tolerance and not _even(cells)
    ]
    if uneven:
        return f"the relaxed attribute {uneven[0]!r} does not enter along a line"
    wide = [cells.attribute.name for cells in query.cells if cells.count > MAX_CELLS]
    return f"attribute {wide[0]!r} has more than {MAX_CELLS:,} values" if wide else None


def problem_of(query: Query) -> Problem:
    """Lay a query out in flat arrays. It must not be ``unsupported``."""
    layers = [(layer.weights, layer.bias) for layer in query.layers]
    pads = list(query.slack.pads)
    rounding = 0.0
    lift = 0.0
    if not layers:
        # Without hidden layers the first unit is the answer. Lifted far above zero it passes a ReLU unchanged.
        reach = np.abs(query.biases).max() + sum(float(cells.size().max()) for cells in query.cells)
        lift = 4.0 * float(reach) + 1.0
        outputs = query.biases.shape[1]
        layers = [(np.eye(outputs), np.full(outputs, -lift))]
        pads = [pads[0], pads[0]]
        rounding = 64 * 2.0**-53 * lift
    sizes = np.array([len(weights) for weights, _ in layers], dtype=np.int64)
    sizes = np.append(sizes, layers[-1][0].shape[1])
    depth, most = len(layers), int(max(sizes))
    weights = np.zeros((depth, most, most))
    offsets, held_pads, bias_sizes = (np.zeros((depth, most)) for _ in range(3))
    for k, (matrix, bias) in enumerate(layers):
        weights[k, : matrix.shape[0], : matrix.shape[1]] = matrix
        offsets[k, : len(bias)] = bias
        held_pads[k, : sizes[k]] = pads[k]
        if query.layers:
            bias_sizes[k, : len(bias)] = query.slack.biases[k]
    relaxed = np.flatnonzero(query.tolerance)
    joint = len(query.assignments) > 2 or len(query.layers) >= JOINT_DEPTH or len(relaxed) > 0
    columns, start, line, reaches, moved = _columns(query.cells)
    axes = _axes(query.cells, start, line, reaches)
    biases = query.biases + moved + lift
    if joint:
        # What is bounded over but not counted: the assignment, and how far people within the tolerances are apart.
        slopes = columns[start[relaxed]]
        start = np.concatenate([start, [len(columns)], len(columns) + len(biases) + np.arange(len(relaxed))])
        line = np.concatenate([line, [False], np.ones(len(relaxed), dtype=np.bool_)])
        reaches = np.concatenate([reaches, np.zeros(1 + len(relaxed))])
        columns = np.concatenate([columns, biases - biases[0], slopes])
    if len(relaxed):
        # Somebody's neighbours may lie outside the domain for the bounds, where terms are up to twice as large.
        pads = [2 * pad for pad in pads]
        rounding += float(pads[-1].max())
    gammas = np.zeros(depth + 1)
    gammas[: len(query.slack.gammas)] = query.slack.gammas
    largest = sum((cells.size() for cells in query.cells), np.zeros(len(query.slack.base)))
    network = Network(
        sizes=sizes,
        columns=_widened(columns, most),
        start=start,
        line=line,
        reach=reaches,
        weights=weights,
        offsets=offsets,
        pads=held_pads,
        first_error=_widened(query.slack.first(largest)[None, :], most)[0],
        gammas=gammas,
        bias_sizes=bias_sizes,
        output_sizes=_widened((query.slack.weights[-1] if query.layers else np.abs(layers[-1][0])).T, most).T.copy(),
        last_pads=query.slack.decision(np.zeros(len(query.pairs))) + rounding,
    )
    return Problem(
        network=network,
        roles=Roles(
            assignments=len(query.assignments),
            labels=len(query.network.classes),
            beats=_beats(query.pairs),
            biases=_widened(biases[:1] if joint else biases, most),
            joint=joint,
            relaxed=relaxed,
            tolerance=query.tolerance[relaxed].astype(np.float64),
            last=(query.counts[relaxed] - 1).astype(np.float64),
        ),
        axes=axes,
        counts=query.counts,
    )


def _beats(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    labels = int(pairs.max()) + 1
    beats = np.zeros((labels, labels), dtype=np.int64)
    for output, (a, b) in enumerate(pairs):
        beats[b, a] = output
        beats[a, b] = len(pairs) + output
    return beats


def _widened(rows: Floats, width: int) -> Floats:
    wide = np.zeros((len(rows), width))
    wide[:, : rows.shape[1]] = rows
    return wide


def _even(cells: Cells) -> bool:
    """Whether an attribute enters along a line on which its cells are evenly spaced."""
    return cells.scale is not None and cells.scale.keys is None and cells.scale.step > 0


def _columns(
    cells: tuple[Cells, ...],
) -> tuple[Floats, NDArray[np.int64], NDArray[np.bool_], Floats, Floats | float]:
    """Columns, first column, line or not, and reach of each attribute; and what lines add at their first cell."""
    blocks: list[Floats] = []
    line, reach = [], []
    moved: Floats | float = 0.0
    for each in cells:
        scale = each.scale
        even = _even(each)
        if scale is not None and even:
            blocks.append(each.rows * scale.step)
            moved = moved + each.rows[0] * (scale.base - scale.pad)
            reach.append((scale.reach + 2 * scale.pad) / scale.step)
        else:
            blocks.append(each.contributions(np.arange(each.count)))
            reach.append(0.0)
        line.append(even)
    start = np.cumsum([0, *(len(block) for block in blocks)])[:-1].astype(np.int64)
    return np.concatenate(blocks), start, np.array(line, dtype=np.bool_), np.array(reach), moved


def _axes(cells: tuple[Cells, ...], start: NDArray[np.int64], line: NDArray[np.bool_], reach: Floats) -> Axes:
    weights, moments, squares = [], [], []
    for each in cells:
        before = each.before(np.arange(each.count + 1)).astype(np.float64)
        weight, position = np.diff(before), np.arange(each.count, dtype=np.float64)
        weights.append(before)
        moments.append(np.concatenate([[0.0], np.cumsum(weight * position)]))
        squares.append(np.concatenate([[0.0], np.cumsum(weight * position**2)]))
    first = np.cumsum([0, *(each.count + 1 for each in cells)])[:-1].astype(np.int64)
    n = len(cells)
    return Axes(
        start=start[:n].copy(),
        line=line[:n].copy(),
        reach=reach[:n].copy(),
        first=first,
        weight=np.concatenate(weights),
        moment=np.concatenate(moments),
        square=np.concatenate(squares),
        total=np.array([float(each.total) for each in cells]),
    )
