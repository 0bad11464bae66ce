"""Roles of the columns of a table of people: target, protected attributes, weights and group probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError, OptionError, SchemaError
from evenhand.schema.arrays import (
    SCALARS,
    check_index,
    check_names,
    check_rows,
    check_type,
    list_columns,
    read_column,
    read_columns,
    require_column,
)
from evenhand.schema.attribute import Value, match_label
from evenhand.schema.infer import infer_schema
from evenhand.schema.outcome import INFERRED, NEITHER, OutcomeRole, Target, order_labels
from evenhand.schema.people import People, encode
from evenhand.schema.probabilities import GroupProbabilities, read_group_columns
from evenhand.schema.schema import Schema
from evenhand.schema.table import CodedTable

NEGLIGIBLE = 1e-12
"""Weights below this fraction of the mean weight count as 0."""


@dataclass(frozen=True)
class PeopleWeights:
    """Sample weights of people, such as inverse selection probabilities of a survey.

    Attributes:
        name: Column of the weights.
        values: Non-negative weights with mean 1, shape (n,).
    """

    name: str
    values: Floats

    def at(self, rows: Integers) -> PeopleWeights:
        """Select people by position."""
        return replace(self, values=self.values[rows])


def read_weights(frame: Any, name: str, rows: Integers) -> PeopleWeights:
    """Read the weights of the given rows.

    Args:
        frame: Any data frame that narwhals supports, or a table.
        name: Column of the weights.
        rows: Positions of the rows, such as ``People.rows``.

    Raises:
        DataError: A weight is missing, not a finite number, or negative, or all are 0.
    """
    values = CodedTable.of(frame)[name].finite_numbers(rows, "weight")
    if values.min() < 0 or values.max() == 0:
        wrong = f"{values.min():g} in row {int(rows[np.argmin(values)]) + 1}" if values.min() < 0 else "only zeros"
        raise DataError(f"expected weights of at least 0 in column {name!r}, got {wrong}")
    # Only ratios of weights matter, and squares of relative weights above the limit do not underflow.
    relative = values / values.mean()
    return PeopleWeights(name, np.where(relative < NEGLIGIBLE, 0.0, relative))


@dataclass(frozen=True)
class SampleRoles:
    """Names of the columns that contain weights and group probabilities.

    Attributes:
        weight: Column of the sample weights.
        membership: Column of each probability, by attribute and group.
    """

    weight: str | None = None
    membership: Mapping[str, Mapping[str, str]] | None = None

    def by_role(self) -> dict[str, list[str]]:
        """List the columns by role."""
        roles = {"weight": [] if self.weight is None else [self.weight]}
        return roles | {f"membership {name}": list(by.values()) for name, by in (self.membership or {}).items()}

    def columns(self, present: Sequence[str]) -> list[str]:
        """List the columns of weights and probabilities, and check that they are present in the data.

        Raises:
            DataError: A column is missing.
        """
        pairs = [(role, name) for role, names in self.by_role().items() for name in names]
        for role, name in pairs:
            require_column(name, present, role)
        return [name for _, name in pairs]

    def read(self, frame: Any, rows: Integers) -> tuple[PeopleWeights | None, tuple[GroupProbabilities, ...]]:
        """Read the weights and probabilities of the given rows, such as ``People.rows``, from a data frame or table.

        Raises:
            EvenhandError: A column has invalid values.
        """
        table = CodedTable.of(frame)
        weights = None if self.weight is None else read_weights(table, self.weight, rows)
        memberships = (
            GroupProbabilities.read(name, {group: table.frame[column].to_numpy()[rows] for group, column in by.items()})
            for name, by in (self.membership or {}).items()
        )
        return weights, tuple(memberships)


@dataclass(frozen=True)
class ColumnRoles:
    """Roles of the columns of a table of people.

    Attributes:
        target: Column of the true label. Default: the target of the schema.
        protected: Attributes that decisions must not depend on. Default: the protected attributes of the schema.
        favourable: Favourable label. Default: proposed from labels such as ``1``, ``yes`` and ``approved``. For a
            numeric target: ``higher`` or ``lower``.
        unfavourable: All other labels. Required if there are several, unless ``outcome`` has kind ``label``.
        ignore: Columns that are not attributes, such as identifiers and weights, if the schema is inferred.
        schema: Schema of the columns. Default: inferred from the data.
        y: True labels, shape (n,), if they are not a column of the data.
        outcome: Kind of the target. Default: that of the schema, or inferred from the data.
        accept_proposals: Whether to accept the proposals for columns that cannot be attributes as they are (see
            ``propose_columns``).
        sample: Columns of weights and group probabilities, which are not attributes unless ``schema`` contains them.
    """

    target: str | None = None
    protected: Sequence[str] | None = None
    favourable: Value | None = None
    unfavourable: Sequence[Value] = ()
    ignore: Sequence[str] | None = None
    schema: Schema | None = None
    y: Any = None
    outcome: OutcomeRole = INFERRED
    accept_proposals: bool = False
    sample: SampleRoles | None = None

    def __post_init__(self) -> None:
        check_type("target", self.target, str, "the name of a column")
        check_type("schema", self.schema, Schema, "a schema (see evenhand.schema.read_schema)")
        check_type("favourable", self.favourable, SCALARS, "a label")

    def read(self, frame: Any, *, location: str = "data", varied: bool = True) -> People:
        """Encode the people in a data frame.

        Args:
            frame: Data frame that narwhals supports (pandas, polars, pyarrow, ...), one row per person.
            location: Name of the data in messages.
            varied: Whether protected attributes are varied. If they are only compared, they may be real numbers.

        Raises:
            EvenhandError: The target or the protected attributes are unknown, or the data do not match the schema.
        """
        columns = list_columns(frame)
        target = self.target or (None if self.schema is None else self.schema.target.name)
        if isinstance(self.y, str):
            raise OptionError(f"expected labels as `y=`, got {self.y!r}", hint=f"to name a column: target={self.y!r}")
        if self.y is not None:
            labels = read_column("y", self.y)
            target = self._name_labels(frame, columns, target, labels)
            check_index(data=frame, y=self.y)
            frame = add_columns(frame, {target: labels}, {target: "y"})
        if target is None:
            hint = "name its column: `target=NAME`; or pass a schema"
            raise OptionError("expected the true labels, got neither target= nor y=", hint=hint)
        table = CodedTable(frame, location=location)
        people = encode(self._resolve(table, target, varied), table)
        if self.favourable is not None or self.schema is not None or people.schema.target.kind != "label":
            return people
        assert people.reading is not None  # ``encode`` sets it
        proposed = people.schema.target.describe().model_copy(update={"how": "proposed"})
        return replace(people, reading=people.reading.model_copy(update={"true_label": proposed}))

    def _name_labels(self, frame: Any, columns: Sequence[str], target: str | None, labels: Any) -> str:
        """Choose a new name for labels that are not a column of the data.

        Raises:
            OptionError: The data already contain the labels as a column.
        """
        import narwhals as nw

        name = str(target or getattr(self.y, "name", None) or "label")
        while name in columns:
            if target is not None or nw.from_native(frame, eager_only=True)[name].to_list() == labels.tolist():
                hint = "omit y=, or drop the column from the data"
                raise OptionError(f"expected the true labels once, got both y= and the column {name!r}", hint=hint)
            name += " (y)"
        return name

    def _resolve(self, table: CodedTable, target: str, varied: bool) -> Schema:
        """Apply the roles to the schema, or infer a schema from the data."""
        names = list_protected(self.protected, self.schema)
        if target in names:
            raise OptionError(f"expected an attribute in protected=, got the target {target!r}", hint="name another")
        ignored = () if self.ignore is None else list_names(self.ignore, "ignore")
        if self.sample is not None and self.schema is None:
            ignored = tuple(dict.fromkeys([*ignored, *self.sample.columns(table.names)]))
        used = (target,) if self.schema is None else (target, *self.schema.names)
        if clash := next((name for name in ignored if name in used), None):
            role = "the target" if clash == target else "an attribute of the schema"
            raise OptionError(f"`ignore=` must not contain {role}, {clash!r}", hint="leave it out")
        if self.schema is not None:
            schema = change_target(self.schema, self.target, self.favourable, self.outcome)
            schema.positions(names)
            self._check_unfavourable(schema.target)
            return schema.with_protected(names) if self.protected is not None and varied else schema
        return infer_schema(
            table,
            target=target,
            protected=names if varied else (),
            compared=() if varied else names,
            favourable=self.favourable,
            unfavourable=self.unfavourable,
            ignore=ignored,
            outcome=self.outcome,
            accept_proposals=self.accept_proposals,
        )

    def _check_unfavourable(self, target: Target) -> None:
        """Check that ``unfavourable`` lists all labels of the schema except the favourable one."""
        others = [value for value in target.values or () if value != target.favourable]
        if self.unfavourable and others and set(self.unfavourable) != set(others):
            raise OptionError(
                f"expected the unfavourable labels of the schema, {others}, got {list(self.unfavourable)}",
                location="`unfavourable=`",
                hint="change the target of the schema, or omit `unfavourable=`",
            )


def list_protected(protected: Sequence[str] | None, schema: Schema | None) -> tuple[str, ...]:
    """List the protected attributes of an argument, or else of the schema.

    Raises:
        OptionError: There are no protected attributes.
    """
    names = () if protected is None else list_names(protected, "protected")
    names = names or (() if schema is None else schema.protected)
    if not names:
        hint = "name at least one: `protected=NAME`"
        raise OptionError("expected at least one protected attribute, got none", hint=hint)
    return names


def check_roles(roles: Mapping[str, Sequence[str | None]], columns: Sequence[str]) -> None:
    """Check that every column with a role exists, and that no column has two roles.

    Raises:
        DataError: There is no such column.
        OptionError: A column has two roles.
    """
    used: dict[str, str] = {}
    for role, name in [(role, name) for role, names in roles.items() for name in names if name is not None]:
        require_column(name, columns, role)
        if used.setdefault(name, role) != role:
            raise OptionError(f"expected different columns as `{used[name]}=` and `{role}=`, got {name!r} twice")


def add_columns(data: Any, columns: Mapping[str, Any], arguments: Mapping[str, str] | None = None) -> Any:
    """Add columns to a data frame.

    Args:
        data: Data frame in memory.
        columns: Mapping from name to values, shape (n,).
        arguments: Mapping from name to the argument shown in messages. Default: the name itself.

    Raises:
        DataError: A column has another length, or the library of the data frame cannot store its values.
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
            message = f"expected values of one type as `{argument}=`, as {table.implementation} requires: {error}"
            raise DataError(message, hint="convert them to text, or to numbers") from None
    return table.with_columns(*series).to_native()


