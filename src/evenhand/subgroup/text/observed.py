"""The gaps between real texts: every text is scored once, and everything after that is counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.stats import (
    miettinen_nurminen,
    permuted_counts,
    permuted_sums,
    standardised_gap,
    standardised_mean_gap,
    welch,
)
from evenhand.stats.level import normal_quantile, normal_share
from evenhand.subgroup.result import Finding, Refused
from evenhand.subgroup.rules import Rules, RuleSet, words
from evenhand.subgroup.text.config import Config
from evenhand.subgroup.text.control import Controlled, controlled
from evenhand.subgroup.text.counts import Bools, Floats, Patterns, Sums, Terms, rule_sets, variance_of
from evenhand.subgroup.text.mentions import Mentions

BLOCK = 256
"""Rule sets whose permuted counts are held at once."""


@dataclass(frozen=True)
class Observed:
    """What was counted in real texts.

    Attributes:
        rule_sets: how many there are, before floors.
        tested: how many different ones meet the floors.
        critical: standard errors that the adjusted intervals reach; None where nothing is adjusted.
        found: how many stand out.
        findings: ranked, at most as many as were asked for.
        judged: rule sets that were asked about.
        notes: what else a reader must know.
    """

    rule_sets: int
    tested: int
    critical: float | None
    found: int
    findings: tuple[Finding, ...]
    judged: tuple[Finding | Refused, ...]
    notes: tuple[str, ...] = ()


def observed(said: Mentions, values: Floats, counted: bool, config: Config) -> Observed:
    """Every rule set, with the gap to the texts that it is compared with.

    For the control of the error the outcomes are dealt out anew among the texts that are compared: exact if who a text
    speaks of makes no difference to its outcome.

    Args:
        said: who the texts speak of.
        values: 0 or 1, or a score, of each text, shape (n,).
        counted: whether they are 0 and 1.
        config: settings.
    """
    return _Search(said, values, counted, config).result()


class _Search:
    def __init__(self, said: Mentions, values: Floats, counted: bool, config: Config) -> None:
        self.said, self.counted, self.config = said, counted, config
        self.least = max(config.least_texts, int(np.ceil(config.support * len(values))))
        rows = np.flatnonzero(said.any.any(axis=1)) if config.compared == "others" else np.arange(len(values))
        self.values = values[rows]
        self.patterns = Patterns.among(said.of(rows))

    def result(self) -> Observed:
        config = self.config
        family = self.patterns.frequent(config.depth, self.least)
        inside, whole, sums = self.measured(family)
        enough = np.flatnonzero((sums.n >= self.least) & (sums.rest >= config.least_texts))
        first, same = _different(inside[enough], whole[enough])
        rows = enough[first]
        z = self.z(sums.some(rows))
        account = controlled(z, config.control, config.confidence, lambda: self.maxima(inside[rows], whole[rows]))
        tested = [family[row] for row in rows]
        alike = [[family[enough[one]] for one in others] for others in same]
        findings = self.findings(tested, alike, sums.some(rows), z, account.p, account)
        order = sorted(range(len(rows)), key=lambda i: (-max(findings[i].low, -findings[i].high), -abs(z[i]), i))
        kept = order[: config.most]
        under = self.explained([tested[i] for i in kept], [findings[i] for i in kept], account.critical)
        return Observed(
            rule_sets=rule_sets([one.shape[1] for one in self.said.inside], config.depth),
            tested=len(rows),
            critical=account.critical,
            found=sum(one.found for one in findings),
            findings=tuple(
                findings[i].model_copy(update={"under": parent}) for i, parent in zip(kept, under, strict=True)
            ),
            judged=tuple(self.judge(dict(one), account) for one in config.judged),
        )

    def measured(self, family: Sequence[Terms]) -> tuple[Bools, Bools, Sums]:
        inside, whole = self.patterns.sides(family, self.config.compared)
        return inside, whole, Sums.over(inside, whole, self.patterns, self.values)

    def z(self, sums: Sums) -> Floats:
        if self.counted:
            return standardised_gap(sums.k, sums.n, sums.all_k, sums.all_n)
        mean = sums.all_k / np.maximum(sums.all_n, 1)
        return standardised_mean_gap(sums.k, sums.n, mean, sums.variance, sums.all_n)

    def maxima(self, inside: Bools, whole: Bools) -> Floats:
        """The largest |z| of all rule sets each time that the outcomes are dealt out anew."""
        config, sizes = self.config, self.patterns.sizes
        rng = np.random.default_rng(config.seed)
        dealt, squares = self.dealt(rng), np.bincount(self.patterns.of, weights=self.values**2, minlength=len(sizes))
        largest = np.zeros(config.permutations)
        for start in range(0, len(inside), BLOCK):
            within, around = (side[start : start + BLOCK].astype(np.float64) for side in (inside, whole))
            n, all_n = (within @ sizes)[:, None], (around @ sizes)[:, None]
            k, all_k = within @ dealt.T, around @ dealt.T
            if self.counted:
                z = standardised_gap(k, n, all_k, all_n)
            else:  # a whole is made of strata, within which nothing is lost or gained by dealing
                variance = variance_of(all_n, all_k, (around @ squares)[:, None])
                z = standardised_mean_gap(k, n, all_k / all_n, variance, all_n)
            largest = np.maximum(largest, np.abs(z).max(axis=0))
        return largest

    def dealt(self, rng: np.random.Generator) -> Floats:
        """Sums of outcomes by pattern, dealt out anew, shape (permutations, patterns).

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
                dealt[:, columns] = permuted_counts(
                    patterns.sizes[columns], int(values.sum()), config.permutations, rng
                )
            else:
                dealt[:, columns] = permuted_sums(of, values, len(columns), config.permutations, rng)
        return dealt

    def findings(
        self,
        family: Sequence[Terms],
        alike: Sequence[Sequence[Terms]],
        sums: Sums,
        z: Floats,
        p: Floats,
        account: Controlled,
    ) -> list[Finding]:
        config = self.config
        rate, rest_rate = sums.k / sums.n, (sums.all_k - sums.k) / sums.rest
        low, high = self.interval(sums, account.critical)
        plain_low, plain_high = self.interval(sums, float(normal_quantile(config.confidence)))
        found = account.stands_out(p, low, high, config.margin)
        return [
            Finding(
                rules=(rules := self.rules(terms)),
                words=words(rules),
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
                same=tuple(RuleSet(rules=self.rules(one)) for one in alike[i]),
                others=len(alike[i]),
            )
            for i, terms in enumerate(family)
        ]

    def interval(self, sums: Sums, critical: float) -> tuple[Floats, Floats]:
        if len(sums.n) == 0:
            return np.empty(0), np.empty(0)
        if self.counted:
            return miettinen_nurminen(sums.k, sums.n, sums.all_k - sums.k, sums.rest, z=critical)
        inside, outside = sums.variances
        mean, rest = sums.k / sums.n, (sums.all_k - sums.k) / sums.rest
        return welch(mean, inside, sums.n, rest, outside, sums.rest, 2 * float(normal_share(critical)) - 1)

    def explained(self, family: Sequence[Terms], findings: Sequence[Finding], critical: float) -> list[int | None]:
        """For each finding the position of one that explains it.

        Either a simpler one that holds all of its texts and whose other texts fare no differently; or one that fares
        the other way, and without whose texts nothing is left of the gap.
        """
        under: list[int | None] = [None] * len(family)
        inside, whole, _ = self.measured(family)
        own = [i for i, one in enumerate(findings) if one.found]
        for i in own:
            for j in sorted(own, key=lambda one: (len(family[one]), one)):
                same_way = findings[i].gap * findings[j].gap > 0
                if same_way and set(family[j]) < set(family[i]):
                    part, among = inside[[i]], inside[[j]]
                elif not same_way and j < i and under[j] is None and _about(family[j]) <= _about(family[i]):
                    part, among = inside[[i]] & ~inside[[j]], whole[[i]] & ~inside[[j]]
                else:
                    continue
                if abs(float(self.z(Sums.over(part, among, self.patterns, self.values))[0])) <= critical:
                    under[i] = j
                    break
        return under

    def judge(self, asked: dict[str, str], account: Controlled) -> Finding | Refused:
        """One rule set, with the intervals and the p that it would have had among those looked at."""
        terms = self.parsed(asked)
        _, _, sums = self.measured([terms])
        n, rest = int(sums.n[0]), int(sums.rest[0])
        for texts, where in ((n, "contain"), (rest, "are compared with those that contain")):
            floor = self.least if where == "contain" else self.config.least_texts
            if texts < floor:
                rules = self.rules(terms)
                reason = f"{texts:,} texts {where} it: fewer than {floor:,}"
                return Refused(rules=rules, words=words(rules), size=n, rest=rest, reason=reason)
        own = self.z(sums)
        p = np.array([account.one_more(float(own[0]))])
        return self.findings([terms], [()], sums, own, p, account)[0]

    def parsed(self, asked: dict[str, str]) -> Terms:
        """A rule set in words as positions.

        Raises:
            OptionError: there is no such category or group.
        """
        terms = []
        for name, group in asked.items():
            if name not in self.said.names:
                raise OptionError(f"there is no list called {name!r}", mend=f"one of: {', '.join(self.said.names)}")
            axis = self.said.names.index(name)
            groups = [one.casefold() for one in self.said.swappers[axis].category.groups]
            if group.casefold() not in groups:
                raise OptionError(f"there is no {group!r} in {name}", mend=f"one of: {', '.join(groups)}")
            terms.append((axis, groups.index(group.casefold())))
        return tuple(sorted(terms))

    def rules(self, terms: Terms) -> Rules:
        return {self.said.names[axis]: (self.said.swappers[axis].category.groups[group],) for axis, group in terms}


def _about(terms: Terms) -> set[int]:
    """The categories of a rule set."""
    return {axis for axis, _ in terms}


def _different(inside: Bools, whole: Bools) -> tuple[NDArray[np.int64], list[list[int]]]:
    """The first rule set of each that hold and are compared with the same texts, and the others of each."""
    seen: dict[bytes, list[int]] = {}
    for row, key in enumerate(np.packbits(np.concatenate([inside, whole], axis=1), axis=1)):
        seen.setdefault(key.tobytes(), []).append(row)
    return np.array([rows[0] for rows in seen.values()], dtype=np.int64), [rows[1:] for rows in seen.values()]
