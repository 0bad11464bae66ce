"""Linear relaxation of ReLU, the basis of bounds on arrays.

For a unit ``z`` between ``low`` and ``high``, with ``low < 0 < high``, ReLU lies below its chord and above every line
through 0 whose slope is between 0 and 1 (the triangle relaxation: Ehlers, ATVA 2017)::

    a z  <=  relu(z)  <=  s z - s low,      s = high / (high - low),   0 <= a <= 1

The chord meets ReLU at both ends. Of the lines below, slope 1 encloses less area than slope 0 if
``high > -low`` (CROWN: Zhang et al., NeurIPS 2018; DeepPoly: Singh et al., POPL 2019). A unit that is on (``low >= 0``)
or off (``high <= 0``) is its own line: ``z`` or 0.

A lower bound ``w . relu(z) + c`` is propagated one layer back by substituting the line below where ``w > 0`` and the
chord where ``w < 0``; for an upper bound, the two are swapped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Floats


@dataclass(frozen=True, eq=False)
class ReluRelaxation:
    """Lines around the ReLUs of a layer; every array has the shape of the units' bounds.

    Attributes:
        slope, shift: Line above, ``slope * z + shift``.
        adaptive: Slope of the line below, 1 or 0, with the smaller area between it and the chord.
        flat: Slope of the line below that is 0 for every open unit.
    """

    slope: Floats
    shift: Floats
    adaptive: Floats
    flat: Floats


def relax_relu(low: Floats, high: Floats) -> ReluRelaxation:
    """Compute the lines around ReLU for units between ``low`` and ``high``.

    Args:
        low, high: Bounds of the units before ReLU, of equal shape.
    """
    on, off = low >= 0, high <= 0
    ones, zeros = np.ones_like(low), np.zeros_like(low)
    chord = high / np.where(on | off, ones, high - low)
    slope = np.where(on, ones, np.where(off, zeros, chord))
    return ReluRelaxation(
        slope=slope,
        shift=np.where(on, zeros, -slope * low),
        adaptive=np.where(on | (~off & (high > -low)), ones, zeros),
        flat=np.where(on, ones, zeros),
    )


def relax_sums(weights: Floats, slope: Floats, shift: Floats, below: Floats, *, up: bool) -> tuple[Floats, Floats]:
    """Compute the weights of ``z`` and the constants that bound weighted sums of ``relu(z)``.

    Args:
        weights: Weights of the units after ReLU, shape (..., units).
        slope, shift: Lines above ReLU, see ``ReluRelaxation``.
        below: Slopes of the lines below ReLU: ``adaptive`` or ``flat``.
        up: Whether to bound from above instead of from below.

    Returns:
        Weights, shape (..., units), and constants, shape (...).
    """
    chord = np.maximum(weights, 0.0) if up else np.minimum(weights, 0.0)
    return weights * np.where(chord != 0, slope, below), np.asarray(np.sum(chord * shift, -1))


def multiply_units(functions: Floats, weights: Floats) -> Floats:
    """Multiply functions (boxes, terms, units) by weights (units, next units)."""
    boxes, terms, units = functions.shape
    return (functions.reshape(boxes * terms, units) @ weights).reshape(boxes, terms, weights.shape[1])
