"""The operations of a model's graph, whatever framework it comes from, on everything a tensor can be here.

A tensor is weights (a plain array), cells (functions of one attribute), a ``Linear`` (a weighted sum of cells, or of a
hidden layer) or an ``Answer``. Its first axis is the people; cells and units have no such axis. What an operation
cannot do without mixing attributes in another way than adding them, it refuses with ``NotAdditiveError``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models import answer as answers
from evenhand.models import cells as cell
from evenhand.models import linear as lin
from evenhand.models.answer import Answer
from evenhand.models.cells import Cells, Floats, Values
from evenhand.models.linear import Linear

Tensor: TypeAlias = Values | Cells | Linear | Answer


def is_cells(value: Any) -> TypeGuard[Cells]:
    """Whether a value is an array of cells (the only object arrays here)."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def is_weights(value: Any) -> TypeGuard[Values]:
    """Whether a value is the same for everybody."""
    return isinstance(value, np.ndarray) and value.dtype.kind != "O"


def about_people(value: Any) -> Cells | Linear:
    """A tensor before the answer."""
    if isinstance(value, Answer):
        raise NotAdditiveError("it computes with probabilities: a sigmoid or softmax can only be read at the end")
    if isinstance(value, Linear) or is_cells(value):
        return value
    raise NotAdditiveError("it combines weights and people in an unknown way")


def unmixed(value: Any) -> Cells:
    """A tensor before attributes are mixed."""
    tensor = about_people(value)
    if isinstance(tensor, Linear):
        raise NotAdditiveError("it does more to a mixture of attributes than adding, weighting and ReLU")
    return tensor


def spread(value: Any, like: Cells) -> Cells:
    """Cells as they are; weights as constant cells that NumPy broadcasts against ``like``."""
    if is_cells(value):
        if value.ndim != like.ndim:
            raise NotAdditiveError(f"it brings rows of shape {value.shape} and {like.shape} together")
        return value
    while value.ndim > like.ndim and value.shape[0] == 1:
        value = value[0]
    if value.ndim > like.ndim:
        raise NotAdditiveError(f"weights of shape {value.shape} are different for every person")
    return cell.constants(value)


def inner_axis(axis: int, value: Cells) -> int:
    """An axis of the tensor as an axis of its cells."""
    rank = value.ndim + 1
    axis = axis + rank if axis < 0 else axis
    if not 1 <= axis < rank:
        raise NotAdditiveError("it works across people")
    return axis - 1


def as_cells(picked: Any) -> Cells:
    """What indexing gave: cells, or a single one."""
    return picked if isinstance(picked, np.ndarray) else cell.cells_of([picked], ())


def per_unit(weights: Values, units: int) -> Floats:
    """Weights that are added to or multiplied with units, as (units,) or one number."""
    flat = weights.astype(np.float64).reshape(-1)
    one_row = weights.ndim < 2 or (weights.ndim == 2 and weights.shape[0] == 1)
    if not one_row or (units != 1 and len(flat) not in (1, units)):
        raise NotAdditiveError(f"weights of shape {weights.shape} for {units} units")
    return flat


def arithmetic(name: str, left: Any, right: Any) -> Tensor:
    """``Add``, ``Sub``, ``Mul`` or ``Div``."""
    if isinstance(left, Answer) or isinstance(right, Answer):
        one = is_weights(left) and left.size == 1 and left.reshape(-1)[0] == 1
        if name == "Sub" and one and isinstance(right, Answer):
            return answers.complement(right)
        raise NotAdditiveError("it computes with probabilities: a sigmoid or softmax can only be read at the end")
    if isinstance(left, Linear) or isinstance(right, Linear):
        return _mixed_arithmetic(name, left, right)
    if name in ("Add", "Sub") and is_cells(left) and is_cells(right) and _must_be_mixed(left, right):
        return _mixed_arithmetic(name, lin.mixed(left), lin.mixed(right))
    like = left if is_cells(left) else right
    return cell.arithmetic(name, spread(left, like), spread(right, like))


def _must_be_mixed(left: Cells, right: Cells) -> bool:
    for a, b in zip(*(side.flat for side in np.broadcast_arrays(left, right)), strict=True):
        if len({item.attribute for item in (a, b)} - {None}) > 1:
            return True
        if isinstance(a, cell.Ramp) and isinstance(b, cell.Ramp):
            return True
    return False


