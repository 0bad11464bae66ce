"""Estimates from answers: the gap between two groups, and the causes of different answers.

Let p(t, i) be the probability of a favourable answer in template t for the person with name i. A pair consists of one
name of each of two groups in the same template, with the difference d. If names are a random sample, all pairs of a
template have the same expected difference. Templates and names are both samples, so pairs that share either are
dependent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.llm.design import FAILED, REFUSED, Outcomes
from evenhand.llm.result import FlipShares
from evenhand.stats.distribution import skewed_interval
from evenhand.stats.multiway import MultiwayMean, multiway_mean, multiway_variance
from evenhand.stats.quantity import Estimated, Observed, Quantity, Unknown

ONE_CHANGE = 0.5
"""Contribution of a pair to the noise of differences if one of its two answers changed when repeated."""

POPULATION = "templates and names like these"
"""Population of the estimates."""

TOO_FEW = Unknown(reason="fewer than two templates or names have answers, so the gap for others is unknown")


class PairedAnswers(NamedTuple):
    """Answers about two groups in the same templates.

    Attributes:
        first, second: Outcomes (or NaN) of group 1 and group 0, shape (templates, sweeps).
        name_1, name_0: Names, of the same shape.
        sampled: Whether the names of each group are a sample of a population.
        cluster: Cluster of each template, such as a job, shape (templates,). None means independent templates.
        again: Outcomes of both groups in the repeated first sweep, shape (templates, 2). None without repetition.
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
        """Group 1 minus group 0, or NaN if an outcome is missing."""
        return self.first - self.second

    def select(self, rows: Integers) -> PairedAnswers:
        """Select the answers about some templates."""
        parts = {name: part for name, part in self._asdict().items() if name != "sampled" and part is not None}
        return self._replace(**{name: part[rows] for name, part in parts.items()})

    def families(self, mask: Booleans) -> list[list[Integers]]:
        """Return the clusters of the selected pairs: templates with their clusters, then sampled names."""
        template = np.broadcast_to(np.arange(len(mask))[:, None], mask.shape)
        scenes = [template] if self.cluster is None else [template, np.broadcast_to(self.cluster[:, None], mask.shape)]
        names = [name for name, sampled in zip((self.name_1, self.name_0), self.sampled, strict=True) if sampled]
        return [[codes[mask] for codes in family] for family in (scenes, names) if family]


class AnswerTable(NamedTuple):
    """Answers of all sweeps.

    Attributes:
        value, kind, name: Outcomes, kinds of answers and names, each of shape (templates, groups, sweeps).
        names: Number of names of each group. A single name is not a sample.
        cluster: Cluster of each template, shape (templates,). None means independent templates.
        again: Outcomes of the repeated first sweep, shape (templates, groups).
    """

    value: Floats
    kind: Integers
    name: Integers
    names: tuple[int, ...]
    cluster: Integers | None = None
    again: Outcomes | None = None

    def pair(self, groups: tuple[int, int], *, refused: bool = False) -> PairedAnswers:
        """Select the answers about two groups.

        Args:
            groups: Group 1 and group 0.
            refused: Whether to compare refusals (1 for each) instead of outcomes.
        """
        a, b = groups
        value = np.where(self.kind == FAILED, np.nan, self.kind == REFUSED) if refused else self.value
        again = None if self.again is None or refused else self.again.value[:, list(groups)]
        sampled = (self.names[a] > 1, self.names[b] > 1)
        return PairedAnswers(value[:, a], value[:, b], self.name[:, a], self.name[:, b], sampled, self.cluster, again)

    def outcomes(self, group: int) -> PairedAnswers:
        """Pair the outcomes of one group with 0, so that their mean difference is the mean outcome."""
        value, name = self.value[:, group], self.name[:, group]
        return PairedAnswers(value, np.zeros_like(value), name, name, (self.names[group] > 1, False), self.cluster)


def estimate_gap(pairs: PairedAnswers, reach: float = 1.0) -> MultiwayMean | None:
    """Estimate the mean difference over the population from which templates and names were sampled.

    The variance is ``V_P + max(V_T - V_P, 0) + max(V_1 + V_0 - 2 V_P, 0) + 0.1 / (T + 2)^2`` (see
    ``stats.multiway_variance``) for pairs P, templates T, and the names of each group.

    Args:
        pairs: Pairs of answers.
        reach: Largest possible size of a difference.

    Returns:
        The estimate, or None if only one template or one name has outcomes.
    """
    difference = pairs.difference
    present = ~np.isnan(difference)
    families = pairs.families(present)
    if any(len(np.unique(codes)) < 2 for family in families for codes in family):
        return None
    return multiway_mean(difference[present], families, reach)


