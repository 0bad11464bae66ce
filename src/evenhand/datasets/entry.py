"""How one data set is described, found and prepared; the modules of ``evenhand.datasets.sets`` hold them by subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from evenhand.datasets.cells import parse_numbers
from evenhand.datasets.text_tables import parse_table
from evenhand.errors import DataError
from evenhand.schema import Attribute, Dependency, Link, Missing, Schema, Target, Value

if TYPE_CHECKING:
    import pandas as pd


MISSING_WORDS = ("NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "<NA>", "#N/A", "#NA")
"""Words for missing values in the publishers' files. ``None`` and ``?`` are categories there."""


@dataclass(frozen=True)
class DatasetEntry:
    """One data set.

    Attributes:
        name, title, about, origin, publisher, licence, citation, rows, preparation: see ``Card``.
        schema: attributes, target and favourable label, filled in by hand.
        extra: columns of the frame that are not attributes.
        prepare: publisher's bytes (decompressed) and what to call them in messages -> the frame.
        sha256: of the frame written as CSV (``table_hash``); None where it is not known beforehand.
        files: file names that are recognised in the data folder, without compression suffix.
        urls: where to fetch it; a ``.zip`` may hold the file at any depth.
        member: the file inside a ``.zip``.
        bundled: the file inside this package, instead of all that.
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
    schema: Callable[[], Schema]
    prepare: Callable[[bytes, str], pd.DataFrame]
    extra: tuple[str, ...] = ()
    sha256: str | None = None
    files: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    member: str = ""
    bundled: str = ""

    def columns(self) -> tuple[str, ...]:
        """Return the frame's columns: attributes, extra columns, target."""
        schema = self.schema()
        return (*schema.names, *self.extra, schema.target.name)

    def take_columns(self, frame: pd.DataFrame, location: str) -> pd.DataFrame:
        """Return the entry's columns of a table, with the types that its schema asks for.

        Raises:
            DataError: a column is absent, or holds something else.
        """
        require_columns(frame, self.columns(), location)
        return cast_to_schema(frame[list(self.columns())], self.schema(), location)


def categorical_attribute(name: str, *values: Value, protected: bool = False, drop: bool = False) -> Attribute:
    """Return a categorical attribute; ``drop`` leaves out people for whom it is missing.

    Its encoding is said, not guessed: the cards list values in the order of the codes of published networks.
    """
    missing: Missing = "drop" if drop else "refuse"
    return Attribute(
        name=name, kind="categorical", values=values, encoding="code", protected=protected, missing=missing
    )


def ordinal_attribute(name: str, *values: Value, protected: bool = False, drop: bool = False) -> Attribute:
    """Return an ordinal attribute, its values from low to high."""
    return Attribute(
        name=name, kind="ordinal", values=values, protected=protected, missing="drop" if drop else "refuse"
    )


def integer_attribute(name: str, lower: int, upper: int, *, protected: bool = False) -> Attribute:
    """Return a whole number."""
    return Attribute(name=name, kind="integer", lower=lower, upper=upper, protected=protected)


def real_attribute(name: str, lower: float, upper: float) -> Attribute:
    """Return a number."""
    return Attribute(name=name, kind="real", lower=lower, upper=upper)


def decision_schema(
    target: str,
    *labels: Value,
    favourable: Value,
    attributes: Sequence[Attribute],
    rules: Sequence[str] = (),
    dependencies: Sequence[Dependency] = (),
    links: Sequence[Link] = (),
) -> Schema:
    """Return a schema from its parts."""
    return Schema(
        target=Target(name=target, favourable=favourable, values=labels),
        attributes=tuple(attributes),
        rules=tuple(rules),
        dependencies=tuple(dependencies),
        links=tuple(links),
    )


