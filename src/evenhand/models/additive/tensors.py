"""Operations of model graphs of all frameworks, for each type of tensor.

A tensor is weights (a plain array), cells (functions of one attribute), a ``LinearTensor`` (a weighted sum of cells, or
of a hidden layer) or an ``OutputTensor``. Its first axis is the rows; cells and units have no such axis. An operation
that combines attributes other than by addition raises ``NotAdditiveError``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import NotAdditiveError
from evenhand.models.additive import answer as answers
from evenhand.models.additive import cells as cell
from evenhand.models.additive import linear as lin
from evenhand.models.additive.answer import OutputTensor
from evenhand.models.additive.cells import Cells, Values
from evenhand.models.additive.linear import LinearTensor

Tensor: TypeAlias = Values | Cells | LinearTensor | OutputTensor


def is_cells(value: Any) -> TypeGuard[Cells]:
    """Return whether a value is an array of cells (the only object arrays here)."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def is_weights(value: Any) -> TypeGuard[Values]:
    """Return whether a value is constant across rows."""
    return isinstance(value, np.ndarray) and value.dtype.kind != "O"


def require_features(value: Any) -> Cells | LinearTensor:
    """Return a tensor that precedes the outputs. Reject all others."""
    if isinstance(value, OutputTensor):
        raise NotAdditiveError("it computes with probabilities: a sigmoid or softmax is only supported at the end")
    if isinstance(value, LinearTensor) or is_cells(value):
        return value
    raise NotAdditiveError("it combines weights and inputs in an unsupported way")


def require_cells(value: Any) -> Cells:
    """Return a tensor whose attributes are not yet combined. Reject all others."""
    tensor = require_features(value)
    if isinstance(tensor, LinearTensor):
        raise NotAdditiveError("it applies more than addition, weights and ReLU to combined attributes")
    return tensor


def broadcast_cells(value: Any, like: Cells) -> Cells:
    """Return cells unchanged, and weights as constant cells that broadcast against ``like``."""
    if is_cells(value):
        if value.ndim != like.ndim:
            raise NotAdditiveError(f"it combines rows of shape {value.shape} and {like.shape}")
        return value
    while value.ndim > like.ndim and value.shape[0] == 1:
        value = value[0]
    if value.ndim > like.ndim:
        raise NotAdditiveError(f"weights of shape {value.shape} vary across rows")
    return cell.constant_cells(value)


def inner_axis(axis: int, value: Cells) -> int:
    """Convert an axis of a tensor to an axis of its cells."""
    rank = value.ndim + 1
    axis = axis + rank if axis < 0 else axis
    if not 1 <= axis < rank:
        raise NotAdditiveError("it operates across rows")
    return axis - 1


def as_cells(result: Any) -> Cells:
    """Return cells or a single cell, such as from indexing, as cells."""
    return result if isinstance(result, np.ndarray) else cell.cell_array([result], ())


def per_unit(weights: Values, units: int) -> Floats:
    """Convert weights that are added to units or multiply them to the shape (units,) or (1,)."""
    flat = weights.astype(np.float64).reshape(-1)
    is_row = weights.ndim < 2 or (weights.ndim == 2 and weights.shape[0] == 1)
    if not is_row or (units != 1 and len(flat) not in (1, units)):
        raise NotAdditiveError(f"expected weights for {units} units, got shape {weights.shape}")
    return flat


def apply_arithmetic(name: str, left: Any, right: Any) -> Tensor:
    """Compute ``Add``, ``Sub``, ``Mul`` or ``Div``."""
    if isinstance(left, OutputTensor) or isinstance(right, OutputTensor):
        is_one = is_weights(left) and left.size == 1 and left.reshape(-1)[0] == 1
        if name == "Sub" and is_one and isinstance(right, OutputTensor):
            return answers.complement(right)
        raise NotAdditiveError("it computes with probabilities: a sigmoid or softmax is only supported at the end")
    if isinstance(left, LinearTensor) or isinstance(right, LinearTensor):
        return _mixed_arithmetic(name, left, right)
    if name in ("Add", "Sub") and is_cells(left) and is_cells(right) and _must_be_mixed(left, right):
        return _mixed_arithmetic(name, lin.as_linear(left), lin.as_linear(right))
    like = left if is_cells(left) else right
    return cell.cell_arithmetic(name, broadcast_cells(left, like), broadcast_cells(right, like))


