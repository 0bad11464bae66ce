"""Every run that a shield allows, walked at once: which states it reaches, how likely, and when it overrides.

What can be reached does not depend on who is expected: any group may come, with any recommendation, cost and label.
That every end is fair is therefore checked for all runs, independently of how the shield was synthesised. How likely
the states are rests on the inputs of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.shields.policy.policy import ShieldPolicy, apply_level
from evenhand.shields.policy.tables import PackedTable, ThresholdTable, row_start, state_start
from evenhand.shields.policy.tables import look_up_levels as levels_in
from evenhand.shields.spec.ends import FairEnd, WelfareEnd, welfare_bounds_of
from evenhand.shields.spec.plan import ShieldPlan

Levels: TypeAlias = NDArray[np.uint8]

GAP_BINS = 33
"""Of the difference between the groups: an odd number, so that no difference lies in the middle of one."""
MAX_WALKED_STATES = 2_000_000_000
"""States that are walked, at most: these take some ten seconds."""


@dataclass(frozen=True)
class ReachabilityCheck:
    """What was found at a time when the bias is checked.

    Attributes:
        time: decisions made.
        reached: states that some run gets to.
        unfair: those of them that are unfair.
        chance: that a run is in one of these, if who comes is as expected.
        unjudged: states where too few of a group were counted for anything to be required.
        unjudged_chance: that a run is in one of those.
    """

    time: int
    reached: int
    unfair: int
    chance: float
    unjudged: int
    unjudged_chance: float


@dataclass(frozen=True)
class ReachabilityPass:
    """All runs of a shield over one horizon.

    Attributes:
        overrides: shape (horizon, bins, groups, 3): by time, by the difference between the groups so far and by group,
            the probability that somebody of the group comes, and that they are accepted or rejected against the
            recommendation.
        limit: differences go from minus this to this; those beyond are in the outermost bins.
        checks: what was found at the times that are checked.
        reached: states that some run gets to, before the horizon.
        overriding: those of them where decisions on the first group, on the second, on any are overridden.
        expected_cost: of the overrides, if who comes is as expected.
        planes: by time, which states (accepted of either group) some run gets to, for the numbers seen that were asked.
    """

    overrides: Floats
    limit: float
    checks: tuple[ReachabilityCheck, ...]
    reached: int
    overriding: tuple[int, int, int]
    expected_cost: float
    planes: Mapping[int, Booleans]

    @property
    def fair(self) -> bool:
        """Whether every run is fair whenever it is checked."""
        return not any(check.unfair for check in self.checks)


def can_walk(policy: ShieldPolicy) -> bool:
    """Return whether a policy's states are stored, and not too many to be walked."""
    plan = policy.plan
    stored = isinstance(policy.actions, ThresholdTable | PackedTable)
    return stored and state_start(plan.horizon, plan.property.labelled) <= MAX_WALKED_STATES


