"""Match a tree model's features and categories with the input columns of a schema."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.additive.network import check_width
from evenhand.models.trees.nodes import MAX_CATEGORY
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema
from evenhand.schema.table import plain_value, word_of

PLACEHOLDER = re.compile(r"(f|x|Column_)\d+")
"""Default feature names of libraries for unnamed training data."""


@dataclass(frozen=True)
class FeatureColumns:
    """Input columns and category codes of a model's features.

    Attributes:
        positions: Input column of each feature, shape (features,).
        codes: For features with named categories, the model's code of each input number (-1 for none).
    """

    positions: Integers
    codes: Mapping[int, Integers]

    def input_numbers(self, feature: int, categories: Integers) -> Integers:
        """Convert categories from the model's codes to input numbers."""
        codes = self.codes.get(feature)
        return categories if codes is None else np.flatnonzero(np.isin(codes, categories) & (codes >= 0))


def match_features(
    schema: Schema, features: int, names: Sequence[str], categories: Mapping[int, Sequence[Any]], *, location: str
) -> FeatureColumns:
    """Match the features of a model and its category codes with the schema.

    Args:
        schema: Schema of the inputs.
        features: Number of features.
        names: Names of the features, if any.
        categories: Categories with the codes 0, 1, ... of a feature.
        location: Name of the model.
    """
    positions = match_columns(schema, features, names, location=location, named_categories=list(categories))
    codes = {
        feature: category_codes(schema, int(positions[feature]), listed, by_name=True, location=location)
        for feature, listed in categories.items()
        if 0 <= feature < features
    }
    return FeatureColumns(positions, codes)


def match_columns(
    schema: Schema, features: int, names: Sequence[str], *, location: str, named_categories: Sequence[int] = ()
) -> Integers:
    """Find the column of ``schema.inputs`` for each feature of a model.

    A model with feature names is matched by name, in any order, and need not use every attribute. A one-hot column is
    called ``attribute_value``, as in pandas and scikit-learn. A model without names, or with other names for one-hot
    columns, must use the schema's columns in order.

    Args:
        schema: Schema of the inputs.
        features: Number of features.
        names: Names of the features, if any.
        location: Name of the model.
        named_categories: Features whose categories have names in the model.

    Returns:
        Shape (features,).

    Raises:
        ModelError: a feature is not an attribute, the number of columns differs, or it is unknown whether the model was
            trained on the numbers of a named feature or on their codes.
    """
    columns: list[str] = []
    for attribute in schema.attributes:
        one_hot = attribute.encoding == "one-hot"
        columns += [f"{attribute.name}_{value}" for value in attribute.values or ()] if one_hot else [attribute.name]
    if set(names) & set(columns) or not all(PLACEHOLDER.fullmatch(name) for name in names):
        if len(names) != features or len(set(names)) != features:
            raise ModelError(f"expected {features} different feature names, got {len(set(names))}", location=location)
        exact = {column: i for i, column in enumerate(columns)}
        # LightGBM replaces spaces in names by underscores.
        plain = {column.replace(" ", "_"): i for i, column in enumerate(columns)}
        plain = {} if len(plain) < len(columns) else plain
        matches = [exact.get(name, plain.get(name.replace(" ", "_"))) for name in names]
        if None not in matches:
            positions = np.array(matches, dtype=np.int64)
            _check_encodings(schema, positions, set(named_categories), location)
            return positions
        has_one_hot = any(attribute.width > 1 for attribute in schema.attributes)
        if not has_one_hot or any(position not in (None, i) for i, position in enumerate(matches)):
            unknown = [name for name, position in zip(names, matches, strict=True) if position is None]
            raise ModelError(
                f"the model uses {unknown[0]!r}, which is not an attribute of the schema",
                location=location,
                hint=f"the attributes are: {', '.join(schema.names)}; use the same names as the model's features",
            )
    check_width(features, schema, location=location)
    return np.arange(features, dtype=np.int64)


