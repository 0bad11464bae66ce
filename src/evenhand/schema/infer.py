"""Infer a schema from a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError
from evenhand.schema.arrays import require_column
from evenhand.schema.attribute import Value
from evenhand.schema.outcome import OutcomeColumn, infer_target
from evenhand.schema.review import ColumnProposal, choose_entries, review_columns
from evenhand.schema.rows.coded import CodedColumn
from evenhand.schema.schema import PASSTHROUGH, Schema
from evenhand.schema.target import OutcomeRole

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame


def infer_schema(
    frame: IntoDataFrame,
    *,
    target: str,
    protected: Sequence[str] = (),
    favourable: Value | None = None,
    unfavourable: Sequence[Value] = (),
    ignore: Sequence[str] = (),
    outcome: OutcomeRole | None = None,
    accept_proposals: bool = False,
    compared: Sequence[str] = (),
) -> Schema:
    """Infer a schema: words are categorical, ordered categories ordinal, whole numbers integer.

    A column is numeric if it holds numbers, or words that are all canonical spellings of numbers, in any file format.
    The domain of an attribute is its values in the data, or the range from the smallest to the largest number.
    Missing values are kept where the data has some (counted as unknown for a protected attribute), else refused.

    Args:
        frame: one row per person.
        target: column of the true label, or of the true number.
        protected: attributes that a decision must not depend on.
        favourable: the label that people want. By default it is proposed from words like ``yes`` or ``approved``, and
            from the name of the column. For a number, ``higher`` or ``lower``.
        unfavourable: all other labels. Needed if there are several, unless ``outcome`` says ``label``.
        ignore: columns that are not attributes (identifiers, weights).
        outcome: kind of the target. By default, many distinct numbers are a number, everything else is labels.
        accept_proposals: whether to accept the proposals of ``propose_columns``.
        compared: attributes that groups are formed by, and that are not varied.

    Raises:
        DataError: if a named column is missing, the target has one class, or columns cannot be described; the message
            lists all of these with the proposals.
        SchemaError: if the favourable label cannot be proposed or does not occur.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    for argument, names in (("target", [target]), ("protected", [*protected, *compared]), ("ignore", ignore)):
        for name in names:
            require_column(name, table.columns, argument)
    decided = CodedColumn.read(table[target])
    described = infer_target(OutcomeColumn.read(decided, target), favourable, outcome, unfavourable)
    names = _attribute_names(table, target, ignore)
    columns = review_columns(table, names, protected=protected, compared=compared, target=decided)
    attributes = choose_entries(columns, accept=accept_proposals)
    if not any(entry["kind"] != PASSTHROUGH for entry in attributes):
        hint = "an audit needs at least one column of numbers or categories"
        raise DataError("no column can be an attribute", hint=hint)
    return Schema.parse({"target": described, "attributes": attributes})


def propose_columns(
    frame: IntoDataFrame, *, target: str, protected: Sequence[str] = (), ignore: Sequence[str] = ()
) -> tuple[ColumnProposal, ...]:
    """Propose entries for columns that cannot be attributes as they are, or that are better described otherwise.

    Args:
        frame, target, protected, ignore: as for ``infer_schema``, whose ``accept_proposals`` accepts them all.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"sex": ["f", "m"] * 50, "hired": [0, 1, 1, 0] * 25})
        >>> people["born"] = pd.date_range("1970", periods=100)
        >>> for proposal in propose_columns(people, target="hired", protected=["sex"]):
        ...     print(proposal)
        born holds dates or times, such as 1970-01-01 00:00:00: passthrough
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    decided = CodedColumn.read(table[target]) if target in table.columns else None
    columns = review_columns(table, _attribute_names(table, target, ignore), protected=protected, target=decided)
    return tuple(column.proposal for column in columns if column.proposal is not None)


def _attribute_names(table: Any, target: str, ignore: Sequence[str]) -> list[str]:
    return [name for name in table.columns if name != target and name not in ignore]
