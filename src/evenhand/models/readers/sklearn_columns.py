"""Scikit-learn preprocessing of one attribute at a time, as one cell per column. Supported steps are listed by exact
type. Their arithmetic is not reimplemented: each fitted step is called with all values of an attribute, and the results
fill the tables. A numeric column with too many values to enumerate becomes a line after scalers, exact bins after
``KBinsDiscretizer``, and a monotone curve after logarithms, powers and quantiles.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Floats
from evenhand.errors import NotAdditiveError
from evenhand.models.additive.cells import (
    MAX_LISTED,
    Cell,
    Cells,
    CurveCell,
    ListedCell,
    PassthroughCell,
    RampCell,
    Values,
    apply_jointly,
    cell_array,
    column_cell,
    first_true,
    plain_inputs,
    refuse_passthrough,
)
from evenhand.models.additive.network import MonotoneCurve
from evenhand.models.blackbox.base import refusal_error
from evenhand.models.blackbox.estimator import EstimatorModel, NumberModel, is_kind
from evenhand.models.readers.reading import locate_errors
from evenhand.schema.schema import Schema

SCALERS = frozenset({"MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler"})
COLUMN_BY_COLUMN = SCALERS | {
    "Binarizer",
    "FunctionTransformer",
    "OrdinalEncoder",
    "PowerTransformer",
    "QuantileTransformer",
    "SimpleImputer",
}
CURVES = frozenset({"FunctionTransformer", "PowerTransformer", "QuantileTransformer"})
SELECTORS = frozenset({"SelectKBest", "SelectPercentile", "VarianceThreshold"})

CURVE_PROBES = 4097
"""Number of evenly spaced points for the monotonicity check of a curve."""

MONOTONE: dict[str, tuple[float, float]] = {
    "arcsinh": (-math.inf, math.inf),
    "arctan": (-math.inf, math.inf),
    "cbrt": (-math.inf, math.inf),
    "exp": (-math.inf, math.inf),
    "exp2": (-math.inf, math.inf),
    "expm1": (-math.inf, math.inf),
    "log": (0.0, math.inf),
    "log10": (0.0, math.inf),
    "log1p": (-1.0, math.inf),
    "log2": (0.0, math.inf),
    "sinh": (-math.inf, math.inf),
    "sqrt": (0.0, math.inf),
    "square": (0.0, math.inf),
    "tanh": (-math.inf, math.inf),
}
"""Interval on which each NumPy function increases."""

FUNCTION_ERROR = 16 * 2.0**-52
"""Bound on the relative error of elementary functions. NumPy and SciPy document 4 units in the last place."""

STEEPEST_QUANTILE = 2e6
"""Slope of the normal quantile function at 1e-7, scikit-learn's clipping limit: sqrt(2 pi) exp(5.2**2 / 2)."""

LARGEST_CURVE_ERROR = 2.0**-20
"""Maximum error of a curve, relative to its range."""

ROUNDINGS = 64
"""Maximum distance of a scaler from the line through its ends, in rounding units. Larger distances mean
nonlinearity."""


def estimator_columns(box: EstimatorModel | NumberModel) -> Cells:
    """Compute the input columns of an estimator, in order."""
    schema = box.schema
    if box.form == "numbers":
        return plain_inputs(schema)

    def read(single: EstimatorModel | NumberModel, entries: Floats) -> Values:
        inputs = single.input(entries[:, None])
        return np.asarray(inputs.to_numpy() if hasattr(inputs, "to_numpy") else inputs)[:, 0]

    def column(name: str) -> Cell | PassthroughCell:
        if name in schema.passthrough:
            return PassthroughCell(name)
        position = schema.position(name)
        single = Schema(target=schema.target, attributes=(schema.attributes[position],))
        # A white box must not keep the model in memory.
        column_box = replace(box, model=None, schema=single, columns=(name,))
        return column_cell(position, schema.attributes[position], partial(read, column_box))

    return cell_array([column(name) for name in box.columns or schema.names])


