"""What an end is worth: 0 where it is allowed, infinite where it is forbidden, or a price.

Any object with `values` is a terminal. Sets whose counts ``b`` form an interval given the others (a `Band`) are checked
faster, and at every time if need be.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.plan import Counters, Plan
from evenhand.shield.properties import Property

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Terminal(Protocol):
    """The value of every pair of counts of accepted at a check."""

    def values(self, n_a: int, n_b: int) -> Floats:
        """Shape (n_a + 1, n_b + 1) by accepted of each group; infinite: forbidden."""
        ...


@runtime_checkable
class Band(Terminal, Protocol):
    """A terminal that is 0 on intervals and infinite beside them."""

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Ints, Ints]:
        """Integer arrays (broadcast): the counts ``b`` from low to high are allowed, none if low > high."""
        ...


class _Banded:
    """Values of a terminal that is a band."""

    def values(self: Band, n_a: int, n_b: int) -> Floats:
        low, high = self.band(n_a, np.arange(n_a + 1), n_b)
        b = np.arange(n_b + 1)
        return np.where((low[:, None] <= b) & (b <= high[:, None]), 0.0, np.inf)


@dataclass(frozen=True)
class Fair(_Banded):
    """The property holds, with what was counted before.

    Attributes:
        property: what must hold.
        start: counters carried over (n_a, a, n_b, b).
    """

    property: Property
    start: Counters = (0, 0, 0, 0)

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Ints, Ints]:
        seen_a, past_a, seen_b, past_b = self.start
        n_a, a, n_b = (np.asarray(counts, dtype=np.int64) for counts in (n_a, a, n_b))
        low, high = self.property.band(n_a + seen_a, a + past_a, n_b + seen_b)
        return np.maximum(low - past_b, 0), np.minimum(high - past_b, n_b)


@dataclass(frozen=True)
class WithinBounds(_Banded):
    """Both welfares lie between the bounds, unless a group has fewer than ``at_least`` (Static-BW, Definition 5).

    Attributes:
        lower, upper: bounds of the welfare, exact.
        at_least: smaller groups (in either of the two) make every end allowed.
        start: counters carried over.
    """

    lower: Fraction
    upper: Fraction
    at_least: int
    start: Counters = (0, 0, 0, 0)

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Ints, Ints]:
        seen_a, past_a, seen_b, past_b = self.start
        n_a, a, n_b = (np.asarray(counts, dtype=np.int64) for counts in (n_a, a, n_b))
        n, m, k = n_a + seen_a, n_b + seen_b, a + past_a
        lower, upper = self.lower, self.upper
        inside = (lower.numerator * n <= k * lower.denominator) & (k * upper.denominator <= upper.numerator * n)
        low = -(-lower.numerator * m // lower.denominator) - past_b
        high = upper.numerator * m // upper.denominator - past_b
        small = np.minimum(n, m) < self.at_least
        low = np.where(small, 0, np.where(inside, np.maximum(low, 0), 1))
        high = np.where(small, n_b, np.where(inside, np.minimum(high, n_b), 0))
        return low, high


def terminal_of(plan: Plan) -> Terminal:
    """What a plan's checks are worth, over two groups."""
    return Fair(plan.property, plan.start)
