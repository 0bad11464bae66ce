"""Every end that a run can still come to under its policy, and the worst of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import LimitError
from evenhand.shield.lookup import levels
from evenhand.shield.plan import Counters
from evenhand.shield.policy import Policy
from evenhand.shield.properties import Property

Integers = NDArray[np.int64]

LARGEST = 2**28
"""States that are marked at once, one byte each: more of them means that the end is too far away."""

CLOSE = 1e-9
"""Ends whose bias in floating point is as close as that to the largest are compared exactly."""


def ends(policy: Policy, step: int, states: Integers) -> Integers:
    """All counters at the horizon, over every order of individuals, recommendations, costs and labels.

    Args:
        policy: what decides; labels come before the next decision.
        step: decisions made.
        states: counters at that time, shape (n, 4) as (n_a, a, n_b, b).

    Returns:
        Shape (ends, 4), each once.

    Raises:
        LimitError: there are too many states on the way.
    """
    plan = policy.plan
    labelled, most = plan.property.labelled, len(plan.inputs.costs)
    left = plan.horizon - step
    lowest = states.min(axis=0)
    shape = tuple(int(extent) for extent in states.max(axis=0) - lowest + left + 1)
    if not labelled:
        # The number of the second group follows from the time.
        shape = (shape[0], shape[1], 1, shape[3])
    size = int(np.prod(shape, dtype=np.float64))
    if size > LARGEST:
        raise LimitError(
            f"{left} decisions before the end there are too many futures to go through",
            mend="ask for the bound that is not exact, or ask again nearer to the end",
        )
    marked = np.zeros(size, dtype=bool)
    for t in range(step, plan.horizon):
        seen, accepted = states[:, ::2].T, states[:, 1::2].T
        codes = [_codes(states, lowest, shape)] if labelled else []
        for group in (0, 1):
            level = levels(policy.actions, t, seen, accepted, np.full(len(states), group))
            for decision, possible in ((0, level < most), (1, level > -most)):
                after = states[possible]
                after[:, 2 * group] += 1
                after[:, 2 * group + 1] += decision
                codes.append(_codes(after, lowest, shape))
        for found in codes:
            marked[found] = True
        reached = np.flatnonzero(marked)
        marked[reached] = False
        states = np.stack(np.unravel_index(reached, shape), axis=1).astype(np.int64) + lowest
        if not labelled:
            states[:, 2] = t + 1 - states[:, 0]
    return states


def _codes(states: Integers, lowest: Integers, shape: tuple[int, ...]) -> Integers:
    n_a, a, n_b, b = (states - lowest).T
    codes: Integers = ((n_a * shape[1] + a) * shape[2] + (n_b if shape[2] > 1 else 0)) * shape[3] + b
    return codes


def worst_end(policy: Policy, step: int, states: Integers) -> tuple[Fraction, Counters]:
    """The largest bias at the horizon over every future, with what was counted before, and counters that have it.

    Raises:
        LimitError: there are too many states on the way.
    """
    plan = policy.plan
    return worst_of(plan.property, ends(policy, step, states) + np.array(plan.start))


def worst_of(kept: Property, counters: Integers) -> tuple[Fraction, Counters]:
    """The largest bias among counters (n, 4), exact, and the first that have it."""
    n_a, a, n_b, b = counters.T
    rate_a, rate_b = a / np.maximum(n_a, 1), b / np.maximum(n_b, 1)
    if kept.kind == "disparate_impact":
        larger = np.maximum(rate_a, rate_b)
        bias = np.where(larger > 0, 1 - np.minimum(rate_a, rate_b) / np.where(larger > 0, larger, 1), 0)
    else:
        bias = np.abs(rate_a - rate_b)
    bias = np.where(np.minimum(n_a, n_b) < kept.empty_group.needed, 0, bias)
    candidates: list[list[Any]] = counters[bias >= bias.max() - CLOSE].tolist()
    return max(((kept.bias(*found), tuple(found)) for found in candidates), key=lambda pair: pair[0])
