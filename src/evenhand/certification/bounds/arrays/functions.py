"""Compute the functions of boxes whose sign decides labels, and the scores of splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.arrays.bounds import BatchBounds
from evenhand.certification.bounds.arrays.events import decide_boxes
from evenhand.certification.bounds.arrays.network import ArrayNetwork
from evenhand.certification.query.boxes import ArrayRows
from evenhand.core.typing import Floats, Integers


@dataclass(frozen=True)
class MarginFunctions(ArrayRows):
    """Functions of boxes, with the meaning that ``FunctionRoles`` gives.

    Attributes:
        coefficients: Coefficients for the slopes with the larger mean over deviation, shape (boxes, functions,
            columns), in the layout of ``shares.AttributeAxes``.
        constants: Constants, shape (boxes, functions).
        zscore: Mean over standard deviation, shape (boxes, functions).
        kind: Outcome of the whole box, shape (boxes,).
        open: Estimated undecided share, shape (boxes,).
    """

    coefficients: Floats
    constants: Floats
    zscore: Floats
    kind: NDArray[np.int8]
    open: Floats

    def __len__(self) -> int:
        return len(self.kind)


def margin_functions_of(
    network: ArrayNetwork, low: Integers, high: Integers, *, scoring: bool
) -> tuple[MarginFunctions, Floats]:
    """Compute the functions of boxes, and the scores of splits by attribute, shape (boxes, attributes).

    Args:
        network: Network.
        low, high: First and last cell of each attribute, shape (boxes, attributes).
        scoring: Whether to compute the scores, which are zero otherwise.
    """
    batch = BatchBounds(network, low, high)
    chances = _FunctionMoments(network, low, high)
    n, p, outputs, runs = len(low), network.roles.assignments, network.outputs, len(network.biases)
    coefficients = np.empty((n, 2 * outputs * p, len(network.order)))
    constants, zscore, least = (np.empty((n, 2 * outputs * p)) for _ in range(3))
    scores = np.zeros(low.shape)
    for run in range(runs):
        slack = np.broadcast_to(network.slack.decision(batch.bound(run)), (n, outputs))
        for f in range(2 * outputs):
            side, o = divmod(f, outputs)
            sign, lowered = 1.0 - 2.0 * side, slack[:, o, None]
            # G = sign * function - slack: where G > 0 the deployed output has this sign. Both slopes are sound; in each
            # box, the one with the larger mean over deviation becomes the function, and the larger minimum counts.
            choices = []
            for flat in (False, True):
                slopes, offsets = batch.output(o, side == 1, flat)
                slopes, offsets = sign * slopes, sign * offsets - lowered
                centre, spread = chances.of(slopes)
                z = (centre[:, None] + offsets) / (np.sqrt(spread) + 1e-12)[:, None]
                choices.append((slopes, offsets, z, batch.lower_extreme(slopes)[:, None] + offsets))
            (slopes, offsets, z, minimum), (slopes_, offsets_, z_, minimum_) = choices
            better = z_ > z
            places = slice(f * p + run, f * p + run + 1) if runs > 1 else slice(f * p, f * p + p)
            chosen = np.where(better[:, :, None], slopes_[:, None, :], slopes[:, None, :])
            coefficients[:, places, network.order] = chosen
            constants[:, places] = np.where(better, offsets_, offsets)
            zscore[:, places] = np.maximum(z, z_)
            least[:, places] = np.maximum(minimum, minimum_)
        if scoring:
            scores += batch.scores()
        if network.apart is not None:
            # If assignments are bounded together, even a single person may stay open, so the network is evaluated.
            single = np.flatnonzero((low == high).all(axis=1)) if not network.reach.any() else np.zeros(0, np.int64)
            if len(single):
                margins = _cell_margins(network, low[single])
                values = np.concatenate([margins, -margins], axis=1) - np.tile(slack[single], 2)[:, :, None]
                least[single] = values.reshape(len(single), -1)
    return MarginFunctions(coefficients, constants, zscore, *decide_boxes(network.roles, least, zscore)), scores


def _cell_margins(network: ArrayNetwork, points: Integers) -> Floats:
    """Compute the margins of single cells under every assignment, shape (points, outputs, assignments)."""
    n = len(points)
    terms = points[:, network.lines].astype(np.float64) @ network.columns[: len(network.lines)]
    for table in network.tables:
        terms = terms + table.lows[0, points[:, table.attribute]]
    margins = np.empty((n, network.outputs, network.roles.assignments))
    for p in range(network.roles.assignments):
        units = terms + (network.biases[0] + network.apart[p] if network.apart is not None else network.biases[p])
        for weights, offsets in zip(network.weights, network.offsets, strict=True):
            units = np.maximum(units, 0.0) @ weights + offsets
        margins[:, :, p] = units
    return margins


class _FunctionMoments:
    """Means and variances of additive functions over boxes, in the population."""

    def __init__(self, network: ArrayNetwork, low: Integers, high: Integers) -> None:
        # From prefix sums W, WX, WXX: mean = WX / W, variance = WXX / W - mean^2. In a cell of width ``reach``,
        # positions are uniform, which adds reach / 2 to the mean and reach^2 / 12 to the variance.
        axes, lines, reach = network.axes, network.lines, network.reach
        begin, end = axes.first[lines] + low[:, lines], axes.first[lines] + high[:, lines] + 1
        inside = np.maximum(axes.weight[end] - axes.weight[begin], 1e-300)
        mean = (axes.moment[end] - axes.moment[begin]) / inside
        square = (axes.square[end] - axes.square[begin]) / inside
        self.mean = mean + 0.5 * reach
        self.variance = np.maximum(0.0, square - mean * mean) + reach**2 / 12
        self.tables: list[tuple[slice, Floats]] = []
        for table in network.tables:
            i, cells = table.attribute, np.arange(table.end - table.begin)
            weight = np.diff(axes.weight[axes.first[i] : axes.first[i] + len(cells) + 1])
            inside = np.where((cells >= low[:, [i]]) & (cells <= high[:, [i]]), weight, 0.0)
            inside /= np.maximum(inside.sum(axis=1, keepdims=True), 1e-300)
            self.tables.append((slice(len(lines) + table.begin, len(lines) + table.end), inside))

    def of(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each box's function, shape (boxes,)."""
        # Attributes are independent: means and variances of their terms add up.
        slopes = coefficients[:, : self.mean.shape[1]]
        centre, spread = np.sum(slopes * self.mean, 1), np.sum(slopes * slopes * self.variance, 1)
        for columns, chance in self.tables:
            cells = coefficients[:, columns]
            means = np.sum(cells * chance, 1)
            spread = spread + np.sum((cells - means[:, None]) ** 2 * chance, 1)
            centre = centre + means
        return centre, spread
