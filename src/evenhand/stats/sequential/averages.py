"""Intervals for averages of bounded outcomes whose expectation may drift, valid at every moment at once.

Where x_i is at least g_i - 1, for a guess g_i that is made before it, and its expectation given the past may drift,

    exp(L sum(x_i - E[x_i | past]) - psi(L) sum((x_i - g_i)^2)),    psi(L) = -log(1 - L) - L,  0 <= L < 1,

is a supermartingale that starts with 1, as log(1 + L y) >= L y - psi(L) y^2 for all y >= -1 (Howard, Ramdas, McAuliffe
and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 2021, theorem 4). So
is a mixture over several L, and by Ville's inequality it ever reaches 1/a with probability a at most. How far the sum
of outcomes may be from the sum of their expectations then follows from that sum of squares alone.
"""

from __future__ import annotations

import numpy as np

from evenhand.typing import Floats

RATES = 0.9 * 2.0 ** -np.arange(14)
"""The values of L in the mixture: near 1 for the first few outcomes, small for millions of them."""
_PSI = -np.log1p(-RATES) - RATES
_LOG_PART = -float(np.log(len(RATES)))
_HALVINGS = 60


def log_evidence(sums: Floats, squares: Floats) -> Floats:
    """Return the logarithm of the evidence that a sum of outcomes is above the sum of their expectations.

    Args:
        sums: outcomes less their supposed expectations, summed, any shape.
        squares: sums of ``(x_i - g_i)^2``, of the same shape; no outcome is below its guess by more than 1.

    Returns:
        If the supposition is right, the evidence is ever ``1/a`` or more with probability a at most.
    """
    logs = RATES * np.asarray(sums)[..., None] - _PSI * np.asarray(squares)[..., None] + _LOG_PART
    top = logs.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))


def largest_deviation(squares: Floats, log_threshold: float) -> Floats:
    """Bound how far a sum of outcomes is above, or below, the sum of their expectations, at all moments together.

    Args:
        squares: as for ``log_evidence``.
        log_threshold: log(1/a) for a probability a of ever exceeding the bound.
    """
    squares = np.asarray(squares, dtype=np.float64)
    # At this place one part of the mixture reaches the threshold alone.
    high = ((log_threshold - _LOG_PART + _PSI * squares[..., None]) / RATES).min(axis=-1)
    low = np.zeros_like(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = log_evidence(middle, squares) >= log_threshold
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.asarray(high)
