"""Data sets by name: cards, and loading with a check of the content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from evenhand.datasets import store
from evenhand.datasets.entry import NAMES, DatasetEntry, read_entry
from evenhand.datasets.preparation import prepare_dataset, table_hash
from evenhand.datasets.tables import decompress_file
from evenhand.errors import DataError, OptionError
from evenhand.http import DownloadProgress
from evenhand.schema import Schema, Value
from evenhand.text import suggest_name

if TYPE_CHECKING:
    import pandas as pd

BUNDLED = Path(__file__).parent / "bundled"


class DatasetCard(BaseModel):
    """Description of a data set for readers.

    Attributes:
        name: Name to pass to ``load_dataset``.
        title: Full name.
        about: Population and decision.
        origin: Authors, place and time of the collection.
        publisher: Address of the publisher's page.
        licence: Terms of use, as far as they are known.
        citation: Reference to cite.
        rows: Number of rows of the frame.
        columns: Columns of the frame: attributes, extra columns, target.
        attributes: Inputs of a model, in order.
        extra: Columns of the frame that are not attributes (splits, weights, scores).
        protected: Attributes that are usually protected.
        target: Column of the true label.
        favourable: Favourable label.
        preparation: Changes to the publisher's data, and their reasons.
        check: Method by which the content is checked before use.
        sha256: SHA-256 of the prepared table written as CSV, if known.
        files: Recognised file names, each also with ``.gz``, ``.xz``, ``.bz2`` or ``.zst``.
        urls: Download addresses, in the order of attempts.
        place: ``bundled`` with the package, ``here`` (at ``path``), or ``to be fetched``.
        path: Path of the file, or the path to save a manual download to. None if bundled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    about: str
    origin: str
    publisher: str
    licence: str
    citation: str
    rows: int
    columns: tuple[str, ...]
    attributes: tuple[str, ...]
    extra: tuple[str, ...]
    protected: tuple[str, ...]
    target: str
    favourable: Value
    preparation: str
    check: str
    sha256: str | None
    files: tuple[str, ...]
    urls: tuple[str, ...]
    place: Literal["bundled", "here", "to be fetched"]
    path: str | None


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
    home = store.data_home(data_home)
    path = None if entry.bundled else store.find_file(entry, home)
    fields = {field: value for field, value in vars(entry).items() if field in DatasetCard.model_fields}
    return DatasetCard(
        **fields,
        columns=entry.columns,
        attributes=entry.schema.names,
        protected=entry.schema.protected,
        target=entry.schema.target.name,
        favourable=entry.schema.target.favourable,
        check=_describe_check(entry),
        place="bundled" if entry.bundled else "here" if path else "to be fetched",
        path=None if entry.bundled else str(path or store.manual_path(entry, home)),
    )


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
        FetchError: The file is missing and cannot or must not be downloaded; the message names the file and the folder.
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
    elif path := store.find_file(entry, home):
        frame = _prepare_checked(entry, store.read_content(entry, path), str(path))
    elif download:
        frame = store.fetch_dataset(
            entry, home, lambda data, location: _prepare_checked(entry, data, location), progress=progress
        )
    else:
        raise store.missing_file_error(entry, home)
    return Dataset(name=name, frame=frame, schema=entry.schema, card=dataset_card(name, data_home=data_home))


def _get_entry(name: str) -> DatasetEntry:
    if name not in NAMES:
        hint = f"{suggest_name(name, NAMES)}the data sets are: {', '.join(NAMES)}"
        raise OptionError(f"there is no data set {name!r}", hint=hint)
    return read_entry(name)


def _prepare_checked(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Prepare a frame and compare it with the recorded hash and number of rows."""
    frame = prepare_dataset(entry, data, location)
    if entry.sha256 is not None and (sha256 := table_hash(frame)) != entry.sha256:
        raise DataError(
            f"this is not the data set {entry.name!r}: the SHA-256 of its table is {sha256}, expected {entry.sha256}",
            location=location,
            hint=f"get the file again from its publisher: evenhand datasets {entry.name} names it",
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
