"""A schema guessed from a data frame, to be looked at and edited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError, OptionError, SchemaError
from evenhand.schema.attribute import Value, find_value
from evenhand.schema.review import ColumnProposal, choose_entries, review_columns
from evenhand.schema.rows import CodedColumn, is_missing, list_values, sort_key
from evenhand.schema.schema import PASSTHROUGH, Schema
from evenhand.schema.target import DIRECTIONS, OutcomeRole, guess_kind

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

GOOD_WORDS = frozenset({"1", "true", "yes", "y", "good", "approved", "accepted", "granted", "hired", "pass", "passed"})
"""Labels that are plainly the favourable one of two."""


NUMERIC_HINT = "; or that it is a number: `kind=number`; or that these are levels, lowest first: `kind=ordinal`"
"""How else a column of few different numbers may be meant."""

EACH_HINT = "; or compare each of them: `kind=labels`"
"""What else may be done with several labels."""


def infer_schema(
    frame: IntoDataFrame,
    *,
    target: str,
    protected: Sequence[str] = (),
    favourable: Value | None = None,
    ignore: Sequence[str] = (),
    outcome: OutcomeRole | None = None,
    accept_proposals: bool = False,
    compared: Sequence[str] = (),
) -> Schema:
    """Guess what each column is: words are categorical, ordered categories ordinal, whole numbers integer.

    The domain of an attribute is what occurs in the data: its values, or the smallest to the largest number.
    Missing values are kept where the data has some (dropped for a protected attribute), else refused.

    Args:
        frame: one row per person.
        target: the column of the true label, or of the true number.
        protected: attributes that a decision must not depend on.
        favourable: the label a person would want; guessed from words like ``yes`` or ``1`` if left out. Of a number
            ``higher`` or ``lower``.
        ignore: columns that are not attributes (identifiers, weights).
        outcome: what the target is; guessed if left out: many different numbers are a number.
        accept_proposals: take what ``propose_columns`` proposes for columns that cannot be attributes as they are.
        compared: attributes that groups are made by, and that are not varied.

    Raises:
        DataError: a named column is missing, the target has one class, or columns cannot be described; the message
            lists all of these, each with what is proposed.
        SchemaError: the favourable label cannot be guessed or does not occur.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    for name in (target, *protected, *compared, *ignore):
        if name not in table.columns:
            raise DataError(f"there is no column {name!r}", hint=f"the columns are: {', '.join(table.columns)}")
    decided = CodedColumn.read(table[target])
    labels = {value.strip() if isinstance(value, str) else value for value in _hashable(target, decided.values)}
    described = infer_target(target, {value for value in labels if not is_missing(value)}, favourable, outcome)
    names = _attribute_names(table, target, ignore)
    reviewed = review_columns(table, names, protected=protected, compared=compared, target=decided)
    attributes = choose_entries(reviewed, accept=accept_proposals)
    if not any(entry["kind"] != PASSTHROUGH for entry in attributes):
        raise DataError(
            "no column can be an attribute", hint="an audit needs at least one column of numbers or categories"
        )
    return Schema.parse({"target": described, "attributes": attributes})


def propose_columns(
    frame: IntoDataFrame, *, target: str, protected: Sequence[str] = (), ignore: Sequence[str] = ()
) -> tuple[ColumnProposal, ...]:
    """Return what is proposed for columns that cannot be attributes as they are, or are better something else.

    Args:
        frame, target, protected, ignore: as for ``infer_schema``, whose ``accept_proposals`` takes them all.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"sex": ["f", "m"] * 50, "hired": [0, 1, 1, 0] * 25})
        >>> people["born"] = pd.date_range("1970", periods=100)
        >>> for one in propose_columns(people, target="hired", protected=["sex"]):
        ...     print(one)
        born holds dates or times, such as 1970-01-01 00:00:00: passthrough
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    decided = CodedColumn.read(table[target]) if target in table.columns else None
    reviewed = review_columns(table, _attribute_names(table, target, ignore), protected=protected, target=decided)
    return tuple(one.proposal for one in reviewed if one.proposal is not None)


def _attribute_names(table: Any, target: str, ignore: Sequence[str]) -> list[str]:
    return [name for name in table.columns if name != target and name not in ignore]


def _hashable(name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return labels, unless they are things that no label can be.

    Raises:
        DataError: one is not a text, number or truth value.
    """
    odd = next((one for one in values if not is_missing(one) and not isinstance(one, str | bool | int | float)), None)
    if odd is not None:
        raise DataError(
            f"the target column {name!r} holds {type(odd).__name__} values, which are not labels",
            hint="turn them into words or numbers",
        )
    return values


