"""A stream of requests and a generator that answers them, both made up: what policies are tried on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import TypeAlias

Item: TypeAlias = dict[str, str | None]
"""The value that an item shows of each concept group; None where it cannot be told."""


class Requests:
    """Requests, each of which some conditions hold for, independently of each other.

    Args:
        shares: condition -> share of requests that it holds for.
        seed: what they are drawn from.
    """

    def __init__(self, shares: Mapping[str, float], *, seed: int) -> None:
        self._shares = tuple(shares.items())
        self._draw = Random(f"requests {seed}").random
        # Few different sets occur; one object each keeps long streams small.
        self._seen: dict[frozenset[str], frozenset[str]] = {}

    def next(self) -> frozenset[str]:
        """Conditions that hold for the next request."""
        found = frozenset(name for name, share in self._shares if self._draw() < share)
        return self._seen.setdefault(found, found)


class Generator:
    """Makes items whose values are drawn, and obeys an instruction with some probability.

    Args:
        probabilities: concept group -> value -> how likely an item shows it when nothing is asked for.
        obeys: probability that an item shows what the prompt asks for, all of it. If not, it is drawn as ever, and may
            show it by chance.
        unrecognised: probability that no value of an item can be told, whatever was asked for.
        seed: what items are drawn from.

    Among values asked for, those that the generator likes better come in proportion. Items that are made again and
    obedience are drawn apart: whatever is asked for, the n-th request meets the generator in the same mood.
    """

    def __init__(
        self,
        probabilities: Mapping[str, Mapping[str, float]],
        *,
        obeys: float = 1.0,
        unrecognised: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._probabilities = {group: dict(values) for group, values in probabilities.items()}
        self._obeys = obeys
        self._unrecognised = unrecognised
        self._first = Random(f"generator {seed}").random
        self._again = Random(f"generator, again {seed}").random
        self._will = Random(f"obedience {seed}").random
        self._ladders: dict[tuple[str, tuple[str, ...]], tuple[tuple[str, ...], list[float]]] = {}
        self._usual = [(group, *self._ladder(group, tuple(values))) for group, values in probabilities.items()]
        self._blank: Item = dict.fromkeys(probabilities)

    def make(self, must: Mapping[str, Sequence[str]] | None = None, *, again: bool = False) -> Item:
        """One item.

        Args:
            must: what its prompt asks for: concept group -> values, any of which will do.
            again: whether its request had one before.
        """
        draw = self._again if again else self._first
        obeyed = must if must and self._will() < self._obeys else {}
        if self._unrecognised and draw() < self._unrecognised:
            return dict(self._blank)
        item: Item = {}
        for group, values, steps in self._usual:
            if group in obeyed:
                values, steps = self._ladder(group, tuple(obeyed[group]))
            item[group] = values[bisect_right(steps, draw() * steps[-1], 0, len(steps) - 1)]
        return item

    def _ladder(self, group: str, values: tuple[str, ...]) -> tuple[tuple[str, ...], list[float]]:
        """Values with their cumulative weights; equal ones if the generator by itself never shows any of them."""
        key = (group, values)
        if key not in self._ladders:
            weights = [self._probabilities[group].get(value, 0.0) for value in values]
            if not sum(weights):
                weights = [1.0] * len(values)
            self._ladders[key] = (values, list(accumulate(weights)))
        return self._ladders[key]


class InFlight:
    """Requests under way, which end in any order.

    Args:
        seed: what the order is drawn from.
    """

    def __init__(self, *, seed: int) -> None:
        self._draw = Random(f"in flight {seed}").random
        self._waiting: list[int] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: int) -> None:
        """A request is under way, for the first time or again."""
        self._waiting.append(request)

    def end(self) -> int:
        """The request whose item comes next, all equally likely."""
        waiting = self._waiting
        place = int(self._draw() * len(waiting))
        request, waiting[place] = waiting[place], waiting[-1]
        waiting.pop()
        return request
