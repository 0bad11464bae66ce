"""The published recursion as it stands, for comparison: every layer of values and decisions is kept.

Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields, AAAI 2025, equations (3) and (4) and Theorem 1; for
equal opportunity with the counters of their appendix D.1, the last decision whose label is not known yet among them.
Twice: as a recursion over a dictionary in plain Python, which keeps values only, and compiled over arrays without gaps,
4 bytes a value and one byte a state and group for the policy (how many costs are overridden which way). That is less
than the published program takes, which keeps a decision for every input.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


def parity_by_dictionary(fair: Any, horizon: int, joint: NDArray[np.float64], costs: NDArray[np.float64]) -> float:
    """The optimal cost for demographic parity or disparate impact; one entry per counters."""
    inputs = [
        (float(joint[g, r, k]), g, r, float(costs[k]))
        for g in range(2) for r in range(2) for k in range(len(costs))
    ]  # fmt: skip
    values: dict[tuple[int, int, int, int], float] = {}
    for t in range(horizon, -1, -1):
        for n_a in range(t + 1):
            for a in range(n_a + 1):
                for b in range(t - n_a + 1):
                    at = (n_a, a, t - n_a, b)
                    if t == horizon:
                        values[at] = 0.0 if fair(*at) else math.inf
                        continue
                    value = 0.0
                    for chance, g, r, cost in inputs:
                        next_values = [
                            values[n_a + 1, a + y, t - n_a, b] if g == 0 else values[n_a, a, t - n_a + 1, b + y]
                            for y in range(2)
                        ]
                        value += chance * min(next_values[r], cost + next_values[1 - r])
                    values[at] = value
    return values[0, 0, 0, 0]


def opportunity_by_dictionary(
    fair: Any, horizon: int, joint: NDArray[np.float64], costs: NDArray[np.float64], labels: NDArray[np.float64]
) -> float:
    """The same for equal opportunity; also one entry per decision that waits for its label."""
    inputs = [
        (float(joint[g, r, k]), g, r, float(costs[k]))
        for g in range(2) for r in range(2) for k in range(len(costs))
    ]  # fmt: skip
    share = labels.tolist()
    values: dict[tuple[int, ...], float] = {}
    for t in range(horizon, -1, -1):
        for s_a in range(t + 1):
            for s_b in range(t - s_a + 1):
                for a in range(s_a + 1):
                    for b in range(s_b + 1):
                        if t == horizon:
                            values[t, s_a, a, s_b, b] = 0.0 if fair(s_a, a, s_b, b) else math.inf
                            continue
                        unchanged = values[t + 1, s_a, a, s_b, b]
                        for g in range(2):
                            for y in range(2):
                                counted = (
                                    values[t + 1, s_a + 1, a + y, s_b, b] if g == 0
                                    else values[t + 1, s_a, a, s_b + 1, b + y]
                                )  # fmt: skip
                                values[t, s_a, a, s_b, b, g, y] = share[g][0] * unchanged + share[g][1] * counted
                        value = 0.0
                        for chance, g, r, cost in inputs:
                            followed = values[t, s_a, a, s_b, b, g, r]
                            overridden = values[t, s_a, a, s_b, b, g, 1 - r]
                            value += chance * min(followed, cost + overridden)
                        values[t, s_a, a, s_b, b] = value
    return values[0, 0, 0, 0, 0]


@njit(cache=True)
def parity_by_arrays(ends, horizon, joint, costs):
    """``ends``: the last layer's values, in the order n_a, a, b. Values and policy of all layers, first to last."""
    starts = np.zeros(horizon + 2, np.int64)
    for t in range(horizon + 1):
        starts[t + 1] = starts[t] + (t + 1) * (t + 2) * (t + 3) // 6
    values = np.empty(starts[horizon + 1], np.float32)
    values[starts[horizon] :] = ends
    policy = np.empty((starts[horizon], 2), np.int8)
    for t in range(horizon - 1, -1, -1):
        here, there = starts[t], starts[t + 1]
        for n_a in range(t + 1):
            n_b = t - n_a
            wide = n_b + 2
            same = there
            there += (n_a + 1) * wide
            for a in range(n_a + 1):
                for b in range(n_b + 1):
                    total = 0.0
                    for g in range(2):
                        if g == 0:
                            rejected = float(values[there + a * (n_b + 1) + b])
                            accepted = float(values[there + (a + 1) * (n_b + 1) + b])
                        else:
                            rejected = float(values[same + a * wide + b])
                            accepted = float(values[same + a * wide + b + 1])
                        level = 0
                        for k in range(costs.size):
                            up, down = costs[k] + accepted, costs[k] + rejected
                            level += (up < rejected) - (down < accepted)
                            total += joint[g, 0, k] * min(rejected, up) + joint[g, 1, k] * min(accepted, down)
                        policy[here, g] = level
                    values[here] = total
                    here += 1
    return values, policy


