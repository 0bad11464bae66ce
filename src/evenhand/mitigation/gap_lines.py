"""Gaps between groups and of subgroups, before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand import groups
from evenhand.core.typing import Booleans, Integers
from evenhand.groups.membership import Membership, group_by_attribute, number_combinations
from evenhand.groups.result import SMALL
from evenhand.mitigation.comparison_lines import ComparisonSides, ModelDecisions, PendingComparison
from evenhand.mitigation.result import Change, ComparisonPart
from evenhand.stats.paired import PairedCells, change_of_largest, change_of_smallest_ratio, paired_contrast
from evenhand.stats.proportion import DIFFERENCE_METHOD, difference_interval, largest_difference_of_proportions
from evenhand.stats.quantity import Observed, Quantity, Unknown
from evenhand.subgroups.result import Finding, SubgroupResult
from evenhand.subgroups.rules import Rules, find_members

GAPS = {
    "demographic_parity_difference": "selection rates by {}: highest minus lowest",
    "demographic_parity_ratio": "selection rates by {}: lowest divided by highest",
    "equal_opportunity_difference": "true positive rates by {}: highest minus lowest",
    "equalized_odds_difference": "true or false positive rates by {}, whichever differ more",
}
"""Gaps between groups that are compared, in words."""

METHOD = "Agresti and Min's interval, of the pairs of groups for which it reaches furthest"
RATIOS = "Zou and Donner's interval of Katz's limits, of the pairs of groups for which it reaches furthest"


def compare_groups(
    sides: ComparisonSides, sets: Sequence[tuple[str, ...]]
) -> tuple[list[PendingComparison], list[str]]:
    """Return the gaps between groups by each set of protected attributes, and what could not be compared.

    Groups of fewer than ``SMALL`` test people take no part.
    """
    names = tuple(dict.fromkeys(name for protected in sets for name in protected))
    memberships = {name: _group_people(sides, name) for name in names}
    test = len(sides.test)
    found, notes = [], []
    for protected in sets:
        values = {name: np.array(memberships[name].labels)[memberships[name].codes[:test]] for name in protected}
        before, after = (_measure_breakdown(side, values, sides.confidence) for side in (sides.before, sides.after))
        group, _ = number_combinations([(memberships[name].codes, len(memberships[name].labels)) for name in protected])
        of = " x ".join(protected)
        for name, words in GAPS.items():
            first, second = before.gap(name), after.gap(name)
            if first is None or second is None:
                notes.append(f"{words.format(of)}: not compared, fewer than two groups of {SMALL} test people")
                continue
            change = None
            if not isinstance(first.value, Unknown) and not isinstance(second.value, Unknown):
                value = second.value.value - first.value.value
                change = _gap_change(name, group[:test], group[test:], sides, value)
            better: Literal["up", "down"] = "up" if name == "demographic_parity_ratio" else "down"
            found.append(
                PendingComparison("groups", name, of, words.format(of), first.value, second.value, better, change)
            )
    return found, notes


def compare_widest_gap(protected: tuple[str, ...], words: str, sides: ComparisonSides) -> PendingComparison:
    """Return the widest gap between the groups by protected attributes together, as what was to be mended."""
    name, of = "demographic_parity_difference", " x ".join(protected)
    for draft in compare_groups(sides, [protected])[0]:
        if draft.name == name:
            return replace(draft, part="asked", words=words)
    unknown = Unknown(reason=f"fewer than two groups of {SMALL} test people")
    return PendingComparison("asked", name, of, words, unknown, unknown, "down")


def compare_subgroup(
    part: ComparisonPart, rules: Rules, words: str, sides: ComparisonSides, note: str = ""
) -> PendingComparison:
    """Return the gap between a subgroup and everybody else, whichever side it favours."""
    inside = find_members(sides.test, rules)
    title = f"the gap of {words}"
    if inside.all() or not inside.any():
        unknown: Quantity = Unknown(
            reason="no test people are in it" if not inside.any() else "all test people are in it"
        )
        return PendingComparison(part, "subgroup_gap", words, title, unknown, unknown, "down", note=note)
    before, after = (_absolute_gap(side, inside, sides.confidence) for side in (sides.before, sides.after))
    cells = _paired_cells(inside.astype(np.int64), sides.before, sides.after, 2)
    # Which side is ahead is selected on the validation people, so that the test people measure it without selection.
    chosen = _paired_cells(
        find_members(sides.chosen, rules).astype(np.int64), sides.before_chosen, sides.after_chosen, 2
    )
    pairs = np.array([[1, 0]])

    def change(confidence: float) -> Change:
        low, high = change_of_largest(cells, pairs, expected_pairs(chosen, pairs), confidence)
        return Change(
            value=after.value - before.value,
            low=low,
            high=high,
            confidence=confidence,
            n=len(sides.test),
            method=METHOD.replace("pairs of groups", "side"),
        )

    return PendingComparison(part, "subgroup_gap", words, title, before, after, "down", change, note=note)


def compare_widest_findings(sides: ComparisonSides, before: Finding, after: Finding) -> PendingComparison | None:
    """Return the gap that a search finds under the given model, against the one that it finds under the new one.

    Both subgroups, and whom they favour, were selected on the validation set, so their gaps on the test people are
    not wide by selection. None if either has no test people.
    """
    first, second = find_members(sides.test, before.rules), find_members(sides.test, after.rules)
    if any(one.all() or not one.any() for one in (first, second)):
        return None
    signs = [1 if finding.gap >= 0 else -1 for finding in (before, after)]
    # Cells by membership in the one and in the other; given who is in them, weights are fixed.
    cells = _paired_cells(2 * first.astype(np.int64) + second, sides.before, sides.after, 4)
    sizes = cells.sizes
    weights = []
    for sign, inside in zip(signs, (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])), strict=True):
        within, without = (sizes * inside).sum(), (sizes * (1 - inside)).sum()
        weights.append(sign * sizes * (inside / within - (1 - inside) / without))
    sizes_before, sizes_after = (
        _signed_gap(side, inside, sign, sides.confidence)
        for side, inside, sign in ((sides.before, first, signs[0]), (sides.after, second, signs[1]))
    )
    shares = cells.shares()

    def change(confidence: float) -> Change:
        used = sizes > 0
        low, high = paired_contrast(PairedCells(cells.counts[used]), weights[0][used], weights[1][used], confidence)
        return Change(
            value=float(weights[1] @ shares[1] - weights[0] @ shares[0]),
            low=float(low),
            high=float(high),
            confidence=confidence,
            n=len(sides.test),
            method="Agresti and Min's interval; the subgroups were selected on the validation set",
        )

    words = "the widest gap that a search finds"
    note = f"{_join_notes(before.words, after.words)}; found on the validation people, measured on the test people"
    return PendingComparison("subgroups", "widest_gap", "", words, sizes_before, sizes_after, "down", change, note=note)


def compare_searches(before: SubgroupResult, after: SubgroupResult) -> PendingComparison:
    """Return the widest gap that a search of the test people themselves finds, under either model.

    Its intervals are adjusted for all subgroups tested; the subgroups may be different ones, and were chosen on the
    people they are measured on, so nothing is said of the change.
    """
    widest = [max(one.findings, key=lambda finding: abs(finding.gap)) for one in (before, after)]
    first, second = (
        Observed(
            value=abs(one.gap),
            n=one.size + one.rest,
            low=max(0.0, one.low, -one.high),
            high=max(abs(one.low), abs(one.high)),
            confidence=result.confidence,
            method=f"adjusted for {result.tested:,} subgroups looked at ({result.control})",
        )
        for one, result in zip(widest, (before, after), strict=True)
    )
    note = (
        f"before: {widest[0].words}, {before.found:,} of {before.tested:,} subgroups are significant after adjustment; "
        f"after: {widest[1].words}, {after.found:,} are"
    )
    words = "the widest gap among the test people themselves"
    return PendingComparison("subgroups", "found_gap", "", words, first, second, "down", note=note)


def _join_notes(before: str, after: str) -> str:
    return f"before and after: {before}" if before == after else f"before: {before}; after: {after}"


def expected_pairs(cells: PairedCells, pairs: Integers, *, ratio: bool = False) -> tuple[int, int]:
    """Return the pairs, in both orders, that are furthest apart before and after among people outside the test set."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    shares = cells.shares() if not ratio else [np.maximum(one, 1e-9) for one in cells.shares()]
    measured = [one[both[:, 1]] / one[both[:, 0]] if ratio else one[both[:, 0]] - one[both[:, 1]] for one in shares]
    first, second = (int(np.argmax(one)) for one in measured)
    return first, second


