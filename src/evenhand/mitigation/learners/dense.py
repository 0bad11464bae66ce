"""Dense networks, which are trained further from their current weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import MissingExtraError, ModelError, OptionError
from evenhand.mitigation.learners.learner import OWN_FIT, file_ending, target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.models.additive.network import (
    AdditiveNetwork,
    AttributeTerm,
    CurveTerm,
    LineTerm,
    StepTerm,
    network_from_dense,
    plain_line,
)
from evenhand.models.blackbox.base import plain_numbers
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema

SINGLE_PRECISION = 1e-5
"""Tolerance of rounding in networks that read single precision, such as those of Keras."""

EPOCHS = 10
"""Number of epochs for further training of a trained network."""

BATCH = 256
"""Rows per batch in large training sets."""

STEPS = 30
"""Minimum number of batches per epoch. Small training sets have smaller batches, but not below ``SMALLEST_BATCH``."""

SMALLEST_BATCH = 8
"""Minimum number of rows per batch."""

LEARNING_RATE = 1e-3
"""Initial learning rate of Adam. It decreases to 0 along half a cosine."""

DenseLayers: TypeAlias = Sequence[tuple[Floats, Floats]]
"""Weights (inputs, units) and bias (units,) of each layer, with ReLU between the layers."""


@dataclass(frozen=True)
class TrainedNetwork(AdditiveNetwork):
    """Network with its dense layers."""

    dense: tuple[tuple[Floats, Floats], ...] = ()


@dataclass(frozen=True, eq=False)
class DenseLearner:
    """Learner that continues to train a network from its own weights, in float64.

    Attributes:
        given: Network that reads each attribute by its encoding.
        layers: Dense layers of the network.
    """

    given: AdditiveNetwork
    layers: DenseLayers

    name: ClassVar[str] = "a dense network, trained further from its own weights"
    endings: ClassVar[tuple[str, ...]] = (".npz",)
    takes_weights: ClassVar[bool] = False

    @classmethod
    def of(cls, network: AdditiveNetwork) -> DenseLearner:
        """Create the learner of a network.

        Raises:
            ModelError: The network reads an attribute differently from its encoding.
        """
        return cls(network, tuple(plain_layers(network)))

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Train the network on a training set.

        Raises:
            ModelError: A value is missing, but the network has no input for missing values.
            MissingExtraError: PyTorch is not installed.
        """
        network = self.given
        inputs = plain_numbers(network.schema, training_set.individuals, location=network.name)
        if np.isnan(inputs).any():
            raise ModelError(
                "the training set has a missing value, but the network has no input for missing values",
                location=network.name,
                hint="set `missing: drop` for the attribute in the schema",
            )
        layers = train_layers(
            self.layers, inputs, target_labels(training_set, network), seed=seed, location=network.name
        )
        trained = network_from_dense(
            network.schema, layers, classes=network.classes, favourable=network.favourable, name=network.name
        )
        values = {part.name: getattr(trained, part.name) for part in fields(trained) if part.init}
        return TrainedNetwork(**values, dense=tuple(layers))

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write a network as ``.npz``."""
        file_ending(path, self.endings)
        assert isinstance(scorer, AdditiveNetwork), "the network was trained by this learner"
        return save_network(scorer, path)


def save_network(network: AdditiveNetwork, path: Path) -> tuple[Path, ...]:
    """Write the dense layers of a network as ``.npz``."""
    write_npz(network.dense if isinstance(network, TrainedNetwork) else plain_layers(network), path)
    return (path,)


def write_npz(layers: DenseLayers, path: Path) -> None:
    """Write layers as ``W0, b0, W1, b1, ...``."""
    arrays = {f"{kind}{i}": array for i, layer in enumerate(layers) for kind, array in zip("Wb", layer, strict=True)}
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # the stubs treat every keyword as a flag


def plain_layers(network: AdditiveNetwork) -> list[tuple[Floats, Floats]]:
    """Compute the dense layers of a network that reads each attribute by its encoding.

    Raises:
        ModelError: The network reads an attribute differently.
    """
    try:
        schema, layers = plain_dense_layers(network, SINGLE_PRECISION)
    except OptionError as error:
        raise ModelError(error.message, location=network.name, hint=OWN_FIT) from None
    for attribute, encoded in zip(network.schema.attributes, schema.attributes, strict=True):
        if encoded.encoding == "one-hot" != attribute.encoding:
            raise ModelError(
                f"expected dense layers, but the network reads {attribute.name!r} through a lookup table",
                location=network.name,
                hint=OWN_FIT,
            )
    return layers


def plain_dense_layers(
    network: AdditiveNetwork, tolerance: float = 1e-12
) -> tuple[Schema, list[tuple[Floats, Floats]]]:
    """Compute the layers of a network over plain inputs, and the schema with the encodings of these inputs.

    Args:
        network: Network.
        tolerance: Tolerance of rounding in tables that are linear in a number. Networks of Keras read single precision.

    Raises:
        OptionError: A number enters the network through bins or a curve, which plain inputs cannot express.
    """
    bias = network.bias.copy()
    attributes, blocks = [], []
    for attribute, part in zip(network.schema.attributes, network.parts, strict=True):
        if attribute.lacks_encoding:  # makes the encoding explicit for readers of the file
            attribute = attribute.model_copy(update={"encoding": "code"})
        weights = _input_weights(attribute, part, tolerance)
        if weights is None:
            attribute = attribute.model_copy(update={"encoding": "one-hot"})
            weights = _input_weights(attribute, part, tolerance)
            assert weights is not None, "any table is linear in one-hot inputs"
        attributes.append(attribute)
        blocks.append(weights[0])
        bias += weights[1]
    layers = [(layer.weights, layer.bias) for layer in network.layers]
    schema = network.schema.model_copy(update={"attributes": tuple(attributes)})
    if schema != network.schema:
        schema = Schema.parse(schema.model_dump())  # properties derived from the old encodings are dropped
    return schema, [(np.concatenate(blocks), bias), *layers]


def _input_weights(attribute: Attribute, part: AttributeTerm, tolerance: float) -> tuple[Floats, Floats] | None:
    """Compute the weights (inputs, units) of an attribute and its share of the bias. None if this is impossible."""
    if isinstance(part, StepTerm | CurveTerm):
        form = "bins" if isinstance(part, StepTerm) else "a curve"
        raise OptionError(f"{attribute.name!r} enters the network through {form}, which dense layers cannot express")
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
    offset = rows[low] - weights * numbers[low]
    # Two values always lie on a line. More values lie on a line up to rounding.
    on_line = np.allclose(numbers[:, None] * weights + offset, rows, rtol=tolerance, atol=tolerance)
    return (weights[None], offset) if on_line else None


def train_layers(
    layers: DenseLayers, inputs: Floats, labels: Integers, *, seed: int, location: str
) -> list[tuple[Floats, Floats]]:
    """Train dense layers further, in float64.

    Raw codes and amounts can differ in scale by a factor of a thousand, which slows gradient descent. The inputs are
    therefore standardised during training: their mean and spread are folded into the first layer, and removed later.

    Args:
        layers: Current layers, from inputs to logits.
        inputs: Inputs, shape (n, inputs).
        labels: Indices of the outputs (0 and 1 for a single output), shape (n,).
        seed: Random seed. Equal seeds give equal weights, bit for bit.
        location: Name of the model in messages.

    Raises:
        MissingExtraError: PyTorch is not installed.
        ModelError: The weights became infinite.
    """
    mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    weights, bias = layers[0]
    folded = [(weights * spread[:, None], bias + mean @ weights), *layers[1:]]
    with deterministic_torch(seed):
        import torch
        from torch.nn import functional

        parameters = [torch.tensor(array, requires_grad=True) for layer in folded for array in layer]
        standardised, targets = torch.as_tensor((inputs - mean) / spread), torch.as_tensor(labels)
        rng = np.random.default_rng([seed, 90])
        batches = max(1, round(len(inputs) / BATCH), min(STEPS, len(inputs) // SMALLEST_BATCH))
        optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=EPOCHS * batches)
        orders = (np.array_split(rng.permutation(len(inputs)), batches) for _ in range(EPOCHS))
        rows = (torch.as_tensor(batch) for order in orders for batch in order)

        def cross_entropy(batch: Any) -> Any:
            logits = torch.addmm(parameters[1], standardised[batch], parameters[0])
            for weight, shift in zip(parameters[2::2], parameters[3::2], strict=True):
                logits = torch.addmm(shift, torch.relu(logits), weight)
            if logits.shape[1] == 1:
                return functional.binary_cross_entropy_with_logits(logits[:, 0], targets[batch].to(logits.dtype))
            return functional.cross_entropy(logits, targets[batch])

        with torch.enable_grad():
            for _ in descend(optimiser, schedule, rows, cross_entropy):
                pass
    arrays = [parameter.detach().numpy() for parameter in parameters]
    if not all(np.isfinite(array).all() for array in arrays):
        raise ModelError(
            "training made the weights infinite",
            location=location,
            hint="scale the numbers to a moderate size with `encoding: {offset, scale}` in the schema",
        )
    weights = arrays[0] / spread[:, None]
    return [(weights, arrays[1] - mean @ weights), *zip(arrays[2::2], arrays[3::2], strict=True)]


@contextmanager
def deterministic_torch(seed: int) -> Iterator[None]:
    """Run PyTorch on one processor with deterministic operations and a fixed seed. Restore all settings afterwards.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", extra="torch", purpose="to train a network") from None
    threads = torch.get_num_threads()
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        with torch.random.fork_rng(devices=[]):  # dropout draws from the global generator
            torch.random.default_generator.manual_seed(seed)
            yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warn)
        torch.set_num_threads(threads)


def descend(optimiser: Any, schedule: Any, batches: Iterable[Any], loss: Callable[[Any], Any]) -> Iterator[None]:
    """Take one gradient step per batch, and yield after each step."""
    for batch in batches:
        optimiser.zero_grad()
        loss(batch).backward()
        optimiser.step()
        schedule.step()
        yield
