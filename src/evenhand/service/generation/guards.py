"""Guarded generators that answer concurrent requests."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from evenhand import __version__
from evenhand.core.coroutines import call
from evenhand.core.http import SecretRedactor
from evenhand.errors import AccessError, EvenhandError, FetchError, StoreError, TrustError
from evenhand.genai.backends.generator import Generator, add_usage
from evenhand.genai.enforcement.enforcer import Enforcer
from evenhand.genai.enforcement.guard import AnswerSeries, GuardedAnswer
from evenhand.genai.enforcement.supply import ItemAttempt, PartFailure
from evenhand.genai.pipeline import Pipeline, build_pipeline
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.service.generation.generators import GatewayGenerator, OutputKind, output_kind
from evenhand.service.generation.guardrail import Guardrail
from evenhand.service.generation.pictures import PictureStore
from evenhand.service.generation.stored_enforcer import (
    LogMetadata,
    RetryQueue,
    StoredEnforcer,
    cost_entries,
    wait_for_store,
)
from evenhand.service.settings import ServedGuardConfig
from evenhand.service.spending import to_micro
from evenhand.service.state_machines import GuardMachine
from evenhand.service.store.chain import canonical_json
from evenhand.service.store.ledger import Ledger
from evenhand.service.tracing import trace_calls

GRACE_SECONDS = 10.0
"""Seconds that work under way has to end when the service stops."""


@dataclass(frozen=True)
class ServedAnswer:
    """What came of a request.

    Attributes:
        answer: the guard's.
        number: of the entry in the log that admitted it, or else tells of it; None: the store has none.
        seconds: that all of it took.
        upstream_seconds: of these, that the generator took.
        usage: what the generator's service charges for, of all attempts together.
    """

    answer: GuardedAnswer
    number: int | None
    seconds: float = 0.0
    upstream_seconds: float = 0.0
    usage: Mapping[str, Any] = field(default_factory=dict)


class ServedGuard:
    """Generator with a guard whose state is in the store.

    Args:
        entry: of the settings.
        pipeline: what makes items, looks at them and reads prompts.
        ledger: the store.
        replica: this process's name.
        pictures: where pictures are kept; None: nowhere.

    Attributes:
        name: its stream.
        models: the names under which clients ask for it.
        makes: pictures or texts.
        limiter: where its requests wait.
        retry_queue: what the store could not take.
        guardrail: for a gateway that makes items itself.
        observers: are told of every request that was answered, in whichever thread.
        cost_observers: are told of what items cost that were asked for and not used: how many, and their cost.
    """

    def __init__(
        self,
        entry: ServedGuardConfig,
        pipeline: Pipeline,
        ledger: Ledger,
        replica: str,
        pictures: PictureStore | None = None,
    ) -> None:
        self.entry, self.pipeline = entry, pipeline
        self.name, self.models = entry.name, entry.models or (entry.name,)
        self.makes: OutputKind = output_kind(pipeline.generator)
        self.ledger, self.replica, self.pictures = ledger, replica, pictures
        self.limiter = ConcurrencyLimiter(entry.name, at_once=entry.at_once, waiting=entry.waiting)
        self.retry_queue = RetryQueue(ledger, entry.name)
        self.observers: list[Callable[[ServedAnswer], None]] = []
        self.cost_observers: list[Callable[[int, float], None]] = []
        self.guardrail = Guardrail(self)

    def request(
        self,
        prompt: str,
        *,
        generator: Generator | None = None,
        route: str = "python",
        count: int = 1,
    ) -> GuardedRequest:
        """Return a request, not yet begun.

        Args:
            prompt: as the user wrote it.
            generator: for this request alone.
            route: by which it came, for the log.
            count: how many items it asks for.
        """
        return GuardedRequest(self, prompt, generator or self.pipeline.generator, route, count=count)

    async def serve(self, request: GuardedRequest, seconds: float) -> list[Served]:
        """Return the outcome of each item of a request.

        Args:
            request: Request from ``request``.
            seconds: Time limit. Items that come later are not counted as shown.

        Raises:
            AccessError: Too many requests are under way.
            StoreError: The service is stopping.
        """
        answers: asyncio.Queue[Served] = asyncio.Queue()
        work = self.limiter.start(lambda: request.run(answers.put_nowait))
        outcomes: list[Served] = []
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while len(outcomes) < request.count:
                        outcomes.append(await answers.get())
        finally:
            # If the caller has left, work that has begun continues, and its items are not counted as shown.
            if len(outcomes) < request.count:
                request.withdraw()
                work.leave()
        return outcomes + [request.late(seconds) for _ in range(request.count - len(outcomes))]

    def enforcer(self, notes: LogMetadata | None = None, *, call: str | None = None) -> StoredEnforcer:
        """Build the enforcer of one request."""
        about = self.pipeline.configuration.guard.budget
        caps = {name: cap for name in ("hour", "day") if (cap := getattr(about, name)) is not None}
        budget = {name: to_micro(cap) for name, cap in {**caps, "reserve": self.pipeline.limits.most}.items()}
        return StoredEnforcer(
            self.ledger,
            self.name,
            self.replica,
            notes,
            call=call,
            budget=budget if caps else None,
        )

    def log_start(self) -> None:
        """Log the version and configuration of this replica."""
        # A key that somebody wrote among the options does not belong in a log.
        configuration = SecretRedactor().redact_json(
            self.pipeline.configuration.model_dump(mode="json", exclude_none=True)
        )
        note = {"what": "started", "replica": self.replica, "evenhand": __version__, "configuration": configuration}
        self.retry_queue.submit({"op": "record", "note": note})

    def close(self, seconds: float | None = None) -> None:
        """Stop accepting requests, wait for running requests, and abandon those that do not end."""
        ended = self.limiter.close(GRACE_SECONDS if seconds is None else seconds)
        self.guardrail.close()
        if not ended or self.guardrail.waiting:
            note = {"what": "stopped"}
            self.retry_queue.submit({"op": "abandon", "replica": self.replica, "note": note})
        self.retry_queue.close()


Served: TypeAlias = ServedAnswer | BaseException
"""What came of an item that was asked for, or the error that it ended with."""


class GuardedRequest:
    """One request to a guarded generator, for one item or several."""

    def __init__(self, guard: ServedGuard, prompt: str, generator: Generator, route: str, *, count: int) -> None:
        self.prompt, self.count = prompt, count
        spans = dict.fromkeys(("generate", "generate_several"), "evenhand.generate")
        generator = trace_calls(guard.ledger.tracing, generator, spans, guard.name)
        self._guard, self._generator = guard, generator
        self._notes = LogMetadata(
            prompt, route=route, log_prompts=guard.entry.log_prompts, instruct=guard.pipeline.instruct
        )
        self._keeper = guard.enforcer(self._notes)
        self._series = AnswerSeries(
            guard.pipeline.guard(self._keeper), prompt, count, generator=generator, watch=self._notes.watch
        )

    def withdraw(self) -> None:
        """Record that the caller no longer waits for the remaining items."""
        self._keeper.withdrawn = True

    def late(self, seconds: float) -> ServedAnswer:
        """Return the answer for an item that is not decided in time."""
        error = FetchError(f"there was no item within {seconds:g} seconds")
        error.timed_out = True
        failure = PartFailure.of("guard", error)
        return ServedAnswer(GuardedAnswer(None, "refused", self.prompt, failures=(failure,)), self._keeper.number)

    async def run(self, tell: Callable[[Served], None]) -> None:
        """Generate and decide the items one after the other, and report each outcome."""
        told = 0
        try:
            while told < self.count and not (told and self._keeper.withdrawn):
                try:
                    outcome: Served = await self._answer_traced()
                except Exception as error:
                    outcome = error
                told += 1
                tell(outcome)
            self._log_unused(await self._series.supply.leftovers())
        finally:
            for _ in range(self.count - told):
                tell(StoreError("the service is stopping", hint="ask another replica, or again later"))

    async def _answer_traced(self) -> ServedAnswer:
        tracing = self._guard.ledger.tracing
        if tracing is None:
            return await self._answer()
        with tracing.span("evenhand.guard", stream=self._guard.name) as add:
            served = await self._answer()
            add("status", served.answer.status)
            add("changed", served.answer.changed)
            return served

    async def _answer(self) -> ServedAnswer:
        """Return the next item.

        Raises:
            StoreError: the store failed, and nothing may be answered without it.
        """
        begun, busy = time.perf_counter(), self._series.supply.busy_seconds
        guard, keeper = self._guard, self._keeper
        keeper.call, keeper.number, self._notes.attempt = "", None, None
        try:
            answer = await self._series.answer()
        except BaseException as error:
            # It may or may not be open in the store; nothing may stay open for ever.
            if keeper.call:
                guard.retry_queue.submit({"op": "abandon", "call": keeper.call, "note": {"what": "store"}})
            if not isinstance(error, StoreError) or guard.entry.when_down == "refuse":
                raise
            answer = await self._without_store()
        number = await self._log_request(answer)
        self._keep(answer, number)
        upstream = self._series.supply.busy_seconds - busy
        usage = reduce(
            add_usage, (attempt.item.usage for attempt in answer.attempts if attempt.item is not None), dict[str, Any]()
        )
        served = ServedAnswer(answer, number, time.perf_counter() - begun, upstream, usage)
        for observer in guard.observers:
            observer(served)
        return served

    def _log_unused(self, left: Sequence[ItemAttempt]) -> None:
        """Log unused items: candidates that were not needed, and items generated ahead."""
        if not left:
            return
        cost = sum(attempt.cost for attempt in left)
        note = {"what": "unused", "items": sum(attempt.item is not None for attempt in left), "asked": len(left)}
        self._guard.retry_queue.submit({"op": "record", "note": note, **cost_entries(cost)})
        for observer in self._guard.cost_observers:
            observer(len(left), cost)

    async def _without_store(self) -> GuardedAnswer:
        """Return the item without a guarantee, if the configuration allows it."""
        store, last = PartFailure("store"), self._notes.attempt
        item, sent = (None, "") if last is None else (last.item, last.prompt)
        if item is None:
            sent = self.prompt
            try:
                item = await call(self._generator.generate, sent)
            except Exception as error:
                return GuardedAnswer(None, "refused", sent, failures=(store, PartFailure.of("generator", error)))
        return GuardedAnswer(item, "unguarded", sent, sent != self.prompt, failures=(store,))

    async def _log_request(self, answer: GuardedAnswer) -> int | None:
        """Log details of the answer, and return the number of the request's entry."""
        keeper, notes = self._keeper, self._notes
        if answer.status == "ok" and keeper.number is not None:
            return keeper.number
        note: dict[str, Any] = {
            "what": "answer",
            "status": answer.status,
            "admission": keeper.number,
            "reason": notes.reason(answer.reason),
            "attempts": [
                {"values": dict(attempt.values), "error": notes.reason(attempt.error)} for attempt in answer.attempts
            ],
            **notes.describe_request(),
        }
        asked = self._guard.retry_queue.submit({"op": "record", "note": note, **notes.unlogged_cost()})
        notes.unlogged = 0.0
        if keeper.number is not None or asked is None:
            return keeper.number
        try:
            return (await wait_for_store(asked)).number
        except StoreError:
            return None

    def _keep(self, answer: GuardedAnswer, number: int | None) -> None:
        guard, item = self._guard, answer.item
        if item is None or item.kind != "image" or number is None:
            return
        if guard.pictures is not None and guard.entry.keep_pictures:
            guard.pictures.keep(guard.name, number, item)


