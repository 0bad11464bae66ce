"""What a shield guarantees, and on what conditions, in words."""

from __future__ import annotations

from math import ceil

from evenhand.shield.plan import Plan
from evenhand.shield.welfare import bounds_of

EVERY_RUN = "in every run, whoever comes, in whatever order, and whatever is recommended"
GREEDY = (
    "Nothing is guaranteed: it overrides a decision that would leave the groups unfair at once, and may find at the "
    "end that it is too late."
)
FEASIBLE = (
    "A decision is overridden only where nothing else leads to a fair end for sure; what that costs and who is "
    "expected plays no part."
)
BALANCED = (
    "Over several periods together it holds if both groups are counted equally often in every period, half of the "
    "decisions each; otherwise it need not."
)
LATER = "Later periods count everything before them and are synthesised when they begin."
HARD_ENDS = {
    "strict": "They end fair wherever some shield can make sure of it.",
    "exempt": "Nothing is asked of an end at which too few of a group were counted for a fair one to be sure.",
    "soft": "Where a fair end cannot be made sure of, they end as close to it as its price is worth.",
}
"""By the terminal of a dynamic shield: what holds where a fair end may be impossible."""


def promises(plan: Plan) -> tuple[str, ...]:
    """What the shield of a plan guarantees: one sentence each, the main one first."""
    keeps, always = plan.property.words(), f"{EVERY_RUN}{_labels(plan)}"
    if plan.kind == "greedy":
        return (GREEDY,)
    if plan.kind == "static-fair":
        return f"{_when(plan)} of every period, {keeps}, counted within it alone: {always}.", BALANCED
    if plan.kind == "static-bw":
        bounds = bounds_of(plan)
        between = f"between {float(bounds.lower):g} and {float(bounds.upper):g}"
        return (
            f"In every period of {plan.horizon:,} decisions that counts at least {bounds.least} of each group, every "
            f"group's acceptance rate ends {between}: {always}.",
            f"So it does over all such periods together, and then {keeps}.",
        )
    if plan.kind == "dynamic":
        return f"{_when(plan)} of the first period, {keeps}: {always}.", _later(plan)
    found = f"{_when(plan)}, {keeps}: {always}."
    return (found, FEASIBLE) if plan.kind == "feasible" else (found,)


def convention(plan: Plan) -> str:
    """What holds while a group is empty or small, in words."""
    kept = plan.property
    counted = " with label 1" if kept.labelled else ""
    if plan.kind == "static-bw":
        return f"Of a period that counts fewer than {bounds_of(plan).least} of a group{counted} nothing is asked."
    if kept.empty_group.rule == "zero":
        ratio = kept.kind == "disparate_impact"
        then = (
            "so nobody of the others may be accepted"
            if ratio
            else f"so the others' must be at most {float(kept.kappa):g}"
        )
        return f"A group of which nobody{counted} has come counts as one with rate 0, {then}."
    if kept.empty_group.rule == "vacuous":
        return f"While nobody{counted} of a group has come, nothing is asked."
    return f"While fewer than {kept.empty_group.at_least} of a group{counted} have come, nothing is asked."


def _when(plan: Plan) -> str:
    if plan.checks == "anytime":
        return "After every decision"
    times = [f"{t:,}" for t in plan.times]
    listed = f"{', '.join(times[:-1])} and {times[-1]}" if len(times) > 1 else times[0]
    return f"After {listed} decisions" if plan.horizon > 1 else "After 1 decision"


def _labels(plan: Plan) -> str:
    return ", if the label of every decision is known before the next one" if plan.property.labelled else ""


def _later(plan: Plan) -> str:
    kept = plan.property
    settled = ""
    if kept.kind != "disparate_impact" and kept.kappa:
        settled = f" Once {ceil(2 / kept.kappa):,} of each group were counted, every period ends fair."
    return f"{LATER} {HARD_ENDS[plan.terminal]}{settled}"
