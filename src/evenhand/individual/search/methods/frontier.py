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
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import ProfileSpace

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

FIRST_CHANCES = np.array([1.0, 0.5, 0.1])
"""Probabilities, relative to the lowest in a full queue, above which neighbours are estimated first."""

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
"""Array of neighbours, shape (n,). A queue is sorted by mark, without duplicates."""


def likeliest(queue: Neighbours, n: int) -> Neighbours:
    """Select the n neighbours with the highest probability, in order."""
    if n < len(queue):  # sorting all of them would take longer than the queries
        last = max(0, n - 1)
        queue = queue[queue["chance"] >= -np.partition(-queue["chance"], last)[last]]
    return queue[np.argsort(-queue["chance"], kind="stable")[:n]]


def cut_queue(queue: Neighbours, max_size: int) -> Neighbours:
    """Keep only the most likely neighbours, each with its most likely parent. Ties are resolved by mark and parent."""
    chance = queue["chance"]
    last = np.partition(chance, len(queue) - max_size)[len(queue) - max_size]
    likelier, tied = queue[chance > last], queue[chance == last]
    tied = tied[np.lexsort((tied["parent"], tied["mark"]))]
    return _sort_by_mark(np.concatenate([likelier, tied[: max_size - len(likelier)]]))


def merge_queues(queue: Neighbours, neighbours: Neighbours) -> Neighbours:
    """Add neighbours to a queue, each with its most likely parent."""
    neighbours = _sort_by_mark(neighbours)
    place = np.searchsorted(queue["mark"], neighbours["mark"])
    duplicate = np.flatnonzero(np.append(queue["mark"], 0)[place] == neighbours["mark"])
    duplicate = duplicate[place[duplicate] < len(queue)]
    queued = place[duplicate]
    likelier = neighbours["chance"][duplicate] > queue["chance"][queued]
    queue[queued[likelier]] = neighbours[duplicate[likelier]]
    return np.insert(queue, np.delete(place, duplicate), np.delete(neighbours, duplicate))


def _sort_by_mark(neighbours: Neighbours) -> Neighbours:
    """Sort neighbours by mark, and keep each with its most likely parent."""
    order = np.lexsort((neighbours["parent"], -neighbours["chance"], neighbours["mark"]))
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = np.diff(neighbours["mark"][order]) != 0
    return neighbours[order[is_first]]


