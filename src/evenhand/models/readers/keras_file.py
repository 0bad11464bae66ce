"""Keras files of dense networks as additive networks, read with h5py without Keras or TensorFlow.

Layers may join several inputs and branches, but skip connections are not supported.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError, TrustError
from evenhand.models.additive import linear, tensors
from evenhand.models.additive.cells import Values, plain_inputs
from evenhand.models.additive.network import AdditiveNetwork, check_width
from evenhand.models.additive.tensors import OutputTensor, Tensor, check_ending, network_from_outputs
from evenhand.models.outputs import OutputKind, read_outputs, reference_people
from evenhand.models.readers.onnx_signature import attribute_for_input, require_attribute
from evenhand.models.readers.reading import locate_errors
from evenhand.schema.schema import Schema

MODELS = ("Sequential", "Functional", "Model")
ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error)
OWN_CODE_HINT = "wrap it as module:function that runs Keras in your own code; it can then be audited but not certified"
SAVED_ORDER = {
    "Dense": ("kernel", "bias"),
    "BatchNormalization": ("gamma", "beta", "moving_mean", "moving_variance"),
    "Normalization": ("mean", "variance", "count"),
}
"""Order of the weights of a layer in the ``.keras`` format."""


@dataclass(frozen=True)
class KerasLayer:
    """A layer in a file.

    Attributes:
        path: Names of the enclosing models, then of the layer.
        kind: Its class.
        config: Its settings.
        before: Keys of its input layers, in order. Empty for an input of the model.
        weights: Its arrays by their names in Keras, e.g. ``kernel``.
    """

    path: tuple[str, ...]
    kind: str
    config: dict[str, Any]
    before: tuple[str, ...]
    weights: dict[str, Values] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name in its model."""
        return self.path[-1]

    @property
    def key(self) -> str:
        """Unique key in the file."""
        return "/".join(self.path)


def read_keras(
    path: str | Path, schema: Schema, *, data: Any = None, output: OutputKind | None = None
) -> AdditiveNetwork:
    """Read a whole model saved by Keras 2 or 3, ``.keras`` or ``.h5``, as an additive network.

    Its inputs are encoded attributes: one tensor (n, inputs), or one tensor per attribute, matched by name. If no input
    has an attribute's name, inputs follow the order of the schema's columns. A single output refers to the favourable
    label; several outputs follow the order of the target's labels. Whether outputs are probabilities is inferred from
    their values (see ``evenhand.models.outputs``).

    Dense, ReLU, Activation, Softmax, Flatten, Reshape, Dropout, BatchNormalization, Normalization, Rescaling,
    Concatenate and Add layers are supported, with relu between layers and sigmoid or softmax at the end.

    Args:
        path: The file.
        schema: Schema of the inputs.
        data: Data frame used with the schema's domain to inspect the outputs.
        output: Meaning of the outputs. If None, it is inferred from their values.

    Raises:
        ModelError: the file cannot be read, its inputs or outputs do not fit the schema, or the meaning of its outputs
            is ambiguous.
        NotAdditiveError: a layer is not supported; the message names it.
        TrustError: a layer is a Lambda, which is code inside the file.
        MissingExtraError: h5py is not installed.
    """
    name = Path(path).name
    layers = read_keras_layers(path)
    values: dict[str, Tensor] = dict(_enter_inputs(layers, schema, name))
    for layer in layers:
        inputs = [values[key] for key in layer.before] or [values[layer.key]]
        with locate_errors(f"layer {layer.name!r} ({layer.kind})", location=name, hint=OWN_CODE_HINT):
            values[layer.key] = _apply_layer(layer, inputs)
    last = values[layers[-1].key]
    network = network_from_outputs([last], schema, name=name)
    people = reference_people(schema, data)
    outputs = (
        network.scores(people.individuals) if isinstance(last, OutputTensor) else network.logits(people.individuals)
    )
    is_single = len(network.classes) == 2 and (network.layers[-1] if network.layers else network).bias.shape == (1,)
    outputs = outputs[:, -1:] if is_single else outputs
    reading = read_outputs(outputs, people.truth, network.classes, 1, network.favourable, stated=output, location=name)
    check_ending(last, reading.kind, name=name)
    return replace(network, caution=reading.describe(network.classes[1]) if is_single else "")


