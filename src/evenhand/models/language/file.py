"""The file of a language model that decides: the service, the prompt, how answers are read, and what may be spent."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evenhand.core.chat_answers import find_ambiguous, fold
from evenhand.core.config import check_configuration, unknown_entry
from evenhand.core.configuration import read_configuration
from evenhand.core.http import MAX_CONNECTIONS
from evenhand.core.services import ServiceConnection, check_reserved_options
from evenhand.errors import OptionError

RESERVED_OPTIONS = ("model", "messages", "n", "stream", "seed", "logprobs", "top_logprobs")
"""Options of requests that Evenhand sets itself."""

DEFAULT_TOKENS = 256
"""Tokens of an answer at most, where the options do not say."""


def _as_tuple(given: object) -> object:
    return tuple(given) if isinstance(given, list) else given


class _Entries(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScreeningService(_Entries):
    """The service of a model.

    Attributes:
        url: Base URL of a service with OpenAI's interface, such as ``http://127.0.0.1:11434/v1``.
        model: Name of the model at the service.
        key: Environment variable that holds the key. None if the service needs none.
        timeout: Time limit of an answer in seconds.
        retries: Maximum number of retries after late or broken answers and transient errors.
        backoff: Seconds before the first retry. Each further pause is twice as long.
        options: Further entries of requests, such as ``{temperature: 1, max_tokens: 8}``.
    """

    url: str
    model: str = Field(min_length=1)
    key: str | None = None
    timeout: float = Field(60.0, gt=0, allow_inf_nan=False)
    retries: int = Field(5, ge=0)
    backoff: float = Field(0.5, ge=0)
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_service(self) -> ScreeningService:
        self.connect()
        check_reserved_options(self.options, RESERVED_OPTIONS)
        return self

    def connect(self) -> ServiceConnection:
        """Return a connection that does not ask again by itself: each try is paid from the budget."""
        return ServiceConnection(self.url, self.key, self.timeout, retries=0, repeatable=True)

    @property
    def request_options(self) -> dict[str, Any]:
        """The options of requests, with a limit of tokens where they say nothing about it."""
        limited = self.options.keys() & {"max_tokens", "max_completion_tokens"}
        return self.options if limited else {"max_tokens": DEFAULT_TOKENS, **self.options}

    @property
    def most_tokens(self) -> int | None:
        """Maximum number of tokens of an answer. None if the options set no limit."""
        limits = [self.request_options.get(name) for name in ("max_completion_tokens", "max_tokens")]
        counts = [limit for limit in limits if limit is not None]
        valid = counts and all(type(count) is int and count > 0 for count in counts)
        return max(counts) if valid else None


class AnswerFormat(_Entries):
    """Rules for reading answers.

    Attributes:
        read: ``text`` (one of the choices, as the whole answer or its last line), ``json`` (the same in an entry of an
            object), ``logprobs`` (the chance of each choice as the first token), ``number`` or ``ranking``.
        choices: the answers that the prompt asks for.
        favourable: the choice that is favourable; for numbers ``high`` or ``low``.
        entry: of a JSON object that holds the answer.
        range: least and greatest number.
        candidates: how many people a prompt ranks.
        refusals: Beginnings of refusals, in addition to the usual phrases.
    """

    read: Literal["text", "json", "logprobs", "number", "ranking"] = "text"
    choices: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    favourable: str | None = None
    entry: str = "answer"
    range: Annotated[tuple[float, float] | None, BeforeValidator(_as_tuple)] = None
    candidates: int | None = Field(None, ge=2, le=50)
    refusals: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()

    @model_validator(mode="after")
    def _check_answers(self) -> AnswerFormat:
        given = {"choices": bool(self.choices), "range": self.range is not None, "candidates": bool(self.candidates)}
        needed = {"number": "range", "ranking": "candidates"}.get(self.read, "choices")
        for name, there in given.items():
            if there and name != needed:
                raise OptionError(f"`{name}` has no meaning where answers are read as {self.read}", location="answers")
        if not given[needed]:
            raise OptionError(f"`{needed}` is missing", location="answers", hint=_ANSWER_HINTS[needed])
        if needed == "choices":
            self._check_choices()
        elif self.range is not None and not -math.inf < self.range[0] < self.range[1] < math.inf:
            raise OptionError(
                "the range begins with its least number, and ends with a larger one",
                location="answers.range",
                hint="range: [0, 10]",
            )
        elif self.favourable not in (None, "high", "low") or (self.read == "ranking" and self.favourable):
            known = "high or low" if self.read == "number" else "nothing: the first place is"
            raise OptionError(
                f"favourable is {known}, not {self.favourable!r}", location="answers.favourable", hint="leave it out"
            )
        return self

    def _check_choices(self) -> None:
        plain = [fold(choice) for choice in self.choices]
        if len(plain) < 2 or not all(plain):
            raise OptionError(
                "at least two choices are needed", location="answers.choices", hint=_ANSWER_HINTS["choices"]
            )
        if ambiguous := find_ambiguous(self.choices):
            raise OptionError(
                f"choices must differ in more than case, spaces and marks, got {ambiguous[0]!r} and {ambiguous[1]!r}",
                location="answers.choices",
                hint="Rename or remove one of them.",
            )
        if self.favourable not in self.choices:
            given = "`favourable` is missing" if self.favourable is None else f"{self.favourable!r} is not a choice"
            raise OptionError(given, location="answers.favourable", hint=f"one of: {', '.join(self.choices)}")
        if self.read == "logprobs" and any(one != other and one.startswith(other) for one in plain for other in plain):
            raise OptionError(
                "no choice may begin with another one where chances of first tokens are read",
                location="answers.choices",
            )

    @property
    def worst(self) -> float:
        """The value of an answer that is as unfavourable as possible."""
        return 0.0 if self.range is None else self.range[1] if self.favourable == "low" else self.range[0]


_ANSWER_HINTS = {
    "choices": 'choices: ["yes", "no"]',
    "range": "range: [0, 10], the least and the greatest number",
    "candidates": "candidates: 4, how many people a prompt ranks",
}


class ScreeningPlan(_Entries):
    """Aims and limits; options of commands override them.

    Attributes:
        half_width: half the width of the interval of a gap that is aimed at.
        calls: Maximum number of calls. None disables the limit.
        money: Maximum cost. None disables the limit.
        price: of a million tokens read and of a million written, in any currency.
        at_once: questions under way at the same time.
        seeds: ``paired`` sends the same ``seed`` for both sides of a pair, ``none`` sends none.
        seed: Seed of the random draws.
    """

    half_width: float = Field(0.05, gt=0, lt=1)
    calls: int | None = Field(None, ge=1)
    money: float | None = Field(None, gt=0, allow_inf_nan=False)
    price: Annotated[tuple[float, float] | None, BeforeValidator(_as_tuple)] = None
    at_once: int = Field(16, ge=1, le=MAX_CONNECTIONS)
    seeds: Literal["paired", "none"] = "paired"
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _check_price(self) -> ScreeningPlan:
        if self.price is not None and not all(0 <= one < math.inf for one in self.price):
            raise OptionError("a price is negative or not finite", location="plan.price", hint="price: [0.15, 0.60]")
        if self.money is not None and self.price is None:
            raise OptionError(
                "a limit of money needs prices",
                location="plan.price",
                hint="price: [0.15, 0.60], of a million tokens read and written",
            )
        return self


class ScreeningFile(_Entries):
    """A language model that decides about people, as a file describes it.

    Attributes:
        service: where it is, and how it is asked.
        prompt: a template over a row's columns, ``person``, ``text`` or ``candidates``.
        system: Template of the system prompt.
        answers: how answers are read.
        refused: how refused, unreadable and cut-off answers count: as ``unfavourable``, or ``excluded``.
        people: the list of names or words and the groups to compare, as the audit of language models reads it.
        plan: Aims and limits.
        asks: answers whose mean is the score, where the file is a model of rows or texts.
        consensus: answers whose majority is the decision, where such decisions are audited.
        blind: whether names, words and pronouns of ``person`` are hidden from the prompt.
        answers_file: File of answers, relative to this file. None stores none.
        path: where the file is.
    """

    service: ScreeningService
    prompt: str = Field(min_length=1)
    system: str | None = None
    answers: AnswerFormat
    refused: Literal["unfavourable", "excluded"] = "unfavourable"
    people: dict[str, Any] | None = None
    plan: ScreeningPlan = ScreeningPlan()
    asks: int = Field(5, ge=1)
    consensus: int = Field(1, ge=1)
    blind: bool = False
    answers_file: str | None = None
    path: Path | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _check_limits(self) -> ScreeningFile:
        if self.plan.money is not None and self.service.most_tokens is None:
            raise OptionError(
                "a limit of money needs a limit of tokens", location="service.options", hint="options: {max_tokens: 64}"
            )
        if self.consensus > 1 and not self.answers.choices:
            raise OptionError("a majority needs choices to vote for", location="consensus", hint="leave it out")
        return self

    @property
    def name(self) -> str:
        """How to call it in a report: its file's name, or else the model's."""
        return self.path.name if self.path else self.service.model

    @property
    def outcome(self) -> Literal["rate", "score", "number", "rank"]:
        """Kind of value of an answer: a favourable answer, its probability, a number, or a scaled place."""
        kinds: dict[str, Literal["score", "number", "rank"]]
        kinds = {"logprobs": "score", "number": "number", "ranking": "rank"}
        return kinds.get(self.answers.read, "rate")

    @property
    def kept_answers(self) -> Path | None:
        """Path of the file of answers. None if there is none."""
        if self.answers_file is None:
            return None
        return (self.path.parent if self.path else Path()) / self.answers_file

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all entries."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


_HINTS = {
    "service": 'service: {url: "http://127.0.0.1:11434/v1", model: qwen3}',
    "url": "for example http://127.0.0.1:11434/v1",
    "prompt": "the text that the model is asked, with {{ column }} where a value stands",
    "answers": 'answers: {choices: ["yes", "no"], favourable: "yes"}',
    "choices.*": 'texts stand in quotes: ["1", "2"]',
}


def read_screening_file(path: Path | str) -> ScreeningFile:
    """Read the YAML or TOML file of a language model that decides.

    Raises:
        OptionError: there is no such file, or an entry is missing, unknown, or makes no sense.
    """
    from evenhand.models.language.prompts import compile_template

    path = Path(path)
    found = read_configuration(path, example="screening.yaml", entries="service, prompt and answers")

    def make() -> ScreeningFile:
        if "path" in found:
            raise unknown_entry("path", [name for name in ScreeningFile.model_fields if name != "path"])
        file = ScreeningFile.model_validate({**found, "path": path})
        for name in ("prompt", "system"):
            compile_template(getattr(file, name) or "", name)
        return file

    return check_configuration(make, ScreeningFile, location=str(path), hints=_HINTS)
