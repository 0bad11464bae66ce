"""Random testing: admissible profiles drawn uniformly from the domain."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.findings import Findings
from evenhand.individual.search.methods import Options
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import Space

Floats: TypeAlias = NDArray[np.float64]

BATCH = 16_384
"""Profiles drawn at a time."""


def search(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """Ask about as many profiles as the other methods would: ``local`` for every seed."""
    wanted = len(seeds) * max(1, options.local)
    while wanted > 0:
        rows = space.uniform(min(wanted, BATCH), rng)
        if len(rows) == 0:
            return
        wanted -= len(rows)
        oracle.ask(rows)
