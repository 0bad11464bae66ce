"""Reference for the recovery of slack: every position of the game of one specification is followed."""

import numpy as np

from evenhand.genai.games.feasibility import solve_cached
from evenhand.genai.games.game import Game

MISSED_LEVEL = -1
"""Level of positions in which a deadline cannot be kept."""


def follow_recovery(deadlines, slack):
    """Compute the recovery window of one specification by following its game position by position."""
    level = _state_levels(deadlines, slack)
    if level is None:
        return None
    after = [_states_after(deadlines, shown) for shown in range(len(deadlines))]
    # Level of what follows each value; what is promised, and what is taken instead, keeps the best of them.
    leads = np.stack([_level_at(level, to) for to in after])
    best = leads.max(axis=0)
    usual = level == slack
    asked = usual & (_level_at(level, _states_after(deadlines, None)) < slack)
    hurt = _hurt_states(level, after, asked, slack)
    back, items = usual, 0
    while not back[hurt].all():
        wider = (level > MISSED_LEVEL) & np.all(
            [(lead < best) | ((to != MISSED_LEVEL) & back[to]) for to, lead in zip(after, leads, strict=True)], axis=0
        )
        wider |= back
        if np.array_equal(wider, back):
            return None
        back, items = wider, items + 1
    return items


def _hurt_states(level, after, asked, slack):
    """Return states below the usual level that failures, and obedient items between them, can lead to before a miss."""
    hurt = np.zeros(level.size, np.bool_)
    frontier = np.flatnonzero(asked)
    while len(frontier):
        found = np.unique(np.concatenate([to[frontier] for to in after]))
        found = found[found != MISSED_LEVEL]
        frontier = found[(level[found] < slack) & (level[found] > MISSED_LEVEL) & ~hurt[found]]
        hurt[frontier] = True
    return hurt


def _state_levels(deadlines, slack):
    """Return how many useless items each state bears, up to the slack. None if the slack cannot be had."""
    level = np.full(deadlines, MISSED_LEVEL, np.int8)
    for by in range(slack + 1):
        shorter = tuple(d - by for d in deadlines)
        region = solve_cached(Game.single(shorter))
        if not region.feasible:
            return None
        inside = level[(slice(by, None),) * len(deadlines)]
        inside[_states_in_region(region, shorter)] = by
    return level.reshape(-1)


def _states_in_region(region, deadlines):
    """Return the states of a game that are in its region."""
    states = np.indices(deadlines).reshape(len(deadlines), -1).T + 1
    return np.array([region.holds(state) for state in states.tolist()], np.bool_).reshape(deadlines)


def _states_after(deadlines, shown):
    """Return the place of the state after one item, for every state."""
    to = np.indices(deadlines).reshape(len(deadlines), -1) - 1
    if shown is not None:
        to[shown] = deadlines[shown] - 1
    in_time = (to >= 0).all(axis=0)
    return np.where(in_time, np.ravel_multi_index(tuple(np.maximum(to, 0)), deadlines), MISSED_LEVEL)


def _level_at(level, places):
    return np.where(places != MISSED_LEVEL, level[places], MISSED_LEVEL).astype(np.int8)
