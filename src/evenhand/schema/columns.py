"""What is said about the columns of a table of people, where no schema says it, or on top of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand.errors import DataError, OptionError, SchemaError
from evenhand.schema.arrays import (
    SCALARS,
    check_index,
    check_rows,
    check_type,
    list_column_names,
    read_column,
    read_columns,
)
from evenhand.schema.attribute import Value, find_value
from evenhand.schema.infer import infer_schema
from evenhand.schema.outcome import order_labels
from evenhand.schema.people import People, RowLocator, encode
from evenhand.schema.reading import describe_target
from evenhand.schema.schema import Schema
from evenhand.schema.target import DIRECTIONS, OutcomeRole, Target
from evenhand.text import suggest_name


@dataclass(frozen=True)
class ColumnRoles:
    """What the columns of a table of people are for.

    Attributes:
        target: column of the true label; with a schema, the schema's.
        protected: attributes that a decision must not depend on; with a schema, in place of those it marks.
        favourable: the label that people want; guessed where one of two is plainly good (``1``, ``"yes"``, ...). Of a
            number ``higher`` or ``lower``.
        unfavourable: all other labels; needed if there are several, unless ``outcome`` says ``label``.
        ignore: columns that are not attributes (identifiers, weights), where the schema is inferred.
        schema: what the columns mean; inferred from the data if left out.
        y: the true labels, shape (n,), if they are not a column of the data.
        outcome: what the target is; inferred from the data, or the schema's, if left out.
        accept_proposals: where the schema is inferred, take what is proposed for columns that cannot be attributes as
            they are (see ``propose_columns``).
    """

    target: str | None = None
    protected: Sequence[str] | None = None
    favourable: Value | None = None
    unfavourable: Sequence[Value] = ()
    ignore: Sequence[str] | None = None
    schema: Schema | None = None
    y: Any = None
    outcome: OutcomeRole | None = None
    accept_proposals: bool = False

    def __post_init__(self) -> None:
        check_type("target", self.target, str, "the name of a column")
        check_type("schema", self.schema, Schema, "a schema (see evenhand.schema.read_schema)")
        check_type("favourable", self.favourable, SCALARS, "a label")

    def read(
        self, frame: Any, *, location: str = "data", varied: bool = True, locate: RowLocator | None = None
    ) -> People:
        """Return the people in a data frame.

        Args:
            frame: any data frame that narwhals knows (pandas, polars, pyarrow, ...), one row per person.
            location: how to call the data in messages.
            varied: whether protected attributes will be given other values. Where they are only compared, they may be
                numbers as well.
            locate: as for ``encode``.

        Raises:
            EvenhandError: nothing says what is decided or who is protected, or the data do not fit what is said.
        """
        columns = list_columns(frame)
        if isinstance(self.y, str):
            raise OptionError(f"expected labels as `y=`, got {self.y!r}", hint=f"to name a column: target={self.y!r}")
        labels = None if self.y is None else read_column("y", self.y)
        target = self._name_target(frame, columns, labels)
        if labels is not None:
            check_index(data=frame, y=self.y)
            frame, columns = add_columns(frame, {target: labels}, {target: "y"}), [*columns, target]
        people = encode(self._resolve(frame, target, columns, varied), frame, location=location, locate=locate)
        if self.favourable is not None or self.schema is not None or people.schema.target.kind != "label":
            return people
        assert people.reading is not None  # ``encode`` sets it
        proposed = describe_target(people.schema.target).model_copy(update={"how": "proposed"})
        return replace(people, reading=people.reading.model_copy(update={"true_label": proposed}))

    def _name_target(self, frame: Any, columns: list[str], labels: Any) -> str:
        """Return the column of the true labels; those beside the data get a name of their own where theirs is taken.

        Raises:
            OptionError: nothing names it, or the labels are there twice.
        """
        target = self.target or (self.schema.target.name if self.schema is not None else None)
        if self.y is None:
            if target is None:
                hint = "name the column: `target=NAME`; or give a schema"
                raise OptionError("expected to know what is decided, got neither target= nor y=", hint=hint)
            return target
        own = str(target or getattr(self.y, "name", None) or "label")
        while target is None and own in columns and not _holds_labels(frame, own, labels):
            own += " (y)"
        target = own
        if target in columns:
            raise OptionError(
                f"expected the true labels once, got both y= and the column {target!r}",
                hint="leave y= out, or drop the column from the data",
            )
        return target

    def _resolve(self, frame: Any, target: str, columns: list[str], varied: bool) -> Schema:
        """Return the schema in force: the given one with what is said on top, or one inferred from the data."""
        names = list_names(() if self.protected is None else self.protected, "protected")
        if target in names:
            raise OptionError(f"expected an attribute in protected=, got the target {target!r}", hint="name another")
        if not names and not (self.schema is not None and self.schema.protected):
            hint = "name at least one: `protected=NAME`"
            raise OptionError("expected at least one protected attribute, got none", hint=hint)
        if self.schema is not None:
            schema = change_target(self.schema, self.target, self.favourable, self.outcome)
            schema.positions(names)
            return schema.with_protected(names) if names and varied else schema
        ignored = list_names(() if self.ignore is None else self.ignore, "ignore")
        for argument, given in (("target", [target]), ("protected", names), ("ignore", ignored)):
            for name in given:
                require_column(name, columns, argument)
        return infer_schema(
            frame,
            target=target,
            protected=names if varied else (),
            compared=() if varied else names,
            favourable=self.favourable,
            unfavourable=self.unfavourable,
            ignore=ignored,
            outcome=self.outcome,
            accept_proposals=self.accept_proposals,
        )


def require_column(name: str, columns: Sequence[str], argument: str) -> None:
    """Refuse a name that is not a column, given as such an argument.

    Raises:
        DataError: there is no such column.
    """
    if name not in columns:
        several = [one.strip() for one in name.split(",")]
        hint = f"{suggest_name(name, columns)}the columns are: {', '.join(columns)}"
        if len(several) > 1 and all(one in columns for one in several):
            hint = f"name the {len(several)} columns one by one"
        raise DataError(f"expected a column of the data as `{argument}=`, got {name!r}", hint=hint)


def add_weights(data: Any, weights: Any) -> tuple[Any, str | None]:
    """Add a column of weights to a data frame.

    Args:
        data: Data frame in memory.
        weights: Array of shape (n,), the name of a column, or None.

    Returns:
        The data frame, and the name of the column; without weights, the same frame and None.

    Raises:
        DataError: The weights are not one per row.
    """
    if weights is None:
        return data, None
    names = list_columns(data)
    if isinstance(weights, str):
        require_column(weights, names, "sample_weight")
        return data, weights
    name = "sample_weight" + " (given)" * ("sample_weight" in names)
    return add_columns(data, {name: read_column("sample_weight", weights)}, {name: "sample_weight"}), name


def add_columns(data: Any, columns: Mapping[str, Any], arguments: Mapping[str, str] | None = None) -> Any:
    """Add columns to a data frame.

    Args:
        data: Data frame in memory.
        columns: Name -> values, shape (n,).
        arguments: Name -> argument in messages; by default the name.

    Raises:
        DataError: A column has another length, or the library of the data frame cannot hold its values.
    """
    import narwhals as nw

    table = nw.from_native(data, eager_only=True)
    named = {(arguments or {}).get(name, name): column for name, column in columns.items()}
    check_rows({"data": table, **named})
    series = []
    for (name, values), argument in zip(columns.items(), named, strict=True):
        try:
            series.append(nw.new_series(name, values.tolist(), backend=table.implementation))
        except (TypeError, ValueError) as error:
            message = f"expected values of one type as `{argument}=`, which {table.implementation} needs: {error}"
            raise DataError(message, hint="convert them to text, or to numbers") from None
    return table.with_columns(*series).to_native()


def change_target(
    schema: Schema, target: str | None = None, favourable: Value | None = None, outcome: OutcomeRole | None = None
) -> Schema:
    """Return a schema with what is said on top of it about its target: what people want of it, and what it is.

    Raises:
        OptionError: the target is another one, or the label is not one of its labels.
        SchemaError: the target cannot be what it is said to be.
    """
    known = schema.target
    if target is not None and target != known.name:
        raise OptionError(f"the target is {target!r}, but the schema says {known.name!r}")
    outcome = outcome or OutcomeRole()
    kind = outcome.kind or ("ordinal" if outcome.order is not None else known.kind)
    replace(outcome, kind=kind).require_no_favourable(known.name, favourable)
    if (kind, outcome.order, outcome.unit) == (known.kind, None, None):
        return _change_favourable(schema, favourable)
    described: dict[str, Any] = {"name": known.name, "kind": kind, "unit": outcome.unit}
    if kind == "number":
        wanted = favourable or (known.favourable if known.is_number else "neither")
        described |= {"favourable": wanted, "unit": outcome.unit or known.unit}
    elif kind == "labels":
        described |= {"values": known.values}
    elif kind == "ordinal":
        described |= order_labels(known.name, known.values or outcome.order or (), favourable, outcome.order)
    else:
        if favourable is None:
            hint = "say it: `favourable=VALUE`"
            raise SchemaError(f"which label of {known.name!r} is favourable? The schema does not say it", hint=hint)
        described |= {"favourable": favourable, "values": None if known.is_number else known.values}
    return Schema.parse(schema.model_dump() | {"target": described})


def _change_favourable(schema: Schema, favourable: Value | None) -> Schema:
    """Return a schema with another favourable label, or direction of a number, if one is given."""
    if favourable is None or find_value(favourable, [schema.target.favourable]) is not None:
        return schema
    values = DIRECTIONS if schema.target.is_number else schema.target.values
    label = find_value(favourable, values or (favourable,))
    if label is None:
        raise OptionError(f"the favourable label {favourable!r} is not among the schema's labels {values}")
    changed = schema.target.model_dump() | {"favourable": label}
    return schema.model_copy(update={"target": Target.model_validate(changed)})


def list_names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    """Check that an argument is a list of different names, and return them as a tuple.

    Args:
        names: Names of columns.
        argument: Name of the argument in messages.

    Raises:
        OptionError: The argument is a single text, contains other values than texts, or has a name twice.
    """
    if isinstance(names, str):
        raise OptionError(f"expected a list of names as `{argument}=`, got {names!r}", hint=f"{argument}=[{names!r}]")
    scalar = getattr(names, "ndim", 1) == 0
    listed = tuple(names) if isinstance(names, Iterable) and not scalar else None
    column = getattr(names, "name", None)
    hint = f"{argument}=[{column!r}]" if isinstance(column, str) else f"name the columns: {argument}=['sex']"
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise OptionError(
            f"expected a list of names as `{argument}=`, got "
            + (repr(names) if listed is None else f"a {type(names).__name__} of {len(listed):,} values"),
            hint=hint,
        )
    repeated = next((name for name, count in Counter(listed).items() if count > 1), None)
    if repeated is not None:
        count = listed.count(repeated)
        raise OptionError(f"expected different names as `{argument}=`, got {repeated!r} {count} times", hint=hint)
    return listed


def list_columns(frame: Any, *, lazy: bool = False) -> list[str]:
    """Return the names of a data frame's columns.

    Args:
        frame: any data frame that narwhals knows.
        lazy: whether one may be lazy, whose rows are not in memory.

    Raises:
        DataError: it is not a data frame, has no rows, or its columns do not have different texts as names.
    """
    import narwhals as nw

    if frame is None:
        raise DataError("expected a data frame, got none", hint="data=, one row per person")
    try:
        columns = list_column_names(frame, "data")
    except TypeError:
        shape = f" of shape {frame.shape}" if hasattr(frame, "shape") else ""
        hint = _frame_hint(frame)
        raise DataError(f"expected a data frame, got {type(frame).__name__}{shape}", hint=hint) from None
    table = nw.from_native(frame)
    if isinstance(table, nw.LazyFrame):
        if not lazy:
            raise DataError(
                "expected a data frame in memory, got a lazy one, of which decisions alone are audited",
                hint="collect it, or a sample of its rows",
            )
    elif len(table) == 0:
        raise DataError("expected at least one person, got a data frame without rows")
    return columns


def _frame_hint(given: Any) -> str:
    """Return how to go on with what is not a data frame."""
    if hasattr(given, "predict") or callable(given):
        return "the model comes first, then the data"
    if isinstance(given, Mapping):
        return "pandas.DataFrame(data)"
    return "name its columns: pandas.DataFrame(X, columns=[...])"


def _holds_labels(frame: Any, column: str, labels: Any) -> bool:
    """Return whether a column of the data holds the labels."""
    import narwhals as nw

    return bool(nw.from_native(frame, eager_only=True)[column].to_list() == labels.tolist())


def refuse_arrays(columns: Mapping[str, Any], membership: Mapping[str, Any] | None) -> None:
    """Check that arguments are names of columns, which they must be beside ``data``.

    Raises:
        OptionError: An argument is neither a name nor None, or no mapping from attributes to groups to names.
    """
    for name, value in columns.items():
        if not isinstance(value, str | None):
            raise OptionError(
                f"expected the name of a column of `data=` as `{name}=`, got {type(value).__name__}",
                hint="add the values to the data as a column, or leave out `data=` and pass all columns",
            )
    nested = {} if membership is None else membership
    groups = nested.values() if isinstance(nested, Mapping) else [nested]
    if not all(isinstance(by, Mapping) and all(isinstance(name, str) for name in by.values()) for by in groups):
        raise OptionError(
            "expected names of columns of `data=` in `membership=`, got values",
            hint='membership={"race": {"white": "p_white", "black": "p_black"}}',
        )


def table_of_columns(
    arguments: Mapping[str, Any], features: Any, more: Mapping[str, Any] | None = None
) -> tuple[Any, tuple[str, ...], dict[str, str]]:
    """Build a table from columns that are given as arguments.

    Args:
        arguments: Name -> values, shape (n,); None if the argument was not given.
        features: Sensitive features, see ``table_of_decisions``.
        more: Other columns by name.

    Returns:
        The table, the names of the sensitive features, and argument -> name of its column.

    Raises:
        DataError: The columns differ in length or index, or an argument is not a column.
    """
    import pandas as pd

    present = {name: values for name, values in arguments.items() if values is not None}
    check_index(**present, sensitive_features=features)
    named = read_columns("sensitive_features", features)
    columns = {name: read_column(name, values) for name, values in present.items()}
    features_by_argument = {f"sensitive_features[{name!r}]": column for name, column in named.items()}
    check_rows({**columns, **features_by_argument, **(more or {})})
    names = {name: f"{name} " * (name in named) + name for name in columns}
    table = {names[name]: column for name, column in columns.items()} | named | dict(more or {})
    return pd.DataFrame(table), tuple(named), names
