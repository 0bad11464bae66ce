"""The smallest machine there is: it adds, keeps what is open by replica, and refuses what makes no sense."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from evenhand.errors import DecisionError
from evenhand.service import Ledger
from evenhand.service.state_machines import StateMachine


class Counting(StateMachine):
    """`add` an amount; `open` and `close` something by replica; `abandon` what a replica has open."""

    kind = "counting"

    def __init__(self, digest: str = "0" * 64) -> None:
        self.digest = digest
        self.configuration: Mapping[str, Any] = {"counts": True}
        self.total = 0
        self.open: dict[int, str] = {}

    def state(self) -> dict[str, Any]:
        return {"total": self.total, "open": {str(number): replica for number, replica in self.open.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        self.total = state["total"]
        self.open = {int(number): replica for number, replica in state["open"].items()}

    def holders(self, state: Mapping[str, Any]) -> set[str]:
        return set(state["open"].values())

    def before(self, operation: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"total": self.total}

    def apply(self, operation: Mapping[str, Any], number: int) -> dict[str, Any]:
        what = operation["op"]
        if what == "add":
            if operation["amount"] < 0:
                raise DecisionError("an amount is negative", code="amount")
            self.total += operation["amount"]
        elif what == "open":
            self.open[number] = operation["replica"]
        elif what == "close":
            if operation["opened"] not in self.open:
                raise DecisionError(f"{operation['opened']} is not open", code="unknown-id")
            del self.open[operation["opened"]]
        elif what == "abandon":
            left = [one for one, replica in self.open.items() if replica == operation["replica"]]
            for one in left:
                del self.open[one]
            return {"abandoned": left}
        else:
            raise DecisionError(f"there is no operation {what!r}", code="operation")
        return {"total": self.total, "number": number}


@contextmanager
def held(ledger: Ledger) -> Iterator[None]:
    """What is submitted meanwhile comes into one transaction."""
    begun, go = threading.Event(), threading.Event()

    def wait(_connection: object) -> None:
        begun.set()
        assert go.wait(30)

    errand = ledger.submit_work(wait)
    assert begun.wait(30)
    yield
    go.set()
    errand.result(30)
