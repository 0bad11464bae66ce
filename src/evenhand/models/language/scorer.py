"""A language model as a model of rows or texts: its score is a chance, or the mean of several answers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import FetchError, ModelError, OptionError
from evenhand.models.additive.network import binary_labels
from evenhand.models.language.answers import ChatOutcome
from evenhand.models.language.file import AnswerFormat
from evenhand.models.language.model import ChatQuestion, LanguageModel
from evenhand.models.language.prompts import Prompt
from evenhand.models.ledger import QuestionLedger
from evenhand.models.replies import Reply, ReplyingScorer
from evenhand.models.scorer import ask_once
from evenhand.schema.attribute import Value
from evenhand.schema.people import decode
from evenhand.schema.schema import Schema

TEXT_QUESTIONS = 256
"""Texts or rows per batch. Answers are stored and time limits are checked after each batch."""


@dataclass(eq=False)
class RepeatedAsker:
    """Asks each prompt several times, and gives the mean of the answers; asked again, it draws new ones.

    Attributes:
        model: who is asked.
        ledger: is charged for every answer that was not kept already.
    """

    model: LanguageModel
    ledger: QuestionLedger
    _asked: Counter[Prompt] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def asks(self) -> int:
        """Answers per prompt: one, where its chance is read."""
        return 1 if self.model.file.answers.read == "logprobs" else self.model.file.asks

    def means(self, prompts: Sequence[Prompt]) -> Floats:
        """Return the mean value of new answers to each prompt, scaled to 0 to 1, shape (n,).

        Raises:
            BudgetError: The limits do not allow all answers; those so far are stored.
            FetchError: the service is down, or a prompt stayed without an answer.
            ModelError: no answer to a prompt can be read, and such answers are excluded.
        """
        questions = []
        with self._lock:
            for prompt in prompts:
                first = self._asked[prompt]
                self._asked[prompt] += self.asks
                questions += [ChatQuestion(prompt, draw) for draw in range(first, first + self.asks)]
        outcomes = self.model.ask(questions, ledger=self.ledger)
        form = self.model.file.answers
        return np.array([self._mean(outcomes[i : i + self.asks], form) for i in range(0, len(outcomes), self.asks)])

    def _mean(self, outcomes: Sequence[ChatOutcome], form: AnswerFormat) -> float:
        if any(one.kind == "failed" for one in outcomes):
            raise FetchError(
                "the service left a question without an answer",
                location=self.model.file.name,
                hint="run it again: answers that are kept cost nothing",
            )
        values = np.array([one.value for one in outcomes if one.value == one.value])
        if not len(values):
            raise ModelError(
                f"no answer to a prompt can be read: {outcomes[0].text[:200]!r} ({outcomes[0].kind})",
                location=self.model.file.name,
                hint="refused: unfavourable counts such answers; or ask for shorter ones in the prompt",
            )
        if form.range is not None:
            low, high = form.range
            values = (values - low) / (high - low)
            values = 1 - values if form.favourable == "low" else values
        return float(values.mean())


@dataclass(frozen=True, eq=False)
class LanguageScorer(ReplyingScorer):
    """A language model as a model of rows.

    Attributes:
        schema: what its individuals are.
        asker: who asks, and pays.
        classes: the labels of the target.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report.
        known: scores of the favourable label so far, by individual.
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
        """Ledger of the answers."""
        return self.asker.ledger

    @property
    def can_vary(self) -> bool:
        """Whether answers to the same question may differ."""
        return can_vary(self.asker)

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels. Each individual is asked about once."""
        found = ask_once(individuals, self.known, self._ask, batch=self.batch, width=1)
        return self._as_reply(found[:, 0])

    def reply_again(self, individuals: Floats) -> Reply:
        """Return new answers, whether these individuals are known or not."""
        return self._as_reply(self._ask(individuals)[:, 0])

    def _ask(self, individuals: Floats) -> Floats:
        rows = decode(self.schema, individuals).to_dict("records")
        return self.asker.means([self.asker.model.render(row) for row in rows])[:, None]

    def _as_reply(self, share: Floats) -> Reply:
        scores = np.empty((len(share), 2))
        scores[:, self.favourable], scores[:, 1 - self.favourable] = share, 1 - share
        return Reply(scores, np.where(share > 0.5, self.favourable, 1 - self.favourable), False)


@dataclass(eq=False)
class TextAsker:
    """A language model that is called with a list of texts, and returns their scores (n,).

    Attributes:
        model: who is asked.
        classes: the other choice or choices, and the favourable one.
        ledger: counts the answers that are paid for.
        asker: who asks, and pays.
    """

    model: LanguageModel
    ledger: QuestionLedger = field(default_factory=QuestionLedger)

    def __post_init__(self) -> None:
        form = self.model.file.answers
        others = [choice for choice in form.choices if choice != form.favourable]
        self.classes = (" or ".join(others) or "other", form.favourable if form.choices else "favourable")
        self.asker = RepeatedAsker(self.model, self.ledger)

    @property
    def can_vary(self) -> bool:
        """Whether answers to the same question may differ."""
        return can_vary(self.asker)

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Return the score of each text; asked again about the same text, it draws new answers.

        Raises:
            EvenhandError: as ``RepeatedAsker.means``; or the prompt needs more than ``text``.
        """
        return self.asker.means([self.model.render({"text": text}) for text in texts])


def can_vary(asker: RepeatedAsker) -> bool:
    """Return whether a language model may answer differently: not where its chances are read."""
    return asker.model.file.answers.read != "logprobs"


def open_screening_file(
    path: Path, schema: Schema, *, name: str | None = None, ledger: QuestionLedger | None = None
) -> LanguageScorer:
    """Return the language model that a file describes, as a model of rows. It is not asked yet.

    Raises:
        ModelError: the file cannot be read, it ranks people, or the target has more than two labels.
    """
    model = _open_model(path)
    classes = binary_labels(schema) if schema.target.values is None else schema.target.values
    if len(classes) != 2:
        raise ModelError(
            f"a language model gives one score, and the target {schema.target.name!r} has {len(classes)} labels",
            location=str(path),
            hint="name a target with two labels",
        )
    asker = RepeatedAsker(model, QuestionLedger() if ledger is None else ledger)
    return LanguageScorer(schema, asker, classes, classes.index(schema.target.favourable), name or path.name)


def open_text_file(path: Path) -> TextAsker:
    """Return the language model that a file describes, as a model of texts. It is not asked yet.

    Raises:
        ModelError: the file cannot be read, or it ranks people.
    """
    return TextAsker(_open_model(path))


def _open_model(path: Path) -> LanguageModel:
    try:
        model = LanguageModel.of(path)
    except OptionError as error:
        raise ModelError(error.message, location=error.location, hint=error.hint) from None
    if model.file.answers.read == "ranking":
        raise ModelError(
            "a ranking compares people, and gives no score of one",
            location=model.file.name,
            hint="evenhand llm audit takes rankings",
        )
    return model
