"""Refine boxes with symbolic intervals, depth first, as in FairQuant.

Kim, Wang and Wang, "FairQuant: Certifying and Quantifying Fairness of Deep Neural Networks" (ICSE 2025), Algorithms 1
to 4, with two differences. First, a box with a counterexample is split too, so that counting continues. Second,
the search for counterexamples uses the middle of the box and never leaves it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from evenhand.certification.bounds.interval.propagation import SymbolicBounder
from evenhand.certification.certificate.counterexamples import CounterexampleFinder
from evenhand.certification.certificate.record import CertificateWriter
from evenhand.certification.query.boxes import Boxes, BoxSplitter, whole_domain
from evenhand.certification.query.outcomes import FAIR, UNDECIDED, UNFAIR
from evenhand.certification.query.proved_mass import REGION_DEPTH, ProvedMass, SearchLimits, Stop
from evenhand.certification.query.question import Query
from evenhand.core.interrupts import InterruptCounter

MAX_DEPTH = 20
"""Maximum number of splits of a box."""
SAMPLE_DEPTH = 15
"""Minimum number of splits of a box before it is searched for counterexamples."""
CHUNK_BOXES = 8192
"""Maximum number of boxes per call."""
CHUNK_OPERATIONS = 2.5e8
"""Approximate number of multiplications per call, so that a call takes a fraction of a second."""
MAX_PROBES = 4096
"""Maximum number of queries to the model per call."""


def refine_by_intervals(
    query: Query,
    tally: ProvedMass,
    finder: CounterexampleFinder,
    limits: SearchLimits,
    *,
    jobs: int,
    say: Callable[[float], None],
    recorder: CertificateWriter | None = None,
) -> tuple[Boxes, Stop]:
    """Split boxes until all are decided or too deep, or a limit is reached.

    Args:
        query: Question.
        tally: Account of the proved mass.
        finder: Finder of counterexamples.
        limits: Limits.
        jobs: Number of threads.
        say: Callback for the approximate share of the work done.
        recorder: Recorder of the final boxes.

    Returns:
        The undecided boxes, and the stopping reason.
    """
    decide = _make_decider(query, jobs)
    splitter = BoxSplitter(query)
    chunk = _chunk_size(query)
    stack = [whole_domain(query)]
    leaves: list[Boxes] = []
    batch: Boxes | None = None
    stop: Stop | None = None
    deep = False
    try:
        # Interrupts are counted rather than raised, so no step is left incomplete.
        with ThreadPoolExecutor(jobs) as pool, InterruptCounter() as interrupts, threadpool_limits(1):
            while stack:
                stop = "interrupt" if interrupts.count else limits.limit_reached(tally.boxes, tally.undecided)
                if stop is not None:
                    break
                room = chunk if limits.max_boxes is None else min(chunk, limits.max_boxes - tally.boxes)
                batch = _pop_boxes(stack, room)
                boxes = tally.assign_regions(batch, batch.depth >= REGION_DEPTH)
                status, attribute = decide(boxes, pool)
                boxes = tally.assign_regions(boxes, (status != UNDECIDED) | (attribute < 0))
                final = (status != UNDECIDED) | (attribute < 0)
                undecided = boxes[status == UNDECIDED]
                attribute = attribute[status == UNDECIDED]
                leaf = undecided[attribute < 0]
                halves = splitter.split_boxes(undecided[attribute >= 0], attribute[attribute >= 0])
                halves = halves[halves.mass > 0]
                _probe_centres(
                    query, finder, boxes[(status == UNFAIR) | ((status == UNDECIDED) & (boxes.depth >= SAMPLE_DEPTH))]
                )
                batch = None
                tally.boxes += len(boxes)
                tally.prove(boxes[status == FAIR], fair=True)
                tally.prove(boxes[status == UNFAIR], fair=False)
                tally.add_undecided(leaf)
                if recorder is not None:
                    recorder.record_boxes(boxes[final], status[final])
                deep = deep or bool((leaf.depth >= MAX_DEPTH).any())
                leaves += [_shrink_dtype(leaf)] if len(leaf) else []
                stack += [halves] if len(halves) else []
                tally.moment()
                say(tally.settled)
    except KeyboardInterrupt:
        stop = "interrupt"
        stack += [batch] if batch is not None else []
    tally.moment(last=True)
    for boxes in stack:
        remaining = tally.assign_regions(boxes, np.ones(len(boxes), dtype=np.bool_))
        tally.add_undecided(remaining)
        leaves.append(remaining)
        if recorder is not None:
            recorder.record_boxes(remaining, np.zeros(len(remaining), dtype=np.int8))
    if stop is None:
        stop = "depth" if deep else "done"
    return Boxes.concatenate(leaves) if leaves else whole_domain(query)[:0], stop


def _pop_boxes(stack: list[Boxes], room: int) -> Boxes:
    """Pop at most ``room`` boxes: the last ones are the deepest, so that the stack stays short."""
    batches: list[Boxes] = []
    while stack and room > 0:
        top = stack.pop()
        if len(top) > room:
            stack.append(top[:-room])
            top = top[-room:]
        batches.append(top)
        room -= len(top)
    return Boxes.concatenate(batches[::-1])


def _shrink_dtype(boxes: Boxes) -> Boxes:
    """Store the cells in 16 bits if they fit, because there can be millions of boxes."""
    if boxes.hi.size and boxes.hi.max() < 2**15:
        return Boxes(boxes.lo.astype(np.int16), boxes.hi.astype(np.int16), boxes.mass, boxes.depth, boxes.region)
    return boxes


def _probe_centres(query: Query, finder: CounterexampleFinder, boxes: Boxes) -> None:
    """Search for a counterexample in the middle of each box."""
    boxes = boxes[: max(1, MAX_PROBES // len(query.assignments))]
    if len(boxes) and not finder.full:
        middle = (boxes.lo.astype(np.int64) + boxes.hi) // 2
        finder.unfair(query.entries(middle))


def _chunk_size(query: Query) -> int:
    """Compute the number of boxes per call from the cost of one."""
    widths = [query.biases.shape[1], *(len(layer.bias) for layer in query.layers)]
    work = sum(2 * a * b for a, b in itertools.pairwise(widths)) + widths[0]
    cost = work * (query.columns + 4) * len(query.assignments)
    return int(np.clip(CHUNK_OPERATIONS / cost, 64, CHUNK_BOXES))


BoxDecider: TypeAlias = Callable[[Boxes, ThreadPoolExecutor], tuple[NDArray[np.int8], NDArray[np.int32]]]


def _make_decider(query: Query, jobs: int) -> BoxDecider:
    """Build a function that decides boxes on the threads of a pool, and selects the attributes to split."""
    bounder = SymbolicBounder(query)

    def decide(boxes: Boxes, pool: ThreadPoolExecutor) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        final = boxes.depth >= MAX_DEPTH
        piece = -(-len(boxes) // jobs)

        def part(begin: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
            cut = slice(begin, begin + piece)
            return bounder.decide(boxes.lo[cut], boxes.hi[cut], final[cut])[:2]

        status, attribute = zip(*pool.map(part, range(0, len(boxes), piece)), strict=True)
        return np.concatenate(status), np.concatenate(attribute)

    return decide
