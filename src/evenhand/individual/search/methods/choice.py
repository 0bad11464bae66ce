"""Search methods by name, and what they have in common."""

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
    "genetic": "genetic:search",
    "maft": "gradient:maft",
    "maft-inf": "gradient:maft_inf",
    "neighbours": "undirected:ask_neighbours",
    "random": "undirected:sample_uniformly",
    "sg": "symbolic:search",
    "themis": "undirected:sample_until_known",
}
"""Module and function of each method."""


@dataclass(frozen=True)
class MethodOptions:
    """Settings of a method.

    Attributes:
        local: moves of the local phase around each profile found by the global one.
        most_moves: moves of the global phase per seed, at most.
        h: for MAFT (either schedule), how far apart two questions lie for a slope, in steps of the attribute.
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
    """A method: ask the oracle until its plan is carried out. Whatever the oracle is asked about is recorded.

    It may be called again with further seeds while budget is left, unless it returns False: nothing more can be found
    so. The end of the budget comes as ``BudgetExhausted``, which it lets through.
    """

    def __call__(
        self, oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions
    ) -> bool | None: ...


def load_method(name: str) -> SearchMethod:
    """Return the search of this name.

    Raises:
        OptionError: there is none.
    """
    if name not in METHODS:
        raise OptionError(f"there is no method {name!r}", location="`method=`", hint=f"one of: {', '.join(METHODS)}")
    module, function = METHODS[name].split(":")
    found: SearchMethod = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return found


# How many seeds a method takes at a time, so that a budget pays for all that it does with them.


SHARE = 0.1
"""Of a budget, the global phase of one wave costs no more than this, unless the wave is of one seed."""


def cut_into_waves(oracle: Oracle, n: int, each: int) -> Iterator[slice]:
    """Yield which of n seeds come next: without a budget all of them, as one call to the model takes them.

    The published programs carry the global phase of all their seeds out first, however many questions that takes. Under
    a budget that could be all of it, and nothing would be found around what was found. Waves do not depend on what is
    left of the budget: a search that goes on from a file of answers would cut them otherwise.

    Args:
        oracle: its budget says how large a wave is.
        n: the number of seeds.
        each: what the global phase of one seed costs, at most.
    """
    size = n if oracle.budget is None else max(1, int(SHARE * oracle.budget / each))
    for first in range(0, n, max(1, size)):
        yield slice(first, min(first + size, n))
