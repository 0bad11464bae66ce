"""The recursion over counters as it stands in the paper, in plain Python: slow, and with nothing folded or packed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from evenhand.shields import Inputs

State = tuple[int, ...]


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

    def added(state: State, group: int, decision: int) -> State:
        counts = list(state)
        counts[2 * group] += 1
        counts[2 * group + 1] += decision
        return tuple(counts)

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


def stored(policy) -> list[bytes]:
    """Everything that a policy's table of actions holds."""
    return [array.tobytes() for array in policy.actions.arrays]