def parse_published(data: bytes, location: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a publisher's text table, with numbers as such and the publishers' words for missing values as missing.

    Args:
        data: the table.
        location: how to call it in messages.
        names: the columns of a table without a line of names.
    """
    table = parse_table(data, location=location, names=names)
    return parse_numbers(table.mask(table.isin(MISSING_WORDS)))


def require_columns(frame: pd.DataFrame, columns: Sequence[str], location: str) -> None:
    """Refuse a table that lacks a column.

    Raises:
        DataError: naming the first column that is absent.
    """
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise DataError(
            f"column {absent[0]!r} is missing, so this is not the expected file",
            location=location,
            hint=f"the columns are: {', '.join(str(name) for name in frame.columns[:20])}",
        )


def cast_to_schema(frame: pd.DataFrame, schema: Schema, location: str) -> pd.DataFrame:
    """Return the same table with whole numbers as integers and other numbers as floats, as the schema says.

    Columns in which people may be missing, and those that the schema does not name, stay as they are.

    Raises:
        DataError: a column holds something else.
    """
    types = {}
    for attribute in schema.attributes:
        if attribute.kind == "real":
            types[attribute.name] = "float64"
        elif attribute.kind == "integer" or (_all_integers(attribute.values) and attribute.missing == "refuse"):
            types[attribute.name] = "int64"
    if _all_integers(schema.target.values):
        types[schema.target.name] = "int64"
    return _cast_columns(frame, types, location)


def cast_to_floats(frame: pd.DataFrame, columns: Sequence[str], location: str) -> pd.DataFrame:
    """Return the same table with these columns as floats, before anything is computed from them.

    Raises:
        DataError: a column holds something else.
    """
    return _cast_columns(frame, dict.fromkeys(columns, "float64"), location)


def _cast_columns(frame: pd.DataFrame, types: dict[str, str], location: str) -> pd.DataFrame:
    for name, kind in types.items():
        if kind == "int64" and frame[name].dtype.kind == "f" and not frame[name].mod(1).eq(0).all():
            raise DataError(f"column {name!r} must hold whole numbers and does not", location=location)
    try:
        return frame.astype(types)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"a column that must hold numbers does not: {error}", location=location) from None


def _all_integers(values: Sequence[Value] | None) -> bool:
    return all(type(value) is int for value in values or ("",))


def lacks_header(data: bytes) -> bool:
    """Return whether a table begins with numbers, thus without a line of names."""
    first = data.lstrip(b"\xef\xbb\xbf \r\n").split(b",", 1)[0].strip(b' "')
    return first.replace(b".", b"", 1).isdigit()


def table_hash(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a frame written as CSV: UTF-8, commas, ``\\n``, no index, shortest exact numbers."""
    import hashlib

    return hashlib.sha256(frame.to_csv(index=False, lineterminator="\n").encode()).hexdigest()


# What a reader should know about a data set before using it.


class DatasetCard(BaseModel):
    """One data set in words.

    Attributes:
        name: what to ask for, as in ``datasets.load(name)``.
        title: its full name.
        about: who the people are and what is decided.
        origin: who collected it, where and when.
        publisher: the page it is published on.
        licence: terms of use as far as they are known.
        citation: how to cite it.
        rows: people in the frame.
        columns: the columns of the frame; those that are not an attribute are in ``extra``.
        attributes: what a model may look at, in order.
        extra: columns kept beside the attributes (splits, weights, scores).
        protected: attributes that the field usually protects.
        target: the column of the true label.
        favourable: the label a person would want.
        preparation: what was changed, dropped or derived, and why.
        check: how the content is checked before it is used.
        sha256: SHA-256 of the prepared table written as CSV, where it is known beforehand.
        files: file names that are recognised, each also with ``.gz``, ``.xz``, ``.bz2`` or ``.zst``.
        urls: where it is fetched from, in the order tried.
        place: ``bundled`` with the package, ``here`` (found at ``path``), or ``to be fetched``.
        path: the file found, or where a file fetched by hand belongs; None if bundled.
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
