"""Pictures as PNG, written and read with the standard library: 8 bits, red, green and blue."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError

Pixels = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PLAIN = (8, 2, 0, 0, 0)
"""8 bits, red, green and blue; the one compression and filter method; not interlaced."""

_LARGEST = 1 << 24
"""Pixels: a file of a few bytes must not claim memory without end."""


def write(pixels: Pixels) -> bytes:
    """The file for pixels ``(height, width, 3)``."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">II5B", width, height, *_PLAIN)
    return _SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows.tobytes())) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def read(data: bytes) -> Pixels:
    """The pixels ``(height, width, 3)`` of a file whose rows are not filtered, as ``write`` makes them.

    Raises:
        DataError: it is damaged, or another kind of PNG.
    """
    if not data.startswith(_SIGNATURE):
        raise DataError("this is no PNG")
    position, packed, size = len(_SIGNATURE), b"", (0, 0)
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        name, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        if data[position + 8 + length : position + 12 + length] != struct.pack(">I", zlib.crc32(name + body)):
            raise DataError("this PNG is damaged")
        if name == b"IHDR":
            if len(body) != 13 or tuple(body[8:]) != _PLAIN:
                raise DataError("only PNGs of 8 bits in red, green and blue, not interlaced, are read")
            size = struct.unpack_from(">II", body)
        elif name == b"IDAT":
            packed += body
        position += 12 + length
    width, height = size
    if not 0 < width * height <= _LARGEST:
        raise DataError(f"a PNG of {width} x {height} pixels is not read")
    expected = height * (1 + 3 * width)
    try:
        raw = zlib.decompressobj().decompress(packed, expected)
    except zlib.error as error:
        raise DataError("this PNG is damaged") from error
    if len(raw) != expected:
        raise DataError("this PNG is damaged")
    rows = np.frombuffer(raw, np.uint8).reshape(height, 1 + 3 * width)
    if rows[:, 0].any():
        raise DataError("only PNGs whose rows are not filtered are read")
    return rows[:, 1:].reshape(height, width, 3).copy()
