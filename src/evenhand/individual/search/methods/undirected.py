"""Methods that learn nothing from the answers: random sampling, THEMIS, and everybody's neighbours."""

from __future__ import annotations

import math

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.individual.search.methods.choice import MethodOptions
from evenhand.individual.search.oracle import Oracle

BATCH = 16_384
"""Profiles drawn at a time."""


def sample_uniformly(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """Ask about as many profiles as the other methods would: ``local`` for every seed."""
    space = oracle.space
    wanted = len(seeds) * max(1, options.local)
    while wanted > 0:
        rows = space.uniform(min(wanted, BATCH), rng)
        if len(rows) == 0:
            return
        wanted -= len(rows)
        oracle.ask(rows)


MARGIN = 0.01
"""Half the width of the score's interval at which sampling stops."""

QUANTILE = 2.5758293035489004
"""Of the normal distribution, for an interval of 99 % confidence."""

THEMIS_BATCH = 256
FEWEST = 512


def sample_until_known(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """Ask about admissible profiles drawn uniformly until the score's normal interval is at most a percent each way.

    THEMIS (Galhotra, Brun and Meliou, "Fairness testing: testing software for discrimination", ESEC/FSE 2017). The
    score is looked at again and again, so its interval is not a statement; the counterfactual flip rates are.
    """
    space = oracle.space
    flips = n = 0
    while True:
        rows = space.uniform(THEMIS_BATCH, rng)
        flips += int(oracle.ask(rows).flips.sum())
        n += len(rows)
        share = flips / max(n, 1)
        if len(rows) == 0 or (n >= FEWEST and QUANTILE * math.sqrt(share * (1 - share) / n) <= MARGIN):
            return


PEOPLE_AT_ONCE = 1024
"""People whose neighbours are asked about at a time."""


def ask_neighbours(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> bool:
    """Ask about every admissible neighbour (see ``ProfileSpace.neighbours``) of everybody in the data, in random order.

    Raises:
        OptionError: there are no data.
    """
    space = oracle.space
    if space.people is None:
        raise OptionError(
            "neighbours are people in the data, and there is no data", location="`method=`", hint="give the people"
        )
    people = space.people[rng.permutation(len(space.people))]
    for i in range(0, len(people), PEOPLE_AT_ONCE):
        oracle.ask(space.neighbours(people[i : i + PEOPLE_AT_ONCE]))
    return False
