"""Sampling beyond the data: how rule sets fare among people near those in the data, who were never seen.

The people in the data are few and the model can be asked about anybody. Here people are drawn from the data, inside a
rule set and outside, and nudged (see ``Nudge``); the gap between the two is that of a population the data spell out
exactly, "the people in the data, nudged", and it can be known as closely as one pays for. What it says is about the
model around these data. It does not say how few real people the data hold: that is what the intervals over the real
people are for, and why these numbers are kept apart from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from evenhand.core import NEVER, ResultPart, TimeLimit
from evenhand.errors import OptionError
from evenhand.models import BATCH_ROWS, Scorer, ask_once
from evenhand.schema import People, Schema
from evenhand.stats import SequentialDifference, bonferroni, difference_interval, normal_quantile
from evenhand.subgroups.config import NeighbourhoodMethod
from evenhand.subgroups.rules import Rules, describe_rules, find_members
from evenhand.typing import Booleans, Floats, Integers

GapAnswer: TypeAlias = Literal["gap", "no gap", "open"]

FIRST_PAIRS = 16
"""Pairs asked about at first for each rule set by the sequential test."""

GROWTH = 4
"""Afterwards a quarter of the pairs so far, so that fewer than a quarter are asked about after the answer is clear."""

MOST_PAIRS = 100_000
"""Pairs of one rule set, at most: a gap just as large as the margin is never clear."""


class NeighbourhoodGap(ResultPart):
    """One rule set around the data.

    Attributes:
        rules, words: which one.
        people, rest: real people inside and outside from whom pairs were drawn.
        pairs: pairs of a nudged person inside and one outside that the model was asked about.
        rate, rest_rate, gap: favourable rates (or error rates) inside and outside, and their difference.
        low, high: interval for the gap among the people in the data, nudged; those of all rule sets hold together.
        confidence: with which they do.
        how: ``sampled``: a fixed number of pairs, with ``difference_interval``. ``sequential``: until the answer was
            clear, with an interval that is valid at any stopping time.
        p: p value against no gap, adjusted for the number of rule sets, valid at any time; None for ``sampled``.
        answer: ``gap``: the interval excludes 0. ``no gap``: it lies within the margin. ``open``: neither.
    """

    rules: Rules
    words: str
    people: int
    rest: int
    pairs: int
    rate: float | None
    rest_rate: float | None
    gap: float | None
    low: float
    high: float
    confidence: float
    how: NeighbourhoodMethod
    p: float | None
    answer: GapAnswer

    def sentence(self) -> str:
        """Return what was seen, in a sentence that says where."""
        if self.rate is None or self.rest_rate is None:
            return f"Around the data nothing was asked about {self.words}: the budget was spent."
        return (
            f"Around the data (people in it, slightly changed): {self.words} {100 * self.rate:.1f} %, everyone else "
            f"{100 * self.rest_rate:.1f} %, a gap of {100 * self.low:.1f} to {100 * self.high:.1f} points "
            f"({self.pairs:,} pairs asked)."
        )


@dataclass(frozen=True)
class NeighbourhoodResult:
    """What was seen around the data.

    Attributes:
        rule_sets: one by one, in the order asked about.
        asked: individuals the model was asked about; each counts once, however often it was drawn.
        interrupted: whether time ran out or somebody stopped it.
    """

    rule_sets: tuple[NeighbourhoodGap, ...]
    asked: int
    interrupted: bool


@dataclass(frozen=True)
class NeighbourhoodConfig:
    """How many nudged people a model is asked about.

    Attributes:
        how: ``sampled``: for each rule set as many pairs as bring the interval within ``margin`` even in the worst case
            (769 at 0.05 and 95 % for one rule set; fewer if the budget ends before). ``sequential``: pairs in growing
            batches until the interval excludes 0 or lies within the margin; for models whose answers cost money.
        refused: count people who are refused the favourable label, rather than those who are given it.
        margin: gaps below it do not matter.
        confidence: with which all intervals hold together (Bonferroni over the rule sets).
        budget: individuals that the model may be asked about in all.
        seed: of all random numbers.

    Raises:
        OptionError: the margin or the budget makes no sense.
    """

    how: NeighbourhoodMethod = "sampled"
    refused: bool = False
    margin: float = 0.05
    confidence: float = 0.95
    budget: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.margin < 1:
            raise OptionError(f"margin must lie between 0 and 1, not {self.margin:g}", hint="say 0.05, for example")
        if self.budget is not None and self.budget < 2:
            raise OptionError(f"a budget of {self.budget} allows no pair", hint="allow at least 2 individuals")


def sample_neighbourhood(
    scorer: Scorer,
    people: People,
    rule_sets: Sequence[Rules],
    *,
    sensitive: Collection[str],
    config: NeighbourhoodConfig | None = None,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> NeighbourhoodResult:
    """Ask the model about nudged people inside and outside of each rule set.

    Args:
        scorer: the model.
        people: from whom to draw, those that the measure is about.
        rule_sets: about which groups of them.
        sensitive: attributes that no nudge changes.
        config: how many to ask about, and what is counted.
        limit: when time is up.
        progress: called with the share done.

    Raises:
        OptionError: a rule set holds no one or everybody.
    """
    config = config or NeighbourhoodConfig()
    how, margin, confidence = config.how, config.margin, config.confidence
    drawn = [
        _NeighbourPairs(rules, find_members(people, rules), rng)
        for rules, rng in zip(rule_sets, np.random.default_rng(config.seed).spawn(len(rule_sets)), strict=True)
    ]
    asker = _BudgetedModel(scorer, people, Perturbation(people.schema, sensitive), config.budget, config.refused)
    interrupted = False
    if drawn:
        level = bonferroni(confidence, len(drawn))
        plan = _fixed_plan(drawn, level, margin) if how == "sampled" else _growing_plan
        try:
            interrupted = _sample_rounds(drawn, asker, plan, level, margin, how, limit, progress)
        except KeyboardInterrupt:
            interrupted = True
    return NeighbourhoodResult(
        tuple(pairs.answer(how, confidence, len(drawn), margin) for pairs in drawn), asker.queries, interrupted
    )


@dataclass
class _NeighbourPairs:
    """The pairs of one rule set so far."""

    rules: Rules
    inside: Booleans
    rng: np.random.Generator
    seen: SequentialDifference = field(default_factory=SequentialDifference)
    counts: Integers = field(default_factory=lambda: np.zeros(2, dtype=np.int64))

    def __post_init__(self) -> None:
        self.pools = np.flatnonzero(self.inside), np.flatnonzero(~self.inside)
        if not all(len(pool) for pool in self.pools):
            whom = "no one" if not self.inside.any() else "everybody"
            raise OptionError(
                f"{describe_rules(self.rules)} holds {whom}, so there are no two sides to draw pairs from"
            )

    def draw(self, pairs: int) -> Integers:
        """Return the rows of people, first those inside and then those outside, shape (2 * pairs,)."""
        return np.concatenate([pool[self.rng.integers(0, len(pool), size=pairs)] for pool in self.pools])

    def add(self, outcomes: Booleans) -> None:
        first, second = outcomes.reshape(2, -1)
        self.seen.add(first, second)
        self.counts += first.sum(), second.sum()

    def interval(self, how: NeighbourhoodMethod, level: float) -> tuple[float, float]:
        if how == "sequential":
            return self.seen.interval(level)
        n = self.seen.pairs
        low, high = difference_interval(self.counts[0], n, self.counts[1], n, level)
        return float(low), float(high)

    def answer(self, how: NeighbourhoodMethod, confidence: float, rule_sets: int, margin: float) -> NeighbourhoodGap:
        n = self.seen.pairs
        low, high = self.interval(how, bonferroni(confidence, rule_sets))
        rate, rest_rate = (self.counts / n).tolist() if n else (None, None)
        return NeighbourhoodGap(
            rules=self.rules,
            words=describe_rules(self.rules),
            people=len(self.pools[0]),
            rest=len(self.pools[1]),
            pairs=n,
            rate=rate,
            rest_rate=rest_rate,
            gap=self.seen.difference if n else None,
            low=low,
            high=high,
            confidence=confidence,
            how=how,
            p=min(1.0, self.seen.p * rule_sets) if how == "sequential" else None,
            answer=_gap_answer(low, high, margin),
        )


class _BudgetedModel:
    """Asks the model about nudged people, about the same one only once, and no more than the budget allows."""

    def __init__(self, scorer: Scorer, people: People, nudge: Perturbation, budget: int | None, refused: bool) -> None:
        self._scorer, self._people, self._nudge, self._refused = scorer, people, nudge, refused
        self._known: dict[bytes, Floats] = {}
        self._budget = budget

    @property
    def queries(self) -> int:
        return len(self._known)

    @property
    def budget_left(self) -> float:
        return math.inf if self._budget is None else self._budget - self.queries

    def ask(self, rows: Integers, rng: np.random.Generator) -> Booleans:
        """Return the outcome of each of these people, nudged once each."""
        nudged = self._nudge(self._people.individuals[rows], rng)
        labels = ask_once(nudged, self._known, self._labels, batch=BATCH_ROWS, width=1)[:, 0]
        return np.asarray((labels == self._scorer.favourable) != self._refused)

    def _labels(self, individuals: Floats) -> Floats:
        return self._scorer.predict(individuals)[:, None].astype(np.float64)


PairPlan: TypeAlias = Callable[[_NeighbourPairs], int]
"""How many more pairs a rule set wants; 0 when it is done."""


def _fixed_plan(drawn: list[_NeighbourPairs], level: float, margin: float) -> PairPlan:
    # Clopper-Pearson limits of a rate of 1/2 lie z / (2 sqrt(n)) + 1 / (2n) from it; two rates are squared and added.
    root = (normal_quantile(level) + math.sqrt(normal_quantile(level) ** 2 + 4 * math.sqrt(2) * margin)) / 2
    enough = math.ceil((root / margin) ** 2 / 2)
    return lambda pairs: enough - pairs.seen.pairs


def _growing_plan(pairs: _NeighbourPairs) -> int:
    return min(max(FIRST_PAIRS, pairs.seen.pairs // GROWTH), MOST_PAIRS - pairs.seen.pairs)


def _sample_rounds(
    drawn: list[_NeighbourPairs],
    asker: _BudgetedModel,
    plan: PairPlan,
    level: float,
    margin: float,
    how: NeighbourhoodMethod,
    limit: TimeLimit,
    progress: Callable[[float], None] | None,
) -> bool:
    """Ask round by round, every open rule set in each; whether the time ran out."""
    open_ones = drawn
    while open_ones:
        # Each gets an equal share of what is left, so that a small budget is not spent on the first alone.
        affordable = asker.budget_left // (2 * len(open_ones))
        for pairs in open_ones:
            if limit.passed():
                return True
            more = int(min(plan(pairs), max(affordable, 1), asker.budget_left // 2))
            if more >= 1:
                pairs.add(asker.ask(pairs.draw(more), pairs.rng))
        open_ones = [
            pairs for pairs in open_ones if asker.budget_left >= 2 and not _is_decided(pairs, plan, level, margin, how)
        ]
        if progress is not None:
            progress(1 - len(open_ones) / len(drawn))
    return False


def _is_decided(pairs: _NeighbourPairs, plan: PairPlan, level: float, margin: float, how: NeighbourhoodMethod) -> bool:
    if plan(pairs) <= 0:
        return True
    if how == "sampled":
        return False
    # Whether 0, or else both ends of the margin, lie outside the interval; faster than the interval itself.
    enough = 1 / (1 - level)
    evidence = pairs.seen.evidence
    return evidence() >= enough or min(evidence(margin), evidence(-margin)) >= enough


def _gap_answer(low: float, high: float, margin: float) -> GapAnswer:
    if low > 0 or high < 0:
        return "gap"
    return "no gap" if -margin <= low and high <= margin else "open"


# The published perturbation: a person in the data with one attribute moved by the smallest step.

WHOLE_STEP = 1.0
"""How far an integer moves, and a category by its position in the schema (the published default)."""

DECIMAL_STEP = 0.01
"""How far a real number moves, in the attribute's own unit (the published default)."""


