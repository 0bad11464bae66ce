"""A shield as a machine of the service: decisions and labels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from evenhand.errors import DecisionError
from evenhand.service.machines.machine import Operation
from evenhand.shield.runtime import Shield


class ShieldMachine:
    """Decides by a policy.

    Operations: ``{"op": "decide", "id", "group", "recommendation", "cost"?}`` and ``{"op": "label", "id", "label"}``.
    ``{"op": "unguarded", "id", "group", "recommendation", "cost"?}`` changes nothing: it has the log tell what passed
    while the store was away; ``{"op": "unguarded", "missing": NUMBER}``: how many more did that nothing is known of.

    The state has the certificate beside the shield's own: who only looks needs no policy.

    Args:
        shield: at its beginning.
        configuration: of its plan, and whether it is advisory.
    """

    kind = "shield"

    def __init__(self, shield: Shield, configuration: Mapping[str, Any]) -> None:
        self.shield = shield
        # A log sorts names, and the order of the groups counts.
        self.configuration = {**configuration, "groups": list(shield.groups)}
        self._labelled = shield.needs_ids

    @property
    def digest(self) -> str:
        return self.shield.digest

    def state(self) -> dict[str, Any]:
        return {"shield": self.shield.state(), "certificate": self.shield.certificate().to_dict()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.shield.load(state["shield"])

    def holders(self, state: Mapping[str, Any]) -> Collection[str]:
        return ()

    def ahead(self, state: Mapping[str, Any] | None = None) -> Callable[[], None] | None:
        return self.shield.ahead(None if state is None else state["shield"])

    def before(self, operation: Operation) -> Mapping[str, Any]:
        return self.shield.counters()

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        what = operation.get("op")
        if what == "decide":
            # Ids that need no label are kept by the store alone: the shield's state stays as small as its counters.
            try:
                made = self.shield.decide(
                    operation["group"],
                    operation["recommendation"],
                    cost=operation.get("cost"),
                    id=operation["id"] if self._labelled else None,
                )
            except DecisionError as error:
                if error.code == "horizon":
                    error.mend = "serve the next run under a new name; a shield of kind dynamic needs none, and goes on"
                raise
            return {
                "decision": made.decision,
                "intervened": made.intervened,
                "reason": made.reason.value,
                "guaranteed": made.guaranteed,
                "certificate": self.shield.certificate().to_dict(),
            }
        if what == "label":
            self.shield.observe(operation["id"], operation["label"])
            return {"certificate": self.shield.certificate().to_dict()}
        if what == "unguarded":
            return {} if "missing" in operation else unguarded(operation)
        raise DecisionError(f"there is no operation {what!r}", code="operation", mend="decide, label, unguarded")


def unguarded(operation: Operation) -> dict[str, Any]:
    """The answer while the store is away: the recommendation, and that no shield has seen it."""
    return {
        "decision": operation["recommendation"],
        "intervened": False,
        "reason": "unguarded",
        "guaranteed": False,
        "guarded": False,
        "certificate": None,
    }
