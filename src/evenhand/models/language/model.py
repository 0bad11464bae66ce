"""A language model that decides about people: prompts in, outcomes out, every answer paid for once."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.core import check_configuration
from evenhand.datasets import Person, pronouns_in
from evenhand.errors import DataError, EvenhandError, FetchError, ModelError, OptionError
from evenhand.models.language.answer_store import AnswerStore, question_key
from evenhand.models.language.answers import (
    NAN,
    TOP_TOKENS,
    ChatOutcome,
    ModelReply,
    parse_reply,
    read_outcome,
    refusal_reply,
)
from evenhand.models.language.budget import CallBudget, Spent
from evenhand.models.language.file import ScreeningFile, read_screening_file
from evenhand.models.language.prompts import Prompt, candidate_list, compile_template, plain_row
from evenhand.services import ChatService, ContentRefusedError

CHARACTERS_PER_TOKEN = 4.0
"""Characters of a prompt per token, until the service has counted some."""


class ChatQuestion(NamedTuple):
    """A prompt that is to be asked.

    Attributes:
        prompt: what to ask.
        draw: tells repeated identical prompts apart, from 0.
        seed: sent to the service; None: none is.
        place: in a ranking, of the candidate that is asked about, from 1.
    """

    prompt: Prompt
    draw: int = 0
    seed: int | None = None
    place: int = 1


class CallForecast(NamedTuple):
    """What questions will cost.

    Attributes:
        calls: how many there are, those whose answers are kept already left out.
        tokens_in: read, about.
        tokens_out: written at most; None where the file sets no limit.
        money: their price at most; None where the file has no prices, or no limit of tokens.
    """

    calls: int
    tokens_in: int
    tokens_out: int | None
    money: float | None


class LanguageModel:
    """A language model that decides about people, as a screening file describes it.

    Args:
        file: the description.
        answers: where answers are kept; by default where the file says.
        calls, money: what may be spent; by default as planned.
        at_once: questions under way at the same time; by default as planned.

    Raises:
        DataError: the file of answers cannot be used.
        OptionError: a limit of money is set, and the file has no prices or no limit of tokens.
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
            # Checked as if they stood in the file.
            given = file.model_dump() | {"plan": plan.model_dump() | changed, "path": file.path}
            file = check_configuration(lambda: ScreeningFile.model_validate(given), location=file.name)
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

    @classmethod
    def of(cls, file: ScreeningFile | Path | str, **limits: Any) -> LanguageModel:
        """Return the model that a file, or its path, describes; ``limits`` are those of the class.

        Raises:
            OptionError: the file cannot be read.
        """
        return cls(file if isinstance(file, ScreeningFile) else read_screening_file(file), **limits)

    def render(
        self,
        row: Mapping[Any, Any],
        person: Person | None = None,
        *,
        others: Sequence[tuple[Mapping[Any, Any], Person | None]] = (),
        place: int = 1,
    ) -> Prompt:
        """Return the prompt about a row of the data and a person.

        Args:
            row: values by column.
            person: whose name, words and pronouns it uses.
            others: in a ranking, the other candidates.
            place: in a ranking, where this one stands among all, from 1.

        Raises:
            OptionError: the template needs a value that is not there.
        """
        shown = self._person_for_prompt(person)
        values = plain_row(row) | ({} if shown is None else {"person": shown})
        if self.file.answers.candidates is not None:
            if len(others) + 1 != self.file.answers.candidates:
                raise OptionError(
                    f"the prompt ranks {self.file.answers.candidates} candidates, {len(others) + 1} are given",
                    location=self.file.name,
                )
            rivals = [(plain_row(other), self._person_for_prompt(one)) for other, one in others]
            values["candidates"] = candidate_list((plain_row(row), shown), rivals, place)
        return Prompt(self._system(values), self._prompt(values))

    def _person_for_prompt(self, person: Person | None) -> Person | None:
        """Return the person that prompts see: one like all others where the file is blind."""
        if person is None or not self.file.blind:
            return person
        hidden = dict.fromkeys(person.words, "[hidden]")
        return Person("[first name]", "[last name]", "", pronouns_in(person.pronouns.language, "they"), words=hidden)

    def ask(
        self, questions: Sequence[ChatQuestion], progress: Callable[[float], None] = lambda share: None
    ) -> list[ChatOutcome]:
        """Return the outcome of every question, in their order; those that were asked before cost nothing.

        Where the file says ``consensus: k``, each is asked k times, and the outcome is that of the majority.

        Raises:
            BudgetError: the budget does not pay for all; the answers so far are kept.
            FetchError: the service is down, or cannot be used like this.
        """
        votes = self.file.consensus
        keys, bodies = [], {}
        for question in questions:
            for vote in range(votes):
                key, body = self._request(question, question.draw * votes + vote)
                keys.append(key)
                if self._store.get(key) is None:
                    bodies[key] = body
        asked = set(bodies)
        self._pool.ask(bodies, progress)
        self._budget.count(remembered=sum(key not in asked for key in keys))
        outcomes = [self._outcome(key, questions[i // votes]) for i, key in enumerate(keys)]
        return [_majority(outcomes[i : i + votes]) for i in range(0, len(outcomes), votes)]

    def _request(self, question: ChatQuestion, draw: int) -> tuple[str, dict[str, Any]]:
        messages = [{"role": "user", "content": question.prompt.text}]
        if question.prompt.system:
            messages.insert(0, {"role": "system", "content": question.prompt.system})
        body = self._chat.request(messages)
        if question.seed is not None and self.file.plan.seeds == "paired":
            body["seed"] = question.seed
        return question_key(self.file.service.url, body, draw), body

    def _outcome(self, key: str, question: ChatQuestion) -> ChatOutcome:
        reply = self._store.get(key)
        if reply is None:
            return ChatOutcome("failed", NAN, "", "")
        if reply.tokens is not None:
            size = len(question.prompt.text) + len(question.prompt.system)
            self._counted = self._counted[0] + size, self._counted[1] + reply.tokens[0]
        return read_outcome(reply, self.file, question.place)

    def forecast(self, questions: Iterable[ChatQuestion]) -> CallForecast:
        """Return what questions will cost; nothing is asked. Tokens read are as the service counted earlier ones."""
        size = calls = 0
        for question in questions:
            for vote in range(self.file.consensus):
                if self._store.get(self._request(question, question.draw * self.file.consensus + vote)[0]) is None:
                    calls += 1
                    size += len(question.prompt.text) + len(question.prompt.system)
        characters, tokens = self._counted
        read = math.ceil(size * tokens / characters if tokens else size / CHARACTERS_PER_TOKEN)
        most = self.file.service.most_tokens
        written = None if most is None else calls * most
        priced = self.file.plan.price is not None and written is not None
        return CallForecast(calls, read, written, self._budget.cost(read, written or 0) if priced else None)

    @property
    def spent(self) -> Spent:
        """What was asked and what it cost so far."""
        return self._budget.spent

    def write_batch(self, questions: Sequence[ChatQuestion], path: Path) -> int:
        """Write the questions without an answer as a batch file, as large providers take them.

        Each line is a request whose ``custom_id`` is the question's key. Return how many there are.

        Raises:
            DataError: the file cannot be written.
        """
        lines = {}
        for question in questions:
            for vote in range(self.file.consensus):
                key, body = self._request(question, question.draw * self.file.consensus + vote)
                if self._store.get(key) is None:
                    lines[key] = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        try:
            path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines.values()), "utf-8")
        except OSError as error:
            raise DataError(f"the batch cannot be written: {error.strerror}", location=str(path)) from None
        return len(lines)

    def read_batch(self, path: Path) -> int:
        """Keep the answers in a provider's result file, in any order; return how many there are.

        Requests that failed are left open: ``ask`` or the next batch asks them again.

        Raises:
            DataError: the file cannot be read, or a line of it is no result.
        """
        many = 0
        try:
            lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"the results cannot be read: {error}", location=str(path)) from None
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
                key, response = str(found["custom_id"]), found.get("response") or {}
                if response.get("status_code") != 200:
                    continue
                reply: ModelReply = parse_reply(response["body"], self._chat)
            except (ValueError, KeyError, TypeError, AttributeError, ModelError):
                raise DataError(
                    "this line is not the result of a request", location=f"{path}, line {number + 1}",
                    hint="give the result file as the provider wrote it",
                ) from None  # fmt: skip
            self._store.keep(key, reply)
            many += 1
        return many

    def close(self) -> None:
        """Close the connections and the file of answers."""
        self._chat.wire.close()
        self._store.close()

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _majority(votes: Sequence[ChatOutcome]) -> ChatOutcome:
    """Return an outcome with the label that most votes have; where several come equally often, the earliest of them.

    Votes without a label count only where no vote has one.
    """
    labels = Counter(vote.label for vote in votes if vote.kind == "choice")
    if not labels:
        return votes[0]
    most = max(labels.values())
    tokens = sum(vote.tokens[0] for vote in votes), sum(vote.tokens[1] for vote in votes)
    first = next(vote for vote in votes if vote.kind == "choice" and labels[vote.label] == most)
    return first._replace(tokens=tokens)


