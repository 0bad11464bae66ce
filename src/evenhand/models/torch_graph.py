"""PyTorch models as additive networks: ``nn.Sequential`` by its layers, exported programs by their graph."""

from __future__ import annotations

import operator
from collections.abc import Iterator
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
from evenhand.models.torch_operations import OPERATIONS
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
        return function(self.dtype, *arguments, **settings)

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