def transform_columns(step: Any, columns: Cells, path: str, name: str) -> Cells:
    """Compute the output columns of a fitted preprocessing step.

    Args:
        step: Transformer, ``Pipeline``, ``ColumnTransformer`` or ``"passthrough"``.
        columns: Input columns.
        path: Names of the enclosing steps, then of the step, for errors.
        name: Name of the model.

    Raises:
        NotAdditiveError: the step mixes attributes or is not supported.
    """
    if step is None or step == "passthrough" or (is_kind(step, {"FunctionTransformer"}) and step.func is None):
        return columns
    if is_kind(step, {"Pipeline"}):
        for inner_name, inner in step.steps:
            columns = transform_columns(inner, columns, f"{path}/{inner_name}", name)
        return columns
    if is_kind(step, {"ColumnTransformer"}):
        return _transform_blocks(step, columns, path, name)
    with locate_errors(f"the step {path!r} ({type(step).__name__})", location=name):
        if is_kind(step, SELECTORS):
            return np.asarray(columns[step.get_support(indices=True)])
        refuse_passthrough(columns)
        return _FittedStep(step, columns).outputs()


def _transform_blocks(step: Any, columns: Cells, path: str, name: str) -> Cells:
    blocks: list[Cells] = [columns[:0]]
    if step.transformer_weights:
        raise NotAdditiveError(f"the step {path!r} multiplies its columns by `transformer_weights`", location=name)
    for inner_name, inner, _ in step.transformers_:
        # Columns can be specified in several ways. This is the selection as scikit-learn resolved it during ``fit``.
        places = list(step._transformer_to_input_indices.get(inner_name, ()))
        if (isinstance(inner, str) and inner == "drop") or not places:
            continue
        blocks.append(transform_columns(inner, columns[places], f"{path}/{inner_name}", name))
    return np.concatenate(blocks)


