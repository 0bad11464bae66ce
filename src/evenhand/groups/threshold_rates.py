"""Observed rates of the groups at about a hundred thresholds, for the threshold slider of a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats
from evenhand.groups.membership import Membership
from evenhand.groups.thresholds import ScoredPeople, ThresholdCells
from evenhand.schema.thresholds import Threshold

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
        own: Position of the threshold of the decisions; None if the decisions have no single threshold.
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
    people: ScoredPeople, selected: Booleans, min_size: int, in_force: Threshold | None
) -> ThresholdRates:
    """Compute the rates of all groups at about a hundred thresholds.

    Args:
        people: People with scores.
        selected: Whether each person is selected, shape (n,). It determines the threshold of recorded decisions.
        min_size: Minimum size of a group, and minimum denominator of a rate.
        in_force: Threshold of the audit; None without one.
    """
    scores = people.sign * people.scores
    if in_force is None:
        lowest = _find_threshold(scores, selected)
        own = None if lowest is None else people.sign * lowest
    else:
        own = in_force.value
    cells = ThresholdCells.of(people, [] if own is None else [own])
    denominators: dict[str, Booleans | None] = {"selected": None}
    if people.true_labels is not None:
        denominators |= {"true_positive": people.true_labels == 1, "false_positive": people.true_labels == 0}
    groups: list[RatesOfGroup] = []
    left_out: dict[str, tuple[str, ...]] = {}
    for membership in (Membership("", np.zeros(len(scores), dtype=np.int64), ("",)), *people.memberships):
        labels, codes, known = membership.labels, membership.codes, len(membership.known)
        curves = {name: cells.count(codes, len(labels), among) for name, among in denominators.items()}
        n, sizes = np.bincount(codes, minlength=known).tolist(), curves["selected"].effective[:known]
        largest = sorted(np.argsort(-sizes, kind="stable")[:MOST_GROUPS].tolist())
        chosen = [i for i in largest if sizes[i] >= min_size or not membership.name]
        for i in chosen:
            rates: dict[str, Any] = {
                name: tuple(np.round(curve.rates[i][:: people.sign], 4).tolist())
                for name, curve in curves.items()
                if name == "selected" or curve.effective[i] >= min_size
            }
            groups.append(RatesOfGroup(by=membership.name, group=labels[i], n=n[i], **rates))
        omitted = tuple(labels[i] for i in range(known) if i not in chosen and n[i] > 0)
        left_out |= {membership.name: omitted} if omitted else {}
    place = [] if own is None else np.flatnonzero(cells.ascending == own).tolist()
    return ThresholdRates(
        thresholds=tuple(cells.ascending.tolist()),
        own=place[0] if place else None,
        low_is_good=people.low_is_good,
        groups=tuple(groups),
        left_out=left_out,
    )


def _find_threshold(scores: Floats, selected: Booleans) -> float | None:
    """Find the minimum score of the selected people; None if no threshold separates them from the rejected people."""
    if selected.all() or not selected.any():
        return None
    below, above = float(scores[~selected].max()), float(scores[selected].min())
    if below >= above:
        return None
    return 0.5 if below < 0.5 <= above else above
