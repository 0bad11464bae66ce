"""Sampling beyond the data: how rule sets fare among people near those in the data, who were never seen.

The people in the data are few and the model can be asked about anybody. Here people are drawn from the data, inside a
rule set and outside, and nudged (see ``Nudge``); the gap between the two is that of a population the data spell out
exactly, "the people in the data, nudged", and it can be known as closely as one pays for. What it says is about the
model around these data. It does not say how few real people the data hold: that is what the intervals over the real
people are for, and why these numbers are kept apart from them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from evenhand.errors import OptionError
from evenhand.models import Scorer, predict
from evenhand.models.scorer import BATCH
from evenhand.schema import People
from evenhand.stats import SequentialDifference, newcombe
from evenhand.stats.level import bonferroni, normal_quantile
from evenhand.subgroup.members import members
from evenhand.subgroup.nudge import Nudge
from evenhand.subgroup.rules import Rules, words

Floats: TypeAlias = NDArray[np.float64]
How: TypeAlias = Literal["sampled", "sequential"]
Answer: TypeAlias = Literal["gap", "no gap", "open"]

FIRST_PAIRS = 16
"""Pairs asked about at first for each rule set by the sequential test."""

GROWTH = 4
"""Afterwards a quarter of the pairs so far, so that fewer than a quarter are asked about after the answer is clear."""

MOST_PAIRS = 100_000
"""Pairs of one rule set, at most: a gap just as large as the margin is never clear."""


class Around(BaseModel):
    """One rule set around the data.

    Attributes:
        rules, words: which one.
        people, rest: real people inside and outside from whom pairs were drawn.
        pairs: pairs of a nudged person inside and one outside that the model was asked about.
        rate, rest_rate, gap: favourable rates (or error rates) inside and outside, and their difference.
        low, high: interval for the gap among the people in the data, nudged; those of all rule sets hold together.
        confidence: with which they do.
        how: ``sampled``: as many pairs as were settled beforehand, Newcombe's interval. ``sequential``: until the
            answer was clear, with an interval that holds whenever one stops.
        p: p value against no gap, adjusted for the number of rule sets, valid at any time; None for ``sampled``.
        answer: ``gap``: the interval excludes 0. ``no gap``: it lies within the margin. ``open``: neither.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    how: How
    p: float | None
    answer: Answer

    def sentence(self) -> str:
        """What was seen, in a sentence that says where."""
        if self.rate is None or self.rest_rate is None:
            return f"Around the data nothing was asked about {self.words}: the budget was spent."
        return (
            f"Around the data (people in it, slightly changed): {self.words} {100 * self.rate:.1f} %, everyone else "
            f"{100 * self.rest_rate:.1f} %, a gap of {100 * self.low:.1f} to {100 * self.high:.1f} points "
            f"({self.pairs:,} pairs asked)."
        )


@dataclass(frozen=True)
class Surroundings:
    """What was seen around the data.

    Attributes:
        rule_sets: one by one, in the order asked about.
        asked: individuals the model was asked about; each counts once, however often it was drawn.
        interrupted: whether time ran out or somebody stopped it.
    """

    rule_sets: tuple[Around, ...]
    asked: int
    interrupted: bool


def augment(
    scorer: Scorer,
    people: People,
    rule_sets: Sequence[Rules],
    *,
    sensitive: Collection[str],
    how: How = "sampled",
    refused: bool = False,
    margin: float = 0.05,
    confidence: float = 0.95,
    budget: int | None = None,
    deadline: float | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Surroundings:
    """Ask the model about nudged people inside and outside of each rule set.

    Args:
        scorer: the model.
        people: from whom to draw, those that the measure is about.
        rule_sets: about which groups of them.
        sensitive: attributes that no nudge changes.
        how: ``sampled``: for each rule set as many pairs as bring the interval within ``margin`` even in the worst case
            (769 at 0.05 and 95 % for one rule set; fewer if the budget ends before). ``sequential``: pairs in growing
            batches until the interval excludes 0 or lies within the margin; for models whose answers cost money.
        refused: count people who are refused the favourable label, rather than those who are given it.
        margin: gaps below it do not matter.
        confidence: with which all intervals hold together (Bonferroni over the rule sets).
        budget: individuals that the model may be asked about in all.
        deadline: on the clock of ``time.perf_counter``.
        seed: of all random numbers.
        progress: called with the share done.

    Raises:
        OptionError: an option makes no sense, or a rule set holds nobody or everybody.
    """
    _check(margin, budget)
    drawn = [
        _Pairs(rules, members(people, rules), rng)
        for rules, rng in zip(rule_sets, np.random.default_rng(seed).spawn(len(rule_sets)), strict=True)
    ]
    asker = _Asker(scorer, people, Nudge(people.schema, sensitive), budget, refused)
    interrupted = False
    if drawn:
        level = bonferroni(confidence, len(drawn))
        plan = _fixed(drawn, level, margin) if how == "sampled" else _growing
        try:
            interrupted = _run(drawn, asker, plan, level, margin, how, deadline, progress)
        except KeyboardInterrupt:
            interrupted = True
    return Surroundings(
        tuple(pairs.answer(how, confidence, len(drawn), margin) for pairs in drawn), asker.asked, interrupted
    )


@dataclass
class _Pairs:
    """The pairs of one rule set so far."""

    rules: Rules
    inside: NDArray[np.bool_]
    rng: np.random.Generator
    seen: SequentialDifference = field(default_factory=SequentialDifference)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, dtype=np.int64))

    def __post_init__(self) -> None:
        self.pools = np.flatnonzero(self.inside), np.flatnonzero(~self.inside)
        if not all(len(pool) for pool in self.pools):
            whom = "nobody" if not self.inside.any() else "everybody"
            raise OptionError(f"{words(self.rules)} holds {whom}, so there are no two sides to draw pairs from")

    def draw(self, pairs: int) -> NDArray[np.int64]:
        """Rows of people, first those inside and then those outside, shape (2 * pairs,)."""
        return np.concatenate([pool[self.rng.integers(0, len(pool), size=pairs)] for pool in self.pools])

    def add(self, outcomes: NDArray[np.bool_]) -> None:
        first, second = outcomes.reshape(2, -1)
        self.seen.add(first, second)
        self.counts += first.sum(), second.sum()

    def interval(self, how: How, level: float) -> tuple[float, float]:
        if how == "sequential":
            return self.seen.interval(level)
        n = self.seen.pairs
        low, high = newcombe(self.counts[0], n, self.counts[1], n, level)
        return float(low), float(high)

    def answer(self, how: How, confidence: float, rule_sets: int, margin: float) -> Around:
        n = self.seen.pairs
        low, high = self.interval(how, bonferroni(confidence, rule_sets))
        rate, rest_rate = (self.counts / n).tolist() if n else (None, None)
        return Around(
            rules=self.rules,
            words=words(self.rules),
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
            answer=_answer(low, high, margin),
        )


