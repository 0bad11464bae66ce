"""Which cubes are counted one after the other: every combination of attributes, cut into parts that fit a cube."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Integers
from evenhand.subgroups.deep.kernel import ADD, RESET, SUBTRACT, RuleTraversal
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.tabulate import OccupiedCells

CELLS = 1024
"""Cells of one cube, at most (one attribute may have more): with its permutations it stays in a processor's cache."""
LEAVES = 2**18
"""Rule sets that one cube is walked through for, at most (one attribute may have more)."""


@dataclass(frozen=True)
class CubeTail:
    """The attributes of a combination that are counted as one cube.

    Attributes:
        attributes: which.
        steps: through the rules of each.
        walk: through all combinations of them.
        place: the cell of the cube that each occupied cell falls into.
        rule_sets: how many there are.
    """

    attributes: tuple[int, ...]
    steps: tuple[RuleSteps, ...]
    walk: RuleTraversal
    place: Integers
    rule_sets: int


@dataclass(frozen=True)
class CubePart:
    """One cube: the rules on the other attributes of the combination are fixed.

    Attributes:
        chosen: the row of each attribute's rules as far as they are fixed, 0 for none.
        rows: occupied cells that are left; none if too few people are.
        tail: what is walked through.
        rule_sets: how many rule sets this settles, those that too few people are in for a look included.
    """

    chosen: tuple[int, ...]
    rows: Integers
    tail: CubeTail
    rule_sets: int


class CubePlan:
    """All parts of a family, fewest attributes first, in an order that depends on nothing else.

    Args:
        family: the rule sets.
        cells: the occupied cells, of which the first columns are the family's attributes.
        least: people that a rule set holds, at least.
    """

    def __init__(self, family: RuleSetFamily, cells: OccupiedCells, least: int) -> None:
        self._family, self._cells, self._least = family, cells, least
        self._steps = [plan_steps(rules[1:]) for rules in family.rules]
        self._widths = [rules.shape[1] for rules in family.rules]
        # Whether an occupied cell is in a rule's, shape (rules, occupied cells).
        self._inside = [rules[:, cells.codes[:, axis]] for axis, rules in enumerate(family.rules)]
        used = [axis for axis, rules in enumerate(family.rules) if len(rules) > 1]
        self._combinations = [
            combination for number in range(1, family.depth + 1) for combination in itertools.combinations(used, number)
        ]

    def room(self) -> tuple[int, int, int]:
        """Return the cells, steps and partial rule sets of the largest walk: what work arrays must hold."""
        cells = max([CELLS, *self._widths])
        leaves = max([LEAVES, *(len(one) for one in self._steps)])
        # A cube of two or more attributes is followed by ones of at most half its size; so are the partial rule sets.
        return 2 * cells + 2, leaves, 2 * leaves + 2

    def parts(self) -> Iterator[CubePart]:
        """Yield the parts, one after the other."""
        everything = np.arange(len(self._cells.sizes))
        none = [0] * len(self._family.rules)
        for combination in self._combinations:
            split = self._split(combination)
            tail = self._build_tail(combination[split:])
            found = self._choose_rules(combination[:split], everything, none, tail.rule_sets)
            for chosen, rows, rule_sets in found:
                yield CubePart(chosen, rows, tail, rule_sets)

    def _split(self, combination: tuple[int, ...]) -> int:
        """Return how many attributes come before those that are counted as one cube."""
        # As many of the last attributes as the work arrays hold are counted as one cube.
        split = len(combination) - 1
        cells, leaves = self._widths[combination[split]], len(self._steps[combination[split]])
        while split > 0:
            cells *= self._widths[combination[split - 1]]
            leaves *= len(self._steps[combination[split - 1]])
            if cells > CELLS or leaves > LEAVES:
                break
            split -= 1
        return split

    def _build_tail(self, attributes: tuple[int, ...]) -> CubeTail:
        several = tuple(self._steps[axis] for axis in attributes)
        widths = [self._widths[axis] for axis in attributes]
        place = np.ravel_multi_index(tuple(self._cells.codes[:, axis] for axis in attributes), widths)
        rule_sets = math.prod(len(self._family.rules[axis]) - 1 for axis in attributes)
        return CubeTail(attributes, several, build_traversal(several, widths), place.astype(np.int64), rule_sets)

    def _choose_rules(
        self, before: tuple[int, ...], rows: Integers, chosen: list[int], rule_sets: int
    ) -> Iterator[tuple[tuple[int, ...], Integers, int]]:
        """Yield every choice of one rule on each of these attributes, with the occupied cells in them."""
        if not before:
            yield tuple(chosen), rows, rule_sets
            return
        axis, *others = before
        refined = rule_sets * math.prod(len(self._family.rules[other]) - 1 for other in others)
        skipped = 0
        for rule in range(1, len(self._family.rules[axis])):
            left = rows[self._inside[axis][rule, rows]]
            if self._cells.sizes[left].sum() < self._least:
                # No refinement holds more people: all that refine this rule are settled with it.
                skipped += refined
                continue
            chosen[axis] = rule
            yield from self._choose_rules(tuple(others), left, chosen, rule_sets)
        chosen[axis] = 0
        if skipped:
            yield tuple(chosen), rows[:0], skipped


