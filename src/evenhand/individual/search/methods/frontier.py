"""Best-first search along the decision boundary, among plausible profiles: the default method.

It asks about some people in the data and then, again and again, about those neighbours of promising profiles whose
decision most likely flips. A profile is promising where two assignments are decided differently, or nearly so. How
likely a neighbour flips is told by a surrogate (see ``Surrogate``) without asking: the parent's answers, shifted by
what the move brings on average, against how far such guesses were off. Every move stays among pairs of values that
occur in the data, no individual is asked about twice, and a share of the questions goes to fresh people, so that other
places are found too. Of three or more assignments only the two that should lie furthest apart are asked about first: if
they are decided differently, that is enough, and the others are asked when the profile is verified. With labels alone
the same arithmetic prefers moves that seldom change a label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.search.methods.choice import MethodOptions
from evenhand.individual.search.moves import Codes, Moves
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import ProfileSpace

FEWEST, MOST = 16, 256
"""Profiles asked about in one step at the beginning; in between, a fortieth of what the budget pays for."""

GROWTH = 40
"""Later, a step asks about a fortieth of what was asked so far."""

START = 0.03
"""Share of the budget for people in the data, before anything is known."""

EXPLORE = 0.05
"""Share of every step for fresh people."""

PARENTS = 4096
"""Profiles whose neighbours are looked at in one step, at most."""

NEAR = 8
"""Besides the profiles found, one in so many of a step's others becomes a parent: those nearest to the boundary."""

LISTED = 100_000
"""No more admissible profiles than this are listed, so that none is left out."""

DRAWS = 5
"""After so many draws in a row that brought no new individual, the profiles are taken to be exhausted."""


