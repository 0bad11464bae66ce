"""Links: values that only people of one protected value have, paired with those that only people of another have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.proposals.columns import CodedColumns
from evenhand.proposals.combinations import ForbiddenPairs
from evenhand.schema import Link, Proposal, Value
from evenhand.typing import Booleans, Floats

BINS = 16
"""A number is compared in so many bins, cut at its quantiles."""


def find_links(columns: CodedColumns, protected: Sequence[int], pairs: Sequence[ForbiddenPairs]) -> list[Proposal]:
    """Return which values stand for each other when a protected attribute changes; a person must confirm each.

    Let a be the most common protected value and a' another. The values that are forbidden under a' only are matched
    with those that are forbidden under a only, so that the people who have them are as alike as possible: the least
    mean total variation of all other attributes (Kuhn, "The Hungarian method for the assignment problem", 1955).
    """
    found = []
    for pair in pairs:
        for one, other, forbidden in (
            (*pair.columns, pair.forbidden),
            (*pair.columns[::-1], pair.forbidden.T),
        ):
            if one in protected and other not in protected:
                proposal = _match_values(columns, one, other, forbidden)
                found += [proposal] if proposal is not None else []
    return found


def _match_values(columns: CodedColumns, one: int, other: int, forbidden: Booleans) -> Proposal | None:
    """Return the link by which the second attribute moves with the first; None if no values answer each other."""
    from scipy.optimize import linear_sum_assignment

    common = int(np.bincount(columns.codes[columns.codes[:, one] >= 0, one]).argmax())
    distances = _compare_values(columns, one, other)
    rows: dict[int, dict[Value, Value]] = {}
    row_of: dict[int, int] = {}
    evidence = []
    for value in range(len(forbidden)):
        of_common = np.flatnonzero(forbidden[value] & ~forbidden[common])
        of_value = np.flatnonzero(forbidden[common] & ~forbidden[value])
        firsts, seconds = linear_sum_assignment(distances[np.ix_(of_common, of_value)])
        for first, second in zip(of_common[firsts].tolist(), of_value[seconds].tolist(), strict=True):
            if row_of.setdefault(second, first) == first:  # else it would stand in two rows
                row = rows.setdefault(first, {columns.value(one, common): columns.value(other, first)})
                row[columns.value(one, value)] = columns.value(other, second)
                evidence.append(_describe_match(columns, other, distances[first], (first, second)))
    if not rows:
        return None
    names = columns.attributes[one].name, columns.attributes[other].name
    return Proposal(Link(when=names[0], move=names[1], rows=tuple(rows.values())), "; ".join(evidence), accepted=False)


def _compare_values(columns: CodedColumns, one: int, other: int) -> Floats:
    """Return how much people with two values of an attribute differ, shape (values, values).

    The total variation between the distributions of an attribute, on average over all but these two.
    """
    size = len(columns.entries[other])
    rest = [column for column in range(len(columns.attributes)) if column not in (one, other)]
    distances = np.zeros((size, size))
    for column in rest:
        table = columns.count(other, column)
        if not columns.attributes[column].is_discrete:
            people = table.sum(axis=0)
            bins = ((np.cumsum(people) - people / 2) / max(1, people.sum()) * BINS).astype(np.int64)
            table = np.stack([np.bincount(bins, weights=row, minlength=BINS) for row in table])
        shares = table / np.maximum(1, table.sum(axis=1, keepdims=True))
        for value in range(size):
            distances[value] += np.abs(shares - shares[value]).sum(axis=1) / 2
    return distances / max(1, len(rest))


def _describe_match(columns: CodedColumns, column: int, distances: Floats, pair: tuple[int, int]) -> str:
    """Return how alike two values are, and the value that would have come next."""
    first, second = (columns.value(column, code) for code in pair)
    text = f"{first} and {second} differ by {distances[pair[1]]:.3f} in mean total variation"
    others = [code for code in range(len(distances)) if code not in pair]
    if not others:
        return text
    best = min(others, key=lambda code: distances[code])
    return f"{text}, {first} and {columns.value(column, best)} (next best) by {distances[best]:.3f}"
