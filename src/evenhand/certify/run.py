"""One certificate: bring the question to normal form, prove what can be proved, estimate the rest."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.certify import interval, linear
from evenhand.certify.boxes import FAIR, UNDECIDED, UNFAIR, Boxes, whole
from evenhand.certify.conclusion import Outcome, Sampling, conclude
from evenhand.certify.counterexamples import Finder
from evenhand.certify.exact import boxes_of, enumerate_domain, feasible
from evenhand.certify.interval import Limits, Stop
from evenhand.certify.problem import unsupported
from evenhand.certify.query import Query, query_of
from evenhand.certify.record import Recorder
from evenhand.certify.regions import regions_of
from evenhand.certify.result import Certificate, Region
from evenhand.certify.tally import Tally
from evenhand.errors import OptionError
from evenhand.models.additive import AdditiveNetwork, from_dense
from evenhand.population import ProductPopulation
from evenhand.schema import Schema

if TYPE_CHECKING:
    from evenhand.models.trees import TreeEnsemble

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of the work done, 0 to 1."""

DEFAULT_BOXES = 1_000_000
"""Where the linear method stops if nothing else says so: it would go on for ever."""
ESTIMATE_SHARE, ESTIMATE_SECONDS = 0.05, 0.5
"""What the estimate gets of the time limit, and of any time limit at most; the rest is for proving."""


@dataclass(frozen=True)
class Config:
    """Settings of a certificate.

    Attributes:
        method: ``linear``, linear bounds best first, boxes counted by half-spaces; or ``interval``, the older symbolic
            intervals, which also take models with more than two labels.
        time_limit: seconds for everything but the compilation that a first use begins with; None for no limit.
        max_boxes: boxes to analyse at most. Without any limit the linear method stops after ``DEFAULT_BOXES``.
        target_undecided: stop when no more than this share is undecided.
        seed: of all sampling.
        confidence: of the estimate's interval.
        samples: people drawn from what is undecided.
        counterexamples: how many to list at most.
        enumeration: ask about everybody where the domain is small enough, instead of proving boxes.
        jobs: threads, None for one per available processor. The result does not depend on it (with PyTorch, which
            shares out single operations, but for rounding).
        device: where linear bounds are computed as products of whole matrices: ``numpy``, ``torch`` (on the processor),
            ``cuda`` or ``cuda:1`` (needs the extra ``torch``). None: by compiled kernels, for wide networks by NumPy.
    """

    method: Literal["linear", "interval"] = "linear"
    time_limit: float | None = None
    max_boxes: int | None = None
    target_undecided: float | None = None
    seed: int = 0
    confidence: float = 0.99
    samples: int = 20_000
    counterexamples: int = 100
    enumeration: bool = True
    jobs: int | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        if self.method not in ("linear", "interval"):
            raise OptionError(f"there is no method {self.method!r}", mend="linear or interval")
        if self.time_limit is not None and not self.time_limit > 0:
            raise OptionError(f"the time limit must be positive, not {self.time_limit:g} seconds")
        if self.max_boxes is not None and self.max_boxes < 1:
            raise OptionError(f"at least one box must be analysed, not {self.max_boxes}")
        if self.target_undecided is not None and not 0 <= self.target_undecided <= 1:
            raise OptionError(f"the undecided share lies between 0 and 1, not {self.target_undecided:g}")
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, not {self.confidence:g}")
        if self.samples < 1 or self.counterexamples < 0:
            raise OptionError("at least one person must be sampled, and no fewer than 0 counterexamples listed")
        if self.jobs is not None and self.jobs < 1:
            raise OptionError(f"at least one thread is needed, not {self.jobs}")
        if self.device is not None and not re.fullmatch(r"numpy|torch|cuda(:\d+)?", self.device):
            raise OptionError(f"there is no device {self.device!r}", mend="numpy, torch, cuda or cuda:1")
        if self.device is not None and self.method == "interval":
            raise OptionError("symbolic intervals have no device to choose", mend="method linear, or leave device out")