def change_target(
    schema: Schema, target: str | None = None, favourable: Value | None = None, outcome: OutcomeRole = INFERRED
) -> Schema:
    """Change the favourable label or the kind of a schema's target.

    Raises:
        OptionError: The schema has another target.
        SchemaError: The target cannot have this kind, or lacks the label.
    """
    current = schema.target
    if target is not None and target != current.name:
        raise OptionError(f"expected the target of the schema, {current.name!r}, got {target!r}")
    if favourable is None and outcome == INFERRED:
        return schema
    kind = outcome.kind or ("ordinal" if outcome.order is not None else current.kind)
    values = current.values
    if favourable is None and kind == current.kind:
        favourable = current.favourable
    if favourable is None and kind == "label":
        hint = "state it: `favourable=VALUE`"
        raise SchemaError(f"the schema does not state the favourable label of {current.name!r}", hint=hint)
    changed: dict[str, Any] = {"name": current.name, "kind": kind, "values": values, "unit": outcome.unit}
    if kind == "ordinal":
        order = outcome.order or (values if current.kind == "ordinal" else None)
        changed |= order_labels(current.name, values or order or (), favourable, order)
    else:
        changed["favourable"] = NEITHER if favourable is None else match_label(favourable, values or ())
    if kind == "number":
        changed |= {"values": None, "unit": outcome.unit or current.unit}
    return Schema.parse(schema.model_dump() | {"target": changed})


