"""A shield at work: one decision after another, each a few microseconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

from evenhand.errors import DecisionError
from evenhand.shield.certificate import Certificate
from evenhand.shield.course import Course, FiniteCourse
from evenhand.shield.ids import LABELLED, Id, Ids
from evenhand.shield.periodic import Periodic
from evenhand.shield.periodic_course import PeriodicCourse
from evenhand.shield.policy import Policy
from evenhand.shield.several_course import SeveralCourse

VERSION = 1
"""Of the layout of a state."""

_BITS = {0: 0, 1: 1}


class Reason(StrEnum):
    """Why a decision is what it is; `words` says it for people."""

    FOLLOWED = "followed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    WOULD_ACCEPT = "would-accept"
    WOULD_REJECT = "would-reject"

    @property
    def words(self) -> str:
        """A sentence."""
        return {
            "followed": "The recommendation stands.",
            "accepted": "Accepted against the recommendation, to keep the bias within its bound at the least cost.",
            "rejected": "Rejected against the recommendation, to keep the bias within its bound at the least cost.",
            "would-accept": "The recommendation stands; a shield in force would have accepted.",
            "would-reject": "The recommendation stands; a shield in force would have rejected.",
        }[self.value]


class Decision(NamedTuple):
    """What a shield decided.

    Attributes:
        decision: 1 to accept, 0 to reject; in advisory mode always the recommendation.
        intervened: whether that is against the recommendation.
        reason: why.
        guaranteed: whether the bound still holds from here on (see `Certificate`); never in advisory mode.
    """

    decision: int
    intervened: bool
    reason: Reason
    guaranteed: bool


def _decisions(advisory: bool, guaranteed: bool) -> tuple[Decision, ...]:
    """One for each recommendation and decision, made once: nothing is built while a shield decides."""
    against = (Reason.WOULD_REJECT, Reason.WOULD_ACCEPT) if advisory else (Reason.REJECTED, Reason.ACCEPTED)
    return tuple(
        Decision(
            recommendation if advisory else decision,
            decision != recommendation and not advisory,
            Reason.FOLLOWED if decision == recommendation else against[decision],
            guaranteed and not advisory,
        )
        for recommendation in (0, 1)
        for decision in (0, 1)
    )


def course_of(policy: Policy | Periodic | Course) -> Course:
    """A course at its beginning: of one horizon, or of periods if the plan is for those."""
    if isinstance(policy, Policy):
        if len(policy.plan.inputs.groups) > 2 or policy.actions.form == "separate":
            return SeveralCourse(policy)
        if policy.plan.kind in ("finite", "feasible"):
            return FiniteCourse(policy)
        return PeriodicCourse(Periodic(policy.plan))
    return PeriodicCourse(policy) if isinstance(policy, Periodic) else policy


class Shield:
    """Decides on one individual after another so that the bias stays within its bound.

    It is not thread-safe: decisions come one after another anyway, as each depends on those before it. Whatever raises
    an error leaves the state as it was.

    Args:
        policy: a synthesised shield, of one horizon or of periods.
        advisory: let every recommendation stand, and count what the shield would have done had it been in force. Then
            nothing is guaranteed.
    """

    __slots__ = ("_codes", "_costs", "_course", "_decisions", "_group", "_ids", "_largest", "_needs_id", "_only",
                 "_period", "advisory", "cost", "interventions")  # fmt: skip

    def __init__(self, policy: Policy | Periodic | Course, *, advisory: bool = False) -> None:
        course = course_of(policy)
        self._course = course
        self.advisory = advisory
        self._group = {name: position for position, name in enumerate(course.groups)}
        self._costs = course.costs
        self._largest = course.costs[-1]
        # With one cost it need not be given.
        self._only = course.costs[0] if len(course.costs) == 1 else None
        self._needs_id = course.labelled
        self._decisions = (_decisions(advisory, False), _decisions(advisory, True))
        self._ids = Ids()
        self._codes = self._ids.codes
        self._period = course.period
        self.interventions = 0
        self.cost = 0.0

    def decide(self, group: str, recommendation: int, cost: float | None = None, id: Id | None = None) -> Decision:  # noqa: A002
        """Decide on one individual.

        Args:
            group: its group's name.
            recommendation: of the classifier, 1 to accept and 0 to reject.
            cost: of deciding otherwise; between two costs of the plan the larger one counts. It may be left out if the
                plan has a single one.
            id: a text or whole number under which its label comes later; needed for equal opportunity. A repeated one
                is refused, within a period and while its label is awaited.

        Raises:
            DecisionError: one of these makes no sense, or the horizon is past; nothing changed.
        """
        try:
            position = self._group[group]
            recommended = _BITS[recommendation]
            if cost is None:
                price = self._only
                if price is None:
                    self._refuse(group, recommendation, cost)
            else:
                price = float(cost)
                if not 0.0 <= price <= self._largest:
                    self._refuse(group, recommendation, cost)
        except (KeyError, TypeError, ValueError):
            self._refuse(group, recommendation, cost)
        if id is not None:
            self._ids.check(id)
        elif self._needs_id:
            raise DecisionError("a decision without an id cannot get its label later", code="id", mend="give an id")
        course = self._course
        code = course.decide(position, recommended, price)
        if course.period != self._period:
            self._turn()
        if id is not None:
            self._codes[id] = code
        if (code ^ code >> 1) & 1:
            self.interventions += 1
            self.cost += price
        return self._decisions[course.guaranteed][code & 3]

    def observe(self, id: Id, label: int) -> None:  # noqa: A002
        """The truth about an individual that was decided on: 1 if accepting it was right.

        Raises:
            DecisionError: the property needs no labels, nobody was decided on under this id, its label is known, or
                the label is neither 0 nor 1; nothing changed.
        """
        if not self._needs_id:
            raise DecisionError(
                "this shield's property does not depend on labels", code="label", mend="leave the label out"
            )
        code, given = self._ids.awaited(id, label)
        self._course.observe(code, given)
        self._codes[id] = -1 - given

    def certificate(self, *, exact: bool = False) -> Certificate:
        """What is guaranteed from here on, on which assumption.

        Args:
            exact: the smallest bound that is true, over everything that can still come; it may take seconds far from
                the end.

        Raises:
            LimitError: ``exact``, and the end is too far away.
        """
        found = self._course.certificate(exact=exact)
        return found.as_advice() if self.advisory else found

    @property
    def step(self) -> int:
        """Decisions made in this period."""
        return self._course.step

    @property
    def period(self) -> int:
        """Which period this is, from 0."""
        return self._period

    @property
    def digest(self) -> str:
        """Of the policy."""
        return self._course.digest

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, in the order of the plan."""
        return tuple(self._group)

    @property
    def needs_ids(self) -> bool:
        """Whether labels follow the decisions, so that each needs an id."""
        return self._needs_id

    def ahead(self, state: Mapping[str, Any] | None = None) -> Callable[[], None] | None:
        """What makes the plan that the next decision would wait for, as dynamic shields do in every period; else None.

        It may run in another thread; until it is done, this shield must not be used.

        Args:
            state: that will be loaded; by default the shield goes on from its own.
        """
        if not isinstance(self._course, PeriodicCourse):
            return None
        return self._course.ahead(None if state is None else state["course"])

    def counters(self) -> dict[str, Any]:
        """Where the run stands, for a log: the state without ids."""
        return self._course.state()

    def state(self) -> dict[str, Any]:
        """Everything that changes, for JSON: the same shield goes on from it elsewhere, or later."""
        state = {
            "format": "evenhand-shield-state",
            "version": VERSION,
            "policy": self._course.digest,
            "advisory": self.advisory,
            "course": self._course.state(),
            "interventions": self.interventions,
            "cost": self.cost,
            "ids": [list(entry) for entry in self._codes.items()],
        }
        return {**state, "checksum": _checksum(state)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up a state of a shield with the same policy and mode.

        Raises:
            DecisionError: it is none, it is damaged, or it belongs to another policy or mode; nothing changed.
        """
        if not isinstance(state, Mapping) or state.get("format") != "evenhand-shield-state":
            _no_state("this is no state of a shield")
        if state.get("version") != VERSION:
            _no_state(f"the state has version {state.get('version')!r}, and this is version {VERSION}")
        if state.get("policy") != self._course.digest:
            _no_state("the state belongs to another policy", "restore it with the policy that it was saved with")
        if state.get("advisory") != self.advisory:
            _no_state("the state was saved in another mode", "restore it with the same value of advisory")
        if state.get("checksum") != _checksum({key: value for key, value in state.items() if key != "checksum"}):
            _no_state("the state is damaged: its checksum is not that of its content")
        ids, course = state.get("ids"), state.get("course")
        counted, spent = state.get("interventions"), state.get("cost")
        if not isinstance(ids, list) or not all(_is_entry(entry) for entry in ids) or not isinstance(course, Mapping):
            _no_state("the state has no ids or no course")
        if counted.__class__ is not int or not isinstance(spent, (int, float)):
            _no_state("the state does not say how often the shield intervened, and at what cost")
        self._course.restore(course)
        self._ids = Ids((key, code) for key, code in ids)
        self._codes = self._ids.codes
        self._period = self._course.period
        self.interventions, self.cost = counted, float(spent)

    @classmethod
    def restore(cls, policy: Policy | Periodic | Course, state: Mapping[str, Any]) -> Shield:
        """A shield in a saved state.

        Raises:
            DecisionError: as for `load`.
        """
        shield = cls(policy, advisory=isinstance(state, Mapping) and state.get("advisory") is True)
        shield.load(state)
        return shield

    def _turn(self) -> None:
        """A new period: only decisions that await a label are remembered from the old one."""
        self._period = self._course.period
        if self._needs_id:
            self._ids.keep_awaited()
        else:
            self._ids = Ids()
        self._codes = self._ids.codes

    def _refuse(self, group: object, recommendation: object, cost: object) -> NoReturn:
        """Say which of them makes no sense."""
        names = ", ".join(self._group)
        if not isinstance(group, str) or group not in self._group:
            raise DecisionError(f"unknown group {group!r}", code="group", mend=f"one of {names}")
        try:
            known = recommendation in _BITS
        except TypeError:
            known = False
        if not known:
            raise DecisionError(
                f"the recommendation {recommendation!r} is not 0 or 1", code="recommendation", mend="give 0 or 1"
            )
        if cost is None:
            raise DecisionError(
                "the cost of deciding otherwise is not given",
                code="cost",
                mend=f"this shield was made for costs up to {self._largest:g}",
            )
        raise DecisionError(
            f"the cost {cost!r} is not a number from 0 to {self._largest:g}",
            code="cost",
            mend="give a cost in the range that the shield was made for",
        )


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and entry[0].__class__ in (str, int)
        and entry[1].__class__ is int
        and entry[1] >= min(LABELLED)
    )


def _checksum(state: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(state, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()


def _no_state(what: str, mend: str = "give what Shield.state returned, unchanged") -> NoReturn:
    raise DecisionError(what, code="state", mend=mend)
