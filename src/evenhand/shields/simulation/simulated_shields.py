"""Simulated shields: decisions of each kind of shield in many runs at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from evenhand.core.typing import Integers
from evenhand.shields.policy.periodic import GreedyRule, PeriodicShield, ShieldPeriod
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.plan import PERIODIC_KINDS, ShieldPlan
from evenhand.shields.synthesis.plans import synthesize

NO_ASSUMPTION = "nothing is assumed"
"""Assumption of a shield with one horizon."""


class SimulatedShield:
    """Shield in many runs. Runs with the same past share a policy, or all runs if the past has no effect.

    The policy of a dynamic shield is that of its first period; later ones are synthesised when they begin.

    Args:
        shield: Policy, or plan that is synthesised.

    Attributes:
        assumption: Assumption of its guarantee. None if it guarantees nothing.
        held_at_start: Whether the past satisfies the assumption.
        max_runs: Maximum number of runs at a time.
    """

    def __init__(self, shield: ShieldPlan | ShieldPolicy) -> None:
        plan = shield if isinstance(shield, ShieldPlan) else shield.plan
        self.assumption: str | None = NO_ASSUMPTION
        self.held_at_start, self.max_runs = True, 2**20
        self._periods: PeriodicShield | None = None
        if plan.kind not in PERIODIC_KINDS:
            policy = synthesize(shield) if isinstance(shield, ShieldPlan) else shield
            self._only = ShieldPeriod(policy, plan.start, None, True, True)
            return
        self._periods = PeriodicShield(plan)
        self.assumption, self.held_at_start = self._periods.assumption, self._periods.assumption_held_at_start
        if plan.kind == "dynamic":
            # If each run has its own tables, few runs are simulated at a time, so that some are complete after an
            # interrupt.
            self.max_runs = 512

    def begin(self, sizes: Integers, accepted: Integers) -> Iterator[tuple[Integers, ShieldPeriod]]:
        """Yield the runs that share a period after these counters, shape (runs, groups), and the period."""
        everyone, periods = np.arange(len(sizes)), self._periods
        if periods is None:
            yield everyone, self._only
            return
        past = np.stack([sizes, accepted], axis=2).reshape(len(sizes), -1)
        if periods.plan.kind == "dynamic":
            different, which = np.unique(past, axis=0, return_inverse=True)
            for position, counters in enumerate(different):
                yield np.flatnonzero(which.reshape(-1) == position), periods.begin(tuple(counters.tolist()))
            return
        period = periods.begin()
        if isinstance(period.policy.actions, GreedyRule):
            rule = replace(period.policy.actions, start=past.T)
            period = replace(period, policy=replace(period.policy, actions=rule))
        yield everyone, period


# Counters of many runs.


@dataclass(frozen=True)
class RunCounters:
    """Counts of seen and accepted people of each group, shape (runs, groups)."""

    seen: Integers
    accepted: Integers

    @classmethod
    def of(cls, runs: int, start: tuple[int, ...]) -> RunCounters:
        """Build the same counters for every run."""
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