def list_names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    """Check that an argument is a list of distinct names, and return them as a tuple.

    Args:
        names: Names of columns.
        argument: Name of the argument in messages.

    Raises:
        OptionError: The argument is a single string, contains values other than strings, or repeats a name.
    """
    column = names if isinstance(names, str) else getattr(names, "name", None)
    hint = f"{argument}=[{column!r}]" if isinstance(column, str) else f"name the columns: {argument}=['sex']"
    if isinstance(names, str) or not isinstance(names, Iterable) or getattr(names, "ndim", 1) == 0:
        raise OptionError(f"expected a list of names as `{argument}=`, got {names!r}", hint=hint)
    listed = tuple(names)
    if not all(isinstance(name, str) for name in listed):
        values = f"a {type(names).__name__} of {len(listed):,} values"
        raise OptionError(f"expected a list of names as `{argument}=`, got {values}", hint=hint)
    for name, count in Counter(listed).items():
        if count > 1:
            raise OptionError(f"expected distinct names as `{argument}=`, got {name!r} {count} times", hint=hint)
    return listed


def refuse_arrays(columns: Mapping[str, Any], membership: Mapping[str, Any] | None) -> None:
    """Check that arguments are column names, as ``data`` requires.

    Raises:
        OptionError: An argument is neither a name nor None, or ``membership`` does not map groups to names.
    """
    for name, value in columns.items():
        check_type(name, value, str, "the name of a column of `data=`")
    nested = {} if membership is None else membership
    for by in nested.values() if isinstance(nested, Mapping) else [nested]:
        if not isinstance(by, Mapping) or not all(isinstance(name, str) for name in by.values()):
            hint = 'membership={"race": {"white": "p_white", "black": "p_black"}}'
            raise OptionError("expected names of columns of `data=` in `membership=`, got values", hint=hint)


