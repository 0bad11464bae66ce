"""ONNX operators as operations of `tensors`, one registered function each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive import tensors
from evenhand.models.additive.cells import Values
from evenhand.models.additive.linear import LinearTensor
from evenhand.models.additive.tensors import Tensor


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


Operator: TypeAlias = Callable[[OperatorNode], Tensor | tuple[Tensor | None, ...]]
OPERATORS: dict[str, Operator] = {}


def register_operator(*names: str) -> Callable[[Operator], Operator]:
    """Register a function for operator names."""

    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


@register_operator("Add", "Sub", "Mul", "Div")
def _arithmetic(node: OperatorNode) -> Tensor:
    return tensors.apply_arithmetic(node.operator, *node.inputs)


@register_operator("Neg")
def _negative(node: OperatorNode) -> Tensor:
    return tensors.apply_arithmetic("Mul", node.inputs[0], np.array(-1, dtype=np.int8))


@register_operator("MatMul")
def _product(node: OperatorNode) -> Tensor:
    return tensors.affine(node.inputs[0], node.constant_input(1))


@register_operator("Gemm")
def _gemm(node: OperatorNode) -> Tensor:
    if node.settings.get("transA", 0):
        raise NotAdditiveError("it turns rows into columns")
    weights = node.constant_input(1).T if node.settings.get("transB", 0) else node.constant_input(1)
    bias = node.weights(2)
    return tensors.affine(
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
    return tensors.relu(node.inputs[0])


@register_operator("Clip")
def _clip(node: OperatorNode) -> Tensor:
    return tensors.clip_tensor(node.inputs[0], node.setting("min", 1, -np.inf), node.setting("max", 2, np.inf))


@register_operator("LeakyRelu")
def _leaky_relu(node: OperatorNode) -> Tensor:
    return tensors.leaky_relu(node.inputs[0], node.settings.get("alpha", 0.01))


@register_operator("Max", "Min")
def _bound(node: OperatorNode) -> Tensor:
    return tensors.bound_tensor(node.inputs, upper=node.operator == "Min")


@register_operator("Identity")
def _identity(node: OperatorNode) -> tuple[Tensor | None, ...]:
    return (node.inputs[0],)


@register_operator("Dropout")
def _dropout(node: OperatorNode) -> tuple[Tensor | None, ...]:
    training = node.weights(2)
    if training is not None and training.any():
        raise NotAdditiveError("it is in training mode: its output is random")
    return (node.inputs[0], None)


@register_operator("Cast")
def _cast(node: OperatorNode) -> Tensor:
    from onnx import helper

    return tensors.cast_tensor(node.inputs[0], helper.tensor_dtype_to_np_dtype(node.settings["to"]))


@register_operator("Shape")
def _shape(node: OperatorNode) -> Tensor:
    value = tensors.require_features(node.inputs[0])
    inner = [value.units] if isinstance(value, LinearTensor) else list(value.shape)
    # -1 stands for the number of rows, as in operators that use the shape.
    return np.array([-1, *inner][node.settings.get("start", 0) : node.settings.get("end", None)], dtype=np.int64)


@register_operator("Reshape")
def _reshape(node: OperatorNode) -> Tensor:
    return tensors.reshape(node.inputs[0], [int(size) for size in node.setting("shape", 1, [])])


@register_operator("Flatten")
def _flatten(node: OperatorNode) -> Tensor:
    value, axis = node.inputs[0], node.settings.get("axis", 1)
    leading = value.shape[: axis - 1] if tensors.is_cells(value) and axis > 1 else ()
    if axis < 1 or (axis > 1 and (not leading or np.prod(leading) != 1)):
        raise NotAdditiveError("it operates across rows")
    return tensors.reshape(value, [0, -1])


@register_operator("Transpose")
def _transpose(node: OperatorNode) -> Tensor:
    value = tensors.require_cells(node.inputs[0])
    order = list(node.settings.get("perm", range(value.ndim + 1)[::-1]))
    if order[:1] != [0]:
        raise NotAdditiveError("it moves the batch axis")
    return np.transpose(value, [axis - 1 for axis in order[1:]])


@register_operator("Squeeze")
def _squeeze(node: OperatorNode) -> Tensor:
    return tensors.squeeze(node.inputs[0], node.setting("axes", 1))


@register_operator("Unsqueeze")
def _unsqueeze(node: OperatorNode) -> Tensor:
    return tensors.unsqueeze(node.inputs[0], node.setting("axes", 1, []))


@register_operator("Concat")
def _concatenate(node: OperatorNode) -> Tensor:
    return tensors.concatenate(node.inputs, node.settings.get("axis", 1))


@register_operator("Gather")
def _gather(node: OperatorNode) -> Tensor:
    table, axis = node.inputs[0], node.settings.get("axis", 0)
    if not tensors.is_weights(table):
        return tensors.select_columns(table, axis, node.constant_input(1))
    if axis != 0:
        raise NotAdditiveError("it selects columns instead of rows")
    return tensors.lookup_rows(table, node.inputs[1])


@register_operator("Slice")
def _slice(node: OperatorNode) -> Tensor:
    value: Tensor = node.inputs[0]
    starts, ends = node.setting("starts", 1), node.setting("ends", 2)
    axes = node.setting("axes", 3) or list(range(len(starts)))
    steps = node.setting("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        value = tensors.slice_columns(value, axis, start, end, step)
    return value


_COMPARISONS: dict[str, Callable[[Values, Values], Values]] = {
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}


@register_operator(*_COMPARISONS)
def _compare(node: OperatorNode) -> Tensor:
    return tensors.compare_tensors(_COMPARISONS[node.operator], *node.inputs)


_PER_VALUE: dict[str, Callable[..., Values]] = {
    "Abs": np.abs,
    "And": np.logical_and,
    "Equal": np.equal,
    "Exp": np.exp,
    "Log": np.log,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Sqrt": np.sqrt,
    "Where": np.where,
}


@register_operator(*_PER_VALUE)
def _per_value(node: OperatorNode) -> Tensor:
    return tensors.apply_per_value(_PER_VALUE[node.operator], node.inputs)


@register_operator("OneHot")
def _one_hot(node: OperatorNode) -> Tensor:
    if node.settings.get("axis", -1) != -1:
        raise NotAdditiveError("its categories are not on the last axis")
    depth, values = node.constant_input(1), node.constant_input(2)
    return tensors.one_hot(node.inputs[0], int(depth.reshape(-1)[0]), values[:1], values[1:2])


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
