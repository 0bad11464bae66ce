"""Certification in parts: the domain is cut into disjoint parts, which worker processes refine and prove.

The first boxes are split in this process. They are assigned to parts by undecided mass, so that all parts are about
equally hard, and each part gets an equal share of the limits. The number of parts depends only on the question
and the limits, so without a time limit the result is the same for any number of workers.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from evenhand.certification.bounds.frontier import BoxFrontier
from evenhand.certification.bounds.linear import LinearBounder, refine_boxes, split_boxes
from evenhand.certification.bounds.trees.engine import TreeEngine, TreeFrontier, compile_tree_engine, refine_trees
from evenhand.certification.bounds.trees.engine import split_boxes as split_tree_boxes
from evenhand.certification.bounds.trees.question import TreeQuery
from evenhand.certification.proof_run import DEFAULT_BOXES, ProofRun
from evenhand.certification.query.boxes import BoxSet
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits, Stop
from evenhand.certification.query.question import Query, Question
from evenhand.certification.refinement import BoxRecorder
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.parallel import count_workers, run_parts
from evenhand.core.time_limit import Clock
from evenhand.core.typing import Floats

PART_SECONDS = 2.0
"""Approximate seconds of work of a part, by ``SearchLimits.boxes_per_second``."""
MAX_PARTS = 256
"""Maximum number of parts."""
BOXES_DEALT = 256
"""Number of boxes bounded for each part before the boxes are assigned to parts."""
SPLITTING_SHARE = 0.1
"""Share of the maximum number of boxes that may be bounded before the boxes are assigned to parts."""
STOPS: tuple[Stop, ...] = ("interrupt", "time", "boxes", "progress", "target", "depth", "done")
"""Stopping reasons in order of precedence, for parts that stop for different reasons."""

Frontier: TypeAlias = BoxFrontier | TreeFrontier


@dataclass(frozen=True)
class Part:
    """Part of the domain for a worker.

    Attributes:
        query: Question.
        boxes: Boxes of the part.
        proved_mass: Empty account of the part.
        limits: Limits of the part.
        recording: Whether final boxes are recorded.
        ends: Time at which all parts must have ended, by ``time.time``. None without a time limit.
        rounds: Number of parts, including this one, that the worker must compute by then.
    """

    query: Question
    boxes: Frontier
    proved_mass: ProvedMass
    limits: SearchLimits
    recording: bool
    ends: float | None
    rounds: int


@dataclass(frozen=True)
class PartResult:
    """Result of refining a part.

    Attributes:
        proved_mass: Account of the part.
        undecided: Boxes that are not decided as a whole.
        shares: Mass proved fair and unfair in each of them, shape (boxes, 2).
        stop: Why refinement ended.
        records: Final boxes, as arguments of ``BoxRecorder.take``.
    """

    proved_mass: ProvedMass
    undecided: BoxSet
    shares: Floats
    stop: Stop
    records: list[tuple[NDArray[Any], ...]]


class RecordedBoxes:
    """Keep final boxes in memory until the main process writes the certificate."""

    def __init__(self) -> None:
        self.records: list[tuple[NDArray[Any], ...]] = []

    def take(
        self,
        low: NDArray[np.integer],
        high: NDArray[np.integer],
        fair: NDArray[np.generic],
        unfair: NDArray[np.generic],
    ) -> None:
        """Keep final boxes."""
        if len(low):
            self.records.append((low, high, fair, unfair))


def deal_boxes(boxes: Frontier, parts: int) -> list[Frontier]:
    """Divide all boxes into parts of about equal undecided mass."""
    order = np.argsort(-boxes.open, kind="stable")
    return [boxes[np.sort(order[part::parts])] for part in range(parts)]


def count_parts(limits: SearchLimits) -> int:
    """Return the number of parts of about ``PART_SECONDS``: a power of two, so that 2 or 4 workers get equal shares."""
    boxes = limits.max_boxes
    if boxes is None and limits.deadline is None:
        boxes = DEFAULT_BOXES
    seconds = [] if boxes is None else [boxes / limits.boxes_per_second]
    seconds += [] if limits.deadline is None else [limits.deadline]
    parts = int(np.clip(min(seconds) / PART_SECONDS, 1, MAX_PARTS))
    return 1 << (parts - 1).bit_length()


def refine_in_parts(
    run: ProofRun,
    bounder: LinearBounder | TreeEngine,
    *,
    workers: int,
    recorder: BoxRecorder | None = None,
) -> tuple[BoxSet, Floats, Stop]:
    """Refine the parts of the domain on workers.

    Args:
        run: Question, limits, and account of the proved mass.
        bounder: Bounds boxes of the question in this process.
        workers: Number of workers; see ``evenhand.core.parallel.run_parts``.
        recorder: Recorder of the final boxes with their proved shares.

    Returns:
        The boxes that are not decided as a whole, the mass proved fair and unfair in each, and the stopping reason.
        Ctrl-C keeps the finished parts; of the others, only the first boxes are proved.
    """
    limits, proved_mass = run.limits(DEFAULT_BOXES), run.proved_mass
    side_by_side = count_workers(workers)
    number = count_parts(limits)
    split_boxes_count = BOXES_DEALT * number
    if limits.max_boxes is not None:
        split_boxes_count = min(split_boxes_count, int(SPLITTING_SHARE * limits.max_boxes))
    splitting = replace(limits, deadline=None, max_boxes=split_boxes_count, target_undecided=None, min_progress=None)
    boxes: Frontier
    if isinstance(bounder, TreeEngine):
        boxes, stop = split_tree_boxes(bounder, proved_mass, splitting, recorder)
    else:
        boxes, stop = split_boxes(bounder, proved_mass, splitting, recorder)
    number, total = max(1, min(number, len(boxes))), _open_mass(boxes) or 1.0
    ends = None if limits.deadline is None else time.time() + limits.deadline - limits.clock.now()
    parts = [
        Part(
            run.question.query,
            part,
            proved_mass.fork(),
            _part_limits(limits, proved_mass.boxes, at, number, _open_mass(part) / total),
            recorder is not None,
            ends,
            math.ceil((number - at) / side_by_side),
        )
        for at, part in enumerate(deal_boxes(boxes, number))
    ]
    results = _run_all(parts, workers, run, interrupted=stop == "interrupt")
    for result in results:
        proved_mass.merge(result.proved_mass)
        if recorder is not None:
            for record in result.records:
                recorder.take(*record)
    proved_mass.moment(last=True)
    undecided = type(results[0].undecided).concatenate([result.undecided for result in results])  # type: ignore[attr-defined]
    stop = next(reason for reason in STOPS if any(result.stop == reason for result in results))
    return undecided, np.concatenate([result.shares for result in results]), stop


def _run_all(parts: list[Part], workers: int, run: ProofRun, *, interrupted: bool) -> list[PartResult]:
    """Return the results of the parts, in order."""
    results: dict[int, PartResult] = {}
    try:
        if interrupted:
            raise KeyboardInterrupt
        for at, result in run_parts(refine_part, parts, workers):
            results[at] = result
            run.proved_mass.note_parts([part.proved_mass for part in results.values()])
            run.report_progress(len(results) / len(parts))
            if result.stop == "interrupt":  # a worker of this process group was interrupted, or this process itself
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        with InterruptCounter():
            for at, part in enumerate(parts):
                if at not in results:
                    nothing_more = replace(part.limits, max_boxes=0, deadline=None, target_undecided=None)
                    result = refine_part(replace(part, limits=nothing_more, ends=None))
                    results[at] = replace(result, stop="interrupt")
    return [results[at] for at in range(len(parts))]


def _open_mass(boxes: Frontier) -> float:
    return float(boxes.open.sum(dtype=np.float64))


def _part_limits(limits: SearchLimits, bounded: int, at: int, parts: int, share: float) -> SearchLimits:
    """Return the limits of a part.

    Args:
        limits: Limits of the whole run.
        bounded: Number of boxes bounded before.
        at: Number of the part.
        parts: Number of parts.
        share: Share of the undecided mass in the part.
    """
    boxes, target = limits.max_boxes, limits.target_undecided
    return replace(
        limits,
        max_boxes=None if boxes is None else (max(0, boxes - bounded) + at) // parts,
        target_undecided=None if target is None else target * share,
    )


def refine_part(part: Part) -> PartResult:
    """Refine a part on one thread."""
    limits = part.limits
    if part.ends is not None:
        limits = replace(limits, deadline=max(0.0, part.ends - time.time()) / part.rounds, clock=Clock())
    recorder = RecordedBoxes() if part.recording else None
    # Refinement empties its boxes, and a part that was interrupted in this process is refined again.
    boxes, proved_mass = part.boxes[np.arange(len(part.boxes))], part.proved_mass.fork()
    undecided: BoxSet
    with threadpool_limits(1):
        if isinstance(part.query, TreeQuery) and isinstance(boxes, TreeFrontier):
            undecided, shares, stop = refine_trees(
                compile_tree_engine(part.query, 1, recording=part.recording),
                proved_mass,
                limits,
                say=_ignore,
                recorder=recorder,
                domain=boxes,
            )
        else:
            from evenhand.certification.bounds.compiled.engine import compile_bounder

            assert isinstance(part.query, Query)
            assert isinstance(boxes, BoxFrontier)
            undecided, shares, stop = refine_boxes(
                compile_bounder(part.query, 1),
                proved_mass,
                limits,
                say=_ignore,
                recorder=recorder,
                domain=boxes,
            )
    return PartResult(proved_mass, undecided, shares, stop, recorder.records if recorder else [])


def _ignore(share: float) -> None:
    """Ignore the progress of a part, which is visible only in its own process."""
