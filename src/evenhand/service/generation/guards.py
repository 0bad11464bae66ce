"""Guarded generators as the service runs them, so many requests at once."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from evenhand import __version__
from evenhand.errors import AccessError, EvenhandError, StoreError, TrustError
from evenhand.genai import (
    Enforcer,
    GenerationConfig,
    Generator,
    GuardedAnswer,
    Pipeline,
    build_classifier,
    build_instruct,
    build_judge,
    build_pipeline,
    check_studio_values,
)
from evenhand.http import SecretRedactor
from evenhand.service.generation.generators import GatewayGenerator, OutputKind, output_kind
from evenhand.service.generation.guardrail import Guardrail
from evenhand.service.generation.pictures import PictureStore
from evenhand.service.generation.stored_enforcer import LogMetadata, RecordingGenerator, RetryQueue, StoredEnforcer
from evenhand.service.settings import ServedGuardConfig
from evenhand.service.state_machines import GuardMachine
from evenhand.service.store.chain import canonical_json
from evenhand.service.store.ledger import Ledger

GRACE_SECONDS = 10.0
"""Seconds that work under way has to end when the service stops."""


@dataclass(frozen=True)
class ServedAnswer:
    """What came of a request.

    Attributes:
        answer: the guard's.
        number: of the entry in the log that admitted it, or else tells of it; None: the store has none.
        picture: the end of the picture's address, if it has to have one.
        seconds: that all of it took.
        upstream_seconds: of these, that the generator took.
        usage: what the generator's service charges for, of all attempts together.
    """

    answer: GuardedAnswer
    number: int | None
    picture: str | None = None
    seconds: float = 0.0
    upstream_seconds: float = 0.0
    usage: Mapping[str, Any] = field(default_factory=dict)


class ServedGuard:
    """A generator with a guard whose rows lie in the store.

    Args:
        entry: of the settings.
        pipeline: what makes items, looks at them and reads prompts.
        ledger: the store.
        replica: this process's name.
        pictures: where pictures are kept; None: nowhere.

    Attributes:
        name: its stream.
        version: its number among those of its name.
        models: the names under which clients ask for it.
        makes: pictures or texts.
        limiter: where its requests wait.
        retry_queue: what the store could not take.
        guardrail: for a gateway that makes items itself.
        observers: are told of every request that was answered, in whichever thread.
    """

    def __init__(
        self,
        entry: ServedGuardConfig,
        pipeline: Pipeline,
        ledger: Ledger,
        replica: str,
        pictures: PictureStore | None = None,
    ) -> None:
        self.version = 1
        self.entry, self.pipeline = entry, pipeline
        self.name, self.models = entry.name, entry.models or (entry.name,)
        self.makes: OutputKind = output_kind(pipeline.generator)
        self.ledger, self.replica, self.pictures = ledger, replica, pictures
        self.limiter = ConcurrencyLimiter(entry.name, at_once=entry.at_once, waiting=entry.waiting)
        self.retry_queue = RetryQueue(ledger, entry.name)
        self.observers: list[Callable[[ServedAnswer], None]] = []
        self.guardrail = Guardrail(self)

    def request(
        self, prompt: str, *, generator: Generator | None = None, route: str = "python", address: bool = False
    ) -> GuardedRequest:
        """Return a request, not yet begun.

        Args:
            prompt: as the user wrote it.
            generator: for this request alone.
            route: by which it came, for the log.
            address: whether the picture must have an address.
        """
        return GuardedRequest(self, prompt, generator or self.pipeline.generator, route, address)

    async def serve(self, requests: Sequence[GuardedRequest], seconds: float) -> list[ServedAnswer | BaseException]:
        """Return what comes of several requests at the same time.

        Args:
            requests: see ``request``.
            seconds: how long they are waited for; an item that comes later does not count as shown.

        Returns:
            for each, what came of it, or the error that it ended with.

        Raises:
            AccessError: too many are under way already; none was begun.
            StoreError: the service is stopping.
        """

        def late() -> None:
            for one in requests:
                one.withdraw_request()

        found = await self.limiter.gather(requests, seconds=seconds, late=late)
        return [one.late(seconds) if came is None else came for one, came in zip(requests, found, strict=True)]

    def enforcer(self, notes: LogMetadata | None = None, *, call: str | None = None) -> StoredEnforcer:
        """Return what admits and completes one request in the store, by this version of the guard."""
        return StoredEnforcer(self.ledger, self.name, self.replica, notes, call=call, version=self.version)

    def log_start(self) -> None:
        """Log by what this replica reads prompts, and makes and classifies items, from now on."""
        # A key that somebody wrote among the options does not belong in a log.
        configuration = SecretRedactor().redact_json(
            self.pipeline.configuration.model_dump(mode="json", exclude_none=True)
        )
        note = {"what": "started", "replica": self.replica, "evenhand": __version__, "configuration": configuration}
        self.retry_queue.submit({"op": "record", "note": note})

    def close(self, seconds: float | None = None) -> None:
        """Start nothing more, wait for what is under way, and give up what does not end."""
        ended = self.limiter.close(GRACE_SECONDS if seconds is None else seconds)
        self.guardrail.close()
        if not ended or self.guardrail.waiting:
            note = {"what": "stopped"}
            self.retry_queue.submit({"op": "abandon", "replica": self.replica, "note": note})
        self.retry_queue.close()


class GuardedRequest:
    """One request to a guarded generator; called, it answers it, and blocks."""

    def __init__(self, guard: ServedGuard, prompt: str, generator: Generator, route: str, address: bool) -> None:
        self.prompt = prompt
        self._guard, self._address = guard, address
        self._made = RecordingGenerator(generator, prompt)
        self._notes = LogMetadata(
            prompt, self._made, route=route, log_prompts=guard.entry.log_prompts, instruct=guard.pipeline.instruct
        )
        self._keeper = guard.enforcer(self._notes)

    def withdraw_request(self) -> None:
        """Note that the caller no longer waits for the answer."""
        self._keeper.withdrawn = True

    def late(self, seconds: float) -> ServedAnswer:
        """Return what is said instead of an answer that did not come in time."""
        reason = f"no answer came within {seconds:g} seconds"
        return ServedAnswer(GuardedAnswer(None, "refused", self.prompt, reason=reason), self._keeper.number)

    def __call__(self) -> ServedAnswer:
        """Answer it.

        Raises:
            StoreError: the store failed, and nothing may be answered without it.
        """
        begun = time.perf_counter()
        guard, keeper = self._guard, self._keeper
        try:
            answer = guard.pipeline.guard(keeper, generator=self._made).answer(self.prompt)
        except BaseException as error:
            # It may or may not be open in the store; nothing may stay open for ever.
            if keeper.call:
                guard.retry_queue.submit({"op": "abandon", "call": keeper.call, "note": {"what": "store"}})
            if not isinstance(error, StoreError) or guard.entry.when_down == "refuse":
                raise
            answer = self._without_store()
        number = self._log_request(answer)
        picture = self._keep(answer, number)
        seconds = time.perf_counter() - begun
        served = ServedAnswer(answer, number, picture, seconds, self._made.seconds, self._made.usage)
        for observer in guard.observers:
            observer(served)
        return served

    def _without_store(self) -> GuardedAnswer:
        """Return the item without a guarantee, if the configuration allows it."""
        reason, item, sent = "the store failed", self._made.item, self._made.sent
        if item is None:
            sent = self.prompt
            try:
                item = self._made.generate(sent)
            except Exception as error:
                what = error.message if isinstance(error, EvenhandError) else type(error).__name__
                return GuardedAnswer(None, "refused", sent, reason=f"{reason}; the generator failed: {what}")
        return GuardedAnswer(item, "unguarded", sent, sent != self.prompt, reason=reason)

    def _log_request(self, answer: GuardedAnswer) -> int | None:
        """Log what the entries of admissions and items do not tell; return the number of the request's entry."""
        keeper, notes = self._keeper, self._notes
        if answer.status == "ok" and keeper.number is not None:
            return keeper.number
        note: dict[str, Any] = {
            "what": "answer",
            "status": answer.status,
            "admission": keeper.number,
            "reason": notes.reason(answer.reason),
            "attempts": [
                {"values": dict(one.values), "error": notes.reason(one.error)} for one in answer.attempts
            ],
            **notes.describe_request(),
        }  # fmt: skip
        asked = self._guard.retry_queue.submit({"op": "record", "note": note})
        if keeper.number is not None or asked is None:
            return keeper.number
        try:
            return asked.result().number
        except StoreError:
            return None

    def _keep(self, answer: GuardedAnswer, number: int | None) -> str | None:
        guard, item = self._guard, answer.item
        if item is None or item.kind != "image" or guard.pictures is None:
            return None
        if self._address:
            if number is None:
                raise StoreError("the picture cannot be kept", hint="ask for b64_json")
            return guard.pictures.keep(guard.name, number, item)
        if number is not None and guard.entry.keep_pictures:
            guard.pictures.keep_if_possible(guard.name, number, item)
        return None