def _mixed_arithmetic(name: str, left: Any, right: Any) -> Linear:
    weights = next((side for side in (left, right) if is_weights(side)), None)
    if weights is None:
        if name == "Add":
            return lin.add(left, right)
        if name == "Sub":
            return lin.add(left, lin.scale(lin.mixed(right), -1.0))
        raise NotAdditiveError("it multiplies or divides attributes with each other")
    tensor = left if weights is right else right
    number = per_unit(weights, tensor.units)
    if name == "Add":
        return lin.scale(tensor, 1.0, number)
    if name == "Sub":
        return lin.scale(tensor, 1.0, -number) if weights is right else lin.scale(tensor, -1.0, number)
    if name == "Mul":
        return lin.scale(tensor, number)
    if weights is left or (number == 0).any():
        raise NotAdditiveError("it divides by a mixture of attributes, or by zero")
    return lin.scale(tensor, 1 / number)


def affine(value: Any, weights: Values, bias: Values | None = None) -> Linear:
    """``value @ weights + bias``."""
    if weights.dtype == np.float16:
        raise NotAdditiveError("it computes in half precision")
    weights = weights.astype(np.float64)
    return lin.affine(about_people(value), weights, 0.0 if bias is None else per_unit(bias, weights.shape[-1]))


def batch_normalization(
    value: Any, scale: Values, shift: Values, mean: Values, variance: Values, epsilon: float
) -> Linear:
    """``(value - mean) / sqrt(variance + epsilon) * scale + shift`` with the statistics of the training."""
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return lin.scale(lin.mixed(about_people(value)), factor, shift - mean.astype(np.float64) * factor)


def relu(value: Any) -> Tensor:
    """``max(0, value)``."""
    return lin.relu(about_people(value))


def clip(value: Any, lower: float, upper: float) -> Tensor:
    """Limit to [lower, upper]; on a mixture of attributes only from below at 0."""
    tensor = about_people(value)
    if isinstance(tensor, Linear):
        if lower == 0 and upper == np.inf:
            return lin.relu(tensor)
        raise NotAdditiveError("it clips a mixture of attributes")
    return cell.clip(tensor, lower, upper)


def cast(value: Any, dtype: Any) -> Tensor:
    """Change the type."""
    wanted = np.dtype(dtype)
    if isinstance(value, Answer):
        if value.form in ("label", "position") or wanted.kind == "f":
            return value
        raise NotAdditiveError("it rounds probabilities")
    tensor = about_people(value)
    if isinstance(tensor, Linear):
        if wanted not in (np.float32, np.float64):
            raise NotAdditiveError(f"it rounds a mixture of attributes to {wanted}")
        return tensor
    return cell.cast(tensor, wanted)


