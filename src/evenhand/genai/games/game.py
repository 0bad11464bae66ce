"""Game of deadlines against an adversarial generator.

A state contains the number of items left until each value must have appeared. In every step an adversary picks the
conditions of the next item, and the enforcer picks the values that it shows. Two methods find the states from which no
deadline is ever missed:

``hall``
    For every d, at most d values are due within d items. If every deadline exceeds the number of values (of all
    specifications on one attribute together), minus one for each specification, serving the earliest deadline preserves
    this condition: each specification has one value that was shown last, and is not due soon.
``exact``
    For smaller deadlines the game is solved: states from which every step loses are removed until nothing changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from evenhand.core.typing import Booleans

FeasibilityVerdict: TypeAlias = Literal["feasible", "infeasible", "undecided"]
SolutionMethod: TypeAlias = Literal["hall", "exact"]

MAX_GAME_STATES = 5_000_000
"""Maximum number of states of a game that is solved exactly."""

MAX_GAME_STEPS = 3_000_000_000
"""Maximum number of visited states of a game. Visiting them takes a few seconds."""


@dataclass(frozen=True)
class Game:
    """Game of the specifications that share attributes.

    Attributes:
        deadlines: Deadline of each value of each specification.
        actions: Positions of the values of each specification that one item may show.
        moves: Sets of specifications that one item may count for.
    """

    deadlines: tuple[tuple[int, ...], ...]
    actions: tuple[tuple[int, ...], ...]
    moves: tuple[tuple[int, ...], ...]

    @classmethod
    def single(cls, deadlines: Sequence[int]) -> Game:
        """Build the game of one specification on one group."""
        return cls((tuple(deadlines),), tuple((k,) for k in range(len(deadlines))), ((0,),))

    @cached_property
    def flat(self) -> tuple[int, ...]:
        """Deadlines of all specifications, concatenated."""
        return tuple(deadline for own in self.deadlines for deadline in own)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Start of each specification in ``flat``."""
        return tuple(sum(len(own) for own in self.deadlines[:i]) for i in range(len(self.deadlines)))

    @property
    def enough(self) -> int:
        """Deadline from which all specifications can be kept together."""
        return len(self.flat) - len(self.deadlines) + 1

    def part(self, members: Sequence[int]) -> Game:
        """Build the game of some of the specifications, which is no harder."""
        moves = (tuple(members.index(i) for i in move if i in members) for move in self.moves)
        actions = (tuple(action[i] for i in members) for action in self.actions)
        return Game(
            tuple(self.deadlines[i] for i in members),
            tuple(dict.fromkeys(actions)),
            tuple(dict.fromkeys(move for move in moves if move)),
        )

    def shift_deadlines(self, by: int) -> Game:
        """Build the game with every deadline ``by`` items earlier."""
        return Game(tuple(tuple(d - by for d in own) for own in self.deadlines), self.actions, self.moves)


class WinningRegion:
    """States from which no deadline is ever missed. The region is upward closed, because extra time never hurts.

    Attributes:
        verdict: ``feasible`` if it contains the first state; ``undecided`` if it does not, but the game was too large,
            and shorter deadlines were tried.
        method: Method that found it.
        states: Number of states of the solved game. 0 for ``hall``.
    """

    def __init__(self, verdict: FeasibilityVerdict, *, table: Booleans | None = None, game: Game | None = None) -> None:
        self.verdict: FeasibilityVerdict = verdict
        self.feasible = verdict == "feasible"
        self.method: SolutionMethod = "exact" if game is None else "hall"
        self.states = 0 if table is None else table.size
        self._game = game
        self._least = 0 if game is None else min(game.flat)
        # Reading one entry of bytes is several times as fast as reading one of an array.
        self._flat = b"" if table is None else table.tobytes()
        self._axes = () if table is None else tuple(zip(table.shape, table.strides, strict=True))

    def holds(self, left: Sequence[int]) -> bool:
        """Check whether the region contains a state: the number of items left for each value, including the next."""
        if not self.feasible:
            return False
        if (game := self._game) is not None:
            # At most d values are due within d items, for every d below the smallest deadline. Serving the earliest
            # deadline preserves this from d + 1 to d. For the largest d, it is not necessary if there are few values: a
            # specification whose last value was just shown always has one that is not due so soon.
            shortest = self._least
            for i, d in enumerate(sorted(left)):
                if d >= shortest:
                    break
                if d <= i:
                    return False
            room = shortest - 1 - (len(left) - len(game.deadlines))
            if room >= len(game.deadlines):
                return True
            ends = (*game.starts[1:], len(left))
            return sum(max(left[start:end]) < shortest for start, end in zip(game.starts, ends, strict=True)) <= room
        index = 0
        for d, (size, stride) in zip(left, self._axes, strict=True):
            if d < 1:
                return False
            index += (size - 1 if d >= size else d - 1) * stride
        return self._flat[index] == 1


