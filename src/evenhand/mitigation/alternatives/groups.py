"""Groups by joint values of the protected attributes, pooled until each has people with both labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

MIN_PER_LABEL = 10
"""Minimum number of people with each label in a group. Smaller groups are pooled."""

RANGES = 3
"""Number of ranges of equal size that the values of a number are divided into."""


@dataclass(frozen=True, eq=False)
class ProtectedGroups:
    """Function from individuals to groups.

    Attributes:
        schema: Data schema.
        ends: Upper ends of the ranges of each protected attribute, or None for its own values.
        codes: Sorted codes of the groups that are large enough.
        pooled: Position of the group of all other people.
        labels: Label of each group.
    """

    schema: Schema
    ends: dict[str, Floats | None]
    codes: Integers
    pooled: int
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, people: People) -> ProtectedGroups:
        """Create the groups of people.

        Raises:
            DataError: Fewer than two groups have ``MIN_PER_LABEL`` people with each label.
        """
        schema = people.schema
        ends: dict[str, Floats | None] = dict.fromkeys(schema.protected)
        for name in schema.protected:
            if schema[name].kind in ("integer", "real"):
                entries = people.individuals[:, schema.position(name)]
                quantiles = np.nanquantile(entries, [i / RANGES for i in range(1, RANGES)], method="lower")
                ends[name] = np.unique(quantiles)
        groups = cls(schema, ends, np.empty(0, dtype=np.int64), 0)
        codes, favourable = groups._encode(people.individuals), people.favourable
        distinct = np.unique(codes)
        large = distinct[np.array([_is_large(favourable[codes == code]) for code in distinct], dtype=np.bool_)]
        pooled = _is_large(favourable[~np.isin(codes, large)])
        if len(large) + pooled < 2:
            raise DataError(
                f"expected two groups by {' x '.join(schema.protected)} with {MIN_PER_LABEL} people of each label, "
                "got fewer",
                hint="add people, or protect other attributes",
            )
        largest = int(np.argmax([np.sum(codes == code) for code in large])) if len(large) else 0
        firsts = [people.individuals[int(np.argmax(codes == code))] for code in large]
        labels = (*map(groups._label, firsts), *(["others"] if pooled else []))
        return replace(groups, codes=large, pooled=len(large) if pooled else largest, labels=labels)

    def __call__(self, individuals: Floats) -> Integers:
        """Find the group of each individual, shape (n,)."""
        codes = self._encode(individuals)
        if not len(self.codes):
            return np.full(len(codes), self.pooled)
        position = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[position] == codes, position, self.pooled)

    def _label(self, individual: Floats) -> str:
        """Return the label of the group of an individual."""
        words = []
        for name, ends in self.ends.items():
            entry = float(individual[self.schema.position(name)])
            if ends is None or np.isnan(entry):
                words.append(self.schema[name].text(entry))
                continue
            place = int(np.searchsorted(ends, entry))
            above = f"above {ends[place - 1]:g}" if place > 0 else ""
            below = f"up to {ends[place]:g}" if place < len(ends) else ""
            words.append(f"{name} {', '.join(filter(None, (above, below)))}")
        return " x ".join(words)

    def _encode(self, individuals: Floats) -> Integers:
        code = np.zeros(len(individuals), dtype=np.int64)
        for name, ends in self.ends.items():
            entries = individuals[:, self.schema.position(name)]
            count = len(self.schema[name].domain()) if ends is None else len(ends) + 1
            values = entries if ends is None else np.searchsorted(ends, entries).astype(np.float64)
            code = (count + 1) * code + np.where(np.isnan(entries), count, values).astype(np.int64)
        return code


def _is_large(favourable: Booleans) -> bool:
    return bool(favourable.sum() >= MIN_PER_LABEL and (~favourable).sum() >= MIN_PER_LABEL)
