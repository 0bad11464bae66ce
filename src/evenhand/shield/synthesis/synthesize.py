"""From a plan to its policy."""

from __future__ import annotations

import time

from evenhand.errors import OptionError
from evenhand.shield.plan import PERIODIC, Plan
from evenhand.shield.policy import Policy
from evenhand.shield.synthesis.general import synthesize_general
from evenhand.shield.synthesis.solve import Problem, Progress, prepare, solve
from evenhand.shield.terminal import terminal_of


def synthesize(plan: Plan, *, progress: Progress | None = None) -> Policy:
    """The shield that a plan asks for; of a periodic plan, that of its period from ``plan.start`` on.

    Args:
        plan: the problem.
        progress: told (layers done, layers) after each.

    Raises:
        OptionError: no shield passes the plan's checks from its start.
        LimitError: it would take too much memory; of three or more groups, there are too many states.
    """
    if len(plan.inputs.groups) == 2:
        # Not counted in the seconds: it happens once per machine.
        prepare(plan.property.labelled, plan.horizon > 255)
    if plan.kind in PERIODIC:
        # Periods are built on `solve`, and this is built on them.
        from evenhand.shield.periodic import Periodic

        return Periodic(plan, progress=progress).begin().policy
    policy = synthesize_general(plan, progress=progress) if len(plan.inputs.groups) > 2 else _of_two(plan, progress)
    if policy.expected_cost == float("inf"):
        raise OptionError(
            f"no shield can keep that {plan.property.words()}, from the counters {plan.start} on",
            mend="a longer horizon, a larger kappa, or min_count=N for small groups",
        )
    return policy


def _of_two(plan: Plan, progress: Progress | None) -> Policy:
    started = time.perf_counter()
    checks = dict.fromkeys(plan.times, terminal_of(plan))
    solution = solve(
        Problem(plan.horizon, plan.property.labelled, plan.inputs, checks, plan.kind == "feasible"), progress=progress
    )
    return Policy(
        plan, solution.actions, solution.value, solution.states, solution.peak_bytes, time.perf_counter() - started
    )
