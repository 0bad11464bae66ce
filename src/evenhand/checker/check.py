"""Check a certificate: the file, the model, the partition, the totals, and the proofs of single boxes."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np

from evenhand.checker.network import recorded_question_of
from evenhand.checker.partition import count_cells, exact_products, is_partition
from evenhand.checker.question import AskedQuestion, RecordedDomain
from evenhand.checker.reading import (
    WHOLE,
    CertificateClaim,
    CertificateError,
    ClaimedBoxes,
    ClaimedPartition,
    read_certificate,
    reject_malformed,
)
from evenhand.checker.reprove import Prover
from evenhand.checker.result import SHARES, CertificateCheck, CheckedOutcome, UnconfirmedBox, Verdict, float_below
from evenhand.checker.verification import CheckState, verify_boxes
from evenhand.core.typing import Floats, Integers, Progress
from evenhand.errors import OptionError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.trees.ensemble import TreeEnsemble
from evenhand.schema.schema import Schema
from evenhand.stats.proportion import clopper_pearson, zero_count_upper

SAMPLE_BOXES = 1000
CONFIDENCE = 0.99
MAX_LISTED = 100

Loader = Callable[[Schema], AdditiveNetwork | TreeEnsemble]


def check_certificate(
    path: Path | str,
    model: AdditiveNetwork | TreeEnsemble | Loader,
    question: AskedQuestion | None = None,
    *,
    sample: int | Literal["fitting"] | None = "fitting",
    seed: int | None = None,
    state: Path | str | None = None,
    progress: Progress | None = None,
) -> CertificateCheck:
    """Check the claims of a certificate file about a model.

    The check shares no code with the prover. The file, the model, the question, the partition and the totals are always
    checked completely. Boxes are proved again, those of a network in float64 with outward rounding, those of trees in
    integers: all of them, or a random sample with replacement, in proportion to the mass that each claims as proved. An
    interrupt (Ctrl-C) ends the run early and keeps its proofs.

    Args:
        path: Certificate.
        model: Model of the certificate, or a function that loads it for the schema of the file.
        question: Question that the certificate should answer. If it answers a different question, the verdict is at
            best ``restricted``.
        sample: Number of boxes to draw. None checks all boxes; ``fitting`` checks all boxes if that is quick, otherwise
            1,000.
        seed: Random seed of the sample. Default: a seed from the operating system, so that the sample cannot be
            predicted. The result contains it.
        state: File of the confirmed boxes. An interrupted check resumes from it.
        progress: Callback that receives the current step and the fraction of completed work.

    Raises:
        OptionError: An option is invalid, or the state belongs to a different certificate.
        DataError: The file is not a certificate.
        EvenhandError: The model cannot be loaded.
    """
    if isinstance(sample, int) and sample < 1:
        raise OptionError(f"at least one box must be drawn, not {sample}", location="`sample=`")
    started = time.perf_counter()
    seed = secrets.randbits(53) if seed is None else seed
    say = progress or (lambda what, share: None)
    statement: CertificateClaim | None = None
    try:
        say("reading the certificate", 0.0)
        statement = read_certificate(Path(path))
        box = model if isinstance(model, AdditiveNetwork | TreeEnsemble) else model(statement.schema)
        recorded, provers = _rebuild_question(statement, box, question)
        say("comparing boxes with the domain", 0.0)
        parts = [_check_partition(recorded, part.boxes) for part in statement.partitions]
        totals = [
            _recompute_totals(recorded, part, boxes) for part, boxes in zip(statement.partitions, parts, strict=True)
        ]
    except CertificateError as fault:
        return CertificateCheck(
            verdict="rejected",
            fault=fault.message,
            boxes=0 if statement is None else sum(len(part.boxes.low) for part in statement.partitions),
            confidence=CONFIDENCE,
            seed=seed,
            seconds=time.perf_counter() - started,
        )
    if sample == "fitting":
        sample = None if all(prover.quick for prover in provers) else SAMPLE_BOXES
    # The boxes of all partitions are sampled together; the sample size is multiplied by the number of partitions.
    boxes = ClaimedBoxes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    owner = np.repeat(np.arange(len(parts)), [len(part.low) for part in parts])
    claimed = _claimed_masses(recorded, boxes)
    counts = _draw_sample(claimed, None if sample is None else sample * len(parts), seed)
    chosen = np.flatnonzero(counts)
    checked_boxes = CheckState.open(None if state is None else Path(state), statement.digest, len(boxes.low))
    failed, interrupted = verify_boxes(provers, boxes, owner, chosen, checked_boxes, say)
    failures = int(counts[list(failed)].sum())
    unconfirmed = [_describe_failure(recorded, boxes.of(np.intp(k)), failed[k]) for k in sorted(failed)[:MAX_LISTED]]
    checked = int(checked_boxes.done[chosen].sum()) + len(failed)
    draws = int(counts.sum())
    doubt = 0.0
    if sample is not None and draws and not interrupted:
        doubt = float(
            zero_count_upper(draws, CONFIDENCE) if not failures else clopper_pearson(failures, draws, CONFIDENCE)[1]
        )
    elif claimed.sum() > 0:
        doubt = float(claimed[~checked_boxes.done].sum() / claimed.sum())
    verdict: Verdict = "restricted" if recorded.restricted else "confirmed"
    if failures or interrupted:
        verdict = "not confirmed" if failures else "unfinished"
    shares = [[max(Fraction(0), share - recorded.distance) for share in both] for both in totals]
    (certified, falsified), header = shares[0], statement.header
    return CertificateCheck(
        verdict=verdict,
        model=box.name,
        protected=tuple(header.protected),
        population=recorded.population,
        restricted=recorded.restricted,
        outcomes=tuple(
            CheckedOutcome(least=part.least, proved=float_below(unfair), possible=-float_below(fair - 1))
            for part, (fair, unfair) in zip(statement.partitions, shares, strict=True)
            if len(shares) > 1
        ),
        **header.model_dump(include={"where", "threshold", "tolerance", "bands", "method"}),
        certified=float_below(certified),
        falsified=float_below(falsified),
        undecided=float(1 - certified - falsified),
        boxes=sum(len(part.boxes.low) for part in statement.partitions),
        checked=checked,
        exact=isinstance(box, TreeEnsemble),
        interrupted=interrupted,
        draws=None if sample is None else draws,
        unconfirmed=tuple(unconfirmed),
        failures=failures,
        doubt=doubt,
        confidence=CONFIDENCE,
        seed=seed,
        seconds=time.perf_counter() - started,
    )


@reject_malformed("the certificate")
def _rebuild_question(
    statement: CertificateClaim, model: AdditiveNetwork | TreeEnsemble, question: AskedQuestion | None
) -> tuple[RecordedDomain, list[Prover]]:
    """Rebuild the domain of the certificate, and build a prover for each of its questions."""
    if isinstance(model, AdditiveNetwork):
        recorded = recorded_question_of(statement, model, question)
        from evenhand.checker.floats.proofs import NetworkProver

        return recorded, [NetworkProver(recorded, part.least) for part in statement.partitions]
    from evenhand.checker.trees.proofs import TreeProver
    from evenhand.checker.trees.question import recorded_trees_of

    trees = recorded_trees_of(statement, model, question)
    return trees, [TreeProver(trees, part.least) for part in statement.partitions]


def _check_partition(question: RecordedDomain, boxes: ClaimedBoxes) -> ClaimedBoxes:
    """Select the boxes with mass, numbered by cells with mass, and check that they partition the domain."""
    if any(axis.kept is not None for axis in question.axes):
        low, high = boxes.low.astype(np.int64), boxes.high.astype(np.int64)
        for i, axis in enumerate(question.axes):
            low[:, i], high[:, i] = axis.renumber_cells(low[:, i], high[:, i])
        boxes = boxes._replace(low=low, high=high).of(np.asarray((low <= high).all(axis=1)))
    counts = [axis.count for axis in question.axes]
    domain, inside = math.prod(counts), count_cells(boxes.low, boxes.high, counts)
    if inside < domain:
        raise CertificateError(f"the boxes leave a gap: they hold {inside:,} of the {domain:,} cells of the domain")
    if not is_partition(boxes.low, boxes.high, counts):
        raise CertificateError("two of the boxes overlap")
    return boxes


def _axis_masses(question: RecordedDomain, boxes: ClaimedBoxes) -> Iterator[Integers]:
    """Yield the mass of each box along each axis."""
    for i, axis in enumerate(question.axes):
        yield axis.before(boxes.high[:, i].astype(np.int64) + 1) - axis.before(boxes.low[:, i].astype(np.int64))


def _recompute_totals(
    question: RecordedDomain, claimed: ClaimedPartition, boxes: ClaimedBoxes
) -> tuple[Fraction, Fraction]:
    """Compute the certified and falsified shares from the boxes."""
    masses = exact_products(_axis_masses(question, boxes), len(boxes.low), question.total)
    certified = int((masses * boxes.fair.astype(object)).sum())
    falsified = int((masses * boxes.unfair.astype(object)).sum())
    of = question.total * WHOLE
    if (certified, falsified, of) != (claimed.certified, claimed.falsified, claimed.of):
        raise CertificateError(
            f"the totals do not match the boxes, which give {certified / of:.6%} certified and "
            f"{falsified / of:.6%} falsified"
        )
    return Fraction(certified, of), Fraction(falsified, of)


def _claimed_masses(question: RecordedDomain, boxes: ClaimedBoxes) -> Floats:
    """Compute the approximate mass that each box claims as proved."""
    weights = (boxes.fair.astype(np.float64) + boxes.unfair) / WHOLE
    for axis, inside in zip(question.axes, _axis_masses(question, boxes), strict=True):
        weights *= inside / axis.total
    return weights


def _draw_sample(claimed: Floats, sample: int | None, seed: int) -> Integers:
    """Draw boxes in proportion to their claimed mass, and count the draws of each; None draws every box once."""
    if sample is None:
        return np.ones(len(claimed), dtype=np.int64)
    running = np.cumsum(claimed)
    if running[-1] <= 0:
        return np.zeros(len(claimed), dtype=np.int64)
    tickets = np.random.default_rng(seed).random(sample) * running[-1]
    draws = np.minimum(np.searchsorted(running, tickets, side="right"), len(claimed) - 1)
    return np.bincount(draws, minlength=len(claimed)).astype(np.int64)


def _describe_failure(question: RecordedDomain, box: ClaimedBoxes, proved: tuple[float, float]) -> UnconfirmedBox:
    low, high = box.low, box.high
    where = {
        axis.attribute.name: axis.words(int(low[i]), int(high[i]))
        for i, axis in enumerate(question.axes)
        if low[i] > 0 or high[i] < axis.count - 1
    }
    shares = int(box.fair) / WHOLE, int(box.unfair) / WHOLE, *proved
    return UnconfirmedBox(where=where, **dict(zip(SHARES, shares, strict=True)))
