"""Depth-first search of families that are too large for one count cube, with permutations of the outcome.

Rule sets are processed by the attributes that they constrain, fewest attributes first. The last few attributes of a
combination are counted together, in a separate cube (``kernel``). The rules of the preceding attributes are enumerated,
and rules with too few people are not refined. Each cube is counted for the observed outcomes and for every permutation,
which gives the largest standardised gap of each permutation. A second pass ranks the rule sets by the resulting
critical value. Cubes are independent, so threads process them in parallel; the result does not depend on the number of
threads.
"""

from __future__ import annotations

import dataclasses
import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats
from evenhand.stats.permutation import critical_value
from evenhand.subgroups.candidates import CandidateFamily, description_length
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
from evenhand.subgroups.deep.top import DistinctKeyCounter, TopGroups, empty_top, merge_top, rank_top
from evenhand.subgroups.family import RuleSetFamily
from evenhand.subgroups.gaps import compare_groups, correct_tails, largest_gap_to_rest
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets

StopReason: TypeAlias = Literal["done", "time", "user"]

RANK_NOTHING = Ranking(math.inf, 0.0, math.inf)
"""Ranking before the critical value is known: nothing is significant or listed."""
POLL_SECONDS = 0.1
"""Seconds between progress reports."""
PERMUTATION_SHARE = 0.85
"""Approximate share of the time that the first pass takes, with the permutations."""


@dataclass(frozen=True)
class DepthFirstResult:
    """Result of a depth-first search.

    Attributes:
        rule_sets: Number of rule sets in the family.
        looked_at: Number of rule sets that were counted, or skipped because they refine a rule set with too few people.
            Equals ``rule_sets`` unless stopped early. The maxima and the numbers derived from them cover only these
            rule sets.
        passed: Number of rule sets that are large enough.
        tested: Number of distinct groups of people among them.
        counted: Whether ``tested`` and ``significant`` are exact. Beyond ``top.LIMIT``, they are estimated to 0.1 %.
        maxima: Largest absolute standardised gap of all tested rule sets in each permutation, (permutations,); zeros
            if no rule set is large enough.
        critical: Standard errors beyond which a gap is significant.
        significant: Number of significant groups: with a gap of more than ``critical`` standard errors that may be as
            large as the margin.
        top: Groups with the largest standardised gaps.
        stop: ``done``, or the reason for stopping early: ``time`` or ``user``.
    """

    rule_sets: int
    looked_at: int
    passed: int
    tested: int
    counted: bool
    maxima: Floats
    critical: float
    significant: int
    top: TopGroups
    stop: StopReason


