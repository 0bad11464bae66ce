"""What an end is worth, bounds on the welfare of groups, and what a shield that keeps them guarantees.

An end is worth 0 where it is allowed, infinity where it is forbidden, or a price. Any object with `values` is a
terminal. Sets whose counts ``b`` form an interval given the others (a `BandEnd`) are checked faster, and at every time
if need be.
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
    """The value of every pair of counts of accepted at a check."""

    def values(self, n_a: int, n_b: int) -> Floats:
        """Return shape (n_a + 1, n_b + 1) by accepted of each group; infinite: forbidden."""
        ...


@runtime_checkable
class BandEnd(EndValues, Protocol):
    """A terminal that is 0 on intervals and infinite beside them."""

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        """Return integer arrays (broadcast): the counts ``b`` from low to high are allowed, none if low > high."""
        ...


class _BandValues:
    """Values of a terminal that is a band."""

    def values(self: BandEnd, n_a: int, n_b: int) -> Floats:
        low, high = self.band(n_a, np.arange(n_a + 1), n_b)
        b = np.arange(n_b + 1)
        return np.where((low[:, None] <= b) & (b <= high[:, None]), 0.0, np.inf)


@dataclass(frozen=True)
class FairEnd(_BandValues):
    """The property holds, with what was counted before.

    Attributes:
        property: what must hold.
        start: counters carried over (n_a, a, n_b, b).
    """

    property: FairnessProperty
    start: Counters = (0, 0, 0, 0)

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        seen_a, past_a, seen_b, past_b = self.start
        n_a, a, n_b = (np.asarray(counts, dtype=np.int64) for counts in (n_a, a, n_b))
        low, high = self.property.band(n_a + seen_a, a + past_a, n_b + seen_b)
        return np.maximum(low - past_b, 0), np.minimum(high - past_b, n_b)

    def is_judged(self, n_a: int, n_b: int) -> bool:
        """Return whether so many of each group are enough for anything to be required."""
        return min(n_a + self.start[0], n_b + self.start[2]) >= self.property.empty_group.needed_count


@dataclass(frozen=True)
class WelfareEnd(_BandValues):
    """Both welfares lie between the bounds, unless a group has fewer than ``at_least`` (Static-BW, Definition 5).

    Attributes:
        lower, upper: bounds of the welfare, exact.
        at_least: smaller groups (in either of the two) make every end allowed.
        start: counters carried over.
    """

    lower: Fraction
    upper: Fraction
    at_least: int
    start: Counters = (0, 0, 0, 0)

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        seen_a, past_a, seen_b, past_b = self.start
        n_a, a, n_b = (np.asarray(counts, dtype=np.int64) for counts in (n_a, a, n_b))
        n, m, k = n_a + seen_a, n_b + seen_b, a + past_a
        lower, upper = self.lower, self.upper
        inside = (lower.numerator * n <= k * lower.denominator) & (k * upper.denominator <= upper.numerator * n)
        low = -(-lower.numerator * m // lower.denominator) - past_b
        high = upper.numerator * m // upper.denominator - past_b
        small = np.minimum(n, m) < self.at_least
        low = np.where(small, 0, np.where(inside, np.maximum(low, 0), 1))
        high = np.where(small, n_b, np.where(inside, np.minimum(high, n_b), 0))
        return low, high

    def is_judged(self, n_a: int, n_b: int) -> bool:
        """Return whether so many of each group are enough for anything to be required."""
        return min(n_a + self.start[0], n_b + self.start[2]) >= self.at_least


def end_values_of(plan: ShieldPlan) -> EndValues:
    """Return what a plan's checks are worth, over two groups."""
    return FairEnd(plan.property, plan.start)


# Bounds on the welfare of every group: what keeps a gap small in every period keeps it small over all of them.
#
# A group's welfare is the share of it that was accepted (among those with label 1, for equal opportunity). If it lies
# in [l, u] in each of several periods, it lies there in all of them together, whatever their sizes, as a mediant of
# fractions lies between them (Cano et al., "Fairness shields", Lemma 3). So does the welfare of replicas that decide
# side by side. Bounds with u - l <= kappa therefore bound the gap between any two groups, and bounds with l >= (1 -
# kappa) u their ratio. They can be met as soon as 1 / (u - l) of a group were seen (Lemma 9).


MAX_DENOMINATOR = 10**6
"""Denominator of bounds that come from data: more digits would mean nothing."""


