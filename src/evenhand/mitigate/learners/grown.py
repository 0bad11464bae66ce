"""What XGBoost's trees tell about how they were grown: its files do not keep the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

TREES = 200
"""Trees looked at: each tells the same."""

AGREE = 0.1
"""The middle half of what the nodes say may spread by this share; if it is more, something else was set."""


def growth(model: Mapping[str, Any]) -> dict[str, float]:
    """Depth, learning rate and L2 regularisation of a model, each where it can be told.

    A node that was split keeps its weight ``w = -G / (H + lambda)`` (Chen and Guestrin, KDD 2016, equation 5) and the
    sum of second derivatives H; a leaf keeps ``eta * w``. The sums of first derivatives G of two children add up to
    that of their parent, so that nodes with two split children give lambda, and then those with two leaves give eta.

    Args:
        model: as XGBoost writes it to JSON.

    Returns:
        ``max_depth``, and ``lambda`` and ``eta`` where the nodes agree.
    """
    booster = model["learner"]["gradient_booster"]
    found = booster.get("gbtree", booster)["model"]
    trees = [_Tree(tree) for tree in found["trees"][:TREES]]
    told: dict[str, float] = {}
    depth = max((tree.depth for tree in trees), default=0)
    if depth:
        told["max_depth"] = depth
    regular = _agreed(np.concatenate([tree.regularisations() for tree in trees] or [np.empty(0)]), 1.0)
    if regular is not None:
        told["lambda"] = max(regular, 0.0)
    rate = _agreed(np.concatenate([tree.rates(told.get("lambda", 1.0)) for tree in trees] or [np.empty(0)]), 0.0)
    if rate is not None and 0 < rate <= 1.5:
        told["eta"] = rate * int(found["gbtree_model_param"]["num_parallel_tree"])
    return told


class _Tree:
    """One tree's nodes: children, weights, sums of second derivatives."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.left = np.array(described["left_children"], dtype=np.int64)
        self.right = np.array(described["right_children"], dtype=np.int64)
        self.weight = np.array(described["base_weights"], dtype=np.float64)
        self.second = np.array(described["sum_hessian"], dtype=np.float64)
        self.split = np.flatnonzero(self.left >= 0)
        if len(self.weight) != len(self.left):  # several outputs in each leaf
            self.split = self.split[:0]

    @property
    def depth(self) -> int:
        """Splits on the longest way from the root to a leaf."""
        depth, level = 0, np.zeros(1, dtype=np.int64)
        while (level := level[self.left[level] >= 0]).size:
            level = np.concatenate([self.left[level], self.right[level]])
            depth += 1
        return depth

    def regularisations(self) -> Floats:
        """Lambda by each node whose two children were split."""
        node = self.split[(self.left[self.left[self.split]] >= 0) & (self.left[self.right[self.split]] >= 0)]
        a, b = self.left[node], self.right[node]
        products = self.weight * self.second
        missing = self.weight[node] - self.weight[a] - self.weight[b]
        clear = np.abs(missing) > 0.1 * (np.abs(self.weight[a]) + np.abs(self.weight[b]))
        return np.asarray((products[a] + products[b] - products[node])[clear] / missing[clear])

    def rates(self, regular: float) -> Floats:
        """The learning rate by each node whose two children are leaves."""
        node = self.split[(self.left[self.left[self.split]] < 0) & (self.left[self.right[self.split]] < 0)]
        first = self.weight * (self.second + regular)
        a, b = first[self.left[node]], first[self.right[node]]
        clear = (np.abs(a + b) > 0.1 * (np.abs(a) + np.abs(b))) & (first[node] != 0)
        return np.asarray((a + b)[clear] / first[node][clear])


def _agreed(values: Floats, least: float) -> float | None:
    """The median of what the nodes say, if they say the same (up to a share of it, or of ``least`` if that is more)."""
    if len(values) == 0:
        return None
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle) if high - low <= AGREE * max(abs(middle), least) else None
