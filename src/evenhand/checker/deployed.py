"""How far the model as it runs, in float32, may be from the exact numbers of its weights.

A sum of n products in floating point errs by at most ``n u / (1 - n u)`` times the sum of the sizes of its terms, in
whatever order it is taken (u = 2**-24 in float32). Eight more roundings are allowed for: of the inputs, of the
weights, of a scaling before the network. It is assumed that nothing overflows. A margin must exceed this error and
what the last function can tell from a tie before a label follows from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.form import LayeredForm, log_odds
from evenhand.checker.network import CellAxis, RecordedQuestion
from evenhand.checker.reading import CertificateError
from evenhand.models import LineTerm

UNIT_ROUNDOFF = 2.0**-24
TIE = 2.0**-21
"""Two outputs this close may be the same to a float32 sigmoid or softmax."""
PROBABILITY = 2.0**-22
"""Error of a float32 probability."""
ERROR_BITS = 46
SIZE_BITS = 30
WEIGHT_BITS = 20


@dataclass(frozen=True)
class Float32Errors:
    """Error bounds of a network in units of its fixed-point form.

    Attributes:
        exponents: per layer of units the powers of two that they are divided by.
        gammas: per layer the relative error of a sum, in ``ERROR_BITS``.
        bases: (assignments, units), sizes of terms that are always there, in ``SIZE_BITS``.
        slopes: per axis the sizes of its slopes in ``SIZE_BITS``; None where it has rows.
        rows: per axis the sizes of its rows in ``SIZE_BITS``; None where it has a slope.
        strips: per axis the power of two that its entries are divided by.
        weights, biases: per layer, sizes, in ``WEIGHT_BITS``.
        tie: per margin, in ``ERROR_BITS``.
    """

    exponents: tuple[NDArray[np.int64], ...]
    gammas: tuple[int, ...]
    bases: NDArray[np.int64]
    slopes: tuple[NDArray[np.int64] | None, ...]
    rows: tuple[NDArray[np.int64] | None, ...]
    strips: tuple[int, ...]
    weights: tuple[NDArray[np.int64], ...]
    biases: tuple[NDArray[np.int64], ...]
    tie: NDArray[np.int64]

    def sizes(
        self, axes: tuple[CellAxis, ...], low: NDArray[np.integer], high: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Sizes of what the attributes add to the first units in boxes, at most, (boxes, units), in ``SIZE_BITS``."""
        total = np.zeros((len(low), self.bases.shape[1]), dtype=np.int64)
        for i, axis in enumerate(axes):
            slope, rows = self.slopes[i], self.rows[i]
            if slope is not None:
                ends = [np.abs(entries) for cells in (low[:, i], high[:, i]) for entries in axis.entries(cells)]
                reach = np.maximum.reduce(ends)
                position = np.ceil(np.ldexp(reach * (1 + 2.0**-40), SIZE_BITS - self.strips[i])).astype(np.int64) + 1
                total += ((position[:, None] * slope) >> SIZE_BITS) + 1
            elif rows is not None:
                total += _range_maxima(rows, low[:, i], high[:, i])
        return total

    def first_error(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return error of the first units from the sizes of their terms."""
        return np.asarray(((sizes * self.gammas[0]) >> SIZE_BITS) + 1)

    def after(self, layer: int, above: NDArray[np.int64], error: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return error after one more layer, from upper bounds of its inputs before ReLU in ``ERROR_BITS``."""
        gamma = self.gammas[layer + 1]
        # Where a unit is surely below zero in both arithmetics, nothing passes; else at most its error.
        passed = np.maximum(0, np.minimum(error, above + error))
        size = np.maximum(above, 0) + passed
        carried = passed + ((((size >> 20) + 1) * gamma) >> (ERROR_BITS - 20)) + 1
        if carried.max(initial=0) > 2 ** (ERROR_BITS - 4):
            raise CertificateError("float32 may lose all digits in this network, so nothing can be checked")
        summed = carried @ self.weights[layer].T
        return np.asarray((summed >> WEIGHT_BITS) + ((self.biases[layer] * gamma) >> WEIGHT_BITS) + 2)


def _range_maxima(rows: NDArray[np.int64], low: NDArray[np.integer], high: NDArray[np.integer]) -> NDArray[np.int64]:
    found = np.asarray(rows[low])
    for step in range(1, int((high - low).max(initial=0)) + 1):
        found = np.maximum(found, rows[np.minimum(low + step, high)])
    return found


def float32_errors_of(question: RecordedQuestion, form: LayeredForm) -> Float32Errors:
    """Return error bounds for the margins of labels.

    Raises:
        CertificateError: numbers too large for float32.
    """
    first, folds, shift = form.units, form.margins, np.abs(form.shifts)
    network, layers = question.network, question.network.layers
    sizes = fold_sizes(question.sizes, first)
    extra = np.zeros(sizes.shape[1])
    strips, reach = [], np.zeros(sizes.shape[1])
    for axis in question.axes:
        if isinstance(axis.part, LineTerm):
            extra = extra + fold_sizes(np.abs(axis.part.intercept)[None, :], first)[0]
            exponent = strip_exponent(axis)
            largest = max(abs(end) for end in strip_reach(axis))
            reach = reach + fold_sizes(np.abs(axis.part.slope)[None, :], first)[0] * max(2.0**exponent, 2 * largest)
            strips.append(exponent)
        else:
            rows = axis.part.at(axis.entries(np.arange(axis.count))[0])
            reach = reach + fold_sizes(np.abs(rows), first).max(axis=0)
            strips.append(0)
    bases = sizes + extra
    bound = bases.max(axis=0) + reach + (shift if not layers else 0.0)
    if not layers:
        bound = bound + 2 * TIE
    exponents = [exponent_of(bound)]
    weights, biases = [], []
    for number, layer in enumerate(layers):
        last = number == len(layers) - 1
        columns = folds if last else [(unit, -1) for unit in range(len(layer.bias))]
        weight = fold_sizes(np.abs(layer.weights), columns)
        bias = fold_sizes(np.abs(layer.bias)[None, :], columns)[0]
        bound = np.ldexp(1.0, exponents[-1]) @ weight + bias + (shift + 2 * TIE if last else 0.0)
        exponents.append(exponent_of(bound))
        weights.append(_scale_up(weight.T, exponents[-1][:, None] - exponents[-2], WEIGHT_BITS))
        biases.append(_scale_up(bias, exponents[-1], WEIGHT_BITS))
    if max(int(each.max()) for each in exponents) > 100 or min(int(each.min()) for each in exponents) < -900:
        raise CertificateError("the network's numbers are too large or too small to be checked")
    terms = [len(network.parts), *(len(layer.weights) for layer in layers)]
    return Float32Errors(
        exponents=tuple(exponents),
        gammas=tuple(_summation_error(n + 8) for n in terms),
        bases=_scale_up(bases, exponents[0], SIZE_BITS),
        slopes=tuple(
            _scale_up(fold_sizes(np.abs(axis.part.slope)[None, :], first)[0], exponents[0] - strip, SIZE_BITS)
            if isinstance(axis.part, LineTerm)
            else None
            for axis, strip in zip(question.axes, strips, strict=True)
        ),
        rows=tuple(
            None
            if isinstance(axis.part, LineTerm)
            else _scale_up(
                fold_sizes(np.abs(axis.part.at(axis.entries(np.arange(axis.count))[0])), first), exponents[0], SIZE_BITS
            )
            for axis in question.axes
        ),
        strips=tuple(strips),
        weights=tuple(weights),
        biases=tuple(biases),
        tie=_scale_up(telling_margins(question, len(folds)), exponents[-1], ERROR_BITS),
    )


def number_error_of(question: RecordedQuestion) -> Fraction:
    """Return by how much the model's number may be off where it runs in float32, at most, for anybody in the domain.

    The same analysis as for margins, by the sizes of all terms wherever they are. All numbers are sums and products of
    what is not negative, so that less than one part in 2**30 is lost to rounding them, which is added.
    """
    network = question.network
    sizes = question.sizes.max(axis=0)
    for axis in question.axes:
        if isinstance(axis.part, LineTerm):
            largest = max(abs(end) for end in strip_reach(axis))
            sizes = sizes + np.abs(axis.part.slope) * largest + np.abs(axis.part.intercept)
        else:
            sizes = sizes + np.abs(axis.part.at(axis.entries(np.arange(axis.count))[0])).max(axis=0)
    terms = [len(network.parts), *(len(layer.weights) for layer in network.layers)]
    gammas = [math.ldexp(_summation_error(n + 8), -ERROR_BITS) for n in terms]
    error = gammas[0] * sizes
    # Invariant, unit by unit: the exact number is at most ``sizes`` in size, and float32's is off by at most ``error``.
    for gamma, layer in zip(gammas[1:], network.layers, strict=True):
        weights, bias = np.abs(layer.weights), np.abs(layer.bias)
        error = (error + gamma * (sizes + error)) @ weights + gamma * bias
        sizes = sizes @ weights + bias
    total = float(error.sum()) * (1 + 2.0**-30)
    if not total < 2.0**100:
        raise CertificateError("the network's numbers are too large to be checked")
    return Fraction(total)


def strip_reach(axis: CellAxis) -> tuple[float, float]:
    """Return the smallest and largest entry of an axis."""
    if axis.cells.starts is not None:
        ends = axis.cells.starts if axis.cells.ends is None else axis.cells.ends
        return float(axis.cells.starts.min()), float(ends.max())
    return axis.cells.first, axis.cells.last


def strip_exponent(axis: CellAxis) -> int:
    """Return power of two above all entries of an axis."""
    low, high = strip_reach(axis)
    return int(np.frexp(max(abs(low), abs(high), 2.0**-300))[1]) + 1


def telling_margins(question: RecordedQuestion, margins: int) -> NDArray[np.float64]:
    """Return how far each exact margin must be beyond its zero for the decision to be the one that its sign says."""
    threshold, bands = question.statement.threshold, question.statement.bands
    if bands:
        # Twice, as the first label's score is one minus the second's, which rounds once more.
        return np.array([2 * probability_margin(edge) for edge in bands])
    # At a half the larger output decides, not a probability.
    return np.full(margins, TIE if threshold is None or threshold == 0.5 else probability_margin(threshold))


def probability_margin(threshold: float) -> float:
    """Return how far beyond its threshold an exact margin must be for a float32 probability to be on the same side."""
    if not PROBABILITY < threshold < 1 - PROBABILITY:
        return math.inf
    middle = log_odds(threshold)
    width = max(log_odds(threshold + PROBABILITY) - middle, middle - log_odds(threshold - PROBABILITY))
    return max(TIE, 1.0005 * width) + 2.0**-23 * abs(middle)


def _summation_error(terms: int) -> int:
    return math.ceil(terms * UNIT_ROUNDOFF / (1 - terms * UNIT_ROUNDOFF) * 2.0**ERROR_BITS) + 1


def fold_sizes(sizes: NDArray[np.float64], columns: list[tuple[int, int]]) -> NDArray[np.float64]:
    """Return the sizes of columns, or of the two that a difference is made of."""
    return np.stack([sizes[:, a] + (sizes[:, b] if b >= 0 else 0.0) for a, b in columns], axis=1)


def exponent_of(bound: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return powers of two above sums that were rounded a few thousand times."""
    return np.frexp(np.maximum(bound, 2.0**-800) * (1 + 2.0**-30))[1].astype(np.int64)


def _scale_up(values: NDArray[np.float64], exponents: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the sizes divided by powers of two, rounded up, at most 2."""
    moved = np.ldexp(values * (1 + 2.0**-40), (bits - exponents).astype(np.int32))
    return np.minimum(np.ceil(moved), 2.0 ** (bits + 1)).astype(np.int64)
