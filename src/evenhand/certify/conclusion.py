"""From what was proved to a certificate: an estimate of the rest, counterexamples, and all that was found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.boxes import Boxes, whole
from evenhand.certify.counterexamples import Finder
from evenhand.certify.interval import Stop
from evenhand.certify.question import Question
from evenhand.certify.result import Certificate, Region
from evenhand.certify.sampling import draw, estimate
from evenhand.certify.slices import slices_of
from evenhand.certify.tally import Tally

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """How a proof ended.

    Attributes:
        undecided: the boxes that are not decided as a whole.
        proved: mass proved fair and unfair in each of them, shape (boxes, 2); None: nothing is.
        stop: why it ended.
        method: how it was proved.
        regions: where the unfair and the undecided lie; None: as the tally has them.
    """

    undecided: Boxes
    proved: Floats | None
    stop: Stop
    method: str
    regions: tuple[Region, ...] | None = None


@dataclass(frozen=True)
class Sampling:
    """How the rest is estimated: people at most, the interval's confidence, the seed, seconds in all."""

    samples: int
    confidence: float
    seed: int
    time_limit: float | None


def conclude(
    query: Question,
    tally: Tally,
    finder: Finder,
    outcome: Outcome,
    sampling: Sampling,
    *,
    clock: float,
    started: float,
    processor: float,
    say: Callable[[str, float], None],
) -> Certificate:
    """The certificate of a proof that has ended.

    Args:
        query: what is asked.
        tally: holds what was proved.
        finder: keeps counterexamples.
        outcome: how the proof ended.
        sampling: how the rest is estimated.
        clock: when proving began.
        started, processor: clock and processor time when everything began.
        say: called with what is being done and the share of the work done.
    """
    shares = tally.shares()
    proved = np.zeros((len(outcome.undecided), 2)) if outcome.proved is None else outcome.proved
    deadline = None if sampling.time_limit is None else clock + sampling.time_limit
    say(f"sampling what is undecided: {' x '.join(query.protected)}", 1.0)
    estimated = estimate(
        query,
        shares,
        outcome.undecided,
        float(proved[:, 1].sum()),
        finder,
        samples=sampling.samples,
        confidence=sampling.confidence,
        rng=np.random.default_rng(sampling.seed),
        deadline=deadline,
    )
    if shares[1] > 0 and not finder.found:
        # All that is unfair was proved, none of it sampled: show some of it all the same.
        shown = max(1, sampling.samples // query.window)
        finder.unfair(draw(query, whole(query), shown, np.random.default_rng(sampling.seed)))
    certified, falsified, rest = shares
    slices = slices_of(
        query,
        outcome.undecided,
        np.maximum(outcome.undecided.mass - proved.sum(axis=1), 0.0),
        rest,
        finder,
        samples=sampling.samples,
        confidence=sampling.confidence,
        rng=np.random.default_rng([sampling.seed, 1]),
        deadline=deadline,
    )
    return Certificate(
        certified=certified,
        falsified=falsified,
        undecided=rest,
        estimate=estimated,
        counterexamples=tuple(finder.found),
        boxes=tally.boxes,
        cpu_seconds=time.process_time() - processor,
        method=outcome.method,
        population=query.population,
        stopped_by=outcome.stop,
        protected=query.protected,
        where=query.where,
        threshold=query.threshold,
        positive=None if query.threshold is None else str(query.classes[1]),
        relaxed=query.relaxed,
        history=tuple(tally.history),
        regions=tally.regions() if outcome.regions is None else outcome.regions,
        slices=slices,
        seed=sampling.seed,
        seconds=time.perf_counter() - started,
    )
