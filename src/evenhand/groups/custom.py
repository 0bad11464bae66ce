"""Custom metrics: any function of labels, decisions and scores, by group, with bootstrap intervals."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.groups.breakdown import Breakdown
from evenhand.groups.config import GroupConfig
from evenhand.groups.estimators import Computed
from evenhand.groups.gaps import GroupComparison, add_cautions, compare_groups
from evenhand.groups.membership import Membership, Partition
from evenhand.groups.result import GroupMetrics
from evenhand.models.importing import import_object
from evenhand.stats.bootstrap import expanded_percentiles
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.proportion import kish_size, stretch_interval
from evenhand.stats.quantity import Observed, Quantity, Unknown

DRAWS = 1000
MIN_DRAWS = 200
WORK = 200_000_000
"""Maximum and minimum number of bootstrap samples, and maximum number of people in all samples together."""

SCORES = ("y_score", "y_prob", "y_proba")
METHOD = "bootstrap percentiles, expanded (Hesterberg 2015)"
LOCATION = "`metrics=`"


def read_metrics(texts: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Import custom metrics from strings such as ``cost=mymodule:cost``.

    The module is in the current directory or installed. Importing it runs its code.

    Raises:
        OptionError: A string does not have this form, a name occurs twice, or the imported object is not a function.
        ModelError: The module or function does not exist, or the import fails.
    """
    functions: dict[str, Callable[..., Any]] = {}
    for text in texts:
        name, equals, source = text.partition("=")
        if not (equals and name and ":" in source):
            raise OptionError(
                f"expected a metric as NAME=module:function, got {text!r}",
                location=LOCATION,
                hint="such as cost=mymodule:cost, a function of y_true and y_pred in mymodule.py",
            )
        if name in functions:
            raise OptionError(f"expected one metric called {name!r}, got two", location=LOCATION)
        function = import_object(source)
        if not callable(function):
            raise OptionError(f"expected a function as metric {name!r}, got {source!r}", location=LOCATION)
        functions[name] = function
    return functions


class DecidedPeople(NamedTuple):
    """Columns that a custom metric can use, each of shape (n,), or None if unknown.

    Attributes:
        memberships: Groups of the people by each protected attribute.
        decided: Whether the decision is the favourable label, or the numeric decision.
        truth: True label (1 favourable, 0 unfavourable, -1 unknown) or true value (NaN if unknown).
        scores, weights: Scores of the favourable label, and sample weights.
    """

    memberships: Sequence[Membership]
    decided: Booleans | Floats
    truth: Integers | Floats | None
    scores: Floats | None
    weights: Floats | None

    @property
    def labelled(self) -> Booleans:
        """Mask of the people with a true label or number, shape (n,)."""
        if self.truth is None:
            return np.zeros(len(self.decided), dtype=np.bool_)
        return np.asarray(~np.isnan(self.truth) if self.truth.dtype.kind == "f" else self.truth >= 0)


def add_metrics(
    result: GroupMetrics,
    metrics: Mapping[str, Callable[..., Any]],
    people: DecidedPeople,
    config: GroupConfig | None = None,
    **settings: Any,
) -> GroupMetrics:
    """Add custom metrics to group metrics: overall, by group, and the gap between groups, ``NAME_difference``.

    For labels, a function receives 1 for the favourable label or decision and 0 otherwise. Intervals are bootstrap
    percentiles of up to 1,000 samples of people, widened for small groups (Hesterberg, "What teachers should know about
    the bootstrap", American Statistician 2015). Gaps combine the intervals of two groups, scaled to the Bonferroni
    level, by squaring and adding. All are computed over people with a true label.

    Args:
        result: Group metrics of the same people.
        metrics: Name -> function of ``y_true`` and ``y_pred`` or ``y_score``, and of ``sample_weight`` if people have
            weights. ``y_true`` is the first argument, unless the second parameter has this name.
        people: Columns of the functions.
        config: Confidence level, minimum size of a compared group, and random seed.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: A name is reserved, or a column of a function is unknown.
    """
    config = GroupConfig.of(config, settings)
    rng = np.random.default_rng(config.seed)
    overall, breakdowns = dict(result.overall), list(result.breakdowns)
    for name, function in metrics.items():
        if name in METRICS or f"{name}_difference" in METRICS or not name.isidentifier():
            raise OptionError(
                f"expected a new name for a metric, a word without spaces, got {name!r}", location=LOCATION
            )
        metric = _CustomMetric(name, function, _bind_columns(name, function, people), people.weights)
        overall[name] = metric.measure(np.flatnonzero(people.labelled), config, rng)
        breakdowns = [_extend(breakdown, metric, people, config, rng) for breakdown in breakdowns]
    return result.model_copy(update={"overall": overall, "breakdowns": tuple(breakdowns)})


