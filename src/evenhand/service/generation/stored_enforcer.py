"""The enforcer in the store, as the guard of a generator sees it, and a queue for while the store is away."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from typing import Any
from uuid import uuid4

from evenhand.core.coroutines import blocks, call, is_blocking
from evenhand.core.http import SecretRedactor
from evenhand.errors import DecisionError, EvenhandError, StoreError
from evenhand.genai.enforcement.enforcer import Admission, Instruction, ItemOutcome
from evenhand.genai.enforcement.instructions import InstructionWriter
from evenhand.genai.enforcement.supply import ItemAttempt
from evenhand.service.background import PeriodicThread
from evenhand.service.spending import SECONDS, to_micro
from evenhand.service.state_machines import Operation
from evenhand.service.store.ledger import Ledger, OperationResult


@dataclass(frozen=True)
class StoredAdmission(Admission):
    """An admission that is open in the store under a number, and the call that it belongs to."""

    number: int
    call: str


class StoredEnforcer:
    """Admits and completes one request durably, for whichever replica of the service.

    Args:
        ledger: the store.
        stream: the guard's name.
        replica: this process's name, under which admissions are open.
        notes: for the log.
        call: a name for its admissions; by default a unique one.
        budget: ``reserve``, what a request may cost at most, and caps, in millionths: ``hour``, ``day``; None: no caps.

    Attributes:
        call: under which its admissions are open too, until they are complete; callers that do not know whether there
            is one can give it up by this.
        number: of the last admission; None: there was none.
        withdrawn: set this once no caller waits for an item any more: those that come then are not counted as shown.
    """

    def __init__(
        self,
        ledger: Ledger,
        stream: str,
        replica: str,
        notes: LogMetadata | None = None,
        *,
        call: str | None = None,
        budget: Mapping[str, int] | None = None,
    ) -> None:
        self._budget = budget
        self._ledger, self._stream, self._replica = ledger, stream, replica
        self._notes = notes
        self._given = call
        self.call = call or ""
        self.number: int | None = None
        self.withdrawn = False

    @blocks
    async def admit(
        self,
        conditions: Collection[str],
        *,
        fixed: Collection[str] = (),
        prefer: Mapping[str, Sequence[str]] | None = None,
    ) -> StoredAdmission:
        """As ``Enforcer.admit``.

        Raises:
            StoreError: the store failed.
        """
        self.number = None
        self.call = self._given or uuid4().hex
        operation: dict[str, Any] = {
            "op": "admit",
            "replica": self._replica,
            "conditions": sorted(conditions),
            "fixed": sorted(fixed),
            "call": self.call,
        }
        if self._budget:
            caps = {name: cap for name, cap in self._budget.items() if name != "reserve"}
            operation["budget"] = {"hour": current_hour(), "caps": caps, "reserve": self._budget["reserve"]}
        if prefer:
            operation["prefer"] = {group: list(values) for group, values in prefer.items()}
        if self._notes is not None:
            operation["note"] = dict(self._notes.describe_request())
        # Nothing has left the house yet: if a power cut takes this, it takes the request with it.
        done = await wait_for_store(self._ledger.submit(self._stream, operation, durable=False))
        self.number = done.number
        return _stored_admission(done.answer["admission"], done.number, self.call)

    @blocks
    async def complete(self, admission: Admission, values: Mapping[str, str | None]) -> ItemOutcome:
        """As ``Enforcer.complete``, durably.

        Raises:
            StoreError: the store failed, or the request was given up meanwhile; the item must not be delivered.
        """
        if self.withdrawn:
            return await call(self.fail, admission)
        return await self._submit_outcome(admission, {"op": "complete", "values": dict(values)})

    @blocks
    async def fail(self, admission: Admission) -> ItemOutcome:
        """Fail a request, as ``Enforcer.fail``, durably."""
        final = {"final": True, "withdrawn": True} if self.withdrawn else {}
        return await self._submit_outcome(admission, {"op": "fail", **final})

    async def _submit_outcome(self, admission: Admission, operation: dict[str, Any]) -> ItemOutcome:
        assert isinstance(admission, StoredAdmission)
        if self._notes is not None:
            operation["note"] = dict(self._notes.describe_item(admission.must))
            operation |= self._notes.unlogged_cost()
        # With its call: should the store have lost the admission in a crash, another one may have got its number.
        known = {"admission": admission.number, "call": admission.call}
        try:
            done = await wait_for_store(self._ledger.submit(self._stream, {**operation, **known}))
        except DecisionError as error:
            if error.code != "unknown-id":
                raise
            raise StoreError("this request was given up meanwhile: its replica was silent", hint="ask again") from None
        if self._notes is not None:
            self._notes.unlogged = 0.0
        outcome = done.answer["outcome"]
        again = None
        if outcome["admission"] is not None:
            again = _stored_admission(outcome["admission"], admission.number, admission.call)
        return ItemOutcome(outcome["status"], again, outcome["reason"], outcome["slots"])


def current_hour() -> int:
    """Return the hour since 1970, by which spending is counted."""
    return int(time.time()) // SECONDS


def cost_entries(cost: float) -> dict[str, int]:
    """Return the cost fields of an operation; empty without a cost."""
    return {"cost": to_micro(cost), "hour": current_hour()} if cost else {}


async def wait_for_store(future: Future[OperationResult]) -> OperationResult:
    """Wait for the result of an operation."""
    return future.result() if is_blocking() else await asyncio.wrap_future(future)


def _stored_admission(described: Mapping[str, Any], number: int, call: str) -> StoredAdmission:
    admission = Admission.from_dict(described)
    return StoredAdmission(
        **{field.name: getattr(admission, field.name) for field in fields(admission)}, number=number, call=call
    )


# What the log keeps of requests beside what decides: prompts, if it may, and items by their hash.


def sha256_hex(data: str | bytes) -> str:
    """Compute the SHA-256 digest of a text or of bytes, for the log."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


