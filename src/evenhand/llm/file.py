"""Model files of language models: service, prompt, answer format and limits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evenhand.core.config import check_configuration, unknown_entry
from evenhand.core.configuration import read_configuration
from evenhand.core.http import MAX_CONNECTIONS
from evenhand.errors import OptionError
from evenhand.llm.answer_kinds import find_ambiguous
from evenhand.models.language.chat_answers import fold
from evenhand.models.language.services import ServiceConnection, check_reserved_options

RESERVED_OPTIONS = ("model", "messages", "n", "stream", "seed", "logprobs", "top_logprobs")
"""Request options that are set by Evenhand."""

DEFAULT_TOKENS = 256
"""Default maximum number of tokens per answer."""


class _Entries(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScreeningService(_Entries):
    """Service of a language model.

    Attributes:
        url: Base URL of an OpenAI-compatible service, such as ``http://127.0.0.1:11434/v1``.
        model: Name of the model at the service.
        key: Environment variable that contains the key. None if the service requires no key.
        timeout: Timeout of a request in seconds.
        retries: Maximum number of retries after timeouts, malformed responses and transient errors.
        backoff: Seconds before the first retry. The pause doubles with each retry.
        options: Additional request options, such as ``{temperature: 1, max_tokens: 8}``.
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
        """Connect to the service without automatic retries, because the budget is charged for each attempt."""
        return ServiceConnection(self.url, self.key, self.timeout, retries=0, repeatable=True)

    @property
    def request_options(self) -> dict[str, Any]:
        """Request options, with the default token limit if none is set."""
        limited = self.options.keys() & {"max_tokens", "max_completion_tokens"}
        return self.options if limited else {"max_tokens": DEFAULT_TOKENS, **self.options}

    @property
    def most_tokens(self) -> int | None:
        """Maximum number of tokens per answer. None if the options set none."""
        limits = [self.request_options.get(name) for name in ("max_completion_tokens", "max_tokens")]
        counts = [limit for limit in limits if limit is not None]
        valid = counts and all(type(count) is int and count > 0 for count in counts)
        return max(counts) if valid else None


class AnswerFormat(_Entries):
    """Rules for reading answers.

    Attributes:
        read: ``text`` (one of the choices, as the whole answer or its last line), ``json`` (the same in an entry of an
            object), ``logprobs`` (the probability of each choice as the first token), ``number`` or ``ranking``.
        choices: Answers requested by the prompt.
        favourable: Favourable choice. For numbers, ``high`` or ``low``.
        entry: Key of the answer in the JSON object.
        range: Smallest and largest number.
        candidates: Number of people ranked per prompt.
        refusals: Additional phrases that mark the start of a refusal.
    """

    read: Literal["text", "json", "logprobs", "number", "ranking"] = "text"
    choices: tuple[str, ...] = ()
    favourable: str | None = None
    entry: str = "answer"
    range: tuple[float, float] | None = None
    candidates: int | None = Field(None, ge=2, le=50)
    refusals: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_answers(self) -> AnswerFormat:
        present = {"choices": bool(self.choices), "range": self.range is not None, "candidates": bool(self.candidates)}
        needed = {"number": "range", "ranking": "candidates"}.get(self.read, "choices")
        for name, is_set in present.items():
            if is_set and name != needed:
                raise OptionError(f"`{name}` is not used when answers are read as {self.read}", location="answers")
        if not present[needed]:
            raise OptionError(f"`{needed}` is missing", location="answers", hint=_ANSWER_HINTS[needed])
        if needed == "choices":
            self._check_choices()
        elif self.range is not None and not -math.inf < self.range[0] < self.range[1] < math.inf:
            raise OptionError(
                "range must have a minimum below its maximum",
                location="answers.range",
                hint="range: [0, 10]",
            )
        elif self.favourable not in (None, "high", "low") or (self.read == "ranking" and self.favourable):
            expected = "high or low" if self.read == "number" else "no value, since the first place is favourable"
            raise OptionError(
                f"expected {expected}, got {self.favourable!r}", location="answers.favourable", hint="omit it"
            )
        return self

    def _check_choices(self) -> None:
        folded = [fold(choice) for choice in self.choices]
        if len(folded) < 2 or not all(folded):
            raise OptionError(
                "at least two choices are needed", location="answers.choices", hint=_ANSWER_HINTS["choices"]
            )
        if ambiguous := find_ambiguous(self.choices):
            raise OptionError(
                f"choices must differ in more than case, spaces and punctuation, got {ambiguous[0]!r} and "
                f"{ambiguous[1]!r}",
                location="answers.choices",
                hint="Rename or remove one of them.",
            )
        if self.favourable not in self.choices:
            problem = "`favourable` is missing" if self.favourable is None else f"{self.favourable!r} is not a choice"
            raise OptionError(problem, location="answers.favourable", hint=f"one of: {', '.join(self.choices)}")
        if self.read == "logprobs" and any(a != b and a.startswith(b) for a in folded for b in folded):
            raise OptionError(
                "with `read: logprobs`, no choice may begin with another choice",
                location="answers.choices",
            )

    @property
    def worst(self) -> float:
        """Value of the least favourable answer."""
        return 0.0 if self.range is None else self.range[1] if self.favourable == "low" else self.range[0]


