"""Cells: each sensitive attribute cut into few parts, out of which rules are made.

Numbers are cut by how many people have them, not by their width: a long tail or a single absurd entry (an age of 999)
leaves the cells of everybody else as fine as they were. Ends are round, since people read them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core.text import format_percent
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People
from evenhand.subgroups.result import AttributeCells
from evenhand.subgroups.rules import MISSING, MOST_NAMED, Range, Rule

LARGE_CELL = 0.8
"""Share of the people in one cell of a number from which on a reader is warned."""

FEWEST = 0.3
"""Share of the people of a cell that either part has at least when it is divided at a round number."""

DIGITS = 17
"""Digits that an end has, at most."""

CellEnds: TypeAlias = Callable[[Floats, int, bool], Floats]
"""``ends(numbers, cells, whole)``: the ends of at most so many cells that hold all the numbers, ascending."""


@dataclass(frozen=True)
class AttributeCut:
    """How an attribute is cut into cells.

    Attributes:
        attribute: its name.
        names: the cells in words; only values that somebody has.
        edges: of an integer or real attribute, the cells' ends in ascending order: cell i holds e_i <= x <
            e_(i+1), the last one its upper end too. None where cells are values.
        ordered: whether rules are contiguous ranges of cells; else they are subsets.
        missing: whether the last cell holds those whose value is missing.
        whole: whether the numbers are whole.
    """

    attribute: str
    names: tuple[str, ...]
    edges: tuple[float, ...] | None
    ordered: bool
    missing: bool = False
    whole: bool = False

    @property
    def cells(self) -> AttributeCells:
        """Description of the cells in a result."""
        return AttributeCells(name=self.attribute, cells=self.names, ordered=self.ordered)

    def rule(self, inside: Sequence[bool] | Booleans) -> Rule:
        """Return the rule that holds these cells: a range where the cells are consecutive parts of a number line."""
        chosen = [i for i, holds in enumerate(inside) if holds]
        if self.edges is None or (self.missing and chosen[-1] == len(self.names) - 1):
            return tuple(self.names[i] for i in chosen)
        first, last = chosen[0], chosen[-1]
        cells = len(self.edges) - 1
        low = None if first == 0 else self.edges[first]
        if last == cells - 1:
            return Range(low=low)
        end = self.edges[last + 1]
        return Range(low=low, high=end - 1, closed=True) if self.whole else Range(low=low, high=end, closed=False)

    def cost(self, inside: Booleans) -> float:
        """Return how long the rule with these cells is to say: its values, or those left out; a range's ends."""
        within, outside = int(inside.sum()), int((~inside).sum())
        if not self.ordered or (self.missing and inside[-1]):
            return min(within, outside + 0.5) if within > MOST_NAMED else within
        if self.edges is None:
            return min(within, 2.0)
        open_ends = bool(inside[0]) + bool(inside[len(self.edges) - 2])
        return 1.0 if within == 1 else 2.0 - 0.5 * open_ends


def cut_attributes(
    people: People, names: Sequence[str], bins: int = 10, ends: CellEnds | None = None
) -> tuple[tuple[AttributeCut, ...], Integers]:
    """Cut attributes into cells and say in which everybody is.

    Values stay what they are. A missing value is a cell of its own, the last one.

    Args:
        people: everybody.
        names: the attributes.
        bins: cells of a number, at most.
        ends: where numbers are cut; by default near their quantiles, see ``quantile_ends``.

    Returns:
        The cuts, and the cell of each person by each attribute, shape (n, len(names)).

    Raises:
        OptionError: an attribute does not exist or is named twice, or there is none.
    """
    if not names:
        raise OptionError("no sensitive attribute is named", hint="name at least one: `protected=NAME`")
    if len(set(names)) < len(names):
        raise OptionError(f"an attribute is named twice: {', '.join(names)}")
    cuts, codes = [], []
    for name, column in zip(names, people.schema.positions(names), strict=True):
        one, code = cut_entries(people.schema[name], people.individuals[:, column], bins, ends, people.counts)
        cuts.append(one)
        codes.append(code)
    return tuple(cuts), np.stack(codes, axis=1)


def cut_entries(
    attribute: Attribute,
    entries: Floats,
    bins: int,
    ends: CellEnds | None = None,
    counts: Integers | None = None,
) -> tuple[AttributeCut, Integers]:
    """Cut one attribute by the entries (n,) that occur; ``counts`` is how many people each stands for, else one."""
    gone = np.isnan(entries)
    known = entries[~gone]
    edges: tuple[float, ...] | None = None
    if attribute.values is not None:
        occurring = np.unique(known)
        labels = [attribute.text(entry) for entry in occurring]
        codes = np.searchsorted(occurring, known)
    else:
        whole = attribute.kind == "integer"
        if not len(known):
            places = np.empty(0)
        elif ends is None:
            places = quantile_ends(known, bins, whole, None if counts is None else counts[~gone])
        else:
            places = ends(known, bins, whole)
        edges = tuple(places.tolist())
        codes = np.clip(np.searchsorted(places, known, side="right") - 1, 0, max(len(places) - 2, 0))
        labels = [
            Range(low=low, high=high - 1).words()
            if whole
            else Range(low=low, high=high, closed=i == len(edges) - 2).words()
            for i, (low, high) in enumerate(itertools.pairwise(edges))
        ]
    if gone.any():
        labels.append(MISSING)
    everybody = np.full(len(entries), len(labels) - 1, dtype=np.int64)
    everybody[~gone] = codes
    found = AttributeCut(
        attribute=attribute.name,
        names=tuple(labels),
        edges=edges,
        ordered=attribute.ordered,
        missing=bool(gone.any()),
        whole=attribute.kind == "integer",
    )
    return found, everybody


