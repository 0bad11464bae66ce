"""Pictures as pixels: PNG, JPEG, WebP and GIF decoded, and brought to the size that a model takes."""

from __future__ import annotations

import io
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, MissingExtraError
from evenhand.genai import png
from evenhand.genai.backends.item import Item
from evenhand.genai.png import Pixels

Fit: TypeAlias = Literal["stretch", "cover", "contain"]

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")

_LARGEST = 1 << 25
"""Pixels: a file of a few bytes must not claim memory without end."""


def decode(item: Item) -> Pixels:
    """The pixels ``(height, width, 3)`` of a picture, in red, green and blue; what is transparent becomes white.

    The studio's PNGs are read without any library; all else needs Pillow.

    Raises:
        DataError: it is no picture, of a kind that is not read, damaged or too large.
        MissingExtraError: it is not as the studio makes them, and Pillow is not installed.
    """
    if item.kind != "image" or item.media_type == "image/svg+xml":
        raise DataError(
            f"an item of type {item.media_type} has no pixels", mend=f"Pictures are read as {', '.join(_FORMATS)}."
        )
    try:
        return png.read(item.data)
    except DataError:
        return _by_pillow(item)


def _by_pillow(item: Item) -> Pixels:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtraError("pillow", extra="pictures", purpose="to decode a picture") from None
    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with Image.open(io.BytesIO(item.data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height > _LARGEST:
                raise DataError(f"a picture of {width} x {height} pixels is not read")
            upright = ImageOps.exif_transpose(image).convert("RGBA")
            ground = Image.new("RGBA", upright.size, (255, 255, 255, 255))
            return np.asarray(Image.alpha_composite(ground, upright).convert("RGB"))
    except bombs as error:
        raise DataError(f"this picture is too large: {error}") from None
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        # Pillow's own words would name the object that the bytes were put into.
        raise DataError(
            "this is no picture that can be decoded, or it is damaged", mend=f"Known are {', '.join(_FORMATS)}."
        ) from error


def fitted(pixels: Pixels, size: tuple[int, int], fit: Fit) -> NDArray[np.float32]:
    """The picture at another size, smoothed as it gets smaller.

    Args:
        pixels: ``(height, width, 3)``.
        size: height and width wanted.
        fit: ``stretch``: each side by itself; ``cover``: the largest part in the middle that has the wanted shape;
            ``contain``: all of it in the middle, on black.

    Returns:
        Colours from 0 to 255, ``(*size, 3)``.
    """
    height, width = pixels.shape[:2]
    tall, wide = size
    if fit == "cover":
        scale = min(height / tall, width / wide)
        rows, columns = min(height, max(1, round(tall * scale))), min(width, max(1, round(wide * scale)))
        top, left = (height - rows) // 2, (width - columns) // 2
        return _resized(pixels[top : top + rows, left : left + columns], size)
    if fit == "contain":
        scale = max(height / tall, width / wide)
        rows, columns = min(tall, max(1, round(height / scale))), min(wide, max(1, round(width / scale)))
        top, left = (tall - rows) // 2, (wide - columns) // 2
        canvas = np.zeros((tall, wide, 3), np.float32)
        canvas[top : top + rows, left : left + columns] = _resized(pixels, (rows, columns))
        return canvas
    return _resized(pixels, size)


def _resized(pixels: Pixels, size: tuple[int, int]) -> NDArray[np.float32]:
    if pixels.shape[:2] == size:
        return pixels.astype(np.float32)
    by_column = np.tensordot(_weights(pixels.shape[1], size[1]), pixels.astype(np.float32), axes=(1, 1))
    resized: NDArray[np.float32] = np.tensordot(_weights(pixels.shape[0], size[0]), by_column, axes=(1, 1))
    return resized


def _weights(before: int, after: int) -> NDArray[np.float32]:
    """How much each pixel of a side weighs in each of the new ones: triangles as wide as what they stand for."""
    scale = before / after
    reach = max(scale, 1.0)
    middles = (np.arange(after) + 0.5) * scale
    distance = np.abs(np.arange(before)[None, :] + 0.5 - middles[:, None]) / reach
    weights = np.maximum(0.0, 1.0 - distance)
    shares: NDArray[np.float32] = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares
