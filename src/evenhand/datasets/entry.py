"""How one data set is described, found and prepared; every module of ``evenhand.datasets.sets`` holds one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand.errors import DataError
from evenhand.schema import Attribute, Schema, Target, Value

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Entry:
    """One data set.

    Attributes:
        name, title, about, origin, publisher, licence, citation, rows, preparation: see ``Card``.
        schema: attributes, target and favourable label, filled in by hand.
        extra: columns of the frame that are no attributes.
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
        """The frame's columns: attributes, extra columns, target."""
        schema = self.schema()
        return (*schema.names, *self.extra, schema.target.name)


def nominal(name: str, *values: Value, protected: bool = False, drop: bool = False) -> Attribute:
    """A categorical attribute; ``drop`` leaves out people for whom it is missing."""
    return Attribute(
        name=name, kind="categorical", values=values, protected=protected, missing="drop" if drop else "refuse"
    )


def ordinal(name: str, *values: Value, protected: bool = False, drop: bool = False) -> Attribute:
    """An ordinal attribute, its values from low to high."""
    return Attribute(
        name=name, kind="ordinal", values=values, protected=protected, missing="drop" if drop else "refuse"
    )


def integer(name: str, lower: int, upper: int, *, protected: bool = False) -> Attribute:
    """A whole number."""
    return Attribute(name=name, kind="integer", lower=lower, upper=upper, protected=protected)


def real(name: str, lower: float, upper: float) -> Attribute:
    """A number."""
    return Attribute(name=name, kind="real", lower=lower, upper=upper)


def decision(target: str, *labels: Value, favourable: Value, attributes: Sequence[Attribute]) -> Schema:
    """A schema from its parts."""
    return Schema(
        target=Target(name=target, favourable=favourable, values=labels),
        attributes=tuple(attributes),
    )


def require(frame: pd.DataFrame, columns: Sequence[str], where: str) -> None:
    """Refuse a table that lacks a column.

    Raises:
        DataError: naming the first column that is absent.
    """
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise DataError(
            f"column {absent[0]!r} is missing, so this is not the expected file",
            where=where,
            mend=f"the columns are: {', '.join(str(name) for name in frame.columns[:20])}",
        )


def typed(frame: pd.DataFrame, schema: Schema, where: str) -> pd.DataFrame:
    """The same table with whole numbers as integers and other numbers as floats, as the schema says.

    Columns in which people may be missing, and those that the schema does not name, stay as they are.

    Raises:
        DataError: a column holds something else.
    """
    types = {}
    for attribute in schema.attributes:
        if attribute.kind == "real":
            types[attribute.name] = "float64"
        elif attribute.kind == "integer" or (_whole(attribute.values) and attribute.missing == "refuse"):
            types[attribute.name] = "int64"
    if _whole(schema.target.values):
        types[schema.target.name] = "int64"
    return _cast(frame, types, where)


def numbers(frame: pd.DataFrame, columns: Sequence[str], where: str) -> pd.DataFrame:
    """The same table with these columns as floats, before anything is computed from them.

    Raises:
        DataError: a column holds something else.
    """
    return _cast(frame, dict.fromkeys(columns, "float64"), where)


def _cast(frame: pd.DataFrame, types: dict[str, str], where: str) -> pd.DataFrame:
    for name, kind in types.items():
        if kind == "int64" and frame[name].dtype.kind == "f" and not frame[name].mod(1).eq(0).all():
            raise DataError(f"column {name!r} must hold whole numbers and does not", where=where)
    try:
        return frame.astype(types)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"a column that must hold numbers does not: {error}", where=where) from None


def _whole(values: Sequence[Value] | None) -> bool:
    return all(type(value) is int for value in values or ("",))


def headerless(data: bytes) -> bool:
    """Whether a table begins with numbers, thus without a line of names."""
    first = data.lstrip(b"\xef\xbb\xbf \r\n").split(b",", 1)[0].strip(b' "')
    return first.replace(b".", b"", 1).isdigit()


def table_hash(frame: pd.DataFrame) -> str:
    """SHA-256 of a frame written as CSV: UTF-8, commas, ``\\n``, no index, shortest exact numbers."""
    import hashlib

    return hashlib.sha256(frame.to_csv(index=False, lineterminator="\n").encode()).hexdigest()
