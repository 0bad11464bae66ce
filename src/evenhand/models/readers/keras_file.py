"""Keras files of dense networks as additive networks, read with h5py alone: neither Keras nor TensorFlow runs.

Layers may join several inputs and branches, as long as no hidden layer meets an earlier one.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError, TrustError
from evenhand.models.additive import tensors
from evenhand.models.additive.answer import OutputTensor, check_ending, network_from_outputs
from evenhand.models.additive.cells import Values, plain_inputs
from evenhand.models.additive.linear import LinearTensor, as_linear
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.additive.tensors import Tensor
from evenhand.models.outputs import OutputKind, read_outputs, reference_people
from evenhand.models.readers.onnx_signature import attribute_for_input
from evenhand.models.readers.reading import check_width, locate_errors
from evenhand.schema.schema import Schema

MODELS = ("Sequential", "Functional", "Model")
OWN_CODE_HINT = (
    "offer it as module:function, so that Keras runs in your own code: then it can be audited, but not certified"
)
SAVED_ORDER = {
    "Dense": ("kernel", "bias"),
    "BatchNormalization": ("gamma", "beta", "moving_mean", "moving_variance"),
    "Normalization": ("mean", "variance", "count"),
    "Embedding": ("embeddings",),
}
"""The order in which the ``.keras`` format numbers a layer's weights."""
WIDENING = ("CategoryEncoding", "Concatenate", "Embedding")
"""Kinds of layers that give another number of columns than they take, and have no kernel."""


@dataclass(frozen=True)
class KerasLayer:
    """A layer as it stands in a file.

    Attributes:
        kind: its class.
        name: its name in the model.
        config: its settings.
        weights: its arrays by Keras's own names, e.g. ``kernel``.
        places: where each of them stands in the HDF5 file, or in the ``model.weights.h5`` of a ``.keras`` file.
        key: tells it from the other layers of the file.
        before: keys of the layers whose outputs it takes, in order; none where the model's inputs enter.
    """

    kind: str
    name: str
    config: dict[str, Any]
    weights: dict[str, Values]
    places: dict[str, str]
    key: str = ""
    before: tuple[str, ...] = ()


def read_keras(
    path: str | Path, schema: Schema, *, data: Any = None, output: OutputKind | None = None
) -> AdditiveNetwork:
    """Read a whole model saved by Keras 2 or 3, ``.keras`` or ``.h5``, as an additive network.

    It takes plain numbers, each attribute by its encoding in the schema: as one tensor (n, inputs), or as several, each
    named after its attribute; where no name is one, they hold the schema's columns in the order of the model's inputs.
    One output is of the favourable label; several are one per label of the schema's target, in its order. The values
    decide whether they are probabilities (see ``evenhand.models.outputs``).

    Dense, ReLU, Activation, Softmax, Flatten, Reshape, Dropout, BatchNormalization, Normalization, Rescaling,
    Embedding, CategoryEncoding, Concatenate and Add layers can be read, with relu between the layers and sigmoid or
    softmax at the end.

    Args:
        path: the file.
        schema: what its individuals are.
        data: data frame on which the outputs are looked at, besides the domain of the schema.
        output: meaning of its outputs; None to decide it by their values.

    Raises:
        ModelError: the file cannot be read, its inputs or outputs do not fit the schema, or the meaning of its outputs
            is open.
        NotAdditiveError: a layer is of another kind; the message names it.
        TrustError: a layer is a Lambda: code inside the file.
        MissingExtraError: h5py is not installed.
    """
    name = Path(path).name
    last = _apply_layers(read_keras_layers(path), schema, name)
    network = network_from_outputs([last], schema, name=name)
    people = reference_people(schema, data)
    outputs = (
        network.scores(people.individuals) if isinstance(last, OutputTensor) else network.logits(people.individuals)
    )
    single = len(network.classes) == 2 and (network.layers[-1].bias if network.layers else network.bias).shape == (1,)
    outputs = outputs[:, -1:] if single else outputs
    reading = read_outputs(outputs, people.truth, network.classes, 1, network.favourable, stated=output, location=name)
    check_ending(last, reading.kind, name=name)
    return replace(network, caution=reading.describe(network.classes[1]) if single else "")