def read_keras_layers(path: str | Path) -> list[KerasLayer]:
    """Read the layers of a whole model in computation order.

    Raises:
        ModelError: the file is missing, damaged or not a whole model.
        NotAdditiveError: a layer is used more than once, or the file does not describe the model's computation.
        TrustError: a layer is defined by code in the file.
        MissingExtraError: h5py is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py", extra="keras", purpose="to read a Keras file") from None
    name = Path(path).name
    try:
        return _read_archive(Path(path), name) if zipfile.is_zipfile(path) else _read_hdf5(h5py.File(path, "r"), name)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, *ARCHIVE_ERRORS) as error:
        if isinstance(error, ModelError | TrustError):
            raise
        raise ModelError(f"the file is not a Keras model, or it is truncated ({error})", location=name) from None


def _enter_inputs(layers: Sequence[KerasLayer], schema: Schema, name: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the key and the columns of each input of the model."""
    inputs = [layer for layer in layers if not layer.before]
    columns = linear.input_units(plain_inputs(schema, np.float32))
    attributes = [attribute_for_input(layer.name, schema) for layer in inputs]
    if len(inputs) == 1 and attributes[0] is None:
        first = next((layer for layer in layers if layer.kind == "Dense"), None)
        kernel = first.weights.get("kernel") if first is not None else None
        if kernel is not None and kernel.ndim == 2 and all(layer.kind != "Concatenate" for layer in layers):
            check_width(len(kernel), schema, location=name)
        yield inputs[0].key, columns
        return
    start = 0
    if not any(attributes):
        check_width(sum(map(_input_width, inputs)), schema, location=name)
    for layer in inputs:
        width = _input_width(layer)
        if any(attributes):
            attribute = require_attribute(layer.name, schema, location=name)
            if width != attribute.width:
                raise ModelError(
                    f"the model's input {layer.name!r} takes {width} numbers, but the attribute has {attribute.width}",
                    location=name,
                    hint="check its encoding",
                )
            start = sum(previous.width for previous in schema.attributes[: schema.position(attribute.name)])
        yield layer.key, linear.select_units(columns, slice(start, start + width))
        start += width


def _input_width(layer: KerasLayer) -> int:
    shape = layer.config.get("batch_shape") or layer.config.get("batch_input_shape") or [None]
    return int(np.prod([size or 1 for size in shape[1:]]))


def _read_hdf5(file: Any, name: str) -> list[KerasLayer]:
    """Read the layers of a whole-model HDF5 file."""
    with file:
        description = file.attrs.get("model_config")
        if description is None:
            raise ModelError(
                "this HDF5 file does not contain a whole model (weights alone do not define the connections)",
                location=name,
                hint="save the model itself: model.save('model.keras')",
            )
        groups = file["model_weights"]
        layers = []
        for layer in _list_layers(json.loads(description), name):
            folder = layer.path[0]
            arrays = _read_arrays(groups[folder]) if folder in groups else {}
            keys = {}
            for key in arrays:
                *_, owner, weight = ("", *key.split("/"))
                if len(layer.path) == 1 or owner == layer.name:
                    keys[weight.split(":")[0]] = key
            layers.append(replace(layer, weights={weight: arrays[key] for weight, key in keys.items()}))
    return layers


def _read_archive(path: Path, name: str) -> list[KerasLayer]:
    """Read the layers of a ``.keras`` file: a zip of config.json and model.weights.h5."""
    import h5py

    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read("config.json"))
        stored = io.BytesIO(archive.read("model.weights.h5"))
    folders = _storage_folders(description)
    layers = []
    with h5py.File(stored, "r") as file:
        for layer in _list_layers(description, name):
            folder = folders[layer.path]
            arrays = _read_arrays(file[folder]) if folder in file else {}
            switches = {"bias": "use_bias", "gamma": "scale", "beta": "center"}
            order = SAVED_ORDER.get(layer.kind, ())
            names = [weight for weight in order if layer.config.get(switches.get(weight, ""), True)]
            weights = {weight: arrays[str(i)] for i, weight in enumerate(names) if str(i) in arrays}
            layers.append(replace(layer, weights=weights))
    return layers


def _storage_folders(
    model: dict[str, Any], names: tuple[str, ...] = (), parent: str = ""
) -> dict[tuple[str, ...], str]:
    """Find the folder of each layer in the ``.keras`` format, named by class and number."""
    folders: dict[tuple[str, ...], str] = {}
    counts: Counter[str] = Counter()
    for layer in _layers_of(model):
        kind = _snake_case(layer["class_name"])
        path = (*names, _name_of(layer))
        folder = f"{parent}layers/{kind}_{counts[kind]}" if counts[kind] else f"{parent}layers/{kind}"
        counts[kind] += 1
        folders[path] = f"{folder}/vars"
        if layer["class_name"] in MODELS:
            folders |= _storage_folders(layer, path, f"{folder}/")
    return folders


