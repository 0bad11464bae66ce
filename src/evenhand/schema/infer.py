"""A schema guessed from a data frame, to be looked at and edited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError, SchemaError
from evenhand.schema.attribute import Value
from evenhand.schema.people import _is_missing, _listed, _sort_key, plain
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

MAX_CATEGORIES = 1000
"""A column of words with more distinct ones than this is taken for an identifier or free text."""

GOOD_WORDS = frozenset({"1", "true", "yes", "y", "good", "approved", "accepted", "granted", "hired", "pass", "passed"})
"""Labels that are plainly the favourable one of two."""


def infer(
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
        ignore: columns that are no attributes (identifiers, weights).

    Raises:
        DataError: a named column is missing, a column cannot be described, the target has one class.
        SchemaError: the favourable label cannot be guessed or does not occur.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    for name in (target, *protected, *ignore):
        if name not in table.columns:
            raise DataError(f"there is no column {name!r}", mend=f"the columns are: {', '.join(table.columns)}")
    labels = {value.strip() if isinstance(value, str) else plain(value) for value in table[target].to_list()}
    attributes = [
        _attribute(table[name], name, protected=name in protected)
        for name in table.columns
        if name != target and name not in ignore
    ]
    return Schema.parse(
        {"target": _target(target, {value for value in labels if not _is_missing(value)}, favourable),
         "attributes": attributes}
    )  # fmt: skip


def _target(name: str, labels: set[Any], favourable: Value | None) -> dict[str, Any]:
    if len(labels) < 2:
        raise DataError(
            f"the target column {name!r} has one class only: {_listed(labels)}",
            mend="an audit needs people with and without the favourable label",
        )
    if len(labels) > 50:
        raise DataError(
            f"the target column {name!r} has {len(labels)} distinct values: it does not look like a decision",
            mend="cut it into classes first, for example above and below a threshold",
        )
    ordered = sorted(labels, key=_sort_key)
    if favourable is None:
        good = [value for value in ordered if _plainly_good(value)]
        if len(good) != 1 or len(ordered) != 2:
            raise SchemaError(
                f"which label of {name!r} is favourable? It cannot be told from {_listed(ordered)}",
                mend="say it: --favourable VALUE",
            )
        favourable = good[0]
    matches = [value for value in ordered if str(value) == str(favourable)]
    if not matches:
        raise SchemaError(
            f"the favourable label {favourable!r} does not occur in {name!r}",
            mend=f"the labels are: {_listed(ordered)}",
        )
    rest = [value for value in ordered if value != matches[0]]
    return {"name": name, "favourable": matches[0], "values": [*rest, matches[0]]}


def _plainly_good(value: Any) -> bool:
    word = str(value).strip().lower()
    return word in GOOD_WORDS or word == "1.0" or word.startswith(">")


def _attribute(series: Any, name: str, *, protected: bool) -> dict[str, Any]:
    column = [plain(value) for value in series.to_list()]
    present = [value for value in column if not _is_missing(value)]
    if not present:
        raise DataError(f"column {name!r} is empty", mend="leave it out")
    entry: dict[str, Any] = {"name": name, "protected": protected}
    if len(present) < len(column):
        entry["missing"] = "drop" if protected else "keep"
    order = _ordered_categories(series)
    if order is not None:
        return entry | {"kind": "ordinal", "values": [plain(value) for value in order]}
    distinct = set(present)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct):
        low, high = float(min(distinct)), float(max(distinct))
        whole = all(float(value).is_integer() for value in distinct)
        return entry | {"kind": "integer" if whole else "real", "lower": low, "upper": high}
    if not all(isinstance(value, str | bool | int | float) for value in distinct):
        odd = next(value for value in distinct if not isinstance(value, str | bool | int | float))
        raise DataError(
            f"column {name!r} holds {type(odd).__name__} values, which no attribute can",
            mend="turn it into numbers or words, or leave it out",
        )
    if len(distinct) > MAX_CATEGORIES or (len(distinct) > 50 and len(distinct) > len(present) / 2):
        raise DataError(
            f"column {name!r} has {len(distinct):,} different values in {len(present):,} rows: "
            "it looks like an identifier or free text",
            mend="leave it out (--ignore), or describe it in a schema",
        )
    if {type(value) for value in distinct} == {str}:
        distinct = {value.strip() for value in distinct}
    return entry | {"kind": "categorical", "values": sorted(distinct, key=_sort_key)}


def _ordered_categories(series: Any) -> list[Any] | None:
    """The values of an ordered categorical (pandas) or Enum (polars) column, in order."""
    import narwhals as nw

    return list(series.dtype.categories) if isinstance(series.dtype, nw.Enum) else None
