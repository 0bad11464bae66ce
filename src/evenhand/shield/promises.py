"""What a shield guarantees, and on what conditions, in words."""

from __future__ import annotations

from evenhand.shield.plan import Plan
from evenhand.shield.welfare import bounds_of


def promises(plan: Plan) -> tuple[str, ...]:
    """What the shield of a plan guarantees: one sentence each, the main one first."""
    keeps = plan.property.words()
    if plan.kind == "greedy":
        return (
            "Nothing is guaranteed: it overrides a decision that would leave the groups unfair at once, and may find at "
            "the end that it is too late.",
        )
    if plan.kind == "static-fair":
        return (
            f"{_when(plan)} of every period of {plan.horizon:,} decisions, {keeps}, counted within that period alone: "
            f"{EVERY_RUN}{_labels(plan)}.",
            "Over several periods together this holds if both groups are counted equally often in every period, half of "
            "the decisions each; else it need not.",
        )
    if plan.kind == "static-bw":
        bounds = bounds_of(plan)
        return (
            f"In every period of {plan.horizon:,} decisions that counts at least {bounds.least} of each group, every "
            f"group's acceptance rate ends between {float(bounds.lower):g} and {float(bounds.upper):g}: "
            f"{EVERY_RUN}{_labels(plan)}.",
            f"So it does over all such periods together, and then {keeps}.",
        )
    if plan.kind == "dynamic":
        return (f"At the end of the first period of {plan.horizon:,} decisions, {keeps}: {EVERY_RUN}{_labels(plan)}.",
                _later(plan))  # fmt: skip
    found = [f"{_when(plan)}, {keeps}: {EVERY_RUN}{_labels(plan)}."]
    if plan.kind == "feasible":
        found.append("A decision is overridden only where no other way would lead to a fair end; what that costs and who "
                     "is expected plays no part.")  # fmt: skip
    return tuple(found)


EVERY_RUN = "in every run, whoever comes, in whatever order, and whatever is recommended"


def convention(plan: Plan) -> str:
    """What holds while a group is empty or small, in words."""
    rule, kappa = plan.property.empty_group, float(plan.property.kappa)
    whom = "anybody with label 1" if plan.property.labelled else "anybody"
    if plan.kind == "static-bw":
        return f"While a group has fewer than {bounds_of(plan).least}, nothing is asked."
    if rule.rule == "zero":
        ratio = plan.property.kind == "disparate_impact"
        then = "so nobody of the others may be accepted" if ratio else f"so the others' must be at most {kappa:g}"
        return f"A group without {whom} counts as one with rate 0, {then} until somebody comes."
    fewer = f"has fewer than {rule.at_least}" if rule.rule == "min_count" else "is without"
    counted = " with label 1" if plan.property.labelled and rule.rule == "min_count" else ""
    return f"While a group {fewer}{counted if rule.rule == 'min_count' else f' {whom}'}, nothing is asked."


def _when(plan: Plan) -> str:
    if plan.checks == "anytime":
        return "After every decision" if plan.kind != "static-fair" else "After every decision"
    if len(plan.times) == 1:
        return "At the end" if plan.kind == "static-fair" else f"After {plan.horizon:,} decisions"
    times = [f"{t:,}" for t in plan.times]
    return f"After {', '.join(times[:-1])} and {times[-1]} decisions"


def _labels(plan: Plan) -> str:
    return ", if the label of every decision is known before the next one" if plan.property.labelled else ""


def _later(plan: Plan) -> str:
    known = "Later periods count everything before them, and are synthesised when they begin. "
    if plan.property.kind != "disparate_impact":
        enough = -(-2 * plan.property.kappa.denominator // max(plan.property.kappa.numerator, 1))
        always = f" Once {enough:,} of each group were counted, every period ends fair." if plan.property.kappa else ""
    else:
        always = ""
    return known + {
        "strict": "They end fair whenever some shield can make sure of it.",
        "exempt": "Nothing is asked of an end where too few of a group were counted for a fair one to be sure.",
        "soft": "Where a fair end cannot be made sure of, they end as close to it as is worth its price.",
    }[plan.terminal] + always
