"""Which deadlines can be kept for ever: the game against a generator that shows whatever harms most.

A state says for every value how many items are left until it must have appeared. In every step an adversary picks the
conditions that hold for the next item, and the enforcer picks the values that it shows. Two methods find the states
from which no deadline is ever missed:

``hall``
    for every d, at most d values are due within d items. With every deadline at least as large as the number of values
    (of all specifications on one attribute together), serving the earliest deadline keeps this true, whatever comes.
``exact``
    for smaller deadlines the game is solved: states from which every step loses are removed until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Method: TypeAlias = Literal["hall", "exact"]

MOST_STATES = 5_000_000
"""States of a game that is solved exactly, at most."""


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
        """The game of one specification on one group."""
        return cls((tuple(deadlines),), tuple((k,) for k in range(len(deadlines))), ((0,),))

    @cached_property
    def flat(self) -> tuple[int, ...]:
        """The deadlines of all specifications, one after another."""
        return tuple(deadline for one in self.deadlines for deadline in one)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each specification begins in ``flat``."""
        return tuple(sum(len(one) for one in self.deadlines[:i]) for i in range(len(self.deadlines)))

    def shortened(self, by: int) -> Game:
        """The game with every deadline so many items earlier."""
        return Game(tuple(tuple(d - by for d in one) for one in self.deadlines), self.actions, self.moves)


