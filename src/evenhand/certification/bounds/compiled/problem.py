"""Input arrays and work arrays of the compiled linear method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.compiled.lanes import LANES
from evenhand.certification.bounds.compiled.relaxation import FlatNetwork, relaxation_buffers
from evenhand.certification.bounds.compiled.shares import (
    AttributeAxes,
    BoxFunctions,
    ProofEvents,
    scratch_buffers,
)
from evenhand.certification.query.cells import Cells
from evenhand.certification.query.question import Query
from evenhand.certification.query.rounding import BINARY64_UNIT
from evenhand.core.kernels import array_table, new_arrays
from evenhand.core.typing import Booleans, Floats, Integers

MAX_CELLS = 2_000_000
"""Maximum number of cells of one attribute, for the prefix sums."""
MAX_COMPARISONS = 1024
"""Maximum number of pairs of labels times protected assignments."""
NEAR_EVEN = 1e-6
"""Maximum distance of keys from a line, as a share of its step, for which they are bounded as a line."""
MAX_RANGE_ENTRIES = 2**22
"""Maximum number of entries in each table of range minima and maxima. Longer ranges are read in several runs."""
JOINT_DEPTH = 3
"""Minimum number of hidden layers from which protected assignments are bounded together, by measurement."""


class FunctionRoles(NamedTuple):
    """Meaning of the functions. Function ``beats[a, b] * P + p``: label a beats label b under assignment p.

    Attributes:
        assignments: Number P of assignments.
        labels: Number of labels.
        beats: Index of each pair of labels, shape (labels, labels).
        biases: Biases of the units of the first layer; one row if the assignments are bounded together, else P.
        joint: Whether the assignments are bounded together. Then the assignment is the attribute of the network after
            the unprotected ones.
        least: Minimum number of different labels that counts as unfair treatment.
        demanded: Required label, with one assignment; -1: none. Labels 2k + 1 and 2k + 2 exclude each other.
    """

    assignments: int
    labels: int
    beats: Integers
    biases: Floats
    joint: bool
    least: int
    demanded: int


class CompiledProblem(NamedTuple):
    """Query in the arrays of the compiled kernels of ``expansion``.

    Attributes:
        network: Network. Its last attributes, after the unprotected ones, are not counted.
        roles: Meaning of its outputs.
        axes: Unprotected attributes.
        counts: Number of cells of each.
    """

    network: FlatNetwork
    roles: FunctionRoles
    axes: AttributeAxes
    counts: Integers

    def mass(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> Floats:
        """Compute the share of the population in each box, shape (boxes,)."""
        begins, weight = self.axes.first, self.axes.weight
        inside = weight[begins + high + 1] - weight[begins + low]
        return np.asarray((inside / self.axes.total).prod(axis=1))


def unsupported_reason(query: Query) -> str | None:
    """Describe why the linear method does not support a query. None if it does."""
    comparisons = len(query.pairs) * len(query.biases)
    if comparisons > MAX_COMPARISONS:
        return f"it makes up to {MAX_COMPARISONS} comparisons, and {comparisons} are asked for"
    wide = [cells.attribute.name for cells in query.cells if cells.count > MAX_CELLS]
    return f"attribute {wide[0]!r} has more than {MAX_CELLS:,} values" if wide else None


def compiled_problem_of(query: Query) -> CompiledProblem:
    """Lay a query out in flat arrays. It must have no ``unsupported_reason``."""
    layers = [(layer.weights, layer.bias) for layer in query.layers]
    pads = list(query.slack.pads)
    rounding = lift = 0.0
    if not layers:
        # Without hidden layers, the first unit is the output. Shifted far above zero, it passes a ReLU unchanged.
        reach = np.abs(query.biases).max() + sum(float(cells.size().max()) for cells in query.cells)
        lift = 4.0 * float(reach) + 1.0
        outputs = query.biases.shape[1]
        layers = [(np.eye(outputs), np.full(outputs, -lift))]
        pads = [pads[0], pads[0]]
        rounding = 64 * 2.0**-53 * lift
    sizes = np.array([len(weights) for weights, _ in layers], dtype=np.int64)
    sizes = np.append(sizes, layers[-1][0].shape[1])
    depth, widest = len(layers), int(max(sizes))
    weights = np.zeros((depth, widest, int(max(sizes[1:]))))
    offsets, held_pads, bias_sizes = (np.zeros((depth, widest)) for _ in range(3))
    for k, (matrix, bias) in enumerate(layers):
        weights[k, : matrix.shape[0], : matrix.shape[1]] = matrix
        offsets[k, : len(bias)] = bias
        held_pads[k, : sizes[k]] = pads[k]
        if query.layers:
            bias_sizes[k, : len(bias)] = query.slack.biases[k]
    joint = len(query.biases) > 2 or len(query.layers) >= JOINT_DEPTH
    columns, start, line, reaches, moved, missed = _term_columns(query.cells)
    axes = _attribute_axes(query.cells, start, line, reaches)
    biases = query.biases + moved + lift
    if joint:
        # The assignment is an attribute with bounds, but it is not counted.
        start, line, reaches = np.append(start, len(columns)), np.append(line, False), np.append(reaches, 0.0)
        columns = np.concatenate([columns, biases - biases[0]])
    gammas = np.zeros(depth + 1)
    gammas[: len(query.slack.gammas)] = query.slack.gammas
    largest = sum((cells.size() for cells in query.cells), np.zeros(len(query.slack.base)))
    capped = _capped_units(layers, widest)
    ranged = _pad_rows(columns, widest)
    # Runs that extend into the next attribute are never read.
    widest_table = max(np.diff([*start, len(columns)])[~line], default=1)
    levels = max(1, min(int(widest_table).bit_length(), MAX_RANGE_ENTRIES // ranged.size))
    least, greatest = range_tables(ranged, levels)
    network = FlatNetwork(
        sizes=sizes,
        columns=ranged,
        least=least,
        greatest=greatest,
        start=start,
        line=line,
        reach=reaches,
        weights=weights,
        offsets=offsets,
        pads=held_pads,
        first_error=_pad_rows((query.slack.first(largest) + missed)[None, :], widest)[0],
        gammas=gammas,
        bias_sizes=bias_sizes,
        output_sizes=_pad_rows((query.slack.weights[-1] if query.layers else np.abs(layers[-1][0])).T, widest).T.copy(),
        last_pads=query.slack.decision(np.zeros(len(query.pairs))) + rounding,
        capped=capped,
        capping=np.isin(np.arange(widest), capped),
    )
    return CompiledProblem(
        network=network,
        roles=function_roles_of(query, _pad_rows(biases[:1] if joint else biases, widest), joint),
        axes=axes,
        counts=query.counts,
    )


def function_roles_of(query: Query, biases: Floats, joint: bool) -> FunctionRoles:
    """Build the meaning of the functions of a query from the biases of the first units, one row if ``joint``."""
    return FunctionRoles(
        assignments=len(query.biases),
        labels=len(query.classes),
        beats=_beats_matrix(query.pairs),
        biases=biases,
        joint=joint,
        least=query.least,
        demanded=-1 if query.demanded is None else query.demanded,
    )


def _capped_units(layers: Sequence[tuple[Floats, Floats]], width: int) -> Integers:
    """Find the first unit u with ``z_h = a - relu(z_u)`` that only unit h of the second layer reads, for each h."""
    capped = np.full(width, -1, dtype=np.int64)
    if len(layers) > 1:
        read = layers[0][0] != 0
        for h in np.flatnonzero((read.sum(axis=0) == 1) & (layers[0][1] > 0)):
            u = int(np.argmax(read[:, h]))
            if layers[0][0][u, h] == -1.0 and read[u].sum() == 1:
                capped[h] = u
    return capped


def _beats_matrix(pairs: Integers) -> Integers:
    labels = int(pairs.max()) + 1
    beats = np.zeros((labels, labels), dtype=np.int64)
    for output, (a, b) in enumerate(pairs):
        beats[b, a] = output
        beats[a, b] = len(pairs) + output
    return beats


def _pad_rows(rows: Floats, width: int) -> Floats:
    wide = np.zeros((len(rows), width))
    wide[:, : rows.shape[1]] = rows
    return wide


def _evenly_spaced(cells: Cells) -> bool:
    """Check whether an attribute enters along a line with evenly spaced cells."""
    return cells.scale is not None and cells.scale.keys is None and cells.scale.step > 0


def _term_columns(
    cells: tuple[Cells, ...],
) -> tuple[Floats, Integers, Booleans, Floats, Floats | float, Floats | float]:
    """Compute the columns of all attributes.

    Returns:
        The columns; the first column, kind and reach of each attribute; the terms of lines at their first cell; and the
        maximum distance of terms from lines that fit approximately.
    """
    blocks: list[Floats] = []
    line, reach = [], []
    moved: Floats | float = 0.0
    missed: Floats | float = 0.0
    for each in cells:
        scale, fit = each.scale, _nearly_even(each)
        if fit is not None:
            base, step, miss = fit
            blocks.append(each.rows * step)
            moved = moved + each.rows[0] * base
            missed = missed + np.abs(each.rows[0]) * miss
            reach.append(0.0)
        elif scale is not None and _evenly_spaced(each):
            blocks.append(each.rows * scale.step)
            moved = moved + each.rows[0] * (scale.base - scale.pad)
            reach.append((scale.reach + 2 * scale.pad) / scale.step)
        else:
            blocks.append(each.cell_contributions(np.arange(each.count)))
            reach.append(0.0)
        line.append(fit is not None or _evenly_spaced(each))
    start = np.cumsum([0, *(len(block) for block in blocks)])[:-1].astype(np.int64)
    return np.concatenate(blocks), start, np.array(line, dtype=np.bool_), np.array(reach), moved, missed


def _nearly_even(cells: Cells) -> tuple[float, float, float] | None:
    """Fit the keys of cells by ``base + step * cell``. Return base, step and the maximum distance if it is small."""
    if cells.scale is None or cells.scale.keys is None or cells.count < 2:
        return None
    keys = cells.scale.keys
    base, step = float(keys[0]), float((keys[-1] - keys[0]) / (cells.count - 1))
    miss = float(np.abs(keys - (base + step * np.arange(cells.count))).max())
    # With unit roundoff u, the fit above errs by up to 2 u (|base| + |step| n), its distance from a key by u times its
    # magnitude, and step * row, base * row and their sum by up to 4 u (|base| + |step| n) |row|.
    miss += 8 * BINARY64_UNIT * (abs(base) + abs(step) * cells.count)
    return (base, step, miss) if step > 0 and miss < NEAR_EVEN * step else None


def range_tables(columns: Floats, levels: int) -> tuple[Floats, Floats]:
    """Tabulate the minimum and maximum of the 2**k columns from each column on, shape (levels, columns, m).

    Entries of runs that would extend beyond the last column are meaningless.
    """
    least, greatest = (np.repeat(columns[None], levels, axis=0) for _ in range(2))
    for k in range(1, levels):
        half = 1 << (k - 1)
        for table, extreme in ((least, np.minimum), (greatest, np.maximum)):
            table[k, :-half] = extreme(table[k - 1, :-half], table[k - 1, half:])
    return least, greatest


def _attribute_axes(cells: Sequence[Cells], start: Integers, line: Booleans, reach: Floats) -> AttributeAxes:
    weights, moments, squares = [], [], []
    for each in cells:
        cumulative = each.before(np.arange(each.count + 1)).astype(np.float64)
        weight, position = np.diff(cumulative), np.arange(each.count, dtype=np.float64)
        weights.append(cumulative)
        moments.append(np.concatenate([[0.0], np.cumsum(weight * position)]))
        squares.append(np.concatenate([[0.0], np.cumsum(weight * position**2)]))
    begins = np.cumsum([0, *(each.count + 1 for each in cells)])[:-1].astype(np.int64)
    n = len(cells)
    return AttributeAxes(
        start=start[:n].copy(),
        line=line[:n].copy(),
        reach=reach[:n].copy(),
        first=begins,
        weight=np.concatenate(weights),
        moment=np.concatenate(moments),
        square=np.concatenate(squares),
        total=np.array([float(each.total) for each in cells]),
    )


# Work arrays.


LaneBuffers = array_table(
    "LaneBuffers",
    __name__,
    {
        # Range of each attribute with bounds, and scores of its splits.
        "lo hi score": "float64 held lanes",
        # Cells of one lane's box; scores and widths while its splits are planned.
        "low high width": "int64 attributes",
        "left": "float64 attributes",
        # Mass of each box, and mean and variance of the position in each attribute.
        "mass": "float64 lanes",
        "mean variance": "float64 attributes lanes",
        # Coefficients of each form in two pieces. A form is the part of a function that all assignments share if they
        # are bounded together.
        "g": "float64 forms 2 columns lanes",
        # Above 0 where the two pieces of a form differ. With ``plain`` no function has two pieces.
        "pieces": "float64 forms lanes",
        "plain": "bool 1",
        # Constant, minimum and score of both pieces of each function.
        "constant least zscore": "float64 rows lanes",
        "work": "float64 4 lanes",
        # Functions of one lane, scores of each label, and whether it certainly wins.
        "chosen": "",
        "wins": "float64 labels assignments",
        "sure": "bool labels assignments",
        # Units of one person and their errors, in two layers.
        "unit following miss missing": "float64 units",
        # States of the units in a box that contains those of all lanes, and in each lane.
        "known": "int8 passes layers units",
        "states": "int8 passes layers units lanes",
    },
)
"""Work arrays of one thread. Lanes come last."""


class KernelWorkspace(NamedTuple):
    """All work arrays of one thread except those of proofs: ``LaneBuffers``, ``RelaxationBuffers``, ``ProofEvents``."""

    lanes: Any
    relaxation: Any
    events: Any


BoxArrays = array_table(
    "BoxArrays",
    __name__,
    {
        "low high": "int32 boxes attributes",
        "state": "int8 boxes states",
        "plan": "int8 boxes splits",
        "open mass": "float64 boxes",
        "kind": "int8 boxes",
        "share": "float64 boxes 2",
    },
)
"""Boxes in rows, as a stack or as output; see ``BoxFrontier``. ``share`` are the fair and unfair shares proved."""


class BoundOrder(NamedTuple):
    """Order to split or to prove boxes.

    Attributes:
        plain: Whether every function is one piece, as in the checker.
        threshold, limit: Undecided mass of a part, and number of bounded boxes, at which splitting ends.
        recording: Whether decided parts are kept.
        precision: Grid steps and enumerated joint values of a proof. Zeros split.
    """

    plain: bool
    threshold: float = 0.0
    limit: float = 0.0
    recording: bool = False
    precision: tuple[int, int] = (0, 0)


def kernel_workspace(problem: CompiledProblem) -> tuple[KernelWorkspace, Any]:
    """Allocate the work arrays of a problem, and those of its proofs."""
    net, roles, axes = problem.network, problem.roles, problem.axes
    attributes, columns, units = len(axes.first), len(net.columns), net.weights.shape[1]
    labels, assignments, outputs, passes = len(roles.beats), roles.assignments, int(net.sizes[-1]), len(roles.biases)
    functions = 4 * outputs * assignments
    chosen = new_arrays(BoxFunctions, functions=functions, columns=columns)
    chosen.second[:] = -1
    lanes = new_arrays(
        LaneBuffers,
        held=len(net.start),
        attributes=attributes,
        columns=columns,
        units=units,
        layers=len(net.sizes) - 1,
        passes=passes,
        forms=2 * outputs * passes,
        rows=functions,
        labels=labels,
        assignments=assignments,
        lanes=LANES,
        chosen=chosen,
    )
    events = new_arrays(ProofEvents, events=labels + 2, members=max(2, (labels - 1) * assignments))
    scratch = scratch_buffers(functions, attributes, len(axes.weight) - attributes, *events.member.shape)
    return KernelWorkspace(lanes, relaxation_buffers(net), events), scratch


def state_bytes(problem: CompiledProblem) -> int:
    """Compute the number of unit states of a box: see ``LaneBuffers.known``."""
    depth, widest = len(problem.network.sizes) - 1, problem.network.weights.shape[1]
    return int(len(problem.roles.biases) * depth * widest)
