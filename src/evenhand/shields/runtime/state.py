"""The counters of one horizon, decision by decision: what stands behind a running shield."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod
from typing import Any, Protocol

import numpy as np

from evenhand.core.typing import Integers
from evenhand.errors import DecisionError, OptionError
from evenhand.shields.policy.policy import ShieldPolicy, apply_level
from evenhand.shields.policy.tables import look_up_levels
from evenhand.shields.runtime.certificate import OpenLabels, ShieldCertificate, worst_bias
from evenhand.shields.runtime.reachable_states import (
    LiveStates,
    find_live_states,
    has_live_states,
    reachable_end_states,
    worst_bias_among,
)
from evenhand.shields.spec.ends import EndValues, end_values_of, why_nothing_is_required
from evenhand.shields.spec.plan import Counters

MAX_OUTCOMES = 100_000
"""Maximum number of outcomes of open labels that a decision examines."""

MAX_VOTES = 4096
"""Maximum number of these outcomes whose levels are looked up if both decisions keep as many alive."""


class ShieldState(Protocol):
    """Where a shield stands in its run. One horizon is a `FiniteShieldState`; periodic shields have their own.

    Attributes:
        groups: their names.
        costs: what overriding can cost, ascending.
        labelled: whether decisions get labels later.
        digest: of the policy: a state is good for this one alone.
        has_guarantee: whether the bound still holds, given that labels come in time from here on.
        label_wait: Maximum number of decisions that await their label.
        period: which period it is in, from 0: ids are remembered for a period.
    """

    @property
    def groups(self) -> tuple[str, ...]: ...
    @property
    def costs(self) -> tuple[float, ...]: ...
    @property
    def labelled(self) -> bool: ...
    @property
    def label_wait(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def has_guarantee(self) -> bool: ...
    @property
    def period(self) -> int: ...
    @property
    def step(self) -> int: ...

    def decide(self, group: int, recommendation: int, cost: float) -> int:
        """Decide and count. The two lowest bits of the code are recommendation and decision; its label needs all.

        Raises:
            DecisionError: the horizon is past; nothing changed.
        """
        ...

    def observe(self, code: int, label: int) -> None:
        """Record the label of a decision, by the code that it had."""
        ...

    def state(self) -> dict[str, Any]:
        """Return everything that changes, for JSON."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state.

        Raises:
            DecisionError: it is not such a state; nothing changed.
        """
        ...

    def certificate(self, *, exact: bool = False) -> ShieldCertificate:
        """Bound the bias from here on; ``exact`` goes through every future, which may take seconds."""
        ...


class FiniteShieldState:
    """One horizon under one policy.

    Beside the decisions it counts the recommendations, so that what would have been without a shield is known.

    With labels (equal opportunity), a decision made while earlier labels are open examines their outcomes. It is the
    decision after which more outcomes can still end fair, and if both are equal in that, the one that the policy takes
    for most outcomes. Of more than `MAX_OUTCOMES` outcomes (`MAX_VOTES` in a tie), evenly spread ones are examined, and
    nothing is guaranteed until fewer are left. So the cost of a decision is bounded.

    Attributes:
        n_a, a, n_b, b: seen and accepted of each group, of those with label 1 where there are labels.
        recommended_a, recommended_b: how many of these were recommended to be accepted.
        open: decisions whose label is awaited, by their codes.
        prompt: whether every label came before the next decision.
        sound: whether the policy guarantees anything if labels are prompt.
        has_guarantee: whether it does from here on: every outcome of the open labels can still end fair.

    Args:
        policy: a synthesised shield for two groups.
        terminal: what it was synthesised for; by default what its plan says.
    """

    __slots__ = (
        "_careful",
        "_level",
        "_live_states",
        "_terminal",
        "a",
        "b",
        "costs",
        "groups",
        "has_guarantee",
        "horizon",
        "label_wait",
        "labelled",
        "n_a",
        "n_b",
        "open",
        "policy",
        "prompt",
        "recommended_a",
        "recommended_b",
        "sound",
        "step",
    )
    period = 0

    def __init__(self, policy: ShieldPolicy, terminal: EndValues | None = None) -> None:
        plan = policy.plan
        if len(plan.inputs.groups) != 2:
            raise OptionError(f"a shield of two groups, and these are {len(plan.inputs.groups)}", location="groups")
        self.policy = policy
        self.groups = plan.inputs.groups
        self.costs = plan.inputs.costs
        self.labelled, self.label_wait = plan.property.labelled, plan.label_wait
        self.horizon = plan.horizon
        self._level = policy.actions.level
        self._terminal = end_values_of(plan) if terminal is None else terminal
        self._live_states: LiveStates | None = None
        self.step = self.n_a = self.a = self.n_b = self.b = self.recommended_a = self.recommended_b = 0
        self.open = [0] * 8
        self.prompt = True
        self.sound = self.has_guarantee = plan.kind != "greedy" and policy.actions.form != "nudged"
        # Whether the policy's own table is not enough for the next decision.
        self._careful = False

    @property
    def digest(self) -> str:
        """See `ShieldState`."""
        return self.policy.digest

    @property
    def counters(self) -> Counters:
        """Seen and accepted of each group, with label 1 where there are labels."""
        return (self.n_a, self.a, self.n_b, self.b)

    def decide(self, group: int, recommendation: int, cost: float) -> int:
        """See `ShieldState.decide`."""
        step = self.step
        if step >= self.horizon:
            raise past_horizon_error(self.horizon)
        if self._careful:
            decision = self._among_outcomes(group, recommendation, cost)
        else:
            level = self._level(step, self.n_a, self.a, self.n_b, self.b, group)
            decision = apply_level(level, recommendation, cost, self.costs) if level else recommendation
        code = 4 * group + 2 * recommendation + decision
        self.step = step + 1
        if self.labelled:
            self.open[code] += 1
            self._careful = True
        elif group:
            self.n_b += 1
            self.b += decision
            self.recommended_b += recommendation
        else:
            self.n_a += 1
            self.a += decision
            self.recommended_a += recommendation
        return code

    def observe(self, code: int, label: int) -> None:
        """See `ShieldState.observe`."""
        self.open[code] -= 1
        if label:
            recommendation, decision = code >> 1 & 1, code & 1
            if code >> 2:
                self.n_b += 1
                self.b += decision
                self.recommended_b += recommendation
            else:
                self.n_a += 1
                self.a += decision
                self.recommended_a += recommendation
        if self.sound and not self.has_guarantee:
            self.has_guarantee = self._all_live()
        self._careful = any(self.open) or (self.sound and not self.has_guarantee)

    @property
    def open_labels(self) -> OpenLabels:
        """Open decisions of each group, rejected and accepted."""
        open_ = self.open
        return (open_[0] + open_[2], open_[1] + open_[3], open_[4] + open_[6], open_[5] + open_[7])

    def plan_ahead(self, state: Mapping[str, Any] | None = None) -> Callable[[], None] | None:
        """Return a function that computes the live states for decisions with open labels; None if it is not needed.

        It may run in another thread while this state is not used.

        Args:
            state: State to be restored. If None, the present one.
        """
        waits = self._careful if state is None else any(state["open"]) or not state["prompt"]
        known = self._live_states or has_live_states(self._terminal, self.horizon, self.policy.plan.times)

        def make() -> None:
            self._all_live()  # compiles its kernel, too

        return make if waits and self.sound and self.labelled and not known else None

    def _live(self) -> LiveStates:
        if self._live_states is None:
            self._live_states = find_live_states(self._terminal, self.horizon, self.policy.plan.times)
        return self._live_states

    def _all_live(self) -> bool:
        """Return whether all outcomes of the open labels can end fair; False if there are too many to examine."""
        number = prod(count + 1 for count in self.open_labels)
        if number > MAX_OUTCOMES:
            return False
        return self._live().count(self.step, self.counters, self._spread_outcomes(number))[0] == number

    def _spread_outcomes(self, most: int) -> list[Integers]:
        """Return possible numbers of labels 1 among the open decisions of each kind, evenly spread if they are many."""
        longest = max(self.open_labels) + 1
        while prod(min(count + 1, longest) for count in self.open_labels) > most:
            longest -= 1
        return [np.linspace(0, count, min(count + 1, longest)).round().astype(np.int64) for count in self.open_labels]

    def outcomes(self, most: int | None = None) -> Integers:
        """Return the counters that the open labels can lead to, shape (outcomes, 4).

        Args:
            most: Maximum number of outcomes, which are then evenly spread. If None, all of them.
        """
        spread = self._spread_outcomes(most or prod(count + 1 for count in self.open_labels))
        rejected_a, accepted_a, rejected_b, accepted_b = np.stack(np.meshgrid(*spread, indexing="ij")).reshape(4, -1)
        n_a, a, n_b, b = self.counters
        return np.stack(
            [n_a + rejected_a + accepted_a, a + accepted_a, n_b + rejected_b + accepted_b, b + accepted_b], axis=1
        )

    def _among_outcomes(self, group: int, recommendation: int, cost: float) -> int:
        """Return the decision while labels are open, or after the guarantee was lost."""
        if any(self.open):
            self.prompt = False
        alive = (0, 0)
        if self.sound:
            # The label of this decision is open too: a fair end must be within reach whichever it is.
            spread = self._spread_outcomes(MAX_OUTCOMES)
            alive = self._live().count(self.step + 1, self.counters, spread, group=group)
        if alive[0] != alive[1]:
            chosen = int(alive[1] > alive[0])
        else:
            outcomes = self.outcomes(MAX_VOTES)
            level = look_up_levels(
                self.policy.actions,
                self.step,
                np.stack([outcomes[:, 0], outcomes[:, 2]]),
                np.stack([outcomes[:, 1], outcomes[:, 3]]),
                np.full(len(outcomes), group),
            )
            against = sum(
                times * (apply_level(int(value), recommendation, cost, self.costs) != recommendation)
                for value, times in zip(*np.unique(level, return_counts=True), strict=True)
            )
            chosen = recommendation ^ int(2 * against > len(outcomes))
        counts = list(self.open_labels)
        number = prod(count + 1 for count in counts)
        counts[2 * group + chosen] += 1
        examined = prod(count + 1 for count in counts) <= MAX_OUTCOMES
        self.has_guarantee = self.sound and examined and alive[chosen] == number
        return chosen

    def switch_policy(self, policy: ShieldPolicy, terminal: EndValues | None) -> None:
        """Go on under another policy of the same horizon and property, from the same counters."""
        self.policy = policy
        self._level = policy.actions.level
        before, self._terminal = self._terminal, end_values_of(policy.plan) if terminal is None else terminal
        if self._terminal != before:
            self._live_states = None
        if self.sound:
            self.has_guarantee = self._all_live()
        self._careful = any(self.open) or (self.sound and not self.has_guarantee)

    def state(self) -> dict[str, Any]:
        """See `ShieldState.state`."""
        return {
            "step": self.step,
            "counters": list(self.counters),
            "recommended": [self.recommended_a, self.recommended_b],
            "open": list(self.open),
            "prompt": self.prompt,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `ShieldState.restore`."""
        counts = check_counts(
            [
                state.get("step"),
                *read_numbers(state, "counters", 4),
                *read_numbers(state, "recommended", 2),
                *read_numbers(state, "open", 8),
            ]
        )
        if state.get("prompt") not in (True, False):
            raise invalid_state_error("it does not say whether labels were prompt")
        step, n_a, a, n_b, b, recommended_a, recommended_b, *open_ = counts
        if step > self.horizon:
            raise invalid_state_error(f"{step} decisions are past the horizon of {self.horizon}")
        known = n_a + n_b + sum(open_)
        if max(a, recommended_a) > n_a or max(b, recommended_b) > n_b or known > step:
            raise invalid_state_error("more were counted than decided on")
        if not self.labelled and known != step:
            raise invalid_state_error("not all that were decided on were counted")
        self.step, self.n_a, self.a, self.n_b, self.b, self.open = step, n_a, a, n_b, b, open_
        self.recommended_a, self.recommended_b, self.prompt = recommended_a, recommended_b, state["prompt"]
        self.has_guarantee = self.sound
        if self.sound and not self.prompt:
            self.has_guarantee = self._all_live()
        self._careful = any(open_) or (self.sound and not self.has_guarantee)

    @property
    def totals(self) -> Counters:
        """The counters with what was carried over from before."""
        carried = self.policy.plan.start
        return (self.n_a + carried[0], self.a + carried[1], self.n_b + carried[2], self.b + carried[3])

    def certificate(self, *, exact: bool = False) -> ShieldCertificate:
        """See `ShieldState.certificate`.

        Raises:
            LimitError: ``exact``, and the end is too far away.
        """
        plan = self.policy.plan
        kept, carried = plan.property, plan.start
        bias = worst_bias(kept, self.totals, self.open_labels)
        recommended = (
            self.n_a + carried[0],
            self.recommended_a + carried[1],
            self.n_b + carried[2],
            self.recommended_b + carried[3],
        )
        open_ = self.open
        unshielded = worst_bias(
            kept, recommended, (open_[0] + open_[1], open_[2] + open_[3], open_[4] + open_[5], open_[6] + open_[7])
        )
        bound: Fraction | None
        if self.step == self.horizon:
            bound, attained, how = bias, True, "counted over all decisions"
            if any(open_):
                how += ", whatever the open labels turn out to be"
        elif not self.has_guarantee:
            bound, attained = None, False
            how = "labels came too late" if self.sound else "this kind of shield guarantees nothing"
        elif exact:
            ends = reachable_end_states(self.policy, self.step, self.outcomes())
            bound = worst_bias_among(kept, ends + np.array(carried))
            attained, how = True, "the largest over everything that can still come"
        else:
            nothing = why_nothing_is_required(plan)
            bound, attained, how = kept.kappa, False, "every run of this shield ends fair (Theorem 1)"
            if nothing is not None:
                bound, how = None, nothing
        if self.labelled and bound is not None and self.step < self.horizon:
            how += f", as long as {PROMPT_LABELS}"
        return ShieldCertificate(
            keeps=kept.words(),
            kappa=kept.kappa,
            step=self.step,
            horizon=self.horizon,
            period=0,
            shielded=bias,
            unshielded=unshielded,
            open_labels=sum(open_),
            bound=bound,
            exact=attained,
            later=None,
            how=how,
            assumption=PROMPT_LABELS if self.labelled else "",
            assumption_held=self.prompt if self.labelled else None,
        )


