"""Shields as the service runs them, also while the store cannot be used."""

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
from evenhand.service.store.ledger import Ledger, OperationResult
from evenhand.shields.policy.file import load_policy
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.runtime.shield import Shield
from evenhand.shields.spec.configuration import read_plan
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.synthesis.plans import synthesize

if TYPE_CHECKING:
    from evenhand.service.tracing import Tracing


@dataclass(frozen=True)
class ServedShield:
    """What never changes about a shield.

    Attributes:
        name: its stream.
        plan: what it keeps.
        digest: of its policy.
        advisory: whether every recommendation stands.
        when_down: what happens if the store cannot be used.
    """

    name: str
    plan: ShieldPlan
    digest: str
    advisory: bool = False
    when_down: WhenDown = "refuse"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        kept = self.plan.property
        return {
            "name": self.name,
            "kind": self.plan.kind,
            "property": kept.words(),
            "kappa": str(kept.kappa),
            "horizon": self.plan.horizon,
            "groups": list(self.plan.inputs.groups),
            "largest_cost": self.plan.inputs.costs[-1],
            "cost_needed": len(self.plan.inputs.costs) > 1,
            "labels": kept.labelled,
            "advisory": self.advisory,
            "when_down": self.when_down,
            "digest": self.digest,
        }


def build_shield(entry: ServedShieldConfig, folder: Path) -> tuple[ServedShield, ShieldMachine]:
    """Return a shield of the settings, and its stream at the beginning.

    Args:
        entry: of the settings.
        folder: that a relative policy starts from.

    Raises:
        EvenhandError: the policy cannot be loaded or made.
    """
    try:
        policy = _synthesize_from_plan(entry.plan) if entry.policy is None else load_policy(folder / entry.policy)
        # A shield that goes on makes its first period itself.
        periodic = policy.plan.makes_periods
        shield = Shield(PeriodicShield(policy.plan) if periodic else policy, advisory=entry.advisory)
    except DataError:
        # It names the file already.
        raise
    except EvenhandError as error:
        place = f"the plan of the shield {entry.name!r}"
        error.location = f"{place}, {error.location}" if error.location else place
        raise
    about = ServedShield(entry.name, policy.plan, shield.digest, entry.advisory, entry.when_down)
    return about, ShieldMachine(shield, entry.model_dump(mode="json"))


def _synthesize_from_plan(described: dict[str, Any] | None) -> ShieldPolicy | PeriodicShield:
    plan = read_plan(described or {})
    if plan.makes_periods:
        return PeriodicShield(plan)
    return synthesize(plan)


# Decisions of a shield, also while the store cannot be used: then as the settings say, and never without saying so.


logger = logging.getLogger("evenhand.service")

PATIENCE_SECONDS = 2.0
"""Seconds after which a recommendation passes unless the decision is being committed."""

PAUSE_SECONDS = 0.5
"""Seconds between two attempts to log passed recommendations."""

MAX_WAITING = 10_000
"""Recommendations passed on that are remembered; of further ones only their number is. So many answers of the shield
are remembered too: who asks for one again is not told something else."""

BATCH_SIZE = 500
"""Maximum number of recommendations that are logged at once."""


@dataclass(frozen=True)
class DecisionReply:
    """Reply to a decision request.

    Attributes:
        answer: of the shield; or, unguarded, the recommendation.
        number: of the entry in the log; None: there is none yet.
        repeated: whether this was asked before; the answer is the one given then.
        guarded: whether the shield decided.
    """

    answer: Mapping[str, Any]
    number: int | None
    repeated: bool
    guarded: bool


