"""The enforcer of a guard, whose state is in the store."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, fields
from typing import Any
from uuid import uuid4

from evenhand.core.coroutines import blocks, is_blocking
from evenhand.core.http import SecretRedactor
from evenhand.errors import DecisionError, StoreError
from evenhand.genai.backends.generator import Item
from evenhand.genai.enforcement.enforcer import Admission, Instruction, ItemOutcome
from evenhand.genai.enforcement.instructions import InstructionWriter
from evenhand.genai.enforcement.supply import ItemAttempt
from evenhand.service.spending import SECONDS, to_micro
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.transaction import OperationResult


@dataclass(frozen=True)
class StoredAdmission(Admission):
    """Admission that is open in the store.

    Attributes:
        number: Number of its entry.
        call: Name of its call.
    """

    number: int
    call: str


class StoredEnforcer:
    """Admits and completes one request durably, in any replica of the service.

    Args:
        ledger: Ledger of the store.
        stream: Name of the guard.
        replica: Name of this process, under which admissions are open.
        notes: Details for the log.
        call: Name of the call, under which its admissions are stored. Default: a unique name.
        budget: Maximum cost of a request (``reserve``) and caps (``hour``, ``day``) in millionths. None disables them.

    Attributes:
        call: Name of the open admission. A caller that does not know whether it is open can abandon it by this name.
        number: Number of the last admission. None if there was none.
        withdrawn: Whether the caller no longer waits. Later items are not counted as shown.
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
        self._call = call
        self.call = call or ""
        self.number: int | None = None
        self.withdrawn = False

    @blocks
    async def admit(
        self,
        conditions: Collection[str],
        *,
        fixed: Collection[str] = (),
    ) -> StoredAdmission:
        """Admit a request as ``Enforcer.admit`` does.

        Raises:
            StoreError: The store failed.
        """
        self.number = None
        self.call = self._call or uuid4().hex
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
        if self._notes is not None:
            operation["note"] = dict(self._notes.describe_request())
        # Nothing was delivered yet: a power cut that loses the admission also ends the request.
        result = await wait_for_store(self._ledger.submit(self._stream, operation, durable=False))
        self.number = result.number
        return _stored_admission(result.answer["admission"], result.number, self.call)

    @blocks
    async def complete(self, admission: Admission, values: Mapping[str, str | None] | None) -> ItemOutcome:
        """Complete a request durably, as ``Enforcer.complete`` does.

        Raises:
            StoreError: The store failed, or the request was abandoned; the item must not be delivered.
        """
        assert isinstance(admission, StoredAdmission)
        operation: dict[str, Any] = {"op": "fail"}
        if self.withdrawn:
            operation |= {"final": True, "withdrawn": True}
        elif values is not None:
            operation = {"op": "complete", "values": dict(values)}
        if self._notes is not None:
            operation["note"] = dict(self._notes.describe_item(admission.must))
            operation |= self._notes.unlogged_cost()
        # The name of the call is included, because after a crash of the store its number may belong to another
        # admission.
        operation |= {"admission": admission.number, "call": admission.call}
        try:
            result = await wait_for_store(self._ledger.submit(self._stream, operation))
        except DecisionError as error:
            if error.code != "unknown-id":
                raise
            raise StoreError("the request was abandoned because its replica stopped responding", hint="retry") from None
        if self._notes is not None:
            self._notes.unlogged = 0.0
        outcome = result.answer["outcome"]
        retry = None
        if outcome["admission"] is not None:
            retry = _stored_admission(outcome["admission"], admission.number, admission.call)
        return ItemOutcome(outcome["status"], retry, outcome["reason"], outcome["slots"])


def current_hour() -> int:
    """Return the hour since 1970, by which spending is counted."""
    return int(time.time()) // SECONDS


def cost_entries(cost: float) -> dict[str, int]:
    """Return the cost fields of an operation; empty without a cost."""
    return {"cost": to_micro(cost), "hour": current_hour()} if cost else {}


async def wait_for_store(future: Future[OperationResult]) -> OperationResult:
    """Wait for the result of an operation."""
    return future.result() if is_blocking() else await asyncio.wrap_future(future)


def _stored_admission(description: Mapping[str, Any], number: int, call: str) -> StoredAdmission:
    admission = Admission.from_dict(description)
    values = {field.name: getattr(admission, field.name) for field in fields(admission)}
    return StoredAdmission(**values, number=number, call=call)


def sha256_hex(data: str | bytes) -> str:
    """Compute the SHA-256 digest of a text or of bytes, for the log."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


def describe_stored_item(item: Item) -> dict[str, Any]:
    """Describe an item for the log by its hash."""
    return {"sha256": sha256_hex(item.data), "media_type": item.media_type, "bytes": len(item.data)}


class LogMetadata:
    """Details of one request for the log.

    Args:
        prompt: Prompt of the user.
        route: Route of the request.
        log_prompts: Whether to log the prompt. Otherwise, its hash is logged, which confirms a guessed prompt.
        instruct: Writer of the instructions in prompts.

    Attributes:
        attempt: Attempt at the last requested item. None if there was none.
        unlogged: Cost of attempts that is not logged yet.
    """

    def __init__(self, prompt: str, *, route: str, log_prompts: bool, instruct: InstructionWriter) -> None:
        self._prompt, self._instruct = prompt, instruct
        self._route, self._log_prompts = route, log_prompts
        self.attempt: ItemAttempt | None = None
        self.unlogged = 0.0

    def watch(self, attempt: ItemAttempt) -> None:
        """Use this attempt in later descriptions."""
        self.attempt = attempt
        self.unlogged += attempt.cost

    def unlogged_cost(self) -> dict[str, int]:
        """Return the cost fields for costs that are not logged yet."""
        return cost_entries(self.unlogged)

    def describe_request(self) -> Mapping[str, Any]:
        """Describe the request."""
        return {"route": self._route, **self._logged_prompt()}

    def describe_item(self, must: Instruction) -> Mapping[str, Any]:
        """Describe the item: the clause added to the prompt, and the item's hash."""
        note: dict[str, Any] = {**self._logged_prompt(), "clause": self._instruct.clause(must)}
        if self._log_prompts:
            sent = "" if self.attempt is None else self.attempt.prompt
            note["sent"] = sent or self._instruct(self._prompt, must) if must else self._prompt
        if self.attempt is not None and self.attempt.item is not None:
            note["item"] = describe_stored_item(self.attempt.item)
        return note

    def reason(self, message: str) -> str:
        """Redact a reason for the log. Messages of services may contain the prompt or a key."""
        return SecretRedactor()(message if self._log_prompts else message.replace(self._prompt, "[prompt]"))

    def _logged_prompt(self) -> dict[str, Any]:
        return {"prompt": self._prompt} if self._log_prompts else {"prompt_sha256": sha256_hex(self._prompt)}
