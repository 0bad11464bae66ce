"""Observed rates of the groups at about a hundred thresholds, for the threshold slider of a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.membership import Membership
from evenhand.groups.thresholds import ScoredPeople, choose_thresholds
from evenhand.schema.thresholds import Thresholds
from evenhand.stats.proportion import kish_size

MOST_GROUPS = 12
"""Maximum number of groups of an attribute; the largest are kept."""


class RatesOfGroup(ResultPart):
    """Rates of one group at each threshold, in the order of the thresholds.

    Attributes:
        by, group: Protected attribute and group; both empty for all people.
        n: Number of people.
        selected: Selection rates.
        true_positive, false_positive: True and false positive rates; empty if their denominator is too small or
            unknown.
    """

    by: str = ""
    group: str = ""
    n: int
    selected: tuple[float, ...]
    true_positive: tuple[float, ...] = ()
    false_positive: tuple[float, ...] = ()


class ThresholdRates(ResultPart):
    """Observed rates at each threshold, without intervals.

    Attributes:
        thresholds: Thresholds in ascending order.
        own: Position of the threshold of the decisions; None if there is no single one.
        low_is_good: Whether people are selected if their score is at most the threshold.
        groups: All people, then each group that is large enough.
        left_out: Attribute -> groups that are too small, or not among the largest twelve.
    """

    thresholds: tuple[float, ...]
    own: int | None
    low_is_good: bool = False
    groups: tuple[RatesOfGroup, ...]
    left_out: dict[str, tuple[str, ...]]

    @property
    def attributes(self) -> tuple[str, ...]:
        """Protected attributes of the groups."""
        return tuple(dict.fromkeys(group.by for group in self.groups if group.by))

    def of(self, by: str) -> list[RatesOfGroup]:
        """Return the groups by one attribute."""
        return [group for group in self.groups if group.by == by]

    def gap(self, by: str, place: int) -> float | None:
        """Compute the demographic parity difference at one threshold; None with fewer than two groups."""
        rates = [group.selected[place] for group in self.of(by)]
        return max(rates) - min(rates) if len(rates) > 1 else None

    def name(self, place: int) -> str:
        """Format a threshold; the one of the decisions is marked."""
        return format_threshold(self.thresholds[place]) + (" (in force)" if place == self.own else "")


def format_threshold(threshold: float) -> str:
    """Format a threshold with three significant digits."""
    return f"{threshold:.3g}"


def count_threshold_rates(
    people: ScoredPeople, selected: Booleans, min_size: int, in_force: Thresholds | None
) -> ThresholdRates:
    """Compute the rates of all groups at about a hundred thresholds.

    Args:
        people: People with scores.
        selected: Whether each person is selected, shape (n,). It determines the threshold of recorded decisions.
        min_size: Minimum size of a group, and minimum denominator of a rate.
        in_force: Thresholds of the audit; None without any.
    """
    sign = -1 if people.low_is_good else 1
    scores = sign * people.scores
    if in_force is None:
        own = _find_threshold(scores, selected)
    else:
        own = None if in_force.uses_protected else sign * in_force.values[0]
    thresholds, _ = choose_thresholds(scores, [] if own is None else [own])
    cell = np.searchsorted(thresholds, scores, side="right") - 1
    weights = np.ones(len(scores)) if people.weights is None else people.weights

    def measure(among: Booleans, by: str = "", group: str = "") -> RatesOfGroup:
        def rates(chosen: Booleans) -> tuple[int, tuple[float, ...]]:
            """Compute Kish's effective size, and the share with a score of at least each threshold."""
            weight = weights[chosen]
            counts = np.bincount(cell[chosen], weights=weight, minlength=len(thresholds))
            shares = np.cumsum(counts[::-1])[::-1] / (weight.sum() or 1.0)
            size = int(kish_size(weight.sum(), (weight**2).sum()))
            return size, tuple(np.round(shares[::sign], 4).tolist())

        errors: dict[str, Any] = {}
        if people.true_labels is not None:
            for name, label in (("true_positive", 1), ("false_positive", 0)):
                size, shares = rates(among & (people.true_labels == label))
                errors |= {name: shares} if size >= min_size else {}
        return RatesOfGroup(by=by, group=group, n=int(among.sum()), selected=rates(among)[1], **errors)

    groups = [measure(np.ones(len(scores), dtype=np.bool_))]
    left_out: dict[str, tuple[str, ...]] = {}
    for membership in people.memberships:
        largest, left_out[membership.name] = _choose_groups(membership, weights, min_size)
        groups += [measure(membership.codes == i, membership.name, membership.labels[i]) for i in largest]
    ascending = sign * thresholds[::sign]
    place = [] if own is None else np.flatnonzero(ascending == sign * own).tolist()
    return ThresholdRates(
        thresholds=tuple(ascending.tolist()),
        own=place[0] if place else None,
        low_is_good=people.low_is_good,
        groups=tuple(groups),
        left_out={name: labels for name, labels in left_out.items() if labels},
    )


def _find_threshold(scores: Floats, selected: Booleans) -> float | None:
    """Find the minimum score of the selected people; None if no threshold separates them from the others."""
    if selected.all() or not selected.any():
        return None
    below, above = float(scores[~selected].max()), float(scores[selected].min())
    if below >= above:
        return None
    return 0.5 if below < 0.5 <= above else above


def _choose_groups(membership: Membership, weights: Floats, min_size: int) -> tuple[list[int], tuple[str, ...]]:
    """Choose the largest groups that are large enough, in their order, and name the others."""
    groups, known = len(membership.labels), len(membership.known)
    total, squares = (
        np.asarray(np.bincount(membership.codes, weights=column, minlength=groups)[:known], dtype=np.float64)
        for column in (weights, weights**2)
    )
    sizes = kish_size(total, squares)
    largest: Integers = np.argsort(-sizes, kind="stable")[:MOST_GROUPS]
    chosen = sorted(i for i in largest.tolist() if sizes[i] >= min_size)
    people = np.bincount(membership.codes, minlength=known)
    return chosen, tuple(membership.labels[i] for i in range(known) if i not in chosen and people[i] > 0)