class _FittedStep:
    """Fitted transformer and its input columns."""

    def __init__(self, step: Any, columns: Cells) -> None:
        self.step = step
        self.columns: list[Cell] = list(columns)
        self.owners = _column_owners(step, len(columns))
        self.example: list[Values] = []  # one value of each column, shape (1,)
        for column in self.columns:
            line = column.curve if isinstance(column, CurveCell) else column
            first = line.values[:1] if isinstance(line, ListedCell) else line.computed(np.array([line.low]))
            self.example.append(np.asarray(first))

    def outputs(self) -> Cells:
        """Compute the output columns, each a function of its input column's attribute."""
        cells = self._tables()
        listed = [
            (j, column)
            for j, column in enumerate(self.columns)
            if isinstance(column, ListedCell) and j not in {self.owners[o] for o in cells}
        ]
        for attribute in {column.attribute for _, column in listed}:
            inputs = [j for j, column in listed if column.attribute == attribute]
            places = [o for o, owner in enumerate(self.owners) if owner in inputs]

            def values(*columns: Values, inputs: list[int] = inputs, places: list[int] = places) -> tuple[Values, ...]:
                return tuple(self._call(dict(zip(inputs, columns, strict=True)))[:, places].T)

            cells.update(zip(places, apply_jointly(values, [self.columns[j] for j in inputs]), strict=True))
        for j, column in enumerate(self.columns):
            places = [o for o, owner in enumerate(self.owners) if owner == j]
            if isinstance(column, RampCell):
                transform = self._bin_cells if type(self.step).__name__ == "KBinsDiscretizer" else self._lines
                cells.update(zip(places, transform(j, column, places), strict=True))
            elif isinstance(column, CurveCell):
                cells.update(zip(places, self._scaled_curves(j, column, places), strict=True))
        return cell_array([cells[o] for o in range(len(self.owners))])

    def _tables(self) -> dict[int, Cell]:
        """Compute the outputs of columns that are alone with their attribute and list its values.

        Columns with about as many values share one call.
        """
        attributes = Counter(column.attribute for column in self.columns if isinstance(column, ListedCell))
        classes: dict[int, list[tuple[int, ListedCell]]] = {}
        for j, column in enumerate(self.columns):
            if isinstance(column, ListedCell) and column.cuts is None and attributes[column.attribute] == 1:
                classes.setdefault(len(column.values).bit_length(), []).append((j, column))
        cells: dict[int, Cell] = {}
        for members in classes.values():
            rows = np.arange(max(len(column.values) for _, column in members))
            columns = {j: column.values[np.minimum(rows, len(column.values) - 1)] for j, column in members}
            table = self._call(columns)
            for j, column in members:
                places = [o for o, owner in enumerate(self.owners) if owner == j]
                values = table[: len(column.values), places].T
                cells.update((o, replace(column, values=value)) for o, value in zip(places, values, strict=True))
        return cells

    def _call(self, columns: dict[int, Values]) -> Values:
        """Call the step on rows that differ only in some columns, shape (rows, outputs)."""
        check_time()
        rows = len(next(iter(columns.values())))
        table = [columns.get(j, np.repeat(value, rows)) for j, value in enumerate(self.example)]
        names = getattr(self.step, "feature_names_in_", None)
        inputs: Any
        if names is not None:
            import pandas as pd

            inputs = pd.DataFrame(dict(zip(names, table, strict=True)))
        elif all(column.dtype.kind in "fiub" for column in [*table, *getattr(self.step, "categories_", ())]):
            inputs = np.column_stack(table)
        else:
            inputs = np.column_stack([column.astype(object) for column in table])
        try:
            result = self.step.transform(inputs)
        except Exception as error:
            raise refusal_error(error, location="transform") from error
        result = result.toarray() if hasattr(result, "toarray") else result
        result = np.asarray(result.to_numpy() if hasattr(result, "to_numpy") else result)
        if result.shape != (rows, len(self.owners)):
            raise NotAdditiveError(
                f"it returns {result.shape[-1]} columns, expected {len(self.owners)}, so the attribute behind each "
                "column is unclear"
            )
        return result

    def _output(self, j: int, values: Values, output: int) -> Floats:
        """Compute one output column for these values of input column j."""
        return np.asarray(self._call({j: values})[:, output].astype(np.float64))

    def _lines(self, j: int, line: RampCell, outputs: Sequence[int]) -> list[Cell]:
        """Transform a numeric column with too many values to enumerate."""
        ends = np.array([line.low, line.high])
        if is_kind(self.step, CURVES):
            before = line.computed(ends).astype(np.float64)
            return [
                self._curve(
                    j, line, o, error=_curve_error(self.step, j, before, self._output(j, line.computed(ends), o))
                )
                for o in outputs
            ]
        if not self._keeps_lines():
            raise NotAdditiveError(
                "it applies a nonlinear step to a numeric column with too many values to enumerate; describe it as "
                "ordinal with `edges`, or as an integer with a smaller range"
            )
        probes, table = self._probes[j], self._probed
        precision = np.finfo(table.dtype if table.dtype.kind == "f" else np.float64).eps
        cells: list[Cell] = []
        for o in outputs:
            numbers = table[:, o].astype(np.float64)
            first, last = numbers[0], numbers[-1]
            slope = (last - first) / (line.high - line.low) if line.high > line.low else 0.0
            intercept = first - slope * line.low
            deviation = np.abs(numbers - (slope * probes + intercept)).max()
            if deviation > ROUNDINGS * precision * max(abs(first), abs(last), abs(intercept)):
                cells.append(self._curve(j, line, o, error=0.0))  # clipped; each operation rounds monotonically
                continue
            if slope == 0:
                cells.append(ListedCell(None, table[:1, o]))
                continue

            def compute_output(entries: Floats, o: int = o) -> Values:
                return np.asarray(self._call({j: line.computed(entries)})[:, o])

            cells.append(RampCell(line.attribute, slope, intercept, line.low, line.high, compute_output))
        return cells

    @cached_property
    def _probes(self) -> dict[int, Floats]:
        """Probes of each numeric column with too many values to enumerate."""
        probes: dict[int, Floats] = {}
        for j, line in enumerate(self.columns):
            if isinstance(line, RampCell):
                probes[j] = np.linspace(line.low, line.high, 9)
                if line.high - line.low > MAX_LISTED:
                    probes[j][1:-1] = np.floor(probes[j][1:-1])  # an integer attribute has no values in between
        return probes

    @cached_property
    def _probed(self) -> Values:
        """Outputs at the probes of all these columns, from one call."""
        lines = {j: line for j, line in enumerate(self.columns) if isinstance(line, RampCell)}
        return self._call({j: line.computed(self._probes[j]) for j, line in lines.items()})

    def _keeps_lines(self) -> bool:
        """Check whether the step only scales and shifts numbers, or leaves them unchanged."""
        missing = getattr(self.step, "missing_values", None)
        fills_gaps = is_kind(self.step, {"SimpleImputer"}) and isinstance(missing, float) and math.isnan(missing)
        return fills_gaps or is_kind(self.step, SCALERS)

    def _scaled_curves(self, j: int, cell: CurveCell, outputs: Sequence[int]) -> list[Cell]:
        """Scale a curve. Scaler operations remain monotone after rounding, and they also scale the error of the curve.
        The factor is measured between the ends; a step that clips in between is rejected.
        """
        if not self._keeps_lines() or getattr(self.step, "clip", False):
            raise NotAdditiveError(
                "it applies another nonlinear step to a numeric column with too many values to enumerate"
            )
        before = np.array(cell.curve.ends)
        cells: list[Cell] = []
        for o in outputs:
            after = self._output(j, before, o)
            factor = abs(after[1] - after[0]) / abs(before[1] - before[0])
            cells.append(self._curve(j, cell, o, error=2 * factor * cell.curve.error))
        return cells

    def _curve(self, j: int, cell: RampCell | CurveCell, output: int, *, error: float) -> Cell:
        before = cell if isinstance(cell, RampCell) else cell.curve

        def compute_output(entries: Floats) -> Floats:
            return self._output(j, before.computed(entries), output)

        probes = compute_output(np.linspace(before.low, before.high, CURVE_PROBES))
        if not np.isfinite(probes).all():
            raise NotAdditiveError("it maps numbers of the domain to infinite or undefined values")
        if (np.diff(probes) < -2 * error).any():
            raise NotAdditiveError("it decreases along a numeric column with too many values to enumerate")
        rise = probes[-1] - probes[0]
        if rise <= 0:
            return ListedCell(None, probes[:1])
        if error > LARGEST_CURVE_ERROR * rise:
            raise NotAdditiveError(
                "its rounding error is too large for a numeric column with too many values to enumerate"
            )
        return CurveCell(cell.attribute, MonotoneCurve(compute_output, before.low, before.high, error))

    def _bin_cells(self, j: int, line: RampCell, outputs: Sequence[int]) -> list[Cell]:
        """Find the exact start of each ``KBinsDiscretizer`` bin."""
        edges = np.asarray(self.step.bin_edges_[j], dtype=np.float64)[1:-1]

        def reaches(entries: Floats, edges: Floats) -> Values:
            numbers = line.computed(entries)
            return (numbers if self.step.dtype is None else numbers.astype(self.step.dtype)) >= edges

        low, high = np.full(len(edges), line.low), np.full(len(edges), line.high)
        edges = edges[~reaches(low, edges) & reaches(high, edges)]
        low, high = low[: len(edges)], high[: len(edges)]
        cuts = np.unique(first_true(lambda entries: reaches(entries, edges), low, high))
        values = self._call({j: line.computed(np.concatenate([[line.low], cuts]))})
        if not len(cuts):
            return [ListedCell(None, values[:1, o]) for o in outputs]
        return [ListedCell(line.attribute, values[:, o], cuts) for o in outputs]


