"""People as small numbers: per attribute the values that occur, and who has which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.schema import Attribute, People, Value
from evenhand.typing import Booleans, Floats, Integers


@dataclass(frozen=True)
class CodedColumns:
    """Attributes as positions among the entries that occur.

    Attributes:
        attributes: in the order of an individual's entries.
        entries: per attribute the entries that occur, increasing.
        codes: shape (n, attributes), positions in ``entries``; -1 where the value is missing.
    """

    attributes: tuple[Attribute, ...]
    entries: tuple[Floats, ...]
    codes: Integers

    def count(self, one: int, other: int, among: Booleans | None = None) -> Integers:
        """Return how many people have each pair of values, shape (entries of one, entries of other)."""
        first, second = self.codes[:, one], self.codes[:, other]
        known = (first >= 0) & (second >= 0)
        known = known if among is None else known & among
        shape = len(self.entries[one]), len(self.entries[other])
        cells = np.bincount(first[known] * shape[1] + second[known], minlength=shape[0] * shape[1])
        return cells.reshape(shape)

    def value(self, column: int, code: int) -> Value:
        """Return a value as it stands in the data."""
        attribute, entry = self.attributes[column], float(self.entries[column][code])
        if attribute.values is not None:
            return attribute.values[int(entry)]
        return int(entry) if attribute.kind == "integer" else entry


def code_columns(people: People) -> CodedColumns:
    """Return people's attributes as positions among the entries that occur."""
    individuals = people.individuals[:, : len(people.schema.attributes)]
    codes = np.full(individuals.shape, -1, dtype=np.int64)
    entries = []
    for column, values in enumerate(individuals.T):
        known = ~np.isnan(values)
        found, codes[known, column] = np.unique(values[known], return_inverse=True)
        entries.append(found)
    return CodedColumns(people.schema.attributes, tuple(entries), codes)
