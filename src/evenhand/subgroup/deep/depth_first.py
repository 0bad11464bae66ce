"""Families of rule sets too many for one count cube: attribute by attribute, permutations of the outcome inside.

Rule sets are taken by the attributes that they constrain, fewest attributes first. The last few attributes of a
combination are counted together, as a cube of their own (``kernel``); the rules of those before are gone through one
by one, and once too few people are left, nothing that refines them is looked at. Each cube is counted for what was
observed and for every permutation of the outcome, which leaves the largest standardised gap of each permutation. A
second pass, with the critical value that follows, ranks the rule sets. Cubes are independent of each other, so that
threads share them; what comes out does not depend on how many there are.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.stats import critical_value
from evenhand.subgroup.candidates import simplicity
from evenhand.subgroup.cells import Cut
from evenhand.subgroup.deep.kernel import (
    CERTAIN,
    LANES,
    PLAIN,
    STANDARDISED,
    Floors,
    Leaves,
    Ranking,
    Seen,
    observe,
    permute,
    tally,
)
from evenhand.subgroup.deep.keys import Keys
from evenhand.subgroup.deep.outcomes import Outcomes, outcomes
from evenhand.subgroup.deep.plan import Part, Plan
from evenhand.subgroup.deep.top import Top, empty, merge
from evenhand.subgroup.deep.walk import rules_at
from evenhand.subgroup.family import Family, family
from evenhand.subgroup.tabulate import Table, tabulate

Floats: TypeAlias = NDArray[np.float64]
Stop: TypeAlias = Literal["done", "time", "user"]
Rank: TypeAlias = Literal["certain", "gap", "z"]

RANKS: dict[Rank, int] = {"certain": CERTAIN, "gap": PLAIN, "z": STANDARDISED}
NOTHING = Ranking(STANDARDISED, math.inf, 0.0, math.inf)
"""Nothing stands out or is listed: how it is before the critical value is known."""
POLL = 0.1
"""Seconds between two looks at how far the threads are."""
PERMUTING = 0.85
"""About the share of the time that the first pass takes, with the permutations."""


@dataclass(frozen=True)
class Deep:
    """What came of a search.

    Attributes:
        rule_sets: how many rule sets the family has.
        looked_at: how many of them were looked at, or refine one that too few people are in: all unless interrupted.
            The maxima, and what follows from them for the whole family, hold for these only.
        passed: how many pass the floors.
        tested: how many groups of people those are: two rule sets with the same people count once.
        counted: whether ``tested`` and ``standing`` are counts; what exceeds ``keys.LIMIT`` is estimated to 0.1 %.
        maxima: the largest absolute standardised gap of all tested rule sets in each permutation, (permutations,);
            zeros if nothing passes the floors.
        critical: standard errors that a gap must exceed to stand out.
        standing: how many groups of people stand out: beyond ``critical``, and possibly as large as the margin.
        top: the groups that rank highest.
        everybody: the sum of everybody's random keys.
        stop: ``done``, or what ended the search before: ``time`` or ``user``.
    """

    rule_sets: int
    looked_at: int
    passed: int
    tested: int
    counted: bool
    maxima: Floats
    critical: float
    standing: int
    top: Top
    everybody: np.uint64
    stop: Stop


def search(
    family: Family,
    table: Table,
    happened: Outcomes,
    *,
    least: int,
    least_rest: int,
    confidence: float = 0.95,
    critical: float | None = None,
    margin: float = 0.0,
    rank: Rank = "certain",
    keep: int = 1000,
    jobs: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Deep:
    """Look at every rule set of a family.

    Args:
        family: the rule sets.
        table: the people.
        happened: what happened to them, and its permutations.
        least, least_rest: people inside and outside a rule set, at least; with fewer it is not tested.
        confidence: that no rule set stands out by chance, if outcomes have nothing to do with groups.
        critical: standard errors that stand out, in place of those that follow from the confidence and the maxima.
        margin: a gap that is certainly smaller does not stand out.
        rank: what puts a rule set at the top: the gap less ``critical`` standard errors of it, the gap, or its z.
        keep: groups of people at the top, at most.
        jobs: threads; by default as many as there are processors.
        time_limit: seconds, compilation not counted, after which only what was looked at by then is ranked and
            returned; so it is upon an interrupt.
        seed: of the random keys that tell groups of people apart (two share one with probability 2**-64).
        progress: called with the share that is done, 0 to 1.
    """
    say = progress or (lambda share: None)
    say(0.0)
    for block in happened.blocks[:1]:
        prepare(block.dtype)
    began = time.perf_counter()
    least = max(least, 1)
    plan = Plan(family, table.cells, least)
    desks = [
        _Desk(family, table, happened, plan, Floors(least, least_rest), keep, seed)
        for _ in range(jobs or _processors())
    ]
    until = math.inf if time_limit is None else began + PERMUTING * time_limit
    first = _Pass(plan.parts(), until)
    stop, tested, counted = _permuted(first, desks, lambda: say(PERMUTING * first.settled / max(family.size, 1)))
    maxima = np.max([desk.best for desk in desks], axis=0).ravel()[: happened.permutations].astype(np.float64)
    if critical is None:
        critical = critical_value(maxima, confidence)
    # What a thread has begun it finishes, so that the parts looked at are the first ones.
    second = _Pass(islice(plan.parts(), first.taken), math.inf)
    asked = Ranking(RANKS[rank], float(critical), float(margin), -math.inf)
    standing = Keys()
    shared = _Threshold()

    def ranking(desk: _Desk, part: Part) -> None:
        _, stands = desk.look(part, asked._replace(threshold=shared.value))
        standing.add(stands)
        shared.raise_to(desk.lowest)

    second.run(ranking, desks, lambda: say(PERMUTING + (1 - PERMUTING) * second.settled / max(first.settled, 1)))
    number, exactly = standing.distinct()
    say(1.0)
    return Deep(
        rule_sets=family.size,
        looked_at=first.settled,
        passed=sum(desk.passed for desk in desks),
        tested=tested,
        counted=counted and exactly,
        maxima=maxima,
        critical=critical,
        standing=number,
        top=merge([desk.top for desk in desks], keep).ranked(),
        everybody=np.add.reduce(desks[0].keys),
        stop=stop,
    )


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _permuted(parts: _Pass, desks: list[_Desk], say: Callable[[], None]) -> tuple[Stop, int, bool]:
    """The first pass: what ended it, how many groups of people were tested, and whether that is a count."""
    different = Keys()

    def permuting(desk: _Desk, part: Part) -> None:
        passed, _ = desk.look(part, NOTHING)
        desk.passed += len(passed)
        different.add(passed)
        desk.permute(part)

    stop = parts.run(permuting, desks, say)
    return stop, *different.distinct()


class _Threshold:
    """The score below which nothing gets among the highest any more; only ever raised."""

    def __init__(self) -> None:
        self.value = -math.inf
        self._lock = threading.Lock()

    def raise_to(self, score: float) -> None:
        with self._lock:
            self.value = max(self.value, score)


class _Pass:
    """Threads that take one part after the other until there is none, time is up or somebody interrupts.

    Args:
        parts: what is to be done.
        until: when to take no more, by ``time.perf_counter``.
    """

    def __init__(self, parts: Iterator[Part], until: float) -> None:
        self._parts, self._until = parts, until
        self._lock = threading.Lock()
        self._ended: Stop | None = None
        self.taken = 0
        self.settled = 0

    def run(self, act: Callable[[_Desk, Part], None], desks: list[_Desk], say: Callable[[], None]) -> Stop:
        """Do all parts, and say what ended it."""
        with ThreadPoolExecutor(len(desks)) as pool:
            running = {pool.submit(self._work, act, desk) for desk in desks}
            try:
                while running:
                    done, running = wait(running, timeout=POLL, return_when=FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    say()
            except KeyboardInterrupt:
                self._end("user")
            except BaseException:
                self._end("user")
                raise
        return self._ended or "done"

    def _work(self, act: Callable[[_Desk, Part], None], desk: _Desk) -> None:
        while (part := self._next()) is not None:
            if len(part.rows):
                act(desk, part)

    def _next(self) -> Part | None:
        with self._lock:
            if self._ended is not None:
                return None
            part = next(self._parts, None)
            if part is None:
                self._ended = "done"
            elif time.perf_counter() > self._until:
                self._ended = "time"
                return None
            else:
                self.taken += 1
                self.settled += part.rule_sets
            return part

    def _end(self, stop: Stop) -> None:
        with self._lock:
            self._ended = stop


class _Desk:
    """One thread's work arrays, and what it found."""

    def __init__(
        self, family: Family, table: Table, happened: Outcomes, plan: Plan, floors: Floors, keep: int, seed: int
    ) -> None:
        cells, leaves, nodes = plan.room()
        self._family, self._cells, self._happened = family, table.cells, happened
        self._floors, self._keep, self._strata = floors, keep, table.strata
        self.keys = np.random.default_rng(seed).integers(0, 2**64, size=len(table.cells.sizes), dtype=np.uint64)
        self._size = np.zeros(cells * table.strata, dtype=np.int64)
        self._amount = np.zeros(cells)
        self._key = np.zeros(cells, dtype=np.uint64)
        self._counts = np.zeros(cells * LANES, dtype=np.float32)
        self._leaves = Leaves(
            above=np.zeros(leaves, dtype=np.float32),
            below=np.zeros(leaves, dtype=np.float32),
            pivot=np.zeros(leaves, dtype=np.float32),
            fraction=np.zeros(leaves, dtype=np.float32),
            alive=np.zeros(nodes, dtype=np.uint8),
        )
        self._seen = Seen(
            key=np.zeros(leaves, dtype=np.uint64),
            standing=np.zeros(leaves, dtype=np.uint64),
            leaf=np.zeros(leaves, dtype=np.int64),
            score=np.zeros(leaves),
            listed=np.zeros(leaves, dtype=np.uint64),
        )
        self.best = np.zeros((len(happened.blocks), LANES), dtype=np.float32)
        self.top = empty(len(family.rules))
        self.passed = 0

    @property
    def lowest(self) -> float:
        """The lowest score among the highest, once these are as many as asked for."""
        return float(self.top.score.min()) if len(self.top) >= self._keep > 0 else -math.inf

    def look(self, part: Part, ranking: Ranking) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Look at what was observed.

        Returns:
            The keys of the rule sets that pass the floors, and of those that stand out.
        """
        walk, rows = part.tail.walk, part.rows
        place, cells = part.tail.place[rows], int(walk.span[0])
        within = place * self._strata + (self._cells.codes[rows, -1] if self._strata > 1 else 0)
        sizes = np.bincount(within, weights=self._cells.sizes[rows], minlength=cells * self._strata)
        self._size[: len(sizes)] = sizes
        self._amount[:cells] = np.bincount(place, weights=self._happened.amounts[rows], minlength=cells)
        self._key[:cells] = 0
        np.add.at(self._key[:cells], place, self.keys[rows])
        passed, stands, listed = observe(walk, self._floors, ranking, self._happened.strata,
                                         self._size, self._amount, self._key, self._leaves, self._seen)  # fmt: skip
        if listed:
            self._list(part, listed)
        return self._seen.key[:passed], self._seen.standing[:stands]

    def permute(self, part: Part) -> None:
        """Look at every permutation; what was observed must have been looked at just before."""
        walk, counts = part.tail.walk, self._counts
        cube = counts[: int(walk.span[0]) * LANES]
        for block, best in zip(self._happened.blocks, self.best, strict=True):
            tally(block, part.rows, part.tail.place, cube)
            permute(walk, self._leaves, counts, best)

    def _list(self, part: Part, listed: int) -> None:
        leaf, score = self._seen.leaf[:listed], self._seen.score[:listed]
        chosen = np.tile(np.array(part.chosen, dtype=np.int64), (listed, 1))
        # Rows of the family's rules: its first one is "no rule".
        chosen[:, part.tail.attributes] = rules_at(part.tail.steps, leaf) + 1
        fresh = Top(
            score=score.copy(),
            chosen=chosen,
            length=simplicity(self._family, chosen),
            copies=np.ones(listed, dtype=np.int64),
            key=self._seen.listed[:listed].copy(),
        )
        self.top = merge([self.top, fresh], self._keep)


def prepare(kind: Any = np.uint8) -> None:
    """Compile the kernels, which the first use on a machine does; afterwards they come from a cache.

    Args:
        kind: of the permuted amounts.
    """
    rules = family([Cut(name, ("0", "1"), None, ordered=True) for name in "ab"])
    table = tabulate(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0.0, 1.0, 0.0, 1.0]), counted=True)
    happened = outcomes(table, 1, np.random.default_rng(0))
    happened = replace(happened, blocks=(happened.blocks[0].astype(kind),))
    plan = Plan(rules, table.cells, 1)
    desk = _Desk(rules, table, happened, plan, Floors(1, 1), 1, 0)
    for part in plan.parts():
        desk.look(part, NOTHING)
        desk.permute(part)
