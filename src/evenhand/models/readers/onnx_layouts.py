"""ONNX tensors without people on their first axis: vectors of one person, and matrices with people on the last axis.

Every other reader takes the first axis for the people. Here, operators are applied to the rows of such a tensor, which
is possible for the operators below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive import tensors
from evenhand.models.additive.cells import Values
from evenhand.models.additive.tensors import Tensor
from evenhand.models.readers.onnx_operators import OPERATORS, OperatorNode, register_operator

ELEMENTWISE = frozenset({"Cast", "Clip", "Identity", "LeakyRelu", "Max", "Min", "Neg", "Relu", "Sigmoid"})
ARITHMETIC = frozenset({"Add", "Div", "Mul", "Sub"})


@dataclass(frozen=True, eq=False)
class ColumnTensor:
    """A tensor whose first axis holds the columns of ``rows``.

    Attributes:
        rows: the same numbers with people on the first axis.
        rank: 1 for a vector (columns,) of a single person, 2 for a matrix (columns, people).
    """

    rows: Tensor
    rank: int


def apply_to_columns(node: OperatorNode) -> Any:
    """Apply an operator that has column inputs or that converts its input to columns.

    Raises:
        NotAdditiveError: the operator is not supported for these inputs.
    """
    place, column = next((i, given) for i, given in enumerate(node.inputs) if isinstance(given, ColumnTensor))
    if node.operator in ELEMENTWISE | ARITHMETIC:
        inputs = [_as_rows(given, column.rank) for given in node.inputs]
        rows: Any = OPERATORS[node.operator](OperatorNode(node.operator, node.settings, inputs))
        return replace(column, rows=rows[0] if isinstance(rows, tuple) else rows)
    if node.operator in ("MatMul", "Gemm"):
        return _multiply(node, place, column)
    if node.operator == "Transpose":
        return column.rows if column.rank == 2 else column
    if node.operator in ("Softmax", "LogSoftmax") and node.settings.get("axis", -1) in (0, -column.rank):
        return replace(column, rows=tensors.softmax(column.rows, 1))
    if node.operator in ("Flatten", "Reshape", "Unsqueeze") and column.rank == 1:
        return _give_axis(node, column)
    raise NotAdditiveError("it cannot be read on a tensor without people on its first axis")


@register_operator("Transpose")
def _transpose(node: OperatorNode) -> Any:
    """Exchange the two axes of a table, or permute the axes after that of the people."""
    value = tensors.require_features(node.inputs[0])
    rank = value.ndim + 1 if tensors.is_cells(value) else 2
    order = list(node.settings.get("perm", range(rank)[::-1]))
    if order == [1, 0]:
        return ColumnTensor(value, 2)
    if order[:1] != [0] or not tensors.is_cells(value):
        raise NotAdditiveError("it moves the axis of the people")
    return np.transpose(value, [axis - 1 for axis in order[1:]])


def _as_rows(given: Any, rank: int) -> Any:
    """Convert an operand of columns to the operand of their rows."""
    if isinstance(given, ColumnTensor):
        if given.rank != rank:
            raise NotAdditiveError("it combines a vector and a matrix")
        return given.rows
    if given is None or given.size == 1:
        return given if given is None else given.reshape(())
    if rank == 1 and given.ndim == 1:
        return given
    if rank == 2 and given.ndim == 2 and given.shape[1] == 1:
        return given[:, 0]
    raise NotAdditiveError(f"weights of shape {given.shape} do not match the columns")


def _multiply(node: OperatorNode, place: int, column: ColumnTensor) -> Any:
    """Multiply columns with a matrix from the left, or their rows from the right."""
    settings = node.settings if node.operator == "Gemm" else {}
    if place > 1 or any(isinstance(given, ColumnTensor) for given in node.inputs[place + 1 :]):
        raise NotAdditiveError("it multiplies attributes by each other")
    weights: Values = settings.get("alpha", 1.0) * node.constant_input(1 - place)
    turned = bool(settings.get("transB" if place else "transA", 0))
    if settings.get("transA" if place else "transB", 0):
        weights = weights.T
    bias = node.weights(2)
    bias = None if bias is None else settings.get("beta", 1.0) * bias
    if place == 0 and (turned or column.rank == 1):
        product = tensors.affine(column.rows, weights, bias)
        return product if turned else replace(column, rows=product)
    if place == 1 and not turned:
        bias = None if bias is None else _as_rows(bias, column.rank)
        return replace(column, rows=tensors.affine(column.rows, weights.T, bias))
    raise NotAdditiveError("it multiplies people with each other")


def _give_axis(node: OperatorNode, column: ColumnTensor) -> Any:
    """Add the axis of people to a vector, as its first or last axis."""
    if node.operator == "Flatten":
        first = node.settings.get("axis", 1) == 0
    elif node.operator == "Unsqueeze":
        axes = list(node.setting("axes", 1, []))
        if axes not in ([0], [-2], [1], [-1]):
            raise NotAdditiveError("it inserts several axes")
        first = axes in ([0], [-2])
    else:
        shape = [int(size) for size in node.setting("shape", 1, [])]
        if len(shape) == 1:
            return column
        first = shape[0] == 1
        if len(shape) != 2 or 1 not in shape:
            raise NotAdditiveError("it folds a vector")
    return column.rows if first else replace(column, rank=2)