def read_guard_configuration(entry: ServedGuardConfig, folder: Path) -> GenerationConfig:
    """Read the configuration of a guard."""
    return GenerationConfig.read(folder / entry.config if isinstance(entry.config, str) else entry.config)


def build_guard_machine(entry: ServedGuardConfig, folder: Path) -> GuardMachine:
    """Return the stream of a guard, at its beginning."""
    with _naming_guard(entry):
        configuration = read_guard_configuration(entry, folder)
        what = decision_configuration(configuration)
        digest = hashlib.sha256(canonical_json(what).encode()).hexdigest()
        # Replicas admit one another's requests: it is unknown how many are under way, so none is ruled out.
        return GuardMachine(Enforcer(configuration, mode=configuration.guard.mode, in_flight=None), what, digest)


def decision_configuration(configuration: GenerationConfig) -> dict[str, Any]:
    """Return the part of the configuration that admissions and outcomes depend on.

    Not in it: how prompts are read, and how items are made and looked at. Their answers are in the log, and what gave
    them is told there at every start. Nor are samples and what is tolerated: they only word what is guaranteed.
    """
    # Without what is at its default: a specification that names it where it has no meaning could not be read again.
    specification: Mapping[str, Any] = configuration.model_dump(
        mode="json", include={"specifications", "groups"}, exclude_defaults=True
    )
    return {
        "conditions": [{"name": condition.name} for condition in configuration.conditions],
        **specification,
        "simulation": {"retries": configuration.simulation.retries, "slack": configuration.simulation.slack},
        "guard": {"mode": configuration.guard.mode},
    }


