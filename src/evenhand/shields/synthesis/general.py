"""Shields for three groups and more, or for any counters, state by state: slow, and exact.

All states that can be reached are listed layer by layer, each as one number, and valued backwards. Over m groups that
is of the order of T^(2m) states: 230,230 for three groups and 20 decisions, 32 million for 50.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import LimitError, OptionError
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.plan import Counters, Inputs, ShieldPlan
from evenhand.shields.spec.properties import FairnessProperty, RatioDifference, RatioDifferences
from evenhand.shields.synthesis.layer import TOLERANCE, StepMix, forced_mix, mix_of_group
from evenhand.shields.synthesis.solve import Progress
from evenhand.typing import Floats, Integers

MAX_STATES = 50_000_000
"""In all layers together; each takes 8 bytes and one per group."""


@dataclass(frozen=True)
class ReachableTable:
    """A level for every state that can be reached, found by its number.

    Attributes:
        strides: (2 groups,) what one of each counter adds to the number of a state.
        states: per time the numbers of its states, ascending.
        levels: per time (groups, states) int8.
    """

    strides: tuple[int, ...]
    states: tuple[Integers, ...]
    levels: tuple[NDArray[np.int8], ...]
    form = "listed"

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return (*self.states, *self.levels)

    @cached_property
    def _views(self) -> tuple[tuple[memoryview, tuple[memoryview, ...]], ...]:
        return tuple(
            (states.data, tuple(row.data for row in levels))
            for states, levels in zip(self.states, self.levels, strict=True)
        )

    def level(self, t: int, *counters_and_group: int) -> int:
        """Return the level in a state: (denominator, numerator) of every group in turn, then the group that came."""
        state = sum(count * stride for count, stride in zip(counters_and_group[:-1], self.strides, strict=True))
        states, levels = self._views[t]
        position = bisect_left(states, state)
        if position == len(states) or states[position] != state:
            raise OptionError(f"after {t} decisions the counters cannot be {counters_and_group[:-1]}")
        return int(levels[counters_and_group[-1]][position])


@dataclass(frozen=True)
class CounterSteps:
    """What each (group, decision, label) adds to the counters.

    Attributes:
        adds: (groups, 2 decisions, 2 labels, counters) denominator and numerator of each group, part after part.
        labels: probability of (group, label).
    """

    counter_steps: Integers
    labels: Floats


def synthesize_ratio_difference(
    ratios: RatioDifference | RatioDifferences,
    inputs: Inputs,
    horizon: int,
    *,
    start: Counters = (),
    times: tuple[int, ...] = (),
    forced_only: bool = False,
    unfair_price: float = np.inf,
    progress: Progress | None = None,
) -> tuple[float, ReachableTable]:
    """Return the optimal shield for a difference of ratios, or for several that must all be small.

    Args:
        ratios: the counters and what must hold of them.
        inputs: who is expected; with a label if the counters depend on it.
        horizon: decisions until the check.
        start: (denominator, numerator) of each group, carried over; of several parts one after the other.
        times: when else it is checked.
        forced_only: as for `SynthesisProblem`.
        unfair_price: of a check that is not passed, times 1 and how far the bias is above kappa; infinite: forbidden.
        progress: told (layers done, layers) after each of both passes.

    Returns:
        The expected cost, infinite if nothing keeps the property, and the table.

    Raises:
        OptionError: a counter is negative or no whole number, or labels are missing.
        LimitError: there are too many states.
    """
    groups = len(inputs.groups)
    steps = _counter_steps(ratios, inputs)
    past = np.array(start or (0,) * steps.counter_steps.shape[-1], dtype=np.int64)
    extents = steps.counter_steps.max(axis=(0, 1, 2)) * horizon + 1
    if float(np.prod(extents.astype(np.float64))) >= 2.0**62:
        raise LimitError(f"the counters of {groups} groups over {horizon} decisions exceed 64 bits", hint=_HINT)
    # All counters of a state as one integer in mixed radix: a step adds a constant, and states sort and compare fast.
    strides = np.concatenate([[1], np.cumprod(extents[:-1])]).astype(np.int64)
    moves = steps.counter_steps @ strides
    layers = _reachable_layers(np.unique(moves), horizon, progress)

    mixes = [mix_of_group(inputs, group, TOLERANCE * inputs.costs[-1]) for group in range(groups)]
    if forced_only:
        mixes = [forced_mix(mix) for mix in mixes]

    def checked(states: Integers, values: Floats) -> Floats:
        counters = (states[:, None] // strides) % extents + past
        worth = np.full(len(states), np.inf)
        if np.isfinite(unfair_price):
            worth = values + unfair_price * (1 + np.maximum(ratios.bias(counters) - float(ratios.kappa), 0.0))
        return np.where(ratios.fair(counters), values, worth)

    values = checked(layers[-1], np.zeros(len(layers[-1])))
    levels: list[NDArray[np.int8]] = []
    # V_t(s) = sum over groups g of step_g(Q_g(0), Q_g(1)), where Q_g(y) = sum over labels z of P(z | g) * V_{t+1}(s
    # moved by (g, y, z)).
    for t in reversed(range(horizon)):
        here = np.zeros(len(layers[t]))
        marks = np.zeros((groups, len(here)), dtype=np.int8)
        for group, mix in enumerate(mixes):
            after = [
                sum(
                    chance * values[np.searchsorted(layers[t + 1], layers[t] + moves[group, decision, label])]
                    for label, chance in enumerate(steps.labels[group])
                    if ratios.labelled or label == 1
                )
                for decision in (0, 1)
            ]
            step, marks[group] = mix_values(np.asarray(after[0]), np.asarray(after[1]), mix)
            here += step
        values = checked(layers[t], here) if t in times else here
        levels.append(marks)
        if progress is not None:
            progress(2 * horizon - t, 2 * horizon)
    return float(values[0]), ReachableTable(
        tuple(int(each) for each in strides), tuple(layers[:-1]), tuple(levels[::-1])
    )


_HINT = "a shorter horizon, or welfare bounds for each group by itself (static-bw)"


def mix_values(rejected: Floats, accepted: Floats, mix: StepMix) -> tuple[Floats, NDArray[np.int8]]:
    """The expected value of a step from the values after either decision, and its level; 0 where both are infinite."""
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


def _counter_steps(ratios: RatioDifference | RatioDifferences, inputs: Inputs) -> CounterSteps:
    parts = (ratios,) if isinstance(ratios, RatioDifference) else ratios.parts
    if ratios.labelled and inputs.label is None:
        raise OptionError("the counters depend on labels, and no share of label 1 is given", location="label")
    groups = len(inputs.groups)
    adds = np.zeros((groups, 2, 2, len(parts), 2 * groups), dtype=np.int64)
    for position, group in enumerate(inputs.groups):
        for decision in (0, 1):
            for label in (0, 1):
                # Without labels both entries are the same.
                known = label if ratios.labelled else 0
                for place, part in enumerate(parts):
                    for offset, count in enumerate((part.denominator, part.numerator)):
                        added = count(group, decision, known)
                        if int(added) != added or added < 0:
                            raise OptionError(
                                f"a counter adds {added!r} for group {group}", hint="whole numbers of 0 or more"
                            )
                        adds[position, decision, label, place, 2 * position + offset] = int(added)
    return CounterSteps(adds.reshape(groups, 2, 2, -1), inputs.labels() if ratios.labelled else np.ones((groups, 2)))


def _reachable_layers(moves: Integers, horizon: int, progress: Progress | None) -> list[Integers]:
    layers = [np.zeros(1, dtype=np.int64)]
    total = 1
    for t in range(horizon):
        layers.append(np.unique((layers[-1][:, None] + moves).ravel()))
        total += len(layers[-1])
        if total > MAX_STATES:
            raise LimitError(f"more than {MAX_STATES:,} states within {t + 1} of {horizon} decisions", hint=_HINT)
        if progress is not None:
            progress(t + 1, 2 * horizon)
    return layers


def as_ratio_difference(kept: FairnessProperty) -> RatioDifference:
    """Return demographic parity or equal opportunity as a difference of ratios, for any number of groups.

    Raises:
        OptionError: disparate impact, which is a quotient.
    """
    if kept.kind == "disparate_impact":
        raise OptionError("disparate impact is kept between two groups", hint="demographic_parity, or static-bw")
    return RatioDifference(
        numerator=lambda _, decision, label: decision * label if kept.labelled else decision,
        denominator=lambda _, __, label: label if kept.labelled else 1,
        kappa=kept.kappa,
        labelled=kept.labelled,
        empty_group=kept.empty_group,
    )


def synthesize_general(
    plan: ShieldPlan, *, unfair_price: float = np.inf, progress: Progress | None = None
) -> ShieldPolicy:
    """Return the optimal shield of a plan over any number of groups, see ``synthesize_ratio_difference``.

    Its expected cost is infinite if no shield passes the checks; where unfair ends have a price, that is in it.

    Raises:
        OptionError: the property compares two groups only.
        LimitError: there are too many states.
    """
    started = time.perf_counter()
    cost, actions = synthesize_ratio_difference(
        as_ratio_difference(plan.property),
        plan.inputs,
        plan.horizon,
        start=plan.start,
        times=plan.times,
        forced_only=plan.kind == "feasible",
        unfair_price=unfair_price,
        progress=progress,
    )
    states = sum(len(layer) for layer in actions.states)
    # While the last layer is valued: counters, two values after each decision, and its own.
    peak = sum(array.nbytes for array in actions.arrays) + 8 * (2 * len(plan.start) + 8) * len(actions.states[-1])
    return ShieldPolicy(plan, actions, cost, states, peak, time.perf_counter() - started)
