"""The cheapest nudges that keep a short-term bound: one setting after the other, each weighed over all runs."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

from evenhand.errors import OptionError
from evenhand.shields.policy.nudging import NudgedTable
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.simulation.reachability import can_walk, walk_reachable_states
from evenhand.shields.spec.plan import Nudging, ShieldPlan
from evenhand.typing import Progress

ROUNDS = 3
"""Times that every setting is looked at again, at most."""


class WeighedNudging(NamedTuple):
    """A rule, and what it comes to in the first period if people come as expected, exactly.

    Attributes:
        nudging: the rule.
        expected_cost: of its overrides, those of the filter among them.
        outside: probability of ever leaving the short-term bound.
    """

    nudging: Nudging
    expected_cost: float
    outside: float


def cheapest_nudging(plan: ShieldPlan, *, progress: Progress | None = None) -> WeighedNudging:
    """Return the cheapest rule among those tried that leaves the short-term bound no more often than asked.

    Each of free, full, power, first and groups is changed in turn for the better while the others stay. That need not
    find the best of all combinations.

    Args:
        plan: of kind energy, with a short-term bound; filter and seed stay as they are.
        progress: told what is being done and the share that is done.

    Raises:
        OptionError: the plan is another one, it has too many states, or no rule that was tried keeps the bound.
    """
    short, asked = plan.short_term, plan.nudging
    if short is None or asked is None:
        raise OptionError(
            "nudges are chosen for an energy shield with a short-term bound",
            location="short_term",
            hint="kind: energy, and short_term: {kappa: ..., from: ..., probability: ...}",
        )
    kappa, wider = float(plan.property.kappa), float(short.kappa)
    choices: dict[str, list[Any]] = {
        "first": sorted({0, short.first // 2, 3 * short.first // 4, short.first}),
        "power": [1, 2, 4, 8, 16],
        "free": sorted({0.0, kappa / 2, (kappa + wider) / 4}),
        "full": sorted({kappa, (kappa + wider) / 2, wider}),
        "groups": ["smaller", "both"],
    }
    forced = PeriodicShield(plan).begin().policy
    if not can_walk(forced):
        raise OptionError("there are too many states to weigh nudges over all runs", location="horizon")
    table = forced.actions
    assert isinstance(table, NudgedTable)
    known: dict[Nudging, WeighedNudging] = {}

    def weigh(nudging: Nudging) -> WeighedNudging:
        if nudging not in known:
            one = replace(plan, nudging=nudging)
            found = walk_reachable_states(replace(forced, plan=one, actions=NudgedTable.of(one, table.base)))
            known[nudging] = WeighedNudging(
                nudging, found.expected_cost, inf if found.outside is None else found.outside
            )
        return known[nudging]

    def rank(one: WeighedNudging) -> tuple[float, float]:
        # First whether the bound is kept, by how far it is not; then the cost.
        return max(0.0, one.outside - short.probability), one.expected_cost

    best = weigh(replace(asked, free=0.0, full=kappa, power=4, first=short.first // 2))
    for again in range(ROUNDS):
        begun = best
        for place, (name, values) in enumerate(choices.items()):
            if progress is not None:
                progress(f"{len(known)} rules weighed", (again + place / len(choices)) / ROUNDS)
            for value in values:
                given: dict[str, Any] = {name: value}
                if given.get("free", best.nudging.free) < given.get("full", best.nudging.full):
                    best = min(best, weigh(replace(best.nudging, **given)), key=rank)
        if best == begun:
            break
    if best.outside > short.probability:
        raise OptionError(
            f"of {len(known)} rules none leaves the bound with at most {short.probability:g}; the best one with "
            f"{best.outside:.4g}",
            location="short_term",
            hint="a later from, a larger kappa or probability, or a shield of kind finite",
        )
    return best
