"""Metrics of groups: rates, errors and calibration of each group, and the gaps between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.groups.membership import Membership
from evenhand.groups.result import METRIC_NAMES, Gap
from evenhand.stats import (
    Observed,
    Quantity,
    Unknown,
    bonferroni,
    count_pairs,
    has_score_limits,
    largest_difference_of_means,
    largest_difference_of_proportions,
    observed_means,
    observed_rates,
    smallest_ratio_of_proportions,
)
from evenhand.typing import Booleans, Floats, Integers

NOBODY_DESERVING = "no one here truly has the favourable label"
EVERYBODY_DESERVING = "everybody here truly has the favourable label"
NOBODY_FAVOURED = "the model gives no one here the favourable label"


@dataclass(frozen=True)
class GroupMoments:
    """Mean and sample variance (divisor n - 1; 0 for one person) of a number in each group, each of shape (groups,).

    Attributes:
        lower, upper: the range of one person's number.
    """

    mean: Floats
    variance: Floats
    lower: float
    upper: float


@dataclass(frozen=True)
class GroupCounts:
    """What is counted in each group, each of shape (groups,).

    Attributes:
        size: people. The rates below are ``(k, n)``, by metric: k of n people.
        rates: selection_rate; with true labels base_rate, true_positive_rate, false_positive_rate, accuracy and
            precision.
        moments: mean_score, and with true labels calibration_gap (score - truth per person); empty without scores.
    """

    size: Integers
    rates: dict[str, tuple[Integers, Integers]]
    moments: dict[str, GroupMoments]


def count_groups(tally: ContingencyTable, group: Integers, groups: int) -> GroupCounts:
    """Add kinds up to groups.

    Args:
        group: which group each kind of the tally belongs to, shape (kinds,).
        groups: how many there are.
    """

    def people(chosen: Booleans) -> Integers:
        return np.bincount(group[chosen], weights=tally.n[chosen], minlength=groups).astype(np.int64)

    size = people(np.ones(len(tally.n), dtype=bool))
    favoured = people(tally.favoured)
    rates, moments = {"selection_rate": (favoured, size)}, {}
    if tally.mean is not None and tally.spread is not None:
        moments["mean_score"] = _pool_moments(tally.mean, tally.spread, tally.n, group, size, 0.0)
    if tally.deserving is not None:
        deserving, hits = people(tally.deserving), people(tally.favoured & tally.deserving)
        rates |= {
            "base_rate": (deserving, size),
            "true_positive_rate": (hits, deserving),
            "false_positive_rate": (favoured - hits, size - deserving),
            "accuracy": (size - favoured - deserving + 2 * hits, size),
            "precision": (hits, favoured),
        }
        if tally.mean is not None and tally.spread is not None:
            # Score minus true label: its mean in a group is the group's calibration error, from -1 to 1.
            errors = tally.mean - tally.deserving
            moments["calibration_gap"] = _pool_moments(errors, tally.spread, tally.n, group, size, -1.0)
    return GroupCounts(size=size, rates=rates, moments=moments)


def compute_metrics(counted: GroupCounts, confidence: float, *, why_no_scores: str) -> list[dict[str, Quantity]]:
    """Return the metrics of every group by name, each with its interval or the reason why it is unknown.

    Rates have exact (Clopper-Pearson) intervals, means Student's. Without true labels there are no metrics that need
    them.

    Args:
        why_no_scores: the reason to give for mean score and calibration gap where there are no probabilities.
    """
    reasons = {
        "true_positive_rate": NOBODY_DESERVING,
        "false_positive_rate": EVERYBODY_DESERVING,
        "precision": NOBODY_FAVOURED,
    }
    found: dict[str, list[Quantity]] = {}
    known = counted.rates.keys() | counted.moments.keys()
    names = METRIC_NAMES if "base_rate" in known else tuple(name for name in METRIC_NAMES if name in known)
    for name in names:
        if name in counted.rates:
            k, n = counted.rates[name]
            found[name] = list(observed_rates(k, n, confidence, if_empty=reasons.get(name, "there are no people here")))
        elif name in counted.moments:
            moments = counted.moments[name]
            ends = {"lower": moments.lower, "upper": moments.upper}
            found[name] = list(observed_means(moments.mean, moments.variance, counted.size, confidence, **ends))
        else:
            found[name] = [Unknown(reason=why_no_scores)] * len(counted.size)
    return [{name: found[name][i] for name in names} for i in range(len(counted.size))]


def _pool_moments(
    mean: Floats,
    spread: Floats,
    n: Integers,
    group: Integers,
    size: Integers,
    lower: float,
) -> GroupMoments:
    """Join kinds: spread within them, and of their means around the group's (Chan, Golub & LeVeque 1979)."""
    groups = len(size)
    total = np.bincount(group, weights=n * mean, minlength=groups) / size
    within = np.bincount(group, weights=spread + n * (mean - total[group]) ** 2, minlength=groups)
    return GroupMoments(mean=total, variance=within / np.maximum(size - 1, 1), lower=lower, upper=1.0)


