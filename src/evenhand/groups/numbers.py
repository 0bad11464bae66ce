"""Metrics of groups where a number is decided: means, quantiles and errors of each group, and the gaps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.errors import DataError, OptionError
from evenhand.groups.analysis import GroupConfig
from evenhand.groups.breakdown import Breakdown, Gap, Group
from evenhand.groups.gaps import add_cautions, describe_simultaneity, widest_gap
from evenhand.groups.kept import KeptDecisions, fingerprint_people
from evenhand.groups.label_coverage import HALVES, LabelCoverage, count_labels
from evenhand.groups.membership import Membership, breakdown_positions, group_by_attribute
from evenhand.groups.metrics import NO_WEIGHT, number_combinations
from evenhand.groups.result import CalibrationBin, GroupMetrics, NumberOutcome, QuantileCurve
from evenhand.models.scorer import Regressor, ask_numbers
from evenhand.schema.columns import PeopleWeights
from evenhand.schema.decisions import RecordedNumbers
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.distribution import (
    DistributionDistances,
    LargestDistance,
    NumberMoments,
    distribution_distances,
    number_moments,
    quantile_interval,
    sample_quantile,
    skewed_mean_interval,
)
from evenhand.stats.level import bonferroni
from evenhand.stats.metric_specs import DECISION_METRICS
from evenhand.stats.proportion import count_pairs
from evenhand.stats.quantity import Observed, Quantity, Unknown

SHARES = {"quantile_10": 0.1, "median": 0.5, "quantile_90": 0.9}
"""Quantiles that are compared, by the share of people below."""

CURVE = tuple(share / 20 for share in range(1, 20))
"""Shares of people at which quantile curves are drawn."""

TENTHS = 10
MOST_COMPARED = 40
"""Groups whose distributions are compared in pairs at most."""

HALL = "Student's t, skewness removed (Hall)"
ORDERED = "order statistics (binomial)"
BOOTSTRAP = "bootstrap of the largest distance"
ADDED = ", limits squared and added"
EFFECTIVE = ", of effective sample sizes (weights)"
NO_NUMBER = "no person here has a known true number"
TOO_SMALL = "too few people here for an interval of this quantile"

MEANS = {
    "mean_difference": "mean",
    "residual_difference": "mean_residual",
    "absolute_error_difference": "mean_absolute_error",
}
"""Gap -> the mean of each group that it compares."""


def measure_numbers(
    regressor: Regressor,
    people: People,
    config: GroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    progress: Progress | None = None,
    **settings: object,
) -> GroupMetrics:
    """Measure the numbers that a model decides, by group, and how far they are from the true ones.

    Args:
        regressor: the model; it is asked about everybody once.
        people: whom it decides about, with the true numbers. Groups are made as for labels.
        config: the settings.
        weights: how much each person counts; None where all count alike.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``GroupConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: no attribute is protected, or one is a real number.
        DataError: the people have no true numbers.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    if people.numbers is None:
        raise DataError(f"the data has no column {people.schema.target.name!r} with the true numbers")
    if progress is not None:
        progress("asking the model about everybody in the data", 0.0)
    decided = ask_numbers(regressor, people.individuals)
    names = people.schema.protected if config.protected is None else config.protected
    return _build_result(_Numbers.of(decided, people, weights), people, names, config, started)


