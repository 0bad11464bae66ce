"""How each kind of shield decides in many runs at once, and what its guarantee rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.counts import bias, is_fair
from evenhand.shield.lookup import levels, overridden
from evenhand.shield.periodic import Period, Periodic
from evenhand.shield.plan import Plan
from evenhand.shield.policy import Policy
from evenhand.shield.properties import Property
from evenhand.shield.synthesis import synthesize

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

NOTHING = "nothing is assumed"
"""What a shield up to one horizon rests on."""

TIE = 1e-12
"""Two biases closer than this are the same fraction: counters are far too small for different ones to be."""


class Act(Protocol):
    """What a shield does in one period of some runs; counters are of this period alone, shape (runs, groups).

    Attributes:
        guaranteed: whether the period ends fair whatever comes.
    """

    @property
    def guaranteed(self) -> bool: ...

    def decide(
        self, t: int, seen: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        """The decisions after t others, shape (runs,)."""
        ...

    def held(self, seen: Integers) -> Booleans:
        """Whether a period that ended with so many of each group kept the assumption, shape (runs,)."""
        ...


class Decider(Protocol):
    """One shield in many runs.

    Attributes:
        assumption: what its guarantee rests on, in words; None if it guarantees nothing.
        most_runs: so many at a time, at most.
    """

    @property
    def assumption(self) -> str | None: ...
    @property
    def most_runs(self) -> int: ...

    def begin(self, seen: Integers, accepted: Integers) -> Iterator[tuple[Integers, Act]]:
        """A period begins, after these counters, shape (runs, groups): runs that are treated alike, and how."""
        ...


@dataclass(frozen=True)
class FromPolicy:
    """A policy over two groups; ``period`` says what it rests on, if anything."""

    policy: Policy
    period: Period | None = None

    @property
    def guaranteed(self) -> bool:
        """Whether the end is fair whatever comes."""
        return self.period is None or self.period.guaranteed

    def decide(
        self, t: int, seen: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        level = levels(self.policy.actions, t, seen.T, accepted.T, group)
        return overridden(level, recommendation, cost, self.policy.plan.inputs.costs)

    def held(self, seen: Integers) -> Booleans:
        if self.period is None:
            return np.ones(len(seen), bool)
        return self.period.held(*seen.T)


@dataclass(frozen=True)
class ByBias:
    """``Greedy`` for arrays: the counters of everything before have shape (runs, groups)."""

    property: Property
    seen: Integers
    accepted: Integers
    guaranteed = False

    def decide(
        self, t: int, seen: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        runs = np.arange(len(group))
        n, rejecting = self.seen + seen, self.accepted + accepted
        n[runs, group] += 1
        accepting = rejecting.copy()
        accepting[runs, group] += 1
        harmless = is_fair(self.property, n, rejecting) & is_fair(self.property, n, accepting)
        worse = bias(self.property, n, rejecting) - bias(self.property, n, accepting)
        open_ = ~harmless & (np.abs(worse) > TIE)
        return np.where(open_, (worse > 0).astype(np.int64), recommendation)

    def held(self, seen: Integers) -> Booleans:
        return np.zeros(len(seen), bool)


@dataclass(frozen=True)
class OneHorizon:
    """A shield that ends at its horizon."""

    policy: Policy
    assumption = NOTHING
    most_runs = 2**20

    def begin(self, seen: Integers, accepted: Integers) -> Iterator[tuple[Integers, Act]]:
        yield np.arange(len(seen)), FromPolicy(self.policy)


class Periods:
    """A shield that goes on: runs with the same past are treated alike, all runs if the past plays no part."""

    def __init__(self, plan: Plan) -> None:
        self._shield = Periodic(plan)
        self._plan = plan
        self._alike = plan.kind in ("static-fair", "static-bw")
        self.assumption = self._shield.assumption
        # Few at a time where every run has tables of its own, so that an interrupt leaves complete ones.
        self.most_runs = 512 if plan.kind == "dynamic" else 2**20

    def begin(self, seen: Integers, accepted: Integers) -> Iterator[tuple[Integers, Act]]:
        if self._alike:
            period = self._shield.begin()
            yield np.arange(len(seen)), FromPolicy(period.policy, period)
            return
        if self._plan.kind == "greedy":
            yield np.arange(len(seen)), ByBias(self._plan.property, seen.copy(), accepted.copy())
            return
        past = np.stack([seen, accepted], axis=2).reshape(len(seen), -1)
        different, which = np.unique(past, axis=0, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(which.reshape(-1)))
        for counters, chosen in zip(different, np.split(order, ends[:-1]), strict=True):
            period = self._shield.begin(tuple(int(count) for count in counters))
            yield chosen, FromPolicy(period.policy, period)


def decider_for(shield: Plan | Policy) -> Decider:
    """How a shield decides; a plan is synthesised.

    A policy of a dynamic shield stands for its first period; the others are synthesised as they come.
    """
    plan = shield if isinstance(shield, Plan) else shield.plan
    if plan.kind in ("static-fair", "static-bw", "dynamic", "greedy"):
        return Periods(plan)
    return OneHorizon(synthesize(shield) if isinstance(shield, Plan) else shield)
