"""The network in fixed point: integers only, every quantity at most 1 in size, so that nothing can overflow.

ReLU commutes with positive factors. Dividing every unit by a power of two that bounds the sum of the sizes of its
terms over the whole domain gives an equivalent network in which all units, and all sums of coefficients on the way
back, are at most 1. A number x of it is held as the integer nearest to ``x * 2**bits``. With 29 bits, products take 58
and fit into 64-bit integers with room for 32 terms of full size; with more bits the same code runs on Python's
integers. Whatever is lost by holding a weight to so many bits is covered by ``margin``: it widens each unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.deployed import Deployed, deployed_of, log_odds
from evenhand.checker.question import Axis, Question
from evenhand.checker.reading import CertificateError
from evenhand.models.additive import Line

FAST = 29
"""Bits of the 64-bit form."""
SLOW = 96
"""Bits of the form in Python's integers."""
DEEPEST = 16
"""Hidden layers that the 64-bit form has room for."""

Integers: TypeAlias = NDArray[Any]
"""int64, or Python's integers as objects."""


@dataclass(frozen=True)
class Strip:
    """An axis that adds ``slope * position`` to the first units: position from 0 to 1 along the axis."""

    axis: Axis
    slope: Integers
    exponent: int
    origin: float

    def positions(self, cells: NDArray[np.integer], bits: int) -> tuple[Integers, Integers]:
        """Ends of each cell, rounded outward, in ``bits``. They rise or fall along the axis."""
        form = self.axis.cells
        own = cells.astype(np.int64) if self.axis.kept is None else self.axis.kept[cells]
        if form.form == "even":
            width = scaled(Fraction(form.last) - Fraction(form.first), self.exponent, bits)
            if bits > FAST:
                own = own.astype(object)
            return (width - 1) * own // form.count, -(-(width + 1) * (own + 1) // form.count)
        low, high = self.axis.entries(cells)
        if self.axis.attribute.size is not None:
            # Differences of whole numbers below 2**53 are exact.
            return (
                _shifted(low - self.origin, bits - self.exponent, bits, up=False),
                _shifted(high - self.origin, bits - self.exponent, bits, up=True),
            )
        start = scaled(Fraction(self.origin), self.exponent, bits)
        return (
            _shifted(low, bits - self.exponent, bits, up=False) - (start + 1),
            _shifted(high, bits - self.exponent, bits, up=True) - (start - 1),
        )


