"""The network in fixed point: integers only, every quantity at most 1 in size, so that nothing can overflow.

ReLU commutes with positive factors. Dividing every unit by a power of two that bounds the sum of the sizes of its
terms over a part of the domain gives an equivalent network there in which all units, and all sums of coefficients on
the way back, are at most 1. A number x of it is held as the integer nearest to ``x * 2**bits``. With 29 bits, products
take 58 and fit into 64-bit integers with room for 32 terms of full size; with more bits the same code runs on Python's
integers. Whatever is lost by holding a number to so many bits is added to the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.deployed import Float32Errors, exponent_of, fold_sizes
from evenhand.checker.form import LayeredForm
from evenhand.checker.network import CellAxis, exact_line, exact_terms
from evenhand.models import LineTerm

FAST_BITS = 29
"""Bits of the 64-bit form."""
SLOW_BITS = 96
"""Bits of the form in Python's integers."""
MAX_LAYERS = 16
"""Hidden layers that the 64-bit form has room for."""

Integers: TypeAlias = NDArray[Any]
"""int64, or Python's integers as objects."""


class PrecisionExceeded(Exception):  # noqa: N818 - no error of the user: another form is used
    """Numbers do not fit into so many bits."""


@dataclass(frozen=True)
class LinearAxis:
    """An axis that adds ``slope * position`` to the first units: position from 0 to 1 from cell ``start`` on."""

    axis: CellAxis
    slope: Integers
    exponent: int
    start: int
    origin: Fraction

    def positions(self, cells: NDArray[np.integer], bits: int) -> tuple[Integers, Integers]:
        """Return ends of each cell, rounded outward, in ``bits``. They rise or fall along the axis."""
        form = self.axis.cells
        if form.form == "even":
            own = cells.astype(np.int64) if self.axis.kept is None else self.axis.kept[cells]
            first = self.start if self.axis.kept is None else int(self.axis.kept[self.start])
            width = scale_fraction(Fraction(form.last) - Fraction(form.first), self.exponent, bits)
            steps = (own - first).astype(object) if bits > FAST_BITS else own - first
            return (width - 1) * steps // form.count, -(-(width + 1) * (steps + 1) // form.count)
        low, high = self.axis.entries(cells)
        origin = float(self.origin)
        if self.axis.attribute.size is not None:
            # Differences of whole numbers below 2**53 are exact.
            return (
                _round_shifted(low - origin, bits - self.exponent, bits, up=False),
                _round_shifted(high - origin, bits - self.exponent, bits, up=True),
            )
        start = scale_fraction(self.origin, self.exponent, bits)
        return (
            _round_shifted(low, bits - self.exponent, bits, up=False) - (start + 1),
            _round_shifted(high, bits - self.exponent, bits, up=True) - (start - 1),
        )


