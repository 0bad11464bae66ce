"""The enforcer of conditional fairness as a machine of the service: admissions, items, failures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evenhand.errors import DecisionError
from evenhand.genai.core import Admission, Enforcer, Outcome
from evenhand.service.machines.machine import Operation

OPERATIONS = ("admit", "complete", "fail", "abandon", "record")


@dataclass(frozen=True)
class _Open:
    """An admission whose item is not known yet."""

    replica: str
    admission: Admission
    call: str | None


class GuardMachine:
    """Keeps the deadlines of a configuration, and the admissions whose items are not known yet.

    Operations, each answered as described:

    - ``{"op": "admit", "replica", "conditions", "fixed"?, "prefer"?, "call"?}``: the ``admission``; it is open under
      the number of this entry, and under ``call`` where one is given.
    - ``{"op": "complete", "admission": NUMBER, "values", "final"?}`` and ``{"op": "fail", "admission": NUMBER,
      "final"?}``: the ``outcome``; on a retry the admission stays open, as the outcome says. ``final``: there will be
      no other attempt, whatever is left of them. ``call`` in place of ``admission`` names it by that; with both, both
      must be its own.
    - ``{"op": "abandon", "replica"}``: a replica died; everything it had open has failed for good. ``{"op": "abandon",
      "call"}``: the same of one admission, if it is open.
    - ``{"op": "record"}``: nothing; it is there for what the log is to keep.

    Every operation may carry a ``note``, which decides nothing.

    Args:
        enforcer: at its beginning.
        configuration: of the enforcer, as it was read.
        digest: of the configuration.
    """

    kind = "guard"

    def __init__(self, enforcer: Enforcer, configuration: Mapping[str, Any], digest: str) -> None:
        self.enforcer = enforcer
        self.configuration = configuration
        self.digest = digest
        self._open: dict[int, _Open] = {}

    @property
    def open(self) -> Mapping[int, Admission]:
        """The admissions under way, by the number of their entry."""
        return {number: one.admission for number, one in self._open.items()}

    def state(self) -> dict[str, Any]:
        return {
            "rows": self.enforcer.state(),
            "open": [[number, one.replica, one.admission.to_dict(), one.call] for number, one in self._open.items()],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.enforcer.restore(state["rows"])
        self._open = {
            number: _Open(replica, Admission.from_dict(admission), call)
            for number, replica, admission, call in state["open"]
        }

    def holders(self, state: Mapping[str, Any]) -> Collection[str]:
        return {replica for _number, replica, *_ in state["open"]}

    def before(self, operation: Operation) -> Mapping[str, Any]:
        return self.enforcer.remaining()

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        # Draws among equally urgent values depend on the entry alone, so that a replay draws the same.
        self.enforcer.reseed(number)
        what = operation.get("op")
        if what == "admit":
            return {"admission": self._admit(operation, number).to_dict()}
        if what in ("complete", "fail"):
            return {"outcome": _described(self._judge(operation))}
        if what == "abandon":
            left = [one for one, found in self._open.items() if _concerned(operation, found)]
            return {"abandoned": {str(one): _described(self._give_up(one)) for one in left}}
        if what == "record":
            return {}
        raise DecisionError(f"there is no operation {what!r}", code="operation", mend=", ".join(OPERATIONS))

    def _admit(self, operation: Operation, number: int) -> Admission:
        call = operation.get("call")
        if call is not None and any(one.call == call for one in self._open.values()):
            raise DecisionError(f"the call {call!r} is under way", code="repeated", mend="give every call its own name")
        admission = self.enforcer.admit(
            _of(operation, "conditions"), fixed=operation.get("fixed", ()), prefer=operation.get("prefer")
        )
        self._open[number] = _Open(_of(operation, "replica"), admission, call)
        return admission

    def _judge(self, operation: Operation) -> Outcome:
        number = self._number(operation)
        found = self._open[number]
        values = _of(operation, "values") if operation["op"] == "complete" else None
        admission, outcome = found.admission, self._said(found.admission, values)
        while operation.get("final") and outcome.admission is not None:
            admission = outcome.admission
            outcome = self._said(admission, values)
        if outcome.admission is None:
            del self._open[number]
        else:
            self._open[number] = replace(found, admission=outcome.admission)
        return outcome

    def _said(self, admission: Admission, values: Mapping[str, str | None] | None) -> Outcome:
        return self.enforcer.fail(admission) if values is None else self.enforcer.complete(admission, values)

    def _number(self, operation: Operation) -> int:
        call = operation.get("call")
        if "admission" in operation:
            # A power cut may have taken an admission, and another one has its number: with its call it is told apart.
            found = self._open.get(operation["admission"])
            if found is not None and call in (None, found.call):
                return int(operation["admission"])
        elif call is not None:
            for number, one in self._open.items():
                if call == one.call:
                    return number
        name = operation.get("admission", call)
        raise DecisionError(f"admission {name!r} is not under way", code="unknown-id")

    def _give_up(self, number: int) -> Outcome:
        """Fail an admission until no retry is left."""
        outcome = self.enforcer.fail(self._open.pop(number).admission)
        while outcome.admission is not None:
            outcome = self.enforcer.fail(outcome.admission)
        return outcome


def _concerned(operation: Operation, found: _Open) -> bool:
    if "call" in operation:
        return bool(found.call == operation["call"])
    return bool(found.replica == _of(operation, "replica"))


def _of(operation: Operation, name: str) -> Any:
    if name not in operation:
        raise DecisionError(f"the operation {operation.get('op')!r} has no {name}", code="operation")
    return operation[name]


def _described(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "admission": None if outcome.admission is None else outcome.admission.to_dict(),
        "reason": outcome.reason,
        "slots": dict(outcome.slots),
    }
