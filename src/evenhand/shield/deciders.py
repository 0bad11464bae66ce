"""How each kind of shield decides in many runs at once, and what its guarantee rests on."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.lookup import levels, overridden
from evenhand.shield.plan import Plan
from evenhand.shield.policy import Policy
from evenhand.shield.synthesis import synthesize

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


class Decider(Protocol):
    """One shield in many runs; counters have shape (runs, groups).

    Attributes:
        assumption: what its guarantee rests on, in words; None if it guarantees nothing.
        most_runs: so many at a time, at most.
    """

    @property
    def assumption(self) -> str | None: ...
    @property
    def most_runs(self) -> int: ...

    def begin(self, period: int, seen: Integers, accepted: Integers) -> None:
        """A period begins, with these counters of everything before."""
        ...

    def decide(
        self, t: int, seen: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        """The decisions after t others in this period, with the counters of this period, shape (runs,)."""
        ...

    def assumed(self, seen: Integers, accepted: Integers) -> Booleans:
        """Whether the period that ends with these counters of its own kept the assumption, shape (runs,)."""
        ...


class FromTable:
    """One policy, the same in every period."""

    assumption = "nothing is assumed"
    most_runs = 2**20

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def begin(self, period: int, seen: Integers, accepted: Integers) -> None:
        """Nothing is carried over."""

    def decide(
        self, t: int, seen: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        level = levels(self.policy.actions, t, seen.T, accepted.T, group)
        return overridden(level, recommendation, cost, self.policy.plan.inputs.costs)

    def assumed(self, seen: Integers, accepted: Integers) -> Booleans:
        return np.ones(len(seen), bool)


def decider_for(shield: Plan | Policy) -> Decider:
    """How a shield decides; a plan is synthesised."""
    return FromTable(synthesize(shield) if isinstance(shield, Plan) else shield)
