"""Noise of a model: whether repeated queries return the same answer.

A language model behind an HTTP endpoint, or a function with random numbers, may decide the same person differently each
time. Single answers then mix the effect of the person with the model's noise. Some queries are therefore repeated,
without a cache and in reversed order, since a generator seeded per call would repeat its numbers by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial

import numpy as np
from pydantic import BaseModel, ConfigDict

from evenhand.core.document import Note
from evenhand.core.text import format_count
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Floats, Integers
from evenhand.models.replies import QuestionLedger, Reply, ReplyingScorer, ask_model, find_ledger, join_replies
from evenhand.models.scorer import (
    BATCH_ROWS,
    Regressor,
    RowsT,
    Scorer,
    WrappedScorer,
    predict_labels,
    split_batches,
    unwrap_scorer,
)
from evenhand.stats.proportion import observed_rate
from evenhand.stats.quantity import Observed, format_interval, format_value

CHECKED = 300
"""Maximum number of people in repeated queries. If all answers agree, at most 1.2 % of decisions change (95 %
confidence)."""

FIRST = 20
"""Number of people in the first repeated query. The time limit is checked before each further one."""


class NoiseCheck(BaseModel):
    """Decisions of a model that changed when a query was repeated.

    Attributes:
        people: Number of people, or texts, in repeated queries.
        changed: Number of those whose decision changed.
        rate: Rate of changed decisions.
        queries: Number of repeated queries.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    people: int
    changed: int
    rate: Observed
    queries: int

    @classmethod
    def of_counts(cls, changed: int, people: int, confidence: float) -> NoiseCheck:
        """Build the check from counts."""
        rate = observed_rate(changed, people, confidence)
        assert isinstance(rate, Observed)
        return cls(people=people, changed=changed, rate=rate, queries=people)

    @property
    def noisy(self) -> bool:
        """Whether a decision changed."""
        return self.changed > 0

    def caution(self, consequence: str, nouns: tuple[str, str] = ("person", "people")) -> Note:
        """Build the note shown before all results.

        Args:
            consequence: Consequence for the results, in full sentences.
            nouns: Noun for people or texts, singular and plural.
        """
        count = format_count(self.people, *nouns)
        return Note(
            f"The model answers differently each time: asked twice about the same {count}, it changed its decision "
            f"for {self.changed:,}, {format_value(self.rate, 'rate')} (observed, "
            f"{format_interval(self.rate, 'rate')}). {consequence}",
            "caution",
        )


