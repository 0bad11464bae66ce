"""PyTorch modules as additive networks: ``nn.Sequential`` of affine and ReLU layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive import linear, tensors
from evenhand.models.additive.cells import Values, plain_inputs
from evenhand.models.additive.network import AdditiveNetwork, check_width
from evenhand.models.additive.tensors import Tensor, network_from_outputs
from evenhand.models.readers.reading import BLACK_BOX_HINT, locate_errors
from evenhand.schema.schema import Schema


def read_torch(model: Any, schema: Schema, *, name: str = "PyTorch model", kind: str | None = None) -> AdditiveNetwork:
    """Convert a PyTorch module to an additive network with the same outputs in evaluation mode.

    The input is one tensor (n, inputs) of encoded attributes. A single output refers to the favourable label; several
    outputs follow the order of the target's labels.

    Args:
        model: ``nn.Sequential`` (nested) of Linear, ReLU, ReLU6, LeakyReLU, Dropout, Flatten, Identity, BatchNorm1d
            and a final Sigmoid, Softmax or LogSoftmax.
        schema: Schema of the inputs.
        name: Name in reports.
        kind: Meaning of the outputs, see ``network_from_outputs``.

    Raises:
        ModelError: inputs or outputs do not fit the schema.
        NotAdditiveError: a layer is not supported; the message names it.
    """
    import torch

    if any(part._forward_hooks or part._forward_pre_hooks for part in model.modules()):
        raise NotAdditiveError("it has hooks, which run custom code", location=name, hint=BLACK_BOX_HINT)
    layers = list(_walk_layers(model, ""))
    first = next((layer for _, layer in layers if isinstance(layer, torch.nn.Linear)), None)
    if first is not None:
        check_width(first.in_features, schema, location=name)
    dtype = np.dtype(np.float32) if first is None else _to_numpy(first.weight).dtype
    value: Tensor = linear.input_units(plain_inputs(schema, dtype))
    for path, layer in layers:
        with locate_errors(f"layer {path} ({type(layer).__name__})" if path else type(layer).__name__, location=name):
            value = _apply_layer(layer, value, dtype)
    return network_from_outputs([value], schema, name=name, kind=kind)


def _walk_layers(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    import torch

    if type(module) is not torch.nn.Sequential:
        yield path, module
        return
    for key, child in module.named_children():
        yield from _walk_layers(child, f"{path}.{key}" if path else key)


def _apply_layer(layer: Any, value: Tensor, dtype: np.dtype[Any]) -> Tensor:
    from torch import nn

    def weights(*names: str) -> list[Values | None]:
        arrays = [getattr(layer, name) for name in names]
        return [None if array is None else _to_numpy(array) for array in arrays]

    kind = type(layer)  # exact types: a subclass may compute differently
    if kind in (nn.Dropout, nn.AlphaDropout, nn.Identity):
        return value
    if kind is nn.Flatten:
        if (layer.start_dim, layer.end_dim) != (1, -1):
            raise NotAdditiveError("it works across rows")
        return tensors.reshape(value, [0, -1])
    if kind is nn.Linear:
        weight, bias = weights("weight", "bias")
        return linear.affine(value, weight.T, bias)  # type: ignore[union-attr]  # the weight is never None
    if kind is nn.ReLU:
        return linear.relu(value)
    if kind is nn.ReLU6:
        return linear.clip_units(value, 0.0, 6.0)
    if kind is nn.LeakyReLU:
        return linear.leaky_relu(value, float(dtype.type(layer.negative_slope)))
    if kind is nn.BatchNorm1d:
        scale, shift, mean, variance = weights("weight", "bias", "running_mean", "running_var")
        if mean is None or variance is None:
            raise NotAdditiveError("it has no running statistics: its output depends on other rows")
        return tensors.batch_normalization(value, scale, shift, mean, variance, layer.eps)
    if kind is nn.Sigmoid:
        return tensors.sigmoid(value)
    if kind in (nn.Softmax, nn.LogSoftmax):
        return tensors.softmax(value, 1 if layer.dim is None else layer.dim)
    raise NotAdditiveError(
        "this type of layer is not supported (use nn.Sequential of Linear, ReLU, ReLU6, LeakyReLU, Dropout, "
        "Flatten, Identity and BatchNorm1d, or export a custom module with torch.onnx.export)"
    )


def _to_numpy(tensor: Any) -> Values:
    if tensor.is_floating_point() and tensor.element_size() < 4:
        raise NotAdditiveError(f"it computes in half precision ({tensor.dtype})", hint=BLACK_BOX_HINT)
    return np.asarray(tensor.detach().cpu().numpy())
