"""Hourly spending of a guarded stream on its generator, including amounts reserved for running requests.

Amounts are integers in millionths of the currency, so that sums are exact and replays give equal results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.errors import DecisionError

MICRO = 1_000_000
"""Number of millionths in one unit of the currency."""

HOURS = 24
"""Number of hours that a daily budget covers."""

SECONDS = 3600


def to_micro(amount: float) -> int:
    """Convert an amount to millionths, rounded up."""
    return -int(-round(amount * MICRO, 3) // 1)


class SpendingTally:
    """Spending of one stream.

    Operations have ``cost`` and the ``hour`` since 1970. Admissions have a ``budget``: the ``hour``, the ``caps`` for
    ``hour`` and ``day``, and the ``reserve`` of the request until it is complete.
    """

    def __init__(self) -> None:
        self._by_hour: dict[int, int] = {}

    def state(self) -> list[list[int]]:
        """Return the JSON-serialisable spending of each hour."""
        return list(map(list, sorted(self._by_hour.items())))

    def load(self, state: Sequence[Sequence[int]]) -> None:
        """Load a state that ``state`` returned."""
        self._by_hour = {int(hour): int(cost) for hour, cost in state}

    def count(self, operation: Mapping[str, Any]) -> None:
        """Count the cost of an operation."""
        cost, hour = operation.get("cost", 0), operation.get("hour", 0)
        if cost:
            self._by_hour[hour] = self._by_hour.get(hour, 0) + cost
            latest = max(self._by_hour)
            self._by_hour = {past: spent for past, spent in self._by_hour.items() if past > latest - HOURS}

    def check(self, budget: Mapping[str, Any], reserved: int) -> None:
        """Check that the budget covers an admission.

        Args:
            budget: Budget of the admission.
            reserved: Amount reserved for running requests.

        Raises:
            DecisionError: A cap could be exceeded.
        """
        now = budget["hour"]
        for name, hours in (("hour", 1), ("day", HOURS)):
            cap = budget["caps"].get(name)
            # Return the spending of the last hours, including the current one.
            spent = sum(cost for hour, cost in self._by_hour.items() if now - hours < hour <= now)
            if cap is not None and spent + reserved + budget["reserve"] > cap:
                under_way = f" and {reserved / MICRO:g} is reserved for running requests" if reserved else ""
                so_far = f"{spent / MICRO:g} is spent{under_way}"
                raise DecisionError(
                    f"the budget of the {name}, {cap / MICRO:g}, does not cover the request: {so_far}",
                    code="budget",
                    hint=f"retry in the next hour, or raise {name} under budget of the guard",
                )