def read_keras_layers(path: str | Path) -> list[KerasLayer]:
    """Return the layers of a whole model in a file, in the order of the computation.

    Raises:
        ModelError: the file is absent, damaged or holds no whole model.
        NotAdditiveError: a layer is used more than once, or what the model computes is not in the file.
        TrustError: a layer is code inside the file.
        MissingExtraError: h5py is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py", extra="keras", purpose="to read a Keras file") from None
    name = Path(path).name
    if not Path(path).is_file():
        raise ModelError("there is no such file", location=str(path))
    try:
        return _read_archive(Path(path), name) if zipfile.is_zipfile(path) else _read_hdf5(h5py.File(path, "r"), name)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        if isinstance(error, ModelError | TrustError):
            raise
        raise ModelError(f"the file is not a Keras model, or it is truncated ({error})", location=name) from None


def network_from_layers(layers: Sequence[KerasLayer], schema: Schema, *, name: str) -> AdditiveNetwork:
    """Return the network that layers in the order of their computation make; errors as ``read_keras``."""
    return network_from_outputs([_apply_layers(layers, schema, name)], schema, name=name)


def _apply_layers(layers: Sequence[KerasLayer], schema: Schema, name: str) -> LinearTensor | OutputTensor:
    """Return the output of layers in the order of their computation."""
    entered = [layer for layer in layers if not layer.before]
    values: dict[str, Tensor] = dict(_enter_inputs(entered, layers, schema, name))
    value: Tensor = np.zeros(0)
    for layer in layers:
        given = [values[key] for key in layer.before] or [values[layer.key]]
        with locate_errors(f"layer {layer.name!r} ({layer.kind})", location=name, hint=OWN_CODE_HINT):
            value = values[layer.key] = _apply_layer(layer, given)
    return value if isinstance(value, OutputTensor) else as_linear(value)


def _enter_inputs(
    entered: Sequence[KerasLayer], layers: Sequence[KerasLayer], schema: Schema, name: str
) -> Iterator[tuple[str, Tensor]]:
    """Yield what each layer is given at which an input enters.

    Raises:
        ModelError: the inputs are not those of the schema.
    """
    plain = plain_inputs(schema, np.float32)
    attributes = [attribute_for_input(layer.name, schema) for layer in entered]
    if len(entered) == 1 and attributes[0] is None:
        first = next((layer for layer in layers if layer.kind == "Dense"), None)
        kernel = first.weights.get("kernel") if first is not None else None
        if kernel is not None and kernel.ndim == 2 and not any(one.kind in WIDENING for one in layers):
            check_width(len(kernel), schema, location=name)
        yield entered[0].key, plain
        return
    widths = [_input_width(layer) for layer in entered]
    if not any(attributes):
        check_width(sum(widths), schema, location=name)
    start = 0
    for layer, attribute, width in zip(entered, attributes, widths, strict=True):
        if any(attributes):
            if attribute is None or width != attribute.width:
                problem = (
                    "is not an attribute of the schema"
                    if attribute is None
                    else (f"takes {width} numbers, and the attribute gives {attribute.width}")
                )
                raise ModelError(
                    f"the model's input {layer.name!r} {problem}",
                    location=name,
                    hint=f"the attributes are: {', '.join(schema.names)}; mind their encodings",
                )
            start = sum(one.width for one in schema.attributes[: schema.position(attribute.name)])
        yield layer.key, plain[start : start + width]
        start += width


def _input_width(layer: KerasLayer) -> int:
    """Return how many numbers an input takes of everybody."""
    shape = layer.config.get("batch_shape") or layer.config.get("batch_input_shape") or [None]
    return int(np.prod([size or 1 for size in shape[1:]]))


def _read_hdf5(file: Any, name: str) -> list[KerasLayer]:
    """Return the layers of a whole-model HDF5 file."""
    with file:
        described = file.attrs.get("model_config")
        if described is None:
            raise ModelError(
                "this HDF5 file holds no whole model (weights alone do not say how they are connected)",
                location=name,
                hint="save the model itself: model.save('model.keras')",
            )
        groups = file["model_weights"]
        layers = []
        for path, kind, config, before in _list_layers(json.loads(described), name):
            found, stands = {}, {}
            for key, data in _walk_datasets(groups[path[0]]) if path[0] in groups else ():
                parts = key.split("/")
                if len(path) == 1 or parts[-2:-1] == [path[-1]]:
                    weight = parts[-1].split(":")[0]
                    found[weight], stands[weight] = data, f"model_weights/{path[0]}/{key}"
            layers.append(KerasLayer(kind, path[-1], config, found, stands, "/".join(path), before))
    return layers


def _read_archive(path: Path, name: str) -> list[KerasLayer]:
    """Return the layers of a ``.keras`` file: a zip of config.json and model.weights.h5."""
    import h5py

    with zipfile.ZipFile(path) as archive:
        described = json.loads(archive.read("config.json"))
        stored = io.BytesIO(archive.read("model.weights.h5"))
    places = _storage_places(described, ())
    layers = []
    with h5py.File(stored, "r") as file:
        for path_in_model, kind, config, before in _list_layers(described, name):
            place = "/".join(f"layers/{part}" for part in places[path_in_model]) + "/vars"
            arrays = dict(_walk_datasets(file[place])) if place in file else {}
            names = [key for key in SAVED_ORDER.get(kind, ()) if _has_weight(config, key)]
            found = {key: arrays[str(i)] for i, key in enumerate(names) if str(i) in arrays}
            stands = {key: f"{place}/{i}" for i, key in enumerate(names) if str(i) in arrays}
            key = "/".join(path_in_model)
            layers.append(KerasLayer(kind, path_in_model[-1], config, found, stands, key, before))
    return layers


def _has_weight(config: dict[str, Any], weight: str) -> bool:
    switch = {"bias": "use_bias", "gamma": "scale", "beta": "center"}.get(weight)
    return switch is None or bool(config.get(switch, True))


def _storage_places(model: dict[str, Any], inside: tuple[str, ...]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return where the ``.keras`` format keeps each layer: by class and number, not by name."""
    places: dict[tuple[str, ...], tuple[str, ...]] = {}

    def number(model: dict[str, Any], names: tuple[str, ...], saved: tuple[str, ...]) -> None:
        seen: Counter[str] = Counter()
        for layer in _layers_of(model):
            snake = _snake_case(layer["class_name"])
            here = (*names, _name_of(layer))
            places[here] = (*saved, f"{snake}_{seen[snake]}" if seen[snake] else snake)
            seen[snake] += 1
            if layer["class_name"] in MODELS:
                number(layer, here, places[here])

    number(model, inside, inside)
    return places