@njit(cache=True)
def opportunity_by_arrays(ends, horizon, joint, costs, labels):
    """``ends``: the last layer's values, in the order s_a, s_b, a, b. Every layer: known, and four times pending."""
    starts = np.zeros(horizon + 2, np.int64)
    for t in range(horizon + 1):
        starts[t + 1] = starts[t] + (t + 1) * (t + 2) * (t + 3) * (t + 4) // 24
    values = np.empty(starts[horizon + 1], np.float32)
    pending = np.empty((starts[horizon], 4), np.float32)
    policy = np.empty((starts[horizon], 2), np.int8)
    values[starts[horizon] :] = ends
    for t in range(horizon - 1, -1, -1):
        place = np.zeros((t + 3, t + 3), np.int64)
        at = starts[t + 1]
        for s_a in range(t + 2):
            for s_b in range(t - s_a + 2):
                place[s_a, s_b] = at
                at += (s_a + 1) * (s_b + 1)
        here = starts[t]
        for s_a in range(t + 1):
            for s_b in range(t - s_a + 1):
                unchanged, more_a, more_b = place[s_a, s_b], place[s_a + 1, s_b], place[s_a, s_b + 1]
                for a in range(s_a + 1):
                    for b in range(s_b + 1):
                        stay = float(values[unchanged + a * (s_b + 1) + b])
                        for y in range(2):
                            counted = float(values[more_a + (a + y) * (s_b + 1) + b])
                            pending[here, y] = labels[0, 0] * stay + labels[0, 1] * counted
                            counted = float(values[more_b + a * (s_b + 2) + b + y])
                            pending[here, 2 + y] = labels[1, 0] * stay + labels[1, 1] * counted
                        total = 0.0
                        for g in range(2):
                            rejected, accepted = float(pending[here, 2 * g]), float(pending[here, 2 * g + 1])
                            level = 0
                            for k in range(costs.size):
                                up, down = costs[k] + accepted, costs[k] + rejected
                                level += (up < rejected) - (down < accepted)
                                total += joint[g, 0, k] * min(rejected, up) + joint[g, 1, k] * min(accepted, down)
                            policy[here, g] = level
                        values[here] = total
                        here += 1
    return values, pending, policy


def parity_ends(fair: Any, horizon: int) -> NDArray[np.float32]:
    """What the last layer's states are worth: nothing, or forbidden."""
    return worth(fair, [(n_a, horizon - n_a) for n_a in range(horizon + 1)])


def opportunity_ends(fair: Any, horizon: int) -> NDArray[np.float32]:
    """The same where only some individuals counted."""
    return worth(fair, [(s_a, s_b) for s_a in range(horizon + 1) for s_b in range(horizon - s_a + 1)])


def worth(fair: Any, sizes: list[tuple[int, int]]) -> NDArray[np.float32]:
    found = []
    for n, m in sizes:
        a, b = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
        found.append(np.where(fair(n, a, m, b), np.float32(0), np.float32(np.inf)).reshape(-1))
    return np.concatenate(found)


def difference(part: int, whole: int, n: Any, a: Any, m: Any, b: Any) -> Any:
    """Whether two rates differ by at most part / whole; an empty group has rate 0."""
    n, m = np.maximum(n, 1), np.maximum(m, 1)
    return np.abs(a * m - b * n) * whole <= part * n * m


def ratio(part: int, whole: int, n: Any, a: Any, m: Any, b: Any) -> Any:
    """Whether the smaller rate is at least 1 - part / whole of the larger."""
    n, m = np.maximum(n, 1), np.maximum(m, 1)
    return np.minimum(a * m, b * n) * whole >= (whole - part) * np.maximum(a * m, b * n)


def test_of(kind: str, part: int, whole: int) -> Any:
    """The fairness test of a property, with an empty group's rate 0."""
    return partial(ratio if kind == "disparate_impact" else difference, part, whole)
