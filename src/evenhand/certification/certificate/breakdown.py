"""Break unfair and undecided shares down by the values and ranges of each attribute."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.certificate.counterexamples import CounterexampleFinder
from evenhand.certification.certificate.result import AttributeSlice, Estimate, Subregion
from evenhand.certification.query.boxes import Boxes, BoxSet
from evenhand.certification.query.cells import Cells
from evenhand.certification.query.enumeration import boxes_of
from evenhand.certification.query.outcomes import FAIR, UNFAIR
from evenhand.certification.query.proved_mass import REGION_DEPTH
from evenhand.certification.query.question import Question
from evenhand.core.interrupts import is_interrupted
from evenhand.core.time_limit import Clock
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.combined import Draws
from evenhand.stats.proportion import clopper_pearson

MAX_RANGES = 8
"""Maximum number of ranges of an ordered attribute, of about equal mass."""
MAX_VALUES = 12
"""Maximum number of values of an unordered attribute that are shown individually."""
MAX_LISTED = 4_000_000
"""Maximum number of cells of an attribute. If an attribute has more, there are no slices."""
BATCH = 1024
MAX_QUERIES = 2_000_000
"""Maximum number of queries to the model in a batch."""
MIN_SAMPLE_SECONDS = 0.25
"""Minimum seconds for the sample, regardless of the deadline."""
MAX_BOXES = 20_000
"""Maximum number of boxes that are broken down. If there are more, a sample is drawn."""


@dataclass(frozen=True)
class SamplingPlan:
    """Plan of the estimates.

    Attributes:
        samples: Maximum number of people to draw for one purpose.
        confidence: Confidence level of every interval.
        seed: Random seed.
        deadline: Time at which sampling ends, after at least one batch, by ``clock``. None: no deadline.
        clock: Clock of the deadline.
        drawn: Earlier draws from the whole population, with the model's answers.
    """

    samples: int
    confidence: float
    seed: int
    deadline: float | None
    clock: Clock
    drawn: Draws

    @property
    def over(self) -> bool:
        """Whether to stop drawing, because of the deadline or an interrupt."""
        return is_interrupted() or self.clock.passed(self.deadline)


def attribute_breakdown(
    query: Question,
    boxes: BoxSet,
    open_mass: Floats,
    undecided: float,
    finder: CounterexampleFinder,
    sampling: SamplingPlan,
) -> tuple[tuple[AttributeSlice, ...], Draws]:
    """Compute the shares of every value or range of every attribute, in schema order, and the draws they are based on.

    Unfair shares are estimated from people drawn from the whole population. Undecided mass is the open mass of the
    proof, distributed within each box in proportion to its population.

    Args:
        query: Question.
        boxes: Boxes that are not decided as a whole.
        open_mass: Undecided mass of each of them.
        undecided: Undecided share of the certificate.
        finder: Finder of counterexamples, which queries the model.
        sampling: Plan of the sample.
    """
    if query.constant or any(cells.count > MAX_LISTED for cells in query.cells):
        return (), Draws()
    # This sample is independent of the sample for the total.
    rng, confidence = np.random.default_rng([sampling.seed, 1]), sampling.confidence
    groups = [_group_cells(cells) for cells in query.cells]
    sampled, unfair = _count_unfair(query, groups, finder, sampling, rng)
    rows, weights = _draw_boxes(open_mass, rng)
    rows_drawn = boxes[rows]
    lo, hi = rows_drawn.lo, rows_drawn.hi
    slices = []
    for i, cells in enumerate(query.cells):
        mass = np.diff(cells.before(np.arange(cells.count + 1))) / cells.total
        left = undecided * _undecided_by_group(cells, groups[i], lo[:, i], hi[:, i], weights)
        low, high = clopper_pearson(unfair[i], sampled[i], confidence)
        for g in range(int(groups[i].max()) + 1):
            inside = float(mass[groups[i] == g].sum())
            if inside <= 0:
                continue
            n = int(sampled[i][g])
            share = int(unfair[i][g]) / n if n else 0.0
            slices.append(
                AttributeSlice(
                    attribute=cells.attribute.name,
                    values=_describe_group(cells, groups[i], g),
                    mass=inside,
                    estimate=Estimate(unfair=share, low=float(low[g]), high=float(high[g]), confidence=confidence, n=n),
                    undecided=min(1.0, float(left[g]) / inside),
                )
            )
    return tuple(slices), Draws(int(unfair[0].sum()), int(sampled[0].sum())) if sampled else Draws()


def _group_cells(cells: Cells) -> NDArray[np.int16]:
    """Assign each cell to a group: one per value if there are few, else ranges of about equal mass."""
    weight = np.diff(cells.before(np.arange(cells.count + 1)))
    if cells.count <= (MAX_RANGES if cells.attribute.ordered else MAX_VALUES):
        return _cell_order(cells).astype(np.int16)
    group = np.empty(cells.count, dtype=np.int16)
    if not cells.attribute.ordered:
        # The heaviest values individually, and all others together.
        group[np.argsort(-weight, kind="stable")] = np.minimum(np.arange(cells.count), MAX_VALUES - 1)
        return group
    order = np.argsort(_cell_order(cells), kind="stable")
    middle = (np.cumsum(weight[order]) - weight[order] / 2) / cells.total
    _, group[order] = np.unique(np.floor(MAX_RANGES * middle).astype(np.int16), return_inverse=True)
    return group


def _cell_order(cells: Cells) -> Integers:
    """Compute the rank of each cell by its values."""
    place = np.arange(cells.count)
    if cells.entries is not None:
        place[np.argsort(cells.entries, kind="stable")] = np.arange(cells.count)
    return place


def _describe_group(cells: Cells, group: NDArray[np.int16], g: int) -> str:
    """Describe a group by the values of the data."""
    inside = np.flatnonzero(group == g)
    begin, end = int(inside[0]), int(inside[-1])
    if len(inside) == 1:
        return cells.words(begin, end)
    if not cells.attribute.ordered:
        return f"{len(inside)} others"
    if cells.entries is None:
        return cells.words(begin, end)
    highest = (cells.entries if cells.ends is None else cells.ends)[inside].max()
    return f"{cells.attribute.text(cells.entries[inside].min())} to {cells.attribute.text(highest)}"


def _count_unfair(
    query: Question,
    groups: list[NDArray[np.int16]],
    finder: CounterexampleFinder,
    sampling: SamplingPlan,
    rng: np.random.Generator,
) -> tuple[list[Integers], list[Integers]]:
    """Count the sampled people and the unfairly treated ones in each group of each attribute."""
    sizes = [int(group.max()) + 1 for group in groups]
    sampled, unfair = ([np.zeros(size, dtype=np.int64) for size in sizes] for _ in range(2))
    samples, until = sampling.samples, sampling.deadline
    if until is not None:
        sampling = replace(sampling, deadline=max(until, sampling.clock.now() + MIN_SAMPLE_SECONDS))
    size = max(16, min(BATCH, MAX_QUERIES // query.questions))
    count = 0
    while count < samples and not (count and sampling.over):
        n = min(size, samples - count)
        count += n
        entries, places = np.empty((n, len(groups))), []
        for i, cells in enumerate(query.cells):
            # A uniform number below the total weight falls into a cell with a probability proportional to its weight.
            place = cells.holding(rng.integers(0, cells.total, n))
            entries[:, i] = cells.draw(place, place, rng)
            places.append(place)
        differs = finder.unfair(entries)
        for i, (group, place) in enumerate(zip(groups, places, strict=True)):
            sampled[i] += np.bincount(group[place], minlength=sizes[i])
            unfair[i] += np.bincount(group[place], weights=differs, minlength=sizes[i]).astype(np.int64)
    return sampled, unfair


def _draw_boxes(open_mass: Floats, rng: np.random.Generator) -> tuple[Integers, Floats]:
    """Select boxes, with the share of the undecided mass that each represents."""
    running = np.cumsum(open_mass)
    if not len(running) or running[-1] <= 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    if len(running) <= MAX_BOXES:
        return np.arange(len(running)), open_mass / running[-1]
    rows = np.searchsorted(running, rng.random(MAX_BOXES) * running[-1], side="right")
    return np.minimum(rows, len(running) - 1), np.full(MAX_BOXES, 1 / MAX_BOXES)


def _undecided_by_group(
    cells: Cells, group: NDArray[np.int16], lo: NDArray[np.integer], hi: NDArray[np.integer], weights: Floats
) -> Floats:
    """Compute the share of the undecided mass in each group of an attribute, for boxes with these cells."""
    # Attributes are independent within a box: the share of a group is the mass of its cells in the box divided by the
    # mass of all cells in the box.
    cumulative = cells.before(np.arange(cells.count + 1))
    begins, ends = lo.astype(np.int64), hi.astype(np.int64) + 1
    masses = np.maximum(cumulative[ends] - cumulative[begins], 1)
    shares = np.empty(int(group.max()) + 1)
    for g in range(len(shares)):
        own = np.concatenate([[0], np.cumsum(np.diff(cumulative) * (group == g))])
        shares[g] = float((weights * (own[ends] - own[begins]) / masses).sum())
    return shares


# Parts of an enumerated domain whose unfair shares differ most.


def subregions_of(query: Question, status: NDArray[np.int8], mass: Floats) -> tuple[Subregion, ...]:
    """Compute the parts of the domain with unfair or undecided points, in decreasing order of their mass.

    The parts are the leaves of a regression tree.

    Args:
        query: Question.
        status: Outcome of each point, shape (points,).
        mass: Share of the population of each point, shape (points,).
    """
    affected = boxes_of(query, np.flatnonzero(status != FAIR), mass)
    unfair = status[status != FAIR] == UNFAIR
    lo, hi = np.zeros(len(query.cells), dtype=np.int64), query.counts - 1
    subregions: list[Subregion] = []
    _split_region(query, lo, hi, 1.0, affected, unfair, REGION_DEPTH, subregions)
    return tuple(sorted(subregions, key=lambda region: -(region.falsified + region.undecided)))


def _split_region(
    query: Question,
    lo: Integers,
    hi: Integers,
    mass: float,
    points: Boxes,
    unfair: Booleans,
    depth: int,
    subregions: list[Subregion],
) -> None:
    total = float(points.mass.sum())
    if total <= 0:
        return
    cut = _best_cut(query, lo, hi, mass, points) if depth and total < mass * (1 - 1e-9) else None
    if cut is None:
        falsified = float(points.mass[unfair].sum())
        subregions.append(
            Subregion(where=query.words(lo, hi), mass=mass, falsified=falsified, undecided=max(0.0, total - falsified))
        )
        return
    attribute, cell, share = cut
    below = points.lo[:, attribute] <= cell
    left, right = hi.copy(), lo.copy()
    left[attribute], right[attribute] = cell, cell + 1
    _split_region(query, lo, left, mass * share, points[below], unfair[below], depth - 1, subregions)
    _split_region(query, right, hi, mass * (1 - share), points[~below], unfair[~below], depth - 1, subregions)


def _best_cut(query: Question, lo: Integers, hi: Integers, mass: float, points: Boxes) -> tuple[int, int, float] | None:
    """Select the best split: attribute, last cell below it, and share of the mass below. None if there is none."""
    # Splitting mass M with affected mass t into (m1, t1) and (m2, t2) reduces the squared error of the affected share
    # by t1^2 / m1 + t2^2 / m2 - t^2 / M, as in a regression tree.
    total = float(points.mass.sum())
    best, chosen = total**2 / mass * (1 + 1e-9), None
    for i, cells in enumerate(query.cells):
        if lo[i] == hi[i]:
            continue
        cumulative = cells.before(np.arange(lo[i], hi[i] + 2))
        share = (cumulative[1:-1] - cumulative[0]) / (cumulative[-1] - cumulative[0])
        counts = np.bincount(points.lo[:, i] - lo[i], weights=points.mass, minlength=hi[i] - lo[i] + 1)
        below = np.cumsum(counts)[:-1]
        inside = (share > 0) & (share < 1)
        if not inside.any():
            continue
        weight = np.where(inside, share * mass, 1.0)
        other_weight = np.where(inside, (1 - share) * mass, 1.0)
        gain = np.where(inside, below**2 / weight + (total - below) ** 2 / other_weight, 0.0)
        cell = int(np.argmax(gain))
        if gain[cell] > best:
            best, chosen = float(gain[cell]), (i, int(lo[i]) + cell, float(share[cell]))
    return chosen
