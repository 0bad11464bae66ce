"""PyTorch models as additive networks: ``nn.Sequential`` by its layers, exported programs by their graph.

`OPERATIONS` says what each ATen operation of an exported program does, in terms of `tensors`; every function takes the
number type of the program first, for the plain numbers among its operands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError
from evenhand.models.additive import tensors
from evenhand.models.additive.answer import OutputTensor, network_from_outputs
from evenhand.models.additive.cells import Values, plain_inputs
from evenhand.models.additive.linear import LinearTensor, as_linear
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.additive.tensors import Tensor
from evenhand.models.readers.reading import BLACK_BOX_HINT, check_width, locate_errors
from evenhand.schema.schema import Schema

NumberType: TypeAlias = np.dtype[Any]

OPERATIONS: dict[str, Callable[..., Any]] = {}


def _register_operation(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATIONS.update({f"aten.{name}": function for name in names})
        return function

    return register


def _as_operand(dtype: NumberType, given: Any) -> Any:
    """Return an operand: a plain number as weights of the program's own type."""
    return np.asarray(given, dtype=dtype) if isinstance(given, int | float) else given


@_register_operation(
    "alias.default",
    "clone.default",
    "contiguous.default",
    "detach.default",
    "detach_.default",
    "dropout.default",
    "lift_fresh_copy.default",
)
def _identity(
    dtype: NumberType, value: Tensor, probability: float = 0.0, train: bool = False, **settings: Any
) -> Tensor:
    if train:
        raise NotAdditiveError("the model was exported in training mode: call model.eval() first")
    return value


@_register_operation("linear.default")
def _linear(dtype: NumberType, value: Any, weight: Values, bias: Values | None = None) -> Tensor:
    return tensors.affine(value, weight.T, bias)


@_register_operation("mm.default", "matmul.default")
def _product(dtype: NumberType, value: Any, weight: Values) -> Tensor:
    return tensors.affine(value, weight)


@_register_operation("addmm.default")
def _product_and_sum(dtype: NumberType, bias: Values, value: Any, weight: Values) -> Tensor:
    return tensors.affine(value, weight, bias)


@_register_operation("relu.default", "relu_.default")
def _relu(dtype: NumberType, value: Any) -> Tensor:
    return tensors.relu(value)


@_register_operation("clamp.default", "clamp_min.default")
def _clamp(dtype: NumberType, value: Any, lower: float | None = None, upper: float | None = None) -> Tensor:
    return tensors.clip_tensor(value, -np.inf if lower is None else lower, np.inf if upper is None else upper)


@_register_operation("hardtanh.default", "hardtanh_.default")
def _hardtanh(dtype: NumberType, value: Any, lower: float = -1.0, upper: float = 1.0) -> Tensor:
    return tensors.clip_tensor(value, lower, upper)


@_register_operation("relu6.default")
def _relu6(dtype: NumberType, value: Any) -> Tensor:
    return tensors.clip_tensor(value, 0.0, 6.0)


@_register_operation("leaky_relu.default", "leaky_relu_.default")
def _leaky_relu(dtype: NumberType, value: Any, slope: float = 0.01) -> Tensor:
    return tensors.leaky_relu(value, float(dtype.type(slope)))


@_register_operation("batch_norm.default")
def _batch_norm(
    dtype: NumberType, value: Any, scale: Any, shift: Any, mean: Any, variance: Any, training: bool, *others: Any
) -> Tensor:
    if training or mean is None:
        raise NotAdditiveError("the model was exported in training mode: call model.eval() first")
    scale = np.ones(len(mean)) if scale is None else scale
    shift = np.zeros(len(mean)) if shift is None else shift
    return tensors.batch_normalization(value, scale, shift, mean, variance, others[1])  # momentum, epsilon, ...


@_register_operation("_native_batch_norm_legit_no_training.default")
def _native_batch_norm(
    dtype: NumberType, value: Any, scale: Any, shift: Any, mean: Any, variance: Any, momentum: float, epsilon: float
) -> list[Tensor]:
    return [_batch_norm(dtype, value, scale, shift, mean, variance, False, momentum, epsilon)]


