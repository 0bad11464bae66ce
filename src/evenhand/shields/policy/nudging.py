"""Nudges: overrides at random, the more probable the larger the bias is, with draws that anybody can make again.

What is drawn depends on the seed of the plan, on what was counted before the period, and on the time in it, and on
nothing else. A log that holds plan and counters therefore replays to the same decisions, and replicas that share a
state share its draws.

Let b be the bias and D the gap of the recommendations. With overrides of what widens b on both groups, with probability
q(b), the bias moves by (D - q(b) (1 + D) - b + noise) / t with the t-th decision: falling in b, so that it tends to the
b* with q(b*) = (D - b*) / (1 + D) (Robbins and Monro 1951). Closing the gap by x through one group costs its share
times x per decision, which is why the smaller group alone is nudged by default.

Source: overrides that grow more probable with unfairness are those of Cano, Henzinger, Kueffner: Energy shields for
fairness, 2026 (arXiv 2605.24926). The derivation, the filter and the draws are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.shields.policy.policy import ActionTable
from evenhand.shields.policy.tables import look_up_levels
from evenhand.shields.spec.plan import Counters, Nudging, ShieldPlan
from evenhand.shields.spec.properties import FairnessProperty

STEP = 0x9E3779B97F4A7C15
FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
MASK = 2**64 - 1
BITS = 2.0**-53


def mix_key(key: int, more: int) -> int:
    """Return a key that depends on another and on a number: SplitMix64 (Steele, Lea and Flood 2014)."""
    mixed = (key + (more + 1) * STEP) & MASK
    for shift, factor in FACTORS:
        mixed = ((mixed ^ mixed >> shift) * factor) & MASK
    return mixed ^ mixed >> 31


def mix_keys(keys: NDArray[np.uint64], more: Any) -> NDArray[np.uint64]:
    """`mix_key` for arrays."""
    with np.errstate(over="ignore"):
        mixed = keys + (np.asarray(more, dtype=np.uint64) + np.uint64(1)) * np.uint64(STEP)
        for shift, factor in FACTORS:
            mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
        return np.asarray(mixed ^ mixed >> np.uint64(31))


def draw(key: int, t: int) -> float:
    """Return the number of a key and a time, evenly from [0, 1)."""
    return (mix_key(key, t) >> 11) * BITS


def draws(keys: NDArray[np.uint64], t: int) -> Floats:
    """`draw` for arrays."""
    return np.asarray((mix_keys(keys, t) >> np.uint64(11)).astype(np.float64) * BITS)


def nudged_groups(plan: ShieldPlan) -> tuple[bool, bool]:
    """Return whether decisions on the first group, and on the second, are nudged."""
    assert plan.nudging is not None
    if plan.nudging.groups == "both":
        return True, True
    first = plan.inputs.rate[0] <= plan.inputs.rate[1]
    return first, not first


@dataclass(frozen=True)
class NudgedTable:
    """A table whose free decisions are nudged; as an `ActionTable` it gives the levels that were drawn.

    Attributes:
        base: levels that leave no choice; None: nothing is forced.
        kept: the property.
        nudging: how probable a nudge is.
        nudged: which groups.
        start: counters of everything before the period.
        costs: how many there are: a nudge overrides whatever that costs.
    """

    base: ActionTable | None
    kept: FairnessProperty
    nudging: Nudging
    nudged: tuple[bool, bool]
    start: Counters
    costs: int = 1

    @classmethod
    def of(cls, plan: ShieldPlan, base: ActionTable | None) -> NudgedTable:
        """Return the table of an energy plan from ``plan.start`` on."""
        assert plan.nudging is not None
        return cls(base, plan.property, plan.nudging, nudged_groups(plan), plan.start, len(plan.inputs.costs))

    @property
    def form(self) -> str:
        """Its name in a file, with that of the table below."""
        return "nudged" if self.base is None else f"nudged {self.base.form}"

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return () if self.base is None else self.base.arrays

    @cached_property
    def key(self) -> int:
        """Of the draws of this period."""
        key = self.nudging.seed
        for count in self.start:
            key = mix_key(key, count)
        return key

    def level(self, t: int, counters: Sequence[int], group: int) -> int:
        """Return the level in a state: forced, or drawn."""
        level = 0 if self.base is None else self.base.level(t, counters, group)
        if level or not self.nudged[group]:
            return level
        n_a, a, n_b, b = counters
        seen_a, past_a, seen_b, past_b = self.start
        n, m = n_a + seen_a, n_b + seen_b
        if n + m < self.nudging.first or min(n, m) < self.kept.empty_group.needed_count:
            return 0
        rate_a, rate_b = (a + past_a) / max(n, 1), (b + past_b) / max(m, 1)
        bias = abs(rate_a - rate_b)
        if self.kept.kind == "disparate_impact" and bias:
            bias = 1 - min(rate_a, rate_b) / max(rate_a, rate_b)
        if draw(self.key, t) >= self._probability(bias):
            return 0
        # The group that has more is rejected, the other one accepted.
        return -self.costs if (rate_a > rate_b) == (group == 0) else self.costs

    def _probability(self, bias: Any) -> Any:
        """Return the probability of an override; only sums and products, which are the same on every machine."""
        rule = self.nudging
        share = (bias - rule.free) / (rule.full - rule.free)
        raised = share
        for _ in range(rule.power - 1):
            raised = raised * share
        return raised * (share > 0)

    def levels(self, t: int, seen: Integers, accepted: Integers, group: Integers, runs: NudgedRuns) -> Integers:
        """Return the levels in many runs, each with draws of its own.

        Args:
            t: decisions made in the period.
            seen, accepted: counters of the groups in the period, shape (groups, runs).
            group: the position of that of who comes, shape (runs,).
            runs: keys, and counters of everything before.
        """
        forced = (
            np.zeros(len(group), dtype=np.int64)
            if self.base is None
            else look_up_levels(self.base, t, seen, accepted, group)
        )
        n, k = runs.seen + seen, runs.accepted + accepted
        # Nudged is only where nothing is forced, among groups that may be, once enough people were seen; and always
        # against the group that has more.
        rate = k / np.maximum(n, 1)
        bias = self.kept.bias_of_rates(rate[0], rate[1])
        free = np.asarray(forced == 0) & np.array(self.nudged)[group] & (n.sum(axis=0) >= self.nudging.first)
        free &= n.min(axis=0) >= self.kept.empty_group.needed_count
        nudge: Booleans = free & (draws(runs.keys, t) < self._probability(bias))
        against = np.where((rate[0] > rate[1]) == (group == 0), -self.costs, self.costs)
        return np.asarray(np.where(nudge, against, forced))


@dataclass(frozen=True)
class NudgedRuns:
    """What is different in the periods of many runs.

    Attributes:
        keys: of the draws, (runs,).
        seen, accepted: of everything before the period, shape (groups, runs).
    """

    keys: NDArray[np.uint64]
    seen: Integers
    accepted: Integers

    @classmethod
    def begin(cls, seeds: NDArray[np.uint64], seen: Integers, accepted: Integers) -> NudgedRuns:
        """Return the runs of these seeds, with keys as `NudgedTable.key`; counters of shape (groups, runs)."""
        keys = seeds
        for n, k in zip(seen, accepted, strict=True):
            keys = mix_keys(mix_keys(keys, n), k)
        return cls(keys, seen, accepted)


def long_run_bias(plan: ShieldPlan) -> float | None:
    """Return what the bias of an energy shield tends to, if people go on coming as expected; without the filter.

    It is the b* of which recommendations and nudges together make b* again: found by bisection, as what they make falls
    with b. For disparate impact, whose bias is not a difference of rates, None. With the filter, a b* above kappa is
    not reached: the ends of all periods are fair.
    """
    nudging, inputs = plan.nudging, plan.inputs
    if nudging is None or plan.property.kind == "disparate_impact" or len(inputs.groups) != 2:
        return None
    table = NudgedTable.of(plan, None)
    larger = 0 if inputs.accept[0] >= inputs.accept[1] else 1
    top, bottom = inputs.accept[larger], inputs.accept[1 - larger]
    # With probability q the larger rate falls from top to 0, and the smaller one rises from bottom to 1.
    closed = top * table.nudged[larger] + (1 - bottom) * table.nudged[1 - larger]
    low, high = 0.0, top - bottom
    for _ in range(60):
        middle = (low + high) / 2
        if top - bottom - min(1.0, table._probability(middle)) * closed > middle:
            low = middle
        else:
            high = middle
    return (low + high) / 2
