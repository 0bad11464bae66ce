"""The enforcer of conditional fairness as a machine of the service: admissions, items, failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.errors import DecisionError
from evenhand.genai.core import Admission, Enforcer, Outcome
from evenhand.service.machines.machine import Operation


class GuardMachine:
    """Keeps the deadlines of a configuration, and the admissions whose items are not known yet.

    Operations, each answered as described:

    - ``{"op": "admit", "replica", "conditions", "fixed", "prefer"?}``: the ``admission``; it is open under the number
      of this entry.
    - ``{"op": "complete", "admission": NUMBER, "values"}`` and ``{"op": "fail", "admission": NUMBER}``: the
      ``outcome``; on a retry the admission stays open, as the outcome says.
    - ``{"op": "abandon", "replica"}``: a replica died; everything it had open has failed for good.

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
        self._open: dict[int, tuple[str, Admission]] = {}

    def state(self) -> dict[str, Any]:
        return {
            "rows": self.enforcer.state(),
            "open": [[number, replica, admission.to_dict()] for number, (replica, admission) in self._open.items()],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.enforcer.restore(state["rows"])
        self._open = {number: (replica, Admission.from_dict(one)) for number, replica, one in state["open"]}

    def before(self, operation: Operation) -> Mapping[str, Any]:
        return self.enforcer.remaining()

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        # Draws among equally urgent values depend on the entry alone, so that a replay draws the same.
        self.enforcer.reseed(number)
        what = operation.get("op")
        if what == "admit":
            admission = self.enforcer.admit(
                operation["conditions"], fixed=operation.get("fixed", ()), prefer=operation.get("prefer")
            )
            self._open[number] = (operation["replica"], admission)
            return {"admission": admission.to_dict()}
        if what in ("complete", "fail"):
            return {"outcome": _described(self._judge(operation))}
        if what == "abandon":
            left = [one for one, (replica, _admission) in self._open.items() if replica == operation["replica"]]
            return {"abandoned": {str(one): _described(self._give_up(one)) for one in left}}
        raise DecisionError(f"there is no operation {what!r}", code="operation", mend="admit, complete, fail, abandon")

    def _judge(self, operation: Operation) -> Outcome:
        number = operation["admission"]
        if number not in self._open:
            raise DecisionError(f"admission {number} is not under way", code="unknown-id")
        replica, admission = self._open[number]
        outcome = (
            self.enforcer.complete(admission, operation["values"])
            if operation["op"] == "complete"
            else self.enforcer.fail(admission)
        )
        if outcome.admission is None:
            del self._open[number]
        else:
            self._open[number] = (replica, outcome.admission)
        return outcome

    def _give_up(self, number: int) -> Outcome:
        """Fail an admission until no retry is left."""
        _replica, admission = self._open.pop(number)
        outcome = self.enforcer.fail(admission)
        while outcome.admission is not None:
            outcome = self.enforcer.fail(outcome.admission)
        return outcome


def _described(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "admission": None if outcome.admission is None else outcome.admission.to_dict(),
        "reason": outcome.reason,
        "slots": dict(outcome.slots),
    }
