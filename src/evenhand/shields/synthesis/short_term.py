"""Shields with a short-term bound: a wider one on the way to the end, left with a small probability only.

The cheapest shield that ends fair and leaves the bound with probability ``p`` at most is found through a price. Let
every run that leaves it pay ``price`` once, the first time. The recursion over (counters, whether the bound was left)
then gives the least g(price) = E[cost] + price * P(left), by two layers side by side: once it was left, the shield is
the one without a bound. For any shield with P(left) <= p, g(price) - price * p <= E[cost]: every price bounds the least
cost from below, which says when to stop.

The derivation is ours. That a bound is kept on the way with high probability is what Cano, Henzinger and Kueffner ask
for (Energy shields for fairness, 2026, arXiv 2605.24926).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenhand.errors import LimitError, OptionError
from evenhand.shields.policy.policy import ActionTable, ShieldPolicy
from evenhand.shields.spec.ends import FairEnd
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.synthesis.layer import LayerLayout
from evenhand.shields.synthesis.short_term_kernels import (
    GuardedBand,
    GuardedLayers,
    sweep_guarded_vectors,
    sweep_opportunity_guarded,
    sweep_parity_guarded,
)
from evenhand.shields.synthesis.solve import (
    MAX_WORK_BYTES,
    ArrivalSteps,
    Progress,
    SynthesisProblem,
    SynthesisSolution,
    TableWriter,
    no_outputs,
    solve_problem,
    sweep_plain,
)

GAP = 0.02
"""A shield that costs so much more than the least possible, as a share, is cheap enough."""
FIRST_PRICE = 1.5
"""Of leaving the bound, in overrides at most cost: mostly about what a probability of 0.05 takes."""
MAX_TRIALS = 40
"""Prices that are tried; a handful are enough, unless the bound cannot be kept."""


@dataclass(frozen=True)
class ShortTermEnd:
    """The bound on the way.

    Attributes:
        kept: which states are within it, with what was counted before.
        first: time from which on it counts.
        probability: that it is ever left, at most.
    """

    kept: FairEnd
    first: int
    probability: float


class GuardedSolution(NamedTuple):
    """A shield with a short-term bound.

    Attributes:
        cost: expected, of the overrides.
        chance: that the bound is ever left.
        before, after: what it does until the bound is left for the first time, and from then on.
        states: of both tables.
        peak_bytes: the arrays held at most.
    """

    cost: float
    chance: float
    before: ActionTable
    after: ActionTable
    states: int
    peak_bytes: int


def short_term_end(plan: ShieldPlan, first: int | None = None) -> ShortTermEnd | None:
    """Return the short-term bound of a plan; None if it has none.

    Args:
        plan: with what was counted before.
        first: from when on it counts; by default as the plan says.
    """
    short, kept = plan.short_term, plan.short_term_property
    if short is None or kept is None:
        return None
    return ShortTermEnd(FairEnd(kept, plan.start), short.first if first is None else first, short.probability)


def guarded_policy(plan: ShieldPlan, found: GuardedSolution, bound: ShortTermEnd, seconds: float) -> ShieldPolicy:
    """Return a solution as the policy of its plan."""
    return ShieldPolicy(
        plan,
        found.before,
        found.cost,
        found.states,
        found.peak_bytes,
        seconds,
        after=found.after,
        outside=found.chance,
        short_from=bound.first,
    )


def solve_guarded(
    problem: SynthesisProblem, bound: ShortTermEnd, *, force: bool = False, progress: Progress | None = None
) -> GuardedSolution | None:
    """Return the cheapest shield that keeps a short-term bound, up to ``GAP``; None if no shield passes the checks.

    Args:
        problem: what must hold at the checks, and who is expected.
        bound: on the way.
        force: where the bound cannot be kept with that probability, return the shield that leaves it most rarely.
        progress: told (layers done, layers); how many prices are tried is not known before.

    Raises:
        OptionError: no shield that passes the checks keeps the bound with that probability.
        LimitError: the tables would not fit.
    """
    layer = LayerLayout(problem.horizon, problem.labelled)
    if 24 * layer.size > MAX_WORK_BYTES:
        raise LimitError(
            f"a short-term bound over {problem.horizon} decisions takes {24 * layer.size / 2**30:.0f} GiB",
            location="horizon",
            hint="a shorter horizon, or no short_term",
        )
    plain = solve_problem(problem, progress=progress)
    if plain.value == np.inf:
        return None
    trials = _Trials(problem, bound, layer, plain)
    unit = max(problem.at(0).costs[-1], 1e-6)
    dearest = problem.horizon * unit
    price, least = FIRST_PRICE * unit, plain.value
    rare: GuardedSolution | None = None
    often: GuardedSolution | None = None
    for trial in range(MAX_TRIALS):
        found = trials.solve(price)
        least = max(least, found.cost + price * (found.chance - bound.probability))
        if found.chance <= bound.probability:
            rare = found if rare is None or found.cost < rare.cost else rare
        else:
            often = found
        if rare is not None and rare.cost <= least + GAP * max(least, 1e-9 * dearest):
            return rare
        if rare is None:
            # No shield costs more than to override everything.
            if least > dearest:
                break
            price *= 2 if trial < 4 else 8
        elif often is None:
            price /= 4
        else:
            between = (rare.cost - often.cost) / (often.chance - rare.chance)
            if np.isclose(between, price):
                # Only a draw between the two would be cheaper.
                return rare
            price = between
    if rare is not None or (force and often is not None):
        return rare or often
    assert often is not None
    raise OptionError(
        f"no shield that ends fair leaves the bound {float(bound.kept.property.kappa):g} from decision {bound.first:,} "
        f"on with a probability of {bound.probability:g} or less; the best one found leaves it with {often.chance:.4g}",
        location="short_term",
        hint="a larger kappa, a later from, or a larger probability",
    )


class _Trials:
    """Prices of leaving the bound, tried one after the other; what is the same for all is kept."""

    def __init__(
        self, problem: SynthesisProblem, bound: ShortTermEnd, layer: LayerLayout, plain: SynthesisSolution
    ) -> None:
        self._problem = problem
        self._layer = layer
        self._plain = plain
        self._bands = {
            t: GuardedBand(*bound.kept.band(n_a, a, n_b)) if t >= bound.first else GuardedBand(0 * n_b, n_b)
            for t in range(problem.horizon)
            for n_a, a, n_b in [_rows(layer, t)]
        }
        left = layer.allocate()
        if problem.horizon >= bound.first:
            layer.check(left, problem.horizon, bound.kept)
        self._left = np.isinf(left)

    def solve(self, price: float) -> GuardedSolution:
        """Return the shield that is best at a price."""
        problem, layer = self._problem, self._layer
        horizon = problem.horizon
        after = layer.allocate()
        if horizon in problem.checks:
            layer.check(after, horizon, problem.checks[horizon])
        steps, table, nowhere = ArrivalSteps(problem, after), TableWriter(problem, "packed"), no_outputs(problem)
        values, chances = layer.allocate(), layer.allocate()
        values[:], chances[:] = np.where(self._left, price + after, after), self._left
        layers = GuardedLayers(values, chances, after, price)
        for t in reversed(range(horizon)):
            mixes, labels = steps.at(t)
            sweep_plain(layer, after, t, mixes, labels, nowhere)
            out = table.outputs(t)
            if problem.labelled:
                sweep_opportunity_guarded(layers, layer.planes, t, mixes, labels, self._bands[t], out)
            else:
                sweep = sweep_guarded_vectors if mixes[0].single >= 0 else sweep_parity_guarded
                sweep(layers, horizon, t, mixes, self._bands[t], out)
            table.store(t, out)
            if t in problem.checks:
                layer.check(after, t, problem.checks[t])
                layer.check(values, t, problem.checks[t])
        chance = float(chances[0])
        return GuardedSolution(
            cost=float(values[0]) - price * chance,
            chance=chance,
            before=table.finish(),
            after=self._plain.actions,
            states=2 * self._plain.states,
            peak_bytes=max(self._plain.peak_bytes, 3 * values.nbytes + table.peak_bytes),
        )


def _rows(layer: LayerLayout, t: int) -> tuple[Any, Any, Any]:
    """Return (n_a, a, n_b) of all rows at a time, in the order of the layer."""
    n_a, a, n_b = (np.concatenate(parts) for parts in zip(*layer.rows(t), strict=True))
    return n_a, a, n_b