def reshape(value: Any, wanted: Sequence[int]) -> Tensor:
    """Another shape; its first axis is the people (0, -1 or 1: as many as there are)."""
    if isinstance(value, Answer):
        return value
    tensor = about_people(value)
    sizes = [tensor.units] if isinstance(tensor, Linear) else list(tensor.shape)
    total = int(np.prod(sizes))
    inner = [sizes[i] if size == 0 and i < len(sizes) else size for i, size in enumerate(wanted[1:])]
    if inner.count(-1) == 1:
        rest = int(np.prod([size for size in inner if size != -1]))
        inner = [total // max(rest, 1) if size == -1 else size for size in inner]
    if not wanted or wanted[0] not in (0, -1, 1) or int(np.prod(inner)) != total:
        raise NotAdditiveError(f"it makes rows of shape {tuple(sizes)} into {tuple(wanted)}, across people")
    if isinstance(tensor, Linear):
        if len(inner) > 1:
            raise NotAdditiveError("it folds a mixture of attributes")
        return tensor
    return tensor.reshape(inner)


def squeeze(value: Any, axes: Sequence[int] | None) -> Tensor:
    """Drop axes of length 1; all of them by default."""
    if isinstance(value, Answer) or (isinstance(value, Linear) and value.units == 1):
        return value
    cells = unmixed(value)
    if axes is None:
        dropped = [axis for axis, size in enumerate(cells.shape) if size == 1]
    else:
        dropped = [inner_axis(axis, cells) for axis in axes]
    return as_cells(np.squeeze(cells, axis=tuple(dropped)))


def unsqueeze(value: Any, axes: Sequence[int]) -> Tensor:
    """Insert axes of length 1."""
    if isinstance(value, Answer):
        return value
    cells = unmixed(value)
    rank = cells.ndim + 1 + len(axes)
    inner = [axis + rank - 1 if axis < 0 else axis - 1 for axis in axes]
    if min(inner) < 0:
        raise NotAdditiveError("it works across people")
    return np.expand_dims(cells, tuple(inner))


def concatenate(values: Sequence[Any], axis: int) -> Tensor:
    """Tensors side by side."""
    if any(isinstance(value, Answer) for value in values):
        if not all(isinstance(value, Answer) for value in values):
            raise NotAdditiveError("it puts the answer beside something else")
        return answers.pair(values)
    tensors = [about_people(value) for value in values]
    if any(isinstance(tensor, Linear) for tensor in tensors):
        if axis not in (1, -1):
            raise NotAdditiveError("it puts people one after the other")
        return lin.join(tensors)
    arrays = [tensor for tensor in tensors if is_cells(tensor)]
    return np.concatenate(arrays, axis=inner_axis(axis, arrays[0]))


def look_up(table: Values, places: Any) -> Tensor:
    """Rows of a table by what people are (an embedding), or labels by the winner's position."""
    if isinstance(places, Answer):
        return answers.named(places, table.reshape(-1).tolist(), "label")
    cells = unmixed(places)
    if table.ndim == 1:
        return cell.elementwise(lambda values: table[values.astype(np.int64)], cells)
    if table.ndim != 2:
        raise NotAdditiveError(f"it looks up in a table of shape {table.shape}")
    return cell.expand(lambda values: tuple(table[values.astype(np.int64)].T), cells)


def pick(value: Any, places: Values, axis: int) -> Tensor:
    """Some columns; a single place drops the axis."""
    if isinstance(value, Answer):
        if places.size != 1:
            raise NotAdditiveError("it rearranges the model's answers")
        return answers.column(value, int(places.reshape(-1)[0]))
    tensor = about_people(value)
    if isinstance(tensor, Linear):
        if axis not in (1, -1):
            raise NotAdditiveError("it picks people")
        return lin.take(tensor, [int(place) for place in places.reshape(-1)])
    return as_cells(np.take(tensor, places, axis=inner_axis(axis, tensor)))


def cut(value: Any, axis: int, start: int, end: int, step: int) -> Tensor:
    """A range of columns, or all of the people."""
    tensor = about_people(value)
    if axis == 0:
        if (start, step) != (0, 1) or end < 2**31 - 1:
            raise NotAdditiveError("it picks people")
        return tensor
    if isinstance(tensor, Linear):
        return lin.take(tensor, slice(start, end, step))
    index: list[slice] = [slice(None)] * tensor.ndim
    index[inner_axis(axis, tensor)] = slice(start, end, step)
    return tensor[tuple(index)]


def compare(function: Callable[[Values, Values], Values], left: Any, right: Any) -> Tensor:
    """``<``, ``<=``, ``>`` or ``>=``, as NumPy's function."""
    like = unmixed(left if not is_weights(left) else right)
    return cell.compare(function, spread(left, like), spread(right, like))


def per_value(function: Callable[..., Values], values: Sequence[Any]) -> Tensor:
    """Any function value by value, on values that depend on one attribute with a listed domain."""
    like = next(unmixed(value) for value in values if not is_weights(value))
    return cell.elementwise(
        function, *(spread(value if is_weights(value) else unmixed(value), like) for value in values)
    )


def one_hot(codes: Any, size: int, off: Values, on: Values) -> Tensor:
    """``on`` in the column of the code, ``off`` elsewhere, along a new last axis; codes below 0 count from the end."""

    def columns(values: Values) -> tuple[Values, ...]:
        values = values.astype(np.int64)
        values = np.where(values < 0, values + size, values)
        return tuple(np.where(values == category, on, off) for category in range(size))

    return cell.expand(columns, unmixed(codes))


def largest(value: Any, axis: int, *, keep: bool) -> Tensor:
    """The position of the largest along the last axis, the first on a tie."""
    if not is_cells(value):
        if axis not in (1, -1):
            raise NotAdditiveError("it works across people")
        return answers.winner(value if isinstance(value, Answer) else lin.mixed(about_people(value)))
    if inner_axis(axis, value) != value.ndim - 1:
        raise NotAdditiveError("it does not compare the last axis")
    cells: list[cell.Cell] = list(value.flat)
    if len({item.attribute for item in cells} - {None}) > 1:
        return answers.winner(lin.mixed(value))
    found = cell.rowwise(lambda rows: np.argmax(rows, axis=1)[:, None], value)
    return found if keep else as_cells(found[..., 0])


def sigmoid(value: Any) -> Answer:
    """The end of a model with two labels."""
    return answers.sigmoid(lin.mixed(about_people(value)))


def softmax(value: Any, axis: int) -> Answer:
    """The end of a model with one output per label; its logarithm tells the same."""
    if axis not in (1, -1):
        raise NotAdditiveError("it works across people")
    return answers.softmax(lin.mixed(about_people(value)))
