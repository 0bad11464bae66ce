"""Weighted sums of cells, hidden ReLU layers, and the network built from them.

A ``LinearTensor`` has the shape (n, units), and its units are affine functions of one source: the cells of the
attributes, or a hidden layer. All readers (ONNX, Keras, PyTorch, scikit-learn) build networks from these operations, so
semantics are the same in every format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import NotAdditiveError
from evenhand.models.additive.cells import Cell, Cells, CurveCell, ListedCell, RampCell
from evenhand.models.additive.network import (
    AdditiveNetwork,
    AffineLayer,
    AttributeTerm,
    CurveTerm,
    LineTerm,
    MonotoneCurve,
    StepTerm,
    TableTerm,
)
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class CellFeatures:
    """Source of a first layer: concatenated cells."""

    cells: tuple[Cell, ...]


@dataclass(frozen=True, eq=False)
class HiddenUnits:
    """Source of a later layer: the ReLU of the previous units."""

    inner: LinearTensor


TensorSource: TypeAlias = CellFeatures | HiddenUnits


@dataclass(frozen=True, eq=False)
class LinearTensor:
    """``source @ weights + bias``: weights (source width, units), bias (units,)."""

    source: TensorSource
    weights: Floats
    bias: Floats

    @property
    def units(self) -> int:
        """Number of columns."""
        return len(self.bias)


Tensor: TypeAlias = Cells | LinearTensor


def as_linear(tensor: Tensor) -> LinearTensor:
    """Convert a row of cells (k,) to a ``LinearTensor``. A ``LinearTensor`` is returned unchanged."""
    if isinstance(tensor, LinearTensor):
        return tensor
    return affine(tensor, np.eye(len(_require_row(tensor))))


def affine(tensor: Tensor, weights: Floats, bias: Floats | float = 0.0) -> LinearTensor:
    """Compute ``tensor @ weights + bias``.

    Raises:
        NotAdditiveError: the tensor is not a row of numbers.
        ValueError: the shapes do not fit.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2:
        raise ValueError(f"expected weights of shape (inputs, units), got {weights.shape}")
    bias = np.broadcast_to(np.asarray(bias, dtype=np.float64), (weights.shape[1],))
    width = tensor.units if isinstance(tensor, LinearTensor) else len(_require_row(tensor))
    if width != weights.shape[0]:
        raise ValueError(f"weights of shape {weights.shape} after {width} columns")
    if isinstance(tensor, LinearTensor):
        return LinearTensor(tensor.source, tensor.weights @ weights, tensor.bias @ weights + bias)
    return LinearTensor(CellFeatures(tuple(tensor)), weights, np.array(bias))


def _require_row(cells: Cells) -> Cells:
    if cells.ndim != 1:
        raise NotAdditiveError(f"it expects one number per column, got rows of shape {cells.shape}")
    return cells


def scale_units(tensor: LinearTensor, factor: Floats | float, offset: Floats | float = 0.0) -> LinearTensor:
    """Compute ``tensor * factor + offset`` per unit. A single unit is repeated if ``factor`` or ``offset`` is wider."""
    factor, offset = np.asarray(factor, dtype=np.float64), np.asarray(offset, dtype=np.float64)
    bias = tensor.bias * factor + offset
    return LinearTensor(tensor.source, np.broadcast_to(tensor.weights * factor, (len(tensor.weights), len(bias))), bias)


def add_tensors(left: Tensor, right: Tensor) -> LinearTensor:
    """Add two tensors per unit. A single unit is added to all."""
    (a, b), units = _same_source(left, right), max(_tensor_width(left), _tensor_width(right))
    weights = np.broadcast_to(a.weights + b.weights, (len(a.weights), units))
    return LinearTensor(a.source, weights, np.broadcast_to(a.bias + b.bias, (units,)))


def join_tensors(tensors: Sequence[Tensor]) -> LinearTensor:
    """Concatenate the columns of tensors."""
    joined = as_linear(tensors[0])
    for tensor in tensors[1:]:
        a, b = _same_source(joined, tensor)
        joined = LinearTensor(a.source, np.hstack([a.weights, b.weights]), np.concatenate([a.bias, b.bias]))
    return joined


def select_units(tensor: LinearTensor, units: Sequence[int] | slice) -> LinearTensor:
    """Select units, in the given order."""
    return LinearTensor(tensor.source, tensor.weights[:, units], tensor.bias[units])


def relu(tensor: LinearTensor) -> LinearTensor:
    """Compute ``max(0, tensor)`` as a hidden layer."""
    return LinearTensor(HiddenUnits(tensor), np.eye(tensor.units), np.zeros(tensor.units))


def clip_units(tensor: LinearTensor, lower: float, upper: float) -> LinearTensor:
    """Compute ``min(max(tensor, lower), upper)`` with hidden units, ``lower + relu(x - lower) - relu(x - upper)``."""
    if not lower <= upper or not (np.isfinite(lower) or np.isfinite(upper)):
        raise NotAdditiveError(f"it clips to [{lower:g}, {upper:g}]")
    identity = np.eye(tensor.units)
    if not np.isfinite(lower):
        return LinearTensor(HiddenUnits(scale_units(tensor, -1.0, upper)), -identity, np.full(tensor.units, upper))
    above = scale_units(tensor, 1.0, -lower)
    if not np.isfinite(upper):
        return LinearTensor(HiddenUnits(above), identity, np.full(tensor.units, lower))
    units = join_tensors([above, scale_units(tensor, 1.0, -upper)])
    return LinearTensor(HiddenUnits(units), np.vstack([identity, -identity]), np.full(tensor.units, lower))