def _group_people(sides: ComparisonSides, name: str) -> Membership:
    """Return the groups of the test people, then of the validation people; ranges are cut once for both."""
    schema = sides.test.schema
    entries = [people.individuals[:, schema.position(name)] for people in (sides.test, sides.chosen)]
    return group_by_attribute(schema[name], np.concatenate(entries))


def _measure_breakdown(
    side: ModelDecisions, values: dict[str, NDArray[np.str_]], confidence: float
) -> groups.Breakdown:
    measured = groups.measure_decisions(
        side.favourable_decisions, side.people.favourable, values, confidence=confidence
    )
    return measured.breakdowns[-1]


def _gap_change(
    name: str, test: Integers, chosen: Integers, sides: ComparisonSides, value: float
) -> Callable[[float], Change]:
    size = int(max(test.max(), chosen.max())) + 1
    deserving = sides.test.favourable
    # Small groups count neither before nor after: their rates would dominate the largest gap by chance alone.
    enough = np.flatnonzero(np.bincount(test, minlength=size) >= SMALL)
    blocks = 1
    if name == "equal_opportunity_difference":
        # Equal opportunity compares true positive rates: people without the favourable true label are in no cell (-1).
        test = np.where(deserving, test, -1)
        chosen = np.where(sides.chosen.favourable, chosen, -1)
    elif name == "equalized_odds_difference":
        # Equalized odds is the larger of two gaps: one block of cells for each true label, and pairs within a block
        # only.
        test = np.where(deserving, test, size + test)
        chosen = np.where(sides.chosen.favourable, chosen, size + chosen)
        blocks = 2
    cells = _paired_cells(test, sides.before, sides.after, blocks * size)
    before = _paired_cells(chosen, sides.before_chosen, sides.after_chosen, blocks * size)
    there = [[i for i in block * size + enough if cells.sizes[i] > 0] for block in range(blocks)]
    pairs = np.array([pair for block in there for pair in combinations(block, 2)], dtype=np.int64)
    ratio = name == "demographic_parity_ratio"

    def change(confidence: float) -> Change:
        bounds = change_of_smallest_ratio if ratio else change_of_largest
        low, high = bounds(cells, pairs, expected_pairs(before, pairs, ratio=ratio), confidence)
        people = int(cells.sizes[np.unique(pairs)].sum())
        return Change(
            value=value, low=low, high=high, confidence=confidence, n=people, method=RATIOS if ratio else METHOD
        )

    return change