def quantile_ends(numbers: Floats, cells: int, whole: bool, people: Integers | None = None) -> Floats:
    """Return ends between which lie about equally many of the numbers, at round numbers.

    Until there are so many cells, the one with the most people is divided: at the roundest number that leaves at least
    ``FEWEST`` of them on either side, else as near to their median as can be. A number that many people share is a cell
    of its own sooner or later, and whole numbers within ``cells`` of each other are so from the beginning. ``people``
    is how many have each of the numbers, else one.
    """
    different, code = np.unique(numbers, return_inverse=True)
    counts = np.bincount(code, weights=people).astype(np.int64)
    lowest, highest = float(different[0]), float(different[-1])
    if whole and highest - lowest < cells:
        return np.arange(lowest, highest + 2)
    if _is_one_number(lowest, highest):
        return np.array([lowest, highest + 1.0])
    before = np.concatenate([[0], np.cumsum(counts)])
    ends = [lowest, highest + 1.0 if whole else highest]
    # Each part holds the numbers from one position among the different ones up to another.
    parts = [(0, len(different))]
    while len(parts) < cells and (divisible := [part for part in parts if part[1] - part[0] > 1]):
        first, last = max(divisible, key=lambda part: before[part[1]] - before[part[0]])
        share = (before[first + 1 : last] - before[first]) / (before[last] - before[first])
        median = first + 1 + int(np.abs(share - 0.5).argmin())
        near = first + 1 + np.flatnonzero(np.abs(share - 0.5) <= 0.5 - FEWEST)
        low, high = (int(near[0]), int(near[-1])) if len(near) else (median, median)
        end = _round_number(float(different[low - 1]), float(different[median]), float(different[high]))
        place = int(np.searchsorted(different, end))
        parts.remove((first, last))
        parts += [(first, place), (place, last)]
        ends.append(end)
    return np.sort(ends)


def _round_number(low: float, middle: float, high: float) -> float:
    """Return the roundest number above ``low`` and not above ``high``; of equally round ones that nearest ``middle``.

    Multiples of 5, 2 and 1 times a power of ten are round, the rounder the higher the power.
    """
    if low < 0 <= high:
        return 0.0
    largest = math.floor(math.log10(max(abs(low), abs(high))))
    for power in range(largest, max(largest - DIGITS, -300), -1):
        # Dividing by a power of ten keeps ends like 0.3 as they are written.
        step, scale = (10.0**power, 1.0) if power >= 0 else (1.0, 10.0**-power)
        for unit in (5 * step, 2 * step, step):
            first, last = math.floor(low * scale / unit) + 1, math.floor(high * scale / unit)
            if first <= last:
                found = min(max(round(middle * scale / unit), first), last) * unit / scale
                if low < found <= high:
                    return found
    return high


def equal_width_ends(numbers: Floats, cells: int, whole: bool) -> Floats:
    """Return ends that are round and equally far apart, as the published methods cut numbers.

    The width is 1, 2 or 5 times a power of ten; whole numbers that are few are cells of their own.
    """
    lowest, highest = float(numbers.min()), float(numbers.max())
    if whole and highest - lowest < cells:
        return np.arange(lowest, highest + 2)
    if _is_one_number(lowest, highest):
        return np.array([lowest, highest + 1.0])
    width = (highest - lowest) / cells
    power = math.floor(math.log10(width))
    for factor in (1, 2, 5, 10, 20, 50, 100):
        # Dividing by a power of ten keeps ends like 0.3 as they are written.
        scale = 10.0**-power if power < 0 else 1.0
        step = factor * (10.0**power if power >= 0 else 1.0)
        if whole and step / scale < 1:
            continue
        first = math.floor(lowest * scale / step + 1e-9)
        last = math.ceil(highest * scale / step - 1e-9)
        if whole and highest * scale / step >= last:
            last += 1
        if last - first <= cells:
            return np.asarray(np.arange(first, last + 1) * step / scale)
    raise AssertionError("a hundred times the width always suffices")


def _is_one_number(lowest: float, highest: float) -> bool:
    """Return whether numbers are so close together that no round number fits between them."""
    return highest - lowest <= max(1e-12 * max(abs(lowest), abs(highest)), 1e-300)


def describe_large_cells(
    cuts: Sequence[AttributeCut], codes: Integers, counts: Integers | None = None
) -> tuple[str, ...]:
    """Return a warning for each number of which a single cell holds more than ``LARGE_CELL`` of the people.

    Args:
        cuts: of the attributes.
        codes: the cell of each person by each of them, shape (n, attributes).
        counts: how many people each of these stands for; None: one.
    """
    notes = []
    for cut, code in zip(cuts, codes.T, strict=True):
        people = np.bincount(code, weights=counts, minlength=1)
        share = people / max(people.sum(), 1)
        largest = int(share.argmax())
        if cut.edges is not None and len(cut.names) > 1 and share[largest] > LARGE_CELL:
            notes.append(
                f"{format_percent(float(share[largest]))} of the people are in one cell of {cut.attribute}, "
                f"{cut.names[largest]}: gaps inside it cannot be seen."
            )
    return tuple(notes)