def read_guard_configuration(entry: ServedGuardConfig, folder: Path) -> GenerationConfig:
    """Return what an entry's configuration says."""
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
    """Return all that admissions and outcomes depend on, as a configuration of its own.

    Not in it: how prompts are read, and how items are made and looked at. Their answers are in the log, and what gave
    them is told there at every start. Nor are samples and what is tolerated: they only word what is guaranteed.
    """
    # Without what is at its default: a specification that names it where it has no meaning could not be read again.
    found: Mapping[str, Any] = configuration.model_dump(
        mode="json", include={"specifications", "groups"}, exclude_defaults=True
    )
    return {
        "conditions": [{"name": condition.name} for condition in configuration.conditions],
        **found,
        "simulation": {"retries": configuration.simulation.retries, "slack": configuration.simulation.slack},
        "guard": {"mode": configuration.guard.mode},
    }


def open_guard(
    entry: ServedGuardConfig,
    folder: Path,
    ledger: Ledger,
    replica: str,
    pictures: PictureStore | None = None,
    *,
    version: int = 1,
) -> ServedGuard:
    """Return a guard at work; `ServedGuard.log_start` then tells the log of it."""
    place = (folder / entry.config).parent if isinstance(entry.config, str) else folder
    with _naming_guard(entry):
        guard = ServedGuard(
            entry, _build_pipeline(read_guard_configuration(entry, folder), entry, place), ledger, replica, pictures
        )
    guard.version = version
    return guard