def _curve_error(step: Any, j: int, entries: Floats, values: Floats) -> float:
    """Bound the distance between a computed column and a monotone function.

    Args:
        step: Fitted FunctionTransformer with a supported function, QuantileTransformer or PowerTransformer.
        j: Position of the column.
        entries, values: Inputs and outputs at the ends of the domain, shape (2,).
    """
    largest = float(np.abs(values).max())
    if is_kind(step, {"FunctionTransformer"}):
        low, high = MONOTONE.get(step.func.__name__, (math.inf, -math.inf))
        if entries[0] < low or entries[1] > high:
            raise NotAdditiveError(
                f"{step.func.__name__} may not be monotone on a numeric column with too many values to enumerate"
            )
        return FUNCTION_ERROR * largest
    if is_kind(step, {"QuantileTransformer"}):
        steepest = STEEPEST_QUANTILE if step.output_distribution == "normal" else 1.0
        return FUNCTION_ERROR * (steepest + largest)
    power, scaler = float(step.lambdas_[j]), getattr(step, "_scaler", None)
    if step.method == "box-cox":
        bases, powers = entries, [power, power]
    else:
        # y = ((1 + x)**p - 1) / p above zero, and the same with 2 - p and 1 - x below (Yeo and Johnson 2000).
        bases, powers = 1 + np.abs(entries), [power if entry >= 0 else 2 - power for entry in entries]
    error = 0.0
    for base, exponent in zip(bases, powers, strict=True):
        # Computed as expm1(p log(base)) / p or as (base**p - 1) / p: the second suffers from cancellation for small p.
        inner = abs(exponent * math.log(base))
        size = (max(base**exponent, 1.0) + 1) / abs(exponent) if exponent else abs(math.log(base))
        error = max(error, FUNCTION_ERROR * (1 + inner) * size)
    if step.standardize and scaler is not None:
        shift = abs(float(scaler.mean_[j])) if scaler.mean_ is not None else 0.0
        scale = float(scaler.scale_[j]) if scaler.scale_ is not None else 1.0
        error = 2 * error / scale + FUNCTION_ERROR * (largest + shift / scale)
    return error


