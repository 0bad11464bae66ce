"""Build a certificate from proved masses, an estimate of the rest, and counterexamples."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from evenhand.certification.certificate.breakdown import SamplingPlan, attribute_breakdown
from evenhand.certification.certificate.counterexamples import CounterexampleFinder
from evenhand.certification.certificate.result import AttributeSlice, Certificate, Estimate, Evidence, Subregion
from evenhand.certification.query.boxes import Boxes, BoxSet, whole_domain
from evenhand.certification.query.orbits import OrbitQuestion
from evenhand.certification.query.proved_mass import ProvedMass, Stop
from evenhand.certification.query.question import Question
from evenhand.core.time_limit import Clock
from evenhand.core.typing import Floats, Integers
from evenhand.stats.combined import Draws, OpenPart, combined_share


@dataclass(frozen=True)
class ProofOutcome:
    """Outcome of a proof.

    Attributes:
        undecided: Boxes that are not decided as a whole.
        proved: Proved fair and unfair mass of each of them, shape (boxes, 2). None: no mass.
        stop: Reason why the proof ended.
        method: Method of the proof.
        regions: Parts of the domain with unfair and undecided mass. None: the regions of the account.
    """

    undecided: BoxSet
    proved: Floats | None
    stop: Stop
    method: str
    regions: tuple[Subregion, ...] | None = None


class RunClock(NamedTuple):
    """Start of a run in wall time and processor time, start of its proof, and the clock of its time limit."""

    started: float
    processor: float
    proving: float
    timer: Clock


def build_certificate(
    query: Question | OrbitQuestion,
    tally: ProvedMass,
    finder: CounterexampleFinder,
    outcome: ProofOutcome,
    sampling: SamplingPlan,
    clock: RunClock,
    say: Callable[[str, float], None],
) -> Certificate:
    """Build the certificate of a finished proof.

    Args:
        query: Question.
        tally: Account of the proved mass.
        finder: Finder of counterexamples.
        outcome: Outcome of the proof.
        sampling: Plan of the estimate.
        clock: Start of the run.
        say: Callback that receives the current step and the fraction of completed work.
    """
    shares = tally.shares()
    proved = np.zeros((len(outcome.undecided), 2)) if outcome.proved is None else outcome.proved
    say(f"sampling undecided boxes: {' x '.join(query.protected)}", 1.0)
    inhabited = outcome.undecided.mass > 0
    left = outcome.undecided if inhabited.all() else outcome.undecided[inhabited]
    inside = ask_undecided(query, left, finder, sampling) if shares[2] > 0 else Draws()
    if shares[1] > 0 and not finder.found:
        # All unfair mass was proved without sampling, so counterexamples are drawn here.
        finder.unfair(draw_people(query, all_people(query), sampling.samples, np.random.default_rng(sampling.seed)))
    certified, falsified, undecided = shares
    slices: tuple[AttributeSlice, ...] = ()
    walked = Draws()
    if isinstance(query, Question):
        open_mass = np.maximum(outcome.undecided.mass - proved.sum(axis=1), 0.0)
        slices, walked = attribute_breakdown(query, outcome.undecided, open_mass, undecided, finder, sampling)
    question = query.query
    outside = max(0.0, falsified - float(proved[:, 1].sum()))
    compared = 1.0 - query.no_counterpart
    part = OpenPart(float(left.mass.sum()), outside, falsified, max(falsified, compared - certified))
    evidence = tuple(
        Evidence(source=source, mass=mass, unfair=draws.hits, n=draws.n)
        for source, mass, draws in (
            ("undecided", part.mass, inside),
            ("breakdown", compared, walked),
            ("flip rate", compared, sampling.drawn),
        )
        if draws.n
    )
    return Certificate(
        certified=certified,
        falsified=falsified,
        undecided=undecided,
        estimate=estimate_unfair_mass(evidence, part, compared, tally.rounding + query.distance, sampling.confidence),
        evidence=evidence,
        counterexamples=tuple(finder.found),
        boxes=tally.boxes,
        cpu_seconds=time.process_time() - clock.processor,
        method=outcome.method,
        population=query.population,
        stopped_by=outcome.stop,
        protected=query.protected,
        where=question.where,
        threshold=question.threshold,
        positive=None if question.threshold is None else str(question.classes[1]),
        moved=query.moved,
        no_counterpart=query.no_counterpart,
        history=tuple(tally.history),
        regions=tally.regions() if outcome.regions is None else outcome.regions,
        slices=slices,
        tolerance=question.limit,
        bands=() if question.bands is None else question.bands.edges,
        seed=sampling.seed,
        seconds=time.perf_counter() - clock.started,
        time_limited=sampling.clock.decided,
    )


# Estimate of the unfair share of the undecided mass.

SAMPLE_BATCH, ORBITS_BATCH = 2048, 16_384
"""Number of people per batch. Orbits need larger batches, because each orbit is queried separately."""
MAX_SAMPLE_QUERIES = 20_000_000
"""Approximate maximum number of queries to the model per estimate. At least one batch is always drawn."""


def draw_people(query: Question | OrbitQuestion, boxes: BoxSet, n: int, rng: np.random.Generator) -> Floats:
    """Draw independent people of the population from boxes.

    Returns:
        Unprotected entries, shape (n, cells); with orbits, the last column is the number of the orbit.
    """
    # A box is drawn in proportion to its mass, then every attribute independently within it; with orbits, the latent
    # class is drawn first, in proportion to its mass in the box.
    running = np.cumsum(boxes.mass)
    chosen = np.minimum(np.searchsorted(running, rng.random(n) * running[-1], side="right"), len(boxes) - 1)
    boxes = boxes[chosen]
    lo, hi = boxes.lo.astype(np.int64), boxes.hi.astype(np.int64)
    if isinstance(query, Question):
        return _draw_inside(query, lo, hi, rng)
    entries = np.empty((n, lo.shape[1] + 1))
    entries[:, -1] = boxes.region - 1
    for number in np.unique(boxes.region) - 1:
        orbit, members = query.orbits[number], np.flatnonzero(entries[:, -1] == number)
        running = np.cumsum(orbit.masses.of(lo[members], hi[members]), axis=1)
        latent = (running <= rng.random((len(members), 1)) * running[:, -1:]).sum(axis=1)
        for z in np.unique(latent):
            rows = members[latent == z]
            entries[rows, :-1] = _draw_inside(orbit.classes[z], lo[rows], hi[rows], rng)
    return entries


def _draw_inside(query: Question, lo: Integers, hi: Integers, rng: np.random.Generator) -> Floats:
    """Draw one person from each box, shape (boxes, cells)."""
    columns = [cells.draw(lo[:, i], hi[:, i], rng) for i, cells in enumerate(query.cells)]
    return np.stack(columns, axis=1) if columns else np.empty((len(lo), 0))


def all_people(query: Question | OrbitQuestion) -> Boxes:
    """Build a box of the whole domain, or one for each orbit."""
    if isinstance(query, Question):
        return whole_domain(query)
    boxes = Boxes.concatenate([whole_domain(orbit.query) for orbit in query.orbits])
    region = np.arange(1, len(boxes) + 1, dtype=np.int16)
    return replace(boxes, mass=np.array([orbit.mass for orbit in query.orbits]), region=region)


def ask_undecided(
    query: Question | OrbitQuestion,
    undecided: BoxSet,
    finder: CounterexampleFinder,
    sampling: SamplingPlan,
) -> Draws:
    """Draw people from the boxes that are not decided as a whole, and count those treated unfairly.

    Args:
        query: Question.
        undecided: Boxes with mass.
        finder: Finder of counterexamples.
        sampling: Plan of the sample.
    """
    questions = query.questions
    # Draws that are combined must be independent: flip rates are drawn with the seed alone, slices with (seed, 1).
    rng = np.random.default_rng([sampling.seed, 2])
    batch_size = ORBITS_BATCH if query.orbits else SAMPLE_BATCH
    samples = min(sampling.samples, max(batch_size, MAX_SAMPLE_QUERIES // questions))
    size = max(16, min(batch_size, MAX_SAMPLE_QUERIES // (16 * questions)))
    count = unfair = 0
    while len(undecided) and count < samples and not (count and sampling.over):
        batch = draw_people(query, undecided, min(size, samples - count), rng)
        unfair += int(finder.unfair(batch).sum())
        count += len(batch)
    return Draws(unfair, count)


def estimate_unfair_mass(
    evidence: Sequence[Evidence], part: OpenPart, compared: float, error: float, confidence: float
) -> Estimate:
    """Estimate the unfair mass from the proofs and all draws, with a confidence interval.

    Args:
        evidence: Draws from the undecided mass (``undecided``), and from all compared people (all others).
        part: Proved mass and undecided mass.
        compared: Share of the population that has a counterpart.
        error: Bound on the error of a proved mass due to rounding and the weights of the population.
        confidence: Confidence level.
    """
    outside = [draws for draws in evidence if draws.source != "undecided"]
    inside = [draws for draws in evidence if draws.source == "undecided"]
    among = OpenPart(*(min(1.0, share / compared) for share in part))
    value, low, high = combined_share(_pool_draws(outside), _pool_draws(inside), among, confidence=confidence)
    slack = 2 * error  # proved masses are rounded down (see ProvedMass)
    return Estimate(
        unfair=min(part.high, max(part.low, compared * value)),
        low=max(part.low, compared * low - slack),
        high=min(part.high, compared * high + slack),
        confidence=confidence,
        n=sum(draws.n for draws in evidence),
    )


def _pool_draws(evidence: Sequence[Evidence]) -> Draws:
    return Draws(sum(draws.unfair for draws in evidence), sum(draws.n for draws in evidence))
