"""The network while it learns: tensors of its layers, ReLU between them, one logit at the end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.mitigation.learners.dense import write_npz
from evenhand.mitigation.learners.learner import file_ending
from evenhand.mitigation.training.encoding import FeatureBlock, FeatureEncoding
from evenhand.models.additive.network import (
    AdditiveNetwork,
    AttributeTerm,
    CurveTerm,
    LineTerm,
    StepTerm,
    TableTerm,
    plain_line,
)
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema, write_schema

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class TrainableNetwork:
    """A dense ReLU network over encoded individuals.

    Attributes:
        encoding: how individuals become features.
        layers: (weight (inputs, outputs), bias (outputs,)) of each affine layer, float32, with gradients; ReLU between
            them, the last has one output.
    """

    encoding: FeatureEncoding
    layers: list[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def fresh(cls, encoding: FeatureEncoding, hidden: Sequence[int], generator: torch.Generator) -> TrainableNetwork:
        """Return a network with random weights: uniform within one over the root of a layer's inputs."""
        sizes = [encoding.width, *hidden, 1]
        return cls(
            encoding, [random_layer(inputs, outputs, generator) for inputs, outputs in itertools.pairwise(sizes)]
        )

    @classmethod
    def of(cls, encoding: FeatureEncoding, layers: Sequence[tuple[Floats, Floats]]) -> TrainableNetwork:
        """Return a network with these weights to begin with."""
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
        """Return the features of individuals (n, attributes), shape (n, width)."""
        return self.encoding.tensor(individuals)

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """Return one number per row of features (n, width), shape (n,); positive means favourable."""
        return self.after(self.hidden_units(features, len(self.layers) - 1), len(self.layers) - 1)

    def hidden_units(self, features: torch.Tensor, depth: int) -> torch.Tensor:
        """Return what stands after so many hidden layers and their ReLU, shape (n, units); the features at depth 0."""
        import torch

        units = features
        for weight, bias in self.layers[:depth]:
            units = torch.relu(torch.addmm(bias, units, weight))
        return units

    def after(self, units: torch.Tensor, depth: int) -> torch.Tensor:
        """Return the logits, from what stands after ``depth`` hidden layers, shape (n,)."""
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


ENDINGS = (".npz",)
"""Of files that networks trained here are written to."""

SCHEMA_ENDING = ".schema.yaml"


def write_network(network: AdditiveNetwork, path: Path) -> tuple[Path, ...]:
    """Write a network as ``.npz`` (W0, b0, W1, ...), which every command takes.

    Its inputs are the schema's own wherever the encoding allows it. A category whose code says too little (three
    values or more as one number) is one-hot instead, and one without an encoding gets one. Then a schema that says so
    is written beside it, as ``NAME.schema.yaml``, and the file is read with that.

    Returns:
        The files written, the network first.

    Raises:
        OptionError: the file ends in something else, or there is no such folder.
    """
    file_ending(path, ENDINGS)
    schema, layers = plain_dense_layers(network)
    write_npz(layers, path)
    if schema == network.schema:
        return (path,)
    described = path.with_name(path.stem + SCHEMA_ENDING)
    write_schema(schema, described)
    return path, described


def plain_dense_layers(network: AdditiveNetwork) -> tuple[Schema, list[tuple[Floats, Floats]]]:
    """Return the layers of a network over plain inputs, and the schema whose encodings give these inputs.

    Raises:
        OptionError: a number enters by bins, which plain inputs cannot say.
    """
    bias = network.bias.copy()
    attributes, blocks = [], []
    for attribute, part in zip(network.schema.attributes, network.parts, strict=True):
        if attribute.lacks_encoding:  # readers of the file must not have to guess
            attribute = attribute.model_copy(update={"encoding": "code"})
        found = _input_weights(attribute, part)
        if found is None:
            attribute = attribute.model_copy(update={"encoding": "one-hot"})
            found = _input_weights(attribute, part)
            assert found is not None, "any table is linear in one-hot inputs"
        attributes.append(attribute)
        blocks.append(found[0])
        bias += found[1]
    rest = [(layer.weights, layer.bias) for layer in network.layers]
    schema = network.schema.model_copy(update={"attributes": tuple(attributes)})
    if schema != network.schema:
        schema = Schema.parse(schema.model_dump())  # nothing that was worked out for the other encodings remains
    return schema, [(np.concatenate(blocks), bias), *rest]


