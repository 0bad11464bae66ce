"""The counters of a shield over several groups, or over groups that are kept within welfare bounds each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy, apply_level
from evenhand.shields.runtime.certificate import ShieldCertificate, explain_later, worst_bias
from evenhand.shields.runtime.periodic_state import plan_digest
from evenhand.shields.runtime.state import (
    PROMPT_LABELS,
    check_counts,
    invalid_state_error,
    past_horizon_error,
    read_numbers,
)
from evenhand.shields.spec.ends import describe_assumption, welfare_bounds_of
from evenhand.shields.spec.plan import Counters


class MultiGroupShieldState:
    """Any number of groups. Welfare bounds and dynamic shields go on from period to period, others end at the horizon.

    The bias is the largest between two groups. A decision made while labels are open takes only those that are known
    into account, and nothing is guaranteed for its period after that.

    Attributes:
        counters: seen and accepted of each group in this period, of those with label 1 where there are labels.
        recommended: how many of these were recommended to be accepted, by group.
        past, past_recommended: the same of all periods before.
        open: decisions of all periods whose label is awaited, by group, recommendation and decision.
        open_now: how many of them are of this period.
        prompt: whether every label of this period came before the next decision; ``assumption_held``: whether that and
            the assumption held in all periods before.

    Args:
        shield: a policy as synthesised for several groups, or by ``separable``; or a dynamic shield, which makes one
            for every period.
    """

    def __init__(self, shield: ShieldPolicy | PeriodicShield) -> None:
        self._periodic = shield if isinstance(shield, PeriodicShield) and shield.plan.kind == "dynamic" else None
        plan = shield.plan
        self._planned_from: Counters = plan.start
        self.certain = True
        policy = shield.begin().policy if isinstance(shield, PeriodicShield) else shield
        self.policy = policy
        self.groups = plan.inputs.groups
        self.costs = plan.inputs.costs
        self.labelled, self.label_wait = plan.property.labelled, plan.label_wait
        self.horizon = plan.horizon
        self.bounds = welfare_bounds_of(plan) if policy.actions.form == "separate" else None
        self._plan_period(plan.start)
        several = len(self.groups)
        self.period = self.step = self.open_now = 0
        self.counters = [0] * (2 * several)
        self.recommended = [0] * several
        self.past = list(plan.start)
        self.past_recommended = list(plan.start[1::2])
        self.open = [0] * (4 * several)
        self.prompt = True
        held = self.bounds is None or self.bounds.holds(plan.start[::2], plan.start[1::2]).all()
        self.assumption_held = bool(held)

    @property
    def digest(self) -> str:
        """See `ShieldState`; a dynamic shield decides by who is expected, too."""
        return self.policy.digest if self._periodic is None else plan_digest(self._periodic.plan)

    @property
    def has_guarantee(self) -> bool:
        """Whether the end is fair for every order of people: within welfare bounds that depends on the order."""
        return self.prompt and self.bounds is None and self.certain

    def _plan_period(self, past: Counters) -> None:
        """Take up the policy of the period that begins after these counters."""
        if self._periodic is not None:
            period = self._periodic.begin(past)
            self.policy, self.certain = period.policy, period.guaranteed
        self._planned_from = past
        self._level = self.policy.actions.level

    def plan_ahead(self, state: Mapping[str, Any] | None = None) -> Callable[[], None] | None:
        """Return what makes the plans that the next decision needs, as in `PeriodicShieldState`; None if there are."""
        periodic = self._periodic
        if periodic is None:
            return None
        if state is None:
            needed = [tuple(_add_counters(self.past, self.counters))] if self.step == self.horizon else []
        else:
            needed = [tuple(state["planned"])]
            if state["step"] == self.horizon:
                needed.append(tuple(_add_counters(state["past"], state["counters"])))
        missing = [past for past in needed if not periodic.has_period_for(past)]

        def make() -> None:
            for past in missing:
                periodic.begin(past)

        return make if missing else None

    def decide(self, group: int, recommendation: int, cost: float) -> int:
        """See `ShieldState.decide`."""
        if self.step == self.horizon:
            if self.bounds is None and self._periodic is None:
                raise past_horizon_error(self.horizon)
            self._begin_period()
        if self.open_now:
            self.prompt = False
        level = self._level(self.step, *self.counters, group)
        decision = apply_level(level, recommendation, cost, self.costs)
        code = 4 * group + 2 * recommendation + decision
        self.step += 1
        if self.labelled:
            self.open[code] += 1
            self.open_now += 1
        else:
            _count_decision(self.counters, self.recommended, code)
        return 4 * len(self.groups) * self.period + code

    def _begin_period(self) -> None:
        self.assumption_held = self._assumption_holds_now()
        self.past = _add_counters(self.past, self.counters)
        self.past_recommended = _add_counters(self.past_recommended, self.recommended)
        self.counters, self.recommended = [0] * len(self.counters), [0] * len(self.recommended)
        # Labels of earlier periods that are still open can make a fair end impossible.
        self.prompt = self._periodic is None or not any(self.open)
        self.step, self.open_now = 0, 0
        self.period += 1
        self._plan_period(tuple(self.past))

    def _assumption_holds_now(self) -> bool:
        """Return whether the assumption held in this period, which is at its end, and in all before."""
        least = 0 if self.bounds is None else self.bounds.least_seen
        kept = self.assumption_held and self.prompt and self.certain and not self.open_now
        return kept and min(self.counters[::2]) >= least

    def _assumption_holds_so_far(self) -> bool:
        """Return whether the assumption held in all periods before, and held in this one or still can."""
        if self.step == self.horizon:
            return self._assumption_holds_now()
        least = 0 if self.bounds is None else self.bounds.least_seen
        missing = sum(max(0, least - count) for count in self.counters[::2])
        return (
            self.assumption_held
            and self.prompt
            and self.certain
            and missing <= self.horizon - self.step + self.open_now
        )

    def observe(self, code: int, label: int) -> None:
        """See `ShieldState.observe`."""
        period, inner = divmod(code, 4 * len(self.groups))
        now = period == self.period
        self.open[inner] -= 1
        self.open_now -= now
        if label:
            _count_decision(
                self.counters if now else self.past, self.recommended if now else self.past_recommended, inner
            )

    def state(self) -> dict[str, Any]:
        """See `ShieldState.state`."""
        return {
            "period": self.period,
            "step": self.step,
            "counters": list(self.counters),
            "recommended": list(self.recommended),
            "past": list(self.past),
            "past_recommended": list(self.past_recommended),
            "open": list(self.open),
            "open_now": self.open_now,
            "prompt": self.prompt,
            "held": self.assumption_held,
            **({} if self._periodic is None else {"planned": list(self._planned_from)}),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `ShieldState.restore`."""
        several = len(self.groups)
        counters, past, recommended, past_recommended, open_ = (
            check_counts(read_numbers(state, name, length))
            for name, length in (
                ("counters", 2 * several),
                ("past", 2 * several),
                ("recommended", several),
                ("past_recommended", several),
                ("open", 4 * several),
            )
        )
        period, step, open_now = check_counts([state.get("period"), state.get("step"), state.get("open_now")])
        known = sum(counters[::2]) + open_now
        possible = all(
            max(accepted, suggested) <= seen
            for both, suggestions in ((counters, recommended), (past, past_recommended))
            for seen, accepted, suggested in zip(both[::2], both[1::2], suggestions, strict=True)
        )
        if not possible or step > self.horizon or known > step or (not self.labelled and known != step):
            raise invalid_state_error("its counters contradict each other")
        if open_now > sum(open_) or {state.get("prompt"), state.get("held")} - {True, False}:
            raise invalid_state_error("it does not say which labels are open")
        if self._periodic is not None:
            self._plan_period(tuple(check_counts(read_numbers(state, "planned", 2 * several))))
        self.counters, self.past, self.recommended = counters, past, recommended
        self.past_recommended, self.open = past_recommended, open_
        self.period, self.step, self.open_now = period, step, open_now
        self.prompt, self.assumption_held = state["prompt"], state["held"]

    def certificate(self, *, exact: bool = False) -> ShieldCertificate:
        """See `ShieldState.certificate`; ``exact`` makes no difference here."""
        kept = self.policy.plan.property
        totals = _add_counters(self.past, self.counters)
        suggested = list(totals)
        # The same people, accepted as recommended: every second counter is one of accepted.
        suggested[1::2] = _add_counters(self.past_recommended, self.recommended)
        shielded, unshielded = self._worst_bias(totals, (0, 1)), self._worst_bias(suggested, (1, 1))
        done = self.step == self.horizon
        held = self._assumption_holds_so_far()
        bound: Fraction | None = None
        if done:
            bound, how = shielded, "counted over all decisions"
        elif not self.prompt:
            how = "labels came too late"
        elif not self.certain:
            how = "no shield can make sure of a fair end of this period"
        elif self._periodic is not None:
            bound, how = kept.kappa, "every end of this period is fair with all before it"
        elif self.bounds is None:
            bound, how = kept.kappa, "every run of this shield ends fair (Theorem 1)"
        else:
            how = "it depends on how many of each group come in this period"
        assumed = []
        goes_on = self.bounds is not None or self._periodic is not None
        if goes_on:
            assumed.append(describe_assumption(self.policy.plan, self.bounds) or "")
        if self.labelled:
            assumed.append(PROMPT_LABELS)
        assumption = ", and ".join(assumed)
        later = kept.kappa if goes_on and held else None
        if self.labelled and bound is not None and not done:
            how += f", as long as {PROMPT_LABELS}"
        return ShieldCertificate(
            keeps=kept.words(),
            kappa=kept.kappa,
            step=self.step,
            horizon=self.horizon,
            period=self.period,
            shielded=shielded,
            unshielded=unshielded,
            open_labels=sum(self.open),
            bound=bound,
            exact=done,
            later=later,
            how=how,
            how_later="" if not goes_on else explain_later(assumption, held=held, bound=later),
            assumption=assumption,
            assumption_held=held if assumed else None,
        )

    def _worst_bias(self, counters: list[int], by: tuple[int, int]) -> Fraction:
        """The largest bias between two groups; ``by``: the bits of the recommendation or the decision of a code."""
        waiting = [0] * (2 * len(self.groups))
        # Codes are 4 * group + 2 * recommendation + decision.
        for code, count in enumerate(self.open):
            waiting[2 * (code >> 2) + (code >> by[0] & by[1])] += count
        return max(
            worst_bias(
                self.policy.plan.property,
                (counters[2 * one], counters[2 * one + 1], counters[2 * other], counters[2 * other + 1]),
                (waiting[2 * one], waiting[2 * one + 1], waiting[2 * other], waiting[2 * other + 1]),
            )
            for one, other in combinations(range(len(self.groups)), 2)
        )


def _count_decision(counters: list[int], recommended: list[int], code: int) -> None:
    group = code >> 2
    counters[2 * group] += 1
    counters[2 * group + 1] += code & 1
    recommended[group] += code >> 1 & 1


def _add_counters(old: Iterable[int], new: Iterable[int]) -> list[int]:
    return [one + other for one, other in zip(old, new, strict=True)]
