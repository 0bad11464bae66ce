"""A stream of requests and a generator that answers them, both made up: what policies are tried on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import NamedTuple, TypeAlias

import numpy as np

from evenhand.core.typing import Integers
from evenhand.genai.simulation.result import SequenceOrder

SimulatedItem: TypeAlias = dict[str, str | None]
"""The value that an item shows of each concept group; None where it cannot be told."""


class RequestStream:
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
        """Return conditions that hold for the next request."""
        found = frozenset(name for name, share in self._shares if self._draw() < share)
        return self._seen.setdefault(found, found)


class SimulatedGenerator:
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
        self._usual = [
            (group, *self._cumulative_weights(group, tuple(values))) for group, values in probabilities.items()
        ]
        self._blank: SimulatedItem = dict.fromkeys(probabilities)

    def make(self, must: Mapping[str, Sequence[str]] | None = None, *, again: bool = False) -> SimulatedItem:
        """Return one item.

        Args:
            must: what its prompt asks for: concept group -> values, any of which will do.
            again: whether its request had one before.
        """
        draw = self._again if again else self._first
        obeyed = must if must and self._will() < self._obeys else {}
        if self._unrecognised and draw() < self._unrecognised:
            return dict(self._blank)
        item: SimulatedItem = {}
        for group, values, steps in self._usual:
            if group in obeyed:
                values, steps = self._cumulative_weights(group, tuple(obeyed[group]))
            item[group] = values[bisect_right(steps, draw() * steps[-1], 0, len(steps) - 1)]
        return item

    def _cumulative_weights(self, group: str, values: tuple[str, ...]) -> tuple[tuple[str, ...], list[float]]:
        """Values with their cumulative weights; equal ones if the generator by itself never shows any of them."""
        key = (group, values)
        if key not in self._ladders:
            weights = [self._probabilities[group].get(value, 0.0) for value in values]
            if not sum(weights):
                weights = [1.0] * len(values)
            self._ladders[key] = (values, list(accumulate(weights)))
        return self._ladders[key]


class RequestsInFlight:
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
        """Record that a request is under way, for the first time or again."""
        self._waiting.append(request)

    def end(self) -> int:
        """Return the request whose item comes next, all equally likely."""
        waiting = self._waiting
        place = int(self._draw() * len(waiting))
        request, waiting[place] = waiting[place], waiting[-1]
        waiting.pop()
        return request


# The items of a simulated stream, kept small, and the sequences that specifications speak of.


class OutputLog:
    """What was delivered, request by request: positions of values, 0 where there is none that is known.

    Args:
        values: concept group -> its values.
        requests: at most.
    """

    def __init__(self, values: Mapping[str, Sequence[str]], requests: int) -> None:
        self._positions = {
            group: {None: 0, **{value: i for i, value in enumerate(names, 1)}} for group, names in values.items()
        }
        self._values = {group: tuple(names) for group, names in values.items()}
        self._shown = {group: np.zeros(requests, np.int32) for group in values}
        self._conditions: list[frozenset[str]] = []
        self._decided: list[int] = []
        self._answered = np.zeros(requests, bool)

    @property
    def request_count(self) -> int:
        """Requests that came."""
        return len(self._conditions)

    def ask(self, conditions: frozenset[str]) -> int:
        """Record a new request; return its number, from 0."""
        self._conditions.append(conditions)
        return len(self._conditions) - 1

    def decide(self, request: int) -> None:
        """Record the first item of a request, which fixes its place in the sequence of decisions."""
        self._decided.append(request)

    def record_delivery(self, request: int, item: SimulatedItem) -> None:
        """Record that a request is answered."""
        for group, positions in self._positions.items():
            self._shown[group][request] = positions[item[group]]
        self._answered[request] = True

    def count_unrecognised(self) -> int:
        """Count the answered requests in whose item some value could not be told."""
        unknown = np.zeros(len(self._answered), bool)
        for shown in self._shown.values():
            unknown |= shown == 0
        return int((unknown & self._answered).sum())

    def answered_count(self) -> int:
        """Return requests that were answered."""
        return int(self._answered.sum())

    def sequence(
        self, condition: str, groups: Sequence[tuple[str, Sequence[str]]], *, order: SequenceOrder
    ) -> Integers:
        """Return the values of items that were made for a condition, from 1; of several groups, combinations of them.

        Combinations count with the last group fastest. 0 where some value is not known.
        """
        answered = np.asarray(self._decided, np.int64)
        answered = answered[self._answered[answered]]
        if order == "requests":
            answered = np.sort(answered)
        holds = np.fromiter((condition in self._conditions[one] for one in answered), bool, len(answered))
        answered = answered[holds]
        place, known = np.zeros(len(answered), np.int64), np.ones(len(answered), bool)
        for group, wanted in groups:
            table = np.array([0, *(wanted.index(one) + 1 if one in wanted else 0 for one in self._values[group])])
            shown = table[self._shown[group][answered]]
            known &= shown > 0
            place = place * len(wanted) + shown - 1
        return np.where(known, place + 1, 0)


# What a sequence of items is worth by the definition alone: deadlines missed, and how long values stayed away.
#
# Nothing here knows how items were asked for. Whatever enforces a specification is judged by this.

ShownValues = Integers


class SequenceJudgement(NamedTuple):
    """One sequence against one specification.

    Attributes:
        items: how many items counted: those whose value was recognised.
        missed: by value, how many deadlines passed without it: while it stays away, one as often as its deadline is
            long; for values without a deadline 1 if it never appeared.
        longest_gap: by value, the most items from one appearance to the next, that one included. The beginning counts
            as an appearance, and so does the first item after the end: what is reported is the least deadline that the
            sequence keeps.
    """

    items: int
    missed: tuple[int, ...]
    longest_gap: tuple[int, ...]


def judge_sequence(
    shown: ShownValues | Sequence[int], values: int, deadlines: Mapping[int, int] | None = None
) -> SequenceJudgement:
    """Judge a finite sequence.

    Value ``k`` must appear within the first ``deadlines[k]`` items, and within so many again after each of its
    appearances and after each deadline that it missed; one beyond the end is not missed. A value without a deadline
    must appear once.

    Args:
        shown: the value of each item, 1 to ``values``; 0 where it was not recognised, which does not count as an item.
        values: how many values there are.
        deadlines: by value, from 1; values may be left out.

    >>> judge_sequence([1, 2, 0, 1, 1, 1], 2, {1: 2, 2: 3})
    SequenceJudgement(items=5, missed=(0, 1), longest_gap=(2, 4))
    """
    sequence = np.asarray(shown, dtype=np.int64)
    sequence = sequence[sequence > 0]
    missed, longest = [], []
    for value in range(1, values + 1):
        appearances = np.flatnonzero(sequence == value) + 1
        gaps = np.diff(appearances, prepend=0, append=len(sequence) + 1)
        deadline = None if deadlines is None else deadlines.get(value)
        missed.append(int(np.sum((gaps - 1) // deadline)) if deadline is not None else int(not len(appearances)))
        longest.append(int(gaps.max()))
    return SequenceJudgement(len(sequence), tuple(missed), tuple(longest))
