"""Guarded generators that answer concurrent requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

from evenhand import __version__
from evenhand.core.coroutines import call
from evenhand.core.http import SecretRedactor
from evenhand.errors import EvenhandError, FetchError, StoreError, TrustError
from evenhand.genai.backends.generator import Generator, add_usage
from evenhand.genai.enforcement.enforcer import Enforcer
from evenhand.genai.enforcement.guard import AnswerSeries, GuardedAnswer
from evenhand.genai.enforcement.supply import PartFailure
from evenhand.genai.pipeline import Pipeline, build_pipeline
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.service.generation.generators import GatewayGenerator, OutputKind, output_kind
from evenhand.service.generation.guardrail import Guardrail
from evenhand.service.generation.limiter import ConcurrencyLimiter
from evenhand.service.generation.pictures import PictureStore
from evenhand.service.generation.stored_enforcer import (
    StoredEnforcer,
    cost_entries,
    wait_for_store,
)
from evenhand.service.settings import ServedGuardConfig
from evenhand.service.spending import to_micro
from evenhand.service.state_machines import GuardMachine
from evenhand.service.store.chain import hash_json
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.retry_queue import RetryQueue
from evenhand.service.tracing import trace_calls

GRACE_SECONDS = 10.0
"""Time limit for running requests when the service stops."""


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


class ServedGuard:
    """Generator with a guard whose state is in the store.

    Args:
        entry: Entry of the settings.
        pipeline: Generator, classifier and judge.
        ledger: Ledger of the store.
        replica: Name of this process.
        pictures: Store of delivered pictures. None if none are kept.

    Attributes:
        name: Name of the guard and its stream.
        models: Names of the guard in requests.
        makes: Kind of output.
        limiter: Queue of the requests.
        retry_queue: Operations that the store has not accepted yet.
        guardrail: Guardrail for a gateway that generates items itself.
        observers: Functions that receive every answer, in any thread.
        cost_observers: Functions that receive the number and cost of unused items.
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
        self.retry_queue = RetryQueue(
            ledger, entry.name, lambda records: {"op": "record", "note": {"what": "lost", "records": records}}
        )
        self.observers: list[Callable[[ServedAnswer], None]] = []
        self.cost_observers: list[Callable[[int, float], None]] = []
        budget = pipeline.configuration.guard.budget
        caps = {name: to_micro(cap) for name in ("hour", "day") if (cap := getattr(budget, name)) is not None}
        self._budget = {"caps": caps, "reserve": to_micro(pipeline.limits.most)} if caps else None
        self.guardrail = Guardrail(entry, pipeline, self.retry_queue, self.enforcer)

    async def serve(self, request: GuardedRequest, seconds: float) -> list[Served]:
        """Return the outcome of each item of a request.

        Args:
            request: Request to this guard.
            seconds: Time limit. Items that arrive later are not counted as shown.

        Raises:
            AccessError: Too many requests are running.
            StoreError: The service is stopping.
        """
        answers: asyncio.Queue[Served] = asyncio.Queue()
        task = self.limiter.start(lambda: request.run(answers.put_nowait))
        outcomes: list[Served] = []
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while len(outcomes) < request.count:
                        outcomes.append(await answers.get())
        finally:
            # If the caller has disconnected, work in progress continues, and its items are not counted as shown.
            if len(outcomes) < request.count:
                request.withdraw()
                self.limiter.leave(task)
        return outcomes + [request.late(seconds) for _ in range(request.count - len(outcomes))]

    def enforcer(self, prompt: str, route: str, call: str | None = None) -> StoredEnforcer:
        """Build the enforcer of one request. See ``StoredEnforcer``."""
        return StoredEnforcer(
            self.ledger,
            self.name,
            self.replica,
            prompt=prompt,
            route=route,
            log_prompts=self.entry.log_prompts,
            instruct=self.pipeline.instruct,
            call=call,
            budget=self._budget,
        )

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

    def close(self, seconds: float | None = None) -> None:
        """Stop accepting requests, wait for running requests, and abandon the others after the time limit."""
        has_ended = self.limiter.close(GRACE_SECONDS if seconds is None else seconds)
        self.guardrail.close()
        if not has_ended or self.guardrail.waiting:
            self.retry_queue.submit({"op": "abandon", "replica": self.replica, "note": {"what": "stopped"}})
        self.retry_queue.close()