@dataclass(frozen=True)
class Rows:
    """An axis of which every cell adds a row of its own; ``tables[k]`` bounds 2**k neighbours from below and above."""

    axis: Axis
    rows: Integers
    least: tuple[Integers, ...]
    most: tuple[Integers, ...]

    def range(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> tuple[Integers, Integers]:
        """Smallest and largest contribution in ranges of cells, shape (n, units)."""
        levels = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        least, most = np.empty((2, len(low), self.rows.shape[1]), dtype=self.rows.dtype)
        for level in np.unique(levels):
            here = levels == level
            a, b = low[here], high[here] - (1 << level) + 1
            least[here] = np.minimum(self.least[level][a], self.least[level][b])
            most[here] = np.maximum(self.most[level][a], self.most[level][b])
        return least, most


@dataclass(frozen=True)
class Layer:
    """An affine map: ``weights`` (outputs, inputs), ``bias`` and what ``margin`` units of the last place cover."""

    weights: Integers
    bias: Integers
    margin: int


@dataclass(frozen=True)
class Fixed:
    """The network in fixed point.

    Attributes:
        bits: of every number.
        axes: what the attributes add to the first units.
        bases: (assignments, units), the rest.
        margin: units of the last place that a first unit may be off.
        layers: after the first; the last gives the margins.
        pairs: classes (a, b) of each margin: b beats a if it is positive.
        classes: number of labels.
        deployed: rounding of the model as it runs.
    """

    bits: int
    axes: tuple[Strip | Rows, ...]
    bases: Integers
    margin: int
    layers: tuple[Layer, ...]
    pairs: tuple[tuple[int, int], ...]
    classes: int
    deployed: Deployed


def fixed_of(question: Question, bits: int) -> Fixed:
    """Bring the network of a question to fixed point.

    Raises:
        CertificateError: the network's numbers are too far apart.
    """
    network = question.network
    classes = len(network.classes)
    pairs = tuple((a, b) for a in range(classes) for b in range(a + 1, classes))
    outputs = network.layers[-1].weights.shape[1] if network.layers else len(network.bias)
    folds = [(0, -1)] if outputs == 1 else [(b, a) for a, b in pairs]
    shift = log_odds(question.statement.threshold) if question.statement.threshold is not None else 0.0
    first = [(unit, -1) for unit in range(len(network.bias))] if network.layers else folds
    deployed = deployed_of(question, first, folds, shift)
    exponents = deployed.exponents
    axes = tuple(_axis(axis, first, exponents[0], bits) for axis in question.axes)
    origins = [(Fraction(strip.origin), strip.axis.part) for strip in axes if isinstance(strip, Strip)]
    bases = np.empty((len(question.bases), len(first)), dtype=object)
    for p, row in enumerate(question.bases):
        for unit, (plus, minus) in enumerate(first):
            value = row[plus] - (row[minus] if minus >= 0 else 0)
            for origin, part in origins:
                assert isinstance(part, Line)
                for sign, k in ((1, plus), (-1, minus)):
                    if k >= 0:
                        value += sign * (Fraction(float(part.slope[k])) * origin + Fraction(float(part.intercept[k])))
            if not network.layers:
                value -= Fraction(shift)
            bases[p, unit] = scaled(value, int(exponents[0][unit]), bits)
    layers = []
    for number, layer in enumerate(network.layers):
        last = number == len(network.layers) - 1
        chosen = folds if last else [(unit, -1) for unit in range(len(layer.bias))]
        weights = _folded(layer.weights, chosen, exponents[number + 1] - exponents[number][:, None], bits).T
        bias = _folded(layer.bias[None, :], chosen, exponents[number + 1], bits)[0]
        if last:
            bias = bias - np.array([scaled(Fraction(shift), int(e), bits) for e in exponents[-1]], dtype=bias.dtype)
        # Every weight and the bias is off by at most one unit of the last place (a difference of two by half a unit
        # each), and what it is multiplied with is at most 1.
        layers.append(Layer(np.ascontiguousarray(weights), bias, len(layer.weights) + 2))
    return Fixed(
        bits=bits,
        axes=axes,
        bases=bases if bits > FAST else bases.astype(np.int64),
        margin=len(axes) + 2,
        layers=tuple(layers),
        pairs=pairs,
        classes=classes,
        deployed=deployed,
    )


def _axis(axis: Axis, first: list[tuple[int, int]], exponents: NDArray[np.int64], bits: int) -> Strip | Rows:
    part = axis.part
    if isinstance(part, Line):
        exponent = strip_exponent(axis)
        slope = _folded(part.slope[None, :], first, exponents - exponent, bits)[0]
        return Strip(axis, slope, exponent, strip_reach(axis)[0])
    entries = axis.entries(np.arange(axis.count))[0]
    rows = _folded(part.at(entries), first, exponents, bits)
    least, most = [rows], [rows]
    while 2 << (len(least) - 1) <= len(rows):
        step = 1 << (len(least) - 1)
        least.append(np.minimum(least[-1][:-step], least[-1][step:]))
        most.append(np.maximum(most[-1][:-step], most[-1][step:]))
    return Rows(axis, rows, tuple(least), tuple(most))


def strip_reach(axis: Axis) -> tuple[float, float]:
    """Smallest and largest entry of an axis."""
    if axis.cells.starts is not None:
        ends = axis.cells.starts if axis.cells.ends is None else axis.cells.ends
        return float(axis.cells.starts.min()), float(ends.max())
    return axis.cells.first, axis.cells.last


def strip_exponent(axis: Axis) -> int:
    """Power of two that entries of an axis are divided by: at least its width, and not far below its entries."""
    low, high = strip_reach(axis)
    size = max(high - low, max(abs(low), abs(high)) * 2.0**-20, 2.0**-900)
    return int(np.frexp(size)[1]) + 1


def scaled(value: Fraction, exponent: int, bits: int) -> int:
    """The integer nearest to ``value / 2**exponent * 2**bits``."""
    return round(value * Fraction(2) ** (bits - exponent))


def _folded(
    values: NDArray[np.float64], folds: list[tuple[int, int]], exponents: NDArray[np.int64], bits: int
) -> Integers:
    """Columns, or differences of two, divided by powers of two, as nearest integers."""
    columns = []
    for unit, (plus, minus) in enumerate(folds):
        exponent = exponents[..., unit]
        column = _nearest(values[:, plus], bits - exponent, bits)
        if minus >= 0:
            column = column - _nearest(values[:, minus], bits - exponent, bits)
        columns.append(column)
    return np.stack(columns, axis=1)


def _nearest(values: NDArray[np.float64], shift: Any, bits: int) -> Integers:
    if bits <= FAST:
        # A power of two changes no digit, and numbers this small are exact integers in float64.
        found = np.rint(np.ldexp(values, np.asarray(shift, dtype=np.int32)))
        if not (np.abs(found) <= 2.0 ** (bits + 1)).all():
            raise CertificateError("the network's numbers are too far apart to be checked")
        return found.astype(np.int64)
    pairs = np.broadcast_arrays(values, shift)
    exact = [
        round(Fraction(float(x)) * Fraction(2) ** int(s))
        for x, s in zip(pairs[0].ravel(), pairs[1].ravel(), strict=True)
    ]
    return np.array(exact, dtype=object).reshape(pairs[0].shape)


def _shifted(values: NDArray[np.float64], shift: int, bits: int, *, up: bool) -> Integers:
    """``values * 2**shift`` as integers, rounded to one side."""
    if bits <= FAST:
        moved = np.ldexp(values, shift)
        return (np.ceil(moved) if up else np.floor(moved)).astype(np.int64)
    factor = Fraction(2) ** shift
    exact = [-(-Fraction(float(x)) * factor // 1) if up else Fraction(float(x)) * factor // 1 for x in values.ravel()]
    return np.array([int(x) for x in exact], dtype=object).reshape(values.shape)