def _must_be_mixed(left: Cells, right: Cells) -> bool:
    for a, b in zip(*(side.flat for side in np.broadcast_arrays(left, right)), strict=True):
        if len({item.attribute for item in (a, b)} - {None}) > 1:
            return True
        if isinstance(a, cell.RampCell) and isinstance(b, cell.RampCell):
            return True
    return False


def _mixed_arithmetic(name: str, left: Any, right: Any) -> LinearTensor:
    weights = next((side for side in (left, right) if is_weights(side)), None)
    if weights is None:
        if name == "Add":
            return lin.add_tensors(left, right)
        if name == "Sub":
            return lin.add_tensors(left, lin.scale_units(lin.as_linear(right), -1.0))
        raise NotAdditiveError("it multiplies or divides attributes by each other")
    tensor = left if weights is right else right
    number = per_unit(weights, tensor.units)
    if name == "Add":
        return lin.scale_units(tensor, 1.0, number)
    if name == "Sub":
        return lin.scale_units(tensor, 1.0, -number) if weights is right else lin.scale_units(tensor, -1.0, number)
    if name == "Mul":
        return lin.scale_units(tensor, number)
    if weights is left or (number == 0).any():
        raise NotAdditiveError("it divides by combined attributes or by zero")
    return lin.scale_units(tensor, 1 / number)


def affine(value: Any, weights: Values, bias: Values | None = None) -> LinearTensor:
    """Compute ``value @ weights + bias``."""
    if weights.dtype == np.float16:
        raise NotAdditiveError("it computes in half precision")
    weights = weights.astype(np.float64)
    return lin.affine(require_features(value), weights, 0.0 if bias is None else per_unit(bias, weights.shape[-1]))


def batch_normalization(
    value: Any, scale: Values | None, shift: Values | None, mean: Values, variance: Values, epsilon: float
) -> LinearTensor:
    """Compute ``(value - mean) / sqrt(variance + epsilon) * scale + shift`` with training statistics."""
    scale = np.ones(len(mean)) if scale is None else scale
    shift = np.zeros(len(mean)) if shift is None else shift
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return lin.scale_units(lin.as_linear(require_features(value)), factor, shift - mean.astype(np.float64) * factor)


def relu(value: Any) -> Tensor:
    """Compute ``max(0, value)``: exact on listed cells, a hidden layer otherwise."""
    tensor = require_features(value)
    if _all_listed(tensor):
        return cell.apply_elementwise(lambda values: np.maximum(values, values.dtype.type(0)), tensor)
    return lin.relu(lin.as_linear(tensor))


def leaky_relu(value: Any, slope: float) -> Tensor:
    """Compute ``max(0, value) + slope * min(0, value)``."""
    tensor = require_features(value)
    if _all_listed(tensor):
        return cell.apply_elementwise(
            lambda values: np.where(values < 0, values * values.dtype.type(slope), values), tensor
        )
    return lin.leaky_relu(lin.as_linear(tensor), slope)


def _all_listed(tensor: Cells | LinearTensor) -> TypeGuard[Cells]:
    return is_cells(tensor) and all(isinstance(item, cell.ListedCell) for item in tensor.flat)


def clip_tensor(value: Any, lower: float, upper: float) -> Tensor:
    """Clip values to [lower, upper]."""
    tensor = require_features(value)
    if isinstance(tensor, LinearTensor):
        return lin.clip_units(tensor, lower, upper)
    return cell.clip_cells(tensor, lower, upper)


