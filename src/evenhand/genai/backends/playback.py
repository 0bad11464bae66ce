"""A sequence of items that was recorded, played back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evenhand.errors import DataError
from evenhand.genai.backends.item import Item

_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
}


class Playback:
    """A generator that hands out recorded items in their order, whatever it is asked for.

    Args:
        items: in the order in which they are handed out.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = list(items)
        self._next = 0

    @classmethod
    def of_files(cls, paths: Iterable[Path]) -> Playback:
        """The items in files: pictures by their suffix, and texts in ``.txt``.

        Raises:
            DataError: a file cannot be read, or its suffix is unknown.
        """
        return cls([_read(Path(path)) for path in paths])

    def __len__(self) -> int:
        """How many items are left."""
        return len(self._items) - self._next

    def resume(self, made: int) -> None:
        """Go on as if so many items had been handed out already."""
        self._next = min(made, len(self._items))

    def generate(self, prompt: str) -> Item:
        """The next item.

        Raises:
            DataError: there are no more.
        """
        if not len(self):
            raise DataError(
                f"all {len(self._items)} recorded items were played back", mend="Record more, or ask for fewer."
            )
        item = self._items[self._next]
        self._next += 1
        return item


def _read(path: Path) -> Item:
    suffix = path.suffix.lower()
    if suffix != ".txt" and suffix not in _IMAGES:
        raise DataError(f"{path.name} is neither a picture nor a text", mend=f"Known: .txt, {', '.join(_IMAGES)}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
    return Item("text", data, "text/plain") if suffix == ".txt" else Item("image", data, _IMAGES[suffix])
