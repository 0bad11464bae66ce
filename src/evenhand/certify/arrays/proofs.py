"""Proved shares of many boxes from their functions (compiled)."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from evenhand.certify.shares import Axes, Events, desk, prove

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)


def shares_of(
    low: Ints,
    high: Ints,
    coefficients: Floats,
    constants: Floats,
    zscore: Floats,
    unfair: Ints,
    beats: Ints,
    assignments: int,
    axes: Axes,
    precision: tuple[int, int],
) -> Floats:
    """Proved shares of boxes, fair and unfair, shape (boxes, 2).

    Args:
        low, high: first and last cell of each attribute, shape (boxes, attributes).
        coefficients, constants, zscore: see ``functions.Functions``.
        unfair: members of the unfair event of each box, shape (boxes, labels); with two labels and two assignments both
            unfair events are proved instead.
        beats, assignments: see ``network.Network``.
        axes: layout and weights of the attributes.
        precision: grid steps and joint values enumerated.
    """
    labels, functions = len(beats), zscore.shape[1]
    both = labels == 2 and assignments == 2
    most = max(2, (labels - 1) * assignments)
    count = labels + (2 if both else 1)
    events = Events(
        number=np.array([count]),
        size=np.full(labels + 2, (labels - 1) * assignments),
        member=np.zeros((labels + 2, most), dtype=np.int64),
        unfair=np.arange(labels + 2) >= labels,
    )
    for c in range(labels):
        won = beats[c, [d for d in range(labels) if d != c]]
        events.member[c, : events.size[c]] = (won[:, None] * assignments + np.arange(assignments)).ravel()
    if both:
        events.member[2] = beats[1, 0] * 2, beats[0, 1] * 2 + 1
        events.member[3] = beats[1, 0] * 2 + 1, beats[0, 1] * 2
    events.size[labels:] = labels
    shares = np.zeros((len(low), 2))
    work = desk(functions, low.shape[1], len(axes.weight) - low.shape[1], labels + 2, most)
    _prove(events, both, low, high, coefficients, constants.copy(), zscore, unfair, axes, *precision, work, shares)
    return shares


@jit
def _prove(events, both, low, high, coefficients, constants, zscore, unfair, axes, grid, room, work, shares):
    none = np.zeros(zscore.shape[1])
    count = events.number[0]
    for t in range(low.shape[0]):
        if not both:
            for k in range(unfair.shape[1]):
                events.member[count - 1, k] = unfair[t, k]
        prove(
            events, low[t], high[t], coefficients[t], constants[t], none, zscore[t], zscore[t], axes, grid, room, work
        )
        for e in range(count):
            shares[t, 1 if events.unfair[e] else 0] += work.share[e]
