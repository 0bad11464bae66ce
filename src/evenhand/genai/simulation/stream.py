"""Simulated requests, and a simulated generator."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import TypeAlias

SimulatedItem: TypeAlias = dict[str, str | None]
"""Value of each concept group. None if it is not recognised."""


def draw_requests(shares: Mapping[str, float], *, seed: int) -> Iterator[frozenset[str]]:
    """Yield the conditions of successive requests. A request meets each independently, with its share."""
    draw = Random(f"requests {seed}").random
    # Streams contain few distinct sets, so sharing them saves memory.
    shared: dict[frozenset[str], frozenset[str]] = {}
    while True:
        conditions = frozenset(name for name, share in shares.items() if draw() < share)
        yield shared.setdefault(conditions, conditions)


class SimulatedGenerator:
    """Generator of random items that follows instructions with a fixed probability.

    Requested values are drawn in proportion to their usual probabilities. Repeated items and obedience use separate
    random numbers, so the n-th request uses the same random numbers under every policy.

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
        """Generate one item with one of the requested values, possibly again for the same request."""
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
