"""The question of a certificate for other verifiers: is anybody treated unfairly? As ONNX and VNN-LIB files.

The network of the question takes a person without protected attributes, each attribute as the number of its value (0,
1, ...), and gives the margin under every protected assignment: the decisions differ where two margins have different
signs. Verifiers take real inputs, so between two values the network interpolates: what they prove fair is fair, and
what they find unfair counts only where all inputs are whole. Format: Guidotti, Demarchi, Pulina, Tacchella: *The
VNN-LIB standard for benchmarks* (vnnlib.org).
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np

from evenhand.certification.query.question import Query, query_of
from evenhand.errors import MissingExtraError, OptionError
from evenhand.files import write_atomically
from evenhand.models import AdditiveNetwork
from evenhand.typing import Floats

NETWORK_FILE, PROPERTY_FILE = "pair.onnx", "pair.vnnlib"
OPSET = 13
NO_BEND = 1e-9
"""Changes of a slope below this part of the largest slope are none."""
WHOLE_INPUTS = "; Inputs are numbers of values; a solution counts only where all are whole."


def write_pair_question(
    network: AdditiveNetwork, folder: Path, *, protected: tuple[str, ...] | None = None
) -> tuple[Path, Path]:
    """Write the question whether anybody is treated unfairly; return the files of the network and the property.

    Weights are rounded to float32, which verifiers work with.

    Args:
        network: of two labels; all its unprotected attributes have finitely many values.
        folder: it is made unless it is there.
        protected: attributes whose joint values are compared; by default those that the schema protects.

    Raises:
        OptionError: the network gives something else, an attribute has too many values to be listed, or nothing
            protected reaches the network.
        MissingExtraError: the onnx package is not installed.
    """
    query = query_of(network, protected)
    if len(query.classes) != 2:
        raise OptionError(f"VNN-LIB files are about two labels, and {network.name} has {len(query.classes)}")
    if not query.exact:
        raise OptionError(
            "VNN-LIB files are about attributes with finitely many values", hint="describe real numbers as integers"
        )
    if query.constant:
        raise OptionError(
            f"no output of {network.name} depends on {', '.join(query.protected)}: there is nothing to ask"
        )
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / NETWORK_FILE, folder / PROPERTY_FILE
    write_atomically(files[0], _onnx_bytes(pair_layers(query)))
    write_atomically(files[1], _property_text(query, network.name))
    return files


def pair_layers(query: Query) -> list[tuple[Floats, Floats]]:
    """Return weights (inputs, outputs) and biases of the network of the question, with a ReLU between each two.

    Let c(v) be what value v of an attribute adds to the first pre-activation. In between, c(0) + sum_k (change of slope
    at k) relu(x - k) over all values k where the slope changes is linear, and at whole x it is c(x).
    """
    knots: list[tuple[int, int]] = []
    changes: list[Floats] = []
    base = np.zeros(query.biases.shape[1])
    for i, cells in enumerate(query.cells):
        values = cells.cell_contributions(np.arange(cells.count))
        base = base + values[0]
        slopes = np.diff(values, axis=0, prepend=values[:1])[1:]
        bends = np.diff(slopes, axis=0, prepend=np.zeros((1, values.shape[1])))
        # What rounding bends a line by is far below what float32 rounds.
        for at in np.flatnonzero((np.abs(bends) > NO_BEND * np.abs(slopes).max(initial=0.0)).any(axis=1)):
            knots.append((i, int(at)))
            changes.append(bends[at])
    first = np.zeros((len(query.cells), max(1, len(knots))))
    for column, (i, _) in enumerate(knots):
        first[i, column] = 1.0
    second = np.array(changes).reshape(len(knots), -1) if knots else np.zeros((1, len(base)))
    assignments = len(query.biases)
    layers = [
        (first, -np.array([at for _, at in knots] or [0], dtype=float)),
        (np.tile(second, assignments), (query.biases + base).ravel()),
    ]
    each = np.eye(assignments)
    for layer in query.layers:
        weights = np.asarray(np.kron(each, layer.weights), dtype=np.float64)
        layers.append((weights, np.tile(layer.bias, assignments)))
    return layers


def _onnx_bytes(layers: list[tuple[Floats, Floats]]) -> bytes:
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise MissingExtraError("onnx", extra="onnx", purpose="to write the network of a VNN-LIB question") from None
    nodes, weights, name = [], [], "X"
    for number, (matrix, bias) in enumerate(layers, start=1):
        if number > 1:
            nodes.append(helper.make_node("Relu", [name], [f"relu_{number}"]))
            name = f"relu_{number}"
        out = "Y" if number == len(layers) else f"layer_{number}"
        weights.append(numpy_helper.from_array(matrix.astype(np.float32), f"weights_{number}"))
        weights.append(numpy_helper.from_array(bias.astype(np.float32), f"bias_{number}"))
        nodes.append(helper.make_node("Gemm", [name, f"weights_{number}", f"bias_{number}"], [out]))
        name = out
    takes = helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, layers[0][0].shape[0]])
    gives = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, layers[-1][0].shape[1]])
    graph = helper.make_graph(nodes, "pair", [takes], [gives], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    checker.check_model(model)
    return bytes(model.SerializeToString())


def _property_text(query: Query, name: str) -> str:
    """Return the property: satisfiable if somebody's decision differs between two protected assignments."""
    lines = [f"; Does {name} decide differently about two people who differ in {', '.join(query.protected)} alone?"]
    lines.append(WHOLE_INPUTS)
    for i, cells in enumerate(query.cells):
        end = cells.count - 1
        lines.append(f"; X_{i}: {cells.attribute.name}, from {cells.words(0, 0)} to {cells.words(end, end)}")
    lines += [f"(declare-const X_{i} Real)" for i in range(len(query.cells))]
    lines += [f"(declare-const Y_{p} Real)" for p in range(len(query.biases))]
    for i, cells in enumerate(query.cells):
        lines += [f"(assert (>= X_{i} 0.0))", f"(assert (<= X_{i} {float(cells.count - 1)}))"]
    different = [f"(and (>= Y_{p} 0.0) (<= Y_{q} 0.0))" for p, q in permutations(range(len(query.biases)), 2)]
    return "\n".join([*lines, f"(assert (or {' '.join(different)}))", ""])
