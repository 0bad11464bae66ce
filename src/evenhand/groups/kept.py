"""Decisions kept in a result, a bit or a number per person, to pair a result with another about the same people."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.groups.membership import Membership
from evenhand.stats.paired import PairedCells


class KeptDecisions(ResultPart):
    """Decisions by cell: people of the same groups and the same true label, in the order of the data.

    A cell holds no attribute of a single person: one bit, or one number, is the decision about its i-th person.

    Attributes:
        attributes: Protected attributes that define the cells.
        groups: Group of each cell by each attribute.
        deserving: Whether the true label of a cell's people is favourable; None where it is unknown.
        sizes: people of each cell.
        selected: one bit per person, cell after cell, packed into bytes and written in base64; empty where a number is
            decided.
        numbers: name -> a number of each person, cell after cell, doubles (least significant byte first) in base64:
            ``mean_score``, the score of the favourable label; of a number that is decided ``mean``, the number itself,
            and ``mean_residual``, the same minus the true one (NaN where that is unknown).
    """

    attributes: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    deserving: tuple[bool | None, ...]
    sizes: tuple[int, ...]
    selected: str
    numbers: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def keep(
        cls,
        memberships: Sequence[Membership],
        selected: Booleans | None,
        true_labels: Integers | None,
        numbers: Mapping[str, Floats],
    ) -> KeptDecisions:
        """Sort people into cells and keep their decisions, and their numbers by name.

        True labels are 1 favourable, 0 unfavourable and -1 unknown.
        """
        labels = np.full(len(memberships[0].codes), -1) if true_labels is None else true_labels
        table = np.column_stack([*(membership.codes for membership in memberships), labels])
        keys, cell, sizes = np.unique(table, axis=0, return_inverse=True, return_counts=True)
        order = np.argsort(cell.reshape(-1), kind="stable")

        def encode(values: NDArray[Any]) -> str:
            return base64.b64encode(values.tobytes()).decode("ascii")

        return cls(
            attributes=tuple(membership.name for membership in memberships),
            groups=tuple(
                tuple(membership.labels[code] for membership, code in zip(memberships, key, strict=False))
                for key in keys.tolist()
            ),
            deserving=tuple(None if key[-1] < 0 else bool(key[-1]) for key in keys.tolist()),
            sizes=tuple(sizes.tolist()),
            selected="" if selected is None else encode(np.packbits(selected[order])),
            numbers={name: encode(values[order].astype("<f8")) for name, values in numbers.items()},
        )

    def pairs_with(self, other: KeptDecisions) -> bool:
        """Return whether both are about as many people in the same cells."""
        return (self.attributes, self.groups, self.deserving, self.sizes) == (
            other.attributes,
            other.groups,
            other.deserving,
            other.sizes,
        )

    def pair(self, after: KeptDecisions) -> PairedCells:
        """Count who was selected before (here) and after, in each cell.

        Raises:
            DataError: the bits of one do not fit its cells.
        """
        return PairedCells.count(self.cells, self._bits(), after._bits(), len(self.sizes))

    @property
    def cells(self) -> Integers:
        """The cell of each person, in the order in which they are kept."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def number(self, name: str) -> Floats | None:
        """Return a number of each person, in the order in which they are kept; None where it is not kept.

        Raises:
            DataError: there are not as many numbers as people.
        """
        if name not in self.numbers:
            return None
        return self._decode(self.numbers[name], 8 * sum(self.sizes)).view("<f8").astype(np.float64)

    def cells_of(self, by: Sequence[str], labels: Sequence[str]) -> Integers:
        """Return the positions of the cells that make up a group."""
        places = [self.attributes.index(name) for name in by]
        wanted = tuple(labels)
        return np.array(
            [i for i, own in enumerate(self.groups) if tuple(own[at] for at in places) == wanted], dtype=int
        )

    def _bits(self) -> Booleans:
        people = sum(self.sizes)
        return np.unpackbits(self._decode(self.selected, -(-people // 8)), count=people).astype(bool)

    def _decode(self, text: str, size: int) -> NDArray[np.uint8]:
        """Return the bytes that a text stands for, which must be so many."""
        try:
            packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
        except ValueError:
            packed = np.zeros(0, dtype=np.uint8)
        if len(packed) != size:
            raise DataError(
                f"the decisions kept are not those of {sum(self.sizes):,} people", hint="write the report again"
            )
        return packed


def fingerprint_people(
    memberships: Sequence[Membership], truth: Integers | Floats | None, counts: Integers | None = None
) -> str:
    """Compute the SHA-256 of all groups and true labels (or numbers), in the order of the data.

    Args:
        memberships: Groups of all people.
        truth: True labels (1 favourable, 0 unfavourable, -1 unknown) or true numbers, shape (n,); None without.
        counts: Number of people that each entry stands for, shape (n,); None: one. Counted people have no order, so
            their fingerprint differs from that of the same people one by one.
    """
    found = hashlib.sha256() if counts is None else hashlib.sha256(counts.astype("<i8").tobytes())
    for membership in memberships:
        # Groups that nobody is in, and the order of the groups, are the schema's and not the people's.
        codes, position = np.unique(membership.codes, return_inverse=True)
        names = [membership.labels[code] for code in codes.tolist()]
        rank = np.empty(len(names), dtype="<i8")
        rank[np.argsort(names)] = np.arange(len(names))
        found.update(repr((membership.name, *sorted(names))).encode())
        found.update(rank[position].tobytes())
    if truth is not None and truth.dtype.kind == "f":
        found.update(truth.tobytes())
    elif truth is not None:
        found.update(np.packbits(truth == 1).tobytes())
        if (truth < 0).any():
            found.update(np.packbits(truth < 0).tobytes())
    return found.hexdigest()
