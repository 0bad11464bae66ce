"""The published recursion as it stands, for comparison: every layer of values and decisions is kept.

Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields, AAAI 2025, equations (3) and (4) and Theorem 1; for
equal opportunity with the counters of their appendix D.1, the last decision whose label is not known yet among them.
Compiled over arrays without gaps, 4 bytes a value and one byte a state and group for the policy (how many costs are
overridden which way). That is less than the published program takes, which keeps a decision for every input.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Booleans, Integers
from evenhand.shields import Inputs


class RecursionResult(NamedTuple):
    """What the recursion came to.

    Attributes:
        cost: expected, of the optimal shield.
        bytes: of its arrays.
    """

    cost: float
    bytes: int


def solve(kept: str, kappa: Fraction, horizon: int, expected: Inputs) -> RecursionResult:
    """Solve the published recursion for demographic parity, disparate impact or equal opportunity.

    Args:
        kept: the property; an empty group has rate 0.
        kappa: the threshold.
        horizon: decisions.
        expected: who comes.
    """
    joint, costs = expected.joint(), np.array(expected.costs)
    if kept == "equal_opportunity":
        ends = _end_values(kept, kappa, [(a, b) for a in range(horizon + 1) for b in range(horizon - a + 1)])
        arrays = _opportunity_recursion(ends, horizon, joint, costs, expected.labels())
    else:
        ends = _end_values(kept, kappa, [(n_a, horizon - n_a) for n_a in range(horizon + 1)])
        arrays = _parity_recursion(ends, horizon, joint, costs)
    return RecursionResult(float(arrays[0][0]), sum(array.nbytes for array in arrays))


def _end_values(kept: str, kappa: Fraction, sizes: list[tuple[int, int]]) -> NDArray[np.float32]:
    """Return what the last layer's states are worth: nothing, or forbidden."""
    found = []
    for n, m in sizes:
        a, b = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
        fair = _is_fair(kept, kappa, (max(n, 1), a, max(m, 1), b))
        found.append(np.where(fair, np.float32(0), np.float32(np.inf)).reshape(-1))
    return np.concatenate(found)


def _is_fair(kept: str, kappa: Fraction, counts: tuple[int, Integers, int, Integers]) -> Booleans:
    """Return whether two rates differ by at most kappa, or the smaller is at least 1 - kappa of the larger."""
    n, a, m, b = counts
    part, whole = kappa.numerator, kappa.denominator
    if kept == "disparate_impact":
        return np.asarray(np.minimum(a * m, b * n) * whole >= (whole - part) * np.maximum(a * m, b * n))
    return np.asarray(np.abs(a * m - b * n) * whole <= part * n * m)


@compile_kernel()
def _parity_recursion(
    ends: NDArray[np.float32], horizon: int, joint: NDArray[np.float64], costs: NDArray[np.float64]
) -> tuple[NDArray[Any], ...]:
    """Return values and policy of all layers, first to last.

    Args:
        ends: the last layer's values, in the order n_a, a, b.
    """
    starts = np.zeros(horizon + 2, np.int64)
    for t in range(horizon + 1):
        starts[t + 1] = starts[t] + (t + 1) * (t + 2) * (t + 3) // 6
    values = np.empty(starts[horizon + 1], np.float32)
    values[starts[horizon] :] = ends
    policy = np.empty((starts[horizon], 2), np.int8)
    # V_t(n_a, n_b, a, b) = sum over group g, recommendation r and cost c of P(g, r, c) * min(V after following r, c + V
    # after turning it), V being that of time t + 1. Layer t has C(t + 3, 3) states. Values are kept in float32 and
    # summed in float64. The policy is how many costs are low enough to turn a rejection, less those low enough to turn
    # an acceptance.
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


@compile_kernel()
def _opportunity_recursion(
    ends: NDArray[np.float32],
    horizon: int,
    joint: NDArray[np.float64],
    costs: NDArray[np.float64],
    labels: NDArray[np.float64],
) -> tuple[NDArray[Any], ...]:
    """Return values of all layers, those that wait for a label (four a state), and the policy.

    Args:
        ends: the last layer's values, in the order s_a, s_b, a, b.
    """
    starts = np.zeros(horizon + 2, np.int64)
    for t in range(horizon + 1):
        starts[t + 1] = starts[t] + (t + 1) * (t + 2) * (t + 3) * (t + 4) // 24
    values = np.empty(starts[horizon + 1], np.float32)
    pending = np.empty((starts[horizon], 4), np.float32)
    policy = np.empty((starts[horizon], 2), np.int8)
    values[starts[horizon] :] = ends
    # As above, but the label comes after decision y and counts only if it is 1: pending_g(y) = P(0 | g) * V(unchanged)
    # + P(1 | g) * V(one more of g seen, y more accepted). Layer t has C(t + 4, 4) states; ``place`` says where those of
    # (s_a, s_b) begin in the layer after.
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
