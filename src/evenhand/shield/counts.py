"""Counters of many runs at once, and what they mean: whether the groups are alike, and how far they are apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.properties import Property

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class Counts:
    """Seen and accepted of every group, shape (runs, groups)."""

    seen: Integers
    accepted: Integers

    @classmethod
    def of(cls, runs: int, start: tuple[int, ...]) -> Counts:
        """The same counters in every run."""
        each = np.array(start, dtype=np.int64).reshape(-1, 2)
        return cls(np.tile(each[:, 0], (runs, 1)), np.tile(each[:, 1], (runs, 1)))

    def add(self, group: Integers, counted: Integers | int, decision: Integers) -> None:
        """One individual per run."""
        runs = np.arange(len(group))
        self.seen[runs, group] += counted
        self.accepted[runs, group] += counted * decision

    def part(self, runs: Integers) -> Counts:
        """A copy of some runs."""
        return Counts(self.seen[runs], self.accepted[runs])

    def put(self, runs: Integers, part: Counts) -> None:
        """Take the counters of some runs."""
        self.seen[runs], self.accepted[runs] = part.seen, part.accepted


def is_fair(kept: Property, seen: Integers, accepted: Integers) -> Booleans:
    """Whether every two groups are alike up to kappa, exactly, shape (runs,)."""
    fair = np.ones(len(seen), bool)
    for a, b in combinations(range(seen.shape[1]), 2):
        fair &= kept.fair(seen[:, a], accepted[:, a], seen[:, b], accepted[:, b])
    return fair


def bias(kept: Property, seen: Integers, accepted: Integers) -> Floats:
    """The largest bias between two groups, shape (runs,): ``Property.bias`` for arrays."""
    rate = accepted / np.maximum(seen, 1)
    largest = np.zeros(len(seen))
    for a, b in combinations(range(seen.shape[1]), 2):
        if kept.kind == "disparate_impact":
            high = np.maximum(rate[:, a], rate[:, b])
            low = np.minimum(rate[:, a], rate[:, b])
            between = 1 - np.divide(low, high, out=np.ones_like(low), where=high > 0)
        else:
            between = np.abs(rate[:, a] - rate[:, b])
        small = np.minimum(seen[:, a], seen[:, b]) < kept.empty_group.needed
        largest = np.maximum(largest, np.where(small, 0.0, between))
    return largest