def _paired_cells(cell: Integers, before: ModelDecisions, after: ModelDecisions, cells: int) -> PairedCells:
    return PairedCells.count(cell, before.favourable_decisions, after.favourable_decisions, cells)


def _absolute_gap(side: ModelDecisions, inside: Booleans, confidence: float) -> Observed:
    favoured = side.favourable_decisions
    k = np.array([favoured[inside].sum(), favoured[~inside].sum()])
    n = np.array([inside.sum(), (~inside).sum()])
    low, high = largest_difference_of_proportions(k, n, confidence)
    value = abs(float(k[0] / n[0] - k[1] / n[1]))
    return Observed(value=value, n=len(inside), low=low, high=high, confidence=confidence, method=DIFFERENCE_METHOD)


def _signed_gap(side: ModelDecisions, inside: Booleans, sign: int, confidence: float) -> Observed:
    """The gap towards the side that was favoured where the subgroup was chosen; below 0 if it is the other one here."""
    favoured, n = side.favourable_decisions, len(inside)
    one, other = (inside, ~inside) if sign > 0 else (~inside, inside)
    low, high = difference_interval(favoured[one].sum(), one.sum(), favoured[other].sum(), other.sum(), confidence)
    value = float(favoured[one].mean() - favoured[other].mean())
    return Observed(value=value, n=n, low=float(low), high=float(high), confidence=confidence, method=DIFFERENCE_METHOD)
