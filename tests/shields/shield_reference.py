"""The recursion over counters as it stands in the paper, in plain Python: slow, and with nothing folded or packed."""

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from evenhand.shields import Inputs, ShieldPlan, ShieldPolicy, read_plan

State = tuple[int, ...]


def added(state: State, group: int, decision: int) -> State:
    """Count one more decision about a group."""
    counts = list(state)
    counts[2 * group] += 1
    counts[2 * group + 1] += decision
    return tuple(counts)


def plan(horizon: int = 12, **changes: Any) -> ShieldPlan:
    """A plan of two groups."""
    groups = {"a": {"rate": 0.3, "accept": 0.35, "label": 0.4}, "b": {"rate": 0.7, "accept": 0.6, "label": 0.6}}
    return read_plan(
        {"property": "demographic_parity", "kappa": "0.2", "horizon": horizon, "groups": groups, **changes}
    )


def costly_plan(horizon: int = 12, **changes: Any) -> ShieldPlan:
    """A plan of two groups with two costs."""
    likely = {"costs_if_rejected": [0.25, 0.75], "costs_if_accepted": [0.5, 0.5]}
    groups = {"a": {"rate": 0.4, "accept": 0.3, **likely}, "b": {"rate": 0.6, "accept": 0.8, **likely}}
    return plan(horizon, costs=[0.2, 0.7], groups=groups, **changes)


def least_cost(
    inputs: Callable[[int], Inputs],
    horizon: int,
    worth: Callable[[int, State], float],
    *,
    labelled: bool = False,
    start: State = (),
) -> float:
    """The least expected cost of overrides plus what states are worth, (seen, accepted) of every group being a state.

    An input that cannot come must be answered all the same: what is forbidden is so whatever its probability.
    """
    first = start or (0,) * (2 * len(inputs(0).groups))

    @cache
    def value(t: int, state: State) -> float:
        here = worth(t, state)
        if t == horizon or here == float("inf"):
            return here
        who = inputs(t)
        for group in range(len(who.groups)):
            for recommendation in (0, 1):
                for position, cost in enumerate(who.costs):
                    options = []
                    for decision in (0, 1):
                        paid = cost if decision != recommendation else 0.0
                        share = who.label[group] if labelled and who.label is not None else 1.0
                        parts = [(share, value(t + 1, added(state, group, decision)))]
                        if labelled:
                            parts.append((1 - share, value(t + 1, state)))
                        if any(part == float("inf") for _, part in parts):
                            options.append(float("inf"))
                        else:
                            options.append(paid + sum(chance * part for chance, part in parts))
                    if min(options) == float("inf"):
                        return float("inf")
                    accept = who.accept[group]
                    chance = who.rate[group] * (accept if recommendation else 1 - accept)
                    here += chance * who.weights[group][recommendation][position] * min(options)
        return here

    return value(0, first)


def reached(policy: ShieldPolicy) -> list[set[State]]:
    """Compute the counters that are possible after every number of decisions, whatever comes at whatever cost."""
    groups, labelled, most = range(len(policy.plan.inputs.groups)), policy.plan.property.labelled, policy.levels
    layers: list[set[State]] = [{(0,) * (2 * len(groups))}]
    for t in range(policy.plan.horizon):
        after = set(layers[-1]) if labelled else set()
        for state, group in product(layers[-1], groups):
            level = policy.actions.level(t, state, group)
            # A level between two costs leaves both decisions possible.
            for decision in {0, 1} - ({0} if level == most else {1} if level == -most else set()):
                after.add(added(state, group, decision))
        layers.append(after)
    return layers


def stored(policy) -> list[bytes]:
    """Everything that a policy's table of actions holds."""
    return [array.tobytes() for array in policy.actions.arrays]


def follow(policy: ShieldPolicy) -> tuple[list[dict[State, float]], np.ndarray, float]:
    """Follow every run of a policy, also those of probability 0.

    Returns:
        Probabilities of the states by time; probabilities of an arrival, an acceptance and a rejection against the
        recommendation by time and group; expected cost.
    """
    inputs, labelled = policy.plan.inputs, policy.plan.property.labelled
    groups = range(len(inputs.groups))
    layers: list[dict[State, float]] = [{(0,) * (2 * len(groups)): 1.0}]
    overrides, cost = np.zeros((policy.plan.horizon, len(groups), 3)), 0.0
    for t in range(policy.plan.horizon):
        following: dict[State, float] = defaultdict(float)
        for (state, chance), g, r in product(layers[-1].items(), groups, (0, 1)):
            share = chance * inputs.rate[g] * (inputs.accept[g] if r else 1 - inputs.accept[g])
            for price, weight in zip(inputs.costs, inputs.weights[g][r], strict=True):
                decision, likely = policy.decision(t, state, g, r, price), share * weight
                overrides[t, g, 0] += likely
                if decision != r:
                    overrides[t, g, 2 - decision] += likely
                    cost += likely * price
                label = inputs.label[g] if labelled and inputs.label is not None else 1.0
                for counted, probability in ((1, label), (0, 1 - label)) if labelled else ((1, 1.0),):
                    after = list(state)
                    after[2 * g] += counted
                    after[2 * g + 1] += counted * decision
                    following[tuple(after)] += likely * probability
        layers.append(dict(following))
    return layers, overrides, cost
