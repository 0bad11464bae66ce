"""Best-first search along the decision boundary among plausible profiles: the default method.

The search first queries some people in the data. It then repeatedly queries the neighbours of promising profiles that
are most likely to flip. A profile is promising if two assignments get different labels, or nearly do. The probability
of a flip is estimated without a query by a surrogate (see ``Surrogate``): the parent's answers plus the average effect
of the move, compared with the errors of earlier estimates. Moves lead only to pairs of values that occur in the data,
no individual is queried twice, and a fraction of the queries is spent on new people, so that other regions are found
too. With three or more assignments, only the two with the most different estimates are queried first. If their labels
differ, that is enough, and the others are queried at confirmation. For models that return only labels, the same
formulas prefer moves that rarely change a label.
"""

from __future__ import annotations

from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.moves import Moves
from evenhand.individual.search.oracle import ModelAnswers, Oracle
from evenhand.models.scorer import split_batches

MIN_STEP, MAX_FIRST_STEP = 16, 256
"""Bounds on the number of profiles in the first step, which is 1/40 of the number that the budget covers."""

GROWTH = 40
"""Later steps query 1/40 of the number of profiles queried before."""

START_SHARE = 0.03
"""Fraction of the budget for people in the data, before other profiles are queried."""

EXPLORE_SHARE = 0.05
"""Fraction of every step that is used for new people."""

MAX_PARENTS = 4096
"""Maximum number of profiles whose neighbours are added in one step."""

NEAR_SHARE = 8
"""One in eight profiles without a flip becomes a parent: those nearest to the boundary."""

MAX_LISTED = 100_000
"""Maximum number of admissible profiles for full enumeration, which misses none."""

MAX_IDLE_DRAWS = 5
"""Number of consecutive draws without a new individual after which the profiles count as exhausted."""

MIN_QUEUE = 2000
"""Half of a full queue has at least this size."""

CLIP = 1e-12
"""Scores are clipped to at least this distance from 0 and 1, so that log-odds are finite."""

LABEL_CLIP = 0.02
"""The same distance for models that only return labels, so that their log-odds are similar to other errors."""

PRIOR_WEIGHT = 20.0
"""Prior weight, in observations, of an attribute's mean squared error in the error of each of its levels."""

RIDGE = 1.0
"""Penalty of the ridge regression."""

MAX_DENSE_LEVELS = 1024
"""Maximum number of levels for which the ridge regression is solved directly. With more levels, conjugate
gradients are used."""

GRADIENT_STEPS = 20
"""Maximum number of steps of conjugate gradients."""


def search(oracle: Oracle, seeds: Floats, rng: np.random.Generator, config: SearchConfig) -> bool:
    """Query until the budget is spent or no profile is left. Without a budget, query ``local`` profiles per seed."""
    plan: float = len(seeds) * max(1, config.local)
    if oracle.budget is not None:
        plan = float(np.floor(oracle.queries_left / len(oracle.space.assignments)))
    BoundarySearch(oracle, seeds, rng, plan).run(np.inf if oracle.budget is not None else plan)
    return False


NEIGHBOUR = np.dtype([("chance", "f8"), ("mark", "i8"), ("parent", "i8"), ("level", "i8")])
"""Neighbour in the queue: probability of a flip, hash, index of its parent, and the level that it moves to."""

Neighbours: TypeAlias = NDArray[np.void]
"""Array of neighbours, shape (n,)."""


def likeliest(neighbours: Neighbours, max_size: int) -> Neighbours:
    """Select the neighbours with the highest probability in order, each with its most likely parent."""
    import pandas as pd

    order = np.argsort(-neighbours["chance"], kind="stable")  # fast, since most neighbours are in order
    return neighbours[order[~pd.Series(neighbours["mark"][order]).duplicated().to_numpy()][:max_size]]


