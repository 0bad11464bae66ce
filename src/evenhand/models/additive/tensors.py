"""Operations of network graphs of all frameworks, for each type of tensor.

A tensor is a ``LinearTensor`` (a weighted sum of input columns, or of a hidden layer) or an ``OutputTensor``. Its first
axis is the rows, which its units do not have. Weights are plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive import answer as answers
from evenhand.models.additive import linear as lin
from evenhand.models.additive.answer import OutputTensor
from evenhand.models.additive.cells import Values
from evenhand.models.additive.linear import LinearTensor, require_units

Tensor: TypeAlias = LinearTensor | OutputTensor


def is_weights(value: Any) -> TypeGuard[Values]:
    """Return whether a value is constant across rows."""
    return isinstance(value, np.ndarray)


def _require_columns(axis: int | None) -> None:
    if axis not in (1, -1):
        raise NotAdditiveError("it operates across rows")


def apply_arithmetic(name: str, left: Any, right: Any) -> Tensor:
    """Compute ``Add``, ``Sub``, ``Mul`` or ``Div``."""
    if isinstance(right, OutputTensor) and name == "Sub" and is_weights(left) and left.size == 1 and left.item() == 1:
        return answers.complement(right)
    weights = next((side for side in (left, right) if is_weights(side)), None)
    if weights is None:
        if name not in ("Add", "Sub"):
            raise NotAdditiveError("it multiplies or divides attributes by each other")
        other = require_units(right)
        return lin.add_tensors(require_units(left), other if name == "Add" else lin.scale_units(other, -1.0))
    tensor = require_units(left if weights is right else right)
    number = lin.per_unit(weights, tensor.units)
    if name == "Add":
        return lin.scale_units(tensor, 1.0, number)
    if name == "Sub":
        return lin.scale_units(tensor, 1.0, -number) if weights is right else lin.scale_units(tensor, -1.0, number)
    if name == "Mul":
        return lin.scale_units(tensor, number)
    if weights is left or (number == 0).any():
        raise NotAdditiveError("it divides by attributes or by zero")
    return lin.scale_units(tensor, 1 / number)


def batch_normalization(
    value: Any, scale: Values | None, shift: Values | None, mean: Values, variance: Values, epsilon: float
) -> LinearTensor:
    """Compute ``(value - mean) / sqrt(variance + epsilon) * scale + shift`` with training statistics."""
    scale = np.ones(len(mean)) if scale is None else scale
    shift = np.zeros(len(mean)) if shift is None else shift
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return lin.scale_units(require_units(value), factor, shift - mean.astype(np.float64) * factor)


def bound_tensor(values: Sequence[Any], *, upper: bool) -> LinearTensor:
    """Compute the minimum (``upper``) or maximum of a tensor and a scalar."""
    weights = [value for value in values if is_weights(value)]
    inputs = [value for value in values if not is_weights(value)]
    if len(inputs) != 1 or len(weights) != 1 or np.ptp(weights[0]) != 0:
        raise NotAdditiveError("it does not compare a single tensor with a scalar")
    bound = float(weights[0].reshape(-1)[0])
    return lin.clip_units(inputs[0], *((-np.inf, bound) if upper else (bound, np.inf)))


def cast_tensor(value: Tensor, dtype: Any) -> Tensor:
    """Convert values to another type of floating-point numbers, or positions of labels to any type."""
    is_position = isinstance(value, OutputTensor) and value.form == "position"
    if not is_position and np.dtype(dtype) not in (np.float32, np.float64):
        raise NotAdditiveError(f"it rounds to {np.dtype(dtype)}")
    return value


def reshape(value: Tensor, shape: Sequence[int]) -> Tensor:
    """Change the shape, where rows must remain rows.

    Args:
        value: The tensor.
        shape: The number of rows as 0, -1 or 1, then the number of columns, which may be 0 or -1 if it is unchanged.
            Without columns, there must be only one.
    """
    if isinstance(value, OutputTensor):
        return value
    units, columns = value.units, list(shape[1:])
    keeps_columns = columns in ([0], [-1], [units]) or (units == 1 and len(shape) == 1)
    if not keeps_columns or shape[0] not in (0, -1, 1):
        raise NotAdditiveError(f"it reshapes rows of {units} columns to {tuple(shape)}")
    return value


def require_single(value: Tensor) -> Tensor:
    """Return a single column or an output, whose axes of length 1 do not matter."""
    if isinstance(value, OutputTensor) or value.units == 1:
        return value
    raise NotAdditiveError("it inserts or removes an axis of several columns")


def concatenate(values: Sequence[Any], axis: int) -> Tensor:
    """Concatenate columns."""
    _require_columns(axis)
    if all(isinstance(value, OutputTensor) for value in values):
        return answers.pair_columns(values)
    return lin.join_tensors([require_units(value) for value in values])


def select_columns(value: Tensor, axis: int, places: Values) -> Tensor:
    """Select columns."""
    _require_columns(axis)
    if not isinstance(value, OutputTensor):
        return lin.select_units(value, [int(place) for place in places.reshape(-1)])
    if places.size != 1:
        raise NotAdditiveError("it rearranges the model's answers")
    return answers.select_column(value, int(places.item()))


def argmax(value: Tensor, axis: int) -> OutputTensor:
    """Find the position of the largest score, or of the first if there are ties."""
    _require_columns(axis)
    return answers.argmax_output(value)


def sigmoid(value: Any) -> OutputTensor:
    """Compute the probability of the second of two labels."""
    logits = require_units(value)
    if logits.units != 1:
        raise NotAdditiveError(
            f"a sigmoid of {logits.units} units is not supported: a hidden layer must be ReLU, and as output it "
            f"predicts {logits.units} binary labels instead of one label"
        )
    return OutputTensor(logits, "second")


def softmax(value: Any, axis: int) -> OutputTensor:
    """Compute one probability per label, or its logarithm."""
    _require_columns(axis)
    logits = require_units(value)
    if logits.units < 2:
        raise NotAdditiveError("a softmax over a single output is always 1")
    return OutputTensor(logits, "probabilities")
