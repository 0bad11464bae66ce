"""Simulated shields: decisions of each kind of shield in many runs at once."""

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
"""Assumption of a shield with one horizon."""

TIE_TOLERANCE = 1e-12
"""Biases that differ by less are equal fractions, because counters are small."""


class PeriodPolicy(Protocol):
    """Policy of some runs in one period. Counters are of this period alone, shape (runs, groups).

    Attributes:
        has_guarantee: Whether the period always ends fair.
    """

    @property
    def has_guarantee(self) -> bool: ...

    def decide(
        self, t: int, sizes: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        """Decide after t earlier decisions, shape (runs,)."""
        ...

    def assumption_held(self, sizes: Integers) -> Booleans:
        """Check whether a period with these counts of each group satisfied the assumption, shape (runs,)."""
        ...


class SimulatedShield(Protocol):
    """Shield in many runs.

    Attributes:
        assumption: Assumption of its guarantee. None if it guarantees nothing.
        held_at_start: Whether the past satisfies the assumption.
        max_runs: Maximum number of runs at a time.
    """

    @property
    def assumption(self) -> str | None: ...
    @property
    def held_at_start(self) -> bool: ...
    @property
    def max_runs(self) -> int: ...

    def begin(self, sizes: Integers, accepted: Integers) -> Iterator[tuple[Integers, PeriodPolicy]]:
        """Yield the runs that share a period after these counters, shape (runs, groups), and its policy."""
        ...


@dataclass(frozen=True)
class TabledPeriodPolicy:
    """Policy over two groups; ``period`` has its assumption, if any."""

    policy: ShieldPolicy
    period: ShieldPeriod | None = None

    @property
    def has_guarantee(self) -> bool:
        """Whether the end is always fair."""
        return self.period is None or self.period.guaranteed

    def decide(
        self, t: int, sizes: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        level = look_up_levels(self.policy.actions, t, sizes.T, accepted.T, group)
        return apply_levels(level, recommendation, cost, self.policy.plan.inputs.costs)

    def assumption_held(self, sizes: Integers) -> Booleans:
        if self.period is None:
            return np.ones(len(sizes), bool)
        return self.period.assumption_held(*sizes.T)


@dataclass(frozen=True)
class GreedyPeriodPolicy:
    """``GreedyRule`` for arrays, with the counters of all earlier decisions, shape (runs, groups)."""

    property: FairnessProperty
    seen: Integers
    accepted: Integers
    has_guarantee = False

    def decide(
        self, t: int, sizes: Integers, accepted: Integers, group: Integers, recommendation: Integers, cost: Floats
    ) -> Integers:
        runs = np.arange(len(group))
        n, rejecting = self.seen + sizes, self.accepted + accepted
        n[runs, group] += 1
        accepting = rejecting.copy()
        accepting[runs, group] += 1
        harmless = is_fair(self.property, n, rejecting) & is_fair(self.property, n, accepting)
        worse = largest_bias(self.property, n, rejecting) - largest_bias(self.property, n, accepting)
        open_ = ~harmless & (np.abs(worse) > TIE_TOLERANCE)
        return np.where(open_, (worse > 0).astype(np.int64), recommendation)

    def assumption_held(self, sizes: Integers) -> Booleans:
        return np.zeros(len(sizes), bool)


@dataclass(frozen=True)
class SimulatedFiniteShield:
    """Shield with one horizon."""

    policy: ShieldPolicy
    assumption = NO_ASSUMPTION
    held_at_start = True
    max_runs = 2**20

    def begin(self, sizes: Integers, accepted: Integers) -> Iterator[tuple[Integers, PeriodPolicy]]:
        yield np.arange(len(sizes)), TabledPeriodPolicy(self.policy)


class SimulatedPeriodicShield:
    """Periodic shield. Runs with the same past share a policy, or all runs if the past has no effect."""

    def __init__(self, plan: ShieldPlan) -> None:
        self._shield = PeriodicShield(plan)
        self._plan = plan
        self._alike = plan.kind in ("static-fair", "static-bw")
        self.assumption = self._shield.assumption
        self.held_at_start = self._shield.assumption_held_at_start
        # Few runs at a time if each run has its own tables, so that complete runs exist after an interrupt.
        self.max_runs = 512 if plan.kind == "dynamic" else 2**20

    def begin(self, sizes: Integers, accepted: Integers) -> Iterator[tuple[Integers, PeriodPolicy]]:
        if self._alike:
            period = self._shield.begin()
            yield np.arange(len(sizes)), TabledPeriodPolicy(period.policy, period)
            return
        if self._plan.kind == "greedy":
            yield np.arange(len(sizes)), GreedyPeriodPolicy(self._plan.property, sizes.copy(), accepted.copy())
            return
        for chosen, past in group_by_past(sizes, accepted):
            period = self._shield.begin(past)
            yield chosen, TabledPeriodPolicy(period.policy, period)


def group_by_past(sizes: Integers, accepted: Integers) -> Iterator[tuple[Integers, Counters]]:
    """Yield the positions of runs with the same counters, and these counters."""
    past = np.stack([sizes, accepted], axis=2).reshape(len(sizes), -1)
    different, which = np.unique(past, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(which.reshape(-1)))
    for counters, chosen in zip(different, np.split(order, ends[:-1]), strict=True):
        yield chosen, tuple(int(count) for count in counters)


def simulated_shield_for(shield: ShieldPlan | ShieldPolicy) -> SimulatedShield:
    """Build the simulated shield of a policy or of a plan, which is synthesised.

    The policy of a dynamic shield is that of its first period; later ones are synthesised when they begin.
    """
    plan = shield if isinstance(shield, ShieldPlan) else shield.plan
    if plan.kind in PERIODIC_KINDS:
        return SimulatedPeriodicShield(plan)
    return SimulatedFiniteShield(synthesize(shield) if isinstance(shield, ShieldPlan) else shield)


# Counters of many runs.


@dataclass(frozen=True)
class RunCounters:
    """Seen and accepted of every group, shape (runs, groups)."""

    seen: Integers
    accepted: Integers

    @classmethod
    def of(cls, runs: int, start: tuple[int, ...]) -> RunCounters:
        """Build equal counters in every run."""
        each = np.array(start, dtype=np.int64).reshape(-1, 2)
        return cls(np.tile(each[:, 0], (runs, 1)), np.tile(each[:, 1], (runs, 1)))

    def add(self, group: Integers, counted: Integers | int, decision: Integers) -> None:
        """Count one person per run."""
        runs = np.arange(len(group))
        self.seen[runs, group] += counted
        self.accepted[runs, group] += counted * decision

    def part(self, runs: Integers) -> RunCounters:
        """Return a copy of some runs."""
        return RunCounters(self.seen[runs], self.accepted[runs])

    def put(self, runs: Integers, part: RunCounters) -> None:
        """Replace the counters of some runs."""
        self.seen[runs], self.accepted[runs] = part.seen, part.accepted
