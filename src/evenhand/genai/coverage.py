"""Which combinations of values of several groups have appeared, item by item, and which are missing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING

from evenhand.errors import LimitError, OptionError

if TYPE_CHECKING:
    from evenhand.genai.sequence import Recorded

MOST = 1_000_000
"""Combinations that are kept track of."""


@dataclass(frozen=True)
class Coverage:
    """How the share of combinations seen grows with the items.

    Attributes:
        ways: groups in a combination.
        total: combinations there are: over every choice of so many groups, the product of their numbers of values.
        seen: combinations seen among the first 1, 2, ... items.
        missing: (groups, values) that no item shows.
    """

    ways: int
    total: int
    seen: tuple[int, ...]
    missing: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    @property
    def share(self) -> float:
        """The share of all combinations that the whole sequence shows."""
        return (self.seen[-1] if self.seen else 0) / self.total


def coverage(recorded: Recorded, *, ways: int = 2) -> Coverage:
    """All-pairs coverage, or of larger combinations.

    An item counts for every choice of groups in which it is recognised, also if it is not in others. With two ways this
    is the normalised all-paired fairness of Cheng et al., "Conditional Fairness for Generative AIs", definition 9.

    Raises:
        OptionError: there are fewer groups than ways, or fewer ways than 2.
        LimitError: more combinations than can be kept track of.
    """
    groups = list(recorded.labels)
    if not 2 <= ways <= len(groups):
        raise OptionError(
            f"combinations of {ways} groups among {len(groups)}",
            mend="combinations are of 2 or more groups, and no more than there are",
        )
    choices = list(combinations(groups, ways))
    total = sum(math.prod(len(recorded.values[group]) for group in choice) for choice in choices)
    if total > MOST:
        raise LimitError(f"{total:,} combinations of {ways} groups", mend="fewer values, groups or ways")
    found: set[tuple[int, tuple[str, ...]]] = set()
    seen = []
    for row in zip(*(recorded.column(choice) for choice in choices), strict=True):
        found |= {(i, values) for i, values in enumerate(row) if values is not None}
        seen.append(len(found))
    missing = (
        (choice, values)
        for i, choice in enumerate(choices)
        for values in product(*(recorded.values[group] for group in choice))
        if (i, values) not in found
    )
    return Coverage(ways, total, tuple(seen), tuple(missing))