class Perturbation:
    """Moves one attribute that is not sensitive, drawn uniformly, one step up or down with even chances.

    A value that would leave its domain stays, and so does a missing one. Sensitive attributes never move, so a nudged
    person belongs to the same groups. With nothing else to move, everybody stays as they are.

    Source: Zhang and others, "TestSGD: interpretable testing of neural networks against subtle group discrimination"
    (TOSEM 2023), section 4.3.
    """

    def __init__(self, schema: Schema, sensitive: Collection[str]) -> None:
        """What may move.

        Args:
            schema: what the columns of an individual are.
            sensitive: attributes that stay.
        """
        movable = [i for i, attribute in enumerate(schema.attributes) if attribute.name not in sensitive]
        moving = [schema.attributes[i] for i in movable]
        self.columns = np.array(movable, dtype=np.int64)
        self.steps = np.array([DECIMAL_STEP if attribute.kind == "real" else WHOLE_STEP for attribute in moving])
        self.first = np.array([attribute.first for attribute in moving])
        self.last = np.array([attribute.last for attribute in moving])

    def __call__(self, individuals: Floats, rng: np.random.Generator) -> Floats:
        """Each of the individuals (n, attributes) nudged once, as new rows."""
        nudged = individuals.copy()
        if len(self.columns):
            which = rng.integers(0, len(self.columns), size=len(nudged))
            self._move_entries(nudged, which, rng.choice(np.array([-1.0, 1.0]), size=len(nudged)))
        return nudged

    def all_outcomes(self, individual: Floats) -> Floats:
        """List every outcome for one individual (attributes,), all equally likely, shape (2 * movable, attributes)."""
        if not len(self.columns):
            return individual[None, :].copy()
        nudged = np.tile(individual, (2 * len(self.columns), 1))
        self._move_entries(
            nudged, np.tile(np.arange(len(self.columns)), 2), np.repeat(np.array([-1.0, 1.0]), len(self.columns))
        )
        return nudged

    def _move_entries(self, rows: Floats, which: Integers, direction: Floats) -> None:
        at = np.arange(len(rows)), self.columns[which]
        rows[at] = np.clip(rows[at] + direction * self.steps[which], self.first[which], self.last[which])