def leaky_relu(tensor: LinearTensor, slope: float) -> LinearTensor:
    """Compute ``relu(tensor) - slope * relu(-tensor)`` with hidden units."""
    units = join_tensors([tensor, scale_units(tensor, -1.0)])
    identity = np.eye(tensor.units)
    return LinearTensor(HiddenUnits(units), np.vstack([identity, -slope * identity]), np.zeros(tensor.units))


def _tensor_width(tensor: Tensor) -> int:
    return tensor.units if isinstance(tensor, LinearTensor) else len(_require_row(tensor))


def _same_source(left: Tensor, right: Tensor) -> tuple[LinearTensor, LinearTensor]:
    a, b = as_linear(left), as_linear(right)
    if a.source is b.source:
        return a, b
    if not (isinstance(a.source, CellFeatures) and isinstance(b.source, CellFeatures)):
        raise NotAdditiveError("it combines a hidden layer with an earlier one (a skip connection)")
    both = CellFeatures(a.source.cells + b.source.cells)
    above, below = np.zeros((len(b.weights), a.units)), np.zeros((len(a.weights), b.units))
    return LinearTensor(both, np.vstack([a.weights, above]), a.bias), LinearTensor(
        both, np.vstack([below, b.weights]), b.bias
    )


def build_network(
    schema: Schema, logits: LinearTensor, classes: tuple[Value, ...], favourable: int, *, name: str
) -> AdditiveNetwork:
    """Build the additive network that computes the logits.

    Raises:
        NotAdditiveError: a number is used both directly and binned.
        ModelError: weights and labels do not form a network.
    """
    layers: list[AffineLayer] = []
    # Walk from the outputs back to the first layer, whose inputs each depend on one attribute.
    while isinstance(logits.source, HiddenUnits):
        layers.insert(0, AffineLayer(np.array(logits.weights), np.array(logits.bias)))
        logits = logits.source.inner
    cells, bias = logits.source.cells, np.array(logits.bias)
    positions: list[list[int]] = [[] for _ in schema.attributes]
    with np.errstate(all="ignore"):  # the network rejects non-finite numbers
        for j, cell in enumerate(cells):
            if cell.attribute is not None:
                positions[cell.attribute].append(j)
            # A constant depends on no attribute and is added to the bias.
            elif isinstance(cell, ListedCell):
                bias += _cell_numbers(cell)[0] * logits.weights[j]
        parts = tuple(
            _attribute_term(attribute, [cells[j] for j in positions[i]], logits.weights[positions[i]])
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


def _attribute_term(attribute: Attribute, cells: list[Cell], weights: Floats) -> AttributeTerm:
    if not cells:
        zeros = np.zeros(weights.shape[1])
        if attribute.is_discrete:
            return TableTerm(np.zeros((attribute.size or 0, len(zeros))), attribute.first)
        return LineTerm(zeros, zeros)
    listed = [cell for cell in cells if isinstance(cell, ListedCell)]
    if 0 < len(listed) < len(cells):
        raise NotAdditiveError(
            f"the attribute {attribute.name!r} has too many values to enumerate and is used both directly and binned"
        )
    lines = [cell for cell in cells if isinstance(cell, RampCell)]
    if not listed and len(lines) < len(cells):
        return _curve_term(cells, weights)
    if lines:
        slopes, intercepts = np.array([line.slope for line in lines]), np.array([line.intercept for line in lines])
        return LineTerm(slopes @ weights, intercepts @ weights)
    if listed[0].cuts is None:
        return TableTerm(np.stack([_cell_numbers(cell) for cell in listed], axis=1) @ weights, attribute.first)
    cuts = np.unique(np.concatenate([cell.cuts for cell in listed if cell.cuts is not None]))
    # The first bin has no lower bound, so take its value just before the first cut.
    starts = np.concatenate([[-np.inf], cuts])
    values = [
        _cell_numbers(cell)[np.searchsorted(cell.cuts, starts, side="right")]
        for cell in listed
        if cell.cuts is not None
    ]
    return StepTerm(cuts, np.stack(values, axis=1) @ weights)


def _curve_term(cells: Sequence[Cell], weights: Floats) -> CurveTerm:
    curves: list[MonotoneCurve] = []
    rows: list[Floats] = []
    for cell, row in zip(cells, weights, strict=True):
        sign = -1.0 if isinstance(cell, RampCell) and cell.slope < 0 else 1.0
        rows.append(sign * row)
        if isinstance(cell, RampCell):
            curves.append(_line_curve(cell, sign))
        elif isinstance(cell, CurveCell):
            curves.append(cell.curve)
    return CurveTerm(tuple(curves), np.stack(rows))


def _line_curve(cell: RampCell, sign: float) -> MonotoneCurve:
    """Convert a line to an increasing curve, since its operations round monotonically."""

    def compute_rising(entries: Floats) -> Floats:
        return np.asarray(sign * np.asarray(cell.computed(entries), dtype=np.float64))

    return MonotoneCurve(compute_rising, cell.low, cell.high, error=0.0)


def _cell_numbers(cell: ListedCell) -> Floats:
    if cell.values.dtype.kind not in "fiub":
        raise NotAdditiveError("strings reach the weights without conversion to numbers")
    return cell.values.astype(np.float64)
