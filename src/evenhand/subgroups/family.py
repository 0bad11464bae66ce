"""All rule sets over some attributes: every rule on each of them, and their conjunctions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans
from evenhand.subgroups.cuts import AttributeCut
from evenhand.subgroups.rules import Rules

MOST_RULES = 1024
"""Subsets of one attribute's values, at most: beyond ten values, only subsets of few values and what they leave."""


def rule_incidence(cut: AttributeCut) -> Booleans:
    """Return every rule on one attribute, shape (rules, cells): contiguous ranges, or subsets, without the full set.

    Of more values than 2**values - 2 <= ``MOST_RULES`` allows, the subsets of 1, 2, ... values and their complements
    that fit. Who misses an ordered attribute is a rule of its own.
    """
    cells = len(cut.names)
    rows: list[Booleans] = []
    if cut.ordered:
        line = cells - cut.missing
        for first in range(line):
            for last in range(first, line):
                row = np.zeros(cells, dtype=bool)
                row[first : last + 1] = True
                rows.append(row)
        if cut.missing:
            rows.append(np.arange(cells) == cells - 1)
    else:
        # All subsets where they are few; else the small ones and their complements, as far as the budget goes.
        budget = MOST_RULES
        for size in range(1, cells):
            subsets = math.comb(cells, size)
            if 2**cells - 2 > MOST_RULES:
                budget -= 2 * subsets
                if budget < 0 and size > 1:
                    break
            for chosen in itertools.combinations(range(cells), size):
                row = np.zeros(cells, dtype=bool)
                row[list(chosen)] = True
                rows.append(row)
                if 2**cells - 2 > MOST_RULES:
                    rows.append(~row)
    kept = {row.tobytes(): row for row in rows if not row.all()}
    return np.array(list(kept.values()), dtype=bool).reshape(len(kept), cells)


@dataclass(frozen=True)
class RuleSetFamily:
    """All conjunctions of at most ``depth`` rules over different attributes.

    Attributes:
        cuts: the attributes.
        rules: per attribute (1 + rules, cells): row 0 is "no rule", everybody; the others are the rules.
        depth: rules in one rule set, at most.
    """

    cuts: tuple[AttributeCut, ...]
    rules: tuple[Booleans, ...]
    depth: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Rules per attribute, "no rule" included."""
        return tuple(len(rules) for rules in self.rules)

    @property
    def size(self) -> int:
        """How many rule sets there are, the empty one not counted."""
        counts = [1]  # rule sets of 0, 1, 2, ... rules
        for rules in self.rules:
            more = len(rules) - 1
            counts = [a + more * b for a, b in zip([*counts, 0], [0, *counts], strict=True)]
        return sum(counts[1 : self.depth + 1])

    @property
    def cube(self) -> int:
        """How many counts it takes to count them all at once: one per choice of a rule, or none, of every attribute."""
        return math.prod(self.shape)

    def describe(self, chosen: Sequence[int]) -> Rules:
        """Return the rules of a rule set, given by its row in each attribute's ``rules``."""
        return {
            cut.attribute: cut.rule(rules[row])
            for cut, rules, row in zip(self.cuts, self.rules, chosen, strict=True)
            if row > 0
        }


def build_family(cuts: Sequence[AttributeCut], depth: int | None = None) -> RuleSetFamily:
    """Return the family over these attributes, conjunctions of at most ``depth`` rules (None: of all attributes)."""
    rules = tuple(np.concatenate([np.ones((1, len(cut.names)), dtype=bool), rule_incidence(cut)]) for cut in cuts)
    return RuleSetFamily(tuple(cuts), rules, min(depth or len(cuts), len(cuts)))
