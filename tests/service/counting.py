"""The smallest machine there is: it adds, keeps what is open by replica, and refuses what makes no sense."""

import threading
from contextlib import contextmanager

from evenhand.errors import DecisionError
from evenhand.service.state_machines import StateMachine


class Counting(StateMachine):
    """`add` an amount; `open` and `close` something by replica; `abandon` what a replica has open."""

    kind = "counting"

    def __init__(self, digest="0" * 64):
        self.digest = digest
        self.configuration = {"counts": True}
        self.total = 0
        self.open = {}

    def state(self):
        return {"total": self.total, "open": {str(number): replica for number, replica in self.open.items()}}

    def load(self, state):
        self.total = state["total"]
        self.open = {int(number): replica for number, replica in state["open"].items()}

    def holders(self, state):
        return set(state["open"].values())

    def counts(self):
        return {"total": self.total}

    def apply(self, operation, number):
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
def held(ledger):
    """What is submitted meanwhile comes into one transaction."""
    begun, go = threading.Event(), threading.Event()

    def wait(_connection):
        begun.set()
        assert go.wait(30)

    errand = ledger.submit_work(wait)
    assert begun.wait(30)
    yield
    go.set()
    errand.result(30)
