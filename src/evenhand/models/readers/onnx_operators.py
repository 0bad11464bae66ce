"""ONNX operators as operations of `tensors`, one registered function each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive import linear, tensors
from evenhand.models.additive.cells import Values
from evenhand.models.additive.linear import LinearTensor
from evenhand.models.additive.tensors import OutputTensor, Tensor


@dataclass(frozen=True)
class OperatorNode:
    """Operator with its settings and inputs. A missing input is None."""

    operator: str
    settings: dict[str, Any]
    inputs: list[Any]

    def weights(self, position: int) -> Values | None:
        """Return an input that must be constant across rows. None if it is missing."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is not None and not tensors.is_weights(value):
            raise NotAdditiveError("an input that must be constant varies across rows")
        return value

    def constant_input(self, position: int) -> Values:
        """Return a required input that must be constant across rows."""
        value = self.weights(position)
        if value is None:
            raise ValueError(f"input {position + 1} is missing")
        return value

    def setting(self, name: str, position: int, default: Any = None) -> Any:
        """Return a setting stored as an attribute in older models and as an input in newer ones."""
        value = self.weights(position)
        return self.settings.get(name, default) if value is None else value.tolist()


@dataclass(frozen=True, eq=False)
class TransposedTensor:
    """Tensor of shape (units, n): the transpose of ``rows``."""

    rows: Tensor


Operator: TypeAlias = Callable[[OperatorNode], Values | Tensor | TransposedTensor | tuple[Tensor, ...]]
OPERATORS: dict[str, Operator] = {}
ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "Neg", "Relu", "Clip", "LeakyRelu", "Max", "Min", "Identity", "Sigmoid"}
"""Operators that do the same to a tensor and to its transpose."""


def register_operator(*names: str) -> Callable[[Operator], Operator]:
    """Register a function for operator names."""

    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


def apply_operator(node: OperatorNode) -> Any:
    """Apply an operator to its inputs.

    The transpose of ``A @ B`` is ``B.T @ A.T``, so operators on transposed tensors become operators on rows.
    """
    if node.operator not in OPERATORS:
        raise NotAdditiveError("this operator is not supported")
    apply = OPERATORS[node.operator]
    if node.operator == "Transpose" or not any(isinstance(value, TransposedTensor) for value in node.inputs):
        return apply(node)
    if node.operator not in {*ELEMENTWISE, "MatMul", "Gemm"}:
        raise NotAdditiveError("it operates on a transposed table")
    if any(isinstance(value, LinearTensor | OutputTensor) for value in node.inputs):
        raise NotAdditiveError("it combines rows with columns")
    inputs = [_transpose(value) for value in node.inputs]
    settings = dict(node.settings)
    if node.operator not in ELEMENTWISE:
        inputs[:2] = inputs[1::-1]
        settings |= {"transA": settings.get("transB", 0), "transB": settings.get("transA", 0)}
    result: Any = apply(OperatorNode(node.operator, settings, inputs))
    return TransposedTensor(result[0] if isinstance(result, tuple) else result)


def _transpose(value: Any) -> Any:
    if isinstance(value, TransposedTensor):
        return value.rows
    return np.atleast_2d(value).T if tensors.is_weights(value) and value.ndim else value


@register_operator("Transpose")
def _exchange_axes(node: OperatorNode) -> Tensor | TransposedTensor:
    value = node.inputs[0]
    if list(node.settings.get("perm", [1, 0])) != [1, 0]:
        raise NotAdditiveError("it does not exchange rows and columns")
    return value.rows if isinstance(value, TransposedTensor) else TransposedTensor(value)


@register_operator("Add", "Sub", "Mul", "Div")
def _arithmetic(node: OperatorNode) -> Tensor:
    return tensors.apply_arithmetic(node.operator, *node.inputs)


@register_operator("Neg")
def _negative(node: OperatorNode) -> Tensor:
    return tensors.apply_arithmetic("Mul", node.inputs[0], np.array(-1, dtype=np.int8))


@register_operator("MatMul")
def _product(node: OperatorNode) -> Tensor:
    return linear.affine(node.inputs[0], node.constant_input(1))


