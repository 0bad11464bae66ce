"""Forbidden combinations: values that would meet in hundreds of people, were they independent, and do not.

For a pair with k people, and e = n_a n_b / n expected if the two were independent, the null hypothesis is that at least
``RARE`` times as many have it as chance would give: p = P(Poisson(RARE e) <= k). Holm's correction over all pairs
controls the chance of one false rule. A few people may have the combination all the same: data hold wrong entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand.proposals.columns import CodedColumns
from evenhand.stats import holm, poisson_cdf
from evenhand.typing import Booleans, Floats, Integers

RARE = 0.05
"""A combination is forbidden if less than this share of what chance would give exists."""

LEVEL = 0.01
"""Chance of one false rule or more, over all combinations together."""

MOST_SEEN = 1e-4
"""Share of all people who may have a forbidden combination, at most: wrong entries."""

MOST_CUTS = 128
"""A number of more values is cut at so many of its quantiles."""


@dataclass(frozen=True)
class _Counts:
    """How many people have the values of one attribute together with values, or a tail, of another.

    Attributes:
        columns: of the two attributes.
        tail: ``<`` for the smallest numbers up to an entry, ``>`` for the largest from an entry on; "" for values.
        codes: shape (m,), of the second attribute: values, or ends of tails.
        seen, expected: shape (values, m).
    """

    columns: tuple[int, int]
    tail: str
    codes: Integers
    seen: Integers
    expected: Floats


@dataclass(frozen=True)
class ForbiddenPairs:
    """Pairs of values of two attributes that do not occur together.

    Attributes:
        columns: of the two attributes.
        forbidden: shape (values of the first, values of the second), by their codes.
        seen, expected: the same shape: people who have the pair, and how many had it if the two were independent.
    """

    columns: tuple[int, int]
    forbidden: Booleans
    seen: Integers
    expected: Floats


@dataclass(frozen=True)
class ForbiddenTail:
    """Values of an attribute that do not occur together with a tail of a number.

    Attributes:
        columns: of the attribute and of the number.
        codes: the values.
        low, high: entries of the number that they do not reach: it lies strictly between; None: no such end.
        seen, expected: people who lie outside, and how many would if the two were independent.
    """

    columns: tuple[int, int]
    codes: tuple[int, ...]
    low: float | None
    high: float | None
    seen: int
    expected: float


def find_forbidden(
    columns: CodedColumns, determined: frozenset[frozenset[int]]
) -> tuple[list[ForbiddenPairs], list[ForbiddenTail]]:
    """Return the combinations of two values, and of a value and a tail of a number, that do not occur.

    Args:
        columns: the people.
        determined: pairs of columns that a dependency ties together, which are not looked at.
    """
    counts = list(_count_all(columns, determined))
    if not counts:
        return [], []
    seen = np.concatenate([one.seen.ravel() for one in counts])
    expected = np.concatenate([one.expected.ravel() for one in counts])
    rejected = holm(poisson_cdf(seen, RARE * expected)) <= LEVEL
    rejected &= seen <= MOST_SEEN * len(columns.codes)
    ends = np.cumsum([one.seen.size for one in counts])[:-1]
    found = [
        (one, part.reshape(one.seen.shape))
        for one, part in zip(counts, np.split(rejected, ends), strict=True)
        if part.any()
    ]
    pairs = [ForbiddenPairs(one.columns, part, one.seen, one.expected) for one, part in found if not one.tail]
    return pairs, _join_tails(columns, [(one, part) for one, part in found if one.tail])


def _count_all(columns: CodedColumns, determined: frozenset[frozenset[int]]) -> Iterator[_Counts]:
    for one, first in enumerate(columns.attributes):
        for other, second in enumerate(columns.attributes):
            if not first.is_discrete or one == other or frozenset((one, other)) in determined:
                continue
            if second.is_discrete and other < one:
                continue
            table = columns.count(one, other)
            people, sizes = max(1, table.sum()), table.sum(axis=1, keepdims=True)
            if second.is_discrete:
                codes = np.arange(table.shape[1])
                yield _Counts((one, other), "", codes, table, sizes * table.sum(axis=0) / people)
            elif table.shape[1] > 1:
                cuts = _cut_codes(table.sum(axis=0))
                below = table.cumsum(axis=1)[:, cuts]
                expected = sizes * below.sum(axis=0) / people
                yield _Counts((one, other), "<", cuts, below, expected)
                yield _Counts((one, other), ">", cuts + 1, sizes - below, sizes - expected)


def _cut_codes(people: Integers) -> Integers:
    """Return after which values of a number to cut, given the people who have each."""
    if len(people) - 1 <= MOST_CUTS:
        return np.arange(len(people) - 1)
    shares = np.cumsum(people) / people.sum()
    cuts = np.searchsorted(shares, np.arange(1, MOST_CUTS + 1) / (MOST_CUTS + 1))
    return np.unique(np.minimum(cuts, len(people) - 2))


def _join_tails(columns: CodedColumns, found: Sequence[tuple[_Counts, Booleans]]) -> list[ForbiddenTail]:
    """Return for each value the widest tails, with values of the same tails joined."""
    widest: dict[tuple[tuple[int, int], int], dict[str, tuple[_Counts, int]]] = defaultdict(dict)
    for one, rejected in found:
        for code in np.flatnonzero(rejected.any(axis=1)).tolist():
            place = int(np.where(rejected[code], one.expected[code], -1.0).argmax())
            widest[one.columns, code][one.tail] = one, place
    joined: dict[tuple[tuple[int, int], float | None, float | None], ForbiddenTail] = {}
    for (pair, code), tails in widest.items():
        entries = {tail: float(columns.entries[pair[1]][one.codes[place]]) for tail, (one, place) in tails.items()}
        low, high = entries.get("<"), entries.get(">")
        before = joined.get((pair, low, high), ForbiddenTail(pair, (), low, high, 0, 0.0))
        joined[pair, low, high] = replace(
            before,
            codes=(*before.codes, code),
            seen=before.seen + sum(int(one.seen[code, place]) for one, place in tails.values()),
            expected=before.expected + sum(float(one.expected[code, place]) for one, place in tails.values()),
        )
    return list(joined.values())
