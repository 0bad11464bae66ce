"""Weighted sums of cells, hidden ReLU layers, and the network built from them.

A ``LinearTensor`` has the shape (n, units), and its units are affine functions of one source: the cells of the
attributes, or a hidden layer. All readers (ONNX, Keras, PyTorch, scikit-learn) build networks from these operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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


def input_units(cells: Cells) -> LinearTensor:
    """Convert a row of cells (k,) to one unit each."""
    return LinearTensor(CellFeatures(tuple(cells)), np.eye(len(cells)), np.zeros(len(cells)))


def require_units(value: Any) -> LinearTensor:
    """Check that a tensor precedes the outputs, and return it."""
    if isinstance(value, LinearTensor):
        return value
    raise NotAdditiveError("it computes with probabilities: a sigmoid or softmax is only supported at the end")


def affine(value: Any, weights: NDArray[Any], bias: NDArray[Any] | None = None) -> LinearTensor:
    """Compute ``value @ weights + bias``.

    Raises:
        NotAdditiveError: the weights are in half precision.
        ValueError: the shapes do not fit.
    """
    tensor = require_units(value)
    if weights.dtype == np.float16:
        raise NotAdditiveError("it computes in half precision")
    weights = weights.astype(np.float64)
    if weights.ndim != 2 or len(weights) != tensor.units:
        raise ValueError(f"weights of shape {weights.shape} after {tensor.units} columns")
    width = weights.shape[1]
    shift = np.broadcast_to(0.0 if bias is None else per_unit(bias, width), (width,))
    return LinearTensor(tensor.source, tensor.weights @ weights, tensor.bias @ weights + shift)


def per_unit(weights: NDArray[Any], units: int) -> Floats:
    """Convert weights that are added to units or multiply them to the shape (units,) or (1,)."""
    flat = weights.astype(np.float64).reshape(-1)
    is_row = weights.ndim < 2 or (weights.ndim == 2 and weights.shape[0] == 1)
    if not is_row or (units != 1 and len(flat) not in (1, units)):
        raise NotAdditiveError(f"expected weights for {units} units, got shape {weights.shape}")
    return flat


def scale_units(tensor: LinearTensor, factor: Floats | float, offset: Floats | float = 0.0) -> LinearTensor:
    """Compute ``tensor * factor + offset`` per unit. A single unit is repeated if ``factor`` or ``offset`` is wider."""
    factor, offset = np.asarray(factor, dtype=np.float64), np.asarray(offset, dtype=np.float64)
    bias = tensor.bias * factor + offset
    return LinearTensor(tensor.source, np.broadcast_to(tensor.weights * factor, (len(tensor.weights), len(bias))), bias)


def add_tensors(left: LinearTensor, right: LinearTensor) -> LinearTensor:
    """Add two tensors per unit. A tensor with a single unit is broadcast."""
    _require_same_source(left, right)
    bias = left.bias + right.bias
    weights = np.broadcast_to(left.weights + right.weights, (len(left.weights), len(bias)))
    return LinearTensor(left.source, weights, bias)


def join_tensors(tensors: Sequence[LinearTensor]) -> LinearTensor:
    """Concatenate the columns of tensors."""
    for tensor in tensors:
        _require_same_source(tensors[0], tensor)
    weights, bias = np.hstack([tensor.weights for tensor in tensors]), np.hstack([tensor.bias for tensor in tensors])
    return LinearTensor(tensors[0].source, weights, bias)


def _require_same_source(left: LinearTensor, right: LinearTensor) -> None:
    if left.source is not right.source:
        raise NotAdditiveError("it combines a hidden layer with an earlier one (a skip connection)")


def select_units(tensor: LinearTensor, units: Sequence[int] | slice) -> LinearTensor:
    """Select units, in the given order."""
    return LinearTensor(tensor.source, tensor.weights[:, units], tensor.bias[units])


def relu(value: Any) -> LinearTensor:
    """Compute ``max(0, value)`` as a hidden layer."""
    tensor = require_units(value)
    return LinearTensor(HiddenUnits(tensor), np.eye(tensor.units), np.zeros(tensor.units))


def clip_units(value: Any, lower: float, upper: float) -> LinearTensor:
    """Compute ``min(max(value, lower), upper)`` with hidden units, ``lower + relu(x - lower) - relu(x - upper)``."""
    tensor = require_units(value)
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


def leaky_relu(value: Any, slope: float) -> LinearTensor:
    """Compute ``relu(value) - slope * relu(-value)`` with hidden units."""
    tensor = require_units(value)
    units = join_tensors([tensor, scale_units(tensor, -1.0)])
    identity = np.eye(tensor.units)
    return LinearTensor(HiddenUnits(units), np.vstack([identity, -slope * identity]), np.zeros(tensor.units))


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