def solve_game(game: Game) -> WinningRegion:
    """Compute the states of a game from which no deadline is ever missed.

    If the game is too large for the exact method, its longest deadlines are shortened. This is sound, since longer
    deadlines are easier to keep.
    """
    deadlines = game.flat
    shortest = min(deadlines)
    large = 2 ** len(deadlines) > MAX_GAME_STATES
    joint = len(game.deadlines) > 1 or len(game.actions) < len(deadlines)
    if shortest < game.enough and (shortest < 1 or not all(_dense_enough(own) for own in game.deadlines)):
        # An item serves one value of each specification that it counts for, and every specification is part of some
        # move.
        return WinningRegion("infeasible")
    if shortest >= len(deadlines) or (shortest >= game.enough and large):
        return WinningRegion("feasible", game=game)
    caps, cut = ((), True) if large else _cap_deadlines(deadlines if joint else _cap_without_loss(deadlines))
    # The exact region of a small game is larger, and leaves more prompts unchanged.
    if shortest >= game.enough and cut:
        return WinningRegion("feasible", game=game)
    if large or not (game.moves and game.actions):
        return WinningRegion("undecided")
    parts = _urgent_subgames(game) if joint else _without_longest(deadlines)
    if any(region.verdict == "infeasible" for region in map(solve_game, parts)):
        return WinningRegion("infeasible")
    table = _solve_exactly(game, caps)
    if table is None:
        return WinningRegion("undecided")
    feasible = table[(-1,) * table.ndim]
    return WinningRegion("feasible" if feasible else "undecided" if cut else "infeasible", table=table)


def _without_longest(deadlines: Sequence[int]) -> Iterator[Game]:
    """Yield the game without the value of the longest deadline."""
    if len(deadlines) > 1:
        yield Game.single(sorted(deadlines)[:-1])


def _urgent_subgames(game: Game) -> Iterator[Game]:
    """Yield the small games of the 2, 3, ... most urgent specifications if the game is too large."""
    urgent = sorted(range(len(game.deadlines)), key=lambda i: sorted(game.deadlines[i]))
    for count in range(2, len(urgent)):
        part = game.part(urgent[:count])
        if prod(game.flat) <= MAX_GAME_STATES or prod(part.flat) > MAX_GAME_STATES:
            return
        yield part


def _dense_enough(deadlines: Sequence[int]) -> bool:
    """Check whether one item per slot may suffice: the sum of 1 / deadline is at most 1."""
    return sum((Fraction(1, d) for d in deadlines if d > 0), Fraction(0)) <= 1


