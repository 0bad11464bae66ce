"""The items of a simulated stream, kept small, and the sequences that specifications speak of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.genai.simulation import Order
from evenhand.genai.stream import Item


class Delivered:
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
    def asked(self) -> int:
        """Requests that came."""
        return len(self._conditions)

    def ask(self, conditions: frozenset[str]) -> int:
        """A request comes; its number, from 0."""
        self._conditions.append(conditions)
        return len(self._conditions) - 1

    def decide(self, request: int) -> None:
        """The first item of a request is there, and its place in the sequence of decisions is fixed."""
        self._decided.append(request)

    def deliver(self, request: int, item: Item) -> None:
        """A request is answered."""
        for group, positions in self._positions.items():
            self._shown[group][request] = positions[item[group]]
        self._answered[request] = True

    def unrecognised(self) -> int:
        """Answered requests in whose item some value could not be told."""
        unknown = np.zeros(len(self._answered), bool)
        for shown in self._shown.values():
            unknown |= shown == 0
        return int((unknown & self._answered).sum())

    def answered(self) -> int:
        """Requests that were answered."""
        return int(self._answered.sum())

    def sequence(
        self, condition: str, groups: Sequence[tuple[str, Sequence[str]]], *, order: Order
    ) -> NDArray[np.int64]:
        """The values of items that were made for a condition, from 1; of several groups, combinations of them.

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
