"""Decide boxes and prove their shares from functions in arrays, with the events of the compiled kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.compiled.events import OPEN, decide_lane, plan_events
from evenhand.certification.bounds.compiled.problem import FunctionRoles
from evenhand.certification.bounds.compiled.shares import (
    AttributeAxes,
    BoxFunctions,
    box_functions,
    proof_events,
    prove_shares,
    scratch_buffers,
)
from evenhand.core.kernels import compile_kernel, new_arrays
from evenhand.core.typing import Booleans, Floats, Integers

jit = compile_kernel(nogil=True, error_model="numpy", boundscheck=False, _nrt=False)


class EventBuffers(NamedTuple):
    """Work arrays for the functions of one box, in the layout of ``compiled.events`` (see ``problem.LaneBuffers``).

    Each function has a single piece here. It is stored twice in ``least`` and does not affect the result. Its
    coefficients and constant are not in ``chosen``.
    """

    least: Floats
    sure: Booleans
    wins: Floats
    chosen: BoxFunctions


def _event_buffers(roles: FunctionRoles, functions: int) -> EventBuffers:
    return new_arrays(
        EventBuffers,
        {"least": (2 * functions, 1), "sure wins": (roles.labels, roles.assignments)},
        chosen=box_functions(functions, 0, 0),
    )


def decide_boxes(roles: FunctionRoles, least: Floats, zscore: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Decide boxes as a whole, and estimate the undecided share of the others.

    Args:
        roles: Meaning of the functions.
        least: Least value of each function, shape (boxes, functions).
        zscore: Mean over standard deviation of each, shape (boxes, functions).

    Returns:
        Whether each box is open, fair or unfair, and its estimated undecided share, both of shape (boxes,).
    """
    kind, undecided = np.full(len(least), OPEN, dtype=np.int8), np.zeros(len(least))
    buffers = _event_buffers(roles, least.shape[1])
    _decide_boxes(roles, least, zscore, buffers, proof_events(roles.labels, roles.assignments), kind, undecided)
    return kind, undecided


def prove_boxes(
    roles: FunctionRoles,
    axes: AttributeAxes,
    cells: tuple[Integers, Integers],
    functions: tuple[Floats, Floats, Floats],
    precision: tuple[int, int],
) -> Floats:
    """Compute the proved fair and unfair share of each box, an array of shape (boxes, 2).

    Args:
        roles: Meaning of the functions.
        axes: Layout and weights of the attributes.
        cells: First and last cell of each attribute, each of shape (boxes, attributes).
        functions: Coefficients (boxes, functions, columns), constants and z-scores (boxes, functions).
        precision: Grid steps, and joint values that are enumerated.
    """
    coefficients, constants, zscore = functions
    count, attributes = zscore.shape[1], cells[0].shape[1]
    events = proof_events(roles.labels, roles.assignments)
    work = scratch_buffers(count, attributes, len(axes.weight) - attributes, *events.member.shape)
    shares = np.zeros((len(zscore), 2))
    buffers = _event_buffers(roles, count)
    _prove_boxes(roles, axes, cells, coefficients, constants, zscore, precision, buffers, events, work, shares)
    return shares


@jit
def _decide_boxes(roles, least, zscore, b, events, kind, undecided):  # type: ignore[no-untyped-def]  # a kernel: Numba infers types
    for t in range(least.shape[0]):
        for f in range(least.shape[1]):
            b.least[2 * f, 0] = b.least[2 * f + 1, 0] = least[t, f]
            b.chosen.zscore[f] = zscore[t, f]
        kind[t] = decide_lane(roles, 0, b)
        if kind[t] == OPEN:
            undecided[t] = max(0.0, 1 - plan_events(roles, b, events))


@jit
def _prove_boxes(roles, axes, cells, coefficients, constants, zscore, precision, b, events, work, shares):  # type: ignore[no-untyped-def]  # a kernel: Numba infers types
    low, high = cells
    grid, room = precision
    # The events are disjoint, so their shares add up.
    for t in range(low.shape[0]):
        for f in range(zscore.shape[1]):
            b.chosen.zscore[f] = zscore[t, f]
        plan_events(roles, b, events)
        of_box = BoxFunctions(coefficients[t], constants[t], b.chosen.zscore, b.chosen.second)
        prove_shares(events, low[t], high[t], of_box, axes, grid, room, work)
        for e in range(events.number[0]):
            shares[t, 1 if events.unfair[e] else 0] += work.share[e]
