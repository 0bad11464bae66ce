"""Sums over rule sets of texts, and the rule sets that enough texts belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.text.config import Compared
from evenhand.subgroup.text.mentions import Mentions

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""A rule set of texts: positions of a category and of a group in it, ordered by category."""


def rule_sets(groups: Sequence[int], depth: int) -> int:
    """How many rule sets there are over categories with so many groups, of at most ``depth`` categories each."""
    return sum(prod(some) for size in range(1, depth + 1) for some in combinations(groups, size))


@dataclass(frozen=True)
class Patterns:
    """The different ways to speak of people, and how many texts do so.

    Attributes:
        spoken: for each category who is spoken of, shape (patterns, groups).
        of: the pattern of each text, shape (n,).
        sizes: texts of each, shape (patterns,).
    """

    spoken: tuple[Bools, ...]
    of: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def among(cls, said: Mentions) -> Patterns:
        """Those of the texts."""
        joined = np.concatenate(said.inside, axis=1)
        _, first, of = np.unique(np.packbits(joined, axis=1), axis=0, return_index=True, return_inverse=True)
        of = of.ravel().astype(np.int64)
        return cls(tuple(one[first] for one in said.inside), of, np.bincount(of, minlength=len(first)))

    def frequent(self, depth: int, least: int) -> list[Terms]:
        """Rule sets that at least so many texts belong to, those over few categories first.

        Depth first: what too few belong to is not refined.
        """

        def deeper(terms: Terms, inside: Bools) -> Iterator[Terms]:
            for axis in range(terms[-1][0] + 1 if terms else 0, len(self.spoken)):
                for group in range(self.spoken[axis].shape[1]):
                    both = inside & self.spoken[axis][:, group]
                    if self.sizes[both].sum() >= least:
                        yield (*terms, (axis, group))
                        if len(terms) + 1 < depth:
                            yield from deeper((*terms, (axis, group)), both)

        return sorted(deeper((), np.ones(len(self.sizes), dtype=bool)), key=len)

    def sides(self, family: Sequence[Terms], compared: Compared) -> tuple[Bools, Bools]:
        """Which patterns belong to each rule set, and to it or its rest, both of shape (rule sets, patterns)."""
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
class Sums:
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
    def over(cls, inside: Bools, whole: Bools, patterns: Patterns, values: Floats) -> Sums:
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
        return variance_of(self.all_n, self.all_k, self.all_squares)

    @property
    def variances(self) -> tuple[Floats, Floats]:
        """Of the outcomes inside, and of those of the rest."""
        rest = variance_of(self.rest, self.all_k - self.k, self.all_squares - self.squares)
        return variance_of(self.n, self.k, self.squares), rest

    def some(self, rows: NDArray[np.int64]) -> Sums:
        """Those of some rule sets."""
        return Sums(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def variance_of(n: Floats, total: Floats, squares: Floats) -> Floats:
    """The variance of n numbers with this sum and sum of squares, divisor n - 1."""
    return np.asarray(np.maximum(squares - total**2 / np.maximum(n, 1), 0.0) / np.maximum(n - 1, 1))
