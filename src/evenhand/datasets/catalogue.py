"""A data set by name: described, found or fetched, checked, and handed over with its schema."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.datasets import store
from evenhand.datasets.entry import DatasetCard, DatasetEntry, table_hash
from evenhand.datasets.sets.education import LAW_SCHOOL, STUDENTS
from evenhand.datasets.sets.finance import ADULT, BANK, GERMAN
from evenhand.datasets.sets.health import DIABETES, HEART, MEPS15
from evenhand.datasets.sets.justice import COMMUNITIES_CRIME, COMPAS
from evenhand.datasets.sets.prompts import DISCRIM_EVAL_EXPLICIT, DISCRIM_EVAL_IMPLICIT
from evenhand.errors import DataError, OptionError
from evenhand.http import DownloadProgress
from evenhand.schema import Schema
from evenhand.text import suggest_name

if TYPE_CHECKING:
    import pandas as pd

ENTRIES: dict[str, DatasetEntry] = {
    entry.name: entry
    for entry in (
        ADULT, GERMAN, COMPAS, BANK, LAW_SCHOOL, COMMUNITIES_CRIME, DIABETES, HEART, STUDENTS, MEPS15,
        DISCRIM_EVAL_EXPLICIT, DISCRIM_EVAL_IMPLICIT,
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
    card: DatasetCard


def dataset_names() -> tuple[str, ...]:
    """Return the data sets that ``load`` knows; the bundled ones come first."""
    return tuple(ENTRIES)


def dataset_card(name: str, *, data_home: str | Path | None = None) -> DatasetCard:
    """Return what a reader should know about a data set, and where its file is. Fetches nothing.

    Raises:
        OptionError: there is no such data set.
    """
    entry = _find_entry(name)
    schema = entry.schema()
    home = store.data_home(data_home)
    found = None if entry.bundled else store.find_file(entry, home)
    return DatasetCard(
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
        check=_describe_check(entry),
        sha256=entry.sha256,
        files=entry.files,
        urls=entry.urls,
        place="bundled" if entry.bundled else "here" if found else "to be fetched",
        path=None if entry.bundled else str(found or store.manual_path(entry, home)),
    )


def dataset_cards(*, data_home: str | Path | None = None) -> list[DatasetCard]:
    """Return all cards, in the order of ``names``."""
    return [dataset_card(name, data_home=data_home) for name in ENTRIES]


def load_dataset(
    name: str, *, data_home: str | Path | None = None, download: bool = True, progress: DownloadProgress | None = None
) -> Dataset:
    """Return a data set as a frame with its schema.

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
        >>> data = evenhand.datasets.load_dataset("german")
        >>> data.schema.protected
        ('age', 'sex')
    """
    entry = _find_entry(name)
    if entry.bundled:
        frame = _read_bundled(entry)
    else:
        home = store.data_home(data_home)
        path = store.find_file(entry, home)
        if path is not None:
            frame = _check_content(entry, store.read_content(entry, path), str(path))
        elif download:
            frame = store.fetch_dataset(
                entry, home, lambda data, location: _check_content(entry, data, location), progress=progress
            )
        else:
            raise store.missing_file_error(entry, home)
    return Dataset(name=name, frame=frame, schema=entry.schema(), card=dataset_card(name, data_home=data_home))


def _find_entry(name: str) -> DatasetEntry:
    if name not in ENTRIES:
        hint = f"{suggest_name(name, ENTRIES)}the data sets are: {', '.join(ENTRIES)}"
        raise OptionError(f"there is no data set {name!r}", hint=hint)
    return ENTRIES[name]


def _read_bundled(entry: DatasetEntry) -> pd.DataFrame:
    import lzma
    from importlib.resources import files

    file = files("evenhand.datasets") / "bundled" / entry.bundled
    return entry.prepare(lzma.decompress(file.read_bytes()), entry.name)


def _check_content(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Return the prepared frame, once its content is known to be what it should be."""
    frame = entry.prepare(data, location)
    if entry.sha256 is not None and (found := table_hash(frame)) != entry.sha256:
        raise DataError(
            f"this is not the data set {entry.name!r}: the SHA-256 of its table is {found}, expected {entry.sha256}",
            location=location,
            hint="get the file again from its publisher; evenhand datasets says which one",
        )
    if len(frame) != entry.rows:
        raise DataError(
            f"this is not the data set {entry.name!r}: {len(frame):,} rows, expected {entry.rows:,}", location=location
        )
    return frame


def _describe_check(entry: DatasetEntry) -> str:
    if entry.bundled:
        return "bundled with the package"
    if entry.sha256 is not None:
        return "SHA-256 of the table prepared from it, so that any faithful copy is accepted"
    return (
        "columns and number of rows, since no copy was at hand to take a SHA-256 from; the SHA-256 of the file is "
        "recorded when it is first fetched, and checked from then on"
    )