# How rule sets over some attributes are walked through, one addition of a slab of counts after the other.


@dataclass(frozen=True)
class RuleSteps:
    """How the rules on one attribute come out of each other.

    Attributes:
        operation: begin with (RESET), add or take off a cell, shape (steps,).
        cell: which one.
        rule: the rule that is reached, as its row in the incidence matrix; -1 on the way to one.
    """

    operation: Integers
    cell: Integers
    rule: Integers

    def __len__(self) -> int:
        return len(self.rule)


def plan_steps(incidence: Booleans) -> RuleSteps:
    """Few steps through all rules of an attribute, given as rules by cells.

    In the order given, which suits ranges (each is one bin longer than the last), or in the order of the reflected
    binary code, in which the next subset differs by one value (F. Gray, US patent 2632058, 1953).
    """
    as_given = np.arange(len(incidence))
    coded = np.lexsort(np.logical_xor.accumulate(incidence, axis=1).T[::-1])
    return min((_steps_in_order(incidence, order) for order in (as_given, coded)), key=len)


def _steps_in_order(incidence: Booleans, order: Integers) -> RuleSteps:
    operation: list[int] = []
    cell: list[int] = []
    rule: list[int] = []
    current: Booleans | None = None
    for row in order.tolist():
        wanted = incidence[row]
        full = np.flatnonzero(wanted).tolist()
        changes = [] if current is None else np.flatnonzero(wanted != current).tolist()
        # Either by the cells that differ from the rule before, or from nothing, whichever takes fewer steps.
        if current is None or len(full) <= len(changes):
            operation += [RESET] + [ADD] * (len(full) - 1)
            cell += full
            rule += [-1] * (len(full) - 1) + [row]
        else:
            operation += [ADD if wanted[change] else SUBTRACT for change in changes]
            cell += changes
            rule += [-1] * (len(changes) - 1) + [row]
        current = wanted
    return RuleSteps(*(np.array(column, dtype=np.int64) for column in (operation, cell, rule)))


def build_traversal(several: Sequence[RuleSteps], cells: Sequence[int]) -> RuleTraversal:
    """Return the walk through all combinations of one rule of each of these attributes.

    Args:
        several: the steps of each.
        cells: how many cells each has.
    """
    # span: cells of the cube of each attribute and those after it. before: partial rule sets up to each attribute.
    # Slabs and partial rule sets of all depths lie one after the other, from ``start`` and ``node`` on.
    lengths = np.array([len(one) for one in several], dtype=np.int64)
    span = np.array([*np.cumprod(cells[::-1])[::-1], 1], dtype=np.int64)
    before = np.concatenate([[0], np.cumprod(lengths)]).astype(np.int64)
    before[0] = 1
    return RuleTraversal(
        first=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64),
        steps=lengths,
        operation=np.concatenate([one.operation for one in several]),
        cell=np.concatenate([one.cell for one in several]),
        rule=np.concatenate([one.rule for one in several]),
        span=span,
        start=np.concatenate([[0], np.cumsum(span)[:-1]]).astype(np.int64),
        node=np.concatenate([[0], np.cumsum(before)[:-1]]).astype(np.int64),
    )


def rules_at_leaves(several: Sequence[RuleSteps], leaf: Integers) -> Integers:
    """Return the rule of each attribute at places of the walk, shape (places, attributes)."""
    # A place is a number of mixed radix, in which the last attribute is the lowest digit.
    columns = []
    for one in reversed(several):
        columns.append(one.rule[leaf % len(one)])
        leaf = leaf // len(one)
    return np.stack(columns[::-1], axis=1)