def _snake_case(name: str) -> str:
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _read_arrays(group: Any) -> dict[str, Values]:
    arrays: dict[str, Values] = {}

    def visit(key: str, item: Any) -> None:
        if hasattr(item, "shape"):
            arrays[key] = np.asarray(item[()])

    group.visititems(visit)
    return arrays


def _layers_of(model: dict[str, Any]) -> list[dict[str, Any]]:
    config = model["config"]
    return list(config if isinstance(config, list) else config["layers"])


def _layer_kind(layer: dict[str, Any]) -> str:
    registered = layer.get("registered_name")
    if registered and ">" in registered:
        return str(registered)  # a user-defined class of any name
    is_keras = str(layer.get("module") or "keras").split(".")[0] in ("keras", "tf_keras")
    return str(layer["class_name"]) if is_keras else f"{layer['module']}.{layer['class_name']}"


def _name_of(layer: dict[str, Any]) -> str:
    return str(layer["config"].get("name", layer.get("name", layer["class_name"])))


def _list_layers(model: dict[str, Any], name: str) -> list[KerasLayer]:
    """List the layers of a model in computation order, without weights."""
    layers: list[KerasLayer] = []
    _collect_layers(model, name, (), (), layers)
    return layers


def _collect_layers(
    model: dict[str, Any], name: str, parents: tuple[str, ...], inputs: tuple[str, ...], collected: list[KerasLayer]
) -> str:
    """Add the layers of a model, or of a nested model applied to ``inputs``, and return the last key.

    Files list layers in any order, so follow the inputs, then trace references back from the output.
    """
    if model["class_name"] not in MODELS:
        raise NotAdditiveError(
            f"the model is a {model['class_name']}, whose computation is not in the file",
            location=name,
            hint=OWN_CODE_HINT,
        )
    layers, config = _layers_of(model), model["config"]

    def add(layer: dict[str, Any], before: tuple[str, ...]) -> str:
        path = (*parents, _name_of(layer))
        if layer["class_name"] in MODELS:
            return _collect_layers(layer, name, path, before, collected)
        collected.append(KerasLayer(path, _layer_kind(layer), layer["config"], before))
        return collected[-1].key

    if model["class_name"] == "Sequential":
        last = inputs
        for layer in layers:
            last = (add(layer, last),)
        return last[0]
    by_name = {layer.get("name", _name_of(layer)): layer for layer in layers}
    entries, outputs = (_referenced_layers(config[key]) for key in ("input_layers", "output_layers"))
    if len(outputs) != 1:
        raise NotAdditiveError(f"the model has {len(outputs)} outputs", location=name, hint=OWN_CODE_HINT)
    keys: dict[str, str | None] = {}

    def follow(current: str) -> str:
        if current in keys:
            finished = keys[current]
            if finished is None:
                raise ModelError(f"layer {current!r} comes before itself", location=name)
            return finished
        keys[current] = None  # placeholder until its key is known, to detect cycles
        layer = by_name[current]
        calls = layer.get("inbound_nodes", [])
        problem = None
        if _is_training(calls):
            problem = "is always in training mode: its output is random or depends on other rows"
        elif len(calls) > 1:
            problem = "is used more than once"
        if problem is not None:
            raise NotAdditiveError(
                f"layer {current!r} ({layer['class_name']}) {problem}", location=name, hint=OWN_CODE_HINT
            )
        before = tuple(follow(previous) for previous in _referenced_layers(calls))
        if not before and current in entries and inputs:
            before = (inputs[entries.index(current)],)
        key = keys[current] = add(layer, before)
        return key

    for entry in entries:
        follow(entry)
    return follow(outputs[0])


def _referenced_layers(part: Any) -> list[str]:
    """List the layers in a description of inputs or outputs, in any of the formats of Keras 2 and 3."""
    if isinstance(part, dict):
        if "keras_history" in part:
            return [str(part["keras_history"][0])]
        return [layer for inner in part.values() for layer in _referenced_layers(inner)]
    if not isinstance(part, list):
        return []
    # Keras 2 writes [layer, node, tensor].
    if len(part) >= 3 and isinstance(part[0], str) and isinstance(part[1], int):
        return [part[0]]
    return [layer for inner in part for layer in _referenced_layers(inner)]


def _is_training(part: Any) -> bool:
    """Check whether a layer is called with ``training=True``, in any of the formats of Keras 2 and 3."""
    if isinstance(part, dict):
        return part.get("training") is True or any(_is_training(inner) for inner in part.values())
    return isinstance(part, list) and any(_is_training(inner) for inner in part)


