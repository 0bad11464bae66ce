"""Decode pictures in PNG, JPEG, WebP and GIF, and fit them to the size of a model."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, MissingExtraError
from evenhand.genai.backends.generator import Item
from evenhand.genai.spec.pipeline_config import FitMethod

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")

_MAX_PIXELS = 1 << 25
"""Maximum number of pixels, because a file of a few bytes may claim any size."""


def decode_picture(item: Item) -> Pixels:
    """Decode a picture to RGB pixels ``(height, width, 3)``. Transparent pixels become white.

    PNGs of the studio are decoded without a library. Other pictures require Pillow.

    Raises:
        DataError: The item is not a picture, has an unknown format, or is damaged or too large.
        MissingExtraError: Pillow is required but not installed.
    """
    if item.kind != "image" or item.media_type == "image/svg+xml":
        raise DataError(f"an item of type {item.media_type} has no pixels", hint=f"use one of: {', '.join(_FORMATS)}")
    try:
        return read_png(item.data)
    except DataError:
        return _decode_with_pillow(item)


def _decode_with_pillow(item: Item) -> Pixels:
    pillow = import_pillow()
    bombs = (pillow.Image.DecompressionBombError, pillow.Image.DecompressionBombWarning)
    try:
        with pillow.Image.open(io.BytesIO(item.data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height > _MAX_PIXELS:
                raise DataError(f"a picture of {width} x {height} pixels is too large")
            upright = pillow.ImageOps.exif_transpose(image).convert("RGBA")
            ground = pillow.Image.new("RGBA", upright.size, (255, 255, 255, 255))
            return np.asarray(pillow.Image.alpha_composite(ground, upright).convert("RGB"))
    except bombs as error:
        raise DataError(f"this picture is too large: {error}") from None
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        # Pillow's message would name the byte buffer.
        raise DataError(
            "the picture cannot be decoded, or is damaged", hint=f"use one of: {', '.join(_FORMATS)}"
        ) from error


def import_pillow() -> Any:
    """Import Pillow. Raises a MissingExtraError if it is not installed."""
    try:
        import PIL.ImageOps
    except ImportError:
        raise MissingExtraError("pillow", extra="pictures", purpose="to decode or resize a picture") from None
    return PIL


def fit_pixels(pixels: Pixels, size: tuple[int, int], fit: FitMethod) -> Pixels:
    """Resize a picture with bilinear smoothing.

    Args:
        pixels: Pixels ``(height, width, 3)``.
        size: Height and width of the result.
        fit: ``stretch`` scales both sides separately, ``cover`` crops the centre to the shape of the result, and
            ``contain`` centres the whole picture on black.

    Raises:
        MissingExtraError: The size changes, but Pillow is not installed.
    """
    if pixels.shape[:2] == size:
        return pixels
    pillow = import_pillow()
    image, smooth = pillow.Image.fromarray(pixels), pillow.Image.Resampling.BILINEAR
    sides = (size[1], size[0])
    match fit:
        case "stretch":
            image = image.resize(sides, smooth)
        case "cover":
            image = pillow.ImageOps.fit(image, sides, smooth)
        case "contain":
            image = pillow.ImageOps.pad(image, sides, smooth)
    return np.asarray(image)


# PNG files with 8-bit RGB pixels, written and read with the standard library

Pixels = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PLAIN_HEADER = (8, 2, 0, 0, 0)
"""8-bit RGB, the only compression and filter methods, not interlaced."""

_PNG_FRAME = 57
"""Number of bytes of a PNG without its packed pixels."""

_MAX_PNG_PIXELS = 1 << 24
"""Maximum number of pixels, because a file of a few bytes may claim any size."""


def write_png(pixels: Pixels) -> bytes:
    """Encode pixels ``(height, width, 3)`` as a PNG file."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    return _png_file(width, height, zlib.compress(rows.tobytes()))


def _png_file(width: int, height: int, packed: bytes) -> bytes:
    chunks = ((b"IHDR", struct.pack(">II5B", width, height, *_PLAIN_HEADER)), (b"IDAT", packed), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def read_png(data: bytes) -> Pixels:
    """Decode a PNG file that was written by ``write_png``. Raises a DataError if it is damaged or of another kind."""
    if not data.startswith(_SIGNATURE):
        raise DataError("this is not a PNG")
    # The frame before and after the packed pixels has a fixed length.
    width, height = struct.unpack_from(">II", data.ljust(_PNG_FRAME), 16)
    packed, expected = data[41:-16], height * (1 + 3 * width)
    raw = b""
    if 0 < width * height <= _MAX_PNG_PIXELS and _png_file(width, height, packed) == data:
        with suppress(zlib.error):
            raw = zlib.decompressobj().decompress(packed, expected)
    if not raw or len(raw) != expected or any(raw[:: 1 + 3 * width]):  # a row that does not start with 0 is filtered
        raise DataError("expected an undamaged PNG in the format of the studio")
    rows = np.frombuffer(raw, np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3).copy()
