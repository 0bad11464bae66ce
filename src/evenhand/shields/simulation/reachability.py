"""Reachable states of a shield over two groups, with their probabilities and overrides.

Reachability does not depend on the expected inputs: any group may arrive, with any recommendation, cost and label.
Fairness is therefore verified for all runs, independently of the synthesis. The probabilities assume the inputs of the
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.shields.policy.policy import ShieldPolicy, apply_level
from evenhand.shields.policy.tables import PackedTable, ThresholdTable, plane_offset, row_start, state_start
from evenhand.shields.spec.ends import FairEnd, WelfareBounds, welfare_bounds_of
from evenhand.shields.spec.plan import ShieldPlan

Levels: TypeAlias = NDArray[np.uint8]

GAP_BINS = 33
"""Number of bins of the difference between the groups. It is odd, so that a difference of 0 is in the middle of a
bin.
"""
MAX_WALKED_STATES = 2_000_000_000
"""Maximum number of visited states. Visiting them takes about ten seconds."""


class CheckFinding(ResultPart):
    """Counts of states at the time of a check.

    Attributes:
        time: Decisions made.
        reached: Number of states that some run reaches. unfair: Number of unfair states among them.
        chance: Probability of an unfair state, for the expected arrivals.
        unjudged: Reached states in which too few people of a group were counted for a requirement.
        unjudged_chance: Probability of these states.
    """

    time: int
    reached: int
    unfair: int
    chance: float
    unjudged: int
    unjudged_chance: float


@dataclass(frozen=True)
class StatesPass:
    """Reachable states of a shield over one horizon.

    Attributes:
        checks: States at the checks. For separate groups, the sums over the groups.
        reached: States before the horizon that some run reaches.
        overrides: Expected overrides by group, accepted and rejected against the recommendation, (groups, 2).
        expected_cost: Expected cost of the overrides.
    """

    checks: tuple[CheckFinding, ...]
    reached: int
    overrides: Floats
    expected_cost: float

    @property
    def fair(self) -> bool:
        """Whether every run is fair at every check."""
        return not any(check.unfair for check in self.checks)


@dataclass(frozen=True)
class ReachabilityPass(StatesPass):
    """Reachable states of a shield over two groups.

    Attributes:
        overrides_by_gap: Probabilities that a person of the group arrives, is accepted against the recommendation, and
            is rejected against it, by time, difference between the groups, and group. Shape (horizon, bins, groups, 3).
        limit: Absolute difference beyond which people are counted in the outermost bins.
        overriding: Reached states in which decisions on the first group, on the second, or on any group are overridden.
        planes: Mask of the reached states, by accepted people of both groups, at the requested times and numbers of
            people seen.
    """

    overrides_by_gap: Floats
    limit: float
    overriding: tuple[int, int, int]
    planes: Mapping[int, Booleans]


def can_walk(policy: ShieldPolicy) -> bool:
    """Return whether the states of a policy are stored and can be visited."""
    plan = policy.plan
    stored = isinstance(policy.actions, ThresholdTable | PackedTable)
    return stored and state_start(plan.horizon, plan.property.labelled) <= MAX_WALKED_STATES


def walk_reachable_states(
    policy: ShieldPolicy,
    *,
    planes: Mapping[int, tuple[int, int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReachabilityPass:
    """Visit all reachable states of a policy over two groups, for which ``can_walk`` is true.

    Args:
        planes: Time -> number of people seen in each group, for which to return the reached states.
        progress: Callback that receives the number of finished layers and their total.
    """
    from evenhand.shields.simulation.reachability_kernel import WalkInputs, advance_layer

    plan, fairness = policy.plan, policy.plan.property
    labelled, check = fairness.labelled, first_period_end(plan)
    come = np.array(plan.inputs.rate)
    label = np.array(plan.inputs.label) if labelled and plan.inputs.label is not None else np.ones(2)
    start = np.array(check.start if isinstance(check, FairEnd) else (0, 0, 0, 0))
    limit = min(1.0, max(4 * float(fairness.kappa), 0.1))
    overrides = np.zeros((plan.horizon, GAP_BINS, 2, 3))
    ratio = fairness.kind == "disparate_impact"
    inputs = WalkInputs(come, label, *level_effects(plan), start, ratio, limit)
    counts = np.zeros(4, dtype=np.int64)
    checks = []
    layer, paid = np.ones(1), 0.0
    kept_planes = {}
    for t in range(plan.horizon):
        if planes is not None and t in planes:
            n_a, n_b = planes[t]
            offset = plane_offset(t, labelled, n_a, n_b)
            part = slice(offset, offset + (n_a + 1) * (n_b + 1))
            kept_planes[t] = (layer[part] >= 0).reshape(n_a + 1, n_b + 1)
        levels = layer_levels(policy, t)
        # -1 marks states that no run reaches; 0 marks states that are reached with probability 0.
        following = np.full(_layer_size(t + 1, labelled), -1.0)
        paid += advance_layer(t, labelled, layer, following, levels, inputs, overrides[t], counts)
        layer = following
        if t + 1 in plan.times:
            checks.append(_check_layer(check, layer, t + 1, labelled))
        if progress is not None:
            progress(t + 1, plan.horizon)
    reached, offset, second, either = (int(count) for count in counts)
    by_group = overrides.sum(axis=(0, 1))[:, 1:]
    return ReachabilityPass(
        tuple(checks), reached, by_group, paid, overrides, limit, (offset, second, either), kept_planes
    )


def first_period_end(plan: ShieldPlan) -> FairEnd | WelfareBounds:
    """Return the fair ends of the first period of a plan."""
    if plan.kind == "static-bw":
        return welfare_bounds_of(plan)
    return FairEnd(plan.property, (0, 0, 0, 0) if plan.kind == "static-fair" else plan.start)


def level_effects(plan: ShieldPlan) -> tuple[Floats, Floats, Floats]:
    """Compute the effects of the levels on the expected people of each group.

    Returns:
        Probability of an acceptance, (groups, levels); of an acceptance and of a rejection against the recommendation,
        (groups, levels, 2); expected cost, (groups, levels).
    """
    costs, groups = plan.inputs.costs, len(plan.inputs.groups)
    width = 2 * len(costs) + 1
    accept, forced, paid = np.zeros((groups, width)), np.zeros((groups, width, 2)), np.zeros((groups, width))
    # accept(g, level) = sum over recommendation r and cost c of P(r | g) * P(c | g, r) * decision(level, r, c);
    # overrides and costs are the same sums over the decisions that differ from r.
    for group in range(groups):
        recommended = plan.inputs.accept[group]
        for recommendation, share in ((0, 1 - recommended), (1, recommended)):
            for cost, weight in zip(costs, plan.inputs.weights[group][recommendation], strict=True):
                for i in range(width):
                    decision = apply_level(i - len(costs), recommendation, cost, costs)
                    accept[group, i] += share * weight * decision
                    if decision != recommendation:
                        forced[group, i, recommendation] += share * weight
                        paid[group, i] += share * weight * cost
    return accept, forced, paid


def layer_levels(policy: ShieldPolicy, t: int) -> Levels:
    """Compute the level plus the number of costs in every state of a layer, shape (2, states), by (n_a, n_b, a, b).

    Args:
        policy: The policy.
        t: Time of the layer.
    """
    from evenhand.shields.simulation.reachability_kernel import unpack_levels

    actions, labelled = policy.actions, policy.plan.property.labelled
    levels = np.empty((2, _layer_size(t, labelled)), dtype=np.uint8)
    if isinstance(actions, ThresholdTable):
        width = 2 * actions.costs
        cut = slice(row_start(t, labelled) * width, row_start(t + 1, labelled) * width)
        rows = [positions[cut].reshape(-1, width) for positions in actions.positions]
        unpack_levels(rows[0], rows[1], t, labelled, actions.costs, levels)
        return levels
    n_a, a, n_b, b = layer_states(t, labelled)
    for group in (0, 1):
        which = np.full(len(n_a), group)
        levels[group] = actions.levels(t, np.stack([n_a, n_b]), np.stack([a, b]), which) + policy.levels
    return levels


def layer_states(t: int, labelled: bool) -> tuple[Integers, ...]:
    """List the counters (n_a, a, n_b, b) of every state of a layer, each of shape (states,), by (n_a, n_b, a, b)."""
    planes = [(n, m) for n in range(t + 1) for m in (range(t - n + 1) if labelled else (t - n,))]
    sizes = [(n + 1) * (m + 1) for n, m in planes]
    n_a, n_b = (np.repeat(np.array([plane[i] for plane in planes], dtype=np.int64), sizes) for i in (0, 1))
    firsts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    # The position of a state in its plane is a * (n_b + 1) + b.
    a, b = np.divmod(np.arange(len(n_a)) - firsts, n_b + 1)
    return n_a, a, n_b, b


def _layer_size(t: int, labelled: bool) -> int:
    return state_start(t + 1, labelled) - state_start(t, labelled)


def _check_layer(check: FairEnd | WelfareBounds, layer: Floats, t: int, labelled: bool) -> CheckFinding:
    from evenhand.shields.simulation.reachability_kernel import count_unfair

    reached, wrong, chance, unjudged, unjudged_chance = 0, 0, 0.0, 0, 0.0
    for n_a in range(t + 1):
        accepted = np.arange(n_a + 1)
        for n_b in range(t - n_a + 1) if labelled else (t - n_a,):
            offset = plane_offset(t, labelled, n_a, n_b)
            low, high = check.band(n_a, accepted, n_b)
            more = count_unfair(layer, offset, n_a, n_b, low, high)
            reached, wrong, chance = reached + more[0], wrong + more[1], chance + more[2]
            if not check.is_judged(n_a, n_b):
                unjudged += more[0]
                unjudged_chance += float(np.maximum(layer[offset : offset + (n_a + 1) * (n_b + 1)], 0).sum())
    return CheckFinding(
        time=t, reached=reached, unfair=wrong, chance=chance, unjudged=unjudged, unjudged_chance=unjudged_chance
    )
