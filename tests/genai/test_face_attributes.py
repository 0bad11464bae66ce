"""The tool that converts face models: small models of every operator, and the package itself where it is at hand."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")

from support import ROOT


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("face_attributes", ROOT / "tools" / "face_attributes_to_onnx.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["face_attributes"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["face_attributes"]


# ---- every operator, against its definition


def text(word: str) -> dict[str, str]:
    return {"s": base64.b64encode(word.encode()).decode()}


def integers(*numbers: int) -> dict[str, Any]:
    return {"list": {"i": [str(number) for number in numbers]}}


def fused(*operators: str) -> dict[str, Any]:
    return {"list": {"s": [text(operator)["s"] for operator in operators]}}


NODES = [
    {"name": "shares", "op": "Softmax", "input": ["dense"]},
    {
        "name": "dense",
        "op": "_FusedMatMul",
        "input": ["mean", "matrix", "offset"],
        "attr": {"fused_ops": fused("BiasAdd")},
    },
    {"name": "mean", "op": "Mean", "input": ["padded", "axes"], "attr": {"keep_dims": {"b": False}}},
    {"name": "flat", "op": "Reshape", "input": ["padded", "shape"]},
    {"name": "padded", "op": "Pad", "input": ["pooled", "paddings"]},
    {
        "name": "pooled",
        "op": "MaxPool",
        "input": ["capped"],
        "attr": {"ksize": integers(1, 2, 2, 1), "strides": integers(1, 2, 2, 1), "padding": text("VALID")},
    },
    {"name": "capped", "op": "Minimum", "input": ["shifted", "cap"]},
    {"name": "shifted", "op": "AddV2", "input": ["scaled", "shift:0"]},
    {"name": "scaled", "op": "Mul", "input": ["deep", "factors"]},
    {
        "name": "deep",
        "op": "DepthwiseConv2dNative",
        "input": ["first", "thin"],
        "attr": {"strides": integers(1, 1, 1, 1), "padding": text("SAME")},
    },
    {
        "name": "first",
        "op": "_FusedConv2D",
        "input": ["picture", "kernel", "bias"],
        "attr": {"strides": integers(1, 2, 2, 1), "padding": text("SAME"), "fused_ops": fused("BiasAdd", "Relu")},
    },
    {"name": "picture", "op": "Placeholder"},
    *(
        {"name": name, "op": "Const"}
        for name in (
            "axes",
            "shape",
            "paddings",
            "cap",
            "shift",
            "factors",
            "thin",
            "kernel",
            "bias",
            "matrix",
            "offset",
        )
    ),
]

CONVERTED = {"uint8": (np.uint8, 0.01, -1.2), "uint16": (np.uint16, 0.0001, -2.0)}


def saved(folder: Path, weights: dict[str, np.ndarray], kinds: dict[str, str]) -> dict[str, np.ndarray]:
    """Write the model as TensorFlow.js does, in two files of weights; what the weights are once read."""
    entries, data, exact = [], b"", {}
    for name, array in weights.items():
        entry: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
        kind = kinds.get(name)
        if kind == "float16":
            entry["quantization"] = {"dtype": kind, "original_dtype": "float32"}
            data += array.astype(np.float16).tobytes()
            exact[name] = array.astype(np.float16).astype(np.float32)
        elif kind:
            dtype, scale, least = CONVERTED[kind]
            steps = np.rint((array - least) / scale).astype(dtype)
            entry["quantization"] = {"dtype": kind, "scale": scale, "min": least, "original_dtype": "float32"}
            data += steps.tobytes()
            exact[name] = (steps * np.float32(scale) + np.float32(least)).astype(np.float32)
        else:
            data += array.tobytes()
            exact[name] = array
        entries.append(entry)
    for part, start in (("a.bin", 0), ("b.bin", 101)):
        (folder / part).write_bytes(data[start:] if start else data[:101])
    manifest = [{"paths": ["a.bin", "b.bin"], "weights": entries}]
    described = {"modelTopology": {"node": NODES}, "weightsManifest": manifest}
    (folder / "model.json").write_text(json.dumps(described), "utf-8")
    return exact


def padded_same(picture: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    rows = []
    for size in picture.shape[:2]:
        lacking = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        rows.append((lacking // 2, lacking - lacking // 2))
    return np.pad(picture, [*rows, (0, 0)])


def convolved(picture: np.ndarray, kernel: np.ndarray, stride: int, *, deep: bool) -> np.ndarray:
    """By the definition, field by field."""
    size = kernel.shape[0]
    padded = padded_same(picture, size, stride)
    tall, wide = (-(-side // stride) for side in picture.shape[:2])
    fields = [
        [padded[y * stride : y * stride + size, x * stride : x * stride + size] for x in range(wide)]
        for y in range(tall)
    ]
    rule = "hwc,hwcm->cm" if deep else "hwc,hwco->o"
    return np.array([[np.einsum(rule, field, kernel).reshape(-1) for field in row] for row in fields])


def expected(picture: np.ndarray, w: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    first = np.maximum(convolved(picture, w["kernel"], 2, deep=False) + w["bias"], 0)
    deep = convolved(first, w["thin"], 1, deep=True)
    capped = np.minimum(deep * w["factors"] + w["shift"], w["cap"])
    tall, wide = (size // 2 for size in capped.shape[:2])
    pooled = capped[: 2 * tall, : 2 * wide].reshape(tall, 2, wide, 2, -1).max(axis=(1, 3))
    padded = np.pad(pooled, [(0, 0), (0, 0), (0, 2)])
    raw = padded.mean(axis=(0, 1)) @ w["matrix"] + w["offset"]
    shares = np.exp(raw - raw.max())
    return padded.reshape(1, -1, 4), shares / shares.sum()


def example(rng: np.random.Generator) -> dict[str, np.ndarray]:
    def some(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    return {
        "kernel": some(3, 3, 3, 3),
        "bias": some(3),
        "thin": some(3, 3, 3, 2),
        "factors": some(6),
        "shift": some(6),
        "cap": np.float32(0.6),
        "paddings": np.array([[0, 0], [0, 0], [0, 0], [0, 2]], np.int32),
        "axes": np.array([1, 2], np.int32),
        "shape": np.array([1, -1, 4], np.int32),
        "matrix": some(8, 5),
        "offset": some(5),
    }


def converted(tool: ModuleType, folder: Path, shape: tuple[int, ...]) -> Any:
    graph = tool.Graph()
    given = graph.add("Transpose", "picture", perm=[0, 3, 1, 2])
    nodes, weights = tool.read(folder / "model.json")
    names = tool.Converter(graph, weights, given).convert(nodes)
    ends = [onnx.helper.make_tensor_value_info(names[name], 1, None) for name in ("flat", "shares")]
    inputs = [onnx.helper.make_tensor_value_info("picture", 1, [1, *shape])]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "example", inputs, ends, graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", tool.OPSET)],
        ir_version=8,
    )
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("seed", range(4))
def test_every_operator_does_what_it_is_defined_to(tool: ModuleType, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = {"kernel": "uint8", "thin": "float16", "matrix": "uint16"}
    weights = saved(tmp_path, example(rng), kinds)
    shape = (9 + seed, 12 - seed, 3)
    picture = rng.uniform(-1, 1, shape).astype(np.float32)
    flat, shares = converted(tool, tmp_path, shape).run(None, {"picture": picture[None]})
    wanted = expected(picture, weights)
    assert flat.shape == wanted[0].shape
    np.testing.assert_allclose(flat, wanted[0], atol=1e-5)
    np.testing.assert_allclose(shares[0], wanted[1], atol=1e-5)


def test_what_is_not_known_is_refused(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, example(np.random.default_rng(0)), {})
    nodes, weights = tool.read(tmp_path / "model.json")
    for change in (
        {"op": "Conv3D"},
        {"attr": {**nodes[10]["attr"], "fused_ops": fused("Elu")}},
        {"attr": {**nodes[10]["attr"], "padding": text("EXPLICIT")}},
    ):
        with pytest.raises(tool.UnreadableError, match="is not known"):
            tool.Converter(tool.Graph(), weights, "picture").convert(
                [*nodes[:10], {**nodes[10], **change}, *nodes[11:]]
            )
    whole = (tmp_path / "b.bin").read_bytes()
    (tmp_path / "b.bin").write_bytes(whole[:-1])
    with pytest.raises(tool.UnreadableError, match="cut off"):
        tool.read(tmp_path / "model.json")
    assert tool.main([str(tmp_path), str(tmp_path / "face.onnx")]) == 2
    assert "cannot be converted" in capsys.readouterr().err
    assert not (tmp_path / "face.onnx").exists()


# ---- the package itself
