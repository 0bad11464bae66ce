"""Synthesis of shields that keep each group within common welfare bounds, with one table per group.

The state of an exact shield for m groups has 2m counters. If the requirement is one condition per group, "fewer than N
members were counted, or the welfare lies within the bounds", the value of a state is a sum over the groups: arrivals
do not depend on decisions, so expectations add, and an end is allowed if it is allowed for each group. The number
of steps is m T^3 / 6 instead of T^(2m). The rates of any two groups with at least N members are then at most u - l
apart (and their rates in a ratio of at least l / u), at the end of the horizon and, by the mediant property, at the end
of every later one. The disadvantage is the cost of keeping all groups near a rate that is chosen in advance.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Integers
from evenhand.errors import LimitError
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.ends import WelfareBounds, welfare_bounds_of
from evenhand.shields.spec.plan import IMPOSSIBLE_PROBABILITY, ShieldPlan
from evenhand.shields.synthesis.layer import TOLERANCE, mix_of_group

MAX_TABLE_BYTES = 2**31
"""Maximum size of all tables together."""

Levels = NDArray[np.int8]


@dataclass(frozen=True)
class SeparableTable:
    """Levels of each group, indexed by the counters of that group.

    Attributes:
        tables: (T(T+1)(T+2)/6,) int8 each: the level by time t and counters (n, a), n <= t.
    """

    tables: tuple[Levels, ...]
    form = "separate"

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.tables

    @cached_property
    def _views(self) -> tuple[memoryview, ...]:
        return tuple(memoryview(table) for table in self.tables)  # type: ignore[arg-type]  # an array is a buffer

    def level(self, t: int, counters: Sequence[int], group: int) -> int:
        """Return the level for an individual of a group in a state."""
        n, a = counters[2 * group], counters[2 * group + 1]
        return self._views[group][t * (t + 1) * (t + 2) // 6 + n * (n + 1) // 2 + a]

    def levels(self, t: int, sizes: Integers, accepted: Integers, group: Integers) -> Integers:
        runs = np.arange(len(group))
        n, a = sizes[group, runs], accepted[group, runs]
        state = t * (t + 1) * (t + 2) // 6 + n * (n + 1) // 2 + a
        levels = np.zeros(len(group), dtype=np.int64)
        for g, table in enumerate(self.tables):
            levels = np.where(group == g, table[np.where(group == g, state, 0)], levels)
        return levels


def synthesize_separable(plan: ShieldPlan, bounds: WelfareBounds | None = None) -> ShieldPolicy:
    """Synthesize the shield that keeps each group within welfare bounds at minimum expected cost.

    Args:
        plan: problem for two or more groups. Counters carried over are ignored, as in every static shield.
        bounds: welfare bounds. Default: ``welfare_bounds_of(plan)``.

    Returns:
        The policy. Its expected cost is exact for the condition per group, and it never fails (Lemma 9).

    Raises:
        OptionError: if the bounds do not imply the property.
        LimitError: if the tables are too large.
    """
    started = time.perf_counter()
    if bounds is not None:
        plan = replace(plan, bounds=(bounds.lower, bounds.upper))
    bounds = welfare_bounds_of(plan)
    size = comb(plan.horizon + 2, 3)
    groups = len(plan.inputs.groups)
    if size * groups > MAX_TABLE_BYTES:
        raise LimitError(
            f"tables of {size * groups / 2**30:.1f} GiB for {groups} groups over {plan.horizon} decisions",
            location="horizon",
            hint="a shorter horizon: bounds kept in every period are kept over all of them",
        )
    tables = [np.empty(size, dtype=np.int8) for _ in range(groups)]
    cost = _sweep_groups(plan, bounds, tables)
    peak = groups * size + 17 * comb(plan.horizon + 2, 2)
    return ShieldPolicy(plan, SeparableTable(tuple(tables)), cost, groups * size, peak, time.perf_counter() - started)


def _sweep_groups(plan: ShieldPlan, bounds: WelfareBounds, tables: list[Levels] | None) -> float:
    """Compute the expected cost, and fill the tables unless they are None."""
    from evenhand.shields.synthesis.welfare_kernels import sweep_welfare

    n = np.arange(plan.horizon + 1)
    sizes, accepted = np.repeat(n, n + 1), np.concatenate([np.arange(k + 1) for k in n])
    forbidden = (sizes >= bounds.least_seen) & ~bounds.holds(sizes, accepted)
    checked = np.isin(n[:-1], plan.times)
    labels = plan.inputs.labels() if plan.property.labelled else None
    total = 0.0
    for group, rate in enumerate(plan.inputs.rate):
        values = np.where(forbidden, np.inf, 0.0) if plan.horizon in plan.times else np.zeros(len(sizes))
        total += sweep_welfare(
            plan.horizon,
            values,
            forbidden,
            checked,
            max(1.0 - rate, IMPOSSIBLE_PROBABILITY),
            mix_of_group(plan.inputs, group, TOLERANCE * plan.inputs.costs[-1]),
            np.array([0.0, 1.0]) if labels is None else labels[group],
            np.empty(0, dtype=np.int8) if tables is None else tables[group],
        )
    return total
