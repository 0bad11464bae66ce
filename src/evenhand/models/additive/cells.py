"""Cells: values that depend on a single attribute, computed exactly as the model's preprocessing computes them.

Before attributes are combined, every column of a model is a function of a single attribute. A *cell* is such a
function: a value for each entry of a finite domain or, for a numeric column with too many values to enumerate, bins, a
straight line or a monotone curve. A table of shape (n, columns) becomes an array of cells of shape (columns,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import NotAdditiveError
from evenhand.models.additive.network import MonotoneCurve, plain_line
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema

Values: TypeAlias = NDArray[Any]

MAX_LISTED = 4096
"""Maximum number of values of an integer attribute that is enumerated. Above it, the cell is a line or bins."""


@dataclass(frozen=True, eq=False)
class ListedCell:
    """One value for each entry of a finite domain or each bin of a numeric attribute. A constant has a single value.

    Attributes:
        attribute: Position in the schema, None for a constant.
        values: Values in the model's dtype, shape (domain size,), (bins,) or (1,).
        cuts: Cuts between the bins of a numeric attribute, shape (bins - 1,); bin i is
            ``cuts[i-1] <= entry < cuts[i]``.
    """

    attribute: int | None
    values: Values
    cuts: Floats | None = None


@dataclass(frozen=True, eq=False)
class RampCell:
    """``slope * entry + intercept`` for a number from ``low`` to ``high`` with too many values to enumerate.

    Attributes:
        computed: Function evaluated in the model's dtype and rounding, entries (n,) -> (n,). Monotone.
    """

    attribute: int
    slope: float
    intercept: float
    low: float
    high: float
    computed: Callable[[Floats], Values]


@dataclass(frozen=True, eq=False)
class CurveCell:
    """Nonlinear increasing function of a number with too many values to enumerate, such as its logarithm."""

    attribute: int
    curve: MonotoneCurve


@dataclass(frozen=True, eq=False)
class PassthroughCell:
    """Column passed to the model unchanged from the data, without a domain for proofs."""

    name: str


Cell: TypeAlias = ListedCell | RampCell | CurveCell
Cells: TypeAlias = NDArray[Any]
"""An object array of ``Cell``."""


def cell_array(cells: Sequence[Cell | PassthroughCell]) -> Cells:
    """Convert cells to an array."""
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def evaluate_cell(cell: Cell, attribute: Attribute, entries: Floats) -> Floats:
    """Compute a numeric cell at entries (n,) of its attribute, shape (n,)."""
    if isinstance(cell, CurveCell):
        return cell.curve.computed(entries)
    if isinstance(cell, RampCell):
        return np.asarray(cell.computed(entries), dtype=np.float64)
    if cell.cuts is not None:
        return np.asarray(cell.values[np.searchsorted(cell.cuts, entries, side="right")], dtype=np.float64)
    if len(cell.values) == 1:
        return np.full(len(entries), float(cell.values[0]))
    return np.asarray(cell.values[(entries - attribute.first).astype(np.int64)], dtype=np.float64)


def refuse_passthrough(cells: Cells) -> None:
    """Raise a NotAdditiveError if a column is passed through from the data: proofs require a domain."""
    for cell in cells.ravel():
        if isinstance(cell, PassthroughCell):
            raise NotAdditiveError(
                f"the model reads the passthrough column {cell.name!r}, which has no domain, so nothing can be proved",
                hint=f"describe the values or range of {cell.name!r} in the schema, or train without it",
            )


def is_listed(attribute: Attribute) -> bool:
    """Check whether the attribute's domain is short enough to list."""
    return attribute.is_discrete or (attribute.size is not None and attribute.size <= MAX_LISTED)