PROMPT_LABELS = "every label comes before the next decision"
PROMPT_FROM_HERE = "every label from here on comes before the next decision"
"""Where labels were late, and what they turned out to be did no harm."""


def past_horizon_error(horizon: int) -> DecisionError:
    """Return the error of one decision more than the horizon has."""
    return DecisionError(
        f"all {horizon} decisions of the horizon are made",
        code="horizon",
        hint="begin a new shield, or use a periodic one",
    )


def read_numbers(state: Mapping[str, Any], name: str, length: int) -> list[Any]:
    """Read a list of numbers from a state. The list is a copy, so that the state keeps its values."""
    numbers = state.get(name)
    if not isinstance(numbers, list) or len(numbers) != length:
        raise invalid_state_error(f"{name} must be a list of {length} numbers")
    return list(numbers)


def check_counts(counts: list[Any]) -> list[int]:
    """Check that all counts are integers of 0 or more, and return them.

    Raises:
        DecisionError: A count is negative, or not an integer.
    """
    if any(count.__class__ is not int or count < 0 for count in counts):
        raise invalid_state_error("its counters are not all whole numbers of 0 or more")
    return counts


def invalid_state_error(why: str) -> DecisionError:
    """Return why this cannot be a state."""
    return DecisionError(
        f"this is not a state of the shield: {why}", code="state", hint="give what Shield.state returned, unchanged"
    )