@dataclass(frozen=True)
class TableAxis:
    """An axis of which every cell adds a row of its own; ``tables[k]`` bounds 2**k neighbours from below and above."""

    axis: CellAxis
    rows: Integers
    least: tuple[Integers, ...]
    most: tuple[Integers, ...]

    def range(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> tuple[Integers, Integers]:
        """Return the smallest and largest contribution in ranges of cells, shape (n, units)."""
        levels = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        least, most = np.empty((2, len(low), self.rows.shape[1]), dtype=self.rows.dtype)
        for level in np.unique(levels):
            here = levels == level
            # Two runs of 2**level neighbours, which may overlap, cover the range.
            a, b = low[here], high[here] - (1 << level) + 1
            least[here] = np.minimum(self.least[level][a], self.least[level][b])
            most[here] = np.maximum(self.most[level][a], self.most[level][b])
        return least, most


@dataclass(frozen=True)
class FixedPointLayer:
    """An affine map: ``weights`` (outputs, inputs) and ``bias``, each off by at most one unit of the last place."""

    weights: Integers
    bias: Integers


@dataclass(frozen=True)
class FixedPointNetwork:
    """The network in fixed point.

    Attributes:
        bits: of every number.
        axes: what the attributes add to the first units.
        bases: (assignments, units), the rest.
        margin: units of the last place that a first unit may be off.
        layers: after the first; the last gives the margins.
        caps: per first unit the most that its activation lets through, off by at most one unit of the last place; None
            where nothing has an end.
        form: what this is of.
        deployed: rounding of the model as it runs; of numbers, by how much a change may be off.
        exponents: per layer of units the powers of two that they are divided by.
    """

    bits: int
    axes: tuple[LinearAxis | TableAxis, ...]
    bases: Integers
    margin: int
    layers: tuple[FixedPointLayer, ...]
    caps: Integers | None
    form: LayeredForm
    deployed: Float32Errors | Fraction
    exponents: tuple[NDArray[np.int64], ...]


def fixed_point_of(
    form: LayeredForm,
    deployed: Float32Errors | Fraction,
    bits: int,
    low: NDArray[np.int64] | None = None,
    high: NDArray[np.int64] | None = None,
) -> FixedPointNetwork:
    """Bring the network of a question to fixed point, for a box or for the whole domain.

    Raises:
        TooFarApart: the network's numbers need more bits.
    """
    if low is None or high is None:
        low = np.zeros(len(form.axes), dtype=np.int64)
        high = np.array([axis.count - 1 for axis in form.axes], dtype=np.int64)
    first, folds = form.units, form.margins
    strips = [_linear_extent(axis, int(low[i]), int(high[i])) for i, axis in enumerate(form.axes)]
    corner = _corner_units(form, strips, low)
    reach = np.zeros(len(first))
    for i, (axis, strip) in enumerate(zip(form.axes, strips, strict=True)):
        if strip is not None and isinstance(axis.part, LineTerm):
            reach += fold_sizes(np.abs(axis.part.slope)[None, :], first)[0] * 2.0 ** strip[0]
        else:
            reach += np.abs(_row_changes(axis, first, int(low[i]), int(high[i]))).max(axis=0)
    sizes = np.array([[abs(float(value)) for value in row] for row in corner]).max(axis=0)
    exponents = [exponent_of(sizes + reach)]
    # Units that may be on somewhere, with room for the rounding of these float64s.
    alive = (
        np.array([max(float(row[k]) for row in corner) for k in range(len(first))]) + reach * (1 + 2.0**-20)
        > -(2.0**-20) * sizes
    )
    if not form.layers:
        alive[:] = True
    axes = tuple(
        _fixed_axis(axis, strip, first, exponents[0], bits, int(low[i]), int(high[i]))
        for i, (axis, strip) in enumerate(zip(form.axes, strips, strict=True))
    )
    bases = np.array(
        [[scale_fraction(value, int(e), bits) for value, e in zip(row, exponents[0], strict=True)] for row in corner],
        dtype=object,
    )
    layers = []
    for number, layer in enumerate(form.layers):
        last = number == len(form.layers) - 1
        chosen = folds if last else [(unit, -1) for unit in range(len(layer.bias))]
        matrix = layer.weights
        if number == 0:
            # Units that are off in all of the box add nothing, and so their weights do not matter.
            matrix = np.where(alive[:, None], matrix, 0.0)
        bound = (
            np.ldexp(1.0, exponents[-1]) @ fold_sizes(np.abs(matrix), chosen)
            + fold_sizes(np.abs(layer.bias)[None, :], chosen)[0]
        )
        exponents.append(exponent_of(bound + (np.abs(form.shifts) if last else 0.0)))
        weights = _fold_columns(matrix, chosen, exponents[-1] - exponents[-2][:, None], bits).T
        bias = _fold_columns(layer.bias[None, :], chosen, exponents[-1], bits)[0]
        if last and form.shifts.any():
            bias = bias - np.array(
                [
                    scale_fraction(Fraction(shift), int(e), bits)
                    for shift, e in zip(form.shifts.tolist(), exponents[-1], strict=True)
                ],
                dtype=bias.dtype,
            )
        layers.append(FixedPointLayer(np.ascontiguousarray(weights), bias))
    return FixedPointNetwork(
        bits=bits,
        axes=axes,
        bases=bases if bits > FAST_BITS else bases.astype(np.int64),
        margin=2 * len(axes) + 2,
        layers=tuple(layers),
        caps=_fixed_caps(form, exponents[0], bits),
        form=form,
        deployed=deployed,
        exponents=tuple(exponents),
    )


def _linear_extent(axis: CellAxis, low: int, high: int) -> tuple[int, Fraction] | None:
    """Power of two above the width of a range of cells of an attribute that enters affinely, and where it begins."""
    if not isinstance(axis.part, LineTerm):
        return None
    ends = [entry for each in axis.entries(np.array([low, high])) for entry in each.tolist()]
    form = axis.cells
    if form.form == "even":
        cell = low if axis.kept is None else int(axis.kept[low])
        origin = Fraction(form.first) + (Fraction(form.last) - Fraction(form.first)) * cell / form.count
    else:
        origin = Fraction(min(ends))
    least = 1.0 if axis.attribute.size is not None else max(abs(end) for end in ends) * 2.0**-20
    return int(np.frexp(max(max(ends) - min(ends), least, 2.0**-300))[1]) + 1, origin


def _corner_units(
    form: LayeredForm, strips: list[tuple[int, Fraction] | None], low: NDArray[np.int64]
) -> list[list[Fraction]]:
    """Return what the first units are at the first cell of everything, exactly, under each assignment."""
    added = [Fraction(0)] * len(form.bases[0])
    for i, (axis, strip) in enumerate(zip(form.axes, strips, strict=True)):
        if strip is not None:
            terms = exact_line(axis.part, strip[1])
        else:
            terms = exact_terms(axis.part, float(axis.entries(low[i : i + 1])[0][0]))[0]
        added = [a + b for a, b in zip(added, terms, strict=True)]
    shifts = [0.0] * len(form.units) if form.layers else form.shifts.tolist()
    rows = [[a + b for a, b in zip(row, added, strict=True)] for row in form.bases]
    return [
        [
            row[plus] - (row[minus] if minus >= 0 else 0) - Fraction(shift)
            for (plus, minus), shift in zip(form.units, shifts, strict=True)
        ]
        for row in rows
    ]


def _fixed_caps(form: LayeredForm, exponents: NDArray[np.int64], bits: int) -> Integers | None:
    """Return the caps of first units, where there are any; units without one get more than any unit reaches."""
    if all(cap is None for cap in form.caps):
        return None
    caps = [
        1 << (bits + 1) if cap is None else min(1 << (bits + 1), scale_fraction(cap, int(e), bits))
        for cap, e in zip(form.caps, exponents, strict=True)
    ]
    return np.array(caps, dtype=object if bits > FAST_BITS else np.int64)


def _row_changes(axis: CellAxis, first: list[tuple[int, int]], low: int, high: int) -> NDArray[np.float64]:
    """Return how far the rows of a range of cells are from the first of them, (cells, units)."""
    rows = axis.part.at(axis.entries(np.arange(low, high + 1))[0])
    change = rows - rows[0]
    return np.stack([change[:, a] - (change[:, b] if b >= 0 else 0.0) for a, b in first], axis=1)


def _fixed_axis(
    axis: CellAxis,
    strip: tuple[int, Fraction] | None,
    first: list[tuple[int, int]],
    exponents: NDArray[np.int64],
    bits: int,
    low: int,
    high: int,
) -> LinearAxis | TableAxis:
    part = axis.part
    if strip is not None and isinstance(part, LineTerm):
        slope = _fold_columns(part.slope[None, :], first, exponents - strip[0], bits)[0]
        return LinearAxis(axis, slope, strip[0], low, strip[1])
    rows = part.at(axis.entries(np.arange(low, high + 1))[0])
    if bits > FAST_BITS:
        exact = [[Fraction(float(row[a])) - Fraction(float(rows[0][a])) for a in range(rows.shape[1])] for row in rows]
        inside = np.array(
            [
                [
                    scale_fraction(row[a] - (row[b] if b >= 0 else 0), int(e), bits)
                    for (a, b), e in zip(first, exponents, strict=True)
                ]
                for row in exact
            ],
            dtype=object,
        )
    else:
        # Three roundings of float64 are less than a unit of the last place unless the rows are far larger than that.
        largest = fold_sizes(np.abs(rows), first).max(axis=0)
        changed = fold_sizes(np.abs(rows - rows[0]), first).any(axis=0)
        if (changed & (largest > np.ldexp(1.0, exponents + (50 - bits)))).any():
            raise PrecisionExceeded
        change = _row_changes(axis, first, low, high)
        inside = np.stack([_round_nearest(change[:, k], bits - int(e), bits) for k, e in enumerate(exponents)], axis=1)
    held = np.zeros((axis.count, len(first)), dtype=inside.dtype)
    held[low : high + 1] = inside
    least, most = [held], [held]
    while 2 << (len(least) - 1) <= len(held):
        step = 1 << (len(least) - 1)
        least.append(np.minimum(least[-1][:-step], least[-1][step:]))
        most.append(np.maximum(most[-1][:-step], most[-1][step:]))
    return TableAxis(axis, held, tuple(least), tuple(most))


def scale_fraction(value: Fraction, exponent: int, bits: int) -> int:
    """Return the integer nearest to ``value / 2**exponent * 2**bits``."""
    return round(value * Fraction(2) ** (bits - exponent))


def _fold_columns(
    values: NDArray[np.float64], folds: list[tuple[int, int]], exponents: NDArray[np.int64], bits: int
) -> Integers:
    """Return the columns, or differences of two, divided by powers of two, as nearest integers."""
    columns = []
    for unit, (plus, minus) in enumerate(folds):
        exponent = exponents[..., unit]
        column = _round_nearest(values[:, plus], bits - exponent, bits)
        if minus >= 0:
            column = column - _round_nearest(values[:, minus], bits - exponent, bits)
        columns.append(column)
    return np.stack(columns, axis=1)


def _round_nearest(values: NDArray[np.float64], shift: Any, bits: int) -> Integers:
    if bits <= FAST_BITS:
        # A power of two changes no digit, and numbers this small are exact integers in float64.
        found = np.rint(np.ldexp(values, np.asarray(shift, dtype=np.int32)))
        if not (np.abs(found) <= 2.0 ** (bits + 1)).all():
            raise PrecisionExceeded
        return found.astype(np.int64)
    pairs = np.broadcast_arrays(values, shift)
    exact = [
        round(Fraction(float(x)) * Fraction(2) ** int(s))
        for x, s in zip(pairs[0].ravel(), pairs[1].ravel(), strict=True)
    ]
    return np.array(exact, dtype=object).reshape(pairs[0].shape)


def _round_shifted(values: NDArray[np.float64], shift: int, bits: int, *, up: bool) -> Integers:
    """``values * 2**shift`` as integers, rounded to one side."""
    if bits <= FAST_BITS:
        moved = np.ldexp(values, shift)
        return (np.ceil(moved) if up else np.floor(moved)).astype(np.int64)
    factor = Fraction(2) ** shift
    exact = [-(-Fraction(float(x)) * factor // 1) if up else Fraction(float(x)) * factor // 1 for x in values.ravel()]
    return np.array([int(x) for x in exact], dtype=object).reshape(values.shape)
