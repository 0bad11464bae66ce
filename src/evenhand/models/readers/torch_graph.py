"""PyTorch models as additive networks: ``nn.Sequential`` and exported programs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError
from evenhand.models.additive import tensors
from evenhand.models.additive.answer import OutputTensor, network_from_outputs
from evenhand.models.additive.cells import Values, plain_inputs
from evenhand.models.additive.linear import as_linear
from evenhand.models.additive.network import AdditiveNetwork, check_width
from evenhand.models.additive.tensors import Tensor
from evenhand.models.readers.reading import BLACK_BOX_HINT, locate_errors
from evenhand.schema.schema import Schema

NumberType: TypeAlias = np.dtype[Any]
Operation: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Operation)

OPERATIONS: dict[str, Operation] = {
    "_unsafe_view.default": tensors.reshape,
    "argmax.default": tensors.argmax,
    "cat.default": tensors.concatenate,
    "embedding.default": lambda table, codes, *_: tensors.lookup_rows(table, codes),
    "index_select.default": tensors.select_columns,
    "matmul.default": tensors.affine,
    "mm.default": tensors.affine,
    "relu.default": tensors.relu,
    "relu6.default": partial(tensors.clip_tensor, lower=0.0, upper=6.0),
    "relu_.default": tensors.relu,
    "reshape.default": tensors.reshape,
    "select.int": lambda value, axis, place: tensors.select_columns(value, axis, np.array(place)),
    "sigmoid.default": tensors.sigmoid,
    "slice.Tensor": tensors.slice_columns,
    "squeeze.dim": lambda value, axis: tensors.squeeze(value, [axis]),
    "unsqueeze.default": lambda value, axis: tensors.unsqueeze(value, [axis]),
    "view.default": tensors.reshape,
    **dict.fromkeys(("softmax.int", "log_softmax.int", "_softmax.default", "_log_softmax.default"), tensors.softmax),
}
"""Implementation of each ATen operation, by name."""

TYPED_OPERATIONS: dict[str, Operation] = {}
"""Operations whose first argument is the program's data type, to which plain numbers are rounded."""


def _register(*names: str, operations: dict[str, Operation] = OPERATIONS) -> Callable[[F], F]:
    def register(function: F) -> F:
        operations.update(dict.fromkeys(names, function))
        return function

    return register


@_register(
    "alias.default",
    "clone.default",
    "contiguous.default",
    "detach.default",
    "detach_.default",
    "dropout.default",
    "lift_fresh_copy.default",
)
def _identity(value: Tensor, probability: float = 0.0, train: bool = False, **settings: Any) -> Tensor:
    if train:
        raise NotAdditiveError("the model was exported in training mode: call model.eval() first")
    return value


@_register("linear.default")
def _linear(value: Any, weight: Values, bias: Values | None = None) -> Tensor:
    return tensors.affine(value, weight.T, bias)


@_register("addmm.default")
def _product_and_sum(bias: Values, value: Any, weight: Values) -> Tensor:
    return tensors.affine(value, weight, bias)


@_register("clamp.default", "clamp_min.default")
def _clamp(value: Any, lower: float | None = None, upper: float | None = None) -> Tensor:
    return tensors.clip_tensor(value, -np.inf if lower is None else lower, np.inf if upper is None else upper)


@_register("hardtanh.default", "hardtanh_.default")
def _hardtanh(value: Any, lower: float = -1.0, upper: float = 1.0) -> Tensor:
    return tensors.clip_tensor(value, lower, upper)


@_register("leaky_relu.default", "leaky_relu_.default", operations=TYPED_OPERATIONS)
def _leaky_relu(dtype: NumberType, value: Any, slope: float = 0.01) -> Tensor:
    return tensors.leaky_relu(value, float(dtype.type(slope)))


@_register("batch_norm.default")
def _batch_norm(
    value: Any,
    scale: Values | None,
    shift: Values | None,
    mean: Values | None,
    variance: Values | None,
    training: bool,
    momentum: float,
    epsilon: float,
    *_: Any,
) -> Tensor:
    if training or mean is None or variance is None:
        raise NotAdditiveError("it is in training mode or has no running statistics: its output depends on other rows")
    return tensors.batch_normalization(value, scale, shift, mean, variance, epsilon)


@_register("_native_batch_norm_legit_no_training.default")
def _native_batch_norm(
    value: Any, scale: Any, shift: Any, mean: Any, variance: Any, momentum: float, epsilon: float
) -> list[Tensor]:
    return [_batch_norm(value, scale, shift, mean, variance, False, momentum, epsilon)]


@_register("flatten.using_ints")
def _flatten(value: Any, start: int = 0, end: int = -1) -> Tensor:
    if start != 1 or end != -1:
        raise NotAdditiveError("it works across rows")
    return tensors.reshape(value, [0, -1])


@_register("sym_size.int")
def _size(value: Any, axis: int) -> int:
    if axis != 0:
        raise NotAdditiveError("it uses the number of columns")
    return -1  # the number of rows


