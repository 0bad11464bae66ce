"""The enforcer of a guard, whose state is in the store."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter

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


STORED_ADMISSION = TypeAdapter(StoredAdmission)


class StoredEnforcer:
    """Admits and completes one request durably, in any replica of the service.

    Args:
        ledger: Ledger of the store.
        stream: Name of the guard.
        replica: Name of this process, under which admissions are open.
        prompt: Prompt of the user.
        route: Route of the request.
        log_prompts: Whether to log the prompt. Otherwise, its hash is logged, which confirms a guessed prompt.
        instruct: Writer of the instructions in prompts. If None, the default one.
        call: Name of the call, under which its admissions are stored. Default: a unique name.
        budget: Maximum cost of a request (``reserve``), and ``caps`` by name (``hour``, ``day``), in millionths. None
            disables them.

    Attributes:
        call: Name of the open admission. A caller that does not know whether it is open can abandon it by this name.
        number: Number of the last admission. None if there was none.
        withdrawn: Whether the caller no longer waits. Later items are not counted as shown.
        request: Description of the request for the log.
        attempt: Attempt at the last requested item. None if there was none.
        unlogged: Cost of attempts that is not logged yet.
    """

    def __init__(
        self,
        ledger: Ledger,
        stream: str,
        replica: str,
        *,
        prompt: str = "",
        route: str = "python",
        log_prompts: bool = False,
        instruct: InstructionWriter | None = None,
        call: str | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> None:
        self._ledger, self._stream, self._replica, self._budget = ledger, stream, replica, budget
        self._prompt, self._instruct, self._log_prompts = prompt, instruct or InstructionWriter(), log_prompts
        self._logged = {"prompt": prompt} if log_prompts else {"prompt_sha256": sha256_hex(prompt)}
        self.request = {"route": route, **self._logged}
        self._call = call
        self.call = call or ""
        self.number: int | None = None
        self.withdrawn = False
        self.attempt: ItemAttempt | None = None
        self.unlogged = 0.0

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
            "note": self.request,
        }
        if self._budget is not None:
            operation["budget"] = {"hour": current_hour(), **self._budget}
        # Nothing was delivered yet: a power cut that loses the admission also ends the request.
        result = await wait_for_store(self._ledger.submit(self._stream, operation, durable=False))
        self.number = result.number
        about = {"number": result.number, "call": self.call}
        return STORED_ADMISSION.validate_python({**result.answer["admission"], **about})

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
        operation |= {"note": self.describe_item(admission.must), **cost_entries(self.unlogged)}
        # The name of the call is included, because after a crash of the store its number may belong to another
        # admission.
        operation |= {"admission": admission.number, "call": admission.call}
        try:
            result = await wait_for_store(self._ledger.submit(self._stream, operation))
        except DecisionError as error:
            if error.code != "unknown-id":
                raise
            raise StoreError("the request was abandoned because its replica stopped responding", hint="retry") from None
        self.unlogged = 0.0
        outcome = result.answer["outcome"]
        retry = None
        if outcome["admission"] is not None:
            about = {"number": admission.number, "call": admission.call}
            retry = STORED_ADMISSION.validate_python({**outcome["admission"], **about})
        return ItemOutcome(outcome["status"], retry, outcome["reason"], outcome["slots"])

    def watch(self, attempt: ItemAttempt) -> None:
        """Use an attempt in later descriptions of the item."""
        self.attempt = attempt
        self.unlogged += attempt.cost

    def describe_item(self, must: Instruction) -> dict[str, Any]:
        """Describe the item: the clause added to the prompt, and the item's hash."""
        note: dict[str, Any] = {**self._logged, "clause": self._instruct.clause(must)}
        if self._log_prompts:
            sent = "" if self.attempt is None else self.attempt.prompt
            note["sent"] = sent or self._instruct(self._prompt, must) if must else self._prompt
        if self.attempt is not None and self.attempt.item is not None:
            note["item"] = describe_stored_item(self.attempt.item)
        return note

    def reason(self, message: str) -> str:
        """Redact a reason for the log. Messages of services may contain the prompt or a key."""
        return SecretRedactor()(message if self._log_prompts else message.replace(self._prompt, "[prompt]"))


def current_hour() -> int:
    """Return the hour since 1970, by which spending is counted."""
    return int(time.time()) // SECONDS


def cost_entries(cost: float) -> dict[str, int]:
    """Return the cost fields of an operation; empty without a cost."""
    return {"cost": to_micro(cost), "hour": current_hour()} if cost else {}


async def wait_for_store(future: Future[OperationResult]) -> OperationResult:
    """Wait for the result of an operation."""
    return future.result() if is_blocking() else await asyncio.wrap_future(future)


def sha256_hex(data: str | bytes) -> str:
    """Compute the SHA-256 digest of a text or of bytes, for the log."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


def describe_stored_item(item: Item) -> dict[str, Any]:
    """Describe an item for the log by its hash."""
    return {"sha256": sha256_hex(item.data), "media_type": item.media_type, "bytes": len(item.data)}