class GuardedRequest:
    """One request to a guarded generator, for one item or several.

    Args:
        guard: Guard of the generator.
        prompt: Prompt of the user.
        generator: Generator with the options of this request. Default: the generator of the guard.
        route: Route of the request, for the log.
        count: Number of items.
    """

    def __init__(
        self,
        guard: ServedGuard,
        prompt: str,
        generator: Generator | None = None,
        *,
        route: str = "python",
        count: int = 1,
    ) -> None:
        self.prompt, self.count = prompt, count
        spans = dict.fromkeys(("generate", "generate_several"), "evenhand.generate")
        inner = generator or guard.pipeline.generator
        self._guard, self._generator = guard, trace_calls(guard.ledger.tracing, inner, spans, guard.name)
        self._enforcer = guard.enforcer(prompt, route)
        self._series = AnswerSeries(
            guard.pipeline.guard(self._enforcer), prompt, count, generator=self._generator, watch=self._enforcer.watch
        )

    def withdraw(self) -> None:
        """Record that the caller no longer waits for the remaining items."""
        self._enforcer.withdrawn = True

    def late(self, seconds: float) -> ServedAnswer:
        """Return the answer for an item that is not decided in time."""
        error = FetchError(f"there was no item within {seconds:g} seconds")
        error.timed_out = True
        failure = PartFailure.of("guard", error)
        return ServedAnswer(GuardedAnswer(None, "refused", self.prompt, failures=(failure,)), self._enforcer.number)

    async def run(self, report: Callable[[Served], None]) -> None:
        """Generate and decide the items one at a time, and report each outcome."""
        reported = 0
        try:
            while reported < self.count and not (reported and self._enforcer.withdrawn):
                try:
                    tracing, name = self._guard.ledger.tracing, self._guard.name
                    with nullcontext() if tracing is None else tracing.span("evenhand.guard", stream=name) as span:
                        served = await self._answer()
                        if span is not None:
                            status, changed = served.answer.status, served.answer.changed
                            span.set_attributes({"evenhand.status": status, "evenhand.changed": changed})
                    outcome: Served = served
                except Exception as error:
                    outcome = error
                reported += 1
                report(outcome)
            await self._log_unused()
        finally:
            for _ in range(self.count - reported):
                report(StoreError("the service is stopping", hint="use another replica, or retry later"))

    async def _answer(self) -> ServedAnswer:
        """Return the next item."""
        start, busy = time.perf_counter(), self._series.supply.busy_seconds
        guard, enforcer = self._guard, self._enforcer
        enforcer.call, enforcer.number, enforcer.attempt = "", None, None
        try:
            answer = await self._series.answer()
        except BaseException as error:
            # It is unknown whether the admission is open in the store, and it must not stay open.
            if enforcer.call:
                guard.retry_queue.submit({"op": "abandon", "call": enforcer.call, "note": {"what": "store"}})
            if not isinstance(error, StoreError) or guard.entry.when_down == "refuse":
                raise
            answer = await self._answer_without_store()
        number, item = await self._log_request(answer), answer.item
        pictures = guard.pictures if guard.entry.keep_pictures else None
        if pictures is not None and item is not None and item.kind == "image" and number is not None:
            pictures.keep(guard.name, number, item)
        upstream = self._series.supply.busy_seconds - busy
        usages = (attempt.item.usage for attempt in answer.attempts if attempt.item is not None)
        usage = reduce(add_usage, usages, dict[str, Any]())
        served = ServedAnswer(answer, number, time.perf_counter() - start, upstream, usage)
        for observer in guard.observers:
            observer(served)
        return served

    async def _answer_without_store(self) -> GuardedAnswer:
        """Return the item without a guarantee."""
        failure, attempt = PartFailure("store"), self._enforcer.attempt
        item, prompt = (None, "") if attempt is None else (attempt.item, attempt.prompt)
        if item is None:
            prompt = self.prompt
            try:
                item = await call(self._generator.generate, prompt)
            except Exception as error:
                return GuardedAnswer(None, "refused", prompt, failures=(failure, PartFailure.of("generator", error)))
        return GuardedAnswer(item, "unguarded", prompt, prompt != self.prompt, failures=(failure,))

    async def _log_request(self, answer: GuardedAnswer) -> int | None:
        """Log details of the answer, and return the number of the request's entry."""
        enforcer = self._enforcer
        if answer.status == "ok" and enforcer.number is not None:
            return enforcer.number
        note: dict[str, Any] = {
            "what": "answer",
            "status": answer.status,
            "admission": enforcer.number,
            "reason": enforcer.reason(answer.reason),
            "attempts": [
                {"values": dict(attempt.values), "error": enforcer.reason(attempt.error)} for attempt in answer.attempts
            ],
            **enforcer.request,
        }
        record = self._guard.retry_queue.submit({"op": "record", "note": note, **cost_entries(enforcer.unlogged)})
        enforcer.unlogged = 0.0
        if enforcer.number is None and record is not None:
            with suppress(StoreError):
                return (await wait_for_store(record)).number
        return enforcer.number

    async def _log_unused(self) -> None:
        """Log unused items: candidates that were not needed, and items generated ahead."""
        attempts = await self._series.supply.leftovers()
        if not attempts:
            return
        cost = sum(attempt.cost for attempt in attempts)
        items = sum(attempt.item is not None for attempt in attempts)
        note = {"what": "unused", "items": items, "asked": len(attempts)}
        self._guard.retry_queue.submit({"op": "record", "note": note, **cost_entries(cost)})
        for observer in self._guard.cost_observers:
            observer(len(attempts), cost)