@_register("to.dtype", "_to_copy.default", "to.dtype_layout")
def _cast(value: Any, dtype: Any = None, *_: Any, **settings: Any) -> Tensor:
    return value if dtype is None else tensors.cast_tensor(value, np.dtype(str(dtype).removeprefix("torch.")))


@_register("one_hot.default")
def _one_hot(codes: Any, size: int = -1) -> Tensor:
    if size < 1:
        raise NotAdditiveError("it infers the number of categories from the rows")
    return tensors.one_hot(codes, size, np.array([0]), np.array([1]))


def _as_operand(dtype: NumberType, value: Any) -> Any:
    return np.asarray(value, dtype=dtype) if isinstance(value, int | float) else value


def _arithmetic(name: str, dtype: NumberType, left: Any, right: Any, alpha: float = 1) -> Tensor:
    right = _as_operand(dtype, right)
    if alpha != 1:
        right = tensors.apply_arithmetic("Mul", right, _as_operand(dtype, alpha))
    return tensors.apply_arithmetic(name, _as_operand(dtype, left), right)


for _name in ("Add", "Sub", "Mul", "Div"):
    _register(
        *(f"{_name.lower()}{mark}.{kind}" for kind in ("Tensor", "Scalar") for mark in ("", "_")),
        operations=TYPED_OPERATIONS,
    )(partial(_arithmetic, _name))


@_register("rsub.Scalar", operations=TYPED_OPERATIONS)
def _reversed_difference(dtype: NumberType, right: Any, left: float) -> Tensor:
    return _arithmetic("Sub", dtype, left, right)


@_register("neg.default", operations=TYPED_OPERATIONS)
def _negative(dtype: NumberType, value: Any) -> Tensor:
    return _arithmetic("Mul", dtype, value, -1)


def _compare(function: Operation, dtype: NumberType, left: Any, right: Any) -> Tensor:
    return tensors.compare_tensors(function, _as_operand(dtype, left), _as_operand(dtype, right))


for _name, _function in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)):
    _register(f"{_name}.Scalar", f"{_name}.Tensor", operations=TYPED_OPERATIONS)(partial(_compare, _function))


