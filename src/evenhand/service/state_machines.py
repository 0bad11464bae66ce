"""State machines of keys, shields and guards. They apply operations in order, and do no I/O."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from evenhand.errors import DecisionError
from evenhand.genai.enforcement.enforcer import ADMISSION, Admission, Enforcer, ItemOutcome
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.runtime.shield import Shield

Operation: TypeAlias = Mapping[str, Any]
"""JSON-serialisable operation: ``{"op": NAME, ...}``."""


class StateMachine(ABC):
    """Deterministic state machine: equal states, operations and numbers give equal outputs on any computer.

    Replays of logs depend on this. Machines do not read a clock, and seed random draws with the number of the entry.

    Attributes:
        kind: Kind of the machine: ``shield``, ``guard``, ``monitor`` or ``keys``.
        digest: Digest of the policy or configuration.
        configuration: Configuration from which the machine can be rebuilt. The first entry of a log stores it.
        needs_saving: Whether the state should be saved now. Large states are restored from the log instead.
    """

    needs_saving = True
    kind: str
    digest: str
    configuration: Mapping[str, Any]

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the JSON-serialisable state."""

    @abstractmethod
    def load(self, state: Mapping[str, Any]) -> None:
        """Load a state that `state` returned.

        Raises:
            DecisionError: The state does not belong to this machine.
        """

    @abstractmethod
    def counts(self) -> Mapping[str, Any]:
        """Return the counters that the log records before each operation."""

    @abstractmethod
    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        """Apply an operation, and return the output for the caller and the log.

        Args:
            operation: Operation.
            number: Number of its entry in the log, from 1.

        Raises:
            DecisionError, OptionError: The operation is invalid; nothing changed.
        """

    def holders(self, state: Mapping[str, Any]) -> Collection[str]:
        """Return the replicas that have open work in a state. If a replica dies, its work is abandoned.

        The result depends on the argument only, and the method is thread-safe.
        """
        return ()

    def plan_ahead(
        self, state: Mapping[str, Any] | None = None, operation: Operation | None = None
    ) -> Callable[[], None] | None:
        """Return a function that computes the plan of the next operation, or None if no plan is missing.

        The function may run in any thread, outside transactions. The machine must not be used meanwhile.

        Args:
            state: State to be loaded before the next operation. If None, the machine continues from its own.
            operation: The next operation. If None, it is a decision.
        """
        return None


GENESIS_HASH = "0" * 64
"""Previous hash of the first entry of a log.

Each entry has the hash of a list: the hash of the previous entry, the stream, the number from 0, the time in seconds
since 1970, and the canonical JSON text of the body. The log is therefore append-only.
"""

KEY_STREAM = "evenhand:keys"
"""Name of the stream. It is not a valid name for a shield or guard."""


