"""Descriptions of data sets, one YAML file each in the folder ``sets``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evenhand.core import read_configuration
from evenhand.schema import Schema

NAMES = (
    "adult", "german", "compas", "bank", "law-school", "communities-crime", "diabetes", "heart", "students", "meps15",
    "discrim-eval-explicit", "discrim-eval-implicit",
)  # fmt: skip
"""Names of the data sets; the bundled ones come first."""

DESCRIPTIONS = Path(__file__).parent / "sets"


@dataclass(frozen=True)
class DatasetEntry:
    """Description of a data set.

    Attributes:
        name: Name of the data set and of its file.
        title, about, origin, publisher, licence, citation, rows, preparation: See ``DatasetCard``.
        schema: Attributes, target and favourable label.
        header: Column names of a published file that has no header line.
        extra: Columns of the frame that are not attributes.
        sha256: SHA-256 of the prepared frame (see ``table_hash``), if known.
        files: Recognised file names in the data folder, without a compression suffix.
        urls: Download addresses. A ``.zip`` file may contain the data file at any depth.
        member: Name of the data file in a ``.zip`` file.
        bundled: Name of the file in this package. Bundled data sets have no ``files`` and ``urls``.
    """

    name: str
    title: str
    about: str
    origin: str
    publisher: str
    licence: str
    citation: str
    rows: int
    preparation: str
    schema: Schema
    header: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    sha256: str | None = None
    files: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    member: str = ""
    bundled: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the frame: attributes, extra columns, target."""
        return (*self.schema.names, *self.extra, self.schema.target.name)


@cache
def read_entry(name: str) -> DatasetEntry:
    """Read the description of a data set from its YAML file."""
    path = DESCRIPTIONS / f"{name}.yaml"
    fields = read_configuration(path, example="adult.yaml", entries="title:, rows: and schema:")
    values: dict[str, Any] = {
        field: tuple(value) if isinstance(value, list) else value for field, value in fields.items()
    }
    values["schema"] = Schema.parse(fields["schema"], location=str(path))
    return DatasetEntry(name=name, **values)
