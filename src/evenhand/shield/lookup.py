"""What a shield does in many states at once: the tables of actions, read with whole arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.policy import Actions
from evenhand.shield.separable import Separate
from evenhand.shield.tables import Packed, Thresholds, bits_for, row_start, slab, state_start

Integers = NDArray[np.int64]


def levels(actions: Actions, t: int, seen: Integers, accepted: Integers, group: Integers) -> Integers:
    """The levels of a table of actions (see `policy`) after t decisions, shape (runs,).

    Args:
        seen, accepted: counters of the groups since the start of the plan, shape (groups, runs).
        group: its position, shape (runs,).
    """
    if isinstance(actions, Thresholds):
        return _thresholds(actions, t, seen, accepted, group)
    if isinstance(actions, Packed):
        return _packed(actions, t, seen, accepted, group)
    if isinstance(actions, Separate):
        return actions.levels(t, seen, accepted, group)
    counters = np.stack([seen, accepted], axis=1).reshape(-1, len(group))
    states = np.concatenate([counters, group[None]]).T
    different, inverse = np.unique(states, axis=0, return_inverse=True)
    found = [actions.level(t, *(int(count) for count in state)) for state in different]
    return np.array(found, dtype=np.int64)[inverse.reshape(-1)]


def overridden(
    level: Integers, recommendation: Integers, cost: NDArray[np.float64], costs: tuple[float, ...]
) -> Integers:
    """The decisions that levels stand for, shape (runs,): ``policy.decide`` for arrays."""
    # The outermost level overrides whatever it costs, also beyond the costs that were expected.
    limits = np.array([-np.inf, *costs[:-1], np.inf])
    against = np.where(recommendation == 1, level < 0, level > 0) & (cost <= limits[np.abs(level)])
    return np.asarray(recommendation ^ against)


def _thresholds(actions: Thresholds, t: int, seen: Integers, accepted: Integers, group: Integers) -> Integers:
    second = group == 1
    n_own, own = np.where(second, seen[1], seen[0]), np.where(second, accepted[1], accepted[0])
    n_other, other = np.where(second, seen[0], seen[1]), np.where(second, accepted[0], accepted[1])
    if actions.labelled:
        # Rows of one time run through n_own, own and n_other.
        row = (3 * t + 5 - 2 * n_own) * n_own * (n_own + 1) // 6 + own * (t - n_own + 1) + n_other
    else:
        row = n_own * (n_own + 1) // 2 + own
    row += row_start(t, actions.labelled)
    width = 2 * actions.costs
    first, last = (positions.reshape(-1, width) for positions in actions.positions)
    found = np.where(second[:, None], last[row], first[row])
    return np.asarray((other[:, None] >= found).sum(axis=1) - actions.costs)


def _packed(actions: Packed, t: int, seen: Integers, accepted: Integers, group: Integers) -> Integers:
    n_a, n_b = seen
    a, b = accepted
    if actions.labelled:
        state = _planes(t, n_a) + (n_a + 1) * n_b * (n_b + 1) // 2 + a * (n_b + 1) + b
    else:
        state = slab(t, n_a) + a * (t - n_a + 1) + b
    state = state + state_start(t, actions.labelled)
    bits = bits_for(actions.costs)
    per_byte = 8 // bits
    cells = np.where(group == 1, actions.cells[1][state // per_byte], actions.cells[0][state // per_byte])
    levels: Integers = (cells.astype(np.int64) >> (state % per_byte * bits)) & ((1 << bits) - 1)
    return levels - actions.costs


def _planes(t: int, n: Integers) -> Integers:
    """``tables.plane_start`` for arrays."""

    def four(k: Integers | int) -> Integers | int:
        return k * (k - 1) * (k - 2) * (k - 3) // 24

    def three(k: Integers) -> Integers:
        return k * (k - 1) * (k - 2) // 6

    rest = t - n
    return np.asarray(four(t + 4) - four(rest + 4) - n * three(rest + 3))