def _apply_layer(layer: KerasLayer, inputs: Sequence[Tensor]) -> Tensor:
    config, kind, value = layer.config, layer.kind, inputs[0]
    # The type is a string or a nested policy. The proofs do not cover half precision.
    if "float16" in json.dumps(config.get("dtype")):
        raise NotAdditiveError("it computes in half precision")
    if kind in ("InputLayer", "Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "ActivityRegularization"):
        return value
    if kind == "Concatenate":
        return tensors.concatenate(inputs, config.get("axis", -1))
    if kind == "Add":
        return reduce(partial(tensors.apply_arithmetic, "Add"), inputs)
    if len(inputs) > 1:
        raise NotAdditiveError("this type of layer is not supported with several inputs")
    if kind == "Flatten":
        return tensors.reshape(value, [0, -1])
    if kind == "Reshape":
        return tensors.reshape(value, [0, *config["target_shape"]])
    if kind == "Dense":
        bias = _layer_weight(layer, "bias") if config.get("use_bias", True) else None
        return _apply_activation(config.get("activation"), linear.affine(value, _layer_weight(layer, "kernel"), bias))
    if kind == "Activation":
        return _apply_activation(config.get("activation"), value)
    if kind == "ReLU":
        slope, upper = float(config.get("negative_slope") or 0), config.get("max_value")
        if config.get("threshold") or (slope and upper is not None):
            raise NotAdditiveError("it has a threshold, or both a slope and a maximum")
        if slope:
            single = "float64" not in json.dumps(config.get("dtype"))
            return linear.leaky_relu(value, float(np.float32(slope)) if single else slope)
        return linear.relu(value) if upper is None else linear.clip_units(value, 0.0, float(upper))
    if kind == "Softmax":
        return tensors.softmax(value, config.get("axis", -1))
    if kind == "BatchNormalization":
        return _apply_batch_normalization(layer, value)
    if kind == "Normalization":
        return _apply_normalization(layer, value)
    if kind == "Rescaling":
        scaled = tensors.apply_arithmetic("Mul", value, np.asarray(config["scale"], dtype=np.float32))
        return tensors.apply_arithmetic("Add", scaled, np.asarray(config.get("offset", 0.0), dtype=np.float32))
    if kind in ("Lambda", "TFOpLambda", "SlicingOpLambda"):
        raise TrustError("it contains code, which is never run", hint=OWN_CODE_HINT)
    raise NotAdditiveError("this type of layer is not supported")


def _apply_activation(activation: Any, value: Tensor) -> Tensor:
    if isinstance(activation, dict):
        if activation.get("class_name") in (None, "__lambda__"):
            raise TrustError("its activation is code, which is never run", hint=OWN_CODE_HINT)
        own = ">" in str(activation.get("registered_name"))
        activation = activation["registered_name"] if own else activation.get("config")
    if activation in (None, "linear"):
        return value
    if activation == "relu":
        return linear.relu(value)
    if activation == "sigmoid":
        return tensors.sigmoid(value)
    if activation in ("softmax", "log_softmax"):
        return tensors.softmax(value, -1)
    raise NotAdditiveError(f"the activation {activation!r} is not linear or relu, or a final sigmoid or softmax")


def _layer_weight(layer: KerasLayer, key: str) -> Values:
    if key not in layer.weights:
        raise ModelError(f"its {key} is missing from the file")
    if layer.weights[key].dtype not in (np.float32, np.float64):
        raise NotAdditiveError(f"its {key} is stored as {layer.weights[key].dtype}: floats are required")
    return layer.weights[key]


def _apply_batch_normalization(layer: KerasLayer, value: Tensor) -> Tensor:
    axis = layer.config.get("axis", -1)
    if (axis[0] if isinstance(axis, list) else axis) not in (-1, 1):
        raise NotAdditiveError("it works across rows")
    mean, variance = _layer_weight(layer, "moving_mean"), _layer_weight(layer, "moving_variance")
    scale = _layer_weight(layer, "gamma") if layer.config.get("scale", True) else None
    shift = _layer_weight(layer, "beta") if layer.config.get("center", True) else None
    return tensors.batch_normalization(value, scale, shift, mean, variance, layer.config.get("epsilon", 1e-3))


def _apply_normalization(layer: KerasLayer, value: Tensor) -> Tensor:
    if layer.config.get("invert"):
        raise NotAdditiveError("it inverts a normalization")

    def statistic(key: str) -> Values:
        number = layer.config.get(key)
        return np.asarray(_layer_weight(layer, key) if number is None else number, dtype=np.float32).reshape(-1)

    mean, variance = statistic("mean"), statistic("variance")
    spread = np.maximum(np.sqrt(variance), np.float32(1e-7))
    return tensors.apply_arithmetic("Div", tensors.apply_arithmetic("Sub", value, mean), spread)
