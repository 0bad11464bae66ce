"""The counters of a shield that goes on from period to period, and the bias that no period exceeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.core.typing import Integers
from evenhand.shields.policy.periodic import PeriodicShield, ShieldPeriod, always_ends_fair
from evenhand.shields.runtime.certificate import ShieldCertificate, explain_later, worst_bias
from evenhand.shields.runtime.reachable_states import reachable_end_states, worst_bias_among
from evenhand.shields.runtime.state import (
    PROMPT_FROM_HERE,
    PROMPT_LABELS,
    FiniteShieldState,
    check_counts,
    invalid_state_error,
    read_numbers,
)
from evenhand.shields.spec.ends import FairEnd, WelfareEnd
from evenhand.shields.spec.plan import LABEL_WAIT, Counters, ShieldPlan
from evenhand.shields.spec.properties import FairnessProperty

ROUNDING_SLACK = Fraction(1, 10**9)
"""Added to what was computed in floating point, far more than its errors."""

Corners = list[tuple[float, float]]


def bound_period_bias(period: ShieldPeriod, kept: FairnessProperty, past: Counters, horizon: int) -> Fraction:
    """Tell whether the bias at the end of the period is at most the bound, whatever people come.

    Args:
        period: with the end that its policy keeps.
        kept: the property, over the past and the period.
        past: seen and accepted of each group before.
        horizon: of the period.
    """
    n_a, n_b = (counts.reshape(-1) for counts in np.indices((horizon + 1, horizon + 1)))
    possible = n_a + n_b <= horizon if kept.labelled else n_a + n_b == horizon
    n_a, n_b = n_a[possible], n_b[possible]
    # For given counts the bias of past and period together is largest at a corner of the pairs of rates that the end
    # allows; where the end says nothing, at a corner of all pairs.
    free = np.ones(len(n_a), dtype=bool)
    corners: Corners = []
    end = period.end
    if isinstance(end, FairEnd) and not any(end.start):
        kappa = float(kept.kappa)
        free = np.minimum(n_a, n_b) < max(kept.empty_group.needed_count, 1)
        if kept.kind == "disparate_impact":
            corners = [(1, 1 - kappa), (1 - kappa, 1), (0, 0), (1, 1)]
        else:
            corners = [(kappa, 0), (0, kappa), (1, 1 - kappa), (1 - kappa, 1), (0, 0), (1, 1)]
    elif isinstance(end, WelfareEnd):
        lower, upper = float(end.lower), float(end.upper)
        free = np.minimum(n_a, n_b) < end.at_least
        corners = [(lower, upper), (upper, lower), (lower, lower), (upper, upper)]
    worst = max(
        _worst_corner_bias(kept, past, n_a[~free], n_b[~free], corners),
        _worst_corner_bias(kept, past, n_a[free], n_b[free], [(0, 1), (1, 0), (0, 0), (1, 1)]),
    )
    return min(Fraction(worst) + ROUNDING_SLACK, Fraction(1))


def _worst_corner_bias(kept: FairnessProperty, past: Counters, n_a: Integers, n_b: Integers, corners: Corners) -> float:
    seen_a, past_a, seen_b, past_b = past
    judged = np.minimum(n_a + seen_a, n_b + seen_b) >= kept.empty_group.needed_count
    n_a, n_b = n_a[judged], n_b[judged]
    if not len(n_a):
        return 0.0
    worst = 0.0
    for x, y in corners:
        rate_a = (past_a + n_a * x) / np.maximum(seen_a + n_a, 1)
        rate_b = (past_b + n_b * y) / np.maximum(seen_b + n_b, 1)
        worst = max(worst, float(kept.bias_of_rates(rate_a, rate_b).max()))
    return worst


# The counters of a shield that goes on from period to period.


LATER_ENTRIES = {"nudging": None, "label_wait": LABEL_WAIT}
"""Entries of plans that digests leave out at their defaults, because they were added after the others."""


def plan_digest(plan: ShieldPlan) -> str:
    """Return the digest of a shield that makes its periods from a plan."""
    entries = {
        name: value for name, value in asdict(plan).items() if name not in LATER_ENTRIES or value != LATER_ENTRIES[name]
    }
    return hashlib.sha256(json.dumps(entries, default=str, sort_keys=True).encode()).hexdigest()


class PeriodicShieldState:
    """One period after the other. A period begins with its first decision, so that labels of the last one can come.

    Labels that come later than that are counted with their own period. A dynamic shield promises nothing while labels
    of earlier periods are open, and plans the period again with each of these labels that comes.

    Attributes:
        period: which it is, from 0.
        past: seen and accepted of each group in all periods before.
        past_recommended: the same of the recommendations.
        past_open: open decisions of the periods before, by their codes.
        held: whether the assumption held in every period before.
        prompt: whether all labels of the periods before came before the next decision.

    Args:
        periodic: the shield.
    """

    def __init__(self, periodic: PeriodicShield) -> None:
        self.periodic = periodic
        plan = periodic.plan
        self.groups = plan.inputs.groups
        self.costs = plan.inputs.costs
        self.labelled, self.label_wait = plan.property.labelled, plan.label_wait
        self.horizon = plan.horizon
        self.period = 0
        self.past = self.past_recommended = plan.start
        self.past_open = [0] * 8
        self.assumption_held, self.prompt = periodic.assumption_held_at_start, True
        # A past, and whether all periods after it end fair: asked with every decision.
        self._known_past = (self.past, always_ends_fair(plan, self.past))
        self._begin(self.past)

    def _begin(self, past: Counters) -> None:
        self._now: ShieldPeriod = self.periodic.begin(past)
        self._course = FiniteShieldState(self._now.policy, self._now.end)
        self._worst_case: tuple[Counters, Fraction] | None = None

    def _bound(self) -> Fraction:
        """Return what the end of this period cannot exceed, whatever people come; constant until the past changes."""
        if self._worst_case is None or self._worst_case[0] != self.past:
            found = bound_period_bias(self._now, self.periodic.plan.property, self.past, self.horizon)
            self._worst_case = (self.past, found)
        return self._worst_case[1]

    @cached_property
    def digest(self) -> str:
        """Of the whole plan: a dynamic shield decides by who is expected, too."""
        return plan_digest(self.periodic.plan)

    @property
    def step(self) -> int:
        """Decisions made in this period."""
        return self._course.step

    @property
    def has_guarantee(self) -> bool:
        """Whether this period ends fair whatever comes, given that labels are prompt from here on."""
        return self._now.guaranteed and self._course.has_guarantee and not any(self.past_open)

    def decide(self, group: int, recommendation: int, cost: float) -> int:
        """See `ShieldState.decide`; the first decision of a period may have to wait for a new plan."""
        if self._course.step == self.horizon:
            self._begin_period()
        return 8 * self.period + self._course.decide(group, recommendation, cost)

    def _begin_period(self) -> None:
        course = self._course
        past, held = self._totals(), self._assumption_holds_now()
        prompt = self.prompt and course.prompt and not any(course.open)
        recommended, open_ = (
            self._recommended_counts(),
            [old + new for old, new in zip(self.past_open, course.open, strict=True)],
        )
        self._begin(past)
        self.past, self.past_recommended, self.past_open, self.assumption_held = past, recommended, open_, held
        self.period, self.prompt = self.period + 1, prompt

    def plan_ahead(self, state: Mapping[str, Any] | None = None) -> Callable[[], None] | None:
        """Return a function that computes what the next decision needs; None if it is not needed.

        It may run in another thread while this state is not used.

        Args:
            state: State to be restored. If None, the present one.
        """
        if state is None:
            past, now = self.past, None
            needed = [self._totals()] if self._course.step == self.horizon else []
        else:
            past, now = tuple(state["past"]), state["now"]
            needed = [past]
            if now["step"] == self.horizon:
                needed.append(tuple(old + new for old, new in zip(past, now["counters"], strict=True)))
        missing = [past for past in needed if not self.periodic.has_period_for(past)]

        def make() -> None:
            for past in missing:
                self.periodic.begin(past)

        if missing and self.periodic.plan.plans_periods:
            return make
        if now is None:
            return self._course.plan_ahead()
        period = self.periodic.begin(past)
        return FiniteShieldState(period.policy, period.end).plan_ahead(now)

    def plan_label(self, code: int) -> Callable[[], None] | None:
        """Return a function that computes what a label 1 needs; None if it is not needed.

        A label of an earlier period changes the counters that the present one began with.

        Args:
            code: Code of the decision with this label.
        """
        period, inner = divmod(code, 8)
        past, _ = self._count_past(inner)
        if period == self.period or not self.periodic.plan.plans_periods or self.periodic.has_period_for(past):
            return None

        def make() -> None:
            now = self.periodic.begin(past)
            live_states = FiniteShieldState(now.policy, now.end).plan_ahead({"open": (), "prompt": False})
            if live_states is not None:
                live_states()

        return make

    def _count_past(self, inner: int) -> tuple[Counters, Counters]:
        """Return the past with one more decision with label 1, and its recommendations."""
        past, recommended = list(self.past), list(self.past_recommended)
        group = inner >> 2
        past[2 * group] += 1
        past[2 * group + 1] += inner & 1
        recommended[2 * group] += 1
        recommended[2 * group + 1] += inner >> 1 & 1
        return tuple(past), tuple(recommended)

    def observe(self, code: int, label: int) -> None:
        """See `ShieldState.observe`."""
        period, inner = divmod(code, 8)
        if period == self.period:
            self._course.observe(inner, label)
            return
        # A label 1 of a past period changes what the present one started from: the policy for the new past takes over.
        if label:
            past, recommended = self._count_past(inner)
            now = self.periodic.begin(past)
            self._course.switch_policy(now.policy, now.end)
            self._now, self.past, self.past_recommended = now, past, recommended
        self.past_open[inner] -= 1

    def _totals(self) -> Counters:
        return tuple(old + new for old, new in zip(self.past, self._course.counters, strict=True))

    def _recommended_counts(self) -> Counters:
        course = self._course
        new = (course.n_a, course.recommended_a, course.n_b, course.recommended_b)
        return tuple(old + more for old, more in zip(self.past_recommended, new, strict=True))

    def _assumption_holds_now(self) -> bool:
        """Return whether the assumption held in this period too, which is at its end, and in all before."""
        return self.assumption_held and bool(self._now.assumption_held(self._course.n_a, self._course.n_b))

    def _assumption_holds_so_far(self) -> bool:
        """Return whether the assumption held in all periods before, and held in this one or still can."""
        course = self._course
        if not self.periodic.assumption:
            return True
        waiting = course.open_labels
        open_ = (waiting[0] + waiting[1], waiting[2] + waiting[3]) if self.labelled else None
        return self.assumption_held and self._now.assumption_possible(
            (course.n_a, course.n_b), self.horizon - course.step, open_
        )

    def _is_settled(self) -> bool:
        """Return whether this period, or the past if it runs, ended so that every later one ends fair."""
        course, plan = self._course, self.periodic.plan
        if any(self.past_open):
            return False
        if course.step == self.horizon:
            return always_ends_fair(plan, self._totals()) and not any(course.open)
        if self._known_past[0] != self.past:
            self._known_past = (self.past, always_ends_fair(plan, self.past))
        return self._known_past[1] and course.has_guarantee

    def _open(self, by: tuple[int, int]) -> tuple[int, int, int, int]:
        """Open decisions of all periods; ``by`` the two bits of the recommendation or the decision of a code."""
        open_ = [old + new for old, new in zip(self.past_open, self._course.open, strict=True)]
        counts = [0, 0, 0, 0]
        for code, count in enumerate(open_):
            counts[2 * (code >> 2) + (code >> by[0] & by[1])] += count
        return (counts[0], counts[1], counts[2], counts[3])

    def state(self) -> dict[str, Any]:
        """See `ShieldState.state`."""
        return {
            "period": self.period,
            "past": list(self.past),
            "past_recommended": list(self.past_recommended),
            "past_open": list(self.past_open),
            "held": self.assumption_held,
            "prompt": self.prompt,
            "now": self._course.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `ShieldState.restore`."""
        past = tuple(check_counts(read_numbers(state, "past", 4)))
        recommended = tuple(check_counts(read_numbers(state, "past_recommended", 4)))
        open_ = check_counts(read_numbers(state, "past_open", 8))
        (period,) = check_counts([state.get("period")])
        possible = all(
            accepted <= seen
            for counters in (past, recommended)
            for seen, accepted in zip(counters[::2], counters[1::2], strict=True)
        )
        if not possible or recommended[::2] != past[::2] or {state.get("held"), state.get("prompt")} - {True, False}:
            raise invalid_state_error("its counters of the past contradict each other")
        now = self.periodic.begin(past)
        course = FiniteShieldState(now.policy, now.end)
        course.restore(state.get("now", {}))
        self._now, self._course = now, course
        self.past, self.past_recommended, self.past_open, self.period = past, recommended, open_, period
        self.assumption_held, self.prompt = state["held"], state["prompt"]

    def certificate(self, *, exact: bool = False) -> ShieldCertificate:
        """See `ShieldState.certificate`."""
        course, plan = self._course, self.periodic.plan
        kept = plan.property
        shielded = worst_bias(kept, self._totals(), self._open((0, 1)))
        unshielded = worst_bias(kept, self._recommended_counts(), self._open((1, 1)))
        done = course.step == self.horizon
        bound: Fraction | None
        attained = False
        if done:
            bound, attained, how = shielded, True, "counted over all decisions"
        elif self.has_guarantee:
            bound, how = kept.kappa, "every end of this period is fair with all before it"
        elif any(self.past_open) or (course.sound and not course.has_guarantee):
            bound, how = None, "labels came too late"
        else:
            bound, how = self._bound(), "whatever people come in this period"
        if exact and bound is not None and not done and (course.has_guarantee or not self.labelled):
            outcomes: Integers = course.outcomes()
            bound = worst_bias_among(
                kept, reachable_end_states(course.policy, course.step, outcomes) + np.array(self.past)
            )
            attained, how = True, "the largest over everything that can still come in this period"
        settled = self._is_settled()
        # Once settled: with that many counted no later period can end otherwise, if the labels that come are prompt.
        assumption = "" if settled else self.periodic.assumption or ""
        held = settled or self._assumption_holds_so_far()
        if self.labelled:
            prompt = self.prompt and course.prompt
            labels = PROMPT_FROM_HERE if settled and not prompt else PROMPT_LABELS
            assumption = f"{assumption}, and {labels}" if assumption else labels
            held = held and (settled or prompt)
        nothing = self.periodic.assumption is None
        later = kept.kappa if held and not nothing and not any(self.past_open) else None
        if self.labelled and bound is not None and not done:
            how += f", as long as {PROMPT_LABELS}"
        return ShieldCertificate(
            keeps=kept.words(),
            kappa=kept.kappa,
            step=course.step,
            horizon=self.horizon,
            period=self.period,
            shielded=shielded,
            unshielded=unshielded,
            open_labels=sum(self.past_open) + sum(course.open),
            bound=bound,
            exact=attained,
            later=later,
            how=how,
            how_later="this kind of shield guarantees nothing"
            if nothing
            else explain_later(assumption, held=held, bound=later),
            assumption=assumption,
            assumption_held=held if assumption else None,
        )