def bound_tensor(values: Sequence[Any], *, upper: bool) -> Tensor:
    """Compute the minimum (``upper``) or maximum of a tensor and a scalar."""
    weights = [value for value in values if is_weights(value)]
    inputs = [value for value in values if not is_weights(value)]
    if len(inputs) != 1 or len(weights) != 1 or np.ptp(weights[0]) != 0:
        raise NotAdditiveError("it does not compare a single tensor with a scalar")
    bound = float(weights[0].reshape(-1)[0])
    return clip_tensor(inputs[0], *((-np.inf, bound) if upper else (bound, np.inf)))


def cast_tensor(value: Any, dtype: Any) -> Tensor:
    """Convert values to another type."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fiub":
        raise NotAdditiveError("it converts numbers to strings")
    if isinstance(value, OutputTensor):
        if value.form == "position" or dtype.kind == "f":
            return value
        raise NotAdditiveError("it rounds probabilities")
    tensor = require_features(value)
    if isinstance(tensor, LinearTensor):
        if dtype not in (np.float32, np.float64):
            raise NotAdditiveError(f"it rounds combined attributes to {dtype}")
        return tensor
    return cell.cast_cells(tensor, dtype)


def reshape(value: Any, shape: Sequence[int]) -> Tensor:
    """Change the shape. The first entry of ``shape`` must be 0, -1 or 1, any of which stands for the number of rows."""
    if isinstance(value, OutputTensor):
        return value
    tensor = require_features(value)
    sizes = [tensor.units] if isinstance(tensor, LinearTensor) else list(tensor.shape)
    total = int(np.prod(sizes))
    inner = [sizes[i] if size == 0 and i < len(sizes) else size for i, size in enumerate(shape[1:])]
    if inner.count(-1) == 1:
        product = int(np.prod([size for size in inner if size != -1]))
        inner = [total // max(product, 1) if size == -1 else size for size in inner]
    if not shape or shape[0] not in (0, -1, 1) or int(np.prod(inner)) != total:
        raise NotAdditiveError(f"it reshapes rows of shape {tuple(sizes)} to {tuple(shape)}, across rows")
    if isinstance(tensor, LinearTensor):
        if len(inner) > 1:
            raise NotAdditiveError("it reshapes combined attributes")
        return tensor
    return tensor.reshape(inner)


def squeeze(value: Any, axes: Sequence[int] | None) -> Tensor:
    """Remove axes of length 1. Default: all of them."""
    if isinstance(value, OutputTensor) or (isinstance(value, LinearTensor) and value.units == 1):
        return value
    cells = require_cells(value)
    if axes is None:
        inner = [axis for axis, size in enumerate(cells.shape) if size == 1]
    else:
        inner = [inner_axis(axis, cells) for axis in axes]
    return as_cells(np.squeeze(cells, axis=tuple(inner)))


def unsqueeze(value: Any, axes: Sequence[int]) -> Tensor:
    """Insert axes of length 1."""
    if isinstance(value, OutputTensor):
        return value
    cells = require_cells(value)
    rank = cells.ndim + 1 + len(axes)
    inner = [axis + rank - 1 if axis < 0 else axis - 1 for axis in axes]
    if min(inner) < 0:
        raise NotAdditiveError("it operates across rows")
    return np.expand_dims(cells, tuple(inner))


def concatenate(values: Sequence[Any], axis: int = 0) -> Tensor:
    """Concatenate tensors along an axis."""
    if any(isinstance(value, OutputTensor) for value in values):
        if not all(isinstance(value, OutputTensor) for value in values):
            raise NotAdditiveError("it concatenates an output with other tensors")
        return answers.pair_columns(values)
    tensors = [require_features(value) for value in values]
    if any(isinstance(tensor, LinearTensor) for tensor in tensors):
        if axis not in (1, -1):
            raise NotAdditiveError("it operates across rows")
        return lin.join_tensors(tensors)
    arrays = [tensor for tensor in tensors if is_cells(tensor)]
    return np.concatenate(arrays, axis=inner_axis(axis, arrays[0]))


def lookup_rows(table: Values, places: Any) -> Tensor:
    """Look up table rows by code (an embedding)."""
    cells = require_cells(places)
    if table.ndim == 1:
        return cell.apply_elementwise(lambda values: table[values.astype(np.int64)], cells)
    if table.ndim != 2:
        raise NotAdditiveError(f"it looks up rows in a table of shape {table.shape}")
    return cell.expand_cells(lambda values: tuple(table[values.astype(np.int64)].T), cells)


def select_columns(value: Any, axis: int, places: Values) -> Tensor:
    """Select columns. A single position removes the axis."""
    if isinstance(value, OutputTensor):
        if places.size != 1:
            raise NotAdditiveError("it rearranges the model's answers")
        return answers.select_column(value, int(places.reshape(-1)[0]))
    tensor = require_features(value)
    if isinstance(tensor, LinearTensor):
        if axis not in (1, -1):
            raise NotAdditiveError("it selects rows")
        return lin.select_units(tensor, [int(place) for place in places.reshape(-1)])
    return as_cells(np.take(tensor, places, axis=inner_axis(axis, tensor)))


def slice_columns(value: Any, axis: int = 0, start: int | None = 0, end: int | None = None, step: int = 1) -> Tensor:
    """Return a range of columns, or all rows."""
    tensor = require_features(value)
    if axis == 0:
        if (start or 0, step) != (0, 1) or (end is not None and end < 2**31 - 1):
            raise NotAdditiveError("it selects rows")
        return tensor
    if isinstance(tensor, LinearTensor):
        return lin.select_units(tensor, slice(start, end, step))
    index: list[slice] = [slice(None)] * tensor.ndim
    index[inner_axis(axis, tensor)] = slice(start, end, step)
    return tensor[tuple(index)]


def compare_tensors(function: Callable[[Values, Values], Values], left: Any, right: Any) -> Tensor:
    """Compare with a NumPy function: ``<``, ``<=``, ``>`` or ``>=``."""
    like = require_cells(left if not is_weights(left) else right)
    return cell.compare_cells(function, broadcast_cells(left, like), broadcast_cells(right, like))


def apply_per_value(function: Callable[..., Values], values: Sequence[Any]) -> Tensor:
    """Apply a function to each value of one attribute with a listed domain."""
    like = next(require_cells(value) for value in values if not is_weights(value))
    return cell.apply_elementwise(
        function, *(broadcast_cells(value if is_weights(value) else require_cells(value), like) for value in values)
    )


def one_hot(codes: Any, size: int, off: Values, on: Values) -> Tensor:
    """Encode codes as ``on`` and ``off`` along a new last axis. Negative codes count from the end."""

    def columns(values: Values) -> tuple[Values, ...]:
        values = values.astype(np.int64)
        values = np.where(values < 0, values + size, values)
        return tuple(np.where(values == category, on, off) for category in range(size))

    return cell.expand_cells(columns, require_cells(codes))


def argmax(value: Any, axis: int | None = None) -> Tensor:
    """Find the position of the largest score, or of the first if there are ties."""
    if axis not in (1, -1):
        raise NotAdditiveError("it operates across rows")
    return answers.argmax_output(value if isinstance(value, OutputTensor) else lin.as_linear(require_features(value)))


def sigmoid(value: Any) -> OutputTensor:
    """Compute the probability of the second of two labels."""
    logits = lin.as_linear(require_features(value))
    if logits.units != 1:
        raise NotAdditiveError(
            f"a sigmoid of {logits.units} units is not supported: a hidden layer must be ReLU, and as output it "
            f"predicts {logits.units} binary labels instead of one label"
        )
    return OutputTensor(logits, "second")


def softmax(value: Any, axis: int, *_: Any) -> OutputTensor:
    """Compute one probability per label, or its logarithm."""
    if axis not in (1, -1):
        raise NotAdditiveError("it operates across rows")
    logits = lin.as_linear(require_features(value))
    if logits.units < 2:
        raise NotAdditiveError("a softmax over a single output is always 1")
    return OutputTensor(logits, "probabilities")
