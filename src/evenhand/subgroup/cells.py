"""Cells: each sensitive attribute cut into few parts, out of which rules are made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.schema import Attribute, People
from evenhand.subgroup.rules import Range, Rule

MISSING = "missing"
"""The cell of those whose value is missing."""


@dataclass(frozen=True)
class Cut:
    """How an attribute is cut into cells.

    Attributes:
        attribute: its name.
        names: the cells in words; only values that somebody has.
        edges: of an integer or real attribute, the cells' ends e0 < e1 < ...: cell i holds e_i <= x < e_(i+1), the
            last one its upper end too. None where cells are values.
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

    def rule(self, inside: Sequence[bool] | NDArray[np.bool_]) -> Rule:
        """The rule that holds these cells: a range where the cells are consecutive parts of a number line."""
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

    def cost(self, inside: NDArray[np.bool_]) -> float:
        """How long the rule with these cells is to say: its values, or those left out; a range's ends."""
        within, outside = int(inside.sum()), int((~inside).sum())
        if not self.ordered or (self.missing and inside[-1]):
            return min(within, outside + 0.5)
        if self.edges is None:
            return min(within, 2.0)
        open_ends = bool(inside[0]) + bool(inside[len(self.edges) - 2])
        return 1.0 if within == 1 else 2.0 - 0.5 * open_ends


def cut(people: People, names: Sequence[str], bins: int = 10) -> tuple[tuple[Cut, ...], NDArray[np.int64]]:
    """Cut attributes into cells and say in which everybody is.

    Values stay what they are; numbers are cut into at most ``bins`` parts of equal, round width (1, 2 or 5 times a
    power of ten) over what occurs, whole numbers that are few each for themselves. A missing value is a cell of its
    own, the last one.

    Returns:
        The cuts, and the cell of each person by each attribute, shape (n, len(names)).

    Raises:
        OptionError: an attribute does not exist or is named twice, or there is none.
    """
    if not names:
        raise OptionError("no sensitive attribute is named", mend="name at least one: --protected NAME")
    if len(set(names)) < len(names):
        raise OptionError(f"an attribute is named twice: {', '.join(names)}")
    cuts, codes = [], []
    for name, column in zip(names, people.schema.positions(names), strict=True):
        one, code = cut_entries(people.schema[name], people.individuals[:, column], bins)
        cuts.append(one)
        codes.append(code)
    return tuple(cuts), np.stack(codes, axis=1)


def cut_entries(attribute: Attribute, entries: NDArray[np.float64], bins: int) -> tuple[Cut, NDArray[np.int64]]:
    """Cut one attribute by the entries (n,) that occur."""
    gone = np.isnan(entries)
    known = entries[~gone]
    edges: tuple[float, ...] | None = None
    if attribute.values is not None:
        occurring = np.unique(known)
        labels = [attribute.text(entry) for entry in occurring]
        codes = np.searchsorted(occurring, known)
    else:
        whole = attribute.kind == "integer"
        ends = _ends(known, bins, whole=whole) if len(known) else np.empty(0)
        edges = tuple(ends.tolist())
        codes = np.clip(np.searchsorted(ends, known, side="right") - 1, 0, max(len(ends) - 2, 0))
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
    found = Cut(
        attribute=attribute.name,
        names=tuple(labels),
        edges=edges,
        ordered=attribute.ordered,
        missing=bool(gone.any()),
        whole=attribute.kind == "integer",
    )
    return found, everybody


def _ends(numbers: NDArray[np.float64], bins: int, *, whole: bool) -> NDArray[np.float64]:
    """Ends of cells that hold all numbers: round, equally far apart, at most ``bins`` cells."""
    lowest, highest = float(numbers.min()), float(numbers.max())
    if whole and highest - lowest < bins:
        return np.arange(lowest, highest + 2)
    # Numbers so close together that no round number fits between them are one number for a reader.
    if highest - lowest <= max(1e-12 * max(abs(lowest), abs(highest)), 1e-300):
        return np.array([lowest, highest + 1.0])
    width = (highest - lowest) / bins
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
        if last - first <= bins:
            return np.asarray(np.arange(first, last + 1) * step / scale)
    raise AssertionError("a hundred times the width always suffices")
