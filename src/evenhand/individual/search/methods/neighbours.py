"""Everybody one change away from a person in the data: who could most plausibly exist besides them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.individual.search.findings import Findings
from evenhand.individual.search.methods import Options
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import Space

Floats: TypeAlias = NDArray[np.float64]

BATCH = 1024
"""People whose neighbours are asked about at a time."""


def search(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> bool:
    """Ask about every admissible neighbour (see ``Space.neighbours``) of everybody in the data, in random order.

    Raises:
        OptionError: there are no data.
    """
    if space.people is None:
        raise OptionError("without data nobody has neighbours", where="--method", mend="give the people")
    people = space.people[rng.permutation(len(space.people))]
    for i in range(0, len(people), BATCH):
        oracle.ask(space.neighbours(people[i : i + BATCH]))
    return False
