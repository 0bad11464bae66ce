"""When the inputs are not known: ranges of probabilities, and estimates that change while the shield runs.

Neither touches fairness. Whether a fair end can be forced from a state does not depend on who is how likely to come,
only the expected cost does; a shield for wrong probabilities is as fair as one for the right ones and dearer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.shield.inputs import IMPOSSIBLE, Inputs
from evenhand.shield.plan import Counters, Plan
from evenhand.shield.policy import Policy
from evenhand.shield.synthesis.layer import Layer
from evenhand.shield.synthesis.mixes import TOLERANCE, Mix, mix_of
from evenhand.shield.synthesis.solve import Problem, solve
from evenhand.shield.tables import Packed, bits_for, state_start
from evenhand.shield.terminal import Fair, Floats, Ints, Terminal, terminal_of

Range = tuple[float, float]


@dataclass(frozen=True)
class Ranges:
    """Probabilities between two ends, chosen anew by an adversary at every step.

    Attributes:
        inputs: two groups with what is likely; costs and their weights are taken from it as they are.
        rate: of the first group, lowest and highest.
        accept: of a recommendation to accept, by group.
        label: of label 1, by group; None if labels play no part. It may depend on the decision.

    Raises:
        OptionError: an end is no probability, or the lower one is above the upper one.
    """

    inputs: Inputs
    rate: Range
    accept: tuple[Range, Range]
    label: tuple[Range, Range] | None = None

    def __post_init__(self) -> None:
        if len(self.inputs.groups) != 2:
            raise OptionError(f"ranges are for two groups, and these are {len(self.inputs.groups)}", where="groups")
        if (self.label is None) != (self.inputs.label is None):
            raise OptionError("a range of labels belongs to inputs with labels", where="label")
        named = [("rate", self.rate), *(("accept", ends) for ends in self.accept)]
        for name, (low, high) in [*named, *(("label", ends) for ends in self.label or ())]:
            if not 0 <= low <= high <= 1:
                raise OptionError(f"a range from {low:g} to {high:g}", where=name, mend="0 <= lowest <= highest <= 1")

    @classmethod
    def around(cls, inputs: Inputs, *, rate: float = 0.0, accept: float = 0.0, label: float = 0.0) -> Ranges:
        """Ranges that reach so far to both sides of what is likely, within 0 and 1."""

        def reach(value: float, width: float) -> Range:
            return max(0.0, value - width), min(1.0, value + width)

        a, b = inputs.accept[:2]
        labels = None if inputs.label is None else (reach(inputs.label[0], label), reach(inputs.label[1], label))
        return cls(inputs, reach(inputs.rate[0], rate), (reach(a, accept), reach(b, accept)), labels)

    def corners(self) -> list[Inputs]:
        """All combinations of ends."""
        found = []
        for rate, a, b, *labels in product(self.rate, *self.accept, *(self.label or ())):
            label = tuple(labels) or None
            found.append(replace(self.inputs, rate=(rate, 1 - rate), accept=(a, b), label=label))
        return found


def synthesize_robust(plan: Plan, ranges: Ranges) -> Policy:
    """The shield with the least expected cost in the worst case, when probabilities are anywhere in their ranges.

    The worst case is chosen at every step, knowing the counters (the ranges are rectangular), so that the expected cost
    of the policy is a bound for every fixed choice and for every drift within the ranges. The expected value of a step
    is linear in each probability, so that ends suffice: O(1) more work per state than without ranges.

    Returns:
        A policy whose ``expected_cost`` is that bound.

    Raises:
        OptionError: no shield keeps the property from the plan's start, or the groups are others.
    """
    started = time.perf_counter()
    inputs = ranges.inputs
    if plan.inputs.groups != inputs.groups:
        raise OptionError("the ranges are for other groups than the plan", where="groups")
    horizon, labelled = plan.horizon, plan.property.labelled
    if labelled and ranges.label is None:
        raise OptionError("equal opportunity needs ranges of the share of label 1", where="label")
    end = terminal_of(plan)
    layer = Layer(horizon, labelled)
    values = np.zeros(layer.size)
    costs = len(inputs.costs)
    steps = [_step(ranges, group, end_) for group in (0, 1) for end_ in (0, 1)]
    rates = np.maximum([[rate, 1 - rate] for rate in ranges.rate], IMPOSSIBLE)
    cells = np.empty((2, state_start(horizon, labelled)), dtype=np.uint8)
    for t in range(horizon, -1, -1):
        if t < horizon:
            _swept(values, layer, t, steps, rates, ranges, cells)
        if t in plan.times:
            layer.check(values, t, end)
    if values[0] == np.inf:
        raise OptionError(f"no shield can keep that {plan.property.words()}, from the counters {plan.start} on")
    actions = Packed(horizon, labelled, costs, (_packed(cells[0], costs), _packed(cells[1], costs)))
    seconds = time.perf_counter() - started
    return Policy(
        replace(plan, inputs=inputs), actions, float(values[0]), cells.shape[1], values.nbytes + cells.nbytes, seconds
    )


def _step(ranges: Ranges, group: int, end: int) -> Mix:
    """The step of a group, given that it came, at one end of its acceptance rate."""
    accept = tuple(ends[end] for ends in ranges.accept)
    rate = (1.0, 0.0) if group == 0 else (0.0, 1.0)
    inputs = replace(ranges.inputs, rate=rate, accept=accept)
    return mix_of(inputs, group, TOLERANCE * inputs.costs[-1])


def _swept(
    values: Floats,
    layer: Layer,
    t: int,
    steps: list[Mix],
    rates: Floats,
    ranges: Ranges,
    cells: NDArray[np.uint8],
) -> None:
    from evenhand.shield.robust_kernel import opportunity, parity

    start, size = state_start(t, layer.labelled), comb(t + 4, 4) if layer.labelled else comb(t + 3, 3)
    part = cells[:, start : start + size]
    if not layer.labelled:
        parity(values, layer.horizon, t, *steps, rates, part[0], part[1])
        return
    labels = np.maximum([[[1 - end, end] for end in ends] for ends in ranges.label or ()], IMPOSSIBLE)
    opportunity(values, layer.planes, t, *steps, rates, labels, part[0], part[1])


def _packed(cells: NDArray[np.uint8], costs: int) -> NDArray[np.uint8]:
    """Levels plus costs, several in a byte, the lowest bits first."""
    bits = bits_for(costs)
    per_byte = 8 // bits
    padded = np.pad(cells, (0, -len(cells) % per_byte)).reshape(-1, per_byte)
    return np.asarray(sum(padded[:, i] << np.uint8(i * bits) for i in range(per_byte)), dtype=np.uint8)


@dataclass(frozen=True)
class Continued:
    """An end as seen from a state on the way to it.

    Attributes:
        end: as seen from the start.
        passed: counters of the state.
    """

    end: Terminal
    passed: Counters

    def values(self, n_a: int, n_b: int) -> Floats:
        seen_a, a, seen_b, b = self.passed
        return self.end.values(n_a + seen_a, n_b + seen_b)[a : a + n_a + 1, b : b + n_b + 1]


@dataclass(frozen=True)
class ContinuedBand(Continued):
    """The same for an end whose counts of accepted are intervals."""

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Ints, Ints]:
        seen_a, passed_a, seen_b, passed_b = self.passed
        n_a, a, n_b = (np.asarray(counts, dtype=np.int64) for counts in (n_a, a, n_b))
        low, high = self.end.band(n_a + seen_a, a + passed_a, n_b + seen_b)  # type: ignore[attr-defined]
        return np.maximum(low - passed_b, 0), np.minimum(high - passed_b, n_b)


def resumed(plan: Plan, t: int, counters: Counters, inputs: Inputs, end: Terminal | None = None) -> Policy:
    """The shield for what is left of a horizon, made anew for other inputs.

    It is fair wherever the first one was: a state from which a fair end can be forced is one for all inputs.

    Args:
        plan: of the running shield.
        t: decisions made since its start.
        counters: counted since then, seen and accepted of each group.
        inputs: who is expected from here on.
        end: what its ends are worth; by default what its plan says. A period of a dynamic shield has its own.

    Returns:
        A policy whose time and counters begin at 0 again; its plan's ``start`` has what was counted before.

    Raises:
        OptionError: the time or the counters cannot be, or no fair end can be forced from there.
    """
    left = plan.horizon - t
    if not 0 < left <= plan.horizon:
        raise OptionError(f"after {t} of {plan.horizon} decisions nothing is left", where="t")
    if inputs.groups != plan.inputs.groups:
        raise OptionError("these inputs are of other groups", where="groups")
    end = Fair(plan.property, plan.start) if end is None else end
    rest = ContinuedBand(end, counters) if hasattr(end, "band") else Continued(end, counters)
    checks = {time_ - t: rest for time_ in plan.times if time_ > t}
    start = tuple(before + since for before, since in zip(plan.start, counters, strict=True))
    started = time.perf_counter()
    solution = solve(Problem(left, plan.property.labelled, inputs, checks))
    if solution.value == float("inf"):
        raise OptionError(
            f"from the counters {counters} after {t} decisions no fair end can be forced",
            mend="a shield that decided alone until here never gets there",
        )
    fresh = replace(plan, inputs=inputs, horizon=left, start=start, checks=_checks(plan, t))
    seconds = time.perf_counter() - started
    return Policy(fresh, solution.actions, solution.value, solution.states, solution.peak_bytes, seconds)


def _checks(plan: Plan, t: int) -> Any:
    return plan.checks if isinstance(plan.checks, str) else tuple(time_ - t for time_ in plan.checks if time_ > t)


class Estimator:
    """Inputs as they come: what was expected, and what was seen since.

    Args:
        expected: the inputs at first; costs and their weights stay as they are.
        weight: as how many seen individuals they count.
    """

    def __init__(self, expected: Inputs, *, weight: float = 20.0) -> None:
        if weight <= 0:
            raise OptionError(f"a weight of {weight:g}", where="weight", mend="a number above 0")
        self.expected = expected
        groups = len(expected.groups)
        rate = np.array(expected.rate)
        self._came = weight * rate
        self._recommended = weight * rate * np.array(expected.accept)
        self._labelled = weight * rate
        self._ones = self._labelled * np.array(expected.label or (0.0,) * groups)

    def observe(self, group: int, recommendation: int, label: int | None = None) -> None:
        """One individual; its label where it is known."""
        self._came[group] += 1
        self._recommended[group] += recommendation
        if label is not None:
            self.observe_label(group, label)

    def observe_label(self, group: int, label: int) -> None:
        """A label that came later."""
        self._labelled[group] += 1
        self._ones[group] += label

    def inputs(self) -> Inputs:
        """The means; a group that nobody expected and nobody saw keeps what was expected of it."""

        def mean(part: Floats, whole: Floats, otherwise: tuple[float, ...]) -> tuple[float, ...]:
            found = np.divide(part, whole, out=np.array(otherwise, dtype=float), where=whole > 0)
            return tuple(float(value) for value in np.clip(found, 0.0, 1.0))

        rate = self._came / self._came.sum()
        expected = self.expected
        return replace(
            expected,
            rate=tuple(float(value) for value in rate),
            accept=mean(self._recommended, self._came, expected.accept),
            label=None if expected.label is None else mean(self._ones, self._labelled, expected.label),
        )
