"""Gaps between groups and of subgroups, before and after a mitigation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from evenhand.core.typing import Booleans, Integers
from evenhand.groups.analysis import measure_decisions
from evenhand.groups.breakdown import SMALL
from evenhand.groups.membership import Membership, group_by_attribute, number_combinations
from evenhand.mitigation.comparison_lines import ChangeAt, ComparisonSides, ModelDecisions, PendingComparison, pending
from evenhand.mitigation.result import Change, ComparisonPart
from evenhand.stats.paired import PairedCells, change_of_largest, change_of_smallest_ratio
from evenhand.stats.proportion import DIFFERENCE_METHOD, largest_difference_of_proportions
from evenhand.stats.quantity import Observed, Quantity, Unknown
from evenhand.subgroups.rules import Rules, find_members

GAPS = {
    "demographic_parity_difference": "selection rates by {}: highest minus lowest",
    "demographic_parity_ratio": "selection rates by {}: lowest divided by highest",
    "equal_opportunity_difference": "true positive rates by {}: highest minus lowest",
    "equalized_odds_difference": "true or false positive rates by {}, whichever differ more",
}
"""Compared gaps between groups, and their descriptions."""

METHOD = "Agresti and Min's interval, of the pairs of groups for which it reaches furthest"
RATIOS = "Zou and Donner's interval of Katz's limits, of the pairs of groups for which it reaches furthest"


def compare_groups(
    sides: ComparisonSides, sets: Sequence[tuple[str, ...]]
) -> tuple[list[PendingComparison], list[str]]:
    """Compare the gaps between groups by each set of protected attributes, and note the gaps that are unknown.

    Groups with fewer than ``SMALL`` people in the test set are left out.
    """
    names = tuple(dict.fromkeys(name for protected in sets for name in protected))
    if not names:
        return [], []
    memberships = {name: _group_people(sides, name) for name in names}
    test = len(sides.test)
    values = {name: np.array(membership.labels)[membership.codes[:test]] for name, membership in memberships.items()}
    original, new = (
        {
            (number.name, number.attribute): number.quantity
            for number in measure_decisions(
                side.favourable_decisions, side.people.favourable, values, confidence=sides.confidence
            ).numbers()
            if not number.group
        }
        for side in (sides.before, sides.after)
    )
    comparisons, notes = [], []
    for protected in sets:
        group, _ = number_combinations([(memberships[name].codes, len(memberships[name].labels)) for name in protected])
        of = " x ".join(protected)
        for name, words in GAPS.items():
            key = name, "_x_".join(protected)
            if key not in original or key not in new:
                notes.append(
                    f"{words.format(of)}: not compared, fewer than two groups of {SMALL} people in the test set"
                )
                continue
            gaps = original[key], new[key]
            change = None
            if not any(isinstance(gap, Unknown) for gap in gaps):
                change = _gap_change(name, group[:test], group[test:], sides, gaps[1].value - gaps[0].value)
            better: Literal["up", "down"] = "up" if name == "demographic_parity_ratio" else "down"
            comparisons.append(pending("groups", name, of, words.format(of), gaps, change, better_if=better))
    return comparisons, notes


def compare_widest_gap(protected: tuple[str, ...], words: str, sides: ComparisonSides) -> PendingComparison:
    """Compare the demographic parity difference between the joint groups of protected attributes, as a metric."""
    name, of = "demographic_parity_difference", " x ".join(protected)
    for line, change in compare_groups(sides, [protected])[0]:
        if line.name == name:
            return PendingComparison(line.model_copy(update={"part": "asked", "words": words}), change)
    unknown = Unknown(reason=f"fewer than two groups of {SMALL} people in the test set")
    return pending("asked", name, of, words, (unknown, unknown))


def compare_subgroup(
    part: ComparisonPart, rules: Rules, words: str, sides: ComparisonSides, note: str = ""
) -> PendingComparison:
    """Compare the absolute gap between a subgroup and all other people."""
    inside = find_members(sides.test, rules)
    title = f"the gap of {words}"
    if inside.all() or not inside.any():
        unknown: Quantity = Unknown(
            reason="the test set has no members" if not inside.any() else "all people of the test set are members"
        )
        return pending(part, "subgroup_gap", words, title, (unknown, unknown), note=note)
    original, new = (_absolute_gap(side, inside, sides.confidence) for side in (sides.before, sides.after))
    cells = _paired_cells(inside.astype(np.int64), sides.before, sides.after, 2)
    # The favoured side is chosen on the validation set, so that the test set measures it without selection.
    members = find_members(sides.validation, rules).astype(np.int64)
    validation = _paired_cells(members, sides.before_validation, sides.after_validation, 2)
    pairs = np.array([[1, 0]])

    def change(confidence: float) -> Change:
        low, high = change_of_largest(cells, pairs, expected_pairs(validation, pairs), confidence)
        return Change(
            value=new.value - original.value,
            low=low,
            high=high,
            confidence=confidence,
            n=len(sides.test),
            method=METHOD.replace("pairs of groups", "side"),
        )

    return pending(part, "subgroup_gap", words, title, (original, new), change, note=note)


def expected_pairs(cells: PairedCells, pairs: Integers, *, ratio: bool = False) -> tuple[int, int]:
    """Find the pairs, in either order, with the largest gap before and after, in people outside the test set."""
    ordered = np.concatenate([pairs, pairs[:, ::-1]])
    gaps = [
        shares[ordered[:, 1]] / shares[ordered[:, 0]] if ratio else shares[ordered[:, 0]] - shares[ordered[:, 1]]
        for shares in (np.maximum(side, 1e-9) if ratio else side for side in cells.shares())
    ]
    return int(np.argmax(gaps[0])), int(np.argmax(gaps[1]))


def _group_people(sides: ComparisonSides, name: str) -> Membership:
    """Group the test set and then the validation set, with common ranges."""
    schema = sides.test.schema
    entries = [people.individuals[:, schema.position(name)] for people in (sides.test, sides.validation)]
    return group_by_attribute(schema[name], np.concatenate(entries))


def _gap_change(name: str, test: Integers, validation: Integers, sides: ComparisonSides, value: float) -> ChangeAt:
    size = int(max(test.max(), validation.max())) + 1
    # Small groups are left out on both sides, since their rates would dominate the largest gap by chance.
    large = np.flatnonzero(np.bincount(test, minlength=size) >= SMALL)
    favourable = sides.test.favourable, sides.validation.favourable
    blocks = 1
    if name == "equal_opportunity_difference":
        # True positive rates: people without the favourable true label are in no cell (-1).
        test, validation = (
            np.where(mask, group, -1) for mask, group in zip(favourable, (test, validation), strict=True)
        )
    elif name == "equalized_odds_difference":
        # The larger of two gaps: one block of cells for each true label, with pairs within a block.
        test, validation = (
            np.where(mask, group, size + group) for mask, group in zip(favourable, (test, validation), strict=True)
        )
        blocks = 2
    cells = _paired_cells(test, sides.before, sides.after, blocks * size)
    outside = _paired_cells(validation, sides.before_validation, sides.after_validation, blocks * size)
    occupied = [[i for i in block * size + large if cells.sizes[i] > 0] for block in range(blocks)]
    pairs = np.array([pair for block in occupied for pair in combinations(block, 2)], dtype=np.int64)
    ratio = name == "demographic_parity_ratio"

    def change(confidence: float) -> Change:
        bounds = change_of_smallest_ratio if ratio else change_of_largest
        low, high = bounds(cells, pairs, expected_pairs(outside, pairs, ratio=ratio), confidence)
        people = int(cells.sizes[np.unique(pairs)].sum())
        return Change(
            value=value, low=low, high=high, confidence=confidence, n=people, method=RATIOS if ratio else METHOD
        )

    return change


def _paired_cells(cell: Integers, original: ModelDecisions, new: ModelDecisions, cells: int) -> PairedCells:
    return PairedCells.count(cell, original.favourable_decisions, new.favourable_decisions, cells)


def _absolute_gap(side: ModelDecisions, inside: Booleans, confidence: float) -> Observed:
    selected = side.favourable_decisions
    counts = np.array([selected[inside].sum(), selected[~inside].sum()])
    sizes = np.array([inside.sum(), (~inside).sum()])
    low, high = largest_difference_of_proportions(counts, sizes, confidence)
    value = abs(float(counts[0] / sizes[0] - counts[1] / sizes[1]))
    return Observed(value=value, n=len(inside), low=low, high=high, confidence=confidence, method=DIFFERENCE_METHOD)