# Many questions at the same time: a pool that asks again, slows down when it is told to, and pays from a budget.


MAX_WAIT_SECONDS = 3600.0
"""The longest pause that a service may ask for; with a longer one, it is asked again another day."""

MAX_BACKOFF_SECONDS = 60.0
"""Seconds between two tries where the service names none."""

LEAST_FAILURES = 20
"""So many questions in a row without an answer, and at least two per thread: the service is down."""

_UNUSABLE = (401, 403, 404, 405)
"""Statuses that are about the service and not about one question."""


@dataclass(eq=False)
class RateGate:
    """How many questions may be under way: halved when the service says that it is too many, then slowly more again.

    Attributes:
        most: questions under way at most.
        limit: as many as may be under way now.
    """

    most: int
    limit: int = field(init=False)
    _active: int = 0
    _answered: int = 0
    _until: float = 0.0
    _stopped: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.limit = self.most

    def enter(self) -> bool:
        """Wait for a place; return False if all asking has ended."""
        with self._changed:
            while not self._stopped:
                pause = self._until - time.monotonic()
                if pause <= 0 and self._active < self.limit:
                    self._active += 1
                    return True
                self._changed.wait(pause if pause > 0 else None)
            return False

    def leave(self, *, answered: bool) -> None:
        """Give the place back; after as many answers as places, there is one place more."""
        with self._changed:
            self._active -= 1
            self._answered += answered
            if self._answered >= self.limit:
                self.limit, self._answered = min(self.limit + 1, self.most), 0
            self._changed.notify_all()

    def slow_down(self, seconds: float) -> None:
        """Halve the places and admit no request for so many seconds; calls at the same time halve them once."""
        with self._changed:
            now = time.monotonic()
            if now >= self._until:
                self.limit, self._answered = max(1, self.limit // 2), 0
            self._until = max(self._until, now + seconds)

    def pause(self, seconds: float) -> None:
        """Wait, unless all asking ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)

    def stop(self) -> None:
        """End all asking."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


@dataclass(eq=False)
class QuestionPool:
    """Asks a service many questions, and keeps every answer.

    Attributes:
        chat: who is asked.
        store: where answers are kept.
        budget: what pays for them.
        at_once: questions under way at the same time.
        retries: further tries for each question.
        backoff: seconds before the first of these; twice as long before each further one.
        most_tokens: tokens that an answer can have; None if that is not known.
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

    def ask(self, bodies: Mapping[str, Mapping[str, Any]], progress: Callable[[float], None]) -> None:
        """Ask questions and keep their answers; questions that stay without one are missing in the store.

        Args:
            bodies: what to ask, by key.
            progress: told which share is done.

        Raises:
            BudgetError: the budget does not pay for the next question; the answers before it are kept.
            FetchError: the service is down, or cannot be used like this.
        """
        if not bodies:
            return
        gate = RateGate(self.at_once)
        with ThreadPoolExecutor(min(self.at_once, len(bodies)), thread_name_prefix="ask") as threads:
            waiting: set[Future[None]] = {threads.submit(self._ask_one, gate, *one) for one in bodies.items()}
            try:
                while waiting:
                    done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_EXCEPTION)
                    for one in done:
                        one.result()
                    progress(1 - len(waiting) / len(bodies))
            finally:
                gate.stop()  # what is under way is paid for: it is waited for and kept

    def _ask_one(self, gate: RateGate, key: str, body: Mapping[str, Any]) -> None:
        try:
            for tried in range(self.retries + 1):
                if not gate.enter():
                    return
                pause = min(self.backoff * 2**tried, MAX_BACKOFF_SECONDS)
                error = self._try(gate, key, body, pause)
                if error is None:
                    return
                if error.retry_after is None or tried == self.retries:
                    self._fail(error)
                    return
                gate.pause(0 if error.status == 429 else max(pause, min(error.retry_after, MAX_WAIT_SECONDS)))
        except BaseException:
            gate.stop()
            raise

    def _try(self, gate: RateGate, key: str, body: Mapping[str, Any], pause: float) -> FetchError | None:
        """Ask once: keep the answer, or return what went wrong; after too many questions all wait for ``pause``."""
        most = upper_tokens(body), self.most_tokens or 0
        answered = False
        try:
            self.budget.reserve(most)
            try:
                reply = self._post(key, body)
            except FetchError as error:
                # Overloaded services say so at no cost; whether an answer that did not come is charged is not known.
                if error.status is not None or not error.sent:
                    self.budget.release(most)
                else:
                    self.budget.settle(most, None)
                if error.status == 429:
                    wanted = max(error.retry_after or 0.0, pause)
                    if wanted > MAX_WAIT_SECONDS:
                        error.hint = f"it wants a pause of {wanted / 3600:.0f} hours: run again later; answers are kept"
                        raise
                    gate.slow_down(wanted)
                return error
            except BaseException:
                self.budget.settle(most, None)
                raise
            self.budget.settle(most, reply.tokens)
            self.store.keep(key, reply)
            answered = True
            with self._lock:
                self._answers, self._failures = self._answers + 1, 0
            return None
        finally:
            gate.leave(answered=answered)

    def _post(self, key: str, body: Mapping[str, Any]) -> ModelReply:
        try:
            return parse_reply(self.chat.wire.post("/chat/completions", body, key=key), self.chat)
        except ContentRefusedError as error:
            return refusal_reply(error)
        except ModelError as error:
            broken = FetchError(error.message, location=error.location, hint=error.hint)
            broken.retry_after = 0.0
            raise broken from None

    def _fail(self, error: EvenhandError) -> None:
        """Count a question that stays without an answer.

        Raises:
            FetchError: there is no point in asking more.
        """
        with self._lock:
            self._failures += 1
            down = self._failures >= max(LEAST_FAILURES, 2 * self.at_once)
            useless = getattr(error, "retry_after", None) is None and not self._answers
        if down or useless or getattr(error, "status", None) in _UNUSABLE:
            raise error
        self.budget.count(failed=1)


def upper_tokens(body: Mapping[str, Any]) -> int:
    """Return as many tokens as the messages of a request can have: no more than they have bytes, and a few for each."""
    return sum(len(str(message["content"]).encode()) + 16 for message in body["messages"])