_ANSWER_HINTS = {
    "choices": 'choices: ["yes", "no"]',
    "range": "range: [0, 10], the minimum and the maximum",
    "candidates": "candidates: 4, the number of people ranked per prompt",
}


class ScreeningPlan(_Entries):
    """Goals and limits. Command options override them.

    Attributes:
        half_width: Target half-width of the interval of a gap.
        calls: Maximum number of calls. None disables the limit.
        money: Maximum cost. None disables the limit.
        price: Prices per million input tokens and per million output tokens, in any currency.
        at_once: Maximum number of concurrent questions.
        seeds: ``paired`` sends the same ``seed`` for both sides of a pair, ``none`` sends none.
        seed: Seed of the random draws.
    """

    half_width: float = Field(0.05, gt=0, lt=1)
    calls: int | None = Field(None, ge=1)
    money: float | None = Field(None, gt=0, allow_inf_nan=False)
    price: tuple[float, float] | None = None
    at_once: int = Field(16, ge=1, le=MAX_CONNECTIONS)
    seeds: Literal["paired", "none"] = "paired"
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _check_price(self) -> ScreeningPlan:
        if self.price is not None and not all(0 <= price < math.inf for price in self.price):
            raise OptionError("a price is negative or not finite", location="plan.price", hint="price: [0.15, 0.60]")
        if self.money is not None and self.price is None:
            raise OptionError(
                "a limit on money requires prices",
                location="plan.price",
                hint="price: [0.15, 0.60], per million input tokens and per million output tokens",
            )
        return self


class ScreeningFile(_Entries):
    """Description of a language model that decides about people.

    Attributes:
        service: Service of the model.
        prompt: Template with the columns of a row, ``person``, ``text`` or ``candidates``.
        system: Template of the system prompt.
        answers: Rules for reading answers.
        refused: Whether refused, unreadable and cut-off answers count as ``unfavourable`` or are ``excluded``.
        people: Name list and compared groups for audits of language models.
        plan: Goals and limits.
        asks: Number of answers averaged to a score of a row or text.
        consensus: Number of answers per majority decision in audits.
        blind: Whether the prompt hides the name, terms and pronouns of ``person``.
        answers_file: Answers file, relative to this file. None stores no answers.
        path: Path of the file.
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
                "a limit on money requires a limit on tokens",
                location="service.options",
                hint="options: {max_tokens: 64}",
            )
        if self.consensus > 1 and not self.answers.choices:
            raise OptionError("a majority requires choices", location="consensus", hint="omit it")
        return self

    @property
    def name(self) -> str:
        """Name in reports: the file name, or otherwise the model name."""
        return self.path.name if self.path else self.service.model

    @property
    def outcome(self) -> Literal["rate", "score", "number", "rank"]:
        """Type of an answer's value: a favourable answer, its probability, a number, or a scaled place."""
        kinds: dict[str, Literal["score", "number", "rank"]]
        kinds = {"logprobs": "score", "number": "number", "ranking": "rank"}
        return kinds.get(self.answers.read, "rate")

    @property
    def kept_answers(self) -> Path | None:
        """Path of the answers file, or None."""
        if self.answers_file is None:
            return None
        return (self.path.parent if self.path else Path()) / self.answers_file


_HINTS = {
    "service": 'service: {url: "http://127.0.0.1:11434/v1", model: qwen3}',
    "url": "for example http://127.0.0.1:11434/v1",
    "prompt": "text of the prompt, with {{ column }} in place of a value",
    "answers": 'answers: {choices: ["yes", "no"], favourable: "yes"}',
    "choices.*": 'write texts in quotes: ["1", "2"]',
}


def read_screening_file(path: Path | str) -> ScreeningFile:
    """Read a model file in YAML or TOML.

    Raises:
        OptionError: The file does not exist, or an entry is missing, unknown or invalid.
    """
    from evenhand.llm.prompts import compile_template

    path = Path(path)
    entries = read_configuration(path, example="screening.yaml", entries="service, prompt and answers")

    def make() -> ScreeningFile:
        if "path" in entries:
            raise unknown_entry("path", [name for name in ScreeningFile.model_fields if name != "path"])
        file = ScreeningFile.model_validate({**entries, "path": path})
        for name in ("prompt", "system"):
            compile_template(getattr(file, name) or "", name)
        return file

    return check_configuration(make, ScreeningFile, location=str(path), hints=_HINTS)
