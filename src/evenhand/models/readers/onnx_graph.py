"""ONNX files as additive networks: the graph is evaluated on ``LinearTensor`` instead of numbers.

Every Relu starts a hidden layer; a Sigmoid or Softmax ends the network. `onnx_operators` defines the operators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError
from evenhand.models.additive.cells import Values, plain_inputs
from evenhand.models.additive.linear import LinearTensor, input_units
from evenhand.models.additive.network import AdditiveNetwork, check_width
from evenhand.models.additive.tensors import OutputTensor, Tensor, is_weights, network_from_outputs
from evenhand.models.readers.onnx_operators import ELEMENTWISE, OperatorNode, TransposedTensor, apply_operator
from evenhand.models.readers.onnx_signature import input_layout
from evenhand.models.readers.reading import BLACK_BOX_HINT, locate_errors
from evenhand.schema.schema import Schema

GraphValue: TypeAlias = Values | Tensor | TransposedTensor

OLDEST_OPSET = 7
"""Oldest supported version of the operators; older ones broadcast differently."""


def read_onnx(model: str | Path | bytes, schema: Schema, *, kind: str | None = None) -> AdditiveNetwork:
    """Read an ONNX model, as exported by PyTorch, as an additive network.

    The model takes one tensor (n, inputs) of encoded attributes. Operators of ``ai.onnx.ml``, as in exported
    scikit-learn pipelines, are not read; the pipeline itself is.

    Args:
        model: Path or contents of a file.
        schema: Schema of the inputs.
        kind: Meaning of the scores, see ``network_from_outputs``.

    Raises:
        ModelError: the file cannot be read, or its inputs or outputs do not fit the schema.
        NotAdditiveError: an operator is unsupported or mixes attributes; the message names it and its node.
        MissingExtraError: the package ``onnx`` is not installed.
    """
    name = "ONNX model" if isinstance(model, bytes) else Path(model).name
    graph, opsets = _load_graph(model, name)
    from onnx import numpy_helper  # known to be installed now

    try:
        constants = {tensor.name: _decode_strings(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise ModelError(f"the weights cannot be read ({error})", location=name) from None
    values: dict[str, GraphValue] = dict(constants)
    inputs = [item for item in graph.input if item.name not in constants]
    layout, columns = _input_columns(inputs, graph, schema, name)
    values[inputs[0].name] = columns
    for proto in _required_nodes(graph):
        _evaluate_node(proto, opsets, values, name, is_vector=layout == 1)
    outputs: list[Tensor] = []
    for output in graph.output:
        value = values.get(output.name)
        if layout == 2 and isinstance(value, TransposedTensor):
            value = value.rows
        if not isinstance(value, LinearTensor | OutputTensor):
            raise ModelError(f"the output {output.name!r} does not depend on the inputs", location=name)
        outputs.append(value)
    return network_from_outputs(outputs, schema, name=name, kind=kind)


def _load_graph(model: str | Path | bytes, name: str) -> tuple[Any, dict[str, int]]:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise MissingExtraError("onnx", extra="onnx", purpose="to read an ONNX model") from None
    try:
        proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(str(model))
    except FileNotFoundError as error:
        raise ModelError(f"there is no such file: {error.filename or error}", location=name) from None
    except (DecodeError, OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"the file is not an ONNX model, or it is truncated ({error})", location=name) from None
    if not proto.graph.node:
        raise ModelError("the file is not an ONNX model: it has no operators", location=name)
    opsets = {opset.domain: opset.version for opset in proto.opset_import}
    if opsets.get("", OLDEST_OPSET) < OLDEST_OPSET:
        raise NotAdditiveError(
            f"expected ONNX opset {OLDEST_OPSET} or later, got {opsets['']}",
            location=name,
            hint="export it with a newer opset",
        )
    return proto.graph, opsets


def _decode_strings(array: Values) -> Values:
    # ONNX stores strings as bytes or objects.
    if array.dtype.kind != "O":
        return array
    words = [value.decode() if isinstance(value, bytes) else str(value) for value in array.flat]
    return np.array(words, dtype=str).reshape(array.shape)


def _input_columns(
    inputs: list[Any], graph: Any, schema: Schema, name: str
) -> tuple[int | None, Tensor | TransposedTensor]:
    """Find the layout of the input, see ``input_layout``, and its columns."""
    if len(inputs) != 1:
        raise NotAdditiveError(
            f"the model takes {len(inputs)} inputs instead of one tensor of encoded attributes",
            location=name,
            hint=BLACK_BOX_HINT,
        )
    sizes = inputs[0].type.tensor_type.shape.dim
    shape = [size.dim_value if size.HasField("dim_value") else None for size in sizes]
    layout = input_layout(shape, schema.width)
    operators = {node.op_type for node in _required_nodes(graph)}
    if layout == 1 and not operators <= {*ELEMENTWISE, "MatMul", "Constant"}:
        raise NotAdditiveError(
            "the model takes a single row without a batch axis, and uses operators that require an axis",
            location=name,
            hint="export it with a batch axis in front; without one it can be audited and searched",
        )
    row = input_units(plain_inputs(schema, _input_dtype(inputs[0], name)))
    if layout:
        return layout, row if layout == 1 else TransposedTensor(row)
    columns = [size for size in shape[1:] if size is not None]
    if len(columns) == len(shape) - 1:
        check_width(int(np.prod(columns)), schema, location=name)
    users = {node.op_type for node in graph.node if inputs[0].name in node.input}
    if len(shape) > 2 and not users <= {"Flatten", "Reshape"}:
        raise NotAdditiveError(
            f"the rows of the input have {len(shape) - 1} axes, which the model does not flatten",
            location=name,
            hint=BLACK_BOX_HINT,
        )
    return layout, row


def _input_dtype(item: Any, name: str) -> Any:
    from onnx import helper

    try:
        dtype = helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type)
    except KeyError:
        raise ModelError(f"the input {item.name!r} is not a tensor", location=name) from None
    if dtype.kind not in "fiub" or dtype == np.float16:
        raise NotAdditiveError(f"the input {item.name!r} has type {dtype}", location=name, hint=BLACK_BOX_HINT)
    return dtype


def _required_nodes(graph: Any) -> list[Any]:
    """Select the nodes that the outputs depend on, in order."""
    required = {output.name for output in graph.output}
    nodes: list[Any] = []
    for node in reversed(graph.node):
        if required.intersection(node.output):
            nodes.append(node)
            required.update(node.input)
    return nodes[::-1]


def _evaluate_node(
    proto: Any, opsets: dict[str, int], values: dict[str, GraphValue], name: str, *, is_vector: bool
) -> None:
    from onnx import helper

    place = f"operator {proto.op_type}" + (f" (node {proto.name!r})" if proto.name else "")
    try:
        inputs = [values[source] if source else None for source in proto.input]
    except KeyError as error:
        raise ModelError(f"{place} requires {error}, which no node computes", location=name) from None
    with locate_errors(place, location=name):
        results: Any
        if all(value is None or is_weights(value) for value in inputs):
            results = _fold_constant(proto, opsets, inputs)
        elif proto.domain not in ("", "ai.onnx"):
            raise NotAdditiveError("this operator is not supported")
        else:
            if is_vector and proto.op_type == "MatMul" and is_weights(inputs[0]):
                inputs = [inputs[1], inputs[0].T]  # a vector is multiplied from both sides
            settings = {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute}
            results = apply_operator(OperatorNode(proto.op_type, settings, inputs))
    answers = results if isinstance(results, tuple) else (results,)
    values.update(
        {key: answer for key, answer in zip(proto.output, answers, strict=False) if key and answer is not None}
    )


def _fold_constant(proto: Any, opsets: dict[str, int], inputs: list[Any]) -> Values | tuple[Values, ...]:
    """Compute a node whose inputs are all weights with ONNX's reference implementation."""
    if proto.op_type == "Identity":
        return np.asarray(inputs[0])
    from onnx.reference import ReferenceEvaluator

    feeds = {key: value for key, value in zip(proto.input, inputs, strict=True) if key}
    try:
        results = ReferenceEvaluator(proto, opsets=opsets).run(None, feeds)
    except (NotImplementedError, RuntimeError) as error:  # raised for unsupported operators
        raise NotAdditiveError(f"it cannot be evaluated on the weights ({error})") from None
    return tuple(_decode_strings(np.asarray(result)) for result in results)
