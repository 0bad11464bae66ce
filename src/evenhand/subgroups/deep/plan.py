"""Plan of the counted cubes: all combinations of attributes, split into parts that fit into a cube."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Integers
from evenhand.subgroups.deep.kernel import ADD, RESET, SUBTRACT, RuleTraversal
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.tabulate import OccupiedCells

CELLS = 1024
"""Maximum number of cells of a cube (one attribute may have more), which then fits a processor's cache."""
LEAVES = 2**18
"""Maximum number of rule sets of a cube (one attribute may have more)."""

RuleSteps: TypeAlias = NDArray[np.void]
"""Steps from rule to rule of one attribute, with the fields

- operation: Start with a cell (RESET), or add or subtract it.
- cell: The cell.
- rule: Row of the reached rule in the incidence matrix, or -1 between rules.
"""


@dataclass(frozen=True)
class CubeTail:
    """Attributes of a combination that are counted as one cube.

    Attributes:
        attributes: Positions of the attributes.
        steps: Steps through the rules of each.
        traversal: Traversal of all combinations of their rules.
        place: Cell of the cube that each occupied cell falls into.
        rule_sets: Number of rule sets.
    """

    attributes: tuple[int, ...]
    steps: tuple[RuleSteps, ...]
    traversal: RuleTraversal
    place: Integers
    rule_sets: int


@dataclass(frozen=True)
class CubePart:
    """A cube with fixed rules on the other attributes of the combination.

    Attributes:
        chosen: Row of each attribute's fixed rule, 0 if none is fixed.
        rows: Occupied cells that satisfy these rules. Empty if there are too few people.
        tail: Attributes of the cube.
        rule_sets: Number of rule sets in the part, including those skipped because of too few people.
    """

    chosen: tuple[int, ...]
    rows: Integers
    tail: CubeTail
    rule_sets: int


class CubePlan:
    """All parts of a family, fewest attributes first, in a fixed order.

    Args:
        family: Rule sets.
        cells: Occupied cells, whose first columns are the attributes of the family.
        min_inside: Minimum number of people in a rule set.
    """

    def __init__(self, family: RuleSetFamily, cells: OccupiedCells, min_inside: int) -> None:
        self._family, self._cells, self._min_inside = family, cells, min_inside
        self._steps = [plan_steps(rules[1:]) for rules in family.rules]
        self._widths = [rules.shape[1] for rules in family.rules]
        # Membership of occupied cells in rules, shape (rules, occupied cells).
        self._inside = [rules[:, cells.codes[:, axis]] for axis, rules in enumerate(family.rules)]

    def room(self) -> tuple[int, int, int]:
        """Compute the maximum number of cells, steps and partial rule sets, for which work arrays are allocated."""
        cells = max([CELLS, *self._widths])
        leaves = max([LEAVES, *map(len, self._steps)])
        # Each following cube, and each following set of partial rule sets, has at most half the size.
        return 2 * cells + 2, leaves, 2 * leaves + 2

    def parts(self) -> Iterator[CubePart]:
        """Yield the parts in order."""
        all_cells = np.arange(len(self._cells.sizes))
        constrained = [axis for axis, rules in enumerate(self._family.rules) if len(rules) > 1]
        for number in range(1, self._family.depth + 1):
            for combination in itertools.combinations(constrained, number):
                split = self._split(combination)
                tail = self._build_tail(combination[split:])
                chosen = [0] * len(self._family.rules)
                for part in self._choose_rules(combination[:split], all_cells, chosen, tail.rule_sets):
                    rules, rows, rule_sets = part
                    yield CubePart(rules, rows, tail, rule_sets)

    def _split(self, combination: tuple[int, ...]) -> int:
        """Count the attributes before the trailing ones that fit into one cube."""
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
        steps = tuple(self._steps[axis] for axis in attributes)
        widths = [self._widths[axis] for axis in attributes]
        place = np.ravel_multi_index(tuple(self._cells.codes[:, axis] for axis in attributes), widths)
        rule_sets = math.prod(len(self._family.rules[axis]) - 1 for axis in attributes)
        return CubeTail(attributes, steps, build_traversal(steps, widths), place.astype(np.int64), rule_sets)

    def _choose_rules(
        self, leading: tuple[int, ...], rows: Integers, chosen: list[int], rule_sets: int
    ) -> Iterator[tuple[tuple[int, ...], Integers, int]]:
        """Yield every choice of one rule on each of these attributes, with the occupied cells that satisfy them."""
        if not leading:
            yield tuple(chosen), rows, rule_sets
            return
        axis, *following = leading
        refined = rule_sets * math.prod(len(self._family.rules[other]) - 1 for other in following)
        skipped = 0
        for rule in range(1, len(self._family.rules[axis])):
            remaining = rows[self._inside[axis][rule, rows]]
            if self._cells.sizes[remaining].sum() < self._min_inside:
                # Refinements have fewer people, so they are skipped too.
                skipped += refined
                continue
            chosen[axis] = rule
            yield from self._choose_rules(tuple(following), remaining, chosen, rule_sets)
        chosen[axis] = 0
        if skipped:
            yield tuple(chosen), rows[:0], skipped


