"""Shields that go on: one period after the other, with what was counted before.

``Periodic(plan)`` is the shield, ``begin(past)`` what it does in the period that begins after these counters. Nothing
else is carried from period to period, so that a shield is restored by its counters.

Source: Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields: Safeguarding against Biased Decision Makers,
AAAI 2025, section 4. The strict and soft ends and the convention for small groups in several periods are ours.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.spec.ends import (
    EndValues,
    FairEnd,
    WelfareBounds,
    WelfareEnd,
    describe_assumption,
    welfare_bounds_of,
)
from evenhand.shields.spec.plan import PERIODIC_KINDS, Counters, ShieldPlan
from evenhand.shields.spec.properties import EmptyGroupRule, FairnessProperty
from evenhand.shields.synthesis.general import synthesize_general
from evenhand.shields.synthesis.separable import synthesize_separable
from evenhand.shields.synthesis.solve import Progress, SynthesisProblem, solve_problem

UNFAIR_END_PRICE = 1000.0
"""What an unfair end costs under the soft end, in most expensive periods (every decision overridden at most cost)."""

MEMORY_BYTES = 64 * 2**20
"""Bytes of tables of past periods that are kept in case the same counters come again."""


@dataclass(frozen=True)
class ShieldPeriod:
    """One period of a shield.

    Attributes:
        policy: what it does; its counters are those of this period alone, from 0. Where unfair ends have a price, its
            expected cost has that in it.
        start: counters of everything before, seen and accepted of each group.
        end: what the ends of the period are worth; None: nothing is asked of them, or every group has its own table.
        guaranteed: whether the period, with everything before, ends fair whatever comes.
    """

    policy: ShieldPolicy
    start: Counters
    end: EndValues | None
    guaranteed: bool
    rule: ObligatoryEnd | WelfareBounds | BalancedPeriod | bool = field(repr=False)

    def assumption_held(self, *seen: Any) -> Booleans:
        """Check whether the period kept the assumption, given the counts of each group in it; arrays or numbers.

        If it did in this and all earlier periods, the end is fair.
        """
        counts = np.stack(np.broadcast_arrays(*seen))
        if isinstance(self.rule, ObligatoryEnd):
            return self.rule.is_obligatory(*counts)
        if isinstance(self.rule, WelfareBounds):
            return np.asarray(counts.min(axis=0) >= self.rule.least_seen)
        if isinstance(self.rule, bool):
            return np.full(counts.shape[1:], self.rule)
        return self.rule.holds(counts)

    def assumption_possible(self, seen: Counters, left: int, open_labels: Counters | None) -> bool:
        """Check whether the period can still keep the assumption.

        Args:
            seen: Counts of each group in the period so far.
            left: Number of decisions to come.
            open_labels: Open decisions of each group. If None, everyone counts.
        """
        if isinstance(self.rule, bool):
            return self.rule
        if isinstance(self.rule, WelfareBounds):
            least = self.rule.least_seen
            waiting = open_labels or (0,) * len(seen)
            return sum(max(0, least - n - more) for n, more in zip(seen, waiting, strict=True)) <= left
        if open_labels is None:
            more_a = np.arange(left + 1)
            return bool(self.assumption_held(seen[0] + more_a, seen[1] + left - more_a).any())
        # Of the labels that are awaited any number may count; beyond them each costs one of the decisions to come.
        more_a, more_b = np.indices((open_labels[0] + left + 1, open_labels[1] + left + 1))
        to_come = np.maximum(more_a - open_labels[0], 0) + np.maximum(more_b - open_labels[1], 0)
        possible = to_come <= left
        return bool(self.assumption_held(seen[0] + more_a[possible], seen[1] + more_b[possible]).any())


@dataclass(frozen=True)
class BalancedPeriod:
    """Half of the decisions of a period are on each group, and so many of a group are judged (Theorem 2).

    Where they are too few to be judged, the end of the period may be anything, balanced or not.

    Attributes:
        horizon: decisions of the period.
        needed_count: how many of each group must be counted before a bias is judged.
    """

    horizon: int
    needed_count: int

    def holds(self, counts: Integers) -> Booleans:
        """Check the counts of each group, shape (groups, ...)."""
        return np.asarray((2 * counts == self.horizon).all(axis=0) & (2 * self.needed_count <= self.horizon))


class PeriodicShield:
    """A shield, period by period; over two groups, or over more if it is dynamic or keeps welfare bounds.

    Args:
        plan: of a kind that goes on; a static shield does the same in every period.

    Raises:
        OptionError: the kind knows no periods, there are more than two groups, or the bounds do not fit.
    """

    def __init__(self, plan: ShieldPlan, *, progress: Progress | None = None) -> None:
        if plan.kind not in PERIODIC_KINDS:
            raise OptionError(
                f"a shield of kind {plan.kind} ends at its horizon",
                location="kind",
                hint=f"{', '.join(PERIODIC_KINDS[:-1])} and {PERIODIC_KINDS[-1]} shields go on",
            )
        if len(plan.inputs.groups) != 2 and plan.kind not in ("static-bw", "dynamic"):
            raise OptionError(
                f"{plan.kind} shields are for two groups, and these are {len(plan.inputs.groups)}",
                location="groups",
                hint="several groups can be kept alike by kind dynamic, or within welfare bounds each by static-bw",
            )
        if len(plan.inputs.groups) != 2 and plan.terminal == "exempt":
            raise OptionError(
                "which ends are exempt is known for two groups", location="terminal", hint="terminal: strict or soft"
            )
        self.plan = plan
        self._progress = progress
        self._same: ShieldPolicy | None = None
        self._known: OrderedDict[Counters, ShieldPeriod] = OrderedDict()
        self.bounds = welfare_bounds_of(plan) if plan.kind == "static-bw" else None

    @property
    def assumption(self) -> str | None:
        """What fairness at the end of every period rests on, in words; None if nothing is guaranteed."""
        return describe_assumption(self.plan)

    @property
    def assumption_held_at_start(self) -> bool:
        """Whether what was carried over keeps the assumption, as if it had been a period of its own."""
        start = self.plan.start
        if not any(start) or self.plan.kind in ("dynamic", "greedy"):
            # A dynamic shield looks at what was before when it plans a period.
            return True
        if self.bounds is not None:
            return bool(self.bounds.holds(start[::2], start[1::2]).all())
        judged = replace(self.plan.property, empty_group=EmptyGroupRule("zero"))
        return start[0] == start[2] and bool(judged.fair(*start))

    def begin(self, past: Counters | None = None) -> ShieldPeriod:
        """Return the period that begins after these counters, of all periods before (``plan.start`` by default)."""
        past = self.plan.start if past is None else tuple(int(count) for count in past)
        if self.plan.plans_periods:
            return self._dynamic_period(past)
        if self.plan.kind == "greedy":
            plan = self.plan.continue_from(past)
            actions = GreedyRule(plan.property, past, len(plan.inputs.costs))
            return ShieldPeriod(ShieldPolicy(plan, actions, float("nan"), 0, 0, 0.0), past, None, False, False)
        return self._static_period(past)

    def has_period_for(self, past: Counters) -> bool:
        """Return whether a dynamic shield has its plan for the period after these counters at hand."""
        return past in self._known

    def _static_period(self, past: Counters) -> ShieldPeriod:
        alone = replace(self.plan, start=())
        if len(alone.inputs.groups) > 2 and self.bounds is not None:
            self._same = self._same or synthesize_separable(self.plan, self.bounds)
            return ShieldPeriod(self._same, past, None, False, self.bounds)
        end: EndValues = FairEnd(alone.property, alone.start)
        if self.bounds is not None:
            end = WelfareEnd(self.bounds.lower, self.bounds.upper, self.bounds.least_seen)
        if self._same is None:
            same = _solve_plan(alone, dict.fromkeys(alone.times, end), self._progress)
            assert same is not None  # Accepting everybody is fair; bounds can be tracked (Lemma 9).
            self._same = replace(same, plan=self.plan)
        first = self.bounds is None and not any(past)
        balanced = BalancedPeriod(alone.horizon, alone.property.empty_group.needed_count)
        return ShieldPeriod(self._same, past, end, first, balanced if self.bounds is None else self.bounds)

    def _dynamic_period(self, past: Counters) -> ShieldPeriod:
        if past in self._known:
            self._known.move_to_end(past)
            return self._known[past]
        plan = self.plan.continue_from(past)
        if len(plan.inputs.groups) > 2:
            return self._remember(past, self._several_groups(plan))
        # Without a past the property itself is always possible: accept everybody, or no one.
        exempt = plan.terminal == "exempt" and any(past)
        owed = ObligatoryEnd(plan.property, past, plan.horizon, exempt)
        price = UNFAIR_END_PRICE * plan.horizon * max(plan.inputs.costs[-1], 1e-6)
        period = None
        if plan.terminal != "soft" or not any(past) or owed.always:
            period = self._period(plan, owed, owed if exempt else True)
        if period is None and not exempt:
            period = self._period(plan, PricedEnd(owed, price), owed)
        if period is None:
            # The past was unfair, or unjudged: nothing can be promised.
            period = self._period(plan, None if exempt else PricedEnd(owed, price, everywhere=True), False)
        assert period is not None
        return self._remember(past, period)

    def _several_groups(self, plan: ShieldPlan) -> ShieldPeriod:
        """Return a period over three groups or more: fair at its end if that can be made sure of, else at a price."""
        # Once a fair end is possible for ever, small groups are judged too, as with two groups.
        always = always_ends_fair(self.plan, plan.start)
        zero = replace(plan.property, empty_group=EmptyGroupRule("zero"))
        asked = replace(plan, property=zero) if always else plan
        policy = None
        if plan.terminal == "strict" or always or not any(plan.start):
            policy = synthesize_general(asked, progress=self._progress)
        sure = policy is not None and policy.expected_cost < float("inf")
        if policy is None or not sure:
            price = UNFAIR_END_PRICE * plan.horizon * max(plan.inputs.costs[-1], 1e-6)
            policy = synthesize_general(plan, unfair_price=price, progress=self._progress)
        return ShieldPeriod(replace(policy, plan=plan), plan.start, None, sure, sure)

    def _remember(self, past: Counters, period: ShieldPeriod) -> ShieldPeriod:
        self._known[past] = period
        while len(self._known) > 1 and sum(kept.policy.bytes for kept in self._known.values()) > MEMORY_BYTES:
            self._known.popitem(last=False)
        return period

    def _period(self, plan: ShieldPlan, end: EndValues | None, rule: ObligatoryEnd | bool) -> ShieldPeriod | None:
        """None if the end cannot always be reached."""
        checks: Mapping[int, EndValues] = {} if end is None else dict.fromkeys(plan.times, end)
        policy = _solve_plan(plan, checks, self._progress)
        if policy is None:
            return None
        guaranteed = rule if isinstance(rule, bool) else rule.always
        return ShieldPeriod(policy, plan.start, end, guaranteed, rule)


def _solve_plan(plan: ShieldPlan, checks: Mapping[int, EndValues], progress: Progress | None) -> ShieldPolicy | None:
    """Return the policy of a period; None if the checks cannot always be passed.

    Args:
        plan: of the period.
        checks: what its states are worth, by time.
        progress: as elsewhere.
    """
    started = time.perf_counter()
    problem = SynthesisProblem(plan.horizon, plan.property.labelled, plan.inputs, checks)
    solution = solve_problem(problem, progress=progress)
    if solution.value == float("inf"):
        return None
    seconds = time.perf_counter() - started
    return ShieldPolicy(plan, solution.actions, solution.value, solution.states, solution.peak_bytes, seconds)


def always_ends_fair(plan: ShieldPlan, past: Counters) -> bool:
    """Return whether a dynamic shield ends all periods from here on fair.

    So it is once the past is fair and 2 / kappa of each group were counted: a fair end is then owed ever after. Of
    several groups let c be half way between the lowest and the highest rate. Keep the accepted of a group at its rate
    times its number, rounded down if the rate is c or more, and up if it is less; each goes up by 0 or 1 with every
    person. Two groups on different sides of c are then at most kappa apart in their old order, and less than 1/n + 1/m
    in the other; two on one side were at most kappa / 2 apart, and a rounding adds less than 1/n.
    """
    seen = past[::2]
    judged = replace(plan.property, empty_group=EmptyGroupRule("zero"))
    if not plan.plans_periods or judged.kind == "disparate_impact" or min(seen) * judged.kappa < 2:
        return False
    return all(
        judged.fair(*past[2 * one : 2 * one + 2], *past[2 * other : 2 * other + 2])
        for one, other in combinations(range(len(seen)), 2)
    )


# The greedy baseline: looks one decision ahead, knows nothing of the future and promises nothing about it.


@dataclass(frozen=True)
class GreedyRule:
    """Overrides a decision that would leave the groups unfair now, if the other one leaves a smaller bias.

    It needs no synthesis and no memory, and what an override costs plays no part. Its ends are often fair and never
    guaranteed: the last decisions may come too late to mend anything.

    Attributes:
        property: what is wanted at every time.
        start: counters carried over.
        costs: how many costs there are.
    """

    property: FairnessProperty
    start: Counters
    costs: int = 1
    form = "greedy"
    arrays: tuple[NDArray[Any], ...] = ()

    def level(self, t: int, counters: Sequence[int], group: int) -> int:
        """Return the level in a state: all costs or none."""
        after = [now + past for now, past in zip(counters, self.start, strict=True)]
        after[2 * group] += 1
        rejected = self.property.bias(*after)
        after[2 * group + 1] += 1
        accepted = self.property.bias(*after)
        worse = max(rejected, accepted)
        if worse <= self.property.kappa or rejected == accepted:
            return 0
        return self.costs if worse == rejected else -self.costs


# Ends of a period that counts together with everything before it: owed, exempt, or at a price.
#
# A period may end so that no policy could have made it fair, as when almost only one group came. Let w_a <= w_b be the
# welfares before it, phi their difference, and d_a, d_b who was seen at its end, the past included. Accepting ceil(w_a
# d_a) of group a and floor(w_b d_b) of group b is possible one decision at a time, and keeps the second welfare less
# the first between phi - 1/d_a - 1/d_b, negated at worst, and phi. So a fair past can always be continued to a fair end
# where 1/d_a + 1/d_b <= kappa + phi (Cano et al., "Fairness shields", Lemma 10; the condition is derived from its
# proof). By the same tracking, the smaller rate keeps 1 - kappa of the larger where (1 - kappa)/d_a + 1/d_b <= w_b - (1
# - kappa) w_a, or if no one was ever accepted.


NEVER = 2**62
"""More than was ever seen."""


@dataclass(frozen=True)
class ObligatoryEnd:
    """Fair where a fair past makes that possible whatever comes; elsewhere as said.

    Where it is owed, a group that is small by the property's own convention counts too: a bias that built up unjudged
    might be too large to mend when it is judged.

    Attributes:
        property: what must hold, over the past and the period.
        start: counters of the past.
        horizon: of the period.
        exempt: whether anything goes where it is not owed (Definition 6); else the property must hold there too.
    """

    property: FairnessProperty
    start: Counters
    horizon: int
    exempt: bool

    @cached_property
    def fair(self) -> FairEnd:
        """The property with every group judged, however small."""
        return FairEnd(replace(self.property, empty_group=EmptyGroupRule("zero")), self.start)

    @cached_property
    def configured_end(self) -> FairEnd:
        """The property as it is."""
        return FairEnd(self.property, self.start)

    @cached_property
    def least_of_b(self) -> Integers:
        """By n_a of the period: the fewest of group b in it with which a fair end is owed (Assumption 2)."""
        seen_a, past_a, seen_b, past_b = self.start
        kappa = self.property.kappa
        w_a, w_b = Fraction(past_a, max(seen_a, 1)), Fraction(past_b, max(seen_b, 1))
        share_a = share_b = Fraction(1)
        slack = kappa + abs(w_a - w_b)
        if self.property.kind == "disparate_impact":
            share_a, share_b = (1 - kappa, share_b) if w_a <= w_b else (share_a, 1 - kappa)
            slack = max(w_a, w_b) - (1 - kappa) * min(w_a, w_b)
            if slack == 0:
                return np.zeros(self.horizon + 1, dtype=np.int64)
        found = []
        for seen in range(seen_a, seen_a + self.horizon + 1):
            # share_b / (slack - share_a / seen), rounded up, in whole numbers.
            left = slack.numerator * share_a.denominator * seen - share_a.numerator * slack.denominator
            whole = slack.denominator * share_a.denominator * seen
            possible = seen > 0 and left > 0
            needed = -(-share_b.numerator * whole // (share_b.denominator * left)) if possible else 0
            found.append(max(0, needed - seen_b) if possible else NEVER)
        return np.array(found, dtype=np.int64)

    @cached_property
    def always(self) -> bool:
        """Whether a fair end is owed however many of each group come."""
        longest = np.zeros(self.horizon + 1) if self.property.labelled else self.horizon - np.arange(self.horizon + 1)
        return bool((self.least_of_b <= longest).all())

    def is_obligatory(self, n_a: Any, n_b: Any) -> Booleans:
        """Return whether a fair end is owed when so many of each group came in the period; arrays or numbers."""
        return np.asarray(np.asarray(n_b) >= self.least_of_b[np.asarray(n_a)])

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        low, high = self.fair.band(n_a, a, n_b)
        owed = self.is_obligatory(n_a, n_b)
        free_low, free_high = (0, n_b) if self.exempt else self.configured_end.band(n_a, a, n_b)
        return np.where(owed, low, free_low), np.where(owed, high, free_high)

    def values(self, n_a: int, n_b: int) -> Floats:
        if self.is_obligatory(n_a, n_b):
            return self.fair.values(n_a, n_b)
        return np.zeros((n_a + 1, n_b + 1)) if self.exempt else self.configured_end.values(n_a, n_b)


@dataclass(frozen=True)
class PricedEnd:
    """As `ObligatoryEnd`, but an unfair end that is not owed costs ``price`` (1 + how far above kappa its bias is).

    Attributes:
        end: what is owed; a fair end is wanted everywhere.
        price: of an unfair end, in units of the costs.
        everywhere: whether unfair ends that are owed have their price too, as when the past is unfair.
    """

    end: ObligatoryEnd
    price: float
    everywhere: bool = False

    def values(self, n_a: int, n_b: int) -> Floats:
        owed = bool(self.end.is_obligatory(n_a, n_b))
        if owed and not self.everywhere:
            return self.end.fair.values(n_a, n_b)
        allowed = (self.end.fair if owed else self.end.configured_end).values(n_a, n_b) == 0
        return np.where(allowed, 0.0, self.price * (1 + self._excess(n_a, n_b)))

    def _excess(self, n_a: int, n_b: int) -> Floats:
        seen_a, past_a, seen_b, past_b = self.end.start
        rate_a = (np.arange(n_a + 1)[:, None] + past_a) / max(n_a + seen_a, 1)
        rate_b = (np.arange(n_b + 1)[None, :] + past_b) / max(n_b + seen_b, 1)
        kept = self.end.property
        if kept.kind == "disparate_impact":
            larger = np.maximum(np.maximum(rate_a, rate_b), 1e-300)
            bias = 1 - np.minimum(rate_a, rate_b) / larger
        else:
            bias = np.abs(rate_a - rate_b)
        return np.maximum(bias - float(kept.kappa), 0.0)
