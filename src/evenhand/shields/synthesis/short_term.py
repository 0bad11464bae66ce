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
from evenhand.kernels import compile_kernel
from evenhand.shields.policy.policy import ActionTable, ShieldPolicy
from evenhand.shields.spec.ends import FairEnd
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.synthesis.kernels import (
    DEAD_LEVEL,
    Bytes,
    several_costs_step,
)
from evenhand.shields.synthesis.layer import LayerLayout
from evenhand.shields.synthesis.parity_vector import LANES, SPARE, guard_eight_states
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
from evenhand.typing import Floats, Integers

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


# Compiled sweeps for shields with a short-term bound: values and probabilities of states that were never beyond it.
#
# Two layers of values are swept side by side. ``after`` is the layer of a shield that has been beyond the bound:
# nothing is asked of it but the end. ``values`` is that of one that has not, with ``chances``, the probability that it
# ever will. A state beyond the bound is worth the price of getting there and what it is worth ``after``.


SMALLEST_CHANCE = 1e-250
"""Smaller probabilities are taken for 0: arithmetic with them is slow, and their sum is far below any rounding."""


class GuardedLayers(NamedTuple):
    """Layers by state, laid out as in `LayerLayout`.

    Attributes:
        values, chances: expected cost and probability of getting beyond the bound, while it has been kept; of the time
            after the one that is swept, and overwritten.
        after: expected cost once the bound was left, of the time that is swept.
        price: of leaving it.
    """

    values: Floats
    chances: Floats
    after: Floats
    price: float


class GuardedBand(NamedTuple):
    """By row of the layer, ascending in (n_a, n_b, a): the accepted b from low to high are within the bound."""

    low: Integers
    high: Integers


class GuardedPlanes(NamedTuple):
    """Values and chances after one more decision: the same counters, one more of group a, one more of group b."""

    own: Floats
    up: Floats
    right: Floats
    own_chance: Floats
    up_chance: Floats
    right_chance: Floats


class GuardedRow(NamedTuple):
    """What a row of states comes to: its values, its chances, and the levels on either group."""

    value: Floats
    chance: Floats
    level_a: Bytes
    level_b: Bytes


@compile_kernel(nogil=True, error_model="numpy")
def guarded_several(planes, a, low, high, labels, mixes, row):
    """Return values, chances and levels of the states b from low to high of a row, with labels or several costs."""
    # Without labels everybody counts, and the values with label 0 are not looked at: they may be infinite.
    own, up, right, own_chance, up_chance, right_chance = planes
    mix_a, mix_b = mixes
    near_a = near_b = len(mix_a.rises) // 2
    not_a, yes_a, not_b, yes_b = labels[0, 0], labels[0, 1], labels[1, 0], labels[1, 1]
    # The chance is linear in the same shares of acceptances and rejections as the value, at the level that is best.
    for b in range(low, high + 1):
        stay, stay_chance = (own[a, b], own_chance[a, b]) if not_a > 0 else (0.0, 0.0)
        rejected, accepted = yes_a * up[a, b] + not_a * stay, yes_a * up[a + 1, b] + not_a * stay
        value_a, near_a = several_costs_step(rejected, accepted, mix_a, near_a)
        chance = mix_a.accept[near_a] * (yes_a * up_chance[a + 1, b] + not_a * stay_chance)
        chance += mix_a.reject[near_a] * (yes_a * up_chance[a, b] + not_a * stay_chance)
        rejected, accepted = yes_b * right[a, b] + not_b * stay, yes_b * right[a, b + 1] + not_b * stay
        value_b, near_b = several_costs_step(rejected, accepted, mix_b, near_b)
        chance += mix_b.accept[near_b] * (yes_b * right_chance[a, b + 1] + not_b * stay_chance)
        chance += mix_b.reject[near_b] * (yes_b * right_chance[a, b] + not_b * stay_chance)
        row.value[b] = value_a + value_b
        row.chance[b] = chance if chance > SMALLEST_CHANCE else 0.0
        row.level_a[b] = near_a if value_a < np.inf else DEAD_LEVEL
        row.level_b[b] = near_b if value_b < np.inf else DEAD_LEVEL


@compile_kernel(nogil=True, error_model="numpy")
def finish_row(planes, past, a, span, price, row, cells):
    """Write a row that was read: states beyond the bound pay its price and go on as ``past`` says, for certain."""
    own, chance = planes.own, planes.own_chance
    low, high, columns = span
    cells_a, cells_b, cell = cells
    for b in range(min(low, columns)):
        own[a, b] = price + past[a, b]
        chance[a, b] = 1.0
    for b in range(low, high + 1):
        own[a, b] = row.value[b]
        chance[a, b] = row.chance[b]
        cells_a[cell + b] = row.level_a[b]
        cells_b[cell + b] = row.level_b[b]
    for b in range(max(high + 1, low), columns):
        own[a, b] = price + past[a, b]
        chance[a, b] = 1.0