# Everybody counted once: how many people of each kind there are, and the sums of their scores.
#
# A kind is a combination of protected values, tenth of the score, decision and true label. Every metric of every group
# and intersection is a sum over kinds, so the people themselves are passed over once, however many groups there are.

TENTHS = 10
DENSE = 1 << 22
"""Combinations up to this many are counted in a table with a place for each; beyond it, or beyond what the people could
fill, the combinations that occur are found by sorting."""


@dataclass(frozen=True)
class ContingencyTable:
    """One row per kind of people that occurs.

    Attributes:
        cells: the group by each protected attribute, shape (kinds, attributes).
        tenth: tenth of the favourable score, 0 to 9 (all 0 without scores), shape (kinds,).
        favoured: whether the model gives them the favourable label, shape (kinds,).
        deserving: whether their true label is favourable, shape (kinds,); None where true labels are not known.
        n: how many people, shape (kinds,).
        mean, spread: of their scores, the mean and the sum of squared distances from it, shape (kinds,);
            None without scores.
    """

    cells: Integers
    tenth: Integers
    favoured: Booleans
    deserving: Booleans | None
    n: Integers
    mean: Floats | None
    spread: Floats | None


def cross_tabulate(
    memberships: Sequence[Membership],
    favoured: Booleans,
    deserving: Booleans | None,
    scores: Floats | None,
) -> ContingencyTable:
    """Count people by kind.

    Args:
        memberships: the group of each person by each protected attribute.
        favoured, deserving: decision and truth, shape (n,); no truth where it is not known.
        scores: probability of the favourable label, in [0, 1], shape (n,).
    """
    columns = [(membership.codes, len(membership.labels)) for membership in memberships]
    if scores is not None:
        columns.append((np.minimum((scores * TENTHS).astype(np.int64), TENTHS - 1), TENTHS))
    truth = np.zeros_like(favoured) if deserving is None else deserving
    columns += [(favoured.astype(np.int64), 2), (truth.astype(np.int64), 2)]
    kind, keys = number_combinations(columns)
    n = np.bincount(kind, minlength=len(keys))
    mean: Floats | None = None
    spread: Floats | None = None
    if scores is not None:
        mean = np.bincount(kind, weights=scores, minlength=len(keys)) / n
        # A second pass over the distances: sums of squares would cancel where scores hardly differ.
        distances = np.square(scores - mean[kind])
        spread = np.asarray(np.bincount(kind, weights=distances, minlength=len(keys)), dtype=np.float64)
    protected = len(memberships)
    return ContingencyTable(
        cells=keys[:, :protected],
        tenth=np.zeros(len(keys), dtype=np.int64) if scores is None else keys[:, protected],
        favoured=keys[:, -2] == 1,
        deserving=None if deserving is None else keys[:, -1] == 1,
        n=n,
        mean=mean,
        spread=spread,
    )


