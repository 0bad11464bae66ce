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

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_level, format_percent
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.flips import find_flips
from evenhand.models.ledger import QuestionLedger
from evenhand.models.noise import FreshScorer, RepeatCheck, can_vary, repeat_questions
from evenhand.models.scorer import Scorer
from evenhand.schema.schema import Schema
from evenhand.stats.excess import FlipCounts, excess_over_noise
from evenhand.stats.level import bonferroni, normal_quantile
from evenhand.stats.mean import clustered_means
from evenhand.stats.permutation import normal_p_value
from evenhand.stats.proportion import estimated_rate, observed_rate
from evenhand.stats.quantity import Estimated, Observed, Quantity, Unknown, format_value
from evenhand.stats.repetition import confirm_repeats

ASKED_AGAIN = 300
"""People who are asked about themselves again for each rate, at most."""

METHOD = "paired mean and Clopper-Pearson limits, squared and added"
"""How the interval of the excess is called."""


class AssignmentRate(ResultPart):
    """How often people get the favourable decision under one protected value, everything else as it is.

    Attributes:
        value: the protected value.
        rate: share of the people compared who get the favourable decision.
        difference: their mean distance from the average over all values of the same person.
        low, high: its interval, simultaneous over all values.
    """

    value: str
    rate: Quantity
    difference: float
    low: float
    high: float


class FlipNoise(ResultPart):
    """Differences between single answers beside the model's own noise.

    Attributes:
        single: Share of people whose single answers differ between protected values, whether they repeat or not.
        own: share of people whose decision differs when the same row is asked as often as there are values.
        excess: ``single`` minus ``own``.
        people: how many were asked again.
        queries: questions that took.
        directions: the favourable rate under each value; none for several attributes together.
        p: of the same rate under all values, adjusted for their number; None without directions.
    """

    single: Quantity
    own: Quantity
    excess: Quantity
    people: int
    queries: int
    directions: tuple[AssignmentRate, ...] = ()
    p: float | None = None

    def sentence(self, name: str) -> str:
        """State whether single answers differ more often than by noise, and which value is favoured.

        Args:
            name: The attributes that were changed.
        """
        if isinstance(self.excess, Unknown) or isinstance(self.own, Unknown) or isinstance(self.single, Unknown):
            return f"Whether single answers differ with {name} by more than the model's own noise is unknown."
        assert isinstance(self.excess, Observed | Estimated)
        low, high = 100 * self.excess.low, 100 * self.excess.high
        excess = f"excess {100 * self.excess.value:+.1f} points, {format_level(self.excess.confidence)} interval "
        excess += f"{low:+.1f} to {high:+.1f}"
        clearly = "more often" if low > 0 else "no more often, as far as can be told,"
        sentence = (
            f"Single answers differ with {name} for {format_value(self.single, 'rate')} of people, {clearly} than when "
            f"the same person is asked about again ({format_value(self.own, 'rate')}; {excess})."
        )
        if self.p is None:
            return sentence
        best, worst = (pick(self.directions, key=lambda rate: rate.difference) for pick in (max, min))
        if self.p > 1 - self.excess.confidence:
            return f"{sentence} No value of {name} is favoured clearly (p = {self.p:.2g})."
        rates = [format_percent(side.rate.value) for side in (best, worst) if not isinstance(side.rate, Unknown)]
        return (
            f"{sentence} The favourable decision is given to {rates[0]} as {best.value} and to {rates[1]} as "
            f"{worst.value} (p = {self.p:.2g}): noise does not explain that."
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
            single=_rate(int(flips.sum()), len(flips), confidence, population),
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


# Flips are asked about again before they count.


class ConfirmedFlips(NamedTuple):
    """Flips that repeat in new answers.

    Attributes:
        confirmed: Whether each flip is confirmed, shape (n,).
        scores: Mean favourable scores of the new answers about both sides of each flip, shape (n, 2).
        check: Counts.
    """

    confirmed: Booleans
    scores: Floats
    check: RepeatCheck


def confirm_flips(
    scorer: Scorer,
    sides: Floats,
    labels: Integers,
    *,
    confidence: float = 0.95,
    ledger: QuestionLedger | None = None,
    left: Callable[[], float] = lambda: np.inf,
    limit: TimeLimit = NEVER,
) -> ConfirmedFlips:
    """Ask again about both sides of each flip, and test whether the two labels repeat (see ``stats.repetition``).

    Each round puts all questions in the reverse order of the round before: a generator that is seeded per call would
    otherwise repeat its answers by position.

    Args:
        scorer: The model.
        sides: The two individuals of each flip, most important flip first, shape (n, 2, attributes).
        labels: Their labels, which differ, shape (n, 2).
        confidence: 1 minus the false discovery rate.
        ledger: Ledger that is charged if the model has none.
        left: Return the number of individuals that may still be asked about.
        limit: Time limit.
    """
    fresh = scorer if isinstance(scorer, FreshScorer) else FreshScorer(scorer)
    scores = np.full(labels.shape, np.nan)
    answered = np.zeros(len(labels), dtype=np.int64)
    direction = -1

    def repeat(flips: Integers) -> Booleans:
        nonlocal direction
        rows = sides[flips].reshape(-1, sides.shape[2])
        reply = repeat_questions(fresh.model, rows[::direction], fresh.answers, ledger).reply
        new = reply.scores[::direction, scorer.favourable].reshape(-1, 2)
        direction = -direction
        answered[flips] += 1
        before = np.where(answered[flips, None] == 1, new, scores[flips])
        scores[flips] = before + (new - before) / answered[flips, None]
        same = reply.labels[::-direction].reshape(-1, 2) == labels[flips]
        return np.asarray(same.all(axis=1))

    each = 2 * fresh.answers
    repetition = confirm_repeats(
        repeat,
        len(labels),
        confidence=confidence,
        affordable=lambda: left() / each,
        step=max(1, fresh.batch // 2),
        limit=limit,
    )
    check = RepeatCheck(
        differed=len(labels),
        tested=repetition.tested,
        repeated=int(repetition.confirmed.sum()),
        queries=each * int(answered.sum()),
        confidence=confidence,
    )
    return ConfirmedFlips(repetition.confirmed, scores, check)


def first_difference(labels: Integers, compared: Booleans) -> Integers:
    """Return the first compared assignment of each row and the first that gets another label, shape (n, 2).

    Args:
        labels: Labels by assignment, shape (n, m).
        compared: Assignments that are compared, same shape.
    """
    first = np.argmax(compared, axis=1)
    other = compared & (labels != np.take_along_axis(labels, first[:, None], axis=1))
    return np.stack([first, np.argmax(other, axis=1)], axis=1)


def find_confirmed_flips(
    scorer: Scorer,
    variants: Floats,
    labels: Integers,
    compared: Booleans,
    *,
    confidence: float = 0.95,
    limit: TimeLimit = NEVER,
) -> Booleans:
    """Find the individuals whose label flips, and whose flip repeats if the model can vary, shape (n,).

    Args:
        scorer: The model.
        variants: Variants of each individual, shape (n, m, attributes).
        labels: Labels of the variants, shape (n, m).
        compared: Variants that are compared, shape (n, m).
        confidence: 1 minus the false discovery rate.
        limit: Time limit.
    """
    flips = find_flips(labels, compared)
    if can_vary(scorer) and flips.any():
        rows = np.flatnonzero(flips)[:, None]
        pairs = first_difference(labels[flips], compared[flips])
        found = confirm_flips(scorer, variants[rows, pairs], labels[rows, pairs], confidence=confidence, limit=limit)
        flips[rows[:, 0]] = found.confirmed
    return flips
