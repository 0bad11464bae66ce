"""A synthesised shield: what to do in every state, looked up in about a microsecond.

The action in a state on a group is a level from -K to K, K being how many costs there are: 0 follows every
recommendation, k accepts also what was recommended to be rejected if overriding costs at most the k-th cost, -k
rejects likewise. Overriding is always such a threshold on the cost: the better decision does not depend on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.shields.spec.plan import Counters, ShieldPlan

REJECT, FOLLOW, ACCEPT = -1, 0, 1


class ActionTable(Protocol):
    """Where the levels are stored: `ThresholdTable` or `PackedTable`."""

    @property
    def form(self) -> str:
        """Its name in a file."""
        ...

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What is stored and decides, in one order."""
        ...

    @property
    def level(self) -> Callable[..., int]:
        """The level in a state, ``level(t, (n_a, a, n_b, b, ...), group)``; nothing is checked."""
        ...


@dataclass(frozen=True)
class ShieldPolicy:
    """A shield as synthesised.

    Attributes:
        plan: what it solves.
        actions: its table.
        expected_cost: of the overrides over one horizon, if the inputs come as expected.
        states: how many states it decides in (all layers before the horizon).
        peak_bytes: the arrays that its synthesis held at most.
        seconds: what its synthesis took.
    """

    plan: ShieldPlan
    actions: ActionTable = field(repr=False)
    expected_cost: float
    states: int
    peak_bytes: int
    seconds: float

    @property
    def bytes(self) -> int:
        """What the table of actions takes in memory."""
        return sum(array.nbytes for array in self.actions.arrays)

    @cached_property
    def digest(self) -> str:
        """Of all that decides: shields with the same digest decide alike in every state."""
        plan = self.plan
        kept = plan.property
        said = [
            kept.kind,
            str(kept.kappa),
            str(kept.empty_group),
            plan.inputs.groups,
            plan.inputs.costs,
            plan.horizon,
            plan.kind,
            plan.times,
            plan.start,
            self.actions.form,
            plan.label_wait,
        ]
        hashed = hashlib.sha256(json.dumps(said).encode())
        for array in self.actions.arrays:
            hashed.update(array.tobytes())
        return hashed.hexdigest()

    @property
    def makes_own_periods(self) -> bool:
        """Whether a running shield makes its periods from the plan, and not from this table."""
        return self.plan.makes_periods and self.actions.form != "separate"

    @property
    def running_digest(self) -> str:
        """Digest of the shield that runs with this policy: in its states, its log and the service."""
        return self.plan.digest if self.makes_own_periods else self.digest

    @property
    def levels(self) -> int:
        """How many costs there are: actions lie between minus that and that."""
        return len(self.plan.inputs.costs)

    def action(self, t: int, counters: Counters, group: str | int) -> int:
        """Return the level in a state, see above; with one cost REJECT, FOLLOW or ACCEPT.

        Args:
            t: decisions made since the start of the plan.
            counters: seen and accepted of each group since then, (n_a, a, n_b, b); for equal opportunity only those
                whose label is 1.
            group: its name or position.

        Raises:
            OptionError: no such group, or counters that cannot be at that time.
        """
        position = self.plan.inputs.position(group)
        if not 0 <= t < self.plan.horizon:
            raise OptionError(f"the time {t} is past the horizon {self.plan.horizon}", hint="start a new period")
        seen = sum(counters[::2])
        possible = (
            len(counters) == 2 * len(self.plan.inputs.groups)
            and all(0 <= accepted <= n for n, accepted in zip(counters[::2], counters[1::2], strict=True))
            and (seen <= t if self.plan.property.labelled else seen == t)
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
        """Return the decision on one individual, 0 or 1; ``cost`` may be left out if the plan has a single one.

        Raises:
            OptionError: as for `action`, or no cost where several are possible.
        """
        if cost is None and self.levels > 1:
            raise OptionError("the cost of overriding is needed", hint="this shield was made for several costs")
        return apply_level(self.action(t, counters, group), recommendation, cost, self.plan.inputs.costs)


def apply_level(level: int, recommendation: int, cost: float | None, costs: tuple[float, ...]) -> int:
    """Return the decision that a level stands for. The outermost levels override whatever that costs."""
    if recommendation:
        if level >= 0:
            return 1
        return 0 if level == -len(costs) or cost is None or cost <= costs[-level - 1] else 1
    if level <= 0:
        return 0
    return 1 if level == len(costs) or cost is None or cost <= costs[level - 1] else 0
