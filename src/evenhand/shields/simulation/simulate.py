"""Many runs of a shield at once, each beside the same run without it."""

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
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.simulation.result import (
    QUANTILE_LEVELS,
    BiasHistogram,
    BiasQuantiles,
    ShieldSimulationResult,
)
from evenhand.shields.simulation.simulated_shields import (
    NO_ASSUMPTION,
    PeriodPolicy,
    RunCounters,
    SimulatedShield,
    simulated_shield_for,
)
from evenhand.shields.simulation.streams import ArrivalSource, ArrivalStream, Order, synthetic_source
from evenhand.shields.spec.configuration import format_exact
from evenhand.shields.spec.plan import PERIODIC_KINDS, ShieldPlan
from evenhand.shields.spec.properties import FairnessProperty, is_fair, largest_bias
from evenhand.stats.mean import student_interval
from evenhand.stats.proportion import estimated_rate
from evenhand.stats.quantity import Estimated, Proved, Quantity, Unknown

DEFAULT_PERIODS = 10
"""Periods of a run, for shields that work in periods."""

CHUNK_CELLS = 2**22
"""Arrivals drawn at a time, so that memory does not grow with the number of runs."""

CHUNKS = 32
"""Chunks that workers simulate, or more: enough to share out evenly, few enough to be simulated fast."""

WATCHED_RUNS = 2000
"""Runs whose bias is kept in the course of time."""

MAX_MOMENTS = 100
"""Times at which it is kept, besides those that are checked."""


@dataclass
class RunRecords:
    """What is kept of a chunk of complete runs; arrays of shape (runs,) unless said."""

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
    """Shape (2, moments, runs watched): with and without the shield."""
    fair_at: Integers
    """Shape (2, moments): runs that are fair then."""

    @classmethod
    def zeros(cls, size: int, moments: int, watched: int) -> RunRecords:
        """Return the counters before any decision."""
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


@dataclass(frozen=True)
class CompletedRuns:
    """Complete runs, with all that was settled about them.

    Attributes:
        plan: of the shield; source, order: who arrived; periods: in each run.
        moments: after how many decisions the bias was kept, ascending.
        runs: what came out.
        decider: how the shield decided.
        seconds: it took.
        interrupted: whether fewer runs were done than wanted.
    """

    plan: ShieldPlan
    source: ArrivalSource
    order: Order
    periods: int
    moments: list[int]
    runs: RunRecords
    decider: SimulatedShield
    seconds: float
    interrupted: bool


