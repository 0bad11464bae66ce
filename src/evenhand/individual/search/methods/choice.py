"""Search methods by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.methods import aequitas, frontier, gradient, symbolic, undirected
from evenhand.individual.search.oracle import Oracle

SearchMethod: TypeAlias = Callable[[Oracle, Floats, np.random.Generator, SearchConfig], bool | None]
"""Method that queries the oracle from seeds according to its plan. The oracle records all answers.

It may be called again with further seeds while budget is left, unless it returns False, which means that it cannot find
more. ``BudgetExhausted`` is raised at the end of the budget; the method does not catch it.
"""


METHODS: dict[str, SearchMethod] = {
    "adf": gradient.search,
    "aequitas": aequitas.search,
    "eidig": gradient.search,
    "eidig-inf": gradient.search,
    "frontier": frontier.search,
    "maft": gradient.search,
    "maft-inf": gradient.search,
    "random": undirected.sample_uniformly,
    "sg": symbolic.search,
    "themis": undirected.sample_until_known,
}
"""Methods by name."""


def find_method(name: str) -> SearchMethod:
    """Return a method by name.

    Raises:
        OptionError: There is no such method.
    """
    if name not in METHODS:
        raise OptionError(f"there is no method {name!r}", location="`method=`", hint=f"one of: {', '.join(METHODS)}")
    return METHODS[name]
