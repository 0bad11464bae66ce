"""Dense networks in Keras files, trained on and written back into a copy of the file: Keras itself never runs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import ModelError
from evenhand.mitigate.learners.answers import wanted
from evenhand.mitigate.learners.dense import TrainedNetwork, inputs_of, write_npz
from evenhand.mitigate.learners.dense_training import Dense, Relu, Scale, Step, merged, train
from evenhand.mitigate.learners.saving import ending_of
from evenhand.mitigate.lesson import Lesson
from evenhand.models import AdditiveNetwork, Scorer
from evenhand.models.keras_file import KerasLayer, from_layers, keras_layers

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
        """From a file that was already read."""
        return cls(given, tuple(keras_layers(path)), path.read_bytes(), path.suffix.lower())

    @property
    def name(self) -> str:
        """What is trained and how, for a reader."""
        return "a dense network, trained on from its own weights"

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of files that its models can be written to."""
        return (self.ending, ".npz")

    def fit(self, lesson: Lesson, *, seed: int) -> Scorer:
        """The network after some epochs on these people.

        Raises:
            ModelError: somebody has a missing value, for which the network has no input.
            MissingExtraError: PyTorch is not installed.
        """
        given = self.given
        steps = [step for layer in self.layers for step in _steps(layer)]
        learnt = train(steps, inputs_of(given, lesson), wanted(lesson, given), seed=seed, where=given.name)
        dense = iter([step for step in learnt if isinstance(step, Dense)])
        layers = [_with(layer, next(dense)) if layer.kind == "Dense" else layer for layer in self.layers]
        made = from_layers(layers, given.schema, name=given.name)
        arrays = tuple(
            (layer.places[key], array)
            for layer in layers
            if layer.kind == "Dense"
            for key, array in layer.weights.items()
        )
        return TrainedKeras(
            made.schema, made.parts, made.bias, made.layers, made.classes, made.favourable, made.name,
            dense=tuple(merged([step for layer in layers for step in _steps(layer)], width=given.schema.width)),
            arrays=arrays,
        )  # fmt: skip

    def onward(self, scorer: Scorer) -> KerasLearner:
        """The same, training on from a network that it made."""
        if not isinstance(scorer, TrainedKeras):
            raise ModelError("this model was not trained from a Keras file", where=scorer.name)
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
        ending = ending_of(path, self.endings)
        if not isinstance(scorer, TrainedKeras):
            raise ModelError("this model was not trained from a Keras file", where=scorer.name)
        if ending == ".npz":
            write_npz(scorer.dense, path)
        else:
            path.write_bytes(_replaced(self.content, scorer.arrays))
        return (path,)


def _steps(layer: KerasLayer) -> list[Step]:
    """What a layer computes, apart from a sigmoid or softmax at the end; ``from_layers`` has refused other kinds."""
    config, weights = layer.config, layer.weights
    if layer.kind == "Dense":
        kernel, bias = weights["kernel"], weights["bias"] if config.get("use_bias", True) else None
        dense = Dense(kernel.astype(np.float64), None if bias is None else bias.astype(np.float64))
        return [dense, *_activation(config.get("activation"))]
    if layer.kind in ("ReLU", "Activation"):
        return [Relu()] if layer.kind == "ReLU" else _activation(config.get("activation"))
    if layer.kind == "BatchNormalization":
        mean = weights["moving_mean"].astype(np.float64)
        factor = 1 / np.sqrt(weights["moving_variance"].astype(np.float64) + config.get("epsilon", 1e-3))
        factor = factor * weights["gamma"] if config.get("scale", True) else factor
        shift = weights["beta"] if config.get("center", True) else 0.0
        return [Scale(factor, shift - mean * factor)]
    if layer.kind == "Normalization":
        mean, variance = (
            np.asarray(weights[key] if config.get(key) is None else config[key], dtype=np.float64).reshape(-1)
            for key in ("mean", "variance")
        )
        factor = 1 / np.maximum(np.sqrt(variance), 1e-7)
        return [Scale(factor, -mean * factor)]
    if layer.kind == "Rescaling":
        return [Scale(np.asarray(config["scale"], np.float64), np.asarray(config.get("offset", 0.0), np.float64))]
    return []


def _activation(activation: Any) -> list[Step]:
    named = activation.get("config") if isinstance(activation, dict) else activation
    return [Relu()] if named == "relu" else []


def _with(layer: KerasLayer, dense: Dense) -> KerasLayer:
    """A dense layer with other weights, as precise as the file stores them."""
    new = {"kernel": dense.weights} | ({} if dense.bias is None else {"bias": dense.bias})
    return replace(layer, weights={key: array.astype(layer.weights[key].dtype) for key, array in new.items()})


def _replaced(content: bytes, arrays: Sequence[tuple[str, Any]]) -> bytes:
    """A Keras file with other weights, everything else in it as it was."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return _rewritten(content, arrays)
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(packed, "w") as new:
        for entry in given.infolist():
            part = given.read(entry)
            new.writestr(entry, _rewritten(part, arrays) if entry.filename == WEIGHTS else part)
    return packed.getvalue()


def _rewritten(hdf5: bytes, arrays: Sequence[tuple[str, Any]]) -> bytes:
    import h5py

    stored = io.BytesIO(hdf5)
    with h5py.File(stored, "r+") as file:
        for place, array in arrays:
            file[place][...] = array
    return stored.getvalue()
