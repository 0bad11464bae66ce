"""Checking a certificate: the file, the model, the partition, the totals, and the proofs of single boxes."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.partition import cells_inside, overlapping
from evenhand.checker.question import Question, question_of
from evenhand.checker.reading import WHOLE, CertificateError, Statement, read
from evenhand.checker.reprove import Proof, Prover
from evenhand.checker.result import CertificateCheck, Unconfirmed
from evenhand.errors import OptionError
from evenhand.models.additive import AdditiveNetwork
from evenhand.population import ProductPopulation
from evenhand.schema import Schema
from evenhand.stats import clopper_pearson, none_seen_upper

SAMPLE = 1000
CONFIDENCE = 0.99
LISTED = 100
BATCH = 256

Progress = Callable[[str, float], None]
Loader = Callable[[Schema], AdditiveNetwork]
PopulationLoader = Callable[[Schema], ProductPopulation]


def check(
    path: Path | str,
    model: AdditiveNetwork | Loader,
    *,
    sample: int | None = SAMPLE,
    seed: int | None = None,
    confidence: float = CONFIDENCE,
    population: ProductPopulation | PopulationLoader | None = None,
    progress: Progress | None = None,
) -> CertificateCheck:
    """Is what a certificate file claims about this model true?

    Nothing of the code that wrote the file is used. All arithmetic that the verdict rests on is exact: whole numbers
    and fractions. The file, the model, the partition and the totals are always checked completely; boxes are proved
    again in a random sample, drawn with replacement, each with a probability in proportion to the mass that it claims
    as proved.

    Args:
        path: the certificate.
        model: the model that it should be about, or what loads it once the schema in the file is known.
        sample: boxes to draw; None for all boxes.
        seed: of the draw. By default it is taken from the operating system, so that nobody can know beforehand which
            boxes will be drawn; the result names it.
        confidence: of what the sample says about all boxes.
        population: what the masses should be measured by, or what makes it once the schema is known; by default the
            masses in the file are taken as they are, unless the file says that they are uniform.
        progress: called with what is being done and the share done.

    Raises:
        OptionError: an option makes no sense.
        DataError: the file is no certificate.
        EvenhandError: the model cannot be loaded.
    """
    if sample is not None and sample < 1:
        raise OptionError(f"at least one box must be drawn, not {sample}", where="--sample")
    if not 0 < confidence < 1:
        raise OptionError(f"confidence must lie between 0 and 1, not {confidence:g}")
    started = time.perf_counter()
    seed = secrets.randbits(53) if seed is None else seed
    say = progress or (lambda what, share: None)
    statement: Statement | None = None
    try:
        say("reading the certificate", 0.0)
        statement = read(Path(path))
        network = model if isinstance(model, AdditiveNetwork) else model(statement.schema)
        if callable(population) and not isinstance(population, ProductPopulation):
            population = population(statement.schema)
        question = question_of(statement, network, population)
        say("comparing boxes with the domain", 0.0)
        low, high, kept = _partition(question)
        masses = _masses(question, low, high)
        certified, falsified = _totals(question, masses, kept)
    except CertificateError as fault:
        return CertificateCheck(
            verdict="rejected",
            fault=fault.what,
            model=None if statement is None else statement.model,
            boxes=0 if statement is None else len(statement.low),
            confidence=confidence,
            seed=seed,
            seconds=time.perf_counter() - started,
        )
    fair, unfair = statement.fair[kept], statement.unfair[kept]
    counts = _draws(question, low, high, fair, unfair, sample, seed)
    chosen = np.flatnonzero(counts)
    proofs = _proved(question, low[chosen], high[chosen], fair[chosen], unfair[chosen], say)
    failures, doubt = 0, 0.0
    unconfirmed: list[Unconfirmed] = []
    for k, proof in zip(chosen, proofs, strict=True):
        if not proof.confirmed:
            failures += int(counts[k])
            if len(unconfirmed) < LISTED:
                unconfirmed.append(_described(question, low[k], high[k], int(fair[k]), int(unfair[k]), proof))
    draws = int(counts.sum())
    if sample is not None and draws:
        doubt = float(
            none_seen_upper(draws, confidence) if not failures else clopper_pearson(failures, draws, confidence)[1]
        )
    elif failures:
        doubt = _claimed(
            question, low, high, fair, unfair, [k for k, p in zip(chosen, proofs, strict=True) if not p.confirmed]
        )
    shares = [max(Fraction(0), share - question.distance) for share in (certified, falsified)]
    return CertificateCheck(
        verdict="not confirmed" if failures else "confirmed",
        model=statement.model,
        protected=tuple(statement.protected),
        population=statement.population,
        population_checked=statement.uniform or population is not None,
        restricted=question.restricted,
        where=statement.where,
        threshold=statement.threshold,
        method=statement.method,
        certified=_below(shares[0]),
        falsified=_below(shares[1]),
        undecided=float(1 - sum(shares, Fraction(0))),
        boxes=len(statement.low),
        checked=len(chosen),
        draws=None if sample is None else draws,
        unconfirmed=tuple(unconfirmed),
        failures=failures,
        doubt=doubt,
        confidence=confidence,
        seed=seed,
        seconds=time.perf_counter() - started,
    )


def _below(share: Fraction) -> float:
    """The largest float that is not above a fraction."""
    nearest = float(share)
    return nearest if Fraction(nearest) <= share else math.nextafter(nearest, -math.inf)


def _partition(
    question: Question,
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.bool_]]:
    """The boxes in cells with mass, and which of the file's have any.

    Raises:
        CertificateError: they leave a gap, or overlap.
    """
    statement = question.statement
    low, high = statement.low, statement.high
    kept = np.ones(len(low), dtype=np.bool_)
    if any(axis.kept is not None for axis in question.axes):
        low, high = low.astype(np.int64), high.astype(np.int64)
        for i, axis in enumerate(question.axes):
            low[:, i], high[:, i] = axis.renumbered(low[:, i], high[:, i])
            kept &= low[:, i] <= high[:, i]
        low, high = low[kept], high[kept]
    domain = math.prod(axis.count for axis in question.axes)
    inside = cells_inside(low, high)
    if inside < domain:
        raise CertificateError(f"the boxes leave a gap: they hold {inside:,} of the {domain:,} cells of the domain")
    if inside > domain or overlapping(low, high):
        raise CertificateError("two of the boxes overlap")
    return low, high, kept


def _masses(question: Question, low: NDArray[np.integer], high: NDArray[np.integer]) -> NDArray[np.object_]:
    """Exact masses of boxes, as Python's integers."""
    product = np.ones(len(low), dtype=np.int64 if question.total < 2**62 else object)
    for i, axis in enumerate(question.axes):
        mass = axis.before(high[:, i].astype(np.int64) + 1) - axis.before(low[:, i].astype(np.int64))
        product = product * (mass if product.dtype == np.int64 else mass.astype(object))
    return product.astype(object)


