"""Descriptions of data sets, one YAML file each in the folder ``sets``."""

from __future__ import annotations

from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.dataclasses import dataclass

from evenhand.core.configuration import read_configuration
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema

NAMES = (
    "adult",
    "german",
    "compas",
    "bank",
    "law-school",
    "communities-crime",
    "diabetes",
    "heart",
    "students",
    "meps15",
    "discrim-eval-explicit",
    "discrim-eval-implicit",
)
"""Names of the data sets; the bundled ones come first."""

DESCRIPTIONS = Path(__file__).parent / "sets"


class DatasetCard(BaseModel):
    """Description of a data set for users.

    Attributes:
        name: Name to pass to ``load_dataset``.
        title: Full name.
        about: Population and decision.
        origin: Authors, place and time of the collection.
        publisher: Address of the publisher's page.
        licence: Terms of use, if known.
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
        urls: Download URLs, in the order of attempts.
        place: ``bundled`` with the package, ``here`` (at ``path``), or ``to be fetched``.
        path: Path of the file, or path for a manual download. None if bundled.
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
    extra: tuple[str, ...] = ()
    protected: tuple[str, ...]
    target: str
    favourable: Value
    preparation: str
    check: str
    sha256: str | None = None
    files: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    place: Literal["bundled", "here", "to be fetched"]
    path: str | None = None


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class DatasetEntry:
    """A data set and the preparation of its published file, as described by its YAML file.

    Columns are named as in the frame; expressions are those of ``pandas.DataFrame.eval``.

    Attributes:
        card: Description for users.
        schema: Attributes, target and favourable label.
        member: Name of the data file in a downloaded ``.zip`` file, at any depth.
        bundled: Name of the file in this package. Bundled data sets have no ``files`` and ``urls``.
        header: Column names of a published file that has no header line.
        numbers_repeated_names: Whether the second of two columns with the same name gets the suffix ``.1``.
        renamed: Original name of each renamed column.
        used: Columns that are used only by the following entries.
        numbers: Columns that must hold numbers before the following entries are applied.
        words: Columns that are converted to strings; integral floats are written without a decimal point.
        keep: Condition on the rows of the frame. Default: all rows.
        minima: Smallest value of numeric columns in the rows of the frame.
        derived: Columns with one of two values: a condition, the value if it holds, and the value otherwise.
        constants: Columns with the same value in all rows.
    """

    card: DatasetCard
    schema: Schema
    member: str = ""
    bundled: str = ""
    header: tuple[str, ...] = ()
    numbers_repeated_names: bool = False
    renamed: dict[str, str] = field(default_factory=dict)
    used: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    keep: str = ""
    minima: dict[str, float] = field(default_factory=dict)
    derived: dict[str, tuple[str, Value, Value]] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)

    @property
    def published(self) -> list[str]:
        """Columns of the published file that are used to build the frame."""
        names = dict.fromkeys((*self.card.columns, *self.used))
        return [self.renamed.get(name, name) for name in names if name not in {*self.derived, *self.constants}]


@cache
def read_entry(name: str) -> DatasetEntry:
    """Read the description of a data set from its YAML file."""
    path = DESCRIPTIONS / f"{name}.yaml"
    entries = dict(read_configuration(path, example="adult.yaml", entries="title:, rows: and schema:"))
    schema = Schema.parse(entries.pop("schema"), location=str(path))
    described = {key: entries.pop(key) for key in list(entries) if key not in DatasetCard.model_fields}
    if bundled := described.get("bundled"):
        check = "bundled with the package"
    elif "sha256" in entries:
        check = "SHA-256 of the prepared table, so that any faithful copy is accepted"
    else:
        check = (
            "columns and number of rows, because the SHA-256 of the published file is unknown; it is recorded at the "
            "first download and checked from then on"
        )
    card = DatasetCard(
        name=name,
        columns=(*schema.names, *entries.get("extra", ()), schema.target.name),
        attributes=schema.names,
        protected=schema.protected,
        target=schema.target.name,
        favourable=schema.target.favourable,
        check=check,
        place="bundled" if bundled else "to be fetched",
        **entries,
    )
    return DatasetEntry(card, schema, **described)
