"""Symbolic interval propagation and smears of interval gradients, for many boxes at once.

Symbolic bounds as in Wang et al., "Efficient formal safety analysis of neural networks" (NeurIPS 2018): every unit has
a lower and an upper linear function of the inputs. An unstable unit's upper function, with range [l, u] over the box,
becomes ``u / (u - l) * (f - l)``, its lower function, with range [l', u'], ``u' / (u' - l') * f'``. The attribute to
split is the one with the largest smear: width times the largest absolute value of the interval gradient, where the
derivative of an unstable unit is [0, 1], averaged over the protected assignments (Kim, Wang and Wang, "FairQuant",
ICSE 2025, Algorithm 3).

Intervals are multiplied by a matrix W as centre and radius, ``c W -/+ r |W|``. The size of a term, ``|c| + |r|``, is
that of the larger end, so the pads of ``RoundingError``, which cover twice the error of a sum, cover both products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.outcomes import UNDECIDED, classify_points, possible_labels
from evenhand.certification.query.question import Query
from evenhand.core.typing import Booleans, Floats, Integers

MAX_GRADIENTS = 8
"""Maximum number of assignments whose gradients are averaged."""
BATCH_ENTRIES = 1 << 16
"""Approximate number of coefficients in a work array."""
TIE = 1e-9
"""Relative difference below which two smears count as equal."""

Phases = list[tuple[Booleans, Booleans]]
"""Masks of the units of each hidden layer that are certainly on and certainly off, each of shape (boxes, units)."""


def multiply_interval(low: Floats, high: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Multiply intervals (..., n) by a matrix (n, m)."""
    centre, radius = (low + high) / 2 @ weights, (high - low) / 2 @ np.abs(weights)
    return centre - radius, centre + radius


@dataclass(frozen=True)
class _BoxRanges:
    """Ranges of a batch of boxes.

    Attributes:
        middle, radius: Positions along the lines, shape (boxes, lines).
        inside: Mask of the cells of each table, shape (boxes, cells).
    """

    middle: Floats
    radius: Floats
    inside: list[Booleans]

    def extremes(self, functions: Floats) -> tuple[Floats, Floats]:
        """Compute the smallest and largest values of linear functions, shape (boxes, units).

        Args:
            functions: Coefficients, shape (boxes or 1, columns, units): lines first, then the cells of each table.
        """
        # Attributes vary independently in a box, so the extremes of a sum are the sums of the extremes of its terms.
        begin = self.middle.shape[1]
        slopes = functions[:, :begin]
        centre = (self.middle[:, None, :] @ slopes)[:, 0]
        spread = (self.radius[:, None, :] @ np.abs(slopes))[:, 0]
        lowest, highest = centre - spread, centre + spread
        for inside in self.inside:
            terms = functions[:, begin : begin + inside.shape[1]]
            lowest += np.where(inside[:, :, None], terms, np.inf).min(axis=1)
            highest += np.where(inside[:, :, None], terms, -np.inf).max(axis=1)
            begin += inside.shape[1]
        return lowest, highest