def _check_encodings(schema: Schema, columns: Integers, named_categories: set[int], location: str) -> None:
    """Check that attribute entries (positions) are the numbers in the model's training data."""
    for feature, column in enumerate(columns):
        attribute = column_attribute(schema, int(column))
        if attribute.encoding not in (None, "code") or feature in named_categories:
            continue
        values = attribute.values or ()
        numbers = all(isinstance(value, int | float) for value in values)
        if attribute.edges is not None or (numbers and list(values) != list(range(len(values)))):
            kind = "bins of a number" if attribute.edges is not None else f"numbers, such as {values[0]}"
            raise ModelError(
                f"the model has a feature named {attribute.name!r}, whose values are {kind}: it is unknown whether it "
                "was trained on the numbers or on their positions",
                location=location,
                hint=f"list the model's number for each value of {attribute.name!r} in the schema: `encoding: [...]`",
            )


def column_attribute(schema: Schema, column: int) -> Attribute:
    """Find the attribute of an input column."""
    owners = [attribute for attribute in schema.attributes for _ in range(attribute.width)]
    return owners[column]


def category_codes(schema: Schema, column: int, categories: Sequence[Any], *, by_name: bool, location: str) -> Integers:
    """Compute the model's code for each input number of a column of categories.

    A library trained on strings encodes them itself, and its codes may differ from those of the schema.

    Args:
        schema: Schema of the inputs.
        column: The input column.
        categories: Categories with the model's codes 0, 1, ...
        by_name: Whether the categories are data values, as in a model trained on a data frame. If not, or if none of
            them is a value, they are input numbers.
        location: Name of the model.

    Returns:
        ``codes[number]`` is the code for that input number, -1 if the model has none; shape (largest number + 1,).

    Raises:
        ModelError: the categories are neither values nor input numbers of the attribute.
    """
    attribute = column_attribute(schema, column)
    texts = [word_of(plain_value(category)) for category in categories]
    numbers, values = _numbers_and_values(attribute, location)
    words = [word_of(value) for value in values]
    digits = [word_of(number) for number in numbers]
    names_fit = sum(category in set(words) for category in texts) if by_name else 0
    numbers_fit = sum(category in set(digits) for category in texts)
    named = names_fit == len(texts) or (names_fit > 0 and numbers_fit < len(texts))
    if texts and not named and numbers_fit == 0:
        shown = ", ".join(repr(category) for category in texts[:5])
        raise ModelError(
            f"the model has the categories {shown} of {attribute.name!r}, the schema {', '.join(map(repr, words[:5]))}",
            location=location,
            hint=f"write the values of {attribute.name!r} in the schema as in the training data",
        )
    code = {category: i for i, category in enumerate(texts)}
    codes = np.full(int(numbers.max()) + 1, -1, dtype=np.int64)
    for number, word in zip(numbers, words if named else digits, strict=True):
        codes[int(number)] = code.get(word, -1)
    return codes


def category_texts(schema: Schema, column: int, location: str) -> list[str]:
    """List all strings that may represent a category of an input column: values and input numbers."""
    numbers, values = _numbers_and_values(column_attribute(schema, column), location)
    return [str(value) for value in values] + [word_of(value) for value in (*values, *numbers)]


def _numbers_and_values(attribute: Attribute, location: str) -> tuple[Floats, list[Any]]:
    """List the input numbers of an attribute and the corresponding values."""
    if attribute.size is None or attribute.size > MAX_CATEGORY:
        raise ModelError(
            f"{attribute.name!r} is categorical in the model but in the schema "
            + ("a real number" if attribute.size is None else f"one of {attribute.size:,} numbers"),
            location=location,
            hint="describe it in the schema as in the training data",
        )
    if attribute.encoding == "one-hot":
        return np.array([0.0, 1.0]), [0, 1]
    entries = attribute.domain()
    numbers = attribute.inputs(entries)[:, 0]
    if not ((numbers >= 0) & (numbers < MAX_CATEGORY) & (numbers == np.floor(numbers))).all():
        raise ModelError(
            f"the model treats {attribute.name!r} as categorical, with integers from 0 to {MAX_CATEGORY - 1}; the "
            f"schema has {numbers.min():g} to {numbers.max():g}",
            location=location,
            hint=f"set `encoding: code` for {attribute.name!r}, or omit its encoding",
        )
    return numbers, list(attribute.values or entries.tolist())
