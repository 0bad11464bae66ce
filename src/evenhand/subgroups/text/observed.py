"""The gaps between real texts: every text is scored once, and everything after that is counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import normal_cdf, normal_quantile
from evenhand.stats.mean import SampleMoments, welch_interval
from evenhand.stats.permutation import permute_counts, permute_sums, standardised_gap, standardised_mean_gap
from evenhand.stats.proportion import count_needed
from evenhand.stats.score_difference import miettinen_nurminen
from evenhand.subgroups.config import TextSubgroupConfig
from evenhand.subgroups.control import AdjustedTests, adjust_text_tests, p_of_query, significant, text_p_values
from evenhand.subgroups.result import Finding, RefusedRuleSet, list_in_reading_order
from evenhand.subgroups.rules import RuleSet, describe_rules
from evenhand.subgroups.text.mentions import (
    MentionPatterns,
    Mentions,
    RuleSetSums,
    Terms,
    count_rule_sets,
    sample_variance,
)

BLOCK = 256
"""Rule sets whose permuted counts are held at once."""


@dataclass(frozen=True)
class ObservedGaps:
    """What was counted in real texts.

    Attributes:
        rule_sets: how many there are, before floors.
        tested: how many different ones meet the floors.
        critical: standard errors that the adjusted intervals reach; None where nothing is adjusted.
        found: how many are significant.
        findings: ranked, at most as many as were asked for.
        judged: rule sets that were asked about.
        notes: what else a reader must know.
    """

    rule_sets: int
    tested: int
    critical: float | None
    found: int
    findings: tuple[Finding, ...]
    judged: tuple[Finding | RefusedRuleSet, ...]
    notes: tuple[str, ...] = ()


def measure_observed_gaps(said: Mentions, values: Floats, counted: bool, config: TextSubgroupConfig) -> ObservedGaps:
    """Return every rule set, with the gap to the texts that it is compared with.

    For the control of the error the outcomes are permuted among the texts that are compared: exact if who a text
    speaks of makes no difference to its outcome.

    Args:
        said: who the texts speak of.
        values: 0 or 1, or a score, of each text, shape (n,).
        counted: whether they are 0 and 1.
        config: settings.
    """
    return _ObservedSearch(said, values, counted, config).result()


class _ObservedSearch:
    def __init__(self, said: Mentions, values: Floats, counted: bool, config: TextSubgroupConfig) -> None:
        self.said, self.counted, self.config = said, counted, config
        self.least = max(config.min_texts, count_needed(config.support, len(values)))
        rows = np.flatnonzero(said.any.any(axis=1)) if config.compared == "others" else np.arange(len(values))
        self.values = values[rows]
        self.patterns = MentionPatterns.among(said.of(rows))

    def result(self) -> ObservedGaps:
        config = self.config
        family = self.patterns.frequent_rule_sets(config.depth, self.least)
        inside, whole, sums = self.measure_family(family)
        enough = np.flatnonzero((sums.n >= self.least) & (sums.rest >= config.min_texts))
        # Rule sets about the very same texts are one test; the others are named beside it.
        first, same = _distinct_rule_sets(inside[enough], whole[enough])
        rows = enough[first]
        z = self.z(sums.some(rows))
        account = adjust_text_tests(z, config, lambda: self.maxima(inside[rows], whole[rows]))
        tested = [family[row] for row in rows]
        alike = [[family[enough[one]] for one in others] for others in same]
        findings = self.findings(tested, alike, sums.some(rows), z, text_p_values(account), account)
        # By the end of the interval nearer to 0: a small gap that is certain comes before a large one that is not.
        order = sorted(range(len(rows)), key=lambda i: (-max(findings[i].low, -findings[i].high), -abs(z[i]), i))
        kept = order[: config.most]
        under = self.find_explanations([tested[i] for i in kept], [findings[i] for i in kept], account.critical)
        return ObservedGaps(
            rule_sets=count_rule_sets([one.shape[1] for one in self.said.inside], config.depth),
            tested=len(rows),
            critical=account.critical,
            found=sum(one.found for one in findings),
            findings=list_in_reading_order(
                [
                    findings[i].model_copy(update={"under": parent, "explains": under.count(place)})
                    for place, (i, parent) in enumerate(zip(kept, under, strict=True))
                ]
            ),
            judged=tuple(self.judge(dict(one), account) for one in config.judged),
        )

    def measure_family(self, family: Sequence[Terms]) -> tuple[Booleans, Booleans, RuleSetSums]:
        inside, whole = self.patterns.rule_set_sides(family, self.config.compared)
        return inside, whole, RuleSetSums.over(inside, whole, self.patterns, self.values)

    def z(self, sums: RuleSetSums) -> Floats:
        if self.counted:
            return standardised_gap(sums.k, sums.n, sums.all_k, sums.all_n)
        mean = sums.all_k / np.maximum(sums.all_n, 1)
        return standardised_mean_gap(sums.k, sums.n, mean, sums.variance, sums.all_n)

    def maxima(self, inside: Booleans, whole: Booleans) -> Floats:
        """Return the largest |z| of all rule sets each time that the outcomes are permuted."""
        config, sizes = self.config, self.patterns.sizes
        rng = np.random.default_rng(config.seed)
        dealt, squares = (
            self.permuted_sums(rng),
            np.bincount(self.patterns.of, weights=self.values**2, minlength=len(sizes)),
        )
        largest = np.zeros(config.permutations)
        for start in range(0, len(inside), BLOCK):
            within, around = (side[start : start + BLOCK].astype(np.float64) for side in (inside, whole))
            n, all_n = (within @ sizes)[:, None], (around @ sizes)[:, None]
            k, all_k = within @ dealt.T, around @ dealt.T
            if self.counted:
                z = standardised_gap(k, n, all_k, all_n)
            else:  # a whole is made of strata, within which nothing is lost or gained by dealing
                variance = sample_variance(all_n, all_k, (around @ squares)[:, None])
                z = standardised_mean_gap(k, n, all_k / all_n, variance, all_n)
            largest = np.maximum(largest, np.abs(z).max(axis=0))
        return largest

    def permuted_sums(self, rng: np.random.Generator) -> Floats:
        """Return the sums of permuted outcomes by pattern, shape (permutations, patterns).

        Texts compared with ``others`` are dealt with among those that speak of people of the same categories: what a
        text is about may well make a difference, where who it speaks of makes none.
        """
        config, patterns = self.config, self.patterns
        spoken = np.stack([one.any(axis=1) for one in patterns.spoken], axis=1)
        if config.compared == "all":
            spoken = np.zeros_like(spoken)
        _, stratum = np.unique(spoken, axis=0, return_inverse=True)
        dealt = np.zeros((config.permutations, len(patterns.sizes)))
        for one in range(int(stratum.max(initial=-1)) + 1):
            columns = np.flatnonzero(stratum.ravel() == one)
            texts = np.isin(patterns.of, columns)
            values, of = self.values[texts], np.searchsorted(columns, patterns.of[texts])
            if self.counted:
                dealt[:, columns] = permute_counts(patterns.sizes[columns], int(values.sum()), config.permutations, rng)
            else:
                dealt[:, columns] = permute_sums(of, values, len(columns), config.permutations, rng)
        return dealt

    def findings(
        self,
        family: Sequence[Terms],
        alike: Sequence[Sequence[Terms]],
        sums: RuleSetSums,
        z: Floats,
        p: Floats,
        account: AdjustedTests,
    ) -> list[Finding]:
        config = self.config
        rate, rest_rate = sums.k / sums.n, (sums.all_k - sums.k) / sums.rest
        low, high = self.interval(sums, account.critical)
        plain_low, plain_high = self.interval(sums, float(normal_quantile(config.confidence)))
        found = significant(account, p, low, high, config.margin)
        return [
            Finding(
                rules=(rules := self.said.rules(terms)),
                words=describe_rules(rules),
                size=int(sums.n[i]),
                rest=int(sums.rest[i]),
                positives=round(sums.k[i]) if self.counted else None,
                rest_positives=round(sums.all_k[i] - sums.k[i]) if self.counted else None,
                rate=rate[i],
                rest_rate=rest_rate[i],
                gap=rate[i] - rest_rate[i],
                low=low[i],
                high=high[i],
                plain_low=plain_low[i],
                plain_high=plain_high[i],
                z=z[i],
                adjusted_p=p[i],
                found=bool(found[i]),
                same=tuple(RuleSet(rules=self.said.rules(one)) for one in alike[i]),
                others=len(alike[i]),
            )
            for i, terms in enumerate(family)
        ]

    def interval(self, sums: RuleSetSums, critical: float) -> tuple[Floats, Floats]:
        if len(sums.n) == 0:
            return np.empty(0), np.empty(0)
        if self.counted:
            return miettinen_nurminen(sums.k, sums.n, sums.all_k - sums.k, sums.rest, z=critical)
        inside, outside = sums.side_variances
        first = SampleMoments(sums.k / sums.n, inside, sums.n)
        second = SampleMoments((sums.all_k - sums.k) / sums.rest, outside, sums.rest)
        return welch_interval(first, second, 2 * float(normal_cdf(critical)) - 1)

    def find_explanations(
        self, family: Sequence[Terms], findings: Sequence[Finding], critical: float
    ) -> list[int | None]:
        """For each finding the position of one that explains it.

        Either a simpler one that holds all of its texts and whose other texts fare no differently; or one that fares
        the other way, and without whose texts nothing is left of the gap. What explains others is explained by none.
        """
        under: list[int | None] = [None] * len(family)
        inside, whole, _ = self.measure_family(family)
        own = [i for i, one in enumerate(findings) if one.found]
        simplest = sorted(own, key=lambda one: (len(family[one]), one))
        for i in simplest:
            for j in simplest:
                if under[j] is not None:
                    continue
                same_way = findings[i].gap * findings[j].gap > 0
                if same_way and set(family[j]) < set(family[i]):
                    part, among = inside[[i]], inside[[j]]
                elif not same_way and j < i and _rule_categories(family[j]) <= _rule_categories(family[i]):
                    part, among = inside[[i]] & ~inside[[j]], whole[[i]] & ~inside[[j]]
                else:
                    continue
                if abs(float(self.z(RuleSetSums.over(part, among, self.patterns, self.values))[0])) <= critical:
                    under[i] = j
                    break
        return under

    def judge(self, asked: dict[str, str], account: AdjustedTests) -> Finding | RefusedRuleSet:
        """Return one rule set, with the intervals and the p that it would have had among those looked at."""
        terms = self.said.parse_rules(asked)
        _, _, sums = self.measure_family([terms])
        n, rest = int(sums.n[0]), int(sums.rest[0])
        for texts, where in ((n, "contain"), (rest, "are compared with those that contain")):
            floor = self.least if where == "contain" else self.config.min_texts
            if texts < floor:
                rules = self.said.rules(terms)
                reason = f"{texts:,} texts {where} it: fewer than {floor:,}"
                return RefusedRuleSet(rules=rules, words=describe_rules(rules), size=n, rest=rest, reason=reason)
        own = self.z(sums)
        p = np.array([p_of_query(account, float(own[0]))])
        return self.findings([terms], [()], sums, own, p, account)[0]


def _rule_categories(terms: Terms) -> set[int]:
    """Return the categories of a rule set."""
    return {axis for axis, _ in terms}


def _distinct_rule_sets(inside: Booleans, whole: Booleans) -> tuple[Integers, list[list[int]]]:
    """Return the first rule set of each that hold and are compared with the same texts, and the others of each."""
    seen: dict[bytes, list[int]] = {}
    for row, key in enumerate(np.packbits(np.concatenate([inside, whole], axis=1), axis=1)):
        seen.setdefault(key.tobytes(), []).append(row)
    return np.array([rows[0] for rows in seen.values()], dtype=np.int64), [rows[1:] for rows in seen.values()]
