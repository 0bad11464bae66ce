"""People counted by group, true label and given label: rates of each label, and the gaps between groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.breakdown import Gap
from evenhand.groups.gaps import GroupComparison, describe_simultaneity, difference_gap, mean_gap, widest_gap
from evenhand.groups.label_result import LabelGap
from evenhand.groups.metrics import NO_LABEL, GroupCounts, GroupMoments, RateCounts, measure_rates
from evenhand.stats.auc import auc
from evenhand.stats.contingency import weighted_kappa
from evenhand.stats.distribution import LargestDistance, distribution_distances, total_variation
from evenhand.stats.level import bonferroni
from evenhand.stats.mean import observed_means
from evenhand.stats.metric_specs import LABEL_RATE_GAPS
from evenhand.stats.proportion import count_pairs, mean_of_proportions
from evenhand.stats.quantity import Observed, Quantity, Unknown

MOST_COMPARED = 40
"""Groups whose labels are compared in pairs as distributions at most."""

BOOTSTRAP = "bootstrap of the largest distance"
MACRO = "Clopper-Pearson limits of each label, squared and added"
KAPPA = "limits of each weighted kappa, squared and added"
RANKS = "score interval, variance by DeLong or Newcombe"

IF_EMPTY = {
    "label_base_share": NO_LABEL,
    "label_true_positive_rate": "no person here is known to have this true label",
    "label_false_positive_rate": "no person here is known to have another true label",
    "label_precision": "no person here who is given this label has a known true label",
}


class LabelCounts(NamedTuple):
    """People by group and given label, and by true label where that is known.

    Attributes:
        labels: Names of the groups.
        given: All people by decided label, shape (groups, labels).
        confused: People with a true label by true and decided label, shape (groups, labels, labels); None without true
            labels.
    """

    labels: list[str]
    given: Integers
    confused: Integers | None

    @classmethod
    def tabulate(
        cls, group: Integers, labels: list[str], decided: Integers, truth: Integers | None, kinds: int
    ) -> LabelCounts:
        """Count people by group, decided label and true label.

        Args:
            group, decided, truth: Codes of shape (n,); ``truth`` is -1 where unknown, or None.
            labels: Names of the groups.
            kinds: Number of labels.
        """
        groups = len(labels)
        given = np.bincount(group * kinds + decided, minlength=groups * kinds).reshape(groups, kinds)
        if truth is None:
            return cls(labels, given, None)
        cells = ((group * kinds + truth) * kinds + decided)[truth >= 0]
        return cls(labels, given, np.bincount(cells, minlength=groups * kinds**2).reshape(groups, kinds, kinds))

    @property
    def size(self) -> Integers:
        """Number of people in each group, shape (groups,)."""
        return np.asarray(self.given.sum(axis=1))

    @property
    def labelled(self) -> Integers:
        """Number of people with a true label in each group, shape (groups,)."""
        return np.zeros_like(self.size) if self.confused is None else np.asarray(self.confused.sum(axis=(1, 2)))

    def rates(self, label: int) -> dict[str, RateCounts]:
        """Count one label against the rest: k of n of each group, by the rate's name."""
        rates = {"label_share": _rate(self.given[:, label], self.size)}
        if self.confused is not None:
            positive, given = self.confused[:, label].sum(axis=1), self.confused[:, :, label].sum(axis=1)
            correct = self.confused[:, label, label]
            rates["label_base_share"] = _rate(positive, self.labelled)
            rates["label_true_positive_rate"] = _rate(correct, positive)
            rates["label_false_positive_rate"] = _rate(given - correct, self.labelled - positive)
            rates["label_precision"] = _rate(correct, given)
        return rates

    def at_least(self, grade: int) -> RateCounts:
        """Return how many of each group are given this or a higher grade."""
        return _rate(self.given[:, grade:].sum(axis=1), self.size)

    def over_labels(self, *, ordered: bool) -> dict[str, RateCounts]:
        """Count over all labels how many people with a true label get it, or of grades a lower or a higher one."""
        if self.confused is None:
            return {}
        parts = {"label_accuracy": np.eye(self.given.shape[1], dtype=np.bool_)}
        if ordered:
            parts |= {"too_low": np.tri(self.given.shape[1], k=-1, dtype=np.bool_)}
            parts |= {"too_high": parts["too_low"].T}
        return {name: _rate(self.confused[:, cells].sum(axis=1), self.labelled) for name, cells in parts.items()}

    def grade_errors(self) -> GroupMoments:
        """Compute mean and variance of decided minus true grade over the people with a true grade in each group."""
        assert self.confused is not None
        grades = np.arange(self.given.shape[1])
        errors = (grades - grades[:, None]).astype(np.float64)
        people = self.labelled
        mean = np.asarray((self.confused * errors).sum(axis=(1, 2)) / np.maximum(people, 1))
        square = (self.confused * (errors - mean[:, None, None]) ** 2).sum(axis=(1, 2))
        reach = float(len(grades) - 1)
        return GroupMoments(mean, np.asarray(square / np.maximum(people - 1, 1)), people, people, -reach, reach)


