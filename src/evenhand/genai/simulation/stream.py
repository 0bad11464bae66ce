"""Simulated requests, a simulated generator, and the log of delivered items."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Integers
from evenhand.genai.simulation.result import SequenceOrder
from evenhand.genai.spec.specification import Requirement

SimulatedItem: TypeAlias = dict[str, str | None]
"""Value of each concept group. None if it is not recognised."""


class RequestStream:
    """Stream of requests that meet each condition independently.

    Args:
        shares: Share of requests that meet each condition.
        seed: Random seed.
    """

    def __init__(self, shares: Mapping[str, float], *, seed: int) -> None:
        self._shares = tuple(shares.items())
        self._draw = Random(f"requests {seed}").random
        # Streams contain few distinct sets, so sharing them saves memory.
        self._shared: dict[frozenset[str], frozenset[str]] = {}

    def next(self) -> frozenset[str]:
        """Draw the conditions that hold for the next request."""
        conditions = frozenset(name for name, share in self._shares if self._draw() < share)
        return self._shared.setdefault(conditions, conditions)


class SimulatedGenerator:
    """Generator of random items that follows instructions with a fixed probability.

    Requested values are drawn in proportion to their usual probabilities. Repeated items and obedience use separate
    random numbers, so the n-th request meets the same randomness under every policy.

    Args:
        probabilities: Probability of each value by concept group, without instructions.
        obeys: Probability that an item follows all instructions. Otherwise it is drawn without them.
        unrecognised: Probability that no value of an item is recognised.
        seed: Random seed.
    """

    def __init__(
        self,
        probabilities: Mapping[str, Mapping[str, float]],
        *,
        obeys: float = 1.0,
        unrecognised: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._probabilities = probabilities
        self._obeys = obeys
        self._unrecognised = unrecognised
        self._first = Random(f"generator {seed}").random
        self._again = Random(f"generator, again {seed}").random
        self._obedience = Random(f"obedience {seed}").random
        self._weights: dict[tuple[str, tuple[str, ...]], list[float]] = {}

    def make(self, must: Mapping[str, Sequence[str]] | None = None, *, again: bool = False) -> SimulatedItem:
        """Generate one item.

        Args:
            must: Requested values by concept group. Any of them suffices.
            again: Whether the request already received an item.
        """
        draw = self._again if again else self._first
        obeyed = must if must and self._obedience() < self._obeys else {}
        if self._unrecognised and draw() < self._unrecognised:
            return dict.fromkeys(self._probabilities)
        item: SimulatedItem = {}
        for group, probabilities in self._probabilities.items():
            values = tuple(obeyed.get(group, probabilities))
            steps = self._cumulative_weights(group, values)
            item[group] = values[bisect_right(steps, draw() * steps[-1], 0, len(steps) - 1)]
        return item

    def _cumulative_weights(self, group: str, values: tuple[str, ...]) -> list[float]:
        """Compute cumulative weights of values, which are equal if the generator never shows any of them."""
        steps = self._weights.get((group, values))
        if steps is None:
            weights = [self._probabilities[group].get(value, 0.0) for value in values]
            steps = list(accumulate(weights if sum(weights) else [1.0] * len(values)))
            self._weights[group, values] = steps
        return steps


class RequestsInFlight:
    """Pending requests, which finish in random order.

    Args:
        seed: Random seed.
    """

    def __init__(self, *, seed: int) -> None:
        self._draw = Random(f"in flight {seed}").random
        self._pending: list[int] = []

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, request: int) -> None:
        """Add a request that waits for an item."""
        self._pending.append(request)

    def end(self) -> int:
        """Remove and return a random request, whose item is finished."""
        pending = self._pending
        place = int(self._draw() * len(pending))
        request, pending[place] = pending[place], pending[-1]
        pending.pop()
        return request


class OutputLog:
    """Log of delivered items, which stores positions of values. Position 0 is an unrecognised value.

    Args:
        values: Values of each concept group.
        requests: Maximum number of requests.
    """

    def __init__(self, values: Mapping[str, Sequence[str]], requests: int) -> None:
        self._positions: dict[str, dict[str | None, int]] = {
            group: {None: 0, **{value: i for i, value in enumerate(names, 1)}} for group, names in values.items()
        }
        self._items = {group: np.zeros(requests, np.int32) for group in values}
        self._conditions: list[frozenset[str]] = []
        self._decided: list[int] = []
        self._answered = np.zeros(requests, bool)

    @property
    def request_count(self) -> int:
        """Number of requests."""
        return len(self._conditions)

    def ask(self, conditions: frozenset[str]) -> int:
        """Add a request, and return its number, starting at 0."""
        self._conditions.append(conditions)
        return len(self._conditions) - 1

    def decide(self, request: int) -> None:
        """Record the first item of a request, which determines its place in the order of decisions."""
        self._decided.append(request)

    def record_delivery(self, request: int, item: SimulatedItem) -> None:
        """Record the item delivered for a request."""
        for group, positions in self._positions.items():
            self._items[group][request] = positions[item[group]]
        self._answered[request] = True

    def count_unrecognised(self) -> int:
        """Count the delivered items with an unrecognised value."""
        unknown = np.any([positions == 0 for positions in self._items.values()], axis=0)
        return int((unknown & self._answered).sum())

    def answered_count(self) -> int:
        """Count the answered requests."""
        return int(self._answered.sum())

    def sequence(self, requirement: Requirement, *, order: SequenceOrder) -> Integers:
        """Compute the recognised values of the items for a requirement, as positions in ``requirement.labels``."""
        answered = np.asarray(self._decided, np.int64)
        answered = answered[self._answered[answered]]
        if order == "requests":
            answered = np.sort(answered)
        holds = np.fromiter(
            (requirement.condition in self._conditions[request] for request in answered), bool, len(answered)
        )
        answered = answered[holds]
        place, recognised = np.zeros(len(answered), np.int64), np.ones(len(answered), bool)
        for group, values in zip(requirement.groups, requirement.values, strict=True):
            positions = self._items[group][answered]
            recognised &= positions > 0
            place = place * len(values) + positions - 1
        return place[recognised]
