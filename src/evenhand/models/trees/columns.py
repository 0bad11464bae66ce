"""Which input column of a schema each feature of a tree model is, and which of its categories each number means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.trees.nodes import MAX_CATEGORY
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema

PLACEHOLDER = re.compile(r"(f|x|Column_)\d+")
"""Names that libraries invent where the training data had none."""


@dataclass(frozen=True)
class FeatureColumns:
    """Which input column each feature is, and what its categories mean.

    Attributes:
        positions: shape (features,).
        codes: for features whose categories have names, the model's code of each input number (-1: none).
    """

    positions: Integers
    codes: Mapping[int, Integers]

    def input_numbers(self, feature: int, categories: Integers) -> Integers:
        """Return categories in the model's codes as the input numbers that mean them."""
        codes = self.codes.get(feature)
        return categories if codes is None else np.flatnonzero(np.isin(codes, categories) & (codes >= 0))


def match_features(
    schema: Schema, features: int, names: Sequence[str], categories: Mapping[int, Sequence[Any]], *, location: str
) -> FeatureColumns:
    """Match the features of a model, and the categories that it numbers itself, with the schema.

    Args:
        schema: Schema of the inputs.
        features: Number of features.
        names: Names of the features, or nothing.
        categories: Categories behind the codes 0, 1, ... of a feature.
        location: Name of the model.

    Raises:
        ModelError: as ``match_columns`` and ``category_codes``.
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
    """Return the column of ``schema.inputs`` that each feature of a model is.

    A model that knows its features' names is matched by name (a one-hot column is called ``attribute_value``, as
    pandas and scikit-learn call it), whatever the order; it need not use every attribute. A model that does not, and
    one whose names for one-hot columns differ, is taken to have the schema's columns in their order.

    Args:
        schema: says how each attribute becomes columns.
        features: how many features the model has.
        names: their names, or nothing.
        location: how to call the model in messages.
        named_categories: features whose categories the model knows by name.

    Returns:
        Shape (features,).

    Raises:
        ModelError: a feature is not an attribute, the number of columns differs, or the model knows a feature by name
            whose values are numbers while the schema does not say whether it saw them or their codes.
    """
    columns = _column_names(schema)
    if set(names) & set(columns) or not all(PLACEHOLDER.fullmatch(name) for name in names):
        if len(names) != features or len(set(names)) != features:
            raise ModelError(f"{len(set(names))} different names for {features} features", location=location)
        found = _name_positions(names, columns)
        if None not in found:
            matched = np.array(found, dtype=np.int64)
            _refuse_ambiguous(schema, matched, set(named_categories), location)
            return matched
        hot = any(attribute.width > 1 for attribute in schema.attributes)
        moved = [name for i, name in enumerate(names) if found[i] not in (None, i)]
        if not hot or moved:
            unknown = [name for name, position in zip(names, found, strict=True) if position is None]
            raise ModelError(
                f"the model uses {unknown[0]!r}, which is not an attribute of the schema",
                location=location,
                hint=f"the attributes are: {', '.join(schema.names)}; call them as the model's features are called",
            )
    if features != schema.width:
        raise ModelError(
            f"the model takes {features} inputs, but the schema's {len(schema.attributes)} attributes "
            f"give {schema.width}",
            location=location,
            hint="describe every input of the model in the schema, in its order, with the right encoding",
        )
    return np.arange(features, dtype=np.int64)


def _column_names(schema: Schema) -> list[str]:
    names = []
    for attribute in schema.attributes:
        one_hot = attribute.encoding == "one-hot"
        names += [f"{attribute.name}_{value}" for value in attribute.values or ()] if one_hot else [attribute.name]
    return names


def _name_positions(names: Sequence[str], columns: Sequence[str]) -> list[int | None]:
    exact = {column: i for i, column in enumerate(columns)}
    # LightGBM writes an underscore for each blank of a name.
    plain = {column.replace(" ", "_"): i for i, column in enumerate(columns)}
    if len(plain) < len(columns):
        plain = {}
    return [exact.get(name, plain.get(name.replace(" ", "_"))) for name in names]


def _refuse_ambiguous(schema: Schema, columns: Integers, named_categories: set[int], location: str) -> None:
    """Refuse attributes whose entries (positions) are not the numbers the model saw in its data frame."""
    for feature, column in enumerate(columns):
        attribute = column_attribute(schema, int(column))
        if attribute.encoding not in (None, "code") or feature in named_categories:
            continue
        values = attribute.values or ()
        numbers = all(isinstance(value, int | float) for value in values)
        if attribute.edges is not None or (numbers and list(values) != list(range(len(values)))):
            seen = "bins of a number" if attribute.edges is not None else f"numbers, such as {values[0]}"
            raise ModelError(
                f"the model knows {attribute.name!r} by name, and its values are {seen}: "
                "whether it was trained on the numbers or on their positions cannot be seen",
                location=location,
                hint=f"say for {attribute.name!r} in the schema which number the model gets for each value: "
                "`encoding: [...]`",
            )


def column_attribute(schema: Schema, column: int) -> Attribute:
    """Return the attribute that an input column belongs to."""
    owners = [attribute for attribute in schema.attributes for _ in range(attribute.width)]
    return owners[column]


def category_codes(schema: Schema, column: int, categories: Sequence[Any], *, by_name: bool, location: str) -> Integers:
    """Return the model's own code of the category that each input number of a column means.

    A library that is trained on words numbers them itself; the schema may number them otherwise.

    Args:
        schema: says which value each input number means.
        column: the input column.
        categories: what the model's codes 0, 1, ... stand for.
        by_name: whether they are values as in the data (a model trained on a data frame); otherwise, and where none
            of them is such a value, they are input numbers.
        location: how to call the model in messages.

    Returns:
        ``codes[number]`` is the code for that input number, -1 where the model has none; shape (largest number + 1,).

    Raises:
        ModelError: the categories are neither values nor input numbers of the attribute.
    """
    attribute = column_attribute(schema, column)
    given = [_category_text(category) for category in categories]
    numbers, values = _numbers_and_values(attribute, location)
    words = [_category_text(value) for value in values]
    digits = [_category_text(number) for number in numbers]
    names_fit = sum(category in set(words) for category in given) if by_name else 0
    numbers_fit = sum(category in set(digits) for category in given)
    named = names_fit == len(given) or (names_fit > 0 and numbers_fit < len(given))
    if given and not named and numbers_fit == 0:
        shown = ", ".join(repr(category) for category in given[:5])
        raise ModelError(
            f"the model knows {attribute.name!r} as {shown}, the schema as {', '.join(map(repr, words[:5]))}",
            location=location,
            hint=f"write the values of {attribute.name!r} in the schema as they stand in the training data",
        )
    code = {category: i for i, category in enumerate(given)}
    codes = np.full(int(numbers.max()) + 1, -1, dtype=np.int64)
    for number, word in zip(numbers, words if named else digits, strict=True):
        codes[int(number)] = code.get(word, -1)
    return codes


def category_texts(schema: Schema, column: int, location: str) -> list[str]:
    """Return every text by which a model may know a category of an input column: values, and the input numbers.

    Raises:
        ModelError: as ``category_codes``.
    """
    numbers, values = _numbers_and_values(column_attribute(schema, column), location)
    return [str(value) for value in values] + [_category_text(each) for each in (*values, *numbers)]


def _numbers_and_values(attribute: Attribute, location: str) -> tuple[Floats, list[Any]]:
    """Return the input numbers that an attribute can give, and the value that each means."""
    if attribute.size is None or attribute.size > MAX_CATEGORY:
        raise ModelError(
            f"the model takes {attribute.name!r} as categories, the schema as "
            + ("a real number" if attribute.size is None else f"{attribute.size:,} numbers"),
            location=location,
            hint="describe it as the model was trained on it",
        )
    if attribute.encoding == "one-hot":
        return np.array([0.0, 1.0]), [0, 1]
    entries = attribute.domain()
    numbers = attribute.inputs(entries)[:, 0]
    if not ((numbers >= 0) & (numbers < MAX_CATEGORY) & (numbers == np.floor(numbers))).all():
        raise ModelError(
            f"the model takes {attribute.name!r} as categories, which must be whole numbers from 0 to "
            f"{MAX_CATEGORY - 1}; the schema gives it {numbers.min():g} to {numbers.max():g}",
            location=location,
            hint=f"say `encoding: code` for {attribute.name!r}, or leave out its encoding",
        )
    return numbers, list(attribute.values or entries.tolist())


def _category_text(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()
