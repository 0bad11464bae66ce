"""Values of ends, bounds on the welfare of groups, and descriptions of guarantees.

The value of an end is 0 if it is allowed, infinity if it is forbidden, or a price. Ends whose allowed counts ``b`` form
an interval given the other counts (`BandEnd`) are checked faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Protocol, runtime_checkable

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.shields.spec.plan import Counters, ShieldPlan
from evenhand.shields.spec.properties import FairnessProperty


class EndValues(Protocol):
    """Values of accepted counts at a check."""

    def values(self, n_a: int, n_b: int) -> Floats:
        """Compute the values by accepted people of each group, shape (n_a + 1, n_b + 1). Infinity forbids."""
        ...


@runtime_checkable
class BandEnd(EndValues, Protocol):
    """Ends whose value is 0 inside intervals and infinite outside."""

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        """Compute integer arrays (broadcast): the counts ``b`` from low to high are allowed, none if low > high."""
        ...


class _BandValues:
    """Values of a `BandEnd`."""

    def values(self: BandEnd, n_a: int, n_b: int) -> Floats:
        low, high = self.band(n_a, np.arange(n_a + 1), n_b)
        b = np.arange(n_b + 1)
        return np.where((low[:, None] <= b) & (b <= high[:, None]), 0.0, np.inf)


@dataclass(frozen=True)
class FairEnd(_BandValues):
    """Ends at which the property holds, including the past.

    Attributes:
        property: The required property.
        start: Counters of the past (n_a, a, n_b, b).
    """

    property: FairnessProperty
    start: Counters = (0, 0, 0, 0)

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        seen_a, past_a, seen_b, past_b = self.start
        n_a, a, n_b = (np.asarray(counts, dtype=np.int64) for counts in (n_a, a, n_b))
        low, high = self.property.band(n_a + seen_a, a + past_a, n_b + seen_b)
        return np.maximum(low - past_b, 0), np.minimum(high - past_b, n_b)

    def is_judged(self, n_a: int, n_b: int) -> bool:
        """Return whether the counts are large enough for a requirement."""
        return min(n_a + self.start[0], n_b + self.start[2]) >= self.property.empty_group.needed_count


def end_values_of(plan: ShieldPlan) -> EndValues:
    """Return the values of a plan's checks, over two groups."""
    return FairEnd(plan.property, plan.start)


# Bounds on the welfare of every group: a limit on the gap in every period is a limit over all periods.
#
# The welfare of a group is its acceptance rate (among people with label 1, for equal opportunity). If it is in [l, u]
# in each of several periods, it is in [l, u] over all of them, for all sizes, because a mediant lies between
# its fractions (Cano et al., "Fairness shields", Lemma 3). The same holds for replicas that decide in parallel. Bounds
# with u - l <= kappa therefore bound the gap between any two groups, and bounds with l >= (1 - kappa) u their ratio.
# They can be met after 1 / (u - l) people of a group (Lemma 9).


MAX_DENOMINATOR = 10**6
"""Maximum denominator of bounds that are derived from data."""


