"""A schema guessed from a data frame, to be looked at and edited."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError, SchemaError
from evenhand.schema.attribute import Value, find_value
from evenhand.schema.people import CodedColumn, is_missing, list_values, plain_value, sort_key
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

MAX_CATEGORIES = 1000
"""A column of words with more distinct ones than this is taken for an identifier or free text."""

GOOD_WORDS = frozenset({"1", "true", "yes", "y", "good", "approved", "accepted", "granted", "hired", "pass", "passed"})
"""Labels that are plainly the favourable one of two."""


def infer_schema(
    frame: IntoDataFrame,
    *,
    target: str,
    protected: Sequence[str] = (),
    favourable: Value | None = None,
    ignore: Sequence[str] = (),
) -> Schema:
    """Guess what each column is: words are categorical, ordered categories ordinal, whole numbers integer.

    The domain of an attribute is what occurs in the data: its values, or the smallest to the largest number.
    Missing values are kept where the data has some (dropped for a protected attribute), else refused.

    Args:
        frame: one row per person.
        target: the column of the true label.
        protected: attributes that a decision must not depend on.
        favourable: the label a person would want; guessed from words like ``yes`` or ``1`` if left out.
        ignore: columns that are not attributes (identifiers, weights).

    Raises:
        DataError: a named column is missing, a column cannot be described, the target has one class.
        SchemaError: the favourable label cannot be guessed or does not occur.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    for name in (target, *protected, *ignore):
        if name not in table.columns:
            raise DataError(f"there is no column {name!r}", hint=f"the columns are: {', '.join(table.columns)}")
    labels = {value.strip() if isinstance(value, str) else value for value in CodedColumn.read(table[target]).values}
    attributes = [
        describe_attribute(table[name], name, protected=name in protected)
        for name in table.columns
        if name != target and name not in ignore
    ]
    return Schema.parse(
        {"target": _infer_target(target, {value for value in labels if not is_missing(value)}, favourable),
         "attributes": attributes}
    )  # fmt: skip


def _infer_target(name: str, labels: set[Any], favourable: Value | None) -> dict[str, Any]:
    if len(labels) < 2:
        raise DataError(
            f"the target column {name!r} has one class only: {list_values(labels)}",
            hint="an audit needs people with and without the favourable label",
        )
    if len(labels) > 50:
        raise DataError(
            f"the target column {name!r} has {len(labels)} distinct values: it does not look like a decision",
            hint="cut it into classes first, for example above and below a threshold",
        )
    ordered = sorted(labels, key=sort_key)
    if favourable is None:
        favourable = guess_favourable(name, ordered)
    label = find_value(favourable, ordered)
    if label is None:
        raise SchemaError(
            f"the favourable label {favourable!r} does not occur in {name!r}",
            hint=f"the labels are: {list_values(ordered)}",
        )
    rest = [value for value in ordered if value != label]
    return {"name": name, "favourable": label, "values": [*rest, label]}


def guess_favourable(name: str, labels: Sequence[Any]) -> Any:
    """Return the label of a column that is plainly good, of two.

    Raises:
        SchemaError: neither is, or both are, or there are not two.
    """
    good = [value for value in labels if _looks_favourable(value)]
    if len(good) != 1 or len(labels) != 2:
        raise SchemaError(
            f"which label of {name!r} is favourable? It cannot be told from {list_values(labels)}",
            hint="say it: `favourable=VALUE`",
        )
    return good[0]


def _looks_favourable(value: Any) -> bool:
    word = str(value).strip().lower()
    return word in GOOD_WORDS or word == "1.0" or word.startswith(">")


def describe_attribute(series: Any, name: str, *, protected: bool) -> dict[str, Any]:
    """Return what a schema says of a column, guessed from its values.

    Raises:
        DataError: it is empty, looks like an identifier, or holds what no attribute can.
    """
    column = CodedColumn.read(series)
    distinct = _distinct_values(name, column.values)
    if not distinct:
        raise DataError(f"column {name!r} is empty", hint="leave it out")
    missing = column.each(is_missing)
    present = int((~missing).sum())
    entry: dict[str, Any] = {"name": name, "protected": protected}
    if missing.any():
        entry["missing"] = "drop" if protected else "keep"
    order = _ordered_categories(series)
    if order is not None:
        return entry | {"kind": "ordinal", "values": [plain_value(value) for value in order]}
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct):
        low, high = float(min(distinct)), float(max(distinct))
        whole = all(float(value).is_integer() for value in distinct)
        return entry | {"kind": "integer" if whole else "real", "lower": low, "upper": high}
    if len(distinct) > MAX_CATEGORIES or (len(distinct) > 50 and len(distinct) > present / 2):
        raise DataError(
            f"column {name!r} has {len(distinct):,} different values in {present:,} rows: "
            "it looks like an identifier or free text",
            hint="leave the column out (`ignore=NAME`), or describe it in a schema",
        )
    if {type(value) for value in distinct} == {str}:
        distinct = {value.strip() for value in distinct}
    return entry | {"kind": "categorical", "values": sorted(distinct, key=sort_key)}


def _distinct_values(name: str, values: Sequence[Any]) -> set[Any]:
    """Return the different values of a column, without what stands for a missing one."""
    present = [value for value in values if not is_missing(value)]
    odd = next((value for value in present if not isinstance(value, str | bool | int | float)), None)
    if odd is not None:
        raise DataError(
            f"column {name!r} holds {type(odd).__name__} values, which no attribute can",
            hint="turn it into numbers or words, or leave it out",
        )
    distinct = set(present)
    endless = next((value for value in distinct if isinstance(value, float) and math.isinf(value)), None)
    if endless is not None:
        raise DataError(
            f"expected finite numbers in column {name!r}, got {endless}",
            hint="replace it by a number, or by a missing value",
        )
    return distinct


def _ordered_categories(series: Any) -> list[Any] | None:
    """Return the values of an ordered categorical (pandas) or Enum (polars) column, in order."""
    import narwhals as nw

    return list(series.dtype.categories) if isinstance(series.dtype, nw.Enum) else None
