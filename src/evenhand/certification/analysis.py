"""One certificate: bring the question to normal form, prove what can be proved, estimate the rest."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.certification.bounds.compiled.problem import unsupported_reason
from evenhand.certification.bounds.interval import search
from evenhand.certification.bounds.linear import LinearBounder, refine_boxes
from evenhand.certification.bounds.scores import has_one_score
from evenhand.certification.certificate.conclusion import ProofOutcome, RunClock
from evenhand.certification.certificate.record import CertificateWriter
from evenhand.certification.certificate.result import Certificate, OutcomeShare
from evenhand.certification.config import COMPILE_SHARE, CertifyConfig
from evenhand.certification.counterparts import AS_PUBLISHED, certify_counterparts
from evenhand.certification.proof_run import (
    DEFAULT_BOXES,
    Compilation,
    QueryRun,
    boxes_per_second,
    choose_bounder,
    count_processors,
    may_enumerate,
)
from evenhand.certification.query.boxes import FAIR, BoxSet, whole_domain
from evenhand.certification.query.differences import difference_query_of
from evenhand.certification.query.enumeration import can_enumerate, enumerate_domain
from evenhand.certification.query.question import Query, query_of
from evenhand.core.parallel import count_workers
from evenhand.core.time_limit import Clock, TimeLimit
from evenhand.core.typing import Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.population.independent import ProductPopulation
from evenhand.population.mixture import MixturePopulation, uniform_mixture
from evenhand.stats.combined import Draws

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

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
    """Prove for which share of the population the label is the same under all values of the protected attributes.

    The answer is sound at any time, whatever stops the run: ``certified`` and ``falsified`` are lower bounds on the
    true shares (up to rounding, see ``slack``), and whatever was not decided counts as undecided. An interrupt
    (Ctrl-C) while proving ends the run with what was proved.

    Args:
        network: the model, a white box: an additive network, or trees, for which ``method`` means nothing.
        config: what is asked, where to stop, and how to compute.
        population: what shares are measured by; by default uniform over the domain, and where the schema says who can
            exist, over those people. By a ``MixturePopulation`` everybody is compared with their plausible
            counterparts, by a ``ProductPopulation`` the protected attributes alone change.
        certificate: file to write what is proved to, box by box, for ``evenhand.checker``.
        drawn: of individuals drawn from this population before, how many are treated unfairly: they count in the
            estimate. By plausible counterparts, of those who have one.
        progress: called as work goes on.
        workers: number of worker processes for linear bounds and trees; -1 uses all processors, or all workers of the
            backend that ``joblib.parallel_config`` selects (Dask, Ray, Spark). The domain is then cut into parts, whose
            number depends on the question and the limits alone: without a time limit the result is the same for any
            number of workers, but not that of a run without ``workers``, which has one queue over the whole domain.
            Other proofs (enumeration, intervals, counterparts) run in this process.
        compile_limit: processor seconds that compiling kernels, on the first use on a machine, may take. Default: half
            the time limit, and infinity without one.
        settings: fields of ``CertifyConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: an option makes no sense, or the question cannot be asked of this schema.
        MissingExtraError: the device needs PyTorch, which is not installed.
        SchemaError: an unknown attribute.
        ModelError: the network's numbers are too large to bound their rounding.
        LimitError: the kernels are not compiled, and compiling them takes longer than ``compile_limit``.
    """
    config = CertifyConfig.of(config, settings)
    say = progress or ignore_progress
    if compile_limit is None:
        compile_limit = math.inf if config.time_limit is None else COMPILE_SHARE * config.time_limit
    compilation = Compilation(compile_limit, say)
    limit = TimeLimit.after(config.time_limit)
    if population is None and network.schema.constrains_people and not config.as_published:
        population = uniform_mixture(network.schema, config.protected)
    if workers is not None:
        count_workers(workers)
    if isinstance(population, MixturePopulation):
        _require_independent(config, certificate)
        with limit.enforced():
            found = certify_counterparts(network, population, config, drawn or Draws(), (say, compilation))
        return found.model_copy(update=_stated(found, network, compilation))
    if certificate is not None and config.tolerance is not None and not isinstance(network, AdditiveNetwork):
        raise OptionError(
            "a certificate file of trees holds labels or bands of a score, not changes of a number",
            location="`certificate=`",
            hint="leave it out, or the tolerance",
        )
    if certificate is not None and config.bands and not network.classes:
        raise OptionError(
            "a certificate file holds bands of a score, not of a number", location="`certificate=`", hint="leave it out"
        )
    counts = _outcome_counts(network, config)
    writer = None if certificate is None else CertificateWriter(Path(certificate), [2, *counts])
    clock, efforts = Clock(), [0.0]

    def prove(least: int) -> tuple[QueryRun, ProofOutcome]:
        # Each number of outcomes is a question of its own. Those that remain divide what earlier ones left over.
        questions = 3 + len(counts) - least
        share = _share_limits(config, questions, clock.now(), sum(efforts)) if counts else config
        if isinstance(network, AdditiveNetwork):
            proof = _prove_network(network, population, share, least, writer, (say, compilation), workers)
        else:
            proof = _prove_trees(network, population, share, least, writer, (say, compilation), workers)
        run = proof[0]
        efforts.append(run.proved_mass.boxes / boxes_per_second(run.question))
        return proof

    with writer or nullcontext(), limit.enforced():
        run, outcome = prove(2)
        found = run.conclude(outcome, drawn or Draws())
        shares = [OutcomeShare.of(2, found.certified, found.falsified)] if counts else []
        for least in counts:
            if found.stopped_by == "interrupt" and writer is None:
                shares.append(OutcomeShare.of(least, 0.0, 0.0))
                continue
            run, _ = prove(least)
            certified, falsified, _ = run.proved_mass.shares()
            shares.append(OutcomeShare.of(least, certified, falsified))
    return found.model_copy(update={"outcomes": tuple(shares), **_stated(found, network, compilation)})


def _share_limits(config: CertifyConfig, questions: int, seconds: float, effort: float) -> CertifyConfig:
    """Divide what is left of the time limit and of the effort evenly among the remaining questions.

    Args:
        config: Limits of all questions together.
        questions: Number of remaining questions.
        seconds: Time that earlier questions took.
        effort: Effort that earlier questions took.
    """
    limits = {
        name: max(limit - used, MIN_REST * limit) / questions
        for name, used in (("time_limit", seconds), ("effort", effort))
        if (limit := getattr(config, name)) is not None
    }
    return config.model_copy(update=limits)


def _stated(found: Certificate, network: AdditiveNetwork | TreeEnsemble, compilation: Compilation) -> dict[str, Any]:
    """Return fields of a certificate about the model and the provers that were left out."""
    left_out = tuple(compilation.left_out)
    return {"not_compiled": left_out, "caution": network.caution, "time_limited": found.time_limited or bool(left_out)}


def _require_independent(config: CertifyConfig, certificate: Path | str | None) -> None:
    """Refuse what cannot be asked about plausible counterparts.

    Raises:
        OptionError: something of the kind is asked.
    """
    if config.as_published:
        raise OptionError(
            "as published, a population of independent attributes is needed, not one by the rules",
            hint="measure by product_of_marginals, or leave as_published out",
        )
    if certificate is not None:
        raise OptionError(
            "certificates about plausible counterparts cannot be written to a file",
            location="`certificate=`",
            hint=f"leave it out, or {AS_PUBLISHED}",
        )
    if config.tolerance is not None or config.outcomes > 2:
        what = "changes of a number" if config.tolerance is not None else "more than two outcomes"
        raise OptionError(f"{what} cannot be proved for plausible counterparts yet", hint=AS_PUBLISHED)


def _outcome_counts(network: AdditiveNetwork | TreeEnsemble, config: CertifyConfig) -> range:
    """Return the numbers of different outcomes above two that are asked about, and that anybody could get."""
    labels = len(config.bands) + 1 if config.bands else len(network.classes)
    schema = network.schema
    names = schema.protected if config.protected is None else config.protected
    return range(3, 1 + min(config.outcomes, labels, len(schema.assignments(names))))


def _prove_network(
    network: AdditiveNetwork,
    population: ProductPopulation | None,
    config: CertifyConfig,
    least: int,
    recorder: CertificateWriter | None,
    how: tuple[Progress, Compilation],
    workers: int | None,
) -> tuple[QueryRun, ProofOutcome]:
    """Prove what can be proved about a network, where so many different labels treat somebody unfairly."""
    say, compilation = how
    started, processor = time.perf_counter(), time.process_time()
    query: Query
    if config.tolerance is not None:
        query = difference_query_of(network, config.tolerance, config.protected, population, where=config.where)
    else:
        query = query_of(
            network,
            config.protected,
            population,
            where=config.where,
            threshold=config.threshold,
            bands=config.bands,
            least=least,
        )
    narrow = config.tolerance is not None or least > 2
    threads = config.jobs or count_processors()
    # Without cells there is a single point, which every method would enumerate.
    enumerated = not query.constant and (
        not query.cells or (may_enumerate(query, config) and can_enumerate(query, config.seconds))
    )
    bounder: LinearBounder | None = None
    reason = unsupported_reason(query)
    scored = (
        not (enumerated or query.constant or recorder)
        and (config.method, config.device) == ("linear", None)
        and has_one_score(query)
    )
    if config.method == "linear" and not (enumerated or scored or query.constant) and reason is None:
        device = compilation.device_for(query, config.device)
        bounder = choose_bounder(query, device, threads)
    elif not (enumerated or scored or query.constant) and narrow:
        raise OptionError(f"this needs linear bounds, and {reason}", hint="protect fewer attributes at once")
    run = QueryRun(query, config, RunClock(started, processor, time.perf_counter(), Clock()), say)
    used = "enumeration" if enumerated else "interval" if not (bounder or scored or query.constant) else config.method
    if recorder is not None:
        recorder.begin(query, network, used)
    if query.constant:
        outcome = run.prove_constant(used)
        if recorder is not None:
            recorder.record_boxes(whole_domain(query), np.array([FAIR], dtype=np.int8))
    elif enumerated:
        outcome = run.prove_by_enumeration(lambda: enumerate_domain(query), recorder)
    elif scored:
        outcome = run.prove_by_score(used)
    elif bounder is not None:
        if workers is None:
            undecided, proved, stop = refine_boxes(
                bounder, run.proved_mass, run.limits(DEFAULT_BOXES), say=run.report_progress, recorder=recorder
            )
        else:
            from evenhand.certification.parts import refine_in_parts

            undecided, proved, stop = refine_in_parts(run, bounder, device=device, workers=workers, recorder=recorder)
        outcome = ProofOutcome(undecided, proved, stop, used)
    else:
        undecided, stop = search.refine_by_intervals(
            query,
            run.proved_mass,
            run.counterexamples,
            run.limits(None),
            jobs=threads,
            say=run.report_progress,
            recorder=recorder,
        )
        outcome = ProofOutcome(undecided, None, stop, used)
    if recorder is not None:
        recorder.end()
    return run, outcome


def _prove_trees(
    ensemble: TreeEnsemble,
    population: ProductPopulation | None,
    config: CertifyConfig,
    least: int,
    recorder: CertificateWriter | None,
    how: tuple[Progress, Compilation],
    workers: int | None,
) -> tuple[QueryRun, ProofOutcome]:
    """Prove what can be proved about a model of trees, where so many different labels treat somebody unfairly."""
    say, compilation = how
    from evenhand.certification.bounds.trees.differences import tree_difference_query_of
    from evenhand.certification.bounds.trees.question import (
        TreeQuery,
        can_enumerate_cells,
        enumerate_cells,
        tree_query_of,
    )

    if config.device is not None:
        raise OptionError("models of trees are certified on the processor", hint="leave the device out")
    started, processor = time.perf_counter(), time.process_time()
    query: TreeQuery
    undecided: BoxSet
    if config.tolerance is not None:
        query = tree_difference_query_of(ensemble, config.tolerance, config.protected, population, where=config.where)
    else:
        query = tree_query_of(
            ensemble,
            config.protected,
            population,
            where=config.where,
            threshold=config.threshold,
            bands=config.bands,
            least=least,
        )
    # That nothing changes at all is proved by which leaves are reached; sums of them are rounded.
    exact = config.tolerance == 0
    enumerated = not query.cells or (
        not exact and may_enumerate(query, config) and can_enumerate_cells(query, config.seconds)
    )
    if not query.constant and not enumerated:
        from evenhand.certification.bounds.trees.engine import compile_tree_engine, refine_trees

        compilation.require("trees")
        bounder = compile_tree_engine(query, config.jobs or count_processors())
    run = QueryRun(query, config, RunClock(started, processor, time.perf_counter(), Clock()), say)
    if recorder is not None:
        recorder.begin(query, ensemble, "enumeration" if enumerated and not query.constant else "trees")
    if query.constant:
        outcome = run.prove_constant("trees")
        if recorder is not None:
            recorder.record_boxes(whole_domain(query), np.array([FAIR], dtype=np.int8))
    elif enumerated:
        outcome = run.prove_by_enumeration(lambda: enumerate_cells(query), recorder, inhabited=True)
    else:
        if workers is None:
            undecided, proved, stop = refine_trees(
                bounder, run.proved_mass, run.limits(DEFAULT_BOXES), say=run.report_progress, recorder=recorder
            )
        else:
            from evenhand.certification.parts import refine_in_parts

            undecided, proved, stop = refine_in_parts(run, bounder, workers=workers, recorder=recorder)
        outcome = ProofOutcome(undecided, proved, stop, "trees")
    if recorder is not None:
        recorder.end()
    return run, outcome
