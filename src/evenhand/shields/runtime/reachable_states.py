"""Counters from which a fair end can always be reached, for properties whose labels arrive after the decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np

from evenhand.core.typing import Integers
from evenhand.errors import LimitError
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.ends import EndValues
from evenhand.shields.spec.plan import Counters
from evenhand.shields.spec.properties import FairnessProperty
from evenhand.shields.synthesis.kernels import count_live_states, sweep_live_states


class LiveStates:
    """Live states at every time, one bit each.

    A state is live if some decision on every possible individual leads to live states for both labels. These are the
    states with a finite value, because the guarantee does not depend on probabilities.

    Args:
        terminal: Allowed states at the checks.
        horizon: Number of decisions.
        times: Times of the checks, including the horizon.
    """

    def __init__(self, terminal: EndValues, horizon: int, times: tuple[int, ...]) -> None:
        self._start = np.zeros((horizon + 1, horizon + 1), dtype=np.int64)
        allowed = np.zeros(comb(horizon + 4, 4), dtype=np.uint8)
        position = 0
        for total in range(horizon + 1):
            for n_a in range(total + 1):
                n_b = total - n_a
                values = np.isfinite(terminal.values(n_a, n_b))
                self._start[n_a, n_b] = position
                allowed[position : position + values.size] = values.reshape(-1)
                position += values.size
        # Invariant: ``layer`` holds 1 for each state that is live after t decisions. Planes are sorted by the number of
        # people seen, so those of up to t are the first C(t + 4, 4) states.
        layer = allowed.copy()
        self._bits = [np.packbits(layer)]
        for t in range(horizon - 1, -1, -1):
            sweep_live_states(layer, self._start, t)
            size = comb(t + 4, 4)
            if t in times:
                layer[:size] &= allowed[:size]
            self._bits.append(np.packbits(layer[:size]))
        self._bits.reverse()

    def count(
        self, t: int, counters: Counters, outcomes: Sequence[Integers], *, group: int | None = None
    ) -> tuple[int, int]:
        """Count the outcomes of open labels that are live after t decisions, see `count_live_states`.

        Args:
            t: Decisions made, including the next one if `group` is given.
            counters: Known counters.
            outcomes: Possible numbers of labels 1 among open decisions, by group and decision.
            group: Group of the next decision. If None, both counts are those of the outcomes without another decision.
        """
        after_rejection, after_acceptance = count_live_states(
            self._bits[t], self._start, np.array(counters), tuple(outcomes), -1 if group is None else group
        )
        return int(after_rejection), int(after_acceptance)


_LIVE_STATES: dict[Any, LiveStates] = {}
MAX_LIVE_STATES = 8
"""Maximum number of problems whose live states are shared by later shields."""


def has_live_states(terminal: EndValues, horizon: int, times: tuple[int, ...]) -> bool:
    """Return whether the result of `find_live_states` is cached."""
    return (terminal, horizon, times) in _LIVE_STATES


def find_live_states(terminal: EndValues, horizon: int, times: tuple[int, ...]) -> LiveStates:
    """Compute the live states, or return the cached ones of the same problem."""
    problem = (terminal, horizon, times)
    live = _LIVE_STATES.pop(problem, None) or LiveStates(terminal, horizon, times)
    _LIVE_STATES[problem] = live
    if len(_LIVE_STATES) > MAX_LIVE_STATES:
        _LIVE_STATES.pop(next(iter(_LIVE_STATES)), None)
    return live


# Reachable ends of a run, and the largest bias among them.

MAX_STATE_CODES = 2**28
"""Maximum number of states that are marked at once, one byte each."""

TIE_DISTANCE = 1e-9
"""Ends whose floating-point bias is within this distance of the largest are compared exactly."""


def reachable_end_states(policy: ShieldPolicy, step: int, states: Integers) -> Integers:
    """Compute all counters reachable at the horizon, for every order of people, recommendations, costs and labels.

    Args:
        policy: The policy. Labels arrive before the next decision.
        step: Decisions made.
        states: Counters at that time, shape (n, 4) as (n_a, a, n_b, b).

    Returns:
        Distinct counters, shape (ends, 4).

    Raises:
        LimitError: There are too many states.
    """
    plan = policy.plan
    labelled = plan.property.labelled
    remaining = plan.horizon - step
    lowest = states.min(axis=0)
    shape = tuple(int(extent) for extent in states.max(axis=0) - lowest + remaining + 1)
    if not labelled:
        # The number of the second group follows from the time.
        shape = (shape[0], shape[1], 1, shape[3])
    size = int(np.prod(shape, dtype=np.float64))
    if size > MAX_STATE_CODES:
        raise LimitError(
            f"{remaining} decisions before the end, there are too many futures to examine",
            hint="request the bound without `exact`, or request it closer to the end",
        )
    marked = np.zeros(size, dtype=bool)
    for t in range(step, plan.horizon):
        for codes_of_step in _successor_codes(policy, t, states, (lowest, shape)):
            marked[codes_of_step] = True
        codes = np.flatnonzero(marked)
        marked[codes] = False
        states = np.stack(np.unravel_index(codes, shape), axis=1).astype(np.int64) + lowest
        if not labelled:
            states[:, 2] = t + 1 - states[:, 0]
    return states


Grid = tuple[Integers, tuple[int, ...]]
"""Lowest counters of a box of counters, and the extents of the box."""


def _successor_codes(policy: ShieldPolicy, t: int, states: Integers, grid: Grid) -> Iterator[Integers]:
    """Yield the codes of all possible next states."""
    top = len(policy.plan.inputs.costs)
    sizes, accepted = states[:, ::2].T, states[:, 1::2].T
    if policy.plan.property.labelled:
        yield _encode_states(states, *grid)
    for group in (0, 1):
        groups = np.full(len(states), group)
        level = policy.actions.levels(t, sizes, accepted, groups)
        for decision, possible in ((0, level < top), (1, level > -top)):
            successors = states[possible]
            successors[:, 2 * group] += 1
            successors[:, 2 * group + 1] += decision
            yield _encode_states(successors, *grid)


def _encode_states(states: Integers, lowest: Integers, shape: tuple[int, ...]) -> Integers:
    n_a, a, n_b, b = (states - lowest).T
    codes: Integers = ((n_a * shape[1] + a) * shape[2] + (n_b if shape[2] > 1 else 0)) * shape[3] + b
    return codes


def worst_bias_among(fairness: FairnessProperty, counters: Integers) -> Fraction:
    """Compute the exact largest bias among counters (n, 4)."""
    n_a, a, n_b, b = counters.T
    bias = fairness.bias_of_rates(a / np.maximum(n_a, 1), b / np.maximum(n_b, 1))
    bias = np.where(np.minimum(n_a, n_b) < fairness.empty_group.needed_count, 0, bias)
    candidates: list[list[Any]] = counters[bias >= bias.max() - TIE_DISTANCE].tolist()
    return max(fairness.bias(*counts) for counts in candidates)
