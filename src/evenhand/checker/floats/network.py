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

from typing import Any, NamedTuple

import numpy as np

from evenhand.checker.deployed import UNIT_ROUNDOFF, gamma, number_error_of, telling_margins
from evenhand.checker.form import LayeredForm
from evenhand.checker.network import RecordedQuestion
from evenhand.checker.reading import CertificateError
from evenhand.core.kernels import array_table, pack_arrays
from evenhand.core.typing import Integers
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

FloatNetwork = array_table(
    "FloatNetwork",
    __name__,
    {
        # Number of units of each layer before ReLU; the last are the margins.
        "sizes": "int64 depths",
        # Whether an attribute enters affinely (the others have a row per cell); first column; number of cells.
        "line": "bool axes",
        "start counts": "int64 axes",
        # For equal runs of consecutive integers: length of a run (0 for listed cells), first and last integer.
        "values": "int64 axes",
        "first last": "float64 axes",
        # Index of the first listed cell of each attribute in the next arrays. In ``before``, each attribute has one
        # number more.
        "cell": "int64 axes",
        # Smallest and largest entry of each cell, 0 for attributes with rows; integer mass of the cells before it.
        "entry_low entry_high": "float64 cells",
        "before": "int64 cells",
        # Terms of the columns in the first units, their constants, and the maximum of their activations.
        "columns": "float64 units columns",
        "bases": "float64 assignments units",
        "caps": "float64 units",
        # Later layers (to, from), and absolute values of their numbers.
        "weights weight_sizes": "float64 layers units units",
        "biases bias_sizes": "float64 layers units",
        # Bound on the float64 error of each unit's bounds.
        "pads": "float64 depths units",
        # Sizes of the constant terms of the first units, and relative float32 error of the sums of each layer.
        "terms": "float64 units",
        "gammas": "float64 depths",
        # Minimum distance of each margin from zero, in addition to the errors.
        "tie": "float64 margins",
    },
)
"""Network and domain."""


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


