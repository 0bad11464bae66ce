"""Selection and order of the findings, and rule sets that users request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People
from evenhand.schema.subdomain import Runs, parse_subdomain
from evenhand.subgroups.assessment import CandidateStatistics, describe_finding
from evenhand.subgroups.gaps import MOST_ENTRIES, StratifiedGroups, compare_groups
from evenhand.subgroups.result import Finding
from evenhand.subgroups.rules import Range, Rule, Rules, describe_rules
from evenhand.subgroups.tabulate import CellTable


def list_findings(
    table: CellTable,
    statistics: CandidateStatistics,
    lengths: Integers,
    copies: Integers,
    *,
    inside_of: Callable[[Integers], Booleans],
    describe: Callable[[int], tuple[Rules, str]],
    max_findings: int,
    margin: float,
    better: int = 1,
    unit: tuple[float, float] = (0.0, 1.0),
) -> tuple[Finding, ...]:
    """List the findings in reading order: each is followed by those that it explains (see ``explain_findings``).

    Args:
        table: People by cell.
        statistics: Statistics of the tested groups, then of any requested rule sets.
        lengths: Number of rules of each tested group.
        copies: Number of rule sets with the same members as each tested group.
        inside_of: Function that determines which occupied cells groups contain, by position, shape (groups, cells).
        describe: Function that returns the rules of a group and their description.
        max_findings: Maximum number of findings.
        margin: Smaller differences do not matter.
        better: 1 if a higher value is better for people, else -1.
        unit: Center and spread of the values, see ``describe_finding``.
    """
    rows = statistics.exact_rows[statistics.exact_rows < len(lengths)]
    # A group and its complement have the same |z| up to rounding. The shorter description comes first, then the group
    # that is worse off.
    scores = np.round(statistics.scores, 9)
    order = rows[np.lexsort((better * statistics.groups.gap[rows] > 0, lengths[rows], -scores[rows]))]
    significant = order[statistics.found[order]]
    inside = inside_of(significant)
    unexplained, explained_by = explain_findings(
        table, statistics, significant, inside, scores[significant], margin=margin, better=better
    )
    explained = significant[explained_by[significant] >= 0]
    listed = np.concatenate([unexplained, explained, order[~statistics.found[order]]])[:max_findings].tolist()
    counts = Counter(explained_by.tolist())
    below: dict[int, list[int]] = {i: [] for i in (-1, *listed)}
    for i in listed:
        explaining = int(explained_by[i])
        below[explaining if explaining in below else -1].append(i)
    reading_order = [i for top in below[-1] for i in (top, *below[top])]
    places = {i: place for place, i in enumerate(reading_order)}
    return tuple(
        describe_finding(
            statistics,
            i,
            *describe(i),
            unit,
            under=places.get(int(explained_by[i])),
            explains=counts[i],
            others=int(copies[i]) - 1,
        )
        for i in reading_order
    )


# Which findings are listed at the top level, and which they explain.
#
# The clearest finding is listed first: the one with the largest standardised gap, so that a likelihood ratio favours it
# over all others as the one group that is treated differently. It *explains* every finding whose gap disappears once
# membership in it is accounted for: people are divided into those inside and outside, and the finding is compared with
# the rest among people on the same side (Mantel and Haenszel 1959). If that gap
#
# - stays below the critical value that controls the whole search, or
# - is smaller than the margin, or has the other sign,
#
# then the finding is listed under the first one, whether it is simpler, narrower, overlapping or its complement. The
# clearest of the remaining findings is listed next, people are divided by it too, and so on.
#
# Groups that are worse off are listed before groups that are better off, because readers look for harm. But a single
# favoured group leaves many groups slightly worse off. So favoured groups come first if the clearest group is one of
# them, and that halves the list.


def explain_findings(
    table: CellTable,
    statistics: CandidateStatistics,
    significant: Integers,
    inside: Booleans,
    scores: Floats,
    *,
    margin: float,
    better: int,
) -> tuple[Integers, Integers]:
    """Determine which findings are unexplained, and for each tested group the finding that explains it, or -1.

    Args:
        table: People by cell.
        statistics: Statistics of the tested groups.
        significant: Positions of the significant groups, the clearest first.
        inside: Which occupied cells these contain, shape (significant, cells).
        scores: Their scores.
        margin: Smaller differences do not matter.
        better: 1 if a higher value is better for people, else -1.
    """
    worse = better * statistics.groups.gap[significant] < 0
    direction = np.sign(statistics.groups.gap[significant])
    turns = []
    for early in (worse, ~worse):  # these findings are listed before the others
        explained_by = np.full(len(statistics.z), -1, dtype=np.int64)
        pending, pending_scores, parts = np.arange(len(significant)), scores, table.cells.codes[:, -1]
        unexplained: list[int] = []
        while len(pending):
            clearest = int(pending[np.lexsort((-pending_scores, ~early[pending]))[0]])
            unexplained.append(clearest)
            parts = np.unique(2 * parts + inside[clearest], return_inverse=True)[1].ravel()
            pending = pending[pending != clearest]
            groups = _groups_within(table, parts, inside[pending])
            matters = (np.abs(groups.gap) >= margin) & (np.sign(groups.gap) == direction[pending])
            z = np.where(matters, np.abs(groups.z), 0.0)
            remains = z >= statistics.correction.critical
            explained_by[significant[pending[~remains]]] = significant[clearest]
            pending, pending_scores = pending[remains], np.asarray(np.round(z[remains], 9), dtype=np.float64)
        turns.append((significant[unexplained], explained_by))
    harm, favour = turns
    is_favoured_clearest = len(significant) > 0 and not worse[scores.argmax()]
    return favour if is_favoured_clearest and 2 * len(favour[0]) <= len(harm[0]) else harm


def _groups_within(table: CellTable, parts: Integers, inside: Booleans) -> StratifiedGroups:
    """Compare groups with the other people in the same part.

    Args:
        table: People.
        parts: Part of each occupied cell, numbered from 0, shape (cells,).
        inside: Which cells each group contains, shape (groups, cells).
    """
    # The cells of each part are made adjacent, so that one pass sums all parts.
    order = np.argsort(parts, kind="stable")
    starts = np.searchsorted(parts[order], np.arange(parts.max(initial=-1) + 1))
    moments = table.cell_moments[:, order]
    rows = max(1, MOST_ENTRIES // max(len(order), 1))
    blocks = [inside[start : start + rows, order] for start in range(0, max(len(inside), 1), rows)]
    sums = [
        np.concatenate([np.add.reduceat(np.where(block, moment, 0.0), starts, axis=1) for block in blocks])
        for moment in moments
    ]
    return compare_groups(table, np.array(sums), np.add.reduceat(moments, starts, axis=1)[:, None])


# Requested rule sets: conditions on any attributes, independent of the cells.


@dataclass(frozen=True)
class QueriedRuleSet:
    """A requested rule set.

    Attributes:
        rules: Its conditions.
        words: Description in words.
        inside: Mask of the people who satisfy them, shape (n,).
    """

    rules: Rules
    words: str
    inside: Booleans


def parse_rule_sets(people: People, conditions: Sequence[str]) -> tuple[QueriedRuleSet, ...]:
    """Parse rule sets such as ``age >= 90 and sex == Male``. A missing value satisfies no condition.

    Raises:
        OptionError: A condition is invalid or empty, or excludes all values.
    """
    rule_sets = []
    for text in conditions:
        subdomain = parse_subdomain(people.schema, [text]) if text.strip() else None
        if subdomain is None:
            raise OptionError("a requested rule set is empty", hint='for example: "age >= 65 and sex == Male"')
        inside = np.ones(len(people), dtype=bool)
        rules: Rules = {}
        for name, runs in subdomain.allowed.items():
            attribute, entries = people.schema[name], people.individuals[:, people.schema.position(name)]
            inside &= np.any([(entries >= low) & (entries <= high) for low, high in runs], axis=0)
            rules[name] = _build_rule(attribute, runs)
        rule_sets.append(QueriedRuleSet(rules, describe_rules(rules), inside))
    return tuple(rule_sets)


def _build_rule(attribute: Attribute, runs: Runs) -> Rule:
    if attribute.values is not None:
        return tuple(attribute.text(entry) for low, high in runs for entry in np.arange(low, high + 1))
    ranges = [
        Range(low=None if low <= attribute.first else low, high=None if high >= attribute.last else high)
        for low, high in runs
    ]
    return ranges[0] if len(ranges) == 1 else tuple(part.words() for part in ranges)
