"""The network while it learns: tensors of its layers, ReLU between them, one logit at the end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.mitigate.training.encoding import Encoding

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Network:
    """A dense ReLU network over encoded individuals.

    Attributes:
        encoding: how individuals become features.
        layers: (weight (inputs, outputs), bias (outputs,)) of each affine layer, float32, with gradients; ReLU between
            them, the last has one output.
    """

    encoding: Encoding
    layers: list[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def fresh(cls, encoding: Encoding, hidden: Sequence[int], generator: torch.Generator) -> Network:
        """A network with random weights: uniform within one over the root of a layer's inputs."""
        sizes = [encoding.width, *hidden, 1]
        return cls(
            encoding, [random_layer(inputs, outputs, generator) for inputs, outputs in itertools.pairwise(sizes)]
        )

    @classmethod
    def of(cls, encoding: Encoding, layers: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Network:
        """A network with these weights to begin with."""
        import torch

        return cls(
            encoding,
            [
                (
                    torch.tensor(weight, dtype=torch.float32, requires_grad=True),
                    torch.tensor(bias, dtype=torch.float32, requires_grad=True),
                )
                for weight, bias in layers
            ],
        )

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Everything that is trained."""
        return [tensor for layer in self.layers for tensor in layer]

    def encode(self, individuals: torch.Tensor) -> torch.Tensor:
        """Features of individuals (n, attributes), shape (n, width)."""
        return self.encoding.tensor(individuals)

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """One number per row of features (n, width), shape (n,); positive means favourable."""
        return self.after(self.representation(features, len(self.layers) - 1), len(self.layers) - 1)

    def representation(self, features: torch.Tensor, depth: int) -> torch.Tensor:
        """What stands after so many hidden layers and their ReLU, shape (n, units); the features at depth 0."""
        import torch

        units = features
        for weight, bias in self.layers[:depth]:
            units = torch.relu(torch.addmm(bias, units, weight))
        return units

    def after(self, units: torch.Tensor, depth: int) -> torch.Tensor:
        """The logits, from what stands after ``depth`` hidden layers, shape (n,)."""
        import torch

        for weight, bias in self.layers[depth:-1]:
            units = torch.relu(torch.addmm(bias, units, weight))
        weight, bias = self.layers[-1]
        return torch.addmm(bias, units, weight)[:, 0]


def random_layer(inputs: int, outputs: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight (inputs, outputs) and bias (outputs,), uniform within one over the root of the inputs."""
    import torch

    limit = max(inputs, 1) ** -0.5
    layer = tuple(
        ((2 * torch.rand(shape, generator=generator) - 1) * limit).requires_grad_()
        for shape in ((inputs, outputs), (outputs,))
    )
    return layer[0], layer[1]
