"""Metrics of one's own: any function of labels, decisions and scores, by group, with bootstrap intervals."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.groups.breakdown import Breakdown, Gap
from evenhand.groups.gaps import add_cautions, describe_simultaneity
from evenhand.groups.membership import Membership
from evenhand.groups.metrics import NO_LABEL
from evenhand.groups.result import GroupMetrics
from evenhand.models.importing import import_object
from evenhand.stats.bootstrap import expanded_percentiles
from evenhand.stats.level import bonferroni
from evenhand.stats.metric_specs import GAP_NAMES, OVERALL_NAMES
from evenhand.stats.proportion import difference_of_intervals
from evenhand.stats.quantity import Observed, Quantity, Unknown

DRAWS = 1000
LEAST_DRAWS = 200
WORK = 200_000_000
"""Samples drawn for an interval: at most, at least, and people in all of them together where these do not say."""

SCORES = ("y_score", "y_prob", "y_proba")
METHOD = "bootstrap percentiles, expanded (Hesterberg 2015)"


def read_metrics(given: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Return metrics of one's own by name, from texts such as ``cost=mymodule:cost``.

    The module lies in the current directory or is installed; it is imported, which runs it.

    Raises:
        OptionError: a text is not of that form, a name is given twice, or what it names is not a function.
        ModelError: there is no such module or function, or importing it fails.
    """
    found: dict[str, Callable[..., Any]] = {}
    for text in given:
        name, equals, source = text.partition("=")
        if not (equals and name and ":" in source):
            raise OptionError(
                f"expected a metric as NAME=module:function, got {text!r}",
                location="`metrics=`",
                hint="such as cost=mymodule:cost, a function of y_true and y_pred in mymodule.py",
            )
        if name in found:
            raise OptionError(f"expected one metric called {name!r}, got two", location="`metrics=`")
        function = import_object(source)
        if not callable(function):
            raise OptionError(f"expected a function as metric {name!r}, got {source!r}", location="`metrics=`")
        found[name] = function
    return found


class DecidedPeople(NamedTuple):
    """What a metric may be a function of, each of shape (n,) or None where it is not known.

    Attributes:
        memberships: the group of each person by each protected attribute.
        selected: Whether the decision is the favourable label.
        true_labels: 1 favourable, 0 unfavourable, -1 unknown.
        scores, weights: of the favourable label; how much each person counts.
    """

    memberships: Sequence[Membership]
    selected: Booleans
    true_labels: Integers | None
    scores: Floats | None
    weights: Floats | None


class BootstrapSettings(NamedTuple):
    """Confidence of the intervals, smallest group that is compared, seed."""

    confidence: float
    least: int
    seed: int


def add_metrics(
    measured: GroupMetrics,
    metrics: Mapping[str, Callable[..., Any]],
    people: DecidedPeople,
    settings: BootstrapSettings,
) -> GroupMetrics:
    """Return group metrics with more of them: overall, of every group, and the gap between groups, ``NAME_difference``.

    A function is given 1 for the favourable label and decision, 0 for another. Its interval is that of the bootstrap:
    people are drawn again from the group, with replacement, up to 1,000 times (fewer where there are many people). Ends
    are percentiles, taken further out for small groups (Hesterberg, "What teachers should know about the bootstrap",
    American Statistician 2015). Those of a gap are squared and added from the ends of two groups, as many standard
    errors out as the number of pairs asks for (Bonferroni).

    A metric is computed over people with a true label, and a gap over the groups that have at least the smallest
    number of them (by effective size).

    Args:
        metrics: name -> function of ``y_true`` and ``y_pred`` or ``y_score`` (in that order, or by these names), and of
            ``sample_weight`` if it takes it.

    Raises:
        OptionError: a name is taken, or a function needs what is not known.
    """
    rng = np.random.default_rng(settings.seed)
    overall, breakdowns = dict(measured.overall), list(measured.breakdowns)
    for name, function in metrics.items():
        if name in OVERALL_NAMES or f"{name}_difference" in GAP_NAMES or not name.isidentifier():
            raise OptionError(
                f"expected a new name for a metric, a word without spaces, got {name!r}", location="`metrics=`"
            )
        metric = _Metric(name, function, _bind(name, function, people), people.weights)
        labelled = np.asarray(people.true_labels) >= 0
        overall[name] = metric.measure(np.flatnonzero(labelled), settings, rng)
        breakdowns = [
            _add_to(breakdown, metric, people.memberships, labelled, settings, rng) for breakdown in breakdowns
        ]
    return measured.model_copy(update={"overall": overall, "breakdowns": tuple(breakdowns)})