def search(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> bool:
    """Ask until the budget is spent or no profile is left; without a budget, ``local`` profiles for every seed."""
    plan = len(seeds) * max(1, options.local) if oracle.budget is None else oracle.affordable_profiles
    BoundarySearch(oracle, seeds, rng, plan).run(np.inf if oracle.budget is not None else plan)
    return False


@dataclass(frozen=True)
class NeighbourGuess:
    """What is guessed about neighbours: answers (n, outputs), and the levels moved from and to (n,)."""

    answers: Floats
    before: Codes
    level: Codes


@dataclass(frozen=True)
class ParentProfiles:
    """Profiles whose neighbours wait: rows (n, U), codes (n, parts), answers (n, outputs)."""

    rows: Floats
    codes: Codes
    answers: Floats

    def and_also(self, rows: Floats, codes: Codes, answers: Floats) -> ParentProfiles:
        """Append more of them."""
        return ParentProfiles(
            np.concatenate([self.rows, rows]),
            np.concatenate([self.codes, codes]),
            np.concatenate([self.answers, answers]),
        )


@dataclass(frozen=True)
class NeighbourQueue:
    """Neighbours not asked about yet, each once, all of shape (n,).

    Attributes:
        chance: how likely the decision flips.
        mark: who it is.
        parent: whose neighbour, by number.
        level: where to it moves.
    """

    chance: Floats
    mark: Integers
    parent: Codes
    level: Codes

    def __len__(self) -> int:
        return len(self.mark)

    def __getitem__(self, which: Integers | Booleans) -> NeighbourQueue:
        return NeighbourQueue(self.chance[which], self.mark[which], self.parent[which], self.level[which])

    @classmethod
    def none(cls) -> NeighbourQueue:
        """Return a queue without entries."""
        none = np.empty(0, dtype=np.int64)
        return cls(np.empty(0), none, none, none)

    def best(self, n: int) -> NeighbourQueue:
        """Return the likeliest n, of equals those who come first here."""
        able = np.arange(len(self))
        if n < len(self):  # sorting all of them for a few would take longer than asking about these
            able = np.flatnonzero(self.chance >= -np.partition(-self.chance, max(0, n - 1))[max(0, n - 1)])
        return self[able[np.argsort(-self.chance[able], kind="stable")[:n]]]

    def without(self, others: NeighbourQueue) -> NeighbourQueue:
        """Return all but some."""
        return self[~np.isin(self.mark, others.mark)]

    def and_also(self, more: NeighbourQueue, *, most: int) -> NeighbourQueue:
        """With more of them, the likeliest parent of each; only the likeliest are kept if there are many."""
        if len(self) + len(more) > 2 * most:
            both = self._join_queues(more, np.full(len(more), len(self)))
            return both[np.argpartition(-both.chance, most)[:most]]._distinct()
        # Those who wait are sorted by mark, each once: a few more are sorted in, and nothing else is sorted again.
        more = more._distinct()
        place = np.searchsorted(self.mark, more.mark)
        known = np.zeros(len(more), dtype=np.bool_)
        inside = place < len(self)
        known[inside] = self.mark[place[inside]] == more.mark[inside]
        likelier = known.copy()
        likelier[known] = more.chance[known] > self.chance[place[known]]
        rest = np.ones(len(self), dtype=np.bool_)
        rest[place[likelier]] = False
        taken = likelier | ~known
        kept = np.cumsum(np.append(0, rest))  # how many stay before each place
        return self[rest]._join_queues(more[taken], kept[place[taken]])

    def _join_queues(self, more: NeighbourQueue, place: Integers) -> NeighbourQueue:
        """Return both, each of the others in front of the one at its place (n,)."""
        return NeighbourQueue(
            np.insert(self.chance, place, more.chance),
            np.insert(self.mark, place, more.mark),
            np.insert(self.parent, place, more.parent),
            np.insert(self.level, place, more.level),
        )

    def _distinct(self) -> NeighbourQueue:
        """Return each once, with its likeliest parent, sorted by mark."""
        order = np.lexsort((-self.chance, self.mark))
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = np.diff(self.mark[order]) != 0
        return self[order[first]]


class FreshProfiles:
    """Starts that no neighbour led to: the seeds, the people in the data, then all profiles if few, else draws.

    Attributes:
        over: whether every profile was handed out.
    """

    def __init__(self, space: ProfileSpace, moves: Moves, seeds: Floats, rng: np.random.Generator) -> None:
        self._space, self._moves, self._rng = space, moves, rng
        known = [np.ascontiguousarray(seeds[:, space.columns])]
        if space.people is not None:
            known.append(space.people[rng.permutation(len(space.people))])
        self._queue = np.concatenate(known)
        self._queue = self._queue[space.is_admissible(self._queue)]
        self._listed = False
        self._draws = False
        self.over = False

    def take(self, n: int) -> Floats:
        """Return up to n profiles, shape (m, U); they may have been handed out before."""
        if n <= 0:
            return np.empty((0, self._space.width))
        if len(self._queue) == 0 and not self._listed:
            self._listed = True
            codes = self._moves.list_profiles(LISTED)
            self._draws = codes is None
            if codes is not None:
                rows = self._moves.rows(codes[self._rng.permutation(len(codes))])
                self._queue = rows[self._space.is_admissible(rows)]
        if self._draws:
            half = self._space.uniform(n // 2, self._rng)
            if self._space.people is None:
                return half
            return np.concatenate([half, self._space.draw_near(n - len(half), self._rng, changes=3)])
        taken, self._queue = self._queue[:n], self._queue[n:]
        self.over = self._listed and len(self._queue) == 0
        return taken


class BoundarySearch:
    """The state of one search: who was asked, who is worth a question, what was learnt."""

    def __init__(self, oracle: Oracle, seeds: Floats, rng: np.random.Generator, plan: float) -> None:
        space = oracle.space
        self._space, self._oracle, self._rng, self._plan = space, oracle, rng, plan
        self._moves = Moves.of(space)
        assignments, classes = len(space.assignments), len(oracle.scorer.classes)
        self._surrogate = Surrogate(self._moves, assignments, classes, label_only=oracle.scorer.label_only)
        self._fresh = FreshProfiles(space, self._moves, seeds, rng)
        self._marks = rng.integers(-(2**63), 2**63 - 1, size=len(self._moves.part), dtype=np.int64)
        self._known = np.empty(0, dtype=np.int64)
        outputs = assignments * (1 if classes == 2 else classes)
        parts = len(self._moves.start)
        self._parents = ParentProfiles(
            np.empty((0, space.width)), np.empty((0, parts), dtype=np.int64), np.empty((0, outputs))
        )
        self._waiting = NeighbourQueue.none()
        self._half: list[Floats] = []
        self._assignments = assignments
        self._asked = 0

    def run(self, most: float) -> None:
        """Ask step by step until about ``most`` profiles were asked about or none is left."""
        first = np.clip(self._plan / GROWTH, FEWEST, MOST)
        step = idle = 0
        while self._asked < most and idle < DRAWS:
            size = int(min(max(first, self._asked // GROWTH), most - self._asked))
            exploring = self._asked < START * min(self._plan, 1e6) and not self._fresh.over
            picked = self._waiting.best(0 if exploring else int(np.ceil((1 - EXPLORE) * size)))
            neighbours, guessed = self._neighbours(picked)
            fresh = self._select_unknown(self._fresh.take(size - len(neighbours)))
            if len(neighbours) + len(fresh) == 0:
                if len(picked) == 0:
                    idle = DRAWS if self._fresh.over else idle + 1
                if idle == DRAWS and self._half:
                    idle = 0
                    self._query_remaining()
                continue
            idle = 0
            self._ask(neighbours, fresh, guessed)
            step += 1
            if step < 20 or step % 5 == 0:
                self._surrogate.fit()

    def _neighbours(self, picked: NeighbourQueue) -> tuple[Floats, NeighbourGuess]:
        """Return the rows of the neighbours picked that are admissible and new, and what is guessed about them."""
        parents = self._parents
        codes = parents.codes[picked.parent]
        before = codes[np.arange(len(codes)), self._moves.part[picked.level]]
        rows, codes = self._moves.move(parents.rows[picked.parent], codes, picked.level)
        self._waiting = self._waiting.without(picked)
        marks = self._hash_profiles(codes)
        # What moved along can make it somebody else than the mark says.
        good = np.zeros(len(marks), dtype=np.bool_)
        good[np.unique(marks, return_index=True)[1]] = True
        good &= ~self._is_known(marks)
        self._remember(np.concatenate([marks[good], picked.mark[marks != picked.mark]]))
        good &= self._space.is_admissible(rows)
        before, level = before[good], picked.level[good]
        return rows[good], NeighbourGuess(
            self._surrogate.guess_answers(parents.answers[picked.parent[good]], before, level), before, level
        )

    def _ask(self, neighbours: Floats, fresh: Floats, guessed: NeighbourGuess) -> None:
        """Ask, learn from the answers, and let the neighbours of promising profiles wait."""
        if len(fresh):
            said = self._oracle.ask(fresh)
            self._queue_if_promising(fresh, said.flips, self._surrogate.answers(said.scores, said.labels))
        if len(neighbours) == 0:
            return
        if self._assignments == 2:
            said = self._oracle.ask(neighbours)
            answers = self._surrogate.answers(said.scores, said.labels)
            off = answers - guessed.answers
        else:
            # The two assignments that lie furthest apart tell; the others are asked where they may say otherwise.
            margins = self._surrogate.margins(guessed.answers)
            which = np.stack([np.argmin(margins, axis=1), np.argmax(margins, axis=1)], axis=1)
            which[:, 1] += which[:, 0] == which[:, 1]
            which %= self._assignments
            said = self._oracle.compare(neighbours, which)
            answers, off = self._surrogate.complete_answers(guessed.answers, which, said.scores, said.labels)
            self._half.append(neighbours[~said.flips])
        self._surrogate.learn_errors(guessed.before, guessed.level, off)
        self._queue_if_promising(neighbours, said.flips, answers)

    def _query_remaining(self) -> None:
        """Ask about all assignments of those whom two assignments decided alike: no other profile is left."""
        rows, self._half = np.concatenate(self._half), []
        for i in range(0, len(rows), PARENTS):
            said = self._oracle.ask(rows[i : i + PARENTS])
            answers = self._surrogate.answers(said.scores, said.labels)
            self._queue_if_promising(rows[i : i + PARENTS], said.flips, answers)

    def _queue_if_promising(self, rows: Floats, flips: Booleans, answers: Floats) -> None:
        self._asked += len(rows)
        codes = self._moves.codes(rows)
        self._surrogate.learn_answers(codes, answers)
        near = np.abs(self._surrogate.margins(answers)).min(axis=1)
        order = np.lexsort((near, ~flips))
        parents = order[: min(PARENTS, int(flips.sum()) + max(FEWEST, len(rows) // NEAR))]
        self._queue_neighbours(rows[parents], codes[parents], answers[parents])

    def _queue_neighbours(self, rows: Floats, codes: Codes, answers: Floats) -> None:
        """Let the neighbours of profiles wait for a question."""
        first = len(self._parents.rows)
        self._parents = self._parents.and_also(rows, codes, answers)
        parent, level = np.nonzero(self._moves.open(codes))
        before = codes[parent, self._moves.part[level]]
        marks = self._hash_profiles(codes)[parent] ^ self._marks[before] ^ self._marks[level]
        new = ~self._is_known(marks)
        parent, level, before, marks = parent[new], level[new], before[new], marks[new]
        margins = self._surrogate.margins(self._surrogate.guess_answers(answers[parent], before, level))
        spreads = self._surrogate.spread()
        spread = np.sqrt((spreads[level] ** 2 + spreads[before] ** 2) / 2)
        chance = self._surrogate.chance(margins.min(axis=1), margins.max(axis=1), spread)
        size = max(MOST, self._asked // GROWTH)
        self._waiting = self._waiting.and_also(
            NeighbourQueue(chance, marks, parent + first, level), most=20_000 + 20 * size
        )

    def _select_unknown(self, rows: Floats) -> Floats:
        """Return the profiles (n, U) not asked about before, and remember them."""
        marks = self._hash_profiles(self._moves.codes(rows))
        _, first = np.unique(marks, return_index=True)
        first = np.sort(first)
        first = first[~self._is_known(marks[first])]
        self._remember(marks[first])
        return rows[first]

    def _hash_profiles(self, codes: Codes) -> Integers:
        """Return a hash of profiles (n, parts) that a move changes by two exclusive ors, shape (n,)."""
        return np.asarray(np.bitwise_xor.reduce(self._marks[codes], axis=1))

    def _is_known(self, marks: Integers) -> Booleans:
        if len(self._known) == 0:
            return np.zeros(len(marks), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self._known, marks), len(self._known) - 1)
        return np.asarray(self._known[at] == marks)

    def _remember(self, marks: Integers) -> None:
        self._known = np.sort(np.concatenate([self._known, marks]), kind="stable")


# What a model would answer, guessed from what it answered: to tell before asking whose decision may flip.


CLIPPED = 1e-12
"""Scores nearer to 0 or 1 than this count as this near: log-odds stay finite."""

CLIPPED_LABELS = 0.02
"""The same where a model gives labels only, so that a label's log-odds are about as large as other errors."""

PRIOR = 20.0
"""How many observations of a level the spread seen over the whole attribute weighs."""

RIDGE = 1.0


class Surrogate:
    """Log-odds of a neighbour: its parent's answer plus what the move brings on average, with the spread seen so far.

    What a level contributes on average is a ridge regression of all answers on the levels. How far the guess is off is
    learnt level by level from those who were guessed at and then asked.
    """

    def __init__(self, moves: Moves, assignments: int, classes: int, *, label_only: bool) -> None:
        self._moves = moves
        self._assignments = assignments
        self._width = 1 if classes == 2 else classes
        self._clip = CLIPPED_LABELS if label_only else CLIPPED
        levels, outputs = len(moves.part), assignments * self._width
        self._gram = np.eye(levels) * RIDGE
        self._moment = np.zeros((levels, outputs))
        self._effects: Floats = np.zeros((levels, outputs))
        self._squares, self._seen = np.zeros(levels), np.zeros(levels)
        self._lowest, self._highest = -np.inf, np.inf

    def answers(self, scores: Floats, labels: Integers) -> Floats:
        """Scores (n, A, classes) as log-odds, of the second of two classes or of each of more, shape (n, outputs)."""
        inside = np.clip(scores, self._clip, 1 - self._clip)
        odds: Floats = np.log(inside) - np.log1p(-inside)
        if self._width > 1:
            return odds.reshape(len(scores), -1)
        odds = odds[..., 1]
        # The label may change at another score than one half.
        self._lowest = max(self._lowest, odds[labels == 0].max(initial=-np.inf))
        self._highest = min(self._highest, odds[labels == 1].min(initial=np.inf))
        return np.asarray(odds)

    def complete_answers(
        self, guessed: Floats, which: Codes, scores: Floats, labels: Integers
    ) -> tuple[Floats, Floats]:
        """Guessed answers (n, outputs) with those under some assignments (n, k) known; and how far these were off.

        The other assignments are taken to be off by as much as these on average.
        """
        known = self.answers(scores, labels).reshape(*which.shape, self._width)
        every = guessed.reshape(len(guessed), self._assignments, self._width).copy()
        off = known - np.take_along_axis(every, which[:, :, None], axis=1)
        every += off.mean(axis=1, keepdims=True)
        np.put_along_axis(every, which[:, :, None], known, axis=1)
        return every.reshape(guessed.shape), off.reshape(len(off), -1)

    def learn_answers(self, codes: Codes, answers: Floats) -> None:
        """Take in answers (n, outputs) about profiles (n, parts)."""
        held = np.zeros((len(codes), len(self._gram)))
        held[np.arange(len(codes))[:, None], codes] = 1
        self._gram += held.T @ held
        self._moment += held.T @ answers

    def fit(self) -> None:
        """Fit the model to what was learnt."""
        self._effects = np.asarray(np.linalg.solve(self._gram, self._moment), dtype=np.float64)

    def learn_errors(self, before: Codes, level: Codes, errors: Floats) -> None:
        """Take in how far guesses were off (n, outputs), after moves from one level (n,) to another (n,)."""
        squares = (errors**2).mean(axis=1)
        for each in (before, level):
            self._squares += np.bincount(each, squares, minlength=len(self._squares))
            self._seen += np.bincount(each, minlength=len(self._seen))

    def guess_answers(self, answers: Floats, before: Codes, level: Codes) -> Floats:
        """Return the answers (n, outputs) of neighbours, from their parents' and the levels they moved from and to."""
        return np.asarray(answers + self._effects[level] - self._effects[before])

    def spread(self) -> Floats:
        """Return the standard error of a guess about a move from or to each level, shape (V,)."""
        part = self._moves.part
        squares = np.bincount(part, self._squares) + 1.0
        seen = np.bincount(part, self._seen) + 1.0
        return np.asarray(np.sqrt((self._squares + PRIOR * (squares / seen)[part]) / (self._seen + PRIOR)))

    def margins(self, answers: Floats) -> Floats:
        """By how much each assignment's answer is on one side, shape (n, A): a flip has both signs.

        With more than two classes the sides are: the class that is likeliest over all assignments, or any other.
        """
        if self._width == 1:
            return answers - self._threshold
        odds = answers.reshape(len(answers), self._assignments, self._width)
        top = np.argmax(odds.sum(axis=1), axis=1)[:, None, None]
        mine = np.take_along_axis(odds, top, axis=2)[..., 0]
        others = odds.copy()
        np.put_along_axis(others, top, -np.inf, axis=2)
        return np.asarray(mine - others.max(axis=2))

    @property
    def _threshold(self) -> float:
        """The log-odds at which the label changes: 0, unless the answers so far say otherwise."""
        low, high = self._lowest, self._highest
        if low <= 0 <= high or low >= high:
            return 0.0
        return float((low + high) / 2) if np.isfinite(high - low) else float(np.clip(0.0, low, high))

    @staticmethod
    def chance(lowest: Floats, highest: Floats, spread: Floats) -> Floats:
        """Return how likely the sign differs between assignments, if their common error is normal with this spread."""
        return _normal_cdf(-lowest / spread) - _normal_cdf(-highest / spread)


def _normal_cdf(z: Floats) -> Floats:
    """Return the normal distribution function, to three digits: it only ranks."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.7978845608 * (z + 0.044715 * z**3)))
