"""Descriptions of data sets, one YAML file each in the folder ``sets``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

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


@dataclass(frozen=True)
class DatasetEntry:
    """A data set as described by its YAML file.

    Attributes:
        card: Description for readers.
        schema: Attributes, target and favourable label.
        header: Column names of a published file that has no header line.
        renamed: Name in the published file of each column that is renamed.
        member: Name of the data file in a downloaded ``.zip`` file, at any depth.
        bundled: Name of the file in this package. Bundled data sets have no files and addresses.
    """

    card: DatasetCard
    schema: Schema
    header: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    member: str = ""
    bundled: str = ""


@cache
def read_entry(name: str) -> DatasetEntry:
    """Read the description of a data set from its YAML file."""
    path = DESCRIPTIONS / f"{name}.yaml"
    fields = dict(read_configuration(path, example="adult.yaml", entries="title:, rows: and schema:"))
    schema = Schema.parse(fields.pop("schema"), location=str(path))
    header, renamed = tuple(fields.pop("header", ())), fields.pop("renamed", {})
    member, bundled = fields.pop("member", ""), fields.pop("bundled", "")
    if bundled:
        check = "bundled with the package"
    elif "sha256" in fields:
        check = "SHA-256 of the table prepared from it, so that any faithful copy is accepted"
    else:
        check = (
            "columns and number of rows, since no copy was at hand to take a SHA-256 from; the SHA-256 of the file is "
            "recorded when it is first fetched, and checked from then on"
        )
    card = DatasetCard(
        name=name,
        columns=(*schema.names, *fields.get("extra", ()), schema.target.name),
        attributes=schema.names,
        protected=schema.protected,
        target=schema.target.name,
        favourable=schema.target.favourable,
        check=check,
        place="bundled" if bundled else "to be fetched",
        **fields,
    )
    return DatasetEntry(card, schema, header, renamed, member, bundled)