class Region:
    """The states from which no deadline is ever missed, upward closed: more time never harms.

    Attributes:
        method: how it was found.
        feasible: whether the first state is in it.
        decided: whether ``feasible`` is exact; else the game was too large, and only smaller deadlines were tried.
        states: of the game that was solved; 0 for ``hall``.
    """

    def __init__(
        self, method: Method, *, feasible: bool, decided: bool, table: NDArray[np.bool_] | None = None
    ) -> None:
        self.method: Method = method
        self.feasible = feasible
        self.decided = decided
        self.states = 0 if table is None else table.size
        self._table = table
        self._shape = () if table is None else table.shape
        # Bytes answer one question at a time several times as fast as an array.
        self._flat = b"" if table is None else table.tobytes()
        strides = [1] * len(self._shape)
        for axis in range(len(strides) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * self._shape[axis + 1]
        self._axes = tuple(zip(self._shape, strides, strict=True))

    def holds(self, left: Sequence[int]) -> bool:
        """Whether a state is in it.

        Args:
            left: for every value how many items are left until it must have appeared, the next one included.
        """
        if not self.feasible:
            return False
        if self._table is None:
            return all(d > i for i, d in enumerate(sorted(left)))
        index = 0
        for d, (size, stride) in zip(left, self._axes, strict=True):
            if d < 1:
                return False
            index += (size - 1 if d >= size else d - 1) * stride
        return self._flat[index] == 1

    def minimal(self) -> tuple[tuple[int, ...], ...]:
        """The least states of an exact region: a state is in it if it is at least one of them everywhere."""
        if self._table is None:
            return ()
        least = self._table.copy()
        for axis in range(least.ndim):
            later, before = [slice(None)] * least.ndim, [slice(None)] * least.ndim
            later[axis], before[axis] = slice(1, None), slice(0, -1)
            least[tuple(later)] &= ~self._table[tuple(before)]
        return tuple(tuple(int(i) + 1 for i in state) for state in np.argwhere(least))


def solve(game: Game) -> Region:
    """The states of a game from which no deadline is ever missed.

    A game that is too large for the exact method is solved with its longest deadlines cut down, which is sound: what
    can be kept with shorter deadlines can be kept with longer ones.
    """
    deadlines = game.flat
    if min(deadlines) >= len(deadlines):
        return Region("hall", feasible=True, decided=True)
    # Each specification moves alone in some play, and then serves one of its values per item.
    alone = all(_dense_enough(one) for one in game.deadlines)
    if min(deadlines) < 1 or not alone:
        return Region("exact", feasible=False, decided=True)
    if 2 ** len(deadlines) > MOST_STATES:
        return Region("exact", feasible=False, decided=False)
    if len(game.deadlines) > 1 or len(game.actions) < len(deadlines):
        caps, cut = _caps(deadlines)
        table = _joint(game, caps)
    else:
        fewer = sorted(deadlines)[:-1]
        if fewer and not solve(Game.single(fewer)).feasible:
            return Region("exact", feasible=False, decided=True)
        enough = _enough(deadlines)
        caps, cut = _caps(enough)
        table = _single(caps)
    feasible = bool(table[(-1,) * table.ndim])
    return Region("exact", feasible=feasible, decided=feasible or not cut, table=table)


def _dense_enough(deadlines: Sequence[int]) -> bool:
    """Whether one item per slot can be enough: the sum of 1 / deadline is at most 1."""
    from fractions import Fraction

    return sum((Fraction(1, d) for d in deadlines if d > 0), Fraction(0)) <= 1


def _caps(deadlines: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """Deadlines cut down until the game is small enough, and whether that was needed."""
    longest = max(deadlines)
    caps = tuple(deadlines)
    while _product(caps) > MOST_STATES and longest > 1:
        longest -= 1
        caps = tuple(min(d, longest) for d in deadlines)
    return caps, caps != tuple(deadlines)


def _enough(deadlines: Sequence[int]) -> tuple[int, ...]:
    """Deadlines of one specification, cut down where that loses nothing.

    A value that can be shown at all, without harm to the others, can be shown before the others' deadlines come to the
    same state twice: a wait longer than the number of those states is never needed.
    """
    found = list(deadlines)
    for k in sorted(range(len(found)), key=found.__getitem__, reverse=True):
        found[k] = min(found[k], _product(found[:k] + found[k + 1 :]))
    return tuple(found)


def _product(numbers: Sequence[int]) -> int:
    found = 1
    for number in numbers:
        found *= number
    return found


def _single(caps: tuple[int, ...]) -> NDArray[np.bool_]:
    """The region of one specification.

    The region is upward closed. So for every state of the other values it is enough to know how many items must at
    least be left for the value with the longest deadline; that number grows until it need not grow any more.
    """
    n, longest = len(caps), max(range(len(caps)), key=caps.__getitem__)
    others = caps[:longest] + caps[longest + 1 :]
    most = caps[longest]
    need = np.ones(others, np.int32)
    fewer, full = (slice(1, None),) * (n - 1), (slice(0, -1),) * (n - 1)
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


def _joint(game: Game, caps: tuple[int, ...]) -> NDArray[np.bool_]:
    """The region of several specifications whose items may count for any of them."""
    region = np.ones(caps, np.bool_)
    while True:
        kept = region.copy()
        for move in game.moves:
            after = np.zeros(caps, np.bool_)
            seen = set()
            for action in game.actions:
                shown = tuple(action[i] for i in move)
                if shown in seen:
                    continue
                seen.add(shown)
                target: list[slice] = [slice(None)] * len(caps)
                source: list[slice] = [slice(None)] * len(caps)
                for i, k in zip(move, shown, strict=True):
                    for value in range(len(game.deadlines[i])):
                        axis = game.starts[i] + value
                        if value == k:
                            source[axis] = slice(-1, None)
                        else:
                            target[axis], source[axis] = slice(1, None), slice(0, -1)
                after[tuple(target)] |= region[tuple(source)]
            kept &= after
        if np.array_equal(kept, region):
            return region
        region = kept
        if not region[(-1,) * region.ndim]:
            return np.zeros(caps, np.bool_)


def culprits(deadlines: Sequence[int]) -> tuple[int, ...]:
    """A smallest set of values that cannot be kept even alone; no values if all of them can.

    Args:
        deadlines: of every value of one specification.
    """
    everybody = range(len(deadlines))
    if solve(Game.single(deadlines)).feasible:
        return ()
    for size in range(1, min(len(deadlines), 4) + 1):
        for some in combinations(everybody, size):
            if not solve(Game.single([deadlines[k] for k in some])).feasible:
                return some
    kept = list(everybody)
    for k in everybody:
        fewer = [one for one in kept if one != k]
        if not solve(Game.single([deadlines[one] for one in fewer])).feasible:
            kept = fewer
    return tuple(kept)
