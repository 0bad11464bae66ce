"""Guard for a gateway that generates items itself and calls the guard before generation and again with the item.

There are no further attempts: an item that does not show its requested values is delivered, and the log records a
broken assumption.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from evenhand.core.coroutines import call as call_part
from evenhand.errors import DecisionError, StoreError
from evenhand.genai.backends.generator import Item
from evenhand.genai.enforcement.enforcer import Instruction
from evenhand.genai.enforcement.guard import AnswerStatus
from evenhand.genai.enforcement.supply import ItemValues, PartFailure, known_values
from evenhand.service.background import PeriodicThread
from evenhand.service.generation.guarded_request import (
    GuardedRequest,
    StoredGuard,
    describe_stored_item,
    sha256_hex,
    wait_for_store,
)

GuardrailAction: TypeAlias = Literal["NONE", "BLOCKED", "GUARDRAIL_INTERVENED"]

MAX_REMEMBERED_CALLS = 10_000
"""Maximum number of completed calls whose answers are kept for repeated requests."""


@dataclass(frozen=True)
class GuardrailVerdict:
    """Instruction for the gateway.

    Attributes:
        action: Whether the call may continue, is blocked, or continues with another prompt.
        status: Status as in the answers of guarded generators.
        prompt: Prompt to continue with.
        reason: Reason for a status other than ok.
    """

    action: GuardrailAction
    status: AnswerStatus
    prompt: str = ""
    reason: str = ""


@dataclass
class _GatewayCall:
    """One call from the gateway.

    Attributes:
        prompt: Hash of the prompt.
        before: Verdict on the prompt.
        counts: Whether the item counts for a specification.
        until: Time at which the call is abandoned. None if it is complete.
        must: Values that the item must show.
        item: Hash of the item.
        after: Verdict on the item.
    """

    prompt: str
    before: GuardrailVerdict
    counts: bool
    until: float | None
    must: Instruction = field(default_factory=dict)
    item: str | None = None
    after: GuardrailVerdict | None = None


class Guardrail:
    """Guard for a gateway: admits its requests, and completes them with their items.

    Args:
        guard: Guard of the gateway.
        steady: Monotonic clock in seconds.
    """

    def __init__(self, guard: StoredGuard, steady: Callable[[], float] = time.monotonic) -> None:
        self._guard, self._steady = guard, steady
        self._calls: OrderedDict[str, _GatewayCall] = OrderedDict()
        self._lock = threading.Lock()
        pause = min(1.0, guard.entry.guardrail_seconds / 4)
        self._thread = PeriodicThread("evenhand-guardrail", pause, {"the guardrail": self.expire_calls})

    @property
    def waiting(self) -> int:
        """Number of calls that wait for an item."""
        with self._lock:
            return sum(record.until is not None for record in self._calls.values())

    async def before(self, call: str, prompt: str) -> GuardrailVerdict:
        """Return the prompt that the gateway continues with.

        Args:
            call: Name of the call at the gateway, which it sends again with the item.
            prompt: Prompt of the user.

        Raises:
            DecisionError: The call is already open with another prompt.
            StoreError: The store failed, and the configuration does not permit calls without it.
        """
        record = self._calls.get(call)
        if record is not None and record.prompt == sha256_hex(prompt):
            return record.before
        pipeline = self._guard.pipeline
        request = GuardedRequest(self._guard, prompt, route="guardrail", call=_stored_call_name(call))
        try:
            conditions = frozenset(await call_part(pipeline.judge.conditions, prompt))
            fixed = frozenset(await call_part(pipeline.judge.fixed_groups, prompt)) if conditions else frozenset()
            admission = await call_part(request.admit, conditions, fixed=fixed)
        except StoreError as error:
            return self._verdict_without_store(call, error)
        except DecisionError:
            raise
        except Exception as error:
            # An OptionError of the admission is also caused by the judge: it named an unknown condition.
            failure = PartFailure.of("judge", error)
            return self._undecided_verdict(str(failure), failure.summary, request)
        changed = pipeline.instruct(prompt, admission.must)
        if not prompt and changed != prompt:
            self._abandon(call, "no text")
            return GuardrailVerdict(
                "BLOCKED", "refused", reason="there is no text to which the required values can be added"
            )
        verdict = GuardrailVerdict("NONE" if changed == prompt else "GUARDRAIL_INTERVENED", "ok", changed)
        until = self._steady() + self._guard.entry.guardrail_seconds
        self._remember(call, _GatewayCall(sha256_hex(prompt), verdict, bool(admission.counts), until, admission.must))
        return verdict

    async def after(self, call: str, item: Item | None) -> GuardrailVerdict:
        """Decide whether an item may be delivered.

        Args:
            call: Name of the call.
            item: Item. None if there is none, or none that can be classified.

        Raises:
            StoreError: The store failed, and the configuration does not permit calls without it.
        """
        record = self._calls.get(call)
        digest = None if item is None else sha256_hex(item.data)
        if record is not None and record.after is not None and record.item == digest:
            return record.after
        verdict = await self._judge_item(call, item, record)
        if record is not None and verdict.status != "unguarded":
            record.item, record.after, record.until = digest, verdict, None
        return verdict

    def expire_calls(self) -> int:
        """Abandon calls without an item after the time limit, and return their number."""
        now = self._steady()
        with self._lock:
            expired = [name for name, record in self._calls.items() if record.until is not None and record.until <= now]
            for name in expired:
                del self._calls[name]
        for name in expired:
            self._abandon(name, "no item arrived in time")
        return len(expired)

    def close(self) -> None:
        """Stop the thread that abandons calls."""
        self._thread.stop()

    async def _judge_item(self, call: str, item: Item | None, record: _GatewayCall | None) -> GuardrailVerdict:
        guard, pipeline = self._guard, self._guard.pipeline
        operation: dict[str, Any] = {"op": "fail", "call": _stored_call_name(call), "final": True}
        note: dict[str, Any] = {"route": "guardrail"}
        failure: PartFailure | None = None
        if item is not None:
            note["item"] = describe_stored_item(item)
            if record is not None:
                note["clause"] = pipeline.instruct.clause(record.must)
            try:
                # An item that counts for no specification needs no classification.
                values: ItemValues = {}
                if record is None or record.counts:
                    answers = await call_part(pipeline.classifier.classify, item)
                    values = known_values(answers, pipeline.configuration.values)
                operation |= {"op": "complete", "values": dict(values)}
            except Exception as error:
                failure = PartFailure.of("classifier", error)
                if pipeline.configuration.guard.when_unsure == "pass":
                    operation |= {"op": "complete", "values": {}}
        request = GuardedRequest(guard, call, route="guardrail", call=_stored_call_name(call))
        try:
            future = guard.ledger.submit(guard.name, {**operation, "note": note})
            result = await wait_for_store(future)
        except StoreError as error:
            return self._verdict_without_store(call, error)
        except DecisionError as error:
            if error.code != "unknown-id":
                raise
            reason = "the call failed: it was not admitted, or too long ago"
            return self._undecided_verdict(reason, reason, request)
        if failure is not None:
            return self._undecided_verdict(str(failure), failure.summary, request)
        # Without an item, such as when a tool is called, there is nothing to withhold.
        outcome = result.answer["outcome"]
        return GuardrailVerdict("NONE", "ok" if outcome["status"] == "ok" else "violation", reason=outcome["reason"])

    def _undecided_verdict(self, reason: str, public_reason: str, request: GuardedRequest) -> GuardrailVerdict:
        """Return the verdict for a call whose conditions or values are unknown.

        Args:
            reason: Reason for the log; it may contain text of other services.
            public_reason: Reason for the gateway.
            request: Request that describes the call for the log.
        """
        passes = self._guard.pipeline.configuration.guard.when_unsure == "pass"
        status: AnswerStatus = "unguarded" if passes else "refused"
        self._record(status, request.redact(reason), request.description)
        return GuardrailVerdict("NONE" if passes else "BLOCKED", status, reason=public_reason)

    def _verdict_without_store(self, call: str, error: StoreError) -> GuardrailVerdict:
        self._abandon(call, "store")
        if self._guard.entry.when_down == "refuse":
            raise error
        self._record("unguarded", "the store failed", {"route": "guardrail"})
        return GuardrailVerdict("NONE", "unguarded", reason="the store failed")

    def _record(self, status: AnswerStatus, reason: str, request: Any) -> None:
        note = {"what": "answer", "status": status, "reason": reason, **request}
        self._guard.retry_queue.submit({"op": "record", "note": note})

    def _abandon(self, call: str, reason: str) -> None:
        self._guard.retry_queue.submit({"op": "abandon", "call": _stored_call_name(call), "note": {"what": reason}})

    def _remember(self, call: str, record: _GatewayCall) -> None:
        with self._lock:
            self._calls[call] = record
            surplus = len(self._calls) - MAX_REMEMBERED_CALLS
            if surplus > 0:
                # Open calls are kept, because they must eventually be completed or abandoned.
                complete = [name for name, record in self._calls.items() if record.until is None][:surplus]
                for name in complete:
                    del self._calls[name]
            if not self._thread.is_started:
                self._thread.start()


def _stored_call_name(call: str) -> str:
    """Return the name of a call in the store, distinct from the names of the guard's own requests."""
    return f"gateway:{call}"
