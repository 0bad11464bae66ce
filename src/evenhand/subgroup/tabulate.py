"""The people as a table: cells, strata and sums, out of which every rule set's numbers are added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.stats import permuted_counts, permuted_sums
from evenhand.subgroup.cube import Occupied, occupied

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """The people that a measure is about, by cell.

    Attributes:
        cells: the occupied cells of the sensitive attributes, with one more column per rule set asked about (0 or 1)
            and a last one for the stratum.
        attributes: how many sensitive attributes there are.
        values: 0 or 1, or a score, of each person, shape (n,).
        counted: whether values are 0 and 1.
        stratum: of each person, shape (n,).
        strata: how many there are.
    """

    cells: Occupied
    attributes: int
    values: Floats
    counted: bool
    stratum: Ints
    strata: int

    @property
    def people(self) -> int:
        """How many there are."""
        return len(self.values)

    def sums(self, weights: Floats | None = None) -> Floats:
        """People, or sums of a weight of each, by occupied cell, shape (cells,)."""
        return np.bincount(self.cells.of, weights=weights, minlength=len(self.cells.sizes)).astype(np.float64)

    def asked(self) -> NDArray[np.bool_]:
        """Which occupied cells each rule set asked about holds, shape (asked, cells)."""
        return np.asarray(self.cells.codes[:, self.attributes : -1].T == 1)

    def asked_sizes(self) -> list[tuple[int, int]]:
        """People in and outside each rule set asked about, who have somebody to be compared with in their stratum."""
        everybody = self.totals[0]
        size = self.asked() @ self.by_stratum(self.sums()).T
        part = (size > 0) & (size < everybody) if self.strata > 1 else np.ones(size.shape, dtype=bool)
        rest = np.where(part, everybody - size, 0).sum(axis=1)
        return [(int(a), int(b)) for a, b in zip(np.where(part, size, 0).sum(axis=1), rest, strict=True)]

    def by_stratum(self, per_cell: Floats) -> Floats:
        """A number per occupied cell spread out over strata, shape (strata, cells)."""
        spread = np.zeros((self.strata, len(per_cell)))
        spread[self.cells.codes[:, -1], np.arange(len(per_cell))] = per_cell
        return spread

    @property
    def totals(self) -> tuple[Floats, Floats, Floats]:
        """Of each stratum: people, sum of values, sum of squared values, shape (strata,)."""
        n, total, squares = (
            np.bincount(self.stratum, weights=weights, minlength=self.strata).astype(np.float64)
            for weights in (None, self.values, np.square(self.values))
        )
        return n, total, squares

    @property
    def skewness(self) -> Floats:
        """Skewness of the values in each stratum, 0 where they do not differ, shape (strata,)."""
        n, total, squares = self.totals
        mean = total / np.maximum(n, 1)
        away = self.values - mean[self.stratum]
        second, third = (
            np.bincount(self.stratum, weights=away**power, minlength=self.strata) / np.maximum(n, 1) for power in (2, 3)
        )
        varied = second > 1e-12 * np.maximum(squares / np.maximum(n, 1), 1e-300)
        return np.divide(third, np.maximum(second, 1e-300) ** 1.5, out=np.zeros(self.strata), where=varied)

    def permuted(self, permutations: int, rng: np.random.Generator) -> Floats:
        """Sums by occupied cell when the values are dealt out anew within each stratum, (permutations, cells)."""
        drawn = np.zeros((permutations, len(self.cells.sizes)))
        for stratum in range(self.strata):
            here = np.flatnonzero(self.cells.codes[:, -1] == stratum)
            chosen = np.flatnonzero(self.stratum == stratum) if self.strata > 1 else slice(None)
            values = self.values[chosen]
            if self.counted:
                drawn[:, here] = permuted_counts(self.cells.sizes[here], int(values.sum()), permutations, rng)
            else:
                of = np.searchsorted(here, self.cells.of[chosen])
                drawn[:, here] = permuted_sums(of, values, len(here), permutations, rng)
        return drawn


def tabulate(
    codes: Ints,
    values: Floats,
    *,
    counted: bool,
    asked: NDArray[np.bool_] | None = None,
    stratum: Ints | None = None,
) -> Table:
    """Put people into a table.

    Args:
        codes: the cell of each by each sensitive attribute, shape (n, attributes).
        values: 0 or 1, or a score, of each.
        counted: whether values are 0 and 1.
        asked: who is in each rule set that was asked about, shape (n, asked); it need not be made of cells.
        stratum: of each, 0, 1, ...; all the same where it is None.
    """
    n = len(values)
    asked = np.zeros((n, 0), dtype=bool) if asked is None else asked
    stratum = np.zeros(n, dtype=np.int64) if stratum is None else stratum
    cells = occupied(np.column_stack([codes, asked.astype(np.int64), stratum]))
    return Table(cells, codes.shape[1], values, counted, stratum, int(stratum.max(initial=0)) + 1)