@_register_operation("sigmoid.default")
def _sigmoid(dtype: NumberType, value: Any) -> Tensor:
    return tensors.sigmoid(value)


@_register_operation("softmax.int", "log_softmax.int", "_softmax.default", "_log_softmax.default")
def _softmax(dtype: NumberType, value: Any, axis: int, *_: Any) -> Tensor:
    return tensors.softmax(value, axis)


@_register_operation("argmax.default")
def _argmax(dtype: NumberType, value: Any, axis: int | None = None, keep: bool = False) -> Tensor:
    if axis is None:
        raise NotAdditiveError("it works across people")
    return tensors.argmax(value, axis, keep=keep)


@_register_operation("flatten.using_ints")
def _flatten(dtype: NumberType, value: Any, start: int = 0, end: int = -1) -> Tensor:
    if start != 1 or end != -1:
        raise NotAdditiveError("it puts people side by side")
    return tensors.reshape(value, [0, -1])


@_register_operation("view.default", "reshape.default", "_unsafe_view.default")
def _view(dtype: NumberType, value: Any, shape: Sequence[int]) -> Tensor:
    return tensors.reshape(value, shape)


@_register_operation("sym_size.int")
def _size(dtype: NumberType, value: Any, axis: int) -> int:
    if axis != 0:
        raise NotAdditiveError("it computes with the number of columns")
    return -1  # as many people as there are


@_register_operation("unsqueeze.default")
def _unsqueeze(dtype: NumberType, value: Any, axis: int) -> Tensor:
    return tensors.unsqueeze(value, [axis])


@_register_operation("squeeze.dim")
def _squeeze(dtype: NumberType, value: Any, axis: int) -> Tensor:
    return tensors.squeeze(value, [axis])


@_register_operation("cat.default")
def _concatenate(dtype: NumberType, values: Sequence[Any], axis: int = 0) -> Tensor:
    return tensors.concatenate(values, axis)


@_register_operation("slice.Tensor")
def _slice(
    dtype: NumberType, value: Any, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return tensors.slice_columns(value, axis, start or 0, 2**63 - 1 if end is None else end, step)


@_register_operation("select.int")
def _select(dtype: NumberType, value: Any, axis: int, place: int) -> Tensor:
    return tensors.select_columns(value, np.array(place), axis)


@_register_operation("index_select.default")
def _index_select(dtype: NumberType, value: Any, axis: int, places: Values) -> Tensor:
    return tensors.select_columns(value, places, axis)


@_register_operation("to.dtype", "_to_copy.default", "to.dtype_layout")
def _cast(kind: NumberType, value: Any, dtype: Any = None, *_: Any, **settings: Any) -> Tensor:
    return value if dtype is None else tensors.cast_tensor(value, np.dtype(str(dtype).removeprefix("torch.")))


@_register_operation("one_hot.default")
def _one_hot(dtype: NumberType, codes: Any, size: int = -1) -> Tensor:
    if size < 1:
        raise NotAdditiveError("it takes the number of categories from who is asked about")
    return tensors.one_hot(codes, size, np.array([0]), np.array([1]))


@_register_operation("embedding.default")
def _embedding(dtype: NumberType, table: Values, codes: Any, *_: Any) -> Tensor:
    return tensors.lookup_rows(table, codes)


def _arithmetic(name: str) -> Callable[..., Tensor]:
    def compute(dtype: NumberType, left: Any, right: Any, alpha: float = 1) -> Tensor:
        right = _as_operand(dtype, right)
        if alpha != 1:
            right = tensors.apply_arithmetic("Mul", right, _as_operand(dtype, alpha))
        return tensors.apply_arithmetic(name, _as_operand(dtype, left), right)

    return compute


for _name in ("Add", "Sub", "Mul", "Div"):
    _register_operation(*(f"{_name.lower()}{mark}.{kind}" for kind in ("Tensor", "Scalar") for mark in ("", "_")))(
        _arithmetic(_name)
    )


@_register_operation("rsub.Scalar")
def _reversed_difference(dtype: NumberType, right: Any, left: float) -> Tensor:
    return tensors.apply_arithmetic("Sub", _as_operand(dtype, left), right)


@_register_operation("neg.default")
def _negative(dtype: NumberType, value: Any) -> Tensor:
    return tensors.apply_arithmetic("Mul", value, _as_operand(dtype, -1))


def _comparison(function: Callable[[Values, Values], Values]) -> Callable[..., Tensor]:
    def compute(dtype: NumberType, left: Any, right: Any) -> Tensor:
        return tensors.compare_tensors(function, _as_operand(dtype, left), _as_operand(dtype, right))

    return compute


for _name, _function in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)):
    _register_operation(f"{_name}.Scalar", f"{_name}.Tensor")(_comparison(_function))