def _bind(name: str, function: Callable[..., Any], people: DecidedPeople) -> dict[str, Any]:
    """Return the columns that a function takes, by the names of its parameters.

    Raises:
        OptionError: it needs labels or scores that are not known, or people have weights and it takes none.
    """
    if not callable(function):
        raise OptionError(f"expected a function as metric {name!r}, got {function!r}", location="`metrics=`")
    parameters = list(inspect.signature(function).parameters)
    scored = next((one for one in parameters[:2] if one in SCORES), None)
    if len(parameters) < 2:
        raise OptionError(f"metric {name!r} must be a function of y_true and y_pred or y_score", location="`metrics=`")
    given = {
        "y_true": people.true_labels,
        "y_score" if scored else "y_pred": people.scores if scored else people.selected,
    }
    for what, column in given.items():
        if column is None:
            hint = "give `y_true=`" if what == "y_true" else "give `y_score=`, or a model that gives scores"
            raise OptionError(
                f"metric {name!r} needs {what}, which is not known here", location="`metrics=`", hint=hint
            )
    columns: dict[str, Any] = {
        parameter: np.asarray(column).astype(np.float64 if what == "y_score" else np.int64)
        for parameter, (what, column) in zip(parameters[:2], given.items(), strict=True)
    }
    if people.weights is not None:
        if "sample_weight" not in parameters:
            raise OptionError(
                f"people have weights, and metric {name!r} takes no sample_weight",
                location="`metrics=`",
                hint="let it take sample_weight=, or leave the weights out",
            )
        columns["sample_weight"] = people.weights
    return columns


