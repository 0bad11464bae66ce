"""Flip rates in excess of a model's own noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats
from evenhand.stats.level import Interval, as_interval
from evenhand.stats.mean import adjusted_mean_interval
from evenhand.stats.proportion import Limits, clopper_pearson


class FlipCounts(NamedTuple):
    """Numbers of people whose decision flips, as scalars or arrays.

    Attributes:
        sample: People whose counterparts were compared and whose own row was also repeated.
        flips: Sample members whose decision differs between counterparts.
        own: Sample members whose decision differs between answers to the same row.
        both: Sample members that are counted in both ``flips`` and ``own``.
        others: People whose counterparts were compared, without repetition.
        others_flips: People among ``others`` whose decision differs between counterparts.
    """

    sample: ArrayLike
    flips: ArrayLike
    own: ArrayLike
    both: ArrayLike
    others: ArrayLike
    others_flips: ArrayLike

    @classmethod
    def of(cls, flips: Booleans, own: Booleans) -> FlipCounts:
        """Count flips.

        Args:
            flips: Whether the decision differs between counterparts, shape (n,).
            own: Whether the decision differs between answers to the same row, for the first m people, shape (m,).
        """
        m = len(own)
        sample = flips[:m]
        return cls(
            m, int(sample.sum()), int(own.sum()), int((sample & own).sum()), len(flips) - m, int(flips[m:].sum())
        )


def excess_over_noise(counts: FlipCounts, confidence: float = 0.95) -> tuple[Floats, Interval]:
    """Compute the flip rate minus the rate of self-disagreement, and its confidence interval.

    The flip rate F is estimated from all people, the self-disagreement N from the sample only. With w the sample's
    share of all people, ``F - N = mean(w C - S) + (1 - w) mean(C')``. The first mean is over the sample, where the
    flags C and S of each person are both known, so their common part cancels; the second is over the others. The two
    means are independent. The first has an interval by Student's t with observations added at both ends of the range
    (``adjusted_mean_interval``), the second has Clopper-Pearson limits, and ``Limits.minus`` combines them.

    Args:
        counts: Counts of independently drawn people, with at least one person in the sample.
        confidence: Confidence level.

    Returns:
        The excess, between -1 and 1, and its interval.
    """
    sample, flips, own, both, others, others_flips = np.broadcast_arrays(
        *(np.asarray(count, dtype=np.float64) for count in counts)
    )
    share = sample / (sample + others)
    mean = (share * flips - own) / sample
    # Mean square of w C - S, where C and S are 0 or 1.
    square = (share**2 * flips - 2 * share * both + own) / sample
    variance = np.maximum(square - mean**2, 0.0) * sample / np.maximum(sample - 1, 1)
    limits = adjusted_mean_interval(mean, variance, sample, confidence, lower=-1.0, upper=share)
    low, high = clopper_pearson(others_flips, others, confidence)
    others_rate, weight = others_flips / np.maximum(others, 1), np.where(others > 0, 1 - share, 0.0)
    ends = Limits(mean, *limits).minus(Limits(-weight * others_rate, -weight * high, -weight * low))
    return np.asarray(mean + weight * others_rate), as_interval(np.maximum(ends[0], -1.0), np.minimum(ends[1], 1.0))