@dataclass(frozen=True)
class DepthFirstConfig:
    """Settings of a depth-first search.

    Attributes:
        min_inside, min_outside: Minimum numbers of people inside and outside a rule set.
        confidence: Probability of no false finding if outcomes are unrelated to groups.
        critical: Critical value, instead of the one from the confidence level and the maxima.
        margin: Gaps that are certainly smaller are not significant.
        keep: Maximum number of listed groups.
        jobs: Number of threads. Default: number of processors.
        limit: Time limit, after which the rule sets counted so far are ranked, as after an interrupt.
        seed: Seed of the random keys that identify groups of people.
    """

    min_inside: int
    min_outside: int
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
    outcomes: PermutedOutcomes,
    config: DepthFirstConfig,
    *,
    progress: Callable[[float], None] | None = None,
) -> DepthFirstResult:
    """Test every rule set of a family.

    Args:
        family: Rule sets.
        table: People.
        outcomes: Observed and permuted outcomes.
        config: Settings.
        progress: Called with the completed share, from 0 to 1.
    """
    progress = progress or (lambda _: None)
    progress(0.0)
    floors = KernelFloors(max(config.min_inside, 1), config.min_outside)
    plan = CubePlan(family, table.cells, floors.min_inside)
    workspaces = [
        _ThreadWorkspace(family, table, outcomes, plan, floors, config.keep, config.seed)
        for _ in range(config.jobs or _processor_count())
    ]
    tested_keys, significant_keys = DistinctKeyCounter(), DistinctKeyCounter()

    def permute(workspace: _ThreadWorkspace, part: CubePart) -> None:
        passed, _ = workspace.observe(part, RANK_NOTHING)
        workspace.passed += len(passed)
        tested_keys.add(passed)
        workspace.permute(part)

    permutation_pass = _ParallelPass(plan.parts(), config.limit.share(PERMUTATION_SHARE))
    total = max(family.size, 1)
    stop = permutation_pass.run(
        permute, workspaces, lambda: progress(PERMUTATION_SHARE * permutation_pass.settled / total)
    )
    maxima = np.max([workspace.best for workspace in workspaces], axis=0).ravel()[: outcomes.permutations]
    maxima = maxima.astype(np.float64)
    critical = critical_value(maxima, config.confidence) if config.critical is None else config.critical
    # Threads finish the parts that they have started, so that the counted parts are the first ones.
    ranking_pass = _ParallelPass(islice(plan.parts(), permutation_pass.taken), NEVER)
    ranking = Ranking(float(critical), float(config.margin), -math.inf)

    threshold = -math.inf

    def rank(workspace: _ThreadWorkspace, part: CubePart) -> None:
        # Scores below the lowest one in the full list of any thread need not be listed. A race between threads can only
        # make the threshold too low, which lists more.
        nonlocal threshold
        significant_keys.add(workspace.observe(part, ranking._replace(threshold=threshold))[1])
        threshold = max(threshold, workspace.lowest)

    settled = max(permutation_pass.settled, 1)
    ranking_pass.run(
        rank,
        workspaces,
        lambda: progress(PERMUTATION_SHARE + (1 - PERMUTATION_SHARE) * ranking_pass.settled / settled),
    )
    (tested, tested_exactly), (significant, exactly) = tested_keys.distinct(), significant_keys.distinct()
    progress(1.0)
    return DepthFirstResult(
        rule_sets=family.size,
        looked_at=permutation_pass.settled,
        passed=sum(workspace.passed for workspace in workspaces),
        tested=tested,
        counted=tested_exactly and exactly,
        maxima=maxima,
        critical=critical,
        significant=significant,
        top=rank_top(merge_top([workspace.top for workspace in workspaces], config.keep)),
        stop=stop,
    )


def _processor_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _ParallelPass:
    """Threads that process parts until there are no more, the time limit is reached, or the user interrupts.

    Args:
        parts: Parts to process.
        limit: Time limit after which no further part is started.
    """

    def __init__(self, parts: Iterator[CubePart], limit: TimeLimit) -> None:
        self._parts, self._limit = parts, limit
        self._lock = threading.Lock()
        self._stop: StopReason | None = None
        self.taken = 0
        self.settled = 0

    def run(
        self,
        process: Callable[[_ThreadWorkspace, CubePart], None],
        workspaces: list[_ThreadWorkspace],
        report: Callable[[], None],
    ) -> StopReason:
        """Process all parts, and return the reason for stopping."""
        with ThreadPoolExecutor(len(workspaces)) as pool:
            running = {pool.submit(self._work, process, workspace) for workspace in workspaces}
            try:
                while running:
                    finished, running = wait(running, timeout=POLL_SECONDS, return_when=FIRST_EXCEPTION)
                    for future in finished:
                        future.result()
                    report()
            except BaseException as error:
                with self._lock:
                    self._stop = "user"
                if not isinstance(error, KeyboardInterrupt):
                    raise
        return self._stop or "done"

    def _work(self, process: Callable[[_ThreadWorkspace, CubePart], None], workspace: _ThreadWorkspace) -> None:
        while (part := self._next()) is not None:
            if len(part.rows):
                process(workspace, part)

    def _next(self) -> CubePart | None:
        with self._lock:
            if self._stop is not None:
                return None
            part = next(self._parts, None)
            if part is None:
                self._stop = "done"
            elif self.taken and self._limit.passed():
                self._stop = "time"
                return None
            else:
                self.taken += 1
                self.settled += part.rule_sets
            return part


