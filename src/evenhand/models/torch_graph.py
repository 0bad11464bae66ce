"""PyTorch models as additive networks: ``nn.Sequential`` by its layers, exported programs by their graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError
from evenhand.models import tensors
from evenhand.models.additive import AdditiveNetwork
from evenhand.models.answer import Answer, finish
from evenhand.models.cells import Values, plain_inputs
from evenhand.models.linear import Linear, mixed
from evenhand.models.reading import BLACK_BOX, check_width, reading
from evenhand.models.tensors import Tensor
from evenhand.schema import Schema


def from_torch(model: Any, schema: Schema, *, name: str = "PyTorch model") -> AdditiveNetwork:
    """Read a PyTorch model as an additive network, as it answers in evaluation mode.

    It takes one tensor (n, inputs) of plain numbers, each attribute by its encoding in the schema. One output is a
    logit (or its sigmoid), favourable when > 0; several are one per label of the schema's target, in its order.

    Args:
        model: ``nn.Sequential`` (nested) of Linear, ReLU, Dropout, Flatten, Identity, BatchNorm1d and a final Sigmoid,
            Softmax or LogSoftmax; or what ``torch.export.export`` gives.
        schema: what its individuals are.
        name: how to call it in a report.

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
        outputs = _Program(model, schema, name).outputs()
    else:
        outputs = [_sequential(model, schema, name)]
    return finish([out if isinstance(out, Answer) else mixed(out) for out in outputs], schema, name=name)


def _sequential(module: Any, schema: Schema, name: str) -> Any:
    import torch

    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        raise NotAdditiveError("it has hooks, which run code of their own", where=name, mend=BLACK_BOX)
    layers = list(_leaves(module, ""))
    first = next((layer for _, layer in layers if isinstance(layer, torch.nn.Linear)), None)
    if first is not None:
        check_width(first.in_features, schema, where=name)
    value: Tensor = plain_inputs(schema, np.float32 if first is None else _array(first.weight).dtype)
    for path, layer in layers:
        with reading(f"layer {path} ({type(layer).__name__})" if path else type(layer).__name__, where=name):
            value = _layer(layer, value)
    return value


