"""Flips in excess of the model's noise.

A person queried under m protected values gets m answers, which may differ by chance. Some people are therefore
also queried m times under one of their values. Let p(a, k) be the probability of label k under value a. Answers to all
values agree with probability ``sum_k prod_a p(a, k)``. Answers to one value, drawn at random, agree with probability
``sum_k mean_a p(a, k)^m``, which is never smaller (the geometric mean is at most the arithmetic mean) and is equal only
if all values have the same probabilities. The excess of flips over self-disagreement is therefore 0 without bias, and
positive with any bias.

The excess grows with the square of the bias: with two values and two labels, it is the mean of ``(p(1) - p(2))^2``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.models.noise import FreshScorer
from evenhand.stats.excess import FlipCounts, excess_over_noise
from evenhand.stats.proportion import estimated_rate, observed_rate
from evenhand.stats.quantity import Estimated, Observed, Quantity

MAX_REPEATED = 300
"""Maximum number of people per rate whose row is queried repeatedly."""

METHOD = "paired mean and Clopper-Pearson limits, squared and added"
"""Method of the confidence interval for the excess."""


def rate_of(k: int, n: int, confidence: float, population: str | None) -> Quantity:
    """Build the share k / n, observed in the data or estimated for a population."""
    if population is None:
        return observed_rate(k, n, confidence)
    return estimated_rate(k, n, population, confidence)


class FlipNoise(ResultPart):
    """Differences between single answers, compared with the model's noise.

    Attributes:
        single: Share of people whose single answers differ between protected values, repeatable or not.
        own: Share of people whose answers differ if the same row is queried as many times as there are values.
        excess: ``single`` minus ``own``.
        people: Number of people whose rows were queried repeatedly.
        queries: Number of repeated queries.
    """

    single: Quantity
    own: Quantity
    excess: Quantity
    people: int
    queries: int


class NoiseRecorder:
    """Records the answers for people under each assignment, and repeats the queries for some people.

    Args:
        scorer: The model, without a cache of answers.
        rng: Selects the assignment of each person that is queried again.
    """

    def __init__(self, scorer: FreshScorer, rng: np.random.Generator) -> None:
        self.scorer, self.rng = scorer, rng
        self.queries = 0
        self._flips = [np.zeros(0, dtype=np.bool_)]
        self._own = [np.zeros(0, dtype=np.bool_)]

    def add(self, variants: Floats, labels: Integers, plausible: Booleans, flips: Booleans) -> None:
        """Record the labels (n, m) of variants (n, m, attributes) of people in random order, and their flips (n,).

        Each person has at least two plausible variants.
        """
        n = max(0, MAX_REPEATED - sum(map(len, self._own)))
        self._own.append(self._repeat_queries(variants[:n], labels[:n], plausible[:n]))
        self._flips.append(flips)

    def _repeat_queries(self, variants: Floats, labels: Integers, plausible: Booleans) -> Booleans:
        """Query one random variant of each person once per plausible variant. Return whether the answers differ.

        The recorded answer counts as the first of these queries.
        """
        n = len(labels)
        if n == 0:
            return np.zeros(0, dtype=np.bool_)
        chosen = np.argmax(np.where(plausible, self.rng.random(plausible.shape), -1.0), axis=1)
        person = np.repeat(np.arange(n), plausible.sum(axis=1) - 1)
        again = self.scorer.predict(variants[person, chosen[person]])
        self.queries += len(person) * self.scorer.answers
        changed = again != labels[person, chosen[person]]
        return np.asarray(np.bincount(person, weights=changed, minlength=n) > 0)

    def result(self, confidence: float, population: str | None) -> FlipNoise | None:
        """Compare the recorded answers with the noise. None if no person was compared.

        If the people are those in the data, ``population`` is None.
        """
        flips, own = np.concatenate(self._flips), np.concatenate(self._own)
        if len(own) == 0:
            return None
        value, (low, high) = excess_over_noise(FlipCounts.of(flips, own), confidence)
        fields: dict[str, Any] = {"value": float(value), "low": float(low), "high": float(high), "n": len(own)}
        fields |= {"confidence": confidence, "method": METHOD}
        return FlipNoise(
            single=rate_of(int(flips.sum()), len(flips), confidence, population),
            own=rate_of(int(own.sum()), len(own), confidence, population),
            excess=Observed(**fields) if population is None else Estimated(**fields, population=population),
            people=len(own),
            queries=self.queries,
        )
