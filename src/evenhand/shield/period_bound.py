"""The bias that a period cannot exceed with everything before it, from what its own end promises.

A period whose end keeps the rates of the groups close may still move the bias of all periods together, as the groups
weigh differently in it than before (Simpson's paradox; Cano et al., Example 5). How far is a maximum over who comes:
for fixed numbers of each group the bias of all is the absolute value of a linear function of the two rates of the
period, or a ratio of two, so that the largest lies in a corner of the rates that the end allows. This is the bound
kappa + TV * spread, with the total variation TV between the groups' weights over past and period, at its best.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.periodic import Period
from evenhand.shield.plan import Counters
from evenhand.shield.properties import Property
from evenhand.shield.terminal import Fair, WithinBounds

SLACK = Fraction(1, 10**9)
"""Added to what was computed in floating point, far more than its errors."""

Corners = list[tuple[float, float]]


def period_bound(period: Period, kept: Property, past: Counters, horizon: int) -> Fraction:
    """The bias at the end of the period is at most that, whoever comes.

    Args:
        period: with the end that its policy keeps.
        kept: the property, over the past and the period.
        past: seen and accepted of each group before.
        horizon: of the period.
    """
    n_a, n_b = (counts.reshape(-1) for counts in np.indices((horizon + 1, horizon + 1)))
    possible = n_a + n_b <= horizon if kept.labelled else n_a + n_b == horizon
    n_a, n_b = n_a[possible], n_b[possible]
    free = np.ones(len(n_a), dtype=bool)
    corners: Corners = []
    end = period.end
    if isinstance(end, Fair) and not any(end.start):
        kappa = float(kept.kappa)
        free = np.minimum(n_a, n_b) < max(kept.empty_group.needed, 1)
        if kept.kind == "disparate_impact":
            corners = [(1, 1 - kappa), (1 - kappa, 1), (0, 0), (1, 1)]
        else:
            corners = [(kappa, 0), (0, kappa), (1, 1 - kappa), (1 - kappa, 1), (0, 0), (1, 1)]
    elif isinstance(end, WithinBounds):
        lower, upper = float(end.lower), float(end.upper)
        free = np.minimum(n_a, n_b) < end.at_least
        corners = [(lower, upper), (upper, lower), (lower, lower), (upper, upper)]
    worst = max(
        _worst(kept, past, n_a[~free], n_b[~free], corners),
        _worst(kept, past, n_a[free], n_b[free], [(0, 1), (1, 0), (0, 0), (1, 1)]),
    )
    return min(Fraction(worst) + SLACK, Fraction(1))


def _worst(kept: Property, past: Counters, n_a: NDArray[np.int64], n_b: NDArray[np.int64], corners: Corners) -> float:
    seen_a, past_a, seen_b, past_b = past
    judged = np.minimum(n_a + seen_a, n_b + seen_b) >= kept.empty_group.needed
    n_a, n_b = n_a[judged], n_b[judged]
    if not len(n_a):
        return 0.0
    worst = 0.0
    for x, y in corners:
        rate_a = (past_a + n_a * x) / np.maximum(seen_a + n_a, 1)
        rate_b = (past_b + n_b * y) / np.maximum(seen_b + n_b, 1)
        if kept.kind == "disparate_impact":
            larger = np.maximum(rate_a, rate_b)
            bias = np.where(larger > 0, 1 - np.minimum(rate_a, rate_b) / np.where(larger > 0, larger, 1), 0)
        else:
            bias = np.abs(rate_a - rate_b)
        worst = max(worst, float(bias.max()))
    return worst
