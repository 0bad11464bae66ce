"""Data sets by name: cards, and loading with a check of the content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.core.http import DownloadProgress
from evenhand.core.text import suggest_name
from evenhand.datasets import store
from evenhand.datasets.entry import NAMES, DatasetCard, DatasetEntry, read_entry
from evenhand.datasets.preparation import prepare_dataset, table_hash
from evenhand.datasets.tables import decompress_file
from evenhand.errors import DataError, OptionError
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

BUNDLED = Path(__file__).parent / "bundled"


@dataclass(frozen=True)
class Dataset:
    """A data set with its schema.

    Attributes:
        name: Name of the data set.
        frame: One row per person, with the columns ``card.columns``.
        schema: Attributes, protected attributes and target.
        card: Origin, licence, preparation and other facts about the data.
    """

    name: str
    frame: pd.DataFrame
    schema: Schema
    card: DatasetCard


def dataset_names() -> tuple[str, ...]:
    """Return the names of the data sets; the bundled ones come first."""
    return NAMES


def dataset_card(name: str, *, data_home: str | Path | None = None) -> DatasetCard:
    """Return the description of a data set and the location of its file. Downloads nothing.

    Raises:
        OptionError: There is no such data set.
    """
    entry = _get_entry(name)
    if entry.bundled:
        return entry.card
    home = store.data_home(data_home)
    path = store.find_file(entry.card, home)
    expected = path or store.download_paths(entry.card, home)[0]
    return entry.card.model_copy(update={"place": "here" if path else "to be fetched", "path": str(expected)})


def dataset_cards(*, data_home: str | Path | None = None) -> list[DatasetCard]:
    """Return all cards, in the order of ``dataset_names``."""
    return [dataset_card(name, data_home=data_home) for name in NAMES]


def load_dataset(
    name: str, *, data_home: str | Path | None = None, download: bool = True, progress: DownloadProgress | None = None
) -> Dataset:
    """Load a data set as a frame with its schema.

    Bundled data sets are part of the package. Any other data set is read from the data folder (``data_home``, else the
    environment variable EVENHAND_DATA_HOME, else the user's cache folder). If it is not there, it is downloaded from
    its publisher into this folder. The content is checked before use.

    Args:
        name: One of ``dataset_names()``.
        data_home: Folder of data files.
        download: Whether to download missing files.
        progress: Called during a download with the bytes received and the bytes expected or None.

    Raises:
        OptionError: There is no such data set.
        FetchError: The file is missing, and it cannot or must not be downloaded.
        DataError: The file is damaged, or contains other data.

    Example:
        >>> import evenhand
        >>> data = evenhand.datasets.load_dataset("german")
        >>> data.schema.protected
        ('age', 'sex')
    """
    entry = _get_entry(name)
    home = store.data_home(data_home)
    if entry.bundled:
        frame = prepare_dataset(entry, decompress_file(BUNDLED / entry.bundled), name)
    elif path := store.find_file(entry.card, home):
        frame = _prepare_checked(entry, store.read_content(entry, path), str(path))
    elif download:
        frame = store.fetch_dataset(
            entry, home, lambda data, location: _prepare_checked(entry, data, location), progress=progress
        )
    else:
        raise store.missing_file_error(entry.card, home)
    return Dataset(name=name, frame=frame, schema=entry.schema, card=dataset_card(name, data_home=data_home))


def _get_entry(name: str) -> DatasetEntry:
    if name not in NAMES:
        hint = f"{suggest_name(name, NAMES)}the data sets are: {', '.join(NAMES)}"
        raise OptionError(f"there is no data set {name!r}", hint=hint)
    return read_entry(name)


def _prepare_checked(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Prepare a frame and compare it with the recorded hash and number of rows."""
    frame, card = prepare_dataset(entry, data, location), entry.card
    if card.sha256 is not None and (sha256 := table_hash(frame)) != card.sha256:
        raise DataError(
            f"this is not the data set {card.name!r}: the SHA-256 of its table is {sha256}, expected {card.sha256}",
            location=location,
            hint=f"download the file again from its publisher, shown by `evenhand datasets {card.name}`",
        )
    if len(frame) != card.rows:
        raise DataError(
            f"this is not the data set {card.name!r}: {len(frame):,} rows, expected {card.rows:,}", location=location
        )
    return frame
