"""Pictures and texts of a recorded sequence, small enough to be embedded in a page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from evenhand.genai.assessment.result import SequenceFinding

SHOWN = 240
"""Maximum number of items shown per sequence."""

LARGEST = 128 * 1024
"""Maximum size of an unchanged picture in bytes. Pillow, if installed, shrinks larger ones."""

SIDE = 256
"""Length of the longer side of a resized picture, in pixels."""

LARGEST_OPENED = 64 * 1024 * 1024
"""Maximum size of a picture to be resized, in bytes."""

EXCERPT = 280
"""Maximum number of characters shown of a text."""

MOST_BYTES = 12 * 1024 * 1024
"""Maximum total size of the pictures on a page, in bytes."""


class ShownItem(NamedTuple):
    """Picture or text of an item, with its values.

    Attributes:
        number: of the item, from 1.
        image: the picture as a data URI; text: the beginning of the text.
        values: values that it shows; late: values that were due but not shown.
    """

    number: int
    image: str | None
    text: str | None
    values: tuple[str, ...]
    late: tuple[str, ...]


class ItemGallery(NamedTuple):
    """Readable items of a sequence, and numbers of the others.

    Attributes:
        items: in the order of the requests.
        first: number of items read; more: number of other items.
        unread: number of items that could not be shown.
    """

    items: tuple[ShownItem, ...]
    first: int
    more: int
    unread: int


def collect_items(sequence: SequenceFinding, folder: str) -> ItemGallery:
    """Collect the readable pictures and texts of a sequence with their values."""
    values_by_file: dict[int, list[str]] = {}
    late: dict[int, list[str]] = {}
    for group in (named for named in sequence.groups if len(named.groups) == 1):
        for value in group.values:
            for number in value.appearances:
                values_by_file.setdefault(group.items[number - 1], []).append(value.value)
            for number in value.missed:
                late.setdefault(group.items[number - 1], []).append(value.value)
    files = sequence.files[:SHOWN]
    pairs = zip(make_thumbnails(files, Path(folder)), read_excerpts(files, Path(folder)), strict=True)
    readable = tuple(
        ShownItem(i, image, text, tuple(values_by_file.get(i, ())), tuple(late.get(i, ())))
        for i, (image, text) in enumerate(pairs, start=1)
        if image is not None or text is not None
    )
    return ItemGallery(readable, len(files), len(sequence.files) - len(files), len(files) - len(readable))


def make_thumbnails(files: Sequence[str | None], folder: Path) -> list[str | None]:
    """Return files as data URIs; None for files that are not small pictures (PNG, JPEG, WebP, GIF, SVG).

    Args:
        files: paths. Relative ones are below the folder.
        folder: folder of the table that contains the paths.
    """
    left = MOST_BYTES
    thumbnails: list[str | None] = []
    for file in files:
        data = _read_small(folder / file, LARGEST) or _shrink_picture(folder / file) if file else None
        data = None if data is None or len(data) > left else data
        kind = None if data is None else _picture_type(data)
        if data is None or kind is None:
            thumbnails.append(None)
            continue
        left -= len(data)
        thumbnails.append(f"data:{kind};base64,{b64encode(data).decode('ascii')}")
    return thumbnails


def _read_small(path: Path, max_bytes: int) -> bytes | None:
    """Return the content of a file that is not too large; None if there is none, or it cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > max_bytes:
            return None
        return path.read_bytes()
    except (OSError, ValueError):  # the page is useful without this picture
        return None


def _shrink_picture(path: Path) -> bytes | None:
    """Resize a large picture; None if it is not a picture, or no installed library can resize it."""
    data = _read_small(path, LARGEST_OPENED)
    if data is None or _picture_type(data) in (None, "image/svg+xml"):
        return None
    try:
        from PIL import Image
    except ImportError:  # the page is useful without this picture
        return None
    buffer = BytesIO()
    try:
        with Image.open(BytesIO(data)) as picture:
            picture.draft("RGB", (SIDE, SIDE))
            picture.thumbnail((SIDE, SIDE))
            picture.convert("RGB").save(buffer, "JPEG", quality=80)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return buffer.getvalue()


def read_excerpts(files: Sequence[str | None], folder: Path) -> list[str | None]:
    """Return the beginning of each text (a file named ``.txt``); None for other files, and where it cannot be read.

    Args:
        files: paths. Relative ones are below the folder.
        folder: folder of the table that contains the paths.
    """
    excerpts: list[str | None] = []
    for file in files:
        data = _read_small(folder / file, LARGEST_OPENED) if file and file.lower().endswith(".txt") else None
        text = None if data is None else " ".join(data[: 8 * EXCERPT].decode("utf-8", "replace").split())
        long = text is not None and len(text) > EXCERPT
        excerpts.append(text[: EXCERPT - 1] + "\N{HORIZONTAL ELLIPSIS}" if text is not None and long else text)
    return excerpts


def _picture_type(data: bytes) -> str | None:
    """Determine the type of a picture from its first bytes."""
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
