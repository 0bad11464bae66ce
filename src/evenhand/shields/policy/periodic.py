"""Periodic shields: successive periods that include the counters of the past.

``PeriodicShield(plan).begin(past)`` returns the period that begins after these counters. Nothing else is carried over
between periods, so a shield can be restored from its counters.

Source: Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields: Safeguarding against Biased Decision Makers,
AAAI 2025, section 4. The strict and soft ends and the convention for small groups in several periods are ours.
"""

from __future__ import annotations

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
    describe_assumption,
    welfare_bounds_of,
)
from evenhand.shields.spec.plan import PERIODIC_KINDS, Counters, ShieldPlan
from evenhand.shields.spec.properties import EmptyGroupRule, FairnessProperty, is_fair, largest_bias
from evenhand.shields.synthesis.general import synthesize_general
from evenhand.shields.synthesis.separable import synthesize_separable
from evenhand.shields.synthesis.solve import Progress, solve_plan

UNFAIR_END_PRICE = 1000.0
"""Price of an unfair end for soft terminals, as a multiple of the cost of overriding every decision in a period."""

TIE_TOLERANCE = 1e-12
"""Biases that differ by less than this are equal fractions, because counters are small."""

MEMORY_BYTES = 64 * 2**20
"""Maximum size of the cached tables of past periods, in bytes."""


@dataclass(frozen=True)
class ShieldPeriod:
    """Period of a shield.

    Attributes:
        policy: Policy over the counters of this period only, which start at 0. Its expected cost includes prices of
            unfair ends.
        start: Counters of everything before the period.
        end: Values of the ends of the period. None if nothing is required, or if each group has its own table.
        guaranteed: Whether the period, counted with everything before it, always ends fair.
    """

    policy: ShieldPolicy
    start: Counters
    end: EndValues | None
    guaranteed: bool
    rule: ObligatoryEnd | WelfareBounds | BalancedPeriod | bool = field(repr=False)

    def assumption_held(self, *sizes: Any) -> Booleans:
        """Check whether the period satisfied the assumption, given the counts of each group in it, as numbers or
        arrays.

        If it did in this and all earlier periods, the end is fair.
        """
        counts = np.stack(np.broadcast_arrays(*sizes))
        if isinstance(self.rule, ObligatoryEnd):
            return self.rule.is_obligatory(*counts)
        if isinstance(self.rule, WelfareBounds):
            return np.asarray(counts.min(axis=0) >= self.rule.least_seen)
        if isinstance(self.rule, bool):
            return np.full(counts.shape[1:], self.rule)
        return self.rule.holds(counts)

    def assumption_possible(self, sizes: Counters, left: int, open_labels: Counters | None) -> bool:
        """Check whether the period can still satisfy the assumption.

        Args:
            sizes: Counts of each group in the period.
            left: Number of remaining decisions.
            open_labels: Open decisions of each group. If None, everyone counts.
        """
        if isinstance(self.rule, bool):
            return self.rule
        if isinstance(self.rule, WelfareBounds):
            minimum = self.rule.least_seen
            waiting = open_labels or (0,) * len(sizes)
            return sum(max(0, minimum - n - more) for n, more in zip(sizes, waiting, strict=True)) <= left
        if open_labels is None:
            more_a = np.arange(left + 1)
            return bool(self.assumption_held(sizes[0] + more_a, sizes[1] + left - more_a).any())
        # Any number of open labels may count. Each further count needs one of the remaining decisions.
        more_a, more_b = np.indices((open_labels[0] + left + 1, open_labels[1] + left + 1))
        to_come = np.maximum(more_a - open_labels[0], 0) + np.maximum(more_b - open_labels[1], 0)
        possible = to_come <= left
        return bool(self.assumption_held(sizes[0] + more_a[possible], sizes[1] + more_b[possible]).any())


@dataclass(frozen=True)
class BalancedPeriod:
    """Assumption that half of the decisions in a period are about each group (Theorem 2).

    It is impossible if half of the decisions are too few to evaluate a group.

    Attributes:
        horizon: Number of decisions in the period.
        needed_count: Minimum count of each group before the bias is evaluated.
    """

    horizon: int
    needed_count: int

    def holds(self, counts: Integers) -> Booleans:
        """Check the counts of each group, shape (groups, ...)."""
        return np.asarray((2 * counts == self.horizon).all(axis=0) & (2 * self.needed_count <= self.horizon))