def run(
    network: AdditiveNetwork | TreeEnsemble,
    *,
    protected: Sequence[str] | None = None,
    method: Literal["linear", "interval"] = "linear",
    population: ProductPopulation | None = None,
    where: Sequence[str] = (),
    threshold: float | None = None,
    relax: Mapping[str, float] | None = None,
    time_limit: float | None = None,
    max_boxes: int | None = None,
    target_undecided: float | None = None,
    seed: int = 0,
    confidence: float = 0.99,
    samples: int = 20_000,
    counterexamples: int = 100,
    enumeration: bool = True,
    jobs: int | None = None,
    device: str | None = None,
    certificate: Path | str | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """For which share of the population is the label provably the same under all values of what is protected?

    The answer is sound at any time, whatever stops the run: ``certified`` and ``falsified`` are lower bounds on the
    true shares (up to rounding, see ``slack``), and whatever was not decided counts as undecided. An interrupt
    (Ctrl-C) while proving ends the run with what was proved.

    Args:
        network: the model, a white box: an additive network, or trees, for which ``method`` means nothing.
        protected: attributes to vary together; by default those that the schema protects.
        population: what shares are measured by; by default uniform over the domain.
        where: conditions on the people asked about, such as ``"age >= 18"`` (see ``schema.subdomain``); all must hold,
            and all shares are then conditional on them.
        threshold: for models with two labels: the second one, for which a single logit speaks, is given if its
            probability is greater than this; by default a half.
        relax: by how much attributes that are not protected may differ between the people compared, such as
            ``{"age": 2}``: integers and ordinal values, by so many values. The label must then be the same for
            everybody within that distance too, inside the domain.
        certificate: file to write what is proved to, box by box, for ``evenhand.checker``.
        progress: called as work goes on.
        method, time_limit, max_boxes, target_undecided, seed, confidence, samples, counterexamples, enumeration, jobs,
            device: see ``Config``.

    Raises:
        OptionError: an option makes no sense, or the question cannot be asked of this schema.
        MissingExtraError: the device needs PyTorch, which is not installed.
        SchemaError: an unknown attribute.
        ModelError: the network's numbers are too large to bound their rounding.
    """
    config = Config(
        method=method,
        time_limit=time_limit,
        max_boxes=max_boxes,
        target_undecided=target_undecided,
        seed=seed,
        confidence=confidence,
        samples=samples,
        counterexamples=counterexamples,
        enumeration=enumeration,
        jobs=jobs,
        device=device,
    )
    say = progress or (lambda what, share: None)
    if not isinstance(network, AdditiveNetwork):
        if certificate is not None:
            raise OptionError("certificates of trees cannot be written to a file", where="--certificate",
                              mend="leave it out")  # fmt: skip
        asked_of = {"protected": protected, "population": population, "where": where, "threshold": threshold}
        return _run_trees(network, asked_of | {"relax": relax}, config, say)
    started, processor = time.perf_counter(), time.process_time()
    query = query_of(network, protected, population, where=where, threshold=threshold, relax=relax)
    name = " x ".join(query.protected)
    threads = config.jobs or processors()
    asked = not query.constant and (
        config.enumeration and (max_boxes is None or query.points <= max_boxes) and feasible(query, time_limit)
    )
    engine = None
    if config.method == "linear" and not asked and not query.constant and unsupported(query) is None:
        say("preparing (the first use on a machine compiles for up to half a minute)", 0.0)
        engine = _engine(query, config.device, threads)
    clock = time.perf_counter()
    tally, finder = Tally(query, clock), Finder(query, config.counterexamples)

    def proving(share: float) -> None:
        passed = 0.0 if time_limit is None else (time.perf_counter() - clock) / time_limit
        say(f"proving: {name}", min(1.0, max(share, passed)))

    regions: tuple[Region, ...] | None = None
    used = "enumeration" if asked else "interval" if engine is None and not query.constant else config.method
    undecided = whole(query)[:0]
    proved: NDArray[np.float64] | None = None
    stop: Stop = "done"
    recorder = None if certificate is None else Recorder(Path(certificate), query, used)
    with recorder or nullcontext():
        if query.constant:
            # All assignments add the same to the network: nothing can change with them.
            tally.boxes = 1
            tally.prove(whole(query), fair=True)
            tally.moment(last=True)
            if recorder is not None:
                recorder.take_boxes(whole(query), np.array([FAIR], dtype=np.int8))
        elif asked:
            undecided, regions, stop = _enumerate(query, tally, finder, recorder)
        else:
            deadline = _deadline(clock, time_limit)
            limits = Limits(deadline, max_boxes, target_undecided)
            if engine is not None:
                if time_limit is None and max_boxes is None and target_undecided is None:
                    limits = Limits(None, DEFAULT_BOXES, None)
                undecided, proved, stop = linear.refine(query, engine, tally, limits, say=proving, recorder=recorder)
            else:
                undecided, stop = interval.refine(
                    query, tally, finder, limits, jobs=threads, say=proving, recorder=recorder
                )
    return conclude(
        query,
        tally,
        finder,
        Outcome(undecided, proved, stop, used, regions),
        Sampling(config.samples, config.confidence, config.seed, time_limit),
        clock=clock,
        started=started,
        processor=processor,
        say=say,
    )


def _run_trees(ensemble: TreeEnsemble, asked: Mapping[str, Any], config: Config, say: Progress) -> Certificate:
    """The certificate of a model of trees.

    Args:
        ensemble: the model.
        asked: arguments of ``tree_query_of``.
        config: settings.
        say: called as work goes on.
    """
    from evenhand.certify.trees.question import tree_query_of
    from evenhand.certify.trees.run import by_enumeration, by_refinement
    from evenhand.certify.trees.run import feasible as few

    if config.device is not None:
        raise OptionError("models of trees are certified on the processor", mend="leave the device out")
    started, processor = time.perf_counter(), time.process_time()
    query = tree_query_of(ensemble, **asked)
    within = config.max_boxes is None or query.points <= config.max_boxes
    enumerated = config.enumeration and within and few(query, config.time_limit)
    proving = None
    if not query.constant and not enumerated:
        proving = by_refinement(query, config.jobs or processors(), say)
    clock = time.perf_counter()
    tally, finder = Tally(query, clock), Finder(query, config.counterexamples)
    if query.constant:
        tally.boxes = 1
        tally.prove(whole(query), fair=True)
        tally.moment(last=True)
        outcome = Outcome(whole(query)[:0], None, "done", "trees")
    elif proving is None:
        outcome = by_enumeration(query, tally, finder)
    else:
        unlimited = config.time_limit is None and config.max_boxes is None and config.target_undecided is None
        deadline = _deadline(clock, config.time_limit)
        limits = Limits(deadline, DEFAULT_BOXES if unlimited else config.max_boxes, config.target_undecided)
        name = " x ".join(query.protected)

        def step(share: float) -> None:
            passed = 0.0 if config.time_limit is None else (time.perf_counter() - clock) / config.time_limit
            say(f"proving: {name}", min(1.0, max(share, passed)))

        outcome = proving(tally, limits, step)
    return conclude(
        query,
        tally,
        finder,
        outcome,
        Sampling(config.samples, config.confidence, config.seed, config.time_limit),
        clock=clock,
        started=started,
        processor=processor,
        say=say,
    )


def _engine(query: Query, device: str | None, jobs: int) -> linear.Bounding:
    """Compiled kernels, or whole arrays where asked for or where the network is wide."""
    from evenhand.certify.arrays.engine import device_for, prepare

    place = device_for(query, device)
    return linear.prepare(query, jobs) if place is None else prepare(query, place, jobs)


def _deadline(clock: float, time_limit: float | None) -> float | None:
    """When proving has to end."""
    return None if time_limit is None else clock + time_limit - min(ESTIMATE_SHARE * time_limit, ESTIMATE_SECONDS)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warm_up(model: AdditiveNetwork | TreeEnsemble | None = None) -> None:
    """Compile the kernels, which the first use on a machine does; afterwards they come from a cache.

    Args:
        model: what will be certified; by default a network.
    """
    if model is not None and not isinstance(model, AdditiveNetwork):
        from evenhand.certify.trees.engine import prepare
        from evenhand.certify.trees.question import tree_query_of

        prepare(tree_query_of(model), 1)
        return
    schema = Schema.parse(
        {
            "target": {"name": "decision", "favourable": 1, "values": [0, 1]},
            "attributes": [
                {"name": "number", "kind": "integer", "lower": 0, "upper": 9},
                {"name": "flag", "kind": "categorical", "values": [0, 1], "protected": True},
            ],
        }
    )
    tiny = from_dense(schema, [(np.array([[1.0], [-1.0]]), np.zeros(1)), (np.ones((1, 1)), np.array([-0.5]))])
    linear.prepare(query_of(tiny), 1)


def _enumerate(
    query: Query, tally: Tally, finder: Finder, recorder: Recorder | None
) -> tuple[Boxes, tuple[Region, ...], Stop]:
    try:
        answer = enumerate_domain(query)
    except KeyboardInterrupt:
        if recorder is not None:
            recorder.take_boxes(whole(query), np.array([UNDECIDED], dtype=np.int8))
        return whole(query), (), "interrupt"
    if recorder is not None:
        recorder.take_points(answer.status)
    tally.boxes = query.points
    for status, fair in ((FAIR, True), (UNFAIR, False)):
        tally.prove(boxes_of(query, np.flatnonzero(answer.status == status), answer.mass), fair=fair)
    undecided = boxes_of(query, np.flatnonzero(answer.status == UNDECIDED), answer.mass)
    tally.leave_open(undecided)
    tally.moment(last=True)
    unfair = boxes_of(query, np.flatnonzero(answer.status == UNFAIR)[: 4 * finder.limit], answer.mass)
    if len(unfair):
        finder.unfair(np.stack([cells.entry(unfair.lo[:, i]) for i, cells in enumerate(query.cells)], axis=1))
    return undecided, regions_of(query, answer), "done"
