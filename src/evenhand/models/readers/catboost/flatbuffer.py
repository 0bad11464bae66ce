"""FlatBuffers, read field by field: every offset is checked, since a file may hold any bytes.

The format (flatbuffers.dev/internals): a table begins with a signed 32-bit distance back to its vtable, which lists
where in the table each field stands, 0 for a field that is absent. Texts, vectors and tables stand elsewhere: the field
holds the unsigned 32-bit distance from itself to them. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FlatTable:
    """One table of a buffer; its fields are asked for by their number in the format's schema.

    Attributes:
        data: the whole buffer.
        position: where the table begins.

    Raises:
        ValueError: by every method, where the bytes point outside the buffer.
    """

    data: bytes
    position: int

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """Return the table that the buffer holds."""
        return cls(data, _number(data, 0, "I"))

    def scalar(self, field: int, kind: str, default: float = 0) -> Any:
        """Return a number, of a kind as in ``struct``."""
        place = self._place(field)
        return default if place is None else _number(self.data, place, kind)

    def text(self, field: int) -> str:
        """Return a text, empty where there is none."""
        place, length = self._vector(field)
        return self.data[place : place + length].decode("utf-8") if place + length <= len(self.data) else _refuse()

    def array(self, field: int, dtype: str) -> NDArray[Any]:
        """Return a vector of numbers or structs, shape (n,), empty where there is none."""
        place, length = self._vector(field)
        if length * np.dtype(dtype).itemsize > len(self.data) - place:
            _refuse()
        return np.frombuffer(self.data, dtype, length, place) if length else np.zeros(0, dtype)

    def table(self, field: int) -> FlatTable | None:
        """Return a table inside, None where there is none."""
        place = self._place(field)
        return None if place is None else FlatTable(self.data, self._follow(place))

    def tables(self, field: int) -> list[FlatTable]:
        """Return a vector of tables."""
        place, length = self._vector(field)
        if 4 * length > len(self.data) - place:
            _refuse()
        return [FlatTable(self.data, self._follow(place + 4 * i)) for i in range(length)]

    def _place(self, field: int) -> int | None:
        """Return where a field stands, None where it is absent."""
        listed = self.position - _number(self.data, self.position, "i")
        offset = 4 + 2 * field
        if offset + 2 > _number(self.data, listed, "H"):
            return None  # written before the format had this field
        distance = _number(self.data, listed + offset, "H")
        return self.position + distance if distance else None

    def _follow(self, place: int) -> int:
        return place + int(_number(self.data, place, "I"))

    def _vector(self, field: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and how many there are."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = self._follow(place)
        return start + 4, int(_number(self.data, start, "I"))


def _number(data: bytes, place: int, kind: str) -> Any:
    if not 0 <= place <= len(data) - struct.calcsize("<" + kind):
        _refuse()
    return struct.unpack_from("<" + kind, data, place)[0]


def _refuse() -> Any:
    raise ValueError("it points outside itself")
