"""The enforcer in the store, as the guard of a generator sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol
from uuid import uuid4

from evenhand.errors import DecisionError, StoreError
from evenhand.genai.core import Admission, Must, Outcome
from evenhand.service.store.ledger import Ledger


@dataclass(frozen=True)
class Numbered(Admission):
    """An admission that is open in the store under a number, and the call that it belongs to."""

    number: int
    call: str


class Noting(Protocol):
    """What the log is to keep beside what decides; as JSON can hold it."""

    def asked(self) -> Mapping[str, Any]:
        """Of a request, when it is admitted."""
        ...

    def came(self, must: Must) -> Mapping[str, Any]:
        """Of its item, or of there being none, and of what had to be asked for."""
        ...


class LedgerKeeper:
    """Admits and completes one request durably, for whichever replica of the service.

    Args:
        ledger: the store.
        stream: the guard's name.
        replica: this process's name, under which admissions are open.
        notes: for the log.
        call: a name for its admissions; by default one that nobody else has.

    Attributes:
        call: under which its admissions are open too, until they are complete; whoever does not know whether there is
            one can give it up by this.
        number: of the last admission; None: there was none.
        withdrawn: set this once nobody waits for an item any more: those that come then are not counted as shown.
    """

    def __init__(
        self, ledger: Ledger, stream: str, replica: str, notes: Noting | None = None, *, call: str | None = None
    ) -> None:
        self._ledger, self._stream, self._replica = ledger, stream, replica
        self._notes = notes
        self._given = call
        self.call = call or ""
        self.number: int | None = None
        self.withdrawn = False

    def admit(
        self,
        conditions: Collection[str],
        *,
        fixed: Collection[str] = (),
        prefer: Mapping[str, Sequence[str]] | None = None,
    ) -> Numbered:
        """As ``Enforcer.admit``.

        Raises:
            StoreError: the store failed.
        """
        self.call = self._given or uuid4().hex
        operation: dict[str, Any] = {
            "op": "admit",
            "replica": self._replica,
            "conditions": sorted(conditions),
            "fixed": sorted(fixed),
            "call": self.call,
        }
        if prefer:
            operation["prefer"] = {group: list(values) for group, values in prefer.items()}
        if self._notes is not None:
            operation["note"] = dict(self._notes.asked())
        # Nothing has left the house yet: if a power cut takes this, it takes the request with it.
        done = self._ledger.submit(self._stream, operation, durable=False).result()
        self.number = done.number
        return _numbered(done.answer["admission"], done.number, self.call)

    def complete(self, admission: Admission, values: Mapping[str, str | None]) -> Outcome:
        """As ``Enforcer.complete``, durably.

        Raises:
            StoreError: the store failed, or the request was given up meanwhile; the item must not be delivered.
        """
        if self.withdrawn:
            return self._judged(admission, {"op": "fail", "final": True, "withdrawn": True})
        return self._judged(admission, {"op": "complete", "values": dict(values)})

    def fail(self, admission: Admission) -> Outcome:
        """As ``Enforcer.fail``, durably."""
        return self._judged(admission, {"op": "fail", **({"final": True, "withdrawn": True} if self.withdrawn else {})})

    def _judged(self, admission: Admission, operation: dict[str, Any]) -> Outcome:
        assert isinstance(admission, Numbered)
        if self._notes is not None:
            operation["note"] = dict(self._notes.came(admission.must))
        # With its call: should the store have lost the admission in a crash, another one may have got its number.
        known = {"admission": admission.number, "call": admission.call}
        try:
            done = self._ledger.submit(self._stream, {**operation, **known}).result()
        except DecisionError as error:
            if error.code != "unknown-id":
                raise
            raise StoreError("this request was given up meanwhile: its replica was silent", mend="ask again") from None
        outcome = done.answer["outcome"]
        again = None
        if outcome["admission"] is not None:
            again = _numbered(outcome["admission"], admission.number, admission.call)
        return Outcome(outcome["status"], again, outcome["reason"], outcome["slots"])


def _numbered(described: Mapping[str, Any], number: int, call: str) -> Numbered:
    admission = Admission.from_dict(described)
    return Numbered(**{one.name: getattr(admission, one.name) for one in fields(admission)}, number=number, call=call)
