"""Scikit-learn pipelines as additive networks, when their preprocessing acts on one attribute at a time.

Which steps do is known by their exact type, from a list. What they do is not copied: every fitted step is called on
rows in which one attribute runs through its whole domain, and what comes out fills the tables. A number with too many
values to list is followed as a line through the scalers, by exact bins through ``KBinsDiscretizer``, as a monotone
curve through logarithms, powers and quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Floats
from evenhand.errors import NotAdditiveError
from evenhand.models.additive import cells as cell
from evenhand.models.additive import linear as lin
from evenhand.models.additive.cells import (
    Cell,
    Cells,
    CurveCell,
    ListedCell,
    PassthroughCell,
    RampCell,
    Values,
)
from evenhand.models.additive.linear import LinearTensor
from evenhand.models.additive.network import AdditiveNetwork, MonotoneCurve
from evenhand.models.blackbox.estimator import EstimatorModel, wrap_estimator
from evenhand.models.blackbox.number_model import NumberModel
from evenhand.models.blackbox.questions import model_input, refusal_error
from evenhand.models.readers.reading import BLACK_BOX_HINT, locate_errors
from evenhand.population.independent import uniform_population
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
CURVE_PROBES = 4097
"""Places at which a curve is looked at before it is followed."""
SELECTORS = frozenset({"SelectKBest", "SelectPercentile", "VarianceThreshold"})
LINEAR_CLASSIFIERS = frozenset(
    {
        "LinearSVC",
        "LogisticRegression",
        "LogisticRegressionCV",
        "PassiveAggressiveClassifier",
        "Perceptron",
        "RidgeClassifier",
        "RidgeClassifierCV",
        "SGDClassifier",
    }
)

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
"""Functions of NumPy that increase, and where."""

FUNCTION_ERROR = 16 * 2.0**-52
"""Relative error of what NumPy and SciPy compute of elementary functions: theirs is 4 units in the last place."""

STEEPEST_QUANTILE = 2e6
"""Slope of the normal quantile function at 1e-7, beyond which scikit-learn clips: sqrt(2 pi) exp(5.2**2 / 2)."""

LARGEST_CURVE_ERROR = 2.0**-20
"""A curve that is computed less exactly than this share of its rise is not followed."""

ROUNDINGS = 64
"""A scaler may be this many roundings away from the line through its ends; more is a bend."""

SAME_SCORE = 1e-6
"""The network's scores must be this close to the estimator's on people drawn from the domain."""


def read_sklearn(estimator: Any, schema: Schema, *, like: Any = None, name: str | None = None) -> AdditiveNetwork:
    """Read a fitted scikit-learn classifier as an additive network.

    Args:
        estimator: a linear classifier or an ``MLPClassifier`` (relu or identity), alone or last in a ``Pipeline`` whose
            steps are scalers, ``OneHotEncoder``, ``OrdinalEncoder``, ``KBinsDiscretizer``, ``SimpleImputer``, selectors
            of columns, or a ``ColumnTransformer`` of such; or a search that ended with one of these.
        schema: what its individuals are.
        like: the user's data, see ``from_estimator``; the estimator is asked in exactly the same way.
        name: how to call it in a report.

    Raises:
        ModelError: the estimator cannot be asked about the schema's individuals.
        NotAdditiveError: a step or the classifier is of another kind; the message names it.
    """
    return read_estimator(wrap_estimator(estimator, schema, like=like, name=name))


def read_estimator(box: EstimatorModel) -> AdditiveNetwork:
    """Read a fitted scikit-learn classifier that is a black box already, as ``read_sklearn``; its ledger is charged.

    Raises:
        NotAdditiveError: a step or the classifier is of another kind; the message names it.
    """
    logits = _classifier_logits(box.model, estimator_columns(box), box.name)
    network = lin.build_network(box.schema, logits, box.classes, box.favourable, name=box.name)
    _compare_scores(network, box)
    return network


def estimator_columns(box: EstimatorModel | NumberModel) -> Cells:
    """Return the columns that the estimator is asked with, in its order."""
    if box.form == "numbers":
        return cell.plain_inputs(box.schema)
    schema = box.schema

    def read(position: int, entries: Floats) -> Values:
        alone = Schema(target=schema.target, attributes=(schema.attributes[position],))
        name = schema.names[position]
        asked = model_input(
            alone, entries[:, None], box.form, like=box.like, columns=[name], types=box.types, location=box.name
        )
        return np.asarray(asked.to_numpy() if hasattr(asked, "to_numpy") else asked)[:, 0]

    def column(name: str) -> Cell | PassthroughCell:
        if name in schema.passthrough:
            return PassthroughCell(name)
        position = schema.position(name)
        return cell.column_cell(position, schema.attributes[position], partial(read, position))

    return cell.cell_array([column(name) for name in box.columns or schema.names])


def _classifier_logits(model: Any, value: Cells, name: str) -> LinearTensor:
    """Return the logits of a classifier, alone, last in a pipeline, or found by a search."""
    model = getattr(model, "best_estimator_", model)
    if _is_kind(model, {"Pipeline"}):
        for step_name, step in model.steps[:-1]:
            value = transform_columns(step, value, step_name, name)
        return _classifier_logits(model.steps[-1][1], value, name)
    with locate_errors(f"the classifier {type(model).__name__}", location=name):
        cell.refuse_passthrough(value)
    kind = type(model).__name__
    if _is_kind(model, LINEAR_CLASSIFIERS):
        with locate_errors(f"the classifier {kind}", location=name):
            return lin.affine(value, np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_))
    if _is_kind(model, {"MLPClassifier"}) and model.activation in ("relu", "identity"):
        with locate_errors(f"the classifier {kind}", location=name):
            return perceptron_outputs(model, value)
    activation = f" with {model.activation} activation" if hasattr(model, "activation") else ""
    raise NotAdditiveError(
        f"a {kind}{activation} is neither a linear classifier nor a ReLU network", location=name, hint=BLACK_BOX_HINT
    )


def perceptron_outputs(model: Any, value: Cells) -> LinearTensor:
    """Return the outputs of a fitted perceptron of scikit-learn, before its last activation."""
    tensor = lin.affine(value, model.coefs_[0], model.intercepts_[0])
    for weights, bias in zip(model.coefs_[1:], model.intercepts_[1:], strict=True):
        source = lin.relu(tensor) if model.activation == "relu" else tensor
        tensor = lin.affine(source, weights, bias)
    return tensor


def _is_kind(step: Any, kinds: Any) -> bool:
    # By exact class: a subclass may do something else.
    return type(step).__module__.split(".")[0] == "sklearn" and type(step).__name__ in kinds


def transform_columns(step: Any, value: Cells, path: str, name: str) -> Cells:
    """Return what a preprocessing step makes of its columns."""
    if step is None or step == "passthrough" or (_is_kind(step, {"FunctionTransformer"}) and step.func is None):
        return value
    if _is_kind(step, {"Pipeline"}):
        for inner_name, inner in step.steps:
            value = transform_columns(inner, value, f"{path}/{inner_name}", name)
        return value
    if _is_kind(step, {"ColumnTransformer"}):
        return _transform_side_by_side(step, value, path, name)
    with locate_errors(f"the step {path!r} ({type(step).__name__})", location=name):
        if _is_kind(step, SELECTORS):
            return np.asarray(value[step.get_support(indices=True)])
        cell.refuse_passthrough(value)
        return _FittedStep(step, value).outcome()


def _transform_side_by_side(step: Any, value: Cells, path: str, name: str) -> Cells:
    blocks: list[Cells] = [value[:0]]
    for inner_name, inner, _ in step.transformers_:
        # The columns may be given in many ways; this is how scikit-learn itself understood them when fitted.
        places = list(step._transformer_to_input_indices.get(inner_name, ()))
        if (isinstance(inner, str) and inner == "drop") or not places:
            continue
        block = transform_columns(inner, value[places], f"{path}/{inner_name}", name)
        weight = (step.transformer_weights or {}).get(inner_name)
        blocks.append(
            block if weight is None else cell.cell_arithmetic("Mul", block, cell.constant_cells(np.array(weight)))
        )
    return np.concatenate(blocks)


class _FittedStep:
    """A fitted transformer and the columns it is given."""

    def __init__(self, step: Any, value: Cells) -> None:
        self.step = step
        self.given: list[Cell] = list(value)
        self.owners = _column_owners(step, len(value))
        self.base = [_any_value(given) for given in self.given]

    def outcome(self) -> Cells:
        """Return its output columns, each a function of the attribute that its input column depends on."""
        made: dict[int, Cell] = {}
        for attribute in {given.attribute for given in self.given if isinstance(given, ListedCell)}:
            mine = [
                j
                for j, given in enumerate(self.given)
                if isinstance(given, ListedCell) and given.attribute == attribute
            ]
            outputs = [o for o, owner in enumerate(self.owners) if owner in mine]

            def values(*columns: Values, mine: list[int] = mine, outputs: list[int] = outputs) -> tuple[Values, ...]:
                return tuple(self._call(dict(zip(mine, columns, strict=True)))[:, outputs].T)

            made.update(zip(outputs, cell.apply_jointly(values, [self.given[j] for j in mine]), strict=True))
        for j, given in enumerate(self.given):
            outputs = [o for o, owner in enumerate(self.owners) if owner == j]
            if isinstance(given, RampCell):
                follow = self._bin_cells if type(self.step).__name__ == "KBinsDiscretizer" else self._lines
                made.update(zip(outputs, follow(j, given, outputs), strict=True))
            elif isinstance(given, CurveCell):
                made.update(zip(outputs, self._scaled_curves(j, given, outputs), strict=True))
        return cell.cell_array([made[o] for o in range(len(self.owners))])

    def _call(self, columns: dict[int, Values]) -> Values:
        """Return the step on rows that differ in some columns only, shape (rows, outputs)."""
        check_time()
        rows = len(next(iter(columns.values())))
        table = [columns.get(j, np.repeat(base, rows)) for j, base in enumerate(self.base)]
        names = getattr(self.step, "feature_names_in_", None)
        if names is not None:
            import pandas as pd

            asked: Any = pd.DataFrame(dict(zip(names, table, strict=True)))
        elif all(column.dtype.kind in "fiub" for column in table):
            asked = np.column_stack(table)
        else:
            asked = np.column_stack([column.astype(object) for column in table])
        try:
            result = self.step.transform(asked)
        except Exception as error:
            raise refusal_error(error, location="transform") from error
        result = result.toarray() if hasattr(result, "toarray") else result
        result = np.asarray(result.to_numpy() if hasattr(result, "to_numpy") else result)
        if result.shape != (rows, len(self.owners)):
            raise NotAdditiveError(
                f"it makes {result.shape[-1]} columns where {len(self.owners)} are understood, so it is impossible to "
                "tell which depends on which attribute"
            )
        return result

    def _lines(self, j: int, given: RampCell, outputs: Sequence[int]) -> list[Cell]:
        if _is_kind(self.step, CURVES):
            return self._curves(j, given, outputs)
        if not self._keeps_lines():
            raise NotAdditiveError(
                "it bends a number that has too many values to list; describe the number as ordinal, with `edges`, or "
                "as an integer with a smaller range"
            )
        probes = np.linspace(given.low, given.high, 9)
        if given.high - given.low > cell.MAX_LISTED:
            probes[1:-1] = np.floor(probes[1:-1])  # an integer attribute has nothing in between
        probed = self._call({j: given.computed(probes)})
        precision = np.finfo(probed.dtype if probed.dtype.kind == "f" else np.float64).eps
        lines: list[Cell] = []
        for o in outputs:
            numbers = probed[:, o].astype(np.float64)
            ends = numbers[[0, -1]]
            slope = (ends[1] - ends[0]) / (given.high - given.low) if given.high > given.low else 0.0
            intercept = ends[0] - slope * given.low
            bend = np.abs(numbers - (slope * probes + intercept)).max()
            if bend > ROUNDINGS * precision * max(np.abs(ends).max(), abs(intercept)):
                lines.append(self._curve(j, given, o, error=0.0))  # clipped: each operation is rounded monotonically
                continue
            if slope == 0:
                lines.append(ListedCell(None, probed[:1, o]))
                continue

            def compute_output(entries: Floats, o: int = o) -> Values:
                return np.asarray(self._call({j: given.computed(entries)})[:, o])

            lines.append(RampCell(given.attribute, slope, intercept, given.low, given.high, compute_output, False))
        return lines

    def _keeps_lines(self) -> bool:
        """Return whether the step scales and shifts numbers, or leaves them as they are."""
        keeps_numbers = _is_kind(self.step, {"SimpleImputer"}) and _is_nan(self.step.missing_values)
        return keeps_numbers or _is_kind(self.step, SCALERS)

    def _curves(self, j: int, given: RampCell, outputs: Sequence[int]) -> list[Cell]:
        """Return what a step makes of a number that it bends, and never turns."""
        ends = given.computed(np.array([given.low, given.high])).astype(np.float64)
        found: list[Cell] = []
        for o in outputs:
            values = self._call({j: given.computed(np.array([given.low, given.high]))})[:, o].astype(np.float64)
            found.append(self._curve(j, given, o, error=_curve_error(self.step, j, ends, values)))
        return found

    def _scaled_curves(self, j: int, given: CurveCell, outputs: Sequence[int]) -> list[Cell]:
        """Return what a scaler makes of a curve: its operations are monotone as rounded, and stretch the curve's error.

        How much is seen between the ends of the curve, and where it clips less.
        """
        if not self._keeps_lines() or getattr(self.step, "clip", False):
            raise NotAdditiveError("it bends a number once more that has too many values to list")
        before = np.array(given.curve.ends)
        found: list[Cell] = []
        for o in outputs:
            after = self._call({j: before})[:, o].astype(np.float64)
            stretch = abs(after[1] - after[0]) / abs(before[1] - before[0])
            error = 2 * stretch * given.curve.error
            found.append(self._curve(j, given, o, error=error))
        return found

    def _curve(self, j: int, given: RampCell | CurveCell, output: int, *, error: float) -> Cell:
        before = given if isinstance(given, RampCell) else given.curve

        def compute_output(entries: Floats) -> Floats:
            return np.asarray(self._call({j: before.computed(entries)})[:, output].astype(np.float64))

        probes = compute_output(np.linspace(before.low, before.high, CURVE_PROBES))
        if not np.isfinite(probes).all():
            raise NotAdditiveError("it makes numbers of the domain infinite or undefined")
        if (np.diff(probes) < -2 * error).any():
            raise NotAdditiveError("it turns a number that has too many values to list")
        rise = probes[-1] - probes[0]
        if rise <= 0:
            return ListedCell(None, probes[:1])
        if error > LARGEST_CURVE_ERROR * rise:
            raise NotAdditiveError("it computes a number that has too many values to list too coarsely to be followed")
        return CurveCell(given.attribute, MonotoneCurve(compute_output, before.low, before.high, error))

    def _bin_cells(self, j: int, given: RampCell, outputs: Sequence[int]) -> list[Cell]:
        edges = np.asarray(self.step.bin_edges_[j], dtype=np.float64)[1:-1]

        def reach_edges(entries: Floats, edges: Floats) -> Values:
            numbers = given.computed(entries)
            return (numbers if self.step.dtype is None else numbers.astype(self.step.dtype)) >= edges

        low, high = np.full(len(edges), given.low), np.full(len(edges), given.high)
        edges = edges[~reach_edges(low, edges) & reach_edges(high, edges)]
        low, high = low[: len(edges)], high[: len(edges)]
        cuts = np.unique(cell.first_true(lambda entries: reach_edges(entries, edges), low, high))
        starts = np.concatenate([[given.low], cuts])
        values = self._call({j: given.computed(starts)})
        if not len(cuts):
            return [ListedCell(None, values[:1, o]) for o in outputs]
        return [ListedCell(given.attribute, values[:, o], cuts) for o in outputs]


def _any_value(given: Cell) -> Values:
    """Return what a column can hold, shape (1,)."""
    if isinstance(given, ListedCell):
        return given.values[:1]
    inside = given.curve if isinstance(given, CurveCell) else given
    return np.asarray(inside.computed(np.array([inside.low])))


def _curve_error(step: Any, j: int, entries: Floats, values: Floats) -> float:
    """Bound how far what a step computes of one column lies from an increasing or decreasing function.

    Args:
        step: fitted; a FunctionTransformer of a known function, a QuantileTransformer or a PowerTransformer.
        j: the column.
        entries, values: what goes in and comes out at both ends of the domain, shape (2,).

    Raises:
        NotAdditiveError: it is not monotone on the domain.
    """
    largest = float(np.abs(values).max())
    if _is_kind(step, {"FunctionTransformer"}):
        low, high = MONOTONE.get(step.func.__name__, (math.inf, -math.inf))
        if entries[0] < low or entries[1] > high:
            raise NotAdditiveError(f"{step.func.__name__} of a number that has too many values to list may turn it")
        return FUNCTION_ERROR * largest
    if _is_kind(step, {"QuantileTransformer"}):
        steepest = STEEPEST_QUANTILE if step.output_distribution == "normal" else 1.0
        return FUNCTION_ERROR * (steepest + largest)
    power, scaler = float(step.lambdas_[j]), getattr(step, "_scaler", None)
    if step.method == "box-cox":
        bases, powers = entries, [power, power]
    else:
        # y = ((1 + x)**p - 1) / p of what is above zero, with 2 - p and 1 - x below (Yeo and Johnson 2000).
        bases, powers = 1 + np.abs(entries), [power if entry >= 0 else 2 - power for entry in entries]
    error = 0.0
    for base, exponent in zip(bases, powers, strict=True):
        # Computed as expm1(p log(base)) / p or as (base**p - 1) / p: the second cancels where p is small.
        inner = abs(exponent * math.log(base))
        size = (max(base**exponent, 1.0) + 1) / abs(exponent) if exponent else abs(math.log(base))
        error = max(error, FUNCTION_ERROR * (1 + inner) * size)
    if step.standardize and scaler is not None:
        shift = abs(float(scaler.mean_[j])) if scaler.mean_ is not None else 0.0
        scale = float(scaler.scale_[j]) if scaler.scale_ is not None else 1.0
        error = 2 * error / scale + FUNCTION_ERROR * (largest + shift / scale)
    return error


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _column_owners(step: Any, inputs: int) -> list[int]:
    """For every output column of a fitted step the one input column it depends on.

    Raises:
        NotAdditiveError: the step is of a kind that mixes columns, or whose workings are not known.
    """
    if _is_kind(step, {"FunctionTransformer"}) and not _is_elementwise(step):
        raise NotAdditiveError(
            "it runs a function of its own, which may mix attributes; functions of NumPy such as np.log1p can be read"
        )
    if _is_kind(step, COLUMN_BY_COLUMN):
        extra = step.indicator_.features_.tolist() if getattr(step, "add_indicator", False) else []
        return [*range(inputs), *extra]
    if _is_kind(step, {"KBinsDiscretizer"}):
        widths = [1] * inputs if step.encode == "ordinal" else [int(bins) for bins in step.n_bins_]
    elif _is_kind(step, {"SplineTransformer"}):
        widths = [spline.c.shape[1] - (not step.include_bias) for spline in step.bsplines_]
    elif _is_kind(step, {"OneHotEncoder"}):
        rare = getattr(step, "infrequent_categories_", [None] * inputs)
        dropped = [None] * inputs if step.drop_idx_ is None else list(step.drop_idx_)
        widths = [
            len(known) - (0 if few is None else len(few) - 1) - (gone is not None)
            for known, few, gone in zip(step.categories_, rare, dropped, strict=True)
        ]
    else:
        raise NotAdditiveError("this kind of step may mix attributes, or runs code of its own")
    return [j for j, width in enumerate(widths) for _ in range(width)]


def _is_elementwise(step: Any) -> bool:
    """Return whether a FunctionTransformer applies a function of NumPy to each number alone."""
    plain = isinstance(step.func, np.ufunc) and (step.func.nin, step.func.nout) == (1, 1)
    return plain and getattr(np, step.func.__name__, None) is step.func and not step.kw_args


def _compare_scores(network: AdditiveNetwork, box: EstimatorModel) -> None:
    """Make sure that the network answers like the estimator, on people drawn from the domain."""
    people = uniform_population(box.schema).sample(256, np.random.default_rng(0))
    if box.label_only:
        same = np.array_equal(network.predict(people), box.predict(people))
    else:
        same = bool(np.abs(network.scores(people) - box.scores(people)).max() <= SAME_SCORE)
    if not same:
        raise NotAdditiveError(
            "its scores are not the sigmoid or softmax of a sum over attributes (one against the rest, perhaps)",
            location=box.name,
            hint=BLACK_BOX_HINT,
        )