class LogMetadata:
    """Of one request.

    Args:
        prompt: as the user wrote it.
        route: by which it came.
        log_prompts: whether the log may have the prompt; else it has its hash, from which a prompt can be told that
            somebody guesses.
        instruct: what puts words into prompts.

    Attributes:
        attempt: the last item that was asked for; None: none was.
        unlogged: what attempts cost that no entry of the log has yet.
    """

    def __init__(self, prompt: str, *, route: str, log_prompts: bool, instruct: InstructionWriter) -> None:
        self._prompt, self._instruct = prompt, instruct
        self._route, self._log_prompts = route, log_prompts
        self.attempt: ItemAttempt | None = None
        self.unlogged = 0.0

    def watch(self, attempt: ItemAttempt) -> None:
        """Describe this attempt from now on."""
        self.attempt = attempt
        self.unlogged += attempt.cost

    def unlogged_cost(self) -> dict[str, int]:
        """Return the cost fields for costs that are not logged yet."""
        return cost_entries(self.unlogged)

    def describe_request(self) -> Mapping[str, Any]:
        """Describe the request."""
        return {"route": self._route, **self._logged_prompts()}

    def describe_item(self, must: Instruction) -> Mapping[str, Any]:
        """Describe the item: the clause added to the prompt, and the item's hash."""
        note: dict[str, Any] = {**self._logged_prompts(), "clause": self._instruct.clause(must)}
        if self._log_prompts:
            sent = "" if self.attempt is None else self.attempt.prompt
            note["sent"] = sent or self._instruct(self._prompt, must) if must else self._prompt
        item = None if self.attempt is None else self.attempt.item
        if item is not None:
            note["item"] = {"sha256": sha256_hex(item.data), "media_type": item.media_type, "bytes": len(item.data)}
        return note

    def reason(self, said: str) -> str:
        """Redact a reason for the log. Messages of services may contain the prompt or a key."""
        return SecretRedactor()(said if self._log_prompts else said.replace(self._prompt, "[prompt]"))

    def _logged_prompts(self) -> dict[str, Any]:
        return {"prompt": self._prompt} if self._log_prompts else {"prompt_sha256": sha256_hex(self._prompt)}


# Operations that the store could not take, for when it is back.


RETRY_SECONDS = 1.0
"""Between two attempts."""

MAX_WAITING = 10_000
"""Records that are remembered; of further ones only their number is."""


class RetryQueue:
    """Carries out operations in the end that no caller waits for.

    Args:
        ledger: the store.
        stream: the name of the stream that they are for.
    """

    def __init__(self, ledger: Ledger, stream: str) -> None:
        self._ledger, self._stream = ledger, stream
        self._left: deque[Operation] = deque()
        self._lost = 0
        self._lock = threading.Lock()
        self._thread = PeriodicThread("evenhand-leftovers", self._try, RETRY_SECONDS)
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of operations that the store has not taken."""
        return len(self._left)

    def submit(self, operation: Operation) -> Future[OperationResult] | None:
        """Queue an operation, to be carried out now or later; it must be safe to carry out twice.

        Returns:
            what comes of the first attempt; None if it failed at once.
        """
        try:
            asked = self._ledger.submit(self._stream, operation, durable=False)
        except StoreError:
            self._keep(operation)
            return None

        def done(future: Future[OperationResult]) -> None:
            if isinstance(future.exception(), StoreError):
                self._keep(operation)

        asked.add_done_callback(done)
        return asked

    def close(self) -> None:
        """Try once more, and stop."""
        self._closed = True
        self._thread.stop()
        self._try()

    def _keep(self, operation: Operation) -> None:
        with self._lock:
            # What gives up an admission must come: it would be open for ever.
            if operation.get("op") == "record" and len(self._left) >= MAX_WAITING:
                self._lost += 1
            else:
                self._left.append(operation)
            if not self._closed and not self._thread.is_started:
                self._thread.start()

    def _try(self) -> None:
        """Have the store take what is left, as long as it does."""
        while self._left:
            try:
                self._ledger.submit(self._stream, self._left[0]).result()
            except StoreError:
                return
            except EvenhandError:
                pass  # Carried out before, as far as it makes sense.
            self._left.popleft()
        with self._lock:
            lost, self._lost = self._lost, 0
        if lost:
            note: dict[str, Any] = {"what": "lost", "records": lost}
            self.submit({"op": "record", "note": note})