def _build_pipeline(configuration: GenerationConfig, entry: ServedGuardConfig, place: Path) -> Pipeline:
    if configuration.generator is not None:
        return build_pipeline(configuration, trust=entry.trust, folder=place)
    check_studio_values(configuration)
    return Pipeline(
        configuration,
        GatewayGenerator(),
        build_classifier(configuration, trust=entry.trust, folder=place),
        build_judge(configuration, trust=entry.trust, folder=place),
        build_instruct(configuration),
    )


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


class ConcurrencyLimiter:
    """Does work that blocks, each piece in a thread of its own, and not too many at once.

    The threads end with the process: an upstream that hangs does not keep it alive.

    Args:
        name: of what is asked, for messages.
        at_once: pieces of work under way.
        waiting: pieces that may wait.
    """

    def __init__(self, name: str, *, at_once: int, waiting: int) -> None:
        self._name, self._most = name, at_once + waiting
        self._free = asyncio.Semaphore(at_once)
        self._taken = 0
        self._closed = False
        self._running = 0
        self._changed = threading.Condition()

    @property
    def work_count(self) -> int:
        """Pieces of work under way or waiting."""
        return self._taken

    async def gather(
        self, work: Sequence[Callable[[], T]], *, seconds: float, late: Callable[[], None]
    ) -> list[T | BaseException | None]:
        """Run several pieces of work at the same time.

        Args:
            work: the pieces.
            seconds: how long they are waited for.
            late: called once no caller waits any more for what is not done: the time is up, or the caller has gone.
                What has begun then goes on; what waits is never begun.

        Returns:
            for every piece what came of it; an exception that it raised; None if it was not done in time.

        Raises:
            AccessError: there is too much to do already; nothing was begun.
            StoreError: the service is stopping.
        """
        if self._closed:
            raise StoreError("the service is stopping", hint="ask another replica, or again later")
        if self._taken + len(work) > self._most:
            raise AccessError(
                f"{self._name} has {self._taken} requests under way or waiting, and takes {self._most} at most",
                code="busy",
                hint="ask again later",
            )
        self._taken += len(work)
        tasks = [asyncio.ensure_future(self._one(piece)) for piece in work]
        try:
            await asyncio.wait(tasks, timeout=seconds)
        finally:
            if not all(task.done() for task in tasks):
                late()
            for task in tasks:
                task.cancel()
        return [(task.exception() or task.result()) if task.done() else None for task in tasks]

    def close(self, seconds: float) -> bool:
        """Start nothing more, and wait for what is under way; return whether all of it ended in time."""
        self._closed = True
        until = time.monotonic() + seconds
        with self._changed:
            while self._running:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    async def _one(self, piece: Callable[[], T]) -> T:
        try:
            await self._free.acquire()
        except BaseException:
            self._taken -= 1
            raise
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._taken -= 1
            self._free.release()
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

        def run() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = piece()
            except BaseException as raised:
                error = raised
            with self._changed:
                self._running -= 1
                self._changed.notify_all()
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:
                return  # The loop has ended, and no caller waits any more.

        with self._changed:
            self._running += 1
        try:
            threading.Thread(target=run, name=f"evenhand-{self._name}", daemon=True).start()
        except RuntimeError as error:
            with self._changed:
                self._running -= 1
            settle(None, StoreError(f"no thread can be started: {error}", hint="allow more, or lower at_once"))
        return await future
