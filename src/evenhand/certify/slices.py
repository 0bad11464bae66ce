"""Where the unfair and the undecided lie, attribute by attribute: shares among the people of each value or range."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.boxes import Boxes
from evenhand.certify.cells import Cells
from evenhand.certify.counterexamples import Finder
from evenhand.certify.question import Question
from evenhand.certify.result import Estimate, Slice
from evenhand.stats.proportion import clopper_pearson

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RANGES = 8
"""Ranges of an ordered attribute, of about equal mass."""
VALUES = 12
"""Values of an attribute that are shown one by one."""
LISTED = 4_000_000
"""Values of an attribute that can be told apart; where one has more, there are no slices."""
BATCH = 1024
QUESTIONS = 2_000_000
"""Questions to the model in a batch, at most."""
PATIENCE = 0.25
"""Seconds for the sample, whatever the deadline says."""
BOXES = 20_000
"""Boxes that are looked at, at most: of more a sample."""


def slices_of(
    query: Question,
    boxes: Boxes,
    open_mass: Floats,
    undecided: float,
    finder: Finder,
    *,
    samples: int,
    confidence: float,
    rng: np.random.Generator,
    deadline: float | None = None,
) -> tuple[Slice, ...]:
    """Shares of every value or range of every attribute, in schema order.

    What is unfair is estimated: people are drawn from the whole population, and the model is asked about them. What is
    undecided is what the proof left open, shared out inside each box as its people are.

    Args:
        query: what is asked.
        boxes: those that are not decided as a whole.
        open_mass: undecided mass in each of them.
        undecided: the certificate's share.
        finder: asks the model, and keeps the counterexamples seen.
        samples: how many people to draw, at most.
        confidence: of each interval.
        rng: source of randomness.
        deadline: clock at which to stop drawing, a moment later at the latest.
    """
    if query.constant or any(cells.count > LISTED for cells in query.cells):
        return ()
    groups = [_groups(cells) for cells in query.cells]
    asked, unfair = _sampled(query, groups, finder, samples, rng, deadline)
    rows, weights = _drawn(boxes, open_mass, rng)
    found = []
    for i, cells in enumerate(query.cells):
        mass = np.diff(cells.before(np.arange(cells.count + 1))) / cells.total
        left = undecided * _overlaps(cells, groups[i], boxes, i, rows, weights)
        low, high = clopper_pearson(unfair[i], asked[i], confidence)
        for g in range(int(groups[i].max()) + 1):
            inside = float(mass[groups[i] == g].sum())
            if inside <= 0:
                continue
            n = int(asked[i][g])
            share = int(unfair[i][g]) / n if n else 0.0
            found.append(
                Slice(
                    attribute=cells.attribute.name,
                    values=_words(cells, groups[i], g),
                    mass=inside,
                    estimate=Estimate(unfair=share, low=float(low[g]), high=float(high[g]), confidence=confidence, n=n),
                    undecided=min(1.0, float(left[g]) / inside),
                )
            )
    return tuple(found)


def _groups(cells: Cells) -> NDArray[np.int16]:
    """Which group each cell belongs to: one per value where they are few, else ranges of about equal mass."""
    weight = np.diff(cells.before(np.arange(cells.count + 1)))
    if cells.count <= (RANGES if cells.attribute.ordered else VALUES):
        return _order(cells).astype(np.int16)
    group = np.empty(cells.count, dtype=np.int16)
    if not cells.attribute.ordered:
        # The heaviest values by themselves, all others together.
        group[np.argsort(-weight, kind="stable")] = np.minimum(np.arange(cells.count), VALUES - 1)
        return group
    order = np.argsort(_order(cells), kind="stable")
    middle = (np.cumsum(weight[order]) - weight[order] / 2) / cells.total
    _, group[order] = np.unique(np.floor(RANGES * middle).astype(np.int16), return_inverse=True)
    return group


def _order(cells: Cells) -> Ints:
    """The place of each cell among all, by its values."""
    place = np.arange(cells.count)
    if cells.entries is not None:
        place[np.argsort(cells.entries, kind="stable")] = np.arange(cells.count)
    return place


def _words(cells: Cells, group: NDArray[np.int16], g: int) -> str:
    """A group in the data's own words."""
    inside = np.flatnonzero(group == g)
    first, last = int(inside[0]), int(inside[-1])
    if len(inside) == 1:
        return cells.words(first, last)
    if not cells.attribute.ordered:
        return f"{len(inside)} others"
    if cells.entries is None:
        return cells.words(first, last)
    highest = (cells.entries if cells.ends is None else cells.ends)[inside].max()
    return f"{cells.attribute.text(cells.entries[inside].min())} to {cells.attribute.text(highest)}"


def _sampled(
    query: Question,
    groups: list[NDArray[np.int16]],
    finder: Finder,
    samples: int,
    rng: np.random.Generator,
    deadline: float | None,
) -> tuple[list[Ints], list[Ints]]:
    """How many people were asked about in each group of each attribute, and how many were treated unfairly."""
    sizes = [int(group.max()) + 1 for group in groups]
    asked, unfair = ([np.zeros(size, dtype=np.int64) for size in sizes] for _ in range(2))
    until = math.inf if deadline is None else max(deadline, time.perf_counter() + PATIENCE)
    questions = query.window * len(query.assignments)
    size = max(16, min(BATCH, QUESTIONS // questions))
    drawn = 0
    while drawn < samples and (drawn == 0 or time.perf_counter() < until):
        n = min(size, samples - drawn)
        drawn += n
        entries, places = np.empty((n, len(groups))), []
        for i, cells in enumerate(query.cells):
            ticket = rng.integers(0, cells.total, n)
            if cells.cumulative is None:
                place = ticket // cells.values
            else:
                place = np.searchsorted(cells.cumulative, ticket, side="right") - 1
            entries[:, i] = cells.draw(place, place, rng)
            places.append(place)
        differs = finder.unfair(entries)
        for i, (group, place) in enumerate(zip(groups, places, strict=True)):
            asked[i] += np.bincount(group[place], minlength=sizes[i])
            unfair[i] += np.bincount(group[place], weights=differs, minlength=sizes[i]).astype(np.int64)
    return asked, unfair


def _drawn(boxes: Boxes, open_mass: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Boxes to look at, and what part of the undecided each stands for."""
    running = np.cumsum(open_mass)
    if not len(running) or running[-1] <= 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    if len(running) <= BOXES:
        return np.arange(len(running)), open_mass / running[-1]
    rows = np.searchsorted(running, rng.random(BOXES) * running[-1], side="right")
    return np.minimum(rows, len(running) - 1), np.full(BOXES, 1 / BOXES)


def _overlaps(
    cells: Cells, group: NDArray[np.int16], boxes: Boxes, attribute: int, rows: Ints, weights: Floats
) -> Floats:
    """Which part of the undecided lies in each group of an attribute."""
    before = cells.before(np.arange(cells.count + 1))
    first, last = boxes.lo[rows, attribute].astype(np.int64), boxes.hi[rows, attribute].astype(np.int64) + 1
    held = np.maximum(before[last] - before[first], 1)
    shares = np.empty(int(group.max()) + 1)
    for g in range(len(shares)):
        own = np.concatenate([[0], np.cumsum(np.diff(before) * (group == g))])
        shares[g] = float((weights * (own[last] - own[first]) / held).sum())
    return shares
