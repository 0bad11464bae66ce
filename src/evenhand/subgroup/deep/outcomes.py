"""What happened to the people, and what would have if the outcomes were dealt out anew, by occupied cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.stats import permuted_counts, permuted_sums
from evenhand.subgroup.cube import Occupied
from evenhand.subgroup.deep.kernel import LANES

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcomes:
    """What happened to the people, by occupied cell.

    Attributes:
        cells: the occupied cells.
        amounts: per cell the positives, or the sum of the scores less everybody's mean score, shape (cells,).
        mean: what was taken off each score; 0 for counts.
        blocks: the same with the outcomes dealt out anew, LANES permutations in each, (cells, LANES); the last one is
            filled up with zeros.
        permutations: how many there are.
        moments: mean and one over the standard deviation of a group's amount under permutation, by its size.
    """

    cells: Occupied
    amounts: Floats
    mean: float
    blocks: tuple[NDArray[np.generic], ...]
    permutations: int
    moments: Floats

    @property
    def people(self) -> int:
        """How many there are."""
        return int(self.cells.sizes.sum())


def outcomes(
    cells: Occupied, values: Floats, *, counted: bool, permutations: int, rng: np.random.Generator
) -> Outcomes:
    """Deal the outcomes out anew, ``permutations`` times, among everybody.

    Args:
        cells: the occupied cells.
        values: 0 or 1 or a score of each person, shape (n,).
        counted: whether they are 0 and 1.
    """
    number, people = len(cells.sizes), len(values)
    mean = 0.0
    if not counted:
        mean = float(values.mean())
        values = _summable(values - mean)
    amounts = np.bincount(cells.of, weights=values, minlength=number).astype(np.float64)
    largest = int(cells.sizes.max(initial=0))
    kind = np.float32 if not counted or largest > 65535 else np.uint16 if largest > 255 else np.uint8
    blocks: list[NDArray[np.generic]] = []
    for first in range(0, permutations, LANES):
        many = min(LANES, permutations - first)
        block: NDArray[Any] = np.zeros((number, LANES), dtype=kind)
        if counted:
            block[:, :many] = permuted_counts(cells.sizes, int(amounts.sum()), many, rng).T
        else:
            block[:, :many] = permuted_sums(cells.of, values, number, many, rng).T
        blocks.append(block)
    n = np.arange(people + 1)
    variance = float(((values - values.mean()) ** 2).sum()) / max(people - 1, 1)
    deviation = np.sqrt(n * (people - n) / people * variance)
    scale = np.divide(1.0, deviation, out=np.zeros(people + 1), where=deviation > 0)
    moments = np.stack([n * (amounts.sum() / people), scale])
    return Outcomes(cells, amounts, mean, tuple(blocks), permutations, moments)


def _summable(values: Floats) -> Floats:
    """Values rounded to a grid on which sums of them are exact in any order (about 1e-15 n of the largest)."""
    largest = float(np.abs(values).max(initial=0.0)) * len(values)
    if largest == 0:
        return values
    grid = 2.0 ** (math.ceil(math.log2(largest)) - 52)
    return np.asarray(np.rint(values / grid) * grid)
