"""Language models as scorers of rows or texts. A score is a probability or the mean of several answers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import FetchError, ModelError, OptionError
from evenhand.llm.answers import ChatOutcome
from evenhand.llm.file import AnswerFormat
from evenhand.llm.model import ChatQuestion, LanguageModel
from evenhand.llm.prompts import Prompt
from evenhand.models.additive.network import binary_labels
from evenhand.models.blackbox.text_model import TextModel
from evenhand.models.replies import QuestionLedger, Reply, ReplyingScorer
from evenhand.models.scorer import ask_once
from evenhand.schema.attribute import Value
from evenhand.schema.people import decode
from evenhand.schema.schema import Schema

TEXT_QUESTIONS = 256
"""Texts or rows per batch. Answers are stored and time limits are checked after each batch."""


@dataclass(eq=False)
class RepeatedAsker:
    """Client that sends each prompt several times and averages the answers. Repeated prompts get new answers.

    Attributes:
        model: Language model.
        ledger: Ledger charged for each new answer.
    """

    model: LanguageModel
    ledger: QuestionLedger
    _asked: Counter[Prompt] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def asks(self) -> int:
        """Number of answers per prompt. 1 if probabilities are read."""
        return self.model.file.asks if self.can_vary else 1

    @property
    def can_vary(self) -> bool:
        """Whether answers to the same question may differ. Probabilities never do."""
        return self.model.file.answers.read != "logprobs"

    def means(self, prompts: Sequence[Prompt]) -> Floats:
        """Send each prompt and compute the mean of the new answers, scaled to 0 to 1, shape (n,).

        Raises:
            BudgetError: The limits do not allow all answers. Received answers are stored.
            FetchError: The service is down, or a prompt was not answered.
            ModelError: No answer to a prompt is readable, and unreadable answers are excluded.
        """
        questions = []
        with self._lock:
            for prompt in prompts:
                start = self._asked[prompt]
                self._asked[prompt] += self.asks
                questions += [ChatQuestion(prompt, draw) for draw in range(start, start + self.asks)]
        outcomes = self.model.ask(questions, ledger=self.ledger)
        form = self.model.file.answers
        return np.array([self._mean(outcomes[i : i + self.asks], form) for i in range(0, len(outcomes), self.asks)])

    def text_means(self, texts: Sequence[str]) -> Floats:
        """Ask about each text and compute the mean of the new answers, as in ``means``."""
        return self.means([self.model.render({"text": text}) for text in texts])

    def _mean(self, outcomes: Sequence[ChatOutcome], form: AnswerFormat) -> float:
        if any(outcome.kind == "failed" for outcome in outcomes):
            raise FetchError(
                "the service did not answer a question",
                location=self.model.file.name,
                hint="run it again; stored answers are free",
            )
        values = np.array([outcome.value for outcome in outcomes if outcome.value == outcome.value])
        if not len(values):
            raise ModelError(
                f"no answer to a prompt can be read: {outcomes[0].text[:200]!r} ({outcomes[0].kind})",
                location=self.model.file.name,
                hint="set refused: unfavourable to count such answers, or ask for shorter answers in the prompt",
            )
        if form.range is not None:
            low, high = form.range
            values = (values - low) / (high - low)
            values = 1 - values if form.favourable == "low" else values
        return float(values.mean())


@dataclass(frozen=True, eq=False)
class LanguageScorer(ReplyingScorer):
    """Language model as a scorer of rows.

    Attributes:
        schema: Schema of the individuals.
        asker: Sender of the prompts.
        classes: Labels of the target.
        favourable: Position of the favourable label in ``classes``.
        name: Name in reports.
        known: Cached scores of the favourable label, by individual.
    """

    schema: Schema
    asker: RepeatedAsker
    classes: tuple[Value, ...]
    favourable: int
    name: str
    known: dict[bytes, Floats] = field(default_factory=dict, repr=False)

    label_only = False
    batch = TEXT_QUESTIONS

    @property
    def ledger(self) -> QuestionLedger:
        """Ledger of new answers."""
        return self.asker.ledger

    @property
    def can_vary(self) -> bool:
        """Whether answers to the same question may differ."""
        return self.asker.can_vary

    def reply(self, individuals: Floats) -> Reply:
        """Compute scores and labels with one question per individual."""
        scores = ask_once(individuals, self.known, self._ask, batch=self.batch, width=1)
        return self._as_reply(scores[:, 0])

    def reply_again(self, individuals: Floats) -> Reply:
        """Compute scores and labels from new answers, without the cache."""
        return self._as_reply(self._ask(individuals)[:, 0])

    def _ask(self, individuals: Floats) -> Floats:
        rows = decode(self.schema, individuals).to_dict("records")
        return self.asker.means([self.asker.model.render(row) for row in rows])[:, None]

    def _as_reply(self, share: Floats) -> Reply:
        scores = np.empty((len(share), 2))
        scores[:, self.favourable], scores[:, 1 - self.favourable] = share, 1 - share
        return Reply(scores, np.where(share > 0.5, self.favourable, 1 - self.favourable), False)


def open_screening_file(
    path: Path, schema: Schema, *, name: str | None = None, ledger: QuestionLedger | None = None
) -> LanguageScorer:
    """Load a model file as a scorer of rows without sending a query.

    Raises:
        ModelError: The file cannot be read, or it ranks people, or the target has more than two labels.
    """
    model = _open_model(path)
    classes = binary_labels(schema) if schema.target.values is None else schema.target.values
    if len(classes) != 2:
        raise ModelError(
            f"a language model returns one score, but the target {schema.target.name!r} has {len(classes)} labels",
            location=str(path),
            hint="choose a target with two labels",
        )
    asker = RepeatedAsker(model, QuestionLedger() if ledger is None else ledger)
    return LanguageScorer(schema, asker, classes, classes.index(schema.target.favourable), name or path.name)


def open_text_file(path: Path) -> TextModel:
    """Load a model file as a scorer of texts without sending a query. Repeated texts get new answers.

    Raises:
        ModelError: The file cannot be read, or it ranks people.
    """
    model, ledger = _open_model(path), QuestionLedger()
    asker, form = RepeatedAsker(model, ledger), model.file.answers
    unfavourable = [choice for choice in form.choices if choice != form.favourable]
    classes = (" or ".join(unfavourable) or "other", form.favourable if form.choices else "favourable")
    return TextModel(asker.text_means, classes, path.name, TEXT_QUESTIONS, ledger, asker.can_vary)


def _open_model(path: Path) -> LanguageModel:
    try:
        model = LanguageModel.of(path)
    except OptionError as error:
        raise ModelError(error.message, location=error.location, hint=error.hint) from None
    if model.file.answers.read == "ranking":
        raise ModelError(
            "a ranking compares people and does not score them individually",
            location=model.file.name,
            hint="use evenhand llm audit for rankings",
        )
    return model
