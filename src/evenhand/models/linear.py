"""What follows the preprocessing: weighted sums of cells, hidden ReLU layers, and the network they make.

A ``Linear`` is a tensor of shape (n, units) whose units are affine functions of one source: the cells of the
attributes, or a hidden layer. Every importer (ONNX, Keras, PyTorch, scikit-learn) builds its network from these few
operations, so an operation has one meaning wherever a model comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive import AdditiveNetwork, Affine, Line, Part, Steps, Table
from evenhand.models.cells import Cell, Cells, Floats, Listed, Ramp, elementwise
from evenhand.schema import Attribute, Schema, Value


@dataclass(frozen=True, eq=False)
class Features:
    """The source of a first layer: cells side by side."""

    cells: tuple[Cell, ...]


@dataclass(frozen=True, eq=False)
class Hidden:
    """The source of a later layer: the ReLU of the units before."""

    inner: Linear


Source: TypeAlias = Features | Hidden


@dataclass(frozen=True, eq=False)
class Linear:
    """``source @ weights + bias``: weights (source width, units), bias (units,)."""

    source: Source
    weights: Floats
    bias: Floats

    @property
    def units(self) -> int:
        """How many columns it has."""
        return len(self.bias)


Tensor: TypeAlias = Cells | Linear


def mixed(tensor: Tensor) -> Linear:
    """A row of cells (k,) as a ``Linear``; a ``Linear`` as it is."""
    if isinstance(tensor, Linear):
        return tensor
    return affine(tensor, np.eye(len(_row(tensor))))


def affine(tensor: Tensor, weights: Floats, bias: Floats | float = 0.0) -> Linear:
    """``tensor @ weights + bias``.

    Raises:
        NotAdditiveError: the tensor is no row of numbers.
        ValueError: the shapes do not fit.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2:
        raise ValueError(f"weights of shape {weights.shape} instead of (inputs, units)")
    bias = np.broadcast_to(np.asarray(bias, dtype=np.float64), (weights.shape[1],))
    width = tensor.units if isinstance(tensor, Linear) else len(_row(tensor))
    if width != weights.shape[0]:
        raise ValueError(f"weights of shape {weights.shape} after {width} columns")
    if isinstance(tensor, Linear):
        return Linear(tensor.source, tensor.weights @ weights, tensor.bias @ weights + bias)
    return Linear(Features(tuple(tensor)), weights, np.array(bias))


def _row(cells: Cells) -> Cells:
    if cells.ndim != 1:
        raise NotAdditiveError(f"it needs a table of one row per person, and gets rows of shape {cells.shape}")
    return cells


def scale(tensor: Linear, factor: Floats | float, offset: Floats | float = 0.0) -> Linear:
    """``tensor * factor + offset``, unit by unit; one unit becomes several where ``factor`` or ``offset`` is wider."""
    factor, offset = np.asarray(factor, dtype=np.float64), np.asarray(offset, dtype=np.float64)
    bias = tensor.bias * factor + offset
    return Linear(tensor.source, np.broadcast_to(tensor.weights * factor, (len(tensor.weights), len(bias))), bias)


def add(left: Tensor, right: Tensor) -> Linear:
    """The sum of two tensors, unit by unit; one unit is added to all."""
    (a, b), units = _same_source(left, right), max(_width(left), _width(right))
    weights = np.broadcast_to(a.weights + b.weights, (len(a.weights), units))
    return Linear(a.source, weights, np.broadcast_to(a.bias + b.bias, (units,)))


def join(tensors: Sequence[Tensor]) -> Linear:
    """Tensors side by side."""
    joined = mixed(tensors[0])
    for tensor in tensors[1:]:
        a, b = _same_source(joined, tensor)
        joined = Linear(a.source, np.hstack([a.weights, b.weights]), np.concatenate([a.bias, b.bias]))
    return joined


def take(tensor: Linear, units: Sequence[int] | slice) -> Linear:
    """Some of the units, in the given order."""
    return Linear(tensor.source, tensor.weights[:, units], tensor.bias[units])


