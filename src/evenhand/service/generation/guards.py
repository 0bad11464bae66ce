"""Guarded generators that answer concurrent requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from evenhand.core.canonical_json import hash_json
from evenhand.errors import AccessError, EvenhandError, StoreError, TrustError
from evenhand.genai.enforcement.enforcer import Enforcer
from evenhand.genai.pipeline import Pipeline, build_pipeline
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.service.generation.generators import GatewayGenerator, OutputKind, output_kind
from evenhand.service.generation.guarded_request import GuardedRequest, Served, StoredGuard
from evenhand.service.generation.guardrail import Guardrail
from evenhand.service.generation.pictures import PictureStore
from evenhand.service.settings import ServedGuardConfig
from evenhand.service.state_machines import GuardMachine
from evenhand.service.store.ledger import Ledger

T = TypeVar("T")

GRACE_SECONDS = 10.0
"""Time limit for running requests when the service stops."""


class ServedGuard(StoredGuard):
    """Guard that answers concurrent requests.

    Args:
        entry, pipeline, ledger, replica, pictures: See ``StoredGuard``.

    Attributes:
        models: Names of the guard in requests.
        makes: Kind of output.
        limiter: Queue of the requests.
        guardrail: Guardrail for a gateway that generates items itself.
    """

    def __init__(
        self,
        entry: ServedGuardConfig,
        pipeline: Pipeline,
        ledger: Ledger,
        replica: str,
        pictures: PictureStore | None = None,
    ) -> None:
        super().__init__(entry, pipeline, ledger, replica, pictures)
        self.models = entry.models or (entry.name,)
        self.makes: OutputKind = output_kind(pipeline.generator)
        self.limiter = ConcurrencyLimiter(entry.name, at_once=entry.at_once, waiting=entry.waiting)
        self.guardrail = Guardrail(self)

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
        task = self.limiter.start(partial(request.run, answers.put_nowait))
        outcomes: list[Served] = []
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while len(outcomes) < request.count:
                        outcomes.append(await answers.get())
        finally:
            # If the caller has disconnected, work in progress continues, and its items are not counted as shown.
            if len(outcomes) < request.count:
                request.withdrawn = True
                self.limiter.leave(task)
        return outcomes + [request.late(seconds) for _ in range(request.count - len(outcomes))]

    def close(self, seconds: float | None = None) -> None:
        """Stop accepting requests, wait for running requests, and abandon the others after the time limit."""
        has_ended = self.limiter.close(GRACE_SECONDS if seconds is None else seconds)
        self.guardrail.close()
        if not has_ended or self.guardrail.waiting:
            self.retry_queue.submit({"op": "abandon", "replica": self.replica, "note": {"what": "stopped"}})
        self.retry_queue.close()


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
        if (tracing := ledger.tracing) is not None:
            judged = dict.fromkeys(("conditions", "fixed_groups"), "evenhand.judge")
            judge = tracing.wrap(pipeline.judge, judged, entry.name)
            classifier = tracing.wrap(pipeline.classifier, {"classify": "evenhand.classify"}, entry.name)
            pipeline = replace(pipeline, judge=judge, classifier=classifier)
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


class ConcurrencyLimiter:
    """Runs work in the event loop with limited concurrency. Queued work takes no thread.

    Args:
        name: Name of the generator, for messages.
        at_once: Maximum number of running tasks.
        waiting: Maximum number of queued tasks.
    """

    def __init__(self, name: str, *, at_once: int, waiting: int) -> None:
        self._name, self._max_tasks = name, at_once + waiting
        self._slots = asyncio.Semaphore(at_once)
        self._is_closed = False
        # The event loop adds and removes tasks, and `close` waits in another thread.
        self._accepted: set[asyncio.Task[Any]] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._changed = threading.Condition()

    @property
    def work_count(self) -> int:
        """Number of running and queued tasks."""
        return len(self._accepted)

    def start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Queue work, to be run as soon as there is capacity. It runs to completion even if its caller leaves.

        Raises:
            AccessError: The queue is full.
            StoreError: The limiter is closed.
        """
        with self._changed:
            if self._is_closed:
                raise StoreError("the service is stopping", hint="use another replica, or retry later")
            if len(self._accepted) >= self._max_tasks:
                raise AccessError(
                    f"{self._name} has {len(self._accepted)} running or queued requests, and accepts at most "
                    f"{self._max_tasks}",
                    code="busy",
                    hint="retry later",
                )
            task = asyncio.get_running_loop().create_task(self._run(work), name=f"evenhand-{self._name}")
            self._accepted.add(task)
        task.add_done_callback(self._release)
        return task

    def leave(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task unless it is already running."""
        if task not in self._running:
            task.cancel()

    async def finish(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T | None:
        """Run work and return its result, or None after a time limit. Running work then continues.

        Raises:
            AccessError: The queue is full.
            StoreError: The limiter is closed.
            BaseException: The exception that the work raised.
        """
        task = self.start(work)
        finished = set[asyncio.Task[T]]()
        try:
            finished, _ = await asyncio.wait({task}, timeout=seconds)
        finally:
            if not finished:
                # No caller is left that could see its exception.
                task.add_done_callback(lambda task: task.cancelled() or task.exception())
                self.leave(task)
        return task.result() if finished else None

    def close(self, seconds: float) -> bool:
        """Accept no more work, and wait for running and queued tasks. Call it outside the event loop's thread.

        Args:
            seconds: Time limit.

        Returns:
            Whether all tasks ended within the time limit. Otherwise, they continue.
        """
        with self._changed:
            self._is_closed = True
            return self._changed.wait_for(lambda: not self._accepted, seconds)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._slots:
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            return await work()

    def _release(self, task: asyncio.Task[Any]) -> None:
        with self._changed:
            self._accepted.discard(task)
            self._running.discard(task)
            self._changed.notify_all()
