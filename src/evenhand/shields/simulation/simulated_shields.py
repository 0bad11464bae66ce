"""How each kind of shield decides in many runs at once, and what its guarantee rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.shields.policy.periodic import PeriodicShield, ShieldPeriod
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.policy.tables import apply_levels, look_up_levels
from evenhand.shields.spec.plan import PERIODIC_KINDS, Counters, ShieldPlan
from evenhand.shields.spec.properties import FairnessProperty, is_fair, largest_bias
from evenhand.shields.synthesis.plans import synthesize

NO_ASSUMPTION = "nothing is assumed"
"""What a shield up to one horizon rests on."""

TIE_TOLERANCE = 1e-12
"""Two biases closer than this are the same fraction: counters are far too small for different ones to be."""


class PeriodPolicy(Protocol):
    """What a shield does in one period of some runs; counters are of this period alone, shape (runs, groups).

    Attributes:
        has_guarantee: whether the period ends fair whatever comes.
    """

    @property
    def has_guarantee(self) -> bool: ...

    def decide(
        self, t: int, seen: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        """Return the decisions after t others, shape (runs,)."""
        ...

    def assumption_held(self, seen: Integers) -> Booleans:
        """Return whether a period that ended with so many of each group kept the assumption, shape (runs,)."""
        ...


class SimulatedShield(Protocol):
    """One shield in many runs.

    Attributes:
        assumption: what its guarantee rests on, in words; None if it guarantees nothing.
        held_at_start: whether what was carried over from before keeps it.
        max_runs: so many at a time, at most.
    """

    @property
    def assumption(self) -> str | None: ...
    @property
    def held_at_start(self) -> bool: ...
    @property
    def max_runs(self) -> int: ...

    def begin_runs(self, size: int, number: int) -> None:
        """Begin a chunk of runs, which has a number: shields that draw do so from that."""

    def begin(self, seen: Integers, accepted: Integers) -> Iterator[tuple[Integers, PeriodPolicy]]:
        """Yield a period begins, after these counters, shape (runs, groups): runs that are treated alike, and how."""
        ...


@dataclass(frozen=True)
class TabledPeriodPolicy:
    """A policy over two groups; ``period`` says what it rests on, if anything."""

    policy: ShieldPolicy
    period: ShieldPeriod | None = None

    @property
    def has_guarantee(self) -> bool:
        """Whether the end is fair whatever comes."""
        return self.period is None or self.period.guaranteed

    def decide(
        self, t: int, seen: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        level = look_up_levels(self.policy.actions, t, seen.T, accepted.T, group)
        return apply_levels(level, recommendation, cost, self.policy.plan.inputs.costs)

    def assumption_held(self, seen: Integers) -> Booleans:
        if self.period is None:
            return np.ones(len(seen), bool)
        return self.period.assumption_held(*seen.T)


@dataclass(frozen=True)
class GreedyPeriodPolicy:
    """``GreedyRule`` for arrays: the counters of everything before have shape (runs, groups)."""

    property: FairnessProperty
    seen: Integers
    accepted: Integers
    has_guarantee = False

    def decide(
        self, t: int, seen: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        runs = np.arange(len(group))
        n, rejecting = self.seen + seen, self.accepted + accepted
        n[runs, group] += 1
        accepting = rejecting.copy()
        accepting[runs, group] += 1
        harmless = is_fair(self.property, n, rejecting) & is_fair(self.property, n, accepting)
        worse = largest_bias(self.property, n, rejecting) - largest_bias(self.property, n, accepting)
        open_ = ~harmless & (np.abs(worse) > TIE_TOLERANCE)
        return np.where(open_, (worse > 0).astype(np.int64), recommendation)

    def assumption_held(self, seen: Integers) -> Booleans:
        return np.zeros(len(seen), bool)


@dataclass(frozen=True)
class SimulatedFiniteShield:
    """A shield that ends at its horizon."""

    policy: ShieldPolicy
    assumption = NO_ASSUMPTION
    held_at_start = True
    max_runs = 2**20

    def begin_runs(self, size: int, number: int) -> None: ...

    def begin(self, seen: Integers, accepted: Integers) -> Iterator[tuple[Integers, PeriodPolicy]]:
        yield np.arange(len(seen)), TabledPeriodPolicy(self.policy)


class SimulatedPeriodicShield:
    """A shield that goes on: runs with the same past are treated alike, all runs if the past plays no part."""

    def __init__(self, plan: ShieldPlan) -> None:
        self._shield = PeriodicShield(plan)
        self._plan = plan
        self._alike = plan.kind in ("static-fair", "static-bw")
        self.assumption = self._shield.assumption
        self.held_at_start = self._shield.assumption_held_at_start
        # Few at a time where every run has tables of its own, so that an interrupt leaves complete ones.
        self.max_runs = 512 if plan.kind == "dynamic" else 2**20

    def begin_runs(self, size: int, number: int) -> None: ...

    def begin(self, seen: Integers, accepted: Integers) -> Iterator[tuple[Integers, PeriodPolicy]]:
        if self._alike:
            period = self._shield.begin()
            yield np.arange(len(seen)), TabledPeriodPolicy(period.policy, period)
            return
        if self._plan.kind == "greedy":
            yield np.arange(len(seen)), GreedyPeriodPolicy(self._plan.property, seen.copy(), accepted.copy())
            return
        for chosen, past in group_by_past(seen, accepted):
            period = self._shield.begin(past)
            yield chosen, TabledPeriodPolicy(period.policy, period)


def group_by_past(seen: Integers, accepted: Integers, *, apart: bool = True) -> Iterator[tuple[Integers, Counters]]:
    """Yield runs with the same counters, and those; all runs together, with those of the first, if not ``apart``."""
    past = np.stack([seen, accepted], axis=2).reshape(len(seen), -1)
    if not apart:
        yield np.arange(len(seen)), tuple(int(count) for count in past[0])
        return
    different, which = np.unique(past, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(which.reshape(-1)))
    for counters, chosen in zip(different, np.split(order, ends[:-1]), strict=True):
        yield chosen, tuple(int(count) for count in counters)


def simulated_shield_for(shield: ShieldPlan | ShieldPolicy) -> SimulatedShield:
    """Return how a shield decides; a plan is synthesised.

    A policy of a dynamic shield stands for its first period; the others are synthesised as they come.
    """
    plan = shield if isinstance(shield, ShieldPlan) else shield.plan
    if plan.kind in PERIODIC_KINDS:
        return SimulatedPeriodicShield(plan)
    return SimulatedFiniteShield(synthesize(shield) if isinstance(shield, ShieldPlan) else shield)


# Counters of many runs at once, and what they mean: whether the groups are alike, and how far they are apart.


@dataclass(frozen=True)
class RunCounters:
    """Seen and accepted of every group, shape (runs, groups)."""

    seen: Integers
    accepted: Integers

    @classmethod
    def of(cls, runs: int, start: tuple[int, ...]) -> RunCounters:
        """Return the same counters in every run."""
        each = np.array(start, dtype=np.int64).reshape(-1, 2)
        return cls(np.tile(each[:, 0], (runs, 1)), np.tile(each[:, 1], (runs, 1)))

    def add(self, group: Integers, counted: Integers | int, decision: Integers) -> None:
        """Add one individual per run."""
        runs = np.arange(len(group))
        self.seen[runs, group] += counted
        self.accepted[runs, group] += counted * decision

    def part(self, runs: Integers) -> RunCounters:
        """Return a copy of some runs."""
        return RunCounters(self.seen[runs], self.accepted[runs])

    def put(self, runs: Integers, part: RunCounters) -> None:
        """Take the counters of some runs."""
        self.seen[runs], self.accepted[runs] = part.seen, part.accepted
