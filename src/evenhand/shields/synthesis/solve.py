"""Synthesis of the optimal shield over two groups, by one backward sweep through the layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats
from evenhand.errors import LimitError
from evenhand.shields.policy.policy import ActionTable
from evenhand.shields.policy.tables import PackedTable, ThresholdTable, bits_for, row_start, state_start
from evenhand.shields.spec.ends import EndValues, FairEnd
from evenhand.shields.spec.plan import Inputs
from evenhand.shields.spec.properties import FairnessProperty
from evenhand.shields.synthesis.kernels import LevelOutputs, pack_levels, sweep_opportunity, sweep_parity
from evenhand.shields.synthesis.layer import TOLERANCE, LayerLayout, StepMix, forced_mix, mix_of_group
from evenhand.shields.synthesis.parity_vector import sweep_parity_vectors

Bytes: TypeAlias = NDArray[Any]

MAX_WORK_BYTES = 2**34
"""Maximum memory of one layer of values and the table together."""

Progress = Callable[[int, int], None]
"""Callback that receives the number of finished layers and their total."""


@dataclass(frozen=True)
class SynthesisProblem:
    """Problem of `solve_problem`: minimise the expected cost of overrides plus the values of the checks.

    Attributes:
        horizon: Number of decisions.
        labelled: Whether only people with label 1 are counted.
        inputs: Expected arrivals.
        checks: Values of the states at the times of the checks.
        forced_only: Whether to override only if the other decision cannot pass the checks, at any cost. Decisions then
            do not depend on the inputs.
    """

    horizon: int
    labelled: bool
    inputs: Inputs
    checks: Mapping[int, EndValues]
    forced_only: bool = False


@dataclass(frozen=True)
class SynthesisSolution:
    """The solution of a problem.

    Attributes:
        value: minimum expected cost from the start. Infinite if no shield passes the checks.
        actions: the table.
        states: number of states in the table.
        peak_bytes: peak memory of the arrays.
    """

    value: float
    actions: ActionTable
    states: int
    peak_bytes: int


def solve_problem(problem: SynthesisProblem, *, progress: Progress | None = None) -> SynthesisSolution:
    """Compute the optimal shield, with its table in the smallest exact form.

    Raises:
        LimitError: Layer and table would take more than ``MAX_WORK_BYTES``.
    """
    costs = len(problem.inputs.costs)
    thresholds, packed = _threshold_bytes(problem, costs), _packed_bytes(problem, costs)
    needed = 8 * LayerLayout(problem.horizon, problem.labelled).size + min(thresholds, packed)
    if needed > MAX_WORK_BYTES:
        raise LimitError(
            f"a shield over {problem.horizon} decisions takes {needed / 2**30:.0f} GiB to synthesise",
            location="horizon",
            hint="a shorter horizon, or welfare bounds kept in every period (static-bw)",
        )
    form = "thresholds" if thresholds <= packed else "packed"
    solution = sweep_layers(problem, form, progress)
    if solution is None:
        solution = sweep_layers(problem, "packed", progress)
    assert solution is not None  # Cells store any levels.
    return solution


@cache
def compile_kernels(labelled: bool, wide: bool, single: bool) -> None:
    """Compile the kernels, which takes seconds once per machine; afterwards they come from a cache.

    Args:
        labelled: Whether to compile the kernels for labels.
        wide: Whether thresholds have two bytes, for more than 255 decisions.
        single: Whether there is one cost.
    """
    layer = LayerLayout(1, labelled)
    values = layer.allocate()
    inputs = Inputs(("a", "b"), (0.5, 0.5), (0.5, 0.5))
    mixes = tuple(mix_of_group(inputs, group, 0.0)._replace(single=1.0 if single else -1.0) for group in (0, 1))
    tables = _allocate_tables(1, labelled, 1, "thresholds", _position_type(256 if wide else 1))
    out = _level_outputs(tables, 0, labelled, 1, "thresholds")
    layer.check(values, 1, FairEnd(FairnessProperty("demographic_parity", Fraction(1))))
    sweep_plain(layer, values, 0, (mixes[0], mixes[1]), inputs.labels(), out)


def _threshold_bytes(problem: SynthesisProblem, costs: int) -> int:
    return 2 * row_start(problem.horizon, problem.labelled) * 2 * costs * _position_type(problem.horizon)().itemsize


def _packed_bytes(problem: SynthesisProblem, costs: int) -> int:
    return 2 * -(-state_start(problem.horizon, problem.labelled) * bits_for(costs) // 8)


def _position_type(horizon: int) -> type[np.uint8] | type[np.uint16]:
    return np.uint8 if horizon <= 255 else np.uint16


def sweep_layers(problem: SynthesisProblem, form: str, progress: Progress | None) -> SynthesisSolution | None:
    """Compute the solution with its table as thresholds or packed; None if thresholds do not store the levels
    exactly.
    """
    horizon = problem.horizon
    layer = LayerLayout(horizon, problem.labelled)
    values = layer.allocate()
    if horizon in problem.checks:
        layer.check(values, horizon, problem.checks[horizon])
    mixes, labels, table = _mixes_of_groups(problem, values), problem.inputs.labels(), TableWriter(problem, form)
    for t in reversed(range(horizon)):
        out = table.outputs(t)
        # Thresholds cannot store levels that are not monotone along a row; the caller packs them instead.
        if not sweep_plain(layer, values, t, mixes, labels, out):
            return None
        table.store(t, out)
        if t in problem.checks:
            layer.check(values, t, problem.checks[t])
        if progress is not None:
            progress(horizon - t, horizon)
    peak = values.nbytes + table.peak_bytes
    return SynthesisSolution(float(values[0]), table.finish(), state_start(horizon, problem.labelled), peak)


def sweep_plain(
    layer: LayerLayout, values: Floats, t: int, mixes: tuple[StepMix, StepMix], labels: Floats, out: LevelOutputs
) -> bool:
    """Sweep a layer of values to time t, in place, and return whether ``out`` stores its levels exactly."""
    if layer.labelled:
        return bool(sweep_opportunity(values, layer.planes, t, *mixes, labels, out))
    sweep = sweep_parity_vectors if mixes[0].single >= 0 else sweep_parity
    return bool(sweep(values, layer.horizon, t, *mixes, out))


def _mixes_of_groups(problem: SynthesisProblem, values: Floats) -> tuple[StepMix, StepMix]:
    """Compute the steps of both groups, with a tolerance that depends on the values at the horizon."""
    # Smaller gains are ties and follow the recommendation: rounding must not decide.
    largest = float(np.max(values, where=values < np.inf, initial=0.0))
    tolerance = TOLERANCE * problem.inputs.costs[-1] + 1e-13 * largest
    mix_a, mix_b = (mix_of_group(problem.inputs, group, tolerance) for group in (0, 1))
    return (forced_mix(mix_a), forced_mix(mix_b)) if problem.forced_only else (mix_a, mix_b)


class TableWriter:
    """Table of actions that is filled layer by layer, backwards.

    Args:
        problem: The problem.
        form: ``thresholds`` or ``packed``.
    """

    def __init__(self, problem: SynthesisProblem, form: str) -> None:
        self._horizon, self._labelled, self._costs = problem.horizon, problem.labelled, len(problem.inputs.costs)
        self._form = form
        self._tables = _allocate_tables(self._horizon, self._labelled, self._costs, form, _position_type(self._horizon))
        self.peak_bytes = sum(table.nbytes for table in self._tables)

    def outputs(self, t: int) -> LevelOutputs:
        """Return the outputs for the levels of a layer."""
        return _level_outputs(self._tables, t, self._labelled, self._costs, self._form)

    def store(self, t: int, out: LevelOutputs) -> None:
        """Store the levels of a layer if the form is packed."""
        if self._form != "packed":
            return
        self.peak_bytes = max(self.peak_bytes, sum(table.nbytes for table in self._tables) + 3 * len(out.cells_a))
        for table, levels in zip(self._tables, (out.cells_a, out.cells_b), strict=True):
            _store_levels(table, state_start(t, self._labelled), levels, self._costs)

    def finish(self) -> ActionTable:
        """Return the table."""
        kind = ThresholdTable if self._form == "thresholds" else PackedTable
        return kind(self._horizon, self._labelled, self._costs, self._tables)


def _allocate_tables(horizon: int, labelled: bool, costs: int, form: str, kind: type[Any]) -> tuple[Bytes, Bytes]:
    if form == "thresholds":
        size = row_start(horizon, labelled) * 2 * costs
    else:
        size, kind = -(-state_start(horizon, labelled) * bits_for(costs) // 8), np.uint8
    return np.zeros(size, dtype=kind), np.zeros(size, dtype=kind)


def _level_outputs(tables: tuple[Bytes, Bytes], t: int, labelled: bool, costs: int, form: str) -> LevelOutputs:
    none = np.zeros(0, dtype=np.uint8)
    if form == "thresholds":
        start, end = row_start(t, labelled) * 2 * costs, row_start(t + 1, labelled) * 2 * costs
        rows = [table[start:end].reshape(-1, 2 * costs) for table in tables]
        return LevelOutputs(rows[0], rows[1], none, none)
    count = comb(t + 4, 4) if labelled else comb(t + 3, 3)
    empty = np.zeros((0, 2 * costs), dtype=np.uint8)
    return LevelOutputs(empty, empty, np.empty(count, dtype=np.uint8), np.empty(count, dtype=np.uint8))


def _store_levels(table: NDArray[np.uint8], start: int, levels: NDArray[np.uint8], costs: int) -> None:
    """Store the levels of the states from ``start`` on as bits. Dead states follow the recommendation."""
    pack_levels(table, start, levels, bits_for(costs), costs)
