"""Families of rule sets too many for one count cube: attribute by attribute, permutations of the outcome inside.

Rule sets are taken by the attributes that they constrain, fewest attributes first. The last few attributes of a
combination are counted together, as a cube of their own (``kernel``); the rules of those before are gone through one
by one, and once too few people are left, nothing that refines them is looked at. Each cube is counted for what was
observed and for every permutation of the outcome, which leaves the largest standardised gap of each permutation. A
second pass, with the critical value that follows, ranks the rule sets. Cubes are independent of each other, so that
threads share them; what comes out does not depend on how many there are.
"""

from __future__ import annotations

import dataclasses
import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.permutation import critical_value
from evenhand.subgroups.candidates import CandidateRuleSets, description_length
from evenhand.subgroups.cuts import AttributeCut
from evenhand.subgroups.deep.kernel import (
    LANES,
    CubeCounts,
    KernelFloors,
    LeafExpectations,
    ObservedRuleSets,
    Ranking,
    StratumMoments,
    fill_cube,
    observe_rule_sets,
    permute_rule_sets,
)
from evenhand.subgroups.deep.plan import CubePart, CubePlan, rules_at_leaves
from evenhand.subgroups.deep.top import DistinctKeyCounter, TopGroups, empty_top, merge_top
from evenhand.subgroups.family import RuleSetFamily, build_family
from evenhand.subgroups.gaps import compare_with_rest, correct_tails, largest_gap_to_rest
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets, tabulate_people

StopReason: TypeAlias = Literal["done", "time", "user"]

RANK_NOTHING = Ranking(math.inf, 0.0, math.inf)
"""Nothing is significant or is listed: how it is before the critical value is known."""
POLL_SECONDS = 0.1
"""Seconds between two looks at how far the threads are."""
PERMUTATION_SHARE = 0.85
"""About the share of the time that the first pass takes, with the permutations."""


@dataclass(frozen=True)
class DepthFirstResult:
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
        critical: standard errors that a gap must exceed to be significant.
        standing: how many groups of people are significant: beyond ``critical``, and possibly as large as the margin.
        top: the groups whose standardised gaps are the largest.
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
    top: TopGroups
    stop: StopReason


@dataclass(frozen=True)
class DepthFirstConfig:
    """How a family is searched.

    Attributes:
        least, least_rest: people inside and outside a rule set, at least; with fewer it is not tested.
        confidence: that no rule set is significant by chance, if outcomes have nothing to do with groups.
        critical: standard errors that are significant, in place of what the confidence and the maxima give.
        margin: a gap that is certainly smaller is not significant.
        keep: groups of people at the top, at most.
        jobs: threads; by default as many as there are processors.
        limit: of time, after which only what was looked at by then is ranked and returned; so it is upon an interrupt.
        seed: of the random keys that tell groups of people apart (two share one with probability 2**-64).
    """

    least: int
    least_rest: int
    confidence: float = 0.95
    critical: float | None = None
    margin: float = 0.0
    keep: int = 1000
    jobs: int | None = None
    limit: TimeLimit = NEVER
    seed: int = 0


def search_depth_first(
    family: RuleSetFamily,
    table: CellTable,
    happened: PermutedOutcomes,
    config: DepthFirstConfig,
    *,
    progress: Callable[[float], None] | None = None,
) -> DepthFirstResult:
    """Look at every rule set of a family.

    Args:
        family: the rule sets.
        table: the people.
        happened: what happened to them, and its permutations.
        config: how it is searched.
        progress: called with the share that is done, 0 to 1.
    """
    say = progress or (lambda share: None)
    say(0.0)
    for block in happened.blocks[:1]:
        compile_kernels(block.dtype)
    floors = KernelFloors(max(config.least, 1), config.least_rest)
    plan = CubePlan(family, table.cells, floors.least)
    desks = [
        _ThreadWorkspace(family, table, happened, plan, floors, config.keep, config.seed)
        for _ in range(config.jobs or _processor_count())
    ]
    first = _ParallelPass(plan.parts(), config.limit.share(PERMUTATION_SHARE))
    stop, tested, counted = _permutation_pass(
        first, desks, lambda: say(PERMUTATION_SHARE * first.settled / max(family.size, 1))
    )
    maxima = np.max([desk.best for desk in desks], axis=0).ravel()[: happened.permutations].astype(np.float64)
    critical = critical_value(maxima, config.confidence) if config.critical is None else config.critical
    # What a thread has begun it finishes, so that the parts looked at are the first ones.
    second = _ParallelPass(islice(plan.parts(), first.taken), NEVER)
    asked = Ranking(float(critical), float(config.margin), -math.inf)
    standing = DistinctKeyCounter()
    shared = _SharedThreshold()

    def ranking(desk: _ThreadWorkspace, part: CubePart) -> None:
        _, stands = desk.look(part, asked._replace(threshold=shared.value))
        standing.add(stands)
        shared.raise_to(desk.lowest)

    second.run(
        ranking,
        desks,
        lambda: say(PERMUTATION_SHARE + (1 - PERMUTATION_SHARE) * second.settled / max(first.settled, 1)),
    )
    number, exactly = standing.distinct()
    say(1.0)
    return DepthFirstResult(
        rule_sets=family.size,
        looked_at=first.settled,
        passed=sum(desk.passed for desk in desks),
        tested=tested,
        counted=counted and exactly,
        maxima=maxima,
        critical=critical,
        standing=number,
        top=merge_top([desk.top for desk in desks], config.keep).rank(),
        stop=stop,
    )


