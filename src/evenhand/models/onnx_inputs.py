"""How individuals become the inputs of an ONNX model: one tensor with all attributes, or one input each, by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models.questions import numbers
from evenhand.schema import Attribute, Schema, decode

NUMBERS = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_,
}  # fmt: skip
WORDS = "tensor(string)"


def check_inputs(session: Any, schema: Schema, name: str) -> None:
    """Make sure that the schema can feed every input.

    Raises:
        ModelError: an input is no attribute, no tensor of numbers or words, or has another width.
    """
    inputs = session.get_inputs()
    unusable = [given for given in inputs if given.type not in NUMBERS and given.type != WORDS]
    if unusable:
        raise ModelError(f"the input {unusable[0].name!r} is a {unusable[0].type}", where=name)
    if len(inputs) > 1 or attribute_of(inputs[0].name, schema) is not None:
        for given in inputs:
            if attribute_of(given.name, schema) is None:
                raise ModelError(
                    f"the model's input {given.name!r} is no attribute of the schema",
                    where=name,
                    mend=f"the attributes are: {', '.join(schema.names)}; or let the model take one tensor of all",
                )
        return
    shape = inputs[0].shape
    width = len(schema.attributes) if inputs[0].type == WORDS else schema.width
    if len(shape) != 2 or (isinstance(shape[1], int) and shape[1] != width):
        raise ModelError(
            f"the model takes a tensor of shape {shape}, but the schema's {len(schema.attributes)} attributes give "
            f"{width} inputs",
            where=name,
            mend="describe every input of the model in the schema, in its order, with the right encoding",
        )


def attribute_of(given: str, schema: Schema) -> Attribute | None:
    """The attribute that an input is named after; exporters write ``_`` for what is no letter or digit."""
    if given in schema.names:
        return schema[given]
    alike = [name for name in schema.names if re.sub(r"\W", "_", name) == given]
    return schema[alike[0]] if len(alike) == 1 else None


def feeds(session: Any, schema: Schema, individuals: NDArray[np.float64], name: str) -> dict[str, NDArray[Any]]:
    """What the model is given about individuals (n, attributes), by input name.

    Raises:
        ModelError: a value is missing where the model has no place for that.
    """
    inputs = session.get_inputs()
    if len(inputs) == 1 and attribute_of(inputs[0].name, schema) is None:
        if inputs[0].type != WORDS:
            return {inputs[0].name: numbers(schema, individuals, where=name).astype(NUMBERS[inputs[0].type])}
        frame = decode(schema, individuals)
        columns = [_words(frame[attribute].to_numpy(), attribute, name) for attribute in schema.names]
        return {inputs[0].name: np.stack(columns, axis=1)}
    frame = decode(schema, individuals)
    given_by_name = {}
    for given in inputs:
        attribute = attribute_of(given.name, schema)
        if attribute is None:
            raise ModelError(f"the model's input {given.name!r} is no attribute of the schema", where=name)
        values = frame[attribute.name].to_numpy()
        if given.type == WORDS:
            column = _words(values, attribute.name, name)
        else:
            entries = individuals[:, schema.position(attribute.name)]
            column = _plain(values, attribute, entries, np.dtype(NUMBERS[given.type]), name)
        given_by_name[given.name] = column[:, None] if len(given.shape) == 2 else column
    return given_by_name


def _words(values: NDArray[Any], attribute: str, name: str) -> NDArray[Any]:
    words = values.astype(object)
    for i, value in enumerate(words):
        if value != value:
            raise ModelError(
                f"attribute {attribute!r} has missing values, and the model knows words only",
                where=name,
                mend=f"say `missing: drop` for {attribute!r} in the schema",
            )
        words[i] = f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)
    return words


def _plain(
    values: NDArray[Any], attribute: Attribute, entries: NDArray[np.float64], dtype: np.dtype[Any], name: str
) -> NDArray[Any]:
    if any(isinstance(value, str) for value in attribute.values or ()) and attribute.edges is None:
        values = entries if attribute.encoding == "one-hot" else attribute.inputs(entries)[:, 0]
    if dtype.kind != "f" and np.isnan(entries).any():
        raise ModelError(
            f"attribute {attribute.name!r} has missing values, and the model takes whole numbers only",
            where=name,
            mend=f"say `missing: drop` for {attribute.name!r} in the schema",
        )
    return values.astype(dtype)
