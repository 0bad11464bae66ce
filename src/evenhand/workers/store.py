"""What was computed of units of work, kept in a folder: work that was stopped goes on from there."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand import __version__
from evenhand.errors import DataError, OptionError
from evenhand.files import write_atomically
from evenhand.version import without_commit

INDEX = "work.json"


def fingerprint_of(kind: str, *parts: Any) -> str:
    """Return what tells work from other work: its kind, this version, and what it is about.

    Parts are arrays, plain values, and data classes, mappings and sequences of these.
    """
    return hashlib.sha256(b"".join(_say(kind, without_commit(__version__), *parts))).hexdigest()


def _say(*parts: Any) -> Iterator[bytes]:
    for part in parts:
        yield f"<{type(part).__name__} ".encode()
        if isinstance(part, np.ndarray) and part.dtype != object:
            yield f"{part.dtype} {part.shape}".encode()
            yield np.ascontiguousarray(part).tobytes()
        elif dataclasses.is_dataclass(part):
            yield from _say({one.name: getattr(part, one.name) for one in dataclasses.fields(part)})
        elif isinstance(part, Mapping):
            yield from _say(*(each for item in part.items() for each in item))
        elif isinstance(part, list | tuple | np.ndarray):
            yield from _say(*part)
        elif isinstance(part, set | frozenset):
            yield from _say(*sorted(part, key=repr))
        elif part is None or isinstance(part, str | bytes | int | float | Fraction | np.generic | Enum):
            yield repr(part).encode()
        elif hasattr(part, "model_dump"):
            yield from _say(part.model_dump())
        else:
            raise TypeError(f"a fingerprint is of values, not of {type(part).__name__}")
        yield b">"


class UnitStore:
    """A folder with a file of arrays for each unit that is done.

    Args:
        folder: it is made unless it is there.
        kind: what the work is, in a word or two.
        fingerprint: of all that the results depend on, or several by what they are of.

    Raises:
        OptionError: the folder is of other work.
        DataError: it cannot be made or read.
    """

    def __init__(self, folder: Path, kind: str, fingerprint: str | Mapping[str, str]) -> None:
        self._folder = folder
        about = {"question": fingerprint} if isinstance(fingerprint, str) else dict(fingerprint)
        mine = {"kind": kind, "version": without_commit(__version__), **about}
        index = folder / INDEX
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not any(folder.iterdir()):
                write_atomically(index, json.dumps(mine))
            found = json.loads(index.read_text()) if index.exists() else None
        except (OSError, ValueError) as error:
            raise DataError(f"what was computed cannot be kept there: {error}", location=str(folder)) from None
        if found is None:
            raise OptionError(
                "the folder has files, and they are not of work that was begun",
                location=str(folder),
                hint="name a folder that is empty or not there yet",
            )
        changed = [name for name, value in mine.items() if not isinstance(found, dict) or found.get(name) != value]
        if changed:
            raise OptionError(
                f"the folder is of other work: not the same {' and '.join(changed)}",
                location=str(folder),
                hint="repeat the command that it was begun with, or name another folder",
            )

    def read(self, unit: int | str) -> dict[str, NDArray[Any]] | None:
        """Return the arrays of a unit, a number or a name; None if it is not done, or its file is damaged."""
        try:
            with np.load(io.BytesIO(self._path(unit).read_bytes()), allow_pickle=False) as found:
                return dict(found)
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None

    def write(self, unit: int | str, arrays: dict[str, NDArray[Any]]) -> None:
        """Keep the arrays of a unit that is done."""
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]  # names of arrays, not its options
        write_atomically(self._path(unit), content.getvalue())

    def _path(self, unit: int | str) -> Path:
        return self._folder / (f"unit-{unit:06d}.npz" if isinstance(unit, int) else f"{unit}.npz")
