"""Search methods by name, and their common options."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.individual.search.oracle import Oracle

METHODS = {
    "adf": "gradient:adf",
    "aequitas": "aequitas:fully_directed",
    "aequitas-random": "aequitas:random_walk",
    "aequitas-semi-directed": "aequitas:semi_directed",
    "eidig": "gradient:eidig",
    "eidig-inf": "gradient:eidig_inf",
    "frontier": "frontier:search",
    "maft": "gradient:maft",
    "maft-inf": "gradient:maft_inf",
    "random": "undirected:sample_uniformly",
    "sg": "symbolic:search",
    "themis": "undirected:sample_until_known",
}
"""Module and function of each method."""

WAVE_SHARE = 0.1
"""Maximum fraction of the budget for the global phase of one wave of more than one seed."""


@dataclass(frozen=True)
class MethodOptions:
    """Settings of a method.

    Attributes:
        local: Moves of the local phase around each profile of the global phase.
        most_moves: Maximum number of moves of the global phase per seed.
        h: For MAFT (either schedule), distance between two queries for a slope, in steps of the attribute.
    """

    local: int = 100
    most_moves: int = 10
    h: float = 1.0

    def __post_init__(self) -> None:
        if self.local < 0 or self.most_moves < 1:
            raise OptionError(f"local {self.local} and moves {self.most_moves} must be positive")
        if not (0 < self.h < np.inf):
            raise OptionError(f"h must be positive, not {self.h:g}")


class SearchMethod(Protocol):
    """Method that queries the oracle according to its plan. The oracle records all answers.

    It may be called again with further seeds while budget is left, unless it returns False: it cannot find more. The
    end of the budget is raised as ``BudgetExhausted``, which the method does not catch.
    """

    def __call__(
        self, oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions
    ) -> bool | None: ...


def load_method(name: str) -> SearchMethod:
    """Import the method of this name.

    Raises:
        OptionError: There is no such method.
    """
    if name not in METHODS:
        raise OptionError(f"there is no method {name!r}", location="`method=`", hint=f"one of: {', '.join(METHODS)}")
    module, function = METHODS[name].split(":")
    method: SearchMethod = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return method


def cut_into_waves(oracle: Oracle, n: int, cost: int) -> Iterator[slice]:
    """Yield the seeds in waves. Without a budget, all seeds form one wave.

    The published programs complete the global phase of all seeds first. With a budget, this could spend all of it,
    without a local phase. Waves do not depend on the remaining budget: otherwise, a search that continues from a file
    of answers would cut them differently.

    Args:
        oracle: Oracle with the budget.
        n: Number of seeds.
        cost: Maximum number of queries of the global phase per seed.
    """
    size = n if oracle.budget is None else max(1, int(WAVE_SHARE * oracle.budget / cost))
    for first in range(0, n, max(1, size)):
        yield slice(first, min(first + size, n))
