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
        OptionError: A string does not have this form, or a name occurs twice.
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
        functions[name] = import_object(source)
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
    signature = inspect.signature(function)
    weights = {} if people.weights is None else {"sample_weight": None}
    try:
        signature.bind(None, None, **weights)
    except TypeError as error:
        also = ", and of sample_weight because people have weights" if weights else ""
        raise OptionError(
            f"metric {name!r} must be a function of two positional arguments, y_true and y_pred or y_score{also}",
            location=LOCATION,
        ) from error
    parameters = list(signature.parameters)[:2]
    scored = any(parameter in SCORES for parameter in parameters)
    sources = {"y_true": people.truth, **({"y_score": people.scores} if scored else {"y_pred": people.decided})}
    columns: list[NDArray[Any]] = []
    for source, column in sources.items():
        if column is None:
            hint = "pass `y_true=`" if source == "y_true" else "pass `y_score=`, or a model that returns scores"
            raise OptionError(f"metric {name!r} needs {source}, which is not available", location=LOCATION, hint=hint)
        columns.append(column.astype(np.float64 if column.dtype.kind == "f" else np.int64))
    return columns[::-1] if parameters[1:] == ["y_true"] else columns


class _CustomMetric(NamedTuple):
    """A custom metric with its first two columns, and the sample weights."""

    name: str
    function: Callable[..., Any]
    columns: list[NDArray[Any]]
    weights: Floats | None

    def value(self, rows: Integers) -> tuple[float, str]:
        """Compute the metric of the given rows, or return NaN and the reason why it is undefined.

        Raises:
            OptionError: The function returns no number, or fails for another reason than undefined values.
        """
        weights = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        try:
            number = self.function(*(column[rows] for column in self.columns), **weights)
            if isinstance(number, str):
                raise TypeError(f"got the text {number!r}")
            value = float(number)
        except (ArithmeticError, ValueError) as error:
            return math.nan, f"{self.name} is not defined here: {summarize_error(error, 120)}"
        except MemoryError:
            raise
        except Exception as error:
            hint = "return a number; raise ValueError where the metric is undefined"
            raise OptionError(f"{self.name}: {summarize_error(error)}", location=LOCATION, hint=hint) from error
        return value, "" if math.isfinite(value) else f"{self.name} is {value} here"

    def estimate(self, members: list[Integers], confidence: float, rng: np.random.Generator) -> Estimator:
        """Compute the metric of each group, given the rows of its members.

        Intervals at levels other than ``confidence`` are scaled.
        """
        sizes = np.array([len(rows) for rows in members], dtype=np.int64)
        draws = np.clip(WORK // np.maximum(sizes, 1), MIN_DRAWS, DRAWS).tolist()
        columns = np.full((len(members), 3), math.nan)
        reasons = [self.measure(*part, confidence, rng) for part in zip(members, draws, columns, strict=True)]

        def limits(groups: Integers, level: float) -> Limits:
            value, low, high = columns[groups].T
            if level == confidence:
                return Limits(value, low, high)
            factor = normal_quantile(level) / normal_quantile(confidence)
            return Limits(value, value - factor * (value - low), value + factor * (high - value))

        weights = None if self.weights is None else [self.weights[rows] for rows in members]
        n = sizes if weights is None else np.array([kish_size(part.sum(), (part**2).sum()) for part in weights])
        method = f"{METHOD}, {'at least ' if len({*draws}) > 1 else ''}{min(draws):,} samples"
        return Estimator(self.name, sizes, n, limits, method, "" if weights is None else ", weighted", unknown=reasons)

    def measure(self, rows: Integers, draws: int, limits: Floats, confidence: float, rng: np.random.Generator) -> str:
        """Compute the metric of the given rows with its interval, in ``limits``, or a reason if there is none."""
        if not len(rows):
            return "there are no people with a true label"
        value, reason = self.value(rows)
        if reason:
            return reason
        values = np.full(draws, math.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # samples may contain only one label; these are counted below
            for draw in range(draws):
                with contextlib.suppress(OptionError):
                    values[draw], _ = self.value(rows[rng.integers(0, len(rows), len(rows))])
        finite = values[np.isfinite(values)]
        if len(rows) < 2 or len(finite) < 0.9 * draws:
            return f"{self.name} is undefined for too many samples of {len(rows)} people"
        low, high = expanded_percentiles(finite, len(rows), confidence)
        limits[:] = value, min(low, value), max(high, value)
        return ""
