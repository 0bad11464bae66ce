"""Exact synthesis of shields for three or more groups.

The reachable states are listed layer by layer, each encoded as one integer, and their values are computed backwards.
For m groups the number of states is on the order of T^(2m): 230,230 for three groups and 20 decisions, 32 million for
50.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import LimitError, OptionError
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.spec.properties import is_fair, largest_bias
from evenhand.shields.synthesis.layer import TOLERANCE, StepMix, forced_mix, mix_of_group
from evenhand.shields.synthesis.solve import Progress

MAX_STATES = 50_000_000
"""Maximum number of states in all layers. Each takes 8 bytes and one byte per group."""


@dataclass(frozen=True)
class ReachableTable:
    """Levels of all reachable states, looked up by the integer that encodes a state.

    Attributes:
        strides: (2 groups,) increment of the encoded state when each counter grows by one.
        states: encoded states per time, ascending.
        levels_by_time: per time (groups, states) int8.
    """

    strides: tuple[int, ...]
    states: tuple[Integers, ...]
    levels_by_time: tuple[NDArray[np.int8], ...]
    form = "listed"

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return (*self.states, *self.levels_by_time)

    @cached_property
    def _views(self) -> tuple[tuple[memoryview, tuple[memoryview, ...]], ...]:
        return tuple(
            (states.data, tuple(row.data for row in levels))
            for states, levels in zip(self.states, self.levels_by_time, strict=True)
        )

    def level(self, t: int, counters: Sequence[int], group: int) -> int:
        """Return the level for an individual of a group in a state."""
        state = sum(count * stride for count, stride in zip(counters, self.strides, strict=True))
        states, levels = self._views[t]
        position = bisect_left(states, state)
        if position == len(states) or states[position] != state:
            raise OptionError(f"after {t} decisions the counters cannot be {tuple(counters)}")
        return int(levels[group][position])

    def levels(self, t: int, sizes: Integers, accepted: Integers, group: Integers) -> Integers:
        strides = np.array(self.strides)
        position = np.searchsorted(self.states[t], strides[::2] @ sizes + strides[1::2] @ accepted)
        return self.levels_by_time[t][group, position].astype(np.int64)


def synthesize_general(
    plan: ShieldPlan, *, unfair_price: float = np.inf, progress: Progress | None = None
) -> ShieldPolicy:
    """Synthesize the optimal shield of a plan for any number of groups.

    Args:
        plan: problem for demographic parity or equal opportunity. All pairs of groups are compared.
        unfair_price: penalty of a failed check, multiplied by 1 plus the excess of the bias over kappa. Infinity
            forbids failure.
        progress: called with (finished layers, total layers) after each layer of both passes.

    Returns:
        The policy. Its expected cost includes penalties and is infinite if no shield passes the checks.

    Raises:
        OptionError: if the property compares two groups only.
        LimitError: if there are too many states.
    """
    started = time.perf_counter()
    fairness, inputs, horizon, groups = plan.property, plan.inputs, plan.horizon, len(plan.inputs.groups)
    if fairness.kind == "disparate_impact":
        raise OptionError("disparate impact supports two groups only", hint="demographic_parity, or static-bw")
    strides, layers = list_states(plan, progress)
    moves = _moves(strides)
    past = np.array(plan.start, dtype=np.int64)
    labels = inputs.labels()
    mixes = [mix_of_group(inputs, group, TOLERANCE * inputs.costs[-1]) for group in range(groups)]
    if plan.kind == "feasible":
        mixes = [forced_mix(mix) for mix in mixes]

    def checked(states: Integers, values: Floats) -> Floats:
        counters = (states[:, None] // strides) % (horizon + 1) + past
        sizes, accepted = counters[:, ::2], counters[:, 1::2]
        penalised = np.full(len(states), np.inf)
        if np.isfinite(unfair_price):
            excess = np.maximum(largest_bias(fairness, sizes, accepted) - float(fairness.kappa), 0.0)
            penalised = values + unfair_price * (1 + excess)
        return np.where(is_fair(fairness, sizes, accepted), values, penalised)

    values = checked(layers[-1], np.zeros(len(layers[-1])))
    levels: list[NDArray[np.int8]] = []
    # V_t(s) = sum over groups g of step_g(Q_g(0), Q_g(1)), where Q_g(y) = P(z = 1 | g) * V_{t+1}(s moved by (g, y)) +
    # P(z = 0 | g) * V_{t+1}(s); without labels everyone counts.
    for t in reversed(range(horizon)):
        layer_values = np.zeros(len(layers[t]))
        marks = np.zeros((groups, len(layer_values)), dtype=np.int8)
        stay = values[np.searchsorted(layers[t + 1], layers[t])] if fairness.labelled else None
        for group, mix in enumerate(mixes):
            next_values = [values[np.searchsorted(layers[t + 1], layers[t] + move)] for move in moves[group]]
            if stay is not None:
                next_values = [labels[group, 0] * stay + labels[group, 1] * counted for counted in next_values]
            step, marks[group] = mix_values(next_values[0], next_values[1], mix)
            layer_values += step
        values = checked(layers[t], layer_values) if t in plan.times else layer_values
        levels.append(marks)
        if progress is not None:
            progress(2 * horizon - t, 2 * horizon)
    actions = ReachableTable(tuple(strides.tolist()), tuple(layers[:-1]), tuple(levels[::-1]))
    states = sum(len(layer) for layer in actions.states)
    # Peak while the last layer is evaluated: the counters, two values after each decision, and the layer's own values.
    peak = sum(array.nbytes for array in actions.arrays) + 8 * (2 * len(plan.start) + 8) * len(layers[-2])
    return ShieldPolicy(plan, actions, float(values[0]), states, peak, time.perf_counter() - started)


_HINT = "use a shorter horizon, or welfare bounds for each group separately (static-bw)"


def mix_values(rejected: Floats, accepted: Floats, mix: StepMix) -> tuple[Floats, NDArray[np.int8]]:
    """Compute the expected value of a step and its level from the values after each decision.

    The level is 0 where both values are infinite.
    """
    with np.errstate(invalid="ignore"):
        gain = rejected - accepted
    count = len(mix.rises) // 2
    risen = (gain[:, None] >= mix.rises[:count]).sum(axis=1) + (gain[:, None] > mix.rises[count:]).sum(axis=1)
    dead = np.isnan(gain)
    accept, reject = mix.accept[risen], mix.reject[risen]
    value = np.where(dead, np.inf, mix.cost[risen])
    value[accept > 0] += (accept * np.where(accept > 0, accepted, 0.0))[accept > 0]
    value[reject > 0] += (reject * np.where(reject > 0, rejected, 0.0))[reject > 0]
    return value, np.where(dead, 0, risen - count).astype(np.int8)


def _moves(strides: Integers) -> Integers:
    """Return the increment of the encoded state by group and decision, for a counted person."""
    return np.asarray(strides[::2, None] + np.stack([np.zeros_like(strides[1::2]), strides[1::2]], axis=1))


def count_states(plan: ShieldPlan, t: int) -> int:
    """Count the states that the counters can be in after t decisions."""
    # The number of ways to divide t decisions (with labels, at most t) into accepted and rejected ones of each group.
    parts = 2 * len(plan.inputs.groups) - (not plan.property.labelled)
    return comb(t + parts, parts)


def list_states(plan: ShieldPlan, progress: Progress | None = None) -> tuple[Integers, list[Integers]]:
    """List the states that the counters can be in after each number of decisions, each encoded as one integer.

    Returns:
        The strides of the counters, see `ReachableTable`, and the ascending states by time.

    Raises:
        LimitError: There are too many states.
    """
    groups, horizon, labelled = len(plan.inputs.groups), plan.horizon, plan.property.labelled
    # All counters of a state are the digits of one integer: a step adds a constant, and states are fast to sort and
    # compare.
    if (horizon + 1) ** (2 * groups) >= 2**62:
        raise LimitError(f"the counters of {groups} groups over {horizon} decisions exceed 64 bits", hint=_HINT)
    total = sum(count_states(plan, t) for t in range(horizon + 1))
    if total > MAX_STATES:
        raise LimitError(f"{total:,} states within {horizon} decisions, and the limit is {MAX_STATES:,}", hint=_HINT)
    strides = (horizon + 1) ** np.arange(2 * groups, dtype=np.int64)
    # With label 0 the counters do not change.
    moves = np.unique(np.append(_moves(strides), 0) if labelled else _moves(strides))
    layers = [np.zeros(1, dtype=np.int64)]
    for t in range(horizon):
        layers.append(np.unique((layers[-1][:, None] + moves).ravel()))
        if progress is not None:
            progress(t + 1, 2 * horizon)
    return strides, layers
