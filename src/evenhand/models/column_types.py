"""Column types that a model expects in a text table.

A text table, such as a CSV file, has no column types. Columns of canonical numbers are read as numbers and all others
as strings (see ``evenhand.datasets.read_frame``), but a model may have been trained on other types: levels ``1``,
``2``, ``3`` as strings, prices ``12.50`` as numbers, ``True`` and ``False`` as booleans, or ``NA`` as a missing value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand.errors import ModelError
from evenhand.schema.attribute import NumberFormat
from evenhand.schema.schema import Schema
from evenhand.schema.table import is_missing, means_unknown, outcome_key, plain_value
from evenhand.schema.table import read_number as read_any_number

ColumnType: TypeAlias = Literal["words", "numbers", "booleans", "categories"]


@dataclass(frozen=True)
class ColumnInput:
    """Training-time type and values of a column.

    Attributes:
        type: Type of its values. ``categories`` is pandas' categorical type.
        values: Values in the training data, without missing ones. None if unknown.
        missing: Whether the model was trained with missing values or imputes them.
    """

    type: ColumnType
    values: tuple[Any, ...] | None = None
    missing: bool = False


@dataclass(frozen=True)
class ColumnConversion:
    """Conversion of one column to the type that a model expects.

    Attributes:
        name: Name of the column.
        input: Type and values that the model expects.
        number_format: Format of its numbers, if the schema states one.
        unknown: Strings that the schema treats as missing or unknown.
        whole: Whether its numbers are formatted as integers.
    """

    name: str
    input: ColumnInput
    number_format: NumberFormat | None = None
    unknown: frozenset[str] = frozenset()
    whole: bool = True

    def convert(self, column: Any, location: str) -> Any:
        """Convert a pandas column.

        Raises:
            ModelError: A value cannot be converted. The message names the column, row and value.
        """
        import pandas as pd

        codes, distinct = pd.factorize(column)
        converted = np.empty(len(distinct) + 1, dtype=object)
        converted[-1] = np.nan  # missing values have the code -1
        for i, value in enumerate(distinct.tolist()):
            try:
                converted[i] = self.convert_value(plain_value(value))
            except ValueError:
                row = int(column.index[int(np.argmax(codes == i))]) + 1
                raise ModelError(
                    f"column {self.name!r}, row {row}: the model expects {self._expected}, got {value!r}",
                    location=location,
                    hint="correct the value, or give the model as module:function that converts the table as in "
                    "training",
                ) from None
        if self.input.type == "categories":
            return pd.Series(pd.Categorical(converted[codes], categories=self.input.values), index=column.index)
        if self.input.type == "words":
            return pd.Series(converted[codes], index=column.index, dtype="str")
        gaps = np.array([is_missing(value) for value in converted])[codes].any()
        if self.input.type == "booleans":
            values: Any = converted[codes] if gaps else converted[codes].astype(np.bool_)
        else:
            values = converted.astype(np.float64)[codes]
            values = values.astype(np.int64) if self.whole and not gaps else values
        return pd.Series(values, index=column.index)

    @property
    def _expected(self) -> str:
        if self.input.type == "categories":
            return f"one of the categories {', '.join(map(repr, (self.input.values or ())[:12]))}"
        return {"words": "a word", "numbers": "a number", "booleans": "True or False"}[self.input.type]

    def convert_value(self, value: Any) -> Any:
        """Convert one value."""
        if self.input.type == "words":
            word = value if isinstance(value, str) else self._spell(value)
            values = self.input.values or ()
            if word not in values:  # text tables are read without spaces around words
                word = next((known for known in values if isinstance(known, str) and known.strip() == word), word)
            learnt = word in values
            return np.nan if not learnt and self.input.missing and self._is_unknown(word) else word
        if self.input.type == "categories":
            return self._find_category(value)
        if self._is_unknown(value):
            return np.nan
        if self.input.type == "booleans":
            converted: bool | float | None = {"0": False, "1": True}.get(outcome_key(value))
        else:
            converted = read_number(value, self.number_format)
        if converted is None:
            raise ValueError
        return converted

    def _find_category(self, value: Any) -> Any:
        for category in self.input.values or ():
            number = None if isinstance(category, str) else read_number(value, self.number_format)
            if (
                value == category
                or number == category
                or (isinstance(category, str) and self._spell(value) == category)
            ):
                return category
        if not self._is_unknown(value):
            raise ValueError
        return np.nan

    def _spell(self, value: Any) -> str:
        """Format a number as in the training data, or else in canonical form."""
        if not isinstance(value, float | int) or isinstance(value, bool):
            return str(value)
        for word in self.input.values or ():
            if isinstance(word, str) and read_number(word) == value:
                return word
        return str(int(value)) if self.whole and float(value).is_integer() else str(value)

    def _is_unknown(self, value: Any) -> bool:
        return isinstance(value, str) and (value.strip() in self.unknown or means_unknown(value))


@dataclass(frozen=True)
class ColumnTypes:
    """Conversions from the column types of a text table to those that a model expects.

    Attributes:
        conversions: The conversions by column.
    """

    conversions: Mapping[str, ColumnConversion] = field(default_factory=dict)

    def convert(self, frame: Any, location: str) -> Any:
        """Convert the columns of a pandas data frame.

        Raises:
            ModelError: A value cannot be converted to the expected type.
        """
        if not self.conversions:
            return frame
        names = [name for name in frame.columns if name in self.conversions]
        return frame.assign(**{name: self.conversions[name].convert(frame[name], location) for name in names})

    def with_inputs(self, inputs: Mapping[str, ColumnInput], schema: Schema, frame: Any) -> ColumnTypes:
        """Replace the inputs of some columns."""
        changed = {name: plan_conversion(name, column, schema, frame[name]) for name, column in inputs.items()}
        return ColumnTypes({**self.conversions, **changed})

    def without(self, names: Iterable[str]) -> ColumnTypes:
        """Remove the conversions of some columns."""
        gone = set(names)
        return ColumnTypes({name: conversion for name, conversion in self.conversions.items() if name not in gone})

    def describe(self) -> str:
        """Describe the conversions in one sentence. Empty if there are none."""
        if not self.conversions:
            return ""
        names: dict[str, list[str]] = {}
        for name, conversion in self.conversions.items():
            names.setdefault(conversion.input.type, []).append(name)
        parts = [f"{', '.join(columns)} as {kind}" for kind, columns in names.items()]
        return f"The data have no column types. The model receives {'; '.join(parts)}."


AS_READ = ColumnTypes()
"""No conversion."""


def plan_conversion(name: str, expected: ColumnInput, schema: Schema, column: Any) -> ColumnConversion:
    """Plan the conversion of a column of a text table."""
    attribute = schema[name] if name in schema.names else None
    declared: Sequence[Any] = () if attribute is None else attribute.unknown or ()
    unknown = frozenset({*schema.missing_markers, *(word for word in declared if isinstance(word, str))})
    plan = ColumnConversion(name, expected, None if attribute is None else attribute.number_format, unknown)
    values = [value for value in column.dropna().unique().tolist() if not plan._is_unknown(value)]
    truths = [isinstance(value, str) and value.strip().casefold() in ("true", "false") for value in values]
    if expected.type == "numbers" and truths and all(truths):
        plan = ColumnConversion(name, ColumnInput("booleans", missing=True), plan.number_format, unknown)
    if column.dtype.kind == "f":
        integral = bool(column.isna().any()) and all(float(value).is_integer() for value in values)
    else:
        integral = all(not isinstance(value, str) or value.strip().lstrip("+-").isdigit() for value in values)
    return ColumnConversion(name, plan.input, plan.number_format, unknown, integral)


def needs_conversion(name: str, expected: ColumnInput, schema: Schema, column: Any) -> bool:
    """Check whether a column of a text table differs from the column that a model expects."""
    if expected.type == "categories":
        return True
    if column.dtype.kind in "iufb":
        return expected.type == "words"
    if expected.type == "words":
        plan = plan_conversion(name, expected, schema, column)
        return any(plan.convert_value(word) != word for word in column.dropna().unique().tolist())
    return True


def other_input(name: str, schema: Schema, column: Any) -> ColumnInput | None:
    """Choose the alternative type of a text table's column; None if there is none.

    Canonical numbers may be strings. Strings may be numbers or Booleans if all of them, except markers of unknown
    values, can be parsed as such.
    """
    if column.dtype.kind in "iuf":
        return ColumnInput("words")
    if column.dtype.kind == "b":
        return None
    plan = plan_conversion(name, ColumnInput("numbers", missing=True), schema, column)
    try:
        numbers = [plan.convert_value(word) for word in column.dropna().unique().tolist()]
    except ValueError:
        return None
    return plan.input if any(not is_missing(number) for number in numbers) else None


def read_number(value: Any, number_format: NumberFormat | None = None) -> int | float | None:
    """Parse a number in any format, such as ``3.10`` and ``02134``; None if the string is not a finite number."""
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        return None
    number = math.nan if number_format is None else number_format.read(value)
    number = read_any_number(value) if math.isnan(number) else number
    return number if math.isfinite(number) else None
