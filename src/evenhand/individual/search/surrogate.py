"""What a model would answer, guessed from what it answered: to tell before asking whose decision may flip."""

from __future__ import annotations

import numpy as np

from evenhand.individual.search.moves import Codes, Moves
from evenhand.typing import Floats, Integers

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
