"""Reachable states of a shield over any number of groups, state by state, or group by group within welfare bounds.

As in `reachability`, only the probabilities depend on the expected inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.simulation.reachability import CheckFinding, StatesPass, level_effects
from evenhand.shields.spec.ends import welfare_bounds_of
from evenhand.shields.spec.properties import is_fair
from evenhand.shields.synthesis.general import ReachableTable
from evenhand.shields.synthesis.separable import SeparableTable

MAX_LISTED_STATES = 5_000_000
"""Maximum number of visited states over all groups. Visiting them takes about ten seconds."""
MAX_SEPARATE_STATES = 500_000_000
"""Maximum number of visited states of separate groups."""


def can_walk_groups(policy: ShieldPolicy) -> bool:
    """Return whether the states of a policy are stored for any number of groups and can be visited."""
    if isinstance(policy.actions, ReachableTable):
        return sum(len(states) for states in policy.actions.states) <= MAX_LISTED_STATES
    separate = isinstance(policy.actions, SeparableTable)
    return separate and sum(len(table) for table in policy.actions.arrays) <= MAX_SEPARATE_STATES


def walk_groups(policy: ShieldPolicy, *, progress: Callable[[int, int], None] | None = None) -> StatesPass:
    """Visit all reachable states of a policy for which ``can_walk_groups`` is true.

    Args:
        progress: Callback that receives the number of finished layers and their total.
    """
    if isinstance(policy.actions, SeparableTable):
        return _walk_separate(policy, policy.actions, progress)
    assert isinstance(policy.actions, ReachableTable)
    return _walk_listed(policy, policy.actions, progress)


def _walk_listed(
    policy: ShieldPolicy, actions: ReachableTable, progress: Callable[[int, int], None] | None
) -> StatesPass:
    plan, inputs = policy.plan, policy.plan.inputs
    strides = np.array(actions.strides, dtype=np.int64)
    accept, forced, paid = level_effects(plan)
    labels = inputs.labels() if plan.property.labelled else np.tile([0.0, 1.0], (len(inputs.groups), 1))
    states: Integers = np.zeros(1, dtype=np.int64)
    chance: Floats = np.ones(1)
    overrides, cost, reached, checks = np.zeros((len(inputs.groups), 2)), 0.0, 0, []
    # p'(s') = sum over states s, groups g and decisions y of p(s) * P(g) * P(label | g) * P(y | level). A state is an
    # integer, the sum of each counter times its stride, so that a step is an addition. If a level allows a decision,
    # the state after it counts as reached, even with probability 0.
    for t in range(plan.horizon):
        place = np.searchsorted(actions.states[t], states)
        levels = actions.levels_by_time[t][:, place].astype(np.int64) + policy.levels
        targets, weights = [], []
        for group, rate in enumerate(inputs.rate):
            level = levels[group]
            cost += rate * float(chance @ paid[group, level])
            overrides[group] += rate * (chance @ forced[group, level])
            if plan.property.labelled:
                targets.append(states)
                weights.append(chance * rate * labels[group, 0])
            for decision, possible in ((0, level < 2 * policy.levels), (1, level > 0)):
                share = accept[group, level] if decision else 1 - accept[group, level]
                targets.append((states + strides[2 * group] + decision * strides[2 * group + 1])[possible])
                weights.append((chance * rate * share * labels[group, 1])[possible])
        reached += len(states)
        states, which = np.unique(np.concatenate(targets), return_inverse=True)
        chance = np.bincount(which.reshape(-1), weights=np.concatenate(weights), minlength=len(states)).astype(float)
        if t + 1 in plan.times:
            checks.append(_check_listed(policy, t + 1, _decode(states, strides), chance))
        if progress is not None:
            progress(t + 1, plan.horizon)
    return StatesPass(tuple(checks), reached, overrides, cost)


def _decode(states: Integers, strides: Integers) -> Integers:
    """Decode the counters of states, shape (states, 2 groups)."""
    # Counter k is state // stride_k modulo stride_(k+1) / stride_k; the last has no bound.
    extents = np.append(strides[1:] // strides[:-1], np.iinfo(np.int64).max)
    return np.asarray(states[:, None] // strides % extents)


def _check_listed(policy: ShieldPolicy, t: int, counters: Integers, chance: Floats) -> CheckFinding:
    fairness = policy.plan.property
    counters = counters + np.array(policy.plan.start)
    sizes, accepted = counters[:, ::2], counters[:, 1::2]
    unfair: Booleans = ~is_fair(fairness, sizes, accepted)
    # No two groups are large enough for a comparison.
    unjudged = np.sort(sizes, axis=1)[:, -2] < fairness.empty_group.needed_count
    return _count_check(t, len(sizes), unfair, unjudged, chance)


def _count_check(t: int, reached: int, unfair: Booleans, unjudged: Booleans, chance: Floats) -> CheckFinding:
    return CheckFinding(
        time=t,
        reached=reached,
        unfair=int(unfair.sum()),
        chance=float(chance[unfair].sum()),
        unjudged=int(unjudged.sum()),
        unjudged_chance=float(chance[unjudged].sum()),
    )


def _walk_separate(
    policy: ShieldPolicy, actions: SeparableTable, progress: Callable[[int, int], None] | None
) -> StatesPass:
    plan, groups = policy.plan, len(policy.plan.inputs.groups)
    overrides, cost, reached = np.zeros((groups, 2)), 0.0, 0
    checks_of_groups: dict[int, list[CheckFinding]] = {t: [] for t in plan.times}
    for group in range(groups):
        for t, more, forced, paid, check in _walk_group(policy, actions, group):
            reached, cost = reached + more, cost + paid
            overrides[group] += forced
            if check is not None:
                checks_of_groups[t].append(check)
            if progress is not None:
                progress(group * plan.horizon + t, groups * plan.horizon)
    # Union bound: the probability that some group is unfair is at most the sum over the groups.
    checks = (
        CheckFinding(
            time=t,
            reached=sum(check.reached for check in each),
            unfair=sum(check.unfair for check in each),
            chance=min(1.0, sum(check.chance for check in each)),
            unjudged=sum(check.unjudged for check in each),
            unjudged_chance=min(1.0, sum(check.unjudged_chance for check in each)),
        )
        for t, each in checks_of_groups.items()
    )
    return StatesPass(tuple(checks), reached, overrides, cost)


def _walk_group(
    policy: ShieldPolicy, actions: SeparableTable, group: int
) -> Iterator[tuple[int, int, Floats, float, CheckFinding | None]]:
    """Yield the time, the reached states, the overrides, the cost and the check of each decision of a period.

    The position of the state (n, a) is n (n + 1) / 2 + a at every time.
    """
    plan, inputs = policy.plan, policy.plan.inputs
    bounds = welfare_bounds_of(plan)
    accept, forced, paid = (effect[group] for effect in level_effects(plan))
    rate = inputs.rate[group]
    counted = rate * (inputs.label[group] if plan.property.labelled and inputs.label is not None else 1.0)
    n = np.repeat(np.arange(plan.horizon + 1), np.arange(1, plan.horizon + 2))
    a = np.arange(len(n)) - n * (n + 1) // 2
    allowed = bounds.holds(n, a) | (n < bounds.least_seen)
    chance, reached = np.ones(1), np.ones(1, dtype=bool)
    for t in range(plan.horizon):
        size = (t + 1) * (t + 2) // 2
        offset = t * (t + 1) * (t + 2) // 6
        level = actions.tables[group][offset : offset + size].astype(np.int64) + policy.levels
        spent, against = rate * float(chance @ paid[level]), rate * (chance @ forced[level])
        # The state (n + 1, a) is n + 1 places after (n, a), and (n + 1, a + 1) follows it.
        rejected = np.arange(size) + n[:size] + 1
        next_chance, possible = np.zeros(size + t + 2), np.zeros(size + t + 2, dtype=bool)
        # A person of another group arrives.
        next_chance[:size], possible[:size] = chance * (1 - counted), reached
        next_chance[rejected] += chance * counted * (1 - accept[level])
        next_chance[rejected + 1] += chance * counted * accept[level]
        possible[rejected[reached & (level < 2 * policy.levels)]] = True
        possible[rejected[reached & (level > 0)] + 1] = True
        reached_before = int(reached.sum())
        chance, reached = next_chance, possible
        check = None
        if t + 1 in plan.times:
            unfair = reached & ~allowed[: len(reached)]
            small = reached & (n[: len(reached)] < bounds.least_seen)
            check = _count_check(t + 1, int(reached.sum()), unfair, small, chance)
        yield t + 1, reached_before, against, spent, check
