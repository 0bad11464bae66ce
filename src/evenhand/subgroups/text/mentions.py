"""Mentions of people in texts, and sums over the rule sets that enough texts belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.datasets.identity.lists import IdentityCategory
from evenhand.datasets.identity.swapping import TermSwapper, words_of
from evenhand.errors import DataError, OptionError
from evenhand.subgroups.config import Compared
from evenhand.subgroups.rules import Rules

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""A rule set of texts: positions of a category and of a group in it, ordered by category."""


@dataclass(frozen=True)
class Mentions:
    """Who every text speaks of.

    Attributes:
        swappers: the categories.
        inside: for each category which of its groups each text speaks of, shape (n, groups).
    """

    swappers: tuple[TermSwapper, ...]
    inside: tuple[Booleans, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The categories' names."""
        return tuple(one.category.name for one in self.swappers)

    @cached_property
    def any(self) -> Booleans:
        """Whether a text speaks of anybody of a category, shape (n, categories)."""
        return np.stack([one.any(axis=1) for one in self.inside], axis=1)

    def of(self, rows: Integers) -> Mentions:
        """Return the same of some of the texts."""
        return Mentions(self.swappers, tuple(one[rows] for one in self.inside))

    def parse_rules(self, asked: Mapping[str, str]) -> Terms:
        """Return a rule set in words, category -> group or term, as positions.

        Raises:
            OptionError: there is no such category or group.
        """
        terms = []
        for name, group in asked.items():
            if name not in self.names:
                raise OptionError(f"there is no list called {name!r}", hint=f"one of: {', '.join(self.names)}")
            axis = self.names.index(name)
            groups = [one.casefold() for one in self.swappers[axis].category.groups]
            if group.casefold() not in groups:
                raise OptionError(f"there is no {group!r} in {name}", hint=f"one of: {', '.join(groups)}")
            terms.append((axis, groups.index(group.casefold())))
        return tuple(sorted(terms))

    def rules(self, terms: Terms) -> Rules:
        """Return a rule set of positions in words."""
        return {self.names[axis]: (self.swappers[axis].category.groups[group],) for axis, group in terms}


def find_mentions(texts: Sequence[str], found: Sequence[IdentityCategory]) -> Mentions:
    """Look for every term in every text.

    Raises:
        DataError: none of the texts has any.
    """
    swappers = tuple(TermSwapper(one) for one in found)
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
            hint="bring a list of your own",
        )
    return Mentions(swappers, tuple(inside))


# Sums over rule sets of texts, and the rule sets that enough texts belong to.


def count_rule_sets(groups: Sequence[int], depth: int) -> int:
    """Return how many rule sets there are over categories with so many groups, of at most ``depth`` categories each."""
    return sum(prod(some) for size in range(1, depth + 1) for some in combinations(groups, size))


@dataclass(frozen=True)
class MentionPatterns:
    """The different ways to speak of people, and how many texts do so.

    Attributes:
        spoken: for each category who is spoken of, shape (patterns, groups).
        of: the pattern of each text, shape (n,).
        sizes: texts of each, shape (patterns,).
    """

    spoken: tuple[Booleans, ...]
    of: Integers
    sizes: Integers

    @classmethod
    def among(cls, said: Mentions) -> MentionPatterns:
        """Return those of the texts."""
        joined = np.concatenate(said.inside, axis=1)
        _, first, of = np.unique(np.packbits(joined, axis=1), axis=0, return_index=True, return_inverse=True)
        of = of.ravel().astype(np.int64)
        return cls(tuple(one[first] for one in said.inside), of, np.bincount(of, minlength=len(first)))

    def frequent_rule_sets(self, depth: int, least: int) -> list[Terms]:
        """Yield rule sets that at least so many texts belong to, those over few categories first.

        Depth first: what too few belong to is not refined.
        """

        def deeper(terms: Terms, inside: Booleans) -> Iterator[Terms]:
            for axis in range(terms[-1][0] + 1 if terms else 0, len(self.spoken)):
                for group in range(self.spoken[axis].shape[1]):
                    both = inside & self.spoken[axis][:, group]
                    if self.sizes[both].sum() >= least:
                        yield (*terms, (axis, group))
                        if len(terms) + 1 < depth:
                            yield from deeper((*terms, (axis, group)), both)

        return sorted(deeper((), np.ones(len(self.sizes), dtype=bool)), key=len)

    def rule_set_sides(self, family: Sequence[Terms], compared: Compared) -> tuple[Booleans, Booleans]:
        """Return which patterns belong to each rule set, and to it or its rest, both of shape (rule sets, patterns)."""
        inside = np.ones((len(family), len(self.sizes)), dtype=bool)
        whole = np.ones_like(inside)
        spoken = [one.any(axis=1) for one in self.spoken]
        for row, terms in enumerate(family):
            for axis, group in terms:
                inside[row] &= self.spoken[axis][:, group]
                if compared == "others":
                    whole[row] &= spoken[axis]
        return inside, whole


@dataclass(frozen=True)
class RuleSetSums:
    """Outcomes inside rule sets, and inside or in the rest, each of shape (rule sets,).

    Attributes:
        n, k, squares: texts, sum of their outcomes, and of their squares.
        all_n, all_k, all_squares: the same of rule set and rest together.
    """

    n: Floats
    k: Floats
    squares: Floats
    all_n: Floats
    all_k: Floats
    all_squares: Floats

    @classmethod
    def over(cls, inside: Booleans, whole: Booleans, patterns: MentionPatterns, values: Floats) -> RuleSetSums:
        """Add up the outcomes of the texts of each pattern."""
        sums = [
            np.bincount(patterns.of, weights=values**power, minlength=len(patterns.sizes)).astype(np.float64)
            for power in range(3)
        ]
        return cls(*(side.astype(np.float64) @ one for side in (inside, whole) for one in sums))

    @property
    def rest(self) -> Floats:
        """Texts in the rest."""
        return np.asarray(self.all_n - self.n)

    @property
    def variance(self) -> Floats:
        """Of all outcomes of rule set and rest, divisor n - 1."""
        return sample_variance(self.all_n, self.all_k, self.all_squares)

    @property
    def side_variances(self) -> tuple[Floats, Floats]:
        """Of the outcomes inside, and of those of the rest."""
        rest = sample_variance(self.rest, self.all_k - self.k, self.all_squares - self.squares)
        return sample_variance(self.n, self.k, self.squares), rest

    def some(self, rows: Integers) -> RuleSetSums:
        """Return those of some rule sets."""
        return RuleSetSums(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def sample_variance(n: Floats, total: Floats, squares: Floats) -> Floats:
    """Return the variance of n numbers with this sum and sum of squares, divisor n - 1."""
    return np.asarray(np.maximum(squares - total**2 / np.maximum(n, 1), 0.0) / np.maximum(n - 1, 1))