def _leaves(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    import torch

    if type(module) is not torch.nn.Sequential:
        yield path, module
        return
    for key, child in module.named_children():
        yield from _leaves(child, f"{path}.{key}" if path else key)


def _layer(layer: Any, value: Tensor) -> Tensor:
    from torch import nn

    kind = type(layer)  # exactly these: a subclass may compute something else
    if kind in (nn.Dropout, nn.AlphaDropout, nn.Identity):
        return value
    if kind is nn.Flatten:
        if layer.start_dim != 1 or layer.end_dim != -1:
            raise NotAdditiveError("it puts people side by side")
        return tensors.reshape(value, [0, -1])
    if kind is nn.Linear:
        return tensors.affine(value, _array(layer.weight).T, None if layer.bias is None else _array(layer.bias))
    if kind is nn.ReLU:
        return tensors.relu(value)
    if kind is nn.BatchNorm1d:
        if layer.running_mean is None:
            raise NotAdditiveError("it keeps no statistics, so what it answers depends on who else is asked about")
        scale = np.ones(layer.num_features) if layer.weight is None else _array(layer.weight)
        shift = np.zeros(layer.num_features) if layer.bias is None else _array(layer.bias)
        mean, variance = _array(layer.running_mean), _array(layer.running_var)
        return tensors.batch_normalization(value, scale, shift, mean, variance, layer.eps)
    if kind is nn.Sigmoid:
        return tensors.sigmoid(value)
    if kind in (nn.Softmax, nn.LogSoftmax):
        return tensors.softmax(value, 1 if layer.dim is None else layer.dim)
    raise NotAdditiveError(
        "this kind of layer cannot be read (nn.Sequential of Linear, ReLU, Dropout, Flatten, Identity and BatchNorm1d "
        "can; a module with its own forward can once it is exported with torch.export.export)"
    )


def _array(tensor: Any) -> Values:
    if tensor.is_floating_point() and tensor.element_size() < 4:
        raise NotAdditiveError(f"it computes in half precision ({tensor.dtype})", mend=BLACK_BOX)
    return np.asarray(tensor.detach().cpu().numpy())


class _Program:
    """The graph of an exported program, evaluated node by node."""

    def __init__(self, program: Any, schema: Schema, name: str) -> None:
        self.program = program
        self.schema = schema
        self.name = name
        weights = [value for value in program.state_dict.values() if value.is_floating_point()]
        self.dtype = _array(weights[0]).dtype if weights else np.dtype(np.float32)
        self.values: dict[str, Any] = {}

    def outputs(self) -> list[Any]:
        """What the program gives."""
        self._inputs()
        for node in self.program.graph.nodes:
            if node.op == "output":
                return [self._output(given) for given in node.args[0]]
            if node.op != "placeholder" and node.users:
                with reading(f"operation {node.target} (node {node.name!r})", where=self.name):
                    self.values[node.name] = self._evaluate(node)
        raise ModelError("the program gives nothing", where=self.name)

    def _inputs(self) -> None:
        signature = self.program.graph_signature
        people = [spec for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
        if len(people) != 1:
            raise NotAdditiveError(f"the program takes {len(people)} inputs instead of one tensor", where=self.name)
        for spec in signature.input_specs:
            if spec is not people[0]:
                stored = self.program.state_dict.get(spec.target)
                stored = self.program.constants.get(spec.target) if stored is None else stored
                if stored is None:
                    raise ModelError(f"the program lacks {spec.target!r}", where=self.name)
                self.values[spec.arg.name] = _array(stored)
        given = next(node for node in self.program.graph.nodes if node.name == people[0].arg.name)
        shape = given.meta["val"].shape
        check_width(int(np.prod([int(size) for size in shape[1:]])), self.schema, where=self.name)
        dtype = str(given.meta["val"].dtype).removeprefix("torch.")
        cells = plain_inputs(self.schema, np.dtype(dtype))
        self.values[given.name] = cells.reshape([int(size) for size in shape[1:]])

    def _output(self, given: Any) -> Any:
        value = self.values.get(getattr(given, "name", ""))
        if value is None or tensors.is_weights(value):
            raise ModelError("an output does not depend on the person", where=self.name)
        return value

    def _evaluate(self, node: Any) -> Any:
        arguments = [self._argument(given) for given in node.args]
        settings = {key: self._argument(given) for key, given in node.kwargs.items()}
        everything = [*arguments, *settings.values()]
        flat = [item for given in everything for item in (given if isinstance(given, list) else [given])]
        if not any(isinstance(item, Linear | Answer) or tensors.is_cells(item) for item in flat):
            return self._on_weights(node.target, arguments, settings)
        if node.target is operator.getitem:
            return arguments[0][arguments[1]]
        function = OPERATIONS.get(str(node.target))
        if function is None:
            raise NotAdditiveError("this operation cannot be read")
        return function(self, *arguments, **settings)

    def _argument(self, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return [self._argument(item) for item in given]
        return self.values[given.name] if hasattr(given, "meta") else given

    def _on_weights(self, target: Any, arguments: list[Any], settings: dict[str, Any]) -> Any:
        import torch

        def tensor(given: Any) -> Any:
            if isinstance(given, list):
                return [tensor(item) for item in given]
            return torch.from_numpy(np.array(given)) if isinstance(given, np.ndarray) else given

        if not str(target).startswith("aten."):
            raise NotAdditiveError("this operation cannot be read")
        result = target(*tensor(arguments), **{key: tensor(given) for key, given in settings.items()})
        return _array(result) if isinstance(result, torch.Tensor) else result

    def number(self, given: Any) -> Any:
        """An operand: a plain number as weights of the model's own type."""
        return np.asarray(given, dtype=self.dtype) if isinstance(given, int | float) else given


OPERATIONS: dict[str, Callable[..., Any]] = {}


def _operation(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATIONS.update({f"aten.{name}": function for name in names})
        return function

    return register


@_operation("alias.default", "clone.default", "contiguous.default", "detach.default", "detach_.default",
            "dropout.default", "lift_fresh_copy.default")  # fmt: skip
def _same(program: _Program, value: Tensor, probability: float = 0.0, train: bool = False, **settings: Any) -> Tensor:
    if train:
        raise NotAdditiveError("the model was exported in training mode: call model.eval() first")
    return value


@_operation("linear.default")
def _linear(program: _Program, value: Any, weight: Values, bias: Values | None = None) -> Tensor:
    return tensors.affine(value, weight.T, bias)


@_operation("mm.default", "matmul.default")
def _product(program: _Program, value: Any, weight: Values) -> Tensor:
    return tensors.affine(value, weight)


@_operation("addmm.default")
def _product_and_sum(program: _Program, bias: Values, value: Any, weight: Values) -> Tensor:
    return tensors.affine(value, weight, bias)


@_operation("relu.default", "relu_.default")
def _relu(program: _Program, value: Any) -> Tensor:
    return tensors.relu(value)


@_operation("clamp.default", "clamp_min.default")
def _clamp(program: _Program, value: Any, lower: float | None = None, upper: float | None = None) -> Tensor:
    return tensors.clip(value, -np.inf if lower is None else lower, np.inf if upper is None else upper)


@_operation("batch_norm.default")
def _batch_norm(program: _Program, value: Any, scale: Any, shift: Any, mean: Any, variance: Any, training: bool,
                momentum: float, epsilon: float, *_: Any) -> Tensor:  # fmt: skip
    if training or mean is None:
        raise NotAdditiveError("the model was exported in training mode: call model.eval() first")
    scale = np.ones(len(mean)) if scale is None else scale
    shift = np.zeros(len(mean)) if shift is None else shift
    return tensors.batch_normalization(value, scale, shift, mean, variance, epsilon)


@_operation("_native_batch_norm_legit_no_training.default")
def _native_batch_norm(program: _Program, value: Any, scale: Any, shift: Any, mean: Any, variance: Any,
                       momentum: float, epsilon: float) -> list[Tensor]:  # fmt: skip
    return [_batch_norm(program, value, scale, shift, mean, variance, False, momentum, epsilon)]


@_operation("sigmoid.default")
def _sigmoid(program: _Program, value: Any) -> Tensor:
    return tensors.sigmoid(value)


@_operation("softmax.int", "log_softmax.int", "_softmax.default", "_log_softmax.default")
def _softmax(program: _Program, value: Any, axis: int, *_: Any) -> Tensor:
    return tensors.softmax(value, axis)


@_operation("argmax.default")
def _argmax(program: _Program, value: Any, axis: int | None = None, keep: bool = False) -> Tensor:
    if axis is None:
        raise NotAdditiveError("it works across people")
    return tensors.largest(value, axis, keep=keep)


@_operation("flatten.using_ints")
def _flatten(program: _Program, value: Any, start: int = 0, end: int = -1) -> Tensor:
    if start != 1 or end != -1:
        raise NotAdditiveError("it puts people side by side")
    return tensors.reshape(value, [0, -1])


@_operation("view.default", "reshape.default", "_unsafe_view.default")
def _view(program: _Program, value: Any, shape: Sequence[int]) -> Tensor:
    return tensors.reshape(value, shape)


@_operation("sym_size.int")
def _size(program: _Program, value: Any, axis: int) -> int:
    if axis != 0:
        raise NotAdditiveError("it computes with the number of columns")
    return -1  # as many people as there are


@_operation("unsqueeze.default")
def _unsqueeze(program: _Program, value: Any, axis: int) -> Tensor:
    return tensors.unsqueeze(value, [axis])


@_operation("squeeze.dim")
def _squeeze(program: _Program, value: Any, axis: int) -> Tensor:
    return tensors.squeeze(value, [axis])


@_operation("cat.default")
def _concatenate(program: _Program, values: Sequence[Any], axis: int = 0) -> Tensor:
    return tensors.concatenate(values, axis)


@_operation("slice.Tensor")
def _slice(program: _Program, value: Any, axis: int = 0, start: int | None = None, end: int | None = None,
           step: int = 1) -> Tensor:  # fmt: skip
    return tensors.cut(value, axis, start or 0, 2**63 - 1 if end is None else end, step)


@_operation("select.int")
def _select(program: _Program, value: Any, axis: int, place: int) -> Tensor:
    return tensors.pick(value, np.array(place), axis)


@_operation("index_select.default")
def _index_select(program: _Program, value: Any, axis: int, places: Values) -> Tensor:
    return tensors.pick(value, places, axis)


@_operation("to.dtype", "_to_copy.default", "to.dtype_layout")
def _cast(program: _Program, value: Any, dtype: Any = None, *_: Any, **settings: Any) -> Tensor:
    return value if dtype is None else tensors.cast(value, np.dtype(str(dtype).removeprefix("torch.")))


@_operation("one_hot.default")
def _one_hot(program: _Program, codes: Any, size: int = -1) -> Tensor:
    if size < 1:
        raise NotAdditiveError("it takes the number of categories from who is asked about")
    return tensors.one_hot(codes, size, np.array([0]), np.array([1]))


@_operation("embedding.default")
def _embedding(program: _Program, table: Values, codes: Any, *_: Any) -> Tensor:
    return tensors.look_up(table, codes)


def _arithmetic(name: str) -> Callable[..., Tensor]:
    def compute(program: _Program, left: Any, right: Any, alpha: float = 1) -> Tensor:
        right = program.number(right)
        if alpha != 1:
            right = tensors.arithmetic("Mul", right, program.number(alpha))
        return tensors.arithmetic(name, program.number(left), right)

    return compute


for _name in ("Add", "Sub", "Mul", "Div"):
    _operation(*(f"{_name.lower()}{mark}.{kind}" for kind in ("Tensor", "Scalar") for mark in ("", "_")))(
        _arithmetic(_name)
    )


@_operation("rsub.Scalar")
def _reversed_difference(program: _Program, right: Any, left: float) -> Tensor:
    return tensors.arithmetic("Sub", program.number(left), right)


@_operation("neg.default")
def _negative(program: _Program, value: Any) -> Tensor:
    return tensors.arithmetic("Mul", value, program.number(-1))


def _comparison(function: Callable[[Values, Values], Values]) -> Callable[..., Tensor]:
    def compute(program: _Program, left: Any, right: Any) -> Tensor:
        return tensors.compare(function, program.number(left), program.number(right))

    return compute


for _name, _function in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)):
    _operation(f"{_name}.Scalar", f"{_name}.Tensor")(_comparison(_function))
