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

from evenhand.core.typing import Floats
from evenhand.errors import NotAdditiveError
from evenhand.models.additive.cells import (
    Cell,
    Cells,
    CurveCell,
    ListedCell,
    RampCell,
    apply_elementwise,
)
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
    """The source of a first layer: cells side by side."""

    cells: tuple[Cell, ...]


@dataclass(frozen=True, eq=False)
class HiddenUnits:
    """The source of a later layer: the ReLU of the units before."""

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
        """How many columns it has."""
        return len(self.bias)


Tensor: TypeAlias = Cells | LinearTensor


def as_linear(tensor: Tensor) -> LinearTensor:
    """Return a row of cells (k,) as a ``Linear``; a ``Linear`` as it is."""
    if isinstance(tensor, LinearTensor):
        return tensor
    return affine(tensor, np.eye(len(_require_row(tensor))))


def affine(tensor: Tensor, weights: Floats, bias: Floats | float = 0.0) -> LinearTensor:
    """``tensor @ weights + bias``.

    Raises:
        NotAdditiveError: the tensor is not a row of numbers.
        ValueError: the shapes do not fit.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2:
        raise ValueError(f"weights of shape {weights.shape} instead of (inputs, units)")
    bias = np.broadcast_to(np.asarray(bias, dtype=np.float64), (weights.shape[1],))
    width = tensor.units if isinstance(tensor, LinearTensor) else len(_require_row(tensor))
    if width != weights.shape[0]:
        raise ValueError(f"weights of shape {weights.shape} after {width} columns")
    if isinstance(tensor, LinearTensor):
        return LinearTensor(tensor.source, tensor.weights @ weights, tensor.bias @ weights + bias)
    return LinearTensor(CellFeatures(tuple(tensor)), weights, np.array(bias))


def _require_row(cells: Cells) -> Cells:
    if cells.ndim != 1:
        raise NotAdditiveError(f"it needs a table of one row per person, and gets rows of shape {cells.shape}")
    return cells


def scale_units(tensor: LinearTensor, factor: Floats | float, offset: Floats | float = 0.0) -> LinearTensor:
    """``tensor * factor + offset``, unit by unit; one unit becomes several where ``factor`` or ``offset`` is wider."""
    factor, offset = np.asarray(factor, dtype=np.float64), np.asarray(offset, dtype=np.float64)
    bias = tensor.bias * factor + offset
    return LinearTensor(tensor.source, np.broadcast_to(tensor.weights * factor, (len(tensor.weights), len(bias))), bias)


def add_tensors(left: Tensor, right: Tensor) -> LinearTensor:
    """Return the sum of two tensors, unit by unit; one unit is added to all."""
    (a, b), units = _same_source(left, right), max(_tensor_width(left), _tensor_width(right))
    weights = np.broadcast_to(a.weights + b.weights, (len(a.weights), units))
    return LinearTensor(a.source, weights, np.broadcast_to(a.bias + b.bias, (units,)))


def join_tensors(tensors: Sequence[Tensor]) -> LinearTensor:
    """Return tensors side by side."""
    joined = as_linear(tensors[0])
    for tensor in tensors[1:]:
        a, b = _same_source(joined, tensor)
        joined = LinearTensor(a.source, np.hstack([a.weights, b.weights]), np.concatenate([a.bias, b.bias]))
    return joined


def select_units(tensor: LinearTensor, units: Sequence[int] | slice) -> LinearTensor:
    """Return some of the units, in the given order."""
    return LinearTensor(tensor.source, tensor.weights[:, units], tensor.bias[units])


def relu(tensor: Tensor) -> Tensor:
    """``max(0, tensor)``: exact on listed cells, a hidden layer on anything that mixes attributes."""
    if isinstance(tensor, LinearTensor):
        width = tensor.units
    elif any(isinstance(cell, RampCell) for cell in tensor.flat):
        tensor = as_linear(tensor)
        width = tensor.units
    else:
        return apply_elementwise(lambda values: np.maximum(values, values.dtype.type(0)), tensor)
    return LinearTensor(HiddenUnits(tensor), np.eye(width), np.zeros(width))


def clip_units(tensor: LinearTensor, lower: float, upper: float) -> LinearTensor:
    """``min(max(tensor, lower), upper)`` by hidden units: ``lower + relu(x - lower) - relu(x - upper)``."""
    if not lower <= upper or not (np.isfinite(lower) or np.isfinite(upper)):
        raise NotAdditiveError(f"it clips to [{lower:g}, {upper:g}]")
    same = np.eye(tensor.units)
    if not np.isfinite(lower):
        return LinearTensor(HiddenUnits(scale_units(tensor, -1.0, upper)), -same, np.full(tensor.units, upper))
    above = scale_units(tensor, 1.0, -lower)
    if not np.isfinite(upper):
        return LinearTensor(HiddenUnits(above), same, np.full(tensor.units, lower))
    units = join_tensors([above, scale_units(tensor, 1.0, -upper)])
    return LinearTensor(HiddenUnits(units), np.vstack([same, -same]), np.full(tensor.units, lower))


def leaky_relu(tensor: LinearTensor, slope: float) -> LinearTensor:
    """``relu(tensor) - slope * relu(-tensor)`` by hidden units."""
    units = join_tensors([tensor, scale_units(tensor, -1.0)])
    same = np.eye(tensor.units)
    return LinearTensor(HiddenUnits(units), np.vstack([same, -slope * same]), np.zeros(tensor.units))


def _tensor_width(tensor: Tensor) -> int:
    return tensor.units if isinstance(tensor, LinearTensor) else len(_require_row(tensor))


def _same_source(left: Tensor, right: Tensor) -> tuple[LinearTensor, LinearTensor]:
    a, b = as_linear(left), as_linear(right)
    if a.source is b.source:
        return a, b
    if not (isinstance(a.source, CellFeatures) and isinstance(b.source, CellFeatures)):
        raise NotAdditiveError("it brings a hidden layer together with an earlier one (a skip connection)")
    both = CellFeatures(a.source.cells + b.source.cells)
    above, below = np.zeros((len(b.weights), a.units)), np.zeros((len(a.weights), b.units))
    return LinearTensor(both, np.vstack([a.weights, above]), a.bias), LinearTensor(
        both, np.vstack([below, b.weights]), b.bias
    )


def build_network(
    schema: Schema, logits: LinearTensor, classes: tuple[Value, ...], favourable: int, *, name: str
) -> AdditiveNetwork:
    """Return the additive network that computes the logits.

    Raises:
        NotAdditiveError: a number enters both by its size and by its bin.
        ModelError: weights and labels do not make a network.
    """
    with np.errstate(all="ignore"):  # what is not finite is refused by the network itself
        return _assemble_network(schema, logits, classes, favourable, name)


def _assemble_network(
    schema: Schema, logits: LinearTensor, classes: tuple[Value, ...], favourable: int, name: str
) -> AdditiveNetwork:
    layers: list[AffineLayer] = []
    # From the outputs back to the first layer, whose inputs are functions of one attribute each.
    while isinstance(logits.source, HiddenUnits):
        layers.insert(0, AffineLayer(np.array(logits.weights), np.array(logits.bias)))
        logits = logits.source.inner
    cells, bias = logits.source.cells, np.array(logits.bias)
    owned: list[list[int]] = [[] for _ in schema.attributes]
    for j, cell in enumerate(cells):
        if cell.attribute is not None:
            owned[cell.attribute].append(j)
        # A constant belongs to no attribute and goes into the bias.
        elif isinstance(cell, ListedCell):
            bias += _cell_numbers(cell)[0] * logits.weights[j]
    parts = tuple(
        _attribute_term(attribute, [cells[j] for j in owned[i]], logits.weights[owned[i]])
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
        nothing = np.zeros(weights.shape[1])
        if attribute.is_discrete:
            return TableTerm(np.zeros((attribute.size or 0, len(nothing))), attribute.first)
        return LineTerm(nothing, nothing)
    if any(isinstance(cell, CurveCell) for cell in cells):
        return _curve_term(attribute, cells, weights)
    ramps = [(cell, w) for cell, w in zip(cells, weights, strict=True) if isinstance(cell, RampCell)]
    rows = [(cell, w) for cell, w in zip(cells, weights, strict=True) if isinstance(cell, ListedCell)]
    if ramps and rows:
        raise NotAdditiveError(
            f"the attribute {attribute.name!r} has too many values to list, and enters both by its size and by its bin"
        )
    if ramps:
        slopes, intercepts = (np.array([getattr(cell, k) for cell, _ in ramps]) for k in ("slope", "intercept"))
        return LineTerm(slopes @ weights, intercepts @ weights)
    if rows[0][0].cuts is None:
        return TableTerm(np.stack([_cell_numbers(cell) for cell, _ in rows], axis=1) @ weights, attribute.first)
    cuts = np.unique(np.concatenate([cell.cuts for cell, _ in rows if cell.cuts is not None]))
    # The first bin has no left end: look at the values just before the first cut there.
    starts = np.concatenate([[-np.inf], cuts])
    values = [
        _cell_numbers(cell)[np.searchsorted(cell.cuts, starts, side="right")]
        for cell, _ in rows
        if cell.cuts is not None
    ]
    return StepTerm(cuts, np.stack(values, axis=1) @ weights)


def _curve_term(attribute: Attribute, cells: list[Cell], weights: Floats) -> CurveTerm:
    curves: list[MonotoneCurve] = []
    rows: list[Floats] = []
    for cell, row in zip(cells, weights, strict=True):
        if isinstance(cell, ListedCell):
            raise NotAdditiveError(
                f"the attribute {attribute.name!r} has too many values to list, and enters both by its size and by its "
                "bin"
            )
        sign = -1.0 if isinstance(cell, RampCell) and cell.slope < 0 else 1.0
        curves.append(cell.curve if isinstance(cell, CurveCell) else _line_curve(cell, sign))
        rows.append(sign * row)
    return CurveTerm(tuple(curves), np.stack(rows))


def _line_curve(cell: RampCell, sign: float) -> MonotoneCurve:
    """Return a line as a curve that increases: its operations are rounded monotonically."""

    def compute_rising(entries: Floats) -> Floats:
        return np.asarray(sign * np.asarray(cell.computed(entries), dtype=np.float64))

    return MonotoneCurve(compute_rising, cell.low, cell.high, error=0.0)


def _cell_numbers(cell: ListedCell) -> Floats:
    if cell.values.dtype.kind not in "fiub":
        raise NotAdditiveError("words reach the weights without becoming numbers first")
    return cell.values.astype(np.float64)
