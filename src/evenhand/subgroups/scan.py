"""Subset scan of families that are too large to test every rule set.

Climbs start from all people, from each attribute in turn, and from random rule sets (coordinate ascent over several
attributes: Zhang and Neill, "Identifying significant predictive bias in classifiers", 2016). The same climbs on
permuted outcomes give the distribution of the largest gap, so that at most ``1 - confidence`` of searches have a
finding if outcomes do not depend on the attributes. Other groups cannot be tested with this distribution: a climb may
miss a group with a larger gap.

The best of very many rule sets is longer than the group behind it. Each significant one is therefore shortened, as far
as its z stays significant: ``z^2 / 2``, approximately the log-likelihood ratio, minus the description length increases,
and the description length does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb, log

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats
from evenhand.subgroups.assessment import CandidateFamily, MaxTCorrection, permute_outcomes
from evenhand.subgroups.climb import ClimbedCells, StratumMoments, climb_all
from evenhand.subgroups.config import FamilyTestSettings
from evenhand.subgroups.family import AttributeCut, RuleSetFamily
from evenhand.subgroups.gaps import compare_groups, correct_tails
from evenhand.subgroups.tabulate import CellTable

RANDOM_STARTS = 5
"""Number of random starts, in addition to one for each attribute."""

TRIED_AT_ONCE = 10
"""Number of permutations between checks of the time limit."""


class SubsetScan:
    """Climbs through the rule sets of a table.

    Args:
        family: Attributes and maximum depth. Its rules are not used: any subset of values is a rule.
        table: Unweighted people.
        min_size: Minimum number of people inside and outside.
        rng: Random generator of the starts.
    """

    def __init__(self, family: RuleSetFamily, table: CellTable, min_size: float, rng: np.random.Generator) -> None:
        self.family, self.table, self.min_size = family, table, min_size
        people, total, squares = table.total_moments
        mean = total / np.maximum(people, 1)
        spread = np.maximum(squares - total * mean, 0.0)
        # If all values are equal, the remainder after cancellation is rounding error, not spread.
        spread = np.where(spread > 1e-12 * np.maximum(squares, 1e-300), spread, 0.0)
        stratum = table.cells.codes[:, -1]
        self._codes = table.cells.codes[:, : len(family.cuts)].T
        self._expected = (mean[stratum] * table.cells.sizes)[:, None]
        self._cells = ClimbedCells(
            places=np.ascontiguousarray(self._codes * table.strata + stratum, dtype=np.int32),
            sizes=table.cells.sizes.astype(np.float64),
            values=np.array([len(cut.names) for cut in family.cuts]),
            ranges=np.array([cut.ordered * (len(cut.names) - cut.missing) for cut in family.cuts]),
            moments=StratumMoments(people, spread / np.maximum(people - 1, 1), table.skewness),
            min_size=float(max(min_size, 1)),
            depth=family.depth,
        )
        self._starts, self._firsts = _make_starts(family, rng)

    @property
    def tests(self) -> float:
        """Upper bound on the number of rule sets that climbs can reach."""
        return float(2.0 ** min(int(self._cells.values.sum()), 1000))

    @property
    def starts(self) -> int:
        """Number of starts."""
        return len(self._starts)

    def climb(self, sums: Floats) -> tuple[Booleans, Floats]:
        """Climb with sums of outcomes by cell, shape (cells,).

        Returns:
            Rule sets that the climbs end at, shape (climbs, attributes, values), and their absolute standardised gaps.
        """
        ends, z = np.zeros((2, *self._starts.shape), dtype=bool), np.zeros((2, self.starts))
        climb_all(self._cells, sums - self._expected[:, 0], self._starts, self._firsts, ends, z)
        return ends.reshape(-1, *self._starts.shape[1:]), z.ravel()

    def largest_gap(self, sums: NDArray[np.float32]) -> Floats:
        """Compute the largest gap that a climb reaches for each column of sums (cells, draws)."""
        return np.array([self.climb(column.astype(np.float64))[1].max() for column in sums.T])

    def standardise(self, inside: Booleans) -> Floats:
        """Compute the standardised gaps of groups of cells (groups, cells), 0 if they are too small."""
        moments = inside @ self.table.stratum_moments
        groups = compare_groups(self.table, moments, self.table.total_moments[:, None])
        z = correct_tails(groups, self.table.skewness).z(groups.total.sum(axis=-1))
        return np.where(np.minimum(*self.table.measure_sides(moments)) >= self.min_size, z, 0.0)

    def members(self, rule_sets: Booleans) -> Booleans:
        """Determine which cells rule sets (rule sets, attributes, values) contain, shape (rule sets, cells)."""
        inside = np.ones((len(rule_sets), self._codes.shape[1]), dtype=bool)
        for axis, codes in enumerate(self._codes):
            inside &= rule_sets[:, axis, codes]
        return inside

    def shorten(self, rule_set: Booleans, critical: float) -> Booleans:
        """Shorten a rule set (attributes, values) while its standardised gap exceeds the critical value."""
        sign = np.sign(self.standardise(self.members(rule_set[None]))[0])
        length, value = self.description_length(rule_set), -np.inf
        best = rule_set
        while True:
            trials = np.array([best, *self._neighbours(best)])
            z = sign * self.standardise(self.members(trials))
            lengths = np.array([self.description_length(trial) for trial in trials])
            values = np.where((z > critical) & (lengths <= length + 1e-9), z**2 / 2 - lengths, -np.inf)
            clearest = int(values.argmax())
            if not values[clearest] > value + 1e-9:
                return best
            best, length, value = trials[clearest], lengths[clearest], values[clearest]

    def _neighbours(self, rule_set: Booleans) -> Iterator[Booleans]:
        """Yield the rule sets without one of the rules, or with one value or one end of a range changed."""
        for axis, cut in enumerate(self.family.cuts):
            values = len(cut.names)
            own = rule_set[axis, :values]
            if own.all():
                continue
            rules = [np.ones(values, dtype=bool)]
            if not cut.ordered:
                rules += [own ^ (np.arange(values) == value) for value in range(values)]
            elif own[: (ranges := values - cut.missing)].any():
                low, high = np.flatnonzero(own)[[0, -1]]
                ends = [
                    (0, high),
                    (low, ranges - 1),
                    (low - 1, high),
                    (low + 1, high),
                    (low, high - 1),
                    (low, high + 1),
                ]
                rules += [
                    (start <= np.arange(values)) & (np.arange(values) <= end)
                    for start, end in ends
                    if 0 <= start <= end < ranges
                ]
            for rule in rules:
                if rule.any():
                    neighbour = rule_set.copy()
                    neighbour[axis, :values] = rule
                    yield neighbour

    def description_length(self, rule_set: Booleans) -> float:
        """Compute the nats that describe the rules of a rule set (attributes, values)."""
        rules = [(cut, rule_set[axis, : len(cut.names)]) for axis, cut in enumerate(self.family.cuts)]
        return sum(log(len(rules)) + _rule_length(cut, rule) for cut, rule in rules if not rule.all())


def _rule_length(cut: AttributeCut, rule: Booleans) -> float:
    """Compute the nats that select a rule of an attribute: its ends, or which values and how many."""
    values, chosen = len(rule) - cut.missing, int(rule.sum())
    if cut.ordered and not (cut.missing and rule[-1]):
        is_open = rule[0] or rule[values - 1]
        return log(2 * max(values - 1, 1)) if is_open else log(values * (values - 1))
    return log(len(rule)) + log(comb(len(rule), chosen))


def _make_starts(family: RuleSetFamily, rng: np.random.Generator) -> tuple[Booleans, NDArray[np.int64]]:
    """Build the starts, shape (starts, attributes, values), and the attribute that each climb changes first."""
    widths = np.array([len(cut.names) for cut in family.cuts])
    # The first start of each attribute includes all people.
    starts = np.tile(np.arange(widths.max()) < widths[:, None], (len(widths) + RANDOM_STARTS, 1, 1))
    for start in starts[len(widths) :]:
        axes = np.flatnonzero((rng.random(len(widths)) < 0.5) & (widths > 1))
        for axis in rng.permutation(axes)[: family.depth]:
            cut, subset = family.cuts[axis], rng.random(widths[axis]) < 0.5
            if cut.ordered:
                low, high = np.sort(rng.integers(widths[axis] - cut.missing, size=2))
                subset = (low <= np.arange(widths[axis])) & (np.arange(widths[axis]) <= high)
            if 0 < subset.sum() < widths[axis]:
                start[axis, : widths[axis]] = subset
    firsts = np.concatenate([np.arange(len(widths)), rng.integers(len(widths), size=RANDOM_STARTS)])
    return starts, firsts


def scan_family(
    scan: SubsetScan,
    config: FamilyTestSettings,
    rng: np.random.Generator,
    *,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> tuple[CandidateFamily, Floats, MaxTCorrection]:
    """Find the groups that climbs end at.

    Returns:
        The groups; the score that they are ranked by, ``z^2 / 2`` minus the description length; and the correction by
        the largest gap that climbs reach in each permutation of the outcomes.
    """
    ends, z = scan.climb(scan.table.cell_moments[1])
    correction = permute_outcomes(
        scan.table,
        scan.largest_gap,
        scan.tests,
        config,
        rng,
        at_once=TRIED_AT_ONCE,
        limit=limit,
        progress=progress,
    )
    critical = correction.critical
    ends, z = ends[z > 0], z[z > 0]
    shortened = [scan.shorten(end, critical) if gap > critical else end for end, gap in zip(ends, z, strict=True)]
    return *_build_candidates(scan, np.array(shortened, dtype=bool).reshape(ends.shape)), correction


def _build_candidates(scan: SubsetScan, rule_sets: Booleans) -> tuple[CandidateFamily, Floats]:
    """Build the family of the groups that rule sets describe, the shortest description of each, with their scores."""
    inside = scan.members(rule_sets)
    lengths = np.array([scan.description_length(rule_set) for rule_set in rule_sets])
    order = np.argsort(lengths, kind="stable")
    _, representatives = np.unique(np.packbits(inside[order], axis=1), axis=0, return_index=True)
    selection = order[np.sort(representatives)]
    rules, columns = [], []
    for axis, cut in enumerate(scan.family.cuts):
        own = rule_sets[selection, axis, : len(cut.names)]
        distinct = np.unique(np.concatenate([~np.zeros((1, len(cut.names)), dtype=bool), own]), axis=0)[::-1]
        rules.append(distinct)
        columns.append((own[:, None] == distinct).all(axis=2).argmax(axis=1))
    family = RuleSetFamily(scan.family.cuts, tuple(rules), scan.family.depth)
    candidates = CandidateFamily(
        family,
        scan.table,
        np.stack(columns, axis=1).astype(np.int64),
        np.ones(len(selection), dtype=np.int64),
        np.zeros((0, inside.shape[1]), dtype=bool),
        inside[selection] @ scan.table.stratum_moments,
    )
    return candidates, scan.standardise(inside[selection]) ** 2 / 2 - lengths[selection]