class FreshProfiles:
    """Profiles that are not neighbours: seeds, people in the data, then all profiles, or random ones if there are many.

    Attributes:
        over: Whether all profiles were returned.
    """

    def __init__(self, space: ProfileSpace, moves: Moves, seeds: Floats, rng: np.random.Generator) -> None:
        self._space, self._moves, self._rng = space, moves, rng
        parts = [np.ascontiguousarray(seeds[:, space.columns])]
        if space.people is not None:
            parts.append(space.people[rng.permutation(len(space.people))])
        self._queue = np.concatenate(parts)
        self._draws: bool | None = None  # None while seeds or people are left
        self.over = False

    def take(self, n: int) -> Floats:
        """Return up to n profiles, shape (m, U). They may have been returned before."""
        if n <= 0:
            return np.empty((0, self._space.width))
        if self._draws is None:
            # People are checked only when needed, since most searches end earlier.
            profiles = self._queue[:0]
            while len(profiles) < n and len(self._queue):
                rest = n - len(profiles)
                rows, self._queue = self._queue[:rest], self._queue[rest:]
                profiles = np.concatenate([profiles, rows[self._space.is_admissible(rows)]])
            if len(profiles):
                return profiles
            codes = self._moves.list_profiles(MAX_LISTED)
            self._draws = codes is None
            if codes is not None:
                rows = self._moves.levels[codes[self._rng.permutation(len(codes))]]
                self._queue = rows[self._space.is_admissible(rows)]
        if self._draws:
            half = self._space.uniform(n // 2, self._rng)
            if self._space.people is None:
                return half
            return np.concatenate([half, self._space.draw_near(n - len(half), self._rng, changes=3)])
        profiles, self._queue = self._queue[:n], self._queue[n:]
        self.over = len(self._queue) == 0
        return profiles


class BoundarySearch:
    """State of a search: queried profiles, the queue, and the surrogate."""

    def __init__(self, oracle: Oracle, seeds: Floats, rng: np.random.Generator, plan: float) -> None:
        space = oracle.space
        self._space, self._oracle, self._rng, self._plan = space, oracle, rng, plan
        self._moves = Moves.of(space)
        assignments, classes = len(space.assignments), len(oracle.scorer.classes)
        self._surrogate = Surrogate(self._moves, assignments, classes, label_only=oracle.scorer.label_only)
        self._fresh = FreshProfiles(space, self._moves, seeds, rng)
        self._level_marks = rng.integers(-(2**63), 2**63 - 1, size=len(self._moves.attribute), dtype=np.int64)
        self._queried_marks = np.array([np.iinfo(np.int64).min])  # sorted; the first is not the mark of a profile
        outputs = assignments * (1 if classes == 2 else classes)
        # Profiles whose neighbours are in the queue, and their answers.
        self._parents, self._answers = np.empty((0, space.width)), np.empty((0, outputs))
        self._queue = np.empty(0, NEIGHBOUR)
        self._partial: list[Floats] = []
        self._assignments = assignments
        self._queried = 0

    def run(self, max_profiles: float) -> None:
        """Query step by step until about ``max_profiles`` profiles have been queried or none is left."""
        first_step = np.clip(self._plan / GROWTH, MIN_STEP, MAX_FIRST_STEP)
        step = idle = 0
        while self._queried < max_profiles and idle < MAX_IDLE_DRAWS:
            size = int(min(max(first_step, self._queried // GROWTH), max_profiles - self._queried))
            exploring = self._queried < START_SHARE * min(self._plan, 1e6) and not self._fresh.over
            picked = likeliest(self._queue, 0 if exploring else int(np.ceil((1 - EXPLORE_SHARE) * size)))
            neighbours, estimates, levels = self._neighbours(picked)
            fresh = self._select_new(self._fresh.take(size - len(neighbours)))
            if len(neighbours) + len(fresh) == 0:
                if len(picked) == 0:
                    idle = MAX_IDLE_DRAWS if self._fresh.over else idle + 1
                if idle == MAX_IDLE_DRAWS and self._partial:
                    # No other profile is left, so those with two equal labels are queried under all assignments.
                    idle = 0
                    rows, self._partial = np.concatenate(self._partial), []
                    for i in range(0, len(rows), MAX_PARENTS):
                        self._query_all(rows[i : i + MAX_PARENTS])
                continue
            idle = 0
            if len(fresh):
                self._query_all(fresh)
            if len(neighbours):
                self._query(neighbours, estimates, levels)
            step += 1
            if step < 20 or step % 5 == 0:
                self._surrogate.fit()

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
        self._queue = self._queue[~np.isin(self._queue["mark"], picked["mark"])]
        marks = self._hash_profiles(codes)
        # After a dependent move, the neighbour's mark differs from its mark in the queue.
        selected = np.zeros(len(marks), dtype=np.bool_)
        selected[np.unique(marks, return_index=True)[1]] = True
        selected &= ~self._is_queried(marks)
        self._remember(np.concatenate([marks[selected], picked["mark"][marks != picked["mark"]]]))
        selected &= self._space.is_admissible(rows)
        origin, level = origin[selected], level[selected]
        answers = self._surrogate.guess_answers(self._answers[parent[selected]], origin, level)
        return rows[selected], answers, (origin, level)

    def _query(self, neighbours: Floats, estimates: Floats, levels: tuple[Integers, Integers]) -> None:
        """Query neighbours, learn from the answers and the errors of their estimates, and queue their neighbours."""
        if self._assignments == 2:
            replies = self._oracle.ask(neighbours)
            answers = self._surrogate.answers(replies.scores, replies.labels)
            errors = answers - estimates
        else:
            # Two assignments are queried. The others are queried if their labels may differ.
            margins = self._surrogate.margins(estimates)
            which = np.stack([np.argmin(margins, axis=1), np.argmax(margins, axis=1)], axis=1)
            which[:, 1] += which[:, 0] == which[:, 1]
            which %= self._assignments
            replies = self._oracle.compare(neighbours, which)
            answers, errors = self._surrogate.complete_answers(estimates, which, replies.scores, replies.labels)
            self._partial.append(neighbours[~replies.flips])
        self._surrogate.learn_errors(levels, errors)
        self._queue_if_promising(neighbours, replies.flips, answers)

    def _query_all(self, rows: Floats) -> None:
        """Query profiles under all assignments, learn from the answers, and queue their neighbours."""
        replies = self._oracle.ask(rows)
        self._queue_if_promising(rows, replies.flips, self._surrogate.answers(replies.scores, replies.labels))

    def _queue_if_promising(self, rows: Floats, flips: Booleans, answers: Floats) -> None:
        self._queried += len(rows)
        codes = self._moves.codes(rows)
        self._surrogate.learn_answers(codes, answers)
        distance = np.abs(self._surrogate.margins(answers)).min(axis=1)
        order = np.lexsort((distance, ~flips))
        parents = order[: min(MAX_PARENTS, int(flips.sum()) + max(MIN_STEP, len(rows) // NEAR_SHARE))]
        self._queue_neighbours(rows[parents], codes[parents], answers[parents])

    def _queue_neighbours(self, rows: Floats, codes: Integers, answers: Floats) -> None:
        """Add the neighbours of profiles to the queue."""
        self._parents = np.concatenate([self._parents, rows])
        self._answers = np.concatenate([self._answers, answers])
        reachable, queue = self._moves.open(codes), self._queue
        max_size = 20_000 + 20 * max(MAX_FIRST_STEP, self._queried // GROWTH)
        if len(queue) and len(queue) + np.count_nonzero(reachable) > 4 * max_size:
            # A long queue is truncated below. For wide tables, few neighbours remain in it, so the most likely are
            # estimated first.
            distances, below = self._distances(codes, answers), max(0, len(queue) - max_size)
            for chance in np.partition(queue["chance"], below)[below] * FIRST_CHANCES:
                near = reachable & (distances <= _distance_of(chance))
                neighbours = self._estimate_neighbours(codes, answers, near, chance)
                if len(queue) + len(neighbours) > max_size:
                    self._queue = cut_queue(np.concatenate([queue, neighbours]), max_size)
                    return
        neighbours = self._estimate_neighbours(codes, answers, reachable)
        if len(queue) + len(neighbours) > 2 * max_size:
            self._queue = cut_queue(np.concatenate([queue, neighbours]), max_size)
        else:
            self._queue = merge_queues(queue, neighbours)

    def _distances(self, codes: Integers, answers: Floats) -> Floats:
        """Estimate the distance of each neighbour from a flip, in standard errors, shape (n, V).

        Without a flip, it is that of the nearest margin.
        """
        surrogate, sizes = self._surrogate, np.bincount(self._moves.attribute)
        base = answers[:, None] - surrogate.effects[codes]
        guesses = np.repeat(base, sizes, axis=1) + surrogate.effects
        margins = surrogate.margins(guesses.reshape(-1, answers.shape[1])).T
        nearest = np.maximum(reduce(np.minimum, margins), -reduce(np.maximum, margins))
        squares = surrogate.spread() ** 2
        spread = np.sqrt((np.repeat(squares[codes], sizes, axis=1) + squares) / 2)
        return np.asarray(nearest.reshape(spread.shape) / spread)

    def _estimate_neighbours(
        self, codes: Integers, answers: Floats, reachable: Booleans, min_chance: float = 0.0
    ) -> Neighbours:
        """Estimate the answers for neighbours of the last parents at some levels (n, V).

        Neighbours that were queried, or whose probability of a flip is below ``min_chance``, are omitted.
        """
        parent, level = np.nonzero(reachable)
        origin = codes[parent, self._moves.attribute[level]]
        margins = self._surrogate.margins(self._surrogate.guess_answers(answers[parent], origin, level)).T
        squares = self._surrogate.spread() ** 2
        spread = np.sqrt((squares[level] + squares[origin]) / 2)
        # Reductions over the short last axis are slow.
        chance = self._surrogate.chance(reduce(np.minimum, margins), reduce(np.maximum, margins), spread)
        likely = np.flatnonzero(chance >= min_chance)
        parent, level = parent[likely], level[likely]
        neighbours = np.empty(len(likely), NEIGHBOUR)
        neighbours["chance"], neighbours["level"] = chance[likely], level
        neighbours["parent"] = parent + len(self._parents) - len(codes)
        marks = self._level_marks[origin[likely]] ^ self._level_marks[level]
        neighbours["mark"] = marks ^ self._hash_profiles(codes)[parent]
        return neighbours[~self._is_queried(neighbours["mark"])]

    def _select_new(self, rows: Floats) -> Floats:
        """Return the profiles (n, U) that were not queried before, and mark them as queried."""
        marks = self._hash_profiles(self._moves.codes(rows))
        _, positions = np.unique(marks, return_index=True)
        positions = np.sort(positions)
        positions = positions[~self._is_queried(marks[positions])]
        self._remember(marks[positions])
        return rows[positions]

    def _hash_profiles(self, codes: Integers) -> Integers:
        """Hash profiles (n, U), shape (n,). A move changes the hash by two exclusive ors."""
        return np.asarray(np.bitwise_xor.reduce(self._level_marks[codes], axis=1))

    def _is_queried(self, marks: Integers) -> Booleans:
        queried = self._queried_marks
        return np.asarray(queried.take(np.searchsorted(queried, marks), mode="clip") == marks)

    def _remember(self, marks: Integers) -> None:
        self._queried_marks = np.sort(np.concatenate([self._queried_marks, marks]), kind="stable")


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
        levels, outputs = len(moves.attribute), assignments * self._width
        self._gram = np.eye(levels) * RIDGE if levels <= MAX_DENSE_LEVELS else None
        self._codes = np.empty((0, len(moves.start)), dtype=np.int64)
        self._pending: list[Integers] = []
        self._moment = np.zeros((levels, outputs))
        self.effects: Floats = np.zeros((levels, outputs))
        self._squares, self._counts = np.zeros(levels), np.zeros(levels)
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
        self, estimates: Floats, which: Integers, scores: Floats, labels: Integers
    ) -> tuple[Floats, Floats]:
        """Replace estimates (n, outputs) with answers under some assignments (n, k). Return the result and the errors.

        The estimates under other assignments are corrected by the mean error.
        """
        queried = self.answers(scores, labels).reshape(*which.shape, self._width)
        answers = estimates.reshape(len(estimates), self._assignments, self._width).copy()
        errors = queried - np.take_along_axis(answers, which[:, :, None], axis=1)
        answers += errors.mean(axis=1, keepdims=True)
        np.put_along_axis(answers, which[:, :, None], queried, axis=1)
        return answers.reshape(estimates.shape), errors.reshape(len(errors), -1)

    def learn_answers(self, codes: Integers, answers: Floats) -> None:
        """Add answers (n, outputs) for profiles (n, U) to the regression."""
        if self._gram is None:
            self._pending.append(codes)
            for column, moment in zip(answers.T, self._moment.T, strict=True):
                moment += np.bincount(codes.ravel(), np.repeat(column, codes.shape[1]), minlength=len(moment))
            return
        indicators = np.zeros((len(codes), len(self._gram)))
        indicators[np.arange(len(codes))[:, None], codes] = 1
        self._gram += indicators.T @ indicators
        self._moment += indicators.T @ answers

    def fit(self) -> None:
        """Fit the regression."""
        if self._gram is None:
            self.effects = self._descend()
        else:
            self.effects = np.asarray(np.linalg.solve(self._gram, self._moment), dtype=np.float64)

    def _descend(self) -> Floats:
        """Solve the regression by conjugate gradients, starting at the last effects."""
        from scipy.sparse import csr_array

        self._codes, self._pending = np.concatenate([self._codes, *self._pending]), []
        codes = self._codes
        ends = np.arange(0, codes.size + 1, codes.shape[1])
        indicators = csr_array((np.ones(codes.size), codes.ravel(), ends), shape=(len(codes), len(self._moment)))
        transposed = indicators.T.tocsr()
        effects = self.effects.copy()
        residual = self._moment - transposed @ (indicators @ effects) - RIDGE * effects
        direction, size = residual.copy(), (residual**2).sum(axis=0)
        tolerance = 1e-6 * (self._moment**2).sum(axis=0)
        for _ in range(GRADIENT_STEPS):
            if (size <= tolerance).all():
                break
            image = transposed @ (indicators @ direction) + RIDGE * direction
            step = size / np.maximum((direction * image).sum(axis=0), 1e-300)
            effects += step * direction
            residual -= step * image
            previous, size = size, (residual**2).sum(axis=0)
            direction = residual + size / np.maximum(previous, 1e-300) * direction
        return np.asarray(effects)

    def learn_errors(self, moved: tuple[Integers, Integers], errors: Floats) -> None:
        """Add errors of estimates (n, outputs) after moves from one level (n,) to another (n,)."""
        squares = (errors**2).mean(axis=1)
        for levels in moved:
            self._squares += np.bincount(levels, squares, minlength=len(self._squares))
            self._counts += np.bincount(levels, minlength=len(self._counts))

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


def _distance_of(chance: float) -> float:
    """Return a distance from the boundary, in standard errors, beyond which the probability of a flip is below this
    value.

    The probability of a flip is at most that of the tail beyond the nearest margin.
    """
    distances = np.linspace(-8, 8, 3201)
    reached = np.count_nonzero(_normal_cdf(-distances) >= chance)
    return float(distances[reached]) if reached < len(distances) else np.inf


def _normal_cdf(z: Floats) -> Floats:
    """Approximate the normal distribution function to three digits, which suffices for ranking."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.7978845608 * z * (1 + 0.044715 * z**2)))  # z**3 is much slower
