"""What stands out: gaps, intervals and adjusted p of rule sets, under the control that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.stats import (
    adjusted_p,
    benjamini_yekutieli,
    bonferroni,
    critical_value,
    false_coverage_confidence,
    normal_p,
    normal_quantile,
)
from evenhand.subgroup.best import Contest, Versus, contests, pair_z
from evenhand.subgroup.candidates import Candidates
from evenhand.subgroup.chance import Largest, Maxima, largest_gap, maxima
from evenhand.subgroup.config import Config
from evenhand.subgroup.cube import membership
from evenhand.subgroup.family import Family
from evenhand.subgroup.floors import floors
from evenhand.subgroup.gaps import Groups, adjusted, groups_of, near, plain, tails
from evenhand.subgroup.tabulate import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ON_TOP = 2000
"""Findings that are compared with each other for nesting: the clearest ones."""


@dataclass(frozen=True)
class Standing:
    """What is known of each rule set: the candidates first, then those that were asked about.

    Attributes:
        groups: sizes and sums, and of those compared with.
        z: standardised gaps.
        p: adjusted.
        low, high, plain_low, plain_high: adjusted and plain intervals.
        found: which stand out.
        known: which can be compared with anybody.
        closely: positions of those whose intervals are exact: all, or the clearest and those asked about where there
            are very many.
        versus: cells of the best treated other group, shape (rule sets, attributes); None against the rest.
        critical: standard deviations of the adjusted intervals.
        stopped: why fewer permutations were done than wanted; None if all were.
        permutations: how many were done.
    """

    groups: Groups
    z: Floats
    p: Floats
    low: Floats
    high: Floats
    plain_low: Floats
    plain_high: Floats
    found: Bools
    known: Bools
    closely: Ints
    versus: Ints | None
    critical: float
    stopped: str | None
    permutations: int

    @cached_property
    def rates(self) -> tuple[Floats, Floats]:
        """Of each rule set, and of those it is compared with."""
        return self.groups.rates

    @cached_property
    def gap(self) -> Floats:
        """Of each rule set."""
        return np.asarray(self.rates[0] - self.rates[1])

    @cached_property
    def certain(self) -> Floats:
        """How large each gap is at least: the end of the adjusted interval nearer to 0, below 0 if it holds 0."""
        return np.maximum(self.low, -self.high)


@dataclass(frozen=True)
class Lot:
    """Rule sets that are looked at together.

    Attributes:
        candidates: of the family.
        asked: for each rule set asked about, which occupied cells it holds, shape (asked, cells).
    """

    family: Family
    table: Table
    candidates: Candidates
    asked: Bools

    def inside(self, where: slice) -> Bools:
        """Which occupied cells some of the rule sets hold, shape (rule sets, cells)."""
        number = len(self.candidates)
        own = membership(self.family, self.table.cells, self.candidates.chosen[where])
        others = self.asked[max(where.start - number, 0) : max(where.stop - number, 0)]
        return np.concatenate([own, others])

    def groups(self) -> Groups:
        """All of them, compared with everybody else."""
        table, own = self.table, self.candidates
        sums = []
        for counted, weights in (
            (own.size, None),
            (own.total, table.values),
            (own.squares, np.square(table.values)),
        ):
            sums.append(np.concatenate([counted, self.asked @ table.by_stratum(table.sums(weights)).T]))
        return groups_of(table, *sums)

    def __len__(self) -> int:
        return len(self.candidates) + len(self.asked)


def stand(
    lot: Lot,
    config: Config,
    rng: np.random.Generator,
    *,
    better: int = 1,
    drawn: Maxima | None = None,
    deadline: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> Standing:
    """Say which rule sets stand out.

    Args:
        lot: the rule sets.
        config: measure, control, confidence, margin.
        rng: for the permutations.
        better: 1 if a higher value is better for people, else -1.
        drawn: maxima over a larger family that the candidates were chosen from, in place of permutations of their own.
        deadline: on the clock of ``time.perf_counter``.
        progress: called with the share done.
    """
    table, groups = lot.table, lot.groups()
    known, cells = np.ones(len(lot), dtype=bool), None
    versus = _versus(lot, groups, config, better) if config.against == "best" else None
    if versus is not None:
        groups, known, cells = _against(versus, table, groups)
        shape = tails(groups, np.zeros(1))
        inside = lot.inside(slice(0, len(lot)))
        z = groups.z if table.counted else _mean_z(groups, versus)
        largest: Largest = lambda sums: versus.largest(inside, sums)  # noqa: E731
    else:
        shape = tails(groups, table.skewness)
        z = shape.z(groups.total.sum(axis=-1))
        largest = largest_gap(shape, lot.inside, len(table.cells.sizes))
    if config.control == "max-t" and drawn is None:
        drawn = maxima(table, largest, config.permutations, rng, deadline=deadline, progress=progress)
    critical, p = _control(z, known, config, drawn)
    low, high = near(groups, critical)
    found = known & (p <= 1 - config.confidence + 1e-12)
    closely = np.flatnonzero(_worth(lot, known, np.maximum(low, -high), ON_TOP + config.most))
    some, edges = groups.at(closely), shape.at(closely)
    low[closely], high[closely] = adjusted(some, edges, critical)
    plain_low, plain_high = np.full((2, len(lot)), np.nan)
    plain_low[closely], plain_high[closely] = plain(some, config.confidence)
    found[closely] &= (low[closely] > 0) | (high[closely] < 0)
    found &= np.maximum(-low, high) >= config.margin
    return Standing(
        groups=groups,
        z=z,
        p=p,
        low=low,
        high=high,
        plain_low=plain_low,
        plain_high=plain_high,
        found=found,
        known=known,
        closely=closely,
        versus=cells,
        critical=critical,
        stopped=None if drawn is None else drawn.stopped,
        permutations=0 if drawn is None else len(drawn.values),
    )


def _worth(lot: Lot, known: Bools, certain: Floats, most: int) -> Bools:
    """Which rule sets are worth an exact interval: those asked about, and the clearest of the others."""
    chosen = np.zeros(len(lot), dtype=bool)
    chosen[len(lot.candidates) :] = True
    order = np.argsort(np.where(known, -certain, np.inf), kind="stable")
    chosen[order[:most]] = True
    return chosen


def _control(z: Floats, known: Bools, config: Config, drawn: Maxima | None) -> tuple[float, Floats]:
    """The critical z, and p adjusted for all that was looked at."""
    tested = max(int(known.sum()), 1)
    if config.control == "none":
        return normal_quantile(config.confidence), normal_p(z)
    if config.control == "BY":
        p = np.ones(len(z))
        p[known] = benjamini_yekutieli(normal_p(z[known]))
        reported = int((p <= 1 - config.confidence).sum())
        return normal_quantile(false_coverage_confidence(reported, tested, config.confidence)), p
    values = np.zeros(0) if drawn is None else drawn.values
    critical = critical_value(values, config.confidence)
    if np.isfinite(critical):
        # No adjusted interval is narrower than the plain one, even where few permutations differ.
        return max(critical, normal_quantile(config.confidence)), adjusted_p(z, values)
    # Too few permutations before it was stopped: a bound that needs none.
    return normal_quantile(bonferroni(config.confidence, tested)), np.minimum(normal_p(z) * tested, 1.0)


def _versus(lot: Lot, groups: Groups, config: Config, better: int) -> Versus:
    people, total, squares = (part[0] for part in groups.everybody)
    spread = None if groups.counted else (squares - total**2 / people) / max(people - 1, 1)
    number = len(lot.candidates)
    limits = floors(config.support, config.least_people, lot.table.people)
    least = max(limits.share, limits.people)
    compared = contests(lot.family, lot.table, lot.candidates.chosen, least)
    for i in range(len(lot.asked)):
        compared += _asked_contest(lot, number + i, lot.asked[i], least)
    return Versus(compared, groups.size[:, 0], better, spread)


def _asked_contest(lot: Lot, at: int, inside: Bools, least: int) -> list[Contest]:
    """A rule set that was asked about is compared with the single cells of all attributes that it has nobody in."""
    everything = np.ones((1, len(lot.family.cuts)), dtype=np.int64)
    [contest] = contests(lot.family, lot.table, everything, least)
    holds = np.atleast_2d((contest.of & inside).any(axis=1))
    return [Contest(np.array([at]), contest.cells, holds, contest.of, contest.size)]


def _against(versus: Versus, table: Table, groups: Groups) -> tuple[Groups, Bools, Ints]:
    """Groups compared with the best treated other one instead of with everybody else."""
    size, total, squares, cells = versus.chosen(table, groups.total[:, 0])
    everybody = (
        groups.size + size[:, None],
        groups.total + total[:, None],
        groups.squares + squares[:, None],
    )
    return Groups(groups.size, groups.total, groups.squares, everybody, groups.counted), size > 0, cells


def _mean_z(groups: Groups, versus: Versus) -> Floats:
    known = groups.rest[:, 0] > 0
    z = np.zeros(len(known))
    k1, n1, k2, n2 = (side[known, 0] for side in (groups.total, groups.size, groups.rest_total, groups.rest))
    z[known] = pair_z(k1, n1, k2, n2, versus.spread)
    return z
