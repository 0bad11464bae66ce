"""TestSGD on texts as published: swapped texts are sampled for each rule set until a margin is small enough.

Source: Zhang et al., "TestSGD: interpretable testing of neural networks against subtle group discrimination" (ACM TOSEM
2023), section 4.3. A sample of a rule set is a random text that mentions all of its categories, with the terms of the
rule set substituted. The paper does not say how samples of the rest are made; here they are drawn from the same texts,
with random other terms of the same categories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER
from evenhand.core.typing import Booleans, Integers
from evenhand.datasets import IdentityCategory
from evenhand.datasets.identity.lists import resolve_categories
from evenhand.models.blackbox.text_model import TextAnswers, load_text_model
from evenhand.stats.level import normal_quantile
from evenhand.stats.proportion import count_needed
from evenhand.subgroups.config import TextSubgroupConfig
from evenhand.subgroups.methods.published import StoppingRule, sample_until_margin, sampled_finding
from evenhand.subgroups.methods.sampled import SAMPLE_THRESHOLD
from evenhand.subgroups.result import Finding, RefusedRuleSet
from evenhand.subgroups.text.analysis import TextOutcomes
from evenhand.subgroups.text.mentions import Mentions, Terms, count_rule_sets, find_mentions


@dataclass(frozen=True)
class SampledGaps:
    """Result of sampling texts.

    Attributes:
        rule_sets: Number of rule sets.
        tested: Number of sampled rule sets.
        found: Number of significant rule sets.
        findings: Ranked findings, at most the requested number.
        judged: Findings about the requested rule sets.
    """

    rule_sets: int
    tested: int
    found: int
    findings: tuple[Finding, ...]
    judged: tuple[Finding | RefusedRuleSet, ...]


def sample_text_gaps(
    model: Callable[[list[str]], Any],
    texts: Sequence[str],
    protected: Sequence[str | IdentityCategory],
    config: TextSubgroupConfig,
) -> SampledGaps:
    """Sample all rule sets with enough texts, or the requested ones, with the published intervals of their gaps.

    Args:
        model: Function from texts to labels or scores.
        texts: Texts that the model decides about.
        protected: Categories of identity terms.
        config: Settings.

    Raises:
        KeyboardInterrupt: The sampling was interrupted.
    """
    answers = TextAnswers(load_text_model(model, trust=False), config.labels, config.favourable, NEVER)
    answers.ask(texts)
    outcomes = TextOutcomes(answers, "favourable", None)
    mentions = find_mentions(texts, resolve_categories(protected, by_term=config.by == "term"))
    min_texts = max(config.min_texts, count_needed(config.support, len(texts)))
    groups = [len(swapper.category.groups) for swapper in mentions.swappers]
    requested = [mentions.parse_rules(rules) for rules in config.judged]
    substitute = _TermSubstitution(texts, mentions)
    questions: list[tuple[Terms, Integers]] = []
    for size in range(1, max(config.depth, *map(len, requested), 1) + 1):
        for axes in combinations(range(len(groups)), size):
            rows = np.flatnonzero(mentions.any[:, list(axes)].all(axis=1))
            if len(rows) < min_texts:
                continue
            for chosen in product(*(range(groups[axis]) for axis in axes)):
                terms = tuple(zip(axes, chosen, strict=True))
                if (terms in requested or not requested) and substitute.is_possible(terms, rows):
                    questions.append((terms, rows))

    def draw(question: int, side: int, number: int, rng: np.random.Generator) -> NDArray[np.object_]:
        terms, rows = questions[question]
        samples: list[str] = []
        while len(samples) < number:
            sampled_terms = terms if side == 0 else _draw_other_terms(terms, groups, rng)
            text = substitute(int(rng.choice(rows)), sampled_terms)
            if text is not None:
                samples.append(text)
        return np.array(samples, dtype=object)

    def ask(samples: NDArray[np.object_]) -> Booleans:
        outcomes.answers.ask(samples.tolist())
        if outcomes.answers.stopped:
            raise KeyboardInterrupt
        return outcomes.of(samples.tolist()) > 0

    rates = sample_until_margin(
        len(questions),
        2,
        draw,
        ask,
        rule=StoppingRule(SAMPLE_THRESHOLD, config.margin, float(normal_quantile(config.confidence))),
        seed=config.seed,
    )
    if rates.cut_short:
        raise KeyboardInterrupt
    findings: dict[Terms, Finding] = {}
    for i in np.argsort(-np.abs(rates.gaps), kind="stable").tolist():
        terms, rows = questions[i]
        size = int(mentions.members(terms)[rows].sum())
        sides, margin, samples = tuple(rates.rates[i].tolist()), float(rates.margins[i]), int(rates.n[i])
        findings[terms] = sampled_finding(
            mentions.describe(terms)[0], sides, margin, size=size, rest_size=len(rows) - size, samples=samples
        )
    return SampledGaps(
        rule_sets=count_rule_sets(groups, config.depth),
        tested=len(questions),
        found=sum(finding.found for finding in findings.values()),
        findings=() if requested else tuple(findings.values())[: config.most],
        judged=tuple(findings.get(terms) or _refuse(terms, mentions, min_texts) for terms in requested),
    )


def _refuse(terms: Terms, mentions: Mentions, min_texts: int) -> RefusedRuleSet:
    """Describe why a rule set has no samples: too few texts have words that its terms can replace."""
    (rules, words), axes = mentions.describe(terms), [axis for axis, _ in terms]
    rows = np.flatnonzero(mentions.any[:, axes].all(axis=1))
    size = int(mentions.members(terms).sum())
    reason = f"{len(rows):,} texts mention all of {', '.join(mentions.names[axis] for axis in axes)}: "
    reason += f"fewer than {min_texts:,}" if len(rows) < min_texts else "none has a place for these terms"
    return RefusedRuleSet(rules=rules, words=words, size=size, rest=len(rows) - size, reason=reason)


class _TermSubstitution:
    """Substitution of the terms of a rule set into texts."""

    def __init__(self, texts: Sequence[str], mentions: Mentions) -> None:
        self.texts, self.mentions = texts, mentions
        self.substitute = cache(self._substitute)

    def __call__(self, row: int, terms: Terms) -> str | None:
        return self.substitute(self.texts[row], terms)

    def is_possible(self, terms: Terms, rows: Integers) -> bool:
        """Check whether the terms can be substituted into any of the texts."""
        return any(self(row, terms) is not None for row in rows.tolist())

    def _substitute(self, text: str, terms: Terms) -> str | None:
        """Replace terms; None if no word of a group fits, or another category has replaced the word."""
        if not terms:
            return text
        (axis, group), remaining = terms[0], terms[1:]
        name = self.mentions.swappers[axis].category.groups[group]
        for slot in self.mentions.swappers[axis].slots(text)[:1]:
            if name in slot.swapped:
                return self._substitute(slot.of(name), remaining)
        return None


def _draw_other_terms(terms: Terms, groups: Sequence[int], rng: np.random.Generator) -> Terms:
    """Draw another combination of terms of the same categories, all with equal probability."""
    while True:
        sampled_terms = tuple((axis, int(rng.integers(groups[axis]))) for axis, _ in terms)
        if sampled_terms != terms:
            return sampled_terms
