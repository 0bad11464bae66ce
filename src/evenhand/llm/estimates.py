"""What answers say: the gap between two groups, here and beyond, and why two people get different answers.

Let p(t, i) be the chance of a favourable answer in template t for the person named i. A pair is one name of each of two
groups in the same template; its difference is d. All pairs of a template have the same expected difference if names are
a random sample. Templates and names both are samples, so that pairs that share either depend on each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.llm.design import FAILED, REFUSED, TrialOutcomes
from evenhand.stats.distribution import skewed_interval
from evenhand.stats.multiway import MultiwayMean, multiway_mean, multiway_variance

ONE_CHANGE = 0.5
"""What a pair adds to the noise of differences if one of its two answers changed when it was asked again."""


class PairedAnswers(NamedTuple):
    """Answers about two groups in the same templates.

    Attributes:
        first, second: outcomes of group 1 and group 0, NaN without one, shape (templates, sweeps).
        name_1, name_0: the names, of the same shape.
        sampled: whether the names of each group stand for more than themselves.
        cluster: the cluster of each template, shape (templates,), such as its job; None: templates are independent.
        again: outcomes of both groups when the first sweep was asked again, shape (templates, 2); None: it was not.
    """

    first: Floats
    second: Floats
    name_1: Integers
    name_0: Integers
    sampled: tuple[bool, bool] = (True, True)
    cluster: Integers | None = None
    again: Floats | None = None

    @property
    def difference(self) -> Floats:
        """Group 1 minus group 0, NaN where one side has no outcome."""
        return self.first - self.second

    def families(self, known: Booleans) -> list[list[Integers]]:
        """Return what pairs share: templates and their clusters, then names that were sampled."""
        template = np.broadcast_to(np.arange(len(known))[:, None], known.shape)
        scenes = [template] if self.cluster is None else [template, np.broadcast_to(self.cluster[:, None], known.shape)]
        names = [name for name, sampled in zip((self.name_1, self.name_0), self.sampled, strict=True) if sampled]
        return [[codes[known] for codes in family] for family in (scenes, names) if family]


class AnswerTable(NamedTuple):
    """All that sweeps gave.

    Attributes:
        value, kind, name: outcomes, kinds of answers, and names, each of shape (templates, groups, sweeps).
        again: the first sweep, asked again, shape (templates, groups).
    """

    value: Floats
    kind: Integers
    name: Integers
    again: TrialOutcomes | None = None

    def pair(
        self, groups: tuple[int, int], names: tuple[int, ...], cluster: Integers | None = None, *, refused: bool = False
    ) -> PairedAnswers:
        """Return the answers about two groups.

        Args:
            groups: group 1 and group 0.
            names: how many names each group has; a single one stands for itself.
            cluster: of each template.
            refused: whether what is compared is refusals, 1 for each, instead of outcomes.
        """
        one, other = groups
        value = np.where(self.kind == FAILED, np.nan, self.kind == REFUSED) if refused else self.value
        again = None if self.again is None or refused else self.again.value[:, list(groups)]
        sampled = (names[one] > 1, names[other] > 1)
        names_1, names_0 = self.name[:, one], self.name[:, other]
        return PairedAnswers(value[:, one], value[:, other], names_1, names_0, sampled, cluster, again)

    def select(self, rows: Integers) -> AnswerTable:
        """Return the answers about some templates."""
        again = None if self.again is None else TrialOutcomes(self.again.value[rows], self.again.kind[rows])
        return AnswerTable(self.value[rows], self.kind[rows], self.name[rows], again)


def estimate_gap(pairs: PairedAnswers) -> MultiwayMean | None:
    """Return the mean difference over the population that templates and names are a sample of.

    The variance is ``V_P + max(V_T - V_P, 0) + max(V_1 + V_0 - 2 V_P, 0) + 0.1 / (T + 2)^2`` (see
    ``stats.multiway_variance``): of pairs P, templates T, and the names of either group.

    Returns:
        None where a single template or name has outcomes: it stands for no others.
    """
    difference = pairs.difference
    known = ~np.isnan(difference)
    families = pairs.families(known)
    if any(len(np.unique(codes)) < 2 for family in families for codes in family):
        return None
    return multiway_mean(difference[known], families)


class ShareEstimate(NamedTuple):
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float


def estimate_gap_here(pairs: PairedAnswers, confidence: float) -> ShareEstimate | None:
    """Return the mean difference for the questions that were asked: its interval holds the noise of answers alone.

    Where a pair was asked twice, ``(d - d')^2 / 2`` has the variance of d given its question as its mean; its average
    over n pairs is the variance of their mean, n times. One template more, in which one answer changed, is added, so
    that an interval keeps a width. Student's t, with the degrees of freedom ``2 V^2 / Var(V)`` of such a variance.
    Without repeated questions answers have no noise: they are probabilities. None without any pair.
    """
    difference = pairs.difference
    known = ~np.isnan(difference)
    if not known.any():
        return None
    value = float(difference[known].mean())
    if pairs.again is None:
        return ShareEstimate(value, value, value)
    squares = (difference[:, 0] - (pairs.again[:, 0] - pairs.again[:, 1])) ** 2 / 2
    squares = np.append(squares[~np.isnan(squares)], ONE_CHANGE)
    mean, spread = float(squares.mean()), float(squares.var(ddof=1)) / len(squares) if len(squares) > 1 else 0.0
    freedom = max(2 * mean**2 / spread, 1.0) if spread > 0 else max(len(squares) - 1.0, 1.0)
    low, high = skewed_interval(value, np.sqrt(mean / known.sum()), 0.0, freedom, confidence)
    return ShareEstimate(value, float(low), float(high))


class FlipEstimates(NamedTuple):
    """How often two people are answered differently, each asked about once, and the three parts that this has."""

    asked_once: ShareEstimate
    noise: ShareEstimate
    names: ShareEstimate
    identity: ShareEstimate


def estimate_flips(pairs: PairedAnswers, confidence: float) -> FlipEstimates | None:
    """Split the share of pairs with different answers into noise, names and identity.

    Two people asked about once each get different answers with probability ``p1 + p0 - 2 p1 p0``, on average

        E[p1 (1 - p1) + p0 (1 - p0)] + E[Var_i p1 + Var_j p0] + E_t (mu1 - mu0)^2,

    where mu1 and mu0 are the means of a template over names. The last part, identity, is what the groups add. It is
    estimated without bias by the products of differences of two pairs in a template that share no name; so it is 0 on
    average if groups are treated alike in every template, and also sees effects that cancel in the gap. The first is
    measured by asking twice, or from the probabilities themselves; the names have the rest. All are means over
    templates: variance between them, plus what names add across templates, and Hall's cubic for the skewness. No part
    is below 0, and noise not above what is left for it, so that they add up.

    Args:
        pairs: outcomes 0 or 1, or probabilities of the favourable answer, which need no second asking.
        confidence: of each interval.

    Returns:
        None where fewer than two templates have two pairs, and questions asked twice.
    """
    difference = pairs.difference
    known = ~np.isnan(difference)
    first, second, difference = (np.where(known, part, 0.0) for part in (pairs.first, pairs.second, difference))
    if pairs.again is None:
        noise = _row_means(first * (1 - first) + second * (1 - second), known)
    else:
        noise = ((pairs.first[:, 0] - pairs.again[:, 0]) ** 2 + (pairs.second[:, 0] - pairs.again[:, 1]) ** 2) / 2
    alone = np.arange(known.shape[1])[None, :].repeat(len(known), axis=0)
    names = [name for name, sampled in zip((pairs.name_1, pairs.name_0), pairs.sampled, strict=True) if sampled]
    others, count = _others(difference, known, names or [alone])
    identity = _Pairwise.of(difference * others, count, known)
    one, many = _others(first, known, [alone])
    other, _ = _others(second, known, [alone])
    different = (many * (first + second) + one + other) / 2 - first * other - second * one
    once = _Pairwise.of(different, many, known)
    used = np.flatnonzero(~np.isnan(identity.part + once.part + noise))
    if len(used) < 2:
        return None
    # Noise has no influence by name: a question was asked again once per template.
    still = _Pairwise(noise, np.zeros(known.shape))
    rest = _Pairwise(once.part - noise - identity.part, once.influence - identity.influence)
    subset = pairs._replace(
        **{name: getattr(pairs, name)[used] for name in ("first", "second", "name_1", "name_0")},
        cluster=None if pairs.cluster is None else pairs.cluster[used],
    )
    estimates = [one.select(used).estimate(subset, confidence) for one in (once, still, rest, identity)]
    return FlipEstimates(estimates[0], *_add_up(estimates[0].value, *estimates[1:]))


def _add_up(
    whole: float, noise: ShareEstimate, names: ShareEstimate, identity: ShareEstimate
) -> tuple[ShareEstimate, ShareEstimate, ShareEstimate]:
    """Return parts that add up to the whole, which is known best: noise, of fewer questions, gives way."""
    groups = min(identity.value, whole)
    own = min(noise.value, whole - groups)
    values = (own, max(whole - own - groups, 0.0), groups)
    first, second, third = (
        ShareEstimate(value, min(part.low, value), max(part.high, value))
        for value, part in zip(values, (noise, names, identity), strict=True)
    )
    return first, second, third


class _Pairwise(NamedTuple):
    """A mean over pairs of pairs in each template, shape (templates,), and what each pair has to do with it."""

    part: Floats
    influence: Floats

    @classmethod
    def of(cls, products: Floats, count: Floats, known: Booleans) -> _Pairwise:
        """Return it from sums over the others of each pair, and over how many, each of shape (templates, sweeps)."""
        total = np.where(known, count, 0.0).sum(axis=1)
        part = np.where(known, products, 0.0).sum(axis=1) / np.where(total > 0, total, np.nan)
        return cls(part, np.where(known, 2 * (products - count * part[:, None]) / total[:, None].clip(1), 0.0))

    def select(self, rows: Integers) -> _Pairwise:
        return _Pairwise(self.part[rows], self.influence[rows])

    def estimate(self, pairs: PairedAnswers, confidence: float) -> ShareEstimate:
        """Return the mean over templates, cut at 0, with the interval of a skewed mean."""
        many = len(self.part)
        mean = float(self.part.mean())
        apart = self.part - mean
        rows = np.arange(many) if pairs.cluster is None else pairs.cluster
        templates = multiway_variance(apart / many, [[np.arange(many)], [rows]]) if len(set(rows)) > 1 else None
        between = templates.total if templates is not None else float(apart @ apart) / many / (many - 1)
        known = ~np.isnan(pairs.difference)
        families = pairs.families(known)
        names = 0.0
        if len(families) > 1 and self.influence.any():
            names = multiway_variance(self.influence[known] / many, families).shared[1]
        spread = float((apart**2).mean()) ** 1.5
        skewness = float((apart**3).mean()) / spread / np.sqrt(many) if spread > 0 else 0.0
        variance = between + names + 0.1 / (many + 2) ** 2
        skewness *= (between / variance) ** 1.5
        freedom = min(many, len(set(rows))) - 1
        low, high = skewed_interval(mean, np.sqrt(variance), skewness, freedom, confidence)
        return ShareEstimate(max(mean, 0.0), max(float(low), 0.0), max(float(high), 0.0))


def _row_means(values: Floats, known: Booleans) -> Floats:
    count = known.sum(axis=1)
    return np.asarray(np.where(known, values, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan))


def _others(values: Floats, known: Booleans, kinds: list[Integers]) -> tuple[Floats, Floats]:
    """Return for each pair the sum over those of its template that share nothing with it, and how many they are.

    Args:
        values: shape (templates, sweeps), 0 where not ``known``.
        kinds: what may be shared, one or two, each of that shape.
    """
    # Inclusion and exclusion: all, less those that share either, plus those that share both.
    row = np.arange(len(values))[:, None]
    sharing = [(1, row * (kind.max() + 1) + kind) for kind in kinds]
    if len(kinds) == 2:
        size = int(kinds[1].max()) + 1
        sharing.append((-1, sharing[0][1] * size + kinds[1]))
    here = known.astype(np.float64)
    found = []
    for numbers in (values, here):
        apart = np.broadcast_to(numbers.sum(axis=1, keepdims=True), numbers.shape).copy()
        for sign, codes in sharing:
            apart -= sign * np.bincount(codes.ravel(), weights=numbers.ravel())[codes]
        found.append(apart)
    return found[0], found[1]
