"""Forbidden combinations as implications, in the language of a schema's rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.core import quote_word
from evenhand.proposals.columns import CodedColumns
from evenhand.proposals.combinations import ForbiddenPairs, ForbiddenTail
from evenhand.schema import Proposal, Value


def imply_pairs(columns: CodedColumns, pairs: ForbiddenPairs) -> list[Proposal]:
    """Return the fewest implications that forbid some pairs of values.

    Values of which the same is forbidden are joined. Of the two directions the one with fewer implications is taken,
    of two with as many the one that says more often what a value is, not what it is not, then the shorter one.
    """
    turned = ForbiddenPairs(pairs.columns[::-1], pairs.forbidden.T, pairs.seen.T, pairs.expected.T)
    ways = [_imply_forward(columns, way) for way in (pairs, turned)]
    texts = [[str(one.entry) for one in way] for way in ways]
    costs = [
        (len(way), sum(" == " not in text.rpartition(" -> ")[2] for text in way), len("".join(way))) for way in texts
    ]
    return ways[costs.index(min(costs))]


def imply_tail(columns: CodedColumns, tail: ForbiddenTail) -> Proposal:
    """Return the implication that forbids tails of a number: a person must confirm where exactly they begin."""
    column, number = tail.columns
    attribute = columns.attributes[number]
    ends = [None if end is None else attribute.text(end) for end in (tail.low, tail.high)]
    name = quote_word(attribute.name)
    if None not in ends:
        conclusion = f"{ends[0]} < {name} < {ends[1]}"
    else:
        conclusion = f"{name} < {ends[1]}" if ends[0] is None else f"{name} > {ends[0]}"
    text = f"{_is_one_of(columns, column, tail.codes)} -> {conclusion}"
    return Proposal(text, _describe_counts(tail.seen, tail.expected), accepted=False)


def _imply_forward(columns: CodedColumns, pairs: ForbiddenPairs) -> list[Proposal]:
    """Return the implications from values of the first attribute."""
    alike: dict[bytes, list[int]] = {}
    for code, row in enumerate(pairs.forbidden):
        if row.any():
            alike.setdefault(row.tobytes(), []).append(code)
    proposals = []
    for codes in alike.values():
        barred = np.flatnonzero(pairs.forbidden[codes[0]]).tolist()
        text = f"{_is_one_of(columns, pairs.columns[0], codes)} -> {_is_none_of(columns, pairs.columns[1], barred)}"
        cells = np.ix_(codes, barred)
        evidence = _describe_counts(int(pairs.seen[cells].sum()), float(pairs.expected[cells].sum()))
        proposals.append(Proposal(text, evidence, accepted=True))
    return proposals


def _describe_counts(seen: int, expected: float) -> str:
    return f"seen {seen:,}, expected {expected:,.0f}"


def _is_one_of(columns: CodedColumns, column: int, codes: Sequence[int]) -> str:
    return _list_values(columns, column, [columns.value(column, code) for code in codes], ("==", "in"))


def _is_none_of(columns: CodedColumns, column: int, codes: Sequence[int]) -> str:
    barred = [columns.value(column, code) for code in codes]
    allowed = [value for value in columns.attributes[column].values or () if value not in barred]
    if len(allowed) == 1:
        return _list_values(columns, column, allowed, ("==", "in"))
    return _list_values(columns, column, barred, ("!=", "not in"))


def _list_values(columns: CodedColumns, column: int, values: Sequence[Value], signs: tuple[str, str]) -> str:
    name = quote_word(columns.attributes[column].name)
    words = [quote_word(value) if isinstance(value, str) else str(value) for value in values]
    return f"{name} {signs[0]} {words[0]}" if len(words) == 1 else f"{name} {signs[1]} {{{', '.join(words)}}}"
