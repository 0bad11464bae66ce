"""Methods that do not learn from the answers: random sampling and THEMIS."""

from __future__ import annotations

import math

import numpy as np

from evenhand.core.typing import Floats
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.oracle import Oracle

BATCH = 16_384
"""Number of profiles drawn at a time."""

MARGIN = 0.01
"""Half-width of the score's interval at which THEMIS stops."""

QUANTILE = 2.5758293035489004
"""Normal quantile of an interval with 99 % confidence."""

THEMIS_BATCH = 256
"""Number of profiles that THEMIS draws at a time."""

MIN_SAMPLE = 512
"""Minimum sample size of THEMIS."""


def sample_uniformly(oracle: Oracle, seeds: Floats, rng: np.random.Generator, config: SearchConfig) -> None:
    """Query as many random profiles as the other methods: ``local`` for every seed."""
    left = len(seeds) * max(1, config.local)
    while left > 0:
        rows = oracle.space.uniform(min(left, BATCH), rng)
        if len(rows) == 0:
            return
        left -= len(rows)
        oracle.ask(rows)


def sample_until_known(oracle: Oracle, seeds: Floats, rng: np.random.Generator, config: SearchConfig) -> None:
    """Query uniform admissible profiles until the half-width of the score's normal interval is at most one point.

    THEMIS (Galhotra, Brun and Meliou, "Fairness testing: testing software for discrimination", ESEC/FSE 2017). The
    score is checked repeatedly, so its interval has no guaranteed coverage, unlike the intervals of the flip
    rates.
    """
    flips = n = 0
    while True:
        rows = oracle.space.uniform(THEMIS_BATCH, rng)
        flips += int(oracle.ask(rows).flips.sum())
        n += len(rows)
        share = flips / max(n, 1)
        if len(rows) == 0 or (n >= MIN_SAMPLE and QUANTILE * math.sqrt(share * (1 - share) / n) <= MARGIN):
            return
