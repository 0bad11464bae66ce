"""How rule sets over some attributes are walked through, one addition of a slab of counts after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.deep.kernel import ADD, RESET, SUBTRACT, Walk

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """How the rules on one attribute come out of each other.

    Attributes:
        operation: begin with (RESET), add or take off a cell, shape (steps,).
        cell: which one.
        rule: the rule that is reached, as its row in the incidence matrix; -1 on the way to one.
    """

    operation: Ints
    cell: Ints
    rule: Ints

    def __len__(self) -> int:
        return len(self.rule)


def steps(incidence: NDArray[np.bool_]) -> Steps:
    """Few steps through all rules of an attribute, given as rules by cells.

    In the order given, which suits ranges (each is one bin longer than the last), or in the order of the reflected
    binary code, in which the next subset differs by one value (F. Gray, US patent 2632058, 1953).
    """
    as_given = np.arange(len(incidence))
    coded = np.lexsort(np.logical_xor.accumulate(incidence, axis=1).T[::-1])
    return min((_through(incidence, order) for order in (as_given, coded)), key=len)


def _through(incidence: NDArray[np.bool_], order: Ints) -> Steps:
    operation: list[int] = []
    cell: list[int] = []
    rule: list[int] = []
    current: NDArray[np.bool_] | None = None
    for row in order.tolist():
        wanted = incidence[row]
        anew = np.flatnonzero(wanted).tolist()
        changes = [] if current is None else np.flatnonzero(wanted != current).tolist()
        if current is None or len(anew) <= len(changes):
            operation += [RESET] + [ADD] * (len(anew) - 1)
            cell += anew
            rule += [-1] * (len(anew) - 1) + [row]
        else:
            operation += [ADD if wanted[change] else SUBTRACT for change in changes]
            cell += changes
            rule += [-1] * (len(changes) - 1) + [row]
        current = wanted
    return Steps(*(np.array(column, dtype=np.int64) for column in (operation, cell, rule)))


def walk(several: Sequence[Steps], cells: Sequence[int]) -> Walk:
    """The walk through all combinations of one rule of each of these attributes.

    Args:
        several: the steps of each.
        cells: how many cells each has.
    """
    lengths = np.array([len(one) for one in several], dtype=np.int64)
    span = np.array([*np.cumprod(cells[::-1])[::-1], 1], dtype=np.int64)
    before = np.concatenate([[0], np.cumprod(lengths)]).astype(np.int64)
    before[0] = 1
    return Walk(
        first=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64),
        steps=lengths,
        operation=np.concatenate([one.operation for one in several]),
        cell=np.concatenate([one.cell for one in several]),
        rule=np.concatenate([one.rule for one in several]),
        span=span,
        start=np.concatenate([[0], np.cumsum(span)[:-1]]).astype(np.int64),
        node=np.concatenate([[0], np.cumsum(before)[:-1]]).astype(np.int64),
    )


def rules_at(several: Sequence[Steps], leaf: Ints) -> Ints:
    """The rule of each attribute at places of the walk, shape (places, attributes)."""
    columns = []
    for one in reversed(several):
        columns.append(one.rule[leaf % len(one)])
        leaf = leaf // len(one)
    return np.stack(columns[::-1], axis=1)
