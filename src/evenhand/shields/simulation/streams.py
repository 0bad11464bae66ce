"""Arrivals at a shield: random people, real people with recommendations of a model, or an adversary.

An ``ArrivalSource`` is a finite set of arrivals (group, recommendation, cost, true label) with their probabilities: the
combinations of a shield's inputs, or the rows of a data set. All orders except ``random`` are adversarial.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.shields.spec.plan import Inputs

if TYPE_CHECKING:
    from evenhand.models.scorer import Scorer
    from evenhand.schema.people import People
    from evenhand.shields.simulation.simulated_shields import RunCounters


Order = Literal["random", "one-group-first", "alternating", "worst", "greedy"]
ORDERS: tuple[Order, ...] = get_args(Order)

ADVERSARY_BOLDNESS = (1.0, 0.9, 0.6)
"""Probabilities with which a greedy adversary chooses the worst arrival. Each run draws one, so that runs differ."""


def parse_order(name: str) -> Order:
    """Check the name of an order.

    Raises:
        OptionError: The order is unknown.
    """
    for order in ORDERS:
        if order == name:
            return order
    raise OptionError(f"there is no order {name!r}", location="order", hint=f"one of: {', '.join(ORDERS)}")


@dataclass(frozen=True, eq=False)
class ArrivalSource:
    """Possible arrivals with their probabilities.

    Attributes:
        name: Description of the source.
        groups: Names of the groups.
        group, recommendation: Position of the group, and recommendation (1 to accept, 0 to reject), shape (arrivals,).
        cost: Cost of an override, shape (arrivals,).
        label: True label, 1 if favourable, shape (arrivals,). None if unknown.
        weight: Probabilities, shape (arrivals,), with sum 1. None if all are equal.
        real: Whether labels are those of real people, so that decisions can be correct or incorrect.
    """

    name: str
    groups: tuple[str, ...]
    group: Integers
    recommendation: Integers
    cost: Floats
    label: Integers | None
    weight: Floats | None
    real: bool

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """Draw the positions of independent and identically distributed arrivals."""
        if self.weight is None:
            return rng.integers(len(self.group), size=shape)
        edges = np.cumsum(self.weight)
        return np.minimum(np.searchsorted(edges / edges[-1], rng.random(shape), side="right"), len(edges) - 1)

    def cells(self) -> ArrivalCells:
        """Group the arrivals by group and recommendation."""
        return ArrivalCells(self)


class ArrivalCells:
    """Arrivals by group and recommendation, to draw from one cell.

    Arrivals of a cell are drawn in proportion to their probabilities, or uniformly if all are 0, because an
    adversary ignores expectations.
    """

    def __init__(self, source: ArrivalSource) -> None:
        self.source = source
        keys = 2 * source.group + source.recommendation
        self._order = np.argsort(keys, kind="stable")
        counts = np.bincount(keys, minlength=2 * len(source.groups))
        self._start = np.concatenate([[0], np.cumsum(counts)])
        weight = np.ones(len(keys)) if source.weight is None else source.weight
        mass = np.bincount(keys, weights=weight, minlength=len(counts))
        weight = np.where(mass[keys] > 0, weight, 1.0)
        self._edges = np.concatenate([[0.0], np.cumsum(weight[self._order])])
        self.filled = counts > 0

    def draw(self, group: Integers, recommendation: Integers, rng: np.random.Generator) -> Integers:
        """Draw one arrival per entry with that group and recommendation, or of that group if there is none."""
        key = 2 * group + recommendation
        key = np.where(self.filled[key], key, key ^ 1)
        low, high = self._edges[self._start[key]], self._edges[self._start[key + 1]]
        place = np.searchsorted(self._edges, low + rng.random(key.shape) * (high - low), side="right") - 1
        positions: Integers = self._order[np.clip(place, self._start[key], self._start[key + 1] - 1)]
        return positions


def synthetic_source(inputs: Inputs) -> ArrivalSource:
    """Build independent arrivals from a shield's inputs. Impossible ones have probability 0."""
    rows: list[tuple[int, int, float, int, float]] = []
    for g, r in product(range(len(inputs.groups)), (0, 1)):
        share = inputs.rate[g] * (inputs.accept[g] if r else 1 - inputs.accept[g])
        for cost, part in zip(inputs.costs, inputs.weights[g][r], strict=True):
            labels = ((0, 1.0),) if inputs.label is None else ((0, 1 - inputs.label[g]), (1, inputs.label[g]))
            rows.extend((g, r, cost, z, share * part * chance) for z, chance in labels)
    group, recommendation, costs, label, weight = zip(*rows, strict=True)
    return ArrivalSource(
        name="synthetic stream",
        groups=tuple(inputs.groups),
        group=np.array(group),
        recommendation=np.array(recommendation),
        cost=np.array(costs, dtype=np.float64),
        label=None if inputs.label is None else np.array(label),
        weight=np.array(weight, dtype=np.float64),
        real=False,
    )