def walk_reachable_states(
    policy: ShieldPolicy,
    *,
    planes: Mapping[int, tuple[int, int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReachabilityPass:
    """Walk through all runs of a policy over two groups that is ``can_walk``.

    Args:
        planes: by time, the numbers seen of either group for which it is told which states are reached.
        progress: told (layers done, layers) after each.
    """
    from evenhand.shields.simulation.reachability_kernel import WalkInputs, advance_layer, plane_offset

    plan, kept = policy.plan, policy.plan.property
    labelled, check = kept.labelled, first_period_end(plan)
    come = np.array(plan.inputs.rate)
    label = np.array(plan.inputs.label) if labelled and plan.inputs.label is not None else np.ones(2)
    start = np.array(check.start if isinstance(check, FairEnd) else (0, 0, 0, 0))
    limit = min(1.0, max(4 * float(kept.kappa), 0.1))
    overrides = np.zeros((plan.horizon, GAP_BINS, 2, 3))
    ratio = kept.kind == "disparate_impact"
    inputs = WalkInputs(come, label, *level_effects(plan), start, ratio, limit)
    counts = np.zeros(4, dtype=np.int64)
    found = []
    layer, paid = np.ones(1), 0.0
    kept_planes = {}
    for t in range(plan.horizon):
        if planes is not None and t in planes:
            n_a, n_b = planes[t]
            first = plane_offset(t, labelled, n_a, n_b)
            part = slice(first, first + (n_a + 1) * (n_b + 1))
            kept_planes[t] = (layer[part] >= 0).reshape(n_a + 1, n_b + 1)
        levels = layer_levels(policy, t)
        # -1 marks states that no run reaches; 0 marks those that are reached with probability 0.
        following = np.full(_layer_size(t + 1, labelled), -1.0)
        paid += advance_layer(t, labelled, layer, following, levels, inputs, overrides[t], counts)
        layer = following
        if t + 1 in plan.times:
            found.append(_check_layer(check, layer, t + 1, labelled))
        if progress is not None:
            progress(t + 1, plan.horizon)
    reached, first, second, either = (int(count) for count in counts)
    return ReachabilityPass(overrides, limit, tuple(found), reached, (first, second, either), paid, kept_planes)


def first_period_end(plan: ShieldPlan) -> FairEnd | WelfareEnd:
    """Return what is fair at the end of the first period of a plan."""
    if plan.kind == "static-bw":
        bounds = welfare_bounds_of(plan)
        return WelfareEnd(bounds.lower, bounds.upper, bounds.least_seen)
    return FairEnd(plan.property, (0, 0, 0, 0) if plan.kind == "static-fair" else plan.start)


def level_effects(plan: ShieldPlan) -> tuple[Floats, Floats, Floats]:
    """Return what the levels do to people of a group, if they come as expected.

    Returns:
        Probability that they are accepted, shape (groups, levels); that they are accepted and that they are rejected
        against the recommendation, (groups, levels, 2); the expected cost, (groups, levels).
    """
    costs, groups = plan.inputs.costs, len(plan.inputs.groups)
    width = 2 * len(costs) + 1
    accept, forced, paid = np.zeros((groups, width)), np.zeros((groups, width, 2)), np.zeros((groups, width))
    # accept(g, level) = sum over recommendation r and cost c of P(r | g) * P(c | g, r) * decision(level, r, c); what is
    # forced and what is paid add up the same way where the decision is not r.
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
    """Return levels plus the number of costs in every state of a layer, shape (2, states), by (n_a, n_b, a, b).

    Args:
        policy: The policy.
        t: the time of the layer.
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
        levels[group] = levels_in(actions, t, np.stack([n_a, n_b]), np.stack([a, b]), which) + policy.levels
    return levels


def layer_states(t: int, labelled: bool) -> tuple[Integers, ...]:
    """Return the counters (n_a, a, n_b, b) of every state of a layer, each of shape (states,), by (n_a, n_b, a, b)."""
    planes = [(n, m) for n in range(t + 1) for m in (range(t - n + 1) if labelled else (t - n,))]
    sizes = [(n + 1) * (m + 1) for n, m in planes]
    n_a, n_b = (np.repeat(np.array([plane[i] for plane in planes], dtype=np.int64), sizes) for i in (0, 1))
    firsts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    # Within a plane a state lies at a * (n_b + 1) + b.
    a, b = np.divmod(np.arange(len(n_a)) - firsts, n_b + 1)
    return n_a, a, n_b, b


def _layer_size(t: int, labelled: bool) -> int:
    return state_start(t + 1, labelled) - state_start(t, labelled)


def _check_layer(check: FairEnd | WelfareEnd, layer: Floats, t: int, labelled: bool) -> ReachabilityCheck:
    from evenhand.shields.simulation.reachability_kernel import count_unfair, plane_offset

    reached, wrong, chance, unjudged, unjudged_chance = 0, 0, 0.0, 0, 0.0
    for n_a in range(t + 1):
        accepted = np.arange(n_a + 1)
        for n_b in range(t - n_a + 1) if labelled else (t - n_a,):
            first = plane_offset(t, labelled, n_a, n_b)
            low, high = check.band(n_a, accepted, n_b)
            more = count_unfair(layer, first, n_a, n_b, low, high)
            reached, wrong, chance = reached + more[0], wrong + more[1], chance + more[2]
            if not check.is_judged(n_a, n_b):
                unjudged += more[0]
                unjudged_chance += float(np.maximum(layer[first : first + (n_a + 1) * (n_b + 1)], 0).sum())
    return ReachabilityCheck(t, reached, wrong, chance, unjudged, unjudged_chance)
