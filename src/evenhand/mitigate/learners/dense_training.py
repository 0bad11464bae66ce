"""Dense layers trained on from the weights they have, whatever the scale of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import MissingExtraError
from evenhand.mitigate.learners.descent import descend

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Dense:
    """``x @ weights + bias``: trained. Weights (inputs, units), bias (units,), None where the layer has none."""

    weights: Floats
    bias: Floats | None


@dataclass(frozen=True, eq=False)
class Scale:
    """``x * factor + shift``: stays as it is. Both of shape (units,) or ()."""

    factor: Floats
    shift: Floats


@dataclass(frozen=True)
class Relu:
    """``max(0, x)``."""


Step: TypeAlias = Dense | Scale | Relu


def plain_steps(layers: Sequence[tuple[Floats, Floats]]) -> list[Step]:
    """Dense layers (weights, bias) with ReLU between them."""
    steps: list[Step] = []
    for weights, bias in layers:
        steps += [Relu()] * bool(steps) + [Dense(weights, bias)]
    return steps


def train(steps: Sequence[Step], inputs: Floats, labels: NDArray[np.int64], *, seed: int, where: str) -> list[Step]:
    """The same steps, their dense layers trained (see ``descent``), in float64.

    A network may take raw codes and amounts, of which some vary a thousand times more than others. Descent then
    crawls along one and jumps along the other, so that it sees standardised inputs while it learns: their mean and
    spread are folded into the first dense layer before, and out of it afterwards.

    Args:
        steps: the network, from inputs to logits.
        inputs: shape (n, inputs).
        labels: positions among the outputs (0 and 1 where there is one), shape (n,).
        seed: the same seed gives the same weights, bit for bit.
        where: how to call the model in messages.

    Raises:
        MissingExtraError: PyTorch is not installed.
        ModelError: the weights became infinite.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to train a network") from None
    first = next(i for i, step in enumerate(steps) if isinstance(step, Dense))
    entry = steps[first]
    assert isinstance(entry, Dense), "the first dense layer was looked for"
    for step in steps[:first]:
        inputs = inputs * step.factor + step.shift if isinstance(step, Scale) else np.maximum(inputs, 0)
    mean = inputs.mean(axis=0) if entry.bias is not None else np.zeros(inputs.shape[1])
    spread = inputs.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    working = [_folded(entry, mean, spread), *steps[first + 1 :]]
    tensors = [[None if array is None else torch.tensor(array) for array in _arrays(step)] for step in working]
    trained = [
        tensor.requires_grad_()
        for step, of in zip(working, tensors, strict=True)
        for tensor in of
        if isinstance(step, Dense) and tensor is not None
    ]

    def run(batch: Any) -> Any:
        for step, of in zip(working, tensors, strict=True):
            if isinstance(step, Dense):
                batch = batch @ of[0] if of[1] is None else torch.addmm(of[1], batch, of[0])
            else:
                batch = batch * of[0] + of[1] if isinstance(step, Scale) else torch.relu(batch)
        return batch

    seen = torch.as_tensor((inputs - mean) / spread)
    descend(run, trained, seen, labels, probable=False, seed=seed, where=where)
    learnt: list[Step] = []
    for step, of in zip(working, tensors, strict=True):
        weights, bias = ([None if tensor is None else tensor.detach().numpy() for tensor in of] + [None, None])[:2]
        learnt.append(Dense(weights, bias) if isinstance(step, Dense) and weights is not None else step)
    head = learnt[0]
    assert isinstance(head, Dense), "steps stay in their order"
    return [*steps[:first], _unfolded(head, mean, spread), *learnt[1:]]


def _arrays(step: Step) -> tuple[Floats | None, ...]:
    if isinstance(step, Dense):
        return step.weights, step.bias
    return (step.factor, step.shift) if isinstance(step, Scale) else ()


def _folded(layer: Dense, mean: Floats, spread: Floats) -> Dense:
    """The layer for inputs ``(x - mean) / spread`` that gives the same as this one for ``x``."""
    bias = None if layer.bias is None else layer.bias + mean @ layer.weights
    return Dense(layer.weights * spread[:, None], bias)


def _unfolded(layer: Dense, mean: Floats, spread: Floats) -> Dense:
    weights = layer.weights / spread[:, None]
    return Dense(weights, None if layer.bias is None else layer.bias - mean @ weights)


def merged(steps: Sequence[Step], *, width: int) -> list[tuple[Floats, Floats]]:
    """The same network as dense layers (weights, bias) with ReLU between them and nothing else.

    Args:
        steps: from inputs to logits.
        width: the number of inputs.
    """
    layers: list[tuple[Floats, Floats]] = []
    weights, bias = np.eye(width), np.zeros(width)
    for step in steps:
        if isinstance(step, Dense):
            weights, bias = weights @ step.weights, bias @ step.weights + (0.0 if step.bias is None else step.bias)
        elif isinstance(step, Scale):
            weights, bias = weights * step.factor, bias * step.factor + step.shift
        else:
            layers.append((weights, bias))
            weights, bias = np.eye(len(bias)), np.zeros(len(bias))
    return [*layers, (weights, bias)]