def _column_owners(step: Any, inputs: int) -> list[int]:
    """Find the input column of each output column of a fitted step."""
    if is_kind(step, {"FunctionTransformer"}):
        elementwise = isinstance(step.func, np.ufunc) and (step.func.nin, step.func.nout) == (1, 1)
        if not elementwise or getattr(np, step.func.__name__, None) is not step.func or step.kw_args:
            raise NotAdditiveError(
                "it calls a custom function, which may mix attributes; NumPy functions such as np.log1p are supported"
            )
    if is_kind(step, COLUMN_BY_COLUMN):
        indicators = step.indicator_.features_.tolist() if getattr(step, "add_indicator", False) else []
        return [*range(inputs), *indicators]
    if is_kind(step, {"KBinsDiscretizer"}):
        widths = [1] * inputs if step.encode == "ordinal" else [int(bins) for bins in step.n_bins_]
    elif is_kind(step, {"SplineTransformer"}):
        widths = [spline.c.shape[1] - (not step.include_bias) for spline in step.bsplines_]
    elif is_kind(step, {"OneHotEncoder"}):
        infrequent = getattr(step, "infrequent_categories_", [None] * inputs)
        dropped = [None] * inputs if step.drop_idx_ is None else list(step.drop_idx_)
        widths = [
            len(categories) - (0 if grouped is None else len(grouped) - 1) - (place is not None)
            for categories, grouped, place in zip(step.categories_, infrequent, dropped, strict=True)
        ]
    else:
        raise NotAdditiveError("this type of step may mix attributes or run custom code")
    return [j for j, width in enumerate(widths) for _ in range(width)]
