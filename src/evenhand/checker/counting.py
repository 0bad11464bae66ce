"""How much of a box meets conditions that are sums over its attributes: exact counting in integers.

A condition is ``constant + sum of one term per attribute > 0``. Few people are counted one by one. For more, the
attributes are put into two halves. All joint values of one half are sorted by what they add to the first condition; a
joint value of the other half then asks for all those above a threshold, and of these for the ones that meet the second
condition too, which are found in sorted blocks of 1, 2, 4, ... of them. Where even the halves are too large, values
are moved down to a grid, which loses a little and proves nothing wrong.

Masses are integers out of ``2**MASS_BITS``, rounded down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.typing import Integers

MASS_BITS = 60
ALL: int = 2**MASS_BITS
ONE_BY_ONE = 2**16
"""People counted one by one, at most."""
HALF = 2**13
"""Joint values of half the attributes, at most."""
ROOM = 2**18
"""Joint values before they are brought to a grid."""
SPLIT = 30


@dataclass(frozen=True)
class BoxSums:
    """Functions of the people in a box: ``constants[f] + sum over i of terms[i][f, cell]``.

    Attributes:
        constants: shape (functions,).
        terms: one array (functions, cells) per attribute that has several cells in the box.
        masses: one array (cells,) per such attribute, adding up to at most ``ALL``.
        half: joint values of half the attributes, at most.
    """

    constants: Integers
    terms: tuple[Integers, ...]
    masses: tuple[Integers, ...]
    half: int = HALF

    @property
    def people(self) -> int:
        """How many combinations of cells there are."""
        return math.prod(len(mass) for mass in self.masses)

    def positive(self) -> NDArray[np.bool_]:
        """Return which function is positive for whom, shape (functions, people). Only for few."""
        values = self.constants[:, None]
        for term in self.terms:
            values = (values[:, :, None] + term[:, None, :]).reshape(len(values), -1)
        return np.asarray(values > 0)

    def weights(self) -> Integers:
        """Return masses of all people."""
        return _joint_masses(self.masses)

    def mean(self) -> NDArray[np.float64]:
        """Return the values in the middle of the box; for choices only."""
        middle = self.constants.astype(np.float64)
        for term in self.terms:
            middle = middle + term.mean(axis=1)
        return middle

    def all_positive(self, functions: list[int]) -> int:
        """Return the mass of people for whom all these functions are positive, at least."""
        rows = self._implying_functions(functions)
        if rows is None:
            return 0
        constants, terms = rows
        if not len(constants):
            return ALL
        listed, rest = self._split_attributes(terms)
        one = _enumerate_half([(terms[i], self.masses[i]) for i in listed], len(constants), self.half)
        most = self.half if len(constants) > 1 else 8 * self.half
        other = _enumerate_half([(terms[i], self.masses[i]) for i in rest], len(constants), most)
        return _mass_both_positive(constants, one, other)

    def _split_attributes(self, terms: list[Integers]) -> tuple[list[int], list[int]]:
        """Attributes in two halves: one to be listed in full, of those that move the two conditions apart the most.

        What is left then moves both conditions alike, and a grid over it can be fine.
        """
        apart = _difference_terms(terms)
        worth = [
            (float(np.ptp(gap)) + 0.1 * float(np.ptp(term[0]))) / np.log2(1 + term.shape[1])
            for term, gap in zip(terms, apart, strict=True)
        ]
        listed, size = [], 1
        for i in sorted(range(len(terms)), key=lambda i: -worth[i]):
            if size * terms[i].shape[1] <= self.half:
                listed.append(i)
                size *= terms[i].shape[1]
        return listed, [i for i in range(len(terms)) if i not in listed]

    def _implying_functions(self, functions: list[int]) -> tuple[Integers, list[Integers]] | None:
        """At most two functions whose positivity implies that of all; None if one is never positive."""
        kept: list[tuple[int, list[Integers]]] = []
        for f in functions:
            constant, terms = int(self.constants[f]), [term[f] for term in self.terms]
            if constant + sum(int(term.max()) for term in terms) <= 0:
                return None
            if constant + sum(int(term.min()) for term in terms) > 0:
                continue
            candidate = (constant, terms)
            if any(_never_exceeds(other, candidate) for other in kept):
                continue
            kept = [other for other in kept if not _never_exceeds(candidate, other)]
            kept.append(candidate)
        while len(kept) > 2:
            # The smaller of the terms everywhere is less than both.
            (a, first), (b, second) = kept.pop(), kept.pop()
            kept.insert(0, (min(a, b), [np.minimum(one, two) for one, two in zip(first, second, strict=True)]))
        constants = np.array([constant for constant, _ in kept], dtype=np.int64)
        return constants, [np.stack([terms[i] for _, terms in kept]) for i in range(len(self.terms) if kept else 0)]


def _never_exceeds(one: tuple[int, list[Integers]], other: tuple[int, list[Integers]]) -> bool:
    """Return whether the first function is at most the second for everybody."""
    gap = one[0] - other[0] + sum(int((a - b).max()) for a, b in zip(one[1], other[1], strict=True))
    return gap <= 0


def _difference_terms(terms: list[Integers]) -> list[Integers]:
    """Return how the second of two conditions differs from the first, or from its negative if that differs less."""
    differences = [term[-1] - term[0] if len(term) > 1 else np.zeros_like(term[0]) for term in terms]
    sums = [term[-1] + term[0] if len(term) > 1 else np.zeros_like(term[0]) for term in terms]
    spans = [sum(float(np.ptp(each)) for each in kind) for kind in (differences, sums)]
    return differences if spans[0] <= spans[1] else sums


def _enumerate_half(parts: list[tuple[Integers, Integers]], functions: int, most: int) -> tuple[Integers, Integers]:
    """Return joint values of some attributes, shape (functions, n) with n at most ``most``, and their masses.

    The attributes that matter least come first: a grid over few values of a small range is fine.
    """
    values, masses = np.zeros((functions, 1), dtype=np.int64), np.array([ALL], dtype=np.int64)
    for term, mass in sorted(parts, key=lambda part: int(np.ptp(part[0], axis=1).max())):
        if len(masses) * len(mass) > ROOM:
            term, mass = _round_to_grid(term, mass, max(2, ROOM // len(masses)))
        values = (values[:, :, None] + term[:, None, :]).reshape(functions, -1)
        masses = multiply_masses(masses[:, None], mass[None, :]).ravel()
        if len(masses) > most:
            values, masses = _round_to_grid(values, masses, most)
    return values, masses


def _round_to_grid(values: Integers, masses: Integers, most: int) -> tuple[Integers, Integers]:
    """Return the same with values moved down to a grid of at most so many cells that any of them fall into.

    With two functions the grid is over the first and over what the second is more than the first, or more than its
    negative, whichever varies less. Each function moves down by less than two steps of the grid.
    """
    against = len(values) > 1 and np.ptp(values[1] + values[0]) < np.ptp(values[1] - values[0])
    first = values[0] - values[0].min()
    second = np.zeros_like(first) if len(values) == 1 else values[1] + values[0] if against else values[1] - values[0]
    least = int(second.min())
    second = second - least
    ranges = int(first.max()), int(second.max())
    side = max(1, max(ranges) // most)
    while (ranges[0] // side + 1) * (ranges[1] // side + 1) > most:
        side += side // 8 + 1
    columns = ranges[1] // side + 1
    keys = (first // side) * columns + second // side
    # Sums of whole numbers below 2**53 are exact in float64.
    high = np.bincount(keys, weights=(masses >> SPLIT).astype(np.float64)).astype(np.int64)
    low = np.bincount(keys, weights=(masses & (2**SPLIT - 1)).astype(np.float64)).astype(np.int64)
    joined = (high << SPLIT) + low
    used = np.flatnonzero(joined)
    moved = int(values[0].min()) + (used // columns) * side
    beside = least + (used % columns) * side
    both = [moved, beside - (moved + side - 1) if against else moved + beside]
    return np.stack(both[: len(values)]), joined[used]


def _joint_masses(masses: tuple[Integers, ...]) -> Integers:
    """Return masses of all combinations, each product rounded down."""
    joint = np.array([ALL], dtype=np.int64)
    for mass in masses:
        joint = multiply_masses(joint[:, None], mass[None, :]).ravel()
    return joint


def multiply_masses(a: Integers, b: Integers) -> Integers:
    """Return products of masses, ``a * b / ALL``, at most three units too small. Both are at most ``ALL``."""
    a_high, b_high = a >> SPLIT, b >> SPLIT
    a_low, b_low = a & (2**SPLIT - 1), b & (2**SPLIT - 1)
    return np.asarray(a_high * b_high + ((a_high * b_low) >> SPLIT) + ((a_low * b_high) >> SPLIT))


def _mass_both_positive(constants: Integers, one: tuple[Integers, Integers], other: tuple[Integers, Integers]) -> int:
    """Return the mass of pairs, one of each half, for whom one or two sums are positive."""
    values, masses = other
    order = np.argsort(-values[0], kind="stable")
    values, masses = values[:, order], masses[order]
    # Of the sorted half the first ``asked`` exceed what the first condition still needs.
    needed = -constants[:, None] - one[0]
    asked = np.searchsorted(-values[0], -needed[0], side="left")
    if len(constants) == 1:
        running = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(masses)])
        return int(multiply_masses(one[1], running[asked]).sum())
    count = len(masses)
    levels = max(1, int(count).bit_length())
    size = 1 << levels
    ranks = np.full(size, size, dtype=np.int64)
    by_second = np.argsort(values[1], kind="stable")
    ranks[by_second] = np.arange(count)
    padded = np.zeros(size, dtype=np.int64)
    padded[:count] = masses
    # Ranks from this one on exceed what the second condition still needs.
    wanted = np.searchsorted(values[1][by_second], needed[1], side="right")
    found = np.zeros(one[0].shape[1], dtype=np.int64)
    for level in range(levels + 1):
        width = 1 << level
        here = np.flatnonzero(asked & width)
        if not len(here):
            continue
        block = (asked[here] >> (level + 1)) << 1
        keys = (np.arange(size) >> level) * (2 * size) + ranks
        within = np.argsort(keys, kind="stable")
        running = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(padded[within])])
        start = np.searchsorted(keys[within], block * (2 * size) + wanted[here], side="left")
        # Padding has no mass, and so may be counted.
        found[here] += running[(block + 1) * width] - running[start]
    return int(multiply_masses(one[1], found).sum())
