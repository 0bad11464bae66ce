"""Synthesis of the optimal shield for two groups, backwards by layers of equal time or by planes."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import LimitError
from evenhand.shields.policy.policy import ActionTable, ShieldPolicy
from evenhand.shields.policy.tables import PackedTable, ThresholdTable, bits_for, row_start, state_start
from evenhand.shields.spec.ends import BandEnd, EndValues, FairEnd
from evenhand.shields.spec.plan import Inputs, ShieldPlan
from evenhand.shields.spec.properties import FairnessProperty
from evenhand.shields.synthesis.kernels import Tables, sweep_opportunity
from evenhand.shields.synthesis.layer import TOLERANCE, LabelledLayer, StepMix, forced_mix, mix_of_group
from evenhand.shields.synthesis.planes import solve_planes

Bytes: TypeAlias = NDArray[Any]

MAX_WORK_BYTES = 2**34
"""Maximum memory of one layer of values and the table together."""

MAPPED_BYTES = 2**28
"""Minimum size of tables that are stored in a temporary file."""

Progress = Callable[[int, int], None]
"""Callback that receives the number of finished parts and their total."""


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
    costs, horizon = len(problem.inputs.costs), problem.horizon
    thresholds = 4 * row_start(horizon, problem.labelled) * costs * _position_type(horizon)().itemsize
    packed = _packed_bytes(problem, costs)
    # At most 2/27 * horizon**3 values are kept between blocks of planes.
    values = comb(problem.horizon + 4, 4) if problem.labelled else 2 * (problem.horizon + 2) ** 3 // 27
    needed = 8 * values + min(thresholds, packed)
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


def solve_plan(plan: ShieldPlan, checks: Mapping[int, EndValues], progress: Progress | None = None) -> ShieldPolicy:
    """Compute the optimal policy of a plan over two groups. Its cost is infinite if the checks cannot be passed.

    Args:
        plan: The plan.
        checks: Values of the states, by time.
        progress: Callback, see `Progress`.

    Raises:
        LimitError: As for `solve_problem`.
    """
    started = time.perf_counter()
    problem = SynthesisProblem(plan.horizon, plan.property.labelled, plan.inputs, checks, plan.kind == "feasible")
    solution = solve_problem(problem, progress=progress)
    seconds = time.perf_counter() - started
    return ShieldPolicy(plan, solution.actions, solution.value, solution.states, solution.peak_bytes, seconds)


@cache
def compile_kernels(labelled: bool, wide: bool) -> None:
    """Compile the kernels, which takes a few seconds once per machine; later runs load them from a cache.

    Args:
        labelled: Whether to compile the kernels for labels.
        wide: Whether thresholds have two bytes, for more than 255 decisions.
    """
    inputs = Inputs(("a", "b"), (0.5, 0.5), (0.5, 0.5))
    end = FairEnd(FairnessProperty("demographic_parity", Fraction(1)))
    _sweep(SynthesisProblem(1, labelled, inputs, {1: end}), "thresholds", np.uint16 if wide else np.uint8, None)


def _packed_bytes(problem: SynthesisProblem, costs: int) -> int:
    return 2 * -(-state_start(problem.horizon, problem.labelled) * bits_for(costs) // 8)


def _position_type(horizon: int) -> type[np.uint8] | type[np.uint16]:
    return np.uint8 if horizon <= 255 else np.uint16


def sweep_layers(problem: SynthesisProblem, form: str, progress: Progress | None) -> SynthesisSolution | None:
    """Compute the solution with its table as thresholds or packed; None if thresholds do not store the levels
    exactly.
    """
    return _sweep(problem, form, _position_type(problem.horizon), progress)


def _sweep(
    problem: SynthesisProblem, form: str, position_type: type[Any], progress: Progress | None
) -> SynthesisSolution | None:
    costs = len(problem.inputs.costs)
    tables = _allocate_tables(problem.horizon, problem.labelled, costs, form, position_type)
    none = np.zeros(0, dtype=np.uint8)
    rows = [(table if form == "thresholds" else none).reshape(-1, 2 * costs) for table in tables]
    cells_a, cells_b = (none, none) if form == "thresholds" else tables
    outputs = Tables(rows[0], rows[1], cells_a, cells_b, bits_for(costs), costs)
    solved = (_solve_layers if problem.labelled else _solve_planes)(problem, tables, outputs, progress)
    if solved is None:
        return None
    value, bytes_of_values = solved
    kind = ThresholdTable if form == "thresholds" else PackedTable
    actions = kind(problem.horizon, problem.labelled, costs, tables)
    peak = bytes_of_values + sum(table.nbytes for table in tables if _mapping_of(table) is None)
    return SynthesisSolution(value, actions, state_start(problem.horizon, problem.labelled), peak)


def _solve_planes(
    problem: SynthesisProblem, tables: tuple[Bytes, Bytes], outputs: Tables, progress: Progress | None
) -> tuple[float, int] | None:
    mixes = _mixes_of_groups(problem, _largest_end(problem))

    def finish_block(done: int, total: int) -> None:
        for table in tables:
            if (mapping := _mapping_of(table)) is not None:
                mapping.madvise(mmap.MADV_DONTNEED)  # the file keeps the content
        if progress is not None:
            progress(done, total)

    return solve_planes(problem.horizon, problem.checks, mixes, outputs, finish_block)


def _solve_layers(
    problem: SynthesisProblem, _tables: tuple[Bytes, Bytes], outputs: Tables, progress: Progress | None
) -> tuple[float, int] | None:
    horizon = problem.horizon
    layer = LabelledLayer(horizon)
    values = layer.allocate()
    if horizon in problem.checks:
        layer.check(values, horizon, problem.checks[horizon])
    largest = float(np.max(values, where=values < np.inf, initial=0.0))
    mixes, labels = _mixes_of_groups(problem, largest), problem.inputs.labels()
    for t in reversed(range(horizon)):
        # Thresholds cannot store levels that are not monotone along a row; the caller packs them instead.
        starts = row_start(t, True), state_start(t, True)
        if not sweep_opportunity(values, layer.planes, t, *mixes, labels, starts, outputs):
            return None
        if t in problem.checks:
            layer.check(values, t, problem.checks[t])
        if progress is not None:
            progress(horizon - t, horizon)
    return float(values[0]), values.nbytes


def _largest_end(problem: SynthesisProblem) -> float:
    """Compute the largest finite value at the horizon, without labels."""
    end = problem.checks.get(problem.horizon)
    if end is None or isinstance(end, BandEnd):
        return 0.0
    values = (end.values(n, problem.horizon - n) for n in range(problem.horizon + 1))
    return max(float(np.max(plane, where=plane < np.inf, initial=0.0)) for plane in values)


def _mixes_of_groups(problem: SynthesisProblem, largest: float) -> tuple[StepMix, StepMix]:
    """Compute the steps of both groups, with a tolerance that depends on the largest value at the horizon."""
    # Smaller gains count as ties, so that rounding never decides.
    tolerance = TOLERANCE * problem.inputs.costs[-1] + 1e-13 * largest
    mix_a, mix_b = (mix_of_group(problem.inputs, group, tolerance) for group in (0, 1))
    return (forced_mix(mix_a), forced_mix(mix_b)) if problem.forced_only else (mix_a, mix_b)


def _allocate_tables(horizon: int, labelled: bool, costs: int, form: str, kind: type[Any]) -> tuple[Bytes, Bytes]:
    if form == "thresholds":
        size = row_start(horizon, labelled) * 2 * costs
    else:
        size, kind = -(-state_start(horizon, labelled) * bits_for(costs) // 8), np.uint8
    return _new_table(size, kind), _new_table(size, kind)


def _new_table(size: int, kind: type[Any]) -> Bytes:
    """Allocate zeros. Large arrays use an unnamed temporary file, so that few of their pages are in memory."""
    bytes_needed = size * np.dtype(kind).itemsize
    if bytes_needed >= MAPPED_BYTES and hasattr(os, "posix_fallocate"):
        # Reserve the space first: a write to a mapped file on a full disk would kill the process.
        with suppress(OSError), tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, bytes_needed)
            return np.frombuffer(mmap.mmap(file.fileno(), bytes_needed), dtype=kind)
    return np.zeros(size, dtype=kind)


def _mapping_of(table: Bytes) -> mmap.mmap | None:
    """Return the memory-mapped file of a table, if there is one."""
    mapping = table.base.obj if isinstance(table.base, memoryview) else None
    return mapping if isinstance(mapping, mmap.mmap) else None
