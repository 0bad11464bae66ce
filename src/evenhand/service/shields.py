"""Shields of the service, which can also pass recommendations while the store is unavailable."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError, DecisionError, EvenhandError, StoreError
from evenhand.service.settings import ServedShieldConfig, WhenDown
from evenhand.service.state_machines import ShieldMachine, unguarded_output
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.transaction import OperationResult
from evenhand.shields.policy.file import load_policy
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.runtime.shield import Shield
from evenhand.shields.spec.configuration import read_plan
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.synthesis.plans import synthesize

if TYPE_CHECKING:
    from evenhand.service.tracing import Tracing

logger = logging.getLogger("evenhand.service")

PATIENCE_SECONDS = 2.0
"""Seconds after which a recommendation passes unless the decision is being committed."""

PAUSE_SECONDS = 0.5
"""Seconds between two attempts to log passed recommendations."""

MAX_WAITING = 10_000
"""Maximum number of passed recommendations that wait to be logged; further ones are only counted. It is also the number
of remembered decisions, so that a repeated request gets the same answer."""

BATCH_SIZE = 500
"""Maximum number of recommendations that are logged at once."""


@dataclass(frozen=True)
class ServedShield:
    """Constant properties of a shield.

    Attributes:
        name: Name of its stream.
        plan: Plan of the shield.
        digest: Digest of its policy.
        advisory: Whether every recommendation stands.
        when_down: Behaviour while the store is unavailable.
    """

    name: str
    plan: ShieldPlan
    digest: str
    advisory: bool = False
    when_down: WhenDown = "refuse"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable properties."""
        plan = self.plan
        return {
            "name": self.name,
            "kind": plan.kind,
            "property": plan.property.words(),
            "kappa": str(plan.property.kappa),
            "horizon": plan.horizon,
            "groups": list(plan.inputs.groups),
            "largest_cost": plan.inputs.costs[-1],
            "cost_needed": len(plan.inputs.costs) > 1,
            "labels": plan.property.labelled,
            "advisory": self.advisory,
            "when_down": self.when_down,
            "digest": self.digest,
        }


def build_shield(entry: ServedShieldConfig, folder: Path) -> tuple[ServedShield, ShieldMachine]:
    """Build a shield, and its machine in the initial state.

    Args:
        entry: Entry of the settings.
        folder: Folder of a relative path of the policy.

    Raises:
        EvenhandError: The policy cannot be loaded or synthesised.
    """
    policy: ShieldPolicy | PeriodicShield
    try:
        if entry.policy is not None:
            policy = load_policy(folder / entry.policy)
        else:
            plan = read_plan(entry.plan or {})
            policy = PeriodicShield(plan) if plan.makes_periods else synthesize(plan)
        # A shield without an end synthesises its first period itself.
        is_periodic = policy.plan.makes_periods
        shield = Shield(PeriodicShield(policy.plan) if is_periodic else policy, advisory=entry.advisory)
    except DataError:
        # The error already names the file.
        raise
    except EvenhandError as error:
        place = f"the plan of the shield {entry.name!r}"
        error.location = f"{place}, {error.location}" if error.location else place
        raise
    served = ServedShield(entry.name, policy.plan, shield.digest, entry.advisory, entry.when_down)
    return served, ShieldMachine(shield, entry.model_dump(mode="json"))


@dataclass(frozen=True)
class DecisionReply:
    """Reply to a decision request.

    Attributes:
        answer: Decision of the shield, or the recommendation that passed.
        number: Number of the entry in the log. None if there is none yet.
        repeated: Whether the answer was given to an earlier request.
        guarded: Whether the shield decided.
    """

    answer: Mapping[str, Any]
    number: int | None
    repeated: bool
    guarded: bool