def number_combinations(
    columns: Sequence[tuple[Integers, int]],
) -> tuple[Integers, Integers]:
    """Return the number the combinations of several codes that occur, in lexicographic order.

    Args:
        columns: codes (n,) and how many there may be, for each.

    Returns:
        The number of each row's combination, shape (n,), and the codes of each combination, (combinations, columns).
    """
    rows = len(columns[0][0])
    combined = np.zeros(rows, dtype=np.int64)
    keys = np.empty((1, 0), dtype=np.int64)
    for codes, size in columns:
        combined = combined * size + codes
        places = len(keys) * size
        if places <= max(DENSE, 4 * rows):
            occurs = np.bincount(combined, minlength=places) > 0
            found = np.flatnonzero(occurs)
            if len(found) < places:
                combined = (np.cumsum(occurs) - 1)[combined]
        else:
            found, combined = np.unique(combined, return_inverse=True)
        keys = np.column_stack([keys[found // size], found % size])
    return combined, keys


DENOMINATORS = {
    "selection_rate": "people",
    "true_positive_rate": "people whose true label is favourable",
    "false_positive_rate": "people whose true label is unfavourable",
    "accuracy": "people",
    "calibration_gap": "people",
}
"""Metric -> who is counted below the line of its rate."""


class _Extremes(NamedTuple):
    best: int
    worst: int
    difference: float
    ratio: float | None
    people: int


class GroupComparison(NamedTuple):
    """What gaps are computed from.

    Attributes:
        counted: what was counted in each group.
        labels: the groups in words, in the same order.
        confidence: of every interval.
        least: the smallest denominator of a rate that is compared.
    """

    counted: GroupCounts
    labels: Sequence[str]
    confidence: float
    least: int

    def split(self, n: Integers) -> tuple[Integers, dict[str, int]]:
        """Return the positions of the groups with a denominator to compare, and the others with theirs."""
        enough = n >= self.least
        return np.flatnonzero(enough), {self.labels[i]: int(n[i]) for i in np.flatnonzero(~enough).tolist()}


def compute_gaps(comparison: GroupComparison) -> tuple[Gap, ...]:
    """Return the gaps between two or more groups, each over those whose rate rests on enough people.

    A gap that fewer than two groups have is unknown, with the reason. There is none of what is not known: true labels,
    scores.
    """
    if len(comparison.labels) < 2:
        return ()
    found = [
        _difference_gap("demographic_parity_difference", "selection_rate", comparison),
        _ratio_gap("demographic_parity_ratio", "selection_rate", comparison),
    ]
    if "base_rate" in comparison.counted.rates:
        found += [
            _difference_gap("equal_opportunity_difference", "true_positive_rate", comparison),
            _equalized_odds_gap(comparison),
            _difference_gap("accuracy_difference", "accuracy", comparison),
        ]
    if "calibration_gap" in comparison.counted.moments:
        found.append(_calibration_gap(comparison))
    return tuple(found)


def _difference_gap(name: str, metric: str, comparison: GroupComparison, *, comparisons: int = 1) -> Gap:
    """Return the gap of a rate, one of so many ``comparisons`` that are to hold together."""
    k, n = comparison.counted.rates[metric]
    usable, left_out = comparison.split(n)
    if len(usable) < 2:
        return _unknown_gap(name, metric, comparison, left_out)
    k, n = k[usable], n[usable]
    ends = _find_extremes(k / n, n)
    low, high = largest_difference_of_proportions(k, n, bonferroni(comparison.confidence, comparisons))
    limits = "Newcombe hybrid score" if has_score_limits(n) else "squared and added Clopper-Pearson limits"
    method = limits + _interval_note(len(usable), comparisons)
    value = Observed(
        value=ends.difference, n=ends.people, low=low, high=high, confidence=comparison.confidence, method=method
    )
    return _known_gap(name, metric, value, comparison, usable, ends, left_out)


def _ratio_gap(name: str, metric: str, comparison: GroupComparison) -> Gap:
    k, n = comparison.counted.rates[metric]
    usable, left_out = comparison.split(n)
    if len(usable) < 2:
        return _unknown_gap(name, metric, comparison, left_out)
    k, n = k[usable], n[usable]
    ends = _find_extremes(k / n, n)
    limits = "Wilson" if has_score_limits(n) else "Clopper-Pearson"
    value: Observed | Unknown = Unknown(reason="the highest rate is 0, and nothing can be divided by it")
    if ends.ratio is not None:
        low, high = smallest_ratio_of_proportions(k, n, comparison.confidence)
        method = f"Donner-Zou ratio of {limits} limits" + _interval_note(len(usable))
        value = Observed(
            value=ends.ratio, n=ends.people, low=low, high=high, confidence=comparison.confidence, method=method
        )
    return _known_gap(name, metric, value, comparison, usable, ends, left_out)


def _equalized_odds_gap(comparison: GroupComparison) -> Gap:
    """Return the larger of the two rates' gaps (Hardt, Price & Srebro, NeurIPS 2016); both rates are needed."""
    name = "equalized_odds_difference"
    parts = [
        _difference_gap(name, metric, comparison, comparisons=2)
        for metric in ("true_positive_rate", "false_positive_rate")
    ]
    left_out = parts[1].not_assessable | parts[0].not_assessable
    known = [(part, part.value) for part in parts if isinstance(part.value, Observed)]
    if len(known) < 2:
        unknown = next(part for part in parts if isinstance(part.value, Unknown))
        return unknown.model_copy(update={"not_assessable": left_out})
    larger, value = max(known, key=lambda pair: pair[1].value)
    # The true larger gap lies between the larger of the lower and the larger of the upper ends.
    low, high = (max(getattr(quantity, end) for _, quantity in known) for end in ("low", "high"))
    ends = value.model_copy(update={"low": low, "high": high})
    return larger.model_copy(update={"value": ends, "not_assessable": left_out})


def _calibration_gap(comparison: GroupComparison) -> Gap:
    name, metric, counted = "calibration_difference", "calibration_gap", comparison.counted
    usable, left_out = comparison.split(counted.size)
    if len(usable) < 2:
        return _unknown_gap(name, metric, comparison, left_out)
    moments = counted.moments[metric]
    mean, size = moments.mean[usable], counted.size[usable]
    low, high = largest_difference_of_means(
        mean, moments.variance[usable], size, comparison.confidence, lower=moments.lower, upper=moments.upper
    )
    ends = _find_extremes(mean, size)
    method = "squared and added limits of Student's t, observations added" + _interval_note(len(usable))
    value = Observed(
        value=ends.difference, n=ends.people, low=low, high=high, confidence=comparison.confidence, method=method
    )
    return _known_gap(name, metric, value, comparison, usable, ends, left_out)


def _known_gap(
    name: str,
    metric: str,
    value: Observed | Unknown,
    comparison: GroupComparison,
    usable: Integers,
    ends: _Extremes,
    left_out: dict[str, int],
) -> Gap:
    best, worst = (comparison.labels[usable[i]] for i in (ends.best, ends.worst))
    return Gap(name=name, metric=metric, value=value, best=best, worst=worst, not_assessable=left_out)


def _unknown_gap(name: str, metric: str, comparison: GroupComparison, left_out: dict[str, int]) -> Gap:
    reason = f"{DENOMINATORS[metric]} must number {comparison.least} in at least two groups"
    return Gap(name=name, metric=metric, value=Unknown(reason=reason), best="", worst="", not_assessable=left_out)


def _find_extremes(values: Floats, n: Integers) -> _Extremes:
    best = int(np.argmax(values))
    worst = len(values) - 1 - int(np.argmin(values[::-1]))  # on a tie of all, another one than the best
    high, low = float(values[best]), float(values[worst])
    return _Extremes(best, worst, high - low, low / high if high > 0 else None, int(n.sum()))


def _interval_note(groups: int, comparisons: int = 1) -> str:
    compared = count_pairs(groups) * comparisons
    return "" if compared == 1 else f", simultaneous over {compared} comparisons (Bonferroni)"
