"""A trained network as a file, and the schema that says how to read it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evenhand.errors import OptionError
from evenhand.mitigate.learners.dense import write_npz
from evenhand.mitigate.learners.saving import ending_of
from evenhand.models.additive import AdditiveNetwork, Floats, Line, Part, Steps, plain_line
from evenhand.schema import Attribute, Schema, write_yaml

ENDINGS = (".npz",)
"""Of files that networks trained here are written to."""

SCHEMA_ENDING = ".schema.yaml"


def write_network(network: AdditiveNetwork, path: Path) -> tuple[Path, ...]:
    """Write a network as ``.npz`` (W0, b0, W1, ...), which every command takes.

    Its inputs are the schema's own wherever the encoding allows it. A category whose code says too little (three
    values or more as one number) is one-hot instead; then a schema that says so is written beside it, as
    ``NAME.schema.yaml``, and the file is read with that.

    Returns:
        The files written, the network first.

    Raises:
        OptionError: the file ends in something else, or there is no such folder.
    """
    ending_of(path, ENDINGS)
    schema, layers = dense(network)
    write_npz(layers, path)
    if schema == network.schema:
        return (path,)
    described = path.with_name(path.stem + SCHEMA_ENDING)
    write_yaml(schema, described)
    return path, described


def dense(network: AdditiveNetwork) -> tuple[Schema, list[tuple[Floats, Floats]]]:
    """The layers of a network over plain inputs, and the schema whose encodings give these inputs.

    Raises:
        OptionError: a number enters by bins, which plain inputs cannot say.
    """
    bias = network.bias.copy()
    attributes, blocks = [], []
    for attribute, part in zip(network.schema.attributes, network.parts, strict=True):
        found = _block(attribute, part)
        if found is None:
            attribute = attribute.model_copy(update={"encoding": "one-hot"})
            found = _block(attribute, part)
            assert found is not None, "any table is linear in one-hot inputs"
        attributes.append(attribute)
        blocks.append(found[0])
        bias += found[1]
    rest = [(layer.weights, layer.bias) for layer in network.layers]
    schema = network.schema.model_copy(update={"attributes": tuple(attributes)})
    if schema != network.schema:
        schema = Schema.parse(schema.model_dump())  # nothing that was worked out for the other encodings remains
    return schema, [(np.concatenate(blocks), bias), *rest]


def _block(attribute: Attribute, part: Part) -> tuple[Floats, Floats] | None:
    """Weights (inputs, units) of an attribute's own inputs, and what is added to the bias; None if they cannot."""
    if isinstance(part, Steps):
        raise OptionError(f"{attribute.name!r} enters the network by bins, which a file of plain weights cannot say")
    if isinstance(part, Line):
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