def _rate(k: Integers, n: Integers) -> RateCounts:
    return RateCounts(np.asarray(k), np.asarray(n), np.asarray(n))


# What every group has.


def measure_label_rates(counts: LabelCounts, label: int, confidence: float) -> list[dict[str, Quantity]]:
    """Return the rates of one label against the rest, of each group by name."""
    found: list[dict[str, Quantity]] = [{} for _ in counts.labels]
    for name, rate in counts.rates(label).items():
        measured = measure_rates(rate, confidence, weighting="", if_empty=IF_EMPTY.get(name, "no people here"))
        for own, quantity in zip(found, measured, strict=True):
            own[name] = quantity
    return found


def measure_over_labels(counts: LabelCounts, confidence: float, *, ordered: bool) -> list[dict[str, Quantity]]:
    """Return what is measured over all labels, of each group by name; nothing without true labels."""
    found: list[dict[str, Quantity]] = [{} for _ in counts.labels]
    if counts.confused is None:
        return found
    rates = counts.over_labels(ordered=ordered)
    columns: dict[str, list[Quantity]] = {
        name: list(measure_rates(rate, confidence, weighting="", if_empty=NO_LABEL)) for name, rate in rates.items()
    }
    columns["macro_recall"] = [_macro_recall(table, confidence) for table in counts.confused]
    if ordered:
        errors = counts.grade_errors()
        ends = {"lower": errors.lower, "upper": errors.upper}
        sizes = np.maximum(errors.people, 1)
        means = observed_means(errors.mean, errors.variance, sizes, confidence, **ends)
        columns["mean_grade_error"] = [
            mean if people else Unknown(reason=NO_LABEL)
            for mean, people in zip(means, errors.people.tolist(), strict=True)
        ]
        columns["weighted_kappa"] = [weighted_kappa(table, confidence) for table in counts.confused]
    return [{name: column[i] for name, column in columns.items()} for i in range(len(found))]


def _macro_recall(table: Integers, confidence: float) -> Quantity:
    """Return the mean true positive rate of all labels; unknown where no one truly has one of them."""
    truly = table.sum(axis=1)
    if (truly == 0).any():
        return Unknown(reason=f"no one here truly has {int((truly == 0).sum())} of the labels")
    value, low, high = mean_of_proportions(np.diagonal(table), truly, confidence)
    return Observed(value=value, n=int(truly.sum()), low=low, high=high, confidence=confidence, method=MACRO)


# Gaps between groups.


class LabelComparison(NamedTuple):
    """What gaps between groups are computed from.

    Attributes:
        counts: people by group and label.
        names: the labels; grades worst first.
        ordered: whether they are grades.
        confidence: of every interval.
        least: the smallest denominator that is compared.
        reference: position of the group that rates and means of every other one are compared with; None for best and
            worst.
        seed: of the bootstrap.
    """

    counts: LabelCounts
    names: tuple[str, ...]
    ordered: bool
    confidence: float
    least: int
    reference: int | None
    seed: int

    def rates(self, rates: dict[str, RateCounts], moments: dict[str, GroupMoments] | None = None) -> GroupComparison:
        """Return what the gaps of these rates are computed from."""
        size = self.counts.size
        counted = GroupCounts(size, size, "", rates, moments or {})
        return GroupComparison(counted, self.counts.labels, self.confidence, self.least, self.reference)

    @property
    def large(self) -> Booleans:
        """Mask of the groups with enough people, shape (groups,)."""
        return np.asarray(self.counts.size >= self.least)

    @property
    def labelled(self) -> Booleans:
        """Mask of the groups with enough people with a true label, shape (groups,)."""
        return np.asarray(self.counts.labelled >= self.least)

    @property
    def left_out(self) -> dict[str, int]:
        """The groups that have not, with their sizes."""
        size = self.counts.size
        return {self.counts.labels[i]: int(size[i]) for i in np.flatnonzero(~self.large).tolist()}


