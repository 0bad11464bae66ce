"""Dense networks, trained on from the weights they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import MissingExtraError, ModelError
from evenhand.mitigation.descent import train_parameters
from evenhand.mitigation.learners.learner import file_ending, target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.models.additive.network import AdditiveNetwork, LineTerm, TableTerm, network_from_dense
from evenhand.models.blackbox.base import plain_numbers
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import AffineEncoding, Attribute


@dataclass(frozen=True)
class TrainedNetwork(AdditiveNetwork):
    """A network with the dense layers it was made of: (weights (inputs, outputs), bias (outputs,)) in order."""

    dense: tuple[tuple[Floats, Floats], ...] = ()


@dataclass(frozen=True, eq=False)
class DenseLearner:
    """The same network, trained on from its own weights (see ``dense_training``), in float64.

    Attributes:
        given: a network that takes each attribute by its encoding, as a ``.npz`` file holds it.
        layers: its dense layers.
    """

    given: AdditiveNetwork
    layers: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(cls, given: AdditiveNetwork) -> DenseLearner:
        """For a network that takes each attribute by its encoding.

        Raises:
            ModelError: it sees an attribute in another way.
        """
        return cls(given, tuple(plain_layers(given)))

    @property
    def name(self) -> str:
        """What is trained and how, for a reader."""
        return "a dense network, trained on from its own weights"

    takes_weights: ClassVar[bool] = False

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of files that its models can be written to."""
        return (".npz",)

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Return the network after some epochs on these people.

        Raises:
            ModelError: somebody has a missing value, for which the network has no input.
            MissingExtraError: PyTorch is not installed.
        """
        given = self.given
        inputs = network_inputs(given, training_set)
        steps = train_steps(
            plain_steps(self.layers), inputs, target_labels(training_set, given), seed=seed, location=given.name
        )
        return network_from_layers(given, [(step.weights, step.bias) for step in steps if isinstance(step, DenseStep)])

    def resume_from(self, scorer: Scorer) -> DenseLearner:
        """Return the same, training on from a network that it made."""
        if not isinstance(scorer, TrainedNetwork):
            raise ModelError("this network was not trained here", location=scorer.name)
        return DenseLearner(self.given, scorer.dense)

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write one of its networks as ``W0, b0, W1, b1, ...``."""
        file_ending(path, self.endings)
        if not isinstance(scorer, AdditiveNetwork):
            raise ModelError("this is not a dense network", location=scorer.name)
        write_npz(scorer.dense if isinstance(scorer, TrainedNetwork) else plain_layers(scorer), path)
        return (path,)


def network_inputs(given: Scorer, training_set: TrainingSet) -> Floats:
    """Return everybody in a training set as the numbers that a network takes, shape (n + m, inputs).

    Raises:
        ModelError: somebody has a missing value.
    """
    inputs = plain_numbers(given.schema, training_set.individuals, location=given.name)
    if np.isnan(inputs).any():
        raise ModelError(
            "somebody has a missing value, and a network has no input for that",
            location=given.name,
            hint="say `missing: drop` for the attribute in the schema",
        )
    return inputs


def network_from_layers(given: AdditiveNetwork, layers: Sequence[tuple[Floats, Floats | None]]) -> TrainedNetwork:
    """Return a network with the schema, labels and name of another, and these layers."""
    dense = tuple((weights, np.zeros(weights.shape[1]) if bias is None else bias) for weights, bias in layers)
    made = network_from_dense(
        given.schema, list(dense), classes=given.classes, favourable=given.favourable, name=given.name
    )
    return TrainedNetwork(
        made.schema, made.parts, made.bias, made.layers, made.classes, made.favourable, made.name, dense=dense
    )


def write_npz(layers: Sequence[tuple[Floats, Floats]], path: Path) -> None:
    """Write layers as ``models.npz`` reads them."""
    arrays = {f"{kind}{i}": array for i, layer in enumerate(layers) for kind, array in zip("Wb", layer, strict=True)}
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # the stubs take every keyword for a flag


def plain_layers(network: AdditiveNetwork) -> list[tuple[Floats, Floats]]:
    """(weights (inputs, outputs), bias (outputs,)) of a network that takes each attribute by its encoding.

    Raises:
        ModelError: it sees an attribute in another way than the schema says.
    """
    blocks, bias = [], network.bias
    for attribute, part in zip(network.schema.attributes, network.parts, strict=True):
        if isinstance(part, LineTerm):
            scaled = attribute.encoding if isinstance(attribute.encoding, AffineEncoding) else AffineEncoding()
            block, rest = (part.slope * scaled.scale)[None], part.intercept + part.slope * scaled.offset
        elif isinstance(part, TableTerm) and attribute.encoding == "one-hot":
            block, rest = part.rows, np.zeros(part.rows.shape[1])
        elif isinstance(part, TableTerm):
            block, rest = _fit_line(attribute.inputs(attribute.domain())[:, 0], part.rows)
            straight = attribute.inputs(attribute.domain()) @ block + rest
            if np.abs(straight - part.rows).max() > 1e-9 * max(1.0, np.abs(part.rows).max()):
                raise _encoding_error(network, attribute)
        else:
            raise _encoding_error(network, attribute)
        blocks.append(block)
        bias = bias + rest
    return [(np.concatenate(blocks), bias), *((layer.weights, layer.bias) for layer in network.layers)]