# Traversal of rule sets, which adds one slab of counts at a time.


def plan_steps(incidence: Booleans) -> RuleSteps:
    """Plan a short sequence of steps through all rules of an attribute, from their incidence matrix (rules, cells).

    Rules are visited in the given order, which suits ranges (each is one bin longer than the last), or in the order of
    the reflected binary code, where consecutive subsets differ by one value (F. Gray, US patent 2632058, 1953).
    """
    coded = np.lexsort(np.logical_xor.accumulate(incidence, axis=1).T[::-1])
    return min((_steps_in_order(incidence, order) for order in (np.arange(len(incidence)), coded)), key=len)


def _steps_in_order(incidence: Booleans, order: Integers) -> RuleSteps:
    steps: list[tuple[int, int, int]] = []
    current: Booleans | None = None
    for row in order.tolist():
        members = incidence[row]
        own = np.flatnonzero(members).tolist()
        changes = [] if current is None else np.flatnonzero(members != current).tolist()
        # A rule is reached from the previous rule or from nothing, in as few steps as possible.
        if current is None or len(own) <= len(changes):
            added = [(RESET if i == 0 else ADD, cell) for i, cell in enumerate(own)]
        else:
            added = [(ADD if members[cell] else SUBTRACT, cell) for cell in changes]
        steps += [(operation, cell, -1) for operation, cell in added[:-1]] + [(*added[-1], row)]
        current = members
    return np.array(steps, dtype=[("operation", "i8"), ("cell", "i8"), ("rule", "i8")])


def build_traversal(steps: Sequence[RuleSteps], cells: Sequence[int]) -> RuleTraversal:
    """Build the traversal of all combinations of one rule of each attribute.

    Args:
        steps: Steps of each attribute.
        cells: Number of cells of each attribute.
    """
    # span: cells of the cube of each attribute and those after it. partial: partial rule sets up to each attribute.
    # Slabs and partial rule sets of all depths are stored one after the other, starting at ``start`` and ``node``.
    lengths = np.array([len(path) for path in steps], dtype=np.int64)
    span = np.array([*np.cumprod(cells[::-1])[::-1], 1], dtype=np.int64)
    partial = np.concatenate([[1], np.cumprod(lengths)])
    operation, cell, rule = (np.concatenate([path[name] for path in steps]) for name in ("operation", "cell", "rule"))
    offset, start, node = (
        np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) for sizes in (lengths, span, partial)
    )
    return RuleTraversal(offset, lengths, operation, cell, rule, span, start, node)


def rules_at_leaves(steps: Sequence[RuleSteps], leaf: Integers) -> Integers:
    """Compute the rule of each attribute at leaves of the traversal, shape (leaves, attributes)."""
    # A leaf is a number of mixed radix, whose lowest digit belongs to the last attribute.
    columns = []
    for path in reversed(steps):
        columns.append(path["rule"][leaf % len(path)])
        leaf = leaf // len(path)
    return np.stack(columns[::-1], axis=1)
