"""Local search for rules with weights. The best threshold for given weights is found by adding up cells in order."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats
from evenhand.mitigation.refutation.features import FeatureCells

SAME_SCORE = 1e-7
"""Scores closer than this count as equal."""

MAX_INTEGER = 60
"""Maximum absolute integer weight. Weights are written as integers up to this value if the decisions are the same."""


class WeightedRule(NamedTuple):
    """Rule that accepts if ``weights @ features >= threshold``."""

    weights: tuple[float, ...]
    threshold: float
    accepted: Booleans


class WeightSearch:
    """Current best rule, and a local search for better ones.

    Attributes:
        gap: Gap of the best rule. Infinite if none reaches the floor.
        best: Best rule.
    """

    def __init__(self, table: FeatureCells, seed: int) -> None:
        self.table = table
        self.rng = np.random.default_rng(seed)
        self.gap = math.inf
        self.best: WeightedRule | None = None
        self._features = table.features.astype(np.float64)
        self._need = table.need - table.base

    def rate(self, weights: Floats) -> tuple[float, Booleans | None]:
        """Find the smallest gap over all thresholds that reach the floor, and the accepted cells.

        If no threshold reaches it, return 1 plus the share of missing correct decisions, and None.
        """
        scores = self._features @ weights
        order = np.argsort(-scores, kind="stable")
        ends = np.append(scores[order[:-1]] - scores[order[1:]] > SAME_SCORE, True)
        correct = np.append(0, np.cumsum(self.table.gains[order])[ends])
        rates = np.cumsum(self.table.differences[:, order], axis=1)[:, ends]
        gaps = np.append(0.0, rates.max(axis=0))
        feasible = correct >= self._need
        if not feasible.any():
            return 1 + (self._need - int(correct.max())) / self.table.people, None
        at = int(np.argmin(np.where(feasible, gaps, np.inf)))
        accepted = np.zeros(len(order), dtype=np.bool_)
        accepted[order[: 0 if at == 0 else int(np.flatnonzero(ends)[at - 1]) + 1]] = True
        return float(gaps[at]), accepted

    def offer(self, weights: Floats) -> None:
        """Keep the best rule with some weights, if it beats the current best."""
        gap, accepted = self.rate(weights)
        if accepted is not None and gap < self.gap - 1e-12:
            self.gap, self.best = gap, write_rule(self.table, weights, accepted)

    def learn(self, decisions: Floats) -> None:
        """Fit weights to decisions (cells,) of a linear program, and search near them and near the best rule."""
        self._climb(self._fit(decisions))
        if self.best is not None:
            self._climb(np.array(self.best.weights))

    def _fit(self, decisions: Floats) -> Floats:
        """Fit weights that separate mostly accepted cells from the others, with few people on the wrong side."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, eye_array, hstack

        features = self.table.features
        cells, width = features.shape
        side = np.where(decisions > 0.5, 1.0, -1.0)
        mass = self.table.counts.sum(axis=(1, 2)) / self.table.people * np.abs(2 * decisions - 1) + 1e-6
        rows = csr_array(-side[:, None] * np.column_stack([features, -np.ones(cells)]))
        solution = linprog(
            np.append(np.zeros(width + 1), mass),
            A_ub=hstack([rows, -eye_array(cells)]).tocsr(),
            b_ub=-np.ones(cells),
            bounds=[*[(-20, 20)] * width, (-20 * width, 20 * width), *[(0, None)] * cells],
            method="highs",
        )
        return np.asarray(self.rng.normal(size=width) if solution.x is None else solution.x[:width])

    def _climb(self, weights: Floats, rounds: int = 30) -> None:
        """Change one weight at a time while this improves the rule, and offer the rule."""
        best, _ = self.rate(weights)
        for _ in range(rounds):
            previous = best
            for at in self.rng.permutation(len(weights)):
                spread = max(float(np.abs(weights).max()), 1.0) / 4
                for step in self.rng.normal(0, spread, 4):
                    moved = weights.copy()
                    moved[at] += step
                    gap, _ = self.rate(moved)
                    if gap < best:
                        best, weights = gap, moved
            if best == previous:
                break
        self.offer(weights)


def write_rule(table: FeatureCells, weights: Floats, accepted: Booleans) -> WeightedRule:
    """Convert weights to the smallest integer weights with the same decisions, if possible."""
    largest = float(np.abs(weights).max())
    sizes = () if largest == 0 else range(1, MAX_INTEGER + 1)
    for candidate in (*(np.rint(weights * size / largest) for size in sizes), weights):
        scores = table.features @ candidate
        if not accepted.any():
            return WeightedRule(tuple(map(float, candidate + 0.0)), float(np.ceil(scores.max()) + 1), accepted)
        low, high = float(scores[accepted].min()), float(scores[~accepted].max(initial=-math.inf))
        if low > high + SAME_SCORE:
            exact = bool((candidate == np.rint(candidate)).all())
            threshold = low if exact or high == -math.inf else (low + high) / 2
            return WeightedRule(tuple(map(float, candidate + 0.0)), threshold, accepted)
    raise AssertionError("the original weights separate the cells")
