"""Synthesis of the policy of a plan."""

from __future__ import annotations

from evenhand.errors import OptionError
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.ends import end_values_of
from evenhand.shields.spec.plan import PERIODIC_KINDS, ShieldPlan
from evenhand.shields.synthesis.general import synthesize_general
from evenhand.shields.synthesis.solve import Progress, compile_kernels, solve_plan


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
        # Excluded from the timing because it happens once per machine.
        compile_kernels(plan.property.labelled, plan.horizon > 255)
    if plan.kind in PERIODIC_KINDS:
        return PeriodicShield(plan, progress=progress).begin().policy
    policy = (
        synthesize_general(plan, progress=progress)
        if len(plan.inputs.groups) > 2
        else solve_plan(plan, dict.fromkeys(plan.times, end_values_of(plan)), progress)
    )
    if policy.expected_cost == float("inf"):
        raise OptionError(
            f"no shield can guarantee that {plan.property.words()}, from the counters {plan.start} on",
            hint="use a longer horizon, a larger kappa, or min_count=N for small groups",
        )
    return policy
