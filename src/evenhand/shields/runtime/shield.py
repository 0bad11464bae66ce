"""Running shields, which make one decision after another in a few microseconds each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import prod
from operator import add
from sys import maxsize
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from evenhand.core.canonical_json import hash_json
from evenhand.core.typing import Integers
from evenhand.errors import DecisionError
from evenhand.shields.policy.periodic import PeriodicShield, ShieldPeriod, always_ends_fair
from evenhand.shields.policy.policy import ShieldPolicy, apply_level
from evenhand.shields.runtime.certificate import (
    PROMPT_FROM_HERE,
    PROMPT_LABELS,
    ShieldCertificate,
    bound_period_bias,
)
from evenhand.shields.runtime.reachable_states import (
    LiveStates,
    find_live_states,
    has_live_states,
    reachable_end_states,
    worst_bias_among,
)
from evenhand.shields.spec.ends import (
    WelfareBounds,
    describe_assumption,
    end_values_of,
    welfare_bounds_of,
    why_nothing_is_required,
)
from evenhand.shields.spec.plan import Counters

STATE_VERSION = 2
"""Version of the state format."""

MAX_OUTCOMES = 100_000
"""Maximum number of outcomes of open labels that a decision examines."""

MAX_VOTES = 4096
"""Maximum number of outcomes whose levels are compared if both decisions leave equally many outcomes live."""

_BINARY_VALUES = {0: 0, 1: 1}

_Bounds: TypeAlias = tuple[Fraction | None, bool, str, Fraction | None, str, str, bool]
"""Results of `Shield._bound` and `Shield._bound_later`."""


def _binary_value(value: Any) -> int | None:
    """Return a value as 0 or 1. None if it is neither."""
    try:
        return _BINARY_VALUES.get(value)
    except TypeError:
        return None


class DecisionReason(StrEnum):
    """Reason for a decision."""

    words: str
    """Description of the reason."""

    FOLLOWED = "followed", "The recommendation is followed."
    ACCEPTED = (
        "accepted",
        "Accepted against the recommendation, to keep the bias within its bound at the least cost.",
    )
    REJECTED = (
        "rejected",
        "Rejected against the recommendation, to keep the bias within its bound at the least cost.",
    )
    WOULD_ACCEPT = "would-accept", "The recommendation is followed; a shield in force would have accepted."
    WOULD_REJECT = "would-reject", "The recommendation is followed; a shield in force would have rejected."

    def __new__(cls, value: str, words: str = "") -> DecisionReason:
        reason = str.__new__(cls, value)
        reason._value_, reason.words = value, words
        return reason


class Decision(NamedTuple):
    """Decision of a shield.

    Attributes:
        decision: 1 to accept, 0 to reject. In advisory mode, it equals the recommendation.
        intervened: Whether the decision differs from the recommendation.
        reason: Reason for the decision.
        guaranteed: Whether the bound still holds (see `ShieldCertificate`). False in advisory mode.
    """

    decision: int
    intervened: bool
    reason: DecisionReason
    guaranteed: bool


def _build_decisions(advisory: bool, guaranteed: bool) -> tuple[Decision, ...]:
    """Build the result for each recommendation and decision once, for speed."""
    against = (
        (DecisionReason.WOULD_REJECT, DecisionReason.WOULD_ACCEPT)
        if advisory
        else (DecisionReason.REJECTED, DecisionReason.ACCEPTED)
    )
    return tuple(
        Decision(
            recommendation if advisory else decision,
            decision != recommendation and not advisory,
            DecisionReason.FOLLOWED if decision == recommendation else against[decision],
            guaranteed and not advisory,
        )
        for recommendation in (0, 1)
        for decision in (0, 1)
    )


class Shield:
    """Shield that decides on one individual after another and keeps the bias within its bound.

    A shield has any number of groups, and one horizon or successive periods. It is not thread-safe, because each
    decision depends on all earlier ones. An error leaves the state unchanged.

    A period begins with its first decision, so that labels of the previous period can still arrive. They are counted
    with their own period. Recommendations are counted too, so that the bias without the shield is known.

    With labels (equal opportunity) and two groups, a decision made while earlier labels are open examines their
    outcomes. The shield chooses the decision after which more outcomes can still end fair. In a tie it chooses the
    decision that the policy takes for most outcomes. If there are more than `MAX_OUTCOMES` outcomes (`MAX_VOTES` in a
    tie), only evenly spread ones are examined, and there is no guarantee until fewer are left. This bounds the cost of
    a decision. With more groups, such a decision takes only the known labels into account and ends the guarantee of its
    period.

    Args:
        policy: Synthesised shield, of one horizon or of periods.
        advisory: Whether to follow every recommendation and only count the interventions that an enforcing shield would
            make. Nothing is guaranteed then.

    Attributes:
        groups: Names of the groups in the order of the plan.
        policy: Policy of the period.
        period: Number of the period, from 0.
        step: Decisions made in the period.
        counters: Seen and accepted people of each group in the period; with labels, only those with label 1.
        recommended: People among them with a recommendation to accept, by group.
        open: Numbers of decisions of the period whose label is open, by 4 * group + 2 * recommendation + decision.
        past, past_recommended, past_open: The same for all earlier periods, including the plan's start.
        prompt: Whether every label of the period arrived before the next decision.
        assumption_held: Whether the assumption held in all earlier periods, with prompt labels.
        labelled: Whether decisions need an ID for their label.
        has_guarantee: Whether the period is guaranteed to end fair if all further labels are prompt.
        expired_labels: Number of decisions whose label did not arrive within the plan's ``label_wait`` decisions.
        interventions: Number of decisions against the recommendation.
        cost: Sum of their costs.
    """

    expired_labels = interventions = 0
    cost = 0.0

    def __init__(self, policy: ShieldPolicy | PeriodicShield, *, advisory: bool = False) -> None:
        if isinstance(policy, ShieldPolicy) and policy.makes_own_periods:
            policy = PeriodicShield(policy.plan)
        plan = policy.plan
        self._shield, self.advisory = policy, advisory
        self._property_words = plan.property.words()
        self.groups, self.costs = plan.inputs.groups, plan.inputs.costs
        self.labelled, self.label_wait, self.horizon = plan.property.labelled, plan.label_wait, plan.horizon
        self._group = {name: position for position, name in enumerate(self.groups)}
        self._max_cost = self.costs[-1]
        # The argument ``cost`` is optional if there is only one cost.
        self._single_cost = self.costs[0] if len(self.costs) == 1 else None
        # Only properties with labels have pending IDs.
        self._wait = self.label_wait if self.labelled else maxsize
        self._decisions = (_build_decisions(advisory, False), _build_decisions(advisory, True))
        self._ids = DecisionIds()
        self._live_states: LiveStates | None = None
        self._terminal: Any = None
        self.past, self.past_recommended = plan.start, list(plan.start[1::2])
        self.past_open = [0] * (4 * len(self.groups))
        self._assumption: str | None = ""
        self.assumption_held = True
        self._set_period(self._begin_period(self.past))
        bounds = welfare_bounds_of(plan) if self.policy.actions.form == "separate" else None
        self._has_later_periods = isinstance(policy, PeriodicShield) or bounds is not None
        if isinstance(policy, PeriodicShield):
            self._assumption, self.assumption_held = policy.assumption, policy.assumption_held_at_start
        elif bounds is not None:
            self._assumption = describe_assumption(plan, bounds)
            self.assumption_held = bool(bounds.holds(plan.start[::2], plan.start[1::2]).all())
        self._examines_outcomes = self.labelled and self._compares_two
        self.period = 0
        self._clear_counters()

    @property
    def _compares_two(self) -> bool:
        """Whether one table decides on two groups, so that every state of a period can be examined."""
        return len(self.groups) == 2 and self.policy.actions.form != "separate"

    @cached_property
    def policy_digest(self) -> str:
        """Digest of the policy, see `ShieldPolicy.running_digest`."""
        shield = self._shield
        is_planned = isinstance(shield, PeriodicShield) and shield.plan.makes_periods
        return shield.plan.digest if is_planned else self.policy.digest

    # Periods.

    def _begin_period(self, past: Counters) -> ShieldPeriod:
        """Return the period that begins after these counters."""
        shield = self._shield
        if isinstance(shield, PeriodicShield):
            return shield.begin(past)
        if shield.actions.form == "separate":
            return ShieldPeriod(shield, past, None, False, welfare_bounds_of(shield.plan))
        return ShieldPeriod(shield, past, end_values_of(shield.plan), True, True)

    def _set_period(self, now: ShieldPeriod) -> None:
        """Continue with the policy of a period, from the same counters."""
        self._now, self.policy, self._planned_from = now, now.policy, now.start
        self._level = now.policy.actions.level
        terminal = end_values_of(now.policy.plan) if now.end is None else now.end
        if terminal != self._terminal:
            self._terminal, self._live_states = terminal, None
        self._sound = now.policy.plan.kind != "greedy"
        self._period_bound: Fraction | None = None

    def _clear_counters(self) -> None:
        """Begin the counters of a period."""
        groups = len(self.groups)
        self.step = 0
        self.counters, self.recommended, self.open = [0] * (2 * groups), [0] * groups, [0] * (4 * groups)
        self.prompt, self._live = True, self._sound
        self._first_code = len(self.open) * self.period
        self._update_past()

    def _update_past(self) -> None:
        """Update the guarantee and everything that depends on the past."""
        # With more than two groups, labels of earlier periods do not change the plan of the current one.
        self._past_is_known = not any(self.past_open) and self._planned_from == self.past
        self._stays_fair = always_ends_fair(self._shield.plan, self.past)
        self._update_guarantee()

    def _update_guarantee(self) -> None:
        self._careful = any(self.open) or (self._sound and not self._live)
        self.has_guarantee = self._now.guaranteed and self._live and self._past_is_known
        self._bounds: _Bounds | None = None

    def _begin_next_period(self) -> None:
        if not self._has_later_periods:
            raise DecisionError(
                f"all {self.horizon} decisions of the horizon have been made",
                code="horizon",
                hint="create a new shield, or use a periodic one",
            )
        past, now = tuple(map(add, self.past, self.counters)), self._now
        following = self._begin_period(past)
        kept_assumption = bool(now.assumption_held(*self.counters[::2]))
        self.assumption_held = self.assumption_held and self.prompt and not any(self.open) and kept_assumption
        self.past = past
        self.past_recommended = list(map(add, self.past_recommended, self.recommended))
        self.past_open = list(map(add, self.past_open, self.open))
        self._set_period(following)
        self.period += 1
        self._clear_counters()
        # IDs of the old period that do not await a label are discarded.
        self._ids.settled.clear()
        if not self.labelled:
            self._ids.pending.clear()

    # Decisions and labels.

    def decide(self, group: str, recommendation: int, cost: float | None = None, id: Id | None = None) -> Decision:
        """Decide on an individual.

        Args:
            group: Name of the group.
            recommendation: Recommendation of the classifier, 1 to accept and 0 to reject.
            cost: Cost of an override. A cost between two costs of the plan is rounded up. Optional if the plan has a
                single cost.
            id: ID for the later label, a string or an integer. Required for equal opportunity. Repeated IDs are
                refused, within a period and while a label is open.

        Raises:
            DecisionError: An argument is invalid, or the horizon has been reached; nothing changed.
        """
        try:
            position = self._group[group]
            recommended = _BINARY_VALUES[recommendation]
            if cost is None:
                price = self._single_cost
                if price is None:
                    self._refuse_input(group, recommendation, cost)
            else:
                price = float(cost)
                if not 0.0 <= price <= self._max_cost:
                    self._refuse_input(group, recommendation, cost)
        except (KeyError, TypeError, ValueError):
            self._refuse_input(group, recommendation, cost)
        if id is not None:
            self._ids.check(id)
        elif self.labelled:
            raise DecisionError("a decision without an id cannot receive its label later", code="id", hint="pass an id")
        step = self.step
        if step == self.horizon:
            self._begin_next_period()
            step = 0
        counters = self.counters
        if self._careful:
            decision = self._decide_carefully(position, recommended, price)
        else:
            level = self._level(step, counters, position)
            decision = apply_level(level, recommended, price, self.costs) if level else recommended
        # The label of the decision needs the whole code.
        code = 4 * position + 2 * recommended + decision
        self.step = step + 1
        if self.labelled:
            self.open[code] += 1
            self._careful = True
        else:
            counters[2 * position] += 1
            if decision:
                counters[2 * position + 1] += 1
            if recommended:
                self.recommended[position] += 1
        if id is not None:
            pending = self._ids.pending
            pending[id] = self._first_code + code
            if len(pending) > self._wait:
                # A decision with label 0 is not counted.
                self._observe(self._ids.expire_oldest(), 0)
                self.expired_labels += 1
        if decision != recommended:
            self.interventions += 1
            self.cost += price
        return self._decisions[self.has_guarantee][code & 3]

    def _refuse_input(self, group: object, recommendation: object, cost: object) -> NoReturn:
        """Raise the error for the first invalid argument."""
        names = ", ".join(self._group)
        if not isinstance(group, str) or group not in self._group:
            raise DecisionError(f"unknown group {group!r}", code="group", hint=f"one of {names}")
        if _binary_value(recommendation) is None:
            raise DecisionError(
                f"the recommendation {recommendation!r} is not 0 or 1", code="recommendation", hint="pass 0 or 1"
            )
        if cost is None:
            raise DecisionError(
                "the cost of an override is missing",
                code="cost",
                hint=f"this shield supports costs up to {self._max_cost:g}",
            )
        raise DecisionError(
            f"the cost {cost!r} is not a number from 0 to {self._max_cost:g}",
            code="cost",
            hint="pass a cost in the range of the plan",
        )

    def observe(self, id: Id, label: int) -> None:
        """Record the true label of a decision: 1 if acceptance was correct.

        Raises:
            DecisionError: The property needs no labels, no decision has this ID, its label is known or expired, or the
                label is not 0 or 1; nothing changed.
        """
        if not self.labelled:
            raise DecisionError("this shield's property does not depend on labels", code="label", hint="omit the label")
        code, value = self._ids.find_pending(id, label)
        self._observe(code, value)
        self._ids.settle(id, value)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values, for `load` and `restore`."""
        state = {
            "format": "evenhand-shield-state",
            "version": STATE_VERSION,
            "policy": self.policy_digest,
            "advisory": self.advisory,
            "course": self.counts(),
            "interventions": self.interventions,
            "cost": self.cost,
            **({"expired": self.expired_labels} if self.expired_labels else {}),
            "ids": [*map(list, self._ids.settled.items()), *map(list, self._ids.pending.items())],
        }
        return {**state, "checksum": hash_json(state)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load a state of a shield with the same policy and mode.

        Raises:
            DecisionError: The state is invalid, damaged, or belongs to another policy or mode; nothing changed.
        """
        if not isinstance(state, Mapping) or state.get("format") != "evenhand-shield-state":
            raise _state_error("this is not a state of a shield")
        if state.get("version") != STATE_VERSION:
            raise _state_error(f"expected a state of version {STATE_VERSION}, got version {state.get('version')!r}")
        if state.get("policy") != self.policy_digest:
            raise _state_error(
                "the state belongs to another policy", "restore it with the policy that it was saved with"
            )
        if state.get("advisory") != self.advisory:
            raise _state_error("the state was saved in another mode", "restore it with the same value of advisory")
        try:
            damaged = state.get("checksum") != hash_json({key: state[key] for key in state if key != "checksum"})
        except (TypeError, ValueError):
            damaged = True
        if damaged:
            raise _state_error("the state is damaged: its checksum does not match its content")
        ids, course = state.get("ids"), state.get("course")
        counted, spent, expired = state.get("interventions"), state.get("cost"), state.get("expired", 0)
        if (
            not isinstance(ids, list)
            or not all(_is_log_entry(entry) for entry in ids)
            or not isinstance(course, Mapping)
        ):
            raise _state_error("the state lacks `ids` or `course`")
        if counted.__class__ is not int or expired.__class__ is not int or not isinstance(spent, (int, float)):
            raise _state_error("the state lacks the number or the cost of the interventions")
        self._restore_counts(course)
        self._ids = DecisionIds((key, code) for key, code in ids)
        self.interventions, self.cost, self.expired_labels = counted, float(spent), expired

    @classmethod
    def restore(cls, policy: ShieldPolicy | PeriodicShield, state: Mapping[str, Any]) -> Shield:
        """Build a shield in a saved state.

        Raises:
            DecisionError: As for `load`.
        """
        shield = cls(policy, advisory=isinstance(state, Mapping) and state.get("advisory") is True)
        shield.load(state)
        return shield

    def _observe(self, code: int, label: int) -> None:
        """Record the label of a decision, identified by the code in `DecisionIds`."""
        now = code - self._first_code
        if now < 0:
            self._observe_past(code % len(self.open), label)
            return
        self.open[now] -= 1
        if label:
            _count_decision(self.counters, self.recommended, now)
        if self._live:
            self._careful = any(self.open)
            return
        if self._examines_outcomes and self._sound:
            self._live = self._all_live()
        self._update_guarantee()

    def _observe_past(self, code: int, label: int) -> None:
        """Record a label of an earlier period. A label of 1 changes the counters that the current period began with."""
        if label:
            past, recommended = list(self.past), list(self.past_recommended)
            _count_decision(past, recommended, code)
            if len(self.groups) == 2:
                self._set_period(self._begin_period(tuple(past)))
                if self._examines_outcomes and self._sound:
                    self._live = self._all_live()
            self.past, self.past_recommended = tuple(past), recommended
        self.past_open[code] -= 1
        self._update_past()

    def plan_decision(self, state: Mapping[str, Any] | None = None) -> Callable[[], None] | None:
        """Return a function that computes the missing plans of the next decision; None if nothing is missing.

        It may run in another thread while this shield is not used.

        Args:
            state: Counts to be restored. If None, the shield continues from its own.
        """
        shield, later = self._shield, self.counts() if state is None else state
        needed = [] if state is None else [tuple(later["planned"])]
        if later["step"] == self.horizon:
            needed.append(tuple(map(add, later["past"], later["counters"])))
        if isinstance(shield, PeriodicShield) and shield.plan.plans_periods:
            missing = [past for past in needed if not shield.has_period_for(past)]
            if missing:

                def compute() -> None:
                    for past in missing:
                        shield.begin(past)

                return compute
        careful = any(later["open"]) or not later["prompt"]
        now = self if state is None else Shield(shield)
        if state is not None:
            now._set_period(self._begin_period(tuple(later["planned"])))
        return now._plan_live_states() if careful else None

    def plan_label(self, id: Id, label: int) -> Callable[[], None] | None:
        """Return a function that computes the missing plan of the next label. None if nothing is missing.

        A label of 1 of an earlier period changes the counters that the current one began with.
        """
        pending = self._ids.pending.get(id)
        if pending is None or label != 1:
            return None
        shield = self._shield
        period, code = divmod(pending, len(self.open))
        past = list(self.past)
        _count_decision(past, list(self.past_recommended), code)
        if (
            period == self.period
            or len(self.groups) > 2
            or not isinstance(shield, PeriodicShield)
            or not shield.plan.plans_periods
            or shield.has_period_for(tuple(past))
        ):
            return None

        def compute() -> None:
            now = Shield(shield)
            now._set_period(shield.begin(tuple(past)))
            live_states = now._plan_live_states()
            if live_states is not None:
                live_states()

        return compute

    # Outcomes of open labels, over two groups.

    def _plan_live_states(self) -> Callable[[], None] | None:
        """Return a function that computes the live states; None if they are known or not needed."""
        cached = self._live_states or has_live_states(self._terminal, self.horizon, self.policy.plan.times)
        if cached or not self._examines_outcomes or not self._sound:
            return None

        def compute() -> None:
            self._all_live()  # compiles its kernel, too

        return compute

    def _find_live_states(self) -> LiveStates:
        if self._live_states is None:
            self._live_states = find_live_states(self._terminal, self.horizon, self.policy.plan.times)
        return self._live_states

    @property
    def open_labels(self) -> list[int]:
        """Open decisions of the period: rejected and accepted ones of each group."""
        return _count_by_bit(self.open, 0)

    def _all_live(self) -> bool:
        """Return whether all outcomes of the open labels allow a fair end; False if there are too many to examine."""
        number = prod(count + 1 for count in self.open_labels)
        if number > MAX_OUTCOMES:
            return False
        return (
            self._find_live_states().count(self.step, tuple(self.counters), self._spread_outcomes(number))[0] == number
        )

    def _spread_outcomes(self, limit: int) -> list[Integers]:
        """Return possible numbers of labels 1 among the open decisions of each kind, evenly spaced if many."""
        open_labels = self.open_labels
        longest = max(open_labels) + 1
        while prod(min(count + 1, longest) for count in open_labels) > limit:
            longest -= 1
        return [np.linspace(0, count, min(count + 1, longest)).round().astype(np.int64) for count in open_labels]

    def outcomes(self, limit: int | None = None) -> Integers:
        """Return the possible counters once the open labels are known, shape (outcomes, 4).

        Args:
            limit: Maximum number of outcomes, which are evenly spaced if there are more. If None, all of them.
        """
        spread = self._spread_outcomes(limit or prod(count + 1 for count in self.open_labels))
        rejected_a, accepted_a, rejected_b, accepted_b = np.stack(np.meshgrid(*spread, indexing="ij")).reshape(4, -1)
        added = [rejected_a + accepted_a, accepted_a, rejected_b + accepted_b, accepted_b]
        outcomes: Integers = np.stack(added, axis=1) + np.array(self.counters)
        return outcomes

    def _decide_carefully(self, group: int, recommendation: int, cost: float) -> int:
        """Return the decision while labels are open or after the guarantee is lost."""
        if any(self.open):
            self.prompt = False
        if not self._examines_outcomes:
            self._live = self._live and self.prompt
            self._update_guarantee()
            return apply_level(self._level(self.step, self.counters, group), recommendation, cost, self.costs)
        alive = (0, 0)
        if self._sound:
            # The label of this decision is still unknown, so a fair end must be reachable for both labels.
            spread = self._spread_outcomes(MAX_OUTCOMES)
            alive = self._find_live_states().count(self.step + 1, tuple(self.counters), spread, group=group)
        if alive[0] != alive[1]:
            decision = int(alive[1] > alive[0])
        else:
            outcomes = self.outcomes(MAX_VOTES)
            groups = np.full(len(outcomes), group)
            levels = self.policy.actions.levels(self.step, outcomes[:, ::2].T, outcomes[:, 1::2].T, groups)
            against = sum(
                times * (apply_level(int(level), recommendation, cost, self.costs) != recommendation)
                for level, times in zip(*np.unique(levels, return_counts=True), strict=True)
            )
            decision = recommendation ^ int(2 * against > len(outcomes))
        counts = self.open_labels
        number = prod(count + 1 for count in counts)
        counts[2 * group + decision] += 1
        examined = prod(count + 1 for count in counts) <= MAX_OUTCOMES
        self._live = self._sound and examined and alive[decision] == number
        self._update_guarantee()
        return decision

    # Saved states.

    def counts(self) -> dict[str, Any]:
        """Return everything that changes as JSON values, except IDs and the cost of interventions."""
        return {
            "period": self.period,
            "step": self.step,
            "counters": list(self.counters),
            "recommended": list(self.recommended),
            "open": list(self.open),
            "prompt": self.prompt,
            "past": list(self.past),
            "past_recommended": list(self.past_recommended),
            "past_open": list(self.past_open),
            "held": self.assumption_held,
            "planned": list(self._planned_from),
        }

    def _restore_counts(self, state: Mapping[str, Any]) -> None:
        """Load a state that `counts` returned."""
        groups = len(self.groups)
        counters, past, planned = (_read_counts(state, name, 2 * groups) for name in ("counters", "past", "planned"))
        recommended, past_recommended = (
            _read_counts(state, name, groups) for name in ("recommended", "past_recommended")
        )
        open_, past_open = (_read_counts(state, name, 4 * groups) for name in ("open", "past_open"))
        period, step = _check_counts([state.get("period"), state.get("step")])
        if {state.get("prompt"), state.get("held")} - {True, False}:
            raise _state_error("prompt and held of the state must be true or false")
        possible = all(
            max(accepted, suggested) <= size
            for both, suggestions in ((counters, recommended), (past, past_recommended), (planned, planned[1::2]))
            for size, accepted, suggested in zip(both[::2], both[1::2], suggestions, strict=True)
        )
        total = sum(counters[::2]) + sum(open_)
        if not possible or total > step or (not self.labelled and total != step):
            raise _state_error("the counters of the state are inconsistent")
        if step > self.horizon:
            raise _state_error(f"{step} decisions in the state exceed the horizon of {self.horizon}")
        start = self._shield.plan.start
        if not self._has_later_periods and (period or any(past_open) or tuple(past) != start):
            raise _state_error("the state has several periods, and this shield has one")
        if tuple(planned) != tuple(past) and groups == 2:
            raise _state_error("the period of the state was planned from different counters than its past")
        self._set_period(self._begin_period(tuple(planned)))
        self.period, self.step, self.counters, self.recommended, self.open = period, step, counters, recommended, open_
        self.past, self.past_recommended, self.past_open = tuple(past), past_recommended, past_open
        self.prompt, self.assumption_held = state["prompt"], state["held"]
        self._first_code = len(open_) * period
        self._live = self._sound and (self.prompt or (self._examines_outcomes and self._all_live()))
        self._update_past()

    # Certificates.

    def certificate(self, *, exact: bool = False) -> ShieldCertificate:
        """Bound the future bias, with the assumption of the bound.

        Args:
            exact: Whether to compute the smallest bound over all futures, which may take seconds far from the end.
                Supports two groups.

        Raises:
            LimitError: ``exact`` is set, and the end is too far away.
        """
        fairness = self._shield.plan.property
        all_open = tuple(map(add, self.past_open, self.open)) if self.labelled else ()
        totals = list(map(add, self.past, self.counters))
        shielded = fairness.bias(*totals, open_labels=all_open and _count_by_bit(all_open, 0))
        totals[1::2] = map(add, self.past_recommended, self.recommended)
        unshielded = fairness.bias(*totals, open_labels=all_open and _count_by_bit(all_open, 1))
        if self.step == self.horizon:
            how = f"counted over all decisions{', whatever the open labels turn out to be' if any(all_open) else ''}"
            bounds: _Bounds = (shielded, True, how, *self._bound_later())
        elif exact or self.labelled or not isinstance(self._now.rule, bool):
            # Labels, and an assumption about who arrives, change the bounds with every decision.
            bounds = (*self._bound(exact), *self._bound_later())
        else:
            bounds = self._bounds = self._bounds or (*self._bound(exact), *self._bound_later())
        bound, attained, how, later, how_later, assumption, possible = bounds
        if self.advisory:
            bound, attained, later, how = None, False, None, "recommendations are followed (advisory mode)"
            how_later = how if how_later else ""
        return ShieldCertificate(
            keeps=self._property_words,
            kappa=fairness.kappa,
            step=self.step,
            horizon=self.horizon,
            period=self.period,
            bias=unshielded if self.advisory else shielded,
            shielded=shielded,
            unshielded=unshielded,
            open_labels=sum(all_open),
            bound=bound,
            exact=attained,
            later=later,
            how=how,
            how_later=how_later,
            assumption=assumption,
            assumption_held=possible if assumption else None,
            advisory=self.advisory,
            expired_labels=self.expired_labels,
        )

    def _bound(self, exact: bool) -> tuple[Fraction | None, bool, str]:
        """Return the bound on the bias at the end of this period, whether it is attained, and its reason.

        Args:
            exact: Whether to compute the smallest bound over all futures.
        """
        plan = self._shield.plan
        lost = not self._past_is_known or (self._sound and not self._live)
        attained = False
        bound: Fraction | None = None
        if exact and self._compares_two and not lost and (self._live or not self.labelled):
            ends = reachable_end_states(self.policy, self.step, self.outcomes())
            bound, attained = worst_bias_among(plan.property, ends + np.array(self.past)), True
            how = f"the largest over all futures{' in this period' if self._has_later_periods else ''}"
        elif self.has_guarantee and self._has_later_periods:
            bound, how = plan.property.kappa, "every end of this period is fair, counted with all earlier periods"
        elif self.has_guarantee:
            how = why_nothing_is_required(plan) or ""
            if not how:
                bound, how = plan.property.kappa, "every run of this shield ends fair (Theorem 1)"
        elif lost:
            how = "labels arrived too late"
        elif self._compares_two:
            if self._period_bound is None:
                self._period_bound = bound_period_bias(self._now, plan.property, self.past, self.horizon)
            bound, how = self._period_bound, "for all arrivals in this period"
        elif isinstance(self._now.rule, WelfareBounds):
            how = "it depends on how many people of each group arrive in this period"
        else:
            how = "no shield can guarantee a fair end of this period"
        if self.labelled and bound is not None:
            how += f", as long as {PROMPT_LABELS}"
        return bound, attained, how

    def _bound_later(self) -> tuple[Fraction | None, str, str, bool]:
        """Return the bound on the bias at the end of each later period, its reason, its assumption, and whether it
        has held and can still hold."""
        # Whether the past, or this period after its end, guarantees that every later period ends fair.
        settled = self._past_is_known and self._stays_fair and self._live
        if self._past_is_known and self.step == self.horizon:
            totals = tuple(map(add, self.past, self.counters))
            settled = always_ends_fair(self._shield.plan, totals) and not any(self.open)
        assumption, possible = "", True
        if not settled and self._assumption:
            assumption, possible = self._assumption, self.assumption_held
            if possible:
                sizes, left = tuple(self.counters[::2]), self.horizon - self.step
                codes = range(0, len(self.open), 4)
                open_labels = tuple(sum(self.open[code : code + 4]) for code in codes) if self.labelled else None
                possible = self._now.assumption_possible(sizes, left, open_labels)
        if self.labelled:
            labels = PROMPT_FROM_HERE if settled and not (self.prompt and self.assumption_held) else PROMPT_LABELS
            assumption = f"{assumption}, and {labels}" if assumption else labels
            possible = possible and (settled or (self.prompt and not any(self.past_open)))
        if not self._has_later_periods:
            return None, "", assumption, possible
        if self._assumption is None:
            return None, "this kind of shield guarantees nothing", assumption, possible
        if not possible:
            return None, f"an assumption has not held, or no longer can: {assumption}", assumption, possible
        if any(self.past_open):
            return None, "labels of earlier periods are open", assumption, possible
        how = f"as long as {assumption}" if assumption else "no later period can end differently"
        return self._shield.plan.property.kappa, how, assumption, possible


def _is_log_entry(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and entry[0].__class__ in (str, int)
        and entry[1].__class__ is int
        and entry[1] >= EXPIRED_CODE
    )


def _state_error(message: str, hint: str = "pass the unchanged result of Shield.state") -> DecisionError:
    return DecisionError(message, code="state", hint=hint)


def _count_decision(counters: list[int], recommended: list[int], code: int) -> None:
    group = code >> 2
    counters[2 * group] += 1
    counters[2 * group + 1] += code & 1
    recommended[group] += code >> 1 & 1


def _count_by_bit(codes: Sequence[int], bit: int) -> list[int]:
    """Count open decisions by group and by one bit of their code: 0 for the decision, 1 for the recommendation."""
    counts = [0] * (len(codes) // 2)
    for code, count in enumerate(codes):
        counts[2 * (code >> 2) + (code >> bit & 1)] += count
    return counts


def _read_counts(state: Mapping[str, Any], name: str, length: int) -> list[int]:
    """Read a list of counts from a state. The list is a copy, so the state is not modified."""
    numbers = state.get(name)
    if not isinstance(numbers, list) or len(numbers) != length:
        raise _state_error(f"{name} of the state must be a list of {length} numbers")
    return _check_counts(list(numbers))


def _check_counts(counts: list[Any]) -> list[int]:
    """Check that all counts are nonnegative integers, and return them."""
    if any(count.__class__ is not int or count < 0 for count in counts):
        raise _state_error("the counters of the state must be nonnegative integers")
    return counts


# IDs of decisions, and open labels.

Id = str | int

EXPIRED_CODE = -3
"""Code of a decision whose label expired; codes of known labels are -1 - label."""


class DecisionIds:
    """IDs of decisions, each with its code.

    Args:
        entries: IDs and codes in decision order.

    Attributes:
        pending: Codes of decisions that await a label, the oldest first; 0 or more.
        settled: Codes of decisions of this period whose label is known or expired, all negative.
    """

    def __init__(self, entries: Iterable[tuple[Id, int]] = ()) -> None:
        self.pending: dict[Id, int] = {}
        self.settled: dict[Id, int] = {}
        for key, code in entries:
            (self.pending if code >= 0 else self.settled)[key] = code

    def check(self, key: Id) -> None:
        """Check that an ID is new and can be stored in a file.

        Raises:
            DecisionError: The ID is neither a string nor an integer, or another decision has it.
        """
        if key.__class__ is not str and key.__class__ is not int:
            raise DecisionError(
                f"the id {key!r} is a {type(key).__name__}", code="id", hint="pass a text or a whole number"
            )
        if key in self.pending or key in self.settled:
            raise DecisionError(
                f"the id {key!r} already has a decision",
                code="repeated",
                hint="use the earlier decision; each id can only be decided once",
            )

    def find_pending(self, key: Id, label: object) -> tuple[int, int]:
        """Return the code of a decision, and its label as 0 or 1.

        Raises:
            DecisionError: No decision has this ID, its label is known or expired, or the label is not 0 or 1.
        """
        value = _binary_value(label)
        if value is None:
            raise DecisionError(f"the label {label!r} is not 0 or 1", code="label", hint="pass 0 or 1")
        try:
            code = self.pending.get(key, self.settled.get(key))
        except TypeError:
            code = None
        if code is None:
            raise DecisionError(
                f"no decision has the id {key!r}",
                code="unknown-id",
                hint="pass the id of a decision that this shield made and still remembers",
            )
        if code == EXPIRED_CODE:
            raise DecisionError(
                f"the label of {key!r} expired: too many decisions without a label followed it",
                code="expired",
                hint="raise `wait` under `labels` of the plan, the maximum number of decisions that await a label",
            )
        if code < 0:
            settled = -1 - code
            raise DecisionError(
                f"the label of {key!r} is known: {settled}"
                + ("" if settled == value else f"; the label {value} contradicts it"),
                code="repeated" if settled == value else "contradiction",
                hint="a label cannot be changed",
            )
        return code, value

    def settle(self, key: Id, label: int) -> None:
        """Record that the label of a decision is known."""
        del self.pending[key]
        self.settled[key] = -1 - label

    def expire_oldest(self) -> int:
        """Record that the oldest pending decision no longer awaits its label, and return its code."""
        key = next(iter(self.pending))
        self.settled[key] = EXPIRED_CODE
        return self.pending.pop(key)
