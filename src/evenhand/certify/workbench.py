"""What the compiled kernels of the linear method know of a query, and their work arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.lanes import LANES
from evenhand.certify.relaxation import Network, Scratch, scratch
from evenhand.certify.shares import Axes, Desk, Events, desk

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Roles(NamedTuple):
    """What the functions say. Function ``beats[a, b] * P + p``: label a beats label b under assignment p.

    Attributes:
        assignments: P.
        labels: how many there are.
        beats: shape (labels, labels).
        biases: of the first units; one row if the assignments are bounded together, else P.
        joint: whether they are; then the assignment is the attribute of the network after the unprotected ones.
        relaxed: which unprotected attribute each of the last attributes of the network moves within its tolerance.
        tolerance: by how much, in positions.
        last: largest position of each of those unprotected attributes.
    """

    assignments: int
    labels: int
    beats: Ints
    biases: Floats
    joint: bool
    relaxed: Ints
    tolerance: Floats
    last: Floats


class Bench(NamedTuple):
    """Work arrays of one thread.

    Lanes come last in ``lo``, ``hi`` (held attributes), ``mean``, ``variance`` (attributes), ``mass``, ``score``, ``g``
    (forms, 2 slopes, columns), ``constant``, ``least``, ``gain``, ``zscore``, ``bolder`` (functions * 2 slopes),
    ``work`` (5). A form is the part of a function that all assignments share if they are bounded together.
    """

    lo: Floats
    hi: Floats
    held_low: Ints
    held_high: Ints
    low: Ints
    high: Ints
    mean: Floats
    variance: Floats
    mass: Floats
    score: Floats
    left: Floats
    width: Ints
    g: Floats
    constant: Floats
    least: Floats
    gain: Floats
    zscore: Floats
    bolder: Floats
    work: Floats
    chosen: Floats
    chosen_constant: Floats
    chosen_gain: Floats
    chosen_zscore: Floats
    chosen_bolder: Floats
    wins: Floats
    sure: NDArray[np.bool_]
    unit: Floats
    following: Floats
    miss: Floats
    missing: Floats
    offset: Floats
    known: NDArray[np.int8]
    state: NDArray[np.uint8]


def bench(net: Network, roles: Roles, axes: Axes) -> tuple[Bench, Scratch, Events, Desk]:
    """Fresh work arrays for a problem."""
    attributes, held, columns, widest = len(axes.first), len(net.start), len(net.columns), net.weights.shape[1]
    labels, outputs = len(roles.beats), int(net.sizes[-1])
    functions, members = 2 * outputs * roles.assignments, max(2, (labels - 1) * roles.assignments)
    kinds = [np.zeros((2 * functions, LANES)) for _ in range(5)]
    tables = Bench(
        lo=np.zeros((held, LANES)),
        hi=np.zeros((held, LANES)),
        held_low=np.zeros(held, np.int64),
        held_high=np.zeros(held, np.int64),
        low=np.zeros(attributes, np.int64),
        high=np.zeros(attributes, np.int64),
        mean=np.zeros((attributes, LANES)),
        variance=np.zeros((attributes, LANES)),
        mass=np.zeros(LANES),
        score=np.zeros((held, LANES)),
        left=np.zeros(attributes),
        width=np.zeros(attributes, np.int64),
        g=np.zeros((2 * outputs * len(roles.biases), 2, columns, LANES)),
        constant=kinds[0],
        least=kinds[1],
        gain=kinds[2],
        zscore=kinds[3],
        bolder=kinds[4],
        work=np.zeros((5, LANES)),
        chosen=np.zeros((functions, columns)),
        chosen_constant=np.zeros(functions),
        chosen_gain=np.zeros(functions),
        chosen_zscore=np.zeros(functions),
        chosen_bolder=np.zeros(functions),
        wins=np.zeros((labels, roles.assignments)),
        sure=np.zeros((labels, roles.assignments), np.bool_),
        unit=np.zeros(widest),
        following=np.zeros(widest),
        miss=np.zeros(widest),
        missing=np.zeros(widest),
        offset=np.zeros(max(1, len(roles.relaxed))),
        known=np.zeros((len(roles.biases), len(net.sizes) - 1, widest), np.int8),
        state=np.zeros((LANES, state_bytes(net, roles)), np.uint8),
    )
    events = Events(
        number=np.zeros(1, np.int64),
        size=np.zeros(labels + 2, np.int64),
        member=np.zeros((labels + 2, members), np.int64),
        unfair=np.zeros(labels + 2, np.bool_),
    )
    cells = len(axes.weight) - attributes
    return tables, scratch(net), events, desk(functions, attributes, cells, labels + 2, members)


def state_bytes(net: Network, roles: Roles) -> int:
    """Room that two bits take for every unit after the first layer."""
    return (len(roles.biases) * int(net.sizes[1:-1].sum()) + 3) // 4
