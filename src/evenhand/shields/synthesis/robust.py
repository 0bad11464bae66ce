"""When the inputs are not known: ranges of probabilities, and estimates that change while the shield runs.

Neither touches fairness. Whether a fair end can be forced from a state does not depend on who is how likely to come,
only the expected cost does; a shield for wrong probabilities is as fair as one for the right ones and dearer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.policy.tables import PackedTable, bits_for, state_start
from evenhand.shields.spec.ends import EndValues, FairEnd, end_values_of
from evenhand.shields.spec.plan import IMPOSSIBLE_PROBABILITY, Counters, Inputs, ProbabilityRanges, ShieldPlan
from evenhand.shields.synthesis.layer import TOLERANCE, LayerLayout, StepMix, mix_of_group
from evenhand.shields.synthesis.solve import SynthesisProblem, solve_problem
from evenhand.typing import Floats, Integers


def synthesize_robust(plan: ShieldPlan, ranges: ProbabilityRanges) -> ShieldPolicy:
    """Synthesize the shield with the least worst-case expected cost over probabilities within ranges.

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
        raise OptionError("the ranges are for other groups than the plan", location="groups")
    horizon, labelled = plan.horizon, plan.property.labelled
    if labelled and ranges.label is None:
        raise OptionError("equal opportunity needs ranges of the share of label 1", location="label")
    end = end_values_of(plan)
    layer = LayerLayout(horizon, labelled)
    values = np.zeros(layer.size)
    costs = len(inputs.costs)
    steps = tuple(_group_step(ranges, group, end_) for group in (0, 1) for end_ in (0, 1))
    rates = np.maximum([[rate, 1 - rate] for rate in ranges.rate], IMPOSSIBLE_PROBABILITY)
    cells = np.empty((2, state_start(horizon, labelled)), dtype=np.uint8)
    for t in range(horizon, -1, -1):
        if t < horizon:
            _sweep_layer(values, layer, t, steps, rates, ranges, cells)
        if t in plan.times:
            layer.check(values, t, end)
    if values[0] == np.inf:
        raise OptionError(f"no shield can keep that {plan.property.words()}, from the counters {plan.start} on")
    actions = PackedTable(horizon, labelled, costs, (_pack_levels(cells[0], costs), _pack_levels(cells[1], costs)))
    seconds = time.perf_counter() - started
    return ShieldPolicy(
        replace(plan, inputs=inputs), actions, float(values[0]), cells.shape[1], values.nbytes + cells.nbytes, seconds
    )


def _group_step(ranges: ProbabilityRanges, group: int, end: int) -> StepMix:
    """Return the step of a group, given that it came, at one end of its acceptance rate."""
    accept = tuple(ends[end] for ends in ranges.accept)
    rate = (1.0, 0.0) if group == 0 else (0.0, 1.0)
    inputs = replace(ranges.inputs, rate=rate, accept=accept)
    return mix_of_group(inputs, group, TOLERANCE * inputs.costs[-1])


def _sweep_layer(
    values: Floats,
    layer: LayerLayout,
    t: int,
    steps: tuple[StepMix, ...],
    rates: Floats,
    ranges: ProbabilityRanges,
    cells: NDArray[np.uint8],
) -> None:
    from evenhand.shields.synthesis.robust_kernels import sweep_opportunity_robust, sweep_parity_robust

    start, size = state_start(t, layer.labelled), comb(t + 4, 4) if layer.labelled else comb(t + 3, 3)
    part = cells[0, start : start + size], cells[1, start : start + size]
    if not layer.labelled:
        sweep_parity_robust(values, layer.horizon, t, steps, rates, part)
        return
    labels = np.maximum([[[1 - end, end] for end in ends] for ends in ranges.label or ()], IMPOSSIBLE_PROBABILITY)
    sweep_opportunity_robust(values, layer.planes, t, steps, rates, labels, part)


def _pack_levels(cells: NDArray[np.uint8], costs: int) -> NDArray[np.uint8]:
    """Return levels plus costs, several in a byte, the lowest bits first."""
    bits = bits_for(costs)
    per_byte = 8 // bits
    padded = np.pad(cells, (0, -len(cells) % per_byte)).reshape(-1, per_byte)
    return np.asarray(sum(padded[:, i] << np.uint8(i * bits) for i in range(per_byte)), dtype=np.uint8)