def measure_recorded_numbers(
    numbers: RecordedNumbers, config: GroupConfig | None = None, **settings: object
) -> GroupMetrics:
    """Measure numbers that were decided, by group; their errors where the true numbers are known.

    Args:
        numbers: the numbers, and the people they are about.
        config: the settings; by default groups are those of all attributes.
        settings: fields of ``GroupConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: an attribute is a real number.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    people = numbers.people
    names = people.schema.names if config.protected is None else config.protected
    return _build_result(_Numbers.of(numbers.decided, people, numbers.weights), people, names, config, started)


class _Numbers(NamedTuple):
    """Decided numbers, true numbers (NaN where unknown) and weights, each of shape (n,), and the source of the weights.

    ``truth`` and ``weights`` are None without true numbers and without weights.
    """

    decided: Floats
    truth: Floats | None
    weights: Floats | None = None
    weighted: str | None = None

    @classmethod
    def of(cls, decided: Floats, people: People, weights: PeopleWeights | None) -> _Numbers:
        """Return the numbers decided about people."""
        if weights is None:
            return cls(decided, people.numbers)
        return cls(decided, people.numbers, weights.values, weights.name)

    def at(self, chosen: Booleans) -> _Numbers:
        """Return the numbers of some of the people."""
        truth, weights = (None if one is None else one[chosen] for one in (self.truth, self.weights))
        return _Numbers(self.decided[chosen], truth, weights, self.weighted)

    @property
    def labelled(self) -> Booleans | None:
        """Mask of the people whose true number is known, shape (n,); None without true numbers."""
        return None if self.truth is None else ~np.isnan(self.truth)

    def means(self) -> dict[str, Floats]:
        """Return the numbers whose means are measured, by metric, shape (n,) each.

        All but the decided number are NaN where the true number is unknown.
        """
        if self.truth is None:
            return {"mean": self.decided}
        residual = self.decided - self.truth
        return {
            "mean": self.decided,
            "true_mean": self.truth,
            "mean_residual": residual,
            "mean_absolute_error": np.abs(residual),
        }

    def kept(self) -> dict[str, Floats]:
        """Return what is kept of each person, by metric; the absolute error follows from the residual."""
        return {name: values for name, values in self.means().items() if name in ("mean", "mean_residual")}


class _Sample(NamedTuple):
    """The numbers of several groups.

    Attributes:
        labels: Names of the groups.
        size: Number of people in each group, shape (groups,).
        labelled: Number of people with a true number in each group, shape (groups,).
        moments: Metric -> the moments of each group, over the people who have a value of the metric.
        reach: Metric -> the range of all values.
        ordered: Decided numbers of each group in increasing order.
        weights: Weights of the same people; None without weights.
    """

    labels: list[str]
    size: Integers
    labelled: Integers
    moments: dict[str, NumberMoments]
    reach: dict[str, float]
    ordered: list[Floats]
    weights: list[Floats] | None

    @property
    def effective(self) -> Floats | Integers:
        """How many people drawn alike say as much about each group's mean; without weights, its people."""
        return self.moments["mean"].n

    def people(self, metric: str) -> Integers:
        """Return the number of people in each group that a metric rests on, shape (groups,)."""
        return self.size if metric in DECISION_METRICS else self.labelled

    def method(self, name: str) -> str:
        """Return how an interval was made, weights included."""
        return name if self.weights is None else name + EFFECTIVE

    def quantile(self, group: int, share: float) -> float:
        """Return the quantile of a group."""
        return sample_quantile(self.ordered[group], share, self._weights(group))

    def quantile_limits(self, group: int, share: float, confidence: float) -> tuple[float, float] | None:
        """Return the interval for the quantile of a group; None where it is too small."""
        return quantile_interval(self.ordered[group], share, confidence, self._weights(group))

    def _weights(self, group: int) -> Floats | None:
        return None if self.weights is None else self.weights[group]


