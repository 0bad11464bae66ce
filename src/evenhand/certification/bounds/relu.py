"""Linear relaxation of ReLU for NumPy and PyTorch, the basis of proofs by arrays.

For a unit ``z`` between ``low`` and ``high``, with ``low < 0 < high``, ReLU lies below its chord and above every line
through 0 whose slope is between 0 and 1 (the triangle relaxation: Ehlers, ATVA 2017)::

    a z  <=  relu(z)  <=  s z - s low,      s = high / (high - low),   0 <= a <= 1

The chord meets ReLU at both ends. Of the lines below, slope 1 encloses less area than slope 0 if
``high > -low`` (CROWN: Zhang et al., NeurIPS 2018; DeepPoly: Singh et al., POPL 2019). A unit that is on (``low >= 0``)
or off (``high <= 0``) is its own line: ``z`` or 0.

A bound ``w . relu(z) + c`` of something from below goes one layer back by putting the line below where ``w > 0`` and
the chord where ``w < 0``; a bound from above, the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Array: TypeAlias = Any
"""An array of the namespace in use."""


@dataclass(frozen=True, eq=False)
class ReluRelaxation:
    """Lines around the ReLUs of a layer; every array has the shape of the units' bounds.

    Attributes:
        slope, shift: Line above, ``slope * z + shift``.
        adaptive: Slope of the line below, 1 or 0, with the smaller area between it and the chord.
        flat: Slope of the line below that is 0 for every open unit.
    """

    slope: Array
    shift: Array
    adaptive: Array
    flat: Array


def relax_relu(low: Array, high: Array, xp: Any) -> ReluRelaxation:
    """Compute the lines around ReLU for units between ``low`` and ``high``.

    Args:
        low, high: bounds of the units before their ReLU, of any one shape.
        xp: ``numpy`` or ``torch``; with PyTorch the lines are differentiable in the bounds.
    """
    on, off = low >= 0, high <= 0
    ones, zeros = xp.ones_like(low), xp.zeros_like(low)
    # Nothing is divided by 0 where the unit is not open, or the gradient there would not be a number.
    chord = high / xp.where(on | off, ones, high - low)
    slope = xp.where(on, ones, xp.where(off, zeros, chord))
    return ReluRelaxation(
        slope=slope,
        shift=xp.where(on, zeros, -slope * low),
        adaptive=xp.where(on | (~off & (high > -low)), ones, zeros),
        flat=xp.where(on, ones, zeros),
    )


def relax_weights(weights: Array, slope: Array, below: Array, *, up: bool, xp: Any) -> Array:
    """Compute the weights of ``z`` that replace weights of ``relu(z)``, by the chord or the line below.

    Args:
        weights: of the units behind their ReLU, shape (..., units).
        slope: of the lines above ReLU, see ``ReluRelaxation``.
        below: slope of the lines below it: ``adaptive``, or ``flat``.
        up: bound from above, else from below.
        xp: ``numpy`` or ``torch``.
    """
    return weights * xp.where(weights > 0 if up else weights < 0, slope, below)


def relax_constant(weights: Array, shift: Array, *, up: bool, xp: Any) -> Array:
    """Compute the constants of the chords for the bound of ``relax_weights``, shape (...).

    Args:
        weights, up, xp: as for ``relax_weights``.
        shift: of the lines above ReLU. It is at least 0: the constant only ever loosens the bound.
    """
    chord = weights > 0 if up else weights < 0
    return xp.sum(xp.where(chord, weights, xp.zeros_like(weights)) * shift, -1)
