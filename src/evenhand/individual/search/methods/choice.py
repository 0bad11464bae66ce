"""Search methods by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.oracle import Oracle

METHODS = {
    "adf": "gradient:search",
    "aequitas": "aequitas:search",
    "eidig": "gradient:search",
    "eidig-inf": "gradient:search",
    "frontier": "frontier:search",
    "maft": "gradient:search",
    "maft-inf": "gradient:search",
    "random": "undirected:sample_uniformly",
    "sg": "symbolic:search",
    "themis": "undirected:sample_until_known",
}
"""Module and function of each method."""

WAVE_SHARE = 0.1
"""Maximum fraction of the budget for the global phase of one wave of more than one seed."""


SearchMethod: TypeAlias = Callable[[Oracle, Floats, np.random.Generator, SearchConfig], bool | None]
"""Method that queries the oracle from seeds according to its plan. The oracle records all answers.

It may be called again with further seeds while budget is left, unless it returns False, which means that it cannot find
more. The end of the budget is raised as ``BudgetExhausted``, which the method does not catch.
"""


def load_method(name: str) -> SearchMethod:
    """Import a method by name.

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

    The published programs complete the global phase of all seeds first. With a budget, this could exhaust it
    before the local phase.

    Args:
        oracle: Oracle with the budget.
        n: Number of seeds.
        cost: Maximum number of queries of the global phase per seed.
    """
    size = n if oracle.budget is None else max(1, int(WAVE_SHARE * oracle.budget / cost))
    for first in range(0, n, max(1, size)):
        yield slice(first, min(first + size, n))
