"""Decisions counted by cell, and the rates, errors and mean scores of groups.

A cell is a combination of protected values, calibration bin, decision and true label. Every metric of every
group and intersection is a sum over cells, so the people are only read once. A single person is a cell with count 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.breakdown import Gap
from evenhand.groups.engine import TENTHS, GroupCounts, Sample
from evenhand.groups.estimators import Estimator, Mean, Rate
from evenhand.groups.gaps import GroupComparison, equalized_odds_gap, registered_gaps
from evenhand.groups.label_coverage import DECISIONS, count_labels
from evenhand.groups.membership import Membership, number_combinations
from evenhand.stats.metric_specs import GAP_NAMES, METRIC_NAMES
from evenhand.stats.proportion import effective_counts, kish_size

EFFECTIVE = ", of effective sample sizes (weights; Korn-Graubard)"
UNKNOWN_LABEL = -1


class WeightSums(NamedTuple):
    """Sums over the people in each cell, each of shape (cells,).

    Attributes:
        total, squares: Sums of the weights w, and of w^2.
        scored, squares_scored: Sums of w x and of w^2 x for scores x; zeros without scores.
        squares_spread: Sum of w^2 (x - c)^2 around the centre c = sum(w^2 x) / sum(w^2) of the cell.
    """

    total: Floats
    squares: Floats
    scored: Floats
    squares_scored: Floats
    squares_spread: Floats


@dataclass(frozen=True)
class DecisionSample(Sample):
    """Decisions with one entry per cell; arrays have shape (cells,).

    Attributes:
        memberships: Groups by each protected attribute.
        tenth: Calibration bin of the score, 0 to 9; all 0 without scores.
        selected: Whether the decision is the favourable label.
        true_labels: 1 favourable, 0 unfavourable, -1 unknown; None without true labels.
        n: Number of people.
        sums: Sums of weights and scores.
        weighted: Whether people have weights.
        why_no_scores: Reason why there are no probabilities; empty if there are.
    """

    memberships: Sequence[Membership]
    tenth: Integers
    selected: Booleans
    true_labels: Integers | None
    n: Integers
    sums: WeightSums
    weighted: bool
    why_no_scores: str

    scored: ClassVar[str] = "mean_score"
    observed: ClassVar[str] = "base_rate"

    def __len__(self) -> int:
        return len(self.n)

    def size(self, entries: Booleans) -> int:
        return int(self.n[entries].sum())

    def at(self, entries: Booleans) -> Self:
        labels = None if self.true_labels is None else self.true_labels[entries]
        columns = self.tenth[entries], self.selected[entries], labels, self.n[entries]
        sums = WeightSums(*(column[entries] for column in self.sums))
        return type(self)((), *columns, sums, self.weighted, self.why_no_scores)

    def labelled(self) -> Booleans | None:
        return None if self.true_labels is None or self.why_no_scores else self.true_labels >= 0

    def tenths(self) -> Integers:
        return self.tenth

    def count(self, group: Integers, groups: int) -> GroupCounts:
        def add(values: Floats | Integers, kinds: Booleans | slice = slice(None)) -> Floats:
            return np.asarray(np.bincount(group[kinds], weights=values[kinds], minlength=groups), dtype=np.float64)

        def rate(metric: str, among: Booleans, favourable: Booleans) -> Rate:
            people, both = add(self.n, among).astype(np.int64), among & favourable
            if not self.weighted:
                return Rate(metric, people, people, add(self.n, both).astype(np.int64))
            below, above = ((add(self.sums.total, kinds), add(self.sums.squares, kinds)) for kinds in (among, both))
            k, n = effective_counts(below, above, people)
            return Rate(metric, people, n, k, weighting=EFFECTIVE)

        everyone, selected, labels = np.ones(len(self.n), dtype=np.bool_), self.selected, self.true_labels
        rates = {"selection_rate": (everyone, selected)}
        if labels is not None:
            labelled, positive, negative = labels >= 0, labels == 1, labels == 0
            rates |= {
                "base_rate": (labelled, positive),
                "true_positive_rate": (positive, selected),
                "false_positive_rate": (negative, selected),
                "accuracy": (labelled, selected == positive),
                "precision": (selected & labelled, positive),
                "false_discovery_rate": (selected & labelled, negative),
                "false_omission_rate": (~selected & labelled, positive),
            }
        estimators: dict[str, Estimator] = {name: rate(name, *masks) for name, masks in rates.items()}
        if not self.why_no_scores:
            estimators["mean_score"] = self._mean("mean_score", group, groups, 0.0)
            if labels is not None:
                # The mean of score minus true label is the calibration error, from -1 to 1.
                part = self.at(labelled)
                estimators["calibration_gap"] = part._mean("calibration_gap", group[labelled], groups, -1.0)
        people, weights = add(self.n).astype(np.int64), (add(self.sums.total), add(self.sums.squares))
        needed = METRIC_NAMES if labels is not None else ()
        return GroupCounts(
            people,
            kish_size(*weights) if self.weighted else people,
            self.weighted,
            estimators,
            count_labels(
                group, groups, selected.astype(np.int64), DECISIONS, None if labels is None else labels >= 0, self.n
            ),
            lambda comparison: decision_gaps(estimators, comparison),
            {name: self.why_no_scores for name in needed if name not in estimators},
        )

    def _mean(self, metric: str, group: Integers, groups: int, lower: float) -> Mean:
        """Compute the mean score, or the mean of score minus true label.

        The variance of a group combines the spread within its cells and the spread of the cell means (Chan, Golub &
        LeVeque 1979). The variance divided by the effective size n is the linearised variance of the weighted mean m,
        sum(w^2 (x - m)^2) / sum(w)^2, times n / (n - 1).
        """

        def add(values: Floats | Integers) -> Floats:
            return np.asarray(np.bincount(group, weights=values, minlength=groups), dtype=np.float64)

        weights, squares, scored, squares_scored, squares_spread = self.sums
        shift = self.true_labels if lower < 0 and self.true_labels is not None else 0
        total, people = add(weights), add(self.n).astype(np.int64)
        n = kish_size(total, add(squares))
        total = np.where(total > 0, total, 1)
        mean = add(scored - weights * shift) / total
        centre = squares_scored / np.where(squares > 0, squares, 1) - shift
        within = add(squares_spread + squares * (centre - mean[group]) ** 2)
        variance = within / total**2 * n**2 / np.maximum(n - 1, 1)
        return Mean(metric, people, n, mean, variance, lower, 1.0, weighting=EFFECTIVE if self.weighted else "")

    def count_benefits(self) -> Floats:
        """Count the people wrongly not selected, correctly decided and wrongly selected, shape (3,).

        Only people with a true label are counted. With weights, the counts are shares of Kish's effective size.
        """
        assert self.true_labels is not None
        part = self.at(self.true_labels >= 0)
        assert part.true_labels is not None
        total, squares = part.sums[:2]
        benefits = np.bincount(1 + part.selected - part.true_labels, weights=total, minlength=3)
        return np.asarray(benefits * total.sum() / (squares.sum() or 1.0))


def decision_gaps(estimators: dict[str, Estimator], comparison: GroupComparison) -> Iterator[Gap]:
    """Yield the gaps between groups. Gaps that need missing true labels or scores are left out."""
    gaps = registered_gaps(GAP_NAMES, estimators, comparison)
    for name in GAP_NAMES:
        if name in gaps:
            yield gaps[name]
        elif name == "equalized_odds_difference" and "base_rate" in estimators:
            yield equalized_odds_gap(estimators, comparison)


def tabulate(
    memberships: Sequence[Membership],
    selected: Booleans,
    true_labels: Integers | None,
    *,
    scores: Floats | None = None,
    weights: Floats | None = None,
    counts: Integers | None = None,
    why_no_scores: str = "",
) -> DecisionSample:
    """Count people by cell.

    Args:
        memberships: Groups of each entry by each protected attribute.
        selected: Whether the decision is the favourable label, shape (n,).
        true_labels: 1 favourable, 0 unfavourable, -1 unknown, shape (n,); None without true labels.
        scores: Probabilities of the favourable label, shape (n,).
        weights: Sample weights, shape (n,).
        counts: Number of people that each entry represents, shape (n,). None means one.
        why_no_scores: Reason why there are no scores.
    """
    columns = [(part.codes, len(part.labels)) for part in memberships]
    if scores is not None:
        columns.append((np.minimum((scores * TENTHS).astype(np.int64), TENTHS - 1), TENTHS))
    labels = np.full(len(selected), UNKNOWN_LABEL) if true_labels is None else true_labels
    kind, keys = number_combinations([*columns, (selected.astype(np.int64), 2), (labels - UNKNOWN_LABEL, 3)])

    def add(values: Floats | Integers | None) -> Floats:
        return np.asarray(np.bincount(kind, weights=values, minlength=len(keys)), dtype=np.float64)

    n = total = squares = add(counts)
    scored = squares_scored = spread = np.zeros(len(keys))
    if weights is not None:
        total, squares = add(weights), add(weights**2)
    if scores is not None:
        scored = squares_scored = add(scores)
        if weights is not None:
            scored, squares_scored = add(weights * scores), add(weights**2 * scores)
        # A second pass over the distances: sums of squares would cancel for similar scores.
        centre = squares_scored / np.where(squares > 0, squares, 1)
        distances = (scores - centre[kind]) ** 2
        spread = add(distances if weights is None else weights**2 * distances)
    attributes = len(memberships)
    return DecisionSample(
        memberships=tuple(Membership(m.name, keys[:, i], m.labels, m.unknown) for i, m in enumerate(memberships)),
        tenth=np.zeros(len(keys), dtype=np.int64) if scores is None else keys[:, attributes],
        selected=keys[:, -2] == 1,
        true_labels=None if true_labels is None else keys[:, -1] + UNKNOWN_LABEL,
        n=n.astype(np.int64),
        sums=WeightSums(total, squares, scored, squares_scored, spread),
        weighted=weights is not None,
        why_no_scores=why_no_scores if scores is None else "",
    )
