"""How soon an enforcer has its full slack again after an item of no use.

With slack ``s`` a state has level ``s`` as a rule. An item that ignores what its prompt asked for takes the state one
level down at most, and no deadline is missed before the level falls below 0. From a lower level every item is asked for
something, until the state is back. How many items that takes decides how close failures must lie to add up.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from evenhand.genai.feasibility import Component, solved
from evenhand.genai.game import Game, Region

MOST_STATES = 200_000
"""States of a game whose recovery is looked for position by position, at most."""

MISSED = -1
"""Where a move leads that misses a deadline, and the level of what cannot be kept."""

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]


def recovery(component: Component, slack: int) -> int | None:
    """Within how many obedient items in a row the full slack is there again, after failures that missed nothing.

    One specification whose deadlines are the number ``n`` of its values or more even when they are ``slack`` earlier:
    ``n - 1``. Call a value hurt if it has less room than the slack, counting the values that are due no later. Only one
    that is due within ``n + slack - 1`` items can be, and what has just been shown is due later. While there is one,
    every item is asked for a value that is due no later than a hurt one, and what it shows goes behind all that are
    hurt. So each such item brings the last hurt value forward by one place, takes no room from it, and hurts no value
    behind it. After a failure that place is ``n - 1`` at most, as the value that it did show is behind.

    For other deadlines of one specification all positions are followed that failures can lead to, with every choice
    that the enforcer may make. Counted are items in which a value is recognised; the others change nothing.

    Returns:
        The number of items; None if it is not known, or there is none.
    """
    if len(component.requirements) != 1 or slack < 1:
        return None
    deadlines = component.requirements[0].repeated or ()
    return one_recovery(deadlines, slack)


@lru_cache(maxsize=256)
def one_recovery(deadlines: tuple[int, ...], slack: int) -> int | None:
    """``recovery`` of one specification with these deadlines."""
    if min(deadlines) - slack >= len(deadlines):
        return len(deadlines) - 1
    if min(deadlines) <= slack or prod(deadlines) > MOST_STATES:
        return None
    return followed(deadlines, slack)


def followed(deadlines: tuple[int, ...], slack: int) -> int | None:
    """``recovery`` of one specification, by following its game position by position."""
    level = _levels(deadlines, slack)
    if level is None:
        return None
    after = [_after(deadlines, shown) for shown in range(len(deadlines))]
    # Level of what follows each value; what is promised, and what is taken instead, keeps the best of them.
    leads = np.stack([_level_at(level, to) for to in after])
    best = leads.max(axis=0)
    usual = level == slack
    asked = usual & (_level_at(level, _after(deadlines, None)) < slack)
    hurt = _hurt(level, after, asked, slack)
    back, items = usual, 0
    while not back[hurt].all():
        wider = (level > MISSED) & np.all(
            [(lead < best) | ((to != MISSED) & back[to]) for to, lead in zip(after, leads, strict=True)], axis=0
        )
        wider |= back
        if np.array_equal(wider, back):
            return None
        back, items = wider, items + 1
    return items


def _hurt(level: NDArray[np.int8], after: list[Numbers], asked: Flags, slack: int) -> Flags:
    """States below the usual level that failures, and obedient items between them, can lead to before a miss."""
    hurt = np.zeros(level.size, np.bool_)
    frontier = np.flatnonzero(asked)
    while len(frontier):
        found = np.unique(np.concatenate([to[frontier] for to in after]))
        found = found[found != MISSED]
        frontier = found[(level[found] < slack) & (level[found] > MISSED) & ~hurt[found]]
        hurt[frontier] = True
    return hurt


def _levels(deadlines: tuple[int, ...], slack: int) -> NDArray[np.int8] | None:
    """How many useless items each state bears, up to the slack. None if the slack cannot be had."""
    level = np.full(deadlines, MISSED, np.int8)
    for by in range(slack + 1):
        shorter = tuple(d - by for d in deadlines)
        region = solved(Game.single(shorter))
        if not region.feasible:
            return None
        inside = level[(slice(by, None),) * len(deadlines)]
        inside[_holding(region, shorter)] = by
    return level.reshape(-1)


def _holding(region: Region, deadlines: tuple[int, ...]) -> Flags:
    """The states of a game that are in its region."""
    states = np.indices(deadlines).reshape(len(deadlines), -1).T + 1
    return np.array([region.holds(state) for state in states.tolist()], np.bool_).reshape(deadlines)


def _after(deadlines: tuple[int, ...], shown: int | None) -> Numbers:
    """The place of the state after one item, for every state."""
    to = np.indices(deadlines).reshape(len(deadlines), -1) - 1
    if shown is not None:
        to[shown] = deadlines[shown] - 1
    in_time = (to >= 0).all(axis=0)
    places: Numbers = np.where(in_time, np.ravel_multi_index(tuple(np.maximum(to, 0)), deadlines), MISSED)
    return places


def _level_at(level: NDArray[np.int8], places: Numbers) -> NDArray[np.int8]:
    found: NDArray[np.int8] = np.where(places != MISSED, level[places], MISSED).astype(np.int8)
    return found