def _cap_deadlines(deadlines: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """Shorten deadlines until the game is small enough. Also return whether this was necessary."""

    def cut(longest: int) -> tuple[int, ...]:
        return tuple(min(d, longest) for d in deadlines)

    longest = min(max(deadlines), MAX_GAME_STATES)
    longest = bisect_right(range(1, longest + 1), MAX_GAME_STATES, key=lambda longest: prod(cut(longest)))
    caps = cut(max(1, longest))
    return caps, caps != tuple(deadlines)


def _cap_without_loss(deadlines: Sequence[int]) -> tuple[int, ...]:
    """Shorten deadlines of one specification without loss.

    A value that can be shown without harm to the others can be shown before the others reach the same state twice. A
    wait longer than the number of their states is therefore never necessary.
    """
    caps = list(deadlines)
    for k in sorted(range(len(caps)), key=caps.__getitem__, reverse=True):
        caps[k] = min(caps[k], prod(caps[:k] + caps[k + 1 :]))
    return tuple(caps)


def _solve_exactly(game: Game, caps: tuple[int, ...]) -> Booleans | None:
    """Compute the region of a game with shortened deadlines. None if it takes too long.

    The region is upward closed. For every state of the other values, it is therefore determined by the least number of
    items left for the value with the longest deadline.
    """
    longest = max(range(len(caps)), key=caps.__getitem__)
    maximum = caps[longest]
    need = np.ones(caps[:longest] + caps[longest + 1 :], np.int32)
    best = (-1,) * need.ndim
    plans = [_transitions(game, move, longest) for move in reversed(game.moves)]
    total = steps = 0
    # Least fixed point of a safety game (Conditional Fairness for Generative AIs): a state loses, and its need exceeds
    # the maximum, if for some move of the environment, every item leads to a losing state. Needs only grow, so the loop
    # ends, and no deadline is ever missed from the remaining states.
    while total < (total := int(need.sum())):
        steps += need.size * sum(map(len, plans))
        if steps > MAX_GAME_STEPS:
            return None
        for plan in plans:
            least = np.full_like(need, maximum + 1)
            for before, after, wait in plan:
                following = np.where(need[after] > maximum, maximum, 0) + 1 if wait is None else need[after] + wait
                np.minimum(least[before], following, out=least[before])
            np.maximum(need, least, out=need)
            if need[best] > maximum:
                return np.zeros(caps, np.bool_)
    return np.ascontiguousarray(np.moveaxis(need[..., None] <= np.arange(1, maximum + 1), -1, longest))


def _transitions(
    game: Game, move: tuple[int, ...], longest: int
) -> list[tuple[tuple[slice, ...], tuple[slice, ...], int | None]]:
    """List the states of all values but the longest before and, in the same order, after each item of a move.

    The third entry is the number of items that the item takes from the time left for the longest value. None if the
    item shows it.
    """
    transitions = []
    for kinds in dict.fromkeys(tuple(action[i] for i in move) for action in game.actions):
        before, after = ([slice(None)] * len(game.flat) for _ in range(2))
        wait: int | None = 0
        # An axis is the time left for a value. Showing value k restores its full time (the last index) and takes one
        # item from every other value. If another value has none left, the item leads to no state.
        for i, k in zip(move, kinds, strict=True):
            for value in range(len(game.deadlines[i])):
                axis = game.starts[i] + value
                if axis == longest:
                    wait = None if value == k else 1
                if value == k:
                    after[axis] = slice(-1, None)
                else:
                    before[axis], after[axis] = slice(1, None), slice(0, -1)
        del before[longest], after[longest]
        transitions.append((tuple(before), tuple(after), wait))
    return transitions


def find_culprits(deadlines: Sequence[int]) -> tuple[int, ...]:
    """Find a smallest set of values of a specification that cannot be kept on their own. Empty if all can be kept."""
    if solve_game(Game.single(deadlines)).feasible:
        return ()
    # Shorter deadlines are harder: if a set of values cannot be kept, the most urgent set of its size cannot.
    urgent = sorted(range(len(deadlines)), key=deadlines.__getitem__)
    for size in range(1, len(urgent)):
        if not solve_game(Game.single([deadlines[k] for k in urgent[:size]])).feasible:
            return tuple(sorted(urgent[:size]))
    return tuple(range(len(deadlines)))
