"""A guard for a gateway that makes items itself: it asks before, and again with the item.

There is no other attempt in between: an item that does not show what its prompt asked for is delivered, and the log
says that an assumption is broken.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from evenhand.core.coroutines import call as call_part
from evenhand.errors import DecisionError, StoreError
from evenhand.genai.backends.generator import Item
from evenhand.genai.enforcement.enforcer import Instruction
from evenhand.genai.enforcement.guard import AnswerStatus
from evenhand.genai.enforcement.supply import PartFailure, known_values
from evenhand.service.background import PeriodicThread
from evenhand.service.generation.stored_enforcer import LogMetadata, sha256_hex, wait_for_store

if TYPE_CHECKING:
    from evenhand.genai.pipeline import Pipeline
    from evenhand.service.generation.stored_enforcer import RetryQueue, StoredEnforcer
    from evenhand.service.settings import ServedGuardConfig
    from evenhand.service.store.ledger import Ledger

GuardrailAction: TypeAlias = Literal["NONE", "BLOCKED", "GUARDRAIL_INTERVENED"]

MAX_REMEMBERED_CALLS = 10_000
"""Maximum number of completed calls whose answers are kept for repeated requests."""


@dataclass(frozen=True)
class GuardrailVerdict:
    """What the gateway is to do.

    Attributes:
        action: let it pass, refuse it, or go on with another prompt.
        status: as in the answers of guarded generators.
        prompt: to go on with.
        reason: why it is refused, or not ok.
    """

    action: GuardrailAction
    status: AnswerStatus
    prompt: str = ""
    reason: str = ""


@dataclass
class _GatewayCall:
    """One call of the gateway's.

    Attributes:
        prompt: its hash.
        before: what was said to it.
        counts: whether its item counts for anything.
        until: when it is given up, by the steady clock; None: it is complete.
        item: the hash of its item.
        after: what was said to that.
    """

    prompt: str
    before: GuardrailVerdict
    counts: bool
    until: float | None
    item: str | None = None
    after: GuardrailVerdict | None = None
    must: Instruction = field(default_factory=dict)


class GuardrailOwner(Protocol):
    """What a guardrail shares with the guarded generator that it belongs to."""

    entry: ServedGuardConfig
    pipeline: Pipeline
    ledger: Ledger
    name: str
    replica: str
    retry_queue: RetryQueue

    def enforcer(self, notes: LogMetadata | None = None, *, call: str | None = None) -> StoredEnforcer:
        """Build the enforcer of one request."""
        ...


class Guardrail:
    """Guard for a gateway: admits its requests, and completes them with their items.

    Args:
        guard: whose judge, classifier and deadlines are used.
        steady: seconds of a monotonic clock.
    """

    def __init__(self, guard: GuardrailOwner, steady: Callable[[], float] = time.monotonic) -> None:
        self._guard, self._steady = guard, steady
        self._calls: OrderedDict[str, _GatewayCall] = OrderedDict()
        self._lock = threading.Lock()
        pause = min(1.0, guard.entry.guardrail_seconds / 4)
        self._thread = PeriodicThread("evenhand-guardrail", self.expire_calls, pause)

    async def before(self, call: str, prompt: str) -> GuardrailVerdict:
        """Return the prompt that the gateway is to go on with.

        Args:
            call: the gateway's name of the call, with which it asks again when there is an item.
            prompt: as the user wrote it.

        Raises:
            DecisionError: the call is under way with another prompt.
            StoreError: the store failed, and nothing may go on without it.
        """
        known = self._calls.get(call)
        if known is not None and known.prompt == sha256_hex(prompt):
            return known.before
        pipeline, guard = self._guard.pipeline, self._guard
        notes = self._notes(prompt)
        keeper = guard.enforcer(notes, call=_stored_call_name(call))
        try:
            conditions = frozenset(await call_part(pipeline.judge.conditions, prompt))
            fixed = frozenset(await call_part(pipeline.judge.fixed_groups, prompt)) if conditions else frozenset()
            admission = await call_part(keeper.admit, conditions, fixed=fixed)
        except StoreError as error:
            return self._without_store(call, error)
        except DecisionError:
            raise
        except Exception as error:
            # An OptionError of the keeper's is the judge's too: it names a condition that there is none of.
            failure = PartFailure.of("judge", error)
            return self._undecided_verdict(str(failure), failure.summary, notes)
        sent = await call_part(pipeline.instruct, prompt, admission.must)
        if sent == prompt:
            verdict = GuardrailVerdict("NONE", "ok", prompt)
        elif prompt:
            verdict = GuardrailVerdict("GUARDRAIL_INTERVENED", "ok", sent)
        else:
            guard.retry_queue.submit({"op": "abandon", "call": _stored_call_name(call), "note": {"what": "no text"}})
            return GuardrailVerdict(
                "BLOCKED", "refused", reason="there is no text to which what must be asked for could be put"
            )
        until = self._steady() + guard.entry.guardrail_seconds
        self._remember(
            call, _GatewayCall(sha256_hex(prompt), verdict, bool(admission.counts), until, must=admission.must)
        )
        return verdict

    async def after(self, call: str, item: Item | None) -> GuardrailVerdict:
        """Decide whether an item may be delivered.

        Args:
            call: as it was named before.
            item: None: there is none, or nothing that can be looked at.

        Raises:
            StoreError: the store failed, and nothing may be delivered without it.
        """
        known = self._calls.get(call)
        digest = None if item is None else sha256_hex(item.data)
        if known is not None and known.after is not None and known.item == digest:
            return known.after
        verdict = await self._judge_item(call, item, known)
        if known is not None and verdict.status != "unguarded":
            known.item, known.after, known.until = digest, verdict, None
        return verdict

    def expire_calls(self) -> int:
        """Abandon calls without an item after the time limit, and return their number."""
        now = self._steady()
        with self._lock:
            over = [name for name, record in self._calls.items() if record.until is not None and record.until <= now]
            for name in over:
                del self._calls[name]
        for name in over:
            self._guard.retry_queue.submit(
                {"op": "abandon", "call": _stored_call_name(name), "note": {"what": "no item came in time"}}
            )
        return len(over)

    @property
    def waiting(self) -> int:
        """Number of calls that wait for an item."""
        with self._lock:
            return sum(record.until is not None for record in self._calls.values())

    def close(self) -> None:
        """Stop watching for items."""
        self._thread.stop()

    # ---- within

    async def _judge_item(self, call: str, item: Item | None, known: _GatewayCall | None) -> GuardrailVerdict:
        guard, pipeline = self._guard, self._guard.pipeline
        operation: dict[str, Any] = {"op": "fail", "call": _stored_call_name(call), "final": True}
        note: dict[str, Any] = {"route": "guardrail"}
        failure: PartFailure | None = None
        if item is not None:
            note["item"] = {"sha256": sha256_hex(item.data), "media_type": item.media_type, "bytes": len(item.data)}
            if known is not None:
                note["clause"] = pipeline.instruct.clause(known.must)
            try:
                # Where an item counts for nothing, nothing depends on what it shows.
                looked = known is None or known.counts
                groups = pipeline.configuration.values
                values = known_values(await call_part(pipeline.classifier.classify, item), groups) if looked else {}
                operation |= {"op": "complete", "values": dict(values)}
            except Exception as error:
                failure = PartFailure.of("classifier", error)
                if pipeline.configuration.guard.when_unsure == "pass":
                    operation |= {"op": "complete", "values": {}}
        try:
            done = await wait_for_store(guard.ledger.submit(guard.name, {**operation, "note": note}))
            outcome = done.answer["outcome"]
        except StoreError as error:
            return self._without_store(call, error)
        except DecisionError as error:
            if error.code != "unknown-id":
                raise
            reason = "the call failed: it was not admitted, or too long ago"
            return self._undecided_verdict(reason, reason, self._notes(call))
        if failure is not None:
            return self._undecided_verdict(str(failure), failure.summary, self._notes(call))
        # Without an item, such as when a tool is called, there is nothing to keep back.
        return GuardrailVerdict("NONE", "ok" if outcome["status"] == "ok" else "violation", reason=outcome["reason"])

    def _undecided_verdict(self, reason: str, public_reason: str, notes: LogMetadata) -> GuardrailVerdict:
        """Return the verdict for a call whose conditions or values are unknown.

        Args:
            reason: Reason for the log; it may contain text of other services.
            public_reason: Reason for the gateway.
            notes: Description of the call for the log.
        """
        passes = self._guard.pipeline.configuration.guard.when_unsure == "pass"
        status: AnswerStatus = "unguarded" if passes else "refused"
        note = {
            "what": "answer",
            "status": status,
            "reason": notes.reason(reason),
            **notes.describe_request(),
        }
        self._guard.retry_queue.submit({"op": "record", "note": note})
        return GuardrailVerdict("NONE" if passes else "BLOCKED", status, reason=public_reason)

    def _without_store(self, call: str, error: StoreError) -> GuardrailVerdict:
        self._guard.retry_queue.submit({"op": "abandon", "call": _stored_call_name(call), "note": {"what": "store"}})
        if self._guard.entry.when_down == "refuse":
            raise error
        note = {"what": "answer", "status": "unguarded", "reason": "the store failed", "route": "guardrail"}
        self._guard.retry_queue.submit({"op": "record", "note": note})
        return GuardrailVerdict("NONE", "unguarded", reason="the store failed")

    def _notes(self, prompt: str) -> LogMetadata:
        return LogMetadata(
            prompt,
            route="guardrail",
            log_prompts=self._guard.entry.log_prompts,
            instruct=self._guard.pipeline.instruct,
        )

    def _remember(self, call: str, what: _GatewayCall) -> None:
        with self._lock:
            self._calls[call] = what
            over = len(self._calls) - MAX_REMEMBERED_CALLS
            if over > 0:
                # Those under way are not forgotten: somebody must give them up.
                complete = [name for name, record in self._calls.items() if record.until is None][:over]
                for name in complete:
                    del self._calls[name]
            if not self._thread.is_started:
                self._thread.start()


def _stored_call_name(call: str) -> str:
    """Return a call's name in the store, where the guard's own requests have theirs."""
    return f"gateway:{call}"