def _fit_line(seen: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Return the line through two rows of a table over the numbers seen for its values: (1, units) and (units,)."""
    differ = np.flatnonzero(seen != seen[0])
    if len(differ) == 0:
        return np.zeros((1, rows.shape[1])), rows[0]
    other = differ[0]
    slope = (rows[other] - rows[0]) / (seen[other] - seen[0])
    return slope[None], rows[0] - seen[0] * slope


def _encoding_error(network: AdditiveNetwork, attribute: Attribute) -> ModelError:
    return ModelError(
        f"the network sees {attribute.name!r} through a table of its own, and only dense layers are trained on",
        location=network.name,
        hint="train it with your own function: `fit=module:function`",
    )


# Dense layers trained on from the weights they have, whatever the scale of their inputs.


@dataclass(frozen=True, eq=False)
class DenseStep:
    """``x @ weights + bias``: trained. Weights (inputs, units), bias (units,), None where the layer has none."""

    weights: Floats
    bias: Floats | None


@dataclass(frozen=True, eq=False)
class ScaleStep:
    """``x * factor + shift``: stays as it is. Both of shape (units,) or ()."""

    factor: Floats
    shift: Floats


@dataclass(frozen=True)
class ReluStep:
    """``max(0, x)``."""


NetworkStep: TypeAlias = DenseStep | ScaleStep | ReluStep


def plain_steps(layers: Sequence[tuple[Floats, Floats]]) -> list[NetworkStep]:
    """Return dense layers (weights, bias) with ReLU between them."""
    steps: list[NetworkStep] = []
    for weights, bias in layers:
        steps += [ReluStep()] * bool(steps) + [DenseStep(weights, bias)]
    return steps


def train_steps(
    steps: Sequence[NetworkStep], inputs: Floats, labels: Integers, *, seed: int, location: str
) -> list[NetworkStep]:
    """Return the same steps, their dense layers trained (see ``descent``), in float64.

    A network may take raw codes and amounts, of which some vary a thousand times more than others. Descent then
    crawls along one and jumps along the other, so that it sees standardised inputs while it learns: their mean and
    spread are folded into the first dense layer before, and out of it afterwards.

    Args:
        steps: the network, from inputs to logits.
        inputs: shape (n, inputs).
        labels: positions among the outputs (0 and 1 where there is one), shape (n,).
        seed: the same seed gives the same weights, bit for bit.
        location: how to call the model in messages.

    Raises:
        MissingExtraError: PyTorch is not installed.
        ModelError: the weights became infinite.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to train a network") from None
    first = next(i for i, step in enumerate(steps) if isinstance(step, DenseStep))
    entry = steps[first]
    assert isinstance(entry, DenseStep), "the first dense layer was looked for"
    for step in steps[:first]:
        inputs = inputs * step.factor + step.shift if isinstance(step, ScaleStep) else np.maximum(inputs, 0)
    # Without a bias there is nowhere to put the mean: then the inputs are scaled only.
    mean = inputs.mean(axis=0) if entry.bias is not None else np.zeros(inputs.shape[1])
    spread = inputs.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    working = [_fold_scaling(entry, mean, spread), *steps[first + 1 :]]
    tensors = [[None if array is None else torch.tensor(array) for array in _step_arrays(step)] for step in working]
    trained = [
        tensor.requires_grad_()
        for step, of in zip(working, tensors, strict=True)
        for tensor in of
        if isinstance(step, DenseStep) and tensor is not None
    ]

    def run(batch: Any) -> Any:
        for step, of in zip(working, tensors, strict=True):
            if isinstance(step, DenseStep):
                batch = batch @ of[0] if of[1] is None else torch.addmm(of[1], batch, of[0])
            else:
                batch = batch * of[0] + of[1] if isinstance(step, ScaleStep) else torch.relu(batch)
        return batch

    seen = torch.as_tensor((inputs - mean) / spread)
    train_parameters(run, trained, seen, labels, probable=False, seed=seed, location=location)
    learnt: list[NetworkStep] = []
    for step, of in zip(working, tensors, strict=True):
        weights, bias = ([None if tensor is None else tensor.detach().numpy() for tensor in of] + [None, None])[:2]
        learnt.append(DenseStep(weights, bias) if isinstance(step, DenseStep) and weights is not None else step)
    head = learnt[0]
    assert isinstance(head, DenseStep), "steps stay in their order"
    return [*steps[:first], _unfold_scaling(head, mean, spread), *learnt[1:]]


def _step_arrays(step: NetworkStep) -> tuple[Floats | None, ...]:
    if isinstance(step, DenseStep):
        return step.weights, step.bias
    return (step.factor, step.shift) if isinstance(step, ScaleStep) else ()


def _fold_scaling(layer: DenseStep, mean: Floats, spread: Floats) -> DenseStep:
    """Return the layer for inputs ``(x - mean) / spread`` that gives the same as this one for ``x``."""
    bias = None if layer.bias is None else layer.bias + mean @ layer.weights
    return DenseStep(layer.weights * spread[:, None], bias)


def _unfold_scaling(layer: DenseStep, mean: Floats, spread: Floats) -> DenseStep:
    weights = layer.weights / spread[:, None]
    return DenseStep(weights, None if layer.bias is None else layer.bias - mean @ weights)


def merge_steps(steps: Sequence[NetworkStep], *, width: int) -> list[tuple[Floats, Floats]]:
    """Return the same network as dense layers (weights, bias) with ReLU between them and nothing else.

    Args:
        steps: from inputs to logits.
        width: the number of inputs.
    """
    layers: list[tuple[Floats, Floats]] = []
    weights, bias = np.eye(width), np.zeros(width)
    # Invariant: what came since the last ReLU is ``batch @ weights + bias``.
    for step in steps:
        if isinstance(step, DenseStep):
            weights, bias = weights @ step.weights, bias @ step.weights + (0.0 if step.bias is None else step.bias)
        elif isinstance(step, ScaleStep):
            weights, bias = weights * step.factor, bias * step.factor + step.shift
        else:
            layers.append((weights, bias))
            weights, bias = np.eye(len(bias)), np.zeros(len(bias))
    return [*layers, (weights, bias)]
