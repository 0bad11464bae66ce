"""Linear lower functions of every margin over a box, in integers rounded to the safe side.

The margin of a ReLU network is bounded from below by replacing each ReLU, from the last layer to the first, by a line
that stays on the right side of it: where its coefficient c is positive, ReLU(z) >= z or >= 0; where it is negative, any
line d*z + k with ``k = min(-d*l, (c - d)*u)`` stays below ``c*ReLU(z)`` on [l, u], as that is concave there and touches
its least distance at an end. Coefficients of activations may be rounded down, as activations are not negative. What is
left is a constant, plus what each attribute adds. Upper functions are lower functions of the negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.deployed import ERROR_BITS, Float32Errors
from evenhand.checker.fixed import FAST_BITS, FixedPointLayer, FixedPointNetwork, Integers, LinearAxis, TableAxis

SLOPE_BITS = 20


@dataclass(frozen=True)
class MarginBounds:
    """Lower functions over boxes.

    Every box comes once per group of assignments that are bounded together: alone (``groups`` as many as there are
    assignments, ``each`` 1), or all at once (1 group of all).

    Attributes:
        coefficients: of the first units, shape (boxes, groups, margins, 2, units); of the margin and of its negative.
        constants: shape (boxes, groups, each, margins, 2), in twice the bits, the float32 error already taken off.
        least: least value in the box, the same shape: a margin is decided where it is positive.
        importance: of each attribute for what the lines miss, shape (boxes, attributes).
    """

    coefficients: Integers
    constants: Integers
    least: Integers
    importance: NDArray[np.float64]

    def of(self, boxes: NDArray[np.integer]) -> MarginBounds:
        """Return the same for some of the boxes."""
        return MarginBounds(self.coefficients[boxes], self.constants[boxes], self.least[boxes], self.importance[boxes])


@dataclass(frozen=True)
class _BoxRanges:
    """What is needed of boxes: positions along strips, ranges of rows, and the bases of each group."""

    low: NDArray[np.integer]
    high: NDArray[np.integer]
    ends: tuple[tuple[Integers, Integers] | None, ...]
    bases: Integers


def bound_margins(
    fixed: FixedPointNetwork, low: NDArray[np.integer], high: NDArray[np.integer], *, together: bool, flat: bool = False
) -> MarginBounds:
    """Bound every margin under every assignment.

    Args:
        fixed: the network.
        low, high: boxes, shape (n, attributes).
        together: bound all assignments at once: their functions then differ by constants only.
        flat: in the last functions take 0 as the lower line of an undecided ReLU, whatever its bounds.
    """
    n, assignments = len(low), len(fixed.bases)
    groups = 1 if together else assignments
    each = assignments if together else 1
    wide_low, wide_high = np.repeat(low, groups, axis=0), np.repeat(high, groups, axis=0)
    ends: list[tuple[Integers, Integers] | None] = []
    for i, axis in enumerate(fixed.axes):
        if isinstance(axis, LinearAxis):
            a, b = axis.positions(low[:, i], fixed.bits)
            c, d = axis.positions(high[:, i], fixed.bits)
            ends.append((np.repeat(np.minimum(a, c), groups), np.repeat(np.maximum(b, d), groups)))
        else:
            ends.append(None)
    bases = np.tile(fixed.bases.reshape(groups, each, -1), (n, 1, 1))
    box = _BoxRanges(wide_low, wide_high, tuple(ends), bases)
    deployed = fixed.deployed
    error = np.zeros((n * groups, 0), dtype=np.int64)
    if isinstance(deployed, Float32Errors):
        sizes = np.repeat(deployed.sizes(tuple(axis.axis for axis in fixed.axes), low, high), groups, axis=0)
        sizes = sizes + np.tile(deployed.bases.reshape(groups, each, -1).max(axis=1), (n, 1))
        error = deployed.first_error(sizes)
    least, most, widths = _bound_first_layer(fixed, box)
    lower, upper = [least], [most]
    for number, layer in enumerate(fixed.layers[:-1]):
        if isinstance(deployed, Float32Errors):
            error = deployed.after(number, _rescale_upper(fixed, deployed, number, upper[-1]), error)
        rows = np.concatenate([layer.weights, -layer.weights])
        bias = np.concatenate([layer.bias, -layer.bias])
        units = len(layer.bias)
        found = None
        # Rows are the units and their negatives: lower functions of both are bounds from either side. Of both choices
        # of lines and of intervals the tightest is kept.
        for slope in (False, True):
            coefficients, constants = _substitute_backward(fixed, rows, bias, lower, upper, flat=slope)
            values = _least_values(fixed, box, coefficients, constants).min(axis=1) >> fixed.bits
            found = values if found is None else np.maximum(found, values)
        assert found is not None
        by_interval = _interval_layer(layer, lower[-1], upper[-1], fixed.caps if number == 0 else None, fixed.bits)
        lower.append(np.maximum(found[:, :units], by_interval[0]))
        upper.append(np.minimum(-found[:, units:], by_interval[1]))
        upper[-1] = np.maximum(upper[-1], lower[-1])
    margins = len(fixed.form.pairs)
    if fixed.layers:
        layer, last = fixed.layers[-1], len(fixed.layers) - 1
        if isinstance(deployed, Float32Errors):
            error = deployed.after(last, _rescale_upper(fixed, deployed, last, upper[-1]), error)
        rows = np.concatenate([layer.weights, -layer.weights])
        bias = np.concatenate([layer.bias, -layer.bias])
        coefficients, constants = _substitute_backward(fixed, rows, bias, lower, upper, flat=flat)
    else:
        identity = np.eye(margins, dtype=np.int64) << np.int64(FAST_BITS)
        both = np.concatenate([identity, -identity])
        if fixed.bits > FAST_BITS:
            both = both.astype(object) << (fixed.bits - FAST_BITS)
        coefficients = np.broadcast_to(both, (n * groups, *both.shape))
        constants = _from_first(fixed, coefficients, np.zeros(coefficients.shape[:2], dtype=both.dtype))
    if isinstance(deployed, Float32Errors):
        limit = _margin_errors(fixed, deployed, error + deployed.tie)
    else:
        limit = _change_errors(fixed, deployed, len(error))
    # What float32 may be off by is taken off the margin and off its negative alike.
    constants = constants - np.concatenate([limit, limit], axis=1)
    # Assignments of a group have the same coefficients and differ by what their bases add.
    with_base = constants[:, None, :] + np.stack(
        [_exact_product(coefficients, bases[:, k, :, None], fixed.bits)[:, :, 0] for k in range(each)], axis=1
    )
    values = with_base + _least_terms(fixed, box, coefficients)[:, None, :]
    shape = (n, groups, each, 2, margins)
    return MarginBounds(
        coefficients=np.moveaxis(coefficients.reshape(n, groups, 2, margins, -1), 2, 3),
        constants=np.moveaxis(with_base.reshape(shape), 3, 4),
        least=np.moveaxis(values.reshape(shape), 3, 4),
        importance=_gap_importance(fixed, coefficients, least, most, widths).reshape(n, groups, -1).sum(axis=1),
    )


def _rescale_upper(fixed: FixedPointNetwork, deployed: Float32Errors, layer: int, upper: Integers) -> NDArray[np.int64]:
    """Return the upper bounds of units in the scale of error bounds, rounded up."""
    moved = ERROR_BITS - fixed.bits + fixed.exponents[layer] - deployed.exponents[layer]
    if fixed.bits > FAST_BITS:
        ups = [-((-upper[:, k]) >> -m) if m < 0 else upper[:, k] << m for k, m in enumerate(moved.tolist())]
        return np.stack(ups, axis=1).astype(np.int64)
    down = np.clip(-moved, 0, 62)
    return np.asarray((-((-upper) >> down)) << np.maximum(moved, 0))


def _change_errors(fixed: FixedPointNetwork, error: Fraction, boxes: int) -> Integers:
    """Return the error bound of changes, the same everywhere, in twice the bits of the network, (boxes, margins)."""
    never = 2 ** (2 * fixed.bits + 3)
    scaled = [min(never, math.ceil(error * Fraction(2) ** (2 * fixed.bits - int(e)))) for e in fixed.exponents[-1]]
    row = np.array(scaled, dtype=object if fixed.bits > FAST_BITS else np.int64)
    return np.broadcast_to(row, (boxes, len(row)))


def _margin_errors(fixed: FixedPointNetwork, deployed: Float32Errors, error: NDArray[np.int64]) -> Integers:
    """Return error bounds of margins in twice the bits of the network; where that is too much, more than any margin."""
    moved = 2 * fixed.bits - ERROR_BITS + deployed.exponents[-1] - fixed.exponents[-1]
    if fixed.bits > FAST_BITS:
        exact = [(error[:, k].astype(object) << m) if m >= 0 else (error[:, k].astype(object) >> -m) + 1
                 for k, m in enumerate(moved.tolist())]  # fmt: skip
        return np.stack(exact, axis=1)
    never = 2 ** (2 * fixed.bits + 3)
    up, down = np.clip(moved, 0, 62), np.clip(-moved, 0, 62)
    large = np.ldexp(error.astype(np.float64), np.clip(moved, -2000, 2000).astype(np.int32)) >= never / 2
    return np.asarray(np.where(large, never, (np.where(large, 0, error) << up >> down) + 1))


def _weight_error(upper: Integers, bits: int) -> Integers:
    """Return units of the last place that an affine map of activations may be off, (n,), rounded up."""
    return np.asarray((np.maximum(upper, 0).sum(axis=1) >> bits) + 3)


def _bound_first_layer(
    fixed: FixedPointNetwork, box: _BoxRanges
) -> tuple[Integers, Integers, list[NDArray[np.float64]]]:
    """Return the bounds of the first units, and how wide each attribute makes them."""
    n, units = box.bases.shape[0], box.bases.shape[2]
    kind = box.bases.dtype
    least, most = np.zeros((n, units), dtype=kind), np.zeros((n, units), dtype=kind)
    widths = []
    for i, axis in enumerate(fixed.axes):
        ends = box.ends[i]
        if isinstance(axis, LinearAxis) and ends is not None:
            a, b = ends[0][:, None] * axis.slope, ends[1][:, None] * axis.slope
            low, high = np.minimum(a, b), np.maximum(a, b)
        elif isinstance(axis, TableAxis):
            low, high = axis.range(box.low[:, i], box.high[:, i])
            low, high = low << fixed.bits, high << fixed.bits
        least, most = least + low, most + high
        widths.append((high - low).astype(np.float64))
    # Rounded outwards: ``>>`` rounds down, and of the negative up.
    least, most = least >> fixed.bits, -((-most) >> fixed.bits)
    return (
        least + box.bases.min(axis=1) - fixed.margin,
        most + box.bases.max(axis=1) + fixed.margin,
        widths,
    )


def _substitute_backward(
    fixed: FixedPointNetwork,
    rows: Integers,
    bias: Integers,
    lower: list[Integers],
    upper: list[Integers],
    *,
    flat: bool,
) -> tuple[Integers, Integers]:
    """Rows times activations of the last bounded layer as functions of the first units: coefficients and constants."""
    n = len(lower[0])
    coefficients = np.broadcast_to(rows, (n, *rows.shape))
    # Each weight is off by at most one unit of the last place, and so is the bias.
    exact = np.maximum(upper[-1], 0).sum(axis=1) + (1 << fixed.bits)
    constants = (bias << fixed.bits)[None, :] - exact[:, None]
    # Invariant: what is asked for is at least coefficients @ activations of layer ``number`` + constants, everywhere in
    # the box; coefficients in the network's bits, constants in twice as many.
    for number in range(len(lower) - 1, -1, -1):
        bounds = lower[number], upper[number]
        if number == 0 and fixed.caps is not None:
            coefficients, more = _through_clamp(coefficients, *bounds, fixed.caps, flat=flat)
        else:
            coefficients, more = _through_relu(coefficients, *bounds, flat=flat)
        constants = constants + more
        if number == 0:
            return coefficients, _from_first(fixed, coefficients, constants)
        layer = fixed.layers[number - 1]
        constants = constants + _exact_product(coefficients, layer.bias[:, None], fixed.bits)[:, :, 0]
        off = _weight_error(upper[number - 1], fixed.bits)
        constants = constants - off[:, None] * np.abs(coefficients).sum(axis=2)
        # Rounding down is sound: these are coefficients of activations, which are not negative.
        coefficients = _exact_product(coefficients, layer.weights, fixed.bits) >> fixed.bits
    raise AssertionError("there is a first layer")


def _from_first(fixed: FixedPointNetwork, coefficients: Integers, constants: Integers) -> Integers:
    return np.asarray(constants - fixed.margin * np.abs(coefficients).sum(axis=2))


def _through_relu(coefficients: Integers, low: Integers, high: Integers, *, flat: bool) -> tuple[Integers, Integers]:
    """Return the coefficients of ReLUs as coefficients of what goes in, and constants."""
    on, off = (low >= 0)[:, None, :], (high <= 0)[:, None, :]
    width = np.maximum(high - low, 1)
    chord = ((np.maximum(high, 0) << SLOPE_BITS) // width)[:, None, :]
    # c relu(z) >= d z + k everywhere between low and high: for c > 0 with d = c or 0 and k = 0; for c < 0 with d = c *
    # chord and k = min(-d low, (c - d) high), as c relu(z) - d z is concave and least at an end.
    rising = 0 if flat else np.where((high >= -low)[:, None, :], coefficients, 0)
    sloped = np.where(coefficients > 0, rising, (coefficients * chord) >> SLOPE_BITS)
    mixed = ~on & ~off & (coefficients < 0)
    constants = np.where(
        mixed, np.minimum(-sloped * low[:, None, :], (coefficients - sloped) * high[:, None, :]), 0
    ).sum(axis=2)
    return np.where(on, coefficients, np.where(off, 0, sloped)), constants


def _through_clamp(
    coefficients: Integers, low: Integers, high: Integers, caps: Integers, *, flat: bool
) -> tuple[Integers, Integers]:
    """Return the coefficients of clamps min(max(z, 0), cap) as coefficients of z, and constants.

    Whatever line d*z is chosen, c * clamp(z) - d*z is a broken line on [low, high]: its least value is at an end of the
    range or where it is broken, at 0 or the cap, if these lie inside. So any d is sound, and the constants are exact
    but for the caps, each off by at most one unit of the last place.
    """
    c = coefficients
    least, most, cap = low[:, None, :], high[:, None, :], caps[None, None, :]
    inside, beyond = (least < 0) & (most > 0), (least < cap) & (most > cap)
    # The clamp is convex below the cap and concave above 0. Lines below it: through 0, up to the far end, which no cap
    # lets rise above the chord. Lines above it: through the point at the cap, from the near end.
    up = np.maximum(most, 1)
    rise = np.minimum(cap, up)
    climb = np.maximum(rise - np.minimum(least, 0), 1)
    over = np.where(least < 0, (rise << SLOPE_BITS) // climb, 1 << SLOPE_BITS)
    floor = np.maximum(np.minimum(least, cap), 0)
    under = ((np.minimum(most, cap) - floor) << SLOPE_BITS) // np.maximum(most - np.maximum(least, 0), 1)
    if flat:
        chosen = np.where(c > 0, np.where(least < 0, 0, under), np.where(beyond, 0, over))
    else:
        chosen = np.where(c > 0, np.where(~inside | (most > -least), under, 0),
                          np.where(~beyond | (most - cap < cap - least), over, 0))  # fmt: skip
    sloped = np.where((most <= 0) | (least >= cap), 0, (c * chosen) >> SLOPE_BITS)

    def miss(z: Integers) -> Integers:
        return np.asarray(c * np.clip(z, 0, cap) - sloped * z)

    constants = np.minimum(miss(least), miss(most))
    constants = np.where(inside, np.minimum(constants, miss(np.zeros_like(least))), constants)
    constants = np.where(beyond, np.minimum(constants, miss(cap + 0 * least)), constants)
    return sloped, (constants - np.abs(c) - np.abs(sloped)).sum(axis=2)


def _exact_product(left: Integers, right: Integers, bits: int) -> Integers:
    """Return exact matrix product.

    Rows of ``left`` have sizes that add up to at most 2**(bits + 1), ``right`` is at most 2**(bits + 1). Split into
    two parts of 15 bits, all partial sums are whole numbers below 2**53: float64 holds them exactly, in any order.
    """
    if bits > FAST_BITS:
        return np.asarray(np.matmul(left, right))
    high = right >> 15
    low = right - (high << 15)
    wide = left.astype(np.float64)
    upper = np.matmul(wide, high.astype(np.float64)).astype(np.int64)
    return np.asarray((upper << 15) + np.matmul(wide, low.astype(np.float64)).astype(np.int64))


def _least_values(fixed: FixedPointNetwork, box: _BoxRanges, coefficients: Integers, constants: Integers) -> Integers:
    """Return least values of functions over each box under each assignment of its group, shape (n, each, functions)."""
    bases = np.stack(
        [
            _exact_product(coefficients, box.bases[:, k, :, None], fixed.bits)[:, :, 0]
            for k in range(box.bases.shape[1])
        ],
        axis=1,
    )
    return np.asarray(bases + (constants + _least_terms(fixed, box, coefficients))[:, None, :])


def _least_terms(fixed: FixedPointNetwork, box: _BoxRanges, coefficients: Integers) -> Integers:
    """Return the least that all attributes together add, shape (n, functions)."""
    total = np.zeros(coefficients.shape[:2], dtype=coefficients.dtype)
    strips = [i for i, axis in enumerate(fixed.axes) if isinstance(axis, LinearAxis)]
    if strips:
        slopes = np.stack([axis.slope for axis in fixed.axes if isinstance(axis, LinearAxis)], axis=1)
        # Positions are not negative: a slope rounded down gives less.
        slope = _exact_product(coefficients, slopes, fixed.bits) >> fixed.bits
        for k, i in enumerate(strips):
            ends = box.ends[i]
            assert ends is not None
            total = total + np.minimum(slope[:, :, k] * ends[0][:, None], slope[:, :, k] * ends[1][:, None])
    for i, axis in enumerate(fixed.axes):
        if isinstance(axis, TableAxis):
            values = _exact_product(coefficients, np.ascontiguousarray(axis.rows.T), fixed.bits)
            cells = np.arange(axis.axis.count)
            outside = (cells < box.low[:, i, None]) | (cells > box.high[:, i, None])
            total = total + np.where(outside[:, None, :], 1 << (2 * fixed.bits + 2), values).min(axis=2)
    return total


def _interval_layer(
    layer: FixedPointLayer, low: Integers, high: Integers, caps: Integers | None, bits: int
) -> tuple[Integers, Integers]:
    """Return the bounds of a layer by interval arithmetic."""
    weights, bias = layer.weights, layer.bias
    inside, outside = np.maximum(low, 0), np.maximum(high, 0)
    # Caps are off by one unit of the last place at most.
    if caps is not None:
        inside, outside = np.minimum(inside, caps - 1), np.minimum(outside, caps + 1)
    rising, falling = np.maximum(weights, 0).T, np.minimum(weights, 0).T
    least = np.matmul(inside, rising) + np.matmul(outside, falling)
    most = np.matmul(outside, rising) + np.matmul(inside, falling)
    off = _weight_error(high, bits)[:, None]
    return (least >> bits) + bias - off, -((-most) >> bits) + bias + off


def _gap_importance(
    fixed: FixedPointNetwork, coefficients: Integers, low: Integers, high: Integers, widths: list[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """How much of what the lines miss each attribute is to blame for, about; (n, attributes). It proves nothing."""
    if not widths:
        return np.zeros((len(low), 0))
    # By how much an undecided unit's lines miss its ReLU, as a part of its range: -l u / (u - l)^2.
    weight = np.abs(coefficients.astype(np.float64)).sum(axis=1)
    least, most = low.astype(np.float64), high.astype(np.float64)
    width = np.maximum(most - least, 1.0)
    gap = np.where((least < 0) & (most > 0), -least * most / width**2, 0.0) + 0.02
    if fixed.caps is not None:
        # Between 0 and the cap a clamp moves, and elsewhere nothing does.
        caps = fixed.caps.astype(np.float64)
        moving = (least < caps) & (most > 0)
        gap = np.where((caps < width) & moving, 0.25 * caps / width, gap) + 1e-3
    return np.stack([(weight * gap * each).sum(axis=1) for each in widths], axis=1)


def cell_terms(fixed: FixedPointNetwork, coefficients: Integers, axis: int, low: int, high: int) -> NDArray[np.int64]:
    """What each cell of a range adds to functions at least, (functions, cells), in ``2 * FAST`` bits, rounded down.

    Args:
        fixed: the network.
        coefficients: of the first units, shape (functions, units).
        axis: of the attribute.
        low, high: the range.
    """
    held = fixed.axes[axis]
    if isinstance(held, LinearAxis):
        slope = _exact_product(coefficients[None], held.slope[:, None], fixed.bits)[0, :, 0] >> fixed.bits
        ends = held.positions(np.arange(low, high + 1), fixed.bits)
        values = np.minimum(slope[:, None] * ends[0], slope[:, None] * ends[1])
    else:
        values = _exact_product(coefficients[None], np.ascontiguousarray(held.rows[low : high + 1].T), fixed.bits)[0]
    return np.asarray(to_fast_bits(values, fixed.bits))


def to_fast_bits(values: Any, bits: int) -> Any:
    """Return the numbers of twice the bits as 64-bit integers of ``2 * FAST`` bits, rounded down.

    Constants beyond eight times the largest margin are brought to that: no terms can change their sign.
    """
    if bits == FAST_BITS:
        return values
    largest = 2 ** (2 * FAST_BITS + 3)
    return np.maximum(np.minimum(values >> (2 * (bits - FAST_BITS)), largest), -largest).astype(np.int64)