def compute_label_gaps(comparison: LabelComparison) -> tuple[LabelGap, ...]:
    """Return the gaps between two or more groups; nothing where there are fewer."""
    counts, kinds = comparison.counts, len(comparison.names)
    if len(counts.labels) < 2:
        return ()
    every = range(kinds)
    by_rate: dict[str, list[LabelGap]] = {}
    for name, metric in LABEL_RATE_GAPS.items():
        if metric in counts.rates(0):
            rates = {label: counts.rates(label)[metric] for label in every}
            by_rate[name] = _gaps_of_each(name, metric, rates, comparison, kinds if kinds > 2 else 1)
    found = by_rate.pop("label_share_difference")
    found.append(_total_variation_gap(comparison))
    if comparison.ordered:
        cuts = {grade: counts.at_least(grade) for grade in every if grade}
        found += _gaps_of_each("cut_difference", "at_least", cuts, comparison, kinds - 1)
        found += _grade_gaps(comparison)
    for name, rate in counts.over_labels(ordered=comparison.ordered).items():
        found.append(_plain(difference_gap(f"{name}_difference", name, comparison.rates({name: rate}))))
    if counts.confused is not None:
        found.append(_macro_recall_gap(comparison))
        if comparison.ordered:
            found.append(_kappa_gap(comparison))
            moments = {"mean_grade_error": counts.grade_errors()}
            found.append(_plain(mean_gap("grade_error_difference", "mean_grade_error", comparison.rates({}, moments))))
    return (*found, *(gap for gaps in by_rate.values() for gap in gaps))


def _plain(gap: Gap, **more: str) -> LabelGap:
    return LabelGap(**(gap.model_dump() | more))


def _gaps_of_each(
    name: str, metric: str, rates: dict[int, RateCounts], comparison: LabelComparison, comparisons: int
) -> list[LabelGap]:
    """Return the largest gap of a rate over all labels, and that of each; all of them hold together."""
    each = [
        _plain(
            difference_gap(name, metric, comparison.rates({metric: rate}), comparisons=comparisons),
            label=comparison.names[label],
        )
        for label, rate in rates.items()
    ]
    known = [(gap, gap.value) for gap in each if isinstance(gap.value, Observed)]
    left_out = _left_out_of(each)
    if not known:
        return [each[0].model_copy(update={"label": "", "not_assessable": left_out}), *each]
    largest, value = max(known, key=lambda pair: pair[1].value)
    # The true largest gap lies between the largest of the lower and the largest of the upper ends.
    low, high = (max(getattr(one, end) for _, one in known) for end in ("low", "high"))
    update = {
        "value": value.model_copy(update={"low": low, "high": high}),
        "label": "",
        "largest_at": largest.label,
        "not_assessable": left_out,
    }
    return [largest.model_copy(update=update), *each]


def _left_out_of(each: list[LabelGap]) -> dict[str, int]:
    """Return the groups that are left out, by name where it is for the same reason in every label, else per label."""
    always = {
        label: n
        for label, n in each[0].not_assessable.items()
        if all(gap.not_assessable.get(label) == n for gap in each)
    }
    single = {
        f"{gap.label}: {label}": n for gap in each for label, n in gap.not_assessable.items() if label not in always
    }
    return always | single


def _total_variation_gap(comparison: LabelComparison) -> LabelGap:
    name, large = "total_variation_distance", np.flatnonzero(comparison.large)
    reason = _why_not_in_pairs(comparison, len(large))
    if reason is not None:
        return _unknown_distance(name, reason, comparison)
    given = comparison.counts.given[large]
    found = total_variation(given, comparison.confidence, np.random.default_rng(comparison.seed))
    return _distance_gap(name, found, BOOTSTRAP, comparison)


def _grade_gaps(comparison: LabelComparison) -> list[LabelGap]:
    """Return how far the grades of two groups are apart: superiority of one over the other, and Wasserstein's."""
    names, large = ("probability_of_superiority", "grade_wasserstein_distance"), np.flatnonzero(comparison.large)
    reason = _why_not_in_pairs(comparison, len(large))
    if reason is not None:
        return [_unknown_distance(name, reason, comparison) for name in names]
    grades = np.arange(len(comparison.names), dtype=np.float64)
    samples = [np.repeat(grades, given) for given in comparison.counts.given[large]]
    distances = distribution_distances(samples, comparison.confidence, np.random.default_rng(comparison.seed))
    superiority = _largest_superiority(samples, bonferroni(comparison.confidence, count_pairs(len(samples))))
    return [
        _distance_gap(names[0], superiority, RANKS, comparison, correction=" (Bonferroni)"),
        _distance_gap(names[1], distances.wasserstein, BOOTSTRAP, comparison),
    ]


