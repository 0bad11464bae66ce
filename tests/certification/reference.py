"""Bounds of one box, one unit at a time: the slow, obvious versions that the kernels are compared with."""

from __future__ import annotations

import numpy as np

from evenhand.certification.bounds.compiled.problem import CompiledProblem
from evenhand.certification.query.outcomes import FAIR, UNDECIDED, UNFAIR
from evenhand.certification.query.question import Query


def _extremes(query: Query, coefficients: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> tuple[float, float]:
    """Least and greatest value of a linear function of the columns over a box."""
    least = greatest = 0.0
    column = 0
    for i, cells in enumerate(query.cells):
        if cells.scale is not None:
            ends = [
                coefficients[column] * cells.scale.low(np.array([lo[i]]))[0],
                coefficients[column] * cells.scale.high(np.array([hi[i]]))[0],
            ]
            column += 1
        else:
            ends = coefficients[column + lo[i] : column + hi[i] + 1]
            column += cells.count
        least += min(ends)
        greatest += max(ends)
    return least, greatest


def bounds(query: Query, assignment: int, lo: np.ndarray, hi: np.ndarray) -> tuple[list[tuple[float, float]], list]:
    """(lower, upper) bound of each margin over a box, and the phases of the hidden units, without rounding slack."""
    rows = np.concatenate([cells.rows for cells in query.cells])
    lower = upper = rows
    low_constant = up_constant = query.biases[assignment]
    phases = []
    for layer in query.layers:
        phase = []
        relaxed = [np.zeros_like(lower), np.zeros_like(upper), np.zeros_like(low_constant), np.zeros_like(up_constant)]
        for k in range(lower.shape[1]):
            low_ends = [low_constant[k] + end for end in _extremes(query, lower[:, k], lo, hi)]
            up_ends = [up_constant[k] + end for end in _extremes(query, upper[:, k], lo, hi)]
            phase.append("on" if low_ends[0] >= 0 else "off" if up_ends[1] <= 0 else "unstable")
            low_slope = 1.0 if low_ends[0] >= 0 else 0.0
            if low_ends[0] < 0 < low_ends[1]:
                low_slope = low_ends[1] / (low_ends[1] - low_ends[0])
            if up_ends[1] <= 0:
                low_slope, up_slope, lift = 0.0, 0.0, 0.0
            elif up_ends[0] >= 0:
                up_slope, lift = 1.0, 0.0
            else:
                up_slope, lift = up_ends[1] / (up_ends[1] - up_ends[0]), up_ends[0]
            relaxed[0][:, k], relaxed[2][k] = low_slope * lower[:, k], low_slope * low_constant[k]
            relaxed[1][:, k], relaxed[3][k] = up_slope * upper[:, k], up_slope * (up_constant[k] - lift)
        phases.append(phase)
        plus, minus = np.maximum(layer.weights, 0), np.minimum(layer.weights, 0)
        lower = relaxed[0] @ plus + relaxed[1] @ minus
        upper = relaxed[1] @ plus + relaxed[0] @ minus
        low_constant = relaxed[2] @ plus + relaxed[3] @ minus + layer.bias
        up_constant = relaxed[3] @ plus + relaxed[2] @ minus + layer.bias
    found = [
        (
            low_constant[m] + _extremes(query, lower[:, m], lo, hi)[0],
            up_constant[m] + _extremes(query, upper[:, m], lo, hi)[1],
        )
        for m in range(lower.shape[1])
    ]
    return found, phases


def gradient(query: Query, phases: list, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """Interval gradient of a margin with respect to the first pre-activations."""
    if not query.layers:
        one = np.eye(query.biases.shape[1])[margin]
        return one, one
    low = high = query.layers[-1].weights[:, margin]
    for number in range(len(query.layers) - 1, -1, -1):
        on = np.array([phase == "on" for phase in phases[number]])
        off = np.array([phase == "off" for phase in phases[number]])
        low = np.where(off, 0.0, np.where(on, low, np.minimum(low, 0.0)))
        high = np.where(off, 0.0, np.where(on, high, np.maximum(high, 0.0)))
        if number:
            weights = query.layers[number - 1].weights
            plus, minus = np.maximum(weights, 0), np.minimum(weights, 0)
            low, high = plus @ low + minus @ high, plus @ high + minus @ low
    return low, high


def smears(query: Query, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """Width times interval gradient per attribute, added up over assignments and undecided margins."""
    answers = [bounds(query, p, lo, hi) for p in range(len(query.biases))]
    total = np.zeros(len(query.cells))
    for m in range(len(query.pairs)):
        if not any(found[m][0] <= 0 <= found[m][1] for found, _ in answers):
            continue
        for _, phases in answers:
            low, high = gradient(query, phases, m)
            for i, cells in enumerate(query.cells):
                if cells.scale is None:
                    changes = cells.rows[lo[i] : hi[i] + 1] - cells.rows[lo[i]]
                else:
                    reach = cells.scale.high(np.array([hi[i]]))[0] - cells.scale.low(np.array([lo[i]]))[0]
                    changes = cells.rows * reach
                ends = np.stack([changes * low, changes * high])
                total[i] += max(-(ends.min(axis=0).sum(axis=1).min()), ends.max(axis=0).sum(axis=1).max(), 0.0)
    return total


def status(query: Query, lo: np.ndarray, hi: np.ndarray) -> int:
    """What symbolic intervals prove of a box, without rounding slack."""
    possible = []
    for p in range(len(query.biases)):
        labels = set(range(len(query.classes)))
        for (a, b), (low, high) in zip(query.pairs, bounds(query, p, lo, hi)[0], strict=True):
            if low > 0:
                labels.discard(int(a))
            elif high < 0:
                labels.discard(int(b))
        possible.append(frozenset(labels))
    if any(not (one & other) for one in possible for other in possible):
        return UNFAIR
    return FAIR if len(set(possible)) == 1 and len(possible[0]) == 1 else UNDECIDED


def linear_bounds(
    problem: CompiledProblem, assignment: int, lo: np.ndarray, hi: np.ndarray, *, flat: bool
) -> list[tuple[np.ndarray, float]]:
    """Backward linear relaxation of the output over a box: (coefficients, constant) below it and above it.

    Hidden units are bounded by interval arithmetic and, where that leaves their sign open, by the same relaxation with
    the adaptive slope below a ReLU (1 if more of the unit's range is positive, else 0). The output takes that slope,
    or 0 with ``flat``. Coefficients are those of ``problem.network.columns``; there is no rounding slack.
    """
    network = problem.network
    bias = problem.roles.biases[assignment]
    _, widest, outputs = network.weights.shape
    square = np.pad(network.weights, ((0, 0), (0, 0), (0, widest - outputs)))
    chords: list[tuple[np.ndarray, np.ndarray]] = []
    adaptive: list[np.ndarray] = []
    last: list[np.ndarray] = []

    def back(layer: int, unit: int, up: bool, below: list[np.ndarray]) -> tuple[np.ndarray, float]:
        weights, constant = square[layer - 1, :, unit], network.offsets[layer - 1, unit]
        for k in range(layer - 1, -1, -1):
            slope, shift = chords[k]
            by_chord = (weights > 0) == up
            constant += (weights * shift)[by_chord].sum()
            weights = weights * np.where(by_chord, slope, below[k])
            if k:
                constant += network.offsets[k - 1] @ weights
                weights = square[k - 1] @ weights
        return network.columns @ weights, constant + bias @ weights

    def extreme(coefficients: np.ndarray, up: bool) -> float:
        total = 0.0
        for i, (line, a) in enumerate(zip(network.line, network.start, strict=True)):
            if line:
                ends = coefficients[a] * np.array([lo[i], hi[i] + network.reach[i]])
            else:
                ends = coefficients[a + lo[i] : a + hi[i] + 1]
            total += ends.max() if up else ends.min()
        return total

    units = range(len(bias))
    low = np.array([extreme(network.columns[:, h], False) for h in units]) + bias
    high = np.array([extreme(network.columns[:, h], True) for h in units]) + bias
    for k in range(len(network.sizes) - 1):
        if k:
            weights, offsets = square[k - 1], network.offsets[k - 1]
            plus, minus = np.maximum(weights, 0), np.minimum(weights, 0)
            below, above = np.maximum(low, 0), np.maximum(high, 0)
            low, high = below @ plus + above @ minus + offsets, above @ plus + below @ minus + offsets
            for j in units:
                if low[j] < 0 < high[j]:
                    coefficients, constant = back(k, j, False, adaptive)
                    low[j] = max(low[j], extreme(coefficients, False) + constant)
                if low[j] < 0 < high[j]:
                    coefficients, constant = back(k, j, True, adaptive)
                    high[j] = min(high[j], extreme(coefficients, True) + constant)
        on, mixed = low >= 0, (low < 0) & (high > 0)
        slope = np.where(on, 1.0, np.where(mixed, high / np.where(mixed, high - low, 1.0), 0.0))
        chords.append((slope, np.where(mixed, -slope * low, 0.0)))
        adaptive.append(np.where(on | (mixed & (high > -low)), 1.0, 0.0))
        last.append(np.where(on, 1.0, 0.0) if flat else adaptive[-1])
    return [back(len(network.sizes) - 1, 0, up, last) for up in (False, True)]
