"""The groups of people that rank highest, each under its simplest description."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers


@dataclass(frozen=True)
class TopGroups:
    """Groups of people, highest score first.

    Attributes:
        score: what they are ranked by, shape (groups,).
        chosen: a rule set that describes each: the row of each attribute's rules, 0 for none, (groups, attributes).
        length: how long that is to say, see ``candidates.simplicity``.
        copies: how many rule sets of those looked at hold the same people.
        key: the sum of their random keys.
    """

    score: Floats
    chosen: Integers
    length: Floats
    copies: Integers
    key: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.score)

    def at(self, where: Integers) -> TopGroups:
        """Return some of the groups."""
        return TopGroups(**{field.name: getattr(self, field.name)[where] for field in fields(self)})

    def rank(self) -> TopGroups:
        """Rank by score, the highest first, among equals the simplest."""
        return self.at(np.lexsort((*self.chosen.T[::-1], self.length, -self.score)))


def empty_top(attributes: int) -> TopGroups:
    """Return no groups."""
    none = np.zeros(0, dtype=np.int64)
    return TopGroups(
        score=np.zeros(0),
        chosen=np.zeros((0, attributes), dtype=np.int64),
        length=np.zeros(0),
        copies=none,
        key=np.zeros(0, dtype=np.uint64),
    )


def merge_top(several: Sequence[TopGroups], keep: int) -> TopGroups:
    """Return the ``keep`` highest of several; the same people once, under the simplest description.

    Equal scores at the end are told apart by the keys, so that the choice does not depend on who looked at what.
    """
    together = TopGroups(
        **{field.name: np.concatenate([getattr(one, field.name) for one in several]) for field in fields(TopGroups)}
    )
    together = together.at(np.lexsort((*together.chosen.T[::-1], together.length, together.key)))
    first = np.flatnonzero(np.concatenate([[True], together.key[1:] != together.key[:-1]])[: len(together)])
    copies = np.add.reduceat(together.copies, first) if len(first) else together.copies
    different = together.at(first)
    best = np.lexsort((different.key, -different.score))[:keep]
    kept = different.at(best)
    return TopGroups(
        **{field.name: getattr(kept, field.name) for field in fields(TopGroups) if field.name != "copies"},
        copies=copies[best],
    )


# How many different groups of people: distinct 64-bit keys, exactly while they fit, else by a sample of them.

LIMIT = 2**24
"""Distinct keys that are held; of more, only those that begin with 1, 2, 3, ... zero bits (P. Flajolet, "On adaptive
sampling", Computing 1990): the estimate's relative standard error is then at most 1.2 / sqrt(LIMIT / 2), 0.05 %."""


class DistinctKeyCounter:
    """Counts distinct keys that come in batches from any thread; what comes out does not depend on their order.

    Args:
        limit: distinct keys held, at most.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        # Pages are taken from the system only once they are written to.
        self._held = np.empty(2 * limit, dtype=np.uint64)
        self._number = 0
        self._zeros = 0
        self._lock = threading.Lock()

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Take in keys, shape (n,)."""
        for first in range(0, len(keys), self._limit):
            batch = keys[first : first + self._limit]
            with self._lock:
                batch = self._sample_keys(batch)
                if self._number + len(batch) > len(self._held):
                    self._settle()
                    batch = self._sample_keys(batch)
                self._held[self._number : self._number + len(batch)] = batch
                self._number += len(batch)

    def distinct(self) -> tuple[int, bool]:
        """Return how many different keys came, and whether that is a count or an estimate."""
        with self._lock:
            self._settle()
            return self._number << self._zeros, self._zeros == 0

    def _sample_keys(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return keys[keys >> np.uint64(64 - self._zeros) == 0] if self._zeros else keys

    def _settle(self) -> None:
        """Hold every key once, and no more than the limit."""
        held = self._held[: self._number]
        held.sort()
        new = np.ones(len(held), dtype=bool)
        np.not_equal(held[1:], held[:-1], out=new[1:])
        different = held[new]
        while len(different) > self._limit:
            self._zeros += 1
            different = self._sample_keys(different)
        self._number = len(different)
        self._held[: self._number] = different