def column_cell(
    position: int, attribute: Attribute, read: Callable[[Floats], Values], line: tuple[float, float] = (1.0, 0.0)
) -> Cell:
    """Build the cell of one input column.

    Args:
        position: Position of the attribute in the schema.
        attribute: The attribute.
        read: Function from entries (n,) to the model's inputs, (n,).
        line: Slope and intercept of ``read`` for a numeric attribute.
    """
    if is_listed(attribute):
        return ListedCell(position, read(attribute.domain()))
    return RampCell(position, *line, attribute.first, attribute.last, read)


def plain_inputs(schema: Schema, dtype: Any = np.float64) -> Cells:
    """Build the inputs of a network of encoded attributes, shape (schema.width,)."""
    cells = []
    for position, attribute in enumerate(schema.attributes):
        line = plain_line(attribute) if attribute.kind in ("integer", "real") else (1.0, 0.0)
        for j in range(attribute.width):

            def read(entries: Floats, attribute: Attribute = attribute, j: int = j) -> Values:
                return attribute.inputs(entries)[:, j].astype(dtype)

            cells.append(column_cell(position, attribute, read, line))
    return cell_array(cells)


def apply_jointly(function: Callable[..., Any], cells: Sequence[Cell]) -> tuple[ListedCell, ...]:
    """Apply a function to the values of cells of the same attribute.

    Args:
        function: Function of one array (entries,) per cell to one array (entries,) or a tuple of them.
        cells: The cells.

    Raises:
        NotAdditiveError: the cells depend on several attributes or on a number with too many values to enumerate.
    """
    attributes = sorted({cell.attribute for cell in cells if cell.attribute is not None})
    if len(attributes) > 1:
        raise NotAdditiveError("it combines several attributes other than by addition")
    rows: list[ListedCell] = []
    for cell in cells:
        if not isinstance(cell, ListedCell):
            raise NotAdditiveError("it applies a nonlinear step to a numeric column with too many values to enumerate")
        rows.append(cell)
    cuts: Floats | None = None
    if any(cell.cuts is not None for cell in rows):
        cuts = np.unique(np.concatenate([cell.cuts for cell in rows if cell.cuts is not None]))
        spread = [_values_in_bins(cell, cuts) for cell in rows]
    else:
        size = max(len(cell.values) for cell in rows)
        spread = [np.broadcast_to(cell.values, (size,)) for cell in rows]
    answer = function(*spread)
    answers = answer if isinstance(answer, tuple) else (answer,)
    return tuple(ListedCell(attributes[0] if attributes else None, np.asarray(values), cuts) for values in answers)


def _values_in_bins(cell: ListedCell, cuts: Floats) -> Values:
    if cell.cuts is None:
        return np.broadcast_to(cell.values, (len(cuts) + 1,))
    bins = np.searchsorted(cell.cuts, cuts, side="right")
    return np.asarray(cell.values[np.concatenate([[0], bins])])


def first_true(flag: Callable[[Floats], Values], low: Floats, high: Floats) -> Floats:
    """Find, by exact bisection, the smallest float64 in each [low, high] with a true flag.

    Args:
        flag: Monotone function that maps one number per interval, shape (k,), to flags, shape (k,).
        low: Lower ends of the intervals, where the flag is false.
        high: Upper ends of the intervals, where the flag is true.
    """
    false, true = _float_order(low), _float_order(high)
    # Invariant: the flag is false at ``false`` and true at ``true``, which are ordinal numbers of float64 values. The
    # middle is rounded down without a sum that could overflow.
    while np.any(true - 1 > false):
        middle = false // 2 + true // 2 + (false & true & 1)
        hit = flag(_float_from_order(middle)).astype(bool)
        true = np.where(hit, middle, true)
        false = np.where(hit, false, middle)
    return _float_from_order(true)


def _float_order(numbers: Floats) -> Integers:
    # Bits of a float64, flipped so that the integers are ordered like the floats.
    bits = np.asarray(numbers, dtype=np.float64).view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF)))


def _float_from_order(keys: Integers) -> Floats:
    return np.asarray(keys ^ ((keys >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))).view(np.float64)
