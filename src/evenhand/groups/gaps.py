"""How far apart groups are under each metric, with intervals that allow for having looked for the widest gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.metrics import Counts
from evenhand.groups.result import SMALL, Gap
from evenhand.stats import (
    Observed,
    Unknown,
    bonferroni,
    largest_difference_of_means,
    largest_difference_of_proportions,
    pairs,
    smallest_ratio_of_proportions,
)


class _Extremes(NamedTuple):
    best: int
    worst: int
    difference: float
    ratio: float | None
    people: int


def gaps(counted: Counts, labels: Sequence[str], confidence: float) -> tuple[Gap, ...]:
    """The gaps between groups of at least ``SMALL`` people; none under a metric that fewer than two of them have.

    Args:
        counted: what was counted in each group.
        labels: the groups in words, in the same order.
    """
    found = [
        _difference("demographic_parity_difference", "selection_rate", counted, labels, confidence),
        _ratio("demographic_parity_ratio", "selection_rate", counted, labels, confidence),
        _difference("equal_opportunity_difference", "true_positive_rate", counted, labels, confidence),
        _equalized_odds(counted, labels, confidence),
        _difference("accuracy_difference", "accuracy", counted, labels, confidence),
        _calibration(counted, labels, confidence),
    ]
    return tuple(gap for gap in found if gap is not None)


def _difference(
    name: str, metric: str, counted: Counts, labels: Sequence[str], confidence: float, *, comparisons: int = 1
) -> Gap | None:
    """The gap of a rate, one of so many ``comparisons`` that are to hold together."""
    k, n = counted.rates[metric]
    usable = _usable(counted, n > 0)
    if usable is None:
        return None
    k, n = k[usable], n[usable]
    ends = _extremes(k / n, n)
    low, high = largest_difference_of_proportions(k, n, bonferroni(confidence, comparisons))
    exact = "Newcombe hybrid score" if len(usable) == 2 else "squared and added Clopper-Pearson limits"
    return Gap(
        name=name,
        metric=metric,
        value=Observed(
            value=ends.difference,
            n=ends.people,
            low=low,
            high=high,
            confidence=confidence,
            method=exact + _simultaneous(len(usable), comparisons),
        ),
        best=labels[usable[ends.best]],
        worst=labels[usable[ends.worst]],
    )


def _ratio(name: str, metric: str, counted: Counts, labels: Sequence[str], confidence: float) -> Gap | None:
    k, n = counted.rates[metric]
    usable = _usable(counted, n > 0)
    if usable is None:
        return None
    k, n = k[usable], n[usable]
    ends = _extremes(k / n, n)
    limits = "Wilson" if len(usable) == 2 else "Clopper-Pearson"
    value: Observed | Unknown = Unknown(reason="the highest rate is 0, and nothing can be divided by it")
    if ends.ratio is not None:
        low, high = smallest_ratio_of_proportions(k, n, confidence)
        value = Observed(
            value=ends.ratio,
            n=ends.people,
            low=low,
            high=high,
            confidence=confidence,
            method=f"Donner-Zou ratio of {limits} limits" + _simultaneous(len(usable)),
        )
    return Gap(name=name, metric=metric, value=value, best=labels[usable[ends.best]], worst=labels[usable[ends.worst]])


def _equalized_odds(counted: Counts, labels: Sequence[str], confidence: float) -> Gap | None:
    """The larger of the two rates' gaps (Hardt, Price & Srebro, NeurIPS 2016); both rates are needed."""
    name = "equalized_odds_difference"
    parts = [
        _difference(name, metric, counted, labels, confidence, comparisons=2)
        for metric in ("true_positive_rate", "false_positive_rate")
    ]
    known = [(part, part.value) for part in parts if part is not None and isinstance(part.value, Observed)]
    if len(known) < 2:
        return None
    larger, value = max(known, key=lambda pair: pair[1].value)
    # The true larger gap lies between the larger of the lower and the larger of the upper ends.
    low, high = (max(getattr(quantity, end) for _, quantity in known) for end in ("low", "high"))
    return larger.model_copy(update={"value": value.model_copy(update={"low": low, "high": high})})


def _calibration(counted: Counts, labels: Sequence[str], confidence: float) -> Gap | None:
    metric = "calibration_gap"
    if metric not in counted.moments:
        return None
    usable = _usable(counted, counted.size > 0)
    if usable is None:
        return None
    moments = counted.moments[metric]
    mean, size = moments.mean[usable], counted.size[usable]
    low, high = largest_difference_of_means(
        mean, moments.variance[usable], size, confidence, lower=moments.lower, upper=moments.upper
    )
    ends = _extremes(mean, size)
    return Gap(
        name="calibration_difference",
        metric=metric,
        value=Observed(
            value=ends.difference,
            n=ends.people,
            low=low,
            high=high,
            confidence=confidence,
            method="Welch's t (Hoeffding without spread)" + _simultaneous(len(usable)),
        ),
        best=labels[usable[ends.best]],
        worst=labels[usable[ends.worst]],
    )


def _usable(counted: Counts, defined: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """Positions of the groups to compare; None if there are fewer than two."""
    usable = np.flatnonzero((counted.size >= SMALL) & defined)
    return usable if len(usable) >= 2 else None


def _extremes(values: NDArray[np.float64], n: NDArray[np.int64]) -> _Extremes:
    best = int(np.argmax(values))
    worst = len(values) - 1 - int(np.argmin(values[::-1]))  # on a tie of all, another one than the best
    high, low = float(values[best]), float(values[worst])
    return _Extremes(best, worst, high - low, low / high if high > 0 else None, int(n.sum()))


def _simultaneous(groups: int, comparisons: int = 1) -> str:
    compared = pairs(groups) * comparisons
    return "" if compared == 1 else f", simultaneous over {compared} comparisons (Bonferroni)"
