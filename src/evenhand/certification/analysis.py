"""Certify a model: normalise the question, prove shares, and estimate the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib

from evenhand.certification.bounds.interval import search
from evenhand.certification.bounds.linear import LinearBounder, refine_boxes
from evenhand.certification.bounds.scores import has_one_score
from evenhand.certification.certificate.conclusion import ProofOutcome, RunClock
from evenhand.certification.certificate.record import CertificateWriter
from evenhand.certification.certificate.result import Certificate, OutcomeShare
from evenhand.certification.config import COMPILE_SHARE, CertifyConfig
from evenhand.certification.proof_run import (
    DEFAULT_BOXES,
    ProofRun,
    Prover,
    boxes_per_second,
    may_enumerate,
    prepare_kernels,
)
from evenhand.certification.query.boxes import BoxSet
from evenhand.certification.query.differences import difference_query_of
from evenhand.certification.query.enumeration import can_enumerate
from evenhand.certification.query.orbits import OrbitQuestion, orbit_question_of
from evenhand.certification.query.proved_mass import Stop
from evenhand.certification.query.question import Query, Question, query_of
from evenhand.core.parallel import count_workers
from evenhand.core.time_limit import Clock, TimeLimit
from evenhand.core.typing import Floats, Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.population.independent import ProductPopulation
from evenhand.population.mixture import MixturePopulation, uniform_mixture
from evenhand.stats.combined import Draws

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

AS_PUBLISHED = "ask as published, so that only the protected attributes change: `as_published=True`"
MIN_REST = 0.01
"""Share of a limit that remains for later questions even if earlier ones used up all of it."""


def certify(
    network: AdditiveNetwork | TreeEnsemble,
    config: CertifyConfig | None = None,
    *,
    population: ProductPopulation | MixturePopulation | None = None,
    certificate: Path | str | None = None,
    drawn: Draws | None = None,
    progress: Progress | None = None,
    workers: int | None = None,
    compile_limit: float | None = None,
    **settings: Any,
) -> Certificate:
    """Prove the share of the population whose label is the same under all values of the protected attributes.

    The shares ``certified`` and ``falsified`` are lower bounds on the true shares, whenever the run stops (up to
    rounding, see ``slack``). The rest is undecided. An interrupt (Ctrl-C) ends the run early and keeps its proofs.

    Args:
        network: White-box model: an additive network, or trees, for which ``method`` has no effect.
        config: Question, limits and computation.
        population: Population that weighs the people. Default: uniform over the domain, or over the people who satisfy
            the rules of the schema. A ``MixturePopulation`` compares people with their plausible counterparts, a
            ``ProductPopulation`` changes only the protected attributes.
        certificate: File for the proofs of all boxes, which ``evenhand.checker`` checks.
        drawn: Earlier draws from this population with the model's answers, which are included in the estimate. For
            plausible counterparts, draws from the people with a counterpart.
        progress: Callback that receives the current step and the fraction of completed work.
        workers: Number of worker processes for linear bounds and trees; -1 uses all processors, or all workers of the
            backend that ``joblib.parallel_config`` selects (Dask, Ray, Spark). The domain is then divided into parts,
            whose number depends only on the question and the limits: without a time limit the result is the same for
            any number of workers, but differs from that of a run without ``workers``, which has one queue over the
            whole domain. Other proofs (enumeration, intervals, counterparts) run in this process.
        compile_limit: Maximum processor seconds for compiling kernels, on the first use on a machine. Default: half the
            time limit, or infinity without one.
        settings: Fields of ``CertifyConfig`` that replace those of ``config``.

    Raises:
        OptionError: An option is invalid or inconsistent with the schema.
        SchemaError: An attribute is unknown.
        ModelError: The numbers in the network are too large to bound their rounding errors.
        LimitError: The kernels are not compiled, and compiling them takes longer than ``compile_limit``.
    """
    config = CertifyConfig.of(config, settings)
    say = progress or ignore_progress
    if compile_limit is None:
        compile_limit = math.inf if config.time_limit is None else COMPILE_SHARE * config.time_limit
    prepare = partial(prepare_kernels, limit=compile_limit, say=say)
    limit = TimeLimit(config.time_limit)
    if population is None and network.schema.constrains_people and not config.as_published:
        population = uniform_mixture(network.schema, config.protected)
    if workers is not None:
        count_workers(workers)
    if isinstance(population, MixturePopulation):
        _require_independent(config, certificate)
    if certificate is not None and config.tolerance is not None and not isinstance(network, AdditiveNetwork):
        raise OptionError(
            "a certificate file of trees holds labels or bands of a score, not changes of a number",
            location="`certificate=`",
            hint="omit either the file or the tolerance",
        )
    if certificate is not None and config.bands and not network.classes:
        raise OptionError(
            "a certificate file holds bands of a score, not of a number", location="`certificate=`", hint="leave it out"
        )
    counts = _outcome_counts(network, config)
    writer = None if certificate is None else CertificateWriter(Path(certificate), [2, *counts])
    clock, efforts = Clock(), [0.0]

    def prove(least: int) -> tuple[ProofRun, ProofOutcome]:
        # Each number of outcomes is a separate question. The remaining questions share what is left of the limits.
        questions = 3 + len(counts) - least
        share = _share_limits(config, questions, clock.now(), sum(efforts)) if counts else config
        proof = _prove(network, population, share, least, writer, say, prepare, workers)
        run = proof[0]
        efforts.append(run.proved_mass.boxes / boxes_per_second(run.question))
        return proof

    with writer or nullcontext(), limit.enforced():
        run, outcome = prove(2)
        result = run.conclude(outcome, drawn or Draws())
        shares = [OutcomeShare.of(2, result.certified, result.falsified)] if counts else []
        for least in counts:
            if result.stopped_by == "interrupt" and writer is None:
                shares.append(OutcomeShare.of(least, 0.0, 0.0))
                continue
            run, _ = prove(least)
            certified, falsified, _ = run.proved_mass.shares()
            shares.append(OutcomeShare.of(least, certified, falsified))
    return result.model_copy(update={"outcomes": tuple(shares), "caution": network.caution})


def _share_limits(config: CertifyConfig, questions: int, seconds: float, effort: float) -> CertifyConfig:
    """Divide the remaining time and effort evenly among the remaining questions.

    Args:
        config: Limits of all questions together.
        questions: Number of remaining questions.
        seconds: Time spent on earlier questions.
        effort: Effort spent on earlier questions.
    """
    limits = {
        name: max(limit - used, MIN_REST * limit) / questions
        for name, used in (("time_limit", seconds), ("effort", effort))
        if (limit := getattr(config, name)) is not None
    }
    return config.model_copy(update=limits)


def _require_independent(config: CertifyConfig, certificate: Path | str | None) -> None:
    """Check that the options are supported for plausible counterparts."""
    if config.as_published:
        raise OptionError(
            "as_published requires a population of independent attributes, which ignores the rules",
            hint="use the population product_of_marginals, or omit as_published",
        )
    if certificate is not None:
        raise OptionError(
            "certificates about plausible counterparts cannot be written to a file",
            location="`certificate=`",
            hint=f"leave it out, or {AS_PUBLISHED}",
        )
    if config.tolerance is not None or config.outcomes > 2:
        subject = "changes of a number" if config.tolerance is not None else "more than two outcomes"
        raise OptionError(f"{subject} cannot be proved for plausible counterparts yet", hint=AS_PUBLISHED)


def _outcome_counts(network: AdditiveNetwork | TreeEnsemble, config: CertifyConfig) -> range:
    """List the requested numbers of different outcomes above two, up to the possible maximum."""
    labels = len(config.bands) + 1 if config.bands else len(network.classes)
    schema = network.schema
    names = schema.protected if config.protected is None else config.protected
    return range(3, 1 + min(config.outcomes, labels, len(schema.assignments(names))))


def _prove(
    model: AdditiveNetwork | TreeEnsemble,
    population: ProductPopulation | MixturePopulation | None,
    config: CertifyConfig,
    least: int,
    recorder: CertificateWriter | None,
    say: Progress,
    prepare: Callable[[Prover], None],
    workers: int | None,
) -> tuple[ProofRun, ProofOutcome]:
    """Prove the shares of one question, in which ``least`` different outcomes count as unfair treatment."""
    started, processor, clock = time.perf_counter(), time.process_time(), Clock()
    question = _question_of(model, population, config, least)
    method, prove = _choose_proof(question, config, prepare, recorder, workers)
    run = ProofRun(question, config, RunClock(started, processor, time.perf_counter(), clock), say)
    if recorder is not None:
        recorder.begin(question.query, model, method)
    outcome = prove(run)
    if recorder is not None:
        recorder.end()
    return run, outcome


def _question_of(
    model: AdditiveNetwork | TreeEnsemble,
    population: ProductPopulation | MixturePopulation | None,
    config: CertifyConfig,
    least: int,
) -> Question | OrbitQuestion:
    """Normalise the question."""
    if isinstance(population, MixturePopulation):
        return orbit_question_of(
            model,
            config.protected,
            population,
            where=config.where,
            threshold=config.threshold,
            bands=config.bands,
        )
    labels = {"threshold": config.threshold, "bands": config.bands, "least": least}
    if isinstance(model, AdditiveNetwork):
        if config.tolerance is not None:
            return difference_query_of(model, config.tolerance, config.protected, population, where=config.where)
        return query_of(model, config.protected, population, where=config.where, **labels)  # type: ignore[arg-type]
    from evenhand.certification.bounds.trees.question import tree_query_of

    return tree_query_of(
        model,
        config.protected,
        population,
        where=config.where,
        limit=config.tolerance,
        **labels,
    )


def _choose_proof(
    question: Question | OrbitQuestion,
    config: CertifyConfig,
    prepare: Callable[[Prover], None],
    recorder: CertificateWriter | None,
    workers: int | None,
) -> tuple[str, Callable[[ProofRun], ProofOutcome]]:
    """Select the proof method and compile its kernels.

    Returns:
        The name of the method and the function that runs the proof.
    """
    query, orbits = question.query, question.orbits
    parts: list[Question] = [orbit.query for orbit in orbits] or [query]
    method: str = config.method if isinstance(query, Query) else "trees"
    if question.constant:
        return method, lambda run: run.prove_constant(method, recorder)
    seconds = None if config.seconds is None else config.seconds / len(parts)
    if not query.cells or (may_enumerate(question, config) and all(can_enumerate(part, seconds) for part in parts)):
        return "enumeration", lambda run: run.prove_by_enumeration(recorder)
    threads = config.jobs or joblib.cpu_count()
    if not isinstance(query, Query):
        from evenhand.certification.bounds.trees.engine import compile_tree_engine, refine_trees

        prepare("trees")
        engine = compile_tree_engine(question, threads, recording=recorder is not None)  # type: ignore[arg-type]
        workers = None if orbits else workers
        return method, lambda run: _refine(run, engine, refine_trees, method, recorder, workers)
    if recorder is None and method == "linear" and has_one_score(query):
        return method, lambda run: run.prove_by_scores(method)
    from evenhand.certification.bounds.compiled.problem import unsupported_reason  # imports numba

    reason = next(filter(None, map(unsupported_reason, parts)), None)  # type: ignore[arg-type]
    if method == "linear" and reason is None:
        from evenhand.certification.bounds.compiled.engine import compile_bounder

        prepare("linear")
        bounder: LinearBounder
        if isinstance(question, OrbitQuestion):
            from evenhand.certification.bounds.orbits import OrbitBounder

            bounder, workers = OrbitBounder(question, threads), None
        else:
            bounder = compile_bounder(query, threads)
        return method, lambda run: _refine(run, bounder, refine_boxes, method, recorder, workers)
    if config.tolerance is not None or query.least > 2 or orbits:
        raise OptionError(
            f"this needs linear bounds{'' if reason is None else f', and {reason}'}",
            hint=AS_PUBLISHED if orbits else "protect fewer attributes at once",
        )

    def prove_by_intervals(run: ProofRun) -> ProofOutcome:
        undecided, stop = search.refine_by_intervals(
            query,
            run.proved_mass,
            run.finder,
            run.limits(None),
            jobs=threads,
            say=run.report_progress,
            recorder=recorder,
        )
        return ProofOutcome(undecided, None, stop, "interval")

    return "interval", prove_by_intervals


def _refine(
    run: ProofRun,
    bounder: Any,
    refine: Callable[..., tuple[BoxSet, Floats, Stop]],
    method: str,
    recorder: CertificateWriter | None,
    workers: int | None,
) -> ProofOutcome:
    """Refine boxes in this process, or in parts on workers."""
    run.count_constant()
    if workers is None:
        limits = run.limits(DEFAULT_BOXES)
        return ProofOutcome(
            *refine(bounder, run.proved_mass, limits, say=run.report_progress, recorder=recorder), method
        )
    from evenhand.certification.parts import refine_in_parts

    return ProofOutcome(*refine_in_parts(run, bounder, workers=workers, recorder=recorder), method)
