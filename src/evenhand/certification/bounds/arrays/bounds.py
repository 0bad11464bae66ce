"""Linear bounds of a ReLU network over many boxes at once, as matrix products that the boxes share.

The same relaxation as in the compiled kernels: backward substitution (CROWN: Zhang et al., NeurIPS 2018; DeepPoly:
Singh et al., POPL 2019), intersected with interval arithmetic and widened by the pads of ``slack``. One row per box and
unit with an open sign is propagated back through the layers, so that no array has an entry per box and pair of units.
In wide networks of few layers, functions below and above all units are propagated forward instead
(``ArrayNetwork.forward``). Units that are off in all boxes are left out, and units that are on in all boxes need no
relaxation.

Rounding: sums of two products that replace one, as in ``_step_forward``, have terms of at most twice the size of their
result. The pads cover this, because they count a relaxed unit twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.certification.bounds.arrays.network import WORK_BYTES, ArrayNetwork
from evenhand.certification.bounds.relu import ReluRelaxation, multiply_units, relax_relu, relax_sums
from evenhand.core.typing import Floats, Integers


@dataclass(frozen=True)
class LayerBounds:
    """A hidden layer over a batch of boxes.

    Attributes:
        live: Units that may be on in some box; the first ``mixed`` of them are not on in all boxes.
        mixed: Number of units that are not on in all boxes.
        low, high, error: Bounds before ReLU and float32 error, shape (boxes, live).
        lines: Lines around the ReLU of mixed units, shape (boxes, mixed).
    """

    live: Integers
    mixed: int
    low: Floats
    high: Floats
    error: Floats
    lines: ReluRelaxation


class BatchBounds:
    """Bounds of a network over a batch of boxes.

    Args:
        network: Network.
        low, high: First and last cell of each attribute, shape (boxes, attributes).
    """

    def __init__(self, network: ArrayNetwork, low: Integers, high: Integers) -> None:
        self.network = network
        # The range of a line is c * middle -/+ |c| * radius, so that one matrix product covers all boxes and signs of
        # c. The range of a table is given by its extremes over the cells inside. Sums of both are exact.
        lo = low[:, network.lines].astype(np.float64)
        hi = high[:, network.lines] + network.reach
        self.middle, self.radius = (lo + hi) / 2, (hi - lo) / 2
        self.span = (high - low)[:, network.lines].astype(np.float64)
        self.inside = [
            (cells >= low[:, [i]]) & (cells <= high[:, [i]])
            for i, cells in ((each.attribute, np.arange(each.end - each.begin)[None, :]) for each in network.tables)
        ]
        self.ranges = [each.extremes(low[:, each.attribute], high[:, each.attribute]) for each in network.tables]
        columns = network.columns[: len(network.lines)]
        centre, spread = self.middle @ columns, self.radius @ np.abs(columns)
        self.first_low, self.first_high = centre - spread, centre + spread
        for low_terms, high_terms in self.ranges:
            self.first_low = self.first_low + low_terms
            self.first_high = self.first_high + high_terms
        self.layers: list[LayerBounds] = []
        self.inner: list[Floats] = []
        self.bias = network.biases[0]
        self.below = self.above = network.columns[None, :, :]

    def __len__(self) -> int:
        return int(self.middle.shape[0])

    def bound(self, run: int) -> Floats:
        """Bound all hidden units, with the bias of one run; gives float32 errors of outputs, shape (boxes, outputs)."""
        net = self.network
        self.bias = net.biases[run]
        self.layers, self.inner = [], []
        # Invariant: low and high bound the units of layer k before ReLU in float64, and error bounds the float32 error
        # of the deployed unit. Intersections of sound intervals are sound.
        low, high = self.first_low + self.bias, self.first_high + self.bias
        # If assignments are bounded together, a first unit varies by ``apart``, whose extremes are added to the
        # interval.
        if net.apart is not None:
            low, high = low + np.amin(net.apart, 0), high + np.amax(net.apart, 0)
        error = net.first_error[None, :]
        for k in range(net.depth):
            if k:
                low, high = self._interval_bounds(k)
                error = self._error(k)
                low, high = self._refine_layer(k, low, high)
            self.layers.append(self._relax_layer(low - net.pads[k], high + net.pads[k], error))
            if k:
                self.inner.append(net.weights[k - 1][self.layers[k - 1].live, :][:, self.layers[k].live])
        return self._error(net.depth) if self.layers else error

    def output(self, o: int, up: bool, flat: bool) -> tuple[Floats, Floats]:
        """Compute functions that bound an output: coefficients (boxes, columns) and constants (boxes, assignments).

        Args:
            o: Index of the output.
            up: Whether to bound from above instead of from below.
            flat: Whether lines below ReLU have slope 0 instead of the adaptive slope.
        """
        net = self.network
        if not self.layers:
            return self._expand_to_attributes(np.ones_like(self.first_low[:, :1]), 0.0, np.array([o]))
        # The start of the substitution: the output is offset + sum_h w_h relu(z_h) over the last hidden layer.
        weights = net.weights[-1][self.layers[-1].live, o][None, :]
        below = [each.lines.flat if flat else each.lines.adaptive for each in self.layers]
        return self._substitute_backward(weights, net.offsets[-1][o], up, below, None)

    def scores(self) -> Floats:
        """Compute the share of the relaxation gap that each attribute's width causes, shape (boxes, attributes).

        A unit's gap is the height of its relaxation times the sensitivity of the outputs to the unit (absolute weights
        times slopes). An attribute's part of it is the attribute's share of the width of the unit's pre-activation.
        """
        net = self.network
        columns: list[Floats] = [np.zeros(0)] * (len(net.lines) + len(net.tables))
        live: Integers | slice = slice(None)
        weights = np.ones_like(self.first_low)
        if self.layers:
            weights, live = self._gaps(), self.layers[0].live
        if len(net.lines):
            moved = weights @ np.abs(net.columns[: len(net.lines)][:, live]).T * self.span
            for q, i in enumerate(net.lines):
                columns[i] = moved[:, q]
        for table, (low_terms, high_terms) in zip(net.tables, self.ranges, strict=True):
            columns[table.attribute] = np.sum((high_terms[:, live] - low_terms[:, live]) * weights, 1)
        return np.stack(columns, 1)

    def lower_extreme(self, coefficients: Floats, boxes: Integers | None = None) -> Floats:
        """Compute the smallest value of additive functions over the boxes, without their constants, shape (rows,)."""
        return -self._upper_extreme(-coefficients, boxes)

    def _upper_extreme(self, coefficients: Floats, boxes: Integers | None) -> Floats:
        # Terms are independent in a box: the maximum of a line is at middle + radius or middle - radius, depending on
        # the sign of its slope, and that of a table at the largest of its cells in the box.
        net = self.network
        lines = len(net.lines)
        slopes = coefficients[:, :lines]
        middle, radius = (self.middle, self.radius) if boxes is None else (self.middle[boxes], self.radius[boxes])
        total = np.sum(slopes * middle, 1) + np.sum(np.abs(slopes) * radius, 1)
        for table, inside in zip(net.tables, self.inside, strict=True):
            cells = coefficients[:, lines + table.begin : lines + table.end]
            total = total + np.amax(np.where(inside if boxes is None else inside[boxes], cells, -np.inf), 1)
        return np.asarray(total)

    def _relax_layer(self, low: Floats, high: Floats, error: Floats) -> LayerBounds:
        # Units are alive if they may be on in some box, for the deployed float32 model too.
        alive = np.any(high + error > 0, 0)
        on = np.all(low >= 0, 0)
        mixed, always = (np.nonzero(chosen)[0] for chosen in (alive & ~on, alive & on))
        live = np.concatenate([mixed, always])
        count = int(mixed.shape[0])
        low, high = low[:, live], high[:, live]
        lines = relax_relu(low[:, :count], high[:, :count])
        return LayerBounds(live=live, mixed=count, low=low, high=high, error=error[:, live], lines=lines)

    def _interval_bounds(self, k: int) -> tuple[Floats, Floats]:
        """Bound layer k by interval arithmetic."""
        net, layer = self.network, self.layers[-1]
        # relu(z_h) is in [max(l, 0), max(u, 0)]: middles times weights, half widths times absolute weights.
        low, high = _positive(layer.low), _positive(layer.high)
        centre = ((low + high) / 2) @ net.weights[k - 1][layer.live] + net.offsets[k - 1]
        spread = ((high - low) / 2) @ net.sizes[k - 1][layer.live]
        return centre - spread, centre + spread

    def _error(self, k: int) -> Floats:
        """Compute the float32 error of layer k (see ``RoundingError.after``)."""
        net, layer = self.network, self.layers[-1]
        # e_j = gamma * |offset_j| + sum_h |w_hj| * (e'_h + gamma * (max(u_h, 0) + e'_h)), where ReLU passes on e'_h.
        gamma = float(net.gammas[k])
        passed = _positive(np.minimum(layer.error, layer.high + layer.error))
        carried = passed + gamma * (_positive(layer.high) + passed)
        return carried @ net.sizes[k - 1][layer.live] + gamma * net.offset_sizes[k - 1]

    def _refine_layer(self, k: int, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Tighten the bounds of the open units of layer k by backward substitution."""
        if k == 1 or self.network.forward:
            return self._continue_forward(k, low, high)
        # Lower bounds come first: a unit that they prove to be on needs no upper bound.
        for up in (False, True):
            boxes, units = np.nonzero((low < 0) & (high > 0))
            rows = self._rows()
            for at in range(0, int(boxes.shape[0]), rows):
                b, j = boxes[at : at + rows], units[at : at + rows]
                bounds = self._unit_bounds(k, b, j, up)
                if up:
                    high[b, j] = np.minimum(high[b, j], bounds)
                else:
                    low[b, j] = np.maximum(low[b, j], bounds)
        return low, high

    def _continue_forward(self, k: int, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Tighten the bounds of layer k by functions below and above its units, propagated forward from layer k - 1.

        These are the functions of backward substitution if k is 1. Units of known sign are left out unless the
        functions are propagated further.
        """
        net, layer = self.network, self.layers[-1]
        if k == 1:
            ends = [net.columns, self.bias[None, :] if net.apart is None else self.bias + net.apart]
            self.below = self.above = np.concatenate(ends)[None]
        self.below, self.above = self.below[:, :, layer.live], self.above[:, :, layer.live]
        count = int(net.offsets[k - 1].shape[0])
        units = np.arange(count) if net.forward else np.nonzero(np.any((low < 0) & (high > 0), 0))[0]
        step = max(1, WORK_BYTES // (8 * int(self.below.shape[1]) * (2 * layer.mixed + 4 * max(1, len(units)))))
        pieces = []
        for at in range(0, len(self), step):
            boxes = slice(at, min(at + step, len(self)))
            below, above = self._step_forward(k, boxes, units)
            low[boxes, units] = np.maximum(low[boxes, units], self._function_extremes(below, boxes, up=False))
            high[boxes, units] = np.minimum(high[boxes, units], self._function_extremes(above, boxes, up=True))
            if net.forward:
                pieces.append((below, above))
        if net.forward:
            self.below, self.above = (np.concatenate(functions) for functions in zip(*pieces, strict=True))
        return low, high

    def _step_forward(self, k: int, boxes: slice, units: Integers) -> tuple[Floats, Floats]:
        """Compute functions below and above units of layer k, each of shape (boxes, terms, units)."""
        # Invariant: each unit of layer k - 1 is between the functions ``below`` and ``above``, whose rows are the
        # coefficients of the attributes' columns, then one constant per assignment. Their size depends on the columns,
        # not on the depth.
        net, layer = self.network, self.layers[-1]
        m, constants = layer.mixed, slice(len(net.columns), None)
        below, above = (each if k == 1 else each[boxes] for each in (self.below, self.above))
        lower = below[:, :, :m] * layer.lines.adaptive[boxes, None, :]
        upper = above[:, :, :m] * layer.lines.slope[boxes, None, :]
        upper[:, constants] += layer.lines.shift[boxes, None, :]
        # With lower <= relu(z) <= upper and w = w+ + w-, the next unit is between (total - apart) / 2 and (total +
        # apart) / 2, where total = (lower + upper) @ w and apart = (upper - lower) @ |w|: two products instead of
        # four. Units that are always on have the same functions in all boxes if k is 1.
        weights, sizes = (matrix[layer.live][:, units] for matrix in (net.weights[k - 1], net.sizes[k - 1]))
        total = multiply_units(lower + upper, weights[:m]) + multiply_units(
            below[:, :, m:] + above[:, :, m:], weights[m:]
        )
        apart = multiply_units(upper - lower, sizes[:m]) + multiply_units(above[:, :, m:] - below[:, :, m:], sizes[m:])
        total[:, constants] += 2 * net.offsets[k - 1][units]
        return (total - apart) / 2, (total + apart) / 2

    def _function_extremes(self, functions: Floats, boxes: slice, *, up: bool) -> Floats:
        """Compute the largest or smallest value of functions (boxes, terms, units) over their boxes, (boxes, units)."""
        end, none = (np.amax, -np.inf) if up else (np.amin, np.inf)
        slopes, cells, constants = np.split(functions, [len(self.network.lines), len(self.network.columns)], axis=1)
        # c * x over [m - r, m + r] is c * m -/+ |c| * r; for a table, the extreme over its cells in the box.
        spread = (self.radius[boxes][:, None, :] @ np.abs(slopes))[:, 0, :]
        total = (self.middle[boxes][:, None, :] @ slopes)[:, 0, :] + (spread if up else -spread) + end(constants, 1)
        for table, inside in zip(self.network.tables, self.inside, strict=True):
            masked = np.where(inside[boxes][:, :, None], cells[:, table.begin : table.end], none)
            total = total + end(masked, 1)
        return np.asarray(total)

    def _rows(self) -> int:
        """Compute the number of rows that are propagated back at a time."""
        widest = max([int(layer.live.shape[0]) for layer in self.layers] + [int(self.network.columns.shape[0])])
        return max(16, WORK_BYTES // (8 * 8 * max(1, widest)))

    def _unit_bounds(self, k: int, boxes: Integers, units: Integers, up: bool) -> Floats:
        """Compute lower or upper bounds of single units of layer k over single boxes, shape (rows,)."""
        weights = self.network.weights[k - 1].T[units][:, self.layers[-1].live]
        below = [each.lines.adaptive for each in self.layers]
        coefficients, constants = self._substitute_backward(
            weights, self.network.offsets[k - 1][units], up, below, boxes
        )
        if up:
            return np.asarray(np.amax(constants, 1) + self._upper_extreme(coefficients, boxes))
        return np.asarray(np.amin(constants, 1) + self.lower_extreme(coefficients, boxes))

    def _substitute_backward(
        self, weights: Floats, constant: Floats, up: bool, below: list[Floats], boxes: Integers | None
    ) -> tuple[Floats, Floats]:
        """Propagate weights on the units of the last layer, after ReLU, back to the attributes."""
        net = self.network
        # Invariant: the bound is constant + weights @ relu(units of layer k). A step replaces the ReLUs by lines, and
        # expresses the units by the layer before (CROWN: Zhang et al., NeurIPS 2018, Theorem 3.2). Units that are
        # always on need no line.
        for k in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[k]
            m = layer.mixed
            lines = (layer.lines.slope, layer.lines.shift, below[k])
            chosen = lines if boxes is None else tuple(line[boxes] for line in lines)
            part, moved = relax_sums(weights[:, :m], *chosen, up=up)
            always_on, constant = weights[:, m:], constant + moved
            if k:
                inner, offsets = self.inner[k - 1].T, net.offsets[k - 1][layer.live]
                weights = part @ inner[:m] + always_on @ inner[m:]
                constant = constant + part @ offsets[:m] + always_on @ offsets[m:]
        m, live = self.layers[0].mixed, self.layers[0].live
        from_mixed = self._expand_to_attributes(part, constant, live[:m])
        from_always = self._expand_to_attributes(always_on, 0.0, live[m:])
        return from_mixed[0] + from_always[0], from_mixed[1] + from_always[1]

    def _expand_to_attributes(
        self, weights: Floats, constant: Floats | float, units: Integers
    ) -> tuple[Floats, Floats]:
        """Convert weights on first units to coefficients of columns, and constants by assignment."""
        # sum_h w_h z_h = sum_h w_h bias_h + sum_i sum_h w_h c_ih(x_i), and an assignment adds sum_h w_h apart_h.
        net = self.network
        constants = (weights @ self.bias[units] + constant)[:, None]
        if net.apart is not None:
            constants = constants + weights @ net.apart[:, units].T
        return weights @ net.columns[:, units].T, constants

    def _gaps(self) -> Floats:
        """Compute the gaps of all layers per unit of width of each first unit, shape (boxes, live)."""
        weights = np.sum(np.abs(self.network.weights[-1][self.layers[-1].live]), 1)[None, :]
        weights = weights + np.zeros_like(self.layers[-1].low)
        gaps: list[Floats] = []
        for k in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[k]
            m = layer.mixed
            low, high = layer.low[:, :m], layer.high[:, :m]
            # The chord lies -l * u / (u - l) above ReLU at zero; divided by u - l, the gap per unit of width.
            open_ = (low < 0) & (high > 0)
            weights = np.concatenate([weights[:, :m] * layer.lines.slope, weights[:, m:]], 1)
            gap = np.where(open_, weights[:, :m] * -low / np.where(open_, high - low, np.ones_like(low)), 0.0)
            gaps.append(np.concatenate([gap, np.zeros_like(weights[:, m:])], 1))
            if k:
                weights = weights @ np.abs(self.inner[k - 1]).T
        # The width of a deeper unit is that of the units before it times |w| * slope, so its gap is passed back in the
        # same way.
        gathered = gaps[0]
        for k in range(len(self.layers) - 1, 0, -1):
            layer = self.layers[k - 1]
            m = layer.mixed
            gathered = gathered @ np.abs(self.inner[k - 1]).T
            gathered = np.concatenate([gathered[:, :m] * layer.lines.slope, gathered[:, m:]], 1) + gaps[len(gaps) - k]
        return gathered


def _positive(array: Floats) -> Floats:
    """Compute the positive part."""
    return np.maximum(array, 0.0)
