"""UBJSON, the binary JSON format of XGBoost (Universal Binary JSON, draft 12, big-endian)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

MAX_DEPTH = 64
"""Maximum nesting of arrays and objects."""

NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
"""NumPy type of each number marker."""

CONSTANTS: dict[bytes, Any] = {b"Z": None, b"T": True, b"F": False}


def decode_ubjson(data: bytes) -> Any:
    """Decode a value to dict, list, str or number. Typed numeric arrays become NumPy arrays.

    Raises:
        ValueError: the data are not UBJSON or are truncated; the message names the byte.
    """
    reader = _Reader(data)
    value = reader.value(reader.marker(), 0)
    if reader.data[reader.at :].strip(b"N"):
        raise ValueError(f"{len(data) - reader.at} extra bytes at byte {reader.at}")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError(f"{count} bytes expected at byte {self.at}, {len(self.data) - self.at} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def marker(self) -> bytes:
        marker = self.take(1)
        while marker == b"N":  # a no-op, allowed between values
            marker = self.take(1)
        return marker

    def value(self, marker: bytes, depth: int) -> Any:
        if marker in NUMBERS:
            return self.numbers(marker, 1)[0].item()
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"S":
            return self.text(self.marker())
        if marker == b"C":
            return self.take(1).decode("latin-1")
        if marker not in (b"[", b"{"):
            raise ValueError(f"unknown marker {marker!r} at byte {self.at - 1}")
        if depth == MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} at byte {self.at}")
        # A container may declare the type and number of its items.
        kind: bytes | None = None
        count: int | None = None
        announced = self.marker()
        if announced == b"$":
            kind, announced = self.take(1), self.marker()
            if marker != b"[" or kind not in NUMBERS or announced != b"#":
                raise ValueError(f"a container of type {kind!r} at byte {self.at - 1}")
        if announced == b"#":
            count = self.length(self.marker())
        if kind is not None and count is not None:
            return self.numbers(kind, count)
        if marker == b"[":
            return [self.value(item, depth + 1) for item in self.items(announced, count, b"]")]
        return {self.text(item): self.value(self.marker(), depth + 1) for item in self.items(announced, count, b"}")}

    def items(self, first: bytes, count: int | None, closing: bytes) -> Iterator[bytes]:
        """Yield the marker of each item: ``count`` markers, or all up to the closing one."""
        if count is not None:
            for _ in range(count):
                yield self.marker()
            return
        while first != closing:
            yield first
            first = self.marker()

    def numbers(self, marker: bytes, count: int) -> Any:
        kind = np.dtype(NUMBERS[marker])
        return np.frombuffer(self.take(count * kind.itemsize), dtype=kind).astype(kind.newbyteorder("="))

    def length(self, marker: bytes) -> int:
        length = self.numbers(marker, 1)[0].item() if marker in NUMBERS else None
        if not isinstance(length, int) or length < 0:
            raise ValueError(f"no length at byte {self.at - 1}")
        return length

    def text(self, marker: bytes) -> str:
        return self.take(self.length(marker)).decode("utf-8")
