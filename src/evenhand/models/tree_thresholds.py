"""How each library compares a number with a threshold, brought to one form: ``number <= threshold`` in float64.

Rounding to float32 never changes the order of two numbers, so the numbers that a float32 comparison sends left are
all float64 numbers up to one largest: comparing with that one gives the same branch for every number.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def strictly_below_float32(thresholds: NDArray[np.float32]) -> Floats:
    """Thresholds for ``float32(x) < t`` (XGBoost): the largest float64 x for which it holds."""
    return _largest_rounding_to(_neighbour(thresholds.astype(np.float32), -np.inf))


def at_most_float32(thresholds: Floats) -> Floats:
    """Thresholds for ``float32(x) <= t`` with t in float64 (scikit-learn): the largest float64 x for which it holds."""
    with np.errstate(over="ignore"):  # beyond float32 lies infinity
        nearest = thresholds.astype(np.float32)
    below = _neighbour(nearest, -np.inf)
    return _largest_rounding_to(np.where(nearest.astype(np.float64) > thresholds, below, nearest))


def _neighbour(numbers: NDArray[np.float32], towards: float) -> NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.nextafter(numbers, np.float32(towards)))


def _largest_rounding_to(limits: NDArray[np.float32]) -> Floats:
    """The largest float64 whose float32 rounding is at most each limit."""
    above = _neighbour(limits, np.inf)
    # Two neighbours in float32 have their middle in float64 exactly; infinity rounds as if it were 2 ** 128.
    bound = 2.0**128
    middle = (
        np.clip(limits.astype(np.float64), -bound, bound) / 2 + np.clip(above.astype(np.float64), -bound, bound) / 2
    )
    # The middle itself rounds to the neighbour whose last bit is 0.
    even = (limits.view(np.uint32) & 1) == 0
    largest = np.where(even, middle, np.nextafter(middle, -np.inf))
    return np.where(limits == np.inf, np.inf, largest)