def _snake_case(name: str) -> str:
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _walk_datasets(group: Any) -> Iterator[tuple[str, Values]]:
    found: list[tuple[str, Values]] = []

    def visit(key: str, item: Any) -> None:
        if hasattr(item, "shape"):
            found.append((key, np.asarray(item[()])))

    group.visititems(visit)
    yield from found


def _layers_of(model: dict[str, Any]) -> list[dict[str, Any]]:
    config = model["config"]
    return list(config if isinstance(config, list) else config["layers"])


def _layer_kind(layer: dict[str, Any]) -> str:
    registered = layer.get("registered_name")
    if registered and ">" in registered:
        return str(registered)  # a class of the user's own, whatever it is called
    own = str(layer.get("module") or "keras").split(".")[0] not in ("keras", "tf_keras")
    return f"{layer['module']}.{layer['class_name']}" if own else str(layer["class_name"])


def _name_of(layer: dict[str, Any]) -> str:
    return str(layer["config"].get("name", layer.get("name", layer["class_name"])))


LayerEntry: TypeAlias = tuple[tuple[str, ...], str, dict[str, Any], tuple[str, ...]]
"""A layer in a file: path of names, class, settings, and the keys of the layers before it."""


def _list_layers(model: dict[str, Any], name: str) -> list[LayerEntry]:
    """Return every layer of a model in a file, in the order of the computation."""
    found: list[LayerEntry] = []
    _collect_layers(model, name, (), (), found)
    return found


