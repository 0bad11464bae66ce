"""Where a model is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenhand.errors import OptionError


def ending_of(path: Path, endings: Sequence[str]) -> str:
    """The ending of a file, in small letters.

    Raises:
        OptionError: no model of this kind is written so, or there is no such folder.
    """
    ending = path.suffix.lower()
    if ending not in endings:
        raise OptionError(
            f"a model of this kind is not written to a file that ends in {ending!r}",
            where=str(path),
            mend=f"let it end in {' or '.join(endings)}",
        )
    if not path.parent.is_dir():
        raise OptionError("there is no such folder", where=str(path.parent))
    return ending
