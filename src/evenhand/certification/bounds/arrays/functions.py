"""From bounds to the want-positive functions of boxes: what is decided as a whole, what remains, where to split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.arrays.bounds import BatchBounds
from evenhand.certification.bounds.arrays.network import Array, ArrayNetwork
from evenhand.certification.query.boxes import ArrayRows
from evenhand.stats import normal_cdf
from evenhand.typing import Booleans, Floats, Integers

OPEN, FAIR, UNFAIR = 0, 1, 2
"""What is known of a box as a whole."""


@dataclass(frozen=True)
class MarginFunctions(ArrayRows):
    """The functions of boxes. Function ``beats[a, b] * P + p``: label a beats label b under assignment p of P.

    Attributes:
        coefficients: of the choice of slopes with the larger mean over deviation, shape (boxes, functions, columns), in
            the layout of ``shares.Axes``.
        constants: shape (boxes, functions).
        zscore: mean over standard deviation, shape (boxes, functions).
        kind: whether a box is decided as a whole, shape (boxes,).
    """

    coefficients: Floats
    constants: Floats
    zscore: Floats
    kind: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class LikelyEvents:
    """The likeliest unfair event of each box: one label wins under some assignment, another beats it under another.

    Attributes:
        open: estimated undecided share, each function taken for normally distributed, shape (boxes,).
        members: the functions that must be positive together, shape (boxes, labels).
    """

    open: Floats
    members: Integers


def likely_events(zscore: Floats, beats: Integers, assignments: int) -> LikelyEvents:
    """What is open in boxes, and the unfair event to prove, from ``Functions.zscore``."""
    labels, n = len(beats), len(zscore)
    z = zscore.reshape(n, -1, assignments)
    over = np.full((n, labels, labels, assignments), np.inf)
    for c in range(labels):
        for d in range(labels):
            if c != d:
                over[:, c, d] = z[:, beats[c, d]]
    # All of a label's functions positive has about the probability of the weakest, Phi(min z); fair events of different
    # labels exclude each other, so their shares add up.
    wins = over.min(axis=2)
    decided = normal_cdf(wins.min(axis=2)).sum(axis=1)
    rows = np.arange(n)
    # Unfair with two labels: 1 under p and 0 under the other, P(A and B) >= P(A) + P(B) - 1 (Frechet).
    if labels == 2 and assignments == 2:
        for p in range(2):
            decided += np.maximum(0.0, normal_cdf(wins[:, 1, p]) + normal_cdf(wins[:, 0, 1 - p]) - 1)
    at = wins.argmax(axis=2)
    best = wins.max(axis=2)
    # Label c wins under its best assignment, and d beats it under q.
    rival = over.transpose(0, 2, 1, 3).copy()
    rival[:, np.arange(labels), np.arange(labels)] = -np.inf
    both = np.minimum(best[:, :, None, None], rival).reshape(n, -1).argmax(axis=1)
    winner, other, q = np.unravel_index(both, (labels, labels, assignments))
    if labels != 2 or assignments != 2:
        beaten = z[rows, beats[other, winner], q]
        decided += np.maximum(0.0, normal_cdf(best[rows, winner]) + normal_cdf(beaten) - 1)
    losers = np.array([[d for d in range(labels) if d != c] for c in range(labels)])
    members = beats[winner[:, None], losers[winner]] * assignments + at[rows, winner][:, None]
    members = np.concatenate([members, (beats[other, winner] * assignments + q)[:, None]], axis=1)
    return LikelyEvents(np.maximum(0.0, 1 - decided), members)


def box_moments(network: ArrayNetwork, low: Integers, high: Integers) -> tuple[Floats, Floats, Floats]:
    """Mass of boxes (boxes,), and mean and variance of the positions along lines, (boxes, lines)."""
    # From prefix sums W, WX, WXX: mean = WX / W, variance = WXX / W - mean^2. In a cell ``reach`` wide positions are
    # uniform: half of it on the mean, its square / 12 on the variance. Masses of attributes multiply.
    axes = network.axes
    begin, end = axes.first + low, axes.first + high + 1
    weight = axes.weight[end] - axes.weight[begin]
    lines = network.lines
    inside = np.maximum(weight[:, lines], 1e-300)
    mean = (axes.moment[end] - axes.moment[begin])[:, lines] / inside
    square = (axes.square[end] - axes.square[begin])[:, lines] / inside
    reach = network.reach
    variance = np.maximum(0.0, square - mean * mean) + reach**2 / 12
    return (weight / axes.total).prod(axis=1), mean + 0.5 * reach, variance


def margin_functions_of(
    network: ArrayNetwork, low: Integers, high: Integers, *, scoring: bool
) -> tuple[MarginFunctions, Floats]:
    """The functions of boxes, and with ``scoring`` how much each attribute deserves to be split, (boxes, attributes).

    Args:
        network: the network.
        low, high: first and last cell of each attribute, shape (boxes, attributes).
        scoring: whether to compute the scores; else they are zero.
    """
    backend, xp = network.backend, network.backend.xp
    batch = BatchBounds(network, low, high)
    chances = _FunctionMoments(network, low, high)
    n, p, outputs, runs = len(low), network.assignments, network.outputs, len(network.biases)
    coefficients = np.empty((n, 2 * outputs * p, len(network.order)))
    constants, zscore, least = (np.empty((n, 2 * outputs * p)) for _ in range(3))
    scores = np.zeros(low.shape)
    for run in range(runs):
        slack = np.broadcast_to(network.slack.decision(backend.host(batch.bound(run))), (n, outputs))
        for f in range(2 * outputs):
            side, o = divmod(f, outputs)
            sign, lowered = 1.0 - 2.0 * side, backend.put(slack[:, o])[:, None]
            # G = sign * function - slack: where G > 0 the deployed output has this sign. Both slopes are sound; per box
            # the one with the larger mean over deviation becomes the function, and the better least value counts.
            found = []
            for flat in (False, True):
                slopes, offsets = batch.output(o, side == 1, flat)
                slopes, offsets = sign * slopes, sign * offsets - lowered
                centre, spread = chances.of(slopes)
                z = (centre[:, None] + offsets) / (xp.sqrt(spread) + 1e-12)[:, None]
                found.append((slopes, offsets, z, batch.lower_extreme(slopes)[:, None] + offsets))
            (slopes, offsets, z, minimum), (slopes_, offsets_, z_, minimum_) = found
            better = z_ > z
            places = slice(f * p + run, f * p + run + 1) if runs > 1 else slice(f * p, f * p + p)
            chosen = backend.host(xp.where(better[:, :, None], slopes_[:, None, :], slopes[:, None, :]))
            coefficients[:, places, network.order] = chosen
            constants[:, places] = backend.host(xp.where(better, offsets_, offsets))
            zscore[:, places] = backend.host(xp.maximum(z, z_))
            least[:, places] = backend.host(xp.maximum(minimum, minimum_))
        if scoring:
            scores += backend.host(batch.scores())
        if network.apart is not None:
            # Bounded together, the assignments keep even a single person open: ask.
            single = np.flatnonzero((low == high).all(axis=1)) if not network.reach.any() else np.zeros(0, np.int64)
            if len(single):
                margins = _cell_margins(network, low[single])
                asked = np.concatenate([margins, -margins], axis=1) - np.tile(slack[single], 2)[:, :, None]
                least[single] = asked.reshape(len(single), -1)
    return MarginFunctions(coefficients, constants, zscore, _decide_boxes(least, network)), scores


def _cell_margins(network: ArrayNetwork, points: Integers) -> Floats:
    """Margins of single cells under every assignment, shape (points, outputs, assignments)."""
    backend, n = network.backend, len(points)
    first = backend.put(points[:, network.lines].astype(np.float64)) @ network.columns[: len(network.lines)]
    for table in network.tables:
        first = first + table.lows[0, backend.put(points[:, table.attribute])]
    margins = np.empty((n, network.outputs, network.assignments))
    for p in range(network.assignments):
        units = first + (network.biases[0] + network.apart[p] if network.apart is not None else network.biases[p])
        for weights, offsets in zip(network.weights, network.offsets, strict=True):
            units = backend.positive(units) @ weights + offsets
        margins[:, :, p] = backend.host(units)
    return margins


def _decide_boxes(least: Floats, network: ArrayNetwork) -> NDArray[np.int8]:
    """Which boxes are decided as a whole, from the least values of all functions."""
    # FAIR: one label beats all others under every assignment. UNFAIR: c wins everywhere under one, and some label beats
    # c everywhere under another.
    labels, beats = len(network.beats), network.beats
    above: Booleans = (least > 0).reshape(len(least), -1, network.assignments)
    kind = np.full(len(least), OPEN, dtype=np.int8)
    fair, unfair = (np.zeros(len(least), dtype=np.bool_) for _ in range(2))
    for c in range(labels):
        others = [d for d in range(labels) if d != c]
        wins = np.all(above[:, beats[c, others]], axis=1)
        fair |= np.all(wins, axis=1)
        unfair |= np.any(wins, axis=1) & np.any(above[:, beats[others, c]], axis=(1, 2))
    kind[unfair] = UNFAIR
    kind[fair] = FAIR
    return kind


class _FunctionMoments:
    """Means and variances of additive functions over boxes, as the population has them."""

    def __init__(self, network: ArrayNetwork, low: Integers, high: Integers) -> None:
        backend = network.backend
        self.xp = backend.xp
        _, mean, variance = box_moments(network, low, high)
        self.mean, self.variance = backend.put(mean), backend.put(variance)
        self.tables: list[tuple[slice, Array]] = []
        axes, lines = network.axes, len(network.lines)
        for table in network.tables:
            i, cells = table.attribute, np.arange(table.end - table.begin)
            weight = np.diff(axes.weight[axes.first[i] : axes.first[i] + len(cells) + 1])
            inside = np.where((cells >= low[:, [i]]) & (cells <= high[:, [i]]), weight, 0.0)
            inside /= np.maximum(inside.sum(axis=1, keepdims=True), 1e-300)
            self.tables.append((slice(lines + table.begin, lines + table.end), backend.put(inside)))

    def of(self, coefficients: Array) -> tuple[Array, Array]:
        """Mean and variance of each box's function, shape (boxes,)."""
        # Attributes are independent: means and variances of their terms add up.
        xp = self.xp
        slopes = coefficients[:, : self.mean.shape[1]]
        centre, spread = xp.sum(slopes * self.mean, 1), xp.sum(slopes * slopes * self.variance, 1)
        for columns, chance in self.tables:
            cells = coefficients[:, columns]
            first = xp.sum(cells * chance, 1)
            spread = spread + xp.sum((cells - first[:, None]) ** 2 * chance, 1)
            centre = centre + first
        return centre, spread
