"""Shields that go on: one period after the other, with what was counted before.

``Periodic(plan)`` is the shield, ``begin(past)`` what it does in the period that begins after these counters. Nothing
else is carried from period to period, so that a shield is restored by its counters.

Source: Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields: Safeguarding against Biased Decision Makers,
AAAI 2025, section 4. The strict and soft ends and the convention for small groups in several periods are ours.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.shield.greedy import Greedy
from evenhand.shield.period_ends import Owed, Priced
from evenhand.shield.plan import PERIODIC, Counters, Plan
from evenhand.shield.policy import Policy
from evenhand.shield.separable import synthesize_separable
from evenhand.shield.synthesis.solve import Problem, Progress, solve
from evenhand.shield.terminal import Fair, Terminal, WithinBounds
from evenhand.shield.welfare import WelfareBounds, bounds_of

PRICE = 1000.0
"""What an unfair end costs under the soft end, in most expensive periods (every decision overridden at most cost)."""

REMEMBERED = 64 * 2**20
"""Bytes of tables of past periods that are kept in case the same counters come again."""


@dataclass(frozen=True)
class Period:
    """One period of a shield.

    Attributes:
        policy: what it does; its counters are those of this period alone, from 0. Where unfair ends have a price, its
            expected cost has that in it.
        start: counters of everything before, seen and accepted of each group.
        end: what the ends of the period are worth; None: nothing is asked of them, or every group has its own table.
        guaranteed: whether the period, with everything before, ends fair whatever comes.
    """

    policy: Policy
    start: Counters
    end: Terminal | None
    guaranteed: bool
    _rule: Owed | WelfareBounds | int | bool = field(repr=False)

    def held(self, *seen: Any) -> NDArray[np.bool_]:
        """Whether the period kept the assumption, given how many of each group were counted in it; arrays or numbers.

        If it did in this and all earlier periods, the end is fair.
        """
        counts = np.stack(np.broadcast_arrays(*seen))
        if isinstance(self._rule, Owed):
            return self._rule.owed(*counts)
        if isinstance(self._rule, WelfareBounds):
            return np.asarray(counts.min(axis=0) >= self._rule.least)
        if isinstance(self._rule, bool):
            return np.full(counts.shape[1:], self._rule)
        return np.asarray((2 * counts == self._rule).all(axis=0))


class Periodic:
    """A shield, period by period; over two groups, or within welfare bounds over more.

    Args:
        plan: ``static-fair``, ``static-bw``, ``dynamic`` or ``greedy``; a static shield does the same in every period.

    Raises:
        OptionError: the kind knows no periods, there are more than two groups, or the bounds do not fit.
    """

    def __init__(self, plan: Plan, *, progress: Progress | None = None) -> None:
        if plan.kind not in PERIODIC:
            raise OptionError(
                f"a shield of kind {plan.kind} ends at its horizon",
                where="kind",
                mend="static-fair, static-bw, dynamic and greedy shields go on",
            )
        if len(plan.inputs.groups) != 2 and plan.kind != "static-bw":
            raise OptionError(
                f"{plan.kind} shields are for two groups, and these are {len(plan.inputs.groups)}",
                where="groups",
                mend="several groups can be kept within welfare bounds each: kind static-bw",
            )
        self.plan = plan
        self._progress = progress
        self._same: Policy | None = None
        self._known: OrderedDict[Counters, Period] = OrderedDict()
        self.bounds = bounds_of(plan) if plan.kind == "static-bw" else None

    @property
    def assumption(self) -> str | None:
        """What fairness at the end of every period rests on, in words; None if nothing is guaranteed."""
        if self.plan.kind == "static-fair":
            return "both groups are counted equally often, half of the decisions each, in every period"
        if self.bounds is not None:
            return f"at least {self.bounds.least} of each group are counted in every period"
        if self.plan.kind == "dynamic":
            return "so many of each group were counted at the end of every period that a fair end was possible"
        return None

    def begin(self, past: Counters | None = None) -> Period:
        """The period that begins after these counters, of all periods before (``plan.start`` by default)."""
        past = self.plan.start if past is None else tuple(int(count) for count in past)
        if self.plan.kind == "dynamic":
            return self._dynamic(past)
        if self.plan.kind == "greedy":
            plan = self.plan.continued(past)
            actions = Greedy(plan.property, past, len(plan.inputs.costs))
            return Period(Policy(plan, actions, float("nan"), 0, 0, 0.0), past, None, False, False)
        return self._static(past)

    def knows(self, past: Counters) -> bool:
        """Whether a dynamic shield has its plan for the period after these counters at hand."""
        return past in self._known

    def _static(self, past: Counters) -> Period:
        alone = replace(self.plan, start=())
        if len(alone.inputs.groups) > 2 and self.bounds is not None:
            self._same = self._same or synthesize_separable(self.plan, self.bounds)
            return Period(self._same, past, None, False, self.bounds)
        end: Terminal = Fair(alone.property, alone.start)
        if self.bounds is not None:
            end = WithinBounds(self.bounds.lower, self.bounds.upper, self.bounds.least)
        if self._same is None:
            same = _solved(alone, dict.fromkeys(alone.times, end), self._progress)
            assert same is not None  # Accepting everybody is fair; bounds can be tracked (Lemma 9).
            self._same = replace(same, plan=self.plan)
        first = self.bounds is None and not any(past)
        return Period(self._same, past, end, first, alone.horizon if self.bounds is None else self.bounds)

    def _dynamic(self, past: Counters) -> Period:
        if past in self._known:
            self._known.move_to_end(past)
            return self._known[past]
        plan = self.plan.continued(past)
        # Without a past the property itself is always possible: accept everybody, or nobody.
        exempt = plan.terminal == "exempt" and any(past)
        owed = Owed(plan.property, past, plan.horizon, exempt)
        price = PRICE * plan.horizon * max(plan.inputs.costs[-1], 1e-6)
        period = None
        if plan.terminal != "soft" or not any(past) or owed.always:
            period = self._period(plan, owed, owed if exempt else True)
        if period is None and not exempt:
            period = self._period(plan, Priced(owed, price), owed)
        if period is None:
            # The past was unfair, or unjudged: nothing can be promised.
            period = self._period(plan, None if exempt else Priced(owed, price, everywhere=True), False)
        assert period is not None
        self._known[past] = period
        while len(self._known) > 1 and sum(kept.policy.bytes for kept in self._known.values()) > REMEMBERED:
            self._known.popitem(last=False)
        return period

    def _period(self, plan: Plan, end: Terminal | None, rule: Owed | bool) -> Period | None:
        """None if the end cannot always be reached."""
        policy = _solved(plan, {} if end is None else dict.fromkeys(plan.times, end), self._progress)
        if policy is None:
            return None
        guaranteed = rule if isinstance(rule, bool) else rule.always
        return Period(policy, plan.start, end, guaranteed, rule)


def _solved(plan: Plan, checks: Mapping[int, Terminal], progress: Progress | None) -> Policy | None:
    started = time.perf_counter()
    problem = Problem(plan.horizon, plan.property.labelled, plan.inputs, checks)
    solution = solve(problem, progress=progress)
    if solution.value == float("inf"):
        return None
    seconds = time.perf_counter() - started
    return Policy(plan, solution.actions, solution.value, solution.states, solution.peak_bytes, seconds)


def settled(plan: Plan, past: Counters) -> bool:
    """Whether a dynamic shield ends all periods from here on fair, whatever comes.

    So it is once the past is fair and 2 / kappa of each group were counted: a fair end is then owed ever after.
    """
    n_a, _, n_b, _ = past
    kept = plan.property
    if plan.kind != "dynamic" or kept.kind == "disparate_impact" or min(n_a, n_b) == 0:
        return False
    return min(n_a, n_b) * kept.kappa >= 2 and Owed(kept, past, plan.horizon, exempt=False).fair.property.fair(*past)
