"""ONNX files as additive networks: the graph is evaluated with one cell per input instead of numbers.

Until attributes are mixed, every tensor is an array of cells (functions of one attribute, evaluated exactly); the
first Gemm, MatMul or Add of different attributes makes it a weighted sum of them; the first Relu on such a sum starts
the hidden layers; a Sigmoid, Softmax or classifier ends them. `onnx_operators` says what each operator does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError
from evenhand.models.additive import AdditiveNetwork
from evenhand.models.answer import Answer, finish
from evenhand.models.cells import Cells, Values, cells_of, column, listed, own_words, plain_inputs
from evenhand.models.linear import Linear, mixed
from evenhand.models.onnx_inputs import attribute_of
from evenhand.models.onnx_operators import OPERATORS, Node
from evenhand.models.reading import BLACK_BOX, check_width, reading
from evenhand.models.tensors import Tensor, is_weights
from evenhand.schema import Attribute, Schema

OLDEST_OPSET = 7
"""Before this version of the operators, broadcasting had to be written out, and differently."""


def from_onnx(model: str | Path | bytes, schema: Schema) -> AdditiveNetwork:
    """Read an ONNX model, as exported by PyTorch or skl2onnx, as an additive network.

    The model takes either one tensor (n, inputs) of plain numbers, each attribute by its encoding in the schema, or one
    input per attribute with the attribute's name: words as strings, numbers as they are, and a category code where the
    input is numeric but the attribute's values are words.

    Args:
        model: a path or the file's content.
        schema: what its individuals are.

    Raises:
        ModelError: the file cannot be read, or its inputs or outputs do not fit the schema.
        NotAdditiveError: an operator is unknown or mixes attributes; the message names it and its node.
        MissingExtraError: the package ``onnx`` is not installed.
    """
    name = "ONNX model" if isinstance(model, bytes) else Path(model).name
    graph, opsets = _graph(model, name)
    constants = _constants(graph, name)
    values: dict[str, Tensor] = dict(constants)
    values.update(_inputs([given for given in graph.input if given.name not in constants], schema, name))
    for proto in _needed(graph):
        _evaluate(proto, opsets, values, name)
    outputs: list[Linear | Answer] = []
    for wanted in graph.output:
        value = values.get(wanted.name)
        if value is None or is_weights(value):
            raise ModelError(f"the output {wanted.name!r} does not depend on the person", where=name)
        outputs.append(value if isinstance(value, Linear | Answer) else mixed(value))
    return finish(outputs, schema, name=name)


def _graph(model: str | Path | bytes, name: str) -> tuple[Any, dict[str, int]]:
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("onnx", extra="onnx", purpose="to read an ONNX model") from None
    try:
        proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(str(model))
    except FileNotFoundError as error:
        raise ModelError(f"there is no such file: {error.filename or error}", where=name) from None
    except (DecodeError, OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"the file is no ONNX model, or it is truncated ({error})", where=name) from None
    if not proto.graph.node:
        raise ModelError("the file holds no ONNX model: there is not one operator in it", where=name)
    opsets = {opset.domain: opset.version for opset in proto.opset_import}
    if opsets.get("", OLDEST_OPSET) < OLDEST_OPSET:
        raise NotAdditiveError(
            f"the model is written for version {opsets['']} of ONNX's operators, which is not read", where=name,
            mend="export it again with a newer opset",
        )  # fmt: skip
    return proto.graph, opsets


def _constants(graph: Any, name: str) -> dict[str, Values]:
    from onnx import numpy_helper

    try:
        return {tensor.name: _words(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise ModelError(f"the weights cannot be read ({error})", where=name) from None


def _words(array: Values) -> Values:
    # Object arrays are reserved for cells; ONNX gives words as bytes or as objects.
    if array.dtype.kind != "O":
        return array
    words = [value.decode() if isinstance(value, bytes) else str(value) for value in array.flat]
    return np.array(words, dtype=str).reshape(array.shape)


def _inputs(given: list[Any], schema: Schema, name: str) -> dict[str, Tensor]:
    if len(given) == 1 and attribute_of(given[0].name, schema) is None:
        return {given[0].name: _one_tensor(given[0], schema, name)}
    columns: dict[str, Tensor] = {}
    for item in given:
        attribute, shape = attribute_of(item.name, schema), _shape(item)
        if attribute is None:
            raise ModelError(
                f"the model's input {item.name!r} is no attribute of the schema",
                where=name,
                mend=f"the attributes are: {', '.join(schema.names)}; or let the model take one tensor of all",
            )
        if len(shape) > 2 or (len(shape) == 2 and shape[1] not in (1, None)):
            raise ModelError(f"the input {item.name!r} has shape {shape}, not one column", where=name)
        cell = _own_column(schema.position(attribute.name), attribute, _type(item, name))
        columns[item.name] = cells_of([cell], (1,) if len(shape) == 2 else ())
    return columns


def _one_tensor(given: Any, schema: Schema, name: str) -> Cells:
    shape, dtype = _shape(given), _type(given, name)
    words = np.dtype(dtype).kind == "U"
    width = len(schema.attributes) if words else schema.width
    inner = [size for size in shape[1:] if size is not None]
    known = len(inner) == len(shape) - 1
    if known and int(np.prod(inner)) != width:
        if not words:
            check_width(int(np.prod(inner)), schema, where=name)
        raise ModelError(f"the model takes {int(np.prod(inner))} columns, the schema has {width}", where=name)
    if words:
        cells = cells_of([_own_column(i, attribute, dtype) for i, attribute in enumerate(schema.attributes)])
    else:
        cells = plain_inputs(schema, dtype)
    return cells.reshape(inner) if known else cells


def _own_column(position: int, attribute: Attribute, dtype: Any) -> Any:
    if not listed(attribute):
        if np.dtype(dtype).kind == "U":
            raise NotAdditiveError(f"the model reads the number {attribute.name!r} as a word", mend=BLACK_BOX)
        return column(position, attribute, lambda entries: entries.astype(dtype))
    values = own_words(attribute)
    if values.dtype.kind == "U" and np.dtype(dtype).kind != "U":
        values = (
            np.arange(len(values)) if attribute.encoding == "one-hot" else attribute.inputs(attribute.domain())[:, 0]
        )
    if np.dtype(dtype).kind == "U" and values.dtype.kind == "f" and all(float(value).is_integer() for value in values):
        values = values.astype(np.int64)
    read = values.astype(dtype)
    return column(position, attribute, lambda entries: read[(entries - attribute.first).astype(np.int64)])


def _shape(given: Any) -> list[int | None]:
    dimensions = given.type.tensor_type.shape.dim
    return [item.dim_value if item.HasField("dim_value") else None for item in dimensions]


def _type(given: Any, name: str) -> Any:
    from onnx import TensorProto, helper

    kind = given.type.tensor_type.elem_type
    if kind == TensorProto.STRING:
        return str
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind)
    except KeyError:
        raise ModelError(f"the input {given.name!r} is no tensor of numbers or words", where=name) from None
    if dtype.kind not in "fiub" or dtype == np.float16:
        raise NotAdditiveError(f"the input {given.name!r} is of type {dtype}", where=name, mend=BLACK_BOX)
    return dtype


def _needed(graph: Any) -> list[Any]:
    """The nodes that the outputs depend on, in order."""
    wanted = {output.name for output in graph.output}
    kept: list[Any] = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input)
    return kept[::-1]


def _evaluate(proto: Any, opsets: dict[str, int], values: dict[str, Tensor], name: str) -> None:
    place = f"operator {proto.op_type}" + (f" (node {proto.name!r})" if proto.name else "")
    operator = OPERATORS.get(proto.op_type)
    try:
        inputs = [values[source] if source else None for source in proto.input]
    except KeyError as error:
        raise ModelError(f"{place} needs {error}, which nothing gives", where=name) from None
    with reading(place, where=name):
        results: Any
        if all(value is None or is_weights(value) for value in inputs):
            results = _constant(proto, opsets, inputs)
        elif operator is None or proto.domain not in ("", "ai.onnx", "ai.onnx.ml"):
            raise NotAdditiveError("it is not among the operators that can be read")
        else:
            results = operator(Node(proto.op_type, _attributes(proto), inputs))
    answers = results if isinstance(results, tuple) else (results,)
    values.update(
        {key: answer for key, answer in zip(proto.output, answers, strict=False) if key and answer is not None}
    )


def _attributes(proto: Any) -> dict[str, Any]:
    from onnx import AttributeProto, helper, numpy_helper

    read: dict[str, Any] = {}
    for attribute in proto.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.TENSOR:
            value = _words(numpy_helper.to_array(value))
        elif attribute.type == AttributeProto.STRING:
            value = value.decode()
        elif attribute.type == AttributeProto.STRINGS:
            value = [word.decode() for word in value]
        read[attribute.name] = value
    return read


def _constant(proto: Any, opsets: dict[str, int], inputs: list[Any]) -> Values | tuple[Values, ...]:
    """A node that has only weights to work on, by ONNX's own reference implementation."""
    if proto.op_type == "Identity":
        return np.asarray(inputs[0])
    from onnx.reference import ReferenceEvaluator

    feeds = {key: value for key, value in zip(proto.input, inputs, strict=True) if key}
    try:
        results = ReferenceEvaluator(proto, opsets=opsets).run(None, feeds)
    except (NotImplementedError, RuntimeError) as error:
        raise NotAdditiveError(f"it cannot be evaluated on the weights ({error})") from None
    return tuple(_words(np.asarray(result)) for result in results)
