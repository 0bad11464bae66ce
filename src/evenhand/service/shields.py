"""Shields of the service, which can also pass recommendations while the store is unavailable."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from evenhand.errors import DataError, DecisionError, EvenhandError, StoreError
from evenhand.service.settings import ServedShieldConfig, WhenDown
from evenhand.service.state_machines import ShieldMachine, unguarded_output
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.retry_queue import MAX_WAITING, RetryQueue
from evenhand.service.store.transaction import OperationResult
from evenhand.service.tracing import trace_span
from evenhand.shields.policy.file import load_policy
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.runtime.shield import Shield
from evenhand.shields.spec.configuration import read_plan
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.synthesis.plans import synthesize

PATIENCE_SECONDS = 2.0
"""Seconds after which a recommendation passes unless the decision is being committed."""

Replies: TypeAlias = OrderedDict[str, tuple[dict[str, Any], "DecisionReply"]]
"""Latest operations and their replies by ID, at most `MAX_WAITING`."""


@dataclass(frozen=True)
class ServedShield:
    """Constant properties of a shield.

    Attributes:
        entry: Entry of the settings.
        plan: Plan of the shield.
        digest: Digest of its policy.
    """

    entry: ServedShieldConfig
    plan: ShieldPlan
    digest: str

    @property
    def advisory(self) -> bool:
        """Whether every recommendation is followed."""
        return self.entry.advisory

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable properties."""
        plan = self.plan
        return {
            "name": self.entry.name,
            "kind": plan.kind,
            "property": plan.property.words(),
            "kappa": str(plan.property.kappa),
            "horizon": plan.horizon,
            "groups": list(plan.inputs.groups),
            "largest_cost": plan.inputs.costs[-1],
            "cost_needed": len(plan.inputs.costs) > 1,
            "labels": plan.property.labelled,
            "advisory": self.advisory,
            "when_down": self.entry.when_down,
            "digest": self.digest,
        }


def policy_of_plan(plan: ShieldPlan) -> ShieldPolicy | PeriodicShield:
    """Return the policy of a plan. A periodic shield synthesises its first period itself."""
    return PeriodicShield(plan) if plan.makes_periods else synthesize(plan)


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
            policy = policy_of_plan(read_plan(entry.plan or {}))
        if policy.plan.makes_periods:
            policy = policy_of_plan(policy.plan)
        shield = Shield(policy, advisory=entry.advisory)
    except DataError:
        # The error already names the file.
        raise
    except EvenhandError as error:
        place = f"the plan of the shield {entry.name!r}"
        error.location = f"{place}, {error.location}" if error.location else place
        raise
    served = ServedShield(entry, policy.plan, shield.digest)
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

    Passed recommendations are queued up to a limit, and logged in order when the store is available again. Until they
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
        queue: Passed recommendations that are not in the log yet.
    """

    def __init__(self, ledger: Ledger, stream: str, groups: tuple[str, ...], when_down: WhenDown) -> None:
        self._ledger, self._stream = ledger, stream
        self._groups, self._when_down = groups, when_down
        # Futures of the requests that are being decided, keyed by ID. Each is done after its decision.
        self._running: dict[str, asyncio.Future[None]] = {}
        self._decided, self._passed = Replies(), Replies()
        self.queue = RetryQueue(ledger, stream, lambda number: {"op": "unguarded", "missing": number})
        self.passed = 0

    async def decide(self, operation: dict[str, Any]) -> DecisionReply:
        """Decide on one individual.

        Args:
            operation: ``{"op": "decide", "id", "group", "recommendation", "cost"?}``.

        Raises:
            DecisionError: The operation is invalid, or its ID was used for another one.
            StoreError: The store failed, and recommendations may not pass.
        """
        with trace_span(self._ledger.tracing, "evenhand.decide", self._stream) as record:
            reply = await self._decide(operation)
            record(guarded=reply.guarded, intervened=bool(reply.answer["intervened"]), repeated=reply.repeated)
            return reply

    async def _decide(self, operation: dict[str, Any]) -> DecisionReply:
        id = operation["id"]
        if self._when_down == "refuse":
            return _guarded_reply(await self._ledger.ask(self._stream, operation, id=id))
        # Requests with the same ID are decided one after the other, so that all of them get the same answer.
        while (running := self._running.get(id)) is not None:
            await asyncio.wait((running,))
        if not self.queue.is_empty:
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
        _remember(self._decided, operation, reply)
        return reply

    def _let_pass(self, operation: dict[str, Any]) -> DecisionReply:
        id = operation["id"]
        if operation["group"] not in self._groups:
            raise DecisionError(
                f"unknown group {operation['group']!r}", code="group", hint=f"one of {', '.join(self._groups)}"
            )
        earlier, reply = self._decided.get(id) or self._passed.get(id) or (operation, None)
        if earlier != operation:
            raise DecisionError(
                f"the id {id!r} was used for another request", code="repeated", hint="give every request its own id"
            )
        if reply is not None:
            return replace(reply, repeated=True)
        self.passed += 1
        reply = DecisionReply(unguarded_output(operation), None, repeated=False, guarded=False)
        if self.queue.keep({**operation, "op": "unguarded"}, id=id, answered=operation):
            _remember(self._passed, operation, reply)
        return reply


def _remember(replies: Replies, operation: dict[str, Any], reply: DecisionReply) -> None:
    """Remember a reply for repeated requests while the store is unavailable."""
    replies[operation["id"]] = (operation, reply)
    if len(replies) > MAX_WAITING:
        replies.popitem(last=False)


def _guarded_reply(result: OperationResult) -> DecisionReply:
    # A repeated answer may have passed while the store was unavailable.
    return DecisionReply(result.answer, result.number, result.repeated, guarded=result.answer.get("guarded", True))