class ShieldDecider:
    """Decisions of one shield, also while the store is unavailable if the settings allow that.

    Recommendations that pass are remembered, as far as there is room, and logged in their order when the store is back.
    Until then, all recommendations pass, so that the log has them in the order of the answers. A decision of the shield
    and a passed recommendation exclude each other: an operation whose caller was answered otherwise is not committed.

    It belongs to one event loop.

    Args:
        ledger: Ledger of the store.
        stream: Name of the shield.
        groups: Groups of the shield.
        when_down: ``refuse`` or ``pass``.

    Attributes:
        passed: Number of recommendations that passed since the start.
        lost: Number of these that there was no room to remember.
    """

    def __init__(self, ledger: Ledger, stream: str, groups: tuple[str, ...], when_down: WhenDown) -> None:
        self._ledger, self._stream = ledger, stream
        self._groups, self._when_down = groups, when_down
        # By id of a request that is being decided, a future that is done afterwards.
        self._running: dict[str, asyncio.Future[None]] = {}
        self._left: deque[dict[str, Any]] = deque()
        self._told: dict[str, dict[str, Any]] = {}
        self._recent: OrderedDict[str, tuple[dict[str, Any], DecisionReply]] = OrderedDict()
        self._missing = 0
        self._telling: asyncio.Task[None] | None = None
        self.passed = 0
        self.lost = 0

    @property
    def unlogged_count(self) -> int:
        """Number of recommendations that passed and are not in the log yet."""
        return len(self._left)

    async def decide(self, operation: dict[str, Any]) -> DecisionReply:
        """Decide on one individual.

        Args:
            operation: ``{"op": "decide", "id", "group", "recommendation", "cost"?}``.

        Raises:
            DecisionError: it makes no sense, or the id was used for another one.
            StoreError: the store failed, and nothing may pass.
        """
        tracing = self._ledger.tracing
        return await (self._decide(operation) if tracing is None else self._decide_traced(tracing, operation))

    async def _decide(self, operation: dict[str, Any]) -> DecisionReply:
        id = operation["id"]
        if self._when_down == "refuse":
            return _guarded_reply(await self._ledger.ask(self._stream, operation, id=id))
        # One request after the other, so that all of them get the same answer.
        while (running := self._running.get(id)) is not None:
            await asyncio.wait((running,))
        if self._left or self._missing:
            return self._let_pass(operation)
        running = self._running[id] = asyncio.get_running_loop().create_future()
        try:
            asked = self._ledger.ask_within(self._stream, operation, id=id, seconds=PATIENCE_SECONDS)
            made = _guarded_reply(await asked)
        except (StoreError, TimeoutError):
            return self._let_pass(operation)
        finally:
            del self._running[id]
            running.set_result(None)
        self._recent[id] = (operation, made)
        if len(self._recent) > MAX_WAITING:
            self._recent.popitem(last=False)
        return made

    def close(self) -> None:
        """Log the remaining recommendations, or report how many are lost. Not to be called in the event loop."""
        task = self._telling
        if task is not None and task.get_loop().is_running():
            asyncio.run_coroutine_threadsafe(_cancel(task), task.get_loop()).result()
        try:
            for told in [self._log_passed(operation) for operation in self._left]:
                told.result()
                self._left.popleft()
            if self._missing:
                self._count().result()
                self._missing = 0
        except StoreError:
            about = {"stream": self._stream, "recommendations": len(self._left) + self._missing}
            logger.error("passed on, and never logged: the store does not answer", extra={"about": about})

    async def _decide_traced(self, tracing: Tracing, operation: dict[str, Any]) -> DecisionReply:
        with tracing.span("evenhand.decide", stream=self._stream) as add:
            made = await self._decide(operation)
            add("guarded", made.guarded)
            add("intervened", bool(made.answer["intervened"]))
            add("repeated", made.repeated)
            return made

    def _let_pass(self, operation: dict[str, Any]) -> DecisionReply:
        if operation["group"] not in self._groups:
            raise DecisionError(
                f"unknown group {operation['group']!r}", code="group", hint=f"one of {', '.join(self._groups)}"
            )
        known, made = self._recent.get(operation["id"], (None, None))
        before = self._told.get(operation["id"], known)
        if before is not None and before != operation:
            raise DecisionError(
                f"the id {operation['id']!r} was used for another request",
                code="repeated",
                hint="give every request its own id",
            )
        if made is not None:
            return replace(made, repeated=True)
        # A repeated request passes again but is counted and logged once; beyond a bound it is only counted.
        if before is None:
            self.passed += 1
            if len(self._left) < MAX_WAITING:
                self._told[operation["id"]] = operation
                self._left.append(operation)
            else:
                self.lost += 1
                self._missing += 1
        if self._telling is None or self._telling.done():
            logger.error("the store does not answer: recommendations pass", extra={"about": {"stream": self._stream}})
            self._telling = asyncio.get_running_loop().create_task(self._tell())
        return DecisionReply(unguarded_output(operation), None, before is not None, guarded=False)

    async def _tell(self) -> None:
        """Have all that passed logged."""
        while self._left or self._missing:
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                under_way = [
                    asyncio.wrap_future(self._log_passed(operation)) for operation in list(self._left)[:BATCH_SIZE]
                ]
            except StoreError:
                return  # The service is stopping.
            for told in await asyncio.gather(*under_way, return_exceptions=True):
                if isinstance(told, StoreError) or not isinstance(told, OperationResult | Exception):
                    break
                del self._told[self._left.popleft()["id"]]
                if isinstance(told, Exception):
                    # It must not keep all that come after it from being logged.
                    self.lost += 1
                    self._missing += 1
                    logger.error("a recommendation that passed cannot be logged", exc_info=told)
            if self._missing and not self._left:
                missing = self._missing
                counted = await asyncio.gather(asyncio.wrap_future(self._count()), return_exceptions=True)
                if not isinstance(counted[0], BaseException):
                    self._missing -= missing
        logger.warning("the store answers: the shield decides again", extra={"about": {"stream": self._stream}})

    def _log_passed(self, operation: dict[str, Any]) -> Future[OperationResult]:
        late = {**operation, "op": "unguarded"}
        return self._ledger.submit(self._stream, late, id=operation["id"], answered=operation)

    def _count(self) -> Future[OperationResult]:
        return self._ledger.submit(self._stream, {"op": "unguarded", "missing": self._missing})


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def _guarded_reply(done: OperationResult) -> DecisionReply:
    # An answer may be repeated that was given while the store was away.
    return DecisionReply(done.answer, done.number, done.repeated, guarded=done.answer.get("guarded", True))
