"""Counterfactual flips: people whose decision changes with a protected attribute.

As published, an individual discriminatory instance is a person whose label differs under another assignment of the
protected attributes, with all other values unchanged (Galhotra, Brun & Meliou, "Fairness testing", ESEC/FSE 2017;
Aggarwal et al., ESEC/FSE 2019). The counterfactual flip rate is the share of such people.

If the schema has rules, people are compared with plausible counterparts: linked attributes change too (a husband
becomes a wife), and combinations that break a rule are not compared. ``as_published`` ignores the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.result_part import ResultPart
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.noise import FlipNoise
from evenhand.models.noise import FreshScorer, RepeatCheck, can_vary, repeat_questions
from evenhand.models.replies import QuestionLedger
from evenhand.models.scorer import Scorer, predict_labels, split_batches
from evenhand.schema.counterparts import counterparts_of
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.quantity import Quantity
from evenhand.stats.repetition import confirm_repeats

MAX_CHUNK_ENTRIES = 4_000_000
"""Maximum number of entries (individuals times attributes) in a query or comparison."""


class FlipRate(ResultPart):
    """Counterfactual flip rate of a set of people, profiles or texts.

    Attributes:
        over: ``data`` (rows of the data) or ``population`` (individuals drawn at random).
        population: Name of the population.
        protected: Attributes that vary jointly. For texts, the category of the swapped words.
        rate: Share of the n people whose label changes. In an audit with a proof about the same population, the
            estimate combines the proof and all samples.
        flips: Number of people whose label changes.
        n: Number of people compared.
        without: People left out because they have no plausible counterpart, or texts without words of the category.
        breaking: People left out because they break a rule of the schema.
        unknown: People left out because a protected value is unknown.
        queries: Number of queried individuals, excluding those of ``repeats``.
        repeats: Number of flips that repeat. Only these count. None for a deterministic model.
        noise: Comparison of single answers with the noise of a noisy model (see ``models.check_noise``), else None.
    """

    over: Literal["data", "population"]
    population: str
    protected: tuple[str, ...]
    rate: Quantity
    flips: int
    n: int
    without: int = 0
    breaking: int = 0
    unknown: int = 0
    queries: int = 0
    repeats: RepeatCheck | None = None
    noise: FlipNoise | None = None

    @property
    def unrepeated(self) -> int:
        """Number of flips of single answers that did not repeat. They are noise and do not count."""
        return 0 if self.repeats is None else self.repeats.noise

    @property
    def excess(self) -> Quantity:
        """Rate of differing single answers minus the model's noise. Without noise, the rate itself."""
        return self.rate if self.noise is None else self.noise.excess


