"""Gaps between groups of real texts, tested like those between groups of people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand.core.typing import Floats
from evenhand.stats.proportion import count_needed
from evenhand.subgroups.assessment import (
    CandidateFamily,
    CandidateStatistics,
    MaxTCorrection,
    describe_finding,
    permute_outcomes,
    summarise_tests,
)
from evenhand.subgroups.config import TextSubgroupConfig
from evenhand.subgroups.findings import list_findings
from evenhand.subgroups.gaps import StratifiedGroups, scale_tails
from evenhand.subgroups.result import Finding, RefusedRuleSet
from evenhand.subgroups.text.mentions import Mentions, TextTable, count_rule_sets


def measure_observed_gaps(
    mentions: Mentions, values: Floats, counted: bool, config: TextSubgroupConfig
) -> dict[str, Any]:
    """Test every rule set over texts, and return the fields of the result that depend on the tests.

    Under the null hypothesis that the mentioned groups do not influence outcomes, outcomes are exchangeable among
    the texts that are compared, so that the permutation test is exact.

    Args:
        mentions: Groups that the texts mention.
        values: Outcome of each text, 0 or 1 or a score, shape (texts,).
        counted: Whether outcomes are 0 and 1.
        config: Settings.
    """
    min_texts = max(config.min_texts, count_needed(config.support, len(values)))
    if config.compared == "others":
        rows = np.flatnonzero(mentions.any.any(axis=1))
        mentions, values = mentions.of(rows), values[rows]
    texts = TextTable.of(mentions, values, counted=counted, compared=config.compared)
    family = texts.frequent_rule_sets(config.depth, min_texts)
    inside, compared_within = texts.sides(family)
    groups = texts.compare(inside, compared_within)
    enough = np.flatnonzero((groups.size[:, 0] >= min_texts) & (groups.rest[:, 0] >= config.min_texts))
    # Rule sets that the same texts satisfy are one test. The finding counts the other descriptions.
    sides = np.concatenate([inside, compared_within], axis=1)[enough]
    _, representatives, copies = np.unique(sides, axis=0, return_index=True, return_counts=True)
    by_length = np.argsort(representatives)
    tested, copies = enough[representatives[by_length]], copies[by_length]
    groups = groups.at(tested)
    # Outcomes are permuted within strata, and the texts that a rule set is compared within are whole strata, so that
    # the expected total of a rule set is the same in all permutations.
    largest = CandidateFamily.of_groups(texts.table, inside[tested]).largest_gap(
        scale_tails(groups, np.zeros(len(tested)))
    )
    correction = MaxTCorrection(0, np.empty(0), config.confidence)
    if len(tested):
        correction = permute_outcomes(texts.table, largest, len(tested), config, np.random.default_rng(config.seed))
    statistics = _summarise(groups, correction, config)
    return {
        "rule_sets": count_rule_sets([group.shape[1] for group in mentions.inside], config.depth),
        "tested": len(tested),
        "critical": correction.critical,
        "found": int(statistics.found.sum()),
        "findings": list_findings(
            texts.table,
            statistics,
            np.array([len(family[i]) for i in tested]),
            copies,
            inside_of=lambda rows: inside[tested[rows]],
            describe=lambda i: mentions.describe(family[tested[i]]),
            max_findings=config.most,
            margin=config.margin,
            better=-1 if config.measure == "false-negative" else 1,
        ),
        "judged": tuple(_judge(mentions, texts, rules, correction, min_texts, config) for rules in config.judged),
    }


def _summarise(groups: StratifiedGroups, correction: MaxTCorrection, config: TextSubgroupConfig) -> CandidateStatistics:
    return summarise_tests(
        groups, None, correction, groups.z, correction.conservative_p(groups.z), margin=config.margin
    )


def _judge(
    mentions: Mentions,
    texts: TextTable,
    requested: Mapping[str, str],
    correction: MaxTCorrection,
    min_texts: int,
    config: TextSubgroupConfig,
) -> Finding | RefusedRuleSet:
    """Test a requested rule set with the correction of the tested family."""
    terms = mentions.parse_rules(requested)
    rules, words = mentions.describe(terms)
    groups = texts.compare(*texts.sides([terms]))
    size, rest_size = int(groups.size[0, 0]), int(groups.rest[0, 0])
    for count, minimum, role in (
        (size, min_texts, "contain it"),
        (rest_size, config.min_texts, "are compared with those that contain it"),
    ):
        if count < minimum:
            reason = f"{count:,} texts {role}: fewer than {minimum:,}"
            return RefusedRuleSet(rules=rules, words=words, size=size, rest=rest_size, reason=reason)
    return describe_finding(_summarise(groups, correction, config), 0, rules, words)