class RepeatCheck(BaseModel):
    """Test of differences between single answers, which repeats both queries.

    Attributes:
        differed: Number of differences between single answers.
        tested: Number of differences tested. A budget or a time limit may leave some untested.
        repeated: Number of reproduced differences. Only these are counted; the other tested differences are noise.
        queries: Number of individuals, or texts, in repeated queries.
        confidence: 1 minus the false discovery rate: the expected share of noise among the reproduced differences.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    differed: int
    tested: int
    repeated: int
    queries: int
    confidence: float

    @property
    def noise(self) -> int:
        """Number of tested differences that were not reproduced."""
        return self.tested - self.repeated

    @property
    def sentence(self) -> str:
        """Summary of the counts in one sentence."""
        return (
            f"single answers differed for {self.differed:,}; both queries of {self.tested:,} were repeated: "
            f"{self.repeated:,} repeated and {self.noise:,} did not, which are the model's own noise and do not count "
            f"(false discovery rate at most {100 * (1 - self.confidence):.3g} %)"
        )


def growing_batches(rows: RowsT, limit: TimeLimit, stopped: Callable[[], bool] = lambda: False) -> Iterator[RowsT]:
    """Yield batches of rows, each twice the size of the previous one, until the time limit."""
    start, size = 0, FIRST
    while start < len(rows) and not stopped() and not (start and limit.passed()):
        yield rows[start : start + size]
        start, size = start + size, 2 * size


def check_noise(
    scorer: Scorer,
    individuals: Floats,
    *,
    most: int = CHECKED,
    confidence: float = 0.95,
    limit: TimeLimit = NEVER,
) -> NoiseCheck | None:
    """Query a model with the first individuals (n, attributes) twice and count changed decisions.

    Args:
        scorer: The model. Only its first answers may come from a cache.
        individuals: Individuals in random order.
        most: Maximum number of individuals.
        confidence: Confidence level of the interval.
        limit: Time limit for further batches.

    Returns:
        The counts. None if there are no individuals or the model is deterministic (see ``can_vary``).
    """
    if not can_vary(scorer) or len(individuals[:most]) == 0:
        return None
    people = changed = 0
    for batch in growing_batches(individuals[:most], limit):
        # Reversed order also detects answers that depend on the position in a batch.
        again = ask_again(scorer, batch[::-1]).labels[::-1]
        changed += int((predict_labels(scorer, batch) != again).sum())
        people += len(batch)
    return NoiseCheck.of_counts(changed, people, confidence)


def can_vary(model: Scorer | Regressor) -> bool:
    """Check whether answers of a model may differ between calls: endpoints, functions, unknown estimators.

    Such a model has an attribute ``can_vary``. White boxes are deterministic.
    """
    return bool(getattr(unwrap_scorer(model), "can_vary", False))


def ask_again(scorer: Scorer, individuals: Floats, ledger: QuestionLedger | None = None) -> Reply:
    """Query a model with individuals (n, attributes) without a cache or deduplication of rows.

    Wrappers that change the decisions, such as thresholds, are applied to the new answers.

    Args:
        scorer: The model.
        individuals: The individuals.
        ledger: Ledger that is charged if the model has none.
    """
    batch = int(getattr(unwrap_scorer(scorer), "batch", BATCH_ROWS))
    while isinstance(scorer, WrappedScorer) and not scorer.decides:
        scorer = scorer.model
    if isinstance(scorer, WrappedScorer):
        fresh = FreshScorer(scorer.model)
        scorer = copy(scorer)
        object.__setattr__(scorer, "model", fresh)  # some wrappers are frozen dataclasses
    again = getattr(scorer, "reply_again", None) or partial(ask_model, scorer, ledger=ledger)
    return join_replies(scorer, map(again, split_batches(individuals, batch)))


class FreshScorer(ReplyingScorer, WrappedScorer):
    """Wrapper of a model whose answers vary. Answers are not cached. Several answers are combined by majority vote
    (ties are resolved in favour of the earliest answer), and scores are averaged.

    Attributes:
        model: The model.
        answers: Answers per individual.
    """

    def __init__(self, model: Scorer, answers: int = 1) -> None:
        self.model, self.answers = model, answers

    @property
    def ledger(self) -> QuestionLedger | None:
        """Ledger of the model."""
        return find_ledger(unwrap_scorer(self.model))

    @property
    def batch(self) -> int:
        """Individuals per query."""
        return max(1, int(getattr(self.model, "batch", BATCH_ROWS)) // self.answers)

    def reply(self, individuals: Floats) -> Reply:
        """Return mean scores and majority labels of the same answers."""
        return repeat_questions(self.model, individuals, self.answers)


def repeat_questions(scorer: Scorer, individuals: Floats, answers: int, ledger: QuestionLedger | None = None) -> Reply:
    """Query a model with each individual (n, attributes) several times. For the arguments, see ``ask_again``."""
    reply = ask_again(scorer, np.repeat(individuals, answers, axis=0), ledger)
    scores = reply.scores.reshape(len(individuals), answers, len(scorer.classes)).mean(axis=1)
    labels = reply.labels.reshape(len(individuals), answers)
    counts = (labels[:, :, None] == np.arange(len(scorer.classes))).sum(axis=1)
    return Reply(scores, majority(labels, counts), scorer.label_only)


def majority(labels: Integers, counts: Integers) -> Integers:
    """Return the most frequent label of each row of answers (n, answers), shape (n,), given the ``counts`` by label.

    Ties are resolved in favour of the earliest answer.
    """
    votes = np.take_along_axis(counts, labels, axis=1)
    return np.take_along_axis(labels, votes.argmax(axis=1)[:, None], axis=1)[:, 0]
