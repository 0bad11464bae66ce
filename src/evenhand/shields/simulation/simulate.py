"""Simulation of many runs of a shield at once, with and without it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.config import Config, setting
from evenhand.core.parallel import count_workers, run_parts
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.errors import LimitError, OptionError
from evenhand.shields.policy.periodic import ShieldPeriod
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.policy.tables import apply_levels
from evenhand.shields.simulation.result import (
    QUANTILE_LEVELS,
    BiasHistogram,
    BiasQuantiles,
    ShieldSimulationResult,
)
from evenhand.shields.simulation.simulated_shields import (
    NO_ASSUMPTION,
    RunCounters,
    SimulatedShield,
)
from evenhand.shields.simulation.streams import ArrivalSource, ArrivalStream, Order, synthetic_source
from evenhand.shields.spec.configuration import format_exact
from evenhand.shields.spec.plan import PERIODIC_KINDS, ShieldPlan
from evenhand.shields.spec.properties import FairnessProperty, is_fair, largest_bias
from evenhand.stats.mean import student_interval
from evenhand.stats.proportion import estimated_rate
from evenhand.stats.quantity import Estimated, Proved, Quantity, Unknown

DEFAULT_PERIODS = 10
"""Default number of periods in a run of a periodic shield."""

CHUNK_CELLS = 2**22
"""Maximum number of arrivals that are drawn at a time, which limits memory."""

CHUNKS = 32
"""Minimum number of chunks for workers: enough for an even load but few enough for speed."""

WATCHED_RUNS = 2000
"""Number of runs whose bias is recorded over time."""

MAX_MOMENTS = 100
"""Number of times at which the bias is recorded, in addition to the checks."""


@dataclass
class RunRecords:
    """Records of a chunk of complete runs; arrays of shape (runs,) by default."""

    fair: Booleans
    fair_unshielded: Booleans
    assumed: Booleans
    interventions: Integers
    cost: Floats
    right: Integers
    right_unshielded: Integers
    bias: Floats
    bias_unshielded: Floats
    ends_fair: Booleans
    ends_fair_unshielded: Booleans
    over_time: NDArray[np.float32]
    """Bias with and without the shield, (2, times, watched runs)."""
    fair_at: Integers
    """Number of fair runs with and without the shield, (2, times)."""

    @classmethod
    def zeros(cls, size: int, moments: int, watched: int) -> RunRecords:
        """Build the records before any decision."""
        yes, none, nothing = np.ones(size, bool), np.zeros(size, np.int64), np.zeros(size)
        return cls(
            fair=yes,
            fair_unshielded=yes.copy(),
            assumed=yes.copy(),
            interventions=none,
            cost=nothing,
            right=none.copy(),
            right_unshielded=none.copy(),
            bias=nothing.copy(),
            bias_unshielded=nothing.copy(),
            ends_fair=yes.copy(),
            ends_fair_unshielded=yes.copy(),
            over_time=np.empty((2, moments, watched), np.float32),
            fair_at=np.zeros((2, moments), np.int64),
        )


class ShieldRunsConfig(Config):
    """Settings of a simulation: number and length of runs, and order of arrivals."""

    runs: int = setting(1000, "number of independent runs", ge=1)
    periods: int | None = setting(
        None, "number of periods in each run; default 10 for periodic shields, always 1 for others", ge=1
    )
    order: Order = setting(
        "random",
        "random, or an adversarial order: one-group-first, alternating, worst (one group is always recommended, the "
        "others never), greedy (sees the counters and mostly widens the gap)",
    )
    seed: int = setting(0, "seed of the random numbers", ge=0)
    max_runs: int = setting(
        2**20,
        "maximum number of runs that are simulated at a time; equal values give different shields the same people",
        ge=1,
    )


def simulate_shield(
    shield: ShieldPlan | ShieldPolicy,
    source: ArrivalSource | None = None,
    config: ShieldRunsConfig | None = None,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ShieldSimulationResult:
    """Simulate many runs of a shield and count the fair ones with and without it.

    Args:
        shield: Policy, or plan that is synthesised first.
        source: Arrivals. Default: independent arrivals by the inputs of the plan.
        config: Settings.
        workers: Number of worker processes, which simulate ``CHUNKS`` chunks. -1 uses all processors, or all workers of
            the backend of ``joblib.parallel_config``. The result does not depend on the number of workers, but differs
            from that of a run without ``workers``, which draws different people.
        progress: Callback that receives a description and the completed fraction.
        settings: Fields of ``ShieldRunsConfig`` by name, which override those of ``config``.

    Returns:
        Result of the simulation. Each arrival gets the same decision as from the running ``Shield``.

    Raises:
        OptionError: An option is invalid, or the source and the shield have different groups.
    """
    config = ShieldRunsConfig.of(config, settings)
    return _summarize_runs(simulate_runs(shield, source, config, workers=workers, progress=progress))


def simulate_runs(
    shield: ShieldPlan | ShieldPolicy,
    source: ArrivalSource | None = None,
    config: ShieldRunsConfig | None = None,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> CompletedRuns:
    """Simulate the runs for ``simulate_shield``, with the same arguments and errors."""
    started = time.perf_counter()
    config = ShieldRunsConfig.of(config, settings)
    plan = shield if isinstance(shield, ShieldPlan) else shield.plan
    source = synthetic_source(plan.inputs) if source is None else source
    periods = _check_arguments(plan, source, config.periods)
    if progress is not None:
        progress("synthesising the shield", 0.0)
    decider, runs = SimulatedShield(shield), config.runs
    chunk = max(1, min(runs, CHUNK_CELLS // (periods * plan.horizon), decider.max_runs, config.max_runs))
    if workers is not None:
        count_workers(workers)
        chunk = min(chunk, -(-runs // CHUNKS))
    simulation = Simulation(shield, source, config.order, runs, periods, config.seed, chunk)
    parts: dict[int, RunRecords] = {}
    interrupted = False
    try:
        if workers is None:
            for number in range(simulation.chunks):
                parts[number] = simulation.simulate(decider, number, progress)
        else:
            for number, records in run_parts(simulation.run, range(simulation.chunks), workers):
                parts[number] = records
                if progress is not None:
                    progress(f"simulating {runs:,} runs", len(parts) / simulation.chunks)
    except KeyboardInterrupt:
        interrupted = True
    if not parts:
        raise LimitError("the simulation was interrupted before any run was complete")
    joined = _join_chunks([parts[number] for number in sorted(parts)])
    return CompletedRuns(simulation, joined, decider, time.perf_counter() - started, interrupted)


@dataclass(frozen=True)
class Simulation:
    """Chunks of runs with independent random numbers, which can be simulated anywhere and in any order."""

    shield: ShieldPlan | ShieldPolicy
    source: ArrivalSource
    order: Order
    runs: int
    periods: int
    seed: int
    chunk: int

    @property
    def plan(self) -> ShieldPlan:
        return self.shield if isinstance(self.shield, ShieldPlan) else self.shield.plan

    @property
    def chunks(self) -> int:
        return -(-self.runs // self.chunk)

    @cached_property
    def moments(self) -> list[int]:
        """Numbers of decisions at which the bias is recorded, ascending: all checks, and evenly spread times."""
        steps = self.periods * self.plan.horizon
        spread = {round(steps * i / MAX_MOMENTS) for i in range(1, MAX_MOMENTS + 1)} - {0}
        return sorted(spread | self.checks)

    @cached_property
    def checks(self) -> set[int]:
        """Numbers of decisions at which the bias must be at most kappa."""
        plan = self.plan
        return {period * plan.horizon + time for period in range(self.periods) for time in plan.times}

    @cached_property
    def _decider(self) -> SimulatedShield:
        return SimulatedShield(self.shield)

    def run(self, number: int) -> RunRecords:
        """Simulate the runs of a chunk on a worker."""
        return self.simulate(self._decider, number)

    def simulate(self, decider: SimulatedShield, number: int, progress: Progress | None = None) -> RunRecords:
        """Simulate the runs of a chunk."""
        start = number * self.chunk
        size = min(self.chunk, self.runs - start)

        def advance(share: float) -> None:
            if progress is not None:
                progress(f"simulating {self.runs:,} runs", (start + size * share) / self.runs)

        plan = self.plan
        stream = ArrivalStream(
            self.source,
            self.order,
            runs=size,
            steps=self.periods * plan.horizon,
            horizon=plan.horizon,
            rng=np.random.default_rng([self.seed, number]),
        )
        watched = max(0, min(size, WATCHED_RUNS - start))
        return _simulate_chunk(plan, decider, stream, size, self.periods, self.moments, watched, advance)


@dataclass(frozen=True)
class CompletedRuns:
    """Complete runs with their settings.

    Attributes:
        simulation: The settings.
        runs: Records of the runs.
        decider: The simulated shield.
        seconds: Duration of the simulation.
        interrupted: Whether the simulation was interrupted.
    """

    simulation: Simulation
    runs: RunRecords
    decider: SimulatedShield
    seconds: float
    interrupted: bool


def _check_arguments(plan: ShieldPlan, source: ArrivalSource, periods: int | None) -> int:
    if source.groups != plan.inputs.groups:
        raise OptionError(
            f"the arrivals have the groups {', '.join(source.groups)}, the shield has {', '.join(plan.inputs.groups)}",
            location="groups",
            hint="use the same names in the same order",
        )
    if source.cost.max() > plan.inputs.costs[-1]:
        raise OptionError(
            f"some overrides cost {source.cost.max():.4g}, more than the expected maximum of {plan.inputs.costs[-1]:g}",
            location="costs",
            hint="set a largest cost that no arrival exceeds",
        )
    if plan.property.labelled and source.label is None:
        raise OptionError(
            "equal opportunity counts people whose true label is favourable, but these arrivals have no labels",
            hint="pass data with a column of true labels",
        )
    goes_on = plan.kind in PERIODIC_KINDS
    if periods is None:
        return DEFAULT_PERIODS if goes_on and plan.kind != "greedy" else 1
    if periods > 1 and not goes_on:
        raise OptionError(
            f"a shield of kind {plan.kind} ends at its horizon",
            location="periods",
            hint=f"{', '.join(PERIODIC_KINDS[:-1])} and {PERIODIC_KINDS[-1]} shields have several periods",
        )
    return periods


def _simulate_chunk(
    plan: ShieldPlan,
    decider: SimulatedShield,
    stream: ArrivalStream,
    size: int,
    periods: int,
    moments: list[int],
    watched: int,
    advance: Callable[[float], None],
) -> RunRecords:
    """Simulate the runs of one chunk."""
    fairness = plan.property
    totals, unshielded = RunCounters.of(size, plan.start), RunCounters.of(size, plan.start)
    runs = RunRecords.zeros(size, len(moments), watched)
    runs.assumed &= decider.held_at_start
    for period in range(periods):
        finished = 0
        # Runs with equal counters share a plan and are simulated together; ``chosen`` are their positions.
        for chosen, act in decider.begin(totals.seen, totals.accepted):
            part, part_alone = totals.part(chosen), unshielded.part(chosen)
            sizes = _simulate_period(plan, act, stream, period, chosen, (part, part_alone), moments, runs)
            # If the end is always fair, a single period needs no assumption.
            assumption_kept = act.assumption_held(*sizes.T) | (act.guaranteed and periods == 1)
            runs.assumed[chosen] &= assumption_kept
            totals.put(chosen, part)
            unshielded.put(chosen, part_alone)
            finished += len(chosen)
            advance((period + finished / size) / periods)
    runs.ends_fair[:] = is_fair(fairness, totals.seen, totals.accepted)
    runs.ends_fair_unshielded[:] = is_fair(fairness, unshielded.seen, unshielded.accepted)
    runs.bias[:] = largest_bias(fairness, totals.seen, totals.accepted)
    runs.bias_unshielded[:] = largest_bias(fairness, unshielded.seen, unshielded.accepted)
    return runs


def _simulate_period(
    plan: ShieldPlan,
    act: ShieldPeriod,
    stream: ArrivalStream,
    period: int,
    chosen: Integers,
    counters: tuple[RunCounters, RunCounters],
    moments: list[int],
    runs: RunRecords,
) -> Integers:
    """Simulate one period of some runs, and return the counts of each group in it, shape (runs, groups).

    ``counters``, with and without the shield, are updated.
    """
    totals, unshielded = counters
    source, fairness = stream.source, plan.property
    counts = RunCounters.of(len(chosen), (0,) * len(plan.start))
    place = {moment: i for i, moment in enumerate(moments)}
    # Bias over time is recorded for the first runs only, to save memory.
    watched = np.flatnonzero(chosen < runs.over_time.shape[2])
    for t in range(plan.horizon):
        step = period * plan.horizon + t
        arrived = stream.next_arrivals(step, chosen, totals)
        group, recommendation, cost = source.group[arrived], source.recommendation[arrived], source.cost[arrived]
        level = act.policy.actions.levels(t, counts.seen.T, counts.accepted.T, group)
        decision = apply_levels(level, recommendation, cost, plan.inputs.costs)
        label = None if source.label is None else source.label[arrived]
        counted = label if fairness.labelled and label is not None else 1
        counts.add(group, counted, decision)
        totals.add(group, counted, decision)
        # The same people with all recommendations followed, for comparison.
        unshielded.add(group, counted, recommendation)
        against = decision != recommendation
        runs.interventions[chosen] += against
        runs.cost[chosen] += np.where(against, cost, 0.0)
        if source.real and label is not None:
            runs.right[chosen] += decision == label
            runs.right_unshielded[chosen] += recommendation == label
        if step + 1 not in place:
            continue
        moment = place[step + 1]
        for side, (whose, fair) in enumerate(((totals, runs.fair), (unshielded, runs.fair_unshielded))):
            now = is_fair(fairness, whose.seen, whose.accepted)
            runs.fair_at[side, moment] += now.sum()
            # A run counts as fair only if it is fair at every check.
            if t + 1 in plan.times:
                fair[chosen] &= now
            if len(watched):
                bias = largest_bias(fairness, whose.seen[watched], whose.accepted[watched])
                runs.over_time[side, moment, chosen[watched]] = bias
    return counts.seen


def _join_chunks(parts: list[RunRecords]) -> RunRecords:
    """Join the records of chunks."""

    def join(name: str, axis: int = 0) -> NDArray[np.generic]:
        return np.concatenate([getattr(part, name) for part in parts], axis=axis)

    arrays = {name: join(name) for name in RunRecords.__dataclass_fields__ if name not in ("over_time", "fair_at")}
    return RunRecords(
        over_time=np.concatenate([part.over_time for part in parts], axis=2),
        fair_at=np.sum([part.fair_at for part in parts], axis=0),
        **arrays,  # type: ignore[arg-type]  # each field has its own element type
    )


def _summarize_runs(completed: CompletedRuns) -> ShieldSimulationResult:
    simulation, runs, decider = completed.simulation, completed.runs, completed.decider
    plan, source, order, periods = simulation.plan, simulation.source, simulation.order, simulation.periods
    size, steps = len(runs.fair), periods * plan.horizon
    quantiles = np.quantile(runs.over_time, QUANTILE_LEVELS, axis=2)
    words = f"runs of {source.name}, order {order}"

    def rate(which: Booleans, among: int | None = None, if_empty: str = "") -> Estimated | Unknown:
        return estimated_rate(int(which.sum()), size if among is None else among, words, if_empty=if_empty)

    lost: Quantity
    accuracy: Quantity
    accuracy_alone: Quantity
    if source.real:
        accuracy, accuracy_alone = (
            _estimate_mean(right / steps, words) for right in (runs.right, runs.right_unshielded)
        )
        lost = _estimate_mean((runs.right_unshielded - runs.right) / steps, words, lower=-1.0)
    else:
        accuracy = accuracy_alone = lost = Unknown(reason="the true labels of real people are unknown")
    guaranteed = decider.assumption is not None
    assumed: Quantity = Unknown(reason="this shield guarantees nothing")
    if guaranteed:
        nothing = decider.assumption == NO_ASSUMPTION
        assumed = Proved(value=1.0, how="there is no assumption") if nothing else rate(runs.assumed)
    return ShieldSimulationResult(
        seed=simulation.seed,
        seconds=completed.seconds,
        property=plan.property.kind,
        kappa=format_exact(plan.property.kappa),
        shield=plan.kind,
        terminal=plan.terminal if plan.kind == "dynamic" else None,
        horizon=plan.horizon,
        periods=periods,
        groups=source.groups,
        source=source.name,
        order=order,
        runs=size,
        fair_share=float(runs.fair.mean()),
        fair_share_unshielded=float(runs.fair_unshielded.mean()),
        assumption_share=float(runs.assumed.mean()) if guaranteed else None,
        assumption=decider.assumption or "this shield guarantees nothing",
        fair=rate(runs.fair),
        fair_unshielded=rate(runs.fair_unshielded),
        assumed=assumed,
        fair_when_assumed=(
            rate(runs.fair & runs.assumed, int(runs.assumed.sum()), "the assumption held in no run")
            if guaranteed
            else Unknown(reason="this shield guarantees nothing")
        ),
        interventions_mean=float(runs.interventions.mean()),
        intervention_rate=_estimate_mean(runs.interventions / steps, words),
        cost_mean=float(runs.cost.mean()),
        cost=_estimate_mean(runs.cost, words, upper=steps * float(source.cost.max())),
        accuracy=accuracy,
        accuracy_unshielded=accuracy_alone,
        utility_loss=lost,
        bias=_estimate_mean(runs.bias, words),
        bias_unshielded=_estimate_mean(runs.bias_unshielded, words),
        watched=runs.over_time.shape[2],
        over_time=tuple(
            BiasQuantiles(
                decisions=step,
                shielded=tuple(float(value) for value in quantiles[:, 0, i]),
                unshielded=tuple(float(value) for value in quantiles[:, 1, i]),
                checked=step in simulation.checks,
                fair=float(runs.fair_at[0, i] / size),
                fair_unshielded=float(runs.fair_at[1, i] / size),
            )
            for i, step in enumerate(simulation.moments)
        ),
        normalised=_bias_histogram(plan.property, runs),
        interrupted=completed.interrupted,
    )


def _estimate_mean(values: Floats, population: str, *, lower: float = 0.0, upper: float = 1.0) -> Estimated:
    """Estimate the mean of a bounded number per run, with its interval."""
    variance = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    low, high = student_interval(values.mean(), variance, len(values), lower=lower, upper=upper)
    return Estimated(
        value=float(values.mean()),
        low=float(low),
        high=float(high),
        confidence=0.95,
        n=len(values),
        population=population,
        method="Student's t" if variance > 0 else "Hoeffding",
    )


def _bias_histogram(fairness: FairnessProperty, runs: RunRecords) -> BiasHistogram:
    """Build the histogram. The bins up to the bound contain exactly the fair runs."""
    kappa = float(fairness.kappa) or 1.0
    bound = 1.0 if fairness.kappa else 0.0
    sides = []
    for values, fair in ((runs.bias, runs.ends_fair), (runs.bias_unshielded, runs.ends_fair_unshielded)):
        normalised = values / kappa
        sides.append(np.where(fair, np.minimum(normalised, bound), np.maximum(normalised, np.nextafter(bound, 9))))
    top = float(np.quantile(np.concatenate(sides), 0.995))
    width = next((step for step in (0.05, 0.1, 0.2, 0.5, 1.0) if top <= 24 * step), 2.0)
    last_edge = max(2 * bound if fairness.kappa else width, width * np.ceil(top / width))
    edges = np.round(np.arange(0, last_edge + width / 2, width), 6)
    counts = []
    for side in sides:
        # Bins (low, high]. Values above the last edge are also counted.
        place = np.clip(np.searchsorted(edges, side, side="left") - 1, 0, len(edges) - 2)
        counts.append(tuple(int(count) for count in np.bincount(place, minlength=len(edges) - 1)))
    return BiasHistogram(edges=tuple(float(edge) for edge in edges), shielded=counts[0], unshielded=counts[1])