def to_quantity(
    mean: MultiwayMean | None, level: float, minimum: float = -math.inf, maximum: float = math.inf
) -> Quantity:
    """Convert a mean to a quantity with an interval clipped to the possible values."""
    if mean is None:
        return TOO_FEW
    low, high = mean.interval(level)
    return Estimated(
        value=mean.mean,
        low=max(low, minimum),
        high=min(high, maximum),
        confidence=level,
        n=mean.n,
        population=POPULATION,
        method="clusters of templates and names, Student's t",
    )


def estimate_gap_here(pairs: PairedAnswers, confidence: float) -> Quantity:
    """Estimate the mean difference for the given templates and names; the only uncertainty is the noise of answers.

    If a pair was repeated, the expectation of ``(d - d')^2 / 2`` is the variance of d given the question. Its mean over
    n pairs, divided by n, is the variance of their mean difference. One template with one changed answer is added, so
    that the interval has a positive width. The interval uses Student's t with ``2 V^2 / Var(V)`` degrees of freedom.
    Without repeated questions, answers are probabilities and have no noise. The result is unknown without any pair.
    """
    difference = pairs.difference
    present = ~np.isnan(difference)
    if not present.any():
        return TOO_FEW
    value = low = high = float(difference[present].mean())
    if pairs.again is not None:
        error, freedom = _measure_noise(difference[:, 0] - (pairs.again[:, 0] - pairs.again[:, 1]), int(present.sum()))
        low, high = (float(end) for end in skewed_interval(value, error, 0.0, freedom, confidence))
    method = "noise of identical questions, Student's t"
    low, high = max(low, -1.0), min(high, 1.0)
    return Observed(value=value, n=int(present.sum()), low=low, high=high, confidence=confidence, method=method)


def _measure_noise(changes: Floats, pairs: int) -> tuple[float, float]:
    """Compute the standard error and the degrees of freedom of a mean difference from repeated questions.

    Args:
        changes: Differences minus repeated differences, or NaN, shape (templates,).
        pairs: Number of averaged differences.
    """
    squares = np.append((changes**2 / 2)[~np.isnan(changes)], ONE_CHANGE)
    mean, spread = float(squares.mean()), float(squares.var(ddof=1)) / len(squares) if len(squares) > 1 else 0.0
    freedom = max(2 * mean**2 / spread, 1.0) if spread > 0 else max(len(squares) - 1.0, 1.0)
    return math.sqrt(mean / pairs), freedom


def estimate_flips(pairs: PairedAnswers, confidence: float) -> FlipShares:
    """Split the share of pairs with different answers into noise, names and identity.

    If the model answers one question about each of two people, the answers differ with probability
    ``p1 + p0 - 2 p1 p0``. The mean of this probability is

        E[p1 (1 - p1) + p0 (1 - p0)] + E[Var_i p1 + Var_j p0] + E_t (mu1 - mu0)^2,

    where mu1 and mu0 are the means of a template over names. The last term, identity, is the effect of the groups. Its
    unbiased estimate is the mean product of the differences of two pairs in a template that share no name. It is 0 on
    average if groups are treated equally in each template, and it includes effects that cancel in the gap. The first
    term, noise, is measured by repeated questions, or computed from probabilities. The remainder is the effect of
    names. All terms are means over templates. Their intervals include the variance between templates and between names,
    and Hall's correction for skewness. Each term is at least 0, and noise is limited so that the terms add up.

    Args:
        pairs: Outcomes of 0 or 1, or probabilities of the favourable answer, which require no repetition.
        confidence: Confidence level of each interval.

    Returns:
        The estimates, unknown if fewer than two templates have two pairs and repeated questions.
    """
    difference = pairs.difference
    present = ~np.isnan(difference)
    p1, p0, difference = (np.where(present, part, 0.0) for part in (pairs.first, pairs.second, difference))
    if pairs.again is None:
        noise = _row_means(p1 * (1 - p1) + p0 * (1 - p0), present)
    else:
        noise = ((pairs.first[:, 0] - pairs.again[:, 0]) ** 2 + (pairs.second[:, 0] - pairs.again[:, 1]) ** 2) / 2
    sweeps = np.arange(present.shape[1])[None, :].repeat(len(present), axis=0)
    names = [name for name, sampled in zip((pairs.name_1, pairs.name_0), pairs.sampled, strict=True) if sampled]
    sums, count = _sum_unrelated(difference, present, names or [sweeps])
    identity = _Pairwise.of(difference * sums, count, present)
    sums1, count = _sum_unrelated(p1, present, [sweeps])
    sums0, _ = _sum_unrelated(p0, present, [sweeps])
    different = (count * (p1 + p0) + sums1 + sums0) / 2 - p1 * sums0 - p0 * sums1
    once = _Pairwise.of(different, count, present)
    used = np.flatnonzero(~np.isnan(identity.part + once.part + noise))
    if len(used) < 2:
        unknown = Unknown(reason="fewer than two templates have two pairs")
        return FlipShares(asked_once=unknown, noise=unknown, names=unknown, identity=unknown)
    # Noise does not depend on names, because each template has only one repeated question.
    own_noise = _Pairwise(noise, np.zeros(present.shape))
    by_name = _Pairwise(once.part - noise - identity.part, once.influence - identity.influence)
    subset = pairs.select(used)
    n = int(present.sum())
    estimates = [term.select(used).estimate(subset, confidence, n) for term in (once, own_noise, by_name, identity)]
    return _add_up(*estimates)


