"""What happened to the people, and what would have if the outcomes were dealt out anew, by occupied cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.deep.kernel import LANES, Strata
from evenhand.subgroup.tabulate import Table

Floats = NDArray[np.float64]

ENTRIES = 1 << 22
"""Amounts held at once in double precision, about."""


@dataclass(frozen=True)
class Outcomes:
    """What happened to the people, by occupied cell.

    Attributes:
        amounts: per cell the positives; or of scores what exceeds their stratum's mean, summed; shape (cells,).
        blocks: the same with the outcomes dealt out anew, LANES permutations in each, (cells, LANES); the last one is
            filled up with zeros.
        permutations: how many there are.
        strata: everybody.
    """

    amounts: Floats
    blocks: tuple[NDArray[np.generic], ...]
    permutations: int
    strata: Strata


def outcomes(table: Table, permutations: int, rng: np.random.Generator) -> Outcomes:
    """Deal the outcomes out anew, ``permutations`` times, within strata."""
    people, total, squares = table.totals
    mean = total / np.maximum(people, 1)
    spread = np.maximum(squares - total * mean, 0.0)
    spread = np.where(spread > 1e-12 * np.maximum(squares, 1e-300), spread, 0.0)
    strata = Strata(
        people=people.astype(np.int64),
        mean=mean if table.counted else np.zeros(table.strata),
        variance=spread / np.maximum(people - 1, 1),
        skewness=table.skewness,
    )
    usual = np.zeros(len(table.cells.sizes)) if table.counted else mean[table.cells.codes[:, -1]] * table.cells.sizes
    largest = int(table.cells.sizes.max(initial=0))
    kind = np.float32 if not table.counted or largest > 65535 else np.uint16 if largest > 255 else np.uint8
    at_once = max(1, ENTRIES // max(len(usual), 1))
    blocks: list[NDArray[np.generic]] = []
    for first in range(0, permutations, LANES):
        many = min(LANES, permutations - first)
        block: NDArray[Any] = np.zeros((len(usual), LANES), dtype=kind)
        for at in range(0, many, at_once):
            drawn = table.permuted(min(at_once, many - at), rng)
            block[:, at : at + len(drawn)] = (drawn - usual).T
        blocks.append(block)
    amounts = table.sums(table.values) - usual
    return Outcomes(amounts if table.counted else _summable(amounts), tuple(blocks), permutations, strata)


def _summable(amounts: Floats) -> Floats:
    """Amounts rounded to a grid on which sums of them are exact in any order (about 1e-15 of them all together)."""
    largest = float(np.abs(amounts).sum())
    if largest == 0:
        return amounts
    grid = 2.0 ** (math.ceil(math.log2(largest)) - 52)
    return np.asarray(np.rint(amounts / grid) * grid)