def open_guard(
    entry: ServedGuardConfig,
    folder: Path,
    ledger: Ledger,
    replica: str,
    pictures: PictureStore | None = None,
) -> ServedGuard:
    """Return a guard at work; `ServedGuard.log_start` then tells the log of it."""
    place = (folder / entry.config).parent if isinstance(entry.config, str) else folder
    with _naming_guard(entry):
        pipeline = _build_pipeline(read_guard_configuration(entry, folder), entry, place)
        if ledger.tracing is not None:
            looks, reads = (
                {"classify": "evenhand.classify"},
                dict.fromkeys(("conditions", "fixed_groups"), "evenhand.judge"),
            )
            pipeline = replace(
                pipeline,
                judge=trace_calls(ledger.tracing, pipeline.judge, reads, entry.name),
                classifier=trace_calls(ledger.tracing, pipeline.classifier, looks, entry.name),
            )
        return ServedGuard(entry, pipeline, ledger, replica, pictures)


def _build_pipeline(configuration: GenerationConfig, entry: ServedGuardConfig, place: Path) -> Pipeline:
    generator = GatewayGenerator() if configuration.generator is None else None
    return build_pipeline(configuration, trust=entry.trust, folder=place, generator=generator)


@contextmanager
def _naming_guard(entry: ServedGuardConfig) -> Iterator[None]:
    """Add the name of the guard to the errors of the block."""
    try:
        yield
    except EvenhandError as error:
        if isinstance(error, TrustError):
            error.hint = "if you know where the configuration comes from: trust = true in the guard's entry"
        error.location = ", ".join(filter(None, (f"guard {entry.name!r}", error.location)))
        raise


