"""Contingency tables: tests of two rates, what strata say together, and the agreement of grades.

A two by two table is ``k`` of ``n`` selected in a category, ``k_r`` of ``n_r`` in the reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.stats.level import normal_quantile, student_quantile
from evenhand.stats.proportion import zero_count_upper
from evenhand.stats.quantity import Observed, Unknown

NEAR = 1e-9
"""Tables whose probabilities differ by less, relatively, are compared in integers."""

LEAST = 1e-300
"""Of the likeliest table's probability; one that is less likely has a p-value of 0."""


class TwoRates(NamedTuple):
    """Selected and all people of a category, then of the reference."""

    k: int
    n: int
    k_r: int
    n_r: int


class StratifiedOdds(NamedTuple):
    """A category against the reference within strata; None where the strata do not say.

    Attributes:
        strata: all of them; informative: those with both sides, not all decided alike.
        odds_ratio, odds_low, odds_high: Mantel and Haenszel's, with its 95 % interval.
        rate_ratio: Mantel and Haenszel's.
        z, p: their test without continuity correction; negative where the category is selected less.
        homogeneity, homogeneity_df, homogeneity_p: Breslow and Day's test of equal odds ratios, as Tarone corrects it.
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
    """Return the two-sided p-value of Fisher's exact test: the tables that are not likelier than the one seen.

    Given the margins, ``k`` is hypergeometric: ``P(x) = C(n, x) C(n_r, m - x) / C(n + n_r, m)`` with ``m = k + k_r``
    (Fisher, "The logic of inductive inference", Journal of the Royal Statistical Society 1935). Whether a table is
    likelier than the one seen is decided in integers, so that ties are ties. The probabilities are multiplied up from
    the likeliest table; those below 1e-300 of it are left out, as Hoeffding's inequality bounds them, and count as 0.
    """
    k, n, _, n_r = table
    m = table.k + table.k_r
    low, high = max(0, m - n_r), min(n, m)
    mode = min(max((n + 1) * (m + 1) // (n + n_r + 2), low), high)
    # P(|x - mean| > t) <= exp(-2 t^2 / s) with s draws or, by symmetry, s people of one side.
    reach = 20 * math.isqrt(min(n, n_r, m, n + n_r - m) + 1) + 20
    first, last = max(low, mode - reach), min(high, mode + reach)
    up = np.arange(mode, last, dtype=np.float64)
    down = np.arange(mode, first, -1, dtype=np.float64)
    # P(x + 1) / P(x) = (n - x)(m - x) / ((x + 1)(n_r - m + x + 1))
    rising = np.cumprod((n - up) * (m - up) / ((up + 1) * (n_r - m + up + 1)))
    falling = np.cumprod(down * (n_r - m + down) / ((n - down + 1) * (m - down + 1)))
    weights = np.concatenate([falling[::-1], [1.0], rising])
    seen = float(weights[k - first]) if first <= k <= last else 0.0
    if seen < LEAST:
        return 0.0
    counted = weights <= seen * (1 - NEAR)
    for i in np.flatnonzero(np.abs(weights - seen) <= seen * NEAR):
        counted[i] = _is_not_likelier(first + int(i), table)
    return min(1.0, float(weights[counted].sum() / weights.sum()))


def _is_not_likelier(x: int, table: TwoRates) -> bool:
    """Return whether ``P(x) <= P(k)``, in integers: the products of all steps from the smaller to the larger."""
    k, n, k_r, n_r = table
    m, low = k + k_r, min(k, x)
    steps = abs(x - k)
    grows = math.perm(n - low, steps) * math.perm(m - low, steps)
    shrinks = math.perm(low + steps, steps) * math.perm(n_r - m + low + steps, steps)
    return grows <= shrinks if x >= k else grows >= shrinks


def pooled_z(table: TwoRates) -> float | None:
    """Return ``(k/n - k_r/n_r) / sqrt(p (1 - p) (1/n + 1/n_r))``, p pooled; None if all are decided alike."""
    k, n, k_r, n_r = table
    people, selected = n + n_r, k + k_r
    if not 0 < selected < people:
        return None
    # The numerator and the variance are whole numbers, up to the root.
    difference = k * n_r - k_r * n
    return difference / math.sqrt(selected * (people - selected) * n * n_r / people)


def mantel_haenszel(tables: Sequence[TwoRates]) -> StratifiedOdds:
    """Compare a category with the reference within strata.

    Sources: Mantel and Haenszel, Journal of the National Cancer Institute 1959 (odds ratio, test); Robins, Breslow and
    Greenland, Biometrics 1986 (interval); Greenland and Robins, Biometrics 1985 (rate ratio); Breslow and Day,
    "Statistical Methods in Cancer Research" I, 1980, with Tarone, Biometrika 1985 (homogeneity).
    """
    both = [one for one in tables if one.n and one.n_r]
    used = [one for one in both if 0 < one.k + one.k_r < one.n + one.n_r]
    # Strata where all are selected say nothing about odds, but they do about rates: theirs are equal.
    low_rate = math.fsum(one.k_r * one.n / (one.n + one.n_r) for one in both)
    high_rate = math.fsum(one.k * one.n_r / (one.n + one.n_r) for one in both)
    rate_ratio = high_rate / low_rate if low_rate else None
    if not used:
        return StratifiedOdds(len(tables), 0, rate_ratio=rate_ratio)
    k, n, k_r, n_r = np.array(used, dtype=np.float64).T
    people, selected = n + n_r, k + k_r
    r, s = k * (n_r - k_r) / people, (n - k) * k_r / people
    excess = float((k - n * selected / people).sum())
    # A stratum that is informative has two people or more.
    z = excess / math.sqrt(float((n * n_r * selected * (people - selected) / (people**2 * (people - 1))).sum()))
    p_value = math.erfc(abs(z) / math.sqrt(2))
    found = StratifiedOdds(len(tables), len(used), rate_ratio=rate_ratio, z=z, p=p_value)
    total_r, total_s = float(r.sum()), float(s.sum())
    if not total_s:
        return found
    odds = total_r / total_s
    found = found._replace(odds_ratio=odds)
    if not total_r:
        return found
    p = (k + n_r - k_r) / people
    variance = (
        (p * r).sum() / (2 * total_r**2)
        + (p * s + (1 - p) * r).sum() / (2 * total_r * total_s)
        + ((1 - p) * s).sum() / (2 * total_s**2)
    )
    half = normal_quantile(0.95) * math.sqrt(float(variance))
    found = found._replace(odds_low=odds * math.exp(-half), odds_high=odds * math.exp(half))
    if len(used) < 2:
        return found
    statistic, freedom, tail = _homogeneity(np.array(used, dtype=np.float64), odds)
    return found._replace(homogeneity=statistic, homogeneity_df=freedom, homogeneity_p=tail)


def _homogeneity(tables: Floats, odds: float) -> tuple[float, int, float]:
    """Return Breslow and Day's statistic with Tarone's correction, its degrees of freedom and its p-value.

    In each stratum, x is the number selected in the category if its odds ratio were the common one:
    ``x (n_r - m + x) = odds (n - x)(m - x)``.
    """
    from scipy.special import gammaincc

    k, n, k_r, n_r = tables.T
    m = k + k_r
    # (1 - odds) x^2 + (n_r - m + odds (n + m)) x - odds n m = 0; this form of the root is stable, also at odds 1.
    b, c = n_r - m + odds * (n + m), odds * n * m
    x = 2 * c / (b + np.sqrt(np.maximum(b * b + 4 * (1 - odds) * c, 0.0)))
    variance = 1 / (1 / x + 1 / (n - x) + 1 / (m - x) + 1 / (n_r - m + x))
    statistic = float(((k - x) ** 2 / variance).sum() - (k - x).sum() ** 2 / variance.sum())
    freedom = len(tables) - 1
    return statistic, freedom, float(gammaincc(freedom / 2, max(statistic, 0.0) / 2))


def weighted_kappa(table: Integers, confidence: float = 0.95) -> Observed | Unknown:
    r"""Return the quadratic weighted kappa of two gradings, with its interval.

    ``kappa = 1 - D / E`` with D the mean squared distance in grades of a person's two grades, and E what it would be if
    the two were independent with the same margins (Cohen, "Weighted kappa", Psychological Bulletin 1968): 1 if all
    agree, 0 if as often as by chance. The interval is that of ``log(D / E)``, with the variance of the ratio by the
    delta method (Fleiss, Cohen & Everitt, "Large sample standard errors of kappa and weighted kappa", Psychological
    Bulletin 1969), so that no end is above 1. Where all agree, the lower end takes the share who might not to be at
    most its exact upper bound, and all of these to be graded as far apart as possible. Assumes independent people.

    Args:
        table: people by first and second grade, shape (grades, grades).
        confidence: of the interval.

    Returns:
        Unknown without people, or if everybody has the same grade in both.
    """
    n, grades = int(table.sum()), np.arange(len(table))
    if n == 0:
        return Unknown(reason="there are no people here")
    p, apart = table / n, (grades[:, None] - grades) ** 2.0
    # How far a person of each first (second) grade would be from the second (first) grades, if independent.
    rows, columns = apart @ p.sum(axis=0), apart @ p.sum(axis=1)
    observed, expected = float((p * apart).sum()), float(p.sum(axis=1) @ rows)
    if expected == 0:
        return Unknown(reason="everybody here has the same grade in both")
    ratio = observed / expected
    if observed == 0:
        low, high = 1 - float(zero_count_upper(n, confidence)) * float(apart.max()) / expected, 1.0
    else:
        influence = (apart - ratio * (rows[:, None] + columns)) / expected
        spread = float((p * influence**2).sum() - (p * influence).sum() ** 2)
        reach = float(student_quantile(confidence, max(n - 1, 1))) * math.sqrt(max(spread, 0.0) / n) / ratio
        low, high = 1 - ratio * math.exp(min(reach, 700.0)), 1 - ratio * math.exp(-reach)
    method = "delta method of the logarithm of disagreement over chance (Fleiss, Cohen and Everitt)"
    return Observed(value=1 - ratio, n=n, low=max(-1.0, low), high=high, confidence=confidence, method=method)
