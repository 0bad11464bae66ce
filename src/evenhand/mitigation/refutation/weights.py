"""Rules with weights that are tried: of given weights the best threshold is found by adding up cells in their order."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.refutation.config import POINTS
from evenhand.mitigation.refutation.features import FeatureCells

SAME_SCORE = 1e-7
"""Scores nearer than this are taken as equal."""

RESTARTS = 16
"""Scorecards to start from, whenever weights are learnt from a linear program."""

PRICES = (3.0, 10.0, 30.0)
"""Of the share of people by which a scorecard misses the floor, beside its gap, while it is improved."""

LARGEST = 60
"""Weights are written as whole numbers up to this where that decides alike."""


class WeightedRule(NamedTuple):
    """A rule: accept who has ``weights @ features >= threshold``."""

    weights: tuple[float, ...]
    threshold: float
    accepted: Booleans


class WeightSearch:
    """The best rule found so far, and a local search for better ones.

    Attributes:
        gap: of the best rule; infinite where none reaches the floor. best: that rule.
    """

    def __init__(self, table: FeatureCells, whole: bool, seed: int) -> None:
        self.table, self.whole = table, whole
        self.rng = np.random.default_rng(seed)
        self.gap = math.inf
        self.best: WeightedRule | None = None
        self._features = table.features.astype(np.float64)
        self._gains, self._differences = table.gains, table.differences
        self._need = table.need - table.base

    def rate(self, weights: Floats) -> tuple[float, Booleans | None]:
        """Return the least gap over all thresholds that reach the floor, and whom that accepts.

        Where none reaches it: 1 and the share of people lacking.
        """
        scores = self._features @ weights
        order = np.argsort(-scores, kind="stable")
        last = np.append(scores[order[:-1]] - scores[order[1:]] > SAME_SCORE, True)
        right = np.append(0, np.cumsum(self._gains[order])[last])
        rates = np.cumsum(self._differences[:, order], axis=1)[:, last]
        gaps = np.append(0.0, rates.max(axis=0))
        reached = right >= self._need
        if not reached.any():
            return 1 + (self._need - int(right.max())) / self.table.people, None
        at = int(np.argmin(np.where(reached, gaps, np.inf)))
        accepted = np.zeros(len(order), dtype=np.bool_)
        accepted[order[: 0 if at == 0 else int(np.flatnonzero(last)[at - 1]) + 1]] = True
        return float(gaps[at]), accepted

    def offer(self, weights: Floats) -> None:
        """Keep the best rule with certain weights if it is better than the best so far."""
        if self.whole:
            weights = np.clip(np.rint(weights), -POINTS, POINTS)
        gap, accepted = self.rate(weights)
        if accepted is not None and gap < self.gap - 1e-12:
            self.gap, self.best = gap, write_rule(self.table, weights, accepted, whole=self.whole)

    def learn(self, decisions: Floats) -> None:
        """Fit weights to decisions (cells,) of a linear program, and look for better rules around them and the best."""
        fitted = self._fit(decisions)
        if self.whole:
            largest = max(float(np.abs(fitted).max()), 1e-9)
            self._climb_points(np.rint(fitted * (POINTS / largest)).astype(np.int64))
            return
        self._climb(fitted)
        if self.best is not None:
            self._climb(np.array(self.best.weights))

    def _fit(self, decisions: Floats) -> Floats:
        """Return weights that part what is mostly accepted from the rest, with few people on the wrong side."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, eye_array, hstack

        features = self.table.features
        cells, width = features.shape
        side = np.where(decisions > 0.5, 1.0, -1.0)
        mass = self.table.counts.sum(axis=(1, 2)) / self.table.people * np.abs(2 * decisions - 1) + 1e-6
        rows = hstack(
            [csr_array(-side[:, None] * np.column_stack([features, -np.ones(cells)])), -eye_array(cells)]
        ).tocsr()
        solved = linprog(
            np.append(np.zeros(width + 1), mass),
            A_ub=rows,
            b_ub=-np.ones(cells),
            bounds=[*[(-20, 20)] * width, (-20 * width, 20 * width), *[(0, None)] * cells],
            method="highs",
        )
        if solved.x is None:
            return np.asarray(self.rng.normal(size=width))
        return np.asarray(solved.x[:width])

    def _climb(self, weights: Floats, rounds: int = 30) -> None:
        """Change one weight at a time as long as that helps, and offer the rule."""
        best, _ = self.rate(weights)
        for _ in range(rounds):
            before = best
            for at in self.rng.permutation(len(weights)):
                spread = max(float(np.abs(weights).max()), 1.0) / 4
                for step in self.rng.normal(0, spread, 4):
                    moved = weights.copy()
                    moved[at] += step
                    gap, _ = self.rate(moved)
                    if gap < best:
                        best, weights = gap, moved
            if best == before:
                break
        self.offer(weights)

    def _climb_points(self, start: Integers) -> None:
        """Take the best of all scorecards that differ in one feature's points as long as that helps; then start again.

        Where nothing helps, a few points of the best rule are drawn again.
        """
        width = len(start)
        neighbours = np.repeat(np.arange(width), 2 * POINTS + 1)
        values = np.tile(np.arange(-POINTS, POINTS + 1), width)
        points = start
        for _ in range(RESTARTS):
            price = float(self.rng.choice(PRICES))
            best = float(self._rate_points(points[None], price)[0])
            while True:
                moved = np.repeat(points[None], len(values), axis=0)
                moved[np.arange(len(values)), neighbours] = values
                rated = self._rate_points(moved, price)
                if rated.min() >= best - 1e-12:
                    break
                best, points = float(rated.min()), moved[int(rated.argmin())]
            self.offer(points.astype(np.float64))
            if self.best is not None:
                points = np.array(self.best.weights, dtype=np.int64)
            points = points.copy()
            drawn = self.rng.choice(width, min(width, int(self.rng.integers(2, 5))), replace=False)
            points[drawn] = self.rng.integers(-POINTS, POINTS + 1, len(drawn))

    def _rate_points(self, points: Integers, price: float) -> Floats:
        """Return of scorecards (m, features) the least gap over thresholds, with a price on each share that lacks."""
        many, width = points.shape
        levels = 2 * POINTS * width + 1
        place = (self.table.features @ points.T + POINTS * width + levels * np.arange(many)).ravel()

        def above(amounts: Floats | Integers) -> Floats:
            # Of every cell, then of all cells with at least so many points, from the most on.
            spread = np.bincount(place, np.repeat(amounts, many), minlength=many * levels).reshape(many, levels)
            return np.asarray(np.cumsum(spread[:, ::-1], axis=1))

        lacking = np.maximum(self._need - above(self._gains), 0) / self.table.people
        gaps = np.zeros_like(lacking)
        for one in self._differences:
            np.maximum(gaps, above(one), out=gaps)
        none_selected = price * max(self._need, 0) / self.table.people
        return np.asarray(np.minimum((gaps + price * lacking).min(axis=1), none_selected))


def write_rule(table: FeatureCells, weights: Floats, accepted: Booleans, *, whole: bool) -> WeightedRule:
    """Return a rule that decides so, in the smallest whole weights that do."""
    largest = float(np.abs(weights).max())
    tried = [] if whole or largest == 0 else [np.rint(weights * size / largest) for size in range(1, LARGEST + 1)]
    for one in [*tried, weights]:
        scores = table.features @ one
        if not accepted.any():
            return WeightedRule(tuple(map(float, one + 0.0)), float(np.ceil(scores.max()) + 1), accepted)
        low, high = float(scores[accepted].min()), float(scores[~accepted].max(initial=-math.inf))
        if low > high + SAME_SCORE:
            exact = bool((one == np.rint(one)).all())
            threshold = low if exact or high == -math.inf else (low + high) / 2
            return WeightedRule(tuple(map(float, one + 0.0)), threshold, accepted)
    raise AssertionError("a rule has weights that decide so")
