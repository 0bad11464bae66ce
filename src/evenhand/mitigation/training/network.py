"""Trainable networks: affine layers with ReLU between them, and a single logit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.mitigation.learners.dense import plain_dense_layers, write_npz
from evenhand.mitigation.learners.learner import file_ending
from evenhand.mitigation.training.encoding import FeatureBlock, FeatureEncoding
from evenhand.models.additive.network import AdditiveNetwork, LineTerm, TableTerm, plain_line
from evenhand.schema.schema import Schema, write_schema

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class TrainableNetwork:
    """Dense ReLU network over encoded individuals.

    Attributes:
        encoding: Encoding of individuals as features.
        layers: Weight (inputs, outputs) and bias (outputs,) of each layer, float32, with gradients. The last layer has
            one output.
    """

    encoding: FeatureEncoding
    layers: list[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def fresh(cls, encoding: FeatureEncoding, hidden: Sequence[int], generator: torch.Generator) -> TrainableNetwork:
        """Create a network with random weights."""
        sizes = [encoding.width, *hidden, 1]
        return cls(encoding, [random_layer(*pair, generator) for pair in itertools.pairwise(sizes)])

    @classmethod
    def of(cls, encoding: FeatureEncoding, layers: Sequence[tuple[Floats, Floats]]) -> TrainableNetwork:
        """Create a network with initial weights."""
        import torch

        def trainable(array: Floats) -> torch.Tensor:
            return torch.tensor(array, dtype=torch.float32, requires_grad=True)

        return cls(encoding, [(trainable(weight), trainable(bias)) for weight, bias in layers])

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All trained tensors."""
        return [tensor for layer in self.layers for tensor in layer]

    def encode(self, individuals: torch.Tensor) -> torch.Tensor:
        """Encode individuals as features, shape (n, width)."""
        import torch

        return torch.from_numpy(self.encoding.features(individuals.numpy()))

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """Compute the logits of features (n, width), shape (n,). Positive logits are favourable."""
        import torch

        weight, bias = self.layers[-1]
        return torch.addmm(bias, self.hidden_units(features, len(self.layers) - 1), weight)[:, 0]

    def hidden_units(self, features: torch.Tensor, depth: int) -> torch.Tensor:
        """Compute the units after ``depth`` hidden layers and their ReLU, shape (n, units)."""
        import torch

        units = features
        for weight, bias in self.layers[:depth]:
            units = torch.relu(torch.addmm(bias, units, weight))
        return units


def random_layer(inputs: int, outputs: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a weight (inputs, outputs) and a bias (outputs,), uniform within 1 / sqrt(inputs)."""
    import torch

    limit = max(inputs, 1) ** -0.5

    def draw(*shape: int) -> torch.Tensor:
        return ((2 * torch.rand(shape, generator=generator) - 1) * limit).requires_grad_()

    return draw(inputs, outputs), draw(outputs)


SCHEMA_ENDING = ".schema.yaml"


def write_network(network: AdditiveNetwork, path: Path) -> tuple[Path, ...]:
    """Write a network as ``.npz`` (W0, b0, W1, ...), which all commands read.

    Its inputs are those of the schema if the encoding allows it. A category with three or more values in one column
    becomes one-hot, and an attribute without an encoding gets one. Then a schema with these encodings is written next
    to the network, as ``NAME.schema.yaml``, which is needed to read it.

    Returns:
        The files, the network first.

    Raises:
        OptionError: The file has a different extension, or its folder does not exist.
    """
    file_ending(path, (".npz",))
    schema, layers = plain_dense_layers(network)
    write_npz(layers, path)
    if schema == network.schema:
        return (path,)
    schema_path = path.with_name(path.stem + SCHEMA_ENDING)
    write_schema(schema, schema_path)
    return path, schema_path


def start_from_network(
    network: AdditiveNetwork, schema: Schema, individuals: Floats
) -> tuple[FeatureEncoding, list[tuple[Floats, Floats]]]:
    """Compute an encoding of a network's inputs, and its layers over this encoding, with a single logit.

    Numbers, and categories with a single input, are standardised with the training set, since one learning rate does
    not suit inputs of different scales.

    Args:
        network: Network with two labels.
        schema: Schema of the training set, with the attributes of the network.
        individuals: Training set, shape (n, attributes).

    Raises:
        OptionError: The network has different attributes, more than two labels, or numbers that enter through bins.
    """
    if network.schema.names != schema.names:
        raise OptionError("the network to start from has different attributes", location=network.name)
    if not can_start_from(network):
        raise OptionError(
            "this network cannot be trained further: expected two labels, and numbers that enter linearly",
            location=network.name,
        )
    plain, layers = plain_dense_layers(network)
    weights, bias = layers[0]
    blocks, rows = [], []
    row = start = 0
    for i, attribute in enumerate(plain.attributes):
        part = weights[row : row + attribute.width]
        row += attribute.width
        if attribute.width > 1 or attribute.encoding == "one-hot":
            block = FeatureBlock(start, attribute.width)
        else:
            codes, inputs = None, individuals[:, i]
            if attribute.is_discrete:
                codes = attribute.inputs(attribute.domain())[:, 0]
                inputs = codes[inputs.astype(np.int64)]
            else:
                # x = intercept + slope e, so w x = (w slope) e + w intercept.
                slope, intercept = plain_line(attribute)
                bias = bias + part[0] * intercept
                part = part * slope
            # e = offset + scale z, where z is standardised.
            offset, scale = float(inputs.mean()), float(inputs.std()) or 1.0
            bias = bias + part[0] * offset
            part = part * scale
            block = FeatureBlock(start, 1, offset, scale, None if codes is None else tuple(map(float, codes)))
        blocks.append(block)
        rows.append(part)
        start += block.width
    layers[0] = np.concatenate(rows), bias
    weight, shift = layers[-1]
    if weight.shape[1] == 1:
        sign = 1.0 if network.favourable == 1 else -1.0
        layers[-1] = sign * weight, sign * shift
    else:
        yes, no = network.favourable, 1 - network.favourable
        layers[-1] = weight[:, [yes]] - weight[:, [no]], shift[[yes]] - shift[[no]]
    return FeatureEncoding(schema, tuple(blocks)), layers


def can_start_from(network: AdditiveNetwork) -> bool:
    """Check whether a network has two labels, linear numbers and tabulated categories."""
    pairs = zip(network.schema.attributes, network.parts, strict=True)
    return len(network.classes) == 2 and all(
        isinstance(part, LineTerm) or (isinstance(part, TableTerm) and attribute.is_discrete)
        for attribute, part in pairs
    )