class _ThreadWorkspace:
    """Work arrays and results of one thread."""

    def __init__(
        self,
        family: RuleSetFamily,
        table: CellTable,
        outcomes: PermutedOutcomes,
        plan: CubePlan,
        floors: KernelFloors,
        keep: int,
        seed: int,
    ) -> None:
        cells, leaves, nodes = plan.room()
        self._family, self._cells, self._outcomes = family, table.cells, outcomes
        self._floors, self._keep, self._strata = floors, keep, table.strata
        self._keys = np.random.default_rng(seed).integers(0, 2**64, size=len(table.cells.sizes), dtype=np.uint64)
        self._observed = CubeCounts(
            np.zeros(cells * table.strata, dtype=np.int64), np.zeros(cells), np.zeros(cells, dtype=np.uint64)
        )
        self._counts = np.zeros(cells * LANES, dtype=np.float32)
        above, below, pivot, fraction = np.zeros((4, leaves), dtype=np.float32)
        self._leaves = LeafExpectations(above, below, pivot, fraction, np.zeros(nodes, dtype=np.uint8))
        self._rule_sets = ObservedRuleSets(
            key=np.zeros(leaves, dtype=np.uint64),
            significant=np.zeros(leaves, dtype=np.uint64),
            leaf=np.zeros(leaves, dtype=np.int64),
            score=np.zeros(leaves),
            listed=np.zeros(leaves, dtype=np.uint64),
        )
        self.best = np.zeros((len(outcomes.blocks), LANES), dtype=np.float32)
        self.top = empty_top(len(family.rules))
        self.passed = 0

    @property
    def lowest(self) -> float:
        """Lowest listed score, once the list is full."""
        top = self.top
        return float(top["score"].min()) if len(top) >= self._keep > 0 else -math.inf

    def observe(self, part: CubePart, ranking: Ranking) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Count the observed outcomes.

        Returns:
            Keys of the rule sets that are large enough, and of the significant ones.
        """
        traversal, rows = part.tail.traversal, part.rows
        place, cells = part.tail.place[rows], int(traversal.span[0])
        within = place * self._strata + (self._cells.codes[rows, -1] if self._strata > 1 else 0)
        sizes = np.bincount(within, weights=self._cells.sizes[rows], minlength=cells * self._strata)
        observed = self._observed
        observed.size[: len(sizes)] = sizes
        observed.amount[:cells] = np.bincount(place, weights=self._outcomes.amounts[rows], minlength=cells)
        observed.key[:cells] = 0
        np.add.at(observed.key[:cells], place, self._keys[rows])
        passed, significant, listed = observe_rule_sets(
            traversal, self._floors, ranking, self._outcomes.strata, observed, self._leaves, self._rule_sets
        )
        if listed:
            self._list(part, listed)
        return self._rule_sets.key[:passed], self._rule_sets.significant[:significant]

    def permute(self, part: CubePart) -> None:
        """Count every permutation of a part, directly after ``observe``."""
        traversal, counts = part.tail.traversal, self._counts
        cube = counts[: int(traversal.span[0]) * LANES]
        for block, best in zip(self._outcomes.blocks, self.best, strict=True):
            fill_cube(block, part.rows, part.tail.place, cube)
            permute_rule_sets(traversal, self._leaves, counts, best)

    def _list(self, part: CubePart, listed: int) -> None:
        groups = empty_top(len(self._family.rules), listed)
        groups["chosen"] = part.chosen
        # Row 0 of the family's rules is "no rule".
        leaves = self._rule_sets.leaf[:listed]
        groups["chosen"][:, part.tail.attributes] = rules_at_leaves(part.tail.steps, leaves) + 1
        groups["length"] = description_length(self._family, groups["chosen"])
        groups["score"], groups["key"] = self._rule_sets.score[:listed], self._rule_sets.listed[:listed]
        groups["copies"] = 1
        self.top = merge_top([self.top, groups], self._keep)


ENTRIES = 2**25
"""Approximate number of memberships held at once."""


def list_candidates(
    family: RuleSetFamily, table: CellTable, result: DepthFirstResult, queries: Booleans | None = None
) -> CandidateFamily:
    """List the top groups of a search, highest score first, and the requested rule sets (queries, cells)."""
    queries = np.zeros((0, len(table.cells.sizes)), dtype=bool) if queries is None else queries
    chosen, rows = result.top["chosen"], max(1, ENTRIES // len(table.cells.sizes))
    moments = [
        table.sum_moments(cells_of_rule_sets(family, table.cells, chosen[start : start + rows]))
        for start in range(0, len(chosen), rows)
    ]
    sums = np.concatenate([*moments, table.sum_moments(queries)], axis=1)
    return CandidateFamily(family, table, chosen, result.top["copies"], queries, sums)


def largest_permuted_gaps(table: CellTable, outcomes: PermutedOutcomes, inside: Booleans) -> Floats:
    """Compute the largest absolute standardised gap in each permutation, shape (permutations,).

    Args:
        table: People.
        outcomes: Observed and permuted outcomes.
        inside: Which occupied cells each group contains, shape (groups, cells).
    """
    groups = compare_groups(table, table.sum_moments(inside), table.total_moments[:, None])
    tails = correct_tails(groups, table.skewness)
    if not table.counted:  # scores are permuted as deviations from their mean
        tails = dataclasses.replace(tails, expected=np.zeros(len(inside)))
    gaps = largest_gap_to_rest(tails, lambda where: inside[where], len(table.cells.sizes))
    maxima = [gaps(block.astype(np.float32)) for block in outcomes.blocks]
    return np.concatenate(maxima)[: outcomes.permutations]


PERMUTED_AT_ONCE = 1 << 22
"""Approximate number of amounts held at once in double precision."""


@dataclass(frozen=True)
class PermutedOutcomes:
    """Outcomes by occupied cell, observed and permuted.

    Attributes:
        amounts: Number of positive outcomes, or sum of scores minus the mean of their stratum, shape (cells,).
        blocks: The same for permuted outcomes, LANES permutations in each, (cells, LANES). The last block is padded
            with zeros.
        permutations: Number of permutations.
        strata: Moments of all people.
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
    # If all values are equal, the remainder after cancellation is rounding error, not spread.
    spread = np.where(spread > 1e-12 * np.maximum(squares, 1e-300), spread, 0.0)
    strata = StratumMoments(
        people=people.astype(np.int64),
        mean=mean if table.counted else np.zeros(table.strata),
        variance=spread / np.maximum(people - 1, 1),
        skewness=table.skewness,
    )
    usual = np.zeros(len(table.cells.sizes)) if table.counted else mean[table.cells.codes[:, -1]] * table.cells.sizes
    largest = int(table.cells.sizes.max(initial=0))
    # Counts are at most the size of a cell. The smallest sufficient type keeps the permutations in the cache.
    kind = np.float32 if not table.counted or largest > 65535 else np.uint16 if largest > 255 else np.uint8
    step = max(1, PERMUTED_AT_ONCE // max(len(usual), 1))
    blocks: list[NDArray[np.generic]] = []
    for start in range(0, permutations, LANES):
        number = min(LANES, permutations - start)
        block: NDArray[Any] = np.zeros((len(usual), LANES), dtype=kind)
        for lane in range(0, number, step):
            sums = table.permute_sums(min(step, number - lane), rng)
            block[:, lane : lane + len(sums)] = (sums - usual).T
        blocks.append(block)
    amounts = table.sums(table.values) - usual
    return PermutedOutcomes(amounts if table.counted else _round_to_grid(amounts), tuple(blocks), permutations, strata)


def _round_to_grid(amounts: Floats) -> Floats:
    """Round amounts to a grid on which their sums are exact in any order, about 1e-15 of their total."""
    largest = float(np.abs(amounts).sum())
    if largest == 0:
        return amounts
    grid = 2.0 ** (math.ceil(math.log2(largest)) - 52)
    return np.asarray(np.rint(amounts / grid) * grid)
