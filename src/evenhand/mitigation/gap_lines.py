"""Gaps between groups and of subgroups, before and after a mitigation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from evenhand.core.typing import Booleans, Integers
from evenhand.groups.analysis import measure_people
from evenhand.groups.config import SMALL, GroupConfig
from evenhand.groups.membership import DecidedPeople, group_by_attribute, number_combinations
from evenhand.mitigation.comparison_lines import ChangeAt, ComparisonSides, ModelDecisions, PendingComparison, change_at
from evenhand.mitigation.result import ComparisonPart
from evenhand.stats.paired import PairedCells, change_of_largest, change_of_smallest_ratio
from evenhand.stats.proportion import DIFFERENCE_METHOD, largest_difference_of_proportions
from evenhand.stats.quantity import Observed, Quantity, Unknown
from evenhand.subgroups.rules import Rules, find_members

RATIO = "demographic_parity_ratio"

GAPS = {
    "demographic_parity_difference": "selection rates by {}: highest minus lowest",
    RATIO: "selection rates by {}: lowest divided by highest",
    "equal_opportunity_difference": "true positive rates by {}: highest minus lowest",
    "equalized_odds_difference": "true or false positive rates by {}, whichever differ more",
}
"""Compared gaps between groups, and their descriptions."""

METHOD = "Agresti and Min's interval, of the pairs of groups for which it reaches furthest"
RATIOS = "Zou and Donner's interval of Katz's limits, of the pairs of groups for which it reaches furthest"


def compare_groups(
    sides: ComparisonSides, sets: Sequence[tuple[str, ...]]
) -> tuple[list[PendingComparison], list[str]]:
    """Compare the gaps between groups for each set of protected attributes, and note unknown gaps.

    Groups with fewer than ``SMALL`` people in the test set are excluded.
    """
    names = tuple(dict.fromkeys(name for protected in sets for name in protected))
    if not names:
        return [], []
    schema, test = sides.test.schema, len(sides.test)
    individuals = np.concatenate(
        [people.individuals[:, : len(schema.names)] for people in (sides.test, sides.validation)]
    )
    # The test set and then the validation set are grouped with common ranges.
    memberships = {name: group_by_attribute(schema[name], individuals[:, schema.position(name)]) for name in names}
    tested = [replace(membership, codes=membership.codes[:test], unknown=False) for membership in memberships.values()]
    original, new = (
        {
            (number.name, number.attribute): number.quantity
            for number in measure_people(
                DecidedPeople(tested, side.favourable_decisions, side.people.favourable.astype(np.int64)),
                GroupConfig(confidence=sides.confidence),
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
            before, after = gaps = original[key], new[key]
            change = None
            if not isinstance(before, Unknown) and not isinstance(after, Unknown):
                change = _gap_change(name, group[:test], group[test:], sides, after.value - before.value)
            better = "up" if name == RATIO else "down"
            comparisons.append(
                PendingComparison.of("groups", name, of, words.format(of), gaps, change, better_if=better)
            )
    return comparisons, notes


def compare_widest_gap(protected: tuple[str, ...], words: str, sides: ComparisonSides) -> PendingComparison:
    """Compare the demographic parity difference between the joint groups of protected attributes, as a metric."""
    name = "demographic_parity_difference"
    for line, change in compare_groups(sides, [protected])[0]:
        if line.name == name:
            return PendingComparison(line.model_copy(update={"part": "asked", "words": words}), change)
    unknown = Unknown(reason=f"fewer than two groups of {SMALL} people in the test set")
    return PendingComparison.of("asked", name, " x ".join(protected), words, (unknown, unknown))


def compare_subgroup(
    part: ComparisonPart, rules: Rules, words: str, sides: ComparisonSides, note: str = ""
) -> PendingComparison:
    """Compare the absolute gap between a subgroup and all other people."""
    inside = find_members(sides.test, rules)
    gaps: list[Quantity]
    change = None
    if inside.all() or not inside.any():
        reason = "the test set has no members" if not inside.any() else "all people of the test set are members"
        gaps = [Unknown(reason=reason)] * 2
    else:
        before, after = (_absolute_gap(side, inside, sides.confidence) for side in (sides.before, sides.after))
        gaps = [before, after]
        members = inside.astype(np.int64), find_members(sides.validation, rules).astype(np.int64)
        method = METHOD.replace("pairs of groups", "side")
        change = _widest_change(sides, members, 2, np.array([[1, 0]]), after.value - before.value, method)
    return PendingComparison.of(part, "subgroup_gap", words, f"the gap of {words}", gaps, change, note=note)


def expected_pairs(cells: PairedCells, pairs: Integers, *, ratio: bool = False) -> tuple[int, int]:
    """Find the pairs, in either order, with the largest gap before and after, in people outside the test set."""
    ordered = np.concatenate([pairs, pairs[:, ::-1]])
    gaps = [
        shares[ordered[:, 1]] / shares[ordered[:, 0]] if ratio else shares[ordered[:, 0]] - shares[ordered[:, 1]]
        for shares in (np.maximum(side, 1e-9) if ratio else side for side in cells.shares())
    ]
    return int(np.argmax(gaps[0])), int(np.argmax(gaps[1]))


def _gap_change(name: str, test: Integers, validation: Integers, sides: ComparisonSides, value: float) -> ChangeAt:
    size = int(max(test.max(), validation.max())) + 1
    # Small groups are excluded from both sides, since their rates would dominate the largest gap by chance.
    large = np.flatnonzero(np.bincount(test, minlength=size) >= SMALL)
    # People without the favourable true label are in no cell (-1) of true positive rates. For the larger of two gaps,
    # they form a second block of cells, with pairs within each block.
    blocks = 2 if name == "equalized_odds_difference" else 1
    if name in ("equal_opportunity_difference", "equalized_odds_difference"):
        test, validation = (
            np.where(people.favourable, group, size + group if blocks == 2 else -1)
            for people, group in ((sides.test, test), (sides.validation, validation))
        )
    occupied = [[i for i in block * size + large if (test == i).any()] for block in range(blocks)]
    pairs = np.array([pair for block in occupied for pair in combinations(block, 2)], dtype=np.int64)
    ratio = name == RATIO
    method = RATIOS if ratio else METHOD
    return _widest_change(sides, (test, validation), blocks * size, pairs, value, method, ratio=ratio)


def _widest_change(
    sides: ComparisonSides,
    members: tuple[Integers, Integers],
    cells: int,
    pairs: Integers,
    value: float,
    method: str,
    *,
    ratio: bool = False,
) -> ChangeAt:
    """Bound the change of the widest gap. Its pairs are chosen on the validation set.

    Args:
        sides: Decisions.
        members: Cell of each person of the test and of the validation set, -1 for none.
        cells: Number of cells.
        pairs: Pairs of cells, shape (pairs, 2).
        value, method: As in ``Change``.
        ratio: Whether the gap is the smallest ratio, instead of the largest difference.
    """
    test, validation = (
        PairedCells.count(cell, before.favourable_decisions, after.favourable_decisions, cells)
        for cell, before, after in (
            (members[0], sides.before, sides.after),
            (members[1], sides.before_validation, sides.after_validation),
        )
    )
    bounds = change_of_smallest_ratio if ratio else change_of_largest
    interval = partial(bounds, test, pairs, expected_pairs(validation, pairs, ratio=ratio))
    return change_at(value, interval, int(test.sizes[np.unique(pairs)].sum()), method)


def _absolute_gap(side: ModelDecisions, inside: Booleans, confidence: float) -> Observed:
    selected = side.favourable_decisions
    counts = np.array([selected[inside].sum(), selected[~inside].sum()])
    sizes = np.array([inside.sum(), (~inside).sum()])
    low, high = largest_difference_of_proportions(counts, sizes, confidence)
    value = abs(float(counts[0] / sizes[0] - counts[1] / sizes[1]))
    return Observed(value=value, n=len(inside), low=low, high=high, confidence=confidence, method=DIFFERENCE_METHOD)
