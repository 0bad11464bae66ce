"""Identity terms in texts, and texts as a table whose cells are combinations of mentioned groups."""

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
from evenhand.subgroups.gaps import StratifiedGroups, compare_groups
from evenhand.subgroups.rules import Rules, describe_rules
from evenhand.subgroups.tabulate import CellTable, tabulate_people

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""Rule set over texts: pairs of the positions of a category and of one of its groups, ordered by category."""


@dataclass(frozen=True)
class Mentions:
    """Groups that each text mentions.

    Attributes:
        swappers: Categories, with the swapper of their terms.
        inside: For each category, which groups each text mentions, shape (texts, groups).
    """

    swappers: tuple[TermSwapper, ...]
    inside: tuple[Booleans, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the categories."""
        return tuple(swapper.category.name for swapper in self.swappers)

    @cached_property
    def any(self) -> Booleans:
        """Whether each text mentions any group of each category, shape (texts, categories)."""
        return np.stack([groups.any(axis=1) for groups in self.inside], axis=1)

    def of(self, rows: Integers) -> Mentions:
        """Select some of the texts."""
        return Mentions(self.swappers, tuple(groups[rows] for groups in self.inside))

    def parse_rules(self, rules: Mapping[str, str]) -> Terms:
        """Convert a rule set, category -> group or term, to positions.

        Raises:
            OptionError: A category or group does not exist.
        """
        terms = []
        for name, group in rules.items():
            if name not in self.names:
                raise OptionError(f"there is no list called {name!r}", hint=f"one of: {', '.join(self.names)}")
            axis = self.names.index(name)
            groups = [name_of_group.casefold() for name_of_group in self.swappers[axis].category.groups]
            if group.casefold() not in groups:
                raise OptionError(f"there is no {group!r} in {name}", hint=f"one of: {', '.join(groups)}")
            terms.append((axis, groups.index(group.casefold())))
        return tuple(sorted(terms))

    def describe(self, terms: Terms) -> tuple[Rules, str]:
        """Convert positions to a rule set, category -> group or term, and describe it in words."""
        rules: Rules = {self.names[axis]: (self.swappers[axis].category.groups[group],) for axis, group in terms}
        return rules, describe_rules(rules)

    def members(self, terms: Terms) -> Booleans:
        """Determine which texts mention all groups of a rule set, shape (texts,)."""
        return np.asarray(np.all([self.inside[axis][:, group] for axis, group in terms], axis=0))


def find_mentions(texts: Sequence[str], categories: Sequence[IdentityCategory]) -> Mentions:
    """Find the terms of all categories in all texts.

    Raises:
        DataError: No text contains a term.
    """
    swappers = tuple(TermSwapper(category) for category in categories)
    position = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    tables = [np.zeros((len(position), len(category.groups)), dtype=bool) for category in categories]
    for row, text in enumerate(position):
        words = words_of(text)
        for swapper, table in zip(swappers, tables, strict=True):
            if swapper.may_mention(words):
                table[row, [mention.group for mention in swapper.mentions(text)]] = True
    rows = np.array([position[text] for text in texts], dtype=np.int64)
    inside = tuple(table[rows] for table in tables)
    if not any(groups.any() for groups in inside):
        raise DataError(
            f"none of the {len(texts):,} texts has a term of: {', '.join(category.name for category in categories)}",
            hint="pass a list of terms",
        )
    return Mentions(swappers, inside)


def count_rule_sets(groups: Sequence[int], depth: int) -> int:
    """Count the rule sets of at most ``depth`` categories, from the number of groups of each category."""
    return sum(prod(sizes) for number in range(1, depth + 1) for sizes in combinations(groups, number))


# Texts that mention the same groups are one cell of a table, so that rule sets over texts are tested like those over
# people. A text can mention several groups of a category, so cells have one column per group, not per category.


@dataclass(frozen=True)
class TextTable:
    """Texts by the combination of groups that they mention.

    Attributes:
        table: Cells, with one column per group. Strata are the sets of mentioned categories if rule sets are compared
            with ``others``, because the topic of a text may influence its outcome, and one stratum otherwise.
        groups: For each category, which groups each cell mentions, shape (cells, groups).
        compared: Texts that rule sets are compared with.
    """

    table: CellTable
    groups: tuple[Booleans, ...]
    compared: Compared

    @classmethod
    def of(cls, mentions: Mentions, values: Floats, *, counted: bool, compared: Compared) -> TextTable:
        """Tabulate texts with the outcome of each."""
        stratum = np.zeros(len(values), dtype=np.int64)
        if compared == "others":
            stratum = np.unique(mentions.any, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        joined = np.concatenate(mentions.inside, axis=1)
        table = tabulate_people(joined.astype(np.int64), values, counted=counted, stratum=stratum)
        ends = np.cumsum([groups.shape[1] for groups in mentions.inside])
        return cls(table, tuple(np.split(table.cells.codes[:, :-1] == 1, ends[:-1], axis=1)), compared)

    def frequent_rule_sets(self, depth: int, min_texts: int) -> list[Terms]:
        """List the rule sets that at least ``min_texts`` texts satisfy, the shortest first."""
        sizes = self.table.cells.sizes

        def refine(terms: Terms, inside: Booleans) -> Iterator[Terms]:
            for axis in range(terms[-1][0] + 1 if terms else 0, len(self.groups)):
                for group in range(self.groups[axis].shape[1]):
                    both = inside & self.groups[axis][:, group]
                    # Refinements match fewer texts, so rare rule sets are not refined.
                    if sizes[both].sum() >= min_texts:
                        yield (*terms, (axis, group))
                        if len(terms) + 1 < depth:
                            yield from refine((*terms, (axis, group)), both)

        return sorted(refine((), np.ones(len(sizes), dtype=bool)), key=len)

    def sides(self, family: Sequence[Terms]) -> tuple[Booleans, Booleans]:
        """Determine which cells satisfy each rule set, and which cells it is compared within.

        Both have the shape (rule sets, cells). A rule set is compared with the other texts that mention its categories,
        or with all other texts.
        """
        inside = np.ones((len(family), len(self.table.cells.sizes)), dtype=bool)
        compared_within = np.ones_like(inside)
        for row, terms in enumerate(family):
            for axis, group in terms:
                inside[row] &= self.groups[axis][:, group]
                if self.compared == "others":
                    compared_within[row] &= self.groups[axis].any(axis=1)
        return inside, compared_within

    def compare(self, inside: Booleans, compared_within: Booleans) -> StratifiedGroups:
        """Compare the texts of some cells with the others in ``compared_within``, shape (rule sets, cells) each."""
        moments = self.table.cell_moments.T
        own, everyone = ((side @ moments).T[:, :, None] for side in (inside, compared_within))
        return compare_groups(self.table, own, everyone)
