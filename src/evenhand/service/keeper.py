"""The enforcer in the store, as the guard of a generator sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from evenhand.genai.core import Admission, Outcome
from evenhand.service.store.ledger import Ledger


@dataclass(frozen=True)
class Numbered(Admission):
    """An admission that is open in the store under a number."""

    number: int


class LedgerKeeper:
    """Admits and completes durably; every replica of the service has one for each guarded generator.

    Args:
        ledger: the store.
        stream: the guard's name.
        replica: this process's name, under which admissions are open.
    """

    def __init__(self, ledger: Ledger, stream: str, replica: str) -> None:
        self._ledger, self._stream, self._replica = ledger, stream, replica

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
        operation: dict[str, Any] = {
            "op": "admit",
            "replica": self._replica,
            "conditions": sorted(conditions),
            "fixed": sorted(fixed),
        }
        if prefer:
            operation["prefer"] = {group: list(values) for group, values in prefer.items()}
        # Nothing has left the house yet: if a power cut takes this, it takes the request with it.
        done = self._ledger.submit(self._stream, operation, durable=False).result()
        return _numbered(done.answer["admission"], done.number)

    def complete(self, admission: Admission, values: Mapping[str, str | None]) -> Outcome:
        """As ``Enforcer.complete``, durably."""
        return self._judged(admission, {"op": "complete", "values": dict(values)})

    def fail(self, admission: Admission) -> Outcome:
        """As ``Enforcer.fail``, durably."""
        return self._judged(admission, {"op": "fail"})

    def _judged(self, admission: Admission, operation: dict[str, Any]) -> Outcome:
        assert isinstance(admission, Numbered)
        done = self._ledger.submit(self._stream, {**operation, "admission": admission.number}).result()
        outcome = done.answer["outcome"]
        again = None if outcome["admission"] is None else _numbered(outcome["admission"], admission.number)
        return Outcome(outcome["status"], again, outcome["reason"], outcome["slots"])


def _numbered(described: Mapping[str, Any], number: int) -> Numbered:
    admission = Admission.from_dict(described)
    return Numbered(**{one.name: getattr(admission, one.name) for one in fields(admission)}, number=number)