def _processor_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _permutation_pass(
    parts: _ParallelPass, desks: list[_ThreadWorkspace], say: Callable[[], None]
) -> tuple[StopReason, int, bool]:
    """Return the first pass: what ended it, how many groups of people were tested, and whether that is a count."""
    different = DistinctKeyCounter()

    def permuting(desk: _ThreadWorkspace, part: CubePart) -> None:
        passed, _ = desk.look(part, RANK_NOTHING)
        desk.passed += len(passed)
        different.add(passed)
        desk.permute(part)

    stop = parts.run(permuting, desks, say)
    return stop, *different.distinct()


class _SharedThreshold:
    """The score below which nothing gets among the highest any more; only ever raised."""

    def __init__(self) -> None:
        self.value = -math.inf
        self._lock = threading.Lock()

    def raise_to(self, score: float) -> None:
        with self._lock:
            self.value = max(self.value, score)


class _ParallelPass:
    """Threads that take one part after the other until there is none, time is up or somebody interrupts.

    Args:
        parts: what is to be done.
        limit: when to take no more.
    """

    def __init__(self, parts: Iterator[CubePart], limit: TimeLimit) -> None:
        self._parts, self._limit = parts, limit
        self._lock = threading.Lock()
        self._ended: StopReason | None = None
        self.taken = 0
        self.settled = 0

    def run(
        self, act: Callable[[_ThreadWorkspace, CubePart], None], desks: list[_ThreadWorkspace], say: Callable[[], None]
    ) -> StopReason:
        """Do all parts, and say what ended it."""
        with ThreadPoolExecutor(len(desks)) as pool:
            running = {pool.submit(self._work, act, desk) for desk in desks}
            try:
                while running:
                    done, running = wait(running, timeout=POLL_SECONDS, return_when=FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    say()
            except KeyboardInterrupt:
                self._stop_pass("user")
            except BaseException:
                self._stop_pass("user")
                raise
        return self._ended or "done"

    def _work(self, act: Callable[[_ThreadWorkspace, CubePart], None], desk: _ThreadWorkspace) -> None:
        while (part := self._next()) is not None:
            if len(part.rows):
                act(desk, part)

    def _next(self) -> CubePart | None:
        with self._lock:
            if self._ended is not None:
                return None
            part = next(self._parts, None)
            if part is None:
                self._ended = "done"
            elif self.taken and self._limit.passed():
                self._ended = "time"
                return None
            else:
                self.taken += 1
                self.settled += part.rule_sets
            return part

    def _stop_pass(self, stop: StopReason) -> None:
        with self._lock:
            self._ended = stop


class _ThreadWorkspace:
    """One thread's work arrays, and what it found."""

    def __init__(
        self,
        family: RuleSetFamily,
        table: CellTable,
        happened: PermutedOutcomes,
        plan: CubePlan,
        floors: KernelFloors,
        keep: int,
        seed: int,
    ) -> None:
        cells, leaves, nodes = plan.room()
        self._family, self._cells, self._happened = family, table.cells, happened
        self._floors, self._keep, self._strata = floors, keep, table.strata
        self.keys = np.random.default_rng(seed).integers(0, 2**64, size=len(table.cells.sizes), dtype=np.uint64)
        self._observed = CubeCounts(
            np.zeros(cells * table.strata, dtype=np.int64), np.zeros(cells), np.zeros(cells, dtype=np.uint64)
        )
        self._counts = np.zeros(cells * LANES, dtype=np.float32)
        self._leaves = LeafExpectations(
            above=np.zeros(leaves, dtype=np.float32),
            below=np.zeros(leaves, dtype=np.float32),
            pivot=np.zeros(leaves, dtype=np.float32),
            fraction=np.zeros(leaves, dtype=np.float32),
            alive=np.zeros(nodes, dtype=np.uint8),
        )
        self._seen = ObservedRuleSets(
            key=np.zeros(leaves, dtype=np.uint64),
            standing=np.zeros(leaves, dtype=np.uint64),
            leaf=np.zeros(leaves, dtype=np.int64),
            score=np.zeros(leaves),
            listed=np.zeros(leaves, dtype=np.uint64),
        )
        self.best = np.zeros((len(happened.blocks), LANES), dtype=np.float32)
        self.top = empty_top(len(family.rules))
        self.passed = 0

    @property
    def lowest(self) -> float:
        """The lowest score among the highest, once these are as many as asked for."""
        return float(self.top.score.min()) if len(self.top) >= self._keep > 0 else -math.inf

    def look(self, part: CubePart, ranking: Ranking) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Look at what was observed.

        Returns:
            The keys of the rule sets that pass the floors, and of those that are significant.
        """
        walk, rows = part.tail.walk, part.rows
        place, cells = part.tail.place[rows], int(walk.span[0])
        within = place * self._strata + (self._cells.codes[rows, -1] if self._strata > 1 else 0)
        sizes = np.bincount(within, weights=self._cells.sizes[rows], minlength=cells * self._strata)
        observed = self._observed
        observed.size[: len(sizes)] = sizes
        observed.amount[:cells] = np.bincount(place, weights=self._happened.amounts[rows], minlength=cells)
        observed.key[:cells] = 0
        np.add.at(observed.key[:cells], place, self.keys[rows])
        passed, stands, listed = observe_rule_sets(
            walk, self._floors, ranking, self._happened.strata, observed, self._leaves, self._seen
        )
        if listed:
            self._list(part, listed)
        return self._seen.key[:passed], self._seen.standing[:stands]

    def permute(self, part: CubePart) -> None:
        """Look at every permutation; what was observed must have been looked at just before."""
        walk, counts = part.tail.walk, self._counts
        cube = counts[: int(walk.span[0]) * LANES]
        for block, best in zip(self._happened.blocks, self.best, strict=True):
            fill_cube(block, part.rows, part.tail.place, cube)
            permute_rule_sets(walk, self._leaves, counts, best)

    def _list(self, part: CubePart, listed: int) -> None:
        leaf, score = self._seen.leaf[:listed], self._seen.score[:listed]
        chosen = np.tile(np.array(part.chosen, dtype=np.int64), (listed, 1))
        # Rows of the family's rules: its first one is "no rule".
        chosen[:, part.tail.attributes] = rules_at_leaves(part.tail.steps, leaf) + 1
        fresh = TopGroups(
            score=score.copy(),
            chosen=chosen,
            length=description_length(self._family, chosen),
            copies=np.ones(listed, dtype=np.int64),
            key=self._seen.listed[:listed].copy(),
        )
        self.top = merge_top([self.top, fresh], self._keep)


def compile_kernels(kind: Any = np.uint8) -> None:
    """Compile the kernels, which the first use on a machine does; afterwards they come from a cache.

    Args:
        kind: of the permuted amounts.
    """
    rules = build_family([AttributeCut(name, ("0", "1"), None, ordered=True) for name in "ab"])
    table = tabulate_people(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0.0, 1.0, 0.0, 1.0]), counted=True)
    happened = permute_outcomes(table, 1, np.random.default_rng(0))
    happened = replace(happened, blocks=(happened.blocks[0].astype(kind),))
    plan = CubePlan(rules, table.cells, 1)
    desk = _ThreadWorkspace(rules, table, happened, plan, KernelFloors(1, 1), 1, 0)
    for part in plan.parts():
        desk.look(part, RANK_NOTHING)
        desk.permute(part)


# The groups of people that rank highest or were asked about, with the numbers that everything else is judged by.

ENTRIES = 2**25
"""Memberships held at once, about."""


def list_candidates(family: RuleSetFamily, table: CellTable, found: DepthFirstResult) -> CandidateRuleSets:
    """List the best groups of a search, highest first, with the numbers of their people by stratum."""
    chosen = found.top.chosen
    size, total, squares = (
        _rule_set_sums(family, table, chosen, weights) for weights in (None, table.values, np.square(table.values))
    )
    return CandidateRuleSets(chosen, size, total, squares, found.top.copies)


def largest_permuted_gaps(table: CellTable, happened: PermutedOutcomes, inside: Booleans) -> Floats:
    """Compute the largest absolute standardised gap in each permutation, shape (permutations,).

    Args:
        table: the people.
        happened: what happened to them, and its permutations.
        inside: which occupied cells each group holds, shape (groups, cells).
    """
    sums = (
        inside @ table.spread_over_strata(table.sums(weights)).T
        for weights in (None, table.values, np.square(table.values))
    )
    shape = correct_tails(compare_with_rest(table, *sums), table.skewness)
    if not table.counted:  # scores are dealt as what exceeds their mean
        shape = dataclasses.replace(shape, expected=np.zeros(len(inside)))
    gaps = largest_gap_to_rest(shape, lambda where: inside[where], len(table.cells.sizes))
    maxima = [gaps(block.astype(np.float32)) for block in happened.blocks]
    return np.concatenate(maxima)[: happened.permutations]


def _rule_set_sums(family: RuleSetFamily, table: CellTable, chosen: Integers, weights: Floats | None) -> Floats:
    """Return sums of a weight per person over rule sets by stratum, shape (rule sets, strata)."""
    by_stratum = table.spread_over_strata(table.sums(weights)).T
    rows = max(1, ENTRIES // len(by_stratum))
    blocks = [
        cells_of_rule_sets(family, table.cells, chosen[first : first + rows]) @ by_stratum
        for first in range(0, len(chosen), rows)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, table.strata))


# The people's outcomes, observed and permuted, by occupied cell.

PERMUTED_AT_ONCE = 1 << 22
"""Amounts held at once in double precision, about."""


@dataclass(frozen=True)
class PermutedOutcomes:
    """What happened to the people, by occupied cell.

    Attributes:
        amounts: per cell the positives; or of scores what exceeds their stratum's mean, summed; shape (cells,).
        blocks: the same with the outcomes permuted, LANES permutations in each, (cells, LANES); the last one is
            filled up with zeros.
        permutations: how many there are.
        strata: everybody.
    """

    amounts: Floats
    blocks: tuple[NDArray[np.generic], ...]
    permutations: int
    strata: StratumMoments


def permute_outcomes(table: CellTable, permutations: int, rng: np.random.Generator) -> PermutedOutcomes:
    """Permute the outcomes ``permutations`` times within strata."""
    people, total, squares = table.totals
    mean = total / np.maximum(people, 1)
    spread = np.maximum(squares - total * mean, 0.0)
    # What remains of equal values by cancellation is not a spread.
    spread = np.where(spread > 1e-12 * np.maximum(squares, 1e-300), spread, 0.0)
    strata = StratumMoments(
        people=people.astype(np.int64),
        mean=mean if table.counted else np.zeros(table.strata),
        variance=spread / np.maximum(people - 1, 1),
        skewness=table.skewness,
    )
    usual = np.zeros(len(table.cells.sizes)) if table.counted else mean[table.cells.codes[:, -1]] * table.cells.sizes
    largest = int(table.cells.sizes.max(initial=0))
    # Counts of a cell are at most its size: the smallest type that holds it keeps the permutations in the cache.
    kind = np.float32 if not table.counted or largest > 65535 else np.uint16 if largest > 255 else np.uint8
    at_once = max(1, PERMUTED_AT_ONCE // max(len(usual), 1))
    blocks: list[NDArray[np.generic]] = []
    for first in range(0, permutations, LANES):
        many = min(LANES, permutations - first)
        block: NDArray[Any] = np.zeros((len(usual), LANES), dtype=kind)
        for at in range(0, many, at_once):
            drawn = table.permute_sums(min(at_once, many - at), rng)
            block[:, at : at + len(drawn)] = (drawn - usual).T
        blocks.append(block)
    amounts = table.sums(table.values) - usual
    return PermutedOutcomes(amounts if table.counted else _round_to_grid(amounts), tuple(blocks), permutations, strata)


def _round_to_grid(amounts: Floats) -> Floats:
    """Amounts rounded to a grid on which sums of them are exact in any order (about 1e-15 of them all together)."""
    largest = float(np.abs(amounts).sum())
    if largest == 0:
        return amounts
    grid = 2.0 ** (math.ceil(math.log2(largest)) - 52)
    return np.asarray(np.rint(amounts / grid) * grid)