def attribute_sets(protected: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each protected attribute on its own, then all of them jointly."""
    singles: list[tuple[str, ...]] = [(name,) for name in protected]
    return [*singles, tuple(protected)] if len(singles) > 1 else singles


def find_flips(labels: Integers) -> Booleans:
    """Find the individuals whose label (n, assignments) differs between assignments, shape (n,)."""
    return np.asarray((labels != labels[:, :1]).any(axis=1))


def first_difference(labels: Integers, compared: Booleans) -> Integers:
    """Return the first compared assignment of each row and the first with another label, shape (n, 2).

    Without another label, both are the first compared assignment.
    """
    reference = np.argmax(compared, axis=1)
    other = compared & (labels != np.take_along_axis(labels, reference[:, None], axis=1))
    return np.stack([reference, np.argmax(2 * other + compared, axis=1)], axis=1)


class WidestPairs(NamedTuple):
    """Two assignments of each individual with different labels.

    Attributes:
        sides: The worse and the better treated assignment, shape (n, 2). The better one has the highest favourable
            score, the worse one the lowest among those with another label.
        gaps: Difference of the two scores.
        differs: Whether any label differs.
    """

    sides: Integers
    gaps: Floats
    differs: Booleans


def find_widest_pairs(labels: Integers, scores: Floats, compared: Booleans) -> WidestPairs:
    """Find the best and the worst treated of the compared assignments from labels and favourable scores.

    A lower score with the same label is not a flip, so the worst assignment is chosen among those with another label.
    All arguments have shape (n, assignments).
    """
    rows = np.arange(len(labels))
    better = np.argmax(np.where(compared, scores, -np.inf), axis=1)
    other = compared & (labels != labels[rows, better][:, None])
    worse = np.argmin(np.where(other, scores, np.inf), axis=1)
    gaps = np.asarray(scores[rows, better] - scores[rows, worse])
    return WidestPairs(np.stack([worse, better], axis=1), gaps, other.any(axis=1))


def build_variants(individuals: Floats, columns: list[int], assignments: Floats) -> Floats:
    """Build every individual under every assignment, shape (n * assignments, attributes), individual by individual."""
    repeated = np.repeat(individuals, len(assignments), axis=0)
    repeated[:, columns] = np.tile(assignments, (len(individuals), 1))
    return repeated


@dataclass(frozen=True)
class Variants:
    """People under every protected assignment. If the schema has rules, linked attributes also change.

    Attributes:
        counterparts: The variants, shape (n, assignments, attributes).
        plausible: Variants that obey all rules of the schema, shape (n, assignments).
    """

    counterparts: Floats
    plausible: Booleans

    @classmethod
    def of(cls, schema: Schema, protected: Sequence[str], individuals: Floats) -> Variants:
        """Build the variants of individuals (n, attributes)."""
        if schema.constrains_people:
            return cls(*counterparts_of(schema, protected).of(individuals))
        assignments = schema.assignments(protected)
        variants = build_variants(individuals, schema.positions(protected), assignments)
        shape = len(individuals), len(assignments)
        return cls(variants.reshape(*shape, individuals.shape[1]), np.ones(shape, dtype=np.bool_))

    def __getitem__(self, rows: Integers) -> Variants:
        return Variants(self.counterparts[rows], self.plausible[rows])

    @property
    def representatives(self) -> Floats:
        """First plausible counterpart of each person, the same for all of their counterparts, shape (n, attributes)."""
        positions = np.argmax(self.plausible, axis=1)[:, None, None]
        return np.take_along_axis(self.counterparts, positions, axis=1)[:, 0]


class FlipAnswers:
    """Flips of people in single answers, which are then confirmed by repeated queries.

    Attributes:
        flips: Whether the label differs between plausible counterparts, shape (n,).
        compared: Whether the person obeys the rules and has a plausible counterpart, shape (n,).
        breaking: Whether the person breaks a rule, shape (n,).
    """

    def __init__(self, schema: Schema, protected: Sequence[str], individuals: Floats) -> None:
        """Create empty flips for individuals (n, attributes) who have no answers yet."""
        self._schema, self._protected, self._individuals = schema, protected, individuals
        self.flips, self.compared, self.breaking = np.zeros((3, len(individuals)), dtype=np.bool_)
        # The two assignments of each flip that are queried again, and their labels.
        self._pairs, self._labels = np.zeros((2, len(individuals), 2), dtype=np.int64)

    def add(self, part: slice, predict: Callable[[Floats], Integers]) -> tuple[Variants, Integers]:
        """Query some people under every plausible assignment. Return their variants and labels."""
        individuals = self._individuals[part]
        variants = Variants.of(self._schema, self._protected, individuals)
        labels = np.zeros(variants.plausible.shape, dtype=np.int64)
        labels[variants.plausible] = predict(variants.counterparts[variants.plausible])
        obeying = self._schema.obeys_rules(individuals)
        compared = obeying & (variants.plausible.sum(axis=1) > 1)
        self._pairs[part] = first_difference(labels, variants.plausible)
        self._labels[part] = np.take_along_axis(labels, self._pairs[part], axis=1)
        self.flips[part] = compared & find_flips(self._labels[part])
        self.compared[part], self.breaking[part] = compared, ~obeying
        return variants, labels

    def confirm(
        self,
        scorer: Scorer,
        *,
        confidence: float = 0.95,
        ledger: QuestionLedger | None = None,
        left: Callable[[], float] = lambda: np.inf,
        limit: TimeLimit = NEVER,
    ) -> tuple[int, int]:
        """Query both sides of each flip again, and drop the flips that do not repeat (see ``confirm_flips``).

        Return the number of queries, and the position of the first person whose flip was not tested, or n.
        """
        flipping = np.flatnonzero(self.flips)
        people = Variants.of(self._schema, self._protected, self._individuals[flipping]).counterparts
        sides = np.take_along_axis(people, self._pairs[flipping][:, :, None], axis=1)
        confirmed, _, check = confirm_flips(
            scorer, sides, self._labels[flipping], confidence=confidence, ledger=ledger, left=left, limit=limit
        )
        self.flips[flipping[~confirmed]] = False
        return check.queries, min([len(self.flips), *flipping[check.tested : check.tested + 1].tolist()])


def count_flips(scorer: Scorer, schema: Schema, individuals: Floats, protected: Sequence[str]) -> FlipAnswers:
    """Query the model for individuals (n, attributes) under every protected assignment, and find their flips.

    Flips of a model whose answers vary count only if they repeat.
    """
    answers = FlipAnswers(schema, protected, individuals)
    answers.add(slice(None), lambda rows: predict_labels(scorer, rows))
    if can_vary(scorer):
        answers.confirm(scorer)
    return answers


# Flips of a model whose answers vary count only if they repeat.


class ConfirmedFlips(NamedTuple):
    """Flips that recur when the model is queried again.

    Attributes:
        confirmed: Whether each flip is confirmed, shape (n,).
        scores: Mean favourable scores of the new answers for both sides of each flip, shape (n, 2).
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
    """Query both sides of each flip again and test whether the labels repeat (see ``stats.repetition``).

    Args:
        scorer: The model.
        sides: The two individuals of each flip, most important flip first, shape (n, 2, attributes).
        labels: Their labels, which differ, shape (n, 2).
        confidence: 1 minus the false discovery rate.
        ledger: Ledger that is charged if the model has none.
        left, limit: Remaining number of individuals, and time limit.
    """
    fresh = scorer if isinstance(scorer, FreshScorer) else FreshScorer(scorer)
    cost = 2 * fresh.answers

    def ask(individuals: Floats) -> Floats:
        reply = repeat_questions(fresh.model, individuals, fresh.answers, ledger)
        return np.stack([reply.scores[:, scorer.favourable], reply.labels], axis=1)

    return repeat_pairs(
        sides,
        ask,
        lambda flips, answers: np.asarray((answers[:, :, 1] == labels[flips]).all(axis=1)),
        cost=cost,
        confidence=confidence,
        affordable=lambda: left() / cost,
        step=max(1, fresh.batch // 2),
        limit=limit,
    )


def repeat_pairs(
    sides: Floats,
    ask: Callable[[Floats], Floats],
    repeats: Callable[[Integers, Floats], Booleans],
    *,
    cost: int,
    confidence: float,
    **options: Any,
) -> ConfirmedFlips:
    """Query both individuals of pairs again, and test which differences repeat (see ``stats.repetition``).

    Each round reverses the order of the queries: a generator seeded per call would otherwise repeat its answers by
    position.

    Args:
        sides: The two individuals of each pair, shape (n, 2, attributes).
        ask: Function from individuals (m, attributes) to new answers for them, shape (m, k).
        repeats: Function from positions of pairs (m,) and new answers for them (m, 2, k) to whether the difference
            repeats, shape (m,).
        cost: Number of queries per pair.
        confidence: 1 minus the false discovery rate.
        options: Other arguments of ``confirm_repeats``.

    Returns:
        The pairs that repeat. The scores are the means of the first column of the new answers, and NaN for pairs that
        were not queried.
    """
    means = np.zeros((len(sides), 2))
    rounds = np.zeros(len(sides), dtype=np.int64)
    direction = -1

    def repeat(pairs: Integers) -> Booleans:
        nonlocal direction
        individuals = sides[pairs].reshape(-1, sides.shape[2])
        answers = ask(individuals[::direction])[::direction]
        answers = answers.reshape(len(pairs), 2, answers.shape[1])
        direction = -direction
        rounds[pairs] += 1
        means[pairs] += (answers[:, :, 0] - means[pairs]) / rounds[pairs, None]
        return repeats(pairs, answers)

    repetition = confirm_repeats(repeat, len(sides), confidence=confidence, **options)
    means[rounds == 0] = np.nan
    check = RepeatCheck(
        differed=len(sides),
        tested=repetition.tested,
        repeated=int(repetition.confirmed.sum()),
        queries=cost * int(rounds.sum()),
        confidence=confidence,
    )
    return ConfirmedFlips(repetition.confirmed, means, check)


# Identical people are queried once, and records of real people are recognised.


@dataclass(frozen=True)
class DistinctProfiles:
    """Distinct people, ignoring some columns.

    Attributes:
        individuals: First person of each distinct profile, in order of appearance, shape (distinct, attributes).
        first: Position of that person, in ascending order, shape (distinct,).
        of: Profile of each person, shape (n,).
    """

    individuals: Floats
    first: Integers
    of: Integers


def merge_by_unprotected(individuals: Floats, columns: list[int]) -> DistinctProfiles:
    """Merge people (n, attributes) who differ only in the given columns."""
    import pandas as pd

    n = len(individuals)
    of, distinct = np.zeros(n, dtype=np.int64), 1
    for i in range(individuals.shape[1]):
        if i not in columns and distinct < n:  # most wide rows differ within a few columns
            codes, values = pd.factorize(np.array(individuals[:, i], dtype=np.float64).view(np.int64))
            of, profiles = pd.factorize(of * len(values) + codes)  # numbered by their first row
            distinct = len(profiles)
    first = np.unique(of, return_index=True)[1]
    return DistinctProfiles(individuals if distinct == n else individuals[first], first, of)


def find_real(people: People, protected: Sequence[str], variants: Floats, compared: Booleans) -> Booleans:
    """Find profiles that reveal a person in the data, shape (n,). All others are synthetic.

    A profile reveals a person if one of its variants equals a row of the data except for protected attributes, or if it
    has a value that only one person in the data has. The attributes ``protected`` vary, in addition to those of the
    schema. Only the compared (n, m) of the variants (n, m, attributes) count.
    """
    ignored = {*people.schema.protected, *protected}
    columns = [i for i, name in enumerate(people.schema.names) if name not in ignored]
    if not columns:
        return np.ones(len(variants), dtype=np.bool_)
    rows = variants[:, :, columns].reshape(-1, len(columns))
    keys, real = _row_keys(rows), np.zeros(len(rows), dtype=np.bool_)
    for batch in split_batches(people.individuals, max(1, MAX_CHUNK_ENTRIES // len(columns))):
        real |= np.isin(keys, _row_keys(batch[:, columns]))
    for i, column in enumerate(columns):
        values, counts = np.unique(people.individuals[:, column], return_counts=True)
        real |= np.isin(rows[:, i], values[counts == 1])
    return np.asarray((real.reshape(compared.shape) & compared).any(axis=1))


def _row_keys(rows: Floats) -> NDArray[np.void]:
    """Convert each row (n, k) to a single value, shape (n,)."""
    keys = np.ascontiguousarray(rows)
    return keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1]))).ravel()