# How many requests to a generator are under way at once, and how many may wait.


T = TypeVar("T")


class LimitedWork:
    """A piece of work that is queued or running."""

    def __init__(self) -> None:
        self.begun = False
        self.task: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """Cancel the work unless it has begun."""
        if not self.begun and self.task is not None:
            self.task.cancel()


class ConcurrencyLimiter:
    """Run work in the event loop with limited concurrency; queued work takes no thread.

    Args:
        name: Name of the work's target, for messages.
        at_once: Maximum number of running pieces of work.
        waiting: Maximum number of queued pieces of work.
    """

    def __init__(self, name: str, *, at_once: int, waiting: int) -> None:
        self._name, self._most = name, at_once + waiting
        self._free = asyncio.Semaphore(at_once)
        self._closed = False
        # Running and queued work. The event loop adds and removes it, and `close` waits in another thread.
        self._accepted: set[LimitedWork] = set()
        self._changed = threading.Condition()

    @property
    def work_count(self) -> int:
        """Number of running and queued pieces of work."""
        return len(self._accepted)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> LimitedWork:
        """Accept a piece of work and run it as soon as there is capacity; it ends by itself, even if its caller leaves.

        Raises:
            AccessError: The queue is full.
            StoreError: The limiter is closed.
        """
        loop = asyncio.get_running_loop()
        piece = LimitedWork()
        with self._changed:
            if self._closed:
                raise StoreError("the service is stopping", hint="ask another replica, or again later")
            if len(self._accepted) >= self._most:
                raise AccessError(
                    f"{self._name} has {len(self._accepted)} requests under way or waiting, and takes {self._most} at "
                    "most",
                    code="busy",
                    hint="ask again later",
                )
            self._accepted.add(piece)
        piece.task = loop.create_task(self._run(piece, work), name=f"evenhand-{self._name}")
        # A task that is cancelled before its first step never enters `_run`.
        piece.task.add_done_callback(lambda _: self._release(piece))
        return piece

    async def finish(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T | None:
        """Run work and return its result, or None after a time limit; work that has begun then continues.

        Raises:
            AccessError: The queue is full.
            StoreError: The limiter is closed.
            BaseException: The exception that the work raised.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def settle() -> None:
            try:
                result = await work()
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        piece = self.start(settle)
        try:
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return None
        finally:
            piece.leave()

    def close(self, seconds: float) -> bool:
        """Accept no more work, and wait for running and queued work. Call it outside the event loop's thread.

        Args:
            seconds: Time limit.

        Returns:
            Whether all accepted work ended within the time limit. If not, it continues.
        """
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: not self._accepted, seconds)

    async def _run(self, piece: LimitedWork, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with self._free:
                piece.begun = True
                await work()
        finally:
            self._release(piece)

    def _release(self, piece: LimitedWork) -> None:
        with self._changed:
            self._accepted.discard(piece)
            self._changed.notify_all()