class ShieldDecider:
    """Decisions of one shield, also while the store is unavailable if the settings allow that.

    Passed recommendations are buffered up to a limit, and logged in order when the store is available again. Until they
    are logged, all recommendations pass, so that the log has the order of the answers. A request gets either a decision
    of the shield or a passed recommendation: an operation is not committed if its caller has received another answer.

    It belongs to one event loop.

    Args:
        ledger: Ledger of the store.
        stream: Name of the shield.
        groups: Groups of the shield.
        when_down: ``refuse`` or ``pass``.

    Attributes:
        passed: Number of recommendations that passed since the start.
        lost: Number of these that were dropped because the buffer was full.
    """

    def __init__(self, ledger: Ledger, stream: str, groups: tuple[str, ...], when_down: WhenDown) -> None:
        self._ledger, self._stream = ledger, stream
        self._groups, self._when_down = groups, when_down
        # By ID of a request that is being decided, a future that is done afterwards.
        self._running: dict[str, asyncio.Future[None]] = {}
        # Passed recommendations that are not logged yet, in their order and by ID.
        self._unlogged: deque[dict[str, Any]] = deque()
        self._unlogged_by_id: dict[str, dict[str, Any]] = {}
        self._recent: OrderedDict[str, tuple[dict[str, Any], DecisionReply]] = OrderedDict()
        self._missing = 0
        self._logging: asyncio.Task[None] | None = None
        self.passed = 0
        self.lost = 0

    @property
    def unlogged_count(self) -> int:
        """Number of recommendations that passed and are not in the log yet."""
        return len(self._unlogged)

    async def decide(self, operation: dict[str, Any]) -> DecisionReply:
        """Decide on one individual.

        Args:
            operation: ``{"op": "decide", "id", "group", "recommendation", "cost"?}``.

        Raises:
            DecisionError: The operation is invalid, or its ID was used for another one.
            StoreError: The store failed, and recommendations may not pass.
        """
        tracing = self._ledger.tracing
        return await (self._decide(operation) if tracing is None else self._decide_traced(tracing, operation))

    async def _decide(self, operation: dict[str, Any]) -> DecisionReply:
        id = operation["id"]
        if self._when_down == "refuse":
            return _guarded_reply(await self._ledger.ask(self._stream, operation, id=id))
        # Requests with the same ID are decided one after the other, so that all of them get the same answer.
        while (running := self._running.get(id)) is not None:
            await asyncio.wait((running,))
        if self._unlogged or self._missing:
            return self._let_pass(operation)
        running = self._running[id] = asyncio.get_running_loop().create_future()
        try:
            reply = _guarded_reply(
                await self._ledger.ask_within(self._stream, operation, id=id, seconds=PATIENCE_SECONDS)
            )
        except (StoreError, TimeoutError):
            return self._let_pass(operation)
        finally:
            del self._running[id]
            running.set_result(None)
        self._recent[id] = (operation, reply)
        if len(self._recent) > MAX_WAITING:
            self._recent.popitem(last=False)
        return reply

    def close(self) -> None:
        """Log the remaining recommendations, or report how many are lost. Call it outside the event loop."""
        task = self._logging
        if task is not None and task.get_loop().is_running():
            asyncio.run_coroutine_threadsafe(_cancel(task), task.get_loop()).result()
        try:
            for future in [self._log_passed(operation) for operation in self._unlogged]:
                future.result()
                self._unlogged.popleft()
            if self._missing:
                self._log_missing().result()
                self._missing = 0
        except StoreError:
            about = {"stream": self._stream, "recommendations": len(self._unlogged) + self._missing}
            logger.error("passed on, and never logged: the store does not answer", extra={"about": about})

    async def _decide_traced(self, tracing: Tracing, operation: dict[str, Any]) -> DecisionReply:
        with tracing.span("evenhand.decide", stream=self._stream) as add:
            reply = await self._decide(operation)
            add("guarded", reply.guarded)
            add("intervened", bool(reply.answer["intervened"]))
            add("repeated", reply.repeated)
            return reply

    def _let_pass(self, operation: dict[str, Any]) -> DecisionReply:
        id = operation["id"]
        if operation["group"] not in self._groups:
            raise DecisionError(
                f"unknown group {operation['group']!r}", code="group", hint=f"one of {', '.join(self._groups)}"
            )
        decided, reply = self._recent.get(id, (None, None))
        earlier = self._unlogged_by_id.get(id, decided)
        if earlier is not None and earlier != operation:
            raise DecisionError(
                f"the id {id!r} was used for another request", code="repeated", hint="give every request its own id"
            )
        if reply is not None:
            return replace(reply, repeated=True)
        # A repeated request passes again but is counted and logged once; beyond a bound it is only counted.
        if earlier is None:
            self.passed += 1
            if len(self._unlogged) < MAX_WAITING:
                self._unlogged_by_id[id] = operation
                self._unlogged.append(operation)
            else:
                self.lost += 1
                self._missing += 1
        if self._logging is None or self._logging.done():
            logger.error("the store does not answer: recommendations pass", extra={"about": {"stream": self._stream}})
            self._logging = asyncio.get_running_loop().create_task(self._log_all())
        return DecisionReply(unguarded_output(operation), None, earlier is not None, guarded=False)

    async def _log_all(self) -> None:
        """Log all passed recommendations."""
        while self._unlogged or self._missing:
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                futures = [
                    asyncio.wrap_future(self._log_passed(operation)) for operation in list(self._unlogged)[:BATCH_SIZE]
                ]
            except StoreError:
                return  # The service is stopping.
            for result in await asyncio.gather(*futures, return_exceptions=True):
                if isinstance(result, StoreError) or not isinstance(result, OperationResult | Exception):
                    break
                del self._unlogged_by_id[self._unlogged.popleft()["id"]]
                if isinstance(result, Exception):
                    # Later recommendations must still be logged.
                    self.lost += 1
                    self._missing += 1
                    logger.error("a recommendation that passed cannot be logged", exc_info=result)
            if self._missing and not self._unlogged:
                missing = self._missing
                (count,) = await asyncio.gather(asyncio.wrap_future(self._log_missing()), return_exceptions=True)
                if not isinstance(count, BaseException):
                    self._missing -= missing
        logger.warning("the store answers: the shield decides again", extra={"about": {"stream": self._stream}})

    def _log_passed(self, operation: dict[str, Any]) -> Future[OperationResult]:
        unguarded = {**operation, "op": "unguarded"}
        return self._ledger.submit(self._stream, unguarded, id=operation["id"], answered=operation)

    def _log_missing(self) -> Future[OperationResult]:
        return self._ledger.submit(self._stream, {"op": "unguarded", "missing": self._missing})


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def _guarded_reply(result: OperationResult) -> DecisionReply:
    # A repeated answer may have passed while the store was unavailable.
    return DecisionReply(result.answer, result.number, result.repeated, guarded=result.answer.get("guarded", True))
