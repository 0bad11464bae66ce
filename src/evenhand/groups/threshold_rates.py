"""Rates of every group at about a hundred thresholds, as counted: what a page's threshold slider moves through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evenhand.core.document import Block, Column, Figure, Fold, Table, TableRow
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_decimal, format_percent, list_some
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.membership import Membership
from evenhand.groups.thresholds import ScoredPeople, choose_thresholds, format_threshold, say_limit
from evenhand.schema.thresholds import Thresholds

MOST_GROUPS = 12
"""Groups of an attribute whose rates are kept: the largest."""

SHOWN = 5
"""Thresholds of the table that is read without the slider."""


class RatesOfGroup(ResultPart):
    """The rates of one group at each threshold, in the order of the thresholds.

    Attributes:
        by, group: the protected attribute and the group; both empty for everybody.
        n: people.
        selected: share of them who are selected.
        true_positive, false_positive: the same of those whose true label is favourable, and of those whose is not;
            empty where these are too few or not known.
    """

    by: str = ""
    group: str = ""
    n: int
    selected: tuple[float, ...]
    true_positive: tuple[float, ...] = ()
    false_positive: tuple[float, ...] = ()


class ThresholdRates(ResultPart):
    """Rates of every group that is large enough, at each threshold: counted on these people, without intervals.

    Attributes:
        thresholds: in rising order.
        own: the place of the threshold that the decisions were made by; None where no single one made them.
        low_is_good: whether people are selected up to a threshold.
        groups: everybody, then each group.
        left_out: attribute -> groups that are too small, or beyond the largest twelve.
    """

    thresholds: tuple[float, ...]
    own: int | None
    low_is_good: bool = False
    groups: tuple[RatesOfGroup, ...]
    left_out: dict[str, tuple[str, ...]]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The protected attributes that rates are kept by."""
        return tuple(dict.fromkeys(one.by for one in self.groups if one.by))

    def of(self, by: str) -> list[RatesOfGroup]:
        """Return the groups by one attribute."""
        return [one for one in self.groups if one.by == by]

    def gap(self, by: str, place: int) -> float | None:
        """Return the demographic parity difference at one threshold; None where fewer than two groups are compared."""
        rates = [one.selected[place] for one in self.of(by)]
        return max(rates) - min(rates) if len(rates) > 1 else None

    def name(self, place: int) -> str:
        """Return a threshold in words, marked if the decisions were made by it."""
        return format_threshold(self.thresholds[place]) + (" (in force)" if place == self.own else "")


def count_threshold_rates(
    people: ScoredPeople, selected: Booleans, least: int, in_force: Thresholds | None
) -> ThresholdRates:
    """Count the rates of every group at about a hundred thresholds.

    Args:
        people: their groups, scores and true labels.
        selected: Whether each person is selected, shape (n,); gives the threshold in force where none was given.
        least: the smallest group, and the smallest denominator of a rate, that is told.
        in_force: the thresholds that were given, if any.
    """
    sign = -1 if people.low_is_good else 1
    scores = sign * people.scores
    given = None if in_force is None or in_force.uses_protected else in_force.values[0]
    own = sign * given if given is not None else None if in_force is not None else _find_threshold(scores, selected)
    thresholds, _ = choose_thresholds(scores, [] if own is None else [own])
    cell = np.searchsorted(thresholds, scores, side="right") - 1
    weights = np.ones(len(scores)) if people.weights is None else people.weights

    def rates(chosen: Booleans) -> tuple[int, tuple[float, ...]]:
        """Return Kish's effective size of some people, and their share with a score of at least each threshold."""
        weight = weights[chosen]
        total, squares = float(weight.sum()), float((weight**2).sum())
        counts = np.bincount(cell[chosen], weights=weight, minlength=len(thresholds))
        size = int(total**2 / squares) if squares else 0
        # Running sums from the highest score down: who has at least each threshold.
        found = np.cumsum(counts[::-1])[::-1] / (total or 1.0)
        return size, tuple(np.round(found[::sign], 4).tolist())

    def measure(chosen: Booleans, by: str = "", group: str = "") -> RatesOfGroup:
        right: dict[str, Any] = {}
        if people.true_labels is not None:
            for name, label in (("true_positive", 1), ("false_positive", 0)):
                size, found = rates(chosen & (people.true_labels == label))
                right |= {name: found} if size >= least else {}
        return RatesOfGroup(by=by, group=group, n=int(chosen.sum()), selected=rates(chosen)[1], **right)

    groups = [measure(np.ones(len(scores), dtype=np.bool_))]
    left_out: dict[str, tuple[str, ...]] = {}
    for membership in people.memberships:
        kept, left_out[membership.name] = _choose_groups(membership, weights, least)
        groups += [measure(membership.codes == i, membership.name, membership.labels[i]) for i in kept]
    rising = sign * thresholds[::sign]
    place = None if own is None else np.flatnonzero(rising == sign * own)
    return ThresholdRates(
        thresholds=tuple(rising.tolist()),
        own=int(place[0]) if place is not None and len(place) else None,
        low_is_good=people.low_is_good,
        groups=tuple(groups),
        left_out={name: labels for name, labels in left_out.items() if labels},
    )