@dataclass(frozen=True)
class WelfareBounds:
    """Every group's welfare between two numbers, both exact.

    Attributes:
        lower, upper: 0 <= lower < upper <= 1.

    Raises:
        OptionError: they are not.
    """

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.lower < self.upper <= 1:
            raise OptionError(
                f"welfare bounds {float(self.lower):g} to {float(self.upper):g}",
                location="bounds",
                hint="give a lower bound below the upper one, both between 0 and 1",
            )

    @property
    def least_seen(self) -> int:
        """How many of a group must have been seen for the bounds to be possible whatever they are: 1 / (u - l)."""
        return ceil(1 / (self.upper - self.lower))

    def holds(self, seen: Any, accepted: Any) -> Booleans:
        """Return whether the welfare lies within, exactly; arrays or numbers. An empty group is within."""
        seen, accepted = np.asarray(seen, dtype=np.int64), np.asarray(accepted, dtype=np.int64)
        low = accepted * self.lower.denominator >= seen * self.lower.numerator
        high = accepted * self.upper.denominator <= seen * self.upper.numerator
        return np.asarray(low & high)

    def words(self) -> str:
        """For people."""
        return f"every group's rate between {float(self.lower):.4g} and {float(self.upper):.4g}"

    @classmethod
    def gap(cls, kappa: Fraction, middle: float) -> WelfareBounds:
        """Return the bounds kappa apart around a rate, moved into [0, 1] where they would leave it."""
        _check_kappa_positive(kappa)
        lower = Fraction(middle).limit_denominator(MAX_DENOMINATOR) - kappa / 2
        lower = max(Fraction(0), min(lower, 1 - kappa))
        return cls(lower, min(Fraction(1), lower + kappa))

    @classmethod
    def ratio(cls, kappa: Fraction, middle: float) -> WelfareBounds:
        """Return the bounds whose ratio is 1 - kappa, around a rate.

        Raises:
            OptionError: the rate is 0, of which no share can be had.
        """
        _check_kappa_positive(kappa)
        upper = Fraction(middle).limit_denominator(MAX_DENOMINATOR) / (1 - min(kappa, Fraction(1)) / 2)
        if upper <= 0:
            raise OptionError(
                "no ratio of rates can be kept around a rate of 0",
                location="bounds",
                hint="give bounds, or another property than disparate impact",
            )
        upper = min(upper, Fraction(1))
        return cls((1 - min(kappa, Fraction(1))) * upper, upper)


def welfare_bounds_of(plan: ShieldPlan) -> WelfareBounds:
    """Return the welfare bounds of a static-bw plan: as given, else of width kappa around the mean label.

    Raises:
        OptionError: bounds that do not imply the property.
    """
    kept = plan.property
    ratio = kept.kind == "disparate_impact"
    if plan.bounds is not None:
        lower, upper = plan.bounds
        if ratio and lower < (1 - kept.kappa) * upper:
            raise OptionError(
                f"welfare bounds {float(lower):g} to {float(upper):g} allow rates in a smaller ratio than 1 - kappa",
                location="bounds",
                hint="a lower bound of at least (1 - kappa) times the upper one",
            )
        return WelfareBounds(lower, upper)
    means = plan.inputs.label if plan.inputs.label is not None else plan.inputs.accept
    middle = sum(rate * mean for rate, mean in zip(plan.inputs.rate, means, strict=True))
    return WelfareBounds.ratio(kept.kappa, middle) if ratio else WelfareBounds.gap(kept.kappa, middle)


def _check_kappa_positive(kappa: Fraction) -> None:
    if kappa <= 0:
        raise OptionError(
            "welfare bounds need a threshold above 0: with kappa = 0 both ends would be the same rate",
            location="kappa",
            hint="give a kappa above 0, or the kind finite or dynamic",
        )


# What a shield guarantees, and on what conditions, in words.


