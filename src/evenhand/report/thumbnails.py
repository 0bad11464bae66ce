"""Small pictures inside a page, so that it stands alone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

LARGEST = 128 * 1024
"""Bytes of a picture that is put into the page as it is; larger ones are made smaller, if Pillow is installed."""

SIDE = 256
"""Pixels along the longer side of a picture that was made smaller."""

OPENED = 64 * 1024 * 1024
"""Bytes of a picture that is made smaller, at most."""

EXCERPT = 280
"""Characters of a text that are shown."""

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
        data = _small(folder / file, LARGEST) or _smaller(folder / file) if file else None
        data = None if data is None or len(data) > left else data
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


def _smaller(path: Path) -> bytes | None:
    """A large picture made small; None if it is none, or nothing is installed that could do it."""
    data = _small(path, OPENED)
    if data is None or _kind(data) in (None, "image/svg+xml"):
        return None
    try:
        from PIL import Image
    except ImportError:  # a page is worth having without this picture
        return None
    made = BytesIO()
    try:
        with Image.open(BytesIO(data)) as picture:
            picture.draft("RGB", (SIDE, SIDE))
            picture.thumbnail((SIDE, SIDE))
            picture.convert("RGB").save(made, "JPEG", quality=80)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return made.getvalue()


def excerpts(files: Sequence[str | None], folder: Path) -> list[str | None]:
    """The beginning of each text (a file named ``.txt``); None for what is none, or cannot be read.

    Args:
        files: paths, those that are relative below the folder.
        folder: where the table lies that names them.
    """
    found: list[str | None] = []
    for file in files:
        data = _small(folder / file, OPENED) if file and file.lower().endswith(".txt") else None
        text = None if data is None else " ".join(data[: 8 * EXCERPT].decode("utf-8", "replace").split())
        long = text is not None and len(text) > EXCERPT
        found.append(text[: EXCERPT - 1] + "\N{HORIZONTAL ELLIPSIS}" if text is not None and long else text)
    return found


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
