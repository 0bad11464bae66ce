"""How many seeds a method takes at a time, so that a budget pays for all that it does with them."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.individual.search.oracle import Oracle

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