class PeriodicShield:
    """Shield with several periods, over two groups, or over more if it is dynamic or keeps welfare bounds.

    Args:
        plan: Plan of a periodic kind. A static shield has the same policy in every period.

    Raises:
        OptionError: The kind has no periods, there are more than two groups, or the bounds are invalid.
    """

    def __init__(self, plan: ShieldPlan, *, progress: Progress | None = None) -> None:
        if plan.kind not in PERIODIC_KINDS:
            raise OptionError(
                f"a shield of kind {plan.kind} ends at its horizon",
                location="kind",
                hint=f"{', '.join(PERIODIC_KINDS[:-1])} and {PERIODIC_KINDS[-1]} shields have several periods",
            )
        if len(plan.inputs.groups) != 2 and plan.kind not in ("static-bw", "dynamic"):
            raise OptionError(
                f"{plan.kind} shields support two groups, got {len(plan.inputs.groups)}",
                location="groups",
                hint="use kind dynamic, or welfare bounds of each group (static-bw)",
            )
        if len(plan.inputs.groups) != 2 and plan.terminal == "exempt":
            raise OptionError(
                "terminal exempt supports two groups only", location="terminal", hint="terminal: strict or soft"
            )
        self.plan = plan
        self._progress = progress
        self._same: ShieldPolicy | None = None
        self._known: OrderedDict[Counters, ShieldPeriod] = OrderedDict()
        self.bounds = welfare_bounds_of(plan) if plan.kind == "static-bw" else None

    @property
    def assumption(self) -> str | None:
        """Assumption of fairness at the end of every period; None if nothing is guaranteed."""
        return describe_assumption(self.plan)

    @property
    def assumption_held_at_start(self) -> bool:
        """Whether the past satisfies the assumption, taken as one period."""
        start = self.plan.start
        if not any(start) or self.plan.kind in ("dynamic", "greedy"):
            # A dynamic shield plans each period from the counters before it.
            return True
        if self.bounds is not None:
            return bool(self.bounds.holds(start[::2], start[1::2]).all())
        judged = replace(self.plan.property, empty_group=EmptyGroupRule("zero"))
        return start[0] == start[2] and bool(judged.fair(*start))

    def begin(self, past: Counters | None = None) -> ShieldPeriod:
        """Return the period that begins after these counters of all earlier periods. Default: ``plan.start``."""
        past = self.plan.start if past is None else tuple(int(count) for count in past)
        if self.plan.plans_periods:
            return self._dynamic_period(past)
        if self.plan.kind == "greedy":
            plan = self.plan.continue_from(past)
            actions = GreedyRule(plan.property, past, len(plan.inputs.costs))
            return ShieldPeriod(ShieldPolicy(plan, actions, float("nan"), 0, 0, 0.0), past, None, False, False)
        return self._static_period(past)

    def has_period_for(self, past: Counters) -> bool:
        """Return whether the period after these counters is cached."""
        return past in self._known

    def _static_period(self, past: Counters) -> ShieldPeriod:
        period_plan = replace(self.plan, start=())
        if len(period_plan.inputs.groups) > 2 and self.bounds is not None:
            self._same = self._same or synthesize_separable(self.plan, self.bounds)
            return ShieldPeriod(self._same, past, None, False, self.bounds)
        end: EndValues = FairEnd(period_plan.property, period_plan.start)
        if self.bounds is not None:
            end = self.bounds
        if self._same is None:
            # The cost is finite: accepting everyone is fair; bounds can be tracked (Lemma 9).
            same = solve_plan(period_plan, dict.fromkeys(period_plan.times, end), self._progress)
            self._same = replace(same, plan=self.plan)
        guaranteed = self.bounds is None and not any(past)
        balanced = BalancedPeriod(period_plan.horizon, period_plan.property.empty_group.needed_count)
        return ShieldPeriod(self._same, past, end, guaranteed, balanced if self.bounds is None else self.bounds)

    def _dynamic_period(self, past: Counters) -> ShieldPeriod:
        if past in self._known:
            self._known.move_to_end(past)
            return self._known[past]
        plan = self.plan.continue_from(past)
        if len(plan.inputs.groups) > 2:
            return self._remember(past, self._several_groups(plan))
        # Without a past, the property can always be kept, by accepting everyone or no one.
        exempt = plan.terminal == "exempt" and any(past)
        owed = ObligatoryEnd(plan.property, past, plan.horizon, exempt)
        price = UNFAIR_END_PRICE * plan.horizon * max(plan.inputs.costs[-1], 1e-6)
        period = None
        if plan.terminal != "soft" or not any(past) or owed.always:
            period = self._period(plan, owed, owed if exempt else True)
        if period is None and not exempt:
            period = self._period(plan, PricedEnd(owed, price), owed)
        if period is None:
            # The past was unfair or not evaluated, so nothing is guaranteed.
            period = self._period(plan, None if exempt else PricedEnd(owed, price, everywhere=True), False)
        assert period is not None
        return self._remember(past, period)

    def _several_groups(self, plan: ShieldPlan) -> ShieldPeriod:
        """Return a period for three or more groups. It ends fair if that can be guaranteed, and otherwise unfair ends
        have a price.
        """
        # Once every later end can be fair, small groups are evaluated too, as with two groups.
        always = always_ends_fair(self.plan, plan.start)
        zero = replace(plan.property, empty_group=EmptyGroupRule("zero"))
        problem = replace(plan, property=zero) if always else plan
        policy = None
        if plan.terminal == "strict" or always or not any(plan.start):
            policy = synthesize_general(problem, progress=self._progress)
        sure = policy is not None and policy.expected_cost < float("inf")
        if policy is None or not sure:
            price = UNFAIR_END_PRICE * plan.horizon * max(plan.inputs.costs[-1], 1e-6)
            policy = synthesize_general(plan, unfair_price=price, progress=self._progress)
        return ShieldPeriod(replace(policy, plan=plan), plan.start, None, sure, sure)

    def _remember(self, past: Counters, period: ShieldPeriod) -> ShieldPeriod:
        self._known[past] = period
        while len(self._known) > 1 and sum(cached.policy.bytes for cached in self._known.values()) > MEMORY_BYTES:
            self._known.popitem(last=False)
        return period

    def _period(self, plan: ShieldPlan, end: EndValues | None, rule: ObligatoryEnd | bool) -> ShieldPeriod | None:
        """Return the period with these ends, or None if they cannot always be reached."""
        checks: Mapping[int, EndValues] = {} if end is None else dict.fromkeys(plan.times, end)
        policy = solve_plan(plan, checks, self._progress)
        if policy.expected_cost == float("inf"):
            return None
        guaranteed = rule if isinstance(rule, bool) else rule.always
        return ShieldPeriod(policy, plan.start, end, guaranteed, rule)


