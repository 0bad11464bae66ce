"""Which deadlines can be kept for ever: the game against a generator that shows whatever harms most.

A state says for every value how many items are left until it must have appeared. In every step an adversary picks the
conditions that hold for the next item, and the enforcer picks the values that it shows. Two methods find the states
from which no deadline is ever missed:

``hall``
    for every d, at most d values are due within d items. With every deadline greater than the number of values (of all
    specifications on one attribute together), less one for each specification, serving the earliest deadline keeps this
    true, whatever comes: each specification has one value that was shown last, and is not due for long.
``exact``
    for smaller deadlines the game is solved: states from which every step loses are removed until nothing changes.
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

SolutionMethod: TypeAlias = Literal["hall", "exact"]

MAX_GAME_STATES = 5_000_000
"""States of a game that is solved exactly, at most."""

MAX_GAME_STEPS = 3_000_000_000
"""States that are looked at, again and again, until a joint game is given up: a few seconds."""


@dataclass(frozen=True)
class Game:
    """What can happen on the specifications that share attributes.

    Attributes:
        deadlines: of every value, for every specification.
        actions: what one item may show: for every specification the position of a value.
        moves: which specifications an item may count for, all the sets that are possible.
    """

    deadlines: tuple[tuple[int, ...], ...]
    actions: tuple[tuple[int, ...], ...]
    moves: tuple[tuple[int, ...], ...]

    @classmethod
    def single(cls, deadlines: Sequence[int]) -> Game:
        """Return the game of one specification on one group."""
        return cls((tuple(deadlines),), tuple((k,) for k in range(len(deadlines))), ((0,),))

    @cached_property
    def flat(self) -> tuple[int, ...]:
        """The deadlines of all specifications, one after another."""
        return tuple(deadline for one in self.deadlines for deadline in one)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each specification begins in ``flat``."""
        return tuple(sum(len(one) for one in self.deadlines[:i]) for i in range(len(self.deadlines)))

    @property
    def enough(self) -> int:
        """If no deadline is less than this, all of them can be kept together."""
        return len(self.flat) - len(self.deadlines) + 1

    def part(self, members: Sequence[int]) -> Game:
        """Return the game of some of the specifications, which is no harder."""
        moves = (tuple(members.index(i) for i in move if i in members) for move in self.moves)
        actions = (tuple(action[i] for i in members) for action in self.actions)
        return Game(
            tuple(self.deadlines[i] for i in members),
            tuple(dict.fromkeys(actions)),
            tuple(dict.fromkeys(move for move in moves if move)),
        )

    def shift_deadlines(self, by: int) -> Game:
        """Return the game with every deadline so many items earlier."""
        return Game(tuple(tuple(d - by for d in one) for one in self.deadlines), self.actions, self.moves)