def source_from_people(
    people: People,
    scorer: Scorer,
    attribute: str,
    *,
    groups: tuple[str, ...] | None = None,
    cost: float | None = None,
    name: str = "people in the data",
) -> ArrivalSource:
    """Build arrivals of people drawn from data, with replacement, with the recommendations of a model.

    Args:
        attribute: Categorical or ordinal attribute whose values are the groups.
        groups: Values to include, in the order of the shield. Default: all.
        cost: Cost of every override. If None, the model's confidence, which is the distance of the favourable score
            from 0.5.
        name: Name of the source in messages and results.

    Raises:
        OptionError: The attribute or a value is unknown, or the attribute is numeric.
        DataError: A group has no people in the data.
    """
    from evenhand.models.scorer import favourable_score, predict_labels

    schema = people.schema
    position = schema.positions([attribute])[0]
    values = schema.attributes[position].values
    if values is None:
        raise OptionError(
            f"{attribute!r} is a number, not a group", hint="name a categorical attribute, or bin it first"
        )
    words = [str(value) for value in values]
    groups = tuple(words) if groups is None else groups
    for group in groups:
        if group not in words:
            raise OptionError(
                f"{attribute!r} has no value {group!r}",
                location="groups",
                hint=f"use the group names of the data: {', '.join(words)}",
            )
    column = people.individuals[:, position]
    place = {words.index(group): g for g, group in enumerate(groups)}
    belongs = np.array([place.get(int(value), -1) if value == value else -1 for value in column])
    chosen = np.flatnonzero(belongs >= 0)
    sizes = np.bincount(belongs[chosen], minlength=len(groups))
    if (sizes == 0).any():
        raise DataError(f"no one has {attribute} = {groups[int(np.argmin(sizes))]}", location=name)
    individuals = people.individuals[chosen]
    decided = predict_labels(scorer, individuals) == scorer.favourable
    constant = np.full(len(chosen), cost, dtype=np.float64)
    costs = np.abs(favourable_score(scorer, individuals) - 0.5) if cost is None else constant
    return ArrivalSource(
        name=name,
        groups=groups,
        group=belongs[chosen],
        recommendation=decided.astype(np.int64),
        cost=costs,
        label=None if people.labels is None else people.favourable[chosen].astype(np.int64),
        weight=None,
        real=people.labels is not None,
    )


class ArrivalStream:
    """Arrivals of many runs, step by step.

    Args:
        source: Possible arrivals.
        order: Order of the arrivals.
        runs: Number of runs.
        steps: Number of decisions in each run.
        horizon: Number of decisions after which the order restarts.
        rng: Random number generator.
    """

    def __init__(
        self, source: ArrivalSource, order: Order, *, runs: int, steps: int, horizon: int, rng: np.random.Generator
    ) -> None:
        order = parse_order(order)
        self.source = source
        self._rng = rng
        arrivals = source.draw((steps, runs), rng)
        self._cells = source.cells()
        if order in ("one-group-first", "alternating"):
            arrivals = _arrange_groups(source.group, arrivals, order, horizon, rng)
        elif order == "worst":
            # One group is always recommended, the others never. Each run draws this group.
            best = rng.integers(len(source.groups), size=runs)
            group = source.group[arrivals]
            arrivals = self._cells.draw(group, (group == best).astype(np.int64), rng)
        self._drawn = arrivals
        self._bold = rng.choice(ADVERSARY_BOLDNESS, size=runs) if order == "greedy" else None

    def next_arrivals(self, step: int, runs: Integers, counts: RunCounters) -> Integers:
        """Return the positions of the next arrivals of these runs. An adversary sees their counters."""
        arrivals: Integers = self._drawn[step, runs]
        if self._bold is None:
            return arrivals
        adversarial = self._rng.random(len(arrivals)) < self._bold[runs]
        group, recommendation = _widening_arrivals(counts, self._rng)
        return np.where(adversarial, self._cells.draw(group, recommendation, self._rng), arrivals)


def _arrange_groups(
    groups: Integers, arrivals: Integers, order: Order, horizon: int, rng: np.random.Generator
) -> Integers:
    """Reorder the arrivals within every horizon, one group after another or in turns, with a random first group."""
    arranged = np.empty_like(arrivals)
    count = int(groups.max()) + 1
    for start in range(0, len(arrivals), horizon):
        part = arrivals[start : start + horizon]
        group = (groups[part] + rng.integers(count, size=part.shape[1])) % count
        if order == "one-group-first":
            key = group
        else:
            rank = np.zeros_like(group)
            for g in range(count):
                rank += np.where(group == g, np.cumsum(group == g, axis=0) - 1, 0)
            key = count * rank + group
        arranged[start : start + horizon] = np.take_along_axis(part, np.argsort(key, axis=0, kind="stable"), axis=0)
    return arranged


def _widening_arrivals(counts: RunCounters, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Return the arrival that widens the largest gap most if its recommendation is followed."""
    sizes, accepted = counts.seen, counts.accepted
    rate = accepted / np.maximum(sizes, 1)
    runs = np.arange(len(rate))
    jitter = 1e-9 * rng.random(rate.shape)  # ties are broken by chance
    ahead, behind = np.argmax(rate + jitter, axis=1), np.argmin(rate - jitter, axis=1)
    behind = np.where(behind == ahead, (ahead + 1) % rate.shape[1], behind)

    def rate_change(group: Integers, decision: int) -> Floats:
        new_rate = (accepted[runs, group] + decision) / (sizes[runs, group] + 1)
        return np.asarray(np.abs(new_rate - rate[runs, group]))

    raising = rate_change(ahead, 1) > rate_change(behind, 0)
    return np.where(raising, ahead, behind), raising.astype(np.int64)
