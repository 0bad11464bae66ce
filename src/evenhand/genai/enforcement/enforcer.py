"""Enforcer, which decides when a prompt must request values so that every deadline is kept.

The enforcer is a pure state machine. It calls no generator and reads no clock. Its state is one small row per
specification, which a store can keep. Threads may share an enforcer, since its operations are atomic.

The enforcer is least restrictive: a prompt is left unchanged unless an outcome would leave the states from which every
deadline can be kept. In mode ``before``, this is decided when a request is admitted, which also fixes its slot. A
pending item counts as showing nothing, or its promised value. In mode ``after``, an item is generated and classified
first. Then its slot is fixed. If the item would leave these states, another one is generated with a promised value.
Deadlines are kept in the order of slots.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from pydantic import TypeAdapter

from evenhand.core.coroutines import never_blocks
from evenhand.core.text import format_count
from evenhand.errors import DecisionError, OptionError
from evenhand.genai.classifiers.confusion import specification_success
from evenhand.genai.enforcement.component import BROKEN_TEXTS, OPEN_SLOT, VOID_ITEM, ComponentSolver, SpecificationState
from evenhand.genai.games.feasibility import check_feasibility, find_components
from evenhand.genai.games.retries import AttemptSuccess, rate_retries
from evenhand.genai.spec.entries import check_known
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.stats.quantity import Unknown

if TYPE_CHECKING:
    from evenhand.genai.classifiers.confusion import ConfusionMatrix


EnforcerMode: TypeAlias = Literal["before", "after"]
Status: TypeAlias = Literal["ok", "retry", "violation"]

Instruction: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Admission:
    """Admitted request, to be passed back with its item.

    Attributes:
        counts: Specifications that count the item.
        slots: Slot of the item by specification. Empty in mode ``after`` until the item is classified.
        must: Values that the prompt must request, by concept group. Any of them suffices. Empty if there are none.
        allowed: Values from which ``must`` was chosen.
        attempt: Number of previous items that did not show the requested values.
        reason: Explanation of the required values. Empty if there are none.
    """

    counts: tuple[str, ...]
    slots: Mapping[str, int]
    must: Instruction
    allowed: Instruction
    attempt: int
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        values: dict[str, Any] = ADMISSION.dump_python(self, mode="json")
        return values


ADMISSION = TypeAdapter(Admission)
"""Reader of the results of ``Admission.to_dict``."""


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

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        values: dict[str, Any] = OUTCOME.dump_python(self, mode="json")
        return values


OUTCOME = TypeAdapter(ItemOutcome)
"""Reader of the results of ``ItemOutcome.to_dict``."""


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


class _ComponentItem(NamedTuple):
    """Component, with the specifications for which an item counts, their positions, and those of the item's values."""

    solver: ComponentSolver
    rows: list[SpecificationState]
    mine: tuple[int, ...]
    kinds: list[int]


