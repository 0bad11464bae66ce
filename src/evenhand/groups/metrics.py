"""The metrics of groups, from counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.groups.result import METRIC_NAMES
from evenhand.groups.tally import Tally
from evenhand.stats import Quantity, Unknown, observed_means, observed_rates

NOBODY_DESERVING = "nobody here truly has the favourable label"
EVERYBODY_DESERVING = "everybody here truly has the favourable label"
NOBODY_FAVOURED = "the model gives nobody here the favourable label"


@dataclass(frozen=True)
class Moments:
    """Mean and sample variance (divisor n - 1; 0 for one person) of a number in each group, each of shape (groups,).

    Attributes:
        lower, upper: the range of one person's number.
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    lower: float
    upper: float


@dataclass(frozen=True)
class Counts:
    """What is counted in each group, each of shape (groups,).

    Attributes:
        size: people. The rates below are ``(k, n)``, by metric: k of n people.
        rates: selection_rate, base_rate, true_positive_rate, false_positive_rate, accuracy, precision.
        moments: mean_score and calibration_gap (score - truth per person), empty without scores.
    """

    size: NDArray[np.int64]
    rates: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]
    moments: dict[str, Moments]


def counts(tally: Tally, group: NDArray[np.int64], groups: int) -> Counts:
    """Add kinds up to groups.

    Args:
        group: which group each kind of the tally belongs to, shape (kinds,).
        groups: how many there are.
    """

    def people(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(group[chosen], weights=tally.n[chosen], minlength=groups).astype(np.int64)

    hits = people(tally.favoured & tally.deserving)
    false_alarms = people(tally.favoured & ~tally.deserving)
    misses = people(~tally.favoured & tally.deserving)
    rejections = people(~tally.favoured & ~tally.deserving)
    favoured, deserving, undeserving = hits + false_alarms, hits + misses, false_alarms + rejections
    size = deserving + undeserving
    moments = {}
    if tally.mean is not None and tally.spread is not None:
        truth = tally.deserving.astype(np.float64)
        moments = {
            "mean_score": _moments(tally.mean, tally.spread, tally.n, group, size, 0.0),
            "calibration_gap": _moments(tally.mean - truth, tally.spread, tally.n, group, size, -1.0),
        }
    return Counts(
        size=size,
        rates={
            "selection_rate": (favoured, size),
            "base_rate": (deserving, size),
            "true_positive_rate": (hits, deserving),
            "false_positive_rate": (false_alarms, undeserving),
            "accuracy": (hits + rejections, size),
            "precision": (hits, favoured),
        },
        moments=moments,
    )


def metrics(counted: Counts, confidence: float, *, why_no_scores: str) -> list[dict[str, Quantity]]:
    """The metrics of every group by name, each with its interval or the reason why it is unknown.

    Rates have exact (Clopper-Pearson) intervals, means Student's.

    Args:
        why_no_scores: the reason to give for mean score and calibration gap where there are no probabilities.
    """
    reasons = {
        "true_positive_rate": NOBODY_DESERVING,
        "false_positive_rate": EVERYBODY_DESERVING,
        "precision": NOBODY_FAVOURED,
    }
    found: dict[str, list[Quantity]] = {}
    for name in METRIC_NAMES:
        if name in counted.rates:
            k, n = counted.rates[name]
            found[name] = list(observed_rates(k, n, confidence, if_empty=reasons.get(name, "there is nobody here")))
        elif name in counted.moments:
            moments = counted.moments[name]
            ends = {"lower": moments.lower, "upper": moments.upper}
            found[name] = list(observed_means(moments.mean, moments.variance, counted.size, confidence, **ends))
        else:
            found[name] = [Unknown(reason=why_no_scores)] * len(counted.size)
    return [{name: found[name][i] for name in METRIC_NAMES} for i in range(len(counted.size))]


def _moments(
    mean: NDArray[np.float64],
    spread: NDArray[np.float64],
    n: NDArray[np.int64],
    group: NDArray[np.int64],
    size: NDArray[np.int64],
    lower: float,
) -> Moments:
    """Join kinds: spread within them, and of their means around the group's (Chan, Golub & LeVeque 1979)."""
    groups = len(size)
    total = np.bincount(group, weights=n * mean, minlength=groups) / size
    within = np.bincount(group, weights=spread + n * (mean - total[group]) ** 2, minlength=groups)
    return Moments(mean=total, variance=within / np.maximum(size - 1, 1), lower=lower, upper=1.0)
