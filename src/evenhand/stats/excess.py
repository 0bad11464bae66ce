"""What is left of a rate after a model's own noise: an interval for the excess of flips over self-disagreement."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats
from evenhand.stats.level import Interval, as_interval
from evenhand.stats.mean import adjusted_mean_interval
from evenhand.stats.proportion import clopper_pearson, square_and_add


class FlipCounts(NamedTuple):
    """How many people flip, some of them also asked again about themselves; numbers or arrays of them.

    Attributes:
        sample: people who were compared and also asked again about themselves.
        flips: of the sample, whose decision differs between counterparts.
        own: of the sample, whose decision differs between answers to the same row.
        both: of the sample, both.
        others: people who were compared alone.
        others_flips: of them, whose decision differs between counterparts.
    """

    sample: ArrayLike
    flips: ArrayLike
    own: ArrayLike
    both: ArrayLike
    others: ArrayLike
    others_flips: ArrayLike

    @classmethod
    def of(cls, flips: Booleans, own: Booleans) -> FlipCounts:
        """Count flips of all people (n,); the first m of them were asked about again, with these answers (m,)."""
        m = len(own)
        first = flips[:m]
        return cls(m, int(first.sum()), int(own.sum()), int((first & own).sum()), len(flips) - m, int(flips[m:].sum()))


def excess_over_noise(counts: FlipCounts, confidence: float = 0.95) -> tuple[Floats, Interval]:
    """Return the flip rate minus the rate of self-disagreement, and its interval.

    Everybody counts for the flip rate F, the sample alone for the self-disagreement N. With w the sample's share of
    everybody, ``F - N = mean(w C - S) + (1 - w) mean(C')``: over the sample, where both flags C and S of a person are
    known and what they share cancels, and over the others. The two means are independent. The first has Student's t
    with observations added at both ends of its range (``adjusted_mean_interval``), the second Clopper-Pearson
    limits; they are joined by squaring and adding (``square_and_add``).

    Args:
        counts: of people drawn independently; the sample holds one at least.
        confidence: of the interval.

    Returns:
        The excess, from -1 to 1, and its ends.
    """
    sample, flips, own, both, others, others_flips = np.broadcast_arrays(
        *(np.asarray(count, dtype=np.float64) for count in counts)
    )
    share = sample / (sample + others)
    mean = (share * flips - own) / sample
    # The mean square of w C - S, both 0 or 1.
    square = (share**2 * flips - 2 * share * both + own) / sample
    variance = np.maximum(square - mean**2, 0.0) * sample / np.maximum(sample - 1, 1)
    limits = adjusted_mean_interval(mean, variance, sample, confidence, lower=-1.0, upper=share)
    low, high = clopper_pearson(others_flips, others, confidence)
    rest, weight = others_flips / np.maximum(others, 1), np.where(others > 0, 1 - share, 0.0)
    ends = square_and_add(mean, limits, -weight * rest, (-weight * high, -weight * low))
    return np.asarray(mean + weight * rest), as_interval(np.maximum(ends[0], -1.0), np.minimum(ends[1], 1.0))
