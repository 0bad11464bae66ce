"""Certify people of a plausible population, each compared with their plausible counterparts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from evenhand.certification.bounds.compiled.problem import unsupported_reason
from evenhand.certification.bounds.linear import refine_boxes
from evenhand.certification.bounds.scores import has_one_score, prove_scores
from evenhand.certification.certificate.conclusion import ProofOutcome, RunClock, everybody
from evenhand.certification.certificate.counterexamples import OrbitCounterexampleFinder
from evenhand.certification.certificate.result import Certificate
from evenhand.certification.config import CertifyConfig
from evenhand.certification.proof_run import (
    DEFAULT_BOXES,
    Compilation,
    ProofRun,
    choose_bounder,
    count_processors,
    may_enumerate,
)
from evenhand.certification.query.boxes import Boxes
from evenhand.certification.query.enumeration import boxes_of, can_enumerate, enumerate_domain, point_masses
from evenhand.certification.query.orbits import OrbitQuestion, orbit_question_of
from evenhand.certification.query.outcomes import FAIR, UNDECIDED, UNFAIR
from evenhand.certification.query.proved_mass import Stop
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.time_limit import Clock
from evenhand.core.typing import Progress
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
        threads = config.jobs or count_processors()
        bounder = OrbitBounder(question, lambda query: choose_bounder(query, arrays, threads))
    run = OrbitRun(question, config, RunClock(started, processor, time.perf_counter(), Clock()), compilation.say)
    if enumerated or question.constant:
        return run.conclude(run.prove_by_enumeration() if enumerated else run.prove_constant(config.method), drawn)
    if scored:
        return run.conclude(run.prove_by_scores(config.method), drawn)
    run.prove_constant_orbits()
    undecided, proved, stop = refine_boxes(bounder, run.proved_mass, run.limits(DEFAULT_BOXES), say=run.report_progress)
    return run.conclude(ProofOutcome(undecided, proved, stop, config.method), drawn)


class OrbitRun(ProofRun):
    """Run in which people are compared with their plausible counterparts.

    Args:
        question: Question about counterparts.
        config: Settings.
        clock: Start of the run.
        say: Callback for progress.
    """

    def __init__(self, question: OrbitQuestion, config: CertifyConfig, clock: RunClock, say: Progress) -> None:
        super().__init__(question, OrbitCounterexampleFinder(question, config.counterexamples), config, clock, say)
        self.orbit_question = question
        self.orbits = question.orbits

    def prove_constant_orbits(self) -> None:
        """Count orbits as certified whose joint values have equal terms in the model."""
        for number, orbit in enumerate(self.orbits, 1):
            if orbit.query.constant:
                self.proved_mass.add(number, orbit.mass, 0.0)
                self.proved_mass.boxes += 1

    def prove_constant(self, method: str) -> ProofOutcome:
        """Count all orbits as certified, because their joint values have equal terms."""
        self.prove_constant_orbits()
        self.proved_mass.moment(last=True)
        return ProofOutcome(everybody(self.question)[:0], None, "done", method)

    def prove_by_scores(self, method: str) -> ProofOutcome:
        """Prove all orbits from the distribution of the score, which takes less than a second."""
        self.prove_constant_orbits()
        with InterruptCounter() as interrupts:
            proved = prove_scores(self.orbit_question)
        everyone = everybody(self.question)
        unsettled = np.flatnonzero([not orbit.query.constant for orbit in self.orbits])
        for orbit in unsettled:
            fair, unfair = proved[orbit].tolist()
            open_mass = max(0.0, float(everyone.mass[orbit]) - fair - unfair)
            self.proved_mass.add(int(orbit) + 1, fair, unfair, rest=open_mass)
            self.proved_mass.boxes += 1
        self.proved_mass.moment(last=True)
        stop: Stop = "interrupt" if interrupts.count else "done"
        return ProofOutcome(everyone[unsettled], proved[unsettled], stop, method)

    def prove_by_enumeration(self) -> ProofOutcome:
        """Decide every point of every orbit. After an interrupt, the remaining orbits are undecided."""
        proved_mass, undecided = self.proved_mass, [everybody(self.question)[:0]]
        for number, orbit in enumerate(self.orbits, 1):
            try:
                status = enumerate_domain(orbit.query).status
            except KeyboardInterrupt:
                remaining = everybody(self.question)[np.arange(number - 1, len(self.orbits))]
                proved_mass.add_undecided(remaining)
                return ProofOutcome(Boxes.concatenate([*undecided, remaining]), None, "interrupt", "enumeration")
            masses = sum(w * point_masses(query) for w, query in zip(orbit.weights, orbit.classes, strict=True))
            points = boxes_of(orbit.query, np.arange(orbit.query.points), np.asarray(masses))
            points.region[:] = number
            proved_mass.prove(points[status == FAIR], fair=True)
            proved_mass.prove(points[status == UNFAIR], fair=False)
            proved_mass.add_undecided(points[status == UNDECIDED])
            undecided.append(points[status == UNDECIDED])
            proved_mass.boxes += len(points)
            examples = points[(status == UNFAIR) & (points.mass > 0)][: 4 * self.finder.limit]
            if len(examples):
                entries = orbit.query.entries(examples.lo)
                self.finder.unfair(np.column_stack([entries, np.full(len(examples), number - 1.0)]))
        proved_mass.moment(last=True)
        return ProofOutcome(Boxes.concatenate(undecided), None, "done", "enumeration")