class BoundarySearch:
    """State of a search: queried profiles, the queue, and the surrogate."""

    def __init__(self, oracle: Oracle, seeds: Floats, rng: np.random.Generator, plan: float) -> None:
        space = oracle.space
        self._space, self._oracle, self._rng, self._plan = space, oracle, rng, plan
        self._moves = Moves.of(space)
        self._assignments, classes = len(space.assignments), len(oracle.scorer.classes)
        self._surrogate = Surrogate(self._moves, self._assignments, classes, label_only=oracle.scorer.label_only)
        people = np.empty((0, space.width)) if space.people is None else space.people
        # Profiles that are not neighbours: seeds and people in the data, then all profiles if they can be listed.
        self._fresh = np.concatenate([seeds[:, space.columns], people[rng.permutation(len(people))]])
        self._listed: bool | None = None  # None while seeds or people are left
        self._level_marks = rng.integers(-(2**63), 2**63 - 1, size=len(self._moves.attribute), dtype=np.int64)
        self._queried_marks = np.array([np.iinfo(np.int64).min])  # sorted; the first is not the mark of a profile
        # Profiles whose neighbours are in the queue, and their answers.
        self._parents, self._answers = np.empty((0, space.width)), np.empty((0, self._surrogate.effects.shape[1]))
        self._queue, self._min_chance = np.empty(0, NEIGHBOUR), 0.0
        self._partial: list[Floats] = []
        self._queried = 0

    def run(self, max_profiles: float) -> None:
        """Query step by step until about ``max_profiles`` profiles have been queried or none is left."""
        first_step = np.clip(self._plan / GROWTH, MIN_STEP, MAX_FIRST_STEP)
        step = idle = 0
        while self._queried < max_profiles and idle < MAX_IDLE_DRAWS:
            size = int(min(max(first_step, self._queried // GROWTH), max_profiles - self._queried))
            over = bool(self._listed) and len(self._fresh) == 0
            exploring = self._queried < START_SHARE * min(self._plan, 1e6) and not over
            half = MIN_QUEUE + 10 * max(MAX_FIRST_STEP, self._queried // GROWTH)
            queue = likeliest(self._queue, 2 * half)
            picked, self._queue = np.split(queue, [0 if exploring else int(np.ceil((1 - EXPLORE_SHARE) * size))])
            self._min_chance = self._queue["chance"][half] if len(self._queue) > half else 0.0
            neighbours, estimates, levels = self._neighbours(picked)
            fresh = self._take_fresh(size - len(neighbours))
            fresh = fresh[self._select_new(self._hash_profiles(self._moves.codes(fresh)))]
            if len(neighbours) + len(fresh) == 0:
                if len(picked) == 0:
                    idle = MAX_IDLE_DRAWS if over else idle + 1
                if idle == MAX_IDLE_DRAWS and self._partial:
                    # No other profile is left, so those with two equal labels are queried under all assignments.
                    idle = 0
                    partial, self._partial = np.concatenate(self._partial), []
                    for rows in split_batches(partial, MAX_PARENTS):
                        self._learn(rows, self._oracle.ask(rows))
                continue
            idle = 0
            if len(fresh):
                self._learn(fresh, self._oracle.ask(fresh))
            if len(neighbours):
                self._query(neighbours, estimates, levels)
            step += 1
            if step < 20 or step % 5 == 0:
                self._surrogate.fit()

    def _take_fresh(self, n: int) -> Floats:
        """Return up to n admissible profiles that are not neighbours, (m, U). They may have been queried before."""
        space = self._space
        profiles = self._fresh[:0]
        # People are checked only when needed, since most searches end earlier.
        while len(profiles) < n and len(self._fresh):
            rows, self._fresh = np.split(self._fresh, [n - len(profiles)])
            profiles = np.concatenate([profiles, rows[space.is_admissible(rows)]])
        if len(profiles) or n == 0:
            return profiles
        if self._listed is None:
            codes = self._moves.list_profiles(MAX_LISTED)
            self._listed = codes is not None
            if codes is not None:
                self._fresh = self._moves.levels[codes[self._rng.permutation(len(codes))]]
                return self._take_fresh(n)
        if self._listed:
            return profiles
        half = space.uniform(n // 2, self._rng)
        if space.people is None:
            return half
        return np.concatenate([half, space.draw_near(n - len(half), self._rng, changes=3)])

    def _neighbours(self, picked: Neighbours) -> tuple[Floats, Floats, tuple[Integers, Integers]]:
        """Select the picked neighbours that are admissible and new.

        Returns:
            The neighbours (n, U), their estimated answers (n, outputs), and the levels that they moved from and to.
        """
        parent, level = picked["parent"], picked["level"]
        rows = self._parents[parent]
        codes = self._moves.codes(rows)
        origin = codes[np.arange(len(codes)), self._moves.attribute[level]]
        rows, codes = self._moves.move(rows, codes, level)
        # After a dependent move, the neighbour's mark differs from its mark in the queue.
        selected = self._select_new(self._hash_profiles(codes))
        self._select_new(picked["mark"])
        selected &= self._space.is_admissible(rows)
        origin, level = origin[selected], level[selected]
        answers = self._surrogate.guess_answers(self._answers[parent[selected]], origin, level)
        return rows[selected], answers, (origin, level)

    def _query(self, neighbours: Floats, estimates: Floats, levels: tuple[Integers, Integers]) -> None:
        """Query neighbours, learn from the answers and the errors of their estimates, and queue their neighbours."""
        which = None
        if self._assignments > 2:
            # Two assignments are queried. The others are queried if their labels may differ.
            margins = self._surrogate.margins(estimates)
            which = np.stack([np.argmin(margins, axis=1), np.argmax(margins, axis=1)], axis=1)
            which[:, 1] += which[:, 0] == which[:, 1]
            which %= self._assignments
        replies = self._oracle.ask(neighbours, which)
        if which is not None:
            self._partial.append(neighbours[~replies.flips])
        self._learn(neighbours, replies, self._surrogate.complete_answers(estimates, levels, replies, which))

    def _learn(self, rows: Floats, replies: ModelAnswers, answers: Floats | None = None) -> None:
        """Learn from the answers about profiles, and queue the neighbours of promising ones."""
        if answers is None:
            answers = self._surrogate.answers(replies.scores, replies.labels)
        self._queried += len(rows)
        codes = self._moves.codes(rows)
        self._surrogate.learn_answers(codes, answers)
        distance = np.abs(self._surrogate.margins(answers)).min(axis=1)
        order = np.lexsort((distance, ~replies.flips))
        parents = order[: min(MAX_PARENTS, int(replies.flips.sum()) + max(MIN_STEP, len(rows) // NEAR_SHARE))]
        self._queue_neighbours(rows[parents], codes[parents], answers[parents])

    def _queue_neighbours(self, rows: Floats, codes: Integers, answers: Floats) -> None:
        """Add the neighbours of profiles to the queue, except those that are less likely than half of a full queue."""
        parent, level = np.nonzero(self._moves.open(codes))
        origin = codes[parent, self._moves.attribute[level]]
        margins = self._surrogate.margins(self._surrogate.guess_answers(answers[parent], origin, level)).T
        squares = self._surrogate.spread() ** 2
        spread = np.sqrt((squares[level] + squares[origin]) / 2)
        # Reductions over the short last axis are slow.
        chance = self._surrogate.chance(reduce(np.minimum, margins), reduce(np.maximum, margins), spread)
        likely = np.flatnonzero(chance >= self._min_chance)
        parent, level = parent[likely], level[likely]
        neighbours = np.empty(len(likely), NEIGHBOUR)
        marks = self._hash_profiles(codes)[parent]
        marks ^= self._level_marks[origin[likely]] ^ self._level_marks[level]
        neighbours["mark"], neighbours["level"], neighbours["parent"] = marks, level, parent + len(self._parents)
        # All neighbours of a parent are equally likely at first. Ties are resolved by mark, which is random.
        neighbours["chance"] = (chance[likely] + 1e-300) * (1 - 2.0**-93 * marks)
        neighbours = neighbours[~self._is_queried(marks)]
        self._queue = np.concatenate([self._queue, neighbours])
        self._parents = np.concatenate([self._parents, rows])
        self._answers = np.concatenate([self._answers, answers])

    def _hash_profiles(self, codes: Integers) -> Integers:
        """Hash profiles (n, U), shape (n,). A move changes the hash by two exclusive ors."""
        return np.asarray(np.bitwise_xor.reduce(self._level_marks[codes], axis=1))

    def _is_queried(self, marks: Integers) -> Booleans:
        queried = self._queried_marks
        return np.asarray(queried.take(np.searchsorted(queried, marks), mode="clip") == marks)

    def _select_new(self, marks: Integers) -> Booleans:
        """Return a mask of the distinct profiles (n,) that were not queried before, and mark them as queried."""
        selected = np.zeros(len(marks), dtype=np.bool_)
        selected[np.unique(marks, return_index=True)[1]] = True
        selected &= ~self._is_queried(marks)
        self._queried_marks = np.sort(np.concatenate([self._queried_marks, marks[selected]]), kind="stable")
        return selected


class Surrogate:
    """Estimate of a neighbour's log-odds: its parent's answer plus the average effect of the move, with its error.

    The average effect of each level is a ridge regression of all answers on the levels. The error is learned per
    level from neighbours that were estimated and then queried.
    """

    def __init__(self, moves: Moves, assignments: int, classes: int, *, label_only: bool) -> None:
        self._moves = moves
        self._assignments = assignments
        self._width = 1 if classes == 2 else classes
        self._clip = LABEL_CLIP if label_only else CLIP
        levels = len(moves.attribute)
        self._gram = RIDGE * np.eye(levels) if levels <= MAX_DENSE_LEVELS else None
        self._pending: list[tuple[Integers, Floats]] = []
        self._moment, self.effects = np.zeros((2, levels, assignments * self._width))
        self._squares, self._counts = np.zeros((2, levels))
        self._lowest, self._highest = -np.inf, np.inf

    def answers(self, scores: Floats, labels: Integers) -> Floats:
        """Convert scores (n, A, classes) to log-odds of the second of two classes, or of each class, (n, outputs)."""
        inside = np.clip(scores, self._clip, 1 - self._clip)
        odds: Floats = np.log(inside) - np.log1p(-inside)
        if self._width > 1:
            return odds.reshape(len(scores), -1)
        odds = odds[..., 1]
        # The label may change at a score other than one half.
        self._lowest = max(self._lowest, odds[labels == 0].max(initial=-np.inf))
        self._highest = min(self._highest, odds[labels == 1].min(initial=np.inf))
        return np.asarray(odds)

    def complete_answers(
        self, estimates: Floats, levels: tuple[Integers, Integers], replies: ModelAnswers, which: Integers | None
    ) -> Floats:
        """Replace estimates (n, outputs) with the replies under some assignments (n, k), or all, and learn the errors.

        The estimates are those after a move from one level (n,) to another (n,). Estimates under other assignments are
        corrected by the mean error.
        """
        answers = self.answers(replies.scores, replies.labels)
        if which is None:
            errors = answers - estimates
        else:
            queried = answers.reshape(*which.shape, self._width)
            answers = estimates.reshape(len(estimates), self._assignments, self._width)
            errors = queried - np.take_along_axis(answers, which[:, :, None], axis=1)
            answers = answers + errors.mean(axis=1, keepdims=True)
            np.put_along_axis(answers, which[:, :, None], queried, axis=1)
        squares = (errors.reshape(len(errors), -1) ** 2).mean(axis=1)
        for ends in levels:
            self._squares += np.bincount(ends, squares, minlength=len(self._squares))
            self._counts += np.bincount(ends, minlength=len(self._counts))
        return answers.reshape(estimates.shape)

    def learn_answers(self, codes: Integers, answers: Floats) -> None:
        """Add answers (n, outputs) for profiles (n, U) to the regression."""
        self._pending.append((codes, answers))

    def fit(self) -> None:
        """Fit the regression, for many levels by conjugate gradients, starting at the last effects."""
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import LinearOperator, cg

        codes, answers = (np.concatenate(parts) for parts in zip(*self._pending, strict=True))
        ends = np.arange(0, codes.size + 1, codes.shape[1])
        indicators = csr_array((np.ones(codes.size), codes.ravel(), ends), shape=(len(codes), len(self.effects)))
        transposed = indicators.T.tocsr()
        moment = transposed @ answers
        if self._gram is not None:
            self._gram += transposed @ indicators
            self._moment += moment
            self._pending = []
            self.effects = np.asarray(np.linalg.solve(self._gram, self._moment), dtype=np.float64)
            return
        self._pending = [(codes, answers)]

        def multiply(effects: Floats) -> Floats:
            return np.asarray(transposed @ (indicators @ effects) + RIDGE * effects)

        normal = LinearOperator((len(moment), len(moment)), multiply, dtype="f8")
        for effects, column in zip(self.effects.T, moment.T, strict=True):
            effects[:] = cg(normal, column, effects, rtol=1e-3, maxiter=GRADIENT_STEPS)[0]

    def guess_answers(self, answers: Floats, origin: Integers, level: Integers) -> Floats:
        """Estimate the answers (n, outputs) of neighbours from those of their parents and the levels of the move."""
        return np.asarray(answers + self.effects[level] - self.effects[origin])

    def spread(self) -> Floats:
        """Compute the standard error of an estimate after a move from or to each level, shape (V,)."""
        attribute = self._moves.attribute
        squares = np.bincount(attribute, self._squares) + 1.0
        counts = np.bincount(attribute, self._counts) + 1.0
        return np.asarray(
            np.sqrt((self._squares + PRIOR_WEIGHT * (squares / counts)[attribute]) / (self._counts + PRIOR_WEIGHT))
        )

    def margins(self, answers: Floats) -> Floats:
        """Compute the margin of each assignment, shape (n, A). If a label flips, both signs occur.

        With more than two classes, it is the margin between the most likely class over all assignments and the others.
        """
        if self._width == 1:
            return answers - self._threshold
        odds = answers.reshape(len(answers), self._assignments, self._width)
        top = np.argmax(odds.sum(axis=1), axis=1)[:, None, None]
        own = np.take_along_axis(odds, top, axis=2)[..., 0]
        rivals = odds.copy()
        np.put_along_axis(rivals, top, -np.inf, axis=2)
        return np.asarray(own - rivals.max(axis=2))

    @property
    def _threshold(self) -> float:
        """Log-odds at which the label changes: 0 unless the answers contradict this."""
        low, high = self._lowest, self._highest
        if low <= 0 <= high or low >= high:
            return 0.0
        return float((low + high) / 2) if np.isfinite(high - low) else float(np.clip(0.0, low, high))

    @staticmethod
    def chance(lowest: Floats, highest: Floats, spread: Floats) -> Floats:
        """Compute the probability of different signs if the common error is normal with this standard deviation."""
        return _normal_cdf(-lowest / spread) - _normal_cdf(-highest / spread)


def _normal_cdf(z: Floats) -> Floats:
    """Approximate the normal distribution function to three digits, which suffices for ranking."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.7978845608 * z * (1 + 0.044715 * z**2)))  # z**3 is much slower