def always_ends_fair(plan: ShieldPlan, past: Counters) -> bool:
    """Return whether a dynamic shield ends all future periods fair.

    This holds once the past is fair and 2 / kappa people of each group were counted: every later end can then be fair.
    For several groups, let c be the middle of the lowest and the highest rate. Keep the accepted count of a group at
    its rate times its size, rounded down if the rate is c or more, and up if it is less; it grows by 0 or 1 with every
    person. Two groups on different sides of c are then at most kappa apart in their old order, and less than 1/n + 1/m
    in the other; two on one side were at most kappa / 2 apart, and a rounding adds less than 1/n.
    """
    sizes = past[::2]
    judged = replace(plan.property, empty_group=EmptyGroupRule("zero"))
    if not plan.plans_periods or judged.kind == "disparate_impact" or min(sizes) * judged.kappa < 2:
        return False
    return all(
        judged.fair(*past[2 * i : 2 * i + 2], *past[2 * j : 2 * j + 2]) for i, j in combinations(range(len(sizes)), 2)
    )


# Greedy baseline, which looks one decision ahead and guarantees nothing.


@dataclass(frozen=True)
class GreedyRule:
    """Rule that overrides a decision with an unfair result if the opposite decision leaves a smaller bias.

    It needs no synthesis and no memory, and ignores costs. Its ends are often fair but never guaranteed.

    Attributes:
        property: Property that should hold after every decision.
        start: Counters carried over; for `levels` also arrays of shape (2 groups, runs).
        costs: Number of costs.
    """

    property: FairnessProperty
    start: Counters | Integers
    costs: int = 1
    form = "greedy"
    arrays: tuple[NDArray[Any], ...] = ()

    def level(self, t: int, counters: Sequence[int], group: int) -> int:
        """Return the level in a state: an override at any cost, or none."""
        counts = [now + past for now, past in zip(counters, self.start, strict=True)]
        counts[2 * group] += 1
        rejected = self.property.bias(*counts)
        counts[2 * group + 1] += 1
        accepted = self.property.bias(*counts)
        worse = max(rejected, accepted)
        if worse <= self.property.kappa or rejected == accepted:
            return 0
        return self.costs if worse == rejected else -self.costs

    def levels(self, t: int, sizes: Integers, accepted: Integers, group: Integers) -> Integers:
        runs, past = np.arange(len(group)), np.asarray(self.start).reshape(2 * len(sizes), -1)
        n, rejecting = (sizes + past[::2]).T, (accepted + past[1::2]).T
        n[runs, group] += 1
        accepting = rejecting.copy()
        accepting[runs, group] += 1
        harmless = is_fair(self.property, n, rejecting) & is_fair(self.property, n, accepting)
        worse = largest_bias(self.property, n, rejecting) - largest_bias(self.property, n, accepting)
        return np.where(harmless | (np.abs(worse) <= TIE_TOLERANCE), 0, self.costs * np.sign(worse).astype(np.int64))


