"""Running shields, which make one decision after another in a few microseconds each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from sys import maxsize
from typing import Any, NamedTuple, NoReturn

from evenhand.errors import DecisionError
from evenhand.shields.policy.periodic import PeriodicShield
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.runtime.state import ShieldState

STATE_VERSION = 2
"""Version of the state format."""

_BINARY_VALUES = {0: 0, 1: 1}


class DecisionReason(StrEnum):
    """Reason for a decision."""

    words: str
    """Description of the reason."""

    FOLLOWED = "followed", "The recommendation is followed."
    ACCEPTED = (
        "accepted",
        "Accepted against the recommendation, to keep the bias within its bound at the least cost.",
    )
    REJECTED = (
        "rejected",
        "Rejected against the recommendation, to keep the bias within its bound at the least cost.",
    )
    WOULD_ACCEPT = "would-accept", "The recommendation is followed; a shield in force would have accepted."
    WOULD_REJECT = "would-reject", "The recommendation is followed; a shield in force would have rejected."

    def __new__(cls, value: str, words: str = "") -> DecisionReason:
        reason = str.__new__(cls, value)
        reason._value_, reason.words = value, words
        return reason


class Decision(NamedTuple):
    """Decision of a shield.

    Attributes:
        decision: 1 to accept, 0 to reject. In advisory mode always the recommendation.
        intervened: Whether the decision differs from the recommendation.
        reason: Reason for the decision.
        guaranteed: Whether the bound still holds (see `ShieldCertificate`). False in advisory mode.
    """

    decision: int
    intervened: bool
    reason: DecisionReason
    guaranteed: bool


def _build_decisions(advisory: bool, guaranteed: bool) -> tuple[Decision, ...]:
    """Build the result for each recommendation and decision once, for speed."""
    against = (
        (DecisionReason.WOULD_REJECT, DecisionReason.WOULD_ACCEPT)
        if advisory
        else (DecisionReason.REJECTED, DecisionReason.ACCEPTED)
    )
    return tuple(
        Decision(
            recommendation if advisory else decision,
            decision != recommendation and not advisory,
            DecisionReason.FOLLOWED if decision == recommendation else against[decision],
            guaranteed and not advisory,
        )
        for recommendation in (0, 1)
        for decision in (0, 1)
    )


class Shield(ShieldState):
    """Shield that decides on one individual after another and keeps the bias within its bound.

    A shield is not thread-safe, because each decision depends on all earlier ones. An error leaves the state unchanged.

    Args:
        policy: Synthesised shield, of one horizon or of periods.
        advisory: Whether to follow every recommendation and only count the interventions that an enforcing shield would
            make. Nothing is guaranteed then.

    Attributes:
        interventions: Number of decisions against the recommendation.
        cost: Sum of their costs.
    """

    def __init__(self, policy: ShieldPolicy | PeriodicShield, *, advisory: bool = False) -> None:
        super().__init__(policy)
        self.advisory = advisory
        self._group = {name: position for position, name in enumerate(self.groups)}
        self._largest = self.costs[-1]
        # The argument ``cost`` is optional if there is only one cost.
        self._only = self.costs[0] if len(self.costs) == 1 else None
        # Only properties with labels have pending IDs.
        self._wait = self.label_wait if self.labelled else maxsize
        self._decisions = (_build_decisions(advisory, False), _build_decisions(advisory, True))
        self._ids = DecisionIds()
        self.interventions = 0
        self.cost = 0.0

    def decide(self, group: str, recommendation: int, cost: float | None = None, id: Id | None = None) -> Decision:
        """Decide on an individual.

        Args:
            group: Name of the group.
            recommendation: Recommendation of the classifier, 1 to accept and 0 to reject.
            cost: Cost of an override. A cost between two costs of the plan is rounded up. Optional if the plan has a
                single cost.
            id: ID for the later label, a string or an integer. Required for equal opportunity. Repeated IDs are
                refused, within a period and while a label is open.

        Raises:
            DecisionError: An argument is invalid, or the horizon has been reached; nothing changed.
        """
        try:
            position = self._group[group]
            recommended = _BINARY_VALUES[recommendation]
            if cost is None:
                price = self._only
                if price is None:
                    self._refuse_input(group, recommendation, cost)
            else:
                price = float(cost)
                if not 0.0 <= price <= self._largest:
                    self._refuse_input(group, recommendation, cost)
        except (KeyError, TypeError, ValueError):
            self._refuse_input(group, recommendation, cost)
        if id is not None:
            self._ids.check(id)
        elif self.labelled:
            raise DecisionError("a decision without an id cannot receive its label later", code="id", hint="pass an id")
        code = self._decide(position, recommended, price)
        if id is not None:
            pending = self._ids.pending
            pending[id] = code
            if len(pending) > self._wait:
                # A decision with label 0 is not counted.
                self._observe(self._ids.expire_oldest(), 0)
                self.expired_labels += 1
        # The two lowest bits are recommendation and decision: they differ where the shield intervened.
        if (code ^ code >> 1) & 1:
            self.interventions += 1
            self.cost += price
        return self._decisions[self.has_guarantee][code & 3]

    def observe(self, id: Id, label: int) -> None:
        """Record the true label of a decision: 1 if acceptance was correct.

        Raises:
            DecisionError: The property needs no labels, no decision has this ID, its label is known or expired, or the
                label is not 0 or 1; nothing changed.
        """
        if not self.labelled:
            raise DecisionError("this shield's property does not depend on labels", code="label", hint="omit the label")
        code, value = self._ids.find_pending(id, label)
        self._observe(code, value)
        self._ids.settle(id, value)

    def plan_ahead(
        self, state: Mapping[str, Any] | None = None, *, label: tuple[Id, int] | None = None
    ) -> Callable[[], None] | None:
        """Return a function that computes the missing plan of the next decision or label; None if nothing is missing.

        It may run in another thread while this shield is not used.

        Args:
            state: State to be loaded. If None, the shield continues from its own.
            label: ID and label to be observed next. If None, a decision is next.
        """
        if state is not None:
            return self._plan_decision(state["course"])
        if label is not None:
            code = self._ids.pending.get(label[0])
            return None if code is None or label[1] != 1 else self._plan_label(code)
        if self.step < self.horizon and not any(self.open) and self.prompt:
            return None
        return self._plan_decision(None)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values, for `load` and `restore`."""
        state = {
            "format": "evenhand-shield-state",
            "version": STATE_VERSION,
            "policy": self.digest,
            "advisory": self.advisory,
            "course": self.counts(),
            "interventions": self.interventions,
            "cost": self.cost,
            **({"expired": self.expired_labels} if self.expired_labels else {}),
            "ids": [*map(list, self._ids.settled.items()), *map(list, self._ids.pending.items())],
        }
        return {**state, "checksum": _state_checksum(state)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load a state of a shield with the same policy and mode.

        Raises:
            DecisionError: The state is invalid, damaged, or belongs to another policy or mode; nothing changed.
        """
        if not isinstance(state, Mapping) or state.get("format") != "evenhand-shield-state":
            _refused_state_error("this is not a state of a shield")
        if state.get("version") != STATE_VERSION:
            _refused_state_error(f"expected a state of version {STATE_VERSION}, got version {state.get('version')!r}")
        if state.get("policy") != self.digest:
            _refused_state_error(
                "the state belongs to another policy", "restore it with the policy that it was saved with"
            )
        if state.get("advisory") != self.advisory:
            _refused_state_error("the state was saved in another mode", "restore it with the same value of advisory")
        if state.get("checksum") != _state_checksum({key: value for key, value in state.items() if key != "checksum"}):
            _refused_state_error("the state is damaged: its checksum does not match its content")
        ids, course = state.get("ids"), state.get("course")
        counted, spent, expired = state.get("interventions"), state.get("cost"), state.get("expired", 0)
        if (
            not isinstance(ids, list)
            or not all(_is_log_entry(entry) for entry in ids)
            or not isinstance(course, Mapping)
        ):
            _refused_state_error("the state lacks `ids` or `course`")
        if counted.__class__ is not int or expired.__class__ is not int or not isinstance(spent, (int, float)):
            _refused_state_error("the state lacks the number or the cost of the interventions")
        self._restore_counts(course)
        self._ids = DecisionIds((key, code) for key, code in ids)
        self.interventions, self.cost, self.expired_labels = counted, float(spent), expired

    @classmethod
    def restore(cls, policy: ShieldPolicy | PeriodicShield, state: Mapping[str, Any]) -> Shield:
        """Build a shield in a saved state.

        Raises:
            DecisionError: As for `load`.
        """
        shield = cls(policy, advisory=isinstance(state, Mapping) and state.get("advisory") is True)
        shield.load(state)
        return shield

    def _begin_next_period(self) -> None:
        super()._begin_next_period()
        # IDs of the old period that do not await a label are discarded.
        self._ids.settled.clear()
        if not self.labelled:
            self._ids.pending.clear()

    def _refuse_input(self, group: object, recommendation: object, cost: object) -> NoReturn:
        """Raise the error for the first invalid argument."""
        names = ", ".join(self._group)
        if not isinstance(group, str) or group not in self._group:
            raise DecisionError(f"unknown group {group!r}", code="group", hint=f"one of {names}")
        try:
            valid = recommendation in _BINARY_VALUES
        except TypeError:
            valid = False
        if not valid:
            raise DecisionError(
                f"the recommendation {recommendation!r} is not 0 or 1", code="recommendation", hint="pass 0 or 1"
            )
        if cost is None:
            raise DecisionError(
                "the cost of an override is missing",
                code="cost",
                hint=f"this shield supports costs up to {self._largest:g}",
            )
        raise DecisionError(
            f"the cost {cost!r} is not a number from 0 to {self._largest:g}",
            code="cost",
            hint="pass a cost in the range of the plan",
        )


def _is_log_entry(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and entry[0].__class__ in (str, int)
        and entry[1].__class__ is int
        and entry[1] >= EXPIRED_CODE
    )


def _state_checksum(state: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(state, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()


def _refused_state_error(message: str, hint: str = "pass the unchanged result of Shield.state") -> NoReturn:
    raise DecisionError(message, code="state", hint=hint)


# IDs of decisions, and open labels.

Id = str | int

EXPIRED_CODE = -3
"""Code of a decision whose label expired; codes of known labels are -1 - label."""


class DecisionIds:
    """IDs of decisions, each with its code.

    Args:
        entries: IDs and codes in decision order.

    Attributes:
        pending: Codes of decisions that await a label, the oldest first; 0 or more.
        settled: Codes of decisions of this period whose label is known or expired, all negative.
    """

    def __init__(self, entries: Iterable[tuple[Id, int]] = ()) -> None:
        self.pending: dict[Id, int] = {}
        self.settled: dict[Id, int] = {}
        for key, code in entries:
            (self.pending if code >= 0 else self.settled)[key] = code

    def check(self, key: Id) -> None:
        """Check that an ID is new and can be stored in a file.

        Raises:
            DecisionError: The ID is neither a string nor an integer, or another decision has it.
        """
        if key.__class__ is not str and key.__class__ is not int:
            raise DecisionError(
                f"the id {key!r} is a {type(key).__name__}", code="id", hint="pass a text or a whole number"
            )
        if key in self.pending or key in self.settled:
            raise DecisionError(
                f"the id {key!r} already has a decision",
                code="repeated",
                hint="use the earlier decision; each id can only be decided once",
            )

    def find_pending(self, key: Id, label: object) -> tuple[int, int]:
        """Return the code of a decision, and its label as 0 or 1.

        Raises:
            DecisionError: No decision has this ID, its label is known or expired, or the label is not 0 or 1.
        """
        try:
            value = {0: 0, 1: 1}.get(label)  # type: ignore[call-overload]  # callers may pass anything
        except TypeError:
            value = None
        if value is None:
            raise DecisionError(f"the label {label!r} is not 0 or 1", code="label", hint="pass 0 or 1")
        try:
            code = self.pending.get(key, self.settled.get(key))
        except TypeError:
            code = None
        if code is None:
            raise DecisionError(
                f"no decision has the id {key!r}",
                code="unknown-id",
                hint="pass the id of a decision that this shield made and still remembers",
            )
        if code == EXPIRED_CODE:
            raise DecisionError(
                f"the label of {key!r} expired: too many decisions without a label followed it",
                code="expired",
                hint="raise `wait` under `labels` of the plan, the maximum number of decisions that await a label",
            )
        if code < 0:
            settled = -1 - code
            raise DecisionError(
                f"the label of {key!r} is known: {settled}"
                + ("" if settled == value else f"; the label {value} contradicts it"),
                code="repeated" if settled == value else "contradiction",
                hint="a label cannot be changed",
            )
        return code, value

    def settle(self, key: Id, label: int) -> None:
        """Record that the label of a decision is known."""
        del self.pending[key]
        self.settled[key] = -1 - label

    def expire_oldest(self) -> int:
        """Record that the oldest pending decision no longer awaits its label, and return its code."""
        key = next(iter(self.pending))
        self.settled[key] = EXPIRED_CODE
        return self.pending.pop(key)
