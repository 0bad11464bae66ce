"""Dense networks in Keras files, trained on and written back into a copy of the file: Keras itself never runs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenhand.errors import ModelError
from evenhand.mitigation.learners.dense import (
    DenseStep,
    NetworkStep,
    ReluStep,
    ScaleStep,
    TrainedNetwork,
    merge_steps,
    network_inputs,
    train_steps,
    write_npz,
)
from evenhand.mitigation.learners.learner import file_ending, target_labels
from evenhand.mitigation.split import TrainingSet
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.readers.keras_file import KerasLayer, network_from_layers, read_keras_layers
from evenhand.models.scorer import Scorer

WEIGHTS = "model.weights.h5"
"""What a ``.keras`` file, a zip, calls its weights."""


@dataclass(frozen=True)
class TrainedKeras(TrainedNetwork):
    """A network with the arrays that are new in its file, each with its place there."""

    arrays: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class KerasLearner:
    """The network in a Keras file, its dense layers trained on from their own weights (see ``dense_training``).

    Normalisations and rescalings stay as they are, and dropout does nothing. Weights are rounded to what the file
    stores, so that the model in memory is the one that is written.

    Attributes:
        given: what the file computes.
        layers: as they stand in the file.
        content: the file.
        ending: ``.h5`` or ``.keras``.
    """

    given: AdditiveNetwork
    layers: tuple[KerasLayer, ...]
    content: bytes
    ending: str

    @classmethod
    def of(cls, path: Path, given: AdditiveNetwork) -> KerasLearner:
        """From a file that was already read.

        Raises:
            ModelError: its layers are not a chain.
        """
        layers = tuple(read_keras_layers(path))
        if [layer.before for layer in layers] != [(), *((layer.key,) for layer in layers[:-1])]:
            raise ModelError(
                "only a Keras model whose layers are a chain is trained again",
                location=given.name,
                hint="say how it is trained: `fit=module:function`, called as fit(frame, labels)",
            )
        return cls(given, layers, path.read_bytes(), path.suffix.lower())

    @property
    def name(self) -> str:
        """What is trained and how, for a reader."""
        return "a dense network, trained on from its own weights"

    takes_weights: ClassVar[bool] = False

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of files that its models can be written to."""
        return (self.ending, ".npz")

    def fit(self, training_set: TrainingSet, *, seed: int) -> Scorer:
        """Return the network after some epochs on these people.

        Raises:
            ModelError: somebody has a missing value, for which the network has no input.
            MissingExtraError: PyTorch is not installed.
        """
        given = self.given
        steps = [step for layer in self.layers for step in _layer_steps(layer)]
        learnt = train_steps(
            steps,
            network_inputs(given, training_set),
            target_labels(training_set, given),
            seed=seed,
            location=given.name,
        )
        dense = iter([step for step in learnt if isinstance(step, DenseStep)])
        layers = [_replace_weights(layer, next(dense)) if layer.kind == "Dense" else layer for layer in self.layers]
        made = network_from_layers(layers, given.schema, name=given.name)
        arrays = tuple(
            (layer.places[key], array)
            for layer in layers
            if layer.kind == "Dense"
            for key, array in layer.weights.items()
        )
        return TrainedKeras(
            made.schema,
            made.parts,
            made.bias,
            made.layers,
            made.classes,
            made.favourable,
            made.name,
            dense=tuple(
                merge_steps([step for layer in layers for step in _layer_steps(layer)], width=given.schema.width)
            ),
            arrays=arrays,
        )

    def resume_from(self, scorer: Scorer) -> KerasLearner:
        """Return the same, training on from a network that it made."""
        if not isinstance(scorer, TrainedKeras):
            raise ModelError("this model was not trained from a Keras file", location=scorer.name)
        learnt = dict(scorer.arrays)
        layers = tuple(
            replace(layer, weights={key: learnt[layer.places[key]] for key in layer.weights})
            if layer.kind == "Dense"
            else layer
            for layer in self.layers
        )
        return replace(self, layers=layers)

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write one of its networks: the given file with other weights, or ``.npz``."""
        ending = file_ending(path, self.endings)
        if not isinstance(scorer, TrainedKeras):
            raise ModelError("this model was not trained from a Keras file", location=scorer.name)
        if ending == ".npz":
            write_npz(scorer.dense, path)
        else:
            path.write_bytes(_rewrite_file(self.content, scorer.arrays))
        return (path,)


def _layer_steps(layer: KerasLayer) -> list[NetworkStep]:
    """What a layer computes, apart from a sigmoid or softmax at the end; ``from_layers`` has refused other kinds."""
    config, weights = layer.config, layer.weights
    if layer.kind == "Dense":
        kernel, bias = weights["kernel"], weights["bias"] if config.get("use_bias", True) else None
        dense = DenseStep(kernel.astype(np.float64), None if bias is None else bias.astype(np.float64))
        return [dense, *_activation_steps(config.get("activation"))]
    if layer.kind in ("ReLU", "Activation"):
        return [ReluStep()] if layer.kind == "ReLU" else _activation_steps(config.get("activation"))
    if layer.kind == "BatchNormalization":
        mean = weights["moving_mean"].astype(np.float64)
        # gamma * (x - mean) / sqrt(variance + epsilon) + beta, as one factor and one shift.
        factor = 1 / np.sqrt(weights["moving_variance"].astype(np.float64) + config.get("epsilon", 1e-3))
        factor = factor * weights["gamma"] if config.get("scale", True) else factor
        shift = weights["beta"] if config.get("center", True) else 0.0
        return [ScaleStep(factor, shift - mean * factor)]
    if layer.kind == "Normalization":
        mean, variance = (
            np.asarray(weights[key] if config.get(key) is None else config[key], dtype=np.float64).reshape(-1)
            for key in ("mean", "variance")
        )
        factor = 1 / np.maximum(np.sqrt(variance), 1e-7)
        return [ScaleStep(factor, -mean * factor)]
    if layer.kind == "Rescaling":
        return [ScaleStep(np.asarray(config["scale"], np.float64), np.asarray(config.get("offset", 0.0), np.float64))]
    return []


def _activation_steps(activation: Any) -> list[NetworkStep]:
    named = activation.get("config") if isinstance(activation, dict) else activation
    return [ReluStep()] if named == "relu" else []


def _replace_weights(layer: KerasLayer, dense: DenseStep) -> KerasLayer:
    """Return a dense layer with other weights, as precise as the file stores them."""
    new = {"kernel": dense.weights} | ({} if dense.bias is None else {"bias": dense.bias})
    return replace(layer, weights={key: array.astype(layer.weights[key].dtype) for key, array in new.items()})


def _rewrite_file(content: bytes, arrays: Sequence[tuple[str, Any]]) -> bytes:
    """Return a Keras file with other weights, everything else in it as it was."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return _rewrite_hdf5(content, arrays)
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(packed, "w") as new:
        for entry in given.infolist():
            part = given.read(entry)
            new.writestr(entry, _rewrite_hdf5(part, arrays) if entry.filename == WEIGHTS else part)
    return packed.getvalue()


def _rewrite_hdf5(hdf5: bytes, arrays: Sequence[tuple[str, Any]]) -> bytes:
    import h5py

    stored = io.BytesIO(hdf5)
    with h5py.File(stored, "r+") as file:
        for place, array in arrays:
            file[place][...] = array
    return stored.getvalue()