@register_operator("Gemm")
def _gemm(node: OperatorNode) -> Tensor:
    if node.settings.get("transA", 0):
        raise NotAdditiveError("it turns rows into columns")
    weights = node.constant_input(1).T if node.settings.get("transB", 0) else node.constant_input(1)
    bias = node.weights(2)
    return linear.affine(
        node.inputs[0],
        node.settings.get("alpha", 1.0) * weights,
        None if bias is None else node.settings.get("beta", 1.0) * bias,
    )


@register_operator("BatchNormalization")
def _batch_normalization(node: OperatorNode) -> Tensor:
    if node.settings.get("training_mode", 0):
        raise NotAdditiveError("it is in training mode: its output depends on other rows")
    scale, shift, mean, variance = (node.constant_input(i) for i in range(1, 5))
    return tensors.batch_normalization(node.inputs[0], scale, shift, mean, variance, node.settings.get("epsilon", 1e-5))


@register_operator("Relu")
def _relu(node: OperatorNode) -> Tensor:
    return linear.relu(node.inputs[0])


@register_operator("Clip")
def _clip(node: OperatorNode) -> Tensor:
    return linear.clip_units(node.inputs[0], node.setting("min", 1, -np.inf), node.setting("max", 2, np.inf))


@register_operator("LeakyRelu")
def _leaky_relu(node: OperatorNode) -> Tensor:
    return linear.leaky_relu(node.inputs[0], node.settings.get("alpha", 0.01))


@register_operator("Max", "Min")
def _bound(node: OperatorNode) -> Tensor:
    return tensors.bound_tensor(node.inputs, upper=node.operator == "Min")


@register_operator("Identity", "Dropout")
def _identity(node: OperatorNode) -> tuple[Tensor, ...]:
    training = node.weights(2)
    if training is not None and training.any():
        raise NotAdditiveError("it is in training mode: its output is random")
    return (node.inputs[0],)


@register_operator("Cast")
def _cast(node: OperatorNode) -> Tensor:
    from onnx import helper

    return tensors.cast_tensor(node.inputs[0], helper.tensor_dtype_to_np_dtype(node.settings["to"]))


@register_operator("Shape")
def _shape(node: OperatorNode) -> Values:
    # -1 stands for the number of rows, as in operators that use the shape.
    shape = [-1, linear.require_units(node.inputs[0]).units]
    return np.array(shape[node.settings.get("start", 0) : node.settings.get("end", None)], dtype=np.int64)


@register_operator("Reshape")
def _reshape(node: OperatorNode) -> Tensor:
    return tensors.reshape(node.inputs[0], [int(size) for size in node.setting("shape", 1, [])])


@register_operator("Flatten")
def _flatten(node: OperatorNode) -> Tensor:
    if node.settings.get("axis", 1) != 1:
        raise NotAdditiveError("it operates across rows")
    return tensors.reshape(node.inputs[0], [0, -1])


@register_operator("Squeeze", "Unsqueeze")
def _change_axes(node: OperatorNode) -> Tensor:
    return tensors.require_single(node.inputs[0])


@register_operator("Concat")
def _concatenate(node: OperatorNode) -> Tensor:
    return tensors.concatenate(node.inputs, node.settings.get("axis", 1))


@register_operator("Gather")
def _gather(node: OperatorNode) -> Tensor:
    if tensors.is_weights(node.inputs[0]):
        raise NotAdditiveError("it looks up rows of a table (an embedding)")
    return tensors.select_columns(node.inputs[0], node.settings.get("axis", 0), node.constant_input(1))


@register_operator("Slice")
def _slice(node: OperatorNode) -> Tensor:
    value: Tensor = node.inputs[0]
    starts, ends = node.setting("starts", 1), node.setting("ends", 2)
    axes = node.setting("axes", 3) or list(range(len(starts)))
    steps = node.setting("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        columns = np.arange(linear.require_units(value).units)[start:end:step]
        value = tensors.select_columns(value, axis, columns)
    return value


@register_operator("ArgMax")
def _argmax(node: OperatorNode) -> Tensor:
    if node.settings.get("select_last_index", 0):
        raise NotAdditiveError("it selects the last of equal scores")
    return tensors.argmax(node.inputs[0], node.settings.get("axis", 0))


@register_operator("Sigmoid")
def _sigmoid(node: OperatorNode) -> Tensor:
    return tensors.sigmoid(node.inputs[0])


@register_operator("Softmax", "LogSoftmax")
def _softmax(node: OperatorNode) -> Tensor:
    return tensors.softmax(node.inputs[0], node.settings.get("axis", -1))
