"""How individuals become the inputs of an ONNX model: one tensor with all attributes, or one input each, by name."""

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
from evenhand.models.blackbox.questions import plain_numbers
from evenhand.models.column_types import read_number
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import decode
from evenhand.schema.schema import Schema
from evenhand.schema.words import truth_key

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
    """Make sure that the schema can feed every input.

    Raises:
        ModelError: an input is not an attribute, no tensor of numbers or words, or has another width.
    """
    inputs = session.get_inputs()
    unusable = [given for given in inputs if given.type not in NUMBER_TYPES and given.type != TEXT_TYPE]
    if unusable:
        raise ModelError(f"the input {unusable[0].name!r} is a {unusable[0].type}", location=name)
    if len(inputs) > 1 or attribute_for_input(inputs[0].name, schema) is not None:
        for given in inputs:
            if attribute_for_input(given.name, schema) is None:
                raise ModelError(
                    f"the model's input {given.name!r} is not an attribute of the schema",
                    location=name,
                    hint=f"the attributes are: {', '.join(schema.names)}; or let the model take one tensor of all",
                )
        return
    shape = inputs[0].shape
    width = len(schema.attributes) if inputs[0].type == TEXT_TYPE else schema.width
    layout = input_layout(shape, width)
    if layout is None or (inputs[0].type == TEXT_TYPE and (layout > 0 or len(shape) > 2)):
        raise ModelError(
            f"the model takes a tensor of shape {shape}, but the schema's {len(schema.attributes)} attributes give "
            f"{width} inputs",
            location=name,
            hint="describe every input of the model in the schema, in its order, with the right encoding",
        )


def input_layout(shape: Sequence[Any], width: int) -> int | None:
    """Return how a tensor of all attributes holds people.

    Args:
        shape: Sizes of the axes; a name or None for a size that is not fixed.
        width: Number of columns.

    Returns:
        0 for people on the first axis, 1 for a vector of one person, 2 for a column of one person; None for neither.
    """
    if list(shape) == [width]:
        return 1
    inner = [size if isinstance(size, int) else None for size in shape[1:]]
    if inner and (inner == [None] or (None not in inner and math.prod(size or 0 for size in inner) == width)):
        return 0
    return 2 if list(shape) == [width, 1] else None


def attribute_for_input(given: str, schema: Schema) -> Attribute | None:
    """Return the attribute that an input is named after; exporters write ``_`` for what is not a letter or digit."""
    if given in schema.names:
        return schema[given]
    alike = [name for name in schema.names if re.sub(r"\W", "_", name) == given]
    return schema[alike[0]] if len(alike) == 1 else None