def _find_threshold(scores: Floats, selected: Booleans) -> float | None:
    """Return the score from which on people were selected; None if no threshold separates them."""
    if selected.all() or not selected.any():
        return None
    below, above = float(scores[~selected].max()), float(scores[selected].min())
    if below >= above:
        return None
    return 0.5 if below < 0.5 <= above else above


def _choose_groups(membership: Membership, weights: Floats, least: int) -> tuple[list[int], tuple[str, ...]]:
    """Return the groups that are large enough, at most twelve, in their order; and the names of the others."""
    known = len(membership.known)
    sums, squares = (
        np.bincount(membership.codes, weights=one, minlength=len(membership.labels))[:known]
        for one in (weights, weights**2)
    )
    sizes: Floats = np.divide(sums**2, squares, out=np.zeros(known), where=squares > 0)
    largest: Integers = np.argsort(-sizes, kind="stable")[:MOST_GROUPS]
    kept = sorted(i for i in largest.tolist() if sizes[i] >= least)
    people = np.bincount(membership.codes, minlength=known)
    return kept, tuple(membership.labels[i] for i in range(known) if i not in kept and people[i] > 0)


def rate_blocks(rates: ThresholdRates) -> Iterator[Block]:
    """Yield the slider, and what it shows at a few thresholds."""
    left = [f"{label} by {by}" for by, labels in rates.left_out.items() for label in labels]
    own = "" if rates.own is not None else " No single threshold in the range of these scores made the decisions."
    few = f" Not shown, too few or beyond the {MOST_GROUPS} largest: {list_some(left)}." if left else ""
    yield Figure(
        "threshold rates",
        f"Observed, on these people: who would be selected {say_limit('each threshold', rates)}. These shares are "
        f"counted and have no intervals; curves over the threshold have, if the audit was asked for them.{own}{few}",
        rates,
    )
    yield Fold("Selection rates at a few thresholds", (_few_thresholds(rates),))


def _few_thresholds(rates: ThresholdRates) -> Table:
    last = len(rates.thresholds) - 1
    places = {round(last * (i + 0.5) / SHOWN) for i in range(SHOWN)} | ({rates.own} - {None})
    shown = sorted(place for place in places if place is not None)

    def row(name: str, values: Sequence[str]) -> TableRow:
        return TableRow((name, *values))

    rows = [row("everybody", [format_percent(rates.groups[0].selected[place]) for place in shown])]
    for by in rates.attributes:
        rows.append(TableRow((by,), heading=True))
        rows += [row(one.group, [format_percent(one.selected[place]) for place in shown]) for one in rates.of(by)]
        if len(rates.of(by)) > 1:
            gaps = [format_decimal(rates.gap(by, place) or 0.0) for place in shown]
            rows.append(row("demographic parity difference", gaps))
    columns = (Column("group"), *(Column(rates.name(place), numeric=True) for place in shown))
    return Table(f"Selected {say_limit('each threshold', rates)}, observed on these people", columns, tuple(rows))