def table_of_columns(
    arguments: Mapping[str, Any], features: Any, more: Mapping[str, Any] | None = None
) -> tuple[Any, tuple[str, ...], dict[str, str]]:
    """Build a table from columns that are passed as arguments.

    Args:
        arguments: Mapping from name to values, shape (n,). None for an omitted argument.
        features: Sensitive features, see ``table_of_decisions``.
        more: Other columns by name.

    Returns:
        The table, the names of the sensitive features, and the column name of each argument.

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


def name_sample_columns(membership: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Read probabilities of groups, and name their columns.

    Args:
        membership: Group probabilities by attribute: a mapping from groups to columns, or a data frame.

    Returns:
        Columns by name, and names of columns by attribute and group.

    Raises:
        DataError: The probabilities have no group names, or are not columns.
        OptionError: The argument is not a mapping.
    """
    tables = {} if membership is None else membership
    if not isinstance(tables, Mapping):
        raise OptionError(
            f"expected a mapping from attributes to probabilities as `membership=`, got {type(membership).__name__}",
            hint='membership={"race": probabilities}',
        )
    columns: dict[str, Any] = {}
    names: dict[str, dict[str, str]] = {}
    for attribute in check_names(list(tables), "membership"):
        names[attribute] = {}
        for group, column in read_group_columns(attribute, tables[attribute]).items():
            names[attribute][group] = f"probability of {attribute} {group}"
            columns[names[attribute][group]] = column
    return columns, names


def add_sample_columns(
    data: Any, sample_weight: Any, *, membership: Mapping[str, Any] | None = None
) -> tuple[Any, SampleRoles]:
    """Add columns of weights and group probabilities to a data frame.

    Args:
        data: Any data frame that narwhals supports, one row per person.
        sample_weight: Sample weights, shape (n,), or the name of their column; None for equal weights.
        membership: Group probabilities by attribute: a mapping from groups to columns, or a data frame.

    Returns:
        The data frame, and the roles of these columns.

    Raises:
        DataError: The columns differ in length, or an argument is not a column.
    """
    weight, arguments = sample_weight, {}
    columns, names = name_sample_columns(membership)
    if isinstance(sample_weight, str):
        require_column(sample_weight, list_columns(data), "sample_weight")
    elif sample_weight is not None:
        weight = "sample_weight" + " (given)" * ("sample_weight" in list_columns(data))
        columns[weight] = read_column("sample_weight", sample_weight)
        arguments[weight] = "sample_weight"
    return add_columns(data, columns, arguments) if columns else data, SampleRoles(weight, names)
