"""Decisions about individuals, kept in a result so that it can be paired with another result for the same people."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.groups.membership import DecidedPeople
from evenhand.stats.paired import PairedCells


class KeptDecisions(ResultPart):
    """Decisions by cell: people of the same groups and the same true label, in the order of the data.

    A cell has no attributes of individuals: the i-th bit, or number, is the decision about its i-th person.

    Attributes:
        attributes: Protected attributes that define the cells.
        groups: Group of each cell by each attribute.
        deserving: Whether the true label of each cell is favourable; None if it is unknown.
        sizes: Number of people of each cell.
        selected: Decisions as one bit per person, cell by cell, packed into bytes and encoded in base64; empty for
            numeric decisions.
        numbers: Name -> one value per person, cell by cell, as little-endian doubles in base64. ``mean_score`` is the
            score of the favourable label; for numeric decisions, ``mean`` is the decided number and ``mean_residual``
            the decided number minus the true value (NaN if it is unknown).
    """

    attributes: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    deserving: tuple[bool | None, ...]
    sizes: tuple[int, ...]
    selected: str
    numbers: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def keep(cls, people: DecidedPeople) -> KeptDecisions:
        """Sort people into cells, and encode their decisions with a favourable label, or their numbers."""
        memberships, truth, is_number = people.memberships, people.truth, people.decided.dtype.kind == "f"
        labels = np.full(len(people.decided), -1) if is_number or truth is None else truth
        residual = people.decided - truth if is_number and truth is not None else None
        numbers = {"mean": people.decided, "mean_residual": residual} if is_number else {"mean_score": people.scores}
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
            deserving=tuple(None if label < 0 else bool(label) for label in keys[:, -1].tolist()),
            sizes=tuple(sizes.tolist()),
            selected="" if is_number else encode(np.packbits(people.decided[order] == 1)),
            numbers={
                name: encode(values[order].astype("<f8")) for name, values in numbers.items() if values is not None
            },
        )

    def pairs_with(self, other: KeptDecisions) -> bool:
        """Check that both have the same cells with the same number of people."""
        fields = ("attributes", "groups", "deserving", "sizes")
        return all(getattr(self, name) == getattr(other, name) for name in fields)

    def pair(self, after: KeptDecisions) -> PairedCells:
        """Count the people of each cell by their decision before (here) and after.

        Raises:
            DataError: The encoded decisions do not match the cells.
        """
        return PairedCells.count(self.cells, self._bits(), after._bits(), len(self.sizes))

    @property
    def cells(self) -> Integers:
        """Cell of each person."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def number(self, name: str) -> Floats | None:
        """Decode a number of each person, cell by cell; None if it was not kept.

        Raises:
            DataError: The number of values differs from the number of people.
        """
        if name not in self.numbers:
            return None
        return self._decode(self.numbers[name], 8 * sum(self.sizes)).view("<f8").astype(np.float64)

    def cells_of(self, by: Sequence[str], labels: Sequence[str]) -> Integers:
        """Return the positions of the cells of a group."""
        places, group = [self.attributes.index(name) for name in by], tuple(labels)
        cells = [i for i, values in enumerate(self.groups) if tuple(values[place] for place in places) == group]
        return np.array(cells, dtype=int)

    def _bits(self) -> Booleans:
        people = sum(self.sizes)
        return np.unpackbits(self._decode(self.selected, -(-people // 8)), count=people).astype(bool)

    def _decode(self, text: str, size: int) -> NDArray[np.uint8]:
        """Decode a number of bytes from base64."""
        try:
            packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
        except ValueError:
            packed = np.zeros(0, dtype=np.uint8)
        if len(packed) != size:
            raise DataError(
                f"expected stored decisions of {sum(self.sizes):,} people, got another count", hint="repeat the audit"
            )
        return packed


def fingerprint_people(people: DecidedPeople) -> str:
    """Compute the SHA-256 of all groups and true labels (or numbers), in the order of the data.

    Counted people have no order, so their fingerprint differs from that of the same people as single rows.
    """
    digest = hashlib.sha256()
    for membership in people.memberships:
        # Empty groups and the order of the groups come from the schema, not from the people.
        order = np.argsort(membership.labels)
        present, codes = np.unique(np.argsort(order)[membership.codes], return_inverse=True)
        digest.update(repr((membership.name, *(membership.labels[i] for i in order[present]))).encode())
        digest.update(codes.astype("<i8").tobytes())
    for column in (people.counts, people.truth):
        digest.update(b"" if column is None else column.tobytes())
    return digest.hexdigest()
