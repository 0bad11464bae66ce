"""Cells of sensitive attributes, and families of the rules that are built from them.

Numbers are binned by quantiles, not by width, so that a long tail or a single outlier (an age of 999) does not widen
all other cells. Ends are round numbers, for readability.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core.text import format_percent
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People
from evenhand.subgroups.result import AttributeCells
from evenhand.subgroups.rules import MISSING, Range, Rule, Rules, describe_rules

LARGE_CELL = 0.8
"""Share of the people in one cell of a numeric attribute above which a note warns."""

MIN_PART = 0.3
"""Minimum share of a cell on either side of a round number that divides it."""

DIGITS = 17
"""Maximum number of digits of the end of a range."""

MOST_RULES = 1024
"""Maximum number of subsets of one attribute's values. Beyond ten values, only small subsets and their complements."""

CellEnds: TypeAlias = Callable[[Floats, int, bool], Floats]
"""``ends(numbers, cells, integral)``: the ends of at most this many cells, which contain all numbers, ascending."""


@dataclass(frozen=True)
class AttributeCut:
    """Cells of an attribute.

    Attributes:
        attribute: Name of the attribute.
        names: Descriptions of the cells. Values that do not occur have no cell.
        edges: Ends of the cells of a numeric attribute, ascending: cell i contains e_i <= x < e_(i+1), and the last one
            also its upper end. None if cells are values.
        ordered: Whether rules are contiguous ranges of cells. Otherwise, they are subsets.
        missing: Whether the last cell contains missing values.
        integral: Whether the numbers are integers.
    """

    attribute: str
    names: tuple[str, ...]
    edges: tuple[float, ...] | None
    ordered: bool
    missing: bool = False
    integral: bool = False

    @property
    def cells(self) -> AttributeCells:
        """Description of the cells in a result."""
        return AttributeCells(name=self.attribute, cells=self.names, ordered=self.ordered)

    def rule(self, inside: Sequence[bool] | Booleans) -> Rule:
        """Build a rule from cells: a range of numbers, or a list of values."""
        chosen = [i for i, member in enumerate(inside) if member]
        if self.edges is None or (self.missing and chosen[-1] == len(self.names) - 1):
            return tuple(self.names[i] for i in chosen)
        lowest_cell, highest_cell = chosen[0], chosen[-1]
        low = None if lowest_cell == 0 else self.edges[lowest_cell]
        if highest_cell == len(self.edges) - 2:
            return Range(low=low)
        end = self.edges[highest_cell + 1]
        return Range(low=low, high=end - 1, closed=True) if self.integral else Range(low=low, high=end, closed=False)


def select_known(people: People, names: Sequence[str]) -> Integers:
    """Find the rows of the people whose values of these attributes are all known.

    Raises:
        OptionError: Every person has an unknown value.
    """
    rows = np.flatnonzero(people.is_known(names))
    if not len(rows):
        raise OptionError(
            f"no person in the data has known values of all of {', '.join(names)}", hint="name fewer attributes"
        )
    return rows


def cut_attributes(
    people: People, names: Sequence[str], bins: int = 10, ends: CellEnds | None = None
) -> tuple[tuple[AttributeCut, ...], Integers]:
    """Cut attributes into cells. Missing values form the last cell.

    Args:
        people: All people.
        names: Attributes.
        bins: Maximum number of cells of a numeric attribute.
        ends: Function that computes the ends of the cells of numbers. If None, the ends are near quantiles, see
            ``quantile_ends``.

    Returns:
        Cuts, and the cell of each person by each attribute, shape (n, len(names)).

    Raises:
        OptionError: An attribute does not exist or is named twice, or no attribute is named.
    """
    if not names:
        raise OptionError("no sensitive attribute is named", hint="name at least one: `protected=NAME`")
    if len(set(names)) < len(names):
        raise OptionError(f"an attribute is named twice: {', '.join(names)}")
    cuts, codes = [], []
    for column in map(people.schema.position, names):
        attribute, entries = people.schema.attributes[column], people.individuals[:, column]
        cut, code = cut_entries(attribute, entries, bins, ends, people.counts)
        cuts.append(cut)
        codes.append(code)
    return tuple(cuts), np.stack(codes, axis=1)


def cut_entries(
    attribute: Attribute,
    entries: Floats,
    bins: int,
    ends: CellEnds | None = None,
    counts: Integers | None = None,
) -> tuple[AttributeCut, Integers]:
    """Cut one attribute into cells. Each of the entries (n,) represents one person, or ``counts`` people."""
    missing = np.isnan(entries)
    present = entries[~missing]
    edges: tuple[float, ...] | None = None
    integral = attribute.kind == "integer"
    if attribute.values is not None:
        occurring = np.unique(present)
        labels = [attribute.text(entry) for entry in occurring]
        codes = np.searchsorted(occurring, present)
    else:
        if not len(present):
            places = np.empty(0)
        elif ends is None:
            places = quantile_ends(present, bins, integral, None if counts is None else counts[~missing])
        else:
            places = ends(present, bins, integral)
        edges = tuple(places.tolist())
        codes = np.clip(np.searchsorted(places, present, side="right") - 1, 0, max(len(places) - 2, 0))
        labels = [
            Range(low=low, high=high - integral, closed=integral or i == len(edges) - 2).words()
            for i, (low, high) in enumerate(itertools.pairwise(edges))
        ]
    if missing.any():
        labels.append(MISSING)
    cells = np.full(len(entries), len(labels) - 1, dtype=np.int64)
    cells[~missing] = codes
    return AttributeCut(
        attribute=attribute.name,
        names=tuple(labels),
        edges=edges,
        ordered=attribute.ordered,
        missing=bool(missing.any()),
        integral=integral,
    ), cells