class _Metric(NamedTuple):
    """A metric with the columns it is computed from, and the weights of all people."""

    name: str
    function: Callable[..., Any]
    columns: dict[str, Any]
    weights: Floats | None

    def effective_size(self, rows: Integers) -> float:
        """Return Kish's effective size of some people; without weights, their number."""
        if self.weights is None:
            return float(len(rows))
        weights = self.weights[rows]
        squares = float((weights**2).sum())
        return float(weights.sum()) ** 2 / squares if squares else 0.0

    def value(self, rows: Integers) -> float:
        """Return the metric of some people."""
        (first, labels), (second, decided), *rest = self.columns.items()
        more = {name: column[rows] for name, column in rest}
        positional = inspect.signature(self.function).parameters[first].kind is inspect.Parameter.POSITIONAL_ONLY
        if positional:
            return float(self.function(labels[rows], decided[rows], **more))
        return float(self.function(**{first: labels[rows], second: decided[rows]}, **more))

    def measure(self, rows: Integers, settings: BootstrapSettings, rng: np.random.Generator) -> Observed | Unknown:
        """Compute the metric of some people with its interval, or the reason why there is none."""
        if not len(rows):
            return Unknown(reason=NO_LABEL)
        try:
            value = self.value(rows)
        except (ArithmeticError, ValueError) as error:
            return Unknown(reason=f"{self.name} is not defined here: {str(error).splitlines()[0][:120]}")
        if not math.isfinite(value):
            return Unknown(reason=f"{self.name} is {value} here")
        draws = int(np.clip(WORK // max(len(rows), 1), LEAST_DRAWS, DRAWS))
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of samples that happen to hold one label alone; these are counted below
            for _ in range(draws):
                try:
                    found.append(self.value(rows[rng.integers(0, len(rows), len(rows))]))
                except (ArithmeticError, ValueError):
                    found.append(math.nan)
        drawn = np.array(found)
        known = drawn[np.isfinite(drawn)]
        if len(rows) < 2 or len(known) < 0.9 * draws:
            return Unknown(reason=f"{self.name} is not defined for enough samples of {len(rows)} people")
        low, high = expanded_percentiles(known, len(rows), settings.confidence)
        weighted = "" if self.weights is None else ", weighted"
        return Observed(
            value=value,
            n=len(rows),
            low=min(low, value),
            high=max(high, value),
            confidence=settings.confidence,
            method=f"{METHOD}, {draws:,} samples{weighted}",
        )


def _add_to(
    breakdown: Breakdown,
    metric: _Metric,
    memberships: Sequence[Membership],
    labelled: Booleans,
    settings: BootstrapSettings,
    rng: np.random.Generator,
) -> Breakdown:
    """Return a breakdown with one more metric of every group, and its gap."""
    by_name = {membership.name: membership for membership in memberships}
    groups, known, left_out = [], {}, {}
    for group in breakdown.groups:
        members = labelled.copy()
        for name, label in group.values.items():
            members &= by_name[name].codes == by_name[name].labels.index(label)
        rows = np.flatnonzero(members)
        quantity: Quantity = metric.measure(rows, settings, rng)
        groups.append(group.model_copy(update={"metrics": group.metrics | {metric.name: quantity}}))
        if isinstance(quantity, Observed) and metric.effective_size(rows) >= settings.least:
            known[group.label] = quantity
        else:
            left_out[group.label] = len(rows)
    reference = next((gap.reference for gap in breakdown.gaps if gap.reference), "")
    gaps: tuple[Gap, ...] = () if len(groups) < 2 else (_gap(metric.name, known, reference, left_out),)
    gaps = add_cautions(gaps, groups)
    return breakdown.model_copy(update={"groups": tuple(groups), "gaps": breakdown.gaps + gaps})


def _gap(name: str, known: Mapping[str, Observed], reference: str, left_out: dict[str, int]) -> Gap:
    """Compute the gap of a metric between groups, or of every group from the reference."""
    gap, metric = f"{name}_difference", name
    if len(known) < 2 or (reference and reference not in known):
        reason = f"{name} must be known in " + (f"the reference group {reference}" if reference else "two groups")
        return Gap(
            name=gap,
            metric=metric,
            value=Unknown(reason=reason),
            best="",
            worst="",
            reference=reference,
            not_assessable=left_out,
        )
    labels = list(known)
    pairs = [(label, reference) for label in labels if label != reference]
    if not reference:
        pairs = [(one, other) for i, one in enumerate(labels) for other in labels[i + 1 :]]
    found = {pair: _difference(known[pair[0]], known[pair[1]], len(pairs)) for pair in pairs}
    (one, other), widest = max(found.items(), key=lambda item: abs(item[1].value))
    low, high = (
        max(max(sign * (d.low if sign > 0 else d.high), 0.0) for d in found.values() for sign in (1, -1)),
        max(max(d.high, -d.low) for d in found.values()),
    )
    best, worst = (one, other) if widest.value >= 0 else (other, one)
    n = widest.n if reference else sum(quantity.n for quantity in known.values())
    return Gap(
        name=gap,
        metric=metric,
        value=widest.model_copy(update={"value": abs(widest.value), "low": low, "high": high, "n": n}),
        best=best,
        worst=worst,
        reference=reference,
        by_group={pair[0]: distance for pair, distance in found.items()} if reference else {},
        not_assessable=left_out,
    )


def _difference(one: Observed, other: Observed, comparisons: int) -> Observed:
    """Return the difference of two groups, its ends as far out as so many comparisons ask for."""
    low, high = difference_of_intervals(one, other, bonferroni(one.confidence, comparisons))
    return one.model_copy(
        update={
            "value": one.value - other.value,
            "n": one.n + other.n,
            "low": low,
            "high": high,
            "method": f"squared and added, {one.method}{describe_simultaneity(comparisons)}",
        }
    )
