"""The enforcer, which decides when a prompt must request values so that every deadline is kept.

The enforcer is a pure state machine. It calls no generator and reads no clock. Its state is one small row per
specification, which a store can keep. Threads may share an enforcer, since its operations are atomic.

The enforcer is least restrictive: a prompt is left unchanged unless an outcome would leave the states from which every
deadline can be kept. In mode ``before``, this is decided when a request is admitted, which also fixes its slot. A
pending item counts as showing nothing, or its promised value. In mode ``after``, an item is generated and classified
first. Then its slot is fixed. If the item would leave those states, it is generated again, with a promise. Deadlines
are kept in the order of slots.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evenhand.core.text import format_count
from evenhand.errors import DecisionError, OptionError
from evenhand.genai.classifiers.confusion import specification_success
from evenhand.genai.enforcement.component import OPEN_SLOT, VOID_ITEM, ComponentSolver, DeadlineTracker
from evenhand.genai.games.feasibility import check_feasibility, find_components
from evenhand.genai.games.retries import AttemptSuccess, bound_misses, choose_retries, split_specifications
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.stats.quantity import Unknown

if TYPE_CHECKING:
    from evenhand.genai.classifiers.confusion import ConfusionMatrix


EnforcerMode: TypeAlias = Literal["before", "after"]
Status: TypeAlias = Literal["ok", "retry", "violation"]

ENFORCER_MODES: tuple[EnforcerMode, ...] = ("before", "after")

Instruction: TypeAlias = Mapping[str, tuple[str, ...]]

REMEMBERED_REASONS = 20
"""Number of broken assumptions per specification whose reasons are stored. All are counted."""


@dataclass(frozen=True)
class Admission:
    """Admitted request, to be passed back with its item.

    Attributes:
        counts: Specifications that count the item.
        slots: Slot of the item by specification. Empty in mode ``after`` until the item is classified.
        must: Values that the prompt must request, by concept group. Any of them suffices. Empty if there are none.
        allowed: Values from which ``must`` was chosen.
        attempt: Number of earlier items that did not show the requested values.
    """

    counts: tuple[str, ...]
    slots: Mapping[str, int]
    must: Instruction
    allowed: Instruction
    attempt: int

    @property
    def reason(self) -> str:
        """Explanation of the required values. Empty if there are none."""
        several = (
            f"{group}: only {', '.join(values)} now lets every deadline be kept"
            for group, values in self.allowed.items()
        )
        return "; ".join(several)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        return {
            "counts": list(self.counts),
            "slots": dict(self.slots),
            "must": {group: list(values) for group, values in self.must.items()},
            "allowed": {group: list(values) for group, values in self.allowed.items()},
            "attempt": self.attempt,
            "reason": self.reason,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Admission:
        """Build from the result of ``to_dict``."""
        return cls(
            tuple(found["counts"]),
            dict(found["slots"]),
            {group: tuple(values) for group, values in found["must"].items()},
            {group: tuple(values) for group, values in found["allowed"].items()},
            int(found["attempt"]),
        )


@dataclass(frozen=True)
class ItemOutcome:
    """Decision about an item.

    Attributes:
        status: ``ok``: deliver the item; ``retry``: generate another one for ``admission``; ``violation``: deliver the
            item if there is one, although an assumption is broken.
        admission: Admission to pass back with the next attempt.
        reason: Explanation of a status other than ``ok``.
        slots: Slot of the item by specification. Deadlines are kept in the order of slots. Specifications for which the
            item is void are omitted.
    """

    status: Status
    admission: Admission | None = None
    reason: str = ""
    slots: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the item can be delivered without a violation."""
        return self.status == "ok"

    @property
    def must(self) -> Instruction:
        """Values that the next attempt must request, by concept group."""
        return {} if self.admission is None else self.admission.must