def infer_target(
    name: str, labels: set[Any], favourable: Value | None = None, outcome: OutcomeRole | None = None
) -> dict[str, Any]:
    """Return what a schema says of the column that is decided, from its different values.

    Raises:
        DataError: it holds no decisions of the kind that is said.
        SchemaError: the favourable label cannot be guessed or does not occur.
    """
    outcome = outcome or OutcomeRole()
    kind = outcome.kind or guess_kind(labels, favourable, outcome.order)
    if kind == "number":
        return _number_target(name, labels, favourable, outcome)
    if outcome.unit is not None:
        raise OptionError(
            f"a unit belongs to a number, and {name!r} holds labels", hint="leave it out, or say `kind=number`"
        )
    if len(labels) < 2:
        raise DataError(
            f"the target column {name!r} has one class only: {list_values(labels)}",
            hint="an audit needs people with and without the favourable label",
        )
    if len(labels) > 50:
        raise DataError(
            f"the target column {name!r} has {len(labels)} distinct values: it does not look like a decision",
            hint="numbers can be audited as they are: `kind=number`; or cut it into classes first",
        )
    ordered = sorted(labels, key=sort_key)
    outcome.require_no_favourable(name, favourable)
    if kind == "labels":
        return {"name": name, "kind": kind, "values": ordered}
    if kind == "ordinal":
        return {"name": name, "kind": kind} | order_labels(name, ordered, favourable, outcome.order)
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


def _number_target(name: str, numbers: set[Any], favourable: Value | None, outcome: OutcomeRole) -> dict[str, Any]:
    odd = next((value for value in numbers if isinstance(value, bool) or not isinstance(value, int | float)), None)
    if odd is not None:
        raise DataError(f"expected numbers in the column {name!r}, got {odd!r}", hint="leave `kind=number` out")
    if outcome.order is not None:
        raise OptionError("a number has no order of labels", hint="leave `kind=number` or `order=` out")
    if len(numbers) < 2:
        raise DataError(f"the column {name!r} holds one number only: {list_values(numbers)}")
    if favourable is not None and favourable not in DIRECTIONS:
        raise SchemaError(
            f"favourable of the number {name!r} is higher or lower, got {favourable!r}",
            hint="for a label among numbers, say `kind=label`",
        )
    unit = {} if outcome.unit is None else {"unit": outcome.unit}
    return {"name": name, "kind": "number", "favourable": favourable or "neither"} | unit


def order_labels(
    name: str, labels: Sequence[Any], favourable: Value | None, order: Sequence[Value] | None
) -> dict[str, Any]:
    """Return the values of an ordinal target and the favourable one; an order must hold all labels that occur.

    Raises:
        SchemaError: there is no order, it lacks a label or repeats one, or the favourable label is not at an end.
    """
    if order is None:
        if not all(isinstance(label, int | float) for label in labels):
            raise SchemaError(
                f"the order of the labels of {name!r} is not known: {list_values(labels)}",
                hint="say it, worst first: `order=LABELS`",
            )
        order = labels
    values = tuple(one if (known := find_value(one, labels)) is None else known for one in order)
    absent = [label for label in labels if label not in values]
    if absent or len(set(values)) < len(values):
        wrong = f"lacks {list_values(absent)}" if absent else "names a label twice"
        raise SchemaError(f"the order of {name!r} {wrong}", hint=f"the labels are: {list_values(labels)}")
    best = values[-1] if favourable is None else find_value(favourable, values)
    if best not in (values[0], values[-1]):
        raise SchemaError(
            f"the favourable label of {name!r} must be the first or the last of its order, got {favourable!r}",
            hint=f"the order is: {list_values(values)}",
        )
    return {"favourable": best, "values": list(values)}


def guess_favourable(name: str, labels: Sequence[Any]) -> Any:
    """Return the label of a column that is plainly good, of two.

    Raises:
        SchemaError: neither is, or both are, or there are not two.
    """
    good = [value for value in labels if _looks_favourable(value)]
    numeric = all(isinstance(value, int | float) for value in labels) and len(labels) > 2
    if len(good) != 1 or len(labels) != 2:
        raise SchemaError(
            f"which label of {name!r} is favourable? It cannot be told from {list_values(labels)}",
            hint="say it: `favourable=VALUE`" + EACH_HINT * (len(labels) > 2) + (NUMERIC_HINT if numeric else ""),
        )
    return good[0]


def _looks_favourable(value: Any) -> bool:
    word = str(value).strip().lower()
    return word in GOOD_WORDS or word == "1.0" or word.startswith(">")