def _totals(question: Question, masses: NDArray[np.object_], kept: NDArray[np.bool_]) -> tuple[Fraction, Fraction]:
    """Certified and falsified share, added up again.

    Raises:
        CertificateError: they are not what the file claims.
    """
    statement = question.statement
    certified = int((masses * statement.fair[kept].astype(object)).sum())
    falsified = int((masses * statement.unfair[kept].astype(object)).sum())
    of = question.total * WHOLE
    if (certified, falsified, of) != (statement.certified, statement.falsified, statement.of):
        raise CertificateError(
            f"the totals are not those of the boxes, which give {certified / of:.6%} certified and "
            f"{falsified / of:.6%} falsified"
        )
    return Fraction(certified, of), Fraction(falsified, of)


def _weights(
    question: Question,
    low: NDArray[np.integer],
    high: NDArray[np.integer],
    fair: NDArray[np.uint32],
    unfair: NDArray[np.uint32],
) -> NDArray[np.float64]:
    """Mass that each box claims as proved, about."""
    weights = (fair.astype(np.float64) + unfair) / WHOLE
    for i, axis in enumerate(question.axes):
        inside = axis.before(high[:, i].astype(np.int64) + 1) - axis.before(low[:, i].astype(np.int64))
        weights *= inside / axis.total
    return weights


def _draws(
    question: Question,
    low: NDArray[np.integer],
    high: NDArray[np.integer],
    fair: NDArray[np.uint32],
    unfair: NDArray[np.uint32],
    sample: int | None,
    seed: int,
) -> NDArray[np.int64]:
    """How often each box is drawn."""
    if sample is None:
        return np.ones(len(low), dtype=np.int64)
    running = np.cumsum(_weights(question, low, high, fair, unfair))
    if running[-1] <= 0:
        return np.zeros(len(low), dtype=np.int64)
    tickets = np.random.default_rng(seed).random(sample) * running[-1]
    drawn = np.minimum(np.searchsorted(running, tickets, side="right"), len(low) - 1)
    return np.bincount(drawn, minlength=len(low)).astype(np.int64)


def _claimed(
    question: Question,
    low: NDArray[np.integer],
    high: NDArray[np.integer],
    fair: NDArray[np.uint32],
    unfair: NDArray[np.uint32],
    failed: list[np.intp],
) -> float:
    """Part of all claimed mass that lies in some boxes."""
    weights = _weights(question, low, high, fair, unfair)
    return float(weights[failed].sum() / weights.sum())


def _proved(
    question: Question,
    low: NDArray[np.integer],
    high: NDArray[np.integer],
    fair: NDArray[np.uint32],
    unfair: NDArray[np.uint32],
    say: Progress,
) -> list[Proof]:
    proofs: list[Proof] = []
    if not len(low):
        return proofs
    prover = Prover(question)
    for at in range(0, len(low), BATCH):
        cut = slice(at, at + BATCH)
        proofs += prover.prove(low[cut].astype(np.int64), high[cut].astype(np.int64), fair[cut], unfair[cut])
        say("proving boxes again", len(proofs) / len(low))
    return proofs


def _described(
    question: Question, low: NDArray[np.integer], high: NDArray[np.integer], fair: int, unfair: int, proof: Proof
) -> Unconfirmed:
    where = {
        axis.attribute.name: axis.words(int(low[i]), int(high[i]))
        for i, axis in enumerate(question.axes)
        if low[i] > 0 or high[i] < axis.count - 1
    }
    return Unconfirmed(
        where=where,
        fair=fair / WHOLE,
        unfair=unfair / WHOLE,
        proved_fair=proof.fair,
        proved_unfair=proof.unfair,
    )