class Enforcer:
    """State machine that keeps every deadline of a configuration while its stated assumptions hold.

    Args:
        configuration: Configuration, in a form that ``GenerationConfig.read`` accepts.
        mode: ``before``: request values in the prompt where necessary; ``after``: classify items first, and repeat
            those that do not fit.
        seed: Seed of the choice among equally urgent values.
        retries: Maximum number of repetitions of an item that does not show the requested values. If None, the value
            in the configuration is used.
        slack: Number of items by which deadlines are kept early, which is also the number of useless items that are
            tolerated. If None, the value in the configuration is used.
        in_flight: 1 if every item is complete before the next request is admitted, so that any allowed value suffices.
            None for any number.

    Attributes:
        random: Random numbers of the choices. Set its seed to repeat choices.

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
        read = GenerationConfig.read(configuration)
        check_known(mode, get_args(EnforcerMode), "mode", "mode")
        self.configuration = read
        self.mode: EnforcerMode = mode
        self.retries = read.simulation.retries if retries is None else retries
        self.slack = read.simulation.slack if slack is None else slack
        for name, number in (("retries", self.retries), ("slack", self.slack)):
            if number < 0:
                raise OptionError(f"{name} must be nonnegative, got {number}", location=name)
        feasibility = check_feasibility(read, slack=self.slack)
        if not feasibility.feasible:
            raise OptionError(feasibility.refusal, location="specifications", hint=feasibility.hint)
        self.in_flight = in_flight
        self._alone = in_flight == 1
        self.random = Random(seed)
        self._lock = RLock()
        self._components = [ComponentSolver(component, self.slack, self.random) for component in find_components(read)]
        self._rows = {row.name: row for solver in self._components for row in solver.rows}
        self._values = read.values
        self._conditions = tuple(sorted(condition.name for condition in read.conditions))

    @never_blocks
    def admit(self, conditions: Collection[str], *, fixed: Collection[str] = ()) -> Admission:
        """Admit a request: assign the slots of its item, and select the values that its prompt must request.

        Args:
            conditions: Names of the conditions that hold for the request.
            fixed: Concept groups whose value is fixed by the prompt. The item is not counted for these groups.

        Raises:
            OptionError: A condition or a group is unknown.
        """
        with self._lock:
            for condition in conditions:
                check_known(condition, self._conditions, "condition")
            for group in fixed:
                check_known(group, self._values, "group")
            counting = [
                (solver, mine) for solver in self._components if (mine := solver.requirements_for(conditions, fixed))
            ]
            counts = tuple(solver.rows[i].name for solver, mine in counting for i in mine)
            return self._take(counts, counting) if self.mode == "before" else Admission(counts, {}, {}, {}, 0)

    @never_blocks
    def complete(self, admission: Admission, values: Mapping[str, str | None] | None) -> ItemOutcome:
        """Record the values of an admission's item, and decide whether to deliver it.

        Args:
            admission: Admission from ``admit``, or from the previous ``ItemOutcome``.
            values: Value of the item by concept group. None or omitted if it is not recognised. If None, there is no
                item.

        Raises:
            DecisionError: A value does not belong to its group, or the admission is not open. The state is unchanged.
        """
        failed = values is None
        for group, value in (values or {}).items():
            known = self._values.get(group)
            if known is None:
                raise DecisionError(
                    f"there is no group {group!r}", code="label", hint=f"one of: {', '.join(self._values)}"
                )
            if value is not None and value not in known:
                raise DecisionError(
                    f"{group} has no value {value!r}", code="label", hint=f"one of: {', '.join(known)}, or None"
                )
        items: list[_ComponentItem] = []
        with self._lock:
            for solver in self._components:
                mine = tuple([i for i, row in enumerate(solver.rows) if row.name in admission.counts])
                if mine:
                    rows, kinds = [solver.rows[i] for i in mine], solver.positions(mine, values or {})
                    items.append(_ComponentItem(solver, rows, mine, kinds))
            if admission.slots or self.mode == "before":
                return self._judge_promised(admission, items, failed=failed)
            return self._judge_first(admission, items)

    def _judge_promised(self, admission: Admission, items: list[_ComponentItem], *, failed: bool) -> ItemOutcome:
        """Decide about an item whose slots, and perhaps values, are fixed."""
        wrong: list[_ComponentItem] = []
        for item in items:
            for row in item.rows:
                if row.name not in admission.slots:
                    message = "this admission belongs to a different mode"
                    raise DecisionError(message, code="unknown-id", location=row.name)
            # An item may break its promise if all deadlines can still be kept.
            if not item.solver.may_replace(item.mine, [admission.slots[row.name] for row in item.rows], item.kinds):
                wrong.append(item)
        reason = _explain_retry(wrong, failed) if wrong else ""
        if wrong and admission.attempt < self.retries:
            for item in wrong:
                for row in item.rows:
                    row.counts["asked"] += 1
            return ItemOutcome("retry", replace(admission, attempt=admission.attempt + 1), reason)
        slots: dict[str, int] = {}
        for item in items:
            for row, kind in zip(item.rows, item.kinds, strict=True):
                slot = admission.slots[row.name]
                row.complete(slot, kind, admission.attempt, blamed=item in wrong, failed=failed)
                if kind != VOID_ITEM:
                    slots[row.name] = slot
        return ItemOutcome("violation" if wrong else "ok", None, reason, slots)

    def _judge_first(self, admission: Admission, items: list[_ComponentItem]) -> ItemOutcome:
        """Decide about an item of an unchanged prompt. Either it or its replacement takes the next slots."""
        wrong: list[_ComponentItem] = []
        for item in items:
            shown = [(i, kind) for i, kind in zip(item.mine, item.kinds, strict=True) if kind != VOID_ITEM]
            if shown and not item.solver.may_count(tuple(i for i, _ in shown), [kind for _, kind in shown]):
                wrong.append(item)
        if wrong:
            # The slots are reserved now, with a promise. Items accepted meanwhile cannot make the next one useless.
            reserved = self._take(admission.counts, [(item.solver, item.mine) for item in items])
            return ItemOutcome("retry", reserved, _explain_retry(wrong, failed=False))
        slots: dict[str, int] = {}
        for item in items:
            for row, kind in zip(item.rows, item.kinds, strict=True):
                if kind != VOID_ITEM:
                    slots[row.name] = slot = row.admit()
                    row.complete(slot, kind)
        return ItemOutcome("ok", slots=slots)

    def _take(self, counts: tuple[str, ...], counting: Sequence[tuple[ComponentSolver, tuple[int, ...]]]) -> Admission:
        """Assign the next slots to an item, and select the values that it must show."""
        slots: dict[str, int] = {}
        must: dict[str, tuple[str, ...]] = {}
        allowed: dict[str, tuple[str, ...]] = {}
        reasons: list[str] = []
        for solver, mine in counting:
            crowded = self._alone and any(solver.rows[i].pending_slots for i in mine)
            any_will_do = self._alone and not crowded
            choice = solver.choose(mine, any_will_do=any_will_do)
            for i in mine:
                row = solver.rows[i]
                if crowded:
                    row.record_break("in-flight", "a request was admitted before another item was complete")
                promise = OPEN_SLOT if choice is None else choice.promises[i]
                slots[row.name] = row.admit(promise)
                if promise != OPEN_SLOT:
                    row.counts["asked"] += 1
            if choice is not None:
                for group, values in choice.allowed.items():
                    allowed[group] = values
                    reasons.append(f"{group}: only {', '.join(values)} now lets every deadline be kept")
                    must[group] = values if any_will_do else (choice.values_to_ask[group],)
        return Admission(counts, slots, must, allowed, 0, "; ".join(reasons))

    # ---- state and counts

    def state(self) -> dict[str, dict[str, Any]]:
        """Return one row per specification, as plain JSON values."""
        with self._lock:
            return {name: row.state() for name, row in self._rows.items()}

    def restore(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore a state. Omitted specifications are unchanged; unknown or different ones raise a DecisionError."""
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
            name: {label: due - row.items for label, due in zip(row.labels, row.due, strict=True)}
            for name, row in self._rows.items()
        }

    def overdue(self) -> dict[str, dict[str, int]]:
        """Return the overdue values by specification, with the item by which each was due."""
        return {name: row.overdue() for name, row in self._rows.items()}

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Counts by specification: instructions, obeyed instructions, broken assumptions, missed deadlines."""
        return {name: dict(row.counts) for name, row in self._rows.items()}

    @property
    def broken_assumptions(self) -> tuple[BrokenAssumption, ...]:
        """Latest broken assumptions and missed deadlines, in chronological order."""
        return tuple(BrokenAssumption(row.name, what, why) for row in self._rows.values() for what, why in row.reasons)

    def guarantee(self, samples: Mapping[str, ConfusionMatrix] | None = None) -> str:
        """Describe the current guarantee, its assumptions, and the assumptions that did not hold.

        Args:
            samples: Labelled samples by group, or by groups joined with `` + ``. If None, the samples of the
                configuration are read.

        Raises:
            DataError: A sample cannot be read.
        """
        configuration, overdue = self.configuration, self.overdue()
        labels = {success.specification: success for success in specification_success(configuration, samples)}
        lines = []
        for requirement in configuration.requirements:
            name, deadlines = requirement.name, requirement.deadline_by_label
            if not deadlines:
                lines.append(f"{name}: every value eventually, which is not enforced")
                continue
            text = ", ".join(f"{label} within {deadline}" for label, deadline in deadlines.items())
            if len(set(deadlines.values())) == 1:
                text = f"every value within {deadlines[requirement.labels[0]]} items"
            lines.append(f"{name}: {text}, repeatedly")
            counts = self.counts[name]
            if counts["asked"]:
                lines.append(f"  {counts['obeyed']} of {counts['asked']} attempts at required values succeeded")
            broken = [
                f"{format_count(counts[kind], singular, plural)} {text}"
                for kind, (singular, plural, text) in BROKEN_TEXTS.items()
                if counts[kind]
            ]
            lines.append(f"  {'; '.join(broken) or 'all assumptions held so far, and no deadline was missed'}")
            if overdue[name]:
                late = ", ".join(f"{value}, which was due by item {due}" for value, due in overdue[name].items())
                lines.append(f"  overdue: {late}")
            lines.append(f"  {labels[name].statement()}")
            lines.extend(f"    {value.statement()}" for value in labels[name].values)
        attempts = format_count(self.retries + 1, "attempt", "attempts")
        lines += ["Assumed:", f"  an item shows the required values within {attempts}"]
        lines.extend(f"    {line}" for line in self._describe_success())
        if self.slack:
            late = format_count(self.slack, "slot", "slots")
            lines.append(
                f"  or its failure, and the requests admitted before it was known, take at most {late}: the slack"
            )
        lines.append(
            "  the conditions of requests are recognised, and labels are correct unless stated otherwise above"
        )
        lines.append(
            "  every admitted request is completed; items count in the order of their requests"
            if self.mode == "before"
            else "  every item is completed; items count in the order in which they were first classified"
        )
        return "\n".join(lines)

    def _describe_success(self) -> list[str]:
        """Describe the success rate of instructions, and its consequences for retries and slack."""
        configuration = self.configuration
        success = AttemptSuccess.from_counts(configuration, self.counts)
        if not success.rate:
            return []
        lines = [success.statement()]
        for now, enough in rate_retries(
            configuration, success, retries=self.retries, slack=self.slack, in_flight=self.in_flight
        ):
            # The success rate of the instructions is unknown: they may always fail.
            if now.failing < 1:
                lines.append(now.statement())
                if not now.enough:
                    lines.append(
                        f"none is sufficient: {enough.reason}"
                        if isinstance(enough, Unknown)
                        else f"sufficient: {enough.statement()}"
                    )
        return lines


def _explain_retry(wrong: Sequence[_ComponentItem], failed: bool) -> str:
    if failed:
        return "there is no item, but one is required"
    reasons = []
    for item in wrong:
        for row, kind in zip(item.rows, item.kinds, strict=True):
            value = "no recognisable value" if kind == VOID_ITEM else repr(row.labels[kind])
            reasons.append(f"{row.name}: {value} would cause a missed deadline")
    return "; ".join(reasons)