def read_guard_configuration(entry: ServedGuardConfig, folder: Path) -> GenerationConfig:
    """Read the configuration of a guard."""
    return GenerationConfig.read(folder / entry.config if isinstance(entry.config, str) else entry.config)


def build_guard_machine(entry: ServedGuardConfig, folder: Path) -> GuardMachine:
    """Build the machine of a guard in its initial state."""
    with _naming_guard(entry):
        configuration = read_guard_configuration(entry, folder)
        decisive = decision_configuration(configuration)
        digest = hash_json(decisive)
        # All replicas admit requests to this guard, so the number of open requests is unknown.
        return GuardMachine(Enforcer(configuration, mode=configuration.guard.mode, in_flight=None), decisive, digest)


def decision_configuration(configuration: GenerationConfig) -> dict[str, Any]:
    """Return the part of the configuration that admissions and outcomes depend on.

    Judges, generators and classifiers are left out: their answers are in the log, and every start logs the whole
    configuration. Samples and tolerances only change the wording of the guarantee.
    """
    # Default values are omitted, because a specification with an unused entry could not be read again.
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
    """Open a guard. `ServedGuard.log_start` then logs its start."""
    place = (folder / entry.config).parent if isinstance(entry.config, str) else folder
    with _naming_guard(entry):
        configuration = read_guard_configuration(entry, folder)
        generator = GatewayGenerator() if configuration.generator is None else None
        pipeline = build_pipeline(configuration, trust=entry.trust, folder=place, generator=generator)
        judged = dict.fromkeys(("conditions", "fixed_groups"), "evenhand.judge")
        classified = {"classify": "evenhand.classify"}
        pipeline = replace(
            pipeline,
            judge=trace_calls(ledger.tracing, pipeline.judge, judged, entry.name),
            classifier=trace_calls(ledger.tracing, pipeline.classifier, classified, entry.name),
        )
        return ServedGuard(entry, pipeline, ledger, replica, pictures)


@contextmanager
def _naming_guard(entry: ServedGuardConfig) -> Iterator[None]:
    """Add the name of the guard to the errors of the block."""
    try:
        yield
    except EvenhandError as error:
        if isinstance(error, TrustError):
            error.hint = "if you trust the author of the configuration, set trust = true in the guard's entry"
        error.location = ", ".join(filter(None, (f"guard {entry.name!r}", error.location)))
        raise
