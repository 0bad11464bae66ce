"""Which cubes are counted one after the other: every combination of attributes, cut into parts that fit a cube."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.cube import Occupied
from evenhand.subgroup.deep.kernel import Walk
from evenhand.subgroup.deep.walk import Steps, steps, walk
from evenhand.subgroup.family import Family

Ints = NDArray[np.int64]

CELLS = 1024
"""Cells of one cube, at most (one attribute may have more): with its permutations it stays in a processor's cache."""
LEAVES = 2**18
"""Rule sets that one cube is walked through for, at most (one attribute may have more)."""


@dataclass(frozen=True)
class Tail:
    """The attributes of a combination that are counted as one cube.

    Attributes:
        attributes: which.
        steps: through the rules of each.
        walk: through all combinations of them.
        place: the cell of the cube that each occupied cell falls into.
        rule_sets: how many there are.
    """

    attributes: tuple[int, ...]
    steps: tuple[Steps, ...]
    walk: Walk
    place: Ints
    rule_sets: int


@dataclass(frozen=True)
class Part:
    """One cube: the rules on the other attributes of the combination are fixed.

    Attributes:
        chosen: the row of each attribute's rules as far as they are fixed, 0 for none.
        rows: occupied cells that are left; none if too few people are.
        tail: what is walked through.
        rule_sets: how many rule sets this settles, those that too few people are in for a look included.
    """

    chosen: tuple[int, ...]
    rows: Ints
    tail: Tail
    rule_sets: int


class Plan:
    """All parts of a family, fewest attributes first, in an order that depends on nothing else.

    Args:
        family: the rule sets.
        cells: the occupied cells, of which the first columns are the family's attributes.
        least: people that a rule set holds, at least.
    """

    def __init__(self, family: Family, cells: Occupied, least: int) -> None:
        self._family, self._cells, self._least = family, cells, least
        self._steps = [steps(rules[1:]) for rules in family.rules]
        self._widths = [rules.shape[1] for rules in family.rules]
        # Whether an occupied cell is in a rule's, shape (rules, occupied cells).
        self._inside = [rules[:, cells.codes[:, axis]] for axis, rules in enumerate(family.rules)]
        used = [axis for axis, rules in enumerate(family.rules) if len(rules) > 1]
        self._combinations = [
            combination for number in range(1, family.depth + 1) for combination in itertools.combinations(used, number)
        ]

    def room(self) -> tuple[int, int, int]:
        """Cells, steps and partial rule sets of the largest walk: what work arrays must hold."""
        cells = max([CELLS, *self._widths])
        leaves = max([LEAVES, *(len(one) for one in self._steps)])
        # A cube of two or more attributes is followed by ones of at most half its size; so are the partial rule sets.
        return 2 * cells + 2, leaves, 2 * leaves + 2

    def parts(self) -> Iterator[Part]:
        """The parts, one after the other."""
        everything = np.arange(len(self._cells.sizes))
        none = [0] * len(self._family.rules)
        for combination in self._combinations:
            split = self._split(combination)
            tail = self._tail(combination[split:])
            found = self._under(combination[:split], everything, none, tail.rule_sets)
            for chosen, rows, rule_sets in found:
                yield Part(chosen, rows, tail, rule_sets)

    def _split(self, combination: tuple[int, ...]) -> int:
        """How many attributes come before those that are counted as one cube."""
        split = len(combination) - 1
        cells, leaves = self._widths[combination[split]], len(self._steps[combination[split]])
        while split > 0:
            cells *= self._widths[combination[split - 1]]
            leaves *= len(self._steps[combination[split - 1]])
            if cells > CELLS or leaves > LEAVES:
                break
            split -= 1
        return split

    def _tail(self, attributes: tuple[int, ...]) -> Tail:
        several = tuple(self._steps[axis] for axis in attributes)
        widths = [self._widths[axis] for axis in attributes]
        place = np.ravel_multi_index(tuple(self._cells.codes[:, axis] for axis in attributes), widths)
        rule_sets = math.prod(len(self._family.rules[axis]) - 1 for axis in attributes)
        return Tail(attributes, several, walk(several, widths), place.astype(np.int64), rule_sets)

    def _under(
        self, before: tuple[int, ...], rows: Ints, chosen: list[int], rule_sets: int
    ) -> Iterator[tuple[tuple[int, ...], Ints, int]]:
        """Every choice of one rule on each of these attributes, with the occupied cells in them."""
        if not before:
            yield tuple(chosen), rows, rule_sets
            return
        axis, *others = before
        refined = rule_sets * math.prod(len(self._family.rules[other]) - 1 for other in others)
        skipped = 0
        for rule in range(1, len(self._family.rules[axis])):
            left = rows[self._inside[axis][rule, rows]]
            if self._cells.sizes[left].sum() < self._least:
                skipped += refined
                continue
            chosen[axis] = rule
            yield from self._under(tuple(others), left, chosen, rule_sets)
        chosen[axis] = 0
        if skipped:
            yield tuple(chosen), rows[:0], skipped