@compile_kernel(nogil=True, error_model="numpy")
def sweep_parity_guarded(layers, horizon, t, mixes, band, out):
    """Sweep as ``sweep_parity`` does, for states that were never beyond a bound, see `GuardedLayers`.

    The levels go to the cells of ``out``; those of states beyond the bound are dead. Thresholds would not store them:
    what a state beyond the bound is worth is not submodular together with those within.
    """
    # Invariant: as in ``sweep_parity``, what is before the row being written is of time t, all after it of time t + 1.
    values, chances, after, price = layers
    row = GuardedRow(
        np.empty(horizon + 1), np.empty(horizon + 1), np.empty(horizon + 1, np.uint8), np.empty(horizon + 1, np.uint8)
    )
    everybody = np.array([[0.0, 1.0], [0.0, 1.0]])
    out.cells_a[:] = DEAD_LEVEL
    out.cells_b[:] = DEAD_LEVEL
    start, cell, line = 0, 0, 0
    for n_a in range(t + 1):
        columns, stride = t - n_a + 1, horizon - n_a + 1
        end = start + (n_a + 1) * stride
        further = end + (n_a + 2) * (stride - 1)
        own = values[start:end].reshape((n_a + 1, stride))
        own_chance = chances[start:end].reshape((n_a + 1, stride))
        up = values[end:further].reshape((n_a + 2, stride - 1))
        up_chance = chances[end:further].reshape((n_a + 2, stride - 1))
        past = after[start:end].reshape((n_a + 1, stride))
        # One more of group b is the same plane: its number follows from the time.
        planes = GuardedPlanes(own, up, own, own_chance, up_chance, own_chance)
        for a in range(n_a + 1):
            low, high = band.low[line], band.high[line]
            line += 1
            guarded_several(planes, a, low, high, everybody, mixes, row)
            finish_row(planes, past, a, (low, high, columns), price, row, (out.cells_a, out.cells_b, cell))
            cell += columns
        start = end


@compile_kernel(nogil=True, error_model="numpy")
def sweep_guarded_vectors(layers, horizon, t, mixes, band, out):
    """As `sweep_parity_guarded`, with one cost, eight states at a time; layers need ``SPARE`` more numbers behind."""
    # Invariant: as in ``sweep_parity_vectors``.
    mix_a, mix_b = mixes
    groups = (
        (mix_a.accept[1], mix_a.reject[1], mix_a.rises[0], mix_a.rises[1]),
        (mix_b.accept[1], mix_b.reject[1], mix_b.rises[0], mix_b.rises[1]),
    )
    row = (np.empty(horizon + SPARE, np.uint8), np.empty(horizon + SPARE, np.uint8))
    arrays = (layers.values, layers.chances, layers.after)
    numbers = (mix_a.single, layers.price, SMALLEST_CHANCE)
    out.cells_a[:] = DEAD_LEVEL
    out.cells_b[:] = DEAD_LEVEL
    start, cell, line = 0, 0, 0
    for n_a in range(t + 1):
        columns, stride = t - n_a + 1, horizon - n_a + 1
        after = start + (n_a + 1) * stride
        for a in range(n_a + 1):
            low, high = band.low[line], band.high[line]
            line += 1
            own, above = start + a * stride, after + a * (stride - 1)
            for b in range(0, columns, LANES):
                places = (above + b, above + stride - 1 + b, own + b, b, columns, low, high)
                guard_eight_states(arrays, places, row, groups, numbers)
            if high >= low:
                out.cells_a[cell + low : cell + high + 1] = row[0][low : high + 1]
                out.cells_b[cell + low : cell + high + 1] = row[1][low : high + 1]
            cell += columns
        start = after


@compile_kernel(nogil=True, error_model="numpy")
def sweep_opportunity_guarded(layers, starts, t, mixes, labels, band, out):
    """As `sweep_parity_guarded` where an individual counts only with label 1; see ``sweep_opportunity``."""
    # Invariant: a state of the plane (n_a, n_b) reads that plane and those of (n_a + 1, n_b) and (n_a, n_b + 1), which
    # come later in this order.
    values, chances, after, price = layers
    row = GuardedRow(np.empty(t + 1), np.empty(t + 1), np.empty(t + 1, np.uint8), np.empty(t + 1, np.uint8))
    out.cells_a[:] = DEAD_LEVEL
    out.cells_b[:] = DEAD_LEVEL
    cell, line = 0, 0
    for n_a in range(t + 1):
        for n_b in range(t - n_a + 1):
            columns = n_b + 1
            start, above, beside = starts[n_a, n_b], starts[n_a + 1, n_b], starts[n_a, n_b + 1]
            end, over, far = (
                start + (n_a + 1) * columns,
                above + (n_a + 2) * columns,
                beside + (n_a + 1) * (columns + 1),
            )
            planes = GuardedPlanes(
                values[start:end].reshape((n_a + 1, columns)),
                values[above:over].reshape((n_a + 2, columns)),
                values[beside:far].reshape((n_a + 1, columns + 1)),
                chances[start:end].reshape((n_a + 1, columns)),
                chances[above:over].reshape((n_a + 2, columns)),
                chances[beside:far].reshape((n_a + 1, columns + 1)),
            )
            past = after[start:end].reshape((n_a + 1, columns))
            for a in range(n_a + 1):
                low, high = band.low[line], band.high[line]
                line += 1
                guarded_several(planes, a, low, high, labels, mixes, row)
                finish_row(planes, past, a, (low, high, columns), price, row, (out.cells_a, out.cells_b, cell))
                cell += columns