def _largest_superiority(samples: list[Floats], level: float) -> LargestDistance:
    """Return the largest probability that a person of one group has the higher grade than one of another.

    ``P(X > Y) + P(X = Y) / 2``, or one minus it, whichever is at least 1/2: the area under the ROC curve of the grades.
    """
    found, low, high = LargestDistance(-1.0, 0.0, 0.0, 0, 1), 0.5, 0.5
    for i in range(len(samples)):
        for j in range(i + 1, len(samples)):
            grades = np.concatenate([samples[i], samples[j]])
            area = auc(grades, np.arange(len(grades)) < len(samples[i]), level)
            assert isinstance(area, Observed)  # both groups have people
            value = max(area.value, 1 - area.value)
            first, second = (i, j) if area.value >= 0.5 else (j, i)
            found = found if found.value >= value else LargestDistance(value, 0.0, 0.0, first, second)
            low, high = max(low, area.low, 1 - area.high), max(high, area.high, 1 - area.low)
    return found._replace(low=low, high=high)


def _macro_recall_gap(comparison: LabelComparison) -> LabelGap:
    """Return the gap of macro recall between groups in which every label truly occurs."""
    confused = comparison.counts.confused
    assert confused is not None
    truly = confused.sum(axis=2)

    def measure(i: int, level: float) -> tuple[float, float, float]:
        return mean_of_proportions(np.diagonal(confused[i]), truly[i], level)

    usable = np.flatnonzero(comparison.labelled & (truly > 0).all(axis=1))
    return _gap_of_tables("macro_recall", measure, usable, "with every true label among them, ", MACRO, comparison)


def _kappa_gap(comparison: LabelComparison) -> LabelGap:
    """Return the gap of quadratic weighted kappa between groups in which given or true grades differ."""
    confused = comparison.counts.confused
    assert confused is not None

    def measure(i: int, level: float) -> tuple[float, float, float]:
        found = weighted_kappa(confused[i], level)
        assert isinstance(found, Observed)
        return found.value, found.low, found.high

    known = [isinstance(weighted_kappa(table), Observed) for table in confused]
    usable = np.flatnonzero(comparison.labelled & np.array(known))
    return _gap_of_tables("weighted_kappa", measure, usable, "not all of one grade, ", KAPPA, comparison)


def _gap_of_tables(
    metric: str,
    measure: Callable[[int, float], tuple[float, float, float]],
    usable: Integers,
    condition: str,
    method: str,
    comparison: LabelComparison,
) -> LabelGap:
    """Return the gap of a number with an interval of its own between the groups that have it.

    Args:
        metric: the number.
        measure: gives it of a group, by position, and the ends of its interval at a level.
        usable: the groups; condition: what a group must have, beside its size.
        method: of the interval.
        comparison: all groups.
    """
    name, counts = f"{metric}_difference", comparison.counts
    kept = set(usable.tolist())
    left_out = {label: int(counts.labelled[i]) for i, label in enumerate(counts.labels) if i not in kept}
    if len(usable) < 2:
        reason = f"people with a true label must number {comparison.least}, {condition}in at least two groups"
        return LabelGap(
            name=name, metric=metric, value=Unknown(reason=reason), best="", worst="", not_assessable=left_out
        )
    pairs = count_pairs(len(usable))
    level = bonferroni(comparison.confidence, pairs)
    found = np.array([measure(i, level) for i in usable.tolist()])
    gap = widest_gap(
        name,
        metric,
        [counts.labels[i] for i in usable],
        (found[:, 0], found[:, 1], found[:, 2]),
        people=int(counts.labelled[usable].sum()),
        confidence=comparison.confidence,
        method=method + describe_simultaneity(pairs),
        left_out=left_out,
    )
    return _plain(gap)


def _why_not_in_pairs(comparison: LabelComparison, large: int) -> str | None:
    if large < 2:
        return f"people must number {comparison.least} in at least two groups"
    if large > MOST_COMPARED:
        return f"{large} groups: labels of at most {MOST_COMPARED} are compared in pairs"
    return None


def _unknown_distance(name: str, reason: str, comparison: LabelComparison) -> LabelGap:
    return LabelGap(
        name=name,
        metric="labels",
        value=Unknown(reason=reason),
        best="",
        worst="",
        not_assessable=comparison.left_out,
    )


def _distance_gap(
    name: str, found: LargestDistance, method: str, comparison: LabelComparison, *, correction: str = ""
) -> LabelGap:
    """Return a distance between two groups; the one with the higher grades on average is ``best``."""
    large = np.flatnonzero(comparison.large)
    pair = [int(large[found.first]), int(large[found.second])]
    if comparison.ordered:
        means = comparison.counts.given @ np.arange(len(comparison.names)) / comparison.counts.size
        pair.sort(key=lambda i: -means[i])
    best, worst = (comparison.counts.labels[i] for i in pair)
    value = Observed(
        value=found.value,
        n=int(comparison.counts.size[large].sum()),
        low=found.low,
        high=found.high,
        confidence=comparison.confidence,
        method=method + describe_simultaneity(count_pairs(len(large)), correction),
    )
    return LabelGap(name=name, metric="labels", value=value, best=best, worst=worst, not_assessable=comparison.left_out)
