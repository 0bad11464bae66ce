"""Language models that decide about people, with stored answers and limited costs."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from evenhand.core.config import check_configuration
from evenhand.datasets.identity.names import Person
from evenhand.datasets.identity.pronouns import pronouns_in
from evenhand.errors import EvenhandError, FetchError, ModelError, OptionError
from evenhand.llm.answers import (
    TOP_TOKENS,
    ChatOutcome,
    parse_reply,
    read_outcome,
    read_tokens,
    refusal_reply,
)
from evenhand.llm.budget import CallBudget, ServiceUsage
from evenhand.llm.file import ScreeningFile, read_screening_file
from evenhand.llm.prompts import Prompt, compile_template, plain_row
from evenhand.models.answer_store import AnswerStore, ModelReply, Tokens
from evenhand.models.language.services import ChatService, ContentRefusedError, may_be_charged
from evenhand.models.replies import QuestionLedger

CHARACTERS_PER_TOKEN = 4.0
"""Assumed number of characters per token until the service has reported token counts."""


class ChatQuestion(NamedTuple):
    """Prompt and options of a question.

    Attributes:
        prompt: The prompt.
        draw: Repetition number of the prompt, from 0.
        seed: Seed for the service. If None, no seed is sent.
        place: In a ranking, number of the assessed candidate, from 1.
    """

    prompt: Prompt
    draw: int = 0
    seed: int | None = None
    place: int = 1


class _Request(NamedTuple):
    """Request for one vote on a question, and its key."""

    key: str
    body: dict[str, Any]
    question: ChatQuestion


class CallForecast(NamedTuple):
    """Forecast of the cost of questions.

    Attributes:
        calls: Number of questions without a stored answer.
        tokens_in: Estimated number of input tokens.
        tokens_out: Maximum number of output tokens. None if the file sets no limit.
        money: Cost of these tokens. None if the file has no prices or no token limit.
    """

    calls: int
    tokens_in: int
    tokens_out: int | None
    money: float | None


class LanguageModel:
    """A language model that decides about people, described by a model file.

    Args:
        file: Model file.
        answers: Answers file. Default: the one named in the model file.
        calls, money: Maximum number of calls and maximum cost. Default: the limits in the plan of the file.
        at_once: Maximum number of concurrent questions. Default: the number in the plan of the file.

    Raises:
        DataError: The answers file cannot be used.
        OptionError: The cost is limited, but the file has no prices or no token limit.
    """

    def __init__(
        self,
        file: ScreeningFile,
        *,
        answers: Path | None = None,
        calls: int | None = None,
        money: float | None = None,
        at_once: int | None = None,
    ) -> None:
        plan = file.plan
        limits = {"calls": calls, "money": money, "at_once": at_once}
        changed = {name: value for name, value in limits.items() if value is not None}
        if changed:
            # Limits are validated like entries of the file.
            entries = file.model_dump() | {"plan": plan.model_dump() | changed, "path": file.path}
            file = check_configuration(lambda: ScreeningFile.model_validate(entries), ScreeningFile, location=file.name)
            plan = file.plan
        self.file = file
        self._prompt, self._system = (
            compile_template(file.prompt, "prompt"),
            compile_template(file.system or "", "system"),
        )
        reading = {"logprobs": True, "top_logprobs": TOP_TOKENS} if file.answers.read == "logprobs" else {}
        service = file.service
        self._chat = ChatService(service.connect(), service.model, options={**service.request_options, **reading})
        self._store = AnswerStore(answers or file.kept_answers)
        self._budget = CallBudget(plan.calls, plan.money, plan.price)
        self._pool = QuestionPool(
            self._chat, self._store, self._budget, plan.at_once, service.retries, service.backoff, service.most_tokens
        )
        self._counted = (0, 0)
        self._counted_keys: set[str] = set()

    @classmethod
    def of(cls, file: ScreeningFile | Path | str, **limits: Any) -> LanguageModel:
        """Load a model from a model file or its path. For the limits, see the class.

        Raises:
            OptionError: The file cannot be read.
        """
        return cls(file if isinstance(file, ScreeningFile) else read_screening_file(file), **limits)

    def render(
        self,
        row: Mapping[Any, Any],
        person: Person | None = None,
        *,
        others: Sequence[tuple[Mapping[Any, Any], Person | None]] = (),
    ) -> Prompt:
        """Render the prompt for a row of the data and a person.

        Args:
            row: Values by column.
            person: Person whose name, terms and pronouns are used.
            others: Further candidates of a ranking, in their order.

        Raises:
            OptionError: A template value is missing.
        """
        visible = self._person_for_prompt(person)
        values = plain_row(row) | ({} if visible is None else {"person": visible})
        if self.file.answers.candidates is not None:
            if len(others) + 1 != self.file.answers.candidates:
                raise OptionError(
                    f"the prompt ranks {self.file.answers.candidates} candidates, got {len(others) + 1}",
                    location=self.file.name,
                )
            values["candidates"] = [
                {**plain_row(cells), "person": self._person_for_prompt(candidate), "number": number}
                for number, (cells, candidate) in enumerate([(row, person), *others], start=1)
            ]
        return Prompt(self._system(values), self._prompt(values))

    def _person_for_prompt(self, person: Person | None) -> Person | None:
        """Return the person for prompts; a blind file replaces all people by the same placeholder."""
        if person is None or not self.file.blind:
            return person
        hidden = dict.fromkeys(person.words, "[hidden]")
        return Person("[first name]", "[last name]", "", pronouns_in(person.pronouns.language, "they"), words=hidden)

    def ask(
        self,
        questions: Sequence[ChatQuestion],
        progress: Callable[[float], None] = lambda share: None,
        *,
        ledger: QuestionLedger | None = None,
    ) -> list[ChatOutcome]:
        """Ask questions, and return their outcomes in the same order. Stored answers cost nothing.

        With ``consensus: k`` in the file, the outcome is the majority of k answers.

        Args:
            questions: The questions.
            progress: Called with the completed fraction of questions.
            ledger: Ledger that is charged for each call.

        Raises:
            BudgetError: The limits or the ledger do not allow all calls. All received answers are stored.
            FetchError: The service is unavailable or unusable.
        """
        requests = list(self._requests(questions))
        for request in requests:
            self._count_earlier(request)
        bodies = {request.key: request.body for request in requests if self._store.get(request.key) is None}
        self._pool.ask(bodies, progress, ledger)
        self._budget.count(remembered=sum(request.key not in bodies for request in requests))
        outcomes, votes = [self._outcome(request) for request in requests], self.file.consensus
        return [_majority(outcomes[i : i + votes]) for i in range(0, len(outcomes), votes)]

    def _count_earlier(self, request: _Request) -> None:
        """Count the calls of earlier runs for a question towards the limits, once."""
        if request.key in self._counted_keys:
            return
        self._counted_keys.add(request.key)
        for tokens in self._store.charges(request.key):
            self._budget.count_earlier(tokens, None)
        reply = self._store.get(request.key)
        if reply is not None:
            self._budget.count_earlier(self._pool.most_of(request.body), reply.tokens)

    def _requests(self, questions: Iterable[ChatQuestion]) -> Iterator[_Request]:
        """Yield the request of each vote on each question."""
        for question in questions:
            messages = [{"role": "user", "content": question.prompt.text}]
            if question.prompt.system:
                messages.insert(0, {"role": "system", "content": question.prompt.system})
            body = self._chat.request(messages)
            if question.seed is not None and self.file.plan.seeds == "paired":
                body["seed"] = question.seed
            for vote in range(self.file.consensus):
                draw = question.draw * self.file.consensus + vote
                yield _Request(question_key(self.file.service.url, body, draw), body, question)

    def _outcome(self, request: _Request) -> ChatOutcome:
        reply = self._store.get(request.key)
        if reply is None:
            return ChatOutcome("failed", math.nan, "", "")
        if reply.tokens is not None:
            self._counted = self._counted[0] + request.question.prompt.size, self._counted[1] + reply.tokens[0]
        return read_outcome(reply, self.file, request.question.place)

    def forecast(self, questions: Iterable[ChatQuestion]) -> CallForecast:
        """Forecast the cost of questions without asking them. Input tokens are estimated from earlier prompts."""
        sizes = [
            request.question.prompt.size
            for request in self._requests(questions)
            if self._store.get(request.key) is None
        ]
        calls, size = len(sizes), sum(sizes)
        characters, tokens = self._counted
        read = math.ceil(size * tokens / characters if tokens else size / CHARACTERS_PER_TOKEN)
        maximum = self.file.service.most_tokens
        tokens_out = None if maximum is None else calls * maximum
        priced = self.file.plan.price is not None and tokens_out is not None
        return CallForecast(calls, read, tokens_out, self._budget.cost(read, tokens_out or 0) if priced else None)

    @property
    def spent(self) -> ServiceUsage:
        """Calls and their cost so far."""
        return self._budget.spent

    def close(self) -> None:
        """Close the connections and the answers file."""
        self._chat.wire.close()
        self._store.close()

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _majority(votes: Sequence[ChatOutcome]) -> ChatOutcome:
    """Select an outcome with the most frequent label.

    Ties are resolved in favour of the earliest outcome. Unlabelled votes only count if no vote has a label.
    """
    labels = Counter(vote.label for vote in votes if vote.kind == "choice")
    if not labels:
        return votes[0]
    maximum = max(labels.values())
    tokens = sum(vote.tokens[0] for vote in votes), sum(vote.tokens[1] for vote in votes)
    winner = next(vote for vote in votes if vote.kind == "choice" and labels[vote.label] == maximum)
    return winner._replace(tokens=tokens)


def question_key(url: str, body: Mapping[str, Any], draw: int) -> str:
    """Return the key of a question: the SHA-256 of the service, the request body in canonical JSON, and the draw.

    Args:
        url: URL of the service. The port of a local service is ignored, as it changes often.
        body: Body of the request.
        draw: Repetition number of the question.
    """
    parts = urlsplit(url)
    host = parts.hostname if parts.hostname in ("127.0.0.1", "localhost", "::1") else parts.netloc
    canonical = json.dumps(
        [host, parts.path.rstrip("/"), body, draw], sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


MAX_WAIT_SECONDS = 3600.0
"""Maximum pause that a service may request. A longer one ends the run."""

MAX_BACKOFF_SECONDS = 60.0
"""Maximum number of seconds between attempts."""

LEAST_FAILURES = 20
"""Consecutive unanswered questions, at least two per thread, after which the service is considered down."""

_UNUSABLE = (401, 403, 404, 405)
"""Status codes caused by the service rather than by a single question."""


@dataclass(eq=False)
class RateGate:
    """Limit on questions in flight, halved when the service is overloaded and then raised slowly.

    Attributes:
        maximum: Maximum number of questions in flight.
        cautious: Whether to start with one question and double the limit after each round of answers.
        limit: Current limit.
    """

    maximum: int
    cautious: bool = False
    limit: int = field(init=False)
    _active: int = 0
    _answered: int = 0
    _until: float = 0.0
    _stopped: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.limit = 1 if self.cautious else self.maximum

    def enter(self, reserve: Callable[[], bool] = lambda: True) -> bool:
        """Wait for a slot and reserve the call. Return False if the pool was stopped.

        Raises:
            BudgetError: ``reserve`` cannot reserve the call.
        """
        with self._changed:
            while not self._stopped:
                pause = self._until - time.monotonic()
                if pause <= 0 and self._active < self.limit and reserve():
                    self._active += 1
                    return True
                # Another pool that shares the budget does not wake this one.
                self._changed.wait(pause if pause > 0 else 1.0)
            return False

    def leave(self, *, answered: bool) -> None:
        """Release the slot. Raise the limit by one after ``limit`` answers, or after each answer during a cautious
        start."""
        with self._changed:
            self._active -= 1
            self._answered += answered
            if self._answered >= (1 if self.cautious else self.limit):
                self.limit, self._answered = min(self.limit + 1, self.maximum), 0
            self._changed.notify_all()

    def slow_down(self, seconds: float) -> None:
        """Halve the limit and admit no request for some seconds. Simultaneous calls halve it only once."""
        with self._changed:
            now = time.monotonic()
            if now >= self._until:
                self.limit, self._answered, self.cautious = max(1, self.limit // 2), 0, False
            self._until = max(self._until, now + seconds)

    def pause(self, seconds: float) -> None:
        """Wait until the time has passed or the pool is stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)

    def stop(self) -> None:
        """Stop the pool."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


class Attempt(NamedTuple):
    """Result of one call.

    Attributes:
        reply: The answer, or None.
        error: The error, or None.
        tokens: Tokens reported by the service, or None.
        charged: Whether the service may have charged the call.
    """

    reply: ModelReply | None = None
    error: FetchError | None = None
    tokens: Tokens | None = None
    charged: bool = True


@dataclass(eq=False)
class QuestionPool:
    """Pool that sends questions to a service and stores all answers.

    Attributes:
        chat, store, budget: Connection to the service, store of answers, and budget of calls.
        at_once: Maximum number of concurrent questions.
        retries: Maximum number of retries per question.
        backoff: Seconds before the first retry. Each further pause is twice as long.
        most_tokens: Maximum number of tokens per answer. None if unknown.
    """

    chat: ChatService
    store: AnswerStore
    budget: CallBudget
    at_once: int
    retries: int
    backoff: float
    most_tokens: int | None
    _answers: int = 0
    _failures: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(
        self,
        bodies: Mapping[str, Mapping[str, Any]],
        progress: Callable[[float], None],
        ledger: QuestionLedger | None = None,
    ) -> None:
        """Ask questions and store their answers. Failed questions remain unanswered.

        Args:
            bodies: Requests by key.
            progress: Called with the completed fraction of questions.
            ledger: Ledger charged for all questions first, then for each retry of a call that may have been charged.

        Raises:
            BudgetError: The limits or the ledger do not allow all calls. All received answers are stored.
            FetchError: The service is down or unusable.
        """
        if not bodies:
            return
        if ledger is not None:
            ledger.charge(len(bodies))
        # The first answer shows whether the service respects the token limit.
        gate = RateGate(self.at_once, cautious=not self.budget.is_calibrated)
        try:
            with ThreadPoolExecutor(min(self.at_once, len(bodies)), thread_name_prefix="ask") as threads:
                waiting: set[Future[None]] = {
                    threads.submit(self._ask_one, gate, ledger, key, body) for key, body in bodies.items()
                }
                try:
                    while waiting:
                        finished, waiting = wait(waiting, timeout=0.5, return_when=FIRST_EXCEPTION)
                        for future in finished:
                            future.result()
                        progress(1 - len(waiting) / len(bodies))
                finally:
                    gate.stop()  # calls in flight are charged, so wait for their answers
        except EvenhandError as error:
            spent = self.budget.spent
            if spent.calls or spent.remembered_money:
                error.message = f"{error.message}; {spent}"
            raise
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(str(self.budget.spent))
            raise

    def most_of(self, body: Mapping[str, Any]) -> Tokens:
        """Bound the tokens of a request and its answer. Without a limit, use the longest previous answer."""
        return upper_tokens(body), self.most_tokens or 1

    def _ask_one(self, gate: RateGate, ledger: QuestionLedger | None, key: str, body: Mapping[str, Any]) -> None:
        maximum, retries_charge = self.most_of(body), False
        try:
            for tries in range(self.retries + 1):
                if ledger is not None and retries_charge:
                    with self._lock:
                        ledger.charge(1)
                if not gate.enter(lambda: self.budget.reserve(maximum)):
                    return
                pause = min(self.backoff * 2**tries, MAX_BACKOFF_SECONDS)
                attempt = self._try(gate, key, body, maximum, pause)
                error, retries_charge = attempt.error, attempt.charged
                if error is None:
                    return
                if error.retry_after is None or tries == self.retries:
                    self._fail(error)
                    return
                gate.pause(0 if error.status == 429 else max(pause, min(error.retry_after, MAX_WAIT_SECONDS)))
        except BaseException:
            gate.stop()
            raise

    def _try(self, gate: RateGate, key: str, body: Mapping[str, Any], maximum: Tokens, pause: float) -> Attempt:
        """Send a question once, settle the call and store the answer, if any. Overload delays all questions."""
        attempt = Attempt()
        try:
            try:
                attempt = self._post(key, body)
            finally:
                if attempt.charged:
                    self.budget.settle(maximum, attempt.tokens)
                    if attempt.reply is None:
                        self.store.charge(key, attempt.tokens or maximum)
                else:
                    self.budget.release(maximum)
            error = attempt.error
            if attempt.reply is not None:
                self.store.keep(key, attempt.reply)
                with self._lock:
                    self._answers, self._failures = self._answers + 1, 0
            elif error is not None and error.status == 429:
                delay = max(error.retry_after or 0.0, pause)
                if delay > MAX_WAIT_SECONDS:
                    error.hint = f"it requests a pause of {delay / 3600:.0f} hours. Run again later; answers are stored"
                    raise error
                gate.slow_down(delay)
            return attempt
        finally:
            gate.leave(answered=attempt.reply is not None)

    def _post(self, key: str, body: Mapping[str, Any]) -> Attempt:
        """Send a question."""
        tokens = None
        try:
            answer = self.chat.wire.post("/chat/completions", body, key=key)
            tokens = read_tokens(answer)
            reply = parse_reply(answer, self.chat)
        except ContentRefusedError as error:
            return Attempt(reply=refusal_reply(error), charged=True)
        except FetchError as error:
            return Attempt(error=error, charged=may_be_charged(error))
        except ModelError as error:
            broken = FetchError(error.message, location=error.location, hint=error.hint)
            broken.retry_after = 0.0
            return Attempt(error=broken, tokens=tokens, charged=True)
        return Attempt(reply=reply, tokens=tokens, charged=True)

    def _fail(self, error: EvenhandError) -> None:
        """Count an unanswered question.

        Raises:
            FetchError: The service is considered unavailable.
        """
        with self._lock:
            self._failures += 1
            down = self._failures >= max(LEAST_FAILURES, 2 * self.at_once)
            useless = getattr(error, "retry_after", None) is None and not self._answers
        if down or useless or getattr(error, "status", None) in _UNUSABLE:
            raise error
        self.budget.count(failed=1)


def upper_tokens(body: Mapping[str, Any]) -> int:
    """Compute an upper bound on the input tokens of a request.

    No part of a request has more tokens than bytes. The byte allowance per message covers the tokens added by chat
    templates.
    """
    return len(json.dumps(body, ensure_ascii=False).encode(errors="replace"))