def _add_up(total: Estimated, noise: Estimated, names: Estimated, identity: Estimated) -> FlipShares:
    """Adjust the terms to add up to the total; noise is reduced first, because it is based on fewer questions."""
    by_group = min(identity.value, total.value)
    own = min(noise.value, total.value - by_group)

    def adjust(term: Estimated, value: float) -> Estimated:
        return term.model_copy(update={"value": value, "low": min(term.low, value), "high": max(term.high, value)})

    return FlipShares(
        asked_once=total,
        noise=adjust(noise, own),
        names=adjust(names, max(total.value - own - by_group, 0.0)),
        identity=adjust(identity, by_group),
    )


class _Pairwise(NamedTuple):
    """Mean over pairs of pairs in each template.

    Attributes:
        part: Mean of each template, shape (templates,).
        influence: Influence of each pair on the mean of its template, shape (templates, sweeps).
    """

    part: Floats
    influence: Floats

    @classmethod
    def of(cls, products: Floats, count: Floats, present: Booleans) -> _Pairwise:
        """Compute the means from the sum and the number of the unrelated pairs of each pair."""
        total = np.where(present, count, 0.0).sum(axis=1)
        part = np.where(present, products, 0.0).sum(axis=1) / np.where(total > 0, total, np.nan)
        return cls(part, np.where(present, 2 * (products - count * part[:, None]) / total[:, None].clip(1), 0.0))

    def select(self, rows: Integers) -> _Pairwise:
        return _Pairwise(self.part[rows], self.influence[rows])

    def estimate(self, pairs: PairedAnswers, confidence: float, n_pairs: int) -> Estimated:
        """Estimate the mean over templates, at least 0, with an interval corrected for skewness."""
        n = len(self.part)
        mean = float(self.part.mean())
        deviation = self.part - mean
        rows = np.arange(n) if pairs.cluster is None else pairs.cluster
        templates = multiway_variance(deviation / n, [[np.arange(n)], [rows]]) if len(set(rows)) > 1 else None
        between = templates.total if templates is not None else float(deviation @ deviation) / n / (n - 1)
        present = ~np.isnan(pairs.difference)
        families = pairs.families(present)
        names = 0.0
        if len(families) > 1 and self.influence.any():
            names = multiway_variance(self.influence[present] / n, families).shared[1]
        spread = float((deviation**2).mean()) ** 1.5
        skewness = float((deviation**3).mean()) / spread / np.sqrt(n) if spread > 0 else 0.0
        variance = between + names + 0.1 / (n + 2) ** 2
        skewness *= (between / variance) ** 1.5
        freedom = min(n, len(set(rows))) - 1
        low, high = skewed_interval(mean, np.sqrt(variance), skewness, freedom, confidence)
        return Estimated(
            value=max(mean, 0.0),
            low=max(float(low), 0.0),
            high=max(float(high), 0.0),
            confidence=confidence,
            n=n_pairs,
            population=POPULATION,
            method="products of pairs, Hall's transformation",
        )


def _row_means(values: Floats, present: Booleans) -> Floats:
    count = present.sum(axis=1)
    return np.asarray(np.where(present, values, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan))


def _sum_unrelated(values: Floats, present: Booleans, kinds: list[Integers]) -> tuple[Floats, Floats]:
    """Compute, for each pair, the sum and the number of the pairs in its template that share no cluster with it.

    Args:
        values: Values, 0 if not present, shape (templates, sweeps).
        present: Whether each pair is present, of the same shape.
        kinds: One or two kinds of clusters, each of the same shape.
    """
    # Inclusion and exclusion: all pairs, minus the pairs that share either cluster, plus the pairs that share both.
    row = np.arange(len(values))[:, None]
    sharing = [(1, row * (kind.max() + 1) + kind) for kind in kinds]
    if len(kinds) == 2:
        size = int(kinds[1].max()) + 1
        sharing.append((-1, sharing[0][1] * size + kinds[1]))

    def sum_unrelated(numbers: Floats) -> Floats:
        sums = np.broadcast_to(numbers.sum(axis=1, keepdims=True), numbers.shape).copy()
        for sign, codes in sharing:
            sums -= sign * np.bincount(codes.ravel(), weights=numbers.ravel())[codes]
        return sums

    return sum_unrelated(values), sum_unrelated(present.astype(np.float64))
