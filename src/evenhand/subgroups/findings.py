"""Which rule sets are listed, in what order, and what is said of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People
from evenhand.schema.subdomain import Runs, parse_subdomain
from evenhand.subgroups.assessment import CandidateFamily, CandidateStatistics
from evenhand.subgroups.candidates import CountedFamily
from evenhand.subgroups.gaps import MOST_ENTRIES, StratifiedGroups, compare_weighted
from evenhand.subgroups.result import Finding, RefusedRuleSet, list_in_reading_order
from evenhand.subgroups.rules import Range, Rule, Rules, RuleSet, describe_rules
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets

MOST_SYNONYMS = 5
"""Other descriptions of the same people that are listed."""


def list_findings(
    lot: CandidateFamily,
    standing: CandidateStatistics,
    *,
    most: int,
    margin: float,
    better: int,
    counted: CountedFamily | None = None,
) -> tuple[Finding, ...]:
    """Return the findings as a reader meets them, see ``explain_findings`` for what is shown by itself.

    Args:
        lot, standing: the rule sets and what is known of them.
        most: how many.
        margin: a difference that is smaller says nothing new.
        better: 1 if a higher value is better for people, else -1.
        counted: the family, to tell other descriptions of the same people.
    """
    known = standing.exact_rows[standing.exact_rows < len(lot.candidates)]
    # Mirror images are equally clear but for rounding; then the simpler one comes first, and the one worse off.
    away, rules = np.round(np.abs(standing.z[known]), 9), (lot.candidates.chosen[known] > 0).sum(axis=1)
    order = known[np.lexsort((better * standing.gap[known] > 0, rules, -away))]
    significant = order[standing.found[order]]
    shown, above = explain_findings(lot, standing, significant, margin=margin, better=better)
    kept = shown.tolist()[:most]
    kept += _take_in_turns(significant[above[significant] >= 0], above, kept)[: most - len(kept)]
    kept += order[~standing.found[order]][: most - len(kept)].tolist()
    explained = Counter(above.tolist())
    position = {i: at for at, i in enumerate(kept)}
    every = {cut.attribute: cut.names for cut in lot.family.cuts}
    found = []
    for i in kept:
        chosen = lot.candidates.chosen[i]
        rules = lot.family.describe(chosen)
        alike = (
            counted.same(lot.family, chosen, MOST_SYNONYMS)
            if counted is not None and lot.candidates.copies[i] > 1
            else ()
        )
        finding = describe_finding(lot, standing, i, rules, describe_rules(rules, every))
        place = {
            "under": position.get(int(above[i])),
            "explains": explained[i],
            "same": tuple(RuleSet(rules=lot.family.describe(row)) for row in alike),
            "others": int(lot.candidates.copies[i]) - 1,
        }
        found.append(finding.model_copy(update=place))
    return list_in_reading_order(found)


def _take_in_turns(explained: Integers, above: Integers, shown: list[int]) -> list[int]:
    """Return the clearest that each of the findings shown explains, then the second of each, and so on."""
    below: dict[int, list[int]] = {i: [] for i in shown}
    for i in explained.tolist():
        if int(above[i]) in below:
            below[int(above[i])].append(i)
    turns = sorted((turn, place, i) for place, each in enumerate(below.values()) for turn, i in enumerate(each))
    return [i for _, _, i in turns]


def describe_finding(
    lot: CandidateFamily,
    standing: CandidateStatistics,
    i: int,
    rules: Rules,
    words: str,
) -> Finding:
    """Return what is known of one rule set, in the words of its rules."""
    groups, rates = standing.groups.at(np.array([i])), standing.rates
    part, counted = groups.two_sided[0], lot.table.counted and groups.people is None
    size, rest = groups.count_people(0)
    return Finding(
        rules=rules,
        words=words,
        size=size,
        rest=rest,
        effective_size=None if groups.people is None else float(groups.size[0][part].sum()),
        effective_rest=None if groups.people is None else float(groups.rest[0][part].sum()),
        positives=round(float(groups.total[0][part].sum())) if counted else None,
        rest_positives=round(float(groups.rest_totals[0][part].sum())) if counted else None,
        rate=float(rates[0][i]),
        rest_rate=float(rates[1][i]),
        gap=float(standing.gap[i]),
        low=float(standing.low[i]),
        high=float(standing.high[i]),
        plain_low=float(standing.plain_low[i]),
        plain_high=float(standing.plain_high[i]),
        z=float(standing.z[i]),
        adjusted_p=float(standing.p[i]),
        found=bool(standing.found[i]),
    )


def judge_rule_sets(
    conditions: tuple[QueriedRuleSet, ...],
    refused: dict[int, RefusedRuleSet],
    lot: CandidateFamily,
    standing: CandidateStatistics,
) -> tuple[Finding | RefusedRuleSet, ...]:
    """Return what is said of each rule set that was asked about, in the order of asking.

    Args:
        conditions: the rule sets.
        refused: by position, those that nothing is said about.
        lot, standing: the others, after the candidates.
    """
    answers: list[Finding | RefusedRuleSet] = []
    at = len(lot.candidates)
    for position, one in enumerate(conditions):
        if position in refused:
            answers.append(refused[position])
            continue
        answers.append(describe_finding(lot, standing, at, one.rules, one.words))
        at += 1
    return tuple(answers)


# Which findings are shown by themselves, and what they explain.
#
# The clearest finding is shown first: the one whose standardised gap is the largest, so that a likelihood ratio favours
# it over all others as the one group that is treated differently. It *explains* every finding of which nothing is left
# once it is known who belongs to the group shown: people are divided into those inside and outside, and the finding is
# compared with the rest among people on the same side (Mantel and Haenszel 1959). If that gap
#
# - stays below the critical value that controls the whole search, or
# - is smaller than the margin, so that it does not matter, or points the other way,
#
# then the finding stands under the one shown, be it simpler, narrower, overlapping or its mirror image. Of those that
# are left the clearest is shown next, and people are divided by it too, until everything is shown or explained.
#
# Groups worse off are shown before any that are better off, since harm is what a reader looks for. But one favoured
# group leaves behind many that seem to be worse off a little; so it is told the other way round where that takes at
# most half as many findings.


def explain_findings(
    lot: CandidateFamily, standing: CandidateStatistics, significant: Integers, *, margin: float, better: int
) -> tuple[Integers, Integers]:
    """Return the findings that are shown by themselves, and for each candidate the one that explains it, -1 for none.

    Args:
        lot, standing: the candidates and what is known of them.
        significant: positions of those that are significant, the clearest first.
        margin: differences that do not matter are smaller.
        better: 1 if a higher value is better for people, else -1.
    """
    worse = better * standing.gap[significant] < 0
    harm, favour = (_explain_in_turn(lot, standing, significant, margin, first) for first in (worse, ~worse))
    return favour if 2 * len(favour[0]) <= len(harm[0]) else harm


def _explain_in_turn(
    lot: CandidateFamily, standing: CandidateStatistics, significant: Integers, margin: float, first: Booleans
) -> tuple[Integers, Integers]:
    """Return the same, where some of the findings, ``first``, are shown before all others."""
    table, above = lot.table, np.full(len(lot.candidates), -1, dtype=np.int64)
    inside = cells_of_rule_sets(lot.family, table.cells, lot.candidates.chosen[significant])
    direction = np.sign(standing.gap[significant])
    left, z = np.arange(len(significant)), np.abs(standing.z[significant])
    parts = table.cells.codes[:, -1]
    shown: list[int] = []
    while len(left):
        clearest = int(left[np.lexsort((-np.round(z, 9), ~first[left]))[0]])
        shown.append(clearest)
        # What is shown parts the people once more, and the others are looked at within the parts.
        parts = np.unique(2 * parts + inside[clearest], return_inverse=True)[1].ravel()
        left = left[left != clearest]
        groups = _groups_within(table, parts, inside[left])
        moved = groups.rates[0] - groups.rates[1]
        matters = (np.abs(moved) >= margin) & (np.sign(moved) == direction[left])
        z = np.where(matters, np.abs(groups.z), 0.0)
        remains = z >= standing.critical
        above[significant[left[~remains]]] = significant[clearest]
        left, z = left[remains], z[remains]
    return significant[shown], above


def _groups_within(table: CellTable, parts: Integers, inside: Booleans) -> StratifiedGroups:
    """Return groups compared with others in the same part of the people.

    Args:
        table: the people.
        parts: the part of each occupied cell, 0, 1, ..., shape (cells,).
        inside: which cells each group holds, shape (groups, cells).
    """
    # Cells of a part one after the other, so that the sums of all parts are one pass.
    order = np.argsort(parts, kind="stable")
    first = np.searchsorted(parts[order], np.arange(parts.max(initial=-1) + 1))

    weighted, plain = table.weights is not None, (None, table.values, np.square(table.values))
    sums = [table.sums(values)[order] for values in (table.moments if weighted else plain)]
    rows = max(1, MOST_ENTRIES // max(len(order), 1))

    def add_up(held: Booleans) -> Floats:
        blocks = [held[start : start + rows, order] for start in range(0, max(len(held), 1), rows)]
        return np.array(
            [
                np.concatenate([np.add.reduceat(np.where(block, weights, 0.0), first, axis=1) for block in blocks])
                for weights in sums
            ]
        )

    everybody = add_up(np.ones((1, len(parts)), dtype=bool))
    if weighted:
        return compare_weighted(table, add_up(inside), everybody)
    own = add_up(inside)
    people = (everybody[0], everybody[1], everybody[2])
    return StratifiedGroups(own[0], own[1], own[2], people, table.counted, table.width)


# Rule sets that somebody asks about: conditions on any attributes, which need not follow the cells.


@dataclass(frozen=True)
class QueriedRuleSet:
    """A rule set that was asked about.

    Attributes:
        rules: what its conditions say.
        inside: who is in it, shape (n,).
    """

    rules: Rules
    inside: Booleans

    @property
    def words(self) -> str:
        """The rule set as one says it."""
        return describe_rules(self.rules)


def parse_rule_sets(people: People, conditions: Sequence[str]) -> tuple[QueriedRuleSet, ...]:
    """Read rule sets such as ``age >= 90 and sex == Male``; who misses a value meets no condition on it.

    Raises:
        OptionError: a text cannot be read, says nothing, or nothing is left; the message points at the place.
    """
    found = []
    for text in conditions:
        part = parse_subdomain(people.schema, [text]) if text.strip() else None
        if part is None:
            raise OptionError("a rule set to judge says nothing", hint='write for example "age >= 65 and sex == Male"')
        inside = np.ones(len(people), dtype=bool)
        rules: Rules = {}
        for name, runs in part.allowed.items():
            attribute, entries = people.schema[name], people.individuals[:, people.schema.position(name)]
            inside &= np.any([(entries >= low) & (entries <= high) for low, high in runs], axis=0)
            rules[name] = _build_rule(attribute, runs)
        found.append(QueriedRuleSet(rules, inside))
    return tuple(found)


def _build_rule(attribute: Attribute, runs: Runs) -> Rule:
    if attribute.values is not None:
        return tuple(attribute.text(entry) for low, high in runs for entry in np.arange(low, high + 1))
    ranges = [
        Range(low=None if low <= attribute.first else low, high=None if high >= attribute.last else high)
        for low, high in runs
    ]
    return ranges[0] if len(ranges) == 1 else tuple(one.words() for one in ranges)
