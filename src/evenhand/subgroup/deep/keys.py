"""How many different groups of people: distinct 64-bit keys, exactly while they fit, else by a sample of them."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

LIMIT = 2**24
"""Distinct keys that are held; of more, only those that begin with 1, 2, 3, ... zero bits (P. Flajolet, "On adaptive
sampling", Computing 1990): the estimate's relative standard error is then at most 1.2 / sqrt(LIMIT / 2), 0.05 %."""


class Keys:
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
                batch = self._chosen(batch)
                if self._number + len(batch) > len(self._held):
                    self._settle()
                    batch = self._chosen(batch)
                self._held[self._number : self._number + len(batch)] = batch
                self._number += len(batch)

    def distinct(self) -> tuple[int, bool]:
        """How many different keys came, and whether that is a count or an estimate."""
        with self._lock:
            self._settle()
            return self._number << self._zeros, self._zeros == 0

    def _chosen(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
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
            different = self._chosen(different)
        self._number = len(different)
        self._held[: self._number] = different
