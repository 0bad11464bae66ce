"""A data set by name: described, found or fetched, checked, and handed over with its schema."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.datasets import store
from evenhand.datasets.description import Card
from evenhand.datasets.entry import Entry, table_hash
from evenhand.datasets.fetch import Progress
from evenhand.datasets.sets import (
    adult,
    bank,
    communities_crime,
    compas,
    diabetes,
    german,
    heart,
    law_school,
    meps15,
    students,
)
from evenhand.errors import DataError, OptionError
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

ENTRIES: dict[str, Entry] = {
    module.ENTRY.name: module.ENTRY
    for module in (
        adult, german, compas, bank, law_school, communities_crime, diabetes, heart, students, meps15
    )
}  # fmt: skip


@dataclass(frozen=True)
class Dataset:
    """People with their schema.

    Attributes:
        name: as in ``load(name)``.
        frame: one row per person; its columns are those of ``card.columns``.
        schema: the attributes, which are protected, the label and which one is favourable.
        card: origin, licence, preparation and all else a reader should know.
    """

    name: str
    frame: pd.DataFrame
    schema: Schema
    card: Card


def names() -> tuple[str, ...]:
    """The data sets that ``load`` knows; the bundled ones come first."""
    return tuple(ENTRIES)


def card(name: str, *, data_home: str | Path | None = None) -> Card:
    """What a reader should know about a data set, and where its file is. Fetches nothing.

    Raises:
        OptionError: there is no such data set.
    """
    entry = _entry(name)
    schema = entry.schema()
    home = store.data_home(data_home)
    found = None if entry.bundled else store.located(entry, home)
    return Card(
        name=entry.name,
        title=entry.title,
        about=entry.about,
        origin=entry.origin,
        publisher=entry.publisher,
        licence=entry.licence,
        citation=entry.citation,
        rows=entry.rows,
        columns=entry.columns(),
        attributes=schema.names,
        extra=entry.extra,
        protected=schema.protected,
        target=schema.target.name,
        favourable=schema.target.favourable,
        preparation=entry.preparation,
        check=_check_in_words(entry),
        sha256=entry.sha256,
        files=entry.files,
        urls=entry.urls,
        place="bundled" if entry.bundled else "here" if found else "to be fetched",
        path=None if entry.bundled else str(found or store.wanted(entry, home)),
    )


def cards(*, data_home: str | Path | None = None) -> list[Card]:
    """All cards, in the order of ``names``."""
    return [card(name, data_home=data_home) for name in ENTRIES]


def load(
    name: str, *, data_home: str | Path | None = None, download: bool = True, progress: Progress | None = None
) -> Dataset:
    """A data set as a frame with its schema.

    A bundled set comes with the package. Any other is read from the data folder (``data_home``, else the
    environment variable EVENHAND_DATA_HOME, else the user's cache folder), and fetched into it from its
    publisher if it is not there. Its content is checked before it is used.

    Args:
        name: one of ``names()``.
        data_home: the folder of data files.
        download: whether to fetch what is not there.
        progress: called while fetching, with the bytes received and the bytes expected or None.

    Raises:
        OptionError: there is no such data set.
        FetchError: it is not here and cannot be (or must not be) fetched; the message says where to put which file.
        DataError: the file is damaged, or is not the data set it should be.

    Example:
        >>> import evenhand
        >>> data = evenhand.datasets.load("german")
        >>> data.schema.protected
        ('age', 'sex')
    """
    entry = _entry(name)
    if entry.bundled:
        frame = _bundled(entry)
    else:
        home = store.data_home(data_home)
        path = store.located(entry, home)
        if path is not None:
            frame = _check(entry, store.content(entry, path), str(path))
        elif download:
            frame = store.fetch(entry, home, lambda data, where: _check(entry, data, where), progress=progress)
        else:
            raise store.absent(entry, home)
    return Dataset(name=name, frame=frame, schema=entry.schema(), card=card(name, data_home=data_home))


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        close = difflib.get_close_matches(name, ENTRIES, n=1)
        raise OptionError(
            f"there is no data set {name!r}",
            mend=(f"did you mean {close[0]}? " if close else "") + f"the data sets are: {', '.join(ENTRIES)}",
        )
    return ENTRIES[name]


def _bundled(entry: Entry) -> pd.DataFrame:
    import lzma
    from importlib.resources import files

    file = files("evenhand.datasets") / "bundled" / entry.bundled
    return entry.prepare(lzma.decompress(file.read_bytes()), entry.name)


def _check(entry: Entry, data: bytes, where: str) -> pd.DataFrame:
    """The prepared frame, once its content is known to be what it should be."""
    frame = entry.prepare(data, where)
    if entry.sha256 is not None and (found := table_hash(frame)) != entry.sha256:
        raise DataError(
            f"this is not the data set {entry.name!r}: the SHA-256 of its table is {found}, expected {entry.sha256}",
            where=where,
            mend="get the file again from its publisher; evenhand datasets says which one",
        )
    if len(frame) != entry.rows:
        raise DataError(
            f"this is not the data set {entry.name!r}: {len(frame):,} rows, expected {entry.rows:,}", where=where
        )
    return frame


def _check_in_words(entry: Entry) -> str:
    if entry.bundled:
        return "bundled with the package"
    if entry.sha256 is not None:
        return "SHA-256 of the table prepared from it, so that any faithful copy is accepted"
    return (
        "columns and number of rows, since no copy was at hand to take a SHA-256 from; the SHA-256 of the file is "
        "recorded when it is first fetched, and checked from then on"
    )
