"""Decode pictures in PNG, JPEG, WebP and GIF, and fit them to the size of a model."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, MissingExtraError
from evenhand.genai.backends.generator import Item
from evenhand.genai.spec.pipeline_config import FitMethod

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")

_MAX_PIXELS = 1 << 25
"""Maximum number of pixels, since a file of a few bytes may claim any size."""


def decode_picture(item: Item) -> Pixels:
    """Decode a picture to RGB pixels ``(height, width, 3)``. Transparent pixels become white.

    PNGs of the studio are decoded without a library. Other pictures require Pillow.

    Raises:
        DataError: The item is not a picture, has an unknown format, or is damaged or too large.
        MissingExtraError: Pillow is required and not installed.
    """
    if item.kind != "image" or item.media_type == "image/svg+xml":
        raise DataError(f"an item of type {item.media_type} has no pixels", hint=f"use one of: {', '.join(_FORMATS)}")
    try:
        return read_png(item.data)
    except DataError:
        return _decode_with_pillow(item)


def _decode_with_pillow(item: Item) -> Pixels:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtraError("pillow", extra="pictures", purpose="to decode a picture") from None
    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with Image.open(io.BytesIO(item.data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height > _MAX_PIXELS:
                raise DataError(f"a picture of {width} x {height} pixels is too large")
            upright = ImageOps.exif_transpose(image).convert("RGBA")
            ground = Image.new("RGBA", upright.size, (255, 255, 255, 255))
            return np.asarray(Image.alpha_composite(ground, upright).convert("RGB"))
    except bombs as error:
        raise DataError(f"this picture is too large: {error}") from None
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        # The message of Pillow would name the buffer of the bytes.
        raise DataError(
            "the picture cannot be decoded, or is damaged", hint=f"use one of: {', '.join(_FORMATS)}"
        ) from error


def fit_pixels(pixels: Pixels, size: tuple[int, int], fit: FitMethod) -> NDArray[np.float32]:
    """Resize a picture with smoothing.

    Args:
        pixels: Pixels ``(height, width, 3)``.
        size: Height and width of the result.
        fit: ``stretch`` scales both sides separately, ``cover`` crops the centre to the shape of the result, and
            ``contain`` centres the whole picture on black.

    Returns:
        Colours from 0 to 255 with shape ``(*size, 3)``.
    """
    (height, width), (tall, wide) = pixels.shape[:2], size
    if fit == "cover":
        scale = min(height / tall, width / wide)
        pixels = pixels[_centre(height, tall * scale), _centre(width, wide * scale)]
    if fit == "contain":
        scale = max(height / tall, width / wide)
        rows, columns = _centre(tall, height / scale), _centre(wide, width / scale)
        canvas = np.zeros((tall, wide, 3), np.float32)
        canvas[rows, columns] = _resize_pixels(pixels, (rows.stop - rows.start, columns.stop - columns.start))
        return canvas
    return _resize_pixels(pixels, size)


def _centre(length: int, part: float) -> slice:
    """Select the centre of a side, of about the given length and at least one pixel."""
    size = min(length, max(1, round(part)))
    start = (length - size) // 2
    return slice(start, start + size)


def _resize_pixels(pixels: Pixels, size: tuple[int, int]) -> NDArray[np.float32]:
    if pixels.shape[:2] == size:
        return pixels.astype(np.float32)
    by_column = np.tensordot(_resize_weights(pixels.shape[1], size[1]), pixels.astype(np.float32), axes=(1, 1))
    resized: NDArray[np.float32] = np.tensordot(_resize_weights(pixels.shape[0], size[0]), by_column, axes=(1, 1))
    return resized


def _resize_weights(length: int, resized_length: int) -> NDArray[np.float32]:
    """Compute the weight of each pixel in each resized pixel, by triangles of the width of a resized pixel."""
    scale = length / resized_length
    reach = max(scale, 1.0)
    centres = (np.arange(resized_length) + 0.5) * scale
    distance = np.abs(np.arange(length)[None, :] + 0.5 - centres[:, None]) / reach
    weights = np.maximum(0.0, 1.0 - distance)
    shares: NDArray[np.float32] = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


# PNG files with 8-bit RGB pixels, written and read with the standard library

Pixels = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PLAIN_HEADER = (8, 2, 0, 0, 0)
"""8-bit RGB, the only compression and filter methods, not interlaced."""

_PNG_FRAME = 57
"""Number of bytes of a PNG without its packed pixels."""

_MAX_PNG_PIXELS = 1 << 24
"""Maximum number of pixels, since a file of a few bytes may claim any size."""


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
    """Decode a PNG file that was written by ``write_png`` to pixels ``(height, width, 3)``.

    Raises:
        DataError: The file is damaged, or another kind of PNG.
    """
    if not data.startswith(_SIGNATURE):
        raise DataError("this is not a PNG")
    # The frame before and after the packed pixels has a fixed length.
    width, height = struct.unpack_from(">II", data.ljust(_PNG_FRAME), 16)
    packed, expected = data[41:-16], height * (1 + 3 * width)
    raw = b""
    if 0 < width * height <= _MAX_PNG_PIXELS and _png_file(width, height, packed) == data:
        with suppress(zlib.error):
            raw = zlib.decompressobj().decompress(packed, expected)
    if not raw or len(raw) != expected or any(raw[:: 1 + 3 * width]):  # a row that does not begin with 0 is filtered
        raise DataError("expected an undamaged PNG in the format of the studio")
    rows = np.frombuffer(raw, np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3).copy()