class SymbolicBounder:
    """Symbolic bounds of the margins of one query.

    Args:
        query: Question about a network.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        scaled = [cells.scale is not None for cells in query.cells]
        self._lines, self._tables = np.flatnonzero(scaled), np.flatnonzero(~np.array(scaled))
        units = query.biases.shape[1]
        rows = [query.cells[i].rows for i in (*self._lines, *self._tables)]
        self._columns = np.concatenate([np.zeros((0, units)), *rows])
        second = len(query.layers[0].bias) if len(query.layers) == 1 else len(self._columns)
        widest = max(units, *(len(layer.bias) for layer in query.layers), 1)
        self._batch = max(1, BATCH_ENTRIES // (widest * max(1, min(len(self._columns), second))))

    def decide(
        self, low: NDArray[np.integer], high: NDArray[np.integer], final: Booleans
    ) -> tuple[NDArray[np.int8], NDArray[np.int32], Integers]:
        """Decide boxes, and select the attribute to split for the undecided ones.

        Args:
            low, high: First and last cell of each attribute, shape (boxes, attributes).
            final: Boxes that are not split, shape (boxes,).

        Returns:
            The outcome and the attribute of each box, -1 if none can be split, both of shape (boxes,); and the sets of
            possible labels, as bits, shape (assignments, boxes).
        """
        batches = [slice(at, at + self._batch) for at in range(0, len(low), self._batch)]
        parts = [self._decide_batch(low[batch], high[batch], final[batch]) for batch in batches]
        status, attribute, labels = zip(*parts, strict=True)
        return np.concatenate(status), np.concatenate(attribute), np.concatenate(labels, axis=1)

    def _decide_batch(
        self, low: NDArray[np.integer], high: NDArray[np.integer], final: Booleans
    ) -> tuple[NDArray[np.int8], NDArray[np.int32], Integers]:
        query, ranges = self._query, self._box_ranges(low, high)
        labels = np.empty((len(query.biases), len(low)), dtype=np.int64)
        unclear = np.zeros((len(low), len(query.pairs)), dtype=np.bool_)
        phases = []
        # A margin is the difference of two outputs. A label is possible unless the bounds of a margin exclude it. This
        # is FairQuant's Algorithm 2 with sets of labels instead of the sign of a single output.
        for p, (lowest, highest, distance, phase) in enumerate(self._bound_margins(ranges)):
            above, below = lowest > distance, highest < -distance
            labels[p] = possible_labels(len(query.classes), query.pairs, above, below)
            unclear |= ~(above | below)
            phases.append(phase)
        status = classify_points(labels)
        attribute = np.full(len(low), -1, dtype=np.int32)
        rows = np.flatnonzero((status == UNDECIDED) & ~final)
        if len(rows):
            widths = high[rows].astype(np.int64) - low[rows]
            smears = self._smears(ranges, phases[:MAX_GRADIENTS], unclear)[rows]
            # Among the attributes with the largest smear, choose the widest, so that boxes do not become needles.
            smears = np.where(widths > 0, smears, -1.0)
            largest = smears >= smears.max(axis=1, keepdims=True) * (1 - TIE)
            best = np.where(largest & (widths > 0), widths, 0).argmax(axis=1)
            attribute[rows] = np.where((widths > 0).any(axis=1), best, -1)
        return status, attribute, labels

    def _box_ranges(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> _BoxRanges:
        ends = np.zeros((2, len(low), len(self._lines)))
        for k, i in enumerate(self._lines):
            scale = self._query.cells[i].scale
            assert scale is not None
            ends[:, :, k] = scale.low(low[:, i]), scale.high(high[:, i])
        inside = []
        for i in self._tables:
            cells = np.arange(self._query.cells[i].count)
            inside.append((cells >= low[:, [i]]) & (cells <= high[:, [i]]))
        return _BoxRanges((ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2, inside)

    def _bound_margins(self, ranges: _BoxRanges) -> Iterator[tuple[Floats, Floats, Floats, Phases]]:
        """Bound the margins under each assignment.

        Yields:
            Lower and upper bounds, and the minimum distance from zero that decides a margin, each of shape (boxes,
            margins); and the phases of the hidden units.
        """
        query, slack = self._query, self._query.slack
        lowest, highest = ranges.extremes(self._columns[None])
        # The largest size of each term bounds the rounding of the first units.
        farthest = replace(ranges, middle=np.abs(ranges.middle) + ranges.radius, radius=np.zeros_like(ranges.radius))
        sizes = farthest.extremes(np.abs(self._columns)[None])[1]
        for bias in query.biases:
            # Invariant: over the box each unit is between its lower function, ``lower`` plus ``constants[0]`` with
            # the range ``below``, and its upper function. The error of the deployed model is at most ``error``.
            lower = upper = self._columns[None]
            constants = np.stack([bias, bias])[:, None, :]
            below = above = (lowest + bias - slack.pads[0], highest + bias + slack.pads[0])
            error = slack.first(sizes)
            phases: Phases = []
            for number, layer in enumerate(query.layers):
                on, off = below[0] >= 0, above[1] <= 0
                phases.append((on, off))
                error = slack.after(number, above[1], error)
                # Above: relu(f) <= u / (u - l) * (f - l), the chord of a convex function over the range [l, u] of the
                # upper function. Below: relu(f) >= a f for every a in [0, 1]; a = u' / (u' - l') keeps both lines
                # parallel (Wang et al. 2018).
                low_slope = np.where(off, 0.0, _chord_slope(*below))
                up_slope = np.where(on, 1.0, _chord_slope(*above))
                shift = np.where(on | off, 0.0, np.minimum(above[0], 0.0))
                ends = low_slope * constants[0], up_slope * (constants[1] - shift)
                constants = np.stack(multiply_interval(*ends, layer.weights)) + layer.bias
                # Both functions of a first unit are the unit itself, so those of the next layer differ in their
                # constants alone.
                if number == 0 and len(layer.bias) < len(self._columns):
                    scaled = low_slope[:, None, :] * layer.weights.T
                    lower = upper = _multiply_units(scaled, self._columns.T).swapaxes(1, 2)
                elif number == 0:
                    lower = upper = _multiply_units(lower * low_slope[:, None, :], layer.weights)
                else:
                    relaxed, other = lower * low_slope[:, None, :], upper * up_slope[:, None, :]
                    centre = _multiply_units((relaxed + other) / 2, layer.weights)
                    radius = _multiply_units((other - relaxed) / 2, np.abs(layer.weights))
                    lower, upper = centre - radius, centre + radius
                pads = slack.pads[number + 1]
                least_low, most_low = ranges.extremes(lower)
                least_up, most_up = (least_low, most_low) if number == 0 else ranges.extremes(upper)
                below = least_low + constants[0] - pads, most_low + constants[0] + pads
                above = least_up + constants[1] - pads, most_up + constants[1] + pads
            yield below[0], above[1], slack.decision(error), phases

    def _smears(self, ranges: _BoxRanges, phases: Sequence[Phases], unclear: Booleans) -> Floats:
        """Compute the width times the interval gradient of each attribute, shape (boxes, attributes).

        They are added up over assignments and over the margins that are ``unclear``, shape (boxes, margins).
        """
        # smear_i = (high_i - low_i) * sum over margins m and assignments p of max |d m / d x_i| (FairQuant, Algorithm
        # 3). The gradient interval starts at the margin's weights; each layer back masks it by ReLU and multiplies it
        # by the weights.
        layers = self._query.layers
        smears = np.zeros((len(unclear), len(self._query.cells)))
        for m in np.flatnonzero(unclear.any(axis=0)):
            rows = np.flatnonzero(unclear[:, m])
            start = layers[-1].weights[:, m] if layers else np.eye(self._columns.shape[1])[m]
            for phase in phases:
                low = high = np.tile(start, (len(rows), 1))
                for number in range(len(layers) - 1, -1, -1):
                    # d relu / dz is 0 where off, 1 where on, anything in [0, 1] where unstable.
                    on, off = (mask[rows] for mask in phase[number])
                    low = np.where(off, 0.0, np.where(on, low, np.minimum(low, 0.0)))
                    high = np.where(off, 0.0, np.where(on, high, np.maximum(high, 0.0)))
                    if number:
                        low, high = multiply_interval(low, high, layers[number - 1].weights.T)
                smears[rows] += self._changes(ranges, rows, low, high)
        return smears

    def _changes(self, ranges: _BoxRanges, rows: Integers, low: Floats, high: Floats) -> Floats:
        """Compute the largest change of a margin along each attribute, from its gradient at the first units."""
        centre, radius = (low + high) / 2, (high - low) / 2
        changes = np.zeros((len(rows), len(self._query.cells)))
        begin = len(self._lines)
        slopes = self._columns[:begin].T
        changes[:, self._lines] = np.abs(centre @ slopes) + radius @ np.abs(slopes)
        changes[:, self._lines] *= 2 * ranges.radius[rows]
        for i, inside in zip(self._tables, ranges.inside, strict=True):
            # Along a table the gradient is a difference to the first cell, sum_k g_k (c_k(cell) - c_k(first)).
            columns = self._columns[begin : begin + inside.shape[1]]
            firsts = inside[rows].argmax(axis=1)
            for start in np.unique(firsts):
                same = np.flatnonzero(firsts == start)
                steps = (columns - columns[start]).T
                jumps = np.abs(centre[same] @ steps) + radius[same] @ np.abs(steps)
                changes[same, i] = np.where(inside[rows[same]], jumps, 0.0).max(axis=1)
            begin += inside.shape[1]
        return changes


def _chord_slope(low: Floats, high: Floats) -> Floats:
    """Compute the slope of the chord of ReLU over each range."""
    unstable = (low < 0) & (high > 0)
    return np.where(unstable, high / np.where(unstable, high - low, 1.0), (low >= 0).astype(np.float64))


def _multiply_units(functions: Floats, weights: Floats) -> Floats:
    """Multiply functions (boxes, terms, units) by weights (units, next units)."""
    boxes, terms, units = functions.shape
    return (functions.reshape(boxes * terms, units) @ weights).reshape(boxes, terms, weights.shape[1])
