"""A shield as a machine of the service: decisions and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.errors import DecisionError
from evenhand.service.machines.machine import Operation
from evenhand.shield.runtime import Shield


class ShieldMachine:
    """Decides by a policy.

    Operations: ``{"op": "decide", "id", "group", "recommendation", "cost"?}`` and ``{"op": "label", "id", "label"}``.

    Args:
        shield: at its beginning.
        configuration: of its plan, and whether it is advisory.
    """

    kind = "shield"

    def __init__(self, shield: Shield, configuration: Mapping[str, Any]) -> None:
        self.shield = shield
        self.configuration = configuration
        self._labelled = shield.needs_ids

    @property
    def digest(self) -> str:
        return self.shield.digest

    def state(self) -> dict[str, Any]:
        return self.shield.state()

    def load(self, state: Mapping[str, Any]) -> None:
        self.shield.load(state)

    def before(self, operation: Operation) -> Mapping[str, Any]:
        return self.shield.counters()

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        what = operation.get("op")
        if what == "decide":
            # Ids that need no label are kept by the store alone: the shield's state stays as small as its counters.
            made = self.shield.decide(
                operation["group"],
                operation["recommendation"],
                cost=operation.get("cost"),
                id=operation["id"] if self._labelled else None,
            )
            return {
                "decision": made.decision,
                "intervened": made.intervened,
                "reason": made.reason.value,
                "certificate": self.shield.certificate().to_dict(),
            }
        if what == "label":
            self.shield.observe(operation["id"], operation["label"])
            return {"certificate": self.shield.certificate().to_dict()}
        raise DecisionError(f"there is no operation {what!r}", code="operation", mend="one of: decide, label")