def _build_result(
    numbers: _Numbers, people: People, names: Sequence[str], config: GroupConfig, started: float
) -> GroupMetrics:
    schema = people.schema
    if not names:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    if config.reference:
        raise OptionError(
            f"expected no `reference=` for a numeric target, got {', '.join(config.reference)}",
            hint="leave it out: the gaps of numbers compare the best and the worst group",
        )
    memberships = [group_by_attribute(schema[name], people.individuals[:, schema.position(name)]) for name in names]
    everybody = _sample(numbers, np.zeros(len(people), dtype=np.int64), ["everybody"])
    middle = float(np.median(numbers.decided))
    return GroupMetrics(
        people=len(people),
        weights=numbers.weighted,
        effective_size=None if numbers.weights is None else float(everybody.effective[0]),
        favourable=str(schema.target.favourable),
        min_group_size=config.min_group_size,
        overall=_measure(everybody, config.confidence)[0],
        label_coverage=_cover_labels(numbers, np.zeros(len(people), dtype=np.int64), 1, middle)[0],
        breakdowns=tuple(
            _build_breakdown([memberships[i] for i in chosen], numbers, config, middle)
            for chosen in breakdown_positions(len(memberships))
        ),
        calibration=tuple(
            cell for membership in memberships for cell in _calibration_bins(membership, numbers, config.confidence)
        ),
        outcome=_describe_outcome(schema, memberships, numbers),
        people_fingerprint=fingerprint_people(memberships, numbers.truth),
        kept=KeptDecisions.keep(memberships, None, None, numbers.kept()) if config.keep_decisions else None,
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _describe_outcome(schema: Schema, memberships: Sequence[Membership], numbers: _Numbers) -> NumberOutcome:
    def quantiles(chosen: Booleans) -> tuple[float, ...]:
        own = _sample(numbers.at(chosen), np.zeros(int(chosen.sum()), dtype=np.int64), [""])
        return tuple(own.quantile(0, share) for share in CURVE)

    curves = [
        QuantileCurve(
            by=one.name,
            group=label,
            n=int(chosen.sum()),
            shares=CURVE,
            values=quantiles(chosen),
        )
        for one in memberships
        for code, label in enumerate(one.known)
        if (chosen := one.codes == code).any()
    ]
    return NumberOutcome(name=schema.target.name, unit=schema.target.unit, curves=tuple(curves))


def _sample(numbers: _Numbers, group: Integers, labels: list[str]) -> _Sample:
    size = np.bincount(group, minlength=len(labels))
    order = np.lexsort((numbers.decided, group))
    labelled = numbers.labelled
    moments, reach = {}, {}
    for name, values in numbers.means().items():
        known = slice(None) if labelled is None or name in DECISION_METRICS else labelled
        weights = None if numbers.weights is None else numbers.weights[known]
        moments[name] = number_moments(values[known], group[known], len(labels), weights)
        reach[name] = float(np.ptp(values[known])) if len(values[known]) else 0.0
    return _Sample(
        labels,
        size,
        size if labelled is None else np.bincount(group[labelled], minlength=len(labels)),
        moments,
        reach,
        np.split(numbers.decided[order], np.cumsum(size)[:-1]),
        None if numbers.weights is None else np.split(numbers.weights[order], np.cumsum(size)[:-1]),
    )


def _known_groups(membership: Membership) -> Booleans:
    """Return whose group is known, shape (n,)."""
    return np.asarray(membership.codes < len(membership.known))


def _cover_labels(numbers: _Numbers, group: Integers, groups: int, middle: float) -> Sequence[LabelCoverage | None]:
    """Count the people with a true number in each group, by half of the decided numbers; None if none is missing."""
    labelled = numbers.labelled
    if labelled is None or labelled.all():
        return [None] * groups
    return count_labels(group, groups, (numbers.decided > middle).astype(np.int64), HALVES, labelled)


def _build_breakdown(
    memberships: Sequence[Membership], numbers: _Numbers, config: GroupConfig, middle: float
) -> Breakdown:
    known = np.logical_and.reduce([_known_groups(one) for one in memberships])
    unknown = int((~known).sum())
    if unknown:
        numbers = numbers.at(known)
        memberships = [replace(one, codes=one.codes[known]) for one in memberships]
    group, keys = number_combinations([(one.codes, len(one.labels)) for one in memberships])
    values = [{one.name: one.labels[code] for one, code in zip(memberships, key, strict=True)} for key in keys.tolist()]
    sample = _sample(numbers, group, [", ".join(named.values()) for named in values])
    coverage = _cover_labels(numbers, group, len(keys), middle)
    groups = tuple(
        Group(
            values=named,
            size=size,
            effective_size=None if sample.weights is None else effective,
            small=effective < config.min_group_size,
            metrics=metrics,
            label_coverage=covered,
        )
        for named, size, effective, metrics, covered in zip(
            values,
            sample.size.tolist(),
            sample.effective.tolist(),
            _measure(sample, config.confidence),
            coverage,
            strict=True,
        )
    )
    return Breakdown(
        by=tuple(one.name for one in memberships),
        groups=groups,
        gaps=add_cautions(_compute_gaps(sample, config), groups),
        unknown=unknown,
    )


def _measure(sample: _Sample, confidence: float) -> list[dict[str, Quantity]]:
    """Compute the metrics of every group by name, each with its interval or the reason why there is none."""
    found: list[dict[str, Quantity]] = [{} for _ in sample.labels]
    for name, moments in sample.moments.items():
        lows, highs = skewed_mean_interval(moments, confidence, reach=sample.reach[name])
        for i, own in enumerate(found):
            n, mean = int(sample.people(name)[i]), float(moments.mean[i])
            if moments.n[i] == 0:
                own[name] = Unknown(reason=NO_WEIGHT if n else NO_NUMBER)
                continue
            ends = {"low": float(lows[i]), "high": float(highs[i])}
            own[name] = Observed(value=mean, n=n, confidence=confidence, method=sample.method(HALL), **ends)
    for i, own in enumerate(found):
        for name, share in SHARES.items():
            limits = sample.quantile_limits(i, share, confidence)
            own[name] = Unknown(reason=TOO_SMALL)
            if limits is not None:
                own[name] = Observed(
                    value=sample.quantile(i, share),
                    n=int(sample.size[i]),
                    low=limits[0],
                    high=limits[1],
                    confidence=confidence,
                    method=sample.method(ORDERED),
                )
    return found


def _compute_gaps(sample: _Sample, config: GroupConfig) -> tuple[Gap, ...]:
    """Return the gaps between two or more groups of enough people; a gap that fewer than two have is unknown."""
    if len(sample.labels) < 2:
        return ()
    large = np.flatnonzero(sample.effective >= config.min_group_size)
    gaps = [_mean_gap(gap, metric, sample, config) for gap, metric in MEANS.items() if metric in sample.moments]
    gaps[1:1] = [_quantile_gap(name, sample, large, config) for name in SHARES]
    return (*gaps, *_distance_gaps(sample, large, config))


class _Compared(NamedTuple):
    """What a gap compares: the groups' positions, values and limits, at the level that one of all pairs needs."""

    groups: Integers
    value: Floats
    low: Floats
    high: Floats


def _mean_gap(name: str, metric: str, sample: _Sample, config: GroupConfig) -> Gap:
    every = sample.moments[metric]
    large = np.flatnonzero(every.n >= config.min_group_size)
    moments = NumberMoments(every.mean[large], every.variance[large], every.skewness[large], every.n[large])

    def compare(level: float) -> _Compared:
        return _Compared(large, moments.mean, *skewed_mean_interval(moments, level, reach=sample.reach[metric]))

    return _difference_gap(name, metric, HALL, compare, sample, large, config)


def _quantile_gap(metric: str, sample: _Sample, large: Integers, config: GroupConfig) -> Gap:
    share = SHARES[metric]

    def compare(level: float) -> _Compared:
        limits = [(i, sample.quantile_limits(i, share, level)) for i in large.tolist()]
        known = [(i, ends) for i, ends in limits if ends is not None]
        values = [sample.quantile(i, share) for i, _ in known]
        ends = np.array([ends for _, ends in known], dtype=np.float64).reshape(-1, 2)
        return _Compared(np.array([i for i, _ in known], dtype=np.int64), np.array(values), ends[:, 0], ends[:, 1])

    return _difference_gap(f"{metric}_difference", metric, ORDERED, compare, sample, large, config)


def _difference_gap(
    name: str,
    metric: str,
    method: str,
    compare: Callable[[float], _Compared],
    sample: _Sample,
    large: Integers,
    config: GroupConfig,
) -> Gap:
    """Return the highest minus the lowest of one number of each group, simultaneous over all pairs."""
    pairs = count_pairs(len(large)) if len(large) > 1 else 1
    compared = compare(bonferroni(config.confidence, pairs))
    used = set(compared.groups.tolist())
    people = sample.people(metric)
    left_out = {label: int(n) for i, (label, n) in enumerate(zip(sample.labels, people, strict=True)) if i not in used}
    if len(compared.groups) < 2:
        counted = "people" if metric in DECISION_METRICS else "people with a true number"
        reason = f"{counted} must number {config.min_group_size} in at least two groups"
        reason = reason if len(large) < 2 else f"{TOO_SMALL.replace('here', 'in all groups but one')}"
        return Gap(name=name, metric=metric, value=Unknown(reason=reason), best="", worst="", not_assessable=left_out)
    return widest_gap(
        name,
        metric,
        [sample.labels[i] for i in compared.groups],
        compared[1:],
        people=int(people[compared.groups].sum()),
        confidence=config.confidence,
        method=sample.method(method) + ADDED + describe_simultaneity(pairs),
        left_out=left_out,
    )


def _distance_gaps(sample: _Sample, large: Integers, config: GroupConfig) -> list[Gap]:
    """Return the largest distances between the distributions of two groups: the one with higher numbers is ``best``."""
    kept = set(large.tolist())
    left_out = {
        label: int(n) for i, (label, n) in enumerate(zip(sample.labels, sample.size, strict=True)) if i not in kept
    }
    names = ("wasserstein_distance", "kolmogorov_distance")
    reason = f"people must number {config.min_group_size} in at least two groups"
    if len(large) > MOST_COMPARED:
        reason = f"{len(large)} groups: distributions of at most {MOST_COMPARED} are compared in pairs"
    if not 2 <= len(large) <= MOST_COMPARED:
        return [
            Gap(
                name=name,
                metric="distribution",
                value=Unknown(reason=reason),
                best="",
                worst="",
                not_assessable=left_out,
            )
            for name in names
        ]
    samples = [sample.ordered[i] for i in large]
    distances: DistributionDistances = distribution_distances(
        samples,
        config.confidence,
        np.random.default_rng(config.seed),
        weights=None if sample.weights is None else [sample.weights[i] for i in large],
    )
    means = sample.moments["mean"].mean[large]

    def gap(name: str, found: LargestDistance) -> Gap:
        pair = sorted((found.first, found.second), key=lambda i: -means[i])
        value = Observed(
            value=found.value,
            n=int(sample.size[large].sum()),
            low=found.low,
            high=found.high,
            confidence=config.confidence,
            method=sample.method(BOOTSTRAP) + describe_simultaneity(count_pairs(len(large)), ""),
        )
        best, worst = (sample.labels[large[i]] for i in pair)
        return Gap(name=name, metric="distribution", value=value, best=best, worst=worst, not_assessable=left_out)

    return [gap(name, found) for name, found in zip(names, distances, strict=True)]


def _calibration_bins(membership: Membership, numbers: _Numbers, confidence: float) -> list[CalibrationBin]:
    """Compute mean decided and mean true numbers in each tenth of the decided numbers, by group.

    Only people with a true number are counted.
    """
    if numbers.truth is None:
        return []
    known = _known_groups(membership) & ~np.isnan(numbers.truth)
    truth, numbers = numbers.truth[known], numbers.at(known)
    membership = replace(membership, codes=membership.codes[known])
    edges = np.unique(np.quantile(numbers.decided, np.linspace(0, 1, TENTHS + 1)[1:-1], method="inverted_cdf"))
    tenth = np.searchsorted(edges, numbers.decided, side="left")
    cell, keys = number_combinations([(membership.codes, len(membership.labels)), (tenth, TENTHS)])
    decided, true = (number_moments(one, cell, len(keys), numbers.weights) for one in (numbers.decided, truth))
    people = np.bincount(cell, minlength=len(keys))
    low, high = skewed_mean_interval(true, confidence, reach=float(np.ptp(truth)))
    return [
        CalibrationBin(
            by=membership.name,
            group=membership.labels[code],
            n=int(people[i]),
            mean_score=float(decided.mean[i]),
            base_rate=Observed(
                value=float(true.mean[i]),
                n=int(people[i]),
                low=float(low[i]),
                high=float(high[i]),
                confidence=confidence,
                method=HALL if numbers.weights is None else HALL + EFFECTIVE,
            ),
        )
        for i, code in enumerate(keys[:, 0].tolist())
        if decided.n[i] > 0
    ]
