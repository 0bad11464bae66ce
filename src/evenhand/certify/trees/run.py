"""One certificate of a model of trees: ask about every combination of cells where they are few, else refine boxes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenhand.certify.boxes import FAIR, UNDECIDED, UNFAIR, Boxes, whole
from evenhand.certify.conclusion import Outcome
from evenhand.certify.counterexamples import Finder
from evenhand.certify.exact import Enumeration, boxes_of, decoded, judged, masses
from evenhand.certify.interval import Limits
from evenhand.certify.regions import regions_of
from evenhand.certify.tally import Tally
from evenhand.certify.trees.question import TreeQuery

MAX_POINTS = 2**21
WALKS_PER_SECOND = 5e6
"""Cautious: how many trees are walked for how many people."""
MAX_SECONDS = 10.0
BATCH = 2**16


def feasible(query: TreeQuery, time_limit: float | None) -> bool:
    """Whether asking about every combination of cells takes no more than a few seconds, and half the time limit."""
    walks = query.points * len(query.assignments) * query.ensemble.nodes.trees
    most = MAX_SECONDS if time_limit is None else min(MAX_SECONDS, time_limit / 2)
    return query.points <= MAX_POINTS and walks <= most * WALKS_PER_SECOND


def enumerate_cells(query: TreeQuery) -> Enumeration:
    """Decide every combination of cells by asking the model about one person of each."""
    status = np.empty(query.points, dtype=np.int8)
    for begin in range(0, query.points, BATCH):
        points = decoded(query, np.arange(begin, min(begin + BATCH, query.points)))
        entries = np.empty(points.shape)
        for i, cells in enumerate(query.cells):
            entries[:, i] = cells.entry(points[:, i])
        possible = [query.possible(query.individuals(entries, p)) for p in range(len(query.assignments))]
        status[begin : begin + len(points)] = judged(np.stack(possible))
    return Enumeration(status=status, mass=masses(query))


def by_enumeration(query: TreeQuery, tally: Tally, finder: Finder) -> Outcome:
    """Decide everything at once; after an interrupt nothing is decided."""
    try:
        answer = enumerate_cells(query)
    except KeyboardInterrupt:
        return Outcome(whole(query), None, "interrupt", "enumeration", ())
    tally.boxes = query.points

    def those(status: int) -> Boxes:
        return boxes_of(query, np.flatnonzero(answer.status == status), answer.mass)

    tally.prove(those(FAIR), fair=True)
    tally.prove(those(UNFAIR), fair=False)
    undecided, unfair = those(UNDECIDED), those(UNFAIR)
    tally.leave_open(undecided)
    tally.moment(last=True)
    unfair = unfair[unfair.mass > 0][: 4 * finder.limit]
    if len(unfair):
        finder.unfair(np.stack([cells.entry(unfair.lo[:, i]) for i, cells in enumerate(query.cells)], axis=1))
    return Outcome(undecided, None, "done", "enumeration", regions_of(query, answer))


def by_refinement(
    query: TreeQuery, jobs: int, say: Callable[[str, float], None]
) -> Callable[[Tally, Limits, Callable[[float], None]], Outcome]:
    """Make everything ready for refining boxes, which then runs on the clock."""
    from evenhand.certify.trees.engine import prepare, refine

    say("preparing (the first use on a machine compiles for up to half a minute)", 0.0)
    engine = prepare(query, jobs)

    def proving(tally: Tally, limits: Limits, step: Callable[[float], None]) -> Outcome:
        undecided, proved, stop = refine(query, engine, tally, limits, say=step)
        return Outcome(undecided, proved, stop, "trees")

    return proving
