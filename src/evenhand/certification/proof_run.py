"""Run a proof: limits, clock, compilation of kernels, and the resulting certificate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.scores import prove_scores
from evenhand.certification.certificate.breakdown import SamplingPlan, subregions_of
from evenhand.certification.certificate.conclusion import ProofOutcome, RunClock, all_people, build_certificate
from evenhand.certification.certificate.counterexamples import CounterexampleFinder
from evenhand.certification.certificate.record import CertificateWriter
from evenhand.certification.certificate.result import Certificate, Subregion
from evenhand.certification.config import COMPILE_SHARE, CertifyConfig
from evenhand.certification.query.boxes import Boxes
from evenhand.certification.query.enumeration import boxes_of, enumerate_domain
from evenhand.certification.query.orbits import Orbit, OrbitQuestion
from evenhand.certification.query.outcomes import FAIR, UNDECIDED, UNFAIR
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits
from evenhand.certification.query.question import Query, Question
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Progress
from evenhand.errors import LimitError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.stats.combined import Draws

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

DEFAULT_BOXES = 1_000_000
"""Maximum number of boxes of the linear method without any other limit."""
COMPILING = "compiling the prover, once on this machine (up to 30 seconds of processor time)"
Prover: TypeAlias = Literal["linear", "trees"]
"""Kernels that are compiled together."""
COMPILE_SECONDS: dict[Prover, float] = {"linear": 25, "trees": 20}
"""Approximate processor seconds to compile a prover."""
MIN_BOXES = 64
"""Minimum number of boxes for any effort."""
ESTIMATE_SHARE, ESTIMATE_SECONDS = 0.05, 0.5
"""Share of the time limit for the estimate, and its maximum in seconds. The rest is for proving."""


BOX_SECONDS, BOX_OVERHEAD = 6e-9, 2000
"""Approximate time for bounding and proving a box per assignment and weight, and the fixed work in weights."""


def boxes_per_second(question: Question | OrbitQuestion) -> float:
    """Estimate the number of boxes that a core bounds and proves per second.

    The estimate depends only on the question, so work limits are the same on every machine.
    """
    classes, query = max((len(orbit.classes) for orbit in question.orbits), default=1), question.query
    work = classes * len(query.assignments) * (BOX_OVERHEAD + query.model_size)
    return 1.0 / (BOX_SECONDS * work)


def may_enumerate(question: Question | OrbitQuestion, config: CertifyConfig) -> bool:
    """Check whether enumeration is allowed and does not exceed the maximum number of boxes."""
    return config.enumeration and (config.max_boxes is None or question.points <= config.max_boxes)


class ProofRun:
    """Proof of one question: proved mass, counterexamples, limits and clock.

    Args:
        question: Question.
        config: Settings.
        clock: Start of the run.
        say: Callback for progress.
    """

    def __init__(
        self, question: Question | OrbitQuestion, config: CertifyConfig, clock: RunClock, say: Progress
    ) -> None:
        self.question = question
        self.finder = CounterexampleFinder(question, config.counterexamples)
        self.config = config
        self.clock = clock
        self.say = say
        self.proved_mass = ProvedMass(question, clock.proving)

    def limits(self, unlimited_boxes: int | None) -> SearchLimits:
        """Return the limits of the run; without any time limit, work limit or target, ``unlimited_boxes``."""
        config, rate = self.config, boxes_per_second(self.question)
        boxes = config.max_boxes
        if config.effort is not None:
            affordable = max(MIN_BOXES, round(config.effort * rate))
            boxes = affordable if boxes is None else min(boxes, affordable)
        if config.time_limit is None and boxes is None and config.target_undecided is None:
            boxes = unlimited_boxes
        return SearchLimits(
            self._deadline(), boxes, config.target_undecided, config.min_progress, rate, self.clock.timer
        )

    def _deadline(self) -> float | None:
        """Compute the time at which proving ends. The remaining time is used for the estimate."""
        limit = self.config.time_limit
        return None if limit is None else limit - min(ESTIMATE_SHARE * limit, ESTIMATE_SECONDS)

    def report_progress(self, share: float) -> None:
        """Report the fraction of completed work, or of elapsed time if that is larger."""
        limit = self.config.time_limit
        passed = 0.0 if limit is None else (time.perf_counter() - self.clock.proving) / limit
        self.say(f"proving: {' x '.join(self.question.protected)}", min(1.0, max(share, passed)))

    def conclude(self, outcome: ProofOutcome, drawn: Draws) -> Certificate:
        """Estimate the undecided mass, using earlier draws if available, and build the certificate."""
        config, timer = self.config, self.clock.timer
        deadline = config.time_limit
        if outcome.stop == "interrupt":  # at least one batch is always drawn
            now = timer.now()
            deadline = now if deadline is None else min(deadline, now)
        sampling = SamplingPlan(config.samples, config.confidence, config.seed, deadline, timer, drawn)
        with InterruptCounter() as interrupts:
            certificate = build_certificate(
                self.question, self.proved_mass, self.finder, outcome, sampling, self.clock, self.say
            )
        return certificate.model_copy(update={"stopped_by": "interrupt"}) if interrupts.count else certificate

    def count_constant(self) -> NDArray[np.intp]:
        """Count orbits, or the population, as certified if the compared values have equal terms in the model.

        Returns:
            Indices of the other orbits; index 0 for the population.
        """
        everyone = all_people(self.question)
        constant = np.array([part.query.constant for part in self.question.orbits or (self.question.query,)])
        for at in np.flatnonzero(constant):
            self.proved_mass.add(int(everyone.region[at]), float(everyone.mass[at]), 0.0)
            self.proved_mass.boxes += 1
        return np.flatnonzero(~constant)

    def prove_constant(self, method: str, recorder: CertificateWriter | None = None) -> ProofOutcome:
        """Count everyone as certified, because all compared values have the same effect on the model."""
        everyone = all_people(self.question)
        self.count_constant()
        self.proved_mass.moment(last=True)
        if recorder is not None:
            recorder.record_boxes(everyone, np.array([FAIR], dtype=np.int8))
        return ProofOutcome(everyone[:0], None, "done", method)

    def prove_by_scores(self, method: str) -> ProofOutcome:
        """Prove all shares from the distribution of the score, which takes less than a second."""
        question, proved_mass = self.question, self.proved_mass
        assert isinstance(question, Query | OrbitQuestion)
        open_parts = self.count_constant()
        everyone = all_people(question)[open_parts]
        everyone = proved_mass.assign_regions(everyone, np.ones(len(everyone), dtype=np.bool_))
        with InterruptCounter() as interrupts:
            proved = prove_scores(question)[open_parts]
        for region, mass, (fair, unfair) in zip(everyone.region, everyone.mass, proved.tolist(), strict=True):
            proved_mass.add(int(region), fair, unfair, rest=max(0.0, float(mass) - fair - unfair))
            proved_mass.boxes += 1
        proved_mass.moment(last=True)
        return ProofOutcome(everyone, proved, "interrupt" if interrupts.count else "done", method)

    def prove_by_enumeration(self, recorder: CertificateWriter | None = None) -> ProofOutcome:
        """Decide every point, orbit by orbit. After an interrupt, the remaining orbits are undecided."""
        proved_mass, orbits, everyone = self.proved_mass, self.question.orbits, all_people(self.question)
        undecided = [everyone[:0]]
        regions: tuple[Subregion, ...] | None = None if orbits else ()
        parts: Sequence[Orbit | Question] = orbits or (self.question.query,)
        for at, part in enumerate(parts):
            query = part.query
            try:
                status = enumerate_domain(query)
            except KeyboardInterrupt:
                if recorder is not None:
                    recorder.record_boxes(everyone[at:], np.array([UNDECIDED], dtype=np.int8))
                proved_mass.add_undecided(everyone[at:])
                return ProofOutcome(
                    Boxes.concatenate([*undecided, everyone[at:]]), None, "interrupt", "enumeration", regions
                )
            if recorder is not None:
                recorder.record_points(status)
            mass = part.point_masses()
            fair, unfair, unsure = (
                boxes_of(query, np.flatnonzero(status == outcome), mass, int(everyone.region[at]))
                for outcome in (FAIR, UNFAIR, UNDECIDED)
            )
            proved_mass.boxes += query.points
            proved_mass.prove(fair, fair=True)
            proved_mass.prove(unfair, fair=False)
            proved_mass.add_undecided(unsure)
            undecided.append(unsure)
            # Individuals without mass may be invalid inputs of trees, or have no counterpart.
            if orbits or not isinstance(query, Query):
                unfair = unfair[unfair.mass > 0]
            if len(unfair):
                entries = query.entries(unfair[: 4 * self.finder.limit].lo)
                self.finder.unfair(np.column_stack([entries, np.full(len(entries), float(at))]) if orbits else entries)
            regions = regions if orbits else subregions_of(query, status, mass)
        proved_mass.moment(last=True)
        return ProofOutcome(Boxes.concatenate(undecided), None, "done", "enumeration", regions)


def prepare_kernels(prover: Prover, limit: float, say: Progress) -> None:
    """Announce that the kernels of a prover are loaded, or compiled.

    Args:
        prover: Prover.
        limit: Maximum processor seconds for compiling.
        say: Callback for progress.

    Raises:
        LimitError: The kernels are not compiled, and the limit is too short to compile them.
    """
    compiled, seconds = _has_kernels(prover), COMPILE_SECONDS[prover]
    if not compiled and seconds > limit:
        raise LimitError(
            f"the prover is not compiled on this machine, and compiling it, about {seconds:g} s of processor time, "
            "exceeds the time limit",
            hint=f"run once without a time limit, or with one of {seconds / COMPILE_SHARE:g} s or more",
        )
    say("preparing" if compiled else COMPILING, 0.0)


def _has_kernels(prover: Prover) -> bool:
    """Check whether the kernels of a prover are compiled, in this process or in the cache on disk."""
    from evenhand.core import kernels  # imports numba

    if prover == "trees":
        from evenhand.certification.bounds.trees import search

        return kernels.is_compiled(search.refine_tree_boxes)
    from evenhand.certification.bounds.compiled import expansion

    return kernels.is_compiled(expansion.run_order)


def is_compiled(model: AdditiveNetwork | TreeEnsemble | None = None) -> bool:
    """Check whether the kernels are compiled, in this process or in the cache on disk.

    Args:
        model: Model to certify. Default: a network.
    """
    return _has_kernels("linear" if model is None or isinstance(model, AdditiveNetwork) else "trees")