# Ends of a period whose counts are added to those of the past: obligatory, exempt, or penalised.
#
# Some ends cannot be fair under any policy, for example if almost all people are of one group. Let w_a <= w_b be the
# welfares before the period, phi their difference, and d_a, d_b the numbers of people seen by its end, including the
# past. Accepting ceil(w_a d_a) of group a and floor(w_b d_b) of group b is possible one decision at a time, and keeps
# the second welfare minus the first between phi - 1/d_a - 1/d_b, which may be negative, and phi. So a fair past can
# always be continued to a fair end where 1/d_a + 1/d_b <= kappa + phi (Cano et al., "Fairness shields", Lemma 10; the
# condition is derived from its proof). By the same tracking, the smaller rate is at least 1 - kappa times the larger
# where (1 - kappa)/d_a + 1/d_b <= w_b - (1 - kappa) w_a, or if no one was ever accepted.


NEVER = 2**62
"""Larger than any count."""


@dataclass(frozen=True)
class ObligatoryEnd:
    """Ends that must be fair whenever the past makes this possible for all arrivals.

    Obligatory ends count small groups too, because a bias that grows while it is not evaluated might become too large
    to correct.

    Attributes:
        property: Property over the past and the period.
        start: Counters of the past.
        horizon: Number of decisions in the period.
        exempt: Whether other ends may be unfair (Definition 6). If False, the property must hold there too.
    """

    property: FairnessProperty
    start: Counters
    horizon: int
    exempt: bool

    @cached_property
    def fair(self) -> FairEnd:
        """Return the property with every group evaluated, however small."""
        return FairEnd(replace(self.property, empty_group=EmptyGroupRule("zero")), self.start)

    @cached_property
    def configured_end(self) -> FairEnd:
        """The configured property."""
        return FairEnd(self.property, self.start)

    @cached_property
    def least_of_b(self) -> Integers:
        """Minimum count of group b for which a fair end is obligatory, by n_a of the period (Assumption 2)."""
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
        minima = []
        for size in range(seen_a, seen_a + self.horizon + 1):
            # share_b / (slack - share_a / seen), rounded up, in whole numbers.
            left = slack.numerator * share_a.denominator * size - share_a.numerator * slack.denominator
            divisor = slack.denominator * share_a.denominator * size
            possible = size > 0 and left > 0
            needed = -(-share_b.numerator * divisor // (share_b.denominator * left)) if possible else 0
            minima.append(max(0, needed - seen_b) if possible else NEVER)
        return np.array(minima, dtype=np.int64)

    @cached_property
    def always(self) -> bool:
        """Whether a fair end is obligatory for all counts of the groups."""
        longest = np.zeros(self.horizon + 1) if self.property.labelled else self.horizon - np.arange(self.horizon + 1)
        return bool((self.least_of_b <= longest).all())

    def is_obligatory(self, n_a: Any, n_b: Any) -> Booleans:
        """Return whether the end must be fair, given the counts of each group in the period, as numbers or arrays."""
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
    """Ends as in `ObligatoryEnd`, where other unfair ends cost ``price`` times (1 + excess of the bias over kappa).

    Attributes:
        end: The obligatory ends.
        price: Price of an unfair end, in units of the costs.
        everywhere: Whether obligatory ends also have a price, for an unfair past.
    """

    end: ObligatoryEnd
    price: float
    everywhere: bool = False

    def values(self, n_a: int, n_b: int) -> Floats:
        owed = bool(self.end.is_obligatory(n_a, n_b))
        if owed and not self.everywhere:
            return self.end.fair.values(n_a, n_b)
        allowed = (self.end.fair if owed else self.end.configured_end).values(n_a, n_b) == 0
        seen_a, past_a, seen_b, past_b = self.end.start
        rate_a = (np.arange(n_a + 1)[:, None] + past_a) / max(n_a + seen_a, 1)
        rate_b = (np.arange(n_b + 1)[None, :] + past_b) / max(n_b + seen_b, 1)
        fairness = self.end.property
        excess = np.maximum(fairness.bias_of_rates(rate_a, rate_b) - float(fairness.kappa), 0.0)
        return np.where(allowed, 0.0, self.price * (1 + excess))
