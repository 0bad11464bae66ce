"""UBJSON, the binary form of JSON that XGBoost writes (Universal Binary JSON, draft 12, big-endian)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

MAX_DEPTH = 64
"""Arrays and objects nested deeper than this are refused: no model needs them."""

NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
"""Markers of numbers, and how NumPy calls them."""

CONSTANTS: dict[bytes, Any] = {b"Z": None, b"T": True, b"F": False}


def decode_ubjson(data: bytes) -> Any:
    """Return one value from bytes; objects become dict, strings str, arrays of one number type NumPy arrays.

    Raises:
        ValueError: the bytes are not UBJSON, or end too early; the message says at which byte.
    """
    reader = _UbjsonReader(data)
    value = reader.value(reader.marker(), 0)
    reader.end()
    return value


class _UbjsonReader:
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

    def end(self) -> None:
        if self.data[self.at :].strip(b"N"):
            raise ValueError(f"{len(self.data) - self.at} bytes after the end")

    def value(self, marker: bytes, depth: int) -> Any:
        if marker in NUMBERS:
            return self.number(marker)
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"S":
            return self.text()
        if marker == b"C":
            return self.take(1).decode("latin-1")
        if marker in (b"[", b"{"):
            if depth == MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH} at byte {self.at}")
            return self.array(depth + 1) if marker == b"[" else self.object(depth + 1)
        raise ValueError(f"unknown marker {marker!r} at byte {self.at - 1}")

    def number(self, marker: bytes) -> int | float:
        kind = np.dtype(NUMBERS[marker])
        number: int | float = np.frombuffer(self.take(kind.itemsize), dtype=kind)[0].item()
        return number

    def size(self) -> int:
        marker = self.marker()
        size = self.number(marker) if marker in NUMBERS else None
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"no length at byte {self.at - 1}")
        return size

    def text(self) -> str:
        return self.take(self.size()).decode("utf-8")

    def header(self) -> tuple[bytes | None, int | None, bytes]:
        """Return the type and count that a container may announce, and the marker that follows if there is no count."""
        marker = self.marker()
        kind = None
        if marker == b"$":
            kind = self.take(1)
            marker = self.marker()
            if marker != b"#":
                raise ValueError(f"a type without a count at byte {self.at - 1}")
        if marker == b"#":
            return kind, self.size(), b""
        return kind, None, marker

    def array(self, depth: int) -> Any:
        kind, count, first = self.header()
        if kind is not None and count is not None:
            if kind not in NUMBERS:
                raise ValueError(f"an array of type {kind!r} at byte {self.at - 1}")
            numbers = np.dtype(NUMBERS[kind])
            return np.frombuffer(self.take(count * numbers.itemsize), dtype=numbers).astype(numbers.newbyteorder("="))
        return [self.value(marker, depth) for marker in self.items(count, first, b"]")]

    def object(self, depth: int) -> dict[str, Any]:
        kind, count, first = self.header()
        found: dict[str, Any] = {}
        if kind is not None:
            raise ValueError(f"an object of one type at byte {self.at - 1}")
        for marker in self.items(count, first, b"}"):
            if marker not in NUMBERS:
                raise ValueError(f"no name at byte {self.at - 1}")
            size = self.number(marker)
            if not isinstance(size, int) or size < 0:
                raise ValueError(f"no length at byte {self.at - 1}")
            key = self.take(size).decode("utf-8")
            found[key] = self.value(self.marker(), depth)
        return found

    def items(self, count: int | None, first: bytes, closing: bytes) -> Iterator[bytes]:
        """Yield the marker at the start of each item: ``count`` of them, or up to the closing one."""
        if count is not None:
            for _ in range(count):
                yield self.marker()
            return
        marker = first
        while marker != closing:
            yield marker
            marker = self.marker()