def _collect_layers(
    model: dict[str, Any], name: str, inside: tuple[str, ...], given: tuple[str, ...], found: list[LayerEntry]
) -> str:
    """Add the layers of a model, or of a model inside it, which takes the outputs of ``given``; the key of the last.

    Layers are followed from the inputs, then from the output back along their own references: files list them in any
    order.
    """
    if model["class_name"] not in MODELS:
        raise NotAdditiveError(
            f"the model is a {model['class_name']}, whose computation is not in the file",
            location=name,
            hint=OWN_CODE_HINT,
        )
    layers, config = _layers_of(model), model["config"]

    def add(layer: dict[str, Any], before: tuple[str, ...]) -> str:
        path = (*inside, _name_of(layer))
        if layer["class_name"] in MODELS:
            return _collect_layers(layer, name, path, before, found)
        found.append((path, _layer_kind(layer), layer["config"], before))
        return "/".join(path)

    if model["class_name"] == "Sequential":
        last = given
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
            known = keys[current]
            if known is None:
                raise ModelError(f"layer {current!r} comes before itself", location=name)
            return known
        # Under way: a layer that is met again before it is done comes before itself.
        keys[current] = None
        layer = by_name[current]
        nodes = layer.get("inbound_nodes", [])
        problem = None
        if _is_training(nodes):
            problem = "is always in training mode: what it answers is random, or depends on who else is asked about"
        elif len(nodes) > 1:
            problem = "is used more than once"
        if problem is not None:
            raise NotAdditiveError(
                f"layer {current!r} ({layer['class_name']}) {problem}", location=name, hint=OWN_CODE_HINT
            )
        before = tuple(follow(one) for one in _referenced_layers(nodes))
        if not before and current in entries and given:
            before = (given[entries.index(current)],)
        key = keys[current] = add(layer, before)
        return key

    for entry in entries:
        follow(entry)
    return follow(outputs[0])


def _referenced_layers(described: Any) -> list[str]:
    """Return the layers that a description of inputs or outputs refers to, in any of the formats of Keras 2 and 3."""
    if isinstance(described, dict):
        if "keras_history" in described:
            return [str(described["keras_history"][0])]
        return [found for part in described.values() for found in _referenced_layers(part)]
    if not isinstance(described, list):
        return []
    # Keras 2 writes [layer, node, tensor].
    if len(described) >= 3 and isinstance(described[0], str) and isinstance(described[1], int):
        return [described[0]]
    return [found for part in described for found in _referenced_layers(part)]


def _is_training(described: Any) -> bool:
    """Return whether a layer is called with ``training=True``, in any of the formats of Keras 2 and 3."""
    if isinstance(described, dict):
        return described.get("training") is True or any(_is_training(part) for part in described.values())
    return isinstance(described, list) and any(_is_training(part) for part in described)