@dataclass(frozen=True)
class BrokenAssumption:
    """Broken assumption or missed deadline.

    Attributes:
        specification: Name of the specification.
        what: ``disobeyed``, ``unrecognised`` or ``failed`` after all retries; ``in-flight``: more concurrent requests
            than stated; ``missed``: a deadline.
        reason: Explanation.
    """

    specification: str
    what: str
    reason: str


class _SpecificationState:
    """State of one specification: its deadlines and counts."""

    def __init__(self, name: str, labels: tuple[str, ...], repeated: tuple[int, ...]) -> None:
        self.name = name
        self.labels = labels
        self.deadlines = DeadlineTracker(repeated)
        self.counts = {
            "asked": 0,
            "obeyed": 0,
            "disobeyed": 0,
            "unrecognised": 0,
            "failed": 0,
            "in-flight": 0,
            "missed": 0,
        }
        self.reasons: list[tuple[str, str]] = []

    def record_break(self, what: str, reason: str) -> None:
        self.counts[what] += 1
        self.reasons = [*self.reasons[1 - REMEMBERED_REASONS :], (what, reason)]

    def complete(self, slot: int, value: int) -> None:
        for k, due in self.deadlines.complete(slot, value):
            first = self.deadlines.due[k]
            since = f", and was due by item {first}" if first < due else ""
            self.record_break("missed", f"{self.labels[k]!r} did not appear by item {due}{since}")

    def state(self) -> dict[str, Any]:
        return {**self.deadlines.state(), "counts": dict(self.counts), "reasons": [list(one) for one in self.reasons]}

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            counts = {what: int(state["counts"][what]) for what in self.counts}
            reasons = [(str(what), str(reason)) for what, reason in state["reasons"]]
        except (KeyError, TypeError, ValueError):
            raise DecisionError("this is not a state of a specification", code="state", location=self.name) from None
        self.deadlines.restore(state)
        self.counts, self.reasons = counts, reasons