class KeyMachine(StateMachine):
    """Hashes of API keys, keyed by their first characters.

    Operations, with times in seconds since 1970; ``at`` is the time of the request:

    - ``{"op": "add", "hash", "name", "scopes", "streams"?, "session"?, "expires", "at"}``: add a key, which may be
      limited to streams. A name may have several keys, so that keys can be rotated. ``session`` is the subject of a
      user who logged in at an identity provider; such a key is deleted after the session has ended.
    - ``{"op": "expire", "key", "expires", "at"}``: let a key expire at this time, or earlier.
    - ``{"op": "revoke", "key", "at"}``: revoke a key immediately and permanently.
    """

    kind = "keys"
    digest = hashlib.sha256(b"evenhand keys 1").hexdigest()

    def __init__(self) -> None:
        self.configuration: Mapping[str, Any] = {}
        self._keys: dict[str, dict[str, Any]] = {}

    def state(self) -> dict[str, Any]:
        return {"keys": {key: dict(about) for key, about in self._keys.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        self._keys = {key: dict(about) for key, about in state["keys"].items()}

    def counts(self) -> Mapping[str, Any]:
        return {"keys": len(self._keys)}

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        name = operation.get("op")
        if name == "add":
            return self._add(operation)
        if name == "expire":
            about = self._matching_keys(operation)
            if about["expires"] is None or operation["expires"] < about["expires"]:
                about["expires"] = operation["expires"]
            return {"key": operation["key"], "expires": about["expires"]}
        if name == "revoke":
            about = self._matching_keys(operation)
            if about["revoked"] is None:
                about["revoked"] = operation["at"]
            return {"key": operation["key"], "revoked": about["revoked"]}
        raise DecisionError(f"there is no operation {name!r}", code="operation", hint="add, expire, revoke")

    def _add(self, operation: Operation) -> dict[str, Any]:
        # Ended sessions are deleted, because new ones begin every day.
        self._keys = {
            name: about
            for name, about in self._keys.items()
            if "session" not in about or (about["revoked"] is None and about["expires"] > operation["at"])
        }
        key = key_identifier(operation["hash"])
        if key in self._keys:
            raise DecisionError(f"the key {key} already exists", code="repeated")
        names = ("hash", "name", "scopes", "expires", "streams", "session")
        fields = {name: operation[name] for name in names if name in operation}
        self._keys[key] = {**fields, "made": operation["at"], "revoked": None}
        return {"key": key}

    def _matching_keys(self, operation: Operation) -> dict[str, Any]:
        if operation["key"] not in self._keys:
            raise DecisionError(f"there is no key {operation['key']}", code="unknown-id")
        return self._keys[operation["key"]]


def key_identifier(digest: str) -> str:
    """Return the ID of a key: the first characters of its hash."""
    return digest[:12]


class ShieldMachine(Shield, StateMachine):
    """Shield as a machine of the service.

    Operations: ``{"op": "decide", "id", "group", "recommendation", "cost"?}`` and ``{"op": "label", "id", "label"}``.
    The state includes the certificate, so that readers need no policy.

    Args:
        policy, advisory: As for ``Shield``.
        configuration: Configuration of its plan, and whether it is advisory.
    """

    kind = "shield"

    def __init__(
        self, policy: ShieldPolicy | PeriodicShield, configuration: Mapping[str, Any], *, advisory: bool = False
    ) -> None:
        super().__init__(policy, advisory=advisory)
        # A log sorts names, but the order of the groups matters.
        self.configuration: Mapping[str, Any] = {**configuration, "groups": list(self.groups)}
        self.digest = self.policy_digest
        if advisory:
            # An advisory shield decides differently from an enforcing one with the same policy.
            self.digest = hashlib.sha256(f"advisory {self.policy_digest}".encode()).hexdigest()
        self._certificate = self.certificate().to_dict()

    def state(self) -> dict[str, Any]:
        return {"shield": super().state(), "certificate": self._certificate}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state["shield"])
        self._certificate = self.certificate().to_dict()

    def plan_ahead(
        self, state: Mapping[str, Any] | None = None, operation: Operation | None = None
    ) -> Callable[[], None] | None:
        if state is not None:
            return self.plan_decision(state["shield"]["course"])
        if operation is not None and operation.get("op") == "label":
            return self.plan_label(operation["id"], operation["label"])
        if self.step < self.horizon and self.prompt and not any(self.open):
            return None
        return self.plan_decision()

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        name = operation.get("op")
        if name == "decide":
            # IDs without labels are only kept in the store, so the shield's state stays as small as its counters.
            try:
                decision = self.decide(
                    operation["group"],
                    operation["recommendation"],
                    cost=operation.get("cost"),
                    id=operation["id"] if self.labelled else None,
                )
            except DecisionError as error:
                if error.code == "horizon":
                    error.hint = (
                        "serve the next run under a new name, or use a shield of kind dynamic, which has no last period"
                    )
                raise
            output: dict[str, Any] = {
                "decision": decision.decision,
                "intervened": decision.intervened,
                "reason": decision.reason.value,
                "guaranteed": decision.guaranteed,
            }
        elif name == "label":
            self.observe(operation["id"], operation["label"])
            output = {}
        else:
            raise DecisionError(f"there is no operation {name!r}", code="operation", hint="decide, label")
        self._certificate = self.certificate().to_dict()
        return {**output, "certificate": self._certificate}


MICRO = 1_000_000
"""Number of millionths in one unit of the currency."""

HOURS = 24
"""Number of hours that a daily budget covers."""

SECONDS = 3600


def to_micro(amount: float) -> int:
    """Convert an amount to millionths, rounded up."""
    return -int(-round(amount * MICRO, 3) // 1)


class SpendingTally:
    """Hourly spending of a guard on its generator, including amounts reserved for running requests.

    Amounts are integers in millionths of the currency, so that sums are exact and replays give equal results.

    Operations have ``cost`` and the ``hour`` since 1970. Admissions have a ``budget``: the ``hour``, the ``caps`` for
    ``hour`` and ``day``, and the ``reserve`` of the request until it is complete.
    """

    def __init__(self) -> None:
        self._by_hour: dict[int, int] = {}

    def state(self) -> list[list[int]]:
        """Return the JSON-serialisable spending of each hour."""
        return list(map(list, sorted(self._by_hour.items())))

    def load(self, state: Sequence[Sequence[int]]) -> None:
        """Load a state that ``state`` returned."""
        self._by_hour = {int(hour): int(cost) for hour, cost in state}

    def count(self, operation: Mapping[str, Any]) -> None:
        """Count the cost of an operation."""
        cost, hour = operation.get("cost", 0), operation.get("hour", 0)
        if cost:
            self._by_hour[hour] = self._by_hour.get(hour, 0) + cost
            latest = max(self._by_hour)
            self._by_hour = {past: spent for past, spent in self._by_hour.items() if past > latest - HOURS}

    def check(self, budget: Mapping[str, Any], reserved: int) -> None:
        """Check that the budget covers an admission.

        Args:
            budget: Budget of the admission.
            reserved: Amount reserved for running requests.

        Raises:
            DecisionError: A cap could be exceeded.
        """
        now = budget["hour"]
        for name, hours in (("hour", 1), ("day", HOURS)):
            cap = budget["caps"].get(name)
            # Return the spending of the last hours, including the current one.
            spent = sum(cost for hour, cost in self._by_hour.items() if now - hours < hour <= now)
            if cap is not None and spent + reserved + budget["reserve"] > cap:
                under_way = f" and {reserved / MICRO:g} is reserved for running requests" if reserved else ""
                so_far = f"{spent / MICRO:g} is spent{under_way}"
                raise DecisionError(
                    f"the budget of the {name}, {cap / MICRO:g}, does not cover the request: {so_far}",
                    code="budget",
                    hint=f"retry in the next hour, or raise {name} under budget of the guard",
                )


GUARD_OPERATIONS = ("admit", "complete", "fail", "abandon", "record")


@dataclass(frozen=True)
class _OpenAdmission:
    """Admission whose item is not known yet."""

    replica: str
    admission: Admission
    call: str | None
    reserve: int = 0


class GuardMachine(StateMachine):
    """Keeps the deadlines of a configuration and the open admissions.

    Operations:

    - ``{"op": "admit", "replica", "conditions", "fixed"?, "call"?}``: returns the ``admission``, which is open under
      the number of this entry, and under ``call`` if there is one.
    - ``{"op": "complete", "admission": NUMBER, "values", "final"?}`` and ``{"op": "fail", "admission": NUMBER,
      "final"?}``: return the ``outcome``. For a retry, the admission stays open. ``final`` uses up all further retries.
      ``call`` may replace ``admission``; if both are given, both must belong to the same admission.
    - ``{"op": "abandon", "replica"}``: fail all open admissions of a replica. ``{"op": "abandon", "call"}``: fail one
      admission if it is open.
    - ``{"op": "record"}``: change nothing, for the log only.

    Every operation may have a ``note`` for the log, and the spending ``cost`` in an ``hour``, which limits admissions
    with a ``budget`` (see ``SpendingTally``).

    Args:
        enforcer: Enforcer in its initial state.
        configuration: Configuration of the enforcer.
        digest: Digest of the configuration.
    """

    kind = "guard"

    def __init__(self, enforcer: Enforcer, configuration: Mapping[str, Any], digest: str) -> None:
        self.enforcer = enforcer
        self.configuration: Mapping[str, Any] = configuration
        self.digest = digest
        self._open: dict[int, _OpenAdmission] = {}
        self._spending = SpendingTally()

    @property
    def open(self) -> Mapping[int, Admission]:
        """Open admissions, by the number of their entry."""
        return {number: entry.admission for number, entry in self._open.items()}

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "rows": self.enforcer.state(),
            "open": [
                [number, key.replica, key.admission.to_dict(), key.call, *([key.reserve] if key.reserve else [])]
                for number, key in self._open.items()
            ],
        }
        spent = self._spending.state()
        return {**state, "spent": spent} if spent else state

    def load(self, state: Mapping[str, Any]) -> None:
        self.enforcer.restore(state["rows"])
        self._open = {
            number: _OpenAdmission(replica, ADMISSION.validate_python(admission), call, *reserve)
            for number, replica, admission, call, *reserve in state["open"]
        }
        self._spending.load(state.get("spent", ()))

    def holders(self, state: Mapping[str, Any]) -> Collection[str]:
        return {replica for _number, replica, *_ in state["open"]}

    def counts(self) -> Mapping[str, Any]:
        return self.enforcer.items_until_due()

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        name, owner = operation.get("op"), "call" if "call" in operation else "replica"
        required = {"admit": ("conditions", "replica"), "complete": ("values",), "abandon": (owner,)}
        for field in required.get(str(name), ()):
            if field not in operation:
                raise DecisionError(f"the operation {name!r} has no {field}", code="operation")
        # Draws among equally urgent values depend on the entry only, so that a replay draws the same.
        self.enforcer.random.seed(number)
        answer: dict[str, Any] = {}
        if name == "admit":
            answer = {"admission": self._admit_request(operation, number).to_dict()}
        elif name in ("complete", "fail"):
            answer = {"outcome": self._judge(operation).to_dict()}
        elif name == "abandon":
            owned = [number for number, key in self._open.items() if getattr(key, owner) == operation[owner]]
            answer = {"abandoned": {str(number): self._abandon(number).to_dict() for number in owned}}
        elif name != "record":
            raise DecisionError(f"there is no operation {name!r}", code="operation", hint=", ".join(GUARD_OPERATIONS))
        self._spending.count(operation)
        return answer

    def _admit_request(self, operation: Operation, number: int) -> Admission:
        call = operation.get("call")
        if call is not None and any(record.call == call for record in self._open.values()):
            raise DecisionError(
                f"the call {call!r} is already open", code="repeated", hint="use a unique name for each call"
            )
        budget = operation.get("budget")
        if budget is not None:
            self._spending.check(budget, sum(record.reserve for record in self._open.values()))
        admission = self.enforcer.admit(operation["conditions"], fixed=operation.get("fixed", ()))
        reserve = 0 if budget is None else int(budget["reserve"])
        self._open[number] = _OpenAdmission(operation["replica"], admission, call, reserve)
        return admission

    def _judge(self, operation: Operation) -> ItemOutcome:
        number = self._number(operation)
        record = self._open[number]
        values = operation["values"] if operation["op"] == "complete" else None
        admission, outcome = record.admission, self.enforcer.complete(record.admission, values)
        while operation.get("final") and outcome.admission is not None:
            admission = outcome.admission
            outcome = self.enforcer.complete(admission, values)
        if outcome.admission is None:
            del self._open[number]
        else:
            self._open[number] = replace(record, admission=outcome.admission)
        return outcome

    def _number(self, operation: Operation) -> int:
        call = operation.get("call")
        if "admission" in operation:
            # After a power cut, another admission may have this number, so the call is compared as well.
            record = self._open.get(operation["admission"])
            if record is not None and call in (None, record.call):
                return int(operation["admission"])
        elif call is not None:
            for number, record in self._open.items():
                if call == record.call:
                    return number
        name = operation.get("admission", call)
        raise DecisionError(f"admission {name!r} is not open", code="unknown-id")

    def _abandon(self, number: int) -> ItemOutcome:
        """Fail an admission and all of its retries."""
        outcome = self.enforcer.complete(self._open.pop(number).admission, None)
        while outcome.admission is not None:
            outcome = self.enforcer.complete(outcome.admission, None)
        return outcome