def _bind_columns(name: str, function: Callable[..., Any], people: DecidedPeople) -> list[NDArray[Any]]:
    """Select the columns for the first two parameters of a function by their names, labels first by default.

    Raises:
        OptionError: Labels or scores are unknown, or people have weights but the function has no parameter for them.
    """
    if not callable(function):
        raise OptionError(f"expected a function as metric {name!r}, got {function!r}", location=LOCATION)
    signature = inspect.signature(function).parameters
    parameters = list(signature)
    if len(parameters) < 2 or any(
        signature[parameter].kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters[:2]
    ):
        raise OptionError(
            f"metric {name!r} must be a function of two positional arguments, y_true and y_pred or y_score",
            location=LOCATION,
        )
    if people.weights is not None and "sample_weight" not in parameters:
        raise OptionError(
            f"people have weights, but metric {name!r} takes no sample_weight",
            location=LOCATION,
            hint="add a sample_weight parameter, or omit the weights",
        )
    scored = any(parameter in SCORES for parameter in parameters[:2])
    sources = {"y_true": people.truth, **({"y_score": people.scores} if scored else {"y_pred": people.decided})}
    columns: list[NDArray[Any]] = []
    for source, column in sources.items():
        if column is None:
            hint = "pass `y_true=`" if source == "y_true" else "pass `y_score=`, or a model that returns scores"
            raise OptionError(f"metric {name!r} needs {source}, which is not available", location=LOCATION, hint=hint)
        columns.append(column.astype(np.float64 if column.dtype.kind == "f" else np.int64))
    return columns[::-1] if parameters[1] == "y_true" else columns


class _CustomMetric(NamedTuple):
    """A custom metric with its first two columns, and the sample weights."""

    name: str
    function: Callable[..., Any]
    columns: list[NDArray[Any]]
    weights: Floats | None

    def effective_size(self, rows: Integers) -> float:
        """Compute Kish's effective sample size of the given rows; without weights, their number."""
        if self.weights is None:
            return float(len(rows))
        weights = self.weights[rows]
        return float(kish_size(weights.sum(), (weights**2).sum()))

    def value(self, rows: Integers) -> float:
        """Compute the metric of the given rows."""
        weights = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        return float(self.function(*(column[rows] for column in self.columns), **weights))

    def measure(self, rows: Integers, config: GroupConfig, rng: np.random.Generator) -> Quantity:
        """Compute the metric of the given rows with its interval, or the reason why there is none."""
        if not len(rows):
            return Unknown(reason="there are no people with a true label here")
        try:
            value = self.value(rows)
        except (ArithmeticError, ValueError) as error:
            return Unknown(reason=f"{self.name} is not defined here: {str(error).splitlines()[0][:120]}")
        if not math.isfinite(value):
            return Unknown(reason=f"{self.name} is {value} here")
        draws = int(np.clip(WORK // len(rows), MIN_DRAWS, DRAWS))
        values = np.full(draws, math.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # samples may contain a single label; these are counted below
            for draw in range(draws):
                sample = rows[rng.integers(0, len(rows), len(rows))]
                try:
                    values[draw] = self.value(sample)
                except (ArithmeticError, ValueError):
                    continue
        finite = values[np.isfinite(values)]
        if len(rows) < 2 or len(finite) < 0.9 * draws:
            return Unknown(reason=f"{self.name} is not defined for enough samples of {len(rows)} people")
        low, high = expanded_percentiles(finite, len(rows), config.confidence)
        weighted = "" if self.weights is None else ", weighted"
        return Observed(
            value=value,
            n=len(rows),
            low=min(low, value),
            high=max(high, value),
            confidence=config.confidence,
            method=f"{METHOD}, {draws:,} samples{weighted}",
        )


def _extend(
    breakdown: Breakdown,
    metric: _CustomMetric,
    people: DecidedPeople,
    config: GroupConfig,
    rng: np.random.Generator,
) -> Breakdown:
    """Add a metric of every group, and its gap, to a breakdown."""
    by_name = {membership.name: membership for membership in people.memberships}
    partition = Partition.of([by_name[name] for name in breakdown.by])
    codes = np.full(len(partition.known), -1)
    codes[partition.known] = partition.codes
    codes[~people.labelled] = -1
    members = [np.flatnonzero(codes == i) for i in range(len(breakdown.groups))]
    quantities = [metric.measure(rows, config, rng) for rows in members]
    groups = [
        group.model_copy(update={"metrics": group.metrics | {metric.name: quantity}})
        for group, quantity in zip(breakdown.groups, quantities, strict=True)
    ]

    def compute(i: int, confidence: float) -> Quantity:
        quantity = quantities[i]
        if not isinstance(quantity, Observed):
            return quantity
        low, high = stretch_interval(quantity, confidence)
        return quantity.model_copy(update={"low": low, "high": high})

    defined = [isinstance(quantity, Observed) for quantity in quantities]
    estimator = Computed(
        metric.name,
        np.array([len(rows) for rows in members], dtype=np.int64),
        np.array([metric.effective_size(rows) for rows in members]),
        compute,
        next((quantity.method for quantity in quantities if isinstance(quantity, Observed)), METHOD),
        f", with a defined {metric.name}",
        np.array(defined, dtype=np.bool_),
    )
    labels = [group.label for group in groups]
    reference = next((labels.index(gap.reference) for gap in breakdown.gaps if gap.reference), None)
    comparison = GroupComparison(labels, config.confidence, config.min_group_size, reference)
    gaps = [] if len(groups) < 2 else [compare_groups(f"{metric.name}_difference", estimator, comparison)]
    return breakdown.model_copy(update={"groups": tuple(groups), "gaps": breakdown.gaps + add_cautions(gaps, groups)})
