"""Which texts speak of whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.datasets.identity import Category, categories, named
from evenhand.errors import DataError, OptionError
from evenhand.subgroup.text.config import By
from evenhand.texts import Swapper
from evenhand.texts.swap import words_of


@dataclass(frozen=True)
class Mentions:
    """Who every text speaks of.

    Attributes:
        swappers: the categories.
        inside: for each category which of its groups each text speaks of, shape (n, groups).
    """

    swappers: tuple[Swapper, ...]
    inside: tuple[NDArray[np.bool_], ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The categories' names."""
        return tuple(one.category.name for one in self.swappers)

    @cached_property
    def any(self) -> NDArray[np.bool_]:
        """Whether a text speaks of anybody of a category, shape (n, categories)."""
        return np.stack([one.any(axis=1) for one in self.inside], axis=1)

    def of(self, rows: NDArray[np.int64]) -> Mentions:
        """The same of some of the texts."""
        return Mentions(self.swappers, tuple(one[rows] for one in self.inside))


def lists(protected: Sequence[str | Category] | None, by: By) -> tuple[Category, ...]:
    """The categories that are meant by names and lists; all single lists of the package if left out.

    Raises:
        OptionError: a name that there is not, or two categories of one name.
    """
    found = [one for name in protected or categories() for one in (named(name) if isinstance(name, str) else (name,))]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"there are two lists called {name!r}", mend="give one of them another name")
    return tuple(one.by_term() if by == "term" else one for one in found)


def mentions(texts: Sequence[str], found: Sequence[Category]) -> Mentions:
    """Look for every term in every text.

    Raises:
        DataError: none of the texts has any.
    """
    swappers = tuple(Swapper(one) for one in found)
    position = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    tables = [np.zeros((len(position), len(one.groups)), dtype=bool) for one in found]
    for row, text in enumerate(position):
        words = words_of(text)
        for swapper, table in zip(swappers, tables, strict=True):
            if swapper.may_mention(words):
                table[row, [mention.group for mention in swapper.mentions(text)]] = True
    at = np.array([position[text] for text in texts], dtype=np.int64)
    inside = [table[at] for table in tables]
    if not any(one.any() for one in inside):
        raise DataError(
            f"none of the {len(texts):,} texts has a term of: {', '.join(one.name for one in found)}",
            mend="bring a list of your own: --terms FILE",
        )
    return Mentions(swappers, tuple(inside))
