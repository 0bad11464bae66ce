"""Tails of a sum that is not yet normal: few people, or an outcome that hardly anybody has."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenhand.stats.level import Floats

FAR = 3.5
"""Standard deviations at which the tails are made alike: about where the largest of some thousand gaps lies."""


def group_skewness(n: ArrayLike, people: ArrayLike, skewness: ArrayLike) -> Floats:
    """Skewness of the sum of a group's values when all values are dealt out at random among the people.

    ``g (N - 2n) sqrt(N - 1) / ((N - 2) sqrt(n (N - n)))`` where g is the skewness of the values (third central moment
    over the cubed standard deviation, both with divisor N); for 0/1 values that of the hypergeometric distribution.
    0 where chance leaves no room.

    Args:
        n, people, skewness: size of the group, of everybody, and g; arrays that broadcast.
    """
    n, people, skewness = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in (n, people, skewness)))
    room = (people > 2) & (n > 0) & (n < people)
    bottom = (people - 2) * np.sqrt(np.maximum(n * (people - n), 0.0))
    top = skewness * (people - 2 * n) * np.sqrt(np.maximum(people - 1, 0.0))
    return np.asarray(np.divide(top, bottom, out=np.zeros(n.shape), where=room))


def tail_scales(skewness: ArrayLike) -> tuple[Floats, Floats]:
    """By what to multiply a standardised sum above and below its mean, so that both tails are as a normal one's.

    A skewed sum lies ``FAR + s`` deviations above its mean as rarely as a normal one lies ``FAR`` above, with
    ``s = g (FAR^2 - 1) / 6`` to first order (Cornish & Fisher, "Moments and cumulants in the specification of
    distributions", Revue de l'Institut International de Statistique 1938), and ``FAR - s`` below. So without this,
    the largest of many standardised gaps is that of some small group in which three people had the rare outcome where
    0.3 were expected, and hides the gaps of all others.

    Returns:
        (above, below), the shape of ``skewness``; 1 where there is none. The widening is cut off where s nears FAR.
    """
    shift = np.asarray(skewness, dtype=np.float64) * (FAR**2 - 1) / 6
    return np.asarray(FAR / np.maximum(FAR + shift, 1.0)), np.asarray(FAR / np.maximum(FAR - shift, 1.0))
