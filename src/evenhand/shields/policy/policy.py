"""Synthesised shields, which look up the action in every state in about a microsecond.

The action for a group in a state is a level from -K to K, where K is the number of costs: 0 follows every
recommendation, k also accepts against the recommendation if the cost is at most the k-th, and -k rejects likewise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Integers
from evenhand.errors import OptionError
from evenhand.shields.spec.plan import Counters, ShieldPlan

REJECT, FOLLOW, ACCEPT = -1, 0, 1


class ActionTable(Protocol):
    """Table of levels, such as `ThresholdTable` or `PackedTable`."""

    @property
    def form(self) -> str:
        """Name of the form in a file."""
        ...

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Stored arrays that determine the decisions."""
        ...

    @property
    def level(self) -> Callable[..., int]:
        """Function ``level(t, (n_a, a, n_b, b, ...), group)`` that returns the level in a state, without validation."""
        ...

    def levels(self, t: int, sizes: Integers, accepted: Integers, group: Integers) -> Integers:
        """Return the levels in many states after t decisions, shape (runs,).

        Args:
            sizes, accepted: Counters of the groups since the start of the plan, shape (groups, runs).
            group: Positions of the groups, shape (runs,).
        """
        ...


@dataclass(frozen=True)
class ShieldPolicy:
    """Synthesised shield.

    Attributes:
        plan: The plan.
        actions: Table of actions.
        expected_cost: Expected cost of the overrides over one horizon.
        states: Number of states before the horizon.
        peak_bytes: Peak memory of the synthesis.
        seconds: Duration of the synthesis.
    """

    plan: ShieldPlan
    actions: ActionTable = field(repr=False)
    expected_cost: float
    states: int
    peak_bytes: int
    seconds: float

    @property
    def bytes(self) -> int:
        """Size of the table of actions in memory."""
        return sum(array.nbytes for array in self.actions.arrays)

    @cached_property
    def digest(self) -> str:
        """Digest of everything that determines decisions: equal digests mean equal decisions in every state."""
        plan = self.plan
        fairness = plan.property
        parts = [
            fairness.kind,
            str(fairness.kappa),
            str(fairness.empty_group),
            plan.inputs.groups,
            plan.inputs.costs,
            plan.horizon,
            plan.kind,
            plan.times,
            plan.start,
            self.actions.form,
            plan.label_wait,
        ]
        hashed = hashlib.sha256(json.dumps(parts).encode())
        for array in self.actions.arrays:
            hashed.update(np.ascontiguousarray(array).data)
        return hashed.hexdigest()

    @property
    def makes_own_periods(self) -> bool:
        """Whether a running shield synthesises its periods from the plan instead of using this table."""
        return self.plan.makes_periods and self.actions.form != "separate"

    @property
    def running_digest(self) -> str:
        """Digest of a running shield with this policy, as stored in its states, its log and the service."""
        return self.plan.digest if self.makes_own_periods else self.digest

    @property
    def levels(self) -> int:
        """Number of costs. Levels range from minus this number to this number."""
        return len(self.plan.inputs.costs)

    def action(self, t: int, counters: Counters, group: str | int) -> int:
        """Return the level in a state; with one cost REJECT, FOLLOW or ACCEPT.

        Args:
            t: Decisions since the start of the plan.
            counters: People seen and accepted of each group since then, (n_a, a, n_b, b); for equal opportunity only
                with label 1.
            group: Name or position of the group.

        Raises:
            OptionError: The group is unknown, or the counters are impossible at that time.
        """
        position = self.plan.inputs.position(group)
        if not 0 <= t < self.plan.horizon:
            raise OptionError(f"the time {t} exceeds the horizon {self.plan.horizon}", hint="start a new period")
        total = sum(counters[::2])
        possible = (
            len(counters) == 2 * len(self.plan.inputs.groups)
            and all(0 <= accepted <= n for n, accepted in zip(counters[::2], counters[1::2], strict=True))
            and (total <= t if self.plan.property.labelled else total == t)
        )
        if not possible:
            raise OptionError(f"after {t} decisions the counters cannot be {tuple(counters)}")
        return self.actions.level(t, counters, position)

    def decision(
        self,
        t: int,
        counters: Counters,
        group: str | int,
        recommendation: int,
        cost: float | None = None,
    ) -> int:
        """Return the decision on an individual, 0 or 1; ``cost`` is optional if the plan has a single one.

        Raises:
            OptionError: As for `action`, or the cost is missing and several are possible.
        """
        if cost is None and self.levels > 1:
            raise OptionError("the cost of an override is required", hint="this shield has several costs")
        return apply_level(self.action(t, counters, group), recommendation, cost, self.plan.inputs.costs)


def apply_level(level: int, recommendation: int, cost: float | None, costs: tuple[float, ...]) -> int:
    """Return the decision of a level. The outermost levels override at any cost."""
    if recommendation:
        if level >= 0:
            return 1
        return 0 if level == -len(costs) or cost is None or cost <= costs[-level - 1] else 1
    if level <= 0:
        return 0
    return 1 if level == len(costs) or cost is None or cost <= costs[level - 1] else 0