EVERY_RUN = "in every run, whatever people come, in whatever order, and whatever is recommended"
GREEDY = (
    "Nothing is guaranteed: it overrides a decision that would leave the groups unfair at once, and may find at the "
    "end that it is too late."
)
FEASIBLE = (
    "The shield intervenes only where nothing else leads to a fair end for sure; what that costs and who is "
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


def guarantees(plan: ShieldPlan) -> tuple[str, ...]:
    """Return what the shield of a plan guarantees: one sentence each, the main one first."""
    nothing = why_nothing_is_required(plan)
    if nothing is not None:
        return (f"Nothing is guaranteed: {nothing}.",)
    keeps, always = plan.property.words(), f"{EVERY_RUN}{_describe_label_timing(plan)}"
    if plan.kind == "greedy":
        return (GREEDY,)
    if plan.kind == "static-fair":
        why = why_assumption_fails(plan)
        together = BALANCED if why is None else f"Over several periods together nothing is guaranteed: {why}."
        return f"{_describe_checks(plan)} of every period, {keeps}, counted within it alone: {always}.", together
    if plan.kind == "static-bw":
        bounds, why = welfare_bounds_of(plan), why_assumption_fails(plan)
        between = f"between {float(bounds.lower):g} and {float(bounds.upper):g}"
        return (
            f"In every period of {plan.horizon:,} decisions that counts at least {bounds.least_seen} of each group, "
            f"every group's acceptance rate ends {between}: {always}.",
            f"So it does over all such periods together, and then {keeps}."
            if why is None
            else f"Over all groups together nothing is guaranteed: {why}.",
        )
    if plan.plans_periods:
        first = f"{_describe_checks(plan)} of the first period, {keeps}: {always}."
        return first, _describe_later_periods(plan)
    found = f"{_describe_checks(plan)}, {keeps}: {always}."
    return (found, FEASIBLE) if plan.kind == "feasible" else (found,)


def describe_assumption(plan: ShieldPlan, bounds: WelfareBounds | None = None) -> str | None:
    """Return what fairness at the end of every later period rests on, in words; None if nothing is guaranteed there.

    Where no period can be like that, it says why.

    Args:
        plan: of the shield.
        bounds: that the shield keeps; by default those of a static-bw plan.
    """
    if plan.plans_periods:
        return "so many of each group were counted at the end of every period that a fair end was possible"
    bounds = _bounds_kept(plan, bounds)
    if bounds is not None:
        assumed = f"at least {bounds.least_seen} of each group are counted in every period"
    elif plan.kind == "static-fair":
        assumed = "both groups are counted equally often, half of the decisions each, in every period"
    else:
        return None
    why = why_assumption_fails(plan, bounds)
    return assumed if why is None else f"{assumed}, which cannot be: {why}"


def why_assumption_fails(plan: ShieldPlan, bounds: WelfareBounds | None = None) -> str | None:
    """Return why no period can keep the assumption of a static shield, however people come; None if some can."""
    horizon, groups = plan.horizon, len(plan.inputs.groups)
    bounds = _bounds_kept(plan, bounds)
    if bounds is not None:
        if groups * bounds.least_seen > horizon:
            return f"{groups} groups of {bounds.least_seen:,} are more than the {horizon:,} decisions of a period"
    elif plan.kind == "static-fair":
        needed = plan.property.empty_group.needed_count
        if horizon % 2:
            return f"{horizon:,} decisions have no two halves"
        if 2 * needed > horizon:
            half = f"half of {horizon:,} decisions are {horizon // 2:,}"
            return f"{half}, and fewer than {needed:,} of a group are not judged"
    return None


def why_nothing_is_required(plan: ShieldPlan) -> str | None:
    """Return why no end of a plan is ever judged, so that it keeps nothing, in any run; None if some end is.

    Dynamic and greedy shields count all periods together, so that sooner or later every group is large enough.
    """
    horizon, seen = plan.horizon, plan.start[::2]
    if plan.kind == "static-bw":
        least = welfare_bounds_of(plan).least_seen
        # Of more than two groups each is judged by itself.
        needed = 2 * least if len(seen) == 2 else least
        if needed > horizon:
            whom = "each" if len(seen) == 2 else "a"
            return f"the bounds need {least:,} of {whom} group, and a period has {horizon:,} decisions"
    elif plan.kind in ("finite", "feasible", "static-fair"):
        least = plan.property.empty_group.needed_count
        before = (0,) * len(seen) if plan.kind == "static-fair" else seen
        missing = sorted(max(0, least - count) for count in before)[:2]
        if sum(missing) > horizon:
            return f"two groups of {least:,} or more are never counted in {horizon:,} decisions"
    return None


def _bounds_kept(plan: ShieldPlan, bounds: WelfareBounds | None) -> WelfareBounds | None:
    return welfare_bounds_of(plan) if bounds is None and plan.kind == "static-bw" else bounds


def describe_empty_group(plan: ShieldPlan) -> str:
    """Return what holds while a group is empty or small, in words."""
    kept = plan.property
    counted = " with label 1" if kept.labelled else ""
    if plan.kind == "static-bw":
        least = welfare_bounds_of(plan).least_seen
        return f"Of a period that counts fewer than {least} of a group{counted} nothing is required."
    if kept.empty_group.rule == "zero":
        ratio = kept.kind == "disparate_impact"
        then = (
            "so no one of the other group may be accepted"
            if ratio
            else f"so the others' must be at most {float(kept.kappa):g}"
        )
        return f"A group of which no one{counted} has come counts as one with rate 0, {then}."
    if kept.empty_group.rule == "vacuous":
        return f"While no one{counted} of a group has come, nothing is required."
    return f"While fewer than {kept.empty_group.at_least} of a group{counted} have come, nothing is required."


def _describe_checks(plan: ShieldPlan) -> str:
    if plan.checks == "anytime":
        return "After every decision"
    times = [f"{t:,}" for t in plan.times]
    listed = f"{', '.join(times[:-1])} and {times[-1]}" if len(times) > 1 else times[0]
    return f"After {listed} decisions" if plan.horizon > 1 else "After 1 decision"


def _describe_label_timing(plan: ShieldPlan) -> str:
    return ", if the label of every decision is known before the next one" if plan.property.labelled else ""


def _describe_later_periods(plan: ShieldPlan) -> str:
    kept = plan.property
    settled = ""
    if kept.kind != "disparate_impact" and kept.kappa:
        settled = f" Once {ceil(2 / kept.kappa):,} of each group were counted, every period ends fair."
    return f"{LATER} {HARD_ENDS[plan.terminal]}{settled}"
