"""Certify people of a plausible population, each compared with their plausible counterparts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import joblib

from evenhand.certification.bounds.compiled.problem import unsupported_reason
from evenhand.certification.bounds.linear import refine_boxes
from evenhand.certification.bounds.scores import has_one_score
from evenhand.certification.certificate.conclusion import ProofOutcome, RunClock
from evenhand.certification.certificate.result import Certificate
from evenhand.certification.config import CertifyConfig
from evenhand.certification.proof_run import (
    DEFAULT_BOXES,
    Compilation,
    ProofRun,
    choose_bounder,
    may_enumerate,
)
from evenhand.certification.query.enumeration import can_enumerate
from evenhand.certification.query.orbits import orbit_question_of
from evenhand.core.time_limit import Clock
from evenhand.errors import OptionError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.population.mixture import MixturePopulation
from evenhand.stats.combined import Draws

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

AS_PUBLISHED = "ask as published, so that only the protected attributes change: `as_published=True`"


def certify_counterparts(
    network: AdditiveNetwork | TreeEnsemble,
    population: MixturePopulation,
    config: CertifyConfig,
    drawn: Draws,
    compilation: Compilation,
) -> Certificate:
    """Certify a network by plausible counterparts.

    Raises:
        OptionError: The model or the method does not support counterparts.
        LimitError: The kernels are not compiled, and may not be.
    """
    if not isinstance(network, AdditiveNetwork):
        raise OptionError("models of trees cannot be certified by plausible counterparts", hint=AS_PUBLISHED)
    started, processor = time.perf_counter(), time.process_time()
    question = orbit_question_of(
        network,
        config.protected,
        population,
        where=config.where,
        threshold=config.threshold,
        bands=config.bands,
    )
    limit = None if config.seconds is None else config.seconds / len(question.orbits)
    enumerated = not question.query.cells or (
        may_enumerate(question, config) and all(can_enumerate(orbit.query, limit) for orbit in question.orbits)
    )
    scored = not question.constant and not enumerated and config.method == "linear" and has_one_score(question.query)
    if not question.constant and not enumerated and not scored:
        reasons = [unsupported_reason(one.query) for one in question.orbits]
        reason = next((reason for reason in reasons if reason is not None), None)
        if config.method == "interval" or reason is not None:
            raise OptionError(
                f"plausible counterparts need linear bounds{'' if reason is None else f', and {reason}'}",
                hint=AS_PUBLISHED,
            )
        from evenhand.certification.bounds.orbits import OrbitBounder

        arrays = compilation.uses_arrays(question.query, config.arrays)
        threads = config.jobs or joblib.cpu_count()
        bounder = OrbitBounder(question, lambda query: choose_bounder(query, arrays, threads))
    run = ProofRun(question, config, RunClock(started, processor, time.perf_counter(), Clock()), compilation.say)
    if enumerated or question.constant:
        return run.conclude(run.prove_by_enumeration() if enumerated else run.prove_constant(config.method), drawn)
    if scored:
        return run.conclude(run.prove_by_scores(config.method), drawn)
    run.count_constant()
    undecided, proved, stop = refine_boxes(bounder, run.proved_mass, run.limits(DEFAULT_BOXES), say=run.report_progress)
    return run.conclude(ProofOutcome(undecided, proved, stop, config.method), drawn)