def float_network_of(question: RecordedQuestion, form: LayeredForm) -> Any:
    """Convert the network to a ``FloatNetwork``.

    Raises:
        CertificateError: The network or its numbers are too large.
    """
    axes, line = question.axes, [isinstance(part, LineTerm) for part in form.parts]
    # Equal runs of integers need no list of cells.
    runs = [
        axis.cells if affine and axis.cells.form == "runs" and axis.cells.weights is None else None
        for axis, affine in zip(axes, line, strict=True)
    ]
    widths = [1 if affine else axis.count for axis, affine in zip(axes, line, strict=True)]
    listed = [axis.count if run is None else 0 for axis, run in zip(axes, runs, strict=True)]
    if sum(widths) > MAX_COLUMNS or sum(listed) > MAX_CELLS or len(axes) > MAX_AXES:
        raise CertificateError(
            f"the model is too large to check: {len(axes):,} attributes of {sum(listed):,} listed cells, "
            f"{sum(widths):,} columns"
        )
    # Without later layers, the first units are the margins.
    units = [(unit, -1) for unit in range(len(form.bases[0]))] if form.layers else form.margins
    shifts = 0.0 if form.layers else form.shifts
    bases = _fold_columns(np.array(form.bases, dtype=object), units, -1).astype(np.float64) - shifts
    terms = _fold_columns(form.sizes, units, 1).max(axis=0) + np.abs(shifts)
    reach = np.zeros(len(units))
    columns, lows, highs, befores = [], [], [], []
    for axis, part, count in zip(axes, form.parts, listed, strict=True):
        cells = np.arange(count)
        low, high = axis.entries(cells)
        if isinstance(part, LineTerm):
            rows, largest = part.slope[None, :], max(abs(end) for end in axis.cells.extent)
            bases = bases + _fold_columns(part.intercept[None, :], units, -1)
            terms = terms + _fold_columns(np.abs(part.intercept[None, :]), units, 1)[0]
            if axis.cells.form == "even":
                # Three roundings of numbers up to the largest entry.
                low, high = low - 2.0**-50 * largest, high + 2.0**-50 * largest
        else:
            rows, largest = part.at(low), 1.0
            low = high = np.zeros(count)
        columns.append(_fold_columns(rows, units, -1))
        reach = reach + _fold_columns(np.abs(rows), units, 1).max(axis=0) * largest
        lows.append(low)
        highs.append(high)
        befores.append(axis.before(np.arange(count + 1)))
    if any(b >= 0 for _, b in units):
        # The model sums two outputs separately, whose terms may be far larger than those of the difference.
        terms = terms + reach
    depth = len(form.layers)
    sizes = [len(units), *(len(layer.bias) for layer in form.layers[:-1]), *[len(form.margins)] * (depth > 0)]
    widest = max(sizes)
    weights, weight_sizes = np.zeros((2, depth, widest, widest))
    biases, bias_sizes = np.zeros((2, depth, widest))
    magnitudes = [(terms + reach) * UPWARD]
    for k, layer in enumerate(form.layers):
        numbers = np.concatenate([layer.weights, layer.bias[None, :]])
        size = np.abs(numbers)
        if k == depth - 1:
            numbers, size = _fold_columns(numbers, form.margins, -1), _fold_columns(size, form.margins, 1)
            numbers[-1] -= form.shifts
            size[-1] += np.abs(form.shifts)
        weights[k, : sizes[k + 1], : sizes[k]], biases[k, : sizes[k + 1]] = numbers[:-1].T, numbers[-1]
        weight_sizes[k, : sizes[k + 1], : sizes[k]], bias_sizes[k, : sizes[k + 1]] = size[:-1].T, size[-1]
        magnitudes.append((size[:-1].T @ magnitudes[-1] + size[-1]) * UPWARD)
    if not max(float(size.max(initial=0.0)) for size in magnitudes) < MAX_SIZE:
        raise CertificateError("the numbers in the network are too large to check")
    pads = np.zeros((len(sizes), widest))
    for k, size in enumerate(magnitudes):
        pads[k, : len(size)] = 4 * (k + 2) * gamma(widest + sum(widths) + 8, 2.0**-53) * size + UNDERFLOW
    summands = [len(question.network.parts), *(len(layer.weights) for layer in form.layers)]
    gammas = np.array([gamma(n + 8, UNIT_ROUNDOFF) * UPWARD for n in summands])
    if form.differences:
        gammas, tie = 0 * gammas, np.full(len(form.pairs), 2 * number_error_of(question))
    else:
        tie = telling_margins(question, len(form.pairs))
    return pack_arrays(
        FloatNetwork,
        sizes=sizes,
        line=line,
        start=np.cumsum([0, *widths]),
        counts=[axis.count for axis in axes],
        values=[0 if run is None else run.values for run in runs],
        first=[0.0 if run is None else run.first for run in runs],
        last=[0.0 if run is None else run.last for run in runs],
        cell=np.cumsum([0, *listed]),
        entry_low=np.concatenate([*lows, []]),
        entry_high=np.concatenate([*highs, []]),
        before=np.concatenate([*befores, np.zeros(0, dtype=np.int64)]),
        columns=np.concatenate([*columns, np.zeros((0, len(units)))]).T,
        bases=bases,
        caps=[np.inf if cap is None else float(cap) for cap in form.caps]
        if form.layers
        else np.full(len(units), np.inf),
        weights=weights,
        weight_sizes=weight_sizes,
        biases=biases,
        bias_sizes=bias_sizes,
        pads=pads,
        terms=terms * UPWARD,
        gammas=gammas,
        tie=tie,
    )


def _fold_columns(values: Any, pairs: list[tuple[int, int]], sign: int) -> Any:
    """Compute sums (sign 1) or differences (sign -1) of pairs of columns; a second index of -1 selects one column."""
    return np.stack([values[:, a] + (sign * values[:, b] if b >= 0 else 0) for a, b in pairs], axis=1)


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


def count_functions(net: Any, question: BoxQuestion) -> int:
    """Count the functions of a box."""
    return 2 * len(question.pairs) * (2 if question.together else len(net.bases))