class _Asker:
    """Asks the model about nudged people, about the same one only once, and no more than the budget allows."""

    def __init__(self, scorer: Scorer, people: People, nudge: Nudge, budget: int | None, refused: bool) -> None:
        self._scorer, self._people, self._nudge, self._refused = scorer, people, nudge, refused
        self._known: dict[bytes, bool] = {}
        self.asked = 0
        self._budget = budget

    @property
    def left(self) -> float:
        return math.inf if self._budget is None else self._budget - self.asked

    def ask(self, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
        """The outcome of each of these people, nudged once each."""
        nudged = self._nudge(self._people.individuals[rows], rng)
        keys = [individual.tobytes() for individual in nudged]
        fresh = {key: at for at, key in enumerate(keys) if key not in self._known}
        decided = predict(self._scorer, nudged[list(fresh.values())], batch=BATCH) == self._scorer.favourable
        self.asked += len(fresh)
        self._known.update(zip(fresh, (decided != self._refused).tolist(), strict=True))
        return np.array([self._known[key] for key in keys], dtype=np.bool_)


Plan: TypeAlias = Callable[[_Pairs], int]
"""How many more pairs a rule set wants; 0 when it is done."""


def _fixed(drawn: list[_Pairs], level: float, margin: float) -> Plan:
    # Wald's interval of two rates of 1/2 reaches z sqrt(1 / (2 n)); Newcombe's is narrower there.
    enough = math.ceil((normal_quantile(level) / margin) ** 2 / 2)
    return lambda pairs: enough - pairs.seen.pairs


def _growing(pairs: _Pairs) -> int:
    return min(max(FIRST_PAIRS, pairs.seen.pairs // GROWTH), MOST_PAIRS - pairs.seen.pairs)


def _run(
    drawn: list[_Pairs],
    asker: _Asker,
    plan: Plan,
    level: float,
    margin: float,
    how: How,
    deadline: float | None,
    progress: Callable[[float], None] | None,
) -> bool:
    """Ask round by round, every open rule set in each; whether the time ran out."""
    open_ones = drawn
    while open_ones:
        # Each gets an equal share of what is left, so that a small budget is not spent on the first alone.
        affordable = asker.left // (2 * len(open_ones))
        for pairs in open_ones:
            if deadline is not None and time.perf_counter() > deadline:
                return True
            more = int(min(plan(pairs), max(affordable, 1), asker.left // 2))
            if more >= 1:
                pairs.add(asker.ask(pairs.draw(more), pairs.rng))
        open_ones = [pairs for pairs in open_ones if asker.left >= 2 and not _done(pairs, plan, level, margin, how)]
        if progress is not None:
            progress(1 - len(open_ones) / len(drawn))
    return False


def _done(pairs: _Pairs, plan: Plan, level: float, margin: float, how: How) -> bool:
    if plan(pairs) <= 0:
        return True
    if how == "sampled":
        return False
    # Whether 0, or else both ends of the margin, lie outside the interval; faster than the interval itself.
    enough = 1 / (1 - level)
    evidence = pairs.seen.evidence
    return evidence() >= enough or min(evidence(margin), evidence(-margin)) >= enough


def _answer(low: float, high: float, margin: float) -> Answer:
    if low > 0 or high < 0:
        return "gap"
    return "no gap" if -margin <= low and high <= margin else "open"


def _check(margin: float, budget: int | None) -> None:
    if not 0 < margin < 1:
        raise OptionError(f"margin must lie between 0 and 1, not {margin:g}", mend="say 0.05, for example")
    if budget is not None and budget < 2:
        raise OptionError(f"a budget of {budget} allows no pair", mend="allow at least 2 individuals")