def read_torch(model: Any, schema: Schema, *, name: str = "PyTorch model", kind: str | None = None) -> AdditiveNetwork:
    """Read a PyTorch model as an additive network, as it answers in evaluation mode.

    It takes one tensor (n, inputs) of plain numbers, each attribute by its encoding in the schema. One output is
    of the favourable label; several are one per label of the schema's target, in its order.

    Args:
        model: ``nn.Sequential`` (nested) of Linear, ReLU, ReLU6, LeakyReLU, Dropout, Flatten, Identity, BatchNorm1d
            and a final Sigmoid, Softmax or LogSoftmax; or what ``torch.export.export`` gives.
        schema: what its individuals are.
        name: how to call it in a report.
        kind: meaning of its outputs, see ``network_from_outputs``.

    Raises:
        ModelError: inputs or outputs do not fit the schema.
        NotAdditiveError: a layer or operation is of another kind; the message names it.
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
        raise NotAdditiveError("it has hooks, which run code of their own", location=name, hint=BLACK_BOX_HINT)
    layers = list(_walk_leaves(module, ""))
    first = next((layer for _, layer in layers if isinstance(layer, torch.nn.Linear)), None)
    if first is not None:
        check_width(first.in_features, schema, location=name)
    dtype = np.dtype(np.float32) if first is None else _to_numpy(first.weight).dtype
    value: Tensor = plain_inputs(schema, dtype)
    for path, layer in layers:
        with locate_errors(f"layer {path} ({type(layer).__name__})" if path else type(layer).__name__, location=name):
            value = _apply_layer(layer, value, dtype)
    return value


def _walk_leaves(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    import torch

    if type(module) is not torch.nn.Sequential:
        yield path, module
        return
    for key, child in module.named_children():
        yield from _walk_leaves(child, f"{path}.{key}" if path else key)


def _apply_layer(layer: Any, value: Tensor, dtype: NumberType) -> Tensor:
    from torch import nn

    kind = type(layer)  # exactly these: a subclass may compute something else
    if kind in (nn.Dropout, nn.AlphaDropout, nn.Identity):
        return value
    if kind is nn.Flatten:
        if layer.start_dim != 1 or layer.end_dim != -1:
            raise NotAdditiveError("it puts people side by side")
        return tensors.reshape(value, [0, -1])
    if kind is nn.Linear:
        return tensors.affine(value, _to_numpy(layer.weight).T, None if layer.bias is None else _to_numpy(layer.bias))
    if kind is nn.ReLU:
        return tensors.relu(value)
    if kind is nn.ReLU6:
        return tensors.clip_tensor(value, 0.0, 6.0)
    if kind is nn.LeakyReLU:
        return tensors.leaky_relu(value, float(dtype.type(layer.negative_slope)))
    if kind is nn.BatchNorm1d:
        if layer.running_mean is None:
            raise NotAdditiveError("it keeps no statistics, so what it answers depends on who else is asked about")
        scale = np.ones(layer.num_features) if layer.weight is None else _to_numpy(layer.weight)
        shift = np.zeros(layer.num_features) if layer.bias is None else _to_numpy(layer.bias)
        mean, variance = _to_numpy(layer.running_mean), _to_numpy(layer.running_var)
        return tensors.batch_normalization(value, scale, shift, mean, variance, layer.eps)
    if kind is nn.Sigmoid:
        return tensors.sigmoid(value)
    if kind in (nn.Softmax, nn.LogSoftmax):
        return tensors.softmax(value, 1 if layer.dim is None else layer.dim)
    raise NotAdditiveError(
        "this kind of layer cannot be read (nn.Sequential of Linear, ReLU, ReLU6, LeakyReLU, Dropout, Flatten, "
        "Identity and BatchNorm1d can; a module with its own forward can once it is exported with torch.export.export)"
    )


def _to_numpy(tensor: Any) -> Values:
    if tensor.is_floating_point() and tensor.element_size() < 4:
        raise NotAdditiveError(f"it computes in half precision ({tensor.dtype})", hint=BLACK_BOX_HINT)
    return np.asarray(tensor.detach().cpu().numpy())


class _ExportedGraph:
    """The graph of an exported program, evaluated node by node."""

    def __init__(self, program: Any, schema: Schema, name: str) -> None:
        self.program = program
        self.schema = schema
        self.name = name
        weights = [value for value in program.state_dict.values() if value.is_floating_point()]
        self.dtype = _to_numpy(weights[0]).dtype if weights else np.dtype(np.float32)
        self.values: dict[str, Any] = {}

    def outputs(self) -> list[Any]:
        """Return what the program gives."""
        self._inputs()
        for node in self.program.graph.nodes:
            if node.op == "output":
                return [self._output(given) for given in node.args[0]]
            if node.op != "placeholder" and node.users:
                with locate_errors(f"operation {node.target} (node {node.name!r})", location=self.name):
                    self.values[node.name] = self._evaluate(node)
        raise ModelError("the program gives nothing", location=self.name)

    def _inputs(self) -> None:
        signature = self.program.graph_signature
        people = [spec for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
        if len(people) != 1:
            raise NotAdditiveError(f"the program takes {len(people)} inputs instead of one tensor", location=self.name)
        for spec in signature.input_specs:
            if spec is not people[0]:
                stored = self.program.state_dict.get(spec.target)
                stored = self.program.constants.get(spec.target) if stored is None else stored
                if stored is None:
                    raise ModelError(f"the program lacks {spec.target!r}", location=self.name)
                self.values[spec.arg.name] = _to_numpy(stored)
        given = next(node for node in self.program.graph.nodes if node.name == people[0].arg.name)
        shape = given.meta["val"].shape
        check_width(int(np.prod([int(size) for size in shape[1:]])), self.schema, location=self.name)
        dtype = str(given.meta["val"].dtype).removeprefix("torch.")
        cells = plain_inputs(self.schema, np.dtype(dtype))
        self.values[given.name] = cells.reshape([int(size) for size in shape[1:]])

    def _output(self, given: Any) -> Any:
        value = self.values.get(getattr(given, "name", ""))
        if value is None or tensors.is_weights(value):
            raise ModelError("an output does not depend on the person", location=self.name)
        return value

    def _evaluate(self, node: Any) -> Any:
        arguments = [self._resolve_argument(given) for given in node.args]
        settings = {key: self._resolve_argument(given) for key, given in node.kwargs.items()}
        everything = [*arguments, *settings.values()]
        flat = [item for given in everything for item in (given if isinstance(given, list) else [given])]
        if not any(isinstance(item, LinearTensor | OutputTensor) or tensors.is_cells(item) for item in flat):
            return self._compute_weights(node.target, arguments, settings)
        if node.target is operator.getitem:
            return arguments[0][arguments[1]]
        function = OPERATIONS.get(str(node.target))
        if function is None:
            raise NotAdditiveError("this operation cannot be read")
        return function(self.dtype, *arguments, **settings)

    def _resolve_argument(self, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return [self._resolve_argument(item) for item in given]
        return self.values[given.name] if hasattr(given, "meta") else given

    def _compute_weights(self, target: Any, arguments: list[Any], settings: dict[str, Any]) -> Any:
        import torch

        def tensor(given: Any) -> Any:
            if isinstance(given, list):
                return [tensor(item) for item in given]
            return torch.from_numpy(np.array(given)) if isinstance(given, np.ndarray) else given

        if not str(target).startswith("aten."):
            raise NotAdditiveError("this operation cannot be read")
        result = target(*tensor(arguments), **{key: tensor(given) for key, given in settings.items()})
        return _to_numpy(result) if isinstance(result, torch.Tensor) else result
