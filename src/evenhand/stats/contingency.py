"""Contingency tables: tests of two rates, stratified odds ratios, and weighted kappa.

In a two-by-two table, ``k`` of ``n`` people are selected in a category, and ``k_r`` of ``n_r`` in the reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats
from evenhand.stats.level import normal_quantile

NEAR = 1e-9
"""Relative difference of probabilities below which tables are compared in integers."""

MIN_PROBABILITY = 1e-300
"""Probability, relative to the most likely table, below which the p-value is 0."""


class TwoRates(NamedTuple):
    """Numbers of selected people and of all people, in a category and in the reference."""

    k: int
    n: int
    k_r: int
    n_r: int


class StratifiedOdds(NamedTuple):
    """Stratified comparison of a category with the reference. Undefined quantities are None.

    Attributes:
        strata: Number of strata.
        informative: Number of strata that contain both sides and both decisions.
        odds_ratio, odds_low, odds_high: Mantel-Haenszel odds ratio and its 95 % interval.
        rate_ratio: Mantel-Haenszel rate ratio.
        z, p: Mantel-Haenszel test without continuity correction; z is negative if the category is selected less often.
        homogeneity, homogeneity_df, homogeneity_p: Breslow-Day test of equal odds ratios with Tarone's correction.
    """

    strata: int
    informative: int
    odds_ratio: float | None = None
    odds_low: float | None = None
    odds_high: float | None = None
    rate_ratio: float | None = None
    z: float | None = None
    p: float | None = None
    homogeneity: float | None = None
    homogeneity_df: int | None = None
    homogeneity_p: float | None = None


def fisher_exact(table: TwoRates) -> float:
    """Compute the two-sided p-value of Fisher's exact test: the total probability of all tables at most as likely as
    the observed one.

    Given the margins, ``k`` is hypergeometric: ``P(x) = C(n, x) C(n_r, m - x) / C(n + n_r, m)`` with ``m = k + k_r``
    (Fisher, "The logic of inductive inference", Journal of the Royal Statistical Society 1935). Close probabilities are
    compared in integers, so that ties are recognised. The recursion starts at the most likely table.
    Tables whose relative probability is below 1e-300 by Hoeffding's inequality count as 0.
    """
    k, n, _, n_r = table
    m = table.k + table.k_r
    low, high = max(0, m - n_r), min(n, m)
    mode = min(max((n + 1) * (m + 1) // (n + n_r + 2), low), high)
    # P(|x - mean| > t) <= exp(-2 t^2 / s) with s draws or, by symmetry, s people on one side.
    reach = 20 * math.isqrt(min(n, n_r, m, n + n_r - m) + 1) + 20
    start, stop = max(low, mode - reach), min(high, mode + reach)
    up = np.arange(mode, stop, dtype=np.float64)
    down = np.arange(mode, start, -1, dtype=np.float64)
    # P(x + 1) / P(x) = (n - x)(m - x) / ((x + 1)(n_r - m + x + 1))
    rising = np.cumprod((n - up) * (m - up) / ((up + 1) * (n_r - m + up + 1)))
    falling = np.cumprod(down * (n_r - m + down) / ((n - down + 1) * (m - down + 1)))
    weights = np.concatenate([falling[::-1], [1.0], rising])
    observed = float(weights[k - start]) if start <= k <= stop else 0.0
    if observed < MIN_PROBABILITY:
        return 0.0
    counted = weights <= observed * (1 - NEAR)
    for i in np.flatnonzero(np.abs(weights - observed) <= observed * NEAR):
        counted[i] = _is_at_most_as_likely(start + int(i), table)
    return min(1.0, float(weights[counted].sum() / weights.sum()))


def _is_at_most_as_likely(x: int, table: TwoRates) -> bool:
    """Check whether ``P(x) <= P(k)`` by comparing integer products over the steps between x and k."""
    k, n, k_r, n_r = table
    m, low = k + k_r, min(k, x)
    steps = abs(x - k)
    grows = math.perm(n - low, steps) * math.perm(m - low, steps)
    shrinks = math.perm(low + steps, steps) * math.perm(n_r - m + low + steps, steps)
    return grows <= shrinks if x >= k else grows >= shrinks


def pooled_z(table: TwoRates) -> float | None:
    """Compute ``(k/n - k_r/n_r) / sqrt(p (1 - p) (1/n + 1/n_r))`` with the pooled rate p; None if p is 0 or 1."""
    k, n, k_r, n_r = table
    people, selected = n + n_r, k + k_r
    if not 0 < selected < people:
        return None
    # The numerator and the products under the root are exact integers.
    difference = k * n_r - k_r * n
    return difference / math.sqrt(selected * (people - selected) * n * n_r / people)


def mantel_haenszel(tables: Sequence[TwoRates]) -> StratifiedOdds:
    """Compare a category with the reference within strata.

    Sources: Mantel and Haenszel, Journal of the National Cancer Institute 1959 (odds ratio, test); Robins, Breslow and
    Greenland, Biometrics 1986 (interval); Greenland and Robins, Biometrics 1985 (rate ratio); Breslow and Day,
    "Statistical Methods in Cancer Research" I, 1980, with Tarone, Biometrika 1985 (homogeneity).
    """
    two_sided = [table for table in tables if table.n and table.n_r]
    used = [table for table in two_sided if 0 < table.k + table.k_r < table.n + table.n_r]
    # If all people of a stratum are selected, it is uninformative about odds but shows equal rates.
    denominator = math.fsum(table.k_r * table.n / (table.n + table.n_r) for table in two_sided)
    numerator = math.fsum(table.k * table.n_r / (table.n + table.n_r) for table in two_sided)
    rate_ratio = numerator / denominator if denominator else None
    if not used:
        return StratifiedOdds(len(tables), 0, rate_ratio=rate_ratio)
    k, n, k_r, n_r = np.array(used, dtype=np.float64).T
    people, selected = n + n_r, k + k_r
    r, s = k * (n_r - k_r) / people, (n - k) * k_r / people
    excess = float((k - n * selected / people).sum())
    # An informative stratum has at least two people.
    z = excess / math.sqrt(float((n * n_r * selected * (people - selected) / (people**2 * (people - 1))).sum()))
    p_value = math.erfc(abs(z) / math.sqrt(2))
    result = StratifiedOdds(len(tables), len(used), rate_ratio=rate_ratio, z=z, p=p_value)
    total_r, total_s = float(r.sum()), float(s.sum())
    if not total_s:
        return result
    odds = total_r / total_s
    result = result._replace(odds_ratio=odds)
    if not total_r:
        return result
    p = (k + n_r - k_r) / people
    variance = (
        (p * r).sum() / (2 * total_r**2)
        + (p * s + (1 - p) * r).sum() / (2 * total_r * total_s)
        + ((1 - p) * s).sum() / (2 * total_s**2)
    )
    half = normal_quantile(0.95) * math.sqrt(float(variance))
    result = result._replace(odds_low=odds * math.exp(-half), odds_high=odds * math.exp(half))
    if len(used) < 2:
        return result
    statistic, freedom, tail = _test_homogeneity(np.array(used, dtype=np.float64), odds)
    return result._replace(homogeneity=statistic, homogeneity_df=freedom, homogeneity_p=tail)


def _test_homogeneity(tables: Floats, odds: float) -> tuple[float, int, float]:
    """Compute the Breslow-Day statistic with Tarone's correction, its degrees of freedom and its p-value.

    In each stratum, x is the expected number of selected people in the category under the common odds ratio:
    ``x (n_r - m + x) = odds (n - x)(m - x)``.
    """
    from scipy.special import gammaincc

    k, n, k_r, n_r = tables.T
    m = k + k_r
    # (1 - odds) x^2 + (n_r - m + odds (n + m)) x - odds n m = 0; this form of the root is stable even for odds = 1.
    b, c = n_r - m + odds * (n + m), odds * n * m
    x = 2 * c / (b + np.sqrt(np.maximum(b * b + 4 * (1 - odds) * c, 0.0)))
    variance = 1 / (1 / x + 1 / (n - x) + 1 / (m - x) + 1 / (n_r - m + x))
    statistic = float(((k - x) ** 2 / variance).sum() - (k - x).sum() ** 2 / variance.sum())
    freedom = len(tables) - 1
    return statistic, freedom, float(gammaincc(freedom / 2, max(statistic, 0.0) / 2))
