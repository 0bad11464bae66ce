"""Functional dependencies: attributes that another attribute determines, but for a few wrong entries."""

from __future__ import annotations

import numpy as np

from evenhand.proposals.columns import CodedColumns
from evenhand.schema import Attribute, Dependency, Proposal
from evenhand.stats import bonferroni, clopper_pearson
from evenhand.typing import Booleans

MOST_ERRORS = 0.005
"""Share of people who may break a dependency, at most, by an upper bound that holds for all pairs together."""

FEWER_ERRORS = 0.95
"""How much better than the most common value alone a map must be."""

LEAST_ERRORS = 30
"""Errors that the most common value alone must make, or else there was nothing to learn."""

CONFIDENCE = 0.99
"""With which the bounds of all pairs hold together."""

MOST_VALUES = 64
"""A number of more values determines nothing: its map would be a table of the data."""


def find_dependencies(columns: CodedColumns, rng: np.random.Generator) -> list[Proposal]:
    """Return the attributes that another one determines.

    The map is learnt on a random half of the people, as the most common second value of each first value; its errors
    are counted on the other half, where a first value that was not seen is an error. So a column that is nearly a key
    determines nothing. Of two directions the one with fewer errors is returned.
    """
    learning = np.zeros(len(columns.codes), dtype=np.bool_)
    learning[rng.permutation(len(learning))[: len(learning) // 2]] = True
    width = len(columns.attributes)
    found: dict[tuple[int, int], Proposal] = {}
    for one, other in ((i, j) for i in range(width) for j in range(width) if i != j):
        if _may_determine(columns.attributes[one]):
            evidence = _test_dependency(columns, (one, other), learning)
            if evidence is not None:
                found[one, other] = Proposal(_learn_map(columns, one, other), evidence, accepted=True)
    for one, other in [pair for pair in found if pair[0] < pair[1] and pair[::-1] in found]:
        worse = _count_errors(columns, one, other) > _count_errors(columns, other, one)
        del found[(one, other) if worse else (other, one)]
    return list(found.values())


def _may_determine(attribute: Attribute) -> bool:
    return attribute.is_discrete or (attribute.size is not None and attribute.size <= MOST_VALUES)


def _test_dependency(columns: CodedColumns, pair: tuple[int, int], learning: Booleans) -> str | None:
    """Return the evidence for a dependency; None if it is not enough."""
    learnt, rest = columns.count(*pair, learning), columns.count(*pair, ~learning)
    people = int(rest.sum())
    if people == 0 or learnt.sum() == 0:
        return None
    constant = people - int(rest[:, learnt.sum(axis=0).argmax()].sum())
    right = np.take_along_axis(rest, learnt.argmax(axis=1)[:, None], axis=1)[:, 0]
    wrong = people - int(right[learnt.any(axis=1)].sum())
    if constant < LEAST_ERRORS or wrong > (1 - FEWER_ERRORS) * constant:
        return None
    pairs = len(columns.attributes) * (len(columns.attributes) - 1)
    # One side of the interval is used, so the whole of what may be missed goes to it.
    bound = clopper_pearson(wrong, people, bonferroni(1 - 2 * (1 - CONFIDENCE), pairs))[1]
    if wrong > 0 and bound > MOST_ERRORS:
        return None
    return f"{wrong:,} of {people:,} held-out people differ; with the most common value alone {constant:,}"


def _learn_map(columns: CodedColumns, one: int, other: int) -> Dependency:
    names = columns.attributes[one].name, columns.attributes[other].name
    best = columns.count(one, other)
    seen = np.flatnonzero(best.sum(axis=1))
    known = {columns.value(one, int(code)): columns.value(other, int(best[code].argmax())) for code in seen}
    return Dependency(between=names, map=known)


def _count_errors(columns: CodedColumns, one: int, other: int) -> int:
    count = columns.count(one, other)
    return int(count.sum() - count.max(axis=1).sum())
