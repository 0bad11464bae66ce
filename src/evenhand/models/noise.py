"""Whether a model gives the same answer when it is asked again: decisions that are drawn at random are not bias.

A language model behind an HTTP endpoint, or a function with a random number in it, may decide the same person
differently each time. What follows from one answer per person then mixes two things: who the person is, and the model's
own noise. So some people are asked about twice, the second time past every cache and in reversed order, since a
generator that is seeded per call would repeat its numbers by position.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from evenhand.core.document import Note
from evenhand.core.text import format_count
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Floats, Integers
from evenhand.models.ledger import QuestionLedger, ask_model, find_ledger
from evenhand.models.replies import Reply, ReplyingScorer, join_replies
from evenhand.models.scorer import BATCH_ROWS, Regressor, Scorer, WrappedScorer, predict_labels, unwrap_scorer
from evenhand.stats.proportion import observed_rate
from evenhand.stats.quantity import Observed, format_interval, format_value

CHECKED = 300
"""People asked about twice, at most. If all answers are alike, at most 1.2 % of people change (95 %)."""

FIRST = 20
"""Of them so many are asked about whatever the time limit; the clock is looked at before each further batch."""


class NoiseCheck(BaseModel):
    """How often a model decided differently when it was asked about the same person, or text, again.

    Attributes:
        people: how many people, or texts, were asked about twice.
        changed: for how many of them the decision changed.
        rate: their share.
        queries: questions that this took beyond the first answers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    people: int
    changed: int
    rate: Observed
    queries: int

    @property
    def noisy(self) -> bool:
        """Whether the model disagreed with itself."""
        return self.changed > 0

    def caution(self, consequence: str, nouns: tuple[str, str] = ("person", "people")) -> Note:
        """Return what a reader must know before anything else.

        Args:
            consequence: what it means for the numbers that follow, in full sentences.
            nouns: what was asked about, one and several.
        """
        asked = format_count(self.people, *nouns)
        return Note(
            f"The model answers differently each time: asked twice about the same {asked}, it changed its decision "
            f"for {self.changed:,}, {format_value(self.rate, 'rate')} (observed, "
            f"{format_interval(self.rate, 'rate')}). {consequence}",
            "caution",
        )