def read_torch(model: Any, schema: Schema, *, name: str = "PyTorch model", kind: str | None = None) -> AdditiveNetwork:
    """Convert a PyTorch model in evaluation mode to an additive network. Its input is one tensor (n, inputs) of encoded
    attributes. A single output refers to the favourable label; several outputs follow the order of the target's labels.

    Args:
        model: ``nn.Sequential`` (nested) of Linear, ReLU, ReLU6, LeakyReLU, Dropout, Flatten, Identity, BatchNorm1d
            and a final Sigmoid, Softmax or LogSoftmax; or the result of ``torch.export.export``.
        schema: Schema of the inputs.
        name: Name in reports.
        kind: Meaning of the outputs, see ``network_from_outputs``.

    Raises:
        ModelError: inputs or outputs do not fit the schema.
        NotAdditiveError: a layer or operation is not supported; the message names it.
        MissingExtraError: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to read a PyTorch model") from None
    if isinstance(model, torch.export.ExportedProgram):
        outputs = _ExportedGraph(model, schema, name).outputs()
    else:
        outputs = [_read_sequential(model, schema, name)]
    return network_from_outputs(
        [out if isinstance(out, OutputTensor) else as_linear(out) for out in outputs], schema, name=name, kind=kind
    )


def _read_sequential(module: Any, schema: Schema, name: str) -> Any:
    import torch

    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        raise NotAdditiveError("it has hooks, which run custom code", location=name, hint=BLACK_BOX_HINT)
    layers = list(_walk_layers(module, ""))
    first = next((layer for _, layer in layers if isinstance(layer, torch.nn.Linear)), None)
    if first is not None:
        check_width(first.in_features, schema, location=name)
    dtype = np.dtype(np.float32) if first is None else _to_numpy(first.weight).dtype
    value: Tensor = plain_inputs(schema, dtype)
    for path, layer in layers:
        with locate_errors(f"layer {path} ({type(layer).__name__})" if path else type(layer).__name__, location=name):
            value = _apply_layer(layer, value, dtype)
    return value


def _walk_layers(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    import torch

    if type(module) is not torch.nn.Sequential:
        yield path, module
        return
    for key, child in module.named_children():
        yield from _walk_layers(child, f"{path}.{key}" if path else key)


def _apply_layer(layer: Any, value: Tensor, dtype: NumberType) -> Tensor:
    from torch import nn

    def weights(*names: str) -> list[Values | None]:
        arrays = [getattr(layer, name) for name in names]
        return [None if array is None else _to_numpy(array) for array in arrays]

    kind = type(layer)  # exact types: a subclass may compute differently
    if kind in (nn.Dropout, nn.AlphaDropout, nn.Identity):
        return value
    if kind is nn.Flatten:
        return _flatten(value, layer.start_dim, layer.end_dim)
    if kind is nn.Linear:
        return _linear(value, *weights("weight", "bias"))  # type: ignore[arg-type]  # the weight is never None
    if kind is nn.ReLU:
        return tensors.relu(value)
    if kind is nn.ReLU6:
        return tensors.clip_tensor(value, 0.0, 6.0)
    if kind is nn.LeakyReLU:
        return _leaky_relu(dtype, value, layer.negative_slope)
    if kind is nn.BatchNorm1d:
        scale, shift, mean, variance = weights("weight", "bias", "running_mean", "running_var")
        return _batch_norm(value, scale, shift, mean, variance, False, 0.0, layer.eps)
    if kind is nn.Sigmoid:
        return tensors.sigmoid(value)
    if kind in (nn.Softmax, nn.LogSoftmax):
        return tensors.softmax(value, 1 if layer.dim is None else layer.dim)
    raise NotAdditiveError(
        "this type of layer is not supported (use nn.Sequential of Linear, ReLU, ReLU6, LeakyReLU, Dropout, "
        "Flatten, Identity and BatchNorm1d, or export a custom module with torch.export.export)"
    )


def _to_numpy(tensor: Any) -> Values:
    if tensor.is_floating_point() and tensor.element_size() < 4:
        raise NotAdditiveError(f"it computes in half precision ({tensor.dtype})", hint=BLACK_BOX_HINT)
    return np.asarray(tensor.detach().cpu().numpy())


class _ExportedGraph:
    """Graph of an exported program, evaluated node by node."""

    def __init__(self, program: Any, schema: Schema, name: str) -> None:
        self.program = program
        self.schema = schema
        self.name = name
        weights = [value for value in program.state_dict.values() if value.is_floating_point()]
        self.dtype = _to_numpy(weights[0]).dtype if weights else np.dtype(np.float32)
        self.values: dict[str, Any] = {}

    def outputs(self) -> list[Any]:
        """Compute the outputs of the program."""
        self._enter_inputs()
        for node in self.program.graph.nodes:
            if node.op == "output":
                outputs = [self.values.get(getattr(item, "name", "")) for item in node.args[0]]
                if any(value is None or tensors.is_weights(value) for value in outputs):
                    raise ModelError("an output does not depend on the inputs", location=self.name)
                return outputs
            if node.op != "placeholder" and node.users:
                with locate_errors(f"operation {node.target} (node {node.name!r})", location=self.name):
                    self.values[node.name] = self._evaluate(node)
        raise ModelError("the program has no outputs", location=self.name)

    def _enter_inputs(self) -> None:
        signature = self.program.graph_signature
        inputs = [spec for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
        if len(inputs) != 1:
            raise NotAdditiveError(f"the program takes {len(inputs)} inputs, expected one tensor", location=self.name)
        for spec in signature.input_specs:
            if spec is not inputs[0]:
                stored = self.program.state_dict.get(spec.target)
                stored = self.program.constants.get(spec.target) if stored is None else stored
                if stored is None:
                    raise ModelError(f"the program lacks {spec.target!r}", location=self.name)
                self.values[spec.arg.name] = _to_numpy(stored)
        example = next(node for node in self.program.graph.nodes if node.name == inputs[0].arg.name).meta["val"]
        shape = [int(size) for size in example.shape[1:]]
        check_width(int(np.prod(shape)), self.schema, location=self.name)
        dtype = np.dtype(str(example.dtype).removeprefix("torch."))
        self.values[inputs[0].arg.name] = plain_inputs(self.schema, dtype).reshape(shape)

    def _evaluate(self, node: Any) -> Any:
        arguments = [self._resolve(argument) for argument in node.args]
        settings = {key: self._resolve(argument) for key, argument in node.kwargs.items()}
        operands = [
            item
            for argument in [*arguments, *settings.values()]
            for item in (argument if isinstance(argument, list) else [argument])
        ]
        if not any(tensors.depends_on_inputs(operand) for operand in operands):
            return self._compute_weights(node.target, arguments, settings)
        if node.target is operator.getitem:
            return arguments[0][arguments[1]]
        name = str(node.target).removeprefix("aten.")
        if name in TYPED_OPERATIONS:
            return TYPED_OPERATIONS[name](self.dtype, *arguments, **settings)
        if name in OPERATIONS:
            return OPERATIONS[name](*arguments, **settings)
        raise NotAdditiveError("this operation is not supported")

    def _resolve(self, argument: Any) -> Any:
        if isinstance(argument, list | tuple):
            return [self._resolve(item) for item in argument]
        return self.values[argument.name] if hasattr(argument, "meta") else argument

    def _compute_weights(self, target: Any, arguments: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Run an operation on weights with PyTorch."""
        import torch

        def to_torch(value: Any) -> Any:
            if isinstance(value, list):
                return [to_torch(item) for item in value]
            return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value

        if not str(target).startswith("aten."):
            raise NotAdditiveError("this operation is not supported")
        result = target(*map(to_torch, arguments), **{key: to_torch(value) for key, value in settings.items()})
        return _to_numpy(result) if isinstance(result, torch.Tensor) else result
