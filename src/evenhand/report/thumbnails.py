"""Small pictures inside a page, so that it stands alone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

LARGEST = 128 * 1024
"""Bytes of a picture that is shown at most: pictures are put into the page as they are."""

ALTOGETHER = 12 * 1024 * 1024
"""Bytes of all pictures of a page at most."""


def thumbnails(files: Sequence[str | None], folder: Path) -> list[str | None]:
    """Each file as a data URI; None for what is no small picture (PNG, JPEG, WebP, GIF, SVG) that can be read.

    Args:
        files: paths, those that are relative below the folder.
        folder: where the table lies that names them.
    """
    left = ALTOGETHER
    found: list[str | None] = []
    for file in files:
        data = _small(folder / file, min(LARGEST, left)) if file else None
        kind = None if data is None else _kind(data)
        if data is None or kind is None:
            found.append(None)
            continue
        left -= len(data)
        found.append(f"data:{kind};base64,{b64encode(data).decode('ascii')}")
    return found


def _small(path: Path, most: int) -> bytes | None:
    """The content of a file that is not too large; None if there is none, or it cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > most:
            return None
        return path.read_bytes()
    except (OSError, ValueError):  # a page is worth having without this picture
        return None


def _kind(data: bytes) -> str | None:
    """What a picture is by its first bytes, whatever its name says."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    # As an <img>, a drawing runs no script and fetches nothing.
    return "image/svg+xml" if b"<svg" in data[:1024] else None