def _input_weights(attribute: Attribute, part: AttributeTerm) -> tuple[Floats, Floats] | None:
    """Weights (inputs, units) of an attribute's own inputs, and what is added to the bias; None if they cannot."""
    if isinstance(part, StepTerm | CurveTerm):
        how = "bins" if isinstance(part, StepTerm) else "a curve"
        raise OptionError(f"{attribute.name!r} enters the network by {how}, which a file of plain weights cannot say")
    if isinstance(part, LineTerm):
        slope, intercept = plain_line(attribute)
        return (part.slope / slope)[None], part.intercept - part.slope / slope * intercept
    rows = part.rows
    if attribute.encoding == "one-hot":
        return rows, np.zeros(rows.shape[1])
    numbers = attribute.inputs(attribute.domain())[:, 0]
    low, high = int(numbers.argmin()), int(numbers.argmax())
    if numbers[low] == numbers[high]:
        return (np.zeros((1, rows.shape[1])), rows[0]) if (rows == rows[0]).all() else None
    weights = (rows[high] - rows[low]) / (numbers[high] - numbers[low])
    rest = rows[low] - weights * numbers[low]
    # Two values are always on a line; three are if rounding alone keeps them off it.
    on_line = np.allclose(numbers[:, None] * weights + rest, rows, rtol=1e-12, atol=1e-12)
    return (weights[None], rest) if on_line else None


# A given network as something to train on from: its inputs scaled, one logit for the favourable label.

Layers = list[tuple[Floats, Floats]]


def start_from_network(network: AdditiveNetwork, schema: Schema, individuals: Floats) -> tuple[FeatureEncoding, Layers]:
    """Return the encoding of a network's own inputs, and its layers over it: together they give the network's logits.

    Numbers, and categories that the network sees as one number, are scaled by the training set, since steps of
    one size suit no inputs of many sizes. What a category's values stand for stays as it is.

    Args:
        network: of two labels.
        schema: of the training set; it has the network's attributes.
        individuals: the training set, shape (n, attributes).

    Raises:
        OptionError: the network is about others, has other labels than two, or sees a number by bins.
    """
    if network.schema.names != schema.names:
        raise OptionError("the network to start from is about other attributes", location=network.name)
    if not can_start_from(network):
        raise OptionError(
            "such a network cannot be trained on: it needs two labels, and numbers that enter along a line",
            location=network.name,
        )
    described, layers = plain_dense_layers(network)
    weights, bias = layers[0]
    blocks, rows = [], []
    row = start = 0
    for i, attribute in enumerate(described.attributes):
        own = weights[row : row + attribute.width]
        row += attribute.width
        if attribute.width > 1 or attribute.encoding == "one-hot":
            block = FeatureBlock(start, attribute.width)
        else:
            if attribute.is_discrete:
                codes = attribute.inputs(attribute.domain())[:, 0]
                seen = codes[individuals[:, i].astype(np.int64)]
            else:
                codes, seen = None, individuals[:, i]
                slope, intercept = plain_line(attribute)
                # With x = intercept + slope e, w x = (w slope) e + w intercept: the weight takes the slope, the bias
                # the rest.
                bias = bias + own[0] * intercept
                own = own * slope
            offset, scale = float(seen.mean()), float(seen.std()) or 1.0
            # The same for e = offset + scale z, so that the new network sees standardised numbers and gives the old
            # logits.
            bias = bias + own[0] * offset
            own = own * scale
            block = FeatureBlock(
                start, 1, offset, scale, None if codes is None else tuple(float(code) for code in codes)
            )
        blocks.append(block)
        rows.append(own)
        start += block.width
    layers[0] = np.concatenate(rows), bias
    last, shift = layers[-1]
    if last.shape[1] == 1:
        sign = 1.0 if network.favourable == 1 else -1.0
        layers[-1] = sign * last, sign * shift
    else:
        yes, no = network.favourable, 1 - network.favourable
        layers[-1] = last[:, [yes]] - last[:, [no]], shift[[yes]] - shift[[no]]
    return FeatureEncoding(schema, tuple(blocks)), layers


def can_start_from(network: AdditiveNetwork) -> bool:
    """Return whether it has two labels, its numbers enter along lines and its categories by tables."""
    pairs = zip(network.schema.attributes, network.parts, strict=True)
    return len(network.classes) == 2 and all(
        isinstance(part, LineTerm) or (isinstance(part, TableTerm) and attribute.is_discrete)
        for attribute, part in pairs
    )
