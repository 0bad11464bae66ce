"""Flips of a model that answers differently each time: how many are more than its own noise, and in whose favour.

A person who is asked about under m protected values gets m answers, which may differ by chance alone. So some people
are asked about under one of their values m times too. Let p(a, k) be the probability of label k under value a. Answers
to all values agree with probability ``sum_k prod_a p(a, k)``, answers to one value, drawn at random, with
``sum_k mean_a p(a, k)^m``, which is never less (the geometric mean is at most the arithmetic one) and equals it only if
all values have the same probabilities. So the excess of flips over self-disagreement is 0 without bias, and above 0
with any.

The excess grows with the square of the bias: with two values and two labels it is the mean of ``(p(1) - p(2))^2``. A
small bias shows sooner in the direction: the rate of the favourable decision under each value, for the same people.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from evenhand.individual.flips import find_flips
from evenhand.models import FreshScorer, QuestionLedger, Scorer, repeat_questions
from evenhand.schema import Schema
from evenhand.stats import (
    Estimated,
    FlipCounts,
    Observed,
    Quantity,
    Unknown,
    benjamini_yekutieli,
    bonferroni,
    clustered_means,
    estimated_rate,
    excess_over_noise,
    normal_p_value,
    normal_quantile,
    observed_rate,
)
from evenhand.text import format_level, format_percent
from evenhand.typing import Booleans, Floats, Integers

ASKED_AGAIN = 300
"""People who are asked about themselves again for each rate, at most."""

METHOD = "paired mean and Clopper-Pearson limits, squared and added"
"""How the interval of the excess is called."""


class AssignmentRate(BaseModel):
    """How often people get the favourable decision under one protected value, everything else as it is.

    Attributes:
        value: the protected value.
        rate: share of the people compared who get the favourable decision.
        difference: their mean distance from the average over all values of the same person.
        low, high: its interval, simultaneous over all values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: str
    rate: Quantity
    difference: float
    low: float
    high: float


