"""Groups of people with the highest scores, each with its shortest description, and counts of distinct groups."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

TopGroups: TypeAlias = NDArray[np.void]
"""Groups of people, with the fields

- score: Score that they are ranked by.
- chosen: Rule set that describes the group: row of each attribute's rules, 0 for none.
- length: Length of the description, see ``candidates.description_length``.
- copies: Number of rule sets with the same people.
- key: Sum of the people's random keys.
"""


def empty_top(attributes: int, groups: int = 0) -> TopGroups:
    """Allocate an array of groups with all fields 0."""
    fields = [("score", "f8"), ("chosen", "i8", (attributes,)), ("length", "f8"), ("copies", "i8"), ("key", "u8")]
    return np.zeros(groups, dtype=fields)


def merge_top(parts: Sequence[TopGroups], keep: int) -> TopGroups:
    """Select the ``keep`` groups with the highest scores, and the shortest description of each.

    Ties at the last place are broken by the keys, so that the selection does not depend on the order of the parts.
    """
    groups = np.concatenate(parts)
    groups = groups[np.lexsort((*groups["chosen"].T[::-1], groups["length"], groups["key"]))]
    starts = np.flatnonzero(np.concatenate([[True], groups["key"][1:] != groups["key"][:-1]])[: len(groups)])
    distinct = groups[starts]
    if len(starts):
        distinct["copies"] = np.add.reduceat(groups["copies"], starts)
    return distinct[np.lexsort((distinct["key"], -distinct["score"]))[:keep]]


def rank_top(groups: TopGroups) -> TopGroups:
    """Rank by score, the highest first; among equal scores, the shortest description comes first."""
    return groups[np.lexsort((*groups["chosen"].T[::-1], groups["length"], -groups["score"]))]


LIMIT = 2**24
"""Maximum number of distinct keys in memory. Beyond it, only keys that begin with 1, 2, 3, ... zero bits are kept
(P. Flajolet, "On adaptive sampling", Computing 1990). The relative standard error of the estimate is then at most 1.2 /
sqrt(LIMIT / 2), 0.05 %."""


class DistinctKeyCounter:
    """Counter of distinct keys from any thread, whose result does not depend on their order.

    Args:
        limit: Maximum number of distinct keys in memory.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        # The system allocates pages only when they are written.
        self._keys = np.empty(2 * limit, dtype=np.uint64)
        self._number = 0
        self._zeros = 0
        self._lock = threading.Lock()

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Add keys, shape (n,)."""
        for start in range(0, len(keys), self._limit):
            batch = keys[start : start + self._limit]
            with self._lock:
                batch = self._sample_keys(batch)
                if self._number + len(batch) > len(self._keys):
                    self._compact()
                    batch = self._sample_keys(batch)
                self._keys[self._number : self._number + len(batch)] = batch
                self._number += len(batch)

    def distinct(self) -> tuple[int, bool]:
        """Return the number of distinct keys, and whether it is exact."""
        with self._lock:
            self._compact()
            return self._number << self._zeros, self._zeros == 0

    def _sample_keys(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return keys[keys >> np.uint64(64 - self._zeros) == 0] if self._zeros else keys

    def _compact(self) -> None:
        """Remove repeated keys, and sample if there are more than the limit."""
        keys = self._keys[: self._number]
        keys.sort()
        new = np.ones(len(keys), dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=new[1:])
        distinct = keys[new]
        while len(distinct) > self._limit:
            self._zeros += 1
            distinct = self._sample_keys(distinct)
        self._number = len(distinct)
        self._keys[: self._number] = distinct
