"""Custom metrics: any function of labels, decisions and scores, by group, with bootstrap intervals."""

from __future__ import annotations

import contextlib
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.text import summarize_error
from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.groups.config import GroupConfig
from evenhand.groups.estimators import Estimator
from evenhand.groups.membership import DecidedPeople, find_labelled, list_partitions
from evenhand.models.importing import import_object
from evenhand.stats.bootstrap import expanded_percentiles
from evenhand.stats.level import normal_quantile
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.proportion import Limits, kish_size

Metrics: TypeAlias = Mapping[str, Callable[..., Any]]
"""Custom metrics by name."""

DRAWS = 1000
MIN_DRAWS = 200
WORK = 200_000_000
"""Maximum and minimum number of bootstrap samples, and maximum total number of people in all samples."""

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


def estimate_metrics(
    metrics: Metrics, people: DecidedPeople, config: GroupConfig
) -> dict[tuple[str, ...], dict[str, Estimator]]:
    """Compute custom metrics of all people and of each group, by attributes; the key of all people is empty.

    A metric is a function of ``y_true`` and ``y_pred`` or ``y_score``, and of ``sample_weight`` if people have weights.
    ``y_true`` is the first argument, unless the second parameter has this name. For labels, a function receives 1 for
    the favourable label or decision and 0 otherwise.

    Intervals are bootstrap percentiles of up to 1,000 samples of people, widened for small groups (Hesterberg, "What
    teachers should know about the bootstrap", American Statistician 2015). Gaps, ``NAME_difference``, combine the
    intervals of two groups, scaled to the Bonferroni level, by squaring and adding. All are computed over people with a
    true label.

    Raises:
        OptionError: A name is reserved, or a column of a function is unknown.
    """
    rng = np.random.default_rng(config.seed)
    estimators: dict[tuple[str, ...], dict[str, Estimator]] = {}
    for name, function in metrics.items():
        if name in METRICS or f"{name}_difference" in METRICS or not name.isidentifier():
            raise OptionError(
                f"expected a new name for a metric, a word without spaces, got {name!r}", location=LOCATION
            )
        metric = _CustomMetric(name, function, _bind_columns(name, function, people), people.sample_weight)
        assert people.truth is not None
        labelled = find_labelled(people.truth)
        for partition in list_partitions(people.memberships, len(people.decided)):
            members = [np.flatnonzero(labelled & (partition.codes == i)) for i in range(len(partition.values))]
            estimators.setdefault(partition.by, {})[name] = metric.estimate(members, config.confidence, rng)
    return estimators


def _bind_columns(name: str, function: Callable[..., Any], people: DecidedPeople) -> list[NDArray[Any]]:
    """Select the columns for the first two parameters of a function from their names; by default, labels come first."""
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
        """Compute the metric of the given rows.

        Raises:
            OptionError: The function returns no number, or fails for another reason than undefined values.
        """
        weights = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        try:
            number = self.function(*(column[rows] for column in self.columns), **weights)
            if isinstance(number, str):
                raise TypeError(f"got the text {number!r}")
            return float(number)
        except (ArithmeticError, ValueError, MemoryError):
            raise
        except Exception as error:
            hint = "return a number; raise ValueError where the metric is undefined"
            raise OptionError(f"{self.name}: {summarize_error(error)}", location="`metrics=`", hint=hint) from error

    def estimate(self, members: list[Integers], confidence: float, rng: np.random.Generator) -> Estimator:
        """Compute the metric of each group, given the rows of its members.

        Intervals at levels other than ``confidence`` are scaled.
        """
        draws = [int(np.clip(WORK // max(len(rows), 1), MIN_DRAWS, DRAWS)) for rows in members]
        numbers = [self.measure(rows, confidence, rng, n) for rows, n in zip(members, draws, strict=True)]
        columns = np.array([(math.nan,) * 3 if isinstance(number, str) else number for number in numbers])

        def limits(groups: Integers, level: float) -> Limits:
            value, low, high = columns[groups].T
            if level == confidence:
                return Limits(value, low, high)
            factor = normal_quantile(level) / normal_quantile(confidence)
            return Limits(value, value - factor * (value - low), value + factor * (high - value))

        samples = f"{'at least ' if len({*draws}) > 1 else ''}{min(draws):,} samples"
        return Estimator(
            self.name,
            np.array([len(rows) for rows in members], dtype=np.int64),
            np.array([self.effective_size(rows) for rows in members]),
            limits,
            f"{METHOD}, {samples}{'' if self.weights is None else ', weighted'}",
            unknown=[number if isinstance(number, str) else "" for number in numbers],
        )

    def measure(
        self, rows: Integers, confidence: float, rng: np.random.Generator, draws: int
    ) -> tuple[float, float, float] | str:
        """Compute the metric of the given rows with its interval, or the reason why there is none."""
        if not len(rows):
            return "there are no people with a true label"
        try:
            value = self.value(rows)
        except OptionError:
            raise
        except (ArithmeticError, ValueError) as error:
            return f"{self.name} is not defined here: {summarize_error(error, 120)}"
        if not math.isfinite(value):
            return f"{self.name} is {value} here"
        values = np.full(draws, math.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # samples may contain only one label; these are counted below
            for draw in range(draws):
                sample = rows[rng.integers(0, len(rows), len(rows))]
                with contextlib.suppress(ArithmeticError, ValueError):
                    values[draw] = self.value(sample)
        finite = values[np.isfinite(values)]
        if len(rows) < 2 or len(finite) < 0.9 * draws:
            return f"{self.name} is undefined for too many samples of {len(rows)} people"
        low, high = expanded_percentiles(finite, len(rows), confidence)
        return value, min(low, value), max(high, value)