def input_feeds(session: Any, schema: Schema, individuals: Floats, name: str) -> dict[str, NDArray[Any]]:
    """Return what the model is given about individuals (n, attributes), by input name.

    Raises:
        ModelError: a value is missing where the model has no place for that.
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
    given_by_name = {}
    for given in inputs:
        attribute = attribute_for_input(given.name, schema)
        if attribute is None:
            raise ModelError(f"the model's input {given.name!r} is not an attribute of the schema", location=name)
        values = frame[attribute.name].to_numpy()
        if given.type == TEXT_TYPE:
            column = _text_values(values, attribute.name, name)
        else:
            entries = individuals[:, schema.position(attribute.name)]
            column = _plain_values(values, attribute, entries, np.dtype(NUMBER_TYPES[given.type]), name)
        given_by_name[given.name] = column[:, None] if len(given.shape) == 2 else column
    return given_by_name


def _text_values(values: NDArray[Any], attribute: str, name: str) -> NDArray[Any]:
    words = values.astype(object)
    for i, value in enumerate(words):
        if value != value:
            raise ModelError(
                f"attribute {attribute!r} has missing values, and the model knows words only",
                location=name,
                hint=f"say `missing: drop` for {attribute!r} in the schema",
            )
        words[i] = f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)
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
        raise ModelError(
            f"attribute {attribute.name!r} has missing values, and the model takes whole numbers only",
            location=name,
            hint=f"say `missing: drop` for {attribute.name!r} in the schema",
        )
    return values.astype(dtype)


def word_numbers(attribute: Attribute) -> Floats:
    """Return the numbers that an input of numbers gets for the words that an attribute lists, shape (values,).

    They are those of its encoding. Without one, words that are numbers or truth values stand for themselves, and others
    for their positions.
    """
    own = _own_numbers(attribute)
    if own is not None:
        return own
    return attribute.domain() if attribute.encoding == "one-hot" else attribute.inputs(attribute.domain())[:, 0]


def _own_numbers(attribute: Attribute) -> Floats | None:
    values = attribute.values or ()
    truths = [truth_key(value) for value in values]
    numbers = [
        read_number(value) if truth is None else float(truth) for value, truth in zip(values, truths, strict=True)
    ]
    known = [number for number in numbers if number is not None]
    return np.array(known, dtype=np.float64) if attribute.encoding is None and len(known) == len(values) else None


def _lists_words(attribute: Attribute) -> bool:
    return any(isinstance(value, str) for value in attribute.values or ()) and attribute.edges is None


def encoded_attributes(session: Any, schema: Schema) -> list[Attribute]:
    """Return the attributes that the model is given by their encoding, not in the data's own words or numbers."""
    numeric = [given.name for given in session.get_inputs() if given.type != TEXT_TYPE]
    own = [attribute_for_input(name, schema) for name in numeric]
    if own == [None]:
        return list(schema.attributes)
    worded = [attribute for attribute in own if attribute is not None and _lists_words(attribute)]
    return [attribute for attribute in worded if _own_numbers(attribute) is None]


# Which outputs of an ONNX graph are labels, and which are scores of these labels.

SCORES = ("tensor(float)", "tensor(double)", "tensor(float16)", "seq(map(")


@dataclass(frozen=True)
class OnnxOutputs:
    """Outputs of a graph.

    Attributes:
        label: name of the output with the labels, if any.
        score: name of the output with the scores, if any.
        names: labels in the order of the scores, if the graph names them.
        position: whether the label output gives positions, not labels.
    """

    label: str | None
    score: str | None
    names: tuple[Any, ...] | None
    position: bool


def find_outputs(graph: Any, session: Any, name: str) -> OnnxOutputs:
    """Find labels and scores among a graph's outputs, and what the graph says about them.

    Raises:
        ModelError: there are several candidates for either.
    """
    labels = [out.name for out in session.get_outputs() if not out.type.startswith(SCORES)]
    scores = [out.name for out in session.get_outputs() if out.type.startswith(SCORES)]
    if len(scores) > 1:
        scores = [score for score in scores if "prob" in score.lower()] or scores
    if len(labels) > 1 or len(scores) > 1:
        raise ModelError(
            f"the model gives several outputs: {', '.join((*labels, *scores))}",
            location=name,
            hint="export it with its labels, its scores, or both",
        )
    label, score = labels[0] if labels else None, scores[0] if scores else None
    made = {output: node for node in graph.node for output in node.output}
    names: tuple[Any, ...] | None = None
    position = False
    for node in (*_trace_back(made, label), *_trace_back(made, score)):
        names = names or _label_names(node, graph)
        position = position or (node.op_type == "ArgMax" and names is None)
    return OnnxOutputs(label, score, names, position and label is not None)


def _trace_back(made: dict[str, Any], output: str | None) -> Iterator[Any]:
    """The nodes that lead to an output, last first; where several values meet, the one that carries the answer."""
    while output in made:
        node = made[output]
        yield node
        # ArrayFeatureExtractor looks positions up in labels; Concat ends with the second class
        inputs = [source for source in node.input if source in made]
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
            # A table of more than one dimension holds no labels: it is an embedding.
            if tensor.name == node.input[0] and (node.op_type != "Gather" or len(tensor.dims) == 1):
                values = numpy_helper.to_array(tensor).reshape(-1).tolist()
                return tuple(value.decode() if isinstance(value, bytes) else value for value in values)
    return None
