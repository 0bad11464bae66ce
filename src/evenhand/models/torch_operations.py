"""What each ATen operation of an exported PyTorch program does, in terms of `tensors`.

Every function takes the number type of the program first, for the plain numbers among its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models import tensors
from evenhand.models.cells import Values
from evenhand.models.tensors import Tensor

Kind: TypeAlias = np.dtype[Any]

OPERATIONS: dict[str, Callable[..., Any]] = {}


def _operation(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATIONS.update({f"aten.{name}": function for name in names})
        return function

    return register


def _number(dtype: Kind, given: Any) -> Any:
    """An operand: a plain number as weights of the program's own type."""
    return np.asarray(given, dtype=dtype) if isinstance(given, int | float) else given


@_operation("alias.default", "clone.default", "contiguous.default", "detach.default", "detach_.default",
            "dropout.default", "lift_fresh_copy.default")  # fmt: skip
def _same(dtype: Kind, value: Tensor, probability: float = 0.0, train: bool = False, **settings: Any) -> Tensor:
    if train:
        raise NotAdditiveError("the model was exported in training mode: call model.eval() first")
    return value


@_operation("linear.default")
def _linear(dtype: Kind, value: Any, weight: Values, bias: Values | None = None) -> Tensor:
    return tensors.affine(value, weight.T, bias)


@_operation("mm.default", "matmul.default")
def _product(dtype: Kind, value: Any, weight: Values) -> Tensor:
    return tensors.affine(value, weight)


@_operation("addmm.default")
def _product_and_sum(dtype: Kind, bias: Values, value: Any, weight: Values) -> Tensor:
    return tensors.affine(value, weight, bias)


@_operation("relu.default", "relu_.default")
def _relu(dtype: Kind, value: Any) -> Tensor:
    return tensors.relu(value)


@_operation("clamp.default", "clamp_min.default")
def _clamp(dtype: Kind, value: Any, lower: float | None = None, upper: float | None = None) -> Tensor:
    return tensors.clip(value, -np.inf if lower is None else lower, np.inf if upper is None else upper)


@_operation("batch_norm.default")
def _batch_norm(dtype: Kind, value: Any, scale: Any, shift: Any, mean: Any, variance: Any, training: bool,
                momentum: float, epsilon: float, *_: Any) -> Tensor:  # fmt: skip
    if training or mean is None:
        raise NotAdditiveError("the model was exported in training mode: call model.eval() first")
    scale = np.ones(len(mean)) if scale is None else scale
    shift = np.zeros(len(mean)) if shift is None else shift
    return tensors.batch_normalization(value, scale, shift, mean, variance, epsilon)


@_operation("_native_batch_norm_legit_no_training.default")
def _native_batch_norm(dtype: Kind, value: Any, scale: Any, shift: Any, mean: Any, variance: Any,
                       momentum: float, epsilon: float) -> list[Tensor]:  # fmt: skip
    return [_batch_norm(dtype, value, scale, shift, mean, variance, False, momentum, epsilon)]


@_operation("sigmoid.default")
def _sigmoid(dtype: Kind, value: Any) -> Tensor:
    return tensors.sigmoid(value)


@_operation("softmax.int", "log_softmax.int", "_softmax.default", "_log_softmax.default")
def _softmax(dtype: Kind, value: Any, axis: int, *_: Any) -> Tensor:
    return tensors.softmax(value, axis)


@_operation("argmax.default")
def _argmax(dtype: Kind, value: Any, axis: int | None = None, keep: bool = False) -> Tensor:
    if axis is None:
        raise NotAdditiveError("it works across people")
    return tensors.largest(value, axis, keep=keep)


@_operation("flatten.using_ints")
def _flatten(dtype: Kind, value: Any, start: int = 0, end: int = -1) -> Tensor:
    if start != 1 or end != -1:
        raise NotAdditiveError("it puts people side by side")
    return tensors.reshape(value, [0, -1])


@_operation("view.default", "reshape.default", "_unsafe_view.default")
def _view(dtype: Kind, value: Any, shape: Sequence[int]) -> Tensor:
    return tensors.reshape(value, shape)


@_operation("sym_size.int")
def _size(dtype: Kind, value: Any, axis: int) -> int:
    if axis != 0:
        raise NotAdditiveError("it computes with the number of columns")
    return -1  # as many people as there are


@_operation("unsqueeze.default")
def _unsqueeze(dtype: Kind, value: Any, axis: int) -> Tensor:
    return tensors.unsqueeze(value, [axis])


@_operation("squeeze.dim")
def _squeeze(dtype: Kind, value: Any, axis: int) -> Tensor:
    return tensors.squeeze(value, [axis])


@_operation("cat.default")
def _concatenate(dtype: Kind, values: Sequence[Any], axis: int = 0) -> Tensor:
    return tensors.concatenate(values, axis)


@_operation("slice.Tensor")
def _slice(dtype: Kind, value: Any, axis: int = 0, start: int | None = None, end: int | None = None,
           step: int = 1) -> Tensor:  # fmt: skip
    return tensors.cut(value, axis, start or 0, 2**63 - 1 if end is None else end, step)


@_operation("select.int")
def _select(dtype: Kind, value: Any, axis: int, place: int) -> Tensor:
    return tensors.pick(value, np.array(place), axis)


@_operation("index_select.default")
def _index_select(dtype: Kind, value: Any, axis: int, places: Values) -> Tensor:
    return tensors.pick(value, places, axis)


@_operation("to.dtype", "_to_copy.default", "to.dtype_layout")
def _cast(kind: Kind, value: Any, dtype: Any = None, *_: Any, **settings: Any) -> Tensor:
    return value if dtype is None else tensors.cast(value, np.dtype(str(dtype).removeprefix("torch.")))


@_operation("one_hot.default")
def _one_hot(dtype: Kind, codes: Any, size: int = -1) -> Tensor:
    if size < 1:
        raise NotAdditiveError("it takes the number of categories from who is asked about")
    return tensors.one_hot(codes, size, np.array([0]), np.array([1]))


@_operation("embedding.default")
def _embedding(dtype: Kind, table: Values, codes: Any, *_: Any) -> Tensor:
    return tensors.look_up(table, codes)


def _arithmetic(name: str) -> Callable[..., Tensor]:
    def compute(dtype: Kind, left: Any, right: Any, alpha: float = 1) -> Tensor:
        right = _number(dtype, right)
        if alpha != 1:
            right = tensors.arithmetic("Mul", right, _number(dtype, alpha))
        return tensors.arithmetic(name, _number(dtype, left), right)

    return compute


for _name in ("Add", "Sub", "Mul", "Div"):
    _operation(*(f"{_name.lower()}{mark}.{kind}" for kind in ("Tensor", "Scalar") for mark in ("", "_")))(
        _arithmetic(_name)
    )


@_operation("rsub.Scalar")
def _reversed_difference(dtype: Kind, right: Any, left: float) -> Tensor:
    return tensors.arithmetic("Sub", _number(dtype, left), right)


@_operation("neg.default")
def _negative(dtype: Kind, value: Any) -> Tensor:
    return tensors.arithmetic("Mul", value, _number(dtype, -1))


def _comparison(function: Callable[[Values, Values], Values]) -> Callable[..., Tensor]:
    def compute(dtype: Kind, left: Any, right: Any) -> Tensor:
        return tensors.compare(function, _number(dtype, left), _number(dtype, right))

    return compute


for _name, _function in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)):
    _operation(f"{_name}.Scalar", f"{_name}.Tensor")(_comparison(_function))