@dataclass(frozen=True)
class WelfareBounds(_BandValues):
    """Exact bounds on the welfare of every group.

    An end is allowed if both welfares are within the bounds, or a group has fewer than ``least_seen`` (Static-BW,
    Definition 5).

    Attributes:
        lower, upper: The bounds, 0 <= lower < upper <= 1.

    Raises:
        OptionError: The bounds are invalid.
    """

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.lower < self.upper <= 1:
            raise OptionError(
                f"welfare bounds {float(self.lower):g} to {float(self.upper):g}",
                location="bounds",
                hint="set a lower bound below the upper one, both between 0 and 1",
            )

    @property
    def least_seen(self) -> int:
        """Minimum number of people of a group for which the bounds can be met: 1 / (u - l)."""
        return ceil(1 / (self.upper - self.lower))

    def holds(self, sizes: Any, accepted: Any) -> Booleans:
        """Check exactly whether the welfare is within the bounds; arrays or numbers. An empty group is within."""
        sizes, accepted = np.asarray(sizes, dtype=np.int64), np.asarray(accepted, dtype=np.int64)
        low = accepted * self.lower.denominator >= sizes * self.lower.numerator
        high = accepted * self.upper.denominator <= sizes * self.upper.numerator
        return np.asarray(low & high)

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        n_a, n_b = np.asarray(n_a, dtype=np.int64), np.asarray(n_b, dtype=np.int64)
        inside, small = self.holds(n_a, a), np.minimum(n_a, n_b) < self.least_seen
        low = -(-self.lower.numerator * n_b // self.lower.denominator)
        high = np.minimum(self.upper.numerator * n_b // self.upper.denominator, n_b)
        return np.where(small, 0, np.where(inside, low, 1)), np.where(small, n_b, np.where(inside, high, 0))

    def is_judged(self, n_a: int, n_b: int) -> bool:
        """Return whether the counts are large enough for a requirement."""
        return min(n_a, n_b) >= self.least_seen

    def words(self) -> str:
        """Describe the bounds."""
        return f"every group's rate between {float(self.lower):.4g} and {float(self.upper):.4g}"

    @classmethod
    def gap(cls, kappa: Fraction, middle: float) -> WelfareBounds:
        """Build bounds of width kappa around a rate, moved into [0, 1] if necessary."""
        _check_kappa_positive(kappa)
        lower = Fraction(middle).limit_denominator(MAX_DENOMINATOR) - kappa / 2
        lower = max(Fraction(0), min(lower, 1 - kappa))
        return cls(lower, min(Fraction(1), lower + kappa))

    @classmethod
    def ratio(cls, kappa: Fraction, middle: float) -> WelfareBounds:
        """Build bounds of ratio 1 - kappa around a rate.

        Raises:
            OptionError: The rate is 0.
        """
        _check_kappa_positive(kappa)
        upper = Fraction(middle).limit_denominator(MAX_DENOMINATOR) / (1 - min(kappa, Fraction(1)) / 2)
        if upper <= 0:
            raise OptionError(
                "no ratio of rates can be guaranteed around a rate of 0",
                location="bounds",
                hint="set bounds, or use a property other than disparate impact",
            )
        upper = min(upper, Fraction(1))
        return cls((1 - min(kappa, Fraction(1))) * upper, upper)


def welfare_bounds_of(plan: ShieldPlan) -> WelfareBounds:
    """Compute the welfare bounds of a static-bw plan: the configured bounds, or by default bounds of width kappa around
    the mean label.

    Raises:
        OptionError: The bounds do not imply the property.
    """
    fairness = plan.property
    ratio = fairness.kind == "disparate_impact"
    if plan.bounds is not None:
        lower, upper = plan.bounds
        if ratio and lower < (1 - fairness.kappa) * upper:
            raise OptionError(
                f"welfare bounds {float(lower):g} to {float(upper):g} allow a ratio of rates below 1 - kappa",
                location="bounds",
                hint="set a lower bound of at least (1 - kappa) times the upper bound",
            )
        return WelfareBounds(lower, upper)
    means = plan.inputs.label if plan.inputs.label is not None else plan.inputs.accept
    middle = sum(rate * mean for rate, mean in zip(plan.inputs.rate, means, strict=True))
    return WelfareBounds.ratio(fairness.kappa, middle) if ratio else WelfareBounds.gap(fairness.kappa, middle)


def _check_kappa_positive(kappa: Fraction) -> None:
    if kappa <= 0:
        raise OptionError(
            "welfare bounds need a threshold above 0: with kappa = 0 both bounds would be equal",
            location="kappa",
            hint="set kappa above 0, or use the kind finite or dynamic",
        )


# Descriptions of guarantees and their conditions.


EVERY_RUN = "in every run, for all people, orders and recommendations"
GREEDY = (
    "Nothing is guaranteed: it overrides decisions that would be unfair immediately, which may be too late at the end."
)
FEASIBLE = (
    "The shield intervenes only if following the recommendation would lose the guarantee of a fair end. Costs and "
    "expected inputs have no effect."
)
BALANCED = (
    "Over several periods together it holds if both groups are counted equally often in every period, half of the "
    "decisions each; otherwise it need not."
)
LATER = "Later periods count everything before them and are synthesised when they begin."
HARD_ENDS = {
    "strict": "They end fair if some shield can guarantee it.",
    "exempt": "Nothing is required of an end at which too few people of a group were counted to guarantee a fair one.",
    "soft": "If a fair end cannot be guaranteed, they end as close to it as the price of unfair ends justifies.",
}
"""Descriptions of ends that may be unfair, by the terminal of a dynamic shield."""


def guarantees(plan: ShieldPlan) -> tuple[str, ...]:
    """Describe the guarantees of a plan's shield, one sentence each, most important first."""
    nothing = why_nothing_is_required(plan)
    if nothing is not None:
        return (f"Nothing is guaranteed: {nothing}.",)
    keeps, always = plan.property.words(), EVERY_RUN
    if plan.property.labelled:
        always += ", if the label of every decision is known before the next one"
    if plan.kind == "greedy":
        return (GREEDY,)
    if plan.kind == "static-fair":
        why = why_assumption_fails(plan)
        over_periods = BALANCED if why is None else f"Over several periods together nothing is guaranteed: {why}."
        return f"{_describe_checks(plan)} of every period, {keeps}, counted within it only: {always}.", over_periods
    if plan.kind == "static-bw":
        bounds, why = welfare_bounds_of(plan), why_assumption_fails(plan)
        between = f"between {float(bounds.lower):g} and {float(bounds.upper):g}"
        return (
            f"In every period of {plan.horizon:,} decisions that counts at least {bounds.least_seen} of each group, "
            f"every group's acceptance rate ends {between}: {always}.",
            f"The same holds over all such periods together, and then {keeps}."
            if why is None
            else f"Over all groups together nothing is guaranteed: {why}.",
        )
    if plan.plans_periods:
        first_period = f"{_describe_checks(plan)} of the first period, {keeps}: {always}."
        return first_period, _describe_later_periods(plan)
    sentence = f"{_describe_checks(plan)}, {keeps}: {always}."
    return (sentence, FEASIBLE) if plan.kind == "feasible" else (sentence,)


def describe_assumption(plan: ShieldPlan, bounds: WelfareBounds | None = None) -> str | None:
    """Describe the assumption of fairness at the end of later periods; None if nothing is guaranteed.

    If no period can keep the assumption, the description gives the reason.

    Args:
        plan: Plan of the shield.
        bounds: Welfare bounds of the shield. Default: the bounds of a static-bw plan.
    """
    if plan.plans_periods:
        return "enough people of each group are counted in every period for a fair end to be possible"
    bounds = _bounds_kept(plan, bounds)
    if bounds is not None:
        assumed = f"at least {bounds.least_seen} of each group are counted in every period"
    elif plan.kind == "static-fair":
        assumed = "both groups are counted equally often, half of the decisions each, in every period"
    else:
        return None
    why = why_assumption_fails(plan, bounds)
    return assumed if why is None else f"{assumed}, which is impossible: {why}"


def why_assumption_fails(plan: ShieldPlan, bounds: WelfareBounds | None = None) -> str | None:
    """Describe why no period can keep the assumption of a static shield; None if some period can."""
    horizon, groups = plan.horizon, len(plan.inputs.groups)
    bounds = _bounds_kept(plan, bounds)
    if bounds is not None:
        if groups * bounds.least_seen > horizon:
            return f"{groups} groups of {bounds.least_seen:,} are more than the {horizon:,} decisions of a period"
    elif plan.kind == "static-fair":
        needed = plan.property.empty_group.needed_count
        if horizon % 2:
            return f"{horizon:,} decisions cannot be halved"
        if 2 * needed > horizon:
            half = f"half of {horizon:,} decisions are {horizon // 2:,}"
            return f"{half}, and fewer than {needed:,} of a group are not judged"
    return None


def why_nothing_is_required(plan: ShieldPlan) -> str | None:
    """Describe why no end of a plan is ever evaluated; None if some end is evaluated.

    Dynamic and greedy shields count all periods together, so every group is eventually large enough.
    """
    horizon, sizes = plan.horizon, plan.start[::2]
    if plan.kind == "static-bw":
        minimum = welfare_bounds_of(plan).least_seen
        # With more than two groups, each group is evaluated separately.
        needed = 2 * minimum if len(sizes) == 2 else minimum
        if needed > horizon:
            article = "each" if len(sizes) == 2 else "a"
            return f"the bounds need {minimum:,} of {article} group, and a period has {horizon:,} decisions"
    elif plan.kind in ("finite", "feasible", "static-fair"):
        minimum = plan.property.empty_group.needed_count
        past_sizes = (0,) * len(sizes) if plan.kind == "static-fair" else sizes
        missing = sorted(max(0, minimum - count) for count in past_sizes)[:2]
        if sum(missing) > horizon:
            return f"two groups of {minimum:,} or more are never counted in {horizon:,} decisions"
    return None


def _bounds_kept(plan: ShieldPlan, bounds: WelfareBounds | None) -> WelfareBounds | None:
    return welfare_bounds_of(plan) if bounds is None and plan.kind == "static-bw" else bounds


def describe_empty_group(plan: ShieldPlan) -> str:
    """Describe the convention for empty and small groups."""
    fairness = plan.property
    counted = " with label 1" if fairness.labelled else ""
    if plan.kind == "static-bw":
        minimum = welfare_bounds_of(plan).least_seen
        return f"Nothing is required of a period that counts fewer than {minimum} of a group{counted}."
    if fairness.empty_group.rule == "zero":
        ratio = fairness.kind == "disparate_impact"
        then = (
            "so no one of the other group may be accepted"
            if ratio
            else f"so the others' must be at most {float(fairness.kappa):g}"
        )
        return f"A group of which no one{counted} has arrived counts as a group with rate 0, {then}."
    if fairness.empty_group.rule == "vacuous":
        return f"Nothing is required until someone{counted} of each group has arrived."
    return f"While fewer than {fairness.empty_group.at_least} of a group{counted} have arrived, nothing is required."


def _describe_checks(plan: ShieldPlan) -> str:
    if plan.checks == "anytime":
        return "After every decision"
    times = [f"{t:,}" for t in plan.times]
    listed = f"{', '.join(times[:-1])} and {times[-1]}" if len(times) > 1 else times[0]
    return f"After {listed} decisions" if plan.horizon > 1 else "After 1 decision"


def _describe_later_periods(plan: ShieldPlan) -> str:
    fairness = plan.property
    settled = ""
    if fairness.kind != "disparate_impact" and fairness.kappa:
        settled = f" Once {ceil(2 / fairness.kappa):,} of each group have been counted, every period ends fair."
    return f"{LATER} {HARD_ENDS[plan.terminal]}{settled}"