@dataclass(frozen=True)
class ContinuedEnd:
    """An end as seen from a state on the way to it.

    Attributes:
        end: as seen from the start.
        passed: counters of the state.
    """

    end: EndValues
    passed: Counters

    def values(self, n_a: int, n_b: int) -> Floats:
        seen_a, a, seen_b, b = self.passed
        return self.end.values(n_a + seen_a, n_b + seen_b)[a : a + n_a + 1, b : b + n_b + 1]


@dataclass(frozen=True)
class ContinuedBand(ContinuedEnd):
    """The same for an end whose counts of accepted are intervals."""

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        seen_a, passed_a, seen_b, passed_b = self.passed
        n_a, a, n_b = (np.asarray(counts, dtype=np.int64) for counts in (n_a, a, n_b))
        # Made only for ends that have a band.
        low, high = self.end.band(n_a + seen_a, a + passed_a, n_b + seen_b)  # type: ignore[attr-defined]
        return np.maximum(low - passed_b, 0), np.minimum(high - passed_b, n_b)


def resynthesize_rest(
    plan: ShieldPlan, t: int, counters: Counters, inputs: Inputs, end: EndValues | None = None
) -> ShieldPolicy:
    """Return the shield for the rest of a horizon, synthesised for other inputs.

    It is fair wherever the first one was: a state from which a fair end can be forced is one for all inputs. A
    short-term bound is not kept: how probable it is to be left rests on the inputs that the plan expected.

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
        raise OptionError(f"after {t} of {plan.horizon} decisions nothing is left", location="t")
    if inputs.groups != plan.inputs.groups:
        raise OptionError("these inputs are of other groups", location="groups")
    end = FairEnd(plan.property, plan.start) if end is None else end
    rest = ContinuedBand(end, counters) if hasattr(end, "band") else ContinuedEnd(end, counters)
    checks = {time_ - t: rest for time_ in plan.times if time_ > t}
    start = tuple(before + since for before, since in zip(plan.start, counters, strict=True))
    started = time.perf_counter()
    solution = solve_problem(SynthesisProblem(left, plan.property.labelled, inputs, checks))
    if solution.value == float("inf"):
        raise OptionError(
            f"from the counters {counters} after {t} decisions no fair end can be forced",
            hint="a shield that decided alone until here never gets there",
        )
    fresh = replace(plan, inputs=inputs, horizon=left, start=start, checks=_remaining_checks(plan, t), short_term=None)
    seconds = time.perf_counter() - started
    return ShieldPolicy(fresh, solution.actions, solution.value, solution.states, solution.peak_bytes, seconds)


def _remaining_checks(plan: ShieldPlan, t: int) -> Any:
    return plan.checks if isinstance(plan.checks, str) else tuple(time_ - t for time_ in plan.checks if time_ > t)


class InputEstimator:
    """Inputs as they come: what was expected, and what was seen since.

    Args:
        expected: the inputs at first; costs and their weights stay as they are.
        weight: as how many seen individuals they count.
    """

    def __init__(self, expected: Inputs, *, weight: float = 20.0) -> None:
        if weight <= 0:
            raise OptionError(f"a weight of {weight:g}", location="weight", hint="a number above 0")
        self.expected = expected
        groups = len(expected.groups)
        rate = np.array(expected.rate)
        self._came = weight * rate
        self._recommended = weight * rate * np.array(expected.accept)
        self._labelled = weight * rate
        self._ones = self._labelled * np.array(expected.label or (0.0,) * groups)

    def observe(self, group: int, recommendation: int, label: int | None = None) -> None:
        """Count one individual; its label where it is known."""
        self._came[group] += 1
        self._recommended[group] += recommendation
        if label is not None:
            self.observe_label(group, label)

    def observe_label(self, group: int, label: int) -> None:
        """Count a label that came later."""
        self._labelled[group] += 1
        self._ones[group] += label

    def inputs(self) -> Inputs:
        """Return the means; a group neither expected nor seen keeps what was expected of it."""

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