class Enforcer:
    """State machine that keeps every deadline of a configuration while its stated assumptions hold.

    Args:
        configuration: A ``GenerationConfig``, or the argument of ``GenerationConfig.read``.
        mode: ``before``: request values in the prompt where necessary; ``after``: classify items first, and repeat
            those that do not fit.
        seed: Seed of the choice among equally urgent values.
        retries: Maximum number of repetitions of an item that does not show the requested values. If None, that of the
            configuration.
        slack: Number of items by which deadlines are kept early, and thus of useless items that are tolerated. If None,
            that of the configuration.
        in_flight: 1 if every item is complete before the next request is admitted, which allows any value of a tight
            set. None for any number.

    Raises:
        OptionError: The configuration cannot be kept, or this is undecided. The reason names the values.
    """

    def __init__(
        self,
        configuration: GenerationConfig | Mapping[str, Any] | str,
        *,
        mode: EnforcerMode = "before",
        seed: int = 0,
        retries: int | None = None,
        slack: int | None = None,
        in_flight: int | None = None,
    ) -> None:
        read = configuration if isinstance(configuration, GenerationConfig) else GenerationConfig.read(configuration)
        if mode not in ENFORCER_MODES:
            raise OptionError(
                f"there is no mode {mode!r}", location="mode", hint=f"one of: {', '.join(ENFORCER_MODES)}"
            )
        self.configuration = read
        self.mode: EnforcerMode = mode
        self.retries = read.simulation.retries if retries is None else retries
        self.slack = read.simulation.slack if slack is None else slack
        for name, given in (("retries", self.retries), ("slack", self.slack)):
            if given < 0:
                raise OptionError(f"{name} must be 0 or more, not {given}", location=name)
        found = check_feasibility(read, slack=self.slack)
        if not found.feasible:
            raise OptionError(found.refusal, location="specifications", hint=found.hint)
        self.in_flight = in_flight
        self._alone = in_flight == 1
        self._random = Random(seed)
        self._lock = RLock()
        self._rows: dict[str, _SpecificationState] = {}
        self._plays: list[tuple[ComponentSolver, tuple[_SpecificationState, ...]]] = []
        for component in find_components(read):
            rows = tuple(
                _SpecificationState(one.name, one.labels, one.repeated or ()) for one in component.requirements
            )
            self._rows |= {row.name: row for row in rows}
            self._plays.append(
                (ComponentSolver(component, [row.deadlines for row in rows], self.slack, self._random), rows)
            )
        self._positions = {group: {name: k for k, name in enumerate(names)} for group, names in read.values.items()}
        self._known = frozenset(condition.name for condition in read.conditions)

    # ---- the state machine

    def admit(
        self,
        conditions: Collection[str],
        *,
        fixed: Collection[str] = (),
        prefer: Mapping[str, Sequence[str]] | None = None,
    ) -> Admission:
        """Admit a request: assign the slots of its item, and select the values that its prompt must request.

        Args:
            conditions: Names of the conditions that hold for the request.
            fixed: Concept groups whose value the prompt of the user fixes. The item does not count for them.
            prefer: Preferred values by concept group, best first.

        Raises:
            OptionError: A condition or a group is unknown.
        """
        with self._lock:
            return self._admit(conditions, fixed, prefer)

    def _admit(
        self,
        conditions: Collection[str],
        fixed: Collection[str],
        prefer: Mapping[str, Sequence[str]] | None,
    ) -> Admission:
        for condition in conditions:
            if condition not in self._known:
                known = ", ".join(sorted(self._known))
                raise OptionError(f"there is no condition {condition!r}", hint=f"one of: {known}")
        for group in fixed:
            if group not in self._positions:
                raise OptionError(f"there is no group {group!r}", hint=f"one of: {', '.join(self._positions)}")
        before = self.mode == "before"
        counts: list[str] = []
        slots: dict[str, int] = {}
        must: dict[str, tuple[str, ...]] = {}
        allowed: dict[str, tuple[str, ...]] = {}
        for play, rows in self._plays:
            mine = play.requirements_for(conditions, fixed)
            if not mine:
                continue
            counts.extend(rows[i].name for i in mine)
            if before:
                self._take(play, rows, mine, prefer, slots, must, allowed)
        return Admission(tuple(counts), slots, must, allowed, 0)

    def complete(self, admission: Admission, values: Mapping[str, str | None]) -> ItemOutcome:
        """Record the values of the item of an admission, and decide about the item.

        Args:
            admission: Admission from ``admit``, or from the previous ``ItemOutcome``.
            values: Value of the item by concept group. None or omitted if it is not recognisable.

        Raises:
            DecisionError: A value is not one of its group, or the admission is not open. The state is unchanged.
        """
        shown: dict[str, int | None] = {}
        for group, positions in self._positions.items():
            value = values.get(group)
            if value is None:
                shown[group] = None
            elif value in positions:
                shown[group] = positions[value]
            else:
                raise DecisionError(
                    f"{group} has no value {value!r}", code="label", hint=f"one of: {', '.join(positions)}, or None"
                )
        for group in values:
            if group not in self._positions:
                raise DecisionError(
                    f"there is no group {group!r}", code="label", hint=f"one of: {', '.join(self._positions)}"
                )
        return self._judge(admission, shown, failed=False)

    def fail(self, admission: Admission) -> ItemOutcome:
        """Record that the generator returned no item for an admission.

        Raises:
            DecisionError: The admission is not open.
        """
        return self._judge(admission, dict.fromkeys(self._positions), failed=True)

    def _judge(self, admission: Admission, shown: Mapping[str, int | None], *, failed: bool) -> ItemOutcome:
        concerned = []
        with self._lock:
            for play, rows in self._plays:
                mine = tuple(i for i, row in enumerate(rows) if row.name in admission.counts)
                if mine:
                    concerned.append((play, rows, mine, [play.position(i, shown) for i in mine]))
            if admission.slots or self.mode == "before":
                return self._judge_promised(admission, concerned, failed=failed)
            return ItemOutcome("ok") if failed else self._judge_first(admission, concerned)

    def _judge_promised(self, admission: Admission, concerned: list[Any], *, failed: bool) -> ItemOutcome:
        """Decide about an item whose slots, and perhaps values, are fixed."""
        # An item may differ from its promise if all deadlines can still be kept.
        wrong: list[tuple[ComponentSolver, tuple[_SpecificationState, ...], tuple[int, ...], list[int]]] = []
        for play, rows, mine, kinds in concerned:
            slots = [self._slot(admission, rows[i]) for i in mine]
            promised = [rows[i].deadlines.promised_value(slot) for i, slot in zip(mine, slots, strict=True)]
            if not play.may_replace(mine, slots, promised, kinds):
                wrong.append((play, rows, mine, kinds))
        if wrong and admission.attempt < self.retries:
            for _play, rows, mine, _kinds in wrong:
                for i in mine:
                    rows[i].counts["asked"] += 1
            why = _explain_retry(wrong, failed)
            return ItemOutcome("retry", replace(admission, attempt=admission.attempt + 1), why)
        taken: dict[str, int] = {}
        blamed = {rows[i].name for _play, rows, mine, _kinds in wrong for i in mine}
        for _play, rows, mine, kinds in concerned:
            for i, kind in zip(mine, kinds, strict=True):
                row = rows[i]
                slot = admission.slots[row.name]
                promised = row.deadlines.promised_value(slot)
                if promised != OPEN_SLOT:
                    if row.name not in blamed:
                        row.counts["obeyed"] += kind != VOID_ITEM
                    elif kind != promised:
                        what = "failed" if failed else "unrecognised" if kind == VOID_ITEM else "disobeyed"
                        row.record_break(
                            what, _explain_disobedience(row, slot, promised, kind, admission.attempt, failed)
                        )
                row.complete(slot, kind)
                if kind != VOID_ITEM:
                    taken[row.name] = slot
        return ItemOutcome("violation" if wrong else "ok", None, _explain_retry(wrong, failed) if wrong else "", taken)

    def _judge_first(self, admission: Admission, concerned: list[Any]) -> ItemOutcome:
        """Decide about an item of an unchanged prompt. Either it or its replacement takes the next slots."""
        wrong = []
        for play, rows, mine, kinds in concerned:
            seen = tuple(i for i, kind in zip(mine, kinds, strict=True) if kind != VOID_ITEM)
            if seen and not play.may_count(seen, [kind for kind in kinds if kind != VOID_ITEM]):
                wrong.append((play, rows, mine, kinds))
        slots: dict[str, int] = {}
        if wrong:
            # The slots are reserved now, with a promise. Items accepted meanwhile cannot make the next one useless.
            must: dict[str, tuple[str, ...]] = {}
            allowed: dict[str, tuple[str, ...]] = {}
            for play, rows, mine, _kinds in concerned:
                self._take(play, rows, mine, None, slots, must, allowed)
            again = Admission(admission.counts, slots, must, allowed, 0)
            return ItemOutcome("retry", again, _explain_retry(wrong, failed=False))
        for _play, rows, mine, kinds in concerned:
            for i, kind in zip(mine, kinds, strict=True):
                if kind != VOID_ITEM:
                    slots[rows[i].name] = slot = rows[i].deadlines.admit()
                    rows[i].complete(slot, kind)
        return ItemOutcome("ok", slots=slots)

    def _take(
        self,
        play: ComponentSolver,
        rows: tuple[_SpecificationState, ...],
        mine: tuple[int, ...],
        prefer: Mapping[str, Sequence[str]] | None,
        slots: dict[str, int],
        must: dict[str, tuple[str, ...]],
        allowed: dict[str, tuple[str, ...]],
    ) -> None:
        """Assign the next slots to an item, and select the values that it must show."""
        crowded = self._alone and any(rows[i].deadlines.pending_slots for i in mine)
        any_will_do = self._alone and not crowded
        choice = play.choose(mine, prefer=prefer, any_will_do=any_will_do)
        for i in mine:
            row = rows[i]
            if crowded:
                row.record_break("in-flight", "a request was admitted before the item of another was complete")
            promise = OPEN_SLOT if choice is None else choice.promises[i]
            slots[row.name] = row.deadlines.admit(promise)
            if promise != OPEN_SLOT:
                row.counts["asked"] += 1
        if choice is not None:
            for group, values in choice.allowed.items():
                allowed[group] = values
                must[group] = values if any_will_do else (choice.values_to_ask[group],)

    def _slot(self, admission: Admission, row: _SpecificationState) -> int:
        slot = admission.slots.get(row.name)
        if slot is None:
            raise DecisionError("this admission is of another mode", code="unknown-id", location=row.name)
        return slot

    def set_seed(self, seed: int) -> None:
        """Set the seed of the next choices among equally urgent values, so that they can be replayed."""
        self._random.seed(seed)

    # ---- state and counts

    def state(self) -> dict[str, dict[str, Any]]:
        """Return one row per specification, as plain JSON values."""
        with self._lock:
            return {name: row.state() for name, row in self._rows.items()}

    def restore(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore a state. Omitted specifications are unchanged.

        Raises:
            DecisionError: A row belongs to an unknown specification, or to another one.
        """
        for name in state:
            if name not in self._rows:
                raise DecisionError(
                    f"there is no specification {name!r}", code="state", hint=f"one of: {', '.join(self._rows)}"
                )
        with self._lock:
            for name, row in state.items():
                self._rows[name].restore(row)

    def items_until_due(self) -> dict[str, dict[str, int]]:
        """Count the items left until each value must have appeared, by specification, including the next item."""
        return {
            name: {label: due - row.deadlines.items for label, due in zip(row.labels, row.deadlines.due, strict=True)}
            for name, row in self._rows.items()
        }

    def overdue(self) -> dict[str, dict[str, int]]:
        """Return the overdue values by specification, with the item by which each was due."""
        return {name: {row.labels[k]: due for k, due in row.deadlines.overdue()} for name, row in self._rows.items()}

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Counts by specification: instructions, obeyed instructions, broken assumptions, missed deadlines."""
        return {name: dict(row.counts) for name, row in self._rows.items()}

    @property
    def broken_assumptions(self) -> tuple[BrokenAssumption, ...]:
        """Latest broken assumptions and missed deadlines, in their order."""
        return tuple(BrokenAssumption(row.name, what, why) for row in self._rows.values() for what, why in row.reasons)

    def guarantee(self, samples: Mapping[str, ConfusionMatrix] | None = None) -> str:
        """Describe the current guarantee, its assumptions, and the assumptions that did not hold.

        Args:
            samples: Labelled samples by group, or by groups joined with `` + ``. If None, the samples of the
                configuration are read.

        Raises:
            DataError: A sample cannot be read.
        """
        return describe_guarantee(self, samples)


def _explain_retry(wrong: list[Any], failed: bool) -> str:
    if failed:
        return "there is no item, and one is needed"
    said = []
    for _play, rows, mine, kinds in wrong:
        for i, kind in zip(mine, kinds, strict=True):
            what = "no recognisable value" if kind == VOID_ITEM else repr(rows[i].labels[kind])
            said.append(f"{rows[i].name}: {what} would let a deadline be missed")
    return "; ".join(said)


def _explain_disobedience(
    row: _SpecificationState, slot: int, promised: int, kind: int, attempt: int, failed: bool
) -> str:
    wanted = "what it had to" if promised == OPEN_SLOT else repr(row.labels[promised])
    shown = "no item" if failed else "nothing recognisable" if kind == VOID_ITEM else repr(row.labels[kind])
    times = f"{attempt + 1} attempt{'s' if attempt else ''}"
    return f"slot {slot} did not show {wanted} in {times}, but {shown}"


# Description of the guarantee.


BROKEN_TEXTS = {
    "disobeyed": ("item", "items", "not showing what had to be shown, after all retries"),
    "unrecognised": ("item", "items", "not recognisable where something had to be shown, after all retries"),
    "failed": ("item", "items", "not made where something had to be shown, after all retries"),
    "in-flight": ("request", "requests", "admitted before the one before was complete, against what was said"),
    "missed": ("deadline", "deadlines", "missed"),
}
"""Singular, plural and description of each kind of broken assumption."""


def describe_guarantee(enforcer: Enforcer, samples: Mapping[str, ConfusionMatrix] | None = None) -> str:
    """Describe the current guarantee, its assumptions, and the assumptions that did not hold.

    Args:
        enforcer: Enforcer with the counts so far.
        samples: Labelled samples. If None, the samples of the configuration are read.
    """
    lines = []
    counts, overdue = enforcer.counts, enforcer.overdue()
    labels = {one.specification: one for one in specification_success(enforcer.configuration, samples)}
    for one in enforcer.configuration.requirements:
        if one.repeated is None:
            lines.append(f"{one.name}: every value eventually; nothing is enforced for that")
            continue
        same = len(set(one.repeated)) == 1
        by = (
            f"every value within {one.repeated[0]} items"
            if same
            else ", ".join(f"{name} within {d}" for name, d in zip(one.labels, one.repeated, strict=True))
        )
        lines.append(f"{one.name}: {by}, again and again")
        found = counts[one.name]
        if found["asked"]:
            lines.append(f"  {found['obeyed']} of {found['asked']} attempts at what had to be shown worked")
        broken = [
            f"{format_count(found[what], one_of, several)} {said}"
            for what, (one_of, several, said) in BROKEN_TEXTS.items()
            if found[what]
        ]
        lines.append(
            f"  {'; '.join(broken)}" if broken else "  all assumptions held so far, and no deadline was missed"
        )
        if overdue[one.name]:
            late = ", ".join(f"{value}, which was due by item {due}" for value, due in overdue[one.name].items())
            lines.append(f"  overdue: {late}")
        lines.append(f"  {labels[one.name].statement()}")
        lines.extend(f"    {value.statement()}" for value in labels[one.name].values)
    tries = enforcer.retries + 1
    lines.append("Assumed:")
    lines.append(f"  an item that must show something does within {tries} attempt{'s' if tries > 1 else ''}")
    lines.extend(f"    {line}" for line in _describe_success(enforcer))
    if enforcer.slack:
        late = f"{enforcer.slack} slot{'s' if enforcer.slack > 1 else ''}"
        lines.append(f"  or its failure, and what was admitted before it was known, takes at most {late}: the slack")
    lines.append(
        "  which requests the conditions hold for is recognised, and labels are right unless said otherwise above"
    )
    if enforcer.mode == "before":
        lines.append("  every request that is admitted is completed; the order is that of the requests")
    else:
        lines.append("  every item is completed; the order is that in which they were first looked at")
    return "\n".join(lines)


def _describe_success(enforcer: Enforcer) -> list[str]:
    """Describe the success rate of instructions, and its consequences for retries and slack."""
    configuration = enforcer.configuration
    success = AttemptSuccess.from_counts(configuration, enforcer.counts)
    lines = [success.statement()] if success.rate else []
    for about in split_specifications(configuration, success):
        if success.of(about).least <= 0:
            continue
        now = bound_misses(
            configuration,
            success,
            retries=enforcer.retries,
            slack=enforcer.slack,
            in_flight=enforcer.in_flight,
            about=about,
        )
        lines.append(now.statement())
        if not now.enough:
            better = choose_retries(configuration, success, in_flight=enforcer.in_flight, about=about)
            lines.append(
                f"none are enough: {better.reason}"
                if isinstance(better, Unknown)
                else f"enough are {better.statement()}"
            )
    return lines
