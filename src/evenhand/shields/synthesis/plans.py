"""Synthesis of the policy of a plan."""

from __future__ import annotations

import time

from evenhand.errors import OptionError
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.ends import end_values_of
from evenhand.shields.spec.plan import PERIODIC_KINDS, ShieldPlan
from evenhand.shields.synthesis.general import synthesize_general
from evenhand.shields.synthesis.solve import Progress, SynthesisProblem, compile_kernels, solve_problem


def synthesize(plan: ShieldPlan, *, progress: Progress | None = None) -> ShieldPolicy:
    """Synthesize the policy of a plan. For a periodic plan, the period begins at ``plan.start``.

    Args:
        plan: The plan.
        progress: See `Progress`.

    Raises:
        OptionError: if no shield passes the checks from the start of the plan.
        LimitError: if the synthesis needs too much memory, or three or more groups have too many states.
    """
    if len(plan.inputs.groups) == 2:
        # Not counted in the seconds: it happens once per machine.
        compile_kernels(plan.property.labelled, plan.horizon > 255)
    if plan.kind in PERIODIC_KINDS:
        return PeriodicShield(plan, progress=progress).begin().policy
    policy = (
        synthesize_general(plan, progress=progress)
        if len(plan.inputs.groups) > 2
        else _synthesize_two_groups(plan, progress)
    )
    if policy.expected_cost == float("inf"):
        raise OptionError(
            f"no shield can keep that {plan.property.words()}, from the counters {plan.start} on",
            hint="a longer horizon, a larger kappa, or min_count=N for small groups",
        )
    return policy


def _synthesize_two_groups(plan: ShieldPlan, progress: Progress | None) -> ShieldPolicy:
    started = time.perf_counter()
    checks = dict.fromkeys(plan.times, end_values_of(plan))
    problem = SynthesisProblem(plan.horizon, plan.property.labelled, plan.inputs, checks, plan.kind == "feasible")
    solution = solve_problem(problem, progress=progress)
    return ShieldPolicy(
        plan, solution.actions, solution.value, solution.states, solution.peak_bytes, time.perf_counter() - started
    )