class FlipNoise(BaseModel):
    """A counterfactual flip rate beside the model's own noise.

    Attributes:
        own: share of people whose decision differs when the same row is asked as often as there are values.
        excess: the counterfactual flip rate minus this.
        people: how many were asked again.
        queries: questions that took.
        directions: the favourable rate under each value; none for several attributes together.
        p: of the same rate under all values, adjusted for their number; None without directions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    own: Quantity
    excess: Quantity
    people: int
    queries: int
    directions: tuple[AssignmentRate, ...] = ()
    p: float | None = None

    def sentence(self, name: str, flip_rate: str) -> str:
        """Return what it says about the flips: more than noise or not, and in whose favour.

        Args:
            name: the attributes that were changed.
            flip_rate: the counterfactual flip rate, as it is written.
        """
        if isinstance(self.excess, Unknown) or isinstance(self.own, Unknown):
            return f"Whether the flips with {name} are more than the model's own noise is unknown."
        assert isinstance(self.excess, Observed | Estimated)
        low, high = 100 * self.excess.low, 100 * self.excess.high
        excess = f"excess {100 * self.excess.value:+.1f} points, {format_level(self.excess.confidence)} interval "
        excess += f"{low:+.1f} to {high:+.1f}"
        own = format_percent(self.own.value)
        clearly = "more often" if low > 0 else "no more often, as far as can be told,"
        said = (
            f"Decisions change with {name} for {flip_rate} of people, {clearly} than when the same person is asked "
            f"about again ({own}; {excess})."
        )
        if self.p is None:
            return said
        best, worst = (pick(self.directions, key=lambda one: one.difference) for pick in (max, min))
        if self.p > 1 - self.excess.confidence:
            return f"{said} No value of {name} is favoured clearly (p = {self.p:.2g})."
        rates = [format_percent(one.rate.value) for one in (best, worst) if not isinstance(one.rate, Unknown)]
        return (
            f"{said} The favourable decision is given to {rates[0]} as {best.value} and to {rates[1]} as {worst.value} "
            f"(p = {self.p:.2g}): noise does not explain that."
        )


class NoiseRecorder:
    """Collects what a model says of people under each assignment, and asks some of them again about themselves.

    Args:
        scorer: the model, which keeps no answers.
        rng: which assignment a person is asked about again.
    """

    def __init__(self, scorer: FreshScorer, rng: np.random.Generator) -> None:
        self.scorer, self.rng = scorer, rng
        self.queries = 0
        self._flips: list[Booleans] = []
        self._own: list[Booleans] = []
        self._favourable: list[Floats] = []

    def add(self, variants: Floats, labels: Integers, plausible: Booleans) -> None:
        """Take in people in random order, each with a plausible counterpart.

        Args:
            variants: who they are under each assignment, shape (n, m, attributes).
            labels: the model's, shape (n, m).
            plausible: which of the variants are compared, shape (n, m).
        """
        some = max(0, ASKED_AGAIN - sum(map(len, self._own)))
        self._own.append(self._ask_again(variants[:some], labels[:some], plausible[:some]))
        self._flips.append(find_flips(labels, plausible))
        self._favourable.append(np.where(plausible, labels == self.scorer.favourable, np.nan))

    def _ask_again(self, variants: Floats, labels: Integers, plausible: Booleans) -> Booleans:
        """Return whether answers to one random variant differ, of which there are as many as plausible variants."""
        n = len(labels)
        if n == 0:
            return np.zeros(0, dtype=np.bool_)
        chosen = np.argmax(np.where(plausible, self.rng.random(plausible.shape), -1.0), axis=1)
        person = np.repeat(np.arange(n), plausible.sum(axis=1) - 1)
        again = self.scorer.predict(variants[person, chosen[person]])
        self.queries += len(person) * self.scorer.answers
        changed = again != labels[person, chosen[person]]
        return np.asarray(np.bincount(person, weights=changed, minlength=n) > 0)

    def result(
        self, schema: Schema, protected: tuple[str, ...], confidence: float, population: str | None
    ) -> FlipNoise | None:
        """Return the excess and, for one attribute, the directions; None if no one was compared.

        Args:
            schema, protected: what was changed.
            confidence: of the intervals.
            population: what the people were sampled from; None: they are the people in the data.
        """
        own, flips = (np.concatenate([np.zeros(0, dtype=np.bool_), *parts]) for parts in (self._own, self._flips))
        if len(own) == 0:
            return None
        value, (low, high) = excess_over_noise(FlipCounts.of(flips, own), confidence)
        known: dict[str, Any] = {"value": float(value), "low": float(low), "high": float(high), "n": len(own)}
        known |= {"confidence": confidence, "method": METHOD}
        directions: tuple[AssignmentRate, ...] = ()
        p = None
        if len(protected) == 1:
            entries = schema.assignments(protected)[:, 0]
            values = [schema[protected[0]].text(entry) for entry in entries]
            directions, p = compare_directions(np.concatenate(self._favourable), values, confidence, population)
        return FlipNoise(
            own=_rate(int(own.sum()), len(own), confidence, population),
            excess=Observed(**known) if population is None else Estimated(population=population, **known),
            people=len(own),
            queries=self.queries,
            directions=directions,
            p=p,
        )


def compare_directions(
    favourable: Floats, values: list[str], confidence: float, population: str | None = None
) -> tuple[tuple[AssignmentRate, ...], float]:
    """Compare the favourable rates of the same people under every protected value.

    Each answer is taken as its distance from the mean answer about its person, which has mean 0 under every value if
    the value makes no difference. People are independent; intervals and p are Bonferroni's over the values (two values
    are one comparison).

    Args:
        favourable: 1 or 0, NaN where a value has no plausible counterpart, shape (n, m).
        values: what the m columns are called.
        confidence: of all intervals together.
        population: what the people were sampled from; None: they are the people in the data.
    """
    tests = len(values) if len(values) > 2 else 1
    level = bonferroni(confidence, tests)
    z = float(normal_quantile(level))
    centred = favourable - np.nanmean(favourable, axis=1, keepdims=True)
    means = clustered_means(centred, np.arange(len(centred)), 1.0, z=z)
    low, high = means.interval(z)
    given, asked = np.nansum(favourable, axis=0), (~np.isnan(favourable)).sum(axis=0)
    rates = tuple(
        AssignmentRate(
            value=value,
            rate=_rate(int(given[i]), int(asked[i]), confidence, population),
            difference=float(means.mean[i]),
            low=float(low[i]),
            high=float(high[i]),
        )
        for i, value in enumerate(values)
    )
    return rates, float(min(1.0, tests * normal_p_value(means.z).min()))


def _rate(k: int, n: int, confidence: float, population: str | None) -> Quantity:
    if population is None:
        return observed_rate(k, n, confidence)
    return estimated_rate(k, n, population, confidence)


# Pairs that are more than noise: asked about again, several times each.

ANSWERS = 15
"""Fresh answers about each side of a pair before it is shown."""


class ConfirmedFlips(NamedTuple):
    """What fresh answers say of people under every assignment.

    Attributes:
        labels: of the majority, shape (n, m); those not compared mean nothing.
        scores: their means, shape (n, m, classes), NaN where not compared.
        kept: who is decided differently beyond noise, shape (n,).
    """

    labels: Integers
    scores: Floats
    kept: Booleans


def confirm_flips(
    scorer: Scorer,
    variants: Floats,
    compared: Booleans,
    *,
    confidence: float = 0.95,
    ledger: QuestionLedger | None = None,
) -> ConfirmedFlips:
    """Ask a noisy model ``ANSWERS`` times about people under every assignment, and test whether the answers differ.

    For each label the assignments that got it most and least often are compared by Fisher's exact test, two-sided, with
    Bonferroni's correction for all pairs of assignments and all labels. Over people the false discovery rate is
    controlled (``benjamini_yekutieli``). How these people were found does not matter, since all answers are new.

    Args:
        scorer: the model.
        variants: shape (n, m, attributes).
        compared: which of them are compared, shape (n, m).
        confidence: 1 minus the share of false findings, on average at most.
        ledger: is charged if the model has none of its own.
    """
    (n, m), classes = compared.shape, len(scorer.classes)
    replies, given = repeat_questions(scorer, variants[compared], ANSWERS, ledger)
    counts, scores = np.zeros((n, m, classes), dtype=np.int64), np.full((n, m, classes), np.nan)
    labels = np.zeros((n, m), dtype=np.int64)
    counts[compared], scores[compared], labels[compared] = given, replies.scores, replies.labels
    most = np.where(compared[:, :, None], counts, -1).max(axis=1)
    least = np.where(compared[:, :, None], counts, ANSWERS + 1).min(axis=1)
    # Bonferroni: all pairs of assignments times all labels, of two labels one, as its count gives the other's.
    tests = m * (m - 1) // 2 * (classes if classes > 2 else 1)
    p = np.minimum(1.0, tests * equal_rates_p(ANSWERS)[most, least].min(axis=1))
    kept = find_flips(labels, compared)
    if n:
        kept &= benjamini_yekutieli(p) <= 1 - confidence
    return ConfirmedFlips(labels, scores, kept)


def equal_rates_p(answers: int) -> Floats:
    """Return Fisher's exact two-sided p of equal rates for k and l successes of so many answers each, shape (k, l).

    Given their sum, k is hypergeometric and symmetric about half of it, so p is twice the tail beyond the larger.
    """
    p = np.ones((answers + 1, answers + 1))
    for k in range(answers + 1):
        for other in range(k):
            total = k + other
            tail = sum(math.comb(answers, i) * math.comb(answers, total - i) for i in range(k, min(answers, total) + 1))
            p[k, other] = p[other, k] = min(1.0, 2 * tail / math.comb(2 * answers, total))
    return p
