"""Families of rule sets: all rules on single attributes, and their conjunctions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans
from evenhand.subgroups.cuts import AttributeCut
from evenhand.subgroups.rules import Rules, describe_rules

MOST_RULES = 1024
"""Maximum number of subsets of one attribute's values. Beyond ten values, only small subsets and their complements."""


def rule_incidence(cut: AttributeCut) -> Booleans:
    """Build every rule on one attribute, shape (rules, cells): contiguous ranges or subsets, except the full set.

    If there are more than ``MOST_RULES`` subsets, those of 1, 2, ... values and their complements are used as long as
    they fit. Missing values of an ordered attribute form a separate rule.
    """
    cells = len(cut.names)
    rows: list[Booleans] = []
    if cut.ordered:
        positions = np.arange(cells)
        values = cells - cut.missing
        rows = [(start <= positions) & (positions <= end) for start in range(values) for end in range(start, values)]
        if cut.missing:
            rows.append(positions == cells - 1)
    else:
        exhaustive, budget = 2**cells - 2 <= MOST_RULES, MOST_RULES
        for size in range(1, cells):
            budget -= 0 if exhaustive else 2 * math.comb(cells, size)
            if budget < 0 and size > 1:
                break
            for chosen in itertools.combinations(range(cells), size):
                row = np.zeros(cells, dtype=bool)
                row[list(chosen)] = True
                rows += [row] if exhaustive else [row, ~row]
    distinct = {row.tobytes(): row for row in rows if not row.all()}
    return np.array(list(distinct.values()), dtype=bool).reshape(len(distinct), cells)


@dataclass(frozen=True)
class RuleSetFamily:
    """All conjunctions of at most ``depth`` rules over different attributes.

    Attributes:
        cuts: Attributes.
        rules: Rules of each attribute, (1 + rules, cells). Row 0 is "no rule", which includes all people.
        depth: Maximum number of rules in a rule set.
    """

    cuts: tuple[AttributeCut, ...]
    rules: tuple[Booleans, ...]
    depth: int

    @property
    def size(self) -> int:
        """Number of rule sets, excluding the empty one."""
        counts = [1]  # rule sets of 0, 1, 2, ... rules
        for rules in self.rules:
            more = len(rules) - 1
            counts = [a + more * b for a, b in zip([*counts, 0], [0, *counts], strict=True)]
        return sum(counts[1 : self.depth + 1])

    def combinations(self) -> Iterator[tuple[int, ...]]:
        """Yield the positions of attributes that a rule set can restrict together, fewest first."""
        restrictable = [axis for axis, rules in enumerate(self.rules) if len(rules) > 1]
        for number in range(1, self.depth + 1):
            yield from itertools.combinations(restrictable, number)

    def describe(self, chosen: Sequence[int]) -> tuple[Rules, str]:
        """Convert a rule set from the row of each attribute's rules to rules, and describe them in words."""
        rule_set = {
            cut.attribute: cut.rule(rules[row])
            for cut, rules, row in zip(self.cuts, self.rules, chosen, strict=True)
            if row > 0
        }
        return rule_set, describe_rules(rule_set, {cut.attribute: cut.names for cut in self.cuts})


def build_family(cuts: Sequence[AttributeCut], depth: int | None = None) -> RuleSetFamily:
    """Build the family of conjunctions of at most ``depth`` rules over some attributes. None allows all attributes."""
    rules = tuple(np.concatenate([np.ones((1, len(cut.names)), dtype=bool), rule_incidence(cut)]) for cut in cuts)
    return RuleSetFamily(tuple(cuts), rules, min(depth or len(cuts), len(cuts)))
