"""Many questions at the same time: a pool that asks again, slows down when it is told to, and pays from a budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from evenhand.errors import EvenhandError, FetchError, ModelError
from evenhand.models.language.answer_store import AnswerStore
from evenhand.models.language.answers import ModelReply, parse_reply, refusal_reply
from evenhand.models.language.budget import CallBudget
from evenhand.services import ChatService, ContentRefusedError

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
        """Halve the places, and let nobody in for so many seconds; what is told at the same time halves them once."""
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
