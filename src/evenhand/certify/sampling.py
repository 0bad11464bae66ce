"""How much of what is undecided is unfair: a random sample of it, joined with what is proved."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.boxes import Boxes
from evenhand.certify.counterexamples import Finder
from evenhand.certify.question import Question
from evenhand.certify.result import Estimate
from evenhand.certify.tally import ROUNDING
from evenhand.stats.proportion import clopper_pearson

BATCH = 2048
QUESTIONS = 20_000_000
"""Questions to the model per estimate, about: with a large tolerance fewer people are sampled, but always a batch."""


def draw(query: Question, boxes: Boxes, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """People of the population who lie in these boxes, independently, shape (n, unprotected attributes)."""
    running = np.cumsum(boxes.mass)
    chosen = np.minimum(np.searchsorted(running, rng.random(n) * running[-1], side="right"), len(boxes) - 1)
    lo, hi = boxes.lo[chosen], boxes.hi[chosen]
    entries = np.empty((n, len(query.cells)))
    for i, cells in enumerate(query.cells):
        entries[:, i] = cells.draw(lo[:, i].astype(np.int64), hi[:, i].astype(np.int64), rng)
    return entries


def estimate(
    query: Question,
    shares: tuple[float, float, float],
    undecided: Boxes,
    proved_unfair: float,
    finder: Finder,
    *,
    samples: int,
    confidence: float,
    rng: np.random.Generator,
    deadline: float | None = None,
) -> Estimate:
    """A two-sided confidence interval for the true unfair mass.

    Outside the boxes that are not decided as a whole everything is proved. Inside, with mass B, a share q is unfair: a
    sample of these boxes bounds it (Clopper-Pearson). With F falsified in all and F' of it inside, the truth is
    ``F - F' + B q``, and it lies between F and 1 - C whatever the sample says (C certified).

    Args:
        query: what is asked.
        shares: certified, falsified and undecided mass.
        undecided: the boxes that are left.
        proved_unfair: mass in them that is proved unfair (parts of a box may be).
        finder: keeps the counterexamples seen.
        samples: how many people to draw, at most.
        confidence: of the interval.
        rng: source of randomness.
        deadline: clock at which to stop drawing, after one batch at least.
    """
    certified, falsified, rest = shares
    undecided = undecided[undecided.mass > 0]
    questions = query.window * len(query.assignments)
    samples = min(samples, max(BATCH, QUESTIONS // questions))
    size = max(16, min(BATCH, QUESTIONS // (16 * questions)))
    drawn = unfair = 0
    while (
        rest > 0
        and len(undecided)
        and drawn < samples
        and (drawn == 0 or deadline is None or time.perf_counter() < deadline)
    ):
        batch = draw(query, undecided, min(size, samples - drawn), rng)
        unfair += int(finder.unfair(batch).sum())
        drawn += len(batch)
    low, high = (float(end) for end in clopper_pearson(unfair, drawn, confidence))
    inside = float(undecided.mass.sum())
    outside = max(0.0, falsified - proved_unfair)

    def total(share: float, rounding: float = 0.0) -> float:
        return float(np.clip(outside + inside * share + rounding, falsified, max(falsified, 1.0 - certified)))

    return Estimate(
        unfair=total(unfair / drawn if drawn else 0.0),
        low=total(low),
        high=total(high, 2 * ROUNDING + 2 * query.distance),  # proved masses are rounded down (see tally)
        confidence=confidence,
        n=drawn,
    )
