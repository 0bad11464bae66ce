"""Represent a network in float64, with bounds on all rounding errors.

**Our own rounding.** Let u = 2**-53. A sum of n products in floating point, in any order, errs by at most
``gamma(n) * (sum of the sizes of the products)`` with ``gamma(n) = n u / (1 - n u)``. Let s be the sum of the sizes of
all terms of a first unit anywhere in the domain, and S(k) the image of these sizes under ``|weights|`` and ``|bias|``
at layer k. A line of the relaxation has a slope between 0 and 1, so coefficients are at most products of weights in
size; hence at every layer the sum of (size of a coefficient times size of its unit) is at most S(k). The computation of
a function rounds the products of coefficients with weights, the bias and the constants of the lines once per layer, and
finally the products with the terms of the attributes: sums of at most (widest layer + columns + 8) products whose sizes
add up to at most S(k). A rounded slope causes no error because the constant of the line is computed for the rounded
slope. So 4 (k + 2) gamma(widest + columns + 8) S(k) bounds the error of a function of layer k. Half of this bound is
reserved for margin weights that are differences and for rounded magnitudes. It is subtracted once (``pads``).

**The deployed model's rounding**, in float32 with unit roundoff v = 2**-24, as in ``deployed``: a term of a first unit
is rounded at its input, its weight, its product, up to four times in a scaling before, and in at most n additions of n
terms and a bias: n + 8 factors of 1 + d with |d| <= v. Later units propagate the errors of their inputs.

Changes of a number (``form``) have first units that are clamps, min(max(z, 0), cap). The errors of their lines and
caps do not exceed those of ReLU, because a clamp is at most its input and a cap only matters if the input exceeds it.
The float32 error of a change is bounded for the model itself (``deployed.number_error_of``) and subtracted from each
margin.

The sizes added up here are nonnegative float64 numbers; the factor 1 + 2**-30 covers their rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.checker.deployed import fold_columns, number_error_of, telling_margins
from evenhand.checker.form import LayeredForm
from evenhand.checker.kernels import jit
from evenhand.checker.network import CellAxis, RecordedQuestion
from evenhand.checker.reading import CertificateError
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.models.additive.network import LineTerm

MAX_COLUMNS = 2**14
"""Maximum number of columns: cells of attributes with tables, and other attributes."""
MAX_CELLS = 2**25
"""Maximum number of listed cells, with their entries and masses."""
MAX_AXES = 1024
MAX_SIZE = 2.0**100
"""Maximum size of a sum in the network."""
UNDERFLOW = 2.0**-900
"""Upper bound on the loss from products that underflow."""
MAX_SEPARATE = 4
"""Maximum number of joint protected values that are bounded one by one."""
UPWARD = 1 + 2.0**-30


class FloatNetwork(NamedTuple):
    """Network and domain as arrays.

    Attributes:
        sizes: Number of units of each layer before ReLU; the last are the margins.
        line: Whether an attribute enters affinely. The others have a row per cell.
        start: First column of each attribute.
        counts: Number of cells of each attribute.
        values, first, last: For an attribute with equal runs of consecutive integers: length of a run, first and last
            integer. ``values`` is 0 for listed cells.
        cell: Index of the first listed cell of each attribute in ``entry_low``, ``entry_high`` and, plus one per
            attribute, in ``before``.
        entry_low, entry_high: Smallest and largest entry of each cell; 0 for attributes with rows.
        before: Integer mass of the cells before each cell.
        columns: Terms of the columns in the first units, shape (units, columns).
        bases: Constants of the first units, shape (assignments, units).
        caps: Maximum of the activation of each first unit; infinity for ReLU.
        weights, biases: Weights, shape (layers, to, from), and biases, shape (layers, to).
        pads: Bound on the float64 error of each unit's bounds, shape (layers + 1, units).
        terms: Sizes of the constant terms of the first units.
        gammas: Relative float32 error of a sum, per layer of units.
        weight_sizes, bias_sizes: Absolute values of ``weights`` and ``biases``.
        tie: Minimum distance of each margin from zero, in addition to the errors.
    """

    sizes: Integers
    line: Booleans
    start: Integers
    counts: Integers
    values: Integers
    first: Floats
    last: Floats
    cell: Integers
    entry_low: Floats
    entry_high: Floats
    before: Integers
    columns: Floats
    bases: Floats
    caps: Floats
    weights: Floats
    biases: Floats
    pads: Floats
    terms: Floats
    gammas: Floats
    weight_sizes: Floats
    bias_sizes: Floats
    tie: Floats


class BoxQuestion(NamedTuple):
    """Meaning of the margins.

    Attributes:
        pairs: Labels (a, b) of each margin: b beats a if it is positive, shape (margins, 2).
        wins: Functions of one assignment that are positive where a label beats all others, -1 beyond their number,
            shape (labels, most).
        least: Minimum number of different labels that counts as unfair treatment.
        differences: Whether the margins are changes of a number, so that label 0 is required.
        together: Whether all assignments are bounded together.
    """

    pairs: Integers
    wins: Integers
    least: int
    differences: bool
    together: bool


def gamma(terms: int, unit: float) -> float:
    """Compute the relative error bound of a sum of ``terms`` products."""
    return terms * unit / (1 - terms * unit)


@jit
def entry_range(net: FloatNetwork, i: int, cell: int) -> tuple[float, float]:
    """Compute the smallest and the largest entry of a cell of an attribute."""
    if net.values[i] > 0:
        # Integers below 2**53 are exact.
        begin = net.first[i] + cell * net.values[i]
        return begin, min(begin + (net.values[i] - 1), net.last[i])
    return net.entry_low[net.cell[i] + cell], net.entry_high[net.cell[i] + cell]


@jit
def mass_before(net: FloatNetwork, i: int, cell: int) -> int:
    """Compute the integer mass of the cells of an attribute before a cell."""
    if net.values[i] > 0:
        return int(min(cell * net.values[i], int(net.last[i] - net.first[i]) + 1))
    # Running sums have one number more than there are cells, for every attribute.
    return int(net.before[net.cell[i] + i + cell])


def _has_equal_runs(axis: CellAxis) -> bool:
    """Check whether the cells of an attribute are equal runs of integers, which need no list."""
    return isinstance(axis.part, LineTerm) and axis.cells.form == "runs" and axis.cells.weights is None


def entry_bounds(axis: CellAxis, cells: Integers) -> tuple[Floats, Floats]:
    """Compute lower and upper bounds on the entries of each cell."""
    low, high = axis.entries(cells)
    if axis.cells.form == "even":
        # Three roundings of numbers up to the largest entry.
        off = 2.0**-50 * max(abs(end) for end in axis.cells.extent)
        low, high = low - off, high + off
    return low, high


def _require_room(form: LayeredForm) -> None:
    """Check that the network fits in memory."""
    axes = form.axes
    columns = sum(1 if isinstance(axis.part, LineTerm) else axis.count for axis in axes)
    cells = sum(axis.count for axis in axes if not _has_equal_runs(axis))
    if columns > MAX_COLUMNS or cells > MAX_CELLS or len(axes) > MAX_AXES:
        raise CertificateError(
            f"the model is too large to check: {len(axes):,} attributes of {cells:,} listed cells, {columns:,} columns"
        )


def float_network_of(question: RecordedQuestion, form: LayeredForm) -> FloatNetwork:
    """Convert the network to float64.

    Raises:
        CertificateError: The network or its numbers are too large.
    """
    _require_room(form)
    axes = form.axes
    widths = [1 if isinstance(axis.part, LineTerm) else axis.count for axis in axes]
    shifts = form.shifts if not form.layers else np.zeros(len(form.units))
    folded = [
        [float(row[a] - (row[b] if b >= 0 else 0)) - shift for (a, b), shift in zip(form.units, shifts, strict=True)]
        for row in form.bases
    ]
    bases = np.array(folded).reshape(len(form.bases), -1)
    terms = fold_columns(form.sizes, form.units, 1.0).max(axis=0) + np.abs(shifts)
    reach = np.zeros(bases.shape[1])
    parts, lows, highs, befores = [], [], [], []
    for axis in axes:
        cells = np.arange(0 if _has_equal_runs(axis) else axis.count)
        if isinstance(axis.part, LineTerm):
            folded_rows = fold_columns(np.stack([axis.part.slope, axis.part.intercept]), form.units, -1.0)
            bases = bases + folded_rows[1]
            terms = terms + fold_columns(np.abs(axis.part.intercept[None, :]), form.units, 1.0)[0]
            largest = max(abs(end) for end in axis.cells.extent)
            reach = reach + fold_columns(np.abs(axis.part.slope[None, :]), form.units, 1.0)[0] * largest
            parts.append(folded_rows[:1])
            low, high = entry_bounds(axis, cells)
        else:
            rows = axis.part.at(axis.entries(cells)[0])
            parts.append(fold_columns(rows, form.units, -1.0))
            reach = reach + fold_columns(np.abs(rows), form.units, 1.0).max(axis=0)
            low = high = np.zeros(axis.count)
        lows.append(low)
        highs.append(high)
        befores.append(axis.before(np.arange(len(cells) + 1)))
    if any(b >= 0 for _, b in form.units):
        # The model sums two outputs separately, whose terms may be far larger than those of the difference.
        terms = terms + reach
    weights, biases, weight_sizes, bias_sizes = [], [], [], []
    for number, layer in enumerate(form.layers):
        is_last = number == len(form.layers) - 1
        chosen = form.margins if is_last else [(unit, -1) for unit in range(len(layer.bias))]
        stacked = np.concatenate([layer.weights, layer.bias[None, :]])
        folded_rows, size = fold_columns(stacked, chosen, -1.0), fold_columns(np.abs(stacked), chosen, 1.0)
        if is_last:
            folded_rows[-1] -= form.shifts
            size[-1] += np.abs(form.shifts)
        weights.append(folded_rows[:-1].T)
        biases.append(folded_rows[-1])
        weight_sizes.append(size[:-1].T)
        bias_sizes.append(size[-1])
    sizes = [bases.shape[1], *(len(bias) for bias in biases)]
    widest = max(sizes)
    magnitudes = [(terms + reach) * UPWARD]
    for weight, bias in zip(weight_sizes, bias_sizes, strict=True):
        magnitudes.append((weight @ magnitudes[-1] + bias) * UPWARD)
    if not max(float(size.max(initial=0.0)) for size in magnitudes) < MAX_SIZE:
        raise CertificateError("the numbers in the network are too large to check")
    terms_per_sum = widest + sum(widths) + 8
    pads = np.zeros((len(sizes), widest))
    for k, size in enumerate(magnitudes):
        pads[k, : len(size)] = 4 * (k + 2) * gamma(terms_per_sum, 2.0**-53) * size + UNDERFLOW
    count = [len(question.network.parts), *(len(layer.weights) for layer in form.layers)]
    gammas = np.array([gamma(n + 8, 2.0**-24) * UPWARD for n in count])
    if form.differences:
        gammas, tie = 0 * gammas, np.full(len(form.pairs), 2 * number_error_of(question))
    else:
        tie = telling_margins(question, len(form.pairs))
    caps = form.caps if form.layers else (None,) * bases.shape[1]
    runs = [axis.cells if _has_equal_runs(axis) else None for axis in axes]
    nothing = [np.zeros(0)]
    return FloatNetwork(
        sizes=np.array(sizes, dtype=np.int64),
        line=np.array([isinstance(axis.part, LineTerm) for axis in axes], dtype=np.bool_),
        start=np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
        counts=np.array([axis.count for axis in axes], dtype=np.int64),
        values=np.array([0 if each is None else each.values for each in runs], dtype=np.int64),
        first=np.array([0.0 if each is None else each.first for each in runs]),
        last=np.array([0.0 if each is None else each.last for each in runs]),
        cell=np.concatenate([[0], np.cumsum([len(low) for low in lows])]).astype(np.int64),
        entry_low=np.concatenate(lows or nothing),
        entry_high=np.concatenate(highs or nothing),
        before=np.concatenate(befores or [np.zeros(0, dtype=np.int64)]).astype(np.int64),
        columns=np.ascontiguousarray(np.concatenate(parts).T) if parts else np.zeros((bases.shape[1], 0)),
        bases=bases,
        caps=np.array([np.inf if cap is None else float(cap) for cap in caps]),
        weights=_pad_arrays(weights, (widest, widest)),
        biases=_pad_arrays(biases, (widest,)),
        pads=pads,
        terms=terms * UPWARD,
        gammas=gammas,
        weight_sizes=_pad_arrays(weight_sizes, (widest, widest)),
        bias_sizes=_pad_arrays(bias_sizes, (widest,)),
        tie=tie,
    )


def _pad_arrays(arrays: list[Floats], shape: tuple[int, ...]) -> Floats:
    padded = np.zeros((len(arrays), *shape))
    for k, array in enumerate(arrays):
        padded[k][tuple(slice(0, n) for n in array.shape)] = array
    return padded


def box_question_of(form: LayeredForm, least: int, *, separate: bool = False) -> BoxQuestion:
    """Build the question about the margins of boxes.

    Args:
        form: Margins.
        least: Minimum number of different labels that counts as unfair treatment.
        separate: Whether to bound many assignments separately, which is tighter but slower.
    """
    wins: list[list[int]] = [[] for _ in range(1 if form.differences else form.labels)]
    for m, (a, b) in enumerate(form.pairs if not form.differences else ()):
        wins[b].append(2 * m)
        wins[a].append(2 * m + 1)
    padded = np.full((len(wins), max(map(len, wins))), -1, dtype=np.int64)
    for label, functions in enumerate(wins):
        padded[label, : len(functions)] = functions
    together = len(form.bases) > MAX_SEPARATE and len(form.pairs) == 1 and not separate
    return BoxQuestion(np.array(form.pairs, dtype=np.int64), padded, least, form.differences, together)


def count_functions(net: FloatNetwork, question: BoxQuestion) -> int:
    """Count the functions of a box."""
    return 2 * len(question.pairs) * (2 if question.together else len(net.bases))
