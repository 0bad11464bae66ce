"""Metrics of groups: everybody counted once by kind, and the rates, errors and calibration of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.membership import Membership
from evenhand.schema.columns import PeopleWeights
from evenhand.stats.mean import observed_means
from evenhand.stats.metric_specs import METRIC_NAMES
from evenhand.stats.proportion import effective_counts, observed_rates
from evenhand.stats.quantity import Observed, Quantity, Unknown

EFFECTIVE = ", of effective sample sizes (weights; Korn-Graubard)"
NO_LABEL = "no person here has a known true label"
NO_WEIGHT = "no person here has a weight above 0"
IF_EMPTY = {
    "selection_rate": "there are no people here",
    "base_rate": NO_LABEL,
    "true_positive_rate": "no true label here is known to be favourable",
    "false_positive_rate": "no true label here is known to be unfavourable",
    "accuracy": NO_LABEL,
    "precision": "no selected person here has a known true label",
    "false_discovery_rate": "no selected person here has a known true label",
    "false_omission_rate": "no person here who is not selected has a known true label",
}
"""Rate -> the reason why it is unknown where its denominator is 0."""


@dataclass(frozen=True)
class GroupMoments:
    """Mean and sample variance (divisor n - 1; 0 for one person) of a number in each group, each of shape (groups,).

    Attributes:
        people: Number of people that the mean rests on, shape (groups,).
        effective: Kish's effective size of these people; without weights, ``people``.
        lower, upper: the range of one person's number.
    """

    mean: Floats
    variance: Floats
    people: Integers
    effective: Floats | Integers
    lower: float
    upper: float


class RateCounts(NamedTuple):
    """A rate of each group: k of n, each of shape (groups,).

    Of a weighted sample, n is the effective size: as many people, drawn alike, give a rate as surely; k is the weighted
    share of them (Korn & Graubard, "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data", Survey Methodology 1998). ``people`` is how many there are.
    """

    k: Floats | Integers
    n: Floats | Integers
    people: Integers


@dataclass(frozen=True)
class GroupCounts:
    """What is counted in each group, each of shape (groups,).

    Attributes:
        size: Number of people.
        effective: Kish's effective size of all people; without weights, ``size``.
        weighting: How intervals take weights into account, to stand after a method; empty without weights.
        rates: selection_rate; with true labels base_rate, true_positive_rate, false_positive_rate, accuracy, precision,
            false_discovery_rate and false_omission_rate, each over people with a true label only.
        moments: mean_score, and with true labels calibration_gap (score minus true label of each person with a true
            label); empty without scores.
    """

    size: Integers
    effective: Floats | Integers
    weighting: str
    rates: dict[str, RateCounts]
    moments: dict[str, GroupMoments]

    @property
    def weighted(self) -> bool:
        """Whether people have weights."""
        return bool(self.weighting)


def count_groups(tally: ContingencyTable, group: Integers, groups: int) -> GroupCounts:
    """Add kinds up to groups.

    Args:
        group: which group each kind of the tally belongs to, shape (kinds,).
        groups: how many there are.
    """

    def people(chosen: Booleans) -> Integers:
        return np.bincount(group[chosen], weights=tally.n[chosen], minlength=groups).astype(np.int64)

    def rate(given: Booleans, among: Booleans) -> RateCounts:
        if tally.weights is None:
            n = people(among)
            return RateCounts(people(given & among), n, n)
        total, squares = tally.weights[:2]
        below, above = (
            (_sums(group[kept], total[kept], groups), _sums(group[kept], squares[kept], groups))
            for kept in (among, among & given)
        )
        return RateCounts(*effective_counts(below, above, people(among)), people(among))

    everyone, selected = np.ones(len(tally.n), dtype=bool), tally.selected
    size = people(everyone)
    rates, moments = {"selection_rate": rate(selected, everyone)}, {}
    if tally.mean is not None:
        moments["mean_score"] = _pool_moments(tally, 0.0, group, groups, 0.0)
    if tally.true_labels is not None:
        labelled, positive, negative = tally.true_labels >= 0, tally.true_labels == 1, tally.true_labels == 0
        rates |= {
            "base_rate": rate(positive, labelled),
            "true_positive_rate": rate(selected, positive),
            "false_positive_rate": rate(selected, negative),
            "accuracy": rate(selected == positive, labelled),
            "precision": rate(positive, selected & labelled),
            "false_discovery_rate": rate(negative, selected & labelled),
            "false_omission_rate": rate(positive, ~selected & labelled),
        }
        if tally.mean is not None:
            # Score minus true label: its mean in a group is the group's calibration error, from -1 to 1.
            moments["calibration_gap"] = _pool_moments(
                tally.at(labelled), tally.true_labels[labelled], group[labelled], groups, -1.0
            )
    effective: Floats | Integers = size
    if tally.weights is not None:
        total, squares = (_sums(group, part, groups) for part in tally.weights[:2])
        effective = total**2 / np.where(squares > 0, squares, 1)
    weighting = "" if tally.weights is None else EFFECTIVE
    return GroupCounts(size=size, effective=effective, weighting=weighting, rates=rates, moments=moments)


def count_benefits(tally: ContingencyTable) -> Floats:
    """Count the people wrongly not selected, correctly decided and wrongly selected, shape (3,).

    Only people with a true label are counted. With weights, the counts are weighted shares of Kish's effective size.
    """
    assert tally.true_labels is not None
    labelled = tally.true_labels >= 0
    benefit = 1 + tally.selected[labelled].astype(np.int64) - tally.true_labels[labelled]
    tally = tally.at(labelled)
    if tally.weights is None:
        return _sums(benefit, tally.n.astype(np.float64), 3)
    total, squares = tally.weights[:2]
    return np.asarray(_sums(benefit, total, 3) * total.sum() / squares.sum())


def _sums(group: Integers, values: Floats, groups: int) -> Floats:
    return np.asarray(np.bincount(group, weights=values, minlength=groups), dtype=np.float64)


def compute_metrics(counted: GroupCounts, confidence: float, *, why_no_scores: str) -> list[dict[str, Quantity]]:
    """Compute the metrics of every group by name, each with its interval or the reason why it is unknown.

    Rates have exact (Clopper-Pearson) intervals, means Student's. Without true labels, metrics that need them are left
    out.

    Args:
        why_no_scores: Reason given for the mean score and the calibration gap where there are no probabilities.
    """
    found: dict[str, list[Quantity]] = {}
    known = counted.rates.keys() | counted.moments.keys()
    names = METRIC_NAMES if "base_rate" in known else tuple(name for name in METRIC_NAMES if name in known)
    for name in names:
        if name in counted.rates:
            found[name] = list(
                measure_rates(
                    counted.rates[name],
                    confidence,
                    weighting=counted.weighting,
                    if_empty=IF_EMPTY[name],
                )
            )
        elif name in counted.moments:
            moments = counted.moments[name]
            ends = {"lower": moments.lower, "upper": moments.upper}
            size = np.maximum(moments.effective, 1)
            means = observed_means(moments.mean, moments.variance, size, confidence, **ends)
            found[name] = [
                mean if effective > 0 else Unknown(reason=NO_WEIGHT if people else NO_LABEL)
                for mean, effective, people in zip(
                    _of_people(means, moments.people, counted.weighting),
                    moments.effective.tolist(),
                    moments.people.tolist(),
                    strict=True,
                )
            ]
        else:
            found[name] = [Unknown(reason=why_no_scores)] * len(counted.size)
    return [{name: found[name][i] for name in names} for i in range(len(counted.size))]


def measure_rates(
    counts: RateCounts, confidence: float, *, weighting: str, if_empty: str = "there are no people to count"
) -> list[Observed | Unknown]:
    """Return the rate of each group with its exact interval, by effective counts where people have weights."""
    found = observed_rates(counts.k, counts.n, confidence, if_empty=if_empty)
    return _of_people(found, counts.people, weighting)


def _of_people(quantities: Sequence[Any], people: Integers, weighting: str) -> list[Any]:
    """Return quantities that say how many people they rest on, where effective counts stood for them."""
    if not weighting:
        return list(quantities)
    return [
        one.model_copy(update={"n": n, "method": one.method + weighting}) if isinstance(one, Observed) else one
        for one, n in zip(quantities, people.tolist(), strict=True)
    ]


def _pool_moments(
    tally: ContingencyTable, shift: Integers | float, group: Integers, groups: int, lower: float
) -> GroupMoments:
    """Compute mean and variance of score minus ``shift`` in each group.

    Kinds are joined by the spread within them and of their means around the group's (Chan, Golub & LeVeque 1979). With
    weights, the variance is such that, divided by the effective size n, it is the linearised one of the weighted mean
    m, sum(w^2 (x - m)^2) / sum(w)^2, times n / (n - 1).
    """
    assert tally.mean is not None
    assert tally.spread is not None
    mean, people = tally.mean - shift, np.bincount(group, weights=tally.n, minlength=groups).astype(np.int64)
    if tally.weights is None:
        total = _sums(group, tally.n * mean, groups) / np.maximum(people, 1)
        within = _sums(group, tally.spread + tally.n * (mean - total[group]) ** 2, groups)
        return GroupMoments(total, within / np.maximum(people - 1, 1), people, people, lower, 1.0)
    weights, squares, scored, squares_scored, squares_spread = tally.weights
    every, whole = _sums(group, squares, groups), _sums(group, weights, groups)
    effective = whole**2 / np.where(every > 0, every, 1)
    whole = np.where(whole > 0, whole, 1)
    total = _sums(group, scored - weights * shift, groups) / whole
    # sum(w^2 (x - m)^2) of each kind, around its own w^2-weighted mean first.
    centre = squares_scored / np.where(squares > 0, squares, 1) - shift
    within = _sums(group, squares_spread + squares * (centre - total[group]) ** 2, groups)
    variance = within / whole**2 * effective**2 / np.maximum(effective - 1, 1)
    return GroupMoments(total, variance, people, effective, lower, 1.0)


# Everybody counted once: how many people of each kind there are, and the sums of their scores.
#
# A kind is a combination of protected values, tenth of the score, decision and true label. Every metric of every group
# and intersection is a sum over kinds, so the people themselves are passed over once, however many groups there are.

TENTHS = 10
UNKNOWN_LABEL = -1
DENSE = 1 << 22
"""Combinations up to this many are counted in a table with a place for each; beyond it, or beyond what the people could
fill, the combinations that occur are found by sorting."""


class WeightSums(NamedTuple):
    """Sums over the people of each kind, each of shape (kinds,).

    Attributes:
        total, squares: of the weights w, and of w^2.
        scored, squares_scored: of w x and of w^2 x, for scores x; zeros without scores.
        squares_spread: of w^2 (x - c)^2 around the kind's c = sum(w^2 x) / sum(w^2).
    """

    total: Floats
    squares: Floats
    scored: Floats
    squares_scored: Floats
    squares_spread: Floats


@dataclass(frozen=True)
class ContingencyTable:
    """One row per kind of people that occurs.

    Attributes:
        cells: the group by each protected attribute, shape (kinds, attributes).
        tenth: tenth of the favourable score, 0 to 9 (all 0 without scores), shape (kinds,).
        selected: Whether the decision is the favourable label, shape (kinds,).
        true_labels: 1 favourable, 0 unfavourable, -1 unknown, shape (kinds,); None without true labels.
        n: how many people, shape (kinds,).
        mean, spread: of their scores, the mean and the sum of squared distances from it, shape (kinds,);
            None without scores.
        weights: sums of the people's weights; None where they have none.
    """

    cells: Integers
    tenth: Integers
    selected: Booleans
    true_labels: Integers | None
    n: Integers
    mean: Floats | None
    spread: Floats | None
    weights: WeightSums | None = None

    def at(self, kinds: Booleans) -> ContingencyTable:
        """Return the table of some kinds of people alone."""

        def part(column: Any) -> Any:
            return None if column is None else column[kinds]

        return ContingencyTable(
            self.cells[kinds],
            self.tenth[kinds],
            self.selected[kinds],
            part(self.true_labels),
            self.n[kinds],
            part(self.mean),
            part(self.spread),
            None if self.weights is None else WeightSums(*(column[kinds] for column in self.weights)),
        )


def cross_tabulate(
    memberships: Sequence[Membership],
    selected: Booleans,
    true_labels: Integers | None,
    scores: Floats | None,
    weights: PeopleWeights | None = None,
) -> ContingencyTable:
    """Count people by kind.

    Args:
        memberships: the group of each person by each protected attribute.
        selected: Whether the decision is the favourable label, shape (n,).
        true_labels: 1 favourable, 0 unfavourable, -1 unknown, shape (n,); None without true labels.
        scores: probability of the favourable label, in [0, 1], shape (n,).
        weights: of each person.
    """
    tenth = None if scores is None else np.minimum((scores * TENTHS).astype(np.int64), TENTHS - 1)
    kind, keys = _find_kinds(memberships, tenth, selected, true_labels)
    n = np.bincount(kind, minlength=len(keys))
    mean: Floats | None = None
    spread: Floats | None = None
    if scores is not None:
        mean = np.bincount(kind, weights=scores, minlength=len(keys)) / n
        # A second pass over the distances: sums of squares would cancel where scores hardly differ.
        distances = np.square(scores - mean[kind])
        spread = np.asarray(np.bincount(kind, weights=distances, minlength=len(keys)), dtype=np.float64)
    sums = None if weights is None else _add_weights(weights.values, scores, kind, len(keys))
    return _tabulate(keys, len(memberships), n, mean, spread, sums, labelled=true_labels is not None)


def cross_tabulate_counts(
    memberships: Sequence[Membership],
    selected: Booleans,
    true_labels: Integers | None,
    counts: Integers,
) -> ContingencyTable:
    """Count people by kind who were counted by what they share, as ``cross_tabulate`` counts single people.

    Args:
        memberships: the group of each cell by each protected attribute.
        selected: Whether the decision is the favourable label, shape (cells,).
        true_labels: 1 favourable, 0 unfavourable, -1 unknown, shape (cells,); None without true labels.
        counts: people in each, shape (cells,).
    """
    kind, keys = _find_kinds(memberships, None, selected, true_labels)
    n = np.zeros(len(keys), dtype=np.int64)
    np.add.at(n, kind, counts)
    return _tabulate(keys, len(memberships), n, None, None, labelled=true_labels is not None)


def _find_kinds(
    memberships: Sequence[Membership], tenth: Integers | None, selected: Booleans, true_labels: Integers | None
) -> tuple[Integers, Integers]:
    """Return the kind of each person or cell, and what each kind is: groups, tenth of the score, decision, label."""
    columns = [(membership.codes, len(membership.labels)) for membership in memberships]
    if tenth is not None:
        columns.append((tenth, TENTHS))
    labels = np.full(len(selected), UNKNOWN_LABEL) if true_labels is None else true_labels
    return number_combinations([*columns, (selected.astype(np.int64), 2), (labels - UNKNOWN_LABEL, 3)])


def _tabulate(
    keys: Integers,
    protected: int,
    n: Integers,
    mean: Floats | None,
    spread: Floats | None,
    weights: WeightSums | None = None,
    *,
    labelled: bool,
) -> ContingencyTable:
    return ContingencyTable(
        cells=keys[:, :protected],
        tenth=np.zeros(len(keys), dtype=np.int64) if mean is None else keys[:, protected],
        selected=keys[:, -2] == 1,
        true_labels=keys[:, -1] + UNKNOWN_LABEL if labelled else None,
        n=n,
        mean=mean,
        spread=spread,
        weights=weights,
    )


def _add_weights(weights: Floats, scores: Floats | None, kind: Integers, kinds: int) -> WeightSums:
    squares = weights**2
    total, whole = _sums(kind, weights, kinds), _sums(kind, squares, kinds)
    if scores is None:
        return WeightSums(total, whole, *np.zeros((3, kinds)))
    squares_scored = _sums(kind, squares * scores, kinds)
    centre = squares_scored / np.where(whole > 0, whole, 1)
    spread = _sums(kind, squares * (scores - centre[kind]) ** 2, kinds)
    return WeightSums(total, whole, _sums(kind, weights * scores, kinds), squares_scored, spread)


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