class RepeatCheck(BaseModel):
    """Differences between single answers of a model, and how many of them repeat when both sides are asked again.

    Attributes:
        differed: Number of differences between single answers.
        tested: Number of them that were asked about again; a budget or a time limit can cut off the others.
        repeated: Number of differences that repeat. Only these count; the other ones tested are noise.
        queries: Number of individuals, or texts, that were asked about again.
        confidence: 1 minus the false discovery rate: the expected share of noise among the differences that repeat.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    differed: int
    tested: int
    repeated: int
    queries: int
    confidence: float

    @property
    def noise(self) -> int:
        """Number of differences that do not repeat."""
        return self.tested - self.repeated

    @property
    def sentence(self) -> str:
        """Counts in one sentence."""
        return (
            f"single answers differed for {self.differed:,}; both sides of {self.tested:,} were asked about again: "
            f"{self.repeated:,} repeated and {self.noise:,} did not, which are the model's own noise and do not count "
            f"(false discovery rate at most {100 * (1 - self.confidence):.3g} %)"
        )


def check_noise(
    scorer: Scorer,
    individuals: Floats,
    *,
    most: int = CHECKED,
    confidence: float = 0.95,
    limit: TimeLimit = NEVER,
) -> NoiseCheck | None:
    """Ask about the first individuals (n, attributes) twice and count changed decisions.

    Args:
        scorer: the model. Its first answers may come from a cache, the second ones do not.
        individuals: in random order.
        most: of them so many are asked about.
        confidence: of the interval.
        limit: when no further batch is asked about.

    Returns:
        The counts; None for a model that computes the same answer every time (see ``can_vary``), or for no one.
    """
    people, at, step, changed = individuals[:most], 0, FIRST, 0
    if not can_vary(scorer) or len(people) == 0:
        return None
    while at < len(people) and not (at and limit.passed()):
        part = people[at : at + step]
        # In the reverse order: answers that go by the place in a batch are noticed too.
        again = ask_again(scorer, part[::-1]).labels[::-1]
        changed += int((predict_labels(scorer, part) != again).sum())
        at, step = at + len(part), 2 * step
    rate = observed_rate(changed, at, confidence)
    assert isinstance(rate, Observed)
    return NoiseCheck(people=at, changed=changed, rate=rate, queries=at)


def can_vary(model: Scorer | Regressor) -> bool:
    """Return whether a model may answer differently when it is asked again: endpoints, functions, unknown estimators.

    A model says so itself by an attribute ``can_vary``; what is read from weights computes the same each time.
    """
    return bool(getattr(unwrap_scorer(model), "can_vary", False))


def ask_again(scorer: Scorer, individuals: Floats, ledger: QuestionLedger | None = None) -> Reply:
    """Ask the model itself about individuals (n, attributes), past every cache, each row as a question of its own.

    Args:
        scorer: who is asked.
        individuals: whom about.
        ledger: is charged if the model has none of its own.
    """
    scorer = unwrap_scorer(scorer)
    again = getattr(scorer, "reply_again", None) or partial(ask_model, scorer, ledger=ledger)
    batch = int(getattr(scorer, "batch", BATCH_ROWS))
    batches = (individuals[start : start + batch] for start in range(0, len(individuals), batch))
    return join_replies(scorer, map(again, batches))


class FreshScorer(ReplyingScorer, WrappedScorer):
    """A model that answers differently each time, asked for every row of every question; no answer is kept.

    With several answers the majority decides, the earliest answer where labels come equally often, and scores are
    averaged.

    Attributes:
        model: what is asked.
        answers: answers per individual.
    """

    def __init__(self, model: Scorer, answers: int = 1) -> None:
        self.model, self.answers = model, answers

    @property
    def ledger(self) -> QuestionLedger | None:
        """What the model charges."""
        return find_ledger(unwrap_scorer(self.model))

    @property
    def batch(self) -> int:
        """Individuals per question."""
        return max(1, int(getattr(self.model, "batch", BATCH_ROWS)) // self.answers)

    def reply(self, individuals: Floats) -> Reply:
        """Return mean scores and the labels of the majority, of the same answers."""
        return repeat_questions(self.model, individuals, self.answers).reply


class RepeatedAnswers(NamedTuple):
    """Several answers about each individual.

    Attributes:
        reply: mean scores, and the labels of the majority.
        counts: how many answers gave each label, shape (n, classes).
    """

    reply: Reply
    counts: Integers


def repeat_questions(
    scorer: Scorer, individuals: Floats, answers: int, ledger: QuestionLedger | None = None
) -> RepeatedAnswers:
    """Ask about each individual (n, attributes) several times; arguments as for ``ask_again``."""
    every = ask_again(scorer, np.repeat(individuals, answers, axis=0), ledger)
    scores = every.scores.reshape(len(individuals), answers, len(scorer.classes)).mean(axis=1)
    labels = every.labels.reshape(len(individuals), answers)
    counts = (labels[:, :, None] == np.arange(len(scorer.classes))).sum(axis=1)
    return RepeatedAnswers(Reply(scores, majority(labels, counts), scorer.label_only), counts)


def majority(labels: Integers, counts: Integers) -> Integers:
    """Return the most frequent label of each row of answers (n, answers), the earliest answer on a tie, shape (n,).

    Args:
        labels: the answers.
        counts: how many of them gave each label, shape (n, classes).
    """
    most = np.take_along_axis(counts, labels, axis=1)
    return np.take_along_axis(labels, most.argmax(axis=1)[:, None], axis=1)[:, 0]
