"""The older method: symbolic intervals, box by box, depth first, as in FairQuant; in batches and at any time.

Kim, Wang and Wang, "FairQuant: Certifying and Quantifying Fairness of Deep Neural Networks" (ICSE 2025), Algorithms 1
to 4. Two things differ. A counterexample found in a box is kept and the box is split all the same: finding one never
stops the counting. And it is looked for in the middle of the box, never outside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.interval.layout import KernelLayout, kernel_layout_of
from evenhand.certification.certificate.counterexamples import CounterexampleFinder
from evenhand.certification.certificate.record import CertificateWriter
from evenhand.certification.query.boxes import FAIR, UNDECIDED, UNFAIR, Boxes, BoxSplitter, whole_domain
from evenhand.certification.query.proved_mass import REGION_DEPTH, ProvedMass, SearchLimits, Stop
from evenhand.certification.query.question import Query
from evenhand.core.interrupts import InterruptCounter
from evenhand.core.typing import Booleans, Integers

MAX_DEPTH = 20
"""Splits after which a box stays undecided."""
SAMPLE_DEPTH = 15
"""Splits from which on counterexamples are looked for."""
CHUNK_BOXES = 8192
"""Boxes per call, at most."""
CHUNK_OPERATIONS = 2.5e8
"""About as many multiplications per call: a call should take a fraction of a second."""
MAX_PROBES = 4096
"""Questions to the model per call, at most."""


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
    """Split until all is decided, or too deep, or a limit is reached.

    Args:
        query: what is asked.
        tally: takes what is proved.
        finder: takes counterexamples.
        limits: when to stop.
        jobs: threads.
        say: called with about the share of the work done.
        recorder: takes every final box.

    Returns:
        The boxes that stay undecided, and why it ended.
    """
    decide = _make_decider(query, jobs)
    splitter = BoxSplitter(query)
    chunk = _chunk_size(query)
    stack = [whole_domain(query)]
    leaves: list[Boxes] = []
    taken: Boxes | None = None
    stop: Stop | None = None
    deep = False
    try:
        # Noted, Ctrl-C leaves no step half done.
        with ThreadPoolExecutor(jobs) as pool, InterruptCounter() as interrupts:
            while stack:
                stop = "interrupt" if interrupts.count else limits.limit_reached(tally.boxes, tally.undecided)
                if stop is not None:
                    break
                room = chunk if limits.max_boxes is None else min(chunk, limits.max_boxes - tally.boxes)
                taken = _pop_boxes(stack, room)
                boxes = tally.assign_regions(taken, taken.depth >= REGION_DEPTH)
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
                taken = None
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
        stack += [taken] if taken is not None else []
    tally.moment(last=True)
    for boxes in stack:
        rest = tally.assign_regions(boxes, np.ones(len(boxes), dtype=np.bool_))
        tally.add_undecided(rest)
        leaves.append(rest)
        if recorder is not None:
            recorder.record_boxes(rest, np.zeros(len(rest), dtype=np.int8))
    if stop is None:
        stop = "depth" if deep else "done"
    return Boxes.concatenate(leaves) if leaves else whole_domain(query)[:0], stop


def _pop_boxes(stack: list[Boxes], room: int) -> Boxes:
    """The boxes pushed last, at most ``room``: the deepest, so that the stack stays short."""
    taken: list[Boxes] = []
    while stack and room > 0:
        top = stack.pop()
        if len(top) > room:
            stack.append(top[:-room])
            top = top[-room:]
        taken.append(top)
        room -= len(top)
    return Boxes.concatenate(taken[::-1])


def _shrink_dtype(boxes: Boxes) -> Boxes:
    """The same boxes with cells in 16 bits where they fit: there can be millions of them."""
    if boxes.hi.size and boxes.hi.max() < 2**15:
        return Boxes(boxes.lo.astype(np.int16), boxes.hi.astype(np.int16), boxes.mass, boxes.depth, boxes.region)
    return boxes


def _probe_centres(query: Query, finder: CounterexampleFinder, boxes: Boxes) -> None:
    """Look for a counterexample in the middle of each box."""
    boxes = boxes[: max(1, MAX_PROBES // (len(query.assignments) * query.window))]
    if len(boxes) and not finder.full:
        middle = (boxes.lo.astype(np.int64) + boxes.hi) // 2
        finder.unfair(query.entries(middle))


def _chunk_size(query: Query) -> int:
    """Boxes per call, by what one costs."""
    widths = [query.biases.shape[1], *(len(layer.bias) for layer in query.layers)]
    work = sum(2 * a * b for a, b in itertools.pairwise(widths)) + widths[0]
    cost = work * (query.columns + 4) * len(query.assignments)
    return int(np.clip(CHUNK_OPERATIONS / cost, 64, CHUNK_BOXES))


BoxDecider: TypeAlias = Callable[[Boxes, ThreadPoolExecutor], tuple[NDArray[np.int8], NDArray[np.int32]]]


def _make_decider(query: Query, jobs: int) -> BoxDecider:
    from evenhand.certification.bounds.interval import kernel

    layout = kernel_layout_of(query)
    ask = _decide_within_tolerance(query, layout) if query.relaxed else _decide_plain(layout)

    def decide(boxes: Boxes, pool: ThreadPoolExecutor) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        status, attribute = np.empty(len(boxes), dtype=np.int8), np.empty(len(boxes), dtype=np.int32)
        final = boxes.depth >= MAX_DEPTH
        piece = -(-len(boxes) // (jobs * kernel.LANES)) * kernel.LANES
        lo, hi = np.ascontiguousarray(boxes.lo), np.ascontiguousarray(boxes.hi)

        def part(begin: int) -> None:
            cut = slice(begin, begin + piece)
            ask(lo[cut], hi[cut], final[cut], status[cut], attribute[cut])

        list(pool.map(part, range(0, len(boxes), piece)))
        return status, attribute

    return decide


DecideBoxes: TypeAlias = Callable[[NDArray[Any], NDArray[Any], Booleans, NDArray[np.int8], NDArray[np.int32]], None]


def _decide_plain(layout: KernelLayout) -> DecideBoxes:
    """Decide boxes as the kernel does."""
    from evenhand.certification.bounds.interval import kernel

    def ask(
        lo: NDArray[Any],
        hi: NDArray[Any],
        final: Booleans,
        status: NDArray[np.int8],
        attribute: NDArray[np.int32],
    ) -> None:
        kernel.decide_boxes(lo, hi, final, layout, status, attribute)

    return ask


def _decide_within_tolerance(query: Query, layout: KernelLayout) -> DecideBoxes:
    """Decide boxes of people who are compared with others within a tolerance.

    Everybody in a box is treated fairly if that holds for the box widened by the tolerance. Everybody is treated
    unfairly if two copies of the box, each moved by no more than the tolerance and held inside the domain, surely get
    different labels: each person in the box has one counterpart in each copy.
    """
    from evenhand.certification.bounds.interval import kernel

    last, tolerance = (query.counts - 1).astype(np.int32), query.tolerance.astype(np.int32)
    moves = [np.zeros_like(tolerance)]
    for i in np.flatnonzero(tolerance):
        for way in (1, -1):
            move = np.zeros_like(tolerance)
            move[i] = way * tolerance[i]
            moves.append(move)

    def ask(
        lo: NDArray[Any],
        hi: NDArray[Any],
        final: Booleans,
        status: NDArray[np.int8],
        attribute: NDArray[np.int32],
    ) -> None:
        kernel.decide_boxes(
            np.maximum(lo - tolerance, 0), np.minimum(hi + tolerance, last), final, layout, status, attribute
        )
        rest = np.flatnonzero(status != FAIR)
        lo, hi, final = lo[rest], hi[rest], final[rest]
        found = np.empty((len(moves), len(rest), kernel.MAX_WITNESSES), dtype=np.int64)
        choices = [attribute[rest]]
        for number, move in enumerate(moves):
            outcome, choice = np.empty(len(rest), dtype=np.int8), np.empty(len(rest), dtype=np.int32)
            moved = (np.clip(end + move, 0, last) for end in (lo, hi))
            # Only the box itself is asked where to split it.
            kernel.decide_boxes(*moved, final | (number > 0), layout, outcome, choice, found[number])
            choices = [choice, *choices] if number == 0 else choices
        status[rest] = np.where(_disjoint_sets(found, (1 << layout.classes) - 1), UNFAIR, UNDECIDED)
        widest = np.argmax(hi - lo, axis=1).astype(np.int32) if len(query.cells) else np.zeros(0, dtype=np.int32)
        attribute[:] = -1
        attribute[rest] = np.where(final, -1, _splittable_attribute(lo, hi, [*choices, widest]))

    return ask


def _disjoint_sets(sets: Integers, everything: int) -> Booleans:
    """Whether two of the sets of labels seen for a box have none in common, from shape (copies, boxes, sets)."""
    columns = [column for copy in sets for column in copy.T if (column != everything).any()]
    apart = np.zeros(sets.shape[1], dtype=np.bool_)
    for one, other in itertools.combinations(columns, 2):
        apart |= one & other == 0
    return apart


def _splittable_attribute(lo: NDArray[Any], hi: NDArray[Any], choices: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """The first choice of an attribute along which each box has several cells, -1 without any."""
    chosen = np.full(len(lo), -1, dtype=np.int32)
    rows = np.arange(len(lo))
    for choice in choices:
        fits = (chosen < 0) & (choice >= 0)
        fits &= lo[rows, choice] < hi[rows, choice]
        chosen[fits] = choice[fits]
    return chosen