def quantile_ends(numbers: Floats, cells: int, integral: bool, people: Integers | None = None) -> Floats:
    """Compute round ends of cells with about equally many numbers.

    The cell with the most people is divided until there are enough cells: at the roundest number that leaves at least
    ``MIN_PART`` of them on either side, or else as near to their median as possible. A number that many people share
    eventually gets its own cell, and integers within ``cells`` of each other always do.

    Args:
        numbers: Numbers.
        cells: Maximum number of cells.
        integral: Whether the numbers are integers.
        people: Number of people with each value. Default: one.
    """
    different, code = np.unique(numbers, return_inverse=True)
    counts = np.bincount(code, weights=people).astype(np.int64)
    lowest, highest = float(different[0]), float(different[-1])
    if (few := _few_cells(lowest, highest, cells, integral)) is not None:
        return few
    cumulative = np.concatenate([[0], np.cumsum(counts)])
    ends = [lowest, highest + 1.0 if integral else highest]
    # Each part contains the distinct numbers from one position up to another.
    parts = [(0, len(different))]
    while len(parts) < cells and (divisible := [part for part in parts if part[1] - part[0] > 1]):
        start, stop = max(divisible, key=lambda part: cumulative[part[1]] - cumulative[part[0]])
        share = (cumulative[start + 1 : stop] - cumulative[start]) / (cumulative[stop] - cumulative[start])
        median = start + 1 + int(np.abs(share - 0.5).argmin())
        near = start + 1 + np.flatnonzero(np.abs(share - 0.5) <= 0.5 - MIN_PART)
        low, high = (int(near[0]), int(near[-1])) if len(near) else (median, median)
        end = _round_number(float(different[low - 1]), float(different[median]), float(different[high]))
        place = int(np.searchsorted(different, end))
        parts.remove((start, stop))
        parts += [(start, place), (place, stop)]
        ends.append(end)
    return np.sort(ends)


def _few_cells(lowest: float, highest: float, cells: int, integral: bool) -> Floats | None:
    """Compute the ends of one cell per integer, or of a single cell if all numbers are equal. None otherwise."""
    if integral and highest - lowest < cells:
        return np.arange(lowest, highest + 2)
    # No round number fits between numbers that are equal up to rounding.
    if highest - lowest <= max(1e-12 * max(abs(lowest), abs(highest)), 1e-300):
        return np.array([lowest, highest + 1.0])
    return None


def _round_number(low: float, middle: float, high: float) -> float:
    """Find the roundest number above ``low`` and at most ``high``. Ties are broken by the distance from ``middle``.

    Round numbers are multiples of 5, 2 or 1 times a power of ten. Higher powers are rounder.
    """
    if low < 0 <= high:
        return 0.0
    largest = math.floor(math.log10(max(abs(low), abs(high))))
    for power in range(largest, max(largest - DIGITS, -300), -1):
        # Dividing by a power of ten avoids rounding errors, such as 0.30000000000000004.
        step, scale = (10.0**power, 1.0) if power >= 0 else (1.0, 10.0**-power)
        for unit in (5 * step, 2 * step, step):
            smallest, greatest = math.floor(low * scale / unit) + 1, math.floor(high * scale / unit)
            if smallest <= greatest:
                number = min(max(round(middle * scale / unit), smallest), greatest) * unit / scale
                if low < number <= high:
                    return number
    return high


def equal_width_ends(numbers: Floats, cells: int, integral: bool) -> Floats:
    """Compute equally spaced round ends of cells, as in the published method.

    The width is 1, 2 or 5 times a power of ten. If there are few integers, each gets its own cell.
    """
    lowest, highest = float(numbers.min()), float(numbers.max())
    if (few := _few_cells(lowest, highest, cells, integral)) is not None:
        return few
    power = math.floor(math.log10((highest - lowest) / cells))
    # Dividing by a power of ten avoids rounding errors, such as 0.30000000000000004.
    unit, scale = (10.0**power, 1.0) if power >= 0 else (1.0, 10.0**-power)
    for factor in (1, 2, 5, 10, 20, 50, 100):
        step = factor * unit
        if integral and step / scale < 1:
            continue
        lowest_step = math.floor(lowest * scale / step + 1e-9)
        highest_step = math.ceil(highest * scale / step - 1e-9)
        if integral and highest * scale / step >= highest_step:
            highest_step += 1
        if highest_step - lowest_step <= cells:
            return np.asarray(np.arange(lowest_step, highest_step + 1) * step / scale)
    raise AssertionError("a hundred times the width always suffices")


def describe_large_cells(
    cuts: Sequence[AttributeCut], codes: Integers, counts: Integers | None = None
) -> tuple[str, ...]:
    """Describe each numeric attribute with more than ``LARGE_CELL`` of the people in a single cell.

    Args:
        cuts: Cuts of the attributes.
        codes: Cell of each person by each attribute, shape (n, attributes).
        counts: Number of people per row. If None, each row is one person.
    """
    notes = []
    for cut, code in zip(cuts, codes.T, strict=True):
        people = np.bincount(code, weights=counts, minlength=1)
        share = people / max(people.sum(), 1)
        largest = int(share.argmax())
        if cut.edges is not None and len(cut.names) > 1 and share[largest] > LARGE_CELL:
            notes.append(
                f"{format_percent(float(share[largest]))} of the people are in one cell of {cut.attribute}, "
                f"{cut.names[largest]}: gaps within it cannot be detected."
            )
    return tuple(notes)


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