class WinningRegion:
    """The states from which no deadline is ever missed, upward closed: more time never harms.

    Attributes:
        method: how it was found.
        feasible: whether the first state is in it.
        decided: whether ``feasible`` is exact; else the game was too large, and only smaller deadlines were tried.
        states: of the game that was solved; 0 for ``hall``.
    """

    def __init__(
        self,
        method: SolutionMethod,
        *,
        feasible: bool,
        decided: bool,
        table: Booleans | None = None,
        game: Game | None = None,
    ) -> None:
        self.method: SolutionMethod = method
        self.feasible = feasible
        self.decided = decided
        self.states = 0 if table is None else table.size
        self._game = game
        self._least = 0 if game is None else min(game.flat)
        self._table = table
        self._shape = () if table is None else table.shape
        # Bytes answer one question at a time several times as fast as an array.
        self._flat = b"" if table is None else table.tobytes()
        strides = [1] * len(self._shape)
        for axis in range(len(strides) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * self._shape[axis + 1]
        self._axes = tuple(zip(self._shape, strides, strict=True))

    def holds(self, left: Sequence[int]) -> bool:
        """Return whether a state is in it.

        Args:
            left: for every value how many items are left until it must have appeared, the next one included.
        """
        if not self.feasible:
            return False
        if self._game is not None:
            return self._hall_condition(self._game, left)
        index = 0
        for d, (size, stride) in zip(left, self._axes, strict=True):
            if d < 1:
                return False
            index += (size - 1 if d >= size else d - 1) * stride
        return self._flat[index] == 1

    def _hall_condition(self, game: Game, left: Sequence[int]) -> bool:
        """At most d values are due within d items, for every d less than the least deadline, now and after any item.

        Serving the earliest deadline carries that from d + 1 to d. For the largest d nothing needs to carry it, if
        there are not so many values: a specification whose last value was just shown has one that is not due so soon,
        and has one ever after.
        """
        least = self._least
        for i, d in enumerate(sorted(left)):
            if d >= least:
                break
            if d <= i:
                return False
        room = least - 1 - (len(left) - len(game.deadlines))
        if room >= len(game.deadlines):
            return True
        ends = (*game.starts[1:], len(left))
        return sum(max(left[start:end]) < least for start, end in zip(game.starts, ends, strict=True)) <= room

    def minimal(self) -> tuple[tuple[int, ...], ...]:
        """Return the least states of an exact region: a state is in it if it is at least one of them everywhere."""
        if self._table is None:
            return ()
        # The minimal elements of an upward closed set: in it, and out of it one step back along any axis.
        least = self._table.copy()
        for axis in range(least.ndim):
            later, before = [slice(None)] * least.ndim, [slice(None)] * least.ndim
            later[axis], before[axis] = slice(1, None), slice(0, -1)
            least[tuple(later)] &= ~self._table[tuple(before)]
        return tuple(tuple(int(i) + 1 for i in state) for state in np.argwhere(least))


def solve_game(game: Game) -> WinningRegion:
    """Return the states of a game from which no deadline is ever missed.

    A game that is too large for the exact method is solved with its longest deadlines cut down, which is sound: what
    can be kept with shorter deadlines can be kept with longer ones.
    """
    deadlines = game.flat
    least = min(deadlines)
    large = 2 ** len(deadlines) > MAX_GAME_STATES
    together = len(game.deadlines) > 1 or len(game.actions) < len(deadlines)
    if least < game.enough and (least < 1 or not all(_dense_enough(one) for one in game.deadlines)):
        # An item serves one value of each specification that it counts for, and each specification counts in some move.
        return WinningRegion("exact", feasible=False, decided=True)
    if least >= len(deadlines) or (least >= game.enough and large):
        return WinningRegion("hall", feasible=True, decided=True, game=game)
    caps, cut = ((), True) if large else _cap_deadlines(deadlines if together else _cap_without_loss(deadlines))
    # The exact region of a small game is larger than the other one, and asks for less.
    if least >= game.enough and cut:
        return WinningRegion("hall", feasible=True, decided=True, game=game)
    if large or not (game.moves and game.actions):
        return WinningRegion("exact", feasible=False, decided=False)
    parts = _urgent_subgames(game) if together else _without_longest(deadlines)
    if any(region.decided and not region.feasible for region in map(solve_game, parts)):
        return WinningRegion("exact", feasible=False, decided=True)
    table = _solve_joint(game, caps) if together else _solve_single(caps)
    if table is None:
        return WinningRegion("exact", feasible=False, decided=False)
    feasible = bool(table[(-1,) * table.ndim])
    return WinningRegion("exact", feasible=feasible, decided=feasible or not cut, table=table)


def _without_longest(deadlines: Sequence[int]) -> Iterator[Game]:
    """Yield the game without the value that has most time."""
    if len(deadlines) > 1:
        yield Game.single(sorted(deadlines)[:-1])


def _urgent_subgames(game: Game) -> Iterator[Game]:
    """If a game is too large, the games of its most urgent specifications that are not: 2 of them, 3 of them, ..."""
    urgent = sorted(range(len(game.deadlines)), key=lambda i: sorted(game.deadlines[i]))
    for count in range(2, len(urgent)):
        part = game.part(urgent[:count])
        if prod(game.flat) <= MAX_GAME_STATES or prod(part.flat) > MAX_GAME_STATES:
            return
        yield part


def _dense_enough(deadlines: Sequence[int]) -> bool:
    """Return whether one item per slot can be enough: the sum of 1 / deadline is at most 1."""
    return sum((Fraction(1, d) for d in deadlines if d > 0), Fraction(0)) <= 1


def _cap_deadlines(deadlines: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """Return deadlines cut down until the game is small enough, and whether that was needed."""

    def cut(longest: int) -> tuple[int, ...]:
        return tuple(min(d, longest) for d in deadlines)

    longest = min(max(deadlines), MAX_GAME_STATES)
    longest = bisect_right(range(1, longest + 1), MAX_GAME_STATES, key=lambda longest: prod(cut(longest)))
    caps = cut(max(1, longest))
    return caps, caps != tuple(deadlines)


def _cap_without_loss(deadlines: Sequence[int]) -> tuple[int, ...]:
    """Return deadlines of one specification, cut down where that loses nothing.

    A value that can be shown at all, without harm to the others, can be shown before the others' deadlines come to the
    same state twice: a wait longer than the number of those states is never needed.
    """
    found = list(deadlines)
    for k in sorted(range(len(found)), key=found.__getitem__, reverse=True):
        found[k] = min(found[k], prod(found[:k] + found[k + 1 :]))
    return tuple(found)


def _solve_single(caps: tuple[int, ...]) -> Booleans:
    """Return the region of one specification.

    The region is upward closed. So for every state of the other values it is enough to know how many items must at
    least be left for the value with the longest deadline; that number grows until it need not grow any more.
    """
    n, longest = len(caps), max(range(len(caps)), key=caps.__getitem__)
    others = caps[:longest] + caps[longest + 1 :]
    most = caps[longest]
    need = np.ones(others, np.int32)
    fewer, full = (slice(1, None),) * (n - 1), (slice(0, -1),) * (n - 1)
    # Least fixed point. need[o] is the least time left for the longest value with which the state o of the others wins,
    # or more than there is. Showing value j renews j and takes one item from all the others; a state needs the least
    # over what may be shown. Needs only grow from round to round, so the loop ends.
    while need[(-1,) * (n - 1)] <= most:
        after = np.full(others, most + 1, np.int32)
        for shown in range(n - 1):
            target = (*fewer[:shown], slice(None), *fewer[shown + 1 :])
            source = (*full[:shown], slice(-1, None), *full[shown + 1 :])
            np.minimum(after[target], need[source] + 1, out=after[target])
        after[fewer][need[full] <= most] = 1
        if np.array_equal(after, need):
            return np.ascontiguousarray(np.moveaxis(need[..., None] <= np.arange(1, most + 1), -1, longest))
        need = after
    return np.zeros(caps, np.bool_)  # the best state of all is lost


def _solve_joint(game: Game, caps: tuple[int, ...]) -> Booleans | None:
    """Return the region of several specifications whose items may count for any of them; None: it takes too long."""
    region = np.ones(caps, np.bool_)
    best = (-1,) * region.ndim
    plans = [_transition_slices(game, move) for move in reversed(game.moves)]
    steps = 0
    shrinks = True
    # Greatest fixed point of a safety game (Conditional Fairness for Generative AIs): W is cut down to the states from
    # which for every move of the environment some item leads into W again. W only shrinks, so the loop ends, and what
    # is left is where no deadline is ever missed.
    while shrinks:
        steps += region.size * sum(map(len, plans))
        if steps > MAX_GAME_STEPS:
            return None
        before = np.count_nonzero(region)
        for plan in plans:
            after = np.zeros(caps, np.bool_)
            for target, source in plan:
                after[target] |= region[source]
            region &= after
            if not region[best]:
                return np.zeros(caps, np.bool_)
        shrinks = bool(np.count_nonzero(region) < before)
    return region


def _transition_slices(game: Game, move: tuple[int, ...]) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """For everything that an item of a move may show, the states before it and, in the same order, those after it."""
    found = []
    for shown in dict.fromkeys(tuple(action[i] for i in move) for action in game.actions):
        before, after = ([slice(None)] * len(game.flat) for _ in range(2))
        # Along an axis lies the time that a value has left. Showing value k gives it all of its time again, the last
        # place, and takes one off every other value's; where that has none left, the item leads to no state.
        for i, k in zip(move, shown, strict=True):
            for value in range(len(game.deadlines[i])):
                axis = game.starts[i] + value
                if value == k:
                    after[axis] = slice(-1, None)
                else:
                    before[axis], after[axis] = slice(1, None), slice(0, -1)
        found.append((tuple(before), tuple(after)))
    return found


def find_culprits(deadlines: Sequence[int]) -> tuple[int, ...]:
    """Return a smallest set of values that cannot be kept even alone; no values if all of them can.

    Args:
        deadlines: of every value of one specification.
    """
    if solve_game(Game.single(deadlines)).feasible:
        return ()
    # Shorter deadlines are harder: if any so many values cannot be kept, the most urgent ones cannot.
    urgent = sorted(range(len(deadlines)), key=deadlines.__getitem__)
    for size in range(1, len(urgent)):
        if not solve_game(Game.single([deadlines[k] for k in urgent[:size]])).feasible:
            return tuple(sorted(urgent[:size]))
    return tuple(range(len(deadlines)))
