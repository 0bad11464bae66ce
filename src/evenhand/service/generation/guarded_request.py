"""Guards whose state is in the store, and their requests."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import uuid4

from evenhand import __version__
from evenhand.core.coroutines import blocks, call, is_blocking
from evenhand.core.http import SecretRedactor
from evenhand.errors import DecisionError, FetchError, StoreError
from evenhand.genai.backends.generator import Generator, Item, add_usage
from evenhand.genai.enforcement.enforcer import ADMISSION, OUTCOME, Admission, Instruction, ItemOutcome
from evenhand.genai.enforcement.guard import AnswerSeries, GuardedAnswer
from evenhand.genai.enforcement.supply import ItemAttempt, PartFailure
from evenhand.genai.pipeline import Pipeline
from evenhand.service.generation.pictures import PictureStore
from evenhand.service.settings import ServedGuardConfig
from evenhand.service.state_machines import SECONDS, to_micro
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.retry_queue import RetryQueue
from evenhand.service.store.transaction import OperationResult


@dataclass(frozen=True)
class ServedAnswer:
    """Answer to a request for one item.

    Attributes:
        answer: Answer of the guard.
        number: Number of the log entry that admitted or describes the request. None if there is none.
        seconds: Total duration.
        upstream_seconds: Duration of the calls of the generator.
        usage: Usage that the generator's service charges for, summed over all attempts.
    """

    answer: GuardedAnswer
    number: int | None
    seconds: float = 0.0
    upstream_seconds: float = 0.0
    usage: Mapping[str, Any] = field(default_factory=dict)


Served: TypeAlias = ServedAnswer | BaseException
"""Outcome of a requested item."""


class StoredGuard:
    """Generator with a guard whose state is in the store.

    Args:
        entry: Entry of the settings.
        pipeline: Generator, classifier and judge.
        ledger: Ledger of the store.
        replica: Name of this process.
        pictures: Store of delivered pictures. None if none are kept.

    Attributes:
        name: Name of the guard and its stream.
        retry_queue: Operations that the store has not accepted yet.
        observers: Functions that receive every answer, in any thread.
        cost_observers: Functions that receive the number and cost of unused items.
        budget: Maximum cost of a request (``reserve``), and ``caps`` by name (``hour``, ``day``), in millionths. None
            disables them.
    """

    def __init__(
        self,
        entry: ServedGuardConfig,
        pipeline: Pipeline,
        ledger: Ledger,
        replica: str,
        pictures: PictureStore | None = None,
    ) -> None:
        self.entry, self.pipeline, self.name = entry, pipeline, entry.name
        self.ledger, self.replica, self.pictures = ledger, replica, pictures
        self.retry_queue = RetryQueue(
            ledger, entry.name, lambda records: {"op": "record", "note": {"what": "lost", "records": records}}
        )
        self.observers: list[Callable[[ServedAnswer], None]] = []
        self.cost_observers: list[Callable[[int, float], None]] = []
        budget = pipeline.configuration.guard.budget
        caps = {name: to_micro(cap) for name in ("hour", "day") if (cap := getattr(budget, name)) is not None}
        self.budget = {"caps": caps, "reserve": to_micro(pipeline.limits.most)} if caps else None

    def log_start(self) -> None:
        """Log the version and configuration of this replica."""
        configuration = self.pipeline.configuration.model_dump(mode="json", exclude_none=True)
        note = {
            "what": "started",
            "replica": self.replica,
            "evenhand": __version__,
            # The options may contain a key.
            "configuration": SecretRedactor().redact_json(configuration),
        }
        self.retry_queue.submit({"op": "record", "note": note})


class GuardedRequest:
    """One request to a guarded generator, for one item or several.

    It admits and completes its items durably, as their ``AdmissionStore``, in any replica of the service.

    Args:
        guard: Guard of the generator.
        prompt: Prompt of the user.
        generator: Generator with the options of this request. Default: the generator of the guard.
        route: Route of the request, for the log.
        count: Number of items.
        call: Name of the call, under which its admissions are stored. Default: a unique name.

    Attributes:
        call: Name of the open admission. A caller that does not know whether it is open can abandon it by this name.
        number: Number of the last admission. None if there was none.
        withdrawn: Whether the caller no longer waits. Later items are not counted as shown.
        description: Description of the request for the log. Unless prompts are logged, it contains the hash of the
            prompt, which confirms a guessed prompt.
        attempt: Attempt at the last requested item. None if there was none.
        unlogged: Cost of attempts that is not logged yet.
    """

    def __init__(
        self,
        guard: StoredGuard,
        prompt: str,
        generator: Generator | None = None,
        *,
        route: str = "python",
        count: int = 1,
        call: str | None = None,
    ) -> None:
        self._guard, self._prompt, self.count, self._call = guard, prompt, count, call
        self._generator = generator or guard.pipeline.generator
        if guard.ledger.tracing is not None:
            spans = dict.fromkeys(("generate", "generate_several"), "evenhand.generate")
            self._generator = guard.ledger.tracing.wrap(self._generator, spans, guard.name)
        self._logged = {"prompt": prompt} if guard.entry.log_prompts else {"prompt_sha256": sha256_hex(prompt)}
        self.description = {"route": route, **self._logged}
        self.call = call or ""
        self.number: int | None = None
        self.withdrawn = False
        self.attempt: ItemAttempt | None = None
        self.unlogged = 0.0

    def late(self, seconds: float) -> ServedAnswer:
        """Return the answer for an item that is not decided in time."""
        error = FetchError(f"there was no item within {seconds:g} seconds")
        error.timed_out = True
        failure = PartFailure.of("guard", error)
        return ServedAnswer(GuardedAnswer(None, "refused", self._prompt, failures=(failure,)), self.number)

    async def run(self, report: Callable[[Served], None]) -> None:
        """Generate and decide the items one at a time, and report each outcome."""
        guard, tracing, name = self._guard, self._guard.ledger.tracing, self._guard.name
        series = AnswerSeries(
            guard.pipeline.guard(self), self._prompt, self.count, generator=self._generator, watch=self._watch
        )
        reported = 0
        try:
            while reported < self.count and not (reported and self.withdrawn):
                try:
                    with nullcontext() if tracing is None else tracing.span("evenhand.guard", stream=name) as span:
                        served = await self._answer(series)
                        if span is not None:
                            status, changed = served.answer.status, served.answer.changed
                            span.set_attributes({"evenhand.status": status, "evenhand.changed": changed})
                    outcome: Served = served
                except Exception as error:
                    outcome = error
                reported += 1
                report(outcome)
            await self._log_unused(series)
        finally:
            for _ in range(self.count - reported):
                report(StoreError("the service is stopping", hint="use another replica, or retry later"))

    def _watch(self, attempt: ItemAttempt) -> None:
        self.attempt = attempt
        self.unlogged += attempt.cost

    async def _answer(self, series: AnswerSeries) -> ServedAnswer:
        """Return the next item."""
        start, busy, guard = time.perf_counter(), series.supply.busy_seconds, self._guard
        self.call, self.number, self.attempt = "", None, None
        try:
            answer = await series.answer()
        except BaseException as error:
            # It is unknown whether the admission is open in the store, and it must not stay open.
            if self.call:
                guard.retry_queue.submit({"op": "abandon", "call": self.call, "note": {"what": "store"}})
            if not isinstance(error, StoreError) or guard.entry.when_down == "refuse":
                raise
            answer = await self._answer_without_store()
        if answer.status != "ok" or self.number is None:
            await self._log_details(answer)
        number, item = self.number, answer.item
        pictures = guard.pictures if guard.entry.keep_pictures else None
        if pictures is not None and item is not None and item.kind == "image" and number is not None:
            pictures.keep(guard.name, number, item)
        usage: dict[str, Any] = {}
        for attempt in answer.attempts:
            if attempt.item is not None:
                usage = add_usage(usage, attempt.item.usage)
        upstream = series.supply.busy_seconds - busy
        served = ServedAnswer(answer, number, time.perf_counter() - start, upstream, usage)
        for observer in guard.observers:
            observer(served)
        return served

    async def _answer_without_store(self) -> GuardedAnswer:
        """Return the item without a guarantee."""
        failure, attempt = PartFailure("store"), self.attempt
        item, prompt = (None, "") if attempt is None else (attempt.item, attempt.prompt)
        if item is None:
            prompt = self._prompt
            try:
                item = await call(self._generator.generate, prompt)
            except Exception as error:
                return GuardedAnswer(None, "refused", prompt, failures=(failure, PartFailure.of("generator", error)))
        return GuardedAnswer(item, "unguarded", prompt, prompt != self._prompt, failures=(failure,))

    async def _log_details(self, answer: GuardedAnswer) -> None:
        """Log details of the answer. Without an admission, this entry describes the request."""
        note: dict[str, Any] = {
            "what": "answer",
            "status": answer.status,
            "admission": self.number,
            "reason": self.redact(answer.reason),
            "attempts": [
                {"values": dict(attempt.values), "error": self.redact(attempt.error)} for attempt in answer.attempts
            ],
            **self.description,
        }
        record = self._guard.retry_queue.submit({"op": "record", "note": note, **cost_entries(self.unlogged)})
        self.unlogged = 0.0
        if self.number is None and record is not None:
            with suppress(StoreError):
                self.number = (await wait_for_store(record)).number

    async def _log_unused(self, series: AnswerSeries) -> None:
        """Log unused items: candidates that were not needed, and items generated ahead."""
        attempts = await series.supply.leftovers()
        if not attempts:
            return
        cost = sum(attempt.cost for attempt in attempts)
        items = sum(attempt.item is not None for attempt in attempts)
        note = {"what": "unused", "items": items, "asked": len(attempts)}
        self._guard.retry_queue.submit({"op": "record", "note": note, **cost_entries(cost)})
        for observer in self._guard.cost_observers:
            observer(len(attempts), cost)

    # ---- the store of its admissions

    @blocks
    async def admit(self, conditions: Collection[str], *, fixed: Collection[str] = ()) -> Admission:
        """Admit the next item as ``Enforcer.admit`` does.

        Raises:
            StoreError: The store failed.
        """
        guard = self._guard
        self.number = None
        self.call = self._call or uuid4().hex
        operation: dict[str, Any] = {
            "op": "admit",
            "replica": guard.replica,
            "conditions": sorted(conditions),
            "fixed": sorted(fixed),
            "call": self.call,
            "note": self.description,
        }
        if guard.budget is not None:
            operation["budget"] = {"hour": current_hour(), **guard.budget}
        # Nothing was delivered yet: a power cut that loses the admission also ends the request.
        result = await wait_for_store(guard.ledger.submit(guard.name, operation, durable=False))
        self.number = result.number
        return ADMISSION.validate_python(result.answer["admission"])

    @blocks
    async def complete(self, admission: Admission, values: Mapping[str, str | None] | None) -> ItemOutcome:
        """Complete the admitted item durably, as ``Enforcer.complete`` does.

        Raises:
            StoreError: The store failed, or the request was abandoned; the item must not be delivered.
        """
        operation: dict[str, Any] = {"op": "fail"}
        if self.withdrawn:
            operation |= {"final": True, "withdrawn": True}
        elif values is not None:
            operation = {"op": "complete", "values": dict(values)}
        operation |= {"note": self._describe_item(admission.must), **cost_entries(self.unlogged)}
        # The name of the call is included, because after a crash of the store its number may belong to another
        # admission.
        operation |= {"admission": self.number, "call": self.call}
        try:
            result = await wait_for_store(self._guard.ledger.submit(self._guard.name, operation))
        except DecisionError as error:
            if error.code != "unknown-id":
                raise
            raise StoreError("the request was abandoned because its replica stopped responding", hint="retry") from None
        self.unlogged = 0.0
        return OUTCOME.validate_python(result.answer["outcome"])

    def _describe_item(self, must: Instruction) -> dict[str, Any]:
        """Describe the item for the log: the clause added to the prompt, and the item's hash."""
        instruct, attempt = self._guard.pipeline.instruct, self.attempt
        note: dict[str, Any] = {**self._logged, "clause": instruct.clause(must)}
        if self._guard.entry.log_prompts:
            sent = "" if attempt is None else attempt.prompt
            note["sent"] = sent or instruct(self._prompt, must) if must else self._prompt
        if attempt is not None and attempt.item is not None:
            note["item"] = describe_stored_item(attempt.item)
        return note

    def redact(self, message: str) -> str:
        """Redact a message for the log. Messages of services may contain the prompt or a key."""
        return SecretRedactor()(message if self._guard.entry.log_prompts else message.replace(self._prompt, "[prompt]"))


def current_hour() -> int:
    """Return the hour since 1970, by which spending is counted."""
    return int(time.time()) // SECONDS


def cost_entries(cost: float) -> dict[str, int]:
    """Return the cost fields of an operation; empty without a cost."""
    return {"cost": to_micro(cost), "hour": current_hour()} if cost else {}


async def wait_for_store(future: Future[OperationResult]) -> OperationResult:
    """Wait for the result of an operation."""
    return future.result() if is_blocking() else await asyncio.wrap_future(future)


def sha256_hex(data: str | bytes) -> str:
    """Compute the SHA-256 digest of a text or of bytes, for the log."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


def describe_stored_item(item: Item) -> dict[str, Any]:
    """Describe an item for the log by its hash."""
    return {"sha256": sha256_hex(item.data), "media_type": item.media_type, "bytes": len(item.data)}
