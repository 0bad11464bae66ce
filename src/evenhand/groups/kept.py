"""Decisions kept in a result, one bit per person, to pair a result with another about the same people."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

import numpy as np

from evenhand.core import ResultPart
from evenhand.errors import DataError
from evenhand.groups.membership import Membership
from evenhand.stats import PairedCells
from evenhand.typing import Booleans, Integers


class KeptDecisions(ResultPart):
    """Who was selected, by cell: people of the same groups and the same true label, in the order of the data.

    No attribute of a single person is in it: a bit says what was decided about the i-th person of a cell.

    Attributes:
        attributes: the protected attributes that cells are made by.
        groups: the group of each cell by each attribute.
        deserving: whether the true label of a cell's people is favourable; None where that is not known.
        sizes: people of each cell.
        selected: one bit per person, cell after cell, packed into bytes and written in base64.
    """

    attributes: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    deserving: tuple[bool | None, ...]
    sizes: tuple[int, ...]
    selected: str

    @classmethod
    def keep(cls, memberships: Sequence[Membership], favoured: Booleans, deserving: Booleans | None) -> KeptDecisions:
        """Sort people into cells and keep who was selected."""
        truth = np.zeros(len(favoured), dtype=np.int64) if deserving is None else deserving.astype(np.int64)
        table = np.column_stack([*(membership.codes for membership in memberships), truth])
        keys, cell, sizes = np.unique(table, axis=0, return_inverse=True, return_counts=True)
        order = np.argsort(cell.reshape(-1), kind="stable")
        return cls(
            attributes=tuple(membership.name for membership in memberships),
            groups=tuple(
                tuple(membership.labels[code] for membership, code in zip(memberships, key, strict=False))
                for key in keys.tolist()
            ),
            deserving=tuple(None if deserving is None else bool(key[-1]) for key in keys.tolist()),
            sizes=tuple(sizes.tolist()),
            selected=base64.b64encode(np.packbits(favoured[order]).tobytes()).decode("ascii"),
        )

    def pairs_with(self, other: KeptDecisions) -> bool:
        """Return whether both are about as many people in the same cells."""
        return (self.attributes, self.groups, self.deserving, self.sizes) == (
            other.attributes, other.groups, other.deserving, other.sizes
        )  # fmt: skip

    def pair(self, after: KeptDecisions) -> PairedCells:
        """Count who was selected before (here) and after, in each cell.

        Raises:
            DataError: the bits of one do not fit its cells.
        """
        cells = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return PairedCells.count(cells, self._bits(), after._bits(), len(self.sizes))

    def cells_of(self, by: Sequence[str], labels: Sequence[str]) -> Integers:
        """Return the positions of the cells that make up a group."""
        places = [self.attributes.index(name) for name in by]
        wanted = tuple(labels)
        return np.array(
            [i for i, own in enumerate(self.groups) if tuple(own[at] for at in places) == wanted], dtype=int
        )

    def _bits(self) -> Booleans:
        people = sum(self.sizes)
        try:
            packed = np.frombuffer(base64.b64decode(self.selected, validate=True), dtype=np.uint8)
        except ValueError:
            packed = np.zeros(0, dtype=np.uint8)
        if len(packed) != -(-people // 8):
            raise DataError(f"the decisions kept are not those of {people:,} people", hint="write the report again")
        return np.unpackbits(packed, count=people).astype(bool)


def fingerprint_people(memberships: Sequence[Membership], deserving: Booleans | None) -> str:
    """Return the SHA-256 of everybody's groups and true label, in the order of the data."""
    found = hashlib.sha256()
    for membership in memberships:
        # Groups that nobody is in, and the order of the groups, are the schema's and not the people's.
        codes, position = np.unique(membership.codes, return_inverse=True)
        names = [membership.labels[code] for code in codes.tolist()]
        rank = np.empty(len(names), dtype="<i8")
        rank[np.argsort(names)] = np.arange(len(names))
        found.update(repr((membership.name, *sorted(names))).encode())
        found.update(rank[position].tobytes())
    found.update(b"" if deserving is None else np.packbits(deserving).tobytes())
    return found.hexdigest()