def relu(tensor: Tensor) -> Tensor:
    """``max(0, tensor)``: exact on listed cells, a hidden layer on anything that mixes attributes."""
    if isinstance(tensor, Linear):
        width = tensor.units
    elif any(isinstance(cell, Ramp) for cell in tensor.flat):
        tensor = mixed(tensor)
        width = tensor.units
    else:
        return elementwise(lambda values: np.maximum(values, values.dtype.type(0)), tensor)
    return Linear(Hidden(tensor), np.eye(width), np.zeros(width))


def _width(tensor: Tensor) -> int:
    return tensor.units if isinstance(tensor, Linear) else len(_row(tensor))


def _same_source(left: Tensor, right: Tensor) -> tuple[Linear, Linear]:
    a, b = mixed(left), mixed(right)
    if a.source is b.source:
        return a, b
    if not (isinstance(a.source, Features) and isinstance(b.source, Features)):
        raise NotAdditiveError("it brings a hidden layer together with an earlier one (a skip connection)")
    both = Features(a.source.cells + b.source.cells)
    above, below = np.zeros((len(b.weights), a.units)), np.zeros((len(a.weights), b.units))
    return Linear(both, np.vstack([a.weights, above]), a.bias), Linear(both, np.vstack([below, b.weights]), b.bias)


def network(
    schema: Schema, logits: Linear, classes: tuple[Value, ...], favourable: int, *, name: str
) -> AdditiveNetwork:
    """The additive network that computes the logits.

    Raises:
        NotAdditiveError: a number enters both by its size and by its bin.
        ModelError: weights and labels do not make a network.
    """
    with np.errstate(all="ignore"):  # what is not finite is refused by the network itself
        return _network(schema, logits, classes, favourable, name)


def _network(schema: Schema, logits: Linear, classes: tuple[Value, ...], favourable: int, name: str) -> AdditiveNetwork:
    layers: list[Affine] = []
    while isinstance(logits.source, Hidden):
        layers.insert(0, Affine(np.array(logits.weights), np.array(logits.bias)))
        logits = logits.source.inner
    cells, bias = logits.source.cells, np.array(logits.bias)
    owned: list[list[int]] = [[] for _ in schema.attributes]
    for j, cell in enumerate(cells):
        if cell.attribute is not None:
            owned[cell.attribute].append(j)
        elif isinstance(cell, Listed):
            bias += _numbers(cell)[0] * logits.weights[j]
    parts = tuple(
        _part(attribute, [cells[j] for j in owned[i]], logits.weights[owned[i]])
        for i, attribute in enumerate(schema.attributes)
    )
    return AdditiveNetwork(
        schema=schema,
        parts=parts,
        bias=bias,
        layers=tuple(layers),
        classes=classes,
        favourable=favourable,
        name=name,
    )


def _part(attribute: Attribute, cells: list[Cell], weights: Floats) -> Part:
    if not cells:
        nothing = np.zeros(weights.shape[1])
        if attribute.discrete_values:
            return Table(np.zeros((attribute.size or 0, len(nothing))), attribute.first)
        return Line(nothing, nothing)
    ramps = [(cell, w) for cell, w in zip(cells, weights, strict=True) if isinstance(cell, Ramp)]
    rows = [(cell, w) for cell, w in zip(cells, weights, strict=True) if isinstance(cell, Listed)]
    if ramps and rows:
        raise NotAdditiveError(
            f"the attribute {attribute.name!r} has too many values to list, and enters both by its size and by its bin"
        )
    if ramps:
        slopes, intercepts = (np.array([getattr(cell, k) for cell, _ in ramps]) for k in ("slope", "intercept"))
        return Line(slopes @ weights, intercepts @ weights)
    if rows[0][0].cuts is None:
        return Table(np.stack([_numbers(cell) for cell, _ in rows], axis=1) @ weights, attribute.first)
    cuts = np.unique(np.concatenate([cell.cuts for cell, _ in rows if cell.cuts is not None]))
    # The first bin has no left end: look at the values just before the first cut there.
    starts = np.concatenate([[-np.inf], cuts])
    values = [
        _numbers(cell)[np.searchsorted(cell.cuts, starts, side="right")] for cell, _ in rows if cell.cuts is not None
    ]
    return Steps(cuts, np.stack(values, axis=1) @ weights)


def _numbers(cell: Listed) -> Floats:
    if cell.values.dtype.kind not in "fiub":
        raise NotAdditiveError("words reach the weights without becoming numbers first")
    return cell.values.astype(np.float64)
