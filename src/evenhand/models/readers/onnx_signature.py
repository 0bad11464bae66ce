"""Inputs and outputs of an ONNX model: one tensor with all attributes, or one named input per attribute."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats
from evenhand.errors import ModelError
from evenhand.models.blackbox.base import missing_values_error, plain_numbers
from evenhand.models.column_types import read_number
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import decode
from evenhand.schema.schema import Schema
from evenhand.schema.table import TRUTH, outcome_key

NUMBER_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
TEXT_TYPE = "tensor(string)"


def check_inputs(session: Any, schema: Schema, name: str) -> None:
    """Check that the schema provides every input.

    Raises:
        ModelError: an input is not an attribute, is not a tensor of numbers or strings, or has the wrong width.
    """
    inputs = session.get_inputs()
    unusable = [item for item in inputs if item.type not in NUMBER_TYPES and item.type != TEXT_TYPE]
    if unusable:
        raise ModelError(f"the input {unusable[0].name!r} is a {unusable[0].type}", location=name)
    if len(inputs) > 1 or attribute_for_input(inputs[0].name, schema) is not None:
        for item in inputs:
            require_attribute(item.name, schema, location=name)
        return
    shape = inputs[0].shape
    width = len(schema.attributes) if inputs[0].type == TEXT_TYPE else schema.width
    layout = input_layout(shape, width)
    if layout is None or (inputs[0].type == TEXT_TYPE and (layout > 0 or len(shape) > 2)):
        raise ModelError(
            f"the model takes a tensor of shape {shape}, but the schema's {len(schema.attributes)} attributes have "
            f"{width} inputs",
            location=name,
            hint="describe every input of the model in the schema, in its order, with the right encoding",
        )


def input_layout(shape: Sequence[Any], width: int) -> int | None:
    """Find the batch axis of a tensor with all attributes.

    Args:
        shape: Sizes of the axes. A name or None for a variable size.
        width: Number of columns.

    Returns:
        0 if the first axis is the batch, 1 for a single row as a vector, 2 for a single row as a column; otherwise
        None.
    """
    if list(shape) == [width]:
        return 1
    inner = [size if isinstance(size, int) else None for size in shape[1:]]
    if inner and (inner == [None] or (None not in inner and math.prod(size or 0 for size in inner) == width)):
        return 0
    return 2 if list(shape) == [width, 1] else None


def attribute_for_input(input_name: str, schema: Schema) -> Attribute | None:
    """Find the attribute of an input by name. Exporters replace special characters by ``_``."""
    if input_name in schema.names:
        return schema[input_name]
    matches = [name for name in schema.names if re.sub(r"\W", "_", name) == input_name]
    return schema[matches[0]] if len(matches) == 1 else None


def require_attribute(input_name: str, schema: Schema, *, location: str) -> Attribute:
    """Find the attribute of an input.

    Raises:
        ModelError: There is none.
    """
    attribute = attribute_for_input(input_name, schema)
    if attribute is None:
        raise ModelError(
            f"the model's input {input_name!r} is not an attribute of the schema",
            location=location,
            hint=f"the attributes are: {', '.join(schema.names)}; or give the model a single input tensor",
        )
    return attribute


def input_feeds(session: Any, schema: Schema, individuals: Floats, name: str) -> dict[str, NDArray[Any]]:
    """Compute the model's inputs for individuals (n, attributes) by input name.

    Raises:
        ModelError: a value is missing and the model does not accept missing values.
    """
    inputs = session.get_inputs()
    if len(inputs) == 1 and attribute_for_input(inputs[0].name, schema) is None:
        if inputs[0].type != TEXT_TYPE:
            numbers: NDArray[Any] = plain_numbers(schema, individuals, location=name).astype(
                NUMBER_TYPES[inputs[0].type]
            )
            shape = inputs[0].shape
            if input_layout(shape, schema.width):
                return {inputs[0].name: numbers.reshape(shape)}
            return {inputs[0].name: numbers.reshape(-1, *shape[1:]) if len(shape) > 2 else numbers}
        frame = decode(schema, individuals)
        columns = [_text_values(frame[attribute].to_numpy(), attribute, name) for attribute in schema.names]
        return {inputs[0].name: np.stack(columns, axis=1)}
    frame = decode(schema, individuals)
    feeds = {}
    for item in inputs:
        attribute = require_attribute(item.name, schema, location=name)
        values = frame[attribute.name].to_numpy()
        if item.type == TEXT_TYPE:
            column = _text_values(values, attribute.name, name)
        else:
            entries = individuals[:, schema.position(attribute.name)]
            column = _plain_values(values, attribute, entries, np.dtype(NUMBER_TYPES[item.type]), name)
        feeds[item.name] = column[:, None] if len(item.shape) == 2 else column
    return feeds


def _text_values(values: NDArray[Any], attribute: str, name: str) -> NDArray[Any]:
    words = values.astype(object)
    for i, value in enumerate(words):
        if value != value:
            raise missing_values_error(attribute, "but the model accepts only strings", name)
        words[i] = f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)
    return words


def _plain_values(
    values: NDArray[Any], attribute: Attribute, entries: Floats, dtype: np.dtype[Any], name: str
) -> NDArray[Any]:
    if attribute.values is None:
        values = entries
    elif _lists_words(attribute):
        numbers = np.append(word_numbers(attribute), np.nan)
        values = numbers[np.where(np.isnan(entries), -1, entries).astype(np.int64)]
    if dtype.kind != "f" and np.isnan(entries).any():
        raise missing_values_error(attribute.name, "but the model accepts only integers", name)
    return values.astype(dtype)


def word_numbers(attribute: Attribute) -> Floats:
    """Compute the numbers of a numeric input for an attribute's listed strings, shape (values,): its encoding, or else
    parsed numbers and Booleans, or else positions.
    """
    numbers = _literal_numbers(attribute)
    if numbers is not None:
        return numbers
    return attribute.domain() if attribute.encoding == "one-hot" else attribute.inputs(attribute.domain())[:, 0]


def _literal_numbers(attribute: Attribute) -> Floats | None:
    values = attribute.values or ()
    keys = [outcome_key(value) for value in values]
    numbers = [float(key) if key in TRUTH else read_number(value) for key, value in zip(keys, values, strict=True)]
    if attribute.encoding is not None or None in numbers:
        return None
    return np.array(numbers, dtype=np.float64)


def _lists_words(attribute: Attribute) -> bool:
    return any(isinstance(value, str) for value in attribute.values or ()) and attribute.edges is None


def encoded_attributes(session: Any, schema: Schema) -> list[Attribute]:
    """List the attributes that the model receives as encoded numbers, not as data values."""
    numeric = [item.name for item in session.get_inputs() if item.type != TEXT_TYPE]
    attributes = [attribute_for_input(name, schema) for name in numeric]
    if attributes == [None]:
        return list(schema.attributes)
    with_words = [attribute for attribute in attributes if attribute is not None and _lists_words(attribute)]
    return [attribute for attribute in with_words if _literal_numbers(attribute) is None]


# Label and score outputs of an ONNX graph.

SCORES = ("tensor(float)", "tensor(double)", "tensor(float16)", "seq(map(")


@dataclass(frozen=True)
class OnnxOutputs:
    """Outputs of a graph.

    Attributes:
        label: Name of the label output, if any. score: Name of the score output, if any.
        names: Labels in score order, if the graph names them.
        position: Whether the label output contains positions.
    """

    label: str | None
    score: str | None
    names: tuple[Any, ...] | None
    position: bool


def find_outputs(graph: Any, session: Any, name: str) -> OnnxOutputs:
    """Find the label and score outputs of a graph and the label names.

    Raises:
        ModelError: there are several candidates for the label or the score output.
    """
    labels = [out.name for out in session.get_outputs() if not out.type.startswith(SCORES)]
    scores = [out.name for out in session.get_outputs() if out.type.startswith(SCORES)]
    if len(scores) > 1:
        scores = [score for score in scores if "prob" in score.lower()] or scores
    if len(labels) > 1 or len(scores) > 1:
        raise ModelError(
            f"the model has several outputs: {', '.join((*labels, *scores))}",
            location=name,
            hint="export it with one label output, one score output, or both",
        )
    label, score = labels[0] if labels else None, scores[0] if scores else None
    nodes = {output: node for node in graph.node for output in node.output}
    names: tuple[Any, ...] | None = None
    position = False
    for node in (*_trace_back(nodes, label), *_trace_back(nodes, score)):
        names = names or _label_names(node, graph)
        position = position or (node.op_type == "ArgMax" and names is None)
    return OnnxOutputs(label, score, names, position and label is not None)


def _trace_back(nodes: dict[str, Any], output: str | None) -> Iterator[Any]:
    """Yield the nodes that lead to an output, last first. If a node has several inputs, follow the scores."""
    while output in nodes:
        node = nodes[output]
        yield node
        # ArrayFeatureExtractor indexes labels by position; Concat ends with the second class
        inputs = [source for source in node.input if source in nodes]
        if not inputs:
            return
        output = inputs[-1] if node.op_type in ("ArrayFeatureExtractor", "Concat") else inputs[0]


def _label_names(node: Any, graph: Any) -> tuple[Any, ...] | None:
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels") and (attribute.strings or attribute.ints):
            return tuple(word.decode() for word in attribute.strings) or tuple(attribute.ints)
    if node.op_type in ("ArrayFeatureExtractor", "Gather"):
        from onnx import numpy_helper

        for tensor in graph.initializer:
            # A multidimensional table is an embedding, not labels.
            if tensor.name == node.input[0] and (node.op_type != "Gather" or len(tensor.dims) == 1):
                values = numpy_helper.to_array(tensor).reshape(-1).tolist()
                return tuple(value.decode() if isinstance(value, bytes) else value for value in values)
    return None