def _apply_layer(layer: KerasLayer, given: Sequence[Tensor]) -> Tensor:
    config, kind, value = layer.config, layer.kind, given[0]
    # The type is a word or a nested policy; in half precision the layer rounds more than is accounted for.
    if "float16" in json.dumps(config.get("dtype")):
        raise NotAdditiveError("it computes in half precision")
    if kind in ("InputLayer", "Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "ActivityRegularization"):
        return value
    if kind == "Concatenate":
        return tensors.concatenate(given, config.get("axis", -1))
    if kind == "Add":
        return reduce(partial(tensors.apply_arithmetic, "Add"), given)
    if len(given) > 1:
        raise NotAdditiveError("this kind of layer is not read where it joins several")
    if kind == "Flatten":
        return tensors.reshape(value, [0, -1])
    if kind == "Reshape":
        return tensors.reshape(value, [0, *config["target_shape"]])
    if kind == "Embedding":
        return tensors.lookup_rows(_layer_weight(layer, "embeddings"), value)
    if kind == "CategoryEncoding" and config.get("output_mode") == "one_hot":
        on, off = np.ones((), np.float32), np.zeros((), np.float32)
        return tensors.reshape(tensors.one_hot(value, int(config["num_tokens"]), off, on), [0, -1])
    if kind == "Dense":
        bias = _layer_weight(layer, "bias") if config.get("use_bias", True) else None
        return _apply_activation(config.get("activation"), tensors.affine(value, _layer_weight(layer, "kernel"), bias))
    if kind == "Activation":
        return _apply_activation(config.get("activation"), value)
    if kind == "ReLU":
        slope, most = float(config.get("negative_slope") or 0), config.get("max_value")
        if config.get("threshold") or (slope and most is not None):
            raise NotAdditiveError("it has a threshold, or both a slope and a maximum")
        if slope:
            single = "float64" not in json.dumps(config.get("dtype"))
            return tensors.leaky_relu(value, float(np.float32(slope)) if single else slope)
        return tensors.relu(value) if most is None else tensors.clip_tensor(value, 0.0, float(most))
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
        raise TrustError(
            "it is code inside the file, which is never run here",
            hint=OWN_CODE_HINT,
        )
    raise NotAdditiveError("this kind of layer cannot be read")


def _apply_activation(activation: Any, value: Tensor) -> Tensor:
    if isinstance(activation, dict):
        if activation.get("class_name") in (None, "__lambda__"):
            raise TrustError("its activation is code inside the file, which is never run here", hint=OWN_CODE_HINT)
        own = ">" in str(activation.get("registered_name"))
        activation = activation["registered_name"] if own else activation.get("config")
    if activation in (None, "linear"):
        return value
    if activation == "relu":
        return tensors.relu(value)
    if activation == "sigmoid":
        return tensors.sigmoid(value)
    if activation in ("softmax", "log_softmax"):
        return tensors.softmax(value, -1)
    raise NotAdditiveError(
        f"the activation {activation!r} is neither linear nor relu, nor a sigmoid or softmax at the end"
    )


def _layer_weight(layer: KerasLayer, key: str) -> Values:
    if key not in layer.weights:
        raise ModelError(f"its {key} is missing in the file")
    if layer.weights[key].dtype not in (np.float32, np.float64):
        raise NotAdditiveError(
            f"its {key} is stored as {layer.weights[key].dtype}: the model does not compute in floats"
        )
    return layer.weights[key]


def _apply_batch_normalization(layer: KerasLayer, value: Tensor) -> Tensor:
    axis = layer.config.get("axis", -1)
    if (axis[0] if isinstance(axis, list) else axis) not in (-1, 1):
        raise NotAdditiveError("it works across people")
    mean, variance = _layer_weight(layer, "moving_mean"), _layer_weight(layer, "moving_variance")
    scale = _layer_weight(layer, "gamma") if layer.config.get("scale", True) else np.ones(len(mean))
    shift = _layer_weight(layer, "beta") if layer.config.get("center", True) else np.zeros(len(mean))
    return tensors.batch_normalization(value, scale, shift, mean, variance, layer.config.get("epsilon", 1e-3))


def _apply_normalization(layer: KerasLayer, value: Tensor) -> Tensor:
    if layer.config.get("invert"):
        raise NotAdditiveError("it undoes a normalization")
    given = [layer.config.get(key) for key in ("mean", "variance")]
    mean, variance = (
        np.asarray(_layer_weight(layer, key) if number is None else number, dtype=np.float32).reshape(-1)
        for key, number in zip(("mean", "variance"), given, strict=True)
    )
    spread = np.maximum(np.sqrt(variance), np.float32(1e-7))
    return tensors.apply_arithmetic("Div", tensors.apply_arithmetic("Sub", value, mean), spread)
