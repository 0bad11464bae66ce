"""The false discovery rate: among the groups reported, how many are there by chance.

Weaker than family-wise control, which allows not one, and more powerful where much is to be found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenhand.errors import OptionError
from evenhand.stats.level import Floats, normal_share, tail


def benjamini_yekutieli(p: ArrayLike) -> Floats:
    """Adjusted p: reporting the groups at or below a level keeps the expected false share at or below that level.

    ``min over j >= i of p_(j) m c / j`` with ``c = 1 + 1/2 + ... + 1/m``, at most 1 (Benjamini & Yekutieli, "The
    control of the false discovery rate in multiple testing under dependency", Annals of Statistics 2001, theorem 1.3):
    valid whatever the dependence between groups, which overlap here.

    Args:
        p: p values of all the groups that were looked at, shape (m,).
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p)
    scaled = p[order] * _inflation(len(p)) * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def false_coverage_confidence(reported: int, tested: int, confidence: float = 0.95) -> float:
    """The level for the interval of each reported group, so that at most ``1 - confidence`` of them miss on average.

    ``1 - (1 - confidence) R / (m c)``, c as in ``benjamini_yekutieli``: for R of m groups reported by that procedure
    the expected share of intervals that miss is controlled whatever the dependence (Benjamini & Yekutieli, "False
    discovery rate-adjusted multiple confidence intervals for selected parameters", JASA 2005, theorem 4).
    """
    if not 0 <= reported <= tested or tested < 1:
        raise OptionError(f"{reported} of {tested} groups cannot have been reported")
    return 1 - 2 * tail(confidence) * max(reported, 1) / (tested * _inflation(tested))


def normal_p(z: ArrayLike) -> Floats:
    """The two-sided p of a standard normal z."""
    return np.asarray(2 * normal_share(-np.abs(np.asarray(z, dtype=np.float64))))


def _inflation(tests: int) -> float:
    return float((1 / np.arange(1, tests + 1)).sum())
