"""THEMIS: random testing until the causal discrimination score is known well enough.

Source: Galhotra, Brun and Meliou, "Fairness testing: testing software for discrimination" (ESEC/FSE 2017).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.findings import Findings
from evenhand.individual.search.methods import Options
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import Space

Floats: TypeAlias = NDArray[np.float64]

MARGIN = 0.01
"""Half the width of the score's interval at which sampling stops."""

QUANTILE = 2.5758293035489004
"""Of the normal distribution, for an interval of 99 % confidence."""

BATCH = 256
FEWEST = 512


def search(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """Ask about admissible profiles drawn uniformly until the score's normal interval is at most a percent each way.

    The score is looked at again and again, so its interval is no statement; the violation rates are.
    """
    flips = n = 0
    while True:
        rows = space.uniform(BATCH, rng)
        flips += int(oracle.ask(rows).flips.sum())
        n += len(rows)
        share = flips / max(n, 1)
        if len(rows) == 0 or (n >= FEWEST and QUANTILE * math.sqrt(share * (1 - share) / n) <= MARGIN):
            return