class ShieldRunsConfig(Config):
    """Settings of a simulation of a shield: how many runs, how long they are, and who arrives in which order."""

    runs: int = setting(1000, "runs, all independent", ge=1)
    periods: int | None = setting(
        None, "horizons in each run; 10 for shields that work in periods, and always 1 for others", ge=1
    )
    order: Order = setting(
        "random",
        "random, or what somebody would send who wants the shield to fail: one-group-first, alternating, worst (one "
        "group is always recommended, the others never), greedy (sees the counters, and mostly sends whom widens the "
        "gap)",
    )
    seed: int = setting(0, "same seed, same result", ge=0)
    max_runs: int = setting(
        2**20, "simulated at a time, at most; with the same number other shields meet the same people", ge=1
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
    """Let a shield decide in many runs, and count how many of them are fair, with it and without it.

    Args:
        shield: a policy, or the plan of one, which is synthesised first.
        source: who arrives; by default independent arrivals as the plan's inputs say.
        config: the settings.
        workers: number of worker processes that simulate the runs, in ``CHUNKS`` chunks; -1 uses all processors, or all
            workers of the backend that ``joblib.parallel_config`` selects. The result does not depend on their number,
            but differs from that of a run without ``workers``, whose fewer chunks draw other people.
        progress: called with what is being done and the share that is done.
        settings: fields of ``ShieldRunsConfig`` by name, in place of those in ``config``.

    Returns:
        The same shield decides as in ``Shield``, its running counterpart: equal arrivals get equal decisions.

    Raises:
        OptionError: an option makes no sense, or the source has other groups than the shield.
    """
    config = ShieldRunsConfig.of(config, settings)
    return _summarize_runs(simulate_runs(shield, source, config, workers=workers, progress=progress), config.seed)


def simulate_runs(
    shield: ShieldPlan | ShieldPolicy,
    source: ArrivalSource | None = None,
    config: ShieldRunsConfig | None = None,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> CompletedRuns:
    """Return what ``simulate_shield`` sums up, run by run; arguments and errors as there."""
    started = time.perf_counter()
    config = ShieldRunsConfig.of(config, settings)
    runs, order = config.runs, config.order
    plan = shield if isinstance(shield, ShieldPlan) else shield.plan
    source = synthetic_source(plan.inputs) if source is None else source
    periods = _check_arguments(plan, source, config.periods)
    if progress is not None:
        progress("synthesising the shield", 0.0)
    decider = simulated_shield_for(shield)
    chunk = max(1, min(runs, CHUNK_CELLS // (periods * plan.horizon), decider.max_runs, config.max_runs))
    if workers is not None:
        count_workers(workers)
        chunk = min(chunk, -(-runs // CHUNKS))
    simulation = _Simulation(shield, source, order, runs, periods, config.seed, chunk)
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
        raise LimitError("the simulation was stopped before any run was complete")
    return CompletedRuns(
        plan,
        source,
        order,
        periods,
        recorded_times(plan, periods),
        _join_chunks([parts[number] for number in sorted(parts)]),
        decider,
        time.perf_counter() - started,
        interrupted,
    )


@dataclass(frozen=True)
class _Simulation:
    """All runs in chunks, which can be simulated anywhere and in any order: each has random numbers of its own."""

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
    def _decider(self) -> SimulatedShield:
        return simulated_shield_for(self.shield)

    def run(self, number: int) -> RunRecords:
        """Return the runs of a chunk, on a worker."""
        return self.simulate(self._decider, number)

    def simulate(self, decider: SimulatedShield, number: int, progress: Progress | None = None) -> RunRecords:
        """Return the runs of a chunk, complete."""
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
        decider.begin_runs(size, number)
        watched = max(0, min(size, WATCHED_RUNS - start))
        moments = recorded_times(plan, self.periods)
        return _simulate_chunk(plan, decider, stream, size, self.periods, moments, watched, advance)


def recorded_times(plan: ShieldPlan, periods: int) -> list[int]:
    """After how many decisions the bias is kept: every check, and evenly spread times between."""
    steps = periods * plan.horizon
    spread = {round(steps * i / MAX_MOMENTS) for i in range(1, MAX_MOMENTS + 1)} - {0}
    return sorted(spread | check_times(plan, periods))


def check_times(plan: ShieldPlan, periods: int) -> set[int]:
    """After how many decisions the bias must be at most kappa."""
    return {period * plan.horizon + time for period in range(periods) for time in plan.times}


def _check_arguments(plan: ShieldPlan, source: ArrivalSource, periods: int | None) -> int:
    if source.groups != plan.inputs.groups:
        raise OptionError(
            f"the arrivals are of {', '.join(source.groups)}, the shield is for {', '.join(plan.inputs.groups)}",
            location="groups",
            hint="name the groups alike, in the same order",
        )
    if source.cost.max() > plan.inputs.costs[-1]:
        raise OptionError(
            f"overriding some arrivals costs {source.cost.max():.4g}, more than the {plan.inputs.costs[-1]:g} expected",
            location="costs",
            hint="name a largest cost that no arrival exceeds",
        )
    if plan.property.labelled and source.label is None:
        raise OptionError(
            "equal opportunity counts those whose true label is favourable, and these arrivals have no labels",
            hint="give data with the column of the true label",
        )
    goes_on = plan.kind in PERIODIC_KINDS
    if periods is None:
        return DEFAULT_PERIODS if goes_on and plan.kind != "greedy" else 1
    if periods > 1 and not goes_on:
        raise OptionError(
            f"a shield of kind {plan.kind} ends at its horizon",
            location="periods",
            hint=f"{', '.join(PERIODIC_KINDS[:-1])} and {PERIODIC_KINDS[-1]} shields go on",
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
    """Complete runs of one chunk."""
    kept = plan.property
    totals, alone = RunCounters.of(size, plan.start), RunCounters.of(size, plan.start)
    runs = RunRecords.zeros(size, len(moments), watched)
    runs.assumed &= decider.held_at_start
    for period in range(periods):
        begun = 0
        # Runs that stand at the same counters share a plan, so they are simulated together; ``chosen`` says which they
        # are.
        for chosen, act in decider.begin(totals.seen, totals.accepted):
            part, part_alone = totals.part(chosen), alone.part(chosen)
            seen = _simulate_period(plan, act, stream, period, chosen, (part, part_alone), moments, runs)
            # Where the end is fair whatever comes, a single period needs no assumption.
            held = act.assumption_held(seen) | (act.has_guarantee and periods == 1)
            runs.assumed[chosen] &= held
            totals.put(chosen, part)
            alone.put(chosen, part_alone)
            begun += len(chosen)
            advance((period + begun / size) / periods)
    runs.ends_fair[:] = is_fair(kept, totals.seen, totals.accepted)
    runs.ends_fair_unshielded[:] = is_fair(kept, alone.seen, alone.accepted)
    runs.bias[:] = largest_bias(kept, totals.seen, totals.accepted)
    runs.bias_unshielded[:] = largest_bias(kept, alone.seen, alone.accepted)
    return runs


def _simulate_period(
    plan: ShieldPlan,
    act: PeriodPolicy,
    stream: ArrivalStream,
    period: int,
    chosen: Integers,
    counters: tuple[RunCounters, RunCounters],
    moments: list[int],
    runs: RunRecords,
) -> Integers:
    """Return one period of some runs; how many of each group were counted in it, shape (runs, groups).

    ``counters``, with the shield and without it, go on.
    """
    totals, alone = counters
    source, kept = stream.source, plan.property
    counts = RunCounters.of(len(chosen), (0,) * len(plan.start))
    place = {moment: i for i, moment in enumerate(moments)}
    # Bias over time is kept for the first runs alone: of all runs it would fill the memory.
    watched = np.flatnonzero(chosen < runs.over_time.shape[2])
    for t in range(plan.horizon):
        step = period * plan.horizon + t
        arrived = stream.next_arrivals(step, chosen, totals)
        group, recommendation, cost = source.group[arrived], source.recommendation[arrived], source.cost[arrived]
        decision = act.decide(t, counts.seen, counts.accepted, group, recommendation, cost)
        label = None if source.label is None else source.label[arrived]
        counted = label if kept.labelled and label is not None else 1
        counts.add(group, counted, decision)
        totals.add(group, counted, decision)
        # The same people, decided about as recommended: what the shield is compared with.
        alone.add(group, counted, recommendation)
        against = decision != recommendation
        runs.interventions[chosen] += against
        runs.cost[chosen] += np.where(against, cost, 0.0)
        if source.real and label is not None:
            runs.right[chosen] += decision == label
            runs.right_unshielded[chosen] += recommendation == label
        if step + 1 not in place:
            continue
        moment = place[step + 1]
        for side, (whose, fair) in enumerate(((totals, runs.fair), (alone, runs.fair_unshielded))):
            now = is_fair(kept, whose.seen, whose.accepted)
            runs.fair_at[side, moment] += now.sum()
            # A run counts as fair only if it is so at every check.
            if t + 1 in plan.times:
                fair[chosen] &= now
            if len(watched):
                apart = largest_bias(kept, whose.seen[watched], whose.accepted[watched])
                runs.over_time[side, moment, chosen[watched]] = apart
    return counts.seen


def _join_chunks(parts: list[RunRecords]) -> RunRecords:
    """Return chunks as one."""

    def join(name: str, axis: int = 0) -> NDArray[np.generic]:
        return np.concatenate([getattr(part, name) for part in parts], axis=axis)

    arrays = {name: join(name) for name in RunRecords.__dataclass_fields__ if name not in ("over_time", "fair_at")}
    return RunRecords(
        over_time=np.concatenate([part.over_time for part in parts], axis=2),
        fair_at=np.sum([part.fair_at for part in parts], axis=0),
        **arrays,  # type: ignore[arg-type]  # each field has a type of elements of its own
    )


def _summarize_runs(done: CompletedRuns, seed: int) -> ShieldSimulationResult:
    plan, source, order, periods, moments = done.plan, done.source, done.order, done.periods, done.moments
    runs, decider = done.runs, done.decider
    size, steps = len(runs.fair), periods * plan.horizon
    checks = check_times(plan, periods)
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
        accuracy = accuracy_alone = lost = Unknown(reason="there are no true labels of real people")
    guaranteed = decider.assumption is not None
    assumed: Quantity = Unknown(reason="this shield guarantees nothing")
    if guaranteed:
        nothing = decider.assumption == NO_ASSUMPTION
        assumed = Proved(value=1.0, how="there is nothing to hold") if nothing else rate(runs.assumed)
    return ShieldSimulationResult(
        seed=seed,
        seconds=done.seconds,
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
                checked=step in checks,
                fair=float(runs.fair_at[0, i] / size),
                fair_unshielded=float(runs.fair_at[1, i] / size),
            )
            for i, step in enumerate(moments)
        ),
        normalised=_bias_histogram(plan.property, runs),
        interrupted=done.interrupted,
    )


def _estimate_mean(values: Floats, population: str, *, lower: float = 0.0, upper: float = 1.0) -> Estimated:
    """Return the mean of a number per run, which lies between the ends, with its interval."""
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


def _bias_histogram(kept: FairnessProperty, runs: RunRecords) -> BiasHistogram:
    """Classes that end at the bound hold fair runs alone, those beyond it unfair ones: floats do not decide that."""
    kappa = float(kept.kappa) or 1.0
    bound = 1.0 if kept.kappa else 0.0
    sides = []
    for values, fair in ((runs.bias, runs.ends_fair), (runs.bias_unshielded, runs.ends_fair_unshielded)):
        normalised = values / kappa
        sides.append(np.where(fair, np.minimum(normalised, bound), np.maximum(normalised, np.nextafter(bound, 9))))
    most = float(np.quantile(np.concatenate(sides), 0.995))
    width = next((step for step in (0.05, 0.1, 0.2, 0.5, 1.0) if most <= 24 * step), 2.0)
    last = max(2 * bound if kept.kappa else width, width * np.ceil(most / width))
    edges = np.round(np.arange(0, last + width / 2, width), 6)
    counts = []
    for side in sides:
        # Classes (low, high]; values above the last edge are counted too.
        place = np.clip(np.searchsorted(edges, side, side="left") - 1, 0, len(edges) - 2)
        counts.append(tuple(int(count) for count in np.bincount(place, minlength=len(edges) - 1)))
    return BiasHistogram(edges=tuple(float(edge) for edge in edges), shielded=counts[0], unshielded=counts[1])
